"""Out-of-fold scores are kept as float32; where they are more than MOST_BYTES a file
has their figures alone."""

import json

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.packs import data
from support.tables import csv_of

import nn
from nn.files import model_file
from nn.nn import crossed
from nn.nn.model import tensors
from nn.utils import DataError

FOLDS = {"folds": 3, "holdout": 0.0, "epochs": 2}
TASKS = ["binary", "multiclass", "regression"]


@pytest.fixture(autouse=True)
def fixed(monkeypatch):
    monkeypatch.setattr(crossed, "MOST_SCORE_BYTES", 10**9)


@pytest.fixture
def tables(folder):
    """Write a table of each task."""
    for task in TASKS:
        ds = data(task, 90)
        if ds.classes:
            targets = [f"c{label}" for label in ds.y]
        else:
            targets = ds.y[:, 0].round(5).tolist()
        columns = [*ds.x.T.round(5).tolist(), targets]
        names = [*(f"x{place}" for place in range(ds.x.shape[1])), "y"]
        (folder / f"{task}.csv").write_text(csv_of(names, columns))
    return folder


def train(task, model, *more):
    train = argv(f"--train --dataset {task}.csv --model {model} --epochs 2 --json")
    if "--effort" in more:
        kind = []
    else:
        kind = [
            "--layers",
            "auto,4,1" if task != "multiclass" else "auto,4,3",
            "--folds",
            3,
        ]
    return succeed(*train, *kind, "--holdout", 0, *more).json


def of_training(result):
    """Return the figures that a training told, but its quick intervals, which are of
    fewer resamples."""
    figures = result.get("out_of_fold", {})
    return {name: value for name, value in figures.items() if name != "intervals"}


@pytest.mark.usual(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", TASKS)
def test_scores_are_float32_and_training_and_test_agree_to_the_digit(
    tables, task, dtype
):
    for more in (["--validation", "fold"], ["--effort", "quick"]):
        trained = train(task, "m.bin", "--dtype", dtype, *more)
        found, meta = model_file.load("m.bin")
        assert found["rows.score"].dtype == np.float32
        assert meta["dtype"] == dtype
        report = succeed("test", "m.bin", "--json").json
        for name, value in of_training(trained).items():
            assert report[name] == value
        again = nn.Model.load("m.bin").network
        again.export("n.bin")
        assert (tables / "n.bin").read_bytes() == (tables / "m.bin").read_bytes()


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "task, kind",
    [
        *((task, ["--folds", 3]) for task in TASKS),
        ("multiclass", ["--effort", "quick"]),
        pytest.param("binary", ["--effort", "quick"], marks=pytest.mark.long),
        pytest.param("regression", ["--effort", "quick"], marks=pytest.mark.long),
    ],
)
def test_above_the_limit_a_file_has_figures_and_intervals_in_the_place_of_scores(
    tables, monkeypatch, task, kind
):
    if "--effort" in kind:
        more = kind
    else:
        more = []
    train(task, "whole.bin", *more)
    whole = succeed("test", "whole.bin", "--json", "--intervals").json
    monkeypatch.setattr(crossed, "MOST_SCORE_BYTES", 100)
    trained = train(task, "m.bin", *more, "-o", "rows.csv")
    # of the training, which has the scores
    assert (tables / "rows.csv").read_text().count("\n") == 91
    found, meta = model_file.load("m.bin")
    assert "rows.score" not in found
    assert "rows.fold" in found
    assert "intervals" in meta["crossed"]["figures"]
    result = succeed("test", "m.bin", "--json", "--intervals")
    assert result.json == whole
    assert (
        result.err.count(
            "not the scores of rows, more than 1 GB: nothing else is known"
        )
        == 1
    )
    assert "intervals" not in succeed("test", "m.bin", "--json").json
    for name, value in of_training(trained).items():
        assert result.json[name] == value
    assert "out of fold" in succeed("test", "m.bin").out
    given = succeed("test", "m.bin", f"{task}.csv", "--json").json
    expected = {name: value for name, value in whole.items() if name != "intervals"}
    assert given == expected
    page = succeed("test", "m.bin", "--report", "p.html", "--json")
    text = (tables / "p.html").read_text()
    assert page.json["rows"] == 90
    assert "Only these figures are known" in text
    assert "95 % interval" in text
    assert "What was trained" in text or "what was trained" in text
    if task != "regression":
        label = "log loss"
        value = "log_loss"
    else:
        label = "RMSE"
        value = "rmse"
    refused = run("compare", "m.bin", "whole.bin")
    assert refused.code == 65
    assert refused.err.splitlines()[-1].startswith("nn: ")
    assert f"{label} {whole[value]:.6g}" in refused.err
    assert "--dataset" in refused.err
    assert run("test", "m.bin", "--threshold", 0.3).code == (
        65 if task == "binary" else 2
    )
    assert succeed("explain", "m.bin", "--json").json["trained_rows"] == 0
    info = succeed("info", "m.bin", "--json").json
    assert json.dumps(info["crossed"]["figures"]["intervals"])
    assert (
        "90 of 90 rows, 3 folds" in succeed("info", "m.bin").out or "--effort" in kind
    )
    model = nn.Model.load("m.bin")
    ds = nn.load_for(model.network, f"{task}.csv")
    assert model.test(ds)["rows"] == 90
    assert model.importance(ds).mean is not None
    with pytest.raises(DataError, match="figures of its training alone"):
        nn.compare(model, nn.Model.load("whole.bin"), ds)
    model.save("again.bin")
    assert (tables / "again.bin").read_bytes() == (tables / "m.bin").read_bytes()


