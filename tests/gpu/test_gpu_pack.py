"""Packs on the GPU: each of many networks has the bits of the network that is trained
alone there."""

import numpy as np
import pytest
from support.epochs import settings
from support.networks import fill, network, require
from support.pack_members import Members

from nn.backends.cuda import pack as packs
from nn.backends.cuda.pack import CudaPack
from nn.backends.engine import PackJob
from nn.backends.member import Turns

CC = "30,60:relu,10:tanh,1"
ROWS = 2003
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


def prepared(spec, count, dtype="float32", weighted=False, **changes) -> Members:
    """Return members of two data sets, with rows of more than one batch and a rest;
    some members' counts differ."""
    net = network(spec, "cuda", dtype)
    x, y = fill(net, ROWS)
    x = x.reshape(ROWS, -1)
    rng = np.random.default_rng(1)
    draws = rng.integers(1, 4, (2, ROWS))
    weights = draws.astype(dtype) / 2
    data = [
        net.engine.load(x, y, member_weights if weighted else None)
        for member_weights in weights
    ]
    how = [
        settings(**{"seed": member, **HOW[member % len(HOW)], **changes})
        for member in range(count)
    ]
    rows = [
        np.flatnonzero(np.arange(ROWS) % 5 != m % 5)[
            : max(2 * own.batch, 150) + 1 + m % 3 * 7
        ]
        for m, own in enumerate(how)
    ]
    return Members(net.engine, [data[m % 2] for m in range(count)], how, rows)


@pytest.mark.parametrize("members", [1, 3, 200])
@pytest.mark.parametrize("batch", [10, 32])
def test_each_of_many_members_has_the_bits_of_the_network_alone(batch, members):
    several = prepared(CC, members, batch=batch)
    shown = sorted({m * (members - 1) // 7 for m in range(8)})
    pack = several.pack()
    several.check_forward(pack, several.check(pack, 2, several.expected(2, shown)))
    assert isinstance(pack, CudaPack)
    assert pack.describe() == f"{members} networks, each in a block of the GPU"


@pytest.mark.parametrize(
    ("spec", "changes", "dtype", "weighted"),
    [
        (CC, {"batch": 700}, "float32", False),  # more parts than a block has room for
        (CC, {"optimizer": "sgd"}, "float32", False),
        (CC, {"optimizer": "sgd", "momentum": 0.9}, "float32", True),
        (CC, {"optimizer": "rmsprop", "betas": (0.7,)}, "float32", True),
        (CC, {"optimizer": "adagrad", "epsilon": 0.01}, "float64", False),
        (CC, {"batch": 10}, "float64", True),
        (CC, {}, "float64", False),
        (CC, {"batch": 700, "optimizer": "sgd"}, "float64", False),
        ("12,20:relu,dropout0.3,1", {}, "float32", False),
        ("2x8x8,conv4k3,maxpool2,3", {}, "float32", False),
        ("table,dropout0.1,9,1", {}, "float32", False),
    ],
)
def test_bits_are_the_same_with_every_optimiser_weights_of_rows_and_other_layers(
    spec, changes, dtype, weighted
):
    members = prepared(spec, 5, dtype, weighted, **changes)
    pack = members.pack()
    members.check(pack, 2)
    assert "block" in pack.describe() if spec == CC else type(pack) is Turns


def test_classes_bytes_and_batches_of_other_sizes_train_side_by_side():
    net = network("20,40:relu,7", "cuda", task="multiclass")
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 256, (ROWS, 20))
    x = draws.astype(np.uint8)
    y = rng.integers(0, 7, ROWS).astype(np.int32)
    how = [settings(seed=m, batch=batch) for m, batch in enumerate((12, 64, 9))]
    rows = [np.arange(150 + 7 * m) * 13 % ROWS for m in range(3)]
    data = [net.engine.load(x, y)] * 3
    members = Members(net.engine, data, how, rows)
    pack = members.pack()
    members.check_forward(pack, members.check(pack, 2))


@pytest.mark.parametrize("count", [1, 447, 449, 20_000, 100_000])
def test_orders_are_those_of_the_processor(count):
    """The GPU draws them, but for the last: those do not fit the memory of a
    multiprocessor."""
    engine = network(CC, "cuda", "float32").engine
    indices = np.arange(count)
    rows = indices[::-1].copy()
    jobs = [PackJob(m, None, rows, settings(seed=m), None, 7 * m) for m in range(5)]
    with engine.gpu_context("orders"):
        counts = np.array([count] * 5)
        drawn = packs.Orders(jobs, counts, False)
        orders = drawn._drawn.get().reshape(5, count)
    assert bool(drawn.on_host) == (count == 100_000)
    expected = [job.order() for job in jobs]
    np.testing.assert_array_equal(orders, expected)


def test_every_run_gives_the_same_bits():
    """A race between threads of a block would show sooner or later."""
    members = prepared(CC, 300)
    ends = set()
    for _ in range(5):
        pack = members.pack()
        pack.epoch(members.jobs())
        content = b"".join(
            pack.get(member, "parameters").tobytes() for member in range(300)
        )
        ends.add(content)
    assert len(ends) == 1
