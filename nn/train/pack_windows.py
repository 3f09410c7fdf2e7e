"""RankWindows: the windows of rows that one of several ranks reads to train a network, as all of them see these."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from ..data.row_windows import RowWindow, RowWindows


class RankWindows:
    """The windows of a network's training. Its owner reads them; the others, which run the training too, get what
    they must know of the rows: how many there are, their weights, and the targets of those that judge an epoch.

    All ranks call the methods alike.
    """

    def __init__(self, windows: RowWindows, is_own: bool, from_owner: Callable[[np.ndarray | None], np.ndarray | None]):
        """is_own: this rank is the owner. from_owner: takes the owner's array or None, of other ranks None, and returns
        it on all of them."""
        self._windows, self._is_own, self._from_owner = windows, is_own, from_owner
        self.window, self.count = windows.window, windows.count

    def start(self, epoch: int, row: int, epochs: int) -> None:
        """See RowWindows."""
        self._planned = self._windows.plan(epoch, row, epochs)
        if self._is_own:
            self._windows.start(epoch, row, epochs)

    def next(self, _wait: Callable[[Future], RowWindow]) -> RowWindow:
        """See RowWindows; a signal does not end the waiting, since all ranks stop behind the same batch."""
        planned = next(self._planned)
        own = self._windows.next(Future.result) if self._is_own else None
        is_judging = planned.epoch is None
        y = self._from_owner(own.y if own else None) if is_judging else None
        weights = self._from_owner(own.weights if own else None)
        if own:
            return own
        return RowWindow(planned.first, np.empty((planned.rows, 0)), y, weights, np.arange(planned.rows))

    def close(self) -> None:
        """See RowWindows."""
        self._windows.close()
