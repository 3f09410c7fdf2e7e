"""Greedy selection with repetition: the networks that together do best on validation rows (Caruana et al. 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .validation import Monitor


def greedy_selection(
    scores: Sequence[np.ndarray], picks: int, monitor: Monitor, value_of: Callable[[np.ndarray], float]
) -> list[int]:
    """Return how often each network is chosen, at most `picks` times in all.

    scores: each network's outputs (rows, outputs); value_of(mean outputs): the metric, nan where it is undefined.
    The network whose addition makes the mean best is added, `picks` times, of equals the first; the best of the means
    on the way is taken, of equals the first. Where the metric is never defined the first networks are chosen.
    """
    total, chosen, values = np.zeros(scores[0].shape), [], []
    for size in range(1, picks + 1):
        found = [value_of((total + own) / size) for own in scores]
        best = monitor.best(found)
        if best is None:
            return [int(number < picks) for number in range(len(scores))]
        chosen.append(best - 1)
        values.append(found[best - 1])
        total += scores[best - 1]
    taken = chosen[: monitor.best(values)]
    return [taken.count(number) for number in range(len(scores))]
