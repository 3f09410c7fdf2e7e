"""--logdir: a training for TensorBoard: losses and speed, the weights' histograms, the
network as a graph."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable

import numpy as np

from ..utils import AppendedFile, OutputError, UsageError, needs_package, writing
from .callbacks import Callback, learning_rate

# of a larger weight only every 2nd, 3rd, ... value goes into its histogram
HISTOGRAM_VALUES = 1 << 20
# the edges of TensorBoard's own histograms: to 1e20, and the same below 0
HISTOGRAM_STEPS = 1e-12 * 1.1 ** np.arange(774)
HISTOGRAM_EDGES = np.concatenate([-HISTOGRAM_STEPS[::-1], [0.0], HISTOGRAM_STEPS])


class TensorBoard(Callback):
    """Writes an event file to a folder.

    Scalars: loss/training, loss/held-out, learning_rate, us_per_batch; histograms:
    every weight and bias, before the first epoch (step 0) and after each; the graph of
    the layers. Of several networks the scalars are means, and there are no histograms;
    candidates of --effort have a folder each. net: returns the network that is trained.
    Needs tensorboardX (extra `tensorboard`). Raises UsageError without it, OutputError
    where the folder cannot be written.
    """

    def __init__(self, logdir: str, net: Callable):
        try:
            import tensorboardX  # noqa: F401 (whether it is installed; its parts are imported where they are needed)
        except ModuleNotFoundError:
            raise UsageError(needs_package("tensorboard", "--logdir needs")) from None
        self._logdir = logdir
        self._net_of = net
        self._candidate = 0
        self._file = self._file_in(logdir)

    def _file_in(self, folder: str) -> AppendedFile:
        try:
            with writing(folder):
                os.makedirs(folder, exist_ok=True)
        except RecursionError as error:
            raise OutputError(
                f"{folder}: cannot write: too many folders one in another"
            ) from error
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        return AppendedFile(os.path.join(folder, name))

    def begin(self, shares: list[float]) -> None:
        self._candidate = 1

    def ended(self, layers: str, loss: str) -> None:
        self._candidate += 1

    def start(self, info: dict) -> None:
        if self._candidate:
            self._file = self._file_in(
                os.path.join(self._logdir, f"candidate{self._candidate}")
            )
        self._net = self._net_of()
        self._info = info
        self._metric = {}
        self._run = ""
        self._add(file_version="brain.Event:2")
        self._add_graph()
        self._add_histograms(0)

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        from tensorboardX.summary import scalar

        held_out_loss = "loss/held-out"
        if self._info["monitor"]:
            held_out_loss = "loss/validation"
        scalars = {
            "loss/training": loss,
            held_out_loss: val_loss,
            **self._metric,
            "learning_rate": learning_rate(self._info, epoch, epochs),
            "us_per_batch": us_per_batch,
        }
        for name, value in scalars.items():
            if value is not None:
                self._add(step=epoch, summary=scalar(self._run + name, value))
        self._add_histograms(epoch)

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        self._metric = {f"metric/{metric}": value}

    def refit(self, epochs: int, rows: int) -> None:
        self._metric = {}
        self._run = "refit/"

    def close(self) -> None:
        self._file.close()

    def _add(self, **fields) -> None:
        """Write an event that has these fields of TensorBoard's Event, at once and
        whole, as a record of a TFRecord file: its length and its bytes, each with a
        checksum behind it. Raises OutputError.

        tensorboardX has a writer too, in a thread of its own: where the disk is full
        that thread ends with a traceback, and the training waits for it for ever.
        """
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import masked_crc32c

        data = Event(wall_time=time.time(), **fields).SerializeToString()
        record = b""
        for part in (struct.pack("<Q", len(data)), data):
            record += part + struct.pack("<I", masked_crc32c(part))
        self._file.add(record)

    def _add_histograms(self, epoch: int) -> None:
        from tensorboardX.summary import histogram

        if self._info["networks"] > 1:
            return
        self._net.take_parameters()
        for name, values in self._net.parameters().items():
            every = -(-values.size // HISTOGRAM_VALUES)
            summary = histogram(
                self._run + name.replace(".", "/"),
                values.reshape(-1)[::every],
                HISTOGRAM_EDGES,
            )
            self._add(step=epoch, summary=summary)

    def _add_graph(self) -> None:
        """Write the layers as nodes, each fed by the one before."""
        from tensorboardX.proto.attr_value_pb2 import AttrValue
        from tensorboardX.proto.graph_pb2 import GraphDef
        from tensorboardX.proto.node_def_pb2 import NodeDef
        from tensorboardX.proto.versions_pb2 import VersionDef

        nodes = []

        def add(name: str, operation: str, **attributes) -> None:
            values = {}
            for key, value in attributes.items():
                values[key] = AttrValue(s=str(value).encode())
            inputs = [node.name for node in nodes[-1:]]
            nodes.append(NodeDef(name=name, op=operation, input=inputs, attr=values))

        layers = self._net.layers
        add("input", "input", shape=list(layers[0].in_shape))
        for number, layer in enumerate(layers):
            item = (layer.item or layer.kind).replace(".", "_")
            add(
                f"{number}_{item}",
                layer.kind,
                shape=layer.out_shape,
                activation=layer.output_function,
                parameters=layer.parameters,
            )
        add(f"loss_{self._net.loss}", "loss")
        graph = GraphDef(node=nodes, versions=VersionDef(producer=22))
        self._add(graph_def=graph.SerializeToString())
