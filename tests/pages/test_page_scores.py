"""Pages of classes: every number computed another way, curves read back from their
paths."""

import numpy as np
import pytest
from sklearn import metrics
from support.figures import placements_by_hand
from support.pages import (
    NEAR,
    TWO,
    Drawing,
    area,
    pictures_of,
    tables_of,
    texts,
    two_classes,
)

import nn
from nn.pages import task_blocks
from nn.test import binary_report, multiclass_report
from nn.test.reports import multilabel_report


def blocks_of(truth, scores, threshold, weights=None):
    """Return (result, blocks) of two classes."""
    result = binary_report(truth, scores, threshold, weights)
    return result, task_blocks.two_class_blocks(
        TWO, result, truth, scores[:, None], weights
    )


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
    assert picture.x.label == "false positive rate"
    assert picture.y.label == "true positive rate (recall)"
    w = np.ones(len(truth)) if weights is None else weights
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
    w = np.ones(len(truth)) if weights is None else weights
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
    weights = rng.integers(1, 9, 300) / 4 if weighted else None
    result = multiclass_report(truth, scores, weights=weights)
    blocks = task_blocks.class_blocks(TWO, result, truth, scores, weights)
    w = np.ones(300) if weights is None else weights
    sure = [max(row) for row in scores]
    is_right = (scores.argmax(axis=1) == truth).astype(int)
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
    written = "{:.1f}".format if weighted else str
    rows = [
        [str(a), *(written(v) if v else "" for v in row)]
        for a, row in enumerate(counts)
    ]
    assert heat.lines == rows
    assert np.allclose(heat.shades, counts / counts.sum(axis=1, keepdims=True))
    wrong = counts - np.diag(np.diag(counts))
    expected = [
        [str(a), str(b), written(wrong[a, b]), f"{wrong[a, b] / counts[a].sum():.1%}"]
        for a, b in sorted(
            np.argwhere(wrong).tolist(), key=lambda pair: -wrong[tuple(pair)]
        )
    ]
    assert tables["most confused"].lines == expected[:12]
    rates = metrics.precision_recall_fscore_support(
        truth, scores.argmax(axis=1), sample_weight=weights
    )
    support = rates[3]
    lines = [
        [str(k), *(f"{rate[k]:.4f}" for rate in rates[:3]), written(support[k])]
        for k in range(classes)
    ]
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


def test_rows_of_one_class_have_no_curves_and_no_scores_of_another():
    _result, blocks = blocks_of(np.zeros(3, int), np.array([-1.0, 0.5, 3.0]), 0.5)
    pictures = pictures_of(blocks)
    assert list(pictures) == ["scores"]
    assert [line.name for line in pictures["scores"].lines][:-1] == ["class ok"]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_drawn_scores_are_shares_of_each_class_by_fortieths(weighted):
    rng = np.random.default_rng(6)
    place = rng.integers(0, 40, 500)
    scores = (place + 0.3) / 40
    truth = (rng.random(500) < place / 40).astype(int)
    scores[:3] = 1.0
    place[:3] = 39
    truth[:3] = 1
    weights = rng.integers(1, 9, 500) / 4 if weighted else None
    _result, blocks = blocks_of(truth, scores, 0.3, weights)
    picture = pictures_of(blocks)["scores"]
    w = np.ones(500) if weights is None else weights
    shares = np.zeros((2, 40))
    for label in (0, 1):
        is_of_class = truth == label
        total = w[is_of_class].sum()
        for k in range(40):
            shares[label, k] = w[is_of_class & (place == k)].sum() / total
    least = shares[shares > 0].min() / 2
    names = [line.name for line in picture.lines]
    assert names == ["class ok", "class fraud", "threshold 0.3"]
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
