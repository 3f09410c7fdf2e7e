"""PackRanks: the ranks that share out several networks. Each runs all trainings, and computes what its own ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ..backends.engine import Engine
from ..backends.member import MemberEngine, RankMember
from ..cluster import RankGroup
from ..utils import NnError
from .asks import Ask


class PackRanks:
    """The ranks among which `count` networks are shared out, a process alone included.

    All ranks call the methods alike, with the same asks, and get the same answers, by which all trainings go on alike.
    """

    def __init__(self, rank_group: RankGroup, count: int, dtype: str):
        """dtype: of vectors and outputs."""
        self.group, self._dtype, self._is_apart = rank_group, np.dtype(dtype), False
        numbers = range(count)
        self._owners = [rank for rank in range(rank_group.size) for _ in numbers[rank_group.share(count, rank)]]

    @property
    def size(self) -> int:
        """Return how many ranks there are."""
        return self.group.size

    @property
    def own(self) -> list[int]:
        """Return the numbers of the networks that this rank computes."""
        return self._of(self.group.rank)

    def _of(self, rank: int) -> list[int]:
        return [number for number, owner in enumerate(self._owners) if owner == rank]

    def owned(self, asks: Mapping[int, Ask]) -> dict[int, Ask]:
        """Return those asks that this rank answers."""
        own = {*self.own}
        return {number: ask for number, ask in asks.items() if number in own}

    def engine_of(self, number: int, engine: Engine, own: MemberEngine | None) -> Engine:
        """Return the engine of a network as all ranks see it; engine, own: see RankMember."""
        if self.size == 1:
            return own
        return RankMember(engine, own, partial(self._from_owner, number))

    def part(self) -> None:
        """Tell the others nothing from now on: this rank has met with an error that they may not meet with."""
        self._is_apart = True

    def _from_owner(self, number: int, array: np.ndarray | None) -> np.ndarray | None:
        """Return an array (values,) of the owner of a network; None where ranks have parted. Raises NnError."""
        if self._is_apart:
            return array
        return self._gathered(np.zeros(0, self._dtype) if array is None else array)[self._owners[number]]

    def _gathered(self, array: np.ndarray) -> list[np.ndarray]:
        try:
            return self.group.gather_arrays(array)
        except MemoryError:  # which a training outlives, but the others would wait for this rank
            raise NnError("out of memory for what ranks tell each other; use smaller layers") from None

    # ---- answers

    def states(self, is_done: bool, signum: int | None) -> tuple[bool, int | None]:
        """Return (whether all ranks have answered their asks, the signal that one of them had, None without)."""
        everyone = self.group.gather([is_done, signum])
        signals = (signum for _, signum in everyone if signum is not None)
        return all(done for done, _ in everyone), next(signals, None)

    def answers(self, what: str, asks: Mapping[int, Ask], found: Sequence) -> dict[int, object]:
        """Return the answers to asks, all of one kind (Ask.what); found: those to this rank's, in their order."""
        own = dict(zip(self.owned(asks), found or [None] * len(asks), strict=False))
        if self.size == 1:
            return own
        if what == "predict":
            return self._outputs(asks, own)
        return self._progress(asks) if what == "epoch" else self._losses(own)

    def _losses(self, own: Mapping[int, float]) -> dict[int, object]:
        everyone = self.group.gather([[number, float(loss)] for number, loss in own.items()])
        return {number: loss for pairs in everyone for number, loss in pairs}

    def _progress(self, asks: Mapping[int, Ask]) -> dict[int, object]:
        """Bring each training's progress to where its owner has it."""
        own = [
            [number, int(p.row), int(p.step), float(p.loss)]
            for number, ask in self.owned(asks).items()
            for p in [ask.job.progress]
        ]
        for number, row, step, loss in (place for places in self.group.gather(own) for place in places):
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
