"""The losses of outputs that are the same for every row, which tell whether a training
learned anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .. import cluster
from ..core.losses import (
    LEAST_CLASS_SHARE,
    SLOPES,
    row_losses,
    targets_and_weights,
)
from ..core.metrics import are_probabilities, row_log_losses
from ..core.weighted import standard_error
from ..data.causes import cause_in
from ..data.splits import Fold
from ..ds import Dataset
from ..nn_aux import TASKS, constant_told, loss_name, loss_of
from .reports import remarks

# of the range of the targets, in which the best output by mae or huber lies
HALVINGS = 60


class Targets(NamedTuple):
    """Targets of rows: values (n, outputs), and how many rows, or which weight, has
    each of them (n,)."""

    values: np.ndarray
    counts: np.ndarray


class Baseline(NamedTuple):
    """Losses, for the rows that judge a network, of outputs that are the same for every
    row.

    reported: of class shares or the mean of the training rows (of the output that is
    best there). least: of the output that is best for the rows that judge, which a
    network that gives the same output for all cannot get below.
    """

    reported: float
    least: float


def targets_of(
    y: np.ndarray, weights: np.ndarray | None = None, *, outputs: int
) -> Targets:
    """Return the targets of rows as an engine takes them, (rows, outputs) or classes
    (rows,), which are counted."""
    if weights is None:
        counts = np.ones(len(y))
    else:
        counts = weights.astype(np.float64)
    if y.ndim == 1 and outputs > 1:
        return Targets(np.eye(outputs), np.bincount(y, counts, outputs))
    return Targets(y.reshape(len(y), -1).astype(np.float64), counts)


def baseline_of(loss: str, training: Targets, judged: Targets) -> Baseline:
    """Return the baseline by a loss, as --loss writes it."""
    # what is not finite is undefined
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = [best_output(loss, targets) for targets in (training, judged)]
        losses = [
            np.average(row_losses(loss, out, judged.values), weights=judged.counts)
            for out in outputs
        ]
    return Baseline(*map(float, losses))


def best_output(loss: str, targets: Targets) -> np.ndarray:
    """Return the output (outputs,) with the least loss: the class shares or the mean,
    of mae the median."""
    counts = targets.counts
    values, weights = targets_and_weights(loss, targets.values)
    slope = SLOPES.get(loss_name(loss))
    if slope is None and (weights == 1).all():
        return counts @ values / counts.sum()
    if slope is None:
        sums = counts @ np.where(weights > 0, values * weights, 0)
        return sums / (counts @ weights)
    low = np.nanmin(values, axis=0)
    high = np.nanmax(values, axis=0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slopes = slope(middle, values, *loss_of(loss).constants)
        is_above = counts @ np.where(weights > 0, slopes * weights, 0) > 0
        low = np.where(is_above, low, middle)
        high = np.where(is_above, middle, high)
    return (low + high) / 2


def share_explained(
    loss: str, own: float, y: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return 1 less the loss of a network, `own`, over that of the output that is best
    for all rows alike, as R2 is of the mean squared error. y (rows, outputs)."""
    targets = targets_of(y, weights, outputs=y.shape[1])
    constant = best_output(loss, targets)
    losses = row_losses(loss, constant, targets.values)
    return float(1 - own / np.average(losses, weights=targets.counts))


def learned(
    outcomes: Sequence[tuple[float | None, Baseline | None]],
    weights: Sequence[float] = (1.0,),
) -> dict:
    """Return the figures `learned` and `baseline` of networks with these (loss,
    baseline); None where undefined."""
    outcomes_known = [
        (loss, *baseline)
        for loss, baseline in outcomes
        if loss is not None and baseline is not None
    ]
    if len(outcomes_known) < len(outcomes) or not np.isfinite(outcomes_known).all():
        return {"learned": None, "baseline": None}
    loss, reported, least = np.average(outcomes_known, axis=0, weights=weights).tolist()
    return {"learned": loss < least, "baseline": reported}


def learned_by_rows(
    ds: Dataset,
    scores: np.ndarray,
    outputs: int,
    of_row: np.ndarray | None = None,
    known_targets: Sequence[Targets] | None = None,
    loss: str | None = None,
) -> dict:
    """Return the figures `learned` and `baseline` of scores of rows that their networks
    do not know; None where undefined: whether their loss, the log loss, the MSE or the
    metric of `loss`, is less than
    that of the baseline by more than one standard error of the difference, and less
    than that of the constant that is best for all these rows; and the baseline's loss.

    of_row (rows,): the fold of each row, whose baseline are the class shares or the
    mean of the other folds' rows; None: those of all rows, where no fold knows them
    apart. known_targets: of folds in time the targets that each knows, which give its
    baseline then; a constant that knows later rows as well does not count.
    """
    if loss is None or loss_of(loss).metric is None:
        loss = TASKS[ds.task].loss
    of_all = best_output(loss, targets_of(ds.y, ds.weights, outputs=outputs))
    least_losses = _losses_of_constants(ds, np.tile(of_all, (len(ds.y), 1)), loss)
    baseline_losses = least_losses
    if known_targets is not None:
        of_folds = [best_output(loss, targets) for targets in known_targets]
        baseline_losses = _losses_of_constants(ds, np.array(of_folds)[of_row], loss)
    elif of_row is not None:
        baseline_losses = _losses_of_constants(
            ds, _constants_by_others(ds, of_all, of_row, loss), loss
        )
    own_losses = _row_losses(ds, scores, loss)
    differences = baseline_losses - own_losses
    if not np.isfinite(differences).all() or not np.isfinite(baseline_losses).all():
        return {"learned": None, "baseline": None}
    gain = float(np.average(differences, weights=ds.weights))
    is_surely_better = gain > standard_error(differences, ds.weights, ds.groups)
    is_better_than_any = (
        float(np.average(least_losses - own_losses, weights=ds.weights)) > 0
    )
    baseline = float(np.average(baseline_losses, weights=ds.weights))
    if TASKS[ds.task].by_output:
        # of the targets that rows have, as metrics are
        are_known = ~np.isnan(ds.y).reshape(len(ds.y), -1)
        baseline /= float(np.average(are_known.mean(axis=1), weights=ds.weights))
    return {
        "learned": is_surely_better
        and (known_targets is not None or is_better_than_any),
        "baseline": baseline,
    }


