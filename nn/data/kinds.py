"""Kinds of feature columns: what each is to a network, or why it is none of its inputs:
a pure function of its fields, a person's choices and a few rules."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..settings.values import in_a_list, split_names
from ..utils import DataError, UsageError, listed
from . import written
from .column import MOSTLY, TRUTHS, Column, number_in, settled, shortened
from .source import TableSource

# values of a category up to which each has an input of its own; more are embedded
ONE_HOT = 16
LEAST_SLOT_ROWS = (
    5  # rows below which a value shares a slot with those never seen, see least_rows
)
# share of the rows whose text occurs often enough (least_rows), below which a column is
# one of names
_SHARED = 0.2
_MOST_TOLD = 20  # columns in a message
_MOST_ABSENT = 2  # words for a gap that differ
_LEAST_WORDS = 3  # that differ: two are as good as yes and no
# words with digits, beside which any word without one is a gap: n.a., Varies with
# device
_MANY_WORDS = 16
_GLANCE = 1 << 10  # words that rule out most ways
# from which whole numbers that go up by one are taken for row numbers
COUNTED_ROWS = 100
GAPS_ONLY = "gaps only"
ONE_VALUE = "one value only"
COUNTS_ROWS = "counts the rows"
AN_ID = "an id"
# the last word of a name, or no name at all
_NAME_OF_IDS = re.compile(r"id|ids|idx|index|no|nr|key|uuid|rownames|")
_NO_NAME = re.compile(r"Unnamed: \d+")  # what pandas calls a column without one
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_DIFFERS = "nearly every value differs"
_ARE_RARE = f"nearly every value has fewer than {LEAST_SLOT_ROWS} rows"


class Kind(NamedTuple):
    """Kind of a feature column, as its fields or a person say: a name of ENCODERS, and
    what the encoder has to know.

    written: how words stand for the values, if they do. decimals: 1, 1.0 and 1e0 are
    one category;
    truths: TRUE, True and true are.
    """

    kind: str
    written: written.Written | None = None
    decimals: bool = False
    truths: bool = False

    @classmethod
    def of(cls, words: written.Written) -> Kind:
        return cls(words.kind, words)

    @property
    def reads(self) -> str:
        """Return what the column is read as; a column of texts may become a number or a
        date by `settled`."""
        if self.written or self.kind == "category":
            return "text"
        return self.kind


NUMBER = Kind("number")


def column_kind(column: Column, choice: Kind | None, name: str, flag: str = "") -> Kind:
    """Return what a column is. choice: a person's, perhaps with how it is written; a
    date without that is as most of them are. name, flag: how messages and flags call
    it. Raises DataError for dates whose form must be asked for."""
    if column.reads != "text":
        return Kind(column.reads)
    asked = None
    if choice:
        asked = choice.kind
        if choice.written:
            return choice
    words = column.counts()
    are_truths = bool(words) and {word.lower() for word in words} <= {"true", "false"}
    if are_truths and asked == "category":
        return Kind("category", truths=True)
    if asked == "category":
        are_numbers = all(number_in(word) is not None for word in words)
        return Kind("category", decimals=bool(words) and are_numbers)
    if asked and settled(column, None).reads == asked:
        return choice
    has_gaps = sum(words.values()) < len(column)
    may_be_truths = not asked and words and not has_gaps
    if may_be_truths and all(word.lower() in TRUTHS for word in words):
        return Kind.of(written.YesNo())
    words_as = _way_of(words, asked, name, flag)
    if words_as:
        return Kind.of(words_as)
    return choice or Kind("category", truths=are_truths)


def _way_of(
    words: dict[str, int], asked: str | None, name: str, flag: str
) -> written.Written | None:
    """Return how words are written as numbers or dates, or as the kind that a person
    asked for; None where they are not."""
    if asked != "date":
        numbers = way_of_numbers(words, bool(asked))
        if numbers:
            return numbers
    if asked != "number":
        form = way_of_dates(words, bool(asked), name, flag)
        if form:
            return written.WrittenDates(form)
    return None


def least_rows(counts: Collection[int]) -> int:
    """Return the rows that a value of a column needs for a slot of its own. counts: the
    rows of each value.

    LEAST_SLOT_ROWS; but in a small table, where few values have fewer than 2
    LEAST_SLOT_ROWS rows each on average, two: each level of a factor comes again, and
    one shared slot would hide them all, in a fold at the latest.
    """
    values = len(counts)
    if values <= ONE_HOT and sum(counts) < 2 * LEAST_SLOT_ROWS * values:
        return 2
    return LEAST_SLOT_ROWS


# ---------------------------------------------------------------- how words are written


def way_of_numbers(
    words: dict[str, int], asked: bool = False
) -> written.WrittenNumbers | None:
    """Return how numbers are written, if MOSTLY of the rows hold numbers written so,
    not all of them plain.

    words: the rows of each. asked: a person has said that they are numbers, however
    few.
    """
    likely = _likely_values(words, asked)
    ways = [_between_signs(likely, way) for way in written.NUMBER_FORMS]
    best = _best({way: way.value_of for way in ways}, likely)
    has_gaps = len(likely) < len(words)
    if best is None or best.before or best.behind or (has_gaps and not asked):
        return best
    for word in likely:
        if number_in(word) is None and best.value_of(word) is not None:
            return best
    return None  # all are plain


def _between_signs(words: dict[str, int], way: str) -> written.WrittenNumbers:
    """Return this way, between the signs of most rows; a sign in front may be
    missing."""
    counts = Counter()
    for word in islice(words, _GLANCE):
        number = written.number_of(word, way)
        if number:
            counts[number[1]] += words[word]
    plain_rows = counts[written.NO_SIGNS]

    def rows_of(signs: tuple[str, str]) -> int:
        if signs[0]:
            return counts[signs] + plain_rows
        return counts[signs]

    most = max(counts, key=rows_of, default=written.NO_SIGNS)
    return written.WrittenNumbers(way, *most)


def way_of_dates(
    words: dict[str, int], asked: bool = False, name: str = "", flag: str = ""
) -> str | None:
    """Return the form of FORMS in which MOSTLY of the rows have dates; None if there is
    none.

    Where day and month fit either way, the day is the part that is always 1 while the
    other varies; if none is, both cures are told in a DataError, as a shell takes them.
    name, flag: as in column_kind.
    """
    likely = _likely_values(words, asked)
    ways = {form: partial(written.date_of, form=form) for form in written.DATE_FORMS}
    form = _best(ways, likely)
    month_first, day_first = written.EITHER
    if form != month_first:
        return form
    dates = [word for word in likely if written.date_of(word, month_first) is not None]
    swapped = [word for word in likely if written.date_of(word, day_first) is not None]
    if dates != swapped:
        return month_first
    parts = [re.split(r"\D", word) for word in dates]
    first_parts = [int(part[0]) for part in parts]
    second_parts = [int(part[1]) for part in parts]
    if first_parts == second_parts or _is_day(second_parts, first_parts):
        return month_first
    if _is_day(first_parts, second_parts):
        return day_first
    cures = []
    for form in (day_first, month_first):
        choice = in_a_list(f"{flag}={written.DATE_FORMS[form][0]}")
        cures.append(f"--dates {shlex.quote(choice)}")
    raise DataError(
        f'{name}: found "{shortened(dates[0])}", and no date tells which is the day and '
        f"which the month; add {' or '.join(cures)}"
    )


def _is_day(part: list[int], other: list[int]) -> bool:
    """Return whether a part of dates is the day: always 1 while the other varies."""
    return {*part} == {1} and len({*other}) > 1


def _likely_values(words: dict[str, int], asked: bool) -> dict[str, int]:
    """Return the words, and their rows, without those for a gap, if no more than
    _MOST_ABSENT of these differ: - and ?, and beside _MANY_WORDS with digits any word
    without one.

    Nothing where fewer than _LEAST_WORDS are left, or too few have a digit, as every
    number and date does.
    """
    has_digit = {word: bool(written.DIGIT.search(word)) for word in words}
    are_many = sum(has_digit.values()) > _MANY_WORDS
    gaps = {
        word
        for word in words
        if not has_digit[word] and (are_many or not any(map(str.isalnum, word)))
    }
    likely = words
    if len(gaps) <= _MOST_ABSENT:
        likely = {word: rows for word, rows in words.items() if word not in gaps}
    with_digits = sum(rows for word, rows in likely.items() if has_digit[word])
    are_few = len(likely) < _LEAST_WORDS or with_digits < MOSTLY * sum(likely.values())
    if are_few and not asked:
        return {}
    return likely


def _best(ways: dict, words: dict[str, int]):
    """Return the way of most rows, the first one of several; None if it is not that of
    MOSTLY of all. ways: each with what gives the value of a word, or None."""

    def rows_with_value(candidates: Iterable[str], value_of: Callable) -> int:
        return sum(words[word] for word in candidates if value_of(word) is not None)

    glance = list(words)[:_GLANCE]
    least = MOSTLY / 2 * sum(words[word] for word in glance)
    total = sum(words.values())
    most = 0
    best = None
    for way, value_of in ways.items():
        if most < total and rows_with_value(glance, value_of) >= least:
            rows = rows_with_value(words, value_of)
            if rows > most:
                most = rows
                best = way
    if most >= MOSTLY * total:
        return best
    return None


# ---------------------------------------------------------------- what all columns are


def decide_kinds(
    source: TableSource,
    columns: dict[int, Column],
    choices: dict[int, Kind],
    is_plain: bool,
) -> tuple[dict[int, Kind], dict[int, str]]:
    """Return the kinds of feature columns, by their places; and those that are no
    inputs, with the reason.

    is_plain: all are numbers without gaps, of which nobody has said anything. Raises
    DataError if none is an input.
    """
    kinds = {}
    left_out = {}
    for place, column in columns.items():
        name = source.names and source.names[place]
        kind = NUMBER
        if column.reads != "number":
            flag = name or str(place)
            kind = column_kind(column, choices.get(place), source.column(place), flag)
        reason = reason_to_leave_out(column, kind, name, is_plain)
        if reason and (place not in choices or reason == GAPS_ONLY):
            left_out[place] = reason
        kinds[place] = kind
    if len(left_out) == len(columns):  # nothing else is there
        stay = COUNTS_ROWS if COUNTS_ROWS in left_out.values() else AN_ID
        left_out = {place: why for place, why in left_out.items() if why != stay}
    if len(left_out) == len(columns):
        reasons = [f"{source.column(place)} ({why})" for place, why in left_out.items()]
        raise DataError(
            f"{source.path}: no input columns left, expected features; "
            f"left out: {listed(reasons, _MOST_TOLD)}; "
            f"keep one by --numbers or --categories, or add some"
        )
    kept = {place: kind for place, kind in kinds.items() if place not in left_out}
    return kept, left_out


def reason_to_leave_out(
    column: Column, kind: Kind, name: str | None = None, is_plain: bool = False
) -> str | None:
    """Return why a column tells a network nothing; None where it may tell something."""
    values = column.values
    if column.reads == "text":
        return _reason_of_texts(column, kind)
    if np.isnan(values[0]) and np.isnan(values).all():
        return GAPS_ONLY
    if column.reads == "number":
        for reason, holds in LEFT_OUT_RULES.items():
            if holds(values, name):
                return reason
    # of plain numbers the scaling says how many have one value
    if not is_plain and _holds_for_all(values, lambda part: part == values[0]):
        return ONE_VALUE
    return None


def _holds_for_all(values: np.ndarray, is_so: Callable) -> bool:
    """Return whether all of is_so(values) are true; the first ones nearly always
    tell."""
    return is_so(values[:COUNTED_ROWS]).all() and is_so(values).all()


def _reason_of_texts(column: Column, kind: Kind) -> str | None:
    """Return why texts tell a network nothing: they are gaps, one value, or names,
    nearly all of which differ."""
    rows = column.word_rows[column.word_rows > 0]
    known_rows = rows.sum()
    if not known_rows:
        return GAPS_ONLY
    if len(rows) == 1 and known_rows == len(column):
        return ONE_VALUE
    is_shared = rows[rows >= least_rows(rows)].sum() >= _SHARED * known_rows
    if len(rows) <= 2 or is_shared or kind.kind != "category":
        return None
    if np.count_nonzero(rows == 1) >= (1 - _SHARED) * known_rows:
        return _DIFFERS
    return _ARE_RARE


def _count_rows(values: np.ndarray, _name: str | None) -> bool:
    """Row numbers: whole numbers that go up by one step through all of at least 100
    rows."""
    if len(values) < COUNTED_ROWS or values[0] not in (0, 1):
        return False
    return _holds_for_all(values, lambda part: np.diff(part.astype(np.float64)) == 1)


def _are_ids(values: np.ndarray, name: str | None) -> bool:
    """Ids: whole numbers from 0 that never repeat, in a column that is called so, or
    nothing beside others' names."""
    if name is None:
        return False
    words = _NAME_WORD.findall(_NO_NAME.sub("", name))
    if words and not _NAME_OF_IDS.fullmatch(words[-1].lower()):
        return False
    return len(values) > 1 and _holds_for_all(values, _are_distinct_counts)


