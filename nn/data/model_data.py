"""The data that belongs to a model: read by the model's schema, and the rows that its training held out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..utils import DataError, InputNotFound, UsageError, log
from . import loading
from .dataset import Dataset, Schema, name_of
from .memory import PREDICTED_ROWS, block_rows, check_memory, program_bytes, whole_bytes
from .source import are_there
from .splits import split_holdout
from .stream import BlockSet, StreamedDataset
from .table_rows import TableRows

LABEL_BYTES = 64  # a row, while the held-out rows of each class are found


def load_for(
    net,
    path: str | os.PathLike,
    *,
    target=None,
    labelled: bool = True,
    separator: str | None = None,
    header: str | None = None,
    y=None,
) -> Dataset:
    """Read a data set with the columns, classes and target that `net` was trained with; else as ds.load."""
    ds = loading.load(path, _schema(net, target, separator, header), labelled=labelled, y=y)
    _tell_strangers(net, ds)
    return ds


def _tell_strangers(net, ds: Dataset) -> None:
    """Warn of columns whose gaps and unseen values are much more frequent than in training."""
    if net.encoding is not None:
        net.encoding.tell(TableRows.of(ds.x))


def _checked(net, blocks: Iterator[Dataset]) -> Iterator[Dataset]:
    """Yield the blocks; raise DataError if in the first one a column is written in another way than in training."""
    for number, ds in enumerate(blocks):
        if number == 0 and net.encoding is not None:
            net.encoding.check(TableRows.of(ds.x), name_of(ds))
        yield ds


def blocks_for(
    net,
    path: str | os.PathLike,
    *,
    target=None,
    labelled: bool = True,
    memory: int | None = None,
    separator: str | None = None,
    header: str | None = None,
) -> Iterator[Dataset]:
    """Yield the same in blocks of rows, one in memory at a time; see ds.load_blocks.

    memory: bytes that the whole program is to stay within. Raises UsageError if they are too few.
    """
    rows = None if memory is None else block_rows(net, memory)
    schema = _schema(net, target, separator, header)
    blocks = loading.load_blocks(os.fspath(path), schema, labelled=labelled, rows=rows)
    for number, ds in enumerate(_checked(net, blocks)):
        if number == 0:
            _tell_strangers(net, ds)
        yield ds


def _schema(net, target=None, separator=None, header=None) -> Schema:
    """Return the column choices that `net` keeps, with those given for the file at hand."""
    schema = net.schema if target is None else dataclasses.replace(net.schema, target=target)
    given = {"separator": separator, "header": header}
    choices = dataclasses.replace(schema.choices, **{name: value for name, value in given.items() if value})
    return dataclasses.replace(schema, choices=choices)


def holdout_dataset(net, model: str | os.PathLike, *, whole: bool = False, force: bool = False) -> Dataset:
    """Read the rows that `net`, read from the file `model`, was not trained on.

    Where the data was too small to hold any out these are all rows, with a warning. `whole` takes all rows of
    a model that was to hold nothing out, as the original program tested. `force` takes data that has changed
    since. Raises UsageError if nothing was held out or the model does not say what it was trained on,
    InputNotFound if the data is gone, DataError if it has changed.
    """
    _check_any_held_out(net, model, whole)
    path = training_file(net, model)
    if net.config.get("window"):
        data = _stream(net, path)
        _check_same(net, data, model, force)
        if not data.holdout.rows:
            _warn_all_rows(net, data, model)
        return data.gathered(data.holdout if data.holdout.rows else data.everything)
    ds = load_for(net, path)
    _check_same(net, ds, model, force)
    rows = split_holdout(ds, net.holdout, split_seed_of(net))[1]
    if not len(rows):
        _warn_all_rows(net, ds, model)
        return ds
    return ds.of_rows(rows)


held_out = holdout_dataset  # its public name, nn.held_out


def training_dataset(net, model: str | os.PathLike, *, force: bool = False, memory: int | None = None) -> Dataset:
    """Read all rows of the data set that `net`, read from the file `model`, was trained on; as holdout_dataset.

    Raises UsageError if they do not fit `memory` bytes.
    """
    path = training_file(net, model)
    if memory is not None:
        data = _stream(net, path, memory=memory)
        needed = program_bytes(net, PREDICTED_ROWS) + whole_bytes(data, net)
        check_memory(memory, needed, f"{data.rows} rows and these networks")
    ds = load_for(net, path)
    _check_same(net, ds, model, force)
    return ds


def stream_holdout(
    net, model: str | os.PathLike, *, whole: bool = False, force: bool = False, memory: int | None = None
) -> tuple[StreamedDataset, int, Iterator[Dataset]]:
    """Return the same rows, read from their files while they are used: (all the data, rows held out, their blocks)."""
    _check_any_held_out(net, model, whole)
    data = _stream(net, training_file(net, model), memory=memory)
    _check_same(net, data, model, force)
    if net.config.get("window") and data.holdout.rows:
        return data, *_rows_of(data, data.holdout)
    if not net.config.get("window"):
        if memory is not None:
            check_memory(memory, program_bytes(net, 1) + LABEL_BYTES * data.rows, f"the labels of {data.rows} rows")
        _, blocks = _rows_of(data, data.everything)
        y = np.concatenate([ds.y for ds in blocks])
        labels = Dataset(y, y, data.task, data.classes)
        rows = split_holdout(labels, net.holdout, split_seed_of(net))[1]
        if len(rows):
            return data, len(rows), _picked(_rows_of(data, data.everything)[1], rows)
    _warn_all_rows(net, data, model)
    return data, *_rows_of(data, data.everything)


def stream_for(
    net, path: str | os.PathLike, *, target=None, memory: int | None = None, separator=None, header=None
) -> tuple[StreamedDataset, int, Iterator[Dataset]]:
    """Return all rows of a table in the same way, as load_for reads them."""
    data = _stream(net, path, target, memory, separator, header)
    rows, blocks = _rows_of(data, data.everything)
    return data, rows, _checked(net, blocks)


def _stream(net, path, target=None, memory: int | None = None, separator=None, header=None) -> StreamedDataset:
    limit = {"window": 1} if memory is None else {"memory": memory}
    schema = _schema(net, target, separator, header)
    return loading.load(path, schema, holdout=net.holdout, seed=split_seed_of(net), **limit)


def split_seed_of(net) -> int:
    """Return the seed that drew the rows that a network's training held out."""
    return net.config.get("split_seed", net.seed)


