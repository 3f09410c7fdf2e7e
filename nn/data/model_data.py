"""The data that belongs to a model: read as the model wants it, and the rows that its training held out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .ds import Dataset, load, load_blocks, split_holdout
from .nn import Network
from .parts import Parts, block_rows, check_memory, program_bytes
from .source import are_there
from .utils import DataError, InputNotFound, UsageError, log

LABEL_BYTES = 64  # of a row, to find those that were held out class by class


def load_for(net: Network, path: str | os.PathLike, *, target=None, labelled: bool = True) -> Dataset:
    """A data set with the columns, classes and target that `net` was trained with; else as ds.load."""
    return load(path, labelled=labelled, **_wanted(net, target))


def blocks_for(
    net: Network, path: str | os.PathLike, *, target=None, labelled: bool = True, memory: int | None = None
) -> Iterator[Dataset]:
    """The same in blocks of rows, one in memory at a time; see ds.load_blocks.

    memory: bytes that the whole program is to stay within. Raises UsageError if they are too few.
    """
    rows = None if memory is None else block_rows(net, memory)
    return load_blocks(path, labelled=labelled, rows=rows, **_wanted(net, target))


def _wanted(net: Network, target) -> dict:
    """What `net` was trained with, as the arguments of ds.load."""
    if target is None and net.targets is None:  # no name to find the column by: its place in training
        target = net.config.get("target")
    shape = net.layers[0].in_shape
    return {
        "target": target,
        "task": net.task,
        "inputs": shape if shape[1:] != (1, 1) else shape[0],
        "outputs": net.outputs,
        "classes": net.classes,
        "columns": net.columns,
        "targets": net.targets,
        "dtype": net.dtype,
    }


def held_out(net: Network, model: str | os.PathLike, *, whole: bool = False, force: bool = False) -> Dataset:
    """The rows that `net`, read from the file `model`, was not trained on.

    Where the data was too small to hold any out these are all rows, with a warning. `whole` takes all rows of
    a model that was to hold nothing out, as the original program tested. `force` takes data that has changed
    since. Raises UsageError if nothing was held out or the model does not say what it was trained on,
    InputNotFound if the data is gone, DataError if it has changed.
    """
    _check_any_held_out(net, model, whole)
    path = training_file(net, model)
    if net.config.get("window"):
        parts = _parts_for(net, path)
        _check_same(net, parts, model, force)
        return parts.gathered(parts.held if parts.held.rows else _all_rows(net, parts, model))
    ds = load_for(net, path)
    _check_same(net, ds, model, force)
    rows = split_holdout(ds, net.holdout, net.seed)[1]
    if len(rows):
        return dataclasses.replace(ds, x=ds.x[rows], y=ds.y[rows])
    return _all_rows(net, ds, model)


def held_out_parts(
    net: Network, model: str | os.PathLike, *, whole: bool = False, force: bool = False, memory: int | None = None
) -> tuple[Parts, int, Iterator[Dataset]]:
    """The same rows, read from their files while they are used: (all the data, their number, the rows in pieces)."""
    _check_any_held_out(net, model, whole)
    parts = _parts_for(net, training_file(net, model), memory=memory)
    _check_same(net, parts, model, force)
    if net.config.get("window") and parts.held.rows:
        return parts, parts.held.rows, parts.read(parts.held, 0, parts.held.rows)
    everything = parts.everything
    if not net.config.get("window"):
        if memory is not None:
            check_memory(memory, program_bytes(net, 1) + LABEL_BYTES * parts.rows, f"the labels of {parts.rows} rows")
        y = np.concatenate([ds.y for ds in parts.read(everything, 0, parts.rows)])
        labels = Dataset(y, y, parts.task, parts.classes)
        rows = split_holdout(labels, net.holdout, net.seed)[1]
        if len(rows):
            return parts, len(rows), _picked(parts.read(everything, 0, parts.rows), rows)
    _all_rows(net, parts, model)
    return parts, parts.rows, parts.read(everything, 0, parts.rows)


def parts_for(
    net: Network, path: str | os.PathLike, *, target=None, memory: int | None = None
) -> tuple[Parts, int, Iterator[Dataset]]:
    """All rows of a table in the same way, as load_for reads them."""
    parts = _parts_for(net, path, target, memory)
    return parts, parts.rows, parts.read(parts.everything, 0, parts.rows)


def _parts_for(net: Network, path, target=None, memory: int | None = None) -> Parts:
    limit = {"window": 1} if memory is None else {"memory": memory}
    return load(path, holdout=net.holdout, seed=net.seed, **limit, **_wanted(net, target))


def _picked(pieces: Iterator[Dataset], rows: np.ndarray) -> Iterator[Dataset]:
    """Those of the pieces' rows that have these indices, which ascend."""
    first = 0
    for ds in pieces:
        low, high = np.searchsorted(rows, [first, first + ds.rows])
        own = rows[low:high] - first
        first += ds.rows
        if len(own):
            yield dataclasses.replace(ds, x=ds.x[own], y=ds.y[own])


def _check_any_held_out(net: Network, model, whole: bool) -> None:
    if not (net.config.get("holdout", net.holdout) or whole or net.config.get("reference")):
        raise UsageError(
            f"{model} was trained with --holdout 0, so no rows are left to test on; say --dataset"
        )


def _check_same(net: Network, ds: Dataset | Parts, model, force: bool) -> None:
    if ds.sha256 == net.dataset["sha256"]:
        return
    changed = f"{ds.path} has changed since {model} was trained on it"
    if not force:
        raise DataError(f"{changed}; bring the old file back, name another with --dataset, or train again")
    log.warning("%s; --force uses it all the same", changed)


def _all_rows(net: Network, ds, model):
    """What to test on where nothing was held out; of parts the blocks."""
    if net.config.get("holdout", net.holdout):
        log.warning("%s held out no rows: all %d are used, and they were trained on", model, ds.rows)
    return ds.everything if isinstance(ds, Parts) else ds


def training_file(net: Network, model: str | os.PathLike) -> str:
    """Where the data is that `net` was trained on: at its recorded place, else beside the file `model`."""
    recorded = (net.dataset or {}).get("path")
    if recorded is None:
        raise UsageError(f"{model} does not say what it was trained on; say --dataset")
    files = [recorded] if os.path.exists(recorded) else recorded.split(",")
    beside = ",".join(str(Path(model).parent / Path(file).name) for file in files)
    for path in (recorded, beside):
        if are_there(path):
            return path
    raise InputNotFound(
        f"{recorded}: the data that {model} was trained on is not there, nor is {beside}; "
        "bring it back or name another with --dataset"
    )
