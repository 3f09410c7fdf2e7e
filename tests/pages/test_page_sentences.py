"""Losses, columns and sentences of a page, computed another way."""

import os
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics
from support.pages import (
    NEAR,
    TWO,
    Drawing,
    importances_of,
    named,
    tables_of,
    texts,
    two_classes,
)

import nn
from nn.pages import model_page, task_blocks
from nn.test import binary_report, multiclass_report, regression_report
from nn.test.drift import ColumnDrift
from nn.test.sureness import Held
from nn.test.trained_rows import Trained


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


@pytest.mark.parametrize(
    "history, monitor, members, shown",
    [
        ({"val_loss": None}, "loss", 1, {"loss": ["training rows"]}),
        ({}, "loss", 1, {"loss": ["training rows", "held-out rows"]}),
        ({"loss": [3.0], "val_loss": None}, "loss", 1, {"loss": ["training rows"]}),
        ({"loss": [], "val_loss": None}, "loss", 1, {}),
        (
            {"val_metric": [5.0, 4.0]},
            "loss",
            1,
            {"loss": ["training rows", "validation rows", "epoch 2, the best"]},
        ),
        (
            {"val_metric": [0.6, 0.5]},
            "roc_auc",
            2,
            {
                "loss": ["training rows", "validation rows"],
                "metric": ["validation rows"],
            },
        ),
    ],
)
def test_losses_are_of_named_rows_and_one_network_alone_has_a_best_epoch(
    history, monitor, members, shown
):
    history = {"loss": [3.0, 2.0], "val_loss": [4.0, 5.0], **history}
    plots = model_page._losses_by_epoch(trained_by(history, monitor, members))
    assert {plot.name: [line.name for line in plot.lines] for plot in plots} == shown
    if members == 2:
        assert plots[-1].title == "roc_auc while training; mean of 2 networks"


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
    days = np.datetime64("2024-03-01") + np.arange(100)
    table = []
    for word, number, other, day in zip(words, size, gappy, days, strict=True):
        table.append(
            {
                "word": word,
                "day": str(day),
                "size": str(number) if number == number else "",
                "gappy": other,
                "y": rng.normal(),
            }
        )
    ds = nn.load(table, target="y")
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=1, holdout=0)
    told = "One network predicts numbers (target y) from 4 inputs."
    assert model_page._about(net) == told
    table = model_page._columns(net, ds.x)[0]
    by_name = {line[0]: line[3:] for line in table.lines}
    assert by_name["word"] == ["red 50%, green 30%, blue 10%, 2 more", "", ""]
    assert by_name["gappy"] == ["x 75%, y 25%", "", "60.0%"]
    assert by_name["day"] == ["2024-03-01 to 2024-06-08", "█" * 12, ""]
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
    long = ("from 1,000 to 2000", "from 1,000 to 200", "from 1,000")
    shown = [model_page._on_axis(label) for label in long]
    assert shown == ["1,000", "1,000 to 200", "1,000"]
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
    named_target = nn.Network("2,1", "binary")
    named_target.targets = ["kind"]
    sentence = task_blocks.answer(named_target, result, "rows")
    assert sentence.startswith(f"kind = 1: of {positives:.1f} such rows among 240 rows")
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
    result = regression_report(truth, predicted) | {"intervals": {"mae": [0.5, 2.25]}}
    answer = task_blocks.answer(nn.Network("2,1", "regression"), result, "rows")
    rmse = (5 / 3) ** 0.5
    r2 = 1 - 5 / 14
    by_mean = np.std(truth)
    assert answer == (
        f"On 3 rows the model is off by 1 (95 %: 0.5 to 2.25) on average, by {rmse:.4g} as root mean square;"
        f" always naming the mean is off by {by_mean:.4g}. R2 {r2:.4g}."
    )
    several = nn.Network("2,4", "regression")
    truth = np.array([[1.0], [2.0], [6.0]]) * np.ones(4)
    for targets, subject in (("abc", "a, b, c"), ("abcd", "a, b, c and 1 more")):
        several.targets = list(targets)
        result = regression_report(truth, truth)
        answer = task_blocks.answer(several, result, "rows")
        assert answer == (
            f"{subject}: on 3 rows the model is off by 0 on average, by 0 as root mean square. R2 1."
        )


