"""The dense layer on the GPU: which kernel of dense.cu, or which library, and how the
work is shared out.

A training step has three products, named by what they give: `forward` (out = x w'),
`input` (dx = dz w) and `parameters` (dw = dz' x, db). `choose_dense` says by which
route each is computed.
"""

from __future__ import annotations

import math

from ...layers import Layer
from ...nn_aux import loss_name
from .abi import THREADS
from .memory import PARTIAL_SUM_COST, PARTIAL_SUM_DELAY, PHASE_COST, Workspace
from .program import (
    BATCH,
    BATCH_ROWS,
    CONTROL,
    ONE_BLOCK_WORK,
    PARTIAL_SUMS,
    PASSES,
    LayerNode,
    Op,
    Phase,
)

NARROW = 4  # outputs that are computed along rows, not in tiles
FEW_ROWS = 4  # of a prediction, which warps compute, no tiles
AT_ONCE = (
    8  # outputs of few rows, of all together, that a warp of a lone block computes
)
# the largest last layer that is one op with the loss
FUSED_OUTPUTS = 16
FUSED_PRODUCTS = 2**24
# microseconds to wait for a partial sum there, which takes longer with few threads
FUSED_SPLIT_DELAY = 0.04
FUSED_LONG = 1024  # inputs of it that more than one warp adds up
# values of its x, for its gradients to be computed beside those of the layer below: a
# kernel of a product has too few threads for a loop over more
FUSED_BESIDE = 2**20


def choose_dense(ws: Workspace, node: LayerNode, product: str) -> str:
    """Return the route of a product (forward, input, parameters): fused, narrow,
    library, few rows or tiles."""
    i = node.layer.inputs
    o = node.layer.outputs
    n = ws.rows
    m_n_k = {"forward": (n, o, i), "input": (n, i, o), "parameters": (o, i, n)}[product]
    large = ws.library and ws.library.wants_product(*m_n_k)
    if node.loss_fused and product != "parameters":
        return "fused"
    if o <= NARROW and not (large and product == "forward"):
        return "narrow"
    if large:
        return "library"
    if ws.purpose.kind == "predict" and n <= FEW_ROWS:
        return "few rows"
    return "tiles"


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phases of the forward pass; nothing where the layer is fused with the
    loss."""
    return _phases(ws, node, "forward")


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phases of the backward pass: dx and the gradients side by side, then
    what completes dx."""
    if node.dx:
        phases = _phases(ws, node, "input")
    else:
        phases = [[]]
    phases[0] += PARAMETER_GRADIENTS[choose_dense(ws, node, "parameters")](ws, node)
    return phases


# ---------------------------------------------------------------- out and dx


def _phases(ws: Workspace, node: LayerNode, product: str) -> list[Phase]:
    """Return the phases of a product, forward or input: its op, and what completes
    it."""
    to, operands, _, _, activation = node.product(product)
    i = node.layer.inputs
    o = node.layer.outputs
    route = choose_dense(ws, node, product)
    if route == "fused":
        return [[]]  # fused_forward, in the loss's place, gives both
    if route == "narrow":  # a warp a row of out, a thread some values of dx
        threads_of_row = i
        if product == "forward":
            threads_of_row = 32
        blocks = ws.elementwise(ws.rows * threads_of_row)
        settings = (i, o, activation.upper())
        arguments = (to, *operands, BATCH_ROWS)
        return [[Op(f"narrow_{PASSES[product]}", settings, arguments, blocks)]]
    if route == "library":
        op = Op("cuBLAS gemm", arguments=(to,), host=ws.library.dense(node, product))
        if product == "forward" or activation != "linear":
            return [[op], [finish(ws, node, product)]]
        return [[op]]
    if route == "few rows":
        return [[_few_rows(ws, node)]]
    return _tiles(ws, node, product)


