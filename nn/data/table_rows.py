"""TableRows: rows of feature columns that are not all plain numbers, as the inputs of a Dataset."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..utils import DataError


@dataclass(frozen=True)
class TableRows:
    """Rows of feature columns in three groups: numbers, texts as codes, dates; see Table for gaps.

    kinds: of each feature column in the file's order number, text or date; its place in its group follows from them.
    It is cut into rows as an array is: rows[3:5], rows[indices], len(rows).
    """

    kinds: tuple[str, ...]
    numbers: np.ndarray  # (rows, columns of numbers)
    codes: np.ndarray  # (rows, columns of text) int32
    words: list[list[str]]
    dates: np.ndarray  # (rows, columns of dates) float64

    @classmethod
    def of(cls, x: np.ndarray | TableRows) -> TableRows:
        """Return rows of a table; numbers alone (rows, inputs) are taken as columns of numbers. Raises DataError."""
        if isinstance(x, TableRows):
            return x
        if x.ndim != 2:
            raise DataError(f"rows of shape {x.shape}, expected an array (rows, columns) or a data frame")
        none = np.zeros((len(x), 0))
        return cls(("number",) * x.shape[1], x, none.astype(np.int32), [], none)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows) -> TableRows:
        """Return some rows: a slice or indices."""
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows], dates=self.dates[rows])

    @property
    def shape(self) -> tuple[int, int]:
        """Return (rows, feature columns)."""
        return len(self), len(self.kinds)

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays in bytes."""
        return self.numbers.nbytes + self.codes.nbytes + self.dates.nbytes

    def column(self, index: int) -> np.ndarray:
        """Return the values of feature column `index`: numbers, codes or dates."""
        kind = self.kinds[index]
        group = {"number": self.numbers, "text": self.codes, "date": self.dates}[kind]
        return group[:, self.place(index)]

    def place(self, index: int) -> int:
        """Return the place of feature column `index` in its group."""
        return self._places[index]

    @cached_property
    def _places(self) -> list[int]:
        counts: Counter[str] = Counter()
        places = []
        for kind in self.kinds:
            places.append(counts[kind])
            counts[kind] += 1
        return places

    def words_of(self, index: int) -> list[str]:
        """Return the different texts of a text column, which its codes count."""
        return self.words[self.place(index)]

    @classmethod
    def joined(cls, parts: list[TableRows]) -> TableRows:
        """Return the rows of several parts with the same columns, whose texts may be counted differently."""
        words = [list(dict.fromkeys(word for part in parts for word in part.words[place]))
                 for place in range(len(parts[0].words))]  # fmt: skip
        index = [{word: code for code, word in enumerate(each)} for each in words]
        codes = [
            np.column_stack([
                np.array([*(index[place][word] for word in part.words[place]), -1], np.int32)[part.codes[:, place]]
                for place in range(len(words))
            ]) if words else part.codes
            for part in parts
        ]  # fmt: skip
        numbers, dates = (np.concatenate([getattr(part, name) for part in parts]) for name in ("numbers", "dates"))
        return cls(parts[0].kinds, numbers, np.concatenate(codes), words, dates)
