"""The same table of any columns in another format, or as a data frame, gives the same network and predictions."""

import json

import numpy as np
import pytest
from support.command_line import succeed
from support.people import as_csv, people, train_on_people

import nn


@pytest.fixture
def trained(folder) -> None:
    train_on_people(folder)


def frame_of(columns: dict[str, list[str]]):
    """A data frame with the types that pandas finds, dates as dates."""
    pandas = pytest.importorskip("pandas")
    import io

    return pandas.read_csv(io.StringIO(as_csv(columns)), parse_dates=["day"]).rename(columns={"Unnamed: 0": ""})


def parameters_and_encoding(path_or_frame, **choices) -> tuple[dict, dict]:
    ds = nn.load(path_or_frame, **choices)
    net = nn.Network(f"{ds.inputs},8,1", ds.task)
    nn.train(net, ds, epochs=2)
    return net.parameters(), net.encoding.to_dict() | {"sha256": ds.sha256}


def in_forms(frame, name: str) -> dict:
    """Write a data frame as files of all kinds; returns what nn.load takes for each."""
    import sqlite3

    with sqlite3.connect(f"{name}.db") as database:
        truths = {column: "BOOLEAN" for column in frame.select_dtypes(bool)}
        frame.to_sql(name, database, index=False, dtype=truths)
    frame.to_parquet(f"{name}.parquet", row_group_size=77)
    frame.to_feather(f"{name}.feather")
    return {"parquet": f"{name}.parquet", "feather": f"{name}.feather", "sqlite": f"{name}.db:{name}", "frame": frame}


def everything(count: int = 300):
    """A data frame with a column of each kind, most with gaps, and one of each reason to be left out."""
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(11)
    amount, some = random.normal(size=count).round(3), lambda values: np.where(random.random(count) < 0.1, None, values)
    words = {name: random.choice(list(name), count) for name in ("abc", "uvwxyz")}
    frame = pandas.DataFrame({
        "amount": amount, "gappy": some(random.normal(size=count).round(2)).astype(float),
        "count": random.integers(0, 9, count), "land": some(words["abc"]), "town": random.zipf(1.3, count) % 90,
        "street": [f"{a}{b}" for a, b in zip(words["uvwxyz"], random.integers(0, 9, count), strict=True)],
        "member": random.choice(["yes", "no"], count), "flag": random.random(count) < 0.5,
        "day": np.datetime64("2020-01-01", "s") + random.integers(0, 900, count).astype("timedelta64[D]"),
        "price": [f"${n:,}.00" for n in random.integers(1, 9999, count)], "weight": random.integers(1, 3, count),
        "id": random.permutation(count), "name": [f"n{i}" for i in range(count)], "planet": "earth",
        "rich": some(np.where(amount > 0, "rich", "poor")), "shop_id": random.integers(100, 120, count),
        "zip": some(random.integers(10, 15, count)).astype(float),
    })  # fmt: skip
    return frame[[*frame.columns.drop("rich"), "rich"]]


@pytest.mark.parametrize("flags", [["--layers", "auto,8,1"], ["--folds", "3", "--layers", "auto,8,1"]])
def test_a_mixed_table_trains_to_the_same_bytes_in_any_form_on_any_threads_and_in_parts(folder, flags):
    """All of a model but the recorded path: through every kind of file, 1 to 4 threads, with and without --memory."""
    pytest.importorskip("pyarrow")
    frame = everything()
    frame.to_csv("t.csv", index=False)
    sources = {"csv": "t.csv", **in_forms(frame.assign(day=frame["day"].astype(str)), "t")}
    del sources["frame"]
    frame.to_parquet("t.parquet", row_group_size=77)
    runs = [(form, threads, ()) for form in sources for threads in (1, 4)]
    if "--folds" not in flags:
        runs += [(form, 2, ("--memory", "4G")) for form in sources]
    found = {}
    for form, threads, more in runs:
        given = ("--dataset", sources[form], "--categories", "town", "--weight", "weight", "--epochs", 3, *flags, *more)
        succeed("--train", "--model", "m.bin", "--threads", threads, "--backend", "omp", "--seed", 3, *given)
        net = nn.Model.load("m.bin").network
        for one in {net, *net.members}:
            one.describe(dataset={**one.dataset, "path": "t"})
        net.export("m.bin")
        found[form, threads, more] = (folder / "m.bin").read_bytes()
    kinds = {encoder.kind for encoder in net.encoding.encoders}
    assert kinds == {"number", "category", "yes/no", "date", "written number"}
    assert set(net.columns) == set(frame) - {"id", "name", "planet", "weight", "rich"}
    different = [run for run in runs if found[run] != found[runs[0]]]
    assert not different, different


