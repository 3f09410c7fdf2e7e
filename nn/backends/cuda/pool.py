"""Pooling and zeros around an image on the GPU: the kernels of pool.cu, or a library's."""

from __future__ import annotations

from ...layers import Layer
from . import conv
from .memory import Workspace
from .program import ROWS, LayerNode, Op, Phase


def choose_pool(ws: Workspace, node: LayerNode) -> str:
    """Return the route of the forward pass: winograd (the convolution below has pooled), library or kernel."""
    if conv.pools_too(ws, node.node_below):
        return "winograd"
    return "library" if ws.library and ws.library.pools(node.layer) else "kernel"


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    return FORWARD[choose_pool(ws, node)](ws, node)


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase of the backward pass, always our own kernel's."""
    if not node.dx:
        return []
    settings, arguments = (shape(node.layer), node.activation_below.upper()), (node.dx, node.dz, node.x, ROWS)
    blocks = ws.elementwise(ws.rows * node.layer.inputs // node.layer.stride**2)
    return [[Op(f"{node.layer.kind}_backward", settings, arguments, blocks, writes=(node.dx,))]]


def shape(layer: Layer) -> str:
    """Return the template argument that names the layer's sizes."""
    sizes = *layer.in_shape, *layer.out_shape[1:], layer.kernel, layer.stride
    return f"pool_shape<{', '.join(map(str, sizes))}>"


def _kernel_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    settings, blocks = (shape(node.layer), node.activation.upper()), ws.elementwise(ws.rows * node.layer.outputs)
    return [[Op(f"{node.layer.kind}_forward", settings, (node.out, node.x, ROWS), blocks, writes=(node.out,))]]


def _library_forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    pooling = Op("cuDNN pooling", host=ws.library.pool_forward(node), writes=(node.out,))
    if node.activation == "linear":
        return [[pooling]]
    settings, blocks = (node.activation.upper(), node.layer.outputs), ws.elementwise(ws.rows * node.layer.outputs)
    return [[pooling], [Op("activation_forward", settings, (node.out, ROWS), blocks, writes=(node.out,))]]


FORWARD = {"winograd": lambda ws, node: [], "library": _library_forward, "kernel": _kernel_forward}
