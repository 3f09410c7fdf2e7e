"""Two MPI ranks of one thread each against two threads of one process, turn by turn: `python tests/bench/ranks.py`.

    python tests/bench/ranks.py [CASE] [ROUNDS]      a training case of nn.study.bench (cnn2), and how often (9)

Each round times a few epochs of either and of `central`, and the medians over the rounds are told with their ratios:
neighbours on the machine disturb all alike. Needs mpi4py and an mpiexec.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from nn import cluster
from nn.core.random import PhiloxOrder
from nn.study.bench import TrainStepCase, at_constant_rate, select

EPOCHS = 7  # of a measurement, the first of which does not count
SIDES = {"threads": (1, 2), "mirrored": (2, 1), "central": (2, 1)}  # name -> (ranks, threads of each)


def epoch_seconds(case: TrainStepCase, side: str) -> float:
    """Median seconds of a batch in this process, which may be a rank."""
    net = case.model.network(case.dtype, "omp", SIDES[side][1])
    net.distribute = None if side == "threads" else side
    engine, order = net.engine, PhiloxOrder(case.rows, 0)
    data = engine.load(*case.data())
    settings = at_constant_rate(case.optimizer, case.learning_rate, case.batch)
    seconds = []
    for number in range(EPOCHS):
        rows, progress = order.epoch(number), engine.progress(step=number * case.batches)
        engine.rank_group.gather(None)
        began = time.perf_counter()
        engine.epoch(data, rows, settings, progress)
        seconds.append((time.perf_counter() - began) / case.batches)
    return float(np.median(seconds[1:]))


def measured(case: str, side: str) -> float:
    """Microseconds of a batch, measured by processes of their own."""
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, __file__, case, "1", side]
    if SIDES[side][0] > 1:
        command = [mpiexec, "-n", str(SIDES[side][0]), *command]
    return 1e6 * float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main(case: str = "cnn2", rounds: str = "9", side: str | None = None) -> None:
    if side:
        seconds = epoch_seconds(select([case])[0], side)
        if cluster.current().rank == 0:
            print(seconds)
        sys.exit(cluster.end(0))
    times = {side: [] for side in SIDES}
    for _ in range(int(rounds)):
        for side, found in times.items():
            found.append(measured(case, side))
    threads = np.array(times["threads"])
    for side, found in times.items():
        speed = np.median(threads / np.array(found))
        print(f"{case} {side}: median {np.median(found):.0f} us a batch, speed {speed:.2f} of two threads'")


if __name__ == "__main__":
    main(*sys.argv[1:])
