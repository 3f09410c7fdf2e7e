"""Data frames from Python: pandas, polars, pyarrow, whatever else offers its columns as Arrow does, and arrays of rows,
not copied; dictionaries of columns, and lists of rows that are dictionaries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ..utils import DataError
from .arrow_blocks import arrow_block, pyarrow
from .column_blocks import ColumnBlock, Dates, Numbers, Opaque, Words, durations, objects, truths
from .column_reader import Part
from .column_table import ColumnTable
from .digest import ColumnsDigest, columns_digest
from .table import Table
from .table_files import Fields, RowIndex

TARGET = "target"  # the name of targets that have none


def open_frame(frame, path: str = "the data frame", *, y=None) -> FrameTable | None:
    """Return the table that a data frame, array (rows, columns), dictionary of columns or list of rows that are
    dictionaries is; None for anything else.

    path: how messages call it. y: targets of its rows, which become the last columns: (rows,), (rows, targets) or a
    frame. Raises DataError if there are more or fewer of them than rows.
    """
    columns = _columns_of(frame)
    if columns is None:
        return None
    if y is not None:
        columns = _Beside(columns, _columns_of(_two_axes(y)))
    return FrameTable(columns, path)


def _columns_of(frame) -> Columns | None:
    if _is_pandas(frame):
        return _PandasColumns(frame)
    if isinstance(frame, np.ndarray):
        return _ArrayColumns(frame) if frame.ndim == 2 and frame.dtype.names is None else None
    if isinstance(frame, dict):
        return _PythonColumns(frame)
    if isinstance(frame, list) and frame and all(isinstance(row, dict) for row in frame):
        names = dict.fromkeys(name for row in frame for name in row)
        return _PythonColumns({name: [row.get(name) for row in frame] for name in names})
    return _ArrowColumns(frame) if _is_arrow(frame) else None


def _two_axes(y):
    """Return targets as a frame or as an array (rows, targets)."""
    if hasattr(y, "to_frame"):  # a series
        return y.to_frame(TARGET if y.name in (None, "") else y.name)
    if _columns_of(y) is not None:
        return y
    array = np.asarray(y)
    return array.reshape(len(array), -1)


def _is_pandas(frame) -> bool:
    pandas = sys.modules.get("pandas")  # not imported: there is no frame of it
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _is_arrow(frame) -> bool:
    return hasattr(frame, "__arrow_c_stream__") and len(getattr(frame, "shape", ())) == 2


class Columns(Protocol):
    """The columns of a frame. names: of the columns, None if they have none."""

    rows: int
    columns: int
    names: list[str] | None

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""


class _PandasColumns:
    """The columns of a frame of pandas. Its index is no column."""

    def __init__(self, frame):
        self._frame, self.rows = frame, len(frame)
        self.names = [str(name) for name in frame.columns]
        self.columns = len(self.names)

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        return pandas_block(self._frame.iloc[start:stop, column])


class _ArrowColumns:
    """The columns of a frame that offers them as Arrow does."""

    def __init__(self, frame):
        pa = pyarrow("frames of polars and Arrow")
        try:
            self._table = pa.table(frame)
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())
            raise DataError(f"the data frame: pyarrow cannot read it ({reason}); leave such a column out") from None
        self.rows, self.names = self._table.num_rows, self._table.column_names
        self.columns = len(self.names)

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        return arrow_block(self._table.column(column).slice(start, stop - start))


class _ArrayColumns:
    """The columns of an array (rows, columns), which have no names."""

    names = None

    def __init__(self, array: np.ndarray):
        self._array, (self.rows, self.columns) = array, array.shape

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        return _array_block(self._array[start:stop, column])


class _PythonColumns:
    """The columns of a dictionary: a sequence or array each, or a single value where there is one row."""

    def __init__(self, columns: dict):
        self.names = [str(name) for name in columns]
        self._columns = [_sequence(values) for values in columns.values()]
        self.columns, sizes = len(self.names), list(map(len, self._columns))
        self.rows = sizes[0] if sizes else 0
        other = next((i for i, size in enumerate(sizes) if size != self.rows), None)
        if other is not None:
            raise DataError(
                f"the data frame: {self.rows} values of {self.names[0]}, {sizes[other]} of {self.names[other]}, "
                f"expected one for each row"
            )

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        values = self._columns[column][start:stop]
        return _array_block(values) if isinstance(values, np.ndarray) else objects(values)


def _sequence(values) -> np.ndarray | list:
    """Return the values of a column as an array (rows,) or a list."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    is_one = isinstance(values, str) or not hasattr(values, "__len__")
    return [values] if is_one else list(values)


