"""Tables of typed columns: every format and every frame gives the same columns, and
says the same where it cannot."""

import contextlib
import functools
import gzip
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.command_line import REPOSITORY
from support.table_formats import (
    assert_same,
    everything,
    opened,
    pa,
    pd,
    read,
    texts,
    write_database,
    written,
)
from support.tables import fields, refusal, seconds_of

import nn
from nn.data import formats, records, sqlite
from nn.data.column import GAPS, Odd
from nn.data.formats import TABLE_FORMATS
from nn.data.frames import open_frame
from nn.data.source import Source, are_there, data_files
from nn.data.typed import in_threads
from nn.settings.flags import FLAGS

INF = float("inf")


def test_every_format_and_frame_gives_the_same_columns_chosen_or_in_short_memory(
    tmp_path, monkeypatch
):
    frame = everything()
    texts_too = [
        "land",
        "street",
        "member",
        "flag",
        "price",
        "name",
        "planet",
        "nothing",
        "rich",
    ]
    kinds = (
        dict.fromkeys(frame, "number")
        | {"day": "date", "when": "date"}
        | dict.fromkeys(texts_too, "text")
    )
    reads = [*kinds.values()]
    wanted_reads = {
        0: "text",
        1: "text",
        2: "text",
        3: "number",
        7: "number",
        8: "text",
    }
    # numbers and dates in words, a word among numbers
    wanted_reads |= dict.fromkeys([16, 17, 18], "text")
    columns = read(texts(frame))
    chosen = read(texts(frame), wanted_reads)
    sources = written(frame, tmp_path)
    for form, source in sources.items():
        table = read(source)
        assert source.names == list(frame), form
        assert source.default_target == 20, form
        assert [column.reads for column in table.columns.values()] == reads, form
        expected = [place for place in range(21) if reads[place] == "number"]
        assert table.number_places == expected, form
        assert table.numbers.flags.c_contiguous, form
        assert table.numbers.dtype == np.float32, form
        assert_same(table, columns, form)
    monkeypatch.setattr(records, "fits", lambda _size: False)
    for form, source in sources.items():
        assert_same(read(source, wanted_reads), chosen, form)


def test_infinite_numbers_are_odd_words_and_nan_and_null_are_gaps(tmp_path):
    numbers = pa.array([1.5, None, INF, float("nan"), -INF, INF, 2.5, 3.5])
    table = pa.table({"a": numbers})
    pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    frame = pd.DataFrame({"a": numbers.to_numpy(False)})
    table = pa.table({"a": numbers})
    sources = (tmp_path / "a.parquet", table, frame)
    for source in sources:
        column = read(source, {0: None}).columns[0]
        assert fields(column) == [1.5, None, None, None, None, None, 2.5, 3.5]
        expected = {"inf": Odd(2, 2), "-inf": Odd(1, 4)}
        assert column.odd == expected
        assert column.low == 1.5
        assert column.high == 3.5


