"""Intervals and sets of classes of exported models: in C and in ONNX those of nn."""

import ctypes

import numpy as np
import pandas as pd
import pytest
from support.c_models import Library
from support.command_line import run, succeed
from support.onnx_models import session

import nn
from nn.core.conformal import LEVELS
from nn.utils import UsageError

ROWS = 200


def table(rows, seed=0):
    """Inputs a and b, two values, three classes and two."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    y = x + (0.2 + np.abs(x)) * rng.normal(size=(rows, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1]})
    frame["y"] = y[:, 0].round(4)
    frame["z"] = 50 * y[:, 1].round(4)
    frame["three"] = np.array(["p", "q", "r"])[np.digitize(y[:, 0], [-0.5, 0.8])]
    frame["two"] = np.where(y[:, 0] > 0.3, "yes", "no")
    return frame


SETTINGS = {"folds": 4, "epochs": 6, "holdout": 0.0, "batch_number": 16}
CASES = {  # of usual(2) the first and the fourth
    "several": (["y", "z"], {"layers": "auto,4,2", **SETTINGS}),
    "value": ("y", {"layers": "auto,4,1", **SETTINGS}),
    "positive": ("y", {"layers": "auto,4,1:softplus", **SETTINGS}),
    "two": ("two", {"layers": "auto,4,1", **SETTINGS}),
    "double": ("y", {"layers": "auto,4,1", "dtype": "float64", **SETTINGS}),
    "default": ("y", {"effort": "quick"}),
    "three": ("three", {"layers": "auto,4,3", **SETTINGS}),
}


@pytest.fixture(scope="module", params=CASES)
def model(request):
    """A model of a case, and rows that it has not seen."""
    target, settings = CASES[request.param]
    names = [target] if isinstance(target, str) else target
    known = table(ROWS)[["a", "b", *names]]
    return nn.fit(known, target, **settings), table(150, seed=1)[["a", "b"]]


@pytest.mark.usual(2)
def test_a_c_file_has_those_of_all_levels(model, folder):
    model, rows = model
    net = model.network
    library = Library.of(net, folder)
    outputs = library.predict(rows.to_numpy(), double=True)
    levels = [level for level in LEVELS if level <= net.conformal.levels[-1]]
    for level in (*levels, 0.83, net.conformal.levels[-1]):
        wanted = ctypes.c_double(level)
        if net.task == "regression":
            low, high = net.conformal.interval(outputs, level)
            for row, out in enumerate(outputs):
                ends = np.zeros((2, net.outputs))
                code = library.call("nn_interval", out, wanted, *ends)
                assert code == 0
                assert ends[0] == pytest.approx(low[row], rel=1e-14, abs=1e-14)
                assert ends[1] == pytest.approx(high[row], rel=1e-14, abs=1e-14)
            continue
        sets = net.conformal.sets(outputs, level)
        for row, out in enumerate(outputs):
            found = np.full(sets.shape[1], -1, np.int32)
            assert library.call("nn_set", out, wanted, found) == 0
            assert found.tolist() == sets[row].astype(int).tolist()


@pytest.mark.usual(2)
def test_a_c_file_refuses_what_it_does_not_know(model, folder):
    model, _ = model
    net = model.network
    library = Library.of(net, folder)
    out = np.zeros(net.outputs, net.value_dtype)
    ends = np.full((2, net.outputs), 7.0)
    found = np.full(4, 7, np.int32)
    for level in (0.9999, float("nan")):
        assert library.call("nn_interval", out, ctypes.c_double(level), *ends) == -1
        assert library.call("nn_set", out, ctypes.c_double(level), found) == -1
    if net.task == "regression":
        of_other_task = ("nn_set", out, ctypes.c_double(0.5), found)
    else:
        of_other_task = ("nn_interval", out, ctypes.c_double(0.5), *ends)
    assert library.call(*of_other_task) == -1
    assert (ends == 7).all()
    assert (found == 7).all()


def test_a_c_file_has_no_scores_that_stand_for_no_class(folder):
    known = table(500)[["a", "b", "two"]]
    model = nn.fit(known, "two", layers="auto,1", **SETTINGS)
    assert model.network.conformal.of_class == [1, 2], "each has rows enough"
    Library.of(model.network, folder)
    source = (folder / "m.c").read_text()
    assert "least_scores_1" in source
    assert "least_scores_0" not in source


def test_a_model_without_them_exports_none(folder):
    model = nn.fit(table(60)[["a", "b", "y"]], "y", layers="auto,1", epochs=1)
    library = Library.of(model.network, folder)
    ends = np.zeros((2, 1))
    out = np.zeros(1, np.float32)
    assert library.call("nn_interval", out, ctypes.c_double(0.5), *ends) == -1
    with pytest.raises(UsageError, match="does not know how sure it is"):
        model.export(folder / "m.onnx", level=0.5)


@pytest.mark.parametrize("level", [0.5, 0.83, 0.9])
def test_an_onnx_file_has_those_of_a_level(model, folder, level):
    model, rows = model
    net = model.network
    model.export(folder / "m.onnx", level=level)
    runtime = session(folder / "m.onnx")
    names = [output.name for output in runtime.get_outputs()]
    values = runtime.run(None, {"features": rows.to_numpy(np.float64)})
    found = dict(zip(names, values, strict=True))
    if net.task == "regression":
        assert names == ["values", "low", "high"]
        low, high = net.conformal.interval(found["values"], level)
        assert found["low"] == pytest.approx(low, rel=1e-12, abs=1e-12)
        assert found["high"] == pytest.approx(high, rel=1e-12, abs=1e-12)
        return
    assert names == ["label", "probabilities", "set"]
    scores = found["probabilities"][:, -net.outputs :]
    assert np.array_equal(found["set"], net.conformal.sets(scores, level))


def test_without_a_level_an_onnx_file_is_as_before(model, folder):
    model, _ = model
    model.export(folder / "m.onnx")
    names = [output.name for output in session(folder / "m.onnx").get_outputs()]
    assert names in (["values"], ["label", "probabilities"])


def test_the_command_exports_a_level(folder, monkeypatch):
    monkeypatch.chdir(folder)
    target, settings = CASES["value"]
    nn.fit(table(ROWS)[["a", "b", "y"]], target, **settings).save("m.bin")
    succeed("export", "m.bin", "-o", "m.onnx", "--level", "0.8", "-q")
    names = [output.name for output in session("m.onnx").get_outputs()]
    assert names == ["values", "low", "high"]
    for data, expected in (
        (("m.c", "--level", "0.8"), "nn_interval and nn_set take one"),
        (("m.onnx", "--level", "0.9999"), "ask for at most 0.99"),
    ):
        result = run("export", "m.bin", "-q", "-o", *data)
        assert result.code == 2, result.err
        assert expected in result.err
        assert result.err.count("\n") == 1
