"""Targets: a file's target columns decide the task and become class indices with names,
or numbers."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..nn_aux import TASKS
from ..utils import DataError, LayersMismatch, UsageError, listed, log, plural
from .column import (
    TRUTHS,
    Column,
    Table,
    as_text,
    decimal_text,
    is_coarse,
    is_code,
    is_not_finite,
    labels_of,
    number_in,
    number_text,
    settled,
    shortened,
    valued,
)
from .dataset import AUTO_CLASSES, CHANGE, Dataset, Targets
from .fields import check_numbers, first_odd, gap_advice, place_of
from .kinds import way_of_dates, way_of_numbers
from .labels import (
    Labels,
    about_no_labels,
    asked_positives,
    labels_by,
    labels_in,
    with_positives,
)
from .schema import Schema
from .source import TableSource
from .written import WrittenNumbers

MAX_CLASSES = 10_000
# how a target column is named that holds NAME some seconds later, or its change
_AHEAD = re.compile(r"(.+)_in_[0-9.]+s")
# up to 10 whole numbers are classes; more are if each has many rows, unlike counts and
# grades
FEW_CLASSES = 10
_CLASS_ROWS = 10  # rows that each of them then needs, ...
_CLASS_SHARE = 0.25  # ... and of the mean number of rows
_FIRST_LABELS = -1, 3  # labels begin between these, unlike ages and years
# the last is at most this multiple of their number, and this more, unlike amounts and
# doses
_LABEL_GAPS = 1.25, 5
# more whole numbers than this may count something, if that share of the rows has one
# of the smaller half
_FEW_COUNTS = 5
_SHARE_OF_SMALL_COUNTS = 0.75
# texts that are classes if they have _CLASS_ROWS rows each, on average
_NAMED_CLASSES = 1000


def targets_of(
    source: TableSource, table: Table, places: list[int], schema: Schema
) -> Targets:
    """Return the targets of a table's rows. Raises DataError for a field that is no
    target."""
    facts = {"place": source.path, "row": table.row, "places": places}
    if source.names:
        facts["columns"] = [source.names[place] for place in places]
    columns = [table.columns[place] for place in places]
    place = places[0]
    column = columns[0]
    if len(places) == 1:
        facts["place"] = f"{source.path}, {source.column(place)}"
        facts["label_type"] = column.given
    labels = _labels(source, table, places, schema)
    if labels is not None:
        facts |= {"labels": labels.names, "label_type": labels.label_type}
        return Targets(labels.values, **facts)
    if len(places) > 1 or column.reads == "number":
        may_lack = len(places) > 1 and not schema.plain
        for target_place in places:
            table.columns[target_place] = settled(table.columns[target_place], "number")
            check_numbers(source, table, target_place, may_lack=may_lack)
        columns = [table.columns[place] for place in places]
        return Targets(np.column_stack([c.values for c in columns]), **facts)
    if column.reads == "text" and schema.classes is None and _are_codes(column.words):
        spelling = None if schema.task == "regression" else column
        values = settled(column, "number").values[:, None]
        return Targets(values, spelling=spelling, **facts)
    column = as_text(column)
    numbers = _written_numbers(source, table, place, column, schema)
    if numbers is not None:
        return Targets(numbers.values[:, None], **facts)
    _check_names(source, table, place, column, schema)
    names = sorted(column.words)
    classes = {name: index for index, name in enumerate(names)}
    # a gap stays -1
    classes_of_codes = np.array([*map(classes.get, column.words), -1], np.int32)
    values = classes_of_codes[column.values]
    return Targets(values[:, None], names=names, **facts)


def targets_may_lack(table: Table, places: list[int], schema: Schema) -> bool:
    """Return whether rows stay of which some targets are gaps: of several targets,
    which are not those of one class of several."""
    if len(places) < 2 or schema.task in ("binary", "multiclass"):
        return False
    if schema.task != "auto":
        return True
    labels = labels_in([table.columns[place] for place in places], False)
    if labels is None:
        return True
    whole = labels.values[~np.isnan(labels.values).any(axis=1)]
    return not len(whole) or not _is_one_hot(whole)


def _labels(
    source: TableSource, table: Table, places: list[int], schema: Schema
) -> Labels | None:
    """Return several targets of two classes each; None where they are others. Raises
    DataError where they are asked for."""
    if schema.labels is not None:
        return labels_by(source, table, places, schema.labels)
    is_asked = schema.task == "multilabel"
    if not is_asked and (schema.plain or schema.task != "auto"):
        return None
    columns = [table.columns[place] for place in places]
    labels = labels_in(columns, is_asked) if len(places) > 1 else None
    if is_asked and len(places) == 1:
        raise DataError(
            f"{source.path}: one target column, expected several for --task multilabel; "
            "name them with --target, or use --task binary"
        )
    if is_asked and labels is None:
        names = [source.column(place) for place in places]
        raise about_no_labels(source.path, columns, names)
    return labels


def _written_numbers(
    source: TableSource, table: Table, place: int, column: Column, schema: Schema
) -> Column | None:
    """Return a target of words as the numbers that they are, written as people do;
    None where they are names. Raises DataError for a word among numbers."""
    # they may be names as well: 4dr, 2dr
    is_few = schema.task == "auto" and len(column.words) <= FEW_CLASSES
    may_be_numbers = schema.classes is None and schema.task in ("regression", "auto")
    if not may_be_numbers or is_few:
        return None
    way = way_of_numbers(dict.fromkeys(column.words, 1), schema.task == "regression")
    if not way:
        return None
    numbers = valued(column, "number", way.values_of(column.words))
    if numbers.odd:
        word, field = first_odd(source, table, place, numbers.odd)
        like = f" written as {way}" if way != WrittenNumbers() else ""
        raise DataError(
            f"{source.path}, {field}, expected a number{like}; correct it, or remove "
            f"the row{gap_advice([word])}"
        )
    return numbers


def _are_codes(words: list[str]) -> bool:
    """Return whether words are numbers, some of them with zeros before them."""
    return any(map(is_code, words)) and all(
        number_in(word) is not None for word in words
    )


def _check_names(
    source: TableSource, table: Table, place: int, column: Column, schema: Schema
) -> None:
    """Raise DataError for words that are no classes: infinite numbers, texts where all
    are to be numbers, too many, and numbers and texts together, since a stray among the
    others is more often a mistake in the file than a name."""
    words = column.words
    numbers = np.array([number_in(word) is not None for word in words], bool)
    is_wrong = np.array(list(map(is_not_finite, words)), bool)
    may_mix = schema.task in ("binary", "multiclass") or schema.classes is not None
    is_mixed = 0 < np.count_nonzero(numbers) < len(words) and not may_mix
    if is_wrong.any():
        expected = "a finite number; correct it or remove the row"
    elif schema.task == "regression":
        is_wrong = ~numbers
        advice = gap_advice(_words_where(words, is_wrong))
        expected = f"a number; correct it, or remove the row{advice}"
        if is_wrong.all():
            expected = (
                "numbers for --task regression; leave --task out: these are classes"
            )
    elif is_mixed and not way_of_numbers(dict.fromkeys(words, 1)):
        is_wrong = numbers
        what = "text as in the other rows"
        advice = ""
        if numbers[column.values[~column.is_gap]].mean() > 0.5:
            is_wrong = ~numbers
            what = "a number"
            advice = gap_advice(_words_where(words, is_wrong))
        expected = f"{what}; correct it, or add --task multiclass if it is a class name{advice}"
    elif len(words) > MAX_CLASSES:
        is_wrong = np.arange(len(words)) >= MAX_CLASSES
        expected = f"at most {MAX_CLASSES} different class names; choose the target with --target"
    else:
        return
    row = np.argmax(np.append(is_wrong, False)[column.values])
    where = place_of(source, table, row, place)
    word = shortened(words[column.values[row]])
    raise DataError(f'{where}: found "{word}", expected {expected}')


def _words_where(words: list[str], is_so: np.ndarray) -> list[str]:
    return np.array(words, object)[is_so].tolist()


def now_among(
    features: list[str] | None, targets: list[str] | None
) -> list[int] | None:
    """Return the features whose values the targets have ahead, as their names say (see
    Dataset.now)."""
    if not features or not targets:
        return None
    indices = []
    for target in targets:
        match = _AHEAD.fullmatch(target)
        if not match:
            return None
        name = match[1]
        if name in features:
            indices.append(features.index(name))
        elif name.endswith("_change") and name.removesuffix("_change") in features:
            indices.append(CHANGE)
        else:
            return None
    return indices


def dataset_of(
    x: np.ndarray, target_rows: Targets | None, schema: Schema, **facts
) -> Dataset:
    """Return the data set of inputs x and their targets, None if there are none. facts:
    its other attributes."""
    if target_rows is None:
        return Dataset(x, None, schema.task, target=schema.target, **facts)
    target_rows = _with_labels(target_rows, schema)
    y, task, classes = resolve(target_rows, schema)
    labels = target_rows.labels
    asked = schema.choices.positive
    if task == "multilabel" and schema.labels is None and asked is not None:
        callings = _callings_of(target_rows)
        positives = asked_positives(asked, labels, callings, target_rows.place)
        y, labels = with_positives(y, labels, positives)
    elif task != "multilabel" and schema.classes is None and not schema.plain:
        y, classes = _positive_last(y, classes, task, asked, target_rows)
    ds = Dataset(x, y, task, classes, target=schema.target, **facts)
    if task == "regression":
        ends = []
        if len(y):
            least = np.where(np.isnan(y), np.inf, y).argmin(axis=0)
            ends = np.append(np.nan_to_num(np.abs(y)).argmax(axis=0), least).tolist()
        ds.row_names = {row: target_rows.row(row) for row in ends}
    if task == "multilabel":
        ds.labels = labels
        ds.label_type = target_rows.label_type
    if classes is not None and schema.classes is None:
        ds.label_type = _type_of(classes, target_rows.label_type)
    if TASKS[task].by_output and len(y):
        ds.remarks += _about_missing(y, target_rows.columns)
    ds.remarks += _doubts(target_rows, task, schema)
    return ds


def _about_missing(y: np.ndarray, columns: list[str] | None) -> list[str]:
    """Return a line on rows that lack some of several targets y (rows, targets)."""
    counts = np.isnan(y).sum(axis=0).tolist()
    names = columns or [f"target {number + 1}" for number in range(len(counts))]
    told = [
        f"{name} ({count})" for name, count in zip(names, counts, strict=True) if count
    ]
    if not told:
        return []
    return [f"rows without a target, which count for no loss of it: {listed(told)}"]


def _doubts(targets: Targets, task: str, schema: Schema) -> list[str]:
    """Return a line on whole numbers that may be classes or quantities, which nobody
    has decided."""
    is_asked = schema.task != "auto" or schema.classes is not None
    if is_asked or targets.width > 1 or targets.names is not None or targets.are_many:
        return []
    distinct = targets.different[0]
    count = len(distinct)
    if not 2 < count <= AUTO_CLASSES or not _are_whole(distinct):
        return []
    if count > FEW_CLASSES and 2 * count > len(targets.values):  # they hardly repeat
        return []
    place = targets.columns[0] if targets.columns else "the target"
    if task == "regression":
        taken = "numbers; --task multiclass takes them as classes"
    else:
        taken = "classes; --task regression takes them as numbers"
        if _may_count(*targets.different):
            return [
                f"{place}: {count} whole numbers from 0 are classes; if they count something, --loss poisson; "
                "--task regression takes them as plain numbers"
            ]
    return [f"{place}: {count} whole numbers, taken as {taken}"]


def _may_count(distinct: np.ndarray, which: np.ndarray) -> bool:
    """Return whether whole numbers may count something: from 0, more than a few, and
    the smallest are the commonest. which: the number of each row."""
    half = (len(distinct) + 1) // 2
    return (
        distinct[0] == 0
        and len(distinct) > _FEW_COUNTS
        and np.mean(which < half) >= _SHARE_OF_SMALL_COUNTS
    )


def _type_of(classes: list[str], label_type: str | None) -> str | None:
    """Return the type of classes that were given in it; None where one of them has no
    such value."""
    try:
        labels_of(classes, label_type)
    except ValueError:
        return None
    return label_type


def resolve(
    targets: Targets, schema: Schema
) -> tuple[np.ndarray, str, list[str] | None]:
    """Return (y, task, class names): y is int32 (rows,) class indices or, for
    regression, numbers (rows, outputs).

    With classes in the schema, a model's, the file's labels are mapped to them by name.
    Raises DataError or UsageError if the targets do not fit the schema: its task, and
    the network's outputs.
    """
    task = schema.task
    if targets.labels is not None and not _are_one_class(targets, schema):
        _check_columns(targets, schema)
        return targets.values.astype(schema.dtype), "multilabel", None
    if task != "regression" and schema.classes is not None:
        y = _known_classes(targets, schema.classes)
        return y, _task_of(task, schema.classes, schema.outputs), schema.classes
    labelled = None
    if task != "regression":
        labelled = _labels_of(targets, schema)
    if labelled is None:
        return _regression(targets, schema), "regression", None
    y, names = labelled
    task = _task_of(task, names, schema.outputs)
    if targets.width > 1:
        task = "multiclass"
    _check_outputs(targets, task, len(names), schema.outputs)
    return y, task, names


def _with_labels(targets: Targets, schema: Schema) -> Targets:
    """Return several targets of numbers, as arrays have them, as labels where they are
    such; other targets as they are. Raises DataError where labels are asked for, and
    for those that are not a model's."""
    are_arrays = targets.labels is None and targets.width > 1 and not schema.plain
    if not are_arrays or schema.task not in ("auto", "multilabel"):
        return targets
    columns = [Column("number", values) for values in targets.values.T]
    found = labels_in(columns, schema.task == "multilabel")
    if found is None and schema.task == "multilabel":
        names = [f"target {number + 1}" for number in range(targets.width)]
        raise about_no_labels(targets.place, columns, names)
    if found is None:
        return targets
    if schema.labels not in (None, found.names):
        raise DataError(
            f"{targets.place}: other classes than the model's, {listed(schema.labels[0])} "
            "of the first target; correct them"
        )
    return replace(targets, values=found.values, labels=found.names)


