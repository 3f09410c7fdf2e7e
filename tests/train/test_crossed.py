"""Crossed figures: what is told of a fold's rows is chosen by the rows of all others,
in every door the same."""

import itertools
import math

import numpy as np
import pytest
from support.command_line import argv, succeed, write_numbers, write_three_classes
from support.packs import data, network
from support.tables import csv_of

import nn
from nn.core.crossed import temperatures_by_others, thresholds_by_others
from nn.core.metrics import metric
from nn.core.thresholds import best_temperature, best_threshold, tempered
from nn.core.weighted import standard_error
from nn.nn.crossed import Crossed
from nn.terminal.figures import number_text, rate_text
from nn.test.learned import learned_by_rows
from nn.test.out_of_fold import out_of_fold
from nn.train.effort import Effort
from nn.train.search import PICKS, choose_crossed, crossed_scores, weighted_mean
from nn.utils import figure_text

ROWS = 60
FOLDS = 4


@pytest.fixture
def judged():
    """(truth, scores, fold) of rows, of which none of the last fold is of class 1."""
    rng = np.random.default_rng(5)
    of_row = np.arange(ROWS) % FOLDS
    truth = rng.integers(0, 2, ROWS)
    truth[of_row == FOLDS - 1] = 0
    clipped = np.clip(rng.random(ROWS) / 2 + truth / 3, 0.01, 0.99)
    scores = clipped.astype(np.float32)[:, None]
    return truth, scores, of_row


# ---- thresholds and temperatures


@pytest.mark.parametrize("weighted", [False, True])
def test_each_fold_has_the_temperature_and_threshold_of_the_others(judged, weighted):
    truth, scores, of_row = judged
    if weighted:
        draws = np.random.default_rng(0).integers(0, 3, ROWS)
        weights = draws.astype(np.float64)
    else:
        weights = None
    temperatures = temperatures_by_others(truth, scores, of_row, FOLDS, weights)
    thresholds = thresholds_by_others(
        "f1", truth, scores, of_row, temperatures, 0.5, weights
    )
    for fold in range(FOLDS):
        other_rows = of_row != fold
        if weights is None:
            own_weights = None
        else:
            own_weights = weights[other_rows]
        expected = best_temperature(truth[other_rows], scores[other_rows], own_weights)
        assert temperatures[fold] == expected
        calibrated = tempered(scores[other_rows], temperatures[fold])
        expected = best_threshold(
            "f1", truth[other_rows], calibrated[:, 0], own_weights
        )
        assert thresholds[fold] == expected
    assert len({*temperatures}) == len({*thresholds}) == FOLDS
    # 1 alone leaves the scores as they are
    for temperature in (1.0, 2.0):
        found = thresholds_by_others(
            "f1", truth, scores, of_row, [temperature] * FOLDS, 0.5, weights
        )
        calibrated = tempered(scores[other_rows], temperature)
        expected = best_threshold(
            "f1", truth[other_rows], calibrated[:, 0], own_weights
        )
        assert found[-1] == pytest.approx(expected, rel=1e-6)


def test_what_a_fold_says_changes_nothing_of_what_it_is_judged_by(judged):
    truth, scores, of_row = judged
    before = temperatures_by_others(truth, scores, of_row, FOLDS)
    cuts = thresholds_by_others("f1", truth, scores, of_row, [1.0] * FOLDS, 0.5)
    rows_of_fold = of_row == 1
    truth = np.where(rows_of_fold, 1 - truth, truth)
    scores = np.where(rows_of_fold[:, None], 1 - scores, scores)
    after = temperatures_by_others(truth, scores, of_row, FOLDS)
    assert before[1] == after[1]
    assert before[0] != after[0]
    expected = thresholds_by_others("f1", truth, scores, of_row, [1.0] * FOLDS, 0.5)[1]
    assert cuts[1] == expected


