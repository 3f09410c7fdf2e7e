"""Validation rows: the best epoch is kept, training stops when none is better, and
--refit uses all rows."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import f1_score
from support.command_line import ONE, argv, run, succeed
from support.networks import flattened
from support.packs import data as data_of
from support.tables import csv_of

import nn
from nn.core.metrics import metric, metrics_of
from nn.data.splits import split_rows
from nn.nn_aux import METRICS
from nn.train import decision
from nn.train import member as of_member
from nn.train.effort_plan import rule_for
from nn.train.options import Monitor, flat_after
from nn.utils import DataError, NnError, UsageError
from nn.watch.callbacks import Callback

SPEC = {"binary": "6,30,1", "multiclass": "6,30,3", "regression": "6,30,2"}
EPOCHS = 12
data = partial(data_of, rows=900)


def trained(ds, backend="omp", seed=3, **flags):
    layers = SPEC[ds.task]
    net = nn.Network(layers, ds.task, seed=seed, backend=backend)
    return net, nn.train(net, ds, **{"epochs": EPOCHS, "learning_rate": 0.02, **flags})


@pytest.mark.parametrize(
    ("flags", "name"), [({}, "held-out"), ({"validation": 0.3}, "validation")]
)
@pytest.mark.parametrize("networks", [None, 2])
def test_a_network_whose_loss_on_other_rows_is_no_number_is_refused(
    flags, name, networks
):
    """Its model file could not be written."""
    ds = data("regression")
    split = split_rows(ds, 0.2, flags.get("validation", 0.0), 3)
    ds.x[split.validation if flags else split.holdout] *= np.float32(1e30)
    with pytest.raises(
        NnError,
        match=f"^{name} loss is (inf|nan) at epoch 1: try a smaller --learning_rate",
    ):
        trained(ds, scaling="none", networks=networks, **flags)


@pytest.mark.parametrize(
    "task, name", [(task, name) for task in SPEC for name in metrics_of(task)]
)
def test_the_kept_epoch_is_the_best_of_the_history(task, name):
    ds = data(task)
    after = []
    net = nn.Network(SPEC[task], task, seed=3, backend="omp")

    class Watching(Callback):
        def epoch(self, *_):
            after.append(net.engine.get("parameters").tobytes())

    flags = {
        "epochs": EPOCHS,
        "learning_rate": 0.02,
        "validation": 0.3,
        "monitor": name,
    }
    result = nn.train(net, ds, callback=Watching(), **flags)
    values = result["val_metric"]
    best = (max if METRICS[name].higher_is_better else min)(values)
    assert result["best_epoch"] == values.index(best) + 1
    assert len(values) == EPOCHS
    expected = after[result["best_epoch"] - 1]
    assert flattened(net.parameters()).tobytes() == expected
    rows = split_rows(ds, 0.2, 0.3, 3).validation
    if name != "loss":
        predictions = net.predict(ds.x[rows])
        figure = metric(name, task, ds.y[rows], predictions, threshold=0.5)
        assert figure == pytest.approx(best, rel=1e-6)
    assert result["validation"] == len(rows)
    assert net.history["val_metric"] == values


def test_the_loss_of_validation_rows_is_monitored_and_without_them_nothing_changes():
    net, result = trained(data(), validation=0.3)
    assert result["monitor"] == "loss"
    assert result["val_metric"] == result["val_loss"]
    net, result = trained(data())
    assert not {"val_metric", "best_epoch", "monitor", "validation", "refit"} & set(
        result
    )
    assert not {
        "validation",
        "monitor",
        "patience",
        "refit",
        "split_seed",
        "class_weight",
    } & set(net.config)
    assert set(net.history) == {"loss", "val_loss"}


def test_a_plateau_is_a_cooldown_of_as_many_epochs_as_the_metric_gains():
    ds = data(rows=200)
    flags = {"validation": 0.4, "schedule": "plateau", "patience": 5}
    net, found = trained(ds, epochs=200, **flags)
    end = found["epochs_run"]
    assert 8 <= end < 200, "the data should be such that training ends early"
    values = found["val_metric"]
    flat = math.floor(end * 0.75)  # the rate falls from here on
    assert min(values[: flat - 5]) * 0.99 < min(values[:flat])
    by_hand, expected = trained(ds, validation=0.4, epochs=end)
    assert found["val_loss"] == expected["val_loss"]
    assert found["best_epoch"] == expected["best_epoch"]
    parameters = flattened(net.parameters()).tobytes()
    assert parameters == flattened(by_hand.parameters()).tobytes()
    _, limited = trained(ds, epochs=flat, **flags)  # no more than are asked for
    assert limited["epochs_run"] == flat
    _, usual = trained(ds, epochs=7, schedule="plateau")
    assert usual["loss"] == trained(ds, epochs=7)[1]["loss"]


def test_a_metric_is_flat_where_its_best_gains_less_than_a_hundredth():
    def flat(values, *patience):
        return flat_after(tuple(values), *patience)

    falling = [0.9**epoch for epoch in range(40)]
    assert flat(falling, 3) is None
    assert flat([*falling, *falling[-1:] * 3], 3) is None
    # a third of the epochs without a gain
    assert flat([*falling, *falling[-1:] * 22], 3) == 60
    assert flat([1.0, 0.5, *[0.4996] * 9], 3) == 5
    assert flat([1.0, 0.5, *[0.4] * 9], 3) == 6
    assert flat([-1.0, -2.0, *[-2.01] * 9], 3) == 5
    assert flat([0.5, 0.9, *[0.905] * 9], 3, True) == 5
    assert flat([math.nan] * 3, 3) is None
    assert flat([math.nan] * 4, 3) == 4
    assert flat([math.nan, *falling], 3) is None


def test_an_undefined_value_is_never_the_best():
    monitor = Monitor("f1", 2)
    assert monitor.best([math.nan, 0.3, 0.3, math.nan]) == 2
    assert monitor.best([math.nan]) is None
    assert not monitor.is_over([math.nan])
    assert monitor.is_over([math.nan] * 2)
    assert Monitor("loss").best([0.3, 0.1, 0.1]) == 2
    assert not Monitor("loss").is_over([1.0] * 100)


def test_rare_classes_are_told_in_one_line(caplog):
    repeated = np.repeat([0, 1, 2, 3], [50, 50, 2, 1])
    y = repeated.astype(np.int32)
    draws = np.random.default_rng(0).normal(size=(103, 6))
    x = draws.astype(np.float32)
    nn.train(
        nn.Network("6,5,4", "multiclass"),
        nn.Dataset(x, y, "multiclass", [*"abcd"]),
        epochs=1,
        validation=0.2,
    )
    assert [
        line for line in caplog.messages if "rows" in line and "learned" not in line
    ] == ["classes with too few rows for validation and held-out rows: c (2), d (1)"]


def test_validation_rows_of_classes_that_the_network_does_not_have_are_refused():
    x = np.random.default_rng(1).normal(size=(40, 3))
    is_high = x[:, 0] > 0
    ds = nn.load(x, y=np.where(is_high, "high", "low"))
    others = nn.load(x, y=np.where(is_high, "left", "right"))
    net = nn.Network.for_data(ds)
    with pytest.raises(DataError, match=r"found class \w+, expected one of high, low"):
        nn.train(net, ds, epochs=1, validation=others)


def test_a_checkpoint_of_other_validation_rows_or_weights_is_refused(folder):
    ds = data(weights=np.ones(900))
    saving = {"epochs": 2, "checkpoint": "c.ck", "resume": "auto"}
    trained(ds, validation=0.3, **saving)
    for flags in ({"validation": 0.2}, {}, {"validation": 0.3, "monitor": "f1"}):
        with pytest.raises(UsageError, match="was written with"):
            trained(ds, **flags, **saving)
    ds.weights[5] = 2
    with pytest.raises(UsageError, match="while training on other data"):
        trained(ds, validation=0.3, **saving)


def write(path, rows=300, seed=0, classes=("no", "yes")):
    ds = data(rows=rows, seed=seed)
    columns = [*ds.x.T.round(5), np.array(classes)[ds.y]]
    path.write_text(csv_of([*"abcdef", "class"], columns))
    return path


def test_a_file_of_validation_rows(folder):
    write(folder / "t.csv"), write(folder / "v.csv", 100, seed=5)
    flags = "--model m.bin --validation v.csv --monitor roc_auc --epochs 4 --history h.csv --json"
    result = succeed("--train", "--dataset", "t.csv", *flags.split()).json
    assert result["validation"] == 100
    assert result["rows"] == 240
    assert result["best_epoch"] in range(1, 5)
    history = (folder / "h.csv").read_text().splitlines()
    assert (
        history[0]
        == "epoch,loss,val_loss,learning_rate,seconds,us_per_batch,val_metric"
    )
    assert [float(row.split(",")[-1]) for row in history[1:]] == result["val_metric"]
    net = nn.Network("6,60,10,1", "binary")
    ds = nn.load("t.csv")
    judges = nn.load("v.csv")
    from_python = nn.train(net, ds, validation=judges, monitor="roc_auc", epochs=4)
    assert from_python["val_metric"] == result["val_metric"]


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    write(folder / "t.csv"), write(folder / "classes.csv", classes=("no", "maybe"))
    write(folder / "numbers.csv", classes=("0", "1"))
    text = (folder / "t.csv").read_text()
    (folder / "other.csv").write_text(text.replace("e,f,class", "e,g,class", 1))
    return folder


@pytest.mark.parametrize(
    "flags, words",
    [
        (
            "--patience 3",
            "--patience 3: needs validation rows; give --validation SHARE or FILE",
        ),
        ("--monitor f1", "--monitor f1: needs validation rows"),
        ("--refit", "--refit: needs validation rows"),
        (
            "--validation 1.5",
            "--validation 1.5: expected a share above 0 and below 1, or a file",
        ),
        ("--validation none.csv", "none.csv"),
        ("--validation fold", "give --folds too"),
        (
            "--validation 0.2 --monitor rmse",
            "--monitor rmse: does not fit a binary task; choose from loss, ",
        ),
        ("--validation 0.001", "--validation 0.001: takes none of the 240 rows"),
        ("--validation other.csv", "no column f besides the target"),
        ("--validation classes.csv", 'found class "maybe"'),
        (
            "--validation classes.csv --refit",
            "give --validation SHARE, not classes.csv",
        ),
        (
            "--class_weight 1,2,3",
            "--class_weight 1,2,3: 3 numbers for 2 classes; give one for each of no, yes",
        ),
        (
            "--class_weight 1,-2",
            "--class_weight 1,-2: expected none, balanced, or a number",
        ),
        (
            "--class_weight 0,0",
            "--class_weight 0,0: expected none, balanced, or a number",
        ),
        (
            "--layers 6,5,1 --reference --validation 0.2",
            "--validation 0.2: --reference has no such thing",
        ),
        (
            "--layers 6,5,1 --reference --class_weight balanced",
            "--class_weight balanced: --reference",
        ),
        (
            "--layers 6,5,1 --reference --split_seed 2",
            "--split_seed 2: --reference has no such thing",
        ),
    ],
)
def test_what_cannot_be_is_told_in_one_line(flags, words, bad_files, monkeypatch):
    monkeypatch.chdir(bad_files)
    if "--reference" in flags:
        data = "numbers.csv"
    else:
        data = "t.csv"
    done = run(
        *ONE,
        *argv(f"--dataset {data} --model m.bin --epochs 2 --quiet"),
        *flags.split(),
    )
    assert done.code not in (0, 1), done.err
    assert words in done.err, done.err
    assert len(done.err.splitlines()) == 1
    assert not (bad_files / "m.bin").exists()


@pytest.mark.parametrize(
    "flag, value, words",
    [
        (
            "weight",
            "-1",
            "row 5, column extra: found -1, expected a finite number, 0 or above for --weight; correct",
        ),
        (
            "weight",
            "",
            "row 5, column extra: found a gap, expected a finite number, 0 or above for --weight",
        ),
        ("weight", "inf", 'row 5, column extra: found "inf", expected a finite number'),
        (
            "time",
            "",
            "row 5, column extra: found a gap, expected a number or a date for --time; correct it or",
        ),
    ],
)
def test_a_weight_or_time_of_a_file_that_cannot_be_is_named_by_its_line(
    flag, value, words, folder
):
    extra = [1, 2, 3, value, *range(5, 61)]
    # no table of numbers
    columns = [extra, range(60), ["red", "blue"] * 30, ["no", "yes", "yes"] * 20]
    (folder / "t.csv").write_text(csv_of(["extra", "a", "word", "class"], columns))
    done = run(
        *argv(f"--train --dataset t.csv --model m.bin -q --{flag} extra --target class")
    )
    assert done.code == 65, done.err
    assert words in done.err, done.err
    assert len(done.err.splitlines()) == 1, done.err


@pytest.mark.parametrize(
    "more, words",
    [
        (
            {"weights": np.zeros(900)},
            "--weight: the weights of all 900 rows are 0, expected one above 0",
        ),
        (
            {"weights": np.r_[-1.0, np.ones(899)]},
            "--weight: row 0: found -1, expected a finite number, 0 or above",
        ),
        (
            {"weights": np.r_[np.ones(899), np.inf]},
            "--weight: row 899: found inf, expected a finite number",
        ),
        ({"weights": np.ones(3)}, "3 weights for 900 rows, expected one for each"),
        (
            {"times": np.r_[np.ones(899), np.nan]},
            "--time: row 899: found nan, expected a finite number",
        ),
    ],
)
def test_bad_weights_and_times_are_told(more, words):
    with pytest.raises(DataError, match=words):
        trained(data(**more))


@pytest.mark.parametrize(
    "flags", [{}, {"networks": 2}, {"folds": 3, "validation": "fold"}]
)
def test_the_epochs_that_were_run_are_told_beside_those_that_were_asked_for(flags):
    ds = data("binary")
    _, found = trained(
        ds, epochs=200, learning_rate=0.5, **{"validation": 0.3, "patience": 2, **flags}
    )
    assert found["epochs"] == 200
    assert found["epochs_run"] == len(found["loss"])
    assert len(found["loss"]) < 200
    _, whole = trained(ds, epochs=3, **flags)
    assert whole["epochs"] == whole["epochs_run"] == 3


def test_the_line_of_a_training_that_patience_ended_has_both_counts(two):
    asked = argv("--epochs 400 --validation 0.3 --patience 2 --learning_rate 0.3")
    result = succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", *asked)
    run_epochs = len(nn.Network.load("m.bin").history["loss"])
    assert run_epochs < 400
    assert f", {run_epochs} of 400 epochs in " in result.out
    assert (
        ", 3 epochs in "
        in succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 3).out
    )


@pytest.mark.parametrize("block", [4096, 7])
def test_the_loss_of_held_out_rows_is_weighted_over_their_blocks(block, monkeypatch):
    monkeypatch.setattr(of_member, "VALIDATION_ROWS", block)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(90, 2))
    y = (x[:, 0] + rng.normal(size=90) > 0).astype(int)
    weights = rng.integers(0, 9, 90) ** 2 / 4
    ds = nn.Dataset(x, y, "binary", weights=weights)
    net = nn.Network("2,1", "binary", seed=3)
    val_loss = nn.train(net, ds, epochs=2, holdout=0.3)["val_loss"]
    last_loss = val_loss[-1]
    rows = split_rows(ds, 0.3, 0.0, 3).holdout
    predictions = net.predict(x[rows])
    p = predictions[:, 0].astype(np.float64)
    selected = np.where(y[rows] == 1, p, 1 - p)
    losses = -np.log(selected)
    expected = np.average(losses, weights=ds.weights[rows])
    assert last_loss == pytest.approx(expected, rel=1e-5)


def test_the_monitored_metric_is_of_decisions_at_the_threshold_and_of_rows_that_count():
    """Rows of weight 0 of other data judge nothing."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    y = (x[:, 0] + rng.normal(size=300) > 0.3).astype(int)
    weights = rng.integers(0, 3, 100).astype(float)
    ds = nn.Dataset(x[:200], y[:200], "binary")
    others = nn.Dataset(x[200:], y[200:], "binary", weights=weights)
    net = nn.Network("3,4,1", "binary")
    how = {"epochs": 6, "holdout": 0.0, "monitor": "f1", "threshold": 0.3}
    figures = nn.train(net, ds, validation=others, **how)
    picked = net.predict(x[200:])[:, 0] >= 0.3
    expected = f1_score(y[200:], picked, sample_weight=weights)
    assert max(figures["val_metric"]) == pytest.approx(expected)
    usual = f1_score(y[200:], net.predict(x[200:])[:, 0] >= 0.5, sample_weight=weights)
    assert usual != pytest.approx(expected), "the threshold matters here"
    assert figures["validation"] == np.count_nonzero(weights)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_temperature_has_the_least_loss_by_the_weights_of_the_validation_rows(task):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 2))
    y = np.digitize(
        x[:, 0] + rng.normal(size=400), [0.0, 1.0][: 2 - (task == "binary")]
    )
    weights = np.where(x[:, 1] > 0, 5.0, 0.2)
    ds = nn.Dataset(x, y, task, weights=weights)
    net = nn.Network(f"2,{1 if task == 'binary' else 3}", task)
    how = {"validation": 0.5, "holdout": 0.0, "split_seed": 1, "learning_rate": 0.05}
    plain = nn.Network(net.written_layers, task)
    nn.train(plain, ds, epochs=20, **how)
    nn.train(net, ds, epochs=20, calibrate="temperature", **how)
    rows = split_rows(ds, 0.0, 0.5, 1).validation
    scores = plain.predict(x[rows]).astype(np.float64)
    if task == "binary":
        scores = np.hstack([1 - scores, scores])

    def loss(logarithm):
        powers = scores ** np.exp(-logarithm)
        shares = powers / powers.sum(axis=1, keepdims=True)
        losses = -np.log(shares[np.arange(len(rows)), y[rows]])
        return np.average(losses, weights=weights[rows])

    best = np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)
    assert net.temperature == pytest.approx(best, rel=1e-3)


