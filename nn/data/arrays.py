"""Images and arrays as their readers give them: (path, dtype, labelled) in, Arrays out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..utils import DataError
from .field_types import is_coarse
from .targets import Targets


@dataclass
class Arrays:
    """Arrays that were read: x (rows, inputs) or (rows, C, H, W), its targets, the SHA-256 of all files.

    now: as in Dataset.
    """

    x: np.ndarray
    targets: Targets | None
    sha256: str
    now: list[int] | None = None


def kept_numbers(path: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """Return x as it is kept: uint8 as it is, other numbers in dtype (float64 where float32 would blur a table)."""
    if not x.size:
        raise DataError(f"{path}: no rows (shape {x.shape}), expected at least one; add the data")
    if x.dtype == np.uint8 or x.dtype == bool:
        return np.ascontiguousarray(x, np.uint8)
    if x.ndim == 2 and dtype == "float32" and is_coarse(x.min(axis=0), x.max(axis=0)):
        dtype = "float64"
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, dtype)
    check_finite(path, x)
    return x


def check_finite(place: str, values: np.ndarray) -> None:
    """Raise DataError for the first row that holds nan or infinity."""
    for start in range(0, len(values), 4096):
        is_finite = np.isfinite(values[start : start + 4096])
        if not is_finite.all():
            row = start + int(np.argwhere(~is_finite)[0, 0])
            raise DataError(
                f"{place}, index {row}: nan or infinite, expected finite numbers; correct or remove the row"
            )
