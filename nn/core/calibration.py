"""Calibration by temperature: class probabilities of logits that are divided by one number (Guo et al. 2017).

A temperature above 1 makes probabilities less sure, one below 1 surer. Which class is the likeliest, and the order of
the scores of two classes, stay as they are.
"""

from __future__ import annotations

import numpy as np

from .metrics import total

LEAST, MOST = 1 / 64, 64.0  # temperatures; only rows that are all right, or no better than chance, ask for others
STEPS = 60  # halvings of the range of the temperature's logarithm: more digits than float64 has


def tempered(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return probabilities of logits divided by the temperature, of the same shape and type.

    scores (rows, 1) of class 1 of two, by a sigmoid, or (rows, classes), by a softmax.
    """
    return _probabilities(logits_of(scores) / temperature).astype(scores.dtype)


def logits_of(scores: np.ndarray) -> np.ndarray:
    """Return logits that have these probabilities, float64: (rows, 1) of class 1, or (rows, classes).

    Probabilities of 0 and 1 are taken for the nearest numbers of their type inside (0, 1).
    """
    info = np.finfo(scores.dtype)
    p = np.clip(scores.astype(np.float64), float(info.tiny), 1 - float(info.epsneg))
    return np.log(p) - np.log1p(-p) if scores.shape[1] == 1 else np.log(p)


def _probabilities(logits: np.ndarray) -> np.ndarray:
    if logits.shape[1] == 1:
        small = np.exp(-np.abs(logits))
        return np.where(logits >= 0, 1.0, small) / (1 + small)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def best_temperature(truth: np.ndarray, scores: np.ndarray, weights=None) -> float:
    """Return the temperature with the least log loss on these rows, from 1/64 to 64.

    truth (rows,) class indices; scores as in `tempered`. The log loss is convex in 1/temperature, so the sign of its
    slope says on which side the least lies: halving finds it, in float64, the same each time.
    """
    logits = logits_of(scores)
    low, high = np.log(1 / MOST), np.log(1 / LEAST)  # of 1/temperature
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _slope(truth, logits, np.exp(middle), weights) < 0:
            low = middle
        else:
            high = middle
    return float(np.exp(-(low + high) / 2))


def _slope(truth: np.ndarray, logits: np.ndarray, inverse: float, weights) -> float:
    """Return the derivative of the log loss by 1/temperature: expected less true logit, summed over the rows."""
    p = _probabilities(logits * inverse)
    if logits.shape[1] == 1:
        return total((p[:, 0] - truth) * logits[:, 0], weights)
    true = np.take_along_axis(logits, np.asarray(truth, np.int64)[:, None], axis=1)[:, 0]
    return total((p * logits).sum(axis=1) - true, weights)
