"""Models of several yes/no targets as files: the model file, ONNX and C."""

import csv
import ctypes
import io
import math
import re
import shutil

import numpy as np
import pandas as pd
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


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a model of two targets in m.bin, and its data in t.csv."""
    folder = tmp_path_factory.mktemp("two")
    write(folder / "t.csv")
    given = "--dataset", folder / "t.csv", "--target", "p,q", "--epochs", 20, "-q"
    succeed(*ONE, *given, "--networks", 2, "--model", folder / "m.bin")
    return folder


@pytest.fixture
def trained(kept, folder):
    """The networks of the model."""
    shutil.copytree(kept, folder, dirs_exist_ok=True)
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
    for flags in (["--class_weight", "1,2,3"], ["--positive", "maybe"]):
        given = "--dataset", "t.csv", "--target", "p,q", "--model", "n.bin"
        result = run(*ONE, *given, *flags)
        assert result.code == 2, flags
        assert flags[0] in result.err


def test_predictions_and_metrics_are_about_the_class_that_is_asked_for(trained):
    given = "--dataset", "t.csv", "--target", "p,q", "-q"
    succeed(*ONE, *given, "--positive", "q=no", "--model", "n.bin")
    assert nn.Model.load("n.bin").network.labels == [["0", "1"], ["yes", "no"]]
    told = succeed("test", "n.bin", "t.csv", "--json").json["per_target"][1]
    with open("t.csv") as file:
        rows = [line.split(",")[3].strip() for line in file]
    assert told["tp"] + told["fn"] == rows.count("no")
    succeed("predict", "n.bin", "t.csv", "-o", "p.csv")
    with open("p.csv") as file:
        predicted = list(csv.DictReader(file))
    assert all(
        (float(row["score q"]) >= 0.5) == (row["predicted q"] == "no")
        for row in predicted
    )
    result = run(
        "train", "t.csv", "--init", "n.bin", "--positive", "q=yes", "-m", "o.bin"
    )
    assert result.code == 2
    assert "--positive q=yes: the model of --init has decided it" in result.err


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


def gaps(rows: int = 160, seed: int = 0):
    """A frame of two inputs and two targets, noisy and with gaps, the second of words;
    the truth as 0, 1 and nan."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(3)
    y = (x + rng.normal(size=(rows, 2)) > 0).astype(float)
    y[rng.random(rows) < 0.2, 0] = np.nan
    # a row without any target would leave
    y[(rng.random(rows) < 0.2) & (y[:, 0] >= 0), 1] = np.nan
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "p": y[:, 0]}).astype(
        {"p": "Int64"}
    )
    frame["q"] = pd.Series(["no", "yes", None])[
        np.where(y[:, 1] >= 0, y[:, 1], 2)
    ].array
    return frame, y


@pytest.fixture
def sure(folder):
    """A model of gaps whose rows four folds judged, in s.bin, and new rows in n.csv."""
    gaps()[0].to_csv("g.csv", index=False)
    gaps(90, 1)[0].to_csv("n.csv", index=False)
    given = "--dataset", "g.csv", "--target", "p,q", "--epochs", 8, "-q"
    succeed(*ONE, *given, "--folds", 4, "--holdout", 0, "--model", "s.bin")
    return nn.Model.load("s.bin")


def least_score(truth, scores, level: float) -> float:
    """Return the score that true classes have in a share of the rows: the (level (n +
    1))-th largest of them."""
    own = sorted(
        (s if y == 1 else 1 - s for y, s in zip(truth, scores, strict=True) if y == y),
        reverse=True,
    )
    return own[math.ceil(level * (len(own) + 1)) - 1]


