"""Encoding: how the columns of a table become a network's inputs, decided on the training rows and kept in the model.

    TableRows ─► statistics of the training rows ─► a ColumnEncoder for each column ─► Encoding ─► records

A record holds a row's numbers and codes (core/records.py). The network's first layer, of kind embedding, makes its
inputs of them (InputColumn in layers.py): codes stay codes until a batch is computed.
A new kind of column is a class with the methods of ColumnEncoder and a line in ENCODERS.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ..core.records import record_type
from ..layers import InputColumn
from ..nn_aux import MOST_WAVES, SCALING_ALIASES, NumberEmbedding
from ..utils import DataError, log
from . import written
from .scaling import constants
from .statistics import DateStatistics, NumberStatistics, TextStatistics, phase
from .table_files import TRUTHS
from .table_rows import TableRows

ONE_HOT = 16  # values of a category up to which each has an input of its own; more are embedded
MOST_WIDTH = 8  # of an embedding
RARE = 5  # rows below which a value shares a slot with those never seen
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)\.\d+", re.ASCII)
_FREQUENT = 0.05  # share of rows above that of training, from which gaps or unseen values are told


class ColumnEncoder(Protocol):
    """How the values of one feature column become inputs. Its fields are kept in the model, `kind` among them.

    kind: a name of ENCODERS. reads: number, text or date, what the column is read as.
    """

    kind: str
    reads: str

    def inputs(self) -> list[InputColumn]:
        """Return what the network's first layer gets of the column."""

    def encode(self, values: np.ndarray, words: list[str] | None) -> list[np.ndarray]:
        """Return an array for each of `inputs`: float64 numbers (nan: a gap), or unsigned codes.

        values: numbers, dates or codes, which count `words`.
        """

    def unknown(self, values: np.ndarray, words: list[str] | None) -> float:
        """Return the share of values that are gaps or that training has not seen."""

    def summary(self) -> str:
        """Return what people are told beside the column's name; may be empty."""


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
        shift, scale = _scaling_constants(scaling, found, name)
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

    def encode(self, values: np.ndarray, words=None) -> list[np.ndarray]:
        values = values.astype(np.float64)
        if not self.unknown_share:
            values = np.where(np.isnan(values), self.median, values)
        return [self._scaled(values)]

    def unknown(self, values: np.ndarray, words=None) -> float:
        return float(np.isnan(values).mean())

    def summary(self) -> str:
        gaps = f"{self.unknown_share:.0%} gaps" if self.unknown_share else ""
        pieces = f"{len(self.edges) - 1} pieces" if self.edges else ""
        waves = f"{self.waves} waves" if self.waves else ""
        return ", ".join(filter(None, (gaps, pieces, waves)))

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        if not self.scale:
            return np.where(np.isnan(values), np.nan, 0.0)
        return (values - self.shift) / self.scale


@dataclass(frozen=True)
class TruthEncoder:
    """A column of yes/no words without gaps: 0 or 1. `share`: of yes in training, which stands for a gap later."""

    share: float
    kind = "yes/no"
    reads = "text"

    def inputs(self) -> list[InputColumn]:
        return [InputColumn("number")]

    def encode(self, values: np.ndarray, words: list[str]) -> list[np.ndarray]:
        known = [TRUTHS.get(word.lower(), math.nan) for word in words]
        truths = np.array([*known, math.nan])[values]  # code -1, a gap, is the last
        return [np.where(np.isnan(truths), self.share, truths)]

    def unknown(self, values: np.ndarray, words: list[str]) -> float:
        known = np.array([*(word.lower() in TRUTHS for word in words), False])
        return float(1 - known[values].mean())

    def summary(self) -> str:
        return ""


