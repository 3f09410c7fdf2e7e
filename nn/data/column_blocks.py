"""Column blocks: rows of one column as a format of typed columns has them, and what the fields of these rows are.

A field is the text that it is in a CSV file: a number its shortest decimal, a truth «True» or «False», a date ISO 8601,
a null nothing. Each different text is looked at once. A null, and nan among numbers, are gaps where there are words for
a gap.
"""

from __future__ import annotations

import datetime
import math
import re
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from ..core import extension
from .table_files import TRUTHS

ffi, lib = extension("seq")

GAP, NUMBER, TRUTH, DATE, TEXT, INFINITE = range(6)  # what a field can be
_BLANKS = " \t\r"  # around a field they do not count
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)
_TICKS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}  # of a second
_DAY = re.compile(r"\d{4}[-/]\d\d[-/]\d\d", re.ASCII)


class Unreadable(Exception):
    """A column that is no column of fields (lists, bytes, ...), and a text that names its type."""


class ColumnBlock(Protocol):
    """Rows of one column. Only the fields that `kinds` says to be numbers have a number; dates and words likewise."""

    def __len__(self) -> int:
        """Return the rows."""

    def kinds(self, missing: frozenset[str]) -> np.ndarray:
        """Return what each field is (rows,) uint8, `missing` being the words for a gap."""

    def bounds(self, missing: frozenset[str]) -> tuple[float, float] | None:
        """Return the least and the greatest number where all fields are numbers; None where one may be none."""
        return None

    def numbers(self, dtype: str) -> np.ndarray:
        """Return the numbers (rows,) in a type from which `dtype` rounds to what it rounds their decimals to."""

    def seconds(self) -> np.ndarray:
        """Return the dates (rows,) float64, seconds since 1970-01-01."""

    def words(self, missing: frozenset[str]) -> tuple[np.ndarray, list[str | None]]:
        """Return (rows,) indices into the different texts, -1 for a null; and these texts, None for a gap."""

    def text(self, row: int) -> str:
        """Return a field as text."""

    def taken(self, rows: np.ndarray | slice) -> ColumnBlock:
        """Return some of the rows, chosen by a mask (rows,) or a slice."""


class Words(ColumnBlock):
    """Fields of text: (rows,) indices into the different texts, -1 for a null."""

    def __init__(self, codes: np.ndarray, texts: list[str]):
        self._codes, self._texts = codes, [text.strip(_BLANKS) for text in texts]

    @classmethod
    def recoded(cls, codes: np.ndarray, values: list) -> Words:
        """Return the block of fields that are indices into Python's own values."""
        places, texts = objects(values).words(frozenset())
        return cls(np.append(places, -1)[codes], texts)

    def __len__(self) -> int:
        return len(self._codes)

    def kinds(self, missing: frozenset[str]) -> np.ndarray:
        of_texts = [kind_of(text, missing) for text in self._texts]
        return np.array([*of_texts, GAP if missing else TEXT], np.uint8)[self._codes]

    def numbers(self, dtype: str) -> np.ndarray:
        return self._values(number_in)

    def seconds(self) -> np.ndarray:
        return self._values(date_in)

    def _values(self, value_in) -> np.ndarray:
        values = [value_in(text) for text in self._texts]
        return np.array([*(np.nan if value is None else value for value in values), np.nan])[self._codes]

    def words(self, missing: frozenset[str]) -> tuple[np.ndarray, list[str | None]]:
        return self._codes, [None if text in missing else text for text in self._texts]

    def text(self, row: int) -> str:
        code = self._codes[row]
        return "" if code < 0 else self._texts[code]

    def taken(self, rows: np.ndarray | slice) -> Words:
        taken = Words(self._codes[rows], [])
        taken._texts = self._texts
        return taken


