"""A network as an ONNX file: raw columns in, classes with probabilities or values in
their own units out."""

from __future__ import annotations

import json
import os
import re

import numpy as np

from ...data.pixels import BYTE
from ...layers import input_shape
from ...nn_aux import TASKS
from ...utils import UsageError, atomic_file
from .columns import (
    class_names,
    column_names,
    exposure_name,
    input_kind,
    label_names,
    pixel_divisor,
    shares,
    units,
)
from .onnx_graph import Graph, onnx_package
from .onnx_inputs import (
    FEATURES,
    TableInputs,
    column_inputs,
    plain_input,
    scaled,
    with_medians,
)
from .onnx_layers import ACTIVATION_NODES, check_float64, outputs_of
from .onnx_members import (
    FirstLayer,
    Member,
    Table,
    Words,
    are_batched,
    group_name,
    grouped,
    inputs_shape,
    shape_of,
)
from .onnx_sureness import sureness_of

LARGEST_FILE = 2**31  # bytes of a protobuf message
# outputs
LABEL = "label"
PROBABILITIES = "probabilities"
SCORES = "scores"
VALUES_NODE = "values"
# kept beside the graph, as JSON
_ONNX_FACTS = ("task", "classes", "columns", "targets", "threshold")


def save_onnx(net, path: str | os.PathLike, level: float | None = None) -> None:
    """Write a network (nn.Network) as an ONNX file, replaced whole or not at all.
    level: of the intervals of values, or sets of classes, that it has; None: of none.

    Raises UsageError for a network that it cannot hold, or where the package onnx is
    missing; OutputError.
    """
    onnx = onnx_package()
    _check(net, path)
    model = onnx_model(net, level)
    content = _checked_bytes(onnx, model)
    with atomic_file(path) as file:
        file.write(content)


def _checked_bytes(onnx, model) -> bytes:
    """Return the ModelProto as a file has it. Raises MemoryError, which protobuf calls
    another name."""
    from google.protobuf.message import EncodeError  # it comes with onnx

    try:
        onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise MemoryError from error


def _check(net, path) -> None:
    for member in net.members:
        if member.dtype == "float64":
            check_float64(path, member.layers)
    size = (
        sum(member.parameter_count for member in net.members)
        * np.dtype(net.dtype).itemsize
    )
    if size >= LARGEST_FILE:
        raise UsageError(
            f"{path}: the parameters take {size / 1e9:.1f} GB, an ONNX file at most 2.1 GB; train fewer"
        )


def onnx_model(net, level: float | None = None):
    """Return the ModelProto of a network.

    Inputs: of a table of plain numbers, whatever the network makes of them, and of
    images `features`, else one for each column, (rows, 1), by its name; beside them
    the exposure, by which outputs are multiplied.
    Outputs: `label` and `probabilities` (rows, classes), both (rows, targets) of
    several targets of two classes, or `values` (rows, targets).
    With a level `set` (rows, classes), of several targets (rows, targets, 2), or `low`
    and `high` (rows, targets), too.
    """
    from ... import __version__

    graph = Graph(net.dtype)
    inputs = _Inputs(graph, net)
    # --vary may keep one of several
    if are_batched(net):
        out = _batched_mean(graph, net, inputs)
    elif net.is_combined:
        outs = [_predictions(graph, member, inputs) for member in net.members]
        out = _mean(graph, outs, net)
    else:
        out = _predictions(graph, net.members[0], inputs)
    sureness = []
    if level is not None:
        sureness = sureness_of(graph, net, out, level)
    if net.task == "regression":
        values = inputs.exposed(out, net.value_dtype)
        graph.output(inputs.free(VALUES_NODE), values, net.value_dtype, (net.outputs,))
    else:
        _add_classes(graph, net, out, inputs)
    for name, value, dtype, shape in sureness:
        graph.output(inputs.free(name), inputs.exposed(value, dtype), dtype, shape)
    facts = [*_ONNX_FACTS, *(["labels"] if net.labels else [])]
    return graph.model(
        __version__, {name: json.dumps(getattr(net, name)) for name in facts}
    )


