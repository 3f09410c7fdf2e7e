"""From blocks to a Table, for all formats whose columns are typed: what each column is, then one matrix of the numbers.

The parts of a table are read once, and their numbers kept until their type is known; where memory is short the columns
of numbers are read a second time instead.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ..core.rows import row_writer
from ..utils import DataError, default_threads
from .blocks import Block, Numbers, Opaque, Texts
from .column import MOSTLY, Column, Odd, Span, Table, Wanted, is_coarse, settled
from .records import fits, new_rows
from .source import Files

_FILL_ROWS = 1 << 14  # that a thread writes at a time
_ALONE_ROWS = 1 << 15  # fewer are no work for several threads
_KEPT_BYTES = 16  # of a number, for a block and the matrix, up to which the blocks are kept
_FIRST_ROWS = 1000  # that tell whether a column without a name has values


@dataclass
class Part:
    """Rows of one file that follow each other. block: of a column, by its place; several threads may call it."""

    rows: int
    block: Callable[[int], Block]


class TypedSource:
    """A TableSource of typed columns. A format calls `_open`, and brings `_parts`."""

    row_word, first_line = "data row", 1  # how messages call a row, and how they count
    in_memory = False  # whether the blocks take no memory of their own
    files: Files | None = None

    def _open(self, path: str, names: list[str] | None, sizes: list[int], width: int = 0) -> None:
        """Set the attributes from the names of the columns, or their number, and the rows of each file.

        Raises DataError if there are none.
        """
        self.path, self.names, self.width, self._sizes = path, names, len(names) if names else width, sizes
        if not self.width:
            raise DataError(f"{path}: no columns, expected features and a target; add the data")
        if not sum(sizes):
            raise DataError(f"{path}: no rows, expected at least one; add the data")

    def _parts(self, number: int, places: list[int]) -> Iterator[Part]:
        """Yield the rows of a file, in one part or several."""
        raise NotImplementedError

    def column(self, place: int) -> str:
        """Return how messages call a column."""
        return f"column {self.names[place]}" if self.names else f"column {place} of {self.width}"

    @property
    def default_target(self) -> int:
        """The place of the last column that has a name or, in the first rows, a value."""
        last = self.width - 1
        return next((place for place in range(last, -1, -1) if self._is_there(place)), last)

    def _is_there(self, place: int) -> bool:
        if self.names and self.names[place]:
            return True
        block = next(self._parts(0, [place])).block(place)
        texts = block.as_texts(frozenset()) if not isinstance(block, Opaque) else None
        return texts is None or any(texts.texts[code] for code in texts.codes[:_FIRST_ROWS] if code >= 0)

    def read(self, wanted: Wanted) -> Table:
        """Return all rows. Raises DataError for rows that are no rows of this table, and columns of no known type."""
        with ThreadPoolExecutor(1) as hasher:  # several files are hashed beside
            digest = hasher.submit(self.files.digest) if self.files else None
            if self.files:
                self.files.check()
            table = _Assembly(self, wanted).table()
            if self.files:
                self.files.check()
            table.sha256 = digest.result() if digest else None
        return table

    def parts(self, places: list[int]) -> Iterator[Part]:
        """Yield the rows of all files. Raises DataError where they are not as many as they were."""
        for number, size in enumerate(self._sizes):
            left = size
            for part in self._parts(number, places):
                left -= part.rows
                if left < 0:
                    break
                yield part
            if left:
                raise Files.changed(self.files.paths[number])

    def spans(self) -> list[Span]:
        """Return how messages call the rows."""
        starts, paths = accumulate(self._sizes, initial=0), self.files.paths if self.files else [self.path]
        return [
            Span(start, self.first_line, 1, path if len(paths) > 1 else None, word=self.row_word)
            for start, path in zip(starts, paths, strict=False)
        ]

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(self._sizes)


def check_same_columns(path: str, names: list[str], first_path: str, first_names: list[str]) -> None:
    """Raise DataError if a file has not the columns of the first one."""
    if len(names) != len(first_names):
        raise DataError(
            f"{path}: {len(names)} columns, expected {len(first_names)} as in {first_path}; leave the file out, or "
            f"give all files the same columns"
        )
    for at, (name, first) in enumerate(zip(names, first_names, strict=True)):
        if name != first:
            raise DataError(
                f'{path}: column {at + 1} is "{name}", expected "{first}" as in {first_path}; put the columns into the '
                f"same order"
            )


class _Assembly:
    """The reading of one Table."""

    def __init__(self, source: TypedSource, wanted: Wanted):
        self._source, self._wanted, self._sizes = source, wanted, []  # rows of each part
        self._keeps = source.in_memory or fits(_KEPT_BYTES * source.rows * len(wanted.reads))

    def table(self) -> Table:
        """Return the Table."""
        gathered = self._gathered(sorted(self._wanted.reads))
        columns = {place: self._column(place, fields) for place, fields in gathered.items()}
        numbers = [place for place, column in columns.items() if column.reads == "number"]
        places = [place for place in numbers if place not in self._wanted.exact]
        bounds = np.array([(columns[place].low, columns[place].high) for place in places]).reshape(-1, 2)
        matrix = new_rows((self._source.rows, len(places)), "float64" if is_coarse(*bounds.T) else self._wanted.dtype)
        self._fill(matrix, places, [place for place in numbers if place not in places], gathered, columns)
        return Table(columns, matrix, places, self._source.spans())

    def _gathered(self, places: list[int], as_texts: bool = False) -> dict[int, _Fields]:
        gathered, self._sizes = {place: _Fields(self._wanted, place, as_texts) for place in places}, []
        for part in self._source.parts(places):

            def add(place: int, part: Part = part, at: int = sum(self._sizes)) -> None:
                block = part.block(place)
                if isinstance(block, Opaque):
                    raise DataError(
                        f"{self._source.path}, {self._source.column(place)}: found {block.what}, expected numbers, "
                        f"texts or dates; leave the column out with --drop, or write its parts as columns of their own"
                    )
                gathered[place].add(block, at, self._keeps)

            each(add, places, part.rows)
            self._sizes.append(part.rows)
        return gathered

    def _column(self, place: int, fields: _Fields) -> Column:
        """Return a column; numbers that are written from their blocks are not in it yet."""
        kind, found = self._wanted.reads[place], fields.found
        if len(found) > 1:  # numbers here, texts there
            fields, found = self._gathered([place], as_texts=True)[place], {"text"}
        reads = min(found, default=kind or "text")
        if reads == "text":
            codes = fields.joined(self._source.rows, np.int32, -1)
            least = 1.0 if place in self._wanted.pure else MOSTLY
            return settled(Column("text", codes, fields.vocabulary.words), kind, least=least)
        values = fields.joined(self._source.rows, np.float64, np.nan) if reads == "date" else np.empty(0)
        return Column(reads, values, [], fields.odd, fields.low, fields.high)

    def _fill(self, matrix: np.ndarray, places: list[int], exact: list[int], gathered: dict, columns: dict) -> None:
        """Write the numbers of all parts to the matrix, and those of the exact columns to their own arrays."""
        unwritten, at = [place for place in (*places, *exact) if not len(columns[place])], 0
        for place in exact:
            if place in unwritten:
                columns[place].values = new_rows((self._source.rows,), "float64")
        for part in self._parts_again(unwritten, gathered):

            def values(place: int, part: Part = part, new: slice = slice(at, at + part.rows)) -> np.ndarray:
                if place not in unwritten:
                    return columns[place].values[new]
                block = part.block(place)
                if not isinstance(block, Numbers):
                    return np.full(part.rows, np.nan)
                dtype = "float64" if place in self._wanted.exact else matrix.dtype.name
                return block.filled(self._wanted.missing, dtype)

            found = each(values, [*places, *exact], part.rows)
            _write(matrix[at : at + part.rows], found[: len(places)])
            for place, numbers in zip(exact, found[len(places) :], strict=True):
                columns[place].values[at : at + part.rows] = numbers
            at += part.rows
        for slot, place in enumerate(places):
            columns[place].values = matrix[:, slot]

    def _parts_again(self, places: list[int], gathered: dict[int, _Fields]) -> Iterator[Part]:
        """Yield the parts with their blocks of numbers, kept ones or read again."""
        if not self._keeps and places:
            yield from self._source.parts(places)
            return
        for number, rows in enumerate(self._sizes):
            yield Part(rows, lambda place, number=number: gathered[place].pieces[number][1])
            for place in places:
                gathered[place].pieces[number] = None


class _Fields:
    """The fields of one column: of numbers the blocks if they are kept, of texts the codes, of dates the seconds.

    found: what the fields are that are no gaps.
    """

    def __init__(self, wanted: Wanted, place: int, as_texts: bool):
        self._kind = "text" if as_texts else wanted.reads[place]
        self._missing = frozenset() if place in wanted.raw else wanted.missing
        self.found, self.odd, self.vocabulary = set(), {}, Vocabulary()
        self.low, self.high = math.inf, -math.inf
        self.pieces: list[tuple[slice, object] | None] = []

    def add(self, block: Block, at: int, keeps: bool) -> None:
        """Add the next block, whose first row is at this place in the table."""
        rows = slice(at, at + len(block))
        if not isinstance(block, Texts) and self._kind in (None, block.reads):
            self.pieces.append((rows, self._values(block, at, keeps)))
            return
        texts = block.as_texts(self._missing)
        codes, words = texts.codes, [None if text in self._missing else text for text in texts.texts]
        if "" not in self._missing:
            codes, words = np.where(codes < 0, len(words), codes), [*words, ""]
        codes = self.vocabulary.encode(codes, words)
        is_known = (codes >= 0).any()
        self.found |= {"text"} if is_known else set()
        self.pieces.append((rows, codes if is_known else None))

    def _values(self, block: Numbers, at: int, keeps: bool) -> object:
        known = block.known(self._missing)
        odd = block.odd(known, self._missing)
        if known is not None and not known.any() and not odd:
            return None
        self.found.add(block.reads)
        low, high = block.bounds(known)
        self.low, self.high = min(low, self.low), max(high, self.high)
        for word, where in odd.items():
            before = self.odd.get(word, Odd(0, at + where.first))
            self.odd[word] = Odd(before.rows + where.rows, before.first)
        if block.reads == "date":
            return block.filled(self._missing, "float64")
        return block if keeps else None

    def joined(self, rows: int, dtype, gap) -> np.ndarray:
        """Return the codes or the dates of all rows."""
        if len(self.pieces) == 1 and self.pieces[0][1] is not None:
            return self.pieces[0][1]
        values = new_rows((rows,), dtype)
        for new, some in self.pieces:
            values[new] = gap if some is None else some
        return values


def _write(matrix: np.ndarray, columns: list[np.ndarray]) -> None:
    """Write columns of numbers to the rows of a matrix."""
    if columns:
        write, rows = row_writer(matrix, columns), len(matrix)
        each(lambda start: write(start, min(start + _FILL_ROWS, rows)), range(0, rows, _FILL_ROWS), rows)


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
        """Return (rows,) int32 indices into `words` for indices into `texts`, -1 for None; -1 stays."""
        first = np.full(len(texts) + 1, len(codes))
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        order = np.argsort(first[:-1])[: np.count_nonzero(first[:-1] < len(codes))]
        places = np.full(len(texts) + 1, -1, np.int32)
        for code in order.tolist():
            text = texts[code]
            if text is not None:
                place = places[code] = self._places.setdefault(text, len(self.words))
                if place == len(self.words):
                    self.words.append(text)
        is_same = np.array_equal(places[order], order)  # as a writer numbers them
        return codes.astype(np.int32, copy=False) if is_same else places[codes]
