"""Which rows are trained on, which validate, which are held out: drawn by seed, by
groups, or by time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from numbers import Rational
from typing import NamedTuple

import numpy as np

from ..core.random import STREAM_FOLDS, STREAM_HOLDOUT, STREAM_VALIDATION, shuffled
from ..nn_aux import TASKS
from ..utils import DataError, UsageError, listed, log
from .dataset import Dataset, all_weightless, name_of
from .twins import count_of_twins, twins_to_keep_together

ROWS_A_FOLD = 4  # the fewest of a fold that are worth a network
# rows of a class that folds can judge: one is tested, another trained on
LEAST_OF_CLASS = 2
# of counts a unit, behind those of its labels: the column of its rows
ROWS_COLUMN = -1


class Split(NamedTuple):
    """Rows by their purpose: ascending int64 indices."""

    training: np.ndarray
    validation: np.ndarray
    holdout: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """Return the rows that are not held out: networks are trained on them, or
        chosen by them."""
        return np.union1d(self.training, self.validation)


def split_rows(
    ds: Dataset,
    holdout: float,
    validation: float,
    seed: int,
    rows=None,
    keeps_weightless: bool = False,
) -> Split:
    """Return the split of a data set, or of some rows (indices): the share `holdout` of
    them, and `validation` of those that are left.

    Rows of weight 0 are in no part, unless keeps_weightless, as in earlier versions,
    nor are rows that repeat another, where they leave. Of each class that share is
    taken,
    rounded down, of each of several labels about as many; for regression of all rows;
    drawn by seed. With ds.times the last rows
    in time are taken, none of the time of a row that stays. With ds.groups whole
    groups, as near the share as they come, with both those whose last row is latest.
    Raises UsageError for a share that is none, and for indices that are none, or twice
    there; DataError where all rows have weight 0.
    """
    divided = np.arange(ds.rows)
    if rows is not None:
        divided = _checked(ds, rows)
    if ds.weights is not None and not keeps_weightless:
        count = len(divided)
        divided = divided[ds.weights[divided] > 0]
        if not len(divided):
            raise all_weightless(count)
    divided = ds.without_duplicates(divided)
    rest, held = _apart(ds, divided, holdout, "--holdout", seed, STREAM_HOLDOUT)
    training, validating = _apart(
        ds, rest, validation, "--validation", seed, STREAM_VALIDATION
    )
    return Split(training, validating, held)


def _checked(ds: Dataset, rows) -> np.ndarray:
    """Return indices of rows, ascending. Raises UsageError for what is no index, and
    for one that is there twice."""
    indices = np.unique(np.asarray(rows, np.int64))
    are_rows = len(indices) and indices[0] >= 0 and indices[-1] < ds.rows
    if not are_rows or len(indices) != len(rows):
        raise UsageError(
            f"rows: expected indices from 0 to {ds.rows - 1}, at least one and each once"
        )
    return indices


def divided_rows(
    ds: Dataset, holdout: float, validation: float, seed: int, rows=None
) -> Split:
    """Return the split of a data set for a training, and say what it is too small for,
    and what may make its figures too good. rows: those of a caller, of which none is
    held out or remarked on. Raises DataError for a share that takes no row to validate
    with, and what split_rows raises."""
    if rows is not None:
        return split_rows(ds, 0.0, validation, seed, rows)
    split = split_rows(ds, holdout, validation, seed)
    rows = len(split.training)
    if validation and not len(split.validation):
        raise DataError(
            f"--validation {validation:g}: takes none of the {rows} rows; give a larger share"
        )
    if holdout and not len(split.holdout):
        log.warning(
            "the data is too small for --holdout %g: training on all %d rows",
            holdout,
            rows,
        )
    weightless = ds.rows - len(ds.counting_rows())
    if weightless:  # those of a file have left it, and are told with it
        log.warning("%s: left out: %d rows of weight 0", name_of(ds), weightless)
    _remark_on_rare_classes(ds, split)
    if len(split.holdout) or len(split.validation):
        _remark_on_twins(ds, np.concatenate(split), are_shared_out=True)
        _remark_on_dates(ds)
    return split


class Fold(NamedTuple):
    """The training rows and the test rows of one network of a cross-validation:
    ascending indices."""

    training: np.ndarray
    tested: np.ndarray


def fold_rows(
    ds: Dataset, rows: np.ndarray, folds: int, seed: int, rare: bool = False
) -> list[Fold]:
    """Return the folds of these rows, drawn by seed: each row is tested in one and
    trained on in all others.

    Classes are divided evenly, and each of several labels. With ds.groups whole groups
    are, as evenly as they come.
    With ds.times folds go forward: the rows are cut at `folds` times, and each part is
    tested by what comes before it; the first is not tested. rare: classes of fewer rows
    than folds are allowed: their rows lie in as many folds, but the row of a class of
    one, on which all networks train. Raises UsageError for more folds than rows,
    groups, times or rows of a class allow.
    """
    few = _classes_below(ds, rows, folds)
    if few and not rare:
        raise UsageError(
            f"--folds {folds}: rows of class {few[0]}, expected at least one for each fold"
        )
    divided = []
    if ds.times is not None:
        part = _forward(ds, rows, folds)
        for fold in range(folds):
            divided.append(Fold(rows[part <= fold], rows[part == fold + 1]))
    else:
        deal = _fold_by_class if ds.groups is None else _fold_by_group
        number = deal(ds, rows, folds, seed)
        for fold in range(folds):
            divided.append(Fold(rows[number != fold], rows[number == fold]))
    if ds.classes is not None:
        _check_classes(ds, rows, divided)
    elif TASKS[ds.task].by_output:
        _check_targets(ds, rows, divided)
    return divided


def most_folds(ds: Dataset, rows: np.ndarray, most: int, seed: int) -> int | None:
    """Return into how many folds these rows can be divided, `most` at most; None if
    not even into two."""
    for folds in range(min(most, len(rows) // ROWS_A_FOLD), 1, -1):
        with contextlib.suppress(UsageError):
            fold_rows(ds, rows, folds, seed, rare=True)
            return folds
    return None


def folds_and_splits(
    ds: Dataset, split: Split, folds: int, seed: int, validation: float | None
) -> list[tuple[Fold, Split]]:
    """Return the folds of the rows that a split does not hold out, each with the split
    of its network's rows: those that the fold tests are held out.

    validation: the share of a fold's training rows that judge its network; None: those
    that the fold tests judge it too, and a class of few rows is tested all the same.
    """
    rows = np.union1d(split.training, split.validation)
    is_judged = validation is None
    if len(rows) == ds.rows and not len(split.validation):
        has_own_order = ds.groups is not None or ds.times is not None
        _remark_on_twins(ds, rows, are_shared_out=has_own_order)
        _remark_on_dates(ds)
    if is_judged:
        _remark_on_unjudged_classes(ds, rows)
    pairs = []
    for fold in fold_rows(ds, rows, folds, seed, is_judged):
        if is_judged:
            fold_split = Split(fold.training, fold.tested, fold.tested)
        else:
            fold_split = split_rows(ds, 0.0, validation, seed, fold.training)
            fold_split = fold_split._replace(holdout=fold.tested)
        pairs.append((fold, fold_split))
    return pairs


def _check_classes(ds: Dataset, rows: np.ndarray, folds: list[Fold]) -> None:
    """Raise UsageError unless each fold trains on all classes that the rows have."""
    counts = ds.class_counts(rows)
    for number, fold in enumerate(folds):
        trained = ds.class_counts(fold.training)
        for label, name in enumerate(ds.classes):
            if counts[label] and not trained[label]:
                raise UsageError(
                    f"--folds {len(folds)}: fold {number} has no row of class {name} "
                    f"to train on; use fewer folds"
                )


def _check_targets(ds: Dataset, rows: np.ndarray, folds: list[Fold]) -> None:
    """Raise UsageError unless each fold trains on rows of all targets that rows
    have."""
    lacking = targets_without_rows(ds, rows)
    for number, fold in enumerate(folds):
        for name in targets_without_rows(ds, fold.training):
            if name not in lacking:
                raise UsageError(
                    f"--folds {len(folds)}: fold {number} has no row of target {name} to train on; "
                    "leave the target out, or use other folds (--split_seed, --folds)"
                )


def targets_without_rows(ds: Dataset, rows: np.ndarray) -> list[str]:
    """Return the names of the targets that none of these rows has."""
    y = ds.y[rows].reshape(len(rows), -1)
    names = ds.targets or [str(number) for number in range(y.shape[1])]
    are_missing = np.isnan(y).all(axis=0)
    return [name for name, gone in zip(names, are_missing, strict=True) if gone]


def _fold_by_class(ds: Dataset, rows: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row, -1 for a row in none: the only one of its class, or
    all its copies. The rows of a class are dealt to the folds in turn, those of the
    next class from the fold on where the last one ended; where there are twins, sets of
    them are."""
    order = shuffled(len(rows), seed, STREAM_FOLDS)
    if ds.task == "multilabel":
        return _fold_by_labels(ds, rows, order, folds)
    labels = _labels(ds, rows)
    order = order[np.argsort(labels[order], kind="stable")]
    sets = twins_to_keep_together(ds, rows)
    if sets is not None:
        return _fold_by_twins(sets, labels, order, folds)
    if ds.classes is not None:
        order = order[np.bincount(labels)[labels[order]] >= LEAST_OF_CLASS]
    if len(order) < folds:
        raise UsageError(
            f"--folds {folds}: {len(order)} rows, expected at least one for each fold"
        )
    number = np.full(len(rows), -1, np.int64)
    number[order] = np.arange(len(order)) % folds
    return number