class _Inputs:
    """The inputs of the graph, and what networks read of them; networks that read alike
    share it.

    Of members on plain numbers some may encode them: the same input is one value, and
    one for each column.
    """

    def __init__(self, graph: Graph, net):
        self._graph = graph
        self._read = {}
        self._missing = sorted(net.schema.missing)
        reads = ["number"] * net.inputs
        if net.encoding is not None:
            reads = [input_kind(encoder) for encoder in net.encoding.encoders]
        self._reads = reads
        self._exposure = exposure_name(net)
        if self._exposure is not None:
            self._exposure = graph.input(self._exposure, np.float64, (1,))
        if set(reads) == {"number"}:
            self._names = [FEATURES]
            self._columns = None
            self._shape = _plain_shape(net)
            self._x = plain_input(graph, self._shape, net)
            # bytes have no gaps
            if net.medians is not None and pixel_divisor(net) != BYTE:
                self._x = with_medians(graph, self._x, net.medians)
        else:
            self._shape = (net.inputs,)
            self._names = column_names(net)
            self._x = None
            self._columns = column_inputs(graph, self._names, self._reads)
            if net.medians is not None:
                pairs = zip(self._columns, net.medians, strict=True)
                self._columns = [
                    with_medians(graph, column, [median]) for column, median in pairs
                ]

    def read_by(self, net):
        key = id(net.scaling if net.encoding is None else net.encoding)
        if key not in self._read:
            if net.encoding is None:
                self._read[key] = self._plain(net)
            else:
                self._read[key] = self._encoded(net)
        return self._read[key]

    def _plain(self, net) -> str:
        if self._x is None:
            self._x = self._graph.joined(self._columns)
        x = scaled(self._graph, self._x, self._shape, net)
        # layers take an image of one pixel as a row
        if net.layers[0].in_shape[1:] == (1, 1) and len(self._shape) == 3:
            x = self._graph.add("Flatten", x, axis=1)
        return x

    def _encoded(self, net) -> list[str]:
        if self._columns is None:
            self._columns = [
                self._graph.columns(self._x, [place]) for place in range(net.inputs)
            ]
        table = TableInputs(self._graph, self._columns, self._missing, net.number_type)
        return table.read_by(net.encoding)

    def numbers(self, places: list[int]) -> str:
        """Return some columns of numbers (rows, places), float64."""
        if self._x is None:
            return self._graph.joined([self._columns[place] for place in places])
        if places == [*range(self._shape[0])]:
            return self._x
        return self._graph.columns(self._x, places)

    def words(self, members: list[Member]) -> Words:
        return Words(self._graph, self._columns, members, self._missing)

    def exposed(self, outputs: str, dtype) -> str:
        """Return outputs (rows, outputs) of a type times the exposures of the rows."""
        if self._exposure is None:
            return outputs
        outputs = self._graph.cast(outputs, np.float64)
        product = self._graph.add("Mul", outputs, self._exposure)
        return self._graph.cast(product, dtype)

    def free(self, name: str) -> str:
        """Return a name for an output that no input has."""
        while name in (*self._names, self._exposure):
            name += "_"
        return name


def _plain_shape(net) -> tuple[int, ...]:
    """Return the shape of a row of plain numbers, or of an image, which has three
    dimensions where --layers names them, also of one pixel."""
    shape = input_shape(net.layers)
    if isinstance(shape, tuple):
        return shape
    if re.match(r"\s*\d+x", str(net.written_layers)):
        return net.layers[0].in_shape
    return (shape,)


def _predictions(graph: Graph, net, inputs: _Inputs) -> str:
    """Return the predictions of one network (rows, outputs), as Network.predict gives
    them."""
    out = outputs_of(graph, net.layers, net.parameters(), inputs.read_by(net))
    out = _calibrated(graph, out, net.temperature, net)
    if units(net) is None:
        return out
    values = graph.cast(out, np.float64)
    values = _in_units(graph, [net], values, (1, net.outputs))
    return graph.cast(values, net.value_dtype)


