"""CSV files as tables of typed columns: what the fields are, values, words, gaps, rows left out."""

import csv
import gzip
import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.effort import examples
from support.tables import ANY, NUMBERS, counts, facts_of, read_any

from nn.data import csv_reader, csv_table
from nn.data.csv_head import Head, read_head, whole_lines
from nn.data.csv_reader import CsvCounter, CsvReader
from nn.data.csv_table import CsvFiles
from nn.data.field_types import ClassName, Number, TargetNumber
from nn.data.npy_table import NpyFiles
from nn.data.source import read_blocks
from nn.data.table_files import GAPS, Fields, Place, RowIndex
from nn.data.written import is_number
from nn.ds import Scaling, load
from nn.utils import DataError

# ---------------------------------------------------------------- one file
X = [[1.5, -2.0], [0.25, 3e4], [7.0, 8.0]]
Y = [0, 1, 1]


@pytest.mark.parametrize("text", [
    "1.5,-2,0\n.25,3e4,1\n7,8,1\n",
    "1.5,-2,0\n.25,3e4,1\n7,8,1",
    "a,b,c\n1.5,-2,0\n.25,3e4,1\n7,8,1\n",
    '"a","b","c"\n1.5,-2,0\n.25,3e4,1\n7,8,1\n',
    '"0","1","2"\n1.5,-2,0\n.25,3e4,1\n7,8,1\n',
    "id,0,1\n1.5,-2,0\n.25,3e4,1\n7,8,1\n",
    '"1.5","-2","0"\n"0.25","3e4","1"\n"7","8","1"\n',
    '1.5,-2,"0"\n.25,3e4,"1"\n7,8,"1"\n',
    "a,b,c\r\n1.5,-2,0\r\n.25,3e4,1\r\n7,8,1\r\n",
    "\n  \n a , b\t, c\n 1.5 ,\t-2 , 0 \n .25, 3e4 ,\" 1 \"\n7,8,1\n\n \n",
    "\ufeffa,b,c\n1.5,-2,0\n.25,3e4,1\n7,8,1\n",
    "\ufeff1.5,-2,0\n.25,3e4,1\n7,8,1\n",
    "1.5,-2,0\n\n.25,3e4,1\n\r\n7,8,1",
    "1.5;-2;0\n.25;3e4;1\n7;8;1\n",
    "a\tb\tc\r\n1.5\t-2\t0\r\n.25\t3e4\t1\r\n7\t 8 \t1\r\n",
    "a | b | c\n1.5 | -2 | 0\n.25 | 3e4 | 1\n7 | 8 | \"1\"\n",
    "a;b;c\n1,5;-2;0\n,25;3e4;1\n7,0;8,;1\n",
    '"a";"b";"c"\n"1,5";"-2,0";"0"\n"0,25";"3e4";"1"\n"7";"8";"1"\n',
    "1,5;-2,0;0\n0,25;3e4;1\n7,0;8,0;1\n",
    "a b c\n  1.5   -2 0\n.25 3e4 1\n7 8\t1\n",
    ' "a"  b c \r\n1.5 -2\t 0\r\n \t \r\n.25 "3e4" 1 \t\r\n7 8 1',
])  # fmt: skip
def test_all_ways_to_write_the_same_table(write, text):
    ds = load(write(text))
    assert ds.x.tolist() == X and ds.y.tolist() == Y
    assert ds.x.dtype == np.float32 and ds.x.flags.c_contiguous and ds.y.dtype == np.int32
    assert (ds.task, ds.classes) == ("binary", ["0", "1"])


