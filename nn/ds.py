"""Data sets, the door: `load` reads one from files, `load_described` for a network that
is described, `split_rows` splits it by seed.

The parts of nn/data do the work; nn/data/__init__.py has their picture.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .data import loading
from .data.dataset import Dataset, check_trainable
from .data.frames import columns_of
from .data.scaling import Scaling
from .data.schema import ROW_ROLES, Choices, Schema
from .data.splits import split_rows
from .layers import IMAGE_KINDS, Layer, begins_auto, input_shape, parse
from .nn_aux import DTYPES, TASKS, loss_of, quantiles_of
from .settings.flags import (
    BY_NAME,
    REFERENCE,
    check_reference_layers,
    checked_settings,
)
from .settings.values import joined_names
from .settings.values import plain as plain_value
from .utils import LayersMismatch, UsageError

__all__ = [
    "Choices",
    "Dataset",
    "Scaling",
    "Schema",
    "check_trainable",
    "load",
    "split_rows",
]


def load(  # noqa: PLR0913 - settings by keyword
    path: Any,
    *,
    target: str | int | Sequence[str | int] | None = None,
    task: str = "auto",
    inputs: int | tuple[int, int, int] | None = None,
    outputs: int | None = None,
    classes: list[str] | None = None,
    columns: list[str] | None = None,
    targets: list[str] | None = None,
    dtype: str = "float32",
    plain: bool = False,
    labelled: bool = True,
    memory: int | str | None = None,
    y=None,
    **choices,
) -> Dataset:
    """Read a data set: CSV, JSON, JSON lines, NPY, IDX or CIFAR-10 binary, gzipped or
    not, Parquet, Arrow, ORC, Excel, SQLite, NPZ (x, y), or pictures in a folder of
    class folders.

    path: or a data frame (pandas, polars, Arrow; a dictionary of columns, or a list of
    rows, dictionaries or lists), or an array (rows, columns); y: the targets of its
    rows, where they are no columns of it. data.db:table is a table of a database.
    Tables may be several files with the same columns: with commas between them, a
    pattern (day*.csv) or their folder; a URI that pyarrow opens; or -, standard input.
    target: target columns, names or indices (from 0, negative from the end),
    comma-separated or a list.
    task: auto, binary, multiclass or regression. inputs, outputs: the network's, if it
    is known: a number of inputs, or (channels, height, width), which makes a table's
    columns pixels (uint8 if all are whole numbers in 0..255). classes, columns,
    targets: a model's class names, feature columns and target columns; labels are
    mapped to the classes, and columns found by name if the file has a header.
    plain: all features are numbers without gaps, and inputs. labelled: False takes a
    file without targets too (y is None then). memory: bytes within which the program is
    to stay, here and in a training, as a number or a text (2G); None: the free memory.
    Rows
    that have no room there are in mapped files, and give the same numbers.
    choices: categories, numbers, dates, ordered, drop, id, missing, strict, separator,
    header, weight, exposure, group, time, positive: what a person says of a table's
    columns and layout, see Choices; weight, exposure, group and time may be values of
    each row of a frame or an array, beside it. Other columns are taken for what their
    fields are, and Dataset.left_out names those that tell nothing.

    Raises InputNotFound, DataError (naming row and column) and UsageError (target or
    task that cannot be).
    """
    if dtype not in DTYPES:  # the core has functions for no other
        BY_NAME["dtype"].check(dtype)
    dtype = DTYPES[dtype]
    beside = taken_beside(path, choices)
    given = checked_settings("load", choices, "load")
    said = Choices(
        **{name: BY_NAME[name].check(value) for name, value in given.items()}
    )
    schema = Schema(
        task,
        inputs,
        outputs,
        classes,
        columns,
        targets,
        _target_of(target),
        dtype,
        said,
        plain,
    )
    beside = {f"{name}s": values for name, values in beside.items()}
    return loading.load(
        path, schema, labelled=labelled, memory=memory, y=y, beside=beside
    )


def _target_of(target) -> str | int | None:
    """Return target columns as their text, or an index."""
    target = plain_value(target)
    if isinstance(target, (list, tuple)):
        return joined_names(target)
    return target


# ---- for a network that is described by its settings


def parsed(
    layers: str | None, network_settings: dict
) -> tuple[str, list[Layer]] | None:
    """Return --layers, as text and parsed before the task is known; None without them.
    network_settings: its settings."""
    if layers is None:
        return None
    spec = layers
    if begins_auto(layers):
        any_inputs = "1"
        if any(f",{kind}" in layers.replace(" ", "") for kind in IMAGE_KINDS):
            any_inputs = "1x512x512"
        spec = layers.replace("auto", any_inputs, 1)
    if not network_settings.get("reference"):
        return layers, parse(spec, network_settings.get("activation") or "relu")
    layer_list = parse(spec, REFERENCE["activation"], "sigmoid")
    check_reference_layers(layer_list)
    return layers, layer_list


def load_described(
    data, target, described, load_settings: dict, network_settings: dict
) -> Dataset:
    """Read data for a network that nobody has made yet. target: columns, or values
    beside the data. described: what `parsed` returns. Raises UsageError where the
    layers do not fit the data."""
    load_settings = dict(load_settings)
    if "dtype" in network_settings:
        load_settings["dtype"] = network_settings["dtype"]
    task = loss_of(network_settings.get("loss") or TASKS["regression"].loss).task
    if task and load_settings.get("task", "auto") == "auto":
        load_settings["task"] = task
    if target is not None:
        load_settings["target" if are_columns(data, target) else "y"] = target
    if network_settings.get("reference"):
        load_settings |= {"dtype": REFERENCE["dtype"], "plain": True}
    if described is None:
        return load(data, **load_settings)
    layers, layer_list = described
    outputs = layer_list[-1].outputs
    if quantiles_of(network_settings.get("loss") or ""):
        outputs = 1  # of the data: several quantiles are of one target
    if begins_auto(layers):
        return load(data, outputs=outputs, **load_settings)
    try:
        return load(
            data, inputs=input_shape(layer_list), outputs=outputs, **load_settings
        )
    except LayersMismatch as error:
        cure = _layers_meant(layers, layer_list, load(data, **load_settings))
        raise UsageError(f"--layers {layers}: {error}{cure}") from error


def _layers_meant(layers: str, layer_list: list[Layer], ds: Dataset) -> str:
    """Return which layers a person probably meant who left out the inputs and perhaps
    the outputs, as scikit-learn's users do."""
    if input_shape(layer_list) in (ds.row_shape, ds.row_shape[0]):
        return ""
    ending = f",{ds.outputs}"
    if layers.endswith(ending):
        ending = ""
    return f"; did you mean auto,{layers}{ending}?"


def target_text(target: str | int | Sequence) -> str:
    """Return the names or places of target columns as the flag has them."""
    if isinstance(target, (list, tuple)):
        return joined_names(target)
    return str(target)


def taken_beside(data, settings: dict) -> dict:
    """Return weight, exposure, group and time where they are values of each row, not a
    column, which then are no longer among the settings."""
    return {
        name: settings.pop(name)
        for name in ROW_ROLES
        if settings.get(name) is not None and not are_columns(data, settings[name])
    }


def are_columns(data, target) -> bool:
    """Return whether a target names columns of the data; else it holds a value for each
    row."""
    if isinstance(target, (str, int, np.integer)):
        return True
    if not isinstance(target, (list, tuple)):
        return False
    if isinstance(data, (str, os.PathLike)):
        return True
    frame = columns_of(data)
    return (
        frame is not None
        and len(target) != frame.rows
        and {*target} <= {*(frame.names or ())}
    )
