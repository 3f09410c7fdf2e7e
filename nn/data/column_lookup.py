"""Which columns of a file are meant: by the words of a person, by a model's names, or by their places.

The features and targets of a file that a model is used on are found here, in whatever order the file has them.
"""

from __future__ import annotations

import csv
from collections import Counter

from ..utils import DataError, UsageError, closest, listed
from .dataset import ROLES, ColumnChoices, Schema
from .table_files import GAPS, TableFiles

GLANCE_ROWS = 1000  # enough to see that a table is not all numbers, nearly always


def split_names(text: str | int | None) -> list[str]:
    """Return the words of a list with commas, in which a word with a comma is quoted as in CSV; an index is a word."""
    if text is None:
        return []
    return [word.strip() for word in next(csv.reader([str(text)], skipinitialspace=True), [])]


def in_a_list(name: str) -> str:
    """Return a name as a word of such a list."""
    plain = split_names(name) == [name]
    return name if plain else '"' + name.replace('"', '""') + '"'


def named_columns(target: str | int | None, choices: ColumnChoices) -> frozenset[str]:
    """Return the words by which a person asks for columns: names, or indices."""
    flags = ("categories", "numbers", "dates", "drop", "id", *ROLES)
    asked = [str(text) for text in (target, *(getattr(choices, flag) for flag in flags)) if text is not None]
    return frozenset(word for text in asked for word in (text, *split_names(text)))


def target_columns(files: TableFiles, schema: Schema, labelled: bool) -> list[int]:
    """Return the target columns: as asked for, by the model's names, or the last one or last ones."""
    if schema.targets == []:
        return []
    if schema.target is not None:
        return columns_asked_for(files, "target", str(schema.target))
    names, inputs, outputs = files.names, schema.width, schema.outputs
    if names and schema.targets:
        return _targets_by_name(files, schema, labelled)
    if names and schema.columns and all(name in names for name in schema.columns):
        rest = [c for c, name in enumerate(names) if name not in schema.columns]
        if len(rest) in (1, outputs) or not labelled:
            return rest if len(rest) in (1, outputs) else []
    fits = inputs is not None and files.columns - inputs in (1, outputs, 1 if labelled else 0)
    if inputs is not None and (fits or schema.of_model or schema.pixels):
        inputs += len(schema.left_out)
        if files.columns == inputs and not labelled:
            return []
        if files.columns != inputs + 1 and (outputs is None or files.columns != inputs + outputs):
            raise DataError(column_mismatch(files, files.columns, schema))
        return list(range(inputs, files.columns))
    if files.columns < 2:
        raise DataError(f"{files.path}: 1 column, expected features and a target, separated by commas; add columns")
    return [_last_filled(files)]


def _targets_by_name(files: TableFiles, schema: Schema, labelled: bool) -> list[int]:
    """Return the columns that have the names of a model's targets; [] if they are not there and need not be.

    Of several columns of a target's name, which may be features, the place in the training's file tells the target.
    Raises DataError if there is no target, and for such names in another file.
    """
    found, needed = Counter(files.names), Counter([*(schema.columns or []), *schema.targets])
    absent = [name for name in needed if found[name] < needed[name]]
    if not set(absent).isdisjoint(schema.targets):
        if not labelled:
            return []
        beside = " besides the inputs" if any(name in found for name in absent) else ""
        raise DataError(
            f"{files.path}: {_no_columns(absent)}{beside}, expected every column that the model was trained on, "
            f"{listed(schema.targets)} as the target; add {_it(absent)}, or choose the target with --target"
        )
    doubled = next((name for name in schema.targets if found[name] > 1), None)
    if doubled is None:
        return [files.names.index(name) for name in schema.targets]
    places = _places_in_training(files, schema)
    if places is None:
        those = listed([column for column, name in enumerate(files.names) if name == doubled])
        raise DataError(
            f"{files.path}: columns {those} (from 0) are called {doubled}, expected one of the target's name; "
            "choose it with --target INDEX, or rename the others"
        )
    return places


def _places_in_training(files: TableFiles, schema: Schema) -> list[int] | None:
    """Return the places of the targets in the file of the training; None if this file has other names than that."""
    kept = [column for column in range(files.columns) if column not in schema.left_out]
    if len(kept) + len(schema.left_out) != files.columns or schema.columns is None:
        return None
    try:
        places = kept[-len(schema.targets) :]
        if schema.asked is not None:
            places = columns_asked_for(files, "target", str(schema.asked))
    except UsageError:  # for a name that is there twice, or an index that is not
        return None
    names = [files.names[column] for column in [*(c for c in kept if c not in places), *places]]
    return places if names == [*schema.columns, *schema.targets] else None