def _are_one_class(targets: Targets, schema: Schema) -> bool:
    """Return whether targets of two classes are one of several classes: of each row
    just one is 1, as the original program has it."""
    return schema.task == "auto" and _is_one_hot(targets.values)


def _labels_of(targets: Targets, schema: Schema):
    """Return (class indices, class names); None for numbers that are no classes."""
    if targets.width > 1:
        return _several(targets, schema)
    if targets.names is not None:
        return _named(targets, schema)
    return _numbers(targets, schema)


def _check_outputs(
    targets: Targets, task: str, count: int, outputs: int | None
) -> None:
    """Raise DataError or UsageError unless a task and a network's outputs go with the
    number of classes."""
    if task == "binary" and count > 2:
        raise DataError(
            f"{targets.place}: {count} classes, expected 2 for --task binary; use --task multiclass"
        )
    if task == "binary" and outputs not in (None, 1):
        raise UsageError(
            f"--task binary needs 1 output, the network has {outputs}; use --task multiclass"
        )
    if task == "multiclass" and outputs not in (None, count):
        advice = f"let --layers end in {count}"
        if targets.names is None and outputs == 1:
            advice += " or use --task regression"
        raise LayersMismatch(
            f"{targets.place}: {count} classes, expected {outputs}, one per output of "
            f"the network; {advice}"
        )


