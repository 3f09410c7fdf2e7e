"""--effort: candidates within a budget of operations, chosen by the rows that their
networks do not know."""

import csv
import json
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

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
from support.networks import flattened, members_with_and_without_an_encoding
from support.packs import check_means, until_ended
from support.streams import alone
from support.tables import csv_of

import nn
from nn.core.thresholds import best_temperature, best_threshold, tempered
from nn.data.splits import fold_rows, most_folds
from nn.files.checkpoint import Checkpoint
from nn.nn.model import packed
from nn.nn_aux import EFFORTS
from nn.test.out_of_fold import out_of_fold
from nn.train import effort_plan
from nn.train.asked import why_not
from nn.train.candidates import (
    NARROW_CANDIDATE,
    WIDE,
    WITH_PIECES,
    WITH_WAVES,
    Thrift,
    candidates_for,
    thrifts_for,
)
from nn.train.effort import Effort
from nn.train.effort_plan import EffortPlan, Planned
from nn.utils import UsageError, figure_text
from nn.watch.callbacks import Callback


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two classes by a number, a wave of another, and a word."""
    rng = np.random.default_rng(17)  # networks of several kinds are chosen
    x = rng.normal(size=(200, 2))
    word = rng.choice(["red", "green"], 200)
    exponentials = np.exp(-(x[:, 0] + 2 * np.sin(4 * x[:, 1]) + (word == "red")))
    chance = 1 / (1 + exponentials)
    columns = *x.round(5).T, word, (rng.random(200) < chance).astype(int)
    path = tmp_path_factory.mktemp("effort") / "table.csv"
    path.write_text(csv_of("abwy", columns))
    return path


def trained(table, folder, *flags):
    """Figures and bytes of m.bin."""
    out = succeed(
        *argv(f"--train --dataset {table}"),
        "--model",
        folder / "m.bin",
        *argv("--effort standard --json"),
        *flags,
    )
    return out.json, (folder / "m.bin").read_bytes()


@pytest.fixture(scope="module")
def standard(table, tmp_path_factory):
    """Figures and model of one run, and where it is."""
    folder = tmp_path_factory.mktemp("standard")
    return *trained(table, folder, "--threads", "1"), folder / "m.bin"


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "flags, fits",
    [("--threads 2", True), ("--memory 1G", True), ("--memory 80M", False)],
)
def test_any_threads_and_memory_choose_the_same_model_or_one_network(
    flags, fits, table, standard, folder
):
    """Without a word. In a process of its own: the limit counts what this one has."""
    net_alone = alone("--train", "--dataset", table, "--model", "m.bin", *flags.split())
    assert ((folder / "m.bin").read_bytes() == standard[1]) == fits
    assert ("--memory has no room for several" in net_alone) != fits
    if fits:
        with pytest.raises(
            UsageError, match=r"holds \d+ networks; nn.Model.load reads it"
        ):
            nn.Network.load("m.bin")


def test_the_figures_are_those_of_test_out_of_fold_also_under_a_limit_on_memory(
    standard,
):
    figures, _, path = standard
    report = succeed("--test", "--model", path, "--json").json
    assert report["out_of_fold"] is True
    assert figures["effort"] == "standard"
    assert figures["tried"] == 3
    for name in ("roc_auc", "f1", "log_loss"):
        expected = figures["out_of_fold"][name]
        assert report[name] == pytest.approx(expected, rel=1e-6)
    folds = succeed("--test", "--model", path, "--json", "-v").json["members"]
    assert len(folds) == 8
    total = sum(fold["rows"] for fold in folds)
    assert total == report["rows"]
    assert report == succeed("--test", "--model", path, "--memory", "1G", "--json").json
    refused = run("--test", "--model", path, "--memory", "20M")
    assert refused.code == 2
    assert "--memory 20M: too little for this network" in refused.err


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("rows", [300, 30_000])
def test_the_candidates_fit_the_budget_unless_even_the_cheapest_does_not(rows, effort):
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(rows, 40)).astype(np.float32)
    ds = nn.Dataset(draws, rng.integers(0, 2, rows), "binary", ["0", "1"])
    candidates = EffortPlan(ds, effort, {}, {}).candidates()
    costs = [cost for *_, cost in candidates]
    expected = [candidate.operations(net, rows) for candidate, net, _ in candidates]
    assert costs == expected
    assert 1 <= len(candidates) <= len(candidates_for(rows, effort))
    assert sum(costs) <= EFFORTS[effort] or len(candidates) == 1


def test_best_tries_ten_and_of_many_rows_six_by_more_folds_and_asks_for_the_memory():
    few = candidates_for(300, "best")
    many = candidates_for(30_000, "best")
    assert len(few) == 10
    assert len(many) == 6
    assert thrifts_for(30_000, "best")[0].folds == 8
    assert thrifts_for(30_000, "standard")[0].folds == 4
    draws = np.random.default_rng(1).normal(size=(300, 40))
    x = draws.astype(np.float32)
    reasons = []
    for memory in (80 << 20, 300 << 20, 1 << 30):
        ds = nn.Dataset(x, np.arange(300) % 2, "binary", ["0", "1"], memory=memory)
        reasons.append([why_not(ds, effort) is None for effort in ("standard", "best")])
    assert reasons == [[False, False], [True, False], [True, True]]


def test_no_two_candidates_are_the_same_network():
    """Without a number there is nothing for the waves of one of them."""
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["red", "green", "blue"], 200) for name in "ab"}
    y = rng.choice(["no", "yes"], 200)
    for more, count in (({"c": rng.normal(size=200)}, 3), ({}, 2)):
        ds = nn.load({**columns, **more}, y=y)
        assert len(EffortPlan(ds, "standard", {}, {}).candidates()) == count


@pytest.mark.parametrize(
    "flag", [["--layers", "auto,4,1"], ["--networks", "1"], ["--validation", "0.2"]]
)
def test_flags_of_one_training_leave_one_network_and_are_not_for_an_effort(
    table, folder, flag
):
    command = [
        *argv(f"--train --dataset {table} --model m.bin --epochs 1 --json"),
        *flag,
    ]
    result = succeed(*command).json
    assert "effort" not in result
    assert result["epochs"] == 1
    assert len(result["loss"]) == 1
    assert len(nn.Model.load("m.bin").network.members) == 1
    refused = run(*command, "--effort", "quick")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "--effort quick" in refused.err
    assert flag[0] in refused.err


@pytest.mark.parametrize(
    "given",
    [
        "",
        "--learning_rate 0.0123456789 --epochs 3 --activation tanh --seed 7 --holdout 0.2"
        " --dtype float64 --init glorot",
    ],
)
def test_the_flags_that_are_told_and_given_train_the_same_networks(
    given, table, folder
):
    figures, _ = trained(table, folder, *given.split())
    members = iter(nn.Model.load("m.bin").network.members)
    for chosen in figures["chosen"]:
        succeed(
            *argv(f"--train --dataset {table} --model again.bin"),
            *chosen["flags"].split(),
        )
        for member in nn.Model.load("again.bin").network.members:
            bits = flattened(next(members).parameters()).tobytes()
            assert bits == flattened(member.parameters()).tobytes()
            if given:
                assert member.config["learning_rate"] == 0.0123456789
                assert member.config["epochs"] == 3
                activations = {
                    layer.activation for layer in member.layers if layer.kind == "dense"
                }
                assert activations == {"tanh", "sigmoid"}
    assert next(members, None) is None
    report = succeed("--test", "--model", "m.bin", "--json").json
    # of each class a fifth
    assert ("out_of_fold" in report) != bool(given)
    assert not given or 38 <= report["rows"] <= 40


@pytest.mark.parametrize(
    "flags", ["", "--epochs 3 --activation tanh --class_weight balanced --threshold f1"]
)
def test_the_facts_of_a_model_train_it_again(table, folder, flags):
    succeed(
        *argv(f"--train --dataset {table} --model m.bin --effort quick"), *flags.split()
    )
    (folder / "facts.json").write_text(
        succeed("--info", "--model", "m.bin", "--json").out
    )
    succeed("--train", "--model", "again.bin", "--config", "facts.json")
    assert (folder / "again.bin").read_bytes() == (folder / "m.bin").read_bytes()


def test_a_text_model_has_one_network_and_impossible_rules_are_refused_at_once(
    two, folder
):
    command = ["--train", "--dataset", "two.csv", "--model", "m.m", "--epochs", 1]
    succeed(*command, "--activation", "sigmoid")
    assert nn.Model.load("m.m").network.spec == "2,60:sigmoid,10:sigmoid,1:sigmoid"
    assert run(*command, "--effort", "quick").code == 2
    write_three_classes(folder / "three.csv")
    result = run(
        *argv("--train --dataset three.csv --model m.bin --effort quick --threshold f1")
    )
    assert result.code == 2
    assert "--threshold f1: is for two classes" in result.err
    assert "epoch" not in result.err


@pytest.mark.parametrize(
    "rows, folds, more",
    [(7, 0, []), (8, 2, []), (20, 5, []), (60, 3, ["--group", "g"])],
)
def test_few_rows_or_groups_are_divided_into_few_folds(rows, folds, more, folder):
    text = write_two_classes(folder / "two.csv", rows).read_text()
    header, *lines = text.splitlines()
    if more:
        lines = [f"{'abc'[number // 20]},{line}" for number, line in enumerate(lines)]
        text = "\n".join([f'"g",{header}', *lines])
        (folder / "two.csv").write_text(text + "\n")
    command = [*argv("--train --dataset two.csv --model m.bin --epochs 1"), *more]
    result = succeed(*command, "--json").json
    for chosen in result.get("chosen", ()):
        assert f"--folds {folds} " in chosen["flags"]
    assert ("effort" in result) == bool(folds)
    if not folds:
        refused = run(*command, "--effort", "quick")
        assert refused.code == 2
        assert "7 rows are too few" in refused.err


def test_predictions_of_regression_stay_near_the_range_of_the_targets(folder):
    x = np.random.default_rng(1).normal(size=80).round(5)
    columns = [x, 3 * x + 10]
    (folder / "line.csv").write_text(csv_of("xy", columns))
    figures, _ = trained("line.csv", folder)
    for chosen in figures["chosen"]:
        assert "--clip" in chosen["flags"].split()
    low = 3 * x.min() + 10
    high = 3 * x.max() + 10
    net = nn.Model.load("m.bin").network
    margin = 0.1 * (high - low) + 1e-4
    for far in net.predict(np.array([[-1e6], [1e6]], np.float32)):
        assert low - margin <= far[0] <= high + margin
    grid = np.linspace(-0.5, 0.5, 20, dtype=np.float32)
    inside = grid[:, None]
    expected = 3 * inside[:, 0] + 10
    predictions = net.predict(inside)[:, 0]
    np.testing.assert_allclose(predictions, expected, atol=1.0)


def test_threshold_and_temperature_are_decided_out_of_fold(table, standard, folder):
    """By the weighted mean of the networks that do not know a row; the members are the
    same as without a rule."""
    figures, _ = trained(
        table, folder, "--threshold", "f1", "--calibrate", "temperature"
    )
    net = nn.Model.load("m.bin").network
    plain = nn.Model.load(standard[2]).network
    ds = nn.load(table)
    rows, of_fold, scores = out_of_fold(plain, ds)
    assert (
        net.temperature
        == figures["calibration"]["temperature"]
        == best_temperature(ds.y[rows], scores)
    )
    assert (
        net.threshold
        == figures["threshold"]
        == best_threshold("f1", ds.y[rows], net.calibrated(scores)[:, 0])
    )
    assert net.config["threshold"] == "f1"
    assert net.config["calibrate"] == "temperature"
    calibrated = out_of_fold(net, ds)[2]
    decided = np.zeros(len(rows), bool)
    for fold in range(8):  # is judged by what the others tell
        other_rows = of_fold != fold
        truth = ds.y[rows[other_rows]]
        temperature = best_temperature(truth, scores[other_rows])
        expected = tempered(scores[~other_rows], temperature)
        assert np.array_equal(calibrated[~other_rows], expected)
        of_others = tempered(scores[other_rows], temperature)
        truth = ds.y[rows[other_rows]]
        threshold = best_threshold("f1", truth, of_others[:, 0])
        decided[~other_rows] = calibrated[~other_rows, 0] >= threshold
    for member, other in zip(net.members, plain.members, strict=True):
        expected = flattened(other.parameters()).tobytes()
        assert flattened(member.parameters()).tobytes() == expected
    report = succeed("--test", "--model", "m.bin", "--json").json
    assert report["threshold"] == net.threshold
    assert report["f1"] == figures["out_of_fold"]["f1"]
    right = decided & (ds.y[rows] == 1)
    assert report["tp"] == right.sum()
    assert report["fp"] == (decided & ~right).sum()
    assert report["log_loss"] == figures["calibration"]["log_loss"][1]
    # areas compare rows of one fold, whose order no temperature changes
    assert report["roc_auc"] == standard[0]["out_of_fold"]["roc_auc"]


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "ones, rare", [(19, False), (20, True), (40, True), (41, False)]
)
def test_the_threshold_of_a_rare_class_is_chosen(folder, ones, rare):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)).round(4)
    columns = [*x.T, (x[:, 0] >= np.sort(x[:, 0])[-ones]).astype(int)]
    (folder / "x.csv").write_text(csv_of(None, columns))
    call = "--train", "--dataset", "x.csv", "--epochs", 2, "--json", "--model"
    figures = succeed(*call, "m.bin").json
    assert ("threshold" in figures) == rare
    for chosen in figures["chosen"]:
        assert chosen["flags"].endswith(" --threshold f1") == rare
    succeed(*call, "asked.bin", "--threshold", "f1" if rare else "0.5")
    net = nn.Model.load("m.bin").network
    asked = nn.Model.load("asked.bin").network
    assert net.threshold == asked.threshold
    assert (net.threshold != 0.5) == rare
    assert net.config["threshold"] == ("f1" if rare else 0.5)


def common_epochs(ds, net):
    """Return the best epoch of each member: of the least mean loss of all folds, each
    as a part of its baseline."""
    epochs = []
    rows = np.arange(ds.rows)
    folds = fold_rows(ds, rows, 8, 0, rare=True)
    shares = [ds.y[fold.training].mean() for fold in folds]
    baselines = [
        -np.log(np.where(ds.y[fold.tested] == 1, share, 1 - share)).mean()
        for fold, share in zip(folds, shares, strict=True)
    ]
    for start in range(0, len(net.members), 8):
        val_metrics = [
            member.history["val_metric"] for member in net.members[start : start + 8]
        ]
        losses = np.array(val_metrics)
        weights = [len(fold.tested) for fold in folds]
        mean = np.average(
            losses / np.array(baselines)[:, None], axis=0, weights=weights
        )
        epochs += [1 + int(np.argmin(mean))] * 8
    return epochs


def test_a_model_keeps_what_was_tried_and_what_it_cost_and_the_losses_of_all_members(
    table, standard, tmp_path
):
    """They were those of the first candidate."""
    figures, _, path = standard
    net = nn.Model.load(standard[2]).network
    specs = {member["settings"]["layers"] for member in figures["members"]}
    tried = net.config["candidates"]
    assert len(figures["chosen"]) > 1
    assert len(specs) > 1
    check_means(net, figures, common_epochs(nn.load(table), net))
    output = succeed("--info", "--model", path, "--verbose").out
    header = next(
        line for line in output.splitlines() if line.startswith("seed  weight")
    )
    assert {"layers", "batch_number", "number_embedding"} <= {*header.split()}
    assert "threshold" not in header
    succeed("--test", "--model", path, "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text().replace("<wbr>", "")
    for spec in specs:
        assert spec in output
        assert spec in page
    expected = [chosen["weight"] for chosen in figures["chosen"]]
    weights = [trial["weight"] for trial in tried if trial["weight"]]
    assert weights == expected
    assert len(tried) == figures["tried"]
    total = sum(trial["operations"] for trial in tried)
    assert total <= EFFORTS["standard"]
    for trial in tried:
        assert 0 < trial["loss"] < figures["baseline"]
    for trial in tried:
        assert f"{trial['loss']:.4g}" in output
        assert trial["layers"] in output


@pytest.mark.parametrize("rare, judged", [(1, 117), (2, 119), (3, 120)])
def test_a_class_of_two_rows_is_judged_and_one_row_alone_trains_every_network(
    rare, judged, folder
):
    y = np.repeat(["a", "b", "c"], [60, 57, rare])
    draws = np.random.default_rng(1).normal(size=117 + rare)
    repeated = np.repeat([0, 1, 2], [60, 57, rare])
    x = draws + 2 * repeated
    columns = [x.round(5), y]
    (folder / "rare.csv").write_text(csv_of("xy", columns))
    result = succeed(
        *argv("--train --dataset rare.csv --model m.bin --effort quick --json")
    )
    figures = result.json
    told = [line for line in result.err.splitlines() if "no fold judges" in line]
    assert figures["out_of_fold"]["rows"] == judged
    support = figures["out_of_fold"]["per_class"][2]["support"]
    assert support == (0 if rare == 1 else rare)
    assert len(told) == (rare == 1)
    for line in told:
        assert "all networks train on it: c (1)" in line
    told = succeed("--test", "--model", "m.bin", "--json")
    expected = figures["out_of_fold"]["log_loss"]
    assert told.json["log_loss"] == pytest.approx(expected, rel=1e-6)


class Candidates(Callback):
    """What a choice tells of its candidates."""

    def __init__(self):
        self.shares = []
        self.told = []

    def begin(self, shares):
        self.shares = shares

    def ended(self, layers, loss):
        self.told.append(layers)


def test_shares_are_of_operations_and_all_candidates_that_were_tried_are_told():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150, 3))
    y = x[:, 0] + np.sin(3 * x[:, 1]) + rng.normal(size=150) / 3
    ds = nn.Dataset(x, y, "regression")
    told = Candidates()
    model = nn.fit(ds, effort="standard", epochs=3, callback=told)
    planned = EffortPlan(ds, "standard", {"epochs": 3}, {}).candidates()
    costs = np.array([entry.operations for entry in planned])
    assert told.shares == pytest.approx((costs / costs.sum()).tolist())
    assert len({*told.shares}) > 1
    assert model.metrics["tried"] == len(told.told) == 3
    first, second, third = told.told
    assert first == "3,128:silu,dropout0.1,64:silu,dropout0.1,1:linear"
    assert second == "the same with 16 ranges for each number"
    assert third.startswith("3,60:relu,")
    assert len(model.metrics["chosen"]) < 3, "the data should be such that some are not"


def test_there_are_as_many_folds_as_the_seed_of_the_split_lets_know_all_classes():
    """A class of two groups is unknown to the networks of a fold that has both."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    y[[0, 12]] = 2
    groups = np.repeat(np.arange(10), 12)
    x = rng.normal(size=(120, 2))
    ds = nn.Dataset(x, y, "multiclass", ["a", "b", "rare"], groups=groups)
    folds = [most_folds(ds, np.arange(120), 8, seed) for seed in range(21)]
    assert {7, 8} == {*folds}
    for seed in (folds.index(7), folds.index(8)):
        plan = EffortPlan(ds, "quick", {"split_seed": seed}, {})
        assert plan.candidates()[0].candidate.folds == folds[seed]


