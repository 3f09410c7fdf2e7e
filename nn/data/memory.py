"""The budget of --memory: what networks take of it, by sizes alone; the rest is for rows (records.py)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ..utils import NnError, UsageError, available_memory
from . import records
from .dataset import Dataset

PREDICTED_ROWS = 64  # that a forward pass takes at a time

# The program's memory beside a backend's base_bytes and the rows, measured as peaks. The figures are the same on every
# machine.
READING_BYTES = 24 << 20
ROW_BYTES = 32  # of a row, wherever it is: its target, and its place in the split and in the order
COPIES = 12  # of the parameters: themselves, gradients, moments, those of the best epoch, what is written


def make_room(net, ds: Dataset, networks: Sequence[int]) -> int | None:
    """Return the bytes that ds.memory leaves rows beside networks of these bytes each; None where it is no limit.

    Inputs that are in memory go to a file where they would take more. Raises UsageError, which says how many networks
    fit, if those do not.
    """
    memory = ds.memory
    if memory is None:
        return None
    beside, count = net.traits.base_bytes + READING_BYTES + ROW_BYTES * ds.rows, len(networks)
    fit, least = bisect_right(list(accumulate(networks)), memory - beside), beside + sum(networks)
    if 0 < fit < count:
        cure = f"--networks {fit} fits, or give {size_text(least)}"
        raise UsageError(f"--memory {size_text(memory)}: too little for {count} networks; {cure}")
    check_memory(memory, least, "this network" if count == 1 else f"any of {count} networks")
    if records.taken() > memory - least:
        ds.move_to_file()
    return memory - least


def check_answers(net, ds: Dataset) -> None:
    """Raise UsageError if ds.memory is too little for what --test keeps of the rows: truth and scores, and their order
    where they are ranked."""
    each = {"binary": 80, "multiclass": 16 * net.outputs, "regression": 64 * net.outputs}[net.task]
    needed = program_bytes(net, PREDICTED_ROWS) + each * ds.rows
    check_memory(ds.memory, needed, f"the answers of {ds.rows} rows")


def check_memory(memory: int | None, least: int, what: str) -> None:
    """Raise UsageError if `what` needs more; None: there is no limit."""
    if memory is not None and least > memory:
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
