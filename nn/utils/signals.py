"""Signals: the errors that they raise, requests to stop, moments at which they wait."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from .errors import NnError


class Stopped(NnError):
    """Training ended early because a signal asked for it; the network keeps what it has
    learned so far."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}", 128 + signum)
        self.signum = signum


class Interrupted(BaseException):
    """A signal ends the command. It is not an Exception, so that nobody takes it for a
    failure of the file at hand."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_code = 128 + signum


def interruption(error: BaseException) -> BaseException | None:
    """Return what a signal has raised, None for another error. Before Python 3.12 a
    RuntimeError hides what is raised while a class names its attributes."""
    if isinstance(error, RuntimeError):
        cause = error.__cause__
    else:
        cause = error
    if isinstance(cause, (Interrupted, KeyboardInterrupt)):
        return cause
    return None


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Let signals wait until the block ends: what a handler raises while C++ makes its
    classes may end the process, and a file that is made at that moment would be left
    behind."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopRequest:
    """Asks a running training to end after the batch at hand; `request` may be called
    in a signal handler."""

    def __init__(self):
        self.signum: int | None = None
        # whether a training is under way that looks for the request
        self.answered = False

    def request(self, signum: int) -> None:
        """Remember the signal; training raises Stopped(signum) once the batch is
        done."""
        self.signum = signum


@contextlib.contextmanager
def ctrl_c_to(stop: StopRequest) -> Iterator[None]:
    """Let Ctrl-C ask `stop`, where Python would raise KeyboardInterrupt anywhere; a
    second Ctrl-C raises it."""
    usual = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    # another handler is set
    if not main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def handle(signum, _frame):
        signal.signal(signal.SIGINT, usual)
        stop.request(signum)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
