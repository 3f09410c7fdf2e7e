"""The memory budget: how many rows --memory leaves room for. Data and networks are asked for their sizes alone."""

from __future__ import annotations

import numpy as np

from ..utils import NnError, UsageError, available_memory, resident_bytes

PREDICTED_ROWS = 64  # that a forward pass takes at a time

# The program's memory beside a backend's base_bytes and the rows, measured as peaks. The figures are the same on every
# machine, so that a limit stands for the same windows everywhere.
READING_BYTES = 24 << 20
SPARE_BYTES = 24 << 20  # of base_bytes and READING_BYTES: no run here has used it


def window_rows(ds, net, batch: int, scaling: str, ranks: int = 1) -> int | None:
    """Return how many training rows are to be in memory at a time, a multiple of the batch; None: all rows can be.

    ds: a StreamedDataset. Raises UsageError if its `memory` is too small for a batch, or for its `window`.
    """
    window, memory = ds.window, ds.memory
    if window is not None:
        window = min(window, ds.rows) if window >= ds.rows else max(window // batch, 1) * batch
    if memory is None:
        return None if window >= ds.rows else window
    fixed, row = program_bytes(net, batch), _row_bytes(ds, net, scaling)
    all_rows = whole_bytes(ds, net)
    if window in (None, ds.rows) and fixed + all_rows <= memory:
        _check_room(net, memory - fixed - all_rows, memory - fixed, row, batch, ranks)
        return None
    least = fixed + row * (window or batch) // ranks
    what = f"--window {window}" if window else f"batches of {batch} rows of {ds.inputs} values"
    check_memory(memory, least, f"{what} and this network")
    if window is None:
        window = (memory - fixed) * ranks // row // batch * batch
    window = min(window, max((ds.training.rows - 1) // batch, 1) * batch)  # two windows or more
    _check_room(net, memory - fixed - row * window // ranks, memory - fixed, row, batch, ranks)
    return window


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
    """Return what a training takes beside its rows: the program, parameters, moments, the copies of them that are
    written, a batch's activations and their gradients. Sizes alone decide it, not what the process has by now."""
    return net.traits.base_bytes + READING_BYTES + network_bytes(net.layers, net.dtype, 12, 4 * batch, net.inputs)


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
