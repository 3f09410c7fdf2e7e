"""Classes of several yes/no targets that have weights of their own: in the losses that
weigh them, on every backend."""

import numpy as np
import pytest
from support.networks import fill, network
from support.plain_layers import LOSSES as PLAIN_LOSSES

from nn.core.losses import row_losses, weighted_classes
from nn.nn_aux import LOSSES, loss_name, loss_of
from nn.test.learned import Targets, best_output

WEIGHING = [loss for loss, rule in LOSSES.items() if rule.weighs_classes]
# of each target: below and above 1, as small and as large as they may be, none
PAIRS = np.array([[0.3, 2.0], [1e-9, 1.0], [1.0, 1e9], [0.0, 0.7], [1.0, 1.0]])


def with_gaps(loss, outputs, backend, dtype="float64"):
    """Return a network, rows, targets a third of which is missing, and the weights of
    their classes."""
    spec = f"4,5:tanh,{outputs}:sigmoid"
    net = network(spec, backend, dtype, loss=loss)
    x, y = fill(net, 30)
    y[np.random.default_rng(2).random(y.shape) < 1 / 3] = np.nan
    return net, x, y, np.resize(PAIRS, (outputs, 2))


def plain_loss(loss: str, a: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean over rows and outputs, each known one with the weight of its
    class."""
    value = PLAIN_LOSSES[loss_name(loss)][0]
    constants = loss_of(loss).constants
    total = 0.0
    for row, k in zip(*np.nonzero(~np.isnan(y)), strict=True):
        own = weights[k, int(y[row, k])]
        total += own * value(a[row, k], y[row, k], *constants)
    return total / y.size


def test_bce_and_focal_weigh_classes():
    assert WEIGHING == ["bce", "focal"]


@pytest.mark.parametrize("outputs", [2, 5, 17])
@pytest.mark.parametrize("loss", [*WEIGHING, "focal=0.5"])
def test_a_target_counts_as_often_as_its_class_says(loss, outputs, backend):
    """The value is that of NumPy, and the gradient the sum of those of each class of
    each target alone."""
    net, x, y, weights = with_gaps(loss, outputs, backend)
    value, gradients, dx = net.gradients(x, weighted_classes(y, weights))
    a = net.predict(x).astype(np.float64)
    assert value == pytest.approx(plain_loss(loss, a, y, weights), rel=1e-9)
    expected = {name: 0.0 for name in gradients}
    expected_dx = 0.0
    for k in range(outputs):
        for label in (0, 1):
            alone = np.full_like(y, np.nan)
            alone[y[:, k] == label, k] = label
            _, own, own_dx = net.gradients(x, alone)
            expected_dx += weights[k, label] * own_dx
            for name, gradient in own.items():
                expected[name] += weights[k, label] * gradient
    for name, gradient in gradients.items():
        scale = np.abs(gradient).max()
        assert gradient == pytest.approx(expected[name], rel=1e-6, abs=1e-9 * scale)
    assert dx == pytest.approx(expected_dx, rel=1e-6, abs=1e-9 * np.abs(dx).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", WEIGHING)
def test_weights_of_1_give_the_bits_of_none(loss, dtype, backend):
    net, x, y, _ = with_gaps(loss, 3, backend, dtype)
    ones = weighted_classes(y, np.ones((3, 2))).astype(dtype)
    weighted = net.gradients(x, ones)
    without = net.gradients(x, y)
    assert weighted[0] == without[0]
    assert weighted[2].tobytes() == without[2].tobytes()
    for name, gradient in weighted[1].items():
        assert gradient.tobytes() == without[1][name].tobytes()


@pytest.mark.parametrize("loss", WEIGHING)
def test_shares_and_numbers_beyond_them_stay_what_they_are(loss, backend):
    """A regression may have such targets behind a sigmoid: both terms of the loss are
    linear in them."""
    net, x, _, _ = with_gaps(loss, 2, backend)
    values = [
        net.gradients(x, np.full((30, 2), target))[0] for target in (0.0, 1.0, 1e9)
    ]
    assert values[2] == pytest.approx(values[0] + 1e9 * (values[1] - values[0]))
    assert values[1] != values[0]


@pytest.mark.parametrize("loss", WEIGHING)
def test_baselines_have_the_weights_of_the_classes(loss):
    _, _, y, _ = with_gaps(loss, 3, "seq")
    counts = np.random.default_rng(4).integers(1, 4, len(y)).astype(float)
    weights = np.array([[0.5, 3.0], [1.0, 2.0], [0.2, 0.9]])
    coded = weighted_classes(y, weights)
    best = best_output(loss, Targets(coded, counts))

    def loss_at(output):
        return np.average(row_losses(loss, output, coded), weights=counts)

    plain = np.repeat(y, counts.astype(int), axis=0)
    constant = np.tile(best, (len(plain), 1))
    assert loss_at(best) == pytest.approx(plain_loss(loss, constant, plain, weights))
    positive, negative = [counts @ (y[:, 0] == label) for label in (1, 0)]
    if loss == "bce":
        share = 3 * positive / (3 * positive + 0.5 * negative)
        assert best[0] == pytest.approx(share)
    for change in (-0.01, 0.01):
        moved = best + [change, 0, 0]
        assert loss_at(moved) > loss_at(best)
