"""The dense networks of an ensemble as batched products: a value of shape (members,
rows, numbers) holds what all members of one shape compute.

Columns of words are tables: what the first layer makes of a word is known when the file
is written (WordTable). All numbers of a row are scaled, cut into pieces and made waves
together (NumberAxes).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...data.column import Column
from ...data.encoders import CategoryEncoder, DateEncoder, TruthEncoder
from ...data.written import YES_NO, Order
from ...layers import InputColumn, Layer
from .columns import UNSEEN, are_rounded, input_kind, spellings, units
from .onnx_graph import Graph

_DENSE_KINDS = ("dense", "dropout", "activation", "embedding")


def are_batched(net) -> bool:
    """Return whether the members of a network are computed as batched products."""
    targets = {_bounds_of_targets(member) for member in net.members}
    return net.is_combined and len(targets) == 1 and all(map(_is_batched, net.members))


def _bounds_of_targets(member) -> tuple[bool, bool]:
    """Return whether a member's outputs are scaled back, and whether they are cut."""
    if units(member) is None:
        return False, False
    return True, len(member.target_scaling.low) > 0


def _is_batched(member) -> bool:
    kinds = [layer.kind for layer in member.layers]
    if not set(kinds) <= {*_DENSE_KINDS} or member.scaling.kind == "pixel":
        return False
    before = (
        member.layers[: kinds.index("dense")] if "dense" in kinds else member.layers
    )
    if any(
        layer.kind == "activation" or layer.activation != "linear" for layer in before
    ):
        return False
    encoders = member.encoding.encoders if member.encoding else ()
    return "dense" in kinds and not any(map(_has_inputs_beyond, encoders))


def _has_inputs_beyond(encoder) -> bool:
    """Return whether a column has inputs that are neither one number nor of words."""
    return isinstance(encoder, DateEncoder) or bool(getattr(encoder, "frequent", ()))


class Input(NamedTuple):
    """One input of a member: of which column of the table, what it becomes, what was
    trained of it (a table, or frequencies), and its rows of the first dense layer's
    weight."""

    place: int
    which: int
    column: InputColumn
    learned: np.ndarray
    weight: np.ndarray  # (outputs of the column, outputs of the layer)


