"""Several threads of Python with one network on a GPU, and processes that are forked."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.command_line import environment

import nn
from nn.watch.callbacks import Callback

FORKED = """
import os, sys
import numpy as np
import nn

x, backend = np.ones((40, 12), np.float32), sys.argv[1]
net = nn.Network("12,20,1", "binary", backend=backend)
net.predict(x)
child = os.fork()
if not child:
    for call in (net.predict, nn.Network("12,20,1", "binary", backend=backend).predict):
        try:
            call(x)
        except nn.UsageError as error:
            print(error, flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def two_classes(rows: int) -> nn.Dataset:
    x = np.random.default_rng(1).normal(size=(rows, 12)).astype(np.float32)
    return nn.Dataset(x, (x[:, 0] > 0).astype(int), "binary", ["0", "1"])


@pytest.mark.parametrize("networks", [1, 3])
def test_threads_predict_with_one_network_as_one_thread_does(networks, backend):
    ds = two_classes(3000)
    net = nn.Network("12,80,dropout0.2,80,1", "binary", backend=backend)
    nn.train(net, ds, epochs=1, networks=networks)
    parts = [ds.x[: 1 + 400 * k] for k in range(8)] * 4
    expected = [net.predict(x) for x in parts]
    with ThreadPoolExecutor(8) as pool:
        for found, wanted in zip(pool.map(net.predict, parts), expected, strict=True):
            assert np.array_equal(found, wanted)


def test_a_prediction_beside_a_training_sees_an_epochs_end_and_changes_nothing(backend):
    ds, ends = two_classes(3000), []
    for beside in (0, 3):
        net = nn.Network("12,80,80,1", "binary", backend=backend)
        is_over, seen = threading.Event(), [net.predict(ds.x[:50]).tobytes()]

        class Ends(Callback):
            def epoch(self, *_, net=net, seen=seen) -> None:
                seen.append(net.predict(ds.x[:50]).tobytes())

        def watch(net=net, is_over=is_over) -> set:
            found = set()
            while not is_over.is_set():
                found.add(net.predict(ds.x[:50]).tobytes())
            return found

        with ThreadPoolExecutor(4) as pool:
            watching = [pool.submit(watch) for _ in range(beside)]
            try:
                nn.train(net, ds, epochs=5, scaling="none", callback=Ends())
            finally:
                is_over.set()
            assert all(one.result() <= set(seen) for one in watching)
        ends.append((net.vector.tobytes(), seen))
    assert ends[0] == ends[1]


def test_a_forked_process_is_told_in_one_line_that_cuda_does_not_work(backend):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, backend]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=200)
    words = "backend cuda: CUDA does not work in a process that was forked from one that has used it; start processes"
    assert [line.startswith(words) for line in done.stdout.splitlines()] == [True, True], done.stderr
    assert (done.stderr, done.returncode) == ("", 0)
