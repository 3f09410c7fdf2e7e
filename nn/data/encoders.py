"""Encoders: how the values of one feature column become inputs of a network.

A new kind of column is a row in ENCODERS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..layers import NEAREST_EDGES, InputColumn
from ..nn_aux import SCALING_ALIASES
from ..settings.values import NumberEmbedding
from ..utils import plural
from .calendar import DATE_CYCLES, DATE_PARTS, part, phase
from .column import Column
from .kinds import NUMBER, ONE_HOT, Kind, least_rows
from .scaling import constants
from .statistics import NumberStatistics
from .written import (
    Order,
    Written,
    WrittenDates,
    WrittenNumbers,
    YesNo,
    canonical_word,
    forms_of,
    is_number,
    is_text,
    is_truth,
    is_whole,
    list_of,
)

MOST_WIDTH = 8  # of an embedding


class ColumnEncoder:
    """How the values of one feature column become inputs. Its fields, and those of
    `written`, are kept in the model.

    kind: a name of ENCODERS. written: how words stand for its values; None: it has
    none, or they are categories. reads: number, text or date, as the column is read.
    unknown_share: of gaps, and rare values, in training.
    A class of encoders has fit(statistics, kind, scaling, embedding, name): it returns
    the encoder of a column with these statistics of its training rows (scaling: a name
    of SCALINGS; embedding: a NumberEmbedding, what else numbers become; name: of the
    column in messages). It also has inputs(), what the network's first layer gets of
    it; and encode(column), an array for each of these, float64 numbers (nan: a gap) or
    unsigned codes.
    """

    plain_kind: str
    written: Written | None = None
    unknown_share = 0.0
    means = None
    checks: ClassVar[dict[str, Callable]]  # of the fields, as a model's file has them
    later: ClassVar = {  # fields that earlier files lack, by what they have nothing without
        "decimals": ("decimals",),
        "means": ("means",),
        "truths": ("truths",),
        "waves": ("waves", "deviation"),
        "frequent": ("frequent",),
    }

    @property
    def kind(self) -> str:
        if self.written:
            return self.written.kind
        return self.plain_kind

    @property
    def reads(self) -> str:
        return Kind(self.kind, self.written).reads

    def unknown(self, column: Column) -> float:
        """Return the share of values that are gaps or that training has not seen."""
        return float(np.isnan(self._numbers(column)).mean())

    def details(self) -> list[str]:
        return []

    def summary(self) -> str:
        """Return what people are told beside the column's name; may be empty."""
        return ", ".join(filter(None, [str(self.written or ""), *self.details()]))

    def _numbers(self, column: Column) -> np.ndarray:
        """Return numbers, dates, or the values of words, in float64; a gap, and a word
        without a value, is nan."""
        if self.written:
            return self.written.values_of(column.words)[column.values]
        return column.values.astype(np.float64)


class AxisEncoder(ColumnEncoder):
    """An axis, scaled, perhaps with pieces and waves: numbers, and the trend of dates.
    Encoders have its fields."""

    checks: ClassVar = {
        "shift": is_number,
        "scale": is_number,
        "unknown_share": is_number,
        "edges": list_of(is_number),
        "waves": is_whole,
        "deviation": is_number,
    }

    @staticmethod
    def extra_fields(
        statistics: NumberStatistics,
        embedding: NumberEmbedding | None,
        shift: float,
        scale: float,
    ) -> dict:
        """Return the fields of what the axis gets beside itself. Two values are no
        axis: they get no waves."""
        kind = embedding.kind if embedding else None
        if not scale or kind == "linear":
            return {}
        pieces = embedding.count if kind == "pieces" else None
        edges = statistics.edges(pieces)
        extra = {"edges": _apart(edges, shift, scale)}
        if kind == "waves" and len(np.unique(statistics.sample)) > 2:
            extra |= {"waves": embedding.count, "deviation": embedding.deviation}
        return extra

    @property
    def wave_fields(self) -> dict:
        if self.waves:
            return {"waves": self.waves, "deviation": self.deviation}
        return {}

    def axis(self, middle: float) -> InputColumn:
        """Return the input of the axis itself. middle: what a gap becomes."""
        edges = tuple(self._scaled(np.array(self.edges)).tolist())
        if not self.unknown_share:
            return InputColumn("number", edges=edges, **self.wave_fields)
        fill = float(self._scaled(middle))
        return InputColumn("gap", fill=fill, edges=edges, **self.wave_fields)

    def details(self) -> list[str]:
        details = []
        if self.edges:
            details.append(f"{len(self.edges) - 1} pieces")
        if self.waves:
            details.append(f"{self.waves} waves")
        return details

    def _scaled(self, values):
        return (values - self.shift) / (self.scale or math.inf)


