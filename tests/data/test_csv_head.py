"""The head of a CSV file: separator, decimal comma, header."""

import pytest
from support.tables import head_of, read_csv, refusal

from nn.data.csv_head import ColumnBelow, FirstRows, read_head
from nn.data.csv_table import CsvSource
from nn.ds import load
from nn.utils import DataError, UsageError


@pytest.mark.parametrize(
    "text, separator, columns",
    [
        ("a,b\n1,2\n", ",", 2),
        ("a;b\n1;2\n", ";", 2),
        ("a\tb\n1\t2\n", "\t", 2),
        ("a|b|c\n1|2|3\n", "|", 3),
        ('"a;b",c\n"1;2",3\n', ",", 2),
        ("a;b\n1,5;2,5\n2,0;3\n", ";", 2),
        ("1,5;2,5;0\n2,5;3,5;1\n", ";", 3),
        ("name;text\n1;a, b\n2;c\n3;d, e\n", ";", 2),
        ("a,b\n1,2,3\n", ",", 2),
        ("x\n1\n", ",", 1),
        ("a,b\n1;2,x;y\n3;4,z;w\n", ",", 2),
        ("1;a|b\n2;c\n", ";", 2),
        ('"a\n,b";c\n1;2\n', ";", 2),
        ("  1   2\n3 4 \n", " ", 2),
        ('1  2\t"a b"\n3 4\t"c"\n', " ", 3),
        ("a b\t1\nc d\t2\n", "\t", 2),
        ("2016-01-01 10:00\t1\n2016-01-02 11:00\t2\n", "\t", 2),
        ("a, b\n1, 2\n3, 4\n", ",", 2),
    ],
)
def test_the_separator_is_found_out(write, text, separator, columns):
    head = head_of(write(text))
    assert head.separator == separator
    assert head.width == columns


@pytest.mark.parametrize("words, kind", [(1, "number"), (2, "text"), (19, "text")])
def test_a_column_of_the_first_rows_is_what_nineteen_in_twenty_are(words, kind):
    lines = [*["soon,1"] * words, *["2.5,1"] * (20 - words), ",1"]
    rows = FirstRows("\n".join(lines).encode(), ",").rows
    assert ColumnBelow(rows, 0).kind == kind


def test_a_separator_that_is_given_is_taken_or_refused(write):
    cases = (
        ("1:2:3\n4:5:6\n", ":", 3),
        ("1 2\n3 4\n", " ", 2),
        ("1\t2\n3\t4\n", "tab", 2),
    )
    for text, separator, width in cases:
        assert head_of(write(text), separator=separator).width == width
    path = write("1;2,5;x\n3;4,5;y\n")
    assert head_of(path, separator=",", header="no").width == 2
    with pytest.raises(
        DataError, match=r'"\|" never occurs between fields, .* says; leave it out'
    ):
        head_of(path, separator="|")
    for separator in ("", ",,", "a", '"'):
        with pytest.raises(UsageError, match="expected one character such as"):
            head_of(path, separator=separator)


def test_a_decimal_comma_and_a_decimal_point_are_one_too_many(write):
    assert head_of(write("a;b\n" + "1;2\n" * 20_000 + "1,5;2\n")).point == ","
    path = write("a;b\n1,5;0\n2;1\n2.5;1\n")
    expected = 'row 4, column a: found "2.5", expected a decimal comma as in the other numbers; write all numbers one'
    for reads in ([None, None], ["number", "number"]):
        assert expected in refusal(
            lambda reads=reads: read_csv(path, reads=reads), DataError
        )
    cases = (
        ("a;b\n1.5;0\n1,5;1\n", 3, "a"),
        ("a;b\n" + "1;word\n" * 200_000 + "1,5;word\n", 200_002, "a"),
        ("a;b\n1.5;x\n2.5;x\n3.5;y\n4.5;1,5\n", 5, "b"),  # among words
    )
    for text, row, column in cases:
        message = f'row {row}, column {column}: found "1,5", expected a decimal point'
        assert message in refusal(lambda text=text: read_csv(write(text)), DataError)
    table = read_csv(write("a;b;c\n1,5;2024.01.05;u\n2,25;1.2.3;v\n"))
    assert [column.reads for column in table.columns.values()] == [
        "number",
        "text",
        "text",
    ]
    values = table.columns[0].values
    assert values.tolist() == [1.5, 2.25]