def test_words_for_a_gap_make_equal_numbers_gaps_and_empty_fields_else_odd_words(
    tmp_path,
):
    day = np.array(["2020-01-01", "1900-01-01"], "datetime64[s]")
    a = [1.0, -999]
    i = [-999, 2]
    f = np.array([0.1, 3], np.float32)
    t = ["?", "x"]
    frame = pd.DataFrame({"a": a, "i": i, "f": f, "d": day, "t": t})
    missing = GAPS | {"-999", "0.1", "1900-01-01"}
    numbers = [[1, None], [None, 2], [None, 3], [1577836800, None], [None, "x"]]
    words = [["1", None], [None, "2"], [None, "3"], ["2020-01-01", None], [None, "x"]]
    for kind, known in ((None, numbers), ("text", words)):
        reads = dict.fromkeys(range(5), kind)
        table = read(frame, reads, missing=missing)
        assert [fields(table.columns[place]) for place in range(5)] == known
    reads = dict.fromkeys(range(5), "text")
    raw = read(frame, reads, missing=missing, raw=frozenset(range(5)))
    assert fields(raw.columns[0]) == ["1", "-999"]
    assert fields(raw.columns[4]) == ["?", "x"]
    d = pd.to_datetime(["2020-01-01", None, None])
    frame = pd.DataFrame({"a": [1.0, None, 3], "d": d, "t": ["x", None, ""]})
    table = read(frame, {0: "number", 1: "date", 2: "text"}, missing=frozenset({"?"}))
    odd_words = table.columns[0].odd
    assert odd_words == {"": Odd(1, 1)}
    odd_words = table.columns[1].odd
    assert odd_words == {"": Odd(2, 1)}
    assert fields(table.columns[2]) == ["x", "", ""]
    columns = read(frame, {0: "text"}, raw=frozenset({0})).columns
    assert fields(columns[0]) == ["1", "", "3"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_are_their_shortest_decimals(dtype):
    values = np.array([0.1, 2.7, 1e10 if dtype != "float16" else 600, 3, -0.25], dtype)
    source = values.reshape(-1, 1)
    column = read(source, {0: None}, exact=frozenset({0})).columns[0]
    expected = [float(str(value)) for value in values]
    assert column.values.tolist() == expected
    assert column.values.dtype == np.float64
    source = values.reshape(-1, 1)
    words = read(source, {0: "text"}).columns[0]
    assert fields(words)[::3] == ["0.1", "3"]
    assert column.low == -0.25
    assert column.high == float(str(values.max()))


def test_all_numbers_are_one_matrix_of_float64_where_float32_would_blur_one_column():
    a = np.float32([0.1, 2, 3])
    b = [1.7e9, 1.7e9 + 1, 1.7e9 + 2]
    frame = pd.DataFrame({"a": a, "b": b, "t": ["1", "2", "3"]})
    table = read(frame)
    assert table.numbers.dtype == np.float64
    assert table.numbers[0].tolist() == [0.1, 1.7e9, 1]
    numbers = read(frame, {0: None, 2: None}).numbers
    assert numbers.dtype == np.float32
    apart = read(frame, exact=frozenset({1, 2}))
    assert apart.numbers.dtype == np.float32
    assert apart.number_places == [0]
    dtypes = [apart.columns[place].values.dtype for place in range(3)]
    assert dtypes == ["float32", "float64", "float64"]
    numbers = read(frame, {0: None}, dtype="float64").numbers.tolist()
    assert numbers == [[0.1], [2], [3]]
    for column in apart.columns.values():
        assert not np.shares_memory(column.values, frame["b"])
    source = np.arange(12.0).reshape(4, 3)
    table = read(source, {2: None, 0: None})
    assert table.number_places == [0, 2]
    expected = [[0, 2], [3, 5], [6, 8], [9, 11]]
    assert table.numbers.tolist() == expected
    assert all(column.values.base is not None for column in table.columns.values())
    values = table.columns[2].values
    assert np.shares_memory(values, table.numbers)
    assert len(table) == 4


def test_numbers_in_one_file_and_texts_in_another_are_one_column_as_in_a_database(
    tmp_path, monkeypatch
):
    cases = (
        ([1.5] * 50, ["2.50"] * 49 + ["n.a."], "number"),
        ([1, 2], ["x", "1"], "text"),
    )
    for first, second, kind in cases:
        for name, values in (("1", first), ("2", second)):
            y = range(len(values))
            table = pa.table({"a": values, "y": y})
            path = tmp_path / f"{name}.parquet"
            pa.parquet.write_table(table, path)
        source = f"{tmp_path}/1.parquet,{tmp_path}/2.parquet"
        column = read(source).columns[0]
        a = [*map(str, first), *second]
        frame = pd.DataFrame({"a": a})
        whole = read(frame).columns[0]
        assert column.reads == whole.reads == kind
        assert fields(column) == fields(whole)
        assert column.odd == whole.odd
    monkeypatch.setattr(sqlite, "_READ_ROWS", 10)
    a = [*range(98), "n.a.", "7"]
    frame = pd.DataFrame({"a": a, "y": range(100)})
    write_database(frame, tmp_path / "a.db")
    column = read(tmp_path / "a.db").columns[0]
    expected = [*range(98), None, 7]
    assert fields(column) == expected
    assert column.odd == {"n.a.": Odd(1, 98)}


def test_rows_are_called_by_file_and_number(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2], "y": [0, 1]})
    for name in "12":
        frame.to_parquet(tmp_path / f"{name}.parquet")
        path = tmp_path / f"{name}.npy"
        np.save(path, frame.to_numpy())
    assert read(frame).row(1) == "data row 2"
    assert read(tmp_path / "*.parquet").row(3) == f"data row 2 of {tmp_path}/2.parquet"
    assert read(tmp_path / "*.npy").row(3) == f"data row 2 of {tmp_path}/2.npy"
    assert open_frame(frame).column(1) == "column y"
    assert opened(tmp_path / "1.npy").column(1) == "column 1 of 2"


