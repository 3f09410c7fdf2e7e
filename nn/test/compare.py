"""Two models on the same rows: metrics side by side, and whether the rows tell them
apart (paired bootstrap)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.bootstrap import interval, resampled
from ..core.metrics import Judged, checked_weights
from ..data.dataset import Dataset, name_of
from ..files.export.columns import label_names
from ..nn import Network
from ..nn_aux import METRICS, loss_of
from ..utils import DataError, UsageError
from .reports import sampling_of, sampling_of_copies, truth_and_scores
from .trained_rows import ON_NONE, Trained, trained_on

# the metric of the verdict, by task, where the loss of both models has none
DECIDES = {
    "binary": "log_loss",
    "multiclass": "log_loss",
    "multilabel": "log_loss",
    "regression": "rmse",
}
DISAGREE = 5  # rows reported, on which the models differ most
LEAST_ROWS_OF_INTERVAL = 10  # rows that an interval needs
# keys beside those that models have by their names
RESERVED_KEYS = ("difference", "interval", "row", "true")


class FoldRows(NamedTuple):
    """Rows that folds judge, as a model keeps them: the threshold and the fold of
    each."""

    threshold_of_row: np.ndarray
    fold_of_row: np.ndarray


class Side(NamedTuple):
    """A model, rows as it reads them, what it predicts of them where that is known, how
    many of them it knows, and what it keeps of them where folds judge them."""

    net: object
    ds: Dataset
    scores: np.ndarray | None
    trained: Trained
    crossed: FoldRows | None = None

    @classmethod
    def of(cls, net: Network, ds: Dataset, fold_scores=None) -> Side:
        """Return the side of a model. fold_scores: what out_of_fold returns where folds
        know the rows apart."""
        if fold_scores is None:
            return cls(net, ds, None, trained_on(net, ds))
        rows, _, scores = fold_scores
        kept = FoldRows(net.crossed.threshold_of_row, net.crossed.of_row)
        return cls(net, ds.of_rows(rows), scores, ON_NONE, kept)

    @property
    def rows(self) -> np.ndarray:
        """Return the indices of the rows in their data."""
        if self.ds.part_rows is None:
            return np.arange(self.ds.rows)
        return self.ds.part_rows

    @property
    def rows_of_data(self) -> int:
        if self.ds.whole is None:
            return self.ds.rows
        return self.ds.whole.rows

    def only(self, rows: np.ndarray) -> Side:
        """Return the side of some of the rows, ascending indices in their data."""
        places = np.searchsorted(self.rows, rows)
        ds = self.ds.of_rows(places)
        if self.scores is None:
            return Side(self.net, ds, None, trained_on(self.net, ds))
        kept = FoldRows(
            self.crossed.threshold_of_row[places], self.crossed.fold_of_row[places]
        )
        scores = self.scores[places]
        return Side(self.net, ds, scores, ON_NONE, kept)


def check_same_outputs(nets: Sequence, names: Sequence[str]) -> None:
    """Raise UsageError for two networks of other tasks, classes or outputs."""
    facts = [
        (net.task, net.classes or [], net.labels or [], net.outputs) for net in nets
    ]
    if facts[0] != facts[1]:
        raise UsageError(
            f"{names[0]} and {names[1]} predict different things; compare models of the same targets"
        )


def compared_sides(sides: Sequence[Side], names, *, seed: int = 0) -> dict:
    """Return what `compared` does of the rows that both sides have, without a verdict
    where one of the models was trained on them, and trained_rows. Raises DataError
    where both have rows of one file, and share none."""
    sides = _on_shared_rows(*sides, names)
    result = compared(sides, names, seed=seed)
    counts = [side.trained.count for side in sides if side.trained.count is not None]
    result["trained_rows"] = max(counts, default=None)
    warnings = []
    for side, name in zip(sides, names, strict=True):
        if side.trained.spoils_figures:
            warnings.append(side.trained.warning(name))
    if warnings:
        cure = "give rows that neither knows with --dataset"
        result["better"] = None
        result["verdict"] = f"no verdict: {' and '.join(warnings)}; {cure}"
    return result


def _on_shared_rows(side: Side, other: Side, names) -> tuple[Side, Side]:
    """Return the sides of the rows that both have of one file; others as they are."""
    if not _are_of_one_file(side, other) or np.array_equal(side.rows, other.rows):
        return side, other
    shared = np.intersect1d(side.rows, other.rows)
    if not len(shared):
        file = name_of(side.ds)
        held = f"{names[0]} and {names[1]} held out different rows of {file}"
        raise DataError(
            f"{held}, and there is none that neither knows; give other rows with --dataset"
        )
    return side.only(shared), other.only(shared)


def _are_of_one_file(side: Side, other: Side) -> bool:
    """Return whether two sides have rows of one file, by its path or its digest."""
    if side.rows_of_data != other.rows_of_data:
        return False
    if side.ds.path is not None and side.ds.path == other.ds.path:
        return True
    return side.ds.sha256 is not None and side.ds.sha256 == other.ds.sha256


def compared(sides: Sequence[Side], names, *, seed: int = 0) -> dict:
    """Return what two networks make of the same rows, which each side holds as its
    network reads them.

    names: of the models. Keys: rows; models, their names; metrics, {name: {first name:
    value, second name: value, difference, interval}}, where difference is the second
    value less the first and interval its 95 % by paired bootstrap (None below 10 rows);
    metric, that of the verdict; better, the name of the better model or None; verdict,
    a sentence; disagree, the rows on which the models differ most. Raises UsageError
    for models of other tasks or classes, DataError for other rows.
    """
    net, _ = nets = [side.net for side in sides]
    check_same_outputs(nets, names)
    rows_of_sides = [truth_and_scores(side.net, side.ds, side.scores) for side in sides]
    (truth, _, weights), (other_truth, *_) = rows_of_sides
    have_exposures = [side.ds.exposures is not None for side in sides]
    if len({*have_exposures}) > 1:
        raise UsageError(
            f"{names[have_exposures.index(True)]} predicts by exposures and the other does not: compare models that "
            "were trained alike"
        )
    if not _are_the_same(truth, other_truth):
        raise DataError(
            "the models have different rows or targets; give both the same rows with --dataset"
        )
    weights = checked_weights(weights, len(truth))
    scores = [side_scores for _, side_scores, _ in rows_of_sides]
    loss = net.loss if net.loss == sides[1].net.loss else None
    judged_rows = [
        _judged_rows(side, side_truth, side_scores, loss)
        for side, (side_truth, side_scores, _) in zip(sides, rows_of_sides, strict=True)
    ]
    values = [rows.values(weights) for rows in judged_rows]
    pairs = []
    if len(truth) >= LEAST_ROWS_OF_INTERVAL:
        sampling = sampling_of(sides[0].ds)
        if sides[0].crossed is not None:
            rows = np.arange(len(truth))
            sampling = sampling_of_copies(sides[0].ds, rows) or sampling
        pairs = resampled(judged_rows, weights, seed, sampling)
    metrics = {
        name: {
            names[0]: values[0][name],
            names[1]: values[1][name],
            "difference": _difference(values, name),
            "interval": interval([_difference(pair, name) for pair in pairs]),
        }
        for name in judged_rows[0].names
    }
    metric = DECIDES[net.task]
    if loss is not None:
        metric = loss_of(loss).metric or metric
    for name in (metric, *metrics):
        if metrics[name]["difference"] is not None:
            metric = name
            break
    better = _better(names, metric, metrics[metric])
    return {
        "rows": len(truth),
        "models": list(names),
        "metrics": metrics,
        "metric": metric,
        "better": better,
        "verdict": _verdict(names, metric, metrics[metric], better, len(truth)),
        "disagree": _disagree(net, truth, scores, names, sides[0].rows),
    }


def _judged_rows(
    side: Side, truth: np.ndarray, scores: np.ndarray, loss: str | None
) -> Judged:
    """Return what the metrics of a side are formed from. loss: that both models were
    trained by; None: each by another."""
    net = side.net
    if net.task == "regression":
        persistence = side.ds.persistence()
        return Judged(net.task, truth, scores, net.threshold, persistence, loss=loss)
    if net.task == "multiclass" or side.crossed is None:
        return Judged(net.task, truth, scores, net.threshold)
    kept = side.crossed
    cuts = kept.threshold_of_row
    return Judged(net.task, truth, scores, cuts, folds=kept.fold_of_row)


def _are_the_same(truth: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two models have read the same targets, each in its own type of
    numbers."""
    if truth.shape != other.shape:
        return False
    if truth.dtype.kind != "f":
        return np.array_equal(truth, other)
    with np.errstate(over="ignore"):
        numbers = [values.astype(np.float32) for values in (truth, other)]
        return np.array_equal(*numbers, equal_nan=True)


