"""Input scaling: constants found in the training rows and kept in the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .nn_aux import SCALING_ALIASES, SCALINGS
from .utils import DataError, UsageError, log

_BLOCK_VALUES = 1 << 18  # values turned into doubles at a time; decides how sums are rounded
_CACHED_VALUES = 1 << 15  # where nothing is added up: they stay in the processor's cache


@dataclass
class Scaling:
    """(x - shift) / scale, computed in double; `shift` and `scale` hold a float64 for each feature of a table
    (rows, features), for each channel of images (rows, C, H, W), and nothing for the kinds none and pixel.

    The scale of a constant feature is infinite, so that it becomes 0 whatever the data hold later.
    """

    kind: str = "none"
    shift: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scale: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def fit(
        cls, kind: str, x: np.ndarray, rows=None, *, columns: list[str] | None = None, strict: bool = False
    ) -> Scaling:
        """Constants of kind `kind` (see SCALINGS) from the given rows (indices) of x, or from all of them.

        Constant features are warned about, once and with their number; `strict` normalization, which would
        divide by 0 there, raises a DataError that names the first (from `columns`). Raises UsageError for an
        unknown kind.
        """
        kind = SCALING_ALIASES.get(kind, kind)
        if kind not in SCALINGS:
            raise UsageError(f"unknown scaling '{kind}', expected one of {', '.join(SCALINGS)}")
        if kind in ("none", "pixel"):
            return cls(kind)
        low, high, mean = _low_high_mean(x, rows)
        deviation = _deviation(x, rows, mean) if kind == "standardization" else None
        return cls._of(kind, low, high, mean, deviation, columns, strict)

    @classmethod
    def of_moments(cls, kind: str, moments: Moments, *, columns: list[str] | None = None) -> Scaling:
        """The same from what is known of the rows, which nobody has in memory; but for roundings."""
        if kind in ("none", "pixel"):
            return cls(kind)
        return cls._of(kind, moments.low, moments.high, moments.mean, moments.deviation, columns, False)

    @classmethod
    def _of(cls, kind, low, high, mean, deviation, columns, strict) -> Scaling:
        constant = low == high
        if strict and kind == "normalization" and constant.any():
            first = int(np.argmax(constant))
            name = columns[first] if columns else f"{first + 1} of {len(low)}"
            raise DataError(
                f"column {name} holds only the value {low[first]:g}, expected two or more for {kind}; "
                f"remove the column or use --scaling none"
            )
        if constant.any():
            log.warning(
                "%d of %d features hold one value only in the training rows and are scaled to 0",
                np.count_nonzero(constant),
                len(constant),
            )
        if kind == "normalization":
            shift, scale = low, high - low
        else:
            shift, scale = mean, deviation
        return cls(kind, shift, np.where(constant | (scale == 0), np.inf, scale))

    def apply(
        self, x: np.ndarray, dtype="float32", *, rows=None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The given rows of x (or all), scaled, in a new array of type `dtype` or in `out` (perhaps x)."""
        count = len(x) if rows is None else len(rows)
        if out is None:
            out = np.empty((count, *x.shape[1:]), dtype)
        levels = None
        if self.kind == "pixel" and x.dtype == np.uint8:
            levels = (np.arange(256) / 255).astype(out.dtype)
        shift, scale = self._shaped(x)
        blocks = (_row_blocks(out, size=_CACHED_VALUES), _row_blocks(x, rows, _CACHED_VALUES))
        for target, block in zip(*blocks, strict=True):
            if levels is not None:
                np.take(levels, block, out=target)
            elif len(shift):
                block = block.astype(np.float64)
                block -= shift
                block /= scale
                target[...] = block
            else:
                target[...] = block
        return out

    def inverse(self, y: np.ndarray) -> np.ndarray:
        """What apply made of y, undone (float64): a network's scaled outputs in the units of the data."""
        y = y.astype(np.float64)
        if not len(self.shift):
            return y
        shift, scale = self._shaped(y)
        return y * np.where(np.isinf(scale), 0.0, scale) + shift

    def flat(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(shift, scale) for each value of a row of this shape, in C order; what pixel does to uint8."""
        shift, scale = self.shift, self.scale
        if self.kind in ("none", "pixel"):
            shift, scale = np.zeros(shape[0]), np.full(shape[0], 255.0 if self.kind == "pixel" else 1.0)
        if len(shape) == 1:
            return shift, scale
        each = int(np.prod(shape[1:]))
        return np.repeat(shift, each), np.repeat(scale, each)

    def to_dict(self) -> dict:
        """As JSON; the infinite scale of a constant feature is written as 0."""
        scale = np.where(np.isinf(self.scale), 0.0, self.scale)
        return {"kind": self.kind, "shift": self.shift.tolist(), "scale": scale.tolist()}

    @classmethod
    def from_dict(cls, values: dict) -> Scaling:
        """The reverse of to_dict; raises DataError if the values are none that to_dict can have written."""
        try:
            kind = values["kind"]
            shift, scale = (np.array(values[key], np.float64) for key in ("shift", "scale"))
            is_whole = (
                kind in SCALINGS
                and shift.ndim == 1
                and shift.shape == scale.shape
                and (len(shift) == 0) == (kind in ("none", "pixel"))
                and bool((np.isfinite(shift) & np.isfinite(scale) & (scale >= 0)).all())
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            is_whole = False
        if not is_whole:
            raise DataError("damaged scaling constants, expected a known kind and finite shift and scale")
        return cls(kind, shift, np.where(scale == 0, np.inf, scale))

    def _shaped(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(self.shift) or x.ndim == 2:
            return self.shift, self.scale
        return self.shift[:, None, None], self.scale[:, None, None]


class Moments:
    """Smallest and largest value, mean and standard deviation (of the population) of each feature, from one block
    of rows after another: those of two sets of rows make those of both (Chan, Golub and LeVeque 1983)."""

    def __init__(self):
        self.count, self.low, self.high = 0, np.inf, -np.inf
        self.mean = self._squares = 0.0

    def add(self, x: np.ndarray) -> None:
        """Take in rows, (rows, features) or (rows, channels, height, width)."""
        axes = _feature_axes(x)
        for block in _row_blocks(x):
            block = block.astype(np.float64)
            self.low = np.minimum(self.low, block.min(axis=axes))
            self.high = np.maximum(self.high, block.max(axis=axes))
            count, mean = block.size // block.shape[1], block.mean(axis=axes)
            block -= mean if block.ndim == 2 else mean[:, None, None]
            step, total = mean - self.mean, self.count + count
            self._squares += np.square(block, out=block).sum(axis=axes) + step * step * (self.count * count / total)
            self.mean = self.mean + step * (count / total)
            self.count = total

    @property
    def deviation(self) -> np.ndarray:
        """Of each feature."""
        return np.sqrt(self._squares / self.count)


def _row_blocks(x: np.ndarray, rows=None, size: int = _BLOCK_VALUES):
    """x, or the given rows of it, in blocks of rows small enough to be turned into doubles in passing."""
    step = max(1, size // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x) if rows is None else len(rows), step):
        yield x[start : start + step] if rows is None else x[rows[start : start + step]]


def _feature_axes(x: np.ndarray) -> tuple[int, ...]:
    return (0,) if x.ndim == 2 else (0, 2, 3)


def _low_high_mean(x: np.ndarray, rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    axes = _feature_axes(x)
    low, high, total, count = np.inf, -np.inf, 0.0, 0
    for block in _row_blocks(x, rows):
        block = block.astype(np.float64)
        low = np.minimum(low, block.min(axis=axes))
        high = np.maximum(high, block.max(axis=axes))
        total = total + block.sum(axis=axes)
        count += block.size // block.shape[1]
    if not count:
        raise UsageError("no rows to find the scaling constants in; use --scaling none")
    return low, high, total / count


def _deviation(x: np.ndarray, rows, mean: np.ndarray) -> np.ndarray:
    """Standard deviation (of the population), from the differences to the mean: no cancellation."""
    axes = _feature_axes(x)
    mean = mean if x.ndim == 2 else mean[:, None, None]
    total, count = 0.0, 0
    for block in _row_blocks(x, rows):
        total = total + np.square(block.astype(np.float64) - mean).sum(axis=axes)
        count += block.size // block.shape[1]
    return np.sqrt(total / count)
