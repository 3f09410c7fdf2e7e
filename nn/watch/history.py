"""The losses of a training as CSV."""

from __future__ import annotations

import csv
import io
import math

from ..utils import AppendedFile
from .callbacks import Callback, learning_rate


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
