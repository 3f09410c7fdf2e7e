"""Tables as people have them: text, gaps, dates and ids go in as they are; the model
knows what was done to them. The same table in another format, or as a data frame, gives
the same network and predictions."""

import contextlib
import io
import json
import re
import shlex
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from support.command_line import ONE, argv, environment, run, succeed
from support.people import as_csv, people, train_on_people
from support.table_formats import everything, pa, pd, write_database, written
from support.tables import trained_on

import nn
from nn.data import csv_table
from nn.data.column import FORMER_GAPS
from nn.data.loading import load_for
from nn.data.table_rows import TableRows


@pytest.fixture
def trained(folder) -> None:
    train_on_people(folder)


@pytest.fixture
def folder(folder):
    """The current folder, with people.csv."""
    (folder / "people.csv").write_text(as_csv(people()))
    return folder


def test_a_training_logs_by_kind_what_it_left_out_and_what_gives_the_target_away(
    folder,
):
    done = succeed(
        *argv("--train --dataset people.csv --model m.bin --epochs 1 --json")
    )
    kinds = {
        "age": "number",
        "land": "category",
        "member": "yes/no",
        "day": "date",
        "town": "category",
    }
    assert done.json["columns"] == kinds
    assert done.json["classes"] == ["no", "yes"]
    left = "left out: (no name) (counts the rows), name (nearly every value differs), planet (one value only)"
    for line in (
        left,
        "number: age (",
        "category: land (",
        "yes/no: member",
        "date: day (trend, year, week)",
    ):
        assert f"\n{line}" in done.err, line
    info = succeed("--info", "--model", "m.bin", "--verbose").out
    assert "yes/no" in info
    assert "town" in info
    columns = people()
    columns["alive"] = [
        "dead" if rich == "no" else "living" for rich in columns["rich"]
    ]
    text = as_csv(columns, ["age", "land", "alive", "rich"])
    (folder / "people.csv").write_text(text)
    messages = succeed(
        *ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1
    ).err
    assert "column alive determines rich in all 240 rows" in messages
    assert "--drop alive" in messages
    assert messages.count("determines") == 1


def test_all_obstacles_of_a_file_are_told_at_once_with_both_cures(folder):
    columns = people()
    columns["age"][4] = "old"
    columns["day"][9] = "yesterday"
    (folder / "people.csv").write_text(as_csv(columns))
    failed = run("--train", "--dataset", "people.csv", "--model", "m.bin", "--strict")
    assert failed.code == 65
    assert len(failed.err.splitlines()) == 1
    for words in (
        "row 6, column age",
        '"old"',
        "--missing old",
        "--categories age",
        "row 11, column day",
        "yesterday",
    ):
        assert words in failed.err, words
    cured = ("--missing", "old,yesterday")
    succeed(
        *argv("--train --dataset people.csv --model m.bin --epochs 1 --strict"), *cured
    )
    succeed("--test", "--model", "m.bin")  # the model knows the words


@pytest.mark.parametrize(
    "names", ["x,speed of light,y\n", 'x,"a, b",y\n', "x,,y\n", ""]
)
def test_the_cures_that_a_message_tells_work_as_they_stand(names, folder):
    rows = []
    for i in range(100):
        rows.append(f"{i},{'two words' if i == 90 else i % 7},{i % 2}\n")
    text = names + "".join(rows)
    (folder / "t.csv").write_text(text)
    command = (*ONE, *argv("--strict --dataset t.csv --model m.bin --epochs 1"))
    refused = run(*command)
    cures = re.findall(r"\((--[^()]*)\)", refused.err)
    assert refused.code == 65
    assert [shlex.split(cure)[0] for cure in cures] == ["--missing", "--categories"]
    for cure in cures:
        succeed(*command, *shlex.split(cure))


def test_flags_overrule_looks_and_a_file_without_a_header_is_read_by_position(folder):
    flags = argv("--categories age,member --drop day --numbers 0 --id name")
    result = succeed(
        *ONE, *argv("--dataset people.csv --model m.bin --epochs 1 --json"), *flags
    ).json
    expected = {
        "": "number",
        **dict.fromkeys(("age", "land", "member", "town"), "category"),
    }
    assert result["columns"] == expected
    lines = succeed(
        "--predict", "--model", "m.bin", "--dataset", "people.csv"
    ).out.splitlines()
    assert lines[0].startswith("row,name,predicted")
    assert lines[3].split(",")[1] == "person 2"
    text = as_csv(people()).partition("\n")[2]
    (folder / "people.csv").write_text(text)
    result = succeed(
        *ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 2, "--json"
    ).json
    expected = {
        "1": "number",
        "2": "category",
        "3": "yes/no",
        "4": "date",
        "5": "category",
    }
    assert result["columns"] == expected
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert figures["rows"] == result["holdout"]
    succeed("--predict", "--model", "m.bin", "--dataset", "people.csv")


