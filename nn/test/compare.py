"""Two models on the same rows: metrics side by side, and whether the rows tell them
apart (paired bootstrap)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.bootstrap import interval, resampled
from ..core.metrics import Judged, checked_weights
from ..data.dataset import Dataset, name_of
from ..nn.trained_rows import Trained, trained_on
from ..nn_aux import METRICS
from ..utils import DataError, UsageError
from .reports import judged, sampling_of, sampling_of_copies

# the metric of the verdict, by task
DECIDES = {"binary": "log_loss", "multiclass": "log_loss", "regression": "rmse"}
DISAGREE = 5  # rows reported, on which the models differ most
LEAST_ROWS_OF_INTERVAL = 10  # rows that an interval needs
# keys beside those that models have by their names
RESERVED_KEYS = ("difference", "interval", "row", "true")


class OfFolds(NamedTuple):
    """Rows that folds judge, as a model keeps them: a threshold of each, and scores
    before any temperature."""

    threshold_of_row: np.ndarray
    scores: np.ndarray


class Side(NamedTuple):
    """A model, rows as it reads them, what it predicts of them where that is known, how
    many of them it knows, and what it keeps of them where folds judge them."""

    net: object
    ds: Dataset
    scores: np.ndarray | None
    trained: Trained
    crossed: OfFolds | None = None

    @classmethod
    def of(cls, net, ds: Dataset, found=None) -> Side:
        """Return the side of a model. found: what out_of_fold returns where folds know
        the rows apart."""
        if found is None:
            return cls(net, ds, None, trained_on(net, ds))
        rows, _, scores = found
        kept = OfFolds(net.crossed.threshold_of_row, net.crossed.scores)
        return cls(net, ds.of_rows(rows), scores, Trained.none_of(len(rows)), kept)

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
        kept = OfFolds(
            self.crossed.threshold_of_row[places], self.crossed.scores[places]
        )
        scores = self.scores[places]
        return Side(self.net, ds, scores, Trained.none_of(len(rows)), kept)


def compared_sides(sides: Sequence[Side], names, *, seed: int = 0) -> dict:
    """Return what `compared` does of the rows that both sides have, without a verdict
    where one of the models was trained on them, and trained_rows. Raises DataError
    where both have rows of one file, and share none."""
    first, second = _on_shared_rows(*sides, names)
    both = first, second
    nets = [side.net for side in both]
    datasets = [side.ds for side in both]
    scores = [side.scores for side in both]
    crossed = [side.crossed for side in both]
    result = compared(nets, datasets, names, scores, crossed, seed=seed)
    each = list(zip((first.trained, second.trained), names, strict=True))
    counts = [trained.count for trained, _ in each if trained.count is not None]
    result["trained_rows"] = max(counts, default=None)
    knowing = [trained.told(name) for trained, name in each if trained.is_told]
    if knowing:
        cure = "give rows that neither knows with --dataset"
        result["better"] = None
        result["verdict"] = f"no verdict: {' and '.join(knowing)}; {cure}"
    return result


def _on_shared_rows(first: Side, second: Side, names) -> tuple[Side, Side]:
    """Return the sides of the rows that both have of one file; others as they are."""
    one = first.ds
    other = second.ds
    has_one_path = one.path is not None and one.path == other.path
    is_one_file = has_one_path or (
        one.sha256 is not None and one.sha256 == other.sha256
    )
    is_alike = is_one_file and first.rows_of_data == second.rows_of_data
    if not is_alike or np.array_equal(first.rows, second.rows):
        return first, second
    shared = np.intersect1d(first.rows, second.rows)
    if not len(shared):
        held = f"{names[0]} and {names[1]} held out different rows of {name_of(one)}"
        raise DataError(
            f"{held}, and there is none that neither knows; give other rows with --dataset"
        )
    return first.only(shared), second.only(shared)


def compared(
    nets, datasets, names, scores=(None, None), crossed=(None, None), *, seed: int = 0
) -> dict:
    """Return what two networks make of the same rows: datasets[k] holds them as nets[k]
    reads them.

    names: of the models. scores: what they predict, (rows, outputs) each, where that is
    known. crossed: what they keep of the rows (nn/nn/crossed.py), where they are judged
    out of fold.

    Keys: rows; models, their names; metrics, {name: {first's name: value, second's
    name: value, difference, interval}}, where difference is second less first and
    interval its 95 % by paired bootstrap (None below 10 rows); metric, that of the
    verdict; better, the name of the better model or None; verdict, a sentence;
    disagree, the rows on which the models differ most. Raises UsageError for models of
    other tasks or classes, DataError for other rows.
    """
    first, second = nets
    if (
        first.task != second.task
        or (first.classes or []) != (second.classes or [])
        or first.outputs != second.outputs
    ):
        raise UsageError(
            f"{names[0]} and {names[1]} predict different things; compare models of the same targets"
        )
    each = [
        judged(net, ds, own)
        for net, ds, own in zip(nets, datasets, scores, strict=True)
    ]
    (truth, _, weights), (other_truth, *_) = each
    if not _are_the_same(truth, other_truth):
        raise DataError(
            "the models have different rows or targets; give both the same rows with --dataset"
        )
    weights = checked_weights(weights, len(truth))
    series = [
        ds.persistence() if first.task == "regression" else None for ds in datasets
    ]
    sides = [
        _side(net, own_truth, scores, persistence, of_rows)
        for net, (own_truth, scores, _), persistence, of_rows in zip(
            nets, each, series, crossed, strict=True
        )
    ]
    values = [side.values(weights) for side in sides]
    if len(truth) >= LEAST_ROWS_OF_INTERVAL:
        sampling = sampling_of(datasets[0])
        if crossed[0] is not None:
            rows = np.arange(len(truth))
            sampling = sampling_of_copies(datasets[0], rows) or sampling
        pairs = resampled(sides, weights, seed, sampling)
    else:
        pairs = []
    metrics = {
        name: {
            names[0]: values[0][name],
            names[1]: values[1][name],
            "difference": _difference(values, name),
            "interval": interval([_difference(pair, name) for pair in pairs]),
        }
        for name in sides[0].names
    }
    usual = DECIDES[first.task]
    candidates = (usual, *metrics)
    defined = [name for name in candidates if metrics[name]["difference"] is not None]
    metric = defined[0] if defined else usual
    better = _better(names, metric, metrics[metric])
    return {
        "rows": len(truth),
        "models": list(names),
        "metrics": metrics,
        "metric": metric,
        "better": better,
        "verdict": _verdict(names, metric, metrics[metric], better, len(truth)),
        "disagree": _disagree(first, truth, [scores for _, scores, _ in each], names),
    }


def _side(net, truth, scores, persistence, crossed) -> Judged:
    """Return what the metrics of a model are formed from; crossed: None, or what it
    keeps of the rows."""
    if net.task != "binary" or crossed is None:
        return Judged(net.task, truth, scores, net.threshold, persistence)
    return Judged(
        net.task, truth, scores, crossed.threshold_of_row, ranking=crossed.scores
    )


def _are_the_same(truth: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two models have read the same targets, each in its own type of
    numbers."""
    if truth.shape != other.shape:
        return False
    if truth.dtype.kind != "f":
        return np.array_equal(truth, other)
    with np.errstate(over="ignore"):
        return np.array_equal(truth.astype(np.float32), other.astype(np.float32))


