"""Importance of raw columns by permutation (Breiman 2001), and partial dependence on
them (Friedman 2001)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..core.bootstrap import Sampling, in_each_resample, student_quantile
from ..core.metrics import Judged, check_metric, checked_weights, formula_name
from ..data.dataset import Dataset, as_read_by
from ..data.loading import load_for, without_gaps
from ..data.table_rows import TableRows
from ..matrix import matmul
from ..nn import Network
from ..nn_aux import METRICS, TASKS, loss_of
from ..utils import DataError, UsageError, listed, log, network_of
from .reports import truth_and_scores, warn_of_trained
from .trained_rows import trained_on
from .values import Value, names_of, scores_of

REPEATS = 5
# exchanges of all columns and repeats; of many columns, each has fewer repeats
MOST_EXCHANGES = 500
IMPORTANCE_RESAMPLES = 100  # resamples of the rows, for the intervals
SEED = 0
MISSED = 0.05  # share of intervals that do not hold the true value
CORRELATED = 0.9  # correlation from which two columns share what they say
# each repeat takes all rows up to this number; of more it takes a part, as large
ALL_ROWS = 4_000
CURVES = 4  # columns that have a curve
CURVE_POINTS = 16  # points of a column of numbers
CURVE_WORDS = 8  # points of a column of words
AVERAGED = 500  # rows that a point averages
# share of a column's values, on either side, that lie beyond the ends of its curve
CURVE_TAIL = 0.01


class UndefinedMetric(DataError):
    """A metric means nothing for these rows, such as the area under the curve of one
    class."""


@dataclass(frozen=True)
class Importance:
    """Loss of a metric where the values of a column are exchanged between rows; the
    largest loss first.

    low and high: of a 95 % interval over other rows of this kind. holds: whether the
    loss is above 0 by an interval so wide that of this number of columns that tell
    nothing one in forty times one would be called so (Bonferroni). repeats: how often
    the values of each column were exchanged.
    correlated: pairs of columns of numbers that share what they say.
    """

    metric: str
    baseline: float
    rows: int
    names: list[str]
    mean: list[float]
    low: list[float]
    high: list[float]
    holds: list[bool]
    correlated: list[tuple[str, str, float]] = field(default_factory=list)
    repeats: int = REPEATS


def importance(
    net: Network,
    ds,
    *,
    repeats: int | None = None,
    metric_name: str | None = None,
    group_columns: str | None = None,
    seed: int = 0,
    parts: Sequence[tuple[np.ndarray, Sequence]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Importance:
    """Return the importance of raw columns, and of groups `a+b,c+d` of them, on rows
    that the model did not see.

    ds: a Dataset, a file or a data frame.
    repeats: None, five, and fewer of more than 100 columns. progress: called with how
    many exchanges are done, and of all. parts: (rows, members with their weights) by
    whom rows are predicted; None: all rows by all members, with a warning where the
    model was trained on them. Raises DataError where the metric means nothing for these
    rows, and UsageError for an unknown metric or column.
    """
    net = network_of("importance", net)
    if not isinstance(ds, Dataset):
        ds = load_for(net, ds)
    ds, parts = _counting(as_read_by(net, ds), parts)
    if parts is None:
        warn_of_trained(trained_on(net, ds))
    if metric_name is not None:
        check_metric(metric_name, net.task)
    name = metric_name or loss_of(net.loss).importance or TASKS[net.task].importance
    names = names_of(net)
    ds = without_gaps(net, ds)
    judge = _Judge(net, ds, name, parts or [(np.arange(ds.rows), None)])
    groups = _groups_of(names, group_columns)
    if repeats is None:
        repeats = _usual_repeats(len(groups))
    lost = np.empty((repeats, len(groups)))
    resampled_lost = np.empty((repeats, len(groups), IMPORTANCE_RESAMPLES))
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        chosen = judge.chosen(rng, max(repeats, REPEATS))
        row_weights = judge.resampled_weights(chosen)
        before = judge.metrics(chosen, judge.scores, row_weights)
        for k, (_, columns) in enumerate(groups):
            exchanged = judge.exchanged(chosen, columns, rng)
            after = judge.metrics(chosen, exchanged, row_weights)
            lost[repeat, k] = judge.loss(before.value, after.value)
            resampled_lost[repeat, k] = judge.loss(before.resampled, after.resampled)
            if progress is not None:
                progress(repeat * len(groups) + k + 1, lost.size)
    mean = lost.mean(axis=0)
    deviation = _deviations(resampled_lost.mean(axis=0))
    freedom = max(1, judge.sampling.units - 1)
    spread = student_quantile(1 - MISSED / 2, freedom) * deviation
    missed_of_each = MISSED / 2 / len(groups)  # Bonferroni
    holds = mean > student_quantile(1 - missed_of_each, freedom) * deviation
    order = np.argsort(-mean, kind="stable")
    return Importance(
        metric=name,
        baseline=judge.metric(judge.all, judge.scores),
        rows=sum(map(len, judge.all)),
        names=[groups[k][0] for k in order],
        mean=mean[order].tolist(),
        low=(mean - spread)[order].tolist(),
        high=(mean + spread)[order].tolist(),
        holds=holds[order].tolist(),
        correlated=_correlated(ds.x, names),
        repeats=repeats,
    )


def _usual_repeats(columns: int) -> int:
    """Return how often the values of each column are exchanged, with a remark where
    many columns make it less often: intervals are by the rows, and further exchanges
    only make the mean more exact."""
    repeats = max(1, min(REPEATS, MOST_EXCHANGES // columns))
    if repeats < REPEATS:
        times = f"{repeats} times"
        if repeats == 1:
            times = "once"
        few = MOST_EXCHANGES // REPEATS
        message = "importance: the values of %d columns are exchanged %s each, of up to %d columns %d times"
        log.warning(message, columns, times, few, REPEATS)
    return repeats


def _counting(ds: Dataset, parts):
    """Return (the rows whose weight is above 0, the parts of these)."""
    counting = ds.without_weightless()
    if parts is None:
        return counting, parts
    places = np.full(ds.rows, -1)
    places[ds.counting_rows()] = np.arange(counting.rows)
    counting_parts = []
    for rows, members in parts:
        part_places = places[rows]
        counting_parts.append((part_places[part_places >= 0], members))
    return counting, counting_parts


def _deviations(resampled_lost: np.ndarray) -> np.ndarray:
    """Return the standard deviation over the resamples, (columns,), of losses (columns,
    resamples), without those in which the metric is undefined; infinite where fewer
    than two are left."""
    deviations = np.full(len(resampled_lost), np.inf)
    for column, losses in enumerate(resampled_lost):
        finite = losses[np.isfinite(losses)]
        if len(finite) > 1:
            deviations[column] = finite.std(ddof=1)
    return deviations


def _groups_of(names: Sequence[str], text: str | None) -> list[tuple[str, list[int]]]:
    """Return (name, columns) of what importance is measured of: each column, then each
    group of `a+b,c+d`.

    Raises UsageError for a column that is no input.
    """
    groups = [(name, [index]) for index, name in enumerate(names)]
    if not text:
        return groups
    for group in text.split(","):
        columns = group.split("+")
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise UsageError(
                f"--group_columns {group}: {unknown[0]} is no input of the model: {listed(names)}"
            )
        groups.append((group, [names.index(name) for name in columns]))
    return groups


def _columns_of(x):
    """Return the raw columns of rows."""
    if isinstance(x, np.ndarray):
        x = x.reshape(len(x), -1)
    return TableRows.of(x).columns


def _correlated(x, names: Sequence[str]) -> list[tuple[str, str, float]]:
    """Return pairs of columns of numbers whose correlation is at least 0.9, strongest
    first, with it; a gap is as the mean."""
    names_of_numbers = []
    unit_vectors = []  # a column less its mean, of length 1
    for name, column in zip(names, _columns_of(x), strict=False):
        if column.reads != "number":
            continue
        values = np.asarray(column.values, np.float64)
        is_finite = np.isfinite(values)
        if is_finite.any():
            values = np.where(is_finite, values - values[is_finite].mean(), 0.0)
            length = np.sqrt((values**2).sum()) or 1.0
            names_of_numbers.append(name)
            unit_vectors.append(values / length)
    if not unit_vectors:
        return []
    vectors = np.array(unit_vectors)
    # NumPy's own would end the process where a limit leaves no memory
    r = matmul(vectors, vectors.T)
    pairs = []
    for a, b in np.argwhere(np.tril(np.abs(r) >= CORRELATED, -1)):
        pairs.append((names_of_numbers[a], names_of_numbers[b], float(r[a, b])))
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


class _Metrics(NamedTuple):
    """A metric of some rows, and of each resample of them (IMPORTANCE_RESAMPLES,), nan
    where it is undefined."""

    value: float
    resampled: np.ndarray


def _at(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the values of rows; None where no row has any."""
    if values is None:
        return None
    return values[rows]


