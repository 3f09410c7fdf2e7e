"""`learned` and `baseline`: whether a training did better than answering every row
alike, and the warning if not."""

import itertools
import statistics

import numpy as np
import pytest
from support.command_line import ONE, argv, succeed
from support.plain_layers import LOSSES
from support.tables import csv_of

import nn
from nn import nn_aux
from nn.core.losses import _VALUES, SLOPES
from nn.data import causes
from nn.data.splits import Fold, split_rows
from nn.test import learned
from nn.train import combine
from nn.train.effort import Effort

OUTPUTS = {"binary": 1, "multiclass": 3, "regression": 2}
WAYS = {
    "held out": {},
    "all rows": {"holdout": 0.0},
    "validation": {"validation": 0.25},
    "refit": {"validation": 0.25, "refit": True},
    "several": {"networks": 3},
    "folds": {"folds": 3},
    "judged by folds": {"folds": 3, "validation": "fold", "patience": 4},
    "chosen": {"networks": 4, "vary": "batch_number=16|32", "validation": 0.25},
}
CASES = [
    ("binary", "bce", ""),
    ("multiclass", "ce", ""),
    ("regression", "mse", ""),
    ("regression", "mae", ""),
    ("regression", "huber", ""),
    ("regression", "huber=0.3", ""),
    ("regression", "quantile=0.8", ""),
    ("binary", "focal=1", ""),
    ("multiclass", "bce", ":sigmoid"),
    ("binary", "mse", ":linear"),
]


def data(task, rows=240, noise=0.1, seed=0, **fields):
    """Rows that tell their targets; noise=None: that tell nothing of them."""
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(rows, 4))
    x = draws.astype(np.float32)
    draws = rng.normal(size=rows)
    score = x[:, 0] - x[:, 1] + draws * (noise or 0.0)
    if noise is None:
        score = rng.permutation(score)
    if task == "regression":
        stacked = np.stack([5 * score + 40, score], 1)
        return nn.Dataset(x, stacked.astype(np.float32), task, **fields)
    y = np.digitize(score, [0.7] if task == "binary" else [-0.5, 1.0]).astype(np.int32)
    classes = ["a", "b", "c"][: OUTPUTS[task] + (task == "binary")]
    return nn.Dataset(x, y, task, classes, **fields)


def trained(ds, loss=None, output="", **flags):
    net = nn.Network(
        f"4,12,{OUTPUTS[ds.task]}{output}", ds.task, loss=loss, seed=3, backend="omp"
    )
    return nn.train(net, ds, **{"learning_rate": 0.02, **flags})


def warnings_in(caplog):
    return [text for text in caplog.messages if "learned nothing" in text]


@pytest.mark.usual(16)
@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("task", OUTPUTS)
@pytest.mark.parametrize("way", WAYS)
def test_a_network_says_whether_it_has_learned(task, way, moves, caplog):
    result = trained(data(task), learning_rate=0.02 if moves else 1e-9, **WAYS[way])
    last = (result["val_loss"] or result["loss"])[-1]
    assert result["learned"] is moves
    if moves:
        assert last < result["baseline"]
        assert not warnings_in(caplog)
        return
    (text,) = warnings_in(caplog)
    kinds = {
        "held out": "held-out",
        "several": "held-out",
        "all rows": "training",
        "folds": "out-of-fold",
    }
    assert f"its {kinds.get(way, 'validation')} loss is no better" in text
    assert "--learning_rate" in text
    assert (
        f"that of {'the mean' if task == 'regression' else 'the class shares'}, {result['baseline']:.4g}"
        in text
    )


@pytest.mark.parametrize("loss, decides", [(None, True), ("mse", False)])
def test_rows_out_of_fold_decide_what_folds_learned_where_these_had_the_usual_loss(
    loss, decides, monkeypatch
):
    told = {"learned": "by rows", "baseline": -7.0}
    monkeypatch.setattr(combine, "learned_by_rows", lambda *_, **__: dict(told))
    result = trained(data("binary", noise=None), loss, folds=3, epochs=2)
    assert (result["learned"] == "by rows") is decides
    assert result["baseline"] > 0  # of the loss of each fold


