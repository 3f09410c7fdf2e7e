"""Two models on the same rows: metrics side by side, and whether the rows tell them apart (paired bootstrap)."""

from __future__ import annotations

import numpy as np

from ..core.bootstrap import interval, resampled
from ..core.metrics import Judged, checked_weights
from ..nn_aux import METRICS
from ..utils import DataError, UsageError
from .reports import judged, sampling_of

DECIDES = {"binary": "log_loss", "multiclass": "log_loss", "regression": "rmse"}  # the metric of the verdict, by task
DISAGREE = 5  # rows told, on which the models differ most
LEAST_ROWS = 10  # of an interval


def compared(nets, datasets, names, scores=(None, None), crossed=(None, None), *, seed: int = 0) -> dict:
    """Return what two networks make of the same rows: datasets[k] holds them as nets[k] reads them.

    names: of the models. scores: what they predict, (rows, outputs) each, where that is known. crossed: what they keep
    of the rows (nn/nn/crossed.py), where they are judged out of fold.

    Keys: rows; models, their names; metrics, {name: {first's name: value, second's name: value, difference, interval}},
    where difference is second less first and interval its 95 % by paired bootstrap (None below 10 rows); metric, that
    of the verdict; better, the name of the better model or None; verdict, a sentence; disagree, the rows on which the
    models differ most. Raises UsageError for models of other tasks or classes, DataError for other rows.
    """
    first, second = nets
    if first.task != second.task or (first.classes or []) != (second.classes or []) or first.outputs != second.outputs:
        raise UsageError(f"{names[0]} and {names[1]} predict different things; compare models of the same targets")
    each = [judged(net, ds, own) for net, ds, own in zip(nets, datasets, scores, strict=True)]
    (truth, _, weights), (other_truth, *_) = each
    if not _are_the_same(truth, other_truth):
        raise DataError("the models have different rows or targets; give both the same rows with --dataset")
    weights = checked_weights(weights, len(truth))
    series = [ds.persistence() if first.task == "regression" else None for ds in datasets]
    sides = [
        _side(net, own_truth, scores, persistence, of_rows)
        for net, (own_truth, scores, _), persistence, of_rows in zip(nets, each, series, crossed, strict=True)
    ]
    values = [side.values(weights) for side in sides]
    pairs = resampled(sides, weights, seed, sampling_of(datasets[0])) if len(truth) >= LEAST_ROWS else []
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
    metric = next((name for name in (usual, *metrics) if metrics[name]["difference"] is not None), usual)
    better = _better(names, metric, metrics[metric])
    return {
        "rows": len(truth), "models": list(names), "metrics": metrics, "metric": metric, "better": better,
        "verdict": _verdict(names, metric, metrics[metric], better, len(truth)),
        "disagree": _disagree(first, truth, [scores for _, scores, _ in each], names),
    }  # fmt: skip


def _side(net, truth, scores, persistence, crossed) -> Judged:
    """Return what the metrics of a model are formed from; crossed: None, or what it keeps of the rows."""
    if net.task != "binary" or crossed is None:
        return Judged(net.task, truth, scores, net.threshold, persistence)
    return Judged(net.task, truth, scores, crossed.threshold_of_row, ranking=crossed.scores)


def _are_the_same(truth: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two models have read the same targets, each in its own type of numbers."""
    if truth.shape != other.shape:
        return False
    if truth.dtype.kind != "f":
        return np.array_equal(truth, other)
    with np.errstate(over="ignore"):
        return np.array_equal(truth.astype(np.float32), other.astype(np.float32))


def _difference(values: list[dict], name: str) -> float | None:
    """Return the second's metric less the first's; None where one of them is undefined."""
    own = [side[name] for side in values]
    return None if None in own else own[1] - own[0]


def _better(names, metric: str, found: dict) -> str | None:
    """Return the name of the model whose metric is better, by its interval; None where the rows cannot tell."""
    ends = found["interval"]
    if ends is None or ends[0] <= 0 <= ends[1]:
        return None
    return names[1] if (ends[0] > 0) == METRICS[metric].higher_is_better else names[0]


def _verdict(names, metric: str, found: dict, better: str | None, rows: int) -> str:
    label = METRICS[metric].label
    if found["interval"] is None:
        return f"{rows} rows are too few to tell {names[0]} and {names[1]} apart"
    if better is None:
        return f"these {rows} rows cannot tell which is better: their {label} may be equal"
    other = names[1] if better == names[0] else names[0]
    return f"{better} is better than {other}: {label} {found[better]:.4g} beside {found[other]:.4g}"


def _disagree(net, truth: np.ndarray, scores: list[np.ndarray], names) -> list[dict]:
    """Return the rows on which the scores, or the values, of the models differ most."""
    apart = np.abs(scores[1].astype(np.float64) - scores[0]).max(axis=1)
    rows = np.argsort(-apart, kind="stable")[:DISAGREE]
    found = []
    for row in rows[apart[rows] > 0]:
        true = net.classes[int(truth[row])] if net.classes else truth[row].tolist()
        said = {name: own[row].tolist() for name, own in zip(names, scores, strict=True)}
        found.append({"row": int(row), "true": true, **said})
    return found
