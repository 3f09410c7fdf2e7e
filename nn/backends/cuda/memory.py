"""Resources that a layer asks for when it becomes a part of a program: buffers, shared
memory, tiles, blocks.

The layer files (dense.py, conv.py, embedding.py, plain.py) import this and nothing
above it; builder.py imports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf

from .abi import THREADS, TILE_GAP, TILE_STAGES
from .program import LINE, PARTIAL_SUMS, Buffer, LayerNode, Op, Program

PHASE_COST = 2.5  # microseconds: a barrier or a graph's node, and starting work
PARTIAL_SUM_COST = 1e-6  # microseconds to write and read a byte of a partial sum,
PARTIAL_SUM_DELAY = 0.01  # and to wait for one
NEVER = inf


def whole_lines(values: int) -> int:
    """Return the values, filled up to the next multiple of LINE."""
    return -(-values // LINE) * LINE


class Workspace:
    """The program under way, and what it needs of the GPU. `library` may take over ops:
    see Cublas and Cudnn."""

    def __init__(
        self, program: Program, loss: str, itemsize: int, processors: int, library=None
    ):
        self.program = program
        self.purpose = program.purpose
        self.rows = program.purpose.rows
        self.loss = loss
        self.itemsize = itemsize
        self.processors = processors
        self.library = library
        # ops that only need the parameters, done before the first layer or beside it
        self.ready: list[Op] = []

    # ---- global memory

    def buffer(self, width: int) -> Buffer:
        """Return a new buffer of that many values a row."""
        at = self.program.row_values
        self.program.row_values += whole_lines(width)
        return Buffer("rows", at)

    def make_ready(
        self, node: LayerNode, function: str, settings: tuple, width: int, values: int
    ) -> Buffer:
        """Return a buffer of `width` values that an op over `values` fills from the
        layer's weights, before anything needs it."""
        buffer = self.buffer(-(-width // self.rows))
        arguments = (buffer, node.weight)
        blocks = self.elementwise(values)
        self.ready.append(
            Op(function, settings, arguments, blocks, step=("forward", node.index))
        )
        return buffer

    def partial_sums(self, splits: int, values: int) -> Buffer:
        """Return memory for `splits` partial sums of that many values each, until the
        next phase."""
        if splits > 1:
            needed = splits * values
        else:
            needed = 0
        self.program.partial_sum_values = max(self.program.partial_sum_values, needed)
        return PARTIAL_SUMS

    def gradient(self, node: LayerNode, row_splits: int = 1) -> Buffer:
        """Return memory for a layer's gradients, which come in that many partial sums,
        and for their sum where members of a group send it."""
        size = node.layer.parameters
        node.row_splits = row_splits
        if not self.purpose.distribute:
            node.gradient = self._gradient_values(row_splits * size)
        else:
            node.gradient_sum = Buffer("gradients", self.program.sum_values)
            self.program.sum_values += whole_lines(size)
            if row_splits == 1:
                node.gradient = node.gradient_sum
            else:
                node.gradient = self._gradient_values(row_splits * size)
        return node.gradient

    def _gradient_values(self, values: int) -> Buffer:
        at = self.program.gradient_values
        self.program.gradient_values += whole_lines(values)
        return Buffer("gradients", at)

    # ---- blocks, and what they need

    def elementwise(self, values: int) -> int:
        """Return the blocks for a loop over that many values: enough to fill the GPU
        twice; more start slower."""
        return max(1, min(-(-values // THREADS), 16 * self.processors))

    def share(self, values: int) -> None:
        """Give each block shared memory for at least that many values."""
        self.program.shared_bytes = max(
            self.program.shared_bytes, values * self.itemsize
        )

    def aligned(self, parameter: Buffer) -> int:
        """Return 1 where a parameter's address is a multiple of 16 bytes, else 0."""
        return int(parameter.at * self.itemsize % 16 == 0)

    def tile(
        self, m: int, n: int, k: int, fixed: float, split: float, alone: bool = False
    ) -> Tile:
        """Return the tile and splits for the product (m, k) (k, n).

        fixed, split: microseconds that splitting the sums costs at all, and each split;
        alone: nothing else is computed meanwhile.
        """
        # a kernel that runs whole epochs has one block a multiprocessor
        if alone and self.library:
            resident = 2
        else:
            resident = 1
        tile = choose(m, n, k, self.itemsize, self.processors, fixed, split, resident)
        self.program.shared_bytes = max(
            self.program.shared_bytes, tile.bytes(self.itemsize)
        )
        return tile


# ---- which tile a matrix product is computed in, and how its sums are split: a model
# of the time

SQUARE = 16  # threads along each side of a block
SHARED_LIMIT = 48 << 10  # bytes a block gets without asking for more
LATENCY = 800  # cycles: no step is faster, since its values come from the L2 cache
TILE_OVERHEAD_CYCLES = 2500  # cycles before the first and after the last step of a tile
MOST_SPLITS = 256
CYCLES_OF_MICROSECOND = 1800  # a microsecond
# relative time of a step when 1 or 2 blocks share a multiprocessor
SLOWDOWN = (1.0, 1.4)


@dataclass(frozen=True)
class Tile:
    """m x n results at a time, k values of their sums a step; the sums in `splits`
    partial sums."""

    m: int
    n: int
    k: int
    splits: int = 1

    def __str__(self) -> str:
        return f"tile<{self.m}, {self.n}, {self.k}>"

    def count(self, m: int, n: int) -> int:
        """Return the tiles of a whole product, times its splits."""
        return -(-m // self.m) * -(-n // self.n) * self.splits

    def bytes(self, itemsize: int) -> int:
        return TILE_STAGES * self.k * ((self.m + self.n) * itemsize + 2 * TILE_GAP)

    def step_cycles(self, itemsize: int) -> float:
        """Return the cycles of a step on a multiprocessor of 128 float lanes: products,
        shared memory, loads."""
        rm = self.m / SQUARE
        rn = self.n / SQUARE
        products = 2 * rm * rn * (itemsize / 4)
        loads = (self.m + self.n) * self.k / 256 * 16
        return self.k * (products + 6 * (rm + rn) * (itemsize / 4)) + loads + 60


_SIDES = (16, 32, 64, 128)


def _candidates(itemsize: int):
    for m in _SIDES:
        for n in _SIDES:
            for k in (8, 16, 32, 64):
                tile = Tile(m, n, k)
                # of a thread: what its registers hold
                sums = m * n // SQUARE**2
                loads = (m + n) * k // SQUARE**2
                fits = (
                    sums * itemsize <= 64 * 4
                    and loads * itemsize <= 12 * 4
                    and loads >= 2
                )
                if fits and tile.bytes(itemsize) <= SHARED_LIMIT:
                    yield tile


@cache
def choose(
    m: int,
    n: int,
    k: int,
    itemsize: int,
    processors: int,
    fixed: float,
    split: float,
    resident: int = 1,
) -> Tile:
    """Return the tile and splits of the product (m, k) (k, n) with the shortest time by
    the model.

    fixed, split: microseconds that splitting the sums costs at all (infinite: they must
    stay whole), and each split. resident: blocks that a multiprocessor runs side by
    side.
    """
    best = None
    shortest = inf
    for tile in _candidates(itemsize):
        steps = -(-k // tile.k)
        splits = 1
        while splits <= min(steps, MOST_SPLITS):
            chosen = Tile(tile.m, tile.n, tile.k, splits)
            time = _cycles(chosen, m, n, steps, itemsize, processors, resident)
            if splits > 1:
                time += CYCLES_OF_MICROSECOND * (fixed + split * splits)
            if time < shortest:
                best = chosen
                shortest = time
            if fixed == inf or chosen.count(m, n) >= 4 * processors:
                break
            splits *= 2
    return best


def _cycles(
    tile: Tile,
    m: int,
    n: int,
    steps: int,
    itemsize: int,
    processors: int,
    resident: int,
) -> float:
    """Return the cycles of a product: a multiprocessor takes its tiles one after the
    other, `resident` side by side; a step is no shorter than its loads."""
    rounds, rest = divmod(-(-tile.count(m, n) // processors), resident)

    def time(blocks: int) -> float:
        return (
            -(-steps // tile.splits)
            * max(SLOWDOWN[blocks - 1] * tile.step_cycles(itemsize), LATENCY)
            + TILE_OVERHEAD_CYCLES
        )

    return rounds * time(resident) + (time(rest) if rest else 0)
