"""Parquet, Arrow, SQLite and data frames: one table is the same through all of them, and through CSV."""

import datetime
import decimal
import inspect
import string

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from support.effort import examples
from support.table_formats import NUMBER, TARGET, opened, write_database, written
from support.tables import counts

import nn
from nn.core import extension
from nn.data import table_files
from nn.data.column_blocks import date_in, is_infinite, number_in
from nn.data.digest import columns_digest
from nn.data.field_types import ClassName, Number
from nn.data.frame_table import FrameTable, open_frame
from nn.data.source import digest_text
from nn.data.table_files import GAPS, Fields, RowIndex

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
feather, parquet = pytest.importorskip("pyarrow.feather"), pytest.importorskip("pyarrow.parquet")

ffi, lib = extension("seq")
DRAWN = [Phase.explicit, Phase.reuse, Phase.generate]  # a failure is shown as it is: files take too long to shrink it
NAMES = ClassName("a", "column y", True)


def assert_same(table, other, name=""):
    """Both have the same rows, words, classes and bounds."""
    for member in ("inputs", "targets", "codes", "dates", "low", "high"):
        np.testing.assert_array_equal(getattr(table, member), getattr(other, member), f"{name} {member}")
    assert table.inputs.dtype == other.inputs.dtype
    for member in ("words", "names", "ids", "unlabelled"):
        assert getattr(table, member) == getattr(other, member), (name, member)


# -- one table, many formats ---------------------------------------------------------------------------------

BASE = datetime.datetime(2020, 2, 28, 23, 59, 58)
MIXED = {
    "count": st.integers(-(1 << 53), 1 << 53),
    "size": st.floats(-1e30, 1e30),
    "gappy": st.none() | st.floats(-1e3, 1e3),
    "text": st.sampled_from(["red", " blue", "?", "NA", "", "a,b", 'a"b', "12", "-0.5e3", "yes", "2020-01-02", "inf"]),
    "free": st.text(string.ascii_letters + "äß .;'", max_size=4),
    "truth": st.booleans(),
    "answer": st.sampled_from(["Yes", "no", "NULL"]),
    "date": st.none() | st.integers(0, 10**8).map(lambda s: BASE + datetime.timedelta(seconds=s)),
    "y": st.sampled_from(["up", "down", "?"]),
}
ROWS = st.lists(st.fixed_dictionaries(MIXED), min_size=2, max_size=40)


def frame_of(rows):
    frame = pd.DataFrame(rows, columns=list(MIXED))
    return frame.astype({"gappy": "float64", "date": "datetime64[us]"})


@examples(20, deadline=None, phases=DRAWN)
@given(rows=ROWS)
def test_a_table_has_the_same_fields_in_every_format(rows, tmp_path_factory):
    tables = written(frame_of(rows), tmp_path_factory.mktemp("formats"))
    for missing in (GAPS, frozenset()):
        facts = {name: [counts(column) for column in table.facts(missing)] for name, table in tables.items()}
        for name, found in facts.items():
            assert sum(map(sum, found)) == len(rows) * len(MIXED)
            if missing:  # without words for a gap an empty field is a text, but nan is none
                assert found == facts["csv"], name
    of_texts = [table.facts(GAPS)[3] for table in tables.values()]
    odd = {tuple(place and place.text for place in (f.not_number, f.not_date, f.infinite)) for f in of_texts}
    assert len(odd) == 1


@examples(20, deadline=None, phases=DRAWN)
@given(rows=ROWS, keep=st.booleans())
def test_a_table_is_read_the_same_from_every_format(rows, keep, tmp_path_factory):
    frame = frame_of(rows)
    if (frame["y"] == "?").all():
        frame.loc[0, "y"] = "up"
    tables = written(frame, tmp_path_factory.mktemp("formats"))
    texts = [3, 5, 6]
    fields = Fields([0, 1, 2], [8], NUMBER, NAMES, texts=texts, dates=[7], ids=[4], missing=GAPS, keep_unlabelled=keep)
    first = None
    for name, table in tables.items():
        whole, _ = table.read(fields)
        first = first or whole
        assert_same(whole, first, name)
        assert len(whole.inputs) + whole.unlabelled == len(frame)
        assert columns_digest([whole]) == columns_digest([first])


