"""The dense layer on the GPU: which kernel of dense.cu, or which library, and how the work is shared out.

A training step has three products, named by what they give: `forward` (out = x w'), `input` (dx = dz w) and
`parameters` (dw = dz' x, db). `choose_dense` says by which route each is computed.
"""

from __future__ import annotations

from ...layers import Layer
from .abi import THREADS
from .memory import PARTIAL_SUM_COST, PARTIAL_SUM_DELAY, PHASE_COST, Tile, Workspace
from .program import BATCH, CONTROL, PARTIAL_SUMS, ROWS, LayerNode, Op, Phase

NARROW = 4  # outputs that are computed along rows, not in tiles
FUSED_OUTPUTS, FUSED_PRODUCTS = 16, 2**24  # the largest last layer that is one op with the loss
FUSED_SPLIT_DELAY = 0.04  # microseconds to wait for a partial sum there, which takes longer with few threads
FUSED_LONG = 1024  # inputs of it that more than one warp adds up
FUSED_BESIDE = 2**20  # values of its x; a kernel of a product has too few threads for a loop over more


def choose_dense(ws: Workspace, node: LayerNode, product: str) -> str:
    """Return the route of a product (forward, input, parameters): fused, narrow, library or tiles."""
    i, o, n = node.layer.inputs, node.layer.outputs, ws.rows
    m_n_k = {"forward": (n, o, i), "input": (n, i, o), "parameters": (o, i, n)}[product]
    large = ws.library and ws.library.wants_product(*m_n_k)
    if node.loss_fused and product != "parameters":
        return "fused"
    if o <= NARROW and not (large and product == "forward"):
        return "narrow"
    return "library" if large else "tiles"


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phases of the forward pass; none where the layer is fused with the loss."""
    return FORWARD[choose_dense(ws, node, "forward")](ws, node)


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phases of the backward pass: dx and the gradients side by side, then what completes dx."""
    phases = INPUT[choose_dense(ws, node, "input")](ws, node) if node.dx else [[]]
    phases[0] += PARAMETERS[choose_dense(ws, node, "parameters")](ws, node)
    return phases


# ---------------------------------------------------------------- library: cuBLAS


def _library_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    product = Op("cuBLAS gemm", host=ws.library.dense_forward(node), writes=(node.out,))
    return [[product], [_finish(ws, node, 0)]]


def _library_input(ws: Workspace, node: LayerNode) -> list[Phase]:
    product = Op("cuBLAS gemm", host=ws.library.dense_backward_input(node), writes=(node.dx,))
    return [[product], [input_finish(ws, node, 0)]] if node.activation_below != "linear" else [[product]]