def test_a_level_gives_a_set_of_each_target(sure):
    net = sure.network
    truth = gaps()[1]
    crossed = net.crossed.scores.astype(np.float64)
    scores = net.predict(nn.load_for(net, "n.csv").x).astype(np.float64)
    of_class = [sets.of_class for sets in net.conformal.labels]
    assert of_class == [[0, 0], [0, 0]], "few rows of a class"
    succeed("predict", "s.bin", "n.csv", "--level", 0.8, "-o", "p.csv")
    table = pd.read_csv("p.csv", dtype=str)
    sets = sure.predict_set("n.csv", 0.8)
    for k, (name, words) in enumerate({"p": "01", "q": ["no", "yes"]}.items()):
        least = least_score(truth[:, k], crossed[:, k], 0.8)
        for row, score in enumerate(scores[:, k]):
            both = [1 - score, score]
            expected = [
                word
                for word, one in zip(words, both, strict=True)
                if one >= least or one == max(both)
            ]
            assert table[f"set {name}"][row] == "|".join(expected)
            assert [*map(str, sets[row][k])] == expected
    assert {len(of_row[1]) for of_row in sets} == {1, 2}


def test_a_test_tells_how_many_rows_the_sets_of_each_target_hold(sure, folder):
    told = succeed("test", "s.bin", "n.csv", "--level", 0.8, "--json").json
    truth = gaps(90, 1)[1]
    sets = sure.predict_set("n.csv", 0.8)
    held = [[], []]
    for row, of_row in enumerate(sets):
        for k, words in enumerate(("01", ["no", "yes"])):
            if truth[row, k] == truth[row, k]:
                held[k].append(words[int(truth[row, k])] in of_row[k])
    shares = [np.mean(of_target) for of_target in held]
    assert [one["coverage"] for one in told["per_target"]] == pytest.approx(shares)
    assert told["coverage"] == pytest.approx(np.mean(held[0] + held[1]))
    widths = np.array([[len(one) for one in of_row] for of_row in sets])
    assert told["width"] == pytest.approx(widths.mean())
    known = succeed("test", "s.bin", "g.csv", "--json").json
    assert known["coverage"] == pytest.approx(0.9, abs=0.05), "of folds by the others"
    assert "sets of classes of predictions up to level" in succeed("info", "s.bin").out
    succeed("test", "s.bin", "n.csv", "--level", 0.8, "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert "sets of classes of q of level 0.8" in page
    assert ">nan" not in page


def test_exports_have_the_sets_of_each_target(sure, folder):
    rows = gaps(90, 1)[0][["a", "b"]].to_numpy()
    sure.export("s.onnx", level=0.8)
    found = outputs("s.onnx", {"features": rows})["set"]
    net = sure.network
    assert found.shape == (90, 2, 2)
    assert (found == net.conformal.sets(net.predict(rows), 0.8)).all()
    library = Library.of(net, folder)
    scores = library.predict(rows)
    assert scores == pytest.approx(net.predict(rows), abs=1e-6)
    for level in (0.5, 0.8, 0.95):
        sets = net.conformal.sets(scores, level)
        for row, of_row in zip(scores, sets, strict=True):
            found = np.full((2, 2), 7, np.int32)
            assert library.call("nn_set", row, ctypes.c_double(level), found) == 0
            assert (found == of_row).all()
    assert library.call("nn_set", row, ctypes.c_double(0.9999), found) == -1


def test_an_estimator_has_the_sets_of_several_labels():
    x = gaps()[0][["a", "b"]].to_numpy()
    y = np.nan_to_num(gaps()[1]).astype(int)
    network = nn.NetworkClassifier("auto,2", epochs=3, validation=0.4).fit(x, y)
    sets = network.predict_set(x, 0.8)
    assert sets.shape == (160, 2, 2)
    likeliest = network.predict_proba(x) > 0.5
    assert np.take_along_axis(sets, likeliest[..., None].astype(int), axis=2).all()


def test_sets_that_cannot_be_are_refused(sure):
    tensors, metadata = model_file.load("s.bin")
    first, second = metadata["conformal"]["labels"]
    for labels in (
        [],
        [first],
        [first, None],
        [first, {**second, "of_class": [0]}],
        [first, {**second, "of_class": [0, 0, 0]}],
        [first, {**second, "of_class": [0, 1]}],
        [first, {**second, "levels": []}],
        [first, {"labels": [second]}],
        {"p": first},
    ):
        changed = {**metadata, "conformal": {"labels": labels}}
        model_file._MODEL_FILE.save("h.bin", tensors, changed)
        with pytest.raises(
            DataError, match=r"^h\.bin: damaged model file: `conformal`"
        ):
            nn.Model.load("h.bin")
    changed = {**metadata, "conformal": first}
    model_file._MODEL_FILE.save("h.bin", tensors, changed)
    with pytest.raises(DataError, match="`conformal` is of no multilabel task"):
        nn.Model.load("h.bin")


def mean_log_loss(truth, scores, temperature: float) -> float:
    """Return the mean over what is known of -log of the true classes' probabilities,
    each of a logit that is divided."""
    losses = []
    for of_row, scores_of_row in zip(truth, scores.astype(np.float64), strict=True):
        for y, p in zip(of_row, scores_of_row, strict=True):
            if y == y:
                logit = math.log(p / (1 - p)) / temperature
                losses.append(math.log1p(math.exp(-logit if y else logit)))
    return sum(losses) / len(losses)


@pytest.fixture
def calibrated(sure, folder):
    """The network of gaps with a temperature, in c.bin."""
    given = "--dataset", "g.csv", "--target", "p,q", "--epochs", 60, "--holdout", 0
    more = "--folds", 4, "--model", "c.bin", "--learning_rate", 0.05
    more += "--layers", "auto,30,2", "--calibrate", "temperature"
    told = succeed(*ONE, *given, *more, "--json").json["calibration"]
    net = nn.Model.load("c.bin").network
    assert net.temperature == pytest.approx(told["temperature"])
    return net, told


def test_a_temperature_of_several_targets_has_the_least_loss_of_all(calibrated):
    net, told = calibrated
    truth = gaps()[1]
    scores = net.crossed.scores
    usual = mean_log_loss(truth, scores, 1)
    least = mean_log_loss(truth, scores, net.temperature)
    assert net.temperature > 1.2
    assert least < usual
    for near in (0.99, 1.01):
        assert least < mean_log_loss(truth, scores, near * net.temperature)
    assert told["log_loss"][1] < told["log_loss"][0]


def test_each_fold_has_the_temperature_of_the_others(calibrated):
    crossed = calibrated[0].crossed
    assert len({*crossed.temperatures}) == 4
    for row, scores in enumerate(crossed.scores.astype(np.float64)):
        temperature = crossed.temperatures[crossed.of_row[row]]
        for k, p in enumerate(scores):
            expected = 1 / (1 + ((1 - p) / p) ** (1 / temperature))
            assert crossed.calibrated[row, k] == pytest.approx(expected, abs=1e-6)


def test_exports_and_explanations_of_several_targets_have_the_temperature(
    calibrated, folder
):
    net = calibrated[0]
    rows = gaps(90, 1)[0][["a", "b"]].to_numpy()
    scores = net.predict(rows)
    members = np.mean([member.predict(rows) for member in net.members], axis=0)
    logits = np.log(members / (1 - members)) / net.temperature
    assert scores == pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-6)
    nn.export(net, "c.onnx")
    found = outputs("c.onnx", {"features": rows})["probabilities"]
    assert found == pytest.approx(scores, abs=1e-6)
    assert Library.of(net, folder).predict(rows) == pytest.approx(scores, abs=1e-6)
    explained = nn.Model(net).explain(rows[:10])
    logits = explained.base_values + explained.values.sum(axis=1)
    assert 1 / (1 + np.exp(-logits)) == pytest.approx(scores[:10], abs=1e-5)
    assert run("drift", "c.bin", "n.csv", "--json").code in (0, 3)


