"""Medians of plain numbers: what a gap becomes where a network was trained on numbers
without any."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.weighted import at_rows, median
from ..utils import listed, log

MEDIAN_ROWS = 1 << 17  # of which medians are taken, as of a table's columns
_SAMPLE_VALUES = 1 << 24  # of all columns together, that are copied for them
_SEARCHED_VALUES = 1 << 20  # looked at for gaps at a time
_MOST_TOLD = 20  # columns in a message


def medians_of(
    x, rows: np.ndarray | slice = slice(None), weights: np.ndarray | None = None
) -> list[float] | None:
    """Return the median of each column of x, (rows, columns), in some rows (indices);
    None where x are no plain numbers: images, pixels, tables with more than numbers,
    numbers that are not finite.

    weights: of these rows, above 0; None: all are 1. Of many rows the medians are those
    of every second one, every third one, ...
    """
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype == np.uint8:
        return None
    rows = np.arange(len(x))[rows]
    most = max(1, min(MEDIAN_ROWS, _SAMPLE_VALUES // max(1, x.shape[1])))
    every_few = slice(None, None, -(-len(rows) // most) or 1)
    sample = x[rows[every_few]]
    if not sample.size:
        return None
    counts = at_rows(weights, every_few)
    medians = np.array(
        [median(column.astype(np.float64), counts) for column in sample.T]
    )
    if np.isfinite(medians).all():
        return medians.tolist()
    return None


def has_gaps(x: np.ndarray) -> bool:
    """Return whether there is a nan among these numbers."""
    return x.dtype.kind == "f" and x.size > 0 and bool(np.isnan(x.min()))


def fill_gaps(x: np.ndarray, medians: Sequence[float]) -> np.ndarray:
    """Put the medians into the gaps of x, (rows, columns); return how many each column
    had."""
    counts = np.zeros(x.shape[1], np.int64)
    fillings = np.array(medians).astype(x.dtype)
    step = max(1, _SEARCHED_VALUES // max(1, x.shape[1]))
    for start in range(0, len(x), step):
        block = x[start : start + step]
        if not has_gaps(block):
            continue
        is_gap = np.isnan(block)
        counts += is_gap.sum(axis=0)
        np.copyto(block, fillings, where=is_gap)
    return counts


def log_filled(
    counts: np.ndarray, names: Sequence[str] | None, where: str, cure: str = ""
) -> None:
    """Log one line on the columns that had gaps. where: names the rows; cure: what else
    can be done."""
    columns = np.flatnonzero(counts)
    if not len(columns):
        return
    called = []
    for column in columns.tolist():
        rows = "1 row" if counts[column] == 1 else f"{counts[column]} rows"
        called.append(f"column {names[column] if names else column} ({rows})")
    log.warning(
        "%s: gaps in %s, where training had none, become the median of training%s",
        where,
        listed(called, _MOST_TOLD),
        cure,
    )