def _task_of(task: str, classes: list[str], outputs: int | None) -> str:
    """Return the task itself; of auto what these classes are."""
    if task != "auto":
        return task
    if len(classes) <= 2 and outputs in (None, 1):
        return "binary"
    return "multiclass"


def _callings_of(targets: Targets) -> list[tuple[str, ...]]:
    """Return what each target column is called: by its name, and its index in the
    file."""
    places = list(map(str, targets.places or range(targets.width)))
    if targets.columns is None:
        return [(f"column {place}", place) for place in places]
    return list(zip(targets.columns, places, strict=True))


def _positive_last(
    y: np.ndarray,
    classes: list[str] | None,
    task: str,
    asked: str | None,
    targets: Targets,
):
    """Return (y, class names) with the positive of two classes last: as asked; yes
    beside no; 1 above another number; the rarer. Raises UsageError for a name that is
    none of two classes."""
    if task != "binary" or len(classes) != 2:
        if asked is not None:
            found = "numbers"
            if classes is not None:
                found = plural(len(classes), "class", "es")
            raise UsageError(
                f"--positive {asked}: {targets.place} has {found}, expected two classes; leave it out"
            )
        return y, classes
    says_yes = [TRUTHS.get(name.lower()) for name in classes]
    no, yes = np.bincount(y, minlength=2)
    positive = int(number_in(classes[1]) == 1 or yes <= no)
    if asked is not None:
        callings = _callings_of(targets)[:1]
        (name,) = asked_positives(asked, [classes], callings, targets.place)
        positive = classes.index(name)
    elif set(says_yes) == {False, True}:
        positive = says_yes.index(True)
    if positive == 1:
        return y, classes
    return 1 - y, classes[::-1]