@examples(30)
@given(
    st.lists(st.lists(st.floats(-1e30, 1e30), min_size=3, max_size=3), min_size=1, max_size=40),
    st.integers(1, 50),
)
def test_a_table_reads_the_same_however_it_falls_into_blocks(tmp_path_factory, rows, block):
    path = tmp_path_factory.mktemp("blocks") / "data.csv"
    path.write_text("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
    head = read_head(str(path))
    fields = Fields([0, 1], [2], Number("float64", "float64"), TargetNumber(None, ""))
    reader = CsvReader(head, fields)
    reader.block_rows = 3
    for blocks in reader._blocks.values():
        blocks.capacity = 3
    for text in whole_lines(read_blocks(path, size=block), str(path)):
        reader.read(text)
    table = reader.table()
    np.testing.assert_array_equal(np.hstack([table.inputs, table.targets]), rows)
    np.testing.assert_array_equal(table.low, np.min(rows, axis=0)[:2])
    np.testing.assert_array_equal(table.high, np.max(rows, axis=0)[:2])


def test_many_rows_in_gzip_members_read_as_they_were_written(write):
    rows = np.arange(60_000).reshape(-1, 3) / 8
    text = "".join(f"{a},{b},{c}\n" for a, b, c in rows.tolist()).encode()
    cut = len(text) // 2
    ds = load(write(gzip.compress(text[:cut]) + gzip.compress(text[cut:]), "no-suffix"), dtype="float64")
    np.testing.assert_array_equal(ds.x, rows[:, :2])
    np.testing.assert_array_equal(ds.y, rows[:, 2:])


def test_sha256_is_that_of_the_file_and_path_is_absolute(write, monkeypatch):
    data = gzip.compress(b"1,2,0\n3,4,1\n")
    path = write(data, "a.csv.gz")
    monkeypatch.chdir(path.parent)
    ds = load("a.csv.gz")
    assert ds.sha256 == hashlib.sha256(data).hexdigest() and ds.path == str(path)


def test_float64_keeps_every_bit_and_float32_rounds_once(write):
    value = 0.1 + 2**-40
    path = write(f"{value!r},0\n3,1\n")
    assert load(path, dtype="float64").x[0, 0] == value
    assert load(path).x[0, 0] == np.float32(value)


def test_columns_that_float32_would_blur_stay_double(write):
    times = [1_700_000_000 + i for i in range(4)]
    ds = load(write("".join(f"{t},{i},{i % 2}\n" for i, t in enumerate(times))))
    assert ds.x.dtype == np.float64 and ds.x[:, 0].tolist() == times
    scaled = Scaling.fit("standardization", ds.x).apply(ds.x, "float32")
    np.testing.assert_allclose(scaled[:, 0], scaled[:, 1], rtol=1e-6)
    assert load(write("".join(f"{172792 - i},{i % 2}\n" for i in range(1000)))).x.dtype == np.float32


def test_column_names_come_from_the_header(write):
    ds = load(write('"Time","a ""b""",c d,Class\n1,2,3,0\n4,5,6,1\n'))
    assert ds.columns == ["Time", 'a "b"', "c d"] and ds.targets == ["Class"]
    assert load(write("1,2,0\n3,4,1\n")).columns is None


def test_a_row_of_data_is_not_taken_for_a_header(write):
    ds = load(write("5.1,3.5,setosa\n4.9,3.0,virginica\n6,7,setosa\n"))
    assert ds.rows == 3 and ds.columns is None and ds.classes == ["setosa", "virginica"]
    assert load(write("0,1,yes\n1,1,no\n")).rows == 2
    assert load(write("7,abc,3,0\n1,2,3,1\n")).rows == 2


# ---------------------------------------------------------------- what the fields of a column are


def test_facts_count_every_field_once(write):
    path = write(
        "number,truth,date,text,mixed\n"
        '1,yes,2024-02-29,red,NA\n -2.5e3 ,"No",2024/01/05 10:30," blue ",1e999\n?,T,2024-01-05T10:30:59.5Z,,inf\n'
        '"7",TRUE,NULL,"a ""b""",x\n'
    )
    facts = facts_of(path)
    assert [counts(column) for column in facts] == [
        (1, 3, 0, 0, 0), (0, 0, 4, 0, 0), (1, 0, 0, 3, 0), (1, 0, 0, 0, 3), (1, 0, 0, 0, 3)
    ]  # fmt: skip
    assert facts[0].not_number is None and facts[0].not_date == Place("row 2", "1")
    assert facts[1].not_number == Place("row 2", "yes") and facts[1].infinite is None
    assert facts[2].not_date is None
    assert facts[4].not_number == facts[4].infinite == Place("row 3", "1e999")
    assert [counts(column) for column in facts_of(path, rows=1)] == [
        (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1), (1, 0, 0, 0, 0)
    ]  # fmt: skip


def test_a_packed_file_is_unpacked_once_for_facts_and_rows(write, monkeypatch):
    data = gzip.compress(b"1,2\n3,4\n" * 9)
    path, fields = str(write(data)), Fields([0], [1], NUMBERS, TargetNumber(None, ""))
    files = CsvFiles([path], path)
    files.facts(GAPS, rows=1)
    assert files.facts(GAPS)[0].rows == 18
    with monkeypatch.context() as patch:
        patch.setattr(csv_table, "read_blocks", None)
        table, sha256 = files.read(fields)
    assert sha256 == hashlib.sha256(data).hexdigest() and len(table.inputs) == 18
    again, same = files.read(fields)
    assert same == sha256 and again.inputs.tolist() == table.inputs.tolist()
    monkeypatch.setattr(csv_table, "_KEPT_BYTES", 10)
    files.facts(GAPS)
    assert not files._kept


def test_words_for_a_gap_are_those_given(write):
    path = write("a,b\n-999,na\n-99,NA\n5,\n", "gaps.csv")
    facts = facts_of(path, frozenset({"-999", "na"}))
    assert [counts(column) for column in facts] == [(1, 2, 0, 0, 0), (1, 0, 0, 0, 2)]
    path = write("a,b\n\xe9,1\nred,2\n".encode("latin-1"))
    assert counts(facts_of(path, frozenset({"\xe9"}))[0]) == (1, 0, 0, 0, 1)


def test_facts_of_several_files_name_the_file_and_ragged_rows_are_refused(write):
    paths = [str(write(text, name)) for text, name in (("a,b\n1,2\n", "1.csv"), ("a,b\n\n1,x\n", "2.csv"))]
    facts = CsvFiles(paths, ",".join(paths)).facts(GAPS)
    assert facts[1].not_number == Place(f"row 3 of {paths[1]}", "x") and facts[1].rows == 2
    with pytest.raises(DataError, match="row 3: 3 columns, expected 2 as in the header; correct or remove the row"):
        facts_of(write("a,b\n1,2\n1,2,3\n"))


def test_nan_in_an_npy_table_is_a_gap(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1, np.nan], [np.inf, 2], [3, np.nan]]))
    files = NpyFiles([str(tmp_path / "a.npy")], "a.npy")
    facts = files.facts(GAPS)
    assert [counts(column) for column in facts] == [(0, 2, 0, 0, 1), (2, 1, 0, 0, 0)]
    assert facts[0].infinite == Place("index 1", "inf") and facts[1].not_number is None
    assert files.facts(frozenset())[1].not_number == Place("index 0", "nan")