def _fold_by_labels(
    ds: Dataset, rows: np.ndarray, order: np.ndarray, folds: int
) -> np.ndarray:
    """Return the fold of each row, in which all its twins lie, by which each label is
    divided evenly. order: of the rows, drawn."""
    sets = twins_to_keep_together(ds, rows)
    if sets is None:
        sets = np.arange(len(rows))
    _, first_rows, set_of_row, sizes = np.unique(
        sets[order], return_index=True, return_inverse=True, return_counts=True
    )
    if len(sizes) < folds:
        raise UsageError(
            f"--folds {folds}: {len(sizes)} distinct rows, expected at least one for each fold"
        )
    labels = ds.y[rows[order[first_rows]]]
    number = np.empty(len(rows), np.int64)
    drawn = np.argsort(first_rows)
    number[order] = dealt(labels, sizes, [1 / folds] * folds, drawn)[set_of_row]
    return number


def _fold_by_twins(
    sets: np.ndarray, labels: np.ndarray, order: np.ndarray, folds: int
) -> np.ndarray:
    """Return the fold of each row, in which all its twins lie. Within each class the
    largest sets go first, each to the fold with the fewest rows of the class, of equals
    to that with the fewest rows. sets, labels (rows,): of each row; order: of the rows,
    drawn, one class after the other."""
    _, first_rows, sizes = np.unique(sets[order], return_index=True, return_counts=True)
    if len(sizes) < folds:
        raise UsageError(
            f"--folds {folds}: {len(sizes)} distinct rows, expected at least one for each fold"
        )
    fold_of_set = np.full(len(sizes), -1, np.int64)
    filled = np.zeros(folds, np.int64)
    label_of = labels[order[first_rows]]
    classes = np.unique(labels)
    for label in classes:
        sets_of_class = np.flatnonzero(label_of == label)
        if len(sets_of_class) < LEAST_OF_CLASS and len(classes) > 1:
            continue  # no fold could train on the class and judge it
        sets_of_class = sets_of_class[
            np.argsort(first_rows[sets_of_class], kind="stable")
        ]
        sets_of_class = sets_of_class[np.argsort(-sizes[sets_of_class], kind="stable")]
        several = sets_of_class[sizes[sets_of_class] > 1]
        single = sets_of_class[sizes[sets_of_class] == 1]
        in_class = np.zeros(folds, np.int64)
        for number in several:
            fold_of_set[number] = np.lexsort((filled + in_class, in_class))[0]
            in_class[fold_of_set[number]] += sizes[number]
        fold_of_set[single] = _filled_up(in_class, filled, len(single))
        filled += in_class + np.bincount(fold_of_set[single], minlength=folds)
    return fold_of_set[np.unique(sets, return_inverse=True)[1]]


