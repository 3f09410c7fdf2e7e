"""95 % intervals of metrics: the bootstrap of Efron (1979), percentiles over resamples,
and Wilson's interval of rates.

A resample has as many rows as there are, drawn with replacement: truth, score and
weight together. Rows of groups are drawn by whole groups, rows of a series in blocks
that follow each other in time (Künsch 1989): rows that resemble each other would else
count as if each told something new. Each metric is formed anew; its interval runs from
the 2.5th to the 97.5th percentile of the values. A resample in which a metric is
undefined, such as the ROC-AUC without a positive row, does not count for it. Each
resample has a stream of random numbers of its own, so that the intervals are the same
for any number of threads.

Of independent rows without weights a rate of two classes has the interval of Wilson
(1927), which holds for few rows too. Where an area is 1 every resample's is too, and
tells nothing of what other rows would give: its lower end is 1 - 3 / n, n the rows of
the smaller class (the rule of three, Hanley and Lippman-Hand 1983).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from ..utils import default_threads
from .metrics import Judged
from .random import STREAM_BOOTSTRAP, uniform

RESAMPLES = 1000
PERCENTILES = (2.5, 97.5)
RULE_OF_THREE = 3.0  # -ln(1 - 95 %), rounded up
# metrics that are 1 in every resample of rows which are all told apart
_OF_NO_SPREAD = ("roc_auc", "pr_auc", "mcc")

# of Student's quantile around the normal one, z: for each power of 1 / freedom, from 0
# on, what divides the term, and its factors of ..., z^5, z^3, z
_EXPANSION = (
    (1, 1),
    (4, 1, 1),
    (96, 5, 16, 3),
    (384, 3, 19, 17, -15),
    (92160, 79, 776, 1482, -1920, -945),
)

Interval = list[float] | None


# ---------------------------------------------------------------- quantiles


def normal_quantile(share: float) -> float:
    """Return the number below which this share of a standard normal distribution
    lies."""
    from statistics import NormalDist  # here: it imports much

    return NormalDist().inv_cdf(share)


def student_quantile(share: float, freedom: int) -> float:
    """Return the number below which this share of Student's t distribution lies;
    freedom: its degrees, 1 or more.

    By the expansion around the normal quantile (Abramowitz and Stegun 1964, 26.7.5),
    and exactly for one and two.
    """
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        return (2 * share - 1) * math.sqrt(2 / (4 * share * (1 - share)))
    z = normal_quantile(share)
    quantile = 0.0
    for power, (divisor, *factors) in enumerate(_EXPANSION):
        term = 0.0
        for place, factor in enumerate(factors):
            term += factor * z ** (2 * (power - place) + 1)
        quantile += term / divisor / freedom**power
    return quantile


# ------------------------------------------------------------ which rows a resample has


@dataclass(frozen=True)
class Sampling:
    """How rows are drawn: each for itself, by whole groups, or in blocks of rows that
    follow each other in time.

    groups: the group of each row (rows,), as codes from 0 on; times (rows,), which
    count where there are no groups.
    """

    rows: int
    groups: np.ndarray | None = None
    times: np.ndarray | None = None

    @property
    def are_independent(self) -> bool:
        """Return whether each row is drawn for itself."""
        return self.groups is None and self.times is None

    @cached_property
    def _group_of_row(self) -> np.ndarray:
        return np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def _in_order(self) -> np.ndarray:
        return np.argsort(self.times, kind="stable")

    @property
    def units(self) -> int:
        """Return how many things are drawn: rows or groups; of a series the blocks that
        make as many rows."""
        if self.groups is not None:
            return int(self._group_of_row.max()) + 1
        if self.times is not None:
            return -(-self.rows // self.block_rows)
        return self.rows

    @property
    def block_rows(self) -> int:
        """Return the rows of a block of a series: the cube root of all (Künsch 1989,
        Hall et al. 1995)."""
        return max(1, round(self.rows ** (1 / 3)))

    def drawn(self, number: int, seed: int = 0) -> np.ndarray:
        """Return how often resample `number` has each row, int64 (rows,)."""
        if self.groups is not None:
            return _drawn_with_replacement(self.units, number, seed)[self._group_of_row]
        if self.times is not None:
            return self._drawn_blocks(number, seed)
        return _drawn_with_replacement(self.rows, number, seed)

    def _drawn_blocks(self, number: int, seed: int) -> np.ndarray:
        """Blocks may begin at any row from which a whole one follows; the last one is
        cut to the number of rows."""
        starts = self.rows - self.block_rows + 1
        shares = uniform(self.units, seed, STREAM_BOOTSTRAP + number)
        first_rows = np.minimum((shares * starts).astype(np.int64), starts - 1)
        blocks = first_rows[:, None] + np.arange(self.block_rows)
        places = blocks.reshape(-1)[: self.rows]
        counts = np.bincount(places, minlength=self.rows)
        by_row = np.empty_like(counts)
        by_row[self._in_order] = counts
        return by_row


def _drawn_with_replacement(count: int, number: int, seed: int) -> np.ndarray:
    places = (uniform(count, seed, STREAM_BOOTSTRAP + number) * count).astype(np.int64)
    return np.bincount(np.minimum(places, count - 1), minlength=count)


def in_each_resample(
    value_of: Callable,
    sampling: Sampling,
    weights,
    seed: int,
    resamples: int | None = None,
) -> list:
    """Return value_of(weights of the rows) for each resample; the weights are those of
    its rows, 0 of the others."""

    def value(number: int):
        times = sampling.drawn(number, seed)
        with np.errstate(all="ignore"):
            if weights is not None:
                times = times * weights
            return value_of(times)

    def values(numbers: range) -> list:
        return [value(number) for number in numbers]

    numbers = range(resamples or RESAMPLES)
    threads = default_threads()
    size = -(-len(numbers) // threads)
    parts = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    with ThreadPoolExecutor(threads) as workers:
        return list(chain.from_iterable(workers.map(values, parts)))


def resampled(
    sides: Sequence[Judged],
    weights: np.ndarray | None,
    seed: int,
    sampling: Sampling | None = None,
    names: Sequence[str] | None = None,
    resamples: int | None = None,
) -> list[list[dict[str, float | None]]]:
    """Return the metrics of each side in each resample; all sides have the same rows
    there. names: of the metrics that are asked for, None: all."""
    for side in sides:
        side.values(weights, names)  # what all resamples share is made by one thread

    def values(row_weights: np.ndarray) -> list[dict[str, float | None]]:
        if not row_weights.any():
            return [
                dict.fromkeys(side.names if names is None else names) for side in sides
            ]
        return [side.values(row_weights, names, exact=False) for side in sides]

    sampling = sampling or Sampling(len(sides[0].truth))
    return in_each_resample(values, sampling, weights, seed, resamples)


# ---------------------------------------------------------------- intervals


def intervals(
    judged: Judged,
    weights: np.ndarray | None = None,
    *,
    sampling: Sampling | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
    resamples: int | None = None,
) -> dict[str, Interval]:
    """Return the interval of each metric, in which the metric itself lies; None where
    there is none.

    weights (rows,): as checked_weights returns them. sampling: None for independent
    rows. names: of the metrics that are asked for, None: all. resamples: None for
    RESAMPLES.
    """
    sampling = sampling or Sampling(len(judged.truth))
    if names is None:
        names = judged.names
    if sampling.units < 2:
        return dict.fromkeys(names)
    values = resampled([judged], weights, seed, sampling, names, resamples)
    metrics = [metrics for (metrics,) in values]
    return _intervals_of(judged, weights, sampling, names, metrics)


def intervals_and_by_target(
    judged: Judged, weights: np.ndarray | None, sampling: Sampling, seed: int = 0
) -> tuple[dict[str, Interval], list[dict[str, Interval]]]:
    """Return what intervals does, and the same of each of several targets, by the same
    resamples: a target has those of their rows that have it."""
    targets = list(judged.of_targets(weights))
    if sampling.units < 2:
        of_targets = [dict.fromkeys(target.names) for target, _ in targets]
        return dict.fromkeys(judged.names), of_targets
    judged.values(weights)  # what all resamples share is made by one thread

    def values(row_weights: np.ndarray) -> tuple[dict, list[dict]]:
        of_targets = judged.values_of_targets(row_weights, exact=False)
        own = judged.values(row_weights, exact=False, of_targets=of_targets)
        return own, of_targets

    drawn = in_each_resample(values, sampling, weights, seed)
    metrics = [own for own, _ in drawn]
    ends = _intervals_of(judged, weights, sampling, judged.names, metrics)
    ends_of_targets = []
    for number, (target, own) in enumerate(targets):
        metrics = [of_targets[number] for _, of_targets in drawn]
        ends_of_targets.append(
            _intervals_of(target, own, sampling, target.names, metrics)
        )
    return ends, ends_of_targets


def _intervals_of(
    judged: Judged,
    weights: np.ndarray | None,
    sampling: Sampling,
    names: Sequence[str],
    metrics: Sequence[dict],
) -> dict[str, Interval]:
    """Return the interval of each metric. metrics: those of each resample."""
    ends = {name: interval([values[name] for values in metrics]) for name in names}
    if sampling.are_independent and _count_alike(weights):
        ends |= _wilson_intervals(judged)
    return {
        name: _around(value, ends[name], name, judged)
        for name, value in judged.values(weights, names).items()
    }


def interval(values: Sequence[float | None]) -> Interval:
    """Return [low, high], the percentiles of the values that are finite; None if none
    is."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if numbers.size:
        return np.percentile(numbers, PERCENTILES).tolist()
    return None


