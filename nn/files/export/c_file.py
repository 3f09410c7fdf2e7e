"""A network as one file of C99: rows of raw columns in, class probabilities or values in their own units out."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from ...data.column_lookup import split_names
from ...data.table_files import GAPS
from ...layers import input_shape
from ...utils import UsageError, atomic_file, counted
from . import c_inputs, c_layers
from .c_text import Constants, comment, filled, numbers, quoted, template
from .columns import are_rounded, bounds, class_names, distinct, output_names, prediction_names, shares, units

MOST_PARAMETERS = 10**8  # a compiler takes some hundred bytes of memory for each
_FRAMES = 768  # bytes of stack for what functions keep beside the values of layers
_SEPARATORS = ",;\t| "


def save_c(net, path: str | os.PathLike) -> None:
    """Write a network (nn.Network) as a C file, replaced whole or not at all.

    Raises UsageError for a network that it cannot hold; OutputError.
    """
    _check(net, path)
    text = c_model(net, path)
    with atomic_file(path) as file:
        file.write(text.encode())


def _check(net, path) -> None:
    count = sum(member.parameter_count for member in net.members)
    if count > MOST_PARAMETERS:
        raise UsageError(
            f"{path}: {count} parameters, expected at most {MOST_PARAMETERS} in a C file; train smaller --layers, or "
            f"export to .onnx"
        )
    for member in net.members:
        for name, values in member.parameters().items():
            if not np.isfinite(values).all():
                raise UsageError(
                    f"{path}: {name} has values that are not finite, which C cannot write; train again with a lower "
                    f"--learning_rate"
                )


def c_model(net, path="the model") -> str:
    """Return the C file of a network. path: of the file in messages."""
    return _File(net, path).text()


class _File:
    """The parts of a C file; features: the HAS_ names of the templates that hold."""

    def __init__(self, net, path):
        self.net, self.path = net, path
        self.encodings = [member.encoding for member in net.members if member.encoding is not None]
        self.slot = c_inputs.slot_type(self.encodings)
        sizes = {"nn_real": np.dtype(net.dtype).itemsize, "nn_slot": c_inputs.SLOT_TYPES[self.slot]}
        self.constants = Constants(net.dtype, sizes)
        self.shape = input_shape(net.layers)
        self.inputs = net.inputs
        self.names = self._names()
        self.reads = self._reads()
        self.layers = [row for member in net.members for row in c_layers.computing(member.layers)]
        labels = self.names or [f"column {place}" for place in range(self.inputs)]
        self.vocabularies = c_inputs.vocabularies(self.encodings, labels, path) if self.encodings else []
        self.labels = labels
        self.places, self.widths = _places(net)
        self.features = self._features()

    def text(self) -> str:
        """Return the whole file."""
        self._add_constants()
        parts = {
            "header": self._header(),
            "interface": self._interface(),
            "activations": ", ".join(dict.fromkeys(["LINEAR", *(function for _, function, _, _ in self.layers)])),
            "slot": self.slot,
            "kinds": ", ".join(dict.fromkeys(kind for kind, _, _, _ in self.layers)),
            "inputs": ", ".join(sorted(self._input_kinds())),
            "constants": self.constants.text(),
            "program_constants": self._program_constants(),
        }
        return filled(template("model.c", self.features), parts)

    # ---- needed parts

    def _names(self) -> list[str] | None:
        encoding = self.net.encoding
        names = distinct(self.net.columns if encoding is None else encoding.names)
        return names if names and len(names) == self.inputs else None

    def _reads(self) -> list[str]:
        """Return number, text or date of each input."""
        encoding = self.encodings[0] if self.encodings else None
        return [encoder.reads for encoder in encoding.encoders] if encoding else ["number"] * self.inputs

    def _input_kinds(self) -> set[str]:
        return {kind for encoding in self.encodings for kind, _, _ in c_inputs.kinds_of(encoding)}

    @property
    def _has_gaps(self) -> bool:
        """Return whether a row may have gaps: not where all columns are plain numbers, which are read without any."""
        return self.net.encoding is not None and not self.net.encoding.plain

    def _are_rounded(self) -> bool:
        """Return whether the reader of files rounds the numbers of a float32 network."""
        found = []
        for encoding in self.encodings:
            known = [encoder for encoder in encoding.encoders if encoder.kind == "number"]
            found.append(tuple(np.array([getattr(e, name) for e in known]) for name in ("shift", "scale")))
        found += [(m.scaling.shift, m.scaling.scale) for m in self.net.members if m.encoding is None]
        return all(are_rounded("float32", shift, scale) for shift, scale in found)

    def _features(self) -> set[str]:
        net, members, kinds = self.net, self.net.members, self._input_kinds()
        found = {kind for kind, _, _, _ in self.layers} | kinds
        functions = {function for _, function, _, _ in self.layers} - {"LINEAR"}
        is_single = net.dtype == "float32"
        is_rounded = self._are_rounded()
        plain = [member for member in members if member.encoding is None]
        columns = [column for encoding in self.encodings for column in encoding.columns]
        needed = {
            "ACTIVATIONS": functions - {"SOFTMAX"},
            "IMAGES": found & set(c_layers.OF_IMAGES),
            "INPUTS": self.encodings,
            "PLAIN": plain,
            "SCALING": any(len(member.scaling.shift) for member in plain),
            "BYTES": any(member.scaling.kind == "pixel" for member in plain),
            "NUMBERS": kinds & {"NUMBER", "GAP"},
            "PIECES": any(column.pieces for column in columns),
            "WAVES": any(column.waves for column in columns),
            "WORDS": any(self.vocabularies),
            "DATES": "date" in self.reads,
            "GAPS": self._has_gaps,
            "MEMBERS": len(members) > 1,
            "TEMPERATURE": any(one.temperature != 1 for one in [net, *members]),
            "UNITS": any(units(member) for member in members),
            "CLIP": any(units(member) and len(member.target_scaling.low) for member in members),
            "CLASSES": net.task != "regression",
            "BINARY": net.task == "binary",
            "DOUBLE_ROWS": is_single and ("date" in self.reads or not is_rounded),
            "ROUNDING": is_single and is_rounded and "date" in self.reads and "number" in self.reads,
            "FLOAT64": not is_single,
            "NAMES": self.names,
            "PLACES": self.places,
        }
        return found | functions | {name for name, value in needed.items() if value}

    # ---- interface

    def _interface(self) -> str:
        net = self.net
        counts = [f"NN_INPUTS = {self.inputs}", f"NN_OUTPUTS = {net.outputs}"]
        if "CLASSES" in self.features:
            counts.append(f"NN_CLASSES = {len(class_names(net))}")
        lines = [
            f"typedef {'double' if net.dtype == 'float64' else 'float'} nn_real;",
            "",
            f"enum {{ {', '.join(counts)} }};",
        ]
        if "BINARY" in self.features:
            (threshold,) = numbers(np.array([float(net.threshold)]))
            lines += [
                "",
                "#ifndef NN_THRESHOLD",
                f"#define NN_THRESHOLD {threshold}  /* from which score on a row is of class 1 */",
                "#endif",
            ]
        return "\n".join(lines)

    # ---- constants

    def _add_constants(self) -> None:
        constants = self.constants
        if "WORDS" in self.features:
            gaps = sorted({*GAPS, *split_names(self.net.schema.choices.missing)})
            constants.words("gaps", [form for word in gaps for form in c_inputs.in_bytes(word)])
            c_inputs.add_vocabularies(constants, self.vocabularies, [comment(label) for label in self.labels])
        if "SCALING" in self.features:
            pixels = math.prod(self.shape[1:]) if isinstance(self.shape, tuple) else 1
            constants.line(f"\nenum {{ PIXELS = {pixels} }};  /* that share a scale */")
        self._add_networks()
        if "CLASSES" in self.features:
            constants.words("class_names", [name.encode() for name in class_names(self.net)])

    def _add_networks(self) -> None:
        constants, members = self.constants, self.net.members
        inputs = c_inputs.Inputs(constants, self.vocabularies, self.features)
        rows = []
        for number, (member, share) in enumerate(zip(members, shares(self.net), strict=True)):
            name = f"network_{number}_" if len(members) > 1 else ""
            rows.append(f"{{{', '.join(self._network(name, member, share, inputs))}}},")
        sizes = [c_layers.widths(member.layers) for member in members]
        room = [max(size) for size in zip(*sizes, strict=True)]
        self.stack = sum(room) * constants.dtype.itemsize + 24 * self.net.outputs + _FRAMES
        constants.line(f"\nenum {{ WIDEST_X = {room[0]}, WIDEST_SPARE = {room[1]} }};  /* values between layers */")
        if len(members) > 1:
            constants.line(f"enum {{ NETWORKS = {len(members)} }};")
            if "TEMPERATURE" in self.features:
                constants.line(f"static const double TEMPERATURE = {float(self.net.temperature)!r};  /* of the mean */")
        constants.structs("network", "networks", rows)

    def _network(self, name: str, member, share: float, inputs: c_inputs.Inputs) -> list[str]:
        """Add the constants of a member; return the fields of its struct."""
        constants, features, parameters = self.constants, self.features, member.parameters()
        fields = [repr(share)] if "MEMBERS" in features else []
        if "TEMPERATURE" in features:
            fields.append(repr(float(member.temperature)))
        if "UNITS" in features:
            shift, scale = units(member) or (np.zeros(member.outputs), np.ones(member.outputs))
            fields.append(constants.array(f"{name}target_shift", shift, "double"))
            fields.append(constants.array(f"{name}target_scale", scale, "double"))
        if "CLIP" in features:
            for what, values in zip(("low", "high"), bounds(member), strict=True):
                fields.append(constants.array(f"{name}target_{what}", values, "double"))
        if "SCALING" in features:
            fields += self._scaling(name, member)
        if "INPUTS" in features and member.encoding is not None:
            count = inputs.add(name, member.encoding, parameters.get("layer0.weight"))
            fields += [f"{name}inputs", str(count)]
        elif "INPUTS" in features:
            fields += ["NULL", "0"]
        count = c_layers.add_layers(constants, name, member.layers, parameters, "IMAGES" in features)
        return [*fields, f"{name}layers", str(count)]

    def _scaling(self, name: str, member) -> list[str]:
        if member.encoding is not None:
            return ["NULL", "NULL"]
        shift, scale = member.scaling.shift, member.scaling.scale
        if not len(shift):
            channels = self.shape[0] if isinstance(self.shape, tuple) else self.inputs
            shift, scale = np.zeros(channels), np.ones(channels)
        scale = np.where(np.isinf(scale), 0.0, scale)
        return [self.constants.array(f"{name}input_{what}", values, "double")
                for what, values in (("shift", shift), ("scale", scale))]  # fmt: skip

    def _program_constants(self) -> str:
        """Return what only the program needs."""
        own = Constants(self.net.dtype, {})
        if "NAMES" in self.features:
            own.words("columns", [name.encode() for name in self.names])
        if {"WORDS", "DATES"} & self.features:
            letters = {"number": "n", "text": "w", "date": "d"}
            items = ", ".join(f"'{letters[kind]}'" for kind in self.reads)
            own.line(f"\nstatic const char reads[{self.inputs}] = {{{items}}};  /* a number, word or date */")
        if "PLACES" in self.features:
            own.array("places", self.places, "int", "columns of the training's file")
            own.array("widths", self.widths, "int")
        if "GAPS" in self.features and "WORDS" not in self.features:
            gaps = sorted({*GAPS, *split_names(self.net.schema.choices.missing)})
            own.words("gaps", [form for word in gaps for form in c_inputs.in_bytes(word)])
        own.words("heads", [name.encode() for name in ["row", *prediction_names(self.net)]])
        given = self.net.schema.choices.separator
        separators = {"tab": "\t", "\\t": "\t"}.get(given, given) or _SEPARATORS
        own.line(f"\nstatic const char separators[] = {quoted(separators.encode())};")
        return own.text().lstrip("\n")

    # ---- the comment in front

    def _header(self) -> str:
        net = self.net
        size, stack = self.constants.bytes, self.stack
        name = comment(Path(self.path).name)
        double = "double" if net.dtype == "float64" else "float"
        lines = [
            f"{name} - a network written by nn: predictions in C99 (or C++), by this file and the C library alone",
            "",
            *self._network_lines(),
            "",
            f"Inputs, nn_real (a {double}):",
            *self._input_lines(),
            "",
            "Outputs, nn_real:",
            *self._output_lines(),
            "",
            f"Constants: {size} bytes, all of them const. Stack: at most {stack} bytes. No allocation, no state: any",
            "number of threads may call.",
            "",
            f"  cc -std=c99 -O2 -ffp-contract=off -c {name}",
            f"  cc -std=c99 -O2 -ffp-contract=off -DNN_MAIN {name} -o predict -lm",
            "  ./predict < rows.csv > predictions.csv",
            "",
            *self._accuracy_lines(),
        ]
        return "\n".join([f"/* {lines[0]}", *(f" * {line}".rstrip() for line in lines[1:]), " */"])

    def _network_lines(self) -> list[str]:
        net = self.net
        specs = [comment(member.spec) for member in net.members]
        several = f"the mean of {len(specs)} networks, " if len(specs) > 1 else ""
        count = sum(member.parameter_count for member in net.members)
        lines = [f"Network: {several}task {net.task}, {count} parameters"]
        return lines + [f"  {spec}" for spec in counted(specs)]

    def _input_lines(self) -> list[str]:
        if isinstance(self.shape, tuple):
            order = "channels x rows x columns of pixels, channel by channel"
            unit = "bytes, 0 to 255" if "BYTES" in self.features else "numbers"
            return [f"  {' x '.join(map(str, self.shape))} {unit}: {order}"]
        if not self.names and not self.encodings:
            return [f"  {self.inputs} numbers, in the order of training"]
        kinds = {"number": "number", "date": "date: seconds since 1970-01-01, in universal time"}
        width = max(len(str(self.inputs)), 2)
        lines = []
        for place, (label, reads) in enumerate(zip(self.labels, self.reads, strict=True)):
            kind = kinds.get(reads) or f"word: one of {len(self.vocabularies[place].forms)}, by nn_code"
            lines.append(f"  {place:{width}}  {comment(label)}: {kind}")
        return lines

    def _output_lines(self) -> list[str]:
        net = self.net
        if net.task == "regression":
            return [f"  {place}  {comment(name)}" for place, name in enumerate(prediction_names(net))]
        is_probability = net.layers[-1].output_function in ("sigmoid", "softmax")
        what = "probability" if is_probability else "score"
        return [f"  {place}  {what} of class {comment(name)}" for place, name in enumerate(output_names(net))]

    def _accuracy_lines(self) -> list[str]:
        if "FLOAT64" in self.features:
            lines = [
                "The outputs of layers are those of nn's backend seq, bit by bit, with the same C library and without",
                "fused products (-ffp-contract=off).",
            ]
            if self.features & {"YEAR", "WEEK", "DAY", "TEMPERATURE"}:
                lines.append("Cycles of dates and temperatures agree but for the last digit.")
        else:
            lines = ["Sums are doubles, in the order of nn's backend seq, with which predictions agree within 1e-6."]
        return [*lines, "An int has 32 bits or more. -ffast-math would lose NaN and infinity."]


def _places(net) -> tuple[list[int] | None, list[int]]:
    """Return (places of the inputs in a file such as the training's, how many columns such files have); None: unknown.

    Nothing moves where targets that stand behind the inputs are missing.
    """
    kept = net.inputs + len(net.config.get("left_out", ()))
    total = kept + (len(net.targets) if net.targets else 1)
    if net.encoding is not None and net.encoding.places:
        places = list(net.encoding.places)
    else:
        asked = net.config.get("target")
        try:
            targets = [-1] if asked is None else [int(word) for word in split_names(str(asked))]
        except ValueError:  # by name, as are the inputs
            return None, []
        gone = {*net.config.get("left_out", ()), *(target % total for target in targets)}
        places = [place for place in range(total) if place not in gone]
    if len(places) != net.inputs or not net.dataset:
        return None, []
    more = {kept, kept + net.outputs} if max(places) < kept else set()
    return places, sorted({total} | more, reverse=True)