def test_columns_of_one_name_are_found_in_their_order_and_where_one_was_left_out(
    folder,
):
    columns = people(200)
    rows = zip(
        columns["name"], columns["town"], columns["age"], columns["rich"], strict=True
    )
    text = "\n".join(["town,town,age,rich", *map(",".join, rows)])
    (folder / "twice.csv").write_text(text)
    messages = succeed(
        "--train", "--dataset", "twice.csv", "--model", "m.bin", "--epochs", 1
    ).err
    assert "left out: town (nearly every value differs)" in messages
    succeed("--test", "--model", "m.bin")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    frame = pd.DataFrame(np.c_[x, x @ [1, 2, 3]], columns=["a", "a", "b", "y"])
    ds = nn.load(frame)
    net = trained_on(ds)
    scores = net.predict(ds.x)
    cases = (frame, frame.iloc[:, [2, 0, 3, 1]], frame.iloc[:, [0, 2, 1]])
    for other in cases:
        np.testing.assert_array_equal(net.predict(other), scores)
    predictions = net.predict(frame.iloc[:, [1, 0, 2]])
    assert (predictions != scores).any()
    with pytest.raises(nn.DataError, match="no column a, expected every column"):
        net.predict(frame.iloc[:, 1:])


def test_rows_without_a_target_are_left_out_and_counted(folder):
    rows = []
    for i in range(60):
        rows.append(f"{(7 * i) % 31},{(11 * i) % 17},{i % 2}")
    rows[20] = "3,4,"
    text = "\n".join(["a,b,y", *rows])
    (folder / "a.csv").write_text(text)
    done = succeed(
        *ONE, "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1, "--json"
    )
    assert "left out: 1 row without a target" in done.err
    assert done.json["rows"] + done.json["holdout"] == 59
    assert nn.Network.load("m.bin").encoding is None
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert figures["rows"] == done.json["holdout"]
    assert (
        succeed("--test", "--model", "m.bin", "--dataset", "a.csv", "--json").json[
            "rows"
        ]
        == 59
    )
    result = succeed("--predict", "--model", "m.bin", "--dataset", "a.csv")
    assert len(result.out.splitlines()) == 61


def test_layers_count_kept_columns_but_m_files_and_reference_know_numbers_only(folder):
    common = (*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1)
    for spec in ("5,8,1", "auto,8,1"):
        succeed(*common, "--layers", spec)
        assert nn.Network.load("m.bin").spec == "5,8:relu,1:sigmoid"
    failed = run(*common, "--layers", "8,8,1")
    assert failed.code == 2
    assert "left out" in failed.err
    assert "auto" in failed.err
    train = (
        *ONE,
        *argv("--dataset people.csv --model m.bin --json --profile --trace t.json"),
    )
    figures = succeed(*train).json
    layers = figures["profile"]["layers"]
    assert layers[0]["layer"] == "embedding"
    assert len(layers) == 4
    assert layers[1]["forward_ms"] > 0
    content = json.loads((folder / "t.json").read_text())
    names = {event["name"] for event in content["traceEvents"]}
    assert {"forward 0 embedding", "forward 1 60", "forward 3 1"} <= names
    train = ("--train", "--dataset", "people.csv")
    failed = run(
        *train, *argv("--layers auto,4,1:sigmoid --activation sigmoid --model m.m")
    )
    assert failed.code == 2
    assert ".m file knows numbers" in failed.err
    failed = run(*train, "--model", "m.bin", "--reference", "--layers", "8,4,1")
    assert failed.code == 65
    assert "expected a number" in failed.err


def test_a_model_comes_back_with_its_columns_and_reads_the_data_of_its_training(
    trained, folder
):
    net = nn.Network.load("m.bin")
    ds = load_for(net, "people.csv")
    assert isinstance(ds.x, TableRows)
    assert net.encoding.names == ["age", "land", "member", "day", "town"]
    predictions = net.predict(ds.x)
    expected = nn.Network.load("m.bin").predict(ds.x)
    np.testing.assert_array_equal(predictions, expected)
    assert b'"format\\":3' in (folder / "m.bin").read_bytes()
    rows = []
    for i in range(40):
        rows.append(f"{i},{i * i % 7},{'ab'[i % 2]}\n")
    text = "".join(rows)
    (folder / "a.csv").write_text(text)
    ds = nn.load("a.csv")
    net = trained_on(ds)
    assert net.schema.task == "binary"
    assert net.schema.classes == ["a", "b"]
    assert net.schema.width == 2
    again = nn.load_for(net, "a.csv")
    np.testing.assert_array_equal(again.y, ds.y)
    assert again.classes == ds.classes
    images = nn.Network("1x2x2,3,1", "binary").schema
    assert images.pixels == (1, 2, 2)
    assert images.width == 4


