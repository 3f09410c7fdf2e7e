"""Greedy selection, by --effort, --vary and --keep: the networks that together do best, by a figure that exists."""

import math

import numpy as np
import pytest
from support.packs import SEED, data, network

import nn
from nn.cluster import RankGroup
from nn.core.metrics import log_loss, metric
from nn.nn import Network
from nn.train.effort import Effort
from nn.train.folds import out_of_fold
from nn.train.halving import SuccessiveHalving
from nn.train.judging import Judge
from nn.train.selection import greedy_selection
from nn.train.validation import Monitor
from nn.utils import NnError, UsageError


def softmax_rows(quality, truth, rng):
    """Return float32 probabilities (rows, classes); the better, the higher the quality."""
    logits = rng.normal(size=(len(truth), 3))
    logits[np.arange(len(truth)), truth] += quality
    each = np.exp(logits).astype(np.float32)
    return each / each.sum(axis=1, keepdims=True)


def mean_of(scores, numbers):
    return np.mean([scores[number] for number in numbers], axis=0, dtype=np.float64).astype(np.float32)


def test_networks_of_several_classes_are_chosen_by_their_log_loss():
    """Rows of float32 sum to 1 up to float32's rounding only, and so do their means."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    scores = [softmax_rows(quality, truth, rng) for quality in (0.0, 0.5, 3.0, 1.0, 3.0)]
    counts = greedy_selection(scores, 10, Monitor("loss"), lambda mean: metric("loss", "multiclass", truth, mean))
    assert counts[0] == counts[1] == counts[3] == 0 and counts[2] and counts[4]


def test_the_mean_that_is_judged_is_the_prediction_to_the_bit():
    rng = np.random.default_rng(0)
    scores, seen = [rng.random((5, 3), np.float32) for _ in range(3)], []

    def value_of(mean):
        seen.append(mean)
        return float(len(seen))

    greedy_selection(scores, 2, Monitor("loss"), value_of)
    expected = [*scores, *(mean_of(scores, [0, number]) for number in range(3))]
    assert all(mean.dtype == np.float32 and np.array_equal(mean, own) for mean, own in zip(seen, expected, strict=True))


@pytest.mark.parametrize("monitor", ["loss", "brier"])
def test_keep_keeps_the_networks_of_several_classes_that_do_best(monitor):
    ds, net = data("multiclass"), network("multiclass")
    flags = {"epochs": 8, "validation": 0.3, "monitor": monitor, "vary": "learning_rate=1e-4..1e-1"}
    result = nn.train(net, ds, networks=6, keep=3, **flags)
    rows = nn.ds.split_rows(ds, 0.2, 0.3, SEED).validation
    left = [trial for trial in result["trials"] if trial["status"] != "given up"]
    best = min(left, key=lambda trial: trial["score"])
    assert best is not left[0] and best["status"] == "member"
    value = metric(monitor, "multiclass", ds.y[rows], net.predict(ds.x[rows]))
    assert value <= best["score"] * (1 + 1e-6)


def test_effort_chooses_for_several_classes_what_predicts_best_out_of_fold():
    ds, scores = data("multiclass", 120), []

    def train(net, ds, **settings):
        slowly = {} if scores else {"learning_rate": 1e-9}  # the first candidate learns nothing
        figures = nn.train(net, ds, **{**settings, "epochs": 30, **slowly})
        rows, _, outputs = out_of_fold(net, ds)
        assert np.array_equal(rows, np.arange(ds.rows))
        scores.append(outputs)
        return figures

    def loss(numbers):
        return log_loss(ds.y, mean_of(scores, numbers))

    _, result = Effort(ds, "standard", {}, lambda layers: Network.for_data(ds, layers, seed=SEED)).run(train)
    ways = [[]]
    for _ in range(10):  # greedy by hand
        ways.append([*ways[-1], min(range(4), key=lambda number: loss([*ways[-1], number]))])
    chosen = min(ways[1:], key=loss)
    counts = [chosen.count(number) for number in sorted({*chosen})]
    assert counts == [one["weight"] for one in result["chosen"]] and len({*counts}) > 1
    assert result["out_of_fold"]["log_loss"] == pytest.approx(loss(chosen), rel=1e-6)


# ---------------------------------------------------------------- what is undefined


@pytest.mark.parametrize("undefined", [None, math.nan])
def test_an_undefined_metric_chooses_nothing(undefined):
    with pytest.raises(NnError, match="^roc_auc is undefined .* give another --monitor"):
        greedy_selection([np.zeros((2, 1))] * 4, 3, Monitor("roc_auc"), lambda mean: undefined)


def test_a_comparison_by_an_undefined_metric_gives_up_nothing():
    halving = SuccessiveHalving(Monitor("roc_auc"), [8] * 8, 2)
    with pytest.raises(NnError, match="^roc_auc is undefined"):
        halving.compare({number: [math.nan] * 8 for number in range(8)})
    assert not halving.given_up


def test_keep_says_that_the_metric_is_undefined_for_validation_rows_of_one_class():
    ds = data("binary")
    validation = ds.of_rows(np.flatnonzero(ds.y == 1)[:30])
    for keep in (1, 3):
        with pytest.raises(NnError, match="roc_auc is undefined"):
            nn.train(network("binary"), ds, networks=4, keep=keep, validation=validation, monitor="roc_auc", epochs=2)


@pytest.mark.parametrize("monitor", ["loss", "brier"])
def test_keep_refuses_before_training_to_choose_by_probabilities_where_there_are_none(monitor):
    ds, net = data("multiclass"), Network("6,4,3:linear", "multiclass", loss="mse")
    with pytest.raises(UsageError, match=f"--monitor {monitor}: .*probabilities.*linear"):
        nn.train(net, ds, networks=4, keep=2, validation=0.3, monitor=monitor, epochs=1)
    assert nn.train(net, ds, networks=4, keep=2, validation=0.3, monitor="accuracy", epochs=1)["networks"]


class Two(RankGroup):
    """Two ranks, of which the other has the same rows."""

    size = 2

    def gather(self, value):
        return [value, value]


def test_the_ranks_judge_by_numbers_of_the_networks_type():
    """Else what is defined on one rank, the Brier score of several classes, would be undefined on two."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 50)
    part = truth, softmax_rows(1.0, truth, rng), None
    judge = Judge(network("multiclass"), Monitor("brier"), 0.5, Two(), lambda: None)
    everyone = judge._of_all_ranks([part])
    assert len(everyone) == 2 and all(scores.dtype == np.float32 for _, scores, _ in everyone)