def _filled_up(in_class: np.ndarray, filled: np.ndarray, count: int) -> np.ndarray:
    """Return the fold of each of `count` rows of a class, which go one by one to the
    fold with the fewest rows of it. in_class, filled (folds,): rows that a fold has of
    the class and of those before."""
    most = (in_class.sum() + count) // len(in_class) + in_class.max() + 1
    places = in_class[:, None] + np.arange(most - in_class.min())
    fold = np.repeat(np.arange(len(in_class)), places.shape[1])
    order = np.lexsort(((filled + in_class)[fold], places.reshape(-1)))
    return fold[order[:count]]


def _remark_on_twins(ds: Dataset, rows: np.ndarray, are_shared_out: bool) -> None:
    """Say in one line how many of the rows have a twin, where they are copies.
    are_shared_out: whether rows are divided by groups, times or shares, which keep no
    twins together."""
    sets = twins_to_keep_together(ds, rows)
    if sets is None:
        return
    consequence = "twins lie in one fold"
    if are_shared_out:
        consequence = (
            "twins may lie on both sides of a split, whose metrics are then too good"
        )
    log.warning(
        "%d of %d rows have a twin, a row of equal inputs and target: %s; "
        "--drop_duplicates leaves out all but one of them",
        count_of_twins(sets),
        len(rows),
        consequence,
    )


