"""MemberEngine: one network of a pack, as what reads and sets the vectors of a network sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .engine import Engine, Pack, PackJob


class MemberEngine:
    """An Engine for one member of a pack; what it does not compute itself is that of the pack's engine."""

    def __init__(self, engine: Engine, pack: Pack, member: int):
        self._engine, self._pack, self._member = engine, pack, member

    @property
    def pack_of_member(self) -> Pack:
        """Return the pack that the member is of."""
        return self._pack

    def job(self, job: PackJob) -> PackJob:
        """Return a job as one of this member."""
        return replace(job, member=self._member)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def set(self, what: str, vector: np.ndarray) -> None:
        """Copy a vector of the member in."""
        self._pack.set(self._member, what, vector)

    def get(self, what: str) -> np.ndarray:
        """Return a copy of the member's vector."""
        return self._pack.get(self._member, what)

    def keep(self) -> None:
        """Keep a copy of the member's parameters."""
        self._pack.keep(self._member)

    def predict(self, data: Any, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the member's outputs (rows, outputs)."""
        rows = np.arange(data.rows) if rows is None else rows
        return self._pack.predict([PackJob(self._member, data, rows)])[0]
