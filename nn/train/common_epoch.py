"""The epoch that the networks of all folds keep, chosen by all of them, and the epochs
that the others choose for the figures of each fold.

A fold's rows are few where a table is small: the epoch that is best for them is best by
luck as well, and its loss is too good. All folds together choose one epoch; a fold is
judged at the one that the others choose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..nn_aux import METRICS
from .options import LOSS

# ---- by arrays: values (epochs, folds) of the monitored metric, nan where it is
# undefined; weights (folds,)


def relative(losses: np.ndarray, baselines: np.ndarray) -> np.ndarray:
    """Return losses (epochs, folds) as parts of the folds' baselines (folds,), nan
    where a baseline is undefined or 0:
    a fold of rows that are hard to predict counts no more than another."""
    are_usable = np.isfinite(baselines) & (baselines > 0)
    return losses / np.where(are_usable, baselines, np.nan)


def means_of_all(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean over the folds of each epoch, (epochs,); nan where no
    fold's value is defined."""
    sums, counts = _sums(values, weights)
    return _divided(sums.sum(axis=1), counts.sum(axis=1))


def means_of_others(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each epoch and fold the weighted mean over all other folds, (epochs,
    folds); nan where undefined."""
    sums, counts = _sums(values, weights)
    return _divided(_without_own(sums), _without_own(counts))


def are_best(means: np.ndarray, higher_is_better: bool) -> np.ndarray:
    """Return whether the last epoch's means (epochs, columns) are better than those of
    all epochs before, (columns,).

    One that is undefined is not; the first one that is defined is.
    """
    if higher_is_better:
        gains = means
    else:
        gains = -means
    gains = np.where(np.isnan(gains), -np.inf, gains)
    before = gains[:-1].max(axis=0, initial=-np.inf)
    return gains[-1] > before


def _sums(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    are_defined = np.isfinite(values)
    counts = are_defined * weights
    return np.where(are_defined, values, 0.0) * counts, counts


def _without_own(terms: np.ndarray) -> np.ndarray:
    """Return the sums over all other columns: those before and those behind, for a
    difference would be rounded."""
    nothing = np.zeros((len(terms), 1))
    before = np.hstack([nothing, np.cumsum(terms, axis=1)[:, :-1]])
    behind = np.hstack([np.cumsum(terms[:, ::-1], axis=1)[:, -2::-1], nothing])
    return before + behind


def _divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


# ---- the networks of a cross-validation


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
            values, np.array([member.baseline.told for member in self.members])
        )

    def _weights(self) -> np.ndarray:
        return np.array([member.rows.judging.weight() for member in self.members])
