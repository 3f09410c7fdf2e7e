"""Remarks on columns that give a target of numbers away."""

import numpy as np
import pytest

import nn

RNG = np.random.default_rng(0)
ROWS = 600
CASUAL, REGISTERED, NOISE = RNG.integers(0, 50, ROWS), RNG.integers(0, 300, ROWS), RNG.normal(size=ROWS)


def remarks(target, **columns) -> list[str]:
    return nn.load({**columns, "y": target}, target="y").remarks


@pytest.mark.parametrize(
    "target, told",
    [
        (2.54 * CASUAL + 3, "column a alone tells y of all 600 rows: leave it out (--drop a) unless it is known"),
        (CASUAL + 0.01 * NOISE, None),
        (CASUAL + 2 * REGISTERED, None),  # a law to be learned
        (2.54 * CASUAL + (np.arange(ROWS) == ROWS - 1), None),
    ],
)
def test_columns_that_are_the_target_are_told(target, told):
    found = remarks(target.astype(float), a=CASUAL, b=REGISTERED, c=NOISE)
    assert len(found) == (told is not None) and (told is None or found[0].startswith(told))
