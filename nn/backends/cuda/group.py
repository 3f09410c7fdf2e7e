"""Several GPUs that train one network: each computes its share of every batch, and NCCL adds up what they have learned.

A member is a GPU with its engine (cuda.py), driven by a thread of its own (Group), or by a process of its own where a
launcher started one for each GPU. What the members say to each other beside the GPUs, they say through their Team
(cluster.py): how a chunk of batches went, and whether to stop.
"""

from __future__ import annotations

import atexit
import gc
import platform
import threading
import weakref
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np

from ..cluster import ALONE, Team, join
from ..utils import UsageError
from . import Step, nccl

FEWEST_ROWS = 256  # of a forward pass that are worth another GPU


@dataclass
class Member:
    """A GPU's place in a group."""

    team: Team
    distribute: str  # mirrored, central
    device: int
    lines: list = field(default_factory=lambda: [None])  # the communicator, or all of a process, by `place`
    place: int = 0

    @property
    def steps(self) -> bool:
        """Whether the parameters take their step here: of `central`, on member 0 alone, which then has the moments."""
        return self.distribute == "mirrored" or self.team.rank == 0

    def communicator(self):
        """This member's, made together with all others' when they first ask for it."""
        if self.lines[self.place] is None:
            team = self.team
            nccl.library()  # a missing one is told before the others are waited for
            unique = team.broadcast(nccl.unique_id() if team.rank == 0 else None)
            self.lines[self.place] = nccl.Communicator(unique, team.rank, team.size, self.device)
        return self.lines[self.place]


members_engines: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close() -> None:
    """NCCL wants to be closed, and waits for the graphs that were captured with it."""
    for engine in list(members_engines):
        engine.forget_programs()
    nccl.close_all()


def own_rows(order: np.ndarray, batch: int, team: Team) -> np.ndarray:
    """The rows of an order that a member takes: of each batch its share, one after the other."""
    if team.size == 1:
        return order
    whole = len(order) // batch * batch
    rest = order[whole:]
    full = order[:whole].reshape(-1, batch)[:, team.share(batch)].ravel()
    return np.concatenate([full, rest[team.share(len(rest))]])


def most_rows(rows: int, batch: int, team: Team) -> int:
    """The rows of a member's largest share of a batch, when so many rows are taken."""
    shares = (team.share(size) for size in (min(batch, rows), rows % batch))
    return max(share.stop - share.start for share in shares)


# ---------------------------------------------------------------- threads that are a team


class _Meeting:
    """Where the threads of a group meet."""

    def __init__(self, size: int):
        self.values: list = [None] * size
        self.barrier = threading.Barrier(size)


class ThreadTeam(Team):
    """A thread's place among those of its group; values may be any object."""

    def __init__(self, meeting: _Meeting, rank: int):
        self._meeting = meeting
        self.rank = self.local_rank = rank
        self.size = len(meeting.values)

    def gather(self, value) -> list:
        """See Team. Raises Left where another member has failed."""
        meeting = self._meeting
        meeting.values[self.rank] = value
        try:
            meeting.barrier.wait()
            values = list(meeting.values)
            meeting.barrier.wait()  # before somebody writes there again
        except threading.BrokenBarrierError:
            raise nccl.Left from None
        return values


def thread_teams(size: int) -> list[ThreadTeam]:
    """The teams of so many threads."""
    meeting = _Meeting(size)
    return [ThreadTeam(meeting, rank) for rank in range(size)]


# ---------------------------------------------------------------- the engine


class GroupData:
    """A data set in the computer's memory, which goes to a GPU when that needs it."""

    def __init__(self, x: np.ndarray, y: np.ndarray | None, size: int):
        self.x, self.y, self.rows = x, y, len(x)
        self._whole: list = [None] * size
        self._parts: list = [None] * size

    def whole(self, rank: int, engine):
        """All of it, as member `rank` has it."""
        if self._whole[rank] is None:
            self._whole[rank] = engine.load(self.x, self.y)
        return self._whole[rank]

    def part(self, rank: int, engine, rows: slice):
        """These rows of it: (data, rows in it or None for all)."""
        if self._whole[rank] is not None:
            return self._whole[rank], np.arange(rows.start, rows.stop)
        if self._parts[rank] is None or self._parts[rank][0] != rows:
            y = None if self.y is None else self.y[rows]
            self._parts[rank] = rows, engine.load(self.x[rows], y)
        return self._parts[rank][1], None


_kept: dict[tuple[int, ...], list[list]] = {}  # communicators that nobody uses: making them takes a second


def _keep(gpus: tuple[int, ...], lines: list) -> None:
    if all(lines):
        _kept.setdefault(gpus, []).append(lines)