@pytest.mark.parametrize(
    "text, has_header",
    [
        ("a,b\n1,2\n", True),
        ("1,2\n3,4\n", False),
        ("1,a\n2,b\n", False),
        ("a,b\nc,d\n", True),
        ("red,yes\nblue,no\nred,no\nblue,yes\n", False),
        ("color,good\nred,yes\nblue,no\nred,no\nblue,yes\n", True),
        ("1,4,0_A11,0_A12\n6,1169,1,0\n48,5951,0,1\n", True),
        ("1,4,0_A11,0_A12\n6,1169,True,False\n48,5951,False,True\n", True),
        (",x,y\n0,1,2\n1,3,4\n", True),
        ("0,1,2\n" + "39,Private,a\n41,State,b\n" * 9, True),
        ("id,when\n1,2024-01-01\n2,2024-01-02\n", True),
        ("1,2024-01-01\n2,2024-01-02\n", False),
        ("smokes,y\nyes,1\nno,0\n", True),
        ("yes,1\nno,0\n", False),
        ("?,?,red\n1,2,red\n3,4,blue\n", False),
        ("5.1,3.5,setosa\n4.9,3.0,virginica\n6,7,setosa\n", False),
        ("0,1,yes\n1,1,no\n", False),
        ("x,y,t\n1,2,3\n", True),
        ("7,abc,3,0\n1,2,3,1\n", False),
        ("-,5,2\n1,2,3\n4,5,6\n", False),
        ('"x","g"\n"a",1\n"b",2\n', True),
        ("a,a,b\n1,2,3\n", True),
        ('"594",-200,1\n1,2,0\n', False),
        ('"0",1,"2"\n1,2,0\n3,4,1\n', False),
        ('"0","1","2"\n1,2,0\n3,4,1\n', False),
        ("land,1990,1991,1995\nA,3,4,2010\nB,7,1,9\n", False),
        (
            "land,1990,1991,1995,1996,1997,1998,1999,2000\nA,3,4,2010,5,6,7,8,9\nB,7,1,9,1,2,3,4,5\n",
            True,
        ),
        (
            "land,1990,1991,1995,1996,1997,1998,1999,2000\nA,1,2,3,4,5,6,7,8\nB,7,1,9,1,2,3,4,5\n",
            False,
        ),
        ("leaf,400,410,425\nA,.3,.3,.4\nB,.3,.1,.4\n", False),
        ("0,1,2\n" + "a,b,c\nd,b,c\na,d,d\n" * 10, True),
        ("0,1,2\n" + "4,1,2\n5,3,1\n7,2,2\n" * 10, False),
        # as pandas names columns without names
        ("0,1,2\n" + "0.5,1.25,2\n1.5,-3.0,1\n7.0,2.0,2\n" * 10, True),
        (
            "0,1,2,3,4,5,6,7\n" + "5,1,0,0,7,3,2,1\n" * 10 + "4,1,0,0,7,3,2,1\n" * 10,
            True,
        ),
        (
            "".join(
                ",".join(str(start + i) for i in range(8)) + "\n" for start in range(12)
            ),
            False,
        ),
        # of two columns of words half of which come again
        ("a,b,1\nx,u,2\nx,u,3\ny,v,4\ny,v,5\n", True),
        ("a,b,1\nx,u,2\nx,u,3\ny,v,4\nz,w,5\n", False),
    ],
)
def test_a_header_is_told_by_the_columns(write, text, has_header):
    names = head_of(write(text)).names
    assert (names is not None) == has_header
    assert head_of(write(text), header="yes").names is not None
    assert head_of(write(text), header="no").names is None