def _difference(values: list[dict], name: str) -> float | None:
    """Return the second's metric less the first's; None where one of them is
    undefined."""
    first, second = values
    if first[name] is None or second[name] is None:
        return None
    return second[name] - first[name]


def _better(names, metric: str, found: dict) -> str | None:
    """Return the name of the model whose metric is better, by its interval; None where
    the rows cannot tell."""
    if found["interval"] is None:
        return None
    low, high = found["interval"]
    if low <= 0 <= high:
        return None
    second_is_higher = low > 0
    if second_is_higher == METRICS[metric].higher_is_better:
        return names[1]
    return names[0]


def _verdict(names, metric: str, found: dict, better: str | None, rows: int) -> str:
    label = METRICS[metric].label
    if found["interval"] is None:
        return f"{rows} rows are too few to tell {names[0]} and {names[1]} apart"
    if better is None:
        return (
            f"these {rows} rows cannot tell which is better: their {label} may be equal"
        )
    if better == names[0]:
        other = names[1]
    else:
        other = names[0]
    return f"{better} is better than {other}: {label} {found[better]:.4g} beside {found[other]:.4g}"


def _disagree(net, truth: np.ndarray, scores: list[np.ndarray], names) -> list[dict]:
    """Return the rows on which the scores, or the values, of the models differ most."""
    apart = np.abs(scores[1].astype(np.float64) - scores[0]).max(axis=1)
    rows = np.argsort(-apart, kind="stable")[:DISAGREE]
    records = []
    for row in rows[apart[rows] > 0]:
        if net.classes:
            true = net.classes[int(truth[row])]
        else:
            true = truth[row].tolist()
        record = {"row": int(row), "true": true}
        for name, model_scores in zip(names, scores, strict=True):
            record[name] = model_scores[row].tolist()
        records.append(record)
    return records
