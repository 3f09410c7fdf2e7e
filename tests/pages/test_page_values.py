"""Every number of a model's page, computed another way: curves read back from their
paths, tables by loops."""

import base64
import json
import os
import re
import shlex
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics
from support.command_line import succeed
from support.figures import placements_by_hand
from support.pages import Drawing, named, texts

import nn
from nn.core.thresholds import tempered
from nn.nn.crossed import Crossed
from nn.pages import model_page, page, task_blocks
from nn.pages.chart import Axis, Line, Plot, Scale
from nn.pages.page import Table
from nn.test import binary_report, multiclass_report, regression_report
from nn.test.drift import ColumnDrift
from nn.test.errors import groups_that_err, ranges, row_losses
from nn.test.importance import importance
from nn.test.out_of_fold import out_of_fold
from nn.test.reports import multilabel_report
from nn.test.sureness import Held

NEAR = 1.5e-3  # of an axis: paths have tenths of a unit, of some hundred
TWO = nn.Network("2,1", "binary")
TWO.classes = ["ok", "fraud"]


def two_classes(weighted: bool, rows: int = 240):
    """Truth, scores with ties on the borders of tenths, and weights."""
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 21, rows) / 20
    truth = (rng.random(rows) < 0.1 + 0.7 * scores).astype(int)
    return truth, scores, rng.integers(1, 8, rows) / 4 if weighted else None


def blocks_of(truth, scores, threshold, weights=None):
    """Return (result, blocks) of two classes."""
    result = binary_report(truth, scores, threshold, weights)
    return result, task_blocks.two_class_blocks(
        TWO, result, truth, scores[:, None], weights
    )


def pictures_of(blocks) -> dict:
    return named(block for block in blocks if isinstance(block, Plot))


def tables_of(blocks) -> dict:
    return {block.caption: block for block in blocks if isinstance(block, Table)}


