"""A network as one file of C99: rows of raw columns in, class probabilities or values
in their own units out."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from ...core.conformal import ClassSets, Intervals, LabelSets
from ...data.calendar import DATE_PARTS
from ...layers import Layer
from ...nn_aux import ACTIVATIONS, TASKS
from ...utils import UsageError, atomic_file
from . import c_inputs
from .c_comment import Comment
from .c_inputs import LONGEST_LITERAL
from .c_text import C_NUMBERS, Constants, braces, comment, numbers
from .columns import (
    are_rounded,
    class_names,
    input_kind,
    pixel_divisor,
    shares,
    units,
)

MOST_C_PARAMETERS = 10**8  # a compiler takes some hundred bytes of memory for each
_FRAMES = 1280  # bytes of stack for what functions keep beside the values of layers
_MODEL_C = Path(__file__).with_name("model.c")
# lines of model.c
_INTERFACE = f"""#include "example_{"interface"}.h"\n"""
_EXAMPLE_VALUES = f"""#include "example_{"values"}.h"\n"""


def save_c(net, path: str | os.PathLike) -> None:
    """Write a network (nn.Network) as a C file, replaced whole or not at all.

    Raises UsageError for a network that it cannot hold; OutputError.
    """
    _check(net, path)
    text = _File(net, path).text()
    with atomic_file(path) as file:
        file.write(text.encode())


def _check(net, path) -> None:
    count = sum(member.parameter_count for member in net.members)
    if count > MOST_C_PARAMETERS:
        raise UsageError(
            f"{path}: {count} parameters, expected at most {MOST_C_PARAMETERS} in a C file; train smaller --layers, or "
            f"export to .onnx"
        )
    for member in net.members:
        for name, values in member.parameters().items():
            if not np.isfinite(values).all():
                raise UsageError(
                    f"{path}: {name} has values that are not finite, which C cannot write; train again with a lower "
                    f"--learning_rate"
                )