def f1(truth, scores, threshold: float) -> float:
    """Return F1 by counting the rows that have the target."""
    known = [(y, s >= threshold) for y, s in zip(truth, scores, strict=True) if y == y]
    hits = sum(y == 1 and taken for y, taken in known)
    return 2 * hits / (sum(y == 1 for y, _ in known) + sum(t for _, t in known))


@pytest.fixture
def ruled(sure, folder):
    """The model of gaps with a threshold of each target that f1 finds, in r.bin."""
    given = "--dataset", "g.csv", "--target", "p,q", "--epochs", 8, "--holdout", 0
    more = "--folds", 4, "--threshold", "f1", "--json", "--model", "r.bin"
    told = succeed(*ONE, *given, *more).json["threshold"]
    model = nn.Model.load("r.bin")
    assert model.network.threshold == told
    return model


def test_a_rule_finds_the_threshold_of_each_target(ruled):
    net = ruled.network
    crossed = net.crossed
    truth = gaps()[1]
    scores = crossed.scores.astype(np.float64)
    assert len({*net.threshold}) == 2
    for k, threshold in enumerate(net.threshold):
        best = max(f1(truth[:, k], scores[:, k], cut) for cut in scores[:, k])
        assert f1(truth[:, k], scores[:, k], threshold) == pytest.approx(best)
        for fold, of_fold in enumerate(crossed.thresholds):
            others = crossed.of_row != fold
            columns = truth[others, k], scores[others, k]
            best = max(f1(*columns, cut) for cut in columns[1])
            assert f1(*columns, of_fold[k]) == pytest.approx(best)