def test_a_file_has_the_day_of_universal_time_and_targets_that_miss_are_not_positive(
    folder, monkeypatch
):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        (folder / "t.csv").touch()
        os.utime("t.csv", (1710718200, 1710718200))  # 08:30 of the next day in Tokyo
        tested = model_page.Tested(None, SimpleNamespace(path="t.csv"))
        assert model_page._of_file(tested, "rows") == "rows of t.csv (2024-03-17)"
    finally:
        monkeypatch.undo()
        time.tzset()
    net = nn.Network("2,3", "multilabel")
    net.targets = ["a", "b", "c"]
    for labels, told in (([1, np.nan, 1], "a, c"), ([0, np.nan, 0], "none")):
        assert task_blocks._positive_of(net, np.array(labels)) == told


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_the_surest_rows_of_two_classes_are_those_far_from_a_half(task):
    scores = np.linspace(0.005, 0.995, 100)[:, None]
    if task == "multilabel":
        scores = scores * [1, 0.5]
    net = nn.Network(f"2,{scores.shape[1]}", task)
    likeliest = np.maximum(scores, 1 - scores)
    widths = 2 - (likeliest > 0.9)
    held = Held(0.9, likeliest > 0.7, widths)
    tables = task_blocks.sureness(net, held, scores, None)
    assert len(tables) == scores.shape[1]
    for k, table in enumerate(tables):
        order = np.argsort(likeliest[:, k], kind="stable")
        for line, rows in zip(table.lines, np.split(order, 5), strict=True):
            assert line[1] == "20"
            share = np.mean(likeliest[rows, k] > 0.7)
            assert line[2] == f"{100 * share:.1f} %"
            assert float(line[3]) == pytest.approx(np.mean(widths[rows, k]))


def test_the_page_says_which_networks_judge_rows_out_of_fold():
    found = {}
    for is_retrained in (False, True):
        net = SimpleNamespace(crossed=SimpleNamespace(is_retrained=is_retrained))
        tested = model_page.Tested(net, None, out_of_fold=())
        (found[is_retrained],) = model_page._by_whom(tested)
        assert model_page._by_whom(replace(tested, out_of_fold=None)) == []
    assert found[False].startswith("One fold's networks judge each row, all networks")
    assert found[True].startswith("Each row was predicted by networks of earlier rows")


