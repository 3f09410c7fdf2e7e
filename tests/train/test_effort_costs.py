"""What an effort takes: never more than the next higher one, in operations and in
parameters, on any shape."""

import itertools

import numpy as np
import pytest

import nn
from nn.nn_aux import EFFORTS
from nn.train.effort import Effort

SHAPES = [(50, 20), (20, 300), (100, 700), (12_000, 20), (100_000, 20)]
LARGER_SHAPES = [
    pytest.param(*shape, marks=pytest.mark.long)
    for shape in ((20, 1000), (100, 2500), (12_000, 150))
]


def chosen(ds, effort):
    """Return (operations of all candidates, parameters of the largest network)."""
    found = Effort(ds, effort, {}, {"threads": 1}).candidates()
    return sum(cost for *_, cost in found), max(
        net.parameter_count for _, net, _ in found
    )


@pytest.mark.parametrize("rows, columns", [*SHAPES, *LARGER_SHAPES])
@pytest.mark.parametrize("kind", ["numbers", "sparse"])
def test_an_effort_costs_no_more_than_the_next_higher_one(rows, columns, kind):
    rng = np.random.default_rng(0)
    x = rng.random((rows, columns), np.float32)
    if kind == "sparse":  # most are one usual value, 0
        x[x < 0.9] = 0
    ds = nn.Dataset(x, rng.random(rows), "regression")
    costs = [chosen(ds, effort) for effort in EFFORTS]
    for lower, higher in itertools.pairwise(costs):
        assert lower[0] <= higher[0]
        assert lower[1] <= higher[1]


def test_a_wide_table_of_few_rows_is_quick():
    x = np.random.default_rng(0).random((100, 3500), np.float32)
    operations, parameters = chosen(nn.Dataset(x, x[:, 0], "regression"), "quick")
    assert operations < 1e10
    assert parameters < 500_000
