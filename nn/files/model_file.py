"""Model files: safetensors with one JSON string of metadata, and the original program's `.m` text.

A file is either returned whole and checked or refused with one line: nothing in it is executed, no size
it claims is believed before the bytes are there, and any changed bit of a safetensors model is noticed.
"""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path

import numpy as np

from .layers import parse as parse_layers
from .nn_aux import SCALINGS, TASKS
from .tensor_file import TensorFile, one_line
from .utils import DataError, UsageError, atomic_write

FORMAT = 1
TEXT_SUFFIX = ".m"
_DTYPES = {"float32": "F32", "float64": "F64"}
_RETRAIN = "copy it again or train again"
_FILE = TensorFile(
    "nn", "model file", "a model that `nn --train` wrote", _RETRAIN, "write one with `nn --train`"
)


# ---------------------------------------------------------------- safetensors


def save(path: str | os.PathLike, tensors: dict[str, np.ndarray], metadata: dict) -> None:
    """Write a model as a safetensors file, replacing `path` only once the new file is complete.

    tensors: "layer0.weight" (out, in), "layer0.bias" (out,), ..., all of metadata["dtype"].
    metadata: the facts beside the numbers (keys: see `_METADATA`); `format` and `sha256` are added here.
    The same arguments give the same bytes. Raises OutputError if the file cannot be written, DataError
    if the model could not be loaded again (a number that is not finite, a fact that is missing).
    """
    metadata = {**metadata, "format": FORMAT}
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    _check_metadata(path, metadata)
    _check_tensors(path, tensors, metadata)
    _FILE.save(path, tensors, metadata)


def load(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict]:
    """Read a model written by `save`: (tensors, metadata), everything checked.

    Raises InputNotFound if there is no such file, DataError if it is foreign, cut, changed or hostile.
    """
    data = _FILE.read(path)
    header, metadata = _FILE.header(path, data)
    _check_metadata(path, metadata)
    _FILE.check_digest(path, data, metadata)
    _check_types(path, header, metadata["dtype"])
    tensors = _FILE.tensors(path, data)
    _check_tensors(path, tensors, metadata)
    return tensors, metadata


# ---------------------------------------------------------------- what the metadata must look like


def _is_number(value) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    )


def _is_whole(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value) -> bool:
    return isinstance(value, str)


def _is_texts(value) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_numbers(value) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_scaling(value) -> bool:
    """{"kind": name, "shift": numbers, "scale": numbers}, as Scaling.to_dict writes them."""
    return (
        isinstance(value, dict)
        and value.get("kind") in tuple(SCALINGS)
        and _is_numbers(value.get("shift"))
        and _is_numbers(value.get("scale"))
        and len(value["shift"]) == len(value["scale"])
        and min(value["scale"], default=0) >= 0
        and bool(value["shift"]) == (value["kind"] in ("normalization", "standardization"))
    )


def _is_dataset(value) -> bool:
    return isinstance(value, dict) and all(
        key in value and _optional(_is_text)(value[key]) for key in ("path", "sha256")
    )


def _is_history(value) -> bool:
    return (
        isinstance(value, dict)
        and _is_numbers(value.get("loss"))
        and "val_loss" in value
        and _optional(_is_numbers)(value["val_loss"])
    )


def _optional(check):
    return lambda value: value is None or check(value)


# key: (check, what is expected); a key may not be missing, null stands for what a network does not have
_METADATA = {
    "format": (_is_whole, "a whole number"),
    "layers": (_is_text, "a text"),
    "task": (lambda value: value in tuple(TASKS), " or ".join(TASKS)),
    "loss": (_is_text, "a text"),
    "dtype": (lambda value: _is_text(value) and value in _DTYPES, " or ".join(_DTYPES)),
    "scaling": (_is_scaling, "kind, shift and scale"),
    "target_scaling": (_optional(_is_scaling), "kind, shift and scale"),
    "columns": (_optional(_is_texts), "a list of texts"),
    "targets": (_optional(_is_texts), "a list of texts"),
    "classes": (_optional(_is_texts), "a list of texts"),
    "threshold": (_is_number, "a number"),
    "seed": (lambda value: _is_whole(value) and 0 <= value < 2**32, "a whole number from 0 to 2^32-1"),
    "holdout": (lambda value: _is_number(value) and 0 <= value < 1, "a number from 0 to below 1"),
    "dataset": (_optional(_is_dataset), "path and sha256"),
    "history": (_is_history, "lists of numbers"),
    "config": (lambda value: isinstance(value, dict), "an object"),
}


