"""Data frames from Python: pandas, polars, pyarrow, whatever else offers its columns as
Arrow does, and arrays of rows, not copied; dictionaries of columns, and lists of rows,
which are dictionaries, as files of JSON lines are, or lists."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from ..utils import DataError
from .arrow import arrow_block
from .column import BYTE_ORDER_MARK, Column, decoded
from .records import fits
from .source import pyarrow, read_blocks, reason_of
from .typed import Opened, TypedSource, array_block, objects, recoded, times

TARGET = "target"  # the name of targets that have none


def open_frame(frame, *, y=None) -> TypedSource | None:
    """Return the table that a data frame, array (rows, columns), dictionary of columns
    or list of rows is; None for anything else.

    y: targets of its rows, which become the columns behind its `features`: (rows,),
    (rows, targets) or a frame. Raises DataError if there are more or fewer of them than
    rows.
    """
    columns = columns_of(frame)
    if columns is None:
        return None
    features = columns.width
    if y is not None:
        columns = _with_targets(columns, columns_of(_two_axes(y)))
    source = TypedSource([columns], "the data frame")
    source.features = features
    return source


def open_column(values, name: str, path: str) -> TypedSource:
    """Return the table of one column that values of each row are. path: what messages
    name. Raises DataError for other values."""
    try:
        column = columns_of(_two_axes(values))
    except ValueError:  # lists of several lengths
        column = None
    if column is None or column.width != 1:
        raise DataError(f"{path}: {name}: expected one value for each row")
    return TypedSource([column._replace(names=[name])], path)


def _opened(
    rows: int, width: int, names: list[str] | None, block: Callable[[int], Column]
) -> Opened:
    """Return a frame, which is one part."""
    return Opened(names, rows, lambda places: iter([(rows, block)]), width)


def columns_of(frame) -> Opened | None:
    pandas = sys.modules.get("pandas")  # not imported: there is no frame of it
    # its index is no column
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        names = list(map(str, frame.columns))
        return _opened(
            len(frame),
            len(names),
            names,
            lambda place: pandas_block(frame.iloc[:, place]),
        )
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2 or frame.dtype.names is not None:
            return None
        array = frame
        if isinstance(frame, np.matrix):
            array = np.asarray(frame)
        return _opened(*array.shape, None, lambda place: array_block(array[:, place]))
    if isinstance(frame, dict):
        return _columns_of_dictionary(frame)
    if isinstance(frame, list) and frame and _are_objects(frame):
        names = dict.fromkeys(chain(*frame))
        return _columns_of_dictionary(
            {name: [row.get(name) for row in frame] for name in names}
        )
    if isinstance(frame, (list, tuple)):
        return _columns_of_rows(frame)
    has_columns = hasattr(frame, "__arrow_c_stream__")
    if not has_columns or len(getattr(frame, "shape", (0, 0))) != 2:
        return None
    pa = pyarrow("frames of polars and Arrow")
    try:
        table = pa.table(frame)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"the data frame: pyarrow cannot read it ({reason_of(error)}); leave such a "
            "column out"
        ) from None
    return _opened(
        *table.shape, table.column_names, lambda place: arrow_block(table.column(place))
    )


def _columns_of_rows(rows: Sequence) -> Opened | None:
    """Return the columns of a list of rows, lists of as many fields; None for other
    lists."""
    if not rows or not all(isinstance(row, (list, tuple)) for row in rows):
        return None
    width = len(rows[0])
    if any(len(row) != width for row in rows) or any(
        isinstance(field, (list, tuple, dict)) for field in rows[0]
    ):
        return None
    return _opened(
        len(rows), width, None, lambda place: objects([row[place] for row in rows])
    )


def _columns_of_dictionary(columns: dict) -> Opened:
    """Return the columns of a dictionary: a sequence or array each, or a single value
    where there is one row."""
    names = list(map(str, columns))
    fields = list(map(_sequence, columns.values()))
    sizes = list(map(len, fields))
    for name, size in zip(names, sizes, strict=True):
        if size != sizes[0]:
            raise DataError(
                f"the data frame: {sizes[0]} values of {names[0]}, {size} of {name}, "
                "expected one for each row"
            )

    def block(place: int) -> Column:
        values = fields[place]
        if isinstance(values, np.ndarray):
            return array_block(values)
        return objects(values)

    return _opened(sizes[0] if sizes else 0, len(names), names, block)


def _sequence(values) -> np.ndarray | list:
    """Return the values of a column as an array (rows,) or a list."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    if isinstance(values, (list, tuple)):  # of anything: NumPy would look inside
        return list(values)
    is_sequence = hasattr(values, "__len__") and not isinstance(values, str)
    if is_sequence and np.ndim(values):
        return list(values)
    return [values]


