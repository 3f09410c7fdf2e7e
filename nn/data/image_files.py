"""Image data and arrays: IDX, CIFAR-10 binary, NPZ and folders of class folders, recognised by their content.

Every reader takes (path, dtype, labelled) and gives Arrays; bytes stay bytes (uint8). What a header declares
is compared with the file's size before any memory is taken for it.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .source import DEFLATE_RATIO, Pieces, Source
from .targets import Targets, is_coarse
from .utils import DataError, InputNotFound, NnError, log, os_reason, sha256_file

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD = 1 + 3 * 32 * 32  # the label, then the red, green and blue plane
CIFAR_CLASSES = 10
CIFAR_NAMES = "batches.meta.txt"
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".ppm")
_TEXT_CONTROLS = b"\t\n\r\x0b\x0c\x1b"


@dataclass
class Arrays:
    """What a reader found: x (rows, inputs) or (rows, C, H, W), its targets, the SHA-256 of all files.

    now: as in Dataset.
    """

    x: np.ndarray
    targets: Targets | None
    sha256: str
    now: list[int] | None = None


def find_reader(path: str) -> Callable[[str, str, bool], Arrays] | None:
    """The reader for what is at `path`, None if it is text (CSV). Raises DataError for other content."""
    if os.path.isdir(path):
        return read_folder
    with Source(path) as source:
        start = source.read(4096)
        if start.startswith(b"PK\x03\x04"):
            if source.is_gzip:
                raise DataError(f"{path}: a gzipped NPZ file, expected the NPZ itself; unpack it with gunzip")
            return read_npz
    if len(start) >= 4 and start[:2] == b"\0\0" and start[2] in IDX_TYPES and 1 <= start[3] <= 4:
        return read_idx
    controls = [at for at, byte in enumerate(start) if byte < 32 and byte not in _TEXT_CONTROLS]
    if not controls:
        return None
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path}: text in UTF-16, expected UTF-8; save it again as UTF-8 or plain CSV")
    name = os.path.basename(path).lower()
    if "idx" in name or "ubyte" in name:
        raise DataError(
            f"{path}: magic number 0x{start[:4].hex()}, expected 0x00000803 (images of bytes) or another of "
            f"the IDX format; the file is damaged or no IDX file"
        )
    if start[0] < CIFAR_CLASSES:
        return read_cifar
    raise DataError(
        f"{path}: begins with the bytes {start[:4].hex(' ')} and is no text (byte {controls[0] + 1}), "
        f"expected CSV, NPZ, IDX or CIFAR-10 binary; convert it to one of these"
    )


# -- IDX -----------------------------------------------------------------------------------------------------


def read_idx(path: str, dtype: str, labelled: bool) -> Arrays:
    """Images (rows, 1, H, W), or vectors (rows, inputs), and the labels file that lies beside them by "
    "name."""
    digest = hashlib.sha256()
    x = _idx_array(path, digest)
    if not x.size:
        raise DataError(f"{path}: no images, expected at least one; copy or download it again")
    if x.ndim == 1:
        raise DataError(
            f"{path}: labels (magic number 0x000008{x.ndim:02x}), expected images (0x00000803); give the "
            f"images' file, the labels are found beside it"
        )
    if x.ndim == 3:
        x = x[:, None]
    labels_path = _labels_file(path)
    if labels_path is None and labelled:
        raise InputNotFound(
            f"{path}: no labels file beside it, expected {_labels_names(path)[0]}; put it there or rename it"
        )
    targets = None
    if labels_path is not None:
        labels = _idx_array(labels_path, digest)
        if labels.ndim != 1 or labels.dtype.kind == "f":
            raise DataError(f"{labels_path}: no labels, expected whole numbers (magic number 0x00000801)")
        targets = _label_targets(labels_path, path, labels, len(x))
    return Arrays(_numbers(path, x, dtype), targets, digest.hexdigest())