@dataclass(frozen=True)
class CategoryEncoder:
    """A column of texts. Few values have an input each, many a row of a table that is trained with the network.

    values: those with a slot of their own, a gap written as None. shared: the slot 0 is that of all others: of rare
    ones, and so of values that training has not seen. Without rare values the unseen have no input.
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
        values = [value for value, count in counts.items() if count >= RARE]
        rare = any(0 < count < RARE for count in counts.values())
        slots = len(values) + rare
        of_rare = sum(count for value, count in counts.items() if count < RARE and value is not None)
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

    def encode(self, values: np.ndarray, words: list[str]) -> list[np.ndarray]:
        return [self._codes(words)[values].astype(smallest_code(self.slots + 1))]

    def unknown(self, values: np.ndarray, words: list[str]) -> float:
        known = self._places()
        is_unknown = np.array([*(_found(known, word) is None for word in words), True])
        return float(is_unknown[values].mean()) if len(values) else 0.0

    def summary(self) -> str:
        return f"{self.slots} values" + (f" as {self.width} inputs" if self.width else "")

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
        shift, scale = _scaling_constants("standardization", found, "a column of dates")
        return cls(shift, scale, found.cycles, found.gaps / max(1, found.rows))

    def inputs(self) -> list[InputColumn]:
        trend = InputColumn("gap") if self.unknown_share else InputColumn("number")
        return [trend] + [InputColumn("number")] * (2 * len(self.cycles))

    def encode(self, values: np.ndarray, words=None) -> list[np.ndarray]:
        gaps = np.isnan(values)
        seconds = np.where(gaps, self.shift, values)
        trend = (seconds - self.shift) / self.scale if self.scale else np.zeros(len(seconds))
        if self.unknown_share:
            trend = np.where(gaps, np.nan, trend)
        angles = [2 * np.pi * phase(seconds, cycle) for cycle in self.cycles]
        waves = [np.where(gaps, 0.0, wave(angle)) for angle in angles for wave in (np.sin, np.cos)]
        return [trend, *waves]

    def unknown(self, values: np.ndarray, words=None) -> float:
        return float(np.isnan(values).mean())

    def summary(self) -> str:
        return ", ".join(["trend", *self.cycles])


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


_ENCODERS = (
    NumberEncoder, TruthEncoder, CategoryEncoder, DateEncoder, WrittenNumberEncoder, WrittenDateEncoder,
)  # fmt: skip
ENCODERS = {encoder.kind: encoder for encoder in _ENCODERS}


def are_decimals(encoder: ColumnEncoder) -> bool:
    """Return whether 1, 1.0 and 1e0 are one value of a column."""
    return isinstance(encoder, CategoryEncoder) and encoder.decimals


class TableStatistics:
    """What training rows tell of each feature column; `kinds` as in TableRows."""

    def __init__(self, kinds: tuple[str, ...]):
        self.columns = [_STATISTICS[kind]() for kind in kinds]

    @classmethod
    def of(cls, x: TableRows, rows=None) -> TableStatistics:
        """Return the statistics of the given rows (indices) of x, or of all."""
        found = cls(x.kinds)
        found.add(x if rows is None else x[rows])
        return found

    def add(self, x: TableRows) -> None:
        """Take in the next rows."""
        for index, column in enumerate(self.columns):
            words = [x.words_of(index)] if x.kinds[index] == "text" else []
            column.add(x.column(index), *words)


_STATISTICS = {"number": NumberStatistics, "text": TextStatistics, "date": DateStatistics}


def _encoder_for(found, scaling: str, embedding: NumberEmbedding | None, is_category: bool, name: str) -> ColumnEncoder:
    """Return the encoder of a column with these statistics."""
    if isinstance(found, NumberStatistics):
        return NumberEncoder.fit(found, scaling, embedding, name)
    if isinstance(found, DateStatistics):
        return DateEncoder.fit(found)
    counts = found.counts()
    if counts and not found.gaps and not is_category and all(word.lower() in TRUTHS for word in counts):
        yes = sum(count for word, count in counts.items() if TRUTHS[word.lower()])
        return TruthEncoder(yes / found.rows)
    as_written = None if is_category else _written_encoder(found, scaling, embedding, name)
    return as_written or CategoryEncoder.fit(found)


def _written_encoder(
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


@dataclass(frozen=True)
class Encoding:
    """The encoders of a table's feature columns, in the file's order.

    names: of the columns, None without a header. places: of the columns in the file, from 0. plain: all columns are
    numbers without gaps, and read as such.
    """

    encoders: tuple[ColumnEncoder, ...]
    names: list[str] | None = None
    places: tuple[int, ...] = ()
    plain: bool = False

    @classmethod
    def fit(
        cls,
        found: TableStatistics,
        scaling: str,
        embedding: NumberEmbedding | None = None,
        *,
        names: list[str] | None = None,
        places: tuple[int, ...] = (),
        categories: frozenset[int] = frozenset(),
        decimals: frozenset[int] = frozenset(),
        plain: bool = False,
    ) -> Encoding:
        """Return the encoding that the statistics of the training rows ask for.

        scaling: of numbers, a name of SCALINGS; embedding: what else they become, None: as NumberStatistics.edges has
        it. categories: columns, by their places among the features, that are categories though they hold yes/no words;
        decimals: those of them in which 1, 1.0 and 1e0 are one.
        """
        encoders = (
            _encoder_for(column, scaling, embedding, index in categories, f"column {names[index] if names else index}")
            for index, column in enumerate(found.columns)
        )
        encoders = (replace(one, decimals=True) if i in decimals else one for i, one in enumerate(encoders))
        return cls(tuple(encoders), names, places, plain)

    @property
    def features(self) -> int:
        """Feature columns of the table."""
        return len(self.encoders)

    @property
    def columns(self) -> tuple[InputColumn, ...]:
        """Return what the network's first layer gets: numbers, then codes of 4, 2 and 1 bytes."""
        return tuple(column for _, column in self._placed())

    @property
    def record(self) -> np.dtype:
        """Return the type of a row as the engine takes it, with float32 numbers; see record_of."""
        return self.record_of("float32")

    def record_of(self, dtype: str) -> np.dtype:
        """Return the type of a row as the engine takes it."""
        sizes = [size for size, _ in self._placed()]
        return record_type(dtype, *(sizes.count(size) for size in (0, 4, 2, 1)))

    @property
    def order(self) -> list[tuple[int, int]]:
        """Return the values of a record in their order: (feature column, which of its encoder's inputs)."""
        inputs = [
            (_code_bytes(column), index, which)
            for index, encoder in enumerate(self.encoders)
            for which, column in enumerate(encoder.inputs())
        ]
        return [(index, which) for size in (0, 4, 2, 1) for own, index, which in inputs if own == size]

    def _placed(self) -> list[tuple[int, InputColumn]]:
        """Return (bytes of a code, 0: a number; input column), in a record's order."""
        each = [encoder.inputs() for encoder in self.encoders]
        return [(_code_bytes(each[index][which]), each[index][which]) for index, which in self.order]

    def apply(self, x: TableRows, dtype: str) -> np.ndarray:
        """Return rows as records for the engine. Raises DataError for rows of other columns."""
        found, expected = x.kinds, tuple(encoder.reads for encoder in self.encoders)
        if found != expected:
            raise DataError(f"the rows have columns {', '.join(found)}, expected {', '.join(expected)} as in training")
        records = np.zeros(len(x), self.record_of(dtype))
        at = {0: 0, 4: 0, 2: 0, 1: 0}
        for index, encoder in enumerate(self.encoders):
            words = x.words_of(index) if encoder.reads == "text" else None
            for column, values in zip(encoder.inputs(), encoder.encode(x.column(index), words), strict=True):
                size = _code_bytes(column)
                group = f"codes{size}" if size else "numbers"
                records[group][:, at[size]] = values
                at[size] += 1
        return records

    def remarks(self, x: TableRows) -> list[str]:
        """Return a line for each column whose gaps and unseen values are much more frequent than in training."""
        lines = []
        for index, encoder in enumerate(self.encoders):
            words = x.words_of(index) if encoder.reads == "text" else None
            share = encoder.unknown(x.column(index), words) if len(x) else 0.0
            usual = getattr(encoder, "unknown_share", 0.0)
            if share > usual + _FREQUENT and share > 2 * usual:
                lines.append(
                    f"column {self.name(index)}: {share:.0%} of the values are gaps or were not seen in training, "
                    f"where {usual:.0%} were gaps{' or rare' * isinstance(encoder, CategoryEncoder)}"
                )
        return lines

    def tell(self, x: TableRows) -> None:
        """Log the remarks on rows that are not those of training."""
        for line in self.remarks(x):
            log.warning("%s", line)

    def name(self, index: int) -> str:
        """Return how messages call a feature column."""
        return self.names[index] if self.names else str(self.places[index] if self.places else index)

    def by_kind(self) -> dict[str, list[str]]:
        """Return the names of the columns of each kind, with what is to be told of them."""
        found: dict[str, list[str]] = {}
        for index, encoder in enumerate(self.encoders):
            summary = encoder.summary()
            found.setdefault(encoder.kind, []).append(self.name(index) + (f" ({summary})" if summary else ""))
        return found

    def to_dict(self) -> dict:
        """Return the encoding as a model's metadata hold it."""
        columns = [{"kind": encoder.kind, **_fields_of(encoder)} for encoder in self.encoders]
        return {"columns": columns, "places": list(self.places), **({"plain": True} if self.plain else {})}

    @classmethod
    def from_dict(cls, values: dict, names: list[str] | None) -> Encoding:
        """Return the encoding that to_dict has written. Raises DataError for others."""
        try:
            encoders = tuple(_encoder_of(dict(column)) for column in values["columns"])
            places = tuple(int(place) for place in values["places"])
            plain = _plain_of(values, encoders)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError("damaged encoding of columns, expected a known kind with its constants") from error
        return cls(encoders, names, places, plain)


