"""The choice among networks, of --vary as of --effort: the worse are given up early (successive halving, Jamieson and
Talwalkar 2016), and of the others those are taken that together do best on rows that they do not know (greedy
selection with repetition, Caruana et al. 2004)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..core.metrics import metric
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import TASKS
from ..utils import NnError, UsageError
from .decision import judged
from .options import Monitor, Options

PICKS = 10  # of greedy selection; networks are not given up where fewer would be left
SHARE = 0.2  # of validation rows, where folds cannot choose
OF_PROBABILITIES = ("loss", "brier")  # metrics that need them; the loss of a choice is the log loss


def undefined(monitor: Monitor) -> NnError:
    """Return the error of a choice among networks by a metric that is undefined for all of them."""
    return NnError(
        f"{monitor.name} is undefined for the rows that choose among the networks: give another --monitor, or rows in "
        "which targets differ"
    )


def check_choice(net: Network, options: Options, flag: str) -> None:
    """Raise UsageError, before training, for a metric by which such networks cannot be compared."""
    output, name = net.layers[-1].output_function, options.monitored.name
    if name in OF_PROBABILITIES and net.task != "regression" and output != TASKS[net.task][0]:
        raise UsageError(
            f"--monitor {name}: {flag} would choose by probabilities, which a {output} output layer does not "
            "give; choose another metric"
        )


# ---- those that go together


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


def choose(task: str, monitor: Monitor, truth, scores: Sequence, weights=None, threshold: float = 0.5) -> list[int]:
    """Return how often each network is chosen, by rows that they do not know.

    truth (rows,), scores: of each network (rows, outputs), weights (rows,) or None. threshold: of class 1, for metrics
    of decisions.
    """

    def value_of(mean: np.ndarray) -> float | None:
        return metric(monitor.name, task, truth, mean, weights, threshold=threshold)

    return greedy_selection(scores, PICKS, monitor, value_of)


def scores_of_members(net: Network, ds: Dataset, rows) -> tuple:
    """Return (truth (rows,), each member's scores (rows, outputs), weights or None)."""
    truth, scores, weights = judged(net, ds, rows, lambda x: np.stack([*net.member_outputs(x)], axis=1))
    return truth, scores.swapaxes(0, 1), weights


# ---- those that are given up


def survivors(count: int) -> list[int]:
    """Return how many networks are left after each comparison: half of them, while that is at least PICKS."""
    left = []
    while -(-count // 2) >= PICKS:
        count = -(-count // 2)
        left.append(count)
    return left


class SuccessiveHalving:
    """Which networks are given up, decided by the metrics of their epochs alone, so that a resumed run decides alike.

    There are comparisons at 1/2, 1/4, ... of a network's epochs, the last one at half of them.
    epochs: of each network, by its number.
    """

    def __init__(self, monitor: Monitor, epochs: Sequence[int]):
        self._monitor, self._epochs = monitor, epochs
        self._left = survivors(len(epochs))
        self._next = 0  # comparisons made
        self.given_up: set[int] = set()

    def epoch_of(self, number: int) -> int | None:
        """Return the epochs after which a network waits for the next comparison; None if there is none any more."""
        if self._next == len(self._left):
            return None
        parts = 2 ** (len(self._left) - self._next)
        return -(-self._epochs[number] // parts)

    def waits(self, number: int, done: int) -> bool:
        """Return whether a network that has done `done` epochs waits for the next comparison."""
        epoch = self.epoch_of(number)
        return epoch is not None and done >= epoch

    def compare(self, metrics: Mapping[int, Sequence[float]]) -> list[int]:
        """Make the next comparison; returns the networks that are given up.

        metrics: those after each epoch, of every network that is left. Of equals the lower number stays. Raises NnError
        where the metric is undefined for all.
        """
        best = {}
        for number, values in metrics.items():
            values = values[: self.epoch_of(number)]
            epoch = self._monitor.best(values)
            best[number] = None if epoch is None else values[epoch - 1]
        if all(value is None for value in best.values()):
            raise undefined(self._monitor)
        order = self._monitor.sorted(best)
        worse = order[self._left[self._next] :]
        self._next += 1
        self.given_up |= {*worse}
        return worse
