"""The encoders of single columns: how the values of a feature column become inputs of a network.

A new kind of column is a class with the methods of ColumnEncoder and a line in ENCODERS of encoding.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..layers import InputColumn
from ..nn_aux import MOST_WAVES, SCALING_ALIASES, NumberEmbedding
from .scaling import constants
from .statistics import CYCLES, DateStatistics, NumberStatistics, TextStatistics, phase
from .table_files import TRUTHS

ONE_HOT = 16  # values of a category up to which each has an input of its own; more are embedded
MOST_WIDTH = 8  # of an embedding
RARE = 5  # rows below which a value shares a slot with those never seen, see least_rows
YES_NO = {**TRUTHS, "1": True, "0": False, "1.0": True, "0.0": False}  # what a column of yes/no words may hold later
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)\.\d+", re.ASCII)


class ColumnEncoder(Protocol):
    """How the values of one feature column become inputs. Its fields are kept in the model, `kind` among them.

    kind: a name of ENCODERS. reads: number, text or date, what the column is read as.
    """

    kind: str
    reads: str

    def inputs(self) -> list[InputColumn]:
        """Return what the network's first layer gets of the column."""

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        """Return an array for each of `inputs`: float64 numbers (nan: a gap), or unsigned codes.

        values: numbers, dates or codes, which count `words`.
        """

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        """Return the share of values that are gaps or that training has not seen."""

    def summary(self) -> str:
        """Return what people are told beside the column's name; may be empty."""

    def check(self) -> None:
        """Raise ValueError for fields, as a model file may have them, that cannot be; numbers are known as finite."""


@dataclass(frozen=True)
class NumberEncoder:
    """A column of numbers: scaled. A gap becomes the median; where training had gaps, a 0/1 input tells them.

    Where one value is the usual one, further inputs say how far through each piece of the others a number is (the
    piecewise linear encoding of Gorishniy, Rubachev and Babenko 2022). Others may be asked for (NumberEmbedding).
    """

    shift: float
    scale: float  # 0: one value only, which becomes 0
    median: float
    unknown_share: float = 0.0
    edges: list[float] = field(default_factory=list)  # of pieces, see NumberStatistics.edges
    waves: int = 0
    deviation: float = 1.0  # of the waves' first frequencies
    kind = "number"
    reads = "number"

    @classmethod
    def fit(
        cls, found: NumberStatistics, scaling: str, embedding: NumberEmbedding | None = None, name: str = "a column"
    ) -> NumberEncoder:
        """Return the encoder of a column; scaling: a name of SCALINGS. name: of the column in messages.

        Two values are no axis: they get no waves.
        """
        shift, scale = scaling_constants(scaling, found, name)
        known = shift, scale, found.median, found.gaps / max(1, found.rows)
        if not scale or (embedding and embedding.kind == "linear"):
            return cls(*known)
        if embedding and embedding.kind == "pieces":
            return cls(*known, found.edges(embedding.count))
        if embedding and found.distinct > 2:
            return cls(*known, found.edges(), embedding.count, embedding.deviation)
        return cls(*known, found.edges())

    def inputs(self) -> list[InputColumn]:
        more = {"edges": tuple(self._scaled(np.array(self.edges)).tolist())} if self.edges else {}
        if self.waves:
            more |= {"waves": self.waves, "deviation": self.deviation}
        if not self.unknown_share:
            return [InputColumn("number", **more)]
        return [InputColumn("gap", fill=float(self._scaled(np.array([self.median]))[0]), **more)]

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        values = values.astype(np.float64)
        if not self.unknown_share:
            values = np.where(np.isnan(values), self.median, values)
        return [self._scaled(values)]

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        return float(np.isnan(values).mean())

    def summary(self) -> str:
        gaps = f"{self.unknown_share:.0%} gaps" if self.unknown_share else ""
        pieces = f"{len(self.edges) - 1} pieces" if self.edges else ""
        waves = f"{self.waves} waves" if self.waves else ""
        return ", ".join(filter(None, (gaps, pieces, waves)))

    def check(self) -> None:
        if not _ascend(self.edges):
            raise ValueError("edges")
        if type(self.waves) is not int or not 0 <= self.waves <= MOST_WAVES or self.deviation <= 0:
            raise ValueError("waves")

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        if not self.scale:
            return np.where(np.isnan(values), np.nan, 0.0)
        return (values - self.shift) / self.scale


