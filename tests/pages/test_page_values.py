"""Every number of a model's page, computed another way: curves read back from their
paths, tables by loops."""

import base64
import re
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics
from support.pages import Drawing, named, texts

import nn
from nn.core.thresholds import tempered
from nn.nn.crossed import Crossed
from nn.pages import model_page, page, task_blocks
from nn.pages.chart import Axis, Line, Plot, Scale
from nn.pages.page import Table
from nn.test import binary_report, multiclass_report, regression_report
from nn.test.errors import ranges, row_losses
from nn.test.importance import importance
from nn.test.out_of_fold import out_of_fold

NEAR = 1.5e-3  # of an axis: paths have tenths of a unit, of some hundred
TWO = nn.Network("2,1", "binary")
TWO.describe(classes=["ok", "fraud"])


def two_classes(weighted: bool, rows: int = 240):
    """Truth, scores with ties on the borders of tenths, and weights."""
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 21, rows) / 20
    truth = (rng.random(rows) < 0.1 + 0.7 * scores).astype(int)
    return truth, scores, rng.integers(1, 8, rows) / 4 if weighted else None


def blocks_of(truth, scores, threshold, weights=None):
    """Return (result, blocks) of two classes."""
    result = binary_report(truth, scores, threshold, weights)
    return result, task_blocks.of_two_classes(
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
    assert np.allclose(drawn, np.column_stack([false_alarms, recall]), atol=NEAR)
    true_area = metrics.roc_auc_score(truth, scores, sample_weight=weights)
    assert area(drawn) == pytest.approx(true_area, abs=NEAR)
    assert f"area {true_area:.4f}" in texts(picture.svg())
    if weights is None:
        w = np.ones(len(truth))
    else:
        w = weights
    alarms = scores >= 0.45
    mark = [
        w[alarms & (truth == 0)].sum() / w[truth == 0].sum(),
        w[alarms & (truth == 1)].sum() / w[truth == 1].sum(),
    ]
    assert np.allclose(Drawing(picture).points("mark s1"), [mark], atol=NEAR)
    assert np.allclose(Drawing(picture).points("r"), [[0, 0], [1, 1]], atol=NEAR)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_drawn_precision_and_recall_have_the_average_precision_below_them(weighted):
    truth, scores, weights = two_classes(weighted)
    _result, blocks = blocks_of(truth, scores, 0.45, weights)
    picture = pictures_of(blocks)["precision-recall"]
    drawn = Drawing(picture).points("l s0")
    precision, recall, _ = metrics.precision_recall_curve(
        truth, scores, sample_weight=weights
    )
    assert np.allclose(drawn[2::2, 0], recall[:-1][::-1], atol=NEAR)
    assert np.allclose(drawn[1::2, 1], precision[:-1][::-1], atol=NEAR)
    assert drawn[0] == pytest.approx([0, precision[-2]], abs=NEAR)
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
    assert np.allclose(
        Drawing(picture).points("r"), [[0, share], [1, share]], atol=NEAR
    )
    alarms = scores >= 0.45
    hits = w[alarms & (truth == 1)].sum()
    mark = [hits / w[truth == 1].sum(), hits / w[alarms].sum()]
    assert np.allclose(Drawing(picture).points("mark s1"), [mark], atol=NEAR)


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
        own = [k for k in range(len(scores)) if min(twentieths[k] // 2, 9) == tenth]
        if len(own) >= 10:
            total = sum(weights[k] for k in own)
            mean = sum(weights[k] * scores[k] for k in own) / total
            expected.append([mean, sum(weights[k] for k in own if truth[k]) / total])
    picture = pictures_of(blocks)["calibration"]
    assert len(expected) == 8
    assert np.allclose(Drawing(picture).points("l s0"), expected, atol=NEAR)
    assert np.allclose(Drawing(picture).points("r"), [[0, 0], [1, 1]], atol=NEAR)
    brier = np.average((scores - truth) ** 2, weights=weights)
    assert picture.title == f"Calibration (Brier score {brier:.4g})"
    assert picture.x.label == "score of class fraud"


def test_a_tenth_without_weight_and_one_of_few_rows_of_a_small_table():
    scores = np.array([0.05, 0.25, 0.25, 0.95])
    truth = np.array([0, 1, 0, 1])
    weights = np.array([0.0, 3.0, 1.0, 2.0])
    line = pictures_of(blocks_of(truth, scores, 0.5, weights)[1])["calibration"].lines[
        0
    ]
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
    blocks = task_blocks.of_classes(TWO, result, truth, scores, weights)
    if weights is None:
        w = np.ones(300)
    else:
        w = weights
    sure = [max(row) for row in scores]
    is_right = [
        int(np.argmax(row) == label) for row, label in zip(scores, truth, strict=True)
    ]
    expected = []
    for tenth in range(10):
        own = [k for k in range(300) if min(int(10 * sure[k]), 9) == tenth]
        if len(own) >= 10:
            expected.append(
                [
                    np.average([each[k] for k in own], weights=w[own])
                    for each in (sure, is_right)
                ]
            )
    assert np.allclose(
        Drawing(pictures_of(blocks)["calibration"]).points("l s0"), expected, atol=NEAR
    )
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
    assert heat.lines == [
        [str(a), *(written(v) if v else "" for v in row)]
        for a, row in enumerate(counts)
    ]
    assert np.allclose(heat.shades, counts / counts.sum(axis=1, keepdims=True))
    off = [
        (-counts[a, b], a, b)
        for a in range(classes)
        for b in range(classes)
        if a != b and counts[a, b] > 0
    ]
    expected = [
        [str(a), str(b), written(-n), f"{-n / counts[a].sum():.1%}"]
        for n, a, b in sorted(off)
    ]
    assert tables["most confused"].lines == expected[:12]
    rates = metrics.precision_recall_fscore_support(
        truth, scores.argmax(axis=1), sample_weight=weights
    )
    lines = [
        [str(k), *(f"{each[k]:.4f}" for each in rates[:3]), written(rates[3][k])]
        for k in range(classes)
    ]
    support = rates[3]
    assert tables["classes"].lines == [
        lines[k] for k in sorted(range(classes), key=lambda k: -support[k])
    ]


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
    shares = np.array(
        [
            [
                w[(truth == c) & (place == k)].sum() / w[truth == c].sum()
                for k in range(40)
            ]
            for c in (0, 1)
        ]
    )
    least = shares[shares > 0].min() / 2
    for label in (0, 1):
        corners = Drawing(picture, (False, True)).points(f"a f{label} s{label}")
        assert np.allclose(corners[2:82:2, 0], np.arange(40) / 40, atol=NEAR)
        assert np.allclose(
            np.log(corners[2:82:2, 1]),
            np.log(np.maximum(shares[label], least)),
            atol=0.03,
        )
    rule = Drawing(picture, (False, True)).points("r")
    assert np.allclose(rule[:, 0], 0.3, atol=NEAR)
    assert rule[:, 1] == pytest.approx([least, 1], rel=0.03)


def test_the_confusion_of_two_classes_stands_where_its_names_are():
    truth, scores, weights = two_classes(True)
    _result, blocks = blocks_of(truth, scores, 0.5, weights)
    tn, fp, fn, tp = metrics.confusion_matrix(
        truth, scores >= 0.5, sample_weight=weights
    ).ravel()
    heat = blocks[0]
    assert heat.headers[1:] == ["ok", "fraud"]
    assert heat.lines == [
        ["ok", f"{tn:.1f}", f"{fp:.1f}"],
        ["fraud", f"{fn:.1f}", f"{tp:.1f}"],
    ]
    assert np.allclose(
        heat.shades,
        [[tn / (tn + fp), fp / (tn + fp)], [fn / (fn + tp), tp / (fn + tp)]],
    )


def test_thresholds_of_scores_that_are_no_probabilities_are_tenths_of_their_range():
    truth = np.array([0, 1, 0, 1, 1, 0, 1])
    scores = np.array([-1.0, -0.5, 0.0, 1.0, 2.0, 2.0, 3.0])
    _result, blocks = blocks_of(truth, scores, 0.8)
    table = tables_of(blocks)["thresholds"]
    cuts = sorted([*np.linspace(-1, 3, 11), 0.8])
    assert [line[0].split()[0] for line in table.lines] == [
        f"{cut:.4g}" for cut in cuts
    ]
    for cut, line in zip(cuts, table.lines, strict=True):
        alarms = scores >= cut
        assert line[1] == f"{metrics.precision_score(truth, alarms):.4f}"
        assert line[4] == f"{1000 * alarms.sum() / 7:.1f}"


# ---------------------------------------------------------------- numbers


def numbers(targets: int, rows: int = 200):
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(rows, targets)) * 3
    return truth, truth + rng.normal(size=(rows, targets)) * 0.5 + 0.2 * np.arange(
        targets
    ) + 0.1


def weights_of(rows: int) -> np.ndarray:
    """Weights of rows, of which some are 0."""
    return np.random.default_rng(12).integers(0, 9, rows) / 4


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
    blocks = task_blocks.of_numbers(
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
        assert np.allclose(drawing.points(f"dots s{k}"), expected, atol=wide * 2)
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
        assert (
            pictures["errors"].lines[k].name
            == f"output {k}: mean {mean:.3g}, deviation {deviation:.3g}"
        )


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_by_range_of_the_prediction_are_those_of_a_loop(weighted):
    truth, predicted = numbers(2)
    if weighted:
        weights = weights_of(200)
    else:
        weights = None
    net = nn.Network("2,2", "regression")
    net.describe(targets=["u", "v"])
    tables = tables_of(
        task_blocks.of_numbers(
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
            own = [row for row in counting if edges[at] <= predicted[row, k] < high]
            rows = sum(w[row] for row in own)
            pairs = sorted((predicted[row, k] - truth[row, k], w[row]) for row in own)
            ends = []
            # the least error at or below which this share of the weights lies
            for share in (0.05, 0.95):
                passed = 0.0
                place = -1
                while passed < share * rows - 1e-9:
                    place += 1
                    passed += pairs[place][1]
                ends.append(pairs[place][0])
            assert line == [
                f"{edges[at]:.4g} to {edges[at + 1]:.4g}",
                f"{rows:.1f}" if weighted else str(len(own)),
                f"{sum(error * weight for error, weight in pairs) / rows:.4g}",
                f"{(sum(error * error * weight for error, weight in pairs) / rows) ** 0.5:.4g}",
                f"{ends[0]:.4g} to {ends[1]:.4g}",
            ]


def test_errors_whose_squares_leave_float64_have_no_rmse_and_no_deviation():
    truth = np.linspace(1.0, 2.0, 16)[:, None] * 1e200
    blocks = task_blocks.of_numbers(
        nn.Network("2,1", "regression"), {}, truth, truth * 0.5, None
    )
    (table,) = tables_of(blocks).values()
    assert {line[3] for line in table.lines} == {"undefined"}
    assert next(line[2] for line in table.lines) == f"{-0.5 * truth[:2].mean():.4g}"
    assert (
        pictures_of(blocks)["errors"].lines[0].name
        == "output 0: mean -7.5e+199, deviation undefined"
    )


def test_ranges_hold_each_known_value_once_and_ties_together():
    values = np.array([1, 1, 1, 1, 1, 2, 3, 4, 5, np.nan, 6, 6])
    found = [(ends, values[own].tolist()) for ends, own in ranges(values, 4)]
    assert found == [
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
    found = []
    for (column, values), of_group in members_of.items():
        own = [k for k in of_group if w[k] > 0]
        if least <= len(own) < len(counting):
            rows = sum(w[k] for k in own)
            own_mean = sum(losses[k] * w[k] for k in own) / rows
            standard_error = deviation * sum(w[k] ** 2 for k in own) ** 0.5 / rows
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
                found.append((-above, line))
    return [line for _, line in sorted(found)]


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_quarters_words_and_gaps_of_a_loss_three_standard_errors_above(
    weighted,
):
    rng = np.random.default_rng(8)
    x = rng.permutation(400).astype(float)
    word = np.where(x < 19, "few", np.where(x < 60, "bad", "good"))
    gap = np.where(rng.random(400) < 0.1, np.nan, rng.normal(size=400))
    ds = nn.load({"x": x, "word": word, "gap": gap, "y": x}, target="y")
    net = nn.Network("3,1", "regression")
    net.describe(columns=["x", "word", "gap"])
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
    found = task_blocks.groups(net, ds.x, np.zeros((400, 1)), errors[:, None], weights)
    members_of = {("gap", "(missing)"): np.flatnonzero(np.isnan(gap))}
    for name in ("few", "bad", "good"):
        members_of["word", name] = np.flatnonzero(word == name)
    known = np.sort(gap[~np.isnan(gap)])
    for column, values, edges in (
        ("x", x, np.quantile(x, [0, 0.25, 0.5, 0.75, 1])),
        ("gap", gap, np.quantile(known, [0, 0.25, 0.5, 0.75, 1])),
    ):
        for k in range(4):
            is_in = (values >= edges[k]) & (
                (values < edges[k + 1]) if k < 3 else (values <= edges[4])
            )
            members_of[column, f"{edges[k]:.4g} to {edges[k + 1]:.4g}"] = (
                np.flatnonzero(is_in)
            )
    expected = groups_by_loop(
        errors, members_of, 20, weights.tolist() if weighted else [1] * 400
    )
    assert len(expected) >= 2
    assert found.lines == expected
    if weighted:
        rows = f"{weights.sum():.1f}"
    else:
        rows = "400"
    assert (
        found.caption
        == f"groups of rows; all {rows}: {np.average(errors, weights=weights):.4g}"
    )
    assert found.headers == [
        "column",
        "values",
        "rows",
        "mean absolute error",
        "of all",
    ]


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
    net.describe(columns=["word"])
    found = task_blocks.groups(net, ds.x, np.zeros((rows, 1)), losses[:, None])
    assert isinstance(found, Table) == is_told


def test_the_loss_of_a_row_is_its_log_loss_or_its_mean_absolute_error():
    truth = np.array([0, 1, 1])
    scores = np.array([[0.2], [0.9], [0.0]], np.float32)
    found = row_losses(TWO, truth, scores)
    assert found == pytest.approx(
        [-np.log(0.8), -np.log(0.9), -np.log(1e-12)], rel=1e-6
    )
    three = nn.Network("2,3", "multiclass")
    scores = np.array([[0.2, 0.5, 0.3], [0.1, 0.8, 0.1]])
    assert row_losses(three, np.array([2, 0]), scores) == pytest.approx(
        [-np.log(0.3), -np.log(0.1)]
    )
    linear = nn.Network("2,1:linear", "binary", loss="mse")
    linear.describe(threshold=0.4)
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
    lines = np.frombuffer(
        zlib.decompress(data[at + 4 : at + 4 + size]), np.uint8
    ).reshape(height, width + 1)
    return lines[:, 1:]


def test_the_worst_mistakes_are_the_largest_losses_with_their_labels_and_pixels():
    rng = np.random.default_rng(9)
    x = rng.random((30, 1, 2, 3)) * 4 - 2
    truth = rng.integers(0, 3, 30)
    scores = rng.dirichlet(np.ones(3), 30)
    net = nn.Network("1x2x3,3", "multiclass")
    net.describe(classes=["a", "b", "c"])
    table = task_blocks.mistakes(net, x, truth, scores)
    order = sorted(range(30), key=lambda k: scores[k, truth[k]])[:12]
    assert [line[1:] for line in table.lines] == [
        [str(k), "abc"[truth[k]], "abc"[int(np.argmax(scores[k]))]] for k in order
    ]
    for line, k in zip(table.lines, order, strict=True):
        expected = 255 * (x[k, 0] - x[k].min()) / (x[k].max() - x[k].min())
        assert np.array_equal(pixels_of(line[0]), expected.astype(np.uint8))


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
    for number, each in enumerate((losses, of_validation)):
        drawn = Drawing(pictures["loss"], (False, True)).points(f"l s{number}")
        assert np.allclose(drawn[:, 0], [1, 2, 3, 4, 5], atol=0.02)
        assert np.allclose(drawn[:, 1], each, rtol=0.01)
    assert [line.name for line in pictures["loss"].lines] == [
        "training rows",
        "validation rows",
    ]
    drawn = Drawing(pictures["metric"]).points("l s0")
    known = [
        (epoch, value) for epoch, value in enumerate(values, 1) if value is not None
    ]
    assert np.allclose(drawn, known, atol=0.02)
    assert np.allclose(Drawing(pictures["metric"]).points("r")[:, 0], best, atol=0.02)
    assert (
        pictures["metric"].title
        == f"{monitor} while training; epoch {best} is the best"
    )


def test_the_columns_tell_shares_ranges_medians_and_gaps():
    words = ["red"] * 50 + ["green"] * 30 + ["blue"] * 10 + ["grey"] * 6 + ["pink"] * 4
    rng = np.random.default_rng(0)
    size = np.concatenate(
        [np.arange(1.0, 76.0), np.full(5, 100.0), np.full(20, np.nan)]
    )
    gappy = ["x"] * 30 + ["y"] * 10 + [""] * 60
    table = [
        {
            "word": word,
            "size": str(each) if each == each else "",
            "gappy": other,
            "y": rng.normal(),
        }
        for word, each, other in zip(words, size, gappy, strict=True)
    ]
    ds = nn.load(table, target="y")
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=1, holdout=0)
    table = model_page._columns(net, ds.x)[0]
    by_name = {line[0]: line[3:] for line in table.lines}
    assert by_name["word"] == ["red 50%, green 30%, blue 10%, 2 more", "", ""]
    assert by_name["gappy"] == ["x 75%, y 25%", "", "60.0%"]
    counts = [0] * 12
    for value in size[:80]:
        counts[min(int((value - 1) / 99 * 12), 11)] += 1
    most = max(counts)
    bars = "".join(" ▁▂▃▄▅▆▇█"[-(-8 * count // most)] for count in counts)
    assert by_name["size"] == ["1 to 100, median 40.5", bars, "20.0%"]
    assert " " in bars
    assert "█" in bars


def test_the_answer_has_the_rates_of_the_rows():
    truth, scores, weights = two_classes(True)
    result = binary_report(truth, scores, 0.5, weights) | {
        "intervals": {"recall": [0.25, 0.75], "roc_auc": None}
    }
    alarms = scores >= 0.5
    there = weights[truth == 1].sum()
    called = weights[alarms].sum()
    hits = weights[alarms & (truth == 1)].sum()
    assert task_blocks.answer(TWO, result, "rows") == (
        f"On 240 rows, the model finds {hits / there:.4f} (95%: 0.2500 to 0.7500) of the {there:.1f} of class fraud; "
        f"of its {called:.1f} alarms {hits / called:.4f} are right. "
        f"ROC-AUC {metrics.roc_auc_score(truth, scores, sample_weight=weights):.4f}."
    )
    truth = np.array([0, 0, 1, 2, 0, 1])
    scores = np.eye(3)[[0, 1, 1, 1, 0, 1]]
    several = nn.Network("2,3", "multiclass")
    told = task_blocks.answer(several, multiclass_report(truth, scores), "new rows")
    assert (
        told
        == "On 6 new rows, the model is right for 0.6667; the most frequent class alone would be for 0.5000."
    )
    truth = np.array([[1.0], [2.0], [6.0]])
    predicted = np.array([[2.0], [2.0], [4.0]])
    told = task_blocks.answer(
        nn.Network("2,1", "regression"), regression_report(truth, predicted), "rows"
    )
    rmse = (5 / 3) ** 0.5
    r2 = 1 - 5 / 14
    off = f"{rmse:.6g} (root mean square), 1 (mean absolute); R2 {r2:.6g}"
    assert told == f"On 3 rows, the model is off by {off}."


def test_the_importance_of_a_page_has_bars_of_the_largest_and_the_metric_of_all_rows():
    known = SimpleNamespace(
        metric="rmse",
        baseline=1.25,
        rows=9,
        names=["a", "b", "c", "d"],
        mean=[4.0, 1.0, 0.1, -2.0],
        low=[3.0, -0.5, 0.0, -1234.5],
        high=[5.0, 2.5, 0.2, -1.0],
        holds=[True] * 4,
        correlated=[("b", "a", -0.953)],
    )
    net = nn.Network("4,1", "regression")
    points = [(1.0, [0.5]), (2.0, [0.75]), (4.0, [2.0])]
    table, picture, told = model_page._importance(net, known, {"a": points})
    assert table.lines == [
        ["a", "█" * 12, "4", "3 to 5"],
        ["b", "███", "1", "-0.5 to 2.5"],
        ["c", "▎", "0.1", "0 to 0.2"],
        ["d", "", "-2", "-1234 to -1"],
    ]
    assert table.caption.startswith("how much worse RMSE (1.25) is")
    assert np.allclose(
        Drawing(picture).points("l s0"), [[1, 0.5], [2, 0.75], [4, 2]], atol=0.02
    )
    assert (
        told
        == "b and a are correlated (-0.95): what one of them tells, the other may tell too."
    )
    picture = model_page._curve(TWO, "word", [("red", [0.25]), ("", [0.5])], 3)
    assert (picture.lines[0].x, picture.lines[0].y) == ([0, 1], [0.25, 0.5])
    assert picture.x.words == ("red", "(missing)")
    assert picture.lines[0].name == "class fraud"
    three = nn.Network("2,3", "multiclass")
    three.describe(classes=["a", "b", "c"])
    picture = model_page._curve(
        three, "x", [(0.0, [0.2, 0.3, 0.5]), (1.0, [0.6, 0.3, 0.1])], 0
    )
    assert {line.name: line.y for line in picture.lines} == {
        "class a": [0.2, 0.6],
        "class b": [0.3, 0.3],
        "class c": [0.5, 0.1],
    }


# ---------------------------------------------------------------- charts


def test_the_table_of_a_picture_has_its_first_and_last_points_and_some_between():
    line = Line("l", np.arange(15.0), 2 * np.arange(15.0))
    headers, lines = Plot("p", "t", Axis("x"), Axis("y"), [line]).table()
    assert headers == ["", "x", "y"]
    assert lines == [["l", str(k), str(2 * k)] for k in range(0, 15, 2)]
    words = Plot(
        "p",
        "t",
        Axis("x", words=("one", "two")),
        Axis("y"),
        [Line("w", [1, 0], [0.12344, 7])],
    )
    assert words.table()[1] == [["w", "two", "0.1234"], ["w", "one", "7"]]


def test_a_table_of_a_page_has_its_cells_in_order_and_its_shades_on_the_numbers():
    table = Table(
        "t",
        ["name", "x", "y"],
        [["a", "1", "2"], ["b", "3", "4"]],
        shades=[[0.25, 0.5], [0.75, 0.0]],
    )
    cells = re.findall(r"<t[hd]([^>]*)>([^<]*)</t[hd]>", page._html_table(table))
    assert [text for _, text in cells] == [
        "name",
        "x",
        "y",
        "a",
        "1",
        "2",
        "b",
        "3",
        "4",
    ]
    shades = [
        re.search(r"rgb\(42 127 192/([\d.]+)\)", attributes) for attributes, _ in cells
    ]
    assert [None if shade is None else shade[1] for shade in shades] == [
        None,
        None,
        None,
        None,
        "0.25",
        "0.50",
        None,
        "0.75",
        None,
    ]
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
    is_log = [
        Scale(Axis(log=True), [1.0, high], 0.0, 400.0).is_log for high in (20.0, 20.1)
    ]
    assert is_log == [False, True]
    scale = Scale(Axis(log=True, ends=(1.0, 100.0)), [], 100.0, 300.0)
    assert [scale.at(value) for value in (1, 10, 100, 0, 0.5, -3)] == pytest.approx(
        [100, 200, 300, 100, 100, 100]
    )
    assert [text for _, text in scale.ticks] == ["1", "2", "5", "10", "20", "50", "100"]
    plain = Scale(Axis(), [0.0, 10.0], 0.0, 108.0)
    assert [plain.at(value) for value in (0, 10)] == pytest.approx([4, 104]), (
        "4 % of the values are left at each end"
    )


def test_ticks_stand_where_the_axis_has_their_values():
    for axis, values in (
        (Axis(), [0.0, 7.3]),
        (Axis(log=True), [0.5, 900.0]),
        (Axis(ends=(0, 1)), []),
    ):
        scale = Scale(axis, values, 30.0, 426.0)
        assert all(
            place == pytest.approx(scale.at(float(text))) for place, text in scale.ticks
        )
        assert all(30 <= place <= 426 for place, _ in scale.ticks)


def test_a_line_of_many_points_keeps_those_that_move_by_a_step_of_the_grid():
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(5000))
    line = Line("", x, np.cumsum(rng.random(5000)))
    kept_x = np.array(line.x)
    kept_y = np.array(line.y)
    assert len(kept_x) < 1200
    assert (kept_x[0], kept_x[-1]) == (x[0], x[-1])
    y = np.cumsum(np.random.default_rng(0).random(10_000)[5000:])
    assert np.abs(np.interp(x, kept_x, kept_y) - y).max() < 0.01 * y.max()
    assert len(Line("", np.arange(400), np.zeros(400)).x) == 400


def test_a_comparison_shows_each_models_own_numbers():
    result = {
        "models": ["x/a.bin", "b.bin"],
        "rows": 12,
        "verdict": "b.bin is better than x/a.bin: RMSE 1 beside 2",
        "metrics": {
            "rmse": {
                "x/a.bin": 2.0,
                "b.bin": 1.0,
                "difference": -1.0,
                "interval": [-1.5, -0.25],
            },
            "r2": {"x/a.bin": None, "b.bin": 0.5, "difference": None, "interval": None},
        },
        "disagree": [
            {"row": 7, "true": [1.5], "x/a.bin": [0.12345], "b.bin": [2.0, 3.0]}
        ],
    }
    told = model_page.of_comparison(result)
    table, differ = told.sections["Metrics"]
    assert told.answer == ["b.bin is better than a.bin: RMSE 1 beside 2."]
    assert table.headers[1:3] == ["a.bin", "b.bin"]
    assert table.caption == "12 rows"
    none = "undefined"
    assert table.lines == [
        ["RMSE", "2", "1", "-1", "-1.5 to -0.25"],
        ["R2", none, "0.5", none, none],
    ]
    assert differ.lines == [["7", "[1.5]", "0.123", "2; 3"]]


def test_the_page_of_a_model_tells_the_figures_of_the_test_of_its_rows():
    """With weights, in the sentence, the tables and the pictures alike."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(120, 2)).round(1)
    y = (x[:, 0] + rng.normal(size=120) > 0).astype(int)
    ds = nn.Dataset(x, y, "binary", ["0", "1"], weights=rng.integers(1, 9, 120) / 4)
    net = nn.Network("2,1", "binary", seed=1)
    nn.train(net, ds, epochs=5, holdout=0)
    told = model_page.of_model(net, "m.bin", ds)
    scores = net.predict(ds.x)[:, 0]
    auc = metrics.roc_auc_score(y, scores, sample_weight=ds.weights)
    loss = metrics.log_loss(y, scores.astype(np.float64), sample_weight=ds.weights)
    written = {
        line[0]: line[1] for line in tables_of(told.sections["Result"])["metrics"].lines
    }
    assert written["ROC-AUC"] == f"{auc:.4f}"
    assert written["log loss"] == f"{loss:.4f}"
    assert re.search(rf"ROC-AUC {auc:.4f} \(95%: ", told.answer[0])
    assert area(Drawing(named(told.pictures)["roc"]).points("l s0")) == pytest.approx(
        auc, abs=NEAR
    )
    known = SimpleNamespace(
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
    told = model_page.of_model(net, "m.bin", ds, threshold=0.3, important=(known, {}))
    recall = metrics.recall_score(y, scores >= 0.3, sample_weight=ds.weights)
    precision = metrics.precision_score(y, scores >= 0.3, sample_weight=ds.weights)
    assert recall != metrics.recall_score(y, scores >= 0.5, sample_weight=ds.weights)
    assert f"finds {recall:.4f} (95%: " in told.answer[0]
    assert f"alarms {precision:.4f} (95%: " in told.answer[0]
    assert "What matters most: a, c, d." in told.answer
    ends = nn.test(net, ds, threshold=0.3, intervals=True)["intervals"]
    lines = {
        line[0]: line for line in tables_of(told.sections["Result"])["metrics"].lines
    }
    assert lines["recall"] == [
        "recall",
        f"{recall:.4f}",
        " to ".join(f"{end:.4f}" for end in ends["recall"]),
    ]
    assert lines["ROC-AUC"][2] == " to ".join(f"{end:.4f}" for end in ends["roc_auc"])
    measured = importance(net, ds)
    table = model_page.of_model(net, "m.bin", ds).sections["Columns that matter"][0]
    assert [line[0] for line in table.lines] == measured.names
    assert [line[2] for line in table.lines] == [
        f"{mean:.3g}" for mean in measured.mean
    ]


@pytest.mark.parametrize("rows, has_intervals", [(9, False), (10, True)])
def test_a_page_has_intervals_from_ten_rows(rows, has_intervals):
    x = np.arange(rows, dtype=float).reshape(-1, 1)
    ds = nn.Dataset(x, x[:, 0] + (-1.0) ** np.arange(rows), "regression")
    told = model_page.of_model(nn.Network("1,1", "regression", seed=1), "m.bin", ds)
    lines = {
        line[0]: line for line in tables_of(told.sections["Result"])["metrics"].lines
    }
    assert (" to " in lines["RMSE"][2]) == has_intervals


def test_pictures_of_mistakes_are_bytes_as_they_are_or_scaled_by_the_training():
    net = nn.Network("1x1x4,1", "binary")
    bytes_of = np.array([[[[0, 60, 120, 200]]]], np.uint8)
    table = task_blocks.mistakes(net, bytes_of, np.array([1]), np.array([[0.25]]))
    assert pixels_of(table.lines[0][0]).tolist() == [[0, 60, 120, 200]]
    assert table.lines[0][2:] == ["1", "0"]
    net.pictures = {"range": 2.0}
    table = task_blocks.mistakes(
        net, np.array([[[[0.5, 1.0, 1.5, 2.5]]]]), np.array([1]), np.array([[0.25]])
    )
    assert pixels_of(table.lines[0][0]).tolist() == [[63, 127, 191, 255]]


def test_the_page_of_a_model_with_folds_shows_the_scores_out_of_fold():
    """Each fold has a temperature and a threshold of its own; areas are by the scores
    before any temperature."""
    rng = np.random.default_rng(14)
    x = rng.normal(size=(160, 2))
    fold = np.arange(160) % 4
    x[fold == 3] += 0.5
    y = (x[:, 0] + rng.normal(size=160) > 0).astype(int)
    ds = nn.Dataset(x, y, "binary", ["0", "1"], weights=rng.integers(1, 9, 160) / 4)
    net = nn.Network("2,1", "binary", seed=1)
    nn.train(net, ds, epochs=1, holdout=0)
    judged = fold < 3
    kept = (
        np.round(1 / (1 + np.exp(-x[judged, :1])), 2)
        .clip(0.02, 0.98)
        .astype(np.float32)
    )
    crossed = Crossed.of(160, np.flatnonzero(judged), fold[judged], kept, 3)
    net.describe(crossed=Crossed(crossed.fold, kept, [0.5, 1.0, 2.0], [0.35, 0.5, 0.6]))
    scores = np.empty(120)
    for number, temperature in enumerate((0.5, 1.0, 2.0)):
        own = fold[judged] == number
        scores[own] = tempered(kept[own], temperature)[:, 0]
    truth = y[judged]
    w = ds.weights[judged]
    said = scores >= np.array([0.35, 0.5, 0.6])[fold[judged]]
    known = SimpleNamespace(
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
    told = model_page.of_model(
        net, "m.bin", ds, out_of_fold=out_of_fold(net, ds), important=(known, {})
    )
    written = {
        line[0]: line[1] for line in tables_of(told.sections["Result"])["metrics"].lines
    }
    assert written == {
        name: f"{value:.4f}"
        for name, value in {
            "precision": metrics.precision_score(truth, said, sample_weight=w),
            "recall": metrics.recall_score(truth, said, sample_weight=w),
            "F1": metrics.f1_score(truth, said, sample_weight=w),
            "accuracy": metrics.accuracy_score(truth, said, sample_weight=w),
            "MCC": metrics.matthews_corrcoef(truth, said, sample_weight=w),
            "ROC-AUC": metrics.roc_auc_score(truth, kept[:, 0], sample_weight=w),
            "PR-AUC": metrics.average_precision_score(
                truth, kept[:, 0], sample_weight=w
            ),
            "log loss": metrics.log_loss(truth, scores, sample_weight=w),
            "Brier score": metrics.brier_score_loss(truth, scores, sample_weight=w),
        }.items()
    }
    pictures = named(told.pictures)
    result = told.sections["Result"]
    tn, fp, fn, tp = metrics.confusion_matrix(truth, said, sample_weight=w).ravel()
    heat = next(
        block
        for block in result
        if isinstance(block, Table) and "darker" in block.caption
    )
    assert heat.lines == [
        ["0", f"{tn:.1f}", f"{fp:.1f}"],
        ["1", f"{fn:.1f}", f"{tp:.1f}"],
    ]
    area_of_scores = metrics.roc_auc_score(truth, scores, sample_weight=w)
    assert area(Drawing(pictures["roc"]).points("l s0")) == pytest.approx(
        area_of_scores, abs=NEAR
    )
    drawn = Drawing(pictures["calibration"]).points("l s0")
    expected = []
    for tenth in range(10):
        own = np.minimum((scores * 10).astype(int), 9) == tenth
        if own.sum() >= 10:
            expected.append(
                [np.average(each[own], weights=w[own]) for each in (scores, truth)]
            )
    assert np.allclose(drawn, expected, atol=NEAR)
    thresholds = {line[0]: line for line in tables_of(result)["thresholds"].lines}
    assert (
        thresholds["0.3"][2]
        == f"{metrics.recall_score(truth, scores >= 0.3, sample_weight=w):.4f}"
    )
    losses = np.average(-np.log(np.where(truth == 1, scores, 1 - scores)), weights=w)
    assert f"{losses:.4g}" in str(told.sections["Where it errs most"][0])


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
        expected = importance(net, ds, parts=[(np.arange(0, 120, every), None)])
        known, _ = model_page._important(model_page.Tested(net, ds))
        assert (known.rows, known.mean, known.baseline) == (
            120 // every,
            expected.mean,
            expected.baseline,
        )


def test_texts_of_axes_have_room_words_that_do_not_fit_are_turned():
    """A letter is 7 units wide, as a usual one of 12 pixels is."""
    svg = Plot(
        "p", "t", Axis("x"), Axis("y"), [Line("l", [0, 1], [0.0, 250_000.0])]
    ).svg()
    upwards = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="e">([^<]*)<', svg)
    assert {text for _, text in upwards} >= {"0", "200000"}
    assert min(float(x) - 7 * len(text) for x, text in upwards) >= 12 + 6, (
        "beside the label of the axis"
    )
    assert "rotate(-25" not in svg
    # five words and two letters between them on 380 units
    for letters, is_turned in ((6, False), (12, True)):
        words = tuple(letter * letters for letter in "abcde")
        svg = Plot(
            "p",
            "t",
            Axis("x", words=words),
            Axis("y"),
            [Line("l", range(5), range(5), "mark")],
        ).svg()
        found = re.findall(
            r'<text x="([\d.]+)" y="([\d.]+)" class="(\w)"([^>]*)>([a-e]{2,})<', svg
        )
        assert [text for *_, text in found] == [*words]
        assert [kind for _, _, kind, _, _ in found] == ["e" if is_turned else "m"] * 5
        for x, y, _, turned, _ in found:
            assert turned == (f' transform="rotate(-25 {x} {y})"' if is_turned else "")


def test_of_many_words_the_eight_most_frequent_are_groups():
    sizes = [100 - 5 * k for k in range(10)]
    word = np.repeat([f"w{k}" for k in range(10)], sizes)
    ds = nn.load({"word": word, "y": np.zeros(len(word))}, target="y")
    net = nn.Network("1,1", "regression")
    net.describe(columns=["word"])
    errors = np.random.default_rng(0).random(len(word)) + np.isin(
        word, ["w0", "w7", "w8"]
    )
    found = task_blocks.groups(net, ds.x, np.zeros((len(word), 1)), errors[:, None])
    assert sorted(line[1] for line in found.lines) == ["w0", "w7"]


def test_a_legend_stays_within_the_picture_and_lines_from_the_eighth_on_are_dashed():
    lines = [
        Line(f"a line of a rather long name, {k}", [0, 1], [k, k + 1]) for k in range(9)
    ]
    svg = Plot("p", "t", Axis("x"), Axis("y"), lines).svg()
    names = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">(a line[^<]*)<', svg)
    assert [text[-1] for *_, text in names] == list("012345678")
    assert all(float(x) + 7 * len(text) <= 440 for x, _, text in names)
    assert len({y for _, y, _ in names}) >= 5
    dashes = re.findall(
        r'<path class="l s(\d)"( stroke-dasharray="7 4")? d="M[\d.]+ [\d.]+L', svg
    )[:9]
    dashed = ' stroke-dasharray="7 4"'
    assert dashes == [*((str(k), "") for k in range(7)), ("0", dashed), ("1", dashed)]


def test_the_command_of_a_page_has_the_number_of_networks():
    ds = nn.Dataset(np.arange(20.0).reshape(-1, 1), np.arange(20.0), "regression")
    net = nn.Network("1,1", "regression", seed=4)
    nn.train(net, ds, epochs=1, holdout=0, networks=3)
    words = model_page.command_of(net, "folder/m.bin", "t.csv").split()
    given = dict(zip(words[2::2], words[3::2], strict=False))
    assert given["--networks"] == "3"
    assert given["--seed"] == "4"
    assert given["--epochs"] == "1"
    assert given["--model"] == "m.bin"
    assert given["--layers"] == "1,1:linear"
