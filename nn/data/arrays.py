"""Arrays and images. A reader of images takes (path, dtype, labelled) and gives Arrays:
NPZ, IDX and CIFAR-10 binary; bytes stay bytes (uint8). NPY holds a table. Files of
pictures: pictures.py.

What a header declares is compared with the file's size before any memory is taken for
it.
"""

from __future__ import annotations

import io
import math
import os
import zlib
from functools import partial
from typing import NamedTuple

import numpy as np

from ..utils import DataError, InputNotFound, sha256_file
from .column import is_coarse
from .dataset import CHANGE, Targets
from .frames import columns_of
from .records import in_rows, new_rows
from .source import BLOCK, DEFLATE_RATIO, Source, fill, readable, reason_of
from .typed import Opened

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_RECORD = 1 + 3 * 32 * 32  # the label, then the red, green and blue plane
CIFAR_CLASSES = 10


class Arrays(NamedTuple):
    """Arrays that were read: x (rows, inputs) or (rows, C, H, W), its targets, the
    SHA-256 of all files, if any; of pictures their names, and the number that stands
    for white; now: that of Dataset."""

    x: np.ndarray
    targets: Targets | None
    sha256: str | None
    names: list[str] | None = None
    pixel_range: int | None = None
    now: list[int] | None = None


