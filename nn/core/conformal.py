"""Conformal prediction: how far a prediction may be off, by rows that no network of
the model knew: the interval of a value, the set of classes.

A prediction of new rows like these is right at a level, say .9, in that share of them,
whatever the network (Vovk, Gammerman, Shafer 2005). An interval is wider where the
network errs more: residuals count in units of their mean size near the prediction (Lei
et al. 2018). A set holds the classes that are as likely as those that were true of most
rows; of a class with many rows, by these alone (Sadinle, Lei, Wasserman 2019).

    known = Intervals.of(truth, predicted, bounds)
    low, high = known.interval(values, 0.9)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..utils import UsageError
from .weighted import at_rows

USUAL_LEVEL = (
    0.9  # of which a test tells how many rows are right, unless it is asked another
)
LEAST_ROWS = 30  # that judge: fewer tell no interval
# that are kept; between two of them counts the higher one
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
LEVELS += (0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999)
POINTS = 33  # predictions at which the size of residuals is kept
NEAR = 0.1  # share of the rows that are near a prediction, LEAST_ROWS at least
LEAST_SCALE = 1e-3  # of residuals near a prediction, as a part of that of all
OWN_ROWS = 100  # of a class that is judged by its own rows alone
LARGEST_NUMBER = sys.float_info.max
ROUNDING = 1e-9  # of a level, of a sum of masses


def masses_of(
    count: int, weights: np.ndarray | None, groups: np.ndarray | None
) -> np.ndarray:
    """Return how much each of `count` rows counts; together as many as there are rows,
    or groups: a row of a group counts as its part of the group."""
    if weights is None:
        masses = np.ones(count)
    else:
        masses = np.asarray(weights, np.float64)
    size = count
    if groups is not None:
        _, of_row = np.unique(groups, return_inverse=True)
        rows = np.bincount(of_row.reshape(-1))
        masses = masses / rows[of_row.reshape(-1)]
        size = len(rows)
    return masses * (size / masses.sum())


def upper_quantiles(
    values: np.ndarray, masses: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return for each level the smallest value v such that a new one is at most v in
    that share of cases: the level (n + 1)-th smallest of n values, each counted by its
    mass; the largest where n are too few."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(masses[order])
    counts = np.asarray(levels) * (below[-1] + 1) - ROUNDING * below[-1]
    places = np.searchsorted(below, counts)
    return values[order][np.minimum(places, len(values) - 1)]


def levels_below(most: float) -> np.ndarray:
    """Return the levels that are kept where `most` is the largest possible one."""
    return np.array([*(level for level in LEVELS if level < most), most])


def place_of(levels: Sequence[float], level: float) -> int:
    """Return which of the ascending levels stands for one that is asked: the least that
    is no lower. Raises UsageError for one above all of them."""
    place = int(np.searchsorted(levels, level - ROUNDING))
    if place == len(levels):
        least_below = math.floor(levels[-1] * 1e4) / 1e4
        raise UsageError(
            f"--level {level:g}: the rows that judge the model are too few for it; ask for at most {least_below:g}"
        )
    return place


def known_at(
    sureness: Intervals | ClassSets | LabelSets | None, level: float
) -> Intervals | ClassSets | LabelSets:
    """Return what a model knows. Raises UsageError where that is nothing, and for a
    level that it does not have."""
    if sureness is None:
        raise UsageError(
            "--level: the model does not know how sure it is: fewer than 30 rows judged it, or one of its "
            "targets (--folds or --validation give such rows), it has several quantiles, or it was trained before models kept it"
        )
    place_of(sureness.levels, level)
    return sureness


# ---------------------------------------------------------------- intervals


class TargetResiduals(NamedTuple):
    """Residuals of a target: their mean size (scale) at some predictions (at), straight
    lines between; of each level the lowest and the highest one, in units of that size.
    bounds: that no value leaves, None: there is none."""

    at: list[float]
    scale: list[float]
    low: list[float]
    high: list[float]
    bounds: list[float | None]

    @property
    def limits(self) -> tuple[float, float]:
        """Return the bounds as numbers, those of float64 where there is none."""
        least, most = self.bounds
        return (
            -LARGEST_NUMBER if least is None else least,
            LARGEST_NUMBER if most is None else most,
        )

    def ends(self, predicted: np.ndarray, place: int) -> list[np.ndarray]:
        """Return the low and high ends for predictions, at the level of a place."""
        scale = np.interp(predicted, self.at, self.scale)
        factors = self.low[place], self.high[place]
        with np.errstate(over="ignore"):
            return [
                np.clip(predicted + scale * factor, *self.limits) for factor in factors
            ]


class Intervals(NamedTuple):
    """The intervals of a regression's predictions. levels: ascending; the last is the
    largest that its rows can give."""

    levels: list[float]
    targets: list[TargetResiduals]

    @classmethod
    def of(
        cls,
        truth: np.ndarray,
        predicted: np.ndarray,
        bounds: Sequence[Sequence[float | None]] | None = None,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> Intervals | None:
        """Return those that rows tell, None where they tell none: of too few rows, or
        groups, and of residuals beyond float64.

        truth, predicted: (rows, targets). bounds: (low, high) of each target.
        """
        are_known = ~np.isnan(np.asarray(truth, np.float64)).T
        if are_known.sum(axis=1).min() < LEAST_ROWS:
            return None
        masses = [
            masses_of(known.sum(), at_rows(weights, known), at_rows(groups, known))
            for known in are_known
        ]
        most = 1 - 2 / (min(one.sum() for one in masses) + 1)
        if most <= ROUNDING:
            return None
        levels = levels_below(most)
        targets = [
            _residuals_of(y[known], p[known], *others, levels)
            for known, y, p, *others in zip(
                are_known,
                np.asarray(truth, np.float64).T,
                np.asarray(predicted, np.float64).T,
                bounds or [(None, None)] * truth.shape[1],
                masses,
                strict=True,
            )
        ]
        if None in targets:
            return None
        return cls(levels.tolist(), targets)

    @classmethod
    def from_dict(cls, values: dict) -> Intervals:
        """Return what to_dict has written."""
        targets = [TargetResiduals(**target) for target in values["targets"]]
        return cls(values["levels"], targets)

    def to_dict(self) -> dict:
        """Return it as JSON."""
        targets = [target._asdict() for target in self.targets]
        return {"levels": self.levels, "targets": targets}

    def interval(
        self, predicted: np.ndarray, level: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the low and the high ends (rows, targets), float64, for predictions
        (rows, targets). Raises UsageError for too high a level."""
        place = place_of(self.levels, level)
        columns = zip(self.targets, predicted.astype(np.float64).T, strict=True)
        ends = [target.ends(column, place) for target, column in columns]
        low, high = np.moveaxis(np.array(ends), 1, 0)
        return low.T, high.T

    def held_and_widths(self, truth: np.ndarray, predicted: np.ndarray, level: float):
        """Return (1 where a value lies in its interval, nan where it is missing, the
        interval's width), both (rows, targets)."""
        low, high = self.interval(predicted, level)
        with np.errstate(over="ignore"):
            are_held = (low <= truth) & (truth <= high)
            return np.where(np.isnan(truth), np.nan, are_held), high - low


