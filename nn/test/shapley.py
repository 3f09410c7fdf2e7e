"""Shapley values of raw columns (Shapley 1953; Strumbelj and Kononenko 2014; Lundberg and Lee 2017).

The worth of a coalition of columns is the mean value of rows that have the row's values in these columns and those of a
background row in the others. With few columns all coalitions are computed. With more, each background row has a
permutation of the columns, by which columns are taken over from the row one after the other, forwards and backwards
(antithetic): that is exact where columns act alone and in pairs. A step to a column that has the same value in both
rows changes nothing and is not computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import factorial

import numpy as np

from ..nn.prediction import rows_of
from ..utils import UsageError
from .background import background_rows
from .columns import names_of, raw_data
from .values import Value

EXACT = 10**7  # rows computed, up to which all coalitions are
MOST_COLUMNS = 24  # of all coalitions
CHECKED = 20  # rows whose values are computed twice, by other permutations, to tell the error
ROOM = 1 << 25  # bytes of mixed rows at a time


@dataclass(frozen=True)
class Explanation:
    """Contributions of raw columns to predictions; fields as shap's `Explanation` names them.

    values          (rows, columns), of several outputs (rows, columns, outputs), float64
    base_values     the mean value of the background rows, (rows,) or (rows, outputs): base and columns add up to the
                    row's value
    data            the rows' raw values, (rows, columns)
    feature_names   of the columns
    error           how far values are from those of all coalitions, as a standard deviation; 0: all were computed
    output_names    classes, or targets, of several outputs
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str]
    error: float = 0.0
    output_names: list[str] = field(default_factory=list)

    def to_shap(self):
        """Return it as a shap.Explanation, for shap's pictures."""
        import shap

        names = self.output_names or None
        return shap.Explanation(
            self.values, self.base_values, self.data, feature_names=self.feature_names, output_names=names
        )


def explain(net, x, background=None, *, exact: bool = False, seed: int = 0) -> Explanation:
    """Return the contributions of raw columns to the predictions for rows x against background rows.

    x, background: rows as `Network.predict` takes them; None: 100 of the training file. exact: all coalitions, however
    many. Raises UsageError for images, and for more columns than all coalitions can be computed of.
    """
    background = background_rows(net, None, seed) if background is None else rows_of(net, background)
    x = rows_of(net, x)
    return Explainer(net, background, len(x), exact=exact, seed=seed).explain(x)


class Explainer:
    """Engines, and background rows with their values, for the explanations of many rows.

    rows: how many will be explained, which decides whether all coalitions are computed. error: as Explanation has it,
    found on the first rows.
    """

    def __init__(self, net, background, rows: int, *, exact: bool = False, seed: int = 0):
        self._value, self._seed, self.error = Value(net), seed, 0.0
        columns = self._value.columns
        if exact and columns > MOST_COLUMNS:
            raise UsageError(f"--exact: {columns} columns, at most {MOST_COLUMNS} have few enough coalitions; drop it")
        self._others = self._value.read(background)
        self._base = self._value.of(self._others)
        self._is_exact = exact or 2**columns * rows * len(self._base) <= EXACT
        self._is_checked = self._is_exact

    def explain(self, x) -> Explanation:
        """Return the explanation of some rows, as `Dataset.x` has them."""
        value, net, rows = self._value, self._value.net, self._value.read(x)
        whole = value.of(rows)
        if self._is_exact:
            values = _by_coalitions(value, rows, self._others)
        else:
            values = _by_permutations(value, rows, self._others, self._base, whole, self._seed)
        if not self._is_checked:
            again = _by_permutations(value, rows, self._others, self._base, whole[:CHECKED], self._seed + 1)
            self.error, self._is_checked = float(np.sqrt(np.mean((again - values[:CHECKED]) ** 2) / 2)), True
        means = np.broadcast_to(self._base.mean(axis=0), whole.shape)
        outputs = list(net.classes or []) if net.task == "multiclass" else list(net.targets or [])
        if net.outputs == 1:
            values, means, outputs = values[:, :, 0], means[:, 0], []
        return Explanation(values, means, raw_data(x), names_of(net), self.error, outputs)


# ---------------------------------------------------------------- all coalitions


