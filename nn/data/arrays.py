"""Images and arrays as their readers give them: (path, dtype, labelled) in, Arrays out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..utils import DataError
from .column import is_coarse
from .records import in_rows
from .written import WrittenNumbers

AUTO_CLASSES = 100  # more distinct numbers than this are classes only if --task says so; more texts need many rows
_GLANCE_ROWS = 1 << 12  # that show all classes, nearly always


@dataclass
class Targets:
    """The targets as a file has them: numbers (rows, columns), or indices (rows, 1) into `names`."""

    values: np.ndarray
    place: str  # how messages call them: "iris.csv, column Class"
    row: Callable[[int], str]  # how messages call a row
    names: list[str] | None = None
    columns: list[str] | None = None  # the names of the target columns
    are_classes: bool = False  # names are classes by the file's format, however many
    are_indices: bool = False  # numbers are class indices by the file's format
    written: WrittenNumbers | None = None  # how the numbers are written; None: plainly

    @property
    def width(self) -> int:
        return self.values.shape[1]

    @property
    def are_many(self) -> bool:
        """Tell that there are more different numbers than classes, as far as the first rows do: no need to sort all."""
        return len(np.unique(self.values[:_GLANCE_ROWS, 0])) > AUTO_CLASSES

    @cached_property
    def different(self) -> tuple[np.ndarray, np.ndarray]:
        """The different numbers of the first column, ascending; the index of each row's number among them."""
        values = self.values[:, 0]
        few = np.unique(values[:_GLANCE_ROWS])
        if len(few) <= AUTO_CLASSES and len(few):  # classes: no need to sort all rows
            which = np.minimum(np.searchsorted(few, values), len(few) - 1)
            if (few[which] == values).all():
                return few, which
        distinct, which = np.unique(values, return_inverse=True)
        return distinct, which.reshape(-1)


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
        return in_rows(x, np.uint8)
    if x.ndim == 2 and dtype == "float32" and is_coarse(x.min(axis=0), x.max(axis=0)):
        dtype = "float64"
    with np.errstate(over="ignore"):
        x = in_rows(x, dtype)
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
