"""RowReader: how a network reads raw rows, as an engine takes them: numbers of one
type, gaps filled, then encoded or scaled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..utils import DataError
from .column import in_type as _in_type
from .encoding import Encoding
from .medians import fill_gaps, has_gaps, log_filled
from .pixels import BYTE
from .records import new_rows
from .scaling import Scaling
from .table_rows import TableRows


class RowReader(NamedTuple):
    """Facts that a network knows of its inputs.

    dtype: of the parameters. shape: of a row: the number of values, or (channels,
    height, width). columns: their names. medians: of plain numbers, None where a gap
    is refused or the encoding's. number_type: of columns of numbers; None: as the rows
    have it. pictures: see pixels.py.
    """

    dtype: str
    shape: int | tuple[int, ...]
    scaling: Scaling
    encoding: Encoding | None = None
    columns: list[str] | None = None
    medians: list[float] | None = None
    number_type: str | None = None
    pictures: dict | None = None

    @property
    def pixel_range(self) -> int | None:
        """Return by what the scaling `pixel` divides; None: bytes by 255 and other
        numbers by nothing, as models of earlier versions do."""
        if self.pictures is None:
            return None
        return self.pictures["range"] or 1

    @property
    def inputs(self) -> int:
        """Return the number of values of a row."""
        if isinstance(self.shape, tuple):
            return math.prod(self.shape)
        return self.shape

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a row as an engine takes it; of a network for images,
        where its pixels are numbers."""
        if self.encoding is not None:
            return self.encoding.record_of(self.dtype).itemsize
        return self.inputs * np.dtype(self.dtype).itemsize

    @np.errstate(over="ignore")  # what overflows makes an output that is refused
    def engine_rows(
        self, x: np.ndarray | TableRows, digest: str | None = None
    ) -> np.ndarray:
        """Return raw rows as an engine takes them: scaled (rows, inputs), records;
        uint8 pixels stay as they are.

        digest: as Encoding.apply takes it.
        """
        if isinstance(x, np.ndarray) and x.dtype.kind == "V":
            return x
        x = self.filled(self.in_type(x))
        if self.encoding is not None:
            return self.encoding.apply(TableRows.of(x), self.dtype, digest)
        if isinstance(x, TableRows):
            raise DataError(
                "the rows have gaps, texts or dates, the network was trained on numbers alone; use other rows"
            )
        x = np.asarray(x)
        if x.size != len(x) * self.inputs:
            raise DataError(
                f"the data has {x.size // len(x)} inputs per row, the network has {self.inputs}"
            )
        if x.ndim > 2 and not isinstance(self.shape, tuple):
            x = x.reshape(len(x), -1)  # pixels are columns like others
        if self.scaling.kind == "pixel":
            return self._pixels(x)
        if self.scaling.kind == "none" and x.dtype == self.dtype:
            return x
        return self.scaling.apply(x, self.dtype)

    def filled(
        self, x: np.ndarray | TableRows, where: str | None = None, cure: str = ""
    ) -> np.ndarray | TableRows:
        """Return rows with the medians of plain numbers in their gaps; other rows as
        they are. where: what a remark on the gaps calls the rows, None for no remark;
        cure: its end."""
        if self.medians is None or x.shape[1:] != (len(self.medians),):
            return x
        if isinstance(x, TableRows):
            if {*x.kinds} != {"number"}:
                return x
            x = np.column_stack([column.values for column in x.columns])
        if not has_gaps(x):
            return x
        copy = new_rows(x.shape, x.dtype)
        copy[...] = x
        counts = fill_gaps(copy, self.medians)
        if where is not None:
            log_filled(counts, self.columns, where, cure)
        return copy

    def _pixels(self, x: np.ndarray) -> np.ndarray:
        """Return pixels as the engine takes them: divided by the range that the model
        keeps, whatever their type; those of a model of an earlier version by their
        type."""
        white = self.pixel_range
        if x.dtype == np.uint8 and white in (None, BYTE):
            return x  # the engine divides
        if x.dtype == self.dtype and white in (None, 1):
            return x
        return self.scaling.apply(x, self.dtype, white)

    def in_type(self, x: np.ndarray | TableRows) -> np.ndarray | TableRows:
        """Return rows with numbers in the type in which the network reads columns,
        wherever they come from."""
        if self.number_type is None:
            return x
        if isinstance(x, TableRows):
            return x.in_type(self.number_type)
        x = np.asarray(x)
        are_numbers = x.dtype.kind in "iuf" and x.dtype != np.uint8
        if are_numbers:
            return _in_type(x, self.number_type)
        return x
