"""Settings in a model file that are of another kind are refused in one line, in every
use."""

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from support.command_line import ONE, argv, run, succeed, write_two_classes

import nn
from nn.files import model_file
from nn.nn.facts import FACTS, USUAL_FACTS
from nn.utils import DataError


@pytest.mark.parametrize(
    "key, value",
    [
        ("threshold", "mse"),
        ("threshold", "f1=2"),
        ("threshold", None),
        ("threshold", [1]),
        ("threshold", "\0"),
        ("chosen", None),
        ("chosen", True),
        ("chosen", 1.5),
        ("chosen", [1]),
        ("chosen", "layers"),
        ("reference", 3),
        ("reference", "yes"),
        ("window", 0),
        ("window", -3),
    ],
)
def test_a_setting_of_another_kind_is_refused_in_every_use(folder, key, value):
    write_two_classes(folder / "two.csv")
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, "-q")
    tensors, metadata = model_file.load("m.bin")
    config = {**metadata["config"], key: value}
    model_file._MODEL_FILE.save("h.bin", tensors, {**metadata, "config": config})
    uses = (
        "info h.bin",
        "test h.bin",
        "predict h.bin two.csv",
        "test h.bin two.csv --report r.html",
    )
    uses += (
        "explain h.bin two.csv",
        "compare h.bin m.bin",
        "export h.bin -o h.onnx",
        "plot h.bin -o pictures",
    )
    for use in uses:
        result = run(*use.split())
        assert result.code == 65, use
        assert result.out == "", use
        assert result.err.count("\n") == 1, use
        assert result.err.startswith("nn: h.bin: damaged model file: `config` is "), use


@pytest.mark.parametrize("rule", [0.3, "f1", "fbeta=2", "cost=1:5"])
def test_settings_of_trainings_are_read(folder, rule):
    write_two_classes(folder / "two.csv")
    flags = "--validation", "0.2", "--threshold", rule, "--epochs", 1, "-q"
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", *flags)
    succeed("test", "m.bin", "two.csv")


@pytest.mark.parametrize(
    "key, value",
    [
        ("task", "multiclass"),
        ("columns", ["b", "a"]),
        ("columns", None),
        ("columns", ["a"]),
        ("classes", ["1", "0"]),
        ("classes", None),
        ("classes", ["0"]),
        ("targets", ["z"]),
        ("dtype", "float64"),
        ("threshold", "half"),
        ("medians", [1.0]),
        ("number_type", "float16"),
        ("encoding", {}),
        ("layers", "3,1:sigmoid"),
        ("loss", "mse"),
        ("gap_words", ["x"]),
        ("code_page", "latin-1"),
        ("number_type", "float64"),
        ("label_type", "float"),
        ("pictures", {"range": 255, "shape": None, "alpha": "white"}),
        ("target_scaling", []),
        ("scaling", None),
    ],
)
def test_a_member_of_another_task_or_other_columns_is_refused(folder, key, value):
    write_two_classes(folder / "two.csv")
    succeed(
        *argv("train two.csv --networks 2 --layers 2,1 --model m.bin --epochs 1 -q")
    )
    tensors, metadata = model_file.load("m.bin")
    member, second = metadata["members"]
    members = [member, {**second, key: value}]
    model_file._MODEL_FILE.save("h.bin", tensors, {**metadata, "members": members})
    for use in "info h.bin", "predict h.bin two.csv", "export h.bin -o h.onnx":
        result = run(*use.split())
        assert result.code == 65, use
        assert result.out == "", use
        assert result.err.count("\n") == 1, use
        assert result.err.startswith("nn: h.bin: damaged model file: "), use


