"""A training that a signal ends: who hears of it, what is kept, the message and exit
code."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from .. import cluster
from ..terminal import console
from ..utils import Interrupted, NnError, OutputError, Stopped, release_locks
from .common import part_of

# EX_TEMPFAIL: stopped by a scheduler; the same command continues the training
RUN_AGAIN = 75


def unfinished(flags, net, checkpoint, stopped: Stopped) -> NnError:
    """Keep the network beside the model, where the state is not in the checkpoint;
    returns the error to end with."""
    kept = f"the state is saved in {flags.checkpoint}, continue with --resume auto"
    lost = checkpoint.failure
    if (flags.checkpoint is None or lost) and cluster.current().rank == 0:
        if flags.model is None:
            kept = "nothing is kept"
        else:
            kept = _keep_part(net, flags.model)
    cluster.current().gather(None)  # nobody leaves while rank 0 writes
    if lost:
        return OutputError(f"{stopped}: {lost}; {kept}")
    return stopped_error(flags, stopped, kept)


@contextlib.contextmanager
def signals_to(stop) -> Iterator[None]:
    """Let the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 ask `stop`, and a second one end
    the process at once."""

    def handle(signum, _frame):
        if stop.signum is not None:
            console.show_cursor()
            release_locks()
            os._exit(signal_code(signum))
        stop.request(signum)
        # nobody looks at it while the data is read, and nothing is lost by leaving
        if not stop.answered:
            # KeyboardInterrupt may end `python -m nn` by SIGINT, although it is caught
            raise Interrupted(signum)

    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]
    # the caller may not want them
    heard = [s for s in signals if signal.getsignal(s) is not signal.SIG_IGN]
    previous = {s: signal.signal(s, handle) for s in heard}
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def signal_code(signum: int) -> int:
    """Return 130 for Ctrl-C, 143 for the signals of a scheduler or of a terminal that
    is closed."""
    return 128 + (signal.SIGINT if signum == signal.SIGINT else signal.SIGTERM)


def _keep_part(net, model: str) -> str:
    """Write the unfinished network beside the model; returns a remark on where it
    is."""
    part = part_of(model)
    try:
        net.export(part)
        return f"the unfinished network is in {part}"
    except NnError as error:
        return f"the unfinished network is lost ({error})"


def stopped_error(flags, stopped: Stopped, kept: str) -> NnError:
    """Return the error to end with after a signal. kept: where the state or the network
    was saved."""
    model = ""
    if flags.model is not None:
        model = f", {flags.model} {'is unchanged' if os.path.exists(flags.model) else 'was not written'}"
    runs_again = flags.checkpoint is not None and stopped.signum != signal.SIGINT
    return NnError(
        f"{stopped}: {kept}{model}",
        RUN_AGAIN if runs_again else signal_code(stopped.signum),
    )
