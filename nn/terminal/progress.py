"""The progress of a training, of --effort over all candidates, or of another long
computation, on stderr: a bar on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..nn_aux import PLATEAU, USUAL_PATIENCES
from ..utils import log_line, plural
from ..watch.callbacks import Callback
from .console import on_terminal, report_encoding, report_run

REDRAW_SECONDS = 0.1
LONG_SECONDS = 5.0  # a line has the time left if it is longer
LONG_SPAN = 99.5  # a span of seconds is told in minutes if it is longer
STEP_LINES = 10  # lines of the steps of a computation in a pipe, at most
STEP_SECONDS = 2.0  # a computation that takes longer has such lines
# lines of epochs or candidates in a pipe, beside the last; --verbose has all of them
MOST_PROGRESS_LINES = 6


def make_progress(
    about: str, remark: str = "", quiet: bool = False, verbose: bool = False
) -> Callback | None:
    """Return the callback of a training for a person: a bar on a terminal, lines in a
    pipe, None if quiet.

    about: the data in one line. remark: for the first line.
    """
    if quiet:
        return None
    if on_terminal(sys.stderr):
        return Bar(about, remark, verbose)
    return Lines(about, remark, verbose)


def in_words(least: float, most: float) -> str:
    """Return a span of seconds for a person."""
    unit = "s"
    if most >= LONG_SPAN:
        least /= 60
        most /= 60
        unit = "min"
    elif most < 1:
        return "1 s"
    ends = [float(f"{value:.2g}") for value in (least, most)]
    return f"{ends[0]:g} to {ends[1]:g} {unit}"


def has_line(number: int, count: int, most: int = MOST_PROGRESS_LINES) -> bool:
    """Return whether this epoch or candidate (from 1) is among the `most` that get a
    line, or the last one."""
    return number == count or (number - 1) % -(-count // most) == 0


class Lines(Callback):
    """The first lines of a run and a plain line for some epochs, of --effort for some
    candidates when they have ended; if `verbose` for all, the epochs of candidates too,
    and the route of each layer."""

    shows_all_candidates = False

    def __init__(self, about: str, remark: str = "", verbose: bool = False):
        self._about = about
        self._remark = remark
        self._verbose = verbose
        self._most = MOST_PROGRESS_LINES
        self._shares: list[float] = []  # of all operations, for each candidate
        self._number = 0  # of candidates that have ended
        self._expected: Callable[[int], tuple[float, float]] | None = None

    def begin(self, shares: list[float]) -> None:
        self._shares = shares
        self._began = time.monotonic()

    def expect(self, seconds: Callable[[int], tuple[float, float]]) -> None:
        self._expected = seconds

    def start(self, info: dict) -> None:
        if self._expected and not self._number and not info["resumed"]:
            self._remark = f"about {in_words(*self._expected(info['threads']))} here"
        if not self._number:
            report_run(
                self._about,
                info["backend"],
                info["threads"],
                info["dtype"],
                info["seed"],
                self._remark,
            )
            if info["encoding"] is not None:
                report_encoding(info["encoding"])
        if self._shares and not self._verbose:
            return
        self._judged = ""
        self._chosen_by = info["monitor"]
        self._report_training(info)
        if self._verbose:
            for line in info["routes"]():
                log_line(line)

    def _report_training(self, info: dict) -> None:
        """Print what is trained, on what, and how."""
        log_line(
            "{layers}: {parameters} parameters, loss {loss}, scaling {scaling}".format(
                **info
            )
        )
        rows = plural(info["rows"], "row")
        if info["monitor"]:
            rows += f", {info['validation']} validating by {info['monitor']}"
        if info["holdout"]:
            rows += f", {info['holdout']} held out"
        epochs = plural(info["epochs"], "epoch")
        batches = plural(info["batches"], "batch", "es")
        how = f"{epochs} of {batches} of {info['batch_number']}"
        steps = "{optimizer}, learning rate {learning_rate:g}, {schedule}".format(
            **info
        )
        log_line(f"training on {rows}: {how}, {steps}")
        if info["resumed"]:
            done = info["resumed"]
            epochs = plural(done["epoch"], "epoch")
            rows = plural(done["row"], "row")
            log_line(f"resuming from {done['file']}: {epochs} and {rows} are done")

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        if not self._verbose and (
            self._shares or not has_line(epoch, epochs, self._most)
        ):
            return
        number = f"{epoch:{len(str(epochs))}}/{epochs}"
        held_out = ""
        if val_loss is not None:
            held_out = f"  {self._rows_of_loss()} {val_loss:<11.6g}"
        log_line(
            f"epoch {number}  loss {loss:<11.6g}{held_out}{self._judged}"
            f"  {seconds:.3g} s  {us_per_batch:.1f} us a batch"
        )

    def _rows_of_loss(self) -> str:
        """Return which rows the second loss of an epoch is of."""
        if self._chosen_by:
            return "validation"
        return "held-out"

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        text = ""
        if metric != "loss":
            text = f"  {metric} {value:<9.6g}"
        if is_best:
            self._judged = f"{text}  best"
        else:
            self._judged = f"{text}      "

    def refit(self, epochs: int, rows: int) -> None:
        if self._shares:
            log_line(
                f"the networks that were chosen are trained once more on all {rows} rows"
            )
        else:
            self._judged = ""
            self._most = 1
            log_line(
                f"refit: training once more on {rows} rows, validation rows too, for {epochs} epochs"
            )

    def ended(self, layers: str, loss: str) -> None:
        self._number += 1
        has_lines = self.shows_all_candidates or self._verbose
        if not has_lines and not has_line(self._number, len(self._shares)):
            return
        passed = time.monotonic() - self._began
        done = sum(self._shares[: self._number])
        left = passed * (1 - done) / done
        remark = ""
        if left > LONG_SECONDS:
            remark = f", about {left:.0f} s left"
        log_line(
            f"candidate {self._number} of {len(self._shares)}: {layers}: {loss}; {passed:.1f} s{remark}"
        )


class Bar(Lines):
    """A bar over all epochs with loss, speed and time left, or over the operations of
    all candidates; above it the line of each candidate, and if `verbose` those of the
    epochs."""

    shows_all_candidates = True
    _bar = None

    def start(self, info):
        super().start(info)
        if self._bar is None:
            self._open()
        self._usual = info["epochs"]
        if info["schedule"] == PLATEAU and info["patience"]:
            self._usual = min(info["epochs"], USUAL_PATIENCES * info["patience"])
        if not self._shares:
            done = 0.0
            if info["resumed"]:
                rows_done = info["resumed"]["row"]
                done = info["resumed"]["epoch"] + rows_done / info["rows"]
            self._restart(info["rows"], info["epochs"], done)

    def _open(self) -> None:
        self._bar = _new_bar("{task.fields[figures]}")
        self._task = self._bar.add_task("", total=1.0, figures="")
        self._drawn = 0.0
        self._bar.start()

    def _restart(self, rows: int, epochs: int, done: float) -> None:
        """Begin a training of some epochs. done: of them already."""
        self._rows = rows
        self._epochs = epochs
        self._done = done
        self._began = time.monotonic()
        epoch = min(int(done) + 1, epochs)
        self._draw(done / epochs, f"epoch {epoch}/{epochs}", "")

    def _draw(self, share: float, what: str, figures: str) -> None:
        self._drawn = time.monotonic()
        self._bar.update(
            self._task,
            completed=share,
            description=what,
            figures=figures,
            refresh=True,
        )

    def update(self, epoch, rows_done, rows, loss):
        if not self._shares:
            self._advance(epoch, rows_done / rows, f"loss {loss:.6g}")

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        if self._verbose:
            super().epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)
        if self._shares:
            if time.monotonic() - self._drawn >= REDRAW_SECONDS:
                self._advance_candidate(
                    min(1.0, epoch / self._usual), f"epoch {epoch}, loss {loss:.6g}"
                )
            return
        self._epochs = epochs  # fewer than at first, where a schedule finds them
        text = f"loss {loss:.6g}"
        if val_loss is not None:
            text += f", {self._rows_of_loss()} {val_loss:.6g}{self._judged.rstrip()}"
        self._advance(epoch, 1.0, text)

    def _advance(self, epoch: int, share: float, loss: str) -> None:
        now = time.monotonic()
        done = epoch - 1 + share
        # epochs can be very short
        if now - self._drawn >= REDRAW_SECONDS or done >= self._epochs:
            speed = (done - self._done) * self._rows / (now - self._began)
            text = f"{loss} {speed:,.0f} rows/s"
            self._draw(done / self._epochs, f"epoch {epoch}/{self._epochs}", text)

    def refit(self, epochs, rows):
        super().refit(epochs, rows)
        if not self._shares:
            self._restart(rows, epochs, 0)

    def ended(self, layers, loss):
        super().ended(layers, loss)
        self._advance_candidate(0.0, loss)

    def _advance_candidate(self, share: float, loss: str) -> None:
        """Draw the bar. share: of the candidate at hand that is done."""
        number = self._number
        count = len(self._shares)
        done = sum(self._shares[:number])
        if number < count:
            done += share * self._shares[number]
        self._draw(done, f"candidate {min(number + 1, count)}/{count}", loss)

    def close(self):
        if not self._shares:
            self.end()

    def end(self):
        if self._bar is not None:
            self._bar.stop()


def make_steps(what: str) -> Steps:
    """Return what is called with the steps that are done, and the number of all, of a
    computation named `what`."""
    if on_terminal(sys.stderr):
        return StepBar(what)
    return Steps(what)


class Steps:
    """A plain line for some of the steps of a computation that takes long."""

    def __init__(self, what: str):
        self._what = what
        self._began = time.monotonic()
        self._reported_part = 0  # of all steps, in STEP_LINES parts

    def __call__(self, done: int, total: int) -> None:
        passed = time.monotonic() - self._began
        if passed >= STEP_SECONDS:
            self._report(done, total, passed)

    def _report(self, done: int, total: int, passed: float) -> None:
        part = done * STEP_LINES // total
        if part > self._reported_part:
            self._reported_part = part
            left = passed * (total - done) / done
            log_line(
                f"{self._what}: {done} of {total}, {passed:.1f} s, {left:.0f} s left"
            )


class StepBar(Steps):
    """A bar over the steps of a computation that takes long."""

    _bar = None
    _drawn = 0.0

    def _report(self, done: int, total: int, passed: float) -> None:
        if self._bar is None:
            self._bar = self._opened(total)
        now = time.monotonic()
        if now - self._drawn >= REDRAW_SECONDS or done == total:
            self._drawn = now
            self._bar.update(self._task, completed=done, refresh=True)
        if done == total:
            self._bar.stop()

    def _opened(self, total: int):
        bar = _new_bar()
        self._task = bar.add_task(self._what, total=total)
        bar.start()
        return bar


def _new_bar(*texts: str):
    """Return a bar between a description and these texts, and the time left; without a
    second thread beside the computation."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *map(TextColumn, texts),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(file=sys.stderr, highlight=False),
        auto_refresh=False,
    )