def _few_rows(ws: Workspace, node: LayerNode) -> Op:
    """Return the op of a forward pass whose warps add up along the inputs."""
    to, operands, _, _, activation = node.product("forward")
    o = node.layer.outputs
    if ws.program.work <= ONE_BLOCK_WORK:
        at_once = AT_ONCE // ws.rows
    else:  # as many warps as there are outputs
        at_once = 1
    settings = (ws.rows, at_once, node.layer.inputs, o, activation.upper())
    arguments = (to, *operands, BATCH_ROWS)
    warps = -(-o // at_once)
    return Op("few_rows_forward", settings, arguments, -(-warps * 32 // THREADS))


def _tiles(ws: Workspace, node: LayerNode, product: str) -> list[Phase]:
    """Return the phases of a product in tiles (gemm.cu)."""
    to, operands, _, _, activation = node.product(product)
    i = node.layer.inputs
    o = node.layer.outputs
    n = ws.rows
    if product == "forward":
        width = o
        terms = i
    else:
        width = i
        terms = o
    above_adds_up = (
        product == "forward"
        and node.node_above is not None
        and node.node_above.loss_fused
    )
    if above_adds_up:
        fixed = 0
        split = FUSED_SPLIT_DELAY
    else:
        fixed = PHASE_COST
        split = 0
    split += PARTIAL_SUM_COST * ws.itemsize * n * width
    tile = ws.tile(n, width, terms, fixed, split, alone=product == "forward")
    settings = tile, tile.splits, i, o, ws.aligned(node.weight), activation.upper()
    arguments = to, ws.partial_sums(tile.splits, n * width), *operands, BATCH_ROWS
    op = Op(f"dense_{PASSES[product]}", settings, arguments, tile.count(n, width))
    if tile.splits == 1:
        return [[op]]
    if above_adds_up:
        node.k_splits = tile.splits
        return [[op]]
    return [[op], [finish(ws, node, product, tile.splits)]]


def finish(ws: Workspace, node: LayerNode, product: str, splits: int = 0) -> Op:
    """Return what completes a product of a dense or a convolution layer. It adds up the
    partial sums, 0: what a library left there, then the bias, and activates; or for dx
    multiplies by the derivative below."""
    to, (*_, last), shape, _, activation = node.product(product)
    if product == "forward":
        sizes = (shape[0], math.prod(shape[1:]))
    else:
        sizes = (math.prod(shape),)
    function = {"forward": "output_finish", "input": "input_finish"}[product]
    blocks = math.prod(shape) * ws.rows
    settings = splits, *sizes, activation.upper()
    return Op(
        function, settings, (to, PARTIAL_SUMS, last, BATCH_ROWS), ws.elementwise(blocks)
    )


# ---------------------------------------------------------- gradients of the parameters


def _library_parameters(ws: Workspace, node: LayerNode) -> Phase:
    i = node.layer.inputs
    o = node.layer.outputs
    gradient = ws.gradient(node)
    ws.share(THREADS)
    return [
        Op(
            "cuBLAS gemm",
            arguments=(gradient,),
            host=ws.library.dense(node, "parameters"),
        ),
        Op(
            "dense_backward_bias",
            (o,),
            (gradient.plus(i * o), node.dz, BATCH_ROWS),
            -(-o // 32),
        ),
    ]


def _narrow_parameters(ws: Workspace, node: LayerNode) -> Phase:
    """Return the op whose threads add up along rows."""
    i = node.layer.inputs
    o = node.layer.outputs
    columns = -(-(i + 1) // 32)
    # 8 rows a thread are worth a split
    splits = max(1, min(-(-ws.rows // 64), 4 * ws.processors // columns))
    arguments = ws.gradient(node, splits), node.dz, node.x, BATCH_ROWS
    ws.share(o * THREADS)
    return [
        Op("narrow_backward_parameters", (splits, i, o), arguments, columns * splits)
    ]


def _tiles_parameters(ws: Workspace, node: LayerNode) -> Phase:
    i = node.layer.inputs
    o = node.layer.outputs
    n = ws.rows
    split = PARTIAL_SUM_DELAY + PARTIAL_SUM_COST * ws.itemsize * node.layer.parameters
    tile = ws.tile(o, i + 1, n, 0, split, alone=not node.dx)
    dz = (node.dz,)
    settings = (tile, tile.splits, i, o)
    if computes_dz(ws, node):
        dz = node.out, node.node_above.weight, node.node_above.dz
        settings += (node.node_above.activation_below.upper(),)
    arguments = ws.gradient(node, tile.splits), *dz, node.x, BATCH_ROWS
    return [Op("dense_backward_parameters", settings, arguments, tile.count(o, i + 1))]


PARAMETER_GRADIENTS = {
    "library": _library_parameters,
    "narrow": _narrow_parameters,
    "tiles": _tiles_parameters,
}


# ------------------------------------- fused: the last layer, the loss and dx in one op


def fuses_loss(ws: Workspace, layer: Layer) -> bool:
    """Return whether a last layer with few outputs is computed together with the loss
    and dx."""
    few = layer.kind == "dense" and layer.outputs <= FUSED_OUTPUTS
    return few and ws.rows * layer.outputs * layer.inputs <= FUSED_PRODUCTS


def computes_dz(ws: Workspace, node: LayerNode | None) -> bool:
    """Return whether the gradients of this layer, below a fused one of one output,
    compute dz where they need it, so that it is never stored."""
    if node is None or node.dx or node.layer.kind != "dense" or node.node_above is None:
        return False
    one_output_above = node.node_above.loss_fused and node.node_above.layer.outputs == 1
    return one_output_above and choose_dense(ws, node, "parameters") == "tiles"


def fused_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase that gives a fused layer's outputs, the loss, dz and dx, and
    completes x."""
    i = node.layer.inputs
    o = node.layer.outputs
    n = ws.rows
    below = node.node_below
    # of a row
    if n <= 2 * ws.processors or i >= FUSED_LONG:
        warps = THREADS // 32
    else:
        warps = 1
    ws.share(THREADS // 32 * o)
    if below:
        k_splits = below.k_splits
    else:
        k_splits = 0
    if computes_dz(ws, below):
        dx = None
    else:
        dx = node.dx
    settings = (
        loss_name(ws.loss).upper(),
        node.layer.activation.upper(),
        int(ws.purpose.labels),
        warps,
        i,
        o,
        k_splits,
        int(dx is not None),
        node.activation_below.upper(),
    )
    arguments = (
        dx,
        node.out,
        node.x,
        PARTIAL_SUMS,
        below.bias if k_splits else None,
        node.weight,
        node.bias,
        CONTROL,
        BATCH,
    )
    return [[Op("last_layer", settings, arguments, -(-n * 32 * warps // THREADS))]]
