"""Callback: what a training tells while it runs; several as one; the losses as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable

from ..nn_aux import SCHEDULES
from ..utils import OutputError, os_reason


class Callback:
    """What `train` tells of a training. Every method may be left out: these do nothing."""

    def start(self, info: dict) -> None:
        """Called before the first epoch. info: the settings of the run, as train.Training.info lists them."""

    def update(self, epoch: int, rows_done: int, rows: int, loss: float) -> None:
        """Called some ten times a second. loss: the mean over the rows_done of `rows` rows of this epoch (from 1)."""

    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss: float | None, seconds: float, us_per_batch: float
    ) -> None:
        """Called after each epoch (from 1). val_loss: None without held-out rows."""

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        """Called before `epoch`, where --validation judges it. value: of the metric, nan where it is undefined."""

    def refit(self, epochs: int, rows: int) -> None:
        """Called before training begins once more, on validation rows too: epochs are of that run from now on."""

    def close(self) -> None:
        """Called once at the end, also after an error or a signal."""


class Callbacks(Callback):
    """Several callbacks as one, called in their order."""

    def __init__(self, callbacks: Iterable[Callback]):
        self._callbacks = list(callbacks)

    def start(self, info: dict) -> None:
        for callback in self._callbacks:
            callback.start(info)

    def update(self, epoch: int, rows_done: int, rows: int, loss: float) -> None:
        for callback in self._callbacks:
            callback.update(epoch, rows_done, rows, loss)

    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss: float | None, seconds: float, us_per_batch: float
    ) -> None:
        for callback in self._callbacks:
            callback.epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        for callback in self._callbacks:
            callback.judged(epoch, metric, value, is_best)

    def refit(self, epochs: int, rows: int) -> None:
        for callback in self._callbacks:
            callback.refit(epochs, rows)

    def close(self) -> None:
        for callback in self._callbacks:
            callback.close()


class CsvHistory(Callback):
    """A line for each epoch in a CSV file, flushed when the epoch is over.

    Columns: epoch (from 1), loss, val_loss (empty without hold-out), learning_rate at the epoch's beginning,
    seconds, us_per_batch; with validation rows val_metric, empty where it is undefined. The epochs of a refit are not
    written. Raises OutputError.
    """

    COLUMNS = ("epoch", "loss", "val_loss", "learning_rate", "seconds", "us_per_batch")

    def __init__(self, path: str):
        self._path = path
        try:
            self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error
        self._csv = csv.writer(self._file, lineterminator="\n")

    def start(self, info: dict) -> None:
        self._info, self._metric, self._is_refit = info, [], False
        self._write([*self.COLUMNS, *(["val_metric"] if info["monitor"] else [])])
        done = info["resumed"]["done"] if info["resumed"] else []
        for epoch, (loss, val_loss, seconds) in enumerate(done, 1):  # what a checkpoint knows of earlier runs
            if info["monitor"]:
                self.judged(epoch, info["monitor"], info["resumed"]["metrics"][epoch - 1], False)
            self.epoch(epoch, info["epochs"], loss, val_loss, seconds, 1e6 * seconds / info["batches"])

    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss: float | None, seconds: float, us_per_batch: float
    ) -> None:
        if self._is_refit:
            return
        rate, times = learning_rate(self._info, epoch, epochs), [f"{seconds:.6g}", f"{us_per_batch:.6g}"]
        self._write([epoch, loss, "" if val_loss is None else val_loss, rate, *times, *self._metric])

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        self._metric = ["" if math.isnan(value) else value]

    def refit(self, epochs: int, rows: int) -> None:
        self._is_refit = True

    def close(self) -> None:
        self._file.close()

    def _write(self, fields) -> None:
        try:
            self._csv.writerow(fields)
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self._path}: cannot write: {os_reason(error)}") from error


def learning_rate(info: dict, epoch: int, epochs: int) -> float:
    """Return the learning rate at the beginning of an epoch (from 1). info: see Callback.start."""
    return info["learning_rate"] * SCHEDULES[info["schedule"]]((epoch - 1) / epochs)