def _ascend(edges: list) -> bool:
    numbers = [edge for edge in edges if isinstance(edge, (int, float)) and math.isfinite(edge)]
    return len(numbers) == len(edges) != 1 and all(a < b for a, b in zip(edges, edges[1:], strict=False))


@dataclass(frozen=True)
class TruthEncoder:
    """A column of yes/no words without gaps: 0 or 1. `share`: of yes in training, which stands for a gap later."""

    share: float
    kind = "yes/no"
    reads = "text"
    expected = "yes or no, true or false, 1 or 0"

    def inputs(self) -> list[InputColumn]:
        return [InputColumn("number")]

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        known = [YES_NO.get(word.lower(), math.nan) for word in words]
        truths = np.array([*known, math.nan])[values]  # code -1, a gap, is the last
        return [np.where(np.isnan(truths), self.share, truths)]

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        return float(1 - self._are_known(words)[values].mean())

    def stranger(self, values: np.ndarray, words: list[str]) -> int | None:
        """Return the first row whose word is neither yes nor no, where no row has such a word."""
        others = values >= 0
        return int(others.argmax()) if others.any() and not self._are_known(words)[values].any() else None

    def summary(self) -> str:
        return ""

    def _are_known(self, words: list[str]) -> np.ndarray:
        """Return whether each word says yes or no, and False at the end, where code -1 finds it."""
        return np.array([*(word.lower() in YES_NO for word in words), False])

    def check(self) -> None:
        """Accept any share."""


@dataclass(frozen=True)
class CategoryEncoder:
    """A column of texts. Few values have an input each, many a row of a table that is trained with the network.

    values: those with a slot of their own (least_rows), a gap written as None. shared: the slot 0 is that of all
    others: of rare ones, and so of values that training has not seen. Without rare values the unseen have no input.
    """

    values: list[str | None]
    shared: bool
    width: int  # of the embedding, 0: one input each
    unknown_share: float = 0.0
    decimals: bool = False  # 1, 1.0 and 1e0 are one value
    kind = "category"
    reads = "text"

    @classmethod
    def fit(cls, found: TextStatistics) -> CategoryEncoder:
        """Return the encoder of a column."""
        counts: dict[str | None, int] = {**found.counts(), None: found.gaps}
        least = least_rows(found.counts().values())
        values = [value for value, count in counts.items() if count >= least]
        rare = any(0 < count < least for count in counts.values())
        slots = len(values) + rare
        of_rare = sum(count for value, count in counts.items() if count < least and value is not None)
        unknown = (found.gaps + of_rare) / max(1, found.rows)
        if slots <= ONE_HOT:
            return cls(values, rare, 0, unknown)
        if not rare:  # the slot of unseen values is trained by the rarest value
            values.remove(min(values, key=lambda value: counts[value]))
        width = min(MOST_WIDTH, math.ceil(math.sqrt(slots)))
        return cls(values, True, width, unknown)

    @property
    def slots(self) -> int:
        """Return the number of values, the shared slot counted."""
        return len(self.values) + self.shared

    def inputs(self) -> list[InputColumn]:
        if self.width:
            return [InputColumn("embedding", values=self.slots, width=self.width)]
        return [InputColumn("onehot", values=self.slots)]

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        return [self._codes(words)[values].astype(smallest_code(self.slots + 1))]

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        known = self._places()
        is_unknown = np.array([*(_found(known, word) is None for word in words), True])
        return float(is_unknown[values].mean()) if len(values) else 0.0

    def summary(self) -> str:
        return f"{self.slots} value{'s' * (self.slots > 1)}" + (f" as {self.width} inputs" if self.width else "")

    def check(self) -> None:
        texts = all(value is None or isinstance(value, str) for value in self.values)
        if not texts or len(set(self.values)) < len(self.values) or not self.slots:
            raise ValueError("values")
        if self.decimals not in (True, False):
            raise ValueError("decimals")
        if not (isinstance(self.width, int) and 0 <= self.width <= MOST_WIDTH and self.shared in (0, 1)):
            raise ValueError("width")

    def spellings(self) -> list[str]:
        """Return the words that are found among the values; other decimals are found by their shortest form."""
        return [word for word in self._places() if word is not None]

    def _codes(self, words: list[str]) -> np.ndarray:
        """Return the code of each word, and of a gap at the end, where code -1 finds it."""
        other = 0 if self.shared else self.slots  # beyond all slots: no input
        known = self._places()
        found = [_found(known, word) for word in [*words, None]]
        return np.array([other if place is None else place + self.shared for place in found], np.int64)

    def _places(self) -> dict[str | None, int]:
        """Return the place of each value, and of decimals as other formats write them."""
        places = {value: index for index, value in enumerate(self.values)}
        return {_shortest(value): index for value, index in places.items() if value is not None} | places


