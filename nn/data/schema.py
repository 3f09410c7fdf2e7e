"""The schema of a table: what each column is, a pure function of all its fields, a person's choices and a few rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .column import Column, TableSource
from .kinds import NUMBER, Choice, Kind, kind_of, reason_to_leave_out

COUNTED_ROWS = 100  # from which whole numbers that go up by one are taken for row numbers
GAPS_ONLY, ONE_VALUE = "gaps only", "one value only"
COUNTS_ROWS, AN_ID = "counts the rows", "an id"
_NAME_OF_IDS = re.compile(r"id|ids|idx|index|no|nr|key|uuid|rownames|")  # the last word of a name, or no name at all
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@dataclass(frozen=True)
class Decision:
    """The kinds of a table's feature columns, by their places. left_out: those that are no inputs, with the reason."""

    kinds: dict[int, Kind]
    left_out: dict[int, str]


def decide(source: TableSource, columns: dict[int, Column], choices: dict[int, Choice], is_plain: bool) -> Decision:
    """Return what each feature column is. is_plain: all are numbers without gaps, of which nobody has said anything."""
    kinds, left_out = {}, {}
    names = {place: source.names[place] if source.names else None for place in columns}
    for place, column in columns.items():
        is_number = is_plain or column.reads == "number"
        kind = kinds[place] = NUMBER if is_number else kind_of(column, choices.get(place), source.column(place))
        reason = _reason(column, kind, names[place], is_plain)
        if reason and (place not in choices or reason == GAPS_ONLY):
            left_out[place] = reason
    if len(left_out) == len(columns):
        left_out = _without_counters(left_out, names)
    return Decision({place: kind for place, kind in kinds.items() if place not in left_out}, left_out)


def _reason(column: Column, kind: Kind, name: str | None, is_plain: bool) -> str | None:
    """Return why a column tells a network nothing; None where it may tell something."""
    values = column.values
    if column.reads == "text":
        return reason_to_leave_out(column, kind)
    if not is_plain and np.isnan(values[0]) and np.isnan(values).all():
        return GAPS_ONLY
    if column.reads == "number":
        for reason, holds in RULES.items():
            if holds(values, name):
                return reason
    if not is_plain and (values[:COUNTED_ROWS] == values[0]).all() and (values == values[0]).all():
        return ONE_VALUE  # of plain numbers the scaling says how many
    return None


def _count_rows(values: np.ndarray, _name: str | None) -> bool:
    """Row numbers: whole numbers that go up by one step through all of at least 100 rows."""
    first = values[:COUNTED_ROWS].astype(np.float64)
    if len(first) < COUNTED_ROWS or first[0] not in (0, 1) or (np.diff(first) != 1).any():
        return False
    return bool((np.diff(values.astype(np.float64)) == 1).all())


def _are_ids(values: np.ndarray, name: str | None) -> bool:
    """Ids: whole numbers from 0 that never repeat, in a column that is called so, or nothing beside others' names."""
    words = _WORD.findall(name or "")
    if name is None or not _NAME_OF_IDS.fullmatch(words[-1].lower() if words else ""):
        return False
    for rows in (COUNTED_ROWS, len(values)):  # the first ones nearly always tell
        some = np.sort(values[:rows].astype(np.float64))
        if len(some) < 2 or not ((some == np.floor(some)) & (some >= 0)).all() or (np.diff(some) == 0).any():
            return False
    return True


RULES = {COUNTS_ROWS: _count_rows, AN_ID: _are_ids}  # reason -> which columns of numbers a network should not see


def _without_counters(left_out: dict[int, str], names: dict[int, str | None]) -> dict[int, str]:
    """Return what is left out where nothing else is there: not row numbers and ids; the named ones, if there are."""
    counters = {place for place, reason in left_out.items() if reason in RULES}
    kept = {place for place in counters if names[place] and left_out[place] != AN_ID} or counters
    return {place: reason for place, reason in left_out.items() if place not in kept}
