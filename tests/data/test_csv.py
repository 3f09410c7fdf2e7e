"""CSV files as data sets: all ways to write a table, gzip, float64."""

import gzip

import numpy as np
import pytest

from nn.ds import Scaling, load

X = [[1.5, -2.0], [0.25, 3e4], [7.0, 8.0]]
Y = [0, 1, 1]


@pytest.mark.parametrize(
    "text",
    [
        "1.5,-2,0\n.25,3e4,1\n7,8,1\n",
        "1.5,-2,0\n.25,3e4,1\n7,8,1",
        "a,b,c\n1.5,-2,0\n.25,3e4,1\n7,8,1\n",
        '"a","b","c"\n1.5,-2,0\n.25,3e4,1\n7,8,1\n',
        "id,0,1\n1.5,-2,0\n.25,3e4,1\n7,8,1\n",
        '"1.5","-2","0"\n"0.25","3e4","1"\n"7","8","1"\n',
        '1.5,-2,"0"\n.25,3e4,"1"\n7,8,"1"\n',
        "a,b,c\r\n1.5,-2,0\r\n.25,3e4,1\r\n7,8,1\r\n",
        "1.5,-2,0\n\n.25,3e4,1\n\r\n7,8,1",
        '\n  \n a , b\t, c\n 1.5 ,\t-2 , 0 \n .25, 3e4 ," 1 "\n7,8,1\n\n \n',
        "\ufeffa,b,c\n1.5,-2,0\n.25,3e4,1\n7,8,1\n",
        "\ufeff1.5,-2,0\n.25,3e4,1\n7,8,1\n",
        "1.5;-2;0\n.25;3e4;1\n7;8;1\n",
        "a b c\n  1.5   -2 0\n.25 3e4 1\n7 8\t1\n",
        "a\tb\tc\r\n1.5\t-2\t0\r\n.25\t3e4\t1\r\n7\t 8 \t1\r\n",
        'a | b | c\n1.5 | -2 | 0\n.25 | 3e4 | 1\n7 | 8 | "1"\n',
        "a;b;c\n1,5;-2;0\n,25;3e4;1\n7,0;8,;1\n",
        "1,5;-2,0;0\n0,25;3e4;1\n7,0;8,0;1\n",
        '"a";"b";"c"\n"1,5";"-2,0";"0"\n"0,25";"3e4";"1"\n"7";"8";"1"\n',
        ' "a"  b c \r\n1.5 -2\t 0\r\n \t \r\n.25 "3e4" 1 \t\r\n7 8 1',
    ],
)
def test_all_ways_to_write_the_same_table(write, text):
    ds = load(write(text))
    assert ds.x.tolist() == X
    assert ds.y.tolist() == Y
    assert ds.x.dtype == np.float32
    assert ds.x.flags.c_contiguous
    assert ds.y.dtype == np.int32
    assert ds.task == "binary"
    assert ds.classes == ["0", "1"]


def test_many_rows_in_gzip_members_read_as_they_were_written(write):
    rows = np.arange(60_000).reshape(-1, 3) / 8
    lines = []
    for a, b, c in rows.tolist():
        lines.append(f"{a},{b},{c}\n")
    text = "".join(lines).encode()
    cut = len(text) // 2
    path = write(gzip.compress(text[:cut]) + gzip.compress(text[cut:]), "no-suffix")
    ds = load(path, dtype="float64")
    expected = rows[:, :2]
    np.testing.assert_array_equal(ds.x, expected)
    expected = rows[:, 2:]
    np.testing.assert_array_equal(ds.y, expected)


def test_float64_keeps_all_bits_and_float32_rounds_once_unless_that_blurs_a_column(
    write,
):
    """Such columns stay double until they are scaled."""
    value = 0.1 + 2**-40
    path = write(f"{value!r},0\n3,1\n")
    x = load(path, dtype="float64").x
    assert x[0, 0] == value
    x = load(path).x[0, 0]
    assert x == np.float32(value)
    rows = []
    for i in range(4):
        rows.append(f"{1_700_000_000 + i},{i},{i % 2}\n")
    text = "".join(rows)
    ds = load(write(text))
    assert ds.x.dtype == np.float64
    scaling = Scaling.fit("standardization", ds.x)
    scaled = scaling.apply(ds.x, "float32")
    expected = scaled[:, 1]
    np.testing.assert_allclose(scaled[:, 0], expected, rtol=1e-6)
