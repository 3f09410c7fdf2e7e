"""A gap in new rows for a network that was trained on plain numbers alone: the median
of training, in every door."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.tables import as_frame, saved

import nn
from nn.data import medians
from nn.files import model_file

ROWS = 81
NAMES = ["a", "b", "c"]
KINDS = {  # each with its settings
    "one": {"layers": "3,6,1"},
    "pieces": {"layers": "3,6,1", "number_embedding": "pieces4"},
    "unscaled": {"layers": "3,6,1", "scaling": "none"},
    "folds": {"layers": "3,6,1", "folds": 3},
    "chosen": {"effort": "quick"},
}
TOLD = "gaps in column a (1 row), column b (2 rows), where training had none, become the median of training"


def numbers(seed: int = 0) -> dict[str, list]:
    """Columns a, b, c of numbers with three decimals, and y, which a and b decide."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 3)).round(3) + [0, 5, -2]
    columns = dict(zip(NAMES, x.T.tolist(), strict=True))
    return {**columns, "y": (x[:, 0] + x[:, 1] > 5).astype(int).tolist()}


def few(columns: dict[str, list]) -> dict[str, list]:
    return {name: values[:6] for name, values in columns.items()}


def with_gaps(columns: dict[str, list], gap) -> dict[str, list]:
    """The first rows with three gaps, as a format has one."""
    rows = few(columns)
    rows["b"][1] = gap
    rows["b"][4] = gap
    rows["a"][2] = gap
    return rows


def with_medians(columns: dict[str, list]) -> dict[str, list]:
    rows = few(columns)
    rows["b"][1] = rows["b"][4] = float(np.median(columns["b"]))
    rows["a"][2] = float(np.median(columns["a"]))
    return rows


def as_array(columns: dict[str, list]) -> np.ndarray:
    return np.array([columns[name] for name in NAMES], np.float64).T


def predictions(dataset: str, *flags) -> tuple[str, str]:
    """(what --predict writes, what it says)."""
    done = succeed("--predict", "--model", "m.bin", "--dataset", dataset, *flags)
    return done.out, done.err


@pytest.fixture(scope="module", params=list(KINDS))
def trained(request, tmp_path_factory) -> Path:
    """A folder with a model of each kind in m.bin, and its data in train.csv."""
    folder = tmp_path_factory.mktemp(request.param)
    data = saved(numbers(), str(folder / "train.csv"))
    model = nn.fit(data, holdout=0, epochs=3, **KINDS[request.param])
    model.save(folder / "m.bin")
    return folder


@pytest.fixture
def model(trained, folder) -> nn.Model:
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    return nn.Model.load("m.bin")


def test_files_say_how_many_and_give_what_the_medians_give(model):
    saved(with_medians(numbers()), "full.csv")
    saved(with_gaps(numbers(), ""), "gaps.csv")
    expected, silent = predictions("full.csv")
    rows, message = predictions("gaps.csv")
    assert rows == expected
    assert f"gaps.csv: {TOLD}; --strict refuses them" in message
    assert message.count("gaps in") == 1
    assert "gaps in" not in silent
    for word in ("NA", "?", "null"):
        saved(with_gaps(numbers(), word), "gaps.csv")
        assert predictions("gaps.csv")[0] == expected
    refused = run("--predict", "--model", "m.bin", "--dataset", "gaps.csv", "--strict")
    assert refused.code == 65
    assert not refused.out
    assert refused.err.splitlines()[-1].startswith(
        "nn: gaps.csv, row 4, column a: found an empty field"
    )


@pytest.mark.parametrize("suffix", ["parquet", "db"])
def test_nulls_of_other_formats_are_gaps_too(folder, suffix):
    saved(numbers(), "train.csv")
    nn.fit("train.csv", holdout=0, epochs=2, layers="3,6,1").save("m.bin")
    dataset = saved(with_medians(numbers()), f"full.{suffix}")
    full = predictions(dataset)[0]
    rows, message = predictions(saved(with_gaps(numbers(), None), f"gaps.{suffix}"))
    assert rows == full
    assert TOLD in message


@pytest.mark.usual(2)
def test_other_modes_give_the_figures_of_the_medians(model):
    saved(with_medians(numbers()), "full.csv")
    saved(with_gaps(numbers(), ""), "gaps.csv")
    model.save("other.bin")
    explain = argv("--explain --model m.bin --background train.csv -o why.csv --json")
    uses = {
        "test": ["--test", "--model", "m.bin", "--json"],
        "explain": explain,
        "compare": ["--compare", "m.bin,other.bin", "--json"],
    }
    for use, flags in uses.items():
        full = succeed(*flags, "--dataset", f"{'full'}.csv")
        gaps = succeed(*flags, "--dataset", f"{'gaps'}.csv")
        assert full.json == gaps.json, use
        assert TOLD in gaps.err, use
        assert TOLD not in full.err, use
        refused = run(*flags, "--dataset", "gaps.csv", "--strict")
        assert refused.code == 65, use
        assert "found an empty field" in refused.err, use


