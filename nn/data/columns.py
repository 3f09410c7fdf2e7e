"""Which columns of a table are features and which targets, and how the fields in them must be read."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .csv_table import CsvFiles, NotBytes, Table, TextInTarget, is_number
from .ds import Dataset
from .npy_table import MAGIC, NpyFiles
from .source import Source, data_files
from .targets import Targets, is_coarse, resolve
from .utils import DataError, UsageError

_AHEAD = re.compile(r"(.+)_in_[0-9.]+s")  # how a target column is named that holds NAME some seconds later


def open_files(path: str) -> CsvFiles | NpyFiles | Callable:
    """The table in the file or files that `path` stands for, or the reader (images.find_reader) of other formats.

    Raises InputNotFound, and DataError for files that do not belong together.
    """
    from .images import find_reader

    files = data_files(path)
    if os.path.isdir(files[0]):
        return find_reader(files[0])
    npy = [_is_npy(file) for file in files]
    readers = [None if is_npy else find_reader(file) for file, is_npy in zip(files, npy, strict=True)]
    if len(files) == 1 and readers[0] is not None:
        return readers[0]
    for file, is_npy, reader in zip(files, npy, readers, strict=True):
        if reader is not None or is_npy != npy[0]:
            kind = "NPY" if npy[0] else "CSV"
            raise DataError(f"{file}: expected {kind} as in {files[0]}; several files are all CSV or all NPY tables")
    return (NpyFiles if npy[0] else CsvFiles)(files, path)


def _is_npy(path: str) -> bool:
    if os.path.isdir(path):
        return False
    with Source(path) as source:
        return source.read(len(MAGIC)) == MAGIC


@dataclass
class Columns:
    """Which columns of a table are features and which targets, and what the features are."""

    files: CsvFiles | NpyFiles
    features: list[int]
    chosen: list[int]  # the targets
    pixels: tuple[int, int, int] | None

    def names(self, columns: list[int]) -> list[str] | None:
        return [self.files.names[c] for c in columns] if self.files.names else None

    def dataset(self, table: Table, task, outputs, classes, dtype) -> Dataset:
        """A table of these columns as a data set."""
        x = table.inputs.reshape(-1, *self.pixels) if self.pixels else table.inputs
        ds = Dataset(x, None, task, columns=self.names(self.features), targets=self.names(self.chosen))
        if self.chosen:
            ds.y, ds.task, ds.classes = self.resolve(table, task, outputs, classes, dtype)
            ds.now = _now(ds.columns, ds.targets) if ds.task == "regression" else None
        return ds

    def resolve(self, table: Table, task, outputs, classes, dtype):
        """(y, task, class names) of a table's targets; see targets.resolve."""
        one = len(self.chosen) == 1
        place = f"{self.files.path}, {self.files.column(self.chosen[0])}" if one else self.files.path
        targets = Targets(table.targets, place, table.row, table.names, self.names(self.chosen))
        return resolve(targets, task, outputs, classes, dtype)


def _now(columns: list[str] | None, targets: list[str] | None) -> list[int] | None:
    """Indices of the columns whose values the targets have ahead, by their names (see Dataset.now)."""
    ahead = [_AHEAD.fullmatch(target) for target in targets or []]
    if not ahead or not all(match and match[1] in columns for match in ahead):
        return None
    return [columns.index(match[1]) for match in ahead]


def find_columns(head: CsvFiles | NpyFiles, target, inputs, outputs, columns, targets, labelled) -> Columns:
    """Those that the arguments of ds.load ask for. Raises DataError, UsageError."""
    pixels = inputs if isinstance(inputs, tuple) else None
    width = math.prod(pixels) if pixels else inputs
    chosen = _target_columns(head, target, width, outputs, columns, targets, labelled)
    features = _feature_columns(head, chosen, columns)
    if width is not None and len(features) != width:
        raise DataError(_column_mismatch(head, len(features), width, outputs))
    if not features:
        raise DataError(f"{head.path}: no columns left besides the target, expected features too; check --target")
    return Columns(head, features, chosen, pixels)


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
        raise DataError(f"{head.path}: 1 column, expected features and a target, separated by commas; add columns")
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


def read_as_needed(found: Columns, dtype: str, task: str, classes: list[str] | None, read: Callable):
    """(what `read` gave, type of the inputs, whether the target is text), read again in another way where the
    files turn out to need it.

    read: called with that type, whether the target is text, and a function that it calls with every table.
    """
    files, chosen, element = found.files, found.chosen, "uint8" if found.pixels else dtype
    may_be_named = len(chosen) == 1 and task != "regression"
    first = files.first_row[chosen[0]] if may_be_named and chosen[0] < len(files.first_row) else ""
    named = bool(first) and not is_number(first)
    may_mix = task != "auto" or classes is not None
    last = None

    def check(table: Table) -> None:
        nonlocal last
        last = table
        if named and not may_mix:
            _check_all_text(found, table)

    while True:
        try:
            result = read(element, named, check)
        except NotBytes:
            element = dtype
            continue
        except TextInTarget as error:
            if may_be_named and may_mix:
                named = True
                continue
            advice = "or add --task multiclass if it is a class name" if may_be_named else "or remove the row"
            raise DataError(f"{error}; correct it, {advice}") from None
        if element == "float32" and is_coarse(last.low, last.high):
            element = "float64"
            continue
        return result, element, named


def _check_all_text(found: Columns, table: Table) -> None:
    """A few numbers among class names are a mistake in the file more often than names."""
    numbers = np.array([is_number(name) for name in table.names])
    if numbers.any():
        codes = table.targets[:, 0].astype(np.intp)
        first = int(np.argmax(numbers[codes]))
        raise DataError(
            f"{found.files.path}, {table.row(first)}, {found.files.column(found.chosen[0])}: found "
            f'"{table.names[codes[first]]}", expected text as in the other rows; correct it, or add --task '
            f"multiclass if it is a class name"
        )
