"""Input scaling: constants found in the training rows and kept in the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.weighted import at_rows
from ..nn_aux import SCALING_ALIASES, SCALINGS
from ..utils import DataError, UsageError, log
from .column import blurs
from .records import new_rows

# values turned into doubles at a time; decides how sums are rounded
_SUMMED_VALUES = 1 << 18
# where nothing is added up: they stay in the processor's cache
_CACHED_VALUES = 1 << 15


@dataclass
class Scaling:
    """(x - shift) / scale, computed in double; `shift` and `scale` hold a float64 for
    each feature of a table (rows, features), for each channel of images (rows, C, H,
    W), and nothing for the kinds none and pixel.

    The scale of a constant feature is infinite, so that it becomes 0 whatever the data
    hold later. low, high: what `inverse` keeps its values within, nothing for no
    bounds.
    """

    kind: str = "none"
    shift: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scale: np.ndarray = field(default_factory=lambda: np.zeros(0))
    low: np.ndarray = field(default_factory=lambda: np.zeros(0))
    high: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def fit(
        cls,
        kind: str,
        x: np.ndarray,
        rows=None,
        *,
        weights: np.ndarray | None = None,
        columns: list[str] | None = None,
        strict: bool = False,
    ) -> Scaling:
        """Return constants of a kind of SCALINGS from the given rows (indices) of x, or
        from all of them.

        weights: of these rows, above 0; None: all are 1.

        Constant features are warned about, once and with their number; `strict`
        normalization, which would divide by 0 there, raises a DataError that names the
        first (from `columns`).
        """
        kind = SCALING_ALIASES.get(kind, kind)
        if kind not in SCALINGS:
            raise UsageError(
                f"unknown scaling '{kind}', expected one of {', '.join(SCALINGS)}"
            )
        if not SCALINGS[kind].is_fitted:
            return cls(kind)
        moments = Moments.of(x, rows, weights=weights)
        low = moments.low
        constant = moments.low == moments.high
        width = len(low)
        names = columns or [f"{number} of {width}" for number in range(1, width + 1)]
        if strict and kind == "normalization" and constant.any():
            feature = np.argmax(constant)
            raise DataError(
                f"column {names[feature]} holds only the value {low[feature]:g}, "
                f"expected two or more for {kind}; remove the column or use --scaling "
                "none"
            )
        if constant.any():
            log.warning(
                "%d of %d features hold one value only in the training rows and are "
                "scaled to 0",
                np.count_nonzero(constant),
                width,
            )
        shift, scale = constants(
            kind, moments, lambda feature: f"column {names[feature]}"
        )
        return cls(kind, shift, np.where(constant | (scale == 0), np.inf, scale))

    def apply(
        self, x: np.ndarray, dtype="float32", pixel_range: int | None = None
    ) -> np.ndarray:
        """Scale the rows of x into a new array of type `dtype`. pixel_range: by what
        pixels are divided; None: bytes by 255 and other numbers by nothing."""
        out = new_rows(x.shape, dtype)
        shift = _for_features(self.shift, x)
        scale = _for_features(self.scale, x)
        targets = _row_blocks(out, size=_CACHED_VALUES)
        for block in _row_blocks(x, size=_CACHED_VALUES):
            if self.kind == "pixel" and pixel_range is not None:
                # as the engine reads bytes, bit for bit
                block = block.astype(np.float64) * (1 / pixel_range)
            elif self.kind == "pixel" and x.dtype == np.uint8:
                block = block / 255
            elif len(shift):
                block = block.astype(np.float64)
                block -= shift
                block /= scale
            next(targets)[...] = block
        return out

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """Undo `apply` (float64): bring a network's scaled outputs into the units of
        the data."""
        y = y.astype(np.float64)
        if not len(self.shift):
            return y
        shift = _for_features(self.shift, y)
        scale = _for_features(self.scale, y)
        values = y * np.where(np.isinf(scale), 0.0, scale) + shift
        if len(self.low):
            return np.clip(values, self.low, self.high)
        return values

    @cached_property
    def is_blurred(self) -> bool:
        """Return whether float32 would blur values of such means and deviations."""
        return bool(len(self.shift)) and blurs(self.shift, self.scale)

    def to_dict(self) -> dict:
        """Return the constants as JSON; the infinite scale of a constant feature is
        written as 0."""
        scale = np.where(np.isinf(self.scale), 0.0, self.scale).tolist()
        values = {"kind": self.kind, "shift": self.shift.tolist(), "scale": scale}
        if len(self.low):
            values |= {"low": self.low.tolist(), "high": self.high.tolist()}
        return values

    @classmethod
    def from_dict(cls, values: dict) -> Scaling:
        """Return the constants that to_dict has written, and files/model_file.py
        checks."""
        constants = {}
        for name in ("shift", "scale", "low", "high"):
            constants[name] = np.array(values.get(name, []), np.float64)
        scale = constants["scale"]
        scale[scale == 0] = np.inf
        return cls(values["kind"], **constants)


def constants(
    kind: str, moments: Moments, name: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return (shift, scale) of a fitted kind; a feature of one value has that one as
    its shift.

    name: of a feature in messages. Raises DataError for numbers that are too large, or
    differ by too little, for them.
    """
    low = moments.low
    high = moments.high
    with np.errstate(over="ignore"):
        if kind == "normalization":
            shift = low
            scale = high - low
        else:
            shift = moments.mean
            scale = moments.deviation
    check_spread(low, high, shift, scale, name)
    return np.where(np.isfinite(shift), shift, low), scale


