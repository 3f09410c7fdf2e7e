"""What --profile, --trace, --history and --logdir see of a training."""

from __future__ import annotations

from . import profile, trace
from .history import CsvHistory, Watchers
from .utils import check_writable


class Observers:
    """The observers that the flags ask for; none, and training runs as without this module.

    reading: (begin, end) of reading the data, in seconds of time.perf_counter.
    Raises UsageError for what the engine or a missing package cannot do, OutputError for what cannot be
    written.
    """

    def __init__(self, flags, net, reading: tuple[float, float]):
        self._flags, self._net = flags, net
        self._watchers: list = []
        for path in (flags.trace, flags.history):
            if path is not None:
                check_writable(path)
        self._trace = trace.Trace(net.layers) if flags.trace is not None else None
        if self._trace:
            self._trace.span("reading", "reading", *reading, file=flags.dataset)
            self._watchers.append(self._trace)
        if flags.logdir is not None:
            from .tensorboard import Board

            self._watchers.append(Board(flags.logdir, net))
        if flags.history is not None:
            self._watchers.append(CsvHistory(flags.history))
        self._window = flags.trace_batches or trace.BATCHES
        if self._trace or flags.profile:
            batches = max(self._window if self._trace else 0, profile.BATCHES if flags.profile else 0)
            profile.record(net.engine, batches, "--profile" if flags.profile else "--trace")

    def beside(self, watcher):
        """`watcher` (or None) and the observers as one."""
        watchers = [*self._watchers, *filter(None, [watcher])]
        return Watchers(watchers) if len(watchers) > 1 else next(iter(watchers), None)

    def finish(self, result: dict, batch_number: int) -> None:
        """After the training: write the trace; put the profile into `result` under `profile`."""
        if not (self._trace or self._flags.profile):
            return
        batches = self._net.engine.recorded()
        if self._trace:
            self._trace.batches(batches[: self._window])
            self._trace.write(self._flags.trace)
        if self._flags.profile:
            result["profile"] = profile.layer_times(self._net.layers, batch_number, batches)