def test_predictions_tests_and_exports_have_the_threshold_of_each_target(ruled, folder):
    net = ruled.network
    rows = gaps(90, 1)[0][["a", "b"]].to_numpy()
    truth = gaps(90, 1)[1]
    scores = net.predict(rows).astype(np.float64)
    words = [["0", "1"], ["no", "yes"]]
    expected = [
        [words[k][int(score >= net.threshold[k])] for k, score in enumerate(row)]
        for row in scores
    ]
    assert ruled.predict(rows).astype(str).tolist() == expected
    succeed("predict", "r.bin", "n.csv", "-o", "p.csv")
    table = pd.read_csv("p.csv", dtype=str)
    assert table[["predicted p", "predicted q"]].to_numpy().tolist() == expected
    nn.export(net, "r.onnx")
    found = outputs("r.onnx", {"features": rows})["label"]
    assert found.tolist() == expected
    told = succeed("test", "r.bin", "n.csv", "--json").json
    assert told["threshold"] == net.threshold
    for k, figures in enumerate(told["per_target"]):
        of_target = truth[:, k], scores[:, k], net.threshold[k]
        assert figures["f1"] == pytest.approx(f1(*of_target))
    Library.of(net, folder)
    source = (folder / "m.c").read_text()
    assert f"yes from {net.threshold[1]:.9g} on, else no" in source
    cuts = re.search(r"#define NN_THRESHOLDS \{(.*)\}", source)[1].split(", ")
    assert [float(cut) for cut in cuts] == net.threshold
    assert float(re.search(r"#define NN_THRESHOLD (\S+)", source)[1]) == float(cuts[0])
    facts = succeed("info", "r.bin", "--verbose").out
    assert f"{net.threshold[0]:.6g}, {net.threshold[1]:.6g}" in facts
    assert "no or yes; from scores of 0.3" in succeed("info", "r.bin").out


def test_rows_of_folds_are_judged_by_the_thresholds_of_the_others(ruled, folder):
    net = ruled.network
    crossed = net.crossed
    truth = gaps()[1]
    scores = crossed.scores.astype(np.float64)
    told = succeed("test", "r.bin", "g.csv", "--json").json
    for k, figures in enumerate(told["per_target"]):
        cuts = [crossed.thresholds[fold][k] for fold in crossed.of_row]
        margins = [s - cut for s, cut in zip(scores[:, k], cuts, strict=True)]
        assert figures["f1"] == pytest.approx(f1(truth[:, k], margins, 0))
    succeed("test", "r.bin", "g.csv", "--report", "page.html")
    assert ">nan" not in (folder / "page.html").read_text()


