"""A target that is missing, nan, has no loss and no gradient; its row stays."""

import numpy as np
import pytest
from support.networks import OUTPUT_ACTIVATIONS, fill, network

import nn
from nn.core.losses import row_losses
from nn.data.prepared import CLIP_MARGIN
from nn.nn_aux import LOSSES, loss_name

OF_OUTPUTS = [loss for loss in LOSSES if loss != "ce"]


def with_gaps(y: np.ndarray) -> np.ndarray:
    """Return targets of which a third is missing, one row of all."""
    y = y.copy()
    y[np.random.default_rng(2).random(y.shape) < 1 / 3] = np.nan
    y[3] = np.nan
    return y


@pytest.mark.parametrize("outputs", [1, 3, 17])
@pytest.mark.parametrize("loss", OF_OUTPUTS)
def test_a_missing_target_has_no_loss_and_no_gradient(loss, outputs, backend):
    output = OUTPUT_ACTIVATIONS.get(loss_name(loss), "linear")
    net = network(f"4,5:tanh,{outputs}:{output}", backend, loss=loss)
    x, y = fill(net, 20)
    y = with_gaps(y)
    value, gradients, dx = net.gradients(x, y)
    expected = row_losses(loss, net.predict(x).astype(np.float64), y)
    assert value == pytest.approx(expected.mean(), rel=1e-6)
    assert not dx[3].any(), "a row without any target"
    rng = np.random.default_rng(0)
    parameters = net.parameters()
    direction = {name: rng.normal(size=p.shape) for name, p in parameters.items()}
    step = 1e-5
    ends = []
    for sign in (1, -1):
        for name, p in parameters.items():
            net.set_parameters({name: p + sign * step * direction[name]})
        ends.append(net.gradients(x, y)[0])
    slope = sum((gradients[name] * direction[name]).sum() for name in direction)
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("loss", ["mse", "mae", "huber", "quantile"])
def test_a_softmax_has_no_loss_of_a_missing_target_either(loss, backend):
    net = network("4,5:tanh,3:softmax", backend, loss=loss)
    x, y = fill(net, 20)
    y = with_gaps(y)
    value, _, dx = net.gradients(x, y)
    expected = row_losses(loss, net.predict(x).astype(np.float64), y)
    assert value == pytest.approx(expected.mean(), rel=1e-6)
    assert not dx[3].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_a_missing_target_would_be_changes_nothing(dtype, backend):
    """Outputs of a shared layer learn what the known targets say, and no more."""
    net = network("4,5:tanh,2:sigmoid", backend, dtype, task="multilabel")
    x, y = fill(net, 20)
    y[:, 1] = np.nan
    _, gradients, _ = net.gradients(x, y)
    assert not gradients["layer1.weight"][1].any()
    assert not gradients["layer1.bias"][1].any()
    assert gradients["layer1.weight"][0].all()


@pytest.mark.parametrize("weighted", [False, True])
def test_targets_are_scaled_and_bounded_by_the_rows_that_have_them(weighted):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(120, 3))
    y = np.stack([50 + 3 * x[:, 0], -2 + 0.1 * x[:, 1]], axis=1)
    y[rng.random(y.shape) < 0.3] = np.nan
    weights = rng.integers(1, 6, 120).astype(float) if weighted else np.ones(120)
    ds = nn.Dataset(x, y, "regression", weights=weights if weighted else None)
    net = nn.Network("3,2", "regression", dtype="float64")
    nn.train(net, ds, epochs=1, holdout=0.0, clip=True)
    for k, known in enumerate(~np.isnan(y.T)):
        own = y[known, k]
        mean = np.average(own, weights=weights[known])
        spread = np.average((own - mean) ** 2, weights=weights[known]) ** 0.5
        assert net.target_scaling.shift[k] == pytest.approx(mean)
        assert net.target_scaling.scale[k] == pytest.approx(spread)
        margin = CLIP_MARGIN * np.ptp(own)
        assert net.target_scaling.low[k] == pytest.approx(own.min() - margin)
        assert net.target_scaling.high[k] == pytest.approx(own.max() + margin)