def test_a_candidate_is_told_by_its_own_settings_that_another_has_not():
    x = np.random.default_rng(1).normal(size=(150, 2))
    plan = EffortPlan(nn.Dataset(x, x[:, 0], "regression"), "standard", {}, {})
    of_waves = "16 waves for each number, weight_decay 0.02, batch_number 32"
    assert plan.difference(WITH_PIECES, WIDE) == "16 ranges for each number"
    assert plan.difference(WITH_WAVES, WIDE) == of_waves
    assert plan.difference(WIDE, WITH_WAVES) == "weight_decay 0.15, batch_number 16"


@pytest.mark.parametrize("folds, passes", [(5, 4), (None, 2 * 0.8)])
def test_operations_are_of_the_rows_that_each_network_trains_on(folds, passes):
    candidate = replace(WIDE, folds=folds, epochs=10)
    net = SimpleNamespace(parameter_count=300)
    operations = candidate.operations(net, 50)
    assert operations == pytest.approx(300 * 50 * passes * 10)


def test_the_flags_of_a_candidate_have_what_is_given_of_its_network(folder):
    write_numbers(folder / "t.csv", 60)
    given = ["--seed", "4", "--dtype", "float64", "--loss", "mae", "--init", "glorot"]
    asked = ("train", "t.csv", "-m", "m.bin", "--effort", "quick", "--epochs", 1)
    (chosen,) = succeed(*asked, *given, "--json", "-q").json["chosen"]
    words = chosen["flags"].split()
    for flag, value in zip(given[::2], given[1::2], strict=True):
        assert words[words.index(flag) + 1] == value


