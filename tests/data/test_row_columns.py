"""Columns that say something of their rows: weights, groups and times."""

import csv
import re

import numpy as np
import pandas as pd
import pytest
from support.command_line import ONE, run, succeed
from support.tables import saved

import nn
from nn.ds import split_rows
from nn.utils import DataError, UsageError

TRAIN = (*ONE, "--dataset", "sales.csv", "--model", "m.bin")


@pytest.fixture(autouse=True)
def columns(folder) -> dict[str, list[str]]:
    """The columns of sales.csv in the current folder."""
    random = np.random.default_rng(4)
    area = random.normal(50, 10, 200).round(2)
    texts = np.array([f"s{i % 20}" for i in range(200)])
    dear = np.where(area > 50, "yes", "no")
    floor = random.integers(0, 5, 200)
    count = random.integers(1, 4, 200)
    sold = np.datetime64("2020-01-01") + random.permutation(200)
    columns = {
        "area": area,
        "floor": floor,
        "seller": texts,
        "count": count,
        "sold": sold,
        "dear": dear,
    }
    columns = {name: values.astype(str).tolist() for name, values in columns.items()}
    saved(columns, "sales.csv")
    return columns


def test_a_column_of_weights_is_no_input_and_counts_in_figures(columns):
    expected = [*map(float, columns["count"])]
    ds = nn.load("sales.csv", weight="count")
    assert ds.weights.tolist() == expected
    train = (*TRAIN, "--epochs", 2, "--json", "--drop", "sold,seller")
    result = succeed(*train, "--weight", "count")
    assert list(result.json["columns"]) == ["area", "floor"]
    figures = succeed("--test", "--model", "m.bin", "--json").json
    counts = [figures[name] for name in ("tp", "fp", "fn", "tn")]
    assert figures["weighted"] is True
    assert sum(counts) > figures["rows"]
    saved({name: columns[name][:30] for name in ("floor", "area")}, "new.csv")
    result = succeed("--predict", "--model", "m.bin", "--dataset", "new.csv")
    assert len(result.out.splitlines()) == 31


@pytest.mark.parametrize("flag, column", [("--weight", "count"), ("--time", "sold")])
def test_a_prediction_does_not_read_what_a_column_says_of_its_rows(
    columns, flag, column
):
    names = [name for name in ("count", "sold", "seller") if name != column]
    succeed(*TRAIN, "--drop", ",".join(names), "--epochs", 1, flag, column)
    predict = ("--predict", "--model", "m.bin", "--dataset", "sales.csv", "--quiet")
    expected = succeed(*predict).out
    columns[column][7:9] = ["", "unknown"]
    saved(columns, "sales.csv")
    assert succeed(*predict).out == expected
    assert run("--test", "--model", "m.bin", "--dataset", "sales.csv").code == 65


def test_a_group_is_never_divided_and_a_test_holds_out_the_same():
    ds = nn.load("sales.csv", group="seller", drop="sold")
    assert "seller" not in ds.columns
    training, _, held = split_rows(ds, 0.2, 0, 0)
    assert not {*ds.groups[training]} & {*ds.groups[held]}
    assert len(held)
    succeed(*TRAIN, "--epochs", 1, "--group", "seller", "--drop", "sold")
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert figures["rows"] == len(held)


