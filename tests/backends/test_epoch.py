"""A training written out in NumPy, batch by batch, judges that of the plain and the
fast core alike.

Both share csrc/train.c: a fault there would be the same in both, and no comparison of
the two would see it.
"""

import math

import numpy as np
import pytest
from support import plain_layers

import nn
from nn.core.random import PhiloxOrder

# 40 rows: two batches of 16, and a short one of 8
ROWS = 40
BATCH = 16
EPOCHS = 4
RATE = 0.05
SEED = 3
LAYERS = "3,4:tanh,2"
BETAS = {"adam": (0.9, 0.999), "rmsprop": (0.9,)}
EPSILONS = {"adam": 1e-8, "rmsprop": 1e-8, "adagrad": 1e-10}
# the share of the learning rate by the share of the training that is over
SCHEDULES = {
    "cooldown": lambda done: 1.0 if done < 0.75 else 4 * (1 - done),
    "constant": lambda done: 1.0,
    "linear": lambda done: 1 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
}


def rate_of(schedule: str, epoch: int, row: int) -> float:
    """The rate of the batch that begins at a row: straight lines through 9 points of
    the schedule in each epoch."""
    points = [
        RATE * SCHEDULES[schedule]((epoch + eighth / 8) / EPOCHS) for eighth in range(9)
    ]
    return float(np.interp(row / ROWS, np.arange(9) / 8, points))


def mean_gradients(net, parameters: dict, x, y, weights) -> tuple[float, dict]:
    """The mean loss of a batch and its gradients, from those of each row alone."""
    losses = []
    sums = {name: np.zeros_like(value) for name, value in parameters.items()}
    for row in range(len(x)):
        loss, gradients, _ = plain_layers.gradients(
            net.layers, parameters, x[[row]], y[[row]]
        )
        losses.append(loss)
        for name, gradient in gradients.items():
            sums[name] += weights[row] * gradient
    return float(weights @ losses), {
        name: total / weights.sum() for name, total in sums.items()
    }


def sgd_step(parameters, gradients, velocity, rate, momentum):
    """v = momentum v + g, w -= rate v."""
    for name, gradient in gradients.items():
        velocity[name] = momentum * velocity[name] + gradient
        parameters[name] -= rate * velocity[name]


def adam_step(
    parameters, gradients, moments1, moments2, rate, step, beta1, beta2, epsilon
):
    """Kingma and Ba 2014, algorithm 1; `step` counts from 1."""
    for name, gradient in gradients.items():
        moments1[name] = beta1 * moments1[name] + (1 - beta1) * gradient
        moments2[name] = beta2 * moments2[name] + (1 - beta2) * gradient**2
        mean = moments1[name] / (1 - beta1**step)
        variance = moments2[name] / (1 - beta2**step)
        parameters[name] -= rate * mean / (np.sqrt(variance) + epsilon)


def rmsprop_step(parameters, gradients, squares, rate, beta, epsilon):
    """Hinton 2012, lecture 6e, slide 29."""
    for name, gradient in gradients.items():
        squares[name] = beta * squares[name] + (1 - beta) * gradient**2
        parameters[name] -= rate * gradient / (np.sqrt(squares[name]) + epsilon)


def adagrad_step(parameters, gradients, squares, rate, epsilon):
    """Duchi, Hazan and Singer 2011, with the diagonal matrix."""
    for name, gradient in gradients.items():
        squares[name] = squares[name] + gradient**2
        parameters[name] -= rate * gradient / (np.sqrt(squares[name]) + epsilon)


def trained_in_numpy(
    net,
    x,
    y,
    weights,
    *,
    optimizer,
    momentum,
    decay,
    schedule,
    betas=None,
    epsilon=None,
) -> tuple[dict, list[float]]:
    """The parameters after all epochs, and the mean loss of each."""
    betas = betas or BETAS.get(optimizer)
    epsilon = epsilon or EPSILONS.get(optimizer)
    parameters = net.parameters()
    moments1 = {name: np.zeros_like(value) for name, value in parameters.items()}
    moments2 = {name: np.zeros_like(value) for name, value in parameters.items()}
    order = PhiloxOrder(ROWS, SEED)
    losses = []
    step = 0
    for epoch in range(EPOCHS):
        rows = order.epoch(epoch)
        loss = 0.0
        for row in range(0, ROWS, BATCH):
            batch = rows[row : row + BATCH]
            batch_loss, gradients = mean_gradients(
                net, parameters, x[batch], y[batch], weights[batch]
            )
            loss = loss + batch_loss
            step = step + 1
            rate = rate_of(schedule, epoch, row)
            decayed = {
                name: rate * decay * value
                for name, value in parameters.items()
                if name.endswith("weight")
            }
            if optimizer == "adam":
                adam_step(
                    parameters,
                    gradients,
                    moments1,
                    moments2,
                    rate,
                    step,
                    *betas,
                    epsilon,
                )
            elif optimizer == "rmsprop":
                rmsprop_step(parameters, gradients, moments1, rate, *betas, epsilon)
            elif optimizer == "adagrad":
                adagrad_step(parameters, gradients, moments1, rate, epsilon)
            else:
                sgd_step(parameters, gradients, moments1, rate, momentum)
            for name, lost in decayed.items():
                parameters[name] -= lost
        losses.append(loss / weights.sum())
    return parameters, losses


