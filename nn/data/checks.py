"""Checks of the data of a training: that a network can learn from them, or be judged by
them; what is remarked on before it begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..nn_aux import TASKS, loss_of
from ..utils import DataError, LayersMismatch, UsageError, listed, log
from .column import number_text
from .dataset import Dataset, all_weightless, as_read_by, check_trainable, name_of
from .fields import gap_advice
from .records import check_room_for_rows

# of the median: targets that are named, where they are no more of all
_FAR_TIMES = 1e6
_MOST_FAR = 0.25


def ready_to_learn(net, ds: Dataset, goes_on: bool) -> Dataset:
    """Return a data set as a network reads it that is to learn from it, once it is
    checked, and log what is remarkable about it. goes_on: the network has decided what
    there is, of which these rows may have less.

    Raises DataError or UsageError for what it cannot learn from, NnError where the
    memory has no room for the rows.
    """
    ds.log_left_out()
    ds = as_read_by(net, ds, anew=not goes_on)
    if not net.reference:
        for line in [*about_far_targets(ds), *about_rounded_inputs(net, ds)]:
            log.warning("%s", line)
    check_fit(net, ds, only_rows=goes_on)
    check_room_for_rows(ds.rows)
    return ds


# ---- whether a network and data go together


def check_fit(net, ds: Dataset, only_rows: bool = False) -> None:
    """Raise DataError or UsageError if this network cannot learn from this data set;
    only_rows: be judged by it, or go on with it."""
    if only_rows:
        _check_known_classes(net, ds)
    where = name_of(ds)
    if net.task != ds.task:
        raise UsageError(
            f"{where}: the data is {ds.task}, the network is {net.task}; give --task or change --layers"
        )
    if net.reference and ds.weights is not None:
        raise UsageError("--weight: --reference has no such thing; leave one out")
    ds.check()
    if not only_rows:
        check_trainable(ds)
    else:
        ds.check_pictures(net.pictures)
    if ds.inputs != net.inputs:
        raise UsageError(
            f"--layers: the network has {net.inputs} inputs, {where} has {ds.inputs} per row"
        )
    if ds.classes is not None and ds.task == "multiclass":
        _check_classes(where, len(ds.classes), net.outputs, only_rows)
    if TASKS[ds.task].by_output and ds.outputs != net.outputs:
        raise UsageError(
            f"--layers: {net.outputs} outputs, but {where} has {ds.outputs} targets"
        )
    if TASKS[ds.task].by_output and ds.y is not None:
        _check_targets(ds, net.loss)


def _check_targets(ds: Dataset, loss: str) -> None:
    """Raise DataError for a target that the loss cannot have."""
    rule = loss_of(loss)
    y = ds.y.reshape(ds.rows, -1)
    if y.shape[1] == 1:
        refuse_gaps(ds, ["y"])
    if ds.task == "multilabel" and not ((y == 0) | (y == 1) | np.isnan(y)).all():
        raise DataError(
            f"{name_of(ds)}: y of the task multilabel: found more than 0 and 1, "
            "expected these, or nan where a target is missing"
        )
    if rule.has is None or (rule.has(y) | np.isnan(y)).all():
        return
    row, target = np.unravel_index(np.nanargmin(y), y.shape)
    value = y[row, target]
    if ds.exposures is not None:
        value = (value * ds.exposures[row]).astype(y.dtype)
    raise DataError(
        f"{_place_of_target(ds, row, target)}: found {number_text(value)}, "
        f"expected {rule.targets} for --loss {loss}; correct it, remove the row or choose another --loss"
    )


def _check_classes(where: str, classes: int, outputs: int, only_rows: bool) -> None:
    """Raise LayersMismatch for more classes than outputs or, in a training, fewer: an
    output without a class would be predicted all the same."""
    has_spare_outputs = classes < outputs and not only_rows
    if classes > outputs or has_spare_outputs:
        raise LayersMismatch(
            f"{where}: {classes} classes, expected {outputs}, one per output of the "
            f"network; let --layers end in {classes}"
        )


def _check_known_classes(net, ds: Dataset) -> None:
    """Raise DataError for data with a class that a model does not have."""
    unknown = [
        name for name in ds.classes or () if name not in (net.classes or ds.classes)
    ]
    if unknown:
        raise DataError(
            f"{name_of(ds)}: found class {unknown[0]}, expected one of {listed(net.classes)}"
        )


def refuse_gaps(ds: Dataset, names: Sequence[str] = ("x", "y")) -> None:
    """Raise DataError that names the first gap among the inputs or targets of a data
    set that cannot have any."""
    for name in names:
        values = getattr(ds, name)
        if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
            continue
        gaps = np.argwhere(np.isnan(values))
        if len(gaps):
            raise DataError(
                f"{name_of(ds)}, {name}{gaps[0].tolist()}: found nan, expected a "
                "number; nn.load(x, y=y) reads arrays and data frames with gaps"
            )


def check_any_weight(weights: np.ndarray | None, rows: np.ndarray, what: str) -> None:
    """Raise DataError where these rows, named `what`, have weights that are all 0."""
    if weights is not None and len(rows) and not weights[rows].any():
        raise all_weightless(len(rows), f"{what} rows")


# ---- what is remarked on


def about_far_targets(ds: Dataset) -> list[str]:
    """Return a line for each target of which a few numbers are a million times the
    usual size, that of the median of those that are not 0: the squared error of one of
    them is that of all other rows."""
    if ds.task != "regression" or ds.y is None:
        return []
    lines = []
    targets = ds.different_targets
    for target, values in enumerate(np.abs(targets.astype(np.float64)).T):
        rows = _far_rows(values)
        if not len(rows):
            continue
        row = int(rows[values[rows].argmax()])
        usual = float(np.median(values[values > 0]))
        times = float(f"{values[row] / usual:.2g}")
        shown = f"{times:,.0f}" if times < 1e12 else f"{times:g}"
        number = number_text(targets[row, target])
        alike = f", like {len(rows) - 1} more" if len(rows) > 1 else ""
        line = (
            f"{_place_of_target(ds, row, target)}: found {number}, {shown} times "
            f"the median{alike}; correct it or remove the row"
        )
        if ds.places:
            line += gap_advice([number])
        lines.append(line)
    return lines


def _place_of_target(ds: Dataset, row: int, target: int) -> str:
    """Return where a target stands, for messages."""
    column = f"target {target + 1}"
    if ds.targets:
        column = f"column {ds.targets[target]}"
    return f"{name_of(ds)}, {ds.row_name(row)}, {column}"


def _far_rows(sizes: np.ndarray) -> np.ndarray:
    """Return the rows of a few numbers that are _FAR_TIMES the median of all that are
    not 0; none where many are."""
    counted = sizes[sizes > 0]
    if not len(counted):
        return np.zeros(0, np.intp)
    least = _FAR_TIMES * (1 - 1e-6)  # rounded to float32
    rows = np.flatnonzero(sizes >= least * np.median(counted))
    if len(rows) <= _MOST_FAR * len(sizes):
        return rows
    return rows[:0]


def about_rounded_inputs(net, ds: Dataset) -> list[str]:
    """Return a line where a float64 network is to learn from numbers that nn.load has
    read as float32: they lack digits that the data may have."""
    are_read = getattr(ds, "given", None) is not None
    if not are_read or net.dtype != "float64" or not isinstance(ds.x, np.ndarray):
        return []
    if ds.x.dtype != np.float32 or ds.are_images:
        return []
    return [
        f"{name_of(ds)}: its numbers were read as float32; nn.load(..., "
        'dtype="float64") reads all digits'
    ]
