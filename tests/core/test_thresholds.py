"""Thresholds by rules against a search over all cut-offs; temperatures against SciPy;
both kept and used."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from support.command_line import (
    ONE,
    argv,
    run,
    succeed,
    write_numbers,
    write_three_classes,
)
from support.figures import log_loss

import nn
from nn.core.metrics import confusion_counts, decide, metric, precision, recall
from nn.core.thresholds import best_temperature, best_threshold, logits_of, tempered
from nn.nn_aux import THRESHOLD_RULES
from nn.settings.values import threshold_rules
from nn.train.decision import JudgedRows, decide_by, rows_judged
from nn.train.options import options_of
from nn.utils import DataError, NnError, UsageError


def fbeta_of(counts, beta):
    part = (1 + beta**2) * counts.tp
    whole = part + beta**2 * counts.fn + counts.fp
    if whole:
        return part / whole
    return 0.0


GOALS = {  # rule -> (what is to be as large as possible, which cut-offs are allowed)
    "f1": (lambda c: fbeta_of(c, 1), lambda c: True),
    "fbeta=2": (lambda c: fbeta_of(c, 2), lambda c: True),
    "fbeta=0.5": (lambda c: fbeta_of(c, 0.5), lambda c: True),
    "precision=0.3": (recall, lambda c: precision(c) >= 0.3 and c.tp + c.fp > 0),
    "precision=0.5": (recall, lambda c: precision(c) >= 0.5 and c.tp + c.fp > 0),
    "recall=0.5": (precision, lambda c: recall(c) >= 0.5),
    "recall=0.8": (precision, lambda c: recall(c) >= 0.8),
    "recall=1": (precision, lambda c: recall(c) >= 1),
    "cost=1:5": (lambda c: -(c.fp + 5 * c.fn), lambda c: True),
    "cost=3:1": (lambda c: -(3 * c.fp + c.fn), lambda c: True),
    "cost=0:1": (lambda c: -c.fn, lambda c: True),
}


def check_best(rule, truth, scores, weights=None):
    """The threshold is as good as the best cut-off, and it is the highest of those as
    good. Cut-offs: each distinct score as threshold, and one above all."""
    goal, allowed = GOALS[rule]
    distinct = np.unique(scores.astype(np.float64))
    thresholds = [np.inf, *distinct[::-1]]
    fitting = [
        c
        for t in thresholds
        if allowed(c := confusion_counts(truth, decide(scores, t), weights))
    ]
    if not fitting:
        with pytest.raises(UsageError):
            best_threshold(rule, truth, scores, weights)
        return
    threshold = best_threshold(rule, truth, scores, weights)
    # the first of equals
    predicted = decide(scores, threshold)
    assert confusion_counts(truth, predicted, weights) == max(fitting, key=goal)


a_row = st.tuples(
    st.integers(0, 1),
    st.integers(-3, 3) | st.floats(-10, 10, width=32),
    st.integers(0, 3),
)
some_rows = st.lists(a_row, min_size=1, max_size=40).filter(
    lambda rows: any(y and weight for y, _, weight in rows)
)


def test_every_rule_has_a_goal():
    assert {rule.partition("=")[0] for rule in GOALS} == set(THRESHOLD_RULES)


@pytest.mark.slow
@pytest.mark.parametrize("rule", GOALS)
@given(rows=some_rows, weighted=st.booleans())
def test_a_rule_finds_what_a_search_over_all_cut_offs_finds(rule, rows, weighted):
    labels, scores, weights = map(np.array, zip(*rows, strict=True))
    if weighted:
        check_best(rule, labels, scores.astype(np.float64), weights)
    elif labels.any():
        check_best(rule, labels, scores.astype(np.float32))


@pytest.mark.parametrize("rule", GOALS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_rule_takes_a_cut_off_that_just_fits(rule, weighted):
    """Rows so few that shares of a half come often."""
    rng = np.random.default_rng(0)
    for rows in range(2, 9):
        for _ in range(8):
            truth = rng.integers(0, 2, rows)
            truth[0] = 1
            scores = rng.integers(0, 5, rows) / 4
            weights = rng.integers(1, 3, rows) if weighted else None
            check_best(rule, truth, scores, weights)


def test_the_threshold_lies_half_way_to_the_next_lower_score():
    truth = np.array([0, 0, 1, 1])
    scores = np.array([0.1, 0.2, 0.6, 0.9])
    assert best_threshold("f1", truth, scores) == pytest.approx(0.4)
    # precision is 1 from both: the higher
    assert best_threshold("recall=0.5", truth, scores) == pytest.approx(0.75)
    # all rows: nothing is lower
    assert best_threshold("fbeta=2", np.array([1, 1]), scores[:2]) == 0.1
    assert best_threshold("cost=1:0", truth, scores) > 0.9  # none
    # neighbours: nothing lies between them
    low = 0.5
    high = np.nextafter(0.5, 1)
    threshold = best_threshold("f1", np.array([0, 1]), np.array([low, high]))
    assert threshold == high


@pytest.mark.parametrize("rule", GOALS)
def test_without_numbers_or_a_positive_row_there_is_nothing_to_choose(rule):
    """Rows without a number are of class 1 from no cut-off on, and would be silently
    missed."""
    scores = np.array([0.1, np.nan, 0.9])
    truth = np.array([0, 1, 1])
    with pytest.raises(
        DataError, match=f"--threshold {rule}: found nan among the scores"
    ):
        best_threshold(rule, truth, scores)
    truth = np.zeros(3, int)
    with pytest.raises(
        DataError, match=f"--threshold {rule}: no row to choose it by is of class 1"
    ):
        best_threshold(rule, truth, np.arange(3.0))


@pytest.mark.parametrize("rule", [{"threshold": "f1"}, {"calibrate": "temperature"}])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_network_whose_output_is_not_finite_decides_nothing(rule, value):
    net = nn.Network("1,1", "binary")
    ds = nn.Dataset(np.zeros((4, 1)), np.array([0, 1, 0, 1]), "binary", ["a", "b"])
    scores = np.array([[0.1], [0.2], [value], [0.4]], np.float32)
    options = options_of(net, ds, rule)
    with pytest.raises(NnError, match="not finite for 1 of the 4 rows"):
        decide_by(net, options, JudgedRows(ds.y, scores, None, None))
    assert net.threshold == 0.5
    assert net.temperature == 1


def test_a_precision_that_no_cut_off_reaches_is_refused_with_the_best_one():
    truth = np.array([1, 0, 1, 0])
    scores = np.array([0.9, 0.95, 0.8, 0.1])
    message = "^--threshold precision=0.9: no cut-off reaches it, the best has precision 0.6667; ask for at most that$"
    with pytest.raises(UsageError, match=message):
        best_threshold("precision=0.9", truth, scores)
    assert best_threshold("precision=0.66", truth, scores) == pytest.approx(0.45)


BAD_RULES = [
    "f2",
    "fbeta",
    "fbeta=0",
    "fbeta=x",
    "precision=0",
    "precision=1.1",
    "recall",
    "f1=1",
    "cost=1",
    "cost=0:0",
    "cost=-1:1",
    "cost=1:2:3",
    "fbeta=inf",
    "nan",
    "inf",
    "",
]


@pytest.mark.parametrize("text", BAD_RULES)
def test_what_is_no_rule_is_refused_everywhere(two, text):
    message = f"expected a finite number, {threshold_rules()}"
    if text:
        result = run(
            *ONE, "--dataset", "two.csv", "--model", "m.bin", f"--threshold={text}"
        )
        assert result.code == 2
        assert f"--threshold {text}: {message}" in result.err
    net = nn.Network("2,1", "binary")
    with pytest.raises(UsageError, match=f"--threshold {text}: "):
        nn.train(net, nn.load("two.csv"), threshold=text)


def two_classes(rng, rows=400, sharpness=3.0):
    """Truth, and scores (rows, 1) whose logits are `sharpness` times too large."""
    logits = rng.normal(size=(rows, 1)) * 2
    draws = rng.random(rows)
    truth = (draws < 1 / (1 + np.exp(-logits[:, 0]))).astype(np.int32)
    exponentials = np.exp(-sharpness * logits)
    return truth, 1 / (1 + exponentials)


def several_classes(rng, rows=400, sharpness=0.4):
    logits = rng.normal(size=(rows, 4)) * 2
    total = np.exp(logits).sum(axis=1, keepdims=True)
    shares = np.exp(logits) / total
    draws = rng.random((rows, 1))
    sums = shares.cumsum(axis=1)
    total = (draws > sums).sum(axis=1)
    truth = total.clip(0, 3)
    flat = np.exp(sharpness * logits)
    return truth, flat / flat.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make, about", [(two_classes, 3.0), (several_classes, 0.4)])
def test_the_temperature_has_the_least_log_loss_by_scipy(make, about, weighted):
    """SciPy's search ends within 1e-8 of its minimum; around it the loss is flat to
    1e-14."""
    rng = np.random.default_rng(0)
    truth, scores = make(rng)
    if weighted:
        weights = rng.random(len(truth))
    else:
        weights = None
    temperature = best_temperature(truth, scores, weights)

    def loss(log_temperature):
        exponentials = np.exp(log_temperature)
        return log_loss(truth, tempered(scores, exponentials), weights)

    judge = minimize_scalar(loss, bracket=(-1, 1), tol=1e-10)
    logarithms = np.log(temperature)
    assert logarithms == pytest.approx(judge.x, abs=1e-6)
    assert temperature == pytest.approx(about, rel=0.3)
    assert loss(np.log(temperature)) < loss(0)


def test_several_targets_have_the_temperature_of_their_known_values_by_scipy():
    """One for all; a row's weight counts once for each target that it has."""
    rng = np.random.default_rng(1)
    columns = [two_classes(rng, sharpness=sharpness) for sharpness in (2.0, 4.0)]
    truth = np.stack([of_rows for of_rows, _ in columns], axis=1).astype(float)
    scores = np.hstack([of_rows for _, of_rows in columns])
    weights = np.where(rng.random(len(truth)) < 0.5, 0.1, 3.0)
    truth[rng.random(truth.shape) < 0.3] = np.nan
    temperature = best_temperature(truth, scores, weights)

    def loss(log_temperature):
        pulled = tempered(scores.reshape(-1, 1), np.exp(log_temperature))
        known = ~np.isnan(truth.reshape(-1))
        return log_loss(
            truth.reshape(-1)[known], pulled[known, 0], np.repeat(weights, 2)[known]
        )

    judge = minimize_scalar(loss, bracket=(-1, 1), tol=1e-10)
    assert np.log(temperature) == pytest.approx(judge.x, abs=1e-6)