@pytest.mark.usual(48)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "optimizer, momentum, decay",
    [
        ("sgd", 0.0, 0.0),
        ("sgd", 0.0, 0.3),
        ("sgd", 0.9, 0.3),
        ("adam", 0.0, 0.3),
        ("rmsprop", 0.0, 0.3),
        ("adagrad", 0.0, 0.3),
    ],
)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
def test_epochs_are_those_of_numpy(
    processor, weighted, optimizer, momentum, decay, schedule
):
    random = np.random.default_rng(5)
    x = random.normal(size=(ROWS, 3))
    y = np.stack([np.sin(x[:, 0]) + 2, x[:, 1] * x[:, 2]], axis=1)
    if weighted:
        weights = random.integers(1, 4, ROWS).astype(float)
    else:
        weights = np.ones(ROWS)
    net = nn.Network(
        LAYERS, "regression", seed=SEED, backend=processor, dtype="float64"
    )
    expected, losses = trained_in_numpy(
        net,
        x,
        y,
        weights,
        optimizer=optimizer,
        momentum=momentum,
        decay=decay,
        schedule=schedule,
    )
    ds = nn.Dataset(x, y, "regression", weights=weights if weighted else None)
    figures = nn.train(
        net,
        ds,
        optimizer=optimizer,
        momentum=momentum,
        weight_decay=decay,
        schedule=schedule,
        learning_rate=RATE,
        epochs=EPOCHS,
        batch_number=BATCH,
        scaling="none",
        holdout=0.0,
    )
    np.testing.assert_allclose(figures["loss"], losses, rtol=1e-12)
    # float64 sums in two orders, over 12 steps
    for name, value in net.parameters().items():
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-10, atol=1e-12, err_msg=name
        )
    assert len(expected) == 4


@pytest.mark.parametrize(
    "how",
    [
        {"optimizer": "adam", "betas": (0.6, 0.9)},
        {"optimizer": "adam", "betas": (0.0, 0.99), "epsilon": 0.1},
        {"optimizer": "rmsprop", "betas": (0.5,), "epsilon": 0.01},
        {"optimizer": "adagrad", "epsilon": 0.2},
    ],
    ids=lambda how: " ".join(map(str, how.values())),
)
def test_an_optimiser_has_the_constants_that_it_is_given(processor, how):
    random = np.random.default_rng(7)
    x = random.normal(size=(ROWS, 3))
    y = np.stack([x[:, 0], x[:, 1] * x[:, 2]], axis=1)
    net = nn.Network(
        LAYERS, "regression", seed=SEED, backend=processor, dtype="float64"
    )
    expected, _ = trained_in_numpy(
        net, x, y, np.ones(ROWS), momentum=0.0, decay=0.0, schedule="linear", **how
    )
    nn.train(
        net,
        nn.Dataset(x, y, "regression"),
        schedule="linear",
        learning_rate=RATE,
        weight_decay=0.0,
        epochs=EPOCHS,
        batch_number=BATCH,
        scaling="none",
        holdout=0.0,
        **how,
    )
    for name, value in net.parameters().items():
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-10, atol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("layers", ["3,5:sigmoid,1", "3,35:softplus,2"])
def test_what_lies_past_the_values_of_a_row_is_no_input_of_the_next_layer(
    processor, layers
):
    """The fast core fills rows up to whole vectors, where such a function of 0 is not
    0."""
    random = np.random.default_rng(6)
    x = random.normal(size=(ROWS, 3))
    y = np.stack([x[:, 0], x[:, 1] * x[:, 2]], axis=1)
    net = nn.Network(
        layers, "regression", seed=SEED, backend=processor, dtype="float64"
    )
    y = y[:, : net.outputs]
    how = {"optimizer": "sgd", "momentum": 0.9, "schedule": "constant"}
    expected, losses = trained_in_numpy(net, x, y, np.ones(ROWS), decay=0.0, **how)
    figures = nn.train(
        net,
        nn.Dataset(x, y, "regression"),
        learning_rate=RATE,
        epochs=EPOCHS,
        batch_number=BATCH,
        scaling="none",
        holdout=0.0,
        **how,
    )
    np.testing.assert_allclose(figures["loss"], losses, rtol=1e-12)
    for name, value in net.parameters().items():
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-10, atol=1e-12, err_msg=name
        )
