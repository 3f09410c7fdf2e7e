"""Columns: which columns of a table are features and which targets; their rows become a Dataset."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from ..utils import DataError, UsageError, closest
from .dataset import Dataset, Schema
from .kinds import ClassName, Number, TargetNumber, is_number
from .source import absolute
from .table import Table
from .table_files import Fields, TableFiles, read_as_needed
from .targets import Targets, dataset_of, resolve

_AHEAD = re.compile(r"(.+)_in_[0-9.]+s")  # how a target column is named that holds NAME some seconds later


@dataclass(frozen=True)
class Columns:
    """The features and targets of a table, as indices of its columns, with their schema."""

    files: TableFiles
    schema: Schema
    features: list[int]
    targets: list[int]
    path: str  # the files from wherever the program runs next

    @classmethod
    def choose(cls, files: TableFiles, schema: Schema, labelled: bool) -> Columns:
        """Return the columns that a schema asks for. Raises DataError, UsageError."""
        targets = _target_columns(files, schema, labelled)
        features = _feature_columns(files, targets, schema.columns)
        if schema.width is not None and len(features) != schema.width:
            raise DataError(_column_mismatch(files, len(features), schema))
        if not features:
            raise DataError(f"{files.path}: only target columns, expected features as well; check --target")
        return cls(files, schema, features, targets, absolute(files.path))

    def knowing(self, **facts) -> Columns:
        """Return the same columns, with these facts in their schema."""
        return replace(self, schema=replace(self.schema, **facts))

    def names(self, columns: list[int]) -> list[str] | None:
        """Return the names of columns; None where the files have none."""
        return [self.files.names[c] for c in columns] if self.files.names else None

    def fields(self) -> Fields:
        """Return how the columns are read, as far as the first row can tell."""
        schema, dtype = self.schema, self.schema.dtype
        number = Number("uint8" if schema.pixels else dtype, dtype)
        if len(self.targets) != 1 or schema.task == "regression":
            return Fields(self.features, self.targets, number, TargetNumber(None, "or remove the row"))
        may_mix = schema.task != "auto" or schema.classes is not None
        target, row = self.targets[0], self.files.first_row
        name = ClassName(self.files.path, self.files.column(target), may_mix)
        if target < len(row) and row[target] and not is_number(row[target]):
            return Fields(self.features, self.targets, number, name)
        advice = "or add --task multiclass if it is a class name"
        return Fields(self.features, self.targets, number, TargetNumber(name if may_mix else None, advice))

    def read(self) -> Dataset:
        """Read all rows."""

        def read(fields: Fields) -> tuple[Table, str]:
            table, sha256 = self.files.read(fields)
            fields.check_block(table)
            fields.check_all(table)
            return table, sha256

        return self.dataset(*read_as_needed(read, self.fields()))

    def dataset(self, table: Table, sha256: str | None = None) -> Dataset:
        """Return rows of these columns as a data set. sha256: of the files."""
        x, pixels = table.inputs, self.schema.pixels
        columns, targets = self.names(self.features), self.names(self.targets)
        facts = {"columns": columns, "targets": targets, "path": self.path, "sha256": sha256}
        return dataset_of(
            x.reshape(-1, *pixels) if pixels else x,
            self._targets_of(table) if self.targets else None,
            self.schema,
            now=_now(columns, targets),
            **facts,
        )

    def resolve(self, table: Table) -> tuple[np.ndarray, str, list[str] | None]:
        """Return (y, task, class names) of a table's targets; see targets.resolve."""
        return resolve(self._targets_of(table), self.schema)

    def _targets_of(self, table: Table) -> Targets:
        one = len(self.targets) == 1
        place = f"{self.files.path}, {self.files.column(self.targets[0])}" if one else self.files.path
        return Targets(table.targets, place, table.row, table.names, self.names(self.targets))


