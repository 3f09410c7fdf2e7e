"""Columns of numbers into rows (csrc/columns.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from . import extension

ffi, lib = extension("seq")

_TYPES = {
    np.dtype(name): getattr(lib, f"COLUMN_{name.upper()}")
    for name in (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
}


def row_writer(x: np.ndarray, columns: Sequence[np.ndarray]) -> Callable[[int, int], None]:
    """Return write(first, stop), which writes these rows of all columns to x; several threads may call it.

    x (rows, columns): uint8, float32 or float64, C-contiguous. columns: (rows,) whole numbers, float32 or float64 that
    the type of x can hold; they are rounded to it.
    """
    if not x.flags.c_contiguous or x.shape[1] != len(columns) or any(len(values) < len(x) for values in columns):
        raise ValueError(f"expected {x.shape[1]} columns of {len(x)} numbers for rows in C order")
    columns = [
        values if values.flags.aligned and values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
        for values in columns
    ]
    facts = ffi.new(
        "struct column[]",
        [(_TYPES[values.dtype], ffi.cast("void *", values.ctypes.data), values.strides[0]) for values in columns],
    )
    rows, kind = ffi.cast("void *", x.ctypes.data), _TYPES[x.dtype]

    def write(first: int, stop: int) -> None:
        if not 0 <= first <= stop <= len(x):
            raise ValueError(f"rows {first} to {stop} of {len(x)}")
        lib.columns_to_rows(rows, kind, facts, len(columns), first, stop)

    return write
