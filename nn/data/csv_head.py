"""The first lines of a CSV file: they tell its separator, its columns and whether the first row names them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core import extension
from ..utils import DataError, UsageError
from .field_types import is_number
from .source import Source, read_blocks
from .table_files import AS_FOUND, GAPS, TRUTHS, ReadOptions
from .written import is_written

ffi, lib = extension("seq")

PLACE = np.dtype(  # struct csv_place
    [("line", "i8"), ("start", "i8"), ("stop", "i8"), ("quoted", "i4"), ("doubled", "i4"), ("is_number", "i4")],
    align=True,
)
_ROW = np.dtype([("line", "i8"), ("fields", "i8")])  # struct csv_row
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 24  # bytes
MOST_COLUMNS = 1 << 17
_SEPARATORS = (",", ";", "\t", "|")
_BLANK = " "  # or several, or tabs; tried where none of the others but tab separates fields
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n')  # which spreadsheets write above a table, and read
_OTHER_SEPARATORS = (":", "^", "~", "&", "#", "!")  # not tried, but named where there is one column only
_HEAD_BYTES = 1 << 16  # read at first
_HEAD_ROWS, _HEAD_FIELDS = 300, 30_000  # looked at, to tell a header
_SPLIT_ROWS = 50  # looked at, to tell the separator
_POINT_BYTES = 1 << 24  # looked at, to tell a decimal comma
_FRACTION = re.compile(rb'(?:^|[;\n])[ "]*[-+]?\d*([.,])\d+(?:[eE][-+]?\d+)?[ "]*(?=[;\r\n]|$)')
_NO_COMMENT = re.compile(rb"\n(?!#)")
_UNLIKELY = math.log(0.01)
_YEAR = re.compile(r"(1[5-9]|20)\d\d", re.ASCII)
_LEAST_NAMES = 3  # numbers that are taken for names where they ascend
_MANY_COLUMNS = 8  # whose numbers do not count 0, 1, 2, ... by chance


class Cell(NamedTuple):
    """A field of the first rows: its text without quotes and blanks, and whether it stood in quotes."""

    text: str
    quoted: bool


@dataclass
class Head:
    """Facts of a CSV file that its first lines tell."""

    path: str
    names: list[str] | None  # of the columns, if there is a header
    first_row: list[str]
    first_line: int  # line of the file, counted from 1, at which the rows begin
    separator: str = ","
    point: str = "."  # within numbers: a decimal comma, perhaps, between semicolons
    row_bytes: float = 0.0  # of a row, as the first ones are

    @property
    def columns(self) -> int:
        return len(self.names or self.first_row)

    def column(self, index: int) -> str:
        """Return how messages call a column: by its name, or by its place counted from 1."""
        name = self.names[index] if self.names else ""
        return f"column {name}" if name else f"column {index + 1} of {self.columns}"


def read_head(path: str, options: ReadOptions = AS_FOUND, first: Head | None = None) -> Head:
    """Look at the first rows of a file; `first` is the head of the first of several files.

    Raises DataError if there is no row of data, UsageError for a separator that cannot be one.
    """
    begins = _first_text(path)
    if said := _SEPARATOR_LINE.match(begins):
        begins = b"\n" + begins[said.end() :]
        options = replace(options, separator=options.separator or decoded(said[1]))
    text = _without_comments(begins)
    if not text.strip():
        raise _no_rows(path, begins)
    if b"\r" in text.strip() and b"\n" not in text.strip():
        raise DataError(f"{path}: lines end in CR alone, expected LF or CR LF; convert them: tr '\\r' '\\n' <FILE >NEW")
    separator = _separator(path, text, options)
    _check_width(path, text, separator)
    rows = _Rows(text, separator, _HEAD_ROWS)
    if rows.is_open and len(rows) <= 2:
        raise open_quote(path, rows.lines[-1])
    has_corner = options.header != "no" and _lacks_first_name(rows)
    has_header = has_corner or _has_header(rows, options, first)
    names = [""] * has_corner + [cell.text for cell in rows.row(0)] if has_header else None
    if has_header and len(rows) == 1:
        raise DataError(f"{path}: only a header, expected at least one row of numbers; add the data")
    row = 1 if has_header else 0
    point = _point(path) if separator == ";" else "."
    row_bytes = len(text) / max(1, text.count(b"\n"))
    head = Head(path, names, [cell.text for cell in rows.row(row)], rows.lines[row], separator, point, row_bytes)
    if head.columns == 1 and options.separator is None:
        _check_one_column(path, text)
    return head


def _no_rows(path: str, text: bytes) -> DataError:
    """Return the error for a file that begins with such a text, in which there is no row."""
    found = "the file is empty" if len(text) <= LONGEST_LINE else f"the first {len(text)} bytes are blank lines"
    if text.strip():
        lines = text.count(b"\n") + (not text.endswith(b"\n"))
        found = f"the first {lines} lines are blank or comments, which begin with #"
    return DataError(f"{path}: {found}, expected rows of numbers separated by commas")


def _without_comments(text: bytes) -> bytes:
    """Return the text with blank lines instead of the comments above it, which begin with #.

    The last of these lines is none if it has as many fields as the one below: `#name` may begin a header.
    """
    end = _end_of_comments(text)
    last, below = text[text.rfind(b"\n", 0, max(0, end - 1)) + 1 : end], text[end:].partition(b"\n")[0]
    marks = [separator.encode() for separator in _SEPARATORS]
    if below and any(last.count(mark) == below.count(mark) > 0 for mark in marks):
        end -= len(last)
    return b"\n" * text.count(b"\n", 0, end) + text[end:]


def _end_of_comments(text: bytes) -> int:
    """Return where the lines end that a text begins with and that begin with #."""
    if not text.startswith(b"#"):
        return 0
    found = _NO_COMMENT.search(text)
    return found.end() if found else len(text)


