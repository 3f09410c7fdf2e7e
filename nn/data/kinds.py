"""Kinds of feature columns: what each is to a network, by its fields and by what a person says of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from ..utils import DataError, UsageError
from .column import TRUTHS, Column, number_in, settled
from .written import DIRECTIVES, EITHER, FORMS, EitherFirst, UnknownForm, form_of, way_of_dates, way_of_numbers

ONE_HOT = 16  # values of a category up to which each has an input of its own; more are embedded
RARE = 5  # rows below which a value shares a slot with those never seen, see least_rows
_SHARED = 0.2  # share of the rows whose text occurs often enough (least_rows), below which a column is one of names
_WORDS = re.compile(r'(?:^|,) *(?:"((?:[^"]|"")*)")?([^,]*)')  # of a list with commas
_LONGEST = 40  # characters of a field in a message
_DIFFERS, _ARE_RARE = "nearly every value differs", f"nearly every value has fewer than {RARE} rows"


@dataclass(frozen=True)
class Kind:
    """Kind of a feature column: a name of ENCODERS, and what the encoder has to know.

    reads: number, text or date, what it is read as; a column of texts may become that by `settled`. way, before,
    behind: of written numbers, see WrittenNumbers; way: of written dates, see pattern_of. order: of ordered texts, from
    the least. decimals: 1, 1.0 and 1e0 are one category.
    """

    kind: str
    reads: str
    way: str = ""
    before: str = ""
    behind: str = ""
    order: list[str] = field(default_factory=list)
    decimals: bool = False


NUMBER = Kind("number", "number")


@dataclass(frozen=True)
class Choice:
    """A person's choice for a column: number, category, date or ordered.

    form: of the dates, see pattern_of; None: as most of them are. order: of ordered texts, from the least.
    """

    kind: str
    form: str | None = None
    order: tuple[str, ...] | None = None

    @property
    def reads(self) -> str | None:
        """Return what the column is read as (Wanted.reads), before kind_of tells what it is."""
        return None if self.kind == "number" else "text"


def kind_of(column: Column, choice: Choice | None, name: str) -> Kind:
    """Return what a column is. name: how messages call it. Raises DataError for dates whose form must be asked for."""
    asked = choice.kind if choice else None
    if column.reads != "text":
        return Kind(column.reads, column.reads)
    if asked == "ordered":
        return Kind("ordered", "text", order=list(choice.order))
    words, rows = _words_and_rows(column)
    if asked == "category":
        return Kind("category", "text", decimals=bool(words) and all(number_in(word) is not None for word in words))
    if asked == "date" and choice.form:
        return Kind("written date", "text", way=choice.form)
    if asked and settled(column, None).reads == asked:
        return Kind(asked, asked)
    if not asked and words and sum(rows) == len(column) and all(word.lower() in TRUTHS for word in words):
        return Kind("yes/no", "text")
    if asked != "date" and (numbers := way_of_numbers(words, rows, asked=bool(asked))):
        return Kind("written number", "text", **vars(numbers))
    if asked != "number" and (form := _form_of_dates(words, rows, bool(asked), name)):
        return Kind("written date", "text", way=form)
    return Kind(asked, asked) if asked else Kind("category", "text")


def _form_of_dates(words: list[str], rows: list[int], asked: bool, name: str) -> str | None:
    """Return way_of_dates. Raises DataError with both cures, as a shell takes them, where that raises EitherFirst."""
    try:
        return way_of_dates(words, rows, asked)
    except EitherFirst as error:
        without_header = re.fullmatch(r"column (\d+) of \d+", name)
        column = str(int(without_header[1]) - 1) if without_header else name.removeprefix("column ")
        choices = [in_a_list(f"{column}={FORMS[form][0]}") for form in reversed(EITHER)]
        cures = " or ".join(f"--dates {shlex.quote(choice)}" for choice in choices)
        word = str(error)[:_LONGEST]
        raise DataError(
            f'{name}: found "{word}", and no date tells which is the day and which the month; add {cures}'
        ) from None


def reason_to_leave_out(column: Column, kind: Kind) -> str | None:
    """Return why a network should not see a column of texts: gaps, one value, or names, nearly all of which differ."""
    rows = np.array(_words_and_rows(column)[1], np.int64)
    known = rows.sum()
    if not known:
        return "gaps only"
    if len(rows) == 1 and known == len(column):
        return "one value only"
    is_shared = rows[rows >= least_rows(rows)].sum() >= _SHARED * known
    if len(rows) <= 2 or is_shared or kind.kind != "category":
        return None
    return _DIFFERS if np.count_nonzero(rows == 1) >= (1 - _SHARED) * known else _ARE_RARE


def least_rows(counts: Collection[int]) -> int:
    """Return the rows that a value of a column needs for a slot of its own. counts: the rows of each value.

    RARE; but in a small table, where few values have fewer than 2 RARE rows each on average, two: each level of a
    factor comes again, and one shared slot would hide them all, in a fold at the latest.
    """
    is_small = len(counts) <= ONE_HOT and sum(counts) < 2 * RARE * len(counts)
    return 2 if is_small else RARE


def _words_and_rows(column: Column) -> tuple[list[str], list[int]]:
    """Return the different texts that occur, and how many rows have each."""
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.words)).tolist()
    found = [(word, count) for word, count in zip(column.words, counts, strict=True) if count]
    return [word for word, _ in found], [count for _, count in found]


# ---------------------------------------------------------------- what a person says


def parse_choices(
    categories: str | None = None,
    numbers: str | None = None,
    dates: str | None = None,
    ordered: str | None = None,
    names: Collection[str] = (),
) -> list[tuple[str, Choice]]:
    """Return each column, by its name or index as it was written, with what these flags say of it. Raises UsageError.

    Each is a list with commas, see split_names; dates: COL or COL=FORMAT; ordered: COL=LOW<...<HIGH. names: of the
    table's columns; a text that is one of them is no list.
    """
    plain = [("category", categories), ("number", numbers)]
    found = [(word, Choice(kind)) for kind, text in plain for word in _words(text, names)]
    found += [_choice_of_dates(word, names) for word in _words(dates, names)]
    return found + [_choice_of_order(word) for word in _words(ordered, names)]


def split_names(text: str | int | None) -> list[str]:
    """Return the words of a list with commas, in which a word with a comma is quoted as in CSV; an index is a word."""
    found = _WORDS.findall(str(text)) if text not in (None, "") else []
    return [quoted.replace('""', '"') + plain.strip() for quoted, plain in found]


def in_a_list(name: str) -> str:
    """Return a name as a word of such a list."""
    plain = split_names(name) == [name]
    return name if plain else '"' + name.replace('"', '""') + '"'


def _words(text: str | int | None, names: Collection[str]) -> list[str]:
    return [text] if text in names else split_names(text)


def _choice_of_dates(word: str, names: Collection[str]) -> tuple[str, Choice]:
    column, is_given, form = word.rpartition("=")
    if not is_given or word in names:
        return word, Choice("date")
    try:
        return column.strip(), Choice("date", form_of(form.strip()))
    except UnknownForm:
        parts = " ".join(f"%{letter}" for letter in DIRECTIVES)
        raise UsageError(f"--dates {word}: expected COLUMN=FORMAT, as day=%d.%m.%Y, of {parts}, each once") from None


def _choice_of_order(word: str) -> tuple[str, Choice]:
    column, _, texts = word.partition("=")
    order = tuple(text.strip() for text in texts.split("<"))
    if len(order) < 2 or len({*order}) < len(order) or "" in (column, *order):
        raise UsageError(f"--ordered {word}: expected COLUMN=LOW<...<HIGH with two or more words, as size=S<M<L")
    return column.strip(), Choice("ordered", order=order)
