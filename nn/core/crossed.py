"""Decisions about a cross-validation whose figures tell what is true of rows that
nobody has looked at: a temperature and a threshold are chosen for the rows of a fold by
those of all others; so are epochs (train/common_epoch.py has the networks), and the
weights of networks (train/search.py).

Arrays: truth (rows,), of several targets (rows, targets); scores (rows, outputs);
of_row (rows,), the fold of each row; weights (rows,) or None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from ..utils import DataError, UsageError
from .thresholds import best_temperature, best_threshold, by_target, tempered
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
    usual: float | list[float],
    weights=None,
) -> list:
    """Return the threshold of each fold, or those of several targets, that a rule finds
    on the scores of the others, by the fold's temperature.

    usual: the threshold, or that of a target, where the others' rows cannot tell one:
    none of them is of class 1, or no cut-off is precise enough.
    """
    thresholds = [usual] * len(temperatures)
    usual_of_each = np.broadcast_to(usual, scores.shape[1]).tolist()
    for fold in np.unique(of_row).tolist():
        others = of_row != fold
        calibrated = tempered(scores[others], temperatures[fold], truth.ndim == 2)
        targets = by_target(truth[others], calibrated, at_rows(weights, others))
        cuts = []
        for rows, threshold in zip(targets, usual_of_each, strict=True):
            with contextlib.suppress(DataError, UsageError):
                threshold = best_threshold(rule, *rows)
            cuts.append(threshold)
        thresholds[fold] = cuts if truth.ndim == 2 else cuts[0]
    return thresholds


# ---- the epoch that folds keep: values (epochs, folds) of the monitored metric, nan
# where it is undefined; weights (folds,)


def relative(losses: np.ndarray, baselines: np.ndarray) -> np.ndarray:
    """Return losses (epochs, folds) as parts of the folds' baselines (folds,), nan
    where a baseline is undefined or 0:
    a fold of rows that are hard to predict counts no more than another."""
    are_usable = np.isfinite(baselines) & (baselines > 0)
    return losses / np.where(are_usable, baselines, np.nan)


def means_of_all(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean over the folds of each epoch, (epochs,); nan where no
    fold's value is defined."""
    sums, counts = _sums(values, weights)
    return _divided(sums.sum(axis=1), counts.sum(axis=1))


def means_of_others(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each epoch and fold the weighted mean over all other folds, (epochs,
    folds); nan where undefined."""
    sums, counts = _sums(values, weights)
    return _divided(_without_own(sums), _without_own(counts))


def are_best(means: np.ndarray, higher_is_better: bool) -> np.ndarray:
    """Return whether the last epoch's means (epochs, columns) are better than those of
    all epochs before, (columns,).

    One that is undefined is not; the first one that is defined is.
    """
    if higher_is_better:
        gains = means
    else:
        gains = -means
    gains = np.where(np.isnan(gains), -np.inf, gains)
    before = gains[:-1].max(axis=0, initial=-np.inf)
    return gains[-1] > before


def _sums(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    are_defined = np.isfinite(values)
    counts = are_defined * weights
    return np.where(are_defined, values, 0.0) * counts, counts


def _without_own(terms: np.ndarray) -> np.ndarray:
    """Return the sums over all other columns: those before and those behind, for a
    difference would be rounded."""
    nothing = np.zeros((len(terms), 1))
    before = np.hstack([nothing, np.cumsum(terms, axis=1)[:, :-1]])
    behind = np.hstack([np.cumsum(terms[:, ::-1], axis=1)[:, -2::-1], nothing])
    return before + behind


def _divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
