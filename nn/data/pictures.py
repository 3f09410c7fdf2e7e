"""Pictures: files that Pillow reads, as a viewer shows them. Folders of class folders,
folders of pictures without classes, single pictures."""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..utils import (
    DataError,
    LayersMismatch,
    NnError,
    listed,
    log,
    needs_package,
    plural,
)
from .arrays import Arrays
from .column import unicode_text
from .dataset import Targets
from .pixels import BYTE, WORD_RANGE
from .records import check_left, in_rows, new_rows
from .schema import Schema
from .source import IMAGE_SUFFIXES, readable, reason_of

MAGIC = (  # how files of pictures begin
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*|(?s:BM.{4}\0\0\0\0)|(?s:RIFF.{4}WEBP)|qoif"
    rb"|P[1-6]\s(?:#[^\n]*\n|\s)*\d+\s(?:#[^\n]*\n|\s)*\d+\s|\0\0\0\x0cjP  |\xff\x4f\xff\x51|(?s:.{4}ftypavi[fs])"
)
_BEGINNING = re.compile(MAGIC)
_PICTURE_BYTES = 512  # bytes of a file that show whether it is a picture
_DECODERS = (  # of Pillow; others open more than pictures, or run programs
    "AVIF",
    "BMP",
    "DIB",
    "GIF",
    "ICO",
    "JPEG",
    "JPEG2000",
    "MPO",
    "PCX",
    "PNG",
    "PPM",
    "QOI",
    "SGI",
    "TGA",
    "TIFF",
    "WEBP",
)
_PIXEL_BYTES = 8  # of a picture, while it is read
_LONGEST_SIDE = 65535  # a decoder keeps a pointer for each row, whatever its width
_GREY = ("1", "L", "LA", "La")
_COLOURED = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV")
_WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")
# tags of EXIF and TIFF
_ORIENTATION = 0x0112
_BITS = 258
_PHOTOMETRIC = 262
_NAMED = 5  # folders in a message
# EXIF orientation -> the steps through stored rows and columns that give those that are
# shown; from _FIRST_SWAPPED on rows are shown as columns
_STEPS = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 6: (-1, 1), 7: (-1, -1), 8: (1, -1)}
_FIRST_SWAPPED = 5


# -- files -----------------------------------------------------------------------------


class Gallery(NamedTuple):
    """Files of pictures with their names in predictions, and the class folder of each,
    where all lie in some."""

    path: str
    files: list[Path]
    names: list[str]
    folders: list[str] | None = None
    labels: list[int] | None = None


@readable()
def read_folder(paths: list[str], schema: Schema, labelled: bool) -> Arrays:
    """Read the pictures of a folder whose folders are the classes, sorted by class,
    then name. labelled: False takes pictures that lie in no class folder too, before
    the others."""
    return _arrays(_gallery(paths[0], labelled), schema, labelled)


@readable()
def read_pictures(paths: list[str], schema: Schema, labelled: bool) -> Arrays:
    """Read single pictures. Raises DataError where classes are wanted."""
    if labelled:
        pictures = f"{len(paths)} pictures" if len(paths) > 1 else "a picture"
        raise DataError(
            f"{paths[0]}: {pictures} without a class, {_class_folders('FOLDER', Path(paths[0]))}"
        )
    files = list(map(Path, paths))
    names = [unicode_text(file.name) for file in files]
    if len({*names}) < len(names):
        names = [unicode_text(file.as_posix()) for file in files]
    return _arrays(Gallery(paths[0], files, names), schema, labelled)


def _class_folders(folder: str, file: Path) -> str:
    """Return how folders of classes look, for a message."""
    example = Path(folder) / "cat" / file.name
    return f"expected a folder with a folder of pictures for each class, such as {example}; sort the pictures so"


