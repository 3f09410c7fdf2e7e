"""The figures of `nn --test` against scikit-learn, by hand, and where they are undefined.

1e-12: both sides are ratios of exact counts or sums of at most a few thousand float64 terms, so only the last
bits may differ.
"""

import json
import logging
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from nn.core.metrics import (
    METRICS,
    Counts,
    checked_weights,
    confusion_counts,
    confusion_matrix,
    decide,
    mcc,
    metric,
    metrics_of,
    pr_auc,
    precision_recall_f1,
    r2,
    roc_auc,
)
from nn.test import binary_report, multiclass_report, regression_report
from nn.test import test as evaluate  # under another name, pytest would collect it
from nn.test import test_blocks as evaluate_blocks
from nn.utils import DataError, NnError, UsageError


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def network(task, scores, **facts):
    """What `test` needs of a network: its task and its scores, whatever the rows hold."""
    defaults = {"threshold": 0.5, "classes": None}
    return SimpleNamespace(task=task, predict=lambda x: np.asarray(scores), **{**defaults, **facts})


def dataset(task, y, **facts):
    defaults = {"classes": None, "targets": None, "path": None, "persistence": lambda: None}
    return SimpleNamespace(task=task, x=np.zeros((len(y), 1)), y=np.asarray(y), **{**defaults, **facts})


def column(scores):
    return np.asarray(scores, np.float32).reshape(-1, 1)


@pytest.fixture
def warnings_of(caplog):
    """The warnings said so far, each checked to be one line."""
    caplog.set_level(logging.WARNING, logger="nn")

    def messages():
        found = [record.getMessage() for record in caplog.records if record.name.partition(".")[0] == "nn"]
        assert all("\n" not in message for message in found)
        return found

    return messages


# -------------------------------------------------------------------------------- two classes

BINARY_KEYS = "rows threshold tp fp fn tn precision recall f1 accuracy mcc roc_auc pr_auc log_loss brier"


def random_scores(rng, truth):
    return rng.random(len(truth))


def tied_scores(rng, truth):
    return rng.integers(0, 4, len(truth)) / 4


def informative_scores(rng, truth):
    return np.clip(rng.normal(0.3 + 0.4 * truth, 0.2), 0, 1)


def float32_scores(rng, truth):
    return informative_scores(rng, truth).astype(np.float32)


def constant_scores(rng, truth):
    return np.full(len(truth), 0.5)


def perfect_scores(rng, truth):
    return truth.astype(float)


def inverted_scores(rng, truth):
    return 1.0 - truth


def nearly_equal_scores(rng, truth):
    return 0.5 + rng.integers(0, 3, len(truth)) * np.spacing(0.5)


def negative_scores(rng, truth):
    return rng.normal(size=len(truth)) - 5 * truth


@pytest.mark.parametrize("positives", [1, 3, 500, 999], ids="{} of 1000 positive".format)
@pytest.mark.parametrize(
    "make",
    [
        random_scores,
        tied_scores,
        informative_scores,
        float32_scores,
        constant_scores,
        perfect_scores,
        inverted_scores,
        nearly_equal_scores,
        negative_scores,
    ],
)
def test_binary_figures_are_those_of_scikit_learn(make, positives):
    rng = np.random.default_rng(positives)
    truth = rng.permutation(np.arange(1000) < positives).astype(np.int32)
    scores = make(rng, truth)
    report = binary_report(truth, scores, 0.5)
    assert_as_sklearn(report, truth, scores, 0.5)


def assert_as_sklearn(report, truth, scores, threshold):
    predicted = scores >= threshold
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        truth, predicted, average="binary", zero_division=0
    )
    (tn, fp), (fn, tp) = metrics.confusion_matrix(truth, predicted, labels=[0, 1])
    assert (report["tp"], report["fp"], report["fn"], report["tn"]) == (tp, fp, fn, tn)
    assert report["precision"] == close(precision)
    assert report["recall"] == close(recall)
    assert report["f1"] == close(f1)
    assert report["accuracy"] == close(metrics.accuracy_score(truth, predicted))
    assert report["mcc"] == close(metrics.matthews_corrcoef(truth, predicted))
    assert report["roc_auc"] == close(metrics.roc_auc_score(truth, scores))
    assert report["pr_auc"] == close(metrics.average_precision_score(truth, scores))