def kept_numbers(path: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """Return x as it is kept: uint8 as it is, other numbers in dtype (float64 where
    float32 would blur a table)."""
    if not x.size:
        raise DataError(
            f"{path}: no rows (shape {x.shape}), expected at least one; add the data"
        )
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
            row = start + np.argwhere(~is_finite)[0, 0]
            raise DataError(
                f"{place}, index {row}: nan or infinite, expected finite numbers; "
                "correct or remove the row"
            )


def _of_files(x: np.ndarray, targets: Targets | None, *paths: str) -> Arrays:
    with readable(paths[0]):
        return Arrays(x, targets, sha256_file(*paths))


def _filled(
    file, shape: tuple[int, ...], kind: np.dtype, most: int, order: str = "C"
) -> np.ndarray:
    """Read the array that is the rest of a file, of at most `most` bytes. Raises
    ValueError for fewer or more."""
    size = math.prod(shape) * kind.itemsize
    array = new_rows(shape if size <= most else (0,), kind, order)
    size_read = fill(file, array)
    # reading on also compares the checksum of an archive
    if size_read < size or file.read(1):
        if size > most:
            count = "too few"
        elif size_read == size:
            count = "more"
        else:
            count = f"only {size_read}"
        raise ValueError(
            f"{count} bytes, expected {size} for the {'x'.join(map(str, shape))} "
            "values its header declares"
        )
    return array


# -- NPY and NPZ -----------------------------------------------------------------------


def npy(path: str) -> Opened:
    """Read an array of numbers (rows, columns). Raises DataError for another array."""
    with Source(path) as source:
        try:
            array = _numpy_array(source, source.most, path, "biuf", 2)
        except ValueError as error:
            raise DataError(
                f"{path}: damaged NPY file ({reason_of(error)}); write it again"
            ) from error
    return columns_of(array)


def _numpy_array(
    file, most: int, place: str, kinds: str, axes: int | None = None
) -> np.ndarray:
    """Read an array in the NPY format from a file of at most `most` bytes. kinds: of
    its type; axes: None for any.

    Raises ValueError for damage, DataError for another array, and what reading the file
    raises.
    """
    start = file.read(10)
    text = file.read(int.from_bytes(start[8:], "little"))
    try:
        # later versions are for records of many fields
        if start[:8] != b"\x93NUMPY\1\0":
            raise ValueError("unknown version")
        shape, in_columns, kind = np.lib.format.read_array_header_1_0(
            io.BytesIO(start[8:] + text)
        )
        if not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
            raise ValueError("sizes that are none")
    except Exception as error:  # NumPy raises whatever Python does that reads its text
        raise ValueError("a header that is none") from error
    array_text = f"{place}: {kind} of shape {shape}"
    if kind.kind not in kinds or (axes and len(shape) != axes):
        expected = "numbers (or text for y); Python objects are never loaded"
        if axes:
            expected = (
                "a table of numbers (rows, columns), the targets among the columns; for "
                "images save x and y with numpy.savez"
            )
        raise DataError(f"{array_text}, expected {expected}")
    # other files of the table may have rows
    is_part = axes == 2 and shape[0] == 0 and shape[1] > 0
    if not is_part and not math.prod(shape) * kind.itemsize:
        raise DataError(
            f"{array_text}: no rows or columns, expected at least one; add the data"
        )
    most -= len(start) + len(text)
    array = _filled(file, shape, kind, most, "F" if in_columns else "C")
    if axes and kind.kind == "b":
        return array.view(np.uint8)
    return array


def read_npz(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read the arrays x and y of an NPZ file. x: (rows, inputs), (rows, H, W), (rows,
    C, H, W) or, with 1, 3 or 4 channels, (rows, H, W, C). y: class indices or names
    (rows,), or numbers (rows, outputs). now, which may be left out: see Dataset.
    Nothing is unpickled.
    """
    import zipfile  # here: few data are in archives

    arrays = {}
    try:
        with readable(path), zipfile.ZipFile(path) as archive:
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            if "x" not in names or (labelled and "y" not in names):
                raise DataError(
                    f"{path}: holds the arrays {', '.join(names) or '(none)'}, "
                    "expected x and y; save it with numpy.savez(path, x=..., y=...)"
                )
            for name in sorted({"x", "y", "now"} & {*names}):
                info = archive.getinfo(f"{name}.npy")
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{name} is compressed in an unknown way")
                packed = min(info.compress_size + 1, os.path.getsize(path))
                most = min(DEFLATE_RATIO * packed, info.file_size)
                place = f"{path}, array {name}"
                with archive.open(info) as file:
                    arrays[name] = _numpy_array(file, most, place, "biufUS")
        images = images_of(arrays["x"], arrays.get("y"), dtype, path)
        now = _npz_now(arrays.get("now"), images, path)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
        SystemError,
        ValueError,
    ) as error:
        # a SystemError: of text that holds no characters
        raise DataError(
            f"{path}: damaged or not an NPZ file ({reason_of(error)}); write it again"
        ) from error
    return _of_files(images.x, images.targets, path)._replace(now=now)


def images_of(x: np.ndarray, y, dtype: str, place: str = "the array") -> Arrays:
    """Return images and the targets beside them, None if there are none, as those of an
    NPZ file."""
    if not 2 <= x.ndim <= 4 or x.dtype.kind in "US":
        raise DataError(
            f"{place}, array x: {x.dtype} of shape {x.shape}, expected numbers of "
            "shape (rows, inputs), (rows, H, W) or (rows, C, H, W); reshape it"
        )
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4):
        x = x.transpose(0, 3, 1, 2)
    targets = None
    if y is not None:
        targets = _npz_targets(f"{place}, array y", np.asarray(y), len(x))
    return Arrays(kept_numbers(place, x, dtype), targets, None)


def _npz_now(now: np.ndarray | None, images: Arrays, path: str) -> list[int] | None:
    """Return the array now of an NPZ file, None without it or without targets. Raises
    DataError."""
    if now is None or images.targets is None:
        return None
    outputs = images.targets.values.shape[1]
    inputs = math.prod(images.x.shape[1:])
    is_whole = now.dtype.kind in "iu" and now.shape == (outputs,)
    if not is_whole or not ((now >= CHANGE) & (now < inputs)).all():
        raise DataError(
            f"{path}, array now: expected for each of the {outputs} outputs the place of its value now in a row of x, "
            f"0 to {inputs - 1}, or {CHANGE} for a change; correct it"
        )
    return now.tolist()


def _npz_targets(place: str, y: np.ndarray, rows: int) -> Targets:
    if y.dtype.kind == "O":
        y = np.array(y.tolist())
    if y.ndim not in (1, 2) or len(y) != rows:
        raise DataError(
            f"{place}: shape {y.shape}, expected ({rows},) or ({rows}, outputs), one "
            "row for each of x; correct it"
        )
    row = "index {}".format
    if y.dtype.kind in "US":
        if y.ndim == 2:
            raise DataError(
                f"{place}: text of shape {y.shape}, expected ({rows},) class names; correct it"
            )
        if y.dtype.kind == "S":
            y = np.char.decode(y, "utf-8", "replace")
        names, codes = np.unique(y, return_inverse=True)
        values = codes.reshape(rows, 1).astype(np.float64)
        return Targets(values, place, row, names.tolist())
    values = y.reshape(rows, -1).astype(np.float64)
    check_finite(place, values)
    return Targets(values, place, row)


# -- IDX -------------------------------------------------------------------------------


def read_idx(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read images (rows, 1, H, W), or vectors (rows, inputs), and the labels file
    beside them."""
    x = _idx_array(path)
    if not x.size:
        raise DataError(
            f"{path}: no images, expected at least one; copy or download it again"
        )
    if x.ndim == 1:
        raise DataError(
            f"{path}: labels (magic number 0x000008{x.ndim:02x}), expected images "
            "(0x00000803); give the file of images; its labels are found beside it"
        )
    if x.ndim == 3:
        x = x[:, None]
    folder, image_name = os.path.split(path)
    name = image_name.replace("images", "labels").replace("idx3", "idx1")
    unpacked = name.removesuffix(".gz")
    # packed as the images are, or not
    names = dict.fromkeys([name, unpacked, f"{unpacked}.gz"])
    places = [os.path.join(folder, name) for name in names if name != image_name]
    labels_path = next(filter(os.path.exists, places), None)
    targets = None
    if labels_path is not None:
        labels = _idx_array(labels_path)
        if labels.ndim != 1 or labels.dtype.kind == "f":
            raise DataError(
                f"{labels_path}: no labels, expected whole numbers (magic number 0x00000801)"
            )
        if len(labels) != len(x):
            raise DataError(
                f"{labels_path}: {len(labels)} labels, expected {len(x)}, one for "
                f"each row of {path}; use files that belong together"
            )
        targets = _label_targets(labels_path, labels)
    elif labelled:
        raise InputNotFound(
            f"{path}: no labels file beside it, expected "
            f"{os.path.basename(places[0])}; put it there or rename it"
        )
    return _of_files(
        kept_numbers(path, x, dtype), targets, *filter(None, (path, labels_path))
    )


def _idx_array(path: str) -> np.ndarray:
    with Source(path) as source:
        magic = source.read(4)
        is_idx = len(magic) == 4 and magic[:2] == b"\0\0"
        if not is_idx or magic[2] not in IDX_TYPES or not 1 <= magic[3] <= 4:
            raise DataError(
                f"{path}: magic number 0x{magic.hex()}, expected 0x00000803 (images) "
                "or 0x00000801 (labels); the file is damaged or not an IDX file"
            )
        sizes = source.read(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise DataError(
                f"{path}: ends within its header, expected images; copy or download it again"
            )
        shape = tuple(np.frombuffer(sizes, ">u4").tolist())
        try:
            return _filled(source, shape, np.dtype(IDX_TYPES[magic[2]]), source.most)
        except ValueError as error:
            raise DataError(f"{path}: {error}; copy or download it again") from error


def _label_targets(place: str, labels: np.ndarray) -> Targets:
    values = labels.astype(np.float64).reshape(-1, 1)
    return Targets(values, place, lambda row: f"label {row + 1}", are_indices=True)


# -- CIFAR-10 --------------------------------------------------------------------------


def read_cifar(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read images (rows, 3, 32, 32) uint8."""
    with Source(path) as source:
        size = source.most
        # a large file of another kind is not read
        if source.is_gzip or size % CIFAR_RECORD == 0:
            data = b"".join(iter(partial(source.read, BLOCK), b""))
            size = len(data)
    if size % CIFAR_RECORD:
        raise DataError(
            f"{path}: {size} bytes, expected whole CIFAR-10 records of "
            f"{CIFAR_RECORD}; the file is cut or in another format"
        )
    images = np.frombuffer(data, np.uint8).reshape(-1, CIFAR_RECORD)
    labels = images[:, :1]
    if labels.max() >= CIFAR_CLASSES:
        row = np.argmax(labels >= CIFAR_CLASSES)
        raise DataError(
            f"{path}, record {row + 1}: label {labels[row, 0]}, expected 0 to "
            f"{CIFAR_CLASSES - 1}; the file is damaged or not a CIFAR-10 binary"
        )
    x = in_rows(images[:, 1:]).reshape(-1, 3, 32, 32)
    return _of_files(x, _label_targets(path, labels), path)
