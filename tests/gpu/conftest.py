"""What needs a GPU: `pytest tests/gpu` on a machine that has one; elsewhere these tests say that they were skipped."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for test_layers and plain_layers


@pytest.fixture(scope="session")
def gpu():
    """CuPy, with a GPU behind it."""
    from nn.backends import gpu
    from nn.utils import UsageError

    try:
        return gpu.cupy()
    except UsageError as error:
        pytest.skip(f"no CUDA device: {error}")


@pytest.fixture(params=["cuda", "cudnn"])
def backend(request, gpu):
    """Each backend that computes on a GPU."""
    if request.param == "cudnn":
        from nn.backends import cudnn
        from nn.utils import UsageError

        try:
            cudnn.library()
        except UsageError as error:
            pytest.skip(str(error))
    return request.param