def area(points) -> float:
    x, y = points.T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_drawn_roc_curve_is_that_of_scikit_learn(weighted):
    truth, scores, weights = two_classes(weighted)
    _result, blocks = blocks_of(truth, scores, 0.45, weights)
    picture = pictures_of(blocks)["roc"]
    drawn = Drawing(picture).points("l s0")
    false_alarms, recall, _ = metrics.roc_curve(
        truth, scores, sample_weight=weights, drop_intermediate=False
    )
    expected = np.column_stack([false_alarms, recall])
    assert np.allclose(drawn, expected, atol=NEAR)
    true_area = metrics.roc_auc_score(truth, scores, sample_weight=weights)
    assert area(drawn) == pytest.approx(true_area, abs=NEAR)
    assert f"area {true_area:.4f}" in texts(picture.svg())
    if weights is None:
        w = np.ones(len(truth))
    else:
        w = weights
    alarms = scores >= 0.45
    mark = []
    for label in (0, 1):
        is_of_class = truth == label
        mark.append(w[alarms & is_of_class].sum() / w[is_of_class].sum())
    points = Drawing(picture).points("mark s1")
    assert np.allclose(points, [mark], atol=NEAR)
    expected = [[0, 0], [1, 1]]
    points = Drawing(picture).points("r")
    assert np.allclose(points, expected, atol=NEAR)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_drawn_precision_and_recall_have_the_average_precision_below_them(weighted):
    truth, scores, weights = two_classes(weighted)
    _result, blocks = blocks_of(truth, scores, 0.45, weights)
    picture = pictures_of(blocks)["precision-recall"]
    drawn = Drawing(picture).points("l s0")
    precision, recall, _ = metrics.precision_recall_curve(
        truth, scores, sample_weight=weights
    )
    expected = recall[:-1][::-1]
    assert np.allclose(drawn[2::2, 0], expected, atol=NEAR)
    expected = precision[:-1][::-1]
    assert np.allclose(drawn[1::2, 1], expected, atol=NEAR)
    expected = [0, precision[-2]]
    assert drawn[0] == pytest.approx(expected, abs=NEAR)
    true_area = metrics.average_precision_score(truth, scores, sample_weight=weights)
    assert area(drawn) == pytest.approx(true_area, abs=NEAR)
    if weights is None:
        w = np.ones(len(truth))
    else:
        w = weights
    share = w[truth == 1].sum() / w.sum()
    assert {f"area {true_area:.4f}", f"by chance {share:.3g}"} <= {
        *texts(picture.svg())
    }
    expected = [[0, share], [1, share]]
    points = Drawing(picture).points("r")
    assert np.allclose(points, expected, atol=NEAR)
    alarms = scores >= 0.45
    hits = w[alarms & (truth == 1)].sum()
    mark = [hits / w[truth == 1].sum(), hits / w[alarms].sum()]
    points = Drawing(picture).points("mark s1")
    assert np.allclose(points, [mark], atol=NEAR)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_drawn_calibration_is_that_of_a_loop_over_tenths_of_ten_rows_at_least(
    weighted,
):
    counts = [10, 9, 30, 12, 25, 0, 11, 40, 10, 60]
    rng = np.random.default_rng(5)
    twentieths = np.concatenate(
        [rng.integers(2 * k, 2 * k + 2, count) for k, count in enumerate(counts)]
    )
    twentieths[-4:] = 20  # a score of 1 is of the last tenth
    scores = twentieths / 20
    truth = (rng.random(len(scores)) < scores**2).astype(int)
    if weighted:
        weights = rng.integers(1, 9, len(scores)) / 4
    else:
        weights = np.ones(len(scores))
    _result, blocks = blocks_of(truth, scores, 0.5, weights if weighted else None)
    expected = []
    for tenth in range(10):
        members = []
        for k in range(len(scores)):
            if min(twentieths[k] // 2, 9) == tenth:
                members.append(k)
        if len(members) >= 10:
            total = sum(weights[k] for k in members)
            mean = sum(weights[k] * scores[k] for k in members) / total
            expected.append(
                [mean, sum(weights[k] for k in members if truth[k]) / total]
            )
    picture = pictures_of(blocks)["calibration"]
    assert len(expected) == 8
    points = Drawing(picture).points("l s0")
    assert np.allclose(points, expected, atol=NEAR)
    points = Drawing(picture).points("r")
    assert np.allclose(points, [[0, 0], [1, 1]], atol=NEAR)
    brier = np.average((scores - truth) ** 2, weights=weights)
    assert picture.title == f"Calibration (Brier score {brier:.4g})"
    assert picture.x.label == "score of class fraud"


def test_a_tenth_without_weight_and_one_of_few_rows_of_a_small_table():
    scores = np.array([0.05, 0.25, 0.25, 0.95])
    truth = np.array([0, 1, 0, 1])
    weights = np.array([0.0, 3.0, 1.0, 2.0])
    blocks = blocks_of(truth, scores, 0.5, weights)[1]
    line = pictures_of(blocks)["calibration"].lines[0]
    assert line.x == pytest.approx([0.25, 0.95])
    assert line.y == pytest.approx([0.75, 1.0])


@pytest.mark.parametrize("classes", [3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_calibration_of_several_classes_is_of_the_predicted_class(
    classes, weighted
):
    rng = np.random.default_rng(classes)
    truth = rng.integers(0, classes, 300)
    scores = (
        rng.multinomial(20, np.ones(classes) / classes, 300) / 20
        + 1e-9 * np.arange(classes)[::-1]
    )
    if weighted:
        weights = rng.integers(1, 9, 300) / 4
    else:
        weights = None
    result = multiclass_report(truth, scores, weights=weights)
    blocks = task_blocks.class_blocks(TWO, result, truth, scores, weights)
    if weights is None:
        w = np.ones(300)
    else:
        w = weights
    sure = [max(row) for row in scores]
    is_right = []
    for row, label in zip(scores, truth, strict=True):
        is_right.append(int(np.argmax(row) == label))
    expected = []
    for tenth in range(10):
        members = []
        for k in range(300):
            if min(int(10 * sure[k]), 9) == tenth:
                members.append(k)
        if len(members) >= 10:
            total = sum(w[members])
            score = sum(w[k] * sure[k] for k in members) / total
            rate = sum(w[k] * is_right[k] for k in members) / total
            expected.append([score, rate])
    drawing = Drawing(pictures_of(blocks)["calibration"])
    assert np.allclose(drawing.points("l s0"), expected, atol=NEAR)
    tables = tables_of(blocks)
    counts = metrics.confusion_matrix(
        truth, scores.argmax(axis=1), sample_weight=weights
    )
    heat = next(
        table
        for caption, table in tables.items()
        if caption.startswith("rows of each true class")
    )
    if weighted:

        def written(v):
            return f"{v:.1f}"

    else:
        written = str
    rows = []
    for a, row in enumerate(counts):
        rows.append([str(a), *(written(v) if v else "" for v in row)])
    assert heat.lines == rows
    assert np.allclose(heat.shades, counts / counts.sum(axis=1, keepdims=True))
    mistakes = []
    for a in range(classes):
        for b in range(classes):
            if a != b and counts[a, b] > 0:
                mistakes.append((-counts[a, b], a, b))
    expected = []
    for negative, a, b in sorted(mistakes):
        count = -negative
        share = count / counts[a].sum()
        expected.append([str(a), str(b), written(count), f"{share:.1%}"])
    assert tables["most confused"].lines == expected[:12]
    rates = metrics.precision_recall_fscore_support(
        truth, scores.argmax(axis=1), sample_weight=weights
    )
    lines = []
    for k in range(classes):
        line = [str(k)]
        for rate in rates[:3]:
            line.append(f"{rate[k]:.4f}")
        line.append(written(rates[3][k]))
        lines.append(line)
    support = rates[3]
    order = sorted(range(classes), key=lambda k: -support[k])
    assert tables["classes"].lines == [lines[k] for k in order]


@pytest.mark.parametrize("in_folds", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_of_several_targets_has_its_own_curves(weighted, in_folds):
    """Two targets of two classes, of which some rows have no second one."""
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 21, (240, 2)) / 20
    truth = (rng.random((240, 2)) < 0.1 + 0.7 * scores * [1, 0.5]).astype(float)
    truth[::5, 1] = np.nan
    weights = rng.integers(1, 8, 240) / 4 if weighted else None
    folds = np.arange(240) % 3 if in_folds else None
    net = nn.Network("2,2", "multilabel")
    net.targets = ["u", "v"]
    result = multilabel_report(truth, scores, net.targets, 0.5, weights, folds)
    blocks = task_blocks.label_blocks(net, result, truth, scores, weights, folds)
    pictures = pictures_of(blocks)
    drawn = {name: Drawing(picture) for name, picture in pictures.items()}
    labels = {name: texts(picture.svg()) for name, picture in pictures.items()}
    for k, name in enumerate(net.targets):
        there = ~np.isnan(truth[:, k])
        of_target = truth[there, k].astype(int)
        own = scores[there, k]
        w = None if weights is None else weights[there]
        order = own
        if in_folds:
            order = placements_by_hand(of_target, own, folds[there])
        area_of_target = metrics.roc_auc_score(of_target, order, sample_weight=w)
        assert f"{name}: area {area_of_target:.4f}" in labels["roc"]
        false_alarms, recall, _ = metrics.roc_curve(
            of_target, order, sample_weight=w, drop_intermediate=False
        )
        expected = np.column_stack([false_alarms, recall])
        points = drawn["roc"].points(f"l s{k}")
        assert np.allclose(points, expected, atol=NEAR)
        brier = np.average((own - of_target) ** 2, weights=w)
        assert f"{name}: Brier score {brier:.4g}" in labels["calibration"]
        tenths = np.minimum((own * 10).astype(int), 9)
        expected = [
            [
                np.average(
                    values[tenths == tenth],
                    weights=None if w is None else w[tenths == tenth],
                )
                for values in (own, of_target)
            ]
            for tenth in range(10)
            if np.sum(tenths == tenth) >= 10
        ]
        points = drawn["calibration"].points(f"l s{k}")
        assert np.allclose(points, expected, atol=NEAR)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_drawn_scores_are_shares_of_each_class_by_fortieths(weighted):
    rng = np.random.default_rng(6)
    place = rng.integers(0, 40, 500)
    scores = (place + 0.3) / 40
    truth = (rng.random(500) < place / 40).astype(int)
    scores[:3] = 1.0
    place[:3] = 39
    truth[:3] = 1
    if weighted:
        weights = rng.integers(1, 9, 500) / 4
    else:
        weights = None
    _result, blocks = blocks_of(truth, scores, 0.3, weights)
    picture = pictures_of(blocks)["scores"]
    if weights is None:
        w = np.ones(500)
    else:
        w = weights
    shares = np.zeros((2, 40))
    for label in (0, 1):
        is_of_class = truth == label
        total = w[is_of_class].sum()
        for k in range(40):
            shares[label, k] = w[is_of_class & (place == k)].sum() / total
    least = shares[shares > 0].min() / 2
    for label in (0, 1):
        drawing = Drawing(picture, (False, True))
        corners = drawing.points(f"a f{label} s{label}")
        expected = np.arange(40) / 40
        assert np.allclose(corners[2:82:2, 0], expected, atol=NEAR)
        expected = np.log(np.maximum(shares[label], least))
        assert np.allclose(np.log(corners[2:82:2, 1]), expected, atol=0.03)
    rule = Drawing(picture, (False, True)).points("r")
    assert np.allclose(rule[:, 0], 0.3, atol=NEAR)
    expected = pytest.approx([least, 1], rel=0.03)
    assert rule[:, 1] == expected


def test_the_confusion_of_two_classes_stands_where_its_names_are():
    truth, scores, weights = two_classes(True)
    _result, blocks = blocks_of(truth, scores, 0.5, weights)
    tn, fp, fn, tp = metrics.confusion_matrix(
        truth, scores >= 0.5, sample_weight=weights
    ).ravel()
    heat = blocks[0]
    assert heat.headers[1:] == ["ok", "fraud"]
    expected = [["ok", f"{tn:.1f}", f"{fp:.1f}"], ["fraud", f"{fn:.1f}", f"{tp:.1f}"]]
    assert heat.lines == expected
    expected = [[tn / (tn + fp), fp / (tn + fp)], [fn / (fn + tp), tp / (fn + tp)]]
    assert np.allclose(heat.shades, expected)


def test_thresholds_of_scores_that_are_no_probabilities_are_tenths_of_their_range():
    truth = np.array([0, 1, 0, 1, 1, 0, 1])
    scores = np.array([-1.0, -0.5, 0.0, 1.0, 2.0, 2.0, 3.0])
    _result, blocks = blocks_of(truth, scores, 0.8)
    table = tables_of(blocks)["thresholds"]
    cuts = sorted([*np.linspace(-1, 3, 11), 0.8])
    expected = [f"{cut:.4g}" for cut in cuts]
    assert [line[0].split()[0] for line in table.lines] == expected
    for cut, line in zip(cuts, table.lines, strict=True):
        alarms = scores >= cut
        expected = f"{metrics.precision_score(truth, alarms):.4f}"
        assert line[1] == expected
        expected = f"{1000 * alarms.sum() / 7:.1f}"
        assert line[4] == expected


# ---------------------------------------------------------------- numbers


def numbers(targets: int, rows: int = 200):
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(rows, targets)) * 3
    return truth, truth + rng.normal(size=(rows, targets)) * 0.5 + 0.2 * np.arange(
        targets
    ) + 0.1


def weights_of(rows: int) -> np.ndarray:
    """Weights of rows, of which some are 0."""
    rng = np.random.default_rng(12)
    return rng.integers(0, 9, rows) / 4


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [1, 3])
def test_the_pictures_of_a_regression_are_predictions_and_errors_by_hand(
    targets, weighted
):
    truth, predicted = numbers(targets)
    if weighted:
        weights = weights_of(200)
    else:
        weights = None
    net = nn.Network(f"2,{targets}", "regression")
    blocks = task_blocks.number_blocks(
        net, regression_report(truth, predicted), truth, predicted, weights
    )
    if weighted:
        w = weights[weights > 0]
    else:
        w = np.ones(200)
    if weighted:
        truth = truth[weights > 0]
    if weighted:
        predicted = predicted[weights > 0]
    pictures = pictures_of(blocks)
    drawing = Drawing(pictures["predicted"])
    errors = predicted - truth
    wide = 0.02
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    assert np.allclose(
        drawing.points("r"), [[ends[0]] * 2, [ends[1]] * 2], atol=wide * 2
    )
    low = errors.min()
    high = errors.max()
    bins = int(len(truth) ** 0.5)
    for k in range(targets):
        expected = np.column_stack([truth[:, k], predicted[:, k]])
        points = drawing.points(f"dots s{k}")
        assert np.allclose(points, expected, atol=wide * 2)
        counts = np.zeros(bins)
        for error, weight in zip(errors[:, k], w, strict=True):
            counts[min(int((error - low) / (high - low) * bins), bins - 1)] += weight
        corners = Drawing(pictures["errors"]).points(f"a f{k} s{k}")
        assert np.allclose(corners[2 : 2 + 2 * bins : 2, 1], counts, atol=0.2)
        assert np.allclose(
            corners[1::2, 0][: bins + 1], np.linspace(low, high, bins + 1), atol=wide
        )
        mean = sum(errors[:, k] * w) / sum(w)
        deviation = (sum(w * (errors[:, k] - mean) ** 2) / sum(w)) ** 0.5
        name = pictures["errors"].lines[k].name
        assert name == f"output {k}: mean {mean:.3g}, deviation {deviation:.3g}"


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_by_range_of_the_prediction_are_those_of_a_loop(weighted):
    truth, predicted = numbers(2)
    if weighted:
        weights = weights_of(200)
    else:
        weights = None
    net = nn.Network("2,2", "regression")
    net.targets = ["u", "v"]
    tables = tables_of(
        task_blocks.number_blocks(
            net, regression_report(truth, predicted), truth, predicted, weights
        )
    )
    if weights is None:
        w = np.ones(200)
    else:
        w = weights
    counting = [row for row in range(200) if w[row] > 0]
    for k, name in enumerate("uv"):
        table = tables[f"errors of {name} by range of the prediction"]
        values = sorted(predicted[counting, k])
        edges = [np.quantile(values, at / 8) for at in range(9)]
        assert len(table.lines) == 8
        for at, line in enumerate(table.lines):
            if at < 7:
                high = edges[at + 1]
            else:
                high = np.inf
            members = []
            for row in counting:
                if edges[at] <= predicted[row, k] < high:
                    members.append(row)
            rows = sum(w[row] for row in members)
            pairs = sorted(
                (predicted[row, k] - truth[row, k], w[row]) for row in members
            )
            ends = []
            # the least error at or below which this share of the weights lies
            for share in (0.05, 0.95):
                passed = 0.0
                place = -1
                while passed < share * rows - 1e-9:
                    place += 1
                    passed += pairs[place][1]
                ends.append(pairs[place][0])
            errors = 0.0
            squares = 0.0
            for error, weight in pairs:
                errors += error * weight
                squares += error * error * weight
            if weighted:
                count = f"{rows:.1f}"
            else:
                count = str(len(members))
            assert line[0] == f"{edges[at]:.4g} to {edges[at + 1]:.4g}"
            assert line[1] == count
            assert line[2] == f"{errors / rows:.4g}"
            assert line[3] == f"{(squares / rows) ** 0.5:.4g}"
            assert line[4:] == [f"{ends[0]:.4g} to {ends[1]:.4g}"]


@pytest.mark.parametrize("weighted", [False, True])
def test_coverage_by_range_of_a_quantile_is_that_of_a_loop(weighted):
    """Whole numbers: many targets are their quantile, and not above it."""
    rng = np.random.default_rng(3)
    truth = np.repeat(rng.integers(0, 9, (200, 1)), 2, axis=1).astype(np.float64)
    predicted = truth + rng.integers(-2, 3, (200, 2))
    weights = weights_of(200) if weighted else None
    net = nn.Network("2,2", "regression", loss="quantile=.1,.5")
    net.targets = ["u"]
    blocks = task_blocks.number_blocks(net, {}, truth, predicted, weights)
    tables = tables_of(blocks)
    w = np.ones(200) if weights is None else weights
    assert "errors" not in pictures_of(blocks)
    for k, share_of in enumerate(("0.1", "0.5")):
        table = tables[f"coverage of u {share_of} by range of the prediction"]
        seen = 0.0
        for ends, count, share in table.lines:
            low, high = map(float, ends.split(" to "))
            is_last = ends == table.lines[-1][0]
            rows = 0.0
            covered = 0.0
            for row in range(200):
                value = predicted[row, k]
                if low <= value < high or (is_last and value == high):
                    rows += w[row]
                    covered += w[row] * (truth[row, k] <= value)
            assert count == (f"{rows:.1f}" if weighted else str(int(rows)))
            assert share == f"{100 * covered / rows:.1f} %"
            seen += rows
        assert seen == w.sum()


def test_errors_whose_squares_leave_float64_have_no_rmse_and_no_deviation():
    truth = np.linspace(1.0, 2.0, 16)[:, None] * 1e200
    blocks = task_blocks.number_blocks(
        nn.Network("2,1", "regression"), {}, truth, truth * 0.5, None
    )
    (table,) = tables_of(blocks).values()
    assert {line[3] for line in table.lines} == {"undefined"}
    expected = f"{-0.5 * truth[:2].mean():.4g}"
    assert next(line[2] for line in table.lines) == expected
    lines = pictures_of(blocks)["errors"].lines
    assert lines[0].name == "output 0: mean -7.5e+199, deviation undefined"


def test_ranges_hold_each_known_value_once_and_ties_together():
    values = np.array([1, 1, 1, 1, 1, 2, 3, 4, 5, np.nan, 6, 6])
    pairs = []
    for ends, own in ranges(values, 4):
        pairs.append((ends, values[own].tolist()))
    assert pairs == [
        ("1 to 2", [1.0] * 5),
        ("2 to 4.5", [2.0, 3.0, 4.0]),
        ("4.5 to 6", [5.0, 6.0, 6.0]),
    ]
    assert [*ranges(np.array([np.nan, np.nan]), 4)] == []


# ---------------------------------------------------------------- groups and mistakes


def groups_by_loop(losses, members_of: dict, least: int, w) -> list:
    """Return the lines of groups that err clearly more than all, the clearest first. w:
    weights of the rows."""
    counting = [k for k in range(len(losses)) if w[k] > 0]
    mean = sum(losses[k] * w[k] for k in counting) / sum(w)
    deviation = (sum(w[k] * (losses[k] - mean) ** 2 for k in counting) / sum(w)) ** 0.5
    lines = []
    for (column, values), of_group in members_of.items():
        members = [k for k in of_group if w[k] > 0]
        if least <= len(members) < len(counting):
            rows = sum(w[k] for k in members)
            own_mean = sum(losses[k] * w[k] for k in members) / rows
            standard_error = deviation * sum(w[k] ** 2 for k in members) ** 0.5 / rows
            above = (own_mean - mean) / standard_error
            if above > 3:
                if isinstance(rows, int):
                    count = str(rows)
                else:
                    count = f"{rows:.1f}"
                line = [
                    column,
                    values,
                    count,
                    f"{own_mean:.4g}",
                    f"{own_mean / mean:.2f} times",
                ]
                lines.append((-above, line))
    return [line for _, line in sorted(lines)]


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_quarters_words_and_gaps_of_a_loss_three_standard_errors_above(
    weighted,
):
    rng = np.random.default_rng(8)
    x = rng.permutation(400).astype(float)
    word = np.where(x < 19, "few", np.where(x < 60, "bad", "good"))
    gap = np.where(rng.random(400) < 0.1, np.nan, rng.normal(size=400))
    columns = {"x": x, "word": word, "gap": gap, "y": x}
    ds = nn.load(columns, target="y")
    net = nn.Network("3,1", "regression")
    net.columns = ["x", "word", "gap"]
    errors = (
        rng.random(400)
        + 0.3 * (x < 19)
        + 0.6 * (x >= 300)
        + 0.5 * (word == "bad")
        + 0.7 * np.isnan(gap)
    )
    if weighted:
        weights = weights_of(400)
    else:
        weights = None
    truth = np.zeros((400, 1))
    scores = errors[:, None]
    groups = task_blocks.groups(net, ds.x, truth, scores, weights)
    members_of = {("gap", "(missing)"): np.flatnonzero(np.isnan(gap))}
    for name in ("few", "bad", "good"):
        members_of["word", name] = np.flatnonzero(word == name)
    numbers_known = np.sort(gap[~np.isnan(gap)])
    cases = (
        ("x", x, np.quantile(x, [0, 0.25, 0.5, 0.75, 1])),
        ("gap", gap, np.quantile(numbers_known, [0, 0.25, 0.5, 0.75, 1])),
    )
    for column, values, edges in cases:
        for k in range(4):
            low = edges[k]
            high = edges[k + 1]
            if k < 3:
                is_below = values < high
            else:
                is_below = values <= high
            members = np.flatnonzero((values >= low) & is_below)
            members_of[column, f"{low:.4g} to {high:.4g}"] = members
    if weighted:
        w = weights.tolist()
    else:
        w = [1] * 400
    expected = groups_by_loop(errors, members_of, 20, w)
    assert len(expected) >= 2
    assert groups.lines == expected
    if weighted:
        rows = f"{weights.sum():.1f}"
    else:
        rows = "400"
    mean = np.average(errors, weights=weights)
    assert groups.caption == f"groups of rows; all {rows}: {mean:.4g}"
    assert groups.headers == [
        "column",
        "values",
        "rows",
        "mean absolute error",
        "of all",
    ]


def test_a_group_needs_a_hundredth_of_the_rows_that_count():
    rows = 6000
    truth = np.zeros((rows, 1))
    x = np.arange(rows)[:, None].astype(np.float32)
    net = nn.Network("1,1", "regression")
    weights = np.where(np.arange(rows) < 3000, 1.0, 0.0)
    assert groups_that_err(net, x, truth, truth, weights).least == 30
    assert groups_that_err(net, x, truth, truth).least == 60


@pytest.mark.parametrize("weighted", [False, True])
def test_fifths_of_the_predictions_tell_what_the_intervals_of_their_rows_hold(weighted):
    rng = np.random.default_rng(4)
    rows = 100
    scores = np.arange(rows, dtype=float)[:, None]
    are_held = rng.random((rows, 1)) < 0.8
    widths = rng.random((rows, 1))
    weights = rng.integers(1, 5, rows).astype(float)
    net = nn.Network("1,1", "regression")
    held = Held(0.9, are_held, widths)
    (table,) = task_blocks.sureness(net, held, scores, weights if weighted else None)
    assert len(table.lines) == 5
    for number, line in enumerate(table.lines):
        part = slice(20 * number, 20 * number + 20)
        counts = weights[part] if weighted else np.ones(20)
        share = np.average(are_held[part, 0], weights=counts)
        width = np.average(widths[part, 0], weights=counts)
        assert float(line[1]) == counts.sum()
        assert line[2] == f"{100 * share:.1f} %"
        assert float(line[3]) == pytest.approx(width, rel=1e-3)


@pytest.mark.parametrize(
    "share, text",
    [
        (0.0, "0 %"),
        (0.004, "0.4 %"),
        (0.0123, "1 %"),
        (0.5, "50 %"),
        (0.99, "99 %"),
        (0.996, "99.6 %"),
        (1.0, "100 %"),
        (None, "undefined"),
    ],
)
def test_a_share_near_none_or_all_has_more_digits(share, text):
    assert task_blocks.percent_text(share) == text


def test_a_group_of_one_heavy_row_is_less_sure_than_its_weight():
    """Its mean's standard error, by the squares of its rows' shares."""
    rng = np.random.default_rng(2)
    word = np.where(np.arange(200) < 40, "bad", "good")
    weights = rng.choice([1.0, 2.0, 12.0], 200)
    truth = np.zeros((200, 1))
    scores = rng.random((200, 1)) + 0.9 * (word == "bad")[:, None]
    ds = nn.load({"word": word, "y": scores[:, 0]}, target="y")
    net = nn.Network("1,1", "regression")
    net.columns = ["word"]
    (group,) = groups_that_err(net, ds.x, truth, scores, weights).clear
    losses = scores[:, 0]
    mean = np.average(losses, weights=weights)
    deviation = np.sqrt(np.average((losses - mean) ** 2, weights=weights))
    shares = weights[:40] / weights[:40].sum()
    error = deviation * np.sqrt((shares**2).sum())
    expected = ((shares * losses[:40]).sum() - mean) / error
    assert group.column == "word"
    assert group.values == "bad"
    assert group.standard_errors == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "rows, bad, standard_errors, is_told",
    [
        (100, 20, 3.02, True),
        (100, 20, 2.98, False),
        (100, 19, 4.0, False),
        (3000, 29, 9.0, False),
        (3000, 30, 9.0, True),
    ],
)
def test_a_group_is_told_from_twenty_rows_a_hundredth_and_three_standard_errors(
    rows, bad, standard_errors, is_told
):
    """Errors are 1 and 3 by turns; those of the group are shifted until it lies so far
    above all."""
    word = np.array(["bad"] * bad + ["good"] * (rows - bad))
    base = np.where(np.arange(rows) % 2, 3.0, 1.0)

    def above(shift: float) -> float:
        losses = base + shift * (word == "bad")
        return (losses[:bad].mean() - losses.mean()) / (losses.std() / bad**0.5)

    low = 0.0
    high = 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if above(middle) < standard_errors:
            low = middle
            high = high
        else:
            low = low
            high = middle
    ds = nn.load({"word": word, "y": base}, target="y")
    losses = base + low * (word == "bad")
    net = nn.Network("1,1", "regression")
    net.columns = ["word"]
    truth = np.zeros((rows, 1))
    scores = losses[:, None]
    groups = task_blocks.groups(net, ds.x, truth, scores)
    assert isinstance(groups, Table) == is_told


