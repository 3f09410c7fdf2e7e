"""Callback: the events of a training; several callbacks as one; the losses as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable
from functools import partial

from ..nn_aux import SCHEDULES
from ..utils import AppendedFile, OutputError, log


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


class CsvHistory(Callback):
    """A line for each epoch in a CSV file, which can be read when the epoch is over; a
    device or a pipe will do.

    An older file stays until the first epoch is over; a line that there is no room for
    is not there in part.

    Columns: epoch (from 1), loss, val_loss (empty without hold-out), learning_rate at
    the epoch's beginning, seconds, us_per_batch; with validation rows val_metric, empty
    where it is undefined; of --effort the number of the candidate. The epochs of a
    refit are not written. Raises OutputError.
    """

    COLUMNS = ("epoch", "loss", "val_loss", "learning_rate", "seconds", "us_per_batch")

    def __init__(self, path: str):
        self._file = AppendedFile(path)
        self._has_header = False
        self._candidate: list[int] = []  # its number, from 1, where there are several
        # lines that wait for the first epoch's end
        self._pending = io.StringIO(newline="")
        self._csv = csv.writer(self._pending, lineterminator="\n")

    def begin(self, shares: list[float]) -> None:
        self._candidate = [1]

    def start(self, info: dict) -> None:
        self._info = info
        self._metric = []
        self._is_refit = False
        if not self._has_header:
            self._has_header = True
            header = list(self.COLUMNS)
            if info["monitor"]:
                header.append("val_metric")
            if self._candidate:
                header.append("candidate")
            self._csv.writerow(header)
        done = []
        if info["resumed"]:
            done = info["resumed"]["done"]
        # what a checkpoint knows of earlier runs
        for epoch, (loss, val_loss, seconds) in enumerate(done, 1):
            if info["monitor"]:
                self.judged(
                    epoch, info["monitor"], info["resumed"]["metrics"][epoch - 1], False
                )
            self._add(
                epoch,
                info["epochs"],
                loss,
                val_loss,
                seconds,
                1e6 * seconds / info["batches"],
            )
        if done:
            self._write()

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        if not self._is_refit:
            self._add(epoch, epochs, loss, val_loss, seconds, us_per_batch)
            self._write()

    def _add(self, epoch, epochs, loss, val_loss, seconds, us_per_batch) -> None:
        rate = learning_rate(self._info, epoch, epochs)
        times = [f"{seconds:.6g}", f"{us_per_batch:.6g}"]
        metric = [*self._metric, *self._candidate]
        self._csv.writerow(
            [epoch, loss, "" if val_loss is None else val_loss, rate, *times, *metric]
        )

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        self._metric = ["" if math.isnan(value) else value]

    def refit(self, epochs: int, rows: int) -> None:
        self._is_refit = True

    def ended(self, layers: str, loss: str) -> None:
        self._candidate[0] += 1

    def close(self) -> None:
        if not self._candidate:
            self._file.close()

    def end(self) -> None:
        self._file.close()

    def _write(self) -> None:
        self._file.add(self._pending.getvalue().encode())
        self._pending.seek(0)
        self._pending.truncate()


def learning_rate(info: dict, epoch: int, epochs: int) -> float:
    """Return the learning rate at the beginning of an epoch (from 1). info: see
    Callback.start."""
    return info["learning_rate"] * SCHEDULES[info["schedule"]]((epoch - 1) / epochs)
