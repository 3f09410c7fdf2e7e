"""Arrays: images as their readers give them, (path, dtype, labelled) in, Arrays out, and NumPy's files, a table in NPY
and the arrays x and y in NPZ, whose sizes are checked before memory is taken for them."""

from __future__ import annotations

import io
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..utils import DataError, sha256_file
from .column import Column, Targets, is_coarse
from .records import in_rows, new_rows
from .source import DEFLATE_RATIO, Source, fill, readable
from .typed import Opened, array_block


@dataclass
class Arrays:
    """Arrays that were read: x (rows, inputs) or (rows, C, H, W), its targets, the SHA-256 of all files, if any."""

    x: np.ndarray
    targets: Targets | None
    sha256: str | None


def kept_numbers(path: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """Return x as it is kept: uint8 as it is, other numbers in dtype (float64 where float32 would blur a table)."""
    if not x.size:
        raise DataError(f"{path}: no rows (shape {x.shape}), expected at least one; add the data")
    if x.dtype == np.uint8 or x.dtype == bool:
        return in_rows(x, np.uint8)
    if x.ndim == 2 and dtype == "float32" and is_coarse(x.min(axis=0), x.max(axis=0)):
        dtype = "float64"
    with np.errstate(over="ignore"):
        x = in_rows(x, dtype)
    check_finite(path, x)
    return x


def check_finite(place: str, values: np.ndarray) -> None:
    """Raise DataError for the first row that holds nan or infinity."""
    for start in range(0, len(values), 4096):
        is_finite = np.isfinite(values[start : start + 4096])
        if not is_finite.all():
            row = start + int(np.argwhere(~is_finite)[0, 0])
            raise DataError(
                f"{place}, index {row}: nan or infinite, expected finite numbers; correct or remove the row"
            )


# ---------------------------------------------------------------- NPY


def npy(path: str) -> Opened:
    """Open an array of numbers (rows, columns). Raises DataError for another array."""

    def parts(_places: list[int]) -> Iterator[tuple[int, Callable[[int], Column]]]:
        with Source(path) as source:
            shape, in_columns, dtype = _table_header(source)
            array = new_rows(shape, np.uint8 if dtype.kind == "b" else dtype, order="F" if in_columns else "C")
            if fill(source, array) != array.nbytes:
                raise DataError(f"{path}: its numbers end too early; copy it again or write it anew")
        yield len(array), lambda place: array_block(array[:, place])

    with Source(path) as source:
        rows, columns = _table_header(source)[0]
    return Opened(None, rows, parts, columns, row_word="index", first_row=0)


def _npy_header(file) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return (shape, whether it is kept column after column, type) of an array in the NPY format.

    Leaves `file` where the numbers begin. Raises ValueError for a damaged header, and what reading the file raises.
    """
    start = file.read(10)
    text = file.read(int.from_bytes(start[8:], "little"))
    try:
        if start[:8] != b"\x93NUMPY\1\0":  # later versions are for records of many fields
            raise ValueError("unknown version")
        shape, in_columns, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(start[8:] + text))
        if not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
            raise ValueError("sizes that are none")
    except Exception as error:  # NumPy raises whatever Python does that reads its text
        raise ValueError("a header that is none") from error
    return shape, in_columns, dtype


def _table_header(source: Source) -> tuple[tuple[int, int], bool, np.dtype]:
    """Return what _npy_header does of a table whose file has all of its numbers. Raises DataError."""
    path = source.path
    try:
        shape, in_columns, dtype = _npy_header(source)
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
    return shape, in_columns, dtype


# ---------------------------------------------------------------- NPZ


def read_npz(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read the arrays x and y of an NPZ file. x: (rows, inputs), (rows, H, W), (rows, C, H, W) or, with 1, 3 or 4
    channels, (rows, H, W, C). y: class indices or names (rows,), or numbers (rows, outputs). Nothing is unpickled.
    """
    try:
        with readable(path), zipfile.ZipFile(path) as archive:
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            if "x" not in names or (labelled and "y" not in names):
                raise DataError(
                    f"{path}: holds the arrays {', '.join(names) or '(none)'}, expected x and y; save it "
                    f"with numpy.savez(path, x=..., y=...)"
                )
            x = _npy_array(archive, "x.npy", path)
            y = _npy_array(archive, "y.npy", path) if "y" in names else None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: damaged or not an NPZ file ({reason}); write it again") from error
    x = _channels_first(path, x)
    targets = None if y is None else _npz_targets(path, y, len(x))
    with readable(path):
        digest = sha256_file(path)
    return Arrays(kept_numbers(path, x, dtype), targets, digest)


def images_of(x: np.ndarray, y, dtype: str) -> Arrays:
    """Return images and the targets beside them, None if there are none, as those of an NPZ file."""
    place = "the array"
    x, y = _channels_first(place, x), None if y is None else np.asarray(y)
    if y is not None and y.dtype.kind == "O":
        y = np.array(y.tolist())
    targets = None if y is None else _npz_targets(place, y, len(x))
    return Arrays(kept_numbers(place, x, dtype), targets, None)


def _npy_array(archive: zipfile.ZipFile, member: str, path: str) -> np.ndarray:
    """Read one array, if its header and the archive agree on its size. Raises ValueError for damage."""
    info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member} is compressed in an unknown way")
    most = DEFLATE_RATIO * min(info.compress_size + 1, os.path.getsize(path))
    if info.file_size > most:
        raise ValueError(f"{member} declares a size that cannot be")
    with archive.open(info) as file:
        shape, in_columns, kind = _npy_header(file)
        if kind.hasobject or kind.kind not in "biufUS":
            raise DataError(
                f"{path}: array {member[:-4]} has the type {kind}, expected numbers (or text for y); Python "
                f"objects are never loaded"
            )
        if math.prod(shape) * kind.itemsize != info.file_size - file.tell():
            raise ValueError(f"{member} is not as long as its header says")
        if info.file_size == file.tell():
            raise DataError(f"{path}: array {member[:-4]} of shape {shape} and type {kind} is empty; add the data")
        array = new_rows(shape, kind, order="F" if in_columns else "C")
        if fill(file, array) < array.nbytes or file.read(1):  # this also compares the checksum
            raise ValueError(f"{member} ends too early")
    return array


