"""The observers of a training: what --profile, --trace, --history and --logdir ask
for; those of an inference, for the first two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..backends.engine import TimedStep
from ..layers import Layer
from ..utils import check_writable, log
from . import trace
from .callbacks import Callback, Callbacks
from .history import CsvHistory

PROFILED = 200  # timed; medians of more say the same


class Recording(Callback):
    """Lets the engine of a network time its first batches; it is made when the training
    begins."""

    def __init__(self, net: Callable, batches: int):
        self._net = net
        self._batches = batches

    def start(self, info: dict) -> None:
        self._net().engine.record(self._batches)


class Observers:
    """The observers that the flags ask for; without such a flag a training runs as
    without this module.

    net: returns the network that is trained, once the training begins. reading: (begin,
    end) of reading the data, in seconds of time.perf_counter. records: let its engine
    time its first batches, as many as `batches`.
    Raises UsageError for a missing package, OutputError for a file that cannot be
    written.
    """

    def __init__(
        self, flags, net: Callable, reading: tuple[float, float], records: bool = True
    ):
        self._flags = flags
        self._net = net
        self._callbacks: list[Callback] = []
        self._trace = None
        self.batches = 0
        if flags.profile:
            self.batches = PROFILED
        if flags.trace is not None:
            check_writable(flags.trace)
            self.batches = max(self.batches, trace.BATCHES)
            self._trace = trace.Trace()
            self._trace.span("reading", "reading", *reading, file=flags.dataset)
            self._callbacks.append(self._trace)
        if flags.logdir is not None:
            from .tensorboard import TensorBoard

            self._callbacks.append(TensorBoard(flags.logdir, net))
        if flags.history is not None:
            self._callbacks.append(CsvHistory(flags.history))
        if self.batches and records:
            self._callbacks.append(Recording(net, self.batches))

    def with_callback(self, callback: Callback | None) -> Callbacks:
        """Return the observers and another callback, if any, as one."""
        return Callbacks([*self._callbacks, *filter(None, [callback])])

    def finish(self, result: dict, timed: Callable, batch_size: int) -> None:
        """Write the trace, and put the profile into `result` under `profile`; called
        after the training. timed: returns a network whose engine has timed batches."""
        if not self.batches:
            return
        net = timed()
        batches = net.engine.recorded()
        if self._trace:
            self._trace.batches(net.layers, batches[: trace.BATCHES])
            self._trace.write(self._flags.trace)
        if self._flags.profile:
            result["profile"] = layer_times(net.layers, batch_size, batches)


class InferenceObservers:
    """The observers of the calls of a network's `predict`, for --profile and --trace;
    without these flags nothing is noted.

    reading: (begin, end) of reading the data, in seconds of time.perf_counter. Raises
    OutputError for a file that cannot be written.
    """

    def __init__(self, flags, net, reading: tuple[float, float]):
        self._flags = flags
        self._net = net
        calls = 0
        if flags.profile:
            calls = PROFILED
        if flags.trace is not None:
            calls = max(calls, trace.BATCHES)
            self._trace = trace.Trace(trace.INFERENCE)
            self._trace.span("reading", "reading", *reading, file=flags.dataset)
        if calls:
            net.engine.record(calls, predicts=True)

    def finish(self) -> dict:
        """Write the trace; return the profile under `profile`, where it is asked
        for."""
        if self._flags.trace is None and not self._flags.profile:
            return {}
        calls = self._net.engine.recorded()
        if not calls:
            log.warning(
                "nothing was computed that --profile or --trace could show: the model keeps the scores of these rows; "
                "name a data set"
            )
        if self._flags.trace is not None:
            self._trace.batches(self._net.layers, calls[: trace.BATCHES])
            self._trace.write(self._flags.trace)
        if not self._flags.profile or not calls:
            return {}
        return {"profile": inference_times(self._net.layers, calls)}


# ---- --profile: how long each layer takes, forward and backward, in a batch of
# training, or in a call of predict


def layer_times(layers: list[Layer], rows: int, batches: list[list[TimedStep]]) -> dict:
    """Return the median milliseconds of each step of a batch: `profile` of `--train
    --profile --json`.

    layers: of the network; rows: of a batch; batches: what the engine recorded. `share`
    is a layer's part of the whole batch. A layer's update is 0 where it is done
    together with the gradients, and its backward pass where nothing below it learns.
    GFLOP/s count multiplications and additions of dense and conv layers.
    """
    times: dict[tuple, list[float]] = {}
    for batch in batches:
        spent: dict[tuple, float] = {}
        # of several GPUs the first one's
        for step in (step for step in batch if step.lane == batch[0].lane):
            spent[step.name, step.layer] = (
                spent.get((step.name, step.layer), 0.0) + step.end - step.begin
            )
        for key, seconds in spent.items():
            times.setdefault(key, []).append(1e3 * seconds)
    median = {key: float(np.median(values)) for key, values in times.items()}
    batch_ms = sum(median.values())
    learners = [i for i, layer in enumerate(layers) if layer.weight_shape]
    table = []
    for i, layer in enumerate(layers):
        forward = median.get(("forward", i), 0.0)
        backward = median.get(("backward", i), 0.0)
        update = median.get(("update", i), 0.0)
        operations = 2.0 * rows * layer.products
        passes = 2  # gradients of the weights, and of the input
        if learners[:1] == [i]:
            passes = 1
        table.append(
            {
                "layer": layer.item or layer.kind,
                "forward_ms": forward,
                "backward_ms": backward,
                "update_ms": update,
                "share": (forward + backward + update) / (batch_ms or 1.0),
                "gflops_forward": _rate(operations, forward),
                "gflops_backward": _rate(passes * operations, backward),
            }
        )
    other_steps = {
        f"{name}_ms": value for (name, layer), value in median.items() if layer is None
    }
    return {
        "batches": len(batches),
        "rows": rows,
        "batch_ms": batch_ms,
        **other_steps,
        "layers": table,
    }


def inference_times(layers: list[Layer], calls: list[list[TimedStep]]) -> dict:
    """Return the median milliseconds of each step of a call of predict: `profile` of
    `--test` and `--predict`. Calls of fewer rows than the largest are left out."""
    rows = max((call[0].rows for call in calls), default=0)
    largest = [_mean_of_lanes(call) for call in calls if call[0].rows == rows]
    times = layer_times(layers, rows, largest)
    forward = ("layer", "forward_ms", "share", "gflops_forward")
    return {
        "calls": times["batches"],
        "rows": rows,
        "call_ms": times["batch_ms"],
        **{name: times[name] for name in ("gather_ms", "end_ms") if name in times},
        "layers": [
            {name: layer[name] for name in forward} for layer in times["layers"]
        ],
    }


def _mean_of_lanes(call: list[TimedStep]) -> list[TimedStep]:
    """Return the steps of a call, each as long as in the mean of its threads, which
    share the rows out as they come."""
    lanes = len({step.lane for step in call})
    seconds: dict[tuple, float] = {}
    for step in call:
        key = (step.name, step.layer)
        seconds[key] = seconds.get(key, 0.0) + (step.end - step.begin) / lanes
    return [TimedStep(*key, 0.0, length) for key, length in seconds.items()]


def _rate(operations: float, ms: float) -> float | None:
    if operations and ms:
        return operations / ms / 1e6
    return None
