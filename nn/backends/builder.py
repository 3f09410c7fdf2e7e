"""Writes the program of a network: layers in, phases and the memory that they need out."""

from __future__ import annotations

from dataclasses import replace

from ..layers import Layer
from .layer_ops import FEW_SPLITS, KINDS, Last
from .program import LINE, THREADS, Buffer, Op, Phase, Program, Purpose, Step, lanes_of
from .tiles import Tile, choose

BUCKET_BYTES = 4 << 20  # of gradients that are sent at a time, or more: a message of this size costs about what its
# bytes do (some 20 us of delay, 400 GB/s between GPUs)


def whole_lines(values: int) -> int:
    """So many values, filled up to the next multiple of LINE."""
    return -(-values // LINE) * LINE


def _gradient_buffer(at: int) -> Buffer:
    return Buffer(f"(c.gradients + {at}LL)", "gradients", at)


class Builder:
    """Writes the program of a network for a purpose. `library` may take over ops: see cuda.Libraries."""

    def __init__(self, layers: list[Layer], loss: str, itemsize: int, processors: int, library=None):
        self.layers, self.loss, self.itemsize, self.processors = layers, loss, itemsize, processors
        self.library = library

    def build(self, purpose: Purpose) -> Program:
        """The phases of one batch."""
        self.purpose, self.program = purpose, Program(purpose)
        self.parts, self.ready = 0, []
        x = self.buffer(self.layers[0].inputs)
        steps = self._steps(x)
        self._add("gather", None, self._gather(x))
        begin = len(self.program.phases)
        for step in steps:
            self._add("forward", step.index, KINDS[step.layer.kind].forward(self, step))
        if any(op.step[1] == steps[0].index for op in self.ready):
            self.program.phases.insert(begin, self.ready)
        elif self.ready:
            self.program.phases[begin] += self.ready
        if purpose.kind == "predict":
            self._add("forward", steps[-1].index, self._softmax(steps[-1]) + self._keep(steps[-1]))
        elif steps[-1].last:
            self._add("forward", steps[-1].index, Last.forward(self, steps[-1]))
        else:
            self._add("loss", None, self._loss(steps[-1]))
        if purpose.backward:
            if purpose.distribute:
                self._backward_together(steps)
            else:
                self._backward(steps)
            if purpose.steps:  # one phase for all layers
                updates = [replace(self._update(step), step=("update", step.index)) for step in steps if step.gradient]
                self.program.phases += [updates] if updates else []
            if purpose.distribute == "central" and purpose.kind == "train":
                self._send("broadcast", 0, Buffer("", "parameters", 0), sum(layer.parameters for layer in self.layers))
                self._meet()
        if purpose.timed:
            self.program.phases = [[op] for phase in self.program.phases for op in phase]
        self.program.part_values = self.parts
        return self.program

    def _add(self, name: str, layer: int | None, phases: list[Phase]) -> None:
        self.program.phases += [[replace(op, step=(name, layer)) for op in phase] for phase in phases]

    def _backward(self, steps: list[Step]) -> None:
        """From the last layer down. Where the last layer's dx is there already, its gradients may be computed beside
        what comes next."""
        phases, begin, last = self.program.phases, len(self.program.phases), steps[-1]
        for step in reversed(steps[:-1] if last.last else steps):
            self._add("backward", step.index, KINDS[step.layer.kind].backward(self, step))
        if last.last:
            self._add("backward", last.index, KINDS[last.layer.kind].backward(self, last))
            own = phases.pop()
            if len(phases) == begin or not Last.beside(self, last):
                phases.insert(begin, own)
            else:
                phases[begin] += own

    # ---- memory

    def buffer(self, width: int) -> Buffer:
        """An expression for a new buffer of that many values a row."""
        place = self.program.row_values
        self.program.row_values += whole_lines(width)
        return Buffer(f"(c.rows + c.capacity * {place}LL)", "rows", place)

    def make_ready(self, step: Step, call: str, width: int, values: int) -> Buffer:
        """A buffer of `width` values that an op fills from the parameters before anything needs it: `call` with its
        {buffer} and a {team} over `values`."""
        buffer = self.buffer(-(-width // self.purpose.rows))
        op = Op(call.format(buffer=buffer, team="{team}"), self.elementwise(values), step=("forward", step.index))
        self.ready.append(op)
        return buffer

    def parts_for(self, values: int) -> str:
        """An expression for memory where the parts of split sums go, until the next phase."""
        self.parts = max(self.parts, values)
        return "c.parts"

    def _gradients_for(self, step: Step) -> None:
        """Memory for a layer's gradients, and for the sum of their parts where that is to be sent."""
        if not self.purpose.distribute:
            step.gradient = self._gradient_values(step.splits * step.layer.parameters)
            return
        step.sum = _gradient_buffer(self.program.sum_values)
        self.program.sum_values += whole_lines(step.layer.parameters)
        one = step.splits == 1
        step.gradient = step.sum if one else self._gradient_values(step.splits * step.layer.parameters)

    def _gradient_values(self, values: int) -> Buffer:
        at = self.program.gradient_values
        self.program.gradient_values += whole_lines(values)
        return _gradient_buffer(at)

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
        for under, step in zip(steps, steps[1:], strict=False):
            step.under, under.above = under, step
        steps[-1].last = self.purpose.kind != "predict" and Last.suits(self, steps[-1].layer)
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
        """Blocks for a loop over that many values: enough to fill the GPU twice, starting more takes longer."""
        return max(1, min(-(-values // THREADS), 16 * self.processors))

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
        splits, gradient = (1, step.sum) if step.sum else (step.splits, step.gradient)
        if self.purpose.kind == "gradients":
            return self._each_gradient(f"put_gradients<{splits}, {size}>(c.out + {step.at}LL, {gradient}", splits, size)
        settings = f"{self.purpose.optimizer}, {splits}, {size - step.layer.biases}, {size}"
        return self._each_gradient(f"update_layer<{settings}>({step.at}LL, {gradient}, c, b", splits, size)

    def _each_gradient(self, call: str, splits: int, size: int) -> Op:
        """An op that runs over a layer's gradients; see each_gradient in optimizer.cu."""
        self.share(THREADS)
        return Op(f"{call}, {{team}})", -(-size // 32) if splits > FEW_SPLITS else self.elementwise(size))

    # ---- what members of a group do together

    def _backward_together(self, steps: list[Step]) -> None:
        """The backward pass, and while it goes on the gradients are added up over the members: a bucket of them is sent
        as soon as it is complete. Buckets lie side by side in the order in which they become so."""
        how = "reduce" if self.purpose.distribute == "central" and self.purpose.kind == "train" else "all_reduce"
        learners = [step for step in reversed(steps) if step.layer.parameters]
        self.program.gradient_values = sum(whole_lines(step.layer.parameters) for step in learners)
        bucket, begin = [], 0
        for step in reversed(steps):
            phases = KINDS[step.layer.kind].backward(self, step)
            bucket += [step] if step.gradient else []
            full = (self.program.sum_values - begin) * self.itemsize >= BUCKET_BYTES
            if bucket and (full or step is learners[-1]):
                self._add("backward", step.index, [[op for op in phases[0] if op.learns]])
                phases[0] = [op for op in phases[0] if not op.learns]  # it goes on while the bucket is on its way
                self._add_parts(bucket)
                self._send(how, step.index, _gradient_buffer(begin), self.program.sum_values - begin)
                bucket, begin = [], self.program.sum_values
            self._add("backward", step.index, [phase for phase in phases if phase])
        self._meet()

    def _add_parts(self, steps: list[Step]) -> None:
        ops = [
            replace(
                self._each_gradient(
                    f"put_gradients<{step.splits}, {step.layer.parameters}>({step.sum}, {step.gradient}",
                    step.splits, step.layer.parameters,
                ),
                step=("backward", step.index),
            )
            for step in steps if step.splits > 1
        ]  # fmt: skip
        self.program.phases += [ops] if ops else []

    def _send(self, how: str, layer: int | None, buffer: Buffer, values: int) -> None:
        """Begin to communicate, beside what is computed next."""
        self.program.sent.append((how, values))
        self._add("communication", layer, [[Op(host=lambda r, n: r.send(how, r.address(buffer), values))]])

    def _meet(self) -> None:
        """Wait for all that was sent."""
        self._add("communication", None, [[Op(host=lambda r, n: r.meet())]])

    # ---- products

    def share(self, values: int) -> None:
        """A block needs memory for that many values."""
        self.program.shared_bytes = max(self.program.shared_bytes, values * self.itemsize)

    def aligned(self, at: int) -> int:
        """1 where a parameter's address is a multiple of 16 bytes."""
        return int(at * self.itemsize % 16 == 0)

    def tile(self, m: int, n: int, k: int, fixed: float, part: float, alone: bool = False) -> Tile:
        """The tile and splits for a product; microseconds that splitting costs at all, and each part; alone: nothing
        else is computed meanwhile."""
        resident = 2 if alone and self.library else 1  # a kernel that runs whole epochs has one block a multiprocessor
        tile = choose(m, n, k, self.itemsize, self.processors, fixed, part, resident)
        self.program.shared_bytes = max(self.program.shared_bytes, tile.bytes(self.itemsize))
        return tile
