"""95 % intervals of figures: the bootstrap of Efron (1979), percentiles over resampled rows.

1000 times as many rows as there are are drawn with replacement, truth, score and weight together, and each figure is
formed anew; its interval runs from the 2.5th to the 97.5th percentile of the values. A resample in which a figure is
undefined, such as the ROC-AUC without a positive row, does not count for it. Each resample has random numbers of its
own, so that the intervals are the same for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..utils import default_threads
from .metrics import (
    Counts,
    are_probabilities,
    decide,
    mcc,
    pr_area,
    precision_recall_f1,
    ratio,
    roc_area,
    row_brier_scores,
    row_log_losses,
)
from .random import STREAM_BOOTSTRAP, uniform

RESAMPLES = 1000
PERCENTILES = (2.5, 97.5)
ROW_BYTES, MOST_BYTES = 48, 1 << 28  # that a thread takes of a row, and all threads together

Interval = list[float] | None


def times_drawn(rows: int, seed: int, resample: int) -> np.ndarray:
    """Return how often a resample has each row, float64 (rows,)."""
    places = (uniform(rows, seed, STREAM_BOOTSTRAP, resample) * rows).astype(np.int64)
    return np.bincount(places, minlength=rows).astype(np.float64)


def intervals_of(
    figures: Callable[[np.ndarray], dict], rows: int, weights=None, *, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Interval]:
    """Return the interval of each figure.

    figures: forms them of the weights of the rows (rows,); None or NaN where one is undefined. weights: of the rows,
    None for 1 each: a row of weight w that was drawn t times counts t w.
    """
    each = np.ones(rows) if weights is None else np.asarray(weights, np.float64)

    def drawn(resample: int) -> dict:
        with np.errstate(divide="ignore", invalid="ignore"):
            return figures(times_drawn(rows, seed, resample) * each)

    threads = min(default_threads(), max(1, MOST_BYTES // (ROW_BYTES * rows)))
    with ThreadPoolExecutor(threads) as workers:
        found = list(workers.map(drawn, range(resamples)))
    return {name: interval([values[name] for values in found]) for name in found[0]}


def interval(values: Sequence[float | None]) -> Interval:
    """Return [low, high], the percentiles of the values that are finite; None if none is."""
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    return np.percentile(values, PERCENTILES).tolist() if values.size else None


def binary_intervals(
    truth: np.ndarray, scores: np.ndarray, threshold: float, weights=None, *, seed: int = 0
) -> dict[str, Interval]:
    """Return the intervals of the figures for two classes; the arguments are those of test.binary_report."""
    cell, losses = 2 * np.asarray(truth, np.int64) + decide(scores, threshold), _row_losses(truth, scores)
    order = np.argsort(-scores.astype(np.float64))
    ranked, positive = scores[order], truth[order] == 1
    first = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))  # of each run of equal scores

    def figures(weights: np.ndarray) -> dict:
        tn, fp, fn, tp = np.bincount(cell, weights, 4).tolist()
        precision, recall, f1 = precision_recall_f1(tp, fp, fn)
        all_of, of_one = (np.add.reduceat(each, first) for each in (weights[order], weights[order] * positive))
        sides = of_one, all_of - of_one
        log_loss, brier = weights @ losses / weights.sum()
        return {
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "accuracy": ratio(tp + tn, tn + fp + fn + tp),
            "mcc": mcc(Counts(tp, fp, fn, tn)),
            "roc_auc": roc_area(*sides),
            "pr_auc": pr_area(*sides),
            "log_loss": log_loss,
            "brier": brier,
        }

    return intervals_of(figures, len(truth), weights, seed=seed)


def multiclass_intervals(truth: np.ndarray, scores: np.ndarray, weights=None, *, seed: int = 0) -> dict[str, Interval]:
    """Return the intervals of the figures for several classes, macro_f1 for that of macro's f1, and so on.

    truth (rows,) class indices, scores (rows, classes).
    """
    classes, predicted, truth = scores.shape[1], decide(scores), np.asarray(truth, np.int64)
    is_right, losses = predicted == truth, _row_losses(truth, scores)

    def figures(weights: np.ndarray) -> dict:
        right, said, support = (
            np.bincount(numbers, each, classes).tolist()
            for numbers, each in ((truth, weights * is_right), (predicted, weights), (truth, weights))
        )
        rates = [precision_recall_f1(tp, p - tp, s - tp) for tp, p, s in zip(right, said, support, strict=True)]
        means = (sum(column) / classes for column in zip(*rates, strict=True))
        names = ("macro_precision", "macro_recall", "macro_f1")
        log_loss, brier = weights @ losses / weights.sum()
        accuracy = ratio(sum(right), sum(support))
        return {"accuracy": accuracy, **dict(zip(names, means, strict=True)), "log_loss": log_loss, "brier": brier}

    return intervals_of(figures, len(truth), weights, seed=seed)


def regression_intervals(
    truth: np.ndarray, predicted: np.ndarray, persistence: np.ndarray | None = None, weights=None, *, seed: int = 0
) -> dict[str, Interval]:
    """Return the intervals of the figures for numbers, all arrays (rows, outputs)."""
    truth, predicted = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    outputs, error = truth.shape[1], predicted - truth
    centred = truth - truth.mean(axis=0)  # squares of values far from 0 would lose the variance
    parts = [error**2, centred, centred**2, np.abs(error).mean(axis=1, keepdims=True)]
    if persistence is not None:
        parts.append(((persistence - truth) ** 2).mean(axis=1, keepdims=True))
    parts = np.concatenate(parts, axis=1)

    def figures(weights: np.ndarray) -> dict:
        means = weights @ parts / weights.sum()
        square, centre, spread = means[: 3 * outputs].reshape(3, outputs)
        variance, rmse = spread - centre**2, np.sqrt(square.mean())
        r2 = np.where(variance > 1e-12 * spread, 1 - square / variance, math.nan).mean()
        found = {"mse": square.mean(), "mae": means[3 * outputs], "rmse": rmse, "r2": r2}
        if persistence is not None:
            reference = np.sqrt(means[-1])
            found |= {"persistence_rmse": reference, "skill": 1 - rmse / reference}
        return found

    return intervals_of(figures, len(truth), weights, seed=seed)


def _row_losses(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return log loss and Brier score of each row, NaN where scores are no probabilities: (rows, 2)."""
    if not are_probabilities(scores):
        return np.full((len(scores), 2), math.nan)
    return np.stack([row_log_losses(truth, scores), row_brier_scores(truth, scores)], axis=1)
