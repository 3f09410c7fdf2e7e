"""Crossed: what a cross-validation tells of each row of its data, which a model keeps:
the row's fold, and its scores as the network that does not know it predicts them, at
the epoch and weights that the other folds choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.thresholds import tempered
from ..files.model_file import SCORE_TYPE

MOST_SCORE_BYTES = 10**9  # of scores that a model keeps


def fold_type(folds: int) -> np.dtype:
    """Return the type of the numbers of folds: a byte, while a value is left that
    stands for no fold."""
    return np.dtype(np.uint8 if folds <= no_fold(np.dtype(np.uint8)) else np.uint32)


def no_fold(kind: np.dtype) -> int:
    """Return what stands for no fold among numbers of folds."""
    return int(np.iinfo(kind).max)


@dataclass(frozen=True, eq=False)
class Crossed:
    """The folds of the rows of a data set, and the scores of those that a fold judges.

    fold (rows of the data,): no_fold where none judges the row. scores: of the rows
    that are judged, as the data has them one after the other, (judged rows, outputs),
    float32 whatever the network's type, in the targets' units and before any
    temperature; None in the model of a file that keeps none. temperatures, thresholds:
    of each fold, found on the rows of the others. figures: those of `test` for all rows
    that are judged, with their intervals, where the scores are more than
    MOST_SCORE_BYTES: a file has them in the place of the scores. is_retrained: whether
    the model's networks were trained on all rows since, so that none of them predicts a
    row without knowing it. are_apart: whether each output is of a target of its own.
    """

    fold: np.ndarray
    scores: np.ndarray | None
    temperatures: Sequence[float]
    thresholds: Sequence[float | list[float]]
    figures: dict | None = None
    is_retrained: bool = False
    are_apart: bool = False

    @classmethod
    def of(
        cls,
        count: int,
        rows: np.ndarray,
        of_row: np.ndarray,
        scores: np.ndarray,
        folds: int,
    ) -> Crossed:
        """Return it for `count` rows of data, of which `rows`, ascending, are judged,
        each in the fold of_row."""
        kind = fold_type(folds)
        fold = np.full(count, no_fold(kind), kind)
        fold[rows] = of_row
        return cls(
            fold, scores.astype(SCORE_TYPE, copy=False), [1.0] * folds, [0.5] * folds
        )

    @property
    def is_large(self) -> bool:
        """Return whether the scores are more than a model keeps."""
        return self.scores is not None and self.scores.nbytes > MOST_SCORE_BYTES

    @property
    def rows(self) -> np.ndarray:
        """Return the indices of the rows that are judged."""
        return np.flatnonzero(self.fold != no_fold(self.fold.dtype))

    @property
    def of_row(self) -> np.ndarray:
        """Return the fold of each row that is judged."""
        return self.fold[self.rows].astype(np.int64)

    @property
    def threshold_of_row(self) -> np.ndarray:
        """Return the threshold of each row that is judged, (rows,); of several targets
        (rows, 1) or (rows, targets)."""
        of_row = np.array(self.thresholds, np.float64)[self.of_row]
        return of_row.reshape(len(of_row), -1) if self.are_apart else of_row

    @property
    def calibrated(self) -> np.ndarray:
        """Return the scores, those of each fold by its temperature."""
        if {*self.temperatures} == {1.0}:
            return self.scores
        of_row = self.of_row
        scores = self.scores.copy()
        for fold, temperature in enumerate(self.temperatures):
            rows = of_row == fold
            scores[rows] = tempered(scores[rows], temperature, self.are_apart)
        return scores
