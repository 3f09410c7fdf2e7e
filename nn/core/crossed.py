"""Decisions about a cross-validation whose figures tell what is true of rows that
nobody has looked at: a temperature and a threshold are chosen for the rows of a fold by
those of all others (so are weights and epochs of networks: train/search.py,
train/common_epoch.py).

Arrays: truth (rows,), of several targets (rows, targets); scores (rows, outputs);
of_row (rows,), the fold of each row; weights (rows,) or None.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..utils import DataError, UsageError
from .thresholds import best_temperature, best_threshold, tempered
from .weighted import at_rows


def temperatures_by_others(
    truth, scores: np.ndarray, of_row, folds: int, weights=None
) -> list[float]:
    """Return the temperature of each fold, 1 of one without rows."""
    temperatures = [1.0] * folds
    for fold in np.unique(of_row).tolist():
        others = of_row != fold
        if others.any():
            temperatures[fold] = best_temperature(
                truth[others], scores[others], at_rows(weights, others)
            )
    return temperatures


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
    thresholds = [usual] * len(temperatures)
    for fold in np.unique(of_row).tolist():
        others = of_row != fold
        calibrated = tempered(scores[others], temperatures[fold])
        try:
            thresholds[fold] = best_threshold(
                rule, truth[others], calibrated[:, 0], at_rows(weights, others)
            )
        except (DataError, UsageError):
            continue
    return thresholds
