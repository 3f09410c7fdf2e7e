"""Tables that commands write: all formats hold the same, and no name promises what a
file is not."""

import csv
import gzip
import io
import json
import os
import resource
import signal
import sys
import threading

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from support.command_line import (
    ONE,
    argv,
    controls,
    on_terminal,
    run,
    start,
    succeed,
    write_numbers,
    write_three_classes,
)

import nn
from nn.commands.table_file import Table, csv_lines, json_lines

REFUSED = [
    "json",
    "xlsx",
    "XLS",
    "ods",
    "onnx",
    "npy",
    "npz",
    "feather",
    "arrow",
    "orc",
    "tsv",
    "db",
    "sqlite",
    "h5",
]
REFUSED += [
    "pkl",
    "html",
    "md",
    "pdf",
    "zip",
    "c",
    "m",
    "json.gz",
    "npy.gz",
    "parquet.gz",
    "csv.zst",
]


@pytest.fixture
def model(folder):
    """A model of three classes whose file has more columns: an id with line ends,
    quotes and gaps."""
    texts = ["plain", 'a "b", c', "line\rend", "line\nend", "", "é€"]
    with open(folder / "t.csv", "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        lines.writerow(["x", "y", "id", "colour"])
        for i in range(60):
            label = ("red", "gr\reen", "blue")[i % 3]
            row = [
                f"{np.sin(i) + 3 * (i % 3):.6f}",
                f"{np.cos(7 * i):.6f}",
                texts[i % len(texts)],
                label,
            ]
            lines.writerow(row)
    succeed(*ONE, *argv("--dataset t.csv --id id --model m.bin --epochs 2 -q"))
    return "m.bin"


def rows_of(path) -> list[dict]:
    """The rows of a file of any kind, with texts as they are, numbers as float64 and
    None for a gap."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if ".jsonl" in path.name or ".ndjson" in path.name:
        return [json.loads(line) for line in data.decode().split("\n")[:-1]]
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    texts = {"id", "predicted", "true", "class"}
    for row in rows:
        for name, text in row.items():
            if name in texts:
                row[name] = text or None
            else:
                row[name] = float(text)
    return rows


@pytest.mark.parametrize(
    "suffix",
    ["csv.gz", "CSV", "txt", "2024", "gz", "jsonl", "ndjson", "jsonl.gz", "parquet"],
)
def test_each_format_holds_what_the_csv_file_holds(model, folder, suffix):
    call = "--predict", "--model", model, "--dataset", "t.csv", "-q", "-o"
    succeed(*call, "p.csv")
    result = succeed(*call, f"p.{suffix}")
    assert result.out == ""
    expected = rows_of(folder / "p.csv")
    rows = rows_of(folder / f"p.{suffix}")
    cells = [row["id"] for row in expected[:6]]
    assert cells == ["plain", 'a "b", c', "line\rend", "line\nend", None, "é€"]
    trues = {row["true"] for row in expected}
    assert trues == {"red", "gr\reen", "blue"}
    assert len(rows) == 60
    assert list(rows[0]) == list(expected[0])
    if suffix.endswith("gz"):
        header = (folder / f"p.{suffix}").read_bytes()[4:8]
        assert header == bytes(4), "the same bytes at every time"
    for ours, theirs in zip(rows, expected, strict=True):
        for name, value in theirs.items():
            if name.startswith("score"):
                same = np.float32(ours[name]) == np.float32(value)
            else:
                same = ours[name] == value
            assert same, name


def test_numbers_of_json_lines_have_the_digits_of_csv(folder):
    numbers = (
        np.array([0.1, 1 / 3, 1e-30, 3e30], np.float32),
        np.array([0.1, 1 / 3, 1e-300, np.nan]),
    )
    table = [np.arange(4), *numbers, ["a", "", 'b"', "c\r"]]
    lines = list(json_lines(Table(["row", "f", "d", "t"], [table])))
    assert lines[0] == '{"row": 0, "f": 0.100000001, "d": 0.1, "t": "a"}'
    assert (
        lines[1] == '{"row": 1, "f": 0.333333343, "d": 0.3333333333333333, "t": null}'
    )
    assert lines[3] == '{"row": 3, "f": 2.99999989e+30, "d": null, "t": "c\\r"}'
    blocks = [[table[0], table[3]]]
    assert list(csv_lines(Table(["row", "a,b"], blocks)))[:3] == [
        'row,"a,b"',
        "0,a",
        "1,",
    ]


def test_parquet_keeps_types_and_streams_in_groups_of_rows(folder, monkeypatch):
    monkeypatch.setattr("nn.commands.predictions.ROWS_OF_PREDICTIONS", 16)
    monkeypatch.setattr("nn.commands.table_file.GROUP_ROWS", 32)
    write_numbers(folder / "numbers.csv", rows=100)
    cases = (("float32", pyarrow.float32()), ("float64", pyarrow.float64()))
    for dtype, kind in cases:
        succeed(
            *ONE,
            *argv(f"--dataset numbers.csv --model m.bin --epochs 1 -q --dtype {dtype}"),
        )
        succeed(*argv("--predict --dataset numbers.csv --model m.bin -o p.parquet"))
        file = parquet.ParquetFile("p.parquet")
        assert file.schema_arrow.field("row").type == pyarrow.int64()
        assert file.schema_arrow.field("predicted power").type == kind
        num_rows = [
            file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)
        ]
        assert num_rows == [32, 32, 32, 4]
        result = file.read().column("predicted power").to_numpy()
        net = nn.Model.load("m.bin").network
        rows = nn.load_for(net, "numbers.csv")
        predictions = net.predict(rows.x)
        expected = predictions[:, 0]
        np.testing.assert_array_equal(result, expected)
        file.close()


@pytest.mark.parametrize("suffix", REFUSED)
def test_a_suffix_of_another_format_is_refused_before_any_work(folder, suffix):
    write_numbers(folder / "t.csv")
    calls = [
        ["--predict", "--model", "no.bin", "--dataset", "t.csv"],
        ["--explain", "--model", "no.bin", "--dataset", "t.csv"],
        ["--train", "--dataset", "t.csv", "--folds", 2, "--epochs", 1],
    ]
    for call in calls:
        result = run(*call, "-o", f"p.{suffix}")
        assert result.code == 2
        assert result.err.count("\n") == 1
        assert f"nn: --output p.{suffix}: " in result.err
        assert "--output," not in result.err
    assert os.listdir(folder) == ["t.csv"]


@pytest.mark.parametrize(
    "suffix",
    ["onnx", "c", "csv", "parquet", "json", "pkl", "pt", "h5", "xlsx", "bin.gz"],
)
def test_no_model_checkpoint_or_history_is_called_as_what_it_is_not(folder, suffix):
    write_numbers(folder / "t.csv")
    net = nn.train_many(nn.load("t.csv"), [{"epochs": 1}])[0][0]
    saves = (net.export, nn.Model(net).save)
    for save in saves:
        with pytest.raises(nn.UsageError, match=f"m.{suffix}: its suffix names "):
            save(f"m.{suffix}")
    train = "--train", "--dataset", "t.csv", "--epochs", 1, "--layers", "auto,1"
    clashes = [("--checkpoint", "m.bin")] + (
        [] if suffix == "csv" else [("--history", "m.bin")]
    )
    for flag, model in [("--model", None), *clashes]:
        if model:
            named = ["--model", model]
        else:
            named = []
        result = run(*train, *named, flag, f"k.{suffix}")
        assert result.code == 2
        assert result.err.startswith(f"nn: {flag} k.{suffix}: its suffix names ")
    assert os.listdir(folder) == ["t.csv"]


def test_a_terminal_gets_no_control_characters_of_words(model):
    call = "--predict", "--model", model, "--dataset", "t.csv", "-q"
    assert "line\rend" in succeed(*call).out
    assert controls(on_terminal(*call).out) is None


def test_json_of_predictions_is_one_object_with_rows(model, folder):
    call = "--predict", "--model", model, "--dataset", "t.csv", "--json"
    result = succeed(*call)
    assert result.out.isascii()
    assert "\\u20ac" in result.out
    printed = result.json
    assert list(printed) == ["model", "drift", "rows"]
    assert printed["model"] == model
    assert printed["drift"] is None or printed["drift"]["drifted"] == 0
    written = succeed(*call, "-o", "p.jsonl")
    assert written.json == {**printed, "output": "p.jsonl", "rows": 60}
    assert printed["rows"] == rows_of(folder / "p.jsonl")
    assert succeed(*call, "-o", "-").json == printed


def test_contributions_and_out_of_fold_predictions_have_all_formats(folder):
    write_three_classes(folder / "t.csv")
    succeed(
        *argv(
            "--train --dataset t.csv --model m.bin --layers 2,4,3 --epochs 1 --folds 3 -q -o f.parquet"
        )
    )
    folds = rows_of(folder / "f.parquet")
    assert {row["fold"] for row in folds} == {0, 1, 2}
    assert list(folds[0])[:3] == ["row", "fold", "predicted"]
    for suffix in ("csv", "jsonl", "parquet"):
        succeed(*argv(f"--explain --model m.bin --dataset t.csv -q -o why.{suffix}"))
    expected = rows_of(folder / "why.csv")
    classes = [row["class"] for row in expected[:3]]
    assert classes == nn.Model.load("m.bin").network.classes
    rows = rows_of(folder / "why.jsonl")
    assert rows == rows_of(folder / "why.parquet") == expected
    for row in expected:
        assert row["base"] + row["x"] + row["y"] == pytest.approx(
            row["value"], abs=1e-9
        )


def test_no_two_columns_of_a_table_have_one_name(folder):
    names = [
        "row",
        "base",
        "value",
        "true",
        "predicted",
        "score b",
        "a",
        "a",
        "row_",
        "y",
    ]
    rng = np.random.default_rng(0)
    rows = []
    for i in range(40):
        rows.append([*(f"{x:.4f}" for x in rng.normal(size=9)), "ab"[i % 2]])
    text = "\n".join(map(",".join, [names, *rows])) + "\n"
    (folder / "t.csv").write_text(text)
    succeed(*ONE, "--dataset", "t.csv", "--model", "m.bin", "--epochs", 1, "-q")
    result = succeed(
        *argv("--predict --model m.bin --dataset t.csv"), "--id", "*", "-o", "p.csv"
    )
    text = (folder / "p.csv").read_text()
    header, first = text.splitlines()[:2]
    ids = "row__,base,value,true_,predicted_,score b_,a,a_,row_,y"
    assert header == f"row,{ids},predicted,score b,true"
    assert first.startswith("0," + ",".join(rows[0]))
    for lines in (
        "a as a_",
        "row as row__",
        "true as true_",
        "predicted as predicted_",
        "score b as score b_",
    ):
        assert lines in result.err
    succeed(
        "--explain", "--model", "m.bin", "--dataset", "t.csv", "-o", "why.parquet", "-q"
    )
    header = parquet.read_schema("why.parquet").names
    assert header == [
        "row",
        "base",
        "row__",
        "base_",
        "value_",
        "true",
        "predicted",
        "score b",
        "a",
        "a_",
        "row_",
        "value",
    ]


def test_targets_of_one_name_have_columns_of_their_own(folder):
    rng = np.random.default_rng(0)
    lines = []
    for row in rng.normal(size=(40, 4)):
        lines.append(",".join(f"{x:.4f}" for x in row))
    text = "\n".join(["a,b,y,y", *lines]) + "\n"
    (folder / "t.csv").write_text(text)
    succeed(*ONE, *argv("--dataset t.csv --target=-2,-1 --model m.bin --epochs 1 -q"))
    out = succeed("--predict", "--model", "m.bin", "--dataset", "t.csv", "-q").out
    assert out.splitlines()[0] == "row,predicted y,predicted y_,true y,true y_"


def test_parquet_names_the_package_that_is_missing(model, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("--predict", "--model", model, "--dataset", "t.csv", "-o", "p.parquet")
    assert result.code == 2
    assert (
        result.err
        == 'nn: Parquet files need the package pyarrow: pip install "pyarrow>=16"\n'
    )


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.csv.gz", "p.parquet"])
def test_an_output_without_room_leaves_the_old_file(folder, name):
    write_numbers(folder / "t.csv", rows=3000)
    succeed(*ONE, "--dataset", "t.csv", "--model", "m.bin", "--epochs", 1, "-q")
    (folder / name).write_text("old")

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    process = start(
        *argv(f"--predict --model m.bin --dataset t.csv -q -o {name}"),
        preexec_fn=limited,
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 73
    assert out == ""
    assert err.startswith(f"nn: {name}: cannot write: ")
    assert err.count("\n") == 1
    assert (folder / name).read_text() == "old"
    names = sorted(os.listdir(folder))
    assert names == sorted(["t.csv", "m.bin", name])


def test_a_pipe_gets_parquet_too(model, folder):
    os.mkfifo("pipe.parquet")
    results = []
    reader = threading.Thread(
        target=lambda: results.append((folder / "pipe.parquet").read_bytes())
    )
    reader.start()
    succeed("--predict", "--model", model, "--dataset", "t.csv", "-o", "pipe.parquet")
    reader.join(10)
    assert parquet.read_table(io.BytesIO(results[0])).num_rows == 60
