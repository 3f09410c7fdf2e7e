"""Encoding: how the columns of a table become a network's inputs, decided on the
training rows and kept in the model.

    TableRows ─► statistics of the training rows ─► a ColumnEncoder for each column ─►
    Encoding ─► records

A record holds a row's numbers and codes (core/records.py), of which the network's first
layer, of kind embedding, makes its inputs when a batch is computed (InputColumn in
layers.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial

import numpy as np

from ..core.records import record_type
from ..layers import InputColumn
from ..utils import DataError, log, plural
from .column import shortened
from .encoders import ENCODERS, CategoryEncoder, ColumnEncoder
from .kinds import Kind
from .records import filled_records
from .row_encoder import RowEncoder
from .table_rows import TableRows
from .written import UnknownForm, from_fields, is_truth

ENCODED_ROWS = 1 << 16  # encoded at a time
# from which a prediction in Python tells of gaps and unseen values; a program may ask
# row by row
CALL_ROWS = 100
_RECORD_SIZES = (0, 4, 2, 1)  # bytes of a record's values in their order; 0: numbers
# share of rows above that of training, from which gaps or unseen values are told
_REMARKED_SHARE = 0.05


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

    @cached_property
    def columns(self) -> tuple[InputColumn, ...]:
        """Return what the network's first layer gets: numbers, then codes of 4, 2 and 1
        bytes."""
        inputs = [encoder.inputs() for encoder in self.encoders]
        return tuple(inputs[index][which] for index, which in self.order)

    @cached_property
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

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Return what each column is read as: number, text or date."""
        return tuple(encoder.reads for encoder in self.encoders)

    def apply(self, x: TableRows, dtype: str, digest: str | None = None) -> np.ndarray:
        """Return rows as records for the engine. digest: of the data, whose records a
        checkpoint's file may keep.
        Raises DataError for rows of other columns."""
        if x.kinds != self.reads:
            raise DataError(
                f"the rows have columns {', '.join(x.kinds)}, "
                f"expected {', '.join(self.reads)} as in training"
            )
        if len(x) == 1:
            return self._row_encoder(dtype).record(x.only_row)
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

    def _row_encoder(self, dtype: str) -> RowEncoder:
        """Return what encodes a row alone, made when the first one comes."""
        if dtype not in self._row_encoders:
            made = RowEncoder(self.encoders, self.order, self.record_of(dtype))
            self._row_encoders[dtype] = made
        return self._row_encoders[dtype]

    @cached_property
    def _row_encoders(self) -> dict[str, RowEncoder]:
        return {}

    def _fill(self, x: TableRows, records: np.ndarray, rows: slice) -> None:
        """Encode some rows into their records."""
        slots = dict.fromkeys(_RECORD_SIZES, 0)
        for encoder, column in zip(self.encoders, x[rows].columns, strict=True):
            encoded = encoder.encode(column)
            for input_column, values in zip(encoder.inputs(), encoded, strict=True):
                size = _code_bytes(input_column)
                group = f"codes{size}" if size else "numbers"
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
        columns = {}
        for index, encoder in enumerate(self.encoders):
            column = self.name(index)
            summary = encoder.summary()
            if summary:
                column += f" ({summary})"
            columns.setdefault(encoder.kind, []).append(column)
        return columns

    def size_text(self) -> str:
        """Return how many columns become how many inputs."""
        verb = "becomes" if self.features == 1 else "become"
        inputs = sum(column.outputs for column in self.columns)
        return f"{plural(self.features, 'column')} {verb} {plural(inputs, 'input')}"

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
        encoders = []
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
