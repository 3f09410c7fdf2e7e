"""Callback: the events of a training; several callbacks as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ..nn_aux import SCHEDULES
from ..utils import OutputError, log


class Callback:
    """The events of a training, as `train` reports them. Every method may be left out:
    these do nothing."""

    def start(self, info: dict) -> None:
        """Called before the first epoch. info: the settings of the run, as
        train.run.Run.info lists them."""

    def update(self, epoch: int, rows_done: int, rows: int, loss: float) -> None:
        """Called some ten times a second. loss: the mean over the rows_done of `rows`
        rows of this epoch (from 1)."""

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        """Called after each epoch (from 1). val_loss: None without held-out rows."""

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        """Called before `epoch`, where --validation judges it. value: of the metric,
        nan where it is undefined."""

    def refit(self, epochs: int, rows: int) -> None:
        """Called before training begins once more, on validation rows too: epochs are
        of that run from now on."""

    def close(self) -> None:
        """Called once at the end, also after an error or a signal."""

    # ---- around the training of each candidate of `train.effort.Effort`

    def begin(self, shares: list[float]) -> None:
        """Called before the first candidate. shares: of the operations that all usually
        take, for each."""

    def expect(self, seconds: Callable[[int], tuple[float, float]]) -> None:
        """Called before the first candidate, where that is known. seconds: returns how
        many all will take with a number of threads, at least and at most."""

    def ended(self, layers: str, loss: str) -> None:
        """Called when a candidate's training has ended. loss: out of fold, with its
        name."""

    def end(self) -> None:
        """Called after the last candidate, also after an error or a signal."""


class Callbacks(Callback):
    """Several callbacks as one, called in their order.

    A callback that cannot write its file is reported, and called no more: no training
    is lost to it. failures: the reasons why files could not be written.
    """

    def __init__(self, callbacks: Iterable[Callback]):
        self._callbacks = list(callbacks)
        self.failures: list[OutputError] = []

    def __getattribute__(self, name: str):
        """Return for an event the function that passes it to all callbacks."""
        if name in vars(Callback) and name[0] != "_":
            return partial(self._notify, name)
        return super().__getattribute__(name)

    def _notify(self, event: str, *arguments) -> None:
        for callback in list(self._callbacks):
            try:
                getattr(callback, event)(*arguments)
            except OutputError as error:
                self._callbacks.remove(callback)
                self.failures.append(error)
                log.warning("%s; the training goes on without it", error)


def learning_rate(info: dict, epoch: int, epochs: int) -> float:
    """Return the learning rate at the beginning of an epoch (from 1). info: see
    Callback.start."""
    return info["learning_rate"] * SCHEDULES[info["schedule"]]((epoch - 1) / epochs)
