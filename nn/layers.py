"""The layer grammar: `30,60,10,1` or `1x28x28,conv4k2same:relu,maxpool4,128,10` becomes
a list of layers.

    convF[kK][sS][pP|same]   F filters, kernel K (3), stride S (1), padding P (0) or
                             `same`
    padN                     N zeros around
    maxpoolK[sS] avgpoolK[sS]  windows of K, stride S (K)
    dropoutP                 sets the share P of its values to 0 while training
    flatten                  a vector from an image; implied before a dense layer
    N                        dense, N neurons
Any item may end in `:activation`, which becomes a layer of its own if its derivative
needs z (`from_input`).
The first item is the input: `30` or `CxHxW`. For a table with more than numbers it is
the number of feature columns of the file, and a layer that no item names comes first,
which encodes the values of a row (`InputColumn`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from .nn_aux import ACTIVATIONS, MOST_EDGES, MOST_WAVES, NO_STEP
from .utils import UsageError

Shape = tuple[int, int, int]

HIDDEN = "60,10"  # hidden layers where no layers are given
DROPOUT_DECIMALS = 3  # of a rate that --vary draws
LARGEST = 2**31 - 1  # of one layer's values and of one side: what the core counts in
MOST_PARAMETERS = 2**40
# the core keeps a few hundred bytes of each on the stacks of its threads
MOST_LAYERS = 10000
MOST_CODES = 2**24  # of one column: a code is exact in float32
# so that every share of a piece is a float32
FARTHEST_EDGE = 1e30
NEAREST_EDGES = 1e-30
COLUMN_KINDS = {  # kind of an input column -> its outputs
    "number": lambda column: 1 + column.pieces + 2 * column.waves,
    "gap": lambda column: 2 + column.pieces + 2 * column.waves,
    "onehot": lambda column: column.values,
    "embedding": lambda column: column.width,
}


class InputColumn(NamedTuple):
    """One value of a row, and what the embedding layer makes of it.

    number     itself
    gap        (x, 0), or (fill, 1) where x is nan
    onehot     `values` numbers for a code: 1 at the code, else 0; all of them 0 for a
               code >= values
    embedding  `width` numbers for a code 0 .. values-1: that row of a table (values,
               width), which is trained

    `edges`, e_0 < e_1 < ..., cut the axis of a number, with or without gaps, into
    pieces. Each adds an output after the usual ones: clip((v - e_i) / (e_(i+1) - e_i),
    0, 1), where v is x, or fill in a gap (Gorishniy et al. 2022). `waves` of a number
    add twice as many outputs at the end: sin(2 pi f_i v), then cos(2 pi f_i v), of
    frequencies f that are trained, and normal with this deviation at the start.
    """

    kind: str
    values: int = 0
    width: int = 0
    fill: float = 0.0
    edges: tuple[float, ...] = ()
    waves: int = 0
    deviation: float = 1.0

    @property
    def pieces(self) -> int:
        return max(len(self.edges) - 1, 0)

    @property
    def outputs(self) -> int:
        return COLUMN_KINDS[self.kind](self)

    @property
    def parameters(self) -> int:
        """Return the number of values of the column's table, 0 without one; frequencies
        are not counted."""
        if self.kind == "embedding":
            return self.values * self.width
        return 0


@dataclass(frozen=True)
class Layer:
    """One layer with its shapes, (channels, height, width); a vector of n values has
    shape (n, 1, 1)."""

    kind: str
    in_shape: Shape
    out_shape: Shape
    activation: str = "linear"
    kernel: int = 0
    stride: int = 1
    pad_top: int = 0
    pad_left: int = 0
    rate: float = 0.0
    item: str = ""  # as written, without the activation
    function: str = ""  # what a layer of kind activation computes
    columns: tuple[InputColumn, ...] = ()  # of an embedding layer: its inputs
    # of an embedding layer: the columns of the file that they come from
    features: int = 0

    @property
    def output_function(self) -> str:
        """Return the activation that gives the layer's outputs, whichever way it is
        computed."""
        return self.function or self.activation

    @cached_property
    def inputs(self) -> int:
        """Return the number of values that go in, of one row."""
        return math.prod(self.in_shape)

    @cached_property
    def outputs(self) -> int:
        """Return the number of values that come out, of one row."""
        return math.prod(self.out_shape)

    @cached_property
    def weight_shape(self) -> tuple[int, ...] | None:
        """Return dense (out, in), conv (out, in, kh, kw), embedding (its tables'
        values, one table after another, then its frequencies), None for a layer without
        parameters."""
        if self.kind == "dense":
            return (self.outputs, self.inputs)
        if self.kind == "conv":
            return (self.out_shape[0], self.in_shape[0], self.kernel, self.kernel)
        table_values = sum(column.parameters for column in self.columns)
        values = table_values + self.frequencies
        if values:
            return (values,)
        return None

    @property
    def frequencies(self) -> int:
        """Return how many frequencies of waves an embedding layer has, at the end of
        its weight."""
        return sum(column.waves for column in self.columns)

    @property
    def init(self) -> str | None:
        """Return the initialiser of the weight where --init names none; None: that of
        the activation."""
        if self.columns:
            return "lecun"
        return None

    @property
    def undecayed(self) -> int:
        """Return how many parameters at the end weight decay leaves alone: biases, or
        frequencies."""
        return self.biases + self.frequencies

    @property
    def biases(self) -> int:
        """Return the length of the bias vector, 0 for a layer without one."""
        if self.weight_shape and not self.columns:
            return self.out_shape[0]
        return 0

    @property
    def parameters(self) -> int:
        if self.weight_shape:
            return math.prod(self.weight_shape) + self.biases
        return 0

    @property
    def products(self) -> int:
        """Return the multiply-adds of a forward pass of a row."""
        if self.weight_shape:
            return self.outputs * self.fan_in
        return 0

    @property
    def fan_in(self) -> int:
        """Return how many values each output is a sum of, of a layer with a weight; 1
        of an embedding layer."""
        if self.columns:
            return 1
        return math.prod(self.weight_shape[1:])

    @property
    def fan_out(self) -> int:
        """Return how many outputs each input value goes into, borders left aside."""
        if self.kind == "conv":
            return self.out_shape[0] * self.kernel**2
        return self.outputs

    @property
    def weight_parts(self) -> list[tuple[int, int, int]]:
        """Return (values, fan_in, fan_out) of the parts of the weight that have initial
        values of a scale of their own: of each table, whose fans are its width, or of
        the whole weight. Frequencies are not a part."""
        if self.columns:
            return [
                (column.parameters, column.width, column.width)
                for column in self.columns
                if column.parameters
            ]
        return [(math.prod(self.weight_shape), self.fan_in, self.fan_out)]


def input_shape(layers: list[Layer]) -> int | Shape:
    """Return what a row of data must be for these layers: a number of values, or
    (channels, height, width); below an embedding layer the number of feature columns in
    the file."""
    if layers[0].columns:
        return layers[0].features
    shape = layers[0].in_shape
    if shape[1:] != (1, 1):
        return shape
    return shape[0]


# kinds that may come before the layer whose inputs have scales
_BEFORE_SCALES = ("embedding", "dropout", "flatten", "activation")


def scaled_layer(layers: Sequence[Layer]) -> Layer | None:
    """Return the layer whose inputs may have trained scales: the first dense one; None
    where a layer of images comes before it."""
    for layer in layers:
        if layer.kind == "dense":
            return layer
        if layer.kind not in _BEFORE_SCALES:
            return None
    return None


def parameter_shapes(layers: list[Layer]) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every weight and bias, `layer0.weight` the first; layers
    without any are not counted."""
    shapes = {}
    with_weight = [layer for layer in layers if layer.weight_shape]
    for i, layer in enumerate(with_weight):
        shapes[f"layer{i}.weight"] = layer.weight_shape
        if layer.biases:
            shapes[f"layer{i}.bias"] = (layer.biases,)
    return shapes