class Group:
    """Several GPUs of this process as one engine; the interface of backends/__init__.py.

    kind: CudaEngine or CudnnEngine; the other arguments are theirs. gpus: two or more numbers.
    """

    team = ALONE
    threads = 1

    def __init__(
        self, kind, backend: str, layers, loss: str, dtype: str, *, gpus: tuple[int, ...],
        distribute: str | None = None, tf32: bool = False,
    ):  # fmt: skip
        _check_gpus(gpus)
        gc.collect()  # what networks of before still have on GPUs goes now, not while members wait for each other
        self.gpus, self.distribute = gpus, distribute or "mirrored"
        lines = _kept[gpus].pop() if _kept.get(gpus) else [None] * len(gpus)
        self._teams, self._lines = thread_teams(len(gpus)), lines
        self._threads = [ThreadPoolExecutor(1, f"gpu{number}") for number in gpus]
        members = [
            Member(team, self.distribute, device, lines, team.rank)
            for team, device in zip(self._teams, gpus, strict=True)
        ]
        self.engines: list = [None] * len(gpus)
        self.engines = self._all(
            lambda rank, _: kind(backend, layers, loss, dtype, device=gpus[rank], tf32=tf32, member=members[rank])
        )
        first = self.engines[0]
        self.name, self.dtype, self.size = first.name, first.dtype, first.size
        self.inputs, self.outputs = first.inputs, first.outputs
        weakref.finalize(self, _keep, gpus, lines)

    # ---- the members' threads

    def _all(self, call) -> list:
        """call(rank, engine) of all members at once, each on its own thread; what they return. Raises the first error,
        whose consequences the others are, after all have ended."""
        futures = [
            thread.submit(call, rank, engine)
            for rank, (thread, engine) in enumerate(zip(self._threads, self.engines, strict=True))
        ]
        done, others = wait(futures, return_when=FIRST_EXCEPTION)
        error = next((future.exception() for future in done if future.exception()), None)
        if error is not None:
            self._break_off()
            wait(others)
            self._start_afresh()
            raise error
        return [future.result() for future in futures]

    def _break_off(self) -> None:
        """A member has failed: nobody is to wait for it, neither here nor on a GPU."""
        self._teams[0]._meeting.barrier.abort()
        for communicator in filter(None, self._lines):
            communicator.abort()

    def _start_afresh(self) -> None:
        """After all members have ended: what was captured with the old communicators goes with them."""
        for engine in filter(None, self.engines):
            engine.forget_programs()
        self._lines[:] = [None] * len(self._lines)
        self._teams[0]._meeting.barrier.reset()

    # ---- what it is

    def describe(self) -> str:
        """Backend and the GPUs' names, as the first line of a run says them."""
        names = Counter(engine.gpu_name() for engine in self.engines)
        gpus = " + ".join(f"{count} x {name}" for name, count in names.items())
        return f"{self.name} ({gpus}, {self.distribute})"

    def gpu_name(self) -> str:
        """What their maker calls these GPUs, however many they are."""
        return " + ".join(dict.fromkeys(engine.gpu_name() for engine in self.engines))

    def threads_for(self, rows: int) -> int:
        """Threads of the processor that a batch is worth."""
        return 1

    def bytes(self) -> int:
        """Memory on all GPUs that the network holds beside the data set."""
        return sum(engine.bytes() for engine in self.engines)

    # ---- parameters and data

    def set(self, what: str, vector: np.ndarray) -> None:
        """Copy a parameter vector to all that have one; what: parameters, moment1, moment2."""
        self._all(lambda _, engine: engine.set(what, vector))

    def get(self, what: str) -> np.ndarray:
        """Copy a parameter vector out."""
        return self.engines[0].get(what)

    def load(self, x: np.ndarray, y: np.ndarray | None = None) -> GroupData:
        """Rows as the engines take them; they go to a GPU when it needs them."""
        return GroupData(*self.engines[0].checked(x, y), len(self.engines))

    # ---- training

    def training(self, **options):
        """The settings of one epoch; `optimizer` by its name."""
        return self.engines[0].training(**options)

    def progress(self, row: int = 0, step: int = 0, loss: float = 0.0):
        """Where an epoch stands."""
        return self.engines[0].progress(row, step, loss)

    def epoch(self, data: GroupData, order: np.ndarray, training, progress) -> None:
        """Train on data's rows order[progress.row:]; blocks until the end or `progress.stop`, without the GIL."""
        if len(order) < len(self.gpus):
            raise UsageError(f"--gpus: {len(self.gpus)} GPUs are more than the {len(order)} rows; use fewer")
        others = (self.progress(progress.row, progress.step, progress.loss) for _ in self.engines[1:])
        own = [progress, *others]
        self._all(lambda rank, engine: engine.epoch(data.whole(rank, engine), order, training, own[rank]))

    def record(self, batches: int) -> None:
        """From now on note when the steps of training's batches begin and end, of so many batches."""
        for engine in self.engines:
            engine.record(batches)

    def recorded(self) -> list[list[Step]]:
        """The steps of each batch since `record`, member 0's first."""
        batches = zip(*(engine.recorded() for engine in self.engines), strict=True)
        return [[step for steps in batch for step in steps] for batch in batches]

    def gradients(self, x: np.ndarray, y: np.ndarray, seed: int = -1, step: int = 0):
        """(mean loss, gradient vector, dx) of one batch: x (rows, inputs), y (rows, outputs)."""
        return self._all(lambda _, engine: engine.gradients(x, y, seed, step))[0]

    # ---- forward passes

    def _shares(self, rows: int) -> list[slice]:
        """Which of so many rows each member takes; few are one's alone."""
        if rows < FEWEST_ROWS * len(self.engines):
            return [slice(0, rows)]
        return [team.share(rows) for team in self._teams]

    def _forward(self, data: GroupData, rows: np.ndarray | None, call) -> np.ndarray:
        """call(engine, data, rows) of each member for its share of the rows (None: all); one after the other."""
        shares = self._shares(data.rows if rows is None else len(rows))

        def own(rank, engine):
            if rows is None:
                return call(engine, *data.part(rank, engine, shares[rank]))
            return call(engine, data.whole(rank, engine), rows[shares[rank]])

        if len(shares) == 1:
            return own(0, self.engines[0])
        return np.concatenate(self._all(own))

    def predict(self, data: GroupData, rows: np.ndarray | None = None) -> np.ndarray:
        """Outputs (rows, outputs) of data's rows, all of them by default."""
        return self._forward(data, rows, lambda engine, own, which: engine.predict(own, which))

    def loss(self, data: GroupData, rows: np.ndarray) -> float:
        """Mean loss of data's rows."""
        losses = self._forward(data, rows, lambda engine, own, which: engine.row_losses(own, which))
        return float(np.cumsum(losses)[-1]) / len(rows)


