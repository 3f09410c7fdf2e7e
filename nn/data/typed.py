"""Tables of typed columns: blocks, rows of one column as a format has them, become the
columns of a Table.

A null, and nan among numbers, is an empty field. Numbers stay what they are stored as
until the type of all is known; a column that has texts too is texts throughout. Each
different text is made and looked at once.
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ..utils import DataError, default_threads
from .column import (
    VALUE_IN,
    Column,
    Odd,
    Selection,
    Span,
    Table,
    are_names,
    as_text,
    decimals,
    number_text,
    settled,
    target_column,
    unicode_text,
    words_that_occur,
)
from .records import new_rows
from .source import Files, TableSource, check_same_columns, database_of

_NULL_TYPES = "NoneType", "NAType", "NaTType"  # beside nan; the last two of pandas
_BLANKS = " \t\r"  # around a field they do not count
_AROUND_NAMES = " \t\r\n"  # as in the header of a CSV file
_TICKS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}  # of a second
_FILL_ROWS = 1 << 12  # that a thread writes at a time, which its cache holds
_ALONE_ROWS = 1 << 15  # fewer are no work for several threads


# ---------------------------------------------------------------- blocks


class Unreadable(Exception):
    """A column of another type, lists, bytes, ...; the text says of which."""


def texts(codes: np.ndarray, words: list[str]) -> Column:
    """Return fields of text: (rows,) indices into the words, -1 for a null."""
    return Column("text", codes, [word.strip(_BLANKS) for word in words])


def numbers_of_truths(block: Column) -> Column:
    """Return yes/no values as 0 and 1, other fields as they are: of a column that is to
    be numbers."""
    are_truths = block.words and {*block.words} <= {"False", "True"}
    if block.reads != "text" or not are_truths:
        return block
    values = [float(word == "True") for word in block.words]
    values_of_codes = np.array([*values, np.nan], np.float32)
    return Column("number", values_of_codes[block.values])


def truths(values: np.ndarray, is_null: np.ndarray | None = None) -> Column:
    """Return fields of yes/no values (rows,) bool."""
    codes = values.astype(np.int8)
    if is_null is not None:
        codes = np.where(is_null, np.int8(-1), codes)
    column = texts(codes, ["False", "True"])
    column.given = "bool"
    return column


def recoded(codes: np.ndarray, values: list) -> Column:
    """Return fields that are indices into Python's own values, -1 for a null."""
    block = objects(values)
    spelled = as_text(block)
    column = texts(np.append(spelled.values, -1)[codes], spelled.words)
    column.given = block.given
    return column


