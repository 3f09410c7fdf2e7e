"""What a Model has of scikit-learn's estimators: score, classes_, feature_names_in_."""

import numpy as np
import pytest
from sklearn import metrics

import nn

ROWS = 120


def frame_of(task: str) -> dict:
    """A table of two columns and a target."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, ROWS))
    town = np.array(["x", "y"])[(b > 0).astype(int)]
    y = a + (b > 0) + rng.normal(size=ROWS) / 4
    if task == "binary":
        y = (y > 0.5).astype(int)
    elif task == "several":
        y = np.array(["low", "mid", "top"])[np.digitize(y, [0, 1])]
    return {"a": a, "town": town, "y": y}


def fitted(task: str):
    """A model, its table, the columns alone, the targets."""
    frame = frame_of(task)
    outputs = 3 if task == "several" else 1
    how = {"epochs": 60, "learning_rate": 0.02, "holdout": 0}
    model = nn.fit(frame, "y", layers=f"auto,6,{outputs}", **how)
    inputs = {name: frame[name] for name in ("a", "town")}
    return model, frame, inputs, frame["y"]


@pytest.mark.parametrize("task", ["binary", "several"])
def test_the_score_of_classes_is_their_accuracy(task):
    model, frame, inputs, y = fitted(task)
    expected = metrics.accuracy_score(y, model.predict(inputs))
    assert 0.5 < expected < 1
    assert model.score(inputs, y) == pytest.approx(expected)
    assert model.score(frame) == pytest.approx(expected)
    assert model.classes_.tolist() == sorted({*y.tolist()})
    assert model.classes_.dtype == model.predict(inputs).dtype


def test_the_score_of_numbers_is_r2():
    model, frame, inputs, y = fitted("regression")
    expected = metrics.r2_score(y, model.predict(inputs))
    assert 0 < expected < 1
    assert model.score(inputs, y) == pytest.approx(expected, rel=1e-5)
    assert model.score(frame) == pytest.approx(expected, rel=1e-5)
    assert model.classes_ is None


def test_the_columns_have_the_name_that_scikit_learn_gives_them():
    model, *_ = fitted("binary")
    assert model.feature_names_in_.tolist() == ["a", "town"]
    plain = nn.fit(np.zeros((20, 2)) + np.arange(20)[:, None], np.arange(20) % 2)
    assert plain.feature_names_in_ is None
    assert plain.classes_.tolist() == [0, 1]