@pytest.mark.parametrize(
    "form",
    ["array", "masked", "lists", "objects", "pandas", "arrow", "columns", "rows"],
)
def test_rows_in_python_say_so_and_give_what_the_medians_give(model, form):
    full = as_array(with_medians(numbers()))
    columns = with_gaps(numbers(), None)
    del columns["y"]
    gaps = as_array(with_gaps(numbers(), np.nan))
    arrays = {
        "array": lambda: gaps,
        "masked": lambda: np.ma.array(full, mask=np.isnan(gaps)),
        "lists": gaps.tolist,
        "objects": lambda: gaps.astype(object),
    }
    if form in arrays:
        rows = arrays[form]()
    else:
        rows = as_frame(columns, form)
    with pytest.warns(
        nn.NnWarning,
        match="gaps in column a .1 row., column b .2 rows., where training had none",
    ):
        probabilities = model.predict_proba(rows)
    # tables are read as float32
    np.testing.assert_allclose(probabilities, model.predict_proba(full), atol=1e-6)


def test_data_sets_of_python_are_tested_explained_and_judged_so(folder):
    saved(numbers(), "train.csv")
    model = nn.fit("train.csv", holdout=0, epochs=2, layers="3,6,1")
    y = np.array(numbers()["y"][:6])
    full = as_array(with_medians(numbers()))
    gaps = as_array(with_gaps(numbers(), np.nan))
    ds = nn.Dataset(full, y, "binary", ["0", "1"], columns=NAMES)
    other = nn.Dataset(gaps, y, "binary", ["0", "1"], columns=NAMES)
    # a table with gaps
    path = saved(with_gaps(numbers(), ""), "gaps.csv")
    read = nn.load(path, task="binary")
    for data in (other, read):
        with pytest.warns(nn.NnWarning, match="gaps in column a"):
            metrics = nn.test(model.network, data)
            assert metrics == nn.test(model.network, ds)
        with pytest.warns(nn.NnWarning, match="gaps in column a"):
            assert model.importance(data).mean == model.importance(ds).mean
    with pytest.warns(nn.NnWarning, match="gaps in column a"):
        values = model.explain(gaps, "train.csv").values
    expected = model.explain(full, "train.csv").values
    np.testing.assert_allclose(values, expected, atol=1e-6)
    trained = nn.load("train.csv")
    losses = []
    for judging in (ds, other):
        net = nn.Network("3,6,1", "binary")
        nn.train(net, trained, epochs=2, holdout=0.0, validation=judging)
        losses.append(net.history["val_loss"])
    assert losses[0] == losses[1]


def test_a_validation_file_with_gaps_judges_by_the_medians(folder):
    saved(numbers(), "train.csv")
    cases = (("full", with_medians(numbers())), ("gaps", with_gaps(numbers(), "")))
    for name, rows in cases:
        saved(rows, f"{name}.csv")
        flags = argv(
            f"--layers 3,6,1 --epochs 2 --holdout 0 --validation {name}.csv --json"
        )
        done = succeed(
            "--train", "--dataset", "train.csv", "--model", f"{name}.bin", *flags
        )
        assert (TOLD in done.err) == (name == "gaps")
        columns = {"loss": done.json["val_loss"]}
        saved(columns, f"{name}-losses.csv")
    text = (folder / "full-losses.csv").read_text()
    assert text == (folder / "gaps-losses.csv").read_text()


@pytest.mark.usual(2)
def test_exports_take_nan_for_the_median(model, folder):
    gaps = as_array(with_gaps(numbers(), np.nan))
    expected = model.predict_proba(as_array(with_medians(numbers())))
    session = pytest.importorskip("onnxruntime").InferenceSession
    model.export("m.onnx")
    runtime = session("m.onnx")
    columns = {}
    for place, name in enumerate(NAMES):
        columns[name] = gaps[:, [place]]
    inputs = {one.name: columns.get(one.name, gaps) for one in runtime.get_inputs()}
    np.testing.assert_allclose(
        runtime.run(["probabilities"], inputs)[0], expected, atol=1e-6
    )
    if not shutil.which("cc"):
        return
    model.export("m.c")
    assert "NaN becomes the median of training" in (folder / "m.c").read_text()
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-ffp-contract=off"]
    command = ["cc", "-std=c99", *strict, *argv("-shared -fPIC m.c -o m.so -lm")]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "m.so"))
    out = (ctypes.c_float * 1)()
    cases = (
        (library.nn_predict, ctypes.c_float),
        (library.nn_predict_double, ctypes.c_double),
    )
    for predict, real in cases:
        for row, score in zip(gaps.tolist(), expected[:, 1], strict=True):
            assert predict((real * 3)(*row), out) == 0
            assert out[0] == pytest.approx(score, abs=1e-6)


