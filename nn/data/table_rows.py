"""TableRows: rows of feature columns that are not all plain numbers, as the inputs of a Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..utils import DataError
from .column import Column
from .records import in_file, some_rows


@dataclass(frozen=True)
class TableRows:
    """Rows of feature columns, in the file's order. It is cut into rows as an array is: rows[3:5], rows[indices].

    kinds: what each column reads: number, text or date. values: of each column, (rows,), see Column. words: of each
    column of text, which its codes count; empty for others.
    """

    kinds: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    words: tuple[Sequence[str], ...]

    @classmethod
    def of(cls, x: np.ndarray | TableRows) -> TableRows:
        """Return rows of a table; numbers alone (rows, inputs) are taken as columns of numbers. Raises DataError."""
        if isinstance(x, TableRows):
            return x
        if x.ndim != 2:
            raise DataError(f"rows of shape {x.shape}, expected an array (rows, columns) or a data frame")
        return cls(("number",) * x.shape[1], tuple(x.T), ((),) * x.shape[1])

    @classmethod
    def of_columns(cls, columns: Sequence[Column]) -> TableRows:
        """Return the rows of these columns."""
        parts = ((column.reads, column.values, column.words) for column in columns)
        kinds, values, words = zip(*parts, strict=True)
        return cls(kinds, values, words)

    def __len__(self) -> int:
        return len(self.values[0])

    def __getitem__(self, rows) -> TableRows:
        """Return some rows: a slice or indices."""
        return replace(self, values=tuple(some_rows(values, rows) for values in self.values))

    def in_file(self) -> TableRows:
        """Return the rows in mapped files, where they are many."""
        return replace(self, values=tuple(map(in_file, self.values)))

    dtype, ndim = None, 2  # as of arrays

    @property
    def shape(self) -> tuple[int, int]:
        """Return (rows, feature columns)."""
        return len(self), len(self.kinds)

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays in bytes."""
        return sum(values.nbytes for values in self.values)

    def column(self, index: int) -> np.ndarray:
        """Return the values of feature column `index`: numbers, codes or dates."""
        return self.values[index]

    def words_of(self, index: int) -> Sequence[str]:
        """Return the different texts of a text column, which its codes count."""
        return self.words[index]
