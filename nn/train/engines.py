"""The engines of the networks of a run: an Ask is what one wants computed next; Engines
computes what several ask for, those of a device whose layers are alike as a pack; Ranks
are the processes that share the networks out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..backends import Device
from ..backends.engine import Engine, Pack, PackJob
from ..backends.member import MemberEngine, RankMember
from ..cluster import RankGroup
from ..nn import Network
from ..utils import NnError

TOGETHER = "together"  # what a network yields that waits for all others


@dataclass
class Ask:
    """A computation that a network asks for: an epoch, or the loss or outputs of some
    rows."""

    what: str  # epoch, loss, predict
    job: PackJob

    def of(self, engine: Engine):
        job = self.job
        if self.what == "epoch":
            return engine.epoch(job.data, job.order(), job.settings, job.progress)
        return {"loss": engine.loss, "predict": engine.predict}[self.what](
            job.data, job.rows
        )


def stop_all(asks: Mapping[int, Ask]) -> None:
    """End all epochs among the asks after the batch at hand."""
    for ask in asks.values():
        if ask.job.progress is not None:
            ask.job.progress.stop = 1


class Engines:
    """The engine of each of several networks, and what they compute together: each
    device those of its share."""

    def __init__(
        self,
        net: Network,
        networks: Mapping[int, Network],
        devices: Sequence[Device],
        batch_number: int,
    ):
        """net: whose engine, on the first device, computes the networks of its layers.
        networks: by their numbers."""
        self._net = net
        self._threads = net.engine.threads
        self._at_once: list[Pack] = []  # of few members each, on one thread
        self._engines: dict[int, MemberEngine] = {}
        numbers = list(networks)
        for at, device in enumerate(devices):
            share = numbers[
                len(numbers) * at // len(devices) : len(numbers)
                * (at + 1)
                // len(devices)
            ]
            if at:
                for number in share:
                    networks[number].device = device
            self._engines |= self._made(
                {number: networks[number] for number in share}, at, batch_number
            )

    def get(self, number: int) -> MemberEngine | None:
        """Return the engine of a network; None for one that is not computed here."""
        return self._engines.get(number)

    @property
    def packs(self) -> list[Pack]:
        return list(
            dict.fromkeys(engine.pack_of_member for engine in self._engines.values())
        )

    def _made(
        self, networks: Mapping[int, Network], device: int, batch_number: int
    ) -> dict[int, MemberEngine]:
        """Return the engine of each network of a device by its number."""
        net = self._net
        alike = numbers_by_layers(networks)
        small = [numbers for numbers in alike if len(numbers) < self._threads]
        at_once = (
            net.traits.on_host
            and len(small) > 1
            and sum(map(len, small)) >= self._threads
        )
        engines = {}
        for numbers in alike:
            first = networks[numbers[0]]
            if at_once and numbers in small:
                engine = first.new_engine(first.device._replace(threads=1))
            elif architecture_of(first) == architecture_of(net) and not device:
                engine = net.engine
            else:
                engine = first.new_engine()
            pack = engine.pack(len(numbers), batch_number)
            if at_once and numbers in small:
                self._at_once.append(pack)
            engines |= {
                number: MemberEngine(engine, pack, member, device)
                for member, number in enumerate(numbers)
            }
        return engines

    def compute(self, what: str, asks: Mapping[int, Ask]) -> list:
        """Return what networks ask for, all of one kind (Ask.what), in the order of the
        asks."""
        on_each: dict[int, dict[Pack, dict[int, PackJob]]] = {}
        for number, ask in asks.items():
            engine = self._engines[number]
            jobs = on_each.setdefault(engine.on_device, {})
            jobs.setdefault(engine.pack_of_member, {})[number] = engine.job(ask.job)
        answers: dict[int, object] = {}
        for results in at_the_same_time(
            [lambda jobs=jobs: self._of_packs(what, jobs) for jobs in on_each.values()],
            asks,
        ):
            answers |= results
        return [answers[number] for number in asks]

    def _of_packs(
        self, what: str, jobs: dict[Pack, dict[int, PackJob]]
    ) -> dict[int, object]:
        """Return what the jobs of each pack of a device give: of one after the other,
        but for those that are small."""

        def of(pack: Pack) -> dict[int, object]:
            jobs_of_pack = jobs[pack]
            return dict(
                zip(
                    jobs_of_pack,
                    getattr(pack, what)(list(jobs_of_pack.values()))
                    or [None] * len(jobs_of_pack),
                    strict=True,
                )
            )

        parts = [of(pack) for pack in jobs if pack not in self._at_once]
        small = [pack for pack in jobs if pack in self._at_once]
        if small:
            with ThreadPoolExecutor(self._threads) as workers:
                parts += workers.map(of, small)
        return {number: result for part in parts for number, result in part.items()}


def at_the_same_time(
    calls: Sequence[Callable[[], dict]], asks: Mapping[int, Ask]
) -> list[dict]:
    """Return what the calls give, each in a thread of its own. Raises the first error
    of one, once the others, which are told to stop what was asked for, have ended."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as workers:
        running = [workers.submit(call) for call in calls]
        done, others = wait(running, return_when=FIRST_EXCEPTION)
        if others:
            stop_all(asks)
        error = next(
            (future.exception() for future in done if future.exception()), None
        )
        if error is not None:
            raise error
        return [future.result() for future in running]


