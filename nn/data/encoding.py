"""Encoding: how the columns of a table become a network's inputs, decided on the training rows and kept in the model.

    TableRows ─► statistics of the training rows ─► a ColumnEncoder for each column ─► Encoding ─► records

A record holds a row's numbers and codes (core/records.py). The network's first layer, of kind embedding, makes its
inputs of them (InputColumn in layers.py): codes stay codes until a batch is computed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial

import numpy as np

from ..core.records import record_type
from ..layers import InputColumn
from ..settings.values import NumberEmbedding
from ..utils import DataError, log
from .column import shortened
from .encoders import (
    ENCODERS,
    CategoryEncoder,
    ColumnEncoder,
    NumberStatistics,
    TextStatistics,
    smallest_code,
)
from .kinds import NUMBER, Kind
from .records import Kept, filled_records
from .table_rows import TableRows
from .written import UnknownForm

BLOCK_ROWS = 1 << 16  # encoded at a time
CALL_ROWS = 100  # from which a prediction in Python tells of gaps and unseen values; a program may ask row by row
_SIZES = (0, 4, 2, 1)  # bytes of a record's values in their order; 0: numbers
_FREQUENT = 0.05  # share of rows above that of training, from which gaps or unseen values are told


def statistics_of(x: TableRows, kinds: Sequence[Kind], rows=slice(None)) -> list[NumberStatistics | TextStatistics]:
    """Return the statistics of feature columns in the training rows, some rows of x (indices). kinds: none, if all are
    numbers."""
    found: list[NumberStatistics | TextStatistics] = []
    for column, kind in zip(x.columns, kinds or [NUMBER] * len(x.columns), strict=True):
        values = column.values[rows]
        if kind.kind == "category":
            found.append(TextStatistics(values, column.words))
            continue
        values = kind.written.values_of(column.words)[values] if kind.written else values
        found.append(NumberStatistics(values, kind.kind in ("date", "written date")))
    return found


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
        found: Sequence[NumberStatistics | TextStatistics],
        kinds: Sequence[Kind],
        scaling: str,
        embedding: NumberEmbedding | None = None,
        **where,
    ) -> Encoding:
        """Return the encoding of columns of these kinds with these statistics of the training rows.

        scaling: of numbers, a name of SCALINGS; embedding: what else they become, None: as NumberStatistics.edges has
        it. where: names, places and plain.
        """
        called = where.get("names") or range(len(kinds))
        encoders = (
            ENCODERS[kind.kind][0].fit(column, kind, scaling, embedding, f"column {name}")
            for column, kind, name in zip(found, kinds, called, strict=True)
        )
        return cls(tuple(encoders), **where)

    @property
    def features(self) -> int:
        return len(self.encoders)

    @property
    def columns(self) -> tuple[InputColumn, ...]:
        """Return what the network's first layer gets: numbers, then codes of 4, 2 and 1 bytes."""
        each = [encoder.inputs() for encoder in self.encoders]
        return tuple(each[index][which] for index, which in self.order)

    @property
    def order(self) -> list[tuple[int, int]]:
        """Return the values of a record in their order: (feature column, which of its encoder's inputs)."""
        each = [(i, which, column) for i, one in enumerate(self.encoders) for which, column in enumerate(one.inputs())]
        return [(i, which) for i, which, _ in sorted(each, key=lambda one: _SIZES.index(_code_bytes(one[2])))]

    def record_of(self, dtype: str) -> np.dtype:
        """Return the type of a row as the engine takes it."""
        sizes = list(map(_code_bytes, self.columns))
        return record_type(dtype, *map(sizes.count, _SIZES))

    def apply(self, x: TableRows, dtype: str, digest: str | None = None) -> np.ndarray:
        """Return rows as records for the engine. digest: of the data, whose records a checkpoint's file may keep.

        Raises DataError for rows of other columns.
        """
        found, expected = x.kinds, tuple(encoder.reads for encoder in self.encoders)
        if found != expected:
            raise DataError(f"the rows have columns {', '.join(found)}, expected {', '.join(expected)} as in training")
        rows = max(BLOCK_ROWS, sum(len(column.words) for column in x.columns))  # words are looked up once a block
        key = json.dumps([digest, len(x), dtype, sys.byteorder, self.to_dict()])
        kept = None if digest is None else Kept(key, self.columns)
        return filled_records(len(x), self.record_of(dtype), rows, partial(self._fill, x), kept)

    def _fill(self, x: TableRows, records: np.ndarray, rows: slice) -> None:
        at = dict.fromkeys(_SIZES, 0)
        for encoder, own in zip(self.encoders, x[rows].columns, strict=True):
            for column, values in zip(encoder.inputs(), encoder.encode(own), strict=True):
                size = _code_bytes(column)
                group = f"codes{size}" if size else "numbers"
                records[group][:, at[size]] = values
                at[size] += 1

    def tell(self, x: TableRows, least: int = 1) -> None:
        """Log a line for each column whose gaps and unseen values are much more frequent than in training; none of
        fewer than `least` rows."""
        for index, encoder in enumerate(self.encoders if len(x) >= least else ()):
            share, usual = encoder.unknown(x.columns[index]), encoder.unknown_share
            if share > usual + _FREQUENT and share > 2 * usual:
                told = "column %s: %s of the values are gaps or were not seen in training, where %s were gaps%s"
                rare = " or rare" * isinstance(encoder, CategoryEncoder)
                log.warning(told, self.name(index), f"{share:.0%}", f"{usual:.0%}", rare)

    def name(self, index: int) -> str:
        """Return how messages call a feature column."""
        if self.names:
            return self.names[index] or "(no name)"
        return str(self.places[index] if self.places else index)

    def by_kind(self) -> dict[str, list[str]]:
        """Return the names of the columns of each kind, each with a remark for people."""
        found: dict[str, list[str]] = {}
        for index, encoder in enumerate(self.encoders):
            summary = encoder.summary()
            found.setdefault(encoder.kind, []).append(self.name(index) + (f" ({summary})" if summary else ""))
        return found

    def to_dict(self) -> dict:
        """Return the encoding as a model's metadata hold it."""
        columns = []
        for encoder in self.encoders:
            values = {"kind": encoder.kind, **vars(encoder), **(asdict(encoder.written) if encoder.written else {})}
            later = {"decimals": ("decimals",), "waves": ("waves", "deviation")}  # fields that earlier files lack
            gone = {"written", *(name for one, names in later.items() if not values.get(one) for name in names)}
            columns.append({name: value for name, value in values.items() if name not in gone})
        return {"columns": columns, "places": list(self.places), **({"plain": True} if self.plain else {})}

    @classmethod
    def from_dict(cls, values: dict, names: list[str] | None) -> Encoding:
        """Return the encoding that to_dict has written. Raises DataError for others."""
        encoders: list[ColumnEncoder] = []
        try:
            places, plain = values["places"], values.get("plain", False)
            if not are_places(places):
                raise ValueError("places")
            for column in values["columns"]:
                encoders.append(_encoder_of(dict(column)))
            if not isinstance(plain, bool) or (plain and any(encoder.kind != "number" for encoder in encoders)):
                raise ValueError("plain")
        except UnknownForm as form:
            column = dict(enumerate(names or places)).get(len(encoders), len(encoders))
            raise DataError(
                f'column {column}: values written as "{shortened(str(form))}", which this version cannot read; '
                "write numbers as 1234.5, dates as 2024-12-31, and train again"
            ) from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise DataError("damaged encoding of columns, expected a known kind with its constants") from error
        return cls(tuple(encoders), names, tuple(places), plain)


