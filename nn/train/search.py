"""The choice among networks, of --vary as of --effort: the worse are given up early
(successive halving, Jamieson and Talwalkar 2016), and of the others those are taken
that together do best on rows that they do not know (greedy selection with repetition,
Caruana et al. 2004)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..core.metrics import metric
from ..core.weighted import at_rows
from ..ds import Dataset
from ..nn import Network
from ..nn.prediction import mean_of
from ..nn_aux import TASKS
from ..utils import NnError, UsageError
from .decision import rows_judged
from .options import LOSS, Monitor, Options

PICKS = 10  # of greedy selection; networks are not given up where fewer would be left
VALIDATION_SHARE = 0.2  # of validation rows, where folds cannot choose
# metrics that need them; the loss of a choice is the log loss
OF_PROBABILITIES = ("loss", "brier")


def undefined(monitor: Monitor) -> NnError:
    """Return the error of a choice among networks by a metric that is undefined for all
    of them."""
    return NnError(
        f"{monitor.name} is undefined for the rows that choose among the networks: give another --monitor, or rows in "
        "which targets differ"
    )


def check_choice(net: Network, options: Options, flag: str) -> None:
    """Raise UsageError, before training, for a metric by which such networks cannot be
    compared."""
    output = net.layers[-1].output_function
    name = options.monitored.name
    if (
        name in OF_PROBABILITIES
        and TASKS[net.task].of_classes
        and output != TASKS[net.task].output
    ):
        raise UsageError(
            f"--monitor {name}: {flag} would choose by probabilities, which a {output} output layer does not "
            "give; choose another metric"
        )


# ---- those that go together


def greedy_picks(
    candidates: int,
    picks: int,
    monitor: Monitor,
    value_of: Callable[[Sequence[int]], float | None],
) -> list[int]:
    """Return how often each candidate is chosen, at most `picks` times in all.
    candidates: their number.

    value_of(numbers of the candidates picked): the metric of their mean, None or nan
    where it is undefined. The one whose addition makes the mean best is added, `picks`
    times, of equals the first; the best of the means on the way is taken, of equals the
    first. Raises NnError where the metric is undefined for all.
    """
    picked: list[int] = []
    values = []
    for _ in range(picks):
        measured = [value_of([*picked, number]) for number in range(candidates)]
        measured = [math.nan if value is None else value for value in measured]
        best = monitor.best(measured)
        if best is None:
            raise undefined(monitor)
        picked.append(best - 1)
        values.append(measured[best - 1])
    taken = picked[: monitor.best(values)]
    return [taken.count(number) for number in range(candidates)]


def greedy_selection(
    scores: Sequence[np.ndarray],
    picks: int,
    monitor: Monitor,
    value_of: Callable[[np.ndarray], float | None],
) -> list[int]:
    """Return how often each network is chosen; see greedy_picks.

    scores: each network's outputs (rows, outputs); value_of(mean outputs): the metric,
    None where it is undefined. A mean is rounded to the outputs' type, as the
    prediction is: whether rows are probabilities is asked of that type.
    """
    total = np.zeros(scores[0].shape)
    size = 0

    def value_of_picks(picked: Sequence[int]) -> float | None:
        nonlocal total, size
        if len(picked) - 1 > size:  # one was added for good
            total = total + scores[picked[-2]]
            size += 1
        added = scores[picked[-1]]
        return value_of(((total + added) / len(picked)).astype(added.dtype))

    return greedy_picks(len(scores), picks, monitor, value_of_picks)


def choose(
    task: str,
    monitor: Monitor,
    truth,
    scores: Sequence,
    weights=None,
    threshold: float = 0.5,
    loss: str | None = None,
) -> list[int]:
    """Return how often each network is chosen, by rows that they do not know.

    truth (rows,), scores: of each network (rows, outputs), weights (rows,) or None.
    threshold: of class 1, for metrics of decisions. loss: of the networks.
    """

    def value_of(mean: np.ndarray) -> float | None:
        return metric(
            monitor.name, task, truth, mean, weights, threshold=threshold, loss=loss
        )

    return greedy_selection(scores, PICKS, monitor, value_of)


def scores_of_members(net: Network, ds: Dataset, rows) -> tuple:
    """Return (truth (rows,), each member's scores (rows, outputs), weights or None)."""
    judged = rows_judged(
        net, ds, rows, lambda x: np.stack([*net.member_outputs(x)], axis=1)
    )
    return judged.truth, judged.scores.swapaxes(0, 1), judged.weights


# ---- those that go together, for each fold by the rows of the others


class Choice(NamedTuple):
    """How often each candidate is chosen: by all rows, and for each fold by the rows of
    the others."""

    counts: list[int]
    of_fold: list[list[int]]


def choose_crossed(
    task: str,
    truth,
    scores: Sequence[np.ndarray],
    of_row,
    weights=None,
    loss: str | None = None,
) -> Choice:
    """Return how often each candidate is chosen by greedy selection.

    truth (rows,), scores of each candidate (rows, outputs), of_row (rows,): the fold of
    each row, weights (rows,), loss: of the networks. The loss of a mean is formed once
    for each fold, and those of all folds but one from these.
    """
    folds = np.unique(of_row)
    rows_of = [np.flatnonzero(of_row == fold) for fold in folds]
    sizes = np.array(
        [len(rows) if weights is None else weights[rows].sum() for rows in rows_of],
        np.float64,
    )
    losses_by_picks: dict[tuple[int, ...], np.ndarray] = {}

    def losses(picks: Sequence[int]) -> np.ndarray:
        """Return the loss of each fold for the mean of the candidates that were
        picked."""
        key = tuple(sorted(picks))
        if key not in losses_by_picks:
            counts = np.bincount(key, minlength=len(scores))
            mean = weighted_mean(scores, counts)
            losses_by_picks[key] = np.array(
                [_loss(task, truth, mean, rows, weights, loss) for rows in rows_of]
            )
        return losses_by_picks[key]

    def picked_by(shares: np.ndarray) -> list[int]:
        """Return how often each candidate is chosen by folds of which each counts its
        share."""
        return greedy_picks(
            len(scores),
            PICKS,
            Monitor(LOSS),
            lambda picks: _mean_loss(losses(picks), shares),
        )

    if len(folds) > 1:
        without = [picked_by(np.where(folds == fold, 0.0, sizes)) for fold in folds]
    else:
        without = []
    counts = picked_by(sizes)
    return Choice(counts, without or [counts])


def _loss(
    task: str,
    truth,
    scores: np.ndarray,
    rows: np.ndarray,
    weights,
    loss: str | None,
) -> float:
    of_rows = at_rows(weights, rows)
    if of_rows is not None and not of_rows.any():
        return 0.0
    value = metric(LOSS, task, truth[rows], scores[rows], of_rows, loss=loss)
    if value is None:
        return math.nan
    return value


def _mean_loss(losses: np.ndarray, shares: np.ndarray) -> float:
    """Return the mean loss of the folds that count, nan where that of one is
    undefined."""
    counts = shares > 0
    if counts.any():
        return float(np.average(losses[counts], weights=shares[counts]))
    return math.nan


def crossed_scores(
    scores: Sequence[np.ndarray], choice: Choice, of_row: np.ndarray
) -> np.ndarray:
    """Return the mean of the candidates' scores, each fold's with the weights that the
    others choose."""
    mean = np.empty_like(scores[0])
    for fold, counts in zip(np.unique(of_row), choice.of_fold, strict=True):
        rows = of_row == fold
        mean[rows] = weighted_mean(
            [candidate_scores[rows] for candidate_scores in scores], counts
        )
    return mean


def weighted_mean(scores: Sequence[np.ndarray], counts: Sequence[int]) -> np.ndarray:
    """Return the mean of scores, rounded to their type as predictions are; counts:
    their weights."""
    used = [
        (network_scores, float(count))
        for network_scores, count in zip(scores, counts, strict=True)
        if count
    ]
    outputs, weights = zip(*used, strict=True)
    return mean_of(outputs, weights).astype(scores[0].dtype)


# ---- those that are given up


def survivors(count: int) -> list[int]:
    """Return how many networks are left after each comparison: half of them, while that
    is at least PICKS."""
    left = []
    while -(-count // 2) >= PICKS:
        count = -(-count // 2)
        left.append(count)
    return left


class SuccessiveHalving:
    """Which networks are given up, decided by the metrics of their epochs alone, so
    that a resumed run decides alike.

    There are comparisons at 1/2, 1/4, ... of a network's epochs, the last one at half
    of them.
    epochs: of each network, by its number.
    """

    def __init__(self, monitor: Monitor, epochs: Sequence[int]):
        self._monitor = monitor
        self._epochs = epochs
        self._left = survivors(len(epochs))
        self._next = 0  # comparisons made
        self.given_up: set[int] = set()

    def epoch_of(self, number: int) -> int | None:
        """Return the epochs after which a network waits for the next comparison; None
        if there is none any more."""
        if self._next == len(self._left):
            return None
        parts = 2 ** (len(self._left) - self._next)
        return -(-self._epochs[number] // parts)

    def waits(self, number: int, done: int) -> bool:
        """Return whether a network that has done `done` epochs waits for the next
        comparison."""
        epoch = self.epoch_of(number)
        return epoch is not None and done >= epoch

    def compare(self, metrics: Mapping[int, Sequence[float]]) -> list[int]:
        """Make the next comparison; returns the networks that are given up.

        metrics: those after each epoch, of every network that is left. Of equals the
        lower number stays. Raises NnError where the metric is undefined for all.
        """
        best = {}
        for number, values in metrics.items():
            values = values[: self.epoch_of(number)]
            epoch = self._monitor.best(values)
            if epoch is None:
                best[number] = None
            else:
                best[number] = values[epoch - 1]
        if all(value is None for value in best.values()):
            raise undefined(self._monitor)
        order = self._monitor.sorted(best)
        worse = order[self._left[self._next] :]
        self._next += 1
        self.given_up |= {*worse}
        return worse