def test_candidates_count_in_the_told_losses_as_often_as_they_were_chosen():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150, 3))
    y = x[:, 0] + np.sin(3 * x[:, 1]) + rng.normal(size=150) / 3
    model = nn.fit(x, y, effort="standard", epochs=1)
    net = model.network
    counts = [chosen["weight"] for chosen in model.metrics["chosen"]]
    assert len({*counts}) > 1, "the data should be such that counts differ"
    assert net.member_weights == np.repeat(counts, 8).tolist()
    check_means(net, model.metrics, [1] * len(net.members))


class Budget(EffortPlan):
    """A plan of candidates with costs, as shares of the budget: by the number of folds
    of the thrift, in the order of a wide network, a narrow one, one that embeds."""

    costs: dict[int, list[float]]

    def _of_table(self, candidates):
        budget = EFFORTS[self.effort]
        costs = self.costs[candidates[0].folds]
        return [
            Planned(candidate, SimpleNamespace(layers=[number]), budget * cost)
            for number, (candidate, cost) in enumerate(
                zip(candidates, costs, strict=True)
            )
        ]


@pytest.mark.parametrize(
    "lavish, thrifty, folds, count",
    [
        ([0.5, 0.4, 0.2], [0.3, 0.2, 0.1], 4, 3),  # all are more than two
        ([0.5, 0.4, 0.2], [0.3, 0.9, 0.2], 4, 2),  # two, and one of them embeds
        ([0.5, 0.9, 0.9], [0.3, 0.2, 0.9], 4, 2),  # two are more than one
        ([0.5, 0.2, 0.2], [0.3, 0.1, 0.1], 8, 3),  # all, with as many folds
        ([0.9, 0.9, 0.1], [0.3, 0.4, 0.9], 8, 2),  # as much: the first
    ],
)
def test_as_much_is_saved_as_leaves_most_candidates_and_one_that_embeds_numbers(
    monkeypatch, lavish, thrifty, folds, count
):
    three = [WIDE, NARROW_CANDIDATE, WITH_PIECES]
    monkeypatch.setattr(effort_plan, "candidates_for", lambda *_: three)
    monkeypatch.setattr(effort_plan, "thrifts_for", lambda *_: [Thrift(8), Thrift(4)])
    ds = nn.Dataset(np.zeros((40, 1)), np.arange(40.0), "regression")
    plan = Budget(ds, "quick", {"epochs": 2}, {})
    plan.costs = {8: lavish, 4: thrifty}
    planned = plan.candidates()
    assert [entry.candidate.folds for entry in planned] == [folds] * count


