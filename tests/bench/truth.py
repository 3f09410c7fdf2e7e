"""The true result of a case, in float64 NumPy, from which every benchmark line has its error."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from nn.study.bench import Forward, Product, TrainStepCase

from .sides import checked_batches, checked_rows, in_order

sys.path.append(str(Path(__file__).resolve().parent.parent))
from support.plain_layers import ACTIVATIONS, forward, gradients  # noqa: E402 - the tests' own judge stands beside this folder


def truth(case) -> np.ndarray:
    """Return the true result of a case: gradients (batches, parameters) or outputs (1, values)."""
    if isinstance(case, TrainStepCase):
        return np.stack([true_gradient(case, *batch) for batch in checked_batches(case)])
    return (true_outputs(case) if isinstance(case, Forward) else true_product(case)).reshape(1, -1)


def error(result, true: np.ndarray) -> float:
    """Relative distance of the whole, |p - q| / |q|; the median of several batches."""
    result = np.asarray(result, np.float64).reshape(true.shape)
    return float(np.median(np.linalg.norm(result - true, axis=1) / np.linalg.norm(true, axis=1)))


def without_output(layers):
    """Return the layers with their last activation left to the caller."""
    return [*layers[:-1], replace(layers[-1], activation="linear")]


def activated(z: np.ndarray, activation: str) -> np.ndarray:
    """Outputs from the last layer's values."""
    if activation == "softmax":
        z = np.exp(z - z.max(1, keepdims=True))
        return z / z.sum(1, keepdims=True)
    return ACTIVATIONS[activation][0](z)


def true_outputs(case: Forward) -> np.ndarray:
    net = case.model.network("float64")
    parameters = case.model.network(case.dtype).parameters()
    x = case.model.data(case.rows, case.dtype)[0][checked_rows(case.rows)]
    return activated(forward(without_output(net.layers), parameters, x)[-1], net.layers[-1].activation)


def true_gradient(case: TrainStepCase, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    net = case.model.network(case.dtype)
    layers, parameters = without_output(net.layers), net.parameters()
    y = net.target_rows(y).astype(np.float64)
    z = forward(layers, parameters, x)[-1]
    output = activated(z, net.layers[-1].activation)
    dz = (output - y) / (len(x) if net.loss == "ce" else y.size)
    if net.loss == "mse":
        dz *= 2 * ((z > 0) if net.layers[-1].activation == "relu" else 1)
    # The judge's own loss is the mean square, whose gradient is 2 (z - t) / size: t so that this is dz.
    return in_order(gradients(layers, parameters, x, z - dz * z.size / 2)[1], parameters)


def true_product(case: Product) -> np.ndarray:
    """Some rows, in more digits than float64 where the machine has them."""
    a, b = case.factors()
    wide = np.float64 if case.dtype == "float32" else np.longdouble
    return (a[checked_rows(case.m)].astype(wide) @ b.astype(wide)).astype(np.float64)
