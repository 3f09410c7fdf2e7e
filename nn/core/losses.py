"""The losses of rows, in NumPy: what the engines compute of outputs, as baselines and
metrics need it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..nn_aux import loss_name, loss_of

# of a class: as for the log loss, 0 is no probability
LEAST_CLASS_SHARE = float(np.finfo(np.float32).eps)


def _cross_entropy(share: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -y * np.log(np.clip(share, LEAST_CLASS_SHARE, 1.0))


def _huber(a: np.ndarray, y: np.ndarray, distance: float) -> np.ndarray:
    size = np.abs(a - y)
    straight = distance * (size - 0.5 * distance)
    return np.where(size <= distance, size**2 / 2, straight)


def _pinball(a: np.ndarray, y: np.ndarray, *shares: float) -> np.ndarray:
    share = np.array(shares)
    return np.maximum(share * (y - a), (1 - share) * (a - y))


def _focal(a: np.ndarray, y: np.ndarray, power: float) -> np.ndarray:
    of_1 = (1 - a) ** power * _cross_entropy(a, y)
    return of_1 + a**power * _cross_entropy(1 - a, 1 - y)


def _deviance(a: np.ndarray, y: np.ndarray, power: float) -> np.ndarray:
    if power == 1:
        return 2 * (np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / a), 0) - y + a)
    if power == 2:
        return 2 * (y / a - 1 - np.log(y / a))
    of_y = y ** (2 - power) / ((1 - power) * (2 - power))
    return 2 * (
        of_y - y * a ** (1 - power) / (1 - power) + a ** (2 - power) / (2 - power)
    )


# by the names of LOSSES: of each value, from outputs, targets and the constants
_VALUES: dict[str, Callable] = {
    "mse": lambda a, y: (a - y) ** 2,
    "mae": lambda a, y: np.abs(a - y),
    "huber": _huber,
    "quantile": _pinball,
    "bce": lambda a, y: _cross_entropy(a, y) + _cross_entropy(1 - a, 1 - y),
    "focal": _focal,
    "ce": _cross_entropy,
    **dict.fromkeys(("poisson", "gamma", "tweedie"), _deviance),
}


def _pinball_slope(a: np.ndarray, y: np.ndarray, *shares: float) -> np.ndarray:
    share = np.array(shares)
    return np.where(a > y, 1 - share, 0) - share * (a < y)


def _focal_slope(a: np.ndarray, y: np.ndarray, power: float) -> np.ndarray:
    def of_class(p):
        q = 1 - p
        return power * q ** (power - 1) * np.log(p) - q**power / p

    return y * of_class(a) - (1 - y) * of_class(1 - a)


# of losses whose best output for all rows is not the mean: the slope by the output
SLOPES: dict[str, Callable] = {
    "mae": lambda a, y: np.sign(a - y),
    "huber": lambda a, y, distance: np.clip(a - y, -distance, distance),
    "quantile": _pinball_slope,
    "focal": _focal_slope,
}


def row_losses(loss: str, a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of each row, from outputs and targets (rows, outputs), float64; a
    target that is missing, nan, has none. loss: as --loss writes it."""
    values = _VALUES[loss_name(loss)](a, y, *loss_of(loss).constants)
    if loss == "ce":
        return values.sum(axis=-1)
    values = np.where(np.isnan(y), 0.0, values)
    return values.mean(axis=-1)