def test_a_member_that_reads_words_as_numbers_is_refused(folder):
    """Also one without an encoding; a member to which yes and no are a category reads
    the same words."""
    rows = []
    for k in range(60):
        rows.append(
            f"{['yes', 'no'][k % 2]},{['S', 'M', 'L'][k % 3]},{k % 7},{k % 5 > 2:d}"
        )
    text = "\n".join(["truth,size,x,y", *rows])
    (folder / "t.csv").write_text(text)
    flags = (
        *argv("--layers auto,1 --networks 2 --ordered"),
        "size=S<M<L",
        *argv("--epochs 1 -q"),
    )
    succeed("train", "t.csv", "--model", "m.bin", *flags)
    tensors, metadata = model_file.load("m.bin")
    member, second = metadata["members"]
    columns = metadata["encoding"]["columns"]
    number = {**columns[2], "kind": "number"}
    other_order = {**columns[1], "order": ["L", "M", "S"]}
    variants = (
        [number, *columns[1:]],
        [columns[0], other_order, columns[2]],
        [columns[0], number, columns[2]],
    )
    for changed in variants:
        encoding = {**metadata["encoding"], "columns": changed}
        members = [member, {**second, "encoding": encoding}]
        model_file._MODEL_FILE.save("h.bin", tensors, {**metadata, "members": members})
        for use in (
            "info h.bin",
            "predict h.bin t.csv",
            "export h.bin -o h.onnx",
            "export h.bin -o h.c",
        ):
            result = run(*use.split())
            assert result.code == 65, use
            assert result.out == "", use
            assert result.err.count("\n") == 1, use
            assert "member 1 has another `encoding` than the model" in result.err, use


@pytest.mark.parametrize(
    "key",
    [
        "chosen",
        "table",
        "candidates",
        "left_out",
        "networks",
        "folds",
        "effort",
        "vary",
    ],
)
def test_printed_settings_of_another_kind_are_refused_or_passed_over(folder, key):
    """As `nn info --json` prints them for a stranger's model, given to a training by
    --config."""
    write_two_classes(folder / "two.csv")
    cases = (-1, True, 1.5, "x", {"a": 1}, [[1]], [None], 10**400)
    for value in cases:
        settings = {"layers": "2,1", "epochs": 1, key: value}
        text = json.dumps({"config": settings, "dataset": {"path": "two.csv"}})
        (folder / "c.json").write_text(text)
        result = run("train", "--config", "c.json", "--model", "m.bin", "-q")
        assert result.code in (0, 2), (value, result.err)
        assert result.code == 0 or result.err.splitlines()[-1].startswith("nn: "), (
            value,
            result.err,
        )
        assert "internal error" not in result.err


# ---------------------------------------------------------------- facts of other kinds

