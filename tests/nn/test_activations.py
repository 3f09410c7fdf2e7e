"""The fast elementary functions, over the whole range of numbers: within some units in
the last place."""

import math

import numpy as np
import pytest
from support.emulated_gpu import can_emulate, emulated_gpu

from nn import backends
from nn.layers import parse
from nn.nn_aux import ACTIVATIONS

WIDER = {np.dtype("float32"): np.float64, np.dtype("float64"): np.longdouble}


def every_size(dtype) -> np.ndarray:
    """Numbers of all magnitudes and both signs, subnormal ones too, and a dense patch
    around 0."""
    word = {"float32": np.uint32, "float64": np.uint64}[dtype]
    largest = np.array(np.finfo(dtype).max).view(word)[()]
    grid = np.linspace(0, int(largest), 200_000).astype(word)
    positive = grid.clip(0, largest).view(dtype)
    grid = np.linspace(-120, 120, 400_000).astype(dtype)
    return np.concatenate([positive, -positive, grid])


def activate(name, z, backend="omp"):
    """Return what a layer of one value makes of each z: its weight, and that of the
    output behind it, is 1."""
    layers = parse(f"1,1:{name},1:linear")
    engine = backends.create(backend, layers, "mse", z.dtype.name)
    engine.set("parameters", np.array([1, 0, 1, 0], z.dtype))
    data = engine.load(z[:, None])
    return engine.predict(data)[:, 0]


def sigmoid(z):
    e = np.exp(-np.abs(z))
    selected = np.where(z < 0, e, 1)
    return selected / (1 + e)


def normal_cdf(z):
    """The C library's erfc, and its derivative times what the argument loses as a
    float64."""
    root = np.sqrt(z.dtype.type(2))
    x = np.clip(-z / root, -40, 40)
    near = x.astype(np.float64)
    erfc = np.fromiter(map(math.erfc, near.tolist()), np.float64, len(near))
    exponentials = np.exp(-near * near)
    root = math.sqrt(math.pi)
    return (erfc - (x - near) * (2 / root) * exponentials) / 2


PRODUCTS = ("silu", "gelu")
# products and quotients of factors that are off by two units each
UNITS = {"silu": 3, "gelu": 8, "selu": 4}
EXACT = {
    "silu": lambda z: np.where(z < -1e4, 0, z * sigmoid(z)),
    "gelu": lambda z: np.where(z < -50, 0, z * normal_cdf(z)),
    "selu": lambda z: (
        z.dtype.type("1.0507009873554804934193349852946")
        * np.where(
            z > 0,
            z,
            z.dtype.type("1.6732632423543772848170429916717")
            * np.expm1(np.minimum(z, 0)),
        )
    ),
    "exp": np.exp,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "softplus": lambda z: np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z))),
    "relu": lambda z: np.maximum(z, 0),
    "lrelu": lambda z: np.where(z > 0, z, z / 100),
    "linear": lambda z: z,
}
ENDS = {  # the values at -infinity and infinity
    "silu": (0, np.inf),
    "gelu": (0, np.inf),
    "selu": (-1.7580993408473768, np.inf),
    "exp": (0, np.inf),
    "sigmoid": (0, 1),
    "tanh": (-1, 1),
    "softplus": (0, np.inf),
    "relu": (0, np.inf),
    "lrelu": (-np.inf, np.inf),
    "linear": (-np.inf, np.inf),
}
OF_ONE_VALUE = [name for name in ACTIVATIONS if name not in ("softmax", "steps")]


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ONE_VALUE)
def test_within_some_units_in_the_last_place(name, dtype):
    if dtype == "float64" and np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("no number type here is wider than float64")
    z = every_size(dtype)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        exact = EXACT[name](z.astype(WIDER[z.dtype]))
        activations = activate(name, z)
        right = exact.astype(dtype)
        unit = np.spacing(np.abs(right))
        # z times a subnormal number keeps no more digits than that
        if name in PRODUCTS:
            unit = np.maximum(unit, np.abs(z) * np.finfo(dtype).smallest_subnormal)
        is_finite = np.isfinite(right)
        difference = np.abs(activations - exact)[is_finite]
        error = difference / unit[is_finite]
    assert (activations[~is_finite] == right[~is_finite]).all()
    assert error.max() <= UNITS.get(name, 2), (
        f"{float(error.max()):.2f} units at {z[error.argmax()]!r}"
    )


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("name", OF_ONE_VALUE)
def test_a_nan_stays_one_and_the_ends_are_right(name, backend):
    z = np.array([np.nan, -np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(
        activate(name, z, backend), np.array([np.nan, *ENDS[name]], np.float32)
    )


@pytest.mark.skipif(not can_emulate(), reason="there is no C++ compiler")
def test_a_relu_leaves_a_nan_on_the_gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        z = np.array([np.nan, -np.inf, np.inf, -2, 3], np.float32)
        relu = activate("relu", z, "cuda")
    np.testing.assert_array_equal(relu, np.array([np.nan, 0, np.inf, 0, 3], np.float32))