def _mean(graph: Graph, outs: list[str], net) -> str:
    parts = [
        graph.add(
            "Mul", graph.cast(out, np.float64), graph.constant(weight, np.float64)
        )
        for out, weight in zip(outs, shares(net), strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = graph.add("Add", total, part)
    total = graph.cast(total, net.value_dtype)
    return _calibrated(graph, total, net.temperature, net)


def _batched_mean(graph: Graph, net, inputs: _Inputs) -> str:
    """Return the mean of all members' predictions (rows, outputs). Members of one shape
    compute as one product for each layer, those that also read their inputs alike from
    the first layer on."""
    members = [Member(number, member) for number, member in enumerate(net.members)]
    table = Table(graph, inputs.numbers, has_gaps=net.medians is None)
    words = inputs.words(members)
    values = []
    order = []
    for group in grouped(members, shape_of):
        sums = []
        alike = grouped(group, inputs_shape)
        for readers in alike:
            sums.append(FirstLayer(graph, readers).sums(table, words))
        group = [member for readers in alike for member in readers]
        values.append(_rest_of_layers(graph, group, graph.joined(sums, axis=0)))
        order += [member.number for member in group]
    value = graph.joined(values, axis=0)
    ordered = [net.members[number] for number in order]
    temperatures = np.array([member.temperature for member in ordered])
    value = _calibrated(graph, value, temperatures[:, None, None], net)
    weights = np.array(shares(net))[order][:, None, None]
    # values may lie far from 0
    if net.task == "regression":
        value = graph.cast(value, np.float64)
        value = _in_units(graph, ordered, value, (len(ordered), 1, net.outputs))
        mean = graph.cast(_sum(graph, value, weights, np.float64), net.value_dtype)
    else:
        mean = _sum(graph, value, weights, graph.dtype)
    return _calibrated(graph, mean, net.temperature, net)


def _sum(graph: Graph, value: str, weights: np.ndarray, dtype) -> str:
    """Return the sum of members' values with these weights (rows, outputs)."""
    parts = graph.add("Mul", value, graph.constant(weights, dtype, "members/share"))
    members = graph.constant([0], np.int64)
    return graph.add("ReduceSum", parts, members, keepdims=0)


def _rest_of_layers(graph: Graph, members: list[Member], x: str) -> str:
    """Return the outputs (members, rows, outputs) of members of one shape. x: the sums
    of their first dense layer."""
    name = group_name(members)
    for index, (number, layer, *_) in enumerate(members[0].layers):
        batch = [member.layers[index] for member in members]
        layer_name = f"{name}/layer{number}"
        if index and layer.kind == "dense":
            weights = np.stack([row.weight.T for row in batch])
            weight = graph.constant(weights, name=f"{layer_name}/weight")
            x = graph.add("MatMul", x, weight)
        if layer.kind == "dense":
            biases = np.stack([row.bias[None] for row in batch])
            bias = graph.constant(biases, name=f"{layer_name}/bias")
            x = graph.add("Add", x, bias)
        if layer.kind == "activation":
            x = ACTIVATION_NODES[layer.function](graph, x)
        x = ACTIVATION_NODES[layer.activation](graph, x)
    return x


def _in_units(graph: Graph, members: list, value: str, shape: tuple) -> str:
    """Return float64 values in the targets' own units, within their bounds. shape: of
    the constants of all members."""
    if units(members[0]) is None:
        return value
    shifts, scales = zip(*map(units, members), strict=True)
    steps = [("Mul", scales), ("Add", shifts)]
    if len(members[0].target_scaling.low):
        steps.append(("Max", [member.target_scaling.low for member in members]))
        steps.append(("Min", [member.target_scaling.high for member in members]))
    for operator, constants in steps:
        constant = np.reshape(constants, shape)
        value = graph.add(operator, value, graph.constant(constant, np.float64))
    return value


def _calibrated(graph: Graph, scores: str, temperature, net) -> str:
    """Return class probabilities (..., outputs) by a temperature, or by one of each
    member (core.thresholds.tempered)."""
    if np.all(temperature == 1):
        return scores
    info = np.finfo(graph.dtype)
    p = graph.clip(
        graph.cast(scores, np.float64),
        float(info.tiny),
        1 - float(info.epsneg),
        np.float64,
    )
    logits = graph.add("Log", p)
    are_sigmoids = net.outputs == 1 or TASKS[net.task].by_output
    if are_sigmoids:
        rest = graph.add("Log", graph.add("Sub", graph.constant(1, np.float64), p))
        logits = graph.add("Sub", logits, rest)
    divided = graph.add("Div", logits, graph.constant(temperature, np.float64))
    if are_sigmoids:
        tempered = graph.add("Sigmoid", divided)
    else:
        tempered = graph.add("Softmax", divided, axis=-1)
    return graph.cast(tempered, graph.dtype)


def _add_classes(graph: Graph, net, out: str, inputs: _Inputs) -> None:
    """Add the class of each row and its probabilities, or scores where the last layer
    gives others."""
    names = class_names(net)
    shape: tuple[int, ...] = ()
    if net.task == "multilabel":
        label = _of_two(graph, net, out, np.transpose(label_names(net)))
        shape = (net.outputs,)
    elif net.task == "binary":
        words = _of_two(graph, net, out, [[name] for name in names])
        label = graph.add("Reshape", words, graph.constant([-1], np.int64))
    else:
        index = graph.add("ArgMax", out, axis=1, keepdims=0)
        words = graph.constant(np.array(names, object), object)
        label = graph.add("Gather", words, index)
    graph.output(inputs.free(LABEL), label, str, shape)
    function = net.layers[-1].output_function
    width = net.outputs
    if net.task == "binary" and function == "sigmoid":
        out = graph.joined([graph.add("Sub", graph.constant(1), out), out])
        width = 2
    if function in ("sigmoid", "softmax"):
        name = PROBABILITIES
    else:
        name = SCORES
    graph.output(inputs.free(name), out, graph.dtype, (width,))


def _of_two(graph: Graph, net, out: str, names) -> str:
    """Return the names of classes (rows, outputs) by scores, in float64. names: of the
    class below the threshold, and of the other one, for each output."""
    score = graph.cast(out, np.float64)
    threshold = graph.constant(net.threshold, np.float64)
    is_one = graph.add("GreaterOrEqual", score, threshold)
    no, yes = [graph.constant(np.array(of_one, object), object) for of_one in names]
    return graph.add("Where", is_one, yes, no)
