"""Numbers and dates as people write them: $1,234.50, 12.5 %, 3.2 km; 12/31/2019, 31.12.2019 14:30, 5 Jan 2019.

The words of a column tell how all of them are written; a column with a word that is written in another way is text.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from .field_types import is_number

_ABSENT = frozenset({"n/a", "na", "nan", "nil", "none", "null", "missing", "unknown", "<na>", "#n/a"})
MOST_ABSENT = 2  # words for a gap that differ
_NO_SIGNS = "", ""
LEAST_WORDS = 3  # that differ: two are as good as yes and no
_PREFIX = r"(?P<prefix>(?:[A-Z]{1,3} ?)?[$€£¥₹] ?|)"
_SUFFIX = r"(?P<suffix> ?[^\d\s.,:/+-][^\d]{0,11}|\+|)"
_POINTS = {  # how numbers are written: a point, or a comma, before decimals
    "1,234.5": r"\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+",
    "1.234,5": r"\d{1,3}(?:\.\d{3})+(?:,\d*)?|\d+(?:,\d*)?",
}
_NUMBERS = {
    written: re.compile(rf"(?P<sign>[-+]?){_PREFIX}(?P<minus>-?)(?P<number>{number}){_SUFFIX}", re.ASCII)
    for written, number in _POINTS.items()
}
_CLOCK = r"(?P<H>\d{1,2}):(?P<M>\d\d)(?::(?P<S>\d\d(?:\.\d+)?))?(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
_TIME = rf"(?:(?:,? +|T){_CLOCK})?"
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH = r"(?P<name>[A-Za-z]{3,9})\.?"
_DATES = {  # how dates are written -> in which form; of two that fit all words, the first
    "day.month.year": rf"(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>\d{{4}}|\d\d){_TIME}",
    "month/day/year": rf"(?P<m>\d{{1,2}})(?P<s>[/.-])(?P<d>\d{{1,2}})(?P=s)(?P<y>\d{{4}}|\d\d){_TIME}",
    "day/month/year": rf"(?P<d>\d{{1,2}})(?P<s>[/.-])(?P<m>\d{{1,2}})(?P=s)(?P<y>\d{{4}}|\d\d){_TIME}",
    "year/month/day": rf"(?P<y>\d{{4}})(?P<s>[/.-])(?P<m>\d{{1,2}})(?P=s)(?P<d>\d{{1,2}}){_TIME}",
    "day month year": rf"(?P<d>\d{{1,2}})[ ./-]?{_MONTH}[ ,/-]*(?P<y>\d{{4}}|\d\d){_TIME}",
    "month year": rf"{_MONTH}[ ,/-]*(?P<y>\d{{4}})",
    "hour:minute": _CLOCK,
    "yearmonthdayTtime": r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)T(?P<H>\d\d):?(?P<M>\d\d)(?::?(?P<S>\d\d(?:\.\d+)?))?Z?",
    "month day, year": rf"{_MONTH} ?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>\d{{4}}){_TIME}",
}
_DATE_FORMS = {written: re.compile(form, re.ASCII) for written, form in _DATES.items()}
_CENTURY = 69  # from which two digits of a year are those of the century before
NUMBERS, DATES = tuple(_NUMBERS), tuple(_DATE_FORMS)


def _signs(found: re.Match) -> tuple[str, str]:
    return found["prefix"].strip(), found["suffix"].strip()


def number_of(word: str, written: str, signs: tuple[str, str]) -> float | None:
    """Return the number that a word is, written so and between these signs ($ and %); None for another word.

    A sign in front, of money, may be missing.
    """
    found = _NUMBERS[written].fullmatch(word)
    if not found or (_signs(found) != signs and not (signs[0] and _signs(found) == _NO_SIGNS)):
        return None
    thousands, point = written[1], written[5]
    number = float(found["number"].replace(thousands, "").replace(point, "."))
    return -number if "-" in (found["sign"], found["minus"]) else number


def date_of(word: str, written: str) -> float | None:
    """Return the seconds since 1970-01-01 of the date that a word is, written so; None for another word."""
    found = _DATE_FORMS[written].fullmatch(word)
    if not found:
        return None
    parts = found.groupdict()
    month = _month_of(parts["name"]) if parts.get("name") else int(parts.get("m", 1))
    year = int(parts.get("y", 1970))
    if year < 100:
        year += 1900 if year >= _CENTURY else 2000
    hour, seconds = int(parts.get("H") or 0), float(parts.get("S") or 0)
    if parts.get("half"):
        hour = hour % 12 + 12 * (parts["half"] in "pP") if 1 <= hour <= 12 else 24
    try:
        moment = datetime.datetime(year, month or 0, int(parts.get("d", 1)), hour, int(parts.get("M") or 0))
    except ValueError:
        return None
    days = (moment - datetime.datetime(1970, 1, 1)).total_seconds()
    return days + seconds if seconds < 60 else None


@lru_cache(64)
def _month_of(name: str) -> int:
    """Return the number of a month by its English name, whole or shortened; 0 for another name."""
    short = name.lower()
    return next((i for i, month in enumerate(_MONTHS, 1) if short in (month, month[:3], "sept"[: 4 * (i == 9)])), 0)


def way_of_numbers(words: Sequence[str]) -> tuple[str, tuple[str, str]] | None:
    """Return how numbers are written, and the signs around them, if all words are numbers, not all of them plain.

    Words without a letter or digit, as -, and words for absence are gaps; up to MOST_ABSENT different ones.
    """
    known = [word for word in words if not _is_absent(word)]
    if len(known) < max(LEAST_WORDS, len(words) - MOST_ABSENT):
        return None
    words, any_absent = known, len(known) < len(words)
    for written, form in _NUMBERS.items():
        if not all(map(form.fullmatch, words)):
            continue
        signs = max({_signs(form.fullmatch(word)) for word in words})
        if all(number_of(word, written, signs) is not None for word in words):
            is_plain = not any_absent and not any(signs) and all(map(is_number, words))
            return None if is_plain else (written, signs)
    return None


def _is_absent(word: str) -> bool:
    return word.lower() in _ABSENT or not any(map(str.isalnum, word))


def way_of_dates(words: Sequence[str]) -> str | None:
    """Return how dates are written, if all words are dates; where it may be either, the month comes before the day."""
    if len(words) < LEAST_WORDS:
        return None
    return next((way for way in DATES if all(date_of(word, way) is not None for word in words)), None)


def is_written(word: str) -> bool:
    """Return whether a word may be a number or a date as people write them."""
    may_be_number = any(form.fullmatch(word) for form in _NUMBERS.values())
    return may_be_number or any(date_of(word, way) is not None for way in DATES)


def are_written(words: Sequence[str]) -> bool:
    """Return whether these words are numbers or dates as people write them."""
    return way_of_numbers(words) is not None or way_of_dates(words) is not None


def values_of(words: Iterable[str], value_of, *how) -> list[float]:
    """Return value_of(word, *how) of each word, nan where it is None, and nan at the end, where code -1 finds it."""
    values = [value_of(word, *how) for word in words]
    return [*(math.nan if value is None else value for value in values), math.nan]
