"""nn.fit is `nn --train` from Python, and Model what a model file holds."""

from pathlib import Path

import numpy as np
import pytest
from support.command_line import succeed
from support.mixed_table import write_table

import nn
from nn.ds import are_columns
from nn.utils import DataError, UsageError


@pytest.fixture
def csv(folder):
    write_table(folder / "t.csv", 200, 1, "two")
    return folder / "t.csv"


SAME = [  # data, settings of nn.fit, and layers of the command where they are others
    ("t.csv", {}, None),
    ("t.csv", {"effort": "quick", "seed": 3, "dtype": "float64"}, None),
    ("t.csv", {"layers": "auto,8,1", "epochs": 2}, None),
    ("t.csv", {"networks": 2}, None),
    ("t.csv", {"validation": 0.2, "patience": 2, "epochs": 3}, None),
    # as the original program's: two inputs, three outputs
    ("plain.csv", {"layers": "2,4,3", "epochs": 2}, None),
    # `auto` was a number of inputs before the data were known, and no pooling fits one
    (
        "images.npz",
        {"layers": "3x8x8,conv4k3same,maxpool2,8,1", "epochs": 1},
        "auto,conv4k3same,maxpool2,8,1",
    ),
]


@pytest.mark.usual(2)
@pytest.mark.parametrize("data, settings, layers", SAME)
def test_fit_has_the_bytes_of_the_command_with_a_checkpoint_too(
    csv, data, settings, layers
):
    rng = np.random.default_rng(0)
    np.savetxt("plain.csv", rng.random((60, 5)), delimiter=",", fmt="%.4f")
    draws = rng.integers(0, 256, (40, 3, 8, 8), np.uint8)
    np.savez("images.npz", x=draws, y=np.arange(40) % 2)
    if layers:
        flags = {**settings, "layers": layers}
    else:
        flags = settings
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    succeed("--train", "--dataset", data, "--model", "command.bin", *words)
    nn.fit(data, checkpoint="c.ck", **settings).save("python.bin")
    expected = (csv.parent / "command.bin").read_bytes()
    assert (csv.parent / "python.bin").read_bytes() == expected


def test_fit_goes_on_from_a_checkpoint(csv):
    stop = nn.StopRequest()
    epochs = []
    asked = {"layers": "auto,8,1", "epochs": 6}

    class StopsEarly(nn.Callback):
        def epoch(self, epoch, *_):
            epochs.append(epoch)
            if epoch == 3:
                stop.request(15)

    whole = nn.fit("t.csv", **asked)
    ds = nn.load("t.csv")
    saving = {"checkpoint": "c.ck", "callback": StopsEarly()}
    net = nn.Network.for_data(ds, "auto,8,1")
    with pytest.raises(nn.Stopped):
        nn.train(net, ds, epochs=6, stop=stop, **saving)
    resumed = nn.fit("t.csv", **asked, resume="auto", **saving)
    assert epochs == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(resumed.network.vector, whole.network.vector)


def test_a_model_is_what_its_file_holds(csv):
    model = nn.fit("t.csv", effort="quick")
    model.save("m.bin")
    same = nn.Model.load("m.bin")
    ds = nn.load("t.csv")
    expected = model.predict(ds.x)
    assert np.array_equal(same.predict(ds.x), expected)
    predictions = set(model.predict(ds.x))
    assert predictions <= set(ds.classes)
    proba = same.predict_proba(ds.x)
    assert proba.shape == (ds.rows, len(ds.classes))
    assert np.allclose(proba.sum(axis=1), 1)
    command = "--test", "--model", "m.bin", "--dataset", "t.csv", "--json"
    figures = succeed(*command).json
    # Model.drift tells it; rows of the training are no others
    assert figures.pop("drift") is None
    for data in ("t.csv", Path("t.csv"), ds):
        assert same.test(data) == figures
    assert len(same.members) == len(model.members)
    assert len(model.members) > 1
    assert same.columns == ds.columns
    assert "out of fold: " in repr(model)
    assert f"{len(model.members)} networks" in repr(same)
    assert same.explain(ds.x[:2], ds.x[5:9]).feature_names
    names = set(same.importance("t.csv", repeats=2).names)
    explanation = same.explain(ds.x[:2], ds.x[5:9])
    assert names == set(explanation.feature_names)


def test_targets_stand_beside_the_data_or_in_it():
    x = np.random.default_rng(0).normal(size=(80, 3))
    # what is not asked for is no setting beside an effort
    nothing = {"refit": False, "reference": False, "networks": None}
    values = nn.fit(x, x[:, 0] * 2, effort="quick", task="regression", **nothing)
    assert values.predict(x).shape == (80,)
    assert values.network.task == "regression"
    with pytest.raises(UsageError, match="regression, which has no classes"):
        values.predict_proba(x)
    selected = np.where(x[:, 0] > 0, "up", "down")
    named = nn.fit({"a": x[:, 0], "b": x[:, 1], "y": selected}, "y", effort="quick")
    predictions = named.predict({"a": x[:, 0], "b": x[:, 1]})
    assert set(predictions) == {"up", "down"}


TABLE = {"a": [1.0, 2] * 8, "y": [0, 1] * 8}
THREE = {"a": [1.0, 2.5, 3] * 8, "y": [0, 1, 2] * 8}


