"""A large CSV file is read in pieces by several threads: table and messages are those of reading from front to back."""

import csv
import random

import numpy as np
import pytest

import nn
from nn.data import csv_table
from nn.data.csv_table import CsvFiles
from nn.data.field_types import ClassName, Number, TargetNumber
from nn.data.source import digest_text
from nn.data.table_files import GAPS, Fields
from nn.utils import DataError

PLACES = ("inputs", "targets", "codes", "dates", "low", "high")
WORDS = ["red", "blue", " green ", "?", "NA", 'a "quoted" word', "two\nlines", "three,\n\n", "été", "x" * 30]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Four threads, and pieces of a few rows."""
    monkeypatch.setattr(csv_table, "PIECE_BYTES", 64)
    monkeypatch.setattr(csv_table, "default_threads", lambda: 4)


def write(path, rng, rows, blank_lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=rng.choice(["\n", "\r\n"]))
        writer.writerow(["n", "word", "day", "id", "y"])
        for row in range(rows):
            day = rng.choice(["2024-02-29", "NA", "2024-01-01 10:00"])
            writer.writerow([rng.choice([row, -0.5, "?"]), rng.choice(WORDS), day, f"id {row}", rng.choice("ab?")])
            if blank_lines and rng.random() < 0.1:
                file.write("\n")


@pytest.mark.parametrize("keep", [False, True])
def test_pieces_are_the_rows_of_the_whole(tmp_path, keep):
    rng, path, read = random.Random(7 + keep), str(tmp_path / "a.csv"), 0
    for count in range(60):
        write(path, rng, rng.randint(20, 200), blank_lines=count % 2)
        files = CsvFiles([path], path)
        kind = ClassName(path, "y", True)
        fields = Fields([0], [4], Number("float32", "float32"), kind, [1], [2], [3], GAPS, keep_unlabelled=keep)
        whole, sha256 = files._read_through(fields)
        found = files._read_pieces(fields, hashed=True)
        if found is None:  # a cut lies within quotes
            continue
        read += 1
        table, again = found
        assert digest_text(again) == sha256
        for member in PLACES:
            np.testing.assert_array_equal(getattr(table, member), getattr(whole, member), member)
        for member in ("words", "names", "ids", "unlabelled"):
            assert getattr(table, member) == getattr(whole, member), member
        rows = range(len(whole.inputs))
        assert [table.row(row) for row in rows] == [whole.row(row) for row in rows]
    assert read > 15


def test_what_is_wrong_in_a_piece_is_told_with_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n" + "1,2,0\n" * 200 + "1,oops,1\n" + "3,4,1\n" * 50)
    with pytest.raises(DataError, match='row 202, column b: found "oops"'):
        nn.load(str(path), numbers="b")
    files = CsvFiles([str(path)], str(path))
    fields = Fields([0], [2], Number("float32", "float32"), TargetNumber(None, ""))
    assert len(files.read(fields)[0].inputs) == 251


def test_a_header_behind_many_blank_lines_is_no_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n" * 300 + "a,b,y\n" + "1,2,0\n3,4,1\n" * 30)
    assert nn.load(str(path)).rows == 60


def test_quotes_over_a_cut_are_one_field(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,y\n" + '"u\nv",0\n' * 5 + '"' + "1,0\n" * 200 + '",1\n' + "w,1\n" * 5)
    ds = nn.load(str(path), categories="t")
    assert ds.rows == 11 and len(ds.x.words_of(0)) == 3
