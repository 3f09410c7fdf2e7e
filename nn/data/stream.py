"""Streamed data: a table larger than memory is surveyed once, then its rows are read where they are needed.

Rows are counted in blocks of 1024 or fewer, whose positions in the files the survey keeps. Whole blocks are held
out, drawn from every ten by the seed: the choice depends neither on the window nor on memory, and an epoch reads
every row once, either to train or to validate. row_windows reads the rows of a training, window by window.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ..core.random import STREAM_HOLDOUT, STREAM_VALIDATION, shuffled
from ..utils import DataError, UsageError
from .columns import Columns
from .dataset import Dataset, outputs_needed
from .digest import ColumnsDigest
from .encoding import TableStatistics
from .feature_selection import read_selected, selected_by_first_rows
from .field_types import MAX_CLASSES
from .scaling import StreamedMoments
from .source import joint_digest
from .table import Table
from .table_files import Fields, RowIndex, read_as_needed
from .table_rows import TableRows
from .target_columns import any_gap, names_of
from .targets import resolve
from .written import WrittenNumbers

BLOCK_ROWS = 1024  # held out together and found by their position, fewer of wide rows
BLOCK_VALUES = 1 << 17
READ_VALUES = 1 << 18  # read at a time
LOOK_ROWS = 1 << 16  # the first ones, by which columns are left out that tell a network nothing
GROUP = 10  # blocks from which some are drawn


# ---------------------------------------------------------------- the survey


@dataclass
class Survey:
    """The facts about a table after one pass over all its rows."""

    fields: Fields  # the kinds that hold every field
    task: str
    classes: list[str] | None
    counts: list[int] | None  # rows of each class
    rows: int
    index: RowIndex
    moments: TrainingMoments | None
    any_target_gap: bool = False
    unlabelled: int = 0  # rows left out because their target is a gap
    written: WrittenNumbers | None = None  # see Dataset


class TrainingMoments:
    """Moments of the inputs and targets of the rows that are trained on.

    reads: of the features, see Columns; where they are not all numbers, `inputs` are TableStatistics.
    """

    def __init__(self, row_shape: tuple[int, ...], block_rows: int, shares: Shares, reads: tuple[str, ...] | None):
        self._row_shape, self._block_rows, self._shares = row_shape, block_rows, shares
        self.inputs, self.targets = TableStatistics(reads) if reads else StreamedMoments(), StreamedMoments()
        self._done = 0

    def add(self, table: Table, inputs: np.ndarray | TableRows) -> None:
        """Take in the next rows."""
        x = inputs if isinstance(inputs, TableRows) else inputs.reshape(-1, *self._row_shape)
        size, done = self._block_rows, self._done
        blocks = range(done // size, -(-(done + len(x)) // size))
        for number, role in zip(blocks, self._shares.roles(blocks.start, blocks.stop), strict=True):
            if role == TRAINING:
                rows = slice(number * size - done, (number + 1) * size - done)
                self.inputs.add(x[rows])
                if table.targets.shape[1]:
                    self.targets.add(table.targets[rows])
        self._done += len(x)


def survey(
    columns: Columns, rows: int, step: int | None = None, new_moments: Callable[[], TrainingMoments] | None = None
) -> Survey:
    """Read a table from front to back, `rows` rows at a time, with every check that a Dataset goes through.

    step: Survey.index holds the position of every `step`th row. new_moments: makes the moments that take in the rows.
    """
    schema = columns.schema

    def read(fields: Fields):
        index, labels, count, gaps = RowIndex(), _Labels(), 0, False
        moments, digest = new_moments() if new_moments else None, ColumnsDigest()
        for table in columns.files.blocks(fields, rows, index=index, step=step):
            count += len(table.inputs)
            if moments and columns.reads is not None:
                digest.add(table)
            if moments:
                moments.add(table, columns.inputs_of(table))
            if columns.targets and any_gap(table):
                gaps = True
                continue
            if table.names is not None and schema.task == "regression":
                fields.check_names(*names_of(table))
            if columns.targets and (schema.classes is not None or schema.task == "regression"):
                resolve(columns.targets_of(table), schema)
            if columns.targets and schema.task != "regression":
                labels.add(table, count - len(table.inputs))
        if labels.names:
            fields.check_names(*labels.names_of())
        fields.check_all(table)
        if moments and columns.reads is not None:
            index.digests = [digest.digest()]
        facts = (index, moments, gaps, table.unlabelled)
        return Survey(fields, schema.task, schema.classes, None, count, *facts), table, labels

    found, last, labels = read_as_needed(read, columns.fields())
    if found.any_target_gap:
        return found
    if columns.targets and schema.task != "regression":
        targets = columns.targets_of(labels.table(last), labels.counts())
        y, found.task, found.classes = resolve(targets, schema)
        found.written = targets.written if found.task == "regression" else None
        if found.classes is not None:
            found.counts = np.bincount(y, labels.counts(), len(found.classes)).astype(int).tolist()
    return found


class _Labels:
    """The different targets and the number of rows that have each, as long as they may be classes."""

    def __init__(self):
        self.names, self._firsts = Counter(), {}
        self._values, self._counts = None, np.zeros(0, np.int64)

    def add(self, table: Table, before: int) -> None:
        """Take in the next rows, which `before` rows precede."""
        if table.names is not None:
            names, counts, first = names_of(table)
            for name in np.flatnonzero(counts):
                if names[name] not in self._firsts:
                    row, place = first(int(name))
                    self._firsts[names[name]] = before + row, place
            self.names.update(dict(zip(names, counts.tolist(), strict=True)))
            return
        if self._values is None:
            self._values = table.targets[:0]
        if len(self._values) > MAX_CLASSES:
            return
        values = np.concatenate([self._values, table.targets])
        counts = np.concatenate([self._counts, np.ones(len(table.targets), np.int64)])
        if values.shape[1] == 1:  # much faster than by rows
            values, which = np.unique(values[:, 0], return_inverse=True)
            values = values[:, None]
        else:
            values, which = np.unique(values, axis=0, return_inverse=True)
        self._values, self._counts = values, np.bincount(which.reshape(-1), counts).astype(np.int64)

    def names_of(self) -> tuple[list[str], np.ndarray, Callable[[int], tuple[int, str]]]:
        """Return the different texts, how many rows have each, and what tells the first of these rows."""
        names = sorted(self.names)
        return names, self.counts(), lambda name: self._firsts[names[name]]

    def table(self, last: Table) -> Table:
        """Return a table with one row for each of them; `last` is the last block that was read."""
        if last.names is not None:
            return replace(last, targets=np.arange(len(last.names), dtype=np.float64)[:, None])
        return replace(last, targets=self._values)

    def counts(self) -> np.ndarray:
        """Return how many rows each row of that table stands for."""
        return np.array([self.names[name] for name in sorted(self.names)]) if self.names else self._counts


# ---------------------------------------------------------------- blocks


TRAINING, VALIDATION, HELD_OUT = range(3)  # what a block is for


@dataclass(frozen=True)
class Shares:
    """How blocks are divided: the share held out, the share of the others for validation, and the seed of the draw."""

    holdout: float
    validation: float = 0.0
    seed: int = 0

    def roles(self, first: int, last: int) -> np.ndarray:
        """Return what the blocks [first, last) are for: of every ten the shares, fractions carried over."""
        groups = range(first // GROUP, -(-last // GROUP))
        roles = np.array([self._of_group(group) for group in groups], np.int8).reshape(-1)
        before = groups.start * GROUP
        return roles[first - before : last - before]

    def _of_group(self, group: int) -> np.ndarray:
        holdout, validation = Fraction(str(self.holdout)), Fraction(str(self.validation))
        held = [int(holdout * GROUP * end) for end in (group, group + 1)]  # of all blocks before, and with this group
        validating = [int(validation * (GROUP * end - out)) for end, out in zip((group, group + 1), held, strict=True)]
        roles = np.full(GROUP, TRAINING)
        roles[shuffled(GROUP, self.seed, STREAM_HOLDOUT + 1 + group)[: held[1] - held[0]]] = HELD_OUT
        order = shuffled(GROUP, self.seed, STREAM_VALIDATION + 1 + group)
        left = order[roles[order] == TRAINING]
        roles[left[: validating[1] - validating[0]]] = VALIDATION
        return roles


@dataclass
class BlockSet:
    """Some blocks of a table in ascending order, seen as one run of rows: every block is full but the table's last."""

    numbers: np.ndarray
    rows: int
    block_rows: int

    def ranges(self, first: int, last: int, most: int) -> Iterator[tuple[int, int, int, int]]:
        """Cut the rows [first, last) into ranges of at most `most` consecutive blocks.

        Yields (first block, block behind the last, rows to leave out at the front, rows to take).
        """
        size = self.block_rows
        while first < last:
            at, skip = divmod(first, size)
            end = at + 1
            while end * size < last and end - at < most and self.numbers[end] == self.numbers[end - 1] + 1:
                end += 1
            take = min(last, end * size) - first
            yield int(self.numbers[at]), int(self.numbers[end - 1]) + 1, skip, take
            first += take


