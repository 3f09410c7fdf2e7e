"""The one form of a table: columns, each of numbers with gaps, codes with words, or
dates; and what a format offers.

A field is the text that it is in a CSV file: a number its shortest decimal, a truth
True or False, a date ISO 8601, a null nothing. So any format gives the same columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ..core import extension
from ..utils import cut_line

TRUTHS = {  # yes/no words, in any case, and what they mean
    "true": True,
    "yes": True,
    "y": True,
    "t": True,
    "false": False,
    "no": False,
    "n": False,
    "f": False,
}
# of models that name none
FORMER_GAPS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
_SPREADSHEET_ERRORS = (
    "#N/A",
    "#N/A N/A",
    "#NA",
    "#DIV/0!",
    "#VALUE!",
    "#REF!",
    "#NAME?",
    "#NUM!",
    "#NULL!",
    "#SPILL!",
    "#CALC!",
    "#FIELD!",
    "#BLOCKED!",
    "#CONNECT!",
    "#BUSY!",
    "#UNKNOWN!",
    "#ERROR!",
    "#GETTING_DATA",
)
_NO_NUMBERS = (  # as pandas, and the printf of C, write them
    "NAN",
    "-nan",
    "-NaN",
    "-NAN",
    "+nan",
    "+NaN",
    "nan(ind)",
    "-nan(ind)",
    "nan(snan)",
    "1.#IND",
    "-1.#IND",
    "1.#QNAN",
    "-1.#QNAN",
    "1.#SNAN",
)
_NULL_WORDS = "n/a", "N/a", "<NA>", "<na>", "Null", "NaT"
# for a gap
GAPS = FORMER_GAPS.union(
    _SPREADSHEET_ERRORS, map(str.lower, _SPREADSHEET_ERRORS), _NO_NUMBERS, _NULL_WORDS
)
# share of a column's known fields that are numbers, or dates, for the column to be one
# of them
MOSTLY = 0.95
MAX_WORDS = (1 << 24) - 1  # different texts in one column
OTHERS = "..."  # odd words of a column beyond those that are kept apart
_LONGEST_SHOWN = 40  # characters of a field in a message
CLASS_NAME = "None"  # a word for a gap that is the name of a class in a target of words
# a whole number with zeros before it, as codes have them
_PADDED_NUMBER = re.compile(r"[-+]?0\d+", re.ASCII)
# the largest share of a column's range that may be lost to rounding to float32
_COARSE = 1e-4


@dataclass
class Odd:
    """The rows in which one odd word stands among numbers or dates: how many, and the
    index of the first one."""

    rows: int
    first_row: int


@dataclass(eq=False)
class Column:
    """The fields of one column.

    reads: number, text or date. values (rows,): numbers, float32 or float64, a gap nan;
    int32 indices into `words`, a gap -1; or float64 seconds since 1970-01-01, a gap
    nan. odd: the words among numbers or dates that are neither, nor words for a gap
    (infinite numbers are among them); their fields are gaps. low, high: of numbers,
    before any rounding to float32. gaps: of a target, the rows of each word that is a
    gap, as far as they are known. given: the type in which Python or a typed format has
    the fields, a name of LABEL_TYPES; None: texts, or several types.
    """

    reads: str
    values: np.ndarray
    words: list[str] = field(default_factory=list)
    odd: dict[str, Odd] = field(default_factory=dict)
    low: float = math.inf
    high: float = -math.inf
    gaps: dict[str, int] = field(default_factory=dict)
    given: str | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_gap(self) -> np.ndarray:
        """Return which fields are gaps (rows,), odd words among them."""
        if self.reads == "text":
            return self.values < 0
        return np.isnan(self.values)

    def texts(self) -> list[str]:
        """Return the texts of all fields, of a gap an empty one."""
        words = [*self.words, ""]
        return [words[code] for code in self.values.tolist()]

    def is_mostly_right(self) -> bool:
        """Return whether MOSTLY of the known fields are what the column was read as,
        and no odd words."""
        odd = sum(count.rows for count in self.odd.values())
        right = len(self) - np.count_nonzero(self.is_gap)
        return right / (odd + right) >= MOSTLY

    @cached_property
    def word_rows(self) -> np.ndarray:
        """How many rows have each word (words,)."""
        return np.bincount(self.values + 1, minlength=len(self.words) + 1)[1:]

    def counts(self) -> dict[str, int]:
        """Return the rows of each text that occurs."""
        pairs = zip(self.words, self.word_rows.tolist(), strict=True)
        return {word: rows for word, rows in pairs if rows}

    def with_words(self, words: list[str]) -> Column:
        """Return the same texts in other words, of which several may be one."""
        places = {word: place for place, word in enumerate(dict.fromkeys(words))}
        codes = np.array([*map(places.get, words), -1], np.int32)
        return Column("text", codes[self.values], list(places))


class Selection(NamedTuple):
    """The columns of a table that are read, and how.

    reads: by the place of a column in the file, from 0: number, text, date, or None, as
    its fields are (`settled`); other columns are not read and may hold anything. exact:
    columns of numbers that are kept apart in float64 (targets, weights, times). raw:
    columns of text in which the words for a gap are words (ids). pure: targets, columns
    that are numbers, or dates, only where all of their fields are; `target_column` says
    which of their words are gaps. missing: words for a gap; without the empty word an
    empty field is an odd word. names: those of them that a target of words may have as
    classes. dtype: of the numbers; all are float64 where float32 would blur one column,
    unless it is_fixed.
    """

    reads: dict[int, str | None]
    exact: frozenset[int] = frozenset()
    raw: frozenset[int] = frozenset()
    pure: frozenset[int] = frozenset()
    missing: frozenset[str] = GAPS
    dtype: str = "float32"
    names: frozenset[str] = frozenset()
    is_fixed: bool = False

    def dtype_of(self, low, high) -> str:
        """Return the type of numbers between these bounds, each those of a column."""
        if self.is_fixed or not is_coarse(low, high):
            return self.dtype
        return "float64"


@dataclass(eq=False)
class Span:
    """Rows of one file that follow each other in a table."""

    at: int  # index of the first one in the table
    line: int  # its line in the file
    path: str | None = None  # None: the only file
    has_lines: bool = True  # without blank ones in between


@dataclass
class Table:
    """The rows of a table in the columns that were asked for.

    columns: by their places in the file. numbers (rows, number_places): C-contiguous;
    the values of the columns of numbers at these places, all but the exact ones, are
    views of it; number_places ascend. spans: how messages call the rows. sha256: of the
    files' bytes, or what takes it later; None where there are no files.
    """

    columns: dict[int, Column]
    numbers: np.ndarray
    number_places: list[int]
    spans: list[Span]
    sha256: object = None  # str, source.Files or None
    repeats: int = 0  # rows that were left out as they repeat the names of the columns
    kept: np.ndarray | None = None  # indices among the rows that were read; None: all

    def __len__(self) -> int:
        return len(self.numbers)

    def row(self, index: int) -> str:
        """Return how messages call a row: by its line in the file, counted from 1
        (unknown behind a blank line)."""
        if self.kept is not None:
            index = self.kept[index]
        span = [span for span in self.spans if span.at <= index][-1]
        after = index - span.at
        if span.has_lines:
            place = f"row {span.line + after}"
        else:
            place = f"data row {1 + after}"
        if span.path is None:
            return place
        return f"{place} of {span.path}"


@np.errstate(over="ignore")
def is_coarse(low, high) -> bool:
    """Return whether float32, off by up to 2^-24, would blur a column between these
    bounds, or one of several."""
    low = np.asarray(low, np.float64)
    high = np.asarray(high, np.float64)
    size = np.maximum(np.abs(low), np.abs(high))
    return bool(((high > low) & (size * 2.0**-24 > _COARSE * (high - low))).any())


def decimals(values: np.ndarray, dtype: str = "float64") -> np.ndarray:
    """Return numbers in a type from which `dtype` rounds to what it rounds their
    shortest decimals to."""
    if values.dtype.kind != "f" or values.dtype.newbyteorder("=") in (dtype, "float64"):
        return values
    different, which = np.unique(values, return_inverse=True)
    shortest = np.array([float(str(value)) for value in different])
    return shortest[which.reshape(values.shape)]


@np.errstate(over="ignore")  # what float32 cannot hold is infinite, and refused
def in_type(values: np.ndarray, dtype) -> np.ndarray:
    """Return numbers, (rows,) or (rows, columns), in a type, float32 or float64: what
    their shortest decimals are."""
    if values.dtype.kind == "f" and values.dtype.itemsize < np.dtype(dtype).itemsize:
        values = decimals(values, np.dtype(dtype).name)
    return values.astype(dtype, copy=False)


def are_names(names: list[str] | None) -> bool:
    """Return whether a row of these texts names columns, and cannot be one of
    numbers."""
    return any(name and number_in(name) is None for name in names or ())


# standard deviations from the mean in which the values of a column are taken to lie
_REACH = 3.0


def blurs(shift: np.ndarray, scale: np.ndarray) -> bool:
    """Return whether float32 would blur a column with one of these means and
    deviations."""
    varies = np.isfinite(scale) & (scale > 0)
    middle = shift[varies]
    reach = _REACH * scale[varies]
    return is_coarse(middle - reach, middle + reach)


# ---------------------------------------------------------------- what a text is

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# what text of a file is where it is no UTF-8; LATIN for earlier models
WINDOWS = "windows-1252"
LATIN = "latin-1"
CODE_PAGES = WINDOWS, LATIN
_WINDOWS_AT = {
    byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0xA0)
}
_BYTE_OF_WINDOWS = {ord(character): byte for byte, character in _WINDOWS_AT.items()}


def decoded(text: bytes, code_page: str = WINDOWS) -> str:
    """Return the text of bytes: UTF-8 or, where they are no UTF-8, of the code page.

    The five bytes that Windows-1252 leaves open are the control characters of Latin-1,
    as browsers have it.
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        characters = text.decode("latin-1")
    if code_page == WINDOWS:
        return characters.translate(_WINDOWS_AT)
    return characters