def parse(
    spec: str,
    activation: str = "relu",
    output_activation: str = "linear",
    columns: Sequence[InputColumn] = (),
) -> list[Layer]:
    """Return the layers of a specification with their shapes.

    `activation` goes to every dense and conv item that names none itself,
    `output_activation` to the last item. `columns`: the values of a row, in order, if
    an embedding layer is to encode them; the first item is then the number of feature
    columns they come from. Raises UsageError that points at the item.
    """
    return [*_parsed(spec, activation, output_activation, tuple(columns))]


@lru_cache(maxsize=64)  # the members of a model have the same layers
def _parsed(
    spec: str, activation: str, output_activation: str, columns: tuple[InputColumn, ...]
) -> tuple[Layer, ...]:
    """Return the layers that a specification describes, the embedding of `columns`
    first."""
    items = _items_of(spec)
    shape = _input_shape(items[0])
    layers = []
    if columns:
        layers.append(_embedding(spec, shape, columns))
        shape = layers[0].out_shape
    for number, item in enumerate(items[1:], start=2):
        is_last = number == len(items)
        word, named = _split_activation(item, is_last)
        for layer in _build(word, item, shape):
            if columns and layer.kind in IMAGE_KINDS:
                raise UsageError(
                    f"--layers: {item} is for images; a table with more than numbers has no images"
                )
            layers.append(layer)
            shape = layer.out_shape
        name = "linear"
        if is_last:
            name = output_activation
        elif layers[-1].weight_shape:
            name = activation
        layers[-1:] = _with_activation(layers[-1], named or name)
    _check_network(spec, layers)
    return tuple(layers)


