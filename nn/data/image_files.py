"""Images: IDX, CIFAR-10 binary and folders of class folders.

Every reader takes (path, dtype, labelled) and gives Arrays; bytes stay bytes (uint8). What a header declares
is compared with the file's size before any memory is taken for it.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from pathlib import Path

import numpy as np

from ..utils import DataError, InputNotFound, NnError, log, needs_package, sha256_file
from .arrays import Arrays, kept_numbers
from .column import Targets, unicode_text
from .records import check_left, in_rows, new_rows
from .source import IMAGE_SUFFIXES, GrowingRows, Source, fill, readable

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD = 1 + 3 * 32 * 32  # the label, then the red, green and blue plane
CIFAR_CLASSES = 10
_PIXEL_BYTES = 8  # of an image, while it is read
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # of Pillow; the first three have no colours


# -- IDX -----------------------------------------------------------------------------------------------------


def read_idx(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read images (rows, 1, H, W), or vectors (rows, inputs), and the labels file beside them."""
    x = _idx_array(path)
    if not x.size:
        raise DataError(f"{path}: no images, expected at least one; copy or download it again")
    if x.ndim == 1:
        raise DataError(
            f"{path}: labels (magic number 0x000008{x.ndim:02x}), expected images (0x00000803); give the "
            f"file of images; its labels are found beside it"
        )
    if x.ndim == 3:
        x = x[:, None]
    labels_path = _labels_file(path)
    targets = None
    if labels_path is not None:
        labels = _idx_array(labels_path)
        if labels.ndim != 1 or labels.dtype.kind == "f":
            raise DataError(f"{labels_path}: no labels, expected whole numbers (magic number 0x00000801)")
        if len(labels) != len(x):
            raise DataError(
                f"{labels_path}: {len(labels)} labels, expected {len(x)}, one for each row of {path}; use files "
                f"that belong together"
            )
        targets = _label_targets(labels_path, labels)
    elif labelled:
        raise InputNotFound(
            f"{path}: no labels file beside it, expected {_labels_names(path)[0]}; put it there or rename it"
        )
    return _arrays(kept_numbers(path, x, dtype), targets, path, labels_path)


def _arrays(x: np.ndarray, targets: Targets | None, path: str, beside: str | None) -> Arrays:
    """Return the arrays of a file, and of the one beside it if there is one."""
    with readable():
        return Arrays(x, targets, sha256_file(path, *filter(None, [beside])))


