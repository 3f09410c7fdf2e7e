"""The value of a row that is furthest out, as messages name it: where an output is not
finite, such a value is the likeliest cause."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..utils import RowError
from .column import number_text
from .row_reader import RowReader
from .table_rows import TableRows

FAR_VALUE = 1e18  # from which float32 has no room for a square
BLOCK_OF_ROWS = 65536  # that are read at a time


def name_of_column(reader: RowReader, column: int) -> str:
    """Return how messages call a feature column."""
    name = reader.encoding and reader.encoding.name(column)
    if name:
        return name
    if reader.columns:
        return reader.columns[column]
    return f"{column + 1} of {reader.inputs}"


def far_field(
    reader: RowReader, x: np.ndarray | TableRows, rows: np.ndarray, what: str
) -> RowError | None:
    """Return the error for the first of some rows with a number so far from those of
    training that float32 has no room for its square; None if there is none. what: such
    a number makes infinite."""
    for start in range(0, len(rows), BLOCK_OF_ROWS):
        some = rows[start : start + BLOCK_OF_ROWS]
        inputs = _numbers(reader.engine_rows(x[some]))
        far = np.abs(inputs) > FAR_VALUE
        if not far.any():
            continue
        row = int(some[far.any(axis=1).argmax()])
        row_at_hand = x[row : row + 1]
        _, column = furthest(reader, row_at_hand)
        text = value_text(row_at_hand, column, number_text)
        gap = f", or take it for a gap with --missing={text}"
        message = (
            f"found {text}, so far from all other numbers that {what}; correct it{gap}"
        )
        return RowError(row, f"column {name_of_column(reader, column)}: {message}")
    return None


def furthest(reader: RowReader, row: np.ndarray | TableRows) -> tuple[float, int]:
    """Return (distance from 0, feature column) of a row's input that is furthest from
    0; a gap without an input of its own is infinitely far."""
    rows = reader.engine_rows(row)
    of_gap = np.inf
    columns = range(rows.size)
    if rows.dtype.kind == "V":
        of_gap = 0.0
        columns = [column for column, _ in reader.encoding.order]
    values = np.nan_to_num(np.abs(_numbers(rows)[0]), nan=of_gap, posinf=np.inf)
    place = int(values.argmax())
    return float(values[place]), columns[place]


def _numbers(rows: np.ndarray) -> np.ndarray:
    """Return the numbers of rows as an engine takes them, (rows, numbers); a 0 of
    records without any."""
    if rows.dtype.kind != "V":
        return rows.reshape(len(rows), -1)
    if "numbers" in rows.dtype.names:
        return rows["numbers"]
    return np.zeros((len(rows), 1))


def value_text(
    row: np.ndarray | TableRows, column: int, write: Callable = "{:g}".format
) -> str:
    """Return the value of a row's feature column as messages show it; of a row that is
    encoded already just that."""
    if isinstance(row, TableRows):
        value = row.columns[column].values[0]
        words = row.columns[column].words
        if row.kinds[column] == "text":
            return words[value]
        return write(value)
    if row.dtype.kind == "V":
        return "a value"
    return write(row.reshape(-1)[column])
