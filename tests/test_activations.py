"""The fast elementary functions, over the whole range of numbers: within 2 units in the last place."""

import numpy as np
import pytest

from nn.backends.cpu import SUFFIXES, extension, pointer

WIDER = {np.dtype("float32"): np.float64, np.dtype("float64"): np.longdouble}


def every_size(dtype, count=400_000) -> np.ndarray:
    """Numbers of all magnitudes and both signs, subnormal ones too, and a dense patch around 0."""
    word = {"float32": np.uint32, "float64": np.uint64}[dtype]
    largest = np.array(np.finfo(dtype).max).view(word)[()]
    bits = np.linspace(0, int(largest), count // 2, dtype=np.float64).astype(word).clip(0, largest)
    positive = bits.view(dtype)
    return np.concatenate([positive, -positive, np.linspace(-120, 120, count).astype(dtype)])


def activate(name, z):
    ffi, lib = extension("omp")
    a = z.copy()
    function = getattr(lib, f"activate_{SUFFIXES[z.dtype.name]}")
    function(pointer(ffi, a, z.dtype), getattr(lib, f"NN_{name}"), a.size, 64)
    return a


def sigmoid(z):
    e = np.exp(-np.abs(z))
    return np.where(z < 0, e, 1) / (1 + e)


EXACT = {
    "SIGMOID": sigmoid,
    "TANH": np.tanh,
    "SOFTPLUS": lambda z: np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
def test_within_two_units_in_the_last_place(name, dtype):
    if dtype == "float64" and np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("no number type here is wider than float64")
    z = every_size(dtype)
    with np.errstate(under="ignore", over="ignore"):
        exact = EXACT[name](z.astype(WIDER[z.dtype]))
        unit = np.spacing(np.abs(exact).astype(dtype))
        error = np.abs(activate(name, z) - exact) / unit
    assert error.max() <= 2, f"{float(error.max()):.2f} units at {z[error.argmax()]!r}"


@pytest.mark.parametrize("name", [*EXACT, "RELU", "LRELU", "LINEAR"])
def test_a_nan_stays_one_and_the_ends_are_right(name):
    z = np.array([np.nan, -np.inf, np.inf], np.float32)
    ends = {"SIGMOID": (0, 1), "TANH": (-1, 1), "SOFTPLUS": (0, np.inf), "RELU": (0, np.inf)}
    low, high = ends.get(name, (-np.inf, np.inf))
    np.testing.assert_array_equal(activate(name, z), np.array([np.nan, low, high], np.float32))
