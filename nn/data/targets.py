"""Targets: a file's target columns decide the task and become class indices with names, or numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..utils import DataError, UsageError, log
from .dataset import Dataset, Schema
from .field_types import MAX_CLASSES, is_coarse
from .written import WrittenNumbers, way_of_dates

AUTO_CLASSES = 100  # more distinct numbers than this are classes only if --task says so; more texts need many rows
FEW_CLASSES = 10  # up to 10 whole numbers are classes; more are if each has many rows, unlike counts and grades
_CLASS_ROWS = 10  # rows that each of them then needs, ...
_CLASS_SHARE = 0.25  # ... and of the mean number of rows
_FIRST_LABELS = -1, 3  # labels begin between these, unlike ages and years
_LABEL_GAPS = 1.25, 5  # the last is at most this multiple of their number, and this more, unlike amounts and doses
_NAMED_CLASSES = 1000  # texts that are classes if they have _CLASS_ROWS rows each, on average
_GLANCE_ROWS = 1 << 12  # that show all classes, nearly always


@dataclass
class Targets:
    """The targets as a file has them: numbers (rows, columns), or indices (rows, 1) into `names`."""

    values: np.ndarray
    place: str  # how messages call them: "iris.csv, column Class"
    row: Callable[[int], str]  # how messages call a row
    names: list[str] | None = None
    columns: list[str] | None = None  # the names of the target columns
    are_classes: bool = False  # names are classes by the file's format, however many
    are_indices: bool = False  # numbers are class indices by the file's format
    counts: np.ndarray | None = None  # how many rows each row stands for; None: one
    written: WrittenNumbers | None = None  # how the numbers are written; None: plainly

    @property
    def width(self) -> int:
        return self.values.shape[1]

    @cached_property
    def different(self) -> tuple[np.ndarray, np.ndarray]:
        """The different numbers of the first column, ascending; the index of each row's number among them."""
        values = self.values[:, 0]
        few = np.unique(values[:_GLANCE_ROWS])
        if len(few) <= AUTO_CLASSES and len(few):  # classes: no need to sort all rows
            which = np.minimum(np.searchsorted(few, values), len(few) - 1)
            if (few[which] == values).all():
                return few, which
        distinct, which = np.unique(values, return_inverse=True)
        return distinct, which.reshape(-1)


def dataset_of(
    x: np.ndarray, found: Targets | None, schema: Schema, *, now: list[int] | None = None, **facts
) -> Dataset:
    """Return the data set of inputs x and the targets that were found, None if there are none.

    now: see Dataset. facts: its other attributes.
    """
    if found is None:
        return Dataset(x, None, schema.task, target=schema.target, **facts)
    y, task, classes = resolve(found, schema)
    of_numbers = {"now": now, "written": found.written} if task == "regression" else {}
    ds = Dataset(x, y, task, classes, target=schema.target, **of_numbers, **facts)
    if schema.task == "auto" and schema.classes is None and found.width == 1 and found.names is None:
        ds.remarks += _choice_told(found, task)
    return ds


def _choice_told(found: Targets, task: str) -> list[str]:
    """Return a line that says what whole numbers were taken for and how to choose; none where there is no doubt."""
    distinct, _ = found.different
    hardly_repeat = len(distinct) > FEW_CLASSES and 2 * len(distinct) > len(found.values)
    if not 2 < len(distinct) <= AUTO_CLASSES or hardly_repeat or not _are_whole(distinct):
        return []
    place = found.columns[0] if found.columns else "the target"
    if task == "regression":
        return [f"{place}: {len(distinct)} whole numbers, taken as numbers; --task multiclass takes them as classes"]
    return [f"{place}: {len(distinct)} whole numbers, taken as classes; --task regression takes them as numbers"]


def resolve(targets: Targets, schema: Schema) -> tuple[np.ndarray, str, list[str] | None]:
    """Return (y, task, class names): y is int32 (rows,) class indices or, for regression, numbers (rows, outputs).

    With classes in the schema, a model's, the file's labels are mapped to them by name. Raises DataError if the
    targets do not fit the schema.
    """
    task, classes = schema.task, schema.classes
    if task == "regression":
        return _regression(targets, schema)
    if classes is not None:
        y = _known_classes(targets, classes)
        return y, _class_task(task, len(classes), schema.outputs), classes
    if targets.width > 1:
        return _several(targets, schema)
    if targets.names is not None:
        return _named(targets, schema)
    return _numbers(targets, schema)


