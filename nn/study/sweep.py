"""--sweep: train one network after another as a plan says, and write a line of figures for each.

plan.py reads the plan, entry.py runs it for one network, results.py keeps the figures. Each entry runs
in a process of its own: what it needs in memory is its own, and whatever ends it ends only it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..terminal import tables
from ..utils import UsageError
from .entry import load_data, run_entry
from .plan import Entry, read_plan
from .results import COLUMNS, OK, RESULTS, collect, read_results

__all__ = ["COLUMNS", "OK", "Entry", "collect", "load_data", "read_plan", "read_results", "report", "sweep"]

STOPPED = {code for signum in (signal.SIGINT, signal.SIGTERM) for code in (-signum, 128 + signum)}


def sweep(plan: str, results: str, say: Callable[[str], None] | None = None) -> list[dict]:
    """Run the entries of a plan that `results` does not hold yet, or of PLAN:N the one of index N; all results then.

    say: is told what runs, in a line. Raises InputNotFound, DataError, UsageError, OutputError.
    """
    path, _, number = plan.rpartition(":")
    is_one = number.isdecimal() and not os.path.exists(plan)
    entries = read_plan(path if is_one else plan)
    if is_one:
        if int(number) >= len(entries):
            raise UsageError(f"--sweep {plan}: {path} has {len(entries)} entries, expected 0 to {len(entries) - 1}")
        entries = [entries[int(number)]]
    done = {row["entry"] for row in read_results(results)} if os.path.exists(results) else set()
    for number, entry in enumerate(entries, 1):
        if entry.name in done:
            continue
        if say:
            say(f"{number}/{len(entries)}: {entry.describe()}")
        if is_one:
            RESULTS.append(results, [run_entry(entry)])
        else:
            _run_apart(plan, results, entry)
    return read_results(results)


# `-m nn` would take a folder nn beside the caller for the package, such as this project's own sources
LAUNCH = "import sys; sys.path = [path for path in sys.path if path]; from nn.__main__ import main; sys.exit(main())"


def _run_apart(plan: str, results: str, entry: Entry) -> None:
    """Run an entry in a process of its own, which adds its line; where it could not, the line says why."""
    package = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    flags = ["--sweep", f"{plan}:{entry.index}", "-o", results, "--quiet"]
    ended = subprocess.run(
        [sys.executable, "-c", LAUNCH, *flags],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if ended.returncode in STOPPED:  # from outside, and the sweep with it
        raise KeyboardInterrupt
    if ended.returncode < 0:
        reason = f"ended by signal {-ended.returncode}" + (": out of memory?" if ended.returncode == -9 else "")
    else:
        reason = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1].removeprefix("nn: ")
    if ended.returncode:
        RESULTS.append(results, [{**entry.facts(), "status": reason}])


def report(rows: list[dict]) -> None:
    """Print the results as a table."""
    headers = ["layers", "backend", "threads", "batch", "parameters", "ms/batch", "ms/row", "RMSE or accuracy", ""]
    columns = {"threads": ".0f", "batch_number": ".0f", "parameters": ",.0f", "batch_ms": ".3g", "infer_1_ms": ".3g"}
    columns["error"] = ".4g"
    lines = []
    for row in rows:
        row = row | {"error": row["accuracy"] if row["rmse"] is None else row["rmse"]}
        figures = ["" if row[name] is None else format(row[name], digits) for name, digits in columns.items()]
        status = "" if row["status"] == OK else row["status"]
        lines.append([row["layers"].replace(":relu", ""), f"{row['backend']}", *figures, status])
    tables.table(headers, lines, left=2)
