"""The encoders of columns of words that are numbers or dates as people write them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..nn_aux import NumberEmbedding
from . import written
from .encoders import ColumnEncoder, DateEncoder, NumberEncoder
from .statistics import DateStatistics, NumberStatistics, TextStatistics


@dataclass(frozen=True)
class WrittenNumberEncoder(NumberEncoder):
    """A column of words that are numbers as people write them, $1,234.50 or 12 %. Other words become gaps later.

    way: see written.NUMBERS; before, behind: the signs around each number.
    """

    way: str = written.NUMBERS[0]
    before: str = ""
    behind: str = ""
    kind = "written number"
    reads = "text"

    def encode(self, values: np.ndarray, words: list[str]) -> list[np.ndarray]:
        return super().encode(self._numbers(values, words))

    def unknown(self, values: np.ndarray, words: list[str]) -> float:
        return super().unknown(self._numbers(values, words))

    def summary(self) -> str:
        return ", ".join(filter(None, (f"{self.before}{self.way}{self.behind}", super().summary())))

    def _numbers(self, values: np.ndarray, words: list[str]) -> np.ndarray:
        signs = self.before, self.behind
        return np.array(written.values_of(words, written.number_of, self.way, signs))[values]


@dataclass(frozen=True)
class WrittenDateEncoder(DateEncoder):
    """A column of words that are dates as people write them, 12/31/2019. Other words become gaps later.

    way: see written.DATES.
    """

    way: str = written.DATES[0]
    kind = "written date"
    reads = "text"

    def encode(self, values: np.ndarray, words: list[str]) -> list[np.ndarray]:
        return super().encode(self._seconds(values, words))

    def unknown(self, values: np.ndarray, words: list[str]) -> float:
        return super().unknown(self._seconds(values, words))

    def summary(self) -> str:
        return f"{self.way}, {super().summary()}"

    def _seconds(self, values: np.ndarray, words: list[str]) -> np.ndarray:
        return np.array(written.values_of(words, written.date_of, self.way))[values]


def written_encoder(
    found: TextStatistics, scaling: str, embedding: NumberEmbedding | None, name: str
) -> ColumnEncoder | None:
    """Return the encoder of a column whose words are numbers or dates as people write them; None for other words."""
    counts = found.counts()
    words, times = list(counts), [*counts.values(), found.gaps]
    if how := written.way_of_numbers(words):
        numbers = NumberStatistics()
        numbers.add(np.repeat(written.values_of(words, written.number_of, *how), times))
        way, (before, behind) = how
        encoder = WrittenNumberEncoder.fit(numbers, scaling, embedding, name)
        return replace(encoder, way=way, before=before, behind=behind)
    if way := written.way_of_dates(words):
        dates = DateStatistics()
        dates.add(np.repeat(written.values_of(words, written.date_of, way), times))
        return replace(WrittenDateEncoder.fit(dates), way=way)
    return None
