"""The comment in front of a C file: for a programmer who calls it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...data.pixels import BYTE
from ...utils import counted
from .c_inputs import Columns
from .c_text import C_NUMBERS, comment
from .columns import label_names, output_names, pixel_divisor, prediction_names


class Comment:
    """The lines that say what a network is, what goes in and what comes out.

    columns: of its inputs. has: the parts of the file, by their names in model.c.
    size, stack: the bytes of its constants, and of the stack at most.
    """

    def __init__(
        self, net, path, columns: Columns, has: Mapping, size: int, stack: int
    ):
        self.net = net
        self.path = path
        self.columns = columns
        self.has = has
        self.size = size
        self.stack = stack

    def text(self) -> str:
        """Return the comment."""
        net = self.net
        name = comment(Path(self.path).name)
        if self.has["GAPS"]:
            gaps = "NaN is a gap, infinity cannot be used"
        else:
            gaps = "NaN and infinity cannot be used"
        if self.has["MEDIANS"]:
            gaps = "NaN becomes the median of training, infinity cannot be used"
        lines = [
            f"{name} - a network written by nn: predictions in C99 (or C++), by this file and the C library alone",
            "",
            *self._network_lines(),
            "",
            f"Inputs, nn_real (a {C_NUMBERS[net.dtype]}); {gaps}:",
            *self._input_lines(),
            *self._exposure_lines(),
            "",
            f"Outputs, nn_output (a {C_NUMBERS[net.value_dtype]}):",
            *self._output_lines(),
            "",
            f"Constants: {self.size} bytes, all of them const. Stack: at most {self.stack} bytes. No allocation, no state: any",
            "number of threads may call.",
            "",
            f"  cc -std=c99 -O2 -ffp-contract=off -c {name}",
            "",
            *self._accuracy_lines(),
        ]
        return "\n".join(
            [f"/* {lines[0]}", *(f" * {line}".rstrip() for line in lines[1:]), " */"]
        )

    def _network_lines(self) -> list[str]:
        net = self.net
        specs = [comment(member.spec) for member in net.members]
        if len(specs) > 1:
            several = f"the mean of {len(specs)} networks, "
        else:
            several = ""
        count = sum(member.parameter_count for member in net.members)
        lines = [f"Network: {several}task {net.task}, {count} parameters"]
        return lines + [f"  {spec}" for spec in counted(specs)]

    def _input_lines(self) -> list[str]:
        columns = self.columns
        if isinstance(columns.shape, tuple):
            order = "channels x rows x columns of pixels, channel by channel"
            return [
                f"  {' x '.join(map(str, columns.shape))} {self._pixel_unit()}: {order}"
            ]
        if not columns.names and not columns.encodings:
            return [f"  {columns.count} numbers, in the order of training"]
        kinds = {
            "number": "number",
            "date": "date: seconds since 1970-01-01, in universal time",
        }
        width = max(len(str(columns.count)), 2)
        lines = []
        for place, (label, reads) in enumerate(
            zip(columns.labels, columns.reads, strict=True)
        ):
            kind = (
                kinds.get(reads)
                or f"word: one of {len(columns.vocabularies[place].forms)}, by nn_code"
            )
            lines.append(
                f"  {place:{width}}  {comment(label)}: {kind}{self._own_way(place)}"
            )
        return lines

    def _exposure_lines(self) -> list[str]:
        columns = self.columns
        if columns.exposure is None:
            return []
        return [
            f"  {columns.count}, the last: {comment(columns.exposure)}, by which outputs are multiplied, above 0; nn_interval "
            "takes",
            "  the outputs of a row where it is 1, and its ends are to be multiplied",
        ]

    def _own_way(self, place: int) -> str:
        """Return how the table of training wrote the numbers or dates of a column, if
        it did in a way of its own."""
        columns = self.columns
        if not columns.encodings:
            return ""
        encoder = columns.encodings[0].encoders[place]
        if encoder.kind not in ("written number", "written date"):
            return ""
        return f" (the value of what training wrote as {comment(str(encoder.written))})"

    def _pixel_unit(self) -> str:
        """Return what each pixel is."""
        white = pixel_divisor(self.net)
        if white == BYTE:
            return f"bytes, 0 to {BYTE}"
        if white == 1:
            return "numbers"
        return f"numbers, 0 to {white}"

    def _output_lines(self) -> list[str]:
        net = self.net
        if net.task == "regression":
            return [
                f"  {place}  {comment(name)}"
                for place, name in enumerate(prediction_names(net))
            ]
        if net.task == "multilabel":
            cuts = ["NN_THRESHOLD"] * net.outputs
            if isinstance(net.threshold, list):
                cuts = [f"{cut:.9g}" for cut in net.threshold]
            pairs = zip(output_names(net), label_names(net), cuts, strict=True)
            return [
                f"  {place}  score {comment(name)}: {comment(pair[1])} from {cut} on, else {comment(pair[0])}"
                for place, (name, pair, cut) in enumerate(pairs)
            ]
        is_probability = net.layers[-1].output_function in ("sigmoid", "softmax")
        if is_probability:
            what = "probability"
        else:
            what = "score"
        return [
            f"  {place}  {what} of class {comment(name)}"
            for place, name in enumerate(output_names(net))
        ]

    def _accuracy_lines(self) -> list[str]:
        if self.has["FLOAT64"]:
            lines = [
                "The outputs of layers are those of nn's backend seq, bit by bit, with the same C library and without",
                "fused products (-ffp-contract=off).",
            ]
            if self.has["CYCLES"] or self.has["TEMPERATURE"]:
                lines.append(
                    "Cycles of dates and temperatures agree but for the last digit."
                )
        else:
            lines = [
                "Predictions agree with nn's within 1e-6. Weights of dense layers are digits of base 64, 24 bits of the",
                "largest weight of their input; products are floats, of which the sums of some are added as doubles.",
            ]
        return [*lines, "An int has 32 bits or more. -ffast-math is refused."]
