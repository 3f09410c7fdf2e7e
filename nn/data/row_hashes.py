"""Hashes of the rows that a model was trained on, of which it keeps the smallest (a
bottom-k sketch, Cohen and Kaplan 2007): they tell about how many of other rows are
among them.

A hash is of the raw inputs of a row, by the kinds of the model's columns: the same row
has the same hash in a file of any format, in a frame and in an array, with a target and
without. The digest of the training data salts the hashes: those of two models tell
nothing of each other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from .column import Column, is_coarse
from .dataset import Dataset, TableRows
from .encoders import ColumnEncoder
from .encoding import are_places

KEPT = 512  # hashes of a model
# that are mixed one after the other; rows of more numbers are hashed one after the
# other
MOST_HASHED_COLUMNS = 256
HASHED_ROWS = 1 << 15  # hashed at a time: they stay in a processor's cache
_HASH_BYTES = 8  # of a hash
Encoders = Sequence[ColumnEncoder]  # of the columns of a model, none for plain numbers
_GAP = np.uint64(0x9E3779B97F4A7C15)  # a word that is missing
_MIX_FACTORS = (
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)  # of SplitMix64


def fact_of(
    ds: Dataset, rows: np.ndarray, encoders: Encoders, before: dict | None = None
) -> dict | None:
    """Return what a model keeps of the rows that it was trained on, ascending indices;
    None for no rows. encoders: of its columns, none for plain numbers.

    before: the fact of a model that goes on with these rows. It then keeps the smallest
    hashes of both, all salted as those before, and `salt` is the digest of the data
    that were first.
    """
    if before is None:
        wide = _wide_columns(ds.x, rows)
        salt = ds.sha256
    else:
        wide = before["wide"]
        salt = salt_of(before)
    smallest = np.zeros(0, np.uint64)
    for hashes in _blocks(ds.x, encoders, _salt(salt), wide, rows):
        smallest = _smallest(smallest, hashes)
    if not len(smallest):
        return before
    own = {"data": ds.sha256, "rows": len(rows), "wide": wide}
    if before is None:
        return {**own, "hashes": _text_of(smallest)}
    is_same = before["data"] == ds.sha256 and np.array_equal(
        smallest, kept_hashes(before)
    )
    if is_same:
        return before
    both = _smallest(kept_hashes(before), smallest)
    return {
        **own,
        "rows": before["rows"] + len(rows),
        "hashes": _text_of(both),
        "salt": salt or "",
    }


def salt_of(fact: dict) -> str | None:
    """Return the digest that salts the hashes of a fact."""
    return fact.get("salt", fact["data"])


def knows_earlier_rows(fact: dict | None) -> bool:
    """Return whether a model was trained on other rows before those of its data."""
    return fact is not None and "salt" in fact


def _smallest(kept: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Return the smallest of hashes that are kept, ascending, and of others."""
    if len(kept) == KEPT:
        hashes = hashes[hashes < kept[-1]]
    return np.unique(np.concatenate([kept, hashes]))[:KEPT]


def _text_of(hashes: np.ndarray) -> str:
    return base64.b64encode(hashes.astype("<u8").tobytes()).decode()


def is_fact(value) -> bool:
    """Return whether a value of a model file is what fact_of returns."""
    if not isinstance(value, dict) or value.keys() - {"salt"} != {
        "data",
        "rows",
        "wide",
        "hashes",
    }:
        return False
    has_digests = (value["data"] is None or _is_digest(value["data"])) and _is_digest(
        value.get("salt", "")
    )
    has_rows = type(value["rows"]) is int and 0 < value["rows"] < 2**63
    return (
        has_digests
        and has_rows
        and are_places(value["wide"])
        and _are_hashes(value["hashes"], value["rows"])
    )


def _is_digest(value) -> bool:
    return isinstance(value, str) and value.isascii()


def _are_hashes(text, rows: int) -> bool:
    """Return whether a text stands for hashes, ascending, at most as many as rows."""
    if (
        not isinstance(text, str)
        or len(text) > 2 * _HASH_BYTES * KEPT
        or not text.isascii()
    ):
        return False
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    if (
        not found
        or len(found) % _HASH_BYTES
        or len(found) > _HASH_BYTES * min(KEPT, rows)
    ):
        return False
    hashes = np.frombuffer(found, "<u8")
    return bool((hashes[1:] > hashes[:-1]).all())


def kept_hashes(fact: dict) -> np.ndarray:
    """Return the hashes of a fact, ascending."""
    return np.frombuffer(base64.b64decode(fact["hashes"]), "<u8")