class Member:
    """A dense network of an ensemble, seen from its first dense layer.

    number: its place among the members. inputs: in the order of a record. bias: of the
    first dense layer; rest: (layer, weight, bias) of all layers from that one on, whose
    own are left out.
    """

    def __init__(self, number: int, net):
        parameters = net.parameters()
        self.number = number
        self.encoding = net.encoding
        self.scaling = net.scaling
        self.number_type = net.number_type
        self.dtype = np.dtype(net.dtype)
        count = 0
        self.layers = []
        for layer in net.layers:
            weight = parameters.get(f"layer{count}.weight")
            bias = parameters.get(f"layer{count}.bias")
            if layer.kind in ("dense", "activation"):
                self.layers.append(BatchedLayer(count, layer, weight, bias))
            count += layer.weight_shape is not None
        self.embedding = parameters["layer0.weight"] if net.layers[0].columns else None
        self.inputs = self._inputs(net)
        self.bias = self.layers[0].bias

    def _inputs(self, net) -> list[Input]:
        """Return the inputs, of plain numbers too."""
        weight = self.layers[0].weight.T
        if net.encoding is None:
            columns = [InputColumn("number")] * len(weight)
            places = [(place, 0) for place in range(len(weight))]
        else:
            columns = net.encoding.columns
            places = net.encoding.order
        inputs = []
        table = 0
        wave = sum(column.parameters for column in columns)
        row = 0
        for (place, which), column in zip(places, columns, strict=True):
            learned = np.zeros(0)
            if column.parameters:
                learned = self.embedding[table : table + column.parameters]
                learned = learned.reshape(column.values, column.width)
            elif column.waves:
                learned = self.embedding[wave : wave + column.waves]
            rows = weight[row : row + column.outputs]
            inputs.append(Input(place, which, column, learned, rows))
            table += column.parameters
            wave += column.waves
            row += column.outputs
        return inputs

    def is_number(self, place: int) -> bool:
        return (
            self.encoding is None or input_kind(self.encoding.encoders[place]) != "text"
        )

    def axes(self) -> list[Input]:
        """Return the inputs that are numbers of the table."""
        return [axis for axis in self.inputs if self.is_number(axis.place)]

    def words(self) -> dict[int, list[Input]]:
        """Return the inputs of each column of words, by its place."""
        columns = {}
        for source in self.inputs:
            if not self.is_number(source.place):
                columns.setdefault(source.place, []).append(source)
        return columns

    def is_rounded(self, place: int) -> bool:
        """Return whether the numbers of a column are read as float32."""
        if self.encoding is None:
            shift = self.scaling.shift
            scale = self.scaling.scale
        else:
            encoders = self.encoding.encoders
            if encoders[place].kind != "number":
                return False
            numbers = [encoder for encoder in encoders if encoder.kind == "number"]
            shift = np.array([encoder.shift for encoder in numbers])
            scale = np.array([encoder.scale for encoder in numbers])
        return are_rounded(self.dtype, shift, scale, self.number_type)

    def scale_of(self, place: int) -> tuple[float, float]:
        """Return shift and scale of a column of numbers; a scale of 0 is infinite."""
        if self.encoding is not None:
            encoder = self.encoding.encoders[place]
            return float(encoder.shift), float(encoder.scale or np.inf)
        if not len(self.scaling.shift):
            return 0.0, 1.0
        return float(self.scaling.shift[place]), float(self.scaling.scale[place])

    def fill_of(self, axis: Input) -> float:
        """Return what a gap becomes, nan where it stays one."""
        if axis.column.kind == "gap":
            return axis.column.fill
        if self.encoding is None:
            return np.nan
        shift, scale = self.scale_of(axis.place)
        return (self.encoding.encoders[axis.place].median - shift) / scale


class BatchedLayer(NamedTuple):
    """A dense layer or an activation of a member. number: of its parameters."""

    number: int
    layer: Layer
    weight: np.ndarray | None
    bias: np.ndarray | None


def shape_of(member: Member) -> tuple:
    """Return what members have in common that compute together from the second dense
    layer on."""
    layers = [layer for _, layer, _, _ in member.layers]
    first = layers[0]
    others = [
        (layer.kind, layer.function, layer.activation, layer.outputs)
        for layer in layers[1:]
    ]
    return (first.outputs, first.activation, *others)


def inputs_shape(member: Member) -> tuple:
    """Return what members have in common that also read their inputs together."""
    axes = [
        (axis.place, axis.column.waves, bool(axis.column.pieces))
        for axis in member.axes()
    ]
    rounded = [member.is_rounded(axis.place) for axis in member.axes()]
    return (*shape_of(member), tuple(axes), tuple(rounded), tuple(member.words()))


def grouped(members: Iterable[Member], key) -> list[list[Member]]:
    groups = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return list(groups.values())


def group_name(members: list[Member]) -> str:
    """Return what initializers of some members begin with: member3, members0-7."""
    numbers = [member.number for member in members]
    if len(numbers) == 1:
        return f"member{numbers[0]}"
    if numbers == [*range(numbers[0], numbers[-1] + 1)]:
        return f"members{numbers[0]}-{numbers[-1]}"
    return "members" + ",".join(map(str, numbers))


# ------------------------------------------------------------------------- words


