"""NPZ files (numpy.savez): the arrays x and y, whose sizes are checked before memory is taken for them."""

from __future__ import annotations

import math
import os
import sys
import zipfile
import zlib

import numpy as np

from ..utils import DataError, InputNotFound, os_reason, sha256_file
from .arrays import Arrays, Targets, check_finite, kept_numbers
from .npy import read_npy_header
from .source import DEFLATE_RATIO, room_for


def read_npz(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read the arrays x and y of an NPZ file. x: (rows, inputs), (rows, H, W), (rows, C, H, W) or, with 1, 3 or 4
    channels, (rows, H, W, C). y: class indices or names (rows,), or numbers (rows, outputs). now, for a
    series: for each output the index (into a flattened row of x) of its value now. Nothing is unpickled.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            if "x" not in names or (labelled and "y" not in names):
                raise DataError(
                    f"{path}: holds the arrays {', '.join(names) or '(none)'}, expected x and y; save it "
                    f"with numpy.savez(path, x=..., y=...)"
                )
            x = _npy_array(archive, "x.npy", path)
            y = _npy_array(archive, "y.npy", path) if "y" in names else None
            now = _npy_array(archive, "now.npy", path) if "now" in names and y is not None else None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: damaged or not an NPZ file ({reason}); write it again") from error
    except OSError as error:
        raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
    x = _channels_first(path, x)
    targets = None if y is None else _npz_targets(path, y, len(x))
    now = None if now is None else _npz_now(path, now, targets.width, math.prod(x.shape[1:]))
    return Arrays(kept_numbers(path, x, dtype), targets, sha256_file(path), now)


def _npz_now(path: str, now: np.ndarray, outputs: int, inputs: int) -> list[int]:
    if now.dtype.kind not in "iu" or now.shape != (outputs,) or not (now.min() >= 0 and now.max() < inputs):
        raise DataError(
            f"{path}, array now: {now.dtype} of shape {now.shape}, expected an index from 0 to {inputs - 1} "
            f"for each of the {outputs} targets; correct it or leave it out"
        )
    return now.tolist()


def _npy_array(archive: zipfile.ZipFile, member: str, path: str) -> np.ndarray:
    """Read one array, if its header and the archive agree on its size. Raises ValueError for damage."""
    info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member} is compressed in an unknown way")
    most = DEFLATE_RATIO * min(info.compress_size + 1, os.path.getsize(path))
    if info.file_size > most:
        raise ValueError(f"{member} declares a size that cannot be")
    with archive.open(info) as file:
        shape, in_columns, kind = read_npy_header(file)
        if kind.hasobject or kind.kind not in "biufUS":
            raise DataError(
                f"{path}: array {member[:-4]} has the type {kind}, expected numbers (or text for y); Python "
                f"objects are never loaded"
            )
        if math.prod(shape) * kind.itemsize != info.file_size - file.tell():
            raise ValueError(f"{member} is not as long as its header says")
        if info.file_size == file.tell():
            raise DataError(f"{path}: array {member[:-4]} of shape {shape} and type {kind} is empty; add the data")
        array = room_for(shape, kind, order="F" if in_columns else "C")
        if array.size:
            view, done = memoryview(array.reshape(-1, order="A").view(np.uint8)), 0
            while block := file.read(min(1 << 20, len(view) - done)):
                view[done : done + len(block)] = block
                done += len(block)
            if done < len(view) or file.read(1):  # this also compares the checksum
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