def _several(targets: Targets, schema: Schema) -> tuple[np.ndarray, list[str]] | None:
    """Return (y, class names) of several target columns that are one-hot; None: they
    are numbers."""
    if _is_one_hot(targets.values):
        names = targets.columns or list(map(str, range(targets.width)))
        return targets.values.argmax(axis=1).astype(np.int32), names
    if schema.task != "auto":
        raise DataError(
            f"{targets.place}: {targets.width} target columns whose rows are not "
            f"one-hot, expected one 1 and otherwise 0 for --task {schema.task}; "
            "choose one with --target or use --task regression"
        )
    return None


def _named(targets: Targets, schema: Schema) -> tuple[np.ndarray, list[str]]:
    """Return (y, class names) of texts. Raises DataError for texts that are no class
    names: dates, names of the rows, more than rows can teach."""
    count = len(targets.names)
    rows = len(targets.values)
    if schema.task == "auto" and count > FEW_CLASSES and not targets.are_classes:
        reason = None
        are_dates = True
        with suppress(DataError):  # the day or the month may be first
            are_dates = way_of_dates(dict.fromkeys(targets.names, 1)) is not None
        if are_dates:
            reason = "dates, expected class names or numbers"
        elif count > _NAMED_CLASSES or max(AUTO_CLASSES, rows / _CLASS_ROWS) < count:
            reason = f"texts, expected at most {AUTO_CLASSES} class names"
        elif 2 * count > rows:
            reason = f"texts in {rows} rows, expected class names, which come again"
        if reason:
            raise DataError(
                f"{targets.place}: {count} different {reason}; choose the target with "
                "--target or use --task multiclass"
            )
    return targets.values[:, 0].astype(np.int32), targets.names