def _npz_targets(path: str, y: np.ndarray, rows: int) -> Targets:
    place = f"{path}, array y"
    if y.ndim not in (1, 2) or len(y) != rows:
        raise DataError(
            f"{place}: shape {y.shape}, expected ({rows},) or ({rows}, outputs), one row for each of x; correct it"
        )
    row = "index {}".format
    if y.dtype.kind in "US":
        if y.ndim == 2:
            raise DataError(f"{place}: text of shape {y.shape}, expected ({rows},) class names; correct it")
        text = np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y
        if y.dtype.kind == "U" and not _are_characters(y):
            raise DataError(f"{place}: text that holds no Unicode characters, expected class names; write it again")
        names, codes = np.unique(text, return_inverse=True)
        return Targets(codes.reshape(rows, 1).astype(np.float64), place, row, names.tolist())
    values = y.reshape(rows, -1).astype(np.float64)
    check_finite(place, values)
    return Targets(values, place, row)


def _are_characters(texts: np.ndarray) -> bool:
    """Return whether NumPy's text is made of Unicode's numbers, which Python takes for granted."""
    if not texts.itemsize:
        return True
    numbers = np.ascontiguousarray(texts).view(np.dtype(np.uint32).newbyteorder(texts.dtype.byteorder))
    return bool((numbers <= sys.maxunicode).all())


def _channels_first(path: str, x: np.ndarray) -> np.ndarray:
    if not 2 <= x.ndim <= 4 or x.dtype.kind in "US":
        raise DataError(
            f"{path}, array x: {x.dtype} of shape {x.shape}, expected numbers of shape (rows, inputs), "
            f"(rows, H, W) or (rows, C, H, W); reshape it"
        )
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4):
        x = x.transpose(0, 3, 1, 2)
    return x
