"""Importance of columns by the loss that a network was trained by."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    mean_tweedie_deviance,
)
from support.command_line import succeed

import nn


def table(rows: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"])
    rates = rng.gamma(3, np.exp(0.5 * frame.a + 1) / 3)
    years = rng.choice([0.5, 1.0, 4.0], rows)
    return frame.assign(y=rates, years=years)


def huber(distance: float):
    def loss(y, a):
        size = np.abs(y - a)
        straight = distance * (size - distance / 2)
        return np.where(size <= distance, size**2 / 2, straight).mean()

    return loss


def pinball(y, a):
    shares = (0.1, 0.5, 0.9)
    return np.mean([mean_pinball_loss(y, a[:, k], alpha=shares[k]) for k in range(3)])


def deviance(power: float):
    return lambda y, a: mean_tweedie_deviance(y, a, power=power)


# loss -> (metric, from targets and predictions)
EXPECTED = {
    "mse": ("rmse", lambda y, a: np.sqrt(mean_squared_error(y, a))),
    "mae": ("mae", mean_absolute_error),
    "huber": ("huber", huber(1.0)),
    "huber=.2": ("huber", huber(0.2)),
    "poisson": ("deviance", deviance(1)),
    "gamma": ("deviance", deviance(2)),
    "tweedie=1.3": ("deviance", deviance(1.3)),
    "quantile=.8": ("pinball", lambda y, a: mean_pinball_loss(y, a, alpha=0.8)),
    "quantile=.1,.5,.9": ("pinball", pinball),
}


@pytest.mark.parametrize("loss", EXPECTED)
def test_importance_is_by_the_metric_of_the_loss(loss):
    """The metric, what it is of rows as they are, and how much it grows where the one
    column that matters is exchanged."""
    metric, of = EXPECTED[loss]
    frame = table()[["a", "b", "y"]]
    known = frame[:300]
    others = frame[300:]
    outputs = 3 if "," in loss else 1
    how = {"layers": f"auto,8,{outputs}", "epochs": 60, "batch_number": 8}
    how = {**how, "task": "regression", "holdout": 0.0}
    model = nn.fit(known, "y", loss=loss, **how)
    scaling = model.network.target_scaling
    shift = 0.0
    scale = 1.0
    if metric == "huber":  # its distance is of scaled targets
        shift = scaling.shift
        scale = scaling.scale

    def judged(features) -> float:
        predicted = (model.predict(features) - shift) / scale
        return of((others.y.to_numpy() - shift) / scale, predicted)

    found = nn.importance(model, others)
    assert found.metric == metric
    features = others[["a", "b"]]
    assert found.baseline == pytest.approx(judged(features), rel=1e-4)
    assert found.names[0] == "a"
    rng = np.random.default_rng(1)
    exchanged = [
        judged(features.assign(a=rng.permutation(features.a))) for _ in range(40)
    ]
    grown = np.mean(exchanged) - found.baseline
    assert found.mean[0] == pytest.approx(grown, rel=0.2)
    assert found.low[0] < grown < found.high[0]


def test_importance_of_rates_is_by_their_deviance():
    frame = table()
    frame["y"] *= frame.years
    model = nn.fit(
        frame[:300],
        "y",
        loss="gamma",
        exposure="years",
        layers="auto,8,1",
        epochs=30,
        holdout=0.0,
    )
    others = frame[300:]
    found = nn.importance(model, others)
    expected = model.test(others)["deviance"]
    assert found.metric == "deviance"
    assert found.baseline == pytest.approx(expected, rel=1e-6)


def test_what_a_person_asks_for_is_told(folder):
    """--monitor: another metric; loss: that of the training. Command and page."""
    table()[["a", "b", "y"]].to_csv("t.csv", index=False)
    train = ["--layers", "auto,8,1", "--epochs", 60, "--loss", "gamma"]
    succeed("--train", "--dataset", "t.csv", "--model", "m.bin", *train, "-q")
    explain = ["--explain", "--model", "m.bin"]
    found = json.loads(succeed(*explain, "--json").out)["importance"]
    figures = json.loads(succeed("--test", "--model", "m.bin", "--json").out)
    assert found["metric"] == "deviance"
    assert found["baseline"] == pytest.approx(figures["deviance"], rel=1e-6)
    of_loss = json.loads(succeed(*explain, "--json", "--monitor", "loss").out)
    assert of_loss["importance"]["baseline"] == found["baseline"]
    asked = json.loads(succeed(*explain, "--json", "--monitor", "mae").out)
    assert asked["importance"]["metric"] == "mae"
    assert asked["importance"]["baseline"] == pytest.approx(figures["mae"], rel=1e-6)
    assert "mean deviance 0." in succeed(*explain).out
    succeed("--test", "--model", "m.bin", "--report", "m.md", "-q")
    assert "how much worse mean deviance (0." in (folder / "m.md").read_text()