def test_the_loss_of_a_row_is_its_log_loss_or_its_mean_absolute_error():
    truth = np.array([0, 1, 1])
    scores = np.array([[0.2], [0.9], [0.0]], np.float32)
    losses = row_losses(TWO, truth, scores)
    expected = [-np.log(0.8), -np.log(0.9), -np.log(1e-12)]
    assert losses == pytest.approx(expected, rel=1e-6)
    three = nn.Network("2,3", "multiclass")
    scores = np.array([[0.2, 0.5, 0.3], [0.1, 0.8, 0.1]])
    expected = pytest.approx([-np.log(0.3), -np.log(0.1)])
    assert row_losses(three, np.array([2, 0]), scores) == expected
    linear = nn.Network("2,1:linear", "binary", loss="mse")
    linear.threshold = 0.4
    assert row_losses(
        linear, np.array([0, 1, 1]), np.array([[0.4], [0.4], [0.39]])
    ).tolist() == [1, 0, 1]
    numbers_net = nn.Network("2,2", "regression")
    assert row_losses(
        numbers_net, np.array([[1.0, 5.0]]), np.array([[3.0, 4.0]])
    ).tolist() == [1.5]


def pixels_of(image: str) -> np.ndarray:
    """Return the bytes of a grey image of a cell."""
    data = base64.b64decode(image.partition(",")[2])
    width = int.from_bytes(data[16 : 16 + 4], "big")
    height = int.from_bytes(data[20 : 20 + 4], "big")
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at], "big")
    start = at + 4
    content = zlib.decompress(data[start : start + size])
    lines = np.frombuffer(content, np.uint8).reshape(height, width + 1)
    return lines[:, 1:]


