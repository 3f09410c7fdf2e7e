"""A table in files of all formats, for the tests of reading them."""

import sqlite3

import pytest

from nn.data import formats
from nn.data.field_types import Number, TargetNumber
from nn.data.frame_table import open_frame

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
feather, parquet = pytest.importorskip("pyarrow.feather"), pytest.importorskip("pyarrow.parquet")
NUMBER, TARGET = Number("float32", "float32"), TargetNumber(None, "or remove the row")


def opened(path, name=None):
    """The table that a file is."""
    known, files = formats.recognise(str(path))
    assert name is None or known.name == name
    return known.table(files, str(path))


def written(frame, folder) -> dict:
    """The table in files of all formats, and as it is: what opens it, by name."""
    frame.to_csv(folder / "a.csv", index=False)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(table, folder / "a.parquet", row_group_size=max(1, len(frame) // 3))
    feather.write_feather(table, folder / "a.feather", chunksize=max(1, len(frame) // 2))
    (folder / "a.db").unlink(missing_ok=True)
    write_database(frame, folder / "a.db")
    tables = {name: opened(folder / f"a.{name}") for name in ("csv", "parquet", "feather", "db")}
    return tables | {"pandas": open_frame(frame), "pyarrow": open_frame(table)}


def write_database(frame, path, name="t"):
    """Write a table as SQLite has it: dates are texts, truths are declared."""
    kinds = {"b": "BOOLEAN", "i": "INTEGER", "f": "REAL"}
    columns = ", ".join(f'"{c}" {kinds.get(frame[c].dtype.kind, "TEXT")}' for c in frame)
    rows = [[None if pd.isna(v) else plain(v) for v in row] for row in frame.astype(object).values.tolist()]
    connection = sqlite3.connect(path)
    connection.execute(f'CREATE TABLE "{name}" ({columns})')
    connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(frame.columns))})', rows)
    connection.commit()
    connection.close()


def plain(value):
    return value if isinstance(value, (int, float, str)) else str(value)
