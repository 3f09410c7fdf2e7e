"""Numbers and dates as people write them: $1,234.50, 12.5 %, 1 234,5, €3.2M; 12/31/2019, 31.12.2019 14:30, 5 Jan 2019.

The words of a column tell how all of them are written; a column with a word that is written in another way is text.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

_ABSENT = frozenset({
    "n/a", "na", "n.a.", "nan", "n.d.", "nil", "none", "null", "(null)", "missing", "unknown", "unk", "undefined",
    "no data", "not available", "not applicable", "<na>", "#n/a", "#value!", "#div/0!", "#ref!", "#num!", "#name?",
})  # fmt: skip
MOST_ABSENT = 2  # words for a gap that differ
_NO_SIGNS = "", ""
LEAST_WORDS = 3  # that differ: two are as good as yes and no
MANY_WORDS = 16  # different numbers, beside which any word without a digit is a gap: tbd, Varies with device
_STRAYS = 0.05  # share of many words with signs that may be written in another way, as one km/kg among kmpl
_PREFIX = r"(?P<prefix>(?:[A-Z]{1,3} ?)?[$€£¥₹] ?|)"
_SUFFIX = r"(?P<suffix> ?[^\d\s.,:/+-][^\d]{0,11}|\+|)"
_OTHER_BLANKS = str.maketrans("\u00a0\u2009\u202f", "   ")  # that keep thousands together on a line
_POINTS = {  # how numbers are written: a point, or a comma, before decimals
    "1,234.5": r"\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+",
    "1.234,5": r"\d{1,3}(?:\.\d{3})+(?:,\d*)?|\d+(?:,\d*)?",
    "1 234.5": r"[1-9]\d{0,2}(?: \d{3})+(?:\.\d*)?|\d+(?:\.\d*)?",
    "1 234,5": r"[1-9]\d{0,2}(?: \d{3})+(?:,\d*)?|\d+(?:,\d*)?",
}
_TIMES = r"(?P<times> ?(?:[KMB]|k|[Tt]housand|[Mm]illion|[Bb]illion)(?![A-Za-z])|)"
_FACTORS = {"": 1.0, "k": 1e3, "t": 1e3, "m": 1e6, "b": 1e9}  # by the first letter
_BEFORE = rf"(?P<sign>[-+]?){_PREFIX}(?P<minus>-?)"
MULTIPLES = "1,234.5K"
_NUMBERS = {  # of two that fit all words, the first
    **{
        written: re.compile(rf"{_BEFORE}(?P<number>{number})(?P<times>){_SUFFIX}", re.ASCII)
        for written, number in _POINTS.items()
    },
    MULTIPLES: re.compile(rf"{_BEFORE}(?P<number>{_POINTS['1,234.5']}){_TIMES}{_SUFFIX}", re.ASCII),
}
_CLOCK = r"(?P<H>\d{1,2}):(?P<M>\d\d)(?::(?P<S>\d\d(?:\.\d+)?))?(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
_CLOCK += r"(?: ?(?:Z|UTC|GMT|(?P<zone>[+-]\d\d:?\d\d)))?"
_WEEKDAY = re.compile(r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? +", re.IGNORECASE)
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
    "month day hour:minute year": rf"{_MONTH} +(?P<d>\d{{1,2}}) {_CLOCK} (?P<y>\d{{4}})",
    "month-day-year": rf"{_MONTH}[ /-](?P<d>\d{{1,2}})[/-](?P<y>\d{{4}}){_TIME}",
    "year month day": rf"(?P<y>\d{{4}})[ ,./-]*{_MONTH}[ ./-]*(?P<d>\d{{1,2}}){_TIME}",
    "year-month": r"(?P<y>\d{4})[/-](?P<m>\d{1,2})",
    "month/year": r"(?P<m>\d{1,2})[/-](?P<y>\d{4})",
    "year month": rf"(?P<y>\d{{4}})[ ./-]?{_MONTH}",
    "year quarter": r"(?P<y>\d{4})[ :./-]?[Qq](?P<q>[1-4])",
    "quarter year": r"[Qq](?P<q>[1-4])[ ./-]?(?P<y>\d{4})",
    "year week": r"(?P<y>\d{4})[ ./-]?[Ww](?P<w>\d{1,2})",
    "month-year": rf"{_MONTH}-(?P<y>\d\d)",
    "hour.minute.second": r"(?P<H>\d{1,2})\.(?P<M>\d\d)\.(?P<S>\d\d)",
    "hours:minutes:seconds": r"(?P<hours>\d{1,4}):(?P<M>[0-5]\d):(?P<S>[0-5]\d(?:\.\d+)?)",
    "yearmonthday": r"(?P<y>1[89]\d\d|2[01]\d\d)(?P<m>\d\d)(?P<d>\d\d)(?:\.0*)?",
    "yearmonth": r"(?P<y>1[89]\d\d|2[01]\d\d)(?P<m>\d\d)(?:\.0*)?",
    "days hours:minutes:seconds": r"(?=[\d-])(?:(?P<days>-?\d{1,6}) days?)?"
    r"(?:,? ?\+?(?P<hours>\d{1,4}):(?P<M>[0-5]\d):(?P<S>[0-5]\d(?:\.\d+)?))?",
}
_DATE_FORMS = {written: re.compile(form, re.ASCII) for written, form in _DATES.items()}
_ISO = "year/month/day"
_CENTURY = 69  # from which two digits of a year are those of the century before
NUMBERS, DATES = tuple(_NUMBERS), tuple(_DATE_FORMS)
_EPOCH = datetime.datetime(1970, 1, 1)


def is_number(text: str) -> bool:
    """Return whether a field reads as a number without any sign around it, nan and inf among them."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _signs(found: re.Match) -> tuple[str, str]:
    return found["prefix"].strip(), found["suffix"].strip()


