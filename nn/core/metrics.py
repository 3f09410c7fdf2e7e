"""The figures that predictions are judged by, each a function of truth, scores and
optional weights of the rows.

Everything is computed in float64 from whole arrays; sorting for the two areas makes it
O(n log n). The formulas are those of scikit-learn's `metrics` (its user guide, section
«Metrics and scoring»), and the tests compare with it.

A row of weight 2 counts as the row twice, and one of weight 0 as none. Whole weights
are counted in integers, so that counts and the ROC-AUC are those of the repeated rows
to the last bit. weights=None: 1 for each row.

A rate whose denominator is 0 is 0 (the original program's rule); a figure that means
nothing for these rows, such as the area under the curve of one class, is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..nn_aux import METRICS, MONITORS, TASKS, loss_of, quantiles_of
from ..settings.flags import DEFAULTS
from ..utils import DataError, UsageError
from .losses import row_losses
from .weighted import at_rows

SUMMED = 1 << 16  # values at a time
# (what a metric is formed from, its name) -> its formula
_FORMULAS = {}


def formula_of(formed_from: str, name: str) -> Callable:
    """Return a decorator: the function is the formula of a metric of METRICS, from one
    of the properties of Judged."""
    return lambda function: _FORMULAS.setdefault((formed_from, name), function)


# ---------------------------------------------------------------- weights


def checked_weights(weights, rows: int, where: str = "weights") -> np.ndarray | None:
    """Return weights (rows,): int64 if all are whole, so that sums are exact, else
    float64; None for None.

    where: what the message names. Raises DataError for a weight that is negative or not
    finite, for a sum of 0, and for another number of weights than rows.
    """
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.shape != (rows,):
        raise DataError(
            f"{where}: found {weights.size} weights, expected one for each of the {rows} rows"
        )
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(
            f"{where}: row {bad[0]}: found {weights[bad[0]]:g}, expected a finite number, 0 or above"
        )
    if not weights.any():
        raise DataError(f"{where}: all weights are 0, expected at least one above 0")
    if weights.sum() < 2.0**53 and (weights == np.floor(weights)).all():
        return weights.astype(np.int64)
    return weights


def without_zeros(weights: np.ndarray | None, *arrays: np.ndarray) -> tuple:
    """Return (weights, *arrays) without the rows of weight 0."""
    if weights is None or weights.all():
        return weights, *arrays
    kept = weights > 0
    return weights[kept], *(array[kept] for array in arrays)


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the mean of values (rows,)."""
    if weights is None:
        return total(values) / len(values)
    return total(values, weights) / weights.sum().item()


