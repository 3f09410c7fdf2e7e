"""JSON arrays of objects and the sheets of Excel are tables like CSV files of the same
rows."""

import datetime
import json

import numpy as np
import pytest
from support.command_line import ONE, run

import nn

ROWS = [
    {"a": k / 4, "town": "xyz"[k % 3], "old": None if k % 7 == 0 else k, "y": k % 2}
    for k in range(40)
]


def same(path, csv) -> None:
    """Check that a file has the rows of a CSV file."""
    one = nn.load(str(path))
    other = nn.load(str(csv))
    assert one.columns == other.columns
    assert one.classes == other.classes
    assert np.array_equal(one.y, other.y)
    for column, expected in zip(one.x.columns, other.x.columns, strict=True):
        assert column.reads == expected.reads
        if column.reads == "text":
            words = [column.words[k] for k in column.values]
            assert words == [expected.words[k] for k in expected.values]
        else:
            assert np.array_equal(column.values, expected.values, equal_nan=True)


@pytest.fixture
def csv(tmp_path):
    lines = [",".join(ROWS[0])]
    for row in ROWS:
        lines.append(",".join("" if v is None else str(v) for v in row.values()))
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "t.csv"


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("mark", ["", "\ufeff", "\n "])
def test_an_array_of_objects_is_a_table(csv, indent, mark):
    path = csv.with_name("t.json")
    path.write_text(mark + json.dumps(ROWS, indent=indent), encoding="utf-8")
    same(path, csv)


@pytest.mark.parametrize(
    "text, fault",
    [
        ('[{"a": 1, "y": 0},\n {"a": 2 "y": 1}]', "line 2: no JSON"),
        ('[{"a": 1}, 3]', "an array of other things"),
        ('[{"a": 1, "y": 0}', "no JSON"),
        ('[{"a": ' + "[" * 100_000, "an array of other things"),
    ],
)
def test_another_array_is_refused_in_one_line(folder, text, fault):
    (folder / "bad.json").write_text(text)
    failed = run(*ONE, "--dataset", "bad.json", "--model", "m.bin")
    assert failed.code == 65
    assert fault in failed.err
    assert len(failed.err.splitlines()) == 1


def written(path, lines) -> None:
    """Write a spreadsheet."""
    openpyxl = pytest.importorskip("openpyxl", reason="spreadsheets need openpyxl")
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.create_sheet("notes").append(["not", "read"])
    book.save(path)


def test_the_first_sheet_of_excel_is_a_table(csv):
    path = csv.with_name("t.xlsx")
    written(path, [list(ROWS[0]), *(list(row.values()) for row in ROWS), [None]])
    same(path, csv)


def test_dates_of_excel_are_dates(tmp_path):
    day = datetime.datetime(2024, 3, 1)
    lines = [[day + datetime.timedelta(days=3 * k), k % 2] for k in range(40)]
    written(tmp_path / "d.xlsx", [["day", "y"], *lines])
    (column,) = nn.load(str(tmp_path / "d.xlsx")).x.columns
    assert column.reads == "date"


@pytest.mark.parametrize(
    "lines, fault",
    [
        ([], "no table in its first sheet"),
        ([["a", "y"]], "no table in its first sheet"),
        ([["a", "a"], [1, 2]], "two columns of one name"),
        ([["a", "y"], [1, 2, 3]], "a column without a name"),
    ],
)
def test_a_sheet_without_a_table_is_refused_in_one_line(folder, lines, fault):
    written(folder / "bad.xlsx", lines)
    failed = run(*ONE, "--dataset", "bad.xlsx", "--model", "m.bin")
    assert failed.code == 65
    assert fault in failed.err
    assert len(failed.err.splitlines()) == 1


@pytest.mark.parametrize("at", [40, 400, -30])
def test_a_damaged_spreadsheet_is_refused_in_one_line(folder, at):
    written(folder / "t.xlsx", [["a", "y"], *([k, k % 2] for k in range(40))])
    data = bytearray((folder / "t.xlsx").read_bytes())
    data[at] ^= 255
    (folder / "bad.xlsx").write_bytes(data[: len(data) - 10])
    failed = run(*ONE, "--dataset", "bad.xlsx", "--model", "m.bin")
    assert failed.code == 65
    assert len(failed.err.splitlines()) == 1
