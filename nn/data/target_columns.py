"""The target columns of a table: the type of their fields, and the targets of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..utils import DataError
from .dataset import Schema
from .field_types import MOST_NUMBERS, ClassName, TargetNumber, shortened
from .table import Table
from .table_files import TableFiles
from .targets import FEW_CLASSES, Targets
from .written import WrittenNumbers, is_number, written_as

_AHEAD = re.compile(r"(.+)_in_[0-9.]+s")  # how a target column is named that holds NAME some seconds later


@dataclass(frozen=True)
class TargetColumns:
    """The columns that are targets, by their indices in the file."""

    files: TableFiles
    schema: Schema
    columns: list[int]

    @property
    def names(self) -> list[str] | None:
        """Return the columns' names; None where the files have none."""
        return [self.files.names[c] for c in self.columns] if self.files.names else None

    def field_type(self, is_text: bool | None, missing: frozenset[str]) -> TargetNumber | ClassName:
        """Return the type of their fields. is_text: None: the first row tells; missing: words for a gap."""
        schema = self.schema
        if len(self.columns) != 1:
            return TargetNumber(None, "or remove the row")
        target = self.columns[0]
        place = (self.files.path, self.files.column(target))
        if schema.task == "regression":
            text = ClassName(*place, may_mix=True, are_numbers=not schema.of_model, most=MOST_NUMBERS)
            if schema.written is not None and not schema.written.takes_plain:
                return text
            return TargetNumber(None if schema.plain else text, "or remove the row")
        name = ClassName(*place, may_mix=schema.task != "auto" or schema.classes is not None)
        if is_text is None:
            first = self.files.first_field(target)
            is_text = first not in missing and not is_number(first)
        return name if is_text else TargetNumber(name, "")

    def of_table(self, table: Table, counts: np.ndarray | None = None) -> Targets:
        """Return the targets of a table's rows. counts: as in Targets."""
        one = len(self.columns) == 1
        place = f"{self.files.path}, {self.files.column(self.columns[0])}" if one else self.files.path
        values, names, written = table.targets, table.names, self._written(table.names)
        if written is not None:
            values, names = self._numbers(table, written), None
            written = None if written == WrittenNumbers() else written
        return Targets(values, place, table.row, names, self.names, counts=counts, written=written)

    def _written(self, names: list[str] | None) -> WrittenNumbers | None:
        """Return how texts of a target are numbers, as a model has it or as all are written; None if they name classes.

        Few of them may name classes as well as any text (4dr, 2dr).
        """
        schema = self.schema
        if names is None or schema.classes is not None or schema.task not in ("regression", "auto"):
            return None
        if schema.task == "auto" and len(names) <= FEW_CLASSES:
            return None
        if schema.written is not None:
            return schema.written
        found = written_as(names)
        if schema.of_model:  # of plain numbers, in which money is as good, but no other unit and no multiple
            return WrittenNumbers(before=found.before if found else "")
        return found

    def _numbers(self, table: Table, written: WrittenNumbers) -> np.ndarray:
        """Return the numbers that a table's targets are, written so. DataError names the first other row."""
        numbers = list(map(written.number_of, table.names))
        codes = table.targets.astype(np.intp)
        others = [code for code, number in enumerate(numbers) if number is None]
        bad = np.flatnonzero(np.isin(codes[:, 0], others)) if others else []
        if len(bad):
            row, word = int(bad[0]), shortened(table.names[codes[bad[0], 0]])
            place = f"{self.files.path}, {table.row(row)}, {self.files.column(self.columns[0])}"
            raise DataError(
                f'{place}: found "{word}", '
                f"expected {_described(written)} as in training; write it so, or remove the row"
            )
        return np.array(numbers, np.float64)[codes]

    def now_among(self, features: list[str] | None) -> list[int] | None:
        """Return the features whose values the targets have ahead, as their names say (see Dataset.now)."""
        ahead = [_AHEAD.fullmatch(target) for target in self.names or []]
        if not ahead or not all(match and match[1] in features for match in ahead):
            return None
        return [features.index(match[1]) for match in ahead]


def _described(written: WrittenNumbers) -> str:
    return "a plain number" if not (written.before or written.behind) else f"a number written as {written}"


def names_of(table: Table) -> tuple[list[str], np.ndarray, Callable[[int], tuple[int, str]]]:
    """Return the different targets of a table, how many rows have each, and what finds the first of these rows."""
    codes = table.targets[:, 0]

    def first(name: int) -> tuple[int, str]:
        row = int(np.argmax(codes == name))
        return row, table.row(row)

    counts = np.bincount((codes + 1).astype(np.intp), minlength=len(table.names) + 1)  # a gap is -1
    return table.names, counts[1:], first


def any_gap(table: Table) -> bool:
    """Return whether a target is a gap: a row that is to be predicted."""
    is_gap = np.isnan(table.targets) if table.names is None else table.targets < 0
    return bool(is_gap.any())