def _by_coalitions(value: Value, rows: list[np.ndarray], others: list[np.ndarray]) -> np.ndarray:
    """Return Shapley values (rows, columns, outputs) by all coalitions of columns."""
    columns, count, outputs = value.columns, len(rows[0]), value.net.outputs
    numbers = np.arange(1 << columns)
    inside = (numbers[:, None] >> np.arange(columns) & 1).astype(bool)
    sizes = inside.sum(axis=1)
    weights = np.array([factorial(s) * factorial(columns - s - 1) / factorial(columns) for s in range(columns)])
    found = np.empty((count, columns, outputs))
    for row in range(count):
        worth = _worth(value, [each[row : row + 1] for each in rows], others, numbers, inside)
        for column in range(columns):
            without = numbers[~inside[:, column]]
            gains = worth[without | 1 << column] - worth[without]
            found[row, column] = (weights[sizes[without], None] * gains).sum(axis=0)
    return found


def _worth(value: Value, own: list[np.ndarray], others, numbers: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the value of each coalition for the row `own`: (coalitions, outputs). Columns in which the row and a
    background row are alike make no difference to a coalition, so that fewer are computed."""
    total = np.zeros((len(numbers), value.net.outputs))
    differ = value.differ(own, others)
    for k, unlike in enumerate(differ @ (1 << np.arange(value.columns))):
        asked, place = np.unique(numbers & unlike, return_inverse=True)
        total += value.of(value.mixed(inside[asked], own, [rows[k : k + 1] for rows in others]))[place]
    return total / len(differ)


# ---------------------------------------------------------------- permutations


def _by_permutations(value: Value, rows, others, base: np.ndarray, whole: np.ndarray, seed: int) -> np.ndarray:
    """Return Shapley values (rows, columns, outputs) by a permutation, and its reverse, for each background row.

    base, whole: the values of the background rows, and of the first rows, which are explained.
    """
    count, columns = len(others[0]), value.columns
    forwards = np.random.default_rng(seed).permuted(np.tile(np.arange(columns), (count, 1)), axis=1)
    order = np.concatenate([forwards, forwards[:, ::-1]])  # (walks, columns)
    when = np.argsort(order, axis=1)  # at which step a column is taken over
    inside = when[:, None, :] < np.arange(1, columns)[:, None]  # (walks, steps, columns)
    walked, base = [np.concatenate([rows, rows]) for rows in others], np.concatenate([base, base])
    each = sum(rows.shape[1] for rows in others) * inside.shape[0] * inside.shape[1]
    found, some = np.empty((len(whole), columns, value.net.outputs)), max(1, ROOM // each)
    for first in range(0, len(whole), some):
        own, ends = [each[first : first + some] for each in rows], whole[first : first + some]
        found[first : first + some] = _walk(value, own, order, inside, walked, base, ends)
    return found


def _walk(value: Value, rows: list[np.ndarray], order, inside, walked, base, whole) -> np.ndarray:
    """Return the mean change of the value at each column's step, over all walks, of some rows."""
    walks, steps, columns = inside.shape
    asked, parts = [], []
    for row in range(len(whole)):
        own = [each[row : row + 1] for each in rows]
        changes = np.take_along_axis(value.differ(own, walked), order, axis=1)
        walk, step = np.nonzero(changes[:, :-1])  # the last step leads to the row itself
        asked.append((walk, step))
        parts.append(value.mixed(inside[walk, step], own, [each[walk] for each in walked]))
    values = value.of([np.concatenate(each) for each in zip(*parts, strict=True)])
    found, at = np.empty((len(whole), columns, values.shape[1])), 0
    for k, (walk, step) in enumerate(asked):
        along = np.empty((walks, columns + 1, values.shape[1]))  # before each step, and behind the last
        along[:, 0], along[:, -1] = base, whole[k]
        last = np.zeros((walks, steps), np.intp)
        last[walk, step] = step + 1
        along[walk, step + 1] = values[at : at + len(walk)]
        last = np.maximum.accumulate(last, axis=1)
        along[:, 1:-1] = np.take_along_axis(along, last[:, :, None], axis=1)
        gains, at = np.diff(along, axis=1), at + len(walk)
        found[k] = _by_column(gains, order) / walks
    return found


def _by_column(gains: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the sums of the walks' gains (walks, steps, outputs) of each column."""
    in_order = np.take_along_axis(gains, np.argsort(order, axis=1)[:, :, None], axis=1)
    return in_order.sum(axis=0)
