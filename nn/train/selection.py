"""Greedy selection with repetition: the networks that together do best on validation rows (Caruana et al. 2004)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..core.metrics import metric
from ..ds import Dataset
from ..nn import Network
from .decision import blocks_of
from .validation import Monitor, undefined


def greedy_selection(
    scores: Sequence[np.ndarray], picks: int, monitor: Monitor, value_of: Callable[[np.ndarray], float | None]
) -> list[int]:
    """Return how often each network is chosen, at most `picks` times in all.

    scores: each network's outputs (rows, outputs); value_of(mean outputs): the metric, None where it is undefined.
    The network whose addition makes the mean best is added, `picks` times, of equals the first; the best of the means
    on the way is taken, of equals the first. A mean is rounded to the outputs' type, as the prediction is: whether rows
    are probabilities is asked of that type. Raises NnError where the metric is undefined for all.
    """
    total, chosen, values = np.zeros(scores[0].shape), [], []
    for size in range(1, picks + 1):
        means = (((total + own) / size).astype(own.dtype) for own in scores)
        found = [math.nan if value is None else value for value in map(value_of, means)]
        best = monitor.best(found)
        if best is None:
            raise undefined(monitor)
        chosen.append(best - 1)
        values.append(found[best - 1])
        total += scores[best - 1]
    taken = chosen[: monitor.best(values)]
    return [taken.count(number) for number in range(len(scores))]


def select_members(net: Network, ds: Dataset, rows, picks: int, monitor: Monitor, threshold: float) -> list[int]:
    """Return how often each member of a network is chosen, by rows that they do not know, as judged takes them.

    threshold: of class 1, for metrics of decisions.
    """
    truth, scores, weights = _scores_of_members(net, ds, rows)

    def value_of(mean: np.ndarray) -> float | None:
        return metric(monitor.name, net.task, truth, mean, weights, threshold=threshold)

    return greedy_selection(scores, picks, monitor, value_of)


def _scores_of_members(net: Network, ds: Dataset, rows) -> tuple:
    """Return (truth (rows,), each member's scores (rows, outputs), weights or None)."""
    parts = [(y, np.stack([*net.member_outputs(x)]), weights) for x, y, weights in blocks_of(ds, rows)]
    truth, weights = (None if parts[0][k] is None else np.concatenate([part[k] for part in parts]) for k in (0, 2))
    return truth, np.concatenate([part[1] for part in parts], axis=1), weights
