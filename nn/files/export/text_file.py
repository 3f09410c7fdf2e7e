"""A network as the original program's `.m` text, which knows weights alone: all else is
folded into them."""

from __future__ import annotations

import os

import numpy as np

from ...utils import UsageError
from .. import text_model


def save_text(net, path: str | os.PathLike) -> None:
    """Write a network of dense sigmoid layers, which reads raw rows; replaces the file
    whole or not at all. Raises OutputError, UsageError."""
    text_model.check_layers(net.layers)
    if net.task == "multilabel":
        raise UsageError("--model: a .m file knows no several yes/no targets; use .bin")
    if net.is_combined:
        raise UsageError(
            f"--model: a .m file holds one network, not {len(net.members)}; use .bin"
        )
    values = [value.astype(np.float64) for value in net.parameters().values()]
    weights = values[::2]
    biases = values[1::2]
    if net.scaling.kind != "none" and not net.reference:
        shift = net.scaling.shift
        scale = net.scaling.scale
        if net.scaling.kind == "pixel":
            shift = np.zeros(net.inputs)
            scale = net.reader.pixel_range or 255.0
        weights[0] = weights[0] / scale
        biases[0] = biases[0] - weights[0] @ shift
    weights[-1] = weights[-1] / net.temperature
    biases[-1] = biases[-1] / net.temperature
    sizes = [net.inputs, *(layer.outputs for layer in net.layers)]
    text_model.save(path, sizes, biases, weights, "%lf" if net.reference else "%.17g")
