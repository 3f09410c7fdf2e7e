"""Which columns of a file are meant, and what for: by the words of a person, by a
model's names, or by their places.

The features and targets of a file that a model is used on are found here, in whatever
order the file has them.
"""

from __future__ import annotations

import re
from collections import Counter

from ..nn_aux import TASKS
from ..settings.values import in_a_list, split_names
from ..utils import DataError, LayersMismatch, UsageError, closest, listed
from .kinds import Kind, parse_choices
from .schema import ROW_ROLES, Choices, Places, Schema
from .source import TableSource


def find_places(source: TableSource, schema: Schema, labelled: bool) -> Places:
    """Return the columns that a schema asks for. Raises DataError, UsageError."""
    targets = target_columns(source, schema, labelled)
    choices = schema.choices
    dropped = set(columns_asked_for(source, "drop", choices.drop))
    ids = tuple(_columns_of_role(source, "id", schema, targets))
    roles = _roles(source, schema, targets)
    uses = {"target": targets, "drop": [c for c in targets if c in dropped], "id": ids}
    uses |= {role: [column] for role, column in roles.items()}
    flags = {}  # a column is read in one way
    for flag, columns in uses.items():
        for column in columns:
            if flags.setdefault(column, flag) != flag:
                raise UsageError(
                    f"{source.path}: --{flag}: {source.column(column)} is that of "
                    f"--{flags[column]} too, expected one use; name another, or write "
                    "it into the table twice"
                )
    features = feature_columns(source, targets, schema, {*dropped, *flags})
    is_decided = schema.follows_model or schema.pixels
    if is_decided and schema.width not in (None, len(features)):
        raise LayersMismatch(column_mismatch(source, len(features), schema))
    if not features:
        raise DataError(
            f"{source.path}: no input columns left, expected one or more; check --target and --drop"
        )
    if schema.follows_model and not labelled:  # a prediction asks for no others
        needed = {"exposure", *(["weight"] if schema.weighs else [])}
        roles = {role: roles[role] for role in roles if role in needed}
    return Places(features, targets, ids, roles, _chosen(source, choices))


def _roles(source: TableSource, schema: Schema, targets: list[int]) -> dict[str, int]:
    """Return the columns of weights, exposures, groups and times. Raises
    UsageError."""
    roles = {}
    for role in ROW_ROLES:
        columns = _columns_of_role(source, role, schema, targets)
        if columns and schema.pixels:
            raise UsageError(
                f"--{role}: the columns are pixels of images; leave it out"
            )
        if len(columns) > 1:
            raise UsageError(
                f"--{role} {getattr(schema.choices, role)}: {len(columns)} columns, expected one"
            )
        if columns:
            roles[role] = columns[0]
    return roles


def _chosen(source: TableSource, choices: Choices) -> dict[int, Kind]:
    chosen = {}
    for flag, word, choice in parse_choices(choices, source.names or ()):
        (column,) = columns_asked_for(source, flag, in_a_list(word))
        if chosen.setdefault(column, choice) is not choice:
            fault = "is listed twice"
            if chosen[column] != choice:
                fault = "is given two kinds"
            raise UsageError(f"--{flag}: {source.column(column)} {fault}; name it once")
    return chosen


def target_columns(source: TableSource, schema: Schema, labelled: bool) -> list[int]:
    """Return the target columns: as asked for, by the names of the model's, or the last
    one or last ones."""
    if schema.targets == [] or (not labelled and _lacks_targets(source, schema)):
        return []
    if schema.target is not None:
        return columns_asked_for(source, "target", str(schema.target))
    names = source.names
    inputs = schema.width
    outputs = schema.outputs
    if names and schema.targets:
        return _targets_by_name(source, schema, labelled)
    fits = False
    if inputs is not None:
        fits = source.width - inputs in (1, outputs, 1 if labelled else 0)
    if fits or (inputs is not None and (schema.follows_model or schema.pixels)):
        inputs += len(schema.left_out)
        if source.width - inputs not in (1, outputs or 1):
            raise LayersMismatch(column_mismatch(source, source.width, schema))
        return list(range(inputs, source.width))
    if source.width < 2:
        raise DataError(
            f"{source.path}: 1 column, expected features and a target, separated by commas; add columns"
        )
    return [source.default_target]


def _lacks_targets(source: TableSource, schema: Schema) -> bool:
    """Return whether a table whose columns are found by place is too narrow to have a
    model's targets."""
    is_followed = schema.follows_model and schema.width is not None
    if not is_followed or (source.names and schema.columns):
        return False
    return source.width <= schema.width + len(schema.left_out)


