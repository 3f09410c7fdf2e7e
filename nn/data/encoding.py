"""Encoding: how the columns of a table become a network's inputs, decided on the training rows and kept in the model.

    TableRows ─► statistics of the training rows ─► a ColumnEncoder for each column ─► Encoding ─► records

A record holds a row's numbers and codes (core/records.py). The network's first layer, of kind embedding, makes its
inputs of them (InputColumn in layers.py): codes stay codes until a batch is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..core.records import record_type
from ..layers import InputColumn
from ..settings.values import NumberEmbedding
from ..utils import DataError, log
from .column import Column, shortened
from .encoders import ENCODERS, CategoryEncoder, ColumnEncoder, odd_of, smallest_code
from .kinds import Kind
from .records import new_rows
from .statistics import DateStatistics, NumberStatistics, TextStatistics
from .table_rows import TableRows
from .written import UnknownForm

BLOCK_ROWS = 1 << 16  # encoded at a time
CALL_ROWS = 100  # from which a prediction in Python tells of gaps and unseen values; a program may ask row by row
_FREQUENT = 0.05  # share of rows above that of training, from which gaps or unseen values are told


class TableStatistics:
    """Statistics of each feature column's training rows: of some rows of x (indices), or of all."""

    def __init__(self, x: TableRows, rows=None):
        rows = slice(None) if rows is None else rows
        self.columns: list[NumberStatistics | TextStatistics | DateStatistics] = []
        for index, kind in enumerate(x.kinds):
            words = [x.words_of(index)] if kind == "text" else []
            self.columns.append(_STATISTICS[kind](x.column(index)[rows], *words))


_STATISTICS = {"number": NumberStatistics, "text": TextStatistics, "date": DateStatistics}


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
        kinds: Sequence[Kind],
        scaling: str,
        embedding: NumberEmbedding | None = None,
        *,
        names: list[str] | None = None,
        places: tuple[int, ...] = (),
        plain: bool = False,
    ) -> Encoding:
        """Return the encoding of columns of these kinds with these statistics of the training rows.

        scaling: of numbers, a name of SCALINGS; embedding: what else they become, None: as NumberStatistics.edges has
        it.
        """
        called = names or range(len(kinds))
        encoders = (
            ENCODERS[kind.kind].fit(column, kind, scaling, embedding, f"column {name}")
            for column, kind, name in zip(found.columns, kinds, called, strict=True)
        )
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
        records = new_rows((len(x),), self.record_of(dtype))
        rows = max(BLOCK_ROWS, sum(map(len, x.words)))  # words are looked up once for each block
        for first in range(0, len(x), rows):
            self._fill(records[first : first + rows], x[first : first + rows])
        return records

    def _fill(self, records: np.ndarray, x: TableRows) -> None:
        at = {0: 0, 4: 0, 2: 0, 1: 0}
        for index, encoder in enumerate(self.encoders):
            words = x.words_of(index) if encoder.reads == "text" else None
            for column, values in zip(encoder.inputs(), encoder.encode(x.column(index), words), strict=True):
                size = _code_bytes(column)
                group = f"codes{size}" if size else "numbers"
                records[group][:, at[size]] = values
                at[size] += 1

    def check(self, x: TableRows, given: str) -> None:
        """Raise DataError where no word of a column is a number, a date, or yes or no, as training had them.

        given: how messages call the rows.
        """
        obstacles = []
        for index, encoder in enumerate(self.encoders):
            if encoder.value_in is None:
                continue
            column = Column("text", x.column(index), x.words_of(index))
            odd = odd_of(encoder, column)
            if sum(one.rows for one in odd.values()) < np.count_nonzero(column.values >= 0):
                continue
            for word in [word for word in odd if re.search(encoder.telling, word)][:1]:
                found = f'data row {odd[word].first + 1}, column {self.name(index)}: found "{shortened(word)}"'
                obstacles.append(f"{found}, expected {encoder.expected}; write the column so")
        if obstacles:
            raise DataError(f"{given}, {'; '.join(obstacles)}")

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

    def tell(self, x: TableRows, least: int = 1) -> None:
        """Log the remarks on rows that are not those of training; none on fewer than `least` rows."""
        for line in self.remarks(x) if len(x) >= least else ():
            log.warning("%s", line)

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
        columns = [{"kind": encoder.kind, **_fields_of(encoder)} for encoder in self.encoders]
        return {"columns": columns, "places": list(self.places), **({"plain": True} if self.plain else {})}

    @classmethod
    def from_dict(cls, values: dict, names: list[str] | None) -> Encoding:
        """Return the encoding that to_dict has written. Raises DataError for others."""
        encoders: list[ColumnEncoder] = []
        try:
            places = tuple(int(place) for place in values["places"])
            for column in values["columns"]:
                encoders.append(_encoder_of(dict(column)))
            plain = _plain_of(values, encoders)
        except UnknownForm as form:
            column = dict(enumerate(names or places)).get(len(encoders), len(encoders))
            raise DataError(
                f'column {column}: dates written as "{shortened(str(form))}", which this version cannot read; '
                "write them as 2024-12-31 and train again"
            ) from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise DataError("damaged encoding of columns, expected a known kind with its constants") from error
        return cls(tuple(encoders), names, places, plain)


def _plain_of(values: dict, encoders: list[ColumnEncoder]) -> bool:
    """Return whether the columns are plain numbers. Raises ValueError where they cannot be."""
    plain = values.get("plain", False)
    if plain not in (True, False) or (plain and any(encoder.kind != "number" for encoder in encoders)):
        raise ValueError("plain")
    return bool(plain)


_OF_WAVES = ("waves", "deviation")  # fields that came later: files without waves stay as they were


def _fields_of(encoder: ColumnEncoder) -> dict:
    values = vars(encoder)
    later = {"decimals"} if not values.get("decimals") else set()
    later |= set(_OF_WAVES) if not values.get("waves") else set()
    return {name: value for name, value in values.items() if name not in later}


def _encoder_of(values: dict) -> ColumnEncoder:
    """Return an encoder of its kind and fields. Raises KeyError, TypeError or ValueError for others."""
    encoder = ENCODERS[values.pop("kind")](**values)
    for constant in (field.name for field in fields(encoder) if field.type == "float"):
        number = getattr(encoder, constant)
        if not (isinstance(number, (int, float)) and math.isfinite(number)):
            raise ValueError(constant)
    encoder.check()
    return encoder


def _code_bytes(column: InputColumn) -> int:
    """Return the bytes of an input column's codes, 0 for numbers. One code more says that there is no input."""
    return 0 if column.kind in ("number", "gap") else np.dtype(smallest_code(column.values + 1)).itemsize