def _check_gpus(gpus: tuple[int, ...]) -> None:
    from . import gpu

    twice = [number for number, times in Counter(gpus).items() if times > 1]
    if twice:
        raise UsageError(f"--gpus {','.join(map(str, gpus))}: GPU {twice[0]} is named twice; name each once")
    count = gpu.device_count()
    missing = [number for number in gpus if not 0 <= number < count]
    if missing:
        there = "one GPU, 0" if count == 1 else f"{count} GPUs, 0 to {count - 1}"
        wanted = ", ".join(map(str, missing))
        raise UsageError(
            f"--gpus: this machine has {there}, and not GPU {wanted}; use --gpus {count}, or check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES"
        )


# ---------------------------------------------------------------- which of all this a network needs


def create(kind, backend: str, layers, loss: str, dtype: str, *, gpus: tuple[int, ...], distribute, tf32: bool):
    """The engine for these GPUs: a group, one GPU's, or a member's where a launcher has started a process for each GPU.
    Arguments as Group's. Raises UsageError for GPUs that are not there."""
    team = join() if distribute else ALONE
    if team.size > 1:
        member = Member(team, distribute, _device_of_rank(gpus, team))
        return kind(backend, layers, loss, dtype, device=member.device, tf32=tf32, member=member)
    if len(gpus) > 1:
        return Group(kind, backend, layers, loss, dtype, gpus=gpus, distribute=distribute, tf32=tf32)
    return kind(backend, layers, loss, dtype, device=gpus[0] if gpus else 0, tf32=tf32)


def _device_of_rank(gpus: tuple[int, ...], team: Team) -> int:
    """The GPU of this process. A launcher may have left it one alone, or all of its host; no two share one."""
    from . import gpu

    gpus, local = gpus or tuple(range(gpu.device_count())), team.local_rank
    device = gpus[0] if len(gpus) == 1 else gpus[local] if local < len(gpus) else None
    place = None if device is None else gpu.place_of(device)
    places = team.gather([platform.node(), place])
    for rank, where in enumerate(places):
        first = places.index(where)
        if where[1] is None or first < rank:
            why = f"its GPU is that of rank {first} too" if where[1] else "its host has fewer GPUs than ranks"
            raise UsageError(f"rank {rank}: {why}; start one rank a GPU, and name the GPUs of a host by --gpus")
    return device
