"""Means of the targets by the words of a column, which tell of rare words what their
embedding has no rows to learn.

New rows have those of all training rows. A training row has those of the rows in other
parts, so that its own target is no input of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..core.random import STREAM_FOLDS, shuffled
from .dataset import Dataset
from .kinds import ONE_HOT
from .table_rows import TableRows
from .twins import twins_to_keep_together

MEANS_PARTS = 5  # of the training rows
SMOOTHING = 5  # rows, of the mean of all, that are added to those of a word
MOST_MEANS_TARGETS = 10  # or classes


def has_many_words(ds: Dataset) -> bool:
    """Return whether a column has enough words for means to be of use."""
    if isinstance(ds.x, TableRows):
        pairs = zip(ds.x.columns, ds.kinds, strict=False)
    else:
        pairs = ()
    return any(
        kind.kind == "category" and len(column.words) > ONE_HOT
        for column, kind in pairs
    )


def means_of(ds: Dataset, rows: np.ndarray, asked: bool) -> Callable | None:
    """Return what gives the statistics of training rows (encoding.statistics_of) means;
    None without them."""
    if asked and (ds.outputs or 1) <= MOST_MEANS_TARGETS:
        return WordMeans(ds, rows).means_of_words
    return None


def columns_with_means(encoding) -> list[int]:
    """Return the columns of an encoding, or of None, that have means."""
    if encoding is None:
        return []
    return [index for index, encoder in enumerate(encoding.encoders) if encoder.means]


class WordMeans:
    """Means of the targets of training rows (indices of a data set), or of 0 and 1 for
    each class, of two the second.

    They are less the mean of all rows that they are taken of, in deviations of the
    target there.
    """

    def __init__(self, ds: Dataset, rows: np.ndarray):
        self._ds = ds
        self._rows = rows
        y = ds.y[rows]
        is_each = ds.task == "multiclass"
        if is_each:
            self._targets = y[:, None] == np.arange(len(ds.classes))
        else:
            self._targets = ds.different_targets[rows]
        counts = ds.row_counts(rows)
        if counts is None:
            self._counts = np.ones(len(rows))
        else:
            self._counts = counts

    def means_of_words(
        self, codes: np.ndarray, words: Sequence[str]
    ) -> dict[str, list[float]]:
        """Return the means of each word that the training rows have. codes: of these
        rows, -1 a gap."""
        means = self._by_code(codes, len(words), slice(None))
        return {
            words[code]: means[code].tolist() for code in np.unique(codes[codes >= 0])
        }

    def keep_apart(
        self, x: TableRows, columns: Sequence[int], encoding, records: np.ndarray
    ) -> None:
        """Set the means of columns in the records of the training rows to those of
        other parts; groups stay together, and twins. x, records: of all rows of the
        data set."""
        if self._ds.groups is None:
            count = len(x)
        else:
            count = int(self._ds.groups.max()) + 1
        part = (shuffled(count, 0, STREAM_FOLDS, 1) % MEANS_PARTS)[self._units()]
        for index in columns:
            codes = x.columns[index].values[self._rows]
            slot = encoding.order.index((index, 1))
            for is_in_part in (part == number for number in range(MEANS_PARTS)):
                means = self._by_code(codes, len(x.columns[index].words), ~is_in_part)[
                    codes[is_in_part]
                ]
                records["numbers"][
                    self._rows[is_in_part], slot : slot + means.shape[1]
                ] = means

    def _units(self) -> np.ndarray:
        """Return the number of what stays together, of each training row."""
        if self._ds.groups is not None:
            return self._ds.groups[self._rows]
        twins = twins_to_keep_together(self._ds, self._rows)
        if twins is None:
            return self._rows
        _, first_rows, units = np.unique(twins, return_index=True, return_inverse=True)
        return self._rows[first_rows][units.reshape(-1)]

    def _known_targets(self, rows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield each target of some of the training rows, and as how many rows each
        counts there: as none where it lacks the target."""
        for targets in self._targets[rows].T:
            are_known = ~np.isnan(targets)
            yield np.where(are_known, targets, 0), self._counts[rows] * are_known

    @np.errstate(over="ignore")  # huge targets have means of 0
    def _by_code(self, codes: np.ndarray, words: int, rows) -> np.ndarray:
        """Return the means (words + 1, targets) of some of the training rows, 0 of a
        gap."""
        codes = codes[rows] % (words + 1)
        means = []
        for targets, weights in self._known_targets(rows):
            counts = np.bincount(codes, weights, words + 1)
            whole = max(weights.sum(), np.finfo(np.float64).tiny)
            above = targets - (weights * targets).sum() / whole
            mean = np.bincount(codes, weights * above, words + 1) / (counts + SMOOTHING)
            mean[-1] = 0
            means.append(mean / (np.sqrt((weights * above**2).sum() / whole) or 1))
        return np.stack(means, axis=1)
