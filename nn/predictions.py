"""Predictions as a table of text: a row number, what the network says and, if known, the truth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .test import decide

BLOCK = 65536  # rows predicted at a time, so that their text is never in memory as a whole
_DIGITS = {"float32": "%.9g", "float64": "%.17g"}  # enough to give the number back


def prediction_table(net, ds, threshold: float | None = None) -> Iterator[list[str]]:
    """The header, then a line for each row of `ds`, counted from 0.

    regression: row, each target in its own units, each truth;
    classes: row, predicted class, score of each class (its probability, if the output layer is a sigmoid or
    softmax; for two classes that of class 1 only), true class. The truth is left out where ds.y is None.
    threshold: score from which a row is of class 1, the network's own by default.
    """
    threshold = net.threshold if threshold is None else threshold
    yield _header(net, ds)
    for first in range(0, ds.rows, BLOCK):
        rows = slice(first, first + BLOCK)
        scores = net.predict(ds.x[rows])
        columns = [[str(first + i) for i in range(len(scores))]]
        if net.task == "regression":
            columns += _numbers(scores)
            columns += _numbers(ds.y[rows].reshape(len(scores), -1)) if ds.y is not None else []
        else:
            names = np.array(_class_names(net))
            columns.append(
                names[decide(scores[:, 0] if net.task == "binary" else scores, threshold)].tolist()
            )
            columns += _numbers(scores)
            columns += [names[ds.y[rows]].tolist()] if ds.y is not None else []
        yield from map(list, zip(*columns, strict=True))


def _header(net, ds) -> list[str]:
    if net.task == "regression":
        targets = net.targets or ([""] if net.outputs == 1 else [str(i) for i in range(net.outputs)])
        predicted = [f"predicted {target}".strip() for target in targets]
        truth = [f"true {target}".strip() for target in targets]
    else:
        names = _class_names(net)
        predicted = [
            "predicted",
            *(f"score {name}" for name in (names[1:] if net.task == "binary" else names)),
        ]
        truth = ["true"]
    return ["row", *predicted, *(truth if ds.y is not None else [])]


def _class_names(net) -> list[str]:
    return net.classes or [str(i) for i in range(max(net.outputs, 2))]


def _numbers(values: np.ndarray) -> list[list[str]]:
    digits = _DIGITS.get(values.dtype.name, "%.17g")
    return [[digits % value for value in column] for column in values.T.tolist()]
