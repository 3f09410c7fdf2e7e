"""Parquet, Arrow, SQLite and data frames that cannot be read: what is told, and what is read all the same."""

import functools
import gzip
import sqlite3
import sys

import numpy as np
import pytest
from support.table_formats import NUMBER, TARGET, opened, pa, parquet, pd, write_database, written
from support.tables import counts

import nn
from nn.data.field_types import Number
from nn.data.frame_table import open_frame
from nn.data.table_files import GAPS, Fields, RowIndex


def failure(action) -> str:
    with pytest.raises(nn.NnError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_fields_that_are_not_what_is_asked_for_name_row_and_column():
    frame = pd.DataFrame({"a": [1, np.inf, 2], "t": ["5", "x", ""], "big": [1, 1e300, 2], "y": [1, 2, np.nan]})
    table = open_frame(frame)

    def message(inputs=(), targets=(0,), texts=(), dates=(), kind=TARGET, missing=frozenset(), number=NUMBER):
        fields = Fields(list(inputs), list(targets), number, kind, list(texts), list(dates), missing=missing)
        return failure(lambda: table.read(fields))

    place = "the data frame, data row"
    assert message(targets=[0]) == (
        f'{place} 2, column a: found "inf", expected a finite number; correct it or remove the row'
    )
    assert message([1], [2]) == (
        f'{place} 2, column t: found "x", expected a number; correct it, or remove the row or the column'
    )
    assert message([2], [2]) == (
        f'{place} 2, column big: found "1e+300", expected at most 3.4e38 for float32; correct it or use --dtype float64'
    )
    assert message([], [2], texts=[1]).startswith(f"{place} 3, column t: found an empty field, expected a value; fill")
    assert message([], [2], dates=[1]).startswith(f'{place} 1, column t: found "5", expected a date such as 2024-12-31')
    assert message([], [1], kind=TARGET) == f'{place} 2, column t: found "x", expected a number'
    assert message([], [3]).startswith(f'{place} 3, column y: found "nan", expected a finite number')
    with pytest.raises(nn.data.field_types.NotBytes):
        open_frame(frame.assign(a=[1, 2, 300])).read(Fields([0], [2], Number("uint8", "float32"), TARGET))


def test_columns_of_lists_are_refused_where_they_are_asked_for(tmp_path):
    lists, parts = [[1], [2, 3], None], [{"u": 1}] * 3
    table = pa.table({"a": lists, "b": [b"x", b"y", None], "s": parts, "x": [1, 2, 3], "y": [0, 1, 0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    files = opened(tmp_path / "a.parquet")
    assert [counts(facts) for facts in files.facts(GAPS)[:3]] == [(1, 0, 0, 0, 2), (1, 0, 0, 0, 2), (0, 0, 0, 0, 3)]
    assert files.read(Fields([3], [4], NUMBER, TARGET))[0].inputs[:, 0].tolist() == [1, 2, 3]
    for column, what in ((0, "list<"), (1, "binary"), (2, "struct<")):
        fields = Fields([3], [4], NUMBER, TARGET, texts=[column], missing=GAPS)
        found = failure(lambda fields=fields: files.read(fields))
        assert f"column {'abs'[column]}: found fields of type {what}" in found and "--drop" in found


def test_damaged_files_are_refused(tmp_path):
    frame = pd.DataFrame({"a": np.arange(2000.0), "t": ["text"] * 2000, "y": np.arange(2000) % 2})
    written(frame, tmp_path)
    for name in ("a.parquet", "a.feather", "a.db"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        found = failure(lambda name=name: nn.load(str(tmp_path / name)))
        assert found.startswith(f"{tmp_path / name}: cannot be read (") and "copy it again" in found
        (tmp_path / name).write_bytes(gzip.compress(data))
        assert "unpack it with gunzip" in failure(lambda name=name: nn.load(str(tmp_path / name)))


def test_a_table_must_have_rows_and_columns(tmp_path):
    pd.DataFrame({"a": [], "y": []}).to_parquet(tmp_path / "a.parquet")
    assert "no rows, expected at least one" in failure(lambda: nn.load(str(tmp_path / "a.parquet")))
    assert "no columns" in failure(lambda: open_frame(pd.DataFrame(index=[1, 2])))


def test_several_files_have_the_same_columns(tmp_path):
    pd.DataFrame({"a": [1.0], "y": [0]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"b": [1.0], "y": [0]}).to_parquet(tmp_path / "2.parquet")
    found = failure(lambda: nn.load(str(tmp_path / "*.parquet")))
    assert 'column 1 is "b", expected "a" as in' in found
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "2.parquet")
    assert "1 columns, expected 2 as in" in failure(lambda: nn.load(str(tmp_path / "*.parquet")))


def test_a_database_with_several_tables_wants_the_name_of_one(tmp_path):
    frame, path = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]}), tmp_path / "a.db"
    sqlite3.connect(path).execute("VACUUM")
    assert "0 tables in this database, expected one; there is none" in failure(lambda: nn.load(str(path)))
    write_database(frame, path, "people")
    assert nn.load(str(path)).rows == 3
    write_database(frame.iloc[:2], path, "places")
    found = failure(lambda: nn.load(str(path)))
    assert "2 tables in this database, expected one; the tables are people, places; choose one, for example" in found
    assert nn.load(f"{path}:places").rows == 2 and nn.load(f"{path}:people,{path}:places").rows == 5
    assert f"no table place in this database, the tables are people, places; did you mean {path}:places?" in failure(
        lambda: nn.load(f"{path}:place")
    )
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIEW few AS SELECT * FROM people WHERE a > 1")
    connection.execute("CREATE TABLE keyed (k TEXT PRIMARY KEY, rowid TEXT, y REAL) WITHOUT ROWID")
    connection.execute("INSERT INTO keyed VALUES ('b', '7', 1), ('a', '8', 2)")
    connection.commit()
    connection.close()
    assert nn.load(f"{path}:few").x[:, 0].tolist() == [2, 3]
    assert opened(f"{path}:keyed").read(Fields([1], [2], NUMBER, TARGET))[0].inputs[:, 0].tolist() == [8, 7]
    assert nn.data.source.are_there(f"{path}:few") and not nn.data.source.are_there(f"{tmp_path}/b.db:few")


def test_a_database_that_another_program_writes_is_told_as_that(tmp_path, monkeypatch):
    write_database(pd.DataFrame({"a": np.arange(30.0), "y": np.arange(30) % 2}), tmp_path / "a.db")
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0))
    with pytest.raises(nn.utils.DataError, match=r"\(database is locked\); wait for the program that writes it"):
        nn.load(tmp_path / "a.db")
    writer.close()


