"""Intervals and sets of classes in a model file: what is saved is what is loaded, and
nothing hostile gets through."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from support.command_line import run

import nn
from nn.core.conformal import ClassSets, Intervals
from nn.files import model_file
from nn.utils import DataError

OLD = Path(__file__).parents[1] / "version-0.1"


def written(path, tensors, metadata):
    """Write what `save` would if it did not look at what it is given."""
    model_file._MODEL_FILE.save(path, tensors, metadata)
    return path


def trained(classes=None):
    """A model whose two targets, or classes, are told by validation rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = x + rng.normal(size=(120, 2))
    if classes:
        y = np.array(classes)[(y[:, 0] > 0).astype(int) + (y[:, 0] > 1)]
    settings = {"layers": "auto,3" if classes else "2,2", "validation": 0.5}
    return nn.fit(x, y, epochs=2, holdout=0.0, **settings).network


@pytest.fixture(scope="module")
def intervals(tmp_path_factory):
    """(path, tensors, metadata) of a regression."""
    path = tmp_path_factory.mktemp("intervals") / "m.bin"
    trained().export(path)
    return path, *model_file.load(path)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """(path, tensors, metadata) of three classes."""
    path = tmp_path_factory.mktemp("sets") / "m.bin"
    trained(["a", "b", "c"]).export(path)
    return path, *model_file.load(path)


@pytest.mark.parametrize(
    ("kind", "model"), [(Intervals, "intervals"), (ClassSets, "sets")]
)
def test_it_comes_back_from_files_and_copies(kind, model, request):
    path, *_ = request.getfixturevalue(model)
    net = nn.Network.of_file(path)
    assert isinstance(net.conformal, kind)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.conformal == net.conformal
    net.export(path.with_name("again.bin"))
    assert path.with_name("again.bin").read_bytes() == path.read_bytes()


def test_a_file_is_some_hundred_bytes_larger(intervals):
    _, _, metadata = intervals
    numbers = [
        value
        for target in metadata["conformal"]["targets"]
        for name in ("at", "scale", "low", "high")
        for value in target[name]
    ]
    assert 8 * len(numbers) / 2 < 1000, "of each target"


HOSTILE_TARGETS = (
    ("at", []),
    ("at", [0.0, 0.0]),
    ("at", [1.0, 0.0]),
    ("at", ["0"]),
    ("at", [0.0, True]),
    ("at", [0.0, 1.0]),
    ("scale", [1.0]),
    ("scale", 0.0),
    ("scale", -1.0),
    ("low", []),
    ("low", None),
    ("high", [1.0]),
    ("bounds", None),
    ("bounds", [0.0]),
    ("bounds", [0.0, "1"]),
    ("bounds", [0.0, None, 1.0]),
    ("more", 1),
)


@pytest.mark.parametrize(("name", "value"), HOSTILE_TARGETS)
def test_hostile_residuals_are_refused(intervals, tmp_path, name, value):
    _, tensors, metadata = intervals
    metadata = copy.deepcopy(metadata)
    target = metadata["conformal"]["targets"][1]
    if name == "scale" and isinstance(value, float):
        value = [value] * len(target["at"])
    target[name] = value
    path = written(tmp_path / "h.bin", tensors, metadata)
    with pytest.raises(DataError, match="`conformal` is .*, expected levels"):
        nn.Network.of_file(path)
    result = run("predict", str(path), "t.csv", "--level", "0.5")
    assert result.code == 65
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "levels",  # of two numbers the first and the last one
    [(0.0, 0.9), (0.1, 1.0), [], [0.5, 0.5], [0.9, 0.5], ["0.5"], None, 0.5, [True]],
)
@pytest.mark.parametrize("model", ["intervals", "sets"])
def test_hostile_levels_are_refused(model, levels, tmp_path, request):
    _, tensors, metadata = request.getfixturevalue(model)
    metadata = copy.deepcopy(metadata)
    if isinstance(levels, tuple):
        levels = [levels[0], *metadata["conformal"]["levels"][1:-1], levels[1]]
    metadata["conformal"]["levels"] = levels
    with pytest.raises(DataError, match="`conformal` is"):
        nn.Network.of_file(written(tmp_path / "h.bin", tensors, metadata))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("least", []),
        ("least", [[0.5]]),
        ("least", [["x"]]),
        ("of_class", [0, 0, 9]),
        ("of_class", [0, 0, -1]),
        ("of_class", [0, 0, 0.0]),
        ("more", 1),
    ],
)
def test_hostile_sets_are_refused(sets, tmp_path, name, value):
    _, tensors, metadata = sets
    metadata = copy.deepcopy(metadata)
    metadata["conformal"][name] = value
    with pytest.raises(DataError, match="`conformal` is .*, expected levels"):
        nn.Network.of_file(written(tmp_path / "h.bin", tensors, metadata))


def test_those_of_other_outputs_are_refused(intervals, sets, tmp_path):
    _, tensors, metadata = intervals
    facts = copy.deepcopy(metadata)
    del facts["conformal"]["targets"][1]
    with pytest.raises(DataError, match="`conformal` has 1 entries"):
        nn.Network.of_file(written(tmp_path / "one.bin", tensors, facts))
    facts = {**metadata, "conformal": sets[2]["conformal"]}
    with pytest.raises(DataError, match="`conformal` is of no regression"):
        nn.Network.of_file(written(tmp_path / "task.bin", tensors, facts))
    facts = copy.deepcopy(sets[2])
    facts["conformal"]["of_class"].append(0)
    with pytest.raises(DataError, match="`conformal` has 4 entries"):
        nn.Network.of_file(written(tmp_path / "four.bin", sets[1], facts))


@pytest.mark.parametrize("name", ["numbers", "binary", "classes", "table"])
def test_models_of_before_say_that_they_know_none(name):
    model = str(OLD / f"{name}.bin")
    rows = str(OLD / f"{name}.csv")
    assert run("predict", model, rows, "-q").code == 0
    for mode in ("predict", "test"):
        result = run(mode, model, rows, "--level", "0.9")
        assert result.code == 2, result.err
        assert "the model does not know how sure it is" in result.err
    assert "no 30 rows judged it" in run("info", model).out
    figures = run("test", model, rows, "--json").json
    assert "coverage" not in figures
