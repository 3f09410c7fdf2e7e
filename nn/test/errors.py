"""Errors of a network: the loss of each row, the groups of rows that it errs on most,
calibration, what cut-offs give, and the errors of a regression by range of the
prediction.

Records of numbers, which a page lays out. Weights (rows,), or None: a row of weight 2
counts as the row twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import losses as core_losses
from ..core.metrics import decide
from ..core.thresholds import cut_offs
from ..core.weighted import quantiles
from ..data.table_rows import TableRows
from ..nn import Network
from ..nn_aux import TASKS, loss_of
from ..utils import axis_texts
from .values import gives_logits, names_of

USUAL_THRESHOLDS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4),
    *(0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99),
)
LEAST_BIN = 10  # rows of a point of the calibration
SCORE_BINS = 40  # of a histogram of scores
LEAST_GROUP = 20  # rows of a group
SURE = 3.0  # standard errors of a group's mean above the mean of all rows
FREQUENT_WORDS = 8  # of a column, which are groups
# between these shares of a range's errors lie 90 % of them
MOST_ERRORS = np.array([0.05, 0.95])


def row_losses(net: Network, truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return how wrong each row is: its loss, where that has a metric of its own, the
    absolute error, the log loss, or 1 for an error where no probabilities tell more."""
    scores = scores.astype(np.float64)
    if loss_of(net.loss).metric is not None:
        with np.errstate(all="ignore"):
            return core_losses.row_losses(net.loss, scores, truth)
    if net.task == "regression":
        return np.nanmean(np.abs(scores - truth), axis=1)
    if TASKS[net.task].by_output:
        return core_losses.row_losses(TASKS[net.task].loss, scores, truth)
    if not gives_logits(net):
        return (decide(scores, net.threshold) != truth).astype(np.float64)
    if net.outputs == 1:
        scores = np.concatenate([1 - scores, scores], axis=1)
    probabilities = scores[np.arange(len(truth)), truth.astype(int)]
    return -np.log(np.maximum(probabilities, 1e-12))


def row_count(weights: np.ndarray | None, rows: np.ndarray) -> float:
    """Return how many rows these indices are, or the sum of their weights."""
    if weights is None:
        return len(rows)
    return weights[rows].sum().item()


