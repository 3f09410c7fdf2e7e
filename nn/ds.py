"""Data sets, the door: `load` reads one from files, `split_rows` splits it by seed.

The parts of nn/data do the work; nn/data/__init__.py has their picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .data import loading
from .data.dataset import Choices, Dataset, Schema, check_trainable
from .data.scaling import Scaling
from .data.splits import split_rows
from .nn_aux import DTYPES
from .settings.flags import BY_NAME, checked_settings
from .settings.values import joined_names
from .settings.values import plain as plain_value

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
    header, weight, group, time, positive: what a person says of a table's columns and
    layout, see Choices. Other columns are taken for what their fields are, and
    Dataset.left_out names those that tell nothing.

    Raises InputNotFound, DataError (naming row and column) and UsageError (target or
    task that cannot be).
    """
    if dtype not in DTYPES:  # the core has functions for no other
        BY_NAME["dtype"].check(dtype)
    dtype = DTYPES[dtype]
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
    return loading.load(path, schema, labelled=labelled, memory=memory, y=y)


def _target_of(target) -> str | int | None:
    """Return target columns as their text, or an index."""
    target = plain_value(target)
    if isinstance(target, (list, tuple)):
        return joined_names(target)
    return target
