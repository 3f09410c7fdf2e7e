"""Blocks: rows of one column as a format with typed columns has them, and the texts that their fields are.

A null, and nan among numbers, is an empty field. Each different text is made and looked at once.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .column import Odd, date_in, number_in, number_text

_BLANKS = " \t\r"  # around a field they do not count
_TICKS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}  # of a second
_KEPT_TYPES = {np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    np.dtype(f"float{bits}") for bits in (16, 32, 64)
}


class Texts:
    """Fields of text: (rows,) indices into the texts, -1 for a null."""

    def __init__(self, codes: np.ndarray, texts: list[str]):
        self.codes, self.texts = codes, [text.strip(_BLANKS) for text in texts]

    @classmethod
    def recoded(cls, codes: np.ndarray, values: list) -> Texts | Opaque:
        """Return the block of fields that are indices into Python's own values, -1 for a null."""
        block = objects(values)
        if isinstance(block, Opaque):
            return Opaque(len(codes), block.what)
        of_values = block.as_texts(frozenset())
        return cls(np.append(of_values.codes, -1)[codes], of_values.texts)

    def __len__(self) -> int:
        return len(self.codes)

    def as_texts(self, missing: frozenset[str]) -> Texts:
        """Return the fields as texts."""
        return self


class Numbers:
    """Fields of numbers (rows,) of any type; is_null (rows,): which of them are none, None if all are numbers."""

    reads, _value_in = "number", staticmethod(number_in)

    def __init__(self, values: np.ndarray, is_null: np.ndarray | None = None):
        is_kept = values.dtype.newbyteorder("=") in _KEPT_TYPES
        self._values, self._is_null = values if is_kept else values.astype(np.float64), is_null

    def __len__(self) -> int:
        return len(self._values)

    def known(self, missing: frozenset[str]) -> np.ndarray | None:
        """Return which fields are finite numbers and no gaps (rows,), None if all are."""
        gaps = _values_among(missing, self._value_in)
        if self._is_null is None and not gaps and all(map(math.isfinite, self._extremes)):
            return None
        known = np.isfinite(self._values) if self._values.dtype.kind == "f" else np.ones(len(self), bool)
        if self._is_null is not None:
            known &= ~self._is_null
        if gaps:
            known &= ~np.isin(self.exact("float64"), gaps)
        return known

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """The least and the greatest number; nan is both."""
        return _bounds(self._values)

    def bounds(self, known: np.ndarray | None) -> tuple[float, float]:
        """Return the least and the greatest of the known numbers."""
        return self._extremes if known is None else _bounds(self._values[known])

    def odd(self, known: np.ndarray | None, missing: frozenset[str]) -> dict[str, Odd]:
        """Return the words that are no values and no gaps: infinite numbers, and the empty word where it is no gap."""
        if known is None or known.all():
            return {}
        is_float = self._values.dtype.kind == "f"
        empty = np.zeros(len(self), bool) if self._is_null is None else self._is_null
        found = {"": empty | np.isnan(self._values) if is_float else empty}
        if is_float:
            found |= {str(value): (self._values == value) & ~empty for value in (math.inf, -math.inf)}
        return _odd({word: where for word, where in found.items() if word not in missing})

    def exact(self, dtype: str) -> np.ndarray:
        """Return the numbers (rows,) in a type from which `dtype` rounds to what it rounds their decimals to."""
        values = self._values
        if values.dtype.kind != "f" or values.dtype.newbyteorder("=") in (dtype, "float64"):
            return values
        different, which = _different(values)
        return np.array([float(str(value)) for value in different])[which]

    def filled(self, missing: frozenset[str], dtype: str) -> np.ndarray:
        """Return what `exact` does, nan for a field that is no number."""
        values, known = self.exact(dtype), self.known(missing)
        if known is None:
            return values
        return np.where(known, values, np.nan).astype(values.dtype if values.dtype.kind == "f" else np.float64)

    def as_texts(self, missing: frozenset[str]) -> Texts:
        """Return the fields as texts; those that equal a number among `missing` are nulls."""
        different, codes = _different(self._values)
        if self._is_null is not None:
            codes[self._is_null] = -1
        texts, is_gap = [number_text(value) for value in different], different != different
        if gaps := _values_among(missing, self._value_in):
            is_gap |= np.isin([float(text) for text in texts], gaps)
        return _without(is_gap, codes, texts)


class Times(Numbers):
    """Fields of dates or times (rows,), datetime64 in universal time, NaT a null; as numbers, seconds since 1970."""

    reads, _value_in = "date", staticmethod(date_in)

    def __init__(self, times: np.ndarray):
        super().__init__(_seconds(times))
        self._times = times

    def as_texts(self, missing: frozenset[str]) -> Texts:
        """Return the fields as texts; those that equal a date among `missing` are nulls."""
        different, codes = _different(self._times)
        known = Times(different).known(missing)
        return _without(known is not None and ~known, codes, [_date_text(time) for time in different])


@dataclass
class Opaque:
    """Rows of a column of another type, lists, bytes, ...; `what` says of which. Nothing reads them."""

    rows: int
    what: str

    def __len__(self) -> int:
        return self.rows