# ---------------------------------------------------------------- any table: words, dates, ids, gaps


def test_words_dates_ids_and_gaps_have_typed_columns(write):
    text = (
        ANY + '1, red ,2024-02-29,a,0\n?,"blue",1969/12/31 23:59:30,"b ""x""",1\n'
        'NA,red,,,0\n-2.5,"re""d",2024-02-29T12:00+02:00,d,NA\n4,NULL,null,e,1\n'
    )
    files, fields = read_any(write(text))
    table, _ = files.read(fields)
    nan = math.nan
    np.testing.assert_array_equal(table.inputs, [[1], [nan], [nan], [4]])
    assert table.codes.dtype == np.int32 and table.codes.tolist() == [[0], [1], [0], [-1]]
    assert table.words == [["red", "blue"]] and table.ids == [["a", 'b "x"', "", "e"]]
    np.testing.assert_array_equal(table.dates, [[1709164800], [-30], [nan], [nan]])
    assert table.targets.tolist() == [[0], [1], [0], [1]] and table.unlabelled == 1
    assert (table.low, table.high) == ([1], [4])
    files, fields = read_any(write(text), keep_unlabelled=True)
    table, _ = files.read(fields)
    assert table.codes.tolist() == [[0], [1], [0], [2], [-1]] and table.words == [["red", "blue", 're"d']]
    assert math.isnan(table.targets[3, 0]) and table.unlabelled == 0 and table.low == [-2.5]
    assert table.dates[3, 0] == 1709200800


