"""Arrow's columns as blocks: the values of pyarrow's own lists, from whole, cut and joined arrays; pandas stays out."""

import datetime
import subprocess
import sys

import numpy as np
import pytest
from support.command_line import environment
from support.table_formats import feather, fields, pa, parquet

from nn.data.arrow import arrow_block

COUNT = 37
DAY = datetime.datetime(2020, 3, 1, 12, 30)
DAYS = [DAY + datetime.timedelta(days=9 * i) for i in range(COUNT)]
NUMBERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)] + ["float16", "float32", "float64"]
MANY = {kind: np.arange(0, 3 * COUNT, 3).astype(kind) % 101 for kind in NUMBERS}
COLUMNS = {  # type -> values, as old pyarrow wants them
    **{getattr(pa, kind)(): [*many] if kind == "float16" else many.tolist() for kind, many in MANY.items()},
    pa.bool_(): [i % 3 == 0 for i in range(COUNT)],
    **{kind: [day.date() for day in DAYS] for kind in (pa.date32(), pa.date64())},
    **{pa.timestamp(unit): DAYS for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "UTC"): [day.replace(tzinfo=datetime.timezone.utc) for day in DAYS],
    **{kind: [f"w{i % 7}" for i in range(COUNT)] for kind in (pa.string(), pa.large_string())},
    **{pa.dictionary(i, pa.string()): [f"w{n % 7}" for n in range(COUNT)] for i in (pa.int8(), pa.uint64())},
}


def ways(values, kind):
    """Yield the same column in several ways: in one array, cut out of a longer one, of several arrays, of none."""
    array = pa.array(values, kind)
    cut = pa.concat_arrays([pa.array(values[::-1], kind), array])
    yield pa.chunked_array([array])
    yield pa.chunked_array([cut]).slice(len(values) - 3, 9)
    yield pa.chunked_array([array.slice(2, 5), array.slice(0, 0), array.slice(11)])
    yield pa.chunked_array([], kind)


def as_read(value):
    """The field that a value becomes: truths are texts, dates are seconds since 1970."""
    if isinstance(value, datetime.date):
        value = value.isoformat()[:19]
        return float((np.datetime64(value) - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    return str(value) if isinstance(value, bool) else value


@pytest.mark.parametrize("gaps", [[], [3], [0, 1, 2, 3, 4]], ids=["whole", "gaps", "nothing"])
@pytest.mark.parametrize("kind", COLUMNS, ids=str)
def test_columns_of_arrow_are_its_own_lists(kind, gaps):
    values = [None if i % 5 in gaps else value for i, value in enumerate(COLUMNS[kind])]
    for column in ways(values, kind):
        found = fields(arrow_block(column)) if len(column) else []
        assert found == [as_read(value) for value in column.to_pylist()]


@pytest.mark.parametrize("index", [2, -1, 2**40])
def test_an_index_beyond_its_dictionary_is_refused(index):
    indices, words = pa.array([0, index, 1], pa.int64()), pa.array(["a", "b"])
    array = pa.DictionaryArray.from_arrays(indices, words, safe=False)
    with pytest.raises(pa.ArrowInvalid, match="beyond its dictionary"):
        arrow_block(pa.chunked_array([array]))


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_reading_a_file_imports_no_pandas(tmp_path, format):
    days, path = [DAY.date(), DAY.date(), None] * 20, str(tmp_path / "table")
    table = pa.table({"a": [1.5, None, 2.5] * 20, "b": [True, None, False] * 20, "c": days, "y": ["p", "q", "p"] * 20})
    (parquet.write_table if format == "parquet" else feather.write_feather)(table, path)
    code = (
        "import sys; from nn.data.formats import recognise; from nn.data.column import Wanted;"
        f"known, files = recognise({path!r}); table = known.table(files, files[0], None);"
        "assert len(table.read(Wanted(dict.fromkeys(range(4))))) == 60; print(*sys.modules)"
    )
    modules = subprocess.check_output([sys.executable, "-c", code], env=environment(), text=True)
    assert "pandas" not in modules.split()
