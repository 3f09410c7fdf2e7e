"""The figures that predictions are judged by, each a function of truth, scores and optional weights of the rows.

Everything is computed in float64 from whole arrays; sorting for the two areas makes it O(n log n). The formulas are
those of scikit-learn's `metrics` (its user guide, section «Metrics and scoring»), and the tests compare with it.

A row of weight 2 counts as the row twice, and one of weight 0 as none. Whole weights are counted in integers, so that
counts and the ROC-AUC are those of the repeated rows to the last bit. weights=None: 1 for each row.

A rate whose denominator is 0 is 0 (the original program's rule); a figure that means nothing for these rows, such as
the area under the curve of one class, is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..settings.flags import DEFAULTS
from ..utils import DataError, UsageError

SUMMED = 1 << 16  # values at a time

# ---------------------------------------------------------------- weights


def checked_weights(weights, rows: int, where: str = "weights") -> np.ndarray | None:
    """Return weights (rows,): int64 if all are whole, so that sums are exact, else float64; None for None.

    where: what the message names. Raises DataError for a weight that is negative or not finite, for a sum of 0, and
    for another number of weights than rows.
    """
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.shape != (rows,):
        raise DataError(f"{where}: found {weights.size} weights, expected one for each of the {rows} rows")
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(f"{where}: row {bad[0]}: found {weights[bad[0]]:g}, expected a finite number, 0 or above")
    if not weights.any():
        raise DataError(f"{where}: all weights are 0, expected at least one above 0")
    whole = weights.sum() < 2.0**53 and (weights == np.floor(weights)).all()
    return weights.astype(np.int64) if whole else weights


def without_zeros(weights: np.ndarray | None, *arrays: np.ndarray) -> tuple:
    """Return (weights, *arrays) without the rows of weight 0."""
    if weights is None or weights.all():
        return weights, *arrays
    kept = weights > 0
    return weights[kept], *(array[kept] for array in arrays)


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the mean of values (rows,)."""
    return total(values, weights) / (len(values) if weights is None else weights.sum().item())