def test_rows_that_decide_keep_their_weights_over_blocks(monkeypatch):
    monkeypatch.setattr(decision, "PREDICT_BLOCK", 7)
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = (np.arange(40) % 3 == 0).astype(np.int32)
    ds = nn.Dataset(x, y, "binary", weights=np.arange(40.0) + 1)
    rows = np.arange(1, 40, 2)
    net = nn.Network("2,1", "binary")
    truth, scores, weights, _ = decision.rows_judged(net, ds, rows)
    assert weights.tolist() == ds.weights[rows].tolist()
    assert truth.tolist() == y[rows].tolist()
    assert np.array_equal(scores, net.predict(x[rows]))


@pytest.mark.parametrize(
    "positive, rows, is_rare",
    [(20, 200, True), (21, 209, False), (19, 400, False), (20, 199, False)],
)
def test_a_class_is_rare_from_twenty_rows_up_to_a_tenth(positive, rows, is_rare):
    ds = nn.Dataset(
        np.zeros((rows, 1)), (np.arange(rows) < positive).astype(int), "binary"
    )
    assert rule_for(ds) == ({"threshold": "f1"} if is_rare else {})


@pytest.mark.parametrize(
    "positive, weight, others, weight_of_others, is_rare",
    [
        (15, 2.0, 270, 1.0, True),
        (15, 2.0, 269, 1.0, False),
        (20, 1.0, 300, 0.5, False),
        (30, 0.5, 900, 1.0, False),
    ],
)
def test_a_class_is_rare_by_the_weights_of_its_rows(
    positive, weight, others, weight_of_others, is_rare
):
    y = np.repeat([1, 0], [positive, others])
    weights = np.where(y, weight, weight_of_others)
    ds = nn.Dataset(np.zeros((len(y), 1)), y, "binary", weights=weights)
    assert rule_for(ds) == ({"threshold": "f1"} if is_rare else {})


def test_a_training_that_one_row_judges_goes_on_from_its_checkpoint(folder):
    ds = data(rows=60)
    how = {"epochs": 2, "validation": ds.of_rows([5])}
    _, whole = trained(ds, checkpoint="c.ck", **how)
    net, figures = trained(ds, resume="c.ck", **how)
    for name in ("loss", "val_loss", "val_metric"):
        assert figures[name] == net.history[name] == whole[name]
    assert figures["validation"] == 1
