"""Tables larger than memory: looked through once, then read window after window, the next one while one is used.

Rows are counted in blocks of 1024 or fewer, whose places in the files the first pass keeps. Whole blocks are held
out, drawn from every ten by the seed: which ones depends neither on the window nor on memory, and an epoch reads
every row once, be it to train or to validate. A window is a stretch of the training rows, a multiple of the batch;
each epoch takes the windows in a new order, the short last one at the end, and shuffles the rows inside each.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from .columns import Columns, read_as_needed
from .csv_table import Table
from .ds import Dataset, Reading, load_table
from .nn_aux import STREAM_HOLDOUT, STREAM_SHUFFLE, shuffled
from .scaling import Moments
from .source import Index, absolute, joint_digest
from .targets import MAX_CLASSES
from .utils import NnError, UsageError, resident_bytes

BLOCK_ROWS = 1024  # held out together and found by their place, fewer of wide rows
BLOCK_VALUES = 1 << 17
PIECE_VALUES = 1 << 18  # read at a time
PREDICTED_ROWS = 64  # that a forward pass takes at a time
GROUP = 10  # blocks from which some are drawn

# What the program needs beside the rows, measured as peaks: the same on every machine, so that a limit stands for
# the same windows everywhere.
BASE_BYTES = {"seq": 72 << 20, "omp": 72 << 20, "cuda": 2 << 30, "cudnn": 2 << 30}
READING_BYTES = 24 << 20
SPARE_BYTES = 24 << 20  # of these two that no run here has used


# ---------------------------------------------------------------- the first pass


@dataclass
class Look:
    """What there is to know about a table before any row of it is used."""

    element: str  # the type of the inputs
    named: bool  # the targets are text
    task: str
    classes: list[str] | None
    counts: list[int] | None  # rows of each class
    rows: int
    index: Index


def look_through(
    found: Columns, how: Reading, rows: int, step: int | None = None, begin: Callable[[], Callable] | None = None
) -> Look:
    """Read a table from front to back, `rows` rows at a time, with every check that `load` makes.

    step: of the rows whose places Look.index tells. begin: called where reading begins (again), gives a function
    that is called with every piece, a Dataset with its targets in float64.
    """

    def read(element, named, check):
        index, labels, count = Index(), _Labels(), 0
        observe = begin() if begin else None
        files, columns = found.files, (found.features, found.chosen)
        for table in files.blocks(*columns, element, rows, named_targets=named, index=index, step=step):
            check(table)
            if found.chosen and (how.classes is not None or how.task == "regression"):
                found.resolve(table, how.task, how.outputs, how.classes, how.dtype)
            if found.chosen and how.task != "regression":
                labels.add(table)
            if observe:
                observe(table)
            count += len(table.inputs)
        return table, labels, count, index

    (table, labels, rows, index), element, named = read_as_needed(found, how.dtype, how.task, how.classes, read)
    task, classes, counts = how.task, how.classes, None
    if found.chosen and task != "regression":
        y, task, classes = found.resolve(labels.table(table), task, how.outputs, classes, how.dtype)
        if classes is not None:
            counts = np.bincount(y, labels.counts(), len(classes)).astype(int).tolist()
    return Look(element, named, task, classes, counts, rows, index)


class _Labels:
    """The different targets and how many rows have each, as long as they may be classes."""

    def __init__(self):
        self._names, self._values, self._counts = Counter(), None, np.zeros(0, np.int64)

    def add(self, table: Table) -> None:
        if table.names is not None:
            counts = np.bincount(table.targets[:, 0].astype(np.intp), minlength=len(table.names))
            self._names.update(dict(zip(table.names, counts.tolist(), strict=True)))
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

    def table(self, last: Table) -> Table:
        """A table with one row for each of them; `last` is the last that was read."""
        if last.names is not None:
            return replace(last, targets=np.arange(len(last.names), dtype=np.float64)[:, None])
        return replace(last, targets=self._values)

    def counts(self) -> np.ndarray:
        """Rows of each row of that table."""
        return np.array([self._names[name] for name in sorted(self._names)]) if self._names else self._counts


# ---------------------------------------------------------------- blocks


def held_out(first: int, last: int, share: Fraction, seed: int) -> np.ndarray:
    """Which of the blocks [first, last) are held out, bool: of every ten the share, the fractions carried over."""
    groups = range(first // GROUP, -(-last // GROUP))
    held = np.zeros((len(groups), GROUP), bool)
    for row, group in zip(held, groups, strict=True):
        count = int(share * GROUP * (group + 1)) - int(share * GROUP * group)
        row[shuffled(GROUP, seed, STREAM_HOLDOUT + 1 + group)[:count]] = True
    before = groups.start * GROUP
    return held.reshape(-1)[first - before : last - before]


@dataclass
class Blocks:
    """Rows that follow each other in ascending blocks: all full, but perhaps the table's last."""

    numbers: np.ndarray
    rows: int
    block_rows: int

    def pieces(self, first: int, last: int, most: int) -> Iterator[tuple[int, int, int, int]]:
        """The rows [first, last) in pieces of consecutive blocks, at most so many.

        Gives (first block, block behind the last, rows to leave out at the front, rows to take).
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


# ---------------------------------------------------------------- a data set in parts


class Parts:
    """A table whose rows stay in its files; with the facts of a Dataset, but no `x` and `y`.

    found: the columns; how: what the targets are; target: as it was asked for. memory: bytes for the whole program,
    window: training rows that are in memory and shuffled together, or None. holdout, seed: decide which rows the
    scaling is found in. Raises UsageError for gzip, else as ds.load.
    """

    def __init__(self, found: Columns, how: Reading, target, *, memory=None, window=None, holdout=0.2, seed=0):
        if found.files.is_packed:
            advice = "unpack it with gunzip, or leave out --memory and --window"
            raise UsageError(f"{found.files.path}: gzip cannot be read in parts; {advice}")
        self.memory, self.window = memory, window
        self.path, self.target = absolute(found.files.path), target
        self._found, self._how = found, how
        self._block_rows = max(1, min(BLOCK_ROWS, BLOCK_VALUES // found.files.columns))
        self._piece_blocks = max(1, PIECE_VALUES // (found.files.columns * self._block_rows))
        self._fit(holdout, seed)

    def _fit(self, holdout: float, seed: int) -> None:
        """Look through the files, with the moments of the rows that this hold-out leaves for training."""
        self._fitted, share = (holdout, seed), Fraction(str(holdout))
        size, found = self._block_rows, self._found

        def begin():
            self.moments, self.target_moments, done = Moments(), Moments(), 0

            def observe(table: Table) -> None:
                nonlocal done
                x = table.inputs.reshape(-1, *self.row_shape)
                blocks = range(done // size, -(-(done + len(x)) // size))
                for number, held in zip(blocks, held_out(blocks.start, blocks.stop, share, seed), strict=True):
                    if not held:
                        rows = slice(number * size - done, (number + 1) * size - done)
                        self.moments.add(x[rows])
                        if found.chosen:
                            self.target_moments.add(table.targets[rows])
                done += len(x)

            return observe

        look = look_through(found, self._how, self._piece_blocks * size, size, begin)
        self.rows, self.task, self.classes, self._counts = look.rows, look.task, look.classes, look.counts
        self.sha256 = joint_digest(look.index.digests)
        self._element, self._named = look.element, look.named
        self._starts = np.array(look.index.starts, np.int64)
        held = held_out(0, len(self._starts) - 1, share, seed)
        self.training, self.held = self._blocks(~held), self._blocks(held)
        if self.classes is not None:
            self._how = replace(self._how, task=self.task, classes=self.classes)
        if not self.training.rows:  # a few blocks, all of them drawn: hold none out
            self._fit(0.0, seed)
            self._fitted = holdout, seed

    def _blocks(self, chosen: np.ndarray) -> Blocks:
        numbers, size = np.flatnonzero(chosen), self._block_rows
        short = len(self._starts) * size - size - self.rows if len(numbers) and chosen[-1] else 0
        return Blocks(numbers, len(numbers) * size - short, size)

    # ---- as a Dataset

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of a row: (inputs,) or (channels, height, width)."""
        return self._found.pixels or (len(self._found.features),)

    @property
    def are_images(self) -> bool:
        """Whether the inputs are pixels."""
        return self._found.pixels is not None

    @property
    def inputs(self) -> int:
        """Values in a row."""
        return len(self._found.features)

    @property
    def outputs(self) -> int | None:
        """Outputs that a network needs for this data; None without targets."""
        if not self._found.chosen:
            return None
        if self.task == "binary":
            return 1
        return len(self.classes) if self.task == "multiclass" else len(self._found.chosen)

    @property
    def columns(self) -> list[str] | None:
        """Names of the features."""
        return self._found.names(self._found.features)

    @property
    def targets(self) -> list[str] | None:
        """Names of the targets."""
        return self._found.names(self._found.chosen)

    def class_counts(self) -> list[int]:
        """Rows of each class, in the order of `classes`."""
        return self._counts

    # ---- rows

    def split(self, holdout: float, seed: int) -> None:
        """Hold this share out: another pass, if the scaling was not found in the rows that it leaves."""
        if (holdout, seed) != self._fitted:
            self._fit(holdout, seed)

    def whole(self) -> Dataset:
        """All rows as one Dataset."""
        ds = load_table(self._found, self._how)
        ds.path, ds.target = self.path, self.target
        return ds

    @property
    def everything(self) -> Blocks:
        """All rows."""
        return self._blocks(np.ones(len(self._starts) - 1, bool))

    def gathered(self, blocks: Blocks) -> Dataset:
        """These rows as one Dataset."""
        whole, at = None, 0
        for ds in self.read(blocks, 0, blocks.rows):
            if whole is None:
                x, y = (np.empty((blocks.rows, *array.shape[1:]), array.dtype) for array in (ds.x, ds.y))
                whole = replace(ds, x=x, y=y, sha256=self.sha256)
            whole.x[at : at + ds.rows], whole.y[at : at + ds.rows] = ds.x, ds.y
            at += ds.rows
        return whole

    def read(self, blocks: Blocks, first: int, last: int) -> Iterator[Dataset]:
        """The rows [first, last) of `blocks`, in small pieces. DataError if the files have changed."""
        found, how = self._found, self._how
        for start, stop, skip, take in blocks.pieces(first, last, self._piece_blocks):
            rows = min(stop * self._block_rows, self.rows) - start * self._block_rows
            table = found.files.part(
                found.features, found.chosen, self._element, int(self._starts[start]), int(self._starts[stop]), rows,
                named_targets=self._named,
            )  # fmt: skip
            ds = found.dataset(table, self.task, how.outputs, self.classes, how.dtype)
            ds.x, ds.path, ds.target = ds.x[skip : skip + take], self.path, self.target
            ds.y = None if ds.y is None else ds.y[skip : skip + take]
            yield ds

    # ---- memory

    def window_for(self, net, batch: int, scaling: str, ranks: int = 1) -> int | None:
        """Training rows that are to be in memory at a time, a multiple of the batch; None: all rows can be.

        Raises UsageError if `memory` is too small for a batch, or for the window that was asked for.
        """
        window = self.window
        if window is not None:
            window = min(window, self.rows) if window >= self.rows else max(window // batch, 1) * batch
        if self.memory is None:
            return None if window >= self.rows else window
        fixed = program_bytes(net, batch)
        row, size = self._row_bytes(net, scaling), np.dtype(net.dtype).itemsize
        raw = np.dtype(self._element).itemsize
        all_rows = self.rows * (self.inputs * (raw + size) + 24 * (self.outputs or 0) + 64)
        if window in (None, self.rows) and fixed + all_rows <= self.memory:
            _check_room(net, self.memory - fixed - all_rows, self.memory - fixed, row, batch, ranks)
            return None
        least = fixed + row * (window or batch) // ranks
        what = f"--window {window}" if window else f"batches of {batch} rows of {self.inputs} values"
        check_memory(self.memory, least, f"{what} and this network")
        if window is None:
            window = (self.memory - fixed) * ranks // row // batch * batch
        window = min(window, max((self.training.rows - 1) // batch, 1) * batch)  # two windows or more
        _check_room(net, self.memory - fixed - row * window // ranks, self.memory - fixed, row, batch, ranks)
        return window

    def _row_bytes(self, net, scaling: str) -> int:
        """Of a row in both windows, the one that is used and the one that is read, and in their order."""
        size = np.dtype(net.dtype).itemsize
        bytes_stay = scaling == "pixel" and self._element == "uint8"
        labels = self.task == "multiclass" and net.outputs > 1
        return 2 * (self.inputs * (1 if bytes_stay else size) + (4 if labels else net.outputs * size)) + 32


def _check_room(net, left: int, for_rows: int, row: int, batch: int, ranks: int) -> None:
    """Raise UsageError if what the process has beyond the usual by now, such as packages that --logdir needs, is more
    than the `left` bytes. It does not make the windows smaller by itself: what is watched changes no numbers."""
    usual = BASE_BYTES[net.backend] + SPARE_BYTES + 3 * net.parameter_count * np.dtype(net.dtype).itemsize
    unusual = max(0, resident_bytes() - usual)
    if unusual > max(left, 0):
        window = (for_rows - unusual) * ranks // row // batch * batch
        fix = f"say --window {window}" if window > 0 else f"give {size_text(unusual)} more, and say --window"
        raise UsageError(
            f"--memory: {size_text(unusual)} are in use beside nn's own, as by what --logdir needs, which leaves too "
            f"little for windows of the usual size; {fix}"
        )


def block_rows(net, memory: int) -> int:
    """Rows that can be predicted at a time within `memory`, their predictions as text. UsageError if there are none."""
    size = np.dtype(net.dtype).itemsize
    row, fixed = net.inputs * (8 + size) + (3 + net.outputs) * 200, program_bytes(net, PREDICTED_ROWS)
    rows = min(1 << 15, (memory - fixed) // row)
    check_memory(memory, fixed + row, "this network")
    return rows


def check_answers(net, memory: int, rows: int) -> None:
    """Raise UsageError if `memory` is too little for what --test keeps of so many rows: truth and scores, and their
    order where they are ranked."""
    each = {"binary": 80, "multiclass": 0, "regression": 64 * net.outputs}[net.task]
    check_memory(memory, program_bytes(net, PREDICTED_ROWS) + each * rows, f"the answers of {rows} rows")


def check_memory(memory: int, least: int, what: str) -> None:
    """Raise UsageError if `what` needs more."""
    if least > memory:
        raise UsageError(f"--memory {size_text(memory)}: too little for {what}; at least {size_text(least)} are needed")


def program_bytes(net, batch: int) -> int:
    """What a training takes beside its rows: the program, parameters, moments, copies of them that are written,
    a batch's activations and their gradients. By sizes alone, not by what the process has by now."""
    size = np.dtype(net.dtype).itemsize
    activations = net.inputs + sum(layer.outputs for layer in net.layers)
    return BASE_BYTES[net.backend] + READING_BYTES + size * (12 * net.parameter_count + 4 * batch * activations)


def size_text(size: int) -> str:
    """Bytes as --memory takes them, rounded up to whole mebibytes."""
    return f"{-(-size >> 20)}M" if size % (1 << 30) else f"{size >> 30}G"


# ---------------------------------------------------------------- windows


@dataclass
class Window:
    """Rows in memory, as the engine takes them; x and y are overwritten once the window after the next is read.

    first: rows of the epoch before these; order: in which they are used, as long as those of all ranks.
    """

    first: int
    x: np.ndarray
    y: np.ndarray
    order: np.ndarray


@dataclass(frozen=True)
class _Job:
    """A window to be read: the rows [start, stop) of the training or the held-out blocks."""

    blocks: Blocks
    start: int
    stop: int
    batch: int  # rows that the ranks share at a time
    first: int = 0
    epoch: int | None = None  # None: to validate, in the order of the file


class Windows:
    """All that a training reads, in its order, one window ahead of what is used.

    window: training rows, a multiple of the batch; batches: rows that are trained on at a time, and that are
    validated at a time; convert: makes (x, y) for the engine from a Dataset. rank, ranks: this process reads only
    its own share of every window, the rows that it takes from each batch of that window, and shuffles them among
    themselves.
    """

    def __init__(
        self, parts: Parts, window: int, batches: tuple[int, int], convert: Callable, seed: int, rank=0, ranks=1
    ):
        self._parts, self.window, self._batches = parts, window, batches
        self._convert, self._seed, self._rank, self._ranks = convert, seed, rank, ranks
        self.count = -(-parts.training.rows // window)
        self._buffers: list = [None, None]
        self._turn = 0
        self._closed = threading.Event()
        self._worker = ThreadPoolExecutor(1)
        self._coming: Future | None = None

    def start(self, epoch: int, row: int, epochs: int) -> None:
        """Begin to read what comes after so many rows of epoch `epoch`, from 0."""
        self._jobs = self._all_jobs(epoch, row, epochs)
        self._coming = self._read_next()

    def next(self, wait: Callable[[Future], Window]) -> Window:
        """The next window, once `wait` has its result; those before the last one are gone then."""
        window = wait(self._coming)
        self._coming = self._read_next()
        return window

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        self._worker.shutdown()

    def _read_next(self) -> Future | None:
        job = next(self._jobs, None)
        if job is None:
            return None
        self._turn ^= 1
        return self._worker.submit(self._read, job, self._turn)

    def _all_jobs(self, epoch: int, row: int, epochs: int) -> Iterator[_Job]:
        training, held = self._parts.training, self._parts.held
        for number in range(epoch, epochs):
            for place, window in enumerate(self.order(number)):
                first, start = place * self.window, window * self.window
                stop = min(start + self.window, training.rows)
                if first + stop - start > row:
                    yield _Job(training, start, stop, self._batches[0], first, number)
            row = 0
            for start in range(0, held.rows, self.window):
                yield _Job(held, start, min(start + self.window, held.rows), self._batches[1])

    def order(self, epoch: int) -> list[int]:
        """The windows as an epoch takes them."""
        full = self._parts.training.rows // self.window
        return [*shuffled(full, self._seed, STREAM_SHUFFLE, epoch).tolist(), *range(full, self.count)]

    def _read(self, job: _Job, turn: int) -> Window:
        low, high = self._share(job.stop - job.start, job.batch)
        wanted = (low, high) if low < high else (0, 1)  # no share of a batch of few rows: an engine wants some
        x, y = self._rows(job.blocks, job.start + wanted[0], job.start + wanted[1], turn)
        return Window(job.first, x, y, self._order(job, high - low))

    def _share(self, rows: int, batch: int) -> tuple[int, int]:
        """Which of a window's rows are this rank's: as many as it takes from all of its batches."""
        full, rest = divmod(rows, batch)
        shares = [[count * rank // self._ranks for rank in (self._rank, self._rank + 1)] for count in (batch, rest)]
        return tuple(full * of_batch + of_rest for of_batch, of_rest in zip(*shares, strict=True))

    def _order(self, job: _Job, rows: int) -> np.ndarray:
        """The window's order (rows of all ranks), which holds this rank's rows where it takes them."""
        if job.epoch is None:
            own = np.arange(rows)
        else:
            own = shuffled(rows, self._seed, STREAM_SHUFFLE + 1 + job.start // self.window, job.epoch)
        if self._ranks == 1:
            return own
        order, at = np.zeros(job.stop - job.start, np.int64), 0
        for batch in range(0, len(order), job.batch):
            count = min(job.batch, len(order) - batch)
            low, high = (count * rank // self._ranks for rank in (self._rank, self._rank + 1))
            order[batch + low : batch + high] = own[at : at + high - low]
            at += high - low
        return order

    def _rows(self, blocks: Blocks, first: int, last: int, turn: int) -> tuple[np.ndarray, np.ndarray]:
        at = 0
        for ds in self._parts.read(blocks, first, last):
            if self._closed.is_set():
                raise NnError("reading was ended")
            arrays = self._convert(ds)
            if self._buffers[turn] is None:
                self._buffers[turn] = tuple(np.empty((self._room(), *a.shape[1:]), a.dtype) for a in arrays)
            for buffer, array in zip(self._buffers[turn], arrays, strict=True):
                buffer[at : at + len(array)] = array
            at += ds.rows
        x, y = self._buffers[turn]
        return x[:at], y[:at]

    def _room(self) -> int:
        """The most rows that this rank has of a window; of a shorter one they can be one more than of a full one."""
        return 1 + max(map(len, (range(*self._share(self.window, batch)) for batch in self._batches)))