def _gallery(path: str, labelled: bool) -> Gallery:
    entries = _entries(Path(path))
    loose = [entry for entry in entries if is_picture(entry)]
    folders = [entry for entry in entries if entry.is_dir()]
    # class folders are in the order of their numbers
    if all(folder.name.isdecimal() for folder in folders):
        folders.sort(key=lambda folder: (int(folder.name), folder.name))
    contents = {folder: _entries(folder) for folder in folders}
    pictures = {
        folder: list(filter(is_picture, contents[folder])) for folder in folders
    }
    classes = [folder for folder in folders if pictures[folder]]
    if not classes and not loose:
        raise DataError(
            f"{path}: no images in its folders, expected {', '.join(IMAGE_SUFFIXES)}; add some"
        )
    if not classes and labelled:
        count = plural(len(loose), "picture")
        raise DataError(
            f"{path}: no folders of classes, but {count}, {_class_folders(path, loose[0])}"
        )
    _log_ignored(path, contents, pictures, loose if labelled else [])
    files = []
    labels = []
    for label, folder in enumerate(classes):
        files += pictures[folder]
        labels += [label] * len(pictures[folder])
    if not labelled:
        files = [*loose, *files]
    names = [unicode_text(file.relative_to(path).as_posix()) for file in files]
    if len(labels) < len(files):
        return Gallery(path, files, names)
    class_names = [unicode_text(folder.name) for folder in classes]
    return Gallery(path, files, names, class_names, labels)


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted by name, without what is hidden."""
    return sorted(
        (entry for entry in folder.iterdir() if not entry.name.startswith(".")),
        key=lambda file: file.name,
    )


def is_picture(file: Path) -> bool:
    """Return whether a file is a picture, by its suffix, or without one by its first
    bytes."""
    if not file.is_file():
        return False
    if file.suffix:
        return file.suffix.lower() in IMAGE_SUFFIXES
    try:
        with open(file, "rb") as stream:
            return bool(_BEGINNING.match(stream.read(_PICTURE_BYTES)))
    except OSError:
        return False


def _log_ignored(
    path: str,
    contents: dict[Path, list[Path]],
    pictures: dict[Path, list[Path]],
    loose: list,
) -> None:
    """Log files that are no pictures, folders without any, and pictures beside the
    class folders."""
    other_files = 0
    empty = []
    for folder, entries in contents.items():
        if pictures[folder]:
            other_files += len(entries) - len(pictures[folder])
        else:
            empty.append(_described(folder, entries))
    if other_files:
        log.warning("%s: ignored files that are not images: %d", path, other_files)
    if empty:
        count = plural(len(empty), "folder")
        log.warning(
            "%s: %s without a picture, no class: %s", path, count, listed(empty, _NAMED)
        )
    if loose:
        log.warning(
            "%s: ignored pictures that lie in no class folder: %d", path, len(loose)
        )


def _described(folder: Path, inside: list[Path]) -> str:
    """Return the name of a folder without pictures, and what is in it instead."""
    suffixes = Counter(file.suffix.lower() or "others" for file in inside)
    held = listed([f"{count} {suffix}" for suffix, count in suffixes.items()], _NAMED)
    return f"{unicode_text(folder.name)} ({held or 'empty'})"


# -- rows ------------------------------------------------------------------------------


def _arrays(gallery: Gallery, schema: Schema, labelled: bool) -> Arrays:
    """Return the rows of pictures as a network of this schema takes them, and their
    classes, if they have any."""
    rows = _Rows(schema, len(gallery.files))
    digest = hashlib.sha256()
    transparent = 0
    for row, (file, name) in enumerate(zip(gallery.files, gallery.names, strict=True)):
        with readable(file):
            check_left(
                os.path.getsize(file),
                f"out of memory: {file}: a file that",
                "replace or remove it",
            )
            data = file.read_bytes()
        name_in_digest = file.name
        if "/" in name:
            name_in_digest = f"{file.parent.name}/{file.name}"
        digest.update(os.fsencode(f"{name_in_digest}\0{len(data)}\0"))
        digest.update(data)
        picture = decoded_picture(file, data, as_shown=rows.as_shown)
        rows.put(row, file, picture)
        transparent += picture.is_transparent
    if transparent:
        log.warning(
            "%s: %d of %d pictures have transparent pixels, which are read on white",
            gallery.path,
            transparent,
            len(gallery.files),
        )
    return Arrays(
        rows.whole(),
        _targets(gallery, schema, labelled),
        digest.hexdigest(),
        gallery.names,
        rows.range,
    )


def _targets(gallery: Gallery, schema: Schema, labelled: bool) -> Targets | None:
    """Return the classes of pictures; None where their folders are none of the classes
    that are known."""
    if gallery.folders is None:
        return None
    if not labelled and schema.classes is not None:
        if not {*gallery.folders} <= {*schema.classes}:
            return None
    labels = np.array(gallery.labels, np.float64).reshape(-1, 1)
    files = gallery.files
    return Targets(
        labels,
        gallery.path,
        lambda row: f"image {files[row]}",
        gallery.folders,
        are_classes=True,
    )


class _Rows:
    """The rows that pictures become: bytes, or numbers of the network's type where
    there are others than bytes.

    range: the number of white; in training that of the first pictures, until one has 16
    bits. as_shown: whether pictures are turned, and laid on white.
    """

    def __init__(self, schema: Schema, count: int):
        self._schema = schema
        self._count = count
        self.as_shown = schema.pictures is not None or not schema.follows_model
        self.range = BYTE
        self._shape = schema.pixels
        if schema.pictures is not None:
            self.range = schema.pictures["range"]
            self._shape = self._shape or schema.pictures["shape"]
        self._first_file = None
        self._has_colours = False

    def whole(self) -> np.ndarray:
        """Return the rows (pictures, channels, height, width): of a training three
        channels if one has colours."""
        if self._channels_known or self._has_colours:
            return in_rows(self._x)
        return in_rows(self._x[:, :1])

    def put(self, row: int, file: Path, picture: Picture) -> None:
        """Keep a picture as a row. Raises DataError for one that is none for the
        network."""
        if self._first_file is None:
            self._begin(file, picture)
        self._check_size(file, picture)
        pixels = self._in_channels(file, picture.pixels)
        if picture.range != self.range:
            pixels = self._in_range(pixels, picture.range)
        if self._x.dtype == np.uint8 and pixels.dtype != np.uint8:
            self._x = in_rows(self._x, self._schema.dtype)
        self._x[row] = pixels

    def _begin(self, file: Path, picture: Picture) -> None:
        schema = self._schema
        is_of_table = schema.columns is not None or schema.encoding is not None
        if schema.follows_model and is_of_table:
            raise DataError(
                f"{file}: a picture, expected rows of a table, as the model was trained on; give such rows"
            )
        if self.range is None:
            raise DataError(
                f"{file}: a picture, the model was trained on numbers that are no "
                "pixels from 0 to 1 or 255; give arrays of such numbers"
            )
        self._first_file = file
        self._size = picture.pixels.shape[:2]
        channels = self._expected_channels(file)
        self._channels_known = channels is not None
        self._channels = channels or 3
        kind = np.uint8 if self.range == BYTE else schema.dtype
        self._x = new_rows((self._count, self._channels, *self._size), kind)

    def _expected_channels(self, file: Path) -> int | None:
        """Return the channels of the network's pictures; None where the pictures
        decide."""
        channels = None
        values = math.prod(self._size)
        if self._shape is not None:
            channels = self._shape[0]
        elif self._schema.inputs == values:
            channels = 1
        elif self._schema.inputs == 3 * values:
            channels = 3
        elif self._schema.follows_model:
            raise DataError(
                f"{file}: {_sides(self._size)} pixels, expected {self._schema.inputs} "
                "inputs of the network; resize it"
            )
        if channels not in (None, 1, 3) and self._schema.follows_model:
            raise DataError(
                f"{file}: a picture, which has 1 or 3 channels, the network has {channels}; give arrays"
            )
        if channels in (1, 3):
            return channels
        return None

    def _check_size(self, file: Path, picture: Picture) -> None:
        size = picture.pixels.shape[:2]
        expected = self._size
        like = f"as in {self._first_file}"
        cure = "resize all images to one size"
        if self._schema.follows_model and self._shape is not None:
            expected = tuple(self._shape[1:])
            like = "as in the training of the model"
            cure = "resize it"
        if size != expected:
            raise DataError(
                f"{file}: {_sides(size)} pixels, expected {_sides(expected)} {like}; {cure}"
            )

    def _in_channels(self, file: Path, pixels: np.ndarray) -> np.ndarray:
        """Return pixels (channels, height, width): grey is repeated, colours that are
        all grey are one channel."""
        if pixels.ndim == 2:
            return pixels[None]  # for each channel of the row
        if self._channels == 3:
            self._has_colours = True
            return np.moveaxis(pixels, 2, 0)
        if (pixels == pixels[..., :1]).all():
            return pixels[None, ..., 0]
        if self._schema.follows_model:
            raise DataError(
                f"{file}: has colours, the model was trained on grey pictures; convert it to grey"
            )
        raise LayersMismatch(
            f"{file}: has colours, expected grey; begin --layers with "
            f"3x{self._size[0]}x{self._size[1]}, or convert it to grey"
        )

    def _in_range(self, pixels: np.ndarray, white: int) -> np.ndarray:
        """Return pixels of another range in that of the rows, which in a training the
        first of 16 bits widens."""
        is_decided = self._schema.pictures is not None or self._schema.follows_model
        if white == WORD_RANGE and not is_decided:
            self._x = in_rows(self._x, self._schema.dtype)
            self._x *= WORD_RANGE // BYTE
            self.range = WORD_RANGE
            return pixels.astype(self._schema.dtype)
        values = pixels.astype(np.float64) * self.range / white
        if self.as_shown:
            return values
        return np.rint(values).astype(np.uint8)


def _sides(size: Sequence[int]) -> str:
    """Return the width and the height of (height, width)."""
    return f"{size[1]}x{size[0]}"


# -- one picture -----------------------------------------------------------------------


class Picture(NamedTuple):
    """A picture: pixels (height, width), or (height, width, 3) with colours, of which
    `range` is white."""

    pixels: np.ndarray
    range: int
    is_transparent: bool = False


def decoded_picture(file: Path, data: bytes, as_shown: bool = True) -> Picture:
    """Return the picture in a file's bytes, of several the first. as_shown: turned as
    EXIF says, and on white.

    Raises DataError for what is no picture, NnError for one that does not fit the
    memory.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise NnError(
            needs_package("images", "reading folders of images needs")
        ) from error
    Image.init()
    # else it writes on stderr what it thinks of a file
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    decoders = [name for name in _DECODERS if name in Image.OPEN]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=decoders) as image:
                if max(image.size) > _LONGEST_SIDE:
                    raise DataError(
                        f"{file}: an image of {image.width}x{image.height} pixels, "
                        f"expected at most {_LONGEST_SIDE} on a side; make it smaller"
                    )
                what = f"out of memory: {file}: an image of {image.width}x{image.height} pixels"
                check_left(
                    _PIXEL_BYTES * image.width * image.height, what, "make it smaller"
                )
                bits = _bits(image)
                image.load()
                picture = _picture(image, bits, _png_depth(data), as_shown)
                mode = image.mode
                orientation = _orientation(image)
    except (NnError, MemoryError):
        raise
    except Exception as error:  # decoders raise anything for a damaged image
        reason = reason_of(error) or type(error).__name__
        if "cannot identify" in reason:
            reason = "no format of pictures that is read"
        raise DataError(
            f"{file}: cannot read the image ({reason}), expected a complete one; "
            "replace or remove it"
        ) from error
    if picture is None:
        raise DataError(
            f"{file}: an image of mode {mode}, expected 8 bits per channel, or 16 of "
            "grey; convert it to 8-bit PNG"
        )
    if not as_shown:
        return picture
    down, right = _STEPS.get(orientation, (1, 1))
    pixels = picture.pixels[::down, ::right]
    if orientation >= _FIRST_SWAPPED:
        pixels = pixels.swapaxes(0, 1)
    return picture._replace(pixels=pixels)


