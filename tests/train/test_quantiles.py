"""--loss quantile=A,B,...: an output for each quantile of one target, that cannot
cross: trained, tested, predicted, explained, exported, kept."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_pinball_loss
from support.c_models import Library
from support.command_line import ONE, run, succeed
from support.onnx_models import outputs

import nn
from nn.files import model_file
from nn.test.reports import figures_by_target
from nn.utils import DataError, UsageError

LOSS = "quantile=.1,.5,.9"
SHARES = (0.1, 0.5, 0.9)
NAMES = [f"price {share}" for share in SHARES]


def prices(rows: int = 1500) -> pd.DataFrame:
    """Return a table whose target spreads by a column, and lies higher in a town."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.normal(size=rows),
            "town": rng.choice(["x", "y", "z"], rows),
        }
    )
    spread = 2 + 3 * np.abs(frame.b)
    noise = spread * (rng.exponential(1.0, rows) - 1)
    return frame.assign(price=100 + 10 * frame.a + 5 * (frame.town == "x") + noise)


@pytest.fixture
def table(folder):
    prices().to_csv("prices.csv", index=False)
    return "prices.csv"


@pytest.fixture(scope="module")
def fitted():
    """A model of several networks that learned well."""
    frame = prices()
    settings = {"loss": LOSS, "layers": "auto,24,3", "learning_rate": 0.01}
    return frame, nn.fit(frame, "price", epochs=30, networks=2, **settings)


def test_command(table, folder):
    how = ["--loss", LOSS, "--layers", "auto,24,3", "--epochs", 20, "-q"]
    succeed(*ONE, "--dataset", table, "--model", "m.bin", *how)
    figures = json.loads(succeed("--test", "--model", "m.bin", "--json", "-q").out)
    each = figures["per_target"]
    assert [row["target"] for row in each] == NAMES
    mean = np.mean([row["pinball"] for row in each])
    assert figures["pinball"] == pytest.approx(mean)
    for row, share in zip(each, SHARES):
        assert row["coverage"] == pytest.approx(share, abs=0.08)
    text = succeed("--test", "--model", "m.bin", "-q").out
    assert "pinball loss" in text
    assert "coverage" in text
    succeed("--predict", "--model", "m.bin", "--dataset", table, "-o", "p.csv", "-q")
    with open("p.csv") as file:
        head = next(csv.reader(file))
    assert head == ["row", *(f"predicted {name}" for name in NAMES), "true price"]
    predicted = pd.read_csv("p.csv")
    assert predicted["true price"].to_numpy() == pytest.approx(prices().price)
    found = predicted[[f"predicted {name}" for name in NAMES]].to_numpy()
    np.testing.assert_allclose(found, nn.Model.load("m.bin").predict(table), rtol=1e-6)
    assert (np.diff(found, axis=1) >= 0).all()
    succeed("--explain", "--model", "m.bin", "--dataset", table, "-o", "e.csv", "-q")
    assert pd.read_csv("e.csv")["target"].tolist()[:3] == NAMES
    page = ["--report", "m.html", "-q"]
    succeed("--test", "--model", "m.bin", "--dataset", table, *page)
    text = (folder / "m.html").read_text()
    of_page = re.findall(r"([\d.]+) % lie below price (0\.\d)", text)
    of_table = json.loads(
        succeed("--test", "--model", "m.bin", "--dataset", table, "--json", "-q").out
    )
    assert [float(percent) / 100 for percent, _ in of_page[:3]] == pytest.approx(
        [row["coverage"] for row in of_table["per_target"]], abs=0.006
    )
    assert [float(share) for _, share in of_page[:3]] == [*SHARES]
    assert "quantiles 0.1, 0.5, 0.9 of a number" in text
    told = succeed("--info", "--model", "m.bin").out
    assert "beside the quantiles" in told


