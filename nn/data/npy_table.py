"""Tables in NPY files (numpy.save): an array of numbers (rows, columns), of which any rows can be read."""

from __future__ import annotations

import ast
import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ..utils import DataError, sha256_file
from .field_types import NotBytes
from .source import Extents, Source, joint_digest
from .table import Span, Table
from .table_files import AS_FOUND, ColumnFacts, Fields, Place, ReadOptions, RowIndex

MAGIC = b"\x93NUMPY"
_HEADER_BYTES = 1 << 16  # NumPy's own headers have some hundred
_BLOCK_VALUES = 1 << 18  # read at a time


@dataclass
class _Header:
    """The header of an NPY file: the facts about its array."""

    path: str
    rows: int
    columns: int
    dtype: np.dtype
    in_columns: bool  # column after column, as Fortran and pandas keep a matrix
    offset: int  # bytes before the numbers


class NpyFiles:
    """The TableFiles of NPY: positions are numbers of rows. Raises DataError for other arrays."""

    names = None
    is_packed = False

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        self.path, self._files = path, [_read_header(file) for file in paths]
        self._extents = Extents(paths)
        first = self._files[0]
        self.columns = first.columns
        for file in self._files[1:]:
            if file.columns != first.columns:
                raise DataError(
                    f"{file.path}: {file.columns} columns, expected {first.columns} as in {first.path}; leave it out, "
                    f"or bring all files to the same columns"
                )
        self._starts = [0, *accumulate(file.rows for file in self._files)]
        self.rows = self._starts[-1]
        self._first_row = self._raw(0, 0, 1)[0]

    def column(self, index: int) -> str:
        """Return how messages call a column."""
        return f"column {index}"

    def first_field(self, column: int) -> str:
        """Return a field of the first row as text."""
        return repr(float(self._first_row[column]))

    def facts(self, missing: frozenset[str], rows: int | None = None) -> list[ColumnFacts]:
        """Return what the numbers of every column are: nan is a gap, where there may be gaps."""
        facts = [ColumnFacts() for _ in range(self.columns)]
        stop = min(self.rows, rows or self.rows)
        step = max(1, _BLOCK_VALUES // self.columns)
        for first in range(0, stop, step):
            raw, spans = self._rows(first, min(first + step, stop))
            table = Table(raw, raw[:, :0], None, np.zeros(0), np.zeros(0), spans)
            for column, known in enumerate(facts):
                _count(known, raw[:, column], bool(missing), table)
        return facts

    def read(self, fields: Fields, hashed: bool = True) -> tuple[Table, str | None]:
        """Return (all rows, the SHA-256 of the files)."""
        index = RowIndex()
        x = np.empty((self.rows, len(fields.inputs)), fields.input_type.dtype)
        y = np.empty((self.rows, len(fields.targets)))
        at, spans = 0, []
        for table in self.blocks(fields, max(1, _BLOCK_VALUES // self.columns), index=index):
            rows = len(table.inputs)
            x[at : at + rows], y[at : at + rows] = table.inputs, table.targets
            for span in table.spans:
                span.at += at
            spans += table.spans
            at += rows
        return Table(x, y, None, table.low, table.high, spans), joint_digest(index.digests)

    def blocks(
        self, fields: Fields, rows: int, *, index: RowIndex | None = None, step: int | None = None
    ) -> Iterator[Table]:
        """Yield the rows in blocks of `rows`."""
        low, high = np.full(len(fields.inputs), np.inf), np.full(len(fields.inputs), -np.inf)
        for first in range(0, self.rows, rows):
            table, raw = self._range(fields, first, min(first + rows, self.rows))
            low = np.minimum(low, raw.min(axis=0)[fields.inputs])
            high = np.maximum(high, raw.max(axis=0)[fields.inputs])
            table.low, table.high = low, high
            yield table
        if index is not None:
            index.starts = [*range(0, self.rows, step or rows), self.rows]
            index.digests = [bytes.fromhex(sha256_file(file.path)) for file in self._files]

    def read_range(self, fields: Fields, start: int, stop: int, rows: int) -> Table:
        """Return the rows [start, stop), without `low` and `high`. Raises DataError if they have changed."""
        return self._range(fields, start, stop)[0]

    def _range(self, fields: Fields, start: int, stop: int) -> tuple[Table, np.ndarray]:
        """Return (the rows [start, stop), the same as the files hold them). Raises DataError for a number that is not
        finite or too large for its type."""
        raw, spans = self._rows(start, stop)
        x, y = self._inputs(raw, fields.inputs, fields.input_type.dtype), raw[:, fields.targets].astype(np.float64)
        table = Table(x, y, None, np.zeros(0), np.zeros(0), spans)
        for columns, values in ((fields.inputs, x), (fields.targets, y)):
            self._check_finite(table, columns, values, raw)
        return table, raw

    def _rows(self, start: int, stop: int) -> tuple[np.ndarray, list[Span]]:
        """Return the rows [start, stop) as the files hold them, and where they stand."""
        arrays, spans = [], []
        at = start
        while at < stop:
            number = bisect_right(self._starts, at) - 1
            within = at - self._starts[number]
            count = min(stop, self._starts[number + 1]) - at
            path = self._files[number].path if len(self._files) > 1 else None
            spans.append(Span(at - start, within, within + 1, path, word="index"))
            arrays.append(self._raw(number, within, count))
            at += count
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays), spans

    def _inputs(self, raw: np.ndarray, inputs: list[int], dtype: str) -> np.ndarray:
        low, high = inputs[0], inputs[-1] + 1
        wanted = raw[:, low:high] if inputs == list(range(low, high)) else raw[:, inputs]
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.ascontiguousarray(wanted, dtype)
        if dtype == "uint8" and not np.array_equal(x, wanted):
            raise NotBytes(f"{self.path}: a number that is no byte")
        return x

    def _check_finite(self, table: Table, columns: list[int], values: np.ndarray, raw: np.ndarray) -> None:
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return
        row, column = np.argwhere(~np.isfinite(values))[0].tolist()
        found = raw[row, columns[column]]
        expected = "a finite number; correct or remove the row"
        if np.isfinite(found):
            expected = "at most 3.4e38 for float32; correct it or use --dtype float64"
        place = table.row(row) if len(self._files) > 1 else f"{self.path}, {table.row(row)}"
        raise DataError(f"{place}, {self.column(columns[column])}: found {found}, expected {expected}")

    def _raw(self, number: int, first: int, rows: int) -> np.ndarray:
        """Read rows of one file as they are (rows, columns)."""
        file, size = self._files[number], self._files[number].dtype.itemsize
        if not file.in_columns:
            data = self._extents.read_one(number, file.offset + first * file.columns * size, rows * file.columns * size)
            return np.frombuffer(data, file.dtype).reshape(rows, file.columns)
        raw = np.empty((rows, file.columns), file.dtype)
        for column in range(file.columns):
            data = self._extents.read_one(number, file.offset + (column * file.rows + first) * size, rows * size)
            raw[:, column] = np.frombuffer(data, file.dtype)
        return raw


def _count(facts: ColumnFacts, values: np.ndarray, has_gaps: bool, table: Table) -> None:
    """Add what the values of a column are to its facts; `table` names their rows."""
    is_finite, is_nan = np.isfinite(values), np.isnan(values)
    finite, gaps = int(is_finite.sum()), int(is_nan.sum()) if has_gaps else 0
    facts.numbers, facts.gaps = facts.numbers + finite, facts.gaps + gaps
    facts.texts += len(values) - finite - gaps
    odd = ~is_finite & ~is_nan if has_gaps else ~is_finite

    def first(chosen: np.ndarray) -> Place | None:
        at = int(chosen.argmax())
        return Place(table.row(at), str(values[at])) if chosen[at] else None

    facts.not_number = facts.not_number or first(odd)
    facts.infinite = facts.infinite or first(np.isinf(values))
    facts.not_date = facts.not_date or first(is_finite | odd)


def read_npy_header(file) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return (shape, whether it is kept column after column, type) of an array in the NPY format.

    Leaves `file` where the numbers begin. Raises ValueError for a damaged header, and what reading the file raises.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"unknown version {version}")
    size_bytes = 2 if version == (1, 0) else 4
    size = int.from_bytes(file.read(size_bytes), "little")
    text = file.read(min(size, _HEADER_BYTES + 1))
    if not len(text) == size <= _HEADER_BYTES:
        raise ValueError("a header that is cut, or too long")
    return _header_of(text)


def _header_of(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return what read_npy_header says from the text of a header. Raises ValueError."""
    try:
        text = re.sub(rb"(\d)L\b", rb"\1", text)  # whole numbers as Python 2 wrote them
        header = ast.literal_eval(text.decode("latin-1").strip())
        shape, in_columns, dtype = header["shape"], header["fortran_order"], np.dtype(header["descr"])
        are_sizes = all(type(size) is int and 0 <= size < 1 << 63 for size in shape)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError("a header that is none") from error
    is_typed = header["descr"] is not None and type(shape) is tuple and type(in_columns) is bool
    if len(header) != 3 or not is_typed or not are_sizes:
        raise ValueError("a header that is none")
    return shape, in_columns, dtype


def _read_header(path: str) -> _Header:
    with Source(path) as source:
        try:
            shape, in_columns, dtype = read_npy_header(source)
        except ValueError as error:
            raise DataError(f"{path}: damaged NPY file ({' '.join(str(error).split())}); write it again") from error
        offset = source.tell()
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise DataError(
            f"{path}: {dtype} of shape {shape}, expected a table of numbers (rows, columns), the targets among the "
            f"columns; for images save x and y with numpy.savez"
        )
    if min(shape) < 1:
        raise DataError(f"{path}: no rows or columns (shape {shape}), expected at least one; add the data")
    found, expected = os.path.getsize(path) - offset, math.prod(shape) * dtype.itemsize
    if found != expected:
        raise DataError(
            f"{path}: {found} bytes of numbers, expected {expected} as its header says; copy it again or write it anew"
        )
    return _Header(path, *shape, dtype, in_columns, offset)