def test_a_binary_report_worked_by_hand():
    """Six rows, the second and third tied across the classes.

    score  .9 .7 .7 .6 .4 .2     threshold .65: tp 2, fp 1, fn 1, tn 2
    truth   1  1  0  0  1  0
    ROC: of 9 pairs (positive, negative) .9 wins 3; .7 wins 2 and ties 1; .4 wins 1: 6.5 / 9
    PR:  steps of recall 1/3 at precision 1/1, 2/3 (the tie, together) and 3/5: (1 + 2/3 + 3/5) / 3
    MCC: (2*2 - 1*1) / sqrt(3*3*3*3) = 1/3
    log loss: -ln of .9 .7 .3 .4 .4 .8; Brier: squares of .1 .3 .7 .6 .6 .2
    """
    scores, truth = np.array([0.9, 0.7, 0.7, 0.6, 0.4, 0.2]), np.array([1, 1, 0, 0, 1, 0])
    report = binary_report(truth, scores, 0.65)
    assert " ".join(report) == BINARY_KEYS
    assert report == {
        "rows": 6, "threshold": 0.65, "tp": 2, "fp": 1, "fn": 1, "tn": 2,
        "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "accuracy": 4 / 6, "mcc": close(1 / 3),
        "roc_auc": close(6.5 / 9), "pr_auc": close((1 + 2 / 3 + 3 / 5) / 3),
        "log_loss": close(-np.log([0.9, 0.7, 0.3, 0.4, 0.4, 0.8]).mean()),
        "brier": close((0.01 + 0.09 + 0.49 + 0.36 + 0.36 + 0.04) / 6),
    }  # fmt: skip


cases = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-3, 3) | st.floats(-10, 10)), min_size=2, max_size=60
)
mixed_cases = cases.filter(lambda rows: 0 < sum(label for label, _ in rows) < len(rows))


def arrays(rows):
    return np.array([label for label, _ in rows]), np.array([score for _, score in rows], np.float64)


@given(mixed_cases, st.integers(-3, 3))
def test_any_binary_rows_give_the_figures_of_scikit_learn(rows, threshold):
    truth, scores = arrays(rows)
    assert_as_sklearn(binary_report(truth, scores, threshold), truth, scores, threshold)


@given(mixed_cases)
def test_roc_auc_counts_won_pairs_and_half_the_ties(rows):
    truth, scores = arrays(rows)
    difference = scores[truth == 1][:, None] - scores[truth == 0][None, :]
    assert roc_auc(truth, scores) == close(np.mean((difference > 0) + 0.5 * (difference == 0)))


