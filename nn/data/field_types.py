"""Types of fields: what the fields of columns are stored as, and which wider type to try where they cannot be.

A table format is asked for inputs and targets of certain types (table_files.Fields). It refuses a field that a type
cannot hold by raising a Refused; the type then names another one, with which the table is read again:

    Number("uint8") ── not a whole number in 0..255 ──► Number("float32") ── float32 would blur it ──► Number("float64")
    TargetNumber ── a text ──► ClassName

What a column means to a network, its kind, is another question: encoders.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..utils import DataError
from .table import Table

_COARSE = 1e-4  # the largest share of a column's range that may be lost to rounding to float32


class Refused(DataError):
    """A table holds a field that the type of its column does not."""


class NotBytes(Refused):
    """A field of uint8 numbers is not a whole number in 0..255."""


class Blurred(Refused):
    """Rounding to float32 would lose the differences between a column's numbers."""


class TextInTarget(Refused):
    """A target is text, which may be a class name."""


class FieldType(Protocol):
    """A type of fields. `dtype`: of the values in a Table; `is_text`: a value is an index into Table.names."""

    dtype: str
    is_text: bool

    def check_block(self, table: Table) -> None:
        """Check a block of rows that has been read, beyond what the format checks. Raises DataError."""

    def check_all(self, last: Table) -> None:
        """Check the facts about all rows; `last` is the last block that was read. Raises Refused."""

    def after(self, refused: Refused) -> FieldType:
        """Return the type to read the columns as instead. Raises DataError if there is none."""


@dataclass(frozen=True)
class Number:
    """Features that are numbers. `usual`: the type of those that are no bytes."""

    dtype: str
    usual: str
    is_text = False

    def check_block(self, table: Table) -> None:
        """Accept every block: the format has checked its fields."""

    def check_all(self, last: Table) -> None:
        """Raise Blurred if float32 is too coarse for one of the columns."""
        if self.dtype == "float32" and is_coarse(last.low, last.high):
            raise Blurred("numbers that differ by less than float32 can tell, expected --dtype float64")

    def after(self, refused: Refused) -> Number:
        """Return the next wider type of numbers."""
        if isinstance(refused, NotBytes):
            return Number(self.usual, self.usual)
        return Number("float64", self.usual)


@dataclass(frozen=True)
class TargetNumber:
    """Targets that are numbers; `or_name`: the type of a target that may be text after all."""

    or_name: ClassName | None
    advice: str  # what a person can do about a text
    dtype = "float64"
    is_text = False

    def check_block(self, table: Table) -> None:
        """Accept every block: the format has checked its fields."""

    def check_all(self, last: Table) -> None:
        """Accept all rows."""

    def after(self, refused: Refused) -> ClassName:
        """Return class names for a text, where the target may be one."""
        if self.or_name is None:
            raise DataError(f"{refused}; correct it, {self.advice}") from None
        return self.or_name


@dataclass(frozen=True)
class ClassName:
    """A target of texts, each of which names a class; `may_mix`: a number may be a name too."""

    path: str
    column: str  # how messages call the target column
    may_mix: bool
    dtype = "float64"
    is_text = True

    def check_block(self, table: Table) -> None:
        """Raise DataError for a number: among names it is more often a mistake in the file than a name."""
        numbers = [] if self.may_mix else np.array([is_number(name) for name in table.names])
        if np.any(numbers):
            codes = table.targets[:, 0].astype(np.intp)
            first = int(np.argmax(numbers[codes]))
            raise DataError(
                f"{self.path}, {table.row(first)}, {self.column}: found "
                f'"{table.names[codes[first]]}", expected text as in the other rows; correct it, or add --task '
                f"multiclass if it is a class name"
            )

    def check_all(self, last: Table) -> None:
        """Accept all rows."""

    def after(self, refused: Refused) -> FieldType:
        """Raise `refused`: there is no other type of text."""
        raise refused


def is_number(text: str) -> bool:
    """Return whether a field reads as a number, nan and inf among them."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def is_coarse(low: np.ndarray, high: np.ndarray) -> bool:
    """Return whether float32, off by up to 2^-24 of a value, would blur a column between these bounds."""
    size = np.maximum(np.abs(low), np.abs(high))
    return bool(((high > low) & (size * 2.0**-24 > _COARSE * (high - low))).any())