def test_the_worst_mistakes_are_the_largest_losses_with_their_labels_and_pixels():
    rng = np.random.default_rng(9)
    x = rng.random((30, 1, 2, 3)) * 4 - 2
    truth = rng.integers(0, 3, 30)
    scores = rng.dirichlet(np.ones(3), 30)
    net = nn.Network("1x2x3,3", "multiclass")
    net.classes = ["a", "b", "c"]
    table = task_blocks.mistakes(net, x, truth, scores)
    order = sorted(range(30), key=lambda k: scores[k, truth[k]])[:12]
    rows = []
    for k in order:
        predicted = int(np.argmax(scores[k]))
        rows.append([str(k), "abc"[truth[k]], "abc"[predicted]])
    assert [line[1:] for line in table.lines] == rows
    for line, k in zip(table.lines, order, strict=True):
        low = x[k].min()
        high = x[k].max()
        expected = 255 * (x[k, 0] - low) / (high - low)
        assert np.array_equal(pixels_of(line[0]), expected.astype(np.uint8))


def test_true_and_predicted_values_near_a_thousand_million_are_told_apart():
    truth = np.array([[1_234_567_890.0], [2.0]])
    scores = truth + [[5.0], [0.5]]
    net = nn.Network("1x1x2,1", "regression")
    table = task_blocks.mistakes(net, np.zeros((2, 1, 1, 2)), truth, scores)
    texts = [line[2:] for line in table.lines]
    assert texts == [["1,234,567,890", "1,234,567,895"], ["2", "2.5"]]


# ----------------------------------------------------------- losses, columns, sentences


