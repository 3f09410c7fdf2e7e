"""Statistics of weighted values: a value of weight 2 counts as the value twice."""

from __future__ import annotations

import math

import numpy as np


def at_rows(values: np.ndarray | None, rows) -> np.ndarray | None:
    """Return what some rows have of an array of all rows; None where there is none."""
    if values is None:
        return None
    return values[rows]


def row_counts(weights: np.ndarray) -> np.ndarray:
    """Return as how many rows each row counts: its weight, where all are whole numbers;
    else divided by their mean, since weights that are no numbers of rows say how much a
    row counts beside the others."""
    if (weights == np.floor(weights)).all():
        return weights
    return weights / weights.mean()


def distinct_counts(
    values: np.ndarray, counts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (values, ascending and each once; the count of each). counts: of each
    value; None: 1 of each."""
    if counts is None:
        return np.unique(values, return_counts=True)
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, counts, len(distinct))


def _running_sums(counts: np.ndarray) -> np.ndarray:
    """Return the sums of the counts up to each, as parts of the largest where all
    together leave float64."""
    with np.errstate(over="ignore"):
        sums = np.cumsum(counts, dtype=np.float64)
    if np.isfinite(sums[-1]):
        return sums
    return np.cumsum(counts / counts.max())


def median(values: np.ndarray, counts: np.ndarray | None) -> float:
    """Return the median of values, one at least; the mean of two where half of all lie
    below and above."""
    if counts is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    below = _running_sums(counts[order])
    half = below[-1] / 2
    lower = np.searchsorted(below, half, side="left")
    upper = min(np.searchsorted(below, half, side="right"), len(values) - 1)
    return float(np.mean(values[order][[lower, upper]]))


def quantiles(
    values: np.ndarray, shares: np.ndarray, counts: np.ndarray | None
) -> np.ndarray:
    """Return for each share the least value at or below which that share of all values
    lies."""
    if counts is None:
        return np.quantile(values, shares, method="inverted_cdf")
    order = np.argsort(values, kind="stable")
    below = _running_sums(counts[order])
    places = np.searchsorted(below, shares * below[-1], side="left")
    return values[order][np.minimum(places, len(values) - 1)]


def standard_error(values: np.ndarray, weights=None, groups=None) -> float:
    """Return the standard error of the mean of values (rows,); groups (rows,): whose
    rows are alike, None: of none."""
    if weights is None:
        weights = np.ones(len(values))
    else:
        weights = np.asarray(weights, np.float64)
    parts = weights * (values - np.average(values, weights=weights))
    count = np.count_nonzero(weights)
    if groups is not None:
        _, of_row = np.unique(groups, return_inverse=True)
        parts = np.bincount(of_row.reshape(-1), parts)
        count = len(parts)
    if count < 2:
        return math.inf
    return math.sqrt(count / (count - 1) * float((parts**2).sum())) / float(
        weights.sum()
    )