def test_a_header_of_numbers_is_asked_for_and_one_of_units_below_is_a_row_with_gaps(
    write,
):
    lines = []
    for row in ("10,20,30", *["15,b,1", "18,a,0", "19,a,1"] * 4):
        lines.append(f"{row}\n")
    path = write("".join(lines))
    assert load(path).rows == 13
    assert load(path, target="30", header="yes").rows == 12
    for header in ("no", "auto"):
        with pytest.raises(UsageError, match="the file has 3 columns"):
            load(path, target="30", header=header)
    ds = load(write("#a,b\n1,2.5\n2,3.5\n"))  # a name may begin as a comment does
    assert ds.columns == ["#a"]
    assert ds.rows == 2
    rows = ["time,temp,y", "s,\u00b0C,"]
    for i in range(30):
        rows.append(f"{i / 4},{i}.5,{'ab'[i % 2]}")
    ds = load(write("\n".join(rows)))
    assert ds.rows == 30
    assert ds.unlabelled == 1


def test_headers_of_real_tables(shared):
    results = {}
    for path in (shared / "tables").glob("*.csv.gz"):
        results[path.name.split(".")[0]] = read_head(str(path))
    assert len(results) == 14
    assert sorted(name for name, head in results.items() if head.names) == [
        "diamonds",
        "mpg",
        "penguins",
        "titanic",
    ]
    assert {head.separator for head in results.values()} == {","}


@pytest.mark.parametrize(
    "text, target",
    [
        ("x,y,\n" + "1,a,\n2,b,\n" * 9, 1),
        ("1,a,\n2,b,\n" * 9, 1),
        ("x,y,z\n" + "1,a,\n" * 9, 2),
        ("1,a,\n" * 8 + "1,a,5\n", 2),
    ],
)
def test_the_default_target_is_the_last_column_with_a_name_or_a_value(
    write, text, target
):
    path = str(write(text))
    assert CsvSource([path], path).default_target == target
    if target == 1:  # a separator at the ends of the rows begins no column
        assert load(path).classes == ["a", "b"]
        assert load(path).inputs == 1


COMMENTS = "row 1: begins with #, .* remove the lines above the table"
TABLE = "x,y\n1,2.5\n2,3.5\n3,0.5\n"


@pytest.mark.parametrize(
    "text, message",
    [
        *(
            (text + TABLE, COMMENTS)
            for text in (
                '# made by "a program\n# on Monday\n',
                "# made\n\n",
                "\ufeff# a; b; c\n",
            )
        ),
        ("# made\n" * 1000 + TABLE, "columns, expected"),
        ("\n" * 10, "the file is empty"),
        (
            "a,b\r" + "1,x y\r" * 100_000,
            "its lines end in CR alone, expected LF or CR LF; save it again",
        ),
        ("\n" * 40_000_000 + "x,y\n1,2\n3,4\n", r"its first \d+ bytes are blank lines"),
        # titles above a table
        ("Report of May\n\na,b,y\n" + "1,2,0\n3,4,1\n" * 9, "columns?, expected"),
        # no name for the column of the rows' names
        ("a,b\n" + "r,1,2\ns,3,4\n" * 9, "columns?, expected"),
        ("a,b\n1,2,\n3,4,\n", "columns?, expected"),
        ("x,y,z\n" + "1,a,\n2,b,\n" * 10, "no row has a target"),
    ],
)
def test_what_is_no_beginning_of_a_table_is_refused(write, text, message):
    """Comments, blank lines and titles above it, a header of fewer columns, a named
    column without fields."""
    path = write(text)
    with pytest.raises(DataError, match=message):
        load(path)


@pytest.mark.parametrize("line", ["sep=;\r\n", "\ufeffsep=;\n", '"sep=;"\n'])
def test_a_line_that_says_the_separator_is_no_row(line, write):
    ds = load(write(line + "a;b, c;y\n1;2,5;0\n2;3,5;1\n"))
    assert ds.columns == ["a", "b, c"]
    expected = [[1, 2.5], [2, 3.5]]
    assert ds.x.tolist() == expected
    with pytest.raises(DataError, match="row 3, column a"):
        load(write(line + "a;b;y\ninf;2;0\n2;3;1\n"))
