"""Encoding: how the columns of a table become a network's inputs, decided on the
training rows and kept in the model.

    TableRows ─► statistics of the training rows ─► a ColumnEncoder for each column ─►
    Encoding ─► records

A new kind of column is a row in ENCODERS. A record holds a row's numbers and codes
(core/records.py), of which the network's first layer, of kind embedding, makes its
inputs when a batch is computed (InputColumn in layers.py).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from ..core.records import record_type
from ..core.weighted import distinct_counts, median, quantiles
from ..layers import NEAREST_EDGES, InputColumn
from ..nn_aux import SCALING_ALIASES
from ..settings.values import NumberEmbedding
from ..utils import DataError, log, plural
from .calendar import DATE_CYCLES, DATE_PARTS, YEAR_SECONDS, part, phase
from .column import Column, shortened
from .dataset import TableRows
from .kinds import NUMBER, ONE_HOT, Kind, least_rows
from .records import filled_records
from .scaling import Moments, constants
from .written import (
    Order,
    UnknownForm,
    Written,
    WrittenDates,
    WrittenNumbers,
    YesNo,
    canonical_word,
    forms_of,
    from_fields,
    is_number,
    is_text,
    is_truth,
    is_whole,
    list_of,
)

MOST_WIDTH = 8  # of an embedding
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

ENCODED_ROWS = 1 << 16  # encoded at a time
# from which a prediction in Python tells of gaps and unseen values; a program may ask
# row by row
CALL_ROWS = 100
_RECORD_SIZES = (0, 4, 2, 1)  # bytes of a record's values in their order; 0: numbers
# share of rows above that of training, from which gaps or unseen values are told
_REMARKED_SHARE = 0.05


# ---------------------------------------------------------- what the training rows tell


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
        known = values[~is_gap]
        if len(values):
            self.gap_share = float(np.average(is_gap, weights=counts))
        step = 1 << max(0, math.ceil(math.log2(max(1, len(known)) / SAMPLE)))
        self.sample = known[::step].astype(np.float64)
        if counts is None:
            self.sample_counts = None
        else:
            counts = counts[~is_gap]
            self.sample_counts = counts[::step]
        if not len(known):
            return
        self.moments = Moments.of(known[:, None], weights=counts)
        self.median = median(self.sample, self.sample_counts)
        if are_dates:
            self.cycles = [c for c in DATE_CYCLES if np.ptp(phase(known, c)) > 0]
            if "year" in self.cycles and np.ptp(known) < YEAR_SECONDS / 4:
                self.cycles.remove("year")
            self.parts = [p for p in DATE_PARTS if np.ptp(part(known, p)) > 0]

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
    (train/means.py)."""

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
        self.means: dict[str, list[float]] = {}
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
    statistics: list[NumberStatistics | TextStatistics] = []
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


