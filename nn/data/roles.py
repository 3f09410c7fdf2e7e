"""Roles of columns: weights, groups and times of the rows; rows of weight 0 and rows
without a target are left out.

Rows without a target are left out first; what else they hold does not matter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from ..utils import DataError
from .column import (
    CLASS_NAME,
    Column,
    Selection,
    Table,
    as_text,
    settled,
    valued,
    without_words,
    words_that_occur,
)
from .dataset import LEAST_EXPOSURE, all_weightless
from .fields import first_odd, place_of
from .kinds import Kind, column_kind, way_of_numbers
from .schema import Places
from .source import TableSource

# -------------------------------------------------------------- rows that are left out


def without_weightless(
    table: Table, weights: np.ndarray | None, undecided: list[int]
) -> tuple[Table, dict]:
    """Return (the table without the rows of weight 0, what a Dataset says of these).
    DataError: all are.

    weights: of the rows; None: all are 1. A gap, and what else is no weight, stays for
    role_values to refuse. undecided: columns that the words of the rows that stay make
    numbers, dates or texts.
    """
    if weights is None or not len(weights):
        return table, {}
    is_weightless = weights == 0
    if not is_weightless.any():
        return table, {}
    if is_weightless.all():
        raise all_weightless(len(table))
    stays = rows_of_table(table, ~is_weightless)
    return _decided_again(stays, undecided), {"weightless": int(is_weightless.sum())}


def _decided_again(table: Table, undecided: list[int]) -> Table:
    """Return a table in which the columns of text at these places are what all of their
    words are."""
    changed = {}
    for place in undecided:
        column = table.columns[place]
        if column.reads == "text" and len(column.words):
            column = settled(column, None, is_pure=True)
            if column.reads != "text":
                changed[place] = column
    if not changed:
        return table
    columns = table.columns | changed
    new_places = [p for p, column in changed.items() if column.reads == "number"]
    places = sorted([*table.number_places, *new_places])
    numbers = np.empty((len(table), len(places)), table.numbers.dtype)
    for slot, place in enumerate(places):
        numbers[:, slot] = columns[place].values
    return replace(table, columns=columns, numbers=numbers, number_places=places)


def without_unlabelled(
    source: TableSource, table: Table, places: Places, may_lack: bool = False
) -> tuple[Table, dict]:
    """Return (the table without the rows in which a target is a gap, what a Dataset
    says of these). may_lack: of several targets some may be gaps. DataError: all are.

    An odd word among the numbers of a target is no gap, but an error.
    """
    gaps = [
        table.columns[place].is_gap
        for place in places.targets
        if not table.columns[place].odd
    ]
    lacks = np.all(gaps, axis=0) if may_lack else np.any(gaps, axis=0)
    if not np.any(lacks):
        return table, {}
    if lacks.all():
        raise DataError(
            f"{source.path}: no row has a target, all {len(table)} have a gap there, "
            f"expected some that have one; choose the target with --target"
        )
    unlabelled_words = {}
    if not may_lack:  # else words stand for gaps of rows that stay, too
        unlabelled_words = _gap_words(source, table, places.targets)
    counts = {"unlabelled": int(lacks.sum()), "unlabelled_words": unlabelled_words}
    return rows_of_table(table, ~lacks), counts


def rows_of_table(table: Table, stays: np.ndarray) -> Table:
    """Return the rows of a table that stay (rows,)."""
    rows = np.flatnonzero(stays)
    numbers = table.numbers[rows]
    slots = {place: slot for slot, place in enumerate(table.number_places)}
    columns = {}
    for place, column in table.columns.items():
        values = numbers[:, slots[place]] if place in slots else column.values[rows]
        odd = {
            word: count
            for word, count in column.odd.items()
            if count.rows > 1 or stays[count.first_row]
        }
        words = column.words
        if column.reads == "text":
            values, words = words_that_occur(values, words)
        elif not np.isnan(values).any():  # fields of odd words are gaps
            odd = {}
        columns[place] = replace(column, values=values, words=words, odd=odd)
    if table.kept is not None:
        rows = table.kept[rows]
    return replace(table, columns=columns, numbers=numbers, kept=rows)


def _gap_words(source: TableSource, table: Table, targets: list[int]) -> dict[str, int]:
    """Return how many gaps of targets each word stands for; the columns whose words are
    not known are read again."""
    words = Counter()
    for place in targets:
        column = table.columns[place]
        is_gap = column.is_gap
        if sum(column.gaps.values()) == np.count_nonzero(is_gap):
            words.update(column.gaps)
            continue
        if table.kept is not None:
            words.update(_words_in(source, place, table.kept[is_gap]))
            continue
        selection = Selection(
            {place: column.reads}, exact=frozenset([place]), missing=frozenset()
        )
        reread = source.read(selection).columns[place]
        words.update({word: count.rows for word, count in reread.odd.items()})
        if reread.reads != "text":
            numbers = reread.values[is_gap & ~reread.is_gap]
            words.update(as_text(Column(reread.reads, numbers)).texts())
    return dict(words)


def _words_in(source: TableSource, place: int, rows: np.ndarray) -> list[str]:
    """Return the words of a column in some rows, "" for empty fields; the column is
    read again."""
    selection = Selection(
        {place: "text"}, exact=frozenset([place]), missing=frozenset()
    )
    texts = as_text(source.read(selection).columns[place]).texts()
    return [texts[row] for row in rows.tolist()]


def without_class_name(column: Column) -> Column:
    """Return a target's texts with a gap for CLASS_NAME where the others are numbers as
    people write them."""
    if CLASS_NAME not in column.words:
        return column
    counts = column.counts()
    counts.pop(CLASS_NAME, None)
    if not counts or way_of_numbers(counts) is None:
        return column
    return without_words(column, [CLASS_NAME])


# ------------------------------------------------------------ weights, groups and times


def role_values(
    source: TableSource, table: Table, places: Places
) -> dict[str, np.ndarray]:
    """Return weights, exposures, groups and times of a table's rows, as a Dataset names
    them. Raises DataError."""
    by_name = {}
    for role, place in places.roles.items():
        column = table.columns[place]
        if role == "group":
            by_name["groups"] = as_text(column).values.astype(np.int64)
            continue
        if column.reads == "text":
            column = _moments_of(source, place, column)
        values = column.values.astype(np.float64)
        _check_role(source, table, place, role, replace(column, values=values))
        by_name[f"{role}s"] = values
    return by_name


def _moments_of(source: TableSource, place: int, column: Column) -> Column:
    """Return a column of words as numbers, or dates as people write them."""
    flag = source.name(place) or str(place)
    kind = column_kind(column, Kind("date"), source.column(place), flag)
    if kind.written:
        return valued(column, "date", kind.written.values_of(column.words))
    return settled(column, "date")


def _check_role(
    source: TableSource, table: Table, place: int, role: str, column: Column
) -> None:
    """Raise DataError for a weight, exposure or time that is missing, a weight below 0
    and an exposure that is not above it."""
    is_bad = np.isnan(column.values)
    expected = "a number or a date"
    if role == "weight":
        is_bad |= column.values < 0
        expected = "a finite number, 0 or above"
    if role == "exposure":
        is_bad |= column.values < LEAST_EXPOSURE
        expected = "a finite number above 0"
    bad = np.flatnonzero(is_bad)
    if not len(bad):
        return
    row = int(bad[0])
    if column.odd:
        field = f"{source.path}, {first_odd(source, table, place, column.odd)[1]}"
    elif np.isnan(column.values[row]):
        field = f"{place_of(source, table, row, place)}: found a gap"
    else:
        field = f"{place_of(source, table, row, place)}: found {column.values[row]:g}"
    raise DataError(
        f"{field}, expected {expected} for --{role}; correct it or remove the row"
    )
