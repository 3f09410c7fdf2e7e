"""Type inference: what the columns of a table are read as, by a first look at their fields or by all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ..utils import DataError
from .column_lookup import GLANCE_ROWS
from .column_types import MOSTLY, ColumnChoice, is_meant_as_text, may_be_text, reads_of
from .columns import Columns
from .table_files import ColumnFacts, read_as_needed

Result = TypeVar("Result")


def read_inferred(columns: Columns, read: Callable[[Columns], Result]) -> Result:
    """Return read(columns), with the columns as their fields are: by the choice of a person, a model or the fields.

    Where a first look at the fields was wrong, `read` fails with a DataError and is called a second time.
    """
    if columns.schema.plain or columns.schema.pixels:  # numbers, whatever the fields are
        return read(columns)
    return _read_as_model(columns, read) if columns.schema.of_model else _read_as_found(columns, read)


def _read_as_model(columns: Columns, read: Callable[[Columns], Result]) -> Result:
    """Read as a model's columns; where these are plain numbers, a second time with gaps in the target."""
    try:
        return read(columns)
    except DataError as error:
        if columns.reads is not None or not columns.targets:
            raise
        try:
            return read(replace(columns, missing=columns.gap_words()))
        except DataError:
            raise error from None


def _read_as_found(columns: Columns, read: Callable[[Columns], Result]) -> Result:
    """Read as the first rows look, which is nearly always right; else as what all fields are."""
    guessed = _guessed(columns)
    if guessed is None:
        return read(_examined(columns))
    try:
        return read(guessed)
    except DataError as error:
        examined = _examined(columns)
        if replace(examined, examined=False, missing=guessed.missing) == guessed:  # nothing new: it is the data
            raise error
        return read(examined)


def _guessed(columns: Columns) -> Columns | None:
    """Return the columns as what the first rows look like; None if that does not tell."""
    missing = columns.gap_words()
    facts = columns.files.facts(missing, GLANCE_ROWS)
    if not columns.choices() and not columns.schema.choices.missing and _is_plain(columns, facts):
        return columns
    try:
        guessed = _as(columns, facts, missing)
    except DataError:  # that is for all fields to say
        return None
    if guessed.reads is None or guessed.left_out:
        return None
    return replace(guessed, missing=missing, examined=False)


def _is_plain(columns: Columns, facts: list[ColumnFacts]) -> bool:
    """Return whether these fields are numbers without gaps, those of a target perhaps text."""
    numbers = all(facts[c].numbers == facts[c].rows for c in columns.features)
    return numbers and not any(facts[c].gaps for c in columns.targets)


def _examined(columns: Columns) -> Columns:
    """Return the columns as what all of their fields are. Raises DataError, which tells all obstacles."""
    missing = columns.gap_words()
    facts = columns.files.facts(missing)
    return _as(columns, facts, missing, _mixed(columns, facts, missing))


def _mixed(columns: Columns, facts: list[ColumnFacts], missing: frozenset[str]) -> frozenset[int]:
    """Return the columns of numbers but for some words that, read as text, turn out to be text."""
    chosen = columns.choices()
    mixed = [column for column in columns.features if column not in chosen and may_be_text(facts[column])]
    if not mixed:
        return frozenset()
    as_text = replace(columns, features=mixed, reads=("text",) * len(mixed), missing=missing, examined=True)
    table = read_as_needed(lambda fields: columns.files.read(fields)[0], as_text.fields())
    texts = zip(mixed, table.codes.T, table.words, strict=True)
    return frozenset(column for column, codes, words in texts if is_meant_as_text(codes, words))


def _as(
    columns: Columns, facts: list[ColumnFacts], missing: frozenset[str], mixed: frozenset[int] = frozenset()
) -> Columns:
    """Return the columns as what these fields are. mixed: of them, the columns that are text for what they hold."""
    chosen = columns.choices()
    as_written = {
        column: kind for column, kind in chosen.items() if kind != "text" and _are_others(facts[column], kind)
    }
    wanted = dict.fromkeys(mixed, "text") | chosen | dict.fromkeys(as_written, "text")
    choices = [ColumnChoice(column, wanted.get(column)) for column in columns.features]
    reads = reads_of(columns.files.path, columns.files.column, choices, facts)
    kept = [(column, kind) for column, kind in zip(columns.features, reads, strict=True) if kind != "nothing"]
    empty = tuple(
        (column, "gaps only") for column, kind in zip(columns.features, reads, strict=True) if kind == "nothing"
    )
    if not kept:
        raise DataError(f"{columns.files.path}: every input column holds gaps only; add data")
    any_gap = any(facts[column].gaps for column in [*columns.features, *columns.targets])
    plain = all(kind == "number" and not facts[column].gaps for column, kind in kept)
    return replace(
        columns,
        features=[column for column, _ in kept],
        reads=None if plain else tuple(kind for _, kind in kept),
        missing=missing if any_gap else frozenset(),
        target_is_text=_target_is_text(columns, facts),
        examined=True,
        chosen=frozenset(chosen),
        decimals=columns.decimals | {c for c in chosen if wanted[c] == "text" and facts[c].are_numbers},
        as_written=as_written,
        left_out=empty,
    )


def _are_others(found: ColumnFacts, kind: str) -> bool:
    """Return whether the fields of a column that is to hold numbers or dates are not; people may write them so."""
    known, right = found.rows - found.gaps, found.numbers if kind == "number" else found.dates
    return right < MOSTLY * known and not (kind == "number" and found.infinite)


def _target_is_text(columns: Columns, facts: list[ColumnFacts]) -> bool | None:
    if len(columns.targets) != 1:
        return None
    found = facts[columns.targets[0]]
    return 2 * found.numbers < found.rows - found.gaps
