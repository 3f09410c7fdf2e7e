"""Random numbers: one counter-based generator (Philox) for everything that --seed
decides, and the original's.

A stream is a range of the generator's counters; every use draws from a stream of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from . import extension

# Streams of the one generator (Philox, key = seed), in word 2 of its counter. Dropout
# masks have the step there,
# which stays below these, and the layer in word 3 (csrc/plain.c); moved images have
# 2^32 - 1 there (csrc/pass.c).
STREAM_WEIGHTS = 0x57000000  # + index of the layer
STREAM_FREQUENCIES = 0x50000000  # of the waves of layer 0
# of all rows or blocks, the epoch in word 3; + 1 + place of some blocks: of their rows
STREAM_SHUFFLE = 0x53000000
STREAM_BOOTSTRAP = 0x42000000  # + number of the resample
STREAM_FOLDS = 0x46000000  # of the rows that are divided into folds
STREAM_HOLDOUT = 0x48000000  # of all rows
STREAM_VARY = 0x54000000  # + place of the setting
STREAM_VALIDATION = 0x56000000  # the same of the rows that are not held out

# of encoded rows that are shuffled all together, by their size alone
SHUFFLED_BYTES = 1 << 30
# of more: rows of a block, and blocks, from anywhere, that are shuffled together
BLOCK_ROWS = 1024
DRAWN_BLOCKS = 64


def shuffled(n: int, seed: int, stream: int, lane: int = 0):
    """Return a permutation of 0..n-1 (int64), the same on every machine for a seed,
    stream and lane."""
    ffi, lib = extension("seq")
    order = np.arange(n, dtype=np.int64)
    lib.nn_shuffle(ffi.cast("int64_t *", order.ctypes.data), n, seed, stream, lane)
    return order


def shuffled_by_blocks(n: int, seed: int, lane: int):
    """Return a permutation of 0..n-1 (int64) for rows that no memory may hold: it takes
    the rows of a few blocks at a time, which are drawn from all."""
    blocks = shuffled(-(-n // BLOCK_ROWS), seed, STREAM_SHUFFLE, lane)
    order = np.empty(n, np.int64)
    at = 0
    for place, start in enumerate(range(0, len(blocks), DRAWN_BLOCKS)):
        first_rows = BLOCK_ROWS * blocks[start : start + DRAWN_BLOCKS]
        rows = np.add.outer(first_rows, np.arange(BLOCK_ROWS)).reshape(-1)
        rows = rows[rows < n]
        drawn = shuffled(len(rows), seed, STREAM_SHUFFLE + 1 + place, lane)
        order[at : at + len(rows)] = rows[drawn]
        at += len(rows)
    return order


def uniform(n: int, seed: int, stream: int):
    """Return float64 (n,) from 0 to below 1, the same on every machine for a seed and
    stream."""
    return _drawn("nn_uniform", n, seed, stream)


def normal(n: int, seed: int, stream: int):
    """Return float64 (n,), normal, the same on every machine for a seed and stream."""
    return _drawn("nn_normal", n, seed, stream)


def _drawn(function: str, n: int, seed: int, stream: int):
    ffi, lib = extension("seq")
    out = np.empty(n)
    getattr(lib, function)(ffi.cast("double *", out.ctypes.data), n, seed, stream)
    return out


class PhiloxOrder:
    """Row order of epoch after epoch. Each epoch's is drawn from its number alone, so
    that any can be repeated.

    by_blocks: see shuffled_by_blocks. ahead: the next epoch's is drawn by a thread
    while this one is computed, which costs nothing where that happens elsewhere than on
    the processor."""

    def __init__(
        self, rows: int, seed: int, ahead: bool = False, by_blocks: bool = False
    ):
        self.rows = rows
        self.seed = seed
        self._by_blocks = by_blocks
        self._worker = None
        self._coming = {}
        if ahead:
            from concurrent.futures import ThreadPoolExecutor

            self._worker = ThreadPoolExecutor(1)

    def epoch(self, number: int):
        """Return the order of epoch `number` (from 0): an int64 permutation of
        0..rows-1."""
        coming = self._coming.pop(number, None)
        if self._worker:
            self._coming = {number + 1: self._worker.submit(self._draw, number + 1)}
        if coming:
            return coming.result()
        return self._draw(number)

    def _draw(self, number: int):
        if self._by_blocks:
            return shuffled_by_blocks(self.rows, self.seed, number)
        return shuffled(self.rows, self.seed, STREAM_SHUFFLE, number)

    def state(self) -> dict:
        """Return what the next order is drawn from, as arrays: nothing but the epoch's
        number."""
        return {}

    def restore(self, state: dict) -> None:
        """Go on from what `state` gave."""


class GlibcRandom:
    """The original program's one stream of random numbers: glibc's rand() after
    srand(seed)."""

    def __init__(self, seed: int):
        self._ffi, self._lib = extension("seq")
        self._state = self._ffi.new("uint32_t[34]")
        self._lib.nn_glibc_srand(self._state, seed)

    def uniform(self, n: int):
        """Return float64 (n,), each rand() / RAND_MAX."""
        out = np.empty(n)
        self._lib.nn_glibc_uniform(
            self._ffi.cast("double *", out.ctypes.data), n, self._state
        )
        return out

    def shuffle(self, order) -> None:
        """Shuffle an int64 array in place, as the original does."""
        pointer = self._ffi.cast("int64_t *", order.ctypes.data)
        self._lib.nn_glibc_shuffle(pointer, len(order), self._state)

    def state(self):
        """Return the generator's words, uint32 (34,), the last one its place in the
        ring of 31."""
        return np.array(list(self._state), np.uint32)

    def restore(self, state) -> None:
        """Go on from what `state` gave. Raises ValueError for words that no generator
        has."""
        if state.shape != (len(self._state),) or state[-1] >= 31:
            raise ValueError("no state of the generator")
        for index, word in enumerate(state.tolist()):
            self._state[index] = word

    def __reduce__(self):
        return GlibcRandom, (0,), self.state()

    __setstate__ = restore


class GlibcOrder:
    """Row order as in the original: one array, shuffled again for each epoch from the
    stream of the weights."""

    def __init__(self, rows: int, random: GlibcRandom):
        self._order = np.arange(rows, dtype=np.int64)
        self._random = random

    def epoch(self, number: int):
        """Return the next epoch's order, int64 (rows,); epochs must be asked for one
        after the other."""
        self._random.shuffle(self._order)
        return self._order

    def state(self) -> dict:
        """Return what the next order is drawn from, as arrays: the last order and the
        generator."""
        return {"rows": self._order.copy(), "random": self._random.state()}

    def restore(self, state: dict) -> None:
        """Go on from the result of `state`. Raises ValueError for another value."""
        if not np.array_equal(np.sort(state["rows"]), np.arange(len(self._order))):
            raise ValueError("no order of the rows")
        self._random.restore(state["random"])
        self._order = state["rows"].copy()


def initial_weight(
    init: str, parts: Sequence[tuple[int, int, int]], seed: int, layer: int
):
    """Return float64 values drawn from the layer's own stream by the rule
    INITIALIZERS[init].

    parts: (values, fan_in, fan_out) of one part of them after the other."""
    draw, scale = _INITIAL_WEIGHTS[init]
    out = draw(sum(values for values, _, _ in parts), seed, STREAM_WEIGHTS + layer)
    at = 0
    for values, fan_in, fan_out in parts:
        scale(out[at : at + values], fan_in, fan_out)
        at += values
    return out


def initial_frequencies(waves: Sequence[tuple[int, float]], seed: int):
    """Return float64 frequencies, normal. waves: (count, deviation) of each column that
    has some."""
    counts, deviations = zip(*waves, strict=True)
    out = normal(sum(counts), seed, STREAM_FREQUENCIES)
    return out * np.repeat(deviations, counts)


def _scale_glorot(out, fan_in: int, fan_out: int) -> None:
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    out *= 2.0 * bound
    out -= bound


_INITIAL_WEIGHTS = {  # a name of INITIALIZERS -> (what draws, how the drawn numbers are scaled)
    "he": (
        normal,
        lambda out, fan_in, fan_out: np.multiply(out, math.sqrt(2.0 / fan_in), out),
    ),
    "lecun": (
        normal,
        lambda out, fan_in, fan_out: np.multiply(out, math.sqrt(1.0 / fan_in), out),
    ),
    "glorot": (uniform, _scale_glorot),
    "uniform": (uniform, lambda out, fan_in, fan_out: None),
}
