"""Fields that are not what their column is: gaps, odd words, numbers out of range; the sentences for all formats.

Rows without a target are left out first; what else they hold does not matter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..utils import DataError
from .column import (
    LARGEST,
    LONGEST_SHOWN,
    MOSTLY,
    OTHERS,
    Column,
    Odd,
    Table,
    TableSource,
    as_text,
    is_not_finite,
    settled,
    shortened,
    valued,
)  # fmt: skip
from .dataset import Places, Schema
from .kinds import Kind, in_a_list, kind_of

_MOST_TOLD = 20  # columns in a message
_EXAMPLES = 3  # of odd words in a remark
_ENOUGH = 10  # fields, none of which is a number, that show a column to be another one than a model's


# ---------------------------------------------------------------- rows without a target


def without_unlabelled(source: TableSource, table: Table, places: Places) -> tuple[Table, int]:
    """Return (the table without the rows in which a target is a gap, how many these are). DataError: all are.

    An odd word among the numbers of a target is no gap, but an error.
    """
    gaps = [table.columns[place].is_gap for place in places.targets if not table.columns[place].odd]
    lacks = np.logical_or.reduce(gaps) if gaps else np.zeros(len(table), bool)
    if not lacks.any():
        return table, 0
    if lacks.all():
        raise DataError(
            f"{source.path}: no row has a target, all {len(table)} have a gap there, expected some that have one; "
            f"choose the target with --target"
        )
    return taken(table, np.flatnonzero(~lacks)), int(lacks.sum())


def taken(table: Table, rows: np.ndarray) -> Table:
    """Return some rows of a table (indices). Texts are counted in the order of their first appearance among them."""
    numbers, is_taken = table.numbers[rows], np.zeros(len(table), bool)
    is_taken[rows] = True
    slots, columns = {place: slot for slot, place in enumerate(table.number_places)}, {}
    for place, column in table.columns.items():
        odd = {word: one for word, one in column.odd.items() if one.rows > 1 or is_taken[one.first]}
        values = numbers[:, slots[place]] if place in slots else column.values[rows]
        if column.reads == "text":
            columns[place] = _recounted(column, values)
            continue
        columns[place] = replace(column, values=values, odd=odd)
        if place in slots and not np.isnan(values).all():
            columns[place].low, columns[place].high = float(np.nanmin(values)), float(np.nanmax(values))
    return replace(table, columns=columns, numbers=numbers, kept=rows)


def _recounted(column: Column, codes: np.ndarray) -> Column:
    different, first = np.unique(codes, return_index=True)
    order = [code for code in different[np.argsort(first)].tolist() if code >= 0]
    places = np.full(len(column.words) + 1, -1, np.int32)
    places[order] = np.arange(len(order))
    return replace(column, values=places[codes], words=[column.words[code] for code in order])


# ---------------------------------------------------------------- odd words


def odd_remarks(
    source: TableSource, table: Table, columns: dict[int, Column], places: Places, schema: Schema, kinds: Sequence
) -> list[str]:
    """Return a line for each column with odd words, which are taken for gaps. Raises DataError for what cannot be.

    kinds: of the columns, or a model's encoders of them.
    """
    remarks, refused = [], []
    for (place, column), kind in zip(columns.items(), kinds, strict=True):
        odd = column.odd
        _check_finite(source, table, place, column)
        if schema.needs_all:
            check_numbers(source, table, place)
        elif odd:
            telling = [word for word in odd if kind.written and re.search(kind.written.telling, word)]
            rows = sum(one.rows for one in odd.values())
            right = int(np.count_nonzero(~column.is_gap)) - rows * (column.reads == "text")
            if schema.of_model:  # it is another column, or its values are written in another way
                is_wrong = right == 0 and (rows >= _ENOUGH or telling)
            else:  # it is not what a person says
                is_wrong = place in places.choices and rows > (1 - MOSTLY) * (rows + right)
            if schema.choices.strict or is_wrong:
                some = {word: odd[word] for word in telling} if schema.of_model and telling else odd
                refused.append(_refusal(source, table, place, kind, some, schema.of_model))
            else:
                remarks.append(_remark(source, place, kind, odd, schema.of_model))
    if refused:
        more = [f"and {len(refused) - _MOST_TOLD} columns more"] if len(refused) > _MOST_TOLD else []
        raise DataError(f"{source.path}, " + "; ".join([*refused[:_MOST_TOLD], *more]))
    return remarks


def _refusal(source: TableSource, table: Table, place: int, kind, odd: dict[str, Odd], of_model: bool) -> str:
    """Return what is wrong with a column, with the cures as a shell takes them."""
    word, found = first_odd(source, table, place, odd)
    if of_model and kind.written:
        return f"{found}, expected {kind.written.expected}; write the column so"
    found += f", expected {_words_of(kind)[0]}"
    if of_model:
        return f"{found} as in training; correct it, or remove the row"
    return (
        f"{found} as in most rows; correct it, take it for a gap (--missing {shlex.quote(shortened(word))}) or the "
        f"column for categories (--categories {_flag(source, place)})"
    )


def first_odd(source: TableSource, table: Table, place: int, odd: dict[str, Odd]) -> tuple[str, str]:
    """Return the first odd word, and where it was found; words of numbers and dates count all rows that were read."""
    word = min(odd, key=lambda word: odd[word].first)
    counted = table if table.columns[place].reads == "text" else replace(table, kept=None)
    return word, f'{counted.row(odd[word].first)}, {source.column(place)}: found "{shortened(word)}"'


def _flag(source: TableSource, place: int) -> str:
    """Return a column as a flag names it in a shell."""
    has_name = source.names and source.names[place]
    return shlex.quote(in_a_list(source.names[place])) if has_name else str(place)


def _remark(source: TableSource, place: int, kind, odd: dict[str, Odd], of_model: bool) -> str:
    rows = sum(one.rows for one in odd.values())
    words = [word for word in odd if word != OTHERS][:_EXAMPLES]
    examples = ", ".join(f'"{shortened(word)}"' + f" ({odd[word].rows})" * (odd[word].rows > 1) for word in words)
    more = ", ..." if len(odd) > len(words) else ""
    values, it = (f"{rows} values that are", "them") if rows > 1 else ("1 value that is", "it")
    other = f"add {it} to --ordered" if kind.kind == "ordered" else f"use --categories {_flag(source, place)}"
    cure = "" if of_model else f"; correct {it}, or {other}; --strict refuses {it}"
    told = f"{values} {_words_of(kind)[1]} {'are' if rows > 1 else 'is'} taken for a gap"
    return f"{source.column(place)}: {told}: {examples}{more}{cure}"


def _words_of(kind) -> tuple[str, str]:
    """Return what messages call a value of a column of this kind, and another word in it."""
    if kind.kind == "ordered":
        return f"one of {kind.written}", f"none of {kind.written}"
    noun = kind.kind.removeprefix("written ")
    return ("yes or no", "neither yes nor no") if noun == "yes/no" else (f"a {noun}", f"no {noun}")


# ---------------------------------------------------------------- fields that cannot be


def _check_finite(source: TableSource, table: Table, place: int, column: Column) -> None:
    """Raise DataError for an infinite number, and for one that float32 takes for infinite."""
    if infinite := {word: one for word, one in column.odd.items() if is_not_finite(word)}:
        found = first_odd(source, table, place, infinite)[1]
        raise DataError(f"{source.path}, {found}, expected a finite number; correct it")
    if column.values.dtype == np.float32 and max(-column.low, column.high) >= LARGEST:
        row = int(np.argmax(np.isinf(column.values)))
        found = column.high if column.values[row] > 0 else column.low
        raise DataError(
            f'{place_of(source, table, row, place)}: found "{found:g}", expected at most 3.4e38 for float32; correct '
            "it or use --dtype float64"
        )


def check_numbers(source: TableSource, table: Table, place: int) -> None:
    """Raise DataError for the first odd word, or else the first gap, of a column where every field must be a number."""
    column = table.columns[place]
    if column.odd:
        word, found = first_odd(source, table, place, column.odd)
        cure = "finite number; correct it or" if is_not_finite(word) else "number; correct it, or"
        raise DataError(f"{source.path}, {found}, expected a {cure} remove the row or the column")
    if (gaps := np.isnan(column.values)).any():
        where = place_of(source, table, int(np.argmax(gaps)), place)
        raise DataError(f"{where}: found an empty field, expected a number; fill it in or remove the row")


def place_of(source: TableSource, table: Table, row: int, place: int) -> str:
    """Return how messages call a field: by its file, row and column."""
    return f"{source.path}, {table.row(row)}, {source.column(place)}"


def gap_advice(texts: list[str]) -> str:
    """Return the flag that takes texts for gaps, as a shell takes it; nothing where that would be long."""
    words = ",".join(texts)
    if len(words) > LONGEST_SHOWN or not words.isprintable() or any(set(text) & {'"', ","} for text in texts):
        return ""
    return f", or --missing {shlex.quote(words)} if that is a gap"


# ---------------------------------------------------------------- weights, groups and times


def role_values(source: TableSource, table: Table, places: Places) -> dict[str, np.ndarray]:
    """Return weights, groups and times of a table's rows, as a Dataset names them. Raises DataError."""
    found = {}
    for role, place in places.roles.items():
        column = table.columns[place]
        if role == "group":
            found["groups"] = as_text(column).values.astype(np.int64)
            continue
        if column.reads == "text":  # dates as people write them
            name = source.names[place] if source.names else None
            kind = kind_of(column, Kind("date"), source.column(place), name or str(place))
            of_words = kind.written and kind.written.values_of(column.words)
            column = settled(column, "date") if of_words is None else valued(column, "date", of_words)
        expected = "a finite number, 0 or above" if role == "weight" else "a number or a date"
        if column.odd:
            told = f"{source.path}, {first_odd(source, table, place, column.odd)[1]}"
            raise DataError(f"{told}, expected {expected} for --{role}; correct it or remove the row")
        values = column.values.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(values) | ((values < 0) if role == "weight" else False))
        if bad.size:
            shown = "a gap" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
            told = f"{place_of(source, table, int(bad[0]), place)}: --{role}: found {shown}"
            raise DataError(f"{told}, expected {expected}; correct it or remove the row")
        found[f"{role}s"] = values
    return found
