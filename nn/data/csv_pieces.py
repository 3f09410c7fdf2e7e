"""CSV pieces: a large file is cut behind line ends into pieces, which several threads read at once.

A cut may lie within quotes. That shows at the end of the piece before it, whose quotes are open then: the pieces are
thrown away, as they are after any failure, and the file is read from front to back, which knows all rows by lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from ..utils import DataError, InputNotFound, os_reason
from .column_reader import each
from .csv_head import whole_lines
from .csv_reader import MAX_WORDS, CsvReader
from .source import BLOCK
from .table import Span, Table

PIECE_BYTES = 1 << 22  # fewer are not worth a thread
_JOINED_ROWS = 1 << 14


def read_pieces(path: str, size: int, pieces: int, new_reader: Callable[[int, int], CsvReader]) -> Table | None:
    """Return all rows of a file of `size` bytes, read by a thread a piece; None if that cannot be done.

    new_reader: makes the reader of the piece that begins at one byte and ends before another.
    """
    cuts, reading = _cuts(path, size, pieces), _Reading(path, new_reader)
    with ThreadPoolExecutor(len(cuts) - 1) as pool:
        readers = list(pool.map(reading.read, cuts[:-1], cuts[1:]))
    if None in readers or readers[0].lines < readers[0].first_line:
        return None
    return _joined(readers)


def _cuts(path: str, size: int, pieces: int) -> list[int]:
    """Return where the pieces begin, and the end; each begins behind the end of a line."""
    cuts = {0, size}
    with _opened(path) as file:
        for piece in range(1, pieces):
            file.seek(piece * size // pieces)
            line = file.readline(BLOCK)
            if line.endswith(b"\n"):
                cuts.add(file.tell())
    return sorted(cuts)


def _opened(path: str):
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error


class _Reading:
    """Reads pieces of one file; the first one that cannot be read ends the reading of all."""

    def __init__(self, path: str, new_reader: Callable[[int, int], CsvReader]):
        self._path, self._new_reader, self._failed = path, new_reader, False

    def read(self, start: int, stop: int) -> CsvReader | None:
        """Return the reader that has taken in the bytes [start, stop); None if they are no whole rows."""
        reader = self._new_reader(start, stop)
        try:
            for text in whole_lines(self._blocks(start, stop), self._path):
                reader.read(text)
            reader.end_file()
        except (DataError, OSError):
            self._failed = True
        return None if self._failed else reader

    def _blocks(self, start: int, stop: int) -> Iterator[bytes]:
        with open(self._path, "rb", buffering=0) as file:
            file.seek(start)
            while start < stop and not self._failed:
                block = file.read(min(BLOCK, stop - start))
                if not block:  # the file has become shorter
                    self._failed = True
                start += len(block)
                yield block


def _joined(readers: list[CsvReader]) -> Table | None:
    """Return the rows of all pieces as one table; None if there are none, or too many words."""
    counts = [reader.rows for reader in readers]
    if not any(counts):
        return None
    span = _span(readers)
    first, *others = readers[0].table(more=sum(counts[1:])), *(reader.table() for reader in readers[1:])
    tables = [first, *others]
    words = [_union(lists) for lists in zip(*(table.words for table in tables), strict=True)]
    names = None if first.names is None else sorted({name for table in tables for name in table.names})
    if any(len(known) > MAX_WORDS for known in words) or len(names or []) > readers[0].most_names:
        return None
    moves = []
    for table, start, count in zip(tables, accumulate(counts, initial=0), counts, strict=False):
        rows = slice(start, start + count)
        moves += _moves(first.targets[rows], table.targets[:count], _renaming(table, names))
        if table is not first:
            moves += _moves(first.inputs[rows], table.inputs)
            moves += _moves(first.codes[rows], table.codes, _recoding(table, words)) if words else []
            moves += [] if first.dates is None else _moves(first.dates[rows], table.dates)
    each(_move, moves, sum(counts))
    return replace(
        first,
        names=names,
        low=np.minimum.reduce([table.low for table in tables]),
        high=np.maximum.reduce([table.high for table in tables]),
        spans=[span],
        words=words,
        ids=[[text for ids in columns for text in ids] for columns in zip(*(t.ids for t in tables), strict=True)],
        unlabelled=sum(table.unlabelled for table in tables),
    )


def _span(readers: list[CsvReader]) -> Span:
    """Return the span of the rows of all pieces, which have not been made to tables yet."""
    lines = last = rows = 0
    for reader in readers:
        last = lines + reader.row_line if reader.taken else last
        lines, rows = lines + reader.lines, rows + reader.rows
    first = readers[0].first_line
    return Span(0, first, 1, has_blank_lines=last != first + rows - 1)


def _union(lists: tuple[list[str], ...]) -> list[str]:
    """Return the different words in the order of their first appearance in the file."""
    return list(dict.fromkeys(word for words in lists for word in words))


@dataclass
class _Move:
    """Rows that go to their place in the table of all; changed: what becomes of them there."""

    to: np.ndarray
    rows: np.ndarray
    changed: Callable[[np.ndarray], np.ndarray] | None


def _moves(to: np.ndarray, rows: np.ndarray, changed: Callable[[np.ndarray], np.ndarray] | None = None) -> list[_Move]:
    """Return what moves rows to an array, some at a time; nothing for rows that are there and stay as they are."""
    if changed is None and np.may_share_memory(to, rows):
        return []
    parts = [slice(at, at + _JOINED_ROWS) for at in range(0, len(rows), _JOINED_ROWS)]
    return [_Move(to[part], rows[part], changed) for part in parts]


def _move(move: _Move) -> None:
    move.to[...] = move.rows if move.changed is None else move.changed(move.rows)


def _renaming(table: Table, names: list[str] | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return what makes class indices (rows, 1) places in all names, where they are others; -1, a gap, stays."""
    if table.names == names:
        return None
    place = {name: index for index, name in enumerate(names)}
    places = np.array([*(place[name] for name in table.names), -1.0])
    return lambda targets: places[targets.astype(np.intp)]


def _recoding(table: Table, words: list[list[str]]) -> Callable[[np.ndarray], np.ndarray]:
    """Return what makes codes (rows, columns) places in `words`; -1, a gap, stays."""
    place = [{word: index for index, word in enumerate(known)} for known in words]
    known = [[-1, *map(place[i].__getitem__, own)] for i, own in enumerate(table.words)]
    begins = np.array([0, *accumulate(map(len, known))][:-1], np.int32) + np.int32(1)
    places = np.array([index for column in known for index in column], np.int32)
    return lambda codes: places[codes + begins]
