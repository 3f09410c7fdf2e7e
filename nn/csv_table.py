"""CSV files: what the first lines say about the columns, and the numbers, which C reads into arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .backends.cpu import extension
from .source import Pieces, Source, read_blocks
from .utils import DataError

ffi, lib = extension("seq")

MAX_NAMES = 10_000  # different class names in one file
_NAME_BYTES = 1 << 20  # for all of them together
_LONGEST_LINE = 1 << 26
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TYPES = {"uint8": lib.CSV_UINT8, "float32": lib.CSV_FLOAT32, "float64": lib.CSV_FLOAT64}
_FIELD = re.compile(r'[ \t\r]*(?:"((?:[^"]|"")*)"[^,]*|([^,]*))(,|$)')


@dataclass
class Head:
    """The first lines of a CSV file: its column names, if it has a header, and its first row."""

    path: str
    names: list[str] | None
    first_row: list[str]
    first_line: int  # line of the file, counted from 1, at which the rows begin

    @property
    def columns(self) -> int:
        return len(self.names or self.first_row)

    def column(self, index: int) -> str:
        """How messages call a column: by its name, or by its place counted from 1."""
        return f"column {self.names[index]}" if self.names else f"column {index + 1} of {self.columns}"


@dataclass
class Table:
    """The numbers of a CSV file; `names` are the class names that `targets` counts, None if it is numbers."""

    inputs: np.ndarray  # (rows, inputs) in the type asked for
    targets: np.ndarray  # (rows, targets) float64
    names: list[str] | None
    low: np.ndarray  # (inputs) float64, before any rounding to float32
    high: np.ndarray
    first_line: int
    has_blank_lines: bool

    def row(self, index: int) -> str:
        """How messages call a row: by its line in the file, counted from 1 (unknown behind a blank line)."""
        return f"data row {index + 1}" if self.has_blank_lines else f"row {index + self.first_line}"


class NotBytes(Exception):
    """uint8 was asked for and a field is not a whole number in 0..255."""


class TextInTarget(DataError):
    """Numbers were asked for and a target is text, which may be a class name."""


# -- the first lines -----------------------------------------------------------------------------------------


def read_head(path: str) -> Head:
    """Look at the first two lines that are not blank. Raises DataError if there is no row of data."""
    lines = _first_lines(path)
    if not lines:
        raise DataError(f"{path}: the file is empty, expected rows of numbers separated by commas")
    rows = [_fields(text) for _, text in lines]
    has_header = _is_header(*rows)
    names = [text for text, _ in rows[0]] if has_header else None
    if has_header and len(rows) == 1:
        raise DataError(f"{path}: a header and no rows, expected at least one row of numbers; add the data")
    first_row = [text for text, _ in rows[1 if has_header else 0]]
    head = Head(path, names, first_row, lines[1 if has_header else 0][0])
    if head.columns == 1 and re.search(r"[;\t]", lines[0][1]):
        raise DataError(
            f"{path}: 1 column, expected commas between the fields; replace semicolons or tabs by commas"
        )
    return head


def _first_lines(path: str) -> list[tuple[int, str]]:
    """Up to two lines that are not blank, each with its number in the file."""
    with Source(path) as source:
        text = b""
        while block := source.read(max(1 << 16, len(text))):
            text += block
            lines = _numbered_lines(text)
            if len(lines) > 2 or len(text) > _LONGEST_LINE:  # the second is whole once a third has begun
                break
        return _numbered_lines(text)[:2]


def _numbered_lines(text: bytes) -> list[tuple[int, str]]:
    lines = enumerate(text.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), 1)
    return [(number, _decoded(line)) for number, line in lines if line.strip()]


def _fields(line: str) -> list[tuple[str, bool]]:
    """Every field's text without quotes and blanks, and whether it was quoted."""
    fields, at = [], 0
    while True:
        match = _FIELD.match(line, at)
        quoted = match[1] is not None
        text = match[1].replace('""', '"') if quoted else match[2]
        fields.append((text.strip(), quoted))
        at = match.end()
        if not match[3]:
            return fields


