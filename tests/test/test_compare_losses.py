"""Comparisons of models that were trained by a loss with a metric of its own."""

import numpy as np
import pandas as pd
import pytest

import nn


@pytest.fixture(scope="module")
def counts():
    """Rows to learn from, and others."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(900, 2))
    y = rng.poisson(np.exp(1 + x[:, 0]))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "claims": y})
    return frame[:600], frame[600:]


def of(known, loss: str, epochs: int = 10, outputs: int = 1) -> nn.Model:
    layers = f"auto,8,{outputs}"
    how = {"task": "regression", "loss": loss, "epochs": epochs, "layers": layers}
    return nn.fit(known, "claims", **how)


@pytest.mark.parametrize(
    "loss, outputs, metric",
    [
        ("poisson", 1, "deviance"),
        ("quantile=.8", 1, "pinball"),
        ("quantile=.2,.8", 2, "pinball"),
        ("mae", 1, "mae"),
    ],
)
def test_the_metric_of_the_loss_of_both_decides(loss, outputs, metric, counts):
    known, others = counts
    models = of(known, loss, 1, outputs), of(known, loss, 30, outputs)
    found = nn.compare(*models, others)
    assert found["metric"] == metric
    assert found["better"] == found["models"][1]


def test_models_of_two_losses_are_compared_by_what_both_have(counts):
    known, others = counts
    models = [of(known, "mse"), of(known, "poisson")]
    for pair in (models, models[::-1]):
        found = nn.compare(*pair, others)
        assert found["metric"] == "rmse"
        assert "deviance" not in found["metrics"]
