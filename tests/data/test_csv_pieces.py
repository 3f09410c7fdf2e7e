"""A large CSV file is read in pieces by several threads: table and messages are those
of reading from front to back."""

import csv
import random

import numpy as np
import pytest
from support.tables import fields, odd_of, read_csv

from nn.data import csv_head, csv_table
from nn.data.column import GAPS, Column, Selection
from nn.data.csv_table import CsvSource
from nn.utils import DataError

READS = {0: "number", 1: "text", 2: "date", 3: "text", 4: "text"}
WORDS = [
    "red",
    "blue",
    " green ",
    "?",
    "NA",
    'a "quoted" word',
    "two\nlines",
    "three,\n\n",
    "été",
    "x" * 30,
]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Four threads, and pieces of a few rows."""
    monkeypatch.setattr(csv_table, "_PIECE_BYTES", 64)
    monkeypatch.setattr(csv_table, "default_threads", lambda: 4)
    monkeypatch.setattr(csv_head, "_HEAD_BYTES", 256)


def write_rows(path, rng, rows, blank_lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        lineterminator = rng.choice(["\n", "\r\n"])
        writer = csv.writer(file, lineterminator=lineterminator)
        writer.writerow(["n", "word", "day", "id", "y"])
        for row in range(rows):
            day = rng.choice(["2024-02-29", "NA", "2024-01-01 10:00"])
            number = rng.choice([row, -0.5, "?", "odd", "inf"])
            word = rng.choice(WORDS)
            writer.writerow([number, word, day, f"id {row}", rng.choice("ab?")])
            if blank_lines and rng.random() < 0.1:
                file.write("\n")


@pytest.mark.parametrize("seed", [7, 8])
def test_pieces_are_the_rows_of_the_whole(tmp_path, seed, monkeypatch):
    rng = random.Random(seed)
    path = str(tmp_path / "a.csv")
    read = 0
    in_pieces = csv_table._read_pieces
    exact = frozenset({0}) if seed == 7 else frozenset()
    selection = Selection(READS, exact=exact, raw=frozenset({3}), missing=GAPS)
    for count in range(60):
        write_rows(path, rng, rng.randint(20, 200), blank_lines=count % 2)
        results = []
        monkeypatch.setattr(csv_table, "_read_pieces", lambda *how: None)
        whole = CsvSource([path], path).read(selection)
        monkeypatch.setattr(
            csv_table,
            "_read_pieces",
            lambda *how, to=results: to.append(in_pieces(*how)) or to[0],
        )
        table = CsvSource([path], path).read(selection)
        read += results[0] is not None  # else a cut lies within quotes
        assert table.sha256.sha256 == whole.sha256.sha256
        assert len(table) == len(whole)
        np.testing.assert_array_equal(table.numbers, whole.numbers)
        for place, column in whole.columns.items():
            again = table.columns[place]
            np.testing.assert_array_equal(again.values, column.values)
            if column.reads == "text":  # as NumPy counts them
                counts = Column("text", column.values, column.words).word_rows
                np.testing.assert_array_equal(
                    (column.word_rows, again.word_rows), (counts, counts)
                )
            assert again.words == column.words
            assert again.odd == column.odd
            assert again.low == column.low
            assert again.high == column.high
        assert [table.row(row) for row in range(len(whole))] == [
            whole.row(row) for row in range(len(whole))
        ]
    assert read > 15


def test_a_word_in_two_encodings_is_one_in_pieces_and_in_the_whole(
    tmp_path, monkeypatch
):
    path = tmp_path / "a.csv"
    path.write_bytes(b"word,y\n" + b"caf\xc3\xa9,1\ncaf\xe9,2\ntea,3\n" * 50)
    for piece_bytes in (100, 1 << 22):
        monkeypatch.setattr(csv_table, "_PIECE_BYTES", piece_bytes)
        source = CsvSource([str(path)], str(path))
        selection = Selection({0: None, 1: None})
        column = source.read(selection).columns[0]
        assert column.words == ["caf\xe9", "tea"], piece_bytes
        assert column.values.tolist() == [0, 0, 1] * 50, piece_bytes
        assert column.counts() == {"caf\xe9": 100, "tea": 50}


def test_odd_and_wrong_fields_of_a_piece_have_lines_and_a_changed_file_is_refused(
    write,
):
    text = "a,b,y\n" + "1,2,0\n" * 200 + "1,oops,1\n" + "3,4,1\n" * 50
    table = read_csv(write(text), reads={1: "number"})
    assert odd_of(table, 1) == {"oops": (1, "row 202")}
    assert len(table) == 251
    path = write("a,b,y\n" + "1,2,0\n" * 200 + "1,1\n" + "3,4,1\n" * 50)
    with pytest.raises(
        DataError, match="row 202: 2 columns, expected 3 as in the header"
    ):
        read_csv(path)
    path = write("a,b\n" + "1,2\n" * 500)
    source = CsvSource([str(path)], str(path))
    write("a,b\n" + "1,2\n" * 501)
    with pytest.raises(DataError, match="changed while it was read"):
        source.read(Selection({0: "number"}))


def test_blank_lines_before_a_header_quotes_over_cuts_and_two_encodings_keep_rows(
    write,
):
    text = "\n" * 300 + "a,b,y\n" + "1,2,0\n3,4,1\n" * 30
    assert len(read_csv(write(text))) == 60
    text = "t,y\n" + '"u\nv",0\n' * 5 + '"' + "1,0\n" * 200 + '",1\n' + "w,1\n" * 5
    table = read_csv(write(text))
    assert len(table) == 11
    assert len({*fields(table.columns[0])}) == 3
    words = ["\u00e9", "one", "two", "three"] * 50
    encoded = []
    for i, word in enumerate(words):
        encoded.append(word.encode("latin-1" if i % 3 else "utf-8"))
    content = b"w,y\n" + b"".join(word + b",1\n" for word in encoded)
    table = read_csv(write(content))
    assert fields(table.columns[0]) == words