def _library_parameters(ws: Workspace, node: LayerNode) -> Phase:
    i, o = node.layer.inputs, node.layer.outputs
    gradient = ws.gradient(node)
    ws.share(THREADS)
    product = Op(
        "cuBLAS gemm", host=ws.library.dense_backward_parameters(node), writes=(gradient,), gives_gradients=True
    )
    bias = gradient.plus(i * o)
    return [
        product,
        Op("dense_backward_bias", (o,), (bias, node.dz, ROWS), -(-o // 32), writes=(bias,), gives_gradients=True),
    ]


# ---------------------------------------------------------------- narrow: few outputs, sums along rows


def _narrow_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    settings = node.layer.inputs, node.layer.outputs, node.activation.upper()
    arguments = node.out, node.x, node.weight, node.bias, ROWS
    return [[Op("narrow_forward", settings, arguments, ws.elementwise(ws.rows * 32), writes=(node.out,))]]


def _narrow_input(ws: Workspace, node: LayerNode) -> list[Phase]:
    i, o = node.layer.inputs, node.layer.outputs
    settings = i, o, node.activation_below.upper()
    arguments = node.dx, node.dz, node.weight, node.x, ROWS
    return [[Op("narrow_backward_input", settings, arguments, ws.elementwise(ws.rows * i), writes=(node.dx,))]]


def _narrow_parameters(ws: Workspace, node: LayerNode) -> Phase:
    i, o = node.layer.inputs, node.layer.outputs
    columns = -(-(i + 1) // 32)
    splits = max(1, min(-(-ws.rows // 64), 4 * ws.processors // columns))  # 8 rows a thread are worth a split
    gradient = ws.gradient(node, splits)
    ws.share(o * THREADS)
    return [
        Op(
            "narrow_backward_parameters", (splits, i, o), (gradient, node.dz, node.x, ROWS), columns * splits,
            writes=(gradient,), gives_gradients=True,
        )
    ]  # fmt: skip


# ---------------------------------------------------------------- tiles: products of gemm.cu


def _tiles_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    i, o, n = node.layer.inputs, node.layer.outputs, ws.rows
    above_adds_up = node.node_above is not None and node.node_above.loss_fused
    fixed, split = (0, FUSED_SPLIT_DELAY) if above_adds_up else (PHASE_COST, 0)
    tile = ws.tile(n, o, i, fixed, split + PARTIAL_SUM_COST * ws.itemsize * n * o, alone=True)
    sums = ws.partial_sums(tile.splits, n * o)
    settings = tile, tile.splits, i, o, ws.aligned(node.weight), node.activation.upper()
    arguments = node.out, sums, node.x, node.weight, node.bias, ROWS
    product = Op("dense_forward", settings, arguments, tile.count(n, o), writes=(_result(tile, node.out, sums),))
    if tile.splits == 1:
        return [[product]]
    if above_adds_up:
        node.k_splits = tile.splits
        return [[product]]
    return [[product], [_finish(ws, node, tile.splits)]]


def _tiles_input(ws: Workspace, node: LayerNode) -> list[Phase]:
    i, o, n = node.layer.inputs, node.layer.outputs, ws.rows
    tile = ws.tile(n, i, o, PHASE_COST, PARTIAL_SUM_COST * ws.itemsize * n * i)
    sums = ws.partial_sums(tile.splits, n * i)
    settings = tile, tile.splits, i, o, ws.aligned(node.weight), node.activation_below.upper()
    arguments = node.dx, sums, node.dz, node.weight, node.x, ROWS
    product = Op("dense_backward_input", settings, arguments, tile.count(n, i), writes=(_result(tile, node.dx, sums),))
    return [[product], [input_finish(ws, node, tile.splits)]] if tile.splits > 1 else [[product]]


def _tiles_parameters(ws: Workspace, node: LayerNode) -> Phase:
    i, o, n = node.layer.inputs, node.layer.outputs, ws.rows
    split = PARTIAL_SUM_DELAY + PARTIAL_SUM_COST * ws.itemsize * node.layer.parameters
    tile = ws.tile(o, i + 1, n, 0, split, alone=not node.dx)
    gradient = ws.gradient(node, tile.splits)
    dz, settings = (node.dz,), (tile, tile.splits, i, o)
    if computes_dz(ws, node):
        dz = node.out, node.node_above.weight, node.node_above.dz
        settings += (node.node_above.activation_below.upper(),)
    arguments = gradient, *dz, node.x, ROWS
    return [
        Op(
            "dense_backward_parameters", settings, arguments, tile.count(o, i + 1), writes=(gradient,),
            gives_gradients=True,
        )
    ]  # fmt: skip


def _result(tile: Tile, whole, partial_sums):
    """Return the buffer that a product in these tiles fills."""
    return whole if tile.splits == 1 else partial_sums


# ---------------------------------------------------------------- what completes a product


def _finish(ws: Workspace, node: LayerNode, splits: int) -> Op:
    """Add up the partial sums of out, 0: what a library left there; add the bias, activate."""
    settings = splits, node.layer.outputs, node.activation.upper()
    arguments = node.out, PARTIAL_SUMS, node.bias, ROWS
    return Op("dense_finish", settings, arguments, ws.elementwise(ws.rows * node.layer.outputs), writes=(node.out,))


def input_finish(ws: Workspace, node: LayerNode, splits: int) -> Op:
    """Add up the partial sums of dx, 0: what a library left there; multiply by the derivative below."""
    settings = splits, node.layer.inputs, node.activation_below.upper()
    arguments = node.dx, PARTIAL_SUMS, node.x, ROWS
    return Op("input_finish", settings, arguments, ws.elementwise(ws.rows * node.layer.inputs), writes=(node.dx,))


# ---------------------------------------------------------------- fused: the last layer, the loss and dx in one op


def fuses_loss(ws: Workspace, layer: Layer) -> bool:
    """Return whether a last layer with few outputs is computed together with the loss and dx."""
    few = layer.kind == "dense" and layer.outputs <= FUSED_OUTPUTS
    return few and ws.rows * layer.outputs * layer.inputs <= FUSED_PRODUCTS


def is_beside(ws: Workspace, node: LayerNode) -> bool:
    """Return whether a fused layer's gradients are computed beside those of the layer below."""
    return ws.rows * node.layer.inputs <= FUSED_BESIDE


def computes_dz(ws: Workspace, node: LayerNode | None) -> bool:
    """Return whether the gradients of this layer, below a fused one of one output, compute dz where they need it, so
    that it is never stored."""
    if node is None or node.dx or node.layer.kind != "dense" or node.node_above is None:
        return False
    one_output_above = node.node_above.loss_fused and node.node_above.layer.outputs == 1
    return one_output_above and choose_dense(ws, node, "parameters") == "tiles"


def fused_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase that gives a fused layer's outputs, the loss, dz and dx, and completes x."""
    i, o, n, below = node.layer.inputs, node.layer.outputs, ws.rows, node.node_below
    warps = THREADS // 32 if n <= 2 * ws.processors or i >= FUSED_LONG else 1  # of a row
    ws.share(THREADS // 32 * o)
    k_splits = below.k_splits if below else 0
    dx = None if computes_dz(ws, below) else node.dx
    settings = (
        ws.loss.upper(), node.layer.activation.upper(), int(ws.purpose.labels), warps, i, o, k_splits,
        int(dx is not None), node.activation_below.upper(),
    )  # fmt: skip
    arguments = (
        dx, node.out, node.x, PARTIAL_SUMS, below.bias if k_splits else None, node.weight, node.bias, CONTROL,
        BATCH,
    )  # fmt: skip
    writes = tuple(filter(None, (dx, node.out, node.x if k_splits else None)))
    return [[Op("last_layer", settings, arguments, -(-n * 32 * warps // THREADS), writes=writes)]]


FORWARD = {
    "fused": lambda ws, node: [],  # fused_forward comes in the loss's place
    "library": _library_forward,
    "narrow": _narrow_forward,
    "tiles": _tiles_forward,
}
INPUT = {
    "fused": lambda ws, node: [[]],  # fused_forward gave it
    "library": _library_input, "narrow": _narrow_input, "tiles": _tiles_input,
}  # fmt: skip
PARAMETERS = {"library": _library_parameters, "narrow": _narrow_parameters, "tiles": _tiles_parameters}
