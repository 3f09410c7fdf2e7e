"""Raw columns as what a network's first layer gets, in operators of ONNX: the way of
data.scaling and data.encoding.

Numbers are scaled in float64, and rounded to the network's type before and after, as
the readers of files do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partialmethod

import numpy as np

from ...data.calendar import DATE_PARTS, DAY, YEAR_SECONDS, part
from ...data.column import Column
from ...data.encoders import (
    CategoryEncoder,
    DateEncoder,
    NumberEncoder,
    TruthEncoder,
)
from ...data.encoding import Encoding
from ...data.pixels import BYTE
from ...data.written import YES_NO, Order
from ...layers import InputColumn
from .columns import UNSEEN, are_rounded, pixel_divisor, spellings
from .onnx_graph import Graph

FEATURES = "features"  # the input of a network on plain numbers or images


# ------------------------------------------------------------- plain numbers and images


def plain_input(graph: Graph, shape: tuple[int, ...], net) -> str:
    """Add the input of a network on plain numbers, rows of this shape: pixels that are
    bytes as such, else float64."""
    if pixel_divisor(net) == BYTE:
        return graph.input(FEATURES, np.uint8, shape)
    return graph.input(FEATURES, np.float64, shape)


def scaled(graph: Graph, x: str, shape: tuple[int, ...], net) -> str:
    """Return raw rows as the first layer gets them (Scaling.apply)."""
    scaling = net.scaling
    if scaling.kind == "pixel":
        pixels = graph.cast(x, np.float64)
        shares = _divided(graph, pixels, float(pixel_divisor(net)))
        return graph.cast(shares, graph.dtype)
    x = _rounded(graph, x, scaling.shift, scaling.scale, net.number_type)
    if len(scaling.shift):
        if len(shape) == 3:
            beside = (1, -1, 1, 1)
        else:
            beside = (1, -1)
        shift = graph.constant(scaling.shift.reshape(beside), np.float64)
        x = graph.add("Sub", x, shift)
        x = _divided(graph, x, scaling.scale.reshape(beside))
    return graph.cast(x, graph.dtype)


def with_medians(graph: Graph, x: str, medians) -> str:
    """Return numbers with the medians of their columns in place of nan."""
    is_gap = graph.add("IsNaN", x)
    return graph.add("Where", is_gap, graph.constant([medians], np.float64), x)


def _divided(graph: Graph, x: str, by) -> str:
    return graph.add("Div", x, graph.constant(by, np.float64))


def _rounded(
    graph: Graph, x: str, shift: np.ndarray, scale: np.ndarray, number_type: str | None
) -> str:
    """Return float64 numbers as a float32 network's files keep them: as float32, unless
    that blurs a column."""
    if not are_rounded(graph.dtype, shift, scale, number_type):
        return x
    return graph.cast(graph.cast(x, np.float32), np.float64)


# -------------------------------------------------------- tables with more than numbers


def encoded(
    graph: Graph,
    values: list[str],
    columns: Sequence[InputColumn],
    weight: np.ndarray | None,
) -> str:
    """Return the outputs of an embedding layer (InputColumn).

    values: of rows, in the order of a record, numbers (rows, 1), gaps nan, and codes
    (rows,). weight: its tables, then frequencies of waves.
    """
    parts = []
    table = 0
    wave = sum(column.parameters for column in columns)
    for value, column in zip(values, columns, strict=True):
        if column.kind in ("number", "gap"):
            frequencies = ()
            if column.waves:
                frequencies = weight[wave : wave + column.waves]
            parts += _encoded_number(graph, value, column, frequencies)
            wave += column.waves
        else:
            of_codes = graph.constant(_table(column, weight, table))
            parts.append(graph.add("Gather", of_codes, value, axis=0))
            table += column.parameters
    return graph.joined(parts)


def _encoded_number(
    graph: Graph, x: str, column: InputColumn, frequencies
) -> list[str]:
    """Return what a number becomes: itself, whether it is a gap, pieces and waves of
    its axis."""
    parts = [x]
    if column.kind == "gap":
        is_gap = graph.add("IsNaN", x)
        x = graph.add("Where", is_gap, graph.constant(column.fill), x)
        parts = [x, graph.cast(is_gap, graph.dtype)]
    if column.pieces:
        parts.append(_shares(graph, x, np.array([column.edges], graph.dtype)))
    if column.waves:  # the fraction of each wave's turns, in float64 as in the core
        turns = graph.add(
            "Mul", graph.cast(x, np.float64), graph.constant([frequencies], np.float64)
        )
        part = graph.add("Sub", turns, graph.add("Round", turns))
        angle = graph.add("Mul", part, graph.constant(2 * np.pi, np.float64))
        parts += [
            graph.cast(wave, graph.dtype) for wave in _sine_and_cosine(graph, angle)
        ]
    return parts


def _shares(graph: Graph, x: str, edges: np.ndarray) -> str:
    """Return how much of each piece between edges (1, pieces + 1) lies below x; a piece
    without width is a step."""
    low = edges[:, :-1]
    widths = np.diff(edges)
    is_step = widths == 0
    above = graph.add("Sub", x, graph.constant(low))
    shares = graph.clip(
        graph.add("Div", above, graph.constant(np.where(is_step, 1, widths))), 0, 1
    )
    if not is_step.any():
        return shares
    steps = graph.cast(graph.add("GreaterOrEqual", x, graph.constant(low)), graph.dtype)
    return graph.add("Where", graph.constant(is_step, bool), steps, shares)


def _sine_and_cosine(graph: Graph, angle: str) -> list[str]:
    """cos(a) is sin(a + pi / 2): not every version of onnxruntime has Cos in
    float64."""
    quarter = graph.add("Add", angle, graph.constant(np.pi / 2, np.float64))
    return [graph.add("Sin", angle), graph.add("Sin", quarter)]


def _table(column: InputColumn, weight: np.ndarray | None, at: int) -> np.ndarray:
    """Return what each code becomes; one beyond all values becomes 0. at: where the
    column's table begins."""
    if column.kind == "onehot":
        return np.eye(column.values + 1, column.values)
    values = weight[at : at + column.parameters].reshape(column.values, column.width)
    return np.vstack([values, np.zeros((1, column.width))])