def facts_of_rows(ds: Dataset, split: Split) -> dict:
    """Return how many rows a training leaves out, by the reason, and how many of the
    others have a twin, where there are any."""
    facts: dict = {}
    left_out = ds.left_out_rows
    if ds.duplicates():
        left_out["duplicate"] = ds.duplicates()
    if left_out:
        facts["left_out_rows"] = left_out
    sets = twins_to_keep_together(ds, np.sort(np.concatenate(split)))
    if sets is not None and count_of_twins(sets):
        facts["twins"] = count_of_twins(sets)
    return facts


def _remark_on_unjudged_classes(ds: Dataset, rows: np.ndarray) -> None:
    """Say in one line which classes no fold tests."""
    unjudged = _classes_below(ds, rows, LEAST_OF_CLASS)
    if unjudged:
        log.warning(
            "classes of one row, which no fold judges: all networks train on it: %s",
            listed(unjudged),
        )


def _classes_below(ds: Dataset, rows: np.ndarray, least: int) -> list[str]:
    """Return the classes of fewer rows than `least`, name and rows of each, where rows
    are dealt by their classes."""
    if ds.classes is None or ds.times is not None or ds.groups is not None:
        return []
    counts = zip(ds.classes, ds.class_counts(rows), strict=True)
    return [f"{name} ({count})" for name, count in counts if 0 < count < least]


