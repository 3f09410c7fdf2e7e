"""The encoders of single columns: how the values of a feature column become inputs of a network.

A new kind of column is a class here and a row in ENCODERS.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ..layers import InputColumn
from ..nn_aux import MOST_WAVES, SCALING_ALIASES
from ..settings.values import NumberEmbedding
from .column import TRUTHS, Column, Odd, decimal_text, odd_words, settled
from .kinds import ONE_HOT, Kind, least_rows
from .scaling import constants
from .statistics import CYCLES, DateStatistics, NumberStatistics, TextStatistics, phase
from .written import NUMBERS, WrittenNumbers, date_of, pattern_of, takes_iso, values_of

MOST_WIDTH = 8  # of an embedding
YES_NO = {**TRUTHS, "1": True, "0": False, "1.0": True, "0.0": False}  # what a column of yes/no words may hold later
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)\.\d+", re.ASCII)


class ColumnEncoder:
    """How the values of one feature column become inputs. Its fields are kept in the model, `kind` among them.

    kind: a name of ENCODERS. reads: number, text or date, what the column is read as. of_kind: the fields that it has
    of its Kind. value_in: of texts with values, what gives a word's value, or None, by these fields; expected: what
    messages call such words; telling: what a word has that may be a value written in another way.
    """

    kind: str
    reads: str
    of_kind: tuple[str, ...] = ()
    telling = r"\w"
    value_in: Callable[[Kind | ColumnEncoder], Callable[[str], float | None]] | None = None

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> ColumnEncoder:
        """Return the encoder of a column with these statistics of its training rows. kind: its Kind, which may be None
        where of_kind has no fields.

        scaling: a name of SCALINGS; embedding: a NumberEmbedding, what else numbers become; name: of the column in
        messages.
        """

    def inputs(self) -> list[InputColumn]:
        """Return what the network's first layer gets of the column."""

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        """Return an array for each of `inputs`: float64 numbers (nan: a gap), or unsigned codes.

        values: numbers, dates or codes, which count `words`.
        """

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        """Return the share of values that are gaps or that training has not seen."""
        return float(np.isnan(self._numbers(values, words)).mean())

    def summary(self) -> str:
        """Return what people are told beside the column's name; may be empty."""
        return ""

    def check(self) -> None:
        """Raise ValueError for fields, as a model file may have them, that cannot be; numbers are known as finite."""

    def _numbers(self, values: np.ndarray, words: list[str] | None) -> np.ndarray:
        """Return numbers, dates, or the values of words, in float64; a gap, and a word without a value, is nan."""
        return np.array(values_of(words, self.value_in(self)))[values] if self.value_in else values.astype(np.float64)

    @classmethod
    def _statistics(cls, found, kind: Kind | None, of_values: type):
        """Return the statistics of the values, which those of texts become, and the fields that the kind has."""
        if isinstance(found, TextStatistics):
            counts = found.counts()
            found = of_values(np.repeat(values_of(counts, cls.value_in(kind)), [*counts.values(), found.gaps]))
        return found, {name: getattr(kind, name) for name in cls.of_kind}


@dataclass(frozen=True)
class NumberEncoder(ColumnEncoder):
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
    kind = reads = "number"

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> NumberEncoder:
        """Return the encoder of a column. Two values are no axis: they get no waves."""
        found, more = cls._statistics(found, kind, NumberStatistics)
        shift, scale = scaling_constants(scaling, found, name)
        known = shift, scale, found.median, found.gaps / max(1, found.rows)
        if not scale or (embedding and embedding.kind == "linear"):
            return cls(*known, **more)
        if embedding and embedding.kind == "pieces":
            return cls(*known, found.edges(embedding.count), **more)
        if embedding and found.distinct > 2:
            return cls(*known, found.edges(), embedding.count, embedding.deviation, **more)
        return cls(*known, found.edges(), **more)

    def inputs(self) -> list[InputColumn]:
        more = {"edges": tuple(self._scaled(np.array(self.edges)).tolist())} if self.edges else {}
        if self.waves:
            more |= {"waves": self.waves, "deviation": self.deviation}
        if not self.unknown_share:
            return [InputColumn("number", **more)]
        return [InputColumn("gap", fill=float(self._scaled(np.array([self.median]))[0]), **more)]

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        numbers = self._numbers(values, words)
        return [self._scaled(numbers if self.unknown_share else np.where(np.isnan(numbers), self.median, numbers))]

    def summary(self) -> str:
        gaps = f"{self.unknown_share:.0%} gaps" if self.unknown_share else ""
        pieces = f"{len(self.edges) - 1} pieces" if self.edges else ""
        waves = f"{self.waves} waves" if self.waves else ""
        return ", ".join(filter(None, (gaps, pieces, waves)))

    def check(self) -> None:
        numbers = [edge for edge in self.edges if isinstance(edge, (int, float)) and math.isfinite(edge)]
        ascend = all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False))
        if not len(numbers) == len(self.edges) != 1 or not ascend:
            raise ValueError("edges")
        if type(self.waves) is not int or not 0 <= self.waves <= MOST_WAVES or self.deviation <= 0:
            raise ValueError("waves")

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return (values - self.shift) / self.scale if self.scale else np.where(np.isnan(values), np.nan, 0.0)