def test_a_category_of_numbers_is_the_same_however_they_are_written(folder):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    written, values = ["1", "1.0", "1e0", "01", "2.50", "25e-1", "-0", "0.0", "?"], [1, 1, 1, 1, 2.5, 2.5, 0, 0, None]
    count, order = 270, [i % 9 for i in np.random.default_rng(0).permutation(270)]
    rows = [f"{written[i]},{written[i]},{n % 7}.5,{'no' if n % 2 else 'yes'}" for n, i in enumerate(order)]
    (folder / "a.csv").write_text("\n".join(["kind,team,x,y", *rows]))
    column = [values[i] for i in order]
    y = ["no" if n % 2 else "yes" for n in range(count)]
    frame = pandas.DataFrame({"kind": column, "team": column, "x": [n % 7 + 0.5 for n in range(count)], "y": y})
    choices = {"categories": "kind", "group": "team"}
    one, how = parameters_and_encoding("a.csv", **choices)
    assert set(how["columns"][0]["values"]) | {None} == {"0", "1", "2.5", None}  # a group is held out
    for form, source in in_forms(frame, "a").items():
        other, how_too = parameters_and_encoding(source, **choices)
        assert how == how_too, form
        assert all(np.array_equal(one[name], other[name]) for name in one), form
    succeed("--train", "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1, "--categories", "kind")
    succeed("--test", "--model", "m.bin")  # reads the same digest
    (folder / "b.csv").write_text("kind,team,x\n1.00,1,2\n1,1,2\n10e-1,1,2\n2.5,1,2\n")
    told = succeed("--predict", "--model", "m.bin", "--dataset", "b.csv").out
    scores = [line.split(",")[2] for line in told.splitlines()]
    assert scores[1] == scores[2] == scores[3] != scores[4]


def test_a_frame_of_numbers_is_predicted_by_name_too(folder):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame.a > frame.b).astype(int)
    ds = nn.load(frame)
    net = nn.Network("3,8,1", ds.task)
    nn.train(net, ds, epochs=2)
    np.testing.assert_array_equal(net.predict(frame[["a", "b", "c"]]), net.predict(frame[["c", "y", "b", "a"]]))
    np.testing.assert_array_equal(net.predict(frame), net.predict(ds.x))


def test_a_gap_that_a_network_cannot_take_is_named():
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    net = nn.Network("3,4,1", "binary")
    nn.train(net, nn.Dataset(x, (x[:, 0] > 0).astype(np.int32), "binary", classes=["0", "1"]), epochs=1)
    x[7, 1] = np.nan
    with pytest.raises(nn.DataError, match="row 8, column 2 of 3: found nan"):
        net.predict(x)


RECORDS = np.rec.array([(3.0, "Peru")], names="age,land")


@pytest.mark.parametrize("rows", [[{"age": 3.0}, 3], [[1.0, 2.0], [3.0]], "new.csv", None, ["3", "x"], RECORDS])
def test_rows_that_are_no_table_are_refused(trained, rows):
    told = f"rows of type {type(rows).__name__}, " if rows is RECORDS else ""
    with pytest.raises(nn.DataError, match=told + r"expected an array \(rows, columns\) or a data frame"):
        nn.Model.load("m.bin").network.predict(rows)


