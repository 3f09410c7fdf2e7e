"""Several GPUs that train one network: each computes its share of every batch, and NCCL
adds up what they have learned.

A member is a GPU with its engine (cuda.py), driven by a thread of its own (Group), or
by a process of its own where a launcher started one for each GPU. What the members say
to each other beside the GPUs, they say through their RankGroup (nn/cluster): how a
chunk of batches went, and whether to stop.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import platform
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...cluster import ALONE, RankGroup, join
from ...utils import UsageError
from ..engine import Engine, EpochSettings, TimedStep
from ..member import DataOfDevices, Turns
from . import device, nccl
from .epoch import mean_loss

FEWEST_ROWS = 256  # of a forward pass that are worth another GPU


@dataclass
class Member:
    """A GPU of a group: its rank, device and communicator."""

    rank_group: RankGroup
    distribute: str  # mirrored, central
    device: int
    # one, or those of all members; its own is at `index`
    communicators: list = field(default_factory=lambda: [None])
    index: int = 0

    @property
    def updates_weights(self) -> bool:
        """Return whether parameters are updated here; with `central` on member 0 alone,
        which has the moments."""
        return self.distribute == "mirrored" or self.rank_group.rank == 0

    def communicator(self):
        """Return this member's communicator; all members make theirs together, at the
        first call."""
        if self.communicators[self.index] is None:
            rank_group = self.rank_group
            # a missing NCCL is reported before this member waits for the others
            nccl.library()
            unique, *_ = rank_group.gather(
                nccl.unique_id() if rank_group.rank == 0 else None
            )
            self.communicators[self.index] = nccl.Communicator(
                unique, rank_group.rank, rank_group.size, self.device
            )
        return self.communicators[self.index]


members_engines: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close() -> None:
    """Close NCCL, which waits for the graphs that were captured with it."""
    for engine in list(members_engines):
        engine.forget_programs()
    nccl.close_all()


def rows_of_member(order: np.ndarray, batch: int, rank_group: RankGroup) -> np.ndarray:
    """Return the rows of an order that a member takes: its share of each batch, one
    after the other."""
    if rank_group.size == 1:
        return order
    whole = len(order) // batch * batch
    rest = order[whole:]
    full = order[:whole].reshape(-1, batch)[:, rank_group.share(batch)].ravel()
    return np.concatenate([full, rest[rank_group.share(len(rest))]])


def most_rows(rows: int, batch: int, rank_group: RankGroup) -> int:
    """Return the rows of a member's largest share of a batch, of that many rows in
    all."""
    shares = (rank_group.share(size) for size in (min(batch, rows), rows % batch))
    return max(share.stop - share.start for share in shares)


# ---------------------------------------------------------------- threads as ranks


class ThreadGroup(RankGroup):
    """A thread's rank among those of its group, which share `values` and `barrier`;
    values may be any object."""

    def __init__(self, values: list, barrier: threading.Barrier, rank: int):
        self._values = values
        self.barrier = barrier
        self.rank = self.local_rank = rank
        self.size = len(values)

    def gather(self, value) -> list:
        """See RankGroup. Raises Left where another member has failed."""
        self._values[self.rank] = value
        try:
            self.barrier.wait()
            values = list(self._values)
            self.barrier.wait()  # before a member writes there again
        except threading.BrokenBarrierError:
            raise nccl.Left from None
        return values


def thread_groups(size: int) -> list[ThreadGroup]:
    """Return the groups of `size` threads, one for each."""
    values = [None] * size
    barrier = threading.Barrier(size)
    return [ThreadGroup(values, barrier, rank) for rank in range(size)]


# ---------------------------------------------------------------- the engine


# unused communicators: making them takes a second
_kept: dict[tuple[int, ...], list[list]] = {}


def _keep(gpus: tuple[int, ...], communicators: list) -> None:
    if all(communicators):
        _kept.setdefault(gpus, []).append(communicators)


class Group:
    """Several GPUs of this process as one engine; the interface is backends/engine.py.

    make: makes the engine of a device (device=) and member (member=). gpus: two or more
    numbers.
    """

    rank_group = ALONE
    threads = 1

    def __init__(
        self,
        make: Callable[..., Any],
        gpus: tuple[int, ...],
        distribute: str | None = None,
    ):
        device.check_gpus(gpus)
        # what networks of before still have on GPUs goes now, not while members wait
        # for each other
        gc.collect()
        self.gpus = gpus
        self.distribute = distribute or "mirrored"
        communicators = [None] * len(gpus)
        if _kept.get(gpus):
            communicators = _kept[gpus].pop()
        self._rank_groups = thread_groups(len(gpus))
        self._communicators = communicators
        self._turn = threading.Lock()
        self._threads = [ThreadPoolExecutor(1, f"gpu{number}") for number in gpus]
        members = [
            Member(rank_group, self.distribute, device, communicators, rank_group.rank)
            for rank_group, device in zip(self._rank_groups, gpus, strict=True)
        ]
        self.engines: list = [None] * len(gpus)
        self.engines = self._on_all(
            lambda rank, _: make(device=gpus[rank], member=members[rank])
        )
        member0 = self.engines[0]
        self.name = member0.name
        self.dtype = member0.dtype
        self.size = member0.size
        self.inputs = member0.inputs
        self.outputs = member0.outputs
        weakref.finalize(self, _keep, gpus, communicators)

    # ---- the members' threads

    def _on_all(self, call) -> list:
        """Return call(rank, engine) of all members, each on its own thread. Raise the
        first error after all have ended: the others follow from it."""
        device.check_process()
        # members meet in calls, which each thread has in the same order
        with self._turn:
            futures = [
                thread.submit(call, rank, engine)
                for rank, (thread, engine) in enumerate(
                    zip(self._threads, self.engines, strict=True)
                )
            ]
        done, running = wait(futures, return_when=FIRST_EXCEPTION)
        error = next(filter(None, [future.exception() for future in done]), None)
        if error is not None:
            self._break_off()
            wait(running)
            self._start_afresh()
            raise error
        return [future.result() for future in futures]

    def _break_off(self) -> None:
        """Let no thread and no GPU wait for a member that has failed."""
        self._rank_groups[0].barrier.abort()
        for communicator in filter(None, self._communicators):
            communicator.abort()

    def _start_afresh(self) -> None:
        """Drop the old communicators, and the graphs captured with them, after all
        members have ended."""
        for engine in filter(None, self.engines):
            engine.forget_programs()
        for rank in range(len(self._communicators)):
            self._communicators[rank] = None
        self._rank_groups[0].barrier.reset()

    # ---- facts of the engine

    def describe(self) -> str:
        names = Counter(engine.device_name() for engine in self.engines)
        gpus = " + ".join(f"{count} x {name}" for name, count in names.items())
        return f"{self.name} ({gpus}, {self.distribute})"

    def device_name(self) -> str:
        return " + ".join(
            dict.fromkeys(engine.device_name() for engine in self.engines)
        )

    def threads_for(self, rows: int) -> int:
        return 1

    def bytes(self) -> int:
        return sum(engine.bytes() for engine in self.engines)

    def routes(self, rows: int) -> list[str]:
        """Return how member 0 computes its share of a training step of that many
        rows."""
        return self.engines[0].routes(rows)

    def pack(self, count: int, rows: int) -> Turns:
        """Return networks that take turns."""
        return Turns(self, count)

    # ---- parameters and data

    def length(self, what: str) -> int:
        return self.engines[0].length(what)

    def set(self, what: str, vector: np.ndarray) -> None:
        self._on_all(lambda _, engine: engine.set(what, vector))

    def get(self, what: str) -> np.ndarray:
        return self.engines[0].get(what)

    def keep(self) -> None:
        self._on_all(lambda _, engine: engine.keep())

    def load(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> DataOfDevices:
        """Return the rows as the engines take them; they go to a GPU when it needs
        them."""
        return DataOfDevices(*self.engines[0].checked(x, y, weights))

    # ---- training

    def progress(self, row: int = 0, step: int = 0, loss: float = 0.0):
        return self.engines[0].progress(row, step, loss)

    def epoch(
        self, data: DataOfDevices, order: np.ndarray, settings: EpochSettings, progress
    ) -> None:
        if len(order) < len(self.gpus):
            raise UsageError(
                f"--gpus: {len(self.gpus)} GPUs are more than the {len(order)} rows; use fewer"
            )
        counters = [progress]
        for _ in self.engines[1:]:
            counters.append(self.progress(progress.row, progress.step, progress.loss))
        self._on_all(
            lambda rank, engine: engine.epoch(
                data.at(rank, engine), order, settings, counters[rank]
            )
        )

    def record(self, batches: int, predicts: bool = False) -> None:
        for engine in self.engines:
            engine.record(batches, predicts)

    def recorded(self) -> list[list[TimedStep]]:
        """Return the steps of each batch since `record`, member 0's first."""
        # few rows are predicted by some members
        batches = itertools.zip_longest(
            *(engine.recorded() for engine in self.engines), fillvalue=[]
        )
        return [[step for steps in batch for step in steps] for batch in batches]

    def gradients(self, x: np.ndarray, y: np.ndarray, seed: int = -1, step: int = 0):
        return self._on_all(lambda _, engine: engine.gradients(x, y, seed, step))[0]

    # ---- forward passes

    def _shares(self, rows: int) -> list[slice]:
        """Return which of that many rows each member takes; few rows are all member
        0's."""
        if rows < FEWEST_ROWS * len(self.engines):
            return [slice(0, rows)]
        return [rank_group.share(rows) for rank_group in self._rank_groups]

    def _forward(
        self, data: DataOfDevices, rows: np.ndarray | None, call
    ) -> np.ndarray:
        """Return call(engine, data, rows) of each member for its share of the rows
        (None: all), joined."""
        shares = self._shares(data.rows if rows is None else len(rows))

        def call_for_share(rank, engine):
            share = shares[rank]
            if rows is not None:
                return call(engine, data.at(rank, engine), rows[share])
            if data.is_at(rank):
                indices = np.arange(share.start, share.stop)
                return call(engine, data.at(rank, engine), indices)
            return call(engine, data.at(rank, engine, share), None)

        if len(shares) == 1:
            return call_for_share(0, self.engines[0])
        return np.concatenate(self._on_all(call_for_share))

    predict_once = Engine.predict_once

    def predict(
        self,
        data: DataOfDevices,
        rows: np.ndarray | None = None,
        vector: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._forward(
            data, rows, lambda engine, *share: engine.predict(*share, vector)
        )

    def loss(self, data: DataOfDevices, rows: np.ndarray) -> float:
        losses = self._forward(
            data, rows, lambda engine, *share: engine.row_losses(*share)
        )
        return mean_loss(losses, data.weights, rows)


# ---------------------------------------------------- which of all this a network needs


def create(make: Callable[..., Any], gpus: tuple[int, ...], distribute: str | None):
    """Return the engine for these GPUs: a group's, one GPU's, or a member's where a
    launcher started a process per GPU. Arguments as Group's. Raise UsageError for GPUs
    that the machine lacks."""
    rank_group = join() if distribute else ALONE
    if rank_group.size > 1:
        member = Member(rank_group, distribute, _device_of_rank(gpus, rank_group))
        return make(device=member.device, member=member)
    if len(gpus) > 1:
        return Group(make, gpus, distribute)
    return make(device=gpus[0] if gpus else 0)


def ranks_and_gpus(
    gpus: tuple[int, ...], distribute: str | None
) -> tuple[RankGroup, list[tuple[int, ...]]]:
    """Return (the ranks that share out networks, `gpus` for an engine on each device of
    this one); see backends.ranks_and_devices."""
    rank_group = join() if distribute else ALONE
    if rank_group.size > 1:
        return rank_group, [(_device_of_rank(gpus, rank_group),)]
    if len(gpus) > 1:
        device.check_gpus(gpus)
    return ALONE, [(number,) for number in gpus] or [()]


def _device_of_rank(gpus: tuple[int, ...], rank_group: RankGroup) -> int:
    """Return the GPU of this process. A launcher may show it one GPU or all of its
    host; no two ranks share one."""
    gpus = gpus or tuple(range(device.device_count()))
    local = rank_group.local_rank
    number = None
    address = None
    if len(gpus) == 1:
        number = gpus[0]
    elif local < len(gpus):
        number = gpus[local]
    if number is not None:
        address = device.address_of(number)
    gpus_of_ranks = rank_group.gather([platform.node(), address])
    for rank, gpu in enumerate(gpus_of_ranks):
        lowest_rank = gpus_of_ranks.index(gpu)
        if gpu[1] is None:
            fault = "its host has fewer GPUs than ranks"
        elif lowest_rank < rank:
            fault = f"it uses the same GPU as rank {lowest_rank}"
        else:
            continue
        raise UsageError(
            f"rank {rank}: {fault}; start one rank per GPU, and list the GPUs of each host with --gpus"
        )
    return number
