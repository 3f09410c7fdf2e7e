"""`python -m tests.bench.products [PLAN]`: the four steps of a matrix product on the
GPU beside cuBLAS, and a convolution by an unrolled matrix, with its memory.

products.cu has the kernels, which nn itself does not use; products.json, the plan, has
sizes (m, k, n), tiles and images as lists, of which every combination is timed.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nn.backends.cuda import device
from nn.backends.cuda.program import PRELUDE
from nn.study.bench import duration, median_seconds, normal, timed
from nn.terminal.tables import table

HERE = Path(__file__).parent
CUBLAS = "cuBLAS"
WARP = 32
MOST_THREADS = 1024  # of a block
MOST_SHARED_BYTES = 48 << 10
SECONDS = 0.1  # to measure one product


class Kernels:
    """The kernels of products.cu for a tile and a type, on arrays of CuPy."""

    def __init__(self, tile: int, dtype: str = "float32"):
        real = {"float32": "float", "float64": "double"}[dtype]
        self._module = device.cupy().RawModule(
            code=PRELUDE + (HERE / "products.cu").read_text(),
            options=(f"-Dreal={real}", f"-DTILE={tile}"),
            enable_cooperative_groups=False,
        )
        self._tile = tile
        self._dtype = np.dtype(dtype)

    def fits(self, step: int, m: int, k: int, n: int) -> bool:
        """Return whether a step can compute a product of this size."""
        one_block = m * n <= MOST_THREADS
        if step == 2:
            one_block &= (m + n) * k * self._dtype.itemsize <= MOST_SHARED_BYTES
        return step > 2 or one_block

    def product(self, step: int, a, b):
        """Return c (m, n) of a (m, k) and b (k, n)."""
        m, k = a.shape
        n = b.shape[1]
        c = device.cupy().empty((m, n), self._dtype)
        if step <= 2:
            grid = (1,)
            threads = -(-m * n // WARP) * WARP
            values = (m + n) * k * (step - 1)
        else:
            grid = (-(-n // self._tile), -(-m // self._tile))
            threads = self._tile**2
            values = 2 * threads * (step - 3)
        sizes = [np.int64(size) for size in (m, n, k)]
        kernel = self._module.get_function(f"product_{step}")
        shared_mem = values * self._dtype.itemsize
        kernel(grid, (threads,), (c, a, b, *sizes), shared_mem=shared_mem)
        return c

    def unrolled(self, x, kernel: int, padding: int):
        """Return the matrix of an image (channels, height, width): a column for each
        place of the output."""
        channels, height, width = x.shape
        places = (height + 2 * padding - kernel + 1) * (
            width + 2 * padding - kernel + 1
        )
        matrix = device.cupy().empty((channels * kernel**2, places), self._dtype)
        sizes = [np.int64(size) for size in (*x.shape, kernel, padding)]
        blocks = min(1024, -(-matrix.size // 256))
        unroll = self._module.get_function("unroll")
        unroll((blocks,), (256,), (matrix, x, *sizes))
        return matrix

    def convolution(self, x, weights, kernel: int, padding: int):
        """Return y (filters, places) of an image and weights (filters, channels kernel
        kernel)."""
        return self.product(4, weights, self.unrolled(x, kernel, padding))


def combinations(axes: dict) -> list[dict]:
    """Return every combination of the values of a plan's part."""
    lists = [v if isinstance(v, list) else [v] for v in axes.values()]
    return [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*lists)
    ]


def main(
    plan: Annotated[str, typer.Argument(help="Sizes, tiles, images.")] = str(
        HERE / "products.json"
    ),
):
    """Time the products and the convolutions of a plan."""
    parts = json.loads(Path(plan).read_text())
    lines = [_product_line(**each) for each in combinations(parts["products"])]
    headers = ["m, k, n", "step", "tile", "time", "GFLOP/s"]
    table(headers, list(filter(None, lines)))
    lines = [_convolution_line(**each) for each in combinations(parts["convolutions"])]
    headers = ["image", "kernel", "unrolling", "product", "MB of image", "of matrix"]
    table([*headers, "times", "kernel^2"], lines)


def _seconds(call) -> float:
    """Return the seconds of a call on the GPU, from its start to its end."""
    stream = device.cupy().cuda.get_current_stream()
    return median_seconds(timed(lambda: (call(), stream.synchronize())), SECONDS)


def _product_line(size: list[int], tile: int, step: int | str) -> list[str] | None:
    """Return the line of a product, None where the step cannot compute it, or where the
    tile says nothing."""
    m, k, n = size
    kernels = Kernels(tile)
    needs_no_tile = step in (1, 2, CUBLAS)
    if step != CUBLAS and not kernels.fits(step, m, k, n):
        return None
    if needs_no_tile and tile != 16:
        return None
    a, b = [device.cupy().asarray(normal(s, "float32")) for s in ((m, k), (k, n))]
    if step == CUBLAS:
        seconds = _seconds(lambda: a @ b)
    else:
        seconds = _seconds(lambda: kernels.product(step, a, b))
    rate = 2e-9 * m * k * n / seconds
    shown = "" if needs_no_tile else str(tile)
    return [f"{m}, {k}, {n}", str(step), shown, duration(1e6 * seconds), f"{rate:.3g}"]


def _convolution_line(
    image: list[int], filters: int, kernel: int, tile: int
) -> list[str]:
    """Return the line of a convolution whose output is about as large as its input."""
    kernels = Kernels(tile)
    padding = kernel // 2
    x = device.cupy().asarray(normal(tuple(image), "float32"))
    values = image[0] * kernel**2
    weights = device.cupy().asarray(normal((filters, values), "float32"))
    matrix = kernels.unrolled(x, kernel, padding)
    unrolling = _seconds(lambda: kernels.unrolled(x, kernel, padding))
    product = _seconds(lambda: kernels.product(4, weights, matrix))
    times = [duration(1e6 * seconds) for seconds in (unrolling, product)]
    sizes = [f"{array.nbytes / 1e6:.3g}" for array in (x, matrix)]
    factor = f"{matrix.nbytes / x.nbytes:.3g}"
    return [
        "x".join(map(str, image)),
        str(kernel),
        *times,
        *sizes,
        factor,
        str(kernel**2),
    ]


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
