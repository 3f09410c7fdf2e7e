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
from nn.data.column import GAPS, MOSTLY, Odd, Wanted, number_in
from nn.data.csv_head import Head, read_head
from nn.data.csv_table import CsvReader, CsvSource
from nn.data.source import read_blocks
from nn.utils import DataError

READS = {0: "number", 1: "text", 2: "date", 3: "text", 4: "number"}  # a table like ANY


def read_any(path, **wanted):
    return read_csv(
        path,
        **{"reads": READS, "raw": frozenset({3}), "exact": frozenset({4})} | wanted,
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
    np.testing.assert_array_equal(
        table.numbers, np.float32([[1], [nan], [nan], [-2.5], [4]])
    )
    assert (table.number_places, number.low, number.high) == ([0], -2.5, 4)
    assert np.shares_memory(number.values, table.numbers)
    assert word.values.dtype == np.int32
    assert word.values.tolist() == [0, 1, 0, 2, -1]
    assert word.words == ["red", "blue", 're"d']
    assert word.is_gap.tolist() == [False] * 4 + [True]
    np.testing.assert_array_equal(day.values, [1709164800, -30, nan, 1709200800, nan])
    assert fields(name) == ["a", 'b "x"', "", "d", "NA"]
    np.testing.assert_array_equal(y.values, [0, 1, 0, nan, 1])
    assert y.values.dtype == np.float64
    assert (y.low, y.high) == (0, 1)
    assert not any(column.odd for column in table.columns.values())


def test_odd_words_are_gaps_and_counted_with_their_first_rows(write):
    table = read_any(
        write(
            ANY
            + "x,a,31.12.2024,i,1\n1,b,2024-01-01,j,inf\n x ,c,2023-02-29,k,-1e999\ninf,d,,l,two\n7,e,31.12.2024,m,1\n"
        )
    )
    assert odd_of(table, 0) == {"x": (2, "row 2"), "inf": (1, "row 5")}
    assert odd_of(table, 2) == {"31.12.2024": (2, "row 2"), "2023-02-29": (1, "row 4")}
    assert odd_of(table, 4) == {
        "inf": (1, "row 3"),
        "-1e999": (1, "row 4"),
        "two": (1, "row 5"),
    }
    assert table.columns[0].is_gap.tolist() == [True, False, True, True, False]
    assert (table.columns[0].low, table.columns[0].high) == (1, 7)


@pytest.mark.parametrize(
    "row, message",
    [
        (
            "1,a,,i",
            "row 3: 4 columns, expected 5 as in the header; correct or remove the row",
        ),
        ("1,a,,i,1,2", "row 3: 6 columns, expected 5 as in the header"),
        ('1,"a,,i,1', 'row 3: a field begins with " and no other " ends it'),
    ],
)
def test_rows_that_are_no_rows_are_refused(write, row, message):
    path = write(f"{ANY}1,a,,i,1\n{row}\n2,a,,i,0\n")
    for reads in (READS, {}, None):
        assert message in refusal(
            lambda reads=reads: read_csv(path, reads=reads), DataError
        )


def test_words_for_a_gap_are_those_given_else_an_empty_field_is_odd_or_a_word(
    write,
):
    table = read_csv(
        write("a,b\n-999,na\n-99,NA\n5,\n"),
        reads=["number", "text"],
        missing=frozenset({"-999", "na"}),
    )
    np.testing.assert_array_equal(table.columns[0].values, [math.nan, -99, 5])
    assert fields(table.columns[1]) == [None, "NA", ""]
    table = read_csv(
        write("a,b\n\xe9,1\nred,2\n".encode("latin-1")), missing=frozenset({"\xe9"})
    )
    assert fields(table.columns[0]) == [None, "red"]
    table = read_any(write(ANY + "1,a,2024-01-01,i,1\n,,,NA,NA\n"), missing=frozenset())
    assert [odd_of(table, place) for place in (0, 2, 4)] == [
        {word: (1, "row 3")} for word in ("", "", "NA")
    ]
    assert fields(table.columns[1]) == ["a", ""]


def test_unread_columns_may_hold_anything_and_too_large_a_number_shows_in_its_bounds(
    write,
):
    table = read_csv(write(ANY + "x,a,31.12.2024,i,1\n1,b,,j,0\n"), reads={4: "number"})
    assert [*table.columns] == [4]
    assert table.numbers.tolist() == [[1], [0]]
    assert read_csv(write(ANY + "1,a,,i,1\n"), reads={}).numbers.shape == (1, 0)
    table = read_csv(
        write("a,b,c\n" + "x,x,1\n" * 9 + "1,2024-01-01,2\n"),
        reads=["number", "date", "text"],
    )
    assert [column.reads for column in table.columns.values()] == [
        "number",
        "date",
        "text",
    ]
    assert table.columns[2].words == ["1", "2"]
    assert odd_of(table, 1) == {"x": (9, "row 2")}
    assert read_csv(
        write("a\n1.7e9\n1700000001\n"), exact=frozenset({0})
    ).numbers.shape == (2, 0)
    column = read_csv(write("a,b\n1,1\n1e39,2\n")).columns[0]
    assert column.high == 1e39
    assert column.values.tolist() == [1, math.inf]
    assert not column.odd


def test_rows_of_several_files_follow_each_other_and_are_named_by_their_file(write):
    paths = [
        write(text, name)
        for text, name in (("a,b\n1,2\n", "1.csv"), ("a,b\n\n1,x\n3,4\n", "2.csv"))
    ]
    table = read_csv(*paths, reads=["number", "number"])
    assert odd_of(table, 1) == {"x": (1, f"row 3 of {paths[1]}")}
    assert table.row(0) == f"row 2 of {paths[0]}"
    np.testing.assert_array_equal(table.numbers, [[1, 2], [1, math.nan], [3, 4]])
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in paths]
    assert table.sha256.sha256 == hashlib.sha256(b"".join(digests)).hexdigest()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rows", [3, 200_000])