def _number(word: str, written: str) -> re.Match | None:
    return _NUMBERS[written].fullmatch(word.translate(_OTHER_BLANKS))


def number_of(word: str, written: str, signs: tuple[str, str]) -> float | None:
    """Return the number that a word is, written so and between these signs ($ and %); None for another word.

    A sign in front, of money, may be missing.
    """
    found = _number(word, written)
    if not found or (_signs(found) != signs and not (signs[0] and _signs(found) == _NO_SIGNS)):
        return None
    thousands, point = written[1], written[5]
    number = float(found["number"].replace(thousands, "").replace(point, "."))
    number *= _FACTORS[found["times"].strip()[:1].lower()]
    return -number if "-" in (found["sign"], found["minus"]) else number


def date_of(word: str, written: str, or_iso: bool = False) -> float | None:
    """Return the seconds since 1970-01-01 of the date that a word is, written so; None for another word.

    or_iso: 2019-12-31 is one too, see takes_iso.
    """
    form = _DATE_FORMS[written]
    found = form.fullmatch(_WEEKDAY.sub("", word, 1) if "d" in form.groupindex and _WEEKDAY.match(word) else word)
    if not found and or_iso and takes_iso(written):
        found = _DATE_FORMS[_ISO].fullmatch(word)
    if not found:
        return None
    parts = found.groupdict()
    hour, minute, seconds = int(parts.get("H") or 0), int(parts.get("M") or 0), float(parts.get("S") or 0)
    if "hours" in parts:
        return 86400.0 * int(parts.get("days") or 0) + 3600 * int(parts["hours"] or 0) + 60 * minute + seconds
    if parts.get("half"):
        hour = hour % 12 + 12 * (parts["half"] in "pP") if 1 <= hour <= 12 else 24
    try:
        moment = _day_of(parts).replace(hour=hour, minute=minute)
    except ValueError:
        return None
    if parts.get("zone"):
        sign, hours, minutes = parts["zone"][0], int(parts["zone"][1:3]), int(parts["zone"][-2:])
        seconds_east = (3600 * hours + 60 * minutes) * (-1 if sign == "-" else 1)
        moment -= datetime.timedelta(seconds=seconds_east)
    return (moment - _EPOCH).total_seconds() + seconds if seconds < 60 else None


