"""Data sets: read from files, checked at the door, split by seed.

load() finds out from a file's content what it is; csv_table, images and source do the reading, targets
decides the task, scaling holds the input scaling.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from .scaling import Scaling
from .targets import Targets, is_coarse, resolve
from .utils import DataError, UsageError

__all__ = ["Dataset", "Scaling", "check_trainable", "load", "load_blocks", "split_holdout"]

TASKS = ("auto", "binary", "multiclass", "regression")
BLOCK_ROWS = 1 << 15  # read at a time by load_blocks, fewer of wide rows
_BLOCK_VALUES = 1 << 22
_AHEAD = re.compile(r"(.+)_in_[0-9.]+s")  # how a target column is named that holds NAME some seconds later


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
) -> Dataset:
    """Read a data set: CSV, IDX or CIFAR-10 binary, gzipped or not, NPZ (x, y), or a folder of class folders.

    target: target columns of a CSV file, names or indices (from 0, negative from the end), comma-separated.
    task: auto, binary, multiclass or regression. inputs, outputs: what the network takes and gives, if it is
    known: a number of inputs, or (channels, height, width), which makes a CSV file's columns pixels (uint8 if
    all are whole numbers in 0..255). classes, columns, targets: a model's class names, feature columns and
    target columns; labels are mapped to the classes, and columns found by name if the file has a header.
    labelled: False takes a file without targets too (y is None then).

    Raises InputNotFound, DataError (naming row and column) and UsageError (target or task that cannot be).
    """
    path = os.fspath(path)
    if task not in TASKS:
        raise UsageError(f"unknown task '{task}', expected one of {', '.join(TASKS)}")
    from .images import find_reader

    reader = find_reader(path)
    if reader is None:
        ds = _load_csv(path, target, task, inputs, outputs, classes, columns, targets, dtype, labelled)
    else:
        if target is not None:
            raise UsageError(f"{path}: --target names a column of a CSV file; leave it out")
        ds = _load_arrays(path, reader, task, inputs, outputs, classes, dtype, labelled)
    ds.path, ds.target = os.path.abspath(path), target
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
) -> Iterator[Dataset]:
    """The same data set in blocks of rows, one in memory at a time; arguments and errors as those of `load`.

    A CSV file is read twice: everything is checked before the first block is given out. Other formats, which
    are as small in memory as on disk, are read whole and then cut.
    """
    from .images import find_reader

    path = os.fspath(path)
    values = math.prod(inputs) if isinstance(inputs, tuple) else inputs
    rows = max(256, min(BLOCK_ROWS, _BLOCK_VALUES // max(1, values) // 256 * 256))
    if find_reader(path) is None:
        columns_found = _find_columns(path, target, inputs, outputs, columns, targets, labelled)
        yield from _csv_blocks(path, rows, columns_found, task, outputs, classes, dtype)
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


# -- CSV -----------------------------------------------------------------------------------------------------


@dataclass
class _Columns:
    """Which columns of a CSV file are features and which targets, and what the features are."""

    head: object  # csv_table.Head
    features: list[int]
    chosen: list[int]  # the targets
    pixels: tuple[int, int, int] | None

    def names(self, columns: list[int]) -> list[str] | None:
        return [self.head.names[c] for c in columns] if self.head.names else None

    def dataset(self, table, path, task, outputs, classes, dtype) -> Dataset:
        """A table (csv_table.Table) of these columns as a data set."""
        x = table.inputs.reshape(-1, *self.pixels) if self.pixels else table.inputs
        ds = Dataset(x, None, task, columns=self.names(self.features), targets=self.names(self.chosen))
        if self.chosen:
            ds.y, ds.task, ds.classes = resolve(self.found(table, path), task, outputs, classes, dtype)
            ds.now = _now(ds.columns, ds.targets) if ds.task == "regression" else None
        return ds

    def found(self, table, path) -> Targets:
        place = f"{path}, {self.head.column(self.chosen[0])}" if len(self.chosen) == 1 else path
        return Targets(table.targets, place, table.row, table.names, self.names(self.chosen))


def _now(columns: list[str] | None, targets: list[str] | None) -> list[int] | None:
    """Indices of the columns whose values the targets have ahead, by their names (see Dataset.now)."""
    ahead = [_AHEAD.fullmatch(target) for target in targets or []]
    if not ahead or not all(match and match[1] in columns for match in ahead):
        return None
    return [columns.index(match[1]) for match in ahead]


def _find_columns(path, target, inputs, outputs, columns, targets, labelled) -> _Columns:
    from .csv_table import read_head

    head = read_head(path)
    pixels = inputs if isinstance(inputs, tuple) else None
    width = math.prod(pixels) if pixels else inputs
    chosen = _target_columns(head, target, width, outputs, columns, targets, labelled)
    features = _feature_columns(head, chosen, columns)
    if width is not None and len(features) != width:
        raise DataError(_column_mismatch(head, len(features), width, outputs))
    if not features:
        raise DataError(f"{path}: no columns left besides the target, expected features too; check --target")
    return _Columns(head, features, chosen, pixels)


def _load_csv(path, target, task, inputs, outputs, classes, columns, targets, dtype, labelled) -> Dataset:
    found = _find_columns(path, target, inputs, outputs, columns, targets, labelled)
    element = "uint8" if found.pixels else dtype
    table, sha256 = _read_table(found.head, found.features, found.chosen, element, dtype, task, classes)
    ds = found.dataset(table, path, task, outputs, classes, dtype)
    ds.sha256 = sha256
    return ds


def _csv_blocks(path, rows, found: _Columns, task, outputs, classes, dtype) -> Iterator[Dataset]:
    from .csv_table import read_tables

    element, named, distinct = _look_through(found, rows, dtype, task, classes)
    if distinct is not None:  # no single block needs to hold all classes
        _, task, classes = resolve(found.found(distinct, path), task, outputs, None, dtype)
    for table in read_tables(found.head, found.features, found.chosen, element, rows, named_targets=named):
        ds = found.dataset(table, path, task, outputs, classes, "float64")  # targets as the file has them
        ds.path = os.path.abspath(path)
        yield ds


def _look_through(found: _Columns, rows: int, dtype, task, classes):
    """(type of the inputs, whether the target is text, a table of the distinct targets of unknown classes)."""
    from .csv_table import read_tables

    def read(element, named):
        columns = found.head, found.features, found.chosen
        distinct, table = None, None
        for table in read_tables(*columns, element, rows, named_targets=named):
            if found.chosen and classes is None and task != "regression":
                values = table.targets if distinct is None else np.vstack([distinct, table.targets])
                distinct = np.unique(values, axis=0)
        if distinct is None:
            return table, None
        if table.names is not None:
            distinct = np.arange(len(table.names), dtype=np.float64)[:, None]
        return table, replace(table, targets=distinct)

    element = "uint8" if found.pixels else dtype
    found_so = _read_as_needed(found.head, found.chosen, element, dtype, task, classes, read)
    (_, distinct), element, named = found_so
    return element, named, distinct


def _target_columns(head, target, inputs, outputs, columns, targets, labelled) -> list[int]:
    """Indices of the target columns: as asked for, by the model's names, or the last one or last ones."""
    if target is not None:
        return _columns_asked_for(head, str(target))
    if head.names and targets and all(name in head.names for name in targets):
        return [head.names.index(name) for name in targets]
    if head.names and columns and all(name in head.names for name in columns):
        rest = [c for c, name in enumerate(head.names) if name not in columns]
        if len(rest) in (1, outputs) or not labelled:
            return rest if len(rest) in (1, outputs) else []
    if inputs is not None:
        if head.columns == inputs and not labelled:
            return []
        if head.columns != inputs + 1 and (outputs is None or head.columns != inputs + outputs):
            raise DataError(_column_mismatch(head, head.columns, inputs, outputs))
        return list(range(inputs, head.columns))
    if head.columns < 2:
        raise DataError(
            f"{head.path}: 1 column, expected features and a target, separated by commas; add columns"
        )
    return [head.columns - 1]


