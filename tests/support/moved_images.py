"""How --augment moves images, in NumPy: the judge of the core and of the GPU."""

from dataclasses import replace

import numpy as np

from nn.core import extension
from support.epochs import ended, settings

LANE = 0xFFFFFFFF  # word 3 of Philox's counter


def moved_images(images, batch, moves, seed, first_step=0):
    """Return images (rows, channels, height, width), a row of an epoch each, as its
    batches move them."""
    ffi, lib = extension("seq")
    word = ffi.new("uint32_t[4]")
    rows, columns, mirrors = moves
    height, width = images.shape[2:]
    moved = np.empty_like(images)
    for row, image in enumerate(images):
        lib.nn_philox(word, seed, row % batch, first_step + row // batch, LANE)
        down = (word[0] * (2 * rows + 1) >> 32) - rows
        right = (word[1] * (2 * columns + 1) >> 32) - columns
        if mirrors and word[2] >> 31:
            seen = image[:, :, ::-1]
        else:
            seen = image
        below = np.arange(height) - down
        beside = np.arange(width) - right
        clipped = np.clip(beside, 0, width - 1)
        moved[row] = seen[:, np.clip(below, 0, height - 1)][:, :, clipped]
    return moved


def check_moves(make, x, y, augment, rooms=(None,)):
    """Check that the networks of `make` train on images that are moved as on those
    which the rule has moved; rooms: for the images, of `ended`."""
    order = np.random.default_rng(1).permutation(len(x))
    how = settings(seed=3, augment=augment)
    # a tenth of a side that has more than a pixel; half of them are mirrored
    mirrored = augment in ("mirror", "both")
    moves = [
        -(-side // 10) if side > 1 and augment in ("shift", "both") else 0
        for side in x.shape[2:]
    ]
    moved = moved_images(x[order], 32, [*moves, mirrored], seed=3, first_step=5)
    assert augment != "both" or not np.array_equal(moved, x[order])
    plain = replace(how, augment="none")
    expected = ended(
        make(), moved, y[order], plain, order=np.arange(len(x)), step=5
    ).parameters
    assert np.isfinite(expected).all()
    for room in rooms:
        assert np.array_equal(
            ended(make(), x, y, how, order=order, step=5, room=room).parameters,
            expected,
        )
