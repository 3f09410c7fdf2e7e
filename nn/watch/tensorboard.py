"""--logdir: a training for TensorBoard: losses and speed, the weights' histograms, the network as a graph."""

from __future__ import annotations

from ..utils import OutputError, UsageError, os_reason
from .callbacks import Callback, learning_rate

HISTOGRAM_VALUES = 1 << 20  # of a larger weight only every 2nd, 3rd, ... value goes into its histogram


class TensorBoard(Callback):
    """Writes event files to a folder.

    Scalars: loss/training, loss/held-out, learning_rate, us_per_batch; histograms: every weight and bias,
    before the first epoch (step 0) and after each; the graph of the layers. Needs tensorboardX (extra
    `tensorboard`). Raises UsageError without it, OutputError where the folder cannot be written.
    """

    def __init__(self, logdir: str, net):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UsageError('--logdir needs the package tensorboardX: pip install "nn-trainer[tensorboard]"') from None
        self._net = net
        try:
            self._writer = SummaryWriter(logdir)
        except OSError as error:
            raise OutputError(f"{logdir}: cannot write: {os_reason(error)}") from error

    def start(self, info: dict) -> None:
        self._info, self._metric, self._run = info, {}, ""
        self._add_graph()
        self._add_histograms(0)

    def epoch(
        self, epoch: int, epochs: int, loss: float, val_loss: float | None, seconds: float, us_per_batch: float
    ) -> None:
        scalars = {
            "loss/training": loss,
            "loss/validation" if self._info["monitor"] else "loss/held-out": val_loss,
            **self._metric,
            "learning_rate": learning_rate(self._info, epoch, self._info["epochs"]),
            "us_per_batch": us_per_batch,
        }
        for name, value in scalars.items():
            if value is not None:
                self._writer.add_scalar(self._run + name, value, epoch)
        self._net.take_parameters()
        self._add_histograms(epoch)
        self._writer.flush()

    def judged(self, epoch: int, metric: str, value: float, is_best: bool) -> None:
        self._metric = {f"metric/{metric}": value}

    def refit(self, epochs: int, rows: int) -> None:
        self._metric, self._run = {}, "refit/"

    def close(self) -> None:
        self._writer.close()

    def _add_histograms(self, epoch: int) -> None:
        for name, values in self._net.parameters().items():
            every = -(-values.size // HISTOGRAM_VALUES)
            self._writer.add_histogram(self._run + name.replace(".", "/"), values.reshape(-1)[::every], epoch)

    def _add_graph(self) -> None:
        """Write the layers as nodes, each fed by the one before."""
        from tensorboardX.proto.attr_value_pb2 import AttrValue
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.graph_pb2 import GraphDef
        from tensorboardX.proto.node_def_pb2 import NodeDef
        from tensorboardX.proto.versions_pb2 import VersionDef

        def attribute(text) -> AttrValue:
            return AttrValue(s=str(text).encode())

        layers = self._net.layers
        nodes = [NodeDef(name="input", op="input", attr={"shape": attribute(list(layers[0].in_shape))})]
        for number, layer in enumerate(layers):
            about = {"shape": layer.out_shape, "activation": layer.output_function, "parameters": layer.parameters}
            item = (layer.item or layer.kind).replace(".", "_")
            nodes.append(
                NodeDef(
                    name=f"{number}_{item}",
                    op=layer.kind,
                    input=[nodes[-1].name],
                    attr={key: attribute(value) for key, value in about.items()},
                )
            )
        loss = NodeDef(name=f"loss_{self._net.loss}", op="loss", input=[nodes[-1].name])
        graph = GraphDef(node=[*nodes, loss], versions=VersionDef(producer=22))
        self._writer.file_writer.event_writer.add_event(Event(graph_def=graph.SerializeToString()))