@pytest.mark.parametrize(
    "mode, gone, message",
    [
        (
            "--test",
            ["rich"],
            "no column rich, expected every column that the model was trained on, rich as the target",
        ),
        (
            "--test",
            ["town", "age", "rich"],
            "no columns age, town, rich, expected every column",
        ),
        (
            "--test",
            ["town", "age"],
            "no columns age, town besides the target, expected every column",
        ),
        (
            "--predict",
            ["town", "age", "rich"],
            "no columns age, town, expected every column",
        ),
        (
            "--predict",
            ["town"],
            "no column town besides the target, expected every column",
        ),
    ],
)
def test_all_columns_that_are_missing_are_named(trained, folder, mode, gone, message):
    columns = people(50)
    names = [name for name in columns if name not in gone]
    (folder / "less.csv").write_text(as_csv(columns, names))
    failed = run(mode, "--model", "m.bin", "--dataset", "less.csv")
    assert failed.code == 65
    assert f"less.csv: {message}" in failed.err
    assert len(failed.err.splitlines()[-1]) < 250


def frame_of(columns: dict[str, list[str]]):
    """A data frame with the types that pandas finds, dates as dates."""
    frame = pd.read_csv(io.StringIO(as_csv(columns)), parse_dates=["day"])
    return frame.rename(columns={"Unnamed: 0": ""})


def parameters_and_encoding(path_or_frame, **choices) -> tuple[dict, dict]:
    ds = nn.load(path_or_frame, **choices)
    net = trained_on(ds, epochs=2)
    return net.parameters(), net.encoding.to_dict() | {"sha256": ds.sha256}


@pytest.mark.parametrize(
    "names, message",
    [
        ({"Age": "age"}, "has age where the model was trained on Age: "),
        (
            {"Age": "AGE", "in come": "In_Come"},
            "has AGE, In_Come where the model was trained on Age, in come: ",
        ),
        ({"Age": "AGE", "in come": "pay"}, "no columns Age, in come, "),
        ({"Age": "years"}, "no column Age, "),
        ({"Age": "years", "b": "c"}, "no columns Age, b, "),
    ],
)
def test_columns_that_are_spelled_otherwise_are_told_if_each_that_lacks_is(
    names, message
):
    table = {name: [k * 7 % 11 for k in range(40)] for name in ("Age", "in come", "b")}
    table["y"] = [k % 2 for k in range(40)]
    net = nn.fit(table, "y", layers="auto,1", epochs=1).network
    rows = {names.get(name, name): values for name, values in table.items()}
    with pytest.raises(nn.DataError, match=f"the data frame: {message}"):
        net.predict(rows)


@pytest.mark.parametrize(
    "flags", [["--layers", "auto,8,1"], ["--folds", "3", "--layers", "auto,8,1"]]
)
def test_a_mixed_table_trains_to_the_same_bytes_in_any_form_on_any_threads_in_parts(
    folder, flags
):
    """All of a model but the recorded path: through every kind of file, 1 to 4 threads,
    with and without --memory."""
    frame = everything()
    written(frame, folder)
    files = "a.csv", "a.parquet", "a.feather", "a.db:t"
    runs = [(file, threads, ()) for file in files for threads in (1, 4)]
    if "--folds" not in flags:
        runs += [(file, 2, ("--memory", "4G")) for file in files]
    results = {}
    for file, threads, flags_of_run in runs:
        given = (
            *argv(f"--dataset {file} --categories town --weight weight --epochs 3"),
            *flags,
            *flags_of_run,
        )
        succeed(
            *argv(f"--train --model m.bin --threads {threads} --backend omp --seed 3"),
            *given,
        )
        net = nn.Model.load("m.bin").network
        for network in {net, *net.members}:
            network.dataset = {**network.dataset, "path": "t"}
        net.export("m.bin")
        results[file, threads, flags_of_run] = (folder / "m.bin").read_bytes()
    kinds = {encoder.kind for encoder in net.encoding.encoders}
    assert kinds == {"number", "category", "yes/no", "date", "written number"}
    expected = set(frame) - {"id", "name", "planet", "nothing", "weight", "rich"}
    assert set(net.columns) == expected
    different = [run for run in runs if results[run] != results[runs[0]]]
    assert not different, different