def _rows_of(data: StreamedDataset, blocks: BlockSet) -> tuple[int, Iterator[Dataset]]:
    return blocks.rows, data.read(blocks, 0, blocks.rows)


def _picked(blocks: Iterator[Dataset], rows: np.ndarray) -> Iterator[Dataset]:
    """Yield the rows with these ascending indices from the blocks."""
    first = 0
    for ds in blocks:
        low, high = np.searchsorted(rows, [first, first + ds.rows])
        own = rows[low:high] - first
        first += ds.rows
        if len(own):
            yield ds.of_rows(own)


def _check_any_held_out(net, model, whole: bool) -> None:
    if not (net.config.get("holdout", net.holdout) or whole or net.config.get("reference")):
        raise UsageError(f"{model} was trained with --holdout 0, so no rows are left to test on; give --dataset")


def _check_same(net, ds: Dataset | StreamedDataset, model, force: bool) -> None:
    if ds.sha256 == net.dataset["sha256"]:
        return
    changed = f"{name_of(ds)} has changed since {model} was trained on it"
    if not force:
        raise DataError(f"{changed}; restore the old file, give another with --dataset, or train again")
    log.warning("%s; used anyway because of --force", changed)


def _warn_all_rows(net, ds: Dataset | StreamedDataset, model) -> None:
    """Warn that the test uses all rows, where the data was too small for the hold-out that was asked for."""
    if net.config.get("holdout", net.holdout):
        log.warning("%s held out no rows: testing on all %d rows, which it was trained on", model, ds.rows)


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