@given(mixed_cases, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    before = binary_report(*arrays(rows), 0.0)
    random.shuffle(rows)
    assert binary_report(*arrays(rows), 0.0) == before


@given(mixed_cases)
def test_swapping_the_classes_and_the_sign_leaves_roc_auc_as_it_is(rows):
    truth, scores = arrays(rows)
    assert roc_auc(1 - truth, -scores) == close(roc_auc(truth, scores))


@given(cases, st.floats(-10, 10))
def test_every_binary_figure_is_in_its_range(rows, threshold):
    truth, scores = arrays(rows)
    report = binary_report(truth, scores, threshold)
    assert report["tp"] + report["fp"] + report["fn"] + report["tn"] == report["rows"] == len(rows)
    assert -1 <= report["mcc"] <= 1
    for key in ("precision", "recall", "f1", "accuracy", "roc_auc", "pr_auc"):
        assert report[key] is None or 0 <= report[key] <= 1


def test_a_score_equal_to_the_threshold_is_class_1():
    assert decide(np.array([0.25, 0.5, 0.75], np.float32), 0.5).tolist() == [0, 1, 1]


def test_minus_zero_and_zero_are_the_same_score():
    truth, scores = np.array([1, 0, 1, 0]), np.array([0.0, -0.0, -0.0, 0.0])
    assert roc_auc(truth, scores) == 0.5
    assert pr_auc(truth, scores) == 0.5


def test_counts_of_billions_do_not_overflow():
    assert mcc(Counts(10**12, 0, 0, 10**12)) == 1.0
    assert mcc(Counts(0, 10**12, 10**12, 0)) == -1.0
    assert mcc(Counts(3 * 10**10, 10**10, 10**10, 3 * 10**10)) == close(0.5)
    # From rows, where the product of the four sums is 2.56e22: 1/4 of each class is wrong, mcc = 3/4 - 1/4.
    truth = np.repeat(np.array([0, 1], np.int32), 400_000)
    predicted = np.repeat([0, 1, 0, 1], [300_000, 100_000, 100_000, 300_000])
    assert mcc(confusion_counts(truth, predicted)) == close(0.5)


def test_roc_auc_of_many_rows_does_not_overflow():
    """The pairs, 1e10, pass 2^32; every positive row scores above every negative one."""
    truth = np.repeat(np.array([0, 1], np.int32), 100_000)
    assert roc_auc(truth, truth.astype(np.float32)) == 1.0


def test_rates_without_a_denominator_are_0():
    assert precision_recall_f1(0, 0, 0) == (0.0, 0.0, 0.0)
    assert precision_recall_f1(0, 3, 0) == (0.0, 0.0, 0.0)
    assert mcc(Counts(0, 0, 4, 6)) == 0.0


def test_nothing_predicted_positive_is_said_once(warnings_of):
    report = binary_report(np.array([0, 1, 0]), np.array([0.1, 0.2, 0.3]), 0.5)
    assert (report["precision"], report["recall"], report["f1"], report["mcc"]) == (0, 0, 0, 0)
    assert warnings_of() == ["precision, mcc set to 0 (denominator 0): no row scores 0.5 or more"]


def test_everything_predicted_positive_leaves_only_mcc_undefined(warnings_of):
    report = binary_report(np.array([0, 1, 0]), np.array([0.7, 0.8, 0.9]), 0.5)
    assert report["precision"] == close(1 / 3)
    assert report["mcc"] == 0
    assert warnings_of() == ["mcc set to 0 (denominator 0): no row scores below 0.5"]


def test_only_negative_rows_have_no_areas(warnings_of):
    report = binary_report(np.zeros(3, np.int32), np.array([0.1, 0.2, 0.3]), 0.5)
    assert report["roc_auc"] is None and report["pr_auc"] is None
    assert (report["tn"], report["accuracy"], report["f1"]) == (3, 1.0, 0.0)
    assert warnings_of() == [
        "precision, recall, f1, mcc set to 0 (denominator 0): "
        "no row scores 0.5 or more and no row is positive",
        "roc_auc and pr_auc are undefined: all rows are of one class",
    ]


def test_only_positive_rows_have_no_areas(warnings_of):
    report = binary_report(np.ones(2, np.int32), np.array([0.1, 0.9]), 0.5)
    assert report["roc_auc"] is None and report["pr_auc"] is None
    assert (report["precision"], report["recall"], report["mcc"]) == (1.0, 0.5, 0.0)
    assert warnings_of() == [
        "mcc set to 0 (denominator 0): no row is negative",
        "roc_auc and pr_auc are undefined: all rows are of one class",
    ]


def test_a_defined_report_warns_of_nothing(warnings_of):
    binary_report(np.array([0, 1, 0, 1]), np.array([0.1, 0.2, 0.7, 0.8]), 0.5)
    multiclass_report(np.array([0, 1]), np.eye(2))
    regression_report(np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]))
    assert warnings_of() == []


@pytest.mark.timing
def test_a_million_rows_take_about_a_second():
    """About 0.3 s measured; 2 s of processor time still tells a sort from a loop over rows."""
    rng = np.random.default_rng(0)
    truth, scores = (rng.random(1_000_000) < 0.01).astype(np.int32), rng.random(1_000_000, np.float32)
    started = time.process_time()
    binary_report(truth, scores, 0.5)
    assert time.process_time() - started < 2


# -------------------------------------------------------------------------------- several classes


def assert_multiclass_as_sklearn(report, truth, scores):
    labels, predicted = range(scores.shape[1]), scores.argmax(axis=1)
    assert report["confusion"] == metrics.confusion_matrix(truth, predicted, labels=labels).tolist()
    assert report["accuracy"] == close(metrics.accuracy_score(truth, predicted))
    score = metrics.precision_recall_fscore_support
    macro = score(truth, predicted, labels=labels, average="macro", zero_division=0)[:3]
    assert [report["macro"][rate] for rate in ("precision", "recall", "f1")] == close(macro)
    per_class = score(truth, predicted, labels=labels, zero_division=0)
    for rate, expected in zip(("precision", "recall", "f1", "support"), per_class, strict=True):
        assert [row[rate] for row in report["per_class"]] == close(expected)