def test_a_category_of_numbers_is_the_same_however_they_are_written(folder):
    words = ["1", "1.0", "1e0", "01", "2.50", "25e-1", "-0", "0.0", "?"]
    values = [1, 1, 1, 1, 2.5, 2.5, 0, 0, None]
    rng = np.random.default_rng(0)
    order = [i % 9 for i in rng.permutation(270)]
    kind = [values[i] for i in order]
    x = np.arange(270) % 7 + 0.5
    frame = pd.DataFrame({"kind": kind, "x": x, "y": ["yes", "no"] * 135})
    frame.insert(1, "team", frame["kind"])
    written(frame, folder)
    as_words = [words[i] for i in order]
    frame.assign(kind=as_words, team=as_words).to_csv("a.csv", index=False)
    choices = {"categories": "kind", "group": "team"}
    parameters, how = parameters_and_encoding("a.csv", **choices)
    # a group is held out
    column = how["columns"][0]
    assert set(column["values"]) | {None} == {"0", "1", "2.5", None}
    for source in (frame, "a.parquet", "a.feather", "a.orc", "a.jsonl", "a.db"):
        other, how_too = parameters_and_encoding(source, **choices)
        assert how == how_too, source
        for name in parameters:
            assert np.array_equal(parameters[name], other[name]), source
    succeed(*argv("--train --dataset a.csv --model m.bin --epochs 1 --categories kind"))
    succeed("--test", "--model", "m.bin")  # reads the same digest
    (folder / "b.csv").write_text("kind,team,x\n1.00,1,2\n1,1,2\n10e-1,1,2\n2.5,1,2\n")
    output = succeed("--predict", "--model", "m.bin", "--dataset", "b.csv").out
    scores = [line.split(",")[2] for line in output.splitlines()]
    assert scores[1] == scores[2] == scores[3]
    assert scores[4] != scores[3]


RECORDS = np.rec.array([(3.0, "Peru")], names="age,land")


@pytest.mark.parametrize(
    "rows", [[{"age": 3.0}, 3], [[1.0, 2.0], [3.0]], None, 5, ["3", "x"], RECORDS]
)
def test_rows_that_are_no_table_are_refused(trained, rows):
    if rows is RECORDS:
        message = f"rows of type {type(rows).__name__}, "
    else:
        message = ""
    with pytest.raises(
        nn.DataError,
        match=message + r"expected an array \(rows, columns\) or a data frame",
    ):
        nn.Model.load("m.bin").network.predict(rows)


def joined_table(kind: str) -> tuple[str, list[str]]:
    """The names of a table's columns and its rows: of numbers and words, of numbers
    alone, of words alone."""
    rows = []
    for k in range(60):
        rows.append(
            f"{7 * k % 31}.5,{'red' if k % 3 else 'blue'},{k % 5},{'no' if k % 4 else 'yes'}"
        )
    if kind == "numbers":
        return "size,colour,count,goal", [
            f"{7 * k % 31}.5,{k % 11},{k % 5},{k % 2}" for k in range(60)
        ]
    if kind == "words":
        rows = []
        for k in range(60):
            rows.append(f"{'SML'[k % 3]},{'red' if k % 4 else 'blue'},{'abcde'[k % 5]}")
        rows = [f"{row},{'no' if k % 4 else 'yes'}" for k, row in enumerate(rows)]
    return "size,colour,count,goal", rows


@pytest.mark.usual(3)
@pytest.mark.parametrize("kind", ["mixed", "numbers", "words"])
@pytest.mark.parametrize("places", [(3,), (0, 1, 40), (20, 21, 59)])
def test_a_header_that_comes_again_among_the_rows_is_left_out_in_every_format(
    folder, kind, places
):
    header, rows = joined_table(kind)
    text = "\n".join([header, *rows]) + "\n"
    (folder / "plain.csv").write_text(text)
    expected = nn.load("plain.csv")
    again = [*rows]
    for place in reversed(places):
        again.insert(place, "\ufeff" + header.replace("size", '"size"'))
    content = "\r\n".join([header, *again]).encode("utf-8-sig")
    (folder / "joined.csv").write_bytes(content)
    frame = pd.DataFrame(
        [row.strip("\ufeff").replace('"', "").split(",") for row in again],
        columns=header.split(","),
    )
    written(frame, folder)
    message = f"the names of the columns come again {'once' if len(places) == 1 else '3 times'} among the rows; left out"
    paths = sorted(folder.glob("a.*"))
    files = [str(file) for file in paths]
    net = trained_on(expected)
    sources = (
        "joined.csv",
        *files,
        frame,
        frame.to_dict("list"),
        frame.to_dict("records"),
    )
    for source in sources:
        ds = nn.load(source)
        assert [
            line
            for line in ds.remarks
            if message in line and line not in expected.remarks
        ], type(source)
        assert ds.rows == 60
        assert ds.classes == expected.classes
        assert ds.columns == expected.columns
        np.testing.assert_array_equal(ds.y, expected.y)
        predictions = net.predict(ds.x)
        np.testing.assert_array_equal(predictions, net.predict(expected.x))
    succeed(*ONE, "--dataset", "plain.csv", "--model", "m.bin", "--epochs", 1)
    tables = []
    for name in ("plain", "joined"):
        done = succeed(
            "--predict", "--model", "m.bin", "--dataset", f"{name}.csv", "--id", "*"
        )
        tables.append(done.out)
        assert (message in done.err) == (name == "joined")
    assert tables[0] == tables[1]