def test_right_probabilities_have_temperature_1_and_rows_all_right_or_wrong_the_ends():
    rng = np.random.default_rng(2)
    truth, scores = two_classes(rng, rows=200_000, sharpness=1.0)
    assert best_temperature(truth, scores) == pytest.approx(1, abs=0.02)
    truth = np.array([0, 1])
    scores = np.array([[0.2], [0.9]])
    assert [best_temperature(y, scores) for y in (truth, 1 - truth)] == pytest.approx(
        [1 / 64, 64]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_temperature_divides_the_logits(dtype):
    scores = np.array([[0.0], [1e-30], [0.2], [0.5], [1 - 1e-6], [1.0]], dtype)
    halved = tempered(scores, 2.0)
    assert halved.dtype == dtype
    assert halved.shape == scores.shape
    assert logits_of(halved)[1:5] == pytest.approx(logits_of(scores)[1:5] / 2, rel=1e-3)
    assert np.isfinite(halved).all()
    steps = np.diff(halved[:, 0])
    assert (steps > 0).all()
    shares = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]], dtype)
    halved = tempered(shares, 2.0)
    total = np.sqrt(shares[0]).sum()
    expected = np.sqrt(shares[0]) / total
    assert halved[0] == pytest.approx(expected, rel=1e-6)
    assert halved.sum(axis=1) == pytest.approx(1)
    assert halved[1].argmax() == 0