def test_the_last_rows_are_held_out_by_times_that_may_be_dates_as_people_write_them(
    columns,
):
    ds = nn.load("sales.csv", time="sold")
    expected = ds.times
    training, _, held = split_rows(ds, 0.2, 0, 0)
    assert "sold" not in ds.columns
    assert len(held) == 40
    assert ds.times[training].max() < ds.times[held].min()
    columns["sold"] = [
        f"{int(day[5:7])}/{day[8:]}/{day[:4]}" for day in columns["sold"]
    ]
    saved(columns, "sales.csv")
    np.testing.assert_array_equal(nn.load("sales.csv", time="sold").times, expected)
    columns["sold"][4] = "soon"
    saved(columns, "sales.csv")
    with pytest.raises(
        nn.DataError,
        match='row 6, column sold: found "soon", expected a number or a date for --time',
    ):
        nn.load("sales.csv", time="sold")


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            ("--target", "dear", "--id", "dear"),
            "--id: column dear is that of --target too",
        ),
        (
            ("--target", "dear", "--drop", "dear"),
            "--drop: column dear is that of --target too",
        ),
        (
            ("--target", "dear", "--group", "-1"),
            "--group: column dear is that of --target too",
        ),
        (
            ("--id", "seller", "--group", "seller"),
            "--group: column seller is that of --id too",
        ),
        (
            ("--weight", "count", "--time", "count"),
            "--time: column count is that of --weight too",
        ),
        *(
            (
                ("--reference", "--layers", "5,4,1", flag, "count"),
                f"{flag} count: --reference has no such thing",
            )
            for flag in ("--weight", "--group", "--time", "--categories", "--missing")
        ),
    ],
)
def test_a_column_has_one_use_and_the_reference_knows_none(flags, message):
    failed = run(
        *(("--train", *TRAIN[3:]) if "--reference" in flags else TRAIN), *flags
    )
    assert failed.code == 2
    assert message in failed.err
    assert failed.err.count("\n") == 1


@pytest.mark.parametrize("order", ["tkwn", "ktwn", "wktn", "wtkn", "tnwk", "knwt"])
def test_rows_without_names_may_lack_the_target_and_what_was_left_out(order, folder):
    """Wherever these stand in the table of the training: t, k. Files, lists, arrays."""
    rng = np.random.default_rng(0)
    number = rng.normal(size=60).round(3)
    columns = {
        "t": (number * 2 + 1).round(4),
        "k": np.ones(60),
        "w": rng.choice(["x", "y"], 60),
        "n": number,
    }

    def rows_of(names):
        return [list(row) for row in zip(*(columns[n].tolist() for n in names))]

    def written(names):
        path = folder / f"{names}.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(rows_of(names))
        return path

    target = order.index("t")
    ds = nn.load(written(order), target=target, task="regression")
    net = nn.Network.for_data(ds, "auto,3,1")
    nn.train(net, ds, epochs=2)
    assert net.config["left_out"] == [order.index("k")]
    expected = net.predict(ds.x)
    for lacks in ("", "t", "tk"):
        names = "".join(name for name in order if name not in lacks)
        rows = rows_of(names)
        doors = (rows, np.array(rows, object), written(names))
        for door in doors:
            np.testing.assert_array_equal(net.predict(door), expected)
        np.testing.assert_array_equal(net.predict(rows[3:4]), expected[3:4])


@pytest.mark.parametrize(
    "role, bad, found",
    [
        ("weight", "-1", "found -1, expected a finite number, 0 or above"),
        ("exposure", "0", "found 0, expected a finite number above 0"),
        ("exposure", "-2", "found -2, expected a finite number above 0"),
        ("weight", "", "found a gap, expected a finite number, 0 or above"),
        ("time", "", "found a gap, expected a number or a date"),
    ],
)
def test_the_first_of_several_bad_values_is_named_by_its_line(role, bad, found, folder):
    """Whatever rows without a target have left before it."""
    values = [str(k + 1) for k in range(20)]
    values[7] = values[11] = bad
    targets = [str(k % 3) for k in range(20)]
    targets[2] = targets[5] = ""
    columns = {"a": [*range(20)], "r": values, "y": targets}
    saved(columns, str(folder / "t.csv"))
    message = f"^t.csv, row 9, column r: {found} for --{role}; correct it"
    with pytest.raises(nn.DataError, match=message):
        nn.load("t.csv", target="y", task="regression", **{role: "r"})


INDEX_ORDERS = ["tanerk", "aetnrk", "nterak", "rkanet"]


def _table_of_roles(rows: int = 60) -> dict[str, np.ndarray]:
    """Counts t of numbers a and n in times e, with an id r, and a constant k."""
    rng = np.random.default_rng(1)
    a, n = rng.normal(size=(2, rows)).round(3) + 5
    times = rng.uniform(1, 4, rows).round(2)
    counts = rng.poisson(times * np.exp(0.3 * (a - n)))
    columns = {"t": counts, "a": a, "n": n, "e": times, "k": np.ones(rows)}
    return columns | {"r": np.arange(rows) + 700}