def test_what_is_masked_in_an_array_is_a_gap():
    values = np.ma.masked_equal(np.array([[1, 5], [9, 6], [3, 9]]), 9)
    expected = [[1, None, 3], [5, 6, None]]
    assert [fields(column) for column in read(values).columns.values()] == expected
    words = np.ma.array(["x", "y"], mask=[False, True])
    day = np.ma.array(
        np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"), mask=[True, False]
    )
    t = np.ma.array([True, False], mask=[True, False])
    source = {"w": words, "d": day, "t": t}
    columns = read(source).columns
    expected = [["x", None], [None, 1609459200], [None, "False"]]
    assert [fields(columns[place]) for place in range(3)] == expected
    frame = np.ones((3, 1))
    y = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    source_with_y = open_frame(frame, y=y)
    assert fields(read(source_with_y).columns[1]) == [1, None, 3]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "kind, frame",
    [
        (np.matrix, [[1, 2], [3, 4]]),
        (None, pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])),
        *(
            (kind, np.array([[1, 2], [3, 4]], kind))
            for kind in ("longdouble", ">f4", ">i2", "uint64")
        ),
    ],
)
def test_matrices_and_columns_of_one_name_or_of_rare_types_are_read(kind, frame):
    if kind is np.matrix:
        frame = kind(frame)
    expected = [[1, 2], [3, 4]]
    assert read(frame).numbers.tolist() == expected
    if kind is np.matrix:
        y = np.matrix([[5.0], [6]])
        source = open_frame(frame, y=y)
        expected = [[1, 2, 5], [3, 4, 6]]
        assert read(source).numbers.tolist() == expected


NO_ROWS = "the data frame: no rows, expected at least one; add the data"
NO_COLUMNS = "the data frame: no columns, expected features and a target"


@pytest.mark.parametrize(
    "frame, y, message",
    [
        (np.zeros((0, 3)), None, NO_ROWS),
        ({"a": []}, None, NO_ROWS),
        ({"a": np.zeros(0), "b": []}, None, NO_ROWS),
        (pd.DataFrame({"a": []}), None, NO_ROWS),
        (pa.table({"a": pa.array([], "f8")}), None, NO_ROWS),
        (np.zeros((3, 0)), None, NO_COLUMNS),
        ({}, None, NO_COLUMNS),
        (pd.DataFrame(index=[1, 2]), None, NO_COLUMNS),
        *(
            (np.zeros((3, 2)), y, "targets for 3 rows, expected one for each")
            for y in ([1, 2], 5, np.zeros((2, 2)), pd.DataFrame({"b": [1]}))
        ),
        (
            {"age": [1, 2], "land": ["Peru"]},
            None,
            ": 2 values of age, 1 of land, expected one for each row",
        ),
        (pa.chunked_array([[1, 2]]), None, "pyarrow cannot read it"),
    ],
)
def test_a_frame_that_is_no_table_is_one_line(frame, y, message):
    assert message in refusal(lambda: open_frame(frame, y=y))


def test_a_stream_of_arrow_is_a_frame_and_what_is_none_is_none():
    table = pa.table({"a": [1, 2, 3], "t": ["x", None, "x"]})
    columns = read(table.to_reader()).columns
    assert fields(columns[0]) == [1, 2, 3]
    assert fields(columns[1]) == ["x", None, "x"]
    arrays = (
        np.zeros(3),
        np.zeros((2, 3, 4)),
        np.zeros(3, [("a", "f8")]),
        pd.Series([1]),
        pa.array([1]),
    )
    cases = (*arrays, [[1, 2], [3]], [1, 2], [], "a")
    for rows in cases:
        assert open_frame(rows) is None, rows


