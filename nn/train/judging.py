"""After each epoch: the loss, and the metric that is monitored, of the rows that judge it, by all ranks together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from ..backends.engine import PackJob
from ..cluster import RankGroup
from ..nn import Network
from ..settings.flags import DEFAULTS
from ..utils import Stopped
from . import rows as row_sets
from .engines import Ask
from .validation import LOSS, JudgedRows, Monitor, metric_of


class Judge:
    """Judges a network by rows apart from those that train it.

    monitor: the metric of --validation, None without. threshold: the option. asked: returns the signal that asks a rank
    to stop, the same on all ranks, or None.
    """

    def __init__(
        self,
        net: Network,
        monitor: Monitor | None,
        threshold: float | str,
        rank_group: RankGroup,
        asked: Callable[[], int | None],
    ):
        self._net, self._monitor, self._rank_group, self._asked = net, monitor, rank_group, asked
        self._threshold = DEFAULTS["threshold"] if isinstance(threshold, str) else threshold  # a rule finds it later
        self._of_scores = monitor is not None and monitor.name != LOSS

    def judge(self, rows: row_sets.TrainingRows) -> Generator[Ask, Any, tuple[float, float | None]]:
        """Return (mean loss, metric) of the rows that judge an epoch; the metric only of --validation, else None.

        Raises Stopped where a signal asks for it.
        """
        losses, parts, judged = [], [], rows.judged()
        for some in self._some_at_a_time(judged.rows):
            part = yield Ask("loss", PackJob(0, judged.data, some))
            losses.append((part, judged.weight(some)))
            if self._of_scores:
                parts.append((yield from self._scores(judged, some)))
        loss = self._mean(losses)
        if self._of_scores:
            return loss, metric_of(self._net, self._monitor.name, self._of_all_ranks(parts), self._threshold)
        return loss, loss if self._monitor and rows.is_validated else None

    def _scores(self, judged: JudgedRows, some: np.ndarray) -> Generator[Ask, Any, tuple]:
        """Return (truth, scores, weights or None) of some rows."""
        scores = yield Ask("predict", PackJob(0, judged.data, some))
        truth, weights = judged.truth(some)
        return truth, scores, weights

    def _mean(self, losses: list[tuple[float, float]]) -> float:
        """Return the mean of all ranks' (loss, weight); 0 where nothing has a weight."""
        total = self._rank_group.sum(float(sum(weight for _, weight in losses)))
        return self._rank_group.sum(sum(part * (weight / total) for part, weight in losses) if total else 0.0)

    def _some_at_a_time(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield this rank's share of some rows after some, so that a signal does not wait for all of them."""
        step = row_sets.VALIDATION_ROWS * self._rank_group.size
        for first in range(0, len(rows), step):
            asked = self._asked() if first else None
            if asked is not None:
                raise Stopped(asked)
            some = rows[first : first + step]
            some = some[self._rank_group.share(len(some))]
            if len(some):
                yield some

    def _of_all_ranks(self, parts: list) -> list:
        """Return the (truth, scores, weights or None) of all ranks' rows; scores stay of the network's type."""
        if self._rank_group.size == 1:
            return parts
        lists = [[None if array is None else array.tolist() for array in part] for part in parts]
        everyone = [part for own in self._rank_group.gather(lists) for part in own]
        arrays = [tuple(None if values is None else np.array(values) for values in part) for part in everyone]
        return [(truth, scores.astype(self._net.dtype), weights) for truth, scores, weights in arrays]