class _File:
    """The parts of a C file."""

    def __init__(self, net, path):
        self.net = net
        self.path = path
        self.columns = c_inputs.Columns(net, path)
        self.slot = c_inputs.slot_type(self.columns.encodings)
        self.constants = Constants(
            net.dtype, {"nn_slot": c_inputs.SLOT_TYPES[self.slot]}
        )
        self.has = self._parts()

    def text(self) -> str:
        """Return the whole file: model.c with the definitions of this network in the
        places of an example's."""
        stack = self._add_constants()
        defines = "".join(
            f"#define HAS_{name} {int(bool(holds))}\n"
            for name, holds in self.has.items()
        )
        interface, code = (
            _MODEL_C.read_text(encoding="utf-8")
            .removeprefix(_INTERFACE)
            .split(_EXAMPLE_VALUES)
        )
        size = self.constants.bytes
        header = Comment(self.net, self.path, self.columns, self.has, size, stack)
        parts = (
            header.text(),
            "\n\n",
            self._interface(),
            "\n",
            interface,
            defines,
            self.constants.text(),
            "\n",
            code,
        )
        return "".join(parts)

    # ---- parts that a network may have

    def _parts(self) -> dict[str, object]:
        """Return the names of parts, those below HAS_ in model.c, and whether this
        network has each."""
        net = self.net
        members = self.net.members
        layers = [row for member in members for row in computing(member.layers)]
        columns = [
            column for encoding in self.columns.encodings for column in encoding.columns
        ]
        inputs = {
            kind
            for encoding in self.columns.encodings
            for kind, _, _ in c_inputs.kinds_of(encoding)
        }
        functions = {function for _, function, _, _ in layers}
        return {
            "FLOAT64": net.dtype == "float64",
            "GAPS": net.medians is not None
            or (net.encoding is not None and not net.encoding.plain),
            "MEDIANS": net.medians is not None,
            "ROUNDING": net.dtype == "float32" and self._are_rounded(),
            "DIGITS": any(map(layers_in_digits, members)),
            "WORDS": any(self.columns.vocabularies),
            "ORDERS": any(
                encoder.kind == "ordered"
                for one in self.columns.encodings
                for encoder in one.encoders
            ),
            "CYCLES": inputs & {"YEAR", "WEEK", "DAY"},
            "PARTS": inputs & {part.upper() for part in DATE_PARTS},
            "FREQUENT": any(
                getattr(one, "frequent", 0)
                for encoding in self.columns.encodings
                for one in encoding.encoders
            ),
            "WAVES": any(column.waves for column in columns),
            "IMAGES": {kind for kind, _, _, _ in layers} & set(C_IMAGE_LAYERS),
            "EXPOSURE": self.columns.exposure is not None,
            "INTERVALS": isinstance(net.conformal, Intervals),
            "SETS": isinstance(net.conformal, (ClassSets, LabelSets)),
            "TEMPERATURE": any(one.temperature != 1 for one in [net, *members]),
            **{
                name.upper(): name.upper() in functions
                for name in ACTIVATIONS
                if name != "linear"
            },
        }

    def _are_rounded(self) -> bool:
        """Return whether the reader of files rounds the numbers of a float32
        network."""
        scalings = []
        for encoding in self.columns.encodings:
            numbers_of = [
                encoder for encoder in encoding.encoders if encoder.kind == "number"
            ]
            scalings.append(
                tuple(
                    np.array([getattr(e, name) for e in numbers_of])
                    for name in ("shift", "scale")
                )
            )
        scalings += [
            (m.scaling.shift, m.scaling.scale)
            for m in self.net.members
            if m.encoding is None
        ]
        return all(
            are_rounded("float32", shift, scale, self.net.number_type)
            for shift, scale in scalings
        )

    # ---- definitions

    def _interface(self) -> str:
        net = self.net
        if TASKS[net.task].by_output:
            classes = 0
        else:
            classes = len(class_names(net))
        inputs = self.columns.count + (self.columns.exposure is not None)
        cuts = numbers(np.ravel(net.threshold).astype(np.float64))
        of_targets = []
        remark = "from which score on a row is of class 1"
        if len(cuts) > 1:
            remark = "of output 0"
            each = ", ".join(cuts)
            of_targets = [f"#define NN_THRESHOLDS {{{each}}}  /* of each output */"]
        return "\n".join(
            [
                f"typedef {C_NUMBERS[net.dtype]} nn_real;",
                f"typedef {C_NUMBERS[net.value_dtype]} nn_output;",
                f"typedef {self.slot} nn_slot;  /* a place among the values of a column */",
                "",
                f"enum {{ NN_INPUTS = {inputs}, NN_OUTPUTS = {net.outputs}, NN_CLASSES = {classes} }};",
                "",
                "#ifndef NN_THRESHOLD",
                f"#define NN_THRESHOLD {cuts[0]}  /* {remark} */",
                "#endif",
                *of_targets,
            ]
        )

    def _add_constants(self) -> int:
        """Add all that model.c reads of this network; return how much stack a
        prediction takes at most."""
        constants = self.constants
        net = self.net
        stack = self._add_sizes()
        # a single network has its own
        temperature = 1.0
        if net.is_combined:
            temperature = float(net.temperature)
        constants.line(
            f"static const double TEMPERATURE = {temperature!r};  /* of the mean */"
        )
        constants.array(
            "medians",
            np.array(net.medians or [0.0]),
            "double",
            remark="of training, that stand for NaN",
        )
        self._add_words()
        inputs = c_inputs.Inputs(constants, self.columns.vocabularies)
        rows = [self._network(number, inputs) for number in range(len(net.members))]
        names = [b""]
        if not TASKS[net.task].by_output:
            names = [name.encode() for name in class_names(net)]
        constants.words("class_names", names)
        constants.structs("network", "networks", rows)
        add_sureness(constants, net)
        return stack

    def _add_sizes(self) -> int:
        """Add the sizes of arrays; return how much stack a prediction takes at most."""
        constants = self.constants
        net = self.net
        sizes = [widths(member.layers) for member in net.members]
        room = [max(size) for size in zip(*sizes, strict=True)]
        pixels = 1
        if isinstance(self.columns.shape, tuple):
            pixels = math.prod(self.columns.shape[1:])
        constants.line(
            f"\nenum {{ WIDEST_X = {room[0]}, WIDEST_SPARE = {room[1]} }};  /* values between layers */"
        )
        constants.line(f"enum {{ PIXELS = {pixels} }};  /* that share a scale */")
        constants.line(
            f"enum {{ PIXEL_RANGE = {pixel_divisor(net)} }};  /* by which pixels are divided */"
        )
        constants.line(f"enum {{ NETWORKS = {len(net.members)} }};")
        return sum(room) * constants.dtype.itemsize + 24 * net.outputs + _FRAMES

    def _add_words(self) -> None:
        """Add the words that stand for a gap, and those of each column."""
        missing = {""}
        if self.has["WORDS"]:
            missing = self.net.schema.missing
        gaps = []
        for word in sorted(missing):
            gaps += c_inputs.in_bytes(word, self.net.code_page)
        self.constants.words("gaps", gaps)
        c_inputs.add_vocabularies(
            self.constants,
            self.columns.vocabularies,
            [comment(label) for label in self.columns.labels],
        )

    def _network(self, number: int, inputs: c_inputs.Inputs) -> list[str]:
        """Add the constants of a member; return the fields of its struct."""
        constants = self.constants
        member = self.net.members[number]
        if len(self.net.members) > 1:
            name = f"network_{number}_"
        else:
            name = ""
        parameters = member.parameters()
        target = member.target_scaling
        encoding = member.encoding
        fields = [repr(shares(self.net)[number]), repr(float(member.temperature))]
        if target is None:
            low = ()
            high = ()
        else:
            low = target.low
            high = target.high
        if encoding is not None:
            shift = ()
            scale = ()
        else:
            shift = member.scaling.shift
            scale = member.scaling.scale
        ways = zip(
            ("target_shift", "target_scale"), units(member) or ((), ()), strict=True
        )
        ways = [*ways, ("target_low", low), ("target_high", high)]
        ways += [
            ("input_shift", shift),
            ("input_scale", np.where(np.isinf(scale), 0.0, scale)),
        ]
        fields += [
            constants.array_or_null(f"{name}{what}", values, "double")
            for what, values in ways
        ]
        count = 0
        if encoding is not None:
            count = inputs.add(name, encoding, parameters.get("layer0.weight"))
        layers = add_layers(constants, name, member)
        return [
            *fields,
            f"{name}inputs" if count else "NULL",
            f"{name}layers",
            str(count),
            str(layers),
        ]