@pytest.mark.parametrize(
    "y, names",
    [
        (["p", "q"], ["target"]),
        (pd.Series([1, 2], name="z"), ["z"]),
        (np.ones((2, 2)), ["target0", "target1"]),
        ([[1.5, 2], [3, 4]], ["target0", "target1"]),
    ],
)
@pytest.mark.parametrize(
    "frame", [pd.DataFrame({"a": [1.0, 2]}), {"a": [1.0, 2]}, [{"a": 1.0}, {"a": 2.0}]]
)
def test_targets_beside_a_frame_are_its_last_columns(frame, y, names):
    source = open_frame(frame, y=y)
    assert source.names == ["a", *names]
    assert source.default_target == len(names)
    expected = (np.ravel(y)[:: len(names)]).tolist()
    column = read(source).columns[1]
    assert fields(column) == expected
    ds = nn.load(frame, y=y)
    assert ds.columns == ["a"]
    assert ds.outputs == len(names)
    assert ds.rows == 2


TOOK = pd.to_timedelta(["1 days 03:04:05.5", None])
UNREADABLE = {
    "complex numbers": np.array([1j, 2]),
    "bytes": np.array([b"x", b"y"]),
    "Python objects": [[1], [2]],
    "durations": TOOK,
    "durations, an array": TOOK.to_numpy(),
    "durations, a list": [*TOOK],
    "durations, of Arrow": pa.array(TOOK),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_complex_numbers_bytes_objects_and_durations_are_refused_where_they_are_read(
    what,
):
    frame = (pa.table if "Arrow" in what else dict)(
        {"a": UNREADABLE[what], "y": [0, 1]}
    )
    message = f"the data frame, column a: found {what.split(',')[0]}, expected numbers, texts or dates"
    assert message in refusal(lambda: read(frame))
    numbers = read(frame, {1: None}).numbers.tolist()
    assert numbers == [[0], [1]]


def test_columns_of_lists_are_refused_where_they_are_asked_for(tmp_path):
    lists = [[1], [2, 3], None]
    parts = [{"u": 1, "v": 2}] * 3
    table = pa.table(
        {
            "a": lists,
            "b": [b"x", b"y", None],
            "s": parts,
            "x": [1, 2, 3],
            "y": [0, 1, 0],
        }
    )
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    pa.orc.write_table(table, tmp_path / "a.orc")
    for name in ("a.parquet", "a.orc"):
        numbers = read(tmp_path / name, {3: None, 4: None}).numbers
        assert numbers[:, 0].tolist() == [1, 2, 3]
        for place, what in ((0, "list<"), (1, "binary"), (2, "struct<")):
            message = refusal(
                lambda place=place, name=name: read(
                    tmp_path / name, {3: None, place: None}
                )
            )
            assert f"column {'abs'[place]}: found fields of type {what}" in message
            assert "--drop" in message


def test_a_file_that_is_damaged_or_fails_or_changes_while_it_is_read_is_refused(
    tmp_path,
):
    y = np.arange(2000) % 2
    frame = pd.DataFrame({"a": np.arange(2000.0), "t": ["text"] * 2000, "y": y})
    written(frame, tmp_path)
    for name in ("a.parquet", "a.feather", "a.orc", "a.db"):
        data = (tmp_path / name).read_bytes()
        content = data[: len(data) // 2]
        (tmp_path / name).write_bytes(content)
        message = refusal(lambda name=name: read(tmp_path / name))
        assert message.startswith(f"{tmp_path / name}: cannot be read (")
        assert "copy it again" in message
        (tmp_path / name).write_bytes(gzip.compress(data))
        assert "unpack it with gunzip" in refusal(
            lambda name=name: opened(tmp_path / name)
        )
    assert (
        refusal(lambda: Source("/proc/self/mem"))
        == "/proc/self/mem: cannot read: Input/output error"
    )
    y = np.arange(9) % 2
    frame = pd.DataFrame({"a": np.arange(9.0), "y": y})
    np.save(tmp_path / "a.npy", frame.to_numpy())
    tables = written(frame, tmp_path) | {"npy": opened(tmp_path / "a.npy")}
    for name in ("parquet", "feather", "orc", "db", "npy"):
        path = tmp_path / f"a.{name}"
        path.write_bytes(path.read_bytes() + b" ")
        assert "changed while it was read" in refusal(
            lambda name=name: read(tables[name])
        )


def test_several_files_have_the_same_columns_and_the_row_numbers_of_pandas_are_none(
    tmp_path,
):
    frame = pd.DataFrame({"a": [1.0, 2], "y": [0, 1]}, index=[7, 9])
    frame.to_parquet(tmp_path / "0.parquet")
    assert "__index_level_0__" in pa.parquet.read_schema(tmp_path / "0.parquet").names
    assert opened(tmp_path / "0.parquet").names == ["a", "y"]
    frame = pd.DataFrame({"a": [1.0], "y": [0]})
    frame.to_parquet(tmp_path / "1.parquet")
    frame = pd.DataFrame({"b": [1.0], "y": [0]})
    frame.to_parquet(tmp_path / "2.parquet")
    first = tmp_path / "0.parquet"
    assert f'2.parquet: column 1 is "b", expected "a" as in {first}; put' in refusal(
        lambda: opened(tmp_path / "*.parquet")
    )
    frame = pd.DataFrame({"a": [1.0]})
    frame.to_parquet(tmp_path / "2.parquet")
    assert f"2.parquet: 1 column, expected 2 as in {first}; leave" in refusal(
        lambda: opened(tmp_path / "*.parquet")
    )
    frame = pd.DataFrame({"a": [], "y": []})
    frame.to_parquet(tmp_path / "3.parquet")
    assert "3.parquet: no rows, expected at least one" in refusal(
        lambda: opened(tmp_path / "3.parquet")
    )


def test_without_pyarrow_the_command_that_installs_it_is_told(tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})
    frame.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "pyarrow>=16"' in refusal(
        lambda: opened(tmp_path / "a.parquet")
    )
    numbers = read(frame).numbers[:, 0]
    assert numbers.tolist() == [1, 2]