def mean_of_rows(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the mean of values of rows; weights above 0."""
    if weights is None:
        return np.average(values)
    return np.average(values, weights=weights / weights.max())


def ranges(values: np.ndarray, most: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (ends, rows) of at most `most` ranges with as many of the values each; gaps
    are in none."""
    is_known = ~np.isnan(values)
    if not is_known.any():
        return
    edges = np.unique(np.quantile(values[is_known], np.linspace(0, 1, most + 1)))
    place = np.searchsorted(edges[1:-1], values, side="right")
    ends = axis_texts(edges)
    for k in range(len(edges) - 1):
        rows = np.flatnonzero((place == k) & is_known)
        if len(rows):
            yield f"{ends[k]} to {ends[k + 1]}", rows


# ------------------------------------------------------------------------------- groups


@dataclass(frozen=True)
class Group:
    """Rows that have a value of a column in common, or one of its range.

    rows: their number, or the sum of their weights; loss: their mean loss;
    standard_errors: how far this lies above the mean of all rows.
    """

    column: str
    values: str
    rows: float
    loss: float
    standard_errors: float


@dataclass(frozen=True)
class Groups:
    """All rows, their mean loss, and the groups that err clearly more, the clearest
    first. least: how many rows a group had to have."""

    rows: float
    loss: float
    least: int
    clear: list[Group]


def groups_that_err(
    net: Network,
    x,
    truth: np.ndarray,
    scores: np.ndarray,
    weights: np.ndarray | None = None,
) -> Groups:
    """Return the groups of rows, by one column each, whose mean loss is more than SURE
    standard errors above that of all rows.

    A row of weight 0 is in no group. The standard error of a group's mean is by the
    number of rows of equal weight that would be as sure of it (Kish 1965).
    """
    losses = row_losses(net, truth, scores)
    if weights is None:
        counts = np.ones(len(truth))
    else:
        counts = weights / weights.max()
    rows = np.count_nonzero(counts)
    loss = np.average(losses, weights=counts)
    deviation = np.sqrt(np.average((losses - loss) ** 2, weights=counts))
    least = max(LEAST_GROUP, rows // 100)
    clear = []
    for column, values, members in _groups_of(net, x):
        members = members[counts[members] > 0]
        if not least <= len(members) < rows:
            continue
        shares = counts[members]
        mean = np.average(losses[members], weights=shares)
        equal_rows = shares.sum() ** 2 / (shares**2).sum()
        above = (mean - loss) * np.sqrt(equal_rows) / max(deviation, 1e-300)
        if above > SURE:
            count = row_count(weights, members)
            clear.append(Group(column, values, count, mean, above))
    clear.sort(key=lambda group: (-group.standard_errors, group.column, group.values))
    return Groups(row_count(weights, np.arange(len(losses))), loss, least, clear)


def _groups_of(net: Network, x) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (column, its values, rows): quarters of numbers, frequent words, gaps."""
    for name, column in zip(names_of(net), TableRows.of(x).columns, strict=True):
        yield name, "(missing)", np.flatnonzero(column.is_gap)
        if column.reads == "text":
            codes = column.values[column.values >= 0]
            counts = np.bincount(codes, minlength=len(column.words))
            for code in np.argsort(-counts, kind="stable")[:FREQUENT_WORDS]:
                yield name, column.words[code], np.flatnonzero(column.values == code)
        elif column.reads == "number":
            for ends, rows in ranges(column.values, 4):
                yield name, ends, rows


# ------------------------------------------------------------------------- two classes


@dataclass(frozen=True)
class AtThreshold:
    """Figures of a threshold; alarms: of 1,000 rows; cost: None where no costs are
    given."""

    threshold: float
    precision: float
    recall: float
    f1: float
    alarms: float
    cost: float | None


def at_thresholds(
    truth: np.ndarray,
    scores: np.ndarray,
    weights: np.ndarray | None,
    used: float,
    costs: Sequence[float] = (),
) -> list[AtThreshold]:
    """Return what USUAL_THRESHOLDS and the used one give; of scores that are no
    probabilities tenths of their range.

    truth, scores (rows,). costs: of a false alarm and of a missed row.
    """
    usual = USUAL_THRESHOLDS
    ends = score_ends(scores)
    if ends != (0.0, 1.0):
        usual = np.linspace(*ends, 11, dtype=np.float64).tolist()
    cuts = cut_offs(truth, scores, weights)
    precision = cuts.precision
    recall = cuts.recall
    f1 = cuts.fbeta(1)
    alarms = 1000 * (cuts.tp + cuts.fp) / (cuts.tp[-1] + cuts.fp[-1])
    rows = []
    for threshold in sorted({*usual, used}):
        k = int((cuts.scores >= threshold).sum()) - 1  # cut-offs fall, the first is inf
        cost = None
        if costs:
            cost = cuts.cost(*costs)[k]
        rows.append(
            AtThreshold(threshold, precision[k], recall[k], f1[k], alarms[k], cost)
        )
    return rows


@dataclass(frozen=True)
class Curves:
    """The curves of all cut-offs, the highest first. share: that of class 1, which is
    the precision of chance."""

    precision: np.ndarray
    recall: np.ndarray
    false_alarms: np.ndarray
    share: float


def cut_off_curves(
    truth: np.ndarray, scores: np.ndarray, weights: np.ndarray | None
) -> Curves:
    """Return precision, recall and false positive rate of rows of both classes."""
    cuts = cut_offs(truth, scores, weights)
    precision = cuts.precision
    # no row, no precision: the curve begins at the first row's
    precision[0] = precision[1]
    positives = cuts.tp[-1]
    negatives = cuts.fp[-1]
    share = (positives / (positives + negatives)).item()
    return Curves(precision, cuts.recall, cuts.fp / negatives, share)


def score_ends(scores: np.ndarray) -> tuple[float, float]:
    """Return the ends of an axis of scores: 0 and 1 of probabilities, else those of the
    scores."""
    if scores.min() < 0 or scores.max() > 1:
        return scores.min(), scores.max()
    return 0.0, 1.0


def score_shares(
    truth: np.ndarray, scores: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Return (edges, by class that has rows the share of its rows between them) of
    scores of two classes."""
    edges = np.histogram_bin_edges(scores, SCORE_BINS, score_ends(scores))
    if weights is None:
        weights = np.ones(len(scores))
    shares = {}
    for label in (0, 1):
        members = truth == label
        total = weights[members].sum()
        if total > 0:
            heights, _ = np.histogram(scores[members], edges, weights=weights[members])
            shares[label] = heights / total
    return edges, shares


def calibration(
    truth: np.ndarray, scores: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean score, share of rows that are what the score says) of each tenth of
    the scores that has rows enough. truth: whether a row is it."""
    if weights is None:
        weights = np.ones(len(scores))
    tenth = np.minimum((scores * 10).astype(int), 9)
    rows = np.bincount(tenth)
    totals = np.bincount(tenth, weights)
    least = min(LEAST_BIN, max(1, len(scores) // 10))
    kept = (rows >= least) & (totals > 0)
    means = np.bincount(tenth, weights * scores)[kept] / totals[kept]
    shares = np.bincount(tenth, weights * truth)[kept] / totals[kept]
    return means, shares


# -------------------------------------------------------------------------- regression


@dataclass(frozen=True)
class Residuals:
    """The errors of the rows whose prediction is in a range: 90 % of them lie between
    low and high."""

    predicted: str
    rows: float
    mean: float
    rmse: float
    low: float
    high: float


def residuals_by_range(
    predicted: np.ndarray, errors: np.ndarray, weights: np.ndarray | None, most: int
) -> Iterator[Residuals]:
    """Yield the errors (rows,) of at most `most` ranges of the prediction; weights
    above 0."""
    for ends, rows in ranges(predicted, most):
        counts = weights
        if counts is not None:
            counts = counts[rows]
        low, high = quantiles(errors[rows], MOST_ERRORS, counts)
        with np.errstate(over="ignore"):
            mean = mean_of_rows(errors[rows], counts)
            rmse = np.sqrt(mean_of_rows(errors[rows] ** 2, counts))
        yield Residuals(ends, row_count(weights, rows), mean, rmse, low, high)


def mean_and_deviation(
    errors: np.ndarray, weights: np.ndarray | None
) -> tuple[float, float]:
    """Return mean and standard deviation of errors; weights above 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = mean_of_rows(errors, weights)
        return mean, np.sqrt(mean_of_rows((errors - mean) ** 2, weights))
