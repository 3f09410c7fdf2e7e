"""One network used by several threads of Python, and in processes that are forked: the
numbers of one use at a time."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from support.command_line import environment
from support.effort import EFFORT
from support.threads import check, check_beside_a_training, in_threads, two_classes

import nn
from nn import backends
from nn.backends.cuda import device
from nn.nn import Network
from nn.utils import UsageError

THREADS = 8
LAYERS = [
    "12,160,160,4",  # on several threads alone
    "8,16,3",
    "12,40:gelu,dropout0.5,3:softmax",
    "2x12x12,conv8k3,maxpool2,20,3",
    "1x9x9,conv3k2s2,pad1,avgpool2s1,3:linear",
]


def rows_for(net, most: int = 400) -> list[np.ndarray]:
    """Rows for each thread, of counts that differ."""
    rng = np.random.default_rng(0)
    shape = net.schema.inputs
    if not isinstance(shape, tuple):
        shape = (shape,)
    return [
        rng.normal(size=(1 + most * k // THREADS, *shape)).astype(net.dtype)
        for k in range(THREADS)
    ]


@pytest.mark.parametrize("layers", LAYERS)
def test_threads_predict_with_one_network_as_one_thread_does(layers, processor):
    net = Network(layers, "regression", backend=processor, threads=3)
    check(net.predict, rows_for(net, most=400 if processor == "omp" else 60))


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "vary", [None, "hidden=20|30-10", "hidden=20|30-10,learning_rate=0.001..0.1"]
)
def test_threads_predict_and_test_with_a_network_of_several_as_one_thread_does(vary):
    ds = two_classes(300)
    net = Network("12,20,1", "binary", backend="omp", threads=2)
    nn.train(net, ds, networks=4, epochs=2, vary=vary)
    check(net.predict, rows_for(net))
    check(net.deviation, rows_for(net))
    check(
        lambda number: net.members[number % len(net.members)].predict(ds.x),
        range(THREADS),
    )
    nets = net, Network("12,160,160,1", "binary", backend="omp", threads=2)
    check(lambda number: nn.test(nets[number % 2], ds), range(THREADS))


@pytest.mark.slow
def test_threads_predict_with_an_estimator_as_one_thread_does():
    pytest.importorskip("sklearn")
    ds = two_classes(300)
    made = nn.NetworkClassifier("12,80,80,1", epochs=2).fit(ds.x, ds.y)
    check(made.predict_proba, rows_for(made.network_, most=20_000))
    check(made.predict, rows_for(made.network_))


def test_threads_that_need_the_engine_first_share_one(monkeypatch):
    made = []
    create = backends.create

    def slowly(*arguments, **options):
        made.append(arguments)
        time.sleep(0.1)
        return create(*arguments, **options)

    monkeypatch.setattr(backends, "create", slowly)
    net = Network("12,20,1", "binary", backend="omp")
    alike = Network("12,20,1", "binary", backend="omp")
    items = rows_for(net)
    np.testing.assert_equal(
        in_threads(net.predict, items), [alike.predict(x) for x in items]
    )
    assert len(made) == 2  # of each network


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "settings", [{}, {"validation": 0.2, "patience": 2, "learning_rate": 0.05}]
)
def test_a_prediction_beside_a_training_sees_an_epochs_end_and_changes_nothing(
    processor, settings
):
    net = Network("12,60,60,1", "binary", backend=processor, threads=2, seed=3)
    check_beside_a_training(
        lambda: net.sibling(3),
        2000 if processor == "omp" else 500,
        4,
        epochs=6,
        **settings,
    )


def test_a_prediction_sees_all_parameters_that_are_set_or_none(processor):
    net = Network("12,60,60,1", "binary", backend=processor, threads=2)
    x = two_classes(100).x
    parameters = net.sibling(1).parameters()
    values = [net.parameters(), parameters]
    whole = set()
    is_over = threading.Event()
    for value in values:
        net.set_parameters(value)
        whole.add(net.predict(x).tobytes())

    def watch():
        while not is_over.is_set():
            assert net.predict(x).tobytes() in whole

    with ThreadPoolExecutor(3) as pool:
        watching = [pool.submit(watch) for _ in range(3)]
        for k in range(200):
            net.set_parameters(values[k % 2])
        is_over.set()
        assert [future.result() for future in watching] == [None] * 3


@pytest.mark.timing
@pytest.mark.parametrize(
    "layers, rows, times",
    [
        ("30,60,10,1", 10_000, 30),
        ("64,512,512,10", 2000, 4),
        ("1x28x28,conv8k3,maxpool2,64,10", 256, 8),
    ],
)
def test_eight_threads_take_little_longer_than_the_same_one_after_the_other(
    layers, rows, times
):
    net = Network(layers)
    most = rows * THREADS // (THREADS - 1)
    x = rows_for(net, most=most)[-1]

    def predict(_):
        for _ in range(times):
            net.predict(x)

    ratios = []
    while len(ratios) < 5 and min(ratios, default=2) >= 1.1:
        began = time.perf_counter()
        for number in range(THREADS):
            predict(number)
        between = time.perf_counter()
        in_threads(predict, range(THREADS))
        ratios.append((time.perf_counter() - between) / (between - began))
    assert min(ratios) < 1.1


FORK = """
import multiprocessing, os, signal, sys, threading, time
import numpy as np
import nn

x = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)
ds = nn.Dataset(x, (x[:, 0] > 0).astype(int), "binary", ["0", "1"])
net = nn.Network("64,512,512,1", "binary", backend="omp", threads=2)

def trained(**settings):
    own = nn.Network("64,512,512,1", "binary", backend="omp", threads=2, seed=4)
    nn.train(own, ds, epochs=2, batch_size=100, **settings)  # enough to learn something
    return own.predict(x)

def forked(call):
    "Return the exit code of a child, which the call gives, and which is killed where it waits for ever."
    child = os.fork()
    if not child:
        signal.alarm(60)
        code = 2
        try:
            code = call()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def in_child(call):
    "Return 0 if the call gives the same in a child."
    expected = call()
    return forked(lambda: 1 - np.array_equal(call(), expected))
"""
CHILDREN = {
    "computes": """
calls = {
    "predicts": lambda: net.predict(x), "tests": lambda: nn.test(net, ds), "trains": trained,
    "trains several": lambda: trained(networks=3),
    "multiplies": lambda: nn.matmul(x[:512].T, x[:512], threads=2),
    "has gradients": lambda: net.gradients(x, ds.y)[1]["layer1.weight"],
    "forks": lambda: in_child(lambda: net.predict(x)),
    "multiplies by NumPy": lambda: x.T @ x,
}
found = {what: in_child(call) for what, call in calls.items()}
print(0 if not any(found.values()) else found)
""",
    "is of multiprocessing": """
expected = net.predict(x)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(0 if all(np.array_equal(own, expected) for own in pool.map(net.predict, [x] * 4)) else 1)
""",
    "is forked beside a training": """
seen, epochs = [], threading.Event()
class Seen(nn.Callback):
    def epoch(self, *_):
        seen.append(net.predict(x))
        epochs.set()
def goes_on():
    np.save("first.npy", net.predict(x))  # of an epoch that the callback may not have seen yet
    nn.train(net, ds, epochs=1, scaling="none")
    return 0
training = threading.Thread(target=lambda: nn.train(net, ds, epochs=20, callback=Seen(), scaling="none"))
training.start()
epochs.wait()
time.sleep(0.01)
code = forked(goes_on)
training.join()
print(code or 1 - any(np.array_equal(np.load("first.npy"), one) for one in seen))
""",
    "reads Parquet": """
import pyarrow, pyarrow.parquet
table = pyarrow.table({"a": x[:, 0], "b": x[:, 1], "y": ds.y})
pyarrow.parquet.write_table(table, "rows.parquet", row_group_size=100)
print(in_child(lambda: nn.load("rows.parquet").x))
""",
}


@pytest.mark.usual(0, 2)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("child", CHILDREN)
def test_a_forked_process_computes_the_same(child, tmp_path):
    if child == "reads Parquet":
        pytest.importorskip("pyarrow")
    for _ in range(EFFORT):
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore::DeprecationWarning",
                "-c",
                FORK + CHILDREN[child],
            ],
            capture_output=True,
            text=True,
            env=environment(OPENBLAS_NUM_THREADS="2"),
            cwd=tmp_path,
            timeout=200,
        )
        assert done.stdout.split() == ["0"]
        assert done.stderr == ""
        assert done.returncode == 0


def test_cuda_in_a_forked_process_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(device, "_process", -1, raising=False)
    monkeypatch.setattr(device, "cupy", lambda: None)
    monkeypatch.setattr(device, "missing", lambda *_: None)
    words = "--backend cuda: CUDA does not work in a process that was forked from one that has used it; start processes"
    with pytest.raises(UsageError, match=words) as caught:
        _ = Network("3,4,1", backend="cuda").engine
    assert "\n" not in str(caught.value)
    with (
        pytest.raises(UsageError, match=words),
        device.GpuContext("a network", "use a smaller one", nullcontext()),
    ):
        raise AssertionError("the GPU is used")
    assert Network("50,3200,1600,1").backend == "omp"
