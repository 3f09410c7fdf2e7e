"""The same table of any columns in another format, or as a data frame, gives the same network and predictions."""

import io
import json
import sqlite3

import numpy as np
import pytest
from support.command_line import succeed
from support.people import as_csv, people, train_on_people
from support.table_formats import everything, pd

import nn


@pytest.fixture
def trained(folder) -> None:
    train_on_people(folder)


def frame_of(columns: dict[str, list[str]]):
    """A data frame with the types that pandas finds, dates as dates."""
    return pd.read_csv(io.StringIO(as_csv(columns)), parse_dates=["day"]).rename(columns={"Unnamed: 0": ""})


def parameters_and_encoding(path_or_frame, **choices) -> tuple[dict, dict]:
    ds = nn.load(path_or_frame, **choices)
    net = nn.Network(f"{ds.inputs},8,1", ds.task)
    nn.train(net, ds, epochs=2)
    return net.parameters(), net.encoding.to_dict() | {"sha256": ds.sha256}


def in_forms(frame, name: str) -> dict:
    """Write a data frame as files of all kinds; returns what nn.load takes for each."""
    with sqlite3.connect(f"{name}.db") as database:
        truths = {column: "BOOLEAN" for column in frame.select_dtypes(bool)}
        frame.to_sql(name, database, index=False, dtype=truths)
    frame.to_parquet(f"{name}.parquet", row_group_size=77)
    frame.to_feather(f"{name}.feather")
    return {"parquet": f"{name}.parquet", "feather": f"{name}.feather", "sqlite": f"{name}.db:{name}", "frame": frame}


@pytest.mark.parametrize("flags", [["--layers", "auto,8,1"], ["--folds", "3", "--layers", "auto,8,1"]])
def test_a_mixed_table_trains_to_the_same_bytes_in_any_form_on_any_threads_and_in_parts(folder, flags):
    """All of a model but the recorded path: through every kind of file, 1 to 4 threads, with and without --memory."""
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
    assert set(net.columns) == set(frame) - {"id", "name", "planet", "nothing", "weight", "rich"}
    different = [run for run in runs if found[run] != found[runs[0]]]
    assert not different, different


def test_a_category_of_numbers_is_the_same_however_they_are_written(folder):
    written, values = ["1", "1.0", "1e0", "01", "2.50", "25e-1", "-0", "0.0", "?"], [1, 1, 1, 1, 2.5, 2.5, 0, 0, None]
    order = [i % 9 for i in np.random.default_rng(0).permutation(270)]
    frame = pd.DataFrame({"kind": [values[i] for i in order], "x": np.arange(270) % 7 + 0.5, "y": ["yes", "no"] * 135})
    frame.insert(1, "team", frame["kind"])
    as_words = [written[i] for i in order]
    frame.assign(kind=as_words, team=as_words).to_csv("a.csv", index=False)
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
    frame, net = frame_of(people(len(YES))), nn.Model.load("m.bin").network
    assert "member" in net.encoding.by_kind()["yes/no"]
    own = net.predict(frame.assign(member=np.where(YES, "Yes", "no")))
    np.testing.assert_array_equal(net.predict(frame.assign(member=TRUTHS[form])), own)
    nullable = pd.array([*YES[:-1], None], dtype="boolean")
    np.testing.assert_array_equal(net.predict(frame.assign(member=nullable))[:-1], own[:-1])


def test_a_column_of_yes_and_no_that_holds_neither_is_refused(trained):
    frame, net = frame_of(people(20)), nn.Model.load("m.bin").network
    with pytest.raises(nn.DataError, match='row 2, column member: found "ja", expected yes or no, true or false, 1'):
        net.predict(frame.assign(member=[None, "ja"] + ["nein", "ja"] * 9))
    for member in ([None, "ja"] + ["nein", "no"] * 9, [None] * 20):
        assert np.isfinite(net.predict(frame.assign(member=member))).all()


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
    frame, net = frame_of(people(30, seed=2)), nn.Model.load("m.bin").network
    own, columns, rows = net.predict(frame), frame.to_dict("list"), frame.to_dict("records")
    forms = {
        "columns": columns, "rows": rows, "arrays": {name: frame[name].to_numpy() for name in frame},
        "reversed": dict(reversed(columns.items())), "series": {name: frame[name] for name in frame},
        "JSON": json.loads(frame.to_json(orient="records", date_format="iso")),
        "a gap is no key": [{name: value for name, value in row.items() if value == value} for row in rows],
    }  # fmt: skip
    for form, data in forms.items():
        np.testing.assert_array_equal(net.predict(data), own, form)
    for one in (rows[3], [rows[3]], {name: [value] for name, value in rows[3].items()}):
        np.testing.assert_array_equal(net.predict(one), own[3:4])
    assert nn.load(columns).sha256 == nn.load(frame).sha256 == nn.load(pd.DataFrame(rows)).sha256


@pytest.mark.parametrize("columns, told", [
    ({}, "no columns"),
    ({"age": [1, 2], "land": ["Peru"]}, "2 values of age, 1 of land, expected one for each row"),
    ({"age": [1, 2]}, "no columns land, member, day, town, expected every column"),
])  # fmt: skip
def test_dictionaries_that_are_no_table_are_refused(trained, columns, told):
    with pytest.raises(nn.DataError, match=f"the data frame: {told}"):
        nn.Model.load("m.bin").network.predict(columns)
