"""Predictions as a table of text: row number, prediction, scores and, if known, the truth."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

import numpy as np

from ..core.metrics import decide
from ..ds import Dataset
from ..files.export.columns import class_names, output_names, prediction_names
from ..test import scores_of
from ..train.folds import out_of_fold
from ..utils import cut_line, stream_or_file

BLOCK_ROWS = 1 << 13  # predicted at a time, and made to text
_DIGITS = {"float32": "%.9g".__mod__, "float64": repr}  # enough to give the number back


def prediction_table(net, ds: Dataset, threshold: float | None = None) -> Iterator[list[str]]:
    """Yield the header, then a line for each row, counted from 0.

    regression: row, each target in its own units, each truth;
    classes: row, predicted class, score of each class (its probability, if the output layer is a sigmoid or
    softmax; for two classes that of class 1 only), true class. The truth is left out where ds.y is None.
    Behind the values or scores of several networks stand their standard deviations.
    threshold: score from which a row is of class 1, the network's own by default.
    """
    threshold = net.threshold if threshold is None else threshold
    yield _header(net, ds)
    for first in range(0, ds.rows, BLOCK_ROWS):
        some = ds.of_rows(slice(first, first + BLOCK_ROWS))
        scores, numbers = scores_of(net, some, first), range(first, first + some.rows)
        deviations = _numbers(net.deviation(some.x)) if len(net.members) > 1 else []
        yield from zip(*_texts(net, some, numbers, [], scores, deviations, threshold), strict=True)


def fold_table(net, ds: Dataset) -> Iterator[list[str]]:
    """Yield the lines of prediction_table for the rows that a cross-validation tested, each by its fold's network.

    Behind the row is the number of the fold; there are no deviations.
    """
    rows, folds, scores = out_of_fold(net, ds)
    some = ds.of_rows(rows)
    yield _header(net, some, ["fold"], deviations=False)
    yield from zip(*_texts(net, some, rows, [list(map(str, folds))], scores, [], net.threshold), strict=True)


def write_table(output: str | None, lines: Iterable[list[str]]) -> None:
    """Write lines as CSV to a file, which is replaced whole, or to a device or pipe; to stdout for - or None."""
    if output in (None, "-"):
        _write_lines(sys.stdout, lines)
        return
    with stream_or_file(output) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        _write_lines(text, lines)
        text.flush()
        text.detach()


def _write_lines(stream: TextIO, lines: Iterable[list[str]]) -> None:
    """Write lines as CSV; a terminal gets no control characters of a name, and none without end."""
    if stream.isatty():
        lines = (list(map(cut_line, map(str, line))) for line in lines)
    csv.writer(stream, lineterminator="\n").writerows(lines)


def _texts(net, ds: Dataset, numbers, facts: list, scores, deviations: list, threshold: float) -> list[list[str]]:
    """Return the columns of a table: the rows' numbers, facts of each row, predictions, the truth."""
    rows, deviations = [list(map(str, numbers)), *facts], list(deviations)
    ids = list(ds.ids.values())
    if net.task == "regression":
        truth = [] if ds.y is None else _numbers(ds.y.reshape(len(scores), -1))
        return [*rows, *ids, *_numbers(scores), *deviations, *truth]
    names = np.array(class_names(net))
    predicted = names[decide(scores, threshold)].tolist()
    truth = [] if ds.y is None else [names[ds.y].tolist()]
    return [*rows, *ids, predicted, *_numbers(scores), *deviations, *truth]


def _header(net, ds, facts: Sequence[str] = (), deviations: bool = True) -> list[str]:
    outputs = output_names(net)
    truth = [f"true {target}".strip() for target in outputs] if net.task == "regression" else ["true"]
    spread = [f"deviation {output}".strip() for output in outputs]
    spread = spread if deviations and len(net.members) > 1 else []
    return ["row", *facts, *ds.ids, *prediction_names(net), *spread, *(truth if ds.y is not None else [])]


def _numbers(values: np.ndarray) -> list[list[str]]:
    write = _DIGITS.get(values.dtype.name, repr)
    return [[write(value) for value in column] for column in values.T.tolist()]
