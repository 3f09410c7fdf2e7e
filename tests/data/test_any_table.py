"""Tables as people have them: text, gaps, dates and ids go in as they are; the model knows what was done to them."""

import json
import re
import shlex

import numpy as np
import pytest
from support.command_line import ONE, run, succeed
from support.people import as_csv, people, train_on_people

import nn
from nn.data.dataset import TableRows
from nn.data.loading import load_for


@pytest.fixture
def trained(folder) -> None:
    train_on_people(folder)


@pytest.fixture
def folder(folder):
    """The current folder, with people.csv."""
    (folder / "people.csv").write_text(as_csv(people()))
    return folder


def test_a_training_says_a_line_for_each_kind_and_what_it_left_out(folder):
    done = succeed("--train", "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1, "--json")
    kinds = {"age": "number", "land": "category", "member": "yes/no", "day": "date", "town": "category"}
    assert done.json["columns"] == kinds and done.json["classes"] == ["no", "yes"]
    left = "left out: (no name) (counts the rows), name (nearly every value differs), planet (one value only)"
    for line in (left, "number: age (", "category: land (", "yes/no: member", "date: day (trend, year, week)"):
        assert f"\n{line}" in done.err, line
    info = succeed("--info", "--model", "m.bin").out
    assert "yes/no" in info and "town" in info


def test_all_obstacles_of_a_file_are_told_at_once_with_both_cures(folder):
    columns = people()
    columns["age"][4], columns["day"][9] = "old", "yesterday"
    (folder / "people.csv").write_text(as_csv(columns))
    failed = run("--train", "--dataset", "people.csv", "--model", "m.bin", "--strict")
    assert failed.code == 65 and len(failed.err.splitlines()) == 1
    for words in ("row 6, column age", '"old"', "--missing old", "--categories age", "row 11, column day", "yesterday"):
        assert words in failed.err, words
    cured = ("--missing", "old,yesterday")
    succeed("--train", "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1, "--strict", *cured)
    succeed("--test", "--model", "m.bin")  # the model knows the words


@pytest.mark.parametrize("names", ["x,speed of light,y\n", 'x,"a, b",y\n', "x,,y\n", ""])
def test_the_cures_that_a_message_tells_work_as_they_stand(names, folder):
    (folder / "t.csv").write_text(
        names + "".join(f"{i},{'two words' if i == 90 else i % 7},{i % 2}\n" for i in range(100))
    )
    command = (*ONE, "--strict", "--dataset", "t.csv", "--model", "m.bin", "--epochs", 1)
    refused = run(*command)
    cures = re.findall(r"\((--[^()]*)\)", refused.err)
    assert refused.code == 65 and [shlex.split(cure)[0] for cure in cures] == ["--missing", "--categories"]
    for cure in cures:
        succeed(*command, *shlex.split(cure))


def test_flags_overrule_what_the_fields_look_like(folder):
    flags = ("--categories", "age,member", "--drop", "day", "--numbers", "0", "--id", "name")
    result = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1, "--json", *flags).json
    assert result["columns"] == {"": "number", **dict.fromkeys(("age", "land", "member", "town"), "category")}
    lines = succeed("--predict", "--model", "m.bin", "--dataset", "people.csv").out.splitlines()
    assert lines[0].startswith("row,name,predicted") and lines[3].split(",")[1] == "person 2"


def test_a_name_that_comes_twice_and_is_left_out_once_is_found_again(folder):
    columns = people(200)
    rows = zip(columns["name"], columns["town"], columns["age"], columns["rich"], strict=True)
    (folder / "twice.csv").write_text("\n".join(["town,town,age,rich", *map(",".join, rows)]))
    told = succeed("--train", "--dataset", "twice.csv", "--model", "m.bin", "--epochs", 1).err
    assert "left out: town (nearly every value differs)" in told
    succeed("--test", "--model", "m.bin")


def test_a_file_without_a_header_is_read_by_position(folder):
    (folder / "people.csv").write_text(as_csv(people()).partition("\n")[2])
    result = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 2, "--json").json
    assert result["columns"] == {"1": "number", "2": "category", "3": "yes/no", "4": "date", "5": "category"}
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == result["holdout"]
    succeed("--predict", "--model", "m.bin", "--dataset", "people.csv")


def test_rows_without_a_target_are_left_out_and_counted(folder):
    rows = [f"{(7 * i) % 31},{(11 * i) % 17},{i % 2}" for i in range(60)]
    rows[20] = "3,4,"
    (folder / "a.csv").write_text("\n".join(["a,b,y", *rows]))
    done = succeed(*ONE, "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1, "--json")
    assert "left out: 1 rows without a target" in done.err and done.json["rows"] + done.json["holdout"] == 59
    assert b'"format\\":1' in (folder / "m.bin").read_bytes() and nn.Network.load("m.bin").encoding is None
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == done.json["holdout"]
    assert succeed("--test", "--model", "m.bin", "--dataset", "a.csv", "--json").json["rows"] == 59
    assert len(succeed("--predict", "--model", "m.bin", "--dataset", "a.csv").out.splitlines()) == 61
    (folder / "gap.csv").write_text("a,b,y\n1,2,0\n3,,1\n")
    failed = run("--predict", "--model", "m.bin", "--dataset", "gap.csv")
    assert failed.code == 65 and "row 3, column b: found an empty field" in failed.err


def test_a_column_that_gives_the_target_away_gets_a_remark(folder):
    columns = people()
    columns["alive"] = ["dead" if rich == "no" else "living" for rich in columns["rich"]]
    (folder / "people.csv").write_text(as_csv(columns, ["age", "land", "alive", "rich"]))
    told = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1).err
    assert "column alive alone tells rich of all 240 rows" in told and "--drop alive" in told
    assert told.count("alone") == 1


