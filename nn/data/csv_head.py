"""The first lines of a CSV file: they tell its separator, its columns and whether the
first row names them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, pairwise
from operator import eq
from typing import NamedTuple

import numpy as np

from ..core import extension
from ..utils import DataError, UsageError
from .column import (
    BYTE_ORDER_MARK,
    GAPS,
    TRUTHS,
    WINDOWS,
    are_names,
    date_in,
    decoded,
    is_code,
)
from .schema import UNSAID, Schema
from .source import Source

ffi, lib = extension("seq")

LONGEST_CSV_LINE = 1 << 24  # bytes
# which spreadsheets write above a table, and read
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n')
_HEAD_BYTES = 1 << 19  # read at first: some hundred rows
_FRACTION = re.compile(
    rb'(?:^|[;\n])[ "]*[-+]?\d*([.,])\d+(?:[eE][-+]?\d+)?[ "]*(?=[;\r\n]|$)'
)
MOST_TABLE_COLUMNS = 1 << 17
SEPARATORS = (",", ";", "\t", "|")
# or several, or tabs; tried where none of the others but tab separates fields
_BLANK = " "
# struct csv_place
_PLACE = np.dtype(
    [("start", "i8"), ("stop", "i8"), ("doubled", "i4"), ("is_number", "i4")]
)
_NO_PLACES = np.empty(0, _PLACE)
_ROW = np.dtype([("line", "i8"), ("fields", "i8")])  # struct csv_row
_WHOLE_LABEL = re.compile(r"[-+]?\d{1,18}(?:[.,]0*)?", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_LEAST_NAMES = 3  # numbers that are taken for names where they count the columns
_MANY_COLUMNS = 8  # whose numbers do not ascend by chance
_HEAD_ROWS = 100  # looked at, to tell a header
_HEAD_FIELDS = 30_000  # looked at, but for the first two rows, which are whole
_SEPARATOR_ROWS = 50  # looked at, to tell the separator
_COMMA = re.compile(r"[-+]?(?:\d+,\d*|,\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# numbers and dates as people write them: $1,234.50, 5 Jan 2019
_WRITTEN_VALUE = re.compile(r"[^a-zA-Z;|\d]*\d[^;|]*")


class NoRows(DataError):
    """A CSV file has no row. names: those of its columns, None where it has no header
    either."""

    def __init__(self, message: str, names: list[str] | None = None):
        super().__init__(message)
        self.names = names


@dataclass
class Head:
    """Facts of a CSV file that its first lines tell."""

    path: str
    names: list[str] | None  # of the columns, if there is a header
    rows: list[list[Cell]]  # the first ones below the header
    width: int
    first_line: int  # line of the file, counted from 1, at which the rows begin
    separator: str = ","
    # within the first numbers, between semicolons: perhaps a comma; None: there is none
    point: str | None = None
    row_bytes: float = 1.0  # of a row, as the first ones are
    # the last column that has a name or a value in the first rows
    last_filled: int = -1
    is_gzip: bool = False
    code_page: str = WINDOWS  # of text that is no UTF-8

    def rows_in(self, size: int) -> int:
        """Return about how many rows these bytes of the file are, rather more; memory
        without rows is never touched."""
        return int(1.1 * size / self.row_bytes) + 16

    def column(self, index: int) -> str:
        """Return how messages call a column: by its name, or by its place counted from
        1."""
        if self.names and self.names[index]:
            return f"column {self.names[index]}"
        return f"column {index + 1} of {self.width}"

    def has_labels(self, place: int) -> bool:
        """Return whether the first fields of a target may be labels: codes with zeros
        before them, or whole numbers of which few differ."""
        words = [
            row[place].text
            for row in self.rows
            if place < len(row) and row[place].kind == "number"
        ]
        if any(map(is_code, words)):
            return True
        are_whole = all(map(_WHOLE_LABEL.fullmatch, words))
        return are_whole and 2 * len({*words}) <= len(words)

    def kinds(self, places: Iterable[int], missing: frozenset[str]) -> dict[int, tuple]:
        """Return of each column (kind, least and greatest number) in the first rows.
        missing: words for a gap."""
        kinds = {}
        for place in places:
            column = ColumnBelow(self.rows, place, missing)
            numbers = [cell.text for cell in column.cells if cell.kind == "number"]
            values = [float(number.replace(",", ".")) for number in numbers]
            low = min(values, default=math.inf)
            high = max(values, default=-math.inf)
            kinds[place] = (column.kind, low, high)
        return kinds


def read_head(
    path: str, schema: Schema = UNSAID, first_file: FirstFile | None = None
) -> Head:
    """Look at the first rows of a file; first_file: of several, unless it is this one.
    schema: what a person says of its layout, and the names of a model's columns, which
    tell a header.

    Raises NoRows if there is no row of data, DataError for other text, UsageError for a
    separator that cannot be one.
    """
    text, is_gzip = _start(path)
    separator = schema.choices.separator
    separator_line = _SEPARATOR_LINE.match(text)
    if separator_line:
        text = b"\n" + text[separator_line.end() :]
        separator = separator or decoded(separator_line[1])
    if not text.strip():
        reason = "the file is empty"
        if len(text) > LONGEST_CSV_LINE:
            reason = f"its first {len(text)} bytes are blank lines"
        raise NoRows(f"{path}: {reason}, expected rows of numbers separated by commas")
    if separator is None:
        separator = separator_of(text)
    else:
        separator = _given_separator(path, text, separator)
    rows = FirstRows(text, separator, code_page=schema.code_page)
    _check_first_rows(path, text, rows)
    width = rows.counts[0]
    names = None
    below = rows.rows
    first_row = 0
    if _has_header(rows, schema, first_file):
        names = _texts_of(below[0])
        below = below[1:]
        first_row = 1
    if are_names(names):
        below = [cells for cells in below if _texts_of(cells) != names]
    if not below:
        raise NoRows(
            f"{path}: only a header, expected at least one row of numbers; add the data",
            names,
        )
    point = None
    if rows.separator == ";":
        fraction = _FRACTION.search(text)
        if fraction:
            point = fraction[1].decode()
    return Head(
        path,
        names,
        below,
        width,
        rows.lines[first_row],
        rows.separator,
        point,
        len(text) / max(1, text.count(b"\n")),
        _last_filled(names, below, width),
        is_gzip,
        schema.code_page,
    )


def _check_first_rows(path: str, text: bytes, rows: FirstRows) -> None:
    """Raise DataError for too many columns, an open quote and a comment above."""
    width = rows.counts[0]
    if width > MOST_TABLE_COLUMNS:
        raise DataError(
            f"{path}, row {rows.lines[0]}: {width} columns, expected at most {MOST_TABLE_COLUMNS}; write it with a "
            f"line for each row, or as NPY, which has no such limit"
        )
    if not rows.counts[-1] and len(rows.counts) <= 2:
        raise open_quote(path, rows.lines[-1])
    usual_width = max(rows.counts, key=rows.counts.count)
    if text.startswith(b"#") and width != usual_width:
        raise DataError(
            f"{path}, row 1: begins with #, as a comment does, expected names of columns or a row; remove the lines "
            "above the table"
        )


def _last_filled(names: list[str] | None, below: list[list[Cell]], width: int) -> int:
    """Return the last column that has a name, or a value in the first rows."""
    for place in reversed(range(width)):
        if names and names[place]:
            return place
        values = {cells[place].text for cells in below if place < len(cells)}
        if not GAPS.issuperset(values):
            return place
    return width - 1


def open_quote(path: str, line: int) -> DataError:
    """Return the error for a row whose quotes are not closed."""
    return DataError(
        f'{path}, row {line}: a field begins with " and no other " ends it, expected a pair; close or remove the quote'
    )


def _start(path: str) -> tuple[bytes, bool]:
    """Return the first lines of a file, at least two that are not blank, and whether it
    is gzip."""
    with Source(path) as source:
        text = source.read(_HEAD_BYTES)
        is_all = len(text) < _HEAD_BYTES
        # without the last line, which may be cut
        lines = text.split(b"\n", 64)[:-1]
        filled = [line for line in lines if line.strip()]
        if not is_all and len(filled) <= 2:
            block = source.read(LONGEST_CSV_LINE)
            is_all = len(block) < LONGEST_CSV_LINE
            text += block
    if b"\n" not in text and b"\r" in text.rstrip(b"\r"):
        raise DataError(
            f"{path}: its lines end in CR alone, expected LF or CR LF; save it again with such ends"
        )
    if not is_all and text.find(b"\n", max(0, len(text) - LONGEST_CSV_LINE)) < 0:
        raise too_long(path)
    if not is_all:
        text = text[: text.rfind(b"\n") + 1]
    return text.removeprefix(BYTE_ORDER_MARK), source.is_gzip


def _given_separator(path: str, text: bytes, separator: str) -> str:
    if separator in ("tab", "\\t"):
        separator = "\t"
    if len(separator.encode()) != 1 or separator in '"\r\n\0.+-' or separator.isalnum():
        raise UsageError(
            f'--separator "{separator}": expected one character such as , ; | or tab'
        )
    if {*field_counts(text, separator)} == {1}:
        raise DataError(
            f'{path}: "{separator}" never occurs between fields, expected it as --separator says; leave it out'
        )
    return separator


def too_long(path: str) -> DataError:
    """Return the error for a line that is too long."""
    return DataError(
        f"{path}: a line longer than {LONGEST_CSV_LINE} bytes, expected rows of numbers; write the table with a line for "
        f"each row"
    )


class FirstFile(NamedTuple):
    """Facts of the first of several files. names: of its columns, None without a
    header."""

    names: list[str] | None


class Cell(NamedTuple):
    """A field of the first rows, without quotes and blanks; kind: number, truth, date,
    written (as people write numbers and dates) or text."""

    text: str
    kind: str


# -- rows ------------------------------------------------------------------------------


class FirstRows:
    """The first rows that are not blank: the first two whole, further ones up to
    _HEAD_FIELDS.

    lines, counts: of each row its line in the file and the number of its fields; 0
    where the text ends within quotes of the last one. rows: the fields of each.
    """

    def __init__(
        self,
        text: bytes,
        separator: str,
        most: int = _HEAD_ROWS,
        code_page: str = WINDOWS,
    ):
        places = np.empty(2 * MOST_TABLE_COLUMNS + _HEAD_FIELDS, _PLACE)
        rows = split(text, separator, most, places)
        self.separator = separator
        rows = rows[
            (np.cumsum(rows["fields"]) <= _HEAD_FIELDS) | (np.arange(len(rows)) < 2)
        ]
        self.lines = rows["line"].tolist()
        self.counts = rows["fields"].tolist()
        cells = []
        for start, stop, doubled, is_number in places[: sum(self.counts)].tolist():
            field = decoded(text[start:stop], code_page)
            if doubled:
                field = field.replace('""', '"')
            kind = "number" if is_number else _field_kind(field)
            cells.append(Cell(field, kind))
        cells = iter(cells)
        self.rows = [list(islice(cells, count)) for count in self.counts]


class ColumnBelow:
    """The fields of a column in some rows, which may have too few, gaps left out.

    kind: of nearly all fields, text if there is no such kind; None: there are no
    fields.
    """

    def __init__(
        self, rows: list[list[Cell]], place: int, missing: frozenset[str] = GAPS
    ):
        self.cells = [
            row[place]
            for row in rows
            if place < len(row) and row[place].text not in missing
        ]
        self.words = {cell.text for cell in self.cells}
        self.kind = None
        if self.cells:
            kinds = Counter(cell.kind for cell in self.cells)
            self.kind, count = kinds.most_common(1)[0]
            if count < 0.95 * len(self.cells):
                self.kind = "text"


def split(
    text: bytes, separator: str, most: int, places: np.ndarray = _NO_PLACES
) -> np.ndarray:
    """Return at most `most` rows (_ROW) that are not blank; the first of their fields
    go to places (_PLACE)."""
    csv = ffi.new("struct csv *")
    rows = np.empty(most, _ROW)
    csv.separator = separator.encode()
    csv.point = b"."
    c_rows = ffi.from_buffer("struct csv_row[]", rows)
    c_places = ffi.from_buffer("struct csv_place[]", places)
    count = lib.csv_split(
        csv, c_rows, most, c_places, len(places), ffi.from_buffer(text), len(text)
    )
    return rows[:count]


def field_counts(text: bytes, separator: str) -> list[int]:
    """Return the numbers of fields of the first rows."""
    return split(text, separator, _SEPARATOR_ROWS)["fields"].tolist()


def _are_even(counts: list[int]) -> bool:
    """Return whether rows of this many fields are those of a table: all have as
    many, and several."""
    return len({*counts}) == 1 and 1 < counts[0] <= MOST_TABLE_COLUMNS


# -- separator -------------------------------------------------------------------------


def separator_of(text: bytes) -> str:
    """Return the separator that cuts the first rows into equally many fields; of
    several, those that are no text."""
    counts = {separator: field_counts(text, separator) for separator in SEPARATORS}
    visible = [separator for separator in SEPARATORS if separator != "\t"]
    if all({*counts[separator]} == {1} for separator in visible):
        counts[_BLANK] = field_counts(text, _BLANK)
    even = [separator for separator in counts if _are_even(counts[separator])]
    if not even:
        return max(SEPARATORS, key=lambda separator: _rows_alike(counts[separator]))
    if len(even) == 1:
        return even[0]
    share = {separator: _share_of_values(text, separator) for separator in even}
    return max(even, key=lambda separator: (share[separator], separator != _BLANK))


def _rows_alike(counts: list[int]) -> int:
    """Return how many rows have the most frequent number of fields above one."""
    several = Counter(count for count in counts if count != 1)
    return max(several.values(), default=0)


def _share_of_values(text: bytes, separator: str) -> float:
    """Return the share of the first fields, cut so, that are gaps or no texts."""
    cells = list(chain(*FirstRows(text, separator, _SEPARATOR_ROWS).rows))
    values = sum(cell.text in GAPS or cell.kind != "text" for cell in cells)
    return values / len(cells)


# -- header ----------------------------------------------------------------------------


def _has_header(rows: FirstRows, schema: Schema, first_file: FirstFile | None) -> bool:
    """Return whether the first row names the columns: a person says so, or its words,
    or those below, or that it comes again among rows that are unlike it."""
    texts = _texts_of(rows.rows[0])
    header = schema.choices.header
    if header == "no":
        return False
    # the header of the first file again
    if first_file and first_file.names == texts:
        return True
    if header == "yes":
        return first_file is None
    # the columns of a model
    if first_file is None and schema.follows_model and schema.columns:
        if {*schema.columns} <= {*texts}:
            return True
    # unlike the rows below
    if _are_names(rows.rows):
        return True
    # it comes again, and is unlike the rows in between
    unlike = [row for row in rows.rows if _texts_of(row) != texts]
    comes_again = len(rows.rows) - len(unlike) > 1
    if not comes_again or not unlike:
        return False
    return _are_no_words_of(texts, unlike) and _are_names([rows.rows[0], *unlike])


def _texts_of(cells: list[Cell]) -> list[str]:
    return [cell.text for cell in cells]


def _are_no_words_of(texts: list[str], rows: list[list[Cell]]) -> bool:
    """Return whether no column of some rows holds the text at its place."""
    return not any(any(map(eq, texts, _texts_of(row))) for row in rows)


def _are_names(rows: list[list[Cell]]) -> bool:
    """Return whether the first row is unlike the rows below it, as names are.

    The evidence of all columns (_evidence_of_name) must be more than the numbers above
    numbers tell against it (_evidence_of_numbers).
    """
    columns = [
        (cell, ColumnBelow(rows[1:], place)) for place, cell in enumerate(rows[0])
    ]
    if _are_numbered(columns):
        return True
    evidence = 0.0
    has_number = False
    numbers = []  # above numbers
    for cell, below in columns:
        if cell.kind == below.kind == "number":
            numbers.append(cell.text)
        if cell.text not in GAPS and re.search(r"\w", cell.text):
            evidence += _evidence_of_name(cell, below)
            has_number = has_number or cell.kind == "number"
    if not has_number:
        evidence += 0.25
    return evidence > _evidence_of_numbers(numbers)


def _evidence_of_numbers(numbers: list[str]) -> float:
    """Return how much numbers of the first row, above numbers, tell against names: as
    many as they are, one where they ascend, a bit less where they count the columns."""
    if not numbers:
        return 0.0
    if _count(numbers):  # 1, 2, 3, ...
        return 0.9
    if _ascend(numbers):  # years, or doses
        return 1.0
    return float(len(numbers))


def _evidence_of_name(cell: Cell, below: ColumnBelow) -> float:
    """Return how much a cell of the first row looks like the name of its column: 1
    above values of another kind, .5 above words, -1 for one of these values."""
    if below.kind == "text":
        if cell.text in below.words:
            return -1.0
        do_repeat = 2 * len(below.words) <= len(below.cells)
        if do_repeat and cell.kind != "number":
            return 0.5
        return 0.0
    if not below.kind or cell.kind == "number":
        return 0.0
    if cell.kind == below.kind:
        return -1.0
    return 1.0


def _are_numbered(columns: list[tuple[Cell, ColumnBelow]]) -> bool:
    """Return whether numbers name the columns: they count them, above texts or
    fractions, as pandas names columns without names; or they are many and ascend, as
    years do, and the row below does not."""
    texts = [cell.text for cell, _ in columns]
    if len(texts) >= _LEAST_NAMES and _count(texts):
        if any(_holds_no_counts(below) for _, below in columns):
            return True
    above = []
    first_below = []
    for cell, below in columns:
        if cell.kind == below.kind == "number":
            above.append(cell.text)
            first_below.append(below.cells[0].text)
    return len(above) >= _MANY_COLUMNS and _ascend(above) and not _ascend(first_below)


def _holds_no_counts(column: ColumnBelow) -> bool:
    """Return whether a column has fields that are no whole numbers: texts, or numbers
    that all have decimals."""
    if column.kind == "number":
        return all("." in word for word in column.words)
    return column.kind is not None


def _count(texts: list[str]) -> bool:
    """Return whether texts are 0, 1, 2, ... or 1, 2, 3, ..."""
    return any(
        texts == list(map(str, range(start, start + len(texts)))) for start in (0, 1)
    )


def _ascend(texts: Sequence[str]) -> bool:
    """Return whether texts are whole numbers, each larger than the one before."""
    return all(map(_WHOLE.fullmatch, texts)) and all(
        int(text) < int(following) for text, following in pairwise(texts)
    )


@lru_cache(1 << 12)
def _field_kind(text: str) -> str:
    """Return the kind of a field that is no number as C reads it."""
    if _COMMA.fullmatch(text):
        return "number"
    if text.lower() in TRUTHS:
        return "truth"
    if text[:4].isdecimal() and date_in(text) is not None:
        return "date"
    if _WRITTEN_VALUE.fullmatch(text):
        return "written"
    return "text"
