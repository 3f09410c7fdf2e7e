"""Several targets of numbers, some of which rows lack: they count for no loss and no
metric, and the row stays."""

import json

import numpy as np
import pytest
from sklearn import metrics
from support.command_line import ONE, run, succeed

import nn
from nn.utils import DataError

ROWS = 240


def table(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and three targets of other sizes, a third of them missing; of one row
    all."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 3)).round(3)
    y = x @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(rows, 3))
    y = (y * [1, 10, 100] + [0, 50, 3000]).round(3)
    y[rng.random(y.shape) < 1 / 3] = np.nan
    y[7] = np.nan
    y[8] = 1, 2, np.nan
    return x, y


@pytest.fixture
def path(folder) -> str:
    x, y = table()
    lines = ["a,b,c,p,q,r"]
    for values in np.hstack([x, y]).tolist():
        lines.append(",".join("" if v != v else repr(v) for v in values))
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return "t.csv"


def test_a_row_that_lacks_some_numbers_stays(path):
    ds = nn.load(path, target="p,q,r")
    _, y = table()
    stays = ~np.isnan(y).all(axis=1)
    assert ds.task == "regression"
    assert ds.rows == stays.sum() == ROWS - ds.unlabelled
    assert ds.unlabelled > 0
    assert np.array_equal(ds.y, y[stays].astype(np.float32), equal_nan=True)
    assert any("count for no loss of it: p (" in remark for remark in ds.remarks)


def test_each_target_is_scaled_by_the_rows_that_have_it(path):
    ds = nn.load(path, target="p,q,r")
    net = nn.Network.for_data(ds, "auto,4,3")
    nn.train(net, ds, epochs=1, holdout=0)
    assert net.target_scaling.shift == pytest.approx(np.nanmean(ds.y, axis=0))
    assert net.target_scaling.scale == pytest.approx(np.nanstd(ds.y, axis=0))


def test_metrics_are_those_of_the_numbers_that_rows_have(path):
    ds = nn.load(path, target="p,q,r")
    net = nn.Network.for_data(ds, "auto,8,3")
    figures = nn.train(net, ds, epochs=60, learning_rate=0.02)
    assert figures["learned"]
    weights = np.arange(ds.rows) % 3 + 1.0
    for given in (None, weights):
        ds.weights = given
        found = nn.test(net, ds, intervals=True)
        predicted = net.predict(ds.x).astype(np.float64)
        r2 = []
        squares = []
        counts = []
        for k, target in enumerate(found["per_target"]):
            known = ~np.isnan(ds.y[:, k])
            both = ds.y[known, k].astype(np.float64), predicted[known, k]
            of_known = None if given is None else given[known]
            r2.append(metrics.r2_score(*both, sample_weight=of_known))
            error = metrics.mean_squared_error(*both, sample_weight=of_known)
            counts.append(known.sum() if given is None else of_known.sum())
            squares.append(error * counts[-1])
            assert target["mse"] == pytest.approx(error, rel=1e-6)
            assert target["r2"] == pytest.approx(r2[-1], rel=1e-6)
        assert found["mse"] == pytest.approx(sum(squares) / sum(counts), rel=1e-6)
        assert found["r2"] == pytest.approx(np.mean(r2), rel=1e-6)
        for low, high in found["intervals"].values():
            assert low < high


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_a_metric_of_a_loss_and_its_baseline_are_of_numbers_that_rows_have(loss):
    x, y = table()
    ds = nn.Dataset(x, np.abs(y) / [1, 10, 1000], "regression")
    net = nn.Network.for_data(ds, "auto,4,3", loss=loss)
    figures = nn.train(net, ds, epochs=2)
    assert np.isfinite(figures["loss"]).all()
    assert figures["baseline"] > 0
    deviance = nn.test(net, ds).get("deviance")
    if loss == "poisson":
        known = ~np.isnan(ds.y)
        expected = metrics.mean_poisson_deviance(ds.y[known], net.predict(x)[known])
        assert deviance == pytest.approx(expected, rel=1e-5)


def test_folds_intervals_of_predictions_and_effort_go_on_with_missing_numbers(path):
    model = nn.fit(path, target="p,q,r", effort="quick")
    known = model.network.conformal
    assert len(known.targets) == 3
    figures = model.test(path)
    assert 0.8 < figures["coverage"] < 1
    for target in figures["per_target"]:
        assert 0.75 < target["coverage"] <= 1
    assert figures["r2"] > 0.8
    baseline = np.sqrt(model.metrics["baseline"])
    _, y = table()
    pooled = np.sqrt(np.nansum((y - np.nanmean(y, axis=0)) ** 2) / (~np.isnan(y)).sum())
    assert baseline == pytest.approx(pooled, rel=0.02)


def test_the_page_a_comparison_and_reference_say_what_they_can(path, folder):
    for name in ("m.bin", "n.bin"):
        flags = "--epochs", 3, "--folds", 3, "-q", "--model", name
        succeed(*ONE, "--dataset", path, "--target", "p,q,r", *flags)
    succeed("test", "m.bin", path, "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert "nan" not in page.replace("finance", "")
    found = json.loads(succeed("compare", "m.bin", "n.bin", "--json").out)
    assert "NaN" not in json.dumps(found)
    given = "--dataset", path, "--target", "p,q,r", "--model", "o.bin"
    result = run("--train", *given, "--reference")
    assert result.code == 65
    assert 'row 4, column p: found "", expected a number' in result.err


def test_a_number_that_a_loss_cannot_have_is_named_beside_missing_ones():
    x, y = table()
    ds = nn.Dataset(x, y, "regression")
    with pytest.raises(DataError, match="expected 0 or more for --loss poisson"):
        nn.train(nn.Network.for_data(ds, "auto,3", loss="poisson"), ds)