def total(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the sum of values (rows,), rounded once: the order of the rows does not
    matter."""
    if weights is not None:
        values = weights * values
    # Python's numbers take four times the memory
    starts = range(0, len(values), SUMMED)
    blocks = (values[start : start + SUMMED].tolist() for start in starts)
    return math.fsum(chain.from_iterable(blocks))


# ---------------------------------------------------------------- decisions


class Counts(NamedTuple):
    """Rows, or their weights, by prediction (positive, negative) and by whether it is
    right (true, false)."""

    tp: float
    fp: float
    fn: float
    tn: float


def decide(
    scores: np.ndarray, threshold: float | np.ndarray | None = None
) -> np.ndarray:
    """Return the class index of each row, int64 (rows,).

    scores (rows,) or (rows, 1), of class 1: 1 where the score is at least `threshold`,
    of all rows or of each (rows,), compared in float64.
    scores (rows, classes): the first of the highest scores; `threshold` is not used.
    """
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1).astype(np.float64) >= threshold).astype(np.int64)
    return scores.argmax(axis=1)


def decide_each(scores: np.ndarray, thresholds) -> np.ndarray:
    """Return the classes of several targets of two, int64 (rows, targets), of their
    scores. thresholds: of all, of each target, of each row (rows, 1), or of both."""
    return (scores.astype(np.float64) >= thresholds).astype(np.int64)


def confusion_matrix(
    truth: np.ndarray, predicted: np.ndarray, classes: int, weights=None
) -> np.ndarray:
    """Count rows of true class i (first axis) predicted as class j (second axis):
    (classes, classes).

    int64, and float64 where weights are no whole numbers.
    """
    cell = truth.astype(np.int64) * classes + predicted
    counts = np.bincount(cell, weights, minlength=classes * classes)
    counts = counts.reshape(classes, classes)
    if weights is None:
        return counts
    return counts.astype(weights.dtype)


def confusion_counts(truth: np.ndarray, predicted: np.ndarray, weights=None) -> Counts:
    """Return the counts from truth (rows,) and predicted (rows,), both of 0 and 1."""
    (tn, fp), (fn, tp) = confusion_matrix(truth, predicted, 2, weights).tolist()
    return Counts(tp, fp, fn, tn)


def ratio(part: float, whole: float) -> float:
    """Return part / whole, and 0 where whole is 0 (the original program's rule)."""
    if whole:
        return part / whole
    return 0.0


@formula_of("counts", "precision")
def precision(counts: Counts) -> float:
    return ratio(counts.tp, counts.tp + counts.fp)


@formula_of("counts", "recall")
def recall(counts: Counts) -> float:
    return ratio(counts.tp, counts.tp + counts.fn)


@formula_of("counts", "f1")
def f1(counts: Counts) -> float:
    return ratio(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn)


@formula_of("counts", "accuracy")
def accuracy(counts: Counts) -> float:
    return ratio(counts.tp + counts.tn, sum(counts))


@formula_of("counts", "mcc")
def mcc(counts: Counts) -> float:
    """Return the Matthews correlation coefficient, -1..1 (Matthews 1975).

    (tp tn - fp fn) / sqrt((tp+fp)(tp+fn)(tn+fp)(tn+fn)). The product passes 2^63 at
    about 110,000 rows, so it is formed from Python integers.
    """
    tp, fp, fn, tn = counts
    return ratio(tp * tn - fp * fn, math.sqrt(mcc_square(counts)))


def mcc_square(counts: Counts) -> float:
    tp, fp, fn, tn = counts
    return (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)


# ---------------------------------------------------------------- several classes


class ClassCounts(NamedTuple):
    """Rows of each class, or their weights: those rightly predicted, all that are
    predicted, all that are."""

    right: list[float]
    predicted: list[float]
    support: list[float]

    @classmethod
    def of(
        cls, truth: np.ndarray, predicted: np.ndarray, classes: int, weights=None
    ) -> ClassCounts:
        """Count rows; truth and predicted (rows,) class indices."""
        if weights is None:
            weights = np.ones(len(truth), np.int64)

        def count(indices: np.ndarray, weights: np.ndarray) -> list[float]:
            counts = np.bincount(indices, weights, minlength=classes)
            return counts.astype(weights.dtype).tolist()

        right = truth == predicted
        return cls(
            right=count(truth[right], weights[right]),
            predicted=count(predicted, weights),
            support=count(truth, weights),
        )

    def against_the_rest(self) -> list[Counts]:
        rows = sum(self.support)
        return [
            Counts(tp, p - tp, s - tp, rows - p - s + tp)
            for tp, p, s in zip(*self, strict=True)
        ]

    def macro(self, rate: Callable[[Counts], float]) -> float:
        """Return the plain mean of a rate over the classes that are in the data or are
        predicted."""
        counts_of_classes = self.against_the_rest()
        rates = [rate(counts) for counts in counts_of_classes if any(counts[:3])]
        return ratio(sum(rates), len(rates))


# rates of one class, whose plain means over classes are metrics too
RATES = {"precision": precision, "recall": recall, "f1": f1}
for _name, _rate in RATES.items():
    formula_of("classes", _name)(lambda classes, rate=_rate: classes.macro(rate))


@formula_of("classes", "accuracy")
def accuracy_of_classes(classes: ClassCounts) -> float:
    return ratio(sum(classes.right), sum(classes.support))


@formula_of("classes", "mcc")
def mcc_of_classes(classes: ClassCounts) -> float:
    """Return the same coefficient for several classes, R_K (Gorodkin 2004)."""
    right = sum(classes.right)
    rows = sum(classes.support)
    pairs = zip(classes.predicted, classes.support, strict=True)
    top = right * rows - sum(p * t for p, t in pairs)
    spread_of_support = rows * rows - sum(n * n for n in classes.support)
    spread_of_predicted = rows * rows - sum(n * n for n in classes.predicted)
    root_of_support = math.sqrt(max(spread_of_support, 0))
    root_of_predicted = math.sqrt(max(spread_of_predicted, 0))
    return ratio(top, root_of_support * root_of_predicted)


# ---------------------------------------------------------------- areas


class Ranks:
    """Rows of two classes by their scores, the highest first: truth (rows,) of 0 and 1,
    scores (rows,)."""

    def __init__(self, truth: np.ndarray, scores: np.ndarray):
        self._order = np.argsort(-scores.astype(np.float64))
        ranked = scores[self._order]
        self._positive = (truth[self._order] == 1).astype(np.int64)
        # where each run of equal scores begins
        self._starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))

    def counts(
        self, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (positives, negatives) at each distinct score, those aside whose rows
        all have weight 0.

        int64, and float64 where weights are no whole numbers.
        """
        if not len(self._order):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        if weights is None:
            ranked_weights = np.ones(len(self._order), np.int64)
        else:
            ranked_weights = weights[self._order]
        positives = np.add.reduceat(ranked_weights * self._positive, self._starts)
        rows = np.add.reduceat(ranked_weights, self._starts)
        return positives[rows > 0], (rows - positives)[rows > 0]


def placements(truth: np.ndarray, scores: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Return for each row the share of its fold's rows of class 0 that score lower, a
    tie counting half (rows,): what orders rows that different networks have scored.

    The networks of two folds differ in the level of their scores, which says nothing of
    the rows. The ROC curve of placements is that of rows beside rows of their own fold
    (Pepe and Cai 2004, Janes and Pepe 2009). A fold without a row of class 0 is placed
    among those of all folds.
    """
    places = np.empty(len(scores))
    all_negatives = np.sort(scores[truth != 1])
    for fold in np.unique(folds):
        is_member = folds == fold
        negatives = np.sort(scores[is_member & (truth != 1)])
        if not len(negatives):
            negatives = all_negatives
        below = np.searchsorted(negatives, scores[is_member], "left")
        not_above = np.searchsorted(negatives, scores[is_member], "right")
        places[is_member] = (below + not_above) / (2 * max(len(negatives), 1))
    return places


@formula_of("ranks", "roc_auc")
def roc_auc(positives: np.ndarray, negatives: np.ndarray) -> float | None:
    """Return the area under the ROC curve: how often a positive row scores above a
    negative one, a tie counting half.

    This is the Mann-Whitney statistic with midranks (Hanley and McNeil 1982), summed in
    integers. None if a class is missing.
    """
    pairs = positives.sum().item() * negatives.sum().item()
    if not pairs:
        return None
    below = negatives.sum() - np.cumsum(negatives)
    # doubled: a tie adds 1, not a half
    return (positives * (2 * below + negatives)).sum().item() / (2 * pairs)


@formula_of("ranks", "pr_auc")
def pr_auc(positives: np.ndarray, negatives: np.ndarray) -> float | None:
    """Return the area under the precision-recall curve as average precision, sum of
    (R_k - R_(k-1)) P_k.

    k runs over the distinct scores from the highest, each taken as threshold. No
    interpolation: scikit-learn's `average_precision_score`. None if a class is missing.
    """
    if not positives.any() or not negatives.any():
        return None
    precisions = np.cumsum(positives) / np.cumsum(positives + negatives)
    return float((positives * precisions).sum() / positives.sum())


# ---------------------------------------------------------------- probabilities


def are_probabilities(scores: np.ndarray) -> bool:
    """Return whether scores (rows,) of class 1 or (rows, classes), whose rows sum to 1,
    can be probabilities."""
    if not ((scores >= 0) & (scores <= 1)).all():
        return False
    if scores.ndim == 1:
        return True
    slack = math.sqrt(np.finfo(_type_of(scores)).eps)
    sums = scores.sum(axis=1, dtype=np.float64)
    return bool((abs(sums - 1) <= slack).all())


@formula_of("probabilities", "log_loss")
def row_log_losses(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return -ln of the probability of each row's true class, float64 (rows,).

    truth (rows,) class indices; scores (rows,) of class 1, or (rows, classes). As in
    scikit-learn, probabilities are clipped to [e, 1 - e], where e is the machine
    epsilon of the scores' type.
    """
    eps = np.finfo(_type_of(scores)).eps
    if scores.ndim == 1:
        score = np.clip(scores.astype(np.float64), eps, 1 - eps)
        return -np.log(np.where(truth == 1, score, 1 - score))
    return -np.log(np.clip(_of_true_class(truth, scores), eps, 1 - eps))


@formula_of("probabilities", "brier")
def row_brier_scores(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return each row's Brier score, float64 (rows,) (Brier 1950).

    Two classes, scores (rows,): (p - y)^2. Several, scores (rows, classes): the sum of
    (p - y)^2 over all classes, from 0 to 2. These are the scales of scikit-learn.
    """
    if scores.ndim == 1:
        return (scores.astype(np.float64) - truth) ** 2
    true = _of_true_class(truth, scores)
    return np.square(scores, dtype=np.float64).sum(axis=1) - 2 * true + 1


def _type_of(scores: np.ndarray) -> np.dtype:
    if scores.dtype.kind == "f":
        return scores.dtype
    return np.dtype(np.float64)


def _of_true_class(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    classes = np.asarray(truth, np.int64)[:, None]
    scores_of_class = np.take_along_axis(scores, classes, axis=1)
    return scores_of_class[:, 0].astype(np.float64)


# ---------------------------------------------------------------- several targets


def mean_of_targets(name: str, of_targets: Sequence[dict]) -> float | None:
    """Return the mean of a metric over the targets of which it is defined; None where
    it is of none. of_targets: the metrics of each."""
    each = [values[name] for values in of_targets]
    known = [value for value in each if value is not None]
    if known:
        return sum(known) / len(known)
    return None


for _name, _metric in METRICS.items():
    if _metric.of.get("multilabel") == "targets":
        formula_of("targets", _name)(partial(mean_of_targets, _name))


@formula_of("labels", "accuracy")
def share_wholly_right(judged: Judged, weights=None) -> float:
    """Return the share of rows of which every target is rightly predicted."""
    return mean(judged.are_right.astype(np.float64), weights)


@formula_of("labels", "hamming_loss")
def hamming_loss(judged: Judged, weights=None) -> float:
    """Return the share of all targets of rows that are wrongly predicted."""
    counts = judged.counts(weights)
    return ratio(counts.fp + counts.fn, sum(counts))


@formula_of("labels", "micro_f1")
def micro_f1(judged: Judged, weights=None) -> float:
    """Return the F1 of the counts of all targets together."""
    return f1(judged.counts(weights))


# ---------------------------------------------------------------- regression


@formula_of("errors", "mse")
def mse(errors: np.ndarray, mean: Callable) -> float:
    """Return the mean of (p - y)^2 over all entries. errors (rows, outputs): p - y.
    mean: of all entries, weighted."""
    return mean(errors**2)


@formula_of("errors", "mae")
def mae(errors: np.ndarray, mean: Callable) -> float:
    return mean(np.abs(errors))


@formula_of("errors", "rmse")
def rmse(errors: np.ndarray, mean: Callable) -> float:
    return math.sqrt(mse(errors, mean))


@formula_of("series", "persistence_rmse")
def persistence_rmse(
    _errors: np.ndarray, persistence_errors: np.ndarray, mean: Callable
) -> float:
    """Return the rmse of the forecast that nothing changes, of these errors."""
    return rmse(persistence_errors, mean)


@formula_of("series", "skill")
def skill(
    errors: np.ndarray, persistence_errors: np.ndarray, mean: Callable
) -> float | None:
    """Return 1 - rmse / persistence_rmse (Marquez and Coimbra 2013), None where
    persistence makes no error."""
    reference = rmse(persistence_errors, mean)
    if reference:
        return 1 - rmse(errors, mean) / reference
    return None


@formula_of("losses", "deviance")
@formula_of("losses", "pinball")
@formula_of("losses", "huber")
def mean_loss(losses: np.ndarray, mean: Callable) -> float:
    """Return the mean of the losses of rows."""
    return mean(losses)


@formula_of("quantiles", "below")
def share_not_above(truth: np.ndarray, predicted: np.ndarray, mean: Callable) -> float:
    """Return the share of rows whose target is not above the prediction."""
    return mean((truth <= predicted).astype(np.float64))


@formula_of("numbers", "r2")
def r2(truth: np.ndarray, predicted: np.ndarray, weights=None) -> float | None:
    """Return the coefficient of determination, 1 - sum (y-p)^2 / sum (y - mean y)^2,
    averaged over the outputs.

    truth and predicted (rows, outputs) float64. None if an output's truth is constant:
    there is nothing to explain.
    """
    are_known = ~np.isnan(truth)
    if not are_known.all():  # of each output by the rows that have it
        each = [
            r2(
                truth[known, k, None],
                predicted[known, k, None],
                at_rows(weights, known),
            )
            for k, known in enumerate(are_known.T)
        ]
        return None if None in each else float(np.mean(each))
    weights, truth, predicted = without_zeros(weights, truth, predicted)
    if not len(truth) or are_constant(truth).any():
        return None
    residuals = (truth - predicted) ** 2
    if weights is None:
        spreads = (truth - truth.mean(axis=0)) ** 2
    else:
        counts = weights[:, None]
        centre = (counts * truth).sum(axis=0) / weights.sum()
        residuals = counts * residuals
        spreads = counts * (truth - centre) ** 2
    return float(np.mean(1 - residuals.sum(axis=0) / spreads.sum(axis=0)))


def are_constant(values: np.ndarray) -> np.ndarray:
    """Return which outputs have only one value: bool (outputs,), of values (rows,
    outputs).

    Not asked of the variance: the mean of equal numbers is rounded, and their variance
    then tiny but not 0. What is missing, nan, does not count.
    """
    return np.fmin.reduce(values, axis=0) == np.fmax.reduce(values, axis=0)


# ---------------------------------------------------------------- by name


def in_columns(values: np.ndarray) -> np.ndarray:
    """Return values (rows,), or (rows, targets), as (rows, targets)."""
    return values[:, None] if values.ndim == 1 else values


class Judged:
    """Predictions, and what their metrics are formed from, for one set of weights after
    another.

    truth and scores: binary (rows,) of 0 and 1, and (rows,) or (rows, 1); multiclass
    (rows,) class indices, and (rows, classes); multilabel and regression (rows,
    outputs) both.
    threshold: of two classes (0.5), of all rows or of each (rows,); of several targets
    as decide_each takes it. persistence: of a
    series, the forecast that nothing changes, (rows, outputs). folds: of two classes,
    the fold whose networks have scored each row (rows,), by which areas take its
    `placements`; None: the same networks have scored all rows. loss: that the networks
    were trained by, as --loss writes it; None: the usual one.
    """

    def __init__(
        self,
        task: str,
        truth,
        scores,
        threshold=None,
        persistence=None,
        folds=None,
        loss: str | None = None,
    ):
        self.task = task
        self._loss = loss or TASKS[task].loss
        truth = np.asarray(truth)
        scores = np.asarray(scores)
        if threshold is None:
            threshold = DEFAULTS["threshold"]
        self._folds = folds
        if TASKS[task].by_output:
            truth = in_columns(truth.astype(np.float64))
            # a target that a row lacks counts for no metric
            self._are_known = ~np.isnan(truth)
            self._lacks_some = not self._are_known.all()
        if task == "multilabel":
            self._cuts = np.broadcast_to(threshold, scores.shape)
            self.predicted = decide_each(scores, threshold)
        elif task == "regression":
            scores = in_columns(scores.astype(np.float64))
            self._errors = scores - truth
            self._persistence = None
            if persistence is not None:
                self._persistence = np.asarray(persistence, np.float64)
        else:
            if task == "binary":
                scores = scores.reshape(len(truth))
            self.predicted = decide(scores, threshold)
            self.are_probabilities = are_probabilities(scores)
        self.truth = truth
        self.scores = scores
        if task == "multilabel":
            self.are_probabilities = all(a.are_probabilities for a in self.by_target)
        # of metrics that are means of the rows' values
        self._row_values = {}

    @cached_property
    def by_target(self) -> list[Judged]:
        """Return each of several targets, of the rows that have it; none where there is
        a single number, or class, of a row."""
        if self.task == "multilabel":
            return list(map(self._label, range(self.truth.shape[1])))
        if self.task == "regression" and self.truth.shape[1] > 1:
            return list(map(self._number, range(self.truth.shape[1])))
        return []

    def _label(self, target: int) -> Judged:
        known = self._are_known[:, target]
        arrays = (self.truth, self.scores, self._cuts)
        own = [array[known, target] for array in arrays]
        return Judged("binary", *own, folds=at_rows(self._folds, known))

    def _number(self, target: int) -> Judged:
        known = self._are_known[:, target]
        shares = quantiles_of(self._loss)
        loss = f"quantile={shares[target]}" if shares else self._loss
        persistence = None
        if self._persistence is not None:
            persistence = self._persistence[known, target, None]
        return Judged(
            "regression",
            self.truth[known, target, None],
            self.scores[known, target, None],
            persistence=persistence,
            loss=loss,
        )

    @cached_property
    def _ranks(self) -> Ranks:
        if self._folds is None:
            return Ranks(self.truth, self.scores)
        return Ranks(self.truth, placements(self.truth, self.scores, self._folds))

    @property
    def names(self) -> list[str]:
        formed_from = {
            name: metric.of.get(self.task) for name, metric in METRICS.items()
        }
        absent = {None, "series", "losses", "quantiles"}
        loss = loss_of(self._loss)
        if self.task == "regression" and self._persistence is not None:
            absent.remove("series")
        if loss.takes_several and self.truth.shape[1] == 1:
            absent.remove("quantiles")
        return [
            name
            for name, source in formed_from.items()
            if source not in absent or name == loss.metric
        ]

    @cached_property
    def _persistence_errors(self) -> np.ndarray:
        return self._persistence - self.truth

    @cached_property
    def are_right(self) -> np.ndarray:
        """Return which rows are right, of several targets wholly (rows,)."""
        are_right = (self.predicted == self.truth) | (self.truth != self.truth)
        return in_columns(are_right).all(axis=1)

    @property
    def _row_losses(self) -> np.ndarray:
        """Return the loss of each row (rows,); where rows lack targets, of each target,
        nan where it is missing (rows, targets)."""
        if not self._lacks_some:
            return row_losses(self._loss, self.scores, self.truth)
        known = np.where(self._are_known, self.truth, 1.0)
        losses = row_losses(self._loss, self.scores[..., None], known[..., None])
        return np.where(self._are_known, losses, np.nan)

    def _of_known(self, values: np.ndarray, weights) -> tuple:
        """Return (values, weights) of the targets that rows have, one a target; values
        (rows, targets)."""
        if weights is not None:
            shape = self._are_known.shape
            weights = np.broadcast_to(weights[:, None], shape)[self._are_known]
        return values[self._are_known], weights

    def of_targets(self, weights=None) -> Iterator[tuple[Judged, np.ndarray | None]]:
        """Yield each of several targets, of the rows that have it, with their
        weights."""
        if self.by_target:
            for target, known in zip(self.by_target, self._are_known.T, strict=True):
                yield target, at_rows(weights, known)

    def values_of_targets(
        self, weights=None, names: Iterable[str] | None = None, exact: bool = True
    ) -> list[dict[str, float | None]]:
        """Return metrics of each of several targets, as values does."""
        return [
            target.values(own, names, exact) for target, own in self.of_targets(weights)
        ]

    def counts(self, weights=None) -> Counts:
        """Return the counts of two classes, of several targets those of all."""
        if self.task == "multilabel":
            each = [target.counts(own) for target, own in self.of_targets(weights)]
            return Counts(*map(sum, zip(*each, strict=True)))
        return confusion_counts(self.truth, self.predicted, weights)

    def classes(self, weights=None) -> ClassCounts:
        return ClassCounts.of(self.truth, self.predicted, self.scores.shape[1], weights)

    def values(
        self,
        weights=None,
        names: Iterable[str] | None = None,
        exact: bool = True,
        of_targets: Sequence[dict] = (),
    ) -> dict[str, float | None]:
        """Return metrics, None where they are undefined, or beyond what float64 holds.
        weights: as checked_weights returns them. exact: sums are rounded once.
        of_targets: what values_of_targets returns, where it is known."""
        if names is None:
            names = self.names
        # a target that no row has
        if not len(self.truth) or (weights is not None and not weights.any()):
            return dict.fromkeys(names)
        with np.errstate(all="ignore"):
            metrics = self._values(weights, names, exact, of_targets)
        for name, value in metrics.items():
            if value is not None and not math.isfinite(value):
                metrics[name] = None
        return metrics

    def _values(
        self, weights, names: Iterable[str], exact: bool, of_targets: Sequence[dict]
    ) -> dict[str, float | None]:
        def weighted_mean(values: np.ndarray) -> float:
            own = weights
            if values.ndim > 1 and self._lacks_some:
                values, own = self._of_known(values, weights)
            if own is None and values.ndim > 1:
                return float(np.mean(values))
            if values.ndim != 1:
                values = values.mean(axis=1)
            if exact:
                return mean(values, own)
            return float((values * own).sum() / own.sum())

        def of_each() -> Sequence[dict]:
            means = [n for n in names if METRICS[n].of[self.task] == "targets"]
            return of_targets or self.values_of_targets(weights, means, exact)

        formed_from = {
            "counts": lambda: (self.counts(weights),),
            "classes": lambda: (self.classes(weights),),
            "ranks": lambda: self._ranks.counts(weights),
            "errors": lambda: (self._errors, weighted_mean),
            "series": lambda: (self._errors, self._persistence_errors, weighted_mean),
            "labels": lambda: (self, weights),
            "targets": lambda: (of_each(),),
            "numbers": lambda: (self.truth, self.scores, weights),
            "losses": lambda: (self._row_losses, weighted_mean),
            "quantiles": lambda: (self.truth, self.scores, weighted_mean),
        }
        formed = {}
        values = {}
        for name in names:
            source = METRICS[name].of[self.task]
            formula = _FORMULAS[source, name]
            if source == "probabilities":
                values[name] = self._of_probabilities(name, formula, weighted_mean)
                continue
            if source not in formed:
                formed[source] = formed_from[source]()
            values[name] = formula(*formed[source])
        return values

    def _of_probabilities(
        self, name: str, formula: Callable, weighted_mean: Callable
    ) -> float | None:
        """Return the mean of a metric of each row; None where scores are no
        probabilities."""
        if not self.are_probabilities:
            return None
        if name not in self._row_values:
            self._row_values[name] = formula(self.truth, self.scores)
        return weighted_mean(self._row_values[name])


def metrics_of(task: str) -> list[str]:
    """Return the names of the metrics that --monitor may have for a task."""
    return [name for name in MONITORS if name == "loss" or task in METRICS[name].of]


def check_metric(name: str, task: str, flag: str = "--monitor") -> None:
    """Raise UsageError for a metric that is unknown or does not fit the task; the
    message lists the fitting ones."""
    if name not in metrics_of(task):
        fault = f"does not fit a {task} task" if name in METRICS else "unknown"
        raise UsageError(
            f"{flag} {name}: {fault}; choose from {', '.join(metrics_of(task))}"
        )


def formula_name(name: str, task: str, loss: str | None = None) -> str:
    """Return the metric that a name of MONITORS stands for: the loss is the log loss of
    classes, the mse of numbers, or what a loss has for itself."""
    if name != "loss":
        return name
    if loss and loss_of(loss).metric:
        return loss_of(loss).metric
    if TASKS[task].of_classes:
        return "log_loss"
    return "mse"


def metric(
    name: str,
    task: str,
    truth,
    scores,
    weights=None,
    *,
    threshold: float | None = None,
    loss: str | None = None,
) -> float | None:
    """Return a metric of MONITORS, None where it is undefined. Arguments as those of
    Judged; weights (rows,), None for 1 each. The loss is what `formula_name` says.

    Raises UsageError for a metric that does not fit the task, DataError for bad
    weights.
    """
    check_metric(name, task)
    name = formula_name(name, task, loss)
    judged = Judged(task, truth, scores, threshold, loss=loss)
    return judged.values(checked_weights(weights, len(judged.truth)), [name])[name]