def _two_axes(y):
    """Return targets as a frame or as an array (rows, targets)."""
    if hasattr(y, "to_frame"):  # a series
        return y.to_frame(TARGET if y.name in (None, "") else y.name)
    if columns_of(y) is not None:
        return y
    array = np.atleast_1d(y if np.ma.isMaskedArray(y) else np.asarray(y))
    return array.reshape(len(array), -1)


def _with_targets(frame: Opened, targets: Opened) -> Opened:
    """Return the columns of a frame with the targets of its rows behind them."""
    if frame.rows != targets.rows:
        raise DataError(
            f"y: {targets.rows} targets for {frame.rows} rows, expected one for each"
        )
    width = frame.width
    names = None
    if frame.names is not None:
        target_names = [f"{TARGET}{number}" for number in range(targets.width)]
        if targets.width == 1:
            target_names = [TARGET]
        names = [*frame.names, *(targets.names or target_names)]
    ((_, feature_block),) = frame.parts([])
    ((_, target_block),) = targets.parts([])

    def block(place: int) -> Column:
        if place < width:
            return feature_block(place)
        return target_block(place - width)

    return _opened(frame.rows, width + targets.width, names, block)


def pandas_block(series) -> Column:
    """Return the block of a column of pandas (pandas.Series)."""
    kind = series.dtype
    if isinstance(kind, np.dtype):
        return array_block(series.to_numpy())
    name = type(kind).__name__
    if name == "CategoricalDtype":
        return recoded(series.cat.codes.to_numpy(), kind.categories.tolist())
    if name == "DatetimeTZDtype":
        return times(series.dt.tz_convert(None).to_numpy())
    if name == "ArrowDtype" or getattr(kind, "storage", None) == "pyarrow":
        return arrow_block(series.array.__arrow_array__())
    return objects(series.tolist())


# ---------------------------------------------------------------- JSON lines


def json_lines(path: str) -> Opened:
    """Open a file of JSON lines, an object each. Raises DataError for another line, and
    if the memory does not suffice for them."""
    lines = _lines_of(_text_of(path))
    # all at once: each key is one text
    rows = _objects(",".join(filter(str.strip, lines)))
    if rows is None:
        bad = (number for number, line in enumerate(lines, 1) if _objects(line) is None)
        raise DataError(
            f"{path}, line {next(bad, 1)}: no JSON object, expected one on each line; correct the line"
        )
    return columns_of(rows)


def json_array(path: str) -> Opened:
    """Open a file of a JSON array of objects, as web programs write tables. Raises
    DataError for another array, and if the memory does not suffice for it."""
    text = "\n".join(_lines_of(_text_of(path)))
    try:
        rows = json.loads(text)
    except RecursionError:
        rows = None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise DataError(
            f"{path}, line {line}: no JSON ({getattr(error, 'msg', error)}); correct it"
        ) from None
    if not isinstance(rows, list) or not rows or not _are_objects(rows):
        raise DataError(
            f"{path}: an array of other things, expected objects, a row each"
        )
    return columns_of(rows)


def _text_of(path: str) -> bytes:
    """Return the bytes of a file of text. Raises DataError where the memory does not
    suffice for what they say."""
    blocks = []
    size = 0
    for block in read_blocks(path):
        blocks.append(block)
        size += len(block)
        if not fits(8 * size):
            raise DataError(
                f"{path}: more text than the memory has room for; convert it to Parquet"
            )
    return b"".join(blocks).removeprefix(BYTE_ORDER_MARK)


def _lines_of(text: bytes) -> list[str]:
    """Return the lines of a text, each in UTF-8 or, where it is no UTF-8, in
    Windows-1252."""
    try:
        return text.decode().split("\n")
    except UnicodeDecodeError:
        return list(map(decoded, text.split(b"\n")))


def _objects(text: str) -> list[dict] | None:
    """Return the objects that a text with commas between them is; None if it is
    none."""
    try:
        rows = json.loads(f"[{text}]")
    except (ValueError, RecursionError):
        return None
    if _are_objects(rows):
        return rows
    return None


def _are_objects(rows: list) -> bool:
    return all(isinstance(row, dict) for row in rows)
