"""Dropout on the GPU, and layers that only pass on: the kernels of dropout.cu.

A flatten that stays in the program, for its activation, passes on; so does dropout where nothing is being learnt.
"""

from __future__ import annotations

from .memory import Workspace
from .program import BATCH, ROWS, LayerNode, Op, Phase


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    width, activation, blocks = node.layer.outputs, node.activation.upper(), _blocks(ws, node)
    if _drops(ws, node):
        settings, arguments = (width, node.index, activation), (node.out, node.x, node.layer.rate, BATCH)
        return [[Op("dropout_forward", settings, arguments, blocks, writes=(node.out,))]]
    return [[Op("pass_forward", (width, activation), (node.out, node.x, ROWS), blocks, writes=(node.out,))]]


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    if not node.dx:
        return []
    width, below, blocks = node.layer.outputs, node.activation_below.upper(), _blocks(ws, node)
    if _drops(ws, node):
        settings, arguments = (width, node.index, below), (node.dx, node.dz, node.x, node.layer.rate, BATCH)
        return [[Op("dropout_backward", settings, arguments, blocks, writes=(node.dx,))]]
    return [[Op("pass_backward", (width, below), (node.dx, node.dz, node.x, ROWS), blocks, writes=(node.dx,))]]


def _drops(ws: Workspace, node: LayerNode) -> bool:
    return node.layer.kind == "dropout" and ws.purpose.dropout


def _blocks(ws: Workspace, node: LayerNode) -> int:
    return ws.elementwise(ws.rows * node.layer.outputs)
