"""The C core as Python sees it: its two extensions, pointers into arrays, random
numbers.

    _seq, _omp     built from csrc/ by csrc/build.py: the plain build and the fast one
    extension()    loads one of them; pointer() hands an array to it, checked
    random.py      the project's random streams: shuffles, row orders, initial weights
    losses.py      the losses of rows, by name
    metrics.py     the figures of truth and scores, by name; weights of rows
    weighted.py    medians, quantiles and counts of weighted values
    bootstrap.py   intervals of the figures, from resampled rows
    two_samples.py whether two samples of counts are of one distribution
    thresholds.py  the score from which a row is of class 1, by a rule; probabilities by
                   temperature
    crossed.py     temperature and threshold of each fold, found on the rows of
                   the others
    conformal.py   how far a prediction may be off: intervals of values, sets of classes
    records.py     packed rows of a mixed table: numbers and codes

It knows nothing of layers, networks, data sets and files.

Imports: utils, nn_aux, settings. Imported by: data, files, backends, nn, matrix, test,
train, pages, study, commands.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

import numpy as np

from ..utils import NnError, UsageError, is_for_want_of_memory

SUFFIXES = {"float32": "f32", "float64": "f64"}
C_TYPES = {  # NumPy's character for a type -> the C array of it
    np.dtype(name).char: f"{c}[]"
    for name, c in {
        "float32": "float",
        "float64": "double",
        "uint8": "uint8_t",
        "int32": "int32_t",
        "int64": "int64_t",
    }.items()
}


@cache
def extension(backend: str):
    """Return (ffi, lib) of a CPU backend. Raises UsageError if it cannot use the
    instruction set that NN_ISA names, ImportError where memory does not suffice to load
    it."""
    if backend == "omp":
        # libgomp reads these when it is loaded: its idle threads should sleep, not spin
        # against the others, but for
        # some microseconds, in which the next call of a row of short ones may come
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        module = import_module(f"{__name__}._{backend}")
    except ImportError as error:
        if is_for_want_of_memory(str(error)):
            raise  # the command says so; the core is there
        raise NnError(
            f"the C core is not built ({error}): run `pip install .` in the source folder, and "
            "start nn from another folder"
        ) from error
    asked = os.environ.get("NN_ISA")
    instruction_set = module.ffi.string(module.lib.nn_isa()).decode()
    if backend == "omp" and asked and asked != instruction_set:
        raise UsageError(
            f"NN_ISA={asked}: this processor or build cannot use it; unset it, or use {instruction_set}"
        )
    return module.ffi, module.lib


def pointer(
    ffi,
    array: np.ndarray,
    dtype,
    shape: tuple[int, ...] | None = None,
    writable: bool = False,
):
    """Return a C pointer to an array's numbers, after checking type, shape and layout,
    which C cannot."""
    if array.dtype != dtype or (shape is not None and array.shape != shape):
        raise ValueError(
            f"expected {np.dtype(dtype)} {shape}, got {array.dtype} {array.shape}"
        )
    if not array.flags.c_contiguous:
        raise ValueError("expected a C-contiguous array")
    # by name takes twice as long
    return ffi.from_buffer(C_TYPES[array.dtype.char], array, writable)
