"""--effort: candidates within a budget of operations, chosen by the rows that their networks do not know."""

import csv
import json
import signal
import sys

import numpy as np
import pytest
from support.command_line import run, start, succeed, write_numbers, write_two_classes
from support.networks import flattened, members_with_and_without_an_encoding
from support.packs import until_ended

import nn
from nn.core.thresholds import best_temperature, best_threshold
from nn.files.checkpoint import Checkpoint
from nn.nn.model import packed
from nn.nn_aux import EFFORTS
from nn.train.candidates import candidates_for
from nn.train.effort import Effort, why_not
from nn.train.folds import out_of_fold
from nn.utils import UsageError


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two classes by a number, a wave of another, and a word."""
    rng = np.random.default_rng(17)  # networks of several kinds are chosen
    x, word = rng.normal(size=(200, 2)), rng.choice(["red", "green"], 200)
    chance = 1 / (1 + np.exp(-(x[:, 0] + 2 * np.sin(4 * x[:, 1]) + (word == "red"))))
    path = tmp_path_factory.mktemp("effort") / "table.csv"
    lines = [f"{a:.5g},{b:.5g},{w},{int(c)}" for (a, b), w, c in zip(x, word, rng.random(200) < chance, strict=True)]
    path.write_text("a,b,w,y\n" + "\n".join(lines) + "\n")
    return path


def trained(table, tmp_path, name="m.bin", *flags):
    out = succeed("--train", "--dataset", table, "--model", tmp_path / name, "--effort", "standard", "--json", *flags)
    return out.json, (tmp_path / name).read_bytes()


@pytest.fixture(scope="module")
def standard(table, tmp_path_factory):
    """Figures and model of one run, and where it is."""
    folder = tmp_path_factory.mktemp("standard")
    return *trained(table, folder, "m.bin", "--threads", "1"), folder / "m.bin"


def test_the_model_is_the_same_for_any_number_of_threads_and_without_a_word(table, standard, tmp_path):
    figures, model, path = standard
    command = ["--train", "--dataset", table, "--model", tmp_path / "m.bin", "--threads", 2, "--json"]
    assert succeed(*command).json["chosen"] == figures["chosen"] and (tmp_path / "m.bin").read_bytes() == model
    with pytest.raises(UsageError, match=r"holds \d+ networks; nn.Model.load reads it"):
        nn.Network.load(path)


def test_the_figures_out_of_fold_are_those_of_test(standard):
    figures, _, path = standard
    told = succeed("--test", "--model", path, "--json").json
    assert told["out_of_fold"] is True
    for name in ("roc_auc", "f1", "log_loss"):
        assert told[name] == pytest.approx(figures["out_of_fold"][name], rel=1e-6)
    folds = succeed("--test", "--model", path, "--json", "-v").json["members"]
    assert len(folds) == 8 and sum(fold["rows"] for fold in folds) == told["rows"]
    assert figures["effort"] == "standard"
    assert figures["tried"] == 3


def test_the_losses_are_the_means_of_all_members(standard):
    """They were those of the first candidate."""
    figures, _, path = standard
    net = nn.Model.load(path).network
    assert len(figures["chosen"]) > 1 and len({member.spec for member in net.members}) > 1
    epochs = max(len(member.history["loss"]) for member in net.members)
    for name in ("loss", "val_loss", "val_metric"):
        lists = []
        for member in net.members:
            own, kept = member.history[name], int(np.argmin(member.history["val_metric"]))
            lists.append(own + [own[kept]] * (epochs - len(own)))
        assert figures[name] == net.history[name] == pytest.approx(np.average(lists, 0, net.member_weights), rel=1e-12)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("rows", [300, 30_000])
def test_the_candidates_fit_the_budget_unless_even_the_cheapest_does_not(rows, effort):
    rng = np.random.default_rng(1)
    ds = nn.Dataset(rng.normal(size=(rows, 40)).astype(np.float32), rng.integers(0, 2, rows), "binary", ["0", "1"])
    found = Effort(ds, effort, {}, {}).candidates()
    assert [cost for *_, cost in found] == [candidate.operations(net, rows) for candidate, net, _ in found]
    cost = sum(cost for *_, cost in found)
    assert 1 <= len(found) <= len(candidates_for(rows, effort))
    assert cost <= EFFORTS[effort] or len(found) == 1


def test_best_tries_ten_and_of_many_rows_six_by_more_folds_and_asks_for_the_memory():
    few, many = candidates_for(300, "best"), candidates_for(30_000, "best")
    assert (len(few), len(many), {one.folds for one in many}) == (10, 6, {8})
    assert {one.folds for one in candidates_for(30_000, "standard")} == {4}
    x = np.random.default_rng(1).normal(size=(300, 40)).astype(np.float32)
    reasons = []
    for memory in (80 << 20, 300 << 20, 1 << 30):
        ds = nn.Dataset(x, np.arange(300) % 2, "binary", ["0", "1"], memory=memory)
        reasons.append([why_not(ds, effort) is None for effort in ("standard", "best")])
    assert reasons == [[False, False], [True, False], [True, True]]


@pytest.mark.parametrize("numbers", [0, 1])
def test_no_two_candidates_are_the_same_network(numbers):
    """Without a number there is nothing for the waves of one of them."""
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["red", "green", "blue"], 200) for name in "ab"}
    columns |= {"c": rng.normal(size=200)} if numbers else {}
    ds = nn.load(columns, y=rng.choice(["no", "yes"], 200))
    found = Effort(ds, "standard", {}, {}).candidates()
    assert len(found) == (3 if numbers else 2)


@pytest.mark.parametrize("flag", [["--layers", "auto,4,1"], ["--networks", "1"], ["--validation", "0.2"]])
def test_flags_of_one_training_leave_one_network_and_are_not_for_an_effort(table, folder, flag):
    command = ["--train", "--dataset", table, "--model", "m.bin", "--epochs", 1, "--json", *flag]
    result = succeed(*command).json
    assert "effort" not in result and result["epochs"] == 1 and len(result["loss"]) == 1
    assert len(nn.Model.load("m.bin").network.members) == 1
    refused = run(*command, "--effort", "quick")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "--effort quick" in refused.err and flag[0] in refused.err


@pytest.mark.parametrize(
    "given", ["", "--learning_rate 0.0123456789 --epochs 3 --activation tanh --seed 7 --holdout 0.2"]
)
def test_the_flags_that_are_told_and_given_train_the_same_networks(given, table, tmp_path):
    figures, _ = trained(table, tmp_path, "m.bin", *given.split())
    members = iter(nn.Model.load(tmp_path / "m.bin").network.members)
    for number, chosen in enumerate(figures["chosen"]):
        again = tmp_path / f"{number}.bin"
        succeed("--train", "--dataset", table, "--model", again, *chosen["flags"].split())
        for member in nn.Model.load(again).network.members:
            assert flattened(next(members).parameters()).tobytes() == flattened(member.parameters()).tobytes()
            if given:
                assert member.config["learning_rate"] == 0.0123456789 and member.config["epochs"] == 3
                assert {layer.activation for layer in member.layers if layer.kind == "dense"} == {"tanh", "sigmoid"}
    assert next(members, None) is None
    told = succeed("--test", "--model", tmp_path / "m.bin", "--json").json
    assert ("out_of_fold" in told) != bool(given) and (not given or 38 <= told["rows"] <= 40)  # of each class a fifth


@pytest.mark.parametrize("flags", ["", "--epochs 3 --activation tanh --class_weight balanced --threshold f1"])
def test_the_facts_of_a_model_train_it_again(table, tmp_path, flags):
    model, again = tmp_path / "m.bin", tmp_path / "again.bin"
    succeed("--train", "--dataset", table, "--model", model, "--effort", "quick", *flags.split())
    (tmp_path / "facts.json").write_text(succeed("--info", "--model", model, "--json").out)
    succeed("--train", "--model", again, "--config", tmp_path / "facts.json")
    assert again.read_bytes() == model.read_bytes()


@pytest.mark.parametrize("memory, fits", [("1G", True), ("80M", False)])
def test_under_a_limit_on_memory_it_chooses_the_same_or_not_at_all(table, standard, tmp_path, memory, fits):
    """In a process of its own: the limit counts what this one has."""
    process = start("--train", "--dataset", table, "--model", tmp_path / "m.bin", "--memory", memory)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert ((tmp_path / "m.bin").read_bytes() == standard[1]) == fits
    assert ("--memory has no room for several" in told) != fits


def test_a_text_model_holds_one_network(tmp_path):
    write_two_classes(tmp_path / "two.csv")
    command = ["--train", "--dataset", tmp_path / "two.csv", "--model", tmp_path / "m.m", "--epochs", 1]
    succeed(*command, "--activation", "sigmoid")
    assert nn.Model.load(tmp_path / "m.m").network.spec == "2,60:sigmoid,10:sigmoid,1:sigmoid"
    assert run(*command, "--effort", "quick").code == 2


@pytest.mark.parametrize("rows, folds, more", [(7, 0, []), (8, 2, []), (20, 5, []), (60, 3, ["--group", "g"])])
def test_few_rows_or_groups_are_divided_into_few_folds(rows, folds, more, folder):
    header, *lines = write_two_classes(folder / "two.csv", rows).read_text().splitlines()
    grouped = [f"{'abc'[number // 20]},{line}" for number, line in enumerate(lines)]
    if more:
        (folder / "two.csv").write_text("\n".join([f'"g",{header}', *grouped]) + "\n")
    command = ["--train", "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, *more]
    result = succeed(*command, "--json").json
    assert all(f"--folds {folds} " in chosen["flags"] for chosen in result.get("chosen", ()))
    assert ("effort" in result) == bool(folds)
    if not folds:
        refused = run(*command, "--effort", "quick")
        assert refused.code == 2 and "7 rows are too few" in refused.err


def test_predictions_of_regression_stay_near_the_range_of_the_targets(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=80)
    lines = [f"{a:.6g},{3 * a + 10:.6g}" for a in x]
    (tmp_path / "line.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    figures, _ = trained(tmp_path / "line.csv", tmp_path)
    assert all("--clip" in chosen["flags"].split() for chosen in figures["chosen"])
    low, high = 3 * x.min() + 10, 3 * x.max() + 10
    net, margin = nn.Model.load(tmp_path / "m.bin").network, 0.1 * (high - low) + 1e-4
    for far in net.predict(np.array([[-1e6], [1e6]], np.float32)):
        assert low - margin <= far[0] <= high + margin
    inside = np.linspace(-0.5, 0.5, 20, dtype=np.float32)[:, None]
    np.testing.assert_allclose(net.predict(inside)[:, 0], 3 * inside[:, 0] + 10, atol=1.0)


def test_threshold_and_temperature_are_decided_out_of_fold(table, standard, tmp_path):
    """By the weighted mean of the networks that do not know a row; the members are the same as without a rule."""
    flags = "--threshold", "f1", "--calibrate", "temperature"
    figures, _ = trained(table, tmp_path, "m.bin", *flags)
    net, plain, ds = nn.Model.load(tmp_path / "m.bin").network, nn.Model.load(standard[2]).network, nn.load(table)
    rows, _, scores = out_of_fold(plain, ds)
    assert net.temperature == figures["calibration"]["temperature"] == best_temperature(ds.y[rows], scores)
    calibrated = out_of_fold(net, ds)[2]
    assert np.array_equal(calibrated, net.calibrated(scores))
    assert net.threshold == figures["threshold"] == best_threshold("f1", ds.y[rows], calibrated[:, 0])
    assert net.config["threshold"] == "f1" and net.config["calibrate"] == "temperature"
    for member, other in zip(net.members, plain.members, strict=True):
        assert flattened(member.parameters()).tobytes() == flattened(other.parameters()).tobytes()
    told = succeed("--test", "--model", tmp_path / "m.bin", "--json").json
    assert told["threshold"] == net.threshold and told["f1"] == figures["out_of_fold"]["f1"]
    assert told["f1"] >= standard[0]["out_of_fold"]["f1"]
    assert told["log_loss"] == figures["calibration"]["log_loss"][1] <= figures["calibration"]["log_loss"][0]


@pytest.mark.parametrize(("ones", "rare"), [(19, False), (20, True), (40, True), (41, False)])
def test_the_threshold_of_a_rare_class_is_chosen(tmp_path, ones, rare):
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = (x[:, 0] >= np.sort(x[:, 0])[-ones]).astype(int)
    data, model, asked = tmp_path / "x.csv", tmp_path / "m.bin", tmp_path / "asked.bin"
    data.write_text("".join(f"{a:.4g},{b:.4g},{c}\n" for (a, b), c in zip(x, y, strict=True)))
    call = "--train", "--dataset", data, "--epochs", 2, "--json", "--model"
    figures = succeed(*call, model).json
    assert ("threshold" in figures) == rare
    assert all(chosen["flags"].endswith(" --threshold f1") == rare for chosen in figures["chosen"])
    succeed(*call, asked, "--threshold", "f1" if rare else "0.5")
    nets = [nn.Model.load(path).network for path in (model, asked)]
    assert nets[0].threshold == nets[1].threshold and (nets[0].threshold != 0.5) == rare
    assert nn.Model.load(model).network.config["threshold"] == ("f1" if rare else 0.5)


def test_a_rule_that_cannot_be_is_refused_before_training(tmp_path):
    (tmp_path / "three.csv").write_text("x,y\n" + "\n".join(f"{i % 7},{'abc'[i % 3]}" for i in range(90)) + "\n")
    call = ["--train", "--dataset", tmp_path / "three.csv", "--model", tmp_path / "m.bin", "--effort", "quick"]
    result = run(*call, "--threshold", "f1")
    assert result.code == 2 and "--threshold f1: is for two classes" in result.err and "epoch" not in result.err


def test_a_model_keeps_and_tells_what_was_tried_and_what_it_cost(standard, tmp_path):
    figures, _, path = standard
    specs = {member["settings"]["layers"] for member in figures["members"]}
    assert len(specs) > 1
    told = succeed("--info", "--model", path).out
    header = next(line for line in told.splitlines() if line.startswith("seed  weight"))
    assert {"layers", "batch_number", "number_embedding"} <= {*header.split()} and "threshold" not in header
    succeed("--test", "--model", path, "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(spec in told and spec in page for spec in specs)
    tried = nn.Model.load(path).network.config["candidates"]
    assert [one["weight"] for one in tried if one["weight"]] == [chosen["weight"] for chosen in figures["chosen"]]
    assert len(tried) == figures["tried"] and sum(one["operations"] for one in tried) <= EFFORTS["standard"]
    assert all(0 < one["loss"] < figures["baseline"] for one in tried)
    assert all(f"{one['loss']:.4g}" in told and one["layers"] in told for one in tried)


def test_rows_of_a_rare_class_train_every_network(tmp_path):
    rng = np.random.default_rng(1)
    y = np.repeat(["a", "b", "c"], [60, 57, 3])
    lines = [f"{v + 2 * 'abc'.index(name):.5g},{name}" for v, name in zip(rng.normal(size=120), y, strict=True)]
    (tmp_path / "rare.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    call = ["--train", "--dataset", tmp_path / "rare.csv", "--model", tmp_path / "m.bin", "--effort", "quick", "--json"]
    result = succeed(*call)
    figures, told = result.json, [line for line in result.err.splitlines() if "warning" in line]
    assert figures["out_of_fold"]["rows"] == 117
    assert sum("all networks train on them: c (3)" in line for line in told) == 1 and len(told) <= 2
    told = succeed("--test", "--model", tmp_path / "m.bin", "--json")
    assert told.json["log_loss"] == pytest.approx(figures["out_of_fold"]["log_loss"], rel=1e-6)


def test_a_file_holds_members_with_and_without_an_encoding(tmp_path):
    x, nets = members_with_and_without_an_encoding()
    for both in nets:
        both.export(tmp_path / "both.bin")
        again = nn.Model.load(tmp_path / "both.bin").network
        assert again.predict(x).tobytes() == both.predict(x).tobytes()
        mean = sum(w * member.predict(x) for w, member in zip([0.2, 0.4, 0.2, 0.2], both.members, strict=True))
        np.testing.assert_allclose(again.predict(x), mean, rtol=1e-5)


@pytest.mark.parametrize("effort", ["quick", "standard"])
def test_a_stopped_choice_goes_on_to_the_same_model(table, tmp_path, effort):
    """Wherever it is stopped, also between two candidates; with any number of files for its state."""
    ds = nn.load(table)

    def chosen(checkpoint=None, stop=None):
        given, of_network = {"epochs": 6, "threshold": "f1"}, {"seed": 3, "backend": "omp"}
        return Effort(ds, effort, given, of_network, checkpoint=checkpoint).run(
            lambda net, ds, **settings: nn.train(net, ds, **settings, stop=stop)
        )

    whole, figures = chosen()
    state = tmp_path / "state.nn"
    (ended, result), stops = until_ended(lambda stop: chosen(Checkpoint(state, resume="auto"), stop), 9, 40)
    assert stops > 2 and packed(ended) == packed(whole)
    result["seconds"], result["us_per_batch"] = figures["seconds"], figures["us_per_batch"]
    assert result == figures
    with pytest.raises(UsageError, match="--effort: .* was written with"):
        effort = "standard" if effort == "quick" else "quick"
        chosen(Checkpoint(state, resume="auto"))


def test_files_beside_the_model_change_nothing(table, standard, tmp_path):
    """They left one network of the usual layers."""
    pytest.importorskip("tensorboardX")
    history, out, trace, logs = (tmp_path / name for name in ("h.csv", "out.csv", "t.json", "logs"))
    beside = ["--history", history, "-o", out, "--checkpoint", tmp_path / "c.ck", "--trace", trace, "--logdir", logs]
    figures, model = trained(table, tmp_path, "m.bin", *beside, "--profile")
    assert model == standard[1]
    assert sorted(folder.name for folder in logs.iterdir()) == [f"candidate{number}" for number in range(1, 4)]
    flags = figures["chosen"][0]["flags"]
    assert all(one["layer"] in flags for one in figures["profile"]["layers"] if one["gflops_forward"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"reading", "epoch", "batch", "forward"} <= {event.get("cat") for event in events}
    lines = list(csv.DictReader(history.read_text().splitlines()))
    assert {line["candidate"] for line in lines} == set("123") and float(lines[-1]["val_metric"]) > 0
    assert len(out.read_text().splitlines()) == 201
    result = run("--train", "--dataset", table, "--model", tmp_path / "n.bin", "--resume", tmp_path / "c.ck", "-q")
    assert result.code == 0, result.err
    assert (tmp_path / "n.bin").read_bytes() == model


@pytest.mark.parametrize("stopped_at", [0, 1])
def test_what_is_stopped_keeps_the_best_so_far(table, tmp_path, monkeypatch, stopped_at):
    training, calls = sys.modules["nn.train"], []
    train = training.train

    def stopping(net, ds, **options):
        if len(calls) == stopped_at:
            options["stop"].request(signal.SIGINT)
        calls.append(net)
        return train(net, ds, **options)

    monkeypatch.setattr(training, "train", stopping)
    model, part = tmp_path / "m.bin", tmp_path / "m.bin.part"
    result = run("--train", "--dataset", table, "--model", model, "--effort", "standard", "-q")
    assert result.code == 130 and part.exists() != model.exists() == bool(stopped_at)
    if stopped_at:
        assert "from the 1 candidate that had ended" in result.err and len(nn.Model.load(model).members) == 8


def test_the_page_of_a_test_and_the_pictures_of_errors_are_of_rows_out_of_fold(tmp_path):
    write_numbers(tmp_path / "numbers.csv")
    model = tmp_path / "m.bin"
    succeed("--train", "--dataset", tmp_path / "numbers.csv", "--model", model, "--effort", "quick", "--epochs", 2)
    figures = succeed("--test", "--model", model, "--report", tmp_path / "page.html", "--json").json
    assert f"is off by {figures['rmse']:.6g} (95%" in (tmp_path / "page.html").read_text()
    files = succeed("--plot", model, "-o", tmp_path / "pictures", "--json").json["files"]
    assert any("errors" in file for file in files) and any("predicted" in file for file in files)


def test_a_limit_on_memory_holds_for_a_test_out_of_fold(standard):
    figures = succeed("--test", "--model", standard[2], "--memory", "1G", "--json").json
    assert figures == succeed("--test", "--model", standard[2], "--json").json
    refused = run("--test", "--model", standard[2], "--memory", "20M")
    assert refused.code == 2 and "--memory 20M: too little for this network" in refused.err


@pytest.fixture(scope="module")
def saved(table, tmp_path_factory):
    """A checkpoint of a choice."""
    folder = tmp_path_factory.mktemp("saved")
    trained(table, folder, "m.bin", "--checkpoint", folder / "c.ck")
    return folder / "c.ck"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--seed", 3], "--seed: "), (["--holdout", 0.2], "--holdout: "), (["--target", "a"], "--target: "),
        (["--effort", "quick"], "--effort: "), (["--networks", 2], "--effort: "), (["--patience", 2], "--patience: "),
        (["--dataset", "other.csv"], "--dataset: "),
    ],
)  # fmt: skip
def test_what_another_choice_than_that_of_a_checkpoint_differs_in_is_named(flags, named, table, saved, tmp_path):
    (tmp_path / "other.csv").write_text(table.read_text().replace("red", "blue"))
    flags = [tmp_path / flag if flag == "other.csv" else flag for flag in flags]
    result = run("--train", "--dataset", table, "--model", tmp_path / "m.bin", "--resume", saved, "-q", *flags)
    assert result.code == 2 and result.err.startswith(f"nn: {named}") and result.err.count("\n") == 1


def test_settings_of_a_training_leave_the_choice(table, tmp_path):
    """--patience, --monitor and --calibrate ended it."""
    given = ["--patience", 2, "--monitor", "roc_auc", "--calibrate", "temperature"]
    told = succeed("--train", "--dataset", table, "--model", tmp_path / "m.bin", "--epochs", 4, "--json", *given)
    assert told.json["effort"] == "standard" and "calibration" in told.json
    assert all("--patience 2 " in one["flags"] for one in told.json["chosen"])
