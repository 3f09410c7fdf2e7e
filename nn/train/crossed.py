"""Decisions about a cross-validation whose figures tell what is true of rows that
nobody has looked at: a temperature and a threshold are chosen for the rows of a fold by
those of all others (the weights of networks in search.py, their epochs in
common_epoch.py).

Arrays: truth (rows,), of several targets (rows, targets); scores (rows, outputs);
of_row (rows,), the fold of each row; weights (rows,) or None.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.thresholds import best_temperature, best_threshold, tempered
from ..utils import DataError, UsageError


def temperatures_by_others(
    truth, scores: np.ndarray, of_row, folds: int, weights=None
) -> list[float]:
    """Return the temperature of each fold, 1 of one without rows."""
    found = [1.0] * folds
    for fold in np.unique(of_row).tolist():
        others = of_row != fold
        if others.any():
            found[fold] = best_temperature(
                truth[others],
                scores[others],
                None if weights is None else weights[others],
            )
    return found


def thresholds_by_others(
    rule: str,
    truth,
    scores: np.ndarray,
    of_row,
    temperatures: Sequence[float],
    usual: float,
    weights=None,
) -> list[float]:
    """Return the threshold of each fold that a rule finds on the scores of the others,
    by the fold's temperature.

    usual: the threshold where the others' rows cannot tell one: none of them is of
    class 1, or no cut-off is precise enough.
    """
    found = [usual] * len(temperatures)
    for fold in np.unique(of_row).tolist():
        others = of_row != fold
        if weights is None:
            of_others = None
        else:
            of_others = weights[others]
        calibrated = tempered_by(scores[others], temperatures[fold])
        found[fold] = _threshold_or(usual, rule, truth[others], calibrated, of_others)
    return found


def _threshold_or(usual: float, rule: str, truth, scores: np.ndarray, weights) -> float:
    try:
        return best_threshold(rule, truth, scores[:, 0], weights)
    except (DataError, UsageError):
        return usual


def tempered_by(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return scores by a temperature; 1 leaves them as they are."""
    if temperature == 1:
        return scores
    return tempered(scores, temperature)
