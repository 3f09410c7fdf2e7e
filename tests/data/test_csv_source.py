"""CSV files as columns: numbers with odd words beside them, texts, dates, gaps; how
each column is stored."""

import csv
import gzip
import hashlib
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.effort import examples
from support.tables import ANY, fields, odd_of, read_csv, refusal

from nn.data import csv_table
from nn.data.column import GAPS, MOSTLY, Odd, Selection, number_in
from nn.data.csv_head import FirstRows, Head, read_head
from nn.data.csv_table import CsvReader, CsvSource
from nn.data.source import read_blocks
from nn.utils import DataError

READS = {0: "number", 1: "text", 2: "date", 3: "text", 4: "number"}  # a table like ANY


def read_any(path, **settings):
    return read_csv(
        path,
        **{"reads": READS, "raw": frozenset({3}), "exact": frozenset({4})} | settings,
    )


def test_words_dates_ids_and_gaps_have_typed_columns(write):
    table = read_any(
        write(
            ANY + '1, red ,2024-02-29,a,0\n?,"blue",1969/12/31 23:59:30,"b ""x""",1\n'
            'NA,red,,,0\n-2.5,"re""d",2024-02-29T12:00+02:00,d,NA\n4,NULL,null,NA,1\n'
        )
    )
    number, word, day, name, y = table.columns.values()
    nan = math.nan
    expected = np.float32([[1], [nan], [nan], [-2.5], [4]])
    np.testing.assert_array_equal(table.numbers, expected)
    assert table.number_places == [0]
    assert number.low == -2.5
    assert number.high == 4
    assert np.shares_memory(number.values, table.numbers)
    assert word.values.dtype == np.int32
    assert word.values.tolist() == [0, 1, 0, 2, -1]
    assert word.words == ["red", "blue", 're"d']
    expected = [False] * 4 + [True]
    assert word.is_gap.tolist() == expected
    expected = [1709164800, -30, nan, 1709200800, nan]
    np.testing.assert_array_equal(day.values, expected)
    assert fields(name) == ["a", 'b "x"', "", "d", "NA"]
    expected = [0, 1, 0, nan, 1]
    np.testing.assert_array_equal(y.values, expected)
    assert y.values.dtype == np.float64
    assert y.low == 0
    assert y.high == 1
    for column in table.columns.values():
        assert not column.odd


def test_odd_words_are_gaps_and_counted_with_their_first_rows(write):
    table = read_any(
        write(
            ANY
            + "x,a,31.12.2024,i,1\n1,b,2024-01-01,j,inf\n x ,c,2023-02-29,k,-1e999\ninf,d,,l,two\n7,e,31.12.2024,m,1\n"
        )
    )
    expected = {"x": (2, "row 2"), "inf": (1, "row 5")}
    assert odd_of(table, 0) == expected
    expected = {"31.12.2024": (2, "row 2"), "2023-02-29": (1, "row 4")}
    assert odd_of(table, 2) == expected
    expected = {"inf": (1, "row 3"), "-1e999": (1, "row 4"), "two": (1, "row 5")}
    assert odd_of(table, 4) == expected
    assert table.columns[0].is_gap.tolist() == [True, False, True, True, False]
    assert table.columns[0].low == 1
    assert table.columns[0].high == 7


@pytest.mark.parametrize(
    "row, message",
    [
        (
            "1,a,,i",
            "row 3: 4 columns, expected 5 as in the header; correct or remove the row",
        ),
        ("1,a,,i,1,2", "row 3: 6 columns, expected 5 as in the header"),
        ('1,"a,,i,1', 'row 3: a field begins with " and no other " ends it'),
        # rows are lines: that of the first has three
        ('1,"a\n\nb",,i,1\n1,a', "row 6: 2 columns, expected 5 as in the header"),
    ],
)
def test_rows_that_are_no_rows_are_refused(write, row, message):
    path = write(f"{ANY}1,a,,i,1\n{row}\n2,a,,i,0\n")
    for reads in (READS, {}, None):
        assert message in refusal(
            lambda reads=reads: read_csv(path, reads=reads), DataError
        )


def test_quotes_with_text_behind_them_belong_to_the_text(write):
    text = 'a,b\n"x""y"z,1\n"x""y",2\n"p" q,3\n'
    words = ['"x""y"z', 'x"y', '"p" q']
    table = read_csv(write(text), reads=["text", "number"])
    assert fields(table.columns[0]) == words
    rows = FirstRows(text.encode(), ",").rows[1:]
    assert [row[0].text for row in rows] == words