def _several(targets: Targets, schema: Schema):
    """Resolve several target columns: one-hot rows of classes, or numbers."""
    if _is_one_hot(targets.values):
        names = targets.columns or [str(i) for i in range(targets.width)]
        y = targets.values.argmax(axis=1).astype(np.int32)
        return y, _checked(targets, _class_task("multiclass", len(names), schema.outputs), names, schema), names
    if schema.task != "auto":
        raise DataError(
            f"{targets.place}: {targets.width} target columns whose rows are not one-hot, expected one 1 "
            f"and otherwise 0 for --task {schema.task}; choose one with --target or use --task regression"
        )
    return _regression(targets, schema)


def _class_task(task: str, classes: int, outputs: int | None) -> str:
    if task != "auto":
        return task
    return "binary" if classes <= 2 and outputs in (None, 1) else "multiclass"


def _checked(targets: Targets, task: str, names: list[str], schema: Schema) -> str:
    """Return `task` if these classes are as many as it and the network's outputs allow."""
    outputs = schema.outputs
    if task == "binary" and len(names) > 2:
        raise DataError(f"{targets.place}: {len(names)} classes, expected 2 for --task binary; use --task multiclass")
    if outputs is None or (task == "binary" and outputs == 1):
        return task
    if task == "binary":
        raise UsageError(f"--task binary needs 1 output, the network has {outputs}; use --task multiclass")
    if len(names) != outputs:
        advice = f"let --layers end in {len(names)}"
        if targets.names is None and outputs == 1:
            advice += " or use --task regression"
        raise DataError(
            f"{targets.place}: {len(names)} classes, expected {outputs}, one per output of the network; {advice}"
        )
    return task


def _named(targets: Targets, schema: Schema) -> tuple[np.ndarray, str, list[str]]:
    names, task = targets.names, schema.task
    if task == "auto" and len(names) > FEW_CLASSES and not targets.are_classes:
        _check_names(targets)
    task = _checked(targets, _class_task(task, len(names), schema.outputs), names, schema)
    return targets.values[:, 0].astype(np.int32), task, names


def _check_names(targets: Targets) -> None:
    """Raise DataError for texts that are no class names: dates, names of the rows, more than rows can teach."""
    names = targets.names
    rows = len(targets.values) if targets.counts is None else int(targets.counts.sum())
    cure = "choose the target with --target or use --task multiclass"
    if way_of_dates([name.removesuffix("Z") for name in names]):
        raise DataError(f"{targets.place}: {len(names)} different dates, expected class names or numbers; {cure}")
    if len(names) > AUTO_CLASSES and (len(names) > _NAMED_CLASSES or rows < _CLASS_ROWS * len(names)):
        raise DataError(
            f"{targets.place}: {len(names)} different texts, expected at most {AUTO_CLASSES} class names; {cure}"
        )
    if 2 * len(names) > rows:
        raise DataError(
            f"{targets.place}: {len(names)} different texts in {rows} rows, expected class names, which come again; "
            f"{cure}"
        )


def _numbers(targets: Targets, schema: Schema):
    task, outputs = schema.task, schema.outputs
    distinct, which = targets.different
    whole = _are_whole(distinct)
    if task == "auto":
        as_many = 2 < len(distinct) == outputs  # the network has an output for each
        is_label = as_many or len(distinct) == 1 or _are_labels(distinct, np.bincount(which, targets.counts))
        if len(distinct) != 2 and not (whole and is_label):
            return _regression(targets, schema)
        task = _class_task("auto", len(distinct), outputs)
    if task == "multiclass" and not whole and len(distinct) > 2 or len(distinct) > MAX_CLASSES:
        raise DataError(
            f"{targets.place}: {len(distinct)} different numbers, expected whole numbers for at most "
            f"{MAX_CLASSES} classes; use --task regression"
        )
    labels = distinct
    if task == "multiclass" and whole and outputs is not None and len(distinct) < outputs:
        labels = _wider(distinct, outputs)
    names = [number_name(value) for value in labels]
    y = np.searchsorted(labels, distinct).astype(np.int32)[which]
    return y, _checked(targets, task, names, schema), names