def test_numbers_and_classes_are_those_of_csv(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=50), "b": rng.integers(0, 9, 50), "c": rng.normal(size=50) * 1e9})
    frame["d"] = frame["a"].astype(np.float32)
    frame["y"] = np.array(["up", "down", "left"])[frame["b"] % 3]
    for dtype in ("float32", "float64"):
        for inputs, targets, kind in (([2, 1, 0, 3], [4], NAMES), ([2, 1], [3, 0], TARGET)):
            fields = Fields(inputs, targets, Number(dtype, dtype), kind)
            tables = written(frame.assign(d=frame["d"].astype(str).astype(float)), tmp_path)
            tables["float32"] = open_frame(frame)
            expected = tables["csv"].read(fields)[0]
            for name, table in tables.items():
                assert_same(table.read(fields)[0], expected, name)


@pytest.mark.parametrize("name", ["parquet", "feather", "db", "pandas", "pyarrow"])
def test_rows_in_blocks_and_ranges_are_those_of_the_whole(name, tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=1000), "t": rng.choice(["x", "y", "?", "z"], 1000)})
    frame["y"] = np.where(rng.random(1000) < 0.3, np.nan, rng.normal(size=1000))
    for target, rows in (("y", 700), ("full", 1000)):
        frame["full"] = frame["a"] * 2
        table = written(frame, tmp_path)[name]
        fields = Fields([0], [table.names.index(target)], NUMBER, TARGET, texts=[1], ids=[1], missing=GAPS)
        whole, sha256 = table.read(fields)
        index = RowIndex()
        blocks = list(table.blocks(fields, 96, index=index, step=32))
        assert [len(block.inputs) for block in blocks[:-1]] == [96] * (len(blocks) - 1)
        assert abs(len(whole.inputs) - rows) < 50 and len(index.starts) == -(-len(whole.inputs) // 32) + 1
        for member in ("inputs", "targets", "codes"):
            joined = np.concatenate([getattr(block, member) for block in blocks])
            np.testing.assert_array_equal(joined, getattr(whole, member))
        assert blocks[-1].words == whole.words and blocks[-1].unlabelled == whole.unlabelled == 1000 - len(joined)
        assert columns_digest(blocks) == columns_digest([whole])
        assert index.digests[0].hex() == digest_text(sha256)
        some = table.read_range(fields, index.starts[3], index.starts[7], 128)
        np.testing.assert_array_equal(some.inputs, whole.inputs[96:224])
        assert [some.words[0][code] if code >= 0 else "?" for code in some.codes[:, 0]] == whole.ids[0][96:224]
        numbers = np.flatnonzero(~frame[target].isna()) + 1
        assert [whole.row(i) for i in (0, 17, 600)] == [f"data row {numbers[i]}" for i in (0, 17, 600)]
        assert blocks[2].row(5) == f"data row {numbers[2 * 96 + 5]}"


def test_several_files_are_one_table(tmp_path):
    frame = pd.DataFrame({"a": np.arange(10.0), "t": list("abcdefghij"), "y": np.arange(10) % 2})
    for first, name in ((0, "1"), (4, "2")):
        some = frame.iloc[first : first + 4 if not first else None]
        some.to_parquet(tmp_path / f"{name}.parquet")
        write_database(some, tmp_path / f"{name}.db")
    fields = Fields([0], [2], NUMBER, TARGET, texts=[1], missing=GAPS)
    expected = open_frame(frame).read(fields)[0]
    for suffix in ("parquet", "db"):
        table = opened(tmp_path / f"*.{suffix}")
        whole, _ = table.read(fields)
        assert_same(whole, expected)
        assert whole.row(5) == f"data row 2 of {tmp_path / '2'}.{suffix}"
        np.testing.assert_array_equal(table.read_range(fields, 2, 7, 5).inputs[:, 0], [2, 3, 4, 5, 6])
    assert opened(tmp_path / "1.db").facts(GAPS)[1].not_number.row == "data row 1"


def test_a_folder_of_parquet_files_is_a_table(tmp_path):
    (tmp_path / "t").mkdir()
    for name in "ab":
        pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]}).to_parquet(tmp_path / "t" / f"{name}.parquet")
    assert nn.load(str(tmp_path / "t")).rows == 6


# -- types ---------------------------------------------------------------------------------------------------

