"""Writes the program of a network: layers in, phases and the memory that they need
out."""

from __future__ import annotations

import itertools
from dataclasses import replace

from ...layers import Layer, scaled_layer
from ...nn_aux import ACTIVATIONS, loss_name
from ...utils import UsageError
from . import conv, dense, embedding, plain
from .abi import FEW_SPLITS, SCALED_INPUTS, THREADS
from .memory import Workspace, whole_lines
from .program import (
    BATCH,
    BATCH_ROWS,
    BYTE_ROWS,
    CONTROL,
    Buffer,
    LayerNode,
    Op,
    Phase,
    Program,
    Purpose,
    lanes_of,
)

# of gradients that are sent at a time, or more: a message of this size costs about what
# its bytes do (some 20 us of delay, 400 GB/s between GPUs)
BUCKET_BYTES = 4 << 20

# layer kind -> the file with its forward(workspace, node) and backward(workspace, node)
LAYER_FILES = {
    "dense": dense,
    "conv": conv,
    "embedding": embedding,
    **dict.fromkeys(
        ("maxpool", "avgpool", "pad", "dropout", "flatten", "activation"), plain
    ),
}


def kind_of(layer: Layer):
    """Return the file of a layer's kind. Raise UsageError for a kind that has none on
    the GPU."""
    if layer.kind not in LAYER_FILES:
        kinds = ", ".join(LAYER_FILES)
        raise UsageError(
            f"--backend cuda: the GPU has no {layer.kind} layers, only {kinds}; use --backend omp"
        )
    return LAYER_FILES[layer.kind]