def total(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the sum of values (rows,), rounded once: the order of the rows does not matter."""
    values = values if weights is None else weights * values
    blocks = range(0, len(values), SUMMED)  # Python's numbers take four times the memory
    return math.fsum(chain.from_iterable(values[first : first + SUMMED].tolist() for first in blocks))


# ---------------------------------------------------------------- decisions


class Counts(NamedTuple):
    """Rows, or their weights, by prediction (positive, negative) and by whether it is right (true, false)."""

    tp: float
    fp: float
    fn: float
    tn: float


def decide(scores: np.ndarray, threshold: float | None = None) -> np.ndarray:
    """Return the class index of each row, int64 (rows,).

    scores (rows,), of class 1: 1 where the score is at least `threshold`, compared in float64.
    scores (rows, classes): the first of the highest scores; `threshold` is not used.
    """
    if scores.ndim == 1:
        return (scores.astype(np.float64) >= threshold).astype(np.int64)
    return scores.argmax(axis=1)


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, classes: int, weights=None) -> np.ndarray:
    """Count rows of true class i (first axis) predicted as class j (second axis): (classes, classes).

    int64, and float64 where weights are no whole numbers.
    """
    cell = truth.astype(np.int64) * classes + predicted
    counts = np.bincount(cell, weights, minlength=classes * classes).reshape(classes, classes)
    return counts if weights is None else counts.astype(weights.dtype)


def confusion_counts(truth: np.ndarray, predicted: np.ndarray, weights=None) -> Counts:
    """Return the counts from truth (rows,) and predicted (rows,), both of 0 and 1."""
    (tn, fp), (fn, tp) = confusion_matrix(truth, predicted, 2, weights).tolist()
    return Counts(tp, fp, fn, tn)


def ratio(part: float, whole: float) -> float:
    """Return part / whole, and 0 where whole is 0 (the original program's rule)."""
    return part / whole if whole else 0.0


def precision_recall_f1(tp: float, fp: float, fn: float) -> tuple[float, float, float]:
    """Return the precision tp/(tp+fp), recall tp/(tp+fn) and F1 2tp/(2tp+fp+fn), their harmonic mean."""
    return ratio(tp, tp + fp), ratio(tp, tp + fn), ratio(2 * tp, 2 * tp + fp + fn)


def mcc(counts: Counts) -> float:
    """Return the Matthews correlation coefficient, -1..1 (Matthews 1975).

    (tp tn - fp fn) / sqrt((tp+fp)(tp+fn)(tn+fp)(tn+fn)). The product passes 2^63 at about 110,000 rows, so
    it is formed from Python integers.
    """
    tp, fp, fn, tn = counts
    return ratio(tp * tn - fp * fn, math.sqrt(mcc_square(counts)))


def mcc_square(counts: Counts) -> float:
    """Return the square of the denominator of `mcc`."""
    tp, fp, fn, tn = counts
    return (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)


def mcc_of_classes(confusion: np.ndarray) -> float:
    """Return the same coefficient for several classes, R_K (Gorodkin 2004). confusion (classes, classes)."""
    true, predicted = confusion.sum(axis=1).tolist(), confusion.sum(axis=0).tolist()
    right, rows = confusion.trace().item(), confusion.sum().item()
    top = right * rows - sum(p * t for p, t in zip(predicted, true, strict=True))
    spread = [rows * rows - sum(n * n for n in counts) for counts in (true, predicted)]
    return ratio(top, math.sqrt(max(spread[0], 0)) * math.sqrt(max(spread[1], 0)))


def class_rates(confusion: np.ndarray, names: Sequence[str]) -> list[dict]:
    """Return the rates of each class against the rest: class, precision, recall, f1, support (its rows).

    confusion (classes, classes), true by predicted.
    """
    rates = []
    right, predicted, support = confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)
    for name, tp, p, s in zip(names, right.tolist(), predicted.tolist(), support.tolist(), strict=True):
        precision, recall, f1 = precision_recall_f1(tp, p - tp, s - tp)
        rates.append({"class": name, "precision": precision, "recall": recall, "f1": f1, "support": s})
    return rates


def macro(per_class: Sequence[dict], rate: str) -> float:
    """Return the plain mean of a rate of `class_rates` over the classes."""
    return sum(row[rate] for row in per_class) / len(per_class)


# ---------------------------------------------------------------- areas


def counts_by_score(truth: np.ndarray, scores: np.ndarray, weights=None) -> tuple[np.ndarray, np.ndarray]:
    """Return (positives, negatives) at each distinct score, the highest first: (distinct scores,) each.

    int64, and float64 where weights are no whole numbers. Rows of weight 0 are left out.
    """
    weights, truth, scores = without_zeros(weights, truth, scores)
    order = np.argsort(-scores.astype(np.float64))
    ranked, positive = scores[order], truth[order] == 1
    if not len(ranked):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))  # of each run of equal scores
    each = np.ones(len(ranked), np.int64) if weights is None else weights[order]
    return np.add.reduceat(each * positive, first), np.add.reduceat(each * ~positive, first)


def roc_auc(truth: np.ndarray, scores: np.ndarray, weights=None) -> float | None:
    """Return the area under the ROC curve: how often a positive row scores above a negative one, a tie counting half.

    truth (rows,) of 0 and 1, scores (rows,). This is the Mann-Whitney statistic with midranks (Hanley and
    McNeil 1982), summed in integers. None if a class is missing.
    """
    return roc_area(*counts_by_score(truth, scores, weights))


def roc_area(positives: np.ndarray, negatives: np.ndarray) -> float | None:
    """Return `roc_auc` from the rows of either class at each score; see counts_by_score."""
    pairs = positives.sum().item() * negatives.sum().item()
    if not pairs:
        return None
    below = negatives.sum() - np.cumsum(negatives)
    return (positives * (2 * below + negatives)).sum().item() / (2 * pairs)  # doubled: a tie adds 1, not a half


def pr_auc(truth: np.ndarray, scores: np.ndarray, weights=None) -> float | None:
    """Return the area under the precision-recall curve as average precision, sum of (R_k - R_(k-1)) P_k.

    truth (rows,) of 0 and 1, scores (rows,); k runs over the distinct scores from the highest, each taken as
    threshold. No interpolation: scikit-learn's `average_precision_score`. None if a class is missing.
    """
    return pr_area(*counts_by_score(truth, scores, weights))


def pr_area(positives: np.ndarray, negatives: np.ndarray) -> float | None:
    """Return `pr_auc` from the rows of either class at each score; see counts_by_score."""
    if not positives.any() or not negatives.any():
        return None
    precision = np.cumsum(positives) / np.maximum(np.cumsum(positives + negatives), np.finfo(np.float64).tiny)
    return float((positives * precision).sum() / positives.sum())


# ---------------------------------------------------------------- probabilities


