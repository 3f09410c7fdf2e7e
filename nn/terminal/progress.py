"""A training's progress on stderr: a bar on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
import time

from ..utils import say
from ..watch.callbacks import Callback
from .console import on_terminal, say_encoding, say_run

REDRAW_SECONDS = 0.1
MOST_LINES = 6  # of epochs or candidates in a pipe, and the last one, unless --verbose has them all


def make_progress(about: str, quiet: bool = False, verbose: bool = False):
    """Return the callback of `train` for a person: a bar on a terminal, lines in a pipe, None if quiet.

    about: the data in one line.
    """
    if quiet:
        return None
    return (Bar if on_terminal(sys.stderr) else Lines)(about, verbose)


def is_told(number: int, count: int, most: int = MOST_LINES) -> bool:
    """Return whether this epoch or candidate (from 1) is among the `most` that get a line, or the last one."""
    return number == count or (number - 1) % -(-count // most) == 0


class Lines(Callback):
    """The first lines of a run and some epochs, a plain line each; if `verbose` all, and the route of each layer."""

    def __init__(self, about: str, verbose: bool = False):
        self._about, self._verbose, self._most = about, verbose, MOST_LINES

    def start(self, info: dict) -> None:
        """See Callback.start."""
        say_run(self._about, info["backend"], info["threads"], info["dtype"], info["seed"])
        if info["encoding"] is not None:
            say_encoding(info["encoding"])
        self.training(info)

    def training(self, info: dict) -> None:
        """Print the network and how it is trained."""
        say("{layers}: {parameters} parameters, loss {loss}, scaling {scaling}".format(**info))
        self._judged, self._chosen_by = "", info["monitor"]
        held_out = ", {validation} validating by {monitor}".format(**info) if info["monitor"] else ""
        held_out += ", {holdout} held out".format(**info) if info["holdout"] else ""
        batches = "{epochs} epochs of {batches} batches of {batch_number}".format(**info)
        steps = "{optimizer}, learning rate {learning_rate:g}, {schedule}".format(**info)
        say(f"training on {info['rows']} rows{held_out}: {batches}, {steps}")
        if info["resumed"]:
            say("resuming from {file}: {epoch} epochs and {row} rows are done".format(**info["resumed"]))
        if self._verbose:
            for line in info["routes"]():
                say(line)

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        """See Callback.epoch."""
        if not (self._verbose or is_told(epoch, epochs, self._most)):
            return
        word = "validation" if self._chosen_by else "held-out"
        held_out = "" if val_loss is None else f"  {word} {val_loss:<11.6g}"
        say(
            f"epoch {epoch:{len(str(epochs))}}/{epochs}  loss {loss:<11.6g}{held_out}{self._judged}"
            f"  {seconds:.3g} s  {us_per_batch:.1f} us a batch"
        )

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        """See Callback.judged."""
        own = "" if metric == "loss" else f"  {metric} {value:<9.6g}"
        self._judged = own + ("  best" if is_best else "      ")

    def refit(self, epochs: int, rows: int) -> None:
        """See Callback.refit."""
        self._judged, self._most = "", 1
        say(f"refit: training once more on {rows} rows, validation rows too, for {epochs} epochs")


class Bar(Lines):
    """A bar over all epochs with loss, speed and time left; if `verbose` the lines of the epochs above it too."""

    def start(self, info):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().start(info)
        self._rows, self._epochs = info["rows"], info["epochs"]
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("{task.fields[loss]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=sys.stderr, highlight=False),
            auto_refresh=False,  # no second thread beside the training
        )
        self._began, self._drawn = time.monotonic(), 0.0
        resumed = info["resumed"]
        self._before = resumed["epoch"] * self._rows + resumed["row"] if resumed else 0
        total = self._epochs * self._rows
        self._task = self._bar.add_task(
            "", total=total, completed=self._before, epoch=1, epochs=self._epochs, loss="", speed=""
        )
        self._bar.start()

    def update(self, epoch, rows_done, rows, loss):
        self._advance(epoch, rows_done / rows, f"loss {loss:.6g}")

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        if self._verbose:
            super().epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)
        word = "validation" if self._chosen_by else "held-out"
        held_out = "" if val_loss is None else f", {word} {val_loss:.6g}{self._judged.rstrip()}"
        self._advance(epoch, 1.0, f"loss {loss:.6g}{held_out}")

    def _advance(self, epoch: int, share: float, loss: str) -> None:
        now = time.monotonic()
        if now - self._drawn < REDRAW_SECONDS and share * epoch < self._epochs:  # epochs can be very short
            return
        self._drawn = now
        done = (epoch - 1 + share) * self._rows
        self._bar.update(
            self._task,
            completed=done,
            epoch=epoch,
            loss=loss,
            speed=f"{(done - self._before) / (now - self._began):,.0f} rows/s",
            refresh=True,
        )

    def refit(self, epochs, rows):
        super().refit(epochs, rows)
        self._rows, self._epochs, self._before = rows, epochs, 0
        self._began, self._drawn = time.monotonic(), 0.0
        self._bar.update(self._task, total=epochs * rows, completed=0, epochs=epochs)

    def close(self):
        self._bar.stop()
