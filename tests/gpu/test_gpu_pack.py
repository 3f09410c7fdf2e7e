"""Packs on the GPU: each of many networks has the bits of the network that is trained alone there."""

import numpy as np
import pytest
from support.networks import StopsAfter, fill, network, require

from nn.backends.cuda import pack as packs
from nn.backends.cuda.pack import CudaPack
from nn.backends.engine import EpochSettings, PackJob
from nn.backends.member import Turns
from nn.core.random import PhiloxOrder

CC, ROWS = "30,60:relu,10:tanh,1", 2003
VECTORS = ("parameters", "moment1", "moment2")
HOW = [  # what members do otherwise than the others
    {},
    {"weight_decay": 0.1, "rates": [0.02] * 5 + [0.01] * 4},
    {"weight_decay": 0.3},
    {"seed": 2**32 - 1},
    {"rates": list(np.linspace(0.02, 0, 9))},
]


@pytest.fixture(autouse=True)
def always_together(gpu, monkeypatch):
    require("cuda")
    monkeypatch.setattr(packs, "PARTS_A_TURN", 1000)


def settings(member, **changes):
    own = {"seed": member, **HOW[member % len(HOW)]}
    return EpochSettings(**{"optimizer": "adam", "batch": 32, "rates": [0.01] * 9, **own, **changes})


def rows_of(member, batch):
    """Each member's own rows, of more than one batch and a rest; some members' counts differ."""
    return np.flatnonzero(np.arange(ROWS) % 5 != member % 5)[: max(2 * batch, 150) + 1 + member % 3 * 7]


def start_of(engine, member):
    return (np.random.default_rng(member).normal(size=engine.size) / 4).astype(engine.dtype)


def prepared(spec, dtype="float32", weighted=False):
    """Return (engine, two data sets that members take)."""
    net = network(spec, "cuda", dtype)
    x, y = fill(net, ROWS)
    x, weights = x.reshape(ROWS, -1), np.random.default_rng(1).integers(1, 4, (2, ROWS)).astype(dtype) / 2
    return net.engine, [net.engine.load(x, y, own if weighted else None) for own in weights]


def jobs_of(engine, data, how, number, steps):
    return [
        PackJob(m, data[m % 2], rows_of(m, own.batch), own, engine.progress(step=steps[m]), number)
        for m, own in enumerate(how)
    ]


def alone(engine, job, vectors, number):
    """Train a member's epoch on the engine; return (vectors, sum of losses, step)."""
    for what, vector in zip(VECTORS, vectors, strict=True):
        engine.set(what, vector)
    progress = engine.progress(step=job.progress.step)
    order = job.rows[PhiloxOrder(len(job.rows), job.settings.seed).epoch(number)]
    engine.epoch(job.data, order, job.settings, progress)
    return [engine.get(what) for what in VECTORS], progress.loss, progress.step


