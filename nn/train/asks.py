"""Asks: the next computation that a training wants of its engine; several trainings' asks may be answered together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from ..backends.engine import Engine, PackJob


@dataclass
class Ask:
    """A computation that a training asks for: an epoch, or the loss or outputs of some rows."""

    what: str  # epoch, loss, predict
    job: PackJob

    def of(self, engine: Engine):
        """Return what the engine computes."""
        job = self.job
        if self.what == "epoch":
            return engine.epoch(job.data, job.order(), job.settings, job.progress)
        return {"loss": engine.loss, "predict": engine.predict}[self.what](job.data, job.rows)

    def stop(self) -> None:
        """End an epoch after the batch at hand."""
        if self.job.progress is not None:
            self.job.progress.stop = 1


def stop_all(asks: Mapping[int, Ask]) -> None:
    """End all epochs among the asks after the batch at hand."""
    for ask in asks.values():
        ask.stop()


def answer_all(steps: Generator[Ask], answer: Callable[[Ask], object]) -> None:
    """Answer what `steps` asks for until it asks no more. What `answer` raises is raised there first, to end it."""
    try:
        ask = next(steps)
        while True:
            try:
                answered = answer(ask)
            except BaseException as error:
                steps.throw(error)
                raise
            ask = steps.send(answered)
    except StopIteration:
        return
