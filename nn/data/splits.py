"""Which rows are trained on, which validate, which are held out: drawn by seed, by groups, or by time."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..core.random import STREAM_HOLDOUT, STREAM_VALIDATION, shuffled
from ..utils import UsageError, listed, log
from .dataset import Dataset


class Split(NamedTuple):
    """Rows by their purpose: ascending int64 indices."""

    training: np.ndarray
    validation: np.ndarray
    holdout: np.ndarray


def split_rows(ds: Dataset, holdout: float, validation: float, seed: int) -> Split:
    """Return the split of a data set: the share `holdout` of its rows, and `validation` of those that are left.

    Of each class that share is taken, rounded down; for regression of all rows; drawn by seed. With ds.times the last
    rows in time are taken, none of the time of a row that stays. With ds.groups whole groups, as near the share as they
    come, with both those whose last row is latest. Raises UsageError for a share that is none.
    """
    rest, held = _apart(ds, np.arange(ds.rows), holdout, "--holdout", seed, STREAM_HOLDOUT)
    training, validating = _apart(ds, rest, validation, "--validation", seed, STREAM_VALIDATION)
    return Split(training, validating, held)


def split_holdout(ds: Dataset, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (training rows, held-out rows) of split_rows, without validation rows."""
    training, _, held = split_rows(ds, fraction, 0.0, seed)
    return training, held


def remark_on_rare_classes(ds: Dataset, split: Split) -> None:
    """Say in one line which classes have too few rows to be in every part of the split."""
    parts = {"validation": split.validation, "held-out": split.holdout}
    wanted = [name for name, rows in parts.items() if len(rows)]
    if ds.classes is None or not wanted:
        return
    counts = {name: ds.class_counts(parts[name]) for name in wanted}
    rows = ds.class_counts()
    rare = [i for i, count in enumerate(rows) if count and not all(counts[name][i] for name in wanted)]
    if rare:
        named = listed([f"{ds.classes[i]} ({rows[i]})" for i in rare])
        log.warning("classes with too few rows for %s rows: %s", " and ".join(wanted), named)


def _apart(ds: Dataset, rows: np.ndarray, share: float, flag: str, seed: int, stream: int):
    """Return (rows that stay, rows that are taken), both ascending."""
    if not 0 <= share < 1:
        raise UsageError(f"{flag} {share}: expected a share of at least 0 and below 1")
    share = Fraction(str(share))  # the decimal that was written: 0.29 of 100 rows are 29
    if not share or not len(rows):
        return rows, rows[:0]
    if ds.groups is not None:
        taken = _by_group(ds, rows, share, seed, stream)
    elif ds.times is not None:
        taken = _by_time(ds.times[rows], share)
    else:
        taken = _by_class(ds, rows, share, seed, stream)
    return rows[~taken], rows[taken]


def _by_class(ds: Dataset, rows: np.ndarray, share: Fraction, seed: int, stream: int) -> np.ndarray:
    """Return which of the rows are taken: of each class the share, rounded down."""
    order = shuffled(len(rows), seed, stream)
    labels = ds.y[rows[order]] if ds.classes is not None else np.zeros(len(rows), np.int32)
    taken = np.zeros(len(rows), bool)
    for label in np.unique(labels):
        of_class = order[labels == label]
        taken[of_class[: int(share * len(of_class))]] = True
    return taken


def _by_time(times: np.ndarray, share: Fraction) -> np.ndarray:
    """Return which rows are taken: those later than the last one that stays."""
    stay = len(times) - int(share * len(times))
    return times > np.partition(times, stay - 1)[stay - 1]


def _by_group(ds: Dataset, rows: np.ndarray, share: Fraction, seed: int, stream: int) -> np.ndarray:
    """Return which rows are taken: groups in a drawn order, or the latest first, if they come nearer to the share."""
    groups, group_of, sizes = np.unique(ds.groups[rows], return_inverse=True, return_counts=True)
    group_of = group_of.reshape(-1)  # NumPy 2.0 alone gives it another shape
    if ds.times is None:
        order = shuffled(len(groups), seed, stream)
    else:
        latest = np.full(len(groups), -np.inf)
        np.maximum.at(latest, group_of, ds.times[rows])
        order = np.argsort(-latest, kind="stable")
    wanted, done, chosen = share * len(rows), 0, np.zeros(len(groups), bool)
    for group in order[: len(groups) - 1]:  # one stays
        if abs(done + int(sizes[group]) - wanted) < abs(done - wanted):
            chosen[group], done = True, done + int(sizes[group])
        elif ds.times is not None:
            break  # no earlier group in the place of a later one
    return chosen[group_of]
