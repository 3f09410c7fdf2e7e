"""Each layer of a network as operators of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...layers import Layer
from ...utils import UsageError
from .onnx_graph import Graph
from .onnx_inputs import Records

FLOAT32_ONLY = ("conv", "avgpool", "gelu")  # layer kinds and activations that onnxruntime does not have in float64


def check_float64(path, layers: list[Layer]) -> None:
    """Raise UsageError for a layer that onnxruntime has in float32 only."""
    for layer in layers:
        for name in (layer.kind, layer.output_function):
            if name in FLOAT32_ONLY:
                what = f"layer {layer.item}" if layer.item else f"activation {name}"
                raise UsageError(
                    f"{path}: {what}: onnxruntime has no {name} in float64; add --dtype float32, or train in float32"
                )


def outputs_of(graph: Graph, layers: list[Layer], parameters: dict[str, np.ndarray], x: str | Records) -> str:
    """Return the outputs (rows, outputs) of a network's layers.

    parameters: as Network.parameters names them. x: what the first layer gets.
    """
    number, is_image = 0, layers[0].in_shape[1:] != (1, 1)
    for layer in layers:
        if layer.kind in _OF_IMAGES and not is_image:
            x, is_image = graph.add("Reshape", x, graph.constant([-1, *layer.in_shape], np.int64)), True
        if is_image and (layer.kind in _OF_VECTORS or layer.activation == "softmax"):
            x, is_image = _flat(graph, x), False
        weight, bias = (parameters.get(f"layer{number}.{part}") for part in ("weight", "bias"))
        number += layer.weight_shape is not None
        x = _KINDS[layer.kind](graph, layer, x, weight, bias)
        x = _ACTIVATIONS[layer.activation](graph, x)
    return _flat(graph, x) if is_image else x


def _flat(graph: Graph, x: str) -> str:
    return graph.add("Flatten", x, axis=1)


# ---------------------------------------------------------------- layer kinds: (graph, layer, x, weight, bias) -> value


def _dense(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
    return graph.add("Gemm", x, graph.constant(weight), graph.constant(bias), transB=1)


def _conv(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
    pads = _pads(layer)
    settings = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2, "pads": pads}
    return graph.add("Conv", x, graph.constant(weight), graph.constant(bias), **settings)


def _pads(layer: Layer) -> list[int]:
    """Return zeros at top, left, bottom, right; windows that do not fit are dropped, by their number."""
    before = layer.pad_top, layer.pad_left
    needed = [(out - 1) * layer.stride + layer.kernel for out in layer.out_shape[1:]]
    sides = zip(needed, layer.in_shape[1:], before, strict=True)
    return [*before, *(max(0, need - side - first) for need, side, first in sides)]


def _pool(op: str) -> Callable:
    def pool(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
        settings = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2}
        return graph.add(op, x, **settings)

    return pool


def _pad(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
    zeros = [0, 0, layer.pad_top, layer.pad_left] * 2
    return graph.add("Pad", x, graph.constant(zeros, np.int64), graph.constant(0))


_KINDS = {
    "dense": _dense,
    "conv": _conv,
    "maxpool": _pool("MaxPool"),
    "avgpool": _pool("AveragePool"),
    "pad": _pad,
    "dropout": lambda graph, layer, x, weight, bias: x,  # of training alone
    "flatten": lambda graph, layer, x, weight, bias: x,  # its input is a vector already
    "activation": lambda graph, layer, x, weight, bias: _ACTIVATIONS[layer.function](graph, x),
    "embedding": lambda graph, layer, x, weight, bias: x.encoded(graph, layer.columns, weight),
}
_OF_IMAGES, _OF_VECTORS = ("conv", "maxpool", "avgpool", "pad"), ("dense", "flatten")


# ---------------------------------------------------------------- activations: (graph, z) -> value


def _lrelu(graph: Graph, z: str) -> str:
    """max(z, 0.01 z): the attribute of LeakyRelu is float32."""
    return graph.add("Max", z, graph.add("Mul", z, graph.constant(0.01)))


def _softplus(graph: Graph, z: str) -> str:
    """max(z, 0) + log(1 + exp(-|z|)): onnxruntime has Softplus in float32 only."""
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", z)))
    return graph.add("Add", graph.add("Relu", z), graph.add("Log", graph.add("Add", small, graph.constant(1))))


def _silu(graph: Graph, z: str) -> str:
    """z / (1 + exp(-z)): of z sigmoid(z) onnxruntime makes a QuickGelu, which some versions have in float32 only."""
    return graph.add("Div", z, graph.add("Add", graph.add("Exp", graph.add("Neg", z)), graph.constant(1)))


def _gelu(graph: Graph, z: str) -> str:
    erf = graph.add("Erf", graph.add("Mul", z, graph.constant(math.sqrt(0.5))))
    half = graph.add("Mul", z, graph.constant(0.5))
    return graph.add("Mul", half, graph.add("Add", erf, graph.constant(1)))


def _selu(graph: Graph, z: str) -> str:
    below = graph.add("Sub", graph.add("Exp", graph.clip(z, -np.inf, 0)), graph.constant(1))
    scaled = graph.add("Mul", graph.add("Relu", z), graph.constant(SELU_SCALE))
    return graph.add("Add", scaled, graph.add("Mul", below, graph.constant(SELU_SCALE * SELU_ALPHA)))


SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017
_ACTIVATIONS = {
    "relu": lambda graph, z: graph.add("Relu", z),
    "sigmoid": lambda graph, z: graph.add("Sigmoid", z),
    "tanh": lambda graph, z: graph.add("Tanh", z),
    "lrelu": _lrelu,
    "softplus": _softplus,
    "silu": _silu,
    "gelu": _gelu,
    "selu": _selu,
    "linear": lambda graph, z: z,
    "softmax": lambda graph, z: graph.add("Softmax", z, axis=1),
}