def _items_of(spec: str) -> list[str]:
    """Return the items of a specification. Raises UsageError for too few or too many,
    and an empty one."""
    items = [item.strip() for item in spec.split(",")]
    if set("[]()") & set(spec):
        bare = re.sub(r"[][()\s]", "", spec).rstrip(",")
        raise UsageError(f"--layers {spec}: is written without brackets, {bare}")
    if not all(items):
        raise UsageError(
            f"--layers {spec}: an item is empty; write items with one comma between them"
        )
    words = re.split(r"[-;/ ]+", spec)
    if len(items) < 2 and len(words) > 1:
        raise UsageError(
            f"--layers {spec}: items have commas between them: {','.join(words)}"
        )
    if len(items) < 2:
        raise UsageError(
            f"--layers {spec}: needs an input and at least one layer, e.g. 30,60,10,1 or auto,{spec},1"
        )
    if len(items) > MOST_LAYERS:
        raise UsageError(f"--layers: {len(items)} items are more than {MOST_LAYERS}")
    return items


def _check_network(spec: str, layers: list[Layer]) -> None:
    """Raise UsageError for too many parameters, and softmax of one output."""
    if sum(layer.parameters for layer in layers) > MOST_PARAMETERS:
        raise UsageError(f"--layers {spec}: more than 2^40 parameters")
    last = layers[-1]
    of_one = ACTIVATIONS[last.activation].of_one
    if of_one and last.outputs < 2:
        raise UsageError(
            f"--layers {spec}: {last.activation} needs at least 2 outputs; use {of_one} for one"
        )


def completed(spec: str | None, row_shape: Sequence[int], outputs: int | None) -> str:
    """Return the specification of a network for rows of this shape.

    None: inputs, the usual hidden layers, outputs. A first item `auto` becomes the
    inputs.
    """
    shape = "x".join(map(str, row_shape))
    if spec is None:
        return f"{shape},{HIDDEN},{outputs}"
    if begins_auto(spec):
        return f"{shape},{spec.partition(',')[2]}"
    return spec


def begins_auto(spec: str) -> bool:
    """Return whether the inputs of a specification are those of the data."""
    return spec.split(",")[0].strip() == "auto"


def layers_with(layers: str, settings: dict) -> str:
    """Return --layers with the hidden layers and the dropout of drawn settings; as they
    are without any.

    hidden: in the place of the dense layers, and of dropout among them, before the last
    layer. dropout: the rate of all dropout layers; a network without any gets one
    behind each dense layer before the last.
    """
    items = [item.strip() for item in layers.split(",")]
    if "hidden" in settings:
        items = _with_hidden(items, settings["hidden"].split("-"))
    if "dropout" in settings:
        items = _with_dropout(
            items, f"dropout{round(settings['dropout'], DROPOUT_DECIMALS)}"
        )
    return ",".join(items)


