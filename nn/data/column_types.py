"""The type that a column is read as, by its fields; and the columns that tell a network nothing.

facts of all fields ─► reads: number, text or date, and the obstacles, all at once
rows that were read ─► left_out: constants, row numbers, ids, names
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

import numpy as np

from ..utils import DataError
from .column_lookup import in_a_list
from .encoders import ONE_HOT, RARE, least_rows
from .field_types import shortened
from .table_files import ColumnFacts, Place
from .table_rows import TableRows
from .written import are_written, is_absent, is_mark_for_gap, is_number, way_of_numbers

MOSTLY = 0.95  # share of a column's values that must be numbers, or dates, for the column to be one of them
COUNTED_ROWS = 100  # from which whole numbers that go up by one are taken for row numbers
LEAST_CODES = 3  # words that are no numbers in a column of codes; fewer are strays among numbers
_CODE = re.compile(r"[A-Za-z]+-?\d[\w.-]*")
_SHARED = 0.2  # share of the rows whose text occurs often enough (least_rows), below which a column is one of names
_GLANCE_ROWS = 1 << 14  # which tell nearly always that a column is not one of names
_MOST_OBSTACLES = 20
_MOST_WORDS = 1 << 16  # that are looked at one by one
_DIFFERS, _ARE_RARE = "nearly every value differs", f"nearly every value has fewer than {RARE} rows"
LEAST_DATES = 8  # different numbers, 20150314 and the like, that are dates
_DAYS, _MONTHS = (18_000_101, 21_991_231), (180_001, 219_912)  # the first and the last, as numbers
LEAST_NEIGHBOURS = 12  # pairs n, n + 1 from which whole numbers that never repeat are ids
_EXACT = 1 << 24  # below which float32 has every whole number
COUNTERS = ("counts the rows", "an id")  # reasons to leave a column of numbers out where there are others
_ID_NAME = re.compile(
    r"(?:.*[\s_.-])?(?:id|ids|idx|index|no|nr|uuid|key|seqn)|obs|case|row|row[\s_.]?(?:names?|num|numbers?)|"
    r"(?:case|client|cust|customer|dist|district|fam|family|hh|household|member|p|pat|patient|person|rec|record|row|"
    r"sch|school|student|subj|subject|u|unit|user)ids?|unnamed: ?\d+|",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r".*[a-z](?:Id|ID|No|Nr|Key|Index)")
_CODE_NAME = re.compile(
    r"(?:.*[\s_.-])?(?:ids?|codes?|zip|fips)|zip[\s_.-]?codes?|post[\s_.-]?codes?|(?:state|county)fips", re.IGNORECASE
)
_CAMEL_CODE = re.compile(r".*[a-z](?:Id|ID|Code|Zip|FIPS)")
_TIMES = "age|date|day|decade|hour|minute|month|period|quarter|season|second|time|trend|week|year|yr"
_TIME_NAME = re.compile(rf"t|y{{2,4}}m{{1,2}}|(?:.*[^a-z])?(?:{_TIMES})s?(?:[^a-z].*)?", re.IGNORECASE)
_CAMEL_TIME = re.compile(rf"(?:.*[a-z])?(?:{_TIMES.title()})s?(?:[A-Z].*)?|(?:{_TIMES})s?[A-Z].*")
_PLACE_NAME = re.compile(r"(?:.*[^a-z])?(?:order|place|position|rank|ranking)(?:[^a-z].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnChoice:
    """A person's choice for a column: number, text or date; None: by its fields."""

    column: int  # in the file
    reads: str | None


def reads_of(path: str, name, choices: list[ColumnChoice], facts: list[ColumnFacts]) -> list[str]:
    """Return what each column is read as: number, text, date, or nothing where it holds gaps only.

    name: of a column in messages, by its index. Raises DataError, which tells all obstacles.
    """
    reads, obstacles = [], []
    for choice in choices:
        found = facts[choice.column]
        wanted = choice.reads or _usual(found)
        reads.append(wanted)
        place = _obstacle(wanted, found)
        if place:
            obstacles.append(_mismatch(name(choice.column), choice.column, wanted, found, place))
    if obstacles:
        more = len(obstacles) - _MOST_OBSTACLES
        rest = [f"and {more} columns more"] if more > 0 else []
        raise DataError(f"{path}, " + "; ".join([*obstacles[:_MOST_OBSTACLES], *rest]))
    return reads