def _plain_of(values: dict, encoders: tuple[ColumnEncoder, ...]) -> bool:
    """Return whether the columns are plain numbers. Raises ValueError where they cannot be."""
    plain = values.get("plain", False)
    if plain not in (True, False) or (plain and not all(isinstance(encoder, NumberEncoder) for encoder in encoders)):
        raise ValueError("plain")
    return bool(plain)


_WAYS = {WrittenNumberEncoder.kind: written.NUMBERS, WrittenDateEncoder.kind: written.DATES}
_OF_WAVES = ("waves", "deviation")  # fields that came later: files without waves stay as they were


def _fields_of(encoder: ColumnEncoder) -> dict:
    fields = vars(encoder)
    later = {"decimals"} if not fields.get("decimals") else set()
    later |= set(_OF_WAVES) if not fields.get("waves") else set()
    return {name: fields[name] for name in fields if name not in later}


def _encoder_of(values: dict) -> ColumnEncoder:
    """Return an encoder of its kind and fields. Raises KeyError, TypeError or ValueError for others."""
    encoder = ENCODERS[values.pop("kind")](**values)
    for name, value in vars(encoder).items():
        numbers = name in ("shift", "scale", "median", "share", "unknown_share", "deviation")
        if numbers and not (isinstance(value, (int, float)) and math.isfinite(value)):
            raise ValueError(name)
    if isinstance(encoder, CategoryEncoder):
        texts = all(value is None or isinstance(value, str) for value in encoder.values)
        if not texts or len(set(encoder.values)) < len(encoder.values) or not encoder.slots:
            raise ValueError("values")
        if encoder.decimals not in (True, False):
            raise ValueError("decimals")
        if not (isinstance(encoder.width, int) and 0 <= encoder.width <= MOST_WIDTH and encoder.shared in (0, 1)):
            raise ValueError("width")
    if isinstance(encoder, NumberEncoder):
        _check_number(encoder)
    if encoder.kind in _WAYS:
        _check_way(encoder)
    if isinstance(encoder, DateEncoder) and not set(encoder.cycles) <= {"year", "week", "day"}:
        raise ValueError("cycles")
    return encoder


