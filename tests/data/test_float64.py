"""Numbers of float64 stay as they are for a network of float64, through every door."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import nn
from nn.data.column import Column
from nn.data.loading import _in_one_type
from nn.data.table_rows import TableRows
from nn.train.estimators import NetworkRegressor

NAMES = ["a", "b", "y"]
# none of them is one of float32
NUMBERS = np.random.default_rng(0).normal(size=(60, 3))


def written(door: str, folder):
    """Return (data, keywords of load) by which a door has NUMBERS."""
    columns = {name: NUMBERS[:, place] for place, name in enumerate(NAMES)}
    frame = pd.DataFrame(columns)
    path = str(folder / f"numbers.{door}")
    if door == "csv":
        frame.to_csv(path, index=False)
    elif door == "parquet":
        frame.to_parquet(path)
    elif door == "npy":
        np.save(path, NUMBERS)
    elif door == "npz":
        x = NUMBERS[:, :2]
        y = NUMBERS[:, 2]
        np.savez(path, x=x, y=y)
    y = NUMBERS[:, 2].tolist()
    lists = (NUMBERS[:, :2].tolist(), {"y": y})
    rows = (frame.to_dict("records"), {"target": "y"})
    y = NUMBERS[:, 2]
    in_memory = {
        "array": (NUMBERS, {}),
        "array and y": (NUMBERS[:, :2], {"y": y}),
        "lists": lists,
        "frame": (frame, {"target": "y"}),
        "columns": (
            {name: values.tolist() for name, values in columns.items()},
            {"target": "y"},
        ),
        "rows": rows,
    }
    return in_memory.get(door, (path, {}))


@pytest.mark.parametrize(
    "door",
    [
        "array",
        "array and y",
        "lists",
        "frame",
        "columns",
        "rows",
        "csv",
        "parquet",
        "npy",
        "npz",
    ],
)
def test_numbers_of_float64_do_not_pass_through_float32(tmp_path, door):
    data, options = written(door, tmp_path)
    ds = nn.load(data, dtype="float64", **options)
    expected = NUMBERS[:, :2]
    np.testing.assert_array_equal(ds.x, expected)
    y = ds.y.reshape(-1)
    np.testing.assert_array_equal(y, NUMBERS[:, 2])
    net = nn.Network.for_data(ds, "auto,1", dtype="float64")
    nn.train(net, ds, epochs=1, scaling="none", holdout=0.0)
    again = nn.load_for(net, data, y=options.get("y"))
    expected = NUMBERS[:, :2]
    np.testing.assert_array_equal(again.x, expected)
    weights = net.vector[:2]
    bias = net.vector[2]
    expected = NUMBERS[:, :2] @ weights + bias
    predictions = net.predict(again.x).reshape(-1)
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-13)
    target = options.get("target", options.get("y"))
    fitted = nn.fit(
        data,
        target,
        layers="auto,1",
        dtype="float64",
        epochs=1,
        scaling="none",
        holdout=0.0,
    )
    np.testing.assert_array_equal(fitted.network.vector, net.vector)


def test_estimators_of_float64_have_its_numbers():
    settings = {"layers": "auto,1", "dtype": "float64", "epochs": 1, "scaling": "none"}
    x = NUMBERS[:, :2]
    y = NUMBERS[:, 2]
    estimator = NetworkRegressor(**settings).fit(x, y)
    vector = estimator.network_.vector
    np.testing.assert_allclose(
        estimator.predict(x), x @ vector[:2] + vector[2], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize(
    "dtypes, is_told",
    [
        (("float32", "float64"), True),
        (("float64", "float64"), False),
        (("float32", "float32"), False),
    ],
)
def test_a_float64_network_on_numbers_read_as_float32_says_so(dtypes, is_told, caplog):
    of_data, of_network = dtypes
    x = np.random.default_rng(0).normal(size=(60, 2))
    ds = nn.load(x, y=x[:, 0] - x[:, 1], dtype=of_data)
    net = nn.Network("2,3,1", "regression", dtype=of_network)
    nn.train(net, ds, epochs=1)
    assert ("its numbers were read as float32" in caplog.text) is is_told


@pytest.mark.parametrize("coarse", [False, True])
def test_columns_of_two_types_are_of_the_one_that_blurs_none(coarse):
    small = np.linspace(0, 1, 9)
    large = 1e9 + small if coarse else small * 7
    columns = [
        Column("number", values, low=values.min(), high=values.max())
        for values in (small.astype(np.float32), large)
    ]
    rows = TableRows(tuple(columns))
    read = _in_one_type(rows)
    assert read.number_types == {"float64" if coarse else "float32"}
    assert read.columns[1].values == pytest.approx(large, rel=1e-7 if coarse else 1e-6)


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "gaps", "arrow"])
def test_whole_numbers_beyond_2_to_53_keep_their_digits_as_words(kind):
    """Ids and categories of typed columns, with a gap and without."""
    whole = [2**53 - 1, 2**53, 2**53 + 1, 7, 11] * 8
    column = pd.Series(pd.array([*whole[:-1], None], dtype="Int64"))
    if kind not in ("gaps", "arrow"):
        column = pd.Series(whole, dtype=kind)
    frame = pd.DataFrame({"n": column, "a": np.arange(40) % 7, "y": np.arange(40) % 2})
    texts = list(map(str, whole))
    if kind in ("gaps", "arrow"):
        texts[-1] = ""
    if kind == "arrow":
        frame = pa.Table.from_pandas(frame)
    assert nn.load(frame, target="y", id="n").ids["n"] == texts
    ds = nn.load(frame, target="y", categories="n")
    assert ds.x.columns[0].texts() == texts
