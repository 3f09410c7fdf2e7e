"""Files that no person writes: numbers at the ends of float64, small files that would
fill the memory, odd headers."""

import contextlib
import csv
import errno
import gzip
import json
import os
import sqlite3
import struct
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.command_line import ONE, on_terminal, run
from support.tables import failure, peak_of_loading, trained_on

import nn
from nn.data import records
from nn.utils import DataError, OutputError


def write(path, rows, names="a,b,y"):
    text = "\n".join([names, *rows]) + "\n"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("gap", [[], ["?,1,1"]])
@pytest.mark.parametrize("row", ["{}e200,{},{}", "{}e-200,{},{}", "{2},{1},{3}.5e198"])
def test_a_column_or_a_target_that_cannot_be_scaled_is_named(tmp_path, row, gap):
    rows = []
    for i, a in enumerate([1, 2, -3, 4, 1] * 20):
        rows.append(row.format(a, i % 7, i % 2, i))
    path = write(tmp_path / "a.csv", rows + gap)
    ds = nn.load(path, dtype="float64")
    of_a = "column a: numbers from -3e.200 to 4e.200, expected differences"
    with pytest.raises(
        DataError, match=f"^{'target 1: numbers from' if '198' in row else of_a}"
    ):
        nn.train(nn.Network("2,3,1", ds.task, dtype="float64"), ds, epochs=1)


def test_a_column_of_one_huge_number_is_constant(tmp_path):
    texts = [f"1.7e308,{i % 7},{i % 2}" for i in range(100)]
    path = write(tmp_path / "a.csv", texts)
    ds = nn.load(path, dtype="float64")
    scaling = nn.Scaling.fit("standardization", ds.x)
    scaled = scaling.apply(ds.x, "float64")
    assert (scaled[:, 0] == 0).all()
    assert np.isfinite(scaled).all()


BIG = np.finfo(np.float64).max
ENDS = {
    "a wide column": [BIG, -BIG] * 30,
    "small": [5e-324, 0.0] * 30,
    "whole numbers": [2**63 - 1, -(2**63)] * 30,
    "longer than float64": np.array([1, -1] * 30, np.longdouble)
    * np.longdouble("1e4000"),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ENDS)
def test_numbers_at_the_ends_are_used_or_refused_without_a_warning_of_numpy(
    name, dtype
):
    with contextlib.suppress(DataError):
        columns = {"y": [0, 1] * 30, "z": list(range(60)), "x": ENDS[name]}
        ds = nn.load(columns, target="y", dtype=dtype)
        net = nn.Network.for_data(ds, dtype=dtype)
        nn.train(net, ds, epochs=1)
        nn.test(net, ds)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_weights_that_float32_does_not_hold_are_no_warning_of_numpy():
    weights = np.full(60, BIG)
    x = np.zeros((60, 2))
    y = np.arange(60) % 2
    ds = nn.Dataset(x, y, "binary", weights=weights)
    with pytest.raises(nn.NnError, match="loss is"):
        nn.train(nn.Network("2,1", "binary"), ds, epochs=1)


def test_what_is_masked_or_a_gap_is_no_number_anywhere():
    """Dataset, predict and estimators took what lies under the mask for the numbers."""
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    y = np.arange(60) % 2
    gaps = np.ma.array(x, mask=x > 0.9)
    net = trained_on(nn.Dataset(x, y, "binary"))
    # of training, which knew no gap
    medians = np.array(net.medians)
    filled = np.where(x > 0.9, medians, x)
    assert np.array_equal(net.predict(gaps), net.predict(filled))
    uses = [lambda: nn.train(net, nn.Dataset(gaps, y, "binary"), epochs=1)]
    for use in uses:
        with pytest.raises(
            DataError, match=r"(row 3, column 2 of 2|x\[2, 1\]): found nan"
        ):
            use()
    with pytest.raises(DataError, match="y: found a masked value"):
        nn.Dataset(x, np.ma.array(y, mask=x[:, 0] > 0.9), "binary")
    predictions = net.predict(np.ma.array(x))
    np.testing.assert_array_equal(predictions, net.predict(x))
    with pytest.raises(DataError, match="complex numbers"):
        net.predict(x * 1j)
    columns = {"a": [0.5, 1.5] * 30, "y": [0, 1] * 30}
    net = trained_on(nn.load(columns))
    a = [0.5, net.medians[0]] * 30
    table = {"a": a, "y": [0, 1] * 30}
    other = nn.load(table)
    path = {"a": [0.5, None] * 30, "y": [0, 1] * 30}
    ds = nn.load(path)
    metrics = nn.test(net, ds)
    assert metrics == nn.test(net, other)
    with pytest.raises(DataError, match="the rows have gaps, texts or dates"):
        nn.test(net, nn.load({"a": ["u", "v"] * 30, "y": [0, 1] * 30}))
    pytest.importorskip("sklearn")
    results = []
    for rows in (gaps, gaps.filled(np.nan)):
        estimator = nn.NetworkClassifier(networks=1, epochs=1).fit(rows, y)
        results.append(estimator.predict_proba(rows))
    np.testing.assert_array_equal(*results)


