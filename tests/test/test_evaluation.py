"""`nn.test(net, ds)`: the report of a network on a data set, and what cannot be
judged."""

import json

import numpy as np
import pytest
from support.command_line import succeed, write_two_classes
from support.figures import close, column, dataset, network

from nn.ds import load
from nn.nn import Network
from nn.test import check_threshold
from nn.test import test as evaluate  # under another name, pytest would collect it
from nn.utils import DataError, NnError, UsageError


def test_a_binary_network_is_judged_at_its_own_threshold_or_the_one_given():
    net = network("binary", None, threshold=0.3)
    ds = dataset("binary", [0, 1, 0, 1])
    net.predict = lambda x: x[:, :1]
    ds.x = np.array([[0.1, 9], [0.4, 9], [0.6, 9], [0.9, 9]])
    report = evaluate(net, ds)
    given_ = evaluate(net, ds, threshold=0.75)
    assert report["threshold"] == 0.3
    assert report["tp"] == 2
    assert report["fp"] == 1
    assert report["tn"] == 1
    assert given_["threshold"] == 0.75
    assert given_["tp"] == 1
    assert given_["fp"] == 0
    assert given_["fn"] == 1
    assert report["roc_auc"] == given_["roc_auc"] == 0.75


ANIMALS = ["ant", "bee", "cat"]


@pytest.mark.parametrize(
    "net, ds, expected",
    [
        (
            network("multiclass", np.eye(3), classes=ANIMALS),
            dataset("multiclass", [0, 1, 2], classes=ANIMALS),
            {"accuracy": 1, "per_class": ANIMALS},
        ),
        # data that lack a class are matched by name: there «cat» is class 1; for the
        # network it is 2
        (
            network("multiclass", np.eye(3)[[0, 2, 2]], classes=ANIMALS),
            dataset("binary", [0, 1, 1], classes=ANIMALS[::2]),
            {"accuracy": 1, "confusion": [[1, 0, 0], [0, 0, 0], [0, 0, 2]]},
        ),
        (
            network("binary", column([0.9, 0.8]), classes=["good", "fraud"]),
            dataset("binary", [0, 0], classes=["fraud"]),
            {"tp": 2, "fp": 0},
        ),
        (
            network("multiclass", np.eye(3)),
            dataset("multiclass", [0, 1, 1], classes=["a", "b"]),
            {"per_class": ["0", "1", "2"]},
        ),
        (
            network("regression", column([1, 2, 4])),
            dataset("regression", [1.0, 2.0, 3.0]),
            {"mse": close(1 / 3), "r2": close(0.5)},
        ),
        (
            network("binary", column([0.2, 0.7])),
            dataset("binary", np.array([0, 0], np.int32)),
            {"tn": 1, "roc_auc": None},
        ),
        (
            network("multiclass", np.eye(3, dtype=np.float32)),
            dataset("multiclass", np.array([0, 1, 1], np.int32)),
            {"accuracy": close(2 / 3)},
        ),
        (
            network("regression", column([1, 2])),
            dataset("regression", np.ones((2, 1), np.float32)),
            {"r2": None},
        ),
    ],
)
def test_a_report_is_strict_json_and_the_network_matches_and_names_its_classes(
    net, ds, expected
):
    report = evaluate(net, ds)
    document = json.loads(json.dumps(report, allow_nan=False))
    assert document == report
    report["per_class"] = [row["class"] for row in report.get("per_class", ())]
    assert {name: report[name] for name in expected} == expected