def encodings_of(text: str, code_page: str = WINDOWS) -> list[bytes]:
    """Return the bytes for which `decoded` gives a text."""
    encodings = [text.encode(errors="surrogatepass")]
    characters = text.translate(_BYTE_OF_WINDOWS) if code_page == WINDOWS else text
    in_code_page = characters.encode("latin-1", "ignore")
    if in_code_page not in encodings and decoded(in_code_page, code_page) == text:
        encodings.append(in_code_page)
    return encodings


def unicode_text(text: str) -> str:
    """Return a text as any file can hold it: half of a surrogate pair is written out,
    as \\udcff."""
    return text.encode(errors="backslashreplace").decode()


def shortened(text: str) -> str:
    """Return a field as messages show it: short, and on one line."""
    return cut_line(text, _LONGEST_SHOWN)


def number_in(text: str, point: str = ".") -> float | None:
    """Return the number that a text is, None if it is none or too large for one. point:
    before its decimals."""
    if (
        not (text[-1:].isdecimal() or text[-1:] == point)
        or "_" in text
        or not text.isascii()
    ):
        return None
    if text[0].isalpha() or (point != "." and "." in text):
        return None
    try:
        number = float(text.replace(point, "."))
    except ValueError:
        return None
    if math.isinf(number):
        return None
    return number