def _found(places: dict[str | None, int], word: str | None) -> int | None:
    place = places.get(word)
    return places.get(_shortest(word)) if place is None and word is not None else place


def _shortest(word: str) -> str:
    """Return a decimal without zeros at its end, as formats with typed columns have it: 1 for 1.0; else the word."""
    return word.rstrip("0").removesuffix(".") if _DECIMAL.fullmatch(word) else word


@dataclass(frozen=True)
class DateEncoder:
    """A column of dates: a trend, scaled, and sine and cosine of the cycles that vary. A gap becomes the mean date."""

    shift: float
    scale: float
    cycles: list[str] = field(default_factory=list)
    unknown_share: float = 0.0
    kind = "date"
    reads = "date"

    @classmethod
    def fit(cls, found: DateStatistics) -> DateEncoder:
        """Return the encoder of a column."""
        shift, scale = scaling_constants("standardization", found, "a column of dates")
        return cls(shift, scale, found.cycles, found.gaps / max(1, found.rows))

    def inputs(self) -> list[InputColumn]:
        trend = InputColumn("gap") if self.unknown_share else InputColumn("number")
        return [trend] + [InputColumn("number")] * (2 * len(self.cycles))

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        gaps = np.isnan(values)
        seconds = np.where(gaps, self.shift, values)
        trend = (seconds - self.shift) / self.scale if self.scale else np.zeros(len(seconds))
        if self.unknown_share:
            trend = np.where(gaps, np.nan, trend)
        angles = [2 * np.pi * phase(seconds, cycle) for cycle in self.cycles]
        waves = [np.where(gaps, 0.0, wave(angle)) for angle in angles for wave in (np.sin, np.cos)]
        return [trend, *waves]

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        return float(np.isnan(values).mean())

    def summary(self) -> str:
        return ", ".join(["trend", *self.cycles])

    def check(self) -> None:
        if not set(self.cycles) <= set(CYCLES):
            raise ValueError("cycles")


def least_rows(counts: Collection[int]) -> int:
    """Return the rows that a value of a column needs for a slot of its own. counts: the rows of each value.

    RARE; but in a small table, where few values have fewer than 2 RARE rows each on average, two: each level of a
    factor comes again, and one shared slot would hide them all, in a fold at the latest.
    """
    is_small = len(counts) <= ONE_HOT and sum(counts) < 2 * RARE * len(counts)
    return 2 if is_small else RARE


def are_decimals(encoder: ColumnEncoder) -> bool:
    """Return whether 1, 1.0 and 1e0 are one value of a column."""
    return isinstance(encoder, CategoryEncoder) and encoder.decimals


def smallest_code(values: int) -> type:
    """Return the smallest type for codes below `values`."""
    return np.uint8 if values <= 1 << 8 else np.uint16 if values <= 1 << 16 else np.uint32


def scaling_constants(kind: str, found: NumberStatistics | DateStatistics, name: str) -> tuple[float, float]:
    """Return (shift, scale) of a column, scale 0 for one of a single value. name: of the column in messages."""
    kind = SCALING_ALIASES.get(kind, kind)
    moments = found.moments
    if kind in ("none", "pixel"):
        return 0.0, 1.0
    if not moments.count or moments.low[0] == moments.high[0]:
        return float(moments.low[0]) if moments.count else 0.0, 0.0
    shift, scale = constants(kind, moments, lambda _: name)
    return float(shift[0]), float(scale[0])