def _with_hidden(items: list[str], hidden: list[str]) -> list[str]:
    beginning = len(items) - 1
    while beginning > 1 and (
        items[beginning - 1].partition(":")[0].isdigit()
        or _is_dropout(items[beginning - 1])
    ):
        beginning -= 1
    dropout = [item for item in items[beginning:-1] if _is_dropout(item)][:1]
    return [
        *items[:beginning],
        *(item for size in hidden for item in (size, *dropout)),
        items[-1],
    ]


def _with_dropout(items: list[str], dropout: str) -> list[str]:
    if any(map(_is_dropout, items)):
        return [dropout if _is_dropout(item) else item for item in items]
    last = len(items) - 1
    kept = []
    for place, item in enumerate(items):
        kept.append(item)
        is_hidden = 0 < place < last
        if is_hidden and item.partition(":")[0].isdigit():
            kept.append(dropout)
    return kept


def _is_dropout(item: str) -> bool:
    return item.startswith("dropout")


def describe(layers: Iterable[Layer]) -> list[dict]:
    """Return item, activation, output shape and parameters of each layer, as `--info
    --json` has them."""
    return [
        {
            "layer": layer.item or layer.kind,
            "activation": layer.output_function,
            "output": list(layer.out_shape),
            "parameters": layer.parameters,
        }
        for layer in layers
    ]


def _with_activation(layer: Layer, name: str) -> list[Layer]:
    """Return the layer with its activation: in itself, or followed by a layer that
    keeps z for the derivative."""
    if not ACTIVATIONS[name].from_input:
        return [replace(layer, activation=name)]
    return [layer, Layer("activation", layer.out_shape, layer.out_shape, function=name)]


def activations_of(layers: list[Layer]) -> list[str]:
    """Return the activation of each layer's item: its own, or that of the activation
    layer that follows."""
    following = [layer.function for layer in layers[1:]] + [""]
    return [
        function or layer.output_function
        for layer, function in zip(layers, following, strict=True)
    ]


def predict_alike(layers: list[Layer], other_layers: list[Layer]) -> bool:
    """Return whether layers compute the same from the same parameters, but for what
    dropout does while training."""
    if len(layers) != len(other_layers):
        return False
    pairs = zip(layers, other_layers, strict=True)
    return all(a == b or a.kind == b.kind == "dropout" for a, b in pairs)


def to_spec(layers: list[Layer]) -> str:
    """Return the specification of these layers, every activation named."""
    shape = input_shape(layers)
    items = [str(shape) if isinstance(shape, int) else "x".join(map(str, shape))]
    for layer, activation in zip(layers, activations_of(layers), strict=True):
        item = layer.item
        if not item:  # implied
            continue
        if layer.weight_shape or activation != "linear" or layer is layers[-1]:
            item += f":{activation}"
        items.append(item)
    return ",".join(items)


def _input_shape(item: str) -> Shape:
    if re.fullmatch(r"[0-9]{1,10}", item):
        shape = (int(item), 1, 1)
    elif match := re.fullmatch(r"([0-9]{1,10})x([0-9]{1,10})x([0-9]{1,10})", item):
        shape = tuple(map(int, match.groups()))
    else:
        raise UsageError(
            f"--layers: the first item is the input, e.g. 30 or 3x32x32, not {item!r}"
        )
    if min(shape) < 1 or math.prod(shape) > LARGEST:
        raise UsageError(
            f"--layers: the input {item} must have between 1 and {LARGEST} values"
        )
    return shape


