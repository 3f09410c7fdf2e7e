"""Several threads of Python with one network: what they get at the same time is what
one gets alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import nn
from nn.watch.callbacks import Callback
from support.effort import EFFORT


def in_threads(call, items) -> list:
    """Return the call's result for each item, each in a thread of its own; all begin at
    the same time."""
    begin = threading.Barrier(len(items))

    def one(item):
        begin.wait()
        return call(item)

    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(one, items))


def check(call, items, rounds: int = 20 * EFFORT) -> None:
    """Compare what threads get at the same time with what one gets, one item after the
    other."""
    expected = [call(item) for item in items]
    for _ in range(rounds):
        np.testing.assert_equal(in_threads(call, items), expected)


def two_classes(rows: int, inputs: int = 12) -> nn.Dataset:
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(rows, inputs))
    x = draws.astype(np.float32)
    return nn.Dataset(x, (x[:, 0] * x[:, 1] > 0).astype(int), "binary", ["0", "1"])


class States(Callback):
    """What a network predicts at the end of each epoch, and before the first."""

    def __init__(self, net, x):
        self.predicted = lambda: net.predict(x).tobytes()
        self.seen = [self.predicted()]

    def epoch(self, *_) -> None:
        self.seen.append(self.predicted())


def check_beside_a_training(make, rows: int, watchers: int, **settings) -> None:
    """Let threads predict while the network that `make` gives trains: they see the
    state after an epoch, and training ends where it ends without them."""
    ds = two_classes(rows)
    ends = []
    for beside in (0, watchers):
        net = make()
        states = States(net, ds.x[:100])
        found = set()
        is_over = threading.Event()

        def watch(states=states, found=found, is_over=is_over):
            while not is_over.is_set():
                found.add(states.predicted())

        with ThreadPoolExecutor(max(1, beside)) as pool:
            watching = [pool.submit(watch) for _ in range(beside)]
            try:
                nn.train(net, ds, scaling="none", callback=states, **settings)
            finally:
                is_over.set()
            for one in watching:
                one.result()
        assert found <= {*states.seen, states.predicted()}
        ends.append((net.vector.tobytes(), states.seen, net.history))
    assert ends[0] == ends[1]
