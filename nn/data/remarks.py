"""Remarks on columns of a table to be trained on: some give the target away, some numbers stand for missing values."""

from __future__ import annotations

import shlex

import numpy as np

from .column import Column, columns_of_numbers, number_text
from .dataset import Dataset
from .kinds import RARE, in_a_list

_LOOK_ROWS = 1000  # which rule out nearly all columns
_MOST_COLUMNS = 200  # of which sums are looked for
_EXACT = 1e-5  # of the largest target, that a sum of float32 may be off
_FREQUENT = 0.005  # share of the rows whose number may stand for a gap


def remarks_on(ds: Dataset) -> list[str]:
    if ds.x.ndim != 2 or ds.x.dtype == np.uint8 or len(ds.x) < 4 * RARE:
        return []
    columns = columns_of_numbers(ds.x) if isinstance(ds.x, np.ndarray) else ds.x.columns
    given_away = [] if ds.y is None else _copies(ds, columns) if ds.classes is not None else _sums(ds, columns)
    return given_away + [line for place, column in enumerate(columns) for line in _stand_ins(ds, place, column)]


def _name(ds: Dataset, place: int) -> str:
    return (ds.columns and ds.columns[place]) or str((ds.places or range(ds.x.shape[1]))[place])


def _copies(ds: Dataset, columns) -> list[str]:
    """Return a remark for each column that alone tells the classes of all rows: a copy of the target, or known only
    after it. A network would learn nothing else."""
    found = range(len(columns))
    for some in (slice(_LOOK_ROWS), slice(None)):
        found = [place for place in found if _tells(columns[place], ds.y, some)]
    return [_leave_out(ds, [place]) for place in found]


def _leave_out(ds: Dataset, places: list[int]) -> str:
    names, target = [_name(ds, place) for place in places], ds.targets[0] if ds.targets else "the target"
    one, several = ("column ", "alone tells", "it", "it is"), ("columns ", "tell", "them", "they are")
    column, tells, them, they = one if len(names) == 1 else several
    return (
        f"{column}{' + '.join(names)} {tells} {target} of all {len(ds.x)} rows: leave {them} out "
        f"(--drop {shlex.quote(','.join(map(in_a_list, names)))}) unless {they} known beforehand"
    )


def _tells(column: Column, y: np.ndarray, rows: slice) -> bool:
    """Return whether the classes of these rows follow from one column; of rows of one class they may.

    Numbers tell two classes if all of one lie above those of the other; texts if each stands for one class, and they
    are as few as the classes, twice that at most.
    """
    values, y = column.values[rows], y[rows]
    if column.reads == "text":
        counts = np.zeros((len(column.words) + 1, int(y.max()) + 1), np.int64)
        np.add.at(counts, (values, y), 1)  # code -1, a gap, is the last
        used = np.count_nonzero(counts.any(axis=1))
        return bool(((counts > 0).sum(axis=1) <= 1).all()) and used <= 2 * counts.shape[1]
    classes = np.flatnonzero(np.bincount(y))
    if len(classes) != 2:
        return len(classes) < 2
    no, yes = values[y == classes[0]], values[y == classes[1]]
    return bool(no.max() < yes.min() or yes.max() < no.min())  # never with a gap, which is nan


def _sums(ds: Dataset, columns) -> list[str]:
    """Return a remark if the numbers of the target are a column, in any unit, or a sum or difference of columns."""
    places = [place for place, column in enumerate(columns) if column.reads == "number"]
    rows = min(len(ds.x), _LOOK_ROWS)
    if ds.y.shape[1] != 1 or not 0 < len(places) <= min(_MOST_COLUMNS, rows // 2):
        return []

    def off(rows: slice, places: list[int], factors: np.ndarray | None = None):
        """Return (factors of the columns, the last one constant; how far their sum is off, of the largest target)."""
        x = np.column_stack([*(columns[place].values[rows] for place in places), np.ones(len(ds.y[rows]))])
        y = ds.y[rows, 0].astype(np.float64)
        if not np.isfinite(x).all():
            return factors, np.inf
        scale = np.abs(x).max(axis=0) + (x == 0).all(axis=0)
        factors = np.linalg.lstsq(x / scale, y, rcond=None)[0] / scale if factors is None else factors
        return factors, np.abs(x @ factors - y).max() / max(np.abs(y).max(), np.finfo(np.float64).tiny)

    factors, distance = off(slice(rows), places)
    if distance > _EXACT or not np.ptp(ds.y[:rows]):
        return []
    counts = [place for place, factor in zip(places, factors[:-1], strict=True) if abs(factor) > _EXACT]
    factors, distance = off(slice(rows), counts)
    signs = np.round(factors[:-1])
    are_signs = bool((np.abs(signs) == 1).all() and np.abs(factors[:-1] - signs).max(initial=0) < 1e-3)
    if not counts or distance > _EXACT or not (len(counts) == 1 or are_signs):
        return []
    return [] if off(slice(None), counts, factors)[1] > 2 * _EXACT else [_leave_out(ds, counts)]


def _stand_ins(ds: Dataset, place: int, column: Column) -> list[str]:
    """Return a remark if the least or largest number of a column is frequent and further from all others than these are
    from each other: -200 and 9999 often stand for what was not measured."""
    if column.reads != "number":
        return []
    some = column.values[:: max(1, len(column.values) // _LOOK_ROWS)]
    numbers, counts = np.unique(some[np.isfinite(some)], return_counts=True)
    if len(numbers) < 2 * RARE:
        return []
    end = 0 if numbers[1] - numbers[0] > numbers[-1] - numbers[-2] else -1
    number, count, least = numbers[end], counts[end], max(RARE, _FREQUENT * len(some))
    others = np.delete(numbers, end)
    for all_of_them in (False, True):  # a look at some rows rules out nearly all columns
        others = column.values[column.values != number] if all_of_them else others
        rest = np.nanmax(others) - np.nanmin(others)
        if count < least or np.nanmin(np.abs(others - number)) <= rest:
            return []
    text = number_text(float(number))
    return [
        f"column {_name(ds, place)} is {text} in {len(ds.x) - len(others)} of {len(ds.x)} rows, far from all other "
        f"numbers: if {text} stands for a missing value, add --missing={text}"
    ]