def test_a_file_holds_members_with_and_without_an_encoding(tmp_path):
    x, nets = members_with_and_without_an_encoding()
    for both in nets:
        both.export(tmp_path / "both.bin")
        again = nn.Model.load(tmp_path / "both.bin").network
        expected = both.predict(x).tobytes()
        assert again.predict(x).tobytes() == expected
        mean = sum(
            w * member.predict(x)
            for w, member in zip([0.2, 0.4, 0.2, 0.2], both.members, strict=True)
        )
        np.testing.assert_allclose(again.predict(x), mean, rtol=1e-5)


def exact_table(rows: int) -> nn.Dataset:
    """Numbers that two inputs fix exactly: the longer a network is trained, the nearer
    it comes."""
    rng = np.random.default_rng(0)
    x = rng.random((rows, 2), np.float32)
    return nn.Dataset(x, np.sin(3 * x[:, 0]) * x[:, 1], "regression")


def test_a_candidate_is_trained_for_as_long_as_it_learns():
    ds = exact_table(200)
    longer = nn.fit(ds, effort="quick")
    assert longer.metrics["epochs_run"] > 40
    usual = nn.fit(ds, effort="quick", epochs=30)
    assert usual.metrics["epochs_run"] == 30
    assert "--epochs 30 " in usual.metrics["chosen"][0]["flags"]
    error = longer.metrics["out_of_fold"]["rmse"]
    assert error < 0.8 * usual.metrics["out_of_fold"]["rmse"]
    noise = np.random.default_rng(1).normal(size=200)
    nothing = nn.fit(nn.Dataset(ds.x, noise, "regression"), effort="quick")
    assert nothing.metrics["epochs_run"] < 30