def _fold_by_group(ds: Dataset, rows: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row: groups, the largest first, go to the fold that has
    the fewest rows."""
    group_of, sizes = _groups(ds, rows)
    if len(sizes) < folds:
        raise UsageError(
            f"--folds {folds}: {len(sizes)} groups, expected at least one for each fold"
        )
    order = shuffled(len(sizes), seed, STREAM_FOLDS)
    filled = np.zeros(folds, np.int64)
    fold_of_group = np.empty(len(sizes), np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of_group[group] = np.argmin(filled)
        filled[fold_of_group[group]] += sizes[group]
    return fold_of_group[group_of]


def _labels(ds: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the class index of each row, 0 where there are no classes."""
    if ds.classes is None:
        return np.zeros(len(rows), np.int32)
    return ds.y[rows]


def _groups(ds: Dataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    groups = ds.groups[rows]
    return np.unique(groups, return_inverse=True, return_counts=True)[1:]


def _latest(ds: Dataset, rows: np.ndarray, group_of: np.ndarray) -> np.ndarray:
    latest = np.full(group_of.max() + 1, -np.inf)
    np.maximum.at(latest, group_of, ds.times[rows])
    return latest


def _forward(ds: Dataset, rows: np.ndarray, folds: int) -> np.ndarray:
    """Return the part of each row, of `folds` + 1 one after the other in time; rows, or
    groups, of one time stay together."""
    times = ds.times[rows]
    if ds.groups is not None:  # a group is where its last row is
        group_of, _ = _groups(ds, rows)
        times = _latest(ds, rows, group_of)[group_of]
    order = np.argsort(times, kind="stable")
    starts = [len(rows) * part // (folds + 1) for part in range(1, folds + 1)]
    cuts = times[order[starts]]
    parts = np.searchsorted(cuts, times, side="right")
    if len(np.unique(parts)) <= folds:
        raise UsageError(
            f"--folds {folds}: too few times, expected {folds + 1} parts one after the other"
        )
    return parts


def _remark_on_dates(ds: Dataset) -> None:
    """Say in one line that rows are divided at random although their table has
    dates."""
    dates = [number for number, kind in enumerate(ds.kinds) if kind.kind == "date"]
    if dates and ds.times is None:
        names = ds.columns or ds.places
        log.warning(
            "rows are divided at random; for a forecast of later days --time %s",
            names[dates[0]],
        )


def _remark_on_rare_classes(ds: Dataset, split: Split) -> None:
    """Say in one line which classes have too few rows to be in every part of the
    split."""
    if ds.classes is None:
        return
    counts = {}
    if len(split.validation):
        counts["validation"] = ds.class_counts(split.validation)
    if len(split.holdout):
        counts["held-out"] = ds.class_counts(split.holdout)
    rare = []
    totals = ds.class_counts(ds.counting_rows())
    # of a class the rows in each part
    for name, total, *rows in zip(ds.classes, totals, *counts.values(), strict=True):
        if total and not all(rows):
            rare.append(f"{name} ({total})")
    if rare:
        purposes = " and ".join(counts)
        log.warning("classes with too few rows for %s rows: %s", purposes, listed(rare))


def _apart(
    ds: Dataset, rows: np.ndarray, share: float, flag: str, seed: int, stream: int
):
    """Return (rows that stay, rows that are taken), both ascending."""
    if not 0 <= share < 1:
        raise UsageError(f"{flag} {share}: expected a share of at least 0 and below 1")
    if not share or not len(rows):
        return rows, rows[:0]
    from fractions import Fraction  # here: a prediction does without it

    # the decimal that was written: 0.29 of 100 rows are 29
    share = Fraction(str(share))
    if ds.groups is not None:
        taken = _by_group(ds, rows, share, seed, stream)
    elif ds.times is not None:  # those later than the last one that stays
        stay = len(rows) - int(share * len(rows))
        times = ds.times[rows]
        taken = times > np.partition(times, stay - 1)[stay - 1]
    else:
        taken = _by_class(ds, rows, share, seed, stream)
    return rows[~taken], rows[taken]


def _by_class(
    ds: Dataset, rows: np.ndarray, share: Rational, seed: int, stream: int
) -> np.ndarray:
    """Return which of the rows are taken: of each class the share, rounded down; of
    each of several labels about the share."""
    order = shuffled(len(rows), seed, stream)
    if ds.task == "multilabel":
        sizes = np.ones(len(rows), np.int64)
        return dealt(ds.y[rows], sizes, [1 - share, share], order) == 1
    labels = _labels(ds, rows[order])
    taken = np.zeros(len(rows), bool)
    for label in np.unique(labels):
        rows_of_class = order[labels == label]
        taken[rows_of_class[: int(share * len(rows_of_class))]] = True
    return taken


def _by_group(
    ds: Dataset, rows: np.ndarray, share: Rational, seed: int, stream: int
) -> np.ndarray:
    """Return which rows are taken: groups in a drawn order, or the latest first, if
    they come nearer to the share."""
    group_of, sizes = _groups(ds, rows)
    order = shuffled(len(sizes), seed, stream)
    if ds.times is not None:
        order = np.argsort(-_latest(ds, rows, group_of), kind="stable")
    target = share * len(rows)
    done = 0
    chosen = np.zeros(len(sizes), bool)
    for group in order[: len(sizes) - 1]:  # one stays
        if abs(done + int(sizes[group]) - target) < abs(done - target):
            chosen[group] = True
            done = done + int(sizes[group])
        elif ds.times is not None:
            break  # no earlier group in the place of a later one
    return chosen[group_of]


# ---- rows with several labels: iterative stratification (Sechidis, Tsoumakas and
# Vlahavas 2011)


def dealt(
    labels: np.ndarray, sizes: np.ndarray, shares: Sequence[float], order: np.ndarray
) -> np.ndarray:
    """Return the part of each unit, a row or rows that stay together, int64 (units,).

    The rarest label that is left is dealt first, each of its units to the part that
    lacks most of it, of equals to that which lacks most rows. labels (units, labels) of
    0 and 1, nan for what is not known; of each the rarer one counts. sizes (units,):
    their rows. shares: that each part is to have of all. order: of the units, drawn.
    """
    is_rare = _rarer(labels, sizes)[order]
    sizes = sizes[order]
    # what a unit counts for each label that it has and, in the last column, as rows
    counts = sizes[:, None] * np.column_stack([is_rare, np.ones(len(sizes), bool)])
    lacking = np.outer(np.asarray(shares, float), counts.sum(axis=0))
    part = np.full(len(sizes), -1, np.int64)
    left = is_rare.sum(axis=0)
    while left.any():
        rarest = int(np.where(left > 0, left, len(sizes) + 1).argmin())
        units = np.flatnonzero(is_rare[:, rarest] & (part < 0))
        _deal(units, rarest, counts, lacking, part)
        left -= is_rare[units].sum(axis=0)
    _deal(np.flatnonzero(part < 0), ROWS_COLUMN, counts, lacking, part)
    parts = np.empty_like(part)
    parts[order] = part
    return parts


def _deal(
    units: np.ndarray,
    column: int,
    counts: np.ndarray,
    lacking: np.ndarray,
    part: np.ndarray,
) -> None:
    """Give each of some units to the part that lacks most of a column of counts, and
    note it in part (units,) and lacking (parts, columns)."""
    for unit in units.tolist():
        lacks_most = lacking[:, column] == lacking[:, column].max()
        best = np.where(lacks_most, lacking[:, ROWS_COLUMN], -np.inf).argmax()
        part[unit] = best
        lacking[best] -= counts[unit]


def _rarer(labels: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which labels (units, labels) are the rarer one of 0 and 1."""
    ones = sizes @ (labels == 1)
    zeros = sizes @ (labels == 0)
    return labels == np.where(ones <= zeros, 1, 0)
