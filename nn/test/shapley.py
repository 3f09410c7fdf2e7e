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
from .values import Value, Walks

EXACT = 10**7  # rows computed, up to which all coalitions are
MOST_COLUMNS = 20  # of all coalitions
CHECKED = 20  # rows of which a quarter is computed twice, by other permutations, to tell the error
ROOM = 1 << 14  # rows computed at a time


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
        self._keys, self._base = self._value.keys(self._others), self._value.of(self._others)
        self._first = [(place, own, own.added(self._others[place])) for place, own in self._value.first_layers()]
        self._is_exact = exact or 2**columns * rows * len(self._base) <= EXACT
        self._is_checked = self._is_exact

    def explain(self, x) -> Explanation:
        """Return the explanation of some rows, as `Dataset.x` has them."""
        value, net, rows = self._value, self._value.net, self._value.read(x)
        whole = value.of(rows)
        values = self._by_coalitions(rows, whole) if self._is_exact else self._by_permutations(rows, whole, self._seed)
        if not self._is_checked:
            again = self._by_permutations(rows, whole[: -(-min(CHECKED, len(whole)) // 4)], self._seed + 1)
            self.error, self._is_checked = float(np.sqrt(np.mean((again - values[: len(again)]) ** 2) / 2)), True
        means = np.broadcast_to(self._base.mean(axis=0), whole.shape)
        outputs = list(net.classes or []) if net.task == "multiclass" else list(net.targets or [])
        if net.outputs == 1:
            values, means, outputs = values[:, :, 0], means[:, 0], []
        return Explanation(values, means, raw_data(x), names_of(net), self.error, outputs)


    def _walked(self, rows: list[np.ndarray], walks: list[Walks], others: slice = slice(None)) -> np.ndarray:
        """Return the values of all steps that change a row: walks to each of the rows, from some background rows."""
        return self._value.combined([
            first.outputs(first.added(rows[place]), added[others], walks) for place, first, added in self._first
        ])  # fmt: skip

    # ---- all coalitions

    def _by_coalitions(self, rows: list[np.ndarray], whole: np.ndarray) -> np.ndarray:
        """Return Shapley values (rows, columns, outputs) by all coalitions of columns. whole: the rows' values."""
        columns, count = self._value.columns, len(rows[0])
        numbers = np.arange(1 << columns)
        sizes = sum(numbers >> column & 1 for column in range(columns))
        weights = np.array([factorial(s) * factorial(columns - s - 1) / factorial(columns) for s in range(columns)])
        found = np.empty((count, columns, self._value.net.outputs))
        for row in range(count):
            worth = self._worth([each[row : row + 1] for each in rows], numbers)
            worth[-1] = whole[row]
            for column in range(columns):
                without = numbers[(numbers >> column & 1) == 0]
                gains = worth[without | 1 << column] - worth[without]
                found[row, column] = (weights[sizes[without], None] * gains).sum(axis=0)
        return found

    def _worth(self, own: list[np.ndarray], numbers: np.ndarray) -> np.ndarray:
        """Return the value of each coalition for the row `own`: (coalitions, outputs).

        From each background row a walk in the order of a Gray code passes all coalitions of the columns in which the
        two rows are unlike; the others make no difference.
        """
        total = np.zeros((len(numbers), self._value.net.outputs))
        differ = (self._value.keys(own) != self._keys).any(axis=2)
        some = max(1, ROOM // len(numbers))
        for first in range(0, len(differ), some):
            unlike = differ[first : first + some]
            steps = np.arange(1, 1 << unlike.sum(axis=1).max())
            flipped = np.log2(steps & -steps).astype(int)  # the lowest bit of a step's number is the one that changes
            order, changes = (np.zeros((len(unlike), len(steps)), kind) for kind in (np.int32, np.uint8))
            for k, each in enumerate(unlike):
                length = (1 << each.sum()) - 1
                order[k, :length], changes[k, :length] = np.flatnonzero(each)[flipped[:length]], 1
            walks, some_others = Walks(order, changes), slice(first, first + some)
            along = walks.filled(self._base[some_others], self._walked(own, [walks], some_others))
            for k, each in enumerate(unlike):
                total += along[k, _gray_places(numbers, np.flatnonzero(each))]
        return total / len(differ)

    # ---- permutations

    def _by_permutations(self, rows: list[np.ndarray], whole: np.ndarray, seed: int) -> np.ndarray:
        """Return Shapley values (rows, columns, outputs) by a permutation, and its reverse, for each background row.

        whole: the values of the first rows, which are explained.
        """
        count, columns = len(self._base), self._value.columns
        forwards = np.random.default_rng(seed).permuted(np.tile(np.arange(columns), (count, 1)), axis=1)
        order = np.concatenate([forwards, forwards[:, ::-1]])  # (walks, columns)
        base = np.concatenate([self._base, self._base])
        taken = np.ascontiguousarray(order[:, :-1], np.int32)  # the last step leads to the row itself
        places = taken + columns * np.tile(np.arange(count), 2)[:, None]
        found, some = np.empty((len(whole), columns, whole.shape[1])), max(1, ROOM // taken.size)
        for first in range(0, len(whole), some):
            own = [each[first : first + some][: len(whole) - first] for each in rows]
            differ = (self._value.keys(own)[:, None] != self._keys).any(axis=3)
            walks = [Walks(taken, each.reshape(-1)[places].view(np.uint8)) for each in differ]
            values, at = self._walked(own, walks), 0
            for row, each in enumerate(walks, start=first):
                along = each.filled(base, values[at : at + each.rows])
                gains, at = np.diff(along, axis=1, append=np.tile(whole[row], (len(base), 1, 1))), at + each.rows
                for k in range(whole.shape[1]):
                    found[row, :, k] = np.bincount(order.reshape(-1), gains[:, :, k].reshape(-1), columns) / len(base)
        return found


def _gray_places(numbers: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return where a Gray code of some columns has the coalitions of all columns with these numbers."""
    code = np.zeros_like(numbers)
    for bit, column in enumerate(columns):
        code |= (numbers >> column & 1) << bit
    for shift in (1, 2, 4, 8, 16):
        code ^= code >> shift
    return code
