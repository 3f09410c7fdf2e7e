"""How sure predictions are, in an ONNX graph: the ends of intervals of values, or sets
of classes, of one level."""

from __future__ import annotations

import numpy as np

from ...core.conformal import TargetResiduals, known_at, place_of
from .onnx_graph import Graph


def sureness_of(graph: Graph, net, out: str, level: float) -> list[tuple]:
    """Return (name, value, type, shape of a row) of each output that a level adds, for
    predictions (rows, outputs)."""
    known_at(net.conformal, level)
    if net.task == "regression":
        ends = interval_ends(graph, net, out, level)
        names = ("low", "high")
        return [
            (name, end, np.float64, (net.outputs,))
            for name, end in zip(names, ends, strict=True)
        ]
    classes = net.conformal.least_at(level).shape
    return [("set", class_set(graph, net, out, level), bool, classes)]


def interval_ends(graph: Graph, net, values: str, level: float) -> list[str]:
    """Return the low and the high ends (rows, targets), float64, of the intervals of
    values (rows, targets)."""
    sureness = net.conformal
    place = place_of(sureness.levels, level)
    values = graph.cast(values, np.float64)
    columns = [graph.columns(values, [k]) for k in range(len(sureness.targets))]
    scales = [
        _scale(graph, target, column)
        for target, column in zip(sureness.targets, columns, strict=True)
    ]
    scale = graph.joined(scales)
    limits = np.transpose([target.limits for target in sureness.targets])
    ends = []
    for name in ("low", "high"):
        factors = [[getattr(target, name)[place] for target in sureness.targets]]
        distance = graph.add("Mul", scale, graph.constant(factors, np.float64))
        end = graph.add("Add", values, distance)
        end = graph.add("Max", end, graph.constant(limits[:1], np.float64))
        ends.append(graph.add("Min", end, graph.constant(limits[1:], np.float64)))
    return ends


def _scale(graph: Graph, target: TargetResiduals, values: str) -> str:
    """Return the size of residuals near values (rows, 1): straight lines between
    points, as a sum of what each piece adds."""
    at = np.array(target.at)
    scale = np.array(target.scale)
    first = graph.constant([scale[:1]], np.float64)
    widths = np.diff(at)
    if not len(widths):
        zeros = graph.add("Mul", values, graph.constant([[0.0]], np.float64))
        return graph.add("Add", zeros, first)
    inside = graph.add("Sub", values, graph.constant([at[:-1]], np.float64))
    inside = graph.add("Max", inside, graph.constant([[0.0]], np.float64))
    inside = graph.add("Min", inside, graph.constant([widths], np.float64))
    slopes = (np.diff(scale) / widths)[:, None]
    added = graph.add("MatMul", inside, graph.constant(slopes, np.float64))
    return graph.add("Add", added, first)


def class_set(graph: Graph, net, scores: str, level: float) -> str:
    """Return which classes are in the set of each row (rows, classes), of several
    targets (rows, targets, 2), of scores (rows, outputs)."""
    least = net.conformal.least_at(level)
    scores = graph.cast(scores, np.float64)
    if least.ndim == 2:
        scores = graph.add("Unsqueeze", scores, graph.constant([2], np.int64))
    if net.outputs == 1 or least.ndim == 2:
        rest = graph.add("Sub", graph.constant([[1.0]], np.float64), scores)
        scores = graph.joined([rest, scores])
    is_likely = graph.add("GreaterOrEqual", scores, graph.constant([least], np.float64))
    likeliest = graph.add("ArgMax", scores, axis=least.ndim)
    numbers = graph.constant([range(least.shape[-1])], np.int64)
    return graph.add("Or", is_likely, graph.add("Equal", likeliest, numbers))