def test_a_database_with_several_tables_wants_the_name_of_one(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]})
    path = tmp_path / "a.db"
    sqlite3.connect(path).execute("VACUUM")
    assert "0 tables in this database, expected one; there is none" in refusal(
        lambda: opened(path)
    )
    write_database(frame, path, "people")
    assert len(read(path)) == 3
    write_database(frame.iloc[:2], path, "places")
    message = refusal(lambda: opened(path))
    assert (
        "2 tables in this database, expected one; the tables are people, places; choose one, for example"
        in message
    )
    assert len(read(f"{path}:places")) == 2
    source = f"{path}:people,{path}:places"
    assert len(read(source)) == 5
    message = refusal(lambda: opened(f"{path}:place"))
    assert (
        f"no table place in this database, the tables are people, places; did you mean {path}:places?"
        in message
    )
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE VIEW few AS SELECT * FROM people WHERE a > 1")
        connection.execute(
            "CREATE TABLE keyed (k TEXT PRIMARY KEY, rowid TEXT, y REAL) WITHOUT ROWID"
        )
        connection.execute("INSERT INTO keyed VALUES ('b', '7', 1), ('a', '8', 2)")
    numbers = read(f"{path}:few").numbers
    assert numbers[:, 0].tolist() == [2, 3]
    numbers = read(f"{path}:keyed").numbers
    assert numbers[:, 0].tolist() == [8, 7]
    assert are_there(f"{path}:few")
    assert not are_there(f"{tmp_path}/b.db:few")