def _usual(found: ColumnFacts) -> str:
    known = found.rows - found.gaps
    if not known:
        return "nothing"
    if found.numbers >= MOSTLY * known or (found.infinite and found.infinite == found.not_number):
        return "number"
    return "date" if found.dates >= MOSTLY * known else "text"


def is_text(codes: np.ndarray, words: list[str]) -> bool:
    """Return whether a column that was read as text is one, by its words; where they are too many, they are text."""
    if len(words) > _MOST_WORDS:
        return True
    numbers = np.array([is_number(word) for word in words], bool)
    if not numbers.any():
        return True
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    return counts[numbers].sum() < MOSTLY * counts.sum()


def may_be_text(found: ColumnFacts) -> bool:
    """Return whether the other fields in a column of numbers may be meant: codes, V57 among 250 and 401.9, or further
    values, >3 among 1, 2 and 3, if they are enough; or marks for a gap."""
    known = found.rows - found.gaps
    others = known - found.numbers
    is_mark = bool(found.not_number) and is_mark_for_gap(found.not_number.text)
    return others <= (1 - MOSTLY) * known and (others >= LEAST_CODES or (others > 0 and is_mark))


def is_meant_as_text(codes: np.ndarray, words: list[str]) -> bool:
    """Return whether a column of numbers and some other words is text, by its words.

    It is one of codes if the others are letters, then digits. Else each of the others must have RARE rows or be a mark
    for a gap, and the words must be few (ONE_HOT), or numbers and words for a gap.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    others = [(word, count) for word, count in zip(words, counts, strict=True) if not is_number(word)]
    if len(others) >= LEAST_CODES and all(_CODE.fullmatch(word) for word, _ in others):
        return True
    if not others or any(count < RARE and not is_mark_for_gap(word) for word, count in others):
        return False
    return len(words) <= ONE_HOT or (all(is_absent(word) for word, _ in others) and way_of_numbers(words) is not None)


def _obstacle(wanted: str, found: ColumnFacts) -> Place | None:
    if wanted == "number":
        return found.infinite or found.not_number
    return found.not_date if wanted == "date" else None


def _mismatch(name: str, column: int, wanted: str, found: ColumnFacts, place: Place) -> str:
    if place is found.infinite and wanted == "number":
        return f'{place.row}, {name}: found "{shortened(place.text)}", expected a finite number; correct it'
    return mismatch(name, column, wanted, place)


def mismatch(name: str, column: int, wanted: str, place: Place) -> str:
    """Return the obstacle of a column, with both cures as a shell takes them."""
    is_named = not name.startswith(f"column {column + 1} of ")
    flag = shlex.quote(in_a_list(name.removeprefix("column "))) if is_named else column
    text = shortened(place.text)
    return (
        f'{place.row}, {name}: found "{text}", expected a {wanted} as in most rows; correct it, take it for a gap '
        f"(--missing {shlex.quote(text)}) or the column for categories (--categories {flag})"
    )


# ---------------------------------------------------------------- columns that tell nothing


def left_out(x: np.ndarray | TableRows, names: list[str] | None, chosen: set[int]) -> dict[int, str]:
    """Return the feature columns that a network should not see, with the reason for each.

    x: all rows; names: of the columns; chosen: columns that a person has said the kind of, which stay.
    """
    found: dict[int, str] = {}
    for index in _worth_a_look(x, names):
        reason = None if index in chosen else _reason(x, index, names)
        if reason:
            found[index] = reason
    return found


def _worth_a_look(x, names: list[str] | None) -> list[int]:
    """Return the columns that may tell nothing; of numbers alone only few are looked at as a whole."""
    if isinstance(x, TableRows):
        return list(range(len(x.kinds)))
    if x.ndim != 2 or x.dtype == np.uint8 or len(x) < 2:
        return []
    first = x[:COUNTED_ROWS].astype(np.float64)
    counting = (np.diff(first, axis=0) == 1).all(axis=0)
    differing = (first == np.floor(first)).all(axis=0) & (np.diff(np.sort(first, axis=0), axis=0) > 0).all(axis=0)
    return [i for i in range(x.shape[1]) if counting[i] or differing[i] or (names and is_id_name(names[i]))]


def _reason(x, index: int, names: list[str] | None) -> str | None:
    values = x.column(index) if isinstance(x, TableRows) else x[:, index]
    kind = x.kinds[index] if isinstance(x, TableRows) else "number"
    if kind == "text":
        return _reason_of_text(values, x.words_of(index))
    if np.isnan(values[0]):
        return "gaps only" if np.isnan(values).all() else None
    if kind == "number" and _counts_up(values) and not (names and is_time_name(names[index])):
        return COUNTERS[0]
    if kind == "number" and names and is_id_name(names[index]) and _are_ids(values, is_code_name(names[index])):
        return COUNTERS[1]
    if kind == "number" and _never_repeat_among_neighbours(values) and not (names and _is_ordinal(names[index])):
        return COUNTERS[1]
    if isinstance(x, TableRows) and (values[:COUNTED_ROWS] == values[0]).all() and (values == values[0]).all():
        return "one value only"
    return None


def _counts_up(values: np.ndarray) -> bool:
    first = values[:COUNTED_ROWS].astype(np.float64)
    if len(first) < COUNTED_ROWS or first[0] != np.floor(first[0]) or (np.diff(first) != 1).any():
        return False
    return bool((np.diff(values.astype(np.float64)) == 1).all())


def _never_repeat_among_neighbours(values: np.ndarray) -> bool:
    """Return whether whole numbers never repeat though LEAST_NEIGHBOURS pairs of them are one apart.

    Of numbers that are drawn from any smooth distribution, half as many pairs are equal as are one apart; that none of
    an expected 6 is, has a chance of exp(-6). Numbers that float32 rounds tell nothing; with a gap they are no ids.
    """
    for rows in (COUNTED_ROWS, _GLANCE_ROWS, len(values)):  # the first ones nearly always tell
        some = values[:rows]
        exact = np.sort(some[some < _EXACT].astype(np.float64))
        steps = np.diff(exact)
        if (exact != np.floor(exact)).any() or (steps == 0).any():
            return False
    return len(exact) >= COUNTED_ROWS and np.count_nonzero(steps == 1) >= LEAST_NEIGHBOURS and bool((values >= 0).all())


def _is_ordinal(name: str) -> bool:
    """Return whether a column's name tells of a time or a place in an order, which never repeats and yet says much."""
    return is_time_name(name) or bool(_PLACE_NAME.fullmatch(name.strip()))


