"""RowMemory: what a network remembers of rows that came one by one, as a dictionary or
a list, so that the next one needs no reader of tables.

A model decides the types of its columns, so a field is read by itself: a number is
taken as it is, and what the reader of tables has made of another field holds whenever
it comes again.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from .column import Column, number_in
from .row_encoder import MOST_KNOWN
from .schema import Schema
from .table_rows import TableRows

_FIELD_TYPES = {int, float, str, bool, type(None)}
_NUMPY_TYPES = {np.float64, np.int64, np.bool_, np.str_}  # the same values
# below which a whole number is itself in float64, and any a number in float32
_FAR = 1e15


class RowMemory:
    """The fields of a network's columns that are known. schema: the network's."""

    def __init__(self, schema: Schema):
        names = schema.columns or []
        self._names = names
        self._width = schema.width
        self._type = schema.number_type
        self._encoders = schema.encoding.encoders if schema.encoding else ()
        self._are_numbers = schema.is_numeric
        targets = schema.targets or ()
        # else other columns say what a field is
        self._is_field_enough = (
            schema.number_type is not None
            and not schema.pixels
            and not schema.plain
            and schema.choices.exposure is None
            and len({*names}) == len(names)
            and {*names}.isdisjoint(targets)
        )
        gaps = filter(None, schema.missing)
        has_numbers = any(number_in(word) is not None for word in gaps)
        self._far = 0.0 if has_numbers else _FAR  # a number may be a gap
        self._known: list[dict[Hashable, Column]] = [
            {} for _ in range(schema.width or 0)
        ]

    def fields_of(self, rows) -> Sequence | None:
        """Return the fields of a row alone in the order of the columns; None for other
        rows."""
        row = rows
        if isinstance(rows, (list, tuple)) and len(rows) == 1:
            row = rows[0]
        if isinstance(row, dict):
            others = row.keys() - {*self._names}
            if not self._names or len(others) + len(self._names) != len(row):
                return None
            if any(str(other).strip() in self._names for other in others):
                return None
            fields = [row[name] for name in self._names]
            given = row.values()
        elif isinstance(row, (list, tuple)) and row is not rows:
            fields = given = row
        else:
            return None
        types = {*map(type, given)} - _FIELD_TYPES
        if not self._is_field_enough or len(fields) != self._width:
            return None
        if not types <= _NUMPY_TYPES:
            return None
        if types:
            fields = [f.item() if type(f) in types else f for f in fields]
        return fields

    def rows_of(self, fields: Sequence) -> TableRows | np.ndarray | None:
        """Return the row of these fields, None where one of them is not known."""
        columns = []
        for place, field in enumerate(fields):
            column = self._number(place, field) or self._known[place].get(_key(field))
            if column is None:
                return None
            columns.append(column)
        if self._are_numbers:
            return np.array([[column.values[0] for column in columns]], self._type)
        return TableRows(tuple(columns))

    def _number(self, place: int, field) -> Column | None:
        """Return the column of a field that is a number as it is."""
        is_number = self._are_numbers or self._encoders[place].reads == "number"
        if is_number and type(field) in (int, float) and abs(field) < self._far:
            return Column("number", np.array([field], self._type))
        return None

    def learn(self, fields: Sequence, rows: TableRows | np.ndarray) -> None:
        """Remember what the reader of tables has made of the fields of a row."""
        x = TableRows.of(rows)
        for place, field in enumerate(fields):
            column = x.columns[place]
            columns_by_field = self._known[place]
            if len(columns_by_field) >= MOST_KNOWN:
                columns_by_field.clear()
            if self._is_quiet(place, field, column):
                columns_by_field[_key(field)] = column

    def _is_quiet(self, place: int, field, column: Column) -> bool:
        """Return whether the reader has nothing to tell of a field, as it has of odd
        words and of a row that is the names of the columns."""
        if field in self._names[place : place + 1]:
            return False
        if _key(field)[1] is None:
            return True
        if self._are_numbers or column.reads != "text":
            return not column.is_gap[0]
        encoder = self._encoders[place]
        return not encoder.written or not encoder.unknown(column)


def _key(field) -> tuple[type, Hashable]:
    """Return what a field is found by: 1, 1.0 and True are three."""
    if isinstance(field, float) and math.isnan(field):
        return float, None
    return type(field), field