def test_generated_columns_of_a_database_are_columns(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as base, base:
        base.execute(
            "CREATE TABLE t (a REAL, twice REAL GENERATED ALWAYS AS (2 * a) VIRTUAL, "
            "is_high BOOLEAN AS (a > 2) STORED, b TEXT AS ('n' || a), y INTEGER)"
        )
        pairs = [(k / 2, k % 3) for k in range(9)]
        base.executemany("INSERT INTO t (a, y) VALUES (?, ?)", pairs)
    table = read(opened(tmp_path / "a.db"))
    names = opened(tmp_path / "a.db").names
    assert names == ["a", "twice", "is_high", "b", "y"]
    expected = [float(k) for k in range(9)]
    assert table.columns[1].values.tolist() == expected
    expected = ["False"] * 5 + ["True"] * 4
    assert fields(table.columns[2]) == expected
    expected = [f"n{k / 2}" for k in range(9)]
    assert fields(table.columns[3]) == expected


def test_a_database_that_another_program_writes_or_left_half_written_is_said_so(
    tmp_path, monkeypatch
):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})
    write_database(frame, tmp_path / "a.db")
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(
        sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0)
    )
    assert "(database is locked); wait for the program that writes it" in refusal(
        lambda: opened(tmp_path / "a.db")
    )
    # only who may write a database can take back a writer's half: it was said to be
    # damaged
    writer.close()
    program = """
import os, sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("pragma cache_size = 1")
writer.execute("begin")
writer.executemany("insert into t values (?, ?)", [(n, "x" * 50) for n in range(20_000)])
os._exit(0)
"""
    command = [sys.executable, "-c", program, tmp_path / "a.db"]
    subprocess.run(command, check=True)
    expected = "; a program was ended while it wrote: open it with that program, or sqlite3, once"
    message = refusal(lambda: opened(tmp_path / "a.db"))
    assert message.endswith(expected)


def test_rows_of_a_database_are_in_order_of_keys_and_the_digest_is_of_its_log_too(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sqlite, "_READ_ROWS", 32)
    y = np.arange(300) % 2
    frame = pd.DataFrame({"a": np.arange(300.0), "y": y})
    write_database(frame, tmp_path / "a.db")
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection,
        connection,
    ):
        connection.execute("DELETE FROM t WHERE CAST(a AS INTEGER) % 3 = 0")
    expected = [i for i in range(300) if i % 3]
    numbers = read(tmp_path / "a.db").numbers
    assert numbers[:, 0].tolist() == expected
    with contextlib.closing(
        sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    ) as base:
        base.execute("pragma journal_mode = wal")
        digests = []
        for _ in range(2):
            pairs = [(row / 7, row % 2) for row in range(60)]
            base.executemany("insert into t values (?, ?)", pairs)
            path = str(tmp_path / "a.db")
            digests.append(nn.load(path).sha256)
    assert digests[0] != digests[1]


def test_json_lines_may_mix_numbers_and_texts_and_lack_some_and_texts_stay(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"a": 1, "b": "x"}\n\n{"a": "n.a.", "c": null}\n{"c": "2020-01-01", "a": 2.5}\n'
    )
    table = read(tmp_path / "a.jsonl", {0: "number", 1: None, 2: None})
    assert fields(table.columns[0]) == [1, None, 2.5]
    odd_words = table.columns[0].odd
    assert odd_words == {"n.a.": Odd(1, 1)}
    assert fields(table.columns[1]) == ["x", None, None]
    assert table.columns[2].reads == "date"
    content = gzip.compress(b'{"z": 1, "t": "2020-01-01T00:00:00", "a": 2}\n' * 3)
    (tmp_path / "a.jsonl").write_bytes(content)
    source = opened(tmp_path / "a.jsonl")
    assert source.names == ["z", "t", "a"]
    column = read(source, {1: "text"}).columns[1]
    assert fields(column) == ["2020-01-01T00:00:00"] * 3
    for line in ("[1, 2]", "{", '{"a": 1', "nonsense"):
        (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n' + line + "\n")
        message = refusal(lambda: opened(tmp_path / "a.jsonl"))
        assert (
            "a.jsonl, line 3: no JSON object, expected one on each line" in message
        ), line


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "f2", ">f8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["a.npy", "a.npy.gz"])
def test_arrays_of_any_type_and_order_are_read_packed_or_not(
    tmp_path, dtype, order, name
):
    array = np.asarray([[0, 1, 0], [1, 1, 1], [1, 0, 1]], dtype, order)
    np.save(tmp_path / "a.npy", array)
    if name.endswith("gz"):
        content = gzip.compress((tmp_path / "a.npy").read_bytes())
        (tmp_path / name).write_bytes(content)
    expected = array[:, [0, 2]].astype(float).tolist()
    numbers = read(tmp_path / name, {0: None, 2: None}).numbers
    assert numbers.tolist() == expected


@pytest.mark.parametrize(
    "array, words",
    [
        (np.zeros(5), ["float64 of shape (5,)", "rows, columns"]),
        (np.zeros((2, 3, 4)), ["(2, 3, 4)", "numpy.savez"]),
        (np.zeros((0, 3)), ["no rows"]),
        (np.array([["a", "b"]]), ["<U1", "numbers"]),
        (np.array([[1, None]], object), ["object of shape"]),
        (slice(-8), ["too few bytes, expected 4800 for the 100x6 values"]),
        (slice(20), ["damaged NPY"]),
    ],
)
def test_an_array_that_is_no_table_or_cut_is_refused(tmp_path, array, words):
    if isinstance(array, slice):
        cut = array
        array = np.zeros((100, 6))
    else:
        cut = slice(None)
        array = array
    np.save(tmp_path / "a.npy", array)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[cut])
    message = refusal(lambda: opened(tmp_path / "a.npy"))
    for word in ["a.npy", *words]:
        assert word in message
    if cut == slice(-8):
        content = gzip.compress(whole[cut])
        (tmp_path / "a.npy").write_bytes(content)
        assert "only 4792 bytes, expected 4800" in refusal(
            lambda: read(tmp_path / "a.npy")
        )


