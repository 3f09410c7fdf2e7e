"""A network's rows: on the GPU as a whole where they fit, else streamed from the
computer's memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ...cluster import ALONE, RankGroup
from ...core.records import counts_of
from .device import cupy
from .group import most_rows, rows_of_member
from .program import BYTE_ROWS, PLAIN, RowFormat

STREAMED_BYTES = 64 << 20  # of a streamed data set, at a time


def row_format(x: np.ndarray, dtype: np.dtype) -> RowFormat:
    """Return how x, which `checked` has let through, stores a row."""
    if x.dtype.names:
        return RowFormat("records", x.dtype.itemsize, counts_of(x.dtype, dtype))
    if x.dtype == np.uint8:
        return BYTE_ROWS
    return PLAIN


def check_numbers(rows: np.ndarray, count: int) -> None:
    """Raise ValueError for row numbers that a data set of that many rows has not."""
    if len(rows) and not 0 <= rows.min() <= rows.max() < count:
        raise ValueError("row out of range")


def bytes_of(x: np.ndarray) -> np.ndarray:
    """Return rows as CuPy knows them: of records the bytes of each."""
    if x.dtype.names:
        return x.view(np.uint8).reshape(len(x), x.dtype.itemsize)
    return x


@dataclass
class Segment:
    """Rows in the GPU's memory, of whole batches, of which a member has its share.
    Addresses of inputs, targets, weights, 0: none; order: of the row numbers in the
    order of training, 0: as stored."""

    x: int
    y: int
    weights: int
    order: int
    rows: int
    member_rows: int


class CudaData:
    """A data set: on the GPU as a whole where it fits, else in the computer's memory,
    from where it is streamed."""

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray | None,
        weights: np.ndarray | None,
        dtype: np.dtype,
        room: int,
    ):
        self.labels = y is not None and y.dtype == np.int32
        self.rows_as = row_format(x, dtype)
        x = bytes_of(x)
        self.arrays = (x, y, weights)
        self.weights = weights
        self.rows = len(x)
        self.resident = (
            sum(array.nbytes for array in self.arrays if array is not None) <= room
        )
        if self.resident:
            self.on_gpu = [
                None if array is None else _copied(array) for array in self.arrays
            ]

    def segments(
        self, order: np.ndarray | None, batch: int, rank_group: RankGroup = ALONE
    ) -> Iterator[Segment]:
        """Yield the rows of an order (None: all) in segments of whole batches; a
        member's are its shares of these."""
        if not self.resident:
            if order is None:
                order = np.arange(self.rows)
            yield from self._streamed(order, batch, rank_group)
        elif order is None:
            yield Segment(*map(_address, self.on_gpu), 0, self.rows, self.rows)
        else:
            rows = rows_of_member(order, batch, rank_group)
            indices = cupy().asarray(rows)
            addresses = map(_address, [*self.on_gpu, indices])
            yield Segment(*addresses, len(order), len(rows))

    def _streamed(
        self, order: np.ndarray, batch: int, rank_group: RankGroup
    ) -> Iterator[Segment]:
        """Yield segments from two slots in turn: while the GPU uses one, a thread fills
        the other."""
        row_bytes = sum(array[0].nbytes for array in self.arrays if array is not None)
        batch_rows = max(1, most_rows(len(order), batch, rank_group))
        batches = max(1, STREAMED_BYTES // (row_bytes * batch_rows))
        rows = batches * batch
        slot_rows = min(batches * batch_rows, len(order))
        slots = [_Slot(self.arrays, slot_rows) for _ in range(2)]
        device = cupy().cuda.Device()
        starts = range(0, len(order), rows)
        with ThreadPoolExecutor(1) as worker:

            def fill(number: int):
                block = order[starts[number] : starts[number] + rows]
                return worker.submit(
                    slots[number % 2].fill,
                    rows_of_member(block, batch, rank_group),
                    len(block),
                    device,
                )

            coming = fill(0) if starts else None
            for number in range(len(starts)):
                segment = coming.result()
                cupy().cuda.get_current_stream().wait_event(slots[number % 2].copied)
                if number + 1 < len(starts):
                    coming = fill(number + 1)
                yield segment
                # the slot may be filled again
                cupy().cuda.get_current_stream().synchronize()


def _copied(array):
    """Return an array on the GPU: a copy, or itself where it lies there."""
    if not isinstance(array, np.ndarray):
        return array
    copy = cupy().empty(array.shape, array.dtype)
    # two thirds of the time of CuPy's asarray, which copies twice
    copy.set(array, stream=cupy().cuda.get_current_stream())
    return copy


def _address(array) -> int:
    if array is None:
        return 0
    return array.data.ptr


class _Slot:
    """Memory for one segment of a streamed data set: pinned on the host, and its copy
    on the GPU."""

    def __init__(self, arrays: tuple[np.ndarray | None, ...], rows: int):
        from cupyx import empty_pinned

        cp = cupy()
        self.sources = arrays
        self.pinned = [
            None if a is None else empty_pinned((rows, *a.shape[1:]), a.dtype)
            for a in arrays
        ]
        self.on_gpu = [
            None if a is None else cp.empty(a.shape, a.dtype) for a in self.pinned
        ]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.copied = cp.cuda.Event()
        # the memory's last user may still read it
        cp.cuda.get_current_stream().synchronize()

    def fill(self, rows: np.ndarray, whole: int, device) -> Segment:
        """Gather rows, a member's of `whole`, and begin to copy them to the GPU."""
        with device:
            for source, pinned, target in zip(
                self.sources, self.pinned, self.on_gpu, strict=True
            ):
                if source is not None:
                    np.take(source, rows, axis=0, out=pinned[: len(rows)])
                    target[: len(rows)].set(pinned[: len(rows)], stream=self.stream)
            self.copied.record(self.stream)
        return Segment(*map(_address, self.on_gpu), 0, whole, len(rows))
