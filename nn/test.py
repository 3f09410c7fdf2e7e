"""Test a network on a data set: the figures for two classes, several classes and regression.

Everything is computed in float64 from whole arrays; counts are Python integers, which cannot overflow.
Sorting for the two areas makes the whole O(n log n). The formulas are those of scikit-learn's `metrics` (its
user guide, section «Metrics and scoring»), and the tests compare with it.

Two rules for what has no value: a rate whose denominator is 0 is 0 (the original program's rule); a figure
that means nothing for these rows, such as the area under the curve of one class, is None. Both are said in a
warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .data.stream import StreamedDataset
from .utils import DataError, NnError, UsageError, listed, log


def test(net, ds, *, threshold: float | None = None) -> dict:
    """Return the figures of `net` on all rows of `ds`, with the keys of `nn --test --json`.

    net: `net.predict(ds.x)` gives scores (rows, outputs) from raw features; its task decides which figures:
      binary      rows threshold tp fp fn tn precision recall f1 accuracy mcc roc_auc pr_auc
      multiclass  rows accuracy macro confusion per_class
      regression  rows mse mae rmse r2; for a series (ds.now) persistence_rmse and skill too
    ds: a Dataset, or a StreamedDataset, which is read while it is used.
    threshold: score from which a row counts as class 1; None takes the network's own.
    Numbers are Python's own; None stands for a figure that is undefined, never NaN or infinity.
    Raises DataError if the data do not fit the network, UsageError for a threshold or task that cannot be,
    and NnError if a score is not finite.
    """
    if isinstance(ds, StreamedDataset):
        return test_blocks(net, ds.read(ds.everything, 0, ds.rows), threshold=threshold)
    if not len(ds.x):
        raise DataError(f"{_name(ds)}: found no rows to test, expected at least one")
    threshold = _checked_threshold(net, threshold)
    truth = _truth(net, ds)
    scores = net.predict(ds.x)
    _check_fit(net, ds, truth, scores.shape[1])
    _check_finite(ds, scores)
    if net.task == "regression":
        return regression_report(truth, scores, ds.targets, ds.persistence())
    if net.task == "multiclass":
        return multiclass_report(truth, scores, net.classes or ds.classes)
    return binary_report(truth, scores[:, 0], threshold)


def test_blocks(net, blocks: Iterable, *, threshold: float | None = None) -> dict:
    """Return the figures of `test` for rows that come in blocks (Datasets).

    Of a block only truth and scores are kept, and for several classes only their counts.
    """
    threshold, confusion, kept, ds = _checked_threshold(net, threshold), 0, [], None
    for ds in blocks:
        truth, scores = _truth(net, ds), net.predict(ds.x)
        _check_fit(net, ds, truth, scores.shape[1])
        _check_finite(ds, scores)
        if net.task == "multiclass":
            confusion = confusion + confusion_matrix(truth, decide(scores), scores.shape[1])
        else:
            kept.append((truth, scores, ds.persistence()))
    if ds is None:
        raise DataError("no rows to test, expected at least one")
    if net.task == "multiclass":
        return _of_confusion(confusion, net.classes or ds.classes)
    truth, scores, persistence = (
        None if part[0] is None else np.concatenate(part) for part in zip(*kept, strict=True)
    )
    kept.clear()
    if net.task == "regression":
        return regression_report(truth, scores, ds.targets, persistence)
    return binary_report(truth, scores[:, 0], threshold)


# -------------------------------------------------------------------------------- reports


def binary_report(truth: np.ndarray, scores: np.ndarray, threshold: float) -> dict:
    """Return all figures for two classes: truth (rows,) of 0 and 1, scores (rows,) of class 1."""
    counts = confusion_counts(truth, decide(scores, threshold))
    precision, recall, f1 = precision_recall_f1(counts.tp, counts.fp, counts.fn)
    _warn_zero_rates(counts, threshold)
    if not (counts.tp + counts.fn and counts.tn + counts.fp):
        log.warning("roc_auc and pr_auc are undefined: all rows are of one class")
    return {
        "rows": len(truth),
        "threshold": float(threshold),
        **counts._asdict(),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "accuracy": ratio(counts.tp + counts.tn, sum(counts)),
        "mcc": mcc(counts),
        "roc_auc": roc_auc(truth, scores),
        "pr_auc": pr_auc(truth, scores),
    }


def multiclass_report(truth: np.ndarray, scores: np.ndarray, classes: Sequence[str] | None = None) -> dict:
    """Return all figures for several classes: truth (rows,) class indices, scores (rows, classes).

    classes: their names; without one for each output they are named by number. `macro` is the plain mean over
    all classes of the network, whether the data hold them or not.
    """
    return _of_confusion(confusion_matrix(truth, decide(scores), scores.shape[1]), classes)


def _of_confusion(confusion: np.ndarray, classes: Sequence[str] | None) -> dict:
    outputs = len(confusion)
    names = [str(name) for name in (classes if classes and len(classes) == outputs else range(outputs))]
    per_class = class_rates(confusion, names)
    _warn_zero_classes(confusion, names)
    return {
        "rows": int(confusion.sum()),
        "accuracy": ratio(int(confusion.trace()), int(confusion.sum())),
        "macro": {
            rate: sum(row[rate] for row in per_class) / len(per_class)
            for rate in ("precision", "recall", "f1")
        },
        "confusion": confusion.tolist(),
        "per_class": per_class,
    }


def regression_report(
    truth: np.ndarray,
    predicted: np.ndarray,
    targets: Sequence[str] | None = None,
    persistence: np.ndarray | None = None,
) -> dict:
    """Return all figures for numbers: truth, predicted and persistence (rows, outputs), in the same units.

    mse, mae and rmse (the root of mse) average over all entries, r2 over the outputs. persistence, the
    forecast that nothing changes, adds its rmse and the skill, 1 - rmse / persistence_rmse (Marquez and
    Coimbra 2013).
    """
    truth, predicted = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    with np.errstate(all="ignore"):  # what leaves float64's range becomes None below
        error = predicted - truth
        mse = float(np.mean(error * error))
        mae = float(np.mean(np.abs(error)))
        figures = {"mse": mse, "mae": mae, "rmse": math.sqrt(mse), "r2": r2(truth, predicted)}
        if persistence is not None:
            figures |= skill(figures["rmse"], truth, np.asarray(persistence, np.float64))
    _warn_constant(truth, targets)
    _warn_dead(truth, predicted)
    beyond = [name for name, value in figures.items() if value is not None and not math.isfinite(value)]
    if beyond:
        log.warning(
            "%s undefined: squares of such large or small values leave float64's range", listed(beyond)
        )
    return {"rows": len(truth), **figures, **dict.fromkeys(beyond)}


def skill(rmse: float, truth: np.ndarray, persistence: np.ndarray) -> dict:
    """Return persistence_rmse and skill, None where persistence makes no error."""
    reference = math.sqrt(float(np.mean((persistence - truth) ** 2)))
    return {"persistence_rmse": reference, "skill": 1 - rmse / reference if reference else None}


# -------------------------------------------------------------------------------- two classes


class Counts(NamedTuple):
    """Rows by prediction (positive, negative) and by whether it is right (true, false)."""

    tp: int
    fp: int
    fn: int
    tn: int


def decide(scores: np.ndarray, threshold: float | None = None) -> np.ndarray:
    """Return the class index of each row, int64 (rows,).

    scores (rows,), of class 1: 1 where the score is at least `threshold`, compared in float64.
    scores (rows, classes): the first of the highest scores; `threshold` is not used.
    """
    if scores.ndim == 1:
        return (scores.astype(np.float64) >= threshold).astype(np.int64)
    return scores.argmax(axis=1)


def confusion_counts(truth: np.ndarray, predicted: np.ndarray) -> Counts:
    """Return the counts from truth (rows,) and predicted (rows,), both of 0 and 1."""
    (tn, fp), (fn, tp) = confusion_matrix(truth, predicted, 2).tolist()
    return Counts(tp, fp, fn, tn)


def ratio(part: float, whole: float) -> float:
    """Return part / whole, and 0 where whole is 0 (the original program's rule)."""
    return part / whole if whole else 0.0


def precision_recall_f1(tp: int, fp: int, fn: int) -> tuple[float, float, float]:
    """Return the precision tp/(tp+fp), recall tp/(tp+fn) and F1 2tp/(2tp+fp+fn), their harmonic mean."""
    return ratio(tp, tp + fp), ratio(tp, tp + fn), ratio(2 * tp, 2 * tp + fp + fn)


def mcc(counts: Counts) -> float:
    """Return the Matthews correlation coefficient, -1..1 (Matthews 1975).

    (tp tn - fp fn) / sqrt((tp+fp)(tp+fn)(tn+fp)(tn+fn)). The product passes 2^63 at about 110,000 rows, so
    it is formed from Python integers.
    """
    tp, fp, fn, tn = counts
    return ratio(tp * tn - fp * fn, math.sqrt(_mcc_square(counts)))


def _mcc_square(counts: Counts) -> int:
    tp, fp, fn, tn = counts
    return (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)


def counts_by_score(truth: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (positives, negatives) at each distinct score, the highest first: int64 (distinct scores,) each."""
    order = np.argsort(-scores.astype(np.float64))
    ranked, positive = scores[order], truth[order] == 1
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # last row of each run of equal scores
    rows = np.diff(last, prepend=-1)
    positives = np.diff(np.cumsum(positive)[last], prepend=0)
    return positives, rows - positives


def roc_auc(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """Return the area under the ROC curve: how often a positive row scores above a negative one, a tie counting half.

    truth (rows,) of 0 and 1, scores (rows,). This is the Mann-Whitney statistic with midranks (Hanley and
    McNeil 1982), summed in integers. None if a class is missing.
    """
    positives, negatives = counts_by_score(truth, scores)
    pairs = int(positives.sum()) * int(negatives.sum())
    if not pairs:
        return None
    below = negatives.sum() - np.cumsum(negatives)
    return int((positives * (2 * below + negatives)).sum()) / (2 * pairs)  # doubled: a tie adds 1, not a half


def pr_auc(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """Return the area under the precision-recall curve as average precision, sum of (R_k - R_(k-1)) P_k.

    truth (rows,) of 0 and 1, scores (rows,); k runs over the distinct scores from the highest, each taken as
    threshold. No interpolation: scikit-learn's `average_precision_score`. None if a class is missing.
    """
    positives, negatives = counts_by_score(truth, scores)
    if not positives.any() or not negatives.any():
        return None
    precision = np.cumsum(positives) / np.cumsum(positives + negatives)
    return float((positives * precision).sum() / positives.sum())


# -------------------------------------------------------------------------------- several classes


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count rows of true class i (first axis) predicted as class j (second axis): int64 (classes, classes)."""
    cell = truth.astype(np.int64) * classes + predicted
    return np.bincount(cell, minlength=classes * classes).reshape(classes, classes)


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


# -------------------------------------------------------------------------------- regression


def r2(truth: np.ndarray, predicted: np.ndarray) -> float | None:
    """Return the coefficient of determination, 1 - sum (y-p)^2 / sum (y - mean y)^2, averaged over the outputs.

    truth and predicted (rows, outputs) float64. None if an output's truth is constant: there is nothing to
    explain.
    """
    if _constant(truth).any():
        return None
    residual = ((truth - predicted) ** 2).sum(axis=0)
    total = ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    return float(np.mean(1 - residual / total))


def _constant(truth: np.ndarray) -> np.ndarray:
    """Return which outputs have only one value: bool (outputs,).

    Not asked of the variance: the mean of equal numbers is rounded, and their variance then tiny but not 0.
    """
    return truth.min(axis=0) == truth.max(axis=0)


# -------------------------------------------------------------------------------- checks


def _checked_threshold(net, threshold: float | None) -> float:
    if threshold is None:
        return net.threshold
    if not math.isfinite(threshold):
        raise UsageError(f"threshold {threshold}: expected a finite number, such as 0.5")
    if net.task != "binary":
        log.warning("threshold is not used: the task is %s, not binary", net.task)
    return threshold


def _truth(net, ds) -> np.ndarray:
    """Return ds.y as `net` counts it: class indices (rows,), or (rows, outputs) float64 for regression."""
    if (net.task == "regression") != (ds.task == "regression"):
        raise UsageError(
            f"{_name(ds)}: the network's task is {net.task}, the data were loaded as {ds.task};"
            f" load them with task={net.task!r}"
        )
    if net.task == "regression":
        return np.asarray(ds.y, np.float64).reshape(len(ds.x), -1)
    if net.classes and ds.classes and list(net.classes) != list(ds.classes):
        return _renumbered(ds, net.classes)
    return np.asarray(ds.y)


def _renumbered(ds, classes: Sequence[str]) -> np.ndarray:
    """Return ds.y numbered by `classes`: data that lack a class number the others differently."""
    index = {name: i for i, name in enumerate(classes)}
    lookup = np.array([index.get(name, -1) for name in ds.classes])
    truth = lookup[ds.y]
    unknown = np.flatnonzero(truth < 0)
    if unknown.size:
        found = ds.classes[ds.y[unknown[0]]]
        raise DataError(
            f"{_name(ds)}: found class {found!r}, expected one of the network's: {listed(classes)}"
        )
    return truth


def _check_fit(net, ds, truth: np.ndarray, outputs: int) -> None:
    """Raise DataError or UsageError unless the outputs match the targets in number, and every class has an output."""
    if net.task == "regression":
        if truth.shape[1] != outputs:
            raise DataError(
                f"{_name(ds)}: found {truth.shape[1]} target columns, expected {outputs},"
                " one for each output of the network"
            )
        return
    if net.task == "binary" and outputs != 1:
        raise UsageError(
            f"the network's task is binary, which takes one output, but it has {outputs}:"
            " use task='multiclass'"
        )
    classes = 2 if net.task == "binary" else outputs
    unknown = truth[(truth < 0) | (truth >= classes)]
    if unknown.size:
        raise DataError(
            f"{_name(ds)}: found class number {unknown[0]}, expected 0 to {classes - 1}:"
            " the network has no output for more"
        )


def _check_finite(ds, scores: np.ndarray) -> None:
    bad = len(scores) - np.count_nonzero(np.isfinite(scores).all(axis=1))
    if bad:
        raise NnError(
            f"{_name(ds)}: the network's output is not finite for {bad} of {len(scores)} rows:"
            " train it again with a smaller learning rate or with scaling"
        )


def _name(ds) -> str:
    return str(ds.path or "data set")


# -------------------------------------------------------------------------------- warnings


def _warn_zero_rates(counts: Counts, threshold: float) -> None:
    """Warn of rates whose denominator is 0, and name the empty row or column of the counts."""
    tp, fp, fn, tn = counts
    denominators = {
        "precision": tp + fp,
        "recall": tp + fn,
        "f1": 2 * tp + fp + fn,
        "mcc": _mcc_square(counts),
    }
    rows = {
        f"no row scores {threshold:g} or more": tp + fp,
        f"no row scores below {threshold:g}": fn + tn,
        "no row is positive": tp + fn,
        "no row is negative": fp + tn,
    }
    zero = [rate for rate, denominator in denominators.items() if not denominator]
    if zero:
        reasons = " and ".join(reason for reason, count in rows.items() if not count)
        log.warning("%s set to 0 (denominator 0): %s", listed(zero), reasons)


def _warn_zero_classes(confusion: np.ndarray, names: Sequence[str]) -> None:
    """Warn of rates whose denominator is 0 for some class, a line for each rate."""
    unpredicted, absent = confusion.sum(axis=0) == 0, confusion.sum(axis=1) == 0
    for rate, reason, zero in (
        ("precision", "never predicted", unpredicted),
        ("recall", "not in the data", absent),
        ("f1", "neither predicted nor in the data", unpredicted & absent),
    ):
        if zero.any():
            classes = listed([names[i] for i in np.flatnonzero(zero)])
            log.warning("%s set to 0 (denominator 0) for classes %s: %s", rate, reason, classes)


def _warn_constant(truth: np.ndarray, targets: Sequence[str] | None) -> None:
    constant = np.flatnonzero(_constant(truth))
    if constant.size:
        names = listed([targets[i] if targets else f"output {i}" for i in constant])
        log.warning("r2 is undefined: the true value is the same in all rows for %s", names)


def _warn_dead(truth: np.ndarray, predicted: np.ndarray) -> None:
    """Warn of a constant prediction: a relu in the output layer that gives 0 for every row learns no more."""
    if len(truth) > 1 and (_constant(predicted) & ~_constant(truth)).any():
        log.warning(
            "the network gives the same value for every row; train it with another --seed, a smaller"
            " --learning_rate, --init glorot or a linear output layer"
        )
