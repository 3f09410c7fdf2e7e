"""The layer grammar: `30,60,10,1` or `1x28x28,conv4k2same:relu,maxpool4,128,10` becomes a list of layers.

    convF[kK][sS][pP|same]   F filters, kernel K (3), stride S (1), padding P (0) or `same`
    padN                     N zeros around
    maxpoolK[sS] avgpoolK[sS]  windows of K, stride S (K)
    dropoutP                 sets the share P of its values to 0 while training
    flatten                  a vector from an image; implied before a dense layer
    N                        dense, N neurons
Any item may end in `:activation`. The first item is the input: `30` or `CxHxW`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from .nn_aux import ACTIVATIONS
from .utils import UsageError

Shape = tuple[int, int, int]

LARGEST = 2**31 - 1  # of one layer's values and of one side: what the core counts in
MOST_PARAMETERS = 2**40


@dataclass(frozen=True)
class Layer:
    """One layer with its shapes, (channels, height, width); a vector of n values has shape (n, 1, 1)."""

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

    @property
    def inputs(self) -> int:
        """Values of one row that go in."""
        return math.prod(self.in_shape)

    @property
    def outputs(self) -> int:
        """Values of one row that come out."""
        return math.prod(self.out_shape)

    @property
    def weight_shape(self) -> tuple[int, ...] | None:
        """dense (out, in), conv (out, in, kh, kw), None for a layer without parameters."""
        if self.kind == "dense":
            return (self.outputs, self.inputs)
        if self.kind == "conv":
            return (self.out_shape[0], self.in_shape[0], self.kernel, self.kernel)
        return None

    @property
    def biases(self) -> int:
        """Length of the bias vector, 0 for a layer without parameters."""
        return self.out_shape[0] if self.weight_shape else 0

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return math.prod(self.weight_shape) + self.biases if self.weight_shape else 0

    @property
    def fan_in(self) -> int:
        """Values that each output is a sum of."""
        return math.prod(self.weight_shape[1:])

    @property
    def fan_out(self) -> int:
        """Outputs that each input value goes into, borders left aside."""
        return self.out_shape[0] * self.kernel**2 if self.kind == "conv" else self.outputs


def parse(spec: str, activation: str = "relu", output_activation: str = "linear") -> list[Layer]:
    """Layers of a specification, shapes worked out.

    `activation` goes to every dense and conv item that names none itself, `output_activation` to the last item.
    Raises UsageError that points at the item.
    """
    items = [item.strip() for item in spec.split(",")]
    if not all(items):
        raise UsageError(f"--layers {spec}: an item is empty; write items with one comma between them")
    if len(items) < 2:
        raise UsageError(f"--layers {spec}: needs an input and at least one layer, e.g. 30,60,10,1")
    shape = _input_shape(items[0])
    layers: list[Layer] = []
    for number, item in enumerate(items[1:], start=2):
        last = number == len(items)
        word, named = _split_activation(item, last)
        for layer in _build(word, item, shape):
            layers.append(layer)
            shape = layer.out_shape
        default = output_activation if last else activation if layers[-1].weight_shape else "linear"
        layers[-1] = replace(layers[-1], activation=named or default)
    if sum(layer.parameters for layer in layers) > MOST_PARAMETERS:
        raise UsageError(f"--layers {spec}: more than 2^40 parameters")
    if layers[-1].activation == "softmax" and layers[-1].outputs < 2:
        raise UsageError(f"--layers {spec}: softmax needs at least 2 outputs; use sigmoid for one")
    return layers


def to_spec(layers: list[Layer]) -> str:
    """The specification that gives these layers again, every activation named."""
    first = layers[0].in_shape
    items = [str(first[0]) if first[1:] == (1, 1) else "x".join(map(str, first))]
    for index, layer in enumerate(layers):
        implied = layer.kind == "flatten" and not layer.item
        if implied:
            continue
        last = index == len(layers) - 1
        named = layer.weight_shape or layer.activation != "linear" or last
        items.append(layer.item + (f":{layer.activation}" if named else ""))
    return ",".join(items)


def _input_shape(item: str) -> Shape:
    if re.fullmatch(r"[0-9]{1,10}", item):
        shape = (int(item), 1, 1)
    elif match := re.fullmatch(r"([0-9]{1,10})x([0-9]{1,10})x([0-9]{1,10})", item):
        shape = tuple(map(int, match.groups()))
    else:
        raise UsageError(f"--layers: the first item is the input, e.g. 30 or 3x32x32, not {item!r}")
    if min(shape) < 1 or math.prod(shape) > LARGEST:
        raise UsageError(f"--layers: the input {item} must have between 1 and {LARGEST} values")
    return shape


def _split_activation(item: str, last: bool) -> tuple[str, str | None]:
    word, colon, name = item.partition(":")
    if not colon:
        return item, None
    if name not in ACTIVATIONS:
        raise UsageError(f"--layers: {item}: no activation {name!r}; there are {', '.join(ACTIVATIONS)}")
    if name == "softmax" and not last:
        raise UsageError(f"--layers: {item}: softmax is for the last layer only")
    return word, name


def _number(text: str | None, default: int) -> int:
    return default if text is None else int(text)


def _dense(match, item, shape):
    if shape[1:] != (1, 1):
        yield Layer("flatten", shape, (math.prod(shape), 1, 1))
        shape = (math.prod(shape), 1, 1)
    yield Layer("dense", shape, (int(match[1]), 1, 1))


def _windows(item: str, shape: Shape, kernel: int, stride: int, padding: int = 0, same: bool = False):
    """(height, width) of the output and (top, left) zeros. Windows that do not fit are dropped; `same` is
    Keras's rule: ceil(in / stride) outputs, the odd zero right and bottom."""
    if kernel < 1 or stride < 1:
        raise UsageError(f"--layers: {item}: kernel and stride must be at least 1")
    sides, before = [], []
    for side in shape[1:]:
        if same:
            out = -(-side // stride)
            total = max((out - 1) * stride + kernel - side, 0)
            before.append(total // 2)
        else:
            out = (side + 2 * padding - kernel) // stride + 1
            before.append(padding)
        if out < 1:
            raise UsageError(f"--layers: {item} does not fit its input {'x'.join(map(str, shape))}")
        sides.append(out)
    return sides, before


def _conv(match, item, shape):
    filters, kernel, stride = int(match[1]), _number(match[2], 3), _number(match[3], 1)
    same, padding = match[4] == "same", int((match[4] or "p0")[1:]) if match[4] != "same" else 0
    if max(kernel, stride, padding) > LARGEST:
        raise UsageError(f"--layers: {item}: a number is too large")
    (height, width), (top, left) = _windows(item, shape, kernel, stride, padding, same)
    yield Layer(
        "conv", shape, (filters, height, width), kernel=kernel, stride=stride, pad_top=top, pad_left=left
    )


def _pool(match, item, shape):
    kernel = int(match[2])
    stride = _number(match[3], kernel)
    (height, width), _ = _windows(item, shape, kernel, stride)
    yield Layer(match[1], shape, (shape[0], height, width), kernel=kernel, stride=stride)


def _pad(match, item, shape):
    zeros = int(match[1])
    out = (shape[0], shape[1] + 2 * zeros, shape[2] + 2 * zeros)
    yield Layer("pad", shape, out, pad_top=zeros, pad_left=zeros)


def _dropout(match, item, shape):
    rate = float(match[1])
    if not 0 <= rate < 1:
        raise UsageError(f"--layers: {item}: the share must be at least 0 and below 1")
    yield Layer("dropout", shape, shape, rate=rate)


def _flatten(match, item, shape):
    yield Layer("flatten", shape, (math.prod(shape), 1, 1))


_N = r"([0-9]{1,10})"
_GRAMMAR = {  # pattern of a whole item -> what makes its layers (one, or flatten and dense)
    _N: _dense,
    rf"conv{_N}(?:k{_N})?(?:s{_N})?(p[0-9]{{1,10}}|same)?": _conv,
    rf"(maxpool|avgpool){_N}(?:s{_N})?": _pool,
    rf"pad{_N}": _pad,
    r"dropout([0-9]*\.?[0-9]+)": _dropout,
    r"flatten": _flatten,
}


def _build(word: str, item: str, shape: Shape):
    for pattern, make in _GRAMMAR.items():
        if match := re.fullmatch(pattern, word):
            layers = list(make(match, item, shape))
            for layer in layers:
                if layer.outputs < 1:
                    raise UsageError(f"--layers: {item}: must have at least 1 output")
                if max(layer.outputs, *layer.out_shape, layer.kernel, layer.stride) > LARGEST:
                    raise UsageError(f"--layers: {item}: {layer.outputs} values are more than {LARGEST}")
            layers[-1] = replace(layers[-1], item=word)
            return layers
    raise UsageError(
        f"--layers: cannot read {item!r}; items are N (dense), convF[kK][sS][pP|same], maxpoolK[sS], avgpoolK[sS], "
        "padN, dropoutP, flatten, each with :activation if wanted"
    )