TIMES = [datetime.datetime(2020, 1, 2, 3, 4, 5, 250000), None, datetime.datetime(1969, 12, 31)]
ARROW_COLUMNS = {  # column -> its fields as text, None for a null
    "int8": (pa.array([1, None, -3], pa.int8()), ["1", None, "-3"]),
    "uint64": (pa.array([1, None, 1 << 63], pa.uint64()), ["1", None, str(1 << 63)]),
    "half": (pa.array(np.array([0.1, np.nan, 2], np.float16)), ["0.1", "nan", "2"]),
    "float": (pa.array([0.1, None, 1e30], pa.float32()), ["0.1", None, "1e+30"]),
    "whole": (pa.array([1.0, None, 1e16]), ["1", None, "1e+16"]),
    "decimal": (pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]), ["1.50", None, "-2.25"]),
    "bool": (pa.array([True, None, False]), ["True", None, "False"]),
    "null": (pa.nulls(3), [None] * 3),
    "large": (pa.array(["a", None, " b "], pa.large_string()), ["a", None, "b"]),
    "dictionary": (pa.array(["a", None, "b"]).dictionary_encode(), ["a", None, "b"]),
    "numbers": (pa.array([7, None, 3]).dictionary_encode(), ["7", None, "3"]),
    "date32": (pa.array([18321, None, -3653], pa.date32()), ["2020-02-29", None, "1960-01-01"]),
    "second": (pa.array([datetime.datetime(2020, 1, 2), None, None], pa.timestamp("s")), ["2020-01-02", None, None]),
    "micro": (pa.array(TIMES, pa.timestamp("us")), ["2020-01-02 03:04:05.25", None, "1969-12-31"]),
    "time": (pa.array([datetime.time(12, 30), None, None]), ["12:30:00", None, None]),
}


@pytest.mark.parametrize("kind", ARROW_COLUMNS)
def test_columns_of_arrow_are_read_as_their_text(kind, tmp_path):
    column, texts = ARROW_COLUMNS[kind]
    numbers = [None if text is None else number_in(text) for text in texts]
    dates = [None if text is None else date_in(text) for text in texts]
    table = pa.table({"a": column, "y": [1.0, 2.0, 3.0]})
    feather.write_feather(table, tmp_path / "a.feather")
    opened_as = [open_frame(table), opened(tmp_path / "a.feather", "Arrow")]
    if kind != "half":  # no type of Parquet's until lately
        parquet.write_table(table, tmp_path / "a.parquet")
        opened_as.append(opened(tmp_path / "a.parquet", "Parquet"))
    for files in opened_as:
        facts = files.facts(GAPS)[0]
        assert facts.gaps == sum(text in (None, "nan") for text in texts)
        assert facts.numbers == sum(number is not None for number in numbers)
        assert facts.dates == sum(date is not None for date in dates)
        assert files.first_field(0) == texts[0] or texts[0] is None
        read = files.read(Fields([], [1], NUMBER, TARGET, texts=[0], ids=[0], missing=GAPS))[0]
        assert read.ids[0] == [text or "" for text in texts]
        found = [read.words[0][code] if code >= 0 else None for code in read.codes[:, 0]]
        assert found == [None if text == "nan" else text for text in texts]
        if facts.numbers + facts.gaps == 3:
            for dtype in ("float32", "float64"):
                inputs = files.read(Fields([0], [1], Number(dtype, dtype), TARGET, missing=GAPS))[0].inputs[:, 0]
                expected = np.array([np.nan if number is None else number for number in numbers]).astype(dtype)
                np.testing.assert_array_equal(inputs, expected)
        if facts.dates + facts.gaps == 3:
            seconds = files.read(Fields([], [1], NUMBER, TARGET, dates=[0], missing=GAPS))[0].dates[:, 0]
            np.testing.assert_array_equal(seconds, [np.nan if date is None else date for date in dates])


