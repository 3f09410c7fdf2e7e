"""The true result of a case, in float64 NumPy, from which every benchmark line has its
error."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nn.study.bench import Forward, Product, TrainStepCase

from .sides import checked_batches, checked_rows, in_order

sys.path.append(str(Path(__file__).resolve().parent.parent))
from support.plain_layers import forward, gradients


def truth(case) -> np.ndarray:
    """Return the true result of a case: gradients (batches, parameters) or outputs (1,
    values)."""
    if isinstance(case, TrainStepCase):
        return np.stack(
            [true_gradient(case, *batch) for batch in checked_batches(case)]
        )
    return (
        true_outputs(case) if isinstance(case, Forward) else true_product(case)
    ).reshape(1, -1)


def error(result, true: np.ndarray) -> float:
    """Relative distance of the whole, |p - q| / |q|; the median of several batches."""
    result = np.asarray(result, np.float64).reshape(true.shape)
    norm = np.linalg.norm(result - true, axis=1)
    return float(np.median(norm / np.linalg.norm(true, axis=1)))


def true_outputs(case: Forward) -> np.ndarray:
    net = case.model.network(case.dtype)
    x = case.model.data(case.rows, case.dtype)[0][checked_rows(case.rows)]
    outputs = forward(net.layers, net.parameters(), x)
    return outputs[-1]


def true_gradient(case: TrainStepCase, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    net = case.model.network(case.dtype)
    parameters = net.parameters()
    return in_order(
        gradients(net.layers, parameters, x, net.target_rows(y), loss=net.loss)[1],
        parameters,
    )


def true_product(case: Product) -> np.ndarray:
    """Some rows, in more digits than float64 where the machine has them."""
    a, b = case.factors()
    if case.dtype == "float32":
        wide = np.float64
    else:
        wide = np.longdouble
    return (a[checked_rows(case.m)].astype(wide) @ b.astype(wide)).astype(np.float64)
