"""Settings of images two by two: every pair of them trains a small model, after which
the same promises are checked."""

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from support.packs import check_file

import nn
from nn.data.splits import split_rows
from nn.test.compare import Side, compared_sides
from nn.test.out_of_fold import figures_out_of_fold

allpairspy = pytest.importorskip("allpairspy")

FACTORS = OrderedDict(
    pixels=("bytes", "fractions", "numbers"),
    channels=(1, 3),
    target=("two", "three", "number"),
    way=("one", "networks", "folds"),
    weights=("none", "weights"),
    validation=("none", "0.25"),
    threshold=("usual", "f1"),
    calibrate=("none", "temperature"),
    dtype=("float32", "float64"),
    backend=("omp", "seq"),
)
ROWS = 60
NEW = 12


def is_possible(values: list) -> bool:
    """Return whether a case, or the beginning of one, has no settings that are refused
    together."""
    case = dict(zip(FACTORS, values))
    target = case.get("target", "two")
    if case.get("threshold") == "f1" and target != "two":
        return False
    if case.get("calibrate") == "temperature" and target == "number":
        return False
    is_decided = case.get("threshold") == "f1" or case.get("calibrate") == "temperature"
    return not (
        is_decided and case.get("validation") == "none" and case.get("way") != "folds"
    )


CASES = [
    dict(zip(FACTORS, row))
    for row in allpairspy.AllPairs(list(FACTORS.values()), filter_func=is_possible)
]


def images_of(case: dict, rows: int = ROWS, seed: int = 0) -> nn.Dataset:
    """Return images of 6 x 5 pixels whose upper half tells the target."""
    draws = np.random.default_rng(seed)
    x = draws.integers(0, 200, (rows, case["channels"], 6, 5))
    score = draws.normal(size=rows)
    x[:, :, :3] += np.clip(25 * score, -50, 50).astype(int)[:, None, None, None]
    x = np.clip(x, 0, 255)
    pixels = {
        "bytes": x.astype(np.uint8),
        "fractions": (x / 255).astype(case["dtype"]),
        "numbers": x / 7 - 11,
    }
    if case["weights"] == "weights":
        weights = draws.integers(1, 4, rows).astype(float)
    else:
        weights = None
    x = pixels[case["pixels"]]
    if case["target"] == "number":
        return nn.Dataset(x, 100 + 10 * score, "regression", weights=weights)
    if case["target"] == "two":
        return nn.Dataset(
            x, (score > 0).astype(int), "binary", ["no", "yes"], weights=weights
        )
    return nn.Dataset(
        x,
        np.digitize(score, [-0.5, 0.5]),
        "multiclass",
        ["a", "b", "c"],
        weights=weights,
    )


def settings_of(case: dict) -> dict:
    settings = {"epochs": 2, "learning_rate": 0.02, "holdout": 0.0}
    settings |= {"one": {}, "networks": {"networks": 2}, "folds": {"folds": 3}}[
        case["way"]
    ]
    if case["validation"] != "none":
        settings["validation"] = 0.25
    if case["threshold"] == "f1":
        settings["threshold"] = "f1"
    if case["calibrate"] == "temperature":
        settings["calibrate"] = "temperature"
    return settings


def network_of(case: dict, ds: nn.Dataset) -> nn.Network:
    outputs = {"two": 1, "three": 3, "number": 1}[case["target"]]
    layers = f"{case['channels']}x6x5,conv2k3p1,maxpool2,4:tanh,{outputs}"
    return nn.Network(
        layers, ds.task, seed=3, dtype=case["dtype"], backend=case["backend"]
    )


class Trained(NamedTuple):
    """A case that was trained, and images that the network does not know."""

    case: dict
    ds: nn.Dataset
    net: nn.Network
    figures: dict
    new: nn.Dataset


def name_of(case: dict) -> str:
    return "-".join(map(str, case.values()))


def of_cases(holds):
    """Return a decorator: the test is of the cases of which this holds."""
    return pytest.mark.parametrize(
        "trained", list(filter(holds, CASES)), indirect=True, ids=name_of
    )


@pytest.fixture(scope="module", params=CASES, ids=name_of)
def trained(request) -> Trained:
    """Each case, trained once."""
    case = request.param
    ds = images_of(case)
    net = network_of(case, ds)
    figures = nn.train(net, ds, **settings_of(case))
    return Trained(case, ds, net, figures, images_of(case, NEW, 1))


