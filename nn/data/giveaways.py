"""Columns that give the target away: by one of them alone every row is classified without an error.

Such a column is most often a copy of the target, or is known only after it. A network would learn nothing else.
"""

from __future__ import annotations

import shlex

import numpy as np

from .column_lookup import in_a_list
from .dataset import Dataset
from .encoders import RARE
from .table_rows import TableRows

_LOOK_ROWS = 1000  # which rule out nearly all columns


def giveaways(ds: Dataset) -> list[str]:
    """Return a remark for each feature column that alone tells the classes of all rows."""
    if ds.y is None or ds.classes is None or ds.are_images or ds.rows < 4 * RARE:
        return []
    first = ds.of_rows(slice(0, _LOOK_ROWS))
    found = _telling(first, [*_columns(ds)])
    if found and ds.rows > _LOOK_ROWS:
        found = _telling(ds, found)
    target = ds.targets[0] if ds.targets else "the target"
    places = ds.places or range(ds.inputs)
    names = [(ds.columns and ds.columns[i]) or str(places[i]) for i in found]
    return [
        f"column {name} alone tells {target} of all {ds.rows} rows: leave it out "
        f"(--drop {shlex.quote(in_a_list(name))}) unless it is known beforehand"
        for name in names
    ]


def _columns(ds: Dataset) -> range:
    return range(len(ds.x.kinds)) if isinstance(ds.x, TableRows) else range(ds.inputs)


def _telling(ds: Dataset, columns: list[int]) -> list[int]:
    """Return those of the columns by which alone the classes of these rows follow; of rows of one class all may be."""
    present = np.unique(ds.y)

    def tell(numbers: np.ndarray) -> np.ndarray:
        if len(present) == 2:
            return _numbers_tell(numbers, ds.y == present[1])
        return np.full(numbers.shape[1:], len(present) < 2)

    if not isinstance(ds.x, TableRows):
        return np.array(columns)[tell(ds.x[:, columns])].tolist()

    def tells(index: int) -> bool:
        values = ds.x.column(index)
        if ds.x.kinds[index] == "text":
            return _texts_tell(values, ds.y, len(ds.x.words_of(index)), len(ds.classes))
        return bool(tell(values))

    return [index for index in columns if tells(index)]


def _numbers_tell(values: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return whether all numbers (rows, ...) of one class lie above those of the other: an area of 1 under the ROC
    curve."""
    yes, no = values[positive], values[~positive]
    above, below = no.max(axis=0) < yes.min(axis=0), yes.max(axis=0) < no.min(axis=0)
    return above | below  # never with a gap, which is nan


def _texts_tell(codes: np.ndarray, y: np.ndarray, words: int, classes: int) -> bool:
    """Return whether every text stands for one class, in as few texts as there are classes, twice that at most."""
    counts = np.zeros((words + 1, classes), np.int64)
    np.add.at(counts, (codes, y), 1)  # code -1, a gap, is the last
    used = counts.any(axis=1)
    return bool(((counts > 0).sum(axis=1) <= 1).all()) and np.count_nonzero(used) <= 2 * classes
