"""The n-th call fails, for all n: memory of the core, and what the system does for files."""

import contextlib
import gzip
import json
import os
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest
from support.campaign import CASES, FILES, faults_of, prepare
from support.command_line import ONE, succeed, write_two_classes
from support.faults import outcomes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the interposer is for Linux")

TRAIN = "--train --dataset two.csv --model m.bin --layers 2,8,1 --epochs 2 --batch_number 16"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder of data and an old model, in which commands are tried."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_two_classes(folder / "two.csv")
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1)
    return folder


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("command", [
    TRAIN,
    TRAIN + " --validation 0.2 --refit",
    TRAIN + " --optimizer sgd --momentum 0.9 --checkpoint c.ck",
    TRAIN + " --networks 3",
    TRAIN.replace("2,8,1", "1x1x2,conv4k1,avgpool1,flatten,8,dropout0.5,1"),
    "--test --dataset two.csv --model m.bin",
    "--predict --dataset two.csv --model m.bin",
])  # fmt: skip
def test_memory_that_ends_anywhere_in_the_core_is_one_line(files, backend, command):
    old = (files / "m.bin").read_bytes().decode("latin-1")
    fine, *failed = outcomes("core_allocation", f"{command} --backend {backend} --quiet".split(), files)
    assert fine.code == 0 and len(failed) > 5, fine.err
    for outcome in failed:
        assert outcome.code == 1 and len(outcome.lines) == 1 and "out of memory" in outcome.err, outcome
        assert outcome.files["m.bin"] == old


@pytest.mark.parametrize("mode", ["train", "predict", "export"])
def test_memory_that_ends_anywhere_is_one_line_and_the_old_files_stay(tmp_path, mode):
    folder = tmp_path / "files"
    folder.mkdir()
    prepare(folder, CASES[mode])
    found = list(faults_of(mode, "large_allocation", folder))
    assert len(found) > 3 and not any(wrong for _, wrong in found), found


# ---------------------------------------------------------------- files that are read


MORE_FORMATS = ("csv.gz", "jsonl", "npy", "parquet")


def write_data(name: str) -> str:
    """Write small data of a format; return the path to give for it."""
    x, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    columns = {"a": x[:, 0].tolist(), "b": x[:, 1].tolist(), "y": y.tolist()}
    text = "a,b,y\n" + "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)) + "\n"
    if name == "d.csv":
        Path(name).write_text(text)
    elif name == "d.csv.gz":
        Path(name).write_bytes(gzip.compress(text.encode()))
    elif name == "d.jsonl":
        Path(name).write_text("\n".join(json.dumps({k: v[row] for k, v in columns.items()}) for row in range(60)))
    elif name == "d.db":
        with contextlib.closing(sqlite3.connect(name)) as base, base:
            base.execute("create table t (a, b, y)")
            base.executemany("insert into t values (?, ?, ?)", zip(*columns.values(), strict=True))
    elif name == "d.npz":
        np.savez(name, x=x, y=y)
    elif name == "d.npy":
        np.save(name, np.column_stack([x, y]))
    elif name == "d.parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").table(columns), name)
    else:
        for label in "ab":
            os.makedirs(f"{name}/{label}")
            image = pytest.importorskip("PIL.Image").fromarray(np.full((2, 1), ord(label), np.uint8))
            image.save(f"{name}/{label}/{name}.png")
    return name


@pytest.mark.parametrize(
    "name",
    ["d.csv", "d.db", "d.npz", "d", *(pytest.param(f"d.{kind}", marks=pytest.mark.long) for kind in MORE_FORMATS)],
)
def test_a_file_that_cannot_be_read_any_further_is_named(tmp_path, monkeypatch, name):
    """Each read, and each seek, of each file fails once; a seek that was for speed alone is no matter."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    network = ["--layers", "2,1"]
    command = ["--train", "--dataset", write_data(name), "--model", "m.bin", *network, "--epochs", "1", "--quiet"]
    fine, *failed = outcomes("read", command, folder)
    assert fine.code == 0 and len(failed) > 4, fine.err
    for outcome in failed:
        is_named = outcome.code in (65, 66) and len(outcome.lines) == 1 and outcome.err.startswith(f"nn: {name}")
        assert is_named or (outcome.code == 0 and not outcome.err), outcome
    assert any(outcome.code == 66 and "cannot read: Input/output error" in outcome.err for outcome in failed)


# ---------------------------------------------------------------- files that are written


@pytest.mark.parametrize("lasting", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=pytest.mark.long) if case.is_long else mode for mode, case in CASES.items()]
)
def test_a_file_that_cannot_be_written_at_any_point(tmp_path, mode, lasting):
    """The old file or the new one, one line with its name, exit code 73, nothing left over."""
    folder = tmp_path / "files"
    folder.mkdir()
    prepare(folder, CASES[mode])
    for kind in FILES:
        found = list(faults_of(mode, kind, folder, lasting))
        assert found
        assert not [(kind, outcome, wrong) for outcome, wrong in found if wrong]
        assert all(outcome.code != 1 for outcome, _ in found)