@pytest.mark.parametrize("length", [1, 62, 63, 64, 65, 200])
def test_a_word_for_a_gap_may_be_long(write, length):
    word = "w" * length
    path = write(f"a,b\n{word},1\n{word}w,2\n{word[1:]}v,3\n")
    table = read_csv(path, reads=["text", "number"], missing=frozenset({word}))
    assert fields(table.columns[0]) == [None, f"{word}w", f"{word[1:]}v"]


def test_words_for_a_gap_are_those_given_else_an_empty_field_is_odd_or_a_word(
    write,
):
    table = read_csv(
        write("a,b\n-999,na\n-99,NA\n5,\n0.0,0\n"),
        reads=["number", "text"],
        missing=frozenset({"-999", "0", "na"}),
    )
    expected = [math.nan, -99, 5, math.nan]
    values = table.columns[0].values
    np.testing.assert_array_equal(values, expected)
    assert fields(table.columns[1]) == [None, "NA", "", None]
    path = write("a,b\n\xe9,1\nred,2\n".encode("latin-1"))
    table = read_csv(path, missing=frozenset({"\xe9"}))
    assert fields(table.columns[0]) == [None, "red"]
    path = write(ANY + "1,a,2024-01-01,i,1\n,,,NA,NA\n")
    table = read_any(path, missing=frozenset())
    expected = [{word: (1, "row 3")} for word in ("", "", "NA")]
    assert [odd_of(table, place) for place in (0, 2, 4)] == expected
    assert fields(table.columns[1]) == ["a", ""]


def test_unread_columns_may_hold_anything_and_too_large_a_number_shows_in_its_bounds(
    write,
):
    path = write(ANY + "x,a,31.12.2024,i,1\n1,b,,j,0\n")
    table = read_csv(path, reads={4: "number"})
    assert [*table.columns] == [4]
    assert table.numbers.tolist() == [[1], [0]]
    path = write(ANY + "1,a,,i,1\n")
    numbers = read_csv(path, reads={}).numbers
    assert numbers.shape == (1, 0)
    path = write("a,b,c\n" + "x,x,1\n" * 9 + "1,2024-01-01,2\n")
    table = read_csv(path, reads=["number", "date", "text"])
    reads = [column.reads for column in table.columns.values()]
    assert reads == ["number", "date", "text"]
    assert table.columns[2].words == ["1", "2"]
    assert odd_of(table, 1) == {"x": (9, "row 2")}
    numbers = read_csv(write("a\n1.7e9\n1700000001\n"), exact=frozenset({0})).numbers
    assert numbers.shape == (2, 0)
    column = read_csv(write("a,b\n1,1\n1e39,2\n")).columns[0]
    assert column.high == 1e39
    assert column.values.tolist() == [1, math.inf]
    assert not column.odd


def test_rows_of_several_files_follow_each_other_and_are_named_by_their_file(write):
    paths = []
    for text, name in (("a,b\n1,2\n", "1.csv"), ("a,b\n\n1,x\n3,4\n", "2.csv")):
        paths.append(write(text, name))
    table = read_csv(*paths, reads=["number", "number"])
    expected = {"x": (1, f"row 3 of {paths[1]}")}
    assert odd_of(table, 1) == expected
    assert table.row(0) == f"row 2 of {paths[0]}"
    expected = [[1, 2], [1, math.nan], [3, 4]]
    np.testing.assert_array_equal(table.numbers, expected)
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in paths]
    expected = hashlib.sha256(b"".join(digests)).hexdigest()
    assert table.sha256.sha256 == expected


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rows", [3, 200_000])
def test_the_digest_is_that_of_the_file(write, rows, packed):
    data = b"a,b\n" + b"1,2\n" * rows
    if packed:
        data = gzip.compress(data)
    table = read_csv(write(data))
    expected = hashlib.sha256(data).hexdigest()
    assert table.sha256.sha256 == expected
    assert len(table) == rows


@pytest.mark.parametrize(
    "words, reads",
    [
        (["1"] * 95 + ["x"] * 5, "number"),
        (["1"] * 94 + ["x"] * 6, "text"),
        (["2024-01-02"] * 95 + ["x"] * 5, "date"),
        (["2024-01-02"] * 94 + ["x"] * 6, "text"),
        (["NA"] * 99 + ["7"], "number"),
        (["NA"] * 9, "text"),
        (["1"] * 2000 + ["x"] * 90, "number"),
        (["007", "1.10"] * 1000 + ["x"] * 2000, "text"),
        (["x"] * 1000 + ["1"] * 99000, "number"),
        (["2024-01-02"] * 2000 + ["x"] * 2000, "text"),
        (["x"] * 1000 + ["2024-01-02"] * 99000, "date"),
        (["NA"] * 2000 + ["word"] * 50, "text"),
        (["NA"] * 2000 + ["2024-01-02"] * 50, "date"),
    ],
)
def test_a_column_is_what_most_of_its_fields_are(write, words, reads):
    text = "a,b\n" + "".join(f"{word},1\n" for word in words)
    table = read_csv(write(text))
    column = table.columns[0]
    assert column.reads == reads
    expected = [0, 1] if reads == "number" else [1]
    assert table.number_places == expected
    if reads == "text":
        expected = [None if word in GAPS else word for word in words]
        assert fields(column) == expected
    else:
        gaps = np.isnan(column.values).sum() - words.count("NA")
        assert sum(odd.rows for odd in column.odd.values()) == words.count("x") == gaps


