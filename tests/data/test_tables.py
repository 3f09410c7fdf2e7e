"""Parquet, Arrow, SQLite and data frames: one table is the same through all of them and
CSV; Arrow's columns."""

import csv
import datetime
import decimal
import hashlib
import os
import pickle
import shutil
import string
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from support.command_line import environment, run
from support.effort import examples
from support.table_formats import (
    assert_same,
    feather,
    fields,
    opened,
    pa,
    parquet,
    pd,
    read,
    written,
)
from support.tables import c_number, refusal, trained_on

import nn
from nn.data.arrow import arrow_block
from nn.data.column import GAPS, as_text, date_in, is_not_finite, number_in
from nn.data.csv_table import CsvSource
from nn.data.frames import open_frame
from nn.data.loading import load_for

# a failure is shown as it is: files take too long to shrink it
DRAWN = [Phase.explicit, Phase.reuse, Phase.generate]


BASE = datetime.datetime(2020, 2, 28, 23, 59, 58)
MIXED = {
    "count": st.integers(-(1 << 53), 1 << 53),
    "size": st.just(12.0) | st.floats(-1e30, 1e30),
    "gappy": st.none() | st.just(12.0) | st.floats(-1e3, 1e3),
    "text": st.sampled_from(
        [
            "red",
            " blue",
            "?",
            "NA",
            "",
            "a,b",
            'a"b',
            "12",
            "-0.5e3",
            "yes",
            "2020-01-02",
            "inf",
        ]
    ),
    "free": st.text(string.ascii_letters + "äß .;'", max_size=4),
    "truth": st.booleans(),
    "answer": st.sampled_from(["Yes", "no", "NULL"]),
    "date": st.none()
    | st.integers(0, 10**8).map(lambda s: BASE + datetime.timedelta(seconds=s)),
    "y": st.sampled_from(["up", "down", "?"]),
}
ROWS = st.lists(st.fixed_dictionaries(MIXED), min_size=2, max_size=40)


@examples(20, deadline=None, phases=DRAWN)
@given(
    rows=ROWS,
    kind=st.sampled_from([None, "text", "number"]),
    missing=st.sampled_from([GAPS, GAPS | {"12", "yes"}]),
)
def test_a_table_is_read_the_same_from_every_format(
    rows, kind, missing, tmp_path_factory
):
    """Columns of other types than numbers and texts as they are: CSV alone has other
    words than yes for a truth."""
    frame = pd.DataFrame(rows, columns=list(MIXED)).astype(
        {"gappy": "float64", "date": "datetime64[us]"}
    )
    folder = tmp_path_factory.mktemp("formats")
    tables = written(frame, folder)
    reads = {}
    for place, name in enumerate(MIXED):
        reads[place] = kind if name in ("text", "free", "answer", "y") else None
    paths = [str(folder / "a.csv")]
    expected = read(CsvSource(paths, "a.csv"), reads, missing=missing)
    for form, source in tables.items():
        table = read(source, reads, missing=missing)
        assert table.numbers.dtype == expected.numbers.dtype, form
        assert_same(table, expected, form)


TIMES = [
    datetime.datetime(2020, 1, 2, 3, 4, 5, 250000),
    None,
    datetime.datetime(1969, 12, 31),
]
ARROW_COLUMNS = {  # column -> its fields as text, None for a null
    "int8": (pa.array([1, None, -3], pa.int8()), ["1", None, "-3"]),
    "uint64": (pa.array([1, None, 1 << 63], pa.uint64()), ["1", None, str(1 << 63)]),
    "half": (pa.array(np.array([0.1, np.nan, 2], np.float16)), ["0.1", None, "2"]),
    "float": (pa.array([0.1, None, 1e30], pa.float32()), ["0.1", None, "1e+30"]),
    "whole": (pa.array([1.0, None, 1e16]), ["1", None, "1e+16"]),
    "decimal": (
        pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
        ["1.50", None, "-2.25"],
    ),
    "bool": (pa.array([True, None, False]), ["True", None, "False"]),
    "null": (pa.nulls(3), [None] * 3),
    "large": (pa.array(["a", None, " b "], pa.large_string()), ["a", None, "b"]),
    "dictionary": (pa.array(["a", None, "b"]).dictionary_encode(), ["a", None, "b"]),
    "numbers": (pa.array([7, None, 3]).dictionary_encode(), ["7", None, "3"]),
    "date32": (
        pa.array([18321, None, -3653], pa.date32()),
        ["2020-02-29", None, "1960-01-01"],
    ),
    "second": (
        pa.array([datetime.datetime(2020, 1, 2), None, None], pa.timestamp("s")),
        ["2020-01-02", None, None],
    ),
    "micro": (
        pa.array(TIMES, pa.timestamp("us")),
        ["2020-01-02 03:04:05.25", None, "1969-12-31"],
    ),
    "time": (pa.array([datetime.time(12, 30), None, None]), ["12:30:00", None, None]),
}