def trained_by(history: dict, monitor: str = "loss", members: int = 1):
    return SimpleNamespace(
        history=history,
        members=[None] * members,
        config={"monitor": monitor},
        loss="mse",
        target_scaling=None,
    )


@pytest.mark.parametrize(
    "monitor, values, best",
    [
        ("roc_auc", [0.5, 0.9, None, 0.9, 0.7], 2),
        ("log_loss", [0.5, 0.4, None, 0.9, 0.4], 2),
        ("rmse", [3, 2, 2, 5, 1], 5),
    ],
)
def test_losses_are_drawn_at_their_epochs_and_the_best_epoch_is_marked(
    monitor, values, best
):
    losses = [100.0, 30.0, 10.0, 4.0, 2.0]
    of_validation = [120.0, 50.0, 20.0, 9.0, 8.0]
    history = {"loss": losses, "val_loss": of_validation, "val_metric": values}
    pictures = named(model_page._losses_by_epoch(trained_by(history, monitor)))
    for number, curve in enumerate((losses, of_validation)):
        drawing = Drawing(pictures["loss"], (False, True))
        drawn = drawing.points(f"l s{number}")
        assert np.allclose(drawn[:, 0], [1, 2, 3, 4, 5], atol=0.02)
        assert np.allclose(drawn[:, 1], curve, rtol=0.01)
    names = [line.name for line in pictures["loss"].lines]
    assert names == ["training rows", "validation rows"]
    drawn = Drawing(pictures["metric"]).points("l s0")
    pairs = []
    for epoch, value in enumerate(values, 1):
        if value is not None:
            pairs.append((epoch, value))
    assert np.allclose(drawn, pairs, atol=0.02)
    points = Drawing(pictures["metric"]).points("r")
    assert np.allclose(points[:, 0], best, atol=0.02)
    assert (
        pictures["metric"].title
        == f"{monitor} while training; epoch {best} is the best"
    )


def test_the_table_of_thresholds_has_the_costs_of_the_rule_of_the_training():
    """A false alarm costs 1, a missed row 5."""
    truth, scores, weights = two_classes(True)
    net = nn.Network("2,1", "binary")
    net.facts = replace(net.facts, config={"threshold": "cost=1:5"})
    result = binary_report(truth, scores, 0.3, weights)
    blocks = task_blocks.two_class_blocks(net, result, truth, scores[:, None], weights)
    table = tables_of(blocks)["thresholds"]
    assert table.headers[-1] == "cost"
    for line in table.lines:
        alarms = scores >= float(line[0].split()[0])
        false_alarms = weights[alarms & (truth == 0)].sum()
        missed = weights[~alarms & (truth == 1)].sum()
        assert float(line[-1]) == pytest.approx(false_alarms + 5 * missed)


