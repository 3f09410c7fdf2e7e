"""nn threshold: a model with another threshold, given or found by a rule on rows that
the model did not know."""

import numpy as np
import pytest
from support.command_line import run, succeed, write_three_classes

import nn
from nn.core.crossed import thresholds_by_others
from nn.core.thresholds import best_threshold, tempered


@pytest.fixture
def noisy(folder):
    """A table of two classes that overlap, and a model of folds and one with held-out
    rows."""
    rng = np.random.default_rng(0)
    lines = ["a,b,y"]
    for _ in range(400):
        label = int(rng.random() < 0.3)
        a, b = rng.normal(size=2) + label
        lines.append(f"{a:.4f},{b:.4f},{label}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    weighted = [
        "w," + lines[0],
        *(f"{1 + 4 * int(line[-1])},{line}" for line in lines[1:]),
    ]
    (folder / "w.csv").write_text("\n".join(weighted) + "\n")
    shared = "train", "t.csv", "--layers", "2,4,1", "--epochs", 10, "-q"
    succeed(*shared, "-m", "folds.bin", "--folds", 4, "--holdout", 0)
    succeed(*shared, "-m", "held.bin", "--holdout", 0.4)
    return folder


def test_a_score_becomes_the_threshold_of_the_model_and_of_its_folds(noisy):
    result = succeed("threshold", "folds.bin", 0.2, "-o", "new.bin", "--json").json
    assert result == {"model": "folds.bin", "output": "new.bin", "threshold": 0.2}
    net = nn.Model.load("new.bin").network
    assert net.threshold == 0.2
    assert net.config["threshold"] == 0.2
    assert net.crossed.thresholds == [0.2] * 4
    old = nn.Model.load("folds.bin").network
    assert old.threshold == 0.5
    ds = nn.load("t.csv")
    np.testing.assert_array_equal(net.predict(ds.x), old.predict(ds.x))
    classes = nn.Model.load("new.bin").predict("t.csv")
    expected = old.predict(ds.x)[:, 0] >= 0.2
    assert (classes.astype(str) == np.where(expected, "1", "0")).all()
    assert succeed("test", "new.bin", "--json").json["threshold"] == 0.2


def test_a_rule_finds_it_on_rows_that_the_folds_did_not_know(noisy):
    rule = "cost=1:5"
    result = succeed("threshold", "folds.bin", rule, "-o", "new.bin", "--json").json
    crossed = nn.Model.load("folds.bin").network.crossed
    y = nn.load("t.csv").y
    expected = best_threshold(rule, y, crossed.scores[:, 0])
    assert result["threshold"] == expected
    assert expected != 0.5
    assert result["rows"] == 400
    is_found = crossed.scores[:, 0] >= expected
    assert result["tp"] == int((is_found & (y == 1)).sum())
    assert result["fp"] == int((is_found & (y == 0)).sum())
    net = nn.Model.load("new.bin").network
    assert net.crossed.thresholds == thresholds_by_others(
        rule, y, crossed.scores, crossed.of_row, [1.0] * 4, expected
    )
    assert net.config["threshold"] == rule
    # the training with this rule keeps the same
    succeed(
        *("train", "t.csv", "--layers", "2,4,1", "--epochs", 10, "-m", "rule.bin"),
        *("--folds", 4, "--holdout", 0, "--threshold", rule, "-q"),
    )
    trained = nn.Model.load("rule.bin").network
    assert trained.threshold == net.threshold
    assert trained.crossed.thresholds == net.crossed.thresholds


@pytest.mark.parametrize("weighted", [False, True])
def test_a_rule_finds_the_thresholds_of_a_training_that_calibrates(noisy, weighted):
    """Each fold's by the temperature that the other folds tell, and by the weights of
    their rows."""
    rule = "f1"
    table = "w.csv" if weighted else "t.csv"
    shared = "train", table, "--layers", "2,4,1", "--epochs", 10, "-q"
    shared += "--folds", 4, "--holdout", 0, "--learning_rate", 0.02
    if weighted:
        shared += "--weight", "w"
    shared += "--calibrate", "temperature", "-m"
    succeed(*shared, "calibrated.bin")
    succeed(*shared, "rule.bin", "--threshold", rule)
    result = succeed("threshold", "calibrated.bin", rule, "-o", "new.bin", "--json")
    nets = [nn.Model.load(name).network for name in ("rule.bin", "new.bin")]
    trained, net = nets
    assert len({*net.crossed.temperatures}) == 4
    assert net.crossed.thresholds == trained.crossed.thresholds
    y = nn.load("t.csv").y
    weights = np.ones(400)
    if weighted:
        weights = 1.0 + 4 * y
    cuts = []
    for fold, temperature in enumerate(net.crossed.temperatures):
        others = net.crossed.of_row != fold
        scores = tempered(net.crossed.scores[others], temperature)
        cuts.append(best_threshold(rule, y[others], scores[:, 0], weights[others]))
    assert net.crossed.thresholds == cuts
    assert result.json["threshold"] == net.threshold
    scores = net.crossed.calibrated[:, 0]
    assert net.threshold == best_threshold(rule, y, scores, weights)
    is_found = scores >= net.threshold
    assert result.json["rows"] == 400
    assert result.json["tp"] == weights[is_found & (y == 1)].sum()
    assert result.json["fp"] == weights[is_found & (y == 0)].sum()


def test_a_rule_takes_held_out_rows_or_those_that_are_given(noisy):
    result = succeed("threshold", "held.bin", "f1", "-o", "new.bin", "--json").json
    assert result["rows"] == 160
    tested = succeed("test", "new.bin", "--json").json
    assert tested["threshold"] == result["threshold"]
    assert tested["tp"] == result["tp"]
    assert tested["f1"] == result["f1"]
    given = run("threshold", "held.bin", "f1", "t.csv", "-o", "other.bin", "--json")
    assert given.code == 0
    assert "was trained on 240 of these 400 rows" in given.err
    said = succeed("threshold", "held.bin", 0.25, "-o", "new.bin")
    assert said.out == ""
    assert said.err.endswith("new.bin: held.bin with the threshold 0.25\n")


def test_what_cannot_be_a_threshold_is_refused(noisy):
    assert run("threshold", "held.bin", 1.5, "-o", "new.bin").code == 2
    assert run("threshold", "held.bin", "f2", "-o", "new.bin").code == 2
    assert run("threshold", "held.bin", 0.3, "-o", "held.bin").code == 2
    assert run("threshold", "held.bin", 0.3, "-o", "new.onnx").code == 2
    refused = run("threshold", "held.bin", 0.3)
    usage = "nn threshold needs MODEL SCORE/RULE [DATA] -o NEW"
    assert refused.code == 2
    assert usage in refused.err
    write_three_classes(noisy / "three.csv")
    succeed(
        "train", "three.csv", "-m", "m.bin", "--layers", "auto,3", "--epochs", 1, "-q"
    )
    for value in (0.3, "f1"):
        refused = run("threshold", "m.bin", value, "-o", "new.bin")
        assert refused.code == 2
        assert "is for two classes" in refused.err
    assert not (noisy / "new.bin").exists()
    assert "nn threshold MODEL SCORE/RULE" in succeed("help", "threshold").out
    assert "nn threshold MODEL SCORE/RULE" in succeed("--help").out
