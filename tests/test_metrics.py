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

from nn.test import (
    Counts,
    binary_report,
    confusion_counts,
    confusion_matrix,
    decide,
    mcc,
    multiclass_report,
    pr_auc,
    precision_recall_f1,
    r2,
    regression_report,
    roc_auc,
)
from nn.test import test as evaluate  # under another name, pytest would collect it
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
        found = [record.getMessage() for record in caplog.records if record.name == "nn"]
        assert all("\n" not in message for message in found)
        return found

    return messages


# -------------------------------------------------------------------------------- two classes

BINARY_KEYS = "rows threshold tp fp fn tn precision recall f1 accuracy mcc roc_auc pr_auc"


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
    """
    scores, truth = np.array([0.9, 0.7, 0.7, 0.6, 0.4, 0.2]), np.array([1, 1, 0, 0, 1, 0])
    report = binary_report(truth, scores, 0.65)
    assert " ".join(report) == BINARY_KEYS
    assert report == {
        "rows": 6, "threshold": 0.65, "tp": 2, "fp": 1, "fn": 1, "tn": 2,
        "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "accuracy": 4 / 6, "mcc": close(1 / 3),
        "roc_auc": close(6.5 / 9), "pr_auc": close((1 + 2 / 3 + 3 / 5) / 3),
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
    assert list(report) == ["rows", "accuracy", "macro", "confusion", "per_class"]
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
        "precision set to 0 (denominator 0) for classes never predicted: c",
        "recall set to 0 (denominator 0) for classes not in the data: c",
        "f1 set to 0 (denominator 0) for classes neither predicted nor in the data: c",
    ]


def test_many_absent_classes_are_counted_not_listed(warnings_of):
    multiclass_report(np.zeros(2, int), np.eye(100)[[0, 0]])
    assert warnings_of()[0].endswith(": 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 89 more")


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