def test_the_median_is_that_of_the_training_rows_which_the_file_keeps(folder):
    columns = numbers()
    saved(columns, "train.csv")
    nn.fit("train.csv", holdout=0.3, epochs=1, layers="3,6,1", split_seed=3).save(
        "m.bin"
    )
    net = nn.Network.load("m.bin")
    split = nn.ds.split_rows(nn.load("train.csv"), 0.3, 0.0, 3)
    held_out = split.holdout
    assert 0 < len(held_out) < ROWS
    expected = np.median(as_array(columns)[split.training].astype(np.float32), axis=0)
    np.testing.assert_allclose(net.medians, expected, rtol=1e-6)
    medians = model_file.load("m.bin")[1]["medians"]
    assert medians == net.medians
    figures = succeed("--info", "--model", "m.bin", "--json").json
    assert figures["medians"] == net.medians


def test_a_model_without_medians_refuses_a_gap_as_before(folder):
    saved(numbers(), "train.csv")
    nn.fit("train.csv", holdout=0, epochs=1, layers="3,6,1").save("new.bin")
    tensors, facts = model_file.load("new.bin")
    del facts["medians"]
    model_file.save("m.bin", tensors, facts)
    saved(with_gaps(numbers(), ""), "gaps.csv")
    for mode in ("--predict", "--test"):
        refused = run(mode, "--model", "m.bin", "--dataset", "gaps.csv")
        assert refused.code == 65
        assert "row 4, column a: found an empty field, expected a number" in refused.err
    with pytest.raises(
        nn.DataError, match="expected a number; the network was trained without gaps"
    ):
        nn.Model.load("m.bin").predict(as_array(with_gaps(numbers(), np.nan)))


def test_networks_of_images_have_no_medians(folder):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (40, 1, 4, 4)).astype(np.uint8)
    y = (x.reshape(40, -1).mean(axis=1) > 127).astype(np.int32)
    ds = nn.Dataset(x, y, "binary", ["0", "1"])
    model = nn.fit(ds, layers="1x4x4,conv2k3,1", epochs=1)
    model.save("m.bin")
    assert "medians" not in json.dumps(model_file.load("m.bin")[1])


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_estimators_say_so_and_give_what_the_medians_give(kind):
    pytest.importorskip("sklearn")
    x = as_array(numbers())
    y = np.array(numbers()["y"])
    estimator = getattr(nn, f"Network{kind}")(effort="quick", epochs=2).fit(x, y)
    gaps = as_array(with_gaps(numbers(), np.nan))
    with pytest.warns(
        nn.NnWarning,
        match="gaps in column 0 .1 row., column 1 .2 rows., where training had none",
    ):
        scores = estimator.predict(gaps)
    expected = estimator.predict(as_array(with_medians(numbers())))
    assert np.array_equal(scores, expected)
    estimator.set_params(strict=True)
    with pytest.raises(ValueError, match="found an empty field"):
        estimator.predict(gaps)


@pytest.mark.parametrize("most", [1, 8, 9, 32, 33, 1000])
def test_gaps_of_every_block_are_filled_and_counted(most, monkeypatch, caplog):
    """Of eleven rows of three numbers, one, two, three, ten or eleven at a time."""
    monkeypatch.setattr(medians, "_SEARCHED_VALUES", most)
    x = np.arange(33, dtype=np.float32).reshape(11, 3)
    x[[0, 4, 5, 10], 0] = np.nan
    x[10, 2] = np.nan
    filled = x.copy()
    counts = medians.fill_gaps(filled, [-1.0, -2.0, -3.0])
    assert counts.tolist() == [4, 0, 1]
    np.testing.assert_array_equal(filled, np.where(np.isnan(x), [-1, -2, -3], x))
    medians.log_filled(counts, ["a", "b", "c"], "t.csv")
    (told,) = caplog.messages
    assert told.startswith("t.csv: gaps in column a (4 rows), column c (1 row), where")