@pytest.mark.parametrize("rows, classes", [(1, 3), (50, 3), (1000, 10), (200, 100)])
@pytest.mark.parametrize("levels", [2, 2**20], ids=["tied", "distinct"])
def test_multiclass_figures_are_those_of_scikit_learn(rows, classes, levels):
    rng = np.random.default_rng(rows)
    truth = rng.integers(0, classes, rows).astype(np.int32)
    scores = rng.integers(0, levels, (rows, classes)).astype(np.float32)
    assert_multiclass_as_sklearn(multiclass_report(truth, scores), truth, scores)


@given(st.data(), st.integers(2, 6), st.integers(1, 30))
def test_any_multiclass_rows_give_the_figures_of_scikit_learn(data, classes, rows):
    label = st.integers(0, classes - 1)
    truth = np.array(data.draw(st.lists(label, min_size=rows, max_size=rows)))
    scores = np.eye(classes)[data.draw(st.lists(label, min_size=rows, max_size=rows))]
    report = multiclass_report(truth, scores)
    assert_multiclass_as_sklearn(report, truth, scores)
    assert sum(map(sum, report["confusion"])) == sum(row["support"] for row in report["per_class"]) == rows


def test_a_multiclass_report_worked_by_hand(warnings_of):
    """Truth a a b b, predicted a b b b; class c is neither there nor predicted, and counts 0 in the means."""
    scores = np.eye(3)[[0, 1, 1, 1]]
    report = multiclass_report(np.array([0, 0, 1, 1]), scores, ["a", "b", "c"])
    assert list(report) == ["rows", "accuracy", "macro", "confusion", "per_class", "log_loss", "brier"]
    eps = np.finfo(float).eps  # three rows are certain and right, one certain and wrong
    assert report["log_loss"] == close((-np.log(eps) - 3 * np.log(1 - eps)) / 4)
    assert report["brier"] == close(2 / 4)
    assert (report["rows"], report["accuracy"]) == (4, 0.75)
    assert report["confusion"] == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert report["per_class"] == [
        {"class": "a", "precision": 1.0, "recall": 0.5, "f1": close(2 / 3), "support": 2},
        {"class": "b", "precision": close(2 / 3), "recall": 1.0, "f1": close(4 / 5), "support": 2},
        {"class": "c", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0},
    ]
    assert report["macro"] == {
        "precision": close(5 / 9),
        "recall": close(1 / 2),
        "f1": close((2 / 3 + 4 / 5) / 3),
    }
    assert warnings_of() == [
        "set to 0 (denominator 0): precision of c (never predicted); recall of c (not in the data); f1 of c (neither)"
    ]


def test_many_absent_classes_are_counted_not_listed(warnings_of):
    multiclass_report(np.zeros(2, int), np.eye(100)[[0, 0]])
    (line,) = warnings_of()
    assert line.endswith("f1 of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 89 more (neither)")


def test_the_first_of_equal_scores_wins():
    assert decide(np.array([[0.2, 0.4, 0.4], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])).tolist() == [1, 0, 0]


def test_confusion_does_not_overflow_the_type_of_the_labels():
    truth = np.array([199, 199, 0], np.int16)  # 199 * 200 passes 2^15
    confusion = confusion_matrix(truth, np.array([199, 0, 199], np.int16), 200)
    assert (confusion[199, 199], confusion[199, 0], confusion[0, 199], confusion.sum()) == (1, 1, 1, 3)


# -------------------------------------------------------------------------------- regression


