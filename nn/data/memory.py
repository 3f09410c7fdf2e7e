"""The memory budget: how many rows --memory leaves room for. Data and networks are asked for their sizes alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..utils import NnError, UsageError, available_memory, resident_bytes

PREDICTED_ROWS = 64  # that a forward pass takes at a time

# The program's memory beside a backend's base_bytes and the rows, measured as peaks. The figures are the same on every
# machine, so that a limit stands for the same windows everywhere.
READING_BYTES = 24 << 20
SPARE_BYTES = 24 << 20  # of base_bytes and READING_BYTES: no run here has used it
COPIES = 12  # of the parameters: themselves, gradients, moments, those of the best epoch, what is written


@dataclass(frozen=True)
class Room:
    """The bytes that the networks of a training take beside their rows, by sizes alone.

    trained: of each while it is trained. waiting: of each while others are, before it and after it. at_once: those that
    are trained on windows of rows at the same time, each on its own. readers: that read all rows in ways of their own.
    """

    trained: Sequence[int]
    waiting: Sequence[int] = (0,)
    at_once: int = 1
    readers: int = 1

    def of_all(self) -> int:
        """Return the bytes where all networks are trained at the same time, on rows that are all in memory."""
        return sum(self.trained) + READING_BYTES

    def in_turn(self, count: int | None = None) -> int:
        """Return the bytes of the first `count` networks, by default of all, which are trained on windows of rows."""
        trained, waiting = self.trained[:count], self.waiting[:count]
        more = sorted((own - least for own, least in zip(trained, waiting, strict=True)), reverse=True)
        return sum(waiting) + sum(more[: self.at_once]) + self.at_once * READING_BYTES

    def fitting(self, size: int) -> int:
        """Return how many of the networks, the first ones, can be trained in turn within `size` bytes."""
        return bisect_right(range(1, len(self.trained) + 1), size, key=self.in_turn)


def window_rows(ds, net, batch: int, scaling: str, ranks: int = 1, room: Room | None = None) -> int | None:
    """Return how many training rows are to be in memory at a time, a multiple of the batch; None: all rows can be.

    ds: a StreamedDataset. room: of several networks; by default that of `net`. Raises UsageError if its `memory` is too
    small for a batch, or for its `window`.
    """
    window, memory = ds.window, ds.memory
    if window is not None:
        window = min(window, ds.rows) if window >= ds.rows else whole_batches(window, batch)
    if memory is None:
        return None if window >= ds.rows else window
    room = room or Room([training_bytes(net, batch)])
    base, row = net.traits.base_bytes, room.at_once * _row_bytes(ds, net, scaling)
    if window in (None, ds.rows):
        left = memory - base - room.of_all() - whole_bytes(ds, net, room.readers)
        if left >= 0:
            _check_room(net, left, memory - base - room.in_turn(), row, batch, ranks)
            return None
    least = row * (window or batch) // ranks
    what = f"--window {window}" if window else f"batches of {batch} rows of {ds.inputs} values"
    _check_networks(memory, room, base + least, what)
    fixed = base + room.in_turn()
    if window is None:
        window = (memory - fixed) * ranks // row // batch * batch
    window = min(window, whole_batches(ds.training.rows - 1, batch))  # two windows or more
    _check_room(net, memory - fixed - row * window // ranks, memory - fixed, row, batch, ranks)
    return window


def check_whole(ds, net, room: Room, flag: str) -> None:
    """Raise UsageError where the limits of a StreamedDataset leave no room for all its rows, which `flag` needs."""
    if ds.window is not None and ds.window < ds.rows:
        raise UsageError(f"{flag}: needs all rows in memory; leave out --window")
    if ds.memory is not None:
        needed = net.traits.base_bytes + room.of_all() + whole_bytes(ds, net, room.readers)
        check_memory(ds.memory, needed, f"{flag}, which needs all rows in memory")


def whole_batches(window: int, batch: int) -> int:
    """Return the rows of a window that are whole batches, one at least."""
    return max(window // batch, 1) * batch


def _check_networks(memory: int, room: Room, beside: int, what: str) -> None:
    """Raise UsageError, which says how many networks fit, if those of a training do not, `beside` bytes for rows."""
    count, least = len(room.trained), beside + room.in_turn()
    fit = room.fitting(memory - beside)
    if 0 < fit < count:
        needed = f"{count} networks and {what}; --networks {fit} fits"
        raise UsageError(f"--memory {size_text(memory)}: too little for {needed}, or give {size_text(least)}")
    check_memory(memory, least, f"{what} and this network" if count == 1 else f"{what} and any of {count} networks")


def whole_bytes(ds, net, networks: int = 1) -> int:
    """Return the bytes of all rows in memory: as they were read, and as the engine takes them for each network."""
    size = np.dtype(net.dtype).itemsize
    return ds.rows * (ds.inputs * (ds.input_dtype.itemsize + networks * size) + 24 * (ds.outputs or 0) + 64)


def _row_bytes(ds, net, scaling: str) -> int:
    """Return the bytes of a row in both windows, the one in use and the one that is read, and in their order."""
    size = np.dtype(net.dtype).itemsize
    bytes_stay = scaling == "pixel" and ds.input_dtype == np.uint8
    labels = ds.task == "multiclass" and net.outputs > 1
    return 2 * (ds.inputs * (1 if bytes_stay else size) + (4 if labels else net.outputs * size)) + 32


def _check_room(net, left: int, for_rows: int, row: int, batch: int, ranks: int) -> None:
    """Raise UsageError if imports beyond nn's own (e.g. for --logdir) need more than the `left` bytes. The window is
    not made smaller automatically, since its size changes the result."""
    usual = net.traits.base_bytes + SPARE_BYTES + 3 * net.parameter_count * np.dtype(net.dtype).itemsize
    unusual = max(0, resident_bytes() - usual)
    if unusual > max(left, 0):
        window = (for_rows - unusual) * ranks // row // batch * batch
        fix = f"use --window {window}" if window > 0 else f"give {size_text(unusual)} more, and use --window"
        raise UsageError(
            f"--memory: {size_text(unusual)} are in use beyond nn's own (for example by --logdir), which leaves too "
            f"little for windows of the usual size; {fix}"
        )


def block_rows(net, memory: int) -> int:
    """Return how many rows can be predicted at a time within `memory`, their predictions as text. UsageError if none
    can."""
    size = np.dtype(net.dtype).itemsize
    row, fixed = net.inputs * (8 + size) + (3 + net.outputs) * 200, program_bytes(net, PREDICTED_ROWS)
    rows = min(1 << 15, (memory - fixed) // row)
    check_memory(memory, fixed + row, "this network")
    return rows


def check_answers(net, memory: int, rows: int) -> None:
    """Raise UsageError if `memory` is too little for what --test keeps of `rows` rows: truth and scores, and their
    order where they are ranked."""
    each = {"binary": 80, "multiclass": 0, "regression": 64 * net.outputs}[net.task]
    check_memory(memory, program_bytes(net, PREDICTED_ROWS) + each * rows, f"the answers of {rows} rows")


def check_memory(memory: int, least: int, what: str) -> None:
    """Raise UsageError if `what` needs more."""
    if least > memory:
        raise UsageError(f"--memory {size_text(memory)}: too little for {what}; at least {size_text(least)} is needed")


def program_bytes(net, batch: int) -> int:
    """Return what a training takes beside its rows. Sizes alone decide it, not what the process has by now."""
    return net.traits.base_bytes + READING_BYTES + training_bytes(net, batch)


def training_bytes(net, batch: int) -> int:
    """Return what the training of a network takes beside the program: parameters, moments, the copies of them that are
    written, a batch's activations and their gradients."""
    return network_bytes(net.layers, net.dtype, COPIES, 4 * batch, net.inputs)


def network_bytes(layers, dtype: str, copies: int, rows: int = 0, inputs: int | None = None) -> int:
    """Return the bytes of `copies` of all parameters and, for `rows` rows, of the inputs and every layer's outputs.

    inputs: values of a row that go in; None: those of layer 0.
    """
    activations = (layers[0].inputs if inputs is None else inputs) + sum(layer.outputs for layer in layers)
    parameters = sum(layer.parameters for layer in layers)
    return np.dtype(dtype).itemsize * (copies * parameters + rows * activations)


def check_free(needed: int, what: str, advice: str) -> None:
    """Raise NnError if `what` needs more bytes than the machine, or the process's limit, has left."""
    free = available_memory()
    if free is not None and needed > free:
        raise NnError(f"{what} need {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free; {advice}")


def size_text(size: int) -> str:
    """Return bytes as --memory takes them, rounded up to whole mebibytes."""
    return f"{-(-size >> 20)}M" if size % (1 << 30) else f"{size >> 30}G"