TRAIN = [*ONE, "--epochs", 1, "--model", "m.bin", "--dataset", "t.csv"]
ON_TABLE = ["--model", "m.bin", "--dataset", "t.csv"]
EVERY_MODE = (
    ["--info", "--model", "m.bin"],
    ["--test", *ON_TABLE, "--verbose", "--report", "page.html"],
    ["--predict", *ON_TABLE],
    ["--compare", "m.bin,n.bin", "--dataset", "t.csv", "--report", "page.md"],
    ["--export", "--model", "m.bin", "-o", "m.onnx"],
    ["--export", "--model", "m.bin", "-o", "m.c"],
)


@pytest.mark.usual(1, 3)
@pytest.mark.parametrize(
    "piece", ["1", "x", "_in_1", ",", '"', "1/1/2019 ", "Id_", "-"]
)
def test_names_of_60_kb_take_no_time_and_no_room_on_a_terminal(folder, piece):
    """A name of digits was an internal error: Python reads no whole number of more than
    4,300. Tables filled their lines up to the length of a name, to 2 MB of --info and 3
    MB of --test."""
    name = piece * (60_000 // len(piece))
    with open("t.csv", "w", newline="") as file:
        rows = (
            [row % 7 / 7, f"{'pq'[row % 2]}{name}", f"{'xy'[row % 3 // 2]}{name}"]
            for row in range(60)
        )
        csv.writer(file).writerows([[name, f"kind{name}", f"class{name}"], *rows])
    choices = [
        ["--target", name],
        ["--drop", name, "--target", -1],
        ["--target", -1, "--model", "n.bin"],
    ]
    if piece == '"':
        modes = EVERY_MODE
    else:
        modes = EVERY_MODE[:1]
    if piece not in ("1", '"'):
        choices = choices[2:]
    commands = (
        *([*TRAIN, *chosen] for chosen in choices),
        [*TRAIN, "--target", -1],
        *modes,
    )
    for command in commands:
        started = time.process_time()
        result = on_terminal(*command)
        assert result.code in (0, 2, 65, 66), (command[0], result)
        assert "internal" not in result.err, (command[0], result)
        # its table is for programs
        if command[0] == "--predict":
            most = 300_000
        else:
            most = len(name)
        assert len(result.out) + len(result.err) < most, (command[0], len(result.out))
        assert time.process_time() - started < 3, command[0]


def test_half_of_a_surrogate_pair_is_written_out(folder):
    table = {
        "x": [0.5, 1.5] * 30,
        "kind \udc80": ["half \ud800", "whole"] * 30,
        "y": ["yes \udfff", "no"] * 30,
    }
    ds = nn.load(table, target="y")
    assert ds.classes == ["no", "yes \\udfff"]
    assert ds.columns == ["x", "kind \\udc80"]
    net = trained_on(ds)
    net.export("m.bin")
    for name in ("m.onnx", "m.c"):
        nn.export(net, name)
    rows = []
    for row in zip(*table.values()):
        rows.append(json.dumps(dict(zip(table, row))))
    text = "\n".join(rows)
    Path("t.jsonl").write_text(text)
    assert nn.load("t.jsonl", target="y").classes == ds.classes
    predictions = nn.Network.load("m.bin").predict(table)
    expected = net.predict(table).tolist()
    assert predictions.tolist() == expected


SMALL = {  # what makes the content, packed or not; what is told
    "fields.csv.gz": (
        lambda: b"1," * 8_000_000 + b"1\n1,2\n",
        "row 1: 8000001 columns, expected at most 131072",
    ),
    "fields.csv": (
        lambda: b'"1",' * 4_000_000 + b"1\n1,2\n",
        "row 1: 4000001 columns, expected at most 131072",
    ),
    "line.csv": (
        lambda: b"1,2" * 6_000_000,
        "a line longer than 16777216 bytes, expected rows of numbers",
    ),
    "quote.csv": (
        lambda: b'a,b\n1,2\n3,4\n5,6\n"' + b"1,2\n" * 5_000_000,
        'row 5: a field begins with " and no other "',
    ),
    "pairs.csv": (
        lambda: b'a,b\n1,2\n3,4\n5,6\n"' + b'x""' * 6_000_000,
        "a line longer than 16777216 bytes",
    ),
    "blank.csv.gz": (lambda: b"a,b\n" + b"\n" * 20_000_000, "only a header"),
}


@pytest.mark.usual(0, 3)
@pytest.mark.parametrize("name", SMALL)
def test_a_small_file_takes_little_memory_and_time(tmp_path, name):
    make, expected = SMALL[name]
    content = gzip.compress(make(), 1) if name.endswith("gz") else make()
    (tmp_path / name).write_bytes(content)
    small = write(tmp_path / "small.csv", ["1,2,0", "3,4,1"])
    peak, message = peak_of_loading(tmp_path / name, small)
    # a dozen of the file's longest line
    assert expected in message
    assert peak < 200_000 << 10


def wide_csv(path, columns):
    rows = [",".join([value] * columns) for value in "1?2"] * 3
    names = ",".join(f"c{i}" for i in range(columns))
    return write(path, rows, names)


def packed_csv(path, rows):
    content = gzip.compress(b"a,b,y\n" + b"1,2,0\n3,4,1\n" * (rows // 2), 1)
    path.write_bytes(content)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, size, times", [(wide_csv, 2000, 10), (packed_csv, 50_000, 8)]
)
def test_time_grows_with_the_number_of_columns_and_with_what_a_file_unpacks_to(
    tmp_path, make, size, times
):
    """So many times the size take at most twice as many times the time; where it grows
    with the square, the square."""
    seconds = []
    for count in (size, size, times * size):
        path = make(tmp_path / "a.csv", count)
        start = time.process_time()
        nn.load(path)
        seconds.append(time.process_time() - start)
    assert seconds[2] < 2 * times * seconds[1] + 1


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
DAMAGED = {
    "open": HEADER.replace("3)", "3"),
    "brackets": "(" * 5000,
    "truth": HEADER.replace("2, 3", "True, 3"),
    "negative": HEADER.replace("2, 3", "-2, -3"),
    "digits": HEADER.replace("2", "2" * 5000),
    "large": HEADER.replace("2", "2" * 400),
    "type": HEADER.replace("<f8", "<q99"),
    "list": HEADER.replace("'<f8'", "['a', 3]"),
    "keys": HEADER.replace("descr", "desc"),
    "text": "import os",
    "nul": HEADER.replace("2", "\0"),
    "none": "",
    "dictionary": "{1: 2, 'a': 3}",
    "no type": HEADER.replace("'<f8'", "()"),
}


def npy(header):
    data = header.encode("latin-1")
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(data))
        + data
        + np.zeros(6).tobytes()
    )


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_headers_are_one_line(tmp_path, name):
    (tmp_path / "a.npy").write_bytes(npy(HEADER))
    path = str(tmp_path / "a.npy")
    assert nn.load(path, task="regression").rows == 2
    content = npy(DAMAGED[name])
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", npy(DAMAGED[name]))
        archive.writestr("y.npy", npy(HEADER))
    for file, what in (
        ("a.npy", "damaged NPY file"),
        ("a.npz", "damaged or not an NPZ file"),
    ):
        message = failure(tmp_path / file)
        assert message.startswith(f"{tmp_path / file}: {what}")
        assert len(message) < 400


