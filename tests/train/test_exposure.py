"""--exposure: outputs are multiplied by a column, in training, tests, predictions,
intervals, Python and exports."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import mean_tweedie_deviance, r2_score
from support.c_models import Library
from support.command_line import ONE, argv, run, succeed
from support.onnx_models import outputs

import nn
from nn.core.losses import row_losses
from nn.utils import DataError, UsageError, figure_text

POWERS = {"poisson": 1.0, "tweedie=1.4": 1.4, "gamma": 2.0}


def claims(rows: int = 600, loss: str = "poisson") -> pd.DataFrame:
    """Return policies with claims, whose number, or amount, goes with the years."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 80, rows).round(1),
            "region": rng.choice(list("abc"), rows),
            "years": rng.choice([0.1, 0.25, 0.5, 1.0, 3.0], rows),
        }
    )
    mean = np.exp(0.03 * (frame.age - 50) + (frame.region == "b")) * frame.years
    draw = {"poisson": rng.poisson, "gamma": lambda m: rng.gamma(3, m / 3)}
    values = draw.get(loss, lambda m: rng.poisson(m) * rng.gamma(3, 1 / 3, rows))(mean)
    return frame.assign(claims=values)


@pytest.fixture
def table(folder):
    claims().to_csv("claims.csv", index=False)
    return "claims.csv"


def fail(*arguments, code: int):
    """`nn ARGUMENTS`, which must end with an exit code; returns what it wrote."""
    result = run(*arguments)
    assert result.code == code, result.err
    return result


def read(path) -> list[dict[str, str]]:
    """The rows of a table of predictions."""
    with open(path) as file:
        return list(csv.DictReader(file))


