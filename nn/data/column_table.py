"""Column tables: what the formats whose columns are typed already have in common."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np

from ..utils import DataError
from .column_blocks import DATE, GAP, INFINITE, NUMBER, TRUTH
from .column_reader import ROW_WORD, Part, Reader, each
from .source import FileDigest, joint_digest
from .table import Table
from .table_files import ColumnFacts, Fields, Place, RowIndex


class ColumnTable:
    """The methods of TableFiles for formats of typed columns: positions are numbers of rows over all files.

    A format calls `_open`, and brings `_parts` and `_digests`.
    """

    is_packed = False

    def _open(self, path: str, paths: list[str], names: list[str] | None, sizes: list[int], columns: int = 0) -> None:
        """Set the attributes from the names of the columns, or their number, and the rows of each file.

        Raises DataError if there are none.
        """
        self.path, self.names, self.columns, self._paths = path, names, columns if names is None else len(names), paths
        self._starts = [0, *accumulate(sizes)]
        self.rows = self._starts[-1]
        if not self.columns:
            raise DataError(f"{path}: no columns, expected features and a target; add the data")
        if not self.rows:
            raise DataError(f"{path}: no rows, expected at least one; add the data")

    def _parts(self, number: int, columns: list[int], start: int, stop: int) -> Iterator[Part]:
        """Yield the rows [start, stop) of a file, in one part or several."""
        raise NotImplementedError

    def _digests(self) -> list[bytes]:
        """Return the SHA-256 of each file."""
        raise NotImplementedError

    def column(self, index: int) -> str:
        """Return how messages call a column."""
        return f"column {self.names[index]}" if self.names else f"column {index} of {self.columns}"

    def first_field(self, column: int) -> str:
        """Return a field of the first row as text."""
        return next(self._range([column], 0, 1)).block(column).text(0)

    def facts(self, missing: frozenset[str], rows: int | None = None) -> list[ColumnFacts]:
        """Return what the fields of every column are."""
        columns, facts = list(range(self.columns)), [ColumnFacts() for _ in range(self.columns)]
        for part in self._range(columns, 0, min(self.rows, rows or self.rows)):
            of = f" of {self._paths[part.file]}" if len(self._paths) > 1 else ""
            each(lambda column, part=part, of=of: _count(facts[column], part, column, missing, of), columns, part.rows)
        return facts

    def read(self, fields: Fields, hashed: bool = True) -> tuple[Table, str | FileDigest | None]:
        """Return (all rows, the SHA-256 of the files if it is asked for)."""
        if not hashed:
            return self._read(fields), None
        with ThreadPoolExecutor(1) as hasher:
            digests = hasher.submit(self._digests)
            return self._read(fields), joint_digest(digests.result())

    def _read(self, fields: Fields) -> Table:
        """Return all rows."""
        reader = self._reader(fields)
        arrays = reader.arrays(self.rows)
        for part in self._range(reader.columns, 0, self.rows):
            reader.add(arrays, part)
        self._check_labelled(arrays.rows)
        return reader.table(arrays)

    def blocks(
        self, fields: Fields, rows: int, *, index: RowIndex | None = None, step: int | None = None
    ) -> Iterator[Table]:
        """Yield the rows in blocks of `rows`."""
        reader, index, at, count = self._reader(fields), RowIndex() if index is None else index, 0, 0
        while at < self.rows:
            arrays = reader.arrays(min(rows, self.rows - at))
            while arrays.rows < rows and at < self.rows:  # a few more instead of those that are left out
                stop = min(at + rows - arrays.rows, self.rows)
                for part in self._range(reader.columns, at, stop):
                    reader.add(arrays, part)
                at = stop
            index.starts += self._positions(arrays.runs, step or rows)
            count += arrays.rows
            if arrays.rows:
                yield reader.table(arrays)
        self._check_labelled(count)
        index.starts.append(self.rows)
        index.digests = self._digests()

    def read_range(self, fields: Fields, start: int, stop: int, rows: int) -> Table:
        """Return the `rows` rows between two positions. Raises DataError if they have changed."""
        reader = self._reader(fields)
        arrays = reader.arrays(stop - start)
        for part in self._range(reader.columns, start, stop):
            reader.add(arrays, part)
        return reader.table(arrays)

    def _reader(self, fields: Fields) -> Reader:
        return Reader(fields, self.path, self._paths, self.column)

    def _range(self, columns: list[int], start: int, stop: int) -> Iterator[Part]:
        """Yield the rows [start, stop) of all files."""
        while start < stop:
            number = bisect_right(self._starts, start) - 1
            first, end = self._starts[number], min(stop, self._starts[number + 1])
            yield from self._parts(number, columns, start - first, end - first)
            start = end

    def _positions(self, runs: list[tuple[int, int, int]], step: int) -> list[int]:
        """Return the position of every `step`th of the rows in these runs."""
        positions, to_skip = [], 0
        for file, first, count in runs:
            positions += range(self._starts[file] + first + to_skip, self._starts[file] + first + count, step)
            to_skip = (to_skip - count) % step
        return positions

    def _check_labelled(self, rows: int) -> None:
        if not rows:
            raise DataError(
                f"{self.path}: the target is a gap in each of the {self.rows} rows, expected values to learn; choose "
                f"the target with --target"
            )


def _count(facts: ColumnFacts, part: Part, column: int, missing: frozenset[str], of: str) -> None:
    """Add what the rows of a column are to its facts. of: how messages name the file, behind the row."""
    block = part.block(column)
    if block.bounds(missing):
        facts.numbers += part.rows  # the first of them is no date
        facts.not_date = facts.not_date or Place(f"{ROW_WORD} {part.first + 1}{of}", block.text(0))
        return
    kinds = block.kinds(missing)
    counts = np.bincount(kinds, minlength=INFINITE + 1).tolist()
    gaps, numbers, dates, truths = (counts[kind] for kind in (GAP, NUMBER, DATE, TRUTH))
    facts.gaps, facts.numbers = facts.gaps + gaps, facts.numbers + numbers
    facts.dates, facts.truths = facts.dates + dates, facts.truths + truths
    facts.texts += part.rows - gaps - numbers - dates - truths

    def first(is_odd: np.ndarray) -> Place | None:
        at = int(np.argmax(is_odd))
        return Place(f"{ROW_WORD} {part.first + at + 1}{of}", block.text(at)) if is_odd[at] else None

    if not facts.not_number and gaps + numbers < part.rows:
        facts.not_number = first((kinds != GAP) & (kinds != NUMBER))
    if not facts.not_date and gaps + dates < part.rows:
        facts.not_date = first((kinds != GAP) & (kinds != DATE))
    if not facts.infinite and counts[INFINITE]:
        facts.infinite = first(kinds == INFINITE)
