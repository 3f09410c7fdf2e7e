"""Activation layers on the GPU: activations whose derivative is taken from their input (activation.cu)."""

from __future__ import annotations

from .memory import Workspace
from .program import ROWS, LayerNode, Op, Phase


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    settings, arguments = (node.layer.outputs, node.layer.function.upper()), (node.out, node.x, ROWS)
    return [[Op("pass_forward", settings, arguments, _blocks(ws, node), writes=(node.out,))]]


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    if not node.dx:
        return []
    settings = node.layer.outputs, node.layer.function.upper(), node.activation_below.upper()
    arguments = node.dx, node.dz, node.x, ROWS
    return [[Op("function_backward", settings, arguments, _blocks(ws, node), writes=(node.dx,))]]


def _blocks(ws: Workspace, node: LayerNode) -> int:
    return ws.elementwise(ws.rows * node.layer.outputs)
