"""The embedding layer on the GPU: the values of a table's row become numbers
(embedding.cu).

Its parameters are the tables, then the frequencies of all waves.
"""

from __future__ import annotations

from ...layers import InputColumn, Layer
from .abi import THREADS
from .memory import Workspace
from .program import BATCH_ROWS, LayerNode, Op, Phase

# arrays in CUDA source: of struct embedding_column; the edges of all columns, one after
# another; of struct embedding_wave, one for each frequency
COLUMN_ARRAY = "embedding_columns"
EDGE_ARRAY = "embedding_edges"
WAVE_ARRAY = "embedding_waves"
# rows of a batch that are worth a partial sum of the parameters' gradients
PARTIAL_SUM_ROWS = 64
# the most values of all these sums, which are written and read again
SPLIT_VALUES = 1 << 18


def forward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase of the forward pass; the columns become a part of the program's
    source."""
    ws.program.declarations.append(_declaration(node.layer))
    settings = _sizes(node.layer)
    arguments = (node.out, node.x, COLUMN_ARRAY, node.weight, BATCH_ROWS)
    blocks = ws.elementwise(ws.rows * node.layer.inputs)
    ops = [Op("embedding_forward", settings, arguments, blocks)]
    if waves := node.layer.frequencies:
        blocks = ws.elementwise(ws.rows * waves)
        arguments = (node.out, node.x, WAVE_ARRAY, node.undecayed, BATCH_ROWS)
        ops.append(Op("embedding_waves_forward", (waves, *settings), arguments, blocks))
    return [ops]


def backward(ws: Workspace, node: LayerNode) -> list[Phase]:
    """Return the phase of the backward pass: the parameters' gradients, and dx where
    somebody asks for it."""
    ops = []
    if node.layer.parameters:
        ops = _gradients(ws, node)
    if node.dx:
        waves = node.layer.frequencies
        settings = (waves, *_sizes(node.layer))
        arrays = (COLUMN_ARRAY, None)
        if waves:
            arrays = (COLUMN_ARRAY, WAVE_ARRAY)
        values = (node.dx, node.dz, node.out, node.x)
        arguments = (*values, *arrays, node.undecayed, BATCH_ROWS)
        blocks = ws.elementwise(ws.rows * node.layer.inputs)
        ops.append(Op("embedding_backward_input", settings, arguments, blocks))
    return [ops]


def _sizes(layer: Layer) -> tuple[int, int]:
    return layer.inputs, layer.outputs


def _places(layer: Layer) -> list[tuple[InputColumn, int, int]]:
    """Return each column with its first output and where its table begins among the
    parameters."""
    places = []
    out = 0
    table = 0
    for column in layer.columns:
        places.append((column, out, table))
        out = out + column.outputs
        table = table + column.parameters
    return places


def _declaration(layer: Layer) -> str:
    """Return the columns and their edges in CUDA source."""
    lines = []
    edges = []
    for column, out, table in _places(layer):
        edges_address = "0"
        if column.edges:
            edges_address = f"{EDGE_ARRAY} + {len(edges)}"
        lines.append(
            f"    {{{column.kind.upper()}, {out}, {column.values}, {column.width}, {table}LL, {float(column.fill)!r}, "
            f"{column.pieces}, {edges_address}}},\n"
        )
        edges += map(float, column.edges)
    declared = ""
    if edges:
        values = ", ".join(map(repr, edges))
        declared = f"__device__ const real {EDGE_ARRAY}[] = {{{values}}};\n"
    if layer.frequencies:
        declared += _waves_declaration(layer)
    return f"{declared}__device__ const embedding_column {COLUMN_ARRAY}[] = {{\n{''.join(lines)}}};"


def _waves_declaration(layer: Layer) -> str:
    """Return the waves in CUDA source, in the order of their frequencies."""
    lines = []
    for at, (column, out, _) in enumerate(_places(layer)):
        sines = out + column.outputs - 2 * column.waves
        gaps = int(column.kind == "gap")
        for sine in range(sines, sines + column.waves):
            lines.append(
                f"    {{{at}, {sine}, {sine + column.waves}, {gaps}, {float(column.fill)!r}}},\n"
            )
    return f"__device__ const embedding_wave {WAVE_ARRAY}[] = {{\n{''.join(lines)}}};\n"


def _gradients(ws: Workspace, node: LayerNode) -> list[Op]:
    """Return an op for the gradient of each table, and one for those of all
    frequencies."""
    layer = node.layer
    most_splits = SPLIT_VALUES // layer.parameters
    splits = max(1, min(-(-ws.rows // PARTIAL_SUM_ROWS), most_splits))
    gradient = ws.gradient(node, splits)
    # struct embedding_hits; sums of waves are fewer
    ws.share(2 * THREADS + THREADS // 32)
    ops = []
    if waves := layer.frequencies:
        settings = splits, layer.parameters, waves, *_sizes(layer)
        to = gradient.plus(layer.parameters - waves)
        arguments = (to, node.dz, node.out, node.x, WAVE_ARRAY, BATCH_ROWS)
        blocks = splits * -(-waves // 32)
        ops.append(Op("embedding_backward_waves", settings, arguments, blocks))
    for at, (column, out, table) in enumerate(_places(layer)):
        if column.parameters:
            table_sizes = (column.values, column.width)
            places = (layer.inputs, at, layer.outputs, out)
            settings = (splits, layer.parameters, *table_sizes, *places)
            arguments = (gradient.plus(table), node.dz, node.x, BATCH_ROWS)
            blocks = splits * _parts(column)
            ops.append(Op("embedding_backward_table", settings, arguments, blocks))
    return ops


def _parts(column: InputColumn) -> int:
    """Return how many blocks share a table: a thread has one of its values."""
    lanes = min(column.width, THREADS)
    return -(-column.values // (THREADS // lanes)) * -(-column.width // lanes)
