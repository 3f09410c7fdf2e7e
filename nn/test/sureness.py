"""How sure predictions are, by rows that judged a network: intervals of values, sets of
classes, and how many rows they hold."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.conformal import (
    KIND_OF_TASK,
    USUAL_LEVEL,
    ClassSets,
    Intervals,
    LabelSets,
    known_at,
)
from ..core.weighted import at_rows
from ..nn import Network
from ..nn_aux import ACTIVATIONS, TASKS, quantiles_of


def conformal_of(
    net: Network,
    truth: np.ndarray,
    scores: np.ndarray,
    weights=None,
    groups=None,
    bounds=None,
) -> Intervals | ClassSets | LabelSets | None:
    """Return how sure predictions of a network are, by rows that it does not know; None
    where they are too few to tell. bounds: of intervals, as bounds_of returns them."""
    # several quantiles are intervals themselves
    if quantiles_of(net.loss):
        return None
    if net.task == "regression":
        truth = truth.reshape(scores.shape)
        return Intervals.of(truth, scores, bounds, weights, groups)
    return KIND_OF_TASK[net.task].of(truth, scores, weights, groups)


def bounds_of(net: Network) -> list[list[float | None]]:
    """Return [low, high] of each target: what no prediction leaves, by its output layer
    or by --clip; None for no bound."""
    function = ACTIVATIONS[net.layers[-1].output_function]
    bounds = function.low, function.high
    if function.from_input:  # which falls a little below where targets end
        bounds = -math.inf, math.inf
    ends = np.repeat(np.array(bounds)[:, None], net.outputs, axis=1)
    scalings = [member.target_scaling for member in net.members]
    with np.errstate(invalid="ignore"):  # of a target of one value
        ends_in_units = [
            ends if scaling is None else scaling.inverse(ends) for scaling in scalings
        ]
    low = np.min([scaling[0] for scaling in ends_in_units], axis=0)
    high = np.max([scaling[1] for scaling in ends_in_units], axis=0)
    return [
        [end if math.isfinite(end) else None for end in both]
        for both in np.stack([low, high], axis=1).tolist()
    ]


class Held(NamedTuple):
    """Rows that intervals or sets of a level hold: whether the truth of each, nan where
    it is missing, (rows, targets), of one target of classes (rows, 1); their widths or
    sizes, of the same shape."""

    level: float
    are_held: np.ndarray
    widths: np.ndarray

    def figures(self, weights=None) -> dict:
        """Return the keys `level`, `coverage`, `width` of `test`: the share of rows
        that are held, None of a target that no row has, and the mean width, None beyond
        float64; of several targets the means of theirs."""
        figures: dict = {"level": self.level, "coverage": None, "width": None}
        coverage = _mean_of_known(self.are_held, weights)
        if np.isfinite(coverage):
            figures["coverage"] = float(coverage)
        width = np.average(self.widths.mean(axis=1), weights=weights)
        if np.isfinite(width):
            figures["width"] = float(width)
        return figures

    def of_target(self, number: int) -> Held:
        """Return what those of a target hold."""
        part = slice(number, number + 1)
        return self._replace(
            are_held=self.are_held[:, part], widths=self.widths[:, part]
        )


def _mean_of_known(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the mean of values (rows, targets), of which some may be missing; nan
    where all are."""
    if not np.isnan(values).any():
        return np.average(values.mean(axis=1), weights=weights)
    counts = ~np.isnan(values) * (1.0 if weights is None else weights[:, None])
    return np.nansum(values * counts) / (counts.sum() or np.nan)


def held(net: Network, truth, scores, level: float | None = None) -> Held | None:
    """Return what a network's intervals or sets hold; None without any, unless a level
    is asked for. level: None takes the usual one, or the highest below it."""
    level = level_of(net, level)
    if level is None:
        return None
    sureness = known_at(net.conformal, level)
    return Held(level, *sureness.held_and_widths(truth, scores, level))


def level_of(net: Network, level: float | None) -> float | None:
    """Return the level that is asked for; without one the usual, or the highest below
    it, None of a network that has none."""
    sureness = getattr(net, "conformal", None)
    if level is not None or sureness is None:
        return level
    return min(USUAL_LEVEL, sureness.levels[-1])


def held_by_others(
    net: Network,
    rows: tuple,
    of_row: np.ndarray,
    groups=None,
    level: float | None = None,
) -> Held | None:
    """Return what intervals or sets of the rows of each fold hold that the rows of the
    others tell, without the bounds of the networks; None where these are too few.

    rows: (truth, scores, weights or None) of rows that folds judge; of_row (rows,),
    groups (rows,): the fold and the group of each.
    """
    level = level_of(net, level)
    if level is None:
        return None
    known_at(net.conformal, level)
    parts = [*rows, groups]
    width = net.outputs if TASKS[net.task].by_output else 1
    both = np.empty((2, len(of_row), width))
    for fold in np.unique(of_row):
        of_fold = of_row == fold
        others = [at_rows(part, ~of_fold) for part in parts]
        sureness = conformal_of(net, *others)
        if sureness is None or sureness.levels[-1] < level:
            return None
        both[:, of_fold] = sureness.held_and_widths(
            rows[0][of_fold], rows[1][of_fold], level
        )
    return Held(level, both[0], both[1])