def hashes_of(x, encoders: Encoders, fact: dict) -> np.ndarray:
    """Return the hash of each row, uint64 (rows,), as a model with this fact hashes its
    own."""
    return np.concatenate(
        [
            np.zeros(0, np.uint64),
            *_blocks(x, encoders, _salt(salt_of(fact)), fact["wide"]),
        ]
    )


# ---------------------------------------------------------------- hashes


def _salt(digest: str | None) -> bytes:
    return hashlib.blake2b((digest or "").encode(), digest_size=_HASH_BYTES).digest()


def _wide_columns(x, rows: np.ndarray) -> list[int]:
    """Return the columns of numbers that float32 would blur: others are hashed as
    float32, in which any door has them."""
    if isinstance(x, TableRows):
        numbers = {
            place: column.values
            for place, column in enumerate(x.columns)
            if column.reads == "number"
        }
    elif x.dtype == np.float64 and x[:1].size <= MOST_HASHED_COLUMNS:
        numbers = dict(enumerate(x.reshape(len(x), -1).T))
    else:
        numbers = {}
    wide = []
    for place, values in numbers.items():
        if values.dtype == np.float64:
            known = values[rows]
        else:
            known = values[:0]
        known = known[np.isfinite(known)]
        if len(known) and is_coarse(known.min(), known.max()):
            wide.append(place)
    return wide


def _blocks(
    x, encoders: Encoders, salt: bytes, wide: list[int], rows: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Yield the hashes of rows (indices; None: all), some at a time."""
    words: dict[int, np.ndarray] = {}
    for first in range(0, len(x) if rows is None else len(rows), HASHED_ROWS):
        block = slice(first, first + HASHED_ROWS)
        some = x[block if rows is None else rows[block]]
        if isinstance(some, TableRows):
            columns = []
            for place, column in enumerate(some.columns):
                if place < len(encoders):
                    encoder = encoders[place]
                else:
                    encoder = None
                if column.reads == "text" and place not in words:
                    words[place] = _of_words(column.words, encoder)
                columns.append(
                    words[place][column.values]
                    if place in words
                    else _of_values(column, place in wide)
                )
            yield _of_columns(columns, salt)
            continue
        some = some.reshape(len(some), -1)
        if some.shape[1] <= MOST_HASHED_COLUMNS:
            columns = [
                _of_numbers(some[:, place], place in wide)
                for place in range(some.shape[1])
            ]
            yield _of_columns(columns, salt)
        else:
            yield _of_wide_rows(some, salt)


def _of_wide_rows(rows: np.ndarray, salt: bytes) -> np.ndarray:
    """Return the hash of each row of many numbers, such as an image, by its bytes as
    float32."""
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(rows, np.float32) + np.float32(0)
    numbers[np.isnan(numbers)] = np.nan
    each = (
        hashlib.blake2b(row, digest_size=_HASH_BYTES, key=salt).digest()
        for row in numbers.astype("<f4", copy=False)
    )
    return np.frombuffer(b"".join(each), "<u8").astype(np.uint64)


def _of_values(column: Column, is_wide: bool) -> np.ndarray:
    """Return 64 bits for each number or date of a column."""
    return _of_numbers(column.values, is_wide or column.reads == "date")


def _of_words(texts: list[str], encoder: ColumnEncoder | None) -> np.ndarray:
    """Return 64 bits for each word of a column and, at the end, for a gap: of the
    values for which words stand."""
    if encoder is not None and encoder.written:
        return _of_numbers(encoder.written.values_of(texts), True)
    each = (
        hashlib.blake2b(
            text.encode(errors="surrogatepass"), digest_size=_HASH_BYTES
        ).digest()
        for text in texts
    )
    return np.append(np.frombuffer(b"".join(each), "<u8").astype(np.uint64), _GAP)


def _of_numbers(values: np.ndarray, is_wide: bool) -> np.ndarray:
    """Return the bits of numbers, as float64 or else as float32; one zero, one gap."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float64 if is_wide else np.float32) + 0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64 if is_wide else np.uint32).astype(np.uint64)


def _of_columns(columns: list[np.ndarray], salt: bytes) -> np.ndarray:
    """Return a hash of each row's values, (rows,) of each column."""
    hashes = np.full(len(columns[0]), int.from_bytes(salt, "little"), np.uint64)
    for values in columns:
        hashes ^= values
        hashes *= _MIX_FACTORS[0]
        hashes ^= hashes >> np.uint64(29)
    hashes ^= hashes >> np.uint64(30)
    hashes *= _MIX_FACTORS[1]
    hashes ^= hashes >> np.uint64(31)
    return hashes
