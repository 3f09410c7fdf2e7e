"""The campaign: starts a worker for each target, and gathers what it tells."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from .targets import TARGETS, folder_of_inputs

SILENT_SECONDS = 300  # after which a worker hangs; on a busy machine its start alone may take one
MOST_DEATHS = 10  # of workers, after which a target is given up


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
    found = "".join(f"\n    {finding}" for finding in result.findings)
    return f"{name:17}{result.inputs:8} inputs {rate:7.0f}/s, {len(result.findings)} findings{found}"


@dataclass
class Campaign:
    """How targets are run. runs: inputs of each; None: without such a limit."""

    seed: int
    runs: int | None = None

    def run(self, name: str, until: float | None = None) -> Result:
        """Run one target. until: when it ends at the latest, of time.monotonic; an input is read in any case."""
        missing = [name for name in TARGETS[name].needs if not (importlib.util.find_spec(name) or shutil.which(name))]
        if missing:
            return Result(skipped=f"{missing[0]} is not installed")
        with folder_of_inputs() as folder:
            return self._watch(name, folder, until)

    def _watch(self, name: str, folder: Path, until: float | None) -> Result:
        """Let one worker after another read until the end: of some inputs a worker dies."""
        whole = Result()
        for deaths in range(MOST_DEATHS):
            runs = self.runs and -(-self.runs // TARGETS[name].cost) - whole.inputs
            result, why = self._watch_worker(name, folder, self._command(name, folder, until, runs, self.seed + deaths))
            whole.inputs, whole.seconds = whole.inputs + result.inputs, whole.seconds + result.seconds
            whole.findings += result.findings
            if why is None:
                break
            _keep(name, whole, why, folder / "current")
        return whole

    def _watch_worker(self, name: str, folder: Path, command: list[str]) -> tuple[Result, str | None]:
        """Start a worker, and end it where it hangs. Return what came of it, and why it has died."""
        result = Result()
        with open(folder / "stderr", "wb") as stderr:
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=_environment())
            timer = _Silence(worker)
            try:
                for line in worker.stdout:
                    timer.heard()
                    _take(name, result, json.loads(line), folder)
                code = worker.wait()
            finally:
                timer.stop()
                worker.kill()
                worker.wait()
        told = (folder / "stderr").read_bytes().decode(errors="replace")
        why = _death(code, told) if code else None
        return result, f"{why} after a silence" if why and timer.has_rung else why

    def _command(self, name: str, folder: Path, until: float | None, runs: int | None, seed: int) -> list[str]:
        command = [sys.executable, "-m", f"{__package__}.worker", "--target", name, "--folder", str(folder)]
        command += ["--seed", str(seed)]
        command += [] if runs is None else ["--runs", str(runs)]
        return command + ([] if until is None else ["--until", str(until)])


def _death(code: int, told: str) -> str:
    """Return why a worker has died: the signal, or its last lines."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = [line.strip() for line in told.splitlines() if line.strip() and len(line) < 500]
    return f"exit code {code}: {' | '.join(lines[-8:])}"


def _take(name: str, result: Result, facts: dict, folder: Path) -> None:
    """Add what a worker tells in one line."""
    if "finding" in facts:
        _keep(name, result, facts["finding"], folder / facts["file"])
    else:
        result.inputs, result.seconds = facts["inputs"], facts["seconds"]


def _keep(name: str, result: Result, what: str, file: Path) -> None:
    data = file.read_bytes() if file.exists() else b""
    kept = f"finding-{name}-{hashlib.sha256(data).hexdigest()[:8]}"
    Path(kept).write_bytes(data)
    result.findings.append(f"{kept}: {what}")


def _environment() -> dict[str, str]:
    """Return the environment of a worker: it imports what this process imports."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class _Silence:
    """Kills a process that has not been heard of for too long."""

    def __init__(self, process: subprocess.Popen):
        self._process, self.has_rung = process, False
        self._timer = threading.Timer(0, lambda: None)
        self.heard()

    def heard(self) -> None:
        self._timer.cancel()
        self._timer = threading.Timer(SILENT_SECONDS, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        self.has_rung = True
        self._process.kill()

    def stop(self) -> None:
        self._timer.cancel()