def test_the_importance_of_a_page_has_bars_of_the_largest_and_the_metric_of_all_rows():
    ends = {"low": [3.0, -0.5, 0.0, -1234.5], "high": [5.0, 2.5, 0.2, -1.0]}
    importances = importances_of(
        "abcd",
        "rmse",
        baseline=1.25,
        mean=[4.0, 1.0, 0.1, -2.0],
        correlated=[("b", "a", -0.953)],
        **ends,
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
    assert [picture.x.label, picture.y.label] == ["a", "mean value"]
    assert (
        message
        == "b and a are correlated (-0.95): what one of them says, the other may say too."
    )
    # the three strongest of all pairs
    importances.correlated = [(name, "z", 0.99) for name in "abcd"]
    _, _, *messages = model_page._importance(net, importances, {"a": points})
    assert [message[:7] for message in messages] == ["a and z", "b and z", "c and z"]
    for count in (20, 21):
        figures = dict.fromkeys(("mean", "low", "high"), [1.0] * count)
        vars(importances).update(figures, names=list(map(str, range(count))))
        (table, *_) = model_page._importance(net, importances, {})
        assert len(table.lines) == 20
        *_, told = table.caption.partition("exchanged between rows")
        assert told == ("; the first 20 of 21 columns" if count == 21 else "")
    picture = model_page._curve(TWO, "word", [("red", [0.25]), ("", [0.5])], 3, (0, 1))
    assert picture.lines[0].x == [0, 1]
    assert picture.lines[0].y == [0.25, 0.5]
    assert picture.x.words == ("red", "(missing)")
    assert picture.lines[0].name == "class fraud"
    assert [picture.x.label, picture.y.label] == ["word", "mean score"]


@pytest.mark.parametrize(
    "layers, task, told, names",
    [
        ("2,1", "binary", ["no", "yes"], ["class yes"]),
        ("2,1", "binary", None, ["class 1"]),
        ("2,3", "multiclass", ["a", "b", "c"], ["class a", "class b", "class c"]),
        ("2,9", "multiclass", None, [f"class {k}" for k in range(7)]),
        ("2,1", "regression", None, ["prediction"]),
        ("2,2", "regression", ["u", "v"], ["u", "v"]),
        ("2,2", "regression", None, ["output 0", "output 1"]),
        ("2,9", "multilabel", None, [f"output {k}" for k in range(7)]),
    ],
)
def test_the_curves_of_a_column_are_of_the_first_seven_outputs_by_name_or_number(
    layers, task, told, names
):
    net = nn.Network(layers, task)
    if task in ("binary", "multiclass"):
        net.classes = told
    else:
        net.targets = told
    scores = np.arange(2.0)[:, None] + np.arange(net.outputs) / 8
    points = [*zip([0.5, 2.5], scores.tolist(), strict=True)]
    picture = model_page._curve(net, "x", points, 0, (0, 1))
    assert [line.name for line in picture.lines] == names
    assert [line.x for line in picture.lines] == [[0.5, 2.5]] * len(names)
    assert [line.y for line in picture.lines] == scores.T[:7].tolist()


@pytest.mark.parametrize(
    "count, title", [(100, "100 columns"), (101, "101 columns, the first 100")]
)
def test_of_many_columns_the_first_hundred_are_told_and_what_were_no_inputs(
    count, title
):
    net = nn.Network(f"{count},1", "regression")
    net.columns = [f"c{k}" for k in range(count)]
    (table,) = model_page._columns(net, None)
    assert table.caption == title
    kind = net.scaling.kind
    assert table.lines == [[f"c{k}", "number", kind] for k in range(100)]
    net.config = {**net.config, "left_out": [3, 5]}
    _, told = model_page._columns(net, None)
    assert told == "2 columns of the file were not inputs."
    net.unused = [("id", "dropped"), ("", "empty")]
    _, told = model_page._columns(net, None)
    assert told == "Not inputs: id (dropped), (no name) (empty)."


@pytest.mark.parametrize(
    "trained, told",
    [
        (Trained(100, 1), "1 of these 100 rows"),
        (Trained(100, 10, False), "about 10 of these 100 rows"),
        (Trained(100, 9, False), None),
        (Trained(100, 0), None),
        (Trained(100, None, False), None),
        (None, None),
    ],
)
def test_a_page_says_which_of_its_rows_the_model_knows_where_that_spoils_figures(
    trained, told
):
    net = nn.Network("1,1", "binary")
    net.targets = ["kind"]
    ds = nn.Dataset(np.arange(4.0)[:, None], np.array([0, 1, 0, 1]), "binary")
    important = importances_of("ab", holds=[False, False]), {}
    report = model_page.page_of_model(
        net, "x/m.bin", ds, trained=trained, important=important
    )
    sentence, target, *others = report.answer
    assert sentence.startswith("kind = 1: of 2 such rows among 4 rows the model")
    assert target == (
        "It predicts the target kind (the last column; --target chooses)."
    )
    assert others == [
        f"m.bin was trained on {told}: these figures say how well it knows them, not how good it is on new rows."
        for _ in range(told is not None)
    ]
    assert "Columns that matter" in report.sections
    one_class = replace(ds, y=np.zeros(4, int))
    report = model_page.page_of_model(net, "m.bin", one_class)
    (told,) = report.sections["Columns that matter"]
    assert told.startswith("roc_auc is undefined for these 4 rows")
    alone = model_page.page_of_model(net, "x/m.bin", replace(ds, y=None))
    assert "Result" not in alone.sections
    assert "values" in alone.sections["Columns"][0].headers