def architecture_of(net: Network) -> tuple:
    """Return what networks have alike that one engine can compute."""
    return tuple(net.layers), net.loss, net.dtype


def numbers_by_layers(networks: Mapping[int, Network]) -> list[list[int]]:
    alike: dict[tuple, list[int]] = {}
    for number, net in networks.items():
        alike.setdefault(architecture_of(net), []).append(number)
    return list(alike.values())


class Ranks:
    """The ranks among which `count` networks are shared out, a process alone included.
    Each runs all networks, and computes what its own ask for.

    All ranks call the methods alike, with the same asks, and get the same answers, by
    which all networks go on alike.
    """

    def __init__(self, rank_group: RankGroup, count: int, dtype: str):
        """dtype: of vectors and outputs."""
        self.group = rank_group
        self.size = rank_group.size
        self._dtype = np.dtype(dtype)
        self._members: list[RankMember] = []
        self._shares = [
            range(count)[rank_group.share(count, rank)] for rank in range(self.size)
        ]
        # the numbers of the networks that this rank computes
        self.own = self._shares[rank_group.rank]

    def owned(self, asks: Mapping[int, Ask]) -> dict[int, Ask]:
        """Return those asks that this rank answers."""
        return {number: ask for number, ask in asks.items() if number in self.own}

    def engine_of(
        self, number: int, engine: Engine, member_engine: Engine | None
    ) -> Engine:
        """Return the engine of a network as all ranks see it; engine, member_engine:
        see RankMember."""
        if self.size == 1:
            return member_engine
        self._members.append(
            RankMember(engine, member_engine, partial(self._from_owner, number))
        )
        return self._members[-1]

    @contextlib.contextmanager
    def sharing_vectors(self) -> Iterator[None]:
        """Let all ranks get the networks' vectors from their owners in the block, which
        all of them enter. Elsewhere a rank that meets with an error, and brings its
        trainings to their ends, would wait for others."""
        for member in self._members:
            member.shares_vectors = True
        try:
            yield
        finally:
            for member in self._members:
                member.shares_vectors = False

    def _from_owner(self, number: int, array: np.ndarray | None) -> np.ndarray | None:
        """Return an array of the owner of a network, None where that has none; None:
        this rank is not the owner. Raises NnError."""
        owner = next(rank for rank, share in enumerate(self._shares) if number in share)
        flat = np.zeros(0, np.uint8)
        described = self.group.gather(
            None if array is None else [array.dtype.str, array.shape]
        )[owner]
        if array is not None:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if described is None:
            return None
        return self._gathered(flat)[owner].view(described[0]).reshape(described[1])

    def _gathered(self, array: np.ndarray) -> list[np.ndarray]:
        try:
            return self.group.gather_arrays(array)
        except MemoryError:
            # which a training outlives, but the others would wait for this rank
            raise NnError(
                "out of memory for what ranks tell each other; use smaller layers"
            ) from None

    # ---- answers

    def exchange(self, is_done: bool, signum: int | None) -> tuple[bool, int | None]:
        """Tell the others whether this rank has answered its asks, and its signal;
        return (whether all have, the signal of one of them, None without)."""
        if self.size == 1:
            return is_done, signum
        everyone = self.group.gather([is_done, signum])
        signals = (signum for _, signum in everyone if signum is not None)
        return all(is_done for is_done, _ in everyone), next(signals, None)

    def answers(
        self, what: str, asks: Mapping[int, Ask], results: Sequence
    ) -> dict[int, object]:
        """Return the answers to all asks, of one kind (Ask.what); results: those to
        this rank's, in their order."""
        answers_here = dict(zip(self.owned(asks), results, strict=True))
        if self.size == 1:
            return answers_here
        if what == "predict":
            return self._outputs(asks, answers_here)
        if what == "loss":
            pairs = [[number, float(loss)] for number, loss in answers_here.items()]
        else:
            ends = {number: asks[number].job.progress for number in answers_here}
            pairs = [
                [number, [int(end.row), int(end.step), float(end.loss)]]
                for number, end in ends.items()
            ]
        answers = dict(pair for rank in self.group.gather(pairs) for pair in rank)
        if what == "loss":
            return answers
        for number, (row, step, loss) in answers.items():
            progress = asks[number].job.progress
            progress.row = row
            progress.step = step
            progress.loss = loss
        return dict.fromkeys(asks)

    def _outputs(
        self, asks: Mapping[int, Ask], outputs: Mapping[int, np.ndarray]
    ) -> dict[int, object]:
        """Return the outputs (rows, outputs) of each network."""
        flat = np.concatenate(
            [np.zeros(0, self._dtype), *(out.ravel() for out in outputs.values())]
        )
        outputs_by_number = {}
        for share, values in zip(self._shares, self._gathered(flat), strict=True):
            numbers = [number for number in share if number in asks]
            if numbers:
                ends = np.cumsum([len(asks[number].job.rows) for number in numbers])
                outputs_by_number |= dict(
                    zip(
                        numbers,
                        np.split(values.reshape(ends[-1], -1), ends[:-1]),
                        strict=True,
                    )
                )
        return outputs_by_number
