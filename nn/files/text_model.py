"""The original program's `.m` text: a dense sigmoid network, scaling folded into the
first layer.

Layout: the number of layers; their sizes; a line for each bias vector; a line for each
weight row.
"""

from __future__ import annotations

import math
import os
import re
from itertools import pairwise

import numpy as np

from ..layers import Layer, activations_of
from ..utils import DataError, UsageError, atomic_write
from .tensor_file import TensorFile, shortened

TEXT_SUFFIX = ".m"
RETRAIN = "copy it again or train again"
_TEXT_FILE = TensorFile(
    "nn",
    "model file",
    "a model that `nn --train` wrote, with the number of its layers in line 1",
    RETRAIN,
    "write one with `nn --train`",
    beginning=re.compile(rb"[^\0]"),
)


def is_text(path: str | os.PathLike) -> bool:
    """Return True if the name asks for the original's text format."""
    return str(path).endswith(TEXT_SUFFIX)


def check_layers(layers: list[Layer]) -> None:
    """Raise UsageError if the text cannot hold such a network; to be called before
    training."""
    for layer, activation in zip(layers, activations_of(layers), strict=True):
        if layer.kind != "dense":
            raise UsageError(
                f"--model: a .m file holds dense layers only, not {layer.item or layer.kind}; use .bin"
            )
        if activation != "sigmoid":
            raise UsageError(
                f"--model: a .m file holds sigmoid layers only, not {layer.item}:{activation}; "
                "add --activation sigmoid and end --layers in :sigmoid, or use .bin"
            )


def check_plain(path: str, ds, number_embedding: str | None = None) -> None:
    """Raise UsageError if the text cannot hold what becomes of such data; to be called
    before training."""
    if number_embedding is not None:
        raise UsageError(
            f"--number_embedding {number_embedding}: a .m file knows numbers alone; give --model another suffix, .bin"
        )
    kinds = set(getattr(ds.x, "kinds", ()) if hasattr(ds, "x") else ds.reads or ())
    if kinds:
        raise UsageError(
            f"--model {path}: a .m file knows numbers without gaps only, the data hold more; use .bin"
        )


def save(
    path: str | os.PathLike,
    sizes: list[int],
    biases: list[np.ndarray],
    weights: list[np.ndarray],
    fmt: str = "%.17g",
) -> None:
    """Write a dense network as the original program's `.m` text.

    sizes: neurons of every layer, input first; biases[l] (sizes[l+1],), weights[l]
    (sizes[l+1], sizes[l]).
    fmt: "%.17g" keeps every bit of a float64, "%lf" (six decimals) is what the original
    wrote.
    Layout: number of layers; the sizes; a line a bias vector; a line a weight row; a
    space after each number.
    Raises OutputError if the file cannot be written.
    """
    number = fmt + " "
    rows = [row for matrix in weights for row in matrix]
    lines = [str(len(sizes)), "".join(f"{size} " for size in sizes)]
    lines += [
        "".join([number % value for value in row.tolist()]) for row in [*biases, *rows]
    ]
    atomic_write(path, ("\n".join(lines) + "\n").encode("ascii"))


def load(
    path: str | os.PathLike,
) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
    """Read a `.m` text: (sizes, biases, weights) in float64, shapes as for `save`.

    Raises InputNotFound if there is no such file, DataError naming the line that is not
    as it should be.
    """
    lines = _text_lines(path, _TEXT_FILE.read(path))
    sizes = _parse_sizes(path, lines)
    expected_lines = len(sizes) - 1 + sum(sizes[1:])
    if len(lines) - 2 != expected_lines:  # before memory is taken
        raise DataError(
            f"{path}: {len(lines) - 2} lines of numbers, the sizes in line 2 need {expected_lines} "
            f"({len(sizes) - 1} bias vectors, {sum(sizes[1:])} weight rows); {RETRAIN}"
        )
    numbered_lines = iter(enumerate(lines[2:], start=3))

    def next_row(length: int) -> np.ndarray:
        number, line = next(numbered_lines)
        return _parse_row(path, number, line, length)

    biases = [next_row(outputs) for outputs in sizes[1:]]
    weights = [
        np.array([next_row(inputs) for _ in range(outputs)])
        for inputs, outputs in pairwise(sizes)
    ]
    return sizes, biases, weights


def _text_lines(path, data: bytes) -> list[str]:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not a {TEXT_SUFFIX} text (byte {error.start} is not an ASCII character); "
            f"if it is a model of another format, give it another suffix"
        ) from error
    # a cut inside the last number would otherwise go unnoticed
    if not text.endswith("\n"):
        raise DataError(f"{path}: cut off: the last line does not end; {RETRAIN}")
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _parse_sizes(path, lines: list[str]) -> list[int]:
    if len(lines) > 1:
        count = lines[0].split()
        sizes = lines[1].split()
    else:
        count = []
        sizes = []
    if len(count) != 1 or not re.fullmatch("[0-9]{1,9}", count[0]) or int(count[0]) < 2:
        if lines:
            line = shortened(lines[0])
        else:
            line = "nothing"
        raise DataError(
            f"{path}, line 1: {line}, expected the number of layers (2 or more) of a {TEXT_SUFFIX} model"
        )
    if len(sizes) != int(count[0]):
        raise DataError(
            f"{path}, line 2: {len(sizes)} layer sizes, expected {count[0]} as in line 1"
        )
    for size in sizes:
        if not re.fullmatch("[0-9]{1,9}", size) or int(size) == 0:
            raise DataError(
                f"{path}, line 2: layer size {shortened(size)}, expected a whole number from 1"
            )
    return [int(size) for size in sizes]


def _parse_row(path, number: int, line: str, length: int) -> np.ndarray:
    fields = line.split()
    if len(fields) != length:
        raise DataError(
            f"{path}, line {number}: {len(fields)} numbers, expected {length}; {RETRAIN}"
        )
    values = np.empty(length)
    for i, field in enumerate(fields):
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        # Python reads 1_000, a C program does not
        if not math.isfinite(value) or "_" in field:
            raise DataError(
                f"{path}, line {number}: {shortened(field)} in column {i + 1}, expected a finite number"
            )
        values[i] = value
    return values
