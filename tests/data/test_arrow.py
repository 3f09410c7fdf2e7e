"""Arrow's columns as blocks: the values of pyarrow's own lists, from whole, cut and joined arrays; pandas stays out."""

import datetime
import subprocess
import sys

import numpy as np
import pytest
from support.command_line import environment

pa = pytest.importorskip("pyarrow")

from nn.data.arrow import arrow_block  # noqa: E402

COUNT = 37
DAY = datetime.datetime(2020, 3, 1, 12, 30)
NUMBERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)] + ["float16", "float32", "float64"]


def lists(values):
    """Return the values with and without gaps, and of gaps alone."""
    some = [None if i % 5 == 3 else value for i, value in enumerate(values)]
    return {"whole": values, "gaps": some, "nothing": [None] * len(values)}


def columns(values, kind):
    """Return the same column in several ways, with what pyarrow says that it holds: in one array, cut out of a longer
    one, of several arrays, of none."""
    array = pa.array(values, kind)
    cut = pa.concat_arrays([pa.array(values[::-1], kind), array])
    ways = [
        pa.chunked_array([array]),
        pa.chunked_array([cut]).slice(len(values) - 3, 9),
        pa.chunked_array([array.slice(2, 5), array.slice(0, 0), array.slice(11)]),
        pa.chunked_array([], kind),
    ]
    return [(way, way.to_pylist()) for way in ways]


@pytest.mark.parametrize("gaps", ["whole", "gaps", "nothing"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind, gaps):
    values = [np.dtype(kind).type(i * 3 % 101) for i in range(COUNT)]
    values = values if kind == "float16" else [value.item() for value in values]  # as old pyarrow wants them
    for column, expected in columns(lists(values)[gaps], getattr(pa, kind)()):
        numbers = arrow_block(column).values if len(column) else np.zeros(0)
        assert [None if np.isnan(number) else number for number in numbers] == expected


@pytest.mark.parametrize("gaps", ["whole", "gaps", "nothing"])
def test_truths(gaps):
    values = [i % 3 == 0 for i in range(COUNT)]
    for column, expected in columns(lists(values)[gaps], pa.bool_()):
        block = arrow_block(column)
        assert [None if code < 0 else block.words[code] for code in block.values] == [
            v if v is None else str(v) for v in expected
        ]


@pytest.mark.parametrize("gaps", ["whole", "gaps", "nothing"])
@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.timestamp("us", "UTC")],
    ids=str,
)
def test_dates(kind, gaps):
    zone = datetime.timezone.utc if getattr(kind, "tz", None) else None
    times = [(DAY + datetime.timedelta(days=9 * i)).replace(tzinfo=zone) for i in range(COUNT)]
    values = [time.date() for time in times] if pa.types.is_date(kind) else times
    midnight = datetime.datetime(1970, 1, 1, tzinfo=zone)
    for column, expected in columns(lists(values)[gaps], kind):
        seconds = arrow_block(column).values if len(column) else []
        whole = [v if v is None or isinstance(v, datetime.datetime) else datetime.datetime(v.year, v.month, v.day)
                 for v in expected]  # fmt: skip
        known = [None if v is None else (v - midnight).total_seconds() for v in whole]
        assert [None if np.isnan(value) else value for value in seconds] == known


@pytest.mark.parametrize("gaps", ["whole", "gaps", "nothing"])
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), *(pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.uint64()))],
    ids=str,
)
def test_texts(kind, gaps):
    values = [f"w{i % 7}" for i in range(COUNT)]
    for column, expected in columns(lists(values)[gaps], kind):
        block = arrow_block(column)
        assert [None if code < 0 else block.words[code] for code in block.values] == expected


@pytest.mark.parametrize("index", [2, -1, 2**40])
def test_an_index_beyond_its_dictionary_is_refused(index):
    indices, words = pa.array([0, index, 1], pa.int64()), pa.array(["a", "b"])
    array = pa.DictionaryArray.from_arrays(indices, words, safe=False)
    with pytest.raises(pa.ArrowInvalid, match="beyond its dictionary"):
        arrow_block(pa.chunked_array([array]))


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_reading_a_file_imports_no_pandas(tmp_path, format):
    from pyarrow import feather, parquet

    table = pa.table({
        "a": [1.5, None, 2.5] * 20, "b": [True, None, False] * 20, "c": [DAY.date(), DAY.date(), None] * 20,
        "y": ["p", "q", "p"] * 20,
    })  # fmt: skip
    path = tmp_path / "table"
    parquet.write_table(table, path) if format == "parquet" else feather.write_feather(table, str(path))
    code = (
        "import sys; from nn.data.formats import recognise; from nn.data.column import Wanted;"
        f"known, files = recognise({str(path)!r}); table = known.table(files, files[0], None);"
        "assert len(table.read(Wanted(dict.fromkeys(range(4))))) == 60; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "pandas" not in done.stdout.split()
