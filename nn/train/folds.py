"""Figures of a cross-validation: over its folds, and of each row by the network that
did not know it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.splits import Fold
from ..ds import Dataset
from ..nn import Network
from ..nn.crossed import Crossed
from ..nn.prediction import in_units
from .decision import rows_judged

NO_FIGURES = ("rows", "threshold", "weighted", "target")  # keys of test that are facts


def summary(each: Sequence[dict]) -> dict:
    """Return {"mean": {figure: number or None}, "std": ...} over the figures of `test`
    for several networks.

    std is that of a sample, by n - 1. A figure that is undefined for one of them does
    not count there.
    """
    found: dict[str, dict] = {"mean": {}, "std": {}}
    for name, first in each[0].items():
        if name in NO_FIGURES or isinstance(first, (list, dict, str)):
            continue
        values = [figures[name] for figures in each if figures[name] is not None]
        if values:
            found["mean"][name] = float(np.mean(values))
        else:
            found["mean"][name] = None
        if len(values) > 1:
            found["std"][name] = float(np.std(values, ddof=1))
        else:
            found["std"][name] = None
    return found


def predicted_out_of_fold(
    networks: Sequence[Network],
    ds: Dataset,
    folds: Sequence[Fold],
    scores: Sequence[np.ndarray | None],
) -> Crossed:
    """Return the rows of ds that folds test, each as the network of its fold predicts
    it.

    scores: of each fold's rows, as its engine gave them; None: those of the network as
    it is.
    """
    tested = np.concatenate([fold.tested for fold in folds])
    order = np.argsort(tested, kind="stable")
    of_row = np.repeat(np.arange(len(folds)), [len(fold.tested) for fold in folds])
    outputs = []
    for net, fold, known in zip(networks, folds, scores, strict=True):
        if known is None:
            outputs.append(rows_judged(net, ds, fold.tested).scores)
        else:
            outputs.append(in_units(net, known))
    return Crossed.of(
        ds.rows,
        tested[order],
        of_row[order],
        np.concatenate(outputs)[order],
        len(folds),
    )