def is_not_finite(text: str) -> bool:
    """Return whether a text reads as a number that is infinite, or none (nan)."""
    try:
        return text.strip("+-")[:1].isalnum() and not math.isfinite(float(text))
    except ValueError:
        return False


def date_in(text: str) -> float | None:
    """Return the seconds since 1970-01-01 of the date in ISO 8601 that a text is, None
    if it is none."""
    if not (text[:4].isdecimal() and text[4:5] in ("-", "/")):
        return None
    ffi, lib = extension("seq")  # here: who makes a network of no table does without it
    raw = text.encode()
    seconds = ffi.new("double *")
    if lib.csv_date(seconds, raw, len(raw)):
        return seconds[0]
    return None


def number_text(value) -> str:
    """Return a number's shortest decimal, a whole number without a point."""
    if isinstance(value, (int, np.integer)) or not math.isfinite(value):
        return str(value)
    text = str(value)
    if "e" not in text:
        return text.removesuffix(".0")
    return text


def decimal_text(text: str) -> str:
    """Return a number as formats with typed columns have it, 1 for 1.0, 1e0 and 01;
    else the text itself."""
    number = number_in(text)
    if number is None:
        return text
    # one zero
    if text.lstrip("+-").isdecimal():
        return str(int(text))
    return number_text(number + 0.0)


