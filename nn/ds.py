"""Data sets, the door: `load` reads one from files, `split_holdout` splits it by seed.

The parts of nn/data do the work; nn/data/__init__.py has their picture.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from .data import loading
from .data.dataset import ColumnChoices, Dataset, Schema, check_trainable
from .data.scaling import Scaling
from .data.splits import split_holdout, split_rows
from .data.stream import StreamedDataset

__all__ = [
    "ColumnChoices", "Dataset", "Scaling", "Schema", "check_trainable", "load", "load_blocks", "split_holdout",
    "split_rows",
]  # fmt: skip


def load(
    path: str | os.PathLike,
    *,
    target: str | int | None = None,
    task: str = "auto",
    inputs: int | tuple[int, int, int] | None = None,
    outputs: int | None = None,
    classes: list[str] | None = None,
    columns: list[str] | None = None,
    targets: list[str] | None = None,
    dtype: str = "float32",
    categories: str | None = None,
    numbers: str | None = None,
    dates: str | None = None,
    drop: str | None = None,
    id: str | None = None,
    missing: str | None = None,
    separator: str | None = None,
    header: str = "auto",
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    plain: bool = False,
    labelled: bool = True,
    memory: int | None = None,
    window: int | None = None,
    holdout: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    y=None,
) -> Dataset | StreamedDataset:
    """Read a data set: CSV, IDX or CIFAR-10 binary, gzipped or not, Parquet, Arrow, SQLite, NPY, NPZ (x, y), or a
    folder of class folders.

    path: or a data frame (pandas, polars, Arrow; a dictionary of columns, or a list of dictionaries, a row each), or an
    array (rows, columns); y: the targets of its rows, where they are no columns of it. data.db:table is a table of a
    database. Tables may be several files with the same columns: with commas between them, a pattern (day*.csv) or
    their folder. target: target columns, names or indices (from 0, negative from the end), comma-separated.
    task: auto, binary, multiclass or regression. inputs, outputs: the network's, if it is known: a
    number of inputs, or (channels, height, width), which makes a table's columns pixels (uint8 if all are whole
    numbers in 0..255). classes, columns, targets: a model's class names, feature columns and
    target columns; labels are mapped to the classes, and columns found by name if the file has a header.
    categories, numbers, dates, drop, id, missing, separator, header, weight, group, time: what a person says of a
    table's columns and layout; see ColumnChoices. Other columns are taken for what their fields are, and
    Dataset.left_out names those that tell nothing. plain: all features are numbers without gaps, and inputs.
    labelled: False takes a file without targets too (y is None then).
    memory, window: give a StreamedDataset instead, whose rows are read while they are trained on. memory: most bytes
    for the whole program; window: training rows in memory at a time. holdout, validation
    (a share), seed: those of the training to come.

    Raises InputNotFound, DataError (naming row and column) and UsageError (target or task that cannot be).
    """
    choices = ColumnChoices(categories, numbers, dates, drop, id, missing, separator, header, weight, group, time)
    schema = Schema(task, inputs, outputs, classes, columns, targets, target, dtype, choices, plain)
    return loading.load(
        path, schema, labelled=labelled, memory=memory, window=window, holdout=holdout, validation=validation,
        seed=seed, y=y,
    )  # fmt: skip


def load_blocks(
    path: str | os.PathLike, *, labelled: bool = True, rows: int | None = None, **schema
) -> Iterator[Dataset]:
    """Yield the same data set in blocks of rows (32768 or fewer), one in memory at a time.

    schema: task, inputs, outputs, target, classes, columns, targets and dtype, with the errors of `load`. A table is
    read twice: everything is checked before the first block is given out. Other formats, which are as small in
    memory as on disk, are read whole and then cut.
    """
    return loading.load_blocks(os.fspath(path), Schema(**schema), labelled=labelled, rows=rows)