@pytest.fixture
def two(folder):
    """Overlapping classes: 200 rows, a third of class 1."""
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 3 == 0
    draws = rng.normal(size=(200, 2))
    x = draws + truth[:, None]
    lines = [f"{a:.6f},{b:.6f},{int(t)}" for (a, b), t in zip(x, truth, strict=True)]
    text = "\n".join(["a,b,y", *lines])
    (folder / "two.csv").write_text(text + "\n")
    return folder


def train(*flags):
    return run(
        *ONE, *argv("--dataset two.csv --model m.bin --epochs 5"), *flags, "--json"
    )


@pytest.mark.parametrize(
    "rule", ["f1", "fbeta=2", "precision=0.6", "recall=0.9", "cost=1:3"]
)
@pytest.mark.parametrize("holdout", [0, 0.5])
def test_the_threshold_of_a_rule_is_chosen_by_training_rows_kept_and_used(
    two, rule, holdout
):
    """The held-out rows are for the test."""
    done = train("--threshold", rule, "--holdout", holdout)
    assert done.code == 0
    assert f"--threshold {rule}: chosen on the training rows" in done.err
    net = nn.Network.load("m.bin")
    ds = nn.load("two.csv")
    rows = nn.ds.split_rows(ds, holdout, 0, 0).training
    predictions = net.predict(ds.x[rows])
    scores = predictions[:, 0]
    truth = ds.y[rows]
    best = best_threshold(rule, truth, scores)
    assert net.threshold == done.json["threshold"] == best
    assert net.config["threshold"] == rule
    threshold = succeed(
        "--test", "--model", "m.bin", "--dataset", "two.csv", "--json"
    ).json["threshold"]
    assert threshold == best
    output = succeed("--predict", "--model", "m.bin", "--dataset", "two.csv", "-q")
    lines = output.out.splitlines()[1:]
    predicted = [line.split(",")[1] for line in lines]
    predictions = net.predict(ds.x).astype(np.float64)
    expected = (predictions >= best).sum()
    assert predicted.count("1") == expected