def test_without_rows_of_class_1_or_a_precise_cut_off_the_models_threshold_judges():
    truth = np.array([1, 1, 0, 0])
    scores = np.array([0.9, 0.8, 0.7, 0.1], np.float32)[:, None]
    assert (
        thresholds_by_others(
            "f1", truth, scores, np.array([0, 0, 1, 1]), [1.0, 1.0], 0.25
        )[0]
        == 0.25
    )
    thresholds = thresholds_by_others(
        "precision=1",
        np.array([0, 1, 0, 1]),
        scores,
        np.array([1, 1, 0, 0]),
        [1.0] * 2,
        0.33,
    )
    assert thresholds[0] == 0.33


def test_a_target_whose_others_cannot_tell_takes_nothing_from_the_other_targets():
    """Its own threshold is that of the model; another one's is still that of the
    others' rows, not that which the fold itself has helped to choose."""
    rng = np.random.default_rng(5)
    of_row = np.arange(60) % 3
    truth = rng.integers(0, 2, (60, 2)).astype(float)
    scores = rng.random((60, 2)).astype(np.float32)
    truth[rng.random((60, 2)) < 0.2] = np.nan
    truth[of_row != 1, 1] = 0  # the positive rows of the second one lie in one fold
    cuts = thresholds_by_others("f1", truth, scores, of_row, [1.0] * 3, [0.11, 0.22])
    for fold in range(3):
        others = (of_row != fold) & ~np.isnan(truth[:, 0])
        own = best_threshold("f1", truth[others, 0], scores[others, 0])
        assert cuts[fold][0] == own
    assert cuts[1][1] == 0.22
    assert 0.22 not in (cuts[0][1], cuts[2][1])


def test_scores_by_temperature_are_those_of_each_fold(judged):
    _, scores, of_row = judged
    crossed = Crossed.of(ROWS + 5, np.arange(ROWS), of_row, scores, FOLDS)
    assert crossed.calibrated is scores
    assert crossed.fold[ROWS:].tolist() == [255] * 5
    crossed = Crossed(crossed.fold, scores, [1.0, 2.0, 0.5, 1.0], [0.1, 0.2, 0.3, 0.4])
    for fold, temperature in enumerate(crossed.temperatures):
        expected = tempered(scores[of_row == fold], temperature)
        assert np.array_equal(crossed.calibrated[of_row == fold], expected)
    expected = np.array([0.1, 0.2, 0.3, 0.4])[of_row]
    assert np.array_equal(crossed.threshold_of_row, expected)
    assert np.array_equal(crossed.scores, scores)


def test_the_figures_of_each_fold_are_by_the_threshold_that_the_others_choose():
    ds = data("binary", 90)
    net = nn.Network.for_data(ds, "auto,3:tanh,1")
    folds = nn.train(net, ds, folds=3, epochs=2, threshold="f1")["folds"]
    cuts = net.crossed.thresholds
    assert len({*cuts}) > 1
    rows, of_row, scores = out_of_fold(net, ds)
    for fold, figures in enumerate(folds):
        own = of_row == fold
        truth = ds.y[rows[own]]
        said = scores[own][:, 0].astype(np.float64) >= cuts[fold]
        assert figures["threshold"] == cuts[fold]
        assert figures["accuracy"] == pytest.approx(np.mean(said == truth))
        assert figures["tp"] == np.sum(said & (truth == 1))


# ---- the weights of candidates


def by_hand(truth, scores, rows):
    """Return how often greedy selection chooses each candidate by some rows."""
    picked = []
    losses = []
    for _ in range(PICKS):
        each = []
        for number in range(len(scores)):
            counts = np.bincount([*picked, number], minlength=len(scores))
            figure = metric(
                "loss", "binary", truth[rows], weighted_mean(scores, counts)[rows, 0]
            )
            each.append(figure)
        picked.append(int(np.argmin(each)))
        losses.append(min(each))
    taken = picked[: int(np.argmin(losses)) + 1]
    return [taken.count(number) for number in range(len(scores))]


