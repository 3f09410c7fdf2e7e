"""The figures of `nn --test` against scikit-learn, by hand, and where they are
undefined.

1e-12: both sides are ratios of exact counts or sums of at most a few thousand float64
terms, so only the last bits may differ.
"""

import inspect

import numpy as np
import pytest
from sklearn import metrics
from support.figures import close, dataset, judged_rows, network, report_of

from nn.core.metrics import (
    _FORMULAS,
    Judged,
    checked_weights,
    confusion_matrix,
    decide,
    metric,
    metrics_of,
    r2,
)
from nn.nn_aux import METRICS
from nn.test import multiclass_report, regression_report
from nn.test import test as evaluate  # under another name, pytest would collect it
from nn.train.options import Monitor
from nn.utils import DataError, UsageError


@pytest.mark.parametrize(
    "rows, classes", [(1, 3), (2, 2), (9, 6), (50, 3), (1000, 10), (200, 100)]
)
@pytest.mark.parametrize("levels", [2, 2**20], ids=["tied", "distinct"])
def test_multiclass_figures_are_those_of_scikit_learn(rows, classes, levels):
    rng = np.random.default_rng(rows)
    truth = rng.integers(0, classes, rows).astype(np.int32)
    draws = rng.integers(0, levels, (rows, classes))
    scores = draws.astype(np.float32)
    report = multiclass_report(truth, scores)
    labels = range(classes)
    predicted = scores.argmax(axis=1)
    confusion = metrics.confusion_matrix(truth, predicted, labels=labels)
    assert report["confusion"] == confusion.tolist()
    assert report["accuracy"] == close(metrics.accuracy_score(truth, predicted))
    score = metrics.precision_recall_fscore_support
    # of those present
    macro = score(truth, predicted, average="macro", zero_division=0)[:3]
    assert [report["macro"][rate] for rate in ("precision", "recall", "f1")] == close(
        macro
    )
    per_class = score(truth, predicted, labels=labels, zero_division=0)
    for rate, expected in zip(
        ("precision", "recall", "f1", "support"), per_class, strict=True
    ):
        assert [row[rate] for row in report["per_class"]] == close(expected)
    total = sum(row["support"] for row in report["per_class"])
    assert sum(map(sum, report["confusion"])) == total == len(truth)


