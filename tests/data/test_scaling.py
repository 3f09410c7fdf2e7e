"""Scaling: constants from the training rows, applied and taken back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.effort import examples

from nn.ds import Scaling
from nn.nn_aux import SCALINGS
from nn.utils import DataError, UsageError

SCALED = {  # what a column of 1, 3, 8 becomes
    "none": [1, 3, 8],
    "pixel": [1, 3, 8],  # floats stay
    "normalization": [0, 2 / 7, 1],
    "standardization": np.array([-3, -1, 4]) / np.sqrt(26 / 3),
}


@pytest.mark.parametrize("kind", SCALINGS)
def test_every_scaling_has_its_formula(kind):
    x = np.array([[1.0], [3], [8]])
    scaling = Scaling.fit(kind, x)
    inputs = scaling.apply(x, "float64")[:, 0]
    np.testing.assert_allclose(inputs, SCALED[kind], rtol=1e-15)
    assert bool(len(scaling.shift)) == SCALINGS[kind].is_fitted
    with pytest.raises(UsageError, match=kind):
        Scaling.fit("standard", x)


def test_constants_are_of_the_training_rows_and_constant_columns_become_zero_warned(
    warnings_of,
):
    x = np.array([[1, 10], [3, 30], [100, 1000]], np.float32)
    rows = np.array([0, 1])
    scaling = Scaling.fit("normalization", x, rows)
    expected = [[0, 0], [1, 1], [49.5, 49.5]]
    np.testing.assert_array_equal(scaling.apply(x, "float64"), expected)
    rows = np.array([0, 1])
    scaling = Scaling.fit("standarization", x, rows)
    expected = [[1, 1], [-1, -1]]
    inputs = scaling.apply(x[[1, 0]], "float64")
    np.testing.assert_array_equal(inputs, expected)
    x = np.array([[1, 5, 2], [1, 6, 2], [1, 7, 2]], np.float32)
    scaling = Scaling.fit("standardization", x)
    assert [message[:17] for message in warnings_of()] == ["2 of 3 features h"]
    again = Scaling.from_dict(scaling.to_dict())
    inputs = again.apply(x + 9, "float32")
    np.testing.assert_array_equal(inputs[:, [0, 2]], 0)
    np.testing.assert_array_equal(again.inverse(np.zeros((1, 3)))[:, [0, 2]], [[1, 2]])
    with pytest.raises(DataError, match="column b holds only the value 1"):
        Scaling.fit("normalization", x, columns=["b", "c", "d"], strict=True)


@examples(50)
@given(
    st.integers(2, 300),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
    st.floats(-1e6, 1e6),
)
def test_standardized_rows_have_mean_zero_and_deviation_one(
    rows, columns, seed, offset
):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) + offset
    z = Scaling.fit("standardization", x).apply(x, "float64")
    # a sum of rows is rounded once a row, to 2^-53 of what it has so far
    rounding = (rows + 2) * 2.0**-53 * np.abs(x).max()
    least = 1e-12 + rounding / x.std(axis=0).min()
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=least)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=least)


def test_many_rows_are_scaled_block_by_block_as_at_once():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 5, (100_000, 7))
    scaling = Scaling.fit("standardization", x)
    np.testing.assert_allclose(scaling.shift, x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, x.std(axis=0), rtol=1e-12)
    expected = (x - scaling.shift) / scaling.scale
    inputs = scaling.apply(x, "float64")
    np.testing.assert_array_equal(inputs, expected)
    np.testing.assert_array_equal(
        scaling.inverse(expected), expected * scaling.scale + scaling.shift
    )


def test_images_are_bytes_over_255_or_standardized_by_channel():
    bytes_ = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    for dtype in ("float32", "float64"):
        estimator = Scaling.fit("pixel", bytes_)
        scaled = estimator.apply(bytes_, dtype)
        expected = (np.arange(256) / 255).astype(dtype)
        np.testing.assert_array_equal(scaled.ravel(), expected)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (50, 3, 4, 5), np.uint8)
    scaling = Scaling.fit("standardization", x)
    z = scaling.apply(x, "float64")
    np.testing.assert_allclose(z.mean(axis=(0, 2, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis=(0, 2, 3)), 1, atol=1e-12)
    expected = z[:, 1]
    np.testing.assert_array_equal(
        (x[:, 1] - scaling.shift[1]) / scaling.scale[1], expected
    )
