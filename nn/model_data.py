"""The data that belongs to a model: read as the model wants it, and the rows that its training held out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from .ds import Dataset, load, load_blocks, split_holdout
from .nn import Network
from .utils import DataError, InputNotFound, UsageError, log


def load_for(net: Network, path: str | os.PathLike, *, target=None, labelled: bool = True) -> Dataset:
    """A data set with the columns, classes and target that `net` was trained with; else as ds.load."""
    return load(path, labelled=labelled, **_wanted(net, target))


def blocks_for(
    net: Network, path: str | os.PathLike, *, target=None, labelled: bool = True
) -> Iterator[Dataset]:
    """The same in blocks of rows, one in memory at a time; see ds.load_blocks."""
    return load_blocks(path, labelled=labelled, **_wanted(net, target))


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
    asked = net.config.get("holdout", net.holdout)
    if not (asked or whole or net.config.get("reference")):
        raise UsageError(
            f"{model} was trained with --holdout 0, so no rows are left to test on; say --dataset"
        )
    ds = load_for(net, training_file(net, model))
    if ds.sha256 != net.dataset["sha256"]:
        changed = f"{ds.path} has changed since {model} was trained on it"
        if not force:
            raise DataError(
                f"{changed}; bring the old file back, name another with --dataset, or train again"
            )
        log.warning("%s; --force uses it all the same", changed)
    rows = split_holdout(ds, net.holdout, net.seed)[1]
    if len(rows):
        return dataclasses.replace(ds, x=ds.x[rows], y=ds.y[rows])
    if asked:
        log.warning("%s held out no rows: all %d are used, and they were trained on", model, ds.rows)
    return ds


def training_file(net: Network, model: str | os.PathLike) -> Path:
    """Where the data is that `net` was trained on: at its recorded place, else beside the file `model`."""
    recorded = (net.dataset or {}).get("path")
    if recorded is None:
        raise UsageError(f"{model} does not say what it was trained on; say --dataset")
    beside = Path(model).parent / Path(recorded).name
    for path in (Path(recorded), beside):
        if path.exists():
            return path
    raise InputNotFound(
        f"{recorded}: the data that {model} was trained on is not there, nor is {beside}; "
        "bring it back or name another with --dataset"
    )