def _check_metadata(path, metadata: dict) -> None:
    version = metadata.get("format")
    if _is_whole(version) and version > FORMAT:
        raise DataError(
            f"{path}: model file format {version}, this nn reads up to {FORMAT}; install a newer nn"
        )
    for key, (check, expected) in _METADATA.items():
        if key not in metadata:
            raise DataError(f"{path}: damaged model file: `{key}` is missing from its metadata; {_RETRAIN}")
        if not check(metadata[key]):
            raise DataError(
                f"{path}: damaged model file: `{key}` is {_shortened(metadata[key])}, "
                f"expected {expected}; {_RETRAIN}"
            )
    _check_agreement(path, metadata)


def _check_agreement(path, metadata: dict) -> None:
    """The facts must be about one network: names, classes and scaling constants as many as its layers say."""
    try:
        layers = parse_layers(metadata["layers"])
    except UsageError as error:
        raise DataError(f"{path}: damaged model file: {error}") from error
    inputs, outputs = layers[0].inputs, layers[-1].outputs
    features = layers[0].in_shape[0]  # of a table; channels of an image
    classes = 2 if metadata["task"] == "binary" else outputs
    counts = {
        "columns": (metadata["columns"], (inputs,)),
        "classes": (metadata["classes"], range(1, classes + 1)),
        "scaling": (metadata["scaling"]["shift"], (0, features)),
        "target_scaling": ((metadata["target_scaling"] or {}).get("shift"), (0, outputs)),
    }
    for key, (values, wanted) in counts.items():
        if values is not None and len(values) not in wanted:
            raise DataError(
                f"{path}: damaged model file: `{key}` has {len(values)} entries, "
                f"its layers {_shortened(metadata['layers'])} need {wanted[-1]}; {_RETRAIN}"
            )


def _check_types(path, header: dict, dtype: str) -> None:
    """Every tensor's type as the header says it, before the library makes an array of it."""
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        found = entry.get("dtype") if isinstance(entry, dict) else None
        if found != _DTYPES[dtype]:
            raise DataError(
                f"{path}: damaged model file: {_shortened(name)} is of type {_shortened(found)}, "
                f"expected {_DTYPES[dtype]}; {_RETRAIN}"
            )


