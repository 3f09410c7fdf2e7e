"""What needs a GPU: `pytest tests/gpu` on a machine that has one; elsewhere these tests say that they were skipped."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for tests/support

from support.networks import require  # noqa: E402


@pytest.fixture(scope="session")
def gpu():
    """CuPy, with a GPU behind it."""
    from nn.backends.cuda import device
    from nn.utils import UsageError

    try:
        return device.cupy()
    except UsageError as error:
        pytest.skip(f"no CUDA device: {error}")


@pytest.fixture(params=["cuda", "cudnn"])
def backend(request, gpu):
    """Each backend that computes on a GPU."""
    require(request.param)
    return request.param