def test_a_choice_that_ends_while_it_learns_says_so(monkeypatch, warnings_of):
    ds = exact_table(100)
    candidates = sys.modules["nn.train.candidates"]
    monkeypatch.setattr(candidates, "MOST_EPOCHS_OF_TABLES", 30)
    nn.fit(ds, effort="quick", epochs=30)
    nn.fit(ds, effort="quick", schedule="cooldown")
    line = "1 of 1 candidate still learned at its last epoch; --effort standard"
    assert not any(line in text for text in warnings_of())
    nn.fit(ds, effort="quick")
    assert sum(line in text for text in warnings_of()) == 1
    # a log loss that is next to none is good enough
    monkeypatch.setattr(sys.modules["nn.train.chosen"], "SOLVED_LOG_LOSS", 10)
    solved = nn.Dataset(ds.x, (ds.x[:, 0] > 0.5).astype(int), "binary", ["0", "1"])
    fit = nn.fit(solved, effort="quick")
    assert fit.metrics["epochs_run"] == 30
    assert sum(line in text for text in warnings_of()) == 1


def test_of_the_candidates_that_are_chosen_those_that_learn_are_counted(warnings_of):
    ds = exact_table(40)
    choice = Effort(ds, "best", {}, {})
    learns, ends = [
        SimpleNamespace(still_learns=lambda learns=learns: learns)
        for learns in (True, False)
    ]
    choice.tried = [learns, learns, ends]
    choice._chosen = SimpleNamespace(parts=[ends, learns])
    choice._remark_on_length()
    told = "1 of 2 candidates still learned at its last epoch; a network by hand"
    assert sum(told in text for text in warnings_of()) == 1