@dataclass(frozen=True)
class Vocabulary:
    """The words of a column, as files write them, that any member knows or takes for a
    gap; the place of a word is its code, that of all others one more."""

    words: list[str]
    missing: frozenset[str]

    @classmethod
    def of(cls, encoders: list, missing: Iterable[str]) -> Vocabulary:
        words = set(missing)
        for encoder in encoders:
            words.update(_forms(encoder))
        return cls(sorted(words), frozenset(missing))

    def column(self, encoder) -> Column:
        """Return a column with each word in turn, and a word that nobody knows, for an
        encoder."""
        forms = set(_forms(encoder))
        if isinstance(encoder.written, Order):
            forms -= self.missing
        words = self.words
        if isinstance(encoder, CategoryEncoder):
            words = map(encoder.canonical, words)
        codes = np.arange(len(self.words) + 1)
        for code, word in enumerate(self.words):
            if word in self.missing and word not in forms:
                codes[code] = -1
        return Column("text", codes, [*words, UNSEEN])


def _forms(encoder) -> list[str]:
    """Return the words that have a value, however files write them."""
    if isinstance(encoder.written, Order):
        return list(encoder.written.ranks_of_forms())
    if isinstance(encoder, TruthEncoder):
        return [spelling for word in YES_NO for spelling in spellings(word)]
    forms = []
    for word in (*encoder.values, *encoder.means):
        if word is not None:
            forms += encoder.forms(word)
    return forms


def word_features(
    encoder, inputs: list[Input], vocabulary: Vocabulary, dtype
) -> np.ndarray:
    """Return what the embedding layer makes of each code (codes, outputs of inputs)."""
    values = encoder.encode(vocabulary.column(encoder))
    parts = [
        _features(values[source.which], source.column, source.learned, dtype)
        for source in inputs
    ]
    return np.hstack(parts)


def _features(values: np.ndarray, column: InputColumn, learned, dtype) -> np.ndarray:
    if column.kind == "onehot":
        return np.eye(column.values + 1, column.values)[values]
    if column.kind == "embedding":
        return np.vstack([learned, np.zeros((1, column.width))])[values]
    x = values.astype(dtype)[:, None]
    parts = [x]
    if column.kind == "gap":
        is_gap = np.isnan(x)
        x = np.where(is_gap, dtype.type(column.fill), x)
        parts = [x, is_gap]
    if column.pieces:
        low, widths, is_step = pieces_of(column, column.pieces, dtype)
        shares = np.clip((x - low) / widths, 0, 1)
        parts.append(np.where(is_step, x >= low, shares))
    if column.waves:
        turns = x.astype(np.float64) * learned
        angle = (turns - np.round(turns)) * (2 * np.pi)
        parts += [np.sin(angle), np.cos(angle)]
    return np.hstack(parts)


def pieces_of(column: InputColumn, count: int, dtype) -> tuple[np.ndarray, ...]:
    """Return the lower ends of a column's pieces, their widths, and which of them are
    steps, that have none; as many as `count`, of which the last ones may mean
    nothing."""
    edges = np.array(column.edges, dtype)
    low = np.zeros(count, dtype)
    widths = np.ones(count, dtype)
    low[: column.pieces] = edges[:-1]
    widths[: column.pieces] = np.diff(edges)
    return low, np.where(widths == 0, 1, widths).astype(dtype), widths == 0