Block = Texts | Numbers | Times | Opaque


def _odd(found: dict[str, np.ndarray]) -> dict[str, Odd]:
    return {word: Odd(int(where.sum()), int(where.argmax())) for word, where in found.items() if where.any()}


def _without(is_gap, codes: np.ndarray, texts: list[str]) -> Texts:
    """Return the block of codes of these texts but those that are gaps."""
    gaps = np.flatnonzero(is_gap)
    if len(gaps):
        codes = np.where(np.isin(codes, gaps), np.int32(-1), codes)
    return Texts(codes, texts)


def _seconds(times: np.ndarray) -> np.ndarray:
    """Return dates as seconds since 1970-01-01 (rows,) float64."""
    per_second = _TICKS.get(np.datetime_data(times.dtype)[0], 0)
    if not per_second:  # a coarser unit
        times, per_second = times.astype("datetime64[s]"), 1
    minutes, rest = np.divmod(times.astype(np.int64), 60 * per_second)
    days, minutes = np.divmod(minutes, 1440)
    seconds = 86400.0 * days + (60.0 * minutes + rest / per_second)  # rounded where those of a text are
    seconds[np.isnat(times)] = np.nan
    return seconds


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """Return the least and the greatest number; those of 16 or 32 bits as their shortest decimals."""
    if not len(values):
        return math.inf, -math.inf
    least, greatest = values.min(), values.max()
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        return float(str(least)), float(str(greatest))
    return float(least), float(greatest)


@lru_cache(8)
def _values_among(words: frozenset[str], value_in) -> list[float]:
    return [value for value in map(value_in, words) if value is not None]


def _different(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the different values, (rows,) int32 indices into them)."""
    different, codes = np.unique(values, return_inverse=True)
    return different, codes.reshape(-1).astype(np.int32)


# ---------------------------------------------------------------- blocks of NumPy's and Python's own values


def truths(values: np.ndarray, is_null: np.ndarray | None = None) -> Texts:
    """Return the block of yes/no values (rows,) bool."""
    codes = values.astype(np.int8)
    if is_null is not None:
        codes[is_null] = -1
    return Texts(codes, ["False", "True"])


def durations(values: np.ndarray) -> Texts:
    """Return the block of durations (rows,) timedelta64; NaT is a null."""
    different, codes = _different(values)
    codes[np.isnat(values)] = -1
    if np.datetime_data(different.dtype)[0] not in _TICKS:  # a coarser unit
        different = different.astype("timedelta64[s]")
    per_second = _TICKS[np.datetime_data(different.dtype)[0]]
    return Texts(codes, [_duration_text(ticks, per_second) for ticks in different.astype(np.int64).tolist()])


def array_block(values: np.ndarray) -> Block:
    """Return the block of an array (rows,); what is masked in one of numpy.ma is a null."""
    is_null = None
    if isinstance(values, np.ma.MaskedArray):
        values, is_null = values.data, np.ma.getmaskarray(values)
    kind = values.dtype.kind
    if kind in "iuf":
        return Numbers(values, is_null)
    if kind == "b":
        return truths(values, is_null)
    if kind in "Mm":
        times = values if is_null is None else np.where(is_null, values.dtype.type("NaT"), values)
        return Times(times) if kind == "M" else durations(times)
    if kind == "c":
        return Opaque(len(values), "complex numbers")
    return objects(values.tolist() if is_null is None else np.where(is_null, None, values.astype(object)).tolist())


def objects(values: list) -> Block:
    """Return the block of Python's own values: numbers if all of them are, else their texts."""
    types = set(map(type, values)) - {type(None)}
    if types == {float} or types == {int, float} or (types == {int} and _fit_int64(values)):
        if None not in values:
            return Numbers(np.array(values))
        return Numbers(np.array([0 if v is None else v for v in values]), np.array([v is None for v in values]))
    if bytes in types:
        return Opaque(len(values), "bytes")
    place: dict[tuple, int] = {}
    try:
        codes = [-1 if _is_null(value) else place.setdefault((type(value), value), len(place)) for value in values]
    except TypeError:  # no key of a dictionary: it may change
        return Opaque(len(values), "Python objects")
    return Texts(np.array(codes, np.int32), [_object_text(value) for _, value in place])


def _fit_int64(values: list) -> bool:
    return all(value is None or -(1 << 63) <= value < 1 << 63 for value in values)


def _is_null(value) -> bool:
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _object_text(value) -> str:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return number_text(value)
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, datetime.timedelta):
        return _duration_text(value // datetime.timedelta(microseconds=1), _TICKS["us"])
    return str(value)


def _duration_text(ticks: int, per_second: int) -> str:
    """Return a duration as text, as pandas writes it: 1 days 03:04:05.5."""
    seconds, rest = divmod(ticks, per_second)
    days, seconds = divmod(seconds, 86400)
    sign, fraction = "+" * (days < 0), f".{rest / per_second:.9f}"[2:].rstrip("0") if rest else ""
    return f"{days} days {sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _date_text(time: np.datetime64) -> str:
    """Return a date as text, at midnight without the time."""
    if np.isnat(time):
        return ""
    text = str(time).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(" 00:00:00")