class Numbers(ColumnBlock):
    """Fields of numbers (rows,) of any type; `is_null` (rows,): which of them are none, None if all are numbers."""

    def __init__(self, values: np.ndarray, is_null: np.ndarray | None = None):
        self._values, self._is_null = values, is_null

    def __len__(self) -> int:
        return len(self._values)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        return bounds_of(self._values)

    def bounds(self, missing: frozenset[str]) -> tuple[float, float] | None:
        if self._is_null is not None or _numbers_among(missing) or not len(self):
            return None
        return self._extremes if all(map(math.isfinite, self._extremes)) else None  # nan is least and greatest

    def kinds(self, missing: frozenset[str]) -> np.ndarray:
        values, gap = self._values, GAP if missing else TEXT
        kinds = np.full(len(values), NUMBER, np.uint8)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            kinds[np.isnan(values)] = gap
            kinds[np.isinf(values)] = INFINITE
        if self._is_null is not None:
            kinds[self._is_null] = gap
        words = _numbers_among(missing)
        if words:
            kinds[np.isin(self.numbers("float64"), words) & (kinds == NUMBER)] = GAP
        return kinds

    def numbers(self, dtype: str) -> np.ndarray:
        values = self._values
        return values if values.dtype.kind != "f" or values.dtype in (dtype, "float64") else _decimals(values)

    def seconds(self) -> np.ndarray:
        return np.full(len(self), np.nan)

    def words(self, missing: frozenset[str]) -> tuple[np.ndarray, list[str | None]]:
        different, codes = _different(self._values)
        codes[self.kinds(missing) == GAP] = -1
        if self._is_null is not None:
            codes[self._is_null] = -1
        return codes, [_number_text(value) for value in different]

    def text(self, row: int) -> str:
        return "" if self._is_null is not None and self._is_null[row] else _number_text(self._values[row])

    def taken(self, rows: np.ndarray | slice) -> Numbers:
        return Numbers(self._values[rows], None if self._is_null is None else self._is_null[rows])


class Dates(ColumnBlock):
    """Fields of dates or times (rows,) datetime64 in universal time; NaT is a null."""

    def __init__(self, times: np.ndarray):
        self._times = times

    def __len__(self) -> int:
        return len(self._times)

    def kinds(self, missing: frozenset[str]) -> np.ndarray:
        kinds = np.where(np.isnat(self._times), np.uint8(GAP if missing else TEXT), np.uint8(DATE))
        words = [word for word in map(date_in, missing) if word is not None]
        if words:
            kinds[np.isin(self.seconds(), words)] = GAP
        return kinds

    def numbers(self, dtype: str) -> np.ndarray:
        return np.full(len(self), np.nan)

    def seconds(self) -> np.ndarray:
        times, per_second = self._times, _TICKS.get(np.datetime_data(self._times.dtype)[0], 0)
        if not per_second:  # a coarser unit
            times, per_second = times.astype("datetime64[s]"), 1
        minutes, rest = np.divmod(times.astype(np.int64), 60 * per_second)
        days, minutes = np.divmod(minutes, 1440)
        seconds = 86400.0 * days + (60.0 * minutes + rest / per_second)  # rounded where those of a text are
        seconds[np.isnat(times)] = np.nan
        return seconds

    def words(self, missing: frozenset[str]) -> tuple[np.ndarray, list[str | None]]:
        different, codes = _different(self._times)
        codes[np.isnat(self._times) | (self.kinds(missing) == GAP)] = -1
        return codes, [_date_text(time) for time in different]

    def text(self, row: int) -> str:
        return _date_text(self._times[row])

    def taken(self, rows: np.ndarray | slice) -> Dates:
        return Dates(self._times[rows])


class Opaque(ColumnBlock):
    """Rows of a column of another type. `what` says of which. They count as texts that nobody can read."""

    def __init__(self, rows: int, what: str, is_null: np.ndarray | None = None):
        self._what, self._is_null = what, np.zeros(rows, bool) if is_null is None else is_null

    def __len__(self) -> int:
        return len(self._is_null)

    def kinds(self, missing: frozenset[str]) -> np.ndarray:
        return np.where(self._is_null, np.uint8(GAP if missing else TEXT), np.uint8(TEXT))

    def numbers(self, dtype: str) -> np.ndarray:
        raise Unreadable(self._what)

    def seconds(self) -> np.ndarray:
        raise Unreadable(self._what)

    def words(self, missing: frozenset[str]) -> tuple[np.ndarray, list[str | None]]:
        raise Unreadable(self._what)

    def text(self, row: int) -> str:
        return self._what

    def taken(self, rows: np.ndarray | slice) -> Opaque:
        is_null = self._is_null[rows]
        return Opaque(len(is_null), self._what, is_null)


def bounds_of(values: np.ndarray) -> tuple[float, float]:
    """Return the least and the greatest number; those of 16 or 32 bits as their shortest decimals."""
    least, greatest = values.min(), values.max()
    if values.dtype.kind == "f" and values.dtype != np.float64:
        return float(str(least)), float(str(greatest))
    return float(least), float(greatest)


