"""TableRows: rows of feature columns that are not all plain numbers, as the inputs of a Dataset; and the digest of
columns, the same for the same columns, whatever format they came in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..utils import DataError, default_threads
from .column import Column, columns_of_numbers
from .records import in_file, some_rows

_ROWS = 1 << 15  # taken into a digest at a time: they stay in a processor's cache
_ESCAPE = 255  # the byte of a code that has its own 4 bytes


def with_gaps(x):
    """Return rows with nan for what an array of numpy.ma masks; other rows as they are. DataError: complex numbers."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "c":
        raise DataError("Complex data not supported: the rows hold complex numbers, expected real ones")
    if not isinstance(x, np.ma.MaskedArray) or x.dtype.kind not in "biuf":
        return x
    return x.astype(np.result_type(x, np.float32)).filled(np.nan) if np.ma.is_masked(x) else x.data


@dataclass(frozen=True)
class TableRows:
    """Rows of feature columns, in the file's order. It is cut into rows as an array is: rows[3:5], rows[indices]."""

    columns: tuple[Column, ...]
    dtype, ndim = None, 2  # as of arrays

    @classmethod
    def of(cls, x: np.ndarray | TableRows) -> TableRows:
        """Return rows of a table; numbers alone (rows, inputs) are taken as columns of numbers. Raises DataError."""
        if isinstance(x, TableRows):
            return x
        if x.ndim != 2:
            raise DataError(f"rows of shape {x.shape}, expected an array (rows, columns) or a data frame")
        return cls(columns_of_numbers(x))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows) -> TableRows:
        """Return some rows: a slice or indices."""
        return self._with(some_rows(column.values, rows) for column in self.columns)

    def in_file(self) -> TableRows:
        """Return the rows in mapped files, where they are many."""
        return self._with(in_file(column.values) for column in self.columns)

    def _with(self, values: Iterable[np.ndarray]) -> TableRows:
        columns = zip(self.columns, values, strict=True)
        return TableRows(tuple(Column(column.reads, own, column.words) for column, own in columns))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return what each column reads: number, text or date."""
        return tuple(column.reads for column in self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (rows, feature columns)."""
        return len(self), len(self.columns)

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays in bytes."""
        return sum(column.values.nbytes for column in self.columns)


# ---------------------------------------------------------------- the digest


def columns_digest(features: list[Column], targets: list[Column], beside: list[Column], ids: list[Column]) -> str:
    """Return the SHA-256 of columns, as hexadecimal text: numbers and dates as numbers, texts as codes, and the texts
    themselves. beside: weights, groups and times.

    Codes count texts in the order of their first appearance, in which any format numbers them.
    """
    groups = {reads: [c for c in (*features, *beside) if c.reads == reads] for reads in ("number", "text", "date")}
    ordered = [*groups["number"], *targets, *groups["text"], *groups["date"]]
    with ThreadPoolExecutor(default_threads()) as pool:
        digests = list(pool.map(_of_values, (column.values for column in ordered)))
    words = [column.words for column in groups["text"]] + [targets[0].words if len(targets) == 1 else []]
    digests += [hashlib.sha256(_listed(each)).digest() for each in words]
    texts = hashlib.sha256()
    for column in ids:
        own = [*column.words, ""]
        texts.update(_listed(own[code] for code in column.values.tolist()))
    return hashlib.sha256(b"".join([*digests, texts.digest()])).hexdigest()


def _of_values(values: np.ndarray) -> bytes:
    """Return the digest of a column's values: numbers, or codes as a byte each, the gap 0, from _ESCAPE on all bytes in
    a digest of their own."""
    small, large = hashlib.sha256(), hashlib.sha256()
    for start in range(0, len(values), _ROWS):
        some = values[start : start + _ROWS]
        if some.dtype == np.int32:
            counted = some + np.int32(1)
            is_large = counted >= _ESCAPE
            if is_large.any():
                large.update(counted[is_large].astype("<i4"))
                counted[is_large] = _ESCAPE
            small.update(counted.astype(np.uint8))
            continue
        some = some + some.dtype.type(0)  # one zero and one nan
        some[np.isnan(some)] = np.nan
        small.update(np.ascontiguousarray(some, some.dtype.newbyteorder("<")))
    return small.digest() + large.digest()


def _listed(texts: Iterable[str]) -> bytes:
    """Return texts as bytes that no other texts give: each behind its length."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    return b"".join(len(text).to_bytes(8, "little") + text for text in encoded)
