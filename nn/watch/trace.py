"""--trace: a training, or an inference, as a Chrome trace, for chrome://tracing and
ui.perfetto.dev.

The format is Google's «Trace Event Format»: complete events ("ph": "X") with begin and
length in microseconds; what lies within another event of the same row is drawn below
it.
"""

from __future__ import annotations

import json
import time

from ..backends.engine import TimedStep
from ..layers import Layer
from ..utils import atomic_write
from .callbacks import Callback

BATCHES = 20  # with their layers; a trace of all would be too large to look at
PROCESS = 1
TRAINING = "training"
INFERENCE = "inference"
UNITS = {TRAINING: "batch", INFERENCE: "call"}  # what has steps


class Trace(Callback):
    """Events of a run, in the order of time. main: what it is, a name of UNITS."""

    def __init__(self, main: str = TRAINING):
        self._events: list[dict] = []
        self._main = main
        # of the picture: the run and its first thread, then the other threads, streams
        # and devices
        self._rows = [main]
        self._began = 0.0

    def span(
        self,
        name: str,
        category: str,
        begin: float,
        end: float,
        row: str = "",
        **about,
    ) -> None:
        """Add an event from `begin` to `end`, in seconds of time.perf_counter. row: of
        the picture; "" is the run's."""
        row = row or self._main
        if row not in self._rows:
            self._rows.append(row)
        # whole, so that inner spans stay inside
        begin_ns = round(1e9 * begin)
        end_ns = round(1e9 * end)
        self._events.append(
            {
                "name": name,
                "cat": category,
                "ph": "X",
                "ts": begin_ns,
                "dur": end_ns - begin_ns,
                "pid": PROCESS,
                "tid": self._rows.index(row) + 1,
                "args": about,
            }
        )

    def batches(self, layers: list[Layer], batches: list[list[TimedStep]]) -> None:
        """Add the steps that an engine recorded, layer by layer; to be called after the
        epochs."""
        names = [layer.item or layer.kind for layer in layers]
        # the layer that such a step belongs to
        outer = {"gather": "input", "loss": len(names) - 1}
        for number, steps in enumerate(batches):
            # counting the batch is no part of it
            steps = [step for step in steps if step.name != "end"]
            begin = min(step.begin for step in steps)
            end = max(step.end for step in steps)
            unit = UNITS[self._main]
            about = {}
            if self._main == INFERENCE:
                about = {"rows": steps[0].rows}
            self.span(f"{unit} {number + 1}", unit, begin, end, **about)
            for step in steps:
                if step.end <= step.begin:
                    continue
                name = step.name
                layer = outer.get(name)
                if step.layer is not None:
                    layer = step.layer
                    name += f" {layer} {names[layer]}"
                about = {}
                if layer is not None:
                    about = {"layer": layer}
                self.span(name, step.name, step.begin, step.end, step.lane, **about)
            self._validate_after(round(1e9 * begin), round(1e9 * end))

    def _validate_after(self, begin: int, end: int) -> None:
        """Move the validation behind the batch that it waited for: its beginning is
        known to some microseconds only."""
        for event in self._events:
            if event["cat"] == "validation" and begin < event["ts"] < end:
                event["dur"] -= end - event["ts"]
                event["ts"] = end

    # ---- as a callback of training

    def start(self, info: dict) -> None:
        self._began = time.perf_counter()

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        end = time.perf_counter()
        self.span(f"epoch {epoch}", "epoch", self._began, end, loss=loss)
        if val_loss is not None:
            self.span(
                "held-out rows",
                "validation",
                min(end, self._began + seconds),
                end,
                loss=val_loss,
            )
        self._began = end

    # ---- the file

    def write(self, path: str) -> None:
        """Write the trace; time begins with its first event. Raises OutputError."""
        start = min((event["ts"] for event in self._events), default=0)
        events = [
            {**event, "ts": (event["ts"] - start) / 1e3, "dur": event["dur"] / 1e3}
            for event in self._events
        ]
        # what holds others comes first
        events.sort(key=lambda event: (event["tid"], event["ts"], -event["dur"]))
        names = [_name("process_name", "nn", 0)]
        names += [
            _name("thread_name", row, number)
            for number, row in enumerate(self._rows, 1)
        ]
        trace = {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}
        atomic_write(path, json.dumps(trace, allow_nan=False).encode())


def _name(kind: str, name: str, row: int) -> dict:
    return {"name": kind, "ph": "M", "pid": PROCESS, "tid": row, "args": {"name": name}}
