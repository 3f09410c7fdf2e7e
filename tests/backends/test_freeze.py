"""Frozen layers keep their parameters bit for bit, and the others take the step that
they take beside layers that learn."""

import numpy as np
import pytest
from support.distances import relative_distance
from support.emulated_gpu import can_emulate, emulated_gpu
from support.epochs import settings
from support.networks import fill, network

import nn
from nn.backends.cuda.engine import CudaEngine
from nn.utils import UsageError

ROWS = 150
SPECS = [  # and how many layers with parameters are frozen
    ("7,5:tanh,3", 1),
    ("6,60:relu,10:tanh,3", 1),
    ("6,60:relu,10:tanh,3", 2),
    ("6,300:relu,200:tanh,1", 1),
    ("2x6x7,conv3k2:tanh,maxpool2,conv4k2:tanh,3", 1),
    ("2x6x7,conv3k2:tanh,maxpool2,conv4k2:tanh,3", 2),
    ("2x8x8,pad1,conv3k3:relu,avgpool2,5:silu,3", 1),
    ("6,9:tanh,dropout0.4,5:tanh,3", 1),
    ("6,9:tanh,dropout0.4,5:tanh,3", 2),
    ("mixed,6:tanh,3", 1),
    ("mixed,6:tanh,3", 2),
]
HOW = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"weight_decay": 0.1},
]


def trained(net, engine, freeze: int, epochs: int, batch: int, **how) -> np.ndarray:
    """The parameters after some epochs from those of the network."""
    x, y = fill(net, ROWS)
    data = engine.load(x.reshape(ROWS, -1), y)
    engine.set("parameters", net.vector)
    of_epoch = settings(batch=batch, freeze=freeze, **how)
    for name in of_epoch.moments:
        engine.set(name, np.zeros(net.parameter_count, net.dtype))
    progress = engine.progress()
    for _ in range(epochs):
        progress = engine.progress(step=progress.step)
        engine.epoch(data, np.arange(ROWS), of_epoch, progress)
    return engine.get("parameters")


def frozen_count(net, freeze: int) -> int:
    counts = [layer.parameters for layer in net.layers if layer.parameters]
    assert 0 < freeze < len(counts)
    return sum(counts[:freeze])


def check(net, engine, freeze: int, **how) -> np.ndarray:
    """Check a step, and epochs, with and without frozen layers; returns the parameters
    after these."""
    fill(net, ROWS)
    count = frozen_count(net, freeze)
    start = net.vector.copy()
    step = trained(net, engine, freeze, 1, ROWS, **how)
    free = trained(net, engine, 0, 1, ROWS, **how)
    assert np.array_equal(step[:count], start[:count])
    assert not np.array_equal(free[:count], start[:count])
    assert np.array_equal(step[count:], free[count:])
    assert not np.array_equal(step[count:], start[count:])
    end = trained(net, engine, freeze, 3, 40, **how)
    assert np.array_equal(end[:count], start[:count])
    again = trained(net, engine, 0, 1, ROWS, **how)
    assert np.array_equal(again, free), "the next epoch is not frozen"
    return end


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(("spec", "freeze"), SPECS)
def test_frozen_layers_keep_their_bytes_and_others_take_their_step(spec, freeze, how):
    ends = []
    for backend, threads in (("seq", 1), ("omp", 1), ("omp", 3)):
        net = network(spec, backend, "float64", threads=threads)
        ends.append(check(net, net.engine, freeze, **how))
    assert np.array_equal(ends[1], ends[2])
    assert relative_distance(ends[1], ends[0]) < 1e-9  # rounding of 12 steps


@pytest.mark.usual(0, 3)
@pytest.mark.skipif(not can_emulate(), reason="no g++ on Linux for the emulation")
@pytest.mark.parametrize(
    ("spec", "freeze"), [case for case in SPECS if "300" not in case[0]]
)
def test_the_gpu_freezes_the_same_layers(spec, freeze, monkeypatch):
    seq = network(spec, "seq", "float64")
    expected = trained(seq, seq.engine, freeze, 1, 40, weight_decay=0.1)
    with emulated_gpu(monkeypatch):
        engine = CudaEngine("cuda", seq.layers, seq.loss, "float64")
        end = trained(seq, engine, freeze, 1, 40, weight_decay=0.1)
    count = frozen_count(seq, freeze)
    assert np.array_equal(end[:count], seq.vector[:count])
    assert relative_distance(end, expected) < 1e-9


def test_a_network_is_frozen_by_the_flag_and_remembers_it_no_further(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = (x[:, 0] > x[:, 1]).astype(int)
    model = nn.fit(x, y, layers="4,8,6,1", epochs=3, networks=2)
    further = nn.fit(x, y, init=model, freeze=2, learning_rate=0.01)
    for was, net in zip(model.members, further.members, strict=True):
        before = was.parameters()
        after = net.parameters()
        for name in before:
            is_frozen = name.startswith(("layer0", "layer1"))
            assert np.array_equal(before[name], after[name]) == is_frozen, name
        assert net.config["freeze"] == 2
    third = nn.fit(x, y, init=further, epochs=1).network
    assert "freeze" not in third.members[0].config
    assert "freeze" not in model.network.config
    for freeze in (3, 4):
        with pytest.raises(UsageError, match="has 3 layers with parameters"):
            nn.fit(x, y, init=model, freeze=freeze)
    with pytest.raises(UsageError, match="--freeze -1"):
        nn.fit(x, y, init=model, freeze=-1)