def _orientation(image) -> int:
    """Return how a picture is turned by its EXIF, 1 where it is upright or its EXIF is
    damaged."""
    with suppress(Exception):  # a viewer shows such a picture as it is stored
        orientation = image.getexif().get(_ORIENTATION, 1)
        if orientation in range(1, 9):
            return int(orientation)
    return 1


def _bits(image) -> tuple[int, bool]:
    """Return (bits of a pixel, whether 0 is white) of a picture of more than 8 bits;
    (8, False) of others."""
    is_wide = image.mode.startswith("I;16")
    if image.format == "TIFF" and is_wide:
        tags = image.tag_v2
        return int(tags.get(_BITS, (16,))[0]), tags.get(_PHOTOMETRIC) == 0
    if is_wide or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return 16, False
    return 8, False


def _png_depth(data: bytes) -> int:
    """Return the bits of a sample in a PNG file; 8 of another file."""
    if data.startswith(b"\x89PNG") and len(data) > 24:
        return data[24]
    return 8


def _picture(
    image, bits: tuple[int, bool], png_depth: int, as_shown: bool
) -> Picture | None:
    """Return a decoded picture of Pillow, as it is stored; None for one of another kind
    of numbers."""
    depth, is_inverted = bits
    if depth > 8:
        stored = np.asarray(image).astype(np.uint16)
        white = (1 << depth) - 1
        if is_inverted:
            stored = white - stored
        values = stored
        if white != WORD_RANGE:
            values = (stored * (WORD_RANGE / white)).astype(np.float32)
        clear = image.info.get("transparency")
        if not as_shown or not isinstance(clear, int):
            return Picture(values, WORD_RANGE)
        is_clear = stored == clear
        values = np.where(is_clear, values.dtype.type(WORD_RANGE), values)
        return Picture(values, WORD_RANGE, is_clear.any())
    if image.mode not in _GREY + _COLOURED:
        return None
    pixels, alpha = _pixels(image, png_depth)
    if alpha is None or not as_shown or (alpha == BYTE).all():
        return Picture(pixels, BYTE)
    return Picture(_on_white(pixels, alpha), BYTE, True)


