"""The digest of the columns that were read: the same for the same columns, whatever format they came in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..utils import default_threads
from .column import Column, Table
from .dataset import Places

_ROWS = 1 << 15  # taken in at a time: they stay in a processor's cache
_ESCAPE = 255  # the byte of a code that has its own 4 bytes


def columns_digest(table: Table, columns: dict[int, Column], places: Places) -> str:
    """Return the SHA-256 of the columns of all rows, as hexadecimal text: numbers and dates as numbers, texts as codes,
    and the texts themselves. columns: the features as they are used.

    Codes count texts in the order of their first appearance, in which any format numbers them.
    """
    targets = [table.columns[place] for place in places.targets]
    beside = [table.columns[place] for place in places.roles.values()]
    groups = {
        reads: [c for c in (*columns.values(), *beside) if c.reads == reads] for reads in ("number", "text", "date")
    }
    ordered = [*groups["number"], *targets, *groups["text"], *groups["date"]]
    with ThreadPoolExecutor(default_threads()) as pool:
        digests = list(pool.map(_of_values, (column.values for column in ordered)))
    words = [column.words for column in groups["text"]]
    words.append(targets[0].words if len(targets) == 1 else [])
    listed = [hashlib.sha256(_listed(each)).digest() for each in words]
    ids = hashlib.sha256()
    for column in (table.columns[place] for place in places.ids):
        texts = [*column.words, ""]
        ids.update(_listed(texts[code] for code in column.values.tolist()))
    return hashlib.sha256(b"".join([*digests, *listed, ids.digest()])).hexdigest()


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