def _columns_asked_for(head, target: str) -> list[int]:
    """The columns that --target names, in its order."""
    names = head.names or []
    parts = [target] if target in names else [part.strip() for part in target.split(",")]
    chosen = [names.index(part) if part in names else _column_number(head, part) for part in parts]
    for part, column in zip(parts, chosen, strict=True):
        if names.count(part) > 1:
            raise UsageError(f"{head.path}: --target {part}: {names.count(part)} such columns; use an index")
        if chosen.count(column) > 1:
            raise UsageError(f"{head.path}: --target {target}: {head.column(column)} twice; name it once")
    return chosen


def _column_number(head, part: str) -> int:
    try:
        index = int(part)
    except ValueError:
        similar = difflib.get_close_matches(part, head.names or [], 1)
        advice = f"did you mean {similar[0]}?" if similar else "use a name from the header or an index from 0"
        known = "" if head.names else " (the file has no header)"
        raise UsageError(f"{head.path}: --target {part}: no column has this name{known}; {advice}") from None
    if not -head.columns <= index < head.columns:
        raise UsageError(
            f"{head.path}: --target {part}: the file has {head.columns} columns, expected an index from "
            f"{-head.columns} to {head.columns - 1}"
        )
    return index % head.columns


def _feature_columns(head, chosen: list[int], columns: list[str] | None) -> list[int]:
    """The columns a model was trained on, by name if the file has a header; else all that are no targets."""
    rest = [c for c in range(head.columns) if c not in set(chosen)]
    if not (head.names and columns) or len(set(columns)) < len(columns):
        return rest
    place = {head.names[c]: c for c in reversed(rest)}
    for name in columns:
        if name not in place:
            raise DataError(
                f"{head.path}: no column {name} besides the target, expected every column that the model was "
                f"trained on; add it, or choose the target with --target"
            )
    return [place[name] for name in columns]