@pytest.mark.parametrize(
    "first, later, dtype",
    [
        # 0 is no size: any range is as large as any size
        ([0] * 2000, [1e9, 1e9 + 1], "float32"),
        ([5] * 2000, [5] * 9, "float32"),
        ([1.7e9] * 2000, [1.7e9 + 1], "float64"),
        ([1, 2] * 1000, [1e9], "float32"),
        (["NA"] * 2000, [1.7e9, 1.7e9 + 1], "float64"),
        ([1.7e9, 1.7e9 + 1] * 1000, [0], "float32"),
        (["word"] * 1000, [1.7e9, 1.7e9 + 1] * 20_000, "float64"),
    ],
)
def test_all_numbers_are_double_where_float32_would_blur_one_column_of_all_rows(
    write, first, later, dtype
):
    fields_of_column = [*first, *later]
    rows = []
    for i, field in enumerate(fields_of_column):
        rows.append(f"{field},{i}.1\n")
    text = "a,b\n" + "".join(rows)
    table = read_csv(write(text))
    values = table.columns[0].values
    assert table.numbers.dtype == dtype == values.dtype
    assert table.number_places == [0, 1]
    expected = np.array(
        [math.nan if isinstance(field, str) else field for field in fields_of_column]
    )
    values = table.columns[0].values
    np.testing.assert_array_equal(values, expected.astype(dtype))
    numbers = [float(f"{i}.1") for i in range(len(fields_of_column))]
    decimals = np.array(numbers, dtype)
    values = table.columns[1].values
    np.testing.assert_array_equal(values, decimals)


@pytest.mark.usual(2)
@pytest.mark.parametrize("size", [1, 7, 100, None])
def test_words_grow_from_block_to_block(write, size):
    """Thousands of words, long ones among them, in whatever blocks, as a dictionary of
    Python gives them."""
    words = []
    for i in range(5000):
        words.append(f"w{i * i % 1777}" + "-" * (i % 40))
    rows = []
    for i, w in enumerate(words):
        rows.append(f'{w},"{w}",,id{i},{i % 2}\n')
    text = ANY + "".join(rows)
    path = str(write(text))
    selection = Selection(READS, raw=frozenset({3}))
    reader = CsvReader(read_head(path), selection, size)
    reader.read_blocks(read_blocks(path, size=1000))
    expected = {word: code for code, word in enumerate(dict.fromkeys(words))}
    columns = reader.taken().columns
    assert columns[1].words == [*expected]
    values = columns[1].values.tolist()
    assert values == [expected[word] for word in words]
    # once each, although rows are read again when there was no room
    assert columns[1].counts() == Counter(words)
    texts = [f"id{i}" for i in range(5000)]
    assert fields(columns[3]) == texts
    assert columns[0].odd == {
        word: Odd(words.count(word), words.index(word)) for word in expected
    }


def test_too_many_words_are_refused_and_of_very_many_odd_ones_the_first_told_apart(
    write, monkeypatch
):
    monkeypatch.setattr(csv_table, "MAX_WORDS", 1000)
    path = write(ANY + "".join(f"1,w{i % 1000},,i,0\n" for i in range(3000)))
    column = read_any(path).columns[1]
    assert len(column.words) == 1000
    with pytest.raises(
        DataError,
        match=r"row 1002, column word: more than [\d,]+ different texts in this column",
    ):
        read_any(write(ANY + "".join(f"1,w{i},,i,0\n" for i in range(1001))))
    monkeypatch.setattr(csv_table, "MOST_ODD", 3)
    text = ANY + "".join(f'"w""{i % 9}",a,,i,0\n' for i in range(90))
    table = read_any(write(text))
    odd_words = {
        'w"0': (10, "row 2"),
        'w"1': (10, "row 3"),
        'w"2': (10, "row 4"),
        "...": (60, "row 5"),
    }
    assert odd_of(table, 0) == odd_words


def read_texts(path, names, separator, block, reads, missing):
    head = Head(str(path), names, [], len(names), 2, separator)
    selection = Selection(
        reads, raw=frozenset({2}), exact=frozenset({1}), missing=missing
    )
    reader = CsvReader(head, selection)
    reader.read_blocks(read_blocks(path, size=block))
    return reader.taken().columns


