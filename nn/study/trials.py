"""The file of trials: CSV, a line for each network that --vary tried, to which several runs may add."""

from __future__ import annotations

from pathlib import Path

from ..nn_aux import METRICS
from ..train.vary import SETTINGS
from ..utils import check_writable
from .results import MOST_BYTES, LineFile

OUTCOME = ("metric", "score", "epochs_done", "best_epoch", "weight", "status")
COLUMNS = ("data", "layers", "seed", "split_seed", *OUTCOME, *SETTINGS)
TEXTS = ("data", "layers", "metric", "status", *(name for name, setting in SETTINGS.items() if not setting.has_range))
TRIALS = LineFile(COLUMNS, TEXTS, "--trials")


def rows_of(result: dict, net) -> list[dict]:
    """Return the lines of the networks that a training tried. result: the figures of `train`; net: its network."""
    shared = {name: value for name, value in net.config.items() if name in COLUMNS}
    shared |= {"data": (net.dataset or {}).get("path"), "metric": result["monitor"]}
    shared["split_seed"] = net.config.get("split_seed", net.seed)
    outcome = ("seed", "score", "best_epoch", "weight", "status")
    return [
        shared | {name: trial[name] for name in outcome} | {"epochs_done": trial["epochs"]} | trial["settings"]
        for trial in result["trials"]
    ]


def best_first(result: dict) -> list[dict]:
    """Return the trials of a training: its members before the others, then by their scores; given up ones after."""
    sign = -1 if METRICS[result["monitor"]].higher_is_better else 1

    def key(trial: dict) -> tuple:
        score = trial["score"]
        return not trial["weight"], trial["status"] == "given up", score is None, sign * (score or 0.0)

    return sorted(result["trials"], key=key)


def append_trials(path: str, rows: list[dict]) -> None:
    """Add lines to a file of trials, but none that is there. Raises OutputError, and DataError for another file."""
    TRIALS.append(path, rows, once=True)


def check_trials(path: str) -> None:
    """Raise, before any work, OutputError or DataError if nothing can be added to the file."""
    check_writable(path)
    if Path(path).exists() and Path(path).stat().st_size:
        read_trials(path)


def is_trials(path: str) -> bool:
    """Return whether the path is a file of trials, by its first line."""
    try:
        if not Path(path).is_file():
            return False
        with open(path, "rb") as file:
            return file.readline(MOST_BYTES).decode(errors="replace").strip() == ",".join(COLUMNS)
    except OSError:
        return False


def read_trials(path: str) -> list[dict]:
    """Return the lines of a file of trials. Raises InputNotFound, and DataError for a file that is none of --trials."""
    return TRIALS.read(path)