def wilson(hits: float, rows: float) -> Interval:
    """Return the interval of the rate hits / rows (Wilson 1927); None for no rows."""
    if not rows:
        return None
    z = normal_quantile(PERCENTILES[1] / 100)
    middle = (hits + z**2 / 2) / (rows + z**2)
    half = z / (rows + z**2) * math.sqrt(hits * (rows - hits) / rows + z**2 / 4)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def _count_alike(weights: np.ndarray | None) -> bool:
    return weights is None or bool((weights == 1).all())


def _wilson_intervals(judged: Judged) -> dict[str, Interval]:
    """Return the intervals of the metrics that are rates of rows; of other metrics
    none.

    F1 is 2 r / (1 + r), r = tp / (tp + fp + fn) the rate among the rows that are, or
    are called, positive (Hand, Christen and Kirielle 2021): its ends are those of r.
    """
    if judged.task == "regression":
        return {}
    rows = len(judged.truth)
    right = int(judged.are_right.sum())
    if judged.task != "binary":
        return {"accuracy": wilson(right, rows)}
    tp, fp, fn, _ = judged.counts()
    overlap = wilson(tp, tp + fp + fn)
    return {
        "accuracy": wilson(right, rows),
        "precision": wilson(tp, tp + fp),
        "recall": wilson(tp, tp + fn),
        "f1": overlap and [2 * end / (1 + end) for end in overlap],
    }


def _around(value: float | None, ends: Interval, name: str, judged: Judged) -> Interval:
    """Return the ends moved so far apart that the metric lies between them, by the rule
    of three where it is 1."""
    if value is None or ends is None or not math.isfinite(value):
        return ends
    low, high = ends
    if value == 1 and name in _OF_NO_SPREAD:
        counts = np.unique(judged.truth, return_counts=True)[1]
        low = min(low, max(0.0, 1 - RULE_OF_THREE / int(counts.min())))
    return [min(low, value), max(high, value)]
