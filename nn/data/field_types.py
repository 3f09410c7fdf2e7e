"""Types of fields: what the fields of columns are stored as, and which wider type to try where they cannot be.

A table format is asked for inputs and targets of certain types (table_files.Fields). It refuses a field that a type
cannot hold by raising a Refused; the type then names another one, with which the table is read again:

    Number("uint8") ── not a whole number in 0..255 ──► Number("float32") ── float32 would blur it ──► Number("float64")
    TargetNumber ── a text ──► ClassName ── too many for classes, all as $1,234.50 ──► ClassName(most=MOST_NUMBERS)

What a column means to a network, its kind, is another question: encoders.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..utils import DataError
from .table import Table
from .written import is_absent, is_number, written_as

MAX_CLASSES = 10_000
_COARSE = 1e-4  # the largest share of a column's range that may be lost to rounding to float32
MOST_NUMBERS = 1 << 20  # different texts that are all numbers as people write them
_LONGEST = 40  # characters of a field in a message
_MIXED_NAMES = 100  # different class names, some of which read as numbers
_NUMBERS_AS_NAMES = 10  # of them, where most rows hold numbers
_MIXED_ROWS = 5  # rows that each of the numbers, and each of the texts, needs on average; strays come once


class Refused(DataError):
    """A table holds a field that the type of its column does not."""


class NotBytes(Refused):
    """A field of uint8 numbers is not a whole number in 0..255."""


class Blurred(Refused):
    """Rounding to float32 would lose the differences between a column's numbers."""


class TextInTarget(Refused):
    """A target is text, which may be a class name."""

    def __init__(self, message: str, text: str):
        super().__init__(message)
        self.text = text


class TooManyNames(Refused):
    """A target holds more texts than there may be classes. `names`: some of them, or all."""

    def __init__(self, message: str, names: list[str]):
        super().__init__(message)
        self.names = names


class FieldType(Protocol):
    """A type of fields. `dtype`: of the values in a Table; `is_text`: a value is an index into Table.names."""

    dtype: str
    is_text: bool

    def check_names(self, names: list[str], counts: np.ndarray, first: Callable[[int], tuple[int, str]]) -> None:
        """Check the different texts of all rows. Raises DataError.

        counts (names,): how many rows have each. first(i): the first row with text i, and how messages call it.
        """

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

    def check_names(self, names: list[str], counts: np.ndarray, first: Callable[[int], tuple[int, str]]) -> None:
        """Accept all: there are none."""

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

    def check_names(self, names: list[str], counts: np.ndarray, first: Callable[[int], tuple[int, str]]) -> None:
        """Accept all: there are none."""

    def check_all(self, last: Table) -> None:
        """Accept all rows."""

    def after(self, refused: Refused) -> ClassName:
        """Return class names for a text, where the target may be one."""
        if self.or_name is None:
            raise DataError(f"{refused}; correct it, {self.advice}") from None
        return replace(self.or_name, instead_of=(refused.text, str(refused)))


@dataclass(frozen=True)
class ClassName:
    """A target of texts, each of which names a class, or is a number as people write it: $1,234.50.

    may_mix: a number may be a name too. instead_of: the text for which numbers are read as texts, with the message that
    refused it.
    """

    path: str
    column: str  # how messages call the target column
    may_mix: bool
    instead_of: tuple[str, str] | None = None
    are_numbers: bool = False  # all texts have to be numbers
    most: int = MAX_CLASSES  # different texts
    dtype = "float64"
    is_text = True

    def check_names(self, names: list[str], counts: np.ndarray, first: Callable[[int], tuple[int, str]]) -> None:
        """Raise DataError for a text that is no number where all are to be, and for numbers and texts that are no
        classes together: a stray among the others is more often a mistake in the file than a name."""
        if self.are_numbers and self.instead_of and written_as(names) is None:
            raise DataError(self._no_number())
        if self.may_mix:
            return
        numbers = np.array([is_number(name) for name in names], bool)
        if numbers.all() or not numbers.any() or _are_names(names, counts, numbers) or written_as(names) is not None:
            return
        are_mostly_text = counts[~numbers].sum() >= counts[numbers].sum()
        strays = sorted((*first(int(i)), names[i]) for i in np.flatnonzero(numbers == are_mostly_text))
        _, row, stray = strays[0]
        others = f" and {len(strays) - 1} more below" if len(strays) > 1 else ""
        expected = "text as in the other rows" if are_mostly_text else "a number"
        advice = "" if are_mostly_text else _gap_advice([text for *_, text in strays])
        raise DataError(
            f'{self.path}, {row}, {self.column}: found "{shortened(stray)}"{others}, expected {expected}; correct it, '
            f"or add --task multiclass if it is a class name{advice}"
        )

    def check_all(self, last: Table) -> None:
        """Accept all rows."""

    def after(self, refused: Refused) -> ClassName:
        """Return a type of more texts, where they are numbers; else raise a DataError that says what `refused` does.

        Raised itself, it would be part of a circle with this frame, and so would be the reader with its memory.
        """
        if isinstance(refused, TooManyNames) and self.most == MAX_CLASSES and not self.may_mix:
            if written_as(refused.names) is not None:
                return replace(self, are_numbers=True, most=MOST_NUMBERS)
            if self.instead_of:
                raise DataError(self._no_number()) from None
        raise DataError(str(refused)) from None

    def _no_number(self) -> str:
        text, refused = self.instead_of
        return f"{refused}; correct it, or remove the row{_gap_advice([text])}"


def shortened(text: str) -> str:
    """Return a field as messages show it: short, and on one line."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _gap_advice(texts: list[str]) -> str:
    """Return the flag that takes texts for gaps, as a shell takes it; nothing where that would be long."""
    words = ",".join(texts)
    if len(words) > _LONGEST or not words.isprintable() or any(set(text) & {'"', ","} for text in texts):
        return ""
    return f", or --missing {shlex.quote(words)} if that is a gap"


def _are_names(names: list[str], counts: np.ndarray, numbers: np.ndarray) -> bool:
    """Return whether texts and texts that read as numbers are class names together: 1, 2, 3+, or alpha, beta, 1."""
    if len(names) > _MIXED_NAMES or min(counts[numbers].mean(), counts[~numbers].mean()) < _MIXED_ROWS:
        return False
    if counts[~numbers].sum() >= counts[numbers].sum():
        return True
    values = np.array([float(name) for name, found in zip(names, numbers, strict=True) if found])
    are_few = len(values) <= _NUMBERS_AS_NAMES and bool((values == np.floor(values)).all())
    return are_few and not any(is_absent(name) for name, found in zip(names, numbers, strict=True) if not found)


def is_coarse(low: np.ndarray, high: np.ndarray) -> bool:
    """Return whether float32, off by up to 2^-24 of a value, would blur a column between these bounds."""
    size = np.maximum(np.abs(low), np.abs(high))
    return bool(((high > low) & (size * 2.0**-24 > _COARSE * (high - low))).any())
