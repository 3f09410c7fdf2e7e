"""Faults on demand: a process in which the n-th call of a kind fails, for all n
(faults.c).

Run as a program it is that process: it runs a command for every n of each kind and
prints what came of it, a JSON object a line.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
KINDS = (
    "core_allocation",
    "large_allocation",
    "create",
    "write",
    "fsync",
    "rename",
    "read",
)
MOST = 2000  # calls of a kind in one command: more would take too long


@dataclass
class Outcome:
    """What came of a command in which the n-th call of a kind failed; n = 0: none
    did."""

    kind: str
    n: int
    code: int
    out: str
    err: str
    # name -> content, decoded as Latin-1
    files: dict[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The lines of stderr."""
        return self.err.splitlines()


@cache
def _folder() -> tempfile.TemporaryDirectory:
    """Return a folder with faults.so, the interposer."""
    folder = tempfile.TemporaryDirectory(prefix="faults")
    built = Path(folder.name) / "faults.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run(
        [*compiler, "-O1", "-shared", "-fPIC", "-o", built, SOURCE, "-ldl"], check=True
    )
    return folder


def outcomes(
    kinds: Sequence[str], command: list[str], folder: Path, *, lasting: bool = False
) -> list[Outcome]:
    """Run `nn COMMAND` in copies of the folder, once for every call of each kind that
    it makes, which fails; of each kind the first outcome is the one in peace.

    lasting: all calls after the n-th fail too.
    """
    from support.command_line import environment

    variables = environment(
        LD_PRELOAD=str(Path(_folder().name, "faults.so")),
        NN_FAULTS=json.dumps([kinds, lasting]),
    )
    program = [sys.executable, str(Path(__file__)), *map(str, command)]
    done = subprocess.run(
        program, cwd=folder, env=variables, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (
        f"after {done.stdout[-500:]}: {done.returncode}\n{done.stderr[-2000:]}"
    )
    return [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]


def _main(command: list[str]) -> None:
    kinds, lasting = json.loads(os.environ["NN_FAULTS"])
    original = Path.cwd()
    for kind in kinds:
        os.chdir(original)
        _fail_each(kind, lasting, command)


def _fail_each(kind: str, lasting: bool, command: list[str]) -> None:
    """Run the command of the current folder in copies of it, for every n."""
    number = KINDS.index(kind)
    library = ctypes.CDLL(None)
    arm = library.faults_arm
    calls = library.faults_calls
    arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    calls.restype = ctypes.c_long
    if "allocation" in kind:
        error = errno.ENOMEM
    elif kind in ("fsync", "read"):
        error = errno.EIO
    else:
        error = errno.ENOSPC
    original = Path.cwd()
    copy = Path.cwd().parent / "copy"

    from support.command_line import run

    for n in range(MOST):  # 0: nothing fails, and all is imported
        os.chdir(original)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        os.chdir(copy)
        if n == 0:  # no call fails
            arm(number, -1, -1, error)
        elif lasting:
            arm(number, n, MOST * 1000, error)
        else:
            arm(number, n, n, error)
        result = run(*command)
        made = calls(number)
        arm(number, -1, -1, 0)
        if made < n:  # the command makes fewer calls: all of them have failed once
            return
        files = [path.relative_to(copy) for path in copy.rglob("*") if path.is_file()]
        contents = {str(path): path.read_bytes().decode("latin-1") for path in files}
        print(json.dumps(asdict(Outcome(kind, n, *result, contents))), flush=True)
    raise SystemExit(f"more than {MOST} calls")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    _main(sys.argv[1:])
