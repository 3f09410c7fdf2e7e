"""Raw columns as what a network's first layer gets, in operators of ONNX: the way of data.scaling and data.encoding.

Numbers are scaled in float64, and rounded to the network's type before and after, as the readers of files do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partialmethod

import numpy as np

from ...data.column import GAPS, Column
from ...data.encoding import (
    DAY,
    PARTS,
    YEAR,
    CategoryEncoder,
    DateEncoder,
    Encoding,
    NumberEncoder,
    TruthEncoder,
    part,
)
from ...data.scaling import Scaling
from ...data.written import YES_NO
from ...layers import InputColumn
from .columns import UNSEEN, are_rounded, spellings
from .onnx_graph import Graph

FEATURES = "features"  # the input of a network on plain numbers or images


# ---------------------------------------------------------------- plain numbers and images


def plain_input(graph: Graph, shape: tuple[int, ...], scaling: Scaling) -> str:
    """Add the input of a network on plain numbers, rows of this shape: pixels are bytes, all else float64."""
    return graph.input(FEATURES, np.uint8 if scaling.kind == "pixel" else np.float64, shape)


def scaled(graph: Graph, x: str, shape: tuple[int, ...], scaling: Scaling) -> str:
    """Return raw rows as the first layer gets them (Scaling.apply)."""
    if scaling.kind == "pixel":
        return graph.cast(_divided(graph, graph.cast(x, np.float64), 255.0), graph.dtype)
    x = _rounded(graph, x, scaling.shift, scaling.scale)
    if len(scaling.shift):
        beside = (1, -1, 1, 1) if len(shape) == 3 else (1, -1)
        x = graph.add("Sub", x, graph.constant(scaling.shift.reshape(beside), np.float64))
        x = _divided(graph, x, scaling.scale.reshape(beside))
    return graph.cast(x, graph.dtype)


def _divided(graph: Graph, x: str, by) -> str:
    return graph.add("Div", x, graph.constant(by, np.float64))


def _rounded(graph: Graph, x: str, shift: np.ndarray, scale: np.ndarray) -> str:
    """Return float64 numbers as a float32 network's files keep them: as float32, unless that blurs a column."""
    if not are_rounded(graph.dtype, shift, scale):
        return x
    return graph.cast(graph.cast(x, np.float32), np.float64)


# ---------------------------------------------------------------- tables with more than numbers


@dataclass(frozen=True)
class Records:
    """Inputs of an embedding layer for some rows: the numbers (rows, numbers), gaps nan, and the codes (rows,) each,
    in the order of a record."""

    numbers: str | None
    codes: list[str]

    def encoded(self, graph: Graph, columns: Sequence[InputColumn], weight: np.ndarray | None) -> str:
        """Return the outputs of the embedding layer (InputColumn). weight: its tables, then frequencies of waves."""
        parts = _Parts(graph)
        numbers = [place for place, column in enumerate(columns) if column.kind in ("number", "gap")]
        if numbers:
            _encode_numbers(parts, self.numbers, [columns[place] for place in numbers], numbers, weight)
        coded = [place for place, column in enumerate(columns) if column.kind not in ("number", "gap")]
        at = 0
        for code, place in zip(self.codes, coded, strict=True):
            table, at = _table(columns[place], weight, at)
            output = graph.add("Gather", graph.constant(table), code, axis=0)
            parts.add(output, [(place, output) for output in range(columns[place].outputs)])
        return parts.joined()


class _Parts:
    """Values (rows, columns) whose columns are put into the order of their keys."""

    def __init__(self, graph: Graph):
        self.graph, self._values, self._keys = graph, [], []

    def add(self, value: str, keys) -> None:
        """Add a value; keys: of its columns."""
        self._values.append(value)
        self._keys += keys

    def joined(self) -> str:
        """Return all columns side by side, in the order of their keys."""
        value, order = self.graph.joined(self._values), sorted(range(len(self._keys)), key=self._keys.__getitem__)
        return value if order == list(range(len(order))) else self.graph.columns(value, order)


