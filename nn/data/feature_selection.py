"""Feature selection: the rows of a table, without the columns that tell a network nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from ..utils import DataError
from .column_types import better_than_nothing, is_text, left_out, may_be_dates, mismatch, number_codes
from .columns import Columns
from .dataset import Dataset
from .digest import columns_digest
from .row_columns import RowColumns
from .source import FileDigest
from .table import Table
from .table_files import Fields, Place, read_as_needed
from .target_columns import names_of
from .written import other_than, way_of_dates

_MOST_TOLD = 20  # columns in a message


def read_selected(columns: Columns) -> Dataset:
    """Return all rows, with the columns that tell a network something."""

    def read(fields: Fields) -> tuple[Table, str | FileDigest | None]:
        table, sha256 = columns.files.read(fields, hashed=columns.reads is None)
        if table.names is not None:
            fields.check_names(*names_of(table))
        fields.check_all(table)
        return table, sha256

    table, sha256 = read_as_needed(read, columns.fields())
    if columns.reads is not None and not columns.examined and not columns.schema.of_model:
        _check_texts(columns, table)
    _check_written(columns, table)
    if not len(table.inputs):
        target = ", ".join(map(columns.files.column, columns.targets))
        raise DataError(f"{columns.files.path}, {target}: every field is a gap, expected a target in some rows")
    if found := _with_texts(columns, table, lambda fields: columns.files.read(fields)[0]):
        return read_selected(found)
    selected = _without_useless(columns, table)
    if selected is not columns:
        table = _narrowed(selected, table, columns)
    if selected.reads is None:
        return selected.dataset(table, sha256)
    with ThreadPoolExecutor(1) as hasher:
        digest = hasher.submit(columns_digest, [table])
        return replace(selected.dataset(table), sha256=digest.result())


def selected_by_first_rows(columns: Columns, rows: int) -> Columns:
    """Return the columns without those that tell a network nothing in the first rows."""
    if columns.schema.plain or columns.schema.of_model or columns.schema.pixels:
        return columns

    def read(fields: Fields) -> Table:
        return next(columns.files.blocks(fields, rows))

    first = read_as_needed(read, columns.fields())
    _check_written(columns, first)
    if found := _with_texts(columns, first, read):
        return selected_by_first_rows(found, rows)
    return _without_useless(columns, first)


def _with_texts(columns: Columns, table: Table, read: Callable[[Fields], Table]) -> Columns | None:
    """Return the columns with those features read as text, in which 1, 1.0 and 1e0 are one, whose numbers are names of
    something, ids or codes, or are dates, 20150314; None if there are none. read: reads the same rows as others."""
    if columns.schema.plain or columns.schema.of_model or columns.schema.pixels:
        return None
    known = columns.inputs_of(table), columns.names(columns.features), columns.chosen_features()
    codes = [columns.features[i] for i in number_codes(*known)]
    dates = _dates_among(columns, [columns.features[i] for i in may_be_dates(*known)], read)
    if not codes and not dates:
        return None
    reads = columns.reads or ("number",) * len(columns.features)
    texts = {*codes, *dates}
    reads = tuple("text" if c in texts else kind for c, kind in zip(columns.features, reads, strict=True))
    as_written = columns.as_written | dict.fromkeys(dates, "date")
    return replace(columns, reads=reads, decimals=columns.decimals | texts, as_written=as_written)


def _dates_among(columns: Columns, numbers: list[int], read: Callable[[Fields], Table]) -> list[int]:
    """Return those of these columns of numbers whose digits all are dates."""
    if not numbers:
        return []
    texts = {"reads": ("text",) * len(numbers), "decimals": columns.decimals | {*numbers}, "row_columns": RowColumns()}
    table = read_as_needed(read, replace(columns, features=numbers, **texts).fields())
    return [column for column, words in zip(numbers, table.words, strict=True) if way_of_dates(words)]


def _check_written(columns: Columns, table: Table) -> None:
    """Raise DataError for a word in a column that a person has said to be numbers, or dates, if it is none."""
    texts = [column for column, kind in zip(columns.features, columns.reads or (), strict=False) if kind == "text"]
    for place, column in enumerate(texts):
        kind = columns.as_written.get(column)
        others = other_than(table.words[place], kind) if kind else []
        if others:
            codes = table.codes[:, place]
            row = int(np.flatnonzero(np.isin(codes, others))[0])
            found = Place(table.row(row), table.words[place][codes[row]])
            raise DataError(f"{columns.files.path}, {mismatch(columns.files.column(column), column, kind, found)}")


def _check_texts(columns: Columns, table: Table) -> None:
    """Raise DataError if a column that was read as text is none, after all rows."""
    texts = [column for column, kind in zip(columns.features, columns.reads, strict=True) if kind == "text"]
    for place, column in enumerate(texts):
        known = column in columns.chosen or column in columns.decimals
        if not known and not is_text(table.codes[:, place], table.words[place]):
            raise DataError(f"{columns.files.path}, {columns.files.column(column)}: not text in most rows")


def _without_useless(columns: Columns, table: Table) -> Columns:
    """Return the columns without those that tell a network nothing."""
    if columns.schema.plain or columns.schema.of_model or columns.schema.pixels:
        return columns
    useless = left_out(columns.inputs_of(table), columns.names(columns.features), columns.chosen_features())
    if len(useless) == len(columns.features):
        for i in better_than_nothing(useless, columns.names(columns.features)):
            del useless[i]
    if not useless:
        return columns
    if len(useless) == len(columns.features):
        some = list(useless.items())[:_MOST_TOLD]
        reasons = ", ".join(f"{columns.files.column(columns.features[i])} ({why})" for i, why in some)
        reasons += f" and {len(useless) - len(some)} more" if len(useless) > len(some) else ""
        advice = "keep one by --numbers or --categories, or add some"
        raise DataError(
            f"{columns.files.path}: no input columns left, expected features; left out: {reasons}; {advice}"
        )
    kept = [i for i in range(len(columns.features)) if i not in useless]
    return replace(
        columns,
        features=[columns.features[i] for i in kept],
        reads=columns.reads and tuple(columns.reads[i] for i in kept),
        left_out=(*columns.left_out, *((columns.features[i], why) for i, why in useless.items())),
    )


def _narrowed(columns: Columns, table: Table, former: Columns) -> Table:
    """Return a table of these columns only, of one that was read by `former`."""
    gone = {i for i, column in enumerate(former.features) if column not in set(columns.features)}
    reads = former.reads or ("number",) * len(former.features)
    kept: dict[str, list[int]] = {"number": [], "text": [], "date": []}
    at = dict.fromkeys(kept, 0)
    for index, kind in [*enumerate(reads), *((-1, kind) for _, kind in former.row_columns.reads())]:
        if index not in gone:
            kept[kind].append(at[kind])
        at[kind] += 1
    numbers, texts = kept["number"], kept["text"]
    return replace(
        table,
        inputs=np.ascontiguousarray(table.inputs[:, numbers]),
        low=table.low[numbers],
        high=table.high[numbers],
        codes=None if table.codes is None else table.codes[:, texts],
        words=[table.words[place] for place in texts],
        dates=None if table.dates is None else table.dates[:, kept["date"]],
    )
