"""Charts of a page: what is drawn stands where its numbers are."""

import json
import os
import re
import shlex

import numpy as np
import pytest
from sklearn import metrics
from support.command_line import succeed
from support.figures import placements_by_hand
from support.pages import (
    NEAR,
    Drawing,
    area,
    importances_of,
    named,
    pixels_of,
    tables_of,
)

import nn
from nn.core.thresholds import tempered
from nn.nn.crossed import Crossed
from nn.pages import model_page, page, task_blocks
from nn.pages.chart import MARKERS, Axis, Line, Plot, Scale
from nn.pages.page import Table
from nn.test.importance import importance
from nn.test.out_of_fold import out_of_fold
from nn.utils import figure_text


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
    special = r"a\`*_[]<>|#&b"
    escaped = page._markdown_table("", [special], [])
    escaped = escaped.removesuffix(" |\n| --- |").removeprefix("| ")
    assert escaped == "a" + "".join(f"\\{c}" for c in special[1:-1]) + "b"
    assert page._markdown_table("", table.headers, table.lines) == (
        "| name | x | y |\n| --- | --- | --- |\n| a | 1 | 2 |\n| b | 3 | 4 |"
    )


def test_an_image_of_more_pixels_has_every_second_or_third_of_them():
    image = np.arange(97 * 40, dtype=np.uint32).reshape(97, 40).astype(np.uint8)
    assert np.array_equal(pixels_of(page.image_of(image)), image[::3, ::3])
    assert np.array_equal(pixels_of(page.image_of(image[:96])), image[:96:2, ::2])
    assert np.array_equal(pixels_of(page.image_of(image[:48])), image[:48])
    assert np.array_equal(pixels_of(page.image_of(image.T)), image.T[::3, ::3])


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