def check_spread(low, high, shift, scale, name: Callable[[int], str]) -> None:
    """Raise DataError for a feature between these bounds whose constants are lost to
    overflow or underflow."""
    is_lost = (low < high) & ~(np.isfinite(shift) & np.isfinite(scale) & (scale != 0))
    if is_lost.any():
        feature = np.argmax(is_lost)
        raise DataError(
            f"{name(feature)}: numbers from {low[feature]:g} to {high[feature]:g}, expected differences between 1e-150 and "
            f"1e150, whose squares float64 can hold; multiply or divide the column by a power of 10"
        )


class Moments(NamedTuple):
    """Smallest and largest value, mean and standard deviation (of the population) of
    each feature of rows in memory."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        rows=None,
        *,
        weights: np.ndarray | None = None,
        block_values: int = _SUMMED_VALUES,
    ) -> Moments:
        """Return the moments of x, (rows, features) or (rows, channels, height, width),
        or of some rows (indices).

        weights: of these rows, above 0: one of weight 2 counts as the row twice; None:
        all are 1. block_values: added up at a time, which decides how sums are rounded.
        Raises UsageError if there are no rows.
        """
        axes = (0, *range(2, x.ndim))
        total = 0.0
        count = 0
        low = np.inf
        high = -np.inf
        # constants() refuses what is no number then
        with np.errstate(over="ignore", invalid="ignore"):
            for block, counts in _weighted_blocks(x, rows, weights, block_values):
                block = block.astype(np.float64)
                low = np.minimum(low, block.min(axis=axes))
                high = np.maximum(high, block.max(axis=axes))
                total = total + _weighted_sum(block, counts, axes)
                count += math.prod(block.shape[2:]) * (
                    len(block) if counts is None else counts.sum()
                )
            if not count:
                raise UsageError(
                    "no rows to find the scaling constants in; use --scaling none"
                )
            mean = total / count
            squares = 0.0
            shift = _for_features(mean, x)
            for block, counts in _weighted_blocks(x, rows, weights, block_values):
                # differences to the mean: no cancellation
                block = block.astype(np.float64)
                block -= shift
                squares = squares + _weighted_sum(
                    np.square(block, out=block), counts, axes
                )
            return cls(low, high, mean, np.sqrt(squares / count))


def _row_blocks(x: np.ndarray, rows=None, size: int = _SUMMED_VALUES):
    """Yield x, or the given rows of it, in blocks of rows small enough to be turned
    into doubles in passing."""
    step = max(1, size // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x) if rows is None else len(rows), step):
        block = slice(start, start + step)
        yield x[block if rows is None else rows[block]]


def _weighted_blocks(x: np.ndarray, rows, weights: np.ndarray | None, size: int):
    """Yield blocks as _row_blocks does, each with the weights of its rows; None: all
    are 1."""
    stop = 0
    for block in _row_blocks(x, rows, size):
        start = stop
        stop += len(block)
        yield block, at_rows(weights, slice(start, stop))


def _weighted_sum(
    block: np.ndarray, weights: np.ndarray | None, axes: tuple[int, ...]
) -> np.ndarray:
    if weights is None:
        return block.sum(axis=axes)
    return (weights.reshape(-1, *[1] * (block.ndim - 1)) * block).sum(axis=axes)


def _for_features(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    if len(values) and x.ndim > 2:
        return values[:, None, None]
    return values