def _check_tensors(path, tensors: dict[str, np.ndarray], metadata: dict) -> None:
    for name, array in tensors.items():
        if array.dtype.name != metadata["dtype"]:
            raise DataError(
                f"{path}: damaged model file: {name} is {array.dtype.name}, "
                f"expected {metadata['dtype']}; {_RETRAIN}"
            )
        if not np.isfinite(array).all():
            raise DataError(f"{path}: {name} holds a number that is not finite; train again")
    wanted, found = _tensor_shapes(metadata["layers"]), {name: array.shape for name, array in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise DataError(
                f"{path}: damaged model file: {_shortened(name)} has shape {found.get(name)}, "
                f"its layers {_shortened(metadata['layers'])} need {wanted.get(name)}; {_RETRAIN}"
            )


def _tensor_shapes(spec: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of these layers, counted without those that have no parameters."""
    layers = [layer for layer in parse_layers(spec) if layer.weight_shape]
    weights = {f"layer{i}.weight": layer.weight_shape for i, layer in enumerate(layers)}
    return weights | {f"layer{i}.bias": (layer.biases,) for i, layer in enumerate(layers)}


def _shortened(value) -> str:
    text = one_line(repr(value))
    return text if len(text) <= 40 else text[:37] + "..."


# ---------------------------------------------------------------- the original's text


def save_text(
    path: str | os.PathLike,
    sizes: list[int],
    biases: list[np.ndarray],
    weights: list[np.ndarray],
    fmt: str = "%.17g",
) -> None:
    """Write a dense network as the original program's `.m` text.

    sizes: neurons of every layer, input first; biases[l] (sizes[l+1],), weights[l] (sizes[l+1], sizes[l]).
    fmt: "%.17g" keeps every bit of a float64, "%lf" (six decimals) is what the original wrote.
    Layout: number of layers; the sizes; a line a bias vector; a line a weight row; a space after each number.
    Raises OutputError if the file cannot be written.
    """
    number = fmt + " "
    rows = [row for matrix in weights for row in matrix]
    lines = [str(len(sizes)), "".join(f"{size} " for size in sizes)]
    lines += ["".join([number % value for value in row.tolist()]) for row in [*biases, *rows]]
    atomic_write(path, ("\n".join(lines) + "\n").encode("ascii"))


def load_text(path: str | os.PathLike) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
    """Read a `.m` text: (sizes, biases, weights) in float64, shapes as for `save_text`.

    Raises InputNotFound if there is no such file, DataError naming the line that is not as it should be.
    """
    lines = _text_lines(path, _FILE.read(path))
    sizes = _parse_sizes(path, lines)
    expected = _row_lengths(path, sizes, len(lines) - 2)
    rows = [
        _parse_row(path, number, line, length)
        for number, (line, length) in enumerate(zip(lines[2:], expected, strict=True), start=3)
    ]
    biases, rows = rows[: len(sizes) - 1], rows[len(sizes) - 1 :]
    weights = []
    for outputs in sizes[1:]:
        weights.append(np.array(rows[:outputs]))
        rows = rows[outputs:]
    return sizes, biases, weights


def _text_lines(path, data: bytes) -> list[str]:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not a {TEXT_SUFFIX} text (byte {error.start} is no ASCII character); "
            f"if it is a model of another format, give it another suffix"
        ) from error
    if not text.endswith("\n"):  # a cut inside the last number would otherwise go unnoticed
        raise DataError(f"{path}: cut off: the last line does not end; {_RETRAIN}")
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _parse_sizes(path, lines: list[str]) -> list[int]:
    count, sizes = (lines[0].split(), lines[1].split()) if len(lines) > 1 else ([], [])
    if len(count) != 1 or not re.fullmatch("[0-9]{1,9}", count[0]) or int(count[0]) < 2:
        found = _shortened(lines[0]) if lines else "nothing"
        raise DataError(
            f"{path}, line 1: {found}, expected the number of layers (2 or more) of a {TEXT_SUFFIX} model"
        )
    if len(sizes) != int(count[0]):
        raise DataError(f"{path}, line 2: {len(sizes)} layer sizes, line 1 says {count[0]}")
    for size in sizes:
        if not re.fullmatch("[0-9]{1,9}", size) or int(size) == 0:
            raise DataError(f"{path}, line 2: layer size {_shortened(size)}, expected a whole number from 1")
    return [int(size) for size in sizes]


def _row_lengths(path, sizes: list[int], rows: int) -> list[int]:
    """Numbers in each line after the sizes; nothing is made of that size before as many lines are there."""
    wanted = len(sizes) - 1 + sum(sizes[1:])
    if rows != wanted:
        raise DataError(
            f"{path}: {rows} lines of numbers, the sizes in line 2 need {wanted} "
            f"({len(sizes) - 1} bias vectors, {sum(sizes[1:])} weight rows); {_RETRAIN}"
        )
    lengths = list(sizes[1:])
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        lengths += [inputs] * outputs
    return lengths


def _parse_row(path, number: int, line: str, length: int) -> np.ndarray:
    fields = line.split()
    if len(fields) != length:
        raise DataError(f"{path}, line {number}: {len(fields)} numbers, expected {length}; {_RETRAIN}")
    values = np.empty(length)
    for i, field in enumerate(fields):
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or "_" in field:  # Python reads 1_000, a C program does not
            raise DataError(
                f"{path}, line {number}: {_shortened(field)} in column {i + 1}, expected a finite number"
            )
        values[i] = value
    return values


def is_text(path: str | os.PathLike) -> bool:
    """Whether the name asks for the original's text format."""
    return Path(path).suffix == TEXT_SUFFIX


def is_model(path: str | os.PathLike) -> bool:
    """Whether the file is a model, as its name or its first bytes say (a safetensors header begins at byte 8)."""
    try:
        with open(path, "rb") as file:
            return is_text(path) or file.read(9)[8:] == b"{"
    except OSError:
        return False