def takes_iso(written: str) -> bool:
    """Return whether dates written so may be written as 2019-12-31 too: they have a year."""
    return "y" in _DATE_FORMS[written].groupindex


def _day_of(parts: dict[str, str]) -> datetime.datetime:
    """Return the day, or the first day of the week, month or quarter; 1970-01-01 without any. Raises ValueError."""
    year = int(parts.get("y", 1970))
    if year < 100:
        year += 1900 if year >= _CENTURY else 2000
    if parts.get("w"):
        return datetime.datetime.fromisocalendar(year, int(parts["w"]), 1)
    if parts.get("q"):
        return datetime.datetime(year, 3 * int(parts["q"]) - 2, 1)
    month = _month_of(parts["name"]) if parts.get("name") else int(parts.get("m", 1))
    return datetime.datetime(year, month, int(parts.get("d", 1)))


@lru_cache(64)
def _month_of(name: str) -> int:
    """Return the number of a month by its English name, whole or shortened; 0 for another name."""
    short = name.lower()
    return next((i for i, month in enumerate(_MONTHS, 1) if short in (month, month[:3], "sept"[: 4 * (i == 9)])), 0)


def way_of_numbers(words: Sequence[str]) -> tuple[str, tuple[str, str]] | None:
    """Return how numbers are written, and the signs around them, if all words are numbers, not all of them plain.

    Words for a gap do not count, see _known; beside MANY_WORDS numbers any word without a digit is one. Of many numbers
    with signs a few may be written in another way.
    """
    numbers = [word for word in words if any(map(str.isdigit, word))]
    many = len(numbers) > MANY_WORDS and len(numbers) >= len(words) - MOST_ABSENT
    known = numbers if many else _known(words)
    if not known:
        return None
    for written in NUMBERS:
        signs = _signs_of_all(known, written)
        if signs is not None:
            is_plain = len(known) == len(words) and not any(signs) and all(map(is_number, known))
            return None if is_plain else (written, signs)
    return next(filter(None, (_way_of_most(known, written) for written in NUMBERS)), None) if many else None


def _signs_of_all(words: Sequence[str], written: str) -> tuple[str, str] | None:
    """Return the signs around all words; None if one is no number written so, or they do not agree."""
    found = [_number(word, written) for word in words]
    if not all(found):
        return None
    signs = max(map(_signs, found), default=_NO_SIGNS)
    return None if any(number_of(word, written, signs) is None for word in words) else signs


def _way_of_most(words: Sequence[str], written: str) -> tuple[str, tuple[str, str]] | None:
    """Return the way and the signs of nearly all words, if they have some."""
    counts = Counter(map(_signs, _matches(words, written)))
    signs, count = counts.most_common(1)[0] if counts else (_NO_SIGNS, 0)
    return (written, signs) if any(signs) and count >= (1 - _STRAYS) * len(words) else None


@dataclass(frozen=True)
class WrittenNumbers:
    """How the numbers of a target are written: a way of NUMBERS, and the signs before and behind each, its unit."""

    way: str = NUMBERS[0]
    before: str = ""
    behind: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.way}{self.behind}"

    @property
    def takes_plain(self) -> bool:
        """Return whether a number without signs is one of them: a sign in front, of money, may be missing."""
        return bool(self.before) or not self.behind

    def number_of(self, word: str) -> float | None:
        """Return the number that a word is, see number_of."""
        return number_of(word, self.way, (self.before, self.behind))

    def has_unit_of(self, other: WrittenNumbers) -> bool:
        """Return whether numbers written in the other way are in the same unit, as far as the signs tell."""
        return self.behind == other.behind and (self.before == other.before or not (self.before and other.before))


