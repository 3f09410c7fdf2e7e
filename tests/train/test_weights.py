"""Weights of rows: a row of weight 2 is as good as the row twice, on every backend, and
weights of 1 change no bit."""

from concurrent.futures import wait
from types import SimpleNamespace

import numpy as np
import pytest
from support.distances import relative_distance
from support.epochs import ended
from support.networks import KINDS, OUTPUT_ACTIVATIONS, TARGETS, fill, network

import nn
from nn.backends.engine import EpochSettings
from nn.train import run

ROWS = 60
CLOSE = 1e-12  # of float64 sums in another order
OPTIMIZERS = {
    "sgd": {"optimizer": "sgd"},
    "momentum": {"optimizer": "sgd", "momentum": 0.9},
    "adam": {"optimizer": "adam", "weight_decay": 0.01},
}
# micro-batches, one output, a wide layer below it, large products, fused layers
PATHS = [
    "30,60,10,1",
    "5,1",
    "8,1200:tanh,1",
    "20,300,200,3",
    "3x12x12,conv16k3p1,maxpool2,4",
]
CASES = [
    *(
        (f"6,5:tanh,{n}:{OUTPUT_ACTIVATIONS.get(loss, 'linear')}", ROWS, loss, "sgd")
        for loss in TARGETS
        for n in (1, 3)
    ),
    # masks of dropout differ from row to row
    *(
        (spec, ROWS, None, optimizer)
        for kind, spec in KINDS.items()
        if kind != "dropout"
        for optimizer in OPTIMIZERS
    ),
    *((spec, 700, None, "sgd") for spec in PATHS),
]


def settings(batch, **changes):
    return EpochSettings(
        **{"optimizer": "sgd", "batch": batch, "rates": [0.1] * 9, **changes}
    )


def counted(rows=ROWS, most=4):
    """Return whole weights, 0 among them."""
    return np.random.default_rng(3).integers(0, most, rows)


def after_epoch(net, x, y, weights, how):
    """Return (parameters after an epoch from those of the network, sum of the
    losses)."""
    net.engine.set("parameters", net.vector)
    order = np.arange(len(x))
    after = ended(net, x, y, how, weights=weights, order=order)
    return after.parameters, after.losses[0]


@pytest.mark.usual(49)
@pytest.mark.parametrize(("spec", "rows", "loss", "optimizer"), CASES)
def test_a_weight_is_a_number_of_rows(spec, rows, loss, optimizer, backend):
    """For every loss, layer kind and optimiser, on every path: in one step with all
    rows in the batch."""
    if spec.endswith("1:softmax"):
        pytest.skip("cross entropy of one class is 0")
    net = network(spec, backend, loss=loss)
    changes = OPTIMIZERS[optimizer]
    x, y = fill(net, rows)
    counts = counted(rows)
    many = np.repeat(np.arange(rows), counts)
    weights = counts.astype(net.dtype)
    weighted, total = after_epoch(net, x, y, weights, settings(rows, **changes))
    repeated, total_of_repeated = after_epoch(
        net, x[many], y[many], None, settings(len(many), **changes)
    )
    assert relative_distance(weighted, repeated) < CLOSE
    assert total == pytest.approx(total_of_repeated, rel=CLOSE)
    if loss == "ce":
        labels = y.argmax(axis=1).astype(np.int32)
        weights = counts.astype(net.dtype)
        by_label, _ = after_epoch(net, x, labels, weights, settings(rows, **changes))
        assert relative_distance(by_label, repeated) < CLOSE
    expected = after_epoch(net, x, y, None, settings(rows, **changes))[0]
    assert relative_distance(weighted, expected) > 1e-5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "spec", ["30,60,10,1", "2x6x7,conv3k2:tanh,maxpool2,dropout0.3,3"]
)
def test_weights_of_1_give_the_bytes_of_no_weights(spec, optimizer, dtype, backend):
    net = network(spec, backend, dtype)
    x, y = fill(net, 500)
    how = settings(70, seed=5, **OPTIMIZERS[optimizer])
    without = after_epoch(net, x, y, None, how)
    weights = np.ones(500, dtype)
    with_ones = after_epoch(net, x, y, weights, how)
    assert with_ones[0].tobytes() == without[0].tobytes()
    assert with_ones[1] == without[1]
    engine = net.engine
    some = np.arange(3, 300)
    data = engine.load(x, y, np.ones(500, dtype))
    assert engine.loss(data, some) == engine.loss(engine.load(x, y), some)


