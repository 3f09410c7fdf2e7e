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
from dataclasses import asdict, dataclass, field, fields
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
        is_known = ~np.isnan(values)
        known = values[is_known]
        if counts is None:
            of_known = None
        else:
            of_known = counts[is_known]
        if len(values):
            self.gap_share = float(np.average(~is_known, weights=counts))
        else:
            self.gap_share = 0.0
        if len(known):
            self.moments = Moments.of(known[:, None], weights=of_known)
        else:
            self.moments = None
        step = 1 << max(0, math.ceil(math.log2(max(1, len(known)) / SAMPLE)))
        self.sample = known[::step].astype(np.float64)
        if of_known is None:
            self.sample_counts = None
        else:
            self.sample_counts = of_known[::step]
        if len(known):
            self.median = median(self.sample, self.sample_counts)
        else:
            self.median = 0.0
        cycles = [
            cycle
            for cycle in DATE_CYCLES
            if are_dates and len(known) and np.ptp(phase(known, cycle)) > 0
        ]
        self.cycles = [
            cycle
            for cycle in cycles
            if cycle != "year" or np.ptp(known) >= YEAR_SECONDS / 4
        ]
        self.parts = [
            name
            for name in DATE_PARTS
            if are_dates and len(known) and np.ptp(part(known, name)) > 0
        ]

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
        if len(values) < 3 or (
            pieces is None
            and (len(values) < 4 or not len(usual) or rows < LEAST_OTHERS)
        ):
            return []
        pieces = pieces or min(USUAL_VALUE_PIECES, int(rows) // ROWS_A_PIECE)
        is_other = ~np.isin(self.sample, usual)
        if self.sample_counts is None:
            of_others = None
        else:
            of_others = self.sample_counts[is_other]
        ends = quantiles(
            self.sample[is_other], np.linspace(0, 1, pieces + 1), of_others
        )
        return np.unique([*usual, *ends]).tolist()

    def frequent(self) -> list[float]:
        """Return values beside the usual one that are often repeated, as sums that a
        law names are, in float32: most rows beside the usual value have one of them.
        None where pieces can tell all values apart."""
        values, counts = distinct_counts(
            self.sample.astype(np.float32), self.sample_counts
        )
        others = 2 * counts <= counts.sum()
        often = np.flatnonzero(others & (counts >= ROWS_A_VALUE))
        rows = counts[others].sum()
        if (
            others.all()
            or len(values) <= USUAL_VALUE_PIECES + 1
            or rows < REPEATED
            or 2 * counts[often].sum() < rows
        ):
            return []
        return np.sort(
            values[
                often[np.argsort(-counts[often], kind="stable")[:MOST_REPEATED_VALUES]]
            ]
        ).tolist()


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
        self.gaps, *of_words = np.bincount(codes + 1, counts, len(words) + 1).tolist()
        self.counts = dict(
            sorted(
                (word, rows) for word, rows in zip(words, of_words, strict=True) if rows
            )
        )
        self.rows = self.gaps + sum(of_words)
        are_many = means_of and ONE_HOT < len(self.counts) <= MOST_MEANS
        self.means: dict[str, list[float]] = means_of(codes, words) if are_many else {}


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
    found: list[NumberStatistics | TextStatistics] = []
    for column, kind in zip(x.columns, kinds or [NUMBER] * len(x.columns), strict=True):
        values = column.values[rows]
        if kind.kind == "category":
            found.append(TextStatistics(values, column.words, means_of, counts))
            continue
        if kind.written:
            values = kind.written.values_of(column.words)[values]
        found.append(
            NumberStatistics(values, kind.kind in ("date", "written date"), counts)
        )
    return found


# ---------------------------------------------------------------- encoders


class ColumnEncoder:
    """How the values of one feature column become inputs. Its fields, and those of
    `written`, are kept in the model.

    kind: a name of ENCODERS. written: how words stand for its values; None: it has
    none, or they are categories. reads: number, text or date, as the column is read.
    unknown_share: of gaps, and rare values, in training.
    A class of encoders has fit(found, kind, scaling, embedding, name), which returns
    the encoder of a column with these statistics of its training rows (scaling: a name
    of SCALINGS; embedding: a NumberEmbedding, what else numbers become; name: of the
    column in messages); inputs(), what the network's first layer gets of it; and
    encode(column), an array for each of these, float64 numbers (nan: a gap) or unsigned
    codes.
    """

    plain_kind: str
    written: Written | None = None
    unknown_share = 0.0
    means = None
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

    def facts(self) -> list[str]:
        return []

    def summary(self) -> str:
        """Return what people are told beside the column's name; may be empty."""
        return ", ".join(filter(None, [str(self.written or ""), *self.facts()]))

    def _numbers(self, column: Column) -> np.ndarray:
        """Return numbers, dates, or the values of words, in float64; a gap, and a word
        without a value, is nan."""
        if self.written:
            return self.written.values_of(column.words)[column.values]
        return column.values.astype(np.float64)


class AxisEncoder(ColumnEncoder):
    """An axis, scaled, perhaps with pieces and waves: numbers, and the trend of dates.
    Encoders have its fields."""

    @staticmethod
    def more_inputs(
        found: NumberStatistics,
        embedding: NumberEmbedding | None,
        shift: float,
        scale: float,
    ) -> dict:
        """Return the fields of what the axis gets beside itself. Two values are no
        axis: they get no waves."""
        if embedding:
            asked = embedding.kind
        else:
            asked = None
        more = {}
        if scale and asked != "linear":
            edges = found.edges(embedding.count if asked == "pieces" else None)
            more["edges"] = _apart(edges, shift, scale)
            if asked == "waves" and len(np.unique(found.sample)) > 2:
                more |= {"waves": embedding.count, "deviation": embedding.deviation}
        return more

    @property
    def waves_of(self) -> dict:
        if self.waves:
            return {"waves": self.waves, "deviation": self.deviation}
        return {}

    def axis(self, middle: float) -> InputColumn:
        """Return the input of the axis itself. middle: what a gap becomes."""
        more = {
            "edges": tuple(self._scaled(np.array(self.edges)).tolist())
        } | self.waves_of
        if not self.unknown_share:
            return InputColumn("number", **more)
        return InputColumn("gap", fill=float(self._scaled(middle)), **more)

    def facts(self) -> list[str]:
        pieces = self.edges and f"{len(self.edges) - 1} pieces"
        return [fact for fact in (pieces, self.waves and f"{self.waves} waves") if fact]

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

    @classmethod
    def fit(
        cls,
        found,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> NumberEncoder:
        """Return the encoder of a column. Ranks are scaled, and no more."""
        if isinstance(kind.written, Order):
            scaling = "standardization"
            embedding = NumberEmbedding("linear")
        shift, scale = scaling_constants(scaling, found, name)
        more = cls.more_inputs(found, embedding, shift, scale)
        if more.get("edges"):
            more["frequent"] = found.frequent()
        else:
            more["frequent"] = []
        return cls(
            shift, scale, found.median, found.gap_share, written=kind.written, **more
        )

    def inputs(self) -> list[InputColumn]:
        return [
            self.axis(self.median),
            *[InputColumn("onehot", values=len(self.frequent))] * bool(self.frequent),
        ]

    def encode(self, column: Column) -> list[np.ndarray]:
        numbers = self._numbers(column)
        axis = self._scaled(
            numbers
            if self.unknown_share
            else np.where(np.isnan(numbers), self.median, numbers)
        )
        if not self.frequent:
            return [axis]
        with np.errstate(over="ignore"):
            known = np.array([*self.frequent, np.nan], np.float32)
            numbers = numbers.astype(np.float32)
        places = np.searchsorted(known[:-1], numbers)
        # of others: beyond all, no input
        codes = np.where(known[places] == numbers, places, len(self.frequent))
        return [axis, codes.astype(np.min_scalar_type(len(self.frequent)))]

    def facts(self) -> list[str]:
        more = [f"{len(self.frequent)} values"] * bool(self.frequent)
        return (
            [f"{self.unknown_share:.0%} gaps"] * (self.unknown_share > 0)
            + super().facts()
            + more
        )


@dataclass(frozen=True)
class TruthEncoder(ColumnEncoder):
    """A column of yes/no words without gaps: 0 or 1. `share`: of yes in training, which
    stands for a gap later."""

    share: float
    plain_kind = "yes/no"
    written = YesNo()

    @classmethod
    def fit(
        cls,
        found,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> TruthEncoder:
        return cls(float(found.moments.mean[0]))

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

    def __post_init__(self):
        if any(len(one) != self.targets for one in self.means.values()):
            raise ValueError("means")

    @classmethod
    def fit(
        cls,
        found,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> CategoryEncoder:
        counts: dict[str | None, int] = {**found.counts, None: found.gaps}
        least = least_rows(found.counts.values())
        values = [value for value, count in counts.items() if count >= least]
        of_rare = sum(
            count
            for value, count in counts.items()
            if count < least and value is not None
        )
        rare = of_rare > 0 or 0 < found.gaps < least
        slots = len(values) + rare
        unknown = (found.gaps + of_rare) / max(1, found.rows)
        if slots <= ONE_HOT:
            return cls(
                values, rare, 0, unknown, kind.decimals, found.means, kind.truths
            )
        if not rare:  # the slot of unseen values is trained by the rarest value
            values.remove(min(values, key=counts.__getitem__))
        width = min(MOST_WIDTH, math.ceil(math.sqrt(slots)))
        return cls(
            values, True, width, unknown, kind.decimals, found.means, kind.truths
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
        places = {value: index + self.shared for index, value in enumerate(self.values)}
        # code -1 is a gap
        codes = np.array(
            [places.get(word, other) for word in [*column.words, None]], np.int64
        )
        means = np.array(
            [
                self.means.get(word, [0.0] * self.targets)
                for word in [*column.words, None]
            ]
        )
        return [
            codes[column.values].astype(np.min_scalar_type(self.slots)),
            *means[column.values].T,
        ]

    def unknown(self, column: Column) -> float:
        known = set(self.values)
        is_unknown = np.array([*(word not in known for word in column.words), True])
        if len(column):
            return float(is_unknown[column.values].mean())
        return 0.0

    def facts(self) -> list[str]:
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

    def __post_init__(self):
        if not (
            set(self.cycles) <= set(DATE_CYCLES) and set(self.parts) <= set(DATE_PARTS)
        ):
            raise ValueError("cycles or parts")

    @classmethod
    def fit(
        cls,
        found,
        kind=NUMBER,
        scaling="standardization",
        embedding=None,
        name="a column",
    ) -> DateEncoder:
        shift, scale = scaling_constants("standardization", found, name)
        if embedding:
            more = cls.more_inputs(found, embedding, shift, scale)
        else:
            more = {}
        if "waves" in more:
            more["parts"] = found.parts
        return cls(shift, scale, found.cycles, found.gap_share, kind.written, **more)

    def inputs(self) -> list[InputColumn]:
        parts = [InputColumn("number", **self.waves_of)] * len(self.parts)
        return [
            self.axis(self.shift),
            *[InputColumn("number")] * (2 * len(self.cycles)),
            *parts,
        ]

    def encode(self, column: Column) -> list[np.ndarray]:
        dates = self._numbers(column)
        gaps = np.isnan(dates)
        seconds = np.where(gaps, self.shift, dates)
        trend = self._scaled(dates if self.unknown_share else seconds)
        angles = [2 * np.pi * phase(seconds, cycle) for cycle in self.cycles]
        others = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
        others += [
            (part(seconds, name) - DATE_PARTS[name][0]) / DATE_PARTS[name][1]
            for name in self.parts
        ]
        return [trend, *(np.where(gaps, 0.0, values) for values in others)]

    def facts(self) -> list[str]:
        return ["trend", *self.cycles, *self.parts, *super().facts()]


# kind -> and how words stand for values
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
    kind: str, found: NumberStatistics, name: str
) -> tuple[float, float]:
    """Return (shift, scale) of a column, scale 0 for one of a single value. name: of
    the column in messages."""
    kind = SCALING_ALIASES.get(kind, kind)
    moments = found.moments
    if kind in ("none", "pixel"):
        return 0.0, 1.0
    if not moments or moments.low[0] == moments.high[0]:
        return float(moments.low[0]) if moments else 0.0, 0.0
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
        found: Sequence,
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
        called = where.get("names") or range(len(kinds))
        encoders = (
            ENCODERS[kind.kind][0].fit(
                column, kind, scaling, embedding, f"column {name}"
            )
            for column, kind, name in zip(found, kinds, called, strict=True)
        )
        return cls(tuple(encoders), **where)

    @property
    def features(self) -> int:
        return len(self.encoders)

    @property
    def columns(self) -> tuple[InputColumn, ...]:
        """Return what the network's first layer gets: numbers, then codes of 4, 2 and 1
        bytes."""
        each = [encoder.inputs() for encoder in self.encoders]
        return tuple(each[index][which] for index, which in self.order)

    @property
    def order(self) -> list[tuple[int, int]]:
        """Return the values of a record in their order: (feature column, which of its
        encoder's inputs)."""
        each = [
            (i, which, column)
            for i, one in enumerate(self.encoders)
            for which, column in enumerate(one.inputs())
        ]
        return [
            (i, which)
            for i, which, _ in sorted(
                each, key=lambda one: _RECORD_SIZES.index(_code_bytes(one[2]))
            )
        ]

    def record_of(self, dtype: str) -> np.dtype:
        sizes = list(map(_code_bytes, self.columns))
        return record_type(dtype, *map(sizes.count, _RECORD_SIZES))

    def apply(self, x: TableRows, dtype: str, digest: str | None = None) -> np.ndarray:
        """Return rows as records for the engine. digest: of the data, whose records a
        checkpoint's file may keep.
        Raises DataError for rows of other columns."""
        found = x.kinds
        expected = tuple(encoder.reads for encoder in self.encoders)
        if found != expected:
            raise DataError(
                f"the rows have columns {', '.join(found)}, expected {', '.join(expected)} as in training"
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
        at = dict.fromkeys(_RECORD_SIZES, 0)
        for encoder, own in zip(self.encoders, x[rows].columns, strict=True):
            for column, values in zip(
                encoder.inputs(), encoder.encode(own), strict=True
            ):
                size = _code_bytes(column)
                if size:
                    group = f"codes{size}"
                else:
                    group = "numbers"
                records[group][:, at[size]] = values
                at[size] += 1

    def tell(self, x: TableRows, least: int = 1) -> None:
        """Log a line for each column whose gaps and unseen values are much more
        frequent than in training; none of fewer than `least` rows."""
        for index, encoder in enumerate(self.encoders if len(x) >= least else ()):
            share = encoder.unknown(x.columns[index])
            usual = encoder.unknown_share
            if share > usual + _REMARKED_SHARE and share > 2 * usual:
                told = "column %s: %s of the values are gaps or were not seen in training, where %s were gaps%s"
                rare = " or rare" * isinstance(encoder, CategoryEncoder)
                log.warning(
                    told, self.name(index), f"{share:.0%}", f"{usual:.0%}", rare
                )

    def name(self, index: int) -> str:
        if self.names:
            return self.names[index] or "(no name)"
        return str(self.places[index] if self.places else index)

    def by_kind(self) -> dict[str, list[str]]:
        """Return the names of the columns of each kind, each with a remark for
        people."""
        found: dict[str, list[str]] = {}
        for index, encoder in enumerate(self.encoders):
            summary = encoder.summary()
            found.setdefault(encoder.kind, []).append(
                self.name(index) + (f" ({summary})" if summary else "")
            )
        return found

    def to_dict(self) -> dict:
        """Return the encoding as a model's metadata hold it."""
        columns = []
        for encoder in self.encoders:
            values = {
                "kind": encoder.kind,
                **vars(encoder),
                **(asdict(encoder.written) if encoder.written else {}),
            }
            gone = {
                "written",
                *(
                    name
                    for one, names in encoder.later.items()
                    if not values.get(one)
                    for name in names
                ),
            }
            columns.append(
                {name: value for name, value in values.items() if name not in gone}
            )
        return {
            "columns": columns,
            "places": list(self.places),
            **({"plain": True} if self.plain else {}),
        }

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
                column = dict(column)
                encoder_class, written_class = ENCODERS[column.pop("kind")]
                if "written" in column:  # its fields are the column's own
                    raise ValueError("written")
                if written_class:
                    own = {
                        one.name: column.pop(one.name)
                        for one in fields(written_class)
                        if one.name in column
                    }
                    column["written"] = _made(written_class, own)
                # what its inputs may be, layers.py checks
                encoders.append(_made(encoder_class, column))
            if not isinstance(plain, bool) or (
                plain and any(encoder.kind != "number" for encoder in encoders)
            ):
                raise ValueError("plain")
        except UnknownForm as form:
            column = dict(enumerate(names or places)).get(len(encoders), len(encoders))
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


def _made(cls, values: dict):
    """Return an encoder, or how its words are written, of fields that have their types.
    Raises KeyError, TypeError or ValueError for others."""
    for known in fields(cls):
        if (
            known.name in values
            and known.name != "written"
            and not _is_of(known.type, values[known.name])
        ):
            raise ValueError(known.name)
    return cls(**values)


def _is_of(kind: str, value) -> bool:
    """Return whether a value of a model file is of the type of a field; numbers are
    finite."""
    if kind.startswith("list["):
        return isinstance(value, list) and all(_is_of(kind[5:-1], one) for one in value)
    if kind.startswith("dict["):  # by words
        return isinstance(value, dict) and all(
            _is_of(kind[10:-1], one) for one in value.values()
        )
    if kind == "float":
        return isinstance(value, (int, float)) and math.isfinite(value)
    return type(value).__name__ == kind.removesuffix(" | None") or (
        value is None and kind == "str | None"
    )


def _code_bytes(column: InputColumn) -> int:
    """Return the bytes of an input column's codes, 0 for numbers. One code more says
    that there is no input."""
    if column.kind in ("number", "gap"):
        return 0
    return np.min_scalar_type(column.values).itemsize
