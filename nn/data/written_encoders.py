"""The encoders of columns of words that are numbers or dates as people write them.

Both read words and turn them into values (_Written); from there on they are the encoders of numbers and of dates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..nn_aux import NumberEmbedding
from . import written
from .encoders import ColumnEncoder, DateEncoder, NumberEncoder
from .statistics import DateStatistics, NumberStatistics, TextStatistics


class _Written:
    """The base of both, in front of the encoder of their values; words that are written in another way become gaps.

    ways: the values that `way` may have; expected: what messages call them.
    """

    reads = "text"
    way: str
    ways: tuple[str, ...]
    expected: str

    def value_of(self, word: str) -> float | None:
        """Return the value of a word; None for a word that is written in another way."""
        raise NotImplementedError

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        return super().encode(self._values(values, words))

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        return super().unknown(self._values(values, words))

    def stranger(self, codes: np.ndarray, words: list[str]) -> int | None:
        """Return the first row whose word is written in another way, where no word is as training had them."""
        if any(self.value_of(word) is not None for word in words):
            return None
        others = np.array([*(any(map(str.isdigit, word)) for word in words), False])[codes]
        return int(others.argmax()) if others.any() else None

    def check(self) -> None:
        super().check()
        if self.way not in self.ways:
            raise ValueError("way")

    def _values(self, codes: np.ndarray, words: list[str]) -> np.ndarray:
        return np.array(written.values_of(words, self.value_of))[codes]


@dataclass(frozen=True)
class WrittenNumberEncoder(_Written, NumberEncoder):
    """A column of words that are numbers as people write them, $1,234.50 or 12 %.

    way: see written.NUMBERS; before, behind: the signs around each number.
    """

    way: str = written.NUMBERS[0]
    before: str = ""
    behind: str = ""
    kind = "written number"
    ways = written.NUMBERS

    @property
    def expected(self) -> str:
        return f"a number such as {self.before}{self.way}{self.behind}, as in training"

    def value_of(self, word: str) -> float | None:
        return written.number_of(word, self.way, (self.before, self.behind))

    def check(self) -> None:
        super().check()
        if not isinstance(self.before, str) or not isinstance(self.behind, str):
            raise ValueError("signs")

    def summary(self) -> str:
        return ", ".join(filter(None, (f"{self.before}{self.way}{self.behind}", super().summary())))


@dataclass(frozen=True)
class WrittenDateEncoder(_Written, DateEncoder):
    """A column of words that are dates as people write them, 12/31/2019; later as ISO 8601 has them too, which is what
    dates of typed columns become.

    way: see written.DATES.
    """

    way: str = written.DATES[0]
    kind = "written date"
    ways = written.DATES

    @property
    def expected(self) -> str:
        iso = ", or as 2019-12-31" if written.takes_iso(self.way) else ""
        return f"a date written as {self.way}, as in training{iso}"

    def value_of(self, word: str) -> float | None:
        return written.date_of(word, self.way, or_iso=True)

    def summary(self) -> str:
        return f"{self.way}, {super().summary()}"


def written_encoder(
    found: TextStatistics, scaling: str, embedding: NumberEmbedding | None, name: str, kind: str | None = None
) -> ColumnEncoder | None:
    """Return the encoder of a column whose words are numbers or dates as people write them; None for other words.

    kind: number or date, where only one of them is asked for.
    """
    words = list(found.counts())
    if kind != "date" and (how := written.way_of_numbers(words)):
        numbers = NumberStatistics()
        numbers.add(_values_of_rows(found, written.number_of, *how))
        way, (before, behind) = how
        encoder = WrittenNumberEncoder.fit(numbers, scaling, embedding, name)
        return replace(encoder, way=way, before=before, behind=behind)
    if kind != "number" and (way := written.way_of_dates(words)):
        dates = DateStatistics()
        dates.add(_values_of_rows(found, written.date_of, way))
        encoder = WrittenDateEncoder.fit(dates)
        return replace(encoder, way=way, cycles=written.cycles_of(way, encoder.cycles))
    return None


def _values_of_rows(found: TextStatistics, value_of, *how) -> np.ndarray:
    """Return value_of(word, *how) as often as rows have the word, and nan as often as they have a gap."""
    counts = found.counts()
    return np.repeat(written.values_of(counts, value_of, *how), [*counts.values(), found.gaps])
