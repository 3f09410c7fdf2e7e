"""The epoch that the networks of all folds keep, chosen by all of them, and the epochs
that the others choose for the figures of each fold.

A fold's rows are few where a table is small: the epoch that is best for them is best by
luck as well, and its loss is too good. All folds together choose one epoch; a fold is
judged at the one that the others choose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.crossed import are_best, means_of_all, means_of_others, relative
from ..nn_aux import METRICS
from .options import LOSS


class FoldEpochs:
    """The epochs of the networks of all folds, which wait for each other after each:
    what is kept, and when it is over.

    members: a Member for each fold. are_own: each network keeps the epoch that is best
    for its own fold, and ends by its own patience, as folds in time do, which train on
    ever more rows; what it kept counts for the others then.
    """

    def __init__(self, members: Sequence, are_own: bool):
        self.members = members
        self.are_own = are_own
        # epochs that all have done, the means over all folds
        self._known: tuple[int, np.ndarray] = (0, np.zeros(0))
        # epochs that each has done, whether the others find the last one the best
        self._judged: tuple[list[int], np.ndarray] = ([], np.zeros(0))

    def values(self, member) -> list[float]:
        """Return the metric of each epoch by which a network's last and best epochs are
        chosen."""
        if self.are_own:
            return member.at.val_metrics
        return self._means().tolist()

    def is_judged_now(self, member) -> bool:
        """Return whether the other folds find the epoch that a network has just done
        the best so far: it is the one at which its fold is judged, until they find a
        better one."""
        done = [len(other.at.val_metrics) for other in self.members]
        if not any(done) or member.at.epoch < max(done):
            return False
        if self._judged[0] != done:
            others = means_of_others(self._values(), self._weights())
            higher = METRICS[member.monitor.name].higher_is_better
            self._judged = done, are_best(others, higher)
        return bool(self._judged[1][member.number])

    def is_ever_judged(self, member) -> bool:
        """Return whether the metric of the other folds is defined for any epoch."""
        others = means_of_others(self._values(), self._weights())
        return bool(np.isfinite(others[:, member.number]).any())

    def _means(self) -> np.ndarray:
        done = min(len(member.at.val_metrics) for member in self.members)
        if self._known[0] != done:
            self._known = done, means_of_all(self._values()[:done], self._weights())
        return self._known[1]

    def _values(self) -> np.ndarray:
        """Return the metric of each epoch and fold; that of a network that has ended
        lasts."""
        lists = [member.at.val_metrics for member in self.members]
        longest = max(map(len, lists))
        values = np.full((longest, len(lists)), np.nan)
        for fold, (member, metrics) in enumerate(zip(self.members, lists, strict=True)):
            values[: len(metrics), fold] = metrics
            if self.are_own:
                kept = member.best_epoch()
            else:
                kept = None
            if kept is not None:
                values[len(metrics) :, fold] = metrics[kept - 1]
        if self.members[0].monitor.name != LOSS:
            return values
        return relative(
            values, np.array([member.baseline.reported for member in self.members])
        )

    def _weights(self) -> np.ndarray:
        return np.array([member.rows.judging.weight() for member in self.members])
