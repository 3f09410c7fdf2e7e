"""--folds: cross-validation is a loop of trainings written by hand, done at once."""

import csv
import os
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.command_line import (
    argv,
    run,
    succeed,
    write_numbers,
    write_three_classes,
    write_two_classes,
)
from support.packs import LAYERS, SEED, StopSoon, check_file, data, network, vector
from support.people import as_csv, people

import nn
from nn.core import random
from nn.core.metrics import metric
from nn.core.thresholds import best_temperature, best_threshold, tempered
from nn.data.splits import fold_rows
from nn.nn import Network
from nn.test import tested as figures_of_rows
from nn.test.out_of_fold import figures_out_of_fold, out_of_fold, summary, unseen_parts
from nn.utils import UsageError

FOLDS = 3


def by_hand(make, ds, count=FOLDS, holdout=0.2, **flags):
    """Return (networks, figures, rows tested) of a loop over the folds."""
    rows = nn.ds.split_rows(ds, holdout, 0.0, SEED).training
    found = []
    for number, fold in enumerate(fold_rows(ds, rows, count, SEED)):
        net = make(seed=SEED + number)
        nn.train(net, ds, rows=fold.training, split_seed=SEED, **flags)
        # those of validation rows, which members lack
        net.facts = replace(net.facts, conformal=None)
        found.append((net, figures_of_rows(net, ds.of_rows(fold.tested)), fold.tested))
    return zip(*found, strict=True)


def check_networks(net, alone):
    for member, own in zip(net.members, alone, strict=True):
        assert np.array_equal(vector(member), vector(own))
        assert np.array_equal(member.scaling.shift, own.scaling.shift)


WAYS = [  # the last one for classes
    {"epochs": 3, "holdout": 0.0},
    {
        "epochs": 9,
        "validation": 0.3,
        "patience": 2,
        "refit": True,
        "learning_rate": 0.05,
    },
    {"epochs": 2, "class_weight": "balanced"},
]


@pytest.mark.usual(6)
@pytest.mark.parametrize(
    ("task", "flags"),
    [(t, way) for t in LAYERS for way in WAYS[: 3 - (t == "regression")]],
)
@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_folds_are_a_loop_by_hand(task, flags, backend):
    ds = data(task)
    net = network(task, SEED, backend)
    holdout = flags.get("holdout", 0.2)
    if "class_weight" in flags:
        ds.y[40:] &= ds.x[40:, 2] > 0.5  # of other shares in each fold
    result = nn.train(net, ds, folds=FOLDS, **flags)
    make = partial(network, task, backend=backend)
    alone, figures, tested = by_hand(make, ds, **{**flags, "holdout": holdout})
    check_networks(net, alone)
    assert result["folds"] == list(figures)
    name = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}[task]
    values = [figure[name] for figure in figures]
    assert result["mean"][name] == np.mean(values)
    expected = np.std(values, ddof=1)
    assert result["std"][name] == expected
    rows, folds, outputs = out_of_fold(net, ds)
    assert np.array_equal(rows, nn.ds.split_rows(ds, holdout, 0.0, SEED).training)
    scores = np.zeros((ds.rows, net.outputs), np.float32)
    for number, own in enumerate(tested):
        assert np.array_equal(rows[folds == number], own)
        scores[own] = alone[number].predict(ds.x[own])
    assert np.array_equal(outputs, scores[rows])
    metrics = figures_out_of_fold(net, ds, by_member=True)
    assert metrics.pop("members") == list(figures)
    assert metrics.pop("out_of_fold") is True
    if task == "regression":
        difference = np.abs(scores - ds.y)
        expected = difference[rows].mean()
        assert metrics["mae"] == pytest.approx(expected, rel=1e-6)
    else:
        if task == "binary":
            decided = scores[:, 0] >= 0.5
        else:
            decided = scores.argmax(1)
        expected = (decided == ds.y)[rows].mean()
        assert metrics["accuracy"] == pytest.approx(expected)
    assert metrics != nn.test(net, ds.of_rows(rows))