# ---------------------------------------------------------------- targets


def _truth_in(name: str) -> bool:
    return {"True": True, "False": False}[name]


# kind of a dtype -> name of LABEL_TYPES
TYPES_OF_NUMPY = {"i": "int", "u": "int", "f": "float", "b": "bool"}
# of classes -> a name's value
LABEL_TYPES = {"int": int, "float": float, "bool": _truth_in}


def labels_of(names: list[str], label_type: str | None) -> np.ndarray:
    """Return the classes of these names in their type; as texts where there is none.
    ValueError: a name has no such value."""
    if label_type is None:
        return np.array(names)
    try:
        return np.array([LABEL_TYPES[label_type](name) for name in names])
    except KeyError:
        raise ValueError(label_type) from None


def is_target_gap(word: str, missing: frozenset[str]) -> bool:
    """Return whether a word is a gap in a target: one of those that are missing, and
    the usual ones among them but CLASS_NAME in any case of letters."""
    return word in missing or word.casefold() in _in_small_letters(missing)


@lru_cache(16)
def _in_small_letters(missing: frozenset[str]) -> frozenset[str]:
    return frozenset(gap.casefold() for gap in missing & GAPS if gap != CLASS_NAME)


def is_code(word: str) -> bool:
    """Return whether a word is a whole number with zeros before it: 01 is another label
    than 1."""
    return _PADDED_NUMBER.fullmatch(word) is not None


def target_column(
    column: Column, selection: Selection, kind: str | None, point: str = "."
) -> Column:
    """Return a column of pure fields without its words for a gap: as the numbers, or
    dates, that all others are, unless there are codes among them; else as texts. kind:
    text, or None for what the words are.

    A word that may be the name of a class is a gap where no other word is a text.
    """
    if column.reads != "text":
        odd = {
            word: count
            for word, count in column.odd.items()
            if not is_target_gap(word, selection.missing)
        }
        return replace(column, odd=odd)
    counts = column.counts()
    unnamed = [word for word in counts if word not in selection.names]
    gaps = {word for word in unnamed if is_target_gap(word, selection.missing)}
    known_words = [word for word in unnamed if word not in gaps]
    are_numbers = all(number_in(word, point) is not None for word in known_words)
    if kind is None and are_numbers:
        gaps |= selection.names & counts.keys()
    target = without_words(column, gaps)
    if kind is None and not (are_numbers and any(map(is_code, known_words))):
        gap_rows = target.gaps
        target = settled(target, None, point, is_pure=True)
        target.gaps = gap_rows
    return target


def words_that_occur(
    codes: np.ndarray, words: list[str]
) -> tuple[np.ndarray, list[str]]:
    """Return (the codes of some rows, the words that occur in them) in the order of
    their first rows; a gap, -1, stays."""
    different, first_rows = np.unique(codes, return_index=True)
    order = different[np.argsort(first_rows)]
    order = order[order >= 0].tolist()
    new_codes = np.full(len(words) + 1, -1, np.int32)
    new_codes[order] = np.arange(len(order))
    return new_codes[codes], [words[code] for code in order]


