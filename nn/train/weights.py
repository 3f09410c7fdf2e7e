"""Weights of training rows: those of their classes, times their own."""

from __future__ import annotations

import numpy as np

from ..ds import Dataset
from ..settings.values import BALANCED, NO_CLASS_WEIGHT, class_weight_numbers
from ..utils import DataError, UsageError, listed


def class_weights(asked: str, classes: list[str] | None, sums) -> np.ndarray | None:
    """Return the weight of each class, float64; None where all are 1.

    asked: none, balanced or numbers with commas between them. sums: of the weights of the training rows of each class;
    balanced makes the classes' sums equal and leaves the sum of all as it is. Raises UsageError.
    """
    if asked == NO_CLASS_WEIGHT:
        return None
    flag = f"--class_weight {asked}"
    if classes is None:
        raise UsageError(f"{flag} works for classification only, and this task is regression; drop it, or use --weight")
    if asked == BALANCED:
        sums = np.asarray(sums, np.float64)
        present = sums > 0
        return np.divide(sums.sum() / present.sum(), sums, out=np.ones(len(sums)), where=present)
    numbers = np.array(class_weight_numbers(asked))
    if len(numbers) != len(classes):
        raise UsageError(
            f"{flag}: {len(numbers)} numbers for {len(classes)} classes; give one for each of {listed(classes)}"
        )
    return numbers


def row_weights(ds: Dataset, of_classes: np.ndarray | None) -> np.ndarray | None:
    """Return the weight of each row in the loss, float64 (rows,); None where each is 1."""
    if of_classes is None:
        return ds.weights
    return of_classes[ds.y] if ds.weights is None else of_classes[ds.y] * ds.weights


def weight_of(weights: np.ndarray | None, rows) -> float:
    """Return how many rows these count as."""
    return float(len(rows)) if weights is None else float(weights[rows].sum(dtype=np.float64))


def check_any_weight(weights: np.ndarray | None, rows, what: str) -> None:
    """Raise DataError where these rows, named `what`, have weights that are all 0."""
    if weights is not None and len(rows) and not weights[rows].any():
        found = f"the weights of all {len(rows)} {what} rows are 0"
        raise DataError(f"--weight: {found}, expected one above 0 at least; correct them, or leave it out")