PROFILE = {
    "kind": "number",
    "low": 0.0,
    "high": 1.0,
    "edges": [],
    "counts": [1, 0, 2, 0],
}
GOOD_FIGURES = {"rows": 9, "by": "folds", "metrics": {"roc_auc": 0.9}, "intervals": {}}
HASHES = {"data": None, "rows": 9, "wide": [], "hashes": ""}
# each fact of a model with two columns, a and b, and two classes -> values that it
# cannot have
ANCESTOR = {"data": "0" * 64, "holdout": 0.0, "split_seed": None}
HOSTILE = {
    "columns": ["a", ["a"], [1, 2], {}, ["a", "b", "c"], ["a", "\ud800"]],
    "targets": ["y", [1], {}, [], ["y", "z"]],
    "classes": ["01", [0, 1], {}, [], ["0", "1", "2"], ["\ud800", "1"]],
    "threshold": [None, "half", True, [0.5], {}, 10**400],
    "holdout": [None, "0.1", True, -0.1, 1, []],
    "dataset": [
        "t.csv",
        [],
        {},
        {"path": 1, "sha256": None},
        {"path": "a\0b", "sha256": None},
    ],
    "history": [
        None,
        [],
        {},
        {"loss": [1.0]},
        {"loss": ["a"], "val_loss": None},
        {"loss": None, "val_loss": None},
    ],
    "config": [
        None,
        [],
        "target",
        {"target": {}},
        {"holdout": 1},
        {"folds": 0},
        {"table": {"other": 1}},
        {"table": {"exposure": [3]}},
    ],
    "temperature": [None, 0, -1.0, "1", [1.0], True],
    "scaling": [
        None,
        "none",
        [],
        {"kind": "none"},
        {"kind": "no", "shift": [], "scale": []},
        {"kind": "standardization", "shift": [1.0], "scale": [1.0]},
        {"kind": "standardization", "shift": [1.0, 2.0], "scale": [1.0]},
        {"kind": "standardization", "shift": [1.0, 2.0], "scale": [1.0, -1.0]},
    ],
    "target_scaling": [
        [],
        {},
        "none",
        {"kind": "standardization", "shift": [1.0, 2.0], "scale": [1.0, 1.0]},
        {"kind": "standardization", "shift": [1.0], "scale": [1.0], "low": [2.0]},
        {
            "kind": "standardization",
            "shift": [1.0],
            "scale": [1.0],
            "low": [2.0],
            "high": [1.0],
        },
    ],
    "medians": [None, "12", [1.0], [1.0, "2"], [1.0, 2.0, 3.0], {}],
    "label_type": [None, "complex", 1, ["int"], "bool"],
    # the model is of one target
    "labels": [None, {}, "01", [["0"]], [["0", "0"]], [[0, 1]], [["0", "1"]]],
    "gap_words": [None, "NA", [1], {}, ["\ud800"]],
    "code_page": [None, "utf-8", 1252, []],
    "pictures": [
        None,
        [],
        {},
        {"range": 7, "shape": None, "alpha": "white"},
        {"range": 255, "shape": [1, 2], "alpha": "white"},
        {"range": 255, "shape": [1, 2, 3], "alpha": "white"},
        {"range": True, "shape": None, "alpha": "white"},
        {"range": 255, "shape": None, "alpha": 7},
    ],
    "crossed": [
        None,
        [],
        {},
        {"temperatures": [], "thresholds": []},
        {"temperatures": [0.0], "thresholds": [0.5]},
        {"temperatures": [1.0], "thresholds": [0.5]},
        {"temperatures": [1.0], "thresholds": [0.5, 0.5]},
    ],
    "conformal": [
        None,
        [],
        {},
        {"levels": [0.5], "targets": []},
        {"levels": [0.5], "least": [[0.5]], "of_class": [0]},
    ],
    "number_type": [None, "float16", 32, []],
    "encoding": [None, [], "columns", 1],
    "ancestors": [None, {}, "m.bin", [1], [], [{}], [ANCESTOR] * 100],
    "row_hashes": [
        None,
        [],
        {},
        {**HASHES, "rows": 0},
        {**HASHES, "hashes": "é"},
        {**HASHES, "wide": [-1]},
    ],
    "profiles": [
        None,
        {},
        [],
        [PROFILE],
        [PROFILE, {**PROFILE, "low": 2.0}],
        [PROFILE, {"kind": "words", "words": [], "counts": [1, 0, 0]}],
        [PROFILE, {"kind": "words", "words": ["\ud800"], "counts": [1, 0, 0, 0]}],
    ],
    "weightless_rows": [None, -1, 1.5, "2", True, []],
    "unused": [None, {}, ["a"], [["a"]], [["a", "b", "c"]], [["a", 1]], "ab"],
    "judged": [
        None,
        [],
        {},
        {**GOOD_FIGURES, "rows": 0},
        {**GOOD_FIGURES, "by": "guess"},
        {**GOOD_FIGURES, "metrics": {"beauty": 1.0}},
        {**GOOD_FIGURES, "metrics": {"roc_auc": "high"}},
        {**GOOD_FIGURES, "intervals": {"roc_auc": [0.5]}},
    ],
}


def test_each_fact_of_a_model_has_hostile_values():
    assert HOSTILE.keys() == {*FACTS}


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """The path of a file, and the tensors and metadata of a model."""
    path = tmp_path_factory.mktemp("facts") / "h.bin"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    y = (x[:, 0] > 0).astype(int)
    ds = nn.load(x, y=y)
    net = nn.Network.for_data(ds, "2,1")
    nn.train(net, ds, epochs=1)
    net.columns = ["a", "b"]
    net.export(path)
    return path, *model_file.load(path)


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_of_another_kind_is_refused_in_one_line(facts, name):
    path, tensors, metadata = facts
    for value in HOSTILE.get(name, []):
        model_file._MODEL_FILE.save(path, tensors, {**metadata, name: value})
        with pytest.raises(DataError) as refused:
            nn.Model.load(path)
        assert str(refused.value).startswith(f"{path}: damaged model file: "), value
        assert "\n" not in str(refused.value)
    missing = {key: value for key, value in metadata.items() if key != name}
    model_file._MODEL_FILE.save(path, tensors, missing)
    if name not in USUAL_FACTS:
        with pytest.raises(DataError, match=f"`{name}` is missing"):
            nn.Model.load(path)
    else:
        net = nn.Model.load(path).network
        assert getattr(net, name) == USUAL_FACTS[name]


def test_what_a_network_knows_is_one_record_that_nobody_changes(facts):
    """Its fields are attributes of the network; a changed one is another record."""
    path, *_ = facts
    net = nn.Network.load(path)
    before = net.facts
    assert {name: getattr(net, name) for name in FACTS} == vars(before)
    with pytest.raises(FrozenInstanceError):
        before.threshold = 0.25
    net.threshold = 0.25
    assert net.facts.threshold == 0.25
    assert before.threshold == 0.5
