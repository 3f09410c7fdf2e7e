"""--keep: the worse networks are given up early, and those are chosen that together do best on validation rows."""

import itertools
import math

import numpy as np
import pytest
from support.command_line import run, succeed, write_numbers, write_three_classes, write_two_classes
from support.packs import BEST, LAYERS, SEED, StopSoon, alone, data, network, vector

import nn
from nn.core.metrics import METRICS, metric
from nn.nn import Network
from nn.train.halving import SuccessiveHalving, survivors
from nn.train.selection import greedy_selection
from nn.train.validation import Monitor
from nn.utils import NnError, Stopped, UsageError

COUNT = 12
KEEP = 3
VARY = "learning_rate=1e-4..1e-1,hidden=4|16,dropout=0|0.3"


def together(task="binary", ds=None, networks=COUNT, keep=KEEP, **flags):
    net = network(task, SEED)
    given = {"epochs": 8, "validation": 0.3, "patience": 3, "monitor": BEST[task], "vary": VARY}
    return net, nn.train(net, ds or data(task), networks=networks, keep=keep, **{**given, **flags})


def by_status(result, status):
    return [trial for trial in result["trials"] if trial["status"] == status]


# ---------------------------------------------------------------- the promise


@pytest.mark.parametrize("task", LAYERS)
def test_members_are_the_networks_alone_and_the_given_up_the_worst(task):
    net, result = together(task)
    flags = {"epochs": 8, "validation": 0.3, "patience": 3, "monitor": BEST[task]}
    for member, told in zip(net.members, result["members"], strict=True):
        own = alone(task, member, told["settings"], **flags)
        assert np.array_equal(vector(member), vector(own)) and member.metadata() == own.metadata()
    given_up = by_status(result, "given up")
    assert len(given_up) == COUNT - 6 and {trial["epochs"] for trial in given_up} <= {1, 2, 3, 4}
    # by hand: each network alone, compared by its best epoch of the first half
    scores = []
    for trial in result["trials"]:
        maker = Network(LAYERS[task], task, seed=trial["seed"], backend="omp")
        history = alone(task, maker, trial["settings"], **flags).history["val_metric"][:4]
        scores.append(max(history) if METRICS[BEST[task]].higher_is_better else -min(history))
    worst = sorted(range(COUNT), key=lambda number: (-scores[number], number))[6:]
    assert sorted(trial["seed"] - SEED for trial in given_up) == sorted(worst)


@pytest.mark.parametrize("task", LAYERS)
def test_the_members_are_those_of_a_greedy_selection_by_hand(task):
    ds = data(task)
    net, result = together(task, ds)
    rows = nn.ds.split_rows(ds, 0.2, 0.3, SEED).validation
    left = [trial for trial in result["trials"] if trial["status"] != "given up"]
    flags = {"epochs": 8, "validation": 0.3, "patience": 3, "monitor": BEST[task]}
    scores = [
        alone(task, Network(LAYERS[task], task, seed=trial["seed"]), trial["settings"], **flags).predict(ds.x[rows])
        for trial in left
    ]
    sign = 1 if METRICS[BEST[task]].higher_is_better else -1

    def value(numbers):
        mean = np.mean([scores[number].astype(np.float64) for number in numbers], 0)
        return sign * metric(BEST[task], task, ds.y[rows], mean)

    best = []
    for _ in range(KEEP):
        best.append([*best[-1], 0] if best else [0])
        best[-1][-1] = max(range(len(left)), key=lambda number: value([*best[-1][:-1], number]))
    chosen = max(best, key=value)
    weights = {left[number]["seed"]: float(chosen.count(number)) for number in sorted(set(chosen))}
    assert {told["seed"]: told["weight"] for told in result["members"]} == weights
    assert net.member_weights == list(weights.values()) and result["networks"] == len(weights)
    assert value(chosen) >= max(value([number]) for number in range(len(left)))
    lists = [member.history["loss"][0] for member in net.members]
    assert result["loss"][0] == pytest.approx(np.average(lists, weights=net.member_weights))