@pytest.mark.slow
def test_a_choice_stopped_in_a_long_training_goes_on_to_the_same_model(tmp_path):
    ds = exact_table(150)

    def chosen(state=tmp_path / "state.nn", stop=None):
        return Effort(ds, "quick", {}, {"backend": "omp"}).run(
            lambda net, ds, **settings: nn.train(net, ds, **settings, stop=stop),
            checkpoint=state and Checkpoint(state, resume="auto"),
        )

    whole, figures = chosen(state=None)
    assert figures["epochs_run"] > 30
    (ended, _), stops = until_ended(lambda stop: chosen(stop=stop), 99, 60)
    assert stops > 2
    assert packed(ended) == packed(whole)


@pytest.mark.parametrize("rows, count", [(7000, 3), (30_000, 2)])
def test_all_candidates_save_before_one_is_left_out(rows, count):
    draws = np.random.default_rng(1).normal(size=(rows, 60))
    ds = nn.Dataset(draws.astype(np.float32), np.arange(rows) % 2, "binary", ["0", "1"])
    candidates = EffortPlan(ds, "standard", {}, {}).candidates()
    assert sum(cost for *_, cost in candidates) <= EFFORTS["standard"]
    assert any(candidate.number_embedding for candidate, *_ in candidates)
    (folds,) = {candidate.folds for candidate, *_ in candidates}
    assert folds == 4
    few = nn.Dataset(ds.x[:500], ds.y[:500], "binary", ["0", "1"])
    lavish = EffortPlan(few, "standard", {}, {}).candidates()
    assert [(one.folds, one.usual_epochs) for one, *_ in lavish] == [(8, 24)] * 3
    assert {one.epochs for one, *_ in lavish} == {103}  # as the budget allows
    assert len(candidates) == count


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "effort, other", [("quick", "standard"), ("standard", "quick")]
)
def test_a_stopped_choice_goes_on_to_the_same_model(table, tmp_path, effort, other):
    """Wherever it is stopped, also between two candidates; with any number of files for
    its state."""
    ds = nn.load(table)
    given = {"epochs": 6, "threshold": "f1"}
    of_network = {"seed": 3, "backend": "omp"}

    def chosen(effort=effort, state=tmp_path / "state.nn", stop=None):
        choice = Effort(ds, effort, given, of_network)
        return choice.run(
            lambda net, ds, **settings: nn.train(net, ds, **settings, stop=stop),
            checkpoint=state and Checkpoint(state, resume="auto"),
        )

    whole, figures = chosen(state=None)
    (ended, result), stops = until_ended(lambda stop: chosen(stop=stop), 9, 40)
    assert stops > 2
    assert packed(ended) == packed(whole)
    assert result == {
        **figures,
        "seconds": result["seconds"],
        "us_per_batch": result["us_per_batch"],
    }
    with pytest.raises(UsageError, match="--effort: .* was written with"):
        chosen(other)