def test_candidates_are_weighted_for_each_fold_by_the_others(judged):
    truth, _, of_row = judged
    rng = np.random.default_rng(1)
    scores = [
        np.clip(rng.random((ROWS, 1)) / 1.3 + truth[:, None] / 6, 0.02, 0.98).astype(
            np.float32
        )
        for _ in "abcd"
    ]
    choice = choose_crossed("binary", truth, scores, of_row)
    assert choice.counts == by_hand(truth, scores, np.arange(ROWS))
    assert choice.of_fold == [
        by_hand(truth, scores, of_row != fold) for fold in range(FOLDS)
    ]
    assert len({*map(tuple, choice.of_fold)}) > 1
    mean = crossed_scores(scores, choice, of_row)
    for fold, counts in enumerate(choice.of_fold):
        expected = weighted_mean(scores, counts)[of_row == fold]
        assert mean.dtype == np.float32
        assert np.array_equal(mean[of_row == fold], expected)


def test_rows_of_weight_0_choose_no_candidate(judged):
    truth, scores, of_row = judged
    scores_of_members = [scores, (1 - scores).astype(np.float32)]
    weights = (of_row < 2).astype(np.float64)
    part = of_row < 2
    whole = choose_crossed("binary", truth, scores_of_members, of_row, weights)
    alone = choose_crossed(
        "binary",
        truth[part],
        [scores_of_member[part] for scores_of_member in scores_of_members],
        of_row[part],
    )
    assert whole.counts == alone.counts
    assert whole.of_fold[:2] == alone.of_fold


# ---- whether anything was learned


def test_the_standard_error_is_that_of_a_mean_by_weights_and_by_groups():
    values = np.random.default_rng(2).normal(size=50)
    assert standard_error(values) == pytest.approx(values.std(ddof=1) / math.sqrt(50))
    groups = np.repeat(np.arange(50), 4)
    repeated = np.repeat(values, 4)
    assert standard_error(repeated, groups=groups) == pytest.approx(
        standard_error(values)
    )
    weights = np.repeat([1.0, 0.0], 25)
    assert standard_error(values, weights) == pytest.approx(standard_error(values[:25]))
    assert standard_error(values[:1]) == math.inf


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_loss_is_learned_if_it_is_below_the_baseline_by_more_than_a_standard_error(
    task,
):
    ds = data(task, 400)
    outcomes = []
    if task == "regression":
        outputs = ds.y.shape[1]
    else:
        outputs = len(ds.classes)
    if task == "regression":
        constant = ds.y.mean(axis=0, dtype=np.float64)
        truth = ds.y.astype(np.float64)
    else:
        constant = np.bincount(ds.y) / ds.rows
        truth = np.eye(outputs)[ds.y]
    rng = np.random.default_rng(0)
    for share in (-0.05, 0.002, 0.01, 0.05, 0.2):  # of the truth in the scores
        scores = (1 - share) * constant + share * truth
        if task != "regression":
            scores = np.clip(scores, 0.001, 1)
            scores /= scores.sum(axis=1, keepdims=True)
        if share < 0:
            scores = scores[rng.permutation(ds.rows)]
        if task == "regression":
            losses = ((scores - truth) ** 2).mean(axis=1)
            base = ((constant - truth) ** 2).mean(axis=1)
        else:
            total = (scores * truth).sum(axis=1)
            losses = -np.log(total)
            total = (constant * truth).sum(axis=1)
            base = -np.log(total)
        figures = learned_by_rows(
            ds,
            scores[:, 1:] if task == "binary" else scores,
            1 if task == "binary" else outputs,
        )
        difference = base - losses
        root = math.sqrt(ds.rows)
        assert figures["learned"] == (difference.mean() > difference.std(ddof=1) / root)
        assert figures["baseline"] == pytest.approx(base.mean(), rel=1e-5)
        outcomes.append(figures["learned"])
    assert not outcomes[0]
    assert outcomes[-1]


