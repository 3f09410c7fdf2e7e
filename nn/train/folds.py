"""Figures of a cross-validation: over its folds, and of each row by the network that did not know it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..data.splits import Fold, fold_rows, split_rows
from ..ds import Dataset
from ..nn import Network
from ..nn.prediction import mean_of
from ..nn_aux import OF_FOLD
from ..test import figures_of, remarks
from ..utils import DataError, told_once
from .decision import judged

NO_FIGURES = ("rows", "threshold", "weighted")  # keys of test that are facts


def summary(each: Sequence[dict]) -> dict:
    """Return {"mean": {figure: number or None}, "std": ...} over the figures of `test` for several networks.

    std is that of a sample, by n - 1. A figure that is undefined for one of them does not count there.
    """
    found: dict[str, dict] = {"mean": {}, "std": {}}
    for name, first in each[0].items():
        if name in NO_FIGURES or isinstance(first, (list, dict, str)):
            continue
        values = [figures[name] for figures in each if figures[name] is not None]
        found["mean"][name] = float(np.mean(values)) if values else None
        found["std"][name] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return found


def out_of_fold(
    net: Network, ds: Dataset, folds: Sequence[Fold] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (rows, their folds, outputs) of a network that `folds` trained on ds: each row by the fold's network.

    folds: those of ds, if they are known. rows: indices of those that a fold tested, ascending. Several
    cross-validations may have trained the network (effort): outputs are then their weighted mean. Probabilities are
    calibrated by the temperature of the network.
    """
    folds = _folds_of(net, ds) if folds is None else folds
    parts = [fold.tested for fold in folds]
    tested = np.concatenate(parts)
    order = np.argsort(tested, kind="stable")
    outputs = [
        judged(net, ds, part, partial(_mean_of, net, number, len(folds)))[1] for number, part in enumerate(parts)
    ]
    of_fold = np.repeat(np.arange(len(folds)), [len(part) for part in parts])
    return tested[order], of_fold[order], net.calibrated(np.concatenate(outputs)[order])


def unseen_parts(net: Network, ds: Dataset) -> list[tuple[np.ndarray, list]]:
    """Return for each fold that `folds` trained net on its rows of ds, and [(member, weight)] that do not know them."""
    folds, each = _folds_of(net, ds), [*zip(net.members, net.member_weights, strict=True)]
    return [(fold.tested, each[number :: len(folds)]) for number, fold in enumerate(folds)]


def _folds_of(net: Network, ds: Dataset) -> list[Fold]:
    """Return the folds of ds that `folds` trained net on. Raises DataError for a damaged model."""
    config, folds = net.config, net.config.get("folds", len(net.members))
    if not 0 < folds <= len(net.members) or "holdout" not in config:
        raise DataError(f"damaged model: {folds} folds of {len(net.members)} networks; train again")
    seed = config.get("split_seed", net.seed)
    rows = split_rows(ds, config["holdout"], 0.0, seed).training
    return fold_rows(ds, rows, folds, seed, config.get("validation") == OF_FOLD)


def _mean_of(net: Network, fold: int, folds: int, x) -> np.ndarray:
    """Return the weighted mean of the outputs of all networks of a fold: each folds-th member."""
    each = (member.predict(x).astype(np.float64) for member in net.members[fold::folds])
    return mean_of(each, net.member_weights[fold::folds]).astype(net.dtype)


def figures_out_of_fold(
    net: Network, ds: Dataset, found=None, *, threshold: float | None = None, intervals: bool = False,
    each: bool = False,
) -> dict:  # fmt: skip
    """Return the figures of `test` where each row is predicted by the network that did not know it, and `out_of_fold`.

    ds: what `folds` trained net on. found: what out_of_fold returns for it, if it is known. each: adds the key
    `members`, the figures of each fold.
    """
    rows, of_fold, scores = found or out_of_fold(net, ds)
    result = figures_of(net, ds.of_rows(rows, inputs=False), scores, threshold=threshold, intervals=intervals)
    if each:
        with told_once(remarks):
            result["members"] = figures_by_fold(net, ds, rows, of_fold, scores, threshold)
    return {**result, "out_of_fold": True}


def figures_by_fold(net: Network, ds: Dataset, rows, of_fold, scores, threshold: float | None = None) -> list[dict]:
    """Return the figures of `test` for each fold; rows, of_fold, scores: as out_of_fold returns them."""
    parts = [np.flatnonzero(of_fold == fold) for fold in np.unique(of_fold)]
    return [figures_of(net, ds.of_rows(rows[part], False), scores[part], threshold=threshold) for part in parts]
