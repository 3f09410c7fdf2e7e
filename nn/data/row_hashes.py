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
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from .column import Column, is_coarse
from .dataset import Dataset
from .encoders import ColumnEncoder
from .encoding import are_places
from .table_rows import TableRows

KEPT = 512  # hashes of a model
# that are mixed one after the other; rows of more numbers are hashed one after the
# other
MOST_HASHED_COLUMNS = 256
HASHED_ROWS = 1 << 15  # hashed at a time: they stay in a processor's cache
_HASH_BYTES = 8  # of a hash
Encoders = Sequence[ColumnEncoder]  # of the columns of a model, none for plain numbers
_GAP = np.uint64(0x9E3779B97F4A7C15)  # a word that is missing
# of SplitMix64 (Steele, Lea and Flood 2014)
_MIX_FACTORS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


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
    fact = {"data": ds.sha256, "rows": len(rows), "wide": wide}
    if before is None:
        return {**fact, "hashes": _text_of(smallest)}
    is_same = before["data"] == ds.sha256 and np.array_equal(
        smallest, kept_hashes(before)
    )
    if is_same:
        return before
    both = _smallest(kept_hashes(before), smallest)
    return {
        **fact,
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
    names = {"data", "rows", "wide", "hashes"}
    if not isinstance(value, dict) or value.keys() - {"salt"} != names:
        return False
    digests = [value.get("salt", "")]
    if value["data"] is not None:
        digests.append(value["data"])
    rows = value["rows"]
    return (
        all(isinstance(digest, str) and digest.isascii() for digest in digests)
        and type(rows) is int
        and 0 < rows < 2**63
        and are_places(value["wide"])
        and _are_hashes(value["hashes"], rows)
    )


def _are_hashes(text, rows: int) -> bool:
    """Return whether a text stands for hashes, ascending, at most as many as rows."""
    if not isinstance(text, str) or len(text) > 2 * _HASH_BYTES * KEPT:
        return False
    try:
        hashes = np.frombuffer(base64.b64decode(text, validate=True), "<u8")
    except ValueError:  # other letters, or bytes that are no hashes
        return False
    are_some = 0 < len(hashes) <= min(KEPT, rows)
    return are_some and bool((hashes[1:] > hashes[:-1]).all())


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
    wide = []
    if not _has_columns(x):
        return wide
    for place, column in enumerate(_columns_of(x)):
        if column.reads != "number" or column.values.dtype != np.float64:
            continue
        numbers = column.values[rows]
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers) and is_coarse(numbers.min(), numbers.max()):
            wide.append(place)
    return wide


def _has_columns(x) -> bool:
    """Return whether rows are hashed column by column."""
    return isinstance(x, TableRows) or x[:1].size <= MOST_HASHED_COLUMNS


def _columns_of(x) -> Sequence[Column]:
    if isinstance(x, TableRows):
        return x.columns
    return TableRows.of(x.reshape(len(x), -1)).columns


def _blocks(
    x, encoders: Encoders, salt: bytes, wide: list[int], rows: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Yield the hashes of rows (indices; None: all), some at a time."""
    bits_of_words = {}
    for start in range(0, len(x) if rows is None else len(rows), HASHED_ROWS):
        block = slice(start, start + HASHED_ROWS)
        part = x[block if rows is None else rows[block]]
        if not _has_columns(x):
            yield _wide_row_hashes(part.reshape(len(part), -1), salt)
            continue
        hashes = np.full(len(part), int.from_bytes(salt, "little"), np.uint64)
        for place, column in enumerate(_columns_of(part)):
            if column.reads != "text":
                is_wide = place in wide or column.reads == "date"
                hashes = mixed(hashes, bits_of_numbers(column.values, is_wide))
                continue
            if place not in bits_of_words:
                encoder = dict(enumerate(encoders)).get(place)
                bits_of_words[place] = _bits_of_words(column.words, encoder)
            hashes = mixed(hashes, bits_of_words[place][column.values])
        yield scattered(hashes)


def _wide_row_hashes(rows: np.ndarray, salt: bytes) -> np.ndarray:
    """Return the hash of each row of many numbers, such as an image, by its bytes as
    float32."""
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(rows, np.float32) + np.float32(0)
    numbers[np.isnan(numbers)] = np.nan
    digests = (
        hashlib.blake2b(row, digest_size=_HASH_BYTES, key=salt).digest()
        for row in numbers.astype("<f4", copy=False)
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _bits_of_words(texts: list[str], encoder: ColumnEncoder | None) -> np.ndarray:
    """Return 64 bits for each word of a column and, at the end, for a gap: of the
    values for which words stand."""
    if encoder is not None and encoder.written:
        return bits_of_numbers(encoder.written.values_of(texts), True)
    digests = (
        hashlib.blake2b(
            text.encode(errors="surrogatepass"), digest_size=_HASH_BYTES
        ).digest()
        for text in texts
    )
    return np.append(np.frombuffer(b"".join(digests), "<u8").astype(np.uint64), _GAP)


def bits_of_numbers(values: np.ndarray, is_wide: bool) -> np.ndarray:
    """Return the bits of numbers, as float64 or else as float32; one zero, one gap."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float64 if is_wide else np.float32) + 0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64 if is_wide else np.uint32).astype(np.uint64)


def mixed(hashes: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the hashes of rows with the bits of a further value of each, in place."""
    hashes ^= bits
    hashes *= _MIX_FACTORS[0]
    hashes ^= hashes >> np.uint64(29)
    return hashes


def scattered(hashes: np.ndarray) -> np.ndarray:
    """Return the hashes of rows, all of whose values are mixed, evenly spread, in
    place."""
    hashes ^= hashes >> np.uint64(30)
    hashes *= _MIX_FACTORS[1]
    hashes ^= hashes >> np.uint64(31)
    return hashes