def test_a_row_of_numbers_is_no_repeated_header_and_one_column_of_it_is_a_value(folder):
    rows = []
    for k in range(30):
        rows.append([str((k + place) % 3 + place * (k % 2)) for place in range(3)])
    text = "\n".join(map(",".join, [["0", "1", "2"], *rows, ["0", "1", "2"]])) + "\n"
    (folder / "n.csv").write_text(text)
    assert nn.load("n.csv", header="yes").rows == 31
    header, rows = joined_table("mixed")
    text = "\n".join([header, *rows, "3,colour,4,goal"]) + "\n"
    (folder / "v.csv").write_text(text)
    ds = nn.load("v.csv")
    assert ds.rows == 61
    assert "goal" in ds.classes
    assert not [line for line in ds.remarks if "again" in line]


@pytest.mark.parametrize("cut", [False, True])
def test_headers_are_left_out_of_a_file_that_several_threads_read(
    folder, cut, monkeypatch
):
    header, rows = joined_table("mixed")
    monkeypatch.setattr(csv_table, "_PIECE_BYTES", 1 << (8 if cut else 22))
    monkeypatch.setattr(csv_table, "default_threads", lambda: 4)
    text = "\n".join([header, *rows * 20]) + "\n"
    (folder / "plain.csv").write_text(text)
    text = "\n".join([header, *rows * 10, header, *rows * 3, header, header, *rows * 7])
    (folder / "joined.csv").write_text(text)
    plain = nn.load("plain.csv")
    joined = nn.load("joined.csv")
    assert joined.rows == plain.rows == 1200
    assert "again 3 times" in joined.remarks[0]
    for own, other in zip(plain.x.columns, joined.x.columns, strict=True):
        np.testing.assert_array_equal(own.values, other.values)


@pytest.mark.parametrize("form", ["folder", "pattern", "list"])
@pytest.mark.parametrize("are_first", [True, False])
def test_parts_that_are_empty_or_only_a_header_are_passed_over(folder, form, are_first):
    header, rows = joined_table("mixed")
    parts = folder / "parts"
    parts.mkdir()
    names = [f"day{number}.csv" for number in range(1, 7)]
    texts = [
        "",
        header,
        header + "\n",
        "\n\n",
        "\n".join([header, *rows[:30]]),
        "\n".join([header, *rows[30:]]),
    ]
    for name, text in zip(
        names, texts if are_first else texts[4:] + texts[:4], strict=True
    ):
        (parts / name).write_text(text)
    (folder / "plain.csv").write_text("\n".join([header, *rows]) + "\n")
    source = {
        "folder": "parts",
        "pattern": "parts/day*.csv",
        "list": ",".join(f"parts/{name}" for name in names),
    }[form]
    ds = nn.load(source)
    expected = nn.load("plain.csv")
    assert ds.rows == 60
    assert ds.columns == expected.columns
    assert ds.classes == expected.classes
    succeed(*ONE, "--dataset", source, "--model", "m.bin", "--epochs", 1)
    assert "error" not in succeed("--test", "--model", "m.bin").err
    (parts / names[2]).write_text("other,names\n")
    (parts / names[4]).write_text("\n".join(rows[:30]))  # a part without a header
    for name in names:
        (parts / name).write_text("")
    assert (
        "the file is empty"
        in run("--train", "--dataset", source, "--model", "m.bin").err
    )


def test_the_names_in_a_part_without_rows_are_those_of_parts_without_a_header(folder):
    header, rows = joined_table("mixed")
    (folder / "1.csv").write_text(header + "\n")
    (folder / "2.csv").write_text("\n".join(rows))
    assert nn.load("1.csv,2.csv").columns == ["size", "colour", "count"]
    text = "\n".join(row + ",1" for row in rows)
    (folder / "2.csv").write_text(text)
    with pytest.raises(nn.DataError, match=r"2.csv: 5 columns, expected 4 as in 1.csv"):
        nn.load("1.csv,2.csv")