@pytest.mark.parametrize("of_images", [False, True])
@pytest.mark.parametrize(
    "figures, kind, is_sure",
    [
        ({"val_loss": None}, "training", False),
        ({}, "held-out", False),
        ({"monitor": "loss"}, "validation", False),
        ({"folds": []}, "out-of-fold", True),
        ({"monitor": "loss", "effort": "", "out_of_fold": {}}, "out-of-fold", True),
        ({"monitor": "loss", "effort": "", "validated": {}}, "validation", True),
    ],
)
def test_what_was_not_learned_is_told_of_the_rows_that_judge(
    figures, kind, is_sure, of_images, caplog
):
    ds = data("binary")
    if of_images:
        ds = nn.Dataset(ds.x.reshape(-1, 1, 2, 2), ds.y, "binary")
    losses = {"loss": [0.9], "val_loss": [0.9], "classes": ["a", "b"]}
    figures = losses | {"learned": False, "baseline": 0.5} | figures
    learned.warn_if_not_learned(figures, ds, "bce")
    (text,) = warnings_in(caplog)
    assert f"its {kind} loss is no better than that of the class shares, 0.5" in text
    assert ("by more than one standard error" in text) == is_sure
    told = "its training got nowhere"
    if "effort" in figures:
        what = "pictures tell" if of_images else "columns tell"
        told = f"its {what} too little of the target"
    assert f"; {told}" in text


@pytest.mark.parametrize("task", OUTPUTS)
def test_what_is_true_of_the_training_rows_alone_is_nothing_learned(task, caplog):
    result = trained(data(task, 120, noise=None), epochs=100)
    assert result["learned"] is False
    assert result["loss"][-1] < result["baseline"] < result["val_loss"][-1]
    (text,) = warnings_in(caplog)
    assert "true of its training rows alone" in text
    assert "--validation" in text


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_a_network_that_gives_the_same_for_every_row_has_learned_nothing(task, seed):
    """By luck it may be nearer to the mean of the held-out rows than the mean of the
    training rows is."""
    ds = data(task, noise=1.0, seed=seed)
    net = nn.Network(f"4,6,6,{OUTPUTS[task]}", task, seed=seed, backend="omp")
    dead = {
        name: -np.abs(value) - 1
        for name, value in net.parameters().items()
        if name.startswith("layer1")
    }
    net.set_parameters(dead)
    result = nn.train(net, ds, learning_rate=0.02)
    predictions = net.predict(ds.x)
    assert np.ptp(predictions, axis=0) == pytest.approx(0, abs=1e-4)
    assert result["learned"] is False


