"""What a GPU does with one batch, as a list of phases: from layers to calls of the functions in the .cu files.

An op is such a call. The ops of one phase do not wait for each other; a phase waits for the one before it. The same
list becomes one kernel that runs whole epochs, its blocks meeting at a barrier after each phase, or a kernel a
phase, replayed as a graph, beside calls of a library (gpu.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from ..layers import Layer
from .tiles import SHARED_LIMIT, Tile, choose

SOURCES = [
    "common", "activation", "gemm", "dense", "conv", "direct", "pool", "dropout", "rows", "optimizer",
]  # fmt: skip
THREADS = 256
LINE = 32  # values; buffers begin at multiples of it


@dataclass(frozen=True)
class Op:
    """A call of a device function by `blocks` blocks ({team}: which ones), or of a library: host(memory, rows)."""

    call: str = ""
    blocks: int = 1
    host: Callable[[object, int], None] | None = None
    step: tuple[str, int | None] = ("", None)  # what it is part of, as backends.Step names it


class Buffer(str):
    """A place in the GPU's memory: the text is its address in CUDA source, `of` and `at` say the same to the host:
    rows, gradients or parameters, and the value in them (for rows: a row's value, times the rows of a batch)."""

    of: str
    at: int

    def __new__(cls, text: str, of: str, at: int):
        self = super().__new__(cls, text)
        self.of, self.at = of, at
        return self


Phase = list[Op]


@dataclass(frozen=True)
class Purpose:
    """What the program is for, and with which data and settings."""

    kind: str  # train, gradients, loss, predict
    rows: int  # of a batch
    labels: bool = False  # targets are class indices
    bytes: bool = False  # inputs are bytes
    dropout: bool = False  # dropout acts
    optimizer: str = ""  # SGD, MOMENTUM, ADAM
    timed: bool = False  # every op is a phase of its own, so that it can be timed

    @property
    def backward(self) -> bool:
        """Gradients are wanted."""
        return self.kind in ("train", "gradients")


@dataclass
class Step:
    """A layer in the program: its place in the parameter vector, its activation here, its buffers."""

    layer: Layer
    index: int  # in the network, flatten counted: the layer of dropout's masks
    at: int  # of its weights in a parameter vector
    activation: str  # of its op; linear where the loss applies it
    x: Buffer | str = ""
    out: Buffer | str = ""
    dz: Buffer | str = ""
    dx: Buffer | str = ""  # "": not wanted
    below: str = "linear"
    gradient: Buffer | str = ""
    splits: int = 1  # parts that its gradients come in


@dataclass
class Program:
    """Phases, and the memory that they need: values a row of the batch, and gradient values."""

    purpose: Purpose
    phases: list[Phase] = field(default_factory=list)
    row_values: int = 0
    gradient_values: int = 0
    part_values: int = 0
    shared_bytes: int = 0

    @property
    def only_kernels(self) -> bool:
        """No phase calls a library."""
        return not any(op.host for phase in self.phases for op in phase)


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


# ---------------------------------------------------------------- layer kinds

PHASE_COST = 2.5  # microseconds: a barrier or a graph's node, and starting work
PART_COST = 1e-6  # microseconds to write and read a byte of a sum's part,
PART_DELAY = 0.01  # and to wait for one
NEVER = math.inf
DIRECT_WEIGHTS, DIRECT_KERNEL = 20_000, 5  # the largest convolutions that are computed without a product,
DIRECT_WORK = 8  # and the most filters times blocks of pixels for each multiprocessor, from 4 channels on
NARROW = 4  # outputs of a dense layer that are computed along rows, not in tiles
FEW_SPLITS = 16  # parts that one thread adds up; more are shared among 8


def lanes_of(width: int) -> int:
    """Threads that share a row of that many outputs: a warp, or one."""
    return 32 if width > 2 else 1


def _names(*values) -> str:
    return ", ".join(str(value) for value in values)


class Dense:
    """dense.cu"""

    @staticmethod
    def forward(p: Builder, s: Step) -> list[Phase]:
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        weight, bias = f"c.parameters + {s.at}LL", f"c.parameters + {s.at + i * o}LL"
        activation = s.activation.upper()
        finish = p.elementwise(n * o)
        if p.library and p.library.wants_product(n, o, i):
            done = Op(f"dense_finish<0, {o}, {activation}>({s.out}, c.parts, {bias}, b.n, {{team}})", finish)
            return [[Op(host=p.library.dense_forward(s))], [done]]
        if o <= NARROW:
            call = f"narrow_forward<{i}, {o}, {activation}>({s.out}, {s.x}, {weight}, {bias}, b.n, {{team}})"
            return [[Op(call, p.elementwise(n * 32))]]
        tile = p.tile(n, o, i, PHASE_COST, PART_COST * p.itemsize * n * o)
        parts = p.parts_for(tile.splits * n * o if tile.splits > 1 else 0)
        call = (
            f"dense_forward<{tile}, {tile.splits}, {i}, {o}, {p.aligned(s.at)}, {activation}>"
            f"({s.out}, {parts}, {s.x}, {weight}, {bias}, b.n, {{team}})"
        )
        phases = [[Op(call, tile.count(n, o))]]
        if tile.splits > 1:
            call = f"dense_finish<{tile.splits}, {o}, {activation}>({s.out}, {parts}, {bias}, b.n, {{team}})"
            phases.append([Op(call, finish)])
        return phases

    @staticmethod
    def backward(p: Builder, s: Step) -> list[Phase]:
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        below, after, phase = s.below.upper(), [], []
        weight = f"c.parameters + {s.at}LL"
        finish = p.elementwise(n * i)
        if o <= NARROW:
            return Dense._narrow_backward(p, s)
        if s.dx and p.library and p.library.wants_product(n, i, o):
            phase.append(Op(host=p.library.dense_backward_input(s)))
            if s.below != "linear":
                after.append(Op(f"input_finish<0, {i}, {below}>({s.dx}, c.parts, {s.x}, b.n, {{team}})", finish))
        elif s.dx:
            tile = p.tile(n, i, o, PHASE_COST, PART_COST * p.itemsize * n * i)
            parts = p.parts_for(tile.splits * n * i if tile.splits > 1 else 0)
            call = (
                f"dense_backward_input<{tile}, {tile.splits}, {i}, {o}, {p.aligned(s.at)}, {below}>"
                f"({s.dx}, {parts}, {s.dz}, {weight}, {s.x}, b.n, {{team}})"
            )
            phase.append(Op(call, tile.count(n, i)))
            if tile.splits > 1:
                call = f"input_finish<{tile.splits}, {i}, {below}>({s.dx}, {parts}, {s.x}, b.n, {{team}})"
                after.append(Op(call, finish))
        if p.library and p.library.wants_product(o, i, n):
            p._gradients_for(s)
            phase.append(Op(host=p.library.dense_backward_parameters(s)))
            call = f"dense_backward_bias<{o}>({s.gradient} + {i * o}LL, {s.dz}, b.n, {{team}})"
            phase.append(Op(call, -(-o // 32)))
            p.share(THREADS)
        else:
            tile = p.tile(o, i + 1, n, 0, PART_DELAY + PART_COST * p.itemsize * s.layer.parameters)
            s.splits = tile.splits
            p._gradients_for(s)
            call = (
                f"dense_backward_parameters<{tile}, {tile.splits}, {i}, {o}>"
                f"({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
            )
            phase.append(Op(call, tile.count(o, i + 1)))
        return [phase, after] if after else [phase]


    @staticmethod
    def _narrow_backward(p: Builder, s: Step) -> list[Phase]:
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        columns = -(-(i + 1) // 32)
        s.splits = max(1, min(-(-n // 64), 4 * p.processors // columns))  # 8 rows a thread are worth a part
        p._gradients_for(s)
        p.share(o * THREADS)
        phase = []
        if s.dx:
            call = (
                f"narrow_backward_input<{i}, {o}, {s.below.upper()}>"
                f"({s.dx}, {s.dz}, c.parameters + {s.at}LL, {s.x}, b.n, {{team}})"
            )
            phase.append(Op(call, p.elementwise(n * i)))
        call = f"narrow_backward_parameters<{s.splits}, {i}, {o}>({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
        return [[*phase, Op(call, columns * s.splits)]]


class Conv:
    """conv.cu"""

    @staticmethod
    def shape(layer: Layer) -> str:
        """The template argument that names the layer's sizes."""
        (c, ih, iw), (f, oh, ow) = layer.in_shape, layer.out_shape
        sizes = _names(c, ih, iw, f, oh, ow, layer.kernel, layer.stride, layer.pad_top, layer.pad_left)
        return f"conv_shape<{sizes}>"

    @staticmethod
    def forward(p: Builder, s: Step) -> list[Phase]:
        layer, n = s.layer, p.purpose.rows
        filters, taps, pixels = layer.out_shape[0], layer.fan_in, math.prod(layer.out_shape[1:])
        weight, bias = f"c.parameters + {s.at}LL", f"c.parameters + {s.at + filters * taps}LL"
        if p.library and p.library.convolves(layer):
            call = f"conv_finish<{filters}, {pixels}, {s.activation.upper()}>({s.out}, {bias}, b.n, {{team}})"
            return [[Op(host=p.library.conv_forward(s))], [Op(call, p.elementwise(n * layer.outputs))]]
        if direct := Direct.group(p, layer, filters, pixels):
            p.share(taps * direct)
            call = (
                f"direct_forward<{Conv.shape(layer)}, {direct}, {s.activation.upper()}>"
                f"({s.out}, {s.x}, {weight}, {bias}, b.n, {{team}})"
            )
            return [[Op(call, -(-filters // direct) * p.elementwise(n * pixels))]]
        tile = p.tile(filters, n * pixels, taps, NEVER, 0)
        call = (
            f"conv_forward<{tile}, {Conv.shape(layer)}, {p.aligned(s.at)}, {s.activation.upper()}>"
            f"({s.out}, {s.x}, {weight}, {bias}, b.n, {{team}})"
        )
        return [[Op(call, tile.count(filters, n * pixels))]]

    @staticmethod
    def backward(p: Builder, s: Step) -> list[Phase]:
        layer, n = s.layer, p.purpose.rows
        filters, taps, pixels = layer.out_shape[0], layer.fan_in, math.prod(layer.out_shape[1:])
        channels, area, inputs = layer.in_shape[0], layer.kernel**2, math.prod(layer.in_shape[1:])
        phase, after = [], []
        by_library = p.library and p.library.convolves(layer)
        if s.dx and by_library:
            phase.append(Op(host=p.library.conv_backward_input(s)))
            if s.below != "linear":
                call = f"input_finish<0, {layer.inputs}, {s.below.upper()}>({s.dx}, c.parts, {s.x}, b.n, {{team}})"
                after.append([Op(call, p.elementwise(n * layer.inputs))])
        direct = Direct.group(p, layer, channels, inputs) if layer.stride == 1 else 0
        if s.dx and not by_library and direct:
            p.share(filters * area * direct)
            call = (
                f"direct_backward_input<{Conv.shape(layer)}, {direct}, {s.below.upper()}>"
                f"({s.dx}, {s.dz}, c.parameters + {s.at}LL, {s.x}, b.n, {{team}})"
            )
            phase.append(Op(call, -(-channels // direct) * p.elementwise(n * inputs)))
        elif s.dx and not by_library:
            tile = p.tile(channels, n * inputs, filters * area, NEVER, 0)
            call = (
                f"conv_backward_input<{tile}, {Conv.shape(layer)}, {s.below.upper()}>"
                f"({s.dx}, {s.dz}, c.parameters + {s.at}LL, {s.x}, b.n, {{team}})"
            )
            phase.append(Op(call, tile.count(channels, n * inputs)))
        if bands := Direct.bands(p, layer):
            per, rows, values = bands
            s.splits = min(p.processors, n * -(-layer.out_shape[1] // rows))
            p._gradients_for(s)
            p.share(max(values, THREADS))
            call = (
                f"direct_backward_parameters<{Conv.shape(layer)}, {per}, {rows}, {s.splits}>"
                f"({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
            )
            return [[*phase, Op(call, s.splits)], *after]
        tile = p.tile(filters, taps + 1, n * pixels, 0, PART_DELAY + PART_COST * p.itemsize * layer.parameters)
        s.splits = tile.splits
        p._gradients_for(s)
        call = (
            f"conv_backward_parameters<{tile}, {tile.splits}, {Conv.shape(layer)}>"
            f"({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
        )
        phase.append(Op(call, tile.count(filters, taps + 1)))
        return [phase, *after]


class Direct:
    """direct.cu: which convolutions are computed without a product, and how they are shared out"""

    @staticmethod
    def group(p: Builder, layer: Layer, filters: int, pixels: int) -> int:
        """Filters that a thread computes at once, 0: a matrix product is better. Large batches of large images with
        many channels are for products: each value that they load is used more often."""
        if layer.fan_in * layer.out_shape[0] > DIRECT_WEIGHTS or layer.kernel > DIRECT_KERNEL:
            return 0
        chunks = -(-p.purpose.rows * pixels // THREADS)
        if layer.in_shape[0] > 3 and chunks * filters > DIRECT_WORK * p.processors:
            return 0
        sizes = [size for size in (16, 8, 4) if size < 2 * filters] or [4]

        def time(size: int) -> int:  # a value is loaded and multiplied with each weight, by one block after the other
            return -(-(-(-filters // size) * chunks) // p.processors) * (2 + size)

        return min(sizes, key=time)

    @staticmethod
    def bands(p: Builder, layer: Layer) -> tuple[int, int, int] | None:
        """(filters a thread, output rows of a band, values in shared memory) for the weights' gradients; None: a
        matrix product is better."""
        (channels, _, _), (filters, height, width) = layer.in_shape, layer.out_shape
        if layer.kernel > 3 or layer.fan_in * filters > DIRECT_WEIGHTS:
            return None
        per = 2 if channels * filters > THREADS else 1
        if -(-filters // per) * channels > 2 * THREADS:
            return None
        for rows in range(height, 0, -1):
            x = (((rows - 1) * layer.stride + layer.kernel) * ((width - 1) * layer.stride + layer.kernel)) | 1
            values = channels * x + filters * (rows * width | 1)
            enough = p.purpose.rows * -(-height // rows) >= p.processors or rows == 1
            if enough and values * p.itemsize <= SHARED_LIMIT:
                return per, rows, values
        return None


class Pool:
    """pool.cu, max and average pooling"""

    @staticmethod
    def forward(p: Builder, s: Step) -> list[Phase]:
        if p.library and p.library.pools(s.layer):
            finish = []
            if s.activation != "linear":
                call = f"activation_forward<{s.activation.upper()}, {s.layer.outputs}>({s.out}, b.n, {{team}})"
                finish = [[Op(call, p.elementwise(p.purpose.rows * s.layer.outputs))]]
            return [[Op(host=p.library.pool_forward(s))], *finish]
        call = (
            f"{s.layer.kind}_forward<{Pool.shape(s.layer)}, {s.activation.upper()}>({s.out}, {s.x}, b.n, {{team}})"
        )
        return [[Op(call, p.elementwise(p.purpose.rows * s.layer.outputs))]]

    @staticmethod
    def backward(p: Builder, s: Step) -> list[Phase]:
        if not s.dx:
            return []
        call = (
            f"{s.layer.kind}_backward<{Pool.shape(s.layer)}, {s.below.upper()}>"
            f"({s.dx}, {s.dz}, {s.x}, b.n, {{team}})"
        )
        return [[Op(call, p.elementwise(p.purpose.rows * s.layer.inputs))]]

    @staticmethod
    def shape(layer: Layer) -> str:
        """The template argument that names the layer's sizes."""
        sizes = _names(*layer.in_shape, *layer.out_shape[1:], layer.kernel, layer.stride)
        return f"pool_shape<{sizes}>"


class Pad:
    """pool.cu, zeros around an image"""

    @staticmethod
    def sizes(layer: Layer) -> str:
        """The template arguments up to the activation."""
        return _names(*layer.in_shape[1:], *layer.out_shape[1:], layer.pad_top, layer.pad_left, layer.in_shape[0])

    @staticmethod
    def forward(p: Builder, s: Step) -> list[Phase]:
        call = f"pad_forward<{Pad.sizes(s.layer)}, {s.activation.upper()}>({s.out}, {s.x}, b.n, {{team}})"
        return [[Op(call, p.elementwise(p.purpose.rows * s.layer.outputs))]]

    @staticmethod
    def backward(p: Builder, s: Step) -> list[Phase]:
        if not s.dx:
            return []
        call = f"pad_backward<{Pad.sizes(s.layer)}, {s.below.upper()}>({s.dx}, {s.dz}, {s.x}, b.n, {{team}})"
        return [[Op(call, p.elementwise(p.purpose.rows * s.layer.inputs))]]


class Dropout:
    """dropout.cu; a flatten that stays in the program, for its activation, is a dropout that keeps everything"""

    @staticmethod
    def forward(p: Builder, s: Step) -> list[Phase]:
        width, activation = s.layer.outputs, s.activation.upper()
        if s.layer.kind == "dropout" and p.purpose.dropout:
            call = (
                f"dropout_forward<{width}, {s.index}, {activation}>({s.out}, {s.x}, {s.layer.rate!r}, b, {{team}})"
            )
        else:
            call = f"pass_forward<{width}, {activation}>({s.out}, {s.x}, b.n, {{team}})"
        return [[Op(call, p.elementwise(p.purpose.rows * width))]]

    @staticmethod
    def backward(p: Builder, s: Step) -> list[Phase]:
        if not s.dx:
            return []
        width, below = s.layer.outputs, s.below.upper()
        if s.layer.kind == "dropout" and p.purpose.dropout:
            call = (
                f"dropout_backward<{width}, {s.index}, {below}>"
                f"({s.dx}, {s.dz}, {s.x}, {s.layer.rate!r}, b, {{team}})"
            )
        else:
            call = f"pass_backward<{width}, {below}>({s.dx}, {s.dz}, {s.x}, b.n, {{team}})"
        return [[Op(call, p.elementwise(p.purpose.rows * width))]]


KINDS = {
    "dense": Dense,
    "conv": Conv,
    "maxpool": Pool,
    "avgpool": Pool,
    "pad": Pad,
    "dropout": Dropout,
    "flatten": Dropout,
}


# ---------------------------------------------------------------- source text


@cache
def sources(*names: str) -> str:
    """The text of the .cu files of these names, or of all that programs need."""
    folder = files(__package__)
    return "\n".join((folder / f"{name}.cu").read_text(encoding="utf-8") for name in names or SOURCES)


PRELUDE = """
#define SPIN
extern __shared__ __align__(16) char block_memory[];
#define BLOCK_MEMORY block_memory
"""


def phases_source(program: Program) -> str:
    """CUDA source of a program, a kernel a phase: phase0, phase1, ..., and advance, which goes on to the next batch."""
    kernels = [_phase_kernel(index, phase) for index, phase in enumerate(program.phases)]
    return PRELUDE + sources() + "\n".join(kernels) + ADVANCE


def epoch_source(program: Program) -> str:
    """CUDA source of a program as one kernel, epoch, for programs that need no library."""
    return PRELUDE + sources() + _epoch_kernel(program)


ADVANCE = """
extern "C" __global__ void advance(control *where)
{
    where->row += where->batch;
    where->index++;
}
"""


def _calls(phase: Phase, indent: str, start: int = 0) -> str:
    """The phase's calls; each op's blocks begin where those of the one before it end."""
    lines = []
    for op in phase:
        if op.call:
            lines.append(f"{indent}{op.call.format(team=f'team_from({start})')};")
            start += op.blocks
    return "\n".join(lines)


def blocks_of(phase: Phase) -> int:
    """Blocks that a phase's own ops can keep busy."""
    return sum(op.blocks for op in phase if op.call)


def _phase_kernel(index: int, phase: Phase) -> str:
    if not blocks_of(phase):
        return ""
    return f"""
extern "C" __global__ void __launch_bounds__(THREADS, 2) phase{index}(const control *where)
{{
    const control c = *where;
    const batch b = batch_of(c, c.row, c.index);
{_calls(phase, "    ")}
}}
"""


def _epoch_kernel(program: Program) -> str:
    """Batches one after the other. While the last phase of one updates the parameters, other blocks gather the rows
    of the next: nothing reads the old ones any more."""
    gather, *phases = program.phases
    body = "\n        grid_barrier(c.arrivals, target);\n".join(
        _calls(phase, " " * 8) for phase in phases
    )
    next_gather = _calls(gather, " " * 12, blocks_of(phases[-1])).replace(", b,", ", next,")
    return f"""
extern "C" __global__ void __launch_bounds__(THREADS, 1)
epoch(const control *where, int64 row, int64 index, int64 batches)
{{
    const control c = *where;
    unsigned target = 0;
    {{
        const batch b = batch_of(c, row, index);
{_calls(gather, " " * 8)}
    }}
    grid_barrier(c.arrivals, target);
    for (int64 done = 0; done < batches; done++) {{
        const batch b = batch_of(c, row + done * c.batch, index + done);
{body}
        if (done + 1 < batches) {{
            const batch next = batch_of(c, row + (done + 1) * c.batch, index + done + 1);
{next_gather}
        }}
        grid_barrier(c.arrivals, target);
    }}
}}
"""