def test_parts_without_rows_of_other_formats_are_passed_over(folder):
    frame = everything()
    cases = (("1", frame[:0]), ("2", frame[:150]), ("3", frame[150:]))
    for name, part in cases:
        pa.parquet.write_table(
            pa.Table.from_pandas(part.convert_dtypes(), preserve_index=False),
            f"p{name}.parquet",
        )
        part.astype(str).to_json(f"j{name}.jsonl", orient="records", lines=True)
        np.save(f"n{name}.npy", part[["amount", "count", "flag"]].to_numpy(float))
    (folder / "p4.parquet").write_bytes(b"")
    for pattern in ("p*.parquet", "j*.jsonl", "n*.npy"):
        task = "multiclass" if pattern[0] == "n" else "auto"
        assert nn.load(pattern, task=task).rows >= 250, pattern


LANDS = ["10 €", "“so”", "Žižkov – Œuvre", "plain", "\x81\x9d…"]
GOALS = ["ça va ™", "naïve’s"]


def written_for_windows() -> str:
    """A table whose names, words and classes are outside Latin-1, some in the bytes
    that Windows-1252 leaves open."""
    rows = []
    for k in range(200):
        rows.append(f"n{k},{LANDS[k % 5]},{k % 7},{GOALS[k % 5 > 2]}")
    return "\n".join(["number,Währung €,size,goal", *rows]) + "\n"


def windows_bytes(text: str) -> bytes:
    return b"".join(
        letter.encode("latin-1" if letter in "\x81\x9d" else "cp1252")
        for letter in text
    )


def test_text_that_is_no_utf_8_is_windows_1252_in_training_new_rows_and_all_formats(
    folder,
):
    text = written_for_windows()
    (folder / "utf.csv").write_text(text, encoding="utf-8")
    (folder / "windows.csv").write_bytes(windows_bytes(text))
    frame = pd.read_csv("utf.csv")
    lines = "\n".join(
        json.dumps(row, ensure_ascii=False) for row in frame.to_dict("records")
    )
    (folder / "windows.jsonl").write_bytes(windows_bytes(lines))
    write_database(frame, folder / "windows.db")
    with contextlib.closing(sqlite3.connect("windows.db")) as base, base:
        for word in {*LANDS, *GOALS}:
            for column in ("Währung €", "goal"):
                change = (
                    f'UPDATE t SET "{column}" = CAST(? AS TEXT) WHERE "{column}" = ?'
                )
                base.execute(change, (windows_bytes(word), word))
    for name in ("utf", "windows"):
        succeed(
            *ONE,
            *argv(f"--dataset {name}.csv --id number --model {name}.bin --epochs 3"),
        )
    descriptions = [
        succeed("--info", "--model", f"{name}.bin", "--json").json
        for name in ("utf", "windows")
    ]
    classes = descriptions[0]["classes"]
    assert classes == descriptions[1]["classes"]
    classes = set(descriptions[0]["classes"])
    assert classes == set(GOALS)
    columns = descriptions[0]["columns"]
    assert columns == descriptions[1]["columns"] == ["Währung €", "size"]
    encoding = descriptions[0]["encoding"]
    assert encoding == descriptions[1]["encoding"]
    columns = descriptions[0]["encoding"]["columns"]
    assert columns[0]["values"] == sorted(LANDS)
    tables = set()
    for model in ("utf", "windows"):
        for data in ("utf.csv", "windows.csv", "windows.jsonl", "windows.db"):
            flags = "--predict", "--model", f"{model}.bin", "--id", "Währung €,number"
            succeed(*flags, "--dataset", data, "-o", "p.csv")
            tables.add((folder / "p.csv").read_bytes())
    assert len(tables) == 1
    assert "10 €" in tables.pop().decode()


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii:strict"},
    ],
)
def test_predictions_on_stdout_are_utf_8_whatever_the_locale(folder, locale):
    (folder / "windows.csv").write_bytes(windows_bytes(written_for_windows()))
    succeed(*ONE, *argv("--dataset windows.csv --id number --model m.bin --epochs 1"))
    flags = ["--predict", "--model", "m.bin", "--dataset", "windows.csv", "--id", "*"]
    succeed(*flags, "-o", "p.csv")
    command = [sys.executable, "-m", "nn", *flags]
    done = subprocess.run(command, env=environment(**locale), capture_output=True)
    assert done.returncode == 0
    assert done.stdout == (folder / "p.csv").read_bytes()