@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize("order", INDEX_ORDERS)
@pytest.mark.parametrize("has_names", [False, True])
def test_a_column_that_is_known_by_its_index_is_found_without_the_target(
    has_names, order, from_end, folder
):
    """By its name where the table has names, in whatever order; else moved up where
    the target stood before it."""
    columns = _table_of_roles()

    def written(names):
        with open(f"{names}.csv", "w", newline="") as file:
            lines = csv.writer(file)
            if has_names:
                lines.writerow([{"t": "count", "e": "years"}.get(n, n) for n in names])
            lines.writerows(zip(*(columns[n].tolist() for n in names), strict=True))
        return f"{names}.csv"

    def index(name):
        return str(order.index(name) - from_end * len(order))

    uses = {"exposure": "e", "id": "r", "target": "t", "drop": "k"}
    flags = [f"--{flag}={index(name)}" for flag, name in uses.items()]
    train = (*ONE, "--dataset", written(order), "--model", "m.bin", "--epochs", 2)
    succeed(*train, "--loss", "poisson", *flags, "-q")
    net = nn.Network.load("m.bin")
    rates = net.predict(np.column_stack([columns[n] for n in order if n in "an"]))
    expected = rates[:, 0] * columns["e"]
    lacking = order.replace("t", "")
    orders = [order, lacking]
    if has_names:
        orders.append(lacking[::-1])
    for names in orders:
        predict = ("--predict", "--model", "m.bin", "--dataset", written(names))
        succeed(*predict, "-o", "p.csv", "-q")
        with open("p.csv") as file:
            rows = list(csv.reader(file))[1:]
        assert [int(row[1]) for row in rows] == columns["r"].tolist()
        found = [float(row[2]) for row in rows]
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def frame_of_visits(rows: int = 240) -> pd.DataFrame:
    """Return visits of patients on days; some lack the target, the patient or both,
    some have the weight 0."""
    rng = np.random.default_rng(7)
    age = rng.uniform(18, 80, rows)
    days = np.datetime64("2024-03-01") + rng.integers(0, 60, rows)
    frame = pd.DataFrame(
        {
            "age": age,
            "height": rng.normal(170, 9, rows),
            "patient": [f"p{number}" for number in rng.integers(0, 30, rows)],
            "number": rng.integers(0, 30, rows).astype(float),
            "day": days,
            "written": days.astype(str),
            "hour": rng.permutation(rows) / 4,
            "w": rng.choice([0.0, 1.0, 2.5], rows, p=[0.1, 0.6, 0.3]),
            "cost": age * 2 + rng.normal(0, 3, rows),
        }
    )
    frame.loc[frame.index % 11 == 0, "cost"] = np.nan
    frame.loc[frame.index % 11 == 0, ["day", "written", "hour"]] = None
    frame.loc[frame.index % 17 == 0, ["patient", "number"]] = None
    return frame


