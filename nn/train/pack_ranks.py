"""PackRanks: the ranks that share out several networks. Each runs all trainings, and computes what its own ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ..backends.engine import Engine
from ..backends.member import RankMember
from ..cluster import RankGroup
from ..utils import NnError
from .asks import Ask


class PackRanks:
    """The ranks among which `count` networks are shared out, a process alone included.

    All ranks call the methods alike, with the same asks, and get the same answers, by which all trainings go on alike.
    """

    def __init__(self, rank_group: RankGroup, count: int, dtype: str):
        """dtype: of vectors and outputs."""
        self.group, self._dtype = rank_group, np.dtype(dtype)
        self._members: list[RankMember] = []
        self._said: list = []  # what each rank told last
        numbers, ranks = range(count), range(rank_group.size)
        shares = {rank: numbers[rank_group.share(count, rank)] for rank in ranks}
        self._owners = {number: rank for rank in ranks for number in shares[rank]}

    @property
    def size(self) -> int:
        """Return how many ranks there are."""
        return self.group.size

    @property
    def own(self) -> list[int]:
        """Return the numbers of the networks that this rank computes."""
        return self._of(self.group.rank)

    def _of(self, rank: int) -> list[int]:
        return [number for number, owner in self._owners.items() if owner == rank]

    def owned(self, asks: Mapping[int, Ask]) -> dict[int, Ask]:
        """Return those asks that this rank answers."""
        own = {*self.own}
        return {number: ask for number, ask in asks.items() if number in own}

    def engine_of(self, number: int, engine: Engine, own: Engine | None) -> Engine:
        """Return the engine of a network as all ranks see it; engine, own: see RankMember."""
        if self.size == 1:
            return own
        self._members.append(RankMember(engine, own, partial(self._from_owner, number)))
        return self._members[-1]

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Let all ranks get the networks' vectors from their owners in the block, which all of them enter. Elsewhere a
        rank that meets with an error, and brings its trainings to their ends, would wait for others."""
        for member in self._members:
            member.tells = True
        try:
            yield
        finally:
            for member in self._members:
                member.tells = False

    def _from_owner(self, number: int, array: np.ndarray | None) -> np.ndarray | None:
        """Return an array of the owner of a network, None where that has none; None: this rank is not the owner. Raises
        NnError."""
        owner, flat = self._owners[number], np.zeros(0, np.uint8)
        described = self.group.gather(None if array is None else [array.dtype.str, array.shape])[owner]
        if array is not None:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if described is None:
            return None
        return self._gathered(flat)[owner].view(described[0]).reshape(described[1])

    def _gathered(self, array: np.ndarray) -> list[np.ndarray]:
        try:
            return self.group.gather_arrays(array)
        except MemoryError:  # which a training outlives, but the others would wait for this rank
            raise NnError("out of memory for what ranks tell each other; use smaller layers") from None

    # ---- answers

    def tell(
        self, what: str, own: Mapping[int, Ask], found: Sequence | None, signum: int | None
    ) -> tuple[bool, int | None]:
        """Tell the others how far this rank is; return (whether all have answered their asks, the signal of one of
        them, None without).

        own: this rank's asks, all of one kind (Ask.what). found: the answers; None while they are computed. signum: of
        this rank's signal.
        """
        everyone = self.group.gather([None if found is None else said_of(what, own, found), signum])
        self._said = [said for said, _ in everyone]
        signals = (signum for _, signum in everyone if signum is not None)
        return all(said is not None for said in self._said), next(signals, None)

    def answers(self, what: str, asks: Mapping[int, Ask], found: Sequence) -> dict[int, object]:
        """Return the answers to all asks, which all ranks have told of; found: those to this rank's, in their order."""
        own = dict(zip(self.owned(asks), found or [None] * len(asks), strict=False))
        if self.size == 1:
            return own
        if what == "predict":
            return self._outputs(asks, own)
        said = [one for rank in self._said for one in rank]
        if what == "loss":
            return dict(said)
        for number, (row, step, loss) in said:
            progress = asks[number].job.progress
            progress.row, progress.step, progress.loss = row, step, loss
        return dict.fromkeys(asks)

    def _outputs(self, asks: Mapping[int, Ask], own: Mapping[int, np.ndarray]) -> dict[int, object]:
        """Return the outputs (rows, outputs) of each network."""
        flat = np.concatenate([np.zeros(0, self._dtype), *(out.ravel() for out in own.values())])
        found = {}
        for rank, values in enumerate(self._gathered(flat)):
            numbers = [number for number in self._of(rank) if number in asks]
            if numbers:
                ends = np.cumsum([len(asks[number].job.rows) for number in numbers])
                found |= dict(zip(numbers, np.split(values.reshape(ends[-1], -1), ends[:-1]), strict=True))
        return found


def said_of(what: str, own: Mapping[int, Ask], found: Sequence) -> list:
    """Return what a rank tells of its answers, for JSON: [number, loss], [number, where its epoch ended]; of outputs
    nothing, which follow as arrays."""
    if what == "predict":
        return []
    if what == "loss":
        return [[number, float(loss)] for number, loss in zip(own, found, strict=True)]
    ends = {number: ask.job.progress for number, ask in own.items()}
    return [[number, [int(end.row), int(end.step), float(end.loss)]] for number, end in ends.items()]
