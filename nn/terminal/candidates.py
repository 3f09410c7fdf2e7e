"""The progress of --effort on stderr: a bar over all candidates on a terminal, a line for each in a pipe."""

from __future__ import annotations

import sys
import time

from ..utils import say
from ..watch.callbacks import Callback
from .console import on_terminal, say_encoding, say_run
from .progress import REDRAW_SECONDS, Lines, is_told

LONG_SECONDS = 5.0  # that are left: worth telling


def make_candidates_progress(about: str, quiet: bool = False, verbose: bool = False) -> Callback:
    """Return what tells a person: a bar on a terminal, lines in a pipe, nothing if quiet. about: the data."""
    if quiet:
        return Callback()
    return (CandidatesBar if on_terminal(sys.stderr) else CandidateLines)(about, verbose)


class CandidateLines(Callback):
    """The first lines of a run, and one for some candidates when they have ended; if `verbose` for all, and their
    epochs."""

    def __init__(self, about: str, verbose: bool = False):
        self._about, self._lines = about, Lines(about, verbose)
        self._verbose = self._tells_all = verbose

    def begin(self, shares):
        self._shares, self._number, self._began = shares, 0, time.monotonic()

    def start(self, info):
        """See Callback.start."""
        if self._number == 0:
            say_run(self._about, info["backend"], info["threads"], info["dtype"], info["seed"])
            if info["encoding"] is not None:
                say_encoding(info["encoding"])
        if self._verbose:
            self._lines.training(info)

    def judged(self, epoch, metric, value, is_best):
        self._lines.judged(epoch, metric, value, is_best)

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        if self._verbose:
            self._lines.epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)

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

    def __init__(self, about, verbose=False):
        super().__init__(about, verbose)
        self._tells_all = True

    def begin(self, shares):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().begin(shares)
        self._drawn = 0.0
        self._bar = Progress(
            TextColumn("candidate {task.fields[number]}/{task.fields[count]}"),
            BarColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=sys.stderr, highlight=False),
            auto_refresh=False,  # no second thread beside the training
        )
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
