"""RowEncoder: a row alone becomes its record in microseconds, with the bits that it has
among others.

NumPy takes longer to begin with an array than Python for a number. What words become is
looked up where it was encoded before.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

import numpy as np

from .column import Column
from .encoders import ColumnEncoder, NumberEncoder

MOST_KNOWN = 1 << 9  # values of a column that are remembered
# of a record's fields, as struct writes their values
_CHARACTERS = {"<f4": "f", "<f8": "d", ">f4": "f", ">f8": "d"}
_CHARACTERS |= {"<u4": "I", ">u4": "I", "<u2": "H", ">u2": "H", "|u1": "B"}


class RowEncoder:
    """The encoders of a row's columns, prepared. order: the values of a record, as
    Encoding has it; record: its type."""

    def __init__(
        self,
        encoders: Sequence[ColumnEncoder],
        order: Sequence[tuple[int, int]],
        record: np.dtype,
    ):
        self._encode = list(map(_prepared, encoders))
        starts = np.cumsum([0, *(len(encoder.inputs()) for encoder in encoders)])
        self._order = [int(starts[index]) + which for index, which in order]
        self._type = record
        self._bytes = struct.Struct(_format_of(record))

    def record(self, values: Sequence[float | str | None]) -> np.ndarray:
        """Return the record (1,) of the values of a row: numbers, nan for a gap; words,
        None for a gap."""
        inputs = []
        for encode, value in zip(self._encode, values, strict=True):
            inputs += encode(value)
        values = [inputs[place] for place in self._order]
        try:
            packed = self._bytes.pack(*values)
        except OverflowError:  # float32 has infinity instead
            of_numbers = self._type["numbers"].base.type
            packed = self._bytes.pack(
                *(of_numbers(v) if isinstance(v, float) else v for v in values)
            )
        return np.frombuffer(packed, self._type)


def _format_of(record: np.dtype) -> str:
    """Return how struct writes a record, which has no gap but at its end."""
    letters = "="
    end = 0
    for name in record.names:
        field, _ = record.fields[name][:2]
        letters += f"{field.shape[0]}{_CHARACTERS[field.base.str]}"
        end += field.itemsize
    return f"{letters}{record.itemsize - end}x"


def _prepared(encoder: ColumnEncoder) -> Callable[[float | str | None], Sequence]:
    """Return the function that gives the inputs of a value of a column."""
    if isinstance(encoder, NumberEncoder) and not encoder.written:
        return _of_numbers(encoder)
    return _remembered(encoder)


def _of_numbers(encoder: NumberEncoder) -> Callable[[float], Sequence]:
    """Return what NumberEncoder.encode does with an array, for a number."""
    shift = encoder.shift
    scale = encoder.scale or math.inf
    gap = math.nan if encoder.unknown_share else encoder.median
    count = len(encoder.frequent)
    frequent = np.array(encoder.frequent, np.float32)
    slots = {}
    if count:
        codes = encoder.encode(Column("number", frequent))[1].tolist()
        slots = dict(zip(frequent.tolist(), codes, strict=True))

    def encode(number: float) -> Sequence:
        axis = ((gap if number != number else number) - shift) / scale
        if not count:
            return (axis,)
        return axis, slots.get(float(np.float32(number)), count)

    return encode


def _remembered(encoder: ColumnEncoder) -> Callable[[float | str | None], Sequence]:
    """Return what encode does, which is done once for each value of a column."""
    remembered = {}

    def encode(value: float | str | None) -> Sequence:
        key = value if value == value else None
        inputs = remembered.get(key)
        if inputs is None:
            if len(remembered) >= MOST_KNOWN:
                remembered.clear()
            column = _column_of(encoder.reads, value)
            inputs = remembered[key] = [
                array[0].item() for array in encoder.encode(column)
            ]
        return inputs

    return encode


def _column_of(reads: str, value: float | str | None) -> Column:
    """Return a column of one row."""
    if reads != "text":
        return Column(reads, np.array([value], np.float64))
    if value is None:
        return Column(reads, np.array([-1], np.int32))
    return Column(reads, np.zeros(1, np.int32), [value])
