"""Rows with several labels divided evenly: iterative stratification (Sechidis,
Tsoumakas and Vlahavas 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np


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
    sizes = sizes[order].tolist()
    of_unit = [np.flatnonzero(row).tolist() for row in is_rare]
    lacking = [
        (share * (np.array(sizes) @ is_rare)).tolist() for share in map(float, shares)
    ]
    lacking_rows = [float(share * sum(sizes)) for share in shares]
    part = np.full(len(sizes), -1, np.int64)
    left = is_rare.sum(axis=0)

    def need(place: int, label: int | None) -> tuple:
        """Return what a part lacks: of a label, then of rows."""
        if label is None:
            return 0, lacking_rows[place]
        return lacking[place][label], lacking_rows[place]

    def deal(units: np.ndarray, label: int | None) -> None:
        for unit in units.tolist():
            best = max(range(len(lacking)), key=partial(need, label=label))
            part[unit] = best
            lacking_rows[best] -= sizes[unit]
            for label_of_unit in of_unit[unit]:
                lacking[best][label_of_unit] -= sizes[unit]

    while left.any():
        label = int(np.where(left > 0, left, len(sizes) + 1).argmin())
        units = np.flatnonzero(is_rare[:, label] & (part < 0))
        deal(units, label)
        left -= is_rare[units].sum(axis=0)
    deal(np.flatnonzero(part < 0), None)
    of_units = np.empty_like(part)
    of_units[order] = part
    return of_units


def _rarer(labels: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which labels (units, labels) are the rarer one of 0 and 1."""
    ones = sizes @ (labels == 1)
    zeros = sizes @ (labels == 0)
    return labels == np.where(ones <= zeros, 1, 0)
