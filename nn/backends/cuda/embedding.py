"""The embedding layer on the GPU: the values of a table's row become numbers (embedding.cu)."""

from __future__ import annotations

from ...layers import InputColumn, Layer
from .abi import THREADS
from .memory import Workspace
from .program import ROWS, LayerNode, Op, Phase

COLUMNS = "embedding_columns"  # the array of struct embedding_column, in CUDA source
EDGES = "embedding_edges"  # of all columns, one after another
SPLIT_ROWS = 64  # of a batch that are worth a partial sum of the tables' gradients,
SPLIT_VALUES = 1 << 18  # and values of all these sums, which are written and read again


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase of the forward pass; the columns become a part of the program's source."""
    ws.program.declarations.append(_declaration(node.layer))
    settings, arguments = _sizes(node.layer), (node.out, node.x, COLUMNS, node.weight, ROWS)
    return [[Op("embedding_forward", settings, arguments, _blocks(ws, node), writes=(node.out,))]]


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase of the backward pass: the tables' gradients, and dx where somebody asks for it."""
    ops = _tables(ws, node) if node.layer.parameters else []
    if node.dx:
        settings, arguments = _sizes(node.layer), (node.dx, node.dz, node.x, COLUMNS, ROWS)
        ops.append(Op("embedding_backward_input", settings, arguments, _blocks(ws, node), writes=(node.dx,)))
    return [ops] if ops else []


def _sizes(layer: Layer) -> tuple[int, int]:
    return layer.inputs, layer.outputs


def _blocks(ws: Workspace, node: LayerNode) -> int:
    return ws.elementwise(ws.rows * node.layer.inputs)


def _places(layer: Layer) -> list[tuple[InputColumn, int, int]]:
    """Return each column with its first output and where its table begins among the parameters."""
    places, out, table = [], 0, 0
    for column in layer.columns:
        places.append((column, out, table))
        out, table = out + column.outputs, table + column.parameters
    return places


def _declaration(layer: Layer) -> str:
    """Return the columns and their edges in CUDA source."""
    lines, edges = [], []
    for column, out, table in _places(layer):
        first = f"{EDGES} + {len(edges)}" if column.edges else "0"
        lines.append(
            f"    {{{column.kind.upper()}, {out}, {column.values}, {column.width}, {table}LL, {float(column.fill)!r}, "
            f"{column.pieces}, {first}}},\n"
        )
        edges += map(float, column.edges)
    declared = f"__device__ const real {EDGES}[] = {{{', '.join(map(repr, edges))}}};\n" if edges else ""
    return f"{declared}__device__ const embedding_column {COLUMNS}[] = {{\n{''.join(lines)}}};"


def _tables(ws: Workspace, node: LayerNode) -> list[Op]:
    """Return an op for the gradient of each table."""
    layer = node.layer
    splits = max(1, min(-(-ws.rows // SPLIT_ROWS), SPLIT_VALUES // layer.parameters))
    gradient = ws.gradient(node, splits)
    ws.share(2 * THREADS + THREADS // 32)  # struct embedding_hits
    ops = []
    for at, (column, out, table) in enumerate(_places(layer)):
        if column.parameters:
            settings = splits, layer.parameters, column.values, column.width, layer.inputs, at, layer.outputs, out
            arguments, blocks = (gradient.plus(table), node.dz, node.x, ROWS), splits * _parts(column)
            ops.append(
                Op("embedding_backward_table", settings, arguments, blocks, writes=(gradient,), gives_gradients=True)
            )
    return ops


def _parts(column: InputColumn) -> int:
    """Return how many blocks share a table: a thread has one of its values."""
    lanes = min(column.width, THREADS)
    return -(-column.values // (THREADS // lanes)) * -(-column.width // lanes)
