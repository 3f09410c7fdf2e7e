"""The layers of a network as an array of C structs, with their weights, and the room that they need."""

from __future__ import annotations

import numpy as np

from ...layers import Layer
from .c_text import Constants, braces, comment

_KINDS = {
    "dense": "DENSE",
    "conv": "CONV",
    "maxpool": "MAXPOOL",
    "avgpool": "AVGPOOL",
    "pad": "PAD",
    "dropout": "ACTIVATION",  # of training alone
    "flatten": "ACTIVATION",  # images are vectors channel by channel already
    "activation": "ACTIVATION",
    "embedding": "",  # an encoding of inputs: c_inputs
}
OF_IMAGES = ("CONV", "MAXPOOL", "AVGPOOL", "PAD")


def computing(layers: list[Layer]) -> list[tuple[str, str, int, Layer]]:
    """Return (kind, function, number, layer) of each layer that changes its input, at least of the last one; the
    encoding of inputs is none of them. number: of its parameters, as Network.parameters names them."""
    found, number = [], 0
    for layer in layers:
        kind, function = _KINDS[layer.kind], layer.output_function
        is_last = layer is layers[-1] and not found
        if kind and (kind != "ACTIVATION" or function != "linear" or is_last):
            found.append((kind, function.upper(), number, layer))
        number += layer.weight_shape is not None
    return found


def add_layers(constants: Constants, name: str, layers: list[Layer], parameters: dict) -> int:
    """Add an array of layers, and their weights; return how many they are. name: in front of all names."""
    rows = []
    for kind, function, number, layer in computing(layers):
        has_weights = layer.weight_shape is not None
        rows.append([
            *(kind, function, layer.inputs, layer.outputs, braces(layer.in_shape), braces(layer.out_shape)),
            *(layer.kernel, layer.stride, layer.pad_top, layer.pad_left),
            *(_parameters(constants, name, number, layer, parameters) if has_weights else ("NULL", "NULL")),
        ])  # fmt: skip
    constants.structs("layer", f"{name}layers", rows)
    return len(rows)


def _parameters(constants: Constants, name: str, number: int, layer: Layer, parameters: dict) -> list[str]:
    """Add weight and bias of a layer; return their names."""
    weight, bias = parameters[f"layer{number}.weight"], parameters[f"layer{number}.bias"]
    remark = comment(f"{layer.item}: {' x '.join(map(str, layer.in_shape))} -> {' x '.join(map(str, layer.out_shape))}")
    if layer.kind == "dense":
        remark, weight = f"{comment(layer.item)}: {layer.inputs} -> {layer.outputs}", np.ascontiguousarray(weight.T)
    return [
        constants.array(f"{name}weight_{number}", weight, remark=remark),
        constants.array(f"{name}bias_{number}", bias),
    ]


def widths(layers: list[Layer]) -> tuple[int, int]:
    """Return the most values that stand in each of the two places between which layers compute."""
    first = layers[0].outputs if layers[0].columns else layers[0].inputs
    most, at = [first, 1], 0
    for kind, _, _, layer in computing(layers):
        if kind != "ACTIVATION":
            at = 1 - at
        most[at] = max(most[at], layer.outputs)
    return most[0], most[1]
