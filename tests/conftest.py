"""Fixtures for all tests. Run from a checkout with the package installed: `pytest`."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden outputs: $NN_SHARED, else `shared` beside the checkout."""
    folder = Path(os.environ.get("NN_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is not there (set NN_SHARED)")
    return folder


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The small data sets that the project ships."""
    return REPOSITORY / "datasets"