@pytest.mark.parametrize("rows, outputs", [(2, 1), (100, 1), (1000, 3), (3, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [0, 1000], ids=["centred", "far from 0"])
def test_regression_figures_are_those_of_scikit_learn(rows, outputs, dtype, shift):
    rng = np.random.default_rng(rows)
    truth = (rng.normal(size=(rows, outputs)) * np.arange(1, outputs + 1) + shift).astype(dtype)
    predicted = (truth + rng.normal(size=(rows, outputs))).astype(dtype)
    report = regression_report(truth, predicted)
    truth, predicted = truth.astype(np.float64), predicted.astype(np.float64)
    mse = metrics.mean_squared_error(truth, predicted)
    assert list(report) == ["rows", "mse", "mae", "rmse", "r2"]
    assert report["rows"] == rows
    assert report["mse"] == close(mse)
    assert report["mae"] == close(metrics.mean_absolute_error(truth, predicted))
    assert report["rmse"] == close(mse**0.5)
    assert report["r2"] == close(metrics.r2_score(truth, predicted))


def test_a_regression_report_worked_by_hand():
    """Output 0 is right (r2 1); output 1 is off by -1, 0, 3 around a mean of 2: r2 = 1 - 10/8 = -1/4."""
    truth, predicted = np.array([[1, 0], [2, 2], [3, 4]]), np.array([[1, -1], [2, 2], [3, 7]])
    expected = {"rows": 3, "mse": 10 / 6, "mae": 4 / 6, "rmse": (10 / 6) ** 0.5, "r2": (1 - 1 / 4) / 2}
    assert regression_report(truth, predicted) == {key: close(value) for key, value in expected.items()}


def test_r2_of_a_constant_truth_is_undefined(warnings_of):
    truth = np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]])  # the mean of three 0.1 is not 0.1
    report = regression_report(truth, truth + 1, ["power", "heat"])
    assert report == {"rows": 3, "mse": close(1), "mae": close(1), "rmse": close(1), "r2": None}
    assert warnings_of() == ["r2 is undefined: the true value is the same in all rows for power"]
    assert r2(truth[:, 1:], truth[:, 1:] + 1) == close(-0.5)


def test_one_row_has_no_r2(warnings_of):
    assert regression_report(np.array([[2.0]]), np.array([[3.0]]))["r2"] is None
    assert len(warnings_of()) == 1


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_squares_beyond_float64_are_undefined(size, warnings_of):
    report = regression_report(np.array([[0.0], [size]]), np.array([[size], [0.0]]))
    assert report["mae"] == size
    assert report["r2"] is None
    assert report["mse"] is None or report["mse"] == 0
    assert "float64" in warnings_of()[0]


# -------------------------------------------------------------------------------- test(net, ds)


def test_a_binary_network_is_judged_at_its_own_threshold_or_the_one_given():
    net = network("binary", column([0.1, 0.4, 0.6, 0.9]), threshold=0.3)
    ds = dataset("binary", [0, 1, 0, 1])
    own, given_ = evaluate(net, ds), evaluate(net, ds, threshold=0.75)
    assert (own["threshold"], own["tp"], own["fp"]) == (0.3, 2, 1)
    assert (given_["threshold"], given_["tp"], given_["fp"]) == (0.75, 1, 0)
    assert own["roc_auc"] == given_["roc_auc"] == 0.75