def _idx_array(path: str) -> np.ndarray:
    with Source(path) as source:
        magic = source.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or not 1 <= magic[3] <= 4:
            raise DataError(
                f"{path}: magic number 0x{magic.hex()}, expected 0x00000803 (images) or 0x00000801 (labels); "
                f"the file is damaged or not an IDX file"
            )
        sizes = source.read(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise DataError(f"{path}: ends within its header, expected images; copy or download it again")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        kind = np.dtype(IDX_TYPES[magic[2]])
        expected = math.prod(shape) * kind.itemsize
        fits = expected <= source.most
        array = new_rows(shape if fits and expected else (0,), kind)
        found = fill(source, array)
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
    places = [os.path.join(folder, name) for name in _labels_names(path) if name != own_name]
    return next(filter(os.path.exists, places), None)


def _label_targets(place: str, labels: np.ndarray) -> Targets:
    values = labels.astype(np.float64).reshape(-1, 1)
    return Targets(values, place, lambda row: f"label {row + 1}", are_indices=True)


# -- CIFAR-10 ------------------------------------------------------------------------------------------------


def read_cifar(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read images (rows, 3, 32, 32) uint8."""
    pixels, labels = GrowingRows((CIFAR_RECORD - 1,), np.uint8), []
    rows = 0
    with Source(path) as source:
        if not source.is_gzip:
            _check_records(path, os.path.getsize(path))  # before a large file of another kind is read
        while block := source.read(pixels.capacity * CIFAR_RECORD):
            _check_records(path, rows * CIFAR_RECORD + len(block))
            records = np.frombuffer(block, np.uint8).reshape(-1, CIFAR_RECORD)
            pixels.new_block()[: len(records)] = records[:, 1:]
            labels.append(records[:, 0].copy())
            rows += len(records)
    labels = np.concatenate(labels)
    if labels.max() >= CIFAR_CLASSES:
        first = int(np.argmax(labels >= CIFAR_CLASSES))
        raise DataError(
            f"{path}, record {first + 1}: label {labels[first]}, expected 0 to {CIFAR_CLASSES - 1}; the file "
            f"is damaged or not a CIFAR-10 binary"
        )
    x = pixels.joined(rows).reshape(rows, *CIFAR_SHAPE)
    return _arrays(x, _label_targets(path, labels), path, None)


def _check_records(path: str, size: int) -> None:
    """Raise DataError unless the size is that of whole records."""
    if size % CIFAR_RECORD:
        raise DataError(
            f"{path}: {size} bytes, expected whole CIFAR-10 records of {CIFAR_RECORD}; the file "
            f"is cut or in another format"
        )


# -- folders -------------------------------------------------------------------------------------------------


@readable()
def read_folder(path: str, dtype: str, labelled: bool) -> Arrays:
    """Read images (rows, 1 or 3, H, W) uint8 of a folder whose folders are the classes; sorted by class, then
    name."""
    files, classes = _image_files(path)
    x, size, has_colours, digest = None, None, False, hashlib.sha256()
    for row, file in enumerate(files):
        with readable(file):
            data = file.read_bytes()
        digest.update(os.fsencode(f"{file.parent.name}/{file.name}\0{len(data)}\0"))
        digest.update(data)
        pixels, is_coloured = _pixels(file, data)
        if size is None:
            size = pixels.shape[:2]
            x = new_rows((len(files), *size, 3), np.uint8)
        if pixels.shape[:2] != size:
            (found, expected) = (f"{width}x{height}" for height, width in (pixels.shape[:2], size))
            raise DataError(
                f"{file}: {found} pixels, expected {expected} as in {files[0]}; resize all images to one size"
            )
        x[row], has_colours = pixels, has_colours or is_coloured
    x = in_rows(np.moveaxis(x, 3, 1)[:, : 3 if has_colours else 1])
    index = {name: i for i, name in enumerate(classes)}
    labels = np.array([index[unicode_text(file.parent.name)] for file in files], np.float64).reshape(-1, 1)
    targets = Targets(labels, path, lambda row: f"image {files[row]}", classes, are_classes=True)
    return Arrays(x, targets, digest.hexdigest())


def _image_files(path: str) -> tuple[list[Path], list[str]]:
    """Return (the images, the class names), both in a fixed order: class folders called by numbers in theirs."""
    folders = [entry for entry in Path(path).iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    if not folders:
        raise DataError(
            f"{path}: no folders, expected one folder of images for each class (or CSV or NPY files); create them"
        )
    by_number = all(folder.name.isdecimal() for folder in folders)
    folders.sort(key=lambda folder: (int(folder.name) if by_number else 0, folder.name))
    found = [file for folder in folders for file in sorted(folder.iterdir(), key=lambda file: file.name)]
    found = [file for file in found if not file.name.startswith(".")]
    files = [file for file in found if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file()]
    if not files:
        raise DataError(f"{path}: no images in its folders, expected {', '.join(IMAGE_SUFFIXES)}; add some")
    if len(found) > len(files):
        log.warning("%s: ignored files that are not images: %d", path, len(found) - len(files))
    return files, [unicode_text(folder.name) for folder in folders]


def _pixels(file: Path, data: bytes) -> tuple[np.ndarray, bool]:
    """Return (pixels (height, width, 3), whether they may have colours) of an image's bytes. Raises DataError."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise NnError(needs_package("images", "reading folders of images needs")) from error
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "PPM")) as image:
            size = f"{image.width}x{image.height} pixels"
            check_left(_PIXEL_BYTES * image.width * image.height, f"{file}: an image of {size}", "make it smaller")
            if image.mode in _MODES:
                return np.asarray(image.convert("RGB")), image.mode not in _MODES[:3]
            mode = image.mode
    except NnError:
        raise
    except Exception as error:  # decoders raise anything for a damaged image
        reason = " ".join(str(error).split())
        reason = "not PNG, JPEG or PGM" if "cannot identify" in reason else reason
        raise DataError(
            f"{file}: cannot read the image ({reason}), expected a complete one; replace or remove it"
        ) from error
    raise DataError(f"{file}: an image of mode {mode}, expected 8 bits per channel; convert it to 8-bit PNG")