def _left_out_of(source: TableSource, schema: Schema, targets: list[int]) -> set[int]:
    """Return the columns that were no inputs in training, as a table has them: where it
    lacks the targets, those behind them have moved up."""
    if targets or not _lacks_targets(source, schema):
        return {*schema.left_out}
    return {_moved_up(place, schema) for place in schema.left_out}


def _width_in_training(schema: Schema) -> int:
    """Return how many columns the table of a model's training had."""
    targets = 1
    if schema.target is not None:
        targets = len(split_names(str(schema.target)))
    elif schema.targets:
        targets = len(schema.targets)
    elif TASKS[schema.task].by_output:
        targets = schema.outputs
    return schema.width + len(schema.left_out) + targets


def _moved_up(place: int, schema: Schema) -> int:
    """Return where a column of the training's table stands in one that lacks the
    targets."""
    width = _width_in_training(schema)
    asked = [_index(word) for word in split_names(schema.target)]
    targets = [index % width for index in asked if index is not None]
    return place - sum(target < place for target in targets)


def _targets_by_name(source: TableSource, schema: Schema, labelled: bool) -> list[int]:
    """Return the columns that have the names of a model's targets; [] if they are not
    there and need not be.

    Of several columns of a target's name, which may be features, the place in the
    training's file tells the target. Raises DataError if there is no target, and for
    such names in another file.
    """
    counts = Counter(source.names)
    needed = Counter([*(schema.columns or []), *schema.targets])
    absent = [name for name in needed if counts[name] < needed[name]]
    if not set(absent).isdisjoint(schema.targets):
        if not labelled:
            return []
        besides = ""
        if any(name in counts for name in absent):
            besides = " besides the inputs"
        named = f", {listed(schema.targets)} as the target"
        cure = ", or choose the target with --target"
        raise _columns_lack(source, absent, besides, named, cure)
    doubled = [name for name in schema.targets if counts[name] > 1]
    if not doubled:
        return list(map(source.names.index, schema.targets))
    places = _places_in_training(source, schema)
    if places is None:
        name = doubled[0]
        columns = [
            c for c, column_name in enumerate(source.names) if column_name == name
        ]
        raise DataError(
            f"{source.path}: columns {listed(columns)} (from 0) are called {name}, "
            "expected one of the target's name; choose it with --target INDEX, or "
            "rename the others"
        )
    return places


def _columns_lack(
    source: TableSource, absent: list[str], besides: str, targets: str, cure: str
) -> DataError:
    spelled = _spelled_otherwise(source, absent)
    if spelled:
        return DataError(
            f"{source.path}: has {listed(spelled)} where the model was trained on {listed(absent)}: "
            "the same but for spelling; rename the columns"
        )
    if len(absent) == 1:
        names = f"column {listed(absent)}"
        it = "it"
    else:
        names = f"columns {listed(absent)}"
        it = "them"
    return DataError(
        f"{source.path}: no {names}{besides}, expected every column that the model was "
        f"trained on{targets}; add {it}{cure}"
    )


def _spelled_otherwise(source: TableSource, absent: list[str]) -> list[str]:
    """Return the columns of a file that are the absent ones but for case and marks;
    none unless there is one for each of them."""
    names_by_letters = {_letters(name): name for name in source.names or ()}
    spellings = [names_by_letters.get(_letters(name), "") for name in absent]
    if not all(spellings) or not set(spellings).isdisjoint(absent):
        return []
    return spellings


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def _places_in_training(source: TableSource, schema: Schema) -> list[int] | None:
    """Return the places of the targets in the file of the training; None if this file
    has other names than that."""
    kept = [column for column in range(source.width) if column not in schema.left_out]
    if len(kept) + len(schema.left_out) != source.width or schema.columns is None:
        return None
    try:
        places = kept[-len(schema.targets) :]
        if schema.asked is not None:
            places = columns_asked_for(source, "target", str(schema.asked))
    except UsageError:  # for a name that is there twice, or an index that is not
        return None
    features = [column for column in kept if column not in places]
    names = [source.names[column] for column in [*features, *places]]
    if names == [*schema.columns, *schema.targets]:
        return places
    return None


def columns_asked_for(source: TableSource, flag: str, text: str | None) -> list[int]:
    """Return the columns that a flag names, in its order."""
    if text is None:
        return []
    names = source.names or []
    words = split_names(text, names)
    chosen = [
        names.index(word) if word in names else _column_number(source, flag, word)
        for word in words
    ]
    for word, column in zip(words, chosen, strict=True):
        if names.count(word) > 1:
            raise UsageError(
                f"{source.path}: --{flag} {word}: {names.count(word)} columns have "
                "this name; use an index"
            )
        if chosen.count(column) > 1:
            raise UsageError(
                f"{source.path}: --{flag} {text}: {source.column(column)} is listed twice; list it once"
            )
    return chosen


