"""Writes the program of a network: layers in, phases and the memory that they need out."""

from __future__ import annotations

from dataclasses import replace

from ..layers import Layer
from .layer_ops import FEW_SPLITS, KINDS
from .program import LINE, THREADS, Buffer, Op, Phase, Program, Purpose, Step, lanes_of
from .tiles import Tile, choose


class Builder:
    """Writes the program of a network for a purpose. `library` may take over ops: see cuda.Libraries."""

    def __init__(self, layers: list[Layer], loss: str, itemsize: int, processors: int, library=None):
        self.layers, self.loss, self.itemsize, self.processors = layers, loss, itemsize, processors
        self.library = library

    def build(self, purpose: Purpose) -> Program:
        """The phases of one batch."""
        self.purpose, self.program = purpose, Program(purpose)
        self.parts = 0
        x = self.buffer(self.layers[0].inputs)
        steps = self._steps(x)
        self._add("gather", None, self._gather(x))
        for step in steps:
            self._add("forward", step.index, KINDS[step.layer.kind].forward(self, step))
        if purpose.kind == "predict":
            self._add("forward", steps[-1].index, self._softmax(steps[-1]) + self._keep(steps[-1]))
        else:
            self._add("loss", None, self._loss(steps[-1]))
        if purpose.backward:
            for step in reversed(steps):
                self._add("backward", step.index, KINDS[step.layer.kind].backward(self, step))
            # one phase for all layers
            updates = [replace(self._update(step), step=("update", step.index)) for step in steps if step.gradient]
            self.program.phases += [updates] if updates else []
        if purpose.timed:
            self.program.phases = [[op] for phase in self.program.phases for op in phase]
        self.program.part_values = self.parts
        return self.program

    def _add(self, name: str, layer: int | None, phases: list[Phase]) -> None:
        self.program.phases += [[replace(op, step=(name, layer)) for op in phase] for phase in phases]

    # ---- memory

    def buffer(self, width: int) -> Buffer:
        """An expression for a new buffer of that many values a row."""
        place = self.program.row_values
        self.program.row_values += -(-width // LINE) * LINE
        return Buffer(f"(c.rows + c.capacity * {place}LL)", "rows", place)

    def parts_for(self, values: int) -> str:
        """An expression for memory where the parts of split sums go, until the next phase."""
        self.parts = max(self.parts, values)
        return "c.parts"

    def _gradients_for(self, step: Step) -> None:
        at = self.program.gradient_values
        step.gradient = Buffer(f"(c.gradients + {at}LL)", "gradients", at)
        self.program.gradient_values += -(-step.splits * step.layer.parameters // LINE) * LINE

    # ---- steps

    def _steps(self, x: str) -> list[Step]:
        """The layers that do something: a flatten passes its input on, as it lies in memory already."""
        steps, at = [], 0
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            idle = layer.kind == "dropout" and not self.purpose.dropout
            if (layer.kind == "flatten" or idle) and layer.activation == "linear" and index < last:
                continue
            by_loss = index == last and self.purpose.kind != "predict"
            activation = "linear" if by_loss or layer.activation == "softmax" else layer.activation
            steps.append(Step(layer, index, at, activation))
            at += layer.parameters
        below, input_activation = x, "linear"
        for step in steps:
            step.x, step.below = below, input_activation
            step.out = below = self.buffer(step.layer.outputs)
            input_activation = step.layer.activation
        if self.purpose.kind == "predict" and not self.library:
            steps[-1].out = f"(c.out + b.row * {steps[-1].layer.outputs}LL)"
        if self.purpose.backward:
            self._point_gradients(steps)
        return steps

    def _point_gradients(self, steps: list[Step]) -> None:
        steps[-1].dz = steps[-1].out  # the loss turns one into the other
        for below, step in zip(steps, steps[1:], strict=False):
            below.dz = step.dx = self.buffer(below.layer.outputs)
        if self.purpose.kind == "gradients":
            steps[0].dx = Buffer("c.input_gradient", "input_gradient", 0)

    # ---- ops that belong to no layer

    def elementwise(self, values: int) -> int:
        """Blocks for a loop over that many values."""
        return -(-values // THREADS)

    def _gather(self, x: str) -> list[Phase]:
        width = self.layers[0].inputs
        call = f"gather<{width}, {int(self.purpose.bytes)}>({x}, c, b, {{team}})"
        return [[Op(call, self.elementwise(self.purpose.rows * width))]]

    def _softmax(self, step: Step) -> list[Phase]:
        if step.layer.activation != "softmax":
            return []
        call = f"activation_forward<SOFTMAX, {step.layer.outputs}>({step.out}, b.n, {{team}})"
        return [[Op(call, self.elementwise(self.purpose.rows * 32))]]

    def _keep(self, step: Step) -> list[Phase]:
        """Where a library may have computed the outputs, which cannot place them row by row."""
        if not self.library:
            return []
        call = f"keep_rows<{step.layer.outputs}>({step.out}, c, b, {{team}})"
        return [[Op(call, self.elementwise(self.purpose.rows * step.layer.outputs))]]

    def _loss(self, step: Step) -> list[Phase]:
        settings = f"{self.loss.upper()}, {step.layer.activation.upper()}, {step.layer.outputs}"
        lanes = lanes_of(step.layer.outputs)
        call = f"loss_backward<{settings}, {int(self.purpose.labels)}, {lanes}>({step.out}, c, b, {{team}})"
        return [[Op(call, self.elementwise(self.purpose.rows * lanes))]]

    def _update(self, step: Step) -> Op:
        """A layer's step, or its gradients for the host."""
        size = step.layer.parameters
        self.share(THREADS)
        if self.purpose.kind == "gradients":
            call = f"keep_gradients<{step.splits}, {size}>({step.at}LL, {step.gradient}, c, {{team}})"
            return Op(call, self.elementwise(size))
        shared = step.splits > FEW_SPLITS
        call = (
            f"update_layer{'_shared' * shared}<{self.purpose.optimizer}, {step.splits}, {size - step.layer.biases}, "
            f"{size}>({step.at}LL, {step.gradient}, c, b, {{team}})"
        )
        return Op(call, -(-size // 32) if shared else self.elementwise(size))

    # ---- products

    def share(self, values: int) -> None:
        """A block needs memory for that many values."""
        self.program.shared_bytes = max(self.program.shared_bytes, values * self.itemsize)

    def aligned(self, at: int) -> int:
        """1 where a parameter's address is a multiple of 16 bytes."""
        return int(at * self.itemsize % 16 == 0)

    def tile(self, m: int, n: int, k: int, fixed: float, part: float) -> Tile:
        """The tile and splits for a product; microseconds that splitting costs at all, and each part."""
        tile = choose(m, n, k, self.itemsize, self.processors, fixed, part)
        self.program.shared_bytes = max(self.program.shared_bytes, tile.bytes(self.itemsize))
        return tile