def without_words(column: Column, words: Collection[str]) -> Column:
    """Return a column of texts in which these words are gaps, which its `gaps` counts,
    with the fields that were."""
    counts = column.counts()
    gaps = {word: rows for word, rows in counts.items() if word in words}
    empty = np.count_nonzero(column.values < 0) - sum(column.gaps.values())
    if empty:
        gaps[""] = gaps.get("", 0) + empty
    kept = [word for word in column.words if word not in gaps]
    places = {word: place for place, word in enumerate(kept)}
    codes = np.array([*(places.get(word, -1) for word in column.words), -1], np.int32)
    return Column("text", codes[column.values], kept, gaps={**column.gaps, **gaps})


# ------------------------------------------------------------ what a column of texts is

_GLANCE = 1 << 10  # words that rule out most columns
VALUE_IN = {
    "number": number_in,
    "date": lambda text, point=".": date_in(text),
}


def settled(
    column: Column, kind: str | None, point: str = ".", is_pure: bool = False
) -> Column:
    """Convert a text column to numbers or dates if (nearly) all its words are such;
    else return it unchanged.

    kind: number or date, which it is whatever its words are, text, or None: a number,
    or a date, if MOSTLY of the fields that are no gaps are, all of them with is_pure;
    infinite numbers, which are odd ones, count.
    """
    if column.reads != "text" or kind == "text":
        return column
    least = 1.0 if is_pure else MOSTLY
    for reads, value_in in VALUE_IN.items():
        is_so = kind == reads
        if kind is None and _share_of(column, reads, point, _GLANCE) >= least / 2:
            is_so = _share_of(column, reads, point) >= least
        if is_so:
            values = [value_in(word, point) for word in column.words]
            return valued(column, reads, np.array([*values, None], np.float64))
    return column


def _share_of(
    column: Column, reads: str, point: str, words: int | None = None
) -> float:
    """Return the share of the rows whose word is a number, infinite ones too, or a
    date. words: how many of the first ones are looked at; None: all."""
    rows = column.word_rows[:words]
    value_in = VALUE_IN[reads]
    is_right = []
    for word in column.words[:words]:
        is_value = value_in(word, point) is not None
        is_right.append(is_value or (reads == "number" and is_not_finite(word)))
    if rows.any():
        return rows[is_right].sum() / rows.sum()
    return 0.0


def valued(column: Column, reads: str, values_of_words: np.ndarray) -> Column:
    """Return a column of texts as the values of its words, nan for an odd one and, at
    the end, for a gap."""
    values = values_of_words[column.values]
    if np.isfinite(values).any():
        bounds = (np.nanmin(values), np.nanmax(values))
    else:
        bounds = (math.inf, -math.inf)
    return Column(
        reads, values, [], odd_words(column, values_of_words), *map(float, bounds)
    )


def odd_words(column: Column, values_of_words: np.ndarray) -> dict[str, Odd]:
    """Return the words that have no value, nan, as odd ones, in the order of their
    first rows."""
    rows = np.flatnonzero(
        np.isnan(values_of_words)[column.values] & (column.values >= 0)
    )
    codes, first_rows, counts = np.unique(
        column.values[rows], return_index=True, return_counts=True
    )
    return {
        column.words[codes[i]]: Odd(int(counts[i]), int(rows[first_rows[i]]))
        for i in np.argsort(first_rows)
    }


def as_text(column: Column) -> Column:
    """Return a column of numbers or dates as the texts that they are, numbers as their
    shortest decimals."""
    if column.reads == "text":
        return column
    different, codes = np.unique(column.values, return_inverse=True)
    codes = codes.astype(np.int32)
    codes[np.isnan(column.values)] = -1
    write = number_text if column.reads == "number" else _date_text
    return Column("text", codes, list(map(write, different[~np.isnan(different)])))


def _date_text(seconds: float) -> str:
    """Return a date as text, at midnight without the time."""
    text = str(np.datetime64(round(seconds * 1e6), "us")).replace("T", " ")
    return text.rstrip("0").rstrip(".").removesuffix(" 00:00:00")
