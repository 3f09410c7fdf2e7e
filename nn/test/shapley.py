"""Shapley values of raw columns (Shapley 1953; Strumbelj and Kononenko 2014; Lundberg
and Lee 2017).

The value of a coalition of columns is that of a row which has the explained row's
values in these columns and a background row's in the others. Contributions are means
over the background rows, by their weights.

An example of three columns, with one background row. v(ab) is the value of the row that
has a and b from the explained row, and c from the background row:

    v() = 1    v(a) = 3    v(b) = 2    v(c) = 1
    v(ab) = 6  v(ac) = 3   v(bc) = 2   v(abc) = 6

With few columns all coalitions are computed. A column's contribution is the mean of
what it adds to coalitions without it, by the share of orders in which these come before
it (1/3 for none and for two columns, 1/6 for each single column):

    a: (v(a) - v()) / 3 + (v(ab) - v(b)) / 6 + (v(ac) - v(c)) / 6 + (v(abc) - v(bc)) / 3
       = 2/3 + 4/6 + 2/6 + 4/3 = 3
    b: 1/3 + 3/6 + 1/6 + 3/3 = 2
    c: 0                            and v() + 3 + 2 + 0 = v(abc)

With more columns, each background row has one order, in which the columns are taken
over from the explained row one after the other, forwards and backwards (antithetic). By
the order a, c, b:

    forwards   v() -> v(a) -> v(ac) -> v(abc)    a: 2, c: 0, b: 3
    backwards  v() -> v(b) -> v(bc) -> v(abc)    b: 1, c: 0, a: 4
    mean                                         a: 3, b: 2, c: 0

That is exact where columns act alone and in pairs, as here. Coalitions of the way
backwards are the opposites of those forwards (bc of a, b of ac), so that a walk passes
both at once: each step gives the value of a coalition and of its opposite. A step to a
column that has the same value in both rows, as c may have, changes nothing and is not
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
from ..data.dataset import Dataset, as_read_by
from ..data.given_rows import rows_of
from ..data.loading import load_for, training_file
from ..data.table_rows import TableRows
from ..nn import Network
from ..utils import InputNotFound, UsageError, default_threads, log, network_of
from .values import Reading, Value, by_column, engine_of, layers_of, names_of, raw_data

BACKGROUND = 100  # rows
# columns above which fewer background rows are compared with
MOST_COLUMNS_OF_ALL_ROWS = 100
LEAST_BACKGROUND = 10  # rows at least that are compared with
MOST_EXACT_ROWS = 10**7  # all coalitions are computed where they need no more rows
MOST_EXACT_COLUMNS = 20  # of which all coalitions can be asked for
WALKED = 1 << 22  # rows computed between two reports of progress
# rows explained twice, by two sets of orders, to estimate the error; the error of the
# background is estimated by them too
CHECKED = 5
OVERREAD = 32  # numbers behind those of a walk that the core may write
# numbers that a thread computes at a time: rows times the first layer's width, which
# counts as 64 at least
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
    background_error
                    how far values are from those against very many background rows, of
                    which these were drawn, as a standard deviation; None for one
                    background row, which cannot tell
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
        if self.weights is None:
            return Background(self.x[rows])
        return Background(self.x[rows], self.weights[rows])

    def drawn(self, count: int, seed: int) -> Background:
        """Return at most `count` of the rows, drawn by the seed, in their order."""
        count = min(count, len(self))
        chosen = np.random.default_rng(seed).choice(len(self), count, replace=False)
        return self.at(np.sort(chosen))


def background_rows(
    net: Network, source=None, seed: int = 0, model="the model"
) -> Background:
    """Return at most 100 rows, drawn by the seed, of a file, of a data set, or (None)
    of the training file, of which those without a target are none; nor are rows of
    weight 0.

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
        background = Background.of(source)
    else:
        background = _background_of(net, source, labelled=is_of_training)
    return background.drawn(BACKGROUND, seed)


def _has_weights(net: Network) -> bool:
    """Return whether the rows of the training had weights."""
    return "weight" in net.config.get("table", {})


