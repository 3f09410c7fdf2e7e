"""The steps of a product that tests/bench/products.cu shows, on a GPU."""

import numpy as np
import pytest
from bench.products import Kernels


@pytest.mark.parametrize("tile", [8, 16, 32])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_each_step_is_the_product(gpu, step, tile):
    rng = np.random.default_rng(0)
    sizes = [(3, 7, 5), (10, 50, 10), (50, 10, 50), (300, 200, 100)]
    for m, k, n in sizes:
        a = gpu.asarray(rng.normal(size=(m, k)))
        b = gpu.asarray(rng.normal(size=(k, n)))
        kernels = Kernels(tile, "float64")
        if kernels.fits(step, m, k, n):
            product = kernels.product(step, a, b).get()
            np.testing.assert_allclose(product, a.get() @ b.get(), rtol=1e-10)


@pytest.mark.parametrize("kernel, padding", [(2, 0), (3, 1), (5, 2)])
def test_a_convolution_is_a_product_with_the_unrolled_image(gpu, kernel, padding):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 17, 16))
    weights = rng.normal(size=(4, 3 * kernel**2))
    on_gpu = map(gpu.asarray, (x, weights))
    y = Kernels(16, "float64").convolution(*on_gpu, kernel, padding).get()
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, (kernel, kernel), axis=(1, 2)
    )
    filters = weights.reshape(4, 3, kernel, kernel)
    expected = np.einsum("chwij,fcij->fhw", windows, filters)
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-10)