@np.errstate(over="ignore")  # what float64 does not hold is infinite, and refused
def numbers(values: np.ndarray, is_null: np.ndarray | None = None) -> Column:
    """Return fields of numbers (rows,) of any type; is_null (rows,): which of them are
    none; None: all are numbers."""
    given = "int" if values.dtype.kind in "iu" else "float"
    if values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    if is_null is None:
        return Column("number", values, given=given)
    # float64 has no room for them beside nan
    if given == "int" and np.abs(values[~is_null] // 2).max(initial=0) >= 1 << 52:
        column = as_text(Column("number", values))
        codes = np.where(is_null, np.int32(-1), column.values)
        column = texts(codes, column.words)
        column.given = given
        return column
    return Column("number", np.where(is_null, np.nan, values), given=given)


def times(values: np.ndarray) -> Column:
    """Return fields of dates or times (rows,), datetime64 in universal time, NaT a
    null, as seconds since 1970."""
    per_second = _TICKS.get(np.datetime_data(values.dtype)[0], 0)
    if not per_second:  # a coarser unit
        values = values.astype("datetime64[s]")
        per_second = 1
    minutes, rest = np.divmod(values.astype(np.int64), 60 * per_second)
    days, minutes = np.divmod(minutes, 1440)
    # rounded where those of a text are
    seconds = 86400.0 * days + (60.0 * minutes + rest / per_second)
    seconds[np.isnat(values)] = np.nan
    return Column("date", seconds)


def array_block(values: np.ndarray) -> Column:
    """Return the block of an array (rows,); what is masked in one of numpy.ma is a
    null."""
    is_null = None
    if isinstance(values, np.ma.MaskedArray):
        is_null = np.ma.getmaskarray(values)
        values = values.data
    kind = values.dtype.kind
    if kind in "iuf":
        return numbers(values, is_null)
    if kind == "b":
        return truths(values, is_null)
    if kind == "c":
        raise Unreadable("complex numbers")
    if kind == "m":
        raise Unreadable("durations")
    if kind == "M":
        if is_null is not None:
            values = np.where(is_null, values.dtype.type("NaT"), values)
        return times(values)
    if is_null is not None:
        values = np.where(is_null, None, values)
    return objects(values.tolist())


def objects(values: list) -> Column:
    """Return the block of Python's own values: numbers if all of them are, else their
    texts."""
    types = set(map(type, values))
    null_types = {kind for kind in types if kind.__name__ in _NULL_TYPES}
    types -= null_types
    is_null = None
    if null_types:
        values = [None if type(value) in null_types else value for value in values]
        is_null = np.array([value is None for value in values])
    are_int64 = types == {int} and all(
        value is None or -(1 << 63) <= value < 1 << 63 for value in values
    )
    if types == {float} or types == {int, float} or are_int64:
        if is_null is not None:
            values = [0 if value is None else value for value in values]
        return numbers(np.array(values), is_null)
    for kind, what in ((bytes, "bytes"), (datetime.timedelta, "durations")):
        if any(issubclass(given, kind) for given in types):
            raise Unreadable(what)
    codes_of = {}  # equal values of two types are two
    if any(issubclass(kind, float) for kind in types):
        values = [None if isinstance(v, float) and v != v else v for v in values]
    try:
        codes = [
            -1 if v is None else codes_of.setdefault((type(v), v), len(codes_of))
            for v in values
        ]
    except TypeError:  # no key of a dictionary: it may change
        raise Unreadable("Python objects") from None
    words = [unicode_text(_object_text(value)) for _, value in codes_of]
    column = texts(np.array(codes, np.int32), words)
    if types and types <= {bool, np.bool_}:
        column.given = "bool"
    return column


def _object_text(value) -> str:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return number_text(value)
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    return str(value)


# ---------------------------------------------------------------- sources


class Opened(NamedTuple):
    """A file of columns, or a frame: its rows, the names of the columns, or None and
    how many they are.

    parts(places) yields rows that follow each other: how many, and what returns the
    block of a column by its place; several threads may call it, and it raises
    Unreadable.
    """

    names: list[str] | None
    rows: int
    parts: Callable[[list[int]], Iterator[tuple[int, Callable[[int], Column]]]]
    width: int = 0


class TypedSource(TableSource):
    """The table of typed columns, of a frame or of files. Raises DataError if there are
    no columns or no rows."""

    def __init__(self, opened: list[Opened], path: str, files: Files | None = None):
        names = opened[0].names
        self.path = path
        self.files = files
        self._opened = opened
        self.names = names and [
            unicode_text(name).strip(_AROUND_NAMES) for name in names
        ]
        self.width = len(names) if names else opened[0].width
        self._rows = sum(file.rows for file in opened)
        self.default_target = self.width - 1
        if not self.width:
            raise DataError(
                f"{path}: no columns, expected features and a target; add the data"
            )
        if not self._rows:
            raise DataError(f"{path}: no rows, expected at least one; add the data")

    def _fields(self, selection: Selection) -> dict[int, _Fields]:
        """Return the fields of the selected columns of all files. Raises DataError
        where a file has other rows than it had."""
        fields = {
            place: _Fields(self._rows, selection, place)
            for place in sorted(selection.reads)
        }
        stop = 0

        def add(block: Callable, at: int, place: int) -> None:
            try:
                fields[place].add(block(place), at)
            except Unreadable as what:
                raise DataError(
                    f"{self.path}, {self.column(place)}: found {what}, expected numbers, "
                    f"texts or dates; leave the column out with --drop, or write its parts as columns of their own"
                ) from None

        for number, opened in enumerate(self._opened):
            at = stop
            stop = stop + opened.rows
            for rows, block in opened.parts(list(fields)):
                if at + rows <= stop:
                    in_threads(partial(add, block, at), fields, rows)
                at += rows
            if at != stop:
                raise Files.changed(self.files.paths[number])
        return fields

    def _table(self, selection: Selection) -> Table:
        """Return the table, its numbers in one matrix."""
        rows = self._rows
        fields = self._fields(selection)
        repeated = self._repeated_names(fields)
        if len(repeated) == rows:
            raise DataError(
                f"{self.path}: no row but the names of the columns, expected at least one; add the data"
            )
        if len(repeated):
            rows -= len(repeated)
            for column_fields in fields.values():
                column_fields.leave_out(repeated)
        places = list(fields)
        finished = in_threads(lambda place: fields.pop(place).column(), places, rows)
        columns = dict(zip(places, finished, strict=True))
        numbers = {}
        for place, column in columns.items():
            if column.reads == "number" and place in selection.exact:
                # a frame keeps its own
                column.values = decimals(column.values).astype(np.float64)
            elif column.reads == "number":
                numbers[place] = column
        bounds = [(column.low, column.high) for column in numbers.values()]
        dtype = selection.dtype_of(*np.reshape(bounds, (-1, 2)).T)
        matrix = joined(list(numbers.values()), rows, dtype)
        starts = accumulate((file.rows for file in self._opened), initial=0)
        paths = self.files.paths if len(self._opened) > 1 else [None]
        spans = []
        for start, path in zip(starts, paths, strict=False):
            spans.append(Span(start, 1, path, has_lines=False))
        return Table(columns, matrix, list(numbers), spans, repeats=len(repeated))

    def _repeated_names(self, fields: dict[int, _Fields]) -> np.ndarray:
        """Return the rows that repeat the names of all columns, as a table has them
        that was joined from files."""
        none = np.empty(0, np.int64)
        if not fields or not are_names(self.names):
            return none
        rows = self._with_names(fields, np.arange(self._rows))
        unread = {place: "text" for place in range(self.width) if place not in fields}
        if not len(rows) or not unread:
            return rows
        selection = Selection(unread, raw=frozenset(unread), missing=frozenset())
        try:
            return self._with_names(self._fields(selection), rows)
        except DataError:  # lists and the like are no names
            return none

    def _with_names(self, fields: dict[int, _Fields], rows: np.ndarray) -> np.ndarray:
        """Return those of some rows in which each of the columns holds its name."""
        for place, column_fields in fields.items():
            rows = column_fields.rows_of(self.names[place], rows)
            if not len(rows):
                break
        return rows


def typed_table(
    open_file: Callable[[str], Opened], paths: list[str], path: str, schema=None
) -> TypedSource:
    """Open files of a format. Raises DataError where they have not the same columns."""
    all_files = [database_of(file)[0] for file in paths]
    # logs of what a database does not hold yet
    for log in [f"{file}-wal" for file in all_files]:
        if os.path.isfile(log) and os.path.getsize(log):
            all_files.append(log)
    files = Files(all_files)
    opened = list(map(open_file, paths))
    names = [file.names or [""] * file.width for file in opened]
    for file, names_of_file in zip(paths, names, strict=True):
        check_same_columns(file, names_of_file, paths[0], names[0])
    return TypedSource(opened, path, files)


def in_threads(function: Callable, items: Iterable, rows: int) -> list:
    """Return the function's results for all items, pieces of about `rows` rows of a
    column; threads share them.

    Raises what the first item raises that fails.
    """
    items = list(items)
    threads = min(default_threads(), len(items))
    if rows < _ALONE_ROWS or threads < 2:
        return list(map(function, items))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def joined(columns: list[Column], rows: int, dtype: str) -> np.ndarray:
    """Return the numbers of columns as a matrix (rows, columns), of which the columns'
    values become views."""
    matrix = new_rows((rows, len(columns)), dtype)
    numbers = in_threads(lambda column: decimals(column.values, dtype), columns, rows)

    def write(start: int) -> None:
        # what a float32 cannot hold is infinite, and told of later
        with np.errstate(over="ignore"):
            for slot, values in enumerate(numbers):
                rows = slice(start, start + _FILL_ROWS)
                matrix[rows, slot] = values[rows]

    in_threads(write, range(0, rows, _FILL_ROWS), rows)
    for slot, column in enumerate(columns):
        column.values = matrix[:, slot]
    return matrix


# ---------------------------------------------------------------- columns


class _Fields:
    """The fields of one column, joined block by block: numbers as they are stored,
    seconds of dates, codes of texts.

    reads: what they are so far; None: nulls.
    """

    def __init__(self, rows: int, selection: Selection, place: int):
        self._rows = rows
        self._kind = selection.reads[place]
        self._missing = selection.missing
        if place in selection.raw:
            self._missing = frozenset()
        self._words = self._missing  # for a gap
        self._selection = selection
        self._is_pure = place in selection.pure
        if self._is_pure and self._kind != "number":  # target_column decides
            self._words = self._missing & {""}
        # of each word the place, in the order of the rows
        self.reads = None
        self._values = None
        self._places = {}
        self._given = set()  # types of the blocks

    def add(self, block: Column, at: int) -> None:
        """Add the next block, whose first row is at this place in the table."""
        is_null = block.reads == "text" and not (block.values >= 0).any()
        if not is_null:
            self._given.add(block.given)
        if self._kind == "number":
            block = numbers_of_truths(block)
        if is_null and block.reads == "text" and "" in self._missing:
            if self.reads is None:
                return
            if self.reads != "text":
                block = Column(self.reads, np.full(len(block), np.nan, np.float32))
        may_be_so = self._kind in (None, block.reads)
        if block.reads != "text" and may_be_so and self.reads in (None, block.reads):
            self.reads = block.reads
            self._put(block.values, at)
            return
        if self.reads not in (None, "text"):  # numbers so far, texts now
            column = as_text(Column(self.reads, self._values[:at]))
            self._values = None
            self._put(self._encoded(column), 0)
        self.reads = "text"
        self._put(self._encoded(as_text(block)), at)

    def _put(self, values: np.ndarray, at: int) -> None:
        """Put values to their rows; those before are empty if there are none yet."""
        earlier = self._values
        dtype = values.dtype
        gap = -1 if self.reads == "text" else np.nan
        if earlier is None and len(values) == self._rows:
            self._values = values
            return
        if self.reads != "text" and (at if earlier is None else earlier.dtype != dtype):
            dtype = np.dtype(np.float64)
        if earlier is None or earlier.dtype != dtype:
            self._values = new_rows((self._rows,), dtype)
            if at:
                if earlier is None:
                    self._values[:at] = gap
                else:
                    self._values[:at] = decimals(earlier[:at])
        self._values[at : at + len(values)] = decimals(values, dtype.name)

    def _encoded(self, block: Column) -> np.ndarray:
        """Return codes (rows,) int32 of the words of all blocks, -1 for a gap."""
        codes = block.values
        words = [None if word in self._words else word for word in block.words]
        if "" not in self._missing:
            codes = np.where(codes < 0, len(words), codes)
            words = [*words, ""]
        first_rows = np.full(len(words) + 1, len(codes))
        first_rows[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        order = np.argsort(first_rows[:-1])[
            : np.count_nonzero(first_rows[:-1] < len(codes))
        ]
        places = np.full(len(words) + 1, -1, np.int32)
        for code in order.tolist():
            if words[code] is not None:
                places[code] = self._places.setdefault(words[code], len(self._places))
        return places[codes]

    def rows_of(self, word: str, rows: np.ndarray) -> np.ndarray:
        """Return those of some rows whose field is a word; all of them where it is a
        word for a gap."""
        if word in self._missing:
            return rows
        code = self._places.get(word)
        if code is None:
            return rows[:0]
        return rows[self._values[rows] == code]

    def leave_out(self, rows: np.ndarray) -> None:
        """Leave out rows, and the words of text that have no others."""
        self._rows -= len(rows)
        if self._values is None:
            return
        self._values = np.delete(self._values, rows)
        if self.reads == "text":
            self._values, words = words_that_occur(self._values, list(self._places))
            self._places = {word: code for code, word in enumerate(words)}

    def column(self) -> Column:
        """Return all fields as a column."""
        column = None
        kind = self._kind
        if self.reads in VALUE_IN:
            column = self._of_values()
        elif self._values is not None:
            column = self._of_texts()
        if column is not None:
            if len(self._given) == 1:
                (column.given,) = self._given
            make_gaps(column, self._missing)
            has_numbers = column.low <= column.high
            if column.reads == "text" or kind or column.odd or has_numbers:
                return column
        if kind in (None, "text"):
            return Column("text", np.full(self._rows, -1, np.int32))
        return Column(kind, np.full(self._rows, np.nan))

    def _of_texts(self) -> Column:
        column = Column("text", self._values, list(self._places))
        if self._is_pure and self._kind != "number":
            return target_column(column, self._selection, self._kind)
        return settled(column, self._kind)

    def _of_values(self) -> Column:
        """Return the column of numbers or of seconds; gaps among them are those that
        equal a word for a gap."""
        values = self._values
        missing = self._missing
        value_in = VALUE_IN[self.reads]
        gaps = [value for value in map(value_in, missing) if value is not None]
        low, high = _bounds(values)
        if not gaps and math.isfinite(low) and math.isfinite(high):
            return Column(self.reads, values, [], {}, low, high)
        dtype = values.dtype if values.dtype.kind == "f" else np.float64
        copy = new_rows(values.shape, dtype)
        copy[...] = values
        odd = {}
        places = {"": np.isnan(copy), "inf": copy == np.inf, "-inf": copy == -np.inf}
        for word, is_word in places.items():
            if is_word.any() and word not in missing:
                odd[word] = Odd(int(is_word.sum()), int(is_word.argmax()))
            copy[is_word] = np.nan
        return Column(self.reads, copy, [], odd, *_bounds(copy[~np.isnan(copy)]))


def make_gaps(column: Column, missing: Iterable[str]) -> None:
    """Make gaps of the numbers, or dates, of a column that equal a word for a gap,
    however they are written."""
    value_in = VALUE_IN.get(column.reads, {}.get)  # of texts none
    gaps = [value for value in map(value_in, missing) if value is not None]
    if column.values.dtype == np.float16:  # a decimal of three digits
        column.values = decimals(column.values)
    if not gaps:
        return
    is_gap = np.isin(column.values, np.array(gaps, column.values.dtype))
    if is_gap.any():
        column.values[is_gap] = np.nan
        column.low, column.high = _bounds(column.values[~np.isnan(column.values)])


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """Return the least and the greatest number; those of 16 or 32 bits as their
    shortest decimals."""
    if not len(values):
        return math.inf, -math.inf
    least, greatest = decimals(np.array([values.min(), values.max()]))
    return float(least), float(greatest)