def are_probabilities(scores: np.ndarray) -> bool:
    """Return whether scores (rows,) of class 1 or (rows, classes), whose rows sum to 1, can be probabilities."""
    if not ((scores >= 0) & (scores <= 1)).all():
        return False
    slack = math.sqrt(np.finfo(_type_of(scores)).eps)
    return scores.ndim == 1 or bool((abs(scores.sum(axis=1, dtype=np.float64) - 1) <= slack).all())


def row_log_losses(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return -ln of the probability of each row's true class, float64 (rows,).

    truth (rows,) class indices; scores (rows,) of class 1, or (rows, classes). As in scikit-learn, probabilities are
    clipped to [e, 1 - e], where e is the machine epsilon of the scores' type.
    """
    eps = np.finfo(_type_of(scores)).eps
    if scores.ndim == 1:
        score = np.clip(scores.astype(np.float64), eps, 1 - eps)
        return -np.log(np.where(truth == 1, score, 1 - score))
    return -np.log(np.clip(_of_true_class(truth, scores), eps, 1 - eps))


def row_brier_scores(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return each row's Brier score, float64 (rows,) (Brier 1950).

    Two classes, scores (rows,): (p - y)^2. Several, scores (rows, classes): the sum of (p - y)^2 over all classes,
    from 0 to 2. These are the scales of scikit-learn.
    """
    if scores.ndim == 1:
        return (scores.astype(np.float64) - truth) ** 2
    true = _of_true_class(truth, scores)
    return np.square(scores, dtype=np.float64).sum(axis=1) - 2 * true + 1


def log_loss(truth: np.ndarray, scores: np.ndarray, weights=None) -> float | None:
    """Return the mean of `row_log_losses`; None if the scores are no probabilities."""
    return mean(row_log_losses(truth, scores), weights) if are_probabilities(scores) else None


def brier(truth: np.ndarray, scores: np.ndarray, weights=None) -> float | None:
    """Return the mean of `row_brier_scores`; None if the scores are no probabilities."""
    return mean(row_brier_scores(truth, scores), weights) if are_probabilities(scores) else None


def _type_of(scores: np.ndarray) -> np.dtype:
    return scores.dtype if scores.dtype.kind == "f" else np.dtype(np.float64)


def _of_true_class(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return np.take_along_axis(scores, np.asarray(truth, np.int64)[:, None], axis=1)[:, 0].astype(np.float64)


# ---------------------------------------------------------------- regression


def mse(truth: np.ndarray, predicted: np.ndarray, weights=None) -> float:
    """Return the mean of (p - y)^2 over all entries. truth and predicted (rows, outputs) float64."""
    return _mean_entry((predicted - truth) ** 2, weights)


def mae(truth: np.ndarray, predicted: np.ndarray, weights=None) -> float:
    """Return the mean of |p - y| over all entries. truth and predicted (rows, outputs) float64."""
    return _mean_entry(np.abs(predicted - truth), weights)


def rmse(truth: np.ndarray, predicted: np.ndarray, weights=None) -> float:
    """Return the root of `mse`."""
    return math.sqrt(mse(truth, predicted, weights))


def r2(truth: np.ndarray, predicted: np.ndarray, weights=None) -> float | None:
    """Return the coefficient of determination, 1 - sum (y-p)^2 / sum (y - mean y)^2, averaged over the outputs.

    truth and predicted (rows, outputs) float64. None if an output's truth is constant: there is nothing to
    explain.
    """
    weights, truth, predicted = without_zeros(weights, truth, predicted)
    if are_constant(truth).any():
        return None
    if weights is None:
        residual = ((truth - predicted) ** 2).sum(axis=0)
        spread = ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    else:
        each = weights[:, None]
        centre = (each * truth).sum(axis=0) / weights.sum()
        residual = (each * (truth - predicted) ** 2).sum(axis=0)
        spread = (each * (truth - centre) ** 2).sum(axis=0)
    return float(np.mean(1 - residual / spread))


def are_constant(values: np.ndarray) -> np.ndarray:
    """Return which outputs have only one value: bool (outputs,), of values (rows, outputs).

    Not asked of the variance: the mean of equal numbers is rounded, and their variance then tiny but not 0.
    """
    return values.min(axis=0) == values.max(axis=0)


def _mean_entry(values: np.ndarray, weights) -> float:
    return float(np.mean(values)) if weights is None else mean(values.mean(axis=1), weights)


# ---------------------------------------------------------------- by name


@dataclass(frozen=True)
class Metric:
    """A figure by which one network is better than another.

    by_task: the tasks that it fits, each with a function (truth, scores, weights, threshold) -> float or None.
    """

    by_task: dict[str, Callable]
    higher_is_better: bool = True

    def improves(self, value: float | None, best: float | None) -> bool:
        """Return whether `value` is better than `best`, the best so far. None is undefined: anything else is better."""
        if value is None or best is None:
            return value is not None
        return value > best if self.higher_is_better else value < best


def _of_counts(figure: Callable) -> Callable:
    """Return a figure of Counts as one of scores and a threshold."""
    return lambda truth, scores, weights, threshold: figure(confusion_counts(truth, decide(scores, threshold), weights))


def _of_matrix(figure: Callable) -> Callable:
    """Return a figure of a confusion matrix as one of scores (rows, classes)."""
    return lambda truth, scores, weights, threshold: figure(
        confusion_matrix(truth, decide(scores), scores.shape[1], weights)
    )


def _of_scores(figure: Callable) -> Callable:
    """Return a figure of scores as one that is told the threshold too."""
    return lambda truth, scores, weights, threshold: figure(truth, scores, weights)


def _macro_f1(confusion: np.ndarray) -> float:
    return macro(class_rates(confusion, range(len(confusion))), "f1")


def _accuracy(confusion: np.ndarray) -> float:
    return ratio(confusion.trace().item(), confusion.sum().item())


def _binary_f1(counts: Counts) -> float:
    return precision_recall_f1(counts.tp, counts.fp, counts.fn)[2]


def _for_classes(figure: Callable) -> dict[str, Callable]:
    return dict.fromkeys(("binary", "multiclass"), figure)


METRICS = {
    "loss": Metric({**_for_classes(_of_scores(log_loss)), "regression": _of_scores(mse)}, higher_is_better=False),
    "pr_auc": Metric({"binary": _of_scores(pr_auc)}),
    "roc_auc": Metric({"binary": _of_scores(roc_auc)}),
    "f1": Metric({"binary": _of_counts(_binary_f1), "multiclass": _of_matrix(_macro_f1)}),
    "accuracy": Metric(
        {
            "binary": _of_counts(lambda counts: ratio(counts.tp + counts.tn, sum(counts))),
            "multiclass": _of_matrix(_accuracy),
        }
    ),
    "mcc": Metric({"binary": _of_counts(mcc), "multiclass": _of_matrix(mcc_of_classes)}),
    "brier": Metric(_for_classes(_of_scores(brier)), higher_is_better=False),
    "rmse": Metric({"regression": _of_scores(rmse)}, higher_is_better=False),
    "mae": Metric({"regression": _of_scores(mae)}, higher_is_better=False),
    "r2": Metric({"regression": _of_scores(r2)}),
}
"""name -> the figure. loss: the log loss of classes, the mse of numbers; f1 of several classes: the macro mean."""


def metrics_of(task: str) -> list[str]:
    """Return the names of the metrics that fit a task."""
    return [name for name, known in METRICS.items() if task in known.by_task]


def check_metric(name: str, task: str, flag: str = "--monitor") -> None:
    """Raise UsageError for a metric that is unknown or does not fit the task; the message lists the fitting ones."""
    if name not in metrics_of(task):
        found = f"does not fit a {task} task" if name in METRICS else "unknown"
        raise UsageError(f"{flag} {name}: {found}; choose from {', '.join(metrics_of(task))}")


def metric(
    name: str, task: str, truth: np.ndarray, scores: np.ndarray, weights=None, *, threshold: float | None = None
) -> float | None:
    """Return one figure of METRICS, None where it is undefined.

    truth and scores: binary (rows,) of 0 and 1, and (rows,) or (rows, 1); multiclass (rows,) class indices, and (rows,
    classes); regression (rows, outputs) both. weights (rows,), None for 1 each; threshold: of f1, accuracy and mcc of
    two classes (0.5). Raises UsageError for a metric that does not fit the task, DataError for bad weights.
    """
    check_metric(name, task)
    truth, scores = np.asarray(truth), np.asarray(scores)
    weights = checked_weights(weights, len(truth))
    threshold = DEFAULTS["threshold"] if threshold is None else threshold
    if task == "binary":
        scores = scores.reshape(len(truth))
    elif task == "regression":
        truth, scores = (array.astype(np.float64).reshape(len(truth), -1) for array in (truth, scores))
    return METRICS[name].by_task[task](truth, scores, weights, threshold)
