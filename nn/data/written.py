"""How words stand for values: numbers and dates as people write them ($1,234.50, 12.5
%, 1 234,5, 3 km; 12/31/2019, 31.12.2019 14:30, 5 Jan 2019), yes and no, ordered
words."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import ClassVar

import numpy as np

from .column import TRUTHS, decimal_text, number_in

_LONGEST_NUMBER = 100  # characters of a number, and of a form of dates
DIGIT = re.compile(r"\d")
# what a column of yes/no words may hold later
YES_NO = {**TRUTHS, "1": True, "0": False, "1.0": True, "0.0": False}


# -------------------------------------------------------- fields in files of models


def is_text(value) -> bool:
    return isinstance(value, str)


def is_truth(value) -> bool:
    return isinstance(value, bool)


def is_whole(value) -> bool:
    return type(value) is int  # no truth


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def list_of(is_item: Callable) -> Callable:
    """Return the check that a value is a list of such items."""
    return lambda value: isinstance(value, list) and all(map(is_item, value))


def from_fields(cls, values: dict):
    """Return an object of a class with `checks` of its fields. Raises ValueError for
    one that fails, TypeError for a field that lacks or is none of the class."""
    for name, check in cls.checks.items():
        if name in values and not check(values[name]):
            raise ValueError(name)
    return cls(**values)


# ---------------------------------------------------------------- words


class UnknownForm(ValueError):
    """A way of numbers that is none of NUMBER_FORMS, a form of dates that is neither a
    name of DATE_FORMS nor one of strptime."""


@dataclass(frozen=True)
class Written:
    """How the words of a column, of this kind, stand for its values; the fields are
    kept in the model."""

    kind = ""
    checks: ClassVar[
        dict[str, Callable]
    ] = {}  # of the fields, as a model's file has them

    def __str__(self) -> str:
        return ""

    def value_of(self, word: str) -> float | None:
        """Return the value of a word, None if it has none."""

    def values_of(self, words: Iterable[str]) -> np.ndarray:
        """Return the value of each word, nan where it has none, and nan at the end,
        where code -1 finds it."""
        return np.array([*map(self.value_of, words), None], np.float64)


@dataclass(frozen=True)
class YesNo(Written):
    """Words that mean yes, 1, or no, 0, in any case; later 1 and 0 themselves too."""

    kind = "yes/no"

    def value_of(self, word: str) -> float | None:
        return YES_NO.get(word.lower())


@dataclass(frozen=True)
class Order(Written):
    """Ordered words, the least first: their ranks."""

    order: list[str]  # two different words or more
    kind = "ordered"
    checks: ClassVar = {"order": list_of(is_text)}

    def __post_init__(self):
        if len({*map(str.strip, self.order)}) < max(2, len(self.order)):
            raise ValueError("order")

    def __str__(self) -> str:
        return " < ".join(self.order)

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {decimal_text(word): rank for rank, word in enumerate(self.order)}

    def value_of(self, word: str) -> float | None:
        return self._ranks.get(decimal_text(word))

    def ranks_of_forms(self) -> dict[str, int]:
        """Return the rank of each word, in all forms that files may write it."""
        ranks = {}
        for word, rank in self._ranks.items():
            are_decimals = number_in(word) is not None
            forms = forms_of(word, are_decimals, truths=False)
            ranks |= dict.fromkeys([word, *forms], rank)
        for word in self.order:
            ranks[word] = self._ranks[decimal_text(word)]
        return ranks


_LONGEST_CODE = 12  # digits of a code with zeros before it


def canonical_word(word: str, decimals: bool, truths: bool) -> str:
    """Return the one word of a category for all that mean the same: decimals, 7 for 07
    and 7.0; truths, True for TRUE."""
    if decimals:
        return decimal_text(word)
    if truths and word.lower() in TRUTHS:
        return str(TRUTHS[word.lower()])
    return word


def forms_of(word: str, decimals: bool, truths: bool) -> list[str]:
    """Return words for which canonical_word gives this one: codes with zeros before or
    behind, truths in any case."""
    if truths:
        cases = [{letter.lower(), letter.upper()} for letter in word]
        return list(map("".join, product(*cases)))
    if not decimals or "e" in word:
        return []
    whole, point, fraction = word.partition(".")
    ends = ["", ".0", ".00"]
    if point:
        ends = [f".{fraction}{zeros}" for zeros in ("", "0", "00")]
    forms = []
    most = max(_LONGEST_CODE + word.startswith("-"), len(whole))
    for length in range(len(whole), most + 1):
        padded = whole.zfill(length)  # behind a sign
        forms += [padded + end for end in ends]
    return forms


# ---------------------------------------------------------------- numbers

# of two ways that fit as well, the first
NUMBER_FORMS = "1,234.5", "1.234,5", "1 234.5", "1 234,5"
NO_SIGNS = "", ""
_WRITTEN_NUMBER = re.compile(
    r"([-+]?)(?P<before>(?:[A-Z]{1,3} ?)?[$€£¥₹] ?|)(-?)(?P<digits>[\d.,](?:[\d., ]*[\d.,])?)(?P<behind>.*)",
    re.ASCII | re.DOTALL,
)
_LONGEST_UNIT = 12  # characters
# that keep thousands together on a line
_OTHER_BLANKS = str.maketrans("\u00a0\u2009\u202f", "   ")


def number_of(word: str, way: str) -> tuple[float, tuple[str, str]] | None:
    """Return the number that a word is, written so, and the signs before and behind it;
    None for another one."""
    if not word.isascii():
        word = word.translate(_OTHER_BLANKS)
    match = _WRITTEN_NUMBER.fullmatch(word)
    if not match or len(word) > _LONGEST_NUMBER:
        return None
    behind = match["behind"].strip()
    if not _is_unit(behind):
        return None
    whole, _, decimals = match["digits"].partition(way[5])
    head, *groups = whole.split(way[1])
    if groups:
        if len(head) not in (1, 2, 3) or {*map(len, groups)} != {3}:
            return None
        if way[1] == " " and head[0] == "0":
            return None
    whole = "".join([head, *groups])
    if not (whole + decimals).isdigit():
        return None
    number = float(f"{whole}.{decimals}")
    if math.isinf(number):
        return None
    if "-" in (match[1], match[3]):
        number = -number
    return number, (match["before"].strip(), behind)


def _is_unit(text: str) -> bool:
    """Return whether a text behind a number may be its unit; none is."""
    if text in ("", "+"):
        return True
    is_short = len(text) <= _LONGEST_UNIT
    return is_short and text[0] not in ".,:/+-" and not DIGIT.search(text)


@dataclass(frozen=True)
class WrittenNumbers(Written):
    """How the numbers of a column are written: a way of NUMBER_FORMS, and the signs
    before and behind each, its unit."""

    way: str = NUMBER_FORMS[0]
    before: str = ""
    behind: str = ""
    kind = "written number"
    checks: ClassVar = {"way": is_text, "before": is_text, "behind": is_text}

    def __post_init__(self):
        if self.way not in NUMBER_FORMS:
            raise UnknownForm(self.way)

    def __str__(self) -> str:
        return f"{self.before}{self.way}{self.behind}"

    def value_of(self, word: str) -> float | None:
        number = number_of(word, self.way)
        if not number:
            return None
        value, signs = number
        may_lack = self.before and signs == NO_SIGNS
        if may_lack or signs == (self.before, self.behind):
            return value
        return None


# ---------------------------------------------------------------- dates

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTH_OF = {
    name: i for i, month in enumerate(_MONTHS, 1) for name in (month, month[:3])
} | {"sept": 9}
DIRECTIVES = {  # of strptime, with English names
    "Y": r"(?P<y>\d{4})",
    "y": r"(?P<y>\d\d)",
    "m": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "j": r"(?P<j>\d{1,3})",
    "b": r"(?P<name>[A-Za-z]{3,9})\.?",
    "B": r"(?P<name>[A-Za-z]{3,9})\.?",
    "a": r"(?P<a>[A-Za-z]{3,9})\.?",
    "A": r"(?P<a>[A-Za-z]{3,9})\.?",
    "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<H>\d{1,2})",
    "M": r"(?P<M>\d\d)",
    "S": r"(?P<S>\d\d)",
    "f": r"(?P<f>\d{1,9})",
    "p": r"(?P<half>[AaPp])\.?[Mm]\.?",
    "z": r"(?P<zone>[+-]\d\d:?\d\d|Z|UTC|GMT)",
    "Z": r"(?P<zone>Z|UTC|GMT)",
    "%": "%",
}
_CLOCK = r"%H:%M(?::%S(?:\.%f)?)?(?: ?%p)?(?: ?%z)?"
_TIME = rf"(?:(?:,? +|T){_CLOCK})?"
_T = r"T(?P<H>\d\d):?%M(?::?%S(?:\.%f)?)?Z?"
_YEAR_PATTERN = r"(?P<y>\d{4}|\d\d)"
# how dates are written -> as strptime has it, and all that is taken for it; of two that
# fit, the first
DATE_FORMS = {
    "day.month.year": ("%d.%m.%Y", rf"%d\.%m\.{_YEAR_PATTERN}{_TIME}"),
    "month/day/year": ("%m/%d/%Y", rf"%m(?P<s>[/.-])%d(?P=s){_YEAR_PATTERN}{_TIME}"),
    "day/month/year": ("%d/%m/%Y", rf"%d(?P<s>[/.-])%m(?P=s){_YEAR_PATTERN}{_TIME}"),
    "year/month/day": ("%Y/%m/%d", rf"%Y(?P<s>[/.-])%m(?P=s)%d{_TIME}"),
    "day month year": ("%d %b %Y", rf"%d[ ./-]?%b[ ,/-]{{0,2}}{_YEAR_PATTERN}{_TIME}"),
    "month day, year": ("%b %d, %Y", rf"%b ?%d(?:st|nd|rd|th)?,? %Y{_TIME}"),
    "month year": ("%b %Y", rf"%b(?:-|[ ,/-]{{0,2}}(?=\d{{4}})){_YEAR_PATTERN}"),
    "year-month": ("%Y-%m", r"%Y[/-]%m"),
    "hour:minute": ("%H:%M", _CLOCK),
    "yearmonthday": ("%Y%m%d", rf"%Y(?P<m>\d\d)(?P<d>\d\d)(?:\.0*|{_T})?"),
}
EITHER = "month/day/year", "day/month/year"
# names in models
_FORMER = {"month-year": "%b-%y", "yearmonthdayTtime": rf"%Y(?P<m>\d\d)(?P<d>\d\d){_T}"}
_CENTURY = 69  # from which two digits of a year are those of the century before
_YEAR_1970 = datetime.datetime(1970, 1, 1)


@lru_cache(64)
def pattern_of(form: str) -> re.Pattern:
    """Return the pattern of dates in a form: a name of DATE_FORMS or a format of
    strptime.
    Raises UnknownForm."""
    template = _FORMER.get(form) or DATE_FORMS.get(form, ("", ""))[1]
    if not template:
        template = re.sub(r"(?:\\\s)+", r"\\s+", re.escape(form))
    if len(form) > _LONGEST_NUMBER or "%" not in template:
        raise UnknownForm(form)
    try:
        pattern = re.sub(r"%(.?)", lambda match: DIRECTIVES[match[1]], template)
        return re.compile(pattern, re.ASCII)
    except (KeyError, re.error) as error:
        raise UnknownForm(form) from error


@dataclass(frozen=True)
class WrittenDates(Written):
    """How the dates of a column are written: in a form, see pattern_of; those that have
    a year later as ISO 8601 too, which is what dates of typed columns become."""

    way: str
    kind = "written date"
    checks: ClassVar = {"way": is_text}

    def __post_init__(self):
        pattern_of(self.way)  # UnknownForm for one that went

    def __str__(self) -> str:
        return self.way

    def value_of(self, word: str) -> float | None:
        seconds = date_of(word, self.way)
        has_year = "y" in pattern_of(self.way).groupindex
        if seconds is None and has_year:
            return date_of(word, "year/month/day")
        return seconds


def date_of(word: str, form: str) -> float | None:
    """Return the seconds since 1970-01-01 of the date that a word is, in a form
    (pattern_of); None for another word.

    Without a day it is the first one.
    """
    match = pattern_of(form).fullmatch(word)
    if not match:
        return None
    parts = {name: text for name, text in match.groupdict().items() if text}
    year = _year_in(parts)
    month = int(parts.get("m", 1))
    if "name" in parts:
        month = _MONTH_OF.get(parts["name"].lower(), 0)
    day = int(parts.get("d", 1))
    try:
        moment = datetime.datetime(
            year, month, day, _hour_in(parts), int(parts.get("M", 0))
        )
    except ValueError:
        return None
    moment += datetime.timedelta(int(parts.get("j", 1)) - 1)
    seconds = float(f"{parts.get('S', 0)}.{parts.get('f', 0)}")
    if moment.year != year or seconds >= 60:
        return None
    since_1970 = (moment - _YEAR_1970).total_seconds()
    return since_1970 - _seconds_east(parts.get("zone", "")) + seconds


def _year_in(parts: dict[str, str]) -> int:
    """Return the year of a date; two digits are of the last century or of this one."""
    text = parts.get("y", "1970")
    if len(text) != 2:
        return int(text)
    if int(text) >= _CENTURY:
        return 1900 + int(text)
    return 2000 + int(text)


def _hour_in(parts: dict[str, str]) -> int:
    """Return the hour of a date, which is none (24) beside AM or PM above 12."""
    hour = int(parts.get("H", 0))
    if "half" not in parts:
        return hour
    if not 1 <= hour <= 12:
        return 24
    if parts["half"] in "pP":
        return hour % 12 + 12
    return hour % 12


def _seconds_east(zone: str) -> int:
    """Return how far a time zone, +hh:mm, is ahead of universal time."""
    if not zone[-1:].isdigit():
        return 0
    return int(zone[0] + "1") * (3600 * int(zone[1:3]) + 60 * int(zone[-2:]))