def test_the_digest_is_that_of_the_file(write, rows, packed):
    data = b"a,b\n" + b"1,2\n" * rows
    if packed:
        data = gzip.compress(data)
    table = read_csv(write(data))
    assert table.sha256.sha256 == hashlib.sha256(data).hexdigest()
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
    table = read_csv(write("a,b\n" + "".join(f"{word},1\n" for word in words)))
    column = table.columns[0]
    assert column.reads == reads
    assert table.number_places == ([0, 1] if reads == "number" else [1])
    if reads == "text":
        assert fields(column) == [None if word in GAPS else word for word in words]
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
    known = [*first, *later]
    table = read_csv(
        write("a,b\n" + "".join(f"{field},{i}.1\n" for i, field in enumerate(known)))
    )
    assert table.numbers.dtype == dtype == table.columns[0].values.dtype
    assert table.number_places == [0, 1]
    expected = np.array(
        [math.nan if isinstance(field, str) else field for field in known]
    )
    np.testing.assert_array_equal(table.columns[0].values, expected.astype(dtype))
    decimals = np.array([float(f"{i}.1") for i in range(len(known))], dtype)
    np.testing.assert_array_equal(table.columns[1].values, decimals)


@pytest.mark.parametrize("size", [1, 7, 100, None])
def test_words_grow_from_block_to_block(write, size):
    """Thousands of words, long ones among them, in whatever blocks, as a dictionary of
    Python gives them."""
    words = [f"w{i * i % 1777}" + "-" * (i % 40) for i in range(5000)]
    path = str(
        write(ANY + "".join(f'{w},"{w}",,id{i},{i % 2}\n' for i, w in enumerate(words)))
    )
    reader = CsvReader(read_head(path), Wanted(READS, raw=frozenset({3})), size)
    reader.read_blocks(read_blocks(path, size=1000))
    expected = {word: code for code, word in enumerate(dict.fromkeys(words))}
    columns = reader.taken().columns
    assert columns[1].words == [*expected]
    assert columns[1].values.tolist() == [expected[word] for word in words]
    # once each, although rows are read again when there was no room
    assert columns[1].counts() == Counter(words)
    assert fields(columns[3]) == [f"id{i}" for i in range(5000)]
    assert columns[0].odd == {
        word: Odd(words.count(word), words.index(word)) for word in expected
    }


