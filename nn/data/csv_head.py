"""The first lines of a CSV file: they tell its separator, its columns and whether the first row names them
(csv_header)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

from ..utils import DataError, UsageError, log
from .csv_header import MOST_COLUMNS, SEPARATORS, FirstRows, decoded, field_counts, header_of, separator_of
from .source import Source, local

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 24  # bytes
_SHORT_NAMES = {"tab": "\t", "\\t": "\t"}
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n')  # which spreadsheets write above a table, and read
_OTHER_SEPARATORS = (":", "^", "~", "&", "#", "!")  # not tried, but named where there is one column only
_MOST_TITLES = 20  # rows above a table that are none of it
_LEAST_BELOW = 3  # rows alike below them, or twice as many as they are
_HEAD_BYTES = 1 << 19  # read at first: some hundred rows
_FRACTION = re.compile(rb'(?:^|[;\n])[ "]*[-+]?\d*([.,])\d+(?:[eE][-+]?\d+)?[ "]*(?=[;\r\n]|$)')
_NO_COMMENT = re.compile(rb"\n(?!#)")


@dataclass(frozen=True)
class ReadOptions:
    """A person's choices for a file's layout. Formats take what concerns them and ignore the rest.

    separator: between fields of text, None: found out. header: auto, yes or no. named: words by which columns are asked
    for; one of them in the first row tells that it is a header. of_model: the names of a model's columns; so do all of
    these.
    """

    separator: str | None = None
    header: str = "auto"
    named: frozenset[str] = frozenset()
    of_model: frozenset[str] = frozenset()


AS_FOUND = ReadOptions()  # nothing is said: the layout is found out


@dataclass(frozen=True)
class FileStart:
    """How a file begins: some whole lines, or all of it, without a byte order mark.

    state: its bytes, and when it was changed.
    """

    text: bytes = b""
    is_all: bool = False
    is_gzip: bool = False
    ends_in_cr: bool = False  # the lines of the file do; here they end in LF
    state: tuple[int, int] = (0, 0)


@dataclass
class Head:
    """Facts of a CSV file that its first lines tell."""

    path: str
    names: list[str] | None  # of the columns, if there is a header
    first_row: list[str]
    first_line: int  # line of the file, counted from 1, at which the rows begin
    separator: str = ","
    point: str = "."  # within numbers: a decimal comma, perhaps, between semicolons
    has_point: bool = False  # or comma, within one of the first numbers
    row_bytes: float = 1.0  # of a row, as the first ones are
    last_filled: int = -1  # the last column that has a name or a value in the first rows
    start: FileStart = FileStart()

    @property
    def width(self) -> int:
        return len(self.names or self.first_row)

    def rows_in(self, size: int) -> int:
        """Return about how many rows these bytes of the file are, rather more; memory without rows is never touched."""
        return int(1.1 * size / self.row_bytes) + 16

    def column(self, index: int) -> str:
        """Return how messages call a column: by its name, or by its place counted from 1."""
        name = self.names[index] if self.names else ""
        return f"column {name}" if name else f"column {index + 1} of {self.width}"


def read_head(path: str, options: ReadOptions = AS_FOUND, first: Head | None = None) -> Head:
    """Look at the first rows of a file; `first` is the head of the first of several files.

    Raises DataError if there is no row of data, UsageError for a separator that cannot be one.
    """
    start = _start(path)
    begins = start.text
    if said := _SEPARATOR_LINE.match(begins):
        begins = b"\n" + begins[said.end() :]
        options = replace(options, separator=options.separator or decoded(said[1]))
    text = _without_comments(begins)
    if not text.strip():
        raise _no_rows(path, begins)
    rows = _first_rows(path, text, options)
    if len({*rows.counts}) > 1 and (table := _without_titles(path, text, options)):
        text, rows = table, _first_rows(path, table, options)
    if not rows.counts[-1] and len(rows.counts) <= 2:
        raise open_quote(path, rows.lines[-1])
    is_model_s = first is None and options.of_model and options.of_model <= {cell.text for cell in rows.row(0)}
    header = "yes" if is_model_s and options.header == "auto" else options.header
    names, row = header_of(rows, header, options.named, first is None, first.names if first else None)
    if row >= len(rows.counts):
        raise DataError(f"{path}: only a header, expected at least one row of numbers; add the data")
    if row == 2:
        log.warning("%s, row %d: texts above numbers, as units are; it is left out", path, rows.lines[1])
    head = Head(path, names, [cell.text for cell in rows.row(row)], rows.lines[row], rows.separator, start=start)
    if rows.separator == ";" and (found := _FRACTION.search(text)):
        head.point, head.has_point = found[1].decode(), True
    head.row_bytes = len(text) / max(1, text.count(b"\n"))
    head.last_filled = rows.last_filled(names, row)
    if head.width == 1 and options.separator is None:
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
    marks = [separator.encode() for separator in SEPARATORS]
    if below and any(last.count(mark) == below.count(mark) > 0 for mark in marks):
        end -= len(last)
    return b"\n" * text.count(b"\n", 0, end) + text[end:]


def _end_of_comments(text: bytes) -> int:
    """Return where the lines end that a text begins with and that begin with #."""
    if not text.startswith(b"#"):
        return 0
    found = _NO_COMMENT.search(text)
    return found.end() if found else len(text)