def test_a_model_gets_the_thresholds_of_another_rule_and_keeps_them_further_on(ruled):
    net = ruled.network
    succeed("threshold", "s.bin", "f1", "-o", "o.bin")
    assert nn.Model.load("o.bin").network.threshold == net.threshold
    told = succeed("threshold", "r.bin", "recall=0.9", "-o", "o.bin").err
    found = nn.Model.load("o.bin").network
    truth = gaps()[1]
    scores = net.crossed.scores.astype(np.float64)
    for k, threshold in enumerate(found.threshold):
        taken = scores[truth[:, k] == 1, k] >= threshold
        assert taken.mean() >= 0.9
        assert f"{threshold:.6g}" in told
    succeed("threshold", "r.bin", 0.4, "-o", "o.bin")
    assert nn.Model.load("o.bin").network.threshold == 0.4
    further = "train", "g.csv", "--epochs", 1, "-q", "--init"
    succeed(*further, "r.bin", "--model", "i.bin")
    assert nn.Model.load("i.bin").network.threshold == net.threshold
    succeed(*further, "r.bin", "--threshold", 0.3, "--model", "i.bin")
    assert nn.Model.load("i.bin").network.threshold == 0.3


def test_folds_are_told_by_their_thresholds_which_count_calibrated_scores(sure):
    given = "--dataset", "g.csv", "--target", "p,q", "--epochs", 8, "--holdout", 0
    rules = "--threshold", "f1", "--calibrate", "temperature"
    told = succeed(*ONE, *given, *rules, "--folds", 4, "--json", "--model", "b.bin")
    crossed = nn.Model.load("b.bin").network.crossed
    truth = gaps()[1]
    scores = crossed.scores.astype(np.float64)
    for fold, figures in enumerate(told.json["folds"]):
        others = crossed.of_row != fold
        inverse = 1 / crossed.temperatures[fold]
        calibrated = 1 / (1 + ((1 - scores) / scores) ** inverse)
        for k, of_target in enumerate(figures["per_target"]):
            cut = crossed.thresholds[fold][k]
            columns = truth[others, k], calibrated[others, k]
            assert f1(*columns, cut) == max(f1(*columns, each) for each in columns[1])
            own = f1(truth[~others, k], calibrated[~others, k], cut)
            assert of_target["f1"] == pytest.approx(own)


def test_a_network_alone_keeps_its_thresholds_where_it_goes_on(sure):
    given = "g.csv", "--target", "p,q", "--epochs", 3, "--validation", 0.4, "-q"
    succeed("train", *given, "--threshold", "f1", "--model", "v.bin")
    succeed(
        "train", "g.csv", "--init", "v.bin", "--epochs", 1, "-q", "--model", "i.bin"
    )
    found = nn.Model.load("v.bin").network.threshold
    kept = nn.Model.load("i.bin").network.threshold
    assert len(found) == 2
    assert kept == found


def test_thresholds_that_cannot_be_are_refused(ruled):
    tensors, metadata = model_file.load("r.bin")
    crossed = metadata["crossed"]
    for changed in (
        {"threshold": [0.5]},
        {"threshold": [0.5, 0.5, 0.5]},
        {"threshold": [0.5, "0.5"]},
        {"threshold": []},
        {"crossed": {**crossed, "thresholds": [[0.5, 0.5, 0.5]] * 4}},
        {"crossed": {**crossed, "thresholds": [[0.5, 0.5]] * 3 + [0.5]}},
        {"crossed": {**crossed, "thresholds": [[0.5, None]] * 4}},
    ):
        model_file._MODEL_FILE.save("h.bin", tensors, {**metadata, **changed})
        with pytest.raises(DataError, match=r"^h\.bin: damaged model file"):
            nn.Model.load("h.bin")


def test_a_model_that_few_rows_judged_has_no_sets(trained):
    result = run("predict", "m.bin", "t.csv", "--level", 0.9)
    assert result.code == 2
    assert "--level: the model does not know how sure it is" in result.err


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
