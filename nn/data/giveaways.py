"""Columns that give the target away: by one of them alone every row is classified without an error.

Such a column is most often a copy of the target, or is known only after it. A network would learn nothing else.
"""

from __future__ import annotations

import numpy as np

from .dataset import Dataset
from .encoders import RARE
from .table_rows import TableRows

_LOOK_ROWS = 1000  # which rule out nearly all columns


def giveaways(ds: Dataset) -> list[str]:
    """Return a remark for each feature column that alone tells the classes of all rows."""
    if ds.y is None or ds.classes is None or ds.are_images or ds.rows < 4 * RARE:
        return []
    first = ds.of_rows(slice(0, _LOOK_ROWS))
    present = np.unique(first.y)
    found = [i for i in _columns(ds) if _tells(first, i, present)]
    if found and ds.rows > _LOOK_ROWS:
        present = np.unique(ds.y)
        found = [i for i in found if _tells(ds, i, present)]
    target = ds.targets[0] if ds.targets else "the target"
    names = ds.columns or [str(place) for place in ds.places] or [str(i) for i in range(ds.inputs)]
    return [
        f"column {names[i]} alone tells {target} of all {ds.rows} rows: leave it out (--drop {names[i]}) unless it is "
        f"known beforehand"
        for i in found
    ]


def _columns(ds: Dataset) -> range:
    return range(len(ds.x.kinds)) if isinstance(ds.x, TableRows) else range(ds.inputs)


def _tells(ds: Dataset, index: int, present: np.ndarray) -> bool:
    """Return whether the classes of these rows follow from one column; of rows of one class it is not known.

    present: the classes of these rows, ascending.
    """
    is_table = isinstance(ds.x, TableRows)
    values = ds.x.column(index) if is_table else ds.x[:, index]
    if is_table and ds.x.kinds[index] == "text":
        return _texts_tell(values, ds.y, len(ds.x.words_of(index)), len(ds.classes))
    return len(present) < 2 or len(present) == 2 and _numbers_tell(values, ds.y == present[1])


def _numbers_tell(values: np.ndarray, positive: np.ndarray) -> bool:
    """Return whether all numbers of one class lie above those of the other: an area of 1 under the ROC curve."""
    yes, no = values[positive], values[~positive]
    return bool(no.max() < yes.min() or yes.max() < no.min())  # never with a gap, which is nan


def _texts_tell(codes: np.ndarray, y: np.ndarray, words: int, classes: int) -> bool:
    """Return whether every text stands for one class, in as few texts as there are classes, twice that at most."""
    counts = np.zeros((words + 1, classes), np.int64)
    np.add.at(counts, (codes, y), 1)  # code -1, a gap, is the last
    used = counts.any(axis=1)
    return bool(((counts > 0).sum(axis=1) <= 1).all()) and np.count_nonzero(used) <= 2 * classes