def test_several_threads_raise_what_fails_first():
    def halved(number: int) -> int:
        if number % 20 == 7:
            raise nn.DataError(f"{number}")
        return number // 2

    assert in_threads(halved, range(7), 1 << 20) == [0, 0, 1, 1, 2, 2, 3]
    assert {
        refusal(lambda: in_threads(halved, range(100), 1 << 20)) for _ in range(20)
    } == {"7"}


def test_the_documents_list_every_format():
    help_of_dataset = next(flag.help for flag in FLAGS if flag.name == "dataset")
    guide = (
        (REPOSITORY / "docs" / "data.md")
        .read_text()
        .split("## Formats")[1]
        .split("\n## ")[0]
    )
    for text in (help_of_dataset, nn.load.__doc__, guide):
        assert [
            table_format.name
            for table_format in TABLE_FORMATS
            if not table_format.cure and table_format.name.split()[0] not in text
        ] == []


@pytest.fixture
def samples(tmp_path) -> dict[str, str]:
    """A small file of each format that is read, by the format's name."""
    frame = pd.DataFrame({"a": [0.5, 1.5], "y": [0, 1]})
    written(frame, tmp_path)
    np.save(tmp_path / "a.npy", frame.to_numpy())
    np.savez(tmp_path / "a.npz", x=frame.to_numpy(), y=[0, 1])
    content = bytes([0, 0, 8, 3]) + bytes([0, 0, 0, 2]) * 3 + bytes(8)
    (tmp_path / "a-images").write_bytes(content)
    content = bytes([1]) + bytes(3072) + bytes([2]) + bytes(3072)
    (tmp_path / "a.bin").write_bytes(content)
    (tmp_path / "folder" / "cat").mkdir(parents=True)
    content = b"P5 2 1 255 " + bytes([7, 9])
    (tmp_path / "folder" / "cat" / "1.pgm").write_bytes(content)
    (tmp_path / "a.json").write_text('[{"a": 0.5, "y": 0}, {"a": 1.5, "y": 1}]')
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    files = {
        "JSON array": "a.json",
        "Excel": "a.xlsx",
        "CSV": "a.csv",
        "NPY": "a.npy",
        "Parquet": "a.parquet",
        "Arrow": "a.feather",
        "ORC": "a.orc",
        "SQLite": "a.db",
        "JSON lines": "a.jsonl",
        "NPZ": "a.npz",
        "IDX": "a-images",
        "CIFAR-10 binary": "a.bin",
        "folder of class folders": "folder",
        "pictures": "folder/cat/1.pgm",
    }
    return {known: str(tmp_path / name) for known, name in files.items()}


