"""Fields that are not what their column is: gaps, odd words, numbers out of range; the
sentences for all formats. And columns that give the target away, numbers that stand for
missing values.

Rows without a target are left out first; what else they hold does not matter.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..settings.values import in_a_list
from ..utils import DataError
from .column import (
    CLASS_NAME,
    MOSTLY,
    OTHERS,
    Column,
    Odd,
    Table,
    Wanted,
    as_text,
    is_not_finite,
    number_text,
    settled,
    shortened,
    valued,
    without_words,
)
from .dataset import Dataset, Places, Schema, TableRows, all_weightless
from .kinds import LEAST_SLOT_ROWS, Kind, kind_of, way_of_numbers
from .source import TableSource
from .written import DIGIT

_MOST_TOLD = 20  # columns in a message
_EXAMPLES = 3  # of odd words in a remark
_LOOK_ROWS = 1000  # which rule out nearly all columns
_MOST_SUMMED_COLUMNS = 200  # of which sums are looked for
_SUM_TOLERANCE = 1e-5  # of the largest target, that a sum of float32 may be off
_STAND_IN_SHARE = 0.005  # share of the rows whose number may stand for a gap
# fields, none of which is a number, that show a column to be another one than a model's
_ENOUGH = 10


# ---------------------------------------------- rows of weight 0, rows without a target


def without_weightless(
    table: Table, weights: np.ndarray | None, undecided: frozenset[int]
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


def _decided_again(table: Table, undecided: frozenset[int]) -> Table:
    """Return a table in which the columns of text at these places are what all of their
    words are."""
    found = {}
    for place in undecided:
        column = table.columns[place]
        if column.reads == "text" and len(column.words):
            again = settled(column, None, is_pure=True)
            if again.reads != "text":
                found[place] = again
    if not found:
        return table
    columns = {**table.columns, **found}
    places = sorted(
        {
            *table.number_places,
            *(place for place, one in found.items() if one.reads == "number"),
        }
    )
    numbers = np.empty((len(table), len(places)), table.numbers.dtype)
    for slot, place in enumerate(places):
        numbers[:, slot] = columns[place].values
    return replace(table, columns=columns, numbers=numbers, number_places=places)


def without_unlabelled(
    source: TableSource, table: Table, places: Places
) -> tuple[Table, dict]:
    """Return (the table without the rows in which a target is a gap, what a Dataset
    says of these). DataError: all are.

    An odd word among the numbers of a target is no gap, but an error.
    """
    gaps = [
        table.columns[place].is_gap
        for place in places.targets
        if not table.columns[place].odd
    ]
    if gaps:
        lacks = np.logical_or.reduce(gaps)
    else:
        lacks = np.zeros(len(table), bool)
    if not lacks.any():
        return table, {}
    if lacks.all():
        told = "expected some that have one; choose the target with --target"
        raise DataError(
            f"{source.path}: no row has a target, all {len(table)} have a gap there, {told}"
        )
    unlabelled_words = _gap_words(source, table, places.targets)
    found = {"unlabelled": int(lacks.sum()), "unlabelled_words": unlabelled_words}
    return rows_of_table(table, ~lacks), found


def rows_of_table(table: Table, stays: np.ndarray) -> Table:
    """Return the rows of a table that stay (rows,)."""
    rows = np.flatnonzero(stays)
    numbers = table.numbers[rows]
    slots = {place: slot for slot, place in enumerate(table.number_places)}
    columns = {}
    for place, column in table.columns.items():
        odd = {
            word: one
            for word, one in column.odd.items()
            if one.rows > 1 or stays[one.first]
        }
        if place in slots:
            values = numbers[:, slots[place]]
        else:
            values = column.values[rows]
        words = column.words
        # fields of odd words are gaps
        if column.reads != "text" and not np.isnan(values).any():
            odd = {}
        # in the order of their first appearance among these rows
        if column.reads == "text":
            different, first = np.unique(values, return_index=True)
            order = [
                code for code in different[np.argsort(first)].tolist() if code >= 0
            ]
            codes = np.full(len(words) + 1, -1, np.int32)
            codes[order] = np.arange(len(order))
            values = codes[values]
            words = [words[code] for code in order]
        columns[place] = replace(column, values=values, words=words, odd=odd)
    if table.kept is None:
        kept = rows
    else:
        kept = table.kept[rows]
    return replace(table, columns=columns, numbers=numbers, kept=kept)


def _gap_words(source: TableSource, table: Table, targets: list[int]) -> dict[str, int]:
    """Return how many gaps of targets each word stands for; the columns whose words are
    not known are read again."""
    words: Counter[str] = Counter()
    for place in targets:
        column = table.columns[place]
        is_gap = column.is_gap
        if sum(column.gaps.values()) == np.count_nonzero(is_gap):
            words.update(column.gaps)
            continue
        if table.kept is not None:
            words.update(_words_in(source, place, table.kept[is_gap]))
            continue
        wanted = Wanted(
            {place: column.reads}, exact=frozenset([place]), missing=frozenset()
        )
        again = source.read(wanted).columns[place]
        words.update({word: one.rows for word, one in again.odd.items()})
        if again.reads != "text":
            numbers = again.values[is_gap & ~again.is_gap]
            words.update(as_text(Column(again.reads, numbers)).texts())
    return dict(words)


def _words_in(source: TableSource, place: int, rows: np.ndarray) -> list[str]:
    """Return the words of a column in some rows, "" for empty fields; the column is
    read again."""
    column = source.read(
        Wanted({place: "text"}, exact=frozenset([place]), missing=frozenset())
    ).columns[place]
    if column.reads != "text":
        column = as_text(column)
    texts = [*column.words, ""]
    return [texts[code] for code in column.values[rows].tolist()]


def without_class_name(column: Column) -> Column:
    """Return a target's texts with a gap for CLASS_NAME where the others are numbers as
    people write them."""
    others = {
        word: rows for word, rows in column.counts().items() if word != CLASS_NAME
    }
    if CLASS_NAME not in column.words or not others or way_of_numbers(others) is None:
        return column
    return without_words(column, [CLASS_NAME])


# ---------------------------------------------------------------- odd words


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
    refused = []
    for (place, column), kind in zip(columns.items(), kinds, strict=True):
        odd = column.odd
        _check_finite(source, table, place, column)
        if schema.is_numeric:
            check_numbers(source, table, place, may_lack=not schema.needs_all)
        elif odd:
            telling = {
                word: one
                for word, one in odd.items()
                if schema.of_model and DIGIT.search(word)
            }
            rows = sum(one.rows for one in odd.values())
            right = int(np.count_nonzero(~column.is_gap)) - rows * (
                column.reads == "text"
            )
            # it is another column, or its values are written in another way
            if schema.of_model:
                is_wrong = right == 0 and (rows >= _ENOUGH or telling)
            else:  # it is not what a person says
                is_wrong = place in places.choices and rows > (1 - MOSTLY) * (
                    rows + right
                )
            if schema.choices.strict or is_wrong:
                refused.append(
                    _refusal(
                        source, table, place, kind, telling or odd, schema.of_model
                    )
                )
            else:
                remarks.append(_remark(source, place, kind, odd, schema.of_model))
    if refused:
        columns = refused[:_MOST_TOLD]
        if len(refused) > _MOST_TOLD:
            columns.append(f"and {len(refused) - _MOST_TOLD} columns more")
        raise DataError(f"{source.path}, {'; '.join(columns)}")
    return remarks


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
    of_model: bool,
) -> str:
    """Return what is wrong with a column, with the cures as a shell takes them."""
    word, found = first_odd(source, table, place, odd)
    found += f", expected {_words_of(kind)[0]} as in"
    if of_model:
        return f"{found} training; correct it, or write the column so"
    return (
        f"{found} most rows; correct it, take it for a gap (--missing {shlex.quote(shortened(word))}) or the "
        f"column for categories (--categories {_flag(source, place)})"
    )


def first_odd(
    source: TableSource, table: Table, place: int, odd: dict[str, Odd]
) -> tuple[str, str]:
    """Return the first odd word, and where it was found; words of numbers and dates
    count all rows that were read."""
    word = min(odd, key=lambda word: odd[word].first)
    if table.columns[place].reads == "text":
        counted = table
    else:
        counted = replace(table, kept=None)
    return (
        word,
        f'{counted.row(odd[word].first)}, {source.column(place)}: found "{shortened(word)}"',
    )


def _flag(source: TableSource, place: int) -> str:
    """Return a column as a flag names it in a shell."""
    has_name = source.names and source.names[place]
    if has_name:
        return shlex.quote(in_a_list(source.names[place]))
    return str(place)


def _remark(
    source: TableSource, place: int, kind, odd: dict[str, Odd], of_model: bool
) -> str:
    rows = sum(one.rows for one in odd.values())
    words = [word for word in odd if word != OTHERS][:_EXAMPLES]
    examples = ", ".join(_example(word, odd[word].rows) for word in words)
    if len(odd) > len(words):
        more = ", ..."
    else:
        more = ""
    if rows > 1:
        values = f"{rows} values that are"
        it = "them"
    else:
        values = "1 value that is"
        it = "it"
    if kind.kind == "ordered":
        other = f"add {it} to --ordered"
    else:
        other = f"use --categories {_flag(source, place)}"
    if of_model:
        cure = ""
    else:
        cure = f"; correct {it}, or {other}; --strict refuses {it}"
    told = (
        f"{values} {_words_of(kind)[1]} {'are' if rows > 1 else 'is'} taken for a gap"
    )
    return f"{source.column(place)}: {told}: {examples}{more}{cure}"


def _words_of(kind) -> tuple[str, str]:
    """Return what messages call a value of a column of this kind, and another word in
    it."""
    if kind.kind == "ordered":
        return f"one of {kind.written}", f"none of {kind.written}"
    if kind.kind == "yes/no":
        return "yes or no, true or false, 1 or 0", "neither yes nor no"
    noun = kind.kind.removeprefix("written ")
    return f"a {noun}" + f" written as {kind.written}" * bool(
        kind.written
    ), f"no {noun}"


# ---------------------------------------------------------------- fields that cannot be


def _check_finite(
    source: TableSource, table: Table, place: int, column: Column
) -> None:
    """Raise DataError for an infinite number, and for one that float32 takes for
    infinite."""
    if infinite := {
        word: one for word, one in column.odd.items() if is_not_finite(word)
    }:
        found = first_odd(source, table, place, infinite)[1]
        raise DataError(f"{source.path}, {found}, expected a finite number; correct it")
    if (
        max(column.high, -column.low) > 3.4e38
        and (is_infinite := np.isinf(column.values)).any()
    ):
        row = int(np.argmax(is_infinite))
        if column.values[row] > 0:
            found = column.high
        else:
            found = column.low
        told = "expected at most 3.4e38 for float32; correct it or use --dtype float64"
        raise DataError(
            f'{place_of(source, table, row, place)}: found "{found:g}", {told}'
        )


def check_numbers(
    source: TableSource, table: Table, place: int, *, may_lack: bool = False
) -> None:
    """Raise DataError for the first odd word, or else the first gap, of a column where
    every field must be a number. may_lack: gaps are allowed."""
    column = table.columns[place]
    if column.odd:
        word, found = first_odd(source, table, place, column.odd)
        if is_not_finite(word):
            cure = "finite number; correct it or"
        else:
            cure = "number; correct it, or"
        raise DataError(
            f"{source.path}, {found}, expected a {cure} remove the row or the column"
        )
    if not may_lack and (gaps := np.isnan(column.values)).any():
        where = place_of(source, table, int(np.argmax(gaps)), place)
        raise DataError(
            f"{where}: found an empty field, expected a number; fill it in or remove the row"
        )


def place_of(source: TableSource, table: Table, row: int, place: int) -> str:
    """Return how messages call a field: by its file, row and column."""
    return f"{source.path}, {table.row(row)}, {source.column(place)}"


def gap_advice(texts: list[str]) -> str:
    """Return the flag that takes texts for gaps, as a shell takes it; nothing where
    that would be long."""
    words = ",".join(texts)
    if (
        shortened(words) != words
        or not words.isprintable()
        or any(set(text) & {'"', ","} for text in texts)
    ):
        return ""
    return f", or --missing {shlex.quote(words)} if that is a gap"


# ------------------------------------------------------------ weights, groups and times


def role_values(
    source: TableSource, table: Table, places: Places
) -> dict[str, np.ndarray]:
    """Return weights, groups and times of a table's rows, as a Dataset names them.
    Raises DataError."""
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
    name = ""
    if source.names:
        name = source.names[place]
    kind = kind_of(column, Kind("date"), source.column(place), name or str(place))
    values = kind.written and kind.written.values_of(column.words)
    if values is None:
        return settled(column, "date")
    return valued(column, "date", values)


def _check_role(
    source: TableSource, table: Table, place: int, role: str, column: Column
) -> None:
    """Raise DataError for a weight or time that is missing, and a weight below 0."""
    is_bad = np.isnan(column.values)
    expected = "a number or a date"
    if role == "weight":
        is_bad |= column.values < 0
        expected = "a finite number, 0 or above"
    bad = np.flatnonzero(is_bad)
    if not len(bad):
        return
    row = int(bad[0])
    if column.odd:
        told = f"{source.path}, {first_odd(source, table, place, column.odd)[1]}"
    elif np.isnan(column.values[row]):
        told = f"{place_of(source, table, row, place)}: found a gap"
    else:
        told = f"{place_of(source, table, row, place)}: found {column.values[row]:g}"
    raise DataError(
        f"{told}, expected {expected} for --{role}; correct it or remove the row"
    )


# ------------------------------------------------- remarks on the columns of a data set


def remarks_on(ds: Dataset, bounds: Sequence[tuple[float, float]]) -> list[str]:
    """Return remarks on columns that give the target away (a copy of it, or known only
    after it: a network would learn nothing else), and on numbers that may stand for
    missing values. bounds: of the columns, as the file has them."""
    if ds.x.ndim != 2 or ds.x.dtype == np.uint8 or len(ds.x) < 4 * LEAST_SLOT_ROWS:
        return []
    columns = TableRows.of(ds.x).columns
    looks = (slice(_LOOK_ROWS), slice(None))
    if ds.y is not None and ds.classes is None:
        given_away = _sums(ds, columns)
    else:
        given_away = []
    if ds.y is not None and ds.classes is not None:
        given_away = [
            [place]
            for place, one in enumerate(columns)
            if all(_tells(one, ds.y, rows) for rows in looks)
        ]
    stand_ins = (
        line
        for place, column in enumerate(columns)
        for line in _stand_ins(ds, place, column, bounds[place])
    )
    return [*(_leave_out(ds, places) for places in given_away), *stand_ins]


def _name(ds: Dataset, place: int) -> str:
    return (ds.columns and ds.columns[place]) or str(
        (ds.places or range(ds.inputs))[place]
    )


def _leave_out(ds: Dataset, places: list[int]) -> str:
    names = [_name(ds, place) for place in places]
    if ds.targets:
        target = ds.targets[0]
    else:
        target = "the target"
    told = f"column {names[0]} alone tells"
    them = "it"
    they = "it is"
    if len(names) > 1:
        told = f"columns {' + '.join(names)} tell"
        them = "them"
        they = "they are"
    return (
        f"{told} {target} of all {len(ds.x)} rows: leave {them} out "
        f"(--drop {shlex.quote(','.join(map(in_a_list, names)))}) unless {they} known beforehand"
    )


def _tells(column: Column, y: np.ndarray, rows: slice) -> bool:
    """Return whether the classes of these rows follow from one column; of rows of one
    class they may.

    Numbers tell two classes if all of one lie above those of the other; texts if each
    stands for one class, and they are as few as the classes, twice that at most.
    """
    values = column.values[rows]
    y = y[rows]
    if column.reads == "text":
        counts = np.zeros((len(column.words) + 1, int(y.max()) + 1), np.int64)
        np.add.at(counts, (values, y), 1)  # code -1, a gap, is the last
        used = np.count_nonzero(counts.any(axis=1))
        return (
            bool(((counts > 0).sum(axis=1) <= 1).all()) and used <= 2 * counts.shape[1]
        )
    classes = np.flatnonzero(np.bincount(y))
    if len(classes) != 2:
        return len(classes) < 2
    no = values[y == classes[0]]
    yes = values[y == classes[1]]
    # never with a gap, which is nan
    return bool(no.max() < yes.min() or yes.max() < no.min())


def _sums(ds: Dataset, columns) -> list[list[int]]:
    """Return the columns, if there are some, of which the target is a sum or
    difference, or one of them in any unit."""
    places = [place for place, column in enumerate(columns) if column.reads == "number"]
    some = slice(_LOOK_ROWS)
    least = 2 * len(places)
    if (
        ds.y.shape[1] != 1
        or not 0 < len(places) <= _MOST_SUMMED_COLUMNS
        or len(ds.y[some]) < least
        or not np.ptp(ds.y[some])
    ):
        return []

    def columns_and_one(places: list[int], rows: slice) -> np.ndarray:
        return np.column_stack(
            [
                *(columns[place].values[rows] for place in places),
                np.ones(len(ds.y[rows])),
            ]
        )

    x = columns_and_one(places, some)
    if not np.isfinite(x).all():
        return []
    scale = np.abs(x).max(axis=0) + (x == 0).all(axis=0)
    y = ds.y[some, 0].astype(np.float64)
    # the first ones nearly always tell, and LAPACK has no threads for so few
    for rows in (least, _LOOK_ROWS):
        *factors, constant = fit = (
            np.linalg.lstsq(x[:rows] / scale, y[:rows], rcond=None)[0] / scale
        )
        if (
            np.abs(x[:rows] @ fit - y[:rows]).max()
            > 4 * _SUM_TOLERANCE * rows**0.5 * np.abs(y).max()
        ):
            return []
    parts = {
        place: factor
        for place, factor in zip(places, factors, strict=True)
        if abs(factor) > _SUM_TOLERANCE
    }
    if not parts or (
        len(parts) > 1 and any(abs(abs(factor) - 1) > 1e-3 for factor in parts.values())
    ):
        return []
    for rows in (some, slice(None)):
        y = ds.y[rows, 0].astype(np.float64)
        off = np.abs(
            columns_and_one([*parts], rows) @ [*parts.values(), constant] - y
        ).max()
        if not off <= 2 * _SUM_TOLERANCE * np.abs(y).max():  # a gap is nan
            return []
    return [[*parts]]


def _stand_ins(
    ds: Dataset, place: int, column: Column, bounds: tuple[float, float]
) -> list[str]:
    """Return a remark if the least or largest number of a column is frequent and
    further from all others than these are from each other: -200 and 9999 often stand
    for what was not measured."""
    if column.reads != "number":
        return []
    some = column.values[:: max(1, len(column.values) // _LOOK_ROWS)]
    numbers, counts = np.unique(some[np.isfinite(some)], return_counts=True)
    if len(numbers) < 2 * LEAST_SLOT_ROWS:
        return []
    if numbers[1] - numbers[0] > numbers[-1] - numbers[-2]:
        end = 0
    else:
        end = -1
    if counts[end] < max(LEAST_SLOT_ROWS, _STAND_IN_SHARE * len(some)):
        return []
    number = numbers[end]
    for values in (numbers, column.values):  # the first ones nearly always tell
        others = values[values != number]
        if np.nanmin(np.abs(others - number)) <= np.nanmax(others) - np.nanmin(others):
            return []
    text = number_text(bounds[end])
    return [
        f"column {_name(ds, place)} is {text} in {len(ds.x) - len(others)} of {len(ds.x)} rows, far from all other "
        f"numbers: if {text} stands for a missing value, add --missing={text}"
    ]