# ---- how sure predictions are


def add_sureness(constants: Constants, net) -> None:
    """Add an array of how sure each value is, or that a row is of each class."""
    sureness = net.conformal
    if sureness is None:
        rows = [_sureness()]
    elif isinstance(sureness, Intervals):
        level = constants.array("levels", sureness.levels, "double")
        rows = [
            _sureness(
                levels=len(sureness.levels),
                points=len(target.at),
                level=level,
                **{
                    name: constants.array(
                        f"{name}_{k}", getattr(target, name), "double"
                    )
                    for name in ("at", "scale", "low", "high")
                },
                limits=target.limits,
            )
            for k, target in enumerate(sureness.targets)
        ]
    elif isinstance(sureness, ClassSets):
        rows = _sets(constants, sureness)
    else:
        rows = []
        for k, sets in enumerate(sureness.labels):
            rows += _sets(constants, sets, f"_of_output_{k}")
    constants.structs("sureness", "sure_of", rows)


def _sets(constants: Constants, sets: ClassSets, name: str = "") -> list[list[str]]:
    """Add the scores of sets of classes; return a struct of each class. name: of the
    target, where there are several."""
    level = constants.array(f"levels{name}", sets.levels, "double")
    least = {  # that of all classes may be none's
        k: constants.array(f"least_scores{name}_{k}", sets.least[k], "double")
        for k in sorted({*sets.of_class})
    }
    return [
        _sureness(levels=len(sets.levels), level=level, least_score=least[place])
        for place in sets.of_class
    ]


def _sureness(
    levels=0, points=0, limits=(0.0, 0.0), least_score="NULL", **arrays
) -> list[str]:
    """Return the fields of a struct of sureness; arrays: the names of those that it
    has."""
    names = ("level", "at", "scale", "low", "high")
    pointers = [arrays.get(name, "NULL") for name in names]
    return [str(levels), str(points), *pointers, *map(repr, limits), least_score]


# ---- the layers of a network as an array of C structs, with their weights, and the
# room that they need

