"""The parameters of a network: one vector, layer after layer, each layer's weight
before its bias."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..core.random import GlibcRandom, initial_frequencies, initial_weight
from ..layers import Layer, activations_of, parameter_shapes
from ..nn_aux import ACTIVATIONS, INITIALIZERS


def count(layers: Sequence[Layer]) -> int:
    return sum(layer.parameters for layer in layers)


def by_layer(
    layers: Sequence[Layer], vector: np.ndarray
) -> Iterator[tuple[Layer, np.ndarray, np.ndarray]]:
    """Yield (layer, weight view, bias view) for each layer with parameters, in the
    order of the vector."""
    at = 0
    for layer in layers:
        if layer.weight_shape:
            end = at + layer.parameters
            weight = vector[at : end - layer.biases].reshape(layer.weight_shape)
            yield layer, weight, vector[end - layer.biases : end]
            at = end


def by_name(layers: Sequence[Layer], vector: np.ndarray) -> dict[str, np.ndarray]:
    """Return views of a vector (parameters, or their gradients) by the names of the
    parameters."""
    named = {}
    at = 0
    for name, shape in parameter_shapes(layers).items():
        named[name] = vector[at : at + math.prod(shape)].reshape(shape)
        at += named[name].size
    return named


def initial(
    layers: Sequence[Layer], dtype: str, seed: int, init: str | None
) -> np.ndarray:
    """Return the vector before training. init: a name of nn_aux.INITIALIZERS; None:
    that of each layer's activation."""
    vector = np.zeros(count(layers), dtype)
    named = zip(layers, activations_of(layers), strict=True)
    activations = [name for layer, name in named if layer.weight_shape]
    for index, (layer, weight, bias) in enumerate(by_layer(layers, vector)):
        rule = init or layer.init or ACTIVATIONS[activations[index]].init
        if INITIALIZERS[rule].biases:
            both = initial_weight(rule, [(layer.parameters, 0, 0)], seed, index)
            weight[:] = both[: weight.size].reshape(weight.shape)
            bias[:] = both[weight.size :]
        else:
            values = initial_weight(rule, layer.weight_parts, seed, index)
            weight.reshape(-1)[: values.size] = values
        if layer.frequencies:
            waves = [
                (column.waves, column.deviation)
                for column in layer.columns
                if column.waves
            ]
            weight[-layer.frequencies :] = initial_frequencies(waves, seed)
    return vector


def initial_of_reference(layers: Sequence[Layer], random: GlibcRandom) -> np.ndarray:
    """Return the original's initial values: all biases, then all weights, from its
    stream of random numbers."""
    vector = np.empty(count(layers))
    views = list(by_layer(layers, vector))
    for _, _, bias in views:
        bias[:] = random.uniform(bias.size)
    for _, weight, _ in views:
        weight[:] = random.uniform(weight.size).reshape(weight.shape)
    return vector
