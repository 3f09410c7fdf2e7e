"""The n-th call fails, for all n: memory of the core, and what the system does for
files."""

import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from support.campaign import CASES, FILES, faults_of, prepare
from support.command_line import ONE, argv, succeed, write_two_classes
from support.faults import outcomes
from support.tables import as_frame, csv_of, saved

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the interposer is for Linux"
)

TRAIN = "--train --dataset two.csv --model m.bin --layers 2,8,1 --epochs 2 --batch_number 16"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, in whose copies, beside it, commands are tried."""
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


IN_CORE = [
    TRAIN,
    TRAIN + " --validation 0.2 --refit",
    TRAIN + " --optimizer sgd --momentum 0.9 --checkpoint c.ck",
    TRAIN + " --networks 3",
    TRAIN.replace("2,8,1", "1x1x2,conv4k1,avgpool1,flatten,8,dropout0.5,1"),
    "--test --dataset two.csv --model m.bin",
    "--predict --dataset two.csv --model m.bin",
]
# the others train and predict as these do
OF_SEQ_TOO = (IN_CORE[0], IN_CORE[4], IN_CORE[6])


@pytest.mark.usual(1, 3)
@pytest.mark.parametrize(
    "command, backend",
    [
        *((command, "omp") for command in IN_CORE),
        *((command, "seq") for command in OF_SEQ_TOO),
        *(
            pytest.param(command, "seq", marks=pytest.mark.long)
            for command in IN_CORE
            if command not in OF_SEQ_TOO
        ),
    ],
)
def test_memory_that_ends_anywhere_in_the_core_is_one_line(folder, backend, command):
    write_two_classes(folder / "two.csv")
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1)
    old = (folder / "m.bin").read_bytes().decode("latin-1")
    fine, *failed = outcomes(
        ["core_allocation"], f"{command} --backend {backend} --quiet".split(), folder
    )
    assert fine.code == 0, fine.err
    assert len(failed) > 5, fine.err
    for outcome in failed:
        assert outcome.code == 1, outcome
        assert len(outcome.lines) == 1, outcome
        assert "out of memory" in outcome.err, outcome
        assert outcome.files["m.bin"] == old


@pytest.mark.usual(1)
@pytest.mark.parametrize("mode", ["train", "predict", "export"])
def test_memory_that_ends_anywhere_is_one_line_and_the_old_files_stay(folder, mode):
    prepare(folder, CASES[mode])
    faults = list(faults_of(mode, ["large_allocation"], folder))
    assert len(faults) > 3, faults
    for _, wrong in faults:
        assert not wrong, faults


MORE_FORMATS = [
    pytest.param(f"d.{kind}", marks=pytest.mark.long)
    for kind in ("csv.gz", "jsonl", "npy", "parquet")
]


def write_data(name: str) -> str:
    """Write small data of a format; return the path to give for it."""
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    y = np.arange(60) % 2
    a = x[:, 0].tolist()
    b = x[:, 1].tolist()
    columns = {"a": a, "b": b, "y": y.tolist()}
    if name in ("d.csv", "d.db", "d.parquet"):
        return saved(columns, name)
    if name == "d.csv.gz":
        text = csv_of(columns, columns.values())
        content = gzip.compress(text.encode())
        Path(name).write_bytes(content)
    elif name == "d.jsonl":
        text = "\n".join(map(json.dumps, as_frame(columns, "rows")))
        Path(name).write_text(text)
    elif name == "d.npz":
        np.savez(name, x=x, y=y)
    elif name == "d.npy":
        np.save(name, np.column_stack([x, y]))
    else:
        for label in "ab":
            os.makedirs(f"{name}/{label}")
            image = pytest.importorskip("PIL.Image").fromarray(
                np.full((2, 1), ord(label), np.uint8)
            )
            image.save(f"{name}/{label}/{name}.png")
    return name


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", ["d.csv", "d.db", "d.npz", "d", *MORE_FORMATS])
def test_a_file_that_cannot_be_read_any_further_is_named(folder, name):
    """Each read, and each seek, of each file fails once; a seek that was for speed
    alone is no matter."""
    given = [
        "--dataset",
        write_data(name),
        *argv("--model m.bin --layers 2,1 --epochs 1 --quiet"),
    ]
    command = ["--train", *given]
    fine, *failed = outcomes(["read"], command, folder)
    assert fine.code == 0, fine.err
    assert len(failed) > 4, fine.err
    for outcome in failed:
        is_named = (
            outcome.code in (65, 66)
            and len(outcome.lines) == 1
            and outcome.err.startswith(f"nn: {name}")
        )
        assert is_named or (outcome.code == 0 and not outcome.err), outcome
    assert any(
        outcome.code == 66 and "cannot read: Input/output error" in outcome.err
        for outcome in failed
    )


@pytest.mark.usual(1, 3)
@pytest.mark.parametrize("lasting", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.long) if case.is_long else mode
        for mode, case in CASES.items()
    ],
)
def test_a_file_that_cannot_be_written_at_any_point(folder, mode, lasting):
    """The old file or the new one, one line with its name, exit code 73, nothing left
    over."""
    prepare(folder, CASES[mode])
    faults = list(faults_of(mode, FILES, folder, lasting))
    assert {outcome.kind for outcome, _ in faults} == {*FILES}
    assert not [
        (outcome, wrong) for outcome, wrong in faults if wrong or outcome.code == 1
    ]
