"""Twins: rows of equal inputs and target. A network that knows a row knows its twin, so
that twins in two folds make the metrics of both too good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from .dataset import Dataset
from .row_hashes import bits_of_numbers, mixed, scattered
from .table_rows import TableRows

LEAST_TWIN_SHARE = 0.01  # of the rows, above which those with a twin count
# of the distinct rows, that have no twin: the table is fine enough to tell rows apart
LEAST_SINGLE = 0.9
# of what chance would make, by which the targets of equal inputs differ: copies agree
MOST_DISAGREEMENT = 0.1


def sets_of_twins(ds: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the number of the set of twins of each of the rows (indices), int64
    (rows,); a row alone is a set."""
    return _sets_of_equal(chain(_inputs(ds, rows), _targets(ds, rows)), len(rows))


def _sets_of_equal(columns: Iterable[np.ndarray], rows: int) -> np.ndarray:
    """Return the number of the set of equal rows that each row of these columns is in,
    int64 (rows,). A column is in memory at a time."""
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        hashes = mixed(hashes, bits_of_numbers(column, is_wide=True))
    return np.unique(scattered(hashes), return_inverse=True)[1]


def count_of_twins(sets: np.ndarray) -> int:
    """Return how many rows have a twin. sets: as sets_of_twins returns them."""
    sizes = np.bincount(sets)
    return int(sizes[sizes > 1].sum())


def twins_to_keep_together(ds: Dataset, rows: np.ndarray) -> np.ndarray | None:
    """Return sets_of_twins where repeated rows are copies: more than LEAST_TWIN_SHARE
    of the rows have a twin, and at least LEAST_SINGLE of the distinct rows none or
    equal inputs have equal targets far beyond chance; None elsewhere, and for
    images."""
    if ds.are_images or ds.y is None or len(rows) < 2:
        return None
    sets = sets_of_twins(ds, rows)
    if count_of_twins(sets) <= LEAST_TWIN_SHARE * len(rows):
        return None
    sizes = np.bincount(sets)
    are_mostly_single = np.count_nonzero(sizes == 1) >= LEAST_SINGLE * len(sizes)
    if are_mostly_single or _do_targets_agree(ds, rows, sets):
        return sets
    return None


def _do_targets_agree(ds: Dataset, rows: np.ndarray, sets: np.ndarray) -> bool:
    """Return whether rows of equal inputs have equal targets so often that they are
    copies of each other: in a coarse table they are other rows, whose targets differ as
    often as chance has it, or nearly. sets: those of twins."""
    pairs = _pairs_within(_sets_of_equal(_inputs(ds, rows), len(rows)))
    agreeing = _pairs_within(sets)
    shares = np.bincount(_sets_of_equal(_targets(ds, rows), len(rows))) / len(rows)
    by_chance = 1 - np.square(shares).sum()
    return bool(1 - agreeing / pairs <= MOST_DISAGREEMENT * by_chance)


def _pairs_within(sets: np.ndarray) -> float:
    """Return how many pairs of rows lie in one set."""
    sizes = np.bincount(sets).astype(np.float64)
    return float((sizes * (sizes - 1)).sum()) / 2


def _inputs(ds: Dataset, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield each column of inputs of some rows, as numbers."""
    if isinstance(ds.x, TableRows):
        for column in ds.x.columns:
            yield column.values[rows]
        return
    for place in range(ds.x.shape[1]):
        yield ds.x[rows, place]


def _targets(ds: Dataset, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield each target of some rows."""
    yield from ds.y.reshape(len(ds.y), -1)[rows].T
