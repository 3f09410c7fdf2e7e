"""Layers and activations as ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...layers import Layer
from ...nn_aux import MOST_QUANTILES
from ...utils import UsageError
from .onnx_graph import Graph
from .onnx_inputs import encoded

# layer kinds and activations that onnxruntime does not have in float64
FLOAT32_ONLY = ("conv", "avgpool", "gelu")


def check_float64(path, layers: list[Layer]) -> None:
    """Raise UsageError for a layer that onnxruntime has in float32 only."""
    for layer in layers:
        for name in (layer.kind, layer.output_function):
            if name in FLOAT32_ONLY:
                if layer.item:
                    what = f"layer {layer.item}"
                else:
                    what = f"activation {name}"
                raise UsageError(
                    f"{path}: {what}: onnxruntime has no {name} in float64; add --dtype float32, or train in float32"
                )


def outputs_of(
    graph: Graph,
    layers: list[Layer],
    parameters: dict[str, np.ndarray],
    x: str | list[str],
) -> str:
    """Return the outputs (rows, outputs) of a network's layers.

    parameters: as Network.parameters names them. x: what the first layer gets.
    """
    number = 0
    is_image = layers[0].in_shape[1:] != (1, 1)
    for layer in layers:
        if layer.kind in _IMAGE_LAYERS and not is_image:
            x = graph.add("Reshape", x, graph.constant([-1, *layer.in_shape], np.int64))
            is_image = True
        if is_image and (layer.kind in _OF_VECTORS or layer.activation == "softmax"):
            x = _flat(graph, x)
            is_image = False
        weight = parameters.get(f"layer{number}.{'weight'}")
        bias = parameters.get(f"layer{number}.{'bias'}")
        number += layer.weight_shape is not None
        x = _LAYER_WRITERS[layer.kind](graph, layer, x, weight, bias)
        x = ACTIVATION_NODES[layer.activation](graph, x)
    if is_image:
        return _flat(graph, x)
    return x


def _flat(graph: Graph, x: str) -> str:
    return graph.add("Flatten", x, axis=1)


# -------------------------------- layer kinds: (graph, layer, x, weight, bias) -> value


def _dense(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
    return graph.add("Gemm", x, graph.constant(weight), graph.constant(bias), transB=1)


def _conv(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
    pads = _pads(layer)
    settings = {
        "kernel_shape": [layer.kernel] * 2,
        "strides": [layer.stride] * 2,
        "pads": pads,
    }
    return graph.add(
        "Conv", x, graph.constant(weight), graph.constant(bias), **settings
    )


def _pads(layer: Layer) -> list[int]:
    """Return zeros at top, left, bottom, right; windows that do not fit are dropped, by
    their number."""
    before = layer.pad_top, layer.pad_left
    needed = [(out - 1) * layer.stride + layer.kernel for out in layer.out_shape[1:]]
    sides = zip(needed, layer.in_shape[1:], before, strict=True)
    return [
        *before,
        *(max(0, need - side - before_side) for need, side, before_side in sides),
    ]


def _pool(op: str) -> Callable:
    def pool(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
        settings = {"kernel_shape": [layer.kernel] * 2, "strides": [layer.stride] * 2}
        return graph.add(op, x, **settings)

    return pool


def _pad(graph: Graph, layer: Layer, x: str, weight, bias) -> str:
    zeros = [0, 0, layer.pad_top, layer.pad_left] * 2
    return graph.add("Pad", x, graph.constant(zeros, np.int64), graph.constant(0))


_LAYER_WRITERS = {
    "dense": _dense,
    "conv": _conv,
    "maxpool": _pool("MaxPool"),
    "avgpool": _pool("AveragePool"),
    "pad": _pad,
    "dropout": lambda graph, layer, x, weight, bias: x,  # of training alone
    "flatten": lambda graph, layer, x, weight, bias: x,  # its input is a vector already
    "activation": lambda graph, layer, x, weight, bias: ACTIVATION_NODES[
        layer.function
    ](graph, x),
    "embedding": lambda graph, layer, x, weight, bias: encoded(
        graph, x, layer.columns, weight
    ),
}
_IMAGE_LAYERS = ("conv", "maxpool", "avgpool", "pad")
_OF_VECTORS = ("dense", "flatten")


# ----------------------------------------------------- activations: (graph, z) -> value


def _lrelu(graph: Graph, z: str) -> str:
    """max(z, 0.01 z): the attribute of LeakyRelu is float32."""
    return graph.add("Max", z, graph.add("Mul", z, graph.constant(0.01)))


def _softplus(graph: Graph, z: str) -> str:
    """max(z, 0) + log(1 + exp(-|z|)): onnxruntime has Softplus in float32 only."""
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", z)))
    return graph.add(
        "Add",
        graph.add("Relu", z),
        graph.add("Log", graph.add("Add", small, graph.constant(1))),
    )


def _steps(graph: Graph, z: str) -> str:
    """The first z (..., outputs), and what softplus of the others adds to it."""
    ends = [graph.constant([end], np.int64) for end in (0, 1, MOST_QUANTILES)]
    axis = graph.constant([-1], np.int64)
    first = graph.add("Slice", z, *ends[:2], axis)
    others = _softplus(graph, graph.add("Slice", z, *ends[1:], axis))
    both = graph.add("Concat", first, others, axis=-1)
    return graph.add("CumSum", both, graph.constant(-1, np.int64))


def _silu(graph: Graph, z: str) -> str:
    """z sigmoid(z), of which onnxruntime makes a QuickGelu; some versions have that in
    float32 only, so it is z / (1 + exp(-z)) in float64."""
    if graph.dtype == np.float32:
        return graph.add("Mul", z, graph.add("Sigmoid", z))
    power = graph.add("Exp", graph.add("Neg", z))
    return graph.add("Div", z, graph.add("Add", power, graph.constant(1)))


def _gelu(graph: Graph, z: str) -> str:
    erf = graph.add("Erf", graph.add("Mul", z, graph.constant(math.sqrt(0.5))))
    half = graph.add("Mul", z, graph.constant(0.5))
    return graph.add("Mul", half, graph.add("Add", erf, graph.constant(1)))


def _selu(graph: Graph, z: str) -> str:
    below = graph.add(
        "Sub", graph.add("Exp", graph.clip(z, -np.inf, 0)), graph.constant(1)
    )
    scaled = graph.add("Mul", graph.add("Relu", z), graph.constant(SELU_SCALE))
    return graph.add(
        "Add", scaled, graph.add("Mul", below, graph.constant(SELU_SCALE * SELU_ALPHA))
    )


# Klambauer et al. 2017
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
ACTIVATION_NODES = {
    "relu": lambda graph, z: graph.add("Relu", z),
    "sigmoid": lambda graph, z: graph.add("Sigmoid", z),
    "tanh": lambda graph, z: graph.add("Tanh", z),
    "lrelu": _lrelu,
    "softplus": _softplus,
    "silu": _silu,
    "gelu": _gelu,
    "selu": _selu,
    "exp": lambda graph, z: graph.add("Exp", z),
    "linear": lambda graph, z: z,
    "steps": _steps,
    "softmax": lambda graph, z: graph.add("Softmax", z, axis=-1),
}
