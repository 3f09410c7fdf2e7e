"""Trained scales of the first dense layer's inputs are the same on every backend.
tests/train/test_plain_training.py has their steps in NumPy."""

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
LEAST = 1 / 64
SPECS = [
    "7,60:tanh,3",
    "40,2",  # few outputs, which lie along the inputs
    "19,1",
    "mixed,6:tanh,3",
    "70,dropout0.4,5:tanh,3",
    "6,300:relu,200:tanh,1",
]
HOW = [
    {"weight_decay": 0.1},
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "adagrad", "scale_rate": 200.0},  # some scales get as small as can be
]


def trained(net, engine, epochs=2, batch=40, **how):
    """Return parameters and scales after some epochs from those of the network."""
    x, y = fill(net, ROWS)
    data = engine.load(x.reshape(ROWS, -1), y)
    engine.set("parameters", net.vector)
    of_epoch = settings(batch=batch, **{"scale_rate": 3.0, **how})
    for name in of_epoch.vectors:
        engine.set(name, np.zeros(engine.length(name), net.dtype))
    progress = engine.progress()
    for _ in range(epochs):
        progress = engine.progress(step=progress.step)
        engine.epoch(data, np.arange(ROWS), of_epoch, progress)
    return engine.get("parameters"), engine.get("scales")


def check(found, expected, tolerance):
    for vector, other in zip(found, expected, strict=True):
        assert vector.any()
        assert relative_distance(vector, other) < tolerance


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("spec", SPECS)
def test_the_fast_core_takes_the_steps_of_the_plain_one(spec, how):
    plain = network(spec, "seq", "float64")
    expected = trained(plain, plain.engine, **how)
    ends = []
    for threads in (1, 3):
        net = network(spec, "omp", "float64", threads=threads)
        ends.append(trained(net, net.engine, **how))
        check(ends[-1], expected, 1e-9)
    for vector, other in zip(*ends, strict=True):
        assert np.array_equal(vector, other)
    excess = expected[1][: len(expected[1]) // 3]
    assert excess.min() >= LEAST - 1
    if "scale_rate" in how and spec != "6,300:relu,200:tanh,1":
        assert excess.min() == LEAST - 1


@pytest.mark.slow
@pytest.mark.skipif(not can_emulate(), reason="no g++ on Linux for the emulation")
@pytest.mark.parametrize("spec", ["7,60:tanh,3", "mixed,6:tanh,3", "40,2"])
def test_the_gpu_takes_the_steps_of_the_plain_core(spec, monkeypatch):
    plain = network(spec, "seq", "float64")
    for how in (HOW[0], HOW[-1]):
        expected = trained(plain, plain.engine, epochs=1, **how)
        with emulated_gpu(monkeypatch):
            engine = CudaEngine("cuda", plain.layers, plain.loss, "float64")
            check(trained(plain, engine, epochs=1, **how), expected, 1e-9)


def test_images_have_no_scales():
    x = np.random.default_rng(0).random((60, 1, 6, 6))
    with pytest.raises(UsageError, match="--scale_rate 2: .*a layer of images"):
        nn.fit(x, np.arange(60) % 2, layers="1x6x6,conv2k3,2", scale_rate=2)
    nn.fit(x, np.arange(60) % 2, layers="1x6x6,flatten,8,2", scale_rate=2, epochs=1)