def test_alike_rows_of_a_group_tell_as_much_of_what_was_learned_as_one():
    ds = data("binary", 40)
    rng = np.random.default_rng(0)
    repeats = 20
    groups = np.repeat(np.arange(ds.rows), repeats)
    grouped = nn.Dataset(
        ds.x[groups], ds.y[groups], "binary", ds.classes, groups=groups
    )
    apart = nn.Dataset(ds.x[groups], ds.y[groups], "binary", ds.classes)
    differs = []
    for _ in range(20):
        noise = rng.normal(scale=0.1, size=ds.rows)
        scores = ds.y.mean() + 0.03 * (ds.y - ds.y.mean()) + noise
        scores = np.clip(scores, 0.05, 0.95)[:, None]
        told = learned_by_rows(ds, scores, 1)["learned"]
        assert learned_by_rows(grouped, scores[groups], 1)["learned"] == told
        differs.append(learned_by_rows(apart, scores[groups], 1)["learned"] != told)
    assert any(differs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_baseline_of_a_fold_is_what_the_other_folds_tell(task, weighted):
    """Folds whose targets differ: the best constant of all rows knows the fold, that of
    the others does not."""
    ds = data(task, 60)
    order = np.argsort(ds.y if ds.y.ndim == 1 else ds.y[:, 0], kind="stable")
    of_row = np.empty(60, np.int64)
    of_row[order] = np.repeat([0, 1, 2], 20)
    of_row[:12] = np.arange(12) % 3  # every class is in every fold
    if weighted:
        weights = np.random.default_rng(0).integers(1, 4, 60)
    else:
        weights = None
    ds = nn.Dataset(ds.x, ds.y, task, ds.classes, weights=weights)
    if task == "regression":
        truth = ds.y.astype(np.float64)
    else:
        identity = np.eye(len(ds.classes))
        truth = identity[ds.y]
    losses = np.empty(60)
    for row in range(60):
        other_rows = of_row != of_row[row]
        constant = np.average(
            truth[other_rows],
            axis=0,
            weights=None if weights is None else weights[other_rows],
        )
        if task == "regression":
            losses[row] = ((constant - truth[row]) ** 2).mean()
        else:
            logarithms = np.log(constant @ truth[row])
            losses[row] = -logarithms
    outputs = {"binary": 1, "multiclass": truth.shape[1], "regression": truth.shape[1]}[
        task
    ]
    mean = np.average(truth, axis=0, weights=weights)
    constants = np.tile(mean, (60, 1))
    if task == "binary":
        scores = constants[:, 1:]
    else:
        scores = constants
    figures = learned_by_rows(ds, scores, outputs, of_row)
    expected = np.average(losses, weights=weights)
    assert figures["baseline"] == pytest.approx(expected, rel=1e-6)
    assert figures["baseline"] > learned_by_rows(ds, scores, outputs)["baseline"]
    # it is better than what the others tell, and yet the same for all rows
    assert figures["learned"] is False
    assert learned_by_rows(ds, scores, outputs, np.zeros(60, int)) == learned_by_rows(
        ds, scores, outputs
    )


@pytest.mark.slow
def test_coins_are_seldom_learned_and_a_weak_signal_is():
    learned = {"coin": [], "signal": []}
    for seed, (kind, told) in itertools.product(range(6), learned.items()):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(300, 4)).astype(np.float32)
        if kind == "coin":
            chance = np.full(300, 0.5)
        else:
            exponentials = np.exp(-1.2 * x[:, 0])
            chance = 1 / (1 + exponentials)
        ds = nn.Dataset(
            x, (rng.random(300) < chance).astype(np.int32), "binary", ["0", "1"]
        )
        _, figures = Effort(ds, "quick", {}, {"seed": seed}).run(nn.train)
        told.append(figures["learned"])
    assert sum(learned["coin"]) <= 1
    assert sum(learned["signal"]) >= 5


# ---- in every door


def write_rare(path, rows=220):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    draws = rng.normal(size=rows)
    y = x[:, 0] + x[:, 1] ** 2 / 2 + draws / 2 > 1.6
    columns = [*x.round(4).T, y * 1]
    path.write_text(csv_of("abcy", columns))
    return path


WRITERS = {
    "rare": write_rare,
    "three": lambda path: write_three_classes(path, 150),
    "numbers": write_numbers,
}


