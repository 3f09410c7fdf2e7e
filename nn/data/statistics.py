"""Statistics of a column's training rows: of numbers, texts and dates, of which encoders are made."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .scaling import StreamedMoments

SAMPLE = 1 << 17  # values of which the median and the quantiles are taken
PIECES, ROWS_A_PIECE = 48, 30  # of a column with one usual value: the most, and the fewest rows of each
LEAST_OTHERS = 100  # rows beside the usual value that are worth pieces
DAY, YEAR = 86_400.0, 31_556_952.0  # seconds
CYCLES = ("year", "week", "day")  # of dates


class NumberStatistics:
    """Moments, gaps and median of numbers; gaps are nan. Of more than SAMPLE values the median is that of every second
    one, every fourth one, ..."""

    def __init__(self, values: np.ndarray):
        known = values[~np.isnan(values)].astype(np.float64)
        self.moments, self.rows, self.gaps = moments_of(known), len(values), len(values) - len(known)
        self._sample = known[:: 1 << max(0, math.ceil(math.log2(max(1, len(known)) / SAMPLE)))].copy()

    @property
    def median(self) -> float:
        """Return the median, 0 where there are gaps only."""
        return float(np.median(self._sample)) if len(self._sample) else 0.0

    @property
    def distinct(self) -> int:
        """Different values of the sample."""
        return len(np.unique(self._sample))

    def edges(self, pieces: int | None = None) -> list[float]:
        """Return the ends of pieces, which hold as many of the values beside the usual one each.

        The usual value is more than half of all, as 0 is among gains: scaled by their deviation the others would lie
        too close together. None: PIECES or, of few rows, fewer; none of a column without a usual value. Empty for two
        values and fewer.
        """
        values, counts = np.unique(self._sample, return_counts=True)
        usual = values[2 * counts > counts.sum()]
        others = self._sample[~np.isin(self._sample, usual)]
        if pieces is None and (len(values) < 4 or not len(usual) or len(others) < LEAST_OTHERS):
            return []
        if len(values) < 3:
            return []
        pieces = pieces or min(PIECES, len(others) // ROWS_A_PIECE)
        quantiles = np.quantile(others, np.linspace(0, 1, pieces + 1), method="inverted_cdf")
        return np.unique([*usual, *quantiles]).tolist()


class TextStatistics:
    """How many rows have each text; gaps are -1."""

    def __init__(self, codes: np.ndarray, words: list[str]):
        self._words, self._counts = words, np.bincount(codes[codes >= 0], minlength=len(words))
        self.rows, self.gaps = len(codes), int(np.count_nonzero(codes < 0))

    def counts(self, spelling: Callable[[str], str] = str) -> dict[str, int]:
        """Return the rows of each text that occurs, in the order of the texts. spelling: of a text, for all that are
        one."""
        found: dict[str, int] = {}
        for word, count in zip(map(spelling, self._words), self._counts.tolist(), strict=False):
            found[word] = found.get(word, 0) + count
        return {word: found[word] for word in sorted(found) if found[word]}


class DateStatistics:
    """Moments of dates (seconds), and the cycles in which they differ; gaps are nan.

    That of the year counts where they span at least a quarter of one.
    """

    def __init__(self, seconds: np.ndarray):
        known = seconds[~np.isnan(seconds)]
        self.moments, self.rows, self.gaps = moments_of(known), len(seconds), len(seconds) - len(known)
        span = np.ptp(known) if len(known) else 0.0
        varies = [cycle for cycle in CYCLES if len(known) and np.ptp(phase(known, cycle)) > 0]
        self.cycles = [cycle for cycle in varies if cycle != "year" or span >= YEAR / 4]


def moments_of(known: np.ndarray) -> StreamedMoments:
    """Return the moments of numbers without gaps; there may be none."""
    moments = StreamedMoments()
    if len(known):
        moments.add(known[:, None])
    return moments


def phase(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """Return where in its year, week or day a date is, from 0 to below 1. A week has its days only, from Thursday."""
    if cycle == "week":
        return np.floor(seconds / DAY) % 7 / 7
    return seconds % YEAR / YEAR if cycle == "year" else seconds % DAY / DAY