class _Beside:
    """The columns of a frame with the targets of its rows behind them."""

    def __init__(self, frame: Columns, targets: Columns):
        if frame.rows != targets.rows:
            raise DataError(f"y: {targets.rows} targets for {frame.rows} rows, expected one for each")
        self._frame, self._targets = frame, targets
        self.rows, self.columns = frame.rows, frame.columns + targets.columns
        self.names = None if frame.names is None else [*frame.names, *self._target_names()]

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        own = self._frame.columns
        part, place = (self._frame, column) if column < own else (self._targets, column - own)
        return part.block(place, start, stop)

    def _target_names(self) -> list[str]:
        count = self._targets.columns
        return self._targets.names or ([TARGET] if count == 1 else [f"{TARGET}{number}" for number in range(count)])


class _FramePart:
    """The Part of some rows of a frame."""

    def __init__(self, columns: Columns, start: int, stop: int):
        self._columns, self.file, self.first, self.rows = columns, 0, start, stop - start

    def block(self, column: int) -> ColumnBlock:
        """Return these rows of a column."""
        return self._columns.block(column, self.first, self.first + self.rows)


class FrameTable(ColumnTable):
    """The TableFiles of a data frame; its SHA-256 is that of the columns that are read (digest)."""

    def __init__(self, columns: Columns, path: str):
        self._frame = columns
        self._open(path, [path], columns.names, [columns.rows], columns.columns)

    def read(self, fields: Fields, hashed: bool = True) -> tuple[Table, str | None]:
        """Return (all rows, the SHA-256 of the columns if it is asked for)."""
        table = self._read(fields)
        return table, columns_digest([table]) if hashed else None

    def blocks(
        self, fields: Fields, rows: int, *, index: RowIndex | None = None, step: int | None = None
    ) -> Iterator[Table]:
        """Yield the rows in blocks of `rows`."""
        digest, index = ColumnsDigest(), RowIndex() if index is None else index
        for table in super().blocks(fields, rows, index=index, step=step):
            digest.add(table)
            yield table
        index.digests = [digest.digest()]

    def _parts(self, number: int, columns: list[int], start: int, stop: int) -> Iterator[Part]:
        yield _FramePart(self._frame, start, stop)

    def _digests(self) -> list[bytes]:
        return [b""]  # read and blocks know better


def pandas_block(series) -> ColumnBlock:
    """Return the block of a column of pandas (pandas.Series)."""
    kind = series.dtype
    if isinstance(kind, np.dtype):
        return _array_block(series.to_numpy())
    name = type(kind).__name__
    if name == "CategoricalDtype":
        return Words.recoded(series.cat.codes.to_numpy(), kind.categories.tolist())
    if name == "DatetimeTZDtype":
        return Dates(series.dt.tz_convert(None).to_numpy())
    if name == "SparseDtype":
        return pandas_block(series.sparse.to_dense())
    if name == "ArrowDtype" or getattr(kind, "storage", None) == "pyarrow":
        return arrow_block(series.array.__arrow_array__())
    if hasattr(kind, "numpy_dtype"):  # numbers or truths beside a mask
        is_null = series.isna().to_numpy()
        values = series.to_numpy(kind.numpy_dtype, na_value=0)
        return truths(values, is_null) if values.dtype.kind == "b" else Numbers(values, is_null)
    return objects(series.tolist())


def _array_block(values: np.ndarray) -> ColumnBlock:
    """Return the block of an array (rows,)."""
    if values.dtype.kind in "iuf":
        return Numbers(values)
    if values.dtype.kind == "b":
        return truths(values)
    if values.dtype.kind == "M":
        return Dates(values)
    if values.dtype.kind == "m":
        return durations(values)
    return Opaque(len(values), "complex numbers") if values.dtype.kind == "c" else objects(values.tolist())