def _encode_numbers(parts: _Parts, x: str, columns: list[InputColumn], places: list[int], weight) -> None:
    """Add what numbers become: themselves, whether they are gaps, pieces and waves of their axes."""
    graph = parts.graph
    gaps = [i for i, column in enumerate(columns) if column.kind == "gap"]
    if gaps:
        is_gap = graph.add("IsNaN", x)
        filled = graph.constant([[column.fill for column in columns]])
        x = graph.add("Where", is_gap, filled, x)
        flags = graph.cast(graph.columns(is_gap, gaps), graph.dtype)
        parts.add(flags, [(places[i], 1) for i in gaps])
    parts.add(x, [(place, 0) for place in places])
    pieces = [(i, piece) for i, column in enumerate(columns) for piece in range(column.pieces)]
    if pieces:
        low, high = ([columns[i].edges[piece + end] for i, piece in pieces] for end in (0, 1))
        low, high = np.array([low], graph.dtype), np.array([high], graph.dtype)
        above = graph.add("Sub", graph.columns(x, [i for i, _ in pieces]), graph.constant(low))
        share = graph.add("Div", above, graph.constant(high - low))
        parts.add(graph.clip(share, 0, 1), [(places[i], _first(columns[i]) + piece) for i, piece in pieces])

    _encode_waves(parts, x, columns, places, weight)


def _encode_waves(parts: _Parts, x: str, columns: list[InputColumn], places: list[int], weight) -> None:
    """Add sine and cosine of the fraction of each wave's turns, in float64 as in the core."""
    graph = parts.graph
    waves = [(i, wave) for i, column in enumerate(columns) for wave in range(column.waves)]
    if not waves:
        return
    x = graph.cast(graph.columns(x, [i for i, _ in waves]), np.float64)
    turns = graph.add("Mul", x, graph.constant([weight[-len(waves) :]], np.float64))
    part = graph.add("Sub", turns, graph.add("Round", turns))
    angle = graph.add("Mul", part, graph.constant(2 * np.pi, np.float64))
    for which, wave in enumerate(_sine_and_cosine(graph, angle)):
        keys = [(places[i], _first(columns[i]) + columns[i].pieces + which * columns[i].waves + k) for i, k in waves]
        parts.add(graph.cast(wave, graph.dtype), keys)


def _sine_and_cosine(graph: Graph, angle: str) -> list[str]:
    """cos(a) is sin(a + pi / 2): not every version of onnxruntime has Cos in float64."""
    quarter = graph.add("Add", angle, graph.constant(np.pi / 2, np.float64))
    return [graph.add("Sin", angle), graph.add("Sin", quarter)]


def _first(column: InputColumn) -> int:
    return 2 if column.kind == "gap" else 1


def _table(column: InputColumn, weight: np.ndarray | None, at: int) -> tuple[np.ndarray, int]:
    """Return (what each code becomes, where the next column's table begins); a code beyond all values becomes 0."""
    if column.kind == "onehot":
        return np.eye(column.values + 1, column.values), at
    end = at + column.parameters
    values = weight[at:end].reshape(column.values, column.width)
    return np.vstack([values, np.zeros((1, column.width))]), end


def column_inputs(graph: Graph, names: list[str], reads: list[str]) -> list[str]:
    """Add an input for each column of a table, (rows, 1). reads: number, text or date, of each."""
    types = {"number": np.float64, "date": np.float64, "text": str}
    return [graph.input(name, types[kind], (1,)) for name, kind in zip(names, reads, strict=True)]


