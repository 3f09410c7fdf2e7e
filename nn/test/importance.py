"""Importance of raw columns by permutation (Breiman 2001), and partial dependence on them (Friedman 2001)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..core.metrics import check_metric, metric
from ..data.dataset import Dataset
from ..data.table_rows import TableRows
from ..nn_aux import METRICS
from ..utils import DataError
from .columns import correlated, groups_of, names_of, words_of
from .reports import judged
from .values import Value, scores_of

REPEATS = 5
ALL_ROWS = 4_000  # up to which each repeat takes all rows; of more it takes a part, but for as many at least
USUAL = {"binary": "roc_auc", "multiclass": "loss", "regression": "rmse"}  # metrics, by task
CURVES, POINTS, WORDS, AVERAGED = 4, 16, 8, 500  # columns, points of numbers and of words, rows that a point averages


@dataclass(frozen=True)
class Importance:
    """Loss of a metric where the values of a column are exchanged between rows; the largest loss first.

    low and high: of a 95 % interval over the repeats. correlated: pairs of columns of numbers that share what they say.
    """

    metric: str
    baseline: float
    rows: int
    names: list[str]
    mean: list[float]
    low: list[float]
    high: list[float]
    correlated: list[tuple[str, str, float]] = field(default_factory=list)


def importance(
    net,
    ds: Dataset,
    *,
    repeats: int = REPEATS,
    metric_name: str | None = None,
    group_columns: str | None = None,
    seed: int = 0,
    parts: Sequence[tuple[np.ndarray, Sequence]] | None = None,
) -> Importance:
    """Return the importance of raw columns, and of groups `a+b,c+d` of them, on rows that the model did not see.

    parts: (rows, members with their weights) by whom rows are predicted; None: all rows by all members. Raises
    DataError where the metric means nothing for these rows, and UsageError for an unknown metric or column.
    """
    name, names = metric_name or USUAL[net.task], names_of(net)
    check_metric(name, net.task)
    judge = _Judge(net, ds, name, parts or [(np.arange(ds.rows), None)])
    groups = groups_of(names, group_columns)
    lost = np.empty((repeats, len(groups)))
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        chosen = judge.chosen(rng, repeats)
        before = judge.metric(chosen, judge.scores)
        for k, (_, columns) in enumerate(groups):
            after = judge.metric(chosen, judge.exchanged(chosen, columns, rng))
            lost[repeat, k] = before - after if METRICS[name].higher_is_better else after - before
    mean, spread = lost.mean(axis=0), 1.96 * lost.std(axis=0, ddof=1) / np.sqrt(repeats) if repeats > 1 else 0 * lost[0]
    order = np.argsort(-mean, kind="stable")
    told = [values[order].tolist() for values in (mean, mean - spread, mean + spread)]
    called = [groups[k][0] for k in order]
    baseline, rows = judge.metric(judge.all, judge.scores), sum(map(len, judge.all))
    return Importance(name, baseline, rows, called, *told, correlated(ds.x, names))


class Part(NamedTuple):
    """Rows of a data set, what values them, the rows as it reads them, and what tells their values apart."""

    rows: np.ndarray
    value: Value
    read: list[np.ndarray]
    keys: np.ndarray

    @classmethod
    def of(cls, net, x, rows: np.ndarray, members) -> Part:
        """Return the part of these rows of x, predicted by these members."""
        value = Value(net, members)
        read = value.read(x[rows])
        return cls(rows, value, read, value.keys(read))


class _Judge:
    """The metric of rows as they are, and with some columns exchanged."""

    def __init__(self, net, ds: Dataset, name: str, parts):
        self.net, self.name = net, name
        self.parts = [Part.of(net, ds.x, rows, members) for rows, members in parts if len(rows)]
        self.all = [np.arange(len(part.rows)) for part in self.parts]
        self.scores = np.zeros((ds.rows, net.outputs))  # rows of no part, as folds by time leave some, are not judged
        for part in self.parts:
            self.scores[part.rows] = scores_of(net, part.value.of(part.read))
        self.truth, _, self.weights = judged(net, ds, self.scores.astype(net.dtype))

    def chosen(self, rng, repeats: int) -> list[np.ndarray]:
        """Return the rows of each part that a repeat takes."""
        found = []
        for part in self.parts:
            count = max(len(part.rows) // repeats, min(len(part.rows), ALL_ROWS // len(self.parts)))
            found.append(rng.choice(len(part.rows), count, replace=False))
        return found

    def exchanged(self, chosen, columns: list[int], rng) -> np.ndarray:
        """Return scores of all rows, where the chosen ones of each part have exchanged the values of columns."""
        scores = self.scores.copy()
        for own, (rows, value, read, keys) in zip(chosen, self.parts, strict=True):
            kept = np.ones((1, value.columns), bool)
            kept[:, columns] = False
            donors = rng.permutation(own)
            own_rows, given = [each[own] for each in read], [each[donors] for each in read]
            changed = np.flatnonzero((keys[own][:, columns] != keys[donors][:, columns]).any(axis=(1, 2)))
            mixed = value.mixed(kept, [each[changed] for each in own_rows], [each[changed] for each in given])
            scores[rows[own[changed]]] = scores_of(self.net, value.of(mixed))
        return scores

    def metric(self, chosen, scores: np.ndarray) -> float:
        """Return the metric of the chosen rows. Raises DataError where it is undefined."""
        rows = np.concatenate([part.rows[own] for own, part in zip(chosen, self.parts, strict=True)])
        weights = None if self.weights is None else self.weights[rows]
        found = metric(self.name, self.net.task, self.truth[rows], scores[rows], weights, threshold=self.net.threshold)
        if found is None:
            raise DataError(f"{self.name} is undefined for these {len(rows)} rows; give more, or another --monitor")
        return found


# ---------------------------------------------------------------- curves


def curves(net, x, names: Sequence[str], seed: int = 0) -> dict[str, list[tuple[object, list[float]]]]:
    """Return the partial dependence of the columns named: (value of the column, mean scores of rows that have it)."""
    rng, known = np.random.default_rng(seed), names_of(net)
    averaged = rng.choice(len(x), min(len(x), AVERAGED), replace=False)
    value, found = Value(net), {}
    read = value.read(x[np.sort(averaged)])
    for name in [name for name in names if name in known][:CURVES]:
        column = known.index(name)
        kept = np.ones((1, value.columns), bool)
        kept[:, column] = False
        found[name] = []
        for told, row in _points(x, column):
            scores = scores_of(net, value.of(value.mixed(kept, read, value.read(x[row : row + 1]))))
            found[name].append((told, scores.mean(axis=0).tolist()))
    return found


def _points(x, column: int) -> list[tuple[object, int]]:
    """Return values of a column with a row that has each: quantiles of numbers, the most frequent words."""
    if isinstance(x, TableRows) and x.kinds[column] == "text":
        words, first, counts = np.unique(words_of(x, column), return_index=True, return_counts=True)
        return [(str(words[k]), int(first[k])) for k in np.argsort(-counts, kind="stable")[:WORDS]]
    values = TableRows.of(x.reshape(len(x), -1) if isinstance(x, np.ndarray) else x).columns[column].values
    known = np.flatnonzero(values == values)
    if not known.size:
        return []
    ascending = known[np.argsort(values[known], kind="stable")]
    rows = ascending[np.linspace(0, len(ascending) - 1, POINTS).astype(int)]
    _, first = np.unique(values[rows], return_index=True)
    return [(float(values[row]), int(row)) for row in rows[first]]
