"""`nn study NAME`: the plan of one of the studies that founded this project, run as
--sweep does, and the figures of then.

datasets/plans has the plans: NAME.json, and NAME-small.json, its small sister, which
takes a minute. then/NAME.json beside them has what the study's document says.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..backends import TRAITS, gpu_count
from ..layers import parse
from ..settings.flags import DEFAULTS
from ..settings.values import device_numbers
from ..terminal.config import read_config
from ..utils import InputNotFound, NnError, UsageError, available_cores, plural
from .bench import multiplications, usable_backends
from .results import INFERENCE_ROWS, RESULT_COLUMNS, read_results
from .sweep import Entry, Runner, load_data, read_plan, run_entries

SISTER = "-small"
PLANS = Path("datasets", "plans")
THEN = "then"  # the folder of the figures of then, beside the plans
ENTRY_SECONDS = 3.0  # to start a process and to measure predictions
NEEDED_KEYS = {"what", "column", "of"}
FIGURE_KEYS = {  # with the types of their values; datasets/README.md says what they mean
    "what": str,
    "column": str,
    "of": dict,
    "over": dict,
    "layer": int,
    "unit": str,
    "then": (int, float, str),
    "from": str,
    "machine": str,
    "unlike": bool,
}
COUNTED: dict[str, Callable[[dict], float]] = {  # of a line of the results
    "row_ms": lambda row: 1e3 * row["epoch_s"] / row["rows"],
    "in_epochs": lambda row: row["train_s"] / row["epochs"] / row["epoch_s"],
    "in_batches": lambda row: 1e3 * row["epoch_s"] / row["batch_ms"] / _batches(row),
}


def _batches(row: dict) -> int:
    """Return the batches of an epoch."""
    return math.ceil(row["rows"] / row["batch_number"])


@dataclass(frozen=True)
class Study:
    """A study: its plan, and what its document says.

    figures: objects with FIGURE_KEYS. remarks: sentences on the study.
    """

    name: str
    plan: Path
    title: str
    remarks: list[str]
    figures: list[dict]


def find(name: str) -> Study:
    """Return the study of a name. Raises InputNotFound without the plans, UsageError
    for another name, and what reading a file raises."""
    folder = _folder()
    names = sorted(path.stem for path in (folder / THEN).glob("*.json"))
    plan = folder / f"{name}.json"
    if name.removesuffix(SISTER) not in names or not plan.exists():
        raise UsageError(
            f"--study {name}: no such study; there are {', '.join(names)}, each also as NAME{SISTER}"
        )
    path = str(folder / THEN / f"{name.removesuffix(SISTER)}.json")
    then = read_config(path, "--study")
    figures = then.get("figures", [])
    _check_figures(path, figures)
    remarks = list(then.get("remarks", []))
    return Study(name, plan, then.get("title", name), remarks, figures)


def _check_figures(path: str, figures: list) -> None:
    """Raise UsageError for figures of then that are none."""
    if not isinstance(figures, list):
        raise UsageError(f"{path}: figures: expected a list of objects")
    for figure in figures:
        is_one = isinstance(figure, dict) and NEEDED_KEYS <= {*figure} <= {*FIGURE_KEYS}
        if not is_one or not all(
            isinstance(value, FIGURE_KEYS[key]) for key, value in figure.items()
        ):
            raise UsageError(
                f"{path}: a figure's keys are {', '.join(FIGURE_KEYS)}; found {json.dumps(figure)}"
            )
        if figure["column"] not in (*RESULT_COLUMNS, *COUNTED):
            raise UsageError(f"{path}: no column {figure['column']} of the results")


def _folder() -> Path:
    """Return the folder of the plans: in this folder, or beside the package."""
    for folder in (Path(), Path(__file__).resolve().parents[2]):
        if (folder / PLANS / THEN).is_dir():
            return folder / PLANS
    raise InputNotFound(
        f"--study: no folder {PLANS / THEN} here; call nn study in the project's folder"
    )


def run(study: Study, results: str, log: Callable[[str], None]) -> dict[str, str]:
    """Run the entries of a study that `results` does not hold yet; return why others
    cannot run on this machine, by the name of the entry."""
    entries = read_plan(str(study.plan))
    done = set()
    if Path(results).exists():
        done = {row["entry"] for row in read_results(results)}
    left = [entry for entry in entries if entry.name not in done]
    reasons = {entry.name: reason_not_here(entry) for entry in left}
    here = [entry for entry in left if reasons[entry.name] is None]
    log(_announcement(study, here, len(entries)))
    run_entries(Runner(str(study.plan), results, False, log), here)
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _announcement(study: Study, entries: list[Entry], count: int) -> str:
    """Return how many entries are to run, and about how long that takes."""
    seconds = sum(map(expected_seconds, entries))
    text = f"{len(entries)} of {plural(count, 'network')}"
    if entries:
        text += f", up to about {_duration(seconds)}"
    sister = study.plan.with_stem(f"{study.name}{SISTER}")
    if sister.exists():
        text += f"; nn study {sister.stem} takes about a minute"
    return text


def _duration(seconds: float) -> str:
    """Return a rough time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def expected_seconds(entry: Entry) -> float:
    """Return about how long an entry takes on this machine: what its training and its
    predictions compute, at the rate that its backend has at least."""
    settings = entry.settings
    operations = 2.0 * sum(map(multiplications, parse(settings["layers"])))
    batch = settings.get("batch_number", DEFAULTS["batch_number"])
    epochs = settings.get("epochs", DEFAULTS["epochs"])
    rows = _rows(json.dumps(settings["data"]), entry.folder)
    if "batches" in settings:
        rows = min(rows, settings["batches"] * batch)
    rate = TRAITS.get(settings.get("backend"), TRAITS["omp"]).rate
    passes = 3 * rows * epochs + 3 * sum(INFERENCE_ROWS)
    return ENTRY_SECONDS + operations * passes / rate


@cache
def _rows(data: str, folder: Path) -> int:
    """Return the rows of a plan's `data`; 0 where it cannot be read."""
    settings = json.loads(data)
    for source in ("clouds", "images"):
        if source in settings:
            return settings[source].get("rows", 0)
    try:
        return load_data(settings, folder)[0].rows
    except NnError:
        return 0


# ---------------------------------------------------------------- what is not here


def reason_not_here(entry: Entry) -> str | None:
    """Return why an entry cannot run on this machine; None: it can."""
    backend = entry.settings.get("backend", "auto")
    missing = _missing_backends()
    if backend in missing:
        return missing[backend]
    with contextlib.suppress(TypeError, ValueError):  # the run refuses such a number
        cores = available_cores()
        if entry.settings.get("threads", 1) > cores:
            return f"this machine has {plural(cores, 'core')}"
        gpus = len(device_numbers(entry.settings.get("gpus", 1)))
        if gpus > 1 and gpus > gpu_count():
            return f"this machine has {plural(gpu_count(), 'GPU')}"
    return None


@cache
def _missing_backends() -> dict[str, str]:
    """Return why this machine has not some of the backends."""
    _, skipped = usable_backends(None)
    return {case["backend"]: case["reason"] for case in skipped}