def test_the_columns_tell_shares_ranges_medians_and_gaps():
    words = ["red"] * 50 + ["green"] * 30 + ["blue"] * 10 + ["grey"] * 6 + ["pink"] * 4
    rng = np.random.default_rng(0)
    size = np.concatenate(
        [np.arange(1.0, 76.0), np.full(5, 100.0), np.full(20, np.nan)]
    )
    gappy = ["x"] * 30 + ["y"] * 10 + [""] * 60
    table = []
    for word, number, other in zip(words, size, gappy, strict=True):
        table.append(
            {
                "word": word,
                "size": str(number) if number == number else "",
                "gappy": other,
                "y": rng.normal(),
            }
        )
    ds = nn.load(table, target="y")
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=1, holdout=0)
    table = model_page._columns(net, ds.x)[0]
    by_name = {line[0]: line[3:] for line in table.lines}
    assert by_name["word"] == ["red 50%, green 30%, blue 10%, 2 more", "", ""]
    assert by_name["gappy"] == ["x 75%, y 25%", "", "60.0%"]
    some = model_page._columns(net, ds.x[np.arange(0, 90)])[0].lines[0]
    assert some[3] == "red 56%, green 33%, blue 11%", "and no other word"
    most = model_page._columns(net, ds.x[np.arange(0, 96)])[0].lines[0]
    assert most[3] == "red 52%, green 31%, blue 10%, 1 more"
    counts = [0] * 12
    for value in size[:80]:
        counts[min(int((value - 1) / 99 * 12), 11)] += 1
    most = max(counts)
    rows = []
    for count in counts:
        rows.append(" ▁▂▃▄▅▆▇█"[-(-8 * count // most)])
    bars = "".join(rows)
    assert by_name["size"] == ["1 to 100, median 40.5", bars, "20.0%"]
    assert " " in bars
    assert "█" in bars


@pytest.mark.parametrize("targets", [2, 3, 4])
def test_each_targets_figures_stand_beside_its_name_however_the_table_lies(targets):
    headers = ["target", "RMSE", "MAE", "R2"]
    lines = [[f"t{k}", f"r{k}", f"m{k}", f"d{k}"] for k in range(targets)]
    table = model_page._by_target(headers, lines)
    if targets < 3:
        found = [list(line) for line in zip(table.headers, *table.lines, strict=True)]
    else:
        found = [table.headers, *table.lines]
    assert found == [headers, *lines]


def test_the_shares_of_a_drifted_column_are_drawn_in_their_colours():
    counts = np.array([[5, 0, 40, 40, 0, 15], [0, 0, 30, 10, 0, 10]])
    labels = ["missing", "below 1", "from 1 to 2", "from 2 to 4", "", "above 4"]
    column = ColumnDrift("size", labels, counts, slice(2, 5), "1 to 4")
    picture = model_page._distributions(column, 0)
    assert list(picture.x.words) == ["missing", "1 to 2", "2 to 4", "above 4"]
    kept = counts[:, [0, 2, 3, 5]]
    svg = picture.svg()
    assert texts(svg)[-2:] == ["training", "these rows"]
    ticks = re.findall(r'y="([\d.]+)" class="e">([\d.]+)<', svg)
    heights = [(float(y) - 4, float(share)) for y, share in reversed(ticks)]
    for number, rows in enumerate(kept):
        path = re.search(f'class="mark s{number}" d="([^"]+)"', svg)[1]
        places = [float(y) for y in re.findall(r" ([\d.]+)h0", path)]
        shares = np.interp(places, *np.transpose(heights))
        assert np.allclose(shares, rows / rows.sum(), atol=NEAR)


def test_the_answer_has_the_rates_of_the_rows():
    truth, scores, weights = two_classes(True)
    intervals = {"recall": [0.25, 0.75], "roc_auc": None}
    result = binary_report(truth, scores, 0.5, weights) | {"intervals": intervals}
    alarms = scores >= 0.5
    positives = weights[truth == 1].sum()
    called = weights[alarms].sum()
    hits = weights[alarms & (truth == 1)].sum()
    hit = f"{hits:.1f}"
    assert task_blocks.answer(TWO, result, "rows") == (
        f"Class fraud: of {positives:.1f} such rows among 240 rows the model finds {hit}"
        f" ({hits / positives:.0%}, 25 to 75 %); of the {called:.1f} that it names {hit} are right"
        f" ({hits / called:.0%}; of rows named by chance {positives / weights.sum():.0%} would be). "
        f"ROC-AUC {metrics.roc_auc_score(truth, scores, sample_weight=weights):.4g}."
    ).replace("%,", " %,").replace("%;", " %;").replace("% would", " % would")
    truth = np.array([0, 0, 1, 2, 0, 1])
    scores = np.eye(3)[[0, 1, 1, 1, 0, 1]]
    several = nn.Network("2,3", "multiclass")
    answer = task_blocks.answer(several, multiclass_report(truth, scores), "new rows")
    assert (
        answer
        == "Of 6 new rows the model names the right one of 3 classes for 4 (67 %);"
        " always naming the most frequent one is right for 3 (50 %)."
    )
    truth = np.array([[1.0], [2.0], [6.0]])
    predicted = np.array([[2.0], [2.0], [4.0]])
    answer = task_blocks.answer(
        nn.Network("2,1", "regression"), regression_report(truth, predicted), "rows"
    )
    rmse = (5 / 3) ** 0.5
    r2 = 1 - 5 / 14
    by_mean = np.std(truth)
    assert answer == (
        f"On 3 rows the model is off by 1 on average, by {rmse:.4g} as root mean square;"
        f" always naming the mean is off by {by_mean:.4g}. R2 {r2:.4g}."
    )


def test_the_importance_of_a_page_has_bars_of_the_largest_and_the_metric_of_all_rows():
    low = [3.0, -0.5, 0.0, -1234.5]
    correlated = [("b", "a", -0.953)]
    mean = [4.0, 1.0, 0.1, -2.0]
    high = [5.0, 2.5, 0.2, -1.0]
    importances = SimpleNamespace(
        metric="rmse",
        baseline=1.25,
        rows=9,
        names=["a", "b", "c", "d"],
        mean=mean,
        low=low,
        high=high,
        holds=[True] * 4,
        correlated=correlated,
    )
    net = nn.Network("4,1", "regression")
    points = [(1.0, [0.5]), (2.0, [0.75]), (4.0, [2.0])]
    table, picture, message = model_page._importance(net, importances, {"a": points})
    expected = [
        ["a", "█" * 12, "4", "3 to 5"],
        ["b", "███", "1", "-0.5 to 2.5"],
        ["c", "▎", "0.1", "0 to 0.2"],
        ["d", "", "-2", "-1,234 to -1"],
    ]
    assert table.lines == expected
    assert table.caption.startswith("how much worse RMSE (1.25) is")
    expected = [[1, 0.5], [2, 0.75], [4, 2]]
    assert np.allclose(Drawing(picture).points("l s0"), expected, atol=0.02)
    assert (
        message
        == "b and a are correlated (-0.95): what one of them says, the other may say too."
    )
    # the three strongest of all pairs
    importances.correlated = [(name, "z", 0.99) for name in "abcd"]
    _, _, *messages = model_page._importance(net, importances, {"a": points})
    assert [message[:7] for message in messages] == ["a and z", "b and z", "c and z"]
    picture = model_page._curve(TWO, "word", [("red", [0.25]), ("", [0.5])], 3, (0, 1))
    assert picture.lines[0].x == [0, 1]
    assert picture.lines[0].y == [0.25, 0.5]
    assert picture.x.words == ("red", "(missing)")
    assert picture.lines[0].name == "class fraud"
    three = nn.Network("2,3", "multiclass")
    three.classes = ["a", "b", "c"]
    picture = model_page._curve(
        three, "x", [(0.0, [0.2, 0.3, 0.5]), (1.0, [0.6, 0.3, 0.1])], 0, (0, 1)
    )
    expected = {"class a": [0.2, 0.6], "class b": [0.3, 0.3], "class c": [0.5, 0.1]}
    assert {line.name: line.y for line in picture.lines} == expected


# ---------------------------------------------------------------- charts


def test_the_table_of_a_picture_has_its_first_and_last_points_and_some_between():
    y = 2 * np.arange(15.0)
    line = Line("l", np.arange(15.0), y)
    headers, lines = Plot("p", "t", Axis("x"), Axis("y"), [line]).table()
    assert headers == ["", "x", "y"]
    assert lines == [["l", str(k), str(2 * k)] for k in range(0, 15, 2)]
    axis = Axis("x", words=("one", "two"))
    words = Plot("p", "t", axis, Axis("y"), [Line("w", [1, 0], [0.12344, 7])])
    expected = [["w", "two", "0.1234"], ["w", "one", "7"]]
    assert words.table()[1] == expected


def test_a_table_of_a_page_has_its_cells_in_order_and_its_shades_on_the_numbers():
    lines = [["a", "1", "2"], ["b", "3", "4"]]
    table = Table("t", ["name", "x", "y"], lines, shades=[[0.25, 0.5], [0.75, 0.0]])
    cells = re.findall(r"<t[hd]([^>]*)>([^<]*)</t[hd]>", page._html_table(table))
    expected = ["name", "x", "y", "a", "1", "2", "b", "3", "4"]
    assert [text for _, text in cells] == expected
    shades = [
        re.search(r"rgb\(42 127 192/([\d.]+)\)", attributes) for attributes, _ in cells
    ]
    expected = [None, None, None, None, "0.25", "0.50", None, "0.75", None]
    assert [None if shade is None else shade[1] for shade in shades] == expected
    assert ["word" in attributes for attributes, _ in cells] == [True, False, False] * 3
    assert page._markdown_table("", table.headers, table.lines) == (
        "| name | x | y |\n| --- | --- | --- |\n| a | 1 | 2 |\n| b | 3 | 4 |"
    )


def test_an_image_of_more_pixels_has_every_second_or_third_of_them():
    image = np.arange(97 * 40, dtype=np.uint32).reshape(97, 40).astype(np.uint8)
    assert np.array_equal(pixels_of(page.image_of(image)), image[::3, ::3])
    assert np.array_equal(pixels_of(page.image_of(image[:96])), image[:96:2, ::2])
    assert np.array_equal(pixels_of(page.image_of(image[:48])), image[:48])


def test_a_logarithmic_axis_is_one_from_twenty_times_and_places_are_of_logarithms():
    is_log = []
    for high in (20.0, 20.1):
        is_log.append(Scale(Axis(log=True), [1.0, high], 0.0, 400.0).is_log)
    assert is_log == [False, True]
    axis = Axis(log=True, ends=(1.0, 100.0))
    scale = Scale(axis, [], 100.0, 300.0)
    expected = pytest.approx([100, 200, 300, 100, 100, 100])
    assert [scale.at(value) for value in (1, 10, 100, 0, 0.5, -3)] == expected
    assert [text for _, text in scale.ticks] == ["1", "2", "5", "10", "20", "50", "100"]
    plain = Scale(Axis(), [0.0, 10.0], 0.0, 108.0)
    assert [plain.at(value) for value in (0, 10)] == pytest.approx([4, 104]), (
        "4 % of the values are left at each end"
    )


def test_ticks_stand_where_the_axis_has_their_values():
    cases = (
        (Axis(), [0.0, 7.3]),
        (Axis(log=True), [0.5, 900.0]),
        (Axis(ends=(0, 1)), []),
    )
    for axis, values in cases:
        scale = Scale(axis, values, 30.0, 426.0)
        for place, text in scale.ticks:
            expected = scale.at(float(text.replace(",", "")))
            assert place == pytest.approx(expected)
        assert all(30 <= place <= 426 for place, _ in scale.ticks)


def test_a_line_of_many_points_keeps_those_that_move_by_a_step_of_the_grid():
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(5000))
    line = Line("", x, np.cumsum(rng.random(5000)))
    kept_x = np.array(line.x)
    kept_y = np.array(line.y)
    assert len(kept_x) < 1200
    assert kept_x[0] == x[0]
    assert kept_x[-1] == x[-1]
    y = np.cumsum(np.random.default_rng(0).random(10_000)[5000:])
    assert np.abs(np.interp(x, kept_x, kept_y) - y).max() < 0.01 * y.max()
    assert len(Line("", np.arange(400), np.zeros(400)).x) == 400


def test_a_comparison_shows_each_models_own_numbers():
    interval = [-1.5, -0.25]
    rmse = {"x/a.bin": 2.0, "b.bin": 1.0, "difference": -1.0, "interval": interval}
    disagree = [{"row": 7, "true": [1.5], "x/a.bin": [0.12345], "b.bin": [2.0, 3.0]}]
    r2 = {"x/a.bin": None, "b.bin": 0.5, "difference": None, "interval": None}
    result = {
        "models": ["x/a.bin", "b.bin"],
        "rows": 12,
        "verdict": "b.bin is better than x/a.bin: RMSE 1 beside 2",
        "metrics": {"rmse": rmse, "r2": r2},
        "disagree": disagree,
    }
    report = model_page.page_of_comparison(result)
    table, differ = report.sections["Metrics"]
    assert report.answer == ["b.bin is better than a.bin: RMSE 1 beside 2."]
    assert table.headers[1:3] == ["a.bin", "b.bin"]
    assert table.caption == "12 rows"
    none = "undefined"
    expected = [
        ["RMSE", "2", "1", "-1", "-1.5 to -0.25"],
        ["R2", none, "0.5", none, none],
    ]
    assert table.lines == expected
    assert differ.lines == [["7", "1.5", "0.123", "2; 3"]]


def test_the_page_of_a_model_tells_the_figures_of_the_test_of_its_rows():
    """With weights, in the sentence, the tables and the pictures alike."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(120, 2)).round(1)
    y = (x[:, 0] + rng.normal(size=120) > 0).astype(int)
    weights = rng.integers(1, 9, 120) / 4
    ds = nn.Dataset(x, y, "binary", ["0", "1"], weights=weights)
    net = nn.Network("2,1", "binary", seed=1)
    nn.train(net, ds, epochs=5, holdout=0)
    report = model_page.page_of_model(net, "m.bin", ds)
    predictions = net.predict(ds.x)
    scores = predictions[:, 0]
    auc = metrics.roc_auc_score(y, scores, sample_weight=ds.weights)
    loss = metrics.log_loss(y, scores.astype(np.float64), sample_weight=ds.weights)
    tables = tables_of(report.sections["Result"])
    written = {line[0]: line[1] for line in tables["metrics"].lines}
    assert written["ROC-AUC"] == f"{auc:.4f}"
    assert written["log loss"] == f"{loss:.4f}"
    assert f"ROC-AUC {auc:.4g} (95 %: " in report.answer[0]
    roc = named(report.pictures)["roc"]
    points = Drawing(roc).points("l s0")
    assert area(points) == pytest.approx(auc, abs=NEAR)
    importances = SimpleNamespace(
        metric="roc_auc",
        baseline=0.75,
        rows=120,
        names=["a", "b", "c", "d", "e"],
        mean=[0.1] * 5,
        low=[0.0] * 5,
        high=[0.2] * 5,
        holds=[True, False, True, True, True],
        correlated=[],
    )
    report = model_page.page_of_model(
        net, "m.bin", ds, threshold=0.3, important=(importances, {})
    )
    recall = metrics.recall_score(y, scores >= 0.3, sample_weight=ds.weights)
    precision = metrics.precision_score(y, scores >= 0.3, sample_weight=ds.weights)
    assert recall != metrics.recall_score(y, scores >= 0.5, sample_weight=ds.weights)
    assert f"({100 * recall:.0f} %, " in report.answer[0]
    assert f"are right ({100 * precision:.0f} %, " in report.answer[0]
    assert "What matters most: a, c, d." in report.answer
    ends = nn.test(net, ds, threshold=0.3, intervals=True)["intervals"]
    tables = tables_of(report.sections["Result"])
    lines = {line[0]: line for line in tables["metrics"].lines}
    expected = [
        "recall",
        f"{recall:.4f}",
        " to ".join(f"{end:.4f}" for end in ends["recall"]),
    ]
    assert lines["recall"] == expected
    expected = " to ".join(f"{end:.4f}" for end in ends["roc_auc"])
    assert lines["ROC-AUC"][2] == expected
    measured = importance(net, ds)
    table = model_page.page_of_model(net, "m.bin", ds).sections["Columns that matter"][
        0
    ]
    cells = [line[0] for line in table.lines]
    assert cells == measured.names
    expected = [f"{mean:.3g}" for mean in measured.mean]
    assert [line[2] for line in table.lines] == expected


@pytest.mark.parametrize("how", ["--networks", "--folds"])
def test_the_page_of_a_command_is_by_its_threshold_and_level(folder, how):
    """Of rows that are held out, or out of fold, as the JSON beside it."""
    rng = np.random.default_rng(4)
    lines = ["a,b,y"]
    for _ in range(300):
        a, b = rng.normal(size=2).round(2)
        lines.append(f"{a},{b},{int(a + rng.normal() > 0)}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    shared = "train", "t.csv", "-m", "m.bin", "--layers", "2,4,1", "--epochs", 3, "-q"
    succeed(*shared, how, 3, "--holdout", 0.0 if how == "--folds" else 0.3)
    # 17 March 2024, universal time
    os.utime("t.csv", (1710718200, 1710718200))
    rows = "out-of-fold" if how == "--folds" else "held-out"
    written = {}
    for name, given in {
        "usual": (),
        "asked": ("--threshold", 0.3, "--level", 0.6),
    }.items():
        # new rows have intervals by folds alone
        flags = given[: 2 if how == "--networks" else 4]
        told = succeed("test", "m.bin", *flags, "--report", "p.json", "--json").json
        written[name] = json.loads((folder / "p.json").read_text())
        blocks = written[name]["sections"]["Result"]
        (cells,) = [
            b["lines"] for b in blocks if "true \\ predicted" in b.get("headers", ())
        ]
        counts = [told["tn"], told["fp"], told["fn"], told["tp"]]
        assert [float(cell or 0) for line in cells for cell in line[1:]] == counts
        (lines,) = [b["lines"] for b in blocks if b.get("caption") == "metrics"]
        recall = next(line[1] for line in lines if line[0] == "recall")
        assert recall == f"{told['recall']:.4f}"
        if "level" in told:
            sure = f"Sets of classes of level {told['level']:g} hold {100 * told['coverage']:.1f} %"
            assert any(sure in text for text in written[name]["answer"])
        assert f" {rows} rows of t.csv (2024-03-17) " in written[name]["answer"][0]
    assert written["usual"]["answer"] != written["asked"]["answer"]
    if how == "--folds":
        assert "level" in told


@pytest.mark.parametrize("rows, has_intervals", [(9, False), (10, True)])
def test_a_page_has_intervals_from_ten_rows(rows, has_intervals):
    x = np.arange(rows, dtype=float).reshape(-1, 1)
    y = x[:, 0] + (-1.0) ** np.arange(rows)
    ds = nn.Dataset(x, y, "regression")
    net = nn.Network("1,1", "regression", seed=1)
    report = model_page.page_of_model(net, "m.bin", ds)
    tables = tables_of(report.sections["Result"])
    lines = {line[0]: line for line in tables["metrics"].lines}
    assert (" to " in lines["RMSE"][2]) == has_intervals


def test_pictures_of_mistakes_are_bytes_as_they_are_or_scaled_by_the_training():
    net = nn.Network("1x1x4,1", "binary")
    bytes_of = np.array([[[[0, 60, 120, 200]]]], np.uint8)
    scores = np.array([[0.25]])
    truth = np.array([1])
    table = task_blocks.mistakes(net, bytes_of, truth, scores)
    image = table.lines[0][0]
    assert pixels_of(image).tolist() == [[0, 60, 120, 200]]
    line = table.lines[0][2:]
    assert line == ["1", "0"]
    net.pictures = {"range": 2.0}
    scores = np.array([[0.25]])
    truth = np.array([1])
    x = np.array([[[[0.5, 1.0, 1.5, 2.5]]]])
    table = task_blocks.mistakes(net, x, truth, scores)
    image = table.lines[0][0]
    assert pixels_of(image).tolist() == [[63, 127, 191, 255]]


def test_the_page_of_a_model_with_folds_shows_the_scores_out_of_fold():
    """Each fold has a temperature and a threshold of its own; areas compare rows with
    those of their own fold."""
    rng = np.random.default_rng(14)
    x = rng.normal(size=(160, 2))
    fold = np.arange(160) % 4
    x[fold == 3] += 0.5
    y = (x[:, 0] + rng.normal(size=160) > 0).astype(int)
    weights = rng.integers(1, 9, 160) / 4
    ds = nn.Dataset(x, y, "binary", ["0", "1"], weights=weights)
    net = nn.Network("2,1", "binary", seed=1)
    nn.train(net, ds, epochs=1, holdout=0)
    judged = fold < 3
    kept = (
        np.round(1 / (1 + np.exp(-x[judged, :1])), 2)
        .clip(0.02, 0.98)
        .astype(np.float32)
    )
    crossed = Crossed.of(160, np.flatnonzero(judged), fold[judged], kept, 3)
    net.crossed = Crossed(crossed.fold, kept, [0.5, 1.0, 2.0], [0.35, 0.5, 0.6])
    scores = np.empty(120)
    for number, temperature in enumerate((0.5, 1.0, 2.0)):
        is_member = fold[judged] == number
        scores[is_member] = tempered(kept[is_member], temperature)[:, 0]
    truth = y[judged]
    w = ds.weights[judged]
    said = scores >= np.array([0.35, 0.5, 0.6])[fold[judged]]
    importances = SimpleNamespace(
        metric="roc_auc",
        baseline=0.75,
        rows=120,
        names=["a"],
        mean=[0.1],
        low=[0.0],
        high=[0.2],
        holds=[True],
        correlated=[],
    )
    report = model_page.page_of_model(
        net, "m.bin", ds, out_of_fold=out_of_fold(net, ds), important=(importances, {})
    )
    tables = tables_of(report.sections["Result"])
    lines = tables["metrics"].lines
    written = {line[0]: line[1] for line in lines}
    computed = {}
    by_classes = {
        "precision": metrics.precision_score,
        "recall": metrics.recall_score,
        "F1": metrics.f1_score,
        "accuracy": metrics.accuracy_score,
        "MCC": metrics.matthews_corrcoef,
    }
    for name, compute in by_classes.items():
        computed[name] = compute(truth, said, sample_weight=w)
    places = placements_by_hand(truth, kept[:, 0], fold[judged])
    by_order = {
        "ROC-AUC": metrics.roc_auc_score,
        "PR-AUC": metrics.average_precision_score,
    }
    for name, compute in by_order.items():
        computed[name] = compute(truth, places, sample_weight=w)
    by_scores = {"log loss": metrics.log_loss, "Brier score": metrics.brier_score_loss}
    for name, compute in by_scores.items():
        computed[name] = compute(truth, scores, sample_weight=w)
    assert written == {name: f"{value:.4f}" for name, value in computed.items()}
    pictures = named(report.pictures)
    result = report.sections["Result"]
    tn, fp, fn, tp = metrics.confusion_matrix(truth, said, sample_weight=w).ravel()
    heat = next(
        block
        for block in result
        if isinstance(block, Table) and "stronger" in block.caption
    )
    assert heat.lines == [
        ["0", f"{tn:.1f}", f"{fp:.1f}"],
        ["1", f"{fn:.1f}", f"{tp:.1f}"],
    ]
    points = Drawing(pictures["roc"]).points("l s0")
    assert area(points) == pytest.approx(computed["ROC-AUC"], abs=NEAR)
    drawn = Drawing(pictures["calibration"]).points("l s0")
    expected = []
    for tenth in range(10):
        is_member = np.minimum((scores * 10).astype(int), 9) == tenth
        if is_member.sum() >= 10:
            expected.append(
                [
                    np.average(each[is_member], weights=w[is_member])
                    for each in (scores, truth)
                ]
            )
    assert np.allclose(drawn, expected, atol=NEAR)
    lines = tables_of(result)["thresholds"].lines
    thresholds = {line[0]: line for line in lines}
    recall = metrics.recall_score(truth, scores >= 0.3, sample_weight=w)
    assert thresholds["0.3"][2] == f"{recall:.4f}"
    likelihoods = np.where(truth == 1, scores, 1 - scores)
    loss = np.average(-np.log(likelihoods), weights=w)
    assert f"{loss:.4g}" in str(report.sections["Where it errs most"][0])


def test_importance_of_many_rows_is_that_of_every_second_or_third_row_of_each_fold(
    monkeypatch,
):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(120, 2))
    y = np.where(np.arange(120) < 60, x[:, 0], x[:, 1]) + rng.normal(size=120) / 9
    ds = nn.Dataset(x, y, "regression")
    net = nn.Network("2,1", "regression", seed=1)
    for most, every in ((119, 2), (50, 3), (120, 1)):
        monkeypatch.setattr(model_page, "MOST_EXPLAINED", most)
        parts = [(np.arange(0, 120, every), None)]
        expected = importance(net, ds, parts=parts)
        measured, _ = model_page._important(model_page.Tested(net, ds))
        assert measured.rows == 120 // every
        assert measured.mean == expected.mean
        assert measured.baseline == expected.baseline


def test_texts_of_axes_have_room_words_that_do_not_fit_are_turned():
    """A letter is 7 units wide, as a usual one of 12 pixels is."""
    lines = [Line("l", [0, 1], [0.0, 250_000.0])]
    svg = Plot("p", "t", Axis("x"), Axis("y"), lines).svg()
    upwards = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="e">([^<]*)<', svg)
    assert {text for _, text in upwards} >= {"0", "200,000"}
    assert min(float(x) - 7 * len(text) for x, text in upwards) >= 12 + 6, (
        "beside the label of the axis"
    )
    assert "rotate(-25" not in svg
    # five words and two letters between them on 380 units
    for letters, is_turned in ((6, False), (12, True)):
        words = tuple(letter * letters for letter in "abcde")
        lines = [Line("l", range(5), range(5), "mark")]
        svg = Plot("p", "t", Axis("x", words=words), Axis("y"), lines).svg()
        matches = re.findall(
            r'<text x="([\d.]+)" y="([\d.]+)" class="(\w)"([^>]*)>([a-e]{2,})<', svg
        )
        assert [text for *_, text in matches] == [*words]
        kinds = [kind for _, _, kind, _, _ in matches]
        assert kinds == ["e" if is_turned else "m"] * 5
        for x, y, _, turned, _ in matches:
            assert turned == (f' transform="rotate(-25 {x} {y})"' if is_turned else "")


def test_of_many_words_the_eight_most_frequent_are_groups():
    sizes = [100 - 5 * k for k in range(10)]
    word = np.repeat([f"w{k}" for k in range(10)], sizes)
    y = np.zeros(len(word))
    columns = {"word": word, "y": y}
    ds = nn.load(columns, target="y")
    net = nn.Network("1,1", "regression")
    net.columns = ["word"]
    rng = np.random.default_rng(0)
    errors = rng.random(len(word)) + np.isin(word, ["w0", "w7", "w8"])
    truth = np.zeros((len(word), 1))
    scores = errors[:, None]
    groups = task_blocks.groups(net, ds.x, truth, scores)
    assert sorted(line[1] for line in groups.lines) == ["w0", "w7"]


def test_a_legend_stays_within_the_picture_and_lines_from_the_eighth_on_are_dashed():
    lines = []
    for k in range(9):
        lines.append(Line(f"a line of a rather long name, {k}", [0, 1], [k, k + 1]))
    svg = Plot("p", "t", Axis("x"), Axis("y"), lines).svg()
    names = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">(a line[^<]*)<', svg)
    assert [text[-1] for *_, text in names] == list("012345678")
    for x, _, text in names:
        assert float(x) + 7 * len(text) <= 440
    assert len({y for _, y, _ in names}) >= 5
    dashes = re.findall(
        r'<path class="l s(\d)"( stroke-dasharray="7 4")? d="M[\d.]+ [\d.]+L', svg
    )[:9]
    dashed = ' stroke-dasharray="7 4"'
    assert dashes == [*((str(k), "") for k in range(7)), ("0", dashed), ("1", dashed)]


def test_the_command_of_a_page_has_the_number_of_networks():
    x = np.arange(20.0).reshape(-1, 1)
    ds = nn.Dataset(x, np.arange(20.0), "regression")
    net = nn.Network("1,1", "regression", seed=4)
    nn.train(net, ds, epochs=1, holdout=0, networks=3)
    words = model_page.command_of(net, "folder/m.bin", "t.csv").split()
    given = dict(zip(words[2::2], words[3::2], strict=False))
    assert given["--networks"] == "3"
    assert given["--seed"] == "4"
    assert given["--epochs"] == "1"
    assert given["--model"] == "m.bin"
    assert given["--layers"] == "1,1:linear"


@pytest.mark.parametrize(
    "unused, dropped",
    [
        ([("id", "id"), ("a,b", "dropped")], 'id,"a,b"'),
        (None, "0,3"),  # of an earlier version
        # names that would be taken for places, or tell no column apart, or none
        ([("7", "dropped"), ("id", "id")], "0,3"),
        ([("x", "dropped"), ("id", "id")], "0,3"),
        ([("", "empty"), ("id", "id")], "0,3"),
        ([], None),
    ],
)
def test_the_command_of_a_page_drops_columns_by_names_that_tell_them(unused, dropped):
    net = nn.Network("2,1", "regression")
    net.columns = ["x", "z"]
    net.targets = ["y"]
    net.unused = unused
    if dropped is not None:
        net.config = {**net.config, "left_out": [0, 3]}
    words = shlex.split(model_page.command_of(net, "m.bin", "t.csv"))
    given = dict(zip(words[2::2], words[3::2], strict=False))
    assert given.get("--drop") == dropped


@pytest.mark.parametrize(
    "text, broken",
    [
        ("of_1,234_rows,and_more", "of_<wbr>1,234_<wbr>rows,<wbr>and_<wbr>more"),
        ("1,2345,more_words", "1,<wbr>2345,<wbr>more_<wbr>words"),
        ("short_word a/b", "short_word a/b"),
        ("eleven:long and, then", "eleven:<wbr>long and, then"),
        ("&lt;much_longer&gt;", "&lt;much_longer&gt;"),
    ],
)
def test_a_long_word_may_end_a_line_behind_its_marks_but_no_number(text, broken):
    assert page._with_breaks(text) == broken