def test_scores_come_from_the_rows_of_the_data_set():
    net = network("binary", None)
    net.predict = lambda x: x[:, :1]
    ds = dataset("binary", [0, 1, 1])
    ds.x = np.array([[0.2, 9], [0.8, 9], [0.3, 9]])
    assert (evaluate(net, ds)["tp"], evaluate(net, ds)["fn"], evaluate(net, ds)["tn"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "net, ds",
    [
        (network("binary", column([0.2, 0.7])), dataset("binary", np.array([0, 0], np.int32))),
        (
            network("multiclass", np.eye(3, dtype=np.float32)),
            dataset("multiclass", np.array([0, 1, 1], np.int32)),
        ),
        (network("regression", column([1, 2])), dataset("regression", np.ones((2, 1), np.float32))),
    ],
    ids=["binary", "multiclass", "regression"],
)
def test_every_report_is_strict_json(net, ds):
    report = evaluate(net, ds)
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_classes_are_named_by_the_network_and_several_outputs_reported():
    net = network("multiclass", np.eye(3), classes=["ant", "bee", "cat"])
    report = evaluate(net, dataset("multiclass", [0, 1, 2], classes=["ant", "bee", "cat"]))
    assert [row["class"] for row in report["per_class"]] == ["ant", "bee", "cat"]
    assert report["accuracy"] == 1


def test_data_that_lack_a_class_are_matched_by_name():
    """In the data «cat» is class 1; for the network it is 2."""
    net = network("multiclass", np.eye(3)[[0, 2, 2]], classes=["ant", "bee", "cat"])
    report = evaluate(net, dataset("binary", [0, 1, 1], classes=["ant", "cat"]))
    assert report["accuracy"] == 1
    assert report["confusion"] == [[1, 0, 0], [0, 0, 0], [0, 0, 2]]


def test_data_of_one_class_are_matched_by_name():
    net = network("binary", column([0.9, 0.8]), classes=["good", "fraud"])
    report = evaluate(net, dataset("binary", [0, 0], classes=["fraud"]))
    assert (report["tp"], report["fp"]) == (2, 0)


def test_a_class_without_name_is_its_number():
    report = evaluate(network("multiclass", np.eye(3)), dataset("multiclass", [0, 1, 1], classes=["a", "b"]))
    assert [row["class"] for row in report["per_class"]] == ["0", "1", "2"]


def test_targets_may_be_one_dimensional():
    report = evaluate(network("regression", column([1, 2, 4])), dataset("regression", [1.0, 2.0, 3.0]))
    assert (report["mse"], report["r2"]) == (close(1 / 3), close(0.5))


@pytest.mark.parametrize(
    "net, ds, error, words",
    [
        (
            network("binary", column([0.1, np.nan, np.inf])),
            dataset("binary", [0, 1, 1]),
            NnError,
            "2 of 3 rows",
        ),
        (network("regression", column([np.nan])), dataset("regression", [[1.0]]), NnError, "1 of 1 rows"),
        (network("multiclass", [[0.0, np.nan]]), dataset("multiclass", [1]), NnError, "1 of 1 rows"),
        (
            network("binary", np.zeros((0, 1))),
            dataset("binary", [], path="cc.csv"),
            DataError,
            "cc.csv: found no rows",
        ),
        (network("binary", np.zeros((1, 2))), dataset("binary", [0]), UsageError, "has 2"),
        (
            network("binary", column([1])),
            dataset("multiclass", [2]),
            DataError,
            "class number 2, expected 0 to 1",
        ),
        (network("multiclass", np.eye(2)), dataset("multiclass", [0, -1]), DataError, "class number -1"),
        (
            network("binary", column([1])),
            dataset("regression", [[0.5]]),
            UsageError,
            "load them with task='binary'",
        ),
        (
            network("regression", column([1])),
            dataset("binary", [1]),
            UsageError,
            "load them with task='regression'",
        ),
        (
            network("regression", np.eye(2)),
            dataset("regression", np.eye(2)[:, :1]),
            DataError,
            "found 1 target",
        ),
        (
            network("multiclass", np.eye(2), classes=["a", "b"]),
            dataset("multiclass", [0, 1], classes=["a", "z"], path="t.csv"),
            DataError,
            "t.csv: found class 'z', expected one of the network's: a, b",
        ),
    ],
)
def test_what_cannot_be_judged_is_one_clear_line(net, ds, error, words):
    with pytest.raises(error) as caught:
        evaluate(net, ds)
    assert type(caught.value) is error
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("threshold", [np.nan, np.inf])
def test_a_threshold_that_is_not_finite_is_refused(threshold):
    with pytest.raises(UsageError, match="threshold"):
        evaluate(network("binary", column([0.5])), dataset("binary", [1]), threshold=threshold)


def test_a_threshold_for_several_classes_is_said_to_be_unused(warnings_of):
    evaluate(network("multiclass", np.eye(2)), dataset("multiclass", [0, 1]), threshold=0.3)
    assert warnings_of() == ["threshold is not used: the task is multiclass, not binary"]


# -------------------------------------------------------------------------------- probabilities


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ends", [False, True], ids=["inside", "with 0 and 1"])
def test_log_loss_and_brier_score_of_two_classes_are_those_of_scikit_learn(dtype, ends):
    """float32: scikit-learn adds up in float32, some 1e-6 of the sum."""
    rng = np.random.default_rng(0)
    truth, scores = rng.integers(0, 2, 500), rng.random(500).astype(dtype)
    if ends:
        scores[:2], scores[2:4], truth[:4] = 0, 1, [0, 1, 0, 1]
    within = close if dtype == np.float64 else lambda value: pytest.approx(value, rel=1e-5)
    assert metric("loss", "binary", truth, scores) == within(metrics.log_loss(truth, scores))
    assert metric("brier", "binary", truth, scores) == within(metrics.brier_score_loss(truth, scores))


@pytest.mark.parametrize("weighted", [False, True])
def test_log_loss_and_brier_score_of_several_classes_are_those_of_scikit_learn(weighted):
    """Class 3 is not in the data."""
    rng = np.random.default_rng(1)
    truth, scores = rng.integers(0, 3, 300), rng.dirichlet(np.ones(4), 300)
    scores[:2] = np.eye(4)[:2]
    weights = rng.random(300) if weighted else None
    known = {"labels": range(4), "sample_weight": weights}
    assert metric("loss", "multiclass", truth, scores, weights) == close(metrics.log_loss(truth, scores, **known))
    expected = metrics.brier_score_loss(truth, scores, **known)
    assert metric("brier", "multiclass", truth, scores, weights) == close(expected)


@pytest.mark.parametrize(
    "report",
    [
        lambda: binary_report(np.array([0, 1]), np.array([-0.1, 0.9]), 0.5),
        lambda: binary_report(np.array([0, 1]), np.array([0.1, 1.1]), 0.5),
        lambda: multiclass_report(np.array([0, 1]), np.array([[0.9, 0.8], [0.1, 0.9]])),
    ],
    ids=["below 0", "above 1", "sums of 1.7 and 1.0"],
)
def test_scores_that_are_no_probabilities_have_no_log_loss(report, warnings_of):
    figures = report()
    assert figures["log_loss"] is None and figures["brier"] is None and figures["accuracy"] == 1
    assert warnings_of() == ["log_loss and brier are undefined: the network's outputs are no probabilities"]


# -------------------------------------------------------------------------------- weights


def judged_rows(task, rng, rows=60):
    """Truth and scores with ties; class 3 of four is missing."""
    if task == "binary":
        return rng.integers(0, 2, rows), rng.integers(0, 11, rows) / 10
    if task == "multiclass":
        return rng.integers(0, 3, rows), rng.multinomial(10, np.ones(4) / 4, rows) / 10
    return rng.normal(size=(rows, 2)), rng.normal(size=(rows, 2))


def report_of(task, truth, scores, weights=None):
    if task == "binary":
        return binary_report(truth, scores, 0.45, weights)
    return (multiclass_report if task == "multiclass" else regression_report)(truth, scores, weights=weights)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_none(task, seed):
    """Counts and rates to the last bit; means are sums in another order, 1e-12."""
    rng = np.random.default_rng(seed)
    truth, scores = judged_rows(task, rng)
    times = rng.integers(0, 4, len(truth))
    weighted = report_of(task, truth, scores, times.astype(float))
    repeated = report_of(task, np.repeat(truth, times, axis=0), np.repeat(scores, times, axis=0))
    assert weighted.pop("weighted") is True and weighted.pop("rows") == len(truth)
    assert repeated.pop("rows") == times.sum()
    means = {"log_loss", "brier", "mse", "mae", "rmse", "r2"}
    for key, value in repeated.items():
        assert weighted[key] == (pytest.approx(value, rel=1e-12) if key in means else value), key


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_weights_of_1_change_nothing_but_say_so(task):
    truth, scores = judged_rows(task, np.random.default_rng(0))
    with_weights = report_of(task, truth, scores, np.ones(len(truth)))
    assert with_weights.pop("weighted") is True
    assert with_weights == {key: close(value) if isinstance(value, float) else value for key, value in
                            report_of(task, truth, scores).items()}  # fmt: skip


@given(mixed_cases, st.data())
def test_weighted_figures_of_two_classes_are_those_of_scikit_learn(rows, data):
    truth, scores = arrays(rows)
    weight = st.floats(0.01, 10)
    weights = np.array(data.draw(st.lists(weight, min_size=len(rows), max_size=len(rows))))
    report, known = binary_report(truth, scores, 0.0, weights), {"sample_weight": weights}
    predicted = scores >= 0
    assert report["f1"] == close(metrics.f1_score(truth, predicted, zero_division=0, **known))
    assert report["accuracy"] == close(metrics.accuracy_score(truth, predicted, **known))
    if predicted.any() and not predicted.all():  # else scikit-learn takes the root of a rounding error
        assert report["mcc"] == close(metrics.matthews_corrcoef(truth, predicted, **known))
    assert report["roc_auc"] == close(metrics.roc_auc_score(truth, scores, **known))
    assert report["pr_auc"] == close(metrics.average_precision_score(truth, scores, **known))


def test_weighted_figures_of_regression_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted, weights = rng.normal(size=(90, 3)), rng.normal(size=(90, 3)), rng.random(90)
    report, known = regression_report(truth, predicted, weights=weights), {"sample_weight": weights}
    assert report["mse"] == close(metrics.mean_squared_error(truth, predicted, **known))
    assert report["mae"] == close(metrics.mean_absolute_error(truth, predicted, **known))
    assert report["r2"] == close(metrics.r2_score(truth, predicted, **known))


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, -0.5, 1], "weights: row 1: found -0.5, expected a finite number, 0 or above"),
        ([1, 1, np.nan], "weights: row 2: found nan, expected a finite number, 0 or above"),
        ([np.inf, 1, 1], "weights: row 0: found inf, expected a finite number, 0 or above"),
        ([0, 0, 0], "weights: all weights are 0, expected at least one above 0"),
        ([1, 1], "weights: found 2 weights, expected one for each of the 3 rows"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(DataError) as error:
        checked_weights(np.array(weights), 3)
    assert str(error.value) == message


def test_the_weights_of_a_data_set_are_used_whole_or_in_blocks():
    net = network("multiclass", np.eye(3)[[0, 1, 2, 2]])
    net.predict = lambda x: np.eye(3)[x[:, 0].astype(int)]
    ds = dataset("multiclass", [0, 1, 2, 1], weights=np.array([1.0, 2, 3, 4]))
    ds.x[:, 0] = [0, 1, 2, 2]
    report = evaluate(net, ds)
    assert report["weighted"] and report["accuracy"] == 0.6 and report["rows"] == 4
    parts = [dataset("multiclass", ds.y[part], weights=ds.weights[part]) for part in (slice(0, 1), slice(1, 4))]
    parts[0].x, parts[1].x = ds.x[:1], ds.x[1:]
    assert evaluate_blocks(net, parts) == report


# -------------------------------------------------------------------------------- by name


def test_metrics_have_the_values_of_the_reports():
    rng = np.random.default_rng(3)
    names = {"loss": {"binary": "log_loss", "multiclass": "log_loss", "regression": "mse"}}
    for task in ("binary", "multiclass", "regression"):
        truth, scores = judged_rows(task, rng)
        weights = rng.random(len(truth))
        report = report_of(task, truth, scores, weights)
        report |= {"f1": report["macro"]["f1"]} if task == "multiclass" else {}
        for name in metrics_of(task):
            value = metric(name, task, truth, scores, weights, threshold=0.45)
            if (name, task) == ("mcc", "multiclass"):
                expected = metrics.matthews_corrcoef(truth, scores.argmax(axis=1), sample_weight=weights)
            else:
                expected = report[names.get(name, {}).get(task, name)]
            assert value == close(expected), (task, name)


def test_metrics_know_which_way_is_better():
    better_when_lower = {name for name, known in METRICS.items() if not known.higher_is_better}
    assert better_when_lower == {"loss", "brier", "rmse", "mae"}
    assert METRICS["loss"].improves(0.1, 0.2) and not METRICS["loss"].improves(0.2, 0.2)
    assert METRICS["f1"].improves(0.2, 0.1) and not METRICS["f1"].improves(None, 0.1)
    assert METRICS["f1"].improves(0.0, None)


def test_a_perfect_prediction_has_the_best_value():
    truth, best = np.array([0, 1, 2, 1]), {True: 1, False: 0}
    of = {
        "binary": (truth % 2, truth % 2 * 1.0),
        "multiclass": (truth, np.eye(3)[truth]),
        "regression": (truth * 1.0, truth * 1.0),
    }
    for task, (y, scores) in of.items():
        for name in metrics_of(task):
            assert metric(name, task, y, scores) == pytest.approx(best[METRICS[name].higher_is_better], abs=1e-15)


def test_a_metric_that_does_not_fit_is_refused_with_those_that_do():
    with pytest.raises(UsageError) as error:
        metric("pr_auc", "regression", np.zeros(2), np.zeros(2))
    message = "--monitor pr_auc: does not fit a regression task; choose from loss, rmse, mae, r2"
    assert str(error.value) == message
    with pytest.raises(UsageError, match="--monitor auc: unknown; choose from loss, pr_auc, roc_auc, f1"):
        metric("auc", "binary", np.zeros(2), np.zeros(2))
