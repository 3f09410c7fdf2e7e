"""The C reader of CSV files as Python objects: they own its memory and turn its failures into messages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core import extension
from ..utils import DataError
from .column_blocks import decimal_text
from .column_reader import Vocabulary
from .csv_head import BYTE_ORDER_MARK, Head, open_quote
from .csv_header import PLACE, decoded
from .field_types import MAX_CLASSES, NotBytes, TextInTarget, TooManyNames
from .source import GROWING_BYTES, GrowingRows
from .table import Span, Table
from .table_files import ColumnFacts, Fields, Place
from .written import is_number

ffi, lib = extension("seq")

MAX_WORDS = (1 << 24) - 1  # different texts in one column
_LONGEST_ROW = 1 << 22  # bytes of a row whose quotes go over ends of lines
_TYPES = {"uint8": lib.CSV_UINT8, "float32": lib.CSV_FLOAT32, "float64": lib.CSV_FLOAT64}
_COUNTS = ("gaps", "numbers", "truths", "dates", "texts")
_PLACES = ("not_number", "not_date", "infinite")
_FACTS = np.dtype([*((name, "i8") for name in _COUNTS), *((name, PLACE) for name in (*_PLACES, "other_point"))])


class _Struct:
    """A C struct, and the memory that its members point to."""

    def __init__(self, c):
        self.c, self._memory = c, {}

    def point(self, member: str, array) -> None:
        """Let a member point to an array or bytes."""
        self._memory[member] = memory = ffi.from_buffer(array)
        setattr(self.c, member, ffi.cast(ffi.typeof(getattr(self.c, member)), memory))

    def release(self, *members: str) -> None:
        """Let go of arrays that C needs no more."""
        for member in members:
            self._memory.pop(member, None)


def _gaps(missing: frozenset[str]) -> _Struct:
    """Return the words for a gap as C takes them, in every encoding that a file may have."""
    words = sorted({text for word in missing for text in (word.encode(), _latin(word)) if text})
    lengths = np.zeros(256, np.uint64)
    for word in words:
        lengths[word[0]] |= np.uint64(1 << min(len(word), 63))
    gaps = _Struct(ffi.new("struct csv_gaps *"))
    gaps.point("text", b"".join(words))
    gaps.point("ends", np.cumsum([len(word) for word in words], dtype=np.intc))
    gaps.point("lengths", lengths)
    gaps.c.count, gaps.c.empty = len(words), "" in missing
    return gaps


def _latin(word: str) -> bytes:
    return word.encode("latin-1", "ignore") if max(word, default="") < "\u0100" else b""


class _Lines:
    """The base of reading and counting: the lines of file after file, of which C takes whole rows."""

    def __init__(self, head: Head, missing: frozenset[str]):
        self._struct, self._gaps = _Struct(ffi.new("struct csv *")), _gaps(missing)
        self._csv = self._struct.c
        self._csv.columns, self._csv.gaps = head.columns, self._gaps.c
        self._rest = b""  # of a row whose quotes were open at the end of the text
        self._begin_file(head)

    def _begin_file(self, head: Head, line: int = 0) -> None:
        self._head, csv = head, self._csv
        csv.separator, csv.point = head.separator.encode(), head.point.encode()
        csv.first_line, csv.line = head.first_line, line

    def _whole(self, text: memoryview) -> tuple[memoryview, int]:
        """Return (the text with what was left of the last one before it, where the rows in it begin)."""
        if self._rest:
            text, self._rest = memoryview(self._rest + bytes(text)), b""
        return text, 3 if self._csv.line == 0 and text[:3] == BYTE_ORDER_MARK else 0

    def _keep_rest(self, text: memoryview) -> None:
        self._rest = bytes(text)
        if len(self._rest) > _LONGEST_ROW:
            self.end_file()

    def end_file(self) -> None:
        """Check that the last row was whole. Raises DataError."""
        if self._rest:
            raise open_quote(self._head.path, self._csv.row_line)

    def _ragged(self) -> DataError:
        csv, head = self._csv, self._head
        like = "the header" if head.names else f"row {head.first_line}"
        return DataError(
            f"{head.path}, row {csv.row_line}: {csv.found} columns, expected {head.columns} as in {like}; correct or "
            f"remove the row"
        )


class CsvCounter(_Lines):
    """Counts what the fields of every column are."""

    def __init__(self, head: Head, missing: frozenset[str], rows: int | None, several: bool):
        super().__init__(head, missing)
        self._csv.capacity, self._several = 1 << 62 if rows is None else rows, several
        self._found = np.zeros(head.columns, _FACTS)
        self._facts = ffi.cast("struct csv_facts *", ffi.from_buffer(self._found))
        self._scratch = ffi.new("struct csv_place[]", head.columns)
        self._places: dict[str, dict[int, Place]] = {name: {} for name in _PLACES}

    def begin(self, head: Head) -> None:
        """Continue with the rows of another file."""
        self._begin_file(head)

    def count(self, text: memoryview) -> bool:
        """Take in the next lines of the file. Return whether further rows are wanted."""
        csv, (text, at) = self._csv, self._whole(text)
        result = lib.csv_count(csv, self._facts, self._scratch, ffi.from_buffer(text) + at, len(text) - at)
        if result == lib.CSV_RAGGED:
            raise self._ragged()
        self._keep_places(text[at:])
        if result == lib.CSV_OPEN:
            self._keep_rest(text[at + csv.used :])
        return result != lib.CSV_FULL

    def _keep_places(self, text: memoryview) -> None:
        """Take the texts of fields that stand out before the text goes away."""
        for column in np.flatnonzero(self._found["other_point"]["line"]):
            line, start, stop, *_ = self._found["other_point"][column].tolist()
            raise _other_point(self._head, line, column, bytes(text[start:stop]))
        for name, places in self._places.items():
            for column in np.flatnonzero(self._found[name]["line"]).tolist():
                if column not in places:
                    line, start, stop, _, doubled, _ = self._found[name][column].tolist()
                    row = f"row {line}" + (f" of {self._head.path}" if self._several else "")
                    places[column] = Place(row, _text_of(text, start, stop, doubled))

    def facts(self) -> list[ColumnFacts]:
        """Return the facts so far."""
        counts = self._found[list(_COUNTS)].tolist()
        return [
            ColumnFacts(*count, *(self._places[name].get(column) for name in _PLACES))
            for column, count in enumerate(counts)
        ]


class _Words:
    """The different words of a column: memory for C's struct csv_words, and the words as text."""

    def __init__(self, c, most: int):
        self._struct, self._c, self._limit, self._texts = _Struct(c), c, most, []
        self._text, self._ends = np.empty(0, np.uint8), np.empty(0, np.int64)

    def make_room(self, length: int) -> bool:
        """Make room for more words, the next one of `length` bytes. Return whether there may be more words."""
        c = self._c
        if c.count == self._limit:
            return False
        used = int(self._ends[c.count - 1]) if c.count else 0
        if c.count == c.most:
            c.most = min(self._limit, max(256, 4 * c.count))
            self._ends = _longer(self._ends, c.most)
            self._struct.point("ends", self._ends)
        if c.size - used < length:
            c.size = 2 * used + max(length, 4096)
            self._text = _longer(self._text, c.size)
            self._struct.point("text", self._text)
        if c.mask < 2 * c.most:
            c.mask = (1 << (2 * c.most).bit_length()) - 1
            self._struct.point("table", np.zeros(c.mask + 1, np.uint64))
            lib.csv_index(c)
        return True

    def texts(self) -> list[str]:
        """Return the words so far, in one list that grows with them."""
        known, count = len(self._texts), self._c.count
        if count > known:
            ends = self._ends[known:count].tolist()
            starts = [int(self._ends[known - 1]) if known else 0, *ends[:-1]]
            data = self._text[: ends[-1]].data
            self._texts += [decoded(bytes(data[start:end])) for start, end in zip(starts, ends, strict=True)]
        return self._texts


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer


