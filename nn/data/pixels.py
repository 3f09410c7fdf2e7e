"""Pixels: what a model keeps of how its pictures were read.

`Network.pictures` has {"range": ..., "shape": ..., "alpha": "white"}. range is the
number that stands for white among the inputs: 255 of bytes, 65535 of 16 bits, 1 of
numbers from 0 to 1, null of other numbers, for which no picture can stand. shape:
(channels, height, width), null where rows had none. alpha: what lies under transparent
pixels. A model without it is of an earlier version: its pictures are not turned, and
lose their alpha.
"""

from __future__ import annotations

import numpy as np

from ..utils import log
from .dataset import Dataset
from .scaling import Scaling

# white, in 8 and 16 bits
BYTE = 255
WORD_RANGE = 65535
PIXEL_RANGES = (1, BYTE, WORD_RANGE)
WHITE = "white"  # the only way of reading alpha today


def pictures_of(ds: Dataset, scaling: Scaling) -> dict | None:
    """Return what a model that is trained on these rows keeps of pictures; None where
    they are no images."""
    if not ds.are_images and scaling.kind != "pixel":
        return None
    shape = None
    if len(ds.row_shape) == 3:
        shape = list(ds.row_shape)
    return {"range": _range_of(ds), "shape": shape, "alpha": WHITE}


def _range_of(ds: Dataset) -> int | None:
    """Return the number that stands for white among the inputs; None for numbers that
    are no pixels."""
    if ds.x.dtype == np.uint8:
        return BYTE
    if ds.pixel_range is not None:
        return ds.pixel_range
    if ds.x.min() >= 0 and ds.x.max() <= 1:
        return 1
    return None


def log_range(pictures: dict | None, x: np.ndarray, where: str) -> None:
    """Log arrays of pixels that look as if another model divided them than the one that
    they are for."""
    if pictures is None or not x.size:
        return
    white = pictures["range"]
    if x.dtype == np.uint8 and white == 1 and x.max() > 1:
        log.warning(
            "%s: bytes up to %d, the model was trained on numbers from 0 to 1 and "
            "divides nothing; divide them",
            where,
            x.max(),
        )
    is_divided = white in (BYTE, WORD_RANGE) and x.dtype.kind == "f"
    if is_divided and x.min() >= 0 and x.max() <= 1 and (x != np.floor(x)).any():
        log.warning(
            "%s: numbers from 0 to %g, the model divides by %d by itself; give them "
            "from 0 to %d",
            where,
            x.max(),
            white,
            white,
        )


def are_pictures(value) -> bool:
    """Return whether a value is what a model keeps of pictures."""
    if not isinstance(value, dict) or value.keys() != {"range", "shape", "alpha"}:
        return False
    shape = value["shape"]
    white = value["range"]
    if white is not None and (type(white) is not int or white not in PIXEL_RANGES):
        return False
    if shape is not None:
        if not isinstance(shape, list) or len(shape) != 3:
            return False
        if not all(type(side) is int and side > 0 for side in shape):
            return False
    return value["alpha"] == WHITE