@dataclass(frozen=True)
class TruthEncoder(ColumnEncoder):
    """A column of yes/no words without gaps: 0 or 1. `share`: of yes in training, which stands for a gap later."""

    share: float
    kind, reads = "yes/no", "text"
    expected = "yes or no, true or false, 1 or 0"

    @staticmethod
    def value_in(how: Kind | ColumnEncoder) -> Callable[[str], float | None]:
        return lambda word: YES_NO.get(word.lower())

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> TruthEncoder:
        """Return the encoder of a column."""
        yes = sum(count for word, count in found.counts().items() if YES_NO.get(word.lower()))
        return cls(yes / max(1, found.rows))

    def inputs(self) -> list[InputColumn]:
        return [InputColumn("number")]

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        truths = self._numbers(values, words)
        return [np.where(np.isnan(truths), self.share, truths)]


@dataclass(frozen=True)
class CategoryEncoder(ColumnEncoder):
    """A column of texts. Few values have an input each, many a row of a table that is trained with the network.

    values: those with a slot of their own (least_rows), a gap written as None. shared: the slot 0 is that of all
    others: of rare ones, and so of values that training has not seen. Without rare values the unseen have no input.
    """

    values: list[str | None]
    shared: bool
    width: int  # of the embedding, 0: one input each
    unknown_share: float = 0.0
    decimals: bool = False  # 1, 1.0 and 1e0 are one value
    kind, reads = "category", "text"

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> CategoryEncoder:
        """Return the encoder of a column."""
        decimals = kind is not None and kind.decimals
        of_words = found.counts(decimal_text if decimals else str)
        counts: dict[str | None, int] = {**of_words, None: found.gaps}
        least = least_rows(of_words.values())
        values = [value for value, count in counts.items() if count >= least]
        rare = any(0 < count < least for count in counts.values())
        slots = len(values) + rare
        of_rare = sum(count for value, count in counts.items() if count < least and value is not None)
        unknown = (found.gaps + of_rare) / max(1, found.rows)
        if slots <= ONE_HOT:
            return cls(values, rare, 0, unknown, decimals)
        if not rare:  # the slot of unseen values is trained by the rarest value
            values.remove(min(values, key=lambda value: counts[value]))
        return cls(values, True, min(MOST_WIDTH, math.ceil(math.sqrt(slots))), unknown, decimals)

    @property
    def slots(self) -> int:
        """Return the number of values, the shared slot counted."""
        return len(self.values) + self.shared

    def inputs(self) -> list[InputColumn]:
        if self.width:
            return [InputColumn("embedding", values=self.slots, width=self.width)]
        return [InputColumn("onehot", values=self.slots)]

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        other = 0 if self.shared else self.slots  # beyond all slots: no input
        found = [*self._places_of(words), self._places().get(None)]  # code -1, a gap, is the last
        codes = np.array([other if place is None else place + self.shared for place in found], np.int64)
        return [codes[values].astype(smallest_code(self.slots + 1))]

    def unknown(self, values: np.ndarray, words: list[str] | None = None) -> float:
        is_unknown = np.array([*(place is None for place in self._places_of(words)), True])
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

    def _places(self) -> dict[str | None, int]:
        """Return the place of each value, and of decimals as other formats write them."""
        places = {value: index for index, value in enumerate(self.values)}
        return {_shortest(value): index for value, index in places.items() if value is not None} | places

    def _places_of(self, words: list[str]) -> list[int | None]:
        """Return the place of each word, None of one that has none."""
        places, other = self._places(), decimal_text if self.decimals else _shortest
        return [places[word] if word in places else places.get(other(word)) for word in words]


def _shortest(word: str) -> str:
    """Return a decimal without zeros at its end, as formats with typed columns have it: 1 for 1.0; else the word."""
    return word.rstrip("0").removesuffix(".") if _DECIMAL.fullmatch(word) else word


@dataclass(frozen=True)
class DateEncoder(ColumnEncoder):
    """A column of dates: a trend, scaled, and sine and cosine of the cycles that vary. A gap becomes the mean date."""

    shift: float
    scale: float
    cycles: list[str] = field(default_factory=list)
    unknown_share: float = 0.0
    kind = reads = "date"

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> DateEncoder:
        """Return the encoder of a column."""
        found, more = cls._statistics(found, kind, DateStatistics)
        shift, scale = scaling_constants("standardization", found, "a column of dates")
        return cls(shift, scale, found.cycles, found.gaps / max(1, found.rows), **more)

    def inputs(self) -> list[InputColumn]:
        trend = InputColumn("gap") if self.unknown_share else InputColumn("number")
        return [trend] + [InputColumn("number")] * (2 * len(self.cycles))

    def encode(self, values: np.ndarray, words: list[str] | None = None) -> list[np.ndarray]:
        dates = self._numbers(values, words)
        gaps = np.isnan(dates)
        seconds = np.where(gaps, self.shift, dates)
        trend = (seconds - self.shift) / self.scale if self.scale else np.zeros(len(seconds))
        if self.unknown_share:
            trend = np.where(gaps, np.nan, trend)
        angles = [2 * np.pi * phase(seconds, cycle) for cycle in self.cycles]
        return [trend, *(np.where(gaps, 0.0, wave(angle)) for angle in angles for wave in (np.sin, np.cos))]

    def summary(self) -> str:
        return ", ".join(["trend", *self.cycles])

    def check(self) -> None:
        if not set(self.cycles) <= set(CYCLES):
            raise ValueError("cycles")