def test_training_again_makes_the_same_network(trained):
    again = network_of(trained.case, trained.ds)
    nn.train(again, trained.ds, **settings_of(trained.case))
    expected = trained.net.predict(trained.new.x)
    assert np.array_equal(again.predict(trained.new.x), expected)


def test_an_image_alone_is_the_image_among_others_also_of_a_file(trained, tmp_path):
    together = trained.net.predict(trained.new.x)
    for net in (
        trained.net,
        check_file(trained.net, tmp_path / "m.bin", trained.new.x),
    ):
        assert np.array_equal(net.predict(trained.new.x), together)
        for row in (0, 5, NEW - 1):
            predictions = net.predict(trained.new.x[row : row + 1])
            assert np.array_equal(predictions[0], together[row])


@pytest.mark.usual(4)
def test_figures_are_by_hand_and_lie_in_their_intervals(trained):
    net = trained.net
    new = trained.new
    report = nn.test(net, new, intervals=True)
    scores = net.predict(new.x).astype(np.float64)
    if new.task == "regression":
        mean_figure = np.average((scores[:, 0] - new.y[:, 0]) ** 2, weights=new.weights)
        assert report["mse"] == pytest.approx(mean_figure, rel=1e-9)
    elif new.task == "binary":
        right = (scores[:, 0] >= net.threshold) == new.y
        expected = np.average(right, weights=new.weights)
        assert report["accuracy"] == pytest.approx(expected)
    else:
        logarithms = np.log(scores[np.arange(NEW), new.y])
        loss = np.average(-logarithms, weights=new.weights)
        assert report["log_loss"] == pytest.approx(loss, rel=1e-5)
    figures = report | {
        f"macro_{name}": value for name, value in report.get("macro", {}).items()
    }
    for name, ends in report["intervals"].items():
        if ends is not None:
            assert ends[0] <= figures[name] <= ends[1], name


def test_an_image_of_weight_2_is_the_image_twice(trained):
    weights = 1 + np.arange(NEW) % 3
    new = images_of(trained.case | {"weights": "none"}, NEW, 1)
    repeated = nn.test(trained.net, new.of_rows(np.repeat(np.arange(NEW), weights)))
    new.weights = weights.astype(float)
    weighted = nn.test(trained.net, new)
    for name in {
        "accuracy",
        "log_loss",
        "brier",
        "f1",
        "roc_auc",
        "mse",
        "mae",
        "r2",
    } & weighted.keys():
        assert weighted[name] == pytest.approx(repeated[name], rel=1e-12), name


@of_cases(lambda case: case["way"] == "folds")
def test_images_out_of_fold_have_what_the_training_told(trained):
    figures = figures_out_of_fold(trained.net, trained.ds, by_member=True)["members"]
    for fold, member in zip(trained.figures["folds"], figures, strict=True):
        for name in {"accuracy", "log_loss", "f1", "rmse"} & member.keys():
            assert fold[name] == member[name], name


@pytest.mark.usual(3)
def test_a_comparison_tells_the_figures_of_each_model(trained):
    other = network_of(trained.case, trained.ds)
    nn.train(other, trained.ds, epochs=1, holdout=0.0)
    sides = [Side.of(net, trained.new) for net in (trained.net, other)]
    comparison = compared_sides(sides, ("a", "b"))
    for name, net in (("a", trained.net), ("b", other)):
        figures = nn.test(net, trained.new)
        for key in {"accuracy", "log_loss", "roc_auc", "rmse", "r2"} & figures.keys():
            assert comparison["metrics"][key][name] == figures[key], key


@of_cases(lambda case: case["validation"] != "none")
def test_images_that_validate_change_no_parameter_of_an_epoch_that_all_have(trained):
    """Of one network and one epoch, which is the best one whatever the validation rows
    say."""
    networks = []
    for is_changed in (False, True):
        ds = images_of(trained.case)
        if is_changed:
            rows = split_rows(ds, 0.0, 0.25, 3).validation
            ds.x[rows] = ds.x[rows][..., ::-1]
        net = network_of(trained.case, ds)
        nn.train(net, ds, epochs=1, holdout=0.0, validation=0.25)
        networks.append(net)
    for name, values in networks[0].parameters().items():
        expected = networks[1].parameters()[name]
        assert np.array_equal(values, expected), name