def _embedding(spec: str, shape: Shape, columns: tuple[InputColumn, ...]) -> Layer:
    """Return the layer that encodes the values of a row; shape: of the first item."""
    if shape[1:] != (1, 1):
        raise UsageError(
            f"--layers {spec}: the input is an image, the data a table; begin with its number of columns"
        )
    for number, column in enumerate(columns, start=1):
        _check_column(f"input column {number}", column)
    outputs = sum(column.outputs for column in columns)
    if outputs > LARGEST:
        raise UsageError(
            f"--layers {spec}: the columns become {outputs} inputs, more than {LARGEST}"
        )
    return Layer(
        "embedding",
        (len(columns), 1, 1),
        (outputs, 1, 1),
        columns=columns,
        features=shape[0],
    )


def _check_column(name: str, column: InputColumn) -> None:
    """Raise UsageError for a column that no embedding layer can have."""
    if column.kind not in COLUMN_KINDS:
        raise UsageError(
            f"{name}: {column.kind!r} is no kind; the kinds are {', '.join(COLUMN_KINDS)}"
        )
    if column.kind in ("onehot", "embedding") and not 1 <= column.values <= MOST_CODES:
        raise UsageError(
            f"{name}: {column.values} different values; it must have between 1 and {MOST_CODES}"
        )
    if column.kind == "embedding" and not 1 <= column.width <= LARGEST:
        raise UsageError(
            f"{name}: a table {column.width} wide; it must be between 1 and {LARGEST} wide"
        )
    if column.kind not in ("number", "gap") and (column.edges or column.waves):
        words = "edges of pieces" if column.edges else "waves"
        raise UsageError(
            f"{name}: {words} for the kind {column.kind}; only number and gap have them"
        )
    _check_edges(name, column.edges)
    _check_waves(name, column)


def _check_edges(name: str, edges: Sequence[float]) -> None:
    """Raise UsageError for edges of pieces that are too many, too far or not apart."""
    if edges and not 2 <= len(edges) <= MOST_EDGES:
        raise UsageError(
            f"{name}: {len(edges)} edges of pieces; it must have none, or 2 to {MOST_EDGES}"
        )
    for edge in edges:
        if not abs(edge) <= FARTHEST_EDGE:
            raise UsageError(
                f"{name}: an edge at {edge}; it must be between -{FARTHEST_EDGE:g} and {FARTHEST_EDGE:g}"
            )
    for low, high in pairwise(edges):
        if not high - low >= NEAREST_EDGES:
            raise UsageError(
                f"{name}: an edge {high} after {low}; edges must ascend, by {NEAREST_EDGES:g} at least"
            )


def _check_waves(name: str, column: InputColumn) -> None:
    """Raise UsageError for waves that are too many, or of no deviation."""
    if not 0 <= column.waves <= MOST_WAVES:
        raise UsageError(
            f"{name}: {column.waves} waves; it must have between 0 and {MOST_WAVES}"
        )
    if column.waves and not 0 < column.deviation < math.inf:
        raise UsageError(
            f"{name}: waves of deviation {column.deviation}; it must be above 0 and finite"
        )


def _split_activation(item: str, last: bool) -> tuple[str, str | None]:
    word, colon, name = item.partition(":")
    if not colon:
        return item, None
    if name == "step":
        raise UsageError(f"--layers: {item}: {NO_STEP}")
    if name not in ACTIVATIONS:
        raise UsageError(
            f"--layers: {item}: no activation {name!r}; choose from {', '.join(ACTIVATIONS)}"
        )
    if ACTIVATIONS[name].couples_outputs and not last:
        raise UsageError(f"--layers: {item}: {name} is for the last layer only")
    return word, name


def _dense(match, item, shape):
    vector = (math.prod(shape), 1, 1)
    if shape != vector:
        yield Layer("flatten", shape, vector)
    yield Layer("dense", vector, (int(match[1]), 1, 1))


