"""The test of two samples of counts: whether they are of one distribution.

Cells that expect enough rows are compared by chi-square (Pearson 1911), once neighbours
are merged. Cells apart, such as those of missing values and of what the first sample
never had, are no neighbours of others; that the second sample has more of them,
together, is judged by the binomial distribution too, which takes the fewest rows.
"""

from __future__ import annotations

import math

import numpy as np

LEAST_EXPECTED = 5.0  # rows of a cell, in the smaller sample


def compared(inner: np.ndarray, apart: np.ndarray) -> tuple[float, float]:
    """Return (p, difference) of two samples: how likely they are to differ as they do,
    or more, if they are of one distribution, and the largest difference between the
    shares of a cell. inner (2, cells): neighbours; apart (2, cells): the others."""
    sums = inner.sum(axis=1) + apart.sum(axis=1)
    least = LEAST_EXPECTED * sums.sum() / max(1, sums.min())
    is_large = apart.sum(axis=0) >= least
    cells = np.hstack([merged(inner), apart[:, is_large]])
    others, counts = apart.sum(axis=1)
    apart_p = binomial_tail(counts, others, sums[1] / max(1, sums.sum()))
    p = min(1.0, 2 * min(p_of_same(cells), apart_p))
    rest = apart[:, ~is_large].sum(axis=1)[:, None]
    shares = np.hstack([cells, rest]) / np.maximum(1, sums)[:, None]
    return p, float(np.abs(np.diff(shares, axis=0)).max())


def binomial_tail(count: float, others: float, share: float) -> float:
    """Return the probability that of all rows, those found and others, as many as found
    or more are in a sample that has this share of all rows; 1 where no more are found
    than are expected."""
    rows = count + others
    if count <= share * rows:
        return 1.0
    log_first = math.lgamma(rows + 1) - math.lgamma(count + 1) - math.lgamma(others + 1)
    log_first += count * math.log(share) + others * math.log1p(-share)
    counts = np.arange(count, rows)  # each with the chance of one more beside its own
    ratios = (rows - counts) / (counts + 1) * share / (1 - share)
    return min(1.0, math.exp(log_first) * (1 + float(np.cumprod(ratios).sum())))


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
    counts = counts[:, counts.any(axis=0)]
    if counts.shape[1] < 2 or not counts.any(axis=1).all():
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