def are_places(value) -> bool:
    """Return whether a value of a model file is a list of places of columns."""
    return isinstance(value, list) and all(type(place) is int and 0 <= place < 2**31 for place in value)


def _encoder_of(values: dict) -> ColumnEncoder:
    """Return an encoder of its kind and fields; what its inputs may be, layers.py checks. Raises KeyError, TypeError or
    ValueError for others."""
    encoder_class, written_class = ENCODERS[values.pop("kind")]
    if written_class:
        own = {one.name: values.pop(one.name) for one in fields(written_class) if one.name in values}
        values["written"] = _checked(written_class(**own))
    return _checked(encoder_class(**values))


def _checked(one):
    """Return an encoder, or how its words are written, if its fields are of their types. Raises ValueError."""
    for known in fields(one):
        if known.name != "written" and not _IS[known.type](getattr(one, known.name)):
            raise ValueError(known.name)
    return one


def _is_finite(value) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _list_of(is_one: Callable) -> Callable:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


_IS: dict[str, Callable] = {  # type of a field -> whether a value is of it
    "float": _is_finite,
    "int": lambda value: type(value) is int,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "list[float]": _list_of(_is_finite),
    "list[str]": _list_of(lambda one: isinstance(one, str)),
    "list[str | None]": _list_of(lambda one: one is None or isinstance(one, str)),
}


def _code_bytes(column: InputColumn) -> int:
    """Return the bytes of an input column's codes, 0 for numbers. One code more says that there is no input."""
    return 0 if column.kind in ("number", "gap") else np.dtype(smallest_code(column.values + 1)).itemsize
