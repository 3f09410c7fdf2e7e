"""Members of a pack beside the same networks alone, epoch after epoch: the same
bits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from nn.backends.engine import EpochSettings, PackJob
from nn.core.random import PhiloxOrder

VECTORS = ("parameters", "moment1", "moment2", "scales")


@dataclass
class Members:
    """An engine, and for each member its data set, how it trains, and its rows."""

    engine: object
    data: list
    how: list[EpochSettings]
    rows: list[np.ndarray]

    def start(self, member: int) -> np.ndarray:
        """Return the parameters that a member begins with."""
        rng = np.random.default_rng(member)
        draws = rng.normal(size=self.engine.size)
        return (draws / 4).astype(self.engine.dtype)

    def pack(self, make=None):
        """Return a pack, of the engine's choice or made by `make`, whose members have
        these parameters."""
        count = len(self.how)
        if make:
            pack = make(self.engine, count)
        else:
            pack = self.engine.pack(count, self.how[0].batch)
        for member in range(count):
            pack.set(member, "parameters", self.start(member))
        return pack

    def jobs(
        self, number: int | None = 0, steps: list[int] | None = None
    ) -> list[PackJob]:
        """Return the jobs of an epoch."""
        each = enumerate(
            zip(
                self.data,
                self.rows,
                self.how,
                steps or [0] * len(self.how),
                strict=True,
            )
        )
        return [
            PackJob(m, data, rows, how, self.engine.progress(step=at), number)
            for m, (data, rows, how, at) in each
        ]

    def alone(self, member: int, epochs: int) -> tuple[list[np.ndarray], float, int]:
        """Return (vectors, sum of the last losses, step) of a member that is trained
        alone."""
        engine = self.engine
        how = self.how[member]
        rows = self.rows[member]
        step = 0
        for what in VECTORS:
            engine.set(what, np.zeros(engine.length(what), engine.dtype))
        engine.set("parameters", self.start(member))
        for number in range(epochs):
            progress = engine.progress(step=step)
            epoch = PhiloxOrder(len(rows), how.seed).epoch(number)
            engine.epoch(
                self.data[member],
                rows[epoch],
                how,
                progress,
            )
            step = progress.step
        return [engine.get(what) for what in VECTORS], progress.loss, step

    def expected(self, epochs: int, members=None) -> dict:
        """Return what `alone` does, of all members or some."""
        return {m: self.alone(m, epochs) for m in members or range(len(self.how))}

    def check(self, pack, epochs: int, expected: dict | None = None) -> list[PackJob]:
        """Train the pack, and compare its members with the networks alone; return the
        last jobs."""
        expected = expected or self.expected(epochs)
        jobs = self.jobs()
        for number in range(epochs):
            steps = [job.progress.step for job in jobs]
            jobs = self.jobs(number, steps)
            pack.epoch(jobs[::-1])
        self.check_ends(pack, jobs, expected)
        return jobs

    def check_ends(self, pack, jobs: list[PackJob], expected: dict) -> None:
        """Compare what members of a trained pack hold with the networks alone."""
        for m, (vectors, loss, step) in expected.items():
            for what, vector in zip(VECTORS, vectors, strict=True):
                assert np.isfinite(vector).all()
                np.testing.assert_array_equal(
                    pack.get(m, what), vector, f"member {m}, {what}"
                )
            assert jobs[m].progress.loss == loss
            assert jobs[m].progress.step == step
        bits = {pack.get(m, "parameters").tobytes() for m in range(len(jobs))}
        assert len(bits) == len(jobs)

    def check_forward(self, pack, jobs: list[PackJob]) -> None:
        """Compare outputs and losses of the members with those of the network alone."""
        for job, outputs, loss in zip(
            jobs, pack.predict(jobs), pack.loss(jobs), strict=True
        ):
            self.engine.set("parameters", pack.get(job.member, "parameters"))
            expected = self.engine.predict(job.data, job.rows)
            assert np.array_equal(outputs, expected)
            assert outputs.any()
            assert loss == self.engine.loss(job.data, job.rows)

    def check_vectors(self, pack) -> None:
        """Check that the vectors of three members begin with zeros, and are each one's
        own."""
        before = self.engine.get("parameters")
        for what in VECTORS:
            assert not pack.get(2, what).any()
        pack.set(1, "parameters", self.start(1))
        pack.keep(1)
        pack.set(1, "parameters", self.start(2))
        assert np.array_equal(pack.get(1, "kept"), self.start(1))
        assert np.array_equal(pack.get(1, "parameters"), self.start(2))
        assert not pack.get(0, "kept").any()
        assert np.array_equal(self.engine.get("parameters"), before)

    def check_refusals(self, pack, rows: int) -> None:
        """Check that jobs of members that a pack of three has not, or of one twice, or
        of row `rows`, are refused."""
        job = self.jobs()[0]
        for call in (pack.epoch, pack.predict):
            for members in ([0, 0], [-1], [3]):
                with pytest.raises(ValueError, match="jobs of members"):
                    call([replace(job, member=member) for member in members])
            with pytest.raises(ValueError, match="out of range"):
                call([replace(job, rows=np.array([rows]))])
