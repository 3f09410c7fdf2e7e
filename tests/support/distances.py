"""How far apart two arrays of numbers are: one definition for all tests."""

import numpy as np


def relative_distance(found, expected) -> float:
    """Return |found - expected| / |expected|, the norms of the whole arrays in float64.

    Two arrays of zeros are 0 apart; anything else is infinitely far from an array of
    zeros.
    """
    found, expected = (
        np.ravel(array).astype(np.float64) for array in (found, expected)
    )
    apart, size = np.linalg.norm(found - expected), np.linalg.norm(expected)
    return float(apart / size) if size else float(np.inf if apart else 0)