def test_layers_count_the_columns_that_are_kept(folder):
    common = (*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1)
    for spec in ("5,8,1", "auto,8,1"):
        succeed(*common, "--layers", spec)
        assert nn.Network.load("m.bin").spec == "5,8:relu,1:sigmoid"
    failed = run(*common, "--layers", "8,8,1")
    assert failed.code == 2 and "left out" in failed.err and "auto" in failed.err


def test_the_layers_of_such_a_network_are_timed(folder):
    train = (*ONE, "--dataset", "people.csv", "--model", "m.bin", "--json", "--profile", "--trace", "t.json")
    layers = succeed(*train).json["profile"]["layers"]
    assert layers[0]["layer"] == "embedding" and len(layers) == 4 and layers[1]["forward_ms"] > 0
    names = {event["name"] for event in json.loads((folder / "t.json").read_text())["traceEvents"]}
    assert {"forward 0 embedding", "forward 1 60", "forward 3 1"} <= names


def test_a_model_comes_back_with_its_columns(trained, folder):
    net = nn.Network.load("m.bin")
    ds = load_for(net, "people.csv")
    assert isinstance(ds.x, TableRows) and net.encoding.names == ["age", "land", "member", "day", "town"]
    np.testing.assert_array_equal(net.predict(ds.x), nn.Network.load("m.bin").predict(ds.x))
    assert b'"format\\":2' in (folder / "m.bin").read_bytes()


def test_a_networks_schema_reads_the_data_of_its_training(folder):
    (folder / "a.csv").write_text("".join(f"{i},{i * i % 7},{'ab'[i % 2]}\n" for i in range(40)))
    ds, net = nn.load("a.csv"), nn.Network("2,3,1", "binary")
    nn.train(net, ds, epochs=1)
    assert (net.schema.task, net.schema.classes, net.schema.width) == ("binary", ["a", "b"], 2)
    again = nn.load_for(net, "a.csv")
    np.testing.assert_array_equal(again.y, ds.y)
    assert again.classes == ds.classes
    images = nn.Network("1x2x2,3,1", "binary").schema
    assert images.pixels == (1, 2, 2) and images.width == 4


def test_the_original_format_and_the_reference_know_numbers_only(folder):
    train = ("--train", "--dataset", "people.csv")
    failed = run(*train, "--layers", "auto,4,1:sigmoid", "--activation", "sigmoid", "--model", "m.m")
    assert failed.code == 2 and ".m file knows numbers" in failed.err
    failed = run(*train, "--model", "m.bin", "--reference", "--layers", "8,4,1")
    assert failed.code == 65 and "expected a number" in failed.err


@pytest.mark.parametrize("mode, gone, told", [
    ("--test", ["rich"], "no column rich, expected every column that the model was trained on, rich as the target"),
    ("--test", ["town", "age", "rich"], "no columns age, town, rich, expected every column"),
    ("--test", ["town", "age"], "no columns age, town besides the target, expected every column"),
    ("--predict", ["town", "age", "rich"], "no columns age, town, expected every column"),
    ("--predict", ["town"], "no column town besides the target, expected every column"),
])  # fmt: skip
def test_all_columns_that_are_missing_are_named(trained, folder, mode, gone, told):
    columns = people(50)
    (folder / "less.csv").write_text(as_csv(columns, [name for name in columns if name not in gone]))
    failed = run(mode, "--model", "m.bin", "--dataset", "less.csv")
    assert failed.code == 65 and f"less.csv: {told}" in failed.err and len(failed.err.splitlines()[-1]) < 250


def test_columns_of_one_name_are_found_in_their_order(folder):
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=(60, 3))
    frame = pandas.DataFrame(np.c_[x, x @ [1, 2, 3]], columns=["a", "a", "b", "y"])
    ds = nn.load(frame)
    net = nn.Network.for_data(ds, "auto,4,1")
    nn.train(net, ds, epochs=1)
    own = net.predict(ds.x)
    for other in (frame, frame.iloc[:, [2, 0, 3, 1]], frame.iloc[:, [0, 2, 1]]):
        np.testing.assert_array_equal(net.predict(other), own)
    assert (net.predict(frame.iloc[:, [1, 0, 2]]) != own).any()
    with pytest.raises(nn.DataError, match="no column a, expected every column"):
        net.predict(frame.iloc[:, 1:])
