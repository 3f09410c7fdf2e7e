"""Reading a data set: its format is recognised, its columns are chosen, its rows become a Dataset."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..utils import DataError, UsageError
from .column_lookup import named_columns
from .columns import Columns
from .dataset import Dataset, Schema, name_of
from .feature_selection import read_selected
from .formats import FORMATS, Format, recognise
from .frame_table import FrameTable, open_frame
from .giveaways import giveaways
from .source import absolute
from .stream import StreamedDataset, survey
from .table_files import ReadOptions, TableFiles
from .table_rows import TableRows
from .targets import dataset_of
from .type_inference import read_inferred

BLOCK_ROWS = 1 << 15  # read at a time by load_blocks, fewer of wide rows
BLOCK_VALUES = 1 << 22


def load(
    path,
    schema: Schema,
    *,
    labelled: bool = True,
    memory=None,
    window=None,
    holdout: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    y=None,
) -> Dataset | StreamedDataset:
    """Read a data set; ds.load explains the arguments and the errors. path: may be a data frame too."""
    schema.check()
    frame = open_frame(path, y=y)
    if frame is not None:
        return _whole(Columns.choose(frame, schema if y is None else _beside(schema, frame, path), labelled))
    if y is not None:
        raise UsageError("y: goes with a data frame or an array (rows, columns) of features; leave it out")
    if isinstance(path, np.ndarray):
        raise UsageError(f"an array of shape {path.shape}, expected (rows, columns); nn.Dataset(x, y, task) has images")
    path = os.fspath(path)
    known, files = recognise(path)
    streamed = memory is not None or window is not None
    if not known.table:
        return _load_arrays(known, files[0], schema, labelled, streamed)
    columns = Columns.choose(open_table(known, files, path, schema), schema, labelled)
    if streamed:
        limits = {"memory": memory, "window": window, "holdout": holdout, "validation": validation, "seed": seed}
        return read_inferred(columns, lambda columns: StreamedDataset(columns, **limits))
    return _whole(columns)


def _beside(schema: Schema, frame: FrameTable, x) -> Schema:
    """Return the schema of a frame whose targets stand behind the columns of x."""
    first = np.shape(x)[1]
    if frame.columns == first + 1 and not schema.of_model:
        return replace(schema, target=None)
    return replace(schema, target=",".join(map(str, range(first, frame.columns))))


def _whole(columns: Columns) -> Dataset:
    """Return all rows of a table."""
    ds = read_inferred(columns, read_selected)
    if not columns.schema.of_model:
        ds.remarks += giveaways(ds)
    elif columns.schema.encoding is not None:
        columns.schema.encoding.check(TableRows.of(ds.x), name_of(ds))
    return ds


def open_table(known: Format, files: list[str], path: str, schema: Schema) -> TableFiles:
    """Return the files of a table, opened as the schema's choices say."""
    choices = schema.choices
    options = ReadOptions(choices.separator, choices.header, named_columns(schema.target, choices))
    table = known.table(files, path, options)
    if not schema.of_model or options.header != "auto" or schema.columns is None or table.names is not None:
        return table
    if set(schema.columns) <= set(map(table.first_field, range(table.columns))):  # a header that the rule did not see
        return known.table(files, path, replace(options, header="yes"))
    return table


def load_blocks(path: str, schema: Schema, *, labelled: bool = True, rows: int | None = None) -> Iterator[Dataset]:
    """Yield a data set in blocks of rows; ds.load_blocks says more."""
    rows = rows or max(256, min(BLOCK_ROWS, BLOCK_VALUES // (schema.width or 1) // 256 * 256))
    known, files = recognise(path)
    if known.table:
        yield from _table_blocks(Columns.choose(open_table(known, files, path, schema), schema.check(), labelled), rows)
        return
    ds = load(path, schema, labelled=labelled)
    for at in range(0, ds.rows, rows):
        yield ds.of_rows(slice(at, at + rows))


def _table_blocks(columns: Columns, rows: int) -> Iterator[Dataset]:
    columns, found = read_inferred(columns, lambda columns: (columns, survey(columns, rows)))
    if found.any_target_gap:  # rows to be predicted: as in a file without targets
        columns = replace(columns, targets=[])
        found = survey(columns, rows)
    # no single block needs to hold all classes; targets as the file has them
    columns = columns.knowing(
        task=found.task, classes=found.classes, dtype="float64", written=columns.schema.written or found.written
    )
    for table in columns.files.blocks(found.fields, rows):
        yield columns.dataset(table)


def _load_arrays(known: Format, path: str, schema: Schema, labelled: bool, streamed: bool) -> Dataset:
    tables = [known.name for known in FORMATS if known.table]
    if schema.target is not None:
        raise UsageError(f"{path}: --target names a column of a table ({', '.join(tables)}); leave it out")
    if streamed:
        raise UsageError(f"{path}: --memory and --window are for {' and '.join(tables)} tables; leave them out")
    found = known.arrays(path, schema.dtype, labelled)
    x = _shaped(path, found.x, schema)
    facts = {"path": absolute(path), "given": path, "sha256": found.sha256}
    return dataset_of(x, found.targets, schema, now=found.now, **facts)


def _shaped(path: str, x, schema: Schema):
    """Return x in the shape that the network takes, if it has as many values a row."""
    if schema.inputs is None:
        return x
    shape = schema.pixels or (schema.inputs,)
    same_values = math.prod(shape) == math.prod(x.shape[1:])
    if not same_values or (schema.pixels and x.ndim == 4 and shape != x.shape[1:]):
        found, expected = ("x".join(map(str, sizes)) for sizes in (x.shape[1:], shape))
        raise DataError(
            f"{path}: {found} values a row, expected {expected}, one per input of the network; check --layers"
        )
    return x.reshape(-1, *shape) if schema.pixels else x
