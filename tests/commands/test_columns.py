"""--columns: the columns of predictions that somebody wishes, by the names that they
get; compare --check: an exit code that says which model is better."""

import csv
import json

import numpy as np
import pytest
from support.command_line import argv, run, succeed, write_two_classes

import nn
from nn.commands.predictions import parse_columns, with_progress
from nn.commands.table_file import Table

ROWS = 300


@pytest.fixture
def passengers(folder):
    rng = np.random.default_rng(0)
    with open(folder / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["PassengerId", "age", "Name, full", "Survived"])
        for k in range(ROWS):
            age = round(rng.uniform(1, 80), 1)
            writer.writerow([f"P{k:03}", age, f"Mr. {k}", int(age > 40)])
    succeed(
        *("train", "t.csv", "-m", "m.bin", "--layers", "auto,4,1", "--epochs", 5),
        *("--drop", '"Name, full",PassengerId', "-q"),
    )
    return folder


def rows_of(path) -> list[list[str]]:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_columns_of_predictions_and_of_the_file_have_the_names_that_are_asked_for(
    passengers, monkeypatch
):
    monkeypatch.setattr("nn.commands.predictions.ROWS_OF_PREDICTIONS", 64)
    wished = "PassengerId,Survived=predicted"
    succeed("predict", "m.bin", "t.csv", "--columns", wished, "-o", "sub.csv")
    table = rows_of("sub.csv")
    assert table[0] == ["PassengerId", "Survived"]
    classes = nn.Model.load("m.bin").predict("t.csv")
    assert table[1:] == [[f"P{k:03}", str(classes[k])] for k in range(ROWS)]
    printed = succeed("predict", "m.bin", "t.csv", "--columns", wished)
    assert printed.out.replace("\n", "\r\n") == "\r\n".join(
        ",".join(line) for line in [*table, []]
    ).replace("\r\r", "\r")
    report = succeed("predict", "m.bin", "t.csv", "--columns", wished, "--json").json
    assert report["rows"][7] == {"PassengerId": "P007", "Survived": str(classes[7])}


def test_any_column_is_written_in_any_order_and_more_than_once(passengers):
    wished = 'p=score 1,"Name, full",again=PassengerId,years=1,true,n=row,n2=row,p2=PassengerId'
    succeed("predict", "m.bin", "t.csv", "--columns", wished, "-o", "sub.jsonl")
    lines = (passengers / "sub.jsonl").read_text().splitlines()
    row = json.loads(lines[8])
    assert list(row) == ["p", "Name, full", "again", "years", "true", "n", "n2", "p2"]
    assert row["Name, full"] == "Mr. 8"
    assert row["n"] == row["n2"] == 8
    assert row["again"] == row["p2"] == "P008"
    assert row["years"] == rows_of("t.csv")[9][1]
    scores = nn.Model.load("m.bin").predict_proba("t.csv")[:, 1]
    assert row["p"] == pytest.approx(float(scores[8]), rel=1e-6)
    succeed(
        *("predict", "m.bin", "t.csv", "--flag", "--id", "age"),
        *("--columns", "why=reasons,age", "-o", "sub.csv"),
    )
    table = rows_of("sub.csv")
    assert table[0] == ["why", "age"]
    assert table[1] == ["", rows_of("t.csv")[1][1]]


def test_a_name_with_a_sign_of_equality_is_that_of_its_column():
    names = ["row", "predicted", "score x=1", "x=1"]
    assert parse_columns("x=1,p=score x=1,score x=1,y=x=1", names) == {
        "x=1": "x=1",
        "p": "score x=1",
        "score x=1": "score x=1",
        "y": "x=1",
    }


def test_progress_tells_the_rows_that_are_written():
    told = []
    table = Table(["a"], [[np.arange(3)], [np.arange(2)]])
    shown = with_progress(table, 5, lambda *rows: told.append(rows))
    assert [len(block[0]) for block in shown.blocks] == [3, 2]
    assert told == [(3, 5), (5, 5)]


def test_a_column_that_is_not_there_or_comes_twice_is_refused(passengers):
    call = "predict", "m.bin", "t.csv", "-o", "sub.csv", "--columns"
    refused = run(*call, "PasengerId,predicted")
    assert refused.code == 2
    assert "--columns PasengerId: no column" in refused.err
    refused = run(*call, "a=predicted,a=row")
    assert refused.code == 2
    assert "two columns are called a; give one another name" in refused.err
    assert not (passengers / "sub.csv").exists()
    refused = run("predict", "m.bin", "t.csv", "--columns", "Name=")
    assert len(refused.err.splitlines()) == 1
    assert not refused.out


def test_wrong_use_prints_its_line_alone(passengers):
    """Nothing is printed before all is checked that can be."""
    nn.fit({"a": list(range(40)), "b": list(range(40))}, "b", epochs=1).save("n.bin")
    known = ("m.bin", "t.csv")
    cases = (
        ("test", *known, "--level", "0.9999999"),
        ("test", "n.bin", "n.csv", "--threshold", "0.5"),
        ("compare", "m.bin", "n.bin"),
        ("predict", *known, "--id", "nothing"),
        ("predict", *known, "--columns", "Name,Name"),
    )
    for case in cases:
        refused = run(*case)
        assert refused.code == 2, refused.err
        assert len(refused.err.splitlines()) == 1, refused.err
        assert not refused.out
    done = run("explain", *known, "--background", "none.csv")
    assert "--background has no effect without --output" in done.err


def test_compare_ends_with_a_code_that_says_which_is_better(folder):
    write_two_classes(folder / "two.csv", rows=400)
    for name, epochs in (("a.bin", 1), ("b.bin", 60)):
        succeed(*argv(f"train two.csv -m {name} --layers 2,8,1 --epochs {epochs} -q"))
    nn.Model.load("b.bin").save("c.bin")
    plain = run("compare", "a.bin", "b.bin")
    checked = run("compare", "a.bin", "b.bin", "--check")
    assert plain.code == checked.code == 0
    assert plain.out == checked.out
    assert run("compare", "b.bin", "a.bin").code == 0
    assert run("compare", "b.bin", "a.bin", "--check").code == 4
    assert run("compare", "b.bin", "c.bin", "--check", "--json").code == 3