def _are_ids(values: np.ndarray, may_repeat: bool) -> bool:
    """Return whether whole numbers never repeat; or, if they may, nearly all of them are rare."""
    counts = _counts_of_whole(values)
    if counts is None or (may_repeat and len(counts) < COUNTED_ROWS):
        return counts is not None and counts.max() == 1
    return counts.max() == 1 or (may_repeat and counts[counts >= RARE].sum() < _SHARED * counts.sum())


def _counts_of_whole(values: np.ndarray) -> np.ndarray | None:
    """Return how often each number occurs, if all are whole and from 0; None for others, a gap among them."""
    whole = values.astype(np.float64)
    if not ((whole == np.floor(whole)) & (whole >= 0)).all():
        return None
    return np.unique(whole, return_counts=True)[1]


def number_codes(x: np.ndarray | TableRows, names: list[str] | None, chosen: set[int]) -> list[int]:
    """Return the columns of whole numbers that are called ids or codes and repeat: the numbers are names of something.

    x, names, chosen: as in left_out. Two different numbers are as good as yes and no.
    """
    if not names or (not isinstance(x, TableRows) and (x.ndim != 2 or x.dtype == np.uint8)):
        return []
    found = []
    for index in (i for i, name in enumerate(names) if i not in chosen and is_code_name(name)):
        is_number = not isinstance(x, TableRows) or x.kinds[index] == "number"
        values = x.column(index) if isinstance(x, TableRows) else x[:, index]
        counts = _counts_of_whole(values[~np.isnan(values)]) if is_number else None
        if counts is not None and len(counts) > 2 and counts[counts >= RARE].sum() >= _SHARED * counts.sum():
            found.append(index)
    return found