@pytest.mark.usual(1, 4)
@pytest.mark.parametrize(
    "flags",
    [
        "--effort quick --epochs 8",
        "--folds 3 --holdout 0 --epochs 6 --validation fold",
        "--folds 3 --holdout 0 --epochs 3",
    ],
)
@pytest.mark.parametrize("kind", WRITERS)
def test_training_test_compare_page_and_predictions_agree_to_the_digit(
    kind, flags, folder
):
    WRITERS[kind](folder / "data.csv")
    if kind == "numbers":
        rules = []
    else:
        rules = ["--calibrate", "temperature"]
    if kind == "rare":
        rules += ["--threshold", "f1"]
    command = ["--train", "--dataset", "data.csv", *flags.split(), *rules, "--json"]
    report = succeed(*command, "--model", "m.bin", "-o", "o.csv").json
    tested = succeed(
        *argv("--test --model m.bin --json -v --intervals --report page.html")
    ).json
    if "out_of_fold" in report:
        quick = report["out_of_fold"].pop("intervals")  # by fewer resamples
        assert {name: tested[name] for name in report["out_of_fold"]} == report[
            "out_of_fold"
        ]
        for name, (low, high) in quick.items():
            assert low <= report["out_of_fold"][name] <= high
            wide = tested["intervals"][name][1] - tested["intervals"][name][0]
            assert (
                np.abs(np.subtract([low, high], tested["intervals"][name])).max()
                <= wide / 4 + 1e-9
            )
    else:
        assert tested["members"] == report["folds"]
    succeed(*command, "--model", "other.bin", "--seed", 5)
    compared = succeed("--compare", "m.bin,other.bin", "--json").json["metrics"]
    other = succeed("--test", "--model", "other.bin", "--json").json
    for name, found in compared.items():
        if name in tested and name in other:
            expected = (tested[name], other[name])
            assert (found["m.bin"], found["other.bin"]) == expected, name
    shown = succeed("--test", "--model", "m.bin").out
    page = (folder / "page.html").read_text()
    for name in {"roc_auc", "log_loss", "f1", "rmse"} & tested.keys():
        if kind == "numbers":
            texts = figure_text(tested[name]), number_text(tested[name])
        else:
            texts = [rate_text(tested[name])] * 2
        assert texts[0] in page, name
        assert texts[1] in shown, name
    net = nn.Network.of_file("m.bin")
    ds = nn.load("data.csv")
    rows, of_row, _scores = out_of_fold(net, ds)
    lines = [line.split(",") for line in (folder / "o.csv").read_text().splitlines()]
    columns = dict(zip(lines[0], zip(*lines[1:], strict=True), strict=True))
    assert list(map(int, columns["row"])) == rows.tolist()
    assert list(map(int, columns["fold"])) == of_row.tolist()
    if kind != "numbers":
        predicted = np.array(columns["predicted"])
        right = predicted == np.array(columns["true"])
    else:
        right = None
    assert right is None or right.mean() == pytest.approx(tested["accuracy"], abs=1e-12)


def test_a_threshold_that_is_given_judges_all_rows(folder):
    write_rare(folder / "data.csv")
    command = argv("--train --dataset data.csv --model m.bin --effort quick --epochs 6")
    succeed(*command, "--threshold", "f1")
    report = succeed(
        "--test", "--model", "m.bin", "--threshold", 0.2, "--json", "-v"
    ).json
    net = nn.Network.of_file("m.bin")
    ds = nn.load("data.csv")
    _rows, _, scores = out_of_fold(net, ds)
    decided = scores[:, 0] >= 0.2
    assert report["threshold"] == 0.2
    assert report["tp"] + report["fp"] == decided.sum()
    assert {fold["threshold"] for fold in report["members"]} == {0.2}


def test_double_precision_keeps_its_scores_as_float32():
    ds = data("regression", 60)
    net = network("regression", dtype="float64")
    nn.train(net, ds, folds=2, epochs=2, validation="fold", holdout=0.0)
    assert net.crossed.scores.dtype == out_of_fold(net, ds)[2].dtype == np.float32
    assert net.dtype == "float64"