@pytest.mark.parametrize("flags", [{}, {"epochs": 16, "networks": 16, "keep": 2, "patience": None}])
def test_a_stopped_training_goes_on_to_the_same_model(flags, folder):
    flags = {"vary": "learning_rate=1e-4..1e-1,hidden=4|16,epochs=4..9", **flags}
    flags = {name: value for name, value in flags.items() if not (name == "vary" and "epochs" in flags)}
    net, whole = together(**flags)
    net.export(folder / "whole.bin")
    ended, stops = None, 0
    while ended is None:
        try:
            given = {"checkpoint": folder / "state.nn", "resume": "auto", "stop": StopSoon(7 + stops % 9)}
            ended, result = together(**flags, **given)
        except Stopped:
            stops += 1
    assert stops > 1
    ended.export(folder / "ended.bin")
    assert (folder / "ended.bin").read_bytes() == (folder / "whole.bin").read_bytes()
    assert result["trials"] == whole["trials"]
    with pytest.raises(UsageError, match="--keep"):
        together(**{**flags, "keep": 1}, checkpoint=folder / "state.nn", resume="auto")


def break_some(monkeypatch, broken):
    usual = Network.sibling

    def sibling(self, seed, layers=None):
        net = usual(self, seed, layers)
        if seed in broken:
            name = list(net.parameters())[-2]
            net.set_parameters({name: np.full_like(net.parameters()[name], np.inf)})
        return net

    monkeypatch.setattr(Network, "sibling", sibling)


def test_a_network_whose_loss_is_no_number_fails_and_the_others_go_on(monkeypatch, caplog):
    break_some(monkeypatch, {SEED + 1, SEED + 4})
    net, result = together()
    assert [trial["seed"] for trial in by_status(result, "failed")] == [SEED + 1, SEED + 4]
    assert "network 1, seed 6, is left out: loss is nan" in caplog.text
    assert len(by_status(result, "given up")) == COUNT - 2 - 6
    assert not {member.seed for member in net.members} & {SEED + 1, SEED + 4}
    break_some(monkeypatch, set(range(SEED, SEED + COUNT)))
    with pytest.raises(NnError, match="loss is nan"):
        together()


def test_threshold_and_temperature_are_found_for_the_members():
    ds = data("binary", 900)
    net, result = together(ds=ds, threshold="f1", calibrate="temperature")
    assert net.temperature != 1 and result["threshold"] == net.threshold
    assert all(member.temperature == 1 and member.threshold == 0.5 for member in net.members)


def test_keep_alone_chooses_among_seeds():
    net, result = together(vary=None, keep=2)
    assert all(not trial["settings"] for trial in result["trials"]) and sum(net.member_weights) <= 2
    assert len(by_status(result, "given up")) == COUNT - 6


# ---------------------------------------------------------------- what decides


@pytest.mark.parametrize(
    ("count", "keep", "left"),
    [(64, 8, [32, 16]), (12, 3, [6]), (10, 2, [5]), (11, 8, []), (9, 1, [5, 3, 2]), (2, 1, [])],
)
def test_half_are_left_while_that_is_twice_what_is_kept(count, keep, left):
    assert survivors(count, keep) == left


def test_comparisons_are_by_shares_of_each_networks_epochs():
    halving = SuccessiveHalving(Monitor("loss"), [8, 16, 5, 1, *[8] * 12], 4)
    assert [halving.epoch_of(n) for n in range(4)] == [4, 8, 3, 1]
    halving = SuccessiveHalving(Monitor("roc_auc"), [8, 16, 5, 1, *[8] * 12], 2)
    assert [halving.epoch_of(n) for n in range(4)] == [2, 4, 2, 1]
    assert halving.waits(0, 2) and not halving.waits(0, 1)
    nan = math.nan
    metrics = {n: [0.1 * n, 0.5, 9.0] for n in range(16)} | {0: [0.5, 0.2], 2: [0.1] * 9, 3: [], 7: [nan, nan]}
    worse = halving.compare(metrics)
    # 15 to 8 and 6 have more than 0.5, 1 has 9.0 in its first four epochs: the last of these ten are given up
    assert worse == [8, 6, 0, 4, 5, 2, 3, 7]
    assert halving.given_up == {*worse} and halving.epoch_of(0) == 4


