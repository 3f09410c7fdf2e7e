"""Successive halving: networks that are trained together are compared at a few epochs, and the worse half is given up
(Jamieson and Talwalkar 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .validation import Monitor, undefined


def survivors(count: int, keep: int) -> list[int]:
    """Return how many networks are left after each comparison: half of them, while that is at least 2 * keep."""
    left = []
    while -(-count // 2) >= 2 * keep and count > 1:
        count = -(-count // 2)
        left.append(count)
    return left


class SuccessiveHalving:
    """Which networks are given up, decided by the metrics of their epochs alone, so that a resumed run decides alike.

    There are comparisons at 1/2, 1/4, ... of a network's epochs, the last one at half of them.
    epochs: of each network, by its number.
    """

    def __init__(self, monitor: Monitor, epochs: Sequence[int], keep: int):
        self._monitor, self._epochs = monitor, epochs
        self._left = survivors(len(epochs), keep)
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