@pytest.mark.parametrize(
    "net, ds, error, words",
    [
        (
            network("binary", column([0.1, np.nan, np.inf])),
            dataset("binary", [0, 1, 1]),
            NnError,
            "2 of 3 rows",
        ),
        (
            network("regression", column([np.nan])),
            dataset("regression", [[1.0]]),
            NnError,
            "1 of 1 rows",
        ),
        (
            network("multiclass", [[0.0, np.nan]]),
            dataset("multiclass", [1]),
            NnError,
            "1 of 1 rows",
        ),
        (
            network("binary", np.zeros((0, 1))),
            dataset("binary", [], path="cc.csv"),
            DataError,
            "cc.csv: found no rows",
        ),
        (
            network("binary", np.zeros((1, 2))),
            dataset("binary", [0]),
            UsageError,
            "has 2",
        ),
        (
            network("binary", column([1])),
            dataset("multiclass", [2]),
            DataError,
            "class number 2, expected 0 to 1",
        ),
        (
            network("multiclass", np.eye(2)),
            dataset("multiclass", [0, -1]),
            DataError,
            "class number -1",
        ),
        (
            network("regression", np.eye(2)),
            dataset("regression", np.eye(2)[:, :1]),
            DataError,
            "found 1 target",
        ),
        (
            network("multiclass", np.eye(2), classes=["a", "b"]),
            dataset("multiclass", [0, 1], classes=["a", "z"], path="t"),
            DataError,
            "t: found class 'z', expected one of the network's: a, b",
        ),
    ],
)
def test_what_cannot_be_judged_is_one_clear_line(net, ds, error, words):
    with pytest.raises(error) as caught:
        evaluate(net, ds)
    assert type(caught.value) is error
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression"])
def test_data_of_another_kind_of_targets_are_to_be_loaded_with_the_task(task):
    """Two classes and several are of one kind."""
    kinds = {"binary": 0, "multiclass": 0, "multilabel": 1, "regression": 2}
    for other, kind in kinds.items():
        if kind != kinds[task]:
            message = f"task is {task}, the data .* as {other}; .* task='{task}'"
            with pytest.raises(UsageError, match=message):
                evaluate(network(task, np.eye(2)), dataset(other, np.eye(2)))


def test_a_threshold_is_finite_and_for_two_classes():
    for threshold in (np.nan, np.inf):
        net = network("binary", column([0.5]))
        with pytest.raises(UsageError, match="threshold"):
            evaluate(net, dataset("binary", [1]), threshold=threshold)
    net = network("multiclass", np.eye(2))
    with pytest.raises(
        UsageError,
        match="threshold 0.3: is for two classes, the task is multiclass; leave it out",
    ):
        evaluate(net, dataset("multiclass", [0, 1]), threshold=0.3)


@pytest.mark.parametrize(
    "output, ends", [("sigmoid", (0, 1)), ("tanh", (-1, 1)), ("relu", (0, np.inf))]
)
def test_a_threshold_is_one_of_the_scores_that_there_may_be(output, ends):
    net = Network(f"2,1:{output}", "binary", loss="mse")
    for end in filter(np.isfinite, ends):
        check_threshold(net, end)
        beyond = end + (end or -1) / 100
        with pytest.raises(UsageError, match=r"from -?\d to \w+, so all rows would be"):
            check_threshold(net, beyond)
    check_threshold(Network("2,1:linear", "binary", loss="mse"), -7)


def test_each_member_is_told_by_the_threshold_that_is_asked_for(folder):
    write_two_classes(folder / "t.csv", 60)
    flags = "--networks 2 --epochs 2 --holdout 0 --model m.bin -q"
    succeed("--train", "--dataset", "t.csv", *flags.split())
    net = Network.of_file("m.bin")
    net.combine(net.members, [3.0, 0.5])
    net.export("m.bin")
    ask = "--test --model m.bin --dataset t.csv --threshold 0.6 --verbose --json"
    told = succeed(*ask.split()).json["members"]
    ds = load("t.csv")
    assert [figures["weight"] for figures in told] == [3.0, 0.5]
    assert [figures["seed"] for figures in told] == [0, 1]
    for member, figures in zip(Network.of_file("m.bin").members, told, strict=True):
        said = member.predict(ds.x)[:, 0].astype(np.float64) >= 0.6
        assert figures["threshold"] == 0.6
        assert figures["tp"] == np.sum(said & (ds.y == 1))
        assert figures["fp"] == np.sum(said & (ds.y == 0))
