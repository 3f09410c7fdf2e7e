"""Data frames from Python: pandas, polars, pyarrow and whatever else offers its columns as Arrow does, not copied."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from .arrow_blocks import arrow_block, pyarrow
from .column_blocks import ColumnBlock, Dates, Numbers, Opaque, Words, objects, truths
from .column_reader import Part
from .column_table import ColumnTable
from .digest import ColumnsDigest, columns_digest
from .table import Table
from .table_files import Fields, RowIndex


def open_frame(frame, path: str = "the data frame") -> FrameTable | None:
    """Return the table that a data frame is; None for anything else. path: how messages call it."""
    return FrameTable(frame, path) if _is_pandas(frame) or _is_arrow(frame) else None


def _is_pandas(frame) -> bool:
    pandas = sys.modules.get("pandas")  # not imported: there is no frame of it
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _is_arrow(frame) -> bool:
    return hasattr(frame, "__arrow_c_stream__") and len(getattr(frame, "shape", ())) == 2


class _PandasColumns:
    """The columns of a frame of pandas. Its index is no column."""

    def __init__(self, frame):
        self._frame, self.rows = frame, len(frame)
        self.names = [str(name) for name in frame.columns]

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        return pandas_block(self._frame.iloc[start:stop, column])


class _ArrowColumns:
    """The columns of a frame that offers them as Arrow does."""

    def __init__(self, frame):
        self._table = pyarrow("frames of polars and Arrow").table(frame)
        self.rows, self.names = self._table.num_rows, self._table.column_names

    def block(self, column: int, start: int, stop: int) -> ColumnBlock:
        """Return rows of a column."""
        return arrow_block(self._table.column(column).slice(start, stop - start))


class _FramePart:
    """The Part of some rows of a frame."""

    def __init__(self, columns: _PandasColumns | _ArrowColumns, start: int, stop: int):
        self._columns, self.file, self.first, self.rows = columns, 0, start, stop - start

    def block(self, column: int) -> ColumnBlock:
        """Return these rows of a column."""
        return self._columns.block(column, self.first, self.first + self.rows)


class FrameTable(ColumnTable):
    """The TableFiles of a data frame; its SHA-256 is that of the columns that are read (digest)."""

    def __init__(self, frame, path: str = "the data frame"):
        self._frame = _PandasColumns(frame) if _is_pandas(frame) else _ArrowColumns(frame)
        self._open(path, [path], self._frame.names, [self._frame.rows])

    def read(self, fields: Fields) -> tuple[Table, str]:
        """Return (all rows, the SHA-256 of the columns)."""
        table, _ = super().read(fields)
        return table, columns_digest([table])

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
        return _numpy_block(series)
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


def _numpy_block(series) -> ColumnBlock:
    values = series.to_numpy()
    if values.dtype.kind in "iuf":
        return Numbers(values)
    if values.dtype.kind == "b":
        return truths(values)
    if values.dtype.kind == "M":
        return Dates(values)
    return Opaque(len(values), "complex numbers") if values.dtype.kind == "c" else objects(series.tolist())