def _are_whole(values: np.ndarray) -> bool:
    return bool((values == np.floor(values)).all())


def _are_labels(numbers: np.ndarray, counts: np.ndarray) -> bool:
    """Return whether whole numbers, ascending, that occur so often are labels, rather than counts or amounts.

    Labels count from 0 or 1, as far as there are classes; some classes may be missing.
    """
    (least, most), (times, above) = _FIRST_LABELS, _LABEL_GAPS
    if not least <= numbers[0] <= most or numbers[-1] > times * len(numbers) + above:
        return False
    if len(counts) <= FEW_CLASSES:
        return True
    return len(counts) <= AUTO_CLASSES and counts.min() >= max(_CLASS_ROWS, _CLASS_SHARE * counts.mean())


def _wider(labels: np.ndarray, outputs: int) -> np.ndarray:
    """Return all labels that a network with more outputs than labels seen can mean: 0..outputs-1 or 1..outputs."""
    for first in (0, 1):
        if labels[0] >= first and labels[-1] < first + outputs:
            return np.arange(first, first + outputs, dtype=np.float64)
    return labels


def _regression(targets: Targets, schema: Schema) -> tuple[np.ndarray, str, None]:
    outputs, dtype = schema.outputs, schema.dtype
    if targets.names is not None:
        raise DataError(
            f'{targets.place}: found text such as "{targets.names[0]}", expected numbers for --task '
            f"regression; choose the target with --target"
        )
    if outputs is not None and targets.width != outputs:
        raise DataError(
            f"{targets.place}: {targets.width} target column{'s' * (targets.width > 1)} of numbers, expected "
            f"{outputs} as the network has outputs; let --layers end in {targets.width} or use --target"
        )
    if is_coarse(targets.values.min(axis=0), targets.values.max(axis=0)):
        dtype = "float64"
    with np.errstate(over="ignore"):
        y = targets.values.astype(dtype)
    if not np.isfinite(y).all():
        raise DataError(f"{targets.place}: numbers too large for {dtype}; use --dtype float64")
    return y, "regression", None


def _known_classes(targets: Targets, classes: list[str]) -> np.ndarray:
    """Return indices into a model's classes: by name, or by value where both are numbers (1 and 1.0)."""
    if targets.width > 1:
        if targets.width != len(classes) or not _is_one_hot(targets.values):
            raise DataError(
                f"{targets.place}: {targets.width} target columns, expected one with the model's "
                f"{len(classes)} classes, or one-hot columns for them; choose with --target"
            )
        return targets.values.argmax(axis=1).astype(np.int32)
    index = {name: i for i, name in enumerate(classes)}
    by_value = {_value(name): i for i, name in enumerate(classes) if _value(name) is not None}
    if targets.names is not None:
        labels, codes = targets.names, targets.values[:, 0].astype(np.intp)
    else:
        distinct, codes = targets.different
        labels = [number_name(value) for value in distinct]
        if targets.are_indices and not by_value:
            index = {str(i): i for i in range(len(classes))}
    found = np.array([index.get(label, by_value.get(_value(label), -1)) for label in labels], np.int32)
    if (found < 0).any() and targets.names is not None:
        found = _without_full_stops(targets, labels, index, found)
    y = found[codes]
    if (y < 0).any():
        first = int(np.argmax(y < 0))
        shown = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
        raise DataError(
            f'{targets.place}, {targets.row(first)}: found class "{labels[codes[first]]}", '
            f"expected one of the model's classes {shown}; correct it or choose the target with --target"
        )
    return y


def _without_full_stops(targets: Targets, labels: list[str], index: dict[str, int], found: np.ndarray) -> np.ndarray:
    """Return the indices of labels that differ from the model's classes by a full stop only, if all of them do."""
    stripped = np.array([index.get(label.removesuffix("."), -1) for label in labels], np.int32)
    if (stripped < 0).any():
        return found
    log.warning('%s: class names end in a full stop, such as "%s", taken as the model\'s', targets.place, labels[0])
    return stripped


def number_name(value: float) -> str:
    """Return a number as a class name: 3, not 3.0."""
    return str(int(value)) if value == np.floor(value) else repr(float(value))


def _value(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


def _is_one_hot(values: np.ndarray) -> bool:
    return bool((((values == 0) | (values == 1)).all(axis=1) & (values.sum(axis=1) == 1)).all())
