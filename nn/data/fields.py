"""Fields that are not what their column is: gaps, odd words, numbers out of range; the
sentences for all formats."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..settings.values import in_a_list
from ..utils import DataError, plural
from .column import MOSTLY, OTHERS, Column, Odd, Table, is_not_finite, shortened
from .schema import Places, Schema
from .source import TableSource
from .written import DIGIT

_MOST_TOLD = 20  # columns in a message
_EXAMPLES = 3  # of odd words in a remark
# fields, none of which is a number, that show a column to be another one than a model's
_ENOUGH = 10

# --------------------------------------------------------------------------- odd words


def odd_remarks(
    source: TableSource,
    table: Table,
    columns: dict[int, Column],
    places: Places,
    schema: Schema,
    kinds: Sequence,
) -> list[str]:
    """Return a line for each column with odd words, which are taken for gaps. Raises
    DataError for what cannot be.

    kinds: of the columns, or a model's encoders of them.
    """
    remarks = []
    refusals = []
    follows_model = schema.follows_model
    for (place, column), kind in zip(columns.items(), kinds, strict=True):
        _check_finite(source, table, place, column)
        if schema.is_numeric:
            check_numbers(source, table, place, may_lack=not schema.needs_all)
        elif column.odd:
            is_chosen = place in places.choices
            if schema.choices.strict or _is_another_column(
                column, follows_model, is_chosen
            ):
                words = _with_digits(column.odd, follows_model) or column.odd
                refusals.append(
                    _refusal(source, table, place, kind, words, follows_model)
                )
            else:
                remarks.append(_remark(source, place, kind, column.odd, follows_model))
    if refusals:
        messages = refusals[:_MOST_TOLD]
        if len(refusals) > _MOST_TOLD:
            messages.append(f"and {plural(len(refusals) - _MOST_TOLD, 'column')} more")
        raise DataError(f"{source.path}, {'; '.join(messages)}")
    return remarks


def _is_another_column(column: Column, follows_model: bool, is_chosen: bool) -> bool:
    """Return whether a column with odd words is another one than a model was trained
    with, or is written in another way; or, without a model, is not of the kind that a
    person chose."""
    odd_rows = _rows_of(column.odd)
    right_rows = int(np.count_nonzero(~column.is_gap))
    if column.reads == "text":  # odd words are no gaps there
        right_rows -= odd_rows
    if follows_model:
        is_much = odd_rows >= _ENOUGH or _with_digits(column.odd, follows_model)
        return right_rows == 0 and is_much
    return is_chosen and odd_rows > (1 - MOSTLY) * (odd_rows + right_rows)


def _with_digits(odd: dict[str, Odd], follows_model: bool) -> dict[str, Odd]:
    """Return the odd words that a model's values written in another way may be: those
    with digits; none without a model."""
    if not follows_model:
        return {}
    return {word: count for word, count in odd.items() if DIGIT.search(word)}


def _rows_of(odd: dict[str, Odd]) -> int:
    return sum(count.rows for count in odd.values())


def _example(word: str, rows: int) -> str:
    """Return an odd word as a message shows it, with how many rows have it."""
    if rows == 1:
        return f'"{shortened(word)}"'
    return f'"{shortened(word)}" ({rows})'


def _refusal(
    source: TableSource,
    table: Table,
    place: int,
    kind,
    odd: dict[str, Odd],
    follows_model: bool,
) -> str:
    """Return what is wrong with a column, with the cures as a shell takes them."""
    word, field = first_odd(source, table, place, odd)
    message = f"{field}, expected {_value_of(kind)} as in"
    if follows_model:
        return f"{message} training; correct it, or write the column so"
    missing = shlex.quote(shortened(word))
    return (
        f"{message} most rows; correct it, take it for a gap (--missing {missing}) "
        f"or the column for categories (--categories {_flag(source, place)})"
    )


def first_odd(
    source: TableSource, table: Table, place: int, odd: dict[str, Odd]
) -> tuple[str, str]:
    """Return the first odd word, and where it was found; words of numbers and dates
    count all rows that were read."""
    word = min(odd, key=lambda word: odd[word].first_row)
    if table.columns[place].reads != "text":
        table = replace(table, kept=None)
    row = table.row(odd[word].first_row)
    return word, f'{row}, {source.column(place)}: found "{shortened(word)}"'


def _flag(source: TableSource, place: int) -> str:
    """Return a column as a flag names it in a shell."""
    if source.names and source.names[place]:
        return shlex.quote(in_a_list(source.names[place]))
    return str(place)


def _remark(
    source: TableSource, place: int, kind, odd: dict[str, Odd], follows_model: bool
) -> str:
    """Return the line about a column whose odd words are taken for gaps."""
    words = [word for word in odd if word != OTHERS][:_EXAMPLES]
    examples = [_example(word, odd[word].rows) for word in words]
    if len(odd) > len(words):
        examples.append("...")
    rows = _rows_of(odd)
    if rows > 1:
        values = f"{rows} values that are {_no_value_of(kind)} are"
        it = "them"
    else:
        values = f"1 value that is {_no_value_of(kind)} is"
        it = "it"
    remark = f"{source.column(place)}: {values} taken for a gap: {', '.join(examples)}"
    if follows_model:
        return remark
    if kind.kind == "ordered":
        alternative = f"add {it} to --ordered"
    else:
        alternative = f"use --categories {_flag(source, place)}"
    return f"{remark}; correct {it}, or {alternative}; --strict refuses {it}"


def _value_of(kind) -> str:
    """Return what messages call a value of a column of this kind."""
    if kind.kind == "ordered":
        return f"one of {kind.written}"
    if kind.kind == "yes/no":
        return "yes or no, true or false, 1 or 0"
    noun = kind.kind.removeprefix("written ")
    if kind.written:
        return f"a {noun} written as {kind.written}"
    return f"a {noun}"


def _no_value_of(kind) -> str:
    """Return what messages call another word in a column of this kind."""
    if kind.kind == "ordered":
        return f"none of {kind.written}"
    if kind.kind == "yes/no":
        return "neither yes nor no"
    return f"no {kind.kind.removeprefix('written ')}"


# ---------------------------------------------------------------- fields that cannot be


def _check_finite(
    source: TableSource, table: Table, place: int, column: Column
) -> None:
    """Raise DataError for an infinite number, and for one that float32 takes for
    infinite."""
    infinite = {w: count for w, count in column.odd.items() if is_not_finite(w)}
    if infinite:
        field = first_odd(source, table, place, infinite)[1]
        raise DataError(f"{source.path}, {field}, expected a finite number; correct it")
    if max(column.high, -column.low) <= 3.4e38:
        return
    is_infinite = np.isinf(column.values)
    if not is_infinite.any():
        return
    row = np.argmax(is_infinite)
    number = column.high if column.values[row] > 0 else column.low
    raise DataError(
        f'{place_of(source, table, row, place)}: found "{number:g}", '
        f"expected at most 3.4e38 for float32; correct it or use --dtype float64"
    )


def check_numbers(
    source: TableSource, table: Table, place: int, *, may_lack: bool = False
) -> None:
    """Raise DataError for the first odd word, or else the first gap, of a column where
    every field must be a number. may_lack: gaps are allowed."""
    column = table.columns[place]
    if column.odd:
        word, field = first_odd(source, table, place, column.odd)
        cure = "number; correct it, or"
        if is_not_finite(word):
            cure = "finite number; correct it or"
        raise DataError(
            f"{source.path}, {field}, expected a {cure} remove the row or the column"
        )
    if may_lack:
        return
    is_gap = np.isnan(column.values)
    if is_gap.any():
        field = place_of(source, table, np.argmax(is_gap), place)
        raise DataError(
            f"{field}: found an empty field, expected a number; fill it in or remove the row"
        )


def place_of(source: TableSource, table: Table, row: int, place: int) -> str:
    """Return how messages call a field: by its file, row and column."""
    return f"{source.path}, {table.row(row)}, {source.column(place)}"


def gap_advice(texts: list[str]) -> str:
    """Return the flag that takes texts for gaps, as a shell takes it; nothing where
    that would be long."""
    words = ",".join(texts)
    is_long = shortened(words) != words
    needs_quotes = any('"' in text or "," in text for text in texts)
    if is_long or needs_quotes or not words.isprintable():
        return ""
    return f", or --missing {shlex.quote(words)} if that is a gap"