def test_quantiles_have_their_shares_and_scikit_learns_loss(fitted):
    frame, model = fitted
    told = model.predict(frame)
    assert told.shape == (len(frame), 3)
    figures = model.test(frame)
    for k, share in enumerate(SHARES):
        one = figures["per_target"][k]
        expected = mean_pinball_loss(frame.price, told[:, k], alpha=share)
        assert one["pinball"] == pytest.approx(expected, rel=1e-5)
        assert one["coverage"] == pytest.approx((frame.price <= told[:, k]).mean())
        assert one["coverage"] == pytest.approx(share, abs=0.03)
        constant = np.full(len(frame), np.quantile(frame.price, share))
        of_constant = mean_pinball_loss(frame.price, constant, alpha=share)
        assert one["pinball"] < 0.7 * of_constant
    # the spread is that of the data
    widths = told[:, 2] - told[:, 0]
    assert np.corrcoef(widths, np.abs(frame.b))[0, 1] > 0.8


@pytest.mark.parametrize("loss, outputs", [(LOSS, 3), ("quantile=.9", 1)])
def test_what_is_told_of_quantiles_is_pinball_loss_and_coverage(loss, outputs, folder):
    """Distances from a quantile are no errors: RMSE, MAE and R2 are in JSON alone."""
    frame = prices(300)
    frame.to_csv("t.csv", index=False)
    train = ["--dataset", "t.csv", "--loss", loss]
    told = succeed("--train", *train, "--effort", "quick", "--model", "m.bin").out
    folds = ["--layers", f"auto,8,{outputs}", "--folds", 2]
    told += succeed("--train", *train, *folds, "--model", "f.bin").out
    assert "the quantile of all rows alone would have" in told
    told += succeed("--test", "--model", "m.bin", "--intervals").out
    told += succeed("--test", "--model", "f.bin", "--verbose").out
    told += succeed("--info", "--model", "m.bin").out
    told += succeed("--compare", "m.bin,f.bin", "--dataset", "t.csv").out
    told += succeed("--explain", "--model", "m.bin").out
    told += repr(nn.fit("t.csv", loss=loss, effort="quick"))
    succeed("--test", "--model", "m.bin", "--report", "m.md")
    told += (folder / "m.md").read_text()
    for label in ("MSE", "RMSE", "MAE", "R2", "rmse", "r2", "absolute error"):
        assert label not in told, label
    assert "mean error" not in told
    assert told.count("coverage") > 5
    assert told.count("pinball") > 8
    figures = json.loads(
        succeed("--test", "--model", "m.bin", "--json", "--intervals").out
    )
    assert {"mse", "mae", "rmse", "r2", "pinball"} <= figures.keys()
    parts = figures.get("per_target", [figures])
    assert len(parts) == outputs
    for part in parts:
        low, high = part["intervals"]["below"]
        assert low < part["below"] < high
        assert part["below"] == part.get("coverage", part["below"]) or outputs == 1


def test_coverage_counts_rows_by_their_weights():
    frame = prices(300)
    weights = np.where(frame.a > 0, 5.0, 0.1)
    settings = {"loss": LOSS, "layers": "auto,3", "epochs": 3, "weight": "w"}
    model = nn.fit(frame.assign(w=weights), "price", **settings)
    predicted = model.predict(frame)
    rows = nn.load_for(model, frame.assign(w=weights))
    for k, one in enumerate(model.test(rows)["per_target"]):
        are_below = frame.price <= predicted[:, k]
        expected = np.average(are_below, weights=weights)
        assert one["coverage"] == pytest.approx(expected, rel=1e-5)
        assert abs(expected - are_below.mean()) > 0.01, "weights matter here"


def test_a_target_that_equals_its_quantile_is_not_above_it():
    truth = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    told = np.array([[1.0, 1.5], [1.0, 2.0], [3.0, 3.0], [5.0, 3.0]])
    for weights, shares in ((None, [0.75, 0.75]), ([1, 2, 4, 1], [0.75, 0.875])):
        rows = figures_by_target(
            truth,
            told,
            weights=weights and np.array(weights, float),
            loss="quantile=.1,.5",
        )
        assert [row["coverage"] for row in rows] == shares


