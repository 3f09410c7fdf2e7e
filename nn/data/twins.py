"""Twins: rows of equal inputs and target. A network that knows a row knows its twin, so
that twins in two folds make the metrics of both too good."""

from __future__ import annotations

import numpy as np

from .dataset import Dataset, TableRows

LEAST_TWIN_SHARE = 0.01  # of the rows, above which those with a twin count
# of the distinct rows, that have no twin; in coarser tables equal rows are no copies of
# each other
LEAST_SINGLE = 0.9
# Weyl's constant, and those of splitmix64 (Steele, Lea and Flood 2014)
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def sets_of_twins(ds: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the number of the set of twins of each of the rows (indices), int64
    (rows,); a row alone is a set."""
    hashes = np.zeros(len(rows), np.uint64)
    for column in _columns(ds, rows):
        hashes = _mixed(hashes, column)
    return np.unique(hashes, return_inverse=True)[1].reshape(-1)


def count_of_twins(sets: np.ndarray) -> int:
    """Return how many rows have a twin. sets: as sets_of_twins returns them."""
    sizes = np.bincount(sets)
    return int(sizes[sizes > 1].sum())


def twins_to_keep_together(ds: Dataset, rows: np.ndarray) -> np.ndarray | None:
    """Return sets_of_twins where repeated rows are copies: more than LEAST_TWIN_SHARE
    of the rows have a twin, and at least LEAST_SINGLE of the distinct rows none; None
    elsewhere, and for images."""
    if ds.are_images or ds.y is None or len(rows) < 2:
        return None
    sets = sets_of_twins(ds, rows)
    sizes = np.bincount(sets)
    are_repeated = count_of_twins(sets) > LEAST_TWIN_SHARE * len(rows)
    are_mostly_single = np.count_nonzero(sizes == 1) >= LEAST_SINGLE * len(sizes)
    if are_repeated and are_mostly_single:
        return sets
    return None


def _columns(ds: Dataset, rows: np.ndarray):
    """Yield each column of inputs and targets of some rows, as numbers; a gap is one
    number, -0 is 0."""
    if isinstance(ds.x, TableRows):
        inputs = (column.values[rows] for column in ds.x.columns)
    else:
        inputs = (ds.x[rows, place] for place in range(ds.x.shape[1]))
    yield from inputs
    yield from ds.y.reshape(len(ds.y), -1)[rows].T


def _mixed(hashes: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return hashes (rows,) of what was hashed before and of a column, uint64."""
    values = column.astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan  # of one form
    bits = hashes * _FIRST_FACTOR + values.view(np.uint64) + _WEYL
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST_FACTOR
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))