def truths(values: np.ndarray, is_null: np.ndarray | None = None) -> Words:
    """Return the block of yes/no values (rows,) bool."""
    codes = values.astype(np.int8)
    if is_null is not None:
        codes[is_null] = -1
    return Words(codes, ["False", "True"])


def durations(values: np.ndarray) -> Words:
    """Return the block of durations (rows,) timedelta64; NaT is a null."""
    different, codes = _different(values)
    codes[np.isnat(values)] = -1
    if np.datetime_data(different.dtype)[0] not in _TICKS:  # a coarser unit
        different = different.astype("timedelta64[s]")
    per_second = _TICKS[np.datetime_data(different.dtype)[0]]
    return Words(codes, [_duration_text(ticks, per_second) for ticks in different.astype(np.int64).tolist()])


def objects(values: list) -> ColumnBlock:
    """Return the block of Python's own values: numbers if all of them are, else their texts."""
    types = set(map(type, values)) - {type(None)}
    if types == {float} or types == {int, float} or (types == {int} and _fit_int64(values)):
        return _python_numbers(values)
    if bytes in types:
        return Opaque(len(values), "bytes", np.array([value is None for value in values]))
    place: dict[tuple, int] = {}
    try:
        codes = [-1 if _is_null(value) else place.setdefault((type(value), value), len(place)) for value in values]
    except TypeError:  # no key of a dictionary: it may change
        return Opaque(len(values), "Python objects", np.array([_is_null(value) for value in values]))
    return Words(np.array(codes, np.int32), [_object_text(value) for _, value in place])


def _python_numbers(values: list) -> Numbers:
    if None not in values:
        return Numbers(np.array(values))
    return Numbers(np.array([0 if v is None else v for v in values]), np.array([v is None for v in values]))


def _fit_int64(values: list) -> bool:
    return all(value is None or -(1 << 63) <= value < 1 << 63 for value in values)


def _is_null(value) -> bool:
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _object_text(value) -> str:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return _number_text(value)
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, datetime.timedelta):
        return _duration_text(value // datetime.timedelta(microseconds=1), _TICKS["us"])
    return str(value)


def kind_of(text: str, missing: frozenset[str]) -> int:
    """Return what a field of text is."""
    if text in missing:
        return GAP
    number = number_in(text)
    if number is not None:
        return NUMBER
    if date_in(text) is not None:
        return DATE
    if text.lower() in TRUTHS:
        return TRUTH
    return INFINITE if is_infinite(text) else TEXT


def number_in(text: str) -> float | None:
    """Return the number that a text is, None if it is none or too large for one."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return None if np.isinf(number) else number


@lru_cache(8)
def _numbers_among(words: frozenset[str]) -> list[float]:
    return [number for number in map(number_in, words) if number is not None]


def is_infinite(text: str) -> bool:
    """Return whether a text is an infinite number."""
    return bool(_INFINITE.fullmatch(text)) or bool(_NUMBER.fullmatch(text) and np.isinf(float(text)))


def date_in(text: str) -> float | None:
    """Return the seconds since 1970-01-01 of the date that a text is, None if it is none."""
    if not _DAY.match(text):
        return None
    raw, seconds = text.encode(), ffi.new("double *")
    return seconds[0] if lib.csv_date(seconds, raw, len(raw)) else None


def decimal_text(text: str) -> str:
    """Return a number as formats with typed columns have it, 1 for 1.0 and 1e0, also with zeros in front; else the
    text itself."""
    number = number_in(text)
    if number is None:
        return text
    return str(int(text)) if text.lstrip("+-").isdecimal() else _number_text(number + 0.0)  # one zero


def _number_text(value) -> str:
    """Return a number's shortest decimal, a whole number without a point."""
    if isinstance(value, (int, np.integer)) or not math.isfinite(value):
        return str(value)
    text = str(value)
    return text.removesuffix(".0") if "e" not in text else text


def _different(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the different values, (rows,) int32 indices into them)."""
    different, codes = np.unique(values, return_inverse=True)
    return different, codes.reshape(-1).astype(np.int32)


def _decimals(values: np.ndarray) -> np.ndarray:
    """Return numbers of 16 or 32 bits as the float64 numbers that their shortest decimals are."""
    different, which = _different(values)
    return np.array([float(str(value)) for value in different])[which]


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
