"""Names and random numbers: what activations, losses, optimisers and initialisers there are.

The dictionaries here are what the command line's help, the checks and the engines read. A name stands for the
constant `NN_<NAME>` of csrc/nn.h; the formula is in csrc/nn_aux.c.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

ACTIVATIONS = {
    "relu": "max(z, 0)",
    "sigmoid": "1 / (1 + exp(-z))",
    "tanh": "tanh(z)",
    "lrelu": "z, below 0: 0.01 z",
    "softplus": "log(1 + exp(z))",
    "linear": "z",
    "softmax": "exp(z) / sum(exp(z)), last layer only",
}
LOSSES = {
    "mse": "(a - y)^2",
    "mae": "|a - y|",
    "huber": "(a - y)^2 / 2, beyond 1: |a - y| - 1/2",
    "bce": "binary cross entropy, from the logits of a sigmoid layer",
    "ce": "cross entropy, from the logits of a softmax layer",
}
OPTIMIZERS = {
    "adam": "Kingma and Ba 2014: 0.9, 0.999, epsilon 1e-8",
    "sgd": "w -= rate * gradient, with --momentum if asked",
}
LEARNING_RATES = {"adam": 0.001, "sgd": 0.01}  # and below: defaults, found by cross-validation (README)
WEIGHT_DECAYS = {"adam": 0.15, "sgd": 0.0}
INITIALIZERS = {
    "he": "normal, variance 2 / fan_in",
    "glorot": "uniform in +-sqrt(6 / (fan_in + fan_out))",
    "uniform": "uniform in [0, 1], biases too, as the original",
}
SCHEDULES = {
    "cooldown": lambda done: min(1.0, 4.0 * (1.0 - done)),
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
"""name -> share of the learning rate that holds when the share `done` (0..1) of the training is over.
cooldown, the default: constant, in the last quarter down to 0 in a straight line."""
DEFAULT_SCHEDULE = "cooldown"

DTYPES = ("float32", "float64")
SCALINGS = {
    "none": "values as they are",
    "normalization": "(x - min) / (max - min)",
    "standardization": "(x - mean) / standard deviation",
    "pixel": "x / 255 for uint8 images, floats as they are",
}
SCALING_ALIASES = {"standarization": "standardization"}  # the original's spelling

TASKS = {  # task -> (activation of the output layer, loss) when nobody says otherwise
    "binary": ("sigmoid", "bce"),
    "multiclass": ("softmax", "ce"),
    "regression": ("linear", "mse"),
}

REFERENCE = {  # what --reference stands for; another value beside it contradicts it
    "backend": "seq",
    "dtype": "float64",
    "activation": "sigmoid",
    "loss": "mse",
    "init": "uniform",
    "optimizer": "sgd",
    "schedule": "constant",
}

# Streams of the one generator (Philox, key = seed), in word 2 of its counter. Dropout masks have the step there,
# which stays below these, and the layer in word 3 (csrc/dropout.c).
STREAM_WEIGHTS = 0x57000000  # + index of the layer
STREAM_SHUFFLE = 0x53000000  # of all rows, with the epoch in word 3; + 1 + number of the window: of its rows
STREAM_HOLDOUT = 0x48000000  # of all rows; + 1 + number of the group: of its blocks (parts.py)


def _core():
    from .backends.cpu import extension

    return extension("seq")


def shuffled(n: int, seed: int, stream: int, lane: int = 0):
    """A permutation of 0..n-1 (int64), the same on every machine for a seed, stream and lane."""
    import numpy as np

    ffi, lib = _core()
    order = np.arange(n, dtype=np.int64)
    lib.nn_shuffle(ffi.cast("int64_t *", order.ctypes.data), n, seed, stream, lane)
    return order


class PhiloxOrder:
    """Row order of epoch after epoch. Each epoch's is drawn from its number alone, so that any can be repeated.

    ahead: the next epoch's is drawn by a thread while this one is computed, which costs nothing where that happens
    elsewhere than on the processor."""

    def __init__(self, rows: int, seed: int, ahead: bool = False):
        self.rows, self.seed = rows, seed
        self._worker, self._coming = ThreadPoolExecutor(1) if ahead else None, {}

    def epoch(self, number: int):
        """int64 permutation of 0..rows-1 for epoch `number`, from 0."""
        coming = self._coming.pop(number, None)
        order = coming.result() if coming else self._draw(number)
        if self._worker:
            self._coming = {number + 1: self._worker.submit(self._draw, number + 1)}
        return order

    def _draw(self, number: int):
        return shuffled(self.rows, self.seed, STREAM_SHUFFLE, number)

    def state(self) -> dict:
        """What the next order is drawn from, as arrays: nothing but the epoch's number."""
        return {}

    def restore(self, state: dict) -> None:
        """Go on from what `state` gave."""