@pytest.mark.parametrize("name", ["rmse", "r2"])
def test_selection_among_ten_against_brute_force(name):
    rng, monitor = np.random.default_rng(3), Monitor(name)
    truth = rng.normal(size=(60, 1))
    scores = [truth + rng.normal(size=(60, 1)) * rng.uniform(0.5, 2) + rng.normal() for _ in range(10)]
    sign = 1 if METRICS[name].higher_is_better else -1

    def value_of(mean):
        return metric(name, "regression", truth, mean)

    def value(numbers):
        return sign * value_of(sum(scores[number] for number in numbers) / len(numbers))

    single = greedy_selection(scores, 1, monitor, value_of)
    assert single == [int(n == max(range(10), key=lambda n: value([n]))) for n in range(10)]
    for picks in (2, 3, 5):
        counts = greedy_selection(scores, picks, monitor, value_of)
        chosen = [number for number, count in enumerate(counts) for _ in range(count)]
        assert 0 < len(chosen) <= picks
        steps = [max(range(10), key=lambda n: value([n]))]
        ways = [list(steps)]
        while len(steps) < picks:  # greedy by hand
            steps.append(max(range(10), key=lambda n: value([*steps, n])))
            ways.append(list(steps))
        assert sorted(max(ways, key=value)) == chosen
        best = max(
            value(numbers)
            for size in range(1, picks + 1)
            for numbers in itertools.combinations_with_replacement(range(10), size)
        )
        assert value([steps[0]]) <= value(chosen) <= best + 1e-12
        assert value(chosen) > value([steps[0]]) or picks == 1
        assert value(chosen) - value([steps[0]]) > (best - value([steps[0]])) / 2  # most of what there is to gain


def test_a_network_may_be_chosen_repeatedly():
    truth = np.zeros((1, 1))
    scores = [np.array([[1.0]]), np.array([[-2.0]])]
    counts = greedy_selection(scores, 3, Monitor("rmse"), lambda mean: float(np.abs(mean - truth).max()))
    assert counts == [2, 1]


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"validation": None, "monitor": None, "patience": None}, "--keep 3: chooses by validation rows"),
        ({"networks": 2}, "must be from 1 to 2"),
        ({"keep": 0}, "must be from 1"),
        ({"networks": None, "vary": None}, "needs several networks"),
        ({"refit": True}, "--refit"),
        ({"folds": 3, "networks": None, "vary": None}, "--folds"),
    ],
)
def test_what_cannot_be_kept_is_refused(flags, expected):
    with pytest.raises(UsageError, match=expected):
        together(**flags)


def test_an_estimator_tunes_too():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = (x[:, 0] > 0).astype(int)
    vary = "learning_rate=1e-3..1e-1,hidden=4|8"
    estimator = nn.NetworkClassifier(networks=6, vary=vary, keep=2, validation=0.3, epochs=4, batch_size=16)
    members = estimator.fit(x, y).network_.members
    assert 1 <= len(members) <= 2 and estimator.network_.config["vary"] == vary and estimator.score(x, y) > 0.8


@pytest.mark.parametrize("write", [write_two_classes, write_three_classes, write_numbers])
def test_keep_on_the_command_line(write, folder):
    path, model = write(folder / "data.csv", 200), folder / "k.bin"
    call = ["--train", "--dataset", path, "--model", model, "--networks", 8, "--epochs", 4]
    vary = ["--vary", "learning_rate=1e-3..1e-1,hidden=4|8"]
    told = succeed(*call, *vary, "--keep", 2, "--validation", 0.3, "-q", "--json").json
    assert len(told["trials"]) == 8 and 1 <= len(told["members"]) <= 2
    net, info = Network.load(model), succeed("--info", "--model", model, "--json").json
    assert net.member_weights == [own["weight"] for own in told["members"]]
    assert info["config"]["keep"] == 2 and info["config"]["networks"] == 8 and info["parameters"] == told["parameters"]
    ds = nn.load(path)
    assert np.array_equal(net.predict(ds.x), Network.load(model).predict(ds.x))
    assert succeed("--test", "--model", model, "-q", "--json").json["rows"] == len(
        nn.ds.split_rows(ds, 0.2, 0.3, 0).holdout
    )
    result = run(*call, *vary, "--keep", 2)
    assert result.code == 2 and "--keep 2: chooses by validation rows" in result.err
