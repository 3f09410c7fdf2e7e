"""Column reader: blocks of typed columns into the arrays of a Table."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..core.rows import row_writer
from ..utils import DataError, default_threads
from .column_blocks import DATE, GAP, INFINITE, NUMBER, ColumnBlock, Unreadable, bounds_of, decimal_text
from .field_types import MAX_CLASSES, NotBytes, TextInTarget, TooManyNames
from .table import Span, Table
from .table_files import Fields

ROW_WORD = "data row"  # how messages call a row, counted from 1
_FILL_ROWS = 1 << 14  # that a thread writes at a time
_ALONE_ROWS = 1 << 15  # fewer are no work for several threads

EMPTY, NO_NUMBER, NO_DATE, NOT_FINITE, TOO_LARGE, TOO_MANY = range(6)
_FAILURES = {  # fault of a field -> (expected, cure)
    EMPTY: "a value; fill it in or remove the row",
    NO_NUMBER: "a number; correct it, or remove the row or the column",
    NO_DATE: "a date such as 2024-12-31 or 2024-12-31 23:59; correct it, or name the word with --missing or the column "
    "with --categories",
    NOT_FINITE: "a finite number; correct it or remove the row",
    TOO_LARGE: "at most 3.4e38 for float32; correct it or use --dtype float64",
    TOO_MANY: f"at most {MAX_CLASSES} different class names; choose the target with --target",
}


class Part(Protocol):
    """Rows of one file that follow each other."""

    file: int  # the number of the file
    first: int  # the place of the first row in it
    rows: int

    def block(self, column: int) -> ColumnBlock:
        """Return these rows of a column. Several threads may call it, each for another column."""


@dataclass
class Blocks:
    """The Part whose blocks are made already."""

    file: int
    first: int
    rows: int
    of_columns: dict[int, ColumnBlock]

    def block(self, column: int) -> ColumnBlock:
        """Return these rows of a column."""
        return self.of_columns[column]


def each(function: Callable, items: Iterable, rows: int) -> list:
    """Return the function's results for all items, pieces of about `rows` rows of a column; threads share them.

    Raises what the first item raises that fails.
    """
    items = list(items)
    threads = min(default_threads(), len(items))
    if rows < _ALONE_ROWS or threads < 2:
        return [function(item) for item in items]
    results, failures, waiting = [None] * len(items), {}, deque(range(len(items)))

    def take_next() -> bool:
        """Do the next item; return False where there is none left, or one has failed."""
        try:
            index = waiting.popleft()
        except IndexError:
            return False
        try:
            results[index] = function(items[index])
        except Exception as failure:
            failures[index] = failure
        return not failures

    def work() -> None:
        while take_next():
            pass

    with ThreadPoolExecutor(threads - 1) as pool:  # this thread works too
        for _ in range(threads - 1):
            pool.submit(work)
        work()
    if failures:
        raise failures[min(failures)]
    return results


class Vocabulary:
    """The different texts of a column in the order of their first appearance."""

    def __init__(self):
        self._places: dict[str, int] = {}
        self.words: list[str] = []

    def encode(self, codes: np.ndarray, texts: list[str | None]) -> np.ndarray:
        """Return (rows,) indices into `words` for indices into `texts`, -1 for None; -1 stays."""
        places = np.full(len(texts) + 1, -1, np.int32)
        order = _by_appearance(codes, len(texts))
        for code in order:
            text = texts[code]
            if text is not None:
                place = places[code] = self._places.setdefault(text, len(self.words))
                if place == len(self.words):
                    self.words.append(text)
        is_same = np.array_equal(places[order], order)  # as a writer numbers them
        return codes if is_same else places[codes]


def _by_appearance(codes: np.ndarray, count: int) -> list[int]:
    """Return those of the codes 0..count-1 that occur, in the order of their first appearance."""
    seen, order, at, size = np.zeros(count + 1, bool), [], 0, 1 << 10
    seen[-1] = True  # a gap
    while at < len(codes) and len(order) < count:
        some = codes[at : at + size]
        new, first = np.unique(some[~seen[some]], return_index=True)
        seen[new] = True
        order += new[np.argsort(first)].tolist()
        at, size = at + size, min(2 * size, 1 << 20)
    return order


class Arrays:
    """Room for rows of a table; `rows` of it are filled."""

    def __init__(self, fields: Fields, room: int):
        self._in_rows = not fields.texts and not fields.dates  # others are used column by column
        order = "C" if self._in_rows else "F"
        self.inputs = np.empty((room, len(fields.inputs)), fields.input_type.dtype, order)
        self.targets = np.empty((room, len(fields.targets)))
        self.codes = np.empty((room, len(fields.texts)), np.int32, order)
        self.dates = np.empty((room, len(fields.dates)), order=order)
        self.ids: list[list[str]] = [[] for _ in fields.ids]
        self.rows = 0
        self.runs: list[tuple[int, int, int]] = []  # (file, place in it, rows) of rows that follow each other

    def fill(self, columns: list[tuple[np.ndarray, int, np.ndarray]], rows: int) -> None:
        """Write the next rows: (array, its column, values), the columns of each array in their order."""
        new = slice(self.rows, self.rows + rows)
        if self._in_rows:
            self._fill_rows(new, columns)
        else:
            self._fill_columns(new, columns)
        self.rows += rows

    def _fill_rows(self, new: slice, columns: list[tuple[np.ndarray, int, np.ndarray]]) -> None:
        rows = new.stop - new.start
        writers = [
            row_writer(array[new], [values for to, _, values in columns if to is array])
            for array in (self.inputs, self.targets)
        ]

        def write(start: int) -> None:
            for of_array in writers:
                of_array(start, min(start + _FILL_ROWS, rows))

        each(write, range(0, rows, _FILL_ROWS), rows)

    def _fill_columns(self, new: slice, columns: list[tuple[np.ndarray, int, np.ndarray]]) -> None:
        def fill(column: tuple[np.ndarray, int, np.ndarray]) -> None:
            array, place, values = column
            with np.errstate(over="ignore"):
                array[new, place] = values

        each(fill, columns, new.stop - new.start)


class Reader:
    """Reads parts of a table as `fields` says; what concerns all rows (bounds, words) goes on from table to table.

    paths: the files as messages name them. column: how messages call a column.
    """

    def __init__(self, fields: Fields, path: str, paths: list[str], column: Callable[[int], str]):
        self._fields, self._path, self._paths, self._column = fields, path, paths, column
        self.columns = sorted({*fields.inputs, *fields.targets, *fields.texts, *fields.dates, *fields.ids})
        self._low, self._high = np.full(len(fields.inputs), np.inf), np.full(len(fields.inputs), -np.inf)
        self._words = [Vocabulary() for _ in fields.texts]
        self._names = Vocabulary() if fields.target_type.is_text else None
        self.unlabelled = 0

    def arrays(self, room: int) -> Arrays:
        """Return room for rows."""
        return Arrays(self._fields, room)

    def add(self, arrays: Arrays, part: Part) -> None:
        """Add the rows of a part but those that are left out. Raises DataError, Refused."""
        fields, rows = self._fields, _Rows(part, self._fields.missing)
        if fields.missing and not fields.keep_unlabelled:
            rows.leave_out(fields.targets)
            self.unlabelled += part.rows - len(rows)
        jobs = [
            *((arrays.targets, slot, column, self._target) for slot, column in enumerate(fields.targets)),
            *((arrays.inputs, slot, column, self._input) for slot, column in enumerate(fields.inputs)),
            *((arrays.codes, slot, column, self._text) for slot, column in enumerate(fields.texts)),
            *((arrays.dates, slot, column, self._date) for slot, column in enumerate(fields.dates)),
        ]

        def values(job) -> tuple[np.ndarray, int, np.ndarray]:
            array, slot, column, read = job
            try:
                return array, slot, read(rows, slot, column)
            except Unreadable as what:
                raise self._unreadable(column, what) from None

        columns = each(values, jobs, part.rows)
        for ids, column in zip(arrays.ids, fields.ids, strict=True):
            ids += self._id(rows, column)
        arrays.fill(columns, len(rows))
        arrays.runs += rows.runs()

    def table(self, arrays: Arrays) -> Table:
        """Return the rows that have been added to the arrays."""
        rows, fields = arrays.rows, self._fields
        targets, names = self._class_names(arrays.targets[:rows])
        return Table(
            arrays.inputs[:rows],
            targets,
            names,
            self._low.copy(),
            self._high.copy(),
            self._spans(arrays.runs),
            codes=arrays.codes[:rows] if fields.texts else None,
            words=[vocabulary.words for vocabulary in self._words],
            dates=arrays.dates[:rows] if fields.dates else None,
            ids=arrays.ids,
            unlabelled=self.unlabelled,
        )

    def _class_names(self, targets: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
        """Return targets as indices of sorted class names; -1, a gap, stays -1."""
        if self._names is None:
            return targets, None
        names = self._names.words
        order = sorted(range(len(names)), key=names.__getitem__)
        places = np.full(len(names) + 1, -1.0)
        places[order] = np.arange(len(names))
        return places[targets.astype(np.intp)], [names[i] for i in order]

    def _spans(self, runs: list[tuple[int, int, int]]) -> list[Span]:
        spans, at, behind = [], 0, None
        for file, first, count in runs:
            if (file, first) != behind:
                path = self._paths[file] if len(self._paths) > 1 else None
                spans.append(Span(at, first + 1, first + 1, path, word=ROW_WORD))
            at, behind = at + count, (file, first + count)
        return spans

    # ---- columns

    def _input(self, rows: _Rows, slot: int, column: int) -> np.ndarray:
        dtype = self._fields.input_type.dtype
        values, bounds = self._numbers(rows, column, dtype)
        if bounds is None:
            return values
        low, high = bounds
        if dtype == "uint8" and not _are_bytes(values, low, high):
            raise NotBytes(f"{self._path}, {self._column(column)}: a number that is no byte")
        if dtype == "float32" and _overflows(max(-low, high)):
            at = int(np.argmax(_overflows(np.abs(np.nan_to_num(values.astype(np.float64))))))
            raise self._failure(rows, column, at, TOO_LARGE)
        self._low[slot], self._high[slot] = min(low, self._low[slot]), max(high, self._high[slot])
        return values

    def _target(self, rows: _Rows, slot: int, column: int) -> np.ndarray:
        if self._names is None:
            return self._numbers(rows, column, "float64")[0]
        self._check(rows, column, rows.kinds(column) == INFINITE, NOT_FINITE)
        codes = self._codes(rows, column, self._names)
        most = self._fields.target_type.most
        if len(self._names.words) > most:
            found = self._failure(rows, column, int(np.argmax(codes >= most)), TOO_MANY)
            raise TooManyNames(str(found), self._names.words)
        return codes

    def _text(self, rows: _Rows, slot: int, column: int) -> np.ndarray:
        return self._codes(rows, column, self._words[slot])

    def _date(self, rows: _Rows, slot: int, column: int) -> np.ndarray:
        seconds, kinds = rows.block(column).seconds(), rows.kinds(column)
        self._check(rows, column, (kinds != DATE) & (kinds != GAP), NO_DATE)
        return np.where(kinds == GAP, np.nan, seconds)

    def _id(self, rows: _Rows, column: int) -> list[str]:
        try:
            codes, texts = rows.block(column).words(frozenset())
        except Unreadable as what:
            raise self._unreadable(column, what) from None
        texts = [*texts, ""]
        return [texts[code] for code in codes.tolist()]

    def _numbers(self, rows: _Rows, column: int, dtype: str) -> tuple[np.ndarray, tuple[float, float] | None]:
        """Return (the numbers, nan for a gap; the least and the greatest of them, None where all are gaps)."""
        block = rows.block(column)
        numbers, bounds = block.numbers(dtype), block.bounds(self._fields.missing)
        if bounds:
            return numbers, bounds
        kinds = rows.kinds(column)
        is_number = kinds == NUMBER
        known = numbers[is_number]
        if len(known) < len(numbers):
            self._check(rows, column, kinds == INFINITE, NOT_FINITE)
            self._check(rows, column, ~is_number & (kinds != GAP), NO_NUMBER)
            floats = numbers.dtype if numbers.dtype.kind == "f" else np.float64
            numbers = np.where(is_number, numbers, np.nan).astype(floats, copy=False)
        return numbers, bounds_of(known) if len(known) else None

    def _codes(self, rows: _Rows, column: int, vocabulary: Vocabulary) -> np.ndarray:
        codes, texts = rows.block(column).words(self._fields.missing)
        if "" in texts or not self._fields.missing:
            is_empty = np.array([text == "" for text in texts] + [not self._fields.missing])[codes]
            self._check(rows, column, is_empty, EMPTY)
        if column in self._fields.decimals:
            texts = [None if text is None else decimal_text(text) for text in texts]
        return vocabulary.encode(codes, texts)

    # ---- failures

    def _check(self, rows: _Rows, column: int, is_wrong: np.ndarray, failure: int) -> None:
        at = int(np.argmax(is_wrong)) if len(is_wrong) else 0
        if len(is_wrong) and is_wrong[at]:
            raise self._failure(rows, column, at, failure)

    def _failure(self, rows: _Rows, column: int, at: int, failure: int) -> DataError:
        text = rows.block(column).text(at)
        place = f"{self._paths[rows.part.file]}, {ROW_WORD} {rows.number(at)}, {self._column(column)}"
        if failure == NO_NUMBER and text.lower() == "nan":
            failure = NOT_FINITE
        if not text:
            expected = _FAILURES[EMPTY]
            if failure == NO_NUMBER:
                expected = expected.replace("a value", "a number")
            return DataError(f"{place}: found an empty field, expected {expected}")
        if failure == NO_NUMBER and column in self._fields.targets:
            return TextInTarget(f"{place}: found {_shown(text)}, expected a number", text)
        return DataError(f"{place}: found {_shown(text)}, expected {_FAILURES[failure]}")

    def _unreadable(self, column: int, what: Unreadable) -> DataError:
        return DataError(
            f"{self._path}, {self._column(column)}: found {what}, expected numbers, texts or dates; leave the column "
            f"out with --drop, or write its parts as columns of their own"
        )


class _Rows:
    """The rows of a part but those that are left out, with what their fields are."""

    def __init__(self, part: Part, missing: frozenset[str]):
        self.part, self._missing, self._kept = part, missing, None
        self._blocks: dict[int, ColumnBlock] = {}
        self._kinds: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return self.part.rows if self._kept is None else int(np.count_nonzero(self._kept))

    def leave_out(self, targets: list[int]) -> None:
        """Leave out the rows in which one of the targets is a gap."""
        gaps = [self.kinds(column) == GAP for column in targets]
        lacks = np.logical_or.reduce(gaps) if gaps else np.zeros(0, bool)
        if lacks.any():
            self._kept = ~lacks
            self._blocks.clear()
            self._kinds.clear()

    def block(self, column: int) -> ColumnBlock:
        """Return the block of a column."""
        if column not in self._blocks:
            block = self.part.block(column)
            self._blocks[column] = block if self._kept is None else block.taken(self._kept)
        return self._blocks[column]

    def kinds(self, column: int) -> np.ndarray:
        """Return what the fields of a column are."""
        if column not in self._kinds:
            self._kinds[column] = self.block(column).kinds(self._missing)
        return self._kinds[column]

    def number(self, at: int) -> int:
        """Return the number in its file, from 1, of the row at this place."""
        return self.part.first + 1 + (at if self._kept is None else int(np.flatnonzero(self._kept)[at]))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield (file, place in it, rows) for rows that follow each other."""
        part = self.part
        if self._kept is None:
            yield part.file, part.first, part.rows
            return
        edges = np.flatnonzero(np.diff(np.concatenate([[False], self._kept, [False]])))
        for start, stop in edges.reshape(-1, 2).tolist():
            yield part.file, part.first + start, stop - start


def _are_bytes(values: np.ndarray, low: float, high: float) -> bool:
    return bool(low >= 0 and high <= 255 and (values.dtype.kind != "f" or (values == np.floor(values)).all()))


def _overflows(size):
    """Return whether a size rounds to infinity as float32."""
    return size >= 2.0**128 - 2.0**103


def _shown(text: str) -> str:
    """Return a field as messages quote it: short, and on one line."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