class GlibcRandom:
    """The original program's one stream of random numbers: glibc's rand() after srand(seed)."""

    def __init__(self, seed: int):
        self._ffi, self._lib = _core()
        self._state = self._ffi.new("uint32_t[34]")
        self._lib.nn_glibc_srand(self._state, seed)

    def uniform(self, n: int):
        """float64 (n,), each rand() / RAND_MAX."""
        import numpy as np

        out = np.empty(n)
        self._lib.nn_glibc_uniform(self._ffi.cast("double *", out.ctypes.data), n, self._state)
        return out

    def shuffle(self, order) -> None:
        """The original's shuffle of an int64 array, in place."""
        pointer = self._ffi.cast("int64_t *", order.ctypes.data)
        self._lib.nn_glibc_shuffle(pointer, len(order), self._state)

    def state(self):
        """The generator's words, uint32 (34,), the last one its place in the ring of 31."""
        import numpy as np

        return np.array(list(self._state), np.uint32)

    def restore(self, state) -> None:
        """Go on from what `state` gave. Raises ValueError for words that no generator has."""
        if state.shape != (len(self._state),) or state[-1] >= 31:
            raise ValueError("no state of the generator")
        for index, word in enumerate(state.tolist()):
            self._state[index] = word


class GlibcOrder:
    """Row order as in the original: one array, shuffled again for each epoch from the stream of the weights."""

    def __init__(self, rows: int, random: GlibcRandom):
        import numpy as np

        self._order, self._random = np.arange(rows, dtype=np.int64), random

    def epoch(self, number: int):
        """The next epoch's order, int64 (rows,); epochs must be asked for one after the other."""
        self._random.shuffle(self._order)
        return self._order

    def state(self) -> dict:
        """What the next order is drawn from, as arrays: the last order and the generator."""
        return {"rows": self._order.copy(), "random": self._random.state()}

    def restore(self, state: dict) -> None:
        """Go on from what `state` gave. Raises ValueError for what is no order of the rows."""
        import numpy as np

        if not np.array_equal(np.sort(state["rows"]), np.arange(len(self._order))):
            raise ValueError("no order of the rows")
        self._random.restore(state["random"])
        self._order = state["rows"].copy()


def initial_weight(init: str, shape, fan_in: int, fan_out: int, seed: int, layer: int):
    """float64 array of `shape`, drawn from the layer's own stream by the rule INITIALIZERS[init]."""
    import numpy as np

    ffi, lib = _core()
    out = np.empty(math.prod(shape))
    draw = lib.nn_normal if init == "he" else lib.nn_uniform
    draw(ffi.cast("double *", out.ctypes.data), out.size, seed, STREAM_WEIGHTS + layer)
    if init == "he":
        out *= math.sqrt(2.0 / fan_in)
    elif init == "glorot":
        bound = math.sqrt(6.0 / (fan_in + fan_out))
        out *= 2.0 * bound
        out -= bound
    return out.reshape(shape)
