"""CSV files: the first lines tell the columns (csv_head), and C reads the fields into arrays (csv_reader)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ..utils import DataError, default_threads
from .csv_head import Head, read_head, whole_lines
from .csv_pieces import PIECE_BYTES, read_pieces
from .csv_reader import CsvCounter, CsvReader, shown
from .source import Extents, FileDigest, Source, joint_digest, read_blocks
from .table import Table
from .table_files import AS_FOUND, ColumnFacts, Fields, ReadOptions, RowIndex

_KEPT_BYTES = 1 << 26  # of an unpacked file


class CsvFiles:
    """The TableFiles of CSV: positions are numbers of bytes, counted over all files.

    The columns are those of the first file's header. A further file may have no header: some programs cut one file
    into several without repeating it.
    """

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        self._first = first = read_head(paths[0], options)
        self.path, self._heads = path, [first, *(read_head(file, options, first) for file in paths[1:])]
        self.names, self.columns = first.names, first.columns
        for head in self._heads[1:]:
            self._join(head)
        self._extents = Extents(paths)
        self._is_packed = any(map(is_gzip, paths))
        self._kept: dict[str, tuple[bytes, list[bytes]]] = {}  # digest and blocks of packed files, unpacked

    def column(self, index: int) -> str:
        """Return how messages call a column."""
        return self._first.column(index)

    def first_field(self, column: int) -> str:
        """Return a field of the first row as text, "" where the row is too short."""
        row = self._first.first_row
        return row[column] if column < len(row) else ""

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
                f"{head.path}: column {at + 1} is {shown(head.names[at].encode())}, expected "
                f"{shown(first.names[at].encode())} as in {first.path}; put the columns into the same order"
            )

    @property
    def is_packed(self) -> bool:
        """True if reading can begin at the front only."""
        return self._is_packed

    def facts(self, missing: frozenset[str], rows: int | None = None) -> list[ColumnFacts]:
        """Return what the fields of every column are."""
        counter = CsvCounter(self._first, missing, rows, several=len(self._heads) > 1)
        for number, head in enumerate(self._heads):
            if number:
                counter.begin(head)
            for text in whole_lines(self._kept_blocks(head.path), head.path):
                if not counter.count(text):
                    return counter.facts()
            counter.end_file()
        return counter.facts()

    def _kept_blocks(self, path: str) -> Iterator[bytes]:
        """Yield the blocks of a file; those of a packed file are kept for the reading that follows, if they are few."""
        digest, kept, size = hashlib.sha256(), [], 0
        for block in read_blocks(path, digest if self.is_packed else None):
            size += len(block)
            if self.is_packed and size <= _KEPT_BYTES:
                kept.append(block)
            yield block
        if kept and size <= _KEPT_BYTES:
            self._kept[path] = digest.digest(), kept

    def read(self, fields: Fields, hashed: bool = True) -> tuple[Table, str | FileDigest | None]:
        """Return (all rows, the SHA-256 of the files if it is asked for)."""
        return self._read_pieces(fields, hashed) or self._read_through(fields)

    def _read_through(self, fields: Fields) -> tuple[Table, str]:
        """Return (all rows, the SHA-256 of the files), read from front to back."""
        reader, index = self._reader(fields, self._rows_expected()), RowIndex()
        for text in self._texts(reader, index):
            reader.read(text)
        reader.check_any()
        return reader.table(), joint_digest(index.digests)

    def _read_pieces(self, fields: Fields, hashed: bool) -> tuple[Table, FileDigest | None] | None:
        """Return the same, read by several threads; None for files that this is not for."""
        pieces = min(default_threads(), self._extents.sizes[0] // PIECE_BYTES)
        if len(self._heads) > 1 or self.is_packed or pieces < 2:
            return None

        def new_reader(start: int, stop: int) -> CsvReader:
            if not start:  # the rows of all pieces will stand behind its own
                return self._reader(fields, _rows_in(self._extents.sizes[0], self._first))
            reader = self._reader(fields, _rows_in(stop - start, self._first))
            reader.begin(self._first, within=True)
            return reader

        digest = self._extents.digest(0) if hashed else None
        table = read_pieces(self._first.path, self._extents.sizes[0], pieces, new_reader)
        if table is None:
            return None
        self._extents.check(0)
        return table, digest

    def blocks(
        self, fields: Fields, rows: int, *, index: RowIndex | None = None, step: int | None = None
    ) -> Iterator[Table]:
        """Yield the rows in blocks of `rows`."""
        index = RowIndex() if index is None else index
        reader = self._reader(fields, rows, step)
        for text in self._texts(reader, index):
            for _ in reader.full(text):
                yield reader.table()
        reader.check_any()
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

    def _rows_expected(self) -> int | None:
        """Return about how many rows there are, rather more, so that one block of memory takes them; None: unknown.

        Memory that no row comes to is never touched.
        """
        if self.is_packed:
            return None
        return sum(map(_rows_in, self._extents.sizes, self._heads))

    def _reader(self, fields: Fields, rows: int | None = None, step: int | None = None) -> CsvReader:
        return CsvReader(self._first, fields, rows, step, several=len(self._heads) > 1)

    def _texts(self, reader: CsvReader, index: RowIndex) -> Iterator[memoryview]:
        """Yield whole lines of file after file; tell the reader where each file begins."""
        for number, head in enumerate(self._heads):
            if number:
                reader.begin(head)
            digest, blocks = self._kept.pop(head.path, (None, None))
            hashing = hashlib.sha256()
            yield from whole_lines(blocks or read_blocks(head.path, hashing), head.path)
            reader.end_file()
            index.digests.append(digest or hashing.digest())


def _rows_in(size: int, head: Head) -> int:
    """Return about how many rows these bytes of a file are, rather more."""
    return int(1.1 * size / head.row_bytes) + 16


def is_gzip(path: str) -> bool:
    """Return whether a file is packed by gzip, as its first bytes say."""
    with Source(path) as source:
        return source.is_gzip