def _numbers(targets: Targets, schema: Schema) -> tuple[np.ndarray, list[str]] | None:
    """Return (y, class names) of numbers that are labels; None: they are numbers."""
    is_auto = schema.task == "auto"
    outputs = schema.outputs
    if is_auto and targets.are_many and (outputs or 0) <= AUTO_CLASSES:
        return None
    distinct, which = targets.different
    count = len(distinct)
    whole = _are_whole(distinct)
    is_multiclass = schema.task == "multiclass"
    if is_auto:
        as_many = count > 2 and count == outputs  # the network has an output for each
        is_label = as_many or count == 1 or _are_labels(distinct, np.bincount(which))
        if count != 2 and not (whole and is_label):
            return None
        is_multiclass = count > 2 or outputs not in (None, 1)
    if (is_multiclass and not whole and count > 2) or count > MAX_CLASSES:
        raise DataError(
            f"{targets.place}: {count} different numbers, expected whole numbers for "
            f"at most {MAX_CLASSES} classes; use --task regression"
        )
    labels = distinct
    # which no further classes belong to, unless --task multiclass says so
    is_two = is_auto and count == 2
    if is_multiclass and whole and count < (outputs or 0) and not is_two:
        labels = _with_missing(distinct, outputs, schema.plain or targets.are_indices)
    if targets.spelling is not None:
        return _spelled(targets.spelling, labels)
    names = [number_text(value + 0.0) for value in labels]
    return np.searchsorted(labels, distinct).astype(np.int32)[which], names


def _with_missing(numbers: np.ndarray, outputs: int, are_indices: bool) -> np.ndarray:
    """Return labels, ascending, with those that no row has: from 0 or 1 on, where the
    outputs of the network end at the last one. are_indices: they are numbers of
    outputs, as in the original program and in IDX files of images, of which the last
    ones may have no row."""
    for lowest in (0, 1):
        highest = lowest + outputs - 1
        has_all = lowest <= numbers[0] and numbers[-1] <= highest
        if has_all and (are_indices or numbers[-1] == highest):
            return np.arange(lowest, highest + 1, dtype=np.float64)
    return numbers


