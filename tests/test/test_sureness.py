"""Intervals of predictions and sets of classes: the same from the command, from Python
and from a file, and what a test tells of them."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.command_line import run, succeed

import nn
from nn.core.conformal import ClassSets, Intervals
from nn.data.splits import fold_rows
from nn.test.out_of_fold import out_of_fold
from nn.test.sureness import bounds_of, held
from nn.utils import UsageError

ROWS = 300
LEVEL = 0.8


def table(rows, seed=0):
    """Inputs a, b, the value `y`, whose noise grows with b, and the class `c`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    y = 3 * x[:, 0] + (0.1 + np.abs(x[:, 1])) * rng.normal(size=rows)
    words = np.array(["low", "middle", "high"])
    classes = words[(y + rng.normal(size=rows) > -1).astype(int) + (y > 1)]
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y, "c": classes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with models of five folds, value.bin and class.bin, and new rows."""
    folder = tmp_path_factory.mktemp("sureness")
    known = table(ROWS)
    for name, target, other in (("value", "y", "c"), ("class", "c", "y")):
        known.drop(columns=other).to_csv(folder / f"{name}.csv", index=False)
        model = nn.fit(
            folder / f"{name}.csv",
            target,
            layers="auto,8,1" if name == "value" else "auto,8,3",
            epochs=30,
            folds=5,
            holdout=0.0,
            batch_number=16,
            learning_rate=0.01,
        )
        model.save(folder / f"{name}.bin")
        new = table(500, seed=1).drop(columns=other)
        new.to_csv(folder / f"{name}_new.csv", index=False)
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def predicted(name, *flags, output="p.csv"):
    """The rows of `nn predict` in a file."""
    data = (f"{name}.bin", f"{name}_new.csv")
    succeed("predict", *data, "--level", str(LEVEL), "-o", output, *flags)


# ---------------------------------------------------------------- the same everywhere


def as_written(ends: np.ndarray) -> list:
    """Ends of intervals with the digits that a table has of predictions."""
    texts = np.char.mod("%.9g", ends.astype(np.float32))
    return texts.astype(float).tolist()


def test_intervals_are_the_same_from_command_and_python(here):
    predicted("value")
    of_command = pd.read_csv("p.csv")
    assert [*of_command.columns[:4]] == ["row", "predicted y", "low", "high"]
    model = nn.Model.load("value.bin")
    low, high = model.predict_interval("value_new.csv", LEVEL)
    assert low.dtype == np.float64
    assert low.shape == (500,)
    assert of_command["low"].tolist() == as_written(low)
    assert of_command["high"].tolist() == as_written(high)
    assert (low < high).all()
    of_json = succeed(
        "predict", "value.bin", "value_new.csv", "--level", str(LEVEL), "--json"
    ).json["rows"]
    assert [row["low"] for row in of_json] == as_written(low)
    predicted("value", output="p.jsonl")
    with open("p.jsonl") as file:
        lines = [json.loads(line) for line in file]
    assert [row["high"] for row in lines] == as_written(high)
    pytest.importorskip("pyarrow")
    predicted("value", output="p.parquet")
    written = pd.read_parquet("p.parquet")["low"].to_numpy()
    np.testing.assert_array_equal(written, low.astype(np.float32))


def test_sets_are_the_same_from_command_and_python(here):
    predicted("class")
    of_command = pd.read_csv("p.csv")
    model = nn.Model.load("class.bin")
    sets = model.predict_set("class_new.csv", LEVEL)
    assert of_command["set"].tolist() == ["|".join(names) for names in sets]
    likeliest = model.predict("class_new.csv").tolist()
    pairs = zip(sets, likeliest, strict=True)
    assert all(name in names for names, name in pairs)
    sizes = {len(names) for names in sets}
    assert sizes - {1}
    assert not sizes - {1, 2, 3}


def test_without_a_level_predictions_are_as_before(here):
    data = ("predict", "value.bin", "value_new.csv")
    names = succeed(*data, "-q").out.splitlines()[0]
    assert names == "row,predicted y,deviation y,true y"


def test_classes_of_a_set_are_in_the_type_of_the_labels():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2))
    y = 10 * (x[:, 0] + 0.5 * rng.normal(size=90) > 0).astype(int)
    model = nn.fit(x, y, layers="auto,1", folds=3, epochs=5, holdout=0.0)
    sets = model.predict_set(x, 0.9)
    assert {type(name) for names in sets for name in names} <= {np.int64, int}
    assert {int(name) for names in sets for name in names} == {0, 10}


# ---------------------------------------------------------------- what a test tells


@pytest.mark.parametrize("name", ["value", "class"])
def test_a_test_tells_how_many_rows_are_held(here, name):
    data = ("test", f"{name}.bin", f"{name}_new.csv")
    figures = succeed(*data, "--level", str(LEVEL), "--json").json
    model = nn.Model.load(f"{name}.bin")
    frame = pd.read_csv(f"{name}_new.csv")
    if name == "value":
        low, high = model.predict_interval(frame, LEVEL)
        held = (low <= frame["y"]) & (frame["y"] <= high)
        width = (high - low).mean()
    else:
        sets = model.predict_set(frame, LEVEL)
        pairs = zip(frame["c"], sets, strict=True)
        held = np.array([true in names for true, names in pairs])
        width = np.mean([len(names) for names in sets])
    assert figures["level"] == LEVEL
    assert figures["coverage"] == pytest.approx(held.mean())
    assert figures["width"] == pytest.approx(width)
    assert figures["coverage"] == pytest.approx(LEVEL, abs=0.06)
    usual = succeed(*data, "--json").json
    assert usual["level"] == 0.9
    assert usual["width"] > figures["width"]
    assert model.test(f"{name}_new.csv", level=LEVEL)["width"] == figures["width"]
    text = succeed(*data, "--level", str(LEVEL)).out
    assert f"level 0.8 hold {100 * figures['coverage']:.1f} % of the rows" in text


def test_rows_of_the_training_are_held_by_what_the_other_folds_tell(here):
    model = nn.Model.load("value.bin")
    ds = nn.load("value.csv")
    rows, folds, scores = out_of_fold(model.network, ds)
    truth = ds.y.reshape(-1, 1)[rows]
    held = []
    for fold in range(5):
        own = folds == fold
        others = Intervals.of(truth[~own], scores[~own])
        held += (
            others.held_and_widths(truth[own], scores[own], LEVEL)[0].ravel().tolist()
        )
    figures = succeed("test", "value.bin", "--level", str(LEVEL), "--json").json
    assert figures["out_of_fold"] is True
    assert figures["coverage"] == pytest.approx(np.mean(held))
    assert figures["coverage"] == model.test("value.csv", level=LEVEL)["coverage"]


def test_weights_and_groups_count(folder):
    rng = np.random.default_rng(0)
    frame = table(400)[["a", "b", "y"]]
    frame["group"] = np.sort(rng.integers(0, 15, 400))
    frame["w"] = rng.integers(1, 4, 400)
    ds = nn.load(frame, target="y", group="group", weight="w")
    net = nn.Network("2,1", "regression")
    nn.train(net, ds, folds=5, epochs=5, holdout=0.0)
    groups = len(set(frame["group"]))
    assert net.conformal.levels[-1] == pytest.approx(1 - 2 / (groups + 1))
    known = Intervals.of(
        ds.y.reshape(-1, 1), net.crossed.scores, None, ds.weights, ds.groups
    )
    assert net.conformal == known
    figures = nn.test(net, frame.drop(columns="w"), level=0.5)
    assert figures["level"] == 0.5


def test_rows_of_folds_are_held_by_groups_and_weights_of_the_others():
    rng = np.random.default_rng(4)
    frame = table(400)[["a", "b", "y"]]
    frame["group"] = rng.permutation(np.arange(400) // 5)
    frame["w"] = np.where(frame["b"].abs() > 1, 4.0, 0.25)
    ds = nn.load(frame, target="y", group="group", weight="w")
    net = nn.Network("2,1", "regression")
    nn.train(net, ds, folds=4, epochs=20, learning_rate=0.02, holdout=0.0)
    truth = ds.y.reshape(-1, 1)
    scores = net.crossed.scores
    are_held = np.empty(400, bool)
    widths = np.empty(400)
    of_rows = np.empty(400, bool)
    for fold in range(4):
        own = net.crossed.of_row == fold
        known = truth[~own], scores[~own], None, ds.weights[~own]
        for groups, held_rows in ((ds.groups[~own], are_held), (None, of_rows)):
            low, high = Intervals.of(*known, groups).interval(scores[own], LEVEL)
            held_rows[own] = ((low <= truth[own]) & (truth[own] <= high))[:, 0]
            if groups is not None:
                widths[own] = (high - low)[:, 0]
    assert (are_held != of_rows).any(), "groups matter here"
    figures = nn.test(net, ds, level=LEVEL)
    expected = np.average(are_held, weights=ds.weights)
    assert figures["coverage"] == pytest.approx(expected)
    assert figures["coverage"] != pytest.approx(are_held.mean(), rel=1e-3)
    expected = np.average(widths, weights=ds.weights)
    assert figures["width"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_what_is_held_of_each_target_counts_its_rows_by_their_weights(task):
    """New rows, of which some have no second target."""
    rng = np.random.default_rng(0)
    frames = []
    for seed in (0, 1):
        frame = table(200, seed)[["a", "b", "y"]]
        frame["z"] = 10 * frame["a"] + rng.normal(size=200)
        if task == "multilabel":
            frame[["y", "z"]] = (frame[["y", "z"]] > 0).astype(float)
        frame["w"] = np.where(frame["b"].abs() > 1, 4.0, 0.25)
        frames.append(frame)
    known, new = frames
    how = {"layers": "auto,4,2", "epochs": 30, "folds": 4, "holdout": 0.0}
    how["learning_rate"] = 0.02
    model = nn.fit(known, ["y", "z"], task=task, weight="w", **how)
    new.loc[::3, "z"] = np.nan
    figures = model.test(new, level=LEVEL)
    truth = new[["y", "z"]].to_numpy()
    inputs = new[["a", "b"]]
    if task == "regression":
        low, high = model.predict_interval(inputs, LEVEL)
        are_held = (low <= truth) & (truth <= high)
        widths = high - low
    else:
        sets = model.predict_set(inputs, LEVEL)
        widths = np.array([[len(each) for each in row] for row in sets])
        are_held = np.array(
            [
                [value in map(float, each) for value, each in zip(*pair, strict=True)]
                for pair in zip(truth, sets, strict=True)
            ]
        )
    weights = new["w"].to_numpy()
    are_there = ~np.isnan(truth)
    for k, told in enumerate(figures["per_target"]):
        there = are_there[:, k]
        share = np.average(are_held[there, k], weights=weights[there])
        assert told["coverage"] == pytest.approx(share)
        assert share != pytest.approx(are_held[there, k].mean(), rel=1e-3)
        assert told["width"] == pytest.approx(np.average(widths[:, k], weights=weights))
    counts = weights[:, None] * are_there
    assert figures["coverage"] == pytest.approx(np.average(are_held, weights=counts))
    expected = np.average(widths.mean(axis=1), weights=weights)
    assert figures["width"] == pytest.approx(expected)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("level", ["0", "1", "90", "-0.1", "nan", "high"])
def test_a_level_is_a_share(here, level):
    result = run("predict", "value.bin", "value_new.csv", f"--level={level}")
    assert result.code == 2
    assert result.err == (
        f"nn: --level {level}: expected a number above 0 and below 1, such as 0.9\n"
    )
    with pytest.raises(UsageError, match="--level"):
        nn.Model.load("value.bin").predict_interval("value_new.csv", level)


@pytest.mark.parametrize("mode", ["predict", "test"])
def test_a_level_that_the_rows_cannot_give(here, mode):
    for name, most in (("value", "0.9933"), ("class", "0.9966")):
        data = (mode, f"{name}.bin", f"{name}_new.csv", "-q")
        result = run(*data, "--level", "0.999")
        assert result.code == 2
        assert result.out == ""
        assert result.err.endswith(f"too few for it; ask for at most {most}\n")
        assert run(*data, "--level", most).code == 0


def test_the_other_task_has_another_method(here):
    with pytest.raises(UsageError, match="use predict_set"):
        nn.Model.load("class.bin").predict_interval("class_new.csv", 0.9)
    with pytest.raises(UsageError, match="use predict_interval"):
        nn.Model.load("value.bin").predict_set("value_new.csv", 0.9)


def test_without_rows_that_judge_there_is_none(here):
    frame = table(100)[["a", "b", "y"]]
    model = nn.fit(frame, "y", layers="auto,1", epochs=2)
    assert model.network.conformal is None
    with pytest.raises(UsageError, match="fewer than 30 rows judged it"):
        model.predict_interval(frame, 0.9)
    few = nn.fit(frame[:29], "y", layers="auto,1", folds=3, epochs=2, holdout=0.0)
    assert few.network.conformal is None
    again = nn.fit(frame[:30], "y", layers="auto,1", folds=3, epochs=2, holdout=0.0)
    assert again.network.conformal is not None
    assert "coverage" not in again.test(frame[:30]), "the other folds have 20 rows"


def test_a_network_that_is_trained_again_without_such_rows_forgets_them():
    ds = nn.load(table(100)[["a", "b", "y"]], target="y")
    net = nn.Network("2,1", "regression")
    nn.train(net, ds, epochs=2, validation=0.5)
    assert net.conformal is not None
    nn.train(net, ds, epochs=2)
    assert net.conformal is None


# ---------------------------------------------------------------- by whom they are told


def test_those_of_validation_rows(monkeypatch):
    ds = nn.load(table(200)[["a", "b", "y"]], target="y")
    settings = {"epochs": 3, "validation": 0.3, "holdout": 0.0, "split_seed": 1}
    rows = nn.data.splits.split_rows(ds, 0.0, 0.3, 1).validation
    truth = ds.y.reshape(-1, 1)[rows]
    net = nn.Network("2,4,1", "regression")
    nn.train(net, ds, **settings)
    assert net.conformal == Intervals.of(truth, net.predict(ds.x[rows]))
    several = nn.Network("2,4,1", "regression")
    nn.train(several, ds, networks=2, **settings)
    assert several.conformal == Intervals.of(truth, several.predict(ds.x[rows]))
    before = net.conformal
    refitted = nn.Network("2,4,1", "regression")
    nn.train(refitted, ds, refit=True, **settings)
    assert refitted.conformal == before, "before the refit, which knows these rows"
    assert refitted.conformal != Intervals.of(truth, refitted.predict(ds.x[rows]))


def test_the_bounds_of_several_networks_are_the_widest_of_theirs():
    """Each network keeps its predictions near the targets that it knows."""
    ds = nn.load(table(60)[["a", "b", "y"]], target="y")
    first, second, *_ = fold_rows(ds, np.arange(60), 5, 0)
    ds.y[first.tested[0]] = 20.0
    ds.y[second.tested[0]] = -20.0
    net = nn.Network("2,1", "regression")
    nn.train(net, ds, folds=5, epochs=1, holdout=0.0, clip=True)
    ends = []
    for number in range(5):
        known = ds.y[net.crossed.fold != number]
        room = np.ptp(known) / 10
        ends.append([known.min() - room, known.max() + room])
    low, high = np.transpose(ends)
    assert high[0] < high.max(), "the first network knows no such target"
    assert low[1] > low.min()
    (bounds,) = bounds_of(net)
    assert bounds == pytest.approx([low.min(), high.max()], rel=1e-6)


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_groups_and_weights_of_validation_rows_count(task):
    frame = table(400)[["a", "b", "y"]]
    if task == "binary":
        frame["y"] = (frame["y"] > 0).astype(int)
    frame["group"] = np.arange(400) // 4
    frame["w"] = 1 + np.arange(400) % 3
    ds = nn.load(frame, target="y", task=task, group="group", weight="w")
    net = nn.Network("2,4,1", task)
    nn.train(net, ds, epochs=3, validation=0.5, holdout=0.0, split_seed=1)
    rows = nn.data.splits.split_rows(ds, 0.0, 0.5, 1).validation
    scores = net.predict(ds.x[rows])
    of_rows = ds.weights[rows], ds.groups[rows]
    if task == "binary":
        assert net.conformal == ClassSets.of(ds.y[rows], scores, *of_rows)
    else:
        truth = ds.y.reshape(-1, 1)[rows]
        assert net.conformal == Intervals.of(truth, scores, None, *of_rows)
    assert net.conformal.levels[-1] < 1 - 1 / len(rows)


def test_those_of_the_default_are_of_crossed_scores():
    ds = nn.load(table(120)[["a", "b", "y"]], target="y")
    net = nn.fit(ds, effort="quick").network
    truth = ds.y.reshape(-1, 1)
    (target,) = net.conformal.targets
    scalings = [member.target_scaling for member in net.members]
    lowest = min(scaling.low[0] for scaling in scalings)
    highest = max(scaling.high[0] for scaling in scalings)
    assert target.bounds == [lowest, highest], "of --clip"
    assert net.conformal == Intervals.of(truth, net.crossed.scores, [target.bounds])
    low, high = net.conformal.interval(np.array([[lowest], [highest]]), 0.95)
    assert low[0, 0] == lowest
    assert high[1, 0] == highest


def test_an_output_layer_bounds_intervals():
    frame = table(200)[["a", "b", "y"]]
    frame["y"] = frame["y"].abs()
    model = nn.fit(frame, "y", layers="auto,4,1:relu", folds=4, epochs=5, holdout=0.0)
    (target,) = model.network.conformal.targets
    assert target.bounds[1] is None
    low, _ = model.predict_interval(frame, 0.95)
    assert low.min() == target.bounds[0]
    assert target.bounds[0] >= 0


def test_each_of_several_targets_has_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table(150)[["a", "b", "y"]]
    frame["z"] = 100 * frame["a"] + frame["y"]
    frame.to_csv("t.csv", index=False)
    trained = ("train", "t.csv", "-m", "m.bin", "--target", "y,z", "--layers", "2,2")
    succeed(*trained, "--folds", "5", "--holdout", "0", "--epochs", "5")
    succeed("predict", "m.bin", "t.csv", "--level", "0.9", "-o", "p.csv")
    names = ["predicted y", "predicted z", "low y", "high y", "low z", "high z"]
    found = pd.read_csv("p.csv")
    assert [*found.columns[1:7]] == names
    low, high = nn.Model.load("m.bin").predict_interval("t.csv", 0.9)
    assert found[["low y", "low z"]].to_numpy().tolist() == as_written(low)
    assert found[["high y", "high z"]].to_numpy().tolist() == as_written(high)
    figures = succeed("test", "m.bin", "t.csv", "--json").json
    of_targets = figures["per_target"]
    for name in ("coverage", "width"):
        mean = np.mean([target[name] for target in of_targets])
        assert figures[name] == pytest.approx(mean)
    assert of_targets[1]["width"] > 5 * of_targets[0]["width"]
    assert "coverage" in succeed("test", "m.bin", "t.csv").out


# ---------------------------------------------------------------- the page


@pytest.mark.parametrize(
    ("name", "data"), [("value", ()), ("class", ()), ("value", ("value_new.csv",))]
)
def test_the_page_tells_it_by_fifths_of_the_prediction(here, name, data):
    asked = ("test", f"{name}.bin", *data, "--level", str(LEVEL))
    figures = succeed(*asked, "--report", "page.json", "--json").json
    with open("page.json") as file:
        page = json.load(file)
    (table,) = page["sections"]["How sure it is"]
    held = np.array(
        [[float(cell.rstrip(" %")) for cell in row[1:]] for row in table["lines"]]
    )
    held[:, 1] /= 100
    assert len(held) == 5
    assert held[:, 0].sum() == figures["rows"]
    for column, figure in ((1, "coverage"), (2, "width")):
        mean = np.average(held[:, column], weights=held[:, 0])
        assert mean == pytest.approx(figures[figure], rel=2e-3)
    text = f"hold {100 * figures['coverage']:.1f} % of the rows"
    assert any(text in line for line in page["answer"])


# ---------------------------------------------------------------- the estimators


def test_estimators_tell_what_models_do():
    pytest.importorskip("sklearn")
    frame = table(150)
    x = frame[["a", "b"]]
    for name, made, target in (
        ("predict_interval", nn.NetworkRegressor, "y"),
        ("predict_set", nn.NetworkClassifier, "c"),
    ):
        estimator = made(effort="quick").fit(x, frame[target])
        model = nn.Model(estimator.network_)
        found = getattr(estimator, name)(x, LEVEL)
        expected = getattr(model, name)(x, LEVEL)
        if name == "predict_set":
            found = [estimator.classes_[row].tolist() for row in found]
            assert found == [sorted(names) for names in expected]
        else:
            assert np.array_equal(found, expected)
        with pytest.raises(UsageError, match="too few for it"):
            getattr(estimator, name)(x, 0.999)


def test_rows_that_know_no_usual_level_are_judged_by_the_highest_below_it():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(40, 1))
    predicted = truth + rng.normal(size=(40, 1))
    few = Intervals.of(truth, predicted, groups=np.arange(40) % 10)
    assert few.levels[-1] < 0.9
    net = SimpleNamespace(conformal=few)
    assert held(net, truth, predicted).level == few.levels[-1]
    net.conformal = Intervals.of(truth, predicted)
    assert net.conformal.levels[-1] > 0.9
    assert held(net, truth, predicted).level == 0.9
    net.conformal = None
    assert held(net, truth, predicted) is None