def test_the_default_leaves_the_model_as_is_and_a_rule_changes_only_the_threshold(two):
    models = []
    nets = []
    for flags in (
        (),
        ("--threshold", 0.5),
        ("--calibrate", "none"),
        ("--threshold", "f1"),
    ):
        train(*flags)
        models.append((two / "m.bin").read_bytes())
        nets.append(nn.Network.load("m.bin"))
    expected = models[:1] * 3
    assert models[:3] == expected
    plain, by_rule = nets[2:]
    np.testing.assert_equal(by_rule.parameters(), plain.parameters())
    differing = {
        name
        for name, value in plain.metadata().items()
        if by_rule.metadata()[name] != value
    }
    assert differing == {"threshold", "config"}


@pytest.mark.parametrize("mode", ["--test", "--predict"])
def test_rows_that_are_judged_do_not_choose_the_threshold(two, mode):
    train()
    result = run(mode, "--model", "m.bin", "--dataset", "two.csv", "--threshold", "f1")
    assert result.code == 2
    assert result.out == ""
    assert (
        "--threshold f1: a rule is for --train, which keeps the number that it finds in the model"
        in result.err
    )
    with pytest.raises(UsageError, match="a rule is for --train"):
        nn.test(nn.Network.load("m.bin"), nn.load("two.csv"), threshold="f1")


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            ["--calibrate", "temperature"],
            "--calibrate temperature: needs validation rows",
        ),
        (
            ["--reference", "--calibrate", "temperature"],
            "--calibrate temperature: --reference has no such thing",
        ),
        (
            ["--reference", "--threshold", "f1"],
            "--threshold f1: --reference takes a number only",
        ),
        (
            ["--loss", "mse", "--layers", "2,1:tanh", "--calibrate", "temperature"],
            "needs class probabilities",
        ),
        (
            ["--calibrate", "isotonic"],
            "--calibrate isotonic: expected none or temperature",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_training(two, flags, message):
    result = train(*flags)
    assert result.code == 2
    assert message in result.err
    assert not (two / "m.bin").exists()


@pytest.mark.parametrize("write", [write_three_classes, write_numbers])
def test_a_rule_is_for_two_classes(folder, write):
    write(folder / "two.csv")
    result = train("--threshold", "f1")
    assert result.code == 2
    assert "--threshold f1: is for two classes, the task is" in result.err


def test_a_precision_out_of_reach_ends_the_training_with_the_best(two):
    """Every row is there twice, once of each class."""
    rows = (
        f"{number},{number**2},{label}\n" for number in range(100) for label in (0, 1)
    )
    (two / "two.csv").write_text("a,b,y\n" + "".join(rows))
    result = train("--threshold", "precision=0.9", "--holdout", 0)
    assert result.code == 2
    assert "no cut-off reaches it, the best has precision 0.5; ask" in result.err


def calibrated_network(data, layers, **settings):
    """A network that was trained on some rows and calibrated on the others; (network,
    what was told, those rows)."""
    net = nn.Network(layers, data.task)
    nn.train(net, data, epochs=30, learning_rate=0.05, holdout=0.5, **settings)
    rows = nn.ds.split_rows(data, 0.5, 0, 0).holdout
    given = {"holdout": 0.5, "calibrate": "temperature"} | settings
    options = options_of(net, data, given)
    decision = decide_by(net, options, rows_judged(net, data, rows))
    net.facts = replace(net.facts, **decision.facts)
    return net, decision.figures, rows


def test_calibration_is_kept_in_the_model_and_told(two):
    ds = nn.load("two.csv")
    net, figures, rows = calibrated_network(ds, "2,20,1", threshold="f1")
    calibration = figures["calibration"]
    assert net.temperature == calibration["temperature"]
    assert calibration["temperature"] != 1
    assert calibration["log_loss"][1] < calibration["log_loss"][0]
    truth = ds.y[rows]
    scores = net.predict(ds.x[rows])
    for name in ("log_loss", "brier"):
        figure = metric(name, "binary", truth, scores)
        assert figure == calibration[name][1], name
    assert (
        figures["threshold"]
        == net.threshold
        == best_threshold("f1", truth, scores[:, 0])
    )
    net.export("c.bin")
    again = nn.Network.load("c.bin")
    assert again.temperature == net.temperature
    expected = net.predict(ds.x)
    assert np.array_equal(again.predict(ds.x), expected)
    report = nn.test(again, ds)
    assert report["log_loss"] == nn.test(net, ds)["log_loss"]
    assert "temperature" in succeed("--info", "--model", "c.bin", "--verbose").out
    nn.train(net, ds, epochs=1)
    assert net.temperature == 1, "another training forgets it"


def test_calibration_of_several_classes_keeps_the_classes(folder):
    write_three_classes(folder / "three.csv")
    ds = nn.load("three.csv")
    net, figures, _ = calibrated_network(ds, "2,20,3")
    assert net.temperature != 1
    assert (
        figures["calibration"]["log_loss"][1] <= figures["calibration"]["log_loss"][0]
    )
    after = net.predict(ds.x)
    net.temperature = 1.0
    expected = net.predict(ds.x).argmax(axis=1)
    assert np.array_equal(after.argmax(axis=1), expected)


def test_the_text_format_has_the_temperature_in_its_last_layer(two):
    """Within the rounding of float32."""
    net = nn.Network("2,4:sigmoid,1", "binary")
    ds = nn.load("two.csv")
    nn.train(net, ds, epochs=2)
    net.temperature = 2.5
    net.export("c.m")
    predictions = nn.Network.load("c.m").predict(ds.x)
    expected = net.predict(ds.x)
    assert predictions == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("value", [0, -1, "2", None, float("nan")])
def test_a_damaged_temperature_is_refused(two, value):
    net = nn.Network("2,1", "binary")
    net.temperature = value
    with pytest.raises((NnError, ValueError), match="temperature|nan"):
        net.export("c.bin")
        nn.Network.load("c.bin")