def test_a_model_that_names_no_code_page_reads_its_files_as_latin_1(folder):
    (folder / "windows.csv").write_bytes(windows_bytes(written_for_windows()))
    net = trained_on(nn.load("windows.csv", id="number"))
    columns = load_for(net, "windows.csv").x.columns
    assert columns[0].words == LANDS
    net.code_page = "latin-1"
    net.classes = [windows_bytes(name).decode("latin-1") for name in net.classes]
    net.columns = [windows_bytes(name).decode("latin-1") for name in net.columns]
    nn.Model(net).save("old.bin")
    assert "code_page" not in succeed("--info", "--model", "old.bin", "--json").json
    old = nn.Model.load("old.bin").network
    x = load_for(old, "windows.csv").x
    words = x.columns[0].words
    assert words == [windows_bytes(word).decode("latin-1") for word in LANDS]


SAID = [
    "#N/A",
    "#DIV/0!",
    "n/a",
    "<NA>",
    "-nan",
    "-NaN",
    "#VALUE!",
    "#REF!",
    "#NAME?",
    "#NUM!",
    "#NULL!",
    "1.#IND",
    "-1.#QNAN",
    "NaT",
    "#n/a",
]


def with_gaps(words: list) -> dict[str, list]:
    """A table of numbers, dates, words and a target, all negative numbers among them,
    with these words for gaps."""
    rows = 20 * len(words)
    rng = np.random.default_rng(5)
    columns = {
        "size": (rng.integers(-900, 900, rows) / 4).tolist(),
        "day": [f"2019-03-{1 + k % 28:02}" for k in range(rows)],
        "land": [("de", "fr", "-na", "#3")[k % 4] for k in range(rows)],
    }
    columns["goal"] = [2.5 * size + k % 4 for k, size in enumerate(columns["size"])]
    for at, word in enumerate(words):
        columns["size"][20 * at + 3] = columns["day"][20 * at + 5] = columns["land"][
            20 * at + 9
        ] = word
    return columns


def test_words_of_spreadsheets_and_pandas_for_missing_values_are_gaps_in_all_formats(
    folder,
):
    frame = pd.DataFrame(with_gaps(SAID))
    texts = frame.astype({"size": str})
    words = [None] * len(SAID)
    frame = pd.DataFrame(with_gaps(words))
    expected = nn.load(frame)
    kinds = [kind.kind for kind in expected.kinds]
    assert kinds == ["number", "date", "category"]
    assert not expected.remarks
    written(texts, folder)
    paths = sorted(folder.glob("a.*"))
    files = [str(file) for file in paths]
    assert len(files) == 6
    sources = (*files, texts, texts.to_dict("list"), texts.to_dict("records"))
    for source in sources:
        ds = nn.load(source)
        assert ds.digest == expected.digest, type(source)
        assert ds.remarks == [], type(source)
        assert ds.unlabelled == 0, type(source)
    net = trained_on(expected)
    words = [None] * len(SAID)
    rows = pd.DataFrame(with_gaps(words))
    clean = net.predict(rows)
    np.testing.assert_array_equal(net.predict(texts), clean)
    predictions = net.predict(texts.to_dict("records"))
    np.testing.assert_array_equal(predictions, clean)


def test_a_model_that_names_no_words_for_gaps_knows_those_of_its_time(folder):
    words = [*("n/a", "NA", "x", "y") * 60]
    texts = [str(k % 7) for k in range(240)]
    goal = [k % 4 * 1.5 for k in range(240)]
    columns = {"word": words, "other": texts, "goal": goal}
    ds = nn.load(columns)
    net = trained_on(ds)
    assert "n/a" not in net.encoding.encoders[0].values
    assert "#DIV/0!" in net.gap_words
    nn.Model(net).save("new.bin")
    model = nn.Model.load("new.bin")
    assert model.network.gap_words == net.gap_words
    net.gap_words = sorted(FORMER_GAPS)
    nn.Model(net).save("old.bin")
    output = succeed("--info", "--model", "old.bin", "--json").out
    assert "gap_words" not in json.loads(output)
    old = nn.Model.load("old.bin").network
    table = {"word": ["n/a", "NA", "x"], "other": ["1"] * 3}
    rows = load_for(old, table, labelled=False)
    column = rows.x.columns[0]
    assert column.texts() == ["n/a", "", "x"]
    model = nn.Model.load("new.bin")
    path = {"word": ["n/a"], "other": ["1"]}
    x = load_for(model.network, path, labelled=False).x
    assert x.columns[0].texts() == [""]


