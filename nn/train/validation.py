"""Rows apart from training, the metric that is monitored on them, the best epoch, early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.metrics import metric
from ..nn import Network
from ..nn_aux import METRICS

LOSS = "loss"  # the metric that is what training minimises, on the validation rows


@dataclass(frozen=True)
class Monitor:
    """The metric by which epochs are compared, and how many without a better one are waited for."""

    name: str
    patience: int | None = None

    def is_better(self, value: float, than: float) -> bool:
        """Return whether a value is better; one that is undefined (nan) never is."""
        return value > than if METRICS[self.name].higher_is_better else value < than

    def best(self, values: Sequence[float]) -> int | None:
        """Return the best epoch, from 1, the first of equals; None without a value that is defined."""
        best = None
        for epoch, value in enumerate(values, 1):
            if not math.isnan(value) and (best is None or self.is_better(value, values[best - 1])):
                best = epoch
        return best

    def sorted(self, values: Mapping[int, float | None]) -> list[int]:
        """Return the keys by their values, the best first; of equals the lower, and at the end those without one."""
        sign = -1 if METRICS[self.name].higher_is_better else 1
        known = {key: value for key, value in values.items() if value is not None and not math.isnan(value)}
        return [*sorted(known, key=lambda key: (sign * known[key], key)), *sorted(values.keys() - known.keys())]

    def is_over(self, values: Sequence[float]) -> bool:
        """Return whether the last `patience` epochs were no better than the best before them."""
        return self.patience is not None and len(values) - (self.best(values) or 0) >= self.patience


@dataclass(frozen=True)
class JudgedRows:
    """Some rows that an engine has loaded, to be judged.

    data: as the engine loaded it; rows: indices into it. weight(rows): how many rows they count as in the loss;
    truth(rows): (targets, weights or None) as metrics take them.
    """

    data: object
    rows: np.ndarray
    weight: Callable[[np.ndarray], float]
    truth: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]


def metric_of(net: Network, name: str, parts: list, threshold: float) -> float:
    """Return the metric of (truth, scores, weights or None) of all parts, nan where it is undefined."""
    truth, scores, weights = (None if part[0] is None else np.concatenate(part) for part in zip(*parts, strict=True))
    if net.task == "regression" and net.target_scaling is not None:
        scores = net.target_scaling.inverse(scores)
    value = metric(name, net.task, truth, scores, weights, threshold=threshold)
    return math.nan if value is None else float(value)