def _residuals_of(
    truth: np.ndarray,
    predicted: np.ndarray,
    bounds: Sequence[float | None],
    masses: np.ndarray,
    levels: np.ndarray,
) -> TargetResiduals | None:
    """Return what is kept of a target's residuals (rows,); None where they leave
    float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        residuals = truth - predicted
        at, scale = scale_near(predicted, np.abs(residuals), masses)
        scaled = residuals / np.interp(predicted, at, scale)
        upper = (1 + levels) / 2
        low = -upper_quantiles(-scaled, masses, upper)
        high = upper_quantiles(scaled, masses, upper)
    if not all(np.isfinite(part).all() for part in (at, scale, low, high)):
        return None
    return TargetResiduals(
        at.tolist(), scale.tolist(), low.tolist(), high.tolist(), list(bounds)
    )


def scale_near(
    predicted: np.ndarray, sizes: np.ndarray, masses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (some predictions, from the least to the largest; the mean size of the
    residuals of the rows with the nearest predictions, at each of them)."""
    order = np.argsort(predicted, kind="stable")
    values = predicted[order]
    rows = len(values)
    near = max(min(LEAST_ROWS, rows), round(NEAR * rows))
    ranks = np.linspace(0, rows - 1, POINTS).round().astype(np.int64)
    at = np.unique(values[ranks])
    # a row further on is as near from half-way between the two that it parts on
    half_ways = values[:-near] / 2 + values[near:] / 2
    first = np.searchsorted(half_ways, at)
    weighted = np.cumsum(np.append(0.0, (sizes * masses)[order]))
    whole = np.cumsum(np.append(0.0, masses[order]))
    scale = (weighted[first + near] - weighted[first]) / (
        whole[first + near] - whole[first]
    )
    mean = weighted[-1] / whole[-1]
    if mean == 0:
        return at, np.ones(len(at))
    return at, np.maximum(scale, LEAST_SCALE * mean)


