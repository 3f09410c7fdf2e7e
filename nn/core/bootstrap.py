"""95 % intervals of figures: the bootstrap of Efron (1979), percentiles over resampled rows.

1000 times as many rows as there are are drawn with replacement, truth, score and weight together, and each figure is
formed anew; its interval runs from the 2.5th to the 97.5th percentile of the values. A resample in which a figure is
undefined, such as the ROC-AUC without a positive row, does not count for it. Each resample has a stream of random
numbers of its own, so that the intervals are the same for any number of threads.

The C core (csrc/bootstrap.c) adds up; what the sums mean is formed here by the functions of metrics.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..utils import default_threads
from . import extension
from .metrics import (
    Counts,
    are_probabilities,
    decide,
    mcc,
    precision_recall_f1,
    ratio,
    row_brier_scores,
    row_log_losses,
)
from .random import STREAM_BOOTSTRAP

RESAMPLES = 1000
PERCENTILES = (2.5, 97.5)
BLOCK = 25  # resamples that a thread takes at a time

Interval = list[float] | None


# ---------------------------------------------------------------- resampled rows


def resampled_sums(
    rows: int, weights=None, values=None, bins=None, bin_count: int = 0, *, seed: int = 0, resamples: int = RESAMPLES
) -> np.ndarray:
    """Return sums over resampled rows: float64 (resamples, columns + bin_count).

    values (rows, columns): times the row's weight; bins (rows, groups): numbers of the bins to which the row adds its
    weight, -1 for none. weights (rows,), None for 1 each.
    """
    ffi, lib = extension("seq")
    weights = np.ones(rows) if weights is None else np.ascontiguousarray(weights, np.float64)
    values = np.zeros((rows, 0)) if values is None else np.ascontiguousarray(values, np.float64)
    bins = np.zeros((rows, 0), np.int32) if bins is None else np.ascontiguousarray(bins, np.int32)
    data = ffi.new("bootstrap_rows *")
    data.rows, data.columns, data.groups, data.bin_count = rows, values.shape[1], bins.shape[1], bin_count
    data.weights = ffi.cast("double *", weights.ctypes.data)
    data.values = ffi.cast("double *", values.ctypes.data)
    data.bins = ffi.cast("int32_t *", bins.ctypes.data)
    return _resampled(lib.bootstrap_sums, data, rows, values.shape[1] + bin_count, seed, resamples)


def resampled_areas(
    truth: np.ndarray, scores: np.ndarray, weights=None, *, seed: int = 0, resamples: int = RESAMPLES
) -> np.ndarray:
    """Return ROC-AUC and PR-AUC of resampled rows, float64 (resamples, 2), NaN where a class is missing.

    truth (rows,) of 0 and 1, scores (rows,), weights (rows,); the rows drawn are those of resampled_sums.
    """
    ffi, lib = extension("seq")
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    ranked = scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True).astype(np.uint8)
    each = np.ones(len(order)) if weights is None else np.asarray(weights, np.float64)[order]
    positive, negative = each * (truth[order] == 1), each * (truth[order] != 1)
    ranks = ffi.new("bootstrap_ranks *")
    ranks.rows = len(order)
    ranks.place, ranks.last = ffi.cast("int32_t *", place.ctypes.data), ffi.cast("uint8_t *", last.ctypes.data)
    ranks.positive = ffi.cast("double *", positive.ctypes.data)
    ranks.negative = ffi.cast("double *", negative.ctypes.data)
    return _resampled(lib.bootstrap_areas, ranks, len(order), 2, seed, resamples)


def _resampled(add_up: Callable, data, rows: int, width: int, seed: int, resamples: int) -> np.ndarray:
    """Call a function of the core for all resamples, some at a time, by as many threads as there are cores."""
    ffi, _ = extension("seq")
    out = np.empty((resamples, width))

    def block(first: int) -> None:
        times, part = np.empty(rows, np.uint32), out[first : first + BLOCK]
        pointers = ffi.cast("double *", part.ctypes.data), ffi.cast("uint32_t *", times.ctypes.data)
        add_up(pointers[0], data, first, len(part), seed, STREAM_BOOTSTRAP, pointers[1])

    with ThreadPoolExecutor(default_threads()) as workers:
        list(workers.map(block, range(0, resamples, BLOCK)))
    return out


# ---------------------------------------------------------------- intervals


def binary_intervals(
    truth: np.ndarray, scores: np.ndarray, threshold: float, weights=None, *, seed: int = 0
) -> dict[str, Interval]:
    """Return the intervals of the figures for two classes; the arguments are those of test.binary_report."""
    cell = 2 * np.asarray(truth, np.int32) + decide(scores, threshold)
    sums = resampled_sums(len(truth), weights, _row_losses(truth, scores), cell[:, None], 4, seed=seed)
    drawn = [_of_counts(Counts(tp, fp, fn, tn)) for tn, fp, fn, tp in sums[:, 3:].tolist()]
    areas = resampled_areas(truth, scores, weights, seed=seed)
    figures = {name: [each[name] for each in drawn] for name in drawn[0]}
    figures |= {"roc_auc": areas[:, 0], "pr_auc": areas[:, 1]} | _means(sums)
    return {name: interval(values) for name, values in figures.items()}


def _of_counts(counts: Counts) -> dict[str, float]:
    precision, recall, f1 = precision_recall_f1(counts.tp, counts.fp, counts.fn)
    accuracy = ratio(counts.tp + counts.tn, sum(counts))
    return {"precision": precision, "recall": recall, "f1": f1, "accuracy": accuracy, "mcc": mcc(counts)}


def multiclass_intervals(truth: np.ndarray, scores: np.ndarray, weights=None, *, seed: int = 0) -> dict[str, Interval]:
    """Return the intervals of the figures for several classes, macro_f1 for that of macro's f1, and so on.

    truth (rows,) class indices, scores (rows, classes).
    """
    classes, predicted, truth = scores.shape[1], decide(scores), np.asarray(truth, np.int64)
    right = np.where(predicted == truth, truth, -1)
    bins = np.stack([right, predicted + classes, truth + 2 * classes], axis=1)
    sums = resampled_sums(len(truth), weights, _row_losses(truth, scores), bins, 3 * classes, seed=seed)
    drawn = [_macro_of(line.reshape(3, classes)) for line in sums[:, 3:]]
    figures = {name: [each[name] for each in drawn] for name in drawn[0]} | _means(sums)
    return {name: interval(values) for name, values in figures.items()}


def _macro_of(counts: np.ndarray) -> dict[str, float]:
    """Return the figures of counts (3, classes): right, predicted and true rows of each class."""
    right, predicted, support = counts.tolist()
    rates = [precision_recall_f1(tp, p - tp, s - tp) for tp, p, s in zip(right, predicted, support, strict=True)]
    means = (sum(column) / len(rates) for column in zip(*rates, strict=True))
    names = ("macro_precision", "macro_recall", "macro_f1")
    return {"accuracy": ratio(sum(right), sum(support))} | dict(zip(names, means, strict=True))


def regression_intervals(
    truth: np.ndarray, predicted: np.ndarray, persistence: np.ndarray | None = None, weights=None, *, seed: int = 0
) -> dict[str, Interval]:
    """Return the intervals of the figures for numbers, all arrays (rows, outputs)."""
    truth, predicted = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    outputs, error = truth.shape[1], predicted - truth
    centred = truth - truth.mean(axis=0)  # squares of values far from 0 would lose the variance
    parts = [np.ones((len(truth), 1)), np.abs(error).mean(axis=1, keepdims=True), error**2, centred, centred**2]
    if persistence is not None:
        parts.append(((persistence - truth) ** 2).mean(axis=1, keepdims=True))
    sums = resampled_sums(len(truth), weights, np.concatenate(parts, axis=1), seed=seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / sums[:, :1]
        square, centre, spread = (means[:, 2 + k * outputs : 2 + (k + 1) * outputs] for k in range(3))
        mse = square.mean(axis=1)
        variance = spread - centre**2
        figures = {"mse": mse, "mae": means[:, 1], "rmse": np.sqrt(mse)}
        figures["r2"] = np.where(variance > 1e-12 * spread, 1 - square / variance, math.nan).mean(axis=1)
        if persistence is not None:
            reference = np.sqrt(means[:, -1])
            figures |= {"persistence_rmse": reference, "skill": 1 - figures["rmse"] / reference}
    return {name: interval(values) for name, values in figures.items()}


def interval(values: Sequence[float]) -> Interval:
    """Return [low, high], the percentiles of the values that are finite; None if none is."""
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    return np.percentile(values, PERCENTILES).tolist() if values.size else None


def _row_losses(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return (1, log loss, Brier score) of each row, NaN where scores are no probabilities: (rows, 3)."""
    if not are_probabilities(scores):
        return np.full((len(scores), 3), math.nan)
    losses = row_log_losses(truth, scores), row_brier_scores(truth, scores)
    return np.stack([np.ones(len(scores)), *losses], axis=1)


def _means(sums: np.ndarray) -> dict[str, np.ndarray]:
    """Return log_loss and brier of the sums of _row_losses, which stand first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {"log_loss": sums[:, 1] / sums[:, 0], "brier": sums[:, 2] / sums[:, 0]}
