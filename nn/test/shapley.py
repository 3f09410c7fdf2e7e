"""Shapley values of raw columns (Shapley 1953; Strumbelj and Kononenko 2014; Lundberg
and Lee 2017).

The worth of a coalition of columns is the mean value of rows that have the row's values
in these columns and those of a background row in the others. With few columns all
coalitions are computed. With more, each background row has a permutation of the
columns, by which columns are taken over from the row one after the other, forwards and
backwards (antithetic): that is exact where columns act alone and in pairs. Both ways
need only half of the steps, as each gives the value of the opposite coalition too. A
step to a column that has the same value in both rows changes nothing and is not
computed.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import factorial
from typing import NamedTuple

import numpy as np

from ..core import SUFFIXES, extension, pointer
from ..data.dataset import Dataset, TableRows, as_read_by
from ..data.loading import load_for, training_file
from ..nn.prediction import rows_of
from ..utils import InputNotFound, UsageError, default_threads, log
from .values import Reading, Value, by_column, engine_of, layers_of, names_of, raw_data

BACKGROUND = 100  # rows
MOST_COLUMNS_OF_ALL_ROWS = (
    100  # columns above which fewer background rows are compared with
)
LEAST_BACKGROUND = 10  # rows at least that are compared with
MOST_EXACT_ROWS = 10**7  # rows computed, up to which all coalitions are
MOST_EXACT_COLUMNS = 20  # of all coalitions
WALKED = 1 << 22  # rows computed between two reports of progress
# rows computed twice, by other permutations, to tell the error, and whose background
# rows tell theirs
CHECKED = 5
OVERREAD = 32  # numbers behind those of a walk that the core may write
# numbers of rows, each of a layer's width, 64 at least, that a thread computes at a
# time
THREAD_VALUES = 1 << 21


@dataclass(frozen=True)
class Explanation:
    """Contributions of raw columns to predictions; fields as shap's `Explanation` names
    them.

    values          (rows, columns), of several outputs (rows, columns, outputs),
                    float64
    base_values     the mean value of the background rows, (rows,) or (rows, outputs):
                    base and columns add up to the row's value
    data            the rows' raw values, (rows, columns)
    feature_names   of the columns
    error           how far values are from those of all coalitions, as a standard
                    deviation; 0: all were computed
    output_names    classes, or targets, of several outputs
    background_error  how far values are from those against very many background rows,
                      of which these were drawn, as a
                    standard deviation; None for one background row, which cannot tell
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str]
    error: float = 0.0
    output_names: list[str] = field(default_factory=list)
    background_error: float | None = None

    def to_shap(self):
        """Return it as a shap.Explanation, for shap's pictures."""
        import shap

        names = {
            "feature_names": self.feature_names,
            "output_names": self.output_names or None,
        }
        return shap.Explanation(self.values, self.base_values, self.data, **names)


class Background(NamedTuple):
    """Rows that explanations compare with, as `Dataset.x` has them; weights (rows,)
    above 0, None: all count alike."""

    x: np.ndarray | TableRows
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def of(cls, ds: Dataset) -> Background:
        """Return the rows of a data set whose weight is above 0. Raises DataError where
        there are none."""
        counting = ds.without_weightless()
        return cls(counting.x, counting.weights)

    def at(self, rows: np.ndarray) -> Background:
        """Return some of the rows, by their indices."""
        return Background(
            self.x[rows], None if self.weights is None else self.weights[rows]
        )

    def drawn(self, count: int, seed: int) -> Background:
        """Return at most `count` of the rows, drawn by the seed, in their order."""
        chosen = np.random.default_rng(seed).choice(
            len(self), min(count, len(self)), replace=False
        )
        return self.at(np.sort(chosen))


def background_rows(net, source=None, seed: int = 0, model="the model") -> Background:
    """Return at most 100 rows, drawn by the seed, of a file, of a data set, or (None)
    of the training file; rows of weight 0 are none.

    They are people's data, so that no model file holds them; a network that was trained
    in this process has some of its training, for data that no file holds. model: what
    messages call the model, beside which the training file may be. Raises UsageError
    where there is none.
    """
    is_of_training = source is None
    if is_of_training:
        try:
            source = training_file(net, model)
        except (InputNotFound, UsageError) as error:
            if net.background is not None:
                return net.background
            reason = str(error).partition(";")[0]
            raise UsageError(
                f"no background rows: {reason}; give some with --background"
            ) from None
    if isinstance(source, Dataset):
        found = Background.of(source)
    else:
        found = _background_of(
            net, source, labelled=is_of_training and _has_weights(net)
        )
    return found.drawn(BACKGROUND, seed)