class TableInputs:
    """The columns of a table, (rows, 1) each; read_by gives what an encoding makes of them.

    reads: number, text or date, of each column. missing: words that stand for a gap.
    """

    def __init__(self, graph: Graph, columns: list[str], reads: list[str], missing: Sequence[str]):
        self._graph, self._columns, self._missing = graph, columns, [*GAPS, *missing]
        self._numbers = [column for column, kind in zip(columns, reads, strict=True) if kind == "number"]

    def read_by(self, encoding: Encoding) -> Records:
        """Return the records of the rows (Encoding.apply)."""
        parts, codes = _Parts(self._graph), {}
        places = {place: number for number, place in enumerate(encoding.order)}
        self._add_numbers(parts, encoding, places)
        for index, (column, encoder) in enumerate(zip(self._columns, encoding.encoders, strict=True)):
            if isinstance(encoder, DateEncoder):
                for which, value in enumerate(self._date(column, encoder)):
                    parts.add(value, [places[index, which]])
            elif isinstance(encoder, TruthEncoder):
                parts.add(self._truth(column, encoder), [places[index, 0]])
            elif isinstance(encoder, CategoryEncoder):
                codes[places[index, 0]] = self._category(column, encoder)
        numbers = parts.joined() if len(codes) < len(places) else None
        return Records(numbers, [codes[place] for place in sorted(codes)])

    def _add_numbers(self, parts: _Parts, encoding: Encoding, places: dict) -> None:
        """Add the columns of numbers, scaled, with the median in a gap where training had none."""
        graph = self._graph
        known = [(i, encoder) for i, encoder in enumerate(encoding.encoders) if isinstance(encoder, NumberEncoder)]
        if not known:
            return
        shift, scale, median = (np.array([getattr(e, name) for _, e in known]) for name in ("shift", "scale", "median"))
        x = _rounded(graph, graph.joined(self._numbers), shift, scale)
        median[[encoder.unknown_share > 0 for _, encoder in known]] = np.nan
        x = graph.add("Where", graph.add("IsNaN", x), graph.constant([median], np.float64), x)
        x = graph.add("Sub", x, graph.constant([shift], np.float64))
        x = _divided(graph, x, [np.where(scale == 0, np.inf, scale)])
        parts.add(graph.cast(x, graph.dtype), [places[i, 0] for i, _ in known])

    def _truth(self, column: str, encoder: TruthEncoder) -> str:
        """Return 0 or 1 (rows, 1), the share of yes where the word is neither."""
        words = {spelling: int(truth) for word, truth in YES_NO.items() for spelling in spellings(word)}
        code = self._coded(column, words, 2)
        flat = self._graph.add("Gather", self._graph.constant([0.0, 1.0, encoder.share]), code)
        return self._graph.add("Reshape", flat, self._graph.constant([-1, 1], np.int64))

    def _category(self, column: str, encoder: CategoryEncoder) -> str:
        """Return the code of each row (rows,)."""
        words = [word for word in encoder.values if word is not None]
        every = Column("text", np.array([*range(len(words) + 1), -1]), [*words, UNSEEN])
        *codes, other, gap = encoder.encode(every)[0].tolist()
        known = dict(zip(words, codes, strict=True))
        return self._coded(column, {**dict.fromkeys(self._missing, gap), **known}, other)

    def _coded(self, column: str, words: dict[str, int], other: int) -> str:
        """Return the code of each row's word (rows,)."""
        graph = self._graph
        flat = graph.add("Reshape", column, graph.constant([-1], np.int64))
        return graph.add(
            "LabelEncoder", flat, domain="ai.onnx.ml", keys_strings=list(words), values_int64s=list(words.values()),
            default_int64=other,
        )  # fmt: skip

    def _date(self, seconds: str, encoder: DateEncoder) -> list[str]:
        """Return the inputs of a date, (rows, 1) each, of its seconds since 1970."""
        graph = self._graph
        is_gap = graph.add("IsNaN", seconds)
        known = graph.add("Where", is_gap, graph.constant(encoder.shift, np.float64), seconds)
        above = graph.add("Sub", known, graph.constant(encoder.shift, np.float64))
        trend = _divided(graph, above, encoder.scale or np.inf)
        if encoder.unknown_share:
            trend = graph.add("Where", is_gap, graph.constant(np.nan, np.float64), trend)
        others, of_known = [], _Float64(graph, known)
        for cycle in encoder.cycles:
            turns = _TURNS[cycle](of_known)
            others += _sine_and_cosine(graph, ((turns - turns.floor()) * (2 * np.pi)).name)
        for name in encoder.parts:
            shift, scale = PARTS[name]
            others.append(((part(of_known, name, _Float64.floor) - shift) / scale).name)
        values = [trend, *(graph.add("Where", is_gap, graph.constant(0, np.float64), value) for value in others)]
        return [graph.cast(value, graph.dtype) for value in values]


@dataclass(frozen=True)
class _Float64:
    """A value of a graph, float64, with which a formula computes as with an array."""

    graph: Graph
    name: str

    def floor(self) -> _Float64:
        return _Float64(self.graph, self.graph.add("Floor", self.name))

    def _with(self, other: _Float64 | float, op: str) -> _Float64:
        other = other.name if isinstance(other, _Float64) else self.graph.constant(other, np.float64)
        return _Float64(self.graph, self.graph.add(op, self.name, other))

    __add__, __sub__ = partialmethod(_with, op="Add"), partialmethod(_with, op="Sub")
    __mul__, __truediv__ = partialmethod(_with, op="Mul"), partialmethod(_with, op="Div")


_TURNS = {"year": lambda x: x / YEAR, "week": lambda x: (x / DAY).floor() / 7, "day": lambda x: x / DAY}
