"""CSV files: the first lines tell the columns, and C reads the fields into arrays."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..core import extension
from ..utils import DataError
from .kinds import NotBytes, TextInTarget, is_number
from .source import Extents, GrowingRows, Source, joint_digest, read_blocks
from .table import Span, Table
from .table_files import AS_FOUND, ColumnFacts, Fields, Place, ReadOptions, RowIndex

ffi, lib = extension("seq")

MAX_NAMES = 10_000  # different class names in one file
_NAME_BYTES = 1 << 20  # of all class names together
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
        """Return how messages call a column: by its name, or by its place counted from 1."""
        return f"column {self.names[index]}" if self.names else f"column {index + 1} of {self.columns}"


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
        raise DataError(f"{path}: only a header, expected at least one row of numbers; add the data")
    first_row = [text for text, _ in rows[1 if has_header else 0]]
    head = Head(path, names, first_row, lines[1 if has_header else 0][0])
    if head.columns == 1 and re.search(r"[;\t]", lines[0][1]):
        raise DataError(
            f"{path}: 1 column, expected commas between the fields; replace semicolons or tabs by commas"
        )
    return head


def _first_lines(path: str) -> list[tuple[int, str]]:
    """Return up to two lines that are not blank, each with its number in the file."""
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
    """Return every field's text without quotes and blanks, and whether it was quoted."""
    fields, at = [], 0
    while True:
        match = _FIELD.match(line, at)
        quoted = match[1] is not None
        text = match[1].replace('""', '"') if quoted else match[2]
        fields.append((text.strip(), quoted))
        at = match.end()
        if not match[3]:
            return fields