def column_inputs(graph: Graph, names: list[str], reads: list[str]) -> list[str]:
    """Add an input for each column of a table, (rows, 1). reads: number, text or date,
    of each."""
    types = {"number": np.float64, "date": np.float64, "text": str}
    return [
        graph.input(name, types[kind], (1,))
        for name, kind in zip(names, reads, strict=True)
    ]


class TableInputs:
    """The columns of a table, (rows, 1) each; read_by gives what an encoding makes of
    them.

    missing: words that stand for a gap. number_type: as are_rounded takes it.
    """

    def __init__(
        self,
        graph: Graph,
        columns: list[str],
        missing: Sequence[str],
        number_type: str | None,
    ):
        self._graph = graph
        self._columns = columns
        self._missing = missing
        self._number_type = number_type

    def read_by(self, encoding: Encoding) -> list[str]:
        """Return the values of the rows (Encoding.apply), for `encoded`."""
        values = {}
        numbers = self._scaled(encoding)
        for index, (column, encoder) in enumerate(
            zip(self._columns, encoding.encoders, strict=True)
        ):
            if isinstance(encoder, NumberEncoder):
                if encoder.written is None:
                    values[index, 0] = next(numbers)
                else:
                    values[index, 0] = self._written(column, encoder)
                if encoder.frequent:
                    values[index, 1] = self._frequent(column, encoder.frequent)
            elif isinstance(encoder, DateEncoder):
                for which, value in enumerate(self._date(column, encoder)):
                    values[index, which] = value
            else:
                if isinstance(encoder, TruthEncoder):
                    values[index, 0] = self._truth(column, encoder)
                else:
                    values[index, 0] = self._category(column, encoder)
                for which, value in enumerate(self._means(column, encoder), 1):
                    values[index, which] = value
        return [values[place] for place in encoding.order]

    def _scaled(self, encoding: Encoding) -> Iterator[str]:
        """Yield each column of numbers that files are read as, scaled, with the median
        in a gap where training had none."""
        graph = self._graph
        numbers = [encoder for encoder in encoding.encoders if encoder.kind == "number"]
        pairs = zip(self._columns, encoding.encoders, strict=True)
        columns = [column for column, encoder in pairs if encoder.kind == "number"]
        shift = np.array([e.shift for e in numbers])
        scale = np.array([e.scale for e in numbers])
        median = np.array([e.median for e in numbers])
        x = _rounded(graph, graph.joined(columns), shift, scale, self._number_type)
        median[[encoder.unknown_share > 0 for encoder in numbers]] = np.nan
        x = with_medians(graph, x, median)
        x = graph.add("Sub", x, graph.constant([shift], np.float64))
        x = _divided(graph, x, [np.where(scale == 0, np.inf, scale)])
        x = graph.cast(x, graph.dtype)
        for place in range(len(numbers)):
            yield graph.columns(x, [place])

    def _written(self, column: str, encoder: NumberEncoder) -> str:
        """Return the values of words, scaled, with the median in a gap where training
        had none; they are float64 until they are scaled."""
        graph = self._graph
        numbers = column
        if isinstance(encoder.written, Order):
            numbers = self._ranks(column, encoder.written)
        if not encoder.unknown_share:
            numbers = with_medians(graph, numbers, [encoder.median])
        above = graph.add("Sub", numbers, graph.constant(encoder.shift, np.float64))
        return graph.cast(_divided(graph, above, encoder.scale or np.inf), graph.dtype)

    def _ranks(self, column: str, order: Order) -> str:
        """Return the ranks of ordered words (rows, 1), nan of other words and of those
        for a gap."""
        graph = self._graph
        beyond = len(order.order)
        words = order.ranks_of_forms() | dict.fromkeys(self._missing, beyond)
        ranks = [[rank] for rank in [*range(beyond), np.nan]]
        table = graph.constant(ranks, np.float64)
        return graph.add("Gather", table, self._coded(column, words, beyond), axis=0)

    def _frequent(self, x: str, frequent: list[float]) -> str:
        """Return the place of each row's number among the frequent ones (rows,), of
        others one beyond them all."""
        graph = self._graph
        are_equal = graph.add(
            "Equal", graph.cast(x, np.float32), graph.constant([frequent], np.float32)
        )
        before = graph.constant(np.arange(len(frequent)) - len(frequent), np.float32)
        place = graph.add("MatMul", graph.cast(are_equal, np.float32), before)
        return graph.cast(
            graph.add("Add", place, graph.constant([len(frequent)], np.float32)),
            np.int64,
        )

    def _truth(self, column: str, encoder: TruthEncoder) -> str:
        """Return 0 or 1 (rows, 1), the share of yes where the word is neither."""
        words = {
            spelling: int(truth)
            for word, truth in YES_NO.items()
            for spelling in spellings(word)
        }
        code = self._coded(column, words, 2)
        graph = self._graph
        truths = graph.constant([0.0, 1.0, encoder.share])
        flat = graph.add("Gather", truths, code)
        return graph.add("Reshape", flat, graph.constant([-1, 1], np.int64))

    def _category(self, column: str, encoder: CategoryEncoder) -> str:
        """Return the code of each row (rows,)."""
        words = [word for word in encoder.values if word is not None]
        every = Column("text", np.array([*range(len(words) + 1), -1]), [*words, UNSEEN])
        *codes, other, gap = encoder.encode(every)[0].tolist()
        encoded_words = {
            form: code
            for word, code in zip(words, codes, strict=True)
            for form in encoder.forms(word)
        }
        codes_of_words = {**encoded_words, **dict.fromkeys(self._missing, gap)}
        return self._coded(column, codes_of_words, other)

    def _means(self, column: str, encoder: TruthEncoder | CategoryEncoder) -> list[str]:
        """Return the means of the targets of each row's word, (rows, 1) each."""
        means = encoder.means
        graph = self._graph
        if not means:
            return []
        known = {
            form: place
            for place, word in enumerate(means)
            for form in encoder.forms(word)
            if form not in self._missing
        }
        code = self._coded(column, known, len(means))
        table = graph.constant([*means.values(), [0.0] * encoder.targets])
        gathered = graph.add("Gather", table, code, axis=0)
        return [graph.columns(gathered, [target]) for target in range(encoder.targets)]

    def _coded(self, column: str, words: dict[str, int], other: int) -> str:
        """Return the code of each row's word (rows,)."""
        graph = self._graph
        flat = graph.add("Reshape", column, graph.constant([-1], np.int64))
        return graph.add(
            "LabelEncoder",
            flat,
            domain="ai.onnx.ml",
            keys_strings=list(words),
            values_int64s=list(words.values()),
            default_int64=other,
        )

    def _date(self, seconds: str, encoder: DateEncoder) -> list[str]:
        """Return the inputs of a date, (rows, 1) each, of its seconds since 1970."""
        graph = self._graph
        is_gap = graph.add("IsNaN", seconds)
        parsed = graph.add(
            "Where", is_gap, graph.constant(encoder.shift, np.float64), seconds
        )
        above = graph.add("Sub", parsed, graph.constant(encoder.shift, np.float64))
        trend = _divided(graph, above, encoder.scale or np.inf)
        if encoder.unknown_share:
            trend = graph.add(
                "Where", is_gap, graph.constant(np.nan, np.float64), trend
            )
        others = []
        of_known = _Float64(graph, parsed)
        for cycle in encoder.cycles:
            turns = _TURNS[cycle](of_known)
            angle = (turns - turns.floor()) * (2 * np.pi)
            others += _sine_and_cosine(graph, angle.name)
        for name in encoder.parts:
            shift, scale = DATE_PARTS[name]
            scaled_part = (part(of_known, name, _Float64.floor) - shift) / scale
            others.append(scaled_part.name)
        values = [trend]
        for value in others:
            zero = graph.constant(0, np.float64)
            values.append(graph.add("Where", is_gap, zero, value))
        return [graph.cast(value, graph.dtype) for value in values]


@dataclass(frozen=True)
class _Float64:
    """A value of a graph, float64, with which a formula computes as with an array."""

    graph: Graph
    name: str

    def floor(self) -> _Float64:
        return _Float64(self.graph, self.graph.add("Floor", self.name))

    def _with(self, other: _Float64 | float, op: str) -> _Float64:
        if isinstance(other, _Float64):
            other = other.name
        else:
            other = self.graph.constant(other, np.float64)
        return _Float64(self.graph, self.graph.add(op, self.name, other))

    __add__ = partialmethod(_with, op="Add")
    __sub__ = partialmethod(_with, op="Sub")
    __mul__ = partialmethod(_with, op="Mul")
    __truediv__ = partialmethod(_with, op="Div")


_TURNS = {
    "year": lambda x: x / YEAR_SECONDS,
    "week": lambda x: (x / DAY).floor() / 7,
    "day": lambda x: x / DAY,
}
