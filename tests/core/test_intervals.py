"""Intervals of metrics: against the reports of repeated rows."""

import logging
import time

import numpy as np
import pytest
from support.command_line import run, succeed, write_numbers, write_three_classes, write_two_classes

from nn.core import bootstrap
from nn.core.bootstrap import drawn, interval, intervals
from nn.core.metrics import Judged, checked_weights
from nn.test import binary_report, multiclass_report, regression_report


@pytest.fixture(autouse=True)
def no_warnings(caplog):
    """Resampled rows may lack a class, and a thousand reports would say so."""
    caplog.set_level(logging.ERROR, logger="nn")


def draws(rows, seed=0, resamples=bootstrap.RESAMPLES):
    """How often each resample has each row: (resamples, rows)."""
    return np.stack([drawn(rows, number, seed) for number in range(resamples)])


def binary_intervals(truth, scores, threshold, weights=None):
    return intervals(Judged("binary", truth, scores, threshold), checked_weights(weights, len(truth)))


def two_classes(ties=True):
    rng = np.random.default_rng(0)
    truth = (rng.random(60) < 0.4).astype(np.int32)
    scores = np.clip(rng.normal(0.3 + 0.3 * truth, 0.2), 0, 1)
    return truth, (scores.round(1) if ties else scores)


def assert_percentiles(found, names, reports):
    """found: intervals by name; each has NumPy's percentiles of the figure, in those reports that hold it."""
    assert list(found) == names.split()
    for name, ends in found.items():
        values = [{**report, **report.get("macro", {})}[name] for report in reports]
        percentiles = np.percentile([value for value in values if value is not None], [2.5, 97.5])
        assert ends == pytest.approx(percentiles, rel=1e-9), name


def test_resamples_have_as_many_rows_as_there_are_drawn_evenly_and_differ_by_number_and_seed():
    """37,000 draws of 37 rows: the sum of squares is chi-squared with 36 degrees of freedom, below 72 but in 3e-4."""
    times = draws(37)
    assert times.shape == (1000, 37) and (times.sum(axis=1) == 37).all() and times.min() == 0
    assert ((times.sum(axis=0) - 1000) ** 2 / 1000).sum() < 72
    assert len(np.unique(times, axis=0)) == 1000
    assert not np.array_equal(times, draws(37, seed=1))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(monkeypatch, threads):
    usual = binary_intervals(*two_classes(), 0.5)
    monkeypatch.setattr(bootstrap, "default_threads", lambda: threads)
    assert binary_intervals(*two_classes(), 0.5) == usual


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_intervals_of_two_classes_are_percentiles_of_reports(ties, weighted):
    truth, scores = two_classes(ties=ties)
    weights = np.random.default_rng(1).random(len(truth)) if weighted else np.ones(len(truth))
    reports = [binary_report(truth, scores, 0.45, times * weights) for times in draws(len(truth))]
    names = "precision recall f1 accuracy mcc roc_auc pr_auc log_loss brier"
    assert_percentiles(binary_intervals(truth, scores, 0.45, weights), names, reports)


def test_intervals_of_several_classes_are_percentiles_of_reports():
    rng = np.random.default_rng(2)
    truth, scores = rng.integers(0, 3, 50), rng.dirichlet(np.ones(4), 50)  # class 3 is not there
    reports = [multiclass_report(truth, scores, weights=times) for times in draws(50)]
    names = "precision recall f1 accuracy mcc log_loss brier"
    assert_percentiles(intervals(Judged("multiclass", truth, scores)), names, reports)


@pytest.mark.parametrize("offset", [0, 1e6])
def test_intervals_of_regression_are_percentiles_of_reports(offset):
    """Values far from 0 lose digits on both sides: 1e6 squared leaves 4 of 16."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(50, 2)) + offset
    predicted, persistence = truth + rng.normal(size=(50, 2)) / 2, truth + rng.normal(size=(50, 2))
    found = intervals(Judged("regression", truth, predicted, persistence=persistence))
    reports = [regression_report(truth, predicted, None, persistence, times) for times in draws(50)]
    assert_percentiles(found, "mse mae rmse r2 persistence_rmse skill", reports)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    """Accuracy 0.8 of 100 rows, 200 times: 95 % are 190, and 178 or fewer come in 2 of 1000."""
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(200):
        right = (rng.random(100) < 0.8).astype(float)
        low, high = interval(draws(100, seed, 400) @ right / 100)
        covered += low <= 0.8 <= high
    assert 178 < covered <= 200


def test_what_is_undefined_has_no_interval():
    assert interval([np.nan, np.inf]) is None
    assert interval([np.nan, 1.0, 1.0]) == [1.0, 1.0]
    found = binary_intervals(np.zeros(5, int), np.arange(5) / 4, 0.5)
    assert found["roc_auc"] is None and found["pr_auc"] is None and found["accuracy"] is not None
    assert binary_intervals(np.array([0, 1]), np.array([-1.0, 2.0]), 0.5)["brier"] is None
    assert intervals(Judged("regression", np.ones((4, 1)), np.zeros((4, 1))))["r2"] is None
    # half the resamples of two rows lack a class, and do not count
    assert binary_intervals(np.array([0, 1]), np.array([0.1, 0.9]), 0.5)["roc_auc"] == [1.0, 1.0]


@pytest.mark.timing
def test_the_rows_of_the_credit_card_test_take_less_than_a_second():
    """0.19 s measured on two cores."""
    rng = np.random.default_rng(0)
    truth, scores = (rng.random(5725) < 0.02).astype(np.int32), rng.random(5725).astype(np.float32)
    began = time.perf_counter()
    binary_intervals(truth, scores, 0.5)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("write", [write_two_classes, write_three_classes, write_numbers])
def test_a_test_gives_intervals_when_asked(folder, write):
    write(folder / "data.csv")
    succeed("--train", "--dataset", "data.csv", "--model", "m.bin", "--epochs", 2, "-q")
    plain = succeed("--test", "--model", "m.bin", "--json").json
    figures = succeed("--test", "--model", "m.bin", "--intervals", "--json").json
    assert "intervals" not in plain
    intervals = figures.pop("intervals")
    assert figures == plain
    assert succeed("--test", "--model", "m.bin", "--intervals", "--json", "--threads", 1).json["intervals"] == intervals
    flat = plain | {f"macro_{name}": value for name, value in plain.get("macro", {}).items()}
    assert intervals and all(low <= high for low, high in intervals.values())
    inside = [low <= flat[name] <= high for name, (low, high) in intervals.items()]
    assert sum(inside) >= len(inside) - 1
    table = succeed("--test", "--model", "m.bin", "--intervals").out
    assert "95 % interval" in table and "95 %" not in succeed("--test", "--model", "m.bin").out
    in_table = "{:.6g} to {:.6g}" if "mse" in plain else "{:.4f} to {:.4f}"
    assert in_table.format(*next(iter(intervals.values()))) in table


def test_intervals_are_the_same_under_a_limit_and_not_of_the_reference(folder):
    write_two_classes(folder / "two.csv")
    succeed("--train", "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, "-q")
    command = ("--test", "--model", "m.bin", "--dataset", "two.csv", "--intervals")
    assert succeed(*command, "--json", "--memory", "100M").json == succeed(*command, "--json").json
    result = run(*command, "--reference")
    assert result.code == 2 and "--intervals: --reference has no such thing" in result.err
