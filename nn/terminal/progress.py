"""The progress of a training, and of --effort over all candidates, on stderr: a bar on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
import time

from ..utils import say
from ..watch.callbacks import Callback
from .console import on_terminal, say_encoding, say_run

REDRAW_SECONDS = 0.1
LONG_SECONDS = 5.0  # that are left: worth telling
MOST_LINES = 6  # of epochs or candidates in a pipe, and the last one, unless --verbose has them all


def make_progress(about: tuple[str, str], quiet: bool = False, verbose: bool = False):
    """Return the callback of `train` for a person: a bar on a terminal, lines in a pipe, None if quiet.

    about: the data in one line, and a remark for the first line.
    """
    if quiet:
        return None
    return (Bar if on_terminal(sys.stderr) else Lines)(*about, verbose)


def make_candidates_progress(about: str, quiet: bool = False, verbose: bool = False) -> Callback:
    """Return what tells a person of --effort; as make_progress."""
    if quiet:
        return Callback()
    return (CandidatesBar if on_terminal(sys.stderr) else CandidateLines)(about, "", verbose)


def _bar_of(*texts: str):
    """Return a bar of rich behind the first of these texts, the others and the time left behind it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    first, *others = map(TextColumn, texts)
    left = TimeRemainingColumn(elapsed_when_finished=True)
    console = Console(file=sys.stderr, highlight=False)
    # without a second thread beside the training
    return Progress(first, BarColumn(), *others, left, console=console, auto_refresh=False)


def is_told(number: int, count: int, most: int = MOST_LINES) -> bool:
    """Return whether this epoch or candidate (from 1) is among the `most` that get a line, or the last one."""
    return number == count or (number - 1) % -(-count // most) == 0


class Lines(Callback):
    """The first lines of a run and some epochs, a plain line each; if `verbose` all, and the route of each layer."""

    def __init__(self, about: str, remark: str = "", verbose: bool = False):
        self._about, self._remark, self._verbose, self._most = about, remark, verbose, MOST_LINES

    def start(self, info: dict) -> None:
        self.say_beginning(info)
        self.say_training(info)

    def say_beginning(self, info: dict) -> None:
        say_run(self._about, info["backend"], info["threads"], info["dtype"], info["seed"], self._remark)
        if info["encoding"] is not None:
            say_encoding(info["encoding"])

    def say_training(self, info: dict) -> None:
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
        if not (self._verbose or is_told(epoch, epochs, self._most)):
            return
        word = "validation" if self._chosen_by else "held-out"
        held_out = "" if val_loss is None else f"  {word} {val_loss:<11.6g}"
        say(
            f"epoch {epoch:{len(str(epochs))}}/{epochs}  loss {loss:<11.6g}{held_out}{self._judged}"
            f"  {seconds:.3g} s  {us_per_batch:.1f} us a batch"
        )

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        own = "" if metric == "loss" else f"  {metric} {value:<9.6g}"
        self._judged = own + ("  best" if is_best else "      ")

    def refit(self, epochs: int, rows: int) -> None:
        self._judged, self._most = "", 1
        say(f"refit: training once more on {rows} rows, validation rows too, for {epochs} epochs")


class Bar(Lines):
    """A bar over all epochs with loss, speed and time left; if `verbose` the lines of the epochs above it too."""

    def start(self, info):
        super().start(info)
        self._rows, self._epochs = info["rows"], info["epochs"]
        texts = "epoch {task.fields[epoch]}/{task.fields[epochs]}", "{task.fields[loss]}", "{task.fields[speed]}"
        self._bar = _bar_of(*texts)
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


# ---------------------------------------------------------------- --effort


class CandidateLines(Lines):
    """The first lines of a run, and one for some candidates when they have ended; if `verbose` for all, and their
    epochs."""

    def __init__(self, about: str, remark: str = "", verbose: bool = False):
        super().__init__(about, remark, verbose)
        self._tells_all = verbose

    def begin(self, shares):
        self._shares, self._number, self._began = shares, 0, time.monotonic()

    def start(self, info):
        if self._number == 0:
            self.say_beginning(info)
        if self._verbose:
            self.say_training(info)

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        if self._verbose:
            super().epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)

    def refit(self, epochs, rows):
        """See Callback.refit; its candidate's line is enough."""

    def ended(self, layers, loss):
        self._number += 1
        if not (self._tells_all or is_told(self._number, len(self._shares))):
            return
        passed = time.monotonic() - self._began
        done = sum(self._shares[: self._number])
        left = passed * (1 - done) / done
        remark = f", at most {left:.0f} s left" if left > LONG_SECONDS else ""
        say(f"candidate {self._number} of {len(self._shares)}: {layers}: {loss}; {passed:.1f} s{remark}")


class CandidatesBar(CandidateLines):
    """A bar over the operations of all candidates, with the time left; above it the line of each."""

    def __init__(self, about, remark="", verbose=False):
        super().__init__(about, remark, verbose)
        self._tells_all = True

    def begin(self, shares):
        super().begin(shares)
        self._drawn = 0.0
        self._bar = _bar_of("candidate {task.fields[number]}/{task.fields[count]}", "{task.fields[loss]}")
        self._task = self._bar.add_task("", total=1.0, number=1, count=len(shares), loss="")

    def start(self, info):
        super().start(info)
        self._bar.start()

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        super().epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)
        now = time.monotonic()
        if now - self._drawn >= REDRAW_SECONDS:
            self._drawn = now
            self._advance(min(1.0, epoch / epochs), f"epoch {epoch}, loss {loss:.6g}")

    def ended(self, layers, loss):
        super().ended(layers, loss)
        self._advance(0.0, loss)

    def end(self):
        if self._number == len(self._shares):
            self._advance(0.0, "")
        self._bar.stop()

    def _advance(self, share: float, loss: str) -> None:
        """Draw the bar. share: of the candidate at hand that is done."""
        number, count = self._number, len(self._shares)
        done = sum(self._shares[:number]) + (share * self._shares[number] if number < count else 0.0)
        self._bar.update(self._task, completed=done, number=min(number + 1, count), loss=loss, refresh=True)
