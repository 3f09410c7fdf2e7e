"""The folds and scores of rows in a model file: what is saved is what is loaded, and
nothing hostile gets through."""

import copy
import hashlib
import json
import pickle

import numpy as np
import pytest
import safetensors.numpy
from support.command_line import run, succeed, write_two_classes
from support.packs import data, network

import nn
from nn.files import model_file
from nn.nn.crossed import Crossed, fold_type, no_fold
from nn.test.out_of_fold import out_of_fold
from nn.utils import DataError

FOLDS = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(path, tensors, metadata) of a model of three folds, whose class c has one row,
    which no fold judges."""
    ds = data("multiclass", 90)
    ds.y[ds.y == 2] = 0
    ds.y[7] = 2
    net = network("multiclass")
    nn.train(
        net,
        ds,
        folds=FOLDS,
        epochs=2,
        validation="fold",
        holdout=0.0,
        calibrate="temperature",
    )
    path = tmp_path_factory.mktemp("crossed") / "m.bin"
    net.export(path)
    return path, *model_file.load(path)


def written(path, tensors, metadata):
    """Write what `save` would if it did not look at what it is given."""
    text = json.dumps(
        {**metadata, "sha256": "0" * 64}, sort_keys=True, separators=(",", ":")
    )
    content = safetensors.numpy.save(tensors, {"nn": text})
    digest = hashlib.sha256(content).hexdigest()
    path.write_bytes(content.replace(b"0" * 64, digest.encode()))
    return path


def test_folds_and_scores_come_back_bit_for_bit_from_files_and_copies(model):
    path, tensors, metadata = model
    net = nn.Network.of_file(path)
    assert tensors["rows.fold"].dtype == np.uint8
    assert tensors["rows.fold"].shape == (90,)
    assert tensors["rows.fold"][7] == 255
    assert np.flatnonzero(tensors["rows.fold"] == 255).tolist() == [7]
    assert tensors["rows.score"].dtype == np.float32
    assert tensors["rows.score"].shape == (89, 3)
    cases = (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net)))
    for copy_of_net in cases:
        assert np.array_equal(copy_of_net.crossed.fold, tensors["rows.fold"])
        assert np.array_equal(copy_of_net.crossed.scores, tensors["rows.score"])
        kept = {
            "temperatures": copy_of_net.crossed.temperatures,
            "thresholds": copy_of_net.crossed.thresholds,
        }
        assert kept == metadata["crossed"]
        assert len(kept["thresholds"]) == FOLDS
    net.export(path.with_name("again.bin"))
    assert path.with_name("again.bin").read_bytes() == path.read_bytes()


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


HOSTILE = {
    "a row less": lambda t, m: t.update({"rows.fold": t["rows.fold"][1:]}),
    "a row more": lambda t, m: t.update(
        {"rows.fold": np.append(t["rows.fold"], np.uint8(0))}
    ),
    "a score less": lambda t, m: t.update({"rows.score": t["rows.score"][1:]}),
    "other outputs": lambda t, m: t.update({"rows.score": t["rows.score"][:, :2]}),
    "flat scores": lambda t, m: t.update({"rows.score": t["rows.score"].reshape(-1)}),
    "a square of folds": lambda t, m: t.update(
        {"rows.fold": t["rows.fold"].reshape(9, 10)}
    ),
    "a fold beyond": lambda t, m: t.update(
        {"rows.fold": changed(t["rows.fold"], 3, FOLDS)}
    ),
    "signed folds": lambda t, m: t.update(
        {"rows.fold": t["rows.fold"].astype(np.int8)}
    ),
    "long folds": lambda t, m: t.update({"rows.fold": t["rows.fold"].astype(np.int64)}),
    "folds as numbers": lambda t, m: t.update(
        {"rows.fold": t["rows.fold"].astype(np.float32)}
    ),
    "wide scores": lambda t, m: t.update(
        {"rows.score": t["rows.score"].astype(np.float64)}
    ),
    "scores of bytes": lambda t, m: t.update(
        {"rows.score": t["rows.score"].astype(np.uint8)}
    ),
    "nan": lambda t, m: t.update(
        {"rows.score": changed(t["rows.score"], (5, 1), np.nan)}
    ),
    "infinite": lambda t, m: t.update(
        {"rows.score": changed(t["rows.score"], (0, 0), np.inf)}
    ),
    "no folds": lambda t, m: t.pop("rows.fold"),
    "no scores": lambda t, m: t.pop("rows.score"),
    "no facts": lambda t, m: m.pop("crossed"),
    "facts of nothing": lambda t, m: m.update(crossed={}),
    "no object": lambda t, m: m.update(crossed=[1, 2]),
    "null": lambda t, m: m.update(crossed=None),
    "a threshold less": lambda t, m: m["crossed"].update(
        thresholds=[0.5] * (FOLDS - 1)
    ),
    "no thresholds": lambda t, m: m["crossed"].update(thresholds=[], temperatures=[]),
    "a threshold of words": lambda t, m: m["crossed"].update(
        thresholds=["0.5"] * FOLDS
    ),
    "a temperature of 0": lambda t, m: m["crossed"].update(
        temperatures=[1.0, 0.0, 1.0]
    ),
    "a true temperature": lambda t, m: m["crossed"].update(temperatures=[True] * FOLDS),
    "other folds": lambda t, m: m["config"].update(folds=2),
    "no such setting": lambda t, m: m["config"].pop("folds"),
    "a member less": lambda t, m: m["members"].pop(),
    "another tensor of rows": lambda t, m: t.update({"rows.more": t["rows.score"]}),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_folds_and_scores_that_cannot_be_are_refused_in_one_line(model, tmp_path, how):
    _, tensors, metadata = model
    tensors = dict(tensors)
    metadata = copy.deepcopy(metadata)
    HOSTILE[how](tensors, metadata)
    path = written(tmp_path / "x.bin", tensors, metadata)
    with pytest.raises(DataError) as caught:
        nn.Network.of_file(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    done = run("--test", "--model", path)
    assert done.code == 65
    assert done.err.count("\n") == 1


def test_a_network_of_its_own_has_no_folds(tmp_path):
    net = network("binary")
    nn.train(net, data("binary"), epochs=1)
    net.export(tmp_path / "m.bin")
    tensors, metadata = model_file.load(tmp_path / "m.bin")
    assert "crossed" not in metadata
    cases = (
        {"rows.fold": np.zeros(3, np.uint8)},
        {"rows.score": np.zeros((3, 1), np.float32)},
    )
    for changes in cases:
        with pytest.raises(DataError, match="rows"):
            model_file.load(
                written(tmp_path / "x.bin", {**tensors, **changes}, metadata)
            )
    facts = {**metadata, "crossed": {"thresholds": [0.5], "temperatures": [1.0]}}
    changes = {
        "rows.fold": np.zeros(3, np.uint8),
        "rows.score": np.zeros((3, 1), np.float32),
    }
    with pytest.raises(DataError, match="folds"):
        model_file.load(written(tmp_path / "x.bin", {**tensors, **changes}, facts))


@pytest.mark.parametrize(
    "folds, name", [(2, "uint8"), (255, "uint8"), (256, "uint32"), (100_000, "uint32")]
)
def test_as_many_folds_as_there_may_be_have_numbers(folds, name):
    assert fold_type(folds) == name
    assert no_fold(fold_type(folds)) >= folds
    scores = np.zeros((folds, 1), np.float32)
    crossed = Crossed.of(folds + 2, np.arange(folds), np.arange(folds), scores, folds)
    assert np.array_equal(crossed.of_row, np.arange(folds))
    assert np.array_equal(crossed.rows, np.arange(folds))


@pytest.fixture
def earlier(folder):
    """Two models of one table, of which an earlier nn kept no folds of the first
    one."""
    write_two_classes(folder / "two.csv", 80)
    for name in ("old.bin", "new.bin"):
        flags = ["--folds", 3, "--epochs", 2, "--holdout", 0, "--model", name]
        succeed("--train", "--dataset", "two.csv", *flags)
    tensors, metadata = model_file.load(folder / "old.bin")
    del metadata["crossed"], tensors["rows.fold"], tensors["rows.score"]
    model_file.save(folder / "old.bin", tensors, metadata)
    return folder


@pytest.mark.parametrize(
    "use",
    [
        "test --model old.bin",
        "test --model old.bin --intervals --json",
        "test --model old.bin --report page.html",
        "compare old.bin,new.bin",
        "compare new.bin,old.bin",
        "explain --model old.bin",
    ],
)
def test_folds_are_not_dealt_again_for_a_model_that_keeps_none(earlier, use):
    done = run(f"--{use.split()[0]}", *use.split()[1:])
    assert done.code == 65
    assert done.err.splitlines()[-1].startswith("nn: old.bin")
    assert "train again" in done.err
    assert not (earlier / "page.html").exists()


def test_such_a_model_predicts_and_is_tested_on_given_rows_and_info_says_why(earlier):
    write_two_classes(earlier / "longer.csv", 90)
    predictions = [
        succeed("--predict", "--model", name, "--dataset", "longer.csv").out
        for name in ("old.bin", "new.bin")
    ]
    assert predictions[0] == predictions[1]
    test = ["--test", "--dataset", "longer.csv", "--json", "--model"]
    figures = [succeed(*test, name).json for name in ("old.bin", "new.bin")]
    for of_model in figures:
        # the drift of predictions needs scores that the old file has not
        assert of_model.pop("drift")["drifted"] == 0
    assert figures[0] == figures[1]
    assert "out_of_fold" not in predictions[0]
    assert (
        "figures of small tables were too good; train again"
        in succeed("--info", "--model", "old.bin").out
    )
    assert "80 of 80 rows, 3 folds" in succeed("--info", "--model", "new.bin").out


def test_other_rows_than_those_of_the_folds_are_refused(earlier):
    net = nn.Network.of_file("new.bin")
    with pytest.raises(
        DataError, match="found 79 rows, expected the 80 that the model was trained on"
    ):
        out_of_fold(net, nn.load("two.csv").of_rows(np.arange(79)))
    lines = (earlier / "two.csv").read_text().splitlines(keepends=True)
    text = "".join(lines[:-1])
    (earlier / "two.csv").write_text(text)
    done = run("--test", "--model", "new.bin", "--force")
    assert done.code == 65
    assert "found 79 rows, expected the 80" in done.err
