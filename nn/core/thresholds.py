"""Decisions once a network is trained: the threshold from which a score counts as class
1, by the rules of
--threshold, exact over all cut-offs; and the temperature of class probabilities.

A cut-off takes the rows from some distinct score on for class 1, or none. The best one
is found by counting over the sorted scores. The threshold then lies half-way to the
next lower score, so that a new score close to either falls on its side. Of equally good
cut-offs the highest is taken: the one with the fewest alarms.

Calibration by temperature gives class probabilities of logits that are divided by one
number (Guo et al. 2017). A temperature above 1 makes probabilities less sure, one below
1 surer. Which class is the likeliest, and the order of the scores of two classes, stay
as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..settings.flags import DEFAULTS
from ..settings.values import parse_rule, threshold_rules
from ..utils import DataError, UsageError, listed, log
from .metrics import Ranks, checked_weights, in_columns, total, without_zeros
from .weighted import at_rows


class NoPositiveRow(DataError):
    """No row that a threshold could be chosen by is of class 1."""


class CutOffs(NamedTuple):
    """All cut-offs of some rows, the highest first: class 1 from scores[k] on; the
    first one, inf, takes no row.

    tp, fp, fn (cut-offs,): rows or their weights, float64.
    """

    scores: np.ndarray
    tp: np.ndarray
    fp: np.ndarray
    fn: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        """Return tp/(tp+fp), 0 where no row is taken."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> np.ndarray:
        """Return tp/(tp+fn), 0 where no row is positive."""
        return _ratio(self.tp, self.tp + self.fn)

    def fbeta(self, beta: float) -> np.ndarray:
        """Return (1+b^2)tp / ((1+b^2)tp + b^2 fn + fp), the F1 score for beta 1."""
        square = beta * beta
        hits = (1 + square) * self.tp
        return _ratio(hits, hits + square * self.fn + self.fp)

    def cost(self, alarm_cost: float, miss_cost: float) -> np.ndarray:
        return alarm_cost * self.fp + miss_cost * self.fn

    def threshold(self, k: int) -> float:
        """Return the threshold of cut-off k: half-way to the next lower score; above
        all scores for the first."""
        if k == 0:
            return float(np.nextafter(self.scores[1], math.inf))
        here = self.scores[k]
        lower = self.scores[min(k + 1, len(self.scores) - 1)]
        half = lower + (here - lower) / 2
        if lower < half:
            return float(half)
        return float(here)  # there is no number between


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def cut_offs(truth: np.ndarray, scores: np.ndarray, weights=None) -> CutOffs:
    """Return all cut-offs of truth (rows,) of 0 and 1, scores (rows,) and weights
    (rows,)."""
    weights, truth, scores = without_zeros(
        checked_weights(weights, len(truth)), truth, scores
    )
    positives, negatives = Ranks(truth, scores).counts(weights)
    distinct = np.unique(scores.astype(np.float64))[::-1]
    tp = np.concatenate([[0.0], np.cumsum(positives)])
    fp = np.concatenate([[0.0], np.cumsum(negatives)])
    return CutOffs(np.concatenate([[math.inf], distinct]), tp, fp, tp[-1] - tp)


# ---------------------------------------------------------------- rules


def best_threshold(
    spec: str, truth: np.ndarray, scores: np.ndarray, weights=None
) -> float:
    """Return the threshold that a rule of --threshold finds on these rows.

    spec: f1 or fbeta=B, the largest F score; precision=P, the largest recall of the
    cut-offs whose precision is at least P; recall=R, the largest precision of those
    whose recall is at least R; cost=FP:FN, the least cost of the wrong rows, where a
    false alarm costs FP and a missed row of class 1 costs FN.
    truth (rows,) of 0 and 1, scores (rows,) of class 1, weights (rows,) or None.
    Raises UsageError for no such rule and for a precision that no cut-off reaches,
    DataError if no row is of class 1 or a score is nan.
    """
    try:
        name, numbers = parse_rule(spec)
    except ValueError:
        raise UsageError(f"--threshold {spec}: expected {threshold_rules()}") from None
    if np.isnan(scores).any():
        raise DataError(
            f"--threshold {spec}: found nan among the scores to choose it by, expected numbers"
        )
    cuts = cut_offs(np.asarray(truth), np.asarray(scores), weights)
    if not cuts.tp[-1]:
        raise NoPositiveRow(
            f"--threshold {spec}: no row to choose it by is of class 1; give a number, or other rows"
        )
    return cuts.threshold(int(_BEST[name](cuts, *numbers)))


def best_thresholds(
    spec: str,
    truth: np.ndarray,
    scores: np.ndarray,
    weights=None,
    targets: Sequence[str] | None = None,
) -> float | list[float]:
    """Return what best_threshold finds for scores (rows, 1); for several targets, truth
    and scores (rows, targets), that of each by the rows that have it.

    targets: their names. One that has no row of class 1 keeps the usual threshold,
    which a line says.
    """
    if truth.ndim == 1:
        return best_threshold(spec, truth, scores[:, 0], weights)
    names = targets or [str(number) for number in range(truth.shape[1])]
    thresholds = []
    absent = []
    for name, rows in zip(names, by_target(truth, scores, weights), strict=True):
        try:
            thresholds.append(best_threshold(spec, *rows))
        except NoPositiveRow:
            thresholds.append(DEFAULTS["threshold"])
            absent.append(name)
        except UsageError as error:
            raise UsageError(f"target {name}: {error}") from None
    if absent:
        log.warning(
            "--threshold %s: no row to choose it by is of the positive class of %s, where it stays %g",
            spec,
            listed(absent),
            DEFAULTS["threshold"],
        )
    return thresholds