@pytest.mark.parametrize("kind", ARROW_COLUMNS)
def test_columns_of_arrow_are_read_as_their_text(kind, tmp_path):
    column, texts = ARROW_COLUMNS[kind]
    table = pa.table({"a": column, "y": [1.0, 2.0, 3.0]})
    feather.write_feather(table, tmp_path / "a.feather")
    opened_as = [open_frame(table), opened(tmp_path / "a.feather", "Arrow")]
    if kind != "half":  # no type of Parquet's until lately
        parquet.write_table(table, tmp_path / "a.parquet")
        opened_as.append(opened(tmp_path / "a.parquet", "Parquet"))
    for source in opened_as:
        columns = read(source, {0: "text"}).columns
        assert fields(columns[0]) == texts
        columns = read(source, {0: "text"}, raw=frozenset({0})).columns
        ids = fields(columns[0])
        assert [text or "" for text in texts] == ids
        for reads, value_in in (("number", number_in), ("date", date_in)):
            values = [None if text is None else value_in(text) for text in texts]
            # truth values are 0 and 1 where numbers are read
            if kind == "bool" and reads == "number":
                values = [1.0, None, 0.0]
            column_read = read(source, {0: reads}, dtype="float64").columns[0]
            odd = []
            for text, value in zip(texts, values, strict=True):
                if text is not None and value is None:
                    odd.append(text)
            assert fields(column_read) == values
            assert set(column_read.odd) == set(odd)


def test_columns_of_pandas_are_read_as_their_text():
    columns = {  # name -> (values, their texts, what the column is)
        "int": (pd.array([1, None, 3], "Int64"), "1,,3", "number"),
        "float": (pd.array([0.5, None, 3], "Float32"), "0.5,,3", "number"),
        "bool": (pd.array([True, None, False], "boolean"), "True,,False", "text"),
        "object": ([1, "a", None], "1,a,", "text"),
        "mixed": ([True, None, 1], "True,,1", "text"),
        "string": (pd.array(["a", None, "b"], "string[python]"), "a,,b", "text"),
        "arrow": (pd.array(["a", None, "b"], "string[pyarrow]"), "a,,b", "text"),
        "backed": (pd.Series([1, None, 3], dtype="int64[pyarrow]"), "1,,3", "number"),
        "category": (pd.Categorical(["b", None, "a"]), "b,,a", "text"),
        "numbers": (pd.Categorical([3, 1, 3]), "3,1,3", "number"),
        "sparse": (pd.arrays.SparseArray([1.0, np.nan, 2.0]), "1,,2", "number"),
        "zone": (
            pd.to_datetime(["2020-01-01 00:30+02:00", None, "2021-06-01 00:00+02:00"]),
            "2019-12-31 22:30:00,,2021-05-31 22:00:00",
            "date",
        ),
        "period": (
            pd.period_range("2020-01", periods=3, freq="M"),
            "2020-01,2020-02,2020-03",
            "text",
        ),
        "day": (pd.to_datetime(["2020-01-01", None, None]), "2020-01-01,,", "date"),
        "date": ([datetime.date(2020, 1, 1), None, None], "2020-01-01,,", "date"),
        "y": ([1, 2, 3], "1,2,3", "number"),
    }
    frame = pd.DataFrame({name: values for name, (values, *_) in columns.items()})
    for column, (_, texts, _) in zip(
        read(frame, dict.fromkeys(range(16), "text")).columns.values(), columns.values()
    ):
        assert [text or "" for text in fields(column)] == texts.split(",")
    columns_read = read(frame).columns
    expected = [reads for *_, reads in columns.values()]
    assert [column.reads for column in columns_read.values()] == expected
    zone = datetime.datetime(2019, 12, 31, 22, 30, tzinfo=datetime.timezone.utc)
    assert columns_read[11].values[0] == zone.timestamp()


def test_frames_of_polars_are_those_of_arrow():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "a": [1, None, 3],
            "t": ["x", None, "z"],
            "b": [True, None, False],
            "d": TIMES,
            "y": [0.5, 1.5, 2.5],
        }
    ).with_columns(c=pl.col("t").cast(pl.Categorical))
    values = read(frame).columns.values()
    reads = [column.reads for column in values]
    assert reads == ["number", "text", "text", "date", "number", "text"]
    table = pa.table({name: frame[name].to_list() for name in frame.columns})
    arrow = read(table).columns.values()
    expected = [fields(column) for column in arrow]
    assert [fields(column) for column in values] == expected
    if hasattr(pl, "Int128"):  # a type that Arrow lacks
        a = pl.Series([1, 2, 3]).cast(pl.Int128)
        wide = pl.DataFrame({"a": a, "y": [1.0, 2.0, 3.0]})
        assert "the data frame: pyarrow cannot read it" in refusal(
            lambda: nn.load(wide)
        )


