"""The observers of a training: what --profile, --trace, --history and --logdir ask for."""

from __future__ import annotations

from collections.abc import Callable

from ..utils import check_writable
from . import profile, trace
from .callbacks import Callback, Callbacks, CsvHistory


class Recording(Callback):
    """Lets the engine of a network time its first batches; it is made when the training begins."""

    def __init__(self, net: Callable, batches: int):
        self._net, self._batches = net, batches

    def start(self, info: dict) -> None:
        self._net().engine.record(self._batches)


class Observers:
    """The observers that the flags ask for; without such a flag a training runs as without this module.

    net: returns the network that is trained, once the training begins. reading: (begin, end) of reading the data, in
    seconds of time.perf_counter. records: let its engine time its first batches, as many as `batches`.
    Raises UsageError for a missing package, OutputError for a file that cannot be written.
    """

    def __init__(self, flags, net: Callable, reading: tuple[float, float], records: bool = True):
        self._flags, self._net = flags, net
        self._callbacks: list[Callback] = []
        if flags.trace is not None:
            check_writable(flags.trace)
        self._trace = trace.Trace() if flags.trace is not None else None
        if self._trace:
            from ..data.source import without_secrets

            self._trace.span("reading", "reading", *reading, file=without_secrets(flags.dataset))
            self._callbacks.append(self._trace)
        if flags.logdir is not None:
            from .tensorboard import TensorBoard

            self._callbacks.append(TensorBoard(flags.logdir, net))
        if flags.history is not None:
            self._callbacks.append(CsvHistory(flags.history))
        self.batches = max(trace.BATCHES if self._trace else 0, profile.BATCHES if flags.profile else 0)
        if self.batches and records:
            self._callbacks.append(Recording(net, self.batches))

    def beside(self, callback: Callback | None) -> Callbacks:
        return Callbacks([*self._callbacks, *filter(None, [callback])])

    def finish(self, result: dict, timed: Callable, batch_size: int) -> None:
        """Write the trace, and put the profile into `result` under `profile`; called after the training. timed: returns
        a network whose engine has timed batches."""
        if not self.batches:
            return
        net = timed()
        batches = net.engine.recorded()
        if self._trace:
            self._trace.batches(net.layers, batches[: trace.BATCHES])
            self._trace.write(self._flags.trace)
        if self._flags.profile:
            result["profile"] = profile.layer_times(net.layers, batch_size, batches)
