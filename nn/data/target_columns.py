"""The target columns of a table: the type of their fields, and the targets of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .dataset import Schema
from .field_types import MOST_NUMBERS, ClassName, TargetNumber
from .table import Table
from .table_files import TableFiles
from .targets import FEW_CLASSES, Targets
from .written import is_number, numbers_of

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
            written = ClassName(*place, may_mix=True, are_numbers=True, most=MOST_NUMBERS)
            return TargetNumber(None if schema.plain else written, "or remove the row")
        name = ClassName(*place, may_mix=schema.task != "auto" or schema.classes is not None)
        if is_text is None:
            first = self.files.first_field(target)
            is_text = first not in missing and not is_number(first)
        return name if is_text else TargetNumber(name, "")

    def of_table(self, table: Table, counts: np.ndarray | None = None) -> Targets:
        """Return the targets of a table's rows. counts: as in Targets."""
        one = len(self.columns) == 1
        place = f"{self.files.path}, {self.files.column(self.columns[0])}" if one else self.files.path
        values, names = table.targets, table.names
        numbers = self._written_numbers(names)
        if numbers is not None:
            values, names = numbers[values.astype(np.intp)], None
        return Targets(values, place, table.row, names, self.names, counts=counts)

    def _written_numbers(self, names: list[str] | None) -> np.ndarray | None:
        """Return the numbers that texts of a target are, as people write them; None if they name classes.

        Few of them may name classes as well as any text (4dr, 2dr).
        """
        task, classes = self.schema.task, self.schema.classes
        if names is None or classes is not None or not (task == "regression" or task == "auto"):
            return None
        if task == "auto" and len(names) <= FEW_CLASSES:
            return None
        numbers = numbers_of(names)
        return None if numbers is None else np.array(numbers)

    def now_among(self, features: list[str] | None) -> list[int] | None:
        """Return the features whose values the targets have ahead, as their names say (see Dataset.now)."""
        ahead = [_AHEAD.fullmatch(target) for target in self.names or []]
        if not ahead or not all(match and match[1] in features for match in ahead):
            return None
        return [features.index(match[1]) for match in ahead]


def names_of(table: Table) -> tuple[list[str], np.ndarray, Callable[[int], tuple[int, str]]]:
    """Return the different targets of a table, how many rows have each, and what finds the first of these rows."""
    codes = table.targets[:, 0].astype(np.intp)

    def first(name: int) -> tuple[int, str]:
        row = int(np.argmax(codes == name))
        return row, table.row(row)

    return table.names, np.bincount(codes[codes >= 0], minlength=len(table.names)), first


def any_gap(table: Table) -> bool:
    """Return whether a target is a gap: a row that is to be predicted."""
    is_gap = np.isnan(table.targets) if table.names is None else table.targets < 0
    return bool(is_gap.any())