# ---------------------------------------------------------------- encoders


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
        if embedding:
            kind = embedding.kind
        else:
            kind = None
        if not scale or kind == "linear":
            return {}
        if kind == "pieces":
            edges = statistics.edges(embedding.count)
        else:
            edges = statistics.edges()
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
    kept: list[float] = []
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
        else:
            extra["frequent"] = []
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
        if self.unknown_share:  # the first layer fills gaps
            filled = numbers
        else:
            filled = np.where(np.isnan(numbers), self.median, numbers)
        axis = self._scaled(filled)
        if not self.frequent:
            return [axis]
        with np.errstate(over="ignore"):
            known = np.array([*self.frequent, np.nan], np.float32)
            numbers = numbers.astype(np.float32)
        places = np.searchsorted(known[:-1], numbers)
        # of others: beyond all, no input
        codes = np.where(known[places] == numbers, places, len(self.frequent))
        return [axis, codes.astype(np.min_scalar_type(len(self.frequent)))]

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
    def fit(
        cls,
        statistics,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> TruthEncoder:
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
        if any(len(one) != self.targets for one in self.means.values()):
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
        counts: dict[str | None, int] = {**statistics.counts, None: statistics.gaps}
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
        if self.width:
            kind = "embedding"
        else:
            kind = "onehot"
        return [
            InputColumn(kind, values=self.slots, width=self.width),
            *[InputColumn("number")] * self.targets,
        ]

    def encode(self, column: Column) -> list[np.ndarray]:
        # beyond all slots: no input
        if self.shared:
            other = 0
        else:
            other = self.slots
        slots = {value: slot for slot, value in enumerate(self.values, self.shared)}
        words = [*column.words, None]  # code -1 is a gap
        codes = np.array([slots.get(word, other) for word in words], np.int64)
        no_means = [0.0] * self.targets
        means = np.array([self.means.get(word, no_means) for word in words])
        codes_of_rows = codes[column.values].astype(np.min_scalar_type(self.slots))
        return [codes_of_rows, *means[column.values].T]

    def unknown(self, column: Column) -> float:
        known = set(self.values)
        is_unknown = np.array([*(word not in known for word in column.words), True])
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
    def fit(
        cls,
        statistics,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> DateEncoder:
        shift, scale = scaling_constants("standardization", statistics, name)
        if embedding:
            extra = cls.extra_fields(statistics, embedding, shift, scale)
        else:
            extra = {}
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
        if self.unknown_share:  # the first layer fills gaps
            trend = self._scaled(dates)
        else:
            trend = self._scaled(seconds)
        angles = [2 * np.pi * phase(seconds, cycle) for cycle in self.cycles]
        inputs = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
        for name in self.parts:
            shift, scale = DATE_PARTS[name]
            inputs.append((part(seconds, name) - shift) / scale)
        return [trend, *(np.where(gaps, 0.0, values) for values in inputs)]

    def details(self) -> list[str]:
        return ["trend", *self.cycles, *self.parts, *super().details()]


# kind -> its encoder, and how words stand for its values
ENCODERS: dict[str, tuple[type[ColumnEncoder], type[Written] | None]] = {
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


# --------------------------------------------------------------- all columns of a table


@dataclass(frozen=True)
class Encoding:
    """The encoders of a table's feature columns, in the file's order. names: of the
    columns, None without a header; places: in the file, from 0. plain: all columns are
    numbers without gaps, and read as such."""

    encoders: tuple[ColumnEncoder, ...]
    names: list[str] | None = None
    places: tuple[int, ...] = ()
    plain: bool = False

    @classmethod
    def fit(
        cls,
        statistics: Sequence,
        kinds: Sequence[Kind],
        scaling: str,
        embedding=None,
        **where,
    ) -> Encoding:
        """Return the encoding of columns of these kinds with these statistics of the
        training rows.

        scaling: of numbers, a name of SCALINGS; embedding: a NumberEmbedding, what else
        they become, None: as NumberStatistics.edges has it. where: names, places and
        plain.
        """
        names = where.get("names") or range(len(kinds))
        encoders = []
        for column, kind, name in zip(statistics, kinds, names, strict=True):
            encoder_class = ENCODERS[kind.kind][0]
            encoders.append(
                encoder_class.fit(column, kind, scaling, embedding, f"column {name}")
            )
        return cls(tuple(encoders), **where)

    @property
    def features(self) -> int:
        return len(self.encoders)

    @property
    def columns(self) -> tuple[InputColumn, ...]:
        """Return what the network's first layer gets: numbers, then codes of 4, 2 and 1
        bytes."""
        inputs = [encoder.inputs() for encoder in self.encoders]
        return tuple(inputs[index][which] for index, which in self.order)

    @property
    def order(self) -> list[tuple[int, int]]:
        """Return the values of a record in their order: (feature column, which of its
        encoder's inputs)."""
        places = []
        for index, encoder in enumerate(self.encoders):
            for which, column in enumerate(encoder.inputs()):
                group = _RECORD_SIZES.index(_code_bytes(column))
                places.append((group, index, which))
        return [(index, which) for _, index, which in sorted(places)]

    def record_of(self, dtype: str) -> np.dtype:
        sizes = list(map(_code_bytes, self.columns))
        return record_type(dtype, *map(sizes.count, _RECORD_SIZES))

    def apply(self, x: TableRows, dtype: str, digest: str | None = None) -> np.ndarray:
        """Return rows as records for the engine. digest: of the data, whose records a
        checkpoint's file may keep.
        Raises DataError for rows of other columns."""
        expected = tuple(encoder.reads for encoder in self.encoders)
        if x.kinds != expected:
            raise DataError(
                f"the rows have columns {', '.join(x.kinds)}, "
                f"expected {', '.join(expected)} as in training"
            )
        # words are looked up once a block
        rows = max(ENCODED_ROWS, sum(len(column.words) for column in x.columns))
        if digest is None:
            key = None
        else:
            key = json.dumps([digest, len(x), dtype, sys.byteorder, self.to_dict()])
        return filled_records(
            len(x),
            self.record_of(dtype),
            rows,
            partial(self._fill, x),
            key,
            self.columns,
        )

    def _fill(self, x: TableRows, records: np.ndarray, rows: slice) -> None:
        """Encode some rows into their records."""
        slots = dict.fromkeys(_RECORD_SIZES, 0)
        for encoder, column in zip(self.encoders, x[rows].columns, strict=True):
            encoded = encoder.encode(column)
            for input_column, values in zip(encoder.inputs(), encoded, strict=True):
                size = _code_bytes(input_column)
                if size:
                    group = f"codes{size}"
                else:
                    group = "numbers"
                records[group][:, slots[size]] = values
                slots[size] += 1

    def log_unknown(self, x: TableRows, least: int = 1) -> None:
        """Log a line for each column whose gaps and unseen values are much more
        frequent than in training; none of fewer than `least` rows."""
        if len(x) < least:
            return
        for index, encoder in enumerate(self.encoders):
            share = encoder.unknown(x.columns[index])
            usual = encoder.unknown_share
            if share > usual + _REMARKED_SHARE and share > 2 * usual:
                gaps = "gaps"
                if isinstance(encoder, CategoryEncoder):
                    gaps = "gaps or rare"
                log.warning(
                    "column %s: %s of the values are gaps or were not seen in training, where %s were %s",
                    self.name(index),
                    f"{share:.0%}",
                    f"{usual:.0%}",
                    gaps,
                )

    def name(self, index: int) -> str:
        if self.names:
            return self.names[index] or "(no name)"
        if self.places:
            return str(self.places[index])
        return str(index)

    def by_kind(self) -> dict[str, list[str]]:
        """Return the names of the columns of each kind, each with a remark for
        people."""
        columns: dict[str, list[str]] = {}
        for index, encoder in enumerate(self.encoders):
            column = self.name(index)
            summary = encoder.summary()
            if summary:
                column += f" ({summary})"
            columns.setdefault(encoder.kind, []).append(column)
        return columns

    def to_dict(self) -> dict:
        """Return the encoding as a model's metadata hold it."""
        columns = []
        for encoder in self.encoders:
            values = {"kind": encoder.kind, **vars(encoder)}
            if encoder.written:
                values |= asdict(encoder.written)
            values.pop("written", None)
            for switch, names in encoder.later.items():
                if not values.get(switch):
                    for name in names:
                        values.pop(name, None)
            columns.append(values)
        encoding = {"columns": columns, "places": list(self.places)}
        if self.plain:
            encoding["plain"] = True
        return encoding

    @classmethod
    def from_dict(cls, values: dict, names: list[str] | None) -> Encoding:
        """Return the encoding that to_dict has written. Raises DataError for others."""
        encoders: list[ColumnEncoder] = []
        try:
            places = values["places"]
            plain = values.get("plain", False)
            if not are_places(places):
                raise ValueError("places")
            for column in values["columns"]:
                encoders.append(_encoder_of(column))
            are_numbers = all(encoder.kind == "number" for encoder in encoders)
            if not is_truth(plain) or (plain and not are_numbers):
                raise ValueError("plain")
        except UnknownForm as form:
            index = len(encoders)
            column = dict(enumerate(names or places)).get(index, index)
            raise DataError(
                f'column {column}: values written as "{shortened(str(form))}", which this version cannot read; '
                "write numbers as 1234.5, dates as 2024-12-31, and train again"
            ) from None
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            IndexError,
            OverflowError,
        ) as error:
            raise DataError(
                "damaged encoding of columns, expected a known kind with its constants"
            ) from error
        return cls(tuple(encoders), names, tuple(places), plain)


def are_places(value) -> bool:
    """Return whether a value of a model file is a list of places of columns."""
    return isinstance(value, list) and all(
        type(place) is int and 0 <= place < 2**31 for place in value
    )


def _encoder_of(column: dict) -> ColumnEncoder:
    """Return the encoder of a column as a model's file has it. Raises KeyError,
    TypeError or ValueError for fields that cannot be."""
    values = dict(column)
    encoder_class, written_class = ENCODERS[values.pop("kind")]
    if "written" in values:  # its fields are the column's own
        raise ValueError("written")
    if written_class:
        names = written_class.checks.keys() & values.keys()
        written_fields = {name: values.pop(name) for name in names}
        values["written"] = from_fields(written_class, written_fields)
    # what its inputs may be, layers.py checks
    return from_fields(encoder_class, values)


def _code_bytes(column: InputColumn) -> int:
    """Return the bytes of an input column's codes, 0 for numbers. One code more says
    that there is no input."""
    if column.kind in ("number", "gap"):
        return 0
    return np.min_scalar_type(column.values).itemsize
