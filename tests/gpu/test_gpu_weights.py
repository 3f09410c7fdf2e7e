"""Weights of rows on the GPU: as seq has them in every runner, on one GPU and
several."""

import numpy as np
import pytest
from support.distances import relative_distance
from support.epochs import ended, settings
from support.networks import fill, network

from nn.core.losses import weighted_classes

ROWS = 700
SMALL = "30,60,10,1"
RUNNERS = [  # network, rows of a batch, what its first route names
    (SMALL, 60, "Small"),
    (SMALL, 700, "Small"),  # one block, several
    ("40,300,200,3", 100, "WholeEpochs"),
    ("2x12x12,conv8k3,maxpool2,3", 100, ""),
    ("50,2000,1500,1", 350, ""),  # large products
]


def after_epoch(net, weights, batch, room=None):
    """Return (parameters after an epoch, sum of its losses, loss of some rows)."""
    rows = fill(net, ROWS)
    end = ended(
        net, *rows, settings(batch=batch, rates=[1e-3] * 9), weights=weights, room=room
    )
    indices = np.arange(5, 600)
    loss = net.engine.loss(end.data, indices)
    return end.parameters, end.losses[0], loss


def check_as_seq(ours, seq):
    # Adam's first steps divide by small roots
    assert relative_distance(ours[0], seq[0]) < 1e-9
    assert ours[1:] == pytest.approx(seq[1:], rel=1e-9)


def some_weights(dtype="float64"):
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 4, ROWS)
    return draws.astype(dtype) / 2


@pytest.mark.parametrize(("spec", "batch", "runner"), RUNNERS)
def test_weighted_epochs_end_where_those_of_seq_end(spec, batch, runner, backend):
    ours = after_epoch(network(spec, backend), some_weights(), batch)
    seq = after_epoch(network(spec, "seq"), some_weights(), batch)
    check_as_seq(ours, seq)
    net = network(spec, backend)
    expected = after_epoch(net, None, batch)[0]
    assert relative_distance(ours[0], expected) > 1e-6
    assert runner in net.engine.routes(batch)[0]


def test_weights_of_rows_that_are_streamed_to_the_gpu(backend):
    net = network(SMALL, backend)
    resident = after_epoch(net, some_weights(), 60, room=None)
    net = network(SMALL, backend)
    streamed = after_epoch(net, some_weights(), 60, room=0)
    expected = streamed[0].tobytes()
    assert resident[0].tobytes() == expected
    assert resident[1:] == streamed[1:]


def test_several_gpus_divide_by_the_weight_of_the_whole_batch(distribute, gpus):
    net = network(SMALL, "cuda", gpus=gpus, distribute=distribute)
    ours = after_epoch(net, some_weights(), 60)
    seq = after_epoch(network(SMALL, "seq"), some_weights(), 60)
    check_as_seq(ours, seq)


@pytest.mark.parametrize("loss", ["bce", "focal=1.5"])
@pytest.mark.parametrize(
    ("spec", "batch"),
    [("30,60,10,4", 60), ("40,300,200,3", 100), ("50,2000,1500,17", 350)],
)
def test_classes_of_targets_with_weights_end_where_those_of_seq_end(
    spec, batch, loss, backend
):
    """With row weights too, and targets that are missing."""
    ends = []
    for name in (backend, "seq"):
        net = network(f"{spec}:sigmoid", name, loss=loss)
        x, y = fill(net, ROWS)
        rng = np.random.default_rng(2)
        y[rng.random(y.shape) < 0.3] = np.nan
        weights = 10 ** rng.normal(size=(y.shape[1], 2))
        y = weighted_classes(y, weights)
        how = settings(batch=batch, rates=[1e-3] * 9)
        end = ended(net, x, y, how, weights=some_weights())
        loss_of_rows = net.engine.loss(end.data, np.arange(5, 600))
        ends.append((end.parameters, end.losses[0], loss_of_rows))
    check_as_seq(*ends)