def test_too_many_words_are_refused_and_of_very_many_odd_ones_the_first_told_apart(
    write, monkeypatch
):
    monkeypatch.setattr(csv_table, "MAX_WORDS", 1000)
    assert (
        len(
            read_any(write(ANY + "".join(f"1,w{i % 1000},,i,0\n" for i in range(3000))))
            .columns[1]
            .words
        )
        == 1000
    )
    with pytest.raises(
        DataError,
        match="row 1002, column word: found one text more, expected not more than",
    ):
        read_any(write(ANY + "".join(f"1,w{i},,i,0\n" for i in range(1001))))
    monkeypatch.setattr(csv_table, "MOST_ODD", 3)
    table = read_any(write(ANY + "".join(f'"w""{i % 9}",a,,i,0\n' for i in range(90))))
    told = {
        'w"0': (10, "row 2"),
        'w"1': (10, "row 3"),
        'w"2': (10, "row 4"),
        "...": (60, "row 5"),
    }
    assert odd_of(table, 0) == told


def read_texts(path, names, separator, block, reads, missing):
    head = Head(str(path), names, [], len(names), 2, separator)
    reader = CsvReader(
        head, Wanted(reads, raw=frozenset({2}), exact=frozenset({1}), missing=missing)
    )
    reader.read_blocks(read_blocks(path, size=block))
    return reader.taken().columns


FIELD = st.one_of(
    st.text('ab1,;"\n\t .-\u00e9', max_size=12),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        ["NA", "yes", "2024-02-29", "inf", "-inf", "1e400", "long text " * 10]
    ),
)


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
    columns = read_texts(
        path,
        ["1x", "b", "c"],
        separator,
        block,
        dict.fromkeys(range(3), "text"),
        frozenset({""}),
    )
    for place in range(3):
        assert fields(columns[place]) == [
            row[place] or (None if place < 2 else "") for row in expected
        ]
    columns = read_texts(
        path,
        ["1x", "b", "c"],
        separator,
        block,
        dict.fromkeys(range(3), "number"),
        GAPS,
    )
    for place, column in columns.items():
        texts = [row[place] for row in expected]
        values = [None if text in GAPS else number_in(text) for text in texts]
        with np.errstate(over="ignore"):
            numbers = np.array(values, np.float64).astype(
                np.float64 if place == 1 else np.float32
            )
        np.testing.assert_array_equal(column.values, numbers)
        if known := [value for value in values if value is not None]:
            assert (column.low, column.high) == (min(known), max(known))
        odd = [
            text
            for text, value in zip(texts, values, strict=True)
            if value is None and text not in GAPS
        ]
        assert column.odd == {
            word: Odd(odd.count(word), texts.index(word)) for word in odd
        }


QUOTED = (
    st.text("ab1 \t\n,", min_size=1, max_size=9).filter(str.strip).map('"{}"'.format)
)
PLAIN = st.from_regex(r"[a-z,;:.-][a-z0-9,.\u00e9-]{0,9}", fullmatch=True)
WORDS = st.one_of(PLAIN, st.floats(allow_nan=False).map(repr), QUOTED)


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
        ends = [data.draw(gap) if data.draw(st.booleans()) else "" for _ in range(2)]
        lines.append(
            ends[0]
            + "".join(word + data.draw(gap) for word in row[:2])
            + row[2]
            + ends[1]
        )
    path.write_text(
        data.draw(st.sampled_from(["\n", "\r\n", "\n \t\n"])).join(lines), newline=""
    )
    columns = read_texts(
        path, ["1x", "b", "c"], " ", block, dict.fromkeys(range(3), "text"), frozenset()
    )
    for place in range(3):
        assert fields(columns[place]) == [row[place].strip('"').strip() for row in rows]


def test_real_tables_read_as_the_csv_module_reads_them(shared):
    for path in (shared / "tables").glob("*.csv.gz"):
        source = CsvSource([str(path)], str(path))
        with gzip.open(path, "rt", newline="") as file:
            rows = [
                [field.strip() for field in row]
                for row in csv.reader(file, skipinitialspace=True)
                if row
            ]
        rows = rows[source.names is not None :]
        texts = source.read(
            Wanted(dict.fromkeys(range(source.width), "text"), missing=frozenset({""}))
        )
        found = source.read(Wanted(dict.fromkeys(range(source.width)), dtype="float64"))
        assert len(rows) > 100
        assert len(texts) == len(found) == len(rows)
        for place, column in texts.columns.items():
            words = [row[place] for row in rows]
            assert [field or "" for field in fields(column)] == words
            known = [number_in(word) for word in words if word not in GAPS]
            share = sum(value is not None for value in known) / max(1, len(known))
            assert (found.columns[place].reads == "number") == (share >= MOSTLY)
            if share == 1:
                np.testing.assert_array_equal(
                    found.columns[place].values[~found.columns[place].is_gap], known
                )
