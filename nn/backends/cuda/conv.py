"""Convolution on the GPU: which kernel of conv.cu, conv_direct.cu or conv_winograd.cu,
or which library, and how the work is shared out.

A training step has three products, named by what they give: `forward` (out), `input`
(dx) and `parameters` (dw, db). `choose_conv` says by which route each is computed.
"""

from __future__ import annotations

import math

from ...layers import Layer
from .abi import THREADS, WINOGRAD_DEPTH, WINOGRAD_PLACES, WINOGRAD_SIDE
from .dense import finish
from .memory import NEVER, PARTIAL_SUM_COST, PARTIAL_SUM_DELAY, SHARED_LIMIT, Workspace
from .program import BATCH_ROWS, PASSES, Buffer, LayerNode, Op, Phase

# and filters that pay, of WINOGRAD_SIDE that are computed at once
WINOGRAD_CHANNELS = 16
# the largest convolutions that are computed without a product,
DIRECT_WEIGHTS = 20_000
DIRECT_KERNEL = 5
# and the most filters times blocks of pixels for each multiprocessor, from 4 channels
# on
DIRECT_WORK = 8


def choose_conv(ws: Workspace, layer: Layer, product: str) -> str:
    """Return the route of a product (forward, input, parameters): library, winograd,
    direct or gemm."""
    if product != "parameters" and ws.library and ws.library.convolves(layer):
        return "library"
    if uses_winograd(ws, layer):
        return "winograd"
    if product == "parameters":
        if _bands(ws, layer):
            return "direct"
        return "gemm"
    if _group(ws, layer, product):
        return "direct"
    return "gemm"


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    return _phases(ws, node, "forward")


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phases of the backward pass: dx and the gradients side by side, then
    what completes dx."""
    if node.dx:
        phases = _phases(ws, node, "input")
    else:
        phases = [[]]
    phases[0].append(_parameters(ws, node))
    return phases


def _phases(ws: Workspace, node: LayerNode, product: str) -> list[Phase]:
    """Return the phases of a product, forward or input: its op, and what completes
    it."""
    route = choose_conv(ws, node.layer, product)
    if route == "library":
        to, *_, activation = node.product(product)
        op = Op(
            "cuDNN convolution",
            arguments=(to,),
            host=ws.library.convolution(node, product),
        )
        if product == "forward" or activation != "linear":
            return [[op], [finish(ws, node, product)]]
        return [[op]]
    op_of_route = {"winograd": _winograd, "direct": _direct, "gemm": _gemm}
    return [[op_of_route[route](ws, node, product)]]


def _parameters(ws: Workspace, node: LayerNode) -> Op:
    """Return the op of dw and db, whose kernels all take the same arguments."""
    share_of_route = {
        "winograd": _winograd_parameters,
        "direct": _direct_parameters,
        "gemm": _gemm_parameters,
    }
    share = share_of_route[choose_conv(ws, node.layer, "parameters")]
    function, settings, splits, blocks = share(ws, node)
    arguments = (ws.gradient(node, splits), node.dz, node.x, BATCH_ROWS)
    return Op(function, settings, arguments, blocks)


def shape(layer: Layer) -> str:
    """Return the template argument that names the layer's sizes."""
    windows = (layer.kernel, layer.stride, layer.pad_top, layer.pad_left)
    sizes = (*layer.in_shape, *layer.out_shape, *windows)
    return f"conv_shape<{', '.join(map(str, sizes))}>"


def _pixels(shape: tuple[int, int, int]) -> int:
    return math.prod(shape[1:])


# ------------------------------------ winograd: fewer multiplications, conv_winograd.cu


def uses_winograd(ws: Workspace, layer: Layer) -> bool:
    """Return whether a convolution's own kernels are those of conv_winograd.cu."""
    wide = min(layer.in_shape[0], layer.out_shape[0]) >= WINOGRAD_CHANNELS
    return ws.itemsize == 4 and layer.kernel == 3 and layer.stride == 1 and wide