_C_KINDS = {
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
C_IMAGE_LAYERS = ("CONV", "MAXPOOL", "AVGPOOL", "PAD")


def computing(layers: list[Layer]) -> list[tuple[str, str, int, Layer]]:
    """Return (kind, function, number, layer) of each layer that changes its input, at
    least of the last one; the encoding of inputs is none of them. number: of its
    parameters, as Network.parameters names them."""
    computed = []
    number = 0
    for layer in layers:
        kind = _C_KINDS[layer.kind]
        function = layer.output_function
        is_last = layer is layers[-1] and not computed
        if kind and (kind != "ACTIVATION" or function != "linear" or is_last):
            computed.append((kind, function.upper(), number, layer))
        number += layer.weight_shape is not None
    return computed


def add_layers(constants: Constants, name: str, net) -> int:
    """Add an array of a network's layers, and their weights; return how many they are.
    name: in front of all names."""
    parameters = net.parameters()
    in_digits = layers_in_digits(net)
    rows = []
    for kind, function, number, layer in computing(net.layers):
        counts = (layer.kernel, layer.stride, layer.pad_top, layer.pad_left)
        places = ["NULL", "NULL", "NULL", "0"]
        if layer.weight_shape is not None:
            weight = parameters[f"layer{number}.weight"]
            bias = parameters[f"layer{number}.bias"]
            add = _add_digits if number in in_digits else _add_decimals
            places = add(constants, name, number, layer, weight, bias)
        rows.append(
            [
                kind,
                function,
                layer.inputs,
                layer.outputs,
                braces(layer.in_shape),
                braces(layer.out_shape),
                *counts,
                *places,
            ]
        )
    constants.structs("layer", f"{name}layers", rows)
    return len(rows)


def _add_digits(constants: Constants, name: str, number: int, layer, weight, bias):
    """Add a dense layer's weight and bias as digits; return the fields that say where
    they are."""
    rows = np.vstack([weight.T, bias])
    remark = f"{comment(layer.item)}: {layer.inputs} -> {layer.outputs}"
    first, unit = constants.digits(f"{name}weight_{number}", rows, remark)
    return ["NULL", "NULL", first, repr(unit)]


def _add_decimals(constants: Constants, name: str, number: int, layer, weight, bias):
    """Add weight and bias of a layer as they are; return the fields that say where they
    are."""
    before = _size(layer.in_shape)
    behind = _size(layer.out_shape)
    if layer.kind == "dense":
        before = layer.inputs
        behind = layer.outputs
        weight = np.ascontiguousarray(weight.T)
    remark = f"{comment(layer.item)}: {before} -> {behind}"
    weights = constants.array(f"{name}weight_{number}", weight, remark=remark)
    return [weights, constants.array(f"{name}bias_{number}", bias), "NULL", "0"]


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def layers_in_digits(net) -> set[int]:
    """Return the numbers of the layers whose weights are digits: a third of the text,
    of which a row fits into a literal. They keep 24 bits of the largest weight of each
    input; sums of large numbers, which may cancel, need them all."""
    if net.dtype != "float32":
        return set()
    dense = [
        (number, layer)
        for kind, _, number, layer in computing(net.layers)
        if kind == "DENSE"
    ]
    if not are_scaled(net):
        dense = dense[1:]
    return {number for number, layer in dense if 4 * layer.outputs < LONGEST_LITERAL}


def are_scaled(net) -> bool:
    """Return whether all numbers that the first dense layer reads are scaled."""
    if net.encoding is None:
        return net.scaling.kind != "none"
    encoders = net.encoding.encoders
    scales = [
        (encoder.shift, encoder.scale)
        for encoder in encoders
        if input_kind(encoder) != "text"
    ]
    return (0, 1) not in scales


def widths(layers: list[Layer]) -> tuple[int, int]:
    """Return the most values that stand in each of the two places between which layers
    compute."""
    if layers[0].columns:
        inputs = layers[0].outputs
    else:
        inputs = layers[0].inputs
    most = [inputs, 1]
    at = 0
    for kind, _, _, layer in computing(layers):
        if kind != "ACTIVATION":
            at = 1 - at
        most[at] = max(most[at], layer.outputs)
    return most[0], most[1]
