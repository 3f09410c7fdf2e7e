"""Profiles: what a model keeps of how the values of each column of its training rows
are distributed, by which other rows are told apart from them.

Numbers and dates have ten cells of about as many rows each, words have a cell each if
they are among the 16 commonest. Further cells hold what is missing, below the least and
above the largest number, the other words, and those that are rare or unseen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..core.weighted import distinct_counts
from .column import Column
from .encoders import ColumnEncoder
from .kinds import least_rows
from .table_rows import TableRows

CELLS = 10  # of numbers
COMMONEST = 16  # words that have a cell each
LEAST_NAMED_ROWS = 20  # of each, where there are more words
LONGEST_WORD = 64  # characters of such a word
PROFILED_ROWS = 1 << 17  # of which counts are taken
_COUNTED_VALUES = 1 << 20  # of all columns together, which are in memory at once
LEAST_RUNNING = 50  # rows of a column of running numbers
WORDS = "words"
AXIS = "number"
DATE = "date"
RUNNING = "running"
KINDS = (AXIS, DATE, RUNNING)  # of columns of numbers
_MOST_COUNT = 1 << 53


class Fields(NamedTuple):
    """The fields of a column as they are counted: numbers, a gap nan; of words indices
    into these, a gap -1. known: the words that training did not take for rare ones;
    words, known: None for numbers."""

    kind: str
    values: np.ndarray
    words: list[str] | None = None
    known: Collection[str] | None = None


def fields_of(
    column: Column,
    encoder: ColumnEncoder | None,
    known_words: Collection[str | None] = (),
) -> Fields:
    """Return the fields of a column of a table. encoder: of the model; None: plain
    numbers. known_words: the words of a category that it tells apart."""
    if encoder is None:
        return Fields(AXIS, column.values)
    if encoder.kind == "category":
        return Fields(WORDS, column.values, column.words, known_words)
    values = column.values
    if encoder.written:
        values = encoder.written.values_of(column.words)[column.values]
    levels = levels_of(encoder)
    if levels is None:
        return Fields(kind_of(encoder), values)
    codes = np.where(np.isnan(values), -1, values).astype(np.int64)
    return Fields(WORDS, codes, levels, levels)


def kind_of(encoder: ColumnEncoder | None) -> str:
    """Return as what the fields of a column are counted: words, number or date."""
    if encoder is None:
        return AXIS
    if encoder.kind == "category" or levels_of(encoder) is not None:
        return WORDS
    if "date" in encoder.kind:
        return DATE
    return AXIS


def levels_of(encoder: ColumnEncoder) -> list[str] | None:
    """Return the words of a column that has a number for each: no and yes, ordered
    words; None of another column."""
    if encoder.kind == "yes/no":
        return ["no", "yes"]
    if encoder.kind == "ordered":
        return encoder.written.order
    return None


def fields_of_table(
    x: np.ndarray | TableRows,
    encoders: Sequence[ColumnEncoder],
    known_words: Sequence[Collection[str | None]],
) -> Iterator[Fields]:
    """Yield the fields of each column of a table, one in memory at a time. encoders,
    known_words: of each, none where all are plain numbers."""
    columns = TableRows.of(x).columns
    if not encoders:
        encoders = [None] * len(columns)
        known_words = [()] * len(columns)
    for column, encoder, words in zip(columns, encoders, known_words, strict=True):
        yield fields_of(column, encoder, words)


# ---------------------------------------------------------------- profiles


def profiles_of(
    x: np.ndarray | TableRows,
    rows: np.ndarray,
    encoders: Sequence[ColumnEncoder],
    known_words: Sequence[Collection[str | None]],
) -> list[dict]:
    """Return the profile of each column of a table in the rows of a training (indices,
    ascending). encoders, known_words: as fields_of_table takes them. Of many rows the
    counts are those of every second one, every third one, ..., the least and the
    largest number those of all."""
    step = every(len(rows), x.shape[1])
    profiles = []
    for fields in fields_of_table(x, encoders, known_words):
        of_rows = fields._replace(values=fields.values[rows])
        profiles.append(profile_of(of_rows, step))
    return profiles


def every(rows: int, columns: int, most: int = PROFILED_ROWS) -> int:
    """Return the step in which some of many rows are counted."""
    most = max(1, min(most, _COUNTED_VALUES // max(1, columns)))
    return -(-rows // most) or 1


def profile_of(fields: Fields, step: int = 1) -> dict:
    """Return the profile of a column. step: of the rows that are counted."""
    sample = fields._replace(values=fields.values[::step])
    if fields.words is not None:
        profile = {"kind": WORDS, "words": _commonest(sample)}
        sample = _with_few_as_rare(sample)
    else:
        profile = _axis(fields, sample.values)
    return {**profile, "counts": counts_of(sample, profile).tolist()}


def _axis(fields: Fields, sample: np.ndarray) -> dict:
    """Return the kind of a column of numbers, its ends, and the edges between its
    cells."""
    kind = fields.kind
    if kind == AXIS and _runs(fields.values):
        kind = RUNNING
    numbers = fields.values[~np.isnan(fields.values)]
    if not len(numbers):
        return {"kind": kind, "low": None, "high": None, "edges": []}
    values, counts = distinct_counts(sample[~np.isnan(sample)], None)
    below = np.cumsum(counts)
    shares = np.arange(1, CELLS) / CELLS
    cuts = np.unique(np.searchsorted(below, shares * counts.sum()))
    edges = []
    for cut in cuts[cuts < len(values) - 1].tolist():
        edges.append(_between(float(values[cut]), float(values[cut + 1])))
    ends = {"low": float(numbers.min()), "high": float(numbers.max())}
    return {"kind": kind, **ends, "edges": edges}


def _between(low: float, high: float) -> float:
    """Return the shortest decimal near the middle of two numbers that is not below the
    one and below the other."""
    middle = low / 2 + high / 2
    for digits in range(1, 17):
        edge = float(f"{middle:.{digits}g}")
        if low <= edge < high:
            return edge
    return low


def _runs(values: np.ndarray) -> bool:
    """Return whether numbers go up, or down, from each row to the next; the first ones
    nearly always tell."""
    if len(values) < LEAST_RUNNING:
        return False
    for part in (values[:LEAST_RUNNING], values):
        before = part[:-1]
        behind = part[1:]
        if not (before < behind).all() and not (before > behind).all():
            return False
    return True


def _rows_of_words(fields: Fields) -> np.ndarray:
    """Return the rows of each word of a column, (words,)."""
    return np.bincount(fields.values + 1, minlength=len(fields.words) + 1)[1:]


def _commonest(fields: Fields) -> list[str]:
    """Return the commonest of the words that training tells apart, those of most rows
    first. Where there are more than are kept each has LEAST_NAMED_ROWS: of words alike
    those of most rows have more than their share."""
    rows = np.where(_are_known(fields), _rows_of_words(fields), 0)
    least = 1
    if np.count_nonzero(rows) > COMMONEST:
        least = LEAST_NAMED_ROWS
    words = []
    for code in np.argsort(-rows, kind="stable")[: 2 * COMMONEST].tolist():
        word = fields.words[code]
        if rows[code] >= least and len(word) <= LONGEST_WORD:
            words.append(word)
    return words[:COMMONEST]


def _with_few_as_rare(fields: Fields) -> Fields:
    """Return fields whose words of few rows are rare ones. That they just have enough
    rows to be told apart is chance, which other rows do not repeat."""
    rows = _rows_of_words(fields)
    few = 2 * least_rows(rows[rows > 0])
    profile_words = {
        word
        for word, count in zip(fields.words, rows.tolist(), strict=True)
        if count > few and word in fields.known
    }
    return fields._replace(known=profile_words)


def _are_known(fields: Fields) -> np.ndarray:
    """Return of each word whether training told it apart, bool (words,)."""
    return np.array([word in fields.known for word in fields.words], bool)


def are_unknown(fields: Fields) -> np.ndarray:
    """Return which fields of a column are words that training has not seen, or took for
    rare ones, bool (rows,)."""
    codes, places = np.unique(fields.values, return_inverse=True)
    are_unknown_codes = [
        code >= 0 and fields.words[code] not in fields.known for code in codes.tolist()
    ]
    return np.array(are_unknown_codes, bool)[places]


def are_missing(fields: Fields) -> np.ndarray:
    """Return which fields of a column are gaps, bool (rows,)."""
    if fields.words is None:
        return np.isnan(fields.values)
    return fields.values < 0


# ---------------------------------------------------------------- cells


def counts_of(fields: Fields, profile: dict) -> np.ndarray:
    """Return the rows in each cell of a profile: those missing; of numbers those below
    its range, in each of its pieces, and above; of words those of each that is named,
    of others, and of rare or unseen ones."""
    if fields.words is not None:
        named = {word: cell for cell, word in enumerate(profile["words"], 1)}
        others = len(named) + 1
        cells = [
            named.get(word, others if is_known else others + 1)
            for word, is_known in zip(fields.words, _are_known(fields), strict=True)
        ]
        cells.append(0)  # of a gap
        return np.bincount(np.array(cells)[fields.values], minlength=others + 2)
    values = fields.values
    is_missing = np.isnan(values)
    low, high = ends_of(profile)
    cells = 2 + np.searchsorted(profile["edges"], values)
    cells[values < low] = 1
    cells[values > high] = above_cell(profile)
    cells[is_missing] = 0
    return np.bincount(cells, minlength=above_cell(profile) + 1)


def ends_of(profile: dict) -> tuple[float, float]:
    """Return the least and the largest number of training; where it had none all
    numbers lie above."""
    if profile["low"] is None:
        return -math.inf, -math.inf
    return profile["low"], profile["high"]


def above_cell(profile: dict) -> int:
    """Return the cell of the numbers above a profile's range."""
    return 3 + len(profile["edges"])