# ---------------------------------------------------------------- sets of classes


class ClassSets(NamedTuple):
    """The sets of classes of a classifier's predictions. levels: ascending; the last is
    the largest that its rows can give. least: the score from which a class is in the
    set, of each level, first for all classes, then for those with many rows. of_class:
    which of these holds for each class."""

    levels: list[float]
    least: list[list[float]]
    of_class: list[int]

    @classmethod
    def of(
        cls,
        truth: np.ndarray,
        scores: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> ClassSets | None:
        """Return those that rows tell, None where they are too few. truth (rows,),
        scores (rows, outputs), of two classes that of the second alone."""
        if len(truth) < LEAST_ROWS:
            return None
        scores = by_class(scores)
        truth = np.asarray(truth, np.int64)
        of_true = -scores[np.arange(len(truth)), truth]
        masses = masses_of(len(truth), weights, groups)
        size = masses.sum()
        levels = levels_below(size / (size + 1))
        of_all = upper_quantiles(of_true, masses, levels)
        least = [-of_all]
        of_class = [0] * scores.shape[1]
        for number in range(scores.shape[1]):
            are_of_class = truth == number
            if np.count_nonzero(are_of_class) < OWN_ROWS:
                continue
            parts = [at_rows(part, are_of_class) for part in (weights, groups)]
            masses = masses_of(np.count_nonzero(are_of_class), *parts)
            bounds = upper_quantiles(of_true[are_of_class], masses, levels)
            size = masses.sum()
            of_class[number] = len(least)
            least.append(-np.where(levels <= size / (size + 1), bounds, of_all))
        return cls(levels.tolist(), [part.tolist() for part in least], of_class)

    @classmethod
    def from_dict(cls, values: dict) -> ClassSets:
        """Return what to_dict has written."""
        return cls(**values)

    def to_dict(self) -> dict:
        """Return it as JSON."""
        return self._asdict()

    def least_at(self, level: float) -> np.ndarray:
        """Return the score from which each class is in the set. Raises UsageError for
        too high a level."""
        place = place_of(self.levels, level)
        return np.array([self.least[part][place] for part in self.of_class])

    def sets(self, scores: np.ndarray, level: float) -> np.ndarray:
        """Return which classes are in the set of each row (rows, classes), the
        likeliest always. Raises UsageError for too high a level."""
        scores = by_class(scores)
        are_members = scores >= self.least_at(level)
        are_members[np.arange(len(scores)), scores.argmax(axis=1)] = True
        return are_members

    def named(self, scores: np.ndarray, level: float, names: Sequence) -> list[list]:
        """Return the classes of the set of each row, by their names."""
        return [
            [names[number] for number in np.flatnonzero(row)]
            for row in self.sets(scores, level)
        ]

    def held_and_widths(self, truth: np.ndarray, scores: np.ndarray, level: float):
        """Return (whether the true class of each row is in its set, how many are), both
        (rows, 1)."""
        sets = self.sets(scores, level)
        truth = np.asarray(truth, np.int64)
        return sets[np.arange(len(truth)), truth][:, None], sets.sum(1)[:, None]


class LabelSets(NamedTuple):
    """The sets of classes of several targets of two classes: labels, those of each.
    Their truth is (rows, targets), of which some may be missing, as are the scores of
    their second classes."""

    labels: list[ClassSets]

    @classmethod
    def of(
        cls,
        truth: np.ndarray,
        scores: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> LabelSets | None:
        """Return those that the rows of each target tell, None where they are too few
        for one of them."""
        truth = np.asarray(truth, np.float64)
        labels = [
            ClassSets.of(
                y[known],
                p[known, None],
                at_rows(weights, known),
                at_rows(groups, known),
            )
            for known, y, p in zip(~np.isnan(truth.T), truth.T, scores.T, strict=True)
        ]
        return None if None in labels else cls(labels)

    @classmethod
    def from_dict(cls, values: dict) -> LabelSets:
        """Return what to_dict has written."""
        return cls([ClassSets.from_dict(one) for one in values["labels"]])

    def to_dict(self) -> dict:
        """Return it as JSON."""
        return {"labels": [one.to_dict() for one in self.labels]}

    @property
    def levels(self) -> list[float]:
        """Return the levels of the target that ends lowest: all targets have these."""
        return min((one.levels for one in self.labels), key=lambda levels: levels[-1])

    def _columns(self, scores: np.ndarray) -> list[tuple[ClassSets, np.ndarray]]:
        """Return the sets of each target, and its scores (rows, 1)."""
        return [*zip(self.labels, scores.T[:, :, None], strict=True)]

    def least_at(self, level: float) -> np.ndarray:
        """Return the score from which a class is in the set, (targets, 2)."""
        return np.array([one.least_at(level) for one in self.labels])

    def sets(self, scores: np.ndarray, level: float) -> np.ndarray:
        """Return which classes are in the sets of each row (rows, targets, 2)."""
        sets = [one.sets(column, level) for one, column in self._columns(scores)]
        return np.stack(sets, axis=1)

    def named(self, scores: np.ndarray, level: float, names: Sequence) -> list[list]:
        """Return the sets of each row, one of each target, by the names of its two
        classes."""
        named = [
            one.named(column, level, pair)
            for (one, column), pair in zip(self._columns(scores), names, strict=True)
        ]
        return [list(row) for row in zip(*named, strict=True)]

    def held_and_widths(self, truth: np.ndarray, scores: np.ndarray, level: float):
        """Return (1 where the true class is in the set, nan where it is missing; how
        many classes are), both (rows, targets)."""
        are_missing = np.isnan(truth)
        known = np.where(are_missing, 0, truth)
        both = [
            one.held_and_widths(y, column, level)
            for (one, column), y in zip(self._columns(scores), known.T, strict=True)
        ]
        held = np.hstack([of_target for of_target, _ in both])
        widths = np.hstack([of_target for _, of_target in both])
        return np.where(are_missing, np.nan, held), widths


# what a task's predictions have
KIND_OF_TASK = {
    "binary": ClassSets,
    "multiclass": ClassSets,
    "multilabel": LabelSets,
    "regression": Intervals,
}


def by_class(scores: np.ndarray) -> np.ndarray:
    """Return scores (rows, classes), float64, of scores (rows, outputs)."""
    scores = scores.astype(np.float64)
    if scores.shape[1] == 1:
        return np.hstack([1 - scores, scores])
    return scores