def known_in_time(ds: Dataset, folds: Sequence[Fold], outputs: int) -> list[Targets]:
    """Return the targets of the rows before each fold in time, which its network is
    trained on."""
    before = [ds.of_rows(fold.training, inputs=False) for fold in folds]
    return [targets_of(rows.y, rows.weights, outputs=outputs) for rows in before]


def _constants_by_others(
    ds: Dataset, of_all: np.ndarray, of_row: np.ndarray, loss: str
) -> np.ndarray:
    """Return for each row the class shares or the mean of the rows of the other folds
    (rows, outputs); of_all (outputs,), those of all rows, where there is one fold."""
    constants = np.tile(of_all, (len(ds.y), 1))
    for fold in np.unique(of_row):
        others = of_row != fold
        if others.any():
            weights = ds.weights_of(others)
            targets = targets_of(ds.y[others], weights, outputs=len(of_all))
            constants[of_row == fold] = best_output(loss, targets)
    return constants


def _row_losses(ds: Dataset, scores: np.ndarray, loss: str) -> np.ndarray:
    """Return the log loss or, of numbers, `loss` of each row; nan where scores are no
    probabilities."""
    if TASKS[ds.task].by_output:
        return _losses_of_constants(ds, scores.astype(np.float64), loss)
    if ds.task == "binary":
        scores = scores[:, 0]
    if not are_probabilities(scores):
        return np.full(len(scores), np.nan)
    return row_log_losses(ds.y, scores)


def _losses_of_constants(ds: Dataset, constants: np.ndarray, loss: str) -> np.ndarray:
    """Return the loss of each row by the class shares or the mean that it is judged
    beside (rows, outputs)."""
    if TASKS[ds.task].by_output:
        with np.errstate(all="ignore"):
            return row_losses(loss, constants, ds.y.reshape(len(ds.y), -1))
    shares = constants
    if ds.task == "binary":
        shares = np.column_stack([1 - constants[:, 0], constants[:, 0]])
    of_true_class = shares[np.arange(len(ds.y)), ds.y]
    return -np.log(np.clip(of_true_class, LEAST_CLASS_SHARE, 1.0))


OF_REFERENCE = (
    "all its weights begin above 0, which saturates its sigmoids: try --scaling standardization with a larger "
    "--learning_rate and more --epochs"
)


def warn_if_not_learned(
    figures: dict, ds: Dataset, loss: str, reference: bool = False
) -> None:
    """Warn, on rank 0, of a training on ds by a loss that learned nothing, with the
    likely cause and what to do. reference: it was the original program's."""
    if figures["learned"] is not False or cluster.current().rank:
        return
    cause = _cause_in_training(figures, ds)
    if reference:
        cause = OF_REFERENCE
    cause = cause_in(ds) or cause
    kind = _judging_rows(figures)
    same = constant_told(loss, figures)
    message = (
        f"its {kind} loss is no better than that of {same}, {figures['baseline']:.4g}"
    )
    if {"out_of_fold", "validated", "folds"} & figures.keys():
        message = f"{message}, by more than one standard error of the difference"
    remarks.warning("the network learned nothing: %s; %s", message, cause)


def _judging_rows(figures: dict) -> str:
    """Return the word for the rows whose loss tells whether a training learned."""
    if "out_of_fold" in figures:
        return "out-of-fold"
    if "monitor" in figures:
        return "validation"
    if "folds" in figures:
        return "out-of-fold"
    if figures["val_loss"]:
        return "held-out"
    return "training"


def _cause_in_training(figures: dict, ds: Dataset) -> str:
    """Return why a training that learned nothing probably did so, and what to do."""
    if "effort" in figures and ds.are_images:
        return "its pictures tell too little of the target: try more of them"
    if "effort" in figures:
        return "its columns tell too little of the target: try others, or more rows"
    if figures["val_loss"] and figures["loss"][-1] < figures["baseline"]:
        cures = "--validation 0.2 --patience 10, a larger --weight_decay or more rows"
        return f"what it learned is true of its training rows alone: try {cures}"
    return "its training got nowhere: try another --learning_rate or --seed, more --epochs or --activation silu"
