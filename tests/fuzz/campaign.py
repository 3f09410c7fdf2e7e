"""The campaign: a process for each target reads one input after another; what it dies
of is a finding, too."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import math
import os
import shutil
import signal
import sys
import time
import warnings
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .judge import judged, limit_addresses
from .mutation import mutations
from .targets import TARGETS, folder_of_inputs

# of one input, after which a process hangs; the judge counts processor time alone
SILENT_SECONDS = 300
MOST_DEATHS = 10  # of processes, after which a target is given up


@dataclass
class Result:
    """What came of one target."""

    inputs: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    skipped: str = ""


def line_of(name: str, result: Result) -> str:
    """Return the line of a target: inputs, inputs/s, findings."""
    if result.skipped:
        return f"{name:17}skipped: {result.skipped}"
    rate = result.inputs / max(result.seconds, 1e-9)
    findings = "".join(f"\n    {finding}" for finding in result.findings)
    return f"{name:17}{result.inputs:8} inputs {rate:7.0f}/s, {len(result.findings)} findings{findings}"


def run(
    name: str, seed: int, runs: int | None = None, until: float = math.inf
) -> Result:
    """Run one target: let one process after another read, for of some inputs a process
    dies.

    runs: inputs of a target; None: without such a limit. until: when it ends at the
    latest, of time.monotonic; an input is read in any case.
    """
    missing = [
        name
        for name in TARGETS[name].needs
        if not (importlib.util.find_spec(name) or shutil.which(name))
    ]
    if missing:
        return Result(skipped=f"{missing[0]} is not installed")
    result = Result()
    began = time.monotonic()
    if runs is None:
        most = math.inf
    else:
        most = -(-runs // TARGETS[name].cost)
    with folder_of_inputs() as folder:
        for deaths in range(MOST_DEATHS):
            process = os.fork()
            if not process:
                _read_inputs(name, folder, seed + deaths, most - result.inputs, until)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            result.inputs += int((folder / "count").read_text() or 0)
            result.findings += (folder / "findings").read_text().splitlines()
            if not code:
                break
            result.findings.append(
                _kept(name, _death(code, folder), (folder / "current").read_bytes())
            )
    result.seconds = time.monotonic() - began
    return result


def _read_inputs(name: str, folder: Path, seed: int, most: float, until: float) -> None:
    """Read inputs until the time is over or there were enough, and end this process."""
    target = TARGETS[name]
    places = set()
    parent = os.getppid()
    current = os.open(folder / "current", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    count = os.open(folder / "count", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    stderr = os.open(folder / "stderr", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(stderr, 1)
    os.dup2(stderr, 2)
    code = 1
    try:
        with (folder / "findings").open("w") as findings:
            _quieten()
            limit_addresses()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for number, data in enumerate(
                mutations(name, target.seeds(), target.words, seed), 1
            ):
                (folder / target.file).write_bytes(data)
                # for a process that dies of it
                os.ftruncate(current, os.pwrite(current, data, 0))
                signal.alarm(SILENT_SECONDS)
                finding = judged(target, folder / target.file)
                if finding and finding.place not in places:
                    places.add(finding.place)
                    print(_kept(name, finding.what, data), file=findings, flush=True)
                os.pwrite(count, b"%d" % number, 0)
                if (
                    number >= most
                    or time.monotonic() >= until
                    or os.getppid() != parent
                ):
                    break
        code = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(code)


class AtOnce(Executor):
    """An executor whose work is done when it is submitted: threads would take most of
    the time of a small input."""

    def __init__(self, *_):
        pass

    def submit(self, function, *arguments) -> Future:
        """Call the function."""
        future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


def _quieten() -> None:
    """Leave out what readers say, and their threads."""
    warnings.simplefilter("ignore")
    logging.disable()
    for module in [*sys.modules.values()]:
        if getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor:
            module.ThreadPoolExecutor = AtOnce


def _death(code: int, folder: Path) -> str:
    """Return why a process has died: the signal, or its last lines."""
    if code < 0:
        name = signal.Signals(-code).name
        return f"ended by {name}{' after a silence' if code == -signal.SIGALRM else ''}"
    text = (folder / "stderr").read_text(errors="replace")
    lines = []
    for line in text.splitlines():
        if line.strip() and len(line) < 500:
            lines.append(line.strip())
    return f"exit code {code}: {' | '.join(lines[-8:])}"


def _kept(name: str, what: str, data: bytes) -> str:
    """Keep an input in the current folder; return the line that says what is wrong with
    it."""
    digest = hashlib.sha256(data).hexdigest()
    kept = f"finding-{name}-{digest[:8]}"
    Path(kept).write_bytes(data)
    return f"{kept}: {what}"
