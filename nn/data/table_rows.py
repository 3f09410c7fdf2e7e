"""TableRows: rows of inputs that are not all plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..utils import DataError
from .column import Column, in_type
from .records import in_file, some_rows


def with_gaps(x):
    """Return rows with nan for what an array of numpy.ma masks; other rows as they are.
    DataError: complex numbers."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "c":
        raise DataError(
            "Complex data not supported: the rows hold complex numbers, expected real ones"
        )
    if not isinstance(x, np.ma.MaskedArray) or x.dtype.kind not in "biuf":
        return x
    if np.ma.is_masked(x):
        return x.astype(np.result_type(x, np.float32)).filled(np.nan)
    return x.data


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of feature columns, in the file's order. It is cut into rows as an array is:
    rows[3:5], rows[indices]."""

    columns: tuple[Column, ...]
    # as of arrays
    dtype = None
    ndim = 2

    @classmethod
    def of(cls, x: np.ndarray | TableRows) -> TableRows:
        """Return rows of a table; numbers alone (rows, inputs) are taken as columns of
        numbers. Raises DataError."""
        if isinstance(x, TableRows):
            return x
        if x.ndim != 2:
            raise DataError(
                f"rows of shape {x.shape}, expected an array (rows, columns) or a data frame"
            )
        return cls(tuple(Column("number", values) for values in x.T))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows) -> TableRows:
        """Return some rows: a slice or indices."""
        return self._with(lambda column: some_rows(column.values, rows))

    def in_file(self) -> TableRows:
        """Return the rows in mapped files, where they are many."""
        return self._with(lambda column: in_file(column.values))

    def in_type(self, dtype) -> TableRows:
        """Return the rows with columns of numbers in a type, float32 or float64;
        decimals stay what they are."""

        def values_of(column: Column) -> np.ndarray:
            if column.reads == "number":
                return in_type(column.values, dtype)
            return column.values

        if self.number_types <= {dtype}:
            return self
        return self._with(values_of)

    @cached_property
    def number_types(self) -> set[str]:
        """The types of the columns of numbers."""
        numbers = (column for column in self.columns if column.reads == "number")
        return {column.values.dtype.name for column in numbers}

    @cached_property
    def only_row(self) -> list[float | str | None]:
        """The values of a row alone: numbers, nan for a gap; words, None for a gap."""
        row = []
        for column in self.columns:
            value = column.values[0].item()
            if column.reads == "text":
                row.append(column.words[value] if value >= 0 else None)
            else:
                row.append(float(value))
        return row

    def _with(self, values_of: Callable[[Column], np.ndarray]) -> TableRows:
        columns = []
        for column in self.columns:
            columns.append(Column(column.reads, values_of(column), column.words))
        return TableRows(tuple(columns))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """How each column is read: number, text or date."""
        return tuple(column.reads for column in self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (rows, feature columns)."""
        return len(self), len(self.columns)
