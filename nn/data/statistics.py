"""Statistics of a column's training rows, from one block of rows after another: of any blocks the same, up to rounding.

Numbers, texts and dates have a class each; encoding.py makes the encoders of a network's columns of them.
"""

from __future__ import annotations

import numpy as np

from .scaling import StreamedMoments

SAMPLE = 1 << 17  # values of which the median and the quantiles are taken
PIECES, ROWS_A_PIECE = 48, 30  # of a column with one usual value: the most, and the fewest rows of each
LEAST_OTHERS = 100  # rows beside the usual value that are worth pieces
DAY, YEAR = 86_400.0, 31_556_952.0  # seconds
CYCLES = ("year", "week", "day")  # of dates


class NumberStatistics:
    """Moments, gaps and median of numbers; gaps are nan.

    Of more than SAMPLE values the median is that of every second one, every fourth one, ..., wherever blocks begin.
    """

    def __init__(self):
        self.moments, self.rows, self.gaps = StreamedMoments(), 0, 0
        self._sample, self._step, self._count = np.zeros(0), 1, 0

    def add(self, values: np.ndarray) -> None:
        """Take in the next rows."""
        known = values[~np.isnan(values)].astype(np.float64)
        self.rows += len(values)
        self.gaps += len(values) - len(known)
        if not len(known):
            return
        self.moments.add(known[:, None])
        first = -self._count % self._step
        self._sample = np.concatenate([self._sample, known[first :: self._step]])
        self._count += len(known)
        while len(self._sample) > SAMPLE:
            self._sample, self._step = self._sample[::2], 2 * self._step

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

    def __init__(self):
        self.rows, self.gaps, self._counts = 0, 0, np.zeros(0, np.int64)
        self._words: list[str] = []

    def add(self, codes: np.ndarray, words: list[str]) -> None:
        """Take in the next rows; `words` only grows from block to block."""
        counts = np.bincount(codes[codes >= 0], minlength=len(words))
        counts[: len(self._counts)] += self._counts
        self._counts, self._words = counts, words
        self.rows += len(codes)
        self.gaps += int(np.count_nonzero(codes < 0))

    def counts(self) -> dict[str, int]:
        """Return the rows of each text that occurs, in the order of the texts."""
        found = zip(self._words, self._counts.tolist(), strict=False)
        return dict(sorted((word, count) for word, count in found if count))


class DateStatistics:
    """Moments of dates (seconds), and which of their cycles vary; gaps are nan."""

    def __init__(self):
        self.moments, self.rows, self.gaps = StreamedMoments(), 0, 0
        self._seen = {cycle: set() for cycle in CYCLES}

    def add(self, seconds: np.ndarray) -> None:
        """Take in the next rows."""
        known = seconds[~np.isnan(seconds)]
        self.rows += len(seconds)
        self.gaps += len(seconds) - len(known)
        if not len(known):
            return
        self.moments.add(known[:, None])
        for cycle, seen in self._seen.items():
            if len(seen) < 2:
                seen.update(np.unique(phase(known, cycle))[:2].tolist())

    @property
    def cycles(self) -> list[str]:
        """Return the cycles in which the dates differ; that of the year where they span at least a quarter of one."""
        if not self.moments.count:
            return []
        span = float(self.moments.high[0] - self.moments.low[0])
        return [c for c, seen in self._seen.items() if len(seen) > 1 and (c != "year" or span >= YEAR / 4)]


def phase(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """Return where in its year, week or day a date is, from 0 to below 1. A week has its days only, from Thursday."""
    if cycle == "week":
        return np.floor(seconds / DAY) % 7 / 7
    return seconds % YEAR / YEAR if cycle == "year" else seconds % DAY / DAY
