"""Gradients against central differences (float64), those of random networks against
NumPy."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from support import plain_layers
from support.distances import relative_distance
from support.networks import (
    EVERY,
    KINDS,
    OUTPUT_ACTIVATIONS,
    QUANTILES,
    check_against_numpy,
    fill,
    flattened,
    network,
)

from nn import nn_aux
from nn.layers import LAYER_KINDS, parse
from nn.utils import UsageError

# differences are then accurate to about STEP^2, and to the rounding 1e-16 / STEP
STEP = 1e-5
WITH_A_CORNER = ("relu", "lrelu")  # at 0, where their derivative changes
DRAW = (3, 1)  # seed and step, which decide what dropout sets to 0
# no value may come this close to where WITH_A_CORNER or the choice of a maximum turns
CORNER = 1e-3


def goes_before(loss, activation):
    """Return whether an activation may be the last one before a loss; steps have tests
    of their own."""
    return (
        activation != "steps" and OUTPUT_ACTIVATIONS.get(loss, activation) == activation
    )


PAIRS = [
    (loss, of)
    for loss in nn_aux.LOSSES
    for of in nn_aux.ACTIVATIONS
    if goes_before(loss, of)
]
CASES = [
    "5,4:sigmoid",
    "5,7:tanh,4:softplus,3",
    "5,7:tanh,3:steps",
    "2x5x4,conv3k2:tanh",
    "1x1x1,conv2k3p1:sigmoid",
    "2x7x5,conv3k3s2p1:softplus",
    "3x5x7,conv17k3same:tanh",
    "2x7x7,conv2k2s3:tanh",
    "1x3x2,conv2k2p4:sigmoid",
    "2x6x6,conv16k3p1:sigmoid,conv3k3:tanh",
    "2x5x6,maxpool2s1:tanh",
    "3x7x7,avgpool3s2:sigmoid",
    "2x3x3,pad2:sigmoid",
    "2x3x4,flatten:tanh",
    "2x6x6,conv4k2same:relu,maxpool2,5:relu,3",
    "2x8x8,conv3k3p1:lrelu,maxpool3s2,conv2k2:relu,avgpool2,4:tanh,2",
    "2x5x5,pad1,conv3k3s2:tanh,dropout0.4,6:softplus,2:sigmoid",
    "mixed,1:tanh",
    "mixed,dropout0.4,9:silu,1",
    "onehot,5:sigmoid",
    "table,7:tanh,2",
    "pieces,5:tanh,2",
    "waves,5:tanh,2",
    "only waves,1:tanh",
]


def central_differences(f, at, places=True):
    """The gradient of f at an array, which is left as it was; 0 but at these places, a
    mask."""
    gradient = np.zeros(at.size)
    flat = at.reshape(-1)
    for i in np.flatnonzero(np.broadcast_to(places, at.shape)):
        here = flat[i]
        flat[i] = here + STEP
        above = f()
        flat[i] = here - STEP
        gradient[i] = (above - f()) / (2 * STEP)
        flat[i] = here
    return gradient


def near_a_corner(net, x):
    """True if some value is so near a corner that a difference might step over it."""
    masks = plain_layers.dropout_masks(net.layers, len(x), *DRAW)
    outs = plain_layers.forward(net.layers, net.parameters(), x, masks)
    for k, column in enumerate(net.layers[0].columns):
        if (np.abs(x[:, k].reshape(-1, 1) - np.array(column.edges)) < CORNER).any():
            return True
    for index, layer in enumerate(net.layers):
        if layer.activation in WITH_A_CORNER:
            linear = [*net.layers[:index], replace(layer, activation="linear")]
            outputs = plain_layers.forward(linear, net.parameters(), x, masks)
            z = outputs[-1]
            if np.abs(z).min() < CORNER:
                return True
        if layer.kind == "maxpool":
            image = outs[index].reshape(len(x), *layer.in_shape)
            for _, _, rows, columns in plain_layers.windows(layer):
                window = np.sort(
                    image[:, :, rows, columns].reshape(*image.shape[:2], -1)
                )
                largest = window[:, :, -1]
                second = window[:, :, -2]
                # zeros that tie are relu's, all below their corner: their gradient is 0
                # wherever it goes
                if ((largest - second < CORNER) & (largest != 0)).any():
                    return True
    return False


def check_by_differences(net, rows=2):
    """Every parameter's derivative, and that of every input on which outputs depend
    smoothly: of all but codes."""
    x, y = next(
        (x, y)
        for x, y in (fill(net, rows, seed) for seed in range(200))
        if not near_a_corner(net, x)
    )
    engine = net.engine
    x = x.reshape(rows, -1)
    vector = np.concatenate(
        [np.empty(0), *(v.ravel() for v in net.parameters().values())]
    )

    def loss():
        engine.set("parameters", vector)
        return engine.gradients(x, y, *DRAW)[0]

    _, gradient, dx = engine.gradients(x, y, *DRAW)
    if vector.size:
        # a gradient of zeros would agree with anything flat
        assert np.abs(gradient).max() > 1e-4
        assert relative_distance(gradient, central_differences(loss, vector)) < 1e-6
    is_code = np.array(
        [column.values > 0 for column in net.layers[0].columns] or [False]
    )
    assert np.abs(dx).max() > 1e-4
    expected = central_differences(loss, x, ~np.broadcast_to(is_code, x.shape))
    assert relative_distance(dx, expected) < 1e-6


@pytest.mark.usual(23)
@pytest.mark.parametrize("spec", CASES)
def test_gradients_agree_with_central_differences(spec, processor):
    check_by_differences(network(spec, processor))


@pytest.mark.parametrize("name", EVERY)
def test_every_layer_kind_activation_and_loss_has_the_gradient_of_its_value(
    name, backend
):
    for spec, options in EVERY[name]:
        check_by_differences(network(spec, backend, **options))


@pytest.mark.parametrize(
    "spec, task", [("6,5:tanh,4", "multiclass"), ("2x4x4,conv3k2:tanh,1", "binary")]
)
def test_cross_entropies_have_the_gradient_of_their_value(spec, task, processor):
    net = network(spec, processor, task=task)
    check_by_differences(net, rows=3)
    x = fill(net, 3)[0]
    labels = np.array([0, 1, 1])
    one = net.gradients(x, labels)[1]
    gradients = net.gradients(x, net.target_rows(labels))
    other = gradients[1]
    assert (flattened(one) == flattened(other)).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", LAYER_KINDS)
@pytest.mark.parametrize("loss, activation", PAIRS)
def test_every_loss_of_every_output_layer_has_the_gradient_of_its_value(
    loss, activation, kind, backend
):
    net = network(f"{KINDS[kind]}:{activation}", backend, loss=loss)
    check_by_differences(net, rows=5)


@pytest.mark.parametrize(
    "loss, outputs",
    [
        *(("huber=0.25", outputs) for outputs in ("1", "3", "3:softmax")),
        *(("quantile=.9", outputs) for outputs in ("1", "3", "3:softmax")),
        *((QUANTILES, outputs) for outputs in ("3", "3:steps")),
        ("quantile=.2,.7", "2"),
        ("quantile=" + ",".join(f"{k / 41:.3f}" for k in range(1, 41)), "40"),
        *(("focal=0.5", outputs) for outputs in ("1:sigmoid", "3:sigmoid")),
        *(("tweedie=1.2", outputs) for outputs in ("1:exp", "3:exp")),
        *(("tweedie=1.9", outputs) for outputs in ("1:exp", "3:exp")),
    ],
)
def test_a_loss_has_the_constant_that_it_is_given(loss, outputs, processor):
    net = network(f"4,5:tanh,{outputs}", processor, "float64", loss=loss)
    check_against_numpy(net, 20)


@pytest.mark.parametrize("outputs", [1, 3, 17])
@pytest.mark.parametrize(
    "loss", ["mse", "mae", "huber", "quantile=0.3", "quantiles", "poisson", "gamma"]
)
def test_a_prediction_that_is_right_has_no_loss_and_no_gradient(loss, outputs, backend):
    """Also where the loss has a corner there."""
    if loss == "quantiles":
        shares = [(k + 1) / (outputs + 2) for k in range(outputs + 1)]
        loss = "quantile=" + ",".join(f"{share:.3f}" for share in shares)
        outputs += 1
    output = OUTPUT_ACTIVATIONS.get(loss, "linear")
    if "," in loss:
        output = "steps"
    net = network(f"4,5:tanh,{outputs}:{output}", backend, "float32", loss=loss)
    x, _ = fill(net, 20)
    y = net.predict(x)
    value, gradients, _ = net.gradients(x, y)
    slack = 1e-6 if output == "exp" else 0
    assert abs(value) <= slack * np.abs(y).max()
    for gradient in gradients.values():
        assert np.abs(gradient).max() <= slack * np.abs(y).max()


def random_spec(rng):
    """A small random network that fits."""
    # some would be dead, or overflow
    unfit = "softmax", "steps", "relu", "exp"
    names = [name for name in nn_aux.ACTIVATIONS if name not in unfit]
    while True:
        items = [f"{rng.integers(1, 20)}x{rng.integers(3, 20)}x{rng.integers(3, 20)}"]
        for _ in range(rng.integers(1, 5)):
            kind = rng.choice(["conv", "conv", "maxpool", "avgpool", "pad"])
            k = rng.integers(1, 5)
            s = rng.integers(1, 4)
            if kind == "conv":
                padding = rng.choice(["", "p1", "p2", "same"])
                items.append(
                    f"conv{rng.integers(1, 40)}k{k}s{s}{padding}:{rng.choice(names)}"
                )
            else:
                items.append(f"pad{k}" if kind == "pad" else f"{kind}{k}s{s}")
        items.append(f"{rng.integers(1, 9)}:{rng.choice(names)}")
        with contextlib.suppress(UsageError):
            parse(",".join(items))
            return ",".join(items)


@pytest.mark.parametrize("seed", range(25))
def test_random_networks_have_the_gradients_of_numpy(seed, processor):
    rng = np.random.default_rng(seed)
    net = network(random_spec(rng), processor)
    check_against_numpy(net, int(rng.integers(1, 6)))
