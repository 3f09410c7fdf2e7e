"""What the tests of figures share: tolerances, stand-ins of networks and data sets,
rows to judge."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from nn.core.metrics import metric
from nn.test import binary_report, multiclass_report, regression_report

roc_auc = partial(metric, "roc_auc", "binary")
pr_auc = partial(metric, "pr_auc", "binary")


def log_loss(truth, scores, weights=None):
    if np.asarray(scores).size == len(truth):
        task = "binary"
    else:
        task = "multiclass"
    return metric("log_loss", task, truth, scores, weights)


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def placements_by_hand(truth, scores, folds) -> np.ndarray:
    """Return for each row the share of its fold's rows of class 0 below it."""
    places = []
    for score, fold in zip(scores, folds, strict=True):
        negatives = scores[(folds == fold) & (truth == 0)]
        below = (negatives < score).sum() + 0.5 * (negatives == score).sum()
        places.append(below / len(negatives))
    return np.array(places)


def network(task, scores, **facts):
    """What `test` needs of a network: its task and its scores, whatever the rows
    hold."""
    defaults = {
        "threshold": 0.5,
        "loss": None,
        "classes": None,
        "layers": [SimpleNamespace(output_function="linear")],
    }
    return SimpleNamespace(
        task=task, predict=lambda x: np.asarray(scores), **{**defaults, **facts}
    )


def dataset(task, y, **facts):
    defaults = {
        "classes": None,
        "targets": None,
        "path": None,
        "persistence": lambda: None,
        "check_pictures": lambda pictures: None,
    }
    return SimpleNamespace(
        task=task, x=np.zeros((len(y), 1)), y=np.asarray(y), **{**defaults, **facts}
    )


def column(scores):
    return np.asarray(scores, np.float32).reshape(-1, 1)


def judged_rows(task, rng, rows=60):
    """Truth and scores with ties; class 3 of four is missing."""
    if task == "binary":
        draws = rng.integers(0, 2, rows)
        return draws, rng.integers(0, 11, rows) / 10
    if task == "multiclass":
        draws = rng.integers(0, 3, rows)
        return draws, rng.multinomial(10, np.ones(4) / 4, rows) / 10
    draws = rng.normal(size=(rows, 2))
    return draws, rng.normal(size=(rows, 2))


def report_of(task, truth, scores, weights=None):
    if task == "binary":
        return binary_report(truth, scores, 0.45, weights)
    return (multiclass_report if task == "multiclass" else regression_report)(
        truth, scores, weights=weights
    )