def check_epochs(engine, data, how, epochs=2, checked=8):
    """Train a pack, and some of its members alone; return (pack, the last jobs)."""
    pack, count = engine.pack(len(how), how[0].batch), len(how)
    for member in range(count):
        pack.set(member, "parameters", start_of(engine, member))
    zeros = np.zeros(engine.size, engine.dtype)
    members = sorted({m * (count - 1) // max(1, checked - 1) for m in range(checked)})
    expected, steps = {m: ([start_of(engine, m), zeros, zeros],) for m in members}, [0] * count
    for number in range(epochs):
        jobs = jobs_of(engine, data, how, number, steps)
        expected = {m: alone(engine, jobs[m], expected[m][0], number) for m in members}
        pack.epoch(jobs[::-1])
        steps = [job.progress.step for job in jobs]
    for m in members:
        vectors, loss, step = expected[m]
        for what, vector in zip(VECTORS, vectors, strict=True):
            found = pack.get(m, what)
            apart = np.flatnonzero(found != vector)
            assert np.array_equal(found, vector), f"member {m}, {what}: {len(apart)} of {len(vector)}, {apart[:5]}"
            assert np.isfinite(found).all()
        assert (jobs[m].progress.loss, jobs[m].progress.step) == (loss, step)
    assert len({pack.get(m, "parameters").tobytes() for m in range(count)}) == count
    return pack, jobs


def check_forward(engine, pack, jobs):
    """Compare outputs and losses of the members with those of the network alone."""
    for job, outputs, loss in zip(jobs, pack.predict(jobs), pack.loss(jobs), strict=True):
        engine.set("parameters", pack.get(job.member, "parameters"))
        assert np.array_equal(outputs, engine.predict(job.data, job.rows)) and outputs.any()
        assert loss == engine.loss(job.data, job.rows)


@pytest.mark.parametrize("members", [1, 3, 200])
@pytest.mark.parametrize("batch", [10, 32])
def test_each_of_many_members_has_the_bits_of_the_network_alone(batch, members):
    engine, data = prepared(CC)
    pack, jobs = check_epochs(engine, data, [settings(m, batch=batch) for m in range(members)])
    check_forward(engine, pack, jobs)
    assert isinstance(pack, CudaPack) and pack.describe() == f"{members} networks, each in a block of the GPU"


@pytest.mark.parametrize(
    ("changes", "dtype", "weighted"),
    [
        ({"batch": 700}, "float32", False),  # more parts than a block has room for
        ({"batch": 32, "optimizer": "sgd"}, "float32", False),
        ({"batch": 32, "optimizer": "sgd", "momentum": 0.9}, "float32", True),
        ({"batch": 10}, "float64", True),
        ({"batch": 32}, "float64", False),
        ({"batch": 700, "optimizer": "sgd"}, "float64", False),
    ],
)
def test_bits_are_the_same_with_every_optimiser_and_weights_of_rows(changes, dtype, weighted):
    engine, data = prepared(CC, dtype, weighted)
    pack, _ = check_epochs(engine, data, [settings(m, **changes) for m in range(5)], checked=5)
    assert "block" in pack.describe()


def test_classes_bytes_and_batches_of_other_sizes_train_side_by_side():
    net = network("20,40:relu,7", "cuda", task="multiclass")
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (ROWS, 20)).astype(np.uint8), rng.integers(0, 7, ROWS).astype(np.int32)
    data = [net.engine.load(x, y)] * 2
    pack, jobs = check_epochs(net.engine, data, [settings(m, batch=(12, 64, 9)[m]) for m in range(3)])
    check_forward(net.engine, pack, jobs)


@pytest.mark.parametrize("spec", ["12,20:relu,dropout0.3,1", "2x8x8,conv4k3,maxpool2,3", "table,dropout0.1,9,1"])
def test_other_networks_have_the_same_bits(spec):
    engine, data = prepared(spec)
    pack, _ = check_epochs(engine, data, [settings(m) for m in range(5)])
    assert type(pack) is Turns


def test_a_member_that_stops_goes_on_with_the_same_bits(monkeypatch):
    monkeypatch.setattr(packs, "FIRST_BATCHES", 3)
    engine, data = prepared(CC)
    zeros = np.zeros(engine.size, engine.dtype)
    how = [settings(m, batch=10) for m in range(3)]
    pack, jobs = engine.pack(3, 10), jobs_of(engine, data, how, 0, [0] * 3)
    expected = [alone(engine, job, [start_of(engine, job.member), zeros, zeros], 0) for job in jobs]
    for member in range(3):
        pack.set(member, "parameters", start_of(engine, member))
    jobs[1].progress = StopsAfter(1)
    pack.epoch(jobs)
    assert [job.progress.row == len(job.rows) for job in jobs] == [True, False, True]
    assert jobs[1].progress.row == 30
    jobs[1].progress = engine.progress(30, 3, jobs[1].progress.loss)
    pack.epoch([jobs[1]])
    for job, (vectors, loss, *_) in zip(jobs, expected, strict=True):
        assert np.array_equal(pack.get(job.member, "parameters"), vectors[0]) and job.progress.loss == loss


@pytest.mark.parametrize("count", [1, 447, 449, 20_000, 100_000])
def test_orders_are_those_of_the_processor(count):
    """The GPU draws them, but for the last: those do not fit the memory of a multiprocessor."""
    engine, _ = prepared(CC)
    rows = np.arange(count)[::-1].copy()
    jobs = [PackJob(m, None, rows, settings(m), None, 7 * m) for m in range(5)]
    with engine.here("orders"):
        drawn = packs.Orders(jobs, np.array([count] * 5), False)
        found = drawn._drawn.get().reshape(5, count)
    assert bool(drawn.on_host) == (count == 100_000)
    for job, order in zip(jobs, found, strict=True):
        assert np.array_equal(order, job.order())


def test_every_run_gives_the_same_bits():
    """A race between threads of a block would show sooner or later."""
    engine, data = prepared(CC)
    how, ends = [settings(m) for m in range(300)], set()
    for _ in range(5):
        pack = engine.pack(300, 32)
        for member in range(300):
            pack.set(member, "parameters", start_of(engine, member))
        pack.epoch(jobs_of(engine, data, how, 0, [0] * 300))
        ends.add(b"".join(pack.get(member, "parameters").tobytes() for member in range(300)))
    assert len(ends) == 1