def _pixels(image, png_depth: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return pixels (height, width) or (height, width, 3) and their alpha (height,
    width), None without any."""
    is_grey = image.mode in _GREY
    clear = image.info.get("transparency")
    if image.mode in ("1", "L", "RGB") and isinstance(clear, (int, tuple)):
        pixels = np.asarray(image.convert("L" if is_grey else "RGB"))
        is_clear = pixels == np.array(_sample(clear, png_depth, image.mode))
        if not is_grey:
            is_clear = is_clear.all(axis=2)
        return pixels, np.where(is_clear, 0, BYTE).astype(np.uint8)
    has_palette = image.mode == "P" and image.palette is not None
    has_palette_alpha = has_palette and image.palette.mode.endswith("A")
    if image.mode in _WITH_ALPHA or clear is not None or has_palette_alpha:
        if image.mode == "La":
            image = image.convert("LA")
        rgba = np.asarray(image.convert("RGBA"))
        pixels = rgba[..., 0] if is_grey else rgba[..., :3]
        return pixels, rgba[..., 3]
    return np.asarray(image.convert("L" if is_grey else "RGB")), None


def _sample(
    clear: int | tuple[int, ...], depth: int, mode: str
) -> int | tuple[int, ...]:
    """Return the value, in 8 bits, of the samples that a PNG of this depth names as
    transparent."""
    if isinstance(clear, tuple):
        return tuple(_sample(value, depth, mode) for value in clear)
    if mode == "1":
        return BYTE if clear else 0
    if depth > 8:
        return clear >> (depth - 8)
    return clear * (BYTE // ((1 << depth) - 1))


def _on_white(pixels: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return pixels with this alpha as they are seen on white, rounded."""
    share = alpha.astype(np.uint16)
    if pixels.ndim == 3:
        share = share[..., None]
    rounded = (pixels * share + BYTE * (BYTE - share) + BYTE // 2) // BYTE
    return rounded.astype(np.uint8)
