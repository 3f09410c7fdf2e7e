"""The border to the table formats: the fields that are read of each row, and the interface of a format's class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np

from .field_types import FieldType, Refused, TextInTarget, TooManyNames
from .source import FileDigest
from .table import Table

Result = TypeVar("Result")


@dataclass(frozen=True)
class Fields:
    """The columns that are read of every row, by their indices in the file, and the types of their fields.

    missing: words that stand for a gap; none: a gap is an error. With such words a row whose target is a gap is left
    out and counted (Table.unlabelled), unless keep_unlabelled: its target is a gap then.
    """

    inputs: list[int]  # columns of numbers
    targets: list[int]
    input_type: FieldType
    target_type: FieldType
    texts: list[int] = field(default_factory=list)
    dates: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)  # kept as they are, for predictions
    missing: frozenset[str] = frozenset()
    keep_unlabelled: bool = False
    decimals: frozenset[int] = frozenset()  # columns of texts in which 1, 1.0 and 1e0 are one

    def check_names(self, names: list[str], counts: np.ndarray, first: Callable[[int], tuple[int, str]]) -> None:
        """Check the different texts of the target, of all rows; see FieldType. Raises DataError."""
        self.target_type.check_names(names, counts, first)

    def check_all(self, last: Table) -> None:
        """Check the facts about all rows; `last` is the last block that was read. Raises Refused."""
        self.input_type.check_all(last)
        self.target_type.check_all(last)

    def after(self, refused: Refused) -> Fields:
        """Return the same columns with another type for those that were refused. Raises DataError if there is none."""
        if isinstance(refused, TextInTarget | TooManyNames):
            return replace(self, target_type=self.target_type.after(refused))
        return replace(self, input_type=self.input_type.after(refused))


def read_as_needed(read: Callable[[Fields], Result], fields: Fields) -> Result:
    """Return `read(fields)`, called again with other types as long as a field is refused."""
    while True:
        try:
            return read(fields)
        except Refused as refused:
            fields = fields.after(refused)


@dataclass(frozen=True)
class Place:
    """A field that stands out: its row as messages call it, and its text."""

    row: str
    text: str


@dataclass
class ColumnFacts:
    """How many fields of a column are of each kind. Every field is counted once.

    Blanks and quotes around a field do not count. truths: yes/no words (TRUTHS); dates: ISO 8601 (YYYY-MM-DD, with
    `/` too, and a time behind a `T` or a blank); texts: all else.
    """

    gaps: int = 0
    numbers: int = 0  # finite ones
    truths: int = 0
    dates: int = 0
    texts: int = 0
    not_number: Place | None = None  # the first field that is neither a number nor a gap
    not_date: Place | None = None  # the first field that is neither a date nor a gap
    infinite: Place | None = None  # the first infinite number, which is counted among the texts

    @property
    def are_numbers(self) -> bool:
        """Return whether all fields but gaps are numbers."""
        return 0 < self.numbers == self.rows - self.gaps

    @property
    def rows(self) -> int:
        """Return the number of fields that were counted."""
        return self.gaps + self.numbers + self.truths + self.dates + self.texts


TRUTHS = {  # yes/no words, in any case, and what they mean
    "true": True, "yes": True, "y": True, "t": True, "false": False, "no": False, "n": False, "f": False,
}  # fmt: skip
GAPS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})  # words for a gap


@dataclass(frozen=True)
class ReadOptions:
    """A person's choices for a file's layout. Formats take what concerns them and ignore the rest.

    separator: between fields of text, None: found out. header: auto, yes or no. named: words by which columns are asked
    for; one of them in the first row tells that it is a header.
    """

    separator: str | None = None
    header: str = "auto"
    named: frozenset[str] = frozenset()


AS_FOUND = ReadOptions()  # nothing is said: the layout is found out


@dataclass
class RowIndex:
    """The files' digests and the positions of some rows, that of the end last, as one pass over all rows finds them."""

    digests: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class TableFiles(Protocol):
    """One file of a table format, or several with the same columns, whose rows follow each other.

    The columns are those of the first file. A position in the files is a number that the format chooses; it grows
    from row to row over all files. Every method that reads raises DataError for a field that is not what `fields`
    says, or a Refused where another type may hold it.
    """

    path: str  # the files as the user named them
    names: list[str] | None  # of the columns, None where the files have no names for them
    columns: int
    is_packed: bool  # reading can begin at the front only

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        """Open the files and look at their columns. Raises DataError for columns that differ."""

    def column(self, index: int) -> str:
        """Return how messages call a column."""

    def first_field(self, column: int) -> str:
        """Return a field of the first row as text, "" where the row is too short."""

    def facts(self, missing: frozenset[str], rows: int | None = None) -> list[ColumnFacts]:
        """Return what the fields of every column are, `missing` being the words for a gap.

        rows: how many rows at the front are looked at, about; None: all. Raises DataError for rows that are no rows of
        this table; fields may hold anything.
        """

    def read(self, fields: Fields, hashed: bool = True) -> tuple[Table, str | FileDigest | None]:
        """Return (all rows, the SHA-256 of the files if it is asked for, or what takes it later; else None).

        Columns that `fields` leaves out may hold anything.
        """

    def blocks(
        self, fields: Fields, rows: int, *, index: RowIndex | None = None, step: int | None = None
    ) -> Iterator[Table]:
        """Yield all rows in blocks of `rows` rows, the last one shorter; Table.names are those found so far.

        index: is given the files' digests, the position of every `step`th row (a divisor of `rows`) and the end.
        """

    def read_range(self, fields: Fields, start: int, stop: int, rows: int) -> Table:
        """Return the `rows` rows between two positions that `blocks` has given. DataError if they have changed."""
