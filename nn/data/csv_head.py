"""The first lines of a CSV file: they tell its separator, its columns and whether the first row names them
(csv_header)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..core import extension
from ..utils import DataError, UsageError, log
from .csv_header import FirstRows, decoded, evidence, kind_of_field, lacks_first_name, split
from .source import Source, read_blocks
from .table_files import AS_FOUND, GAPS, ReadOptions

ffi, lib = extension("seq")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 24  # bytes
MOST_COLUMNS = 1 << 17
_SEPARATORS = (",", ";", "\t", "|")
_SHORT_NAMES = {"tab": "\t", "\\t": "\t"}
_BLANK = " "  # or several, or tabs; tried where none of the others but tab separates fields
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\r?\n')  # which spreadsheets write above a table, and read
_OTHER_SEPARATORS = (":", "^", "~", "&", "#", "!")  # not tried, but named where there is one column only
_MOST_TITLES = 20  # rows above a table that are none of it
_LEAST_BELOW = 3  # rows alike below them, or twice as many as they are
_HEAD_BYTES = 1 << 16  # read at first
_HEAD_ROWS = 300  # looked at, to tell a header
_SPLIT_ROWS = 50  # looked at, to tell the separator
_POINT_BYTES = 1 << 24  # looked at, to tell a decimal comma
_FRACTION = re.compile(rb'(?:^|[;\n])[ "]*[-+]?\d*([.,])\d+(?:[eE][-+]?\d+)?[ "]*(?=[;\r\n]|$)')
_NO_COMMENT = re.compile(rb"\n(?!#)")


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
    rows = FirstRows(text, separator, _HEAD_ROWS)
    if len({*rows.counts}) > 1 and (table := _without_titles(path, text, options)):
        text, separator = table, _separator(path, table, options)
        rows = FirstRows(text, separator, _HEAD_ROWS)
    if rows.is_open and len(rows) <= 2:
        raise open_quote(path, rows.lines[-1])
    has_corner = options.header != "no" and lacks_first_name(rows)
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


def _without_titles(path: str, text: bytes, options: ReadOptions) -> bytes | None:
    """Return the text with blank lines instead of what stands above the table: the name of a report, its date. It is
    said. None: nothing does.

    These rows have at most half as many fields as all that follow, which are a table: they are alike.
    """
    asked = options.separator
    for separator in _SEPARATORS if asked is None else (_SHORT_NAMES.get(asked, asked),):
        rows = split(text, separator, _SPLIT_ROWS)
        counts = rows["fields"].tolist()
        titles = next((row for row, count in enumerate(counts) if 2 * count > counts[-1]), 0)
        is_table = len({*counts[titles:]}) == 1 and len(counts) - titles >= max(_LEAST_BELOW, 2 * titles)
        is_corner = titles == 1 and counts[0] + 1 == counts[1]  # see lacks_first_name
        if 0 < titles <= _MOST_TITLES and is_table and not is_corner:
            line = int(rows["line"][titles])
            log.warning("%s: the table begins in line %d; what stands above it is left out", path, line)
            end = [found.end() for found in re.finditer(rb"\n", text)][line - 2]
            return b"\n" * (line - 1) + text[end:]
    return None


def _check_width(path: str, text: bytes, separator: str) -> None:
    """Raise DataError for too many columns, before a line is taken apart."""
    line, fields = split(text, separator, 1)[0]
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
    """Return the numbers of fields, that of the first row one larger if all others are: see lacks_first_name."""
    return [counts[0] + 1, *counts[1:]] if {*counts[1:]} == {counts[0] + 1} else counts


def _given_separator(path: str, text: bytes, separator: str) -> str:
    separator = _SHORT_NAMES.get(separator, separator)
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
    return split(text, separator, _SPLIT_ROWS)["fields"].tolist()


def _name(separator: str) -> str:
    return "tab" if separator == "\t" else f'"{separator}"'


def _share_typed(text: bytes, separator: str) -> float:
    rows = FirstRows(text, separator, _SPLIT_ROWS)
    cells = [cell.text for index in range(len(rows)) for cell in rows.row(index)]
    if separator == ";":
        cells = [cell.replace(",", ".") for cell in cells]
    return sum(cell in GAPS or kind_of_field(cell) != "text" for cell in cells) / len(cells)


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


def _has_header(rows: FirstRows, options: ReadOptions, first: Head | None) -> bool:
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
    return evidence(cells, rows.columns_below()) > 0


def _is_index(word: str, columns: int) -> bool:
    """Return whether a word by which a column is asked for may be its place."""
    return bool(re.fullmatch(r"-?\d+", word, re.ASCII)) and -columns <= int(word) < columns