# ---------------------------------------------------------------- texts that have values


@dataclass(frozen=True)
class WrittenNumberEncoder(NumberEncoder):
    """A column of words that are numbers as people write them, $1,234.50 or 12 %; see WrittenNumbers."""

    way: str = NUMBERS[0]
    before: str = ""
    behind: str = ""
    kind, reads, of_kind = "written number", "text", ("way", "before", "behind")
    telling = r"\d"

    @property
    def expected(self) -> str:
        return f"a number such as {self.before}{self.way}{self.behind}, as in training"

    @staticmethod
    def value_in(how: Kind | ColumnEncoder) -> Callable[[str], float | None]:
        return WrittenNumbers(how.way, how.before, how.behind).number_of

    def check(self) -> None:
        super().check()
        if self.way not in NUMBERS or not isinstance(self.before, str) or not isinstance(self.behind, str):
            raise ValueError("way")

    def summary(self) -> str:
        return ", ".join(filter(None, (f"{self.before}{self.way}{self.behind}", super().summary())))


@dataclass(frozen=True)
class WrittenDateEncoder(DateEncoder):
    """A column of words that are dates as people write them, 12/31/2019; later as ISO 8601 has them too, which is what
    dates of typed columns become. way: see pattern_of."""

    way: str = ""
    kind, reads, of_kind = "written date", "text", ("way",)
    telling = r"\d"

    @property
    def expected(self) -> str:
        return f"a date written as {self.way}, as in training" + ", or as 2019-12-31" * takes_iso(self.way)

    @staticmethod
    def value_in(how: Kind | ColumnEncoder) -> Callable[[str], float | None]:
        return partial(date_of, form=how.way, or_iso=True)

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> WrittenDateEncoder:
        """Return the encoder of a column."""
        encoder = super().fit(found, kind)
        if {"d", "j", "H"} & {*pattern_of(kind.way).groupindex}:
            return encoder
        return replace(encoder, cycles=[cycle for cycle in encoder.cycles if cycle == "year"])  # months have no week

    def check(self) -> None:
        super().check()
        pattern_of(self.way)

    def summary(self) -> str:
        return f"{self.way}, {super().summary()}"


@dataclass(frozen=True)
class OrderedEncoder(NumberEncoder):
    """A column of ordered words, of which `order` has the least first: their ranks, scaled to mean 0, deviation 1."""

    order: list[str] = field(default_factory=list)
    kind, reads, of_kind = "ordered", "text", ("order",)

    @property
    def expected(self) -> str:
        return f"one of {' < '.join(self.order)}, as in training"

    @staticmethod
    def value_in(how: Kind | ColumnEncoder) -> Callable[[str], float | None]:
        ranks = {decimal_text(word): rank for rank, word in enumerate(how.order)}
        return lambda word: ranks.get(decimal_text(word))

    @classmethod
    def fit(cls, found, kind=None, scaling="standardization", embedding=None, name="a column") -> OrderedEncoder:
        """Return the encoder of a column."""
        return super().fit(found, kind, "standardization", NumberEmbedding("linear"))

    def check(self) -> None:
        super().check()
        if not isinstance(self.order, list) or len({*map(str.strip, self.order)}) < max(2, len(self.order)):
            raise ValueError("order")

    def summary(self) -> str:
        return ", ".join(filter(None, (" < ".join(self.order), super().summary())))


_ENCODERS = (
    NumberEncoder, TruthEncoder, CategoryEncoder, DateEncoder, WrittenNumberEncoder, WrittenDateEncoder,
    OrderedEncoder,
)  # fmt: skip
ENCODERS = {encoder.kind: encoder for encoder in _ENCODERS}


def odd_of(kind: Kind | ColumnEncoder, column: Column) -> dict[str, Odd]:
    """Return the words of a column that have no value though nearly all have one, and become gaps; none of categories.

    kind: what the column is, or the encoder that a model has of it.
    """
    if column.reads != "text":
        return column.odd
    if kind.reads != "text":
        return settled(column, kind.reads).odd
    value_in = ENCODERS[kind.kind].value_in
    if value_in is None:
        return {}
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.words))
    has_none = np.isnan(values_of(column.words, value_in(kind))[:-1])
    return odd_words(column, np.flatnonzero(has_none & (counts > 0)).tolist(), counts)


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