def written_as(words: Iterable[str]) -> WrittenNumbers | None:
    """Return how all words are written, if they are numbers, perhaps plain ones; None if one is none.

    A comma is a point where a unit, or thousands, tell that these are no lists of numbers. Behind a sign of money K, M
    and B are multiples. Elsewhere one of them behind all numbers is a unit, as in 300 K.
    """
    words = list(words)
    signs, of_multiples = (_signs_of_all(words, way) for way in (NUMBERS[0], MULTIPLES))
    if of_multiples is not None and (signs is None or signs[0]):
        return WrittenNumbers(MULTIPLES, *of_multiples)
    if signs is not None:
        return WrittenNumbers(NUMBERS[0], *signs)
    for way in (way for way in NUMBERS if way != MULTIPLES):
        signs = _signs_of_all(words, way)
        if signs is not None and (any(signs) or any(way[1] in found["number"] for found in _matches(words, way))):
            return WrittenNumbers(way, *signs)
    return None


def _known(words: Sequence[str]) -> list[str]:
    """Return the words without those for a gap: without a letter or digit, as -, or for absence; none where more than
    MOST_ABSENT of these differ, or fewer than LEAST_WORDS are left."""
    known = [word for word in words if not is_absent(word)]
    return known if len(known) >= max(LEAST_WORDS, len(words) - MOST_ABSENT) else []


def is_absent(word: str) -> bool:
    """Return whether a word stands for a gap where others are numbers: it is a mark for one, or says so."""
    return word.lower() in _ABSENT or is_mark_for_gap(word)


def is_mark_for_gap(word: str) -> bool:
    """Return whether a word has neither a letter nor a digit, as . and -, which stand for a gap."""
    return not any(map(str.isalnum, word))


def way_of_dates(words: Sequence[str]) -> str | None:
    """Return how dates are written, if all words are dates; where it may be either, the month comes before the day.

    Words for a gap do not count, see _known.
    """
    words = _known(words)
    return next((way for way in DATES if words and all(date_of(word, way) is not None for word in words)), None)


def other_than(words: Sequence[str], kind: str) -> list[int]:
    """Return the words that are no numbers or no dates (kind: number, date) as most of these words are written, nor
    stand for a gap, by their places; none if all are."""
    if way_of_numbers(words) if kind == "number" else way_of_dates(words):
        return []
    known = [i for i, word in enumerate(words) if not is_absent(word)]
    if kind == "number":
        ways = ((number_of, way, signs) for way in NUMBERS for signs in {*map(_signs, _matches(words, way)), _NO_SIGNS})
    else:
        ways = ((date_of, way) for way in DATES)
    others = ([i for i in known if value_of(words[i], *how) is None] for value_of, *how in ways)
    return min(others, key=len) or known


def _matches(words: Sequence[str], written: str) -> list[re.Match]:
    return [found for found in (_number(word, written) for word in words) if found]


def cycles_of(way: str, cycles: list[str]) -> list[str]:
    """Return those of the cycles that dates written so can have: months have a year, not a week; durations none."""
    parts = _DATE_FORMS[way].groupindex
    if "hours" in parts:
        return []
    return cycles if {"d", "H"} & {*parts} else [cycle for cycle in cycles if cycle == "year"]


def is_written(word: str) -> bool:
    """Return whether a word may be a number or a date as people write them."""
    may_be_number = any(_number(word, way) for way in NUMBERS)
    return may_be_number or any(date_of(word, way) is not None for way in DATES)


def are_written(words: Sequence[str]) -> bool:
    """Return whether these words are numbers or dates as people write them."""
    return way_of_numbers(words) is not None or way_of_dates(words) is not None


def values_of(words: Iterable[str], value_of, *how) -> list[float]:
    """Return value_of(word, *how) of each word, nan where it is None, and nan at the end, where code -1 finds it."""
    values = [value_of(word, *how) for word in words]
    return [*(math.nan if value is None else value for value in values), math.nan]
