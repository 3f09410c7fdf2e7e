"""The figures of two classes against scikit-learn, by hand, and where they are
undefined.

1e-12: see test_metrics.py.
"""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from support.figures import close, pr_auc, roc_auc

from nn.core.metrics import (
    Counts,
    Judged,
    confusion_counts,
    f1,
    mcc,
    placements,
    precision,
    recall,
)
from nn.test import binary_report, multiclass_report, regression_report

SCORES = {  # of rows, by a generator and their truth
    "random": lambda rng, truth: rng.random(len(truth)),
    "tied": lambda rng, truth: rng.integers(0, 4, len(truth)) / 4,
    "informative": lambda rng, truth: np.clip(rng.normal(0.3 + 0.4 * truth, 0.2), 0, 1),
    "float32": lambda rng, truth: np.clip(
        rng.normal(0.3 + 0.4 * truth, 0.2), 0, 1
    ).astype(np.float32),
    "constant": lambda rng, truth: np.full(len(truth), 0.5),
    "perfect": lambda rng, truth: truth.astype(float),
    "inverted": lambda rng, truth: 1.0 - truth,
    "nearly equal": lambda rng, truth: (
        0.5 + rng.integers(0, 3, len(truth)) * np.spacing(0.5)
    ),
    "negative": lambda rng, truth: rng.normal(size=len(truth)) - 5 * truth,
}


@pytest.mark.parametrize("positives", [1, 500, 999], ids="{} of 1000 positive".format)
@pytest.mark.parametrize("make", SCORES)
def test_binary_figures_are_those_of_scikit_learn(make, positives):
    rng = np.random.default_rng(positives)
    order = rng.permutation(np.arange(1000) < positives)
    truth = order.astype(np.int32)
    scores = SCORES[make](rng, truth)
    assert_as_sklearn(binary_report(truth, scores, 0.5), truth, scores, 0.5)


def assert_as_sklearn(report, truth, scores, threshold, **known):
    """known: sample_weight, if rows have weights."""
    predicted = scores >= threshold
    rates = metrics.precision_recall_fscore_support(
        truth, predicted, average="binary", zero_division=0, **known
    )[:3]
    assert [report[rate] for rate in ("precision", "recall", "f1")] == close(rates)
    if not known:
        confusion = metrics.confusion_matrix(truth, predicted, labels=[0, 1])
        counts = confusion.ravel().tolist()
        assert [report[count] for count in ("tn", "fp", "fn", "tp")] == counts
    expected = metrics.accuracy_score(truth, predicted, **known)
    assert report["accuracy"] == close(expected)
    # else scikit-learn takes the root of a rounding error
    if not known or (predicted.any() and not predicted.all()):
        expected = metrics.matthews_corrcoef(truth, predicted, **known)
        assert report["mcc"] == close(expected)
    expected = metrics.roc_auc_score(truth, scores, **known)
    assert report["roc_auc"] == close(expected)
    expected = metrics.average_precision_score(truth, scores, **known)
    assert report["pr_auc"] == close(expected)


def test_a_binary_report_worked_by_hand():
    """Six rows, the second and third tied across the classes.

    score  .9 .7 .7 .6 .4 .2     threshold .65: tp 2, fp 1, fn 1, tn 2
    truth   1  1  0  0  1  0
    ROC: of 9 pairs (positive, negative) .9 wins 3; .7 wins 2 and ties 1; .4 wins 1: 6.5
    / 9
    PR:  steps of recall 1/3 at precision 1/1, 2/3 (the tie, together) and 3/5: (1 + 2/3
         + 3/5) / 3 MCC: (2*2 - 1*1) / sqrt(3*3*3*3) = 1/3
    log loss: -ln of .9 .7 .3 .4 .4 .8; Brier: squares of .1 .3 .7 .6 .6 .2
    """
    scores = np.array([0.9, 0.7, 0.7, 0.6, 0.4, 0.2])
    truth = np.array([1, 1, 0, 0, 1, 0])
    report = binary_report(truth, scores, 0.65)
    logarithms = np.log([0.9, 0.7, 0.3, 0.4, 0.4, 0.8])
    mean = logarithms.mean()
    expected = {
        "rows": 6,
        "threshold": 0.65,
        "tp": 2,
        "fp": 1,
        "fn": 1,
        "tn": 2,
        "precision": 2 / 3,
        "recall": 2 / 3,
        "f1": 2 / 3,
        "accuracy": 4 / 6,
        "mcc": close(1 / 3),
        "roc_auc": close(6.5 / 9),
        "pr_auc": close((1 + 2 / 3 + 3 / 5) / 3),
        "log_loss": close(-mean),
        "brier": close((0.01 + 0.09 + 0.49 + 0.36 + 0.36 + 0.04) / 6),
    }
    assert report == expected
    assert list(report) == list(expected)


cases = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-3, 3) | st.floats(-10, 10)),
    min_size=2,
    max_size=60,
)
mixed_cases = cases.filter(lambda rows: 0 < sum(label for label, _ in rows) < len(rows))


@given(mixed_cases, st.integers(-3, 3), st.data(), st.booleans())
def test_any_binary_rows_give_the_figures_of_scikit_learn(
    rows, threshold, data, weighted
):
    truth = np.array([label for label, _ in rows])
    scores = np.array([score for _, score in rows])
    weights = st.lists(st.floats(0.01, 10), min_size=len(rows), max_size=len(rows))
    if weighted:
        keywords = {"sample_weight": np.array(data.draw(weights))}
    else:
        keywords = {}
    report = binary_report(truth, scores.astype(float), threshold, *keywords.values())
    assert_as_sklearn(report, truth, scores, threshold, **keywords)


