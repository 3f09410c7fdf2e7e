"""How long the candidates of --effort for a table will take here, told before they
begin: by their operations, and by a small training that is timed."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ..ds import Dataset
from ..nn import Network
from .candidates import NETWORKS
from .effort_plan import Planned
from .options import options_of

# seconds of a core on which an epoch of the sample takes OF_SAMPLE, fitted to trainings
# of tables (docs/measured.md)
OF_SAMPLE = 2.2e-3
OF_OPERATION = 8.7e-11
OF_BATCH = 1.6e-5
OF_NETWORK_EPOCH = 2.2e-4
OF_CANDIDATE = 0.03
OF_CHOICE = 0.12
SHARING = 0.8  # n threads share the epochs as n to this power would that lost nothing
# of the seconds so found, between which nine of ten trainings lie
LEAST_OF_SPAN = 0.5
MOST_OF_SPAN = 2.0
SAMPLE_ROWS = 2048
SAMPLES = 5  # of which the first is not counted


def seconds_of(planned: Sequence[Planned], threads: int) -> tuple[float, float]:
    """Return about how many seconds candidates for a table take here, at least and at
    most."""
    seconds = OF_CHOICE
    for candidate, net, operations in planned:
        networks = candidate.folds or NETWORKS
        rows = operations / net.parameter_count  # of all epochs of all networks
        of_epochs = (
            OF_OPERATION * operations
            + OF_BATCH * rows / candidate.batch_number
            + OF_NETWORK_EPOCH * candidate.usual_epochs * networks
        )
        seconds += OF_CANDIDATE + of_epochs / min(threads, networks) ** SHARING
    seconds *= sample_seconds(planned[0].net.dtype) / OF_SAMPLE
    return LEAST_OF_SPAN * seconds, MOST_OF_SPAN * seconds


def sample_seconds(dtype: str) -> float:
    """Return the seconds that an epoch of a small network takes one thread."""
    x = np.linspace(-1, 1, 16 * SAMPLE_ROWS, dtype=dtype).reshape(SAMPLE_ROWS, 16)
    ds = Dataset(x, x[:, :1], "regression")
    net = Network(
        "16,128:silu,64:silu,1", "regression", backend="omp", threads=1, dtype=dtype
    )
    settings = options_of(net, ds, {"batch_number": 16}).epoch_settings(0, 0, 1)
    data = net.engine.load(ds.x, ds.y)
    order = np.arange(SAMPLE_ROWS)
    for sample in range(SAMPLES):
        if sample == 1:
            began = time.perf_counter()
        net.engine.epoch(data, order, settings, net.engine.progress())
    return (time.perf_counter() - began) / (SAMPLES - 1)