def test_class_names_have_gaps_too(write):
    path, name = write(ANY + "1,a,,i,yes\n2,a,,j,?\n3,a,,k,no\n"), ClassName("", "", True)
    files, fields = read_any(path, kind=name)
    table, _ = files.read(fields)
    assert (table.names, table.targets.tolist(), table.unlabelled) == (["no", "yes"], [[1], [0]], 1)
    files, fields = read_any(path, kind=name, keep_unlabelled=True)
    assert files.read(fields)[0].targets.tolist() == [[1], [-1], [0]]


def test_a_row_left_out_may_hold_anything_and_none_left_is_an_error(write):
    path = write(ANY + "x,a,31.12.2024,i,?\n2,b,,j,1\n1e999,c,,k,\n")
    files, fields = read_any(path)
    for table in (files.read(fields)[0], next(files.blocks(fields, 1))):
        assert table.words == [["b"]] and table.inputs.tolist() == [[2]]
    files, fields = read_any(write(ANY + "1,a,,i,?\n"))
    for read in (files.read, lambda fields: list(files.blocks(fields, 4))):
        with pytest.raises(DataError, match="no row has a target, all 1 have a gap there"):
            read(fields)


@pytest.mark.parametrize("row, message", [
    ("x,a,,i,1", 'row 3, column n: found "x", expected a number'),
    ("inf,a,,i,1", 'row 3, column n: found "inf", expected a finite number'),
    ("1,a,31.12.2024,i,1", 'row 3, column day: found "31.12.2024", expected a date such as'),
    ("1,a,2023-02-29,i,1", 'row 3, column day: found "2023-02-29"'),
    ("1,a,,i", "row 3: 4 columns, expected 5 as in the header"),
    ('1,"a,,i,1', 'row 3: a field begins with " and no other " ends it'),
])  # fmt: skip
def test_bad_fields_of_any_table(write, row, message):
    files, fields = read_any(write(f"{ANY}1,a,,i,1\n{row}\n2,a,,i,0\n"))
    with pytest.raises(DataError) as caught:
        files.read(fields)
    assert message in str(caught.value)


def test_without_words_for_a_gap_an_empty_text_or_date_is_an_error(write):
    files, fields = read_any(write(ANY + "1,a,2024-01-01,i,1\n2,,2024-01-01,i,1\n"), missing=frozenset())
    with pytest.raises(DataError, match="row 3, column word: found an empty field, expected a value; fill it in"):
        files.read(fields)
    files, fields = read_any(write(ANY + "1,NA,2024-01-01,,1\n"), missing=frozenset())
    assert files.read(fields)[0].words == [["NA"]]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_words_grow_from_block_to_block(write, size):
    """Thousands of words, long ones among them, in whatever blocks, as a dictionary of Python gives them."""
    words = [f"w{i * i % 1777}" + "-" * (i % 40) for i in range(5000)]
    files, fields = read_any(write(ANY + "".join(f'{i},"{w}",,id{i},{i % 2}\n' for i, w in enumerate(words))))
    expected = {word: code for code, word in enumerate(dict.fromkeys(words))}
    whole, _ = files.read(fields)
    assert whole.words == [list(expected)] and whole.codes[:, 0].tolist() == [expected[word] for word in words]
    assert whole.ids == [[f"id{i}" for i in range(5000)]]
    blocks = list(files.blocks(fields, size))
    assert np.concatenate([block.codes for block in blocks]).tolist() == whole.codes.tolist()
    assert sum((block.ids[0] for block in blocks), []) == whole.ids[0] and blocks[-1].words == whole.words