def by_target(truth: np.ndarray, scores: np.ndarray, weights=None) -> Iterator[tuple]:
    """Yield (truth, scores, weights), (rows,) each, of each of several targets, of the
    rows that have it, or of one target."""
    truth = in_columns(truth)
    for known, y, p in zip(~np.isnan(truth.T), truth.T, scores.T, strict=True):
        yield y[known], p[known], at_rows(weights, known)


def _precise_enough(cuts: CutOffs, least: float) -> int:
    enough = cuts.precision >= least
    enough[0] = False
    if not enough.any():
        best = cuts.precision.max()
        raise UsageError(
            f"--threshold precision={least:g}: no cut-off reaches it, the best has precision {best:.4g}; "
            f"ask for at most that"
        )
    return int(np.argmax(np.where(enough, cuts.recall, -1.0)))


_BEST = {  # rule -> (cut-offs, *its numbers) -> number of the best cut-off
    "f1": lambda cuts: np.argmax(cuts.fbeta(1.0)),  # the first of equal ones
    "fbeta": lambda cuts, beta: np.argmax(cuts.fbeta(beta)),
    "precision": _precise_enough,
    "recall": lambda cuts, least: np.argmax(
        np.where(cuts.recall >= least, cuts.precision, -1.0)
    ),
    "cost": lambda cuts, alarm_cost, miss_cost: np.argmin(
        cuts.cost(alarm_cost, miss_cost)
    ),
}


# ---------------------------------------------------------------- temperature

# the range of temperatures; only rows that are all right, or no better than chance, ask
# for others
LEAST = 1 / 64
MOST = 64.0
# halvings of the range of the temperature's logarithm: more digits than float64 has
TEMPERATURE_STEPS = 60


def tempered(
    scores: np.ndarray, temperature: float, are_apart: bool = False
) -> np.ndarray:
    """Return probabilities of logits divided by the temperature, of the same shape and
    type.

    scores (rows, 1) of class 1 of two, by a sigmoid, or (rows, classes), by a softmax,
    or where they are apart (rows, targets), by a sigmoid each; 1 leaves them as they
    are.
    """
    if temperature == 1:
        return scores
    if are_apart:
        return tempered(scores.reshape(-1, 1), temperature).reshape(scores.shape)
    return _probabilities(logits_of(scores) / temperature).astype(scores.dtype)


def logits_of(scores: np.ndarray) -> np.ndarray:
    """Return logits that have these probabilities, float64: (rows, 1) of class 1, or
    (rows, classes).

    Probabilities of 0 and 1 are taken for the nearest numbers of their type inside (0,
    1).
    """
    info = np.finfo(scores.dtype)
    p = np.clip(scores.astype(np.float64), float(info.tiny), 1 - float(info.epsneg))
    if scores.shape[1] == 1:
        return np.log(p) - np.log1p(-p)
    return np.log(p)


def _probabilities(logits: np.ndarray) -> np.ndarray:
    if logits.shape[1] == 1:
        small = np.exp(-np.abs(logits))
        return np.where(logits >= 0, 1.0, small) / (1 + small)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def best_temperature(truth: np.ndarray, scores: np.ndarray, weights=None) -> float:
    """Return the temperature with the least log loss on these rows, from 1/64 to 64.

    truth (rows,) class indices, of several targets (rows, targets) of 0, 1 and, where
    one is missing, nan; scores as in `tempered`. The log loss is convex in
    1/temperature, so the sign of its slope says on which side the least lies: halving
    finds it, in float64, the same each time.
    """
    if truth.ndim == 2:
        known = ~np.isnan(truth)
        rows = np.nonzero(known)[0]
        truth = truth[known]
        scores = scores[known][:, None]
        weights = at_rows(weights, rows)
    logits = logits_of(scores)
    # logarithms of 1/temperature
    low = np.log(1 / MOST)
    high = np.log(1 / LEAST)
    for _ in range(TEMPERATURE_STEPS):
        middle = (low + high) / 2
        if _slope(truth, logits, np.exp(middle), weights) < 0:
            low = middle
        else:
            high = middle
    return float(np.exp(-(low + high) / 2))


def _slope(truth: np.ndarray, logits: np.ndarray, inverse: float, weights) -> float:
    """Return the derivative of the log loss by 1/temperature: expected less true logit,
    summed over the rows."""
    p = _probabilities(logits * inverse)
    if logits.shape[1] == 1:
        return total((p[:, 0] - truth) * logits[:, 0], weights)
    classes = np.asarray(truth, np.int64)[:, None]
    true_logits = np.take_along_axis(logits, classes, axis=1)[:, 0]
    return total((p * logits).sum(axis=1) - true_logits, weights)
