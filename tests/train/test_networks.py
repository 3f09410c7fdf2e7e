"""--networks: several networks trained together are those trained alone, and predict
together."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import (
    argv,
    predictions,
    run,
    succeed,
    write_numbers,
    write_three_classes,
    write_two_classes,
)
from support.packs import (
    BEST,
    LAYERS,
    SEED,
    break_some,
    check_alone,
    check_file,
    check_means,
    data,
    network,
    vector,
)
from support.people import as_csv, people

import nn
from nn import backends
from nn.backends.member import Turns
from nn.cluster import RankGroup
from nn.core.thresholds import best_threshold
from nn.data import records
from nn.files import model_file
from nn.nn import Network, model
from nn.train import run as runs
from nn.train.member import Member, NotFinite
from nn.train.run import means_by_epoch
from nn.utils import DataError, NnError, UsageError
from nn.watch.callbacks import Callback

COUNT = 3
PATIENCE = {
    "epochs": 30,
    "validation": 0.3,
    "patience": 2,
    "monitor": BEST,
    "learning_rate": 0.05,
}
SETTINGS = {
    "holdout": {"epochs": 3},
    "sgd": {
        "epochs": 2,
        "optimizer": "sgd",
        "momentum": 0.9,
        "holdout": 0.0,
        "scaling": "none",
    },
    "patience": PATIENCE,
    "turns": PATIENCE,
    "refit": {"epochs": 5, "validation": 0.3, "refit": True, "learning_rate": 0.05},
    "balanced": {"epochs": 2, "class_weight": "balanced", "batch_number": 7},
    "file": {
        "epochs": 4,
        "validation": data("binary", 90),
        "patience": 1,
        "learning_rate": 0.1,
    },
}
NOT_OF = {("balanced", "regression"), ("file", "multiclass"), ("file", "regression")}


def flags_of(setting, task):
    return {
        name: value[task] if value is BEST else value
        for name, value in SETTINGS[setting].items()
    }


def together(task="binary", backend="omp", ds=None, networks=COUNT, **flags):
    net = network(task, backend=backend)
    result = nn.train(
        net, ds or data(task), networks=networks, **{"epochs": 2, **flags}
    )
    return net, result


@pytest.mark.usual(12)
@pytest.mark.parametrize(
    "setting, task", [(s, t) for s in SETTINGS for t in LAYERS if (s, t) not in NOT_OF]
)
@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_each_member_is_the_network_alone(setting, task, backend, monkeypatch):
    if setting == "turns":
        monkeypatch.setattr("nn.backends.cpu.CpuPack", Turns)
    flags = flags_of(setting, task)
    ds = data(task)
    net, result = together(task, backend, ds, **flags)
    check_alone(task, net, result, backend, ds, **flags)
    assert (
        result["networks"]
        == COUNT
        == len({vector(member).tobytes() for member in net.members})
    )
    if setting == "patience":
        # each stops by itself
        assert len({len(member.history["loss"]) for member in net.members}) > 1


@pytest.mark.usual(4)
@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {
            "class_weight": "balanced",
            "validation": 0.3,
            "monitor": "roc_auc",
            "patience": 1,
            "learning_rate": 0.05,
        },
        {
            "class_weight": "1,2.5",
            "validation": 0.3,
            "refit": True,
            "number_embedding": "waves3",
        },
        {
            "optimizer": "sgd",
            "momentum": 0.9,
            "scaling": "normalization",
            "number_embedding": "pieces4",
        },
        {"vary": "hidden=4|9-3,dropout=0|0.3", "validation": 0.2},
        {
            "vary": "number_embedding=linear|waves4|pieces6,hidden=4|9",
            "validation": 0.3,
            "refit": True,
        },
    ],
    ids=lambda flags: " ".join(flags),
)
def test_members_on_a_mixed_table_share_its_encoding(flags, backend, folder):
    """Gaps, words, dates, towns that are embedded, and weights of the rows."""
    columns = people(600)
    columns["times"] = [str(number % 3) for number in range(len(columns["rich"]))]
    (folder / "people.csv").write_text(as_csv(columns))
    ds = nn.load(folder / "people.csv", weight="times", target="rich")
    layers = f"{ds.inputs},8,dropout0.3,4,1"
    net = Network(layers, "binary", seed=SEED, backend=backend)
    figures = nn.train(
        net, ds, networks=6 if "vary" in flags else COUNT, epochs=3, **flags
    )
    assert any(
        encoder.kind == "category" and encoder.width
        for encoder in net.encoding.encoders
    )
    check_alone(
        "binary",
        net,
        figures,
        backend,
        ds,
        layers,
        **{n: value for n, value in flags.items() if n != "vary"},
    )
    again = check_file(net, folder / "people.bin", ds.x)
    assert "vary" in flags or all(
        member.encoding is again.encoding for member in again.members
    )


def test_one_network_is_a_single_one(folder):
    for number, flags in enumerate([{}, {"networks": 1}]):
        net = network("binary")
        assert "networks" not in nn.train(net, data("binary"), epochs=2, **flags)
        assert net.members == [net]
        net.export(folder / f"{number}.bin")
    assert (folder / "0.bin").read_bytes() == (folder / "1.bin").read_bytes()


@pytest.mark.parametrize("task", LAYERS)
def test_the_prediction_is_the_weighted_mean_and_has_a_deviation(task):
    net, _ = together(task)
    x = data(task).x
    weights = [1.0, 3.0, 2.0]
    net.combine(net.members, weights)
    stacked = np.stack([member.predict(x) for member in net.members])
    scores = stacked.astype(np.float64)
    mean = np.average(scores, axis=0, weights=weights)
    assert np.allclose(net.predict(x), mean, rtol=1e-6, atol=1e-7)
    deviation = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weights))
    assert np.allclose(net.deviation(x), deviation, rtol=1e-4, atol=1e-6)
    assert deviation.max() > 1e-3
    assert not net.members[0].deviation(x).any()


def test_members_that_scale_by_their_own_rows_read_a_row_each_in_its_way(folder):
    """Those of folds, on plain numbers: here, from a file, and beside each other."""
    ds = data("regression")
    net = network("regression")
    nn.train(net, ds, folds=COUNT, epochs=2, holdout=0.0)
    assert len({member.scaling.shift.tobytes() for member in net.members}) == COUNT
    net.combine(net.members, [1.0, 3.0, 2.0])
    net.export(folder / "m.bin")
    for known in (net, Network.of_file(folder / "m.bin")):
        outputs = [member.predict(ds.x) for member in known.members]
        each = np.stack(outputs).astype(np.float64)
        mean = np.average(each, axis=0, weights=[1, 3, 2])
        assert np.allclose(known.predict(ds.x), mean, rtol=1e-6, atol=1e-7)
        together = np.stack(list(known.member_outputs(ds.x)))
        assert together.tobytes() == np.stack(outputs).tobytes()


@pytest.mark.parametrize("task", LAYERS)
def test_a_file_holds_all_members(task, folder):
    net, _ = together(task, **flags_of("patience", task))
    net.combine(net.members, [1.0, 2.5, 1.0])
    net.export(folder / "several.bin")
    tensors, metadata = model_file.load(folder / "several.bin")
    assert metadata["format"] == 3
    assert "member2.layer0.weight" in tensors
    weights = [member["weight"] for member in metadata["members"]]
    assert weights == [1.0, 2.5, 1.0]
    again = check_file(net, folder / "several.bin", data(task).x)
    for own, loaded in zip(net.members, again.members, strict=True):
        assert loaded.metadata() == own.metadata()
        assert np.array_equal(vector(loaded), vector(own))


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda tensors, meta: meta.update(members=[]), "`members`"),
        (lambda tensors, meta: meta["members"][1].update(weight=0), "`members`"),
        (lambda tensors, meta: meta["members"].pop(), "is of no member"),
        (lambda tensors, meta: meta["members"].append({"weight": 1}), "layer0"),
        (lambda tensors, meta: tensors.pop("member1.layer0.bias"), "layer0.bias"),
        (lambda tensors, meta: meta["members"][1].update(seed=-1), "`seed`"),
        (lambda tensors, meta: meta["members"][1].update(dtype="float64"), "member 1"),
        (lambda tensors, meta: meta["members"][1].update(layers="6,1"), "layer"),
    ],
)
def test_a_damaged_member_is_refused(change, expected, folder):
    net, _ = together()
    tensors = model.tensors(net)
    metadata = json.loads(json.dumps(net.metadata()))
    change(tensors, metadata)
    with pytest.raises(DataError, match=expected):
        model_file.save(folder / "damaged.bin", tensors, metadata)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_threshold_and_temperature_are_found_for_all_together_before_the_refit(task):
    """By the mean of the networks that do not know the validation rows: as they are
    without a refit."""
    rules = {
        "calibrate": "temperature",
        **({"threshold": "f1"} if task == "binary" else {}),
    }
    ds = data(task)
    flags = {"validation": 0.3, "epochs": 12, "patience": 2, "learning_rate": 0.03}
    first, figures = together(task, **flags, **rules)
    rows = nn.ds.split_rows(ds, 0.2, 0.3, SEED).validation
    if task == "binary":
        scores = first.predict(ds.x[rows])[:, 0]
        threshold = best_threshold("f1", ds.y[rows], scores)
        expected = pytest.approx(threshold)
        assert first.threshold == figures["threshold"] == expected
    for member in first.members:
        assert member.temperature == 1
        assert member.threshold == 0.5
    net, result = together(task, refit=True, **flags, **rules)
    best_epochs = {member["best_epoch"] for member in figures["members"]}
    assert len(best_epochs) > 1
    assert result["calibration"] == figures["calibration"]
    assert net.temperature == first.temperature
    assert first.temperature != 1
    assert result.get("threshold") == figures.get("threshold")
    assert net.threshold == first.threshold
    assert not np.array_equal(vector(net.members[0]), vector(first.members[0]))
    plain, _ = together(task, refit=True, **flags)
    for member, own in zip(net.members, plain.members, strict=True):
        assert np.array_equal(vector(member), vector(own))


def test_a_network_that_fails_in_its_refit_decides_nothing(monkeypatch):
    """It is no member of the model."""
    flags = {"validation": 0.3, "epochs": 4, "learning_rate": 0.03}
    usual = Member._begin_refit

    def fails(self):
        usual(self)
        if self.net.seed == SEED + 1:
            raise NotFinite("loss is nan")

    monkeypatch.setattr(Member, "_begin_refit", fails)
    net, result = together(refit=True, threshold="f1", **flags)
    monkeypatch.undo()
    first, _ = together(threshold=0.5, **flags)
    ds = data("binary")
    rows = nn.ds.split_rows(data("binary"), 0.2, 0.3, SEED).validation
    mean = np.mean(
        [first.members[number].predict(ds.x[rows]) for number in (0, 2)], axis=0
    )
    assert result["networks"] == 2
    truth = ds.y[rows]
    expected = best_threshold("f1", truth, mean[:, 0])
    assert net.threshold == pytest.approx(expected)


def test_what_several_networks_cannot_do_is_refused(folder):
    together(checkpoint=folder / "state.nn")
    other = {"checkpoint": folder / "state.nn", "resume": "auto"}
    for options, flags, expected in (
        ({"reference": True, "backend": "seq"}, {}, "--reference trains one network"),
        ({"seed": 2**32 - 2}, {}, "smaller --seed"),
        ({}, {"networks": 0}, "a whole number from 1"),
        ({}, {**other, "networks": 1}, "--networks: .* was written with 3"),
        ({}, {**other, "networks": 2}, "--networks: .* was written with 3"),
    ):
        net = Network(
            "6,1:sigmoid" if options else LAYERS["binary"],
            "binary",
            **{"seed": SEED, **options},
        )
        with pytest.raises(UsageError, match=expected):
            nn.train(net, data(), **{"epochs": 2, "networks": COUNT, **flags})


def test_a_network_whose_loss_is_no_number_is_left_out(monkeypatch, caplog):
    break_some(monkeypatch, {SEED + 1})
    net, result = together()
    seeds = [member.seed for member in net.members]
    assert seeds == [SEED, SEED + 2] == [m["seed"] for m in result["members"]]
    assert result["networks"] == 2
    assert "network 1, seed 6, is left out: loss is nan" in caplog.text
    # the rows of a fold would have nobody to judge them
    net = nn.Network(LAYERS["binary"], "binary", seed=SEED)
    with pytest.raises(NnError, match="^loss is nan at epoch 1"):
        nn.train(net, data(), epochs=2, folds=3)


@pytest.mark.parametrize("more", [{}, {"networks": 8, "vary": "batch_number=16..64"}])
def test_epochs_are_told_once_with_means_and_stopped_networks_count_by_their_best(more):
    """Without it the mean jumps where one stops, though what each of them keeps has not
    changed."""
    epochs = []

    class Told(Callback):
        def epoch(self, epoch, _, loss, val_loss, seconds, us_per_batch):
            epochs.append((epoch, loss, val_loss))
            assert seconds >= 0
            assert us_per_batch >= 0

    net, result = together(
        callback=Told(), **{**flags_of("patience", "binary"), **more}
    )
    # one stops before another
    assert len({len(member.history["loss"]) for member in net.members}) > 1
    best_epochs = [member["best_epoch"] for member in result["members"]]
    check_means(net, result, best_epochs)
    assert more or epochs == [*zip(range(1, 99), result["loss"], result["val_loss"])]
    assert more or result["loss"][0] == np.mean(
        [member.history["loss"][0] for member in net.members]
    )


@pytest.mark.parametrize(
    "flags, vectors",
    [
        ({}, 4),
        ({"optimizer": "sgd"}, 2),
        ({"optimizer": "sgd", "momentum": 0.5, "validation": 0.3, "refit": True}, 5),
    ],
)
def test_too_many_networks_for_the_memory_are_refused_with_those_that_fit(
    flags, vectors, monkeypatch
):
    free = vectors * network("binary").parameter_count * 4 * 7
    monkeypatch.setattr(records, "available_memory", lambda: free)
    with pytest.raises(
        NnError, match="--networks 8: 8 networks need .* --networks 7 fits"
    ):
        together(networks=8, **flags)
    assert together(networks=7, **flags)[1]["networks"] == 7


def test_members_weights_must_be_positive_and_means_are_of_those_that_are_there():
    net, _ = together()
    for weights in ([1, 1], [1, 0, 1], [1, float("nan"), 1]):
        with pytest.raises(ValueError, match="expected as many"):
            net.combine(net.members, weights)
    assert means_by_epoch([[1, 2, None], [3], [None, 4]]) == [2, 3, None]


@pytest.mark.parametrize(
    "write", [write_two_classes, write_three_classes, write_numbers]
)
def test_a_model_of_several_networks_on_the_command_line(write, folder):
    path = write(folder / "data.csv")
    model = folder / "several.bin"
    call = argv(
        f"--train --dataset {path} --model {model} --networks {COUNT} --epochs 3 -q --json"
    )
    report = succeed(*call).json
    assert report["networks"] == COUNT
    seeds = [m["seed"] for m in report["members"]]
    assert seeds == [0, 1, 2]
    assert {"weight", "settings", "best_epoch"} <= set(report["members"][0])
    assert len(report["loss"]) == 3
    net = Network.of_file(model)
    ds = nn.load(path)
    info = succeed("--info", "--model", model, "--json").json
    assert len(info["members"]) == COUNT
    assert info["parameters"] == report["parameters"] == COUNT * net.parameter_count
    assert "3, seeds 0, 1, 2" in succeed("--info", "--model", model, "--verbose").out
    assert "members" not in succeed("--test", "--model", model, "-q", "--json").json
    output = succeed("--test", "--model", model, "-v", "--json")
    assert len(output.json["members"]) == COUNT
    assert "member" in succeed("--test", "--model", model, "-v").out
    rows = predictions(model, path)
    deviations = [name for name in rows[0] if name.startswith("deviation")]
    found = np.array([[float(row[name]) for name in deviations] for row in rows])
    assert len(deviations) == net.outputs
    assert np.allclose(found, net.deviation(ds.x), rtol=1e-5)
    assert found.max() > 0


@pytest.mark.parametrize("threshold", [0.3, None])
def test_each_network_is_tested_by_the_threshold_of_the_command_or_of_the_model(
    threshold, folder
):
    path = write_two_classes(folder / "data.csv")
    given = ("-m", folder / "m.bin", "--networks", COUNT, "--epochs", 3)
    succeed("train", path, *given, "--threshold", 0.6, "-q")
    asked = () if threshold is None else ("--threshold", threshold)
    result = succeed("test", folder / "m.bin", path, "-v", "--json", *asked).json
    net = Network.of_file(folder / "m.bin")
    ds = nn.load(path)
    for told, member in zip(result["members"], net.members, strict=True):
        alarms = member.predict(ds.x)[:, 0] >= (threshold or 0.6)
        counts = [int(sum(alarms & (ds.y == label))) for label in (1, 0)]
        assert [told["tp"], told["fp"]] == counts
        assert told["seed"] == member.seed


def test_layers_parameters_and_scaling_are_those_of_all_networks(folder):
    """They were those of the first one."""
    path = write_two_classes(folder / "data.csv")
    few = "2,3:relu,1:sigmoid"
    many = "2,4:relu,1:sigmoid"
    net = Network("2,4,1", "binary")
    members = [net.sibling(0), net.sibling(1), net.sibling(2, layers="2,3,1")]
    for member, kind in zip([net, *members], ["normalization"] * 3 + ["none"]):
        member.scaling = nn.Scaling.fit(kind, nn.load(path).x)
    net.combine(members, [1, 1, 1])
    net.export(folder / "m.bin")
    printed = succeed("--info", "--model", folder / "m.bin", "--verbose").out
    heads = [
        line
        for line in printed.splitlines()
        if line.endswith((" networks", " network"))
    ]
    totals = [
        line.split()[1]
        for line in printed.splitlines()
        if line.split()[:1] == ["total"]
    ]
    assert heads == ["2 networks", "1 network"]
    assert totals == ["17", "13"]
    assert re.search("^parameters +47$", printed, re.M)
    assert re.search("^scaling +2 x normalization; 1 x none$", printed, re.M)
    layers = f"2 x {many}; 1 x {few}"
    facts = "3 networks, binary, 47 parameters, float32"
    assert repr(net) == f"<nn.Network {layers}: {facts}>"
    one = nn.Network("2,1", "binary")
    one.columns = ["a", "b"]
    one.classes = ["no", "yes"]
    facts = "binary, 3 parameters, float32, columns a, b, classes no, yes"
    assert repr(one) == f"<nn.Network 2,1:sigmoid: {facts}>"
    net.combine(members[1:], [1, 1])
    net.export(folder / "two.bin")
    with pytest.raises(UsageError, match="two.bin: holds 2 networks; nn.Model.load"):
        nn.Network.load(folder / "two.bin")
    output = succeed("--export", "--model", folder / "m.bin", "-o", folder / "m.c")
    assert layers in output.err
    text = (folder / "m.c").read_text()
    assert f"\n *   2 x {many}\n *   1 x {few}\n" in text
    succeed(
        "--test",
        "--model",
        folder / "m.bin",
        "--dataset",
        path,
        "--report",
        folder / "test.html",
    )
    source = (folder / "test.html").read_text().replace("<wbr>", "")
    page = re.sub("(<[^>]*>)+", "||", source)
    assert f"||layers||{layers}||" in page
    assert "||parameters||47||" in page
    assert "||scaling||2 x normalization; 1 x none||" in page


@pytest.mark.parametrize(
    "flags",
    [
        "--networks 2 --reference",
        "--networks 2 --profile",
        "--networks 2 --trace t.json",
        "--networks 2 --model x.m",
        "--folds 3 --model x.m",
        "--folds 3 --profile",
        "--folds 3 --networks 2",
    ],
)
def test_flags_of_one_network_are_wrong_use(flags, two, folder):
    result = run(*f"--train --dataset two.csv --model x.bin --epochs 1 {flags}".split())
    many = flags[: flags.index(" --")]
    of_one = flags.split()[2].replace("--model", ".m file")
    assert result.code == 2
    assert many in result.err
    assert of_one in result.err
    assert not list(folder.glob("x.*"))


def test_rows_are_shared_not_copied(monkeypatch):
    made = []
    usual = runs.LoadedRows
    monkeypatch.setattr(
        runs, "LoadedRows", lambda *args: made.append(usual(*args)) or made[-1]
    )
    together(networks=20)
    assert len(made) == 1


class RankOfTwo(RankGroup):
    """A rank of two that hears what the other one has said; the first hears itself."""

    size = 2

    def __init__(self, other=None):
        self.said = []
        self._other = iter(other.said) if other else None

    def gather(self, value):
        self.said.append(value)
        if self._other is None:
            return [value, value]
        return [next(self._other), value]


@pytest.mark.parametrize("form", ["array", "words", "part"])
@pytest.mark.parametrize("name", [None, "x", "y", "weights", "groups", "times"])
def test_ranks_of_other_data_are_refused(form, name, folder):
    """However the data were read, and whatever of them differs."""

    def loaded(is_changed: bool) -> nn.Dataset:
        ds = data("binary", 40)
        if form != "array":
            is_other = is_changed and name == "x" and form == "words"
            words = ["abc"[k % 3 + (is_other and k == 9)] for k in range(40)]
            lines = [f"{k},{word},{k % 2}" for k, word in enumerate(words)]
            Path("rows.csv").write_text("\n".join(["a,b,y", *lines, ""]))
            ds = nn.load("rows.csv", target="y", task="binary")
        if form == "part":
            ds = ds.of_rows(np.arange(20) + 20 * (is_changed and name == "x"))
        for role in ("weights", "groups", "times"):
            setattr(ds, role, np.arange(ds.rows) % 5 + 1.0)
        ds.check()
        if is_changed and name == "x" and form == "array":
            ds.x[7, 1] += 1
        elif is_changed and name in ("y", "weights", "groups", "times"):
            values = getattr(ds, name).copy()
            values[3] = values[3] == 0
            setattr(ds, name, values)
        return ds

    engine = network("binary").engine
    first = RankOfTwo()
    runs.check_alike(first, {"seed": 1}, loaded(False), engine)
    second = RankOfTwo(first)
    if name is None:
        runs.check_alike(second, {"seed": 1}, loaded(True), engine)
        return
    with pytest.raises(UsageError, match="SHA-256 of --dataset: rank 1 has"):
        runs.check_alike(second, {"seed": 1}, loaded(True), engine)
    with pytest.raises(UsageError, match="--seed: rank 1 has 2, rank 0 has 1"):
        runs.check_alike(RankOfTwo(first), {"seed": 2}, loaded(True), engine)


def test_networks_apart_compute_on_the_first_device_and_siblings_where_it_was_decided(
    monkeypatch,
):
    given = {"threads": 3, "gpus": (1,), "distribute": "central"}
    asked = backends.Device(**given)
    net = nn.Network("3,1", "regression", dtype="tf32", **given)
    assert net.device == asked
    devices = [backends.Device(threads) for threads in (1, 2)]
    alone = SimpleNamespace(size=1, rank=0)
    monkeypatch.setattr(backends, "resolve", lambda *_, **__: "seq")
    monkeypatch.setattr(
        backends, "ranks_and_devices", lambda *_, **__: (alone, devices)
    )
    with pytest.raises(KeyError), net.apart() as (_, shared):
        assert shared == devices
        assert net.device == devices[0]
        raise KeyError
    assert net.device == asked
    monkeypatch.undo()
    sibling = net.sibling(4)
    assert (sibling.backend, sibling.device, sibling.seed) == ("seq", asked, 4)
    assert sibling.asked_dtype == "tf32"