def _difference(values: list[dict], name: str) -> float | None:
    """Return the second model's metric less the first one's; None where one of them is
    undefined."""
    minuend = values[1][name]
    subtrahend = values[0][name]
    if minuend is None or subtrahend is None:
        return None
    return minuend - subtrahend


def _better(names, metric: str, figures: dict) -> str | None:
    """Return the name of the model whose metric is better, by its interval; None where
    the rows cannot tell."""
    if figures["interval"] is None:
        return None
    low, high = figures["interval"]
    if low <= 0 <= high:
        return None
    second_is_higher = low > 0
    if second_is_higher == METRICS[metric].higher_is_better:
        return names[1]
    return names[0]


def _verdict(names, metric: str, figures: dict, better: str | None, rows: int) -> str:
    label = METRICS[metric].label
    if figures["interval"] is None:
        return f"{rows} rows are too few to tell {names[0]} and {names[1]} apart"
    if better is None:
        return (
            f"these {rows} rows cannot tell which is better: their {label} may be equal"
        )
    worse = names[1]
    if better == names[1]:
        worse = names[0]
    return f"{better} is better than {worse}: {label} {figures[better]:.4g} beside {figures[worse]:.4g}"


def _disagree(
    net: Network,
    truth: np.ndarray,
    scores: list[np.ndarray],
    names,
    numbers: np.ndarray,
) -> list[dict]:
    """Return the rows on which the scores, or the values, of the models differ most.
    numbers: of the rows in their data."""
    apart = np.abs(scores[1].astype(np.float64) - scores[0]).max(axis=1)
    rows = np.argsort(-apart, kind="stable")[:DISAGREE]
    records = []
    for row in rows[apart[rows] > 0]:
        true = truth[row].tolist()
        if net.classes:
            true = net.classes[int(true)]
        if net.task == "multilabel":
            pairs = zip(label_names(net), true, strict=True)
            true = [
                pair[int(value)] if value == value else None for pair, value in pairs
            ]
        elif net.task == "regression":
            true = [value if value == value else None for value in true]
        record = {"row": int(numbers[row]), "true": true}
        for name, model_scores in zip(names, scores, strict=True):
            record[name] = model_scores[row].tolist()
        records.append(record)
    return records