@pytest.mark.parametrize(
    "data, settings, error, told",
    [
        ({"a": [1.0, 2, 3], "b": [1, 2, 3]}, {"target": "c"}, UsageError, "c"),
        ({"a": [1.0, 2, 3] * 5, "y": ["one"] * 15}, {"target": "y"}, DataError, "one"),
        ({"a": [[1], [2]] * 8, "y": [0, 1] * 8}, {"target": "y"}, DataError, "a"),
        (TABLE, {"effort": "best", "layers": "1,1"}, UsageError, "layers is not for"),
        (TABLE, {"epoch": 3}, UsageError, "did you mean epochs"),
        (TABLE, {"layers": "9,4,1"}, UsageError, "layers 9,4,1: "),
        (THREE, {"layers": "auto,4,1"}, DataError, "layers end in 3 or use"),
        (TABLE, {"epochs": 0}, UsageError, "epochs 0: expected a whole number"),
        (TABLE, {"augment": "shift"}, UsageError, "the data are a table"),
        (None, {}, UsageError, "found NoneType, expected a path, a data frame"),
        (np.zeros((9, 8, 8), np.uint8), {}, UsageError, "images and y beside them"),
        (np.zeros((9, 8, 8), np.uint8), {"target": [0] * 9}, DataError, "only class 0"),
    ],
)
def test_mistakes_are_one_line(data, settings, error, told):
    with pytest.raises(error, match=told):
        nn.fit(data, **settings)


MANY = 300  # columns, beside which rows are few
RARE = {  # what is rare or small about a table: its features and targets
    "rows": lambda rng: (rng.normal(size=(30, 4)), lambda x: x[:, 0] > 0),
    "eight rows": lambda rng: (rng.normal(size=(8, 2)), lambda x: np.arange(8) % 2),
    "a class": lambda rng: (
        rng.normal(size=(60, 3)),
        lambda x: np.array(["a", "b"] * 29 + ["a", "c"]),
    ),
    "the other class": lambda rng: (
        rng.normal(size=(60, 3)),
        lambda x: np.arange(60) == 7,
    ),
    "columns": lambda rng: (rng.normal(size=(60, 1)), lambda x: x[:, 0] > 0),
    "rows of many columns": lambda rng: (
        rng.normal(size=(40, MANY)),
        lambda x: x[:, 0] > 0,
    ),
    "rows of thousands of columns": lambda rng: (
        rng.normal(size=(40, 5000)),
        lambda x: x[:, 0] > 0,
    ),
    "large values": lambda rng: (
        rng.normal(size=(80, 3)),
        lambda x: np.exp(5 * rng.standard_cauchy(80)).clip(0, 1e30),
    ),
    "differences": lambda rng: (rng.normal(size=(60, 3)), lambda x: np.full(60, 1.5)),
}


@pytest.mark.usual(2, 4)
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.long) if "thousands" in what else what
        for what in RARE
    ],
)
def test_the_default_ends_in_a_model_where_something_is_rare(what):
    rng = np.random.default_rng(0)
    x, targets = RARE[what](rng)
    # in a quarter of the time
    if x.shape[1] >= MANY:
        effort = "quick"
    else:
        effort = "standard"
    model = nn.fit(x, targets(x), effort=effort)
    report = model.metrics["out_of_fold"]
    assert model.metrics["effort"] == effort
    assert np.isfinite(model.network.predict(x)).all()
    # one row of a class trains all networks
    assert len(x) - 2 <= report["rows"] <= len(x)
    assert isinstance(model.metrics["learned"], bool)
    assert len(model.predict(x)) == len(x)


@pytest.mark.parametrize("shape", [(40, 1, 6, 5), (40, 6, 5), (40, 6, 5, 3)])
def test_images_are_arrays_too(shape, folder):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, shape, np.uint8)
    y = np.array(["dark", "light"] * 20)
    np.savez("images.npz", x=x, y=y)
    models = [
        nn.fit(*given, effort="quick", epochs=2)
        for given in ((x, y), (x, y.tolist()), ("images.npz",))
    ]
    channels_first = nn.load("images.npz").x
    scores = [model.network.predict(channels_first) for model in models]
    assert np.array_equal(scores[0], scores[1])
    assert np.array_equal(scores[0], scores[2])
    assert set(models[0].predict(channels_first)) <= {"dark", "light"}
    # those of channels last were of other pixels
    predictions = models[0].network.predict(x)
    assert np.array_equal(predictions, scores[0])


def test_a_list_names_columns_unless_it_has_a_value_for_each_row():
    columns = {"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [7, 8]}
    assert are_columns(columns, ["b", "c", "d"])
    assert not are_columns(columns, ["b", "c"])  # one for each of two rows
    assert not are_columns(columns, ["b", "c", "x"])
    assert are_columns("t.csv", ["b", "x"])
    assert not are_columns(np.ones((3, 2)), [1.0, 2.0, 3.0])
    assert are_columns(np.ones((3, 2)), np.int64(1))


def test_a_loss_says_the_task_of_data_unless_it_is_given():
    rows = {"a": list(range(60)), "y": [0, 1] * 30}
    usual = nn.fit(rows, "y", networks=1, epochs=1)
    assert usual.network.task == "binary"
    counts = nn.fit(rows, "y", networks=1, epochs=1, loss="poisson")
    assert counts.network.task == "regression"
    with pytest.raises(UsageError):
        nn.fit(rows, "y", networks=1, epochs=1, loss="poisson", task="binary")


@pytest.mark.parametrize("name", ["out_of_fold", "validated", "mean"])
def test_a_model_shows_the_metrics_by_which_it_was_judged(name):
    net = nn.Network("2,1", "binary")
    net.classes = ["no", "yes"]
    metrics = {name: {"roc_auc": 0.87654, "rows": 9, "brier": None}}
    lines = repr(nn.Model(net, metrics)).splitlines()
    assert lines == [
        "<nn.Model: binary, classes no, yes",
        "  columns: 2 without names",
        "  1 network, 3 parameters",
        f"  {name.replace('_', ' ')}: roc_auc 0.8765>",
    ]