def _is_header(first: list[tuple[str, bool]], second: list[tuple[str, bool]] | None = None) -> bool:
    """Return whether the first line names the columns.

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


class CsvFiles:
    """The TableFiles of CSV: positions are numbers of bytes, counted over all files.

    The columns are those of the first file's header. A further file may have no header: some programs cut one file
    into several without repeating it.
    """

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        self.path, self._heads = path, [read_head(file) for file in paths]
        self._first = first = self._heads[0]
        self.names, self.columns, self.first_row = first.names, first.columns, first.first_row
        for head in self._heads[1:]:
            self._join(head)
        self._extents = Extents(paths)

    def column(self, index: int) -> str:
        """Return how messages call a column."""
        return self._first.column(index)

    def _join(self, head: Head) -> None:
        first = self._first
        if head.columns != first.columns:
            raise DataError(
                f"{head.path}: {head.columns} columns, expected {first.columns} as in {first.path}; leave the "
                f"file out, or give all files the same columns"
            )
        if head.names is None:
            head.names = first.names
        if head.names != first.names:
            if first.names is None:
                raise DataError(f"{head.path}: a header, expected none as in {first.path}; remove it, or add one there")
            at = next(i for i, names in enumerate(zip(head.names, first.names, strict=True)) if len({*names}) > 1)
            raise DataError(
                f"{head.path}: column {at + 1} is {_shown(head.names[at].encode())}, expected "
                f"{_shown(first.names[at].encode())} as in {first.path}; put the columns into the same order"
            )

    @property
    def is_packed(self) -> bool:
        """True if reading can begin at the front only."""
        return any(map(is_gzip, self._extents.paths))

    def facts(self, missing: frozenset[str], rows: int | None = None) -> list[ColumnFacts]:
        """Return what the fields of every column are."""
        counter = _Counter(self._first, missing, rows, several=len(self._heads) > 1)
        for number, head in enumerate(self._heads):
            if number:
                counter.begin(head)
            for text in _whole_lines(read_blocks(head.path), head.path):
                if not counter.count(text):
                    return counter.facts()
        return counter.facts()

    def read(self, fields: Fields) -> tuple[Table, str]:
        """Return (all rows, the SHA-256 of the files)."""
        reader, index = self._reader(fields), RowIndex()
        for text in self._texts(reader, index):
            reader.read(text)
        return reader.table(), joint_digest(index.digests)

    def blocks(
        self, fields: Fields, rows: int, *, index: RowIndex | None = None, step: int | None = None
    ) -> Iterator[Table]:
        """Yield the rows in blocks of `rows`."""
        index = RowIndex() if index is None else index
        reader = self._reader(fields, rows, step)
        for text in self._texts(reader, index):
            for _ in reader.full(text):
                yield reader.table()
        if reader.rows:
            yield reader.table()
        index.starts = [*reader.starts, reader.position]

    def read_range(self, fields: Fields, start: int, stop: int, rows: int) -> Table:
        """Return the `rows` rows between two positions. Raises DataError if they have changed."""
        reader = self._reader(fields, rows)
        for number, offset, text in self._extents.read(start, stop):
            reader.begin(self._heads[number], within=offset > 0)
            reader.read(memoryview(text))
        if reader.rows != rows:
            raise self._extents.changed(self.path)
        return reader.table()

    def _reader(self, fields: Fields, rows: int | None = None, step: int | None = None) -> _Reader:
        return _Reader(self._first, fields, rows, step, several=len(self._heads) > 1)

    def _texts(self, reader: _Reader, index: RowIndex) -> Iterator[memoryview]:
        """Yield whole lines of file after file; tell the reader where each file begins."""
        for number, head in enumerate(self._heads):
            if number:
                reader.begin(head)
            digest = hashlib.sha256()
            yield from _whole_lines(read_blocks(head.path, digest), head.path)
            index.digests.append(digest.digest())


def is_gzip(path: str) -> bool:
    """Return whether a file is packed by gzip, as its first bytes say."""
    with Source(path) as source:
        return source.is_gzip


def _whole_lines(blocks: Iterable[bytes], path: str) -> Iterator[memoryview]:
    """Yield the same text, cut behind ends of lines; only lines that go over the end of a block are copied."""
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


class _Gaps:
    """The words for a gap as C takes them."""

    def __init__(self, missing: frozenset[str]):
        words = sorted({text for word in missing for text in (word.encode(), _latin(word)) if text})
        ends = np.cumsum([len(word) for word in words], dtype=np.intc)
        lengths = np.zeros(256, np.uint64)
        for word in words:
            lengths[word[0]] |= np.uint64(1 << min(len(word), 63))
        self.struct = ffi.new("struct csv_gaps *")
        self._memory = [ffi.from_buffer(b"".join(words)), ffi.from_buffer(ends), ffi.from_buffer(lengths)]
        for member, memory in zip(("text", "ends", "lengths"), self._memory, strict=True):
            setattr(self.struct, member, ffi.cast(ffi.typeof(getattr(self.struct, member)), memory))
        self.struct.count, self.struct.empty = len(words), "" in missing


def _latin(word: str) -> bytes:
    """Return a word as Latin-1, which it may be in a file; empty if it cannot be."""
    return word.encode("latin-1", "ignore") if max(word, default="") < "\u0100" else b""


class _Counter:
    """Counts in C what the fields of every column are."""

    def __init__(self, head: Head, missing: frozenset[str], rows: int | None, several: bool):
        self._head, self._several, self._gaps = head, several, _Gaps(missing)
        self._csv = ffi.new("struct csv *")
        self._csv.columns, self._csv.capacity = head.columns, 1 << 62 if rows is None else rows
        self._csv.first_line = head.first_line
        self._found = ffi.new("struct csv_facts[]", head.columns)
        self._places: dict[tuple[int, str], Place] = {}

    def begin(self, head: Head) -> None:
        """Continue with the rows of another file."""
        self._head, self._csv.first_line, self._csv.line = head, head.first_line, 0

    def count(self, text: memoryview) -> bool:
        """Take in the next lines of the file. Return whether further rows are wanted."""
        csv, buffer = self._csv, ffi.from_buffer(text)
        at = 3 if csv.line == 0 and text[:3] == _BYTE_ORDER_MARK else 0
        result = lib.csv_count(csv, self._found, self._gaps.struct, buffer + at, len(text) - at)
        if result == lib.CSV_RAGGED:
            raise _ragged(csv, self._head)
        self._keep_places(text[at:])
        return result == lib.CSV_OK

    def _keep_places(self, text: memoryview) -> None:
        """Take the texts of fields that stand out before the text goes away."""
        for column in range(self._csv.columns):
            for name in ("not_number", "not_date", "infinite"):
                place = getattr(self._found[column], name)
                if place.line and (column, name) not in self._places:
                    row = f"row {place.line}" + (f" of {self._head.path}" if self._several else "")
                    self._places[column, name] = Place(row, _decoded(bytes(text[place.start : place.stop])))

    def facts(self) -> list[ColumnFacts]:
        """Return the facts so far."""
        return [
            ColumnFacts(
                *(getattr(found, name) for name in ("gaps", "numbers", "truths", "dates", "texts")),
                *(self._places.get((column, name)) for name in ("not_number", "not_date", "infinite")),
            )
            for column, found in enumerate(self._found)
        ]


def _ragged(csv, head: Head) -> DataError:
    like = "the header" if head.names else f"row {head.first_line}"
    return DataError(
        f"{head.path}, row {csv.row_line}: {csv.found} columns, expected {head.columns} as in {like}; correct or "
        f"remove the row"
    )


class _Reader:
    """The C reader: it owns the memory for rows and turns failures into messages."""

    def __init__(self, head: Head, fields: Fields, block_rows=None, step: int | None = None, several=False):
        self._head, self._several = head, several
        self._spans = [self._span(0)]
        self.position, self.starts = 0, []  # bytes of all files read, and where each `step`th row began
        self._x = GrowingRows((len(fields.inputs),), fields.input_kind.dtype, block_rows)
        self._y = GrowingRows((len(fields.targets),), fields.target_kind.dtype, self._x.capacity)
        self._step, self._full_rows = step, 0
        self._memory = []  # keeps alive what the C struct points to
        self._fill_struct(fields)
        if fields.target_kind.is_text:
            self._names, self._name_ends = np.empty(_NAME_BYTES, np.uint8), np.empty(MAX_NAMES, np.intc)
            self._point("names", self._names)
            self._point("name_ends", self._name_ends)
            self._csv.max_names, self._csv.names_size = MAX_NAMES, _NAME_BYTES

    def _fill_struct(self, fields: Fields) -> None:
        """Make the C reader's struct for these columns, without memory for rows."""
        head, inputs, targets = self._head, len(fields.inputs), len(fields.targets)
        self._csv = ffi.new("struct csv *")
        self._csv.columns, self._csv.inputs, self._csv.targets = head.columns, inputs, targets
        self._csv.type, self._csv.first_line = _TYPES[fields.input_kind.dtype], head.first_line
        slots = np.full(head.columns, head.columns, np.intc)  # beyond all columns: ignored
        slots[fields.inputs], slots[fields.targets] = np.arange(inputs), -1 - np.arange(targets)
        self._low, self._high = np.full(inputs, np.inf), np.full(inputs, -np.inf)
        for member, array in (("slots", slots), ("low", self._low), ("high", self._high)):
            self._point(member, array)

    def _point(self, member: str, array: np.ndarray) -> None:
        kind = ffi.typeof(getattr(self._csv, member))
        self._memory.append(ffi.from_buffer(array))
        setattr(self._csv, member, ffi.cast(kind, self._memory[-1]))

    @property
    def rows(self) -> int:
        """Rows that were read since the last table."""
        return self._full_rows + self._csv.rows

    def _span(self, at: int) -> Span:
        return Span(at, self._head.first_line, 1, self._head.path if self._several else None)

    def begin(self, head: Head, within: bool = False) -> None:
        """Continue with the rows of another file; `within`: behind its header and first rows."""
        self._end_span()
        self._head = head
        self._csv.first_line, self._csv.line = head.first_line, head.first_line if within else 0
        self._spans.append(self._span(self.rows))

    def _end_span(self) -> Span:
        span = self._spans[-1]
        rows = self.rows - span.at
        span.has_blank_lines = rows > 0 and self._csv.row_line != span.line + rows - 1
        return span

    def read(self, text: memoryview) -> None:
        """Take in the next lines of the file."""
        for _ in self.full(text):
            pass

    def full(self, text: memoryview) -> Iterator[None]:
        """Take in the next lines of the file, stopping each time that a block of memory is full of rows."""
        csv, at = self._csv, 0
        if csv.line == 0 and text[:3] == _BYTE_ORDER_MARK:
            at = 3
        buffer = ffi.from_buffer(text)
        while (result := lib.csv_read(csv, buffer + at, len(text) - at)) != lib.CSV_OK:
            if result != lib.CSV_FULL:
                raise self._failure(result, bytes(text[at + csv.start : at + csv.stop]))
            at += csv.used
            if csv.rows == self._x.capacity or not csv.capacity:
                if csv.rows:
                    yield
                self._make_room()
            else:
                csv.capacity += self._step  # which divides that of the block
            self.starts.append(self.position + at)
        self.position += len(text)

    def _make_room(self) -> None:
        csv = self._csv
        if csv.capacity:
            del self._memory[-2:]  # the full blocks, which GrowingRows keeps
        self._full_rows += csv.rows
        self._point("x", self._x.new_block())
        self._point("y", self._y.new_block())
        csv.rows, csv.capacity = 0, self._step or self._x.capacity

    def table(self) -> Table:
        """Return the rows read since the last table; the memory of their blocks is given back."""
        csv, rows = self._csv, self.rows
        names = self._class_names() if csv.names else None
        span = self._end_span()
        spans, self._spans = self._spans, [self._span(0)]
        self._spans[0].line, self._spans[0].number = csv.row_line + 1, span.number + rows - span.at
        if csv.capacity:
            del self._memory[-2:]
        self._full_rows = csv.rows = csv.capacity = 0
        inputs, targets = self._x.joined(rows), self._y.joined(rows)
        if names is not None:
            order = np.argsort(np.array(names))
            targets = np.argsort(order)[targets.astype(np.intp)].astype(np.float64)
            names = [names[i] for i in order]
        return Table(inputs, targets, names, self._low, self._high, spans)

    def _class_names(self) -> list[str]:
        ends = self._name_ends[: self._csv.name_count]
        texts = (self._names[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False))
        return [_decoded(text).replace('""', '"') for text in texts]

    def _failure(self, result: int, field: bytes) -> Exception:
        csv, head = self._csv, self._head
        row = f"{head.path}, row {csv.row_line}"
        if result == lib.CSV_RAGGED:
            return _ragged(csv, head)
        if result == lib.CSV_NOT_A_BYTE:
            return NotBytes(f"{row}: a number that is no byte")
        place = f"{row}, {head.column(csv.column)}"
        text = _shown(field)
        if result == lib.CSV_TEXT and csv.slots[csv.column] < 0:
            return TextInTarget(f"{place}: found {text}, expected a number")
        found, expected, advice = _FAILURES[result]
        return DataError(f"{place}: found {found.format(text=text)}, expected {expected}; {advice}")


_FAILURES = {  # result -> what was found, what was expected, what to do
    lib.CSV_EMPTY: ("an empty field", "a number", "fill it in or remove the row"),
    lib.CSV_TEXT: ("{text}", "a number", "correct it, or remove the row or the column"),
    lib.CSV_NOT_FINITE: ("{text}", "a finite number", "correct it or remove the row"),
    lib.CSV_TOO_LARGE: ("{text}", "at most 3.4e38 for float32", "correct it or use --dtype float64"),
    lib.CSV_TOO_MANY_NAMES: (
        "another text",
        f"at most {MAX_NAMES} different class names",
        "choose the target with --target",
    ),
}


def _decoded(text: bytes) -> str:
    """Decode text of a CSV file: as UTF-8 or, where it is not UTF-8, as Latin-1, which knows every byte."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _shown(field: bytes) -> str:
    """Return a field as messages quote it: short, and on one line."""
    text = "".join(c if c.isprintable() else "?" for c in _decoded(field))
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
