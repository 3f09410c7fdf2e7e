"""Remarks on the columns of a data set: those that give the target away, and numbers
that stand for missing values."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from ..settings.values import in_a_list
from .column import Column, number_text
from .dataset import Dataset
from .kinds import LEAST_SLOT_ROWS
from .table_rows import TableRows

_LOOK_ROWS = 1000  # which rule out nearly all columns
_MOST_SUMMED_COLUMNS = 200  # of which sums are looked for
_SUM_TOLERANCE = 1e-5  # of the largest target, that a sum of float32 may be off
_STAND_IN_SHARE = 0.005  # share of the rows whose number may stand for a gap


def remarks_on(ds: Dataset, bounds: Sequence[tuple[float, float]]) -> list[str]:
    """Return remarks on columns that give the target away (a copy of it, or known only
    after it: a network would learn nothing else), and on numbers that may stand for
    missing values. bounds: of the columns, as the file has them."""
    if ds.x.ndim != 2 or ds.x.dtype == np.uint8 or len(ds.x) < 4 * LEAST_SLOT_ROWS:
        return []
    columns = TableRows.of(ds.x).columns
    remarks = [_leave_out(ds, places) for places in _giving_away(ds, columns)]
    for place, column in enumerate(columns):
        remarks += _stand_ins(ds, place, column, bounds[place])
    return remarks


def _giving_away(ds: Dataset, columns: Sequence[Column]) -> list[list[int]]:
    """Return the places of columns that give the target away, those that do so together
    in one list."""
    if ds.y is None:
        return []
    if ds.classes is None:
        summands = _summands(ds, columns)
        return [summands] if summands else []
    places = []
    for place, column in enumerate(columns):
        # the first rows rule out nearly all columns
        if _determines(column, ds.y, slice(_LOOK_ROWS)) and _determines(
            column, ds.y, slice(None)
        ):
            places.append([place])
    return places


def _name(ds: Dataset, place: int) -> str:
    """Return how remarks call a column: by its name, or by its place in the file."""
    if ds.columns and ds.columns[place]:
        return ds.columns[place]
    if ds.places:
        return str(ds.places[place])
    return str(place)


def _leave_out(ds: Dataset, places: list[int]) -> str:
    """Return the remark on columns that give the target away together."""
    names = [_name(ds, place) for place in places]
    target = ds.targets[0] if ds.targets else "the target"
    drop = shlex.quote(",".join(map(in_a_list, names)))
    if len(names) > 1:
        subject = f"columns {' + '.join(names)} determine"
        cure = f"drop them (--drop {drop}) unless their values are"
    else:
        subject = f"column {names[0]} determines"
        cure = f"drop it (--drop {drop}) unless its value is"
    return f"{subject} {target} in all {len(ds.x)} rows; {cure} known before the prediction"


def _determines(column: Column, y: np.ndarray, rows: slice) -> bool:
    """Return whether the classes of these rows follow from one column; of rows of one
    class they may.

    Numbers tell two classes if all of one lie above those of the other; texts if each
    stands for one class, and they are as few as the classes, twice that at most.
    """
    values = column.values[rows]
    y = y[rows]
    if column.reads == "text":
        classes = int(y.max()) + 1
        counts = np.zeros((len(column.words) + 1, classes), np.int64)
        np.add.at(counts, (values, y), 1)  # code -1, a gap, is the last
        classes_of_texts = np.count_nonzero(counts, axis=1)
        texts = np.count_nonzero(classes_of_texts)
        return bool(classes_of_texts.max() <= 1) and texts <= 2 * classes
    classes = np.flatnonzero(np.bincount(y))
    if len(classes) != 2:
        return len(classes) < 2
    no = values[y == classes[0]]
    yes = values[y == classes[1]]
    # never with a gap, which is nan
    return bool(no.max() < yes.min() or yes.max() < no.min())


def _summands(ds: Dataset, columns: Sequence[Column]) -> list[int]:
    """Return the columns, if there are any, of which the target is a sum or difference,
    or the one of which it is a multiple; a constant may be added."""
    places = [place for place, column in enumerate(columns) if column.reads == "number"]
    if ds.y.shape[1] != 1 or not 0 < len(places) <= _MOST_SUMMED_COLUMNS:
        return []
    head = slice(_LOOK_ROWS)
    y = ds.y[head, 0].astype(np.float64)
    fewest_rows = 2 * len(places)
    if len(y) < fewest_rows or not np.ptp(y):
        return []
    x = _with_ones(columns, places, head)
    if not np.isfinite(x).all():
        return []
    scale = np.abs(x).max(axis=0) + (x == 0).all(axis=0)
    # the first ones nearly always tell, and LAPACK has no threads for so few
    for rows in (fewest_rows, _LOOK_ROWS):
        factors = np.linalg.lstsq(x[:rows] / scale, y[:rows], rcond=None)[0] / scale
        tolerance = 4 * _SUM_TOLERANCE * rows**0.5
        if _error(x[:rows], factors, y[:rows]) > tolerance * np.abs(y).max():
            return []
    *factors, constant = factors
    summands = {
        place: factor
        for place, factor in zip(places, factors, strict=True)
        if abs(factor) > _SUM_TOLERANCE
    }
    if not summands:
        return []
    are_plain = all(abs(abs(factor) - 1) <= 1e-3 for factor in summands.values())
    if len(summands) > 1 and not are_plain:
        return []
    for rows in (head, slice(None)):
        y = ds.y[rows, 0].astype(np.float64)
        x = _with_ones(columns, [*summands], rows)
        error = _error(x, [*summands.values(), constant], y)
        if not error <= 2 * _SUM_TOLERANCE * np.abs(y).max():  # a gap is nan
            return []
    return [*summands]


def _with_ones(columns: Sequence[Column], places: list[int], rows: slice) -> np.ndarray:
    """Return some columns of numbers (rows, columns), and a last one of ones."""
    values = [columns[place].values[rows] for place in places]
    return np.column_stack([*values, np.ones(len(values[0]))])


def _error(x: np.ndarray, factors, y: np.ndarray) -> float:
    """Return how far the sum of columns, times their factors, is from y at most."""
    return np.abs(x @ factors - y).max()


def _stand_ins(
    ds: Dataset, place: int, column: Column, bounds: tuple[float, float]
) -> list[str]:
    """Return a remark if the least or largest number of a column is frequent and
    further from all others than these are from each other: -200 and 9999 often stand
    for what was not measured."""
    if column.reads != "number":
        return []
    sample = column.values[:: max(1, len(column.values) // _LOOK_ROWS)]
    numbers, counts = np.unique(sample[np.isfinite(sample)], return_counts=True)
    if len(numbers) < 2 * LEAST_SLOT_ROWS:
        return []
    if numbers[1] - numbers[0] > numbers[-1] - numbers[-2]:
        end = 0
    else:
        end = -1
    if counts[end] < max(LEAST_SLOT_ROWS, _STAND_IN_SHARE * len(sample)):
        return []
    number = numbers[end]
    for values in (numbers, column.values):  # the first ones nearly always tell
        rest = values[values != number]
        if np.nanmin(np.abs(rest - number)) <= np.nanmax(rest) - np.nanmin(rest):
            return []
    text = number_text(bounds[end])
    rows = len(ds.x) - len(rest)
    return [
        f"column {_name(ds, place)} is {text} in {rows} of {len(ds.x)} rows, far from "
        f"all other numbers: if {text} stands for a missing value, add --missing={text}"
    ]