def _check_way(encoder: WrittenNumberEncoder | WrittenDateEncoder) -> None:
    signs = getattr(encoder, "before", ""), getattr(encoder, "behind", "")
    if encoder.way not in _WAYS[encoder.kind] or not all(isinstance(sign, str) for sign in signs):
        raise ValueError("way")


def _check_number(encoder: NumberEncoder) -> None:
    if not _ascend(encoder.edges):
        raise ValueError("edges")
    if type(encoder.waves) is not int or not 0 <= encoder.waves <= MOST_WAVES or encoder.deviation <= 0:
        raise ValueError("waves")


def _ascend(edges: list) -> bool:
    numbers = [edge for edge in edges if isinstance(edge, (int, float)) and math.isfinite(edge)]
    return len(numbers) == len(edges) != 1 and all(a < b for a, b in zip(edges, edges[1:], strict=False))


def smallest_code(values: int) -> type:
    """Return the smallest type for codes below `values`."""
    return np.uint8 if values <= 1 << 8 else np.uint16 if values <= 1 << 16 else np.uint32


def _code_bytes(column: InputColumn) -> int:
    """Return the bytes of an input column's codes, 0 for numbers. One code more says that there is no input."""
    return 0 if column.kind in ("number", "gap") else np.dtype(smallest_code(column.values + 1)).itemsize


def _scaling_constants(kind: str, found: NumberStatistics | DateStatistics, name: str) -> tuple[float, float]:
    """Return (shift, scale) of a column, scale 0 for one of a single value. name: of the column in messages."""
    kind = SCALING_ALIASES.get(kind, kind)
    moments = found.moments
    if kind in ("none", "pixel"):
        return 0.0, 1.0
    if not moments.count or moments.low[0] == moments.high[0]:
        return float(moments.low[0]) if moments.count else 0.0, 0.0
    shift, scale = constants(kind, moments, lambda _: name)
    return float(shift[0]), float(scale[0])
