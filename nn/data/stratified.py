"""Rows with several labels divided evenly: iterative stratification (Sechidis,
Tsoumakas and Vlahavas 2011)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ROWS = -1  # the column of counts that has rows, behind those of labels


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
    _deal(np.flatnonzero(part < 0), ROWS, counts, lacking, part)
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
        best = np.where(lacks_most, lacking[:, ROWS], -np.inf).argmax()
        part[unit] = best
        lacking[best] -= counts[unit]


def _rarer(labels: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which labels (units, labels) are the rarer one of 0 and 1."""
    ones = sizes @ (labels == 1)
    zeros = sizes @ (labels == 0)
    return labels == np.where(ones <= zeros, 1, 0)
