"""Columns that say something of their rows, and are no inputs: weights, groups and times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..utils import DataError
from .field_types import shortened
from .table import Table
from .table_files import ColumnFacts, TableFiles
from .written import date_of, other_than, values_of, way_of_dates


@dataclass(frozen=True)
class RowColumns:
    """The columns of some of ROLES, (role, index in the file) each.

    time_reads: number, date, or text, which are dates as people write them.
    """

    roles: tuple[tuple[str, int], ...] = ()
    time_reads: str = "number"

    @classmethod
    def of(cls, roles: tuple[tuple[str, int], ...], facts: list[ColumnFacts]) -> RowColumns:
        """Return the columns of these roles, read as the facts about their fields tell."""
        time = dict(roles).get("time")
        if time is None or facts[time].numbers >= max(facts[time].dates, facts[time].texts):
            return cls(roles)
        return cls(roles, "date" if facts[time].dates >= facts[time].texts else "text")

    def column(self, role: str) -> int | None:
        """Return the column of a role; None where there is none."""
        return dict(self.roles).get(role)

    def reads(self) -> list[tuple[int, str]]:
        """Return each column and what it is read as: number, text or date."""
        return [(column, self._read_as(role)) for role, column in self.roles]

    def _read_as(self, role: str) -> str:
        return {"weight": "number", "group": "text", "time": self.time_reads}[role]

    def values(self, files: TableFiles, table: Table, at: dict[str, int]) -> dict[str, np.ndarray]:
        """Return weights, groups and times of a table's rows, as a Dataset names them. Raises DataError.

        at: where the columns begin among those of each kind, behind the features.
        """
        found, at = {}, dict(at)
        for role, column in self.roles:
            kind = self._read_as(role)
            group = {"number": table.inputs, "text": table.codes, "date": table.dates}[kind]
            values = group[:, at[kind]].astype(np.int64 if kind == "text" else np.float64)
            if role == "time" and kind == "text":
                values = _seconds(files, table, column, values, table.words[at[kind]])
            _check(files, table, role, column, values)
            found[f"{role}s"] = values
            at[kind] += 1
        return found


def _seconds(files: TableFiles, table: Table, column: int, codes: np.ndarray, words: list[str]) -> np.ndarray:
    """Return the seconds since 1970-01-01 of dates as people write them. DataError names the first other word."""
    way = way_of_dates(words)
    if way is None:
        row = int(np.flatnonzero(np.isin(codes, other_than(words, "date")))[0])
        place = f"{files.path}, {table.row(row)}, {files.column(column)}"
        found = shortened(words[codes[row]])
        raise DataError(f'{place}: --time: found "{found}", expected a number or a date; correct it or remove the row')
    return np.array(values_of(words, date_of, way))[codes]


def _check(files: TableFiles, table: Table, role: str, column: int, values: np.ndarray) -> None:
    """Raise DataError that names the first row whose weight or time cannot be."""
    if role == "group":
        return
    bad = np.flatnonzero(~np.isfinite(values) | ((values < 0) if role == "weight" else False))
    if bad.size:
        place = f"{files.path}, {files.column(column)}, {table.row(bad[0])}"
        found = "a gap" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
        expected = "a finite number, 0 or above" if role == "weight" else "a time"
        raise DataError(f"{place}: --{role}: found {found}, expected {expected}; correct it or remove the row")
