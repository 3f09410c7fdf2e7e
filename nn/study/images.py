"""Synthetic images of a few classes, for networks of which only the time matters and
that they learn."""

from __future__ import annotations

import numpy as np

from ..core.random import normal, shuffled
from ..ds import Dataset
from ..layers import parse
from ..utils import UsageError

IMAGES_STREAM = 0x494D4700  # of the random numbers that the images are made of
PATCH = 8  # pixels: a class is a pattern of patches
TEST_SHARE = 0.2  # as many test images beside those to train on


def images(
    rows: int, shape: str = "3x32x32", classes: int = 10, seed: int = 0
) -> tuple[Dataset, Dataset]:
    """Return (images to train on, to test on): in each the pattern of its class and as
    much noise; shape: CxHxW. The same numbers on every machine, up to rounding."""
    if rows < 1 or classes < 2:
        raise UsageError(
            f"images: {rows} rows of {classes} classes; expected rows, and 2 classes or more"
        )
    channels, height, width = parse(f"{shape},1")[0].in_shape
    count = rows + max(1, round(TEST_SHARE * rows))
    patches = (classes, channels, -(-height // PATCH), -(-width // PATCH))
    patterns = normal(int(np.prod(patches)), seed, IMAGES_STREAM).reshape(patches)
    patterns = patterns.repeat(PATCH, 2).repeat(PATCH, 3)[..., :height, :width]
    labels = (shuffled(count, seed, IMAGES_STREAM) % classes).astype(np.int32)
    values = count * channels * height * width
    noise = normal(values, seed, IMAGES_STREAM + 1)
    x = (patterns[labels] + noise.reshape(count, channels, height, width)).astype(
        np.float32
    )
    ds = Dataset(x, labels, "multiclass", [str(number) for number in range(classes)])
    return ds.of_rows(slice(0, rows)), ds.of_rows(slice(rows, None))