def _background_of(net: Network, data, labelled: bool = False) -> Background:
    """Return the rows of a file or a data frame, with their weights where they have the
    column of the training's."""
    ds = load_for(net, data, labelled=labelled, weighs=_has_weights(net))
    return Background.of(ds)


def _given_background(net: Network, background) -> Background:
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
    net: Network, x, background=None, *, exact: bool = False, seed: int = 0
) -> Explanation:
    """Return the contributions of raw columns to the predictions for rows x against
    background rows.

    x, background: rows as `Network.predict` takes them; background may be a Dataset
    too, whose rows count by their weights, as those of a file or a data frame with the
    column of weights of the training; None: 100 of the training file. exact: all
    coalitions, however many. Raises UsageError for images, and for more columns than
    all coalitions can be computed of.
    """
    net = network_of("explain", net)
    if background is None:
        background = background_rows(net, None, seed)
    else:
        background = _given_background(net, background)
    x = rows_of(net, x)
    return Explainer(net, background, len(x), exact=exact, seed=seed).explain(x)


def _fewer(background: Background, columns: int, seed: int) -> Background:
    """Return the background rows that are compared with, of many columns fewer, with a
    remark: a walk from each of them has a step for each column."""
    count = max(LEAST_BACKGROUND, BACKGROUND * MOST_COLUMNS_OF_ALL_ROWS // columns)
    if columns <= MOST_COLUMNS_OF_ALL_ROWS or len(background) <= count:
        return background
    message = "contributions of %d columns: compared with %d of %d background rows, of up to %d columns with all"
    log.warning(message, columns, count, len(background), MOST_COLUMNS_OF_ALL_ROWS)
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
        self, net: Network, background, rows: int, *, exact: bool = False, seed: int = 0
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
        self._factors = np.ones(len(self.background))  # weights of mean 1
        if self._weights is not None:
            self._factors = self._weights / self._weights.mean()
        self._background_rows = self._value.read(self.background.x)
        self._background_values = self._value.of(self._background_rows)
        engines = []
        # (number of the reading, walker of the member, row sums of the background)
        self._walkers = []
        for member, k in zip(self._value.members, self._value.reading_of, strict=True):
            walker = Walker(member, self._value.readings[k], engines)
            row_sums = walker.row_sums(self._background_rows[k])
            self._walkers.append((k, walker, row_sums))
        width = max(64, *(walker.width for _, walker, _ in self._walkers))
        self._rows_of_thread = THREAD_VALUES // width
        all_rows = 2**columns * rows * len(self._background_values)
        self._is_exact = exact or all_rows <= MOST_EXACT_ROWS
        self.error: float | None = 0.0 if self._is_exact else None
        self.background_error: float | None = None

    def rows_at_a_time(self, most: int) -> int:
        """Return how many rows are explained at a time, `most` at most, so that
        progress is reported between."""
        if self._is_exact:
            return most
        rows_of_walks = 2 * len(self._background_values) * len(self.names)
        return max(CHECKED, min(most, WALKED // rows_of_walks))

    def explain(self, x) -> Explanation:
        """Return the explanation of some rows, as `Dataset.x` has them."""
        net = self._value.net
        rows = self._value.read(x)
        row_values = self._value.of(rows)
        values, squares = self._contributions(rows, row_values, self._seed)
        checked = values[:CHECKED]
        if self.background_error is None:
            self.background_error = self._error_of_background(
                checked, squares[:CHECKED]
            )
        if self.error is None:
            again, _ = self._contributions(rows, row_values[:CHECKED], self._seed + 1)
            self.error = float(np.sqrt(np.mean((again - checked) ** 2) / 2))
        means = np.broadcast_to(self._mean_of_background(), row_values.shape)
        outputs = net.values or []
        if net.task == "multiclass":
            outputs = net.classes or []
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
            list(outputs),
            self.background_error,
        )

    def _mean_of_background(self) -> np.ndarray:
        """Return the mean value of the background rows by their weights, (outputs,)."""
        return np.average(self._background_values, axis=0, weights=self._weights)

    def _error_of_background(
        self, values: np.ndarray, squares: np.ndarray
    ) -> float | None:
        """Return the standard error of means over background rows, as the root of its
        mean square over contributions.

        values: these means, squares: those of the squares. Where each background row
        has an order of columns of its own, the error of these orders is in it too. Rows
        of unlike weights tell as much as fewer of equal weight (Kish 1965).
        """
        equal_rows = self._factors.sum() ** 2 / (self._factors**2).sum()
        if len(self._factors) < 2 or equal_rows <= 1 or not len(values):
            return None
        variances = np.maximum(squares - values**2, 0)
        return float(np.sqrt((variances / (equal_rows - 1)).mean()))

    def _contributions(
        self, rows: list[np.ndarray], row_values: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Shapley values (rows, columns, outputs), means over background rows,
        and the means of their squares, of the first rows: those whose values are
        given."""
        backgrounds = len(self._background_values)
        columns = len(self.names)
        orders = np.tile(np.arange(columns, dtype=np.int32), (backgrounds, 1))
        orders = np.random.default_rng(seed).permuted(orders, axis=1)
        step = 1
        if not self._is_exact:
            step = max(1, self._rows_of_thread // (2 * backgrounds * columns))

        def contributions_from(start: int) -> tuple[np.ndarray, np.ndarray]:
            block_values = row_values[start : start + step]
            stop = start + len(block_values)
            block = [rows_of_reading[start:stop] for rows_of_reading in rows]
            if self._is_exact:
                return self._by_coalitions(block, block_values)
            return self._by_order(block, block_values, orders)

        threads = self._value.net.threads or default_threads()
        with ThreadPoolExecutor(threads) as workers:
            starts = range(0, len(row_values), step)
            blocks = list(workers.map(contributions_from, starts))
        if not blocks:
            empty = np.empty((0, columns, row_values.shape[1]))
            return empty, empty
        values, squares = zip(*blocks, strict=True)
        return np.concatenate(values), np.concatenate(squares)

    def _by_coalitions(
        self, row: list[np.ndarray], row_values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Shapley values (1, columns, outputs) of a row by all coalitions of
        columns, and the means of squares.

        From each background row a walk in the order of a Gray code passes half of all
        coalitions, the opposite ones are the others. Columns in which the two rows are
        alike change first and most often. A coalition's number has bit c for column c.
        """
        columns = len(self.names)
        differ = self._differ(row)
        numbers = np.arange(1 << columns)
        all_columns = numbers[-1]  # their coalition
        backgrounds = len(self._background_values)
        outputs = row_values.shape[1]
        values = np.zeros((columns, outputs))
        squares = np.zeros((columns, outputs))
        steps = np.arange(1, max(1, len(numbers) // 2))
        # the lowest bit of a step's number is the one that changes
        flipped = np.log2(steps & -steps).astype(int)
        walks = max(1, self._rows_of_thread // len(numbers))
        for start in range(0, backgrounds, walks):
            block = slice(start, start + walks)
            alike_first = np.argsort(differ[0, block], axis=1, kind="stable")
            order = np.ascontiguousarray(alike_first.astype(np.int32)[:, flipped])
            bits = 1 << order.astype(np.int64)
            passed = np.bitwise_xor.accumulate(bits, axis=1)
            _, passed_values = self._along(row, row_values, order, differ, start)
            coalition_values = np.empty((len(order), len(numbers), outputs))
            coalition_values[:, 0] = self._background_values[block]
            coalition_values[:, -1] = row_values[0]
            for walk, coalitions in enumerate(passed):
                opposites = all_columns ^ coalitions
                coalition_values[walk, coalitions] = passed_values[walk, :, 0]
                coalition_values[walk, opposites] = passed_values[walk, :, 1]
            contributions = _shapley_values(coalition_values)
            factors = self._factors[block, None, None]
            values += (factors * contributions).sum(axis=0)
            squares += (factors * contributions**2).sum(axis=0)
        return values[None] / backgrounds, squares[None] / backgrounds

    def _by_order(
        self, block: list[np.ndarray], row_values: np.ndarray, orders: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Shapley values (rows, columns, outputs) of rows by an order of
        columns, and its reverse, for each background row, and the means of squares."""
        # the last step leads to the row itself
        steps = np.ascontiguousarray(orders[:, :-1])
        differ = self._differ(block)
        backgrounds, columns = orders.shape
        rows, outputs = row_values.shape
        values, squares = np.zeros((2, rows * columns, outputs))
        first_columns = columns * np.arange(rows)[:, None, None]
        walks = max(1, self._rows_of_thread // (2 * rows * columns))
        for start in range(0, backgrounds, walks):
            taken = slice(start, start + walks)
            ends, passed = self._along(block, row_values, steps[taken], differ, start)
            opposite_ends = ends[:, None, ::-1]
            passed = np.concatenate([ends[:, None], passed, opposite_ends], axis=1)
            gains = passed[:, 1:] - passed[:, :-1]
            # both ways: twice a contribution
            gains = (gains[:, :, 0] - gains[:, :, 1]).reshape(-1, outputs)
            places = (orders[taken] + first_columns).reshape(-1)
            factors = np.repeat(np.tile(self._factors[taken], rows), columns)
            for k in range(outputs):
                gain = gains[:, k]
                values[:, k] += np.bincount(places, factors * gain, len(values))
                squares[:, k] += np.bincount(places, factors * gain**2, len(values))
        shape = (rows, columns, -1)
        values = values.reshape(shape) / (2 * backgrounds)
        return values, squares.reshape(shape) / (4 * backgrounds)

    def _differ(self, rows: list[np.ndarray]) -> np.ndarray:
        """Return in which columns rows are unlike background rows, for any of the
        members: (rows, background rows, columns)."""
        by_reading = zip(self._value.readings, rows, self._background_rows, strict=True)
        return np.logical_or.reduce(
            [reading.differ(*row_bytes) for reading, *row_bytes in by_reading]
        )

    def _along(
        self,
        rows: list[np.ndarray],
        row_values: np.ndarray,
        order: np.ndarray,
        differ: np.ndarray,
        start: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of walks' first and last rows, (walks, 2, outputs), and
        after each step of the row and of its opposite, (walks, steps, 2, outputs).

        order (background rows, steps): of the walks from background rows `start` and on
        to each of the rows.
        """
        block = slice(start, start + len(order))
        columns = differ.shape[2]
        differ = np.ascontiguousarray(differ[:, block]).reshape(-1, columns)
        outputs_of_members = []
        for k, walker, background_sums in self._walkers:
            row_sums = walker.row_sums(rows[k])
            # places are the same for all members
            places, outputs = walker.outputs(
                row_sums, background_sums[block], order, differ
            )
            outputs_of_members.append(outputs)
        shape = (-1, 2, row_values.shape[1])
        values = self._value.combined(outputs_of_members).reshape(shape)
        ends = np.empty((len(row_values), len(order), *values.shape[1:]))
        ends[:, :, 0] = self._background_values[block]
        ends[:, :, 1] = row_values[:, None]
        ends = ends.reshape(shape)
        # place -1 - w: walk w has not left its first row
        table = np.concatenate([values, ends[::-1]])
        return ends, table.take(places, axis=0)


def _shapley_values(coalition_values: np.ndarray) -> np.ndarray:
    """Return Shapley values (walks, columns, outputs) of the values (walks, coalitions,
    outputs); bit c of a coalition's number says whether column c is in it."""
    walks, coalitions, outputs = coalition_values.shape
    columns = coalitions.bit_length() - 1
    numbers = np.arange(coalitions)
    sizes = sum(numbers >> column & 1 for column in range(columns))
    # the share of orders in which a column comes right behind these of one coalition
    weight_of_size = np.empty(columns)
    for size in range(columns):
        orders = factorial(size) * factorial(columns - size - 1)
        weight_of_size[size] = orders / factorial(columns)
    contributions = np.empty((walks, columns, outputs))
    for column in range(columns):
        # coalitions without the column, and the same with it
        halves = coalition_values.reshape(walks, -1, 2, 1 << column, outputs)
        gains = halves[:, :, 1] - halves[:, :, 0]
        sizes_without = sizes.reshape(-1, 2, 1 << column)[:, 0]
        weights = weight_of_size[sizes_without]
        weighted = weights[:, :, None] * gains
        contributions[:, column] = weighted.sum(axis=(1, 2))
    return contributions


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
        owner = np.arange(member.inputs)  # the raw column of each input of `dense`
        start = 0  # of the parameters of `dense`
        if layers[0].columns:
            embedding, *layers = layers
            self._embedding = engine_of(member, [embedding], engines, 1)
            start = embedding.parameters
            self._embedding_parameters = member.vector[:start]
            widths = [column.outputs for column in embedding.columns]
            raw_columns = [index for index, _ in member.encoding.order]
            owner = np.repeat(raw_columns, widths)
        dense, *layers_behind = layers
        stop = start + dense.parameters
        parameters = member.vector[start:stop].astype(np.float64)
        weight = parameters[: -dense.outputs].reshape(dense.outputs, -1)
        self._order, self._starts = by_column(owner)
        self._weight = weight.T[self._order]
        self._bias = parameters[-dense.outputs :]
        self.width = dense.outputs
        self._engine_behind = None
        if layers_behind:
            self._engine_behind = engine_of(member, layers_behind, engines, 1)
        self._parameters_behind = member.vector[stop:]
        self._thread_memory = threading.local()
        backend = member.backend if member.traits.on_host else "omp"
        self._ffi, lib = extension(backend)
        self._walk = getattr(lib, f"walk_{SUFFIXES[self._dtype.name]}")
        self._activation = getattr(lib, f"NN_{dense.activation.upper()}")

    def row_sums(self, rows: np.ndarray) -> np.ndarray:
        """Return for rows (bytes of the reading) the sums of the first layer, and what
        each column adds to them: (rows, columns + 1, width)."""
        inputs = self._reading.typed(rows)
        if self._embedding is not None:
            data = self._embedding.load(inputs)
            inputs = self._embedding.predict(data, vector=self._embedding_parameters)
        shape = (len(inputs), len(self._starts) + 1, self.width)
        row_sums = np.empty(shape, self._dtype)
        # a row at a time: it has the same bits among others
        for sums, row in zip(row_sums, inputs, strict=True):
            products = row[self._order, None] * self._weight
            column_sums = np.add.reduceat(products, self._starts, axis=0)
            sums[0] = self._bias + column_sums.sum(axis=0)
            sums[1:] = column_sums
        return row_sums

    def outputs(
        self,
        row_sums: np.ndarray,
        background_sums: np.ndarray,
        order: np.ndarray,
        differ: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (places, outputs): what the member gives before the last sigmoid or
        softmax after each step that changes the row, and for its opposite, (2 x such
        steps, outputs), and which of them a step leads to, (walks, steps), -1 - w where
        walk w has not left its first row.

        row_sums, background_sums: of the rows where walks end and begin; order
        (background rows, steps): the column of a step; differ (walks, columns): whether
        its value does. See walk in nn.h.
        """
        walks, columns = differ.shape
        backgrounds, steps = order.shape
        room = self._room(2 * walks * steps * self.width)
        places = np.empty((walks, steps), np.int64)
        sizes = (columns, self.width, backgrounds, walks, steps, self._activation)
        walk = self._ffi.new("nn_walk *", sizes)
        differ = differ.view(np.uint8)
        arrays = (room, places, row_sums, background_sums, order, differ)
        pointers = [pointer(self._ffi, array, array.dtype) for array in arrays]
        changes = self._walk(*pointers, walk)
        outputs = room[: 2 * changes * self.width].reshape(-1, self.width)
        if self._engine_behind is not None:
            data = self._engine_behind.load(outputs)
            outputs = self._engine_behind.predict(data, vector=self._parameters_behind)
        return places, outputs.astype(np.float64)

    def _room(self, size: int) -> np.ndarray:
        """Return an array for as many numbers, a thread's own from call to call: new
        memory costs more than sums."""
        room = getattr(self._thread_memory, "room", ())
        if size + OVERREAD > len(room):
            room = np.empty(size + OVERREAD, self._dtype)
            self._thread_memory.room = room
        return room
