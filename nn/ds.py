"""Data sets: read from files, checked at the door, split by seed.

load() finds out from a file's content what it is; csv_table, npy_table, images and source do the reading,
columns finds features and targets in a table, targets decides the task, scaling holds the input scaling; parts
reads what is larger than memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .scaling import Scaling
from .source import absolute
from .targets import resolve
from .utils import DataError, UsageError

if TYPE_CHECKING:
    from .parts import Parts

__all__ = ["Dataset", "Scaling", "check_trainable", "load", "load_blocks", "split_holdout"]

TASKS = ("auto", "binary", "multiclass", "regression")
BLOCK_ROWS = 1 << 15  # read at a time by load_blocks, fewer of wide rows
_BLOCK_VALUES = 1 << 22


@dataclass
class Dataset:
    """Rows of inputs with what a network should answer to them.

    x: (rows, inputs) or images (rows, channels, height, width); uint8, float32 or float64, C-contiguous.
       float64 although float32 was asked for where float32 would blur a column (1.7e9 plus a few seconds):
       scale before casting (Scaling.apply does).
    y: int32 (rows,) class indices for the tasks binary and multiclass (binary: 1 is the positive, larger
       class), float (rows, outputs) for regression; None for data without targets.
    target: the target column as it was asked for; None: the last.
    now: for a series: of each target, the index (into a flattened row of x) of the value that it has now,
       when the target lies ahead. In CSV files the column NAME is the now of the target column NAME_in_60s.
    sha256: of the bytes that determine the data (one file: of that file).
    """

    x: np.ndarray
    y: np.ndarray | None
    task: str
    classes: list[str] | None = None
    columns: list[str] | None = None
    targets: list[str] | None = None
    path: str | None = None
    sha256: str | None = None
    target: str | int | None = None
    now: list[int] | None = None

    @property
    def rows(self) -> int:
        return len(self.x)

    @property
    def inputs(self) -> int:
        """Values in a row."""
        return math.prod(self.x.shape[1:])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of a row: (inputs,) or (channels, height, width)."""
        return self.x.shape[1:]

    @property
    def are_images(self) -> bool:
        """Whether the inputs are pixels."""
        return self.x.dtype == np.uint8 or self.x.ndim == 4

    @property
    def outputs(self) -> int | None:
        """Outputs that a network needs for this data; None without targets."""
        if self.y is None:
            return None
        if self.task == "binary":
            return 1
        return len(self.classes) if self.task == "multiclass" else self.y.shape[1]

    def persistence(self) -> np.ndarray | None:
        """The forecast that nothing changes, (rows, outputs) in the targets' units; None if no series."""
        return None if self.now is None else self.x.reshape(self.rows, -1)[:, self.now]

    def class_counts(self, rows=None) -> list[int]:
        """Rows of each class, in the order of `classes`, among all rows or the given ones."""
        y = self.y if rows is None else self.y[rows]
        return np.bincount(y, minlength=len(self.classes)).tolist()


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
    labelled: bool = True,
    memory: int | None = None,
    window: int | None = None,
    holdout: float = 0.2,
    seed: int = 0,
) -> Dataset | Parts:
    """Read a data set: CSV, NPY, IDX or CIFAR-10 binary, gzipped or not, NPZ (x, y), or a folder of class folders.

    path: CSV and NPY tables may be several files with the same columns: with commas between them, a pattern
    (day*.csv) or the folder that they are in. target: target columns of a table, names or indices (from 0,
    negative from the end), comma-separated.
    task: auto, binary, multiclass or regression. inputs, outputs: what the network takes and gives, if it is
    known: a number of inputs, or (channels, height, width), which makes a table's columns pixels (uint8 if
    all are whole numbers in 0..255). classes, columns, targets: a model's class names, feature columns and
    target columns; labels are mapped to the classes, and columns found by name if the file has a header.
    labelled: False takes a file without targets too (y is None then).
    memory, window: give Parts instead, whose rows are read while they are trained on: so many bytes at most for
    the whole program, so many rows at a time. holdout, seed: those of the training to come, for them.

    Raises InputNotFound, DataError (naming row and column) and UsageError (target or task that cannot be).
    """
    from .columns import find_columns, open_files

    path = os.fspath(path)
    if task not in TASKS:
        raise UsageError(f"unknown task '{task}', expected one of {', '.join(TASKS)}")
    files = open_files(path)
    in_parts = memory is not None or window is not None
    if callable(files):
        if target is not None:
            raise UsageError(f"{path}: --target names a column of a table (CSV, NPY); leave it out")
        if in_parts:
            raise UsageError(f"{path}: --memory and --window are for CSV and NPY tables; leave them out")
        ds = _load_arrays(path, files, task, inputs, outputs, classes, dtype, labelled)
    else:
        found = find_columns(files, target, inputs, outputs, columns, targets, labelled)
        if in_parts:
            from .parts import Parts

            arguments = Reading(task, outputs, classes, dtype)
            return Parts(found, arguments, target, memory=memory, window=window, holdout=holdout, seed=seed)
        ds = load_table(found, Reading(task, outputs, classes, dtype))
    ds.path, ds.target = absolute(path), target
    return ds