def _column_mismatch(head, found: int, inputs: int, outputs: int | None) -> str:
    expected = f"{inputs + 1} ({inputs} inputs and a target)"
    if outputs is not None and outputs > 1:
        expected += f" or {inputs + outputs} ({inputs} inputs and {outputs} outputs)"
    if found != head.columns:  # the targets were chosen apart
        return (
            f"{head.path}: {found} columns besides the target, expected {inputs} as the network has "
            f"inputs; check --layers, the model and --target"
        )
    return f"{head.path}: {found} columns, expected {expected}; check --layers, the model and --target"


def _read_table(head, features, chosen, element, dtype, task, classes):
    """(table, SHA-256 of the file)."""
    from .csv_table import read_table

    def read(element, named):
        digest = hashlib.sha256()
        return read_table(head, features, chosen, element, named_targets=named, digest=digest), digest

    (table, digest), _, _ = _read_as_needed(head, chosen, element, dtype, task, classes, read)
    return table, digest.hexdigest()


def _read_as_needed(head, chosen, element, dtype, task, classes, read):
    """(what read(type of the inputs, whether the target is text) gave, a table first; that type; whether it is
    text), read again in another way where the file turns out to need it."""
    from .csv_table import NotBytes, TextInTarget, is_number

    may_be_named = len(chosen) == 1 and task != "regression"
    first = head.first_row[chosen[0]] if may_be_named and chosen[0] < len(head.first_row) else ""
    named = bool(first) and not is_number(first)
    may_mix = task != "auto" or classes is not None
    while True:
        try:
            result = read(element, named)
        except NotBytes:
            element = dtype
            continue
        except TextInTarget as error:
            if may_be_named and may_mix:
                named = True
                continue
            advice = "or add --task multiclass if it is a class name" if may_be_named else "or remove the row"
            raise DataError(f"{error}; correct it, {advice}") from None
        table = result[0]
        if named and not may_mix:
            _check_all_text(head, chosen[0], table, is_number)
        if element == "float32" and is_coarse(table.low, table.high):
            element = "float64"
            continue
        return result, element, named


def _check_all_text(head, column: int, table, is_number) -> None:
    """A few numbers among class names are a mistake in the file more often than names."""
    numbers = np.array([is_number(name) for name in table.names])
    if numbers.any():
        codes = table.targets[:, 0].astype(np.intp)
        first = int(np.argmax(numbers[codes]))
        raise DataError(
            f"{head.path}, {table.row(first)}, {head.column(column)}: found "
            f'"{table.names[codes[first]]}", expected text as in the other rows; correct it, or add --task '
            f"multiclass if it is a class name"
        )
