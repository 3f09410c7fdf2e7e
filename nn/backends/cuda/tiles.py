"""Which tile a matrix product on the GPU is computed in, and how its sums are split: a model of the time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf

from .abi import TILE_GAP, TILE_STAGES

SQUARE = 16  # threads along each side of a block
SHARED_LIMIT = 48 << 10  # bytes a block gets without asking for more
LATENCY = 800  # cycles: no step is faster, since its values come from the L2 cache
START = 2500  # cycles before the first and after the last step of a tile
MOST_SPLITS = 256
CYCLES = 1800  # a microsecond
SLOWDOWN = (1.0, 1.4)  # relative time of a step when 1 or 2 blocks share a multiprocessor


@dataclass(frozen=True)
class Tile:
    """m x n results at a time, k values of their sums a step; the sums in `splits` partial sums."""

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
        """Return the cycles of a step on a multiprocessor of 128 float lanes: products, shared memory, loads."""
        rm, rn = self.m / SQUARE, self.n / SQUARE
        products = 2 * rm * rn * (itemsize / 4)
        loads = (self.m + self.n) * self.k / 256 * 16
        return self.k * (products + 6 * (rm + rn) * (itemsize / 4)) + loads + 60


_SIDES = (16, 32, 64, 128)


def _candidates(itemsize: int):
    for m in _SIDES:
        for n in _SIDES:
            for k in (8, 16, 32, 64):
                tile = Tile(m, n, k)
                sums, loads = m * n // SQUARE**2, (m + n) * k // SQUARE**2  # of a thread: what its registers hold
                fits = sums * itemsize <= 64 * 4 and loads * itemsize <= 12 * 4 and loads >= 2
                if fits and tile.bytes(itemsize) <= SHARED_LIMIT:
                    yield tile


@cache
def choose(
    m: int, n: int, k: int, itemsize: int, processors: int, fixed: float, split: float, resident: int = 1
) -> Tile:
    """Return the tile and splits of the product (m, k) (k, n) with the shortest time by the model.

    fixed, split: microseconds that splitting the sums costs at all (infinite: they must stay whole), and each split.
    resident: blocks that a multiprocessor runs side by side.
    """
    best, shortest = None, inf
    for tile in _candidates(itemsize):
        steps = -(-k // tile.k)
        splits = 1
        while splits <= min(steps, MOST_SPLITS):
            chosen = Tile(tile.m, tile.n, tile.k, splits)
            time = _cycles(chosen, m, n, steps, itemsize, processors, resident)
            if splits > 1:
                time += CYCLES * (fixed + split * splits)
            if time < shortest:
                best, shortest = chosen, time
            if fixed == inf or chosen.count(m, n) >= 4 * processors:
                break
            splits *= 2
    return best


def _cycles(tile: Tile, m: int, n: int, steps: int, itemsize: int, processors: int, resident: int) -> float:
    """Return the cycles of a product: a multiprocessor takes its tiles one after the other, `resident` side by side; a
    step is no shorter than its loads."""
    rounds, rest = divmod(-(-tile.count(m, n) // processors), resident)

    def time(blocks: int) -> float:
        return -(-steps // tile.splits) * max(SLOWDOWN[blocks - 1] * tile.step_cycles(itemsize), LATENCY) + START

    return rounds * time(resident) + (time(rest) if rest else 0)