def _has_weights(net) -> bool:
    """Return whether the rows of the training had weights."""
    return "weight" in net.config.get("table", {})


def _background_of(net, data, labelled: bool = False) -> Background:
    """Return the rows of a file or a data frame, with their weights where they have the
    column of the training's."""
    return Background.of(
        load_for(net, data, labelled=labelled, weighs=_has_weights(net))
    )


def _given_background(net, background) -> Background:
    """Return what a caller gives as background: rows as `Network.predict` takes them,
    or a data set."""
    if isinstance(background, Background):
        return background
    if isinstance(background, Dataset):
        return Background.of(as_read_by(net, background))
    is_table = not isinstance(background, (np.ndarray, TableRows))
    if is_table and _has_weights(net):
        return _background_of(net, background)
    return Background(rows_of(net, background))


def explain(
    net, x, background=None, *, exact: bool = False, seed: int = 0
) -> Explanation:
    """Return the contributions of raw columns to the predictions for rows x against
    background rows.

    x, background: rows as `Network.predict` takes them; background may be a Dataset
    too, whose rows count by their weights, as those of a file or a data frame with the
    column of weights of the training; None: 100 of the training file. exact: all
    coalitions, however many. Raises UsageError for images, and for more columns than
    all coalitions can be computed of.
    """
    if background is None:
        known = background_rows(net, None, seed)
    else:
        known = _given_background(net, background)
    x = rows_of(net, x)
    return Explainer(net, known, len(x), exact=exact, seed=seed).explain(x)


