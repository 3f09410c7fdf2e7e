"""Resources that a layer asks for when it becomes a part of a program: buffers, shared memory, tiles, blocks.

The layer files (dense.py, conv.py, embedding.py, plain.py) import this and nothing above it; builder.py imports them.
"""

from __future__ import annotations

import math

from .abi import THREADS
from .program import LINE, PARTIAL_SUMS, Buffer, LayerNode, Op, Program
from .tiles import Tile, choose

PHASE_COST = 2.5  # microseconds: a barrier or a graph's node, and starting work
PARTIAL_SUM_COST = 1e-6  # microseconds to write and read a byte of a partial sum,
PARTIAL_SUM_DELAY = 0.01  # and to wait for one
NEVER = math.inf


def whole_lines(values: int) -> int:
    """Return the values, filled up to the next multiple of LINE."""
    return -(-values // LINE) * LINE


class Workspace:
    """The program under way, and what it needs of the GPU. `library` may take over ops: see Cublas and Cudnn."""

    def __init__(self, program: Program, loss: str, itemsize: int, processors: int, library=None):
        self.program, self.purpose, self.rows = program, program.purpose, program.purpose.rows
        self.loss, self.itemsize, self.processors, self.library = loss, itemsize, processors, library
        self.ready: list[Op] = []  # ops that only need the parameters, done before the first layer or beside it

    # ---- global memory

    def buffer(self, width: int) -> Buffer:
        """Return a new buffer of that many values a row."""
        at = self.program.row_values
        self.program.row_values += whole_lines(width)
        return Buffer("rows", at)

    def make_ready(self, node: LayerNode, function: str, settings: tuple, width: int, values: int) -> Buffer:
        """Return a buffer of `width` values that an op over `values` fills from the layer's weights, before anything
        needs it."""
        buffer = self.buffer(-(-width // self.rows))
        arguments, blocks = (buffer, node.weight), self.elementwise(values)
        self.ready.append(Op(function, settings, arguments, blocks, writes=(buffer,), step=("forward", node.index)))
        return buffer

    def partial_sums(self, splits: int, values: int) -> Buffer:
        """Return memory for `splits` partial sums of that many values each, until the next phase."""
        needed = splits * values if splits > 1 else 0
        self.program.partial_sum_values = max(self.program.partial_sum_values, needed)
        return PARTIAL_SUMS

    def gradient(self, node: LayerNode, row_splits: int = 1) -> Buffer:
        """Return memory for a layer's gradients, which come in that many partial sums, and for their sum where members
        of a group send it."""
        size = node.layer.parameters
        node.row_splits = row_splits
        if not self.purpose.distribute:
            node.gradient = self._gradient_values(row_splits * size)
        else:
            node.gradient_sum = Buffer("gradients", self.program.sum_values)
            self.program.sum_values += whole_lines(size)
            node.gradient = node.gradient_sum if row_splits == 1 else self._gradient_values(row_splits * size)
        return node.gradient

    def _gradient_values(self, values: int) -> Buffer:
        at = self.program.gradient_values
        self.program.gradient_values += whole_lines(values)
        return Buffer("gradients", at)

    # ---- blocks, and what they need

    def elementwise(self, values: int) -> int:
        """Return the blocks for a loop over that many values: enough to fill the GPU twice; more start slower."""
        return max(1, min(-(-values // THREADS), 16 * self.processors))

    def share(self, values: int) -> None:
        """Give each block shared memory for at least that many values."""
        self.program.shared_bytes = max(self.program.shared_bytes, values * self.itemsize)

    def aligned(self, parameter: Buffer) -> int:
        """Return 1 where a parameter's address is a multiple of 16 bytes, else 0."""
        return int(parameter.at * self.itemsize % 16 == 0)

    def tile(self, m: int, n: int, k: int, fixed: float, split: float, alone: bool = False) -> Tile:
        """Return the tile and splits for the product (m, k) (k, n).

        fixed, split: microseconds that splitting the sums costs at all, and each split; alone: nothing else is computed
        meanwhile.
        """
        resident = 2 if alone and self.library else 1  # a kernel that runs whole epochs has one block a multiprocessor
        tile = choose(m, n, k, self.itemsize, self.processors, fixed, split, resident)
        self.program.shared_bytes = max(self.program.shared_bytes, tile.bytes(self.itemsize))
        return tile