class Words:
    """The columns of words: the code of each row's word in each of them. Words that no
    member tells from each other have one code.

    columns: a value of the graph, (rows, 1), of each column of the table.
    """

    def __init__(
        self, graph: Graph, columns: list[str], members: list[Member], missing
    ):
        self._graph = graph
        self._features: dict[tuple[int, int], np.ndarray] = {}
        self._codes: dict[int, str] = {}
        self._sizes: dict[int, int] = {}
        self._joined: dict[tuple, str] = {}
        for place in {place: None for member in members for place in member.words()}:
            readers = [member for member in members if member.encoding]
            self._add(columns[place], place, readers, missing)

    def _add(self, column: str, place: int, members: list[Member], missing) -> None:
        encoders = [member.encoding.encoders[place] for member in members]
        vocabulary = Vocabulary.of(encoders, missing)
        features = []
        for member, encoder in zip(members, encoders, strict=True):
            inputs = member.words()[place]
            features.append(word_features(encoder, inputs, vocabulary, member.dtype))
        _, words, codes = np.unique(
            np.hstack(features), axis=0, return_index=True, return_inverse=True
        )
        for member, of_member in zip(members, features, strict=True):
            self._features[member.number, place] = of_member[words]
        *codes, other = codes.ravel().tolist()
        self._sizes[place] = len(words)
        self._codes[place] = self._graph.add(
            "LabelEncoder",
            column,
            domain="ai.onnx.ml",
            keys_strings=vocabulary.words,
            values_int64s=codes,
            default_int64=other,
        )

    def features(self, member: Member, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the features of each code of a column, and the rows of the first dense
        layer that they are for."""
        weights = [source.weight for source in member.words()[place]]
        return self._features[member.number, place], np.vstack(weights)

    def codes(self, places: list[int]) -> str:
        """Return the codes of the columns (rows, places), counted on from one to the
        next."""
        key = tuple(places)
        if key not in self._joined:
            sizes = [self._sizes[place] for place in places]
            starts = np.cumsum([0, *sizes[:-1]])
            graph = self._graph
            codes = graph.joined([self._codes[place] for place in places])
            if len(places) > 1:
                codes = graph.add("Add", codes, graph.constant([starts], np.int64))
            self._joined[key] = codes
        return self._joined[key]


# --------------------------------------------------------------------- first layer


class FirstLayer:
    """The first dense layer of members that read their inputs alike."""

    def __init__(self, graph: Graph, members: list[Member]):
        self._graph = graph
        self._members = members
        self._name = group_name(members)
        self._parts: list[str] = []
        self._weights: list[np.ndarray] = []
        self._outputs = members[0].layers[0].layer.outputs

    def sums(self, table: Table, words: Words) -> str:
        """Return its sums (members, rows, outputs), without bias."""
        self._add_numbers(table)
        folded = self._add_words(words)
        graph = self._graph
        name = f"{self._name}/layer{self._members[0].layers[0].number}"
        sums = []
        if self._parts:
            weights = np.concatenate(self._weights, axis=1)
            x = graph.joined(self._parts, axis=-1)
            weight = graph.constant(weights, name=f"{name}/weight")
            sums.append(graph.add("MatMul", x, weight))
        if folded:
            products, codes = folded
            of_words = graph.constant(products, name=f"{name}/weight_of_words")
            gathered = graph.add("Gather", of_words, codes, axis=1)
            columns = graph.constant([2], np.int64)
            sums.append(graph.add("ReduceSum", gathered, columns, keepdims=0))
        if len(sums) == 2:
            return graph.add("Add", *sums)
        return sums[0]

    # ---- numbers

    def _add_numbers(self, table: Table) -> None:
        axes = [member.axes() for member in self._members]
        if not axes[0]:
            return
        x, is_gap = table.scaled(self._members)
        self._add(x, [[axis.weight[:1] for axis in row] for row in axes])
        gaps = [
            axis
            for axis, column in enumerate(zip(*axes, strict=True))
            if _has_gap(column)
        ]
        if gaps:
            flags = self._graph.cast(is_gap, self._graph.dtype)
            if len(gaps) < len(axes[0]):
                flags = self._graph.columns(flags, gaps)
            self._add(
                flags, [[_flag_weight(row[axis]) for axis in gaps] for row in axes]
            )
        self._add_pieces(x, axes)
        self._add_waves(x, axes)

    def _add(self, value: str, weights: list[list[np.ndarray]]) -> None:
        """Add inputs of the layer (members, rows, inputs) and their rows of each
        member's weight."""
        self._parts.append(value)
        self._weights.append(np.stack([np.vstack(rows) for rows in weights]))

    def _add_pieces(self, x: str, axes: list[list[Input]]) -> None:
        """Add how much of each piece lies below each number. Members have as many as
        the one with the most; those that they lack have no weight."""
        counts = [
            max(axis.column.pieces for axis in column)
            for column in zip(*axes, strict=True)
        ]
        if not sum(counts):
            return
        graph = self._graph
        places = np.repeat(np.arange(len(counts)), counts)
        parts = [
            np.hstack(
                [
                    pieces_of(axis.column, count, graph.dtype)
                    for axis, count in zip(row, counts, strict=True)
                ]
            )
            for row in axes
        ]
        low, widths, is_step = np.stack(parts, axis=1)[:, :, None]
        lower = graph.constant(low, name=f"{self._name}/pieces/low")
        width = graph.constant(widths, name=f"{self._name}/pieces/width")
        v = graph.columns(x, places)
        shares = graph.clip(graph.add("Div", graph.add("Sub", v, lower), width), 0, 1)
        if is_step.any():
            steps = graph.cast(graph.add("GreaterOrEqual", v, lower), graph.dtype)
            shares = graph.add("Where", graph.constant(is_step, bool), steps, shares)
        weights = [
            [
                _piece_weight(axis, count)
                for axis, count in zip(row, counts, strict=True)
            ]
            for row in axes
        ]
        self._add(shares, weights)

    def _add_waves(self, x: str, axes: list[list[Input]]) -> None:
        """Add sines and cosines, which are sines of a quarter of a turn more; the
        fraction of each wave's turns is taken in float64, as in the core."""
        counts = [2 * axis.column.waves for axis in axes[0]]
        if not sum(counts):
            return
        graph = self._graph
        places = np.repeat(np.arange(len(counts)), counts)
        frequencies = np.stack(
            [[np.hstack([np.tile(axis.learned, 2) for axis in row])] for row in axes]
        )
        quarters = [np.repeat([0, np.pi / 2], axis.column.waves) for axis in axes[0]]
        v = graph.cast(graph.columns(x, places), np.float64)
        name = f"{self._name}/waves/frequency"
        turns = graph.add("Mul", v, graph.constant(frequencies, np.float64, name=name))
        unity = graph.constant(1, np.float64)
        fraction = graph.add("Mod", turns, unity, fmod=1)
        angle = graph.add("Mul", fraction, graph.constant(2 * np.pi, np.float64))
        phase = graph.constant(np.hstack(quarters), np.float64)
        waves = graph.add("Sin", graph.add("Add", angle, phase))
        weights = [
            [
                axis.weight[len(axis.weight) - count :]
                for axis, count in zip(row, counts, strict=True)
            ]
            for row in axes
        ]
        self._add(graph.cast(waves, graph.dtype), weights)

    # ---- words

    def _add_words(self, words: Words) -> tuple[np.ndarray, str] | None:
        """Return what the layer makes of words, (members, codes, outputs), with the
        codes of rows. Columns of many words are left out, whose features take less
        room; these are inputs."""
        folded = []
        beside = []
        for place in self._members[0].words():
            columns = [words.features(member, place) for member in self._members]
            codes = len(columns[0][0])
            width = max(features.shape[1] for features, _ in columns)
            products = [features @ weight for features, weight in columns]
            if codes <= 2 * width + 2:
                folded.append((place, np.stack(products)))
            else:
                beside.append((place, width, columns))
        if beside:
            self._add_features(words, beside)
        if not folded:
            return None
        table = np.concatenate([products for _, products in folded], axis=1)
        return table, words.codes([place for place, _ in folded])

    def _add_features(self, words: Words, columns: list) -> None:
        widest = max(width for _, width, _ in columns)
        tables = []
        weights = [[] for _ in self._members]
        for _, _, of_members in columns:
            tables.append(
                np.stack(
                    [_padded(features, widest, axis=1) for features, _ in of_members]
                )
            )
            for rows, (_, weight) in zip(weights, of_members, strict=True):
                rows.append(_padded(weight, widest, axis=0))
        graph = self._graph
        table = graph.constant(
            np.concatenate(tables, axis=1), name=f"{self._name}/words"
        )
        codes = words.codes([place for place, _, _ in columns])
        gathered = graph.add("Gather", table, codes, axis=1)
        shape = graph.constant([0, 0, -1], np.int64)
        self._add(graph.add("Reshape", gathered, shape), weights)


def _has_gap(column: tuple[Input, ...]) -> bool:
    return any(axis.column.kind == "gap" for axis in column)


def _flag_weight(axis: Input) -> np.ndarray:
    if axis.column.kind == "gap":
        return axis.weight[1:2]
    return np.zeros_like(axis.weight[:1])


def _piece_weight(axis: Input, count: int) -> np.ndarray:
    first = 2 if axis.column.kind == "gap" else 1
    return _padded(axis.weight[first : first + axis.column.pieces], count, axis=0)


def _padded(array: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Return an array with zeros behind, as many along an axis as size says."""
    missing = [(0, 0), (0, 0)]
    missing[axis] = (0, size - array.shape[axis])
    return np.pad(array, missing)


class Table:
    """The numbers of rows, float64, and as the first layers read them.

    numbers: how to get some columns of the table as a value (rows, columns). has_gaps:
    whether these may be nan.
    """

    def __init__(self, graph: Graph, numbers, has_gaps: bool):
        self._graph = graph
        self._numbers = numbers
        self._has_gaps = has_gaps
        # of a scale that two ways of computing give float32 networks keep no more
        self._digits = 11 if graph.dtype == np.float32 else 17
        self._scaled: dict[tuple, tuple[str, str]] = {}
        self._raw: dict[tuple, str] = {}

    def scaled(self, members: list[Member]) -> tuple[str, str]:
        """Return the numbers that members read, scaled, without gaps; and which were
        gaps. (members, rows, columns) each. Members that read alike share them."""
        axes = [member.axes() for member in members]
        places = [axis.place for axis in axes[0]]
        scales = [[member.scale_of(place) for place in places] for member in members]
        fills = [
            [member.fill_of(axis) for axis in row]
            for member, row in zip(members, axes, strict=True)
        ]
        if not self._has_gaps and not any(map(_has_gap, axes)):
            fills = np.full_like(fills, np.nan).tolist()
        rounded = [members[0].is_rounded(place) for place in places]
        constants = [*np.ravel(scales), *np.ravel(fills)]
        texts = [f"{value:.{self._digits}e}" for value in constants]
        key = (*places, *rounded, *texts)
        if key not in self._scaled:
            shift, scale = np.moveaxis(np.array(scales, np.float64), -1, 0)[:, :, None]
            fill = np.array(fills)[:, None]
            raw = self._rounded(places, rounded)
            name = f"{group_name(members)}/numbers"
            self._scaled[key] = self._filled(raw, shift, scale, fill, name)
        return self._scaled[key]

    def _filled(self, raw: str, shift, scale, fill, name: str) -> tuple[str, str]:
        graph = self._graph
        above = graph.add(
            "Sub", raw, graph.constant(shift, np.float64, name=f"{name}/shift")
        )
        divisor = graph.constant(scale, np.float64, name=f"{name}/scale")
        x = graph.cast(graph.add("Div", above, divisor), graph.dtype)
        if np.isnan(fill).all():
            return x, ""
        is_gap = graph.add("IsNaN", x)
        of_gap = graph.constant(fill, name=f"{name}/gap")
        return graph.add("Where", is_gap, of_gap, x), is_gap

    def _rounded(self, places: list[int], rounded: list[bool]) -> str:
        """Return columns as float64, some of them rounded as float32 networks' files
        are."""
        key = tuple(places), tuple(rounded)
        if key not in self._raw:
            self._raw[key] = self._rounded_columns(places, np.array(rounded))
        return self._raw[key]

    def _rounded_columns(self, places: list[int], rounded: np.ndarray) -> str:
        graph = self._graph
        if not rounded.any():
            return self._numbers(places)
        if rounded.all():
            as_float32 = graph.cast(self._numbers(places), np.float32)
            return graph.cast(as_float32, np.float64)
        whole = self._numbers(places)
        as_float32 = graph.cast(graph.cast(whole, np.float32), np.float64)
        return graph.add("Where", graph.constant([rounded], bool), as_float32, whole)
