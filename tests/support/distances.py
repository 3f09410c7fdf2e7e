"""How far apart two arrays of numbers are: one definition for all tests."""

import numpy as np


def relative_distance(found, expected) -> float:
    """Return |found - expected| / |expected|, the norms of the whole arrays in float64.

    Two arrays of zeros are 0 apart; anything else is infinitely far from an array of
    zeros.
    """
    found = np.ravel(found).astype(np.float64)
    expected = np.ravel(expected).astype(np.float64)
    apart = np.linalg.norm(found - expected)
    size = np.linalg.norm(expected)
    if size:
        return float(apart / size)
    return float(np.inf if apart else 0)
