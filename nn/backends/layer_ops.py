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
PART_DELAY = 0.01  # and to wait for one,
LAST_PART_DELAY = 0.04  # which takes longer with few threads
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
        if s.last:
            return []
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
        by_last = s.above and s.above.last  # adds up the parts
        fixed, part = (0, LAST_PART_DELAY) if by_last else (PHASE_COST, 0)
        tile = p.tile(n, o, i, fixed, part + PART_COST * p.itemsize * n * o, alone=True)
        parts = p.parts_for(tile.splits * n * o if tile.splits > 1 else 0)
        call = (
            f"dense_forward<{tile}, {tile.splits}, {i}, {o}, {p.aligned(s.at)}, {activation}>"
            f"({s.out}, {parts}, {s.x}, {weight}, {bias}, b.n, {{team}})"
        )
        phases = [[Op(call, tile.count(n, o))]]
        if tile.splits > 1 and by_last:
            s.parts = tile.splits
        elif tile.splits > 1:
            call = f"dense_finish<{tile.splits}, {o}, {activation}>({s.out}, {parts}, {bias}, b.n, {{team}})"
            phases.append([Op(call, finish)])
        return phases

    @staticmethod
    def backward(p: Builder, s: Step) -> list[Phase]:
        phase, after = ([], []) if s.last or not s.dx else Dense._backward_input(p, s)
        phase += Dense._backward_parameters(p, s)
        return [phase, after] if after else [phase]

    @staticmethod
    def _backward_input(p: Builder, s: Step) -> tuple[Phase, Phase]:
        """The product, and what is to be done after it."""
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        below, weight, finish = s.below.upper(), f"c.parameters + {s.at}LL", p.elementwise(n * i)
        if o <= NARROW:
            call = f"narrow_backward_input<{i}, {o}, {below}>({s.dx}, {s.dz}, {weight}, {s.x}, b.n, {{team}})"
            return [Op(call, finish)], []
        if p.library and p.library.wants_product(n, i, o):
            done = Op(f"input_finish<0, {i}, {below}>({s.dx}, c.parts, {s.x}, b.n, {{team}})", finish)
            return [Op(host=p.library.dense_backward_input(s))], [done] if s.below != "linear" else []
        tile = p.tile(n, i, o, PHASE_COST, PART_COST * p.itemsize * n * i)
        parts = p.parts_for(tile.splits * n * i if tile.splits > 1 else 0)
        call = (
            f"dense_backward_input<{tile}, {tile.splits}, {i}, {o}, {p.aligned(s.at)}, {below}>"
            f"({s.dx}, {parts}, {s.dz}, {weight}, {s.x}, b.n, {{team}})"
        )
        done = Op(f"input_finish<{tile.splits}, {i}, {below}>({s.dx}, {parts}, {s.x}, b.n, {{team}})", finish)
        return [Op(call, tile.count(n, i))], [done] if tile.splits > 1 else []

    @staticmethod
    def _backward_parameters(p: Builder, s: Step) -> Phase:
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        if o <= NARROW:
            columns = -(-(i + 1) // 32)
            s.splits = max(1, min(-(-n // 64), 4 * p.processors // columns))  # 8 rows a thread are worth a part
            p._gradients_for(s)
            p.share(o * THREADS)
            call = f"narrow_backward_parameters<{s.splits}, {i}, {o}>({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
            return [Op(call, columns * s.splits, learns=True)]
        if p.library and p.library.wants_product(o, i, n):
            p._gradients_for(s)
            p.share(THREADS)
            call = f"dense_backward_bias<{o}>({s.gradient} + {i * o}LL, {s.dz}, b.n, {{team}})"
            return [Op(host=p.library.dense_backward_parameters(s), learns=True), Op(call, -(-o // 32), learns=True)]
        tile = p.tile(o, i + 1, n, 0, PART_DELAY + PART_COST * p.itemsize * s.layer.parameters, alone=not s.dx)
        s.splits = tile.splits
        p._gradients_for(s)
        dz, settings = s.dz, f"{tile}, {tile.splits}, {i}, {o}"
        if Last.works_out_dz(p, s):
            dz = f"{s.out}, c.parameters + {s.above.at}LL, {s.above.dz}"
            settings += f", {s.above.below.upper()}"
        call = f"dense_backward_parameters<{settings}>({s.gradient}, {dz}, {s.x}, b.n, {{team}})"
        return [Op(call, tile.count(o, i + 1), learns=True)]


class Last:
    """dense.cu, the last layer of a network that learns: outputs, loss and dx in one op, where it has few outputs"""

    MOST_OUTPUTS, MOST_PRODUCTS = 16, 2**24
    LONG = 1024  # inputs that more than one warp adds up
    MOST_BESIDE = 2**20  # values of x; a kernel of a product has too few threads for a loop over more

    @staticmethod
    def suits(p: Builder, layer: Layer) -> bool:
        """The layer is done so."""
        few = layer.kind == "dense" and layer.outputs <= Last.MOST_OUTPUTS
        return few and p.purpose.rows * layer.outputs * layer.inputs <= Last.MOST_PRODUCTS

    @staticmethod
    def beside(p: Builder, s: Step) -> bool:
        """Its gradients are computed beside those of the layer below."""
        return p.purpose.rows * s.layer.inputs <= Last.MOST_BESIDE

    @staticmethod
    def works_out_dz(p: Builder, s: Step | None) -> bool:
        """The gradients of this layer below take its dz from the single output's, so that it is never stored."""
        if s is None or s.dx or s.layer.kind != "dense" or s.above is None or not s.above.last:
            return False
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        by_library = p.library and p.library.wants_product(o, i, n)
        return s.above.layer.outputs == 1 and o > NARROW and not by_library

    @staticmethod
    def forward(p: Builder, s: Step) -> list[Phase]:
        i, o, n = s.layer.inputs, s.layer.outputs, p.purpose.rows
        warps = THREADS // 32 if n <= 2 * p.processors or i >= Last.LONG else 1  # of a row
        p.share(THREADS // 32 * o)
        parts, under, bias = 0, "LINEAR", "0"
        if s.under and s.under.parts:
            parts, under = s.under.parts, s.under.activation.upper()
            bias = f"c.parameters + {s.under.at + s.under.layer.parameters - s.under.layer.outputs}LL"
        dx = "0" if not s.dx or Last.works_out_dz(p, s.under) else s.dx
        settings = _names(
            p.loss.upper(), s.layer.activation.upper(), int(p.purpose.labels), warps, i, o, parts, under,
            int(dx != "0"), s.below.upper(),
        )  # fmt: skip
        call = (
            f"last_layer<{settings}>({dx}, {s.out}, {s.x}, c.parts, {bias}, c.parameters + {s.at}LL, "
            f"c.parameters + {s.at + i * o}LL, c, b, {{team}})"
        )
        return [[Op(call, -(-n * 32 * warps // THREADS))]]


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
        if Winograd.suits(p, layer):
            return [[Winograd.forward(p, s, bias)]]
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
        if s.dx and not by_library and Winograd.suits(p, layer):
            phase.append(Winograd.backward_input(p, s))
        elif s.dx and not by_library and direct:
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
        if Winograd.suits(p, layer):
            return [[*phase, Winograd.backward_parameters(p, s)], *after]
        if bands := Direct.bands(p, layer):
            per, rows, values = bands
            count = n * -(-layer.out_shape[1] // rows)
            s.splits = min(p.processors * (4 if count > 16 * p.processors else 1), count)
            p._gradients_for(s)
            p.share(max(values, THREADS))
            call = (
                f"direct_backward_parameters<{Conv.shape(layer)}, {per}, {rows}, {s.splits}>"
                f"({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
            )
            return [[*phase, Op(call, s.splits, learns=True)], *after]
        tile = p.tile(filters, taps + 1, n * pixels, 0, PART_DELAY + PART_COST * p.itemsize * layer.parameters)
        s.splits = tile.splits
        p._gradients_for(s)
        call = (
            f"conv_backward_parameters<{tile}, {tile.splits}, {Conv.shape(layer)}>"
            f"({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
        )
        phase.append(Op(call, tile.count(filters, taps + 1), learns=True))
        return [phase, *after]


class Winograd:
    """winograd.cu: which convolutions are computed with fewer multiplications, and how they are shared out"""

    LEAST = 16  # channels and filters, of 32 that are computed at once
    SIDE, DEPTH, PLACES = 32, 8, 16  # as in winograd.cu

    @staticmethod
    def suits(p: Builder, layer: Layer) -> bool:
        """A convolution is computed so."""
        wide = min(layer.in_shape[0], layer.out_shape[0]) >= Winograd.LEAST
        return p.itemsize == 4 and layer.kernel == 3 and layer.stride == 1 and wide

    @staticmethod
    def pools(p: Builder, s: Step | None) -> bool:
        """This layer's forward pass is the next one's, too: a max pooling of as many outputs as a tile has."""
        if s is None or s.layer.kind != "conv" or s.above is None or s.above.layer.kind != "maxpool":
            return False
        by_library = p.library and (p.library.convolves(s.layer) or p.library.pools(s.above.layer))
        pool = s.above.layer
        tile = pool.kernel == pool.stride == 2 and s.above.activation == "linear"
        return tile and not by_library and Winograd.suits(p, s.layer)

    @staticmethod
    def tiles(p: Builder, shape: tuple[int, int, int]) -> int:
        """Tiles of a batch's outputs of that shape."""
        return p.purpose.rows * -(-shape[1] // 2) * -(-shape[2] // 2)

    @staticmethod
    def sides(channels: int) -> int:
        """Blocks that so many channels take."""
        return -(-channels // Winograd.SIDE)

    @staticmethod
    def _kernels(p: Builder, s: Step, function: str, channels: int, filters: int) -> str:
        values = -(-channels // Winograd.DEPTH) * Winograd.DEPTH * Winograd.sides(filters) * Winograd.SIDE
        call = f"{function}<{Conv.shape(s.layer)}>({{buffer}}, c.parameters + {s.at}LL, {{team}})"
        return p.make_ready(s, call, Winograd.PLACES * values, values)

    @staticmethod
    def _convolution(p: Builder, call: str, filters: int, shape: tuple[int, int, int]) -> Op:
        p.share(3 * Winograd.DEPTH * Winograd.PLACES * Winograd.SIDE)
        return Op(call, Winograd.sides(filters) * -(-Winograd.tiles(p, shape) // Winograd.SIDE))

    @staticmethod
    def forward(p: Builder, s: Step, bias: str) -> Op:
        """out; the kernels of the backward pass are made ready, too."""
        channels, filters = s.layer.in_shape[0], s.layer.out_shape[0]
        kernels = Winograd._kernels(p, s, "winograd_kernels", channels, filters)
        if s.dx:
            s.turned = Winograd._kernels(p, s, "winograd_turned_kernels", filters, channels)
        pools = Winograd.pools(p, s)
        settings = f"{Conv.shape(s.layer)}, {s.activation.upper()}, {int(pools)}"
        pooled = s.above.out if pools else "0"
        call = f"winograd_forward<{settings}>({s.out}, {pooled}, {s.x}, {kernels}, {bias}, b.n, {{team}})"
        return Winograd._convolution(p, call, filters, s.layer.out_shape)

    @staticmethod
    def backward_input(p: Builder, s: Step) -> Op:
        """dx"""
        settings = f"{Conv.shape(s.layer)}, {s.below.upper()}"
        call = f"winograd_backward_input<{settings}>({s.dx}, {s.dz}, {s.turned}, {s.x}, b.n, {{team}})"
        return Winograd._convolution(p, call, s.layer.in_shape[0], s.layer.in_shape)

    @staticmethod
    def backward_parameters(p: Builder, s: Step) -> Op:
        """dw and db, in about as many parts as multiprocessors can take side by side."""
        pairs = Winograd.sides(s.layer.in_shape[0]) * Winograd.sides(s.layer.out_shape[0])
        steps = -(-Winograd.tiles(p, s.layer.out_shape) // Winograd.DEPTH)
        blocks = p.processors * (2 if steps > 64 * p.processors else 1)
        s.splits = max(1, min(blocks // pairs, -(-steps // 2)))
        p._gradients_for(s)
        p.share(2 * Winograd.DEPTH * (Winograd.PLACES * Winograd.SIDE + 4))
        settings = f"{Conv.shape(s.layer)}, {s.splits}"
        call = f"winograd_backward_parameters<{settings}>({s.gradient}, {s.dz}, {s.x}, b.n, {{team}})"
        return Op(call, pairs * s.splits, learns=True)


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
        if Winograd.pools(p, s.under):
            return []
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
        return [[Op(call, p.elementwise(p.purpose.rows * s.layer.inputs // s.layer.stride**2))]]

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
