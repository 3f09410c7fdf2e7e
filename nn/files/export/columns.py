"""Facts of a network that every format asks for: names of columns, classes and outputs,
shares of members, units."""

from __future__ import annotations

from itertools import product

import numpy as np

from ...data.column import blurs
from ...data.pixels import BYTE
from ...data.written import WrittenDates, WrittenNumbers
from ...nn_aux import TASKS
from ...utils import UsageError

UNSEEN = "\0"  # a word that no column of text has


def check_columns(net, path) -> None:
    """Raise UsageError for a first layer whose codes no encoding explains."""
    for member in net.members:
        if member.layers[0].columns and member.encoding is None:
            raise UsageError(
                f"{path}: the first layer, embedding, reads codes whose words the network does not know; "
                "train it on a table (nn.train), or leave out input_columns"
            )


def input_kind(encoder) -> str:
    """Return what an exported model takes for a column: text, number or date. Of
    numbers and dates that people write in their own way it takes the values: numbers
    without their unit, seconds since 1970."""
    if isinstance(encoder.written, WrittenDates):
        return "date"
    if isinstance(encoder.written, WrittenNumbers):
        return "number"
    return encoder.reads


def column_names(net) -> list[str]:
    """Return the names of a table's columns; by their places in the file where they
    have none, or not each its own."""
    names = distinct(net.encoding.names)
    return names or [
        f"column_{place}"
        for place in net.encoding.places or range(net.encoding.features)
    ]


def exposure_name(net) -> str | None:
    """Return the name of the input that outputs are multiplied by; None where rows have
    no exposure."""
    name = net.config.get("table", {}).get("exposure")
    if name is not None and name.lstrip("-").isdigit():
        return "exposure"
    return name


def distinct(names: list[str] | None) -> list[str] | None:
    """Return the names if each column has its own, else None."""
    names = names or []
    if names and all(names) and len(set(names)) == len(names):
        return list(names)
    return None


def class_names(net) -> list[str]:
    """Return the names of the classes, their numbers where they have none."""
    return net.classes or [str(number) for number in range(max(net.outputs, 2))]


def label_names(net) -> list[list[str]]:
    """Return the two classes of each of several targets."""
    return net.labels or [["0", "1"]] * net.outputs


def output_names(net) -> list[str]:
    """Return what each output is of: a target, or a class, of two classes the second
    one."""
    if TASKS[net.task].by_output:
        return net.values or (
            [""] if net.outputs == 1 else [str(i) for i in range(net.outputs)]
        )
    return class_names(net)[1 if net.task == "binary" else 0 :]


def prediction_names(net) -> list[str]:
    """Return what the columns of predictions are called: each target's, of two classes
    both class and score, or the class and the score of each class."""
    if net.task == "regression":
        return [f"predicted {target}".strip() for target in output_names(net)]
    if net.task == "multilabel":
        ways = ("predicted", "score")
        return [f"{way} {name}" for name in output_names(net) for way in ways]
    return ["predicted", *(f"score {name}" for name in output_names(net))]


def shares(net) -> list[float]:
    whole = sum(net.member_weights)
    return [weight / whole for weight in net.member_weights]


def units(net) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (shift, scale) that bring a network's outputs into the targets' own units;
    None: they are in them."""
    if net.target_scaling is None or not len(net.target_scaling.shift):
        return None
    shift = net.target_scaling.shift
    scale = net.target_scaling.scale
    return shift, np.where(np.isinf(scale), 0.0, scale)


def pixel_divisor(net) -> int:
    """Return by what a network divides the values of a row before all else: the range
    of its pixels, else 1."""
    if net.scaling.kind != "pixel" or net.encoding is not None:
        return 1
    return net.reader.pixel_range or BYTE


def spellings(word: str) -> list[str]:
    """Return a word in every mixture of small and capital letters."""
    return [
        "".join(letters) for letters in product(*({c.lower(), c.upper()} for c in word))
    ]


def are_rounded(
    dtype, shift: np.ndarray, scale: np.ndarray, number_type: str | None
) -> bool:
    """Return whether files of columns with these constants are read as float32 by a
    network of this type: a float32 network reads them so, unless that would blur a
    column. number_type: in which the model reads columns, if it says.
    """
    if number_type is not None:
        return np.dtype(dtype) == np.float32 and number_type == "float32"
    return np.dtype(dtype) == np.float32 and not blurs(shift, scale)