class _Judge:
    """The metric of rows as they are, and with some columns exchanged."""

    def __init__(self, net: Network, ds: Dataset, name: str, parts):
        self.net = net
        self.name = name
        self.parts = []  # (rows, what values them, the rows as it reads them)
        # rows of no part, as folds by time leave some, are not judged
        self.scores = np.zeros((ds.rows, net.outputs))
        for rows, members in parts:
            if len(rows):
                value = Value(net, members)
                read = value.read(ds.x[rows])
                self.parts.append((rows, value, read))
                self.scores[rows] = scores_of(net, value.of(read))
        self.all = [np.arange(len(rows)) for rows, *_ in self.parts]
        scores = self.scores.astype(net.value_dtype)
        self.truth, _, self.weights = truth_and_scores(net, ds, scores)
        self.formula = formula_name(name, net.task, net.loss)
        self.scaling = None
        if METRICS[self.formula].of_scaled:
            self.scaling = net.members[0].target_scaling
            self.truth = self._scaled(self.truth)
        rows = self.rows_of(self.all)
        self.place = np.zeros(ds.rows, np.int64)  # of a row among those that are judged
        self.place[rows] = np.arange(len(rows))
        groups = _at(ds.groups, rows)
        times = _at(ds.times, rows)
        self.sampling = Sampling(len(rows), groups, times)

    def chosen(self, rng, repeats: int) -> list[np.ndarray]:
        """Return the rows of each part that a repeat takes."""
        least = ALL_ROWS // len(self.parts)
        counts = [max(len(rows) // repeats, min(len(rows), least)) for rows in self.all]
        return [
            rng.choice(len(rows), count, replace=False)
            for rows, count in zip(self.all, counts, strict=True)
        ]

    def exchanged(self, chosen, columns: list[int], rng) -> np.ndarray:
        """Return scores of all rows, where the chosen ones of each part have exchanged
        the values of columns."""
        scores = self.scores.copy()
        for takers, (rows, value, read) in zip(chosen, self.parts, strict=True):
            donors = rng.permutation(takers)
            taken = [rows_of_reading[takers] for rows_of_reading in read]
            given = [rows_of_reading[donors] for rows_of_reading in read]
            values = value.mixed(columns, taken, given)
            scores[rows[takers]] = scores_of(self.net, values)
        return scores

    def rows_of(self, chosen) -> np.ndarray:
        """Return the rows of the data set that are the chosen ones of each part."""
        return np.concatenate(
            [
                rows[places]
                for places, (rows, *_) in zip(chosen, self.parts, strict=True)
            ]
        )

    def metric(self, chosen, scores: np.ndarray) -> float:
        """Return the metric of the chosen rows. Raises DataError where it is
        undefined."""
        rows = self.rows_of(chosen)
        weights = checked_weights(_at(self.weights, rows), len(rows))
        value = self._judged(rows, scores).values(weights, [self.formula])[self.formula]
        if value is None:
            fault = f"{self.name} is undefined for these {len(rows)} rows"
            raise UndefinedMetric(f"{fault}; give more, or another --monitor")
        return value

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        """Return targets, or predictions of them, (rows, outputs), as the metric takes
        them."""
        if self.scaling is None:
            return values
        return self.scaling.apply(values, np.float64)

    def _judged(self, rows: np.ndarray, scores: np.ndarray) -> Judged:
        """Return what the metric of some rows is formed from."""
        return Judged(
            self.net.task,
            self.truth[rows],
            self._scaled(scores[rows]),
            self.net.threshold,
            loss=self.net.loss,
        )

    def resampled_weights(self, chosen) -> np.ndarray:
        """Return the weights of the chosen rows in each resample of all rows,
        (IMPORTANCE_RESAMPLES, rows)."""
        rows = self.rows_of(chosen)
        counts = in_each_resample(
            lambda times: times[self.place[rows]],
            self.sampling,
            None,
            SEED,
            IMPORTANCE_RESAMPLES,
        )
        # a row is drawn a few times at most
        weights = np.stack(counts).astype(np.uint16)
        if self.weights is None:
            return weights
        return weights * self.weights[rows]

    def metrics(self, chosen, scores: np.ndarray, row_weights: np.ndarray) -> _Metrics:
        """Return the metric of the chosen rows, and by each of the weights that
        resamples give them."""
        rows = self.rows_of(chosen)
        judged_rows = self._judged(rows, scores)
        values = np.full(len(row_weights), np.nan)
        # what is undefined in a resample does not count
        with np.errstate(all="ignore"):
            for resample, weights in enumerate(row_weights):
                if weights.any():
                    weights = weights.astype(np.float64)
                    metrics = judged_rows.values(weights, [self.formula], exact=False)
                    values[resample] = metrics[self.formula]
        return _Metrics(self.metric(chosen, scores), values)

    def loss(self, before, after):
        """Return by how much a metric, or an array of it, is worse after than
        before."""
        if METRICS[self.name].higher_is_better:
            return before - after
        return after - before


# ---------------------------------------------------------------- curves


def curves(
    net: Network, ds: Dataset, names: Sequence[str], seed: int = 0
) -> dict[str, list[tuple[object, list[float]]]]:
    """Return the partial dependence of the columns named: (value of the column, mean
    scores of rows that have it, by their weights)."""
    rng = np.random.default_rng(seed)
    columns = names_of(net)
    ds = ds.without_weightless()
    x = ds.x
    averaged = np.sort(rng.choice(len(x), min(len(x), AVERAGED), replace=False))
    weights = _at(ds.weights, averaged)
    value = Value(net)
    curves_of_columns = {}
    read = value.read(x[averaged])
    drawn = [name for name in names if name in columns][:CURVES]
    for name in drawn:
        column = columns.index(name)
        curve = []
        for point, row in _points(x, column):
            giver = value.read(x[row : row + 1])
            scores = scores_of(net, value.mixed([column], read, giver))
            means = np.average(scores, axis=0, weights=weights)
            curve.append((point, means.tolist()))
        curves_of_columns[name] = curve
    return curves_of_columns


def _points(x, column: int) -> list[tuple[object, int]]:
    """Return values of a column with a row that has each: quantiles of numbers, the
    most frequent words."""
    if isinstance(x, TableRows) and x.kinds[column] == "text":
        words = [*x.columns[column].words, ""]
        codes, first_rows, counts = np.unique(
            x.columns[column].values, return_index=True, return_counts=True
        )
        words_of_codes = [words[code] for code in codes]
        by_count = sorted(zip(-counts, words_of_codes, first_rows, strict=True))
        return [(word, int(row)) for _, word, row in by_count[:CURVE_WORDS]]
    values = _columns_of(x)[column].values
    rows_without_gap = np.flatnonzero(values == values)
    if not rows_without_gap.size:
        return []
    by_value = np.argsort(values[rows_without_gap], kind="stable")
    ascending = rows_without_gap[by_value]
    quantiles = np.linspace(CURVE_TAIL, 1 - CURVE_TAIL, CURVE_POINTS)
    ranks = ((len(ascending) - 1) * quantiles).astype(int)
    rows = ascending[ranks]
    _, places = np.unique(values[rows], return_index=True)
    return [(float(values[row]), int(row)) for row in rows[places]]