def test_too_many_different_words_are_refused(write, monkeypatch):
    monkeypatch.setattr(csv_reader, "MAX_WORDS", 1000)
    files, fields = read_any(write(ANY + "".join(f"1,w{i % 1000},,i,0\n" for i in range(3000))))
    assert len(files.read(fields)[0].words[0]) == 1000
    files, fields = read_any(write(ANY + "".join(f"1,w{i},,i,0\n" for i in range(1001))))
    with pytest.raises(DataError, match="row 1002, column word: found one text more, expected not more than"):
        files.read(fields)


@examples(40)
@given(st.lists(st.tuples(st.sampled_from(["1", "2.5", "?", "x"]), st.sampled_from(["a", "b c", "", 'd"', "e\nf"]),
                          st.sampled_from(["0", "1", "NA", ""])), min_size=1, max_size=30),
       st.integers(1, 5), st.integers(1, 40), st.booleans())  # fmt: skip
def test_positions_count_kept_rows(tmp_path_factory, rows, step, block, keep):
    """Blocks, and any range of them read again, are the rows of the whole; rows left out are in none."""
    path = tmp_path_factory.mktemp("kept") / "data.csv"
    rows = [("3" if number == "x" and (y in ("0", "1") or keep) else number, word, y) for number, word, y in rows]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("n", "word", "y"), ("0", "first", "1"), *rows])
    files = CsvFiles([str(path)], str(path))
    fields = Fields([0], [2], NUMBERS, TargetNumber(None, ""), texts=[1], missing=GAPS, keep_unlabelled=keep)
    whole, _ = files.read(fields)
    kept = [("0", "first", "1")] + [row for row in rows if keep or row[2] in ("0", "1")]
    words = [whole.words[0][code] if code >= 0 else "" for code in whole.codes[:, 0]]
    assert words == [word.strip() for _, word, _ in kept] and whole.unlabelled == len(rows) + 1 - len(kept)
    index = RowIndex()
    blocks = list(files.blocks(fields, block * step, index=index, step=step))
    np.testing.assert_array_equal(np.concatenate([table.inputs for table in blocks]), whole.inputs)
    assert [len(table.inputs) for table in blocks[:-1]] == [block * step] * (len(blocks) - 1)
    assert len(index.starts) == -(-len(kept) // step) + 1 and blocks[-1].unlabelled <= whole.unlabelled
    for number, (start, stop) in enumerate(zip(index.starts, index.starts[1:], strict=False)):
        here = slice(number * step, min((number + 1) * step, len(kept)))
        again = files.read_range(fields, start, stop, here.stop - here.start)
        np.testing.assert_array_equal(again.inputs, whole.inputs[here])
        np.testing.assert_array_equal(again.targets, whole.targets[here])
        assert [again.words[0][c] if c >= 0 else "" for c in again.codes[:, 0]] == words[here]


FIELD = st.one_of(st.text('ab1,;"\n\t .-\u00e9', max_size=12), st.floats(allow_nan=False).map(repr),
                  st.sampled_from(["NA", "yes", "2024-02-29", "inf", "-inf", "1e400", "long text " * 10]))  # fmt: skip


@examples(300)
@given(st.lists(st.lists(FIELD, min_size=3, max_size=3), min_size=1, max_size=20), st.sampled_from(",;\t|"),
       st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.integers(1, 64))  # fmt: skip
def test_what_pythons_writer_writes_reads_as_it_was(tmp_path_factory, rows, separator, quoting, block):
    """Fields and facts as the csv module and float() see them, however the text falls into blocks."""
    path = tmp_path_factory.mktemp("fuzz") / "data.csv"
    if separator == ";":  # between which 1, is half a decimal comma
        rows = [[field.replace(",", "_") for field in row] for row in rows]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator, quoting=quoting).writerows([("1x", "b", "c"), *rows])
    fields = Fields([], [], NUMBERS, TargetNumber(None, ""), texts=[0, 1], ids=[2], missing=frozenset({""}))
    head = Head(str(path), ["1x", "b", "c"], ["", "", ""], 2, separator)
    reader, counter = CsvReader(head, fields), CsvCounter(head, GAPS, None, several=False)
    for text in whole_lines(read_blocks(path, size=block), str(path)):
        reader.read(text)
        counter.count(text)
    table = reader.table()
    expected = [[field.strip(" \t\r\n") for field in row] for row in rows]
    for column in range(2):
        words = [table.words[column][code] if code >= 0 else "" for code in table.codes[:, column]]
        assert words == [row[column] for row in expected]
    assert table.ids[0] == [row[2] for row in expected]
    for column, facts in enumerate(counter.facts()):
        texts = [row[column] for row in expected]
        gaps = [text for text in texts if text in GAPS]
        finite = [text for text in texts if text not in GAPS and is_number(text) and math.isfinite(float(text))]
        assert (facts.gaps, facts.numbers, facts.rows) == (len(gaps), len(finite), len(rows))
        odd = [text for text in texts if text not in gaps and text not in finite]
        assert facts.not_number is None if not odd else facts.not_number.text == odd[0]


