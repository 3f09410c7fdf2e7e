"""Packed rows of a mixed table: numbers as they are computed with, codes of categories
in 4, 2 or 1 bytes.

A record is the numbers, then the codes of 4, of 2 and of 1 bytes. This is the order of
the network's input values; a code goes in as a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# field of a record -> type of its codes
CODES = {"codes4": np.uint32, "codes2": np.uint16, "codes1": np.uint8}


def record_type(dtype, numbers: int, codes4: int, codes2: int, codes1: int) -> np.dtype:
    """Return the type of records with that many numbers of `dtype` and codes of 4, 2
    and 1 bytes.

    Its fields are numbers, codes4, codes2, codes1, those of no values left out, without
    a gap between them. Records begin at multiples of dtype's size.
    """
    dtype = np.dtype(dtype)
    counts = {"numbers": numbers, "codes4": codes4, "codes2": codes2, "codes1": codes1}
    names = []
    formats = []
    offsets = []
    end = 0
    for name, count in counts.items():
        if count:
            names.append(name)
            formats.append((CODES.get(name, dtype), (count,)))
            offsets.append(end)
            end += np.dtype(formats[-1]).itemsize
    size = -(-end // dtype.itemsize) * dtype.itemsize
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    )


def counts_of(records: np.dtype, dtype) -> tuple[int, int, int, int]:
    """Return how many numbers and codes of 4, 2 and 1 bytes a record has. ValueError if
    it has other fields."""
    counts = []
    for name in ("numbers", *CODES):
        field = (records.fields or {}).get(name)
        counts.append(math.prod(field[0].shape) if field else 0)
    if not any(counts) or records != record_type(dtype, *counts):
        raise ValueError(
            f"expected records of {np.dtype(dtype)} numbers and codes, got {records}"
        )
    return tuple(counts)


def values_of(x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the input values of all rows, one array (rows,) for each; x: records, or
    numbers (rows, inputs)."""
    parts = [x]
    if x.dtype.names:
        parts = [x[name] for name in x.dtype.names]
    for part in parts:
        yield from part.T


def check_rows(x: np.ndarray, columns: Sequence[Any]) -> None:
    """Raise ValueError unless the rows, records or numbers, fit `columns`
    (layers.InputColumn): codes of tables too."""
    check_types(x, columns)
    check_codes(x, columns)


def check_types(x: np.ndarray, columns: Sequence[Any]) -> None:
    """Raise ValueError unless rows have the values of `columns`, codes where these
    are."""
    arrays = list(values_of(x))
    if len(arrays) != len(columns):
        raise ValueError(f"expected {len(columns)} values a row, got {len(arrays)}")
    for number, (array, column) in enumerate(
        zip(arrays, columns, strict=True), start=1
    ):
        is_code = column.kind in ("onehot", "embedding")
        if x.dtype.names and is_code != (array.dtype.kind == "u"):
            expected = "code" if is_code else "number"
            raise ValueError(
                f"value {number} of a record: expected a {expected}, got {array.dtype}"
            )


def check_codes(x: np.ndarray, columns: Sequence[Any]) -> None:
    """Raise ValueError for codes that a table of `columns` has no row of."""
    tables = [n for n, column in enumerate(columns) if column.kind == "embedding"]
    if not tables or not len(x):
        return
    arrays = list(values_of(x))
    for place in tables:
        array = arrays[place]
        values = columns[place].values
        are_codes = array.min() >= 0 and array.max() < values  # nan is none
        if not are_codes:
            raise ValueError(
                f"value {place + 1}: codes from {array.min()} to {array.max()}, expected 0 to {values - 1}"
            )
