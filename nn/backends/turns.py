"""Turns: the pack of an engine that gains nothing from several networks at once: the members take turns on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .engine import Engine, PackJob


class Turns:
    """Networks that take turns on one engine; the interface is Pack in engine.py. Their vectors wait on the host."""

    def __init__(self, engine: Engine, count: int):
        self.count, self._engine = count, engine
        self._vectors: list[dict[str, np.ndarray]] = [{} for _ in range(count)]

    def describe(self) -> str:
        return f"{self.count} networks, which take turns"

    def bytes(self) -> int:
        waiting = sum(vector.nbytes for vectors in self._vectors for vector in vectors.values())
        return self._engine.bytes() + waiting

    def set(self, member: int, what: str, vector: np.ndarray) -> None:
        if vector.shape != (self._engine.size,) or vector.dtype != self._engine.dtype:
            expected = f"{self._engine.dtype} {(self._engine.size,)}"
            raise ValueError(f"expected {expected}, got {vector.dtype} {vector.shape}")
        self._vectors[member][what] = vector.copy()

    def get(self, member: int, what: str) -> np.ndarray:
        return self._vector(member, what).copy()

    def keep(self, member: int) -> None:
        self._vectors[member]["kept"] = self._vector(member, "parameters").copy()

    def _vector(self, member: int, what: str) -> np.ndarray:
        """Return a vector of a member, zeros where nobody has set it."""
        vectors = self._vectors[member]
        if what not in vectors:
            vectors[what] = np.zeros(self._engine.size, self._engine.dtype)
        return vectors[what]

    def epoch(self, jobs: Sequence[PackJob]) -> None:
        engine = self._engine
        for job in jobs:
            changed = ["parameters", *job.settings.moments]
            for what in changed:
                engine.set(what, self.get(job.member, what))
            engine.epoch(job.data, job.order(), job.settings, job.progress)
            for what in changed:
                self.set(job.member, what, engine.get(what))

    def predict(self, jobs: Sequence[PackJob]) -> list[np.ndarray]:
        return [self._with(job).predict(job.data, job.rows) for job in jobs]

    def loss(self, jobs: Sequence[PackJob]) -> list[float]:
        return [self._with(job).loss(job.data, job.rows) for job in jobs]

    def _with(self, job: PackJob) -> Engine:
        """Return the engine with the member's parameters."""
        self._engine.set("parameters", self._vector(job.member, "parameters"))
        return self._engine