QUOTED = st.text("ab1 \t\n,", min_size=1, max_size=9).filter(str.strip).map('"{}"'.format)
PLAIN = st.from_regex(r"[a-z,;:.-][a-z0-9,.\u00e9-]{0,9}", fullmatch=True)
WORDS = st.one_of(PLAIN, st.floats(allow_nan=False).map(repr), QUOTED)


@examples(200)
@given(st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=20), st.data(), st.integers(1, 64))
def test_blanks_between_fields_are_one_separator_however_many(tmp_path_factory, rows, data, block):
    path, gap = tmp_path_factory.mktemp("blanks") / "data.txt", st.text(" \t", min_size=1, max_size=4)
    lines = []
    for row in [["1x", "b", "c"], *rows]:
        ends = [data.draw(gap) if data.draw(st.booleans()) else "" for _ in range(2)]
        lines.append(ends[0] + "".join(word + data.draw(gap) for word in row[:2]) + row[2] + ends[1])
    path.write_text(data.draw(st.sampled_from(["\n", "\r\n", "\n \t\n"])).join(lines), newline="")
    fields = Fields([], [], NUMBERS, TargetNumber(None, ""), texts=[0, 1], ids=[2], missing=frozenset())
    head = Head(str(path), ["1x", "b", "c"], ["", "", ""], 2, " ")
    reader, counter = CsvReader(head, fields), CsvCounter(head, frozenset(), None, several=False)
    for text in whole_lines(read_blocks(path, size=block), str(path)):
        reader.read(text)
        counter.count(text)
    table, expected = reader.table(), [[word.strip('"').strip() for word in row] for row in rows]
    for column in range(2):
        assert [table.words[column][code] for code in table.codes[:, column]] == [row[column] for row in expected]
    assert table.ids[0] == [row[2] for row in expected]
    assert [facts.rows for facts in counter.facts()] == [len(rows)] * 3


def test_real_tables_read_as_the_csv_module_reads_them(shared):
    for path in (shared / "tables").glob("*.csv.gz"):
        files = CsvFiles([str(path)], str(path))
        with gzip.open(path, "rt", newline="") as file:
            rows = [[field.strip() for field in row] for row in csv.reader(file, skipinitialspace=True) if row]
        rows = rows[files.names is not None :]
        every = list(range(files.columns))
        table, _ = files.read(Fields([], [], NUMBERS, TargetNumber(None, ""), texts=every, missing=frozenset({""})))
        assert len(table.codes) == len(rows) > 100
        for column, words in enumerate(table.words):
            found = [words[code] if code >= 0 else "" for code in table.codes[:, column]]
            assert found == [row[column] for row in rows]
