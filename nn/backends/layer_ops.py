"""What each kind of layer does on the GPU, as phases: which kernel of which .cu file, or which library, and how the
work is shared out. A kind has forward(builder, step) and backward(builder, step), and a line in KINDS."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..layers import Layer
from .program import THREADS, Op, Phase, Step
from .tiles import SHARED_LIMIT

if TYPE_CHECKING:
    from .builder import Builder

PHASE_COST = 2.5  # microseconds: a barrier or a graph's node, and starting work
PART_COST = 1e-6  # microseconds to write and read a byte of a sum's part,
PART_DELAY = 0.01  # and to wait for one
NEVER = math.inf
DIRECT_WEIGHTS, DIRECT_KERNEL = 20_000, 5  # the largest convolutions that are computed without a product,
DIRECT_WORK = 8  # and the most filters times blocks of pixels for each multiprocessor, from 4 channels on
NARROW = 4  # outputs of a dense layer that are computed along rows, not in tiles
FEW_SPLITS = 16  # parts that one thread adds up; more are shared among 8


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