def _columns_of_role(
    source: TableSource, flag: str, schema: Schema, targets: list[int]
) -> list[int]:
    """Return the columns of ids, weights, exposures, groups or times; a file that a
    model is used on need not have them, but for exposures."""
    asked = getattr(schema.choices, flag)
    names = source.names or []
    if asked is None or not schema.follows_model or asked in names:
        return columns_asked_for(source, flag, asked)
    words = [
        _word_in(source, schema, word, targets) for word in split_names(str(asked))
    ]
    there = [word for word in words if word in names or _index(word) is not None]
    if flag == "exposure" and not there:
        raise UsageError(
            f"{source.path}: --exposure {asked}: no column of this name, by which the model multiplies its outputs; "
            "add it, or in Python give exposure, a number for each row"
        )
    columns = []
    for word in there:
        columns += columns_asked_for(source, flag, in_a_list(word))
    return columns


def _index(word: str) -> int | None:
    """Return the index that a word is; None for a name."""
    try:
        return int(word)
    except ValueError:
        return None


def _word_in(source: TableSource, schema: Schema, word: str, targets: list[int]) -> str:
    """Return what a table calls a column that a model knows by an index in the table of
    its training: by its name, where both have names, by its place where the table lacks
    the targets."""
    index = _index(word)
    if word in (source.names or ()) or index is None or schema.width is None:
        return word
    place = index % _width_in_training(schema)
    if source.names and schema.columns:
        return dict(schema.names_left_out).get(place, word)
    if targets or not _lacks_targets(source, schema):
        return word
    return str(_moved_up(place, schema))


def _column_number(source: TableSource, flag: str, word: str) -> int:
    index = _index(word)
    if index is None:
        names = source.names or []
        advice = "use a name from the header or an index from 0"
        similar = closest(word, names)
        if similar:
            advice = f"did you mean {similar}?"
        parts = word.split()
        if len(parts) > 1 and {*parts} <= {*names}:
            advice = f"put commas between the columns: {','.join(parts)}"
        note = " (the file has no header)" if not names else ""
        raise UsageError(
            f"{source.path}: --{flag} {word}: no column of this name{note}; {advice}"
        )
    if not -source.width <= index < source.width:
        raise UsageError(
            f"{source.path}: --{flag} {word}: the file has {source.width} columns, "
            f"expected an index from {-source.width} to {source.width - 1}"
        )
    return index % source.width


def feature_columns(
    source: TableSource, targets: list[int], schema: Schema, dropped: set[int]
) -> list[int]:
    """Return the columns that a model was trained on, by name if the file has a header;
    else all but the targets.

    Of several columns of one name the first is the model's first.
    """
    names = schema.columns
    rest = [c for c in range(source.width) if c not in set(targets)]
    left_out = _left_out_of(source, schema, targets)
    kept = [c for c in rest if c not in left_out]
    # as in training: names may come twice
    if source.names and names and [source.names[c] for c in kept] == names:
        return kept
    if not (source.names and names):
        if len(rest) != schema.width:
            rest = kept
        return [c for c in rest if c not in dropped]
    places = {}
    for column in reversed(rest):
        places.setdefault(source.names[column], []).append(column)
    features = []
    absent = []
    for name in names:
        if places.get(name):
            features.append(places[name].pop())
        else:
            absent.append(name)
    if absent and targets:
        cure = ", or choose the target with --target"
        raise _columns_lack(source, absent, " besides the target", "", cure)
    if absent:
        raise _columns_lack(source, absent, "", "", "")
    return features


def column_mismatch(source: TableSource, count: int, schema: Schema) -> str:
    """Return what is wrong with the columns of a file, or with those besides the
    targets, if these were chosen. count: of these columns."""
    inputs = schema.width
    outputs = schema.outputs
    if count != source.width:
        return (
            f"{source.path}: {count} columns besides the target, expected {inputs}, one "
            "per input of the network; check --layers, the model and --target"
        )
    expected = f"{inputs + 1} ({inputs} inputs and a target)"
    if outputs is not None and outputs > 1:
        expected += f" or {inputs + outputs} ({inputs} inputs and {outputs} outputs)"
    return (
        f"{source.path}: {count} columns, expected {expected}; check --layers, the "
        "model and --target"
    )
