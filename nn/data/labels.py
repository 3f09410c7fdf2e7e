"""Several targets of two classes each: what their columns are as 0 and 1, and the names
of both classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..settings.values import split_names
from ..utils import DataError, UsageError, listed, plural
from .column import TRUTHS, Column, Table, as_text, decimal_text, number_in, number_text
from .fields import place_of
from .source import TableSource


class Labels(NamedTuple):
    """Targets of two classes: values (rows, targets) of 0 and 1, nan for a gap; the
    classes of each, the second one is 1; their type, see column.LABEL_TYPES."""

    values: np.ndarray
    names: list[list[str]]
    label_type: str | None


def labels_in(columns: list[Column], is_asked: bool) -> Labels | None:
    """Return the labels that columns hold; None where not each of them has two classes:
    0 and 1 or yes/no words, or, where they are asked for, any."""
    labels = [_label_in(column, is_asked) for column in columns]
    if None in labels:
        return None
    names = [_both(pair, labels) for pair in labels]
    if None in names:
        return None
    types = {column.given for column in columns}
    label_type = types.pop() if len(types) == 1 else None
    return Labels(_values(columns, names), names, label_type)


def labels_by(
    source: TableSource,
    table: Table,
    places: list[int],
    names: list[list[str]],
) -> Labels:
    """Return the labels of a model, by their names, or by their values where both are
    numbers. DataError: a field is neither of two."""
    columns = [table.columns[place] for place in places]
    values = _values(columns, names)
    for number, (place, column) in enumerate(zip(places, columns, strict=True)):
        unknown = np.isnan(values[:, number]) & ~column.is_gap
        if unknown.any():
            row = int(unknown.argmax())
            word = as_text(column).texts()[row]
            raise DataError(
                f'{place_of(source, table, row, place)}: found "{word}", expected '
                f"{' or '.join(names[number])}; correct it, or choose the targets with --target"
            )
    return Labels(values, names, None)


def about_no_labels(place: str, columns: list[Column], names: list[str]) -> DataError:
    """Return the error for columns that are asked to be labels, and are not. names:
    those of the columns."""
    for column, name in zip(columns, names, strict=True):
        if _label_in(column, True) is None:
            words = as_text(column).words
            kinds = f"{plural(len(words), 'class', 'es')} ({listed(words, 3)})"
            return DataError(
                f"{place}, {name}: {kinds}, expected two for --task multilabel; choose "
                "the targets with --target or use another --task"
            )
    return DataError(
        f"{place}: targets of one class only, expected two for --task multilabel"
    )


def asked_positives(
    asked: str, names: list[list[str]], callings: list[tuple[str, ...]], place: str
) -> list[str | None]:
    """Return the class of each target that --positive names, a class or COL=CLASS; None
    where it names none. names: both classes of each. callings: what it is called.
    Raises UsageError for a word that is no class, and for both classes of a target."""
    positives = [None] * len(names)
    classes = {name for pair in names for name in pair}
    for word in split_names(asked, classes):
        found = list(map(_class_asked_for, [word] * len(names), names, callings))
        if not any(found):
            told = [" and ".join(pair) for pair in names]
            if len(names) > 1:
                pairs = zip(told, callings, strict=True)
                told = [f"{pair} of {called[0]}" for pair, called in pairs]
            raise UsageError(
                f"--positive {word}: {place} has the classes {listed(told)}; name one of them"
            )
        for number, name in enumerate(found):
            if name is not None and positives[number] not in (None, name):
                both = " and ".join(names[number])
                raise UsageError(
                    f"--positive {asked}: names both classes of {callings[number][0]}, {both}; name one of them"
                )
            positives[number] = name or positives[number]
    return positives


def with_positives(
    values: np.ndarray, names: list[list[str]], positives: list[str | None]
) -> tuple[np.ndarray, list[list[str]]]:
    """Return 0 and 1 of targets (rows, targets), and both classes of each, whose second
    one is the positive class that was asked for."""
    swaps = [pair[0] == asked for pair, asked in zip(names, positives, strict=True)]
    swapped = [
        pair[::-1] if swap else pair for pair, swap in zip(names, swaps, strict=True)
    ]
    return np.where(swaps, 1 - values, values), swapped


def _class_asked_for(word: str, pair: list[str], called: tuple[str, ...]) -> str | None:
    """Return the class of a target that a word of --positive names, None for none."""
    column, _, name = word.rpartition("=")
    texts = [word, name.strip()] if column.strip() in called else [word]
    for text in texts:
        if text in pair:
            return text
        same = [name for name in pair if decimal_text(name) == decimal_text(text)]
        if len(same) == 1:
            return same[0]
    return None


def _label_in(column: Column, is_asked: bool) -> list[str] | None:
    """Return the classes of a column, the positive one last: yes beside no, 1 above
    another number, else the rarer; one that alone occurs; None where they are no two
    classes."""
    if column.reads == "number":
        values = column.values[~np.isnan(column.values)]
        if column.odd:
            return None
        if ((values == 0) | (values == 1)).all():
            return ["0", "1"]
        distinct = np.unique(values) if is_asked else values[:0]
        if len(distinct) == 2:
            return [number_text(value + 0.0) for value in distinct]
        return None
    words = column.words
    truths = [TRUTHS.get(word.lower()) for word in words]
    are_truths = None not in truths and len(set(truths)) == len(truths)
    if not 0 < len(words) <= 2 or not (are_truths or is_asked):
        return None
    if are_truths:
        return sorted(words, key=lambda word: TRUTHS[word.lower()])
    counts = column.counts()
    return sorted(words, key=lambda word: (number_in(word) == 1, -counts[word], word))


def _both(pair: list[str], pairs: list[list[str]]) -> list[str] | None:
    """Return both classes of a target; of one where only one occurs those of another
    target that has it, None where none has."""
    if len(pair) == 2:
        return pair
    whole = (other for other in pairs if len(other) == 2 and pair[0] in other)
    return next(whole, None)


def _values(columns: list[Column], names: list[list[str]]) -> np.ndarray:
    """Return columns as 0 and 1 (rows, targets), nan for what is neither class."""
    values = np.empty((len(columns[0]), len(columns)))
    for number, (column, pair) in enumerate(zip(columns, names, strict=True)):
        if column.reads == "number" and pair == ["0", "1"]:
            known = column.values
            are_bits = (known == 0) | (known == 1)
            values[:, number] = np.where(are_bits, known, np.nan)
            continue
        text = as_text(column)
        numbers = [number_in(name) for name in pair]
        of_words = [_place_in(word, pair, numbers) for word in text.words]
        values[:, number] = np.array([*of_words, np.nan])[text.values]
    return values


def _place_in(word: str, pair: list[str], numbers: list[float | None]) -> float:
    """Return which of two classes a word is, nan for none."""
    if word in pair:
        return pair.index(word)
    number = number_in(word)
    if number is not None and number in numbers:
        return numbers.index(number)
    return np.nan