@pytest.mark.usual(4)
@pytest.mark.parametrize(
    "name, value",
    [
        ("figures", 5),
        ("figures", {}),
        ("figures", {"rows": 3}),
        ("rows", "3"),
        ("rows", None),
        ("roc_auc", "good"),
        ("tp", None),
        ("intervals", {"f1": [0.1]}),
        ("intervals", 3),
        ("intervals", {"f1": ["a", 2]}),
        ("other", 1),
        ("f1", int("9" * 400)),
        ("target", {}),
        ("left_out_rows", [1]),
        ("macro", {"f1": "x"}),
    ],
)
def test_hostile_figures_are_refused(monkeypatch, name, value):
    monkeypatch.setattr(crossed, "MOST_SCORE_BYTES", 100)
    ds = data("binary", 90)
    net = nn.Network("6,4,1", "binary", backend="omp")
    nn.train(net, ds, **FOLDS)
    metadata = json.loads(json.dumps(net.metadata()))
    assert model_file.unpacked(model_file.packed(tensors(net), metadata))
    if name == "figures":
        metadata["crossed"]["figures"] = value
    else:
        metadata["crossed"]["figures"][name] = value
    with pytest.raises(DataError, match="`crossed`|rows.score is missing"):
        model_file.packed(tensors(net), metadata)


def test_figures_of_other_classes_are_refused(monkeypatch):
    monkeypatch.setattr(crossed, "MOST_SCORE_BYTES", 100)
    ds = data("multiclass", 90)
    net = nn.Network("6,4,3", "multiclass", backend="omp")
    nn.train(net, ds, **FOLDS)
    metadata = json.loads(json.dumps(net.metadata()))
    metadata["crossed"]["figures"]["confusion"].pop()
    with pytest.raises(DataError, match="figures of other classes"):
        model_file.packed(tensors(net), metadata)


def test_scores_of_the_candidates_count_in_memory():
    from dataclasses import replace

    from nn.train.asked import fits

    ds = data("regression", 90)
    least = next(
        size
        for size in range(10**8, 10**9, 10**6)
        if fits(replace(ds, memory=size), "quick")
    )
    many = replace(
        ds,
        x=np.zeros((10**6, ds.x.shape[1]), np.float32),
        y=np.zeros((10**6, 1), np.float32),
    )
    assert not fits(replace(many, memory=least), "quick")
    memory = least + 4 * 7 * 10**6
    assert fits(replace(many, memory=memory), "quick")


def test_a_table_of_folds_says_that_scores_are_not_kept(monkeypatch, tables):
    from nn.commands.predictions import fold_table

    monkeypatch.setattr(crossed, "MOST_SCORE_BYTES", 100)
    train("regression", "m.bin")
    net = nn.Model.load("m.bin").network
    with pytest.raises(DataError, match="figures of its training alone"):
        fold_table(net, nn.load_for(net, "regression.csv"))
    train("binary", "b.bin")
    refused = run("threshold", "b.bin", 0.3, "-o", "new.bin")
    assert refused.code == 65
    assert "figures of its training alone" in refused.err


def test_where_folds_are_told_a_clause_says_who_judges(tables):
    train("regression", "m.bin")
    output = succeed("test", "m.bin", "--report", "p.html").out
    assert "out of fold (each judged by one fold's networks, new rows by all)" in output
    text = (tables / "p.html").read_text()
    assert (
        text.count(
            "all networks predict new rows: the model may be a little better than these figures say."
        )
        == 1
    )
