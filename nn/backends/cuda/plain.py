"""Layers without parameters on the GPU: loops over values, of pool.cu, pad.cu,
dropout.cu and activation.cu, or a library's pooling.

A flatten that stays in the program, for its activation, passes on; so does dropout
where nothing is being learnt.
"""

from __future__ import annotations

from . import conv
from .memory import Workspace
from .program import BATCH, BATCH_ROWS, LayerNode, Op, Phase

POOLS = ("maxpool", "avgpool")


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phases of the forward pass; none of a pooling that the convolution
    below has done."""
    layer = node.layer
    blocks = ws.elementwise(ws.rows * node.layer.outputs)
    if layer.kind in POOLS and conv.pools_too(ws, node.node_below):
        return []
    if layer.kind in POOLS and ws.library and ws.library.pools(layer):
        pool = ws.library.pool_forward(node)
        pooling = Op("cuDNN pooling", arguments=(node.out,), host=pool)
        if node.activation == "linear":
            return [[pooling]]
        settings = node.activation.upper(), layer.outputs
        arguments = (node.out, BATCH_ROWS)
        return [[pooling], [Op("activation_forward", settings, arguments, blocks)]]
    name, sizes, last = _kernel(ws, node)
    settings = (*sizes, (layer.function or node.activation).upper())
    arguments = (node.out, node.x, *last)
    return [[Op(f"{name}_forward", settings, arguments, blocks)]]


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase of the backward pass, always our own kernel's."""
    if not node.dx:
        return []
    name, sizes, last = _kernel(ws, node)
    if node.layer.kind in POOLS:
        name = "pool"
        sizes = (*sizes, int(node.layer.kind == "maxpool"))
    elif name == "pass":
        sizes = *sizes, (node.layer.function or "linear").upper()
    settings = (*sizes, node.activation_below.upper())
    arguments = (node.dx, node.dz, node.x, *last)
    blocks = ws.elementwise(ws.rows * node.layer.inputs)
    return [[Op(f"{name}_backward", settings, arguments, blocks)]]


def _kernel(ws: Workspace, node: LayerNode) -> tuple[str, tuple, tuple]:
    """Return a kernel's name without its pass, its template arguments up to the
    activation, and its last arguments."""
    layer = node.layer
    if layer.kind in POOLS:
        sizes = *layer.in_shape, *layer.out_shape[1:], layer.kernel, layer.stride
        return layer.kind, (f"pool_shape<{', '.join(map(str, sizes))}>",), (BATCH_ROWS,)
    if layer.kind == "pad":
        channels, *from_sides = layer.in_shape
        _, *to_sides = layer.out_shape
        sizes = (*from_sides, *to_sides, layer.pad_top, layer.pad_left, channels)
        return "pad", sizes, (BATCH_ROWS,)
    if layer.kind == "dropout" and ws.purpose.dropout:
        return "dropout", (layer.outputs, node.index), (layer.rate, BATCH)
    return "pass", (layer.outputs,), (BATCH_ROWS,)