@pytest.mark.parametrize(
    "axis, values, ticks",
    [
        (Axis(), [0.0, 7.3], ["0", "2", "4", "6"]),
        (Axis(), [1.0, 2.0, 3.0], ["1", "2", "3"]),  # of whole numbers
        (Axis(), [1.0, 2.5, 3.0], ["1", "1.5", "2", "2.5", "3"]),
        (Axis(), [7.0], ["4", "6", "8", "10"]),
        (Axis(), [-3e6, 4e6], ["-2,000,000", "0", "2,000,000", "4,000,000"]),
        (Axis(ends=(0, 1)), [], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (Axis(log=True), [0.5, 900.0], ["1", "10", "100", "1,000"]),
        (Axis(log=True), [1e-12, 1.0], ["1e-10", "1e-07", "0.0001", "0.1"]),
    ],
)
def test_ticks_are_round_values_where_the_axis_has_them(axis, values, ticks):
    scale = Scale(axis, values, 30.0, 426.0)
    assert [text for _, text in scale.ticks] == ticks
    for place, text in scale.ticks:
        assert place == pytest.approx(scale.at(float(text.replace(",", ""))))
        assert 30 <= place <= 426


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
    # of a staircase, as a ROC curve is, every corner
    steps = np.repeat(np.arange(12) / 11, 100)
    corners = [*zip(steps[:-50], steps[50:], strict=True)]
    stairs = Line("", *zip(*corners, strict=True))
    assert {*zip(stairs.x, stairs.y, strict=True)} == {*corners}
    for count, marks in ((30, 30), (31, 0)):
        line = Line("", range(count), range(count))
        svg = Plot("p", "t", Axis("x"), Axis("y"), [line]).svg()
        assert svg.count(MARKERS[0]) == marks


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
    assert table.headers[1:3] == differ.headers[2:] == ["a.bin", "b.bin"]
    assert table.caption == "12 rows"
    none = "undefined"
    expected = [
        ["RMSE", "2", "1", "-1", "-1.5 to -0.25"],
        ["R2", none, "0.5", none, none],
    ]
    assert table.lines == expected
    assert differ.lines == [["7", "1.5", "0.123", "2; 3"]]
    for models in (["x/m", "x/m2/n"], ["x/m2/n", "x/m"]):  # one begins as the other
        verdict = f"{models[0]} is better than {models[1]}"
        named = dict(models=models, rows=12, verdict=verdict, metrics={}, disagree=[])
        names = [model[-1] for model in models]
        answer = f"{names[0]} is better than {names[1]}."
        assert model_page.page_of_comparison(named).answer == [answer]
    for models in (["a.bin", "x/a.bin"], ["x/a.bin", "a.bin"]):
        verdict = f"{models[1]} is better than {models[0]}: RMSE 1 beside 2"
        named = dict(models=models, rows=12, verdict=verdict, metrics={}, disagree=[])
        report = model_page.page_of_comparison(named)
        verdict = "a.bin (2) is better than a.bin (1): RMSE 1 beside 2."
        assert report.answer == [verdict]


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
    importances = importances_of("abcde", holds=[True, False, True, True, True])
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


@pytest.mark.parametrize(
    "rows, has_intervals", [(9, False), (10, True), (12, True), (13, False)]
)
def test_a_page_has_intervals_from_ten_rows_up_to_the_most(
    rows, has_intervals, monkeypatch
):
    monkeypatch.setattr(model_page, "MOST_INTERVALS", 12)
    x = np.arange(rows, dtype=float).reshape(-1, 1)
    y = x + (-1.0) ** np.arange(rows)[:, None] * [1, 3]
    net = nn.Network("1,2", "regression", seed=1)
    report = model_page.page_of_model(net, "m.bin", nn.Dataset(x, y, "regression"))
    tables = tables_of(report.sections["Result"])
    lines = {line[0]: line for line in tables["metrics"].lines}
    assert (" to " in lines["RMSE"][2]) == has_intervals
    assert tables["metrics"].headers[2] == ("95 % interval" if has_intervals else "")
    by_metric = {line[0]: line[1:] for line in tables["metrics by target"].lines}
    told = nn.test(net, nn.Dataset(x, y, "regression"), intervals=has_intervals)
    for text, target in zip(by_metric["RMSE"], told["per_target"], strict=True):
        expected = figure_text(target["rmse"])
        if has_intervals:
            ends = map(figure_text, target["intervals"]["rmse"])
            expected = f"{expected} ({' to '.join(ends)})"
        assert text == expected


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


@pytest.mark.parametrize("in_folds", [False, True])
def test_the_worst_mistakes_have_their_own_pixels_and_the_numbers_of_their_rows(
    in_folds,
):
    """Of rows that are held out, or of those that some fold judges."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (20, 3, 2, 1), np.uint8)
    y = np.arange(20) % 2
    judged = np.flatnonzero(np.arange(20) % 4 < 3)
    scores = rng.random((15, 1)).astype(np.float32)
    net = nn.Network("3x2x1,1", "binary")
    ds = nn.Dataset(x, y, "binary")
    given = {"out_of_fold": None}
    if in_folds:
        net.crossed = Crossed.of(20, judged, judged % 4, scores, 3)
        given = {"out_of_fold": out_of_fold(net, ds)}
    else:
        ds = ds.of_rows(judged)
        scores = net.predict(ds.x)
    report = model_page.page_of_model(net, "m.bin", ds, **given)
    (table,) = report.sections["The worst mistakes"]
    of_truth = np.where(y[judged] == 1, scores[:, 0], 1 - scores[:, 0])
    order = np.argsort(of_truth, kind="stable")[:12]
    worst = judged[order[of_truth[order] < 1]]
    assert [line[1] for line in table.lines] == [str(row) for row in worst]
    for line, row in zip(table.lines, worst, strict=True):
        assert np.array_equal(pixels_of(line[0]), np.moveaxis(x[row], 0, 2))


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
    important = importances_of("a"), {}
    report = model_page.page_of_model(
        net, "m.bin", ds, out_of_fold=out_of_fold(net, ds), important=important
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
    # the eight clearest of nine columns that tell the same
    ds = nn.load({f"c{k}": word for k in range(9)} | {"y": y}, target="y")
    net.columns = [f"c{k}" for k in range(9)]
    errors += word == "w0"
    groups = task_blocks.groups(net, ds.x, truth, errors[:, None])
    assert [line[:2] for line in groups.lines] == [[f"c{k}", "w0"] for k in range(8)]


@pytest.mark.parametrize("unit", [1, 1e12])  # whose ticks leave a legend less room
def test_a_legend_stays_within_the_picture_and_lines_from_the_eighth_on_are_dashed(
    unit,
):
    lines = []
    for k in range(9):
        name = f"a line of a name with forty-one letters {k}"
        lines.append(Line(name, [0, 1], [unit * k, unit * (k + 1)]))
    svg = Plot("p", "t", Axis("x"), Axis("y"), lines).svg()
    names = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">(a line[^<]*)<', svg)
    assert [text[-1] for *_, text in names] == list("012345678")
    assert names[0][1] == "294"
    for x, _, text in names:
        assert float(x) + 7 * len(text) <= 440
    assert len({y for _, y, _ in names}) >= 5
    dashes = re.findall(
        r'<path class="l s(\d)"( stroke-dasharray="7 4")? d="M[\d.]+ [\d.]+L', svg
    )[:9]
    dashed = ' stroke-dasharray="7 4"'
    assert dashes == [*((str(k), "") for k in range(7)), ("0", dashed), ("1", dashed)]


def test_a_page_has_the_number_of_networks_and_the_layers_that_all_of_them_share():
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
    net.config = {**net.config, "chosen": ["epochs", "layers"], "clip": True}
    words = model_page.command_of(net, "m.bin", "t.csv").split()
    assert words[words.index("--clip") + 1].startswith("--")
    assert {"--epochs", "--layers"}.isdisjoint(words)
    tables = tables_of(model_page._training(net))
    assert tables["layers"].lines == [["1", "linear", "1", "2"]]
    facts = dict(tables["what was trained"].lines)
    assert facts["layers"] == "1,1:linear"
    assert facts["networks"] == "3, seeds 4, 5, 6"
    assert facts["clip"] == "True"
    assert "multiply-adds" not in facts
    # what became of a setting, in its place
    two = nn.Network("2,1", "binary")
    two.threshold = 0.25
    two.config = {
        **two.config,
        "threshold": "f1",
        "validation": "a/b.csv",
        "clip": None,
    }
    facts = dict(tables_of(model_page._training(two))["what was trained"].lines)
    assert facts["threshold"] == "0.25"
    assert facts["validation"] == "b.csv"
    assert "clip" not in facts
    # those that differ in more than the seed are lines of their own, of many a hundred
    members = [net.sibling(k) for k in range(105)]
    for k, member in enumerate(members):
        member.config = {**member.config, "epochs": max(k, 3)}
    net.combine(members, [2.0, *[1.0] * 104])
    table = tables_of(model_page._training(net))["groups of networks"]
    assert table.headers == ["networks", "weight", "epochs"]
    assert table.lines[:3] == [["1", "2", "3"], ["3", "1", "3"], ["1", "1", "4"]]
    assert len(table.lines) == 100
    # layers of their own, which no one table shows
    others = [*members[:3], net.sibling(9, "1,2,1")]
    net.combine(others, [1.0] * 4)
    assert "layers" not in tables_of(model_page._training(net))


COMMAND = "nn --train --dataset t.csv --model m.bin "


@pytest.mark.parametrize(
    "data, init, told",
    [
        (None, None, ["The model does not say which file it was trained on."]),
        ({"sha256": "01"}, None, ["The model does not say which file it was trained"]),
        (
            {"path": "a/t.csv", "sha256": "01", "part": True},
            None,
            ["The model was trained on some rows of t.csv, and does not say which."],
        ),
        ({"path": "a/t.csv"}, None, [COMMAND]),
        (
            {"path": "a/t.csv", "sha256": "01"},
            "glorot",
            [COMMAND, "SHA-256 of the data: 01"],
        ),
        (
            {"path": "a/t.csv", "sha256": "01"},
            "sha256:23",
            [COMMAND, "SHA-256 of the data: 01", "--init stands for the"],
        ),
    ],
)
def test_a_page_has_the_command_and_the_digest_of_a_file_that_is_known(
    data, init, told
):
    net = nn.Network("2,1", "regression")
    net.dataset = data
    net.config = {**net.config, "init": init, "epochs": 3}
    lines = model_page._again(net, "x/m.bin")
    assert [line[: len(text)] for line, text in zip(lines, told, strict=True)] == told


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


def test_a_word_or_a_header_of_eleven_letters_may_end_a_line_anywhere():
    lines = [["eleven_long", "1"], ["twelve/elevenletter", "12345678901"]]
    lines.append(["elevenlette", "2"])
    table = Table("t", ["ten letter", "elevenlette"], lines)
    cells = re.findall(r"<t[hd]( [^>]*|)>", page._html_table(table))
    are_long = ["long" in attributes for attributes in cells]
    assert are_long == [False, True, False, False, True, False, True, False]
