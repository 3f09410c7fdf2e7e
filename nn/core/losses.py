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


# a target of this size or more is a class with a weight, in this unit: csrc/nn.h
_LEAST_WEIGHTED = 2.0**32
_WEIGHT_UNIT = 2.0**80


def weighted_classes(y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return targets 0 and 1 (rows, targets) with the weights of their two classes
    (targets, 2), as losses that weigh classes take them; a class of weight 0 is as good
    as a missing target."""
    sizes = np.where(y > 0, weights[:, 1], weights[:, 0]) * _WEIGHT_UNIT
    are_counted = ~np.isnan(y) & (sizes >= _LEAST_WEIGHTED)
    return np.where(are_counted, np.where(y > 0, sizes, -sizes), np.nan)


def targets_and_weights(loss: str, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return targets, and the weight of each, 0 where it is missing, of those that
    weighted_classes has made or others."""
    weights = (~np.isnan(y)).astype(np.float64)
    if not loss_of(loss).weighs_classes:
        return y, weights
    sizes = np.abs(y)
    are_weighted = sizes >= _LEAST_WEIGHTED
    weights = np.where(are_weighted, sizes / _WEIGHT_UNIT, weights)
    return np.where(are_weighted, y > 0, y), weights


def row_losses(loss: str, a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of each row, from outputs and targets (rows, outputs), float64; a
    target that is missing, nan, has none. loss: as --loss writes it."""
    y, weights = targets_and_weights(loss, y)
    values = _VALUES[loss_name(loss)](a, y, *loss_of(loss).constants)
    if loss == "ce":
        return values.sum(axis=-1)
    values = np.where(weights > 0, values * weights, 0.0)
    return values.mean(axis=-1)