def _check_width(path: str, text: bytes, separator: str) -> None:
    """Raise DataError for too many columns, before a line is taken apart."""
    line, fields = _split(text, separator, 1)[0]
    if fields > MOST_COLUMNS:
        raise DataError(
            f"{path}, row {line}: {fields} columns, expected at most {MOST_COLUMNS}; write it with a line "
            f"for each row, or as NPY, which has no such limit"
        )


def open_quote(path: str, line: int) -> DataError:
    """Return the error for a row whose quotes are not closed."""
    return DataError(
        f'{path}, row {line}: a field begins with " and no other " ends it, expected a pair; close or remove the quote'
    )


def decoded(text: bytes) -> str:
    """Decode text of a CSV file: as UTF-8 or, where it is not UTF-8, as Latin-1, which knows every byte."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


# -- rows ----------------------------------------------------------------------------------------------------


class _Rows:
    """The first rows that are not blank: the first two whole, further ones up to _HEAD_FIELDS.

    The last one may be open: the text ends within its quotes.

    lines, counts: of each row its line in the file and the number of its fields, 0 where it is open.
    """

    def __init__(self, text: bytes, separator: str, most: int):
        self._text = text
        rows = _split(text, separator, most)
        total = np.cumsum(rows["fields"])
        rows = rows[(total <= _HEAD_FIELDS) | (np.arange(len(rows)) < 2)]
        self._places = np.empty(total[len(rows) - 1], PLACE)
        _split(text, separator, len(rows), self._places)
        self.lines, self.counts = rows["line"].tolist(), rows["fields"].tolist()
        self._starts = total[: len(rows)] - rows["fields"]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def is_open(self) -> bool:
        """True if the text ends within the quotes of the last row."""
        return self.counts[-1] == 0

    def row(self, index: int) -> list[Cell]:
        """Return the fields of a row."""
        start = self._starts[index]
        return _cells(self._text, self._places[start : start + self.counts[index]])

    def columns_below(self) -> list[_Column]:
        """Return the columns of the first row, as the rows below it have them; a row may have too few fields."""
        starts, counts = self._starts[1:], np.array(self.counts[1:])
        return [_Column(self._text, self._places[starts[counts > i] + i]) for i in range(self.counts[0])]


class _Column:
    """The fields of a column below the first row, gaps left out."""

    def __init__(self, text: bytes, places: np.ndarray):
        self._text, self._places = text, places

    @cached_property
    def cells(self) -> list[Cell]:
        """The fields one by one."""
        return [cell for cell in _cells(self._text, self._places) if cell.text not in GAPS]

    @cached_property
    def _are_numbers(self) -> bool:
        return len(self._places) > 0 and bool(self._places["is_number"].all())  # then none is a gap

    @cached_property
    def kind(self) -> str | None:
        """The kind of nearly all fields, text if there is no such kind; None: there are no fields."""
        return "number" if self._are_numbers else _kind_of(self.cells)

    @cached_property
    def any_quoted(self) -> bool:
        """True if a field stands in quotes."""
        if self._are_numbers:
            return bool(self._places["quoted"].any())
        return any(cell.quoted for cell in self.cells)


def _split(text: bytes, separator: str, most: int, places: np.ndarray | None = None) -> np.ndarray:
    """Return at most `most` rows (_ROW) that are not blank; the first of their fields go to places (PLACE)."""
    csv, rows = ffi.new("struct csv *"), np.empty(most, _ROW)
    csv.separator, csv.point = separator.encode(), b"."
    places = np.empty(0, PLACE) if places is None else places
    buffers = (ffi.from_buffer(f"struct {name}[]", array) for name, array in (("csv_row", rows), ("csv_place", places)))
    c_rows, c_places = buffers
    count = lib.csv_split(csv, c_rows, most, c_places, len(places), text + b"\0", len(text))
    return rows[:count]


def _cells(text: bytes, places: np.ndarray) -> list[Cell]:
    found = []
    for start, stop, quoted, doubled in places[["start", "stop", "quoted", "doubled"]].tolist():
        field = decoded(text[start:stop])
        found.append(Cell(field.replace('""', '"') if doubled else field, bool(quoted)))
    return found


def _first_text(path: str) -> bytes:
    """Return lines from the front, at least two that are neither blank nor comments above the table."""
    text = b""
    with Source(path) as source:
        while block := source.read(max(_HEAD_BYTES, len(text))):
            text += block
            if len(text) > LONGEST_LINE and text.find(b"\n", len(text) - LONGEST_LINE) < 0:
                raise too_long(path)
            start = _end_of_comments(text.removeprefix(BYTE_ORDER_MARK))
            filled = sum(1 for line in text[start:].split(b"\n", 64)[:-1] if line.strip())
            if filled > 2 or len(text) > LONGEST_LINE:  # not the last line, which may be cut
                return text[: text.rfind(b"\n") + 1].removeprefix(BYTE_ORDER_MARK)
    return text.removeprefix(BYTE_ORDER_MARK)


# -- separator and decimal comma -----------------------------------------------------------------------------


def _separator(path: str, text: bytes, options: ReadOptions) -> str:
    """Return the separator that was asked for, or the one that cuts the first rows into equally many fields."""
    if options.separator is not None:
        return _given_separator(path, text, options.separator)
    counts = {separator: _field_counts(text, separator) for separator in _SEPARATORS}
    if all({*counts[separator]} == {1} for separator in _SEPARATORS if separator != "\t"):
        counts[_BLANK] = _field_counts(text, _BLANK)
    even = _even(counts) or _even({one: _with_first_name(found) for one, found in counts.items()})
    if len(even) == 1:
        return even[0]
    if even:
        return max(even, key=lambda one: (_share_typed(text, one), one != _BLANK, counts[one][0]))

    def rows_alike(separator: str) -> int:
        return max((counts[separator].count(count) for count in {*counts[separator]} - {1}), default=0)

    return max(_SEPARATORS, key=rows_alike)


def _even(counts: dict[str, list[int]]) -> list[str]:
    """Return the separators that cut all rows into equally many fields, two or more."""
    return [one for one, found in counts.items() if MOST_COLUMNS >= min(found) == max(found) > 1]


def _with_first_name(counts: list[int]) -> list[int]:
    """Return the numbers of fields, that of the first row one larger if all others are: see _lacks_first_name."""
    return [counts[0] + 1, *counts[1:]] if {*counts[1:]} == {counts[0] + 1} else counts


def _given_separator(path: str, text: bytes, separator: str) -> str:
    separator = {"tab": "\t", "\\t": "\t"}.get(separator, separator)
    if len(separator.encode()) != 1 or separator in '"\r\n\0.+-' or separator.isalnum():
        raise UsageError(f'--separator "{separator}": expected one character such as , ; | or tab')
    if all(count == 1 for count in _field_counts(text, separator)):
        found = _separator(path, text, AS_FOUND)
        advice = f"leave it out, or use {_name(found)}" if found.encode() in text else "leave it out"
        raise DataError(
            f"{path}: {_name(separator)} never occurs between fields, expected it as --separator says; {advice}"
        )
    return separator


def _field_counts(text: bytes, separator: str) -> list[int]:
    return _split(text, separator, _SPLIT_ROWS)["fields"].tolist()


def _name(separator: str) -> str:
    return "tab" if separator == "\t" else f'"{separator}"'


def _share_typed(text: bytes, separator: str) -> float:
    rows = _Rows(text, separator, _SPLIT_ROWS)
    cells = [cell.text for index in range(len(rows)) for cell in rows.row(index)]
    if separator == ";":
        cells = [cell.replace(",", ".") for cell in cells]
    return sum(cell in GAPS or _kind(cell) != "text" for cell in cells) / len(cells)


def _check_one_column(path: str, text: bytes) -> None:
    """Raise DataError if a character that is not tried as a separator cuts every row alike."""
    for separator in _OTHER_SEPARATORS:
        counts = {*_field_counts(text, separator)}
        if len(counts) == 1 and counts != {1}:
            raise DataError(
                f"{path}: 1 column, expected fields separated by one of , ; | or tab; if {_name(separator)} separates "
                f"them, add --separator '{separator}'"
            )


def _point(path: str) -> str:
    """Return what stands in numbers between semicolons: the first comma or point in one."""
    done = 0
    for text in whole_lines(read_blocks(path), path):
        if found := _FRACTION.search(text):
            return found[1].decode()
        done += len(text)
        if done > _POINT_BYTES:
            break
    return "."


def too_long(path: str) -> DataError:
    """Return the error for a line that is too long."""
    return DataError(
        f"{path}: a line longer than {LONGEST_LINE} bytes, expected rows of numbers; write the table with a line for "
        f"each row"
    )


def whole_lines(blocks, path: str) -> Iterator[memoryview]:
    """Yield the same text, cut behind ends of lines; only lines that go over the end of a block are copied."""
    rest = b""
    for block in blocks:
        first, last = block.find(b"\n") + 1, block.rfind(b"\n") + 1
        if rest or not first:
            rest += block[:first] if first else block
            if len(rest) > LONGEST_LINE:
                raise too_long(path)
            if not first:
                continue
            yield memoryview(rest)
        else:
            first = 0
        yield memoryview(block)[first:last]
        rest = block[last:]
    if rest:
        yield memoryview(rest)


# -- header --------------------------------------------------------------------------------------------------


def _lacks_first_name(rows: _Rows) -> bool:
    """Return whether the first row names all columns but the first one, that of the names of the rows, as R writes it.

    Every other row, of two or more, has exactly one field more, and they begin with fields that differ; an empty
    field at the end of each is another matter.
    """
    counts = rows.counts[:-1] if rows.is_open else rows.counts
    if len(counts) < 3 or {*counts[1:]} != {counts[0] + 1}:
        return False
    names = [cell.text for cell in rows.row(0)]
    if any(name in GAPS or is_number(name) for name in names) or len({*names}) < len(names):
        return False
    below = [rows.row(index) for index in range(1, len(counts))]
    return len({cells[0].text for cells in below}) == len(below) and any(cells[-1].text for cells in below)


def _has_header(rows: _Rows, options: ReadOptions, first: Head | None) -> bool:
    """Return whether the first row names the columns: as said, by the names of the first file, or as the rows tell."""
    cells = rows.row(0)
    texts = [cell.text for cell in cells]
    if options.header == "no":
        return False
    if first and first.names == texts:
        return True
    if options.header == "yes":
        return first is None
    if first is None and any(word in texts and not _is_index(word, len(texts)) for word in options.named):
        return True
    return _evidence(cells, rows.columns_below()) > 0


def _is_index(word: str, columns: int) -> bool:
    """Return whether a word by which a column is asked for may be its place."""
    return bool(re.fullmatch(r"-?\d+", word, re.ASCII)) and -columns <= int(word) < columns


def _evidence(first: list[Cell], columns: list[_Column]) -> float:
    """Return how much the rows speak for a header: the log of how much likelier the first row is as one, by columns.

    A row of data begins like the rows below it; names are texts above numbers, dates or yes/no words, words that do
    not come again below where others do, or in quotes where no data are. Numbers are names where they ascend
    (0, 1, 2, ..., as programs name pixels; 1, 4, 0_red, 0_blue, as they name categories; 1990, 1991, ...).
    """
    if not all(cell.quoted for cell in first):  # a writer may quote one number, not another
        first = [cell._replace(quoted=cell.quoted and not is_number(cell.text)) for cell in first]
    filled = [cell.text for cell in first if cell.text]
    numbers = [text for text in filled if is_number(text)]
    names = [text for text in filled if not is_number(text)]
    if (_count_columns(first) and _cannot_count(columns)) or _ascend_above_others(first, columns):
        return 1.0
    evidence = 1.0 if filled and not numbers else 0.0
    evidence += _UNLIKELY * (len(names) - len({*names}))
    evidence += sum(_of_column(cell, column) for cell, column in zip(first, columns, strict=True))
    above = [cell.text for cell, column in zip(first, columns, strict=True) if _is_of_kind("number", cell, column)]
    return evidence + _of_numbers(above, numbers)


def _count_columns(first: list[Cell]) -> bool:
    """Return whether a row is 0, 1, 2, ... or 1, 2, 3, ..."""
    texts = [cell.text for cell in first]
    return len(texts) > 2 and any(texts == [str(start + i) for i in range(len(texts))] for start in (0, 1))


def _cannot_count(columns: list[_Column]) -> bool:
    """Return whether a row that counts its columns does not look like the rows below it: not all of those are numbers,
    or some are written as fractions, or there are many and none goes up by one from column to column."""
    filled = [below for below in columns if below.kind]
    if any(below.kind != "number" or all("." in cell.text for cell in below.cells) for below in filled):
        return True
    second = [below.cells[0].text for below in filled]
    ascends = all(text.isdecimal() for text in second) and {int(b) - int(a) for a, b in pairwise(second)} == {1}
    return len(filled) >= _MANY_COLUMNS and not ascends


def _ascend_above_others(first: list[Cell], columns: list[_Column]) -> bool:
    """Return whether the numbers of a row are names: years that ascend above other numbers, or whole numbers that
    ascend by one step above nothing but fractions."""
    above = [(cell.text, below) for cell, below in zip(first, columns, strict=True) if is_number(cell.text)]
    if len(above) < _LEAST_NAMES or not all(text.isdecimal() for text, _ in above):
        return False
    steps = {int(b) - int(a) for (a, _), (b, _) in pairwise(above)}
    fields = [cell.text for _, below in above for cell in below.cells]
    if min(steps) <= 0 or not fields:
        return False
    if all(_YEAR.fullmatch(text) for text, _ in above):
        return 2 * sum(bool(_YEAR.fullmatch(field)) for field in fields) < len(fields)
    return len(steps) == 1 and all("." in field for field in fields)


def _of_column(cell: Cell, below: _Column) -> float:
    """Return how much one column speaks for a header; a number above numbers is judged with the others."""
    if cell.text in GAPS or not re.search(r"\w", cell.text) or not below.kind:
        return 0.0
    evidence = 0.0
    if cell.quoted and re.fullmatch(r"[\w .-]+", cell.text) and not below.any_quoted:
        evidence = -_UNLIKELY
    kind, own = below.kind, _kind(cell.text)
    if kind == "text":
        return evidence + _of_texts(cell.text, [other.text for other in below.cells])
    if kind == own:
        return evidence + (0.0 if kind == "number" else _UNLIKELY)
    return evidence if own == "number" else evidence - _UNLIKELY


def _of_texts(text: str, below: list[str]) -> float:
    """Return how much a word above words speaks for a header: as much as a new word is rare among them."""
    counts = Counter(below)
    if text in counts:
        return _UNLIKELY
    if is_number(text) and not text.isdecimal():
        return 0.0
    once = sum(count == 1 for count in counts.values())
    return min(3.0, math.log((len(below) + 1) / (once + 1)))


def _of_numbers(above: list[str], numbers: list[str]) -> float:
    """Return how much numbers above numbers speak against a header: names ascend, and count best of all."""
    if not above:
        return 0.0
    plain = [int(text) for text in numbers if text.isdecimal()]
    if not plain or [str(number) for number in plain] != numbers or plain != sorted({*plain}):
        return _UNLIKELY * len(above)
    is_count = plain[0] in (0, 1) and plain == [*range(plain[0], plain[0] + len(plain))]
    return 0.98 * _UNLIKELY if is_count else _UNLIKELY


def _is_of_kind(kind: str, cell: Cell, below: _Column) -> bool:
    return _kind(cell.text) == kind == below.kind


def _kind_of(cells: list[Cell]) -> str | None:
    """Return the kind of nearly all fields, text if there is no such kind; None where there are no fields."""
    if not cells:
        return None
    kind, count = Counter(_kind(cell.text) for cell in cells).most_common(1)[0]
    return kind if count >= 0.95 * len(cells) else "text"


@lru_cache(1 << 12)
def _kind(text: str) -> str:
    if is_number(text) or is_number(text.replace(",", ".", 1)):
        return "number"
    if text.lower() in TRUTHS:
        return "truth"
    data = text.encode()
    if text[:4].isdecimal() and lib.csv_date(ffi.new("double *"), data, len(data)):
        return "date"
    return "written" if is_written(text) else "text"