def test_areas_of_folds_compare_rows_of_one_fold():
    """Worked by hand: the levels of the folds' scores differ, and say nothing; the last
    fold has no row of class 0 and is placed among all."""
    folds = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    truth = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    scores = np.array([0.1, 0.3, 0.3, 0.4, 0.8, 0.9, 0.85, 0.35])
    places = placements(truth, scores, folds)
    assert places.tolist() == [0.25, 0.75, 0.75, 1.0, 0.25, 0.75, 0.5, 0.5]
    values = Judged("binary", truth, scores, folds=folds).values()
    below_and_half = 3 + 4 + 2 + 2
    assert values["roc_auc"] == below_and_half / (4 * 4)
    assert Judged("binary", truth, scores).values()["roc_auc"] == 8.5 / 16
    assert values["brier"] == Judged("binary", truth, scores).values()["brier"]


def test_levels_of_folds_change_no_area():
    """Whatever rises within each fold leaves the areas as they are."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 200)
    folds = rng.integers(0, 5, 200)
    scores = rng.random(200)
    shifted = scores / 10 + folds / 5
    expected = Judged("binary", truth, scores, folds=folds).values()
    values = Judged("binary", truth, shifted, folds=folds).values()
    for name in ("roc_auc", "pr_auc"):
        assert values[name] == expected[name]


def test_minus_zero_and_zero_are_the_same_score():
    truth = np.array([1, 0, 1, 0])
    scores = np.array([0.0, -0.0, -0.0, 0.0])
    area = roc_auc(truth, scores)
    assert area == pr_auc(truth, scores) == 0.5


def test_counts_of_billions_do_not_overflow():
    assert mcc(Counts(10**12, 0, 0, 10**12)) == 1.0
    counts = Counts(0, 10**12, 10**12, 0)
    assert mcc(counts) == -1.0
    counts = Counts(3 * 10**10, 10**10, 10**10, 3 * 10**10)
    assert mcc(counts) == close(0.5)
    # From rows, where the product of the four sums is 2.56e22: 1/4 of each class is
    # wrong, mcc = 3/4 - 1/4.
    truth = np.repeat(np.array([0, 1], np.int32), 400_000)
    predicted = np.repeat([0, 1, 0, 1], [300_000, 100_000, 100_000, 300_000])
    assert mcc(confusion_counts(truth, predicted)) == close(0.5)
    scores = truth.astype(np.float32)
    assert roc_auc(truth, scores) == 1.0  # 1.6e11 pairs pass 2^32


def test_rates_without_a_denominator_are_0():
    for counts in (Counts(0, 0, 0, 0), Counts(0, 3, 0, 0)):
        assert [rate(counts) for rate in (precision, recall, f1)] == [0.0, 0.0, 0.0]
    assert mcc(Counts(0, 0, 4, 6)) == 0.0


NO_AREAS = "roc_auc and pr_auc are undefined: all rows are of one class"


@pytest.mark.parametrize(
    ("truth", "scores", "rates", "areas", "warnings"),
    [
        (
            [0, 1, 0],
            [0.1, 0.2, 0.3],
            (0, 0, 0, 0),
            True,
            ["precision, mcc set to 0 (denominator 0): no row scores 0.5 or more"],
        ),
        (
            [0, 1, 0],
            [0.7, 0.8, 0.9],
            (1 / 3, 1, 0.5, 0),
            True,
            ["mcc set to 0 (denominator 0): no row scores below 0.5"],
        ),
        (
            [0, 0, 0],
            [0.1, 0.2, 0.3],
            (0, 0, 0, 0),
            False,
            [
                "precision, recall, f1, mcc set to 0 (denominator 0): no row scores 0.5 or more and no row is positive",
                NO_AREAS,
            ],
        ),
        (
            [1, 1],
            [0.1, 0.9],
            (1, 0.5, 2 / 3, 0),
            False,
            ["mcc set to 0 (denominator 0): no row is negative", NO_AREAS],
        ),
    ],
    ids=["none predicted", "all predicted", "none positive", "all positive"],
)
def test_what_has_no_denominator_is_0_and_said_once(
    truth, scores, rates, areas, warnings, warnings_of
):
    report = binary_report(np.array(truth), np.array(scores), 0.5)
    assert [report[rate] for rate in ("precision", "recall", "f1", "mcc")] == close(
        rates
    )
    expected = [areas] * 2
    assert [report[area] is not None for area in ("roc_auc", "pr_auc")] == expected
    assert warnings_of() == warnings


def test_a_defined_report_warns_of_nothing(warnings_of):
    truth = np.array([0, 1, 0, 1])
    scores = np.array([0.1, 0.2, 0.7, 0.8])
    binary_report(truth, scores, 0.5)
    multiclass_report(np.array([0, 1]), np.eye(2))
    truth = np.array([[0.0], [1.0]])
    predicted = np.array([[0.0], [2.0]])
    regression_report(truth, predicted)
    assert warnings_of() == []


@pytest.mark.timing
def test_a_million_rows_take_about_a_second():
    """About 0.3 s measured; 2 s of processor time still tells a sort from a loop over
    rows."""
    rng = np.random.default_rng(0)
    truth = (rng.random(1_000_000) < 0.01).astype(np.int32)
    scores = rng.random(1_000_000, np.float32)
    started = time.process_time()
    binary_report(truth, scores, 0.5)
    assert time.process_time() - started < 2
