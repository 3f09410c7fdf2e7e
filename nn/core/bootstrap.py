"""95 % intervals of metrics: the bootstrap of Efron (1979), percentiles over resampled rows.

1000 times as many rows as there are are drawn with replacement, truth, score and weight together, and each metric is
formed anew; its interval runs from the 2.5th to the 97.5th percentile of the values. A resample in which a metric is
undefined, such as the ROC-AUC without a positive row, does not count for it. Each resample has a stream of random
numbers of its own, so that the intervals are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..utils import default_threads
from .metrics import Judged
from .random import STREAM_BOOTSTRAP, uniform

RESAMPLES = 1000
PERCENTILES = (2.5, 97.5)

Interval = list[float] | None


def drawn(rows: int, number: int, seed: int = 0) -> np.ndarray:
    """Return how often resample `number` has each row, int64 (rows,)."""
    places = (uniform(rows, seed, STREAM_BOOTSTRAP + number) * rows).astype(np.int64)
    return np.bincount(np.minimum(places, rows - 1), minlength=rows)


def resampled(sides: Sequence[Judged], weights: np.ndarray | None, seed: int) -> list[list[dict[str, float | None]]]:
    """Return the metrics of each side in each resample; all sides have the same rows there."""
    for side in sides:
        side.values(weights)  # what all resamples share is made by one thread

    def values(number: int) -> list[dict[str, float | None]]:
        times = drawn(len(sides[0].truth), number, seed)
        each = times if weights is None else times * weights
        with np.errstate(all="ignore"):
            return [side.values(each, exact=False) if each.any() else dict.fromkeys(side.names) for side in sides]

    with ThreadPoolExecutor(default_threads()) as workers:
        return list(workers.map(values, range(RESAMPLES)))


def intervals(judged: Judged, weights: np.ndarray | None = None, *, seed: int = 0) -> dict[str, Interval]:
    """Return the interval of each metric. weights (rows,): as checked_weights returns them."""
    values = resampled([judged], weights, seed)
    return {name: interval([each[name] for (each,) in values]) for name in judged.names}


def interval(values: Sequence[float | None]) -> Interval:
    """Return [low, high], the percentiles of the values that are finite; None if none is."""
    found = np.asarray(values, np.float64)
    found = found[np.isfinite(found)]
    return np.percentile(found, PERCENTILES).tolist() if found.size else None