def test_far_rows_do_not_cross(fitted):
    frame, model = fitted
    far = frame.drop(columns="price").assign(a=frame.a * 1e4, b=-1e5)
    assert (np.diff(model.predict(far), axis=1) >= 0).all()


def test_effort_folds_and_going_on(table, folder):
    model = nn.fit(table, "price", loss=LOSS, effort="quick")
    assert model.metrics["learned"] is True
    figures = model.metrics["out_of_fold"]
    assert [row["target"] for row in figures["per_target"]] == NAMES
    for row, share in zip(figures["per_target"], SHARES):
        assert row["coverage"] == pytest.approx(share, abs=0.05)
    assert model.network.conformal is None
    assert model.network.targets == ["price"]
    how = ["--loss", LOSS, "--layers", "auto,8,3", "--epochs", 3, "-q"]
    folds = ["--folds", 3, "-o", "f.csv", "--model", "m.bin"]
    succeed("--train", "--dataset", table, *how, *folds)
    written = pd.read_csv("f.csv")
    assert list(written)[2:] == [*(f"predicted {name}" for name in NAMES), "true price"]
    model = nn.fit(table, layers="auto,8,3", epochs=3, loss=LOSS)
    again = nn.fit(table, init=model, epochs=1)
    assert again.network.loss == LOSS
    assert again.network.outputs == 3


def test_a_network_is_made_for_data_and_tested_on_them(table):
    ds = nn.load(table, target="price", task="regression")
    net = nn.Network.for_data(ds, "auto,8,3", loss=LOSS)
    nn.train(net, ds, epochs=2)
    assert nn.test(net, ds)["pinball"] > 0
    assert net.members[0].layers[-1].activation == "steps"


def test_estimator():
    frame = prices(400)
    X = frame.drop(columns="price")
    made = nn.NetworkRegressor(loss=LOSS, layers="auto,8,3", epochs=5)
    told = made.fit(X, frame.price).predict(X)
    assert told.shape == (400, 3)
    assert (np.diff(told, axis=1) >= 0).all()


