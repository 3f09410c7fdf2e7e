"""A table in files of all formats, for the tests of reading them."""

import contextlib
import io
import json
import sqlite3

import numpy as np
import pytest

from nn.data import formats
from nn.data.column import Selection
from nn.data.frames import open_frame
from support.tables import fields

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
feather = pytest.importorskip(f"pyarrow.{'feather'}")
orc = pytest.importorskip(f"pyarrow.{'orc'}")
parquet = pytest.importorskip(f"pyarrow.{'parquet'}")


def opened(path, name=None):
    """The table that files are."""
    known, files = formats.recognise(str(path))
    assert name is None or known.name == name
    return known.table(files, str(path), None)


def read(source, reads=None, **selected):
    """The table that a source, a path or a frame gives, of all columns, or of those in
    `reads`."""
    if not hasattr(source, "read"):
        source = open_frame(source) or opened(source)
    return source.read(
        Selection(
            dict.fromkeys(range(source.width)) if reads is None else reads, **selected
        )
    )


def assert_same(table, expected, form) -> None:
    assert table.numbers.dtype == expected.numbers.dtype, form
    np.testing.assert_array_equal(table.numbers, expected.numbers, form)
    for place, known in expected.columns.items():
        column = table.columns[place]
        assert column.reads == known.reads, (form, place)
        assert fields(column) == fields(known), (form, place)
        assert column.words == known.words, (form, place)
        assert column.odd == known.odd, (form, place)
        assert column.low == known.low, (form, place)
        assert column.high == known.high, (form, place)


def written(frame, folder) -> dict:
    """The table in files of all formats, and as it is: what opens it, by name."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    row_group_size = max(1, len(frame) // 3)
    parquet.write_table(table, folder / "a.parquet", row_group_size=row_group_size)
    chunksize = max(1, len(frame) // 2)
    feather.write_feather(table, folder / "a.feather", chunksize=chunksize)
    no_nulls = [
        pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type)
        for f in table.schema
    ]
    # it has no columns of nulls alone
    orc.write_table(table.cast(pa.schema(no_nulls)), folder / "a.orc")
    rows = [
        {name: None if pd.isna(v) else v for name, v in row.items()}
        for row in frame.to_dict("records")
    ]
    own = [
        {name: None if v is None else plain(v) for name, v in row.items()}
        for row in rows
    ]
    text = "\n".join(map(json.dumps, own))
    (folder / "a.jsonl").write_text(text)
    frame.to_csv(folder / "a.csv", index=False)
    (folder / "a.db").unlink(missing_ok=True)
    write_database(frame, folder / "a.db")
    tables = {
        name: opened(folder / f"a.{name}")
        for name in ("parquet", "feather", "orc", "jsonl", "db")
    }
    frames = {
        "pandas": frame,
        "pyarrow": table,
        "columns": frame.to_dict("list"),
        "rows": rows,
        "texts": texts(frame),
    }
    with contextlib.suppress(ImportError):
        import polars

        frames["polars"] = polars.from_arrow(table)
    return tables | {name: open_frame(data) for name, data in frames.items()}


def texts(frame):
    """A frame of the texts that the table has as a CSV file."""
    return pd.read_csv(
        io.StringIO(frame.to_csv(index=False)), dtype=str, keep_default_na=False
    )


def write_database(frame, path, name="t"):
    """Write a table as SQLite has it: dates are texts, truths are declared."""
    kinds = {"b": "BOOLEAN", "i": "INTEGER", "f": "REAL"}
    columns = ", ".join(
        f'"{c}" {kinds.get(frame[c].dtype.kind, "TEXT")}' for c in frame
    )
    rows = [
        [None if pd.isna(v) else plain(v) for v in row]
        for row in frame.astype(object).values.tolist()
    ]
    connection = sqlite3.connect(path)
    connection.execute(f'CREATE TABLE "{name}" ({columns})')
    connection.executemany(
        f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(frame.columns))})', rows
    )
    connection.commit()
    connection.close()


def everything(count: int = 300):
    """A data frame with columns of each kind, most with gaps, and one of each reason to
    be left out."""
    random = np.random.default_rng(11)
    amount = random.normal(size=count).round(3)

    def some(values):
        return np.where(random.random(count) < 0.1, None, values)

    words = {name: random.choice(list(name), count) for name in ("abc", "uvwxyz")}
    draws = random.integers(0, 900, count).astype("timedelta64[D]")
    days = np.datetime64("2020-01-01", "s") + draws
    draws = random.normal(size=count).round(2)
    return pd.DataFrame(
        {
            "amount": amount,
            "gappy": some(draws + 0.125).astype(float),
            "count": random.integers(0, 9, count),
            "land": some(words["abc"]),
            "town": random.zipf(1.3, count) % 90,
            "street": [
                f"{a}{b}"
                for a, b in zip(
                    words["uvwxyz"], random.integers(0, 9, count), strict=True
                )
            ],
            "member": random.choice(["yes", "no"], count),
            "flag": random.random(count) < 0.5,
            "day": days,
            "price": [f"${n:,}.00" for n in random.integers(1, 9999, count)],
            "weight": random.integers(1, 3, count),
            "id": random.permutation(count),
            "name": [f"n{i}" for i in range(count)],
            "planet": "earth",
            "shop_id": random.integers(100, 120, count),
            "zip": some(random.integers(10, 15, count)).astype(float),
            "written": [f"{n}.50" for n in random.integers(0, 99, count)],
            "when": days[::-1].astype(str),
            "odd": [*["7", "8.5"] * (count // 2 - 1), "n.a.", "9"],
            "nothing": [None] * count,
            "rich": some(np.where(amount > 0, "rich", "poor")),
        }
    )


def plain(value):
    if isinstance(value, (int, float, str)):
        return value
    return str(value).removesuffix(" 00:00:00")