def _last_filled(files: TableFiles) -> int:
    """Return the last column but those behind separators at the ends of rows, which have neither a name nor a value."""
    last = files.columns - 1
    if files.names and files.names[last]:
        return last
    if files.first_field(last) in GAPS:
        facts = files.facts(GAPS, GLANCE_ROWS)
        filled = (c for c, found in enumerate(facts) if found.gaps < found.rows or (files.names and files.names[c]))
        last = max(filled, default=last)
    return last


def columns_asked_for(files: TableFiles, flag: str, text: str | None) -> list[int]:
    """Return the columns that a flag names, in its order."""
    if text is None:
        return []
    names = files.names or []
    words = [text] if text in names else split_names(text)
    chosen = [names.index(word) if word in names else _column_number(files, flag, word) for word in words]
    for word, column in zip(words, chosen, strict=True):
        if names.count(word) > 1:
            raise UsageError(f"{files.path}: --{flag} {word}: {names.count(word)} columns have this name; use an index")
        if chosen.count(column) > 1:
            raise UsageError(f"{files.path}: --{flag} {text}: {files.column(column)} is listed twice; list it once")
    return chosen


def role_columns(files: TableFiles, schema: Schema) -> tuple[tuple[str, int], ...]:
    """Return the columns of weights, groups and times; a file that a model is used on need not have them."""
    found = []
    for role in ROLES:
        asked = getattr(schema.choices, role)
        if asked is None or (schema.of_model and files.names and asked not in files.names and not _is_index(asked)):
            continue
        columns = columns_asked_for(files, role, asked)
        if schema.pixels:
            raise UsageError(f"--{role}: the columns are pixels of images; leave it out")
        if len(columns) > 1:
            raise UsageError(f"--{role} {asked}: {len(columns)} columns, expected one")
        found.append((role, columns[0]))
    return tuple(found)


def check_one_use(files: TableFiles, uses: list[tuple[str, int]]) -> None:
    """Raise UsageError for a column of two uses, (flag, column) each: a column is read in one way."""
    flags: dict[int, str] = {}
    for flag, column in uses:
        if flags.setdefault(column, flag) != flag:
            raise UsageError(
                f"{files.path}: --{flag}: {files.column(column)} is that of --{flags[column]} too, expected one use; "
                "name another, or write it into the table twice"
            )


def _is_index(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _column_number(files: TableFiles, flag: str, word: str) -> int:
    try:
        index = int(word)
    except ValueError:
        similar = closest(word, files.names or [])
        advice = f"did you mean {similar}?" if similar else "use a name from the header or an index from 0"
        known = "" if files.names else " (the file has no header)"
        raise UsageError(f"{files.path}: --{flag} {word}: no column of this name{known}; {advice}") from None
    if not -files.columns <= index < files.columns:
        raise UsageError(
            f"{files.path}: --{flag} {word}: the file has {files.columns} columns, expected an index from "
            f"{-files.columns} to {files.columns - 1}"
        )
    return index % files.columns


def feature_columns(files: TableFiles, targets: list[int], schema: Schema, dropped: set[int]) -> list[int]:
    """Return the columns that a model was trained on, by name if the file has a header; else all but the targets.

    Of several columns of one name the first is the model's first.
    """
    names = schema.columns
    rest = [c for c in range(files.columns) if c not in set(targets)]
    kept = [c for c in rest if c not in schema.left_out]
    if files.names and names and [files.names[c] for c in kept] == names:  # as in training: names may come twice
        return kept
    if not (files.names and names):
        gone = dropped | (set(schema.left_out) if len(rest) != schema.width else set())
        return [c for c in rest if c not in gone]
    places: dict[str, list[int]] = {}
    for column in reversed(rest):
        places.setdefault(files.names[column], []).append(column)
    found = [places[name].pop() if places.get(name) else None for name in names]
    beside, cure = (" besides the target", ", or choose the target with --target") if targets else ("", "")
    absent = [name for name, column in zip(names, found, strict=True) if column is None]
    if absent:
        raise DataError(
            f"{files.path}: {_no_columns(absent)}{beside}, expected every column that the model was trained on; "
            f"add {_it(absent)}{cure}"
        )
    return found


def _no_columns(names: list[str]) -> str:
    return f"no column{'s' * (len(names) > 1)} {listed(names)}"


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def column_mismatch(files: TableFiles, found: int, schema: Schema) -> str:
    inputs, outputs = schema.width, schema.outputs
    expected = f"{inputs + 1} ({inputs} inputs and a target)"
    if outputs is not None and outputs > 1:
        expected += f" or {inputs + outputs} ({inputs} inputs and {outputs} outputs)"
    if found != files.columns:  # the targets were chosen apart
        return (
            f"{files.path}: {found} columns besides the target, expected {inputs}, one per input of the "
            f"network; check --layers, the model and --target"
        )
    return f"{files.path}: {found} columns, expected {expected}; check --layers, the model and --target"