def test_exports(fitted, folder):
    frame, model = fitted
    expected = model.predict(frame)
    model.export("m.onnx")
    inputs = {name: frame[[name]].to_numpy(np.float64) for name in "ab"}
    inputs["town"] = frame[["town"]].to_numpy(object)
    found = outputs(folder / "m.onnx", inputs)["values"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    library = Library.of(model.network, folder)
    codes = [library.code(2, word) for word in frame.town]
    rows = np.column_stack([frame[["a", "b"]], codes])
    np.testing.assert_allclose(library.predict(rows, double=True), expected, rtol=1e-6)
    assert "predicted price 0.9" in (folder / "m.c").read_text()


@pytest.mark.parametrize("members", [1, 3])
def test_exports_of_plain_numbers(members, folder):
    frame = prices(300)[["a", "b", "price"]]
    how = {"loss": LOSS, "layers": "auto,6:tanh,3", "epochs": 3, "networks": members}
    model = nn.fit(frame, "price", dtype="float64", **how)
    expected = model.predict(frame)
    model.export("m.onnx")
    x = frame[["a", "b"]].to_numpy()
    found = outputs(folder / "m.onnx", {"features": x})["values"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_seq_and_omp_agree(table):
    ends = []
    for backend in ("seq", "omp"):
        how = {"loss": LOSS, "layers": "auto,8:tanh,3", "epochs": 3}
        model = nn.fit(table, "price", backend=backend, dtype="float64", **how)
        ends.append(model.predict(table))
    np.testing.assert_allclose(*ends, rtol=1e-8)


@pytest.mark.parametrize(
    "loss",
    [
        "quantile=.5,.1",
        "quantile=.1,.1",
        "quantile=0,.5",
        "quantile=.5,1",
        "quantile=.1,,.9",
        "quantile=.1,x",
        "huber=.1,.9",
        "quantile=" + ",".join(f"{k / 200:.3f}" for k in range(1, 101)),
    ],
)
def test_quantiles_that_cannot_be_are_refused(loss):
    with pytest.raises(UsageError, match=f"--loss {loss}: expected .* with"):
        nn.Network("2,3", loss=loss)


def test_outputs_that_are_not_one_for_each_quantile_are_refused(table, folder):
    for layers in ("auto,8,1", "auto,8,2", "auto,8,4", "auto,8,6"):
        data = ["--dataset", table, "--model", "m.bin", "--layers", layers]
        done = run(*ONE, *data, "--loss", LOSS, "-q")
        assert done.code == 2
        assert f"--loss {LOSS} needs 3" in done.err
    with pytest.raises(UsageError, match="steps are for several quantiles"):
        nn.Network("2,3:steps", loss="mse")
    with pytest.raises(UsageError, match="steps is for the last layer only"):
        nn.Network("2,3:steps,3", loss=LOSS)
    with pytest.raises(UsageError, match="needs a steps output layer, not tanh"):
        nn.Network("2,3:tanh", loss=LOSS)
    frame = prices(100).assign(other=1.5)
    with pytest.raises(UsageError, match="several quantiles are for one target"):
        nn.fit(frame, ["price", "other"], loss=LOSS)


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": "quantile=.1,.9"},
        {"loss": "quantile=.5"},
        {"loss": "mse"},
        {"loss": "quantile=.9,.5,.1"},
        {"loss": "quantile=.1,.5,nan"},
        {"targets": ["a", "b", "c"]},
        {"layers": "3,8:relu,3:linear"},
    ],
)
def test_a_damaged_file_is_refused(changed, fitted, tmp_path):
    path = tmp_path / "m.bin"
    net = nn.Network("3,8,3", loss=LOSS)
    net.targets = ["price"]
    net.export(path)
    assert nn.Network.load(path).loss == LOSS
    tensors, metadata = model_file.load(path)
    with pytest.raises(DataError, match="m.bin"):
        model_file.save(path, tensors, {**metadata, **changed})
        nn.Network.load(path)


@pytest.mark.parametrize("loss, outputs", [(LOSS, 3), ("quantile=.9", 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_score_of_quantiles_is_the_pinball_loss_that_they_explain(
    loss, outputs, weighted
):
    """As scikit-learn's D2; a search by it can choose."""
    frame = prices(400)
    X = frame[["a", "b"]].to_numpy()
    y = frame.price.to_numpy()
    weights = np.random.default_rng(0).integers(1, 4, 400) if weighted else None
    made = nn.NetworkRegressor(loss=loss, layers=f"auto,8,{outputs}", epochs=40)
    made.fit(X, y)
    told = made.predict(X).reshape(400, outputs)
    shares = SHARES if outputs == 3 else (0.9,)
    own = 0.0
    of_constant = 0.0
    for k, share in enumerate(shares):
        rows = {"sample_weight": weights, "alpha": share}
        repeated = np.repeat(y, 1 if weights is None else weights)
        constant = np.full(400, np.quantile(repeated, share, method="inverted_cdf"))
        own += mean_pinball_loss(y, told[:, k], **rows)
        of_constant += mean_pinball_loss(y, constant, **rows)
    expected = 1 - own / of_constant
    assert made.score(X, y, weights) == pytest.approx(expected, rel=1e-5)
    assert 0 < expected < 1
    if not weighted:
        model = nn.Model(made.network_)
        assert model.score(X, y) == pytest.approx(expected, rel=1e-5)
        columns = frame[["a", "b", "price"]].to_numpy()
        data = nn.load(columns, task="regression")
        assert model.score(data) == pytest.approx(expected, rel=1e-5)
        assert made.score(frame[["a", "b"]].to_numpy(), y.reshape(-1, 1)) > 0