def test_files_beside_the_model_change_nothing(table, standard, folder):
    """They left one network of the usual layers."""
    pytest.importorskip("tensorboardX")
    beside = "--history h.csv -o out.csv --checkpoint c.ck --trace t.json --logdir logs --profile"
    figures, model = trained(table, folder, *beside.split())
    assert model == standard[1]
    names = sorted(log.name for log in (folder / "logs").iterdir())
    assert names == [f"candidate{number}" for number in range(1, 4)]
    flags = figures["chosen"][0]["flags"]
    for layer in figures["profile"]["layers"]:
        if layer["gflops_forward"]:
            assert layer["layer"] in flags
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    assert {"reading", "epoch", "batch", "forward"} <= {
        event.get("cat") for event in events
    }
    text = (folder / "h.csv").read_text()
    lines = list(csv.DictReader(text.splitlines()))
    assert {line["candidate"] for line in lines} == set("123")
    assert float(lines[-1]["val_metric"]) > 0
    assert len((folder / "out.csv").read_text().splitlines()) == 201
    succeed("--train", "--dataset", table, "--model", "n.bin", "--resume", "c.ck", "-q")
    assert (folder / "n.bin").read_bytes() == model


@pytest.mark.parametrize("stopped_at", [0, 1])
def test_what_is_stopped_keeps_the_best_so_far(table, folder, monkeypatch, stopped_at):
    training = sys.modules["nn.train"]
    calls = []
    train = training.train

    def stopping(net, ds, **options):
        if len(calls) == stopped_at:
            options["stop"].request(signal.SIGINT)
        calls.append(net)
        return train(net, ds, **options)

    monkeypatch.setattr(training, "train", stopping)
    result = run(
        "--train", "--dataset", table, "--model", "m.bin", "--effort", "standard", "-q"
    )
    assert result.code == 130
    assert (folder / "m.bin.part").exists() != (folder / "m.bin").exists()
    assert (folder / "m.bin").exists() == bool(stopped_at)
    if stopped_at:
        assert "from the 1 candidate that had ended" in result.err
        assert len(nn.Model.load("m.bin").members) == 8