def is_number(text: str) -> bool:
    """Whether a field reads as a number, nan and inf among them."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _is_header(first: list[tuple[str, bool]], second: list[tuple[str, bool]] | None = None) -> bool:
    """Whether the first line names the columns.

    It does if no field in it is a number; if it begins with a quote and is not made like the second line
    (which is how a quoted header of numbers differs from data in quotes); or if text in it stands above
    numbers and its own numbers count the columns (0, 1, 2, ..., as programs name pixels).
    """
    filled = [text for text, _ in first if text]
    numbers = [text for text in filled if is_number(text)]
    if filled and not numbers:
        return True
    if second is None:
        return False
    kinds, kinds_below = ([(is_number(text), quoted) for text, quoted in row] for row in (first, second))
    if first[0][1] and kinds != kinds_below:
        return True
    text_above_number = any(
        a and b and not is_number(a) and is_number(b) for (a, _), (b, _) in zip(first, second, strict=False)
    )
    counts = [[str(start + i) for i in range(len(numbers))] for start in (0, 1)]
    return text_above_number and numbers in counts


# -- the numbers ---------------------------------------------------------------------------------------------


def read_table(
    head: Head, inputs: list[int], targets: list[int], dtype: str, *, named_targets: bool = False, digest=None
) -> Table:
    """Read columns `inputs` and `targets` (indices) of all rows; other columns may hold anything.

    dtype: type of the inputs, uint8, float32 or float64. named_targets: the target is text, a class name.
    Raises DataError, or NotBytes or TextInTarget where reading again in another way may help.
    """
    reader = _Reader(head, inputs, targets, dtype, named_targets)
    for text in _whole_lines(read_blocks(head.path, digest), head.path):
        reader.read(text)
    return reader.table()


def read_tables(
    head: Head, inputs: list[int], targets: list[int], dtype: str, rows: int, *, named_targets: bool = False
) -> Iterator[Table]:
    """The same, so many rows at a time (the last ones fewer); `low`, `high` and `names` are those so far."""
    reader = _Reader(head, inputs, targets, dtype, named_targets, rows)
    for text in _whole_lines(read_blocks(head.path), head.path):
        for _ in reader.full(text):
            yield reader.table()
    if reader.rows:
        yield reader.table()


def _whole_lines(blocks: Iterable[bytes], path: str) -> Iterator[memoryview]:
    """The same text, cut behind ends of lines; only lines that go over the end of a block are copied."""
    rest = b""
    for block in blocks:
        first, last = block.find(b"\n") + 1, block.rfind(b"\n") + 1
        if rest or not first:
            rest += block[:first] if first else block
            if len(rest) > _LONGEST_LINE:
                raise DataError(f"{path}: a line longer than {_LONGEST_LINE} bytes, expected rows of numbers")
            if not first:
                continue
            yield memoryview(rest)
        else:
            first = 0
        yield memoryview(block)[first:last]
        rest = block[last:]
    if rest:
        yield memoryview(rest)


class _Reader:
    """The C reader with its memory, row by row, and its failures turned into words."""

    def __init__(
        self,
        head: Head,
        inputs: list[int],
        targets: list[int],
        dtype: str,
        named_targets: bool,
        piece_rows: int | None = None,
    ):
        self._head = head
        slots = np.full(head.columns, head.columns, np.intc)  # beyond all columns: ignored
        slots[inputs] = np.arange(len(inputs))
        slots[targets] = -1 - np.arange(len(targets))
        self._low, self._high = np.full(len(inputs), np.inf), np.full(len(inputs), -np.inf)
        self._x, self._y = Pieces((len(inputs),), dtype), Pieces((len(targets),), np.float64)
        self._x.capacity = piece_rows or self._x.capacity
        self._y.capacity = self._x.capacity  # both are filled row by row, together
        self._full_rows = self._rows_given = 0
        self._csv = ffi.new(
            "struct csv *",
            {
                "columns": head.columns,
                "inputs": len(inputs),
                "targets": len(targets),
                "type": _TYPES[dtype],
                "first_line": head.first_line,
            },
        )
        self._memory = []  # keeps alive what the struct points to
        self._point("slots", slots)
        self._point("low", self._low)
        self._point("high", self._high)
        if named_targets:
            self._names, self._name_ends = np.empty(_NAME_BYTES, np.uint8), np.empty(MAX_NAMES, np.intc)
            self._point("names", self._names)
            self._point("name_ends", self._name_ends)
            self._csv.max_names, self._csv.names_size = MAX_NAMES, _NAME_BYTES

    def _point(self, member: str, array: np.ndarray) -> None:
        kind = ffi.typeof(getattr(self._csv, member))
        self._memory.append(ffi.from_buffer(array))
        setattr(self._csv, member, ffi.cast(kind, self._memory[-1]))

    @property
    def rows(self) -> int:
        """Rows read and not yet given away in a table."""
        return self._full_rows + self._csv.rows

    def read(self, text: memoryview) -> None:
        """Take in the next lines of the file."""
        for _ in self.full(text):
            pass

    def full(self, text: memoryview) -> Iterator[None]:
        """Take in the next lines of the file, stopping each time that a piece of memory is full of rows."""
        csv, at = self._csv, 0
        if csv.line == 0 and text[:3] == _BYTE_ORDER_MARK:
            at = 3
        buffer = ffi.from_buffer(text)
        while (result := lib.csv_read(csv, buffer + at, len(text) - at)) != lib.CSV_OK:
            if result != lib.CSV_FULL:
                raise self._failure(result, bytes(text[at + csv.start : at + csv.stop]))
            at += csv.used
            if csv.rows:
                yield
            self._make_room()

    def _make_room(self) -> None:
        csv = self._csv
        if csv.capacity:
            del self._memory[-2:]  # the full pieces, which are kept elsewhere
        self._full_rows += csv.rows
        self._point("x", self._x.room())
        self._point("y", self._y.room())
        csv.rows, csv.capacity = 0, self._x.capacity

    def table(self) -> Table:
        """What has been read since the last table; the memory of the pieces is given back on the way."""
        csv, head = self._csv, self._head
        rows, first = self.rows, head.first_line + self._rows_given
        names = self._class_names() if csv.names else None
        if csv.capacity:
            del self._memory[-2:]
        self._full_rows = csv.rows = csv.capacity = 0
        self._rows_given += rows
        inputs, targets = self._x.joined(rows), self._y.joined(rows)
        if names is not None:
            order = np.argsort(np.array(names))
            targets = np.argsort(order)[targets.astype(np.intp)].astype(np.float64)
            names = [names[i] for i in order]
        has_gaps = csv.row_line != first + rows - 1
        return Table(inputs, targets, names, self._low, self._high, first, has_gaps)

    def _class_names(self) -> list[str]:
        ends = self._name_ends[: self._csv.name_count]
        texts = (self._names[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False))
        return [_decoded(text).replace('""', '"') for text in texts]

    def _failure(self, result: int, field: bytes) -> Exception:
        csv, head = self._csv, self._head
        row = f"{head.path}, row {csv.row_line}"
        if result == lib.CSV_RAGGED:
            like = "the header" if head.names else f"row {head.first_line}"
            return DataError(
                f"{row}: {csv.found} columns, expected {head.columns} as in {like}; correct or remove the row"
            )
        if result == lib.CSV_NOT_A_BYTE:
            return NotBytes()
        place = f"{row}, {head.column(csv.column)}"
        text = _shown(field)
        if result == lib.CSV_TEXT and csv.slots[csv.column] < 0:
            return TextInTarget(f"{place}: found {text}, expected a number")
        found, expected, advice = _FAILURES[result]
        return DataError(f"{place}: found {found.format(text=text)}, expected {expected}; {advice}")


_FAILURES = {  # result -> what was found, what was expected, what to do
    lib.CSV_EMPTY: ("an empty field", "a number", "fill it in or remove the row"),
    lib.CSV_TEXT: ("{text}", "a number", "correct it, or remove the row or the column"),
    lib.CSV_NOT_FINITE: ("{text}", "a finite number", "put one in or remove the row"),
    lib.CSV_TOO_LARGE: ("{text}", "at most 3.4e38 for float32", "correct it or use --dtype float64"),
    lib.CSV_TOO_MANY_NAMES: (
        "one more text",
        f"at most {MAX_NAMES} different class names",
        "choose the target with --target",
    ),
}


def _decoded(text: bytes) -> str:
    """Text of a CSV file: UTF-8 or, where it is not, Latin-1, which knows every byte."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _shown(field: bytes) -> str:
    """A field as messages quote it: short, and on one line."""
    text = "".join(c if c.isprintable() else "?" for c in _decoded(field))
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