def test_the_columns_of_a_mixed_table_are_decided_by_each_folds_rows(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    ds = nn.load("people.csv")
    make = partial(Network, f"{ds.inputs},8,1", "binary", backend="omp")
    net = make(seed=SEED)
    nn.train(net, ds, folds=4, epochs=3)
    alone, *_ = by_hand(make, ds, 4, epochs=3)
    check_networks(net, alone)
    for member, own in zip(net.members, alone, strict=True):
        assert member.encoding.to_dict() == own.encoding.to_dict()
    documents = {str(member.encoding.to_dict()) for member in net.members}
    assert len(documents) > 1
    check_file(net, folder / "folds.bin", ds.x)
    predictions = [own.predict(ds.x) for own in alone]
    expected = np.mean(predictions, 0)
    assert np.allclose(net.predict(ds.x), expected, atol=1e-6)


def test_folds_in_which_other_values_are_rare_come_back_from_a_file(folder):
    """The encoding of all rows is that of some folds, not of the first."""
    lands = ["a"] * 60 + ["b"] * 60 + ["c"] * 6 + ["d"] * 6 + ["e"] * 6
    ds = nn.load({"land": lands, "y": np.arange(138) % 2}, target="y")
    widths = set()
    for seed in range(4):
        net = Network("1,4,1", "binary", seed=seed)
        nn.train(net, ds, folds=4, epochs=1)
        widths |= {str([member.layers[0].outputs for member in net.members])}
        check_file(net, folder / "folds.bin", ds.x)
    assert len(widths) > 1


@pytest.mark.parametrize(
    "rule, flags",
    [
        ("f1", {}),
        ("fbeta=2", {"validation": "fold", "patience": 2}),
        ("precision=0.6", {}),
        ("recall=0.9", {"validation": 0.2, "refit": True}),
        ("cost=1:3", {}),
    ],
)
def test_the_threshold_is_decided_out_of_fold(flags, rule):
    """On the rows of all folds together, each predicted by the network that does not
    know it."""
    ds = data("binary")
    net = network("binary", SEED)
    plain = network("binary", SEED)
    flags = {"folds": FOLDS, "epochs": 4, "learning_rate": 0.02, **flags}
    result = nn.train(net, ds, threshold=rule, **flags)
    nn.train(plain, ds, **flags)
    rows, _, scores = out_of_fold(plain, ds)
    assert (
        result["threshold"]
        == net.threshold
        == best_threshold(rule, ds.y[rows], scores[:, 0])
    )
    assert net.threshold != 0.5
    assert plain.threshold == 0.5
    assert net.config["threshold"] == rule
    check_networks(net, plain.members)
    _, of_fold, _ = out_of_fold(plain, ds)
    # each is judged by the threshold that the rows of the others tell
    for fold, told in enumerate(result["folds"]):
        other_rows = of_fold != fold
        truth = ds.y[rows[other_rows]]
        expected = best_threshold(rule, truth, scores[other_rows, 0])
        assert told["threshold"] == expected
        decided = scores[~other_rows, 0] >= told["threshold"]
        expected = (decided == ds.y[rows[~other_rows]]).mean()
        assert told["accuracy"] == pytest.approx(expected)
    thresholds = {fold["threshold"] for fold in result["folds"]}
    assert len(thresholds) > 1


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_temperature_is_decided_out_of_fold(task):
    ds = data(task)
    net = network(task, SEED)
    plain = network(task, SEED)
    if task == "binary":
        rule = {"threshold": "f1"}
    else:
        rule = {}
    result = nn.train(net, ds, folds=FOLDS, epochs=4, calibrate="temperature", **rule)
    nn.train(plain, ds, folds=FOLDS, epochs=4)
    rows, _, scores = out_of_fold(plain, ds)
    calibration = result["calibration"]
    expected = best_temperature(ds.y[rows], scores)
    assert net.temperature == calibration["temperature"] == expected
    assert expected != 1
    _, of_fold, after = out_of_fold(net, ds)
    # each is calibrated by the temperature that the rows of the others tell
    for fold in range(FOLDS):
        other_rows = of_fold != fold
        truth = ds.y[rows[other_rows]]
        temperature = best_temperature(truth, scores[other_rows])
        assert np.array_equal(
            after[~other_rows], tempered(scores[~other_rows], temperature)
        )
    has_one_output = scores.shape[1] == 1
    for name in ("loss", "brier"):
        values = [
            metric(name, task, ds.y[rows], s[:, 0] if has_one_output else s)
            for s in (scores, after)
        ]
        assert calibration["log_loss" if name == "loss" else name] == pytest.approx(
            values, rel=1e-12
        )
    weights = [fold["rows"] for fold in result["folds"]]
    log_losses = [fold["log_loss"] for fold in result["folds"]]
    mean = np.average(log_losses, weights=weights)
    assert mean == pytest.approx(calibration["log_loss"][1], rel=1e-6)
    if rule:
        truth = ds.y[rows]
        threshold = best_threshold("f1", truth, net.calibrated(scores)[:, 0])
        assert net.threshold == threshold


@pytest.mark.parametrize("what", ["weights", "times"])
def test_weights_and_times_count_in_what_is_decided_out_of_fold(what):
    weights = None
    # 0 to 3, of one class eight times that, so that they move the threshold
    if what == "weights":
        draws = np.random.default_rng(3).integers(0, 4, 400)
        selected = np.where(data("binary").y == 0, 8.0, 1.0)
        weights = draws * selected
    ds = data("binary", **{what: np.arange(400.0) if weights is None else weights})
    net = network("binary", SEED)
    nn.train(
        net, ds, folds=FOLDS, epochs=3, threshold="f1", holdout=0.0, learning_rate=0.02
    )
    rows, _, scores = out_of_fold(net, ds)
    # in time the first part is not tested; rows of weight 0 are in no fold
    assert len(rows) == (300 if weights is None else np.count_nonzero(weights))
    if weights is None:
        own_weights = None
    else:
        own_weights = weights[rows]
    truth = ds.y[rows]
    expected = best_threshold("f1", truth, scores[:, 0], own_weights)
    assert net.threshold == expected
    assert own_weights is None or net.threshold != best_threshold(
        "f1", ds.y[rows], scores[:, 0]
    )


def test_what_is_decided_out_of_fold_is_kept_told_and_used(folder):
    write_two_classes(folder / "data.csv", 300)
    flags = "--folds 3 --epochs 3 --holdout 0 --threshold recall=0.9 --calibrate temperature --model f.bin -o o.csv"
    call = ["--train", "--dataset", "data.csv", *flags.split()]
    report = succeed(*call, "-q", "--json").json
    net = Network.of_file("f.bin")
    assert net.threshold == report["threshold"]
    assert net.temperature == report["calibration"]["temperature"]
    tested = succeed("--test", "--model", "f.bin", "--json", "-v").json
    assert tested["threshold"] == report["threshold"]
    assert tested["log_loss"] == report["calibration"]["log_loss"][1]
    assert tested["members"] == report["folds"]
    rows = list(csv.DictReader((folder / "o.csv").open()))
    (score,) = [name for name in rows[0] if name.startswith("score")]
    cuts = [fold["threshold"] for fold in report["folds"]]
    for row in rows:
        expected = net.classes[float(row[score]) >= cuts[int(row["fold"])]]
        assert row["predicted"] == expected
    assert len({*cuts}) > 1
    shown = succeed(*call)
    assert f"threshold {report['threshold']:.6g}" in shown.out
    assert "temperature" in shown.out
    assert "training rows" not in shown.err


@pytest.mark.parametrize(
    "task, flags, expected",
    [
        ("multiclass", {"threshold": "f1"}, "task is"),
        ("regression", {"calibrate": "temperature"}, "task is"),
        ("binary", {"folds": 1}, "--folds"),
        ("binary", {"networks": 2}, "--folds"),
        *(
            (
                "binary",
                {"folds": None, "rows": np.array(rows, int)},
                "rows: expected indices",
            )
            for rows in ([], [3, 3], [-1], [400])
        ),
        (
            "binary",
            {"folds": None, "rows": np.arange(90), "networks": 2},
            "those of one network",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_training(task, flags, expected):
    with pytest.raises(UsageError, match=expected):
        nn.train(
            network(task), data(task), **{"folds": FOLDS, "stop": StopSoon(0), **flags}
        )


@pytest.mark.parametrize(
    "y, more, expected",
    [  # y: None, the classes of the data
        (np.arange(400) < 3, {}, r"rows of class b \(3\)"),
        (None, {"groups": np.arange(400) % 3}, "3 groups"),
        (None, {"times": np.zeros(400)}, "too few times"),
        (np.arange(400) < 10, {"groups": np.arange(400) // 10}, "no row of class b"),
        (np.arange(400) > 350, {"times": np.arange(400.0)}, "no row of class b"),
    ],
)
def test_more_folds_than_the_rows_allow_are_refused(y, more, expected):
    ds = data("binary", **more)
    if y is None:
        ds.y[:] = ds.y
    else:
        ds.y[:] = y
    with pytest.raises(UsageError, match=f"--folds 4: .*{expected}"):
        fold_rows(ds, np.arange(400), 4, 0)


def test_a_summary_leaves_out_what_is_undefined_and_it_is_told_once(caplog):
    summary_of_folds = summary(
        [{"rows": 3, "f1": 1.0, "mcc": None}, {"rows": 3, "f1": 0.5, "mcc": None}]
    )
    expected = {
        "mean": {"f1": 0.75, "mcc": None},
        "std": {"f1": pytest.approx(0.5**0.5 / 2), "mcc": None},
    }
    assert summary_of_folds == expected
    ds = data("multiclass")
    ds.classes = [*ds.classes, "d"]
    net = Network("6,8,4", "multiclass", seed=SEED)
    nn.train(net, ds, folds=FOLDS, epochs=9, learning_rate=0.02, holdout=0.0)
    assert [text for text in caplog.messages if "set to 0" in text] == [
        "set to 0 (denominator 0): precision of d (never predicted); recall of d (not in the data); f1 of d (neither)"
    ]


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "write", [write_two_classes, write_three_classes, write_numbers]
)
def test_folds_are_written_and_tested_out_of_fold_where_no_rows_were_held_out(
    write, folder
):
    path = write(folder / "data.csv")
    call = ["--train", "--dataset", "data.csv", "--folds", FOLDS, "--epochs", 2]
    report = succeed(*call, "-q", "--json", "-o", "o.csv", "--model", "f.bin").json
    assert len(report["folds"]) == FOLDS
    assert set(report["mean"]) == set(report["std"])
    assert report["networks"] == FOLDS
    rows = list(csv.DictReader((folder / "o.csv").open()))
    assert [*rows[0]][:2] == ["row", "fold"]
    expected = sum(fold["rows"] for fold in report["folds"])
    assert len(rows) == expected
    expected = set(map(str, range(FOLDS)))
    assert {row["fold"] for row in rows} == expected
    net = Network.of_file("f.bin")
    ds = nn.load(path)
    test = ["--test", "--model", "f.bin"]
    scores = [
        name
        for name in rows[0]
        if name.startswith("score" if net.task != "regression" else "predicted")
    ]
    found = np.array([[float(row[name]) for name in scores] for row in rows])
    assert np.allclose(found, out_of_fold(net, ds)[2], rtol=1e-6)
    assert "out_of_fold" not in succeed(*test, "-q", "--json").json
    shown = succeed(*call).out
    assert f"{FOLDS} folds" in shown
    assert "deviation" in shown
    assert "no --model" in shown
    succeed(*call, "--holdout", 0, "--model", "f.bin")
    report = succeed(*test, "-v", "--json", "--intervals").json
    figures = figures_out_of_fold(
        Network.of_file("f.bin"), ds, intervals=True, by_member=True
    )
    # rows of the training are no others
    assert report == {**figures, "drift": None}
    assert report["rows"] == ds.rows
    assert len(report["members"]) == FOLDS
    assert "out of fold" in succeed(*test).out
    output = succeed(*test, "-v", "--json", "--intervals", "--dataset", path)
    assert output.json == report, "known by its digest"
    assert (
        succeed(*test, "--json", "--intervals", "--verbose", "--memory", "2G").json
        == report
    )
    lines = path.read_text().splitlines()[-1]
    path.write_text(path.read_text() + lines + "\n")
    assert run(*test).code == 65


@pytest.mark.parametrize(
    "more", [[], ["--number_embedding", "pieces3", "--validation", "fold"]]
)
def test_rows_that_a_limit_of_the_memory_holds_give_the_same_bytes(more, folder):
    (folder / "people.csv").write_text(as_csv(people()))
    call = [
        *argv(
            f"--train --dataset people.csv --layers auto,8,1 --folds {FOLDS} --epochs 2 -q"
        ),
        *more,
    ]
    found = []
    for limits in ([], ["--memory", "1G"], ["--memory", "80M"]):
        succeed(*call, *limits, "--model", "m.bin", "-o", "o.csv")
        contents = [(folder / name).read_bytes() for name in ("m.bin", "o.csv")]
        found.append(contents)
    assert found[0] == found[1] == found[2]
    result = run(*call, "--memory", "60M")
    assert result.code == 2
    assert "--memory 60M: too little for these 3 networks" in result.err
    match = re.search(r"at least (\d+M) is needed", result.err)
    succeed(*call, "--memory", match[1])


def test_train_needs_a_model_or_folds(two):
    assert "--train needs --model" in run("--train", "--dataset", "two.csv").err
    result = run(
        *argv("--train --dataset two.csv --model m.bin --layers 2,4,1 -o o.csv")
    )
    assert result.code == 2
    assert "--folds" in result.err


def test_predictions_of_folds_of_images_are_written_and_those_of_a_choice_refused(
    folder,
):
    np.savez("i.npz", x=np.zeros((40, 1, 6, 6), np.uint8), y=np.arange(40) % 2)
    use = ["--train", "--dataset", "i.npz", "-q", "-o", "o.csv"]
    refused = run(*use, "--model", "m.bin", "--effort", "quick")
    assert refused.code == 2
    assert "images are judged by validation rows" in refused.err
    assert not (folder / "o.csv").exists()
    succeed(*use, "--holdout", 0, "--folds", 2, "--epochs", 1, "--layers", "auto,1")
    assert len((folder / "o.csv").read_text().splitlines()) == 1 + 40


def test_a_choice_by_validation_rows_has_a_model_and_no_predictions(two, monkeypatch):
    monkeypatch.setattr(random, "SHUFFLED_BYTES", 1)  # of a table that is not large
    words = argv("train two.csv -m m.bin --effort quick --epochs 1 -o o.csv -q")
    line = "--output o.csv: validation rows, not folds, judged so large a table"
    assert run(*words) == (73, "", f"nn: {line}; m.bin is written\n")
    assert sorted(os.listdir()) == ["m.bin", "two.csv"]


@pytest.mark.parametrize("networks", [1, 2])
def test_the_rows_of_a_fold_have_the_members_that_predicted_them(networks):
    ds = data("regression", 60)
    net = network("regression")
    nn.train(net, ds, folds=FOLDS, epochs=2, holdout=0.0)
    if networks == 2:  # as of two cross-validations one after the other
        member_weights = np.array(net.member_weights)
        net.combine(
            [*net.members, *net.members], [*net.member_weights, *(3 * member_weights)]
        )
    parts = unseen_parts(net, ds)
    assert sorted(np.concatenate([rows for rows, _ in parts])) == list(range(60))
    for rows, members in parts:
        expected = [1.0, 3.0][:networks]
        assert [weight / members[0][1] for _, weight in members] == expected
        for member, _ in members:
            predictions = member.predict(ds.x[rows])
            assert np.allclose(predictions, net.crossed.scores[rows], rtol=1e-5)