@examples(300)
@given(st.text("0123456789+-.eEinfINFty ", max_size=8) | st.floats().map(repr))
def test_texts_are_numbers_where_they_are_in_csv(text):
    value = c_number(text := text.strip())
    expected = value if value is not None and np.isfinite(value) else None
    assert number_in(text) == (expected)
    assert value is None or np.isfinite(value) or is_not_finite(text)


def test_rows_without_a_target_are_left_out_with_their_words(tmp_path):
    y = [None, *["up", "down"] * 18]
    a = ["x", *"uvuv" * 9]
    frame = pd.DataFrame({"a": a, "n": [9.0, *range(36)], "y": y})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in (frame, str(tmp_path / "a.csv")):
        ds = nn.load(data)
        assert ds.rows == 36
        assert ds.unlabelled == 1
        assert ds.classes == ["down", "up"]
        column = ds.x.columns[0]
        assert column.words == ["u", "v"]
        assert ds.y.tolist() == [1, 0] * 18
    with pytest.raises(
        nn.DataError,
        match="the data frame: no row has a target, all 37 have a gap there",
    ):
        nn.load(frame.assign(y=None))


def test_a_digest_goes_with_the_rows_of_a_file_unless_it_was_written_to_or_removed(
    tmp_path,
):
    path = tmp_path / "a.parquet"
    b = np.arange(40) / 7
    frame = pd.DataFrame({"a": range(40), "b": b, "y": [0, 1] * 20})
    frame.to_parquet(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    copies = [shutil.copy(path, tmp_path / name) for name in ("b.parquet", "c.parquet")]
    ds = nn.load(path)
    kept, other = map(nn.load, copies)
    pickled = pickle.dumps(nn.load(path))
    assert pickle.loads(pickled).sha256 == sha256
    assert kept.of_rows([1, 3]).sha256 == sha256
    for copy in copies:
        os.remove(copy)
    assert kept.sha256 == sha256
    with open(path, "r+b") as file:
        file.write(b"PAR1")
    os.utime(path, (1e9, 1e9))
    assert ds.sha256 is other.sha256 is None
    assert pickle.loads(pickle.dumps(ds)).sha256 is None
    trained_on(ds).export(tmp_path / "m.bin")
    failed = run("--test", "--model", tmp_path / "m.bin")
    assert failed.code == 65
    assert "has changed since" in failed.err


def test_the_digest_of_a_table_is_the_same_for_every_format(tmp_path):
    """The SHA-256 that a model keeps; another word, or another number, makes another
    one."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"a": rng.normal(size=3000), "t": rng.choice(["x", "y", "z", None], 3000)}
    )
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        rng.integers(0, 999, 3000), unit="D"
    )
    frame["word"] = [f"w{i % 700}" for i in range(3000)]
    frame["y"] = rng.choice(["up", "down"], 3000)
    t = frame["t"].replace("x", "u")
    changed = [frame.assign(t=t), frame.assign(a=frame["a"] + (frame.index == 2999))]
    results = []
    for table in (frame, *changed):
        written(table, tmp_path)
        digests = {
            nn.load(str(tmp_path / f"a.{name}")).sha256
            for name in ("csv", "parquet", "feather", "db")
        }
        digest = nn.load(table).sha256
        results.append(digests | {digest})
    lengths = [len(digests) for digests in results]
    assert lengths == [1, 1, 1]
    assert len(set.union(*results)) == 3


COUNT = 37
DAY = datetime.datetime(2020, 3, 1, 12, 30)
DAYS = [DAY + datetime.timedelta(days=9 * i) for i in range(COUNT)]
NUMBERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)] + [
    "float16",
    "float32",
    "float64",
]
MANY = {kind: np.arange(0, 3 * COUNT, 3).astype(kind) % 101 for kind in NUMBERS}
COLUMNS = {  # type -> values, as old pyarrow wants them
    **{
        getattr(pa, kind)(): [*many] if kind == "float16" else many.tolist()
        for kind, many in MANY.items()
    },
    pa.bool_(): [i % 3 == 0 for i in range(COUNT)],
    **{kind: [day.date() for day in DAYS] for kind in (pa.date32(), pa.date64())},
    **{pa.timestamp(unit): DAYS for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "UTC"): [
        day.replace(tzinfo=datetime.timezone.utc) for day in DAYS
    ],
    **{
        kind: [f"w{i % 7}" for i in range(COUNT)]
        for kind in (pa.string(), pa.large_string())
    },
    **{
        pa.dictionary(i, pa.string()): [f"w{n % 7}" for n in range(COUNT)]
        for i in (pa.int8(), pa.uint64())
    },
}


def ways(values, kind):
    """Yield the same column in several ways: in one array, cut out of a longer one, of
    several arrays, of none."""
    array = pa.array(values, kind)
    cut = pa.concat_arrays([pa.array(values[::-1], kind), array])
    yield pa.chunked_array([array])
    yield pa.chunked_array([cut]).slice(len(values) - 3, 9)
    yield pa.chunked_array([array.slice(2, 5), array.slice(0, 0), array.slice(11)])
    yield pa.chunked_array([], kind)


def as_read(value):
    """The field that a value becomes: truths are texts, dates are seconds since
    1970."""
    if isinstance(value, datetime.date):
        value = value.isoformat()[:19]
        return float(
            (np.datetime64(value) - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        )
    if isinstance(value, bool):
        return str(value)
    return value


@pytest.mark.parametrize(
    "gaps", [[], [3], [0, 1, 2, 3, 4]], ids=["whole", "gaps", "nothing"]
)
@pytest.mark.parametrize("kind", COLUMNS, ids=str)
def test_columns_of_arrow_are_its_own_lists(kind, gaps):
    values = [None if i % 5 in gaps else value for i, value in enumerate(COLUMNS[kind])]
    for column in ways(values, kind):
        if len(column):
            found = fields(arrow_block(column))
        else:
            found = []
        assert found == [as_read(value) for value in column.to_pylist()]


@pytest.mark.parametrize("index", [2, -1, 2**40])
def test_an_index_beyond_its_dictionary_is_refused(index):
    indices = pa.array([0, index, 1], pa.int64())
    words = pa.array(["a", "b"])
    array = pa.DictionaryArray.from_arrays(indices, words, safe=False)
    with pytest.raises(pa.ArrowInvalid, match="beyond its dictionary"):
        arrow_block(pa.chunked_array([array]))


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_reading_a_file_imports_no_pandas(tmp_path, format):
    days = [DAY.date(), DAY.date(), None] * 20
    path = str(tmp_path / "table")
    a = [1.5, None, 2.5] * 20
    b = [True, None, False] * 20
    y = ["p", "q", "p"] * 20
    table = pa.table({"a": a, "b": b, "c": days, "y": y})
    (parquet.write_table if format == "parquet" else feather.write_feather)(table, path)
    code = (
        "import sys; from nn.data.formats import recognise; from nn.data.column import Selection;"
        f"known, files = recognise({path!r}); table = known.table(files, files[0], None);"
        "assert len(table.read(Selection(dict.fromkeys(range(4))))) == 60; print(*sys.modules)"
    )
    modules = subprocess.check_output(
        [sys.executable, "-c", code], env=environment(), text=True
    )
    assert "pandas" not in modules.split()


CHOICES = {  # what a file without the choice would be read as: other rows or values
    "missing": {"missing": "-9,?"},
    "header": {"header": "yes"},
    "separator": {"separator": ";"},
    "id": {"id": "7"},
    "weight": {"weight": "7"},
    "exposure": {"exposure": "7"},
    "group": {"group": "7"},
    "time": {"time": "7"},
    "drop_duplicates": {"drop_duplicates": True},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_model_reads_a_file_as_its_training_did(choice, tmp_path):
    """A choice of each kind is kept in the model's file, and read from it."""
    rng = np.random.default_rng(0)
    rows = 60
    number = rng.integers(1, 9, rows).astype(str)
    number[::7] = "-9"
    word = rng.choice(["a,x", "b,y", "?"], rows)
    columns = [number, word, rng.integers(1, 4, rows), rng.poisson(2, rows) + 0.5]
    names = [5, 6, 7, 8]  # as if they were numbers of the first row
    path = tmp_path / "t.csv"
    separator = ";" if choice == "separator" else ","
    with open(path, "w", newline="") as file:
        lines = csv.writer(file, delimiter=separator, lineterminator="\n")
        lines.writerows([names, *zip(*columns, strict=True)])
    chosen = {"header": "yes"} | CHOICES[choice]
    ds = nn.load(path, target="8", task="regression", **chosen)
    assert ds.rows == rows
    net = nn.Network.for_data(ds, "auto,2,1:exp", loss="poisson")
    nn.train(net, ds, epochs=1, holdout=0)
    net.export(tmp_path / "m.bin")
    ds = ds.for_loss(net.loss)
    again = load_for(nn.Network.load(tmp_path / "m.bin"), path)
    assert again.kept_choices == ds.kept_choices
    assert again.ids == ds.ids
    for name in ("y", "weights", "exposures", "groups", "times", "sets_of_twins"):
        np.testing.assert_array_equal(getattr(again, name), getattr(ds, name))
    for one, other in zip(again.x.columns, ds.x.columns, strict=True):
        assert as_text(one).texts() == as_text(other).texts()