YES = np.array([True, False, False, True] * 5)
TRUTHS = {
    "bool": YES,
    "numbers": YES.astype(int),
    "floats": YES.astype(float),
    "words": np.where(YES, "TRUE", "False"),
    "letters": np.where(YES, "y", "N"),
    "digits": np.where(YES, "1", "0"),
}


@pytest.mark.parametrize("form", TRUTHS)
def test_yes_and_no_are_read_in_every_form(trained, form):
    frame = frame_of(people(len(YES)))
    net = nn.Model.load("m.bin").network
    assert "member" in net.encoding.by_kind()["yes/no"]
    member = np.where(YES, "Yes", "no")
    scores = net.predict(frame.assign(member=member))
    rows = frame.assign(member=TRUTHS[form])
    predictions = net.predict(rows)
    np.testing.assert_array_equal(predictions, scores)
    nullable = pd.array([*YES[:-1], None], dtype="boolean")
    rows = frame.assign(member=nullable)
    predictions = net.predict(rows)[:-1]
    expected = scores[:-1]
    np.testing.assert_array_equal(predictions, expected)


def test_a_word_among_yes_and_no_is_told_as_a_gap(trained, caplog):
    frame = frame_of(people(len(YES)))
    net = nn.Model.load("m.bin").network
    member = np.where(YES, "yes", "no").astype(object)
    member[3] = "maybe"
    net.predict(frame.assign(member=member))
    told = '1 value that is neither yes nor no is taken for a gap: "maybe"'
    assert [told in line for line in caplog.messages] == [True]


def test_a_column_of_yes_and_no_that_holds_neither_is_refused(trained):
    frame = frame_of(people(20))
    net = nn.Model.load("m.bin").network
    with pytest.raises(
        nn.DataError,
        match='row 2, column member: found "ja", expected yes or no, true or false, 1',
    ):
        net.predict(frame.assign(member=[None, "ja"] + ["nein", "ja"] * 9))
    members = ([None, "ja"] + ["nein", "no"] * 9, [None] * 20)
    for member in members:
        predictions = net.predict(frame.assign(member=member))
        assert np.isfinite(predictions).all()


def test_unseen_values_of_a_frame_are_told_where_it_has_some_rows(trained, caplog):
    frame = frame_of(people(100))
    net = nn.Model.load("m.bin").network
    net.predict(frame)
    net.predict(frame.assign(land="Mars")[:99])
    assert not caplog.messages
    net.predict(frame.assign(land="Mars"))
    (message,) = caplog.messages
    assert (
        "column land: 100% of the values are gaps or were not seen in training"
        in message
    )


def test_arrays_of_dates_alone_are_read_as_columns_of_a_frame():
    days = np.datetime64("2020-01-01") + np.arange(60).reshape(2, 30).T
    table = {"a": days[:, 0], "b": days[::-1, 1], "y": np.arange(30) % 2}
    net = nn.fit(table, "y", layers="auto,2,1", epochs=1).network
    rows = np.stack([table["a"], table["b"]], axis=1)
    expected = net.predict({"a": rows[:, 0], "b": rows[:, 1]})
    for unit in ("D", "s", "ns"):
        assert np.array_equal(net.predict(rows.astype(f"datetime64[{unit}]")), expected)


def test_dictionaries_are_frames(trained):
    frame = frame_of(people(30, seed=2))
    net = nn.Model.load("m.bin").network
    predictions = net.predict(frame)
    columns = frame.to_dict("list")
    rows = frame.to_dict("records")
    content = json.loads(frame.to_json(orient="records", date_format="iso"))
    arrays = {name: frame[name].to_numpy() for name in frame}
    series = {name: frame[name] for name in frame}
    forms = {
        "columns": columns,
        "rows": rows,
        "arrays": arrays,
        "reversed": dict(reversed(columns.items())),
        "series": series,
        "JSON": content,
        "a gap is no key": [
            {name: value for name, value in row.items() if value == value}
            for row in rows
        ],
    }
    for form, data in forms.items():
        np.testing.assert_array_equal(net.predict(data), predictions, form)
    cases = (rows[3], [rows[3]], {name: [value] for name, value in rows[3].items()})
    for case in cases:
        np.testing.assert_array_equal(net.predict(case), predictions[3:4])
    digest = nn.load(columns).sha256
    assert digest == nn.load(frame).sha256 == nn.load(pd.DataFrame(rows)).sha256
    absent = "no columns land, member, day, town, expected every column"
    for data, message in (({}, "no columns"), ({"age": [1, 2]}, absent)):
        with pytest.raises(nn.DataError, match=f"the data frame: {message}"):
            net.predict(data)
