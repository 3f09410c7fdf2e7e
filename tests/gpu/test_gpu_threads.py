"""Several threads of Python with one network on a GPU, and processes that are
forked."""

import subprocess
import sys

import pytest
from support.command_line import argv, environment
from support.threads import check, check_beside_a_training, two_classes

import nn

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


@pytest.mark.parametrize("networks", [1, 3])
def test_threads_predict_with_one_network_as_one_thread_does(networks, backend):
    ds = two_classes(3000)
    net = nn.Network("12,80,dropout0.2,80,1", "binary", backend=backend)
    nn.train(net, ds, epochs=1, networks=networks)
    check(net.predict, [ds.x[: 1 + 400 * k] for k in range(8)], rounds=4)


def test_a_prediction_beside_a_training_sees_an_epochs_end_and_changes_nothing(backend):
    check_beside_a_training(
        lambda: nn.Network("12,80,80,1", "binary", backend=backend), 3000, 3, epochs=5
    )


def test_a_forked_process_is_told_in_one_line_that_cuda_does_not_work(backend):
    command = [
        sys.executable,
        *argv("-W ignore::DeprecationWarning -c"),
        FORKED,
        backend,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=200
    )
    words = "backend cuda: CUDA does not work in a process that was forked from one that has used it; start processes"
    lines = done.stdout.splitlines()
    assert [line.startswith(words) for line in lines] == [True, True], done.stderr
    assert done.stderr == ""
    assert done.returncode == 0
