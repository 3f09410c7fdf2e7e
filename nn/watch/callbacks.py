"""Watchers of a training beside the console: several at once, and the history of its losses as CSV."""

from __future__ import annotations

import csv

from .nn_aux import SCHEDULES
from .utils import OutputError, os_reason


class Watchers:
    """Several watchers of `train` as one (train.Silent lists what they are told)."""

    def __init__(self, watchers):
        self._watchers = list(watchers)

    def start(self, info: dict) -> None:
        for watcher in self._watchers:
            watcher.start(info)

    def update(self, epoch: int, rows_done: int, rows: int, loss: float) -> None:
        for watcher in self._watchers:
            watcher.update(epoch, rows_done, rows, loss)

    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss, seconds: float, us_per_batch: float
    ) -> None:
        for watcher in self._watchers:
            watcher.epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)

    def close(self) -> None:
        for watcher in self._watchers:
            watcher.close()


class CsvHistory:
    """A line an epoch in a CSV file, on disk as soon as the epoch is over.

    Columns: epoch (from 1), loss, val_loss (empty without hold-out), learning_rate at the epoch's begin,
    seconds, us_per_batch. Raises OutputError.
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
        self._info = info
        self._write(self.COLUMNS)
        done = info["resumed"]["done"] if info["resumed"] else []
        for epoch, (loss, val_loss, seconds) in enumerate(done, 1):  # what a checkpoint knows of earlier runs
            self.epoch(epoch, info["epochs"], loss, val_loss, seconds, 1e6 * seconds / info["batches"])

    def update(self, *_) -> None:
        """Only whole epochs are history."""

    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss, seconds: float, us_per_batch: float
    ) -> None:
        rate = learning_rate(self._info, epoch, epochs)
        self._write(
            [epoch, loss, "" if val_loss is None else val_loss, rate, f"{seconds:.6g}", f"{us_per_batch:.6g}"]
        )

    def close(self) -> None:
        self._file.close()

    def _write(self, fields) -> None:
        try:
            self._csv.writerow(fields)
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self._path}: cannot write: {os_reason(error)}") from error


def learning_rate(info: dict, epoch: int, epochs: int) -> float:
    """The learning rate at the begin of an epoch (from 1); info: as training tells it."""
    return info["learning_rate"] * SCHEDULES[info["schedule"]]((epoch - 1) / epochs)