FIELD = st.one_of(
    st.text('ab1,;"\n\t .-\u00e9', max_size=12),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        ["NA", "yes", "2024-02-29", "inf", "-inf", "1e400", "long text " * 10]
    ),
)


@pytest.mark.slow
@examples(300)
@given(
    st.lists(st.lists(FIELD, min_size=3, max_size=3), min_size=1, max_size=20),
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(1, 64),
)
def test_what_pythons_writer_writes_reads_as_it_was(
    tmp_path_factory, rows, separator, quoting, block
):
    """Texts as the csv module sees them and numbers as number_in does, however the text
    falls into blocks."""
    path = tmp_path_factory.mktemp("fuzz") / "data.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator, quoting=quoting).writerows(
            [("1x", "b", "c"), *rows]
        )
    expected = [[field.strip(" \t\r\n") for field in row] for row in rows]
    reads = dict.fromkeys(range(3), "text")
    columns = read_texts(
        path, ["1x", "b", "c"], separator, block, reads, frozenset({""})
    )
    for place in range(3):
        assert fields(columns[place]) == [
            row[place] or (None if place < 2 else "") for row in expected
        ]
    reads = dict.fromkeys(range(3), "number")
    columns = read_texts(path, ["1x", "b", "c"], separator, block, reads, GAPS)
    for place, column in columns.items():
        texts = [row[place] for row in expected]
        values = [None if text in GAPS else number_in(text) for text in texts]
        with np.errstate(over="ignore"):
            numbers = np.array(values, np.float64).astype(
                np.float64 if place == 1 else np.float32
            )
        np.testing.assert_array_equal(column.values, numbers)
        if known := [value for value in values if value is not None]:
            assert column.low == min(known)
            assert column.high == max(known)
        odd = []
        for text, value in zip(texts, values, strict=True):
            if value is None and text not in GAPS:
                odd.append(text)
        assert column.odd == {
            word: Odd(odd.count(word), texts.index(word)) for word in odd
        }


QUOTED = (
    st.text("ab1 \t\n,", min_size=1, max_size=9).filter(str.strip).map('"{}"'.format)
)
PLAIN = st.from_regex(r"[a-z,;:.-][a-z0-9,.\u00e9-]{0,9}", fullmatch=True)
WORDS = st.one_of(PLAIN, st.floats(allow_nan=False).map(repr), QUOTED)


@pytest.mark.slow
@examples(80)
@given(
    st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=20),
    st.data(),
    st.integers(1, 64),
)
def test_blanks_between_fields_are_one_separator_however_many(
    tmp_path_factory, rows, data, block
):
    path = tmp_path_factory.mktemp("blanks") / "data.txt"
    gap = st.text(" \t", min_size=1, max_size=4)
    lines = []
    for row in [["1x", "b", "c"], *rows]:
        ends = []
        for _ in range(2):
            ends.append(data.draw(gap) if data.draw(st.booleans()) else "")
        texts = []
        for word in row[:2]:
            texts.append(word + data.draw(gap))
        line = ends[0] + "".join(texts) + row[2] + ends[1]
        lines.append(line)
    text = data.draw(st.sampled_from(["\n", "\r\n", "\n \t\n"])).join(lines)
    path.write_text(text, newline="")
    reads = dict.fromkeys(range(3), "text")
    columns = read_texts(path, ["1x", "b", "c"], " ", block, reads, frozenset())
    for place in range(3):
        expected = [row[place].strip('"').strip() for row in rows]
        assert fields(columns[place]) == expected


@pytest.mark.slow
def test_real_tables_read_as_the_csv_module_reads_them(shared):
    for path in (shared / "tables").glob("*.csv.gz"):
        source = CsvSource([str(path)], str(path))
        with gzip.open(path, "rt", newline="") as file:
            rows = []
            for row in csv.reader(file, skipinitialspace=True):
                if row:
                    rows.append([field.strip() for field in row])
        rows = rows[source.names is not None :]
        reads = dict.fromkeys(range(source.width), "text")
        selection = Selection(reads, missing=frozenset({""}))
        texts = source.read(selection)
        reads = dict.fromkeys(range(source.width))
        table = source.read(Selection(reads, dtype="float64"))
        assert len(rows) > 100
        assert len(texts) == len(table) == len(rows)
        for place, column in texts.columns.items():
            words = [row[place] for row in rows]
            assert [field or "" for field in fields(column)] == words
            numbers = [number_in(word) for word in words if word not in GAPS]
            share = sum(value is not None for value in numbers) / max(1, len(numbers))
            assert (table.columns[place].reads == "number") == (share >= MOSTLY)
            if share == 1:
                values = table.columns[place].values
                np.testing.assert_array_equal(
                    values[~table.columns[place].is_gap], numbers
                )