def test_columns_of_pandas_are_read_as_their_text():
    frame = pd.DataFrame(
        {
            "int": pd.array([1, None, 3], "Int64"), "float": pd.array([0.5, None, 3], "Float32"),
            "bool": pd.array([True, None, False], "boolean"), "object": [1, "a", None], "mixed": [True, None, 1],
            "string": pd.array(["a", None, "b"], "string[python]"),
            "arrow": pd.array(["a", None, "b"], "string[pyarrow]"),
            "backed": pd.Series([1, None, 3], dtype="int64[pyarrow]"), "category": pd.Categorical(["b", None, "a"]),
            "numbers": pd.Categorical([3, 1, 3]), "sparse": pd.arrays.SparseArray([1.0, np.nan, 2.0]),
            "zone": pd.to_datetime(["2020-01-01 00:30+02:00", None, "2021-06-01 00:00+02:00"]),
            "period": pd.period_range("2020-01", periods=3, freq="M"),
            "day": pd.to_datetime(["2020-01-01", None, None]),
            "date": [datetime.date(2020, 1, 1), None, None], "y": [1, 2, 3],
        }
    )  # fmt: skip
    expected = [
        ["1", "", "3"], ["0.5", "", "3"], ["True", "", "False"], ["1", "a", ""], ["True", "", "1"], ["a", "", "b"],
        ["a", "", "b"], ["1", "", "3"], ["b", "", "a"], ["3", "1", "3"], ["1", "", "2"],
        ["2019-12-31 22:30:00", "", "2021-05-31 22:00:00"], ["2020-01", "2020-02", "2020-03"], ["2020-01-01", "", ""],
        ["2020-01-01", "", ""],
    ]  # fmt: skip
    texts = list(range(len(expected)))
    table = open_frame(frame)
    read = table.read(Fields([], [len(expected)], NUMBER, TARGET, texts=texts, ids=texts, missing=GAPS))[0]
    assert ["" if text == "nan" else text for ids in read.ids for text in ids] == sum(expected, [])
    assert [counts(facts)[:4] for facts in table.facts(GAPS)[:3]] == [(1, 2, 0, 0), (1, 2, 0, 0), (1, 0, 2, 0)]
    zone = table.read(Fields([0], [len(expected)], NUMBER, TARGET, dates=[11], missing=GAPS))[0].dates
    assert zone[0, 0] == datetime.datetime(2019, 12, 31, 22, 30, tzinfo=datetime.timezone.utc).timestamp()


def test_frames_of_polars_do_not_go_through_pandas():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"a": [1, None, 3], "t": ["x", None, "z"], "b": [True, None, False], "d": TIMES, "y": [0.5, 1.5, 2.5]}
    ).with_columns(c=pl.col("t").cast(pl.Categorical))
    table = open_frame(frame)
    assert [counts(facts) for facts in table.facts(GAPS)] == [
        (1, 2, 0, 0, 0), (1, 0, 0, 0, 2), (1, 0, 2, 0, 0), (1, 0, 0, 2, 0), (0, 3, 0, 0, 0), (1, 0, 0, 0, 2)
    ]  # fmt: skip
    fields = Fields([0], [4], NUMBER, TARGET, texts=[1, 2, 5], dates=[3], missing=GAPS)
    arrow = open_frame(pa.table({name: frame[name].to_list() for name in frame.columns}))
    assert_same(table.read(fields)[0], arrow.read(fields)[0])


def test_only_frames_are_frames():
    for other in ("a.csv", np.zeros(2), [[1, 2]], pa.array([1]), pd.Series([1, 2])):
        assert open_frame(other) is None
    assert isinstance(open_frame(pd.DataFrame({"a": [1]})), FrameTable)
    for name in ("column", "facts", "read", "blocks", "read_range"):
        asked, found = (inspect.signature(getattr(kind, name)) for kind in (table_files.TableFiles, FrameTable))
        assert [(p.name, p.kind) for p in found.parameters.values()] == [
            (p.name, p.kind) for p in asked.parameters.values()
        ], name
    for name in table_files.TableFiles.__annotations__:
        assert hasattr(open_frame(pd.DataFrame({"a": [1]})), name), name


@examples(300)
@given(st.text("0123456789+-.eEinfINFty ", max_size=8) | st.floats().map(repr))
def test_texts_are_numbers_where_they_are_in_csv(text):
    text, value = text.strip(), ffi.new("double *")
    is_number = bool(lib.csv_number(value, text.encode(), len(text.encode())))
    assert (number_in(text) is not None) == (is_number and bool(np.isfinite(value[0])))
    if number_in(text) is not None:
        assert number_in(text) == value[0]
    elif is_number:
        assert is_infinite(text)


