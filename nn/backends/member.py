"""Networks that are computed together: the pack whose members take turns on one engine,
the engine of one member of a pack, here or on another rank, and what the engines of
several devices share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .engine import Engine, Pack, PackJob


def check_vector(engine: Engine, what: str, vector: np.ndarray) -> None:
    """Raise ValueError for another shape or type than that of the engine's vectors of
    this name."""
    shape = (engine.length(what),)
    if vector.shape != shape or vector.dtype != engine.dtype:
        raise ValueError(
            f"expected {engine.dtype} {shape}, got {vector.dtype} {vector.shape}"
        )


def check_members(members: Sequence[int], count: int) -> None:
    """Raise ValueError for jobs of members that a pack of `count` has not, or of one
    member twice."""
    if len(set(members)) < len(members) or not all(
        0 <= member < count for member in members
    ):
        raise ValueError(
            f"jobs of members {members}: expected each of {count} at most once"
        )


def describe_turns(count: int) -> str:
    return f"{count} networks, which take turns"


def train_in_turns(engine: Engine, pack: Pack, jobs: Sequence[PackJob]) -> None:
    """Train the members of a pack on an engine, one after the other: Pack.epoch."""
    for job in jobs:
        vectors = ["parameters", *job.settings.vectors]
        for what in vectors:
            engine.set(what, pack.get(job.member, what))
        engine.epoch(job.data, job.order(), job.settings, job.progress)
        for what in vectors:
            pack.set(job.member, what, engine.get(what))


class Turns:
    """Networks that take turns on one engine; the interface is Pack in engine.py. Their
    vectors wait on the host."""

    def __init__(self, engine: Engine, count: int):
        self.count = count
        self._engine = engine
        self._vectors: list[dict[str, np.ndarray]] = [{} for _ in range(count)]

    def describe(self) -> str:
        return describe_turns(self.count)

    def bytes(self) -> int:
        waiting = sum(
            vector.nbytes for vectors in self._vectors for vector in vectors.values()
        )
        return self._engine.bytes() + waiting

    def set(self, member: int, what: str, vector: np.ndarray) -> None:
        check_vector(self._engine, what, vector)
        self._vectors[member][what] = vector.copy()

    def get(self, member: int, what: str) -> np.ndarray:
        return self._vector(member, what).copy()

    def keep(self, member: int) -> None:
        self._vectors[member]["kept"] = self._vector(member, "parameters").copy()

    def _vector(self, member: int, what: str) -> np.ndarray:
        """Return a vector of a member, zeros where nobody has set it."""
        vectors = self._vectors[member]
        if what not in vectors:
            length = self._engine.length(what)
            vectors[what] = np.zeros(length, self._engine.dtype)
        return vectors[what]

    def epoch(self, jobs: Sequence[PackJob]) -> None:
        train_in_turns(self._engine, self, jobs)

    def predict(self, jobs: Sequence[PackJob]) -> list[np.ndarray]:
        return [self._with(job).predict(job.data, job.rows) for job in jobs]

    def loss(self, jobs: Sequence[PackJob]) -> list[float]:
        return [self._with(job).loss(job.data, job.rows) for job in jobs]

    def _with(self, job: PackJob) -> Engine:
        """Return the engine with the member's parameters."""
        self._engine.set("parameters", self._vector(job.member, "parameters"))
        return self._engine


class DataOfDevices:
    """A data set in the computer's memory, which goes to a device when one of its
    engines first computes with it."""

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ):
        """x, y, weights: as Engine.load takes them."""
        self._arrays = (x, y, weights)
        self.weights = weights
        self.rows = len(x)
        self._loaded: dict[tuple[int, tuple[int, ...]], Any] = {}

    def is_at(self, device: int) -> bool:
        """Return whether all of it has gone to a device."""
        return (device, ()) in self._loaded

    def at(self, device: int, engine: Engine, part: slice | None = None) -> Any:
        """Return it, or a part of its rows, as the engines of a device take it; engine:
        one of them."""
        key = (device, ())
        arrays = self._arrays
        if part is not None:
            key = (device, (part.start, part.stop))
            arrays = [a if a is None else a[part] for a in arrays]
        if key not in self._loaded:
            self._loaded[key] = engine.load(*arrays)
        return self._loaded[key]


class EngineOfDevices:
    """The first device's engine, but that what it loads is for the engines of all
    devices."""

    load = DataOfDevices  # which is not yet on a device

    def __init__(self, engine: Engine):
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class MemberEngine:
    """An Engine for one member of a pack; what it does not compute itself is that of
    the pack's engine."""

    def __init__(self, engine: Engine, pack: Pack, member: int, device: int = 0):
        """device: the number of the pack's device, where there are several."""
        self._engine = engine
        self.pack_of_member = pack
        self._member = member
        self.on_device = device

    def job(self, job: PackJob) -> PackJob:
        """Return a job as one of this member, with the data where it is computed."""
        data = job.data
        if isinstance(data, DataOfDevices):
            data = data.at(self.on_device, self._engine)
        return replace(job, member=self._member, data=data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def set(self, what: str, vector: np.ndarray) -> None:
        self.pack_of_member.set(self._member, what, vector)

    def get(self, what: str) -> np.ndarray:
        return self.pack_of_member.get(self._member, what)

    def keep(self) -> None:
        self.pack_of_member.keep(self._member)

    def predict(self, data: Any, rows: np.ndarray | None = None) -> np.ndarray:
        if rows is None:
            rows = np.arange(data.rows)
        return self.pack_of_member.predict([PackJob(self._member, data, rows)])[0]


class RankMember:
    """The engine of a network that one of several ranks computes, its owner, as all of
    them see it.

    What is set or kept is so on the owner alone. All ranks call predict alike, and get
    where `shares_vectors` is set.
    """

    def __init__(
        self,
        engine: Engine,
        owned: Engine | None,
        from_owner: Callable[[np.ndarray | None], np.ndarray],
    ):
        """engine: any of this rank, for what is not of the network alone. owned: the
        network's, on its owner. from_owner: takes the owner's array, of other ranks
        None, and returns it on all of them."""
        self._engine = engine
        self._owned = owned
        self._from_owner = from_owner
        self._last_parameters = np.zeros(0, engine.dtype)  # that were set
        self.shares_vectors = False  # with all ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owned or self._engine, name)

    def set(self, what: str, vector: np.ndarray) -> None:
        if self._owned is not None:
            self._owned.set(what, vector)
        elif what == "parameters":
            self._last_parameters = vector

    def get(self, what: str) -> np.ndarray:
        """Return a copy of the network's vector; on other ranks than the owner's,
        unless vectors are shared, the parameters that were last set there."""
        vector = None
        if self._owned is not None:
            vector = self._owned.get(what)
        if self.shares_vectors:
            return self._from_owner(vector)
        if vector is None:
            return self._last_parameters.copy()
        return vector

    def keep(self) -> None:
        if self._owned is not None:
            self._owned.keep()

    def load(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Any:
        """Return the data set as the network's engine takes it; None where it is that
        of another rank."""
        if self._owned is None:
            return None
        return self._owned.load(x, y, weights)

    def predict(self, data: Any, rows: np.ndarray | None = None) -> np.ndarray:
        outputs = None
        if self._owned is not None:
            outputs = self._owned.predict(data, rows)
        return self._from_owner(outputs)