def may_be_dates(x: np.ndarray | TableRows, names: list[str] | None, chosen: set[int]) -> list[int]:
    """Return the columns of whole numbers that look like days, 20150314, or like months, 201503, if their names tell of
    a time. The last digit may be wrong by one, as float32 rounds. x, names, chosen: as in left_out."""
    if isinstance(x, TableRows):
        columns = {i: x.column(i) for i, kind in enumerate(x.kinds) if kind == "number"}
    elif x.ndim == 2 and len(x) and x.dtype != np.uint8:
        columns = {i: x[:, i] for i in np.flatnonzero(x[0] >= _MONTHS[0]).tolist()}
    else:
        return []
    found = []
    for index, values in columns.items():
        if index in chosen or values[0] < _MONTHS[0]:
            continue
        is_time = names is not None and is_time_name(names[index])
        if _fit_dates(values[:COUNTED_ROWS], is_time) and _fit_dates(values, is_time):
            known = values[~np.isnan(values)]
            if len(np.unique(known)) >= LEAST_DATES:
                found.append(index)
    return found


def _fit_dates(values: np.ndarray, are_times: bool) -> bool:
    """Return whether all values but gaps fit days, or months where they are times."""
    known = values[~np.isnan(values)].astype(np.float64)
    if not len(known):
        return True
    low, high = known.min(), known.max()
    if _DAYS[0] <= low and high <= _DAYS[1] + 1:
        months, days = known // 100 % 100, known % 100
    elif are_times and _MONTHS[0] <= low and high <= _MONTHS[1]:
        months, days = known % 100, np.ones(1)
    else:
        return False
    return bool((known == np.floor(known)).all() and ((months >= 1) & (months <= 12)).all() and (days <= 32).all())


def better_than_nothing(useless: dict[int, str], names: list[str] | None) -> set[int]:
    """Return, of columns that all tell nothing, those that count the rows or are ids: the named ones, if there are."""
    counters = {i for i, why in useless.items() if why in COUNTERS}
    return {i for i in counters if names and not is_id_name(names[i])} or counters


def _reason_of_text(codes: np.ndarray, words: list[str]) -> str | None:
    first = codes[:_GLANCE_ROWS]
    known = np.count_nonzero(first >= 0)
    if known - RARE * len(words) >= _SHARED * known and (first != first[0]).any():
        return None  # the first rows alone are too many for so few words to be names
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    used = np.flatnonzero(counts)
    counts, known = counts[used], counts.sum()
    if not known:
        return "gaps only"
    if len(used) == 1 and known == len(codes):
        return "one value only"
    is_shared = counts[counts >= least_rows(counts)].sum() >= _SHARED * known
    if len(used) <= 2 or is_shared or are_written([words[i] for i in used]):
        return None
    return _DIFFERS if np.count_nonzero(counts == 1) >= (1 - _SHARED) * known else _ARE_RARE


def is_id_name(name: str) -> bool:
    """Return whether a column is called id, index, No or nothing, by itself or as the last word of its name; or the
    names or numbers of the rows, as R calls them."""
    return bool(_ID_NAME.fullmatch(name.strip()) or _CAMEL_ID.fullmatch(name.strip()))


def is_code_name(name: str) -> bool:
    """Return whether a column is called id or code, or zip or FIPS, by itself or as the last word of its name."""
    return bool(_CODE_NAME.fullmatch(name.strip()) or _CAMEL_CODE.fullmatch(name.strip()))


def is_time_name(name: str) -> bool:
    """Return whether a word in a column's name is that of a time, or all of it as YYYYMM, which tells something though
    it counts the rows."""
    return bool(_TIME_NAME.fullmatch(name.strip()) or _CAMEL_TIME.fullmatch(name.strip()))
