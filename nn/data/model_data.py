"""The data that belongs to a model: read by the model's schema, and the rows that its training held out."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from ..utils import DataError, InputNotFound, UsageError, log
from . import loading
from .dataset import Dataset, name_of
from .records import PREDICTED_ROWS, check_memory, program_bytes
from .source import are_there
from .splits import split_holdout
from .table_rows import TableRows


def load_for(
    net,
    path: str | os.PathLike,
    *,
    target=None,
    labelled: bool = True,
    separator: str | None = None,
    header: str | None = None,
    memory: int | None = None,
    y=None,
) -> Dataset:
    """Read a data set with the columns, classes and target that `net` was trained with; else as ds.load.

    Raises UsageError where `memory` is too little for the network.
    """
    check_memory(memory, program_bytes(net, PREDICTED_ROWS), "this network")
    schema = net.schema if target is None else dataclasses.replace(net.schema, target=target)
    given = {name: value for name, value in (("separator", separator), ("header", header)) if value}
    schema = dataclasses.replace(schema, choices=dataclasses.replace(schema.choices, **given))
    ds = loading.load(path, schema, labelled=labelled, memory=memory, y=y)
    if net.encoding is not None:
        net.encoding.tell(TableRows.of(ds.x))
    return ds


def holdout_dataset(
    net, model: str | os.PathLike, *, whole: bool = False, force: bool = False, memory: int | None = None
) -> Dataset:
    """Read the rows that `net`, read from the file `model`, was not trained on.

    Where the data was too small to hold any out these are all rows, with a warning. `whole` takes all rows of
    a model that was to hold nothing out, as the original program tested. `force` takes data that has changed
    since. Raises UsageError if nothing was held out or the model does not say what it was trained on,
    InputNotFound if the data is gone, DataError if it has changed.
    """
    holdout = net.config.get("holdout", net.holdout)
    if net.config.get("window"):
        raise UsageError(f"{model} was trained on windows of rows, of which this nn holds none out; give --dataset")
    if not (holdout or whole or net.config.get("reference")):
        raise UsageError(f"{model} was trained with --holdout 0, so no rows are left to test on; give --dataset")
    ds = training_dataset(net, model, force=force, memory=memory)
    rows = split_holdout(ds, net.holdout, split_seed_of(net))[1]
    if len(rows):
        return ds.of_rows(rows)
    if holdout:
        log.warning("%s held out no rows: testing on all %d rows, which it was trained on", model, ds.rows)
    return ds


held_out = holdout_dataset  # its public name, nn.held_out


def training_dataset(net, model: str | os.PathLike, *, force: bool = False, memory: int | None = None) -> Dataset:
    """Read all rows of the data set that `net`, read from the file `model`, was trained on; as holdout_dataset."""
    ds = load_for(net, training_file(net, model), memory=memory)
    if ds.sha256 != net.dataset["sha256"]:
        changed = f"{name_of(ds)} has changed since {model} was trained on it"
        if not force:
            raise DataError(f"{changed}; restore the old file, give another with --dataset, or train again")
        log.warning("%s; used anyway because of --force", changed)
    return ds


def split_seed_of(net) -> int:
    """Return the seed that drew the rows that a network's training held out."""
    return net.config.get("split_seed", net.seed)


def training_file(net, model: str | os.PathLike) -> str:
    """Return where the data is that `net` was trained on: at its recorded place, else beside the file `model`."""
    recorded = (net.dataset or {}).get("path")
    if recorded is None:
        raise UsageError(f"{model} does not record its training data; give --dataset")
    files = [recorded] if os.path.exists(recorded) else recorded.split(",")
    beside = ",".join(str(Path(model).parent / Path(file).name) for file in files)
    for path in (recorded, beside):
        if are_there(path):
            return path
    raise InputNotFound(
        f"{recorded}: the training data of {model} is missing, and so is {beside}; "
        "restore it or give other data with --dataset"
    )