def test_every_format_recognises_its_files_alone_and_others_are_told_all_formats(
    samples, tmp_path
):
    expected = {
        table_format.name for table_format in TABLE_FORMATS if not table_format.cure
    }
    assert samples.keys() == expected
    for name, path in samples.items():
        if Path(path).is_dir():
            start = None
        else:
            start = Path(path).read_bytes()[:4096]
        recognised = [
            table_format.name
            for table_format in TABLE_FORMATS
            if table_format.recognises(start)
        ]
        assert recognised == [
            name,
            *{
                "JSON lines": ["JSON", "CSV"],
                "JSON array": ["CSV"],
                "NPZ": ["a zip archive"],
                "Excel": ["a zip archive"],
            }.get(name, []),
        ]
    for name in samples.keys() - {"folder of class folders"}:
        data = Path(samples[name]).read_bytes()
        (tmp_path / "b.gz").write_bytes(gzip.compress(data))
        if name in ("CSV", "NPY", "JSON lines", "JSON array", "IDX", "CIFAR-10 binary"):
            assert formats.recognise(str(tmp_path / "b.gz"))[0].name == name
        else:
            message = refusal(lambda: formats.recognise(str(tmp_path / "b.gz")))
            assert (
                f"a gzipped {name} file, expected the {name} file itself; unpack it with gunzip"
                in message
            )
    (tmp_path / "b").write_bytes(bytes([200, 0, 200]))
    message = refusal(lambda: formats.recognise(str(tmp_path / "b")))
    names = []
    for f in TABLE_FORMATS:
        if not f.cure and f.name not in message:
            names.append(f.name)
    assert names == ["folder of class folders"]


@pytest.mark.parametrize(
    "text, name",
    [
        ('{"a": 1}\n{"a": 2}\n', "JSON lines"),
        ('{"a": [1], "b": 2}\r\n{"a": [2]}', "JSON lines"),
        ('{"a": 1}', "JSON lines"),
        ('{"a": ' + "1" * 5000 + "}\n", "JSON lines"),
        ('{"a": [1, 2]}\n', None),
        ('{\n"a": 1}\n', None),
        ("{a},b\n1,2\n", "CSV"),
        ('[{"a": 1}]', "JSON array"),
        ("[[1, 2]]", None),
        ("1 1:2 2:3\n0 1:5 # x\n1 2:", None),
        ("1 1:2\n1 x\n", "CSV"),
        ("time 1:2\n1 3:4\n", "CSV"),
    ],
)
def test_text_is_json_lines_another_format_or_csv(tmp_path, text, name):
    (tmp_path / "a").write_text(text)
    if name:
        path = str(tmp_path / "a")
        assert formats.recognise(path)[0].name == name
    else:
        assert "expected JSON lines, JSON array, CSV, " in refusal(
            lambda: formats.recognise(str(tmp_path / "a"))
        )


def test_a_folder_is_known_by_its_files_and_digits_of_other_scripts_are_letters(
    tmp_path,
):
    (tmp_path / "more").mkdir()
    for name in ("b10.csv", "b2.csv", "notes.txt", ".hidden.csv", "b2\u06632.csv"):
        (tmp_path / name).write_text("a,y\n1,2\n")
    names = [Path(file).name for file in data_files(str(tmp_path))]
    assert names == ["b2.csv", "b2\u06632.csv", "b10.csv"]
    (tmp_path / "more" / "1.png").write_bytes(b"")
    # class folders, and a table about them
    assert data_files(str(tmp_path)) == [str(tmp_path)]


@pytest.mark.timing
def test_no_beginning_of_a_file_takes_long_to_tell(tmp_path):
    def tell():
        with contextlib.suppress(nn.DataError):
            formats.format_of(str(tmp_path / "a"))

    cases = (
        b"a",
        b"\0",
        b" ",
        b"\n",
        b"%\n",
        b"1 ",
        b"1 1:1 ",
        b"1 1:1\n",
        b".",
        b"{",
        b'{"',
        b'{"a":[',
        b"{}\n",
    )
    for text in cases:
        content = (text * 4096)[:4096]
        (tmp_path / "a").write_bytes(content)
        assert seconds_of(tell)[0] < 8e-3, text