def _are_distinct_counts(values: np.ndarray) -> np.ndarray:
    """Return of each of some numbers, sorted, whether it is whole, 0 or above, and
    differs from the next one."""
    ids = np.sort(values.astype(np.float64))
    differs = np.append(np.diff(ids) != 0, True)
    return (ids == np.floor(ids)) & (ids >= 0) & differs


# reason -> which columns of numbers a network should not see
LEFT_OUT_RULES = {COUNTS_ROWS: _count_rows, AN_ID: _are_ids}


# ---------------------------------------------------------------- what a person says


def parse_choices(choices, names: Collection[str] = ()) -> list[tuple[str, str, Kind]]:
    """Return each column of which a person says what it is: (flag, its name or index as
    it was written, the kind).

    choices: has the flags, each a list with commas, see split_names; dates: COL or
    COL=FORMAT; ordered: COL=LOW<...<HIGH. names: of the table's columns; a text that is
    one of them is no list. Raises UsageError.
    """
    read = {
        "categories": lambda word: (word, Kind("category")),
        "numbers": lambda word: (word, NUMBER),
        "dates": lambda word: _choice_of_dates(word, names),
        "ordered": _choice_of_order,
    }
    parsed = []
    for flag, choice_in in read.items():
        for word in split_names(getattr(choices, flag), names):
            parsed.append((flag, *choice_in(word)))
    return parsed


def _choice_of_dates(word: str, names: Collection[str]) -> tuple[str, Kind]:
    column, is_given, form = word.rpartition("=")
    if not is_given or word in names:
        return word, Kind("date")
    names_of_forms = {format: way for way, (format, _) in written.DATE_FORMS.items()}
    way = names_of_forms.get(form.strip(), form.strip())
    try:
        return column.strip(), Kind.of(written.WrittenDates(way))
    except written.UnknownForm:
        parts = " ".join(f"%{letter}" for letter in written.DIRECTIVES)
        raise UsageError(
            f"--dates {word}: expected COLUMN=FORMAT, as day=%d.%m.%Y, of {parts}, each once"
        ) from None


def _choice_of_order(word: str) -> tuple[str, Kind]:
    column, _, texts = word.partition("=")
    order = [text.strip() for text in texts.split("<")]
    if len({*order}) < max(2, len(order)) or "" in (column, *order):
        raise UsageError(
            f"--ordered {word}: expected COLUMN=LOW<...<HIGH with two or more words, as size=S<M<L"
        )
    return column.strip(), Kind.of(written.Order(order))
