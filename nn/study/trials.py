"""The file of trials: CSV, a line for each network that --vary or --keep tried, to which several runs may add."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.metrics import METRICS
from ..train.vary import SETTINGS
from ..utils import DataError, check_writable
from .results import MOST_BYTES, append_lines, csv_lines, field, small_file

OUTCOME = ("metric", "score", "epochs_done", "best_epoch", "weight", "status")
COLUMNS = ("data", "layers", "seed", "split_seed", *OUTCOME, *SETTINGS)
TEXTS = ("data", "layers", "metric", "status", *(name for name, setting in SETTINGS.items() if not setting.has_range))


def rows_of(result: dict, net) -> list[dict]:
    """Return the lines of the networks that a training tried. result: the figures of `train`; net: its network."""
    shared = {name: value for name, value in net.config.items() if name in COLUMNS}
    shared |= {"data": (net.dataset or {}).get("path"), "metric": metric_of(result)}
    shared["split_seed"] = net.config.get("split_seed", net.seed)
    return [
        {
            **shared,
            **{name: trial[name] for name in ("seed", "score", "best_epoch", "weight", "status")},
            "epochs_done": trial["epochs"],
            **trial["settings"],
        }
        for trial in result["trials"]
    ]


def metric_of(result: dict) -> str:
    """Return what the score of a training's trials is."""
    return result.get("monitor") or ("held-out loss" if result["val_loss"] else "training loss")


def best_first(result: dict) -> list[dict]:
    """Return the trials of a training: its members before the others, then by their scores; given up ones after."""
    name = result.get("monitor") or "loss"
    sign = -1 if METRICS[name].higher_is_better else 1

    def key(trial: dict) -> tuple:
        score = trial["score"]
        return trial["status"] == "given up", score is None, 0.0 if score is None else sign * score

    return sorted(result["trials"], key=lambda trial: (not trial["weight"], *key(trial)))


def append_trials(path: str, rows: list[dict]) -> None:
    """Add lines to a file of trials, after its header if it is new; several processes may do so at once.

    A line that is there already is not added again. Raises OutputError, and DataError for another file.
    """
    append_lines(path, COLUMNS, rows, once=True)


def check_trials(path: str) -> None:
    """Raise, before any work, OutputError or DataError if nothing can be added to the file."""
    check_writable(path)
    if Path(path).exists() and Path(path).stat().st_size:
        read_trials(path)


def is_trials(path: str) -> bool:
    """Return whether the path is a file of trials, by its first line."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.readline(MOST_BYTES).decode(errors="replace").strip() == ",".join(COLUMNS)
    except OSError:
        return False


def read_trials(path: str) -> list[dict]:
    """Return the lines of a file of trials, numbers as floats, empty fields as None; an unfinished line is none.

    Raises InputNotFound, and DataError for a file that is none of --trials.
    """
    text = small_file(path).decode(errors="replace")
    header, *lines = csv_lines(path, text[: text.rfind("\n") + 1]) or [[]]
    if tuple(header) != COLUMNS:
        raise DataError(f"{path}: its columns are not those that --trials writes; name another file")
    return [_row(line) for line in lines if len(line) == len(COLUMNS)]


def _row(line: list[str]) -> dict:
    return {name: field(text, name in TEXTS) for name, text in zip(COLUMNS, line, strict=True)}
