"""The steps of a matrix product on the GPU that tests/bench/products.cu shows, on an
emulated one."""

import numpy as np
import pytest
from bench.products import HERE, Kernels, combinations
from support.emulated_gpu import can_emulate, emulated_gpu

from nn.backends.cuda import device

SIZES = [(3, 7, 5), (8, 8, 8), (10, 50, 10)]
LARGER = [(19, 5, 33), (50, 10, 50)]


@pytest.fixture
def kernels(monkeypatch):
    if not can_emulate():
        pytest.skip("no g++ for an emulated GPU")
    with emulated_gpu(monkeypatch):
        yield lambda tile: Kernels(tile, "float64")


def on_gpu(rng, *shape):
    return device.cupy().asarray(rng.normal(size=shape))


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_each_step_is_the_product(kernels, step):
    rng = np.random.default_rng(0)
    sizes = SIZES + LARGER * (step > 2)
    for tile in (8, 16):
        for m, k, n in sizes:
            assert kernels(tile).fits(step, m, k, n)
            a = on_gpu(rng, m, k)
            b = on_gpu(rng, k, n)
            product = kernels(tile).product(step, a, b)
            np.testing.assert_allclose(product, np.asarray(a) @ np.asarray(b), 1e-12)


def test_one_block_has_not_threads_and_memory_for_any_size(kernels):
    assert not kernels(8).fits(1, 50, 10, 50)
    assert kernels(8).fits(1, 10, 5000, 10)
    assert not kernels(8).fits(2, 10, 5000, 10)
    assert kernels(8).fits(4, 50, 5000, 50)


@pytest.mark.parametrize("kernel, padding", [(2, 0), (3, 1), (3, 0), (5, 2)])
def test_a_convolution_is_a_product_with_the_unrolled_image(kernels, kernel, padding):
    rng = np.random.default_rng(1)
    x = on_gpu(rng, 3, 7, 6)
    weights = on_gpu(rng, 4, 3 * kernel**2)
    y = np.asarray(kernels(8).convolution(x, weights, kernel, padding))
    padded = np.pad(np.asarray(x), ((0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, (kernel, kernel), axis=(1, 2)
    )
    filters = np.asarray(weights).reshape(4, 3, kernel, kernel)
    expected = np.einsum("chwij,fcij->fhw", windows, filters)
    np.testing.assert_allclose(
        y.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12
    )


def test_the_unrolled_image_takes_the_memory_that_the_study_counts(kernels):
    """16 / 9 for 3 x 3 and a kernel of 2 x 2, kernel^2 where outputs are as many as
    inputs."""
    x = on_gpu(np.random.default_rng(2), 1, 3, 3)
    assert kernels(8).unrolled(x, 2, 0).size == 16
    x = on_gpu(np.random.default_rng(2), 16, 8, 8)
    assert kernels(8).unrolled(x, 3, 1).size == 9 * x.size


def test_a_plan_has_every_combination():
    assert combinations({"tile": [8, 16], "step": 1}) == [
        {"tile": 8, "step": 1},
        {"tile": 16, "step": 1},
    ]
    assert (HERE / "products.json").exists()
