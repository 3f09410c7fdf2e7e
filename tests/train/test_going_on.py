"""Going on from a model, --init MODEL: each network of it learns from further rows,
which it reads as before."""

import csv
import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import start_saving_each_epoch
from support.command_line import run, succeed
from support.people import as_csv, people

import nn
from nn.data.splits import split_rows
from nn.files import model_file
from nn.nn.model import packed
from nn.test.trained_rows import trained_on
from nn.train.going_on import settings_going_on
from nn.utils import DataError, UsageError

ROWS = 1500
SETTINGS = ("epochs", "batch_number", "optimizer", "weight_decay", "holdout")


def write_rows(path: str, rows: slice, words="red green blue", extra=()) -> None:
    """Two numbers and a word that tell a class."""
    rng = np.random.default_rng(5)
    numbers = rng.normal(size=(ROWS, 2)).round(4)
    word = np.array(words.split())[rng.integers(3, size=ROWS)]
    noise = 0.3 * rng.normal(size=ROWS)
    score = numbers[:, 0] * numbers[:, 1] + (word == words.split()[0]) + noise
    named = np.where(score > 0.3, "good", "bad")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "word", "y"])
        for values in list(zip(*numbers.T, word, named, strict=True))[rows]:
            writer.writerow(values)
        writer.writerows(extra)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with rows, one network and several of the first of them."""
    folder = tmp_path_factory.mktemp("models")
    before = os.getcwd()
    os.chdir(folder)
    try:
        write_rows("all.csv", slice(0, 1200))
        write_rows("one.csv", slice(0, 600))
        write_rows("two.csv", slice(600, 1200))
        write_rows("new.csv", slice(1200, ROWS))
        given = ["--layers", "auto,16,1", "--epochs", 240, "--quiet"]
        succeed("train", "one.csv", "-m", "one.bin", *given)
        succeed("train", "all.csv", "-m", "all.bin", *given)
        succeed("train", "one.csv", "-m", "three.bin", *given, "--networks", 3)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(models, monkeypatch):
    monkeypatch.chdir(models)
    return models


def loss_of(model: str) -> float:
    return succeed("test", model, "new.csv", "--json", "--quiet").json["log_loss"]


def test_a_model_that_goes_on_is_as_good_as_one_of_all_rows(here):
    told = succeed("train", "two.csv", "-m", "two.bin", "--init", "one.bin", "--json")
    net = nn.Network.load("two.bin")
    before = nn.Network.load("one.bin")
    assert told.json["epochs"] == 80
    assert net.config["learning_rate"] == before.config["learning_rate"] / 3
    for name in SETTINGS[1:]:
        assert net.config[name] == before.config[name]
    for name in ("spec", "loss", "classes", "columns", "targets", "gap_words"):
        assert getattr(net, name) == getattr(before, name)
    assert net.encoding.to_dict() == before.encoding.to_dict()
    assert loss_of("two.bin") < 1.05 * loss_of("all.bin")
    assert loss_of("two.bin") < loss_of("one.bin")


def test_command_and_python_write_the_same_bytes_on_any_number_of_threads(here):
    for model in ("one", "three"):
        command = ["train", "two.csv", "--init", f"{model}.bin", "--backend", "omp"]
        for threads in (1, 3):
            succeed(*command, "-m", f"{threads}.bin", "--threads", threads)
        was = Path(f"{model}.bin").read_bytes()
        loaded = nn.Model.load(f"{model}.bin")
        for init in (f"{model}.bin", loaded, loaded.network, Path(f"{model}.bin")):
            found = nn.fit("two.csv", init=init, backend="omp")
            found.save("python.bin")
            assert Path("python.bin").read_bytes() == Path("1.bin").read_bytes()
        assert Path("3.bin").read_bytes() == Path("1.bin").read_bytes()
        loaded.save("again.bin")  # it is not trained itself
        assert Path("again.bin").read_bytes() == was


def test_each_network_of_several_goes_on_as_if_it_were_alone(here):
    nn.fit("two.csv", init="three.bin").save("on.bin")
    before = nn.Model.load("three.bin")
    after = nn.Model.load("on.bin")
    assert len(after.members) == 3
    assert after.network.config["networks"] == 3
    for was, net in zip(before.members, after.members, strict=True):
        alone = nn.fit("two.csv", init=was).network
        for name, values in alone.parameters().items():
            assert np.array_equal(values, net.parameters()[name])
        assert net.seed == was.seed
    assert loss_of("on.bin") < loss_of("three.bin")


def test_weights_of_members_stay_and_folds_do_not(here):
    nn.fit("one.csv", effort="quick").save("chosen.bin")
    before = nn.Network.of_file("chosen.bin")
    after = nn.fit("two.csv", init="chosen.bin", epochs=1, seed=7).network
    assert before.crossed is not None
    assert before.judged is not None
    assert after.crossed is None
    assert after.judged is None
    assert "folds" not in after.config
    assert after.member_weights == before.member_weights
    assert after.encoding.to_dict() == before.encoding.to_dict()
    assert [net.seed for net in after.members] == [
        7 + k for k in range(len(after.members))
    ]
    for was, net in zip(before.members, after.members, strict=True):
        assert net.encoding.to_dict() == was.encoding.to_dict()


def test_networks_that_go_on_count_as_much_as_before(here):
    net = nn.Network.of_file("three.bin")
    net.combine(net.members, [1.0, 2.0, 5.0])
    after = nn.fit("two.csv", init=net, epochs=1).network
    assert after.member_weights == [1.0, 2.0, 5.0]
    x = nn.load_for(after, "new.csv").x
    outputs = [member.predict(x) for member in after.members]
    expected = np.average(outputs, axis=0, weights=[1, 2, 5])
    np.testing.assert_allclose(after.predict(x), expected, rtol=1e-5)


def test_numbers_and_targets_keep_the_scaling_of_the_model(folder):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 3))
    y = x @ [1, 2, 3]
    model = nn.fit(x, y, layers="3,8,1", epochs=3)
    further = nn.fit(10 * x + 4, 100 * y, init=model, epochs=1)
    for name in ("scaling", "target_scaling"):
        was = getattr(model.network, name)
        now = getattr(further.network, name)
        assert was.to_dict() == now.to_dict()
    assert further.network.medians == model.network.medians
    # a training that begins with the model finds others
    net = nn.Network.of_file(_saved(model))
    nn.train(net, nn.load(10 * x + 4, y=100 * y), epochs=1)
    assert net.scaling.to_dict() != model.network.scaling.to_dict()


def _saved(model) -> str:
    model.save("m.bin")
    return "m.bin"


@pytest.mark.slow
def test_a_training_that_goes_on_is_killed_and_resumed_to_the_same_bytes(here):
    for model in ("one", "three"):
        given = ["--train", "--dataset", "two.csv", "--init", f"{model}.bin"]
        given += ["--epochs", 1000]
        succeed(*given, "--model", "peace.bin")
        given += ["--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"]
        process = start_saving_each_epoch(*given)
        try:
            while not os.path.exists("c.ck"):
                assert process.poll() is None
                time.sleep(0.01)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode
        told = run(*given[:3], *given[5:], "--init", "all.bin")
        assert told.code == 2
        assert "--init: c.ck" in told.err or "networks" in told.err
        succeed(*given)
        assert Path("m.bin").read_bytes() == Path("peace.bin").read_bytes()
        os.remove("c.ck")
        os.remove("m.bin")


REFUSED = [
    (["--layers", "auto,3,1"], "3,16:relu,1:sigmoid"),
    (["--activation", "tanh"], "--activation tanh"),
    (["--loss", "mse"], "bce"),
    (["--task", "multiclass"], "binary"),
    (["--scaling", "none"], "standardization"),
    (["--target", "word"], "--target word: the model of --init has decided it, y"),
    (["--categories", "a"], "--categories a"),
    (["--weight", "b"], "--weight b"),
    (["--number_embedding", "8"], "--number_embedding"),
    (["--networks", "2"], "--networks 2: the model of --init has decided it, 1"),
    (["--folds", "3"], "--folds 3"),
    (["--effort", "quick"], "--init is not for it"),
    (["--reference"], "--reference"),
    (["--validation", "fold"], "give --folds too"),
]


@pytest.mark.parametrize("flags, told", REFUSED)
def test_a_flag_that_says_otherwise_is_refused_in_a_line(here, flags, told):
    found = run("train", "two.csv", "-m", "x.bin", "--init", "one.bin", *flags)
    assert found.code == 2
    assert told in found.err
    assert found.err.count("\n") == 1
    assert not os.path.exists("x.bin")


def test_a_flag_that_says_the_same_is_taken(here):
    same = ["--layers", "auto,16,1", "--loss", "bce", "--target", "y", "--networks", 1]
    given = ["train", "two.csv", "--init", "one.bin", "--epochs", 1]
    succeed(*given, "-m", "same.bin", *same, "--activation", "relu")
    succeed(*given, "-m", "plain.bin")
    assert Path("same.bin").read_bytes() == Path("plain.bin").read_bytes()


def test_layers_with_their_activation_may_be_said_again():
    table = {"a": [k * 7 % 11 for k in range(40)], "y": [k % 2 for k in range(40)]}
    given = {"layers": "auto,4,1", "activation": "tanh", "epochs": 1}
    model = nn.fit(table, "y", **given)
    assert nn.fit(table, "y", init=model, **given).network.spec == model.network.spec
    with pytest.raises(UsageError, match="auto,4,1: the model of"):
        nn.fit(table, "y", init=model, **{**given, "activation": "relu"})


@pytest.mark.parametrize("layers, count", [("3,4,1", 2), ("3,4,dropout0.2,5,1", 3)])
def test_one_layer_with_parameters_learns(layers, count):
    x = np.random.default_rng(0).normal(size=(40, 3))
    ds = nn.Dataset(x, x[:, 0], "regression")
    net = nn.Network(layers)
    before = net.parameters()
    nn.train(net, ds, epochs=1, freeze=count - 1)
    changed = [
        k for k, v in net.parameters().items() if not np.array_equal(v, before[k])
    ]
    assert changed == [f"layer{count - 1}.weight", f"layer{count - 1}.bias"]
    told = f"--freeze {count}: the network has {count} layers with parameters"
    with pytest.raises(UsageError, match=told):
        nn.train(nn.Network(layers), ds, epochs=1, freeze=count)


def test_what_is_no_model_is_refused_in_a_line(here):
    for init, code, told in [
        ("nowhere", 2, "--init nowhere: no such model, expected a model or he, lecun"),
        ("one.csv", 65, "one.csv: not a model file of nn"),
    ]:
        found = run("train", "two.csv", "-m", "x.bin", "--init", init)
        assert found.code == code
        assert found.err.count("\n") == 1
        assert told in found.err
    data = bytearray(Path("one.bin").read_bytes())
    data[-1] ^= 1
    Path("changed.bin").write_bytes(data)
    assert run("train", "two.csv", "-m", "x.bin", "--init", "changed.bin").code == 65
    for init in (3, {"a": 1}):
        with pytest.raises(UsageError, match="--init .*: no such model"):
            nn.fit("two.csv", init=init)
    with pytest.raises(UsageError, match="--init one.bin"):
        nn.Network("3,1", init="one.bin")


def test_new_classes_are_refused_and_new_words_share_their_slot(here, caplog):
    write_rows("classes.csv", slice(600, 700), extra=[[1, 2, "red", "new"]])
    found = run("train", "classes.csv", "-m", "x.bin", "--init", "one.bin")
    assert found.code == 65
    assert 'found class "new", expected one of the model\'s classes' in found.err
    ds = nn.load("classes.csv")
    with pytest.raises(DataError, match="found class new, expected one of good, bad"):
        nn.fit(ds, init="one.bin")
    write_rows("words.csv", slice(600, 1200), words="violet green brown")
    net = nn.fit("words.csv", init="one.bin").network
    assert "were not seen in training" in caplog.text
    assert net.encoding.to_dict() == nn.Network.load("one.bin").encoding.to_dict()
    rows = {"a": [1.0, 1.0], "b": [0.2, 0.2], "word": ["violet", "brown"]}
    both = net.predict(rows)
    assert both[0] == both[1]
    before = nn.Network.load("one.bin").predict(rows)
    assert (np.abs(both - before) > 1e-4).all()  # they have learned together


def test_a_model_of_other_columns_is_refused(here):
    Path("people.csv").write_text(as_csv(people(200)))
    found = run("train", "people.csv", "-m", "x.bin", "--init", "one.bin")
    assert found.code == 65
    assert found.err.count("\n") == 1


def test_settings_of_a_hostile_model_are_refused_in_a_line(here):
    net = nn.Network.load("one.bin")
    for name, value in [
        ("learning_rate", "fast"),
        ("optimizer", "/etc/passwd"),
        ("batch_number", [1]),
        ("epsilon", {"a": 1}),
    ]:
        config = {**net.config, name: value}
        changed = nn.Network.load("one.bin")
        changed.config = config
        changed.export("hostile.bin")
        found = run("train", "two.csv", "-m", "x.bin", "--init", "hostile.bin")
        assert found.code == 2, found.err
        assert found.err.count("\n") == 1, found.err


@pytest.mark.parametrize(
    "rows, epochs",  # batches of 32: 200 steps of 19, 7 and 1 batches; a third of 240
    [(600, 80), (64, 100), (32, 200), (20, 200)],
)
def test_few_rows_have_more_epochs_up_to_the_models_own(rows, epochs, here):
    write_rows("few.csv", slice(600, 600 + rows))
    model = nn.fit("few.csv", init="one.bin", holdout=0.0)
    assert model.network.config["epochs"] == epochs
    short = nn.fit("few.csv", init="one.bin", holdout=0.0, epochs=6)
    again = nn.fit("few.csv", init=short, holdout=0.0)
    assert again.network.config["epochs"] == min(6, -(-200 // -(-rows // 32)))


@pytest.mark.parametrize(
    "monitor, judged, epochs",
    [
        (None, None, 2),  # a third of its four epochs, rounded up
        ("loss", [0.5, 0.4, 0.3, 0.2], 2),
        ("loss", [0.2, 0.4, None, 0.3], 1),
        ("roc_auc", [0.5, 0.9, 0.8, 0.7], 1),
        ("roc_auc", [None, 0.7, 0.7, 0.9], 2),
    ],
)
def test_many_rows_have_a_third_of_the_epochs_up_to_the_best(
    monitor, judged, epochs, here
):
    net = nn.fit("one.csv", layers="auto,1", epochs=4, holdout=0.0).network
    history = {**net.history, "val_metric": judged}
    net.facts = replace(net.facts, history=history)
    net.facts.config["monitor"] = monitor
    assert settings_going_on(net, 10**6)["epochs"] == epochs


def test_frozen_layers_learn_again_and_the_longest_training_is_told():
    """Two networks, which patience has ended at other epochs."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 2))
    y = x[:, 0] * x[:, 1] + rng.normal(size=300)
    ds = nn.Dataset(x, y, "regression")
    net = nn.Network("2,8,1", "regression")
    how = {"epochs": 120, "freeze": 1, "validation": 0.3, "patience": 8}
    nn.train(net, ds, networks=2, learning_rate=0.01, **how)
    first = [member.parameters()["layer0.weight"].copy() for member in net.members]
    epochs = []
    for member in net.members:
        values = member.history["val_metric"]
        best = 1 + values.index(min(values))
        needed = -(-200 // -(-300 // member.config["batch_number"]))
        epochs.append(max(-(-best // 3), min(best, needed)))
    assert len({*epochs}) == 2, "the data should be such that they differ"
    figures = nn.train(net, ds, goes_on=True)
    assert figures["epochs"] == max(epochs)
    assert [member.config["epochs"] for member in net.members] == epochs
    for member, before in zip(net.members, first, strict=True):
        assert not np.array_equal(member.parameters()["layer0.weight"], before)


@pytest.mark.parametrize("split_seed, drawn_by", [(9, 9), (None, 3)])
def test_the_rows_that_were_held_out_are_held_out_again(split_seed, drawn_by, caplog):
    """Whatever the seed of the further training."""
    x = np.random.default_rng(2).normal(size=(200, 2))
    ds = nn.Dataset(x, x[:, 0], "regression")
    net = nn.Network("2,1", "regression", seed=3)
    nn.train(net, ds, epochs=2, holdout=0.25, split_seed=split_seed)
    digest = hashlib.sha256(packed(net)).hexdigest()
    caplog.clear()
    model = nn.fit(ds, init=net, seed=8)
    assert model.metrics["holdout"] == 50
    assert model.network.config["init"] == f"sha256:{digest}"
    assert model.network.seed == 8
    assert "was trained on" not in caplog.text
    rows = split_rows(ds, 0.25, 0.0, drawn_by)
    for part, count in ((rows.holdout, 0), (rows.training, 150)):
        assert trained_on(model.network, ds.of_rows(part)).count == count


def test_images_go_on_too(folder):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 255, (120, 1, 8, 8)).astype(np.uint8)
    y = (x[:, 0, :4].mean(axis=(1, 2)) > x[:, 0, 4:].mean(axis=(1, 2))).astype(int)
    model = nn.fit(x, y, layers="1x8x8,conv2k3same,1", epochs=2)
    further = nn.fit(x, y, init=model, epochs=20)
    assert further.network.spec == model.network.spec
    assert further.network.history["loss"][-1] < model.network.history["loss"][-1]


@pytest.mark.parametrize("model", ["one.bin", "three.bin"])
def test_rows_of_all_trainings_are_known_by_their_data(here, model):
    """Each file is divided by the seed as its training divided it; rows of the first
    one in another file are known by themselves."""
    nn.fit("two.csv", init=model, epochs=1).save("two.bin")
    nn.fit("new.csv", init="two.bin", epochs=1).save("new.bin")
    net = nn.Network.of_file("new.bin")
    assert len(net.ancestors) == 2
    for file in ("one.csv", "two.csv", "new.csv"):
        ds = nn.load_for(net, file)
        split = nn.ds.split_rows(ds, 0.2, 0.0, 0)
        assert nn.test(net, ds)["trained_rows"] == len(split.training)
        assert nn.test(net, ds.of_rows(split.holdout))["trained_rows"] == 0
        assert 0 < len(split.holdout) < ds.rows
    assert succeed("test", "new.bin", "--json").json["trained_rows"] == 0
    assert nn.Network.of_file(model).ancestors == []
    head = Path("one.csv").read_text().splitlines(keepends=True)[:401]
    Path("some.csv").write_text("".join(head))
    known = nn.test(net, nn.load_for(net, "some.csv"))["trained_rows"]
    assert known == pytest.approx(0.8 * 400, rel=0.25)


def test_rows_that_judge_and_that_an_ancestor_knew_are_told(here, caplog):
    given = {"validation": 0.2, "epochs": 1}
    honest = nn.fit("one.csv", init="one.bin", **given, holdout=0.0, split_seed=0)
    assert "the model of --init was trained on" in caplog.text
    assert honest.network.conformal is None
    caplog.clear()
    apart = nn.fit("two.csv", init="one.bin", **given)
    assert "was trained on" not in caplog.text
    assert apart.network.conformal is not None
    caplog.clear()
    nn.fit("one.csv", init="one.bin", epochs=1, split_seed=9).save("other.bin")
    assert "the model of --init was trained on" in caplog.text
    told = succeed("test", "other.bin", "--json")
    assert 0 < told.json["trained_rows"] < told.json["rows"]
    ds = nn.load_for(nn.Network.of_file("other.bin"), "one.csv")
    splits = [nn.ds.split_rows(ds, 0.2, 0.0, seed).training for seed in (0, 9)]
    known = nn.Model.load("other.bin").test(ds)["trained_rows"]
    both = {*splits[0], *splits[1]}
    assert known == len(both)
    assert len(both) > len(splits[0])
    assert "other.bin was trained on" in told.err
    caplog.clear()
    nn.fit("one.csv", init="one.bin", epochs=1).save("same.bin")
    assert "was trained on" not in caplog.text
    assert succeed("test", "same.bin", "--json").json["trained_rows"] == 0


@pytest.mark.parametrize(
    "ancestors",
    [
        3,
        [],
        [{"data": "a", "holdout": 0.2}],
        [{"data": "a", "holdout": 2, "split_seed": 0}],
        [{"data": 1, "holdout": 0.2, "split_seed": 0}],
        [{"data": "a", "holdout": 0.2, "split_seed": 0, "path": "/etc"}],
        [{"data": "a", "holdout": 0.2, "split_seed": -1}],
        [{"data": "a", "holdout": 0.2, "split_seed": 0}] * 65,
    ],
)
def test_hostile_ancestors_are_refused(here, ancestors):
    tensors, facts = model_file.load("one.bin")
    with pytest.raises(DataError, match="`ancestors` is"):
        model_file.save("x.bin", tensors, {**facts, "ancestors": ancestors})


# ---- the estimators


def digits(rows: int = 600):
    """Two of ten inputs tell which of three classes a row has."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(rows, 10))
    return x, np.array(["a", "b", "c"])[(x[:, 0] > 0.4).astype(int) + (x[:, 1] > 0)]


def test_a_warm_start_goes_on_as_a_model_does(folder):
    x, y = digits()
    warm = nn.NetworkClassifier(layers="auto,8,3", epochs=6, warm_start=True)
    warm.fit(x[:300], y[:300])
    first = nn.Network.load(_exported(warm.network_))
    network = warm.network_
    warm.fit(x[300:], y[300:])
    assert warm.network_ is network
    assert len(warm.loss_curve_) == 12
    further = nn.fit(x[300:], y[300:], init=first, epochs=6, holdout=0.0).network
    assert np.array_equal(further.vector, network.vector)
    given = {
        "epochs": 6,
        "holdout": 0.0,
        "validation": nn.load_for(network, x[:200], y=y[:200]),
    }
    judged = nn.fit(x[300:], y[300:], init=network, **given)
    warm.fit(x[300:], y[300:], eval_set=(x[:200], y[:200]))
    for name in ("validation", "val_metric", "best_epoch"):
        assert warm.figures_[name] == judged.metrics[name]
    with pytest.raises(ValueError, match="found class .*'d'"):
        warm.fit(x[:3], np.array(["a", "b", "d"]))
    cold = nn.NetworkClassifier(layers="auto,8,3", epochs=6).fit(x[:300], y[:300])
    assert np.array_equal(cold.network_.vector, first.vector)
    assert np.array_equal(cold.fit(x[:300], y[:300]).network_.vector, first.vector)


def _exported(net) -> str:
    net.export("first.bin")
    return "first.bin"


def test_parts_are_trained_on_one_after_the_other(caplog):
    x, y = digits()
    parts = nn.NetworkClassifier(layers="auto,16,3", learning_rate=0.01)
    rates = set()
    for _ in range(15):
        for first in range(0, 500, 100):
            rows = slice(first, first + 100)
            parts.partial_fit(x[rows], y[rows], classes=["c", "b", "a"])
            rates.add(parts.network_.config["learning_rate"])
    assert parts.score(x[500:], y[500:]) > 0.9
    assert rates == {0.01}
    assert len(parts.loss_curve_) == 75
    assert "learned nothing" not in caplog.text
    assert len(parts.network_.ancestors) <= 64
    assert parts.classes_.tolist() == ["a", "b", "c"]
    parts.partial_fit(x[:4], ["a"] * 4)  # further ones may lack classes
    with pytest.raises(ValueError, match="found class .*'d'"):
        parts.partial_fit(x[:4], ["d"] * 4)


def test_the_first_part_needs_classes_and_may_lack_some():
    x, y = digits()
    with pytest.raises(ValueError, match="classes must be passed"):
        nn.NetworkClassifier().partial_fit(x, y)
    numbered = np.where(y == "a", 7, 9)
    parts = nn.NetworkClassifier(layers="auto,8,3")
    parts.partial_fit(x, numbered, classes=[7, 8, 9])
    assert parts.predict_proba(x[:5]).shape == (5, 3)
    assert set(parts.predict(x).tolist()) <= {7, 8, 9}
    weights = np.ones(len(x))
    weights[::2] = 0
    parts.partial_fit(x, numbered, sample_weight=weights)


def test_numbers_are_learned_in_parts_too():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(600, 4))
    y = 100 * x[:, :2] @ [[1, 2], [3, -1]]
    parts = nn.NetworkRegressor(layers="auto,16,2", learning_rate=0.02)
    for _ in range(30):
        parts.partial_fit(x[:500], y[:500])
    assert parts.score(x[500:], y[500:]) > 0.95


def test_the_page_says_which_model_went_on(here):
    nn.fit("two.csv", init="one.bin", epochs=1).save("two.bin")
    succeed("info", "two.bin", "--report", "two.md", "--quiet")
    page = Path("two.md").read_text()
    digest = hashlib.sha256(Path("one.bin").read_bytes()).hexdigest()
    assert f"--init sha256:{digest}" in page
    assert "--init stands for the model with this SHA-256." in page