def _spelled(column: Column, labels: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return (y, class names) of labels in their own spelling: 01 is another class than
    1, but 1.0 is the same."""
    names_of_words = [
        word if is_code(word) else decimal_text(word) for word in column.words
    ]
    values = {number_in(name) for name in names_of_words}
    rest = [
        number_text(value + 0.0) for value in labels.tolist() if value not in values
    ]
    names = sorted({*names_of_words, *rest}, key=lambda name: (number_in(name), name))
    return np.array(list(map(names.index, names_of_words)), np.int32)[
        column.values
    ], names


def _are_whole(values: np.ndarray) -> bool:
    return (values == np.floor(values)).all()


def _are_labels(numbers: np.ndarray, counts: np.ndarray) -> bool:
    """Return whether whole numbers, ascending, that occur so often are labels, rather
    than counts or amounts.

    Labels count from 0 or 1, as far as there are classes; some classes may be missing.
    """
    least, most = _FIRST_LABELS
    times, above = _LABEL_GAPS
    if not least <= numbers[0] <= most or numbers[-1] > times * len(numbers) + above:
        return False
    has_rows = counts.min() >= max(_CLASS_ROWS, _CLASS_SHARE * counts.mean())
    return len(counts) <= FEW_CLASSES or (len(counts) <= AUTO_CLASSES and has_rows)


def _regression(targets: Targets, schema: Schema) -> np.ndarray:
    dtype = schema.dtype
    if targets.names is not None:
        raise DataError(
            f'{targets.place}: found text such as "{targets.names[0]}", expected '
            "numbers for --task regression; choose the target with --target"
        )
    _check_columns(targets, schema)
    if schema.target_type is not None:
        dtype = schema.target_type
    elif is_coarse(*(end.reduce(targets.values) for end in (np.fmin, np.fmax))):
        dtype = "float64"
    with np.errstate(over="ignore"):
        y = targets.values.astype(dtype)
    if np.isinf(y).any():
        raise DataError(
            f"{targets.place}: numbers too large for {dtype}; use --dtype float64"
        )
    return y


def _check_columns(targets: Targets, schema: Schema) -> None:
    """Raise LayersMismatch unless the network has an output for each target."""
    if schema.outputs in (None, targets.width):
        return
    if targets.labels is None:
        what = "numbers"
    else:
        what = "two classes"
    raise LayersMismatch(
        f"{targets.place}: {plural(targets.width, 'target column')} of {what}, expected "
        f"{schema.outputs} as the network has outputs; let --layers end in {targets.width} or use --target"
    )


def _known_classes(targets: Targets, classes: list[str]) -> np.ndarray:
    """Return indices into a model's classes: by name, or by value where both are
    numbers (1 and 1.0)."""
    if targets.width > 1:
        if targets.width != len(classes) or not _is_one_hot(targets.values):
            raise DataError(
                f"{targets.place}: {targets.width} target columns, expected one with "
                f"the model's {len(classes)} classes, or one-hot columns for them; "
                "choose with --target"
            )
        return targets.values.argmax(axis=1).astype(np.int32)
    index = {name: i for i, name in enumerate(classes)}
    values = list(map(number_in, classes))
    counts = Counter(values)
    by_value = {value: i for i, value in enumerate(values) if counts[value] == 1}
    by_value.pop(None, None)
    if targets.names is not None:
        labels = targets.names
        codes = targets.values[:, 0].astype(np.intp)
    else:
        distinct, codes = targets.different
        labels = [number_text(value + 0.0) for value in distinct]
        if targets.are_indices and not by_value:
            index = {str(i): i for i in range(len(classes))}
    class_of_label = np.array(
        [index.get(label, by_value.get(number_in(label), -1)) for label in labels],
        np.int32,
    )
    if (class_of_label < 0).any() and all(
        label.removesuffix(".") in index for label in labels
    ):
        log.warning(
            '%s: class names end in a full stop, such as "%s", taken as the model\'s',
            targets.place,
            labels[0],
        )
        class_of_label = np.array(
            [index[label.removesuffix(".")] for label in labels], np.int32
        )
    y = class_of_label[codes]
    if (y < 0).any():
        row = int(np.argmax(y < 0))
        raise DataError(
            f'{targets.place}, {targets.row(row)}: found class "{labels[codes[row]]}", '
            f"expected one of the model's classes {listed(classes)}; correct it or "
            "choose the target with --target"
        )
    return y


def _is_one_hot(values: np.ndarray) -> bool:
    are_bits = ((values == 0) | (values == 1)).all()
    return are_bits and (values.sum(axis=1) == 1).all()