YES = np.array([True, False, False, True] * 5)
TRUTHS = {
    "bool": YES, "numbers": YES.astype(int), "floats": YES.astype(float), "words": np.where(YES, "TRUE", "False"),
    "letters": np.where(YES, "y", "N"), "digits": np.where(YES, "1", "0"),
}  # fmt: skip


@pytest.mark.parametrize("form", TRUTHS)
def test_yes_and_no_are_read_in_every_form(trained, form):
    pandas = pytest.importorskip("pandas")
    frame, net = frame_of(people(len(YES))), nn.Model.load("m.bin").network
    assert "member" in net.encoding.by_kind()["yes/no"]
    own = net.predict(frame.assign(member=np.where(YES, "Yes", "no")))
    np.testing.assert_array_equal(net.predict(frame.assign(member=TRUTHS[form])), own)
    nullable = pandas.array([*YES[:-1], None], dtype="boolean")
    np.testing.assert_array_equal(net.predict(frame.assign(member=nullable))[:-1], own[:-1])


def test_a_column_of_yes_and_no_that_holds_neither_is_refused(trained):
    frame, net = frame_of(people(20)), nn.Model.load("m.bin").network
    words = 'data row 2, column member: found "ja", expected yes or no, true or false, 1 or 0'
    with pytest.raises(nn.DataError, match=words):
        net.predict(frame.assign(member=[None, "ja"] + ["nein", "ja"] * 9))
    assert np.isfinite(net.predict(frame.assign(member=[None, "ja"] + ["nein", "no"] * 9))).all()
    assert np.isfinite(net.predict(frame.assign(member=[None] * 20))).all()


def test_unseen_values_of_a_frame_are_told_where_it_has_some_rows(trained, caplog):
    frame, net = frame_of(people(100)), nn.Model.load("m.bin").network
    net.predict(frame)
    net.predict(frame.assign(land="Mars")[:99])
    assert not caplog.messages
    net.predict(frame.assign(land="Mars"))
    (told,) = caplog.messages
    assert "column land: 100% of the values are gaps or were not seen in training" in told


def test_a_frame_that_arrow_cannot_read_is_refused():
    pl = pytest.importorskip("polars")
    if not hasattr(pl, "Int128"):
        pytest.skip("this polars has no type that Arrow lacks")
    frame = pl.DataFrame({"a": pl.Series([1, 2, 3]).cast(pl.Int128), "y": [1.0, 2.0, 3.0]})
    with pytest.raises(nn.DataError, match="the data frame: pyarrow cannot read it"):
        nn.load(frame)


def test_dictionaries_are_frames(trained):
    pandas = pytest.importorskip("pandas")
    frame, net = frame_of(people(30, seed=2)), nn.Model.load("m.bin").network
    own, columns, rows = net.predict(frame), frame.to_dict("list"), frame.to_dict("records")
    arrays = {name: frame[name].to_numpy() for name in frame}
    for form in (columns, rows, arrays, dict(reversed(columns.items())), {name: frame[name] for name in frame}):
        np.testing.assert_array_equal(net.predict(form), own)
    for one in (rows[3], [rows[3]], {name: [value] for name, value in rows[3].items()}):
        np.testing.assert_array_equal(net.predict(one), own[3:4])
    written = json.loads(frame.to_json(orient="records", date_format="iso"))
    np.testing.assert_array_equal(net.predict(written), own)
    gone = [{name: value for name, value in row.items() if value == value} for row in rows]  # a gap is no key
    np.testing.assert_array_equal(net.predict(gone), own)
    assert nn.load(columns).sha256 == nn.load(frame).sha256 == nn.load(pandas.DataFrame(rows)).sha256


@pytest.mark.parametrize(
    "columns, told",
    [
        ({}, "no columns"),
        ({"age": [1, 2], "land": ["Peru"]}, "2 values of age, 1 of land, expected one for each row"),
        ({"age": [1, 2]}, "no columns land, member, day, town, expected every column"),
    ],
)
def test_dictionaries_that_are_no_table_are_refused(trained, columns, told):
    with pytest.raises(nn.DataError, match=f"the data frame: {told}"):
        nn.Model.load("m.bin").network.predict(columns)