def test_a_multiclass_report_worked_by_hand(warnings_of):
    """Truth a a b b, predicted a b b b; class c is neither there nor predicted, and
    counts 0 in the means."""
    scores = np.eye(3)[[0, 1, 1, 1]]
    truth = np.array([0, 0, 1, 1])
    report = multiclass_report(truth, scores, ["a", "b", "c"])
    assert list(report) == [
        "rows",
        "accuracy",
        "macro",
        "confusion",
        "per_class",
        "mcc",
        "log_loss",
        "brier",
    ]
    eps = np.finfo(float).eps  # three rows are certain and right, one certain and wrong
    logarithms = np.log(1 - eps)
    expected = (-np.log(eps) - 3 * logarithms) / 4
    assert report["log_loss"] == close(expected)
    assert report["brier"] == close(2 / 4)
    assert report["rows"] == 4
    assert report["accuracy"] == 0.75
    expected = [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert report["confusion"] == expected
    expected = [
        {
            "class": "a",
            "precision": 1.0,
            "recall": 0.5,
            "f1": close(2 / 3),
            "support": 2,
        },
        {
            "class": "b",
            "precision": close(2 / 3),
            "recall": 1.0,
            "f1": close(4 / 5),
            "support": 2,
        },
        {"class": "c", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0},
    ]
    assert report["per_class"] == expected
    expected = {
        "precision": close(5 / 6),
        "recall": close(3 / 4),
        "f1": close((2 / 3 + 4 / 5) / 2),
    }
    assert report["macro"] == expected
    assert warnings_of() == [
        "set to 0 (denominator 0): precision of c (never predicted); recall of c (not in the data); f1 of c (neither)"
    ]
    # many absent classes are counted, not listed
    identity = np.eye(100)[[0, 0]]
    multiclass_report(np.zeros(2, int), identity)
    assert warnings_of()[1].endswith(
        "f1 of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 89 more (neither)"
    )


def test_the_first_of_equal_scores_wins_and_a_score_at_the_threshold_is_class_1():
    assert decide(
        np.array([[0.2, 0.4, 0.4], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    ).tolist() == [1, 0, 0]
    assert decide(np.array([0.25, 0.5, 0.75], np.float32), 0.5).tolist() == [0, 1, 1]


def test_confusion_does_not_overflow_the_type_of_the_labels():
    truth = np.array([199, 199, 0], np.int16)  # 199 * 200 passes 2^15
    predicted = np.array([199, 0, 199], np.int16)
    confusion = confusion_matrix(truth, predicted, 200)
    assert confusion[199, 199] == 1
    assert confusion[199, 0] == 1
    assert confusion[0, 199] == 1
    assert confusion.sum() == 3


@pytest.mark.parametrize("rows, outputs", [(2, 1), (100, 1), (1000, 3), (3, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [0, 1000], ids=["centred", "far from 0"])
@pytest.mark.parametrize("weighted", [False, True])
def test_regression_figures_are_those_of_scikit_learn(
    rows, outputs, dtype, shift, weighted
):
    rng = np.random.default_rng(rows)
    draws = rng.normal(size=(rows, outputs))
    indices = np.arange(1, outputs + 1)
    truth = (draws * indices + shift).astype(dtype)
    draws = rng.normal(size=(rows, outputs))
    predicted = (truth + draws).astype(dtype)
    if weighted:
        weights = rng.random(rows)
    else:
        weights = None
    report = regression_report(truth, predicted, weights=weights)
    truth = truth.astype(np.float64)
    predicted = predicted.astype(np.float64)
    mse = metrics.mean_squared_error(truth, predicted, sample_weight=weights)
    mae = metrics.mean_absolute_error(truth, predicted, sample_weight=weights)
    r2 = metrics.r2_score(truth, predicted, sample_weight=weights)
    expected = ["rows", *(["weighted"] if weighted else []), "mse", "mae", "rmse", "r2"]
    assert list(report) == expected
    expected = [rows, mse, mae, mse**0.5, r2]
    assert [report[name] for name in ("rows", "mse", "mae", "rmse", "r2")] == close(
        expected
    )


@pytest.mark.parametrize("weight", [1, 3])
@pytest.mark.parametrize("output", [0, 1])
def test_a_row_with_much_of_the_squared_error_is_named(warnings_of, weight, output):
    truth = np.zeros((40, 2))
    predicted = np.full((40, 2), 0.5)
    truth[7, output] = 10.0
    predicted[7, output] = 8.0
    truth[3] = [np.nan, 0.0]
    weights = np.ones(40, int)
    weights[7] = weight
    regression_report(truth, predicted, weights=weights)
    # 38 rows miss both targets by a half, row 3 the one that it has
    of_row = weight * (4 + 1 / 4)
    share = of_row / (38 / 2 + 1 / 4 + of_row)
    message = f"one of 40 rows makes {100 * share:.0f} % of the squared error (true 10, predicted 8)"
    assert message in warnings_of()[-1]


def test_an_even_error_and_few_rows_are_not_remarked_on(warnings_of):
    truth = np.arange(40.0)[:, None]
    regression_report(truth, truth + 0.5)
    # of ten equal errors none is more than a tenth
    regression_report(truth, truth + (truth < 10))
    predicted = truth[:29] + truth[:29] ** 4
    regression_report(truth[:29], predicted)
    assert warnings_of() == []
    regression_report(truth[:30], truth[:30] + truth[:30] ** 4)
    regression_report(truth, truth + (truth < 9))
    of_which = ["one of 30 rows makes", "one of 40 rows makes 11 %"]
    for told, start in zip(warnings_of(), of_which, strict=True):
        assert told.startswith(start)


def test_a_regression_report_worked_by_hand():
    """Output 0 is right (r2 1); output 1 is off by -1, 0, 3 around a mean of 2: r2 = 1
    - 10/8 = -1/4."""
    truth = np.array([[1, 0], [2, 2], [3, 4]])
    predicted = np.array([[1, -1], [2, 2], [3, 7]])
    expected = {
        "rows": 3,
        "mse": 10 / 6,
        "mae": 4 / 6,
        "rmse": (10 / 6) ** 0.5,
        "r2": (1 - 1 / 4) / 2,
    }
    assert regression_report(truth, predicted) == {
        key: close(value) for key, value in expected.items()
    }


def test_r2_of_a_constant_truth_is_undefined(warnings_of):
    # the mean of three 0.1 is not 0.1
    truth = np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]])
    report = regression_report(truth, truth + 1, ["power", "heat"])
    expected = {
        "rows": 3,
        "mse": close(1),
        "mae": close(1),
        "rmse": close(1),
        "r2": None,
    }
    assert report == expected
    assert warnings_of() == [
        "r2 is undefined: the true value is the same in all rows for power"
    ]
    predicted = truth[:, 1:] + 1
    assert r2(truth[:, 1:], predicted) == close(-0.5)
    predicted = truth[1:2, 1:]
    assert regression_report(truth[:1, 1:], predicted)["r2"] is None  # one row


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_squares_beyond_float64_are_undefined(size, warnings_of):
    truth = np.array([[0.0], [size]])
    predicted = np.array([[size], [0.0]])
    report = regression_report(truth, predicted)
    assert report["mae"] == size
    assert report["r2"] is None
    assert report["mse"] in (None, 0)
    assert "float64" in warnings_of()[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ends", [False, True], ids=["inside", "with 0 and 1"])
def test_log_loss_and_brier_score_of_two_classes_are_those_of_scikit_learn(dtype, ends):
    """float32: scikit-learn adds up in float32, some 1e-6 of the sum."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    scores = rng.random(500).astype(dtype)
    if ends:
        scores[:2] = 0
        scores[2:4] = 1
        truth[:4] = [0, 1, 0, 1]
    if dtype == np.float64:
        within = close
    else:

        def within(value):
            return pytest.approx(value, rel=1e-5)

    figure = metric("loss", "binary", truth, scores)
    assert figure == within(metrics.log_loss(truth, scores))
    figure = metric("brier", "binary", truth, scores)
    assert figure == within(metrics.brier_score_loss(truth, scores))


@pytest.mark.parametrize("weighted", [False, True])
def test_log_loss_and_brier_score_of_several_classes_are_those_of_scikit_learn(
    weighted,
):
    """Class 3 is not in the data."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 300)
    scores = rng.dirichlet(np.ones(4), 300)
    scores[:2] = np.eye(4)[:2]
    if weighted:
        weights = rng.random(300)
    else:
        weights = None
    keywords = {"labels": range(4), "sample_weight": weights}
    figure = metric("loss", "multiclass", truth, scores, weights)
    assert figure == close(metrics.log_loss(truth, scores, **keywords))
    if "labels" not in inspect.signature(metrics.brier_score_loss).parameters:
        pytest.skip(
            "scikit-learn judges the Brier score of several classes from 1.7 on"
        )
    expected = metrics.brier_score_loss(truth, scores, **keywords)
    assert metric("brier", "multiclass", truth, scores, weights) == close(expected)


@pytest.mark.parametrize(
    "scores",
    [[-0.1, 0.9], [0.1, 1.1], [[0.9, 0.8], [0.1, 0.9]]],
    ids=["below 0", "above 1", "sums of 1.7 and 1.0"],
)
def test_scores_that_are_no_probabilities_have_no_log_loss(scores, warnings_of):
    truth = np.array([0, 1])
    figures = report_of(
        "binary" if np.ndim(scores) == 1 else "multiclass", truth, np.array(scores)
    )
    assert figures["log_loss"] is None
    assert figures["brier"] is None
    assert figures["accuracy"] == 1
    assert warnings_of() == [
        "log_loss and brier are undefined: the network's outputs are no probabilities"
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_none(task, seed):
    """Counts and rates to the last bit; means are sums in another order, 1e-12."""
    rng = np.random.default_rng(seed)
    truth, scores = judged_rows(task, rng)
    times = rng.integers(0, 4, len(truth))
    weights = times.astype(float)
    weighted = report_of(task, truth, scores, weights)
    repeated = report_of(
        task, np.repeat(truth, times, axis=0), np.repeat(scores, times, axis=0)
    )
    assert weighted.pop("weighted") is True
    assert weighted.pop("rows") == len(truth)
    assert repeated.pop("rows") == times.sum()
    means = {"log_loss", "brier", "mse", "mae", "rmse", "r2"}
    for key, value in repeated.items():
        assert weighted[key] == (
            pytest.approx(value, rel=1e-12) if key in means else value
        ), key


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, -0.5, 1], "row 1: found -0.5, expected a finite number, 0 or above"),
        ([1, 1, np.nan], "row 2: found nan, expected a finite number, 0 or above"),
        ([np.inf, 1, 1], "row 0: found inf, expected a finite number, 0 or above"),
        ([0, 0, 0], "all weights are 0, expected at least one above 0"),
        ([1, 1], "found 2 weights, expected one for each of the 3 rows"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(DataError, match=f"^weights: {message}$"):
        checked_weights(np.array(weights), 3)


def test_the_weights_of_a_data_set_are_used_whole_or_in_blocks():
    identity = np.eye(3)[[0, 1, 2, 2]]
    net = network("multiclass", identity)
    net.predict = lambda x: np.eye(3)[x[:, 0].astype(int)]
    weights = np.array([1.0, 2, 3, 4])
    ds = dataset("multiclass", [0, 1, 2, 1], weights=weights)
    ds.x[:, 0] = [0, 1, 2, 2]
    report = evaluate(net, ds)
    assert report["weighted"]
    assert report["accuracy"] == 0.6
    assert report["rows"] == 4


def test_metrics_have_the_values_of_the_reports():
    rng = np.random.default_rng(3)
    names = {
        "loss": {"binary": "log_loss", "multiclass": "log_loss", "regression": "mse"}
    }
    for task in ("binary", "multiclass", "regression"):
        truth, scores = judged_rows(task, rng)
        weights = rng.random(len(truth))
        report = report_of(task, truth, scores, weights)
        report |= report.get("macro", {})
        for name in metrics_of(task):
            value = metric(name, task, truth, scores, weights, threshold=0.45)
            expected = report[names.get(name, {}).get(task, name)]
            assert value == close(expected), (task, name)
            if (name, task) == ("mcc", "multiclass"):
                expected = metrics.matthews_corrcoef(
                    truth, scores.argmax(axis=1), sample_weight=weights
                )
                assert value == close(expected)


def test_metrics_know_which_way_is_better_and_have_a_formula_for_each_of_their_tasks():
    better_when_lower = {
        name for name, known in METRICS.items() if not known.higher_is_better
    }
    assert better_when_lower == {
        "loss",
        "log_loss",
        "brier",
        "mse",
        "rmse",
        "mae",
        "persistence_rmse",
        "deviance",
        "pinball",
        "huber",
        "hamming_loss",
    }
    assert Monitor("loss").is_better(0.1, 0.2)
    assert not Monitor("loss").is_better(0.2, 0.2)
    assert Monitor("f1").is_better(0.2, 0.1)
    assert not Monitor("f1").is_better(float("nan"), 0.1)
    asked = {(of, name) for name, known in METRICS.items() for of in known.of.values()}
    assert asked == {*_FORMULAS}, "and no formula is left over"


def test_a_perfect_prediction_has_the_best_value():
    truth = np.array([0, 1, 2, 1])
    best = {True: 1, False: 0}
    binary = (truth % 2, truth % 2 * 1.0)
    several = (truth, np.eye(3)[truth])
    numbers = (truth * 1.0, truth * 1.0)
    for task, (y, scores) in {
        "binary": binary,
        "multiclass": several,
        "regression": numbers,
    }.items():
        for name in metrics_of(task):
            figure = metric(name, task, y, scores)
            expected = best[METRICS[name].higher_is_better]
            assert figure == pytest.approx(expected, abs=1e-15)


def test_a_metric_that_does_not_fit_is_refused_with_those_that_do():
    for name, task, message in (
        (
            "pr_auc",
            "regression",
            "does not fit a regression task; choose from loss, mse, mae, rmse, r2$",
        ),
        ("auc", "binary", "unknown; choose from loss, precision, recall, f1"),
    ):
        with pytest.raises(UsageError, match=f"^--monitor {name}: {message}"):
            metric(name, task, np.zeros(2), np.zeros(2))


def test_macro_figures_leave_out_a_class_that_is_neither_there_nor_predicted():
    truth = np.array([0, 0, 1, 1, 1, 0])
    scores = np.array(
        [
            [0.9, 0.1, 0],
            [0.6, 0.4, 0],
            [0.2, 0.8, 0],
            [0.3, 0.7, 0],
            [0.8, 0.2, 0],
            [0.4, 0.6, 0],
        ]
    )
    report = multiclass_report(truth, scores, ["a", "b", "never"])
    usual = metrics.precision_recall_fscore_support(
        truth, scores.argmax(axis=1), average="macro", zero_division=0
    )[:3]
    assert [report["macro"][rate] for rate in ("precision", "recall", "f1")] == close(
        usual
    )
    f1s = [row["f1"] for row in report["per_class"]]
    assert f1s == close([2 / 3, 2 / 3, 0])
    predicted = scores.copy()
    predicted[0] = 0, 0, 1
    recall = multiclass_report(truth, predicted)["macro"]["recall"]
    expected = (1 / 3 + 2 / 3 + 0) / 3
    assert recall == close(expected), "it is predicted"
    weights = np.array([1, 1, 1, 1, 1, 0])
    indices = np.arange(6)[:, None]
    third = np.where(indices == 5, [0.0, 0.0, 1.0], scores)
    macro = multiclass_report(truth, third, weights=weights)["macro"]
    f1 = macro["f1"]
    expected = (4 / 5 + 4 / 5) / 2
    assert f1 == close(expected), "of weight 0"


def report_of_targets(truth, predicted, targets=None) -> dict:
    return evaluate(
        network("regression", predicted), dataset("regression", truth, targets=targets)
    )


def test_figures_of_several_targets_are_told_by_target_too():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(200, 2)) * [1, 10]
    draws = rng.normal(size=(200, 2))
    predicted = truth + draws * [0.1, 9.5]
    report = report_of_targets(truth, predicted, ["good", "bad"])
    targets = [row["target"] for row in report["per_target"]]
    assert targets == ["good", "bad"]
    for number, row in enumerate(report["per_target"]):
        alone = regression_report(
            truth[:, number : number + 1], predicted[:, number : number + 1]
        )
        expected = [*alone.values()][1:]
        assert [row[name] for name in ("mse", "mae", "rmse", "r2")] == close(expected)
    r2s = [row["r2"] for row in report["per_target"]]
    expected = np.mean(r2s)
    assert report["r2"] == close(expected)
    truth[:, 1] = 7
    constant = report_of_targets(truth, predicted)
    assert constant["r2"] is None
    assert constant["per_target"][1]["r2"] is None
    assert constant["per_target"][0]["r2"] > 0.9
    targets = [row["target"] for row in constant["per_target"]]
    assert targets == ["0", "1"]
    assert "per_target" not in report_of_targets(truth[:, :1], predicted[:, :1])


def test_metrics_of_several_targets_are_those_of_scikit_learn():
    """Means over targets, and figures of rows and of all targets together."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, size=(80, 3))
    scores = np.clip(truth * 0.3 + rng.uniform(size=truth.shape) * 0.7, 0, 1).round(2)
    picked = scores >= 0.5
    weights = rng.integers(0, 4, size=80)
    for given in (None, weights):
        judged = Judged("multilabel", truth, scores)
        values = judged.values(checked_weights(given, 80))
        sure = {"sample_weight": given, "average": "macro", "zero_division": 0}
        expected = {
            "precision": metrics.precision_score(truth, picked, **sure),
            "recall": metrics.recall_score(truth, picked, **sure),
            "f1": metrics.f1_score(truth, picked, **sure),
            "micro_f1": metrics.f1_score(truth, picked, **sure | {"average": "micro"}),
            "accuracy": metrics.accuracy_score(truth, picked, sample_weight=given),
            "hamming_loss": metrics.hamming_loss(truth, picked, sample_weight=given),
            "roc_auc": metrics.roc_auc_score(truth, scores, sample_weight=given),
            "pr_auc": metrics.average_precision_score(
                truth, scores, sample_weight=given
            ),
            "log_loss": np.mean(
                [
                    metrics.log_loss(of_target, p, sample_weight=given)
                    for of_target, p in zip(truth.T, scores.T, strict=True)
                ]
            ),
        }
        for name, value in expected.items():
            assert values[name] == pytest.approx(value, rel=1e-12), name
        assert values.keys() == {*expected, "mcc", "brier"}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("by_fold", [False, True])
def test_a_target_that_rows_lack_is_judged_by_the_others(weighted, by_fold):
    """Each target by its own rows, weights, thresholds and folds; the last has one
    class, and no area."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, size=(90, 4)).astype(float)
    truth[:, 3] = 0
    truth[rng.uniform(size=truth.shape) < 0.3] = np.nan
    scores = np.clip(0.3 * np.nan_to_num(truth) + 0.6 * rng.random((90, 4)), 0, 1)
    scores = scores.round(2)
    cuts = np.array([0.3, 0.4, 0.5, 0.45])
    weights = rng.integers(0, 4, 90) if weighted else None
    folds = rng.integers(0, 3, 90) if by_fold else None
    judged = Judged("multilabel", truth, scores, cuts, folds=folds)
    values = judged.values(weights)

    def of(values, known):
        return None if values is None else values[known]

    known = ~np.isnan(truth)
    alone = [
        Judged("binary", truth[k, n], scores[k, n], cuts[n], folds=of(folds, k)).values(
            of(weights, k)
        )
        for n, k in enumerate(known.T)
    ]
    for name in ("precision", "recall", "f1", "mcc", "roc_auc", "pr_auc", "log_loss"):
        each = [one[name] for one in alone if one[name] is not None]
        assert len(each) == (3 if name in ("roc_auc", "pr_auc") else 4)
        assert values[name] == pytest.approx(np.mean(each), rel=1e-12), name
    each_weight = np.ones(90) if weights is None else weights
    is_right = ((scores >= cuts) == (truth == 1)) | ~known
    accuracy = np.average(is_right.all(axis=1), weights=each_weight)
    assert values["accuracy"] == pytest.approx(accuracy, rel=1e-12)
    flat = truth[known], (scores >= cuts)[known]
    of_flat = {"sample_weight": np.repeat(each_weight[:, None], 4, axis=1)[known]}
    wrong = metrics.zero_one_loss(*flat, **of_flat)
    assert values["hamming_loss"] == pytest.approx(wrong, rel=1e-12)
    assert values["micro_f1"] == pytest.approx(metrics.f1_score(*flat, **of_flat))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["mse", "quantile=0.3", "poisson", "tweedie=1.4"])
def test_numbers_that_rows_lack_are_judged_by_the_others(weighted, loss):
    rng = np.random.default_rng(6)
    truth = rng.poisson(2, size=(80, 3)).astype(float)
    predicted = rng.uniform(0.5, 4, size=truth.shape)
    truth[rng.uniform(size=truth.shape) < 0.3] = np.nan
    weights = rng.integers(0, 4, 80) if weighted else None
    values = Judged("regression", truth, predicted, loss=loss).values(weights)
    known = ~np.isnan(truth)
    each_weight = np.ones(80) if weights is None else weights
    of_all = np.repeat(each_weight[:, None], 3, axis=1)
    flat = {
        "y_true": truth[known],
        "y_pred": predicted[known],
        "sample_weight": of_all[known],
    }
    assert values["mse"] == close(metrics.mean_squared_error(**flat))
    assert values["mae"] == close(metrics.mean_absolute_error(**flat))
    assert values["rmse"] == close(metrics.mean_squared_error(**flat) ** 0.5)
    if loss == "quantile=0.3":
        pinball = metrics.mean_pinball_loss(**flat, alpha=0.3)
        assert values["pinball"] == close(pinball)
    power = {"poisson": 1, "tweedie=1.4": 1.4}.get(loss)
    if power:
        deviance = metrics.mean_tweedie_deviance(**flat, power=power)
        assert values["deviance"] == close(deviance)
    each = [
        metrics.r2_score(truth[k, n], predicted[k, n], sample_weight=each_weight[k])
        for n, k in enumerate(known.T)
    ]
    assert values["r2"] == close(np.mean(each))


def test_a_target_of_one_class_has_no_area_and_is_not_in_the_mean():
    truth = np.array([[0, 1], [0, 0], [0, 1]])
    scores = np.array([[0.1, 0.8], [0.2, 0.3], [0.1, 0.2]])
    values = Judged("multilabel", truth, scores).values()
    assert values["roc_auc"] == 0.5
    assert Judged("multilabel", truth[:, :1], scores[:, :1]).values()["roc_auc"] is None
