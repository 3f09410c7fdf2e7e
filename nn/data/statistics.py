"""Statistics of the feature columns in the training rows: what an encoding is decided
by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..core.weighted import distinct_counts, median, quantiles
from .calendar import DATE_CYCLES, DATE_PARTS, YEAR_SECONDS, part, phase
from .kinds import NUMBER, ONE_HOT, Kind
from .scaling import Moments
from .table_rows import TableRows

MOST_MEANS = 1 << 12  # words of a column that have means
SAMPLE = 1 << 17  # values of which the median and the quantiles are taken
# of a column with one usual value: the most, and the fewest rows of each
USUAL_VALUE_PIECES = 48
ROWS_A_PIECE = 30
LEAST_OTHERS = 100  # rows beside the usual value that are worth pieces
# such rows whose values are worth inputs, rows of each, values
REPEATED = 1000
ROWS_A_VALUE = 10
MOST_REPEATED_VALUES = 128


class NumberStatistics:
    """Moments, gaps and median of numbers, or of dates in seconds; gaps are nan.

    Of more than SAMPLE values the median is that of every second one, every fourth one,
    ... cycles: of dates, in which they differ; the year's, if they span a quarter of
    one.
    """

    def __init__(
        self,
        values: np.ndarray,
        are_dates: bool = False,
        counts: np.ndarray | None = None,
    ):
        """counts: as how many rows each value counts; None: each as one."""
        self.gap_share = 0.0
        self.moments = None
        self.median = 0.0
        self.cycles = []
        self.parts = []
        is_gap = np.isnan(values)
        numbers = values[~is_gap]
        if len(values):
            self.gap_share = float(np.average(is_gap, weights=counts))
        step = 1 << max(0, math.ceil(math.log2(max(1, len(numbers)) / SAMPLE)))
        self.sample = numbers[::step].astype(np.float64)
        self.sample_counts = None
        if counts is not None:
            counts = counts[~is_gap]
            self.sample_counts = counts[::step]
        if not len(numbers):
            return
        self.moments = Moments.of(numbers[:, None], weights=counts)
        self.median = median(self.sample, self.sample_counts)
        if are_dates:
            self.cycles = [c for c in DATE_CYCLES if np.ptp(phase(numbers, c)) > 0]
            if "year" in self.cycles and np.ptp(numbers) < YEAR_SECONDS / 4:
                self.cycles.remove("year")
            self.parts = [p for p in DATE_PARTS if np.ptp(part(numbers, p)) > 0]

    def edges(self, pieces: int | None = None) -> list[float]:
        """Return the ends of pieces, which hold as many of the values beside the usual
        one each.

        The usual value is more than half of all, as 0 is among gains: scaled by their
        deviation the others would lie too close together. None: USUAL_VALUE_PIECES or,
        of few rows, fewer; none without a usual value, or of two values and fewer.
        """
        values, counts = distinct_counts(self.sample, self.sample_counts)
        is_usual = 2 * counts > counts.sum()
        usual = values[is_usual]
        rows = counts[~is_usual].sum()
        if len(values) < 3:
            return []
        if pieces is None:
            if len(values) < 4 or not len(usual) or rows < LEAST_OTHERS:
                return []
            pieces = min(USUAL_VALUE_PIECES, int(rows) // ROWS_A_PIECE)
        is_unusual = ~np.isin(self.sample, usual)
        counts = self.sample_counts
        if counts is not None:
            counts = counts[is_unusual]
        shares = np.linspace(0, 1, pieces + 1)
        ends = quantiles(self.sample[is_unusual], shares, counts)
        return np.unique([*usual, *ends]).tolist()

    def frequent(self) -> list[float]:
        """Return values beside the usual one that are often repeated, as sums that a
        law names are, in float32: most rows beside the usual value have one of them.
        None where pieces can tell all values apart."""
        values, counts = distinct_counts(
            self.sample.astype(np.float32), self.sample_counts
        )
        is_unusual = 2 * counts <= counts.sum()
        rows = counts[is_unusual].sum()
        if is_unusual.all() or len(values) <= USUAL_VALUE_PIECES + 1 or rows < REPEATED:
            return []
        is_repeated = is_unusual & (counts >= ROWS_A_VALUE)
        values = values[is_repeated]
        counts = counts[is_repeated]
        if 2 * counts.sum() < rows:
            return []
        most_frequent = np.argsort(-counts, kind="stable")[:MOST_REPEATED_VALUES]
        return np.sort(values[most_frequent]).tolist()


class TextStatistics:
    """counts: the rows of each text that occurs, in the order of the texts; gaps: the
    rows whose code is -1; means: of the targets by texts, where these are many
    (word_means.py)."""

    def __init__(
        self,
        codes: np.ndarray,
        words: list[str],
        means_of: Callable | None = None,
        counts: np.ndarray | None = None,
    ):
        """counts: as how many rows each row counts; None: each as one."""
        rows_of_codes = np.bincount(codes + 1, counts, len(words) + 1)
        self.gaps, *rows_of_words = rows_of_codes.tolist()
        self.rows = self.gaps + sum(rows_of_words)
        pairs = zip(words, rows_of_words, strict=True)
        self.counts = {word: rows for word, rows in sorted(pairs) if rows}
        self.means = {}
        if means_of and ONE_HOT < len(self.counts) <= MOST_MEANS:
            self.means = means_of(codes, words)


def statistics_of(
    x: TableRows,
    kinds: Sequence[Kind],
    rows=slice(None),
    means_of: Callable | None = None,
    counts: np.ndarray | None = None,
) -> list:
    """Return the statistics of feature columns in the training rows, some rows of x
    (indices). kinds: none, if all are numbers. means_of(codes, words) returns the means
    of the targets, by words, of a column in these rows. counts: as how many rows each
    of them counts; None: each as one."""
    statistics = []
    for column, kind in zip(x.columns, kinds or [NUMBER] * len(x.columns), strict=True):
        values = column.values[rows]
        if kind.kind == "category":
            statistics.append(TextStatistics(values, column.words, means_of, counts))
            continue
        if kind.written:
            values = kind.written.values_of(column.words)[values]
        are_dates = kind.kind in ("date", "written date")
        statistics.append(NumberStatistics(values, are_dates, counts))
    return statistics
