"""Zeros around an image on the GPU: the kernels of pad.cu."""

from __future__ import annotations

from ...layers import Layer
from .memory import Workspace
from .program import ROWS, LayerNode, Op, Phase


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    settings, arguments = (*_sizes(node.layer), node.activation.upper()), (node.out, node.x, ROWS)
    blocks = ws.elementwise(ws.rows * node.layer.outputs)
    return [[Op("pad_forward", settings, arguments, blocks, writes=(node.out,))]]


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    if not node.dx:
        return []
    settings, arguments = (*_sizes(node.layer), node.activation_below.upper()), (node.dx, node.dz, node.x, ROWS)
    blocks = ws.elementwise(ws.rows * node.layer.inputs)
    return [[Op("pad_backward", settings, arguments, blocks, writes=(node.dx,))]]


def _sizes(layer: Layer) -> tuple:
    """Return the template arguments up to the activation."""
    return *layer.in_shape[1:], *layer.out_shape[1:], layer.pad_top, layer.pad_left, layer.in_shape[0]