@dataclass(frozen=True)
class Reading:
    """How a table's targets are to be understood: the arguments of `load` by these names."""

    task: str
    outputs: int | None
    classes: list[str] | None
    dtype: str


def load_table(found, how: Reading) -> Dataset:
    """All rows of a table. found: columns.Columns."""
    from .columns import read_as_needed

    def read(element, named, check):
        table, sha256 = found.files.read(found.features, found.chosen, element, named_targets=named)
        check(table)
        return table, sha256

    (table, sha256), _, _ = read_as_needed(found, how.dtype, how.task, how.classes, read)
    ds = found.dataset(table, how.task, how.outputs, how.classes, how.dtype)
    ds.sha256 = sha256
    return ds


def load_blocks(
    path: str | os.PathLike,
    *,
    task: str,
    inputs: int | tuple[int, int, int],
    outputs: int,
    target=None,
    classes=None,
    columns=None,
    targets=None,
    dtype: str = "float32",
    labelled: bool = True,
    rows: int | None = None,
) -> Iterator[Dataset]:
    """The same data set in blocks of rows (32768 or fewer), one in memory at a time; arguments and errors as
    those of `load`.

    A table is read twice: everything is checked before the first block is given out. Other formats, which
    are as small in memory as on disk, are read whole and then cut.
    """
    from .columns import find_columns, open_files

    path = os.fspath(path)
    values = math.prod(inputs) if isinstance(inputs, tuple) else inputs
    rows = rows or max(256, min(BLOCK_ROWS, _BLOCK_VALUES // max(1, values) // 256 * 256))
    files = open_files(path)
    if not callable(files):
        found = find_columns(files, target, inputs, outputs, columns, targets, labelled)
        yield from _table_blocks(found, Reading(task, outputs, classes, dtype), path, rows)
        return
    ds = load(
        path,
        target=target,
        task=task,
        inputs=inputs,
        outputs=outputs,
        classes=classes,
        columns=columns,
        targets=targets,
        dtype=dtype,
        labelled=labelled,
    )
    for at in range(0, ds.rows, rows):
        yield replace(ds, x=ds.x[at : at + rows], y=None if ds.y is None else ds.y[at : at + rows])


def _table_blocks(found, how: Reading, path: str, rows: int) -> Iterator[Dataset]:
    from .parts import look_through

    look = look_through(found, how, rows)
    for table in found.files.blocks(found.features, found.chosen, look.element, rows, named_targets=look.named):
        # no single block needs to hold all classes; targets as the file has them
        ds = found.dataset(table, look.task, how.outputs, look.classes, "float64")
        ds.path = absolute(path)
        yield ds


def check_trainable(ds: Dataset) -> None:
    """Raise DataError if there is nothing to learn: one class only."""
    if ds.classes is None:
        return
    counts = ds.class_counts()
    present = [name for name, count in zip(ds.classes, counts, strict=True) if count]
    if len(present) == 1:
        column = f", column {ds.targets[0]}" if ds.targets and len(ds.targets) == 1 else ""
        raise DataError(
            f"{ds.path or 'the data'}{column}: only class {present[0]} ({ds.rows} rows), expected at "
            f"least two classes to train on; add rows of another class or choose the target with --target"
        )


def split_holdout(ds: Dataset, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, held-out rows): ascending int64 indices, decided by seed.

    Of each class the share `fraction` is held out, rounded down; for regression the share of all rows.
    """
    from .nn_aux import STREAM_HOLDOUT, shuffled

    if not 0 <= fraction < 1:
        raise UsageError(f"--holdout {fraction}: expected a share of at least 0 and below 1")
    share = Fraction(str(fraction))  # the decimal that was written: 0.29 of 100 rows are 29
    order = shuffled(ds.rows, seed, STREAM_HOLDOUT)
    labels = ds.y[order] if ds.classes is not None else np.zeros(ds.rows, np.int32)
    is_held = np.zeros(ds.rows, bool)
    for label in np.unique(labels):
        of_class = order[labels == label]
        is_held[of_class[: int(share * len(of_class))]] = True
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


# -- images and arrays ---------------------------------------------------------------------------------------


def _load_arrays(path, reader, task, inputs, outputs, classes, dtype, labelled) -> Dataset:
    found = reader(path, dtype, labelled)
    ds = Dataset(_shaped(path, found.x, inputs), None, task, sha256=found.sha256)
    if found.targets is not None:
        ds.y, ds.task, ds.classes = resolve(found.targets, task, outputs, classes, dtype)
        ds.now = found.now if ds.task == "regression" else None
    return ds


def _shaped(path, x: np.ndarray, inputs) -> np.ndarray:
    """x in the shape that the network takes, if it has as many values a row."""
    if inputs is None:
        return x
    shape = inputs if isinstance(inputs, tuple) else (inputs,)
    same_values = math.prod(shape) == math.prod(x.shape[1:])
    if not same_values or (len(shape) == 3 and x.ndim == 4 and shape != x.shape[1:]):
        found, expected = ("x".join(map(str, sizes)) for sizes in (x.shape[1:], shape))
        raise DataError(
            f"{path}: {found} values a row, expected {expected} as the network has inputs; check --layers"
        )
    return x.reshape(-1, *shape) if len(shape) == 3 else x