ROLES = ["patient", "number", "day", "written", "hour", "w"]
FORMS = {
    "array": lambda series: series.to_numpy(),
    "list": lambda series: series.tolist(),
    "series": lambda series: series,
    "column": lambda series: series.to_numpy()[:, None],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "named",
    [
        {"group": "patient"},
        {"group": "number"},
        {"time": "day"},
        {"time": "written"},
        {"time": "hour"},
        {"group": "patient", "time": "day"},
    ],
)
def test_groups_and_times_beside_rows_are_as_their_columns(named, weighted, form):
    frame = frame_of_visits()
    if weighted:
        named = {**named, "weight": "w"}
    drop = [name for name in ROLES if name not in named.values()]
    of_columns = nn.load(frame, target="cost", drop=drop, **named)
    beside = {role: FORMS[form](frame[name]) for role, name in named.items()}
    if weighted:
        beside["weight"] = frame.w.to_numpy()
    rows = frame[["age", "height"]]
    ds = nn.load(rows, y=frame.cost, **beside)
    assert ds.left_out_rows == of_columns.left_out_rows
    assert ds.rows < len(frame)
    np.testing.assert_array_equal(ds.x, of_columns.x)
    for name in ("groups", "times", "weights"):
        expected = getattr(of_columns, name)
        if expected is None:
            assert getattr(ds, name) is None
        else:
            np.testing.assert_array_equal(getattr(ds, name), expected)
    for ours, theirs in zip(
        split_rows(ds, 0.2, 0.2, 3), split_rows(of_columns, 0.2, 0.2, 3), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": "auto,4,1", "epochs": 2, "holdout": 0.3},
        {"layers": "auto,4,1", "epochs": 2, "folds": 3},
        {"effort": "quick"},
    ],
)
@pytest.mark.parametrize("role", ["group", "time"])
@pytest.mark.filterwarnings("ignore::nn.NnWarning")
def test_a_training_with_groups_or_times_beside_rows_is_that_with_their_column(
    role, settings
):
    frame = frame_of_visits()
    name = {"group": "patient", "time": "day"}[role]
    drop = [other for other in ROLES if other != name]
    of_column = nn.fit(frame, "cost", drop=drop, **{role: name}, **settings)
    rows = frame[["age", "height"]]
    beside = nn.fit(rows, frame.cost, **{role: frame[name].to_numpy()}, **settings)
    at_random = nn.fit(rows, frame.cost, **settings)
    assert len(beside.members) == len(of_column.members)
    for ours, theirs in zip(beside.members, of_column.members, strict=True):
        np.testing.assert_array_equal(ours.vector, theirs.vector)
    random = at_random.members[0].vector
    ours = beside.members[0].vector
    assert not np.array_equal(ours, random)


@pytest.mark.filterwarnings("ignore::nn.NnWarning")
def test_a_model_goes_on_with_roles_beside_rows_or_by_their_names():
    """By its name a weight was taken for values of each row."""
    frame = frame_of_visits()
    frame["ward"] = np.where(frame.height > 170, "north", "south")
    names = {"group": "patient", "weight": "w"}
    drop = [name for name in ROLES if name not in names.values()]
    layers = {"layers": "auto,4,1", "epochs": 2}
    model = nn.fit(frame, "cost", drop=drop, **names, **layers)
    by_names = nn.fit(frame, "cost", init=model, **names)
    beside = {role: frame[name].to_numpy() for role, name in names.items()}
    by_arrays = nn.fit(frame, "cost", init=model, **beside)
    np.testing.assert_array_equal(by_arrays.network.vector, by_names.network.vector)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": ["a", "b"]}, "2 groups for 60 rows, expected one for each"),
        ({"group": np.zeros((60, 2))}, "group: expected one value for each row"),
        ({"group": [["a"], ["b", "c"]] * 30}, "group: expected one value for each row"),
        (
            {"time": [*range(59), None]},
            "data row 60, column --time: found a gap, expected a number or a date",
        ),
        (
            {"time": ["2020-01-01"] * 59 + ["n/k"]},
            'data row 60, column --time: found "n/k", expected a number or a date',
        ),
        ({"time": [b"1"] * 60}, "column --time: found bytes, expected numbers"),
    ],
)
def test_groups_and_times_beside_rows_that_cannot_be_are_told(given, message):
    x = np.arange(120.0).reshape(60, 2)
    with pytest.raises(DataError, match=re.escape(message)):
        nn.load(x, y=x[:, 0], **given)


def test_groups_beside_rows_have_one_word_for_a_number_and_the_words_for_a_gap():
    words = ["1", "2", "1.0", "?", "2e0", "none", "3"] * 10
    frame = pd.DataFrame({"a": np.arange(70.0), "g": words, "y": np.arange(70.0) % 9})
    of_column = nn.load(frame, target="y", group="g", missing="none")
    ds = nn.load(frame[["a"]], y=frame.y, group=words, missing="none")
    np.testing.assert_array_equal(ds.groups, of_column.groups)
    assert ds.groups[:7].tolist() == [1, 2, 1, 0, 2, 0, 3]


def test_groups_beside_a_file_are_refused():
    with pytest.raises(UsageError, match="group: values of rows go with a data frame"):
        nn.fit("sales.csv", group=np.arange(200))


def test_rows_for_a_model_have_no_other_roles():
    net = nn.Network("2,1", task="regression")
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        nn.load_for(net, np.ones((3, 3)), weights=np.ones(3))
