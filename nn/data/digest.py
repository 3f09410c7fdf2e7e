"""The digest of the columns that were read: the same for the same columns, whatever format and blocks they came in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from .column_reader import Vocabulary, each
from .table import Table

_ROWS = 1 << 15  # of all columns, taken in together: they stay in a processor's cache
_ESCAPE = 255  # the byte of a code that has its own 4 bytes


class ColumnsDigest:
    """SHA-256 over the columns of all rows: numbers and dates as numbers, texts as codes, and the texts themselves.

    Codes count texts in the order of their first appearance, in which any format and any blocks number them.
    """

    def __init__(self):
        self._groups: list[list[_Column]] = []
        self._names, self._words, self._ids = Vocabulary(), [], hashlib.sha256()

    def add(self, table: Table) -> None:
        """Take in the next rows; `words` only grow from table to table."""
        self._words = table.words
        groups = [[*table.inputs.T], self._targets_of(table), [], []]
        if table.codes is not None:
            groups[2] = [*table.codes.T]
        if table.dates is not None:
            groups[3] = [*table.dates.T]
        self._groups = self._groups or [[_Column() for _ in group] for group in groups]
        each(_take_in, zip(self._groups, groups, strict=True), len(table.targets))
        for ids in zip(*table.ids, strict=True):
            self._ids.update(_listed(ids))

    def _targets_of(self, table: Table) -> list[np.ndarray]:
        if table.names is None:
            return [*table.targets.T]
        return [self._names.encode(table.targets[:, 0].astype(np.int32), table.names)]

    def digest(self) -> bytes:
        """Return the digest of the rows so far."""
        columns = [column.digest() for group in self._groups for column in group]
        words = [hashlib.sha256(_listed(words)).digest() for words in (*self._words, self._names.words)]
        return hashlib.sha256(b"".join([*columns, *words, self._ids.digest()])).digest()


class _Column:
    """The digest of one column."""

    def __init__(self):
        self._values, self._large = hashlib.sha256(), hashlib.sha256()

    def add(self, values: np.ndarray) -> None:
        """Take in the next values (rows,): numbers, or codes in int32, -1 for a gap."""
        if values.dtype == np.int32:
            self._add_codes(values)
            return
        if values.dtype.kind == "f":  # one zero and one nan
            values = values + values.dtype.type(0)
            values[np.isnan(values)] = np.nan
        self._values.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")))

    def _add_codes(self, codes: np.ndarray) -> None:
        """Take in codes as a byte each, the gap 0; from _ESCAPE on all bytes, in a digest of their own."""
        counted = codes + np.int32(1)
        is_large = counted >= _ESCAPE
        if is_large.any():
            self._large.update(counted[is_large].astype("<i4"))
            counted[is_large] = _ESCAPE
        self._values.update(counted.astype(np.uint8))

    def digest(self) -> bytes:
        return self._values.digest() + self._large.digest()


def columns_digest(tables: Iterable[Table]) -> str:
    """Return the SHA-256 of the rows of all tables, blocks of one table in their order, as hexadecimal text."""
    digest = ColumnsDigest()
    for table in tables:
        digest.add(table)
    return digest.digest().hex()


def _take_in(group: tuple[list[_Column], list[np.ndarray]]) -> None:
    columns, arrays = group
    for start in range(0, len(arrays[0]) if arrays else 0, _ROWS):
        for column, values in zip(columns, arrays, strict=True):
            column.add(values[start : start + _ROWS])


def _listed(texts: Iterable[str]) -> bytes:
    """Return texts as bytes that no other texts give: each behind its length."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    return b"".join(len(text).to_bytes(8, "little") + text for text in encoded)
