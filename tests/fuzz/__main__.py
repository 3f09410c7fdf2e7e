"""`python -m tests.fuzz`: reads what strangers may have written, target after target.

    python -m tests.fuzz                            a minute, shared by all targets
    python -m tests.fuzz --target csv --runs 10000  one target
    python -m tests.fuzz --minutes 60               an hour
    python -m tests.fuzz --target csv FILE...       these inputs again

Each target gets a process of its own, whose inputs are changed at random. A finding is
kept in the current folder as finding-TARGET-...; any finding ends the run with 1.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from pathlib import Path

# before NumPy and nn are imported
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from .campaign import line_of, run
from .judge import judged
from .targets import TARGETS, folder_of_inputs


def main() -> int:
    """Run the targets that are asked for; print a line for each."""
    given = _options()
    names = given.target or [*TARGETS]
    if given.files:
        return _replay(names[0], given.files)
    if given.seed is None:
        seed = random.randrange(2**31)
    else:
        seed = given.seed
    minutes = given.minutes or (1.0 if given.runs is None else math.inf)
    print(f"inputs changed at random; --seed {seed}", flush=True)
    begun = time.monotonic()
    findings = 0
    for number, name in enumerate(names, 1):
        result = run(name, seed, given.runs, begun + 60 * minutes * number / len(names))
        print(line_of(name, result), flush=True)
        findings += len(result.findings)
    if findings:
        return 1
    return 0


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument(
        "--target", action="append", choices=[*TARGETS], help="all without it"
    )
    options.add_argument("--minutes", type=float, help="of all targets together (1)")
    options.add_argument(
        "--runs",
        type=int,
        help="inputs of each target; fewer of one whose inputs take long",
    )
    options.add_argument(
        "--seed",
        type=int,
        help="of the changes at random; printed where it is not given",
    )
    options.add_argument(
        "files", nargs="*", type=Path, help="inputs of the one --target to read again"
    )
    given = options.parse_args()
    if given.files and len(given.target or ()) != 1:
        options.error("files are inputs of one target: give --target")
    return given


def _replay(name: str, files: list[Path]) -> int:
    """Read files again; print what is wrong with each."""
    code = 0
    for file in files:
        with folder_of_inputs() as folder:
            path = folder / TARGETS[name].file
            path.write_bytes(file.read_bytes())
            finding = judged(TARGETS[name], path)
        print(
            f"{file}: {finding.what if finding else 'read or refused, as it should be'}"
        )
        if finding:
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