CONFIGS = {
    "digits": '{"epochs": ' + "1" * 5000 + "}",
    "toml digits": "epochs = " + "1" * 5000,
    "nested": "[" * 100_000,
    "json nested": '{"epochs": ' + "[" * 100_000,
    "toml nested": "epochs = " + "[" * 100_000,
    "nul": '{"dataset": "a\\u0000b"}',
    "surrogate": '{"dataset": "a\\ud800b"}',
    "toml nul": 'dataset = "a\\u0000b"',
    "large": "#" * 2_000_000,
    "endless": None,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_hostile_configuration_is_one_line(tmp_path, name):
    if name == "endless":
        path = "/dev/zero"
    else:
        path = tmp_path / "c"
    if name != "endless":
        path.write_text(CONFIGS[name])
    refused = run("--train", "--layers", "auto,1", "--model", "m.bin", "--config", path)
    (line,) = refused.err.splitlines()
    assert refused.code in (2, 65)
    assert line.startswith(f"nn: {path}")
    assert len(line) < 400


@pytest.mark.parametrize("rows", [10**10, 4])
@pytest.mark.parametrize("kind", ["<U0", "|S0", "<f8"])
def test_an_empty_array_is_refused_whatever_its_shape(tmp_path, rows, kind):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        cases = (
            ("x", (rows, 0), "<f4"),
            ("y", (rows, 0) if kind == "<f8" else (rows,), kind),
        )
        for name, shape, of in cases:
            header = f"{{'descr': '{of}', 'fortran_order': False, 'shape': {shape}, }}"
            archive.writestr(f"{name}.npy", npy(header)[:-48])
    with pytest.raises(DataError, match="array x: .* of shape .*: no rows or columns"):
        nn.load(str(tmp_path / "a.npz"))


VIEWS = {
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x, x FROM c": "not authorized",
    "WITH c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x, x FROM c": "not authorized",
    "SELECT 1, hex(zeroblob(100000000))": "too big",
}


@pytest.mark.parametrize("query", VIEWS)
def test_a_view_without_end_or_of_long_values_is_refused(tmp_path, query):
    if sys.version_info < (3, 11) and "blob" in query:
        pytest.skip("sqlite3 has no limits before Python 3.11")
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(f"CREATE VIEW v(a, y) AS {query}")
    with pytest.raises(DataError, match=VIEWS[query]):
        nn.load(str(tmp_path / "a.db"))


def packed_images(path, rows):
    images = path.with_name("a-images-idx3-ubyte")
    content = gzip.compress(
        struct.pack(">4B3I", 0, 0, 8, 3, rows, 4, 4) + bytes(16 * rows), 1
    )
    images.write_bytes(content)
    content = struct.pack(">4BI", 0, 0, 8, 1, rows) + bytes(rows)
    path.with_name("a-labels-idx1-ubyte").write_bytes(content)
    return str(images)


def packed_arrays(path, rows):
    x = np.zeros((rows, 4), np.float32)
    y = np.arange(rows) % 2
    np.savez_compressed(path.with_suffix(".npz"), x=x, y=y)
    return str(path.with_suffix(".npz"))


@pytest.mark.usual(1)
@pytest.mark.parametrize("write", [packed_csv, packed_images, packed_arrays])
def test_a_packed_file_that_does_not_fit_the_memory_is_mapped_or_ends_with_a_line(
    tmp_path, monkeypatch, write
):
    path = write(tmp_path / "a", rows=1_200_000)
    expected = nn.load(path)
    monkeypatch.setattr(records, "LEAST_BYTES_FREE", 0)
    monkeypatch.setattr(records, "memory_left", lambda: 5 << 20)
    mapped = nn.load(path)
    np.testing.assert_array_equal(mapped.x, expected.x)
    np.testing.assert_array_equal(mapped.y, expected.y)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        OutputError,
        match="its rows do not fit the memory, and cannot be written to .*: No space left",
    ):
        nn.load(path)
