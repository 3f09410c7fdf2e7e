"""Tables in Parquet and Arrow (Feather) files, read with pyarrow: only the columns that are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate

from ..utils import DataError, InputNotFound, default_threads, os_reason, sha256_file
from .arrow_blocks import arrow_block, as_numbers, pyarrow
from .column_blocks import ColumnBlock, Numbers
from .column_reader import Part
from .column_table import ColumnTable
from .source import Extents, FileDigest
from .table import Table
from .table_files import AS_FOUND, Fields, ReadOptions

_NEED = "Parquet and Arrow files"
_TEXTS = ("string", "large_string", "string_view")
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")
PARQUET, ARROW = b"PAR1", b"ARROW1\0\0"  # how the files begin


class _Pieces:
    """The pieces of one file in which rows can be read alone: row groups, or record batches.

    names, types: of the columns; sizes: rows of each piece.
    """

    def __init__(self, path: str):
        self.path = path
        with self.reading():
            self.open()

    names: list[str]
    sizes: list[int]

    def _choose(self, names: list[str]) -> None:
        """Take all columns but the row numbers of pandas, which have no name there."""
        self._columns = [i for i, name in enumerate(names) if not _ROW_NUMBERS.fullmatch(name)]
        self.names = [names[i] for i in self._columns]

    def open(self) -> None:
        """Look at the end of the file."""
        raise NotImplementedError

    def read(self, piece: int, columns: list[int]) -> list:
        """Return columns of a piece (pyarrow.ChunkedArray)."""
        raise NotImplementedError

    @contextmanager
    def reading(self):
        """Turn the failures of pyarrow into a DataError."""
        pa = pyarrow(_NEED)
        try:
            yield
        except FileNotFoundError:
            raise InputNotFound(f"{self.path}: no such file or folder; check the path") from None
        except ArithmeticError as error:
            raise self.damaged("a decimal that is none") from error
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = os_reason(error) if isinstance(error, OSError) else str(error)
            raise self.damaged(" ".join(reason.split()).rstrip(".")[:200]) from error

    def damaged(self, reason: str) -> DataError:
        """Return the error for a file that is not as it should be."""
        return DataError(f"{self.path}: cannot be read ({reason}); copy it again or write it anew")


class _ParquetPieces(_Pieces):
    """The row groups of a Parquet file. Texts are read as indices into a dictionary."""

    def open(self) -> None:
        from pyarrow import parquet

        file = parquet.ParquetFile(self.path)
        metadata, schema = file.metadata, file.schema_arrow
        self._choose(schema.names)
        self.sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if min(self.sizes, default=0) < 0:
            raise self.damaged(f"a row group of {min(self.sizes)} rows")
        kinds = schema.types
        texts = [name for name, kind in zip(schema.names, kinds, strict=True) if str(kind) in _TEXTS]
        if texts:
            file = parquet.ParquetFile(self.path, metadata=metadata, read_dictionary=texts)
        self._reader = file.reader
        leaves = list(map(_leaves, kinds))
        self._leaves = [range(stop - count, stop) for count, stop in zip(leaves, accumulate(leaves), strict=True)]

    def read(self, piece: int, columns: list[int]) -> list:
        leaves = [leaf for column in columns for leaf in self._leaves[self._columns[column]]]
        table = self._reader.read_row_group(piece, column_indices=leaves, use_threads=default_threads() > 1)
        for column in table.columns:
            if len(column) != self.sizes[piece]:
                raise self.damaged(f"{len(column)} rows in a row group of {self.sizes[piece]}")
        return table.columns


def _leaves(kind) -> int:
    """Return how many of Parquet's columns hold a column of this type."""
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 1


