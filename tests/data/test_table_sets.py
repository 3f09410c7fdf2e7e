"""Tables in several files, and in NPY files."""

import os
import shutil

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.streams import LAYERS
from support.tables import failure, refusal

import nn
from nn.utils import DataError, InputNotFound


@pytest.fixture
def folder(folder, table_files):
    """The current folder: one table in many files."""
    return shutil.copytree(table_files, folder, dirs_exist_ok=True)


@pytest.mark.parametrize(
    "path",
    ["days", "days/day*.csv", "days/day2.csv,days/day3.csv,days/day10.csv", "all.npy"],
)
def test_a_test_finds_the_files_again(folder, path):
    succeed("--train", "--dataset", path, "--model", "m.bin", *LAYERS)
    expected = succeed("--test", "--model", "m.bin", "--json").json
    os.chdir("/")
    result = succeed("--test", "--model", folder / "m.bin", "--json")
    assert result.json == expected
    os.chdir(folder)


def test_the_files_are_found_beside_a_model_that_was_moved_with_them(folder):
    succeed("--train", "--dataset", "front.npy,back.npy", "--model", "m.bin", *LAYERS)
    (folder / "else").mkdir()
    for name in ("front.npy", "back.npy", "m.bin"):
        (folder / name).rename(folder / "else" / name)
    assert succeed("--test", "--model", "else/m.bin", "--json").json["rows"] > 4000


@pytest.mark.parametrize(
    "first, second, words",
    [
        ("x,y\n1,2\n", "x,y,z\n1,2,3\n", ["b.csv", "3 columns", "2", "a.csv"]),
        (
            "x,y,z\n1,2,3\n",
            "x,z,y\n1,2,3\n",
            ["b.csv", "column 2", '"z"', '"y"', "a.csv"],
        ),
        ("1,2\n2,1\n", "x,y\n1,2\n", ["b.csv", "header", "a.csv"]),
        (
            "x,y\n1,2\n",
            "x,y\n1,2\n\n2,1\ninf,1\n",
            ["b.csv", "data row 3", "column x", "inf"],
        ),
        ("x,y\n1,2\n", "x,y\n1,2,3\n", ["b.csv, row 2", "3 columns"]),
    ],
)
def test_files_that_do_not_belong_together_are_named(write, first, second, words):
    folder = write(first, "a.csv").parent
    write(second, "b.csv")
    cases = (str(folder), f"{folder}/a.csv,{folder}/b.csv")
    for given in cases:
        message = refusal(lambda given=given: nn.load(given), DataError)
        assert [word for word in words if word not in message] == []


def test_no_file_that_is_read_is_written(folder):
    for path in ("days", "days/day2.csv,days/day3.csv", "days/day*.csv"):
        for flag in ("--model", "--checkpoint", "--trace", "--history"):
            result = run(
                *argv(f"--train --dataset {path} --model m.bin"),
                flag,
                "days/day3.csv",
                *LAYERS,
            )
            assert result.code == 2, flag
            assert "days/day3.csv is both input and output" in result.err, flag


def test_a_missing_or_foreign_file_among_several_is_named(folder):
    with pytest.raises(InputNotFound, match="gone.csv: no such file"):
        nn.load("all.csv,gone.csv")
    with pytest.raises(InputNotFound, match=r"no\*.csv: no file matches"):
        nn.load("no*.csv")
    with pytest.raises(
        InputNotFound, match="all.csv,: a name is missing before or after a comma"
    ):
        nn.load("all.csv,")
    with pytest.raises(DataError, match="all.npy: expected CSV as in all.csv"):
        nn.load("all.csv,all.npy")


def test_impossible_numbers_of_an_array_are_named_and_whole_ones_pixels_for_images(
    tmp_path,
):
    cases = ((np.inf, ["inf", "finite"]), (1e39, ["float32", "--dtype float64"]))
    for number, words in cases:
        np.save(tmp_path / "a.npy", np.array([[1.0, 0], [number, 1]]))
        message = failure(tmp_path / "a.npy")
        assert [
            word for word in ["data row 2", "column 0", *words] if word not in message
        ] == []
    np.save(tmp_path / "a.npy", np.arange(5 * 300, dtype=np.int64).reshape(300, 5) % 7)
    path = str(tmp_path / "a.npy")
    ds = nn.load(path, inputs=(1, 2, 2))
    assert ds.x.shape == (300, 1, 2, 2)
    assert ds.x.dtype == np.uint8
