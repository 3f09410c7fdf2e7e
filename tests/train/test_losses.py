"""Losses with a constant, from the table to the export."""

import json

import numpy as np
import pytest
from sklearn import metrics
from support.command_line import run, succeed
from support.tables import csv_of

import nn
from nn.data.splits import split_rows
from nn.files import model_file
from nn.test import regression_report
from nn.utils import DataError, UsageError

DEVIANCES = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5, "tweedie=1.2": 1.2}


def counts(rows=600, seed=0):
    """Rows and counts whose logarithm is a line of the first two inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    mean = np.exp(0.6 * x[:, 0] - 0.5 * x[:, 1] + 0.5)
    return x, rng.poisson(mean).astype(np.float64), mean


def write(path, x, y):
    path.write_text(csv_of(["a", "b", "c", "claims"], [*x.T.tolist(), y.tolist()]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    x, y, _ = counts()
    write(tmp_path / "counts.csv", x, y)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("loss", [*DEVIANCES, "quantile=0.3"])
def test_the_metric_of_a_loss_is_that_of_scikit_learn(loss, weighted):
    rng = np.random.default_rng(3)
    predicted = rng.gamma(2.0, 1.0, (200, 1))
    truth = rng.poisson(predicted) + (1.0 if loss == "gamma" else 0.0)
    weights = rng.random(200) if weighted else None
    report = regression_report(truth, predicted, weights=weights, loss=loss)
    if loss in DEVIANCES:
        expected = metrics.mean_tweedie_deviance(
            truth[:, 0], predicted[:, 0], sample_weight=weights, power=DEVIANCES[loss]
        )
        assert report["deviance"] == pytest.approx(expected, rel=1e-12)
        assert "pinball" not in report
    else:
        expected = metrics.mean_pinball_loss(
            truth, predicted, sample_weight=weights, alpha=0.3
        )
        assert report["pinball"] == pytest.approx(expected, rel=1e-12)
        assert "deviance" not in report


def test_the_command_trains_counts_as_numbers_and_keeps_the_loss(folder):
    train = "train counts.csv -m m.bin --loss poisson --layers auto,8,1 --epochs 40"
    figures = json.loads(
        succeed(*train.split(), "--learning_rate", "0.01", "--json").out
    )
    assert figures["learned"] is True
    info = json.loads(succeed("info", "m.bin", "--json").out)
    assert info["loss"] == "poisson"
    assert info["network"][-1]["activation"] == "exp"
    told = json.loads(succeed("test", "m.bin", "--json").out)
    net = nn.Network.load("m.bin")
    assert net.task == "regression"
    assert net.loss == "poisson"
    # as told while training, but for the scale of the targets
    deviance = figures["val_loss"][-1] * net.target_scaling.scale[0]
    assert told["deviance"] == pytest.approx(deviance, rel=1e-4)
    assert net.target_scaling.shift.tolist() == [0]
    assert (net.predict(counts(50, seed=1)[0]) > 0).all()


@pytest.mark.parametrize(
    "loss, number, expected",
    [
        ("poisson", -1, "0 or more"),
        ("tweedie=1.9", -0.5, "0 or more"),
        ("gamma", 0, "above 0"),
    ],
)
def test_a_target_that_a_loss_cannot_have_is_refused_with_row_and_column(
    loss, number, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    x, y, _ = counts(60)
    y += 1
    y[41] = number
    write(tmp_path / "counts.csv", x, y)
    command = f"train counts.csv -m m.bin --layers auto,4,1 --loss {loss}"
    done = run(*command.split())
    assert done.code == 65
    for word in ("row 43", "column claims", f"found {number}", expected, loss):
        assert word in done.err, done.err
    with pytest.raises(DataError, match=expected):
        nn.fit("counts.csv", loss=loss)


@pytest.mark.parametrize("loss", ["mse=1", "gamma=2", "pinball=.5"])
def test_a_constant_that_no_loss_has_is_refused(loss):
    with pytest.raises(UsageError, match=r"--loss .*: expected mse, mae, huber=D"):
        nn.Network("2,1", loss=loss)


@pytest.mark.parametrize(
    "loss, expected",
    [
        *((f"huber={wrong}", "huber=D with 1e-30 <= D") for wrong in ("0", "x", "")),
        ("quantile=1", "quantile=A with 0 < A < 1"),
        ("tweedie=2", "tweedie=P with 1.001 <= P <= 1.999"),
        ("focal=-1", "focal=G with 0 <= G <= 100"),
    ],
)
def test_a_constant_that_cannot_be_is_refused_with_its_range(loss, expected):
    with pytest.raises(UsageError, match=f"--loss {loss}: expected {expected}"):
        nn.Network("2,1", loss=loss)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_share_of_the_targets_lies_below_a_quantile(share):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3000, 2)).astype(np.float32)
    y = 10 * x[:, 0] + (2 + x[:, 1] ** 2) * rng.exponential(1.0, 3000)
    ds = nn.load(x, y=y, task="regression")
    net = nn.Network.for_data(ds, "auto,16,1", loss=f"quantile={share}")
    nn.train(net, ds, epochs=30, learning_rate=0.01, holdout=0.3)
    held_out = split_rows(ds, 0.3, 0.0, 0).holdout
    below = (y[held_out] < net.predict(x[held_out])[:, 0]).mean()
    assert below == pytest.approx(share, abs=0.03)


def test_fit_chooses_by_the_loss_that_is_asked_for():
    x, y, mean = counts()
    model = nn.fit(x, y, loss="poisson")
    assert model.network.task == "regression"
    figures = model.metrics
    assert figures["learned"] is True
    expected = metrics.mean_poisson_deviance(y, mean)
    assert figures["out_of_fold"]["deviance"] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    "loss", ["mse=1", "huber=nan", "tweedie=2", "focal=1=1", "poisson"]
)
def test_a_file_with_a_loss_that_cannot_be_is_refused(loss, tmp_path):
    path = tmp_path / "m.bin"
    nn.Network("3,2,1", loss="huber=0.5").export(path)
    assert nn.Network.load(path).loss == "huber=0.5"
    tensors, metadata = model_file.load(path)
    model_file.save(path, tensors, {**metadata, "loss": loss})
    with pytest.raises(DataError, match=f"m.bin: --loss {loss}"):
        nn.Network.load(path)


def test_effort_judges_and_chooses_by_the_mean_absolute_error():
    """Where that is the loss: of candidates, beside the median, of the comparison."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 2))
    y = 3 * x[:, 0] + rng.standard_t(2, 300)
    columns = {"a": x[:, 0], "b": x[:, 1]}
    model = nn.fit(columns, y, loss="mae", effort="quick")
    (candidate,) = model.network.config["candidates"]
    metrics = model.metrics
    assert candidate["loss"] == pytest.approx(metrics["out_of_fold"]["mae"], rel=0.05)
    of_median = np.abs(y - np.median(y)).mean()
    assert metrics["baseline"] == pytest.approx(of_median, rel=0.03)
    assert metrics["learned"] is True
    low, high = metrics["out_of_fold"]["intervals"]["mae"]
    assert low < metrics["out_of_fold"]["mae"] < high


@pytest.mark.parametrize("loss", ["focal=2", "bce"])
@pytest.mark.parametrize("layers", [None, "auto,4,3"])
def test_a_loss_of_yes_and_no_says_so_beside_several_classes(loss, layers):
    """The line told to end layers in 3:sigmoid."""
    x, _, _ = counts(90)
    expected = "is for yes/no targets .*binary or multilabel.*choose .*ce"
    with pytest.raises(UsageError, match=expected):
        nn.fit(x, np.arange(90) % 3, loss=loss, layers=layers, epochs=1)