def pools_too(ws: Workspace, node: LayerNode | None) -> bool:
    """Return whether this layer's forward pass is also the next one's: a max pooling of
    the outputs of a tile."""
    if node is None or node.layer.kind != "conv":
        return False
    above = node.node_above
    if above is None or above.layer.kind != "maxpool" or above.activation != "linear":
        return False
    pooling = above.layer
    if pooling.kernel != 2 or pooling.stride != 2:  # the outputs of a tile are 2 x 2
        return False
    if ws.library and ws.library.pools(pooling):
        return False
    return choose_conv(ws, node.layer, "forward") == "winograd"


def _tiles(ws: Workspace, shape: tuple[int, int, int]) -> int:
    return ws.rows * -(-shape[1] // 2) * -(-shape[2] // 2)


def _sides(channels: int) -> int:
    """Return the blocks that this many channels take."""
    return -(-channels // WINOGRAD_SIDE)


def _transformed(
    ws: Workspace, node: LayerNode, function: str, channels: int, filters: int
) -> Buffer:
    """Return a buffer of transformed kernels, which `function` fills."""
    depth = -(-channels // WINOGRAD_DEPTH) * WINOGRAD_DEPTH
    values = depth * _sides(filters) * WINOGRAD_SIDE
    return ws.make_ready(
        node, function, (shape(node.layer),), WINOGRAD_PLACES * values, values
    )


def _winograd(ws: Workspace, node: LayerNode, product: str) -> Op:
    """Return the op of out or dx; with that of out the kernels of the backward pass are
    made ready, too."""
    to, (source, _, last), result, _, activation = node.product(product)
    settings = (shape(node.layer), activation.upper())
    results = (to,)
    kernels = node.rotated
    if product == "forward":
        channels = node.layer.in_shape[0]
        filters = node.layer.out_shape[0]
        kernels = _transformed(ws, node, "winograd_kernels", channels, filters)
        if node.dx:
            node.rotated = _transformed(
                ws, node, "winograd_rotated_kernels", filters, channels
            )
        if pools_too(ws, node):
            results = (to, node.node_above.out)
            settings += (1,)
        else:
            results = (to, None)
            settings += (0,)
    ws.share(3 * WINOGRAD_DEPTH * WINOGRAD_PLACES * WINOGRAD_SIDE)
    blocks = _sides(result[0]) * -(-_tiles(ws, result) // WINOGRAD_SIDE)
    arguments = (*results, source, kernels, last, BATCH_ROWS)
    return Op(f"winograd_{PASSES[product]}", settings, arguments, blocks)


def _winograd_parameters(ws: Workspace, node: LayerNode) -> tuple[str, tuple, int, int]:
    """Return (function, settings, splits, blocks), about as many splits as
    multiprocessors can take side by side."""
    pairs = _sides(node.layer.in_shape[0]) * _sides(node.layer.out_shape[0])
    steps = -(-_tiles(ws, node.layer.out_shape) // WINOGRAD_DEPTH)
    blocks = ws.processors
    if steps > 64 * ws.processors:
        blocks = 2 * ws.processors
    splits = max(1, min(blocks // pairs, -(-steps // 2)))
    ws.share(2 * WINOGRAD_DEPTH * (WINOGRAD_PLACES * WINOGRAD_SIDE + 4))
    settings = (shape(node.layer), splits)
    return "winograd_backward_parameters", settings, splits, pairs * splits


# --------------------------------------------------- direct: no product, conv_direct.cu


def _group(ws: Workspace, layer: Layer, product: str) -> int:
    """Return the filters (of dx: channels) that a thread computes at once; 0: a matrix
    product is better.

    Large batches of large images with many channels are for products: each value that
    they load is used more often.
    """
    result = layer.out_shape
    if product == "input":
        result = layer.in_shape
        if layer.stride > 1:
            return 0
    weights = layer.fan_in * layer.out_shape[0]
    if weights > DIRECT_WEIGHTS or layer.kernel > DIRECT_KERNEL:
        return 0
    filters = result[0]
    chunks = -(-ws.rows * _pixels(result) // THREADS)
    if layer.in_shape[0] > 3 and chunks * filters > DIRECT_WORK * ws.processors:
        return 0
    sizes = [size for size in (16, 8, 4) if size < 2 * filters] or [4]

    # a value is loaded and multiplied with each weight, by one block after the other
    def time(size: int) -> int:
        blocks = -(-filters // size) * chunks
        return -(-blocks // ws.processors) * (2 + size)

    return min(sizes, key=time)


def _bands(ws: Workspace, layer: Layer) -> tuple[int, int, int] | None:
    """Return (filters a thread, output rows of a band, values in shared memory) for the
    weights' gradients; None: a matrix product is better."""
    channels, _, _ = layer.in_shape
    filters, height, width = layer.out_shape
    if layer.kernel > 3 or layer.fan_in * filters > DIRECT_WEIGHTS:
        return None
    per_thread = 1
    if channels * filters > THREADS:
        per_thread = 2
    if -(-filters // per_thread) * channels > 2 * THREADS:
        return None
    read_width = (width - 1) * layer.stride + layer.kernel
    for rows in range(height, 0, -1):
        read_height = (rows - 1) * layer.stride + layer.kernel
        # an odd number of values: neighbours are in different banks
        values = channels * (read_height * read_width | 1) + filters * (
            rows * width | 1
        )
        enough = ws.rows * -(-height // rows) >= ws.processors or rows == 1
        if enough and values * ws.itemsize <= SHARED_LIMIT:
            return per_thread, rows, values
    return None


def _direct(ws: Workspace, node: LayerNode, product: str) -> Op:
    to, operands, result, source, activation = node.product(product)
    group = _group(ws, node.layer, product)
    ws.share(source[0] * node.layer.kernel**2 * group)
    settings = shape(node.layer), group, activation.upper()
    blocks = -(-result[0] // group) * ws.elementwise(ws.rows * _pixels(result))
    arguments = (to, *operands, BATCH_ROWS)
    return Op(f"direct_{PASSES[product]}", settings, arguments, blocks)


def _direct_parameters(ws: Workspace, node: LayerNode) -> tuple[str, tuple, int, int]:
    per_thread, rows, values = _bands(ws, node.layer)
    bands = ws.rows * -(-node.layer.out_shape[1] // rows)
    splits = ws.processors
    if bands > 16 * ws.processors:
        splits = 4 * ws.processors
    splits = min(splits, bands)
    ws.share(max(values, THREADS))
    settings = (shape(node.layer), per_thread, rows, splits)
    return "direct_backward_parameters", settings, splits, splits


# ---------------------------------------------------- gemm: a product in tiles, conv.cu


def _gemm(ws: Workspace, node: LayerNode, product: str) -> Op:
    to, operands, result, source, activation = node.product(product)
    m = result[0]
    n = ws.rows * _pixels(result)
    k = source[0] * node.layer.kernel**2
    tile = ws.tile(m, n, k, NEVER, 0)
    settings = (tile, shape(node.layer))
    if product == "forward":
        settings += (ws.aligned(node.weight),)
    settings += (activation.upper(),)
    arguments = (to, *operands, BATCH_ROWS)
    return Op(f"conv_{PASSES[product]}", settings, arguments, tile.count(m, n))


def _gemm_parameters(ws: Workspace, node: LayerNode) -> tuple[str, tuple, int, int]:
    layer = node.layer
    m = layer.out_shape[0]
    n = layer.fan_in + 1
    k = ws.rows * _pixels(layer.out_shape)
    cost = PARTIAL_SUM_DELAY + PARTIAL_SUM_COST * ws.itemsize * layer.parameters
    tile = ws.tile(m, n, k, 0, cost)
    settings = (tile, tile.splits, shape(layer))
    return "conv_backward_parameters", settings, tile.splits, tile.count(m, n)