def test_rows_of_a_database_are_found_where_some_were_deleted(tmp_path):
    write_database(pd.DataFrame({"a": np.arange(300.0), "y": np.arange(300) % 2}), tmp_path / "a.db")
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("DELETE FROM t WHERE CAST(a AS INTEGER) % 3 = 0")
    connection.commit()
    connection.close()
    table, fields, index = opened(tmp_path / "a.db"), Fields([0], [1], NUMBER, TARGET), RowIndex()
    kept = np.array([i for i in range(300) if i % 3])
    blocks = list(table.blocks(fields, 32, index=index))
    np.testing.assert_array_equal(np.concatenate([block.inputs[:, 0] for block in blocks]), kept)
    for at in (0, 3, 5):
        some = table.read_range(fields, index.starts[at], index.starts[at + 1], 32)
        np.testing.assert_array_equal(some.inputs[:, 0], kept[32 * at : 32 * at + 32])


def test_without_pyarrow_the_command_that_installs_it_is_told(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "pyarrow>=16"' in failure(lambda: nn.load(str(tmp_path / "a.parquet")))
    assert open_frame(frame).read(Fields([0], [1], NUMBER, TARGET))[0].inputs[:, 0].tolist() == [1, 2]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    frame = pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9) % 2})
    for name, table in written(frame, tmp_path).items():
        if name in ("parquet", "feather", "db"):
            fields, path = Fields([0], [1], NUMBER, TARGET), tmp_path / f"a.{name}"
            path.write_bytes(path.read_bytes() + b" ")
            assert "changed while it was read" in failure(lambda table=table, f=fields: table.read_range(f, 0, 3, 3))