def _without_titles(path: str, text: bytes, options: ReadOptions) -> bytes | None:
    """Return the text with blank lines instead of what stands above the table: the name of a report, its date. It is
    said. None: nothing does.

    These rows have at most half as many fields as all that follow, which are a table: they are alike.
    """
    asked = options.separator
    for separator in SEPARATORS if asked is None else (_SHORT_NAMES.get(asked, asked),):
        lines, counts = field_counts(text, separator)
        width = counts[-2:][0]  # the last row may be wrong
        titles = next((row for row, count in enumerate(counts) if 2 * count > width), 0)
        is_table = {*counts[titles:-1]} == {width} and len(counts) - titles >= max(_LEAST_BELOW, 2 * titles)
        is_corner = titles == 1 and counts[0] + 1 == counts[1]  # see csv_header
        if 0 < titles <= _MOST_TITLES and is_table and not is_corner:
            line = lines[titles]
            log.warning("%s: the table begins in line %d; what stands above it is left out", path, line)
            end = [found.end() for found in re.finditer(rb"\n", text)][line - 2]
            return b"\n" * (line - 1) + text[end:]
    return None


def _first_rows(path: str, text: bytes, options: ReadOptions) -> FirstRows:
    """Return the rows that a text begins with. Raises DataError for too many columns."""
    asked = options.separator
    rows = FirstRows(text, separator_of(text) if asked is None else _given_separator(path, text, asked))
    if rows.counts[0] > MOST_COLUMNS:
        raise DataError(
            f"{path}, row {rows.lines[0]}: {rows.counts[0]} columns, expected at most {MOST_COLUMNS}; write it with a "
            f"line for each row, or as NPY, which has no such limit"
        )
    return rows


def open_quote(path: str, line: int) -> DataError:
    """Return the error for a row whose quotes are not closed."""
    return DataError(
        f'{path}, row {line}: a field begins with " and no other " ends it, expected a pair; close or remove the quote'
    )


def _start(path: str) -> FileStart:
    """Return lines from the front, at least two that are neither blank nor comments above the table."""
    text, is_all, ends_in_cr = b"", False, False
    with Source(path) as source:
        facts = os.stat(local(path))
        while not is_all:
            size = max(_HEAD_BYTES, len(text))
            block = source.read(size)
            is_all, text = len(block) < size, text + block
            ends_in_cr = ends_in_cr or (b"\n" not in text and b"\r" in text.rstrip(b"\r"))
            text = text.replace(b"\r", b"\n") if ends_in_cr else text
            if len(text) > LONGEST_LINE and text.find(b"\n", len(text) - LONGEST_LINE) < 0:
                raise too_long(path)
            begin = _end_of_comments(text.removeprefix(BYTE_ORDER_MARK))
            filled = sum(1 for line in text[begin:].split(b"\n", 64)[:-1] if line.strip())
            if filled > 2 or len(text) > LONGEST_LINE:  # not the last line, which may be cut
                break
    text = text if is_all else text[: text.rfind(b"\n") + 1]
    state = facts.st_size, facts.st_mtime_ns
    return FileStart(text.removeprefix(BYTE_ORDER_MARK), is_all, source.is_gzip, ends_in_cr, state)


# -- separator and decimal comma -----------------------------------------------------------------------------


def _given_separator(path: str, text: bytes, separator: str) -> str:
    separator = _SHORT_NAMES.get(separator, separator)
    if len(separator.encode()) != 1 or separator in '"\r\n\0.+-' or separator.isalnum():
        raise UsageError(f'--separator "{separator}": expected one character such as , ; | or tab')
    if {*field_counts(text, separator)[1]} == {1}:
        found = separator_of(text)
        advice = f"leave it out, or use {_name(found)}" if found.encode() in text else "leave it out"
        raise DataError(
            f"{path}: {_name(separator)} never occurs between fields, expected it as --separator says; {advice}"
        )
    return separator


def _name(separator: str) -> str:
    return "tab" if separator == "\t" else f'"{separator}"'


def _check_one_column(path: str, text: bytes) -> None:
    """Raise DataError if a character that is not tried as a separator cuts every row alike."""
    for separator in _OTHER_SEPARATORS:
        counts = {*field_counts(text, separator)[1]}
        if len(counts) == 1 and counts != {1}:
            raise DataError(
                f"{path}: 1 column, expected fields separated by one of , ; | or tab; if {_name(separator)} separates "
                f"them, add --separator '{separator}'"
            )


def too_long(path: str) -> DataError:
    """Return the error for a line that is too long."""
    return DataError(
        f"{path}: a line longer than {LONGEST_LINE} bytes, expected rows of numbers; write the table with a line for "
        f"each row"
    )
