"""The chi-square test of two samples of counts (Pearson 1911): whether they are of one
distribution. Cells are merged until each expects enough rows."""

from __future__ import annotations

import math

import numpy as np

LEAST_EXPECTED = 5.0  # rows of a cell, in the smaller sample


def merged(counts: np.ndarray) -> np.ndarray:
    """Return the counts (2, cells) with neighbouring cells added up until each expects
    LEAST_EXPECTED rows in both samples; what is left at the end joins the last one."""
    sums = counts.sum(axis=1)
    least = LEAST_EXPECTED * sums.sum() / max(1, sums.min())
    cells = []
    cell = np.zeros(2)
    for both in counts.T:
        cell = cell + both
        if cell.sum() >= least:
            cells.append(cell)
            cell = np.zeros(2)
    if cells:
        cells[-1] = cells[-1] + cell
    else:
        cells.append(cell)
    return np.array(cells).T


def p_of_same(counts: np.ndarray) -> float:
    """Return how likely two samples (2, cells) of one distribution are to differ as
    these do, or more; 1 for a single cell."""
    if counts.shape[1] < 2:
        return 1.0
    shares = counts.sum(axis=0) / counts.sum()
    expected = counts.sum(axis=1)[:, None] * shares
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, counts.shape[1] - 1)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the probability that chi-square with these degrees of freedom is as large
    or larger: Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1), x half of it."""
    half = statistic / 2
    if half <= 0:
        return 1.0
    if freedom % 2:
        a = 0.5
        tail = math.erfc(math.sqrt(half))
    else:
        a = 1.0
        tail = math.exp(-half)
    while a < freedom / 2:
        tail += math.exp(a * math.log(half) - half - math.lgamma(a + 1))
        a += 1
    return min(1.0, tail)