def _windows(
    item: str,
    shape: Shape,
    kernel: int,
    stride: int,
    padding: int = 0,
    same: bool = False,
):
    """Return (height, width) of the output and (top, left) zeros.

    Windows that do not fit are dropped. `same` is the rule of Keras: ceil(in / stride)
    outputs, the odd zero right and bottom.
    """
    if kernel < 1 or stride < 1:
        raise UsageError(f"--layers: {item}: kernel and stride must be at least 1")
    sides = []
    before = []
    for side in shape[1:]:
        if same:
            out = -(-side // stride)
            total = max((out - 1) * stride + kernel - side, 0)
            before.append(total // 2)
        else:
            out = (side + 2 * padding - kernel) // stride + 1
            before.append(padding)
        if out < 1:
            raise UsageError(
                f"--layers: {item} does not fit its input {'x'.join(map(str, shape))}"
            )
        sides.append(out)
    return sides, before


def _conv(match, item, shape):
    filters = int(match[1])
    kernel = int(match[2] or 3)
    stride = int(match[3] or 1)
    same = match[4] == "same"
    padding = 0
    if match[4] and not same:
        padding = int(match[4][1:])
    if max(kernel, stride, padding) > LARGEST:
        raise UsageError(f"--layers: {item}: a number is too large")
    (height, width), (top, left) = _windows(item, shape, kernel, stride, padding, same)
    yield Layer(
        "conv",
        shape,
        (filters, height, width),
        kernel=kernel,
        stride=stride,
        pad_top=top,
        pad_left=left,
    )


def _pool(match, item, shape):
    kernel = int(match[2])
    stride = int(match[3] or kernel)
    sides, _ = _windows(item, shape, kernel, stride)
    yield Layer(match[1], shape, (shape[0], *sides), kernel=kernel, stride=stride)


def _pad(match, item, shape):
    zeros = int(match[1])
    channels, height, width = shape
    out = (channels, height + 2 * zeros, width + 2 * zeros)
    yield Layer("pad", shape, out, pad_top=zeros, pad_left=zeros)


def _dropout(match, item, shape):
    rate = float(match[1])
    if not 0 <= rate < 1:
        raise UsageError(f"--layers: {item}: the share must be at least 0 and below 1")
    yield Layer("dropout", shape, shape, rate=rate)


def _flatten(match, item, shape):
    yield Layer("flatten", shape, (math.prod(shape), 1, 1))


LAYER_KINDS = {  # kind -> how its item is written
    "dense": "N (dense)",
    "conv": "convF[kK][sS][pP|same]",
    "maxpool": "maxpoolK[sS]",
    "avgpool": "avgpoolK[sS]",
    "pad": "padN",
    "dropout": "dropoutP",
    "flatten": "flatten",
    "activation": ":activation",  # of an item, where its derivative needs z
    # no item: what comes before the first one on a table with more than numbers
    "embedding": "",
}
IMAGE_KINDS = ("conv", "maxpool", "avgpool", "pad")
_N = r"([0-9]{1,10})"
# pattern of a whole item -> what makes its layers (one, or flatten and dense)
_GRAMMAR = {
    _N: _dense,
    rf"conv{_N}(?:k{_N})?(?:s{_N})?(p[0-9]{{1,10}}|same)?": _conv,
    rf"(maxpool|avgpool){_N}(?:s{_N})?": _pool,
    rf"pad{_N}": _pad,
    r"dropout([0-9]*\.?[0-9]+)": _dropout,
    r"flatten": _flatten,
}


def _check_size(item: str, layer: Layer) -> None:
    """Raise UsageError for a layer without outputs, and one of too many values."""
    if layer.outputs < 1:
        raise UsageError(f"--layers: {item}: must have at least 1 output")
    if max(layer.outputs, layer.kernel, layer.stride) > LARGEST:
        raise UsageError(
            f"--layers: {item}: {layer.outputs} values are more than {LARGEST}"
        )


def _build(word: str, item: str, shape: Shape):
    for pattern, make in _GRAMMAR.items():
        if match := re.fullmatch(pattern, word):
            layers = list(make(match, item, shape))
            for layer in layers:
                _check_size(item, layer)
            layers[-1] = replace(layers[-1], item=word)
            return layers
    forms = [form for form in LAYER_KINDS.values() if form and form[0] != ":"]
    items = ", ".join(forms)
    raise UsageError(
        f"--layers: cannot read {item!r}; items are {items}, each optionally with :activation"
    )