def _apart(edges: list[float], shift: float, scale: float) -> list[float]:
    """Return the edges that differ once they are scaled, in float32: a number far from
    all others may make one of many. None where fewer than two do."""
    kept = []
    last = -math.inf
    for edge in edges:
        scaled = float(np.float32((edge - shift) / scale))
        if scaled - last >= NEAREST_EDGES:
            kept.append(edge)
            last = scaled
    if len(kept) > 1:
        return kept
    return []


@dataclass(frozen=True)
class NumberEncoder(AxisEncoder):
    """A column of numbers: scaled. A gap becomes the median; where training had gaps, a
    0/1 input tells them.

    Where one value is the usual one, further inputs say how far through each piece of
    the others a number is (the piecewise linear encoding of Gorishniy, Rubachev and
    Babenko 2022). Others may be asked for (NumberEmbedding). Each of the `frequent`
    values has a 0/1 input of its own.
    """

    shift: float
    scale: float  # 0: one value only, which becomes 0
    median: float
    unknown_share: float = 0.0
    # of pieces, see NumberStatistics.edges
    edges: list[float] = field(default_factory=list)
    waves: int = 0
    deviation: float = 1.0  # of the waves' first frequencies
    written: Written | None = None
    frequent: list[float] = field(default_factory=list)
    plain_kind = "number"
    checks: ClassVar = AxisEncoder.checks | {
        "median": is_number,
        "frequent": list_of(is_number),
    }

    @classmethod
    def fit(
        cls,
        statistics,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> NumberEncoder:
        """Return the encoder of a column. Ranks are scaled, and no more."""
        if isinstance(kind.written, Order):
            scaling = "standardization"
            embedding = NumberEmbedding("linear")
        shift, scale = scaling_constants(scaling, statistics, name)
        extra = cls.extra_fields(statistics, embedding, shift, scale)
        if extra.get("edges"):
            extra["frequent"] = statistics.frequent()
        return cls(
            shift,
            scale,
            statistics.median,
            statistics.gap_share,
            written=kind.written,
            **extra,
        )

    def inputs(self) -> list[InputColumn]:
        axis = self.axis(self.median)
        if not self.frequent:
            return [axis]
        return [axis, InputColumn("onehot", values=len(self.frequent))]

    def encode(self, column: Column) -> list[np.ndarray]:
        numbers = self._numbers(column)
        filled = numbers
        if not self.unknown_share:  # else the first layer fills gaps
            filled = np.where(np.isnan(numbers), self.median, numbers)
        axis = self._scaled(filled)
        if not self.frequent:
            return [axis]
        count = len(self.frequent)
        with np.errstate(over="ignore"):
            frequent = np.array([*self.frequent, np.nan], np.float32)
            numbers = numbers.astype(np.float32)
        slots = np.searchsorted(frequent[:count], numbers)
        slots[frequent[slots] != numbers] = count  # of others: beyond all, no input
        return [axis, slots.astype(np.min_scalar_type(count))]

    def details(self) -> list[str]:
        details = super().details()
        if self.unknown_share > 0:
            details.insert(0, f"{self.unknown_share:.0%} gaps")
        if self.frequent:
            details.append(f"{len(self.frequent)} values")
        return details


@dataclass(frozen=True)
class TruthEncoder(ColumnEncoder):
    """A column of yes/no words without gaps: 0 or 1. `share`: of yes in training, which
    stands for a gap later."""

    share: float
    plain_kind = "yes/no"
    written = YesNo()
    checks: ClassVar = {"share": is_number}

    @classmethod
    def fit(cls, statistics, kind, scaling, embedding, name) -> TruthEncoder:
        return cls(float(statistics.moments.mean[0]))

    def inputs(self) -> list[InputColumn]:
        return [InputColumn("number")]

    def encode(self, column: Column) -> list[np.ndarray]:
        truths = self._numbers(column)
        return [np.where(np.isnan(truths), self.share, truths)]


@dataclass(frozen=True)
class CategoryEncoder(ColumnEncoder):
    """A column of texts. Few values have an input each, many a row of a table that is
    trained with the network.

    values: those with a slot of their own (least_rows), a gap written as None. shared:
    the slot 0 is that of all others: of rare ones, and so of values that training has
    not seen. Without rare values the unseen have no input. means: further inputs, of
    each target, by values; 0 of others.
    """

    values: list[str | None]
    shared: bool
    width: int  # of the embedding, 0: one input each
    unknown_share: float = 0.0
    decimals: bool = False  # 1, 1.0 and 1e0 are one value, see loading.canonical
    means: dict[str, list[float]] = field(default_factory=dict)
    truths: bool = False  # TRUE, True and true are one value
    plain_kind = "category"
    checks: ClassVar = {
        "values": list_of(lambda value: value is None or is_text(value)),
        "shared": is_truth,
        "width": is_whole,
        "unknown_share": is_number,
        "decimals": is_truth,
        "means": lambda means: list_of(list_of(is_number))(list(means.values())),
        "truths": is_truth,
    }

    def __post_init__(self):
        if any(
            len(means_of_value) != self.targets
            for means_of_value in self.means.values()
        ):
            raise ValueError("means")

    @classmethod
    def fit(
        cls,
        statistics,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> CategoryEncoder:
        counts = {**statistics.counts, None: statistics.gaps}
        least = least_rows(statistics.counts.values())
        values = [value for value, count in counts.items() if count >= least]
        rare_rows = sum(rows for rows in statistics.counts.values() if rows < least)
        has_rare = rare_rows > 0 or 0 < statistics.gaps < least
        unknown_share = (statistics.gaps + rare_rows) / max(1, statistics.rows)
        slots = len(values) + has_rare
        if slots <= ONE_HOT:
            width = 0
        else:
            width = min(MOST_WIDTH, math.ceil(math.sqrt(slots)))
            if not has_rare:  # the slot of unseen values is trained by the rarest value
                values.remove(min(values, key=counts.__getitem__))
        return cls(
            values,
            has_rare or width > 0,
            width,
            unknown_share,
            kind.decimals,
            statistics.means,
            kind.truths,
        )

    def canonical(self, word: str) -> str:
        """Return the value that a word of a file is."""
        return canonical_word(word, self.decimals, self.truths)

    def forms(self, word: str) -> list[str]:
        """Return how files may write a value: the codes 7, 07, 007, ... where these are
        one, a truth in any case."""
        return list(dict.fromkeys([word, *forms_of(word, self.decimals, self.truths)]))

    @property
    def slots(self) -> int:
        return len(self.values) + self.shared

    @property
    def targets(self) -> int:
        return len(next(iter(self.means.values()), ()))

    def inputs(self) -> list[InputColumn]:
        kind = "embedding" if self.width else "onehot"
        return [
            InputColumn(kind, values=self.slots, width=self.width),
            *[InputColumn("number")] * self.targets,
        ]

    def encode(self, column: Column) -> list[np.ndarray]:
        # beyond all slots: no input
        other = 0 if self.shared else self.slots
        slots = {value: slot for slot, value in enumerate(self.values, self.shared)}
        words = [*column.words, None]  # code -1 is a gap
        codes = np.array([slots.get(word, other) for word in words], np.int64)
        no_means = [0.0] * self.targets
        means = np.array([self.means.get(word, no_means) for word in words])
        codes_of_rows = codes[column.values].astype(np.min_scalar_type(self.slots))
        return [codes_of_rows, *means[column.values].T]

    def unknown(self, column: Column) -> float:
        seen = set(self.values)
        is_unknown = np.array([*(word not in seen for word in column.words), True])
        if len(column):
            return float(is_unknown[column.values].mean())
        return 0.0

    def details(self) -> list[str]:
        values = plural(self.slots, "value")
        if self.width:
            values += f" as {self.width} inputs"
        if self.targets:
            return [values, "means of the target"]
        return [values]


@dataclass(frozen=True)
class DateEncoder(AxisEncoder):
    """A column of dates: a trend, scaled, and sine and cosine of the cycles that vary.
    A gap becomes the mean date.

    Where numbers get pieces or waves (NumberEmbedding), so does the trend; beside
    waves, `parts` of the calendar that vary are numbers with as many waves each.
    """

    shift: float
    scale: float
    cycles: list[str] = field(default_factory=list)
    unknown_share: float = 0.0
    written: Written | None = None
    edges: list[float] = field(default_factory=list)
    waves: int = 0
    deviation: float = 1.0
    parts: list[str] = field(default_factory=list)
    plain_kind = "date"
    later = ColumnEncoder.later | {"edges": ("edges",), "parts": ("parts",)}
    checks: ClassVar = AxisEncoder.checks | {
        "cycles": list_of(is_text),
        "parts": list_of(is_text),
    }

    def __post_init__(self):
        if not {*self.cycles} <= {*DATE_CYCLES}:
            raise ValueError("cycles")
        if not {*self.parts} <= {*DATE_PARTS}:
            raise ValueError("parts")

    @classmethod
    def fit(cls, statistics, kind, scaling, embedding, name) -> DateEncoder:
        shift, scale = scaling_constants("standardization", statistics, name)
        extra = {}
        if embedding:
            extra = cls.extra_fields(statistics, embedding, shift, scale)
        if "waves" in extra:
            extra["parts"] = statistics.parts
        return cls(
            shift, scale, statistics.cycles, statistics.gap_share, kind.written, **extra
        )

    def inputs(self) -> list[InputColumn]:
        parts = [InputColumn("number", **self.wave_fields)] * len(self.parts)
        return [
            self.axis(self.shift),
            *[InputColumn("number")] * (2 * len(self.cycles)),
            *parts,
        ]

    def encode(self, column: Column) -> list[np.ndarray]:
        dates = self._numbers(column)
        gaps = np.isnan(dates)
        seconds = np.where(gaps, self.shift, dates)
        # the first layer fills gaps
        trend = self._scaled(dates if self.unknown_share else seconds)
        angles = [2 * np.pi * phase(seconds, cycle) for cycle in self.cycles]
        inputs = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
        for name in self.parts:
            shift, scale = DATE_PARTS[name]
            inputs.append((part(seconds, name) - shift) / scale)
        return [trend, *(np.where(gaps, 0.0, values) for values in inputs)]

    def details(self) -> list[str]:
        return ["trend", *self.cycles, *self.parts, *super().details()]


# kind -> its encoder, and how words stand for its values
ENCODERS = {
    "number": (NumberEncoder, None),
    "yes/no": (TruthEncoder, None),
    "category": (CategoryEncoder, None),
    "date": (DateEncoder, None),
    "written number": (NumberEncoder, WrittenNumbers),
    "written date": (DateEncoder, WrittenDates),
    "ordered": (NumberEncoder, Order),
}


def scaling_constants(
    kind: str, statistics: NumberStatistics, name: str
) -> tuple[float, float]:
    """Return (shift, scale) of a column, scale 0 for one of a single value. name: of
    the column in messages."""
    kind = SCALING_ALIASES.get(kind, kind)
    if kind in ("none", "pixel"):
        return 0.0, 1.0
    moments = statistics.moments
    if not moments:  # gaps only
        return 0.0, 0.0
    if moments.low[0] == moments.high[0]:
        return float(moments.low[0]), 0.0
    shift, scale = constants(kind, moments, lambda _: name)
    return float(shift[0]), float(scale[0])