def test_a_batch_is_divided_by_its_own_weight(backend):
    """Not by that of all batches: each batch's step is that of its repeated rows."""
    net = network("6,5:tanh,3", backend)
    x, y = fill(net, ROWS)
    counts = counted(most=3)
    weights = counts.astype(net.dtype)
    weighted, _ = after_epoch(net, x, y, weights, settings(25))
    engine = net.engine
    engine.set("parameters", net.vector)
    for start in range(0, ROWS, 25):
        indices = np.arange(len(counts[start : start + 25]))
        repeated = np.repeat(indices, counts[start : start + 25])
        many = start + repeated
        data = engine.load(x[many], y[many])
        indices = np.arange(len(many))
        engine.epoch(data, indices, settings(len(many)), engine.progress())
    assert relative_distance(weighted, engine.get("parameters")) < CLOSE


def test_rows_of_weight_0_teach_nothing_and_the_loss_of_rows_is_weighted(backend):
    net = network("6,5:tanh,3", backend)
    x, y = fill(net, ROWS)
    counts = counted()
    engine = net.engine
    some = np.arange(10, 50)
    unchanged, loss = after_epoch(net, x, y, np.zeros(ROWS), settings(20))
    assert unchanged.tobytes() == net.vector.tobytes()
    assert loss == 0
    data = engine.load(x, y, np.zeros(ROWS))
    assert engine.loss(data, np.arange(ROWS)) == 0
    data = engine.load(x, y)
    repeated = np.repeat(some, counts[some])
    want = engine.loss(data, repeated)
    data = engine.load(x, y, counts.astype(net.dtype))
    assert engine.loss(data, some) == pytest.approx(want, rel=CLOSE)


def test_weighted_training_has_the_same_bits_for_any_number_of_threads():
    ends = []
    for threads in (1, 2, 3):
        net = network("20,300,200,3", "omp", "float32", threads=threads)
        x, y = fill(net, 700)
        weights = counted(700).astype(np.float32)
        ends.append(after_epoch(net, x, y, weights, settings(200, optimizer="adam")))
    for end in ends:
        expected = ends[0][0].tobytes()
        assert end[0].tobytes() == expected
        assert end[1] == ends[0][1]


def test_kept_parameters_are_those_of_the_moment(backend):
    net = network("6,5:tanh,3", backend)
    x, y = fill(net, ROWS)
    engine = net.engine
    engine.keep()
    kept = engine.get("parameters")
    after_epoch(net, x, y, None, settings(20))
    assert engine.get("kept").tobytes() == kept.tobytes()
    assert kept.tobytes() != engine.get("parameters").tobytes()
    engine.keep()
    expected = engine.get("parameters").tobytes()
    assert engine.get("kept").tobytes() == expected
    engine.set("kept", kept)
    assert engine.get("kept").tobytes() == kept.tobytes()


@pytest.mark.parametrize("networks", [1, 2])
@pytest.mark.parametrize("weight", [None, 5.0])
def test_the_loss_shown_within_an_epoch_is_the_mean_by_weights(
    networks, weight, monkeypatch
):
    """Here behind its last row, where it is that of the epoch."""
    told = []
    looked_at = []

    def ends_unnoticed(futures, _seconds):
        """Wait for the end of what is computed; the first look does not see it."""
        done = wait(futures).done
        if futures in looked_at:
            return SimpleNamespace(done=done)
        looked_at.append(futures)
        return SimpleNamespace(done=())

    class Watching(nn.Callback):
        def update(self, *progress):
            told.append(progress)

    monkeypatch.setattr(run, "wait", ends_unnoticed)
    x = np.random.default_rng(0).normal(size=(ROWS, 4))
    ds = nn.Dataset(x, x.sum(axis=1), "regression")
    ds.weights = None if weight is None else np.full(ROWS, weight)
    net = nn.Network("4,8,1", backend="omp", dtype="float64", threads=1)
    several = {"networks": networks} if networks > 1 else {}
    nn.train(net, ds, holdout=0.0, epochs=3, callback=Watching(), **several)
    assert [progress[:3] for progress in told] == [(n, ROWS, ROWS) for n in (1, 2, 3)]
    losses = [loss for *_, loss in told]
    assert losses == pytest.approx(net.history["loss"], rel=1e-12)