# -- gaps ----------------------------------------------------------------------------------------------------


def test_words_for_a_gap_may_be_numbers_and_dates():
    frame = pd.DataFrame({"a": [-999, 1, 2], "b": [0.5, -999.0, 2.0], "d": ["1900-01-01"] * 3, "y": [1, 2, 3]})
    frame["d"] = pd.to_datetime(frame["d"])
    table, missing = open_frame(frame), frozenset({"-999", "1900-01-01"})
    assert [facts.gaps for facts in table.facts(missing)] == [1, 1, 3, 0]
    read = table.read(Fields([0, 1], [3], NUMBER, TARGET, texts=[0], dates=[2], missing=missing))[0]
    np.testing.assert_array_equal(read.inputs, [[np.nan, 0.5], [1, np.nan], [2, 2]])
    assert np.isnan(read.dates).all() and read.codes[:, 0].tolist() == [-1, 0, 1] and read.words == [["1", "2"]]
    np.testing.assert_array_equal([read.low, read.high], [[1, 0.5], [2, 2]])


def test_rows_without_a_target_are_left_out_or_kept():
    frame = pd.DataFrame({"a": ["x", 1.0, 2.0], "t": ["only here", "u", "v"], "y": [None, "up", "down"]})
    fields = Fields([0], [2], NUMBER, NAMES, texts=[1], missing=GAPS)
    table = open_frame(frame)
    read = table.read(fields)[0]
    assert read.inputs[:, 0].tolist() == [1, 2] and read.words == [["u", "v"]] and read.unlabelled == 1
    assert read.names == ["down", "up"] and read.targets[:, 0].tolist() == [1, 0]
    kept = table.read(Fields([], [2], NUMBER, NAMES, texts=[1], missing=GAPS, keep_unlabelled=True))[0]
    assert kept.targets[:, 0].tolist() == [-1, 1, 0] and kept.unlabelled == 0
    with pytest.raises(nn.DataError, match="the data frame: the target is a gap in each of the 3 rows"):
        open_frame(frame.assign(y=None)).read(fields)


def test_the_row_numbers_of_pandas_are_no_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}, index=[5, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    assert parquet.read_schema(tmp_path / "a.parquet").names[-1] == "__index_level_0__"
    assert opened(tmp_path / "a.parquet").names == ["a", "y"]
    assert opened(tmp_path / "a.parquet").read(Fields([0], [1], NUMBER, TARGET))[0].targets[1] == 1


def test_the_digest_of_a_table_is_the_same_for_every_format_and_window(tmp_path):
    """The SHA-256 that a model keeps; another word, or another number, makes another one."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.normal(size=3000), "t": rng.choice(["x", "y", "z", None], 3000)})
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 999, 3000), unit="D")
    frame["word"], frame["y"] = [f"w{i % 700}" for i in range(3000)], rng.choice(["up", "down"], 3000)
    changed = [frame.assign(t=frame["t"].replace("x", "u")), frame.assign(a=frame["a"] + (frame.index == 2999))]
    found = []
    for table in (frame, *changed):
        written(table, tmp_path)
        names, windows = ("csv", "parquet", "feather", "db"), (None, 512)
        digests = {nn.load(str(tmp_path / f"a.{name}"), window=window).sha256 for name in names for window in windows}
        found.append(digests | {nn.load(table).sha256})
    assert [len(digests) for digests in found] == [1, 1, 1] and len(set.union(*found)) == 3


# -- training ------------------------------------------------------------------------------------------------


def test_networks_are_the_same_whatever_the_format_of_their_data(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(3000, 3)), columns=list("abc"))
    frame["y"] = np.where(frame["a"] + frame["b"] > 0, "up", "down")
    written(frame, tmp_path)
    parameters = {}
    for window in (None, 512):
        for suffix in ("csv", "parquet", "feather", "db"):
            ds = nn.load(str(tmp_path / f"a.{suffix}"), window=window)
            net = nn.Network("3,4,1", ds.task)
            nn.train(net, ds, epochs=2)
            parameters[suffix, window] = b"".join(value.tobytes() for value in net.parameters().values())
    assert len(set(parameters.values())) == 2
    assert all(parameters[key] == parameters["csv", key[1]] for key in parameters)