class CsvReader(_Lines):
    """Reads rows into typed columns. rows: of a block of memory; step: rows from one entry of `starts` to the next."""

    def __init__(self, head: Head, fields: Fields, rows: int | None = None, step: int | None = None, several=False):
        super().__init__(head, fields.missing)
        self._several, self._step, self._full_rows = several, step, 0
        self._spans = [self._span(0)]
        self.first_line, self._lines_before = head.first_line, 0
        self.position, self.starts = 0, []  # bytes of all files read, and where each `step`th row began
        self._fill_struct(fields)
        self._fill_words(fields)
        self._make_blocks(fields, rows)

    def _fill_struct(self, fields: Fields) -> None:
        """Fill in the C reader's struct for these columns, without memory for rows."""
        csv = self._csv
        roles = np.zeros((csv.columns, 2), np.intc)
        for role, name, columns in (
            (lib.CSV_INPUT, "inputs", fields.inputs),
            (lib.CSV_TARGET, "targets", fields.targets),
            (lib.CSV_WORD, "texts", fields.texts),
            (lib.CSV_DATE, "dates", fields.dates),
            (lib.CSV_ID, "ids", fields.ids),
        ):
            roles[columns] = [[role, slot] for slot in range(len(columns))] or np.empty((0, 2))
            setattr(csv, name, len(columns))
        csv.type, csv.leave_out = _TYPES[fields.input_type.dtype], bool(fields.missing) and not fields.keep_unlabelled
        self._low, self._high = np.full(csv.inputs, np.inf), np.full(csv.inputs, -np.inf)
        for member, array in (
            ("roles", roles),
            ("low", self._low),
            ("high", self._high),
            ("row", np.empty(csv.inputs)),
        ):
            self._struct.point(member, array)

    def _fill_words(self, fields: Fields) -> None:
        self._c_words = ffi.new("struct csv_words[]", len(fields.texts) + 1)
        self._csv.words, name = self._c_words, self._c_words + len(fields.texts)
        self._words = [_Words(self._c_words + i, MAX_WORDS) for i in range(len(fields.texts))]
        decimals = [slot for slot, column in enumerate(fields.texts) if column in fields.decimals]
        self._decimals = {slot: Vocabulary() for slot in decimals}
        self.most_names = fields.target_type.most if fields.target_type.is_text else 0
        self._names = _Words(name, self.most_names) if fields.target_type.is_text else None
        if self._names:
            self._csv.names = name

    def _make_blocks(self, fields: Fields, rows: int | None) -> None:
        csv = self._csv
        columns = {
            "x": (csv.inputs, np.dtype(fields.input_type.dtype)),
            "y": (csv.targets, np.dtype(fields.target_type.dtype)),
            "codes": (csv.texts, np.dtype(np.int32)),
            "seconds": (csv.dates, np.dtype(np.float64)),
        }
        widest = max(count * dtype.itemsize for count, dtype in (*columns.values(), (csv.ids, PLACE)))
        self.block_rows = rows or max(1, GROWING_BYTES // max(1, widest))
        self._blocks = {
            member: GrowingRows((count,), dtype, self.block_rows, self._head.path)
            for member, (count, dtype) in columns.items()
            if count or member in ("x", "y")
        }
        self._ids: list[list[str]] = [[] for _ in fields.ids]
        self._places = np.empty((self.block_rows if csv.ids else 0, csv.ids), PLACE)
        self._struct.point("id", self._places)
        self._ids_of = 0  # rows of the block whose ids have been taken

    @property
    def rows(self) -> int:
        """Return the number of rows that were read since the last table."""
        return self._full_rows + self._csv.rows

    @property
    def taken(self) -> int:
        """Return the number of rows read, including rows that were left out."""
        return self._csv.taken

    @property
    def lines(self) -> int:
        """Return the number of lines that were read."""
        return self._csv.line - self._lines_before

    @property
    def row_line(self) -> int:
        """Return the number of the line, among these, where the last row begins."""
        return self._csv.row_line - self._lines_before

    def _span(self, at: int) -> Span:
        return Span(at, self._head.first_line, 1, self._head.path if self._several else None)

    def begin(self, head: Head, within: bool = False) -> None:
        """Continue with the rows of another file; `within`: behind its header and first rows."""
        self._end_span()
        self._lines_before = head.first_line if within else 0
        self._begin_file(head, self._lines_before)
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
        csv, (text, at) = self._csv, self._whole(text)
        buffer = ffi.from_buffer(text)
        while (result := lib.csv_read(csv, buffer + at, len(text) - at)) not in (lib.CSV_OK, lib.CSV_OPEN):
            self._take_ids(text[at:])
            if result == lib.CSV_FULL:
                if csv.rows == self.block_rows or not csv.capacity:
                    if csv.rows:
                        yield
                    self._make_room()
                else:
                    csv.capacity += self._step  # which divides that of the block
                self.starts.append(self.position + at + csv.used)
            elif result != lib.CSV_NO_ROOM or not self._make_room_for_words():
                raise self._failure(result, bytes(text[at + csv.start : at + csv.stop]))
            at += csv.used
        self._take_ids(text[at:])
        at += csv.used
        self._keep_rest(text[at:])
        self.position += at

    def _make_room(self) -> None:
        csv = self._csv
        self._full_rows += csv.rows
        for member, blocks in self._blocks.items():
            self._struct.point(member, blocks.new_block())
        csv.rows, csv.capacity, self._ids_of = 0, self._step or self.block_rows, 0

    def _make_room_for_words(self) -> bool:
        csv = self._csv
        column = csv.roles[csv.column]
        words = self._names if column.role == lib.CSV_TARGET else self._words[column.slot]
        return words.make_room(csv.stop - csv.start)

    def _take_ids(self, text: memoryview) -> None:
        """Take the ids of the rows that were read from this text."""
        csv = self._csv
        if csv.ids and csv.rows > self._ids_of:
            places = self._places[self._ids_of : csv.rows]
            for ids, column in zip(self._ids, places.T, strict=True):
                fields = zip(*(column[name].tolist() for name in ("start", "stop", "doubled")), strict=True)
                ids += [_text_of(text, *field) for field in fields]
            self._ids_of = csv.rows

    def check_any(self) -> None:
        """Raise DataError if all rows were left out."""
        if self._csv.left_out == self._csv.taken > 0:
            raise DataError(
                f"{self._head.path}: no row has a target, all {self._csv.taken} have a gap there, expected some that "
                f"have one; choose the target with --target"
            )

    def table(self, more: int = 0) -> Table:
        """Return the rows read since the last table; the memory of their blocks is given back.

        more: rows for which its arrays have room behind those.
        """
        csv, rows = self._csv, self.rows
        span = self._end_span()
        spans, self._spans = self._spans, [self._span(0)]
        self._spans[0].line, self._spans[0].number = csv.line + 1, span.number + rows - span.at
        self._struct.release(*self._blocks)
        self._full_rows = csv.rows = csv.capacity = self._ids_of = 0
        joined = {member: blocks.joined(rows, more) for member, blocks in self._blocks.items()}
        names = self._class_names(joined["y"][:rows])
        words = [words.texts() for words in self._words]
        for slot, vocabulary in self._decimals.items():
            codes = joined["codes"][:rows, slot]
            codes[...] = vocabulary.encode(codes, [decimal_text(text) for text in words[slot]])
            words[slot] = vocabulary.words
        ids, self._ids = self._ids, [[] for _ in self._ids]
        return Table(
            joined["x"],
            joined["y"],
            names,
            self._low,
            self._high,
            spans,
            codes=joined.get("codes"),
            words=words,
            dates=joined.get("seconds"),
            ids=ids,
            unlabelled=csv.left_out,
        )

    def _class_names(self, targets: np.ndarray) -> list[str] | None:
        """Return the sorted class names, of which the targets become indices."""
        if self._names is None:
            return None
        names = self._names.texts()
        if names == sorted(names):
            return list(names)
        order = np.argsort(np.array(names))
        places = np.append(np.argsort(order), -1).astype(np.float64)  # -1, a gap, stays -1
        targets[...] = places[targets.astype(np.intp)]
        return [names[i] for i in order]

    def _failure(self, result: int, field: bytes) -> Exception:
        csv, head = self._csv, self._head
        row = f"{head.path}, row {csv.row_line}"
        if result == lib.CSV_RAGGED:
            return self._ragged()
        if result == lib.CSV_NOT_A_BYTE:
            return NotBytes(f"{row}: a number that is no byte")
        place = f"{row}, {head.column(csv.column)}"
        text, role = shown(field), csv.roles[csv.column].role
        if result == lib.CSV_TEXT and head.separator == ";" and _has_other_point(head, decoded(field)):
            return _other_point(head, csv.row_line, csv.column, field)
        if result == lib.CSV_TEXT and role == lib.CSV_TARGET:
            return TextInTarget(f"{place}: found {text}, expected a number", decoded(field))
        is_word = role in (lib.CSV_WORD, lib.CSV_DATE)
        found, expected, advice = (_FAILURES_OF_WORDS if is_word else _FAILURES)[result]
        message = f"{place}: found {found.format(text=text)}, expected {expected}; {advice}"
        is_name = result == lib.CSV_NO_ROOM and not is_word
        return TooManyNames(message, self._names.texts()) if is_name else DataError(message)


_FAILURES = {  # result -> what was found, what was expected, what to do
    lib.CSV_EMPTY: ("an empty field", "a number", "fill it in or remove the row"),
    lib.CSV_TEXT: ("{text}", "a number", "correct it, or remove the row or the column"),
    lib.CSV_NOT_FINITE: ("{text}", "a finite number", "correct it or remove the row"),
    lib.CSV_TOO_LARGE: ("{text}", "at most 3.4e38 for float32", "correct it or use --dtype float64"),
    lib.CSV_NO_ROOM: (
        "another text",
        f"at most {MAX_CLASSES} different class names",
        "choose the target with --target",
    ),
}
_FAILURES_OF_WORDS = {  # the same where text or dates belong
    lib.CSV_EMPTY: ("an empty field", "a value", "fill it in or remove the row"),
    lib.CSV_NOT_A_DATE: (
        "{text}",
        "a date such as 2024-12-31 or 2024-12-31 23:59",
        "correct it, or name the word with --missing or the column with --categories",
    ),
    lib.CSV_NO_ROOM: (
        "one text more",
        f"not more than {MAX_WORDS} different texts in a column",
        "leave the column out with --drop",
    ),
}


def _other_point(head: Head, line: int, column: int, field: bytes) -> DataError:
    """Return the error for a decimal point among decimal commas, or the other way round."""
    name = {",": "comma", ".": "point"}[head.point]
    return DataError(
        f"{head.path}, row {line}, {head.column(column)}: found {shown(field)}, expected a decimal {name} as in the "
        f"other numbers; write all numbers one way"
    )


def _has_other_point(head: Head, text: str) -> bool:
    mark = "," if head.point == "." else "."
    return mark in text and head.point not in text and is_number(text.replace(mark, ".", 1))


def _text_of(text: memoryview, start: int, stop: int, doubled: int) -> str:
    """Return a field's text, a doubled quote as one."""
    found = decoded(bytes(text[start:stop]))
    return found.replace('""', '"') if doubled else found


def shown(field: bytes) -> str:
    """Return a field as messages quote it: short, and on one line."""
    text = "".join(c if c.isprintable() else "?" for c in decoded(field))
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
