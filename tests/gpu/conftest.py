"""What needs a GPU: `pytest tests/gpu` on a machine that has one; elsewhere these tests
say that they were skipped."""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

from nn.backends.cuda import device
from nn.utils import NnError, UsageError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for tests/support

from support.epochs import settings
from support.networks import fill, network, require


@pytest.fixture(scope="session")
def gpu():
    """CuPy, with a GPU behind it."""
    try:
        return device.cupy()
    except UsageError as error:
        pytest.skip(f"no CUDA device: {error}")


@pytest.fixture(params=["cuda", "cudnn"])
def backend(request, gpu):
    """Each backend that computes on a GPU."""
    require(request.param)
    return request.param


@pytest.fixture(params=[2, 4])
def gpus(request, gpu):
    """The first 2, and the first 4 GPUs."""
    count = gpu.cuda.runtime.getDeviceCount()
    if count < request.param:
        pytest.skip(f"{request.param} GPUs are needed, this machine has {count}")
    return tuple(range(request.param))


@pytest.fixture(params=["mirrored", "central"])
def distribute(request):
    return request.param


@pytest.fixture
def check_little_memory(gpu):
    """check(backend, number of a GPU): an epoch with 10 MB left there ends with one
    line, and is done without limit."""

    def check(backend, number, **options):
        net = network("100,5000,1", backend, "float32", **options)
        pool = gpu.get_default_memory_pool()
        x, y = fill(net, 20_000)
        engine = net.engine
        how = settings(optimizer="sgd", batch=20_000)
        data = engine.load(x.reshape(20_000, -1), y)
        gc.collect()
        with gpu.cuda.Device(number):
            pool.free_all_blocks()  # what earlier tests left there would do
            size = pool.used_bytes() + (10 << 20)
            pool.set_limit(size=size)
        try:
            with pytest.raises(
                NnError,
                match="memory is too small for batches of 20000 rows; use a smaller --batch",
            ):
                engine.epoch(data, np.arange(20_000), how, engine.progress())
        finally:
            with gpu.cuda.Device(number):
                pool.set_limit(size=0)
        engine.epoch(data, np.arange(20_000), how, engine.progress())

    return check
