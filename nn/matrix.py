"""The matrix product of the C core, for those who want only that."""

from __future__ import annotations

import numpy as np

from .core import SUFFIXES, extension, pointer
from .utils import default_threads

# (a dtype's name takes long)
PRODUCTS = {np.dtype(name): f"matmul_{suffix}" for name, suffix in SUFFIXES.items()}


def matmul(a, b, *, backend: str = "omp", threads: int | None = None) -> np.ndarray:
    """Return a (m, k) times b (k, n) as (m, n), both float32 or both float64;
    transposed views are not copied.

    ValueError where the shapes do not fit, MemoryError when there is no room to work
    in.
    """
    a = np.asarray(a)
    b = np.asarray(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {a.shape} and {b.dtype} {b.shape}")
    if a.dtype not in PRODUCTS:
        raise ValueError(f"expected float32 or float64, got {a.dtype}")
    ffi, lib = extension(backend)
    m, k = a.shape
    n = b.shape[1]
    a, a_transposed = _stored(a)
    b, b_transposed = _stored(b)
    c = np.empty((m, n), a.dtype)
    pointers = [pointer(ffi, array, c.dtype) for array in (c, a, b)]
    if getattr(lib, PRODUCTS[c.dtype])(
        *pointers, m, n, k, a_transposed, b_transposed, threads or default_threads()
    ):
        raise MemoryError("no room for the matrix product's workspace")
    return c


def _stored(a: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return (the array as memory holds it, True if that is its transpose)."""
    if a.flags.f_contiguous and not a.flags.c_contiguous:
        return a.T, True
    return np.ascontiguousarray(a), False
