"""Tables in NPY files (numpy.save): an array of numbers (rows, columns)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..utils import DataError
from .assemble import Part, TypedSource, check_same_columns
from .blocks import array_block
from .records import new_rows
from .source import Files, Source

MAGIC = b"\x93NUMPY"
_HEADER_BYTES = 1 << 16  # NumPy's own headers have some hundred
_BLOCK_VALUES = 1 << 18  # read at a time


@dataclass
class _Header:
    """The header of an NPY file: the facts about its array."""

    shape: tuple[int, ...]
    in_columns: bool  # column after column, as Fortran and pandas keep a matrix
    dtype: np.dtype


class NpySource(TypedSource):
    """The TableSource of NPY. Raises DataError for other arrays."""

    row_word, first_line = "index", 0

    def __init__(self, paths: list[str], path: str, options=None):
        self.files, self._headers = Files(paths), []
        for file in paths:
            with Source(file) as source:
                self._headers.append(_read_header(source))
            check_same_columns(file, [""] * self._headers[-1].shape[1], paths[0], [""] * self._headers[0].shape[1])
        self._open(path, None, [header.shape[0] for header in self._headers], self._headers[0].shape[1])

    def column(self, place: int) -> str:
        """Return how messages call a column."""
        return f"column {place}"

    def _parts(self, number: int, places: list[int]) -> Iterator[Part]:
        with Source(self.files.paths[number]) as source:
            header = _read_header(source)
            if header != self._headers[number]:
                raise Files.changed(source.path)
            rows, columns = header.shape
            if header.in_columns:
                chosen, read = set(places), partial(_read, source, header.dtype)
                found = {place: values for place in range(columns) if (values := read((rows,), place in chosen)).size}
                yield Part(rows, lambda place: array_block(found[place]))
                return
            step = max(1, _BLOCK_VALUES // columns)
            for first in range(0, rows, step):
                count = min(step, rows - first)
                yield Part(count, partial(_block, _read(source, header.dtype, (count, columns))))


def _block(array: np.ndarray, place: int):
    return array_block(array[:, place])


def _read(source: Source, dtype: np.dtype, shape: tuple[int, ...], is_kept: bool = True) -> np.ndarray:
    """Return the next numbers; none if they are only passed over."""
    room = new_rows if len(shape) == 1 else np.empty  # a column of all rows, a block of some
    array = room(shape, np.uint8 if dtype.kind == "b" else dtype)
    found = source.fill(array)
    if found != array.nbytes:
        raise DataError(f"{source.path}: its numbers end too early; copy it again or write it anew")
    return array if is_kept else array[:0]


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


def _read_header(source: Source) -> _Header:
    path = source.path
    try:
        shape, in_columns, dtype = read_npy_header(source)
    except ValueError as error:
        raise DataError(f"{path}: damaged NPY file ({' '.join(str(error).split())}); write it again") from error
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise DataError(
            f"{path}: {dtype} of shape {shape}, expected a table of numbers (rows, columns), the targets among the "
            f"columns; for images save x and y with numpy.savez"
        )
    if min(shape) < 1:
        raise DataError(f"{path}: no rows or columns (shape {shape}), expected at least one; add the data")
    expected = math.prod(shape) * dtype.itemsize
    found = min(source.most, expected) if source.is_gzip else source.most - source.tell()
    if found != expected:
        raise DataError(
            f"{path}: {found} bytes of numbers, expected {expected} as its header says; copy it again or write it anew"
        )
    return _Header(shape, in_columns, dtype)