def _idx_array(path: str, digest) -> np.ndarray:
    with Source(path, digest) as source:
        magic = source.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or not 1 <= magic[3] <= 4:
            raise DataError(
                f"{path}: magic number 0x{magic.hex()}, expected 0x00000803 (images) or 0x00000801 (labels); "
                f"the file is damaged or no IDX file"
            )
        sizes = source.read(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise DataError(f"{path}: ends within its header, expected images; copy or download it again")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        kind = np.dtype(IDX_TYPES[magic[2]])
        expected = math.prod(shape) * kind.itemsize
        fits = expected <= source.most
        array = np.empty(shape if fits and expected else 0, kind)
        found = source.fill(array)
        if found < expected or source.read(1):
            count = "too few" if not fits else "more" if found == expected else f"only {found}"
            raise DataError(
                f"{path}: {count} bytes, expected {expected} for the {'x'.join(map(str, shape))} values its "
                f"header declares; copy or download it again"
            )
    return array


def _labels_names(path: str) -> list[str]:
    name = os.path.basename(path).replace("images", "labels").replace("idx3", "idx1")
    return [name, name.removesuffix(".gz") if name.endswith(".gz") else f"{name}.gz"]


def _labels_file(path: str) -> str | None:
    folder, own_name = os.path.split(path)
    for name in _labels_names(path):
        if name != own_name and os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def _label_targets(labels_path: str, path: str, labels: np.ndarray, rows: int, **more) -> Targets:
    if len(labels) != rows:
        raise DataError(
            f"{labels_path}: {len(labels)} labels, expected {rows}, one for each row of {path}; use files "
            f"that belong together"
        )
    values = labels.astype(np.float64).reshape(rows, -1)
    more.setdefault("are_indices", True)
    return Targets(values, labels_path, lambda row: f"label {row + 1}", **more)


# -- CIFAR-10 ------------------------------------------------------------------------------------------------


def read_cifar(path: str, dtype: str, labelled: bool) -> Arrays:
    """Images (rows, 3, 32, 32) uint8; class names from batches.meta.txt beside the file, if it is there."""
    digest = hashlib.sha256()
    pixels, labels = Pieces((CIFAR_RECORD - 1,), np.uint8), []
    rows = 0
    with Source(path, digest) as source:
        while block := source.read(pixels.capacity * CIFAR_RECORD):
            if len(block) % CIFAR_RECORD:
                raise DataError(
                    f"{path}: {rows * CIFAR_RECORD + len(block)} bytes, expected whole CIFAR-10 records of "
                    f"{CIFAR_RECORD} (or CSV, NPZ or IDX); the file is cut or in another format"
                )
            records = np.frombuffer(block, np.uint8).reshape(-1, CIFAR_RECORD)
            pixels.room()[: len(records)] = records[:, 1:]
            labels.append(records[:, 0].copy())
            rows += len(records)
    labels = np.concatenate(labels)
    if labels.max() >= CIFAR_CLASSES:
        first = int(np.argmax(labels >= CIFAR_CLASSES))
        raise DataError(
            f"{path}, record {first + 1}: label {labels[first]}, expected 0 to {CIFAR_CLASSES - 1}; the file "
            f"is damaged or no CIFAR-10 binary"
        )
    names = _cifar_names(path, digest)
    targets = _label_targets(path, path, labels, rows, names=names, are_classes=names is not None)
    return Arrays(pixels.joined(rows).reshape(rows, *CIFAR_SHAPE), targets, digest.hexdigest())


def _cifar_names(path: str, digest) -> list[str] | None:
    names_path = os.path.join(os.path.dirname(path), CIFAR_NAMES)
    if not os.path.isfile(names_path):
        return None
    with Source(names_path, digest) as source:
        names = source.read(1 << 16).decode("utf-8", "replace").split("\n")
    names = [name.strip() for name in names if name.strip()]
    if len(names) != CIFAR_CLASSES or len(set(names)) != CIFAR_CLASSES:
        raise DataError(
            f"{names_path}: {len(names)} class names, expected {CIFAR_CLASSES} different ones; correct or "
            f"remove it"
        )
    return names


# -- NPZ -----------------------------------------------------------------------------------------------------


def read_npz(path: str, dtype: str, labelled: bool) -> Arrays:
    """Arrays x and y of an NPZ file. x: (rows, inputs), (rows, H, W), (rows, C, H, W) or, with 1, 3 or 4
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
        raise DataError(f"{path}: damaged or no NPZ file ({reason}); write it again") from error
    except OSError as error:
        raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
    x = _channels_first(path, x)
    targets = None if y is None else _npz_targets(path, y, len(x))
    now = None if now is None else _npz_now(path, now, targets.width, math.prod(x.shape[1:]))
    return Arrays(_numbers(path, x, dtype), targets, sha256_file(path), now)


def _npz_now(path: str, now: np.ndarray, outputs: int, inputs: int) -> list[int]:
    if now.dtype.kind not in "iu" or now.shape != (outputs,) or not (now.min() >= 0 and now.max() < inputs):
        raise DataError(
            f"{path}, array now: {now.dtype} of shape {now.shape}, expected an index from 0 to {inputs - 1} "
            f"for each of the {outputs} targets; correct it or leave it out"
        )
    return now.tolist()


def _npy_array(archive: zipfile.ZipFile, member: str, path: str) -> np.ndarray:
    """One array, read only if its header and the archive agree on its size. Raises ValueError for damage."""
    info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member} is compressed in an unknown way")
    most = DEFLATE_RATIO * min(info.compress_size + 1, os.path.getsize(path))
    if info.file_size > most:
        raise ValueError(f"{member} declares a size that cannot be")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"{member} has the unknown version {version}")
        shape, in_columns, kind = readers[version](file)
        if kind.hasobject or kind.kind not in "biufUS":
            raise DataError(
                f"{path}: array {member[:-4]} has the type {kind}, expected numbers (or text for y); Python "
                f"objects are never loaded"
            )
        if math.prod(shape) * kind.itemsize != info.file_size - file.tell():
            raise ValueError(f"{member} is not as long as its header says")
        array = np.empty(shape, kind, order="F" if in_columns else "C")
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
            f"{place}: shape {y.shape}, expected ({rows},) or ({rows}, outputs) as x has rows; correct it"
        )
    row = "index {}".format
    if y.dtype.kind in "US":
        if y.ndim == 2:
            raise DataError(f"{place}: text of shape {y.shape}, expected ({rows},) class names; correct it")
        text = np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y
        names, codes = np.unique(text, return_inverse=True)
        return Targets(codes.reshape(rows, 1).astype(np.float64), place, row, names.tolist())
    values = y.reshape(rows, -1).astype(np.float64)
    _check_finite(place, values)
    return Targets(values, place, row)


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


# -- folders -------------------------------------------------------------------------------------------------


def read_folder(path: str, dtype: str, labelled: bool) -> Arrays:
    """Images (rows, 1 or 3, H, W) uint8 of a folder whose folders are the classes; sorted by class, then "
    "name."""
    files, classes = _image_files(path)
    shape = _common_shape(files)
    x = np.empty((len(files), *shape), np.uint8)
    digest = hashlib.sha256()
    for row, file in enumerate(files):
        data = file.read_bytes()
        digest.update(os.fsencode(f"{file.parent.name}/{file.name}\0{len(data)}\0"))
        digest.update(data)
        x[row] = _pixels(file, data, shape)
    index = {name: i for i, name in enumerate(classes)}
    labels = np.array([index[file.parent.name] for file in files], np.float64).reshape(-1, 1)
    targets = Targets(labels, path, lambda row: f"image {files[row]}", classes, are_classes=True)
    return Arrays(x, targets, digest.hexdigest())


def _image_files(path: str) -> tuple[list[Path], list[str]]:
    """(the images, the class names), both in a fixed order: class folders called by numbers in theirs."""
    folders = [entry for entry in Path(path).iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    if not folders:
        raise DataError(
            f"{path}: no folders in it, expected one folder of images for each class (or CSV or NPY files); make them"
        )
    by_number = all(folder.name.isdecimal() for folder in folders)
    folders.sort(key=lambda folder: (int(folder.name) if by_number else 0, folder.name))
    files, others = [], 0
    for folder in folders:
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            if file.name.startswith("."):
                continue
            if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file():
                files.append(file)
            else:
                others += 1
    if not files:
        raise DataError(f"{path}: no images in its folders, expected {', '.join(IMAGE_SUFFIXES)}; add some")
    if others:
        log.warning("%s: files that are no images were left out: %d", path, others)
    return files, [folder.name for folder in folders]


def _open_image(file: Path, data: bytes | None = None):
    try:
        from PIL import Image
    except ImportError as error:
        raise NnError(
            "reading folders of images needs Pillow, which is not installed; install it with: "
            'python -m pip install "nn-trainer[images]"'
        ) from error
    try:
        return Image.open(file if data is None else io.BytesIO(data), formats=("PNG", "JPEG", "PPM"))
    except Exception as error:  # a decoder that meets damage raises whatever it stumbles over
        raise _unreadable(file, error) from error


def _common_shape(files: list[Path]) -> tuple[int, int, int]:
    """(channels, height, width) of all images, from their headers: 3 channels if any of them has colours."""
    size, channels = None, 1
    for file in files:
        with _open_image(file) as image:
            if image.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"):
                raise DataError(
                    f"{file}: an image of mode {image.mode}, expected 8 bits a channel; convert it to 8-bit "
                    f"PNG"
                )
            size = size or image.size
            if image.size != size:
                raise DataError(
                    f"{file}: {image.width}x{image.height} pixels, expected {size[0]}x{size[1]} as "
                    f"{files[0]} has; bring all images to one size"
                )
            if image.mode not in ("1", "L", "LA"):
                channels = 3
    return channels, size[1], size[0]


def _pixels(file: Path, data: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    with _open_image(file, data) as image:
        try:
            pixels = np.asarray(image.convert("L" if shape[0] == 1 else "RGB"))
        except Exception as error:
            raise _unreadable(file, error) from error
    return pixels[None] if shape[0] == 1 else pixels.transpose(2, 0, 1)


def _unreadable(file: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())
    if "cannot identify" in reason:
        reason = "not PNG, JPEG or PGM"
    return DataError(f"{file}: cannot read the image ({reason}), expected a whole one; replace or remove it")


# -- numbers -------------------------------------------------------------------------------------------------


def _numbers(path: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """x as it is kept: uint8 as it is, other numbers in dtype (float64 where float32 would blur a table)."""
    if not x.size:
        raise DataError(f"{path}: no rows (shape {x.shape}), expected at least one; add the data")
    if x.dtype == np.uint8 or x.dtype == bool:
        return np.ascontiguousarray(x, np.uint8)
    if x.ndim == 2 and dtype == "float32" and is_coarse(x.min(axis=0), x.max(axis=0)):
        dtype = "float64"
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, dtype)
    _check_finite(path, x)
    return x


def _check_finite(place: str, values: np.ndarray) -> None:
    for start in range(0, len(values), 4096):
        is_finite = np.isfinite(values[start : start + 4096])
        if not is_finite.all():
            row = start + int(np.argwhere(~is_finite)[0, 0])
            raise DataError(
                f"{place}, index {row}: nan or infinite, expected finite numbers; correct or remove the row"
            )