def _now(columns: list[str] | None, targets: list[str] | None) -> list[int] | None:
    """Return the columns whose values the targets have ahead, as their names say (see Dataset.now)."""
    ahead = [_AHEAD.fullmatch(target) for target in targets or []]
    if not ahead or not all(match and match[1] in columns for match in ahead):
        return None
    return [columns.index(match[1]) for match in ahead]


def _target_columns(files: TableFiles, schema: Schema, labelled: bool) -> list[int]:
    """Return the target columns: as asked for, by the model's names, or the last one or last ones."""
    if schema.target is not None:
        return _columns_asked_for(files, str(schema.target))
    names, inputs, outputs = files.names, schema.width, schema.outputs
    if names and schema.targets and all(name in names for name in schema.targets):
        return [names.index(name) for name in schema.targets]
    if names and schema.columns and all(name in names for name in schema.columns):
        rest = [c for c, name in enumerate(names) if name not in schema.columns]
        if len(rest) in (1, outputs) or not labelled:
            return rest if len(rest) in (1, outputs) else []
    if inputs is not None:
        if files.columns == inputs and not labelled:
            return []
        if files.columns != inputs + 1 and (outputs is None or files.columns != inputs + outputs):
            raise DataError(_column_mismatch(files, files.columns, schema))
        return list(range(inputs, files.columns))
    if files.columns < 2:
        raise DataError(f"{files.path}: 1 column, expected features and a target, separated by commas; add columns")
    return [files.columns - 1]


def _columns_asked_for(files: TableFiles, target: str) -> list[int]:
    """Return the columns that --target names, in its order."""
    names = files.names or []
    words = [target] if target in names else [word.strip() for word in target.split(",")]
    chosen = [names.index(word) if word in names else _column_number(files, word) for word in words]
    for word, column in zip(words, chosen, strict=True):
        if names.count(word) > 1:
            raise UsageError(f"{files.path}: --target {word}: {names.count(word)} columns have this name; use an index")
        if chosen.count(column) > 1:
            raise UsageError(f"{files.path}: --target {target}: {files.column(column)} is listed twice; list it once")
    return chosen


def _column_number(files: TableFiles, word: str) -> int:
    try:
        index = int(word)
    except ValueError:
        similar = closest(word, files.names or [])
        advice = f"did you mean {similar}?" if similar else "use a name from the header or an index from 0"
        known = "" if files.names else " (the file has no header)"
        raise UsageError(f"{files.path}: --target {word}: no column of this name{known}; {advice}") from None
    if not -files.columns <= index < files.columns:
        raise UsageError(
            f"{files.path}: --target {word}: the file has {files.columns} columns, expected an index from "
            f"{-files.columns} to {files.columns - 1}"
        )
    return index % files.columns


def _feature_columns(files: TableFiles, targets: list[int], names: list[str] | None) -> list[int]:
    """Return the columns that a model was trained on, by name if the file has a header; else all but the targets."""
    rest = [c for c in range(files.columns) if c not in set(targets)]
    if not (files.names and names) or len(set(names)) < len(names):
        return rest
    place = {files.names[c]: c for c in reversed(rest)}
    for name in names:
        if name not in place:
            raise DataError(
                f"{files.path}: no column {name} besides the target, expected every column that the model was "
                f"trained on; add it, or choose the target with --target"
            )
    return [place[name] for name in names]


def _column_mismatch(files: TableFiles, found: int, schema: Schema) -> str:
    inputs, outputs = schema.width, schema.outputs
    expected = f"{inputs + 1} ({inputs} inputs and a target)"
    if outputs is not None and outputs > 1:
        expected += f" or {inputs + outputs} ({inputs} inputs and {outputs} outputs)"
    if found != files.columns:  # the targets were chosen apart
        return (
            f"{files.path}: {found} columns besides the target, expected {inputs}, one per input of the "
            f"network; check --layers, the model and --target"
        )
    return f"{files.path}: {found} columns, expected {expected}; check --layers, the model and --target"