class _ArrowPieces(_Pieces):
    """The record batches of an Arrow file."""

    def open(self) -> None:
        self._choose(self._file().schema.names)
        first = self._file(0)
        self.sizes = [first.get_batch(i).num_rows for i in range(first.num_record_batches)]

    def read(self, piece: int, columns: list[int]) -> list:
        batch = self._file(*(self._columns[column] for column in columns)).get_batch(piece)
        batch.validate(full=True)  # pyarrow believes the places of texts that a file names
        return [pyarrow(_NEED).chunked_array([column]) for column in batch.columns]

    def _file(self, *columns: int):
        """Return a reader of some of the columns."""
        from pyarrow import ipc

        return ipc.open_file(self.path, options=ipc.IpcReadOptions(included_fields=list(columns), use_threads=False))


class _PiecePart:
    """The Part of some rows of a piece; its columns are read when they are asked for."""

    def __init__(self, files: _PieceFiles, file: int, piece: int, start: int, rows: int):
        self._files, self.file, self._piece, self._start = files, file, piece, start
        self.first, self.rows = files.place(file, piece) + start, rows

    def block(self, column: int) -> ColumnBlock:
        """Return these rows of a column."""
        return self._files.block(self.file, self._piece, column, self._start, self.rows)


class _PieceFiles(ColumnTable):
    """The TableFiles of files in pieces. The columns of the piece that was read last stay, numbers as blocks."""

    pieces: type[_Pieces]

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        self._extents = Extents(paths)  # before anything is read
        self._pieces = [self.pieces(file) for file in paths]
        first = self._pieces[0]
        for other in self._pieces[1:]:
            check_same_names(other.path, other.names, first.path, first.names)
        self._places = [[0, *accumulate(file.sizes)] for file in self._pieces]
        self._kept: tuple[tuple[int, int], dict] = (-1, -1), {}
        self._open(path, paths, first.names, [places[-1] for places in self._places])

    def place(self, file: int, piece: int) -> int:
        """Return the place in its file of the first row of a piece."""
        return self._places[file][piece]

    def block(self, file: int, piece: int, column: int, start: int, rows: int) -> ColumnBlock:
        """Return rows of a piece's column, counted in the piece."""
        kept = self._kept[1][column]
        if isinstance(kept, Numbers):
            return kept if rows == len(kept) else kept.taken(slice(start, start + rows))  # a whole one knows its bounds
        with self._pieces[file].reading():
            return arrow_block(kept.slice(start, rows))

    def read(self, fields: Fields, hashed: bool = True) -> tuple[Table, str | FileDigest | None]:
        """Return (all rows, the SHA-256 of the files if it is asked for)."""
        if len(self._pieces) > 1:
            return super().read(fields, hashed)
        digest = self._extents.digest(0) if hashed else None
        return self._read(fields), digest

    def _parts(self, number: int, columns: list[int], start: int, stop: int) -> Iterator[Part]:
        self._extents.check(number)
        places = self._places[number]
        for piece, (first, end) in enumerate(zip(places, places[1:], strict=False)):
            low, high = max(start, first), min(stop, end)
            if low < high:
                self._keep(number, piece, columns)
                yield _PiecePart(self, number, piece, low - first, high - low)

    def _keep(self, number: int, piece: int, columns: list[int]) -> None:
        """Have columns of a piece in memory, instead of those of any other."""
        if self._kept[0] != (number, piece):
            self._kept = (number, piece), {}
        new = sorted(set(columns) - set(self._kept[1]))
        if new:
            file = self._pieces[number]
            with file.reading():
                self._kept[1].update(zip(new, map(as_numbers, file.read(piece, new)), strict=True))

    def _digests(self) -> list[bytes]:
        return [bytes.fromhex(sha256_file(file.path)) for file in self._pieces]


class ParquetFiles(_PieceFiles):
    """The TableFiles of Parquet."""

    pieces = _ParquetPieces


class ArrowFiles(_PieceFiles):
    """The TableFiles of Arrow's file format, which is Feather's as well."""

    pieces = _ArrowPieces


def check_same_names(path: str, names: list[str], first_path: str, first_names: list[str]) -> None:
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