def loss_of(name, output, y, weights):
    """Return the loss of the same output for all rows, one row after the other."""
    value, _ = LOSSES[nn_aux.loss_name(name)]
    constants = nn_aux.loss_of(name).constants
    return np.average(
        [value(output[None], target[None], *constants) for target in y],
        weights=weights,
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task, loss, output", CASES)
def test_the_baseline_is_the_loss_of_what_the_training_rows_tell(
    task, loss, output, weighted
):
    if weighted:
        weights = np.random.default_rng(1).integers(0, 4, 240)
    else:
        weights = np.ones(240, int)
    ds = data(task, **({"weights": weights} if weighted else {}))
    if weighted and ds.classes:
        flags = {"class_weight": ",".join("123"[: len(ds.classes)])}
    else:
        flags = {}
    result = trained(ds, loss, output, epochs=1, **flags)
    split = split_rows(ds, 0.2, 0.0, 3)
    if task == "regression":
        # scaled by weighted moments
        repeated = ds.y[np.repeat(split.training, weights[split.training])]
        y = (ds.y - repeated.mean(axis=0)) / repeated.std(axis=0)
    else:
        if task == "multiclass":
            identity = np.eye(len(ds.classes))
            y = identity[ds.y]
        else:
            y = ds.y[:, None].astype(float)
        weights = weights * ((1 + ds.y) if weighted else 1)
    targets = learned.Targets(y[split.training], weights[split.training])
    is_mean = nn_aux.loss_name(loss) not in SLOPES
    if is_mean:
        best = np.average(targets.values, 0, targets.counts)
    else:
        best = learned.best_output(loss, targets)
    expected = loss_of(loss, best, y[split.holdout], weights[split.holdout])
    assert result["baseline"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("in_time", [False, True])
@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_the_baseline_of_folds_is_by_the_weights_of_the_targets_that_rows_have(
    task, in_time
):
    """Of rows without a second target the heavier ones."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(60, 2)) + np.arange(60)[:, None] / 20
    if task == "multilabel":
        y = (y > 1.5).astype(float)
    weights = np.where(np.arange(60) % 4 == 0, 5.0, 0.5)
    y[::4, 1] = np.nan
    of_row = np.arange(60) // 20
    ds = nn.Dataset(np.zeros((60, 1)), y, task, weights=weights)
    judged = np.arange(60)
    known = None
    if in_time:
        judged = np.arange(20, 60)
        folds = [Fold(np.arange(20 * k), np.flatnonzero(of_row == k)) for k in (1, 2)]
        known = learned.known_in_time(ds, folds, 2)
    total = 0.0
    count = 0.0
    for row in judged:
        if in_time:
            others = of_row < of_row[row]
        else:
            others = of_row != of_row[row]
        for k in range(2):
            there = others & ~np.isnan(y[:, k])
            mean = np.average(y[there, k], weights=weights[there])
            truth = y[row, k]
            if np.isnan(truth):
                continue
            if task == "multilabel":
                loss = -np.log(mean if truth else 1 - mean)
            else:
                loss = (mean - truth) ** 2
            total += weights[row] * loss
            count += weights[row]
    figures = learned.learned_by_rows(
        ds.of_rows(judged),
        np.full((len(judged), 2), 0.5),
        2,
        of_row[judged] - in_time,
        known,
    )
    assert figures["baseline"] == pytest.approx(total / count)


def test_folds_have_learned_by_the_weights_and_groups_of_their_rows():
    """More than one standard error better than the mean of the other folds, and better
    than the best constant: a loop over small tables near both borders."""
    rng = np.random.default_rng(7)
    outcomes = {}
    for _ in range(300):
        apart = rng.integers(0, 3) * (np.arange(12) // 4)  # the folds
        y = np.round(8 * rng.normal(size=12)) / 8 + apart
        weights = rng.integers(1, 9, 12) / 2
        groups = np.arange(12) // 2
        of_row = np.arange(12) // 4
        mean = np.average(y, weights=weights)
        scores = mean + rng.random() * (y - mean) + rng.normal(size=12) * 1.5
        ds = nn.Dataset(
            np.zeros((12, 1)), y, "regression", weights=weights, groups=groups
        )
        told = learned.learned_by_rows(ds, scores[:, None], 1, of_row)
        others = [
            np.average(y[of_row != fold], weights=weights[of_row != fold])
            for fold in of_row
        ]
        gains = (np.array(others) - y) ** 2 - (scores - y) ** 2
        gain = np.average(gains, weights=weights)
        sums = np.bincount(groups, weights * (gains - gain))
        error = np.sqrt(6 / 5 * (sums**2).sum()) / weights.sum()
        best = (mean - y) ** 2 - (scores - y) ** 2
        is_better = np.average(best, weights=weights) > 0
        assert told["learned"] == (gain > error and is_better)
        key = (bool(gain > error), bool(is_better))
        outcomes[key] = outcomes.get(key, 0) + 1
    assert min(outcomes.values()) >= 5
    assert len(outcomes) == 4


@pytest.mark.parametrize("loss", ["mse", "mae", "huber=0.3", "quantile=0.9", "tweedie"])
def test_the_best_output_beats_those_around_it_and_every_loss_has_a_baseline(
    loss,
):
    rng = np.random.default_rng(0)
    draws = rng.gamma(1.0, 2.0, (51, 2))
    targets = learned.Targets(draws, rng.random(51))
    best = learned.best_output(loss, targets)
    least = learned.baseline_of(loss, targets, targets).least
    for step in (-0.01, 0.01):
        assert loss_of(loss, best + step, *targets) > least
        expected = loss_of(loss, best, *targets)
        assert least == pytest.approx(expected)
    assert {*_VALUES} == {*nn_aux.LOSSES}
    assert {*SLOPES} <= {*nn_aux.LOSSES}


def test_a_class_without_training_rows_has_a_finite_baseline_and_nan_is_undefined():
    training = learned.targets_of(np.array([0, 1, 1]), outputs=3)
    judged = learned.targets_of(np.array([2]), outputs=3)
    told, least = learned.baseline_of("ce", training, judged)
    logarithms = np.log(np.finfo(np.float32).eps)
    assert told == pytest.approx(-logarithms)
    assert least == pytest.approx(0)
    targets = learned.Targets(np.array([[-1e300], [1e300]]), np.ones(2))
    for losses in (
        (1.0, learned.baseline_of("mse", targets, targets)),
        (None, (1.0, 1.0)),
        (1.0, None),
    ):
        assert learned.learned([losses]) == {"learned": None, "baseline": None}


def test_validation_rows_of_another_data_set_have_a_baseline_and_a_refit_keeps_it():
    ds = data("binary")
    other = data("binary", 90, seed=1)
    result = trained(ds, validation=other, holdout=0.0)
    share = ds.y.mean()
    logarithms = np.log(1 - share)
    selected = np.where(other.y == 1, np.log(share), logarithms)
    expected = -np.mean(selected)
    assert result["baseline"] == pytest.approx(expected, rel=1e-6)
    for task in OUTPUTS:
        plain = trained(data(task), validation=0.25, refit=False)
        refitted = trained(data(task), validation=0.25, refit=True)
        assert plain["baseline"] == refitted["baseline"], task
        assert plain["learned"] == refitted["learned"], task


def test_the_epoch_that_is_kept_is_compared_and_not_the_last(caplog):
    ds = data("binary", noise=1.0, seed=1)
    result = trained(
        ds, validation=0.25, epochs=200, learning_rate=0.05, weight_decay=0.0
    )
    best = result["val_loss"][result["best_epoch"] - 1]
    assert best < result["baseline"] < result["val_loss"][-1], (
        "the data should be such that training overfits"
    )
    assert result["learned"] is True
    assert not warnings_in(caplog)


@pytest.mark.slow
@pytest.mark.parametrize("task", OUTPUTS)
def test_the_baseline_of_effort_is_in_the_unit_of_its_figures_out_of_fold(task, caplog):
    for noise, has_learned in ((0.1, True), (None, False)):
        ds = data(task, noise=noise)
        net, result = Effort(
            ds, "quick", {} if noise else {"learning_rate": 1e-9}, {}
        ).run(nn.train)
        if task == "regression":
            name = "mse"
        else:
            name = "log_loss"
        of_folds = []
        sizes = []
        for fold in range(8):
            y = ds.y[net.crossed.fold == fold]
            other_rows = ds.y[net.crossed.fold != fold]
            if task == "regression":
                mean = other_rows.mean(axis=0, dtype=np.float64)
                of_folds.append(((y - mean) ** 2).mean())
            else:
                logarithms = np.log(np.bincount(other_rows) / len(other_rows))
                of_folds.append(-logarithms[y].mean())
            sizes.append(len(y))
        expected = np.average(of_folds, weights=sizes)
        assert result["baseline"] == pytest.approx(expected, rel=1e-6)
        assert (
            result["learned"]
            is has_learned
            is (result["out_of_fold"][name] < result["baseline"])
        )
        assert len(warnings_in(caplog)) == (not has_learned)
    assert "its out-of-fold loss" in warnings_in(caplog)[0]
    assert "columns" in warnings_in(caplog)[0]


@pytest.fixture
def noise(folder):
    """Write a table whose columns tell nothing of the target."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 60)).round(5)
    columns = [*draws, (rng.random(60) < 0.3) * 1]
    (folder / "noise.csv").write_text(csv_of("aby", columns))
    return ["--dataset", "noise.csv", "--model", "m.bin"]


@pytest.mark.parametrize(
    "flags",
    [["--networks", 1], ["--networks", 3], ["--effort", "standard"], ["--folds", 3]],
)
def test_the_command_line_warns_once(noise, flags):
    command = ["--train", *noise, "--learning_rate", 1e-9, "--epochs", 2, *flags]
    result = succeed(*command)
    assert (
        sum(
            "nn: warning: the network learned nothing" in line
            for line in result.err.splitlines()
        )
        == 1
    )
    answer = succeed(*command, "--json")
    assert answer.json["learned"] is False
    assert answer.json["baseline"] > 0
    assert "learned nothing" in answer.err
    assert "learned nothing" not in succeed(*command, "-q").err


def test_the_reference_is_judged_by_the_rows_that_it_trains_on(noise, folder):
    """The original divides the loss of an epoch by all rows, also by those that it
    leaves out."""
    flags = [
        *argv("--reference --batch_number 40"),
        "--learning_rate",
        1e-9,
        *argv("--epochs 1 --layers 2,3,1"),
    ]
    text = (folder / "noise.csv").read_text()
    (folder / "noise.csv").write_text(text.removeprefix("a,b,y\n"))
    result = succeed("--train", *noise, *flags, "--json").json
    lines = (folder / "noise.csv").read_text().splitlines()
    y = np.array([float(line[-1]) for line in lines])
    assert result["baseline"] == pytest.approx(y.var())
    assert result["learned"] is False


@pytest.mark.parametrize("classes", [["0", "1"], None])
def test_the_reference_that_leaves_out_half_of_the_rows_has_not_learned_more(classes):
    """It divides the loss of 60 rows, each told to be 1, by all 119."""
    x = np.random.default_rng(0).normal(size=(119, 2))
    y = np.arange(119) % 10 < 7
    ds = nn.Dataset(x, y.astype(int), "binary", classes)
    net = nn.Network("2,3:sigmoid,1:sigmoid", "binary", reference=True)
    result = nn.train(net, ds, batch_number=60, learning_rate=1e-9, epochs=1)
    predicted = net.predict(x)[:, 0]
    assert ((predicted - y) ** 2).mean() > y.var()
    assert result["loss"][-1] < y.var()
    assert result["baseline"] == pytest.approx(y.var())
    assert result["learned"] is False


@pytest.mark.parametrize("more", [["--memory", "200M"], ["--resume", "c.ck"]], ids=str)
def test_mapped_rows_and_a_training_that_goes_on_tell_the_same(noise, more):
    command = [*ONE, *noise, "--epochs", 4, "--json", "--checkpoint"]
    report = succeed(*command, "c.ck").json
    output = succeed(*command, "c.ck" if "c.ck" in more else "d.ck", *more)
    again = output.json
    assert report["learned"] == again["learned"]
    assert report["baseline"] == again["baseline"]


def remark_of(ds, caplog, **flags):
    net = nn.Network.for_data(ds, f"auto,4,{ds.outputs}")
    nn.train(net, ds, epochs=1, learning_rate=1e-9, **flags)
    (text,) = warnings_in(caplog)
    return text


def test_a_mark_is_told_as_the_file_has_it(caplog):
    """Float32 holds 1.2e12 as 1199999942656, which --missing would not find in the
    file."""
    ds = data("regression", targets=["price", "size"])
    ds.y = np.column_stack([1000 + ds.y[:, 0], ds.y[:, 1]]).astype(np.float32)
    ds.y[3, 0] = 1.2e12
    net = nn.Network.for_data(ds, "auto,4,2")
    nn.train(net, ds, epochs=1, learning_rate=1e-9)
    (far,) = [text for text in caplog.messages if "times the median" in text]
    (cause,) = warnings_in(caplog)
    assert (
        "data row 4, column price: found 1.2e+12, 1,200,000,000 times the median" in far
    )
    assert (
        "such as 1.2e+12: correct them, or leave their rows out (--missing 1.2e+12 if"
        in cause
    )


def test_targets_ruined_by_a_mark_are_the_cause_that_is_told(caplog):
    ds = data("regression", targets=["price", "size"])
    ds.y[::8, 1] = -9999
    text = remark_of(ds, caplog)
    assert (
        "30 of 240 values of size are far from all others, such as -9999: correct them"
        in text
    )
    assert "--missing -9999" in text
    assert "--learning_rate" not in text


def test_rows_without_weight_are_no_cause_and_hide_none(caplog):
    weights = np.ones(240, np.float32)
    weights[:60] = 0
    ds = data("regression", targets=["price", "size"], weights=weights)
    ds.y[:120:8, 1] = -9999
    remark = remark_of(ds, caplog)
    assert "7 of 180 values of size are far from all others, such as -9999" in remark
    ds.y[64:120:8, 1] = 0  # the marks of rows without weight are left
    caplog.clear()
    assert "far from all others" not in remark_of(ds, caplog)
    ds.x[60:] = 7
    caplog.clear()
    assert "inputs are the same in every row" in remark_of(ds, caplog)


@pytest.mark.parametrize("kind", ["pictures", "numbers", "words"])
def test_inputs_that_are_all_equal_are_the_cause_that_is_told(kind, caplog):
    if kind == "pictures":
        ds = nn.Dataset(
            np.full((60, 1, 4, 4), 7, np.uint8), np.arange(60) % 2, "binary", ["a", "b"]
        )
    elif kind == "numbers":
        ds = nn.Dataset(
            np.full((60, 3), 7, np.float32), np.arange(60) % 2, "binary", ["a", "b"]
        )
    else:
        ds = nn.load(
            {"a": ["x"] * 60, "b": ["y"] * 60}, y=np.arange(60) % 2, categories="a,b"
        )
    if kind == "pictures":
        what = "pictures are all equal"
    else:
        what = "inputs are the same in every row"
    assert what in remark_of(ds, caplog)


def test_long_tails_are_no_marks():
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(size=400),
        rng.lognormal(sigma=2.0, size=400),
        np.repeat([0.0, 1.0], [390, 10]),
    ):
        assert not len(causes.far_from_others(values))
    assert causes.far_from_others(
        np.append(rng.normal(size=400), [1e6, -9999])
    ).tolist() == [1e6, -9999]


def plainly_far(values: list[float]) -> list[float]:
    middle = statistics.median(values)
    distances = [abs(value - middle) for value in values]
    least = 30 * statistics.median(distances)
    far = [distance for distance in distances if distance > least]
    near = max(distance for distance in distances if distance <= least)
    if not least or not far or 4 * len(far) > len(values) or min(far) <= 10 * near:
        return []
    return [v for v, d in zip(values, distances, strict=True) if d > least]


def test_far_values_are_a_quarter_at_most_and_beyond_a_gap_as_by_a_plain_loop():
    found = []
    for count, nearest, distance in itertools.product(
        (1, 4, 5, 6), (1, 3, 5), (29, 30, 31, 49, 50, 51)
    ):
        near = [1.0, -1.0] * 10
        near[0] = nearest
        far = [(-1.0) ** (k + 1) * distance for k in range(count)]
        values = [*near[: 20 - count], *far]
        expected = plainly_far(values)
        assert causes.far_from_others(np.array(values)).tolist() == expected
        found.append(len(expected))
    assert {0, 1, 4, 5} == {*found}