def _fewer(background: Background, columns: int, seed: int) -> Background:
    """Return the background rows that are compared with, of many columns fewer, with a
    remark: a walk from each of them has a step for each column."""
    count = max(LEAST_BACKGROUND, BACKGROUND * MOST_COLUMNS_OF_ALL_ROWS // columns)
    if columns <= MOST_COLUMNS_OF_ALL_ROWS or len(background) <= count:
        return background
    told = "contributions of %d columns: compared with %d of %d background rows, of up to %d columns with all"
    log.warning(told, columns, count, len(background), MOST_COLUMNS_OF_ALL_ROWS)
    return background.drawn(count, seed)


class Explainer:
    """Engines, and background rows with their values, for the explanations of many
    rows.

    background: a Background, or rows as `Dataset.x` has them; `background` then has
    those that are compared with, of many columns fewer. rows: how many will be
    explained, which decides whether all coalitions are computed. error,
    background_error: as Explanation has them, found on the first rows. names: of the
    columns.
    """

    def __init__(
        self, net, background, rows: int, *, exact: bool = False, seed: int = 0
    ):
        self._value = Value(net)
        self._seed = seed
        self.names = names_of(net)
        columns = len(self.names)
        if exact and columns > MOST_EXACT_COLUMNS:
            raise UsageError(
                f"--exact: {columns} columns, at most {MOST_EXACT_COLUMNS} have few enough coalitions; drop it"
            )
        if not isinstance(background, Background):
            background = Background(background)
        self.background = _fewer(background, columns, seed)
        self._weights = self.background.weights
        self._factors = np.ones(len(self.background))
        if self._weights is not None:
            self._factors = self._weights / self._weights.mean()
        self._others = self._value.read(self.background.x)
        self._base = self._value.of(self._others)
        engines = []
        self._walkers = []
        for member, k in zip(self._value.members, self._value.reading_of, strict=True):
            walker = Walker(member, self._value.readings[k], engines)
            self._walkers.append((k, walker, walker.added(self._others[k])))
        # rows
        self._room = THREAD_VALUES // max(
            64, *(walker.width for _, walker, _ in self._walkers)
        )
        self._is_exact = exact or 2**columns * rows * len(self._base) <= MOST_EXACT_ROWS
        self.error: float | None = 0.0 if self._is_exact else None
        self.background_error: float | None = None

    def rows_at_a_time(self, most: int) -> int:
        """Return how many rows are explained at a time, `most` at most, so that
        progress is told between."""
        if self._is_exact:
            return most
        walked = 2 * len(self._base) * len(self.names)  # rows computed for each
        return max(CHECKED, min(most, WALKED // walked))

    def explain(self, x) -> Explanation:
        """Return the explanation of some rows, as `Dataset.x` has them."""
        net = self._value.net
        rows = self._value.read(x)
        whole = self._value.of(rows)
        values, squares = self._contributions(rows, whole, self._seed)
        if self.background_error is None:
            self.background_error = self._error_of_background(
                values[:CHECKED], squares[:CHECKED]
            )
        if self.error is None:
            again, _ = self._contributions(rows, whole[:CHECKED], self._seed + 1)
            self.error = float(np.sqrt(np.mean((again - values[:CHECKED]) ** 2) / 2))
        means = np.broadcast_to(self._mean_base(), whole.shape)
        if net.task == "multiclass":
            outputs = list(net.classes or [])
        else:
            outputs = list(net.targets or [])
        if net.outputs == 1:
            values = values[:, :, 0]
            means = means[:, 0]
            outputs = []
        return Explanation(
            values,
            means,
            raw_data(x),
            self.names,
            self.error,
            outputs,
            self.background_error,
        )

    def _mean_base(self) -> np.ndarray:
        """Return the mean value of the background rows by their weights, (outputs,)."""
        return np.average(self._base, axis=0, weights=self._weights)

    def _error_of_background(
        self, values: np.ndarray, squares: np.ndarray
    ) -> float | None:
        """Return the standard error of means over background rows, as the root of its
        mean square over contributions.

        values: these means, squares: those of the squares. Where each background row
        has an order of columns of its own, the error of these orders is in it too.
        """
        count = len(self._base)
        if count < 2 or not len(values):
            return None
        variances = np.maximum(squares - values**2, 0) / (count - 1)  # of the means
        return float(np.sqrt(variances.mean()))

    def _contributions(
        self, rows: list[np.ndarray], whole: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Shapley values (rows, columns, outputs) of the first rows, means over
        background rows, and the means of their squares. whole: the values of the
        rows."""
        count = len(self._base)
        columns = len(self.names)
        order = np.tile(np.arange(columns, dtype=np.int32), (count, 1))
        order = np.random.default_rng(seed).permuted(order, axis=1)
        if self._is_exact:
            some = 1
        else:
            some = max(1, self._room // (2 * count * columns))

        def of_rows(first: int) -> np.ndarray:
            values = whole[first : first + some]
            own = [each[first : first + len(values)] for each in rows]
            if self._is_exact:
                return self._by_coalitions(own, values)
            return self._by_order(own, values, order)

        with ThreadPoolExecutor(
            self._value.net.threads or default_threads()
        ) as workers:
            found = list(workers.map(of_rows, range(0, len(whole), some)))
        if not found:
            none = np.empty((0, columns, whole.shape[1]))
            return none, none
        values, squares = zip(*found, strict=True)
        return np.concatenate(values), np.concatenate(squares)

    def _by_coalitions(
        self, own: list[np.ndarray], whole: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Shapley values (1, columns, outputs) of a row by all coalitions of
        columns, and the means of squares.

        From each background row a walk in the order of a Gray code passes half of all
        coalitions, the opposite ones are the others. Columns in which the two rows are
        alike change first and most often.
        """
        columns = len(self.names)
        differ = self._differ(own)
        numbers = np.arange(1 << columns)
        count = len(self._base)
        outputs = whole.shape[1]
        values = np.zeros((columns, outputs))
        squares = np.zeros((columns, outputs))
        steps = np.arange(1, max(1, len(numbers) // 2))
        # the lowest bit of a step's number is the one that changes
        flipped = np.log2(steps & -steps).astype(int)
        some = max(1, self._room // len(numbers))
        for first in range(0, count, some):
            order = np.argsort(
                differ[0, first : first + some], axis=1, kind="stable"
            ).astype(np.int32)[:, flipped]
            coalitions = np.bitwise_xor.accumulate(1 << order.astype(np.int64), axis=1)
            _, along = self._along(
                own, whole, np.ascontiguousarray(order), differ, first
            )
            worth = np.empty((len(order), len(numbers), outputs))
            worth[:, 0] = self._base[first : first + some]
            worth[:, -1] = whole[0]
            for of_row, each, passed in zip(worth, coalitions, along, strict=True):
                of_row[each] = passed[:, 0]
                of_row[numbers[-1] ^ each] = passed[:, 1]
            found = _shapley_values(worth)
            factors = self._factors[first : first + some, None, None]
            values += (factors * found).sum(axis=0)
            squares += (factors * found**2).sum(axis=0)
        return values[None] / count, squares[None] / count

    def _by_order(
        self, own: list[np.ndarray], whole: np.ndarray, order: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Shapley values (rows, columns, outputs) by an order of columns, and
        its reverse, for each background row, and the means of squares."""
        # the last step leads to the row itself
        taken = np.ascontiguousarray(order[:, :-1])
        differ = self._differ(own)
        rows = len(whole)
        columns = order.shape[1]
        found, squares = np.zeros((2, rows * columns, whole.shape[1]))
        some = max(1, self._room // (2 * rows * columns))
        for first in range(0, len(order), some):
            ends, along = self._along(
                own, whole, taken[first : first + some], differ, first
            )
            passed = np.concatenate([ends[:, None], along, ends[:, None, ::-1]], axis=1)
            gains = passed[:, 1:] - passed[:, :-1]
            factors = np.tile(self._factors[first : first + some], rows)[:, None, None]
            factors = np.broadcast_to(factors, gains[:, :, 0].shape).reshape(
                -1, whole.shape[1]
            )
            # both ways: twice a contribution
            gains = (gains[:, :, 0] - gains[:, :, 1]).reshape(-1, whole.shape[1])
            places = (
                order[first : first + some] + columns * np.arange(rows)[:, None, None]
            )
            for k in range(whole.shape[1]):
                found[:, k] += np.bincount(
                    places.reshape(-1), factors[:, k] * gains[:, k], len(found)
                )
                squares[:, k] += np.bincount(
                    places.reshape(-1), factors[:, k] * gains[:, k] ** 2, len(found)
                )
        found = found.reshape(rows, columns, -1)
        squares = squares.reshape(rows, columns, -1)
        return found / (2 * len(order)), squares / (4 * len(order))

    def _differ(self, own: list[np.ndarray]) -> np.ndarray:
        """Return in which columns rows are unlike background rows, for any of the
        members: (rows, others, columns)."""
        each = zip(self._value.readings, own, self._others, strict=True)
        return np.logical_or.reduce(
            [reading.differ(rows, others) for reading, rows, others in each]
        )

    def _along(
        self, own: list[np.ndarray], whole: np.ndarray, order, differ, first: int
    ):
        """Return the values of walks' first and last rows, (walks, 2, outputs), and
        after each step of the row and of its opposite, (walks, steps, 2, outputs).

        order (some, steps): of the walks from background rows `first` and on to each of
        the rows.
        """
        some = slice(first, first + len(order))
        differ = np.ascontiguousarray(differ[:, some]).reshape(-1, differ.shape[2])
        each = [
            w.outputs(w.added(own[k]), added[some], order, differ)
            for k, w, added in self._walkers
        ]
        values = self._value.combined([outputs for _, outputs in each]).reshape(
            -1, 2, whole.shape[1]
        )
        ends = np.empty((len(whole), len(order), *values.shape[1:]))
        ends[:, :, 0] = self._base[some]
        ends[:, :, 1] = whole[:, None]
        ends = ends.reshape(-1, *values.shape[1:])
        return ends, np.concatenate([values, ends[::-1]]).take(each[0][0], axis=0)


def _shapley_values(worth: np.ndarray) -> np.ndarray:
    """Return Shapley values (games, columns, outputs) of games with the worth (games,
    coalitions, outputs); bit c of a coalition's number says whether column c is in
    it."""
    games, coalitions, outputs = worth.shape
    columns = coalitions.bit_length() - 1
    numbers = np.arange(coalitions)
    sizes = sum(numbers >> column & 1 for column in range(columns))
    of_size = np.array(
        [
            factorial(s) * factorial(columns - s - 1) / factorial(columns)
            for s in range(columns)
        ]
    )
    found = np.empty((games, columns, outputs))
    for column in range(columns):
        # without the column, and with it
        halves = worth.reshape(games, -1, 2, 1 << column, outputs)
        gains = halves[:, :, 1] - halves[:, :, 0]
        weights = of_size[sizes.reshape(-1, 2, 1 << column)[:, 0]]
        found[:, column] = (weights[:, :, None] * gains).sum(axis=(1, 2))
    return found


# ---- walks from rows to a row by a column a step, and what a network gives on the way


class Walker:
    """The first layer of a member by what each raw column adds to its sums, and the
    layers behind it.

    Threads may walk beside each other: each call uses one.
    """

    def __init__(self, member, reading: Reading, engines: list):
        layers = [layer for layer in layers_of(member) if layer.kind != "dropout"]
        self._reading = reading
        self._dtype = np.dtype(member.dtype)
        self._embedding = None
        owner = np.arange(member.inputs)
        taken = 0
        if layers[0].columns:
            first, *layers = layers
            self._embedding = engine_of(member, [first], engines, 1)
            taken = first.parameters
            self._head = member.vector[:taken]
            owner = np.repeat(
                [index for index, _ in member.encoding.order],
                [one.outputs for one in first.columns],
            )
        dense, *behind = layers
        parts = member.vector[taken : taken + dense.parameters].astype(np.float64)
        self._order, self._starts = by_column(owner)
        self._weight = parts[: -dense.outputs].reshape(dense.outputs, -1).T[self._order]
        self._bias = parts[-dense.outputs :]
        self.width = dense.outputs
        if behind:
            self._behind = engine_of(member, behind, engines, 1)
        else:
            self._behind = None
        self._rest = member.vector[taken + dense.parameters :]
        self._kept = threading.local()
        self._ffi, lib = extension(member.backend if member.traits.on_host else "omp")
        self._walk = getattr(lib, f"walk_{SUFFIXES[self._dtype.name]}")
        self._activation = getattr(lib, f"NN_{dense.activation.upper()}")

    def added(self, rows: np.ndarray) -> np.ndarray:
        """Return for rows (bytes of the reading) the sums, and what each column adds:
        (rows, columns + 1, width)."""
        x = self._reading.typed(rows)
        if self._embedding is not None:
            x = self._embedding.predict(self._embedding.load(x), vector=self._head)
        found = np.empty((len(x), len(self._starts) + 1, self.width), self._dtype)
        # a row at a time: it has the same bits among others
        for row, own in zip(found, x, strict=True):
            each = np.add.reduceat(
                own[self._order, None] * self._weight, self._starts, axis=0
            )
            row[0] = self._bias + each.sum(axis=0)
            row[1:] = each
        return found

    def outputs(self, own, others, order, differ) -> tuple[np.ndarray, np.ndarray]:
        """Return (places, outputs): what the member gives before the last sigmoid or
        softmax after each step that changes the row, and for its opposite, (2 x such
        steps, outputs), and which of them a step leads to, (walks, steps), -1 - w where
        walk w has not left its first row.

        own, others: what `added` has of the rows where walks end and begin; order
        (others, steps): the column of a step; differ (walks, columns): whether its
        value does. See walk in nn.h.
        """
        walks, columns = differ.shape
        count, steps = order.shape
        room = self._room(2 * walks * steps * self.width)
        places = np.empty((walks, steps), np.int64)
        told = self._ffi.new(
            "nn_walk *", (columns, self.width, count, walks, steps, self._activation)
        )
        arrays = (room, places, own, others, order, differ.view(np.uint8))
        made = self._walk(
            *(pointer(self._ffi, array, array.dtype) for array in arrays), told
        )
        rows = room[: 2 * made * self.width].reshape(-1, self.width)
        if self._behind is not None:
            rows = self._behind.predict(self._behind.load(rows), vector=self._rest)
        return places, rows.astype(np.float64)

    def _room(self, size: int) -> np.ndarray:
        """Return an array for as many numbers, a thread's own from call to call: new
        memory costs more than sums."""
        if size + OVERREAD > len(getattr(self._kept, "room", ())):
            self._kept.room = np.empty(size + OVERREAD, self._dtype)
        return self._kept.room
