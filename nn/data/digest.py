"""The digest of the columns that were read: the same for the same columns, whatever format and blocks they came in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from .table import Table

_WORD_BYTES = 8  # of a text's own digest


class ColumnsDigest:
    """SHA-256 over the fields of all rows: numbers and dates as numbers, codes and classes as the texts they mean."""

    def __init__(self):
        self._groups = [hashlib.sha256() for _ in range(5)]
        self._of_word: dict[str, bytes] = {}

    def add(self, table: Table) -> None:
        """Take in the next rows."""
        words = table.words if table.codes is not None else []
        codes = table.codes if table.codes is not None else np.zeros((0, 0), np.int32)
        inputs, targets, texts, dates, ids = self._groups
        inputs.update(_plain(table.inputs))
        targets.update(_plain(table.targets) if table.names is None else self._meant(table.targets, [table.names]))
        texts.update(self._meant(codes, words))
        dates.update(_plain(table.dates) if table.dates is not None else b"")
        for row in zip(*table.ids, strict=True):
            ids.update(b"".join(map(self._word, row)))

    def digest(self) -> bytes:
        """Return the digest of the rows so far."""
        return hashlib.sha256(b"".join(group.digest() for group in self._groups)).digest()

    def _meant(self, codes: np.ndarray, words: list[list[str]]) -> np.ndarray:
        """Return the texts' own digests (rows, columns) for indices into `words`; 0 for a gap."""
        meant = np.empty(codes.shape, f"V{_WORD_BYTES}")
        for column, known in enumerate(words):
            own = np.frombuffer(b"".join([*map(self._word, known), bytes(_WORD_BYTES)]), meant.dtype)
            meant[:, column] = own[codes[:, column].astype(np.intp)]
        return np.ascontiguousarray(meant)

    def _word(self, word: str) -> bytes:
        if word not in self._of_word:
            self._of_word[word] = hashlib.sha256(word.encode()).digest()[:_WORD_BYTES]
        return self._of_word[word]


def columns_digest(tables: Iterable[Table]) -> str:
    """Return the SHA-256 of the rows of all tables, blocks of one table in their order, as hexadecimal text."""
    digest = ColumnsDigest()
    for table in tables:
        digest.add(table)
    return digest.digest().hex()


def _plain(values: np.ndarray) -> np.ndarray:
    """Return numbers with one zero and one nan, in the same order of bytes everywhere."""
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)
        values[np.isnan(values)] = np.nan
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