def test_the_page_of_a_test_and_the_pictures_of_errors_are_of_rows_out_of_fold(folder):
    write_numbers(folder / "numbers.csv")
    succeed(
        *argv("--train --dataset numbers.csv --model m.bin --effort quick --epochs 2")
    )
    figures = succeed(
        "--test", "--model", "m.bin", "--report", "page.html", "--json"
    ).json
    text = (folder / "page.html").read_text()
    assert f"by {figure_text(figures['rmse'])} (95 %: " in text
    files = " ".join(
        succeed("--plot", "m.bin", "-o", "pictures", "--json").json["files"]
    )
    assert "errors" in files
    assert "predicted" in files


def test_what_another_choice_than_that_of_a_checkpoint_differs_in_is_named(
    table, folder
):
    trained(table, folder, "--checkpoint", "c.ck")
    (folder / "m.bin").unlink()
    (folder / "other.csv").write_text(table.read_text().replace("red", "blue"))
    flags_of_others = (
        "--seed 3",
        "--holdout 0.2",
        "--target a",
        "--effort quick",
        "--networks 2",
        "--patience 2",
    )
    for flags in (*flags_of_others, "--dataset other.csv"):
        result = run(
            *argv(f"--train --dataset {table} --model m.bin --resume c.ck -q"),
            *flags.split(),
        )
        if flags == "--networks 2":
            named = "--effort"
        else:
            named = flags.split()[0]
        assert result.code == 2, flags
        assert result.err.startswith(f"nn: {named}: "), flags
        assert result.err.count("\n") == 1, flags


def test_settings_of_a_training_leave_the_choice(table, folder):
    """--patience, --monitor and --calibrate ended it."""
    given = "--epochs 4 --patience 2 --monitor roc_auc --calibrate temperature"
    output = succeed(
        "--train", "--dataset", table, "--model", "m.bin", "--json", *given.split()
    )
    report = output.json
    assert report["effort"] == "standard"
    assert "calibration" in report
    for candidate in report["chosen"]:
        assert "--patience 2 " in candidate["flags"]
