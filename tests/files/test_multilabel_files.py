"""Models of several yes/no targets as files: the model file, ONNX and C."""

import csv
import io

import numpy as np
import pytest
from support.c_models import Library
from support.command_line import ONE, run, succeed
from support.onnx_models import outputs

import nn
from nn.files import model_file
from nn.utils import DataError, UsageError


def write(path, rows: int = 80) -> None:
    """Write a table of two columns and two targets, the second one of words."""
    rng = np.random.default_rng(5)
    lines = ["a,b,p,q"]
    for a, b in rng.normal(size=(rows, 2)).round(3).tolist():
        lines.append(f"{a},{b},{a + b > 0:d},{['no', 'yes'][a > b / 2]}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def trained(folder):
    """The networks of a model of two targets, in m.bin."""
    write(folder / "t.csv")
    given = "--dataset", "t.csv", "--target", "p,q", "--epochs", 20, "-q"
    succeed(*ONE, *given, "--networks", 2, "--model", "m.bin")
    return nn.Model.load("m.bin").network


def test_predictions_have_a_class_and_a_score_for_each_target(trained):
    text = succeed("predict", "m.bin", "t.csv").out
    table = list(csv.DictReader(io.StringIO(text)))
    assert list(table[0])[:5] == [
        "row",
        "predicted p",
        "score p",
        "predicted q",
        "score q",
    ]
    assert list(table[0])[-2:] == ["true p", "true q"]
    scores = trained.predict(nn.load_for(trained, "t.csv").x)
    for row, (p, q) in zip(table, scores, strict=True):
        assert float(row["score q"]) == pytest.approx(q, abs=1e-6)
        assert row["predicted p"] == str(int(p >= 0.5))
        assert row["predicted q"] == ["no", "yes"][int(q >= 0.5)]


def test_an_onnx_file_gives_labels_and_scores_of_each_target(trained):
    nn.export(trained, "m.onnx")
    rows = nn.load_for(trained, "t.csv").x
    found = outputs("m.onnx", {"features": rows.astype(np.float64)})
    scores = trained.predict(rows)
    assert found["probabilities"] == pytest.approx(scores, abs=1e-6)
    assert (found["label"] == nn.Model(trained).predict(rows)).all()


def test_a_c_file_gives_the_score_of_each_target(trained, folder):
    library = Library.of(trained, folder)
    rows = nn.load_for(trained, "t.csv").x
    assert library.predict(rows) == pytest.approx(trained.predict(rows), abs=1e-6)
    assert "score q: yes from NN_THRESHOLD on, else no" in (folder / "m.c").read_text()


def test_labels_that_cannot_be_are_refused(trained, folder):
    tensors, metadata = model_file.load("m.bin")
    for labels in (
        [["0", "1"]],
        [["0", "1"], ["no"]],
        [["0", "0"], ["no", "yes"]],
        [[0, 1], ["no", "yes"]],
        {"p": ["0", "1"]},
    ):
        changed = {**metadata, "labels": labels}
        model_file._MODEL_FILE.save("h.bin", tensors, changed)
        with pytest.raises(DataError, match=r"^h\.bin: damaged model file: `labels`"):
            nn.Model.load("h.bin")
    del metadata["labels"]
    model_file._MODEL_FILE.save("h.bin", tensors, metadata)
    predicted = nn.Model.load("h.bin").predict(np.zeros((1, 2)))
    assert predicted.shape == (1, 2)
    assert predicted.dtype.kind == "i", "a model without names has numbers"


def test_what_several_labels_do_not_have_is_refused_in_one_line(trained):
    with pytest.raises(UsageError, match="a .m file knows no several yes/no targets"):
        nn.Network("2,2:sigmoid", "multilabel").export("m.m")
    for flags in (
        ["--threshold", "f1"],
        ["--calibrate", "temperature", "--validation", "0.2"],
        ["--class_weight", "balanced"],
        ["--positive", "yes"],
    ):
        given = "--dataset", "t.csv", "--target", "p,q", "--model", "n.bin"
        result = run(*ONE, *given, *flags)
        assert result.code == 2, flags
        assert flags[0] in result.err


def test_one_threshold_is_that_of_all_targets_and_stays_where_a_model_goes_on(trained):
    given = "--dataset", "t.csv", "--target", "p,q", "-q", "--threshold", 0.3
    succeed(*ONE, *given, "--folds", 3, "--model", "f.bin")
    told = succeed("test", "f.bin", "t.csv", "--json").json
    lower = succeed("test", "f.bin", "t.csv", "--json", "--threshold", 0.1).json
    assert (told["threshold"], lower["threshold"]) == (0.3, 0.1)
    assert lower["recall"] >= told["recall"]
    net = nn.Model.load("f.bin").network
    scores = net.predict(nn.load_for(net, "t.csv").x)
    predicted = nn.Model(net).predict(nn.load_for(net, "t.csv").x)
    assert (predicted[:, 1] == np.where(scores[:, 1] >= 0.3, "yes", "no")).all()
    nn.export(net, "f.onnx")
    rows = nn.load_for(net, "t.csv").x.astype(np.float64)
    found = outputs("f.onnx", {"features": rows})
    assert (found["label"] == predicted).all()
    succeed("train", "t.csv", "--init", "f.bin", "--epochs", 1, "--model", "g.bin")
    assert nn.Model.load("g.bin").network.threshold == 0.3


def test_a_level_is_refused_since_several_targets_have_no_sets(trained):
    result = run("predict", "m.bin", "t.csv", "--level", 0.9)
    assert result.code == 2
    assert "it has several yes/no targets or quantiles" in result.err
    assert "no sets of classes of several targets" in succeed("info", "m.bin").out


def test_a_y_of_other_numbers_is_no_multilabel():
    y = np.array([[0, 1], [2, 1], [1, 0]])
    ds = nn.Dataset(np.eye(3, 2), y, "multilabel")
    with pytest.raises(DataError, match="found more than 0 and 1"):
        nn.train(nn.Network.for_data(ds, "auto,2"), ds)


def test_what_columns_add_to_each_target_adds_up_to_its_logit(trained):
    rows = nn.load_for(trained, "t.csv").x[:20]
    explained = nn.Model(trained).explain(rows)
    assert explained.output_names == ["p", "q"]
    logits = explained.base_values + explained.values.sum(axis=1)
    scores = trained.predict(rows)
    assert 1 / (1 + np.exp(-logits)) == pytest.approx(scores, abs=1e-5)


def test_the_page_has_each_target_and_a_comparison_its_words(trained, folder):
    given = "--dataset", "t.csv", "--target", "p,q", "-q", "--folds", 3
    succeed(*ONE, *given, "--model", "f.bin")
    succeed("test", "f.bin", "t.csv", "--report", "page.html")
    page = (folder / "page.html").read_text()
    for told in ("mean ROC-AUC", "rows wholly right", "metrics by target", "p: area"):
        assert told in page, told
    assert ">nan<" not in page
    found = succeed("compare", "m.bin", "f.bin", "--dataset", "t.csv", "--json").json
    assert {"micro_f1", "hamming_loss"} <= found["metrics"].keys()
    for row in found["disagree"]:
        assert row["true"][0] in ("0", "1")
        assert row["true"][1] in ("no", "yes")