TRAIN = [*ONE, "--loss", "poisson", "--exposure", "years", "--epochs", 6, "-q"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", POWERS)
def test_the_deviance_of_rates_is_that_of_counts(loss, weighted):
    """The loss of y / E beside a, times the weight, is that of y beside E a, times the
    weight that a row has."""
    frame = claims(loss=loss)
    own = np.ones(len(frame))
    if weighted:
        own = np.random.default_rng(1).integers(1, 5, len(frame)) / 2
    ds = nn.load(
        frame.assign(w=own),
        target="claims",
        exposure="years",
        weight="w" if weighted else None,
        drop=None if weighted else "w",
        task="regression",
    )
    rates = ds.for_loss(loss)
    assert rates.for_loss(loss) is rates
    a = np.random.default_rng(0).uniform(0.1, 3, (len(frame), 1))
    years = frame.years.to_numpy()[:, None]
    of_rates = row_losses(loss, a, rates.y.astype(float)) * rates.weights
    of_counts = row_losses(loss, a * years, frame.claims.to_numpy()[:, None])
    mean_weight = (years ** (2 - POWERS[loss])).mean()
    of_counts = of_counts * own
    np.testing.assert_allclose(of_rates * mean_weight, of_counts, rtol=1e-4, atol=1e-6)
    assert (rates.weights / own).mean() == pytest.approx(1)


@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_a_step_follows_the_gradient_of_the_deviance_of_counts(backend):
    """One step of sgd by a batch of all rows, beside NumPy's gradient of a network of
    one layer: log a = log E + w x + b."""
    frame = claims(64)[["age", "years", "claims"]]
    ds = nn.load(
        frame, target="claims", exposure="years", task="regression", dtype="float64"
    )
    net = nn.Network(
        "1,1:exp", loss="poisson", backend=backend, dtype="float64", init="glorot"
    )
    before = {name: value.copy() for name, value in net.parameters().items()}
    rate = 1e-3
    nn.train(
        net,
        ds,
        epochs=1,
        batch_number=64,
        optimizer="sgd",
        learning_rate=rate,
        scaling="none",
        schedule="constant",
        holdout=0.0,
    )
    x, years, y = frame.to_numpy().T

    def loss(w, b):
        mean = np.exp(np.log(years) + w * x + b)
        log_y = np.log(np.where(y > 0, y, 1))
        each = 2 * (y * (log_y - np.log(mean)) - y + mean)
        return each.mean() / years.mean()

    w = before["layer0.weight"].item()
    b = before["layer0.bias"].item()
    h = 1e-6
    slopes = {
        "layer0.weight": (loss(w + h, b) - loss(w - h, b)) / (2 * h),
        "layer0.bias": (loss(w, b + h) - loss(w, b - h)) / (2 * h),
    }
    for name, slope in slopes.items():
        step = (before[name] - net.parameters()[name]).item() / rate
        assert step == pytest.approx(slope, rel=1e-6)


def test_command(table, folder):
    succeed(*TRAIN, "--dataset", table, "--model", "m.bin")
    figures = json.loads(succeed("--test", "--model", "m.bin", "--json", "-q").out)
    assert figures["weighted"] is True
    assert figures["exposure"] == "years"
    assert ", weighted, by years" in succeed("--test", "--model", "m.bin", "-q").out
    succeed("--test", "--model", "m.bin", "-q", "--report", "m.md")
    page = (folder / "m.md").read_text()
    assert "claims by years: on 120 held-out rows" in page
    assert f". Mean deviance {figure_text(figures['deviance'])} (95 %: " in page
    succeed("--predict", "--model", "m.bin", "--dataset", table, "-o", "p.csv", "-q")
    rows = read("p.csv")
    predicted = np.array([float(row["predicted claims"]) for row in rows])
    frame = pd.read_csv(table)
    assert [float(row["true claims"]) for row in rows] == frame.claims.tolist()
    model = nn.Model.load("m.bin")
    features = frame[["age", "region"]]
    assert model.columns == ["age", "region"]
    one = model.predict(features.assign(years=1.0))
    np.testing.assert_allclose(predicted, one * frame.years, rtol=1e-5)
    np.testing.assert_allclose(model.predict(frame), predicted, rtol=1e-5)
    np.testing.assert_allclose(model.predict(table), predicted, rtol=1e-5)
    # by scikit-learn's way to judge rates
    all_rows = model.test(table)["deviance"]
    rates = frame.claims / frame.years, predicted / frame.years
    expected = mean_tweedie_deviance(*rates, sample_weight=frame.years, power=1)
    assert all_rows == pytest.approx(expected, rel=1e-5)
    # the rate goes with age and region; without exposure it would go with neither alone
    constant = frame.claims.sum() / frame.years.sum() * np.ones(len(frame))
    of_mean = mean_tweedie_deviance(
        rates[0], constant, sample_weight=frame.years, power=1
    )
    assert all_rows < 0.9 * of_mean


def test_models_with_and_without_exposures_are_not_compared(table, folder):
    succeed(*TRAIN, "--dataset", table, "--model", "m.bin")
    frame = pd.read_csv(table)
    by_rows = nn.fit(frame, "claims", loss="poisson", layers="auto,4,1", epochs=2)
    with pytest.raises(UsageError, match="a predicts by exposures and the other does"):
        nn.compare("m.bin", by_rows, frame)
    with pytest.raises(UsageError, match="b predicts by exposures and the other does"):
        nn.compare(by_rows, "m.bin", frame)


def test_predictions_of_folds_are_counts(table, folder):
    succeed(*TRAIN, "--dataset", table, "--model", "m.bin", "--folds", 3, "-o", "f.csv")
    rows = read("f.csv")
    frame = pd.read_csv(table)
    found = {int(row["row"]): row for row in rows}
    for row, line in found.items():
        assert float(line["true claims"]) == pytest.approx(frame.claims[row], rel=1e-5)
    predicted = [float(found[row]["predicted claims"]) for row in sorted(found)]
    years = frame.years[sorted(found)]
    assert np.corrcoef(predicted, years)[0, 1] > 0.5


def test_effort_intervals_and_going_on(table, folder):
    frame = pd.read_csv(table)
    model = nn.fit(
        frame, "claims", loss="poisson", exposure="years", folds=4, layers="auto,8,1"
    )
    low, high = model.predict_interval(frame, 0.9)
    of_one_low, of_one_high = model.predict_interval(frame.assign(years=1.0), 0.9)
    np.testing.assert_allclose(low, of_one_low * frame.years, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(high, of_one_high * frame.years, rtol=1e-5)
    model.save("m.bin")
    succeed(*argv(f"--predict --model m.bin --dataset {table} --level 0.9 -o p.csv"))
    written = pd.read_csv("p.csv")
    np.testing.assert_allclose(written.high, high, rtol=1e-5)
    again = nn.fit(frame, "claims", init=model, epochs=1)
    assert again.network.config["table"]["exposure"] == "years"
    assert again.predict(frame) != pytest.approx(model.predict(frame))
    chosen = nn.fit(frame, "claims", loss="poisson", exposure="years", effort="quick")
    assert chosen.metrics["learned"] is True


def test_estimator(folder):
    frame = claims()
    X = frame.drop(columns="claims")
    made = nn.NetworkRegressor(
        loss="poisson", exposure="years", layers="auto,8,1", epochs=5
    )
    fitted = made.fit(X, frame.claims)
    assert fitted.n_features_in_ == 3
    one = fitted.predict(X.assign(years=1.0))
    np.testing.assert_allclose(fitted.predict(X), one * frame.years, rtol=1e-5)
    numbers = X[["age", "years"]].to_numpy()
    by_place = nn.NetworkRegressor(
        loss="poisson", exposure="1", layers="auto,8,1", epochs=5
    ).fit(numbers, frame.claims)
    twice = by_place.predict(numbers * [1, 2])
    np.testing.assert_allclose(twice, 2 * by_place.predict(numbers), rtol=1e-5)


@pytest.mark.parametrize("columns", [["age", "region"], ["age"]])
def test_exports_have_the_exposure_as_an_input(columns, folder):
    frame = claims()[[*columns, "years", "claims"]]
    settings = {"loss": "poisson", "exposure": "years", "layers": "auto,8,1"}
    model = nn.fit(frame, "claims", folds=4, **settings)
    expected = model.predict(frame)
    model.export("m.onnx", level=0.9)
    numbers = frame[["age"]].to_numpy(np.float64)
    if "region" in columns:
        inputs = {"age": numbers, "region": frame[["region"]].to_numpy(object)}
    else:
        inputs = {"features": numbers}
    inputs["years"] = frame[["years"]].to_numpy(np.float64)
    found = outputs(folder / "m.onnx", inputs)
    np.testing.assert_allclose(found["values"][:, 0], expected, rtol=1e-5)
    low, high = model.predict_interval(frame, 0.9)
    np.testing.assert_allclose(found["low"][:, 0], low, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["high"][:, 0], high, rtol=1e-5)

    library = Library.of(model.network, folder)
    codes = [library.code(1, word) for word in frame.get("region", [])]
    rows = np.column_stack(
        [numbers, *([codes] if codes else []), frame[["years"]].to_numpy()]
    )
    of_c = library.predict(rows, double=True)
    np.testing.assert_allclose(of_c[:, 0], expected, rtol=1e-5)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        code, _ = library.answer([*rows[0][:-1], wrong], double=True)
        assert code == len(rows[0])


@pytest.mark.parametrize(
    "wrong, found",
    [(0, "found 0"), (-2, "found -2"), ("", "found a gap"), ("long", 'found "long"')],
)
def test_an_exposure_that_cannot_be_is_refused(wrong, found, table, folder):
    frame = pd.read_csv(table, dtype=object)
    frame.loc[41, "years"] = wrong
    frame.to_csv("wrong.csv", index=False)
    done = fail(*TRAIN, "--dataset", "wrong.csv", "--model", "m.bin", code=65)
    for word in ("row 43", "column years", found, "above 0 for --exposure"):
        assert word in done.err, done.err
    succeed(*TRAIN, "--dataset", table, "--model", "m.bin")
    done = fail("--predict", "--model", "m.bin", "--dataset", "wrong.csv", code=65)
    for word in ("row 43", "column years", found, "above 0 for --exposure"):
        assert word in done.err, done.err


def test_a_target_that_the_loss_cannot_have_is_told_as_the_file_has_it(table, folder):
    frame = pd.read_csv(table)
    frame["claims"] = frame["claims"].astype(float)
    frame.loc[41, ["claims", "years"]] = -2.75, 0.7
    frame.to_csv("wrong.csv", index=False)
    done = fail(*TRAIN, "--dataset", "wrong.csv", "--model", "m.bin", code=65)
    told = "wrong.csv, row 43, column claims: found -2.75, expected 0 or more"
    assert told in done.err, done.err


def test_what_has_no_exposure_is_refused(table, folder):
    data = ["--dataset", table, "--model", "m.bin"]
    done = fail(*ONE, *data, "--exposure", "years", "--loss", "mae", "-q", code=2)
    assert "--exposure: is for --loss poisson, gamma or tweedie=P, not mae" in done.err
    for task in ("regression", "multiclass"):
        with pytest.raises(UsageError, match="--exposure: is for"):
            nn.fit(table, "claims", exposure="years", task=task)
    succeed(*TRAIN, *data)
    frame = pd.read_csv(table)
    model = nn.Model.load("m.bin")
    with pytest.raises(UsageError, match="--exposure years: no column of this name"):
        model.predict(frame.drop(columns="years"))
    ds = nn.load(frame, target="claims", task="regression")
    with pytest.raises(DataError, match="--exposure: row 0: found 0, expected .*above"):
        ds.exposures = np.zeros(ds.rows)
        ds.check()


# ---- exposures beside the rows, from Python

LEARN = {"loss": "poisson", "layers": "auto,8,1", "epochs": 4}


@pytest.mark.parametrize("as_array", [False, True])
def test_exposures_beside_rows_are_as_their_column(as_array, folder):
    """With weights, a row of weight 0 and one without a target: the same network."""
    frame = claims()[["age", "years", "claims"]].assign(w=2.0)
    frame.loc[5, "w"] = 0
    frame.loc[[3, 70], "claims"] = np.nan
    columns = {"exposure": "years", "weight": "w"}
    expected = nn.fit(frame, "claims", **LEARN, **columns, folds=3)
    X = frame[["age"]]
    if as_array:
        X = X.to_numpy()
    beside = {"exposure": frame.years.tolist(), "weight": frame.w}
    model = nn.fit(X, frame.claims.to_numpy(), **LEARN, **beside, folds=3)
    for one, other in zip(model.members, expected.members, strict=True):
        np.testing.assert_array_equal(one.vector, other.vector)
    assert model.metrics["mean"] == expected.metrics["mean"]
    assert model.network.row_hashes is not None
    years = frame.years
    predicted = expected.predict(frame)
    np.testing.assert_array_equal(model.predict(X, exposure=years), predicted)
    np.testing.assert_array_equal(
        model.network.predict(X, years)[:, 0], model.predict(X, years)
    )
    for mine, other in zip(
        model.predict_interval(X, 0.9, exposure=years),
        expected.predict_interval(frame, 0.9),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, other)
    model.save("m.bin")
    again = nn.Model.load("m.bin")
    np.testing.assert_array_equal(again.predict(X, exposure=years), predicted)
    # an array takes the place of a column
    np.testing.assert_allclose(
        expected.predict(frame, exposure=2 * years), 2 * predicted, rtol=1e-6
    )
    ds = nn.load_for(model, X, y=frame.claims.to_numpy(), **beside)
    expected_figures = expected.test(frame)
    figures = model.test(ds)
    assert figures["exposure"] == "exposure"
    assert figures["deviance"] == expected_figures["deviance"]
    further = nn.fit(X, frame.claims.to_numpy(), init=model, epochs=1, **beside)
    again = nn.fit(frame, "claims", init=expected, epochs=1)
    for one, other in zip(further.members, again.members, strict=True):
        np.testing.assert_array_equal(one.vector, other.vector)


def test_a_table_has_its_column_where_training_had_exposures_beside(folder):
    frame = claims()
    X = frame[["age", "region"]]
    model = nn.fit(X, frame.claims, **LEARN, exposure=frame.years)
    expected = model.predict(X, exposure=frame.years)
    table = X.assign(exposure=frame.years)
    np.testing.assert_array_equal(model.predict(table), expected)
    model.save("m.bin")
    table.to_csv("t.csv", index=False)
    succeed("--predict", "--model", "m.bin", "--dataset", "t.csv", "-o", "p.csv")
    written = [float(row["predicted claims"]) for row in read("p.csv")]
    np.testing.assert_allclose(written, expected, rtol=1e-5)
    model.export("m.onnx")
    inputs = {
        "age": X[["age"]].to_numpy(np.float64),
        "region": X[["region"]].to_numpy(object),
        "exposure": frame[["years"]].to_numpy(np.float64),
    }
    found = outputs(folder / "m.onnx", inputs)
    np.testing.assert_allclose(found["values"][:, 0], expected, rtol=1e-5)
    with pytest.raises(UsageError, match="no column of this name.*give exposure, a nu"):
        model.predict(X)
    with pytest.raises(UsageError, match="a column called exposure is an input"):
        nn.fit(table, frame.claims, **LEARN, exposure=frame.years)
    with pytest.raises(UsageError, match="--exposure: values of rows go with a data f"):
        nn.fit("t.csv", "age", **LEARN, exposure=frame.years.to_numpy())


@pytest.mark.parametrize("sparse", [False, True])
def test_estimator_takes_exposures_beside_rows(sparse):
    frame = claims()
    numbers = frame[["age", "years"]].to_numpy()
    by_column = nn.NetworkRegressor(**LEARN, exposure="1").fit(numbers, frame.claims)
    X = numbers[:, :1]
    if sparse:
        X = csr_array(X)
    years = frame.years
    made = nn.NetworkRegressor(**LEARN).fit(X, frame.claims, exposure=years)
    np.testing.assert_array_equal(made.network_.vector, by_column.network_.vector)
    expected = by_column.predict(numbers)
    np.testing.assert_allclose(made.predict(X, exposure=years), expected, rtol=1e-6)
    rates = made.predict(X)
    np.testing.assert_allclose(rates * years, expected, rtol=1e-6)
    score = r2_score(frame.claims, expected)
    assert made.score(X, frame.claims, exposure=years) == pytest.approx(score, rel=1e-6)
    assert made.score(X, frame.claims) == r2_score(frame.claims, rates)
    with pytest.raises(ValueError, match="exposure: the model was trained without"):
        nn.NetworkRegressor(**LEARN).fit(X, frame.claims).predict(X, exposure=years)


def test_estimator_goes_on_and_is_judged_with_exposures():
    frame = claims()
    X = frame[["age"]].to_numpy()
    y = frame.claims
    years = frame.years.to_numpy()
    half = slice(0, 300)
    judged = (X[300:], y[300:], None, years[300:])
    made = nn.NetworkRegressor(**LEARN).fit(
        X[half], y[half], eval_set=judged, exposure=years[half]
    )
    column = nn.NetworkRegressor(**LEARN, exposure="1")
    both = np.column_stack([X, years])
    column.fit(both[half], y[half], eval_set=(both[300:], y[300:]))
    assert made.figures_["val_loss"] == column.figures_["val_loss"]
    part = nn.NetworkRegressor(**LEARN).partial_fit(X[half], y[half], None, years[half])
    part.partial_fit(X[300:], y[300:], exposure=years[300:])
    column = nn.NetworkRegressor(**LEARN, exposure="1").partial_fit(both[half], y[half])
    column.partial_fit(both[300:], y[300:])
    np.testing.assert_array_equal(part.network_.vector, column.network_.vector)


@pytest.mark.parametrize(
    "wrong, found",
    [
        (0, "row 41: found 0, expected a finite number above 0"),
        (-2, "row 41: found -2, expected a finite number above 0"),
        (np.nan, "row 41: found nan, expected a finite number above 0"),
        ("long", "found values that are no numbers, expected one number for each row"),
        (None, "599 exposures for 600 rows, expected one for each"),
    ],
)
def test_exposures_beside_rows_that_cannot_be_are_refused(wrong, found):
    frame = claims()
    X = frame[["age"]]
    years = frame.years.astype(object)
    years[41] = wrong
    if wrong is None:
        years = years[:-1]
    made = nn.NetworkRegressor(**LEARN)
    with pytest.raises(DataError, match=found):
        nn.fit(X, frame.claims, **LEARN, exposure=years)
    with pytest.raises(ValueError, match=found):
        made.fit(X, frame.claims, exposure=years)
    model = nn.fit(X, frame.claims, **LEARN, exposure=frame.years)
    made.fit(X, frame.claims, exposure=frame.years)
    with pytest.raises(DataError, match=found):
        model.predict(X, exposure=years)
    with pytest.raises(ValueError, match=found):
        made.predict(X, exposure=years)
    column = nn.NetworkRegressor(**LEARN, exposure="age")
    with pytest.raises(ValueError, match="the column age by the parameter, and values"):
        column.fit(X, frame.claims, exposure=frame.years)
    ds = nn.load(X, y=frame.claims, task="regression")
    with pytest.raises(UsageError, match="exposure: is for data that are to be read"):
        nn.fit(ds, **LEARN, exposure=frame.years)
    with pytest.raises(UsageError, match="weight: is for data that are to be read"):
        nn.fit(ds, layers="auto,1", weight="age")
    plain = nn.fit(X, frame.claims, **LEARN)
    with pytest.raises(UsageError, match="exposure: the model was trained without"):
        plain.predict(X, exposure=frame.years)


def test_a_model_is_scored_with_exposures():
    frame = claims()
    model = nn.fit(frame, "claims", **LEARN, exposure="years")
    X = frame.drop(columns="claims")
    expected = model.test(frame)["r2"]
    assert model.score(X, frame.claims) == pytest.approx(expected, rel=1e-6)
    features = X.drop(columns="years")
    assert model.score(features, frame.claims, frame.years) == pytest.approx(
        expected, rel=1e-6
    )
