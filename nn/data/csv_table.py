"""CSV files: the first lines tell the columns (csv_head), the first rows how each is stored, and C reads the fields
(csv_reader)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..utils import DataError
from .column import MOSTLY, Column, Span, Table, Wanted, date_in, is_coarse, number_in, settled
from .csv_head import AS_FOUND, Head, ReadOptions, read_head
from .csv_reader import CsvReader, Rows, read_file
from .records import new_rows
from .source import FileDigest, digest_of, joint_digest, local, read_blocks

_LOOK_ROWS = 1000  # the first ones, which tell how columns are stored
_MOVED_ROWS = 1 << 12  # at a time


class CsvSource:
    """The column.TableSource of CSV.

    The columns are those of the first file's header. A further file may have no header: some programs cut one file
    into several without repeating it.
    """

    def __init__(self, paths: list[str], path: str, options: ReadOptions = AS_FOUND):
        self._head = first = read_head(paths[0], options)
        self.path, self._heads = path, [first, *(read_head(file, options, first) for file in paths[1:])]
        self.names, self.width, self.default_target = first.names, first.width, first.last_filled
        self.column = first.column
        for head in self._heads[1:]:
            self._join(head)
        self._agree_on_point(next((head.point for head in self._heads if head.has_point), None))

    def _join(self, head: Head) -> None:
        first = self._head
        if head.width != first.width:
            raise DataError(
                f"{head.path}: {head.width} columns, expected {first.width} as in {first.path}; leave the "
                f"file out, or give all files the same columns"
            )
        if head.names is None:
            head.names = first.names
        if head.names != first.names:
            if first.names is None:
                raise DataError(f"{head.path}: a header, expected none as in {first.path}; remove it, or add one there")
            at = next(i for i, names in enumerate(zip(head.names, first.names, strict=True)) if len({*names}) > 1)
            raise DataError(
                f"{head.path}: column {at + 1} is {shown(head.names[at])}, expected {shown(first.names[at])} as in "
                f"{first.path}; put the columns into the same order"
            )

    def read(self, wanted: Wanted) -> Table:
        """Return all rows. Raises DataError for rows that are no rows of this table."""
        stored = self._stored(wanted)
        rows, digest = self._rows(stored)
        columns = rows.columns
        guessed = [place for place, kind in wanted.reads.items() if kind is None and place not in wanted.raw]
        if texts := [place for place in guessed if not _is_kept(columns[place], place in wanted.pure)]:
            columns |= self._rows(replace(stored, reads=dict.fromkeys(texts, "text")))[0].columns
        if self._head.separator == ";" and self._has_other_point(columns, guessed, rows.spans):
            return self.read(wanted)
        for place in guessed:
            if columns[place].reads == "text":
                least = 1.0 if place in wanted.pure else MOSTLY
                columns[place] = settled(columns[place], None, self._head.point, least)
            elif not columns[place].odd and columns[place].low > columns[place].high:
                columns[place] = Column("text", np.full(rows.count, -1, np.int32))  # gaps only
        columns = dict(sorted(columns.items()))
        return self._filled(Table(columns, rows.arrays["matrix"], rows.places["matrix"], rows.spans, digest), wanted)

    # -- storage ---------------------------------------------------------------------------------------------

    def _stored(self, wanted: Wanted) -> Wanted:
        """Return how each column is stored, as the first rows look, and whether numbers need float64 for now.

        A column that float32 does not blur in some rows is blurred in no further ones, as its range grows at least as
        its size does; unless it is constant so far.
        """
        reads = {place: "text" if place in wanted.raw else kind for place, kind in wanted.reads.items()}
        looked = [place for place, kind in reads.items() if kind in (None, "number")]
        if not looked or (None not in reads.values() and wanted.dtype == "float64"):
            return replace(wanted, reads=reads)
        as_numbers = replace(wanted, reads=dict.fromkeys(looked, "number"), exact=frozenset(), dtype="float64")
        reader = CsvReader(self._head, as_numbers, _LOOK_ROWS)
        reader.read(self._head.start.text, is_enough=True)
        first = reader.taken().columns
        reads = {place: _kind_of(first[place]) if kind is None else kind for place, kind in reads.items()}
        numbers = [first[p] for p, kind in reads.items() if kind == "number" and p not in wanted.exact]
        is_double = any(one.low > one.high or one.low == one.high != 0 for one in numbers) or _are_coarse(numbers)
        return replace(wanted, reads=reads, dtype="float64" if is_double else wanted.dtype)

    def _filled(self, table: Table, wanted: Wanted) -> Table:
        """Return the table, its matrix of all columns of numbers, in float64 where float32 would blur one."""
        columns = table.columns
        places = sorted(p for p, column in columns.items() if column.reads == "number" and p not in wanted.exact)
        dtype = "float64" if wanted.dtype == "float64" or _are_coarse(columns[p] for p in places) else "float32"
        again = [place for place in table.number_places if columns[place].reads == "number"]
        if again and dtype == "float64" != table.numbers.dtype:  # since another column did not look like numbers
            columns |= self._rows(replace(wanted, reads=dict.fromkeys(again, "number"), dtype=dtype))[0].columns
        if places != table.number_places or dtype != table.numbers.dtype:
            table.numbers, table.number_places = new_rows((len(table), len(places)), dtype), places
            with np.errstate(over="ignore"):
                for start in range(0, len(table), _MOVED_ROWS):
                    for slot, place in enumerate(places):
                        some = columns[place].values[start : start + _MOVED_ROWS]
                        table.numbers[start : start + _MOVED_ROWS, slot] = some
            for slot, place in enumerate(places):
                columns[place].values = table.numbers[:, slot]
        return table

    def _agree_on_point(self, point: str | None) -> None:
        """Let files whose first numbers have no decimals be read with the same point or comma as the others."""
        for head in self._heads:
            if point and not head.has_point:
                head.point, head.has_point = point, True

    def _has_other_point(self, columns: dict[int, Column], guessed: list[int], spans: list[Span]) -> bool:
        """Return whether numbers have a decimal comma though the first rows have none, nor a decimal point.

        Raises DataError for a comma among points, or the other way round.
        """
        head = self._head
        for place, column in columns.items():
            for code, word in enumerate(column.odd or (column.words if place in guessed else [])):
                if not _is_other_number(word, head.point):
                    continue
                if not head.has_point:
                    self._agree_on_point(",")
                    return True
                first = column.odd[word].first if column.odd else int(np.argmax(column.values == code))
                row = Table({}, column.values, [], spans).row(first)
                name = {",": "comma", ".": "point"}[head.point]
                raise DataError(
                    f"{self.path}, {row}, {head.column(place)}: found {shown(word)}, expected a decimal {name} as in "
                    f"the other numbers; write all numbers one way"
                )
        return False

    # -- rows ------------------------------------------------------------------------------------------------

    def _rows(self, stored: Wanted) -> tuple[Rows, str | FileDigest]:
        """Return (all rows, the SHA-256 of the files or what takes it)."""
        head, start = self._head, self._head.start
        if len(self._heads) > 1 or start.is_gzip or start.ends_in_cr:
            rows, digest = self._read_through(CsvReader(head, stored, several=len(self._heads) > 1))
        else:
            digest = digest_of(head.path, start.state)
            with open(local(head.path), "rb", buffering=0) as file:
                rows = read_file(head, stored, file.fileno())
        for one in self._heads:
            facts = os.stat(local(one.path))
            if (facts.st_size, facts.st_mtime_ns) != one.start.state:
                raise DataError(
                    f"{one.path}: changed while it was read, expected the same rows throughout; start again"
                )
        return rows, digest

    def _read_through(self, reader: CsvReader) -> tuple[Rows, str]:
        """Read several files, or one that is read from front to back alone."""
        digests = []
        for number, head in enumerate(self._heads):
            digests.append(hashlib.sha256())
            if number:
                reader.begin(head)
            blocks = read_blocks(head.path, digests[-1])
            if head.start.ends_in_cr:
                blocks = (block.replace(b"\r", b"\n") for block in blocks)
            reader.read_blocks(blocks)
        return reader.taken(), joint_digest([digest.digest() for digest in digests])


def _are_coarse(columns: Iterable[Column]) -> bool:
    bounds = [(column.low, column.high) for column in columns]
    return bool(bounds) and is_coarse(*zip(*bounds, strict=True))


def _kind_of(column: Column) -> str:
    """Return how a column is stored whose first fields were read as numbers."""
    if _is_mostly(column):
        return "number"
    others = sum(found.rows for word, found in column.odd.items() if date_in(word) is None)
    return "date" if _is_mostly(column, others + len(column) - int(column.is_gap.sum())) else "text"


def _is_kept(column: Column, is_pure: bool) -> bool:
    """Return whether a column is what it was read as: MOSTLY, or with all of its known fields."""
    return not column.odd if is_pure else _is_mostly(column)


def _is_mostly(column: Column, others: int | None = None) -> bool:
    """Return whether MOSTLY of the known fields are what the column was read as; others: those that are not."""
    odd = sum(found.rows for found in column.odd.values())
    others = odd if others is None else others
    known = others and len(column) - int(column.is_gap.sum()) + odd
    return not others or (known - others) / known >= MOSTLY


def _is_other_number(text: str, point: str) -> bool:
    """Return whether a text is a number with a comma or point before its decimals where the others have the other."""
    other = "," if point == "." else "."
    return other in text and point not in text and number_in(text, other) is not None


def shown(text: str) -> str:
    """Return a text as messages quote it: short, and on one line."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return f'"{text}"' if len(text) <= 40 else f'"{text[:40]}..."'