class Builder:
    """Writes the program of a network for a purpose. `library` may take over ops: see
    memory.Workspace."""

    def __init__(
        self,
        layers: list[Layer],
        loss: str,
        itemsize: int,
        processors: int,
        library=None,
    ):
        self.layers = layers
        self.loss = loss
        self.itemsize = itemsize
        self.processors = processors
        self.library = library

    def build(self, purpose: Purpose) -> Program:
        """Return the phases of one batch."""
        self.purpose = purpose
        self.program = Program(purpose, self.loss, self.layers)
        self.ws = Workspace(
            self.program, self.loss, self.itemsize, self.processors, self.library
        )
        nodes = self._nodes(self.ws.buffer(self.layers[0].inputs))
        self._add("gather", None, self._gather(nodes[0].x))
        self._forward(nodes)
        if purpose.backward:
            learning = [node for node in nodes if node.index >= purpose.lowest]
            if purpose.distribute:
                self._backward_together(learning)
            else:
                self._backward(learning)
            self._step(learning)
        if purpose.timed:
            self.program.phases = [
                [op] for phase in self.program.phases for op in phase
            ]
        return self.program

    def _add(self, name: str, layer: int | None, phases: list[Phase]) -> None:
        self.program.phases += [
            [replace(op, step=(name, layer)) for op in phase]
            for phase in phases
            if phase
        ]

    # ---- a batch, from its rows to the step

    def _forward(self, nodes: list[LayerNode]) -> None:
        """Add the layers' forward passes, and the loss or what the host asked for."""
        begin = len(self.program.phases)
        last = nodes[-1]
        for node in nodes:
            self._add("forward", node.index, kind_of(node.layer).forward(self.ws, node))
        if any(op.step[1] == nodes[0].index for op in self.ws.ready):
            self.program.phases.insert(begin, self.ws.ready)
        elif self.ws.ready:
            self.program.phases[begin] += self.ws.ready
        if self.purpose.kind == "predict":
            self._add("forward", last.index, self._of_row(last) + self._keep(last))
        elif last.loss_fused:
            self._add("forward", last.index, dense.fused_forward(self.ws, last))
        else:
            self._add("loss", None, self._loss(last))

    def _backward(self, nodes: list[LayerNode]) -> None:
        """Add the layers' backward passes, from the last one down. A last layer that is
        fused with the loss has its dx already: its gradients may be computed beside
        what comes next."""
        phases = self.program.phases
        begin = len(self.program.phases)
        last = nodes[-1]
        if not last.loss_fused:
            self._add_backward(last)
        for node in reversed(nodes[:-1]):
            self._add_backward(node)
        if last.loss_fused:
            self._add_backward(last)
            gradients = phases.pop()
            large = self.ws.rows * last.layer.inputs > dense.FUSED_BESIDE
            if len(phases) == begin or large:
                phases.insert(begin, gradients)
            else:
                phases[begin] += gradients

    def _add_backward(self, node: LayerNode) -> None:
        """Add the backward pass of a layer."""
        phases = kind_of(node.layer).backward(self.ws, node)
        self._add("backward", node.index, phases)

    def _step(self, nodes: list[LayerNode]) -> None:
        """Add all layers' steps in one phase, or their gradients for the host."""
        purpose = self.purpose
        if purpose.updates_weights:
            updates = [
                replace(self._update(node), step=("update", node.index))
                for node in nodes
                if node.gradient
            ]
            if updates:
                self.program.phases += [updates]
        if purpose.distribute == "central" and purpose.kind == "train":
            values = sum(layer.parameters for layer in self.layers)
            self._send("broadcast", 0, Buffer("parameters"), values)
            self._meet()

    # ---- nodes

    def _nodes(self, x: Buffer) -> list[LayerNode]:
        """Return the layers that do something, with their buffers: a flatten passes its
        input on in place."""
        nodes = self._active_nodes()
        below = x
        activation_below = "linear"
        for node in nodes:
            node.x = below
            node.activation_below = activation_below
            node.out = below = self.ws.buffer(node.layer.outputs)
            activation_below = node.layer.activation
        last = nodes[-1]
        if self.purpose.kind == "predict" and not self.library:
            last.out = Buffer("out_rows", last.layer.outputs)
        for below, node in itertools.pairwise(nodes):
            node.node_below = below
            below.node_above = node
        last.loss_fused = self.purpose.kind != "predict" and dense.fuses_loss(
            self.ws, last.layer
        )
        if self.purpose.backward:
            last.dz = last.out  # the loss turns one into the other
            for below, node in itertools.pairwise(nodes):
                # columns alone learn nothing
                learns = below.layer.kind != "embedding" or below.layer.parameters
                learns = learns and below.index >= self.purpose.lowest
                if learns or self.purpose.kind == "gradients":
                    below.dz = node.dx = self.ws.buffer(below.layer.outputs)
            if self.purpose.kind == "gradients":
                nodes[0].dx = Buffer("input_gradient")
        return nodes

    def _active_nodes(self) -> list[LayerNode]:
        nodes = []
        at = 0
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            passes_on = layer.kind == "flatten"
            if layer.kind == "dropout":
                passes_on = not self.purpose.dropout
            if passes_on and layer.activation == "linear" and index < last:
                continue
            by_loss = index == last and self.purpose.kind != "predict"
            if by_loss or ACTIVATIONS[layer.activation].couples_outputs:
                activation = "linear"
            else:
                activation = layer.activation
            nodes.append(LayerNode(layer, index, at, activation))
            at += layer.parameters
        return nodes

    # ---- ops that belong to no layer

    def _gather(self, x: Buffer) -> list[Phase]:
        width = self.layers[0].inputs
        rows_as = self.purpose.rows_as
        function = "gather"
        settings = (width, int(rows_as == BYTE_ROWS))
        if rows_as.kind == "records":
            function = "gather_records"
            settings = (rows_as.row_bytes, *rows_as.counts)
        elif any(self.purpose.moves):
            function = "gather_moved"
            shape = self.layers[0].in_shape
            settings = (*shape, int(rows_as == BYTE_ROWS), *self.purpose.moves)
        blocks = self.ws.elementwise(self.purpose.rows * width)
        return [[Op(function, settings, (x, CONTROL, BATCH), blocks)]]

    def _of_row(self, node: LayerNode) -> list[Phase]:
        """Return the phase of an activation whose outputs depend on each other."""
        if not ACTIVATIONS[node.layer.activation].couples_outputs:
            return []
        settings = (node.layer.activation.upper(), node.layer.outputs)
        blocks = self.ws.elementwise(self.purpose.rows * 32)
        return [[Op("activation_forward", settings, (node.out, BATCH_ROWS), blocks)]]

    def _keep(self, node: LayerNode) -> list[Phase]:
        """Return the phase that copies the outputs row by row, where a library may have
        computed them."""
        if not self.library:
            return []
        width = node.layer.outputs
        blocks = self.ws.elementwise(self.purpose.rows * width)
        return [[Op("keep_rows", (width,), (node.out, CONTROL, BATCH), blocks)]]

    def _loss(self, node: LayerNode) -> list[Phase]:
        lanes = lanes_of(node.layer.outputs)
        names = loss_name(self.loss).upper(), node.layer.activation.upper()
        settings = *names, node.layer.outputs, int(self.purpose.labels), lanes
        blocks = self.ws.elementwise(self.purpose.rows * lanes)
        return [[Op("loss_backward", settings, (node.out, CONTROL, BATCH), blocks)]]

    def _update(self, node: LayerNode) -> Op:
        """Return the op of a layer's step, or of its gradients for the host."""
        size = node.layer.parameters
        if node.gradient_sum:
            splits = 1
            gradient = node.gradient_sum
        else:
            splits = node.row_splits
            gradient = node.gradient
        if self.purpose.kind == "gradients":
            return self._put_gradients(Buffer("out", node.at), gradient, splits, size)
        settings = self.purpose.optimizer, splits, size - node.layer.undecayed, size
        arguments = f"{node.at}LL", gradient, CONTROL, BATCH
        blocks = self._gradient_blocks(splits, size)
        if self.purpose.scales and node.layer is scaled_layer(self.layers):
            layer = node.layer
            settings = self.purpose.optimizer, splits, layer.inputs, layer.outputs
            blocks = -(-layer.inputs // SCALED_INPUTS)
            return Op("update_scaled", settings, arguments, blocks)
        return Op("update_layer", settings, arguments, blocks)

    def _put_gradients(
        self, to: Buffer, gradient: Buffer, splits: int, size: int
    ) -> Op:
        blocks = self._gradient_blocks(splits, size)
        return Op("put_gradients", (splits, size), (to, gradient), blocks)

    def _gradient_blocks(self, splits: int, size: int) -> int:
        """Return the blocks of an op over a layer's gradients (each_gradient in
        optimizer.cu); share their memory."""
        self.ws.share(THREADS)
        if splits > FEW_SPLITS:
            return -(-size // 32)
        return self.ws.elementwise(size)

    # ---- what members of a group do together

    def _backward_together(self, nodes: list[LayerNode]) -> None:
        """Add the backward pass; meanwhile members add up their gradients: a bucket of
        them is sent as soon as it is complete. Buckets are in memory in the order in
        which they become complete."""
        if self.purpose.distribute == "central" and self.purpose.kind == "train":
            how = "reduce"
        else:
            how = "all_reduce"
        trainable = [node for node in reversed(nodes) if node.layer.parameters]
        self.program.gradient_values = sum(
            whole_lines(node.layer.parameters) for node in trainable
        )
        bucket = []
        begin = 0
        for node in reversed(nodes):
            phases = kind_of(node.layer).backward(self.ws, node)
            if node.gradient:
                bucket += [node]
            full = (self.program.sum_values - begin) * self.itemsize >= BUCKET_BYTES
            if bucket and (full or node is trainable[-1]):
                gradients = [op for op in phases[0] if op.gives_gradients]
                self._add("backward", node.index, [gradients])
                # goes on while the bucket is on its way
                phases[0] = [op for op in phases[0] if not op.gives_gradients]
                self._add_partial_sums(bucket)
                values = self.program.sum_values - begin
                self._send(how, node.index, Buffer("gradients", begin), values)
                bucket = []
                begin = self.program.sum_values
            self._add("backward", node.index, phases)
        self._meet()

    def _add_partial_sums(self, nodes: list[LayerNode]) -> None:
        ops = []
        for node in nodes:
            splits = node.row_splits
            size = node.layer.parameters
            if splits > 1:
                op = self._put_gradients(node.gradient_sum, node.gradient, splits, size)
                ops.append(replace(op, step=("backward", node.index)))
        if ops:
            self.program.phases += [ops]

    def _send(self, how: str, layer: int | None, buffer: Buffer, values: int) -> None:
        """Begin to communicate; the next phases are computed meanwhile."""
        self.program.sent.append((how, values))
        op = Op(f"NCCL {how}", host=lambda r, n: r.send(how, r.address(buffer), values))
        self._add("communication", layer, [[op]])

    def _meet(self) -> None:
        op = Op("wait for NCCL", host=lambda r, n: r.meet())
        self._add("communication", None, [[op]])
