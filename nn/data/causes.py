"""Causes in the data that keep any network from learning: inputs that are the same in
all rows, a few targets far from all others."""

from __future__ import annotations

import numpy as np

from .column import number_text
from .dataset import Dataset
from .table_rows import TableRows

# of targets that may be marks, see far_from_others
FAR_DEVIATIONS = 30
APART = 10
MOST_FAR = 0.25


def cause_in(ds: Dataset) -> str | None:
    """Return what in the data keeps any network from learning: inputs that are the same
    in all rows, a few targets far from all others; None where neither is so."""
    rows = ds.counting_rows()
    if _are_equal(ds.x, rows):
        if ds.are_images:
            what = "pictures are all equal"
        else:
            what = "inputs are the same in every row"
        return f"its {what}, so that nothing tells rows apart: look at the data, and at how they were read"
    if ds.task != "regression":
        return None
    for target, values in enumerate(
        ds.y[rows].reshape(len(rows), -1).astype(np.float64).T
    ):
        far = far_from_others(values)
        if len(far):
            if ds.targets:
                name = ds.targets[target]
            else:
                name = "the target"
            mark = number_text(ds.y.dtype.type(far[0]))  # as the file has it
            far_values = f"{len(far)} of {len(rows)} values of {name} are far from all others, such as {mark}"
            return f"{far_values}: correct them, or leave their rows out (--missing {mark} if that marks a missing value)"
    return None


def _are_equal(x, rows: np.ndarray) -> bool:
    """Return whether all of these rows of inputs are equal."""
    if isinstance(x, TableRows):
        return all(_is_constant(column.values[rows]) for column in x.columns)
    return all(_is_constant(values[rows]) for values in x.reshape(len(x), -1).T)


def _is_constant(values: np.ndarray) -> bool:
    is_gap = values != values
    return bool(((values == values[0]) | is_gap).all()) and (
        bool(is_gap.all()) or not is_gap.any()
    )


def far_from_others(values: np.ndarray) -> np.ndarray:
    """Return a few values that lie far from all others: FAR_DEVIATIONS times as far
    from the median as half of all do, and beyond a gap as wide as APART times the
    distance of all others. None where they are more than MOST_FAR of all."""
    distances = np.abs(values - np.median(values))
    usual = np.median(distances)
    is_far = distances > FAR_DEVIATIONS * usual
    share = is_far.mean()
    if not usual > 0 or not 0 < share <= MOST_FAR:
        return values[:0]
    if distances[is_far].min() <= APART * distances[~is_far].max():
        return values[:0]
    return values[is_far]
