"""Inputs and targets near 1e9 with a spread of 100: every door gives the digits that
float64 has."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.command_line import run, succeed

import nn

# a float32 near 1e9 has steps of 64
FAR = 1e9
STEP = 1e-4
RNG = np.random.default_rng(0)
A = FAR + RNG.integers(0, 100, 120).astype(float)
B = RNG.normal(size=120).round(3)
ROWS = np.column_stack([A, B])
Y = A + (B * 10).round(1)


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """A folder with models and the same rows in every format."""
    pd = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("far")
    frame = pd.DataFrame({"a": A, "b": B, "y": Y})
    frame.to_csv(folder / "far.csv", index=False)
    frame.to_parquet(folder / "far.parquet")
    frame.to_json(folder / "far.jsonl", orient="records", lines=True)
    np.savez(folder / "far.npz", x=ROWS, y=Y)
    flags = "--networks", 1, "--layers", "2,1", "--epochs", 2, "--holdout", 0, "-q"
    succeed("train", folder / "far.csv", "-m", folder / "m.bin", *flags)
    succeed(
        "train",
        folder / "far.csv",
        "-m",
        folder / "clipped.bin",
        "--clip",
        "--learning_rate",
        1e-6,
        *flags,
    )
    return folder


def truth_of(path) -> np.ndarray:
    """Return what the one layer of a model predicts of ROWS, computed in float64."""
    net = nn.Model.load(path).network
    parameters = net.parameters()[f"layer0.{'weight'}"]
    weight = parameters.astype(np.float64)
    parameters = net.parameters()[f"layer0.{'bias'}"]
    bias = parameters.astype(np.float64)
    x = (ROWS - net.scaling.shift) / net.scaling.scale
    target = net.target_scaling
    values = ((x @ weight.T + bias) * target.scale + target.shift)[:, 0]
    if len(target.low):
        return np.clip(values, *(target.low, target.high))
    return values


def frame_of(rows):
    return pytest.importorskip("pandas").DataFrame(rows, columns=["a", "b"])


DOORS = {
    "array": lambda model, folder: model.predict(ROWS),
    "row": lambda model, folder: np.concatenate(
        [model.predict(ROWS[k : k + 1]) for k in range(len(ROWS))]
    ),
    "frame": lambda model, folder: model.predict(frame_of(ROWS)),
    "list": lambda model, folder: model.predict(ROWS.tolist()),
    "file": lambda model, folder: model.predict(folder / "far.csv"),
}


@pytest.mark.parametrize("name", ["m.bin", "clipped.bin"])
@pytest.mark.parametrize("door", DOORS)
def test_python_predicts_with_the_digits_of_float64(far, door, name):
    model = nn.Model.load(far / name)
    predictions = DOORS[door](model, far)
    assert predictions.dtype == np.float64
    difference = np.abs(np.ravel(predictions) - truth_of(far / name))
    assert difference.max() < STEP


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "npz"])
def test_commands_tell_and_train_with_the_digits_of_float64(far, suffix):
    data = far / f"far.{suffix}"
    truth = truth_of(far / "m.bin")
    rows = run("predict", far / "m.bin", data, "--json", "-q").json["rows"]
    difference = np.abs([row["predicted y"] for row in rows] - truth)
    assert difference.max() < STEP
    assert [row["true y"] for row in rows] == Y.tolist()
    figures = run("test", far / "m.bin", data, "--json", "-q").json
    expected = np.abs(truth - Y).mean()
    assert figures["mae"] == pytest.approx(expected, abs=STEP)
    mean = np.mean((truth - Y) ** 2)
    expected = np.sqrt(mean)
    assert figures["rmse"] == pytest.approx(expected, abs=STEP)
    flags = "--networks", 1, "--layers", "2,1", "--epochs", 2, "--holdout", 0, "-q"
    succeed("train", data, "-m", far / f"{suffix}.bin", *flags)
    path = far / f"{suffix}.bin"
    difference = np.abs(truth_of(path) - truth)
    assert difference.max() < STEP


def test_comparisons_and_importance_have_the_digits_of_float64(far):
    report = run(
        "compare",
        far / "m.bin",
        far / "clipped.bin",
        "--dataset",
        far / "far.csv",
        "--json",
        "-q",
    ).json
    for path in report["models"]:
        difference = np.abs(truth_of(far / Path(path).name) - Y)
        wanted = difference.mean()
        mae = report["metrics"]["mae"]
        assert mae[path] == pytest.approx(wanted, abs=STEP)
    report = run("explain", far / "m.bin", far / "far.csv", "--json", "-q").json
    mean = np.mean((truth_of(far / "m.bin") - Y) ** 2)
    wanted = np.sqrt(mean)
    baseline = report["importance"]["baseline"]
    assert baseline == pytest.approx(wanted, abs=STEP)
    net = nn.Model.load(far / "m.bin").network
    parameters = net.parameters()["layer0.weight"]
    slope = parameters[0, 0] * net.target_scaling.scale[0] / net.scaling.scale[0]
    points = np.array([[value, output[0]] for value, output in report["curves"]["a"]])
    expected = np.diff(points[:, 0]) * slope
    steps = np.diff(points[:, 1])
    assert steps == pytest.approx(expected, abs=STEP)


def test_pages_and_texts_tell_numbers_apart(far):
    """1e+09 at 1e+09 tells nothing."""
    succeed("test", far / "m.bin", far / "far.csv", "--report", far / "page.html", "-q")
    page = (far / "page.html").read_text()
    low = f"{A.min():,.0f}"
    high = f"{A.max():,.0f}"
    assert "1e+09" not in page
    assert f"{low} to {high}, median 1,000,000,0" in page
    # by which the first column matters
    learned = "--layers", "2,1", "--epochs", 20, "--learning_rate", 0.05, "--holdout", 0
    succeed("train", far / "far.csv", "-m", far / "good.bin", *learned, "-q")
    output = run("explain", far / "good.bin", far / "far.csv", "-q").out
    ends = re.search(
        r"^a: the value (\d+\S*) at (\d+\S*), (\d+\S*) at (\d+\S*)$",
        output,
        re.MULTILINE,
    )
    numbers = [text.replace(",", "") for text in ends.groups()]
    first, at_first, last, at_last = map(float, numbers)
    net = nn.Model.load(far / "good.bin").network
    parameters = net.parameters()["layer0.weight"]
    slope = parameters[0, 0] * net.target_scaling.scale[0] / net.scaling.scale[0]
    assert A.min() <= at_first < at_last - 50 <= A.max()
    expected = slope * (at_last - at_first)
    assert last - first == pytest.approx(expected, abs=1)
    truth = truth_of(far / "m.bin")
    output = run(
        "compare",
        far / "m.bin",
        far / "clipped.bin",
        "--dataset",
        far / "far.csv",
        "-q",
    ).out
    pattern = r"^row (\d+), true .*m\.bin (\d+\S*), .*clipped\.bin (\d+\S*)$"
    match = re.search(pattern, output, re.MULTILINE)
    row, one, other = [text.replace(",", "") for text in match.groups()]
    expected = truth[int(row)]
    assert float(one) == pytest.approx(expected, abs=1)
    expected = truth_of(far / "clipped.bin")[int(row)]
    assert float(other) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    "given", [np.asarray, np.ndarray.tolist, frame_of], ids=["array", "list", "frame"]
)
def test_estimators_learn_far_from_0_as_near_it(given):
    pytest.importorskip("sklearn")
    settings = {"layers": "2,1", "networks": 1, "epochs": 20}
    with pytest.warns(nn.NnWarning):  # so short a training has learned nothing
        model = nn.NetworkRegressor(**settings).fit(given(ROWS), Y)
        far = model.predict(given(ROWS))
        model = nn.NetworkRegressor(**settings).fit(ROWS - [FAR, 0], Y - FAR)
        near = model.predict(ROWS - [FAR, 0])
        model = nn.NetworkClassifier(**settings).fit(given(ROWS), Y > FAR + 50)
        score = model.predict_proba(given(ROWS))
        model = nn.NetworkClassifier(**settings).fit(ROWS - [FAR, 0], Y > FAR + 50)
        expected = model.predict_proba(ROWS - [FAR, 0])
    difference = np.abs(far - FAR - near)
    assert difference.max() < 1e-3
    assert np.abs(score - expected).max() < 1e-6