# ---------------------------------------------------------------- the data set


class StreamedDataset:
    """A table whose rows stay in its files; it has the facts of a Dataset, but no `x` and `y`.

    memory: bytes for the whole program. window: training rows that are in memory and shuffled together, or None.
    holdout, validation, seed: decide which rows the moments are found in (Shares). training, validation, holdout,
    everything: blocks of rows.
    Raises UsageError for gzip, else as ds.load.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        memory=None,
        window=None,
        holdout: float = 0.2,
        validation: float = 0.0,
        seed: int = 0,
    ):
        files = columns.files
        if files.is_packed:
            advice = "unpack it with gunzip, or leave out --memory and --window"
            raise UsageError(f"{files.path}: a gzip file cannot be streamed; {advice}")
        for role in ("group", "time"):
            if columns.row_columns.column(role) is not None:
                raise UsageError(f"--{role}: splits need all rows in memory; leave out --memory and --window")
        self.memory, self.window = memory, window
        self._all_columns, self._asked = columns, selected_by_first_rows(columns, LOOK_ROWS)
        self._set_facts(self._asked)
        self._block_rows = max(1, min(BLOCK_ROWS, BLOCK_VALUES // files.columns))
        self._read_blocks = max(1, READ_VALUES // (files.columns * self._block_rows))
        self._survey(Shares(holdout, validation, seed))

    def _set_facts(self, columns: Columns) -> None:
        """Set the facts known before any row is read, under Dataset's names; weights: the column of weights."""
        facts = columns.dataset_facts()
        self.columns, self.targets = facts["columns"], facts["targets"]
        self.path, self.given = facts["path"], facts["given"]
        self.places, self.text_kinds, self.decimals = facts["places"], facts["text_kinds"], facts["decimals"]
        self.left_out, self.left_out_places = facts["left_out"], facts["left_out_places"]
        self.kept_choices, self.target = facts["kept_choices"], columns.schema.target
        self.inputs, self.reads, self.are_images = len(columns.features), columns.reads, bool(columns.schema.pixels)
        self.weights = columns.row_columns.column("weight")

    def _survey(self, shares: Shares) -> None:
        """Survey the files, with the moments of the rows that these shares leave for training."""
        self._shares, size = shares, self._block_rows

        def new_moments() -> TrainingMoments:
            return TrainingMoments(self.row_shape, size, shares, self._asked.reads)

        found = survey(self._asked, self._read_blocks * size, size, new_moments)
        self.rows, self.task, self.classes, self._counts = found.rows, found.task, found.classes, found.counts
        if found.task == "regression" and found.fields.target_type.is_text:
            advice = "leave out --memory and --window, or write plain numbers"
            raise DataError(f"{self.given}: targets such as $1,234.50 need all rows in memory; {advice}")
        self.unlabelled, self.remarks, self.written = found.unlabelled, [], found.written
        self.moments, self.target_moments = found.moments.inputs, found.moments.targets
        self.sha256 = joint_digest(found.index.digests)
        self._fields, self._starts = found.fields, np.array(found.index.starts, np.int64)
        self._known = self._asked.knowing(task=self.task, classes=self.classes)
        if self.classes is not None:
            self._asked = self._known
        roles = shares.roles(0, len(self._starts) - 1)
        self.training, self.validation, self.holdout = (self._block_set(roles == role) for role in range(3))
        if not self.training.rows:  # a few blocks, all of them drawn: hold none out
            self._survey(Shares(0.0, seed=shares.seed))
            self._shares = shares

    def _block_set(self, chosen: np.ndarray) -> BlockSet:
        numbers, size = np.flatnonzero(chosen), self._block_rows
        short = len(self._starts) * size - size - self.rows if len(numbers) and chosen[-1] else 0
        return BlockSet(numbers, len(numbers) * size - short, size)

    # ---- as a Dataset

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Return the shape of a row: (inputs,) or (channels, height, width)."""
        return self._asked.schema.pixels or (self.inputs,)

    @property
    def input_dtype(self) -> np.dtype:
        """Return the type of the inputs that are read."""
        return np.dtype(self._fields.input_type.dtype)

    @property
    def outputs(self) -> int | None:
        """Return how many outputs a network needs for this data; None without targets."""
        targets = len(self._asked.targets)
        return outputs_needed(self.task, self.classes, targets) if targets else None

    def class_counts(self) -> list[int]:
        """Return the rows of each class, in the order of `classes`."""
        return self._counts

    def statistics(self) -> TableStatistics:
        """Return what the training rows tell of each feature; those of plain numbers are read again."""
        if self.reads:
            return self.moments
        found = TableStatistics(("number",) * self.inputs)
        for ds in self.read(self.training, 0, self.training.rows):
            found.add(TableRows.of(ds.x))
        return found

    # ---- rows

    def split(self, holdout: float, seed: int, validation: float = 0.0) -> None:
        """Divide the rows by these shares: survey the files again if the moments are those of other rows."""
        if Shares(holdout, validation, seed) != self._shares:
            self._survey(Shares(holdout, validation, seed))

    def divided(self, holdout: float, seed: int, validation: float = 0.0) -> StreamedDataset:
        """Return the same rows divided by these shares; this data set stays as it is, for those who read it now."""
        other = copy.copy(self)
        other.split(holdout, seed, validation)
        return other

    def whole(self) -> Dataset:
        """Read all rows as one Dataset."""
        return read_selected(replace(self._all_columns, schema=self._asked.schema))

    @property
    def everything(self) -> BlockSet:
        """All rows."""
        return self._block_set(np.ones(len(self._starts) - 1, bool))

    @property
    def nothing(self) -> BlockSet:
        """No rows."""
        return self._block_set(np.zeros(len(self._starts) - 1, bool))

    def gathered(self, blocks: BlockSet) -> Dataset:
        """Read the rows of `blocks` as one Dataset."""
        parts = list(self.read(blocks, 0, blocks.rows))
        if not parts or isinstance(parts[0].x, TableRows):
            x = TableRows.joined([part.x for part in parts])
        else:
            x = np.concatenate([part.x for part in parts])
        return replace(parts[0], x=x, y=np.concatenate([part.y for part in parts]), sha256=self.sha256)

    def read(self, blocks: BlockSet, first: int, last: int) -> Iterator[Dataset]:
        """Yield the rows [first, last) of `blocks`, a few blocks at a time. DataError if the files have changed."""
        size, starts = self._block_rows, self._starts
        for start, stop, skip, take in blocks.ranges(first, last, self._read_blocks):
            rows = min(stop * size, self.rows) - start * size
            table = self._known.files.read_range(self._fields, int(starts[start]), int(starts[stop]), rows)
            ds = self._known.dataset(table)
            yield ds.of_rows(slice(skip, skip + take))
