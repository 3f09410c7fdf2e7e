"""Row windows: a training on streamed data reads its rows window by window, one window ahead of the one in use.

A window is a run of the training rows, a multiple of the batch. Each epoch takes the windows in a new order, the
short last one at the end, and shuffles the rows inside each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..core.random import STREAM_SHUFFLE, shuffled
from ..utils import NnError
from .stream import BlockSet, StreamedDataset


@dataclass
class RowWindow:
    """Rows in memory as the engine takes them. Reading the window after the next overwrites x, y and weights.

    first: rows of the epoch before these; order: in which they are used, as long as those of all ranks.
    """

    first: int
    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    order: np.ndarray


@dataclass(frozen=True)
class PlannedWindow:
    """A window to be read: the rows [start, stop) of the training blocks or of those held out."""

    blocks: BlockSet
    start: int
    stop: int
    batch: int  # rows that the ranks share at a time
    first: int = 0
    epoch: int | None = None  # None: to validate, in the order of the file

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.stop - self.start


class RowWindows:
    """All windows that a training reads, in its order.

    window: training rows, a multiple of the batch; batches: rows that are trained on at a time, and that are
    validated at a time; convert: makes (x, y), and weights if there are any, for the engine from a Dataset; judging:
    the rows that validate, by default those held out. rank, ranks: this process reads only
    its own share of every window, the rows that it takes from each batch of that window, and shuffles them among
    themselves.
    """

    def __init__(
        self,
        data: StreamedDataset,
        window: int,
        batches: tuple[int, int],
        convert: Callable,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        judging: BlockSet | None = None,
    ):
        self._data, self.window, self._batches = data, window, batches
        self._convert, self._seed, self._rank, self._ranks = convert, seed, rank, ranks
        self._judging = data.holdout if judging is None else judging
        self.count = -(-data.training.rows // window)
        self._buffers: list = [None, None]
        self._filled = 0  # the buffer that was filled last
        self._closed = threading.Event()
        self._worker = ThreadPoolExecutor(1)
        self._coming: Future | None = None

    def start(self, epoch: int, row: int, epochs: int) -> None:
        """Begin to read behind the first `row` rows of epoch `epoch`, from 0."""
        self._planned = self.plan(epoch, row, epochs)
        self._coming = self._read_next()

    def next(self, wait: Callable[[Future], RowWindow]) -> RowWindow:
        """Return the next window, once `wait` has its result; those before the last one are overwritten then."""
        window = wait(self._coming)
        self._coming = self._read_next()
        return window

    def close(self) -> None:
        """Stop reading, and free the memory of what was read."""
        self._closed.set()
        self._worker.shutdown()
        self._coming, self._buffers = None, [None, None]

    def _read_next(self) -> Future | None:
        planned = next(self._planned, None)
        if planned is None:
            return None
        self._filled ^= 1
        return self._worker.submit(self._read, planned, self._filled)

    def plan(self, epoch: int, row: int, epochs: int) -> Iterator[PlannedWindow]:
        """Yield the windows behind the first `row` rows of epoch `epoch`, from 0, in their order."""
        training, judging = self._data.training, self._judging
        for number in range(epoch, epochs):
            for place, window in enumerate(self.order(number)):
                first, start = place * self.window, window * self.window
                stop = min(start + self.window, training.rows)
                if first + stop - start > row:
                    yield PlannedWindow(training, start, stop, self._batches[0], first, number)
            row = 0
            for start in range(0, judging.rows, self.window):
                yield PlannedWindow(judging, start, min(start + self.window, judging.rows), self._batches[1])

    def order(self, epoch: int) -> list[int]:
        """Return the windows in the order in which an epoch takes them."""
        full = self._data.training.rows // self.window
        return [*shuffled(full, self._seed, STREAM_SHUFFLE, epoch).tolist(), *range(full, self.count)]

    def _read(self, planned: PlannedWindow, buffer: int) -> RowWindow:
        low, high = self._share(planned.rows, planned.batch)
        wanted = (low, high) if low < high else (0, 1)  # an engine needs a row, even for an empty share
        x, y, *weights = self._rows(planned.blocks, planned.start + wanted[0], planned.start + wanted[1], buffer)
        order = self._order(planned, high - low)
        return RowWindow(planned.first, x, y, weights[0] if weights else None, order)

    def _share(self, rows: int, batch: int) -> tuple[int, int]:
        """Return which of a window's rows are this rank's: as many as it takes from all of its batches."""
        full, rest = divmod(rows, batch)
        shares = [[count * rank // self._ranks for rank in (self._rank, self._rank + 1)] for count in (batch, rest)]
        return tuple(full * of_batch + of_rest for of_batch, of_rest in zip(*shares, strict=True))

    def _order(self, planned: PlannedWindow, rows: int) -> np.ndarray:
        """Return the window's order (rows of all ranks), which holds this rank's rows where it takes them."""
        if planned.epoch is None:
            own = np.arange(rows)
        else:
            own = shuffled(rows, self._seed, STREAM_SHUFFLE + 1 + planned.start // self.window, planned.epoch)
        if self._ranks == 1:
            return own
        order, at = np.zeros(planned.rows, np.int64), 0
        for batch in range(0, len(order), planned.batch):
            count = min(planned.batch, len(order) - batch)
            low, high = (count * rank // self._ranks for rank in (self._rank, self._rank + 1))
            order[batch + low : batch + high] = own[at : at + high - low]
            at += high - low
        return order

    def _rows(self, blocks: BlockSet, first: int, last: int, buffer: int) -> list[np.ndarray]:
        at = 0
        for ds in self._data.read(blocks, first, last):
            if self._closed.is_set():
                raise NnError("reading was ended")
            arrays = self._convert(ds)
            if self._buffers[buffer] is None:
                self._buffers[buffer] = tuple(np.empty((self._most_rows(), *a.shape[1:]), a.dtype) for a in arrays)
            for target, array in zip(self._buffers[buffer], arrays, strict=True):
                target[at : at + len(array)] = array
            at += ds.rows
        return [array[:at] for array in self._buffers[buffer]]

    def _most_rows(self) -> int:
        """Return the most rows that this rank has of a window; a shorter window can have one more than a full one."""
        return 1 + max(map(len, (range(*self._share(self.window, batch)) for batch in self._batches)))