# ---------------------------------------------------------------- as a file has them


def are_profiles(value) -> bool:
    """Return whether a value of a model file is what profiles_of returns."""
    return isinstance(value, list) and all(map(_is_profile, value))


def _is_profile(value) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("kind") == WORDS:
        are_fields = value.keys() == {"kind", "words", "counts"}
        return are_fields and _are_words(value["words"], value["counts"])
    are_fields = value.keys() == {"kind", "low", "high", "edges", "counts"}
    return are_fields and value["kind"] in KINDS and _is_axis(**value)


def _are_words(words, counts) -> bool:
    """Return whether these are words of a profile, each another, and their counts."""
    if not isinstance(words, list) or len(words) > COMMONEST:
        return False
    are_texts = all(isinstance(word, str) for word in words)
    if not are_texts or len({*words}) < len(words):
        return False
    return max(map(len, words), default=0) <= LONGEST_WORD and _are_counts(
        counts, len(words) + 3
    )


def _is_axis(kind: str, low, high, edges, counts) -> bool:
    """Return whether these are ends, edges and counts of a profile of numbers."""
    if not isinstance(edges, list) or len(edges) >= CELLS:
        return False
    if low is None or high is None:
        return low is high and not edges and _are_counts(counts, 4)
    numbers = [low, *edges, high]
    if not all(map(_is_finite, numbers)) or sorted(numbers) != numbers:
        return False
    return len({*edges}) == len(edges) and _are_counts(counts, len(edges) + 4)


def _is_finite(value) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _are_counts(counts, cells: int) -> bool:
    """Return whether these are the rows in this number of cells, one row at least."""
    if not isinstance(counts, list) or len(counts) != cells:
        return False
    are_whole = all(type(rows) is int and 0 <= rows < _MOST_COUNT for rows in counts)
    return are_whole and sum(counts) > 0


def are_of(profiles: Sequence[dict], encoders: Sequence[ColumnEncoder | None]) -> bool:
    """Return whether profiles are those of columns with these encoders."""
    pairs = zip(profiles, encoders, strict=False)
    return all(
        (profile["kind"] == WORDS) == (kind_of(encoder) == WORDS)
        for profile, encoder in pairs
    )
