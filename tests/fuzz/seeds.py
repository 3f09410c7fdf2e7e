"""Seeds: small sound files of every format, made by code."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import nn
from nn.study import results

SPLIT = b"\n<|>\n"  # between the parts of an input that is several files
MIXED = (
    b'id,colour,size,day,ok,Class\n1,red,2.5,2024-01-31,yes,x\n2,"b ""l""",,2024-02-29 23:59,no,y\n'
    + b"".join(
        b"%d,%s,%d.5e-3,2023-%02d-01T00:00:00.5+01:00,%s,%s\n"
        % (
            n,
            [b"red", b"blue", b"?"][n % 3],
            n * 7 % 11,
            1 + n % 12,
            [b"yes", b"no"][n % 2],
            [b"x", b"y"][n % 2],
        )
        for n in range(3, 13)
    )
)


def written(write: Callable[[Path], object], name: str = "seed") -> bytes:
    """Return the bytes of the file that `write` makes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


def numpy_bytes(array: np.ndarray) -> bytes:
    """Return an array as an NPY file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def csv() -> list[bytes]:
    return [
        b'a,"b c",Class\n1,2.5,x\n-3e5,,y\n"4","5",x\n6,7,"y"\n',
        b"1;2,5;0\n3;4,25;1\r\n5;-6,125e3;0\n",
        b"\xef\xbb\xbf1\t2\t0\n3\t4\t1\n\n5\t6\t0\n",
        MIXED,
        b"x,y\n" + b"".join(b"0.%d,%d\n" % (n * 7919, n % 3) for n in range(9)),
    ]


def packed_csv() -> list[bytes]:
    return [gzip.compress(seed, mtime=0) for seed in csv()]


def npy() -> list[bytes]:
    table = np.arange(12.0).reshape(4, 3)
    return [
        numpy_bytes(table),
        numpy_bytes(np.asfortranarray(table, ">f4")),
        numpy_bytes(table.astype(np.uint8)),
    ]


def npz() -> list[bytes]:
    file = io.BytesIO()
    packed = io.BytesIO()
    x = np.arange(12.0).reshape(4, 3)
    y = np.array([0, 1, 0, 1])
    np.savez(file, x=x, y=y)
    x = np.zeros((4, 2, 2, 3), np.uint8)
    y = np.array(["a", "b", "a", "b"])
    np.savez_compressed(packed, x=x, y=y, now=[3])
    return [file.getvalue(), packed.getvalue()]


def npz_arrays() -> list[bytes]:
    x = np.arange(12.0).reshape(4, 3)
    y = np.array([0, 1, 0, 1])
    pairs = [
        (x, y),
        (x[:, :, None, None].astype("u1"), np.array(["a", "b", "a", "b"])),
        (x, x[:, :2]),
    ]
    return [numpy_bytes(x) + SPLIT + numpy_bytes(y) for x, y in pairs]


def idx() -> list[bytes]:
    images = struct.pack(">4B3I", 0, 0, 8, 3, 4, 2, 3) + bytes(range(24))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes([0, 1, 2, 1])
    floats = struct.pack(">4B2I", 0, 0, 13, 2, 4, 2) + struct.pack(">8f", *range(8))
    return [
        images + SPLIT + labels,
        floats + SPLIT + labels,
        gzip.compress(images, mtime=0) + SPLIT + labels,
    ]


def cifar() -> list[bytes]:
    rows = []
    for label in (0, 1):
        rows.append(bytes([label]) + bytes(3072))
    records = b"".join(rows)
    return [records, gzip.compress(records, mtime=0)]


def images() -> list[bytes]:
    from PIL import Image

    def picture(mode: str, file_format: str) -> bytes:
        small = Image.new(mode, (4, 3))
        return written(lambda path: small.save(path, file_format))

    kinds = [
        ("L", "PNG"),
        ("RGB", "PNG"),
        ("P", "PNG"),
        ("L", "JPEG"),
        ("RGB", "JPEG"),
        ("L", "PPM"),
        ("1", "PPM"),
    ]
    kinds += [
        ("RGBA", "PNG"),
        ("LA", "PNG"),
        ("I;16", "PNG"),
        ("I;16", "TIFF"),
        ("RGBA", "TIFF"),
        ("RGB", "BMP"),
    ]
    kinds += [
        ("RGBA", "WEBP"),
        ("L", "GIF"),
        ("RGBA", "TGA"),
        ("RGB", "PCX"),
        ("RGB", "SGI"),
        ("RGB", "QOI"),
    ]
    return [picture(*kind) for kind in kinds] + [b"P2\n# text\n4 3\n255\n" + b"7 " * 12]


def _arrow_tables():
    import pyarrow as pa

    plain = pa.table({"a": [1.0, 2.0, None, 4.0], "Class": ["x", "y", "x", "y"]})
    times = pa.array([0, 10**9, 2 * 10**9, None], pa.timestamp("ms", "UTC"))
    w = pa.array(["u", "v", None, "u"]).dictionary_encode()
    mixed = {"t": times, "w": w, "b": [True, False, None, True]}
    d = pa.array([1, 2, 3, 4], pa.decimal128(9, 2))
    return [plain, pa.table({**mixed, "d": d, "y": [0, 1, 0, 1]})]


def parquet() -> list[bytes]:
    import pyarrow.parquet as pq

    plain, mixed = _arrow_tables()
    seeds = [
        written(
            lambda path: pq.write_table(
                plain, path, compression="none", store_schema=False
            )
        )
    ]
    return seeds + [written(lambda path: pq.write_table(mixed, path, row_group_size=2))]


def arrow() -> list[bytes]:
    from pyarrow import feather

    plain, mixed = _arrow_tables()
    seeds = [
        written(
            lambda path: feather.write_feather(plain, path, compression="uncompressed")
        )
    ]
    return seeds + [
        written(lambda path: feather.write_feather(mixed, path, compression="lz4"))
    ]


def orc() -> list[bytes]:
    from pyarrow import orc

    plain, _ = _arrow_tables()
    return [written(lambda path: orc.write_table(plain, path))]


def json_lines() -> list[bytes]:
    rows = [
        {
            "a": n / 2,
            "b": "xy"[n % 2],
            "day": f"2024-01-{n + 1:02}",
            "Class": n % 3 == 0,
        }
        for n in range(8)
    ]
    text = "\n".join(
        map(json.dumps, [*rows, {"b": "x", "a": None, "Class": True}])
    ).encode()
    return [text, gzip.compress(text, mtime=0)]


def sqlite() -> list[bytes]:
    def write(path: Path, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for statement in ("PRAGMA page_size = 512", *statements):
                connection.execute(statement)

    rows = ", ".join(f"({n}.5, '{'xy'[n % 2]}', {n % 2})" for n in range(8))
    table = (
        "CREATE TABLE t (a REAL, Class TEXT, ok BOOL)",
        f"INSERT INTO t VALUES {rows}",
    )
    keyless = (
        "CREATE TABLE t (a REAL PRIMARY KEY, b) WITHOUT ROWID",
        "INSERT INTO t VALUES (1, 2), (3, NULL)",
    )
    view = (
        "CREATE TABLE sqlite (a, b)",
        "INSERT INTO sqlite VALUES (1, 'x'), (2, x'00')",
    )
    return [
        written(lambda path, database=database: write(path, *database))
        for database in (table, keyless, view)
    ]


def _mixed_network(**settings) -> tuple[nn.Network, nn.Dataset]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.csv"
        path.write_bytes(MIXED)
        ds = nn.load(path)
        net = nn.Network.for_data(ds, f"{ds.inputs},3,1")
        nn.train(net, ds, epochs=1, **settings)
    return net, ds


def train_mixed(checkpoint: Path, **settings) -> bytes:
    """Train beside a checkpoint, which goes; return the parameters."""
    checkpoint.unlink(missing_ok=True)
    return _mixed_network(checkpoint=str(checkpoint), **settings)[0].vector.tobytes()


@cache
def mixed_network() -> nn.Network:
    """Return a network that is trained on a table with numbers, categories and
    dates."""
    return _mixed_network()[0]


def model() -> list[bytes]:
    images = nn.Network(
        "1x4x4,conv2k3same:relu,maxpool2,dropout0.1,3:softmax", "multiclass"
    )
    networks = [
        nn.Network("2,3,1", "binary"),
        images,
        mixed_network(),
        _mixed_network(networks=2, holdout=0)[0],
    ]
    return [written(net.export) for net in networks]


ALSO_SAID = {
    "table": {"id": "id", "missing": "?"},
    "left_out": [0],
    "split_seed": 1,
    "folds": 1,
    "monitor": "loss",
}


def unsigned(data: bytes, key: str, config: dict | None = None) -> bytes:
    """Return (facts, entries of the arrays, bytes of the arrays) of a model or
    checkpoint, each on a line.

    targets.signed makes a file of them. config: more settings of the training.
    """
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    facts = json.loads(header.pop("__metadata__")[key])
    del facts["sha256"]
    if config:
        facts |= {"config": facts["config"] | config}
    lines = []
    for part in (facts, header):
        lines.append(json.dumps(part, separators=(",", ":")).encode())
    return b"\n".join([*lines, data[8 + size :]])


def model_facts() -> list[bytes]:
    return [unsigned(seed, "nn", ALSO_SAID) for seed in model()]


def trained_rows() -> nn.Dataset:
    """Return the rows of the training that checkpoints are of."""
    x = np.arange(24.0, dtype=np.float32).reshape(12, 2)
    y = np.arange(12) % 2
    return nn.Dataset(x, y, "binary")


def checkpoint() -> list[bytes]:
    net = nn.Network("2,3,1", "binary")
    return [
        written(
            lambda path: nn.train(net, trained_rows(), epochs=2, checkpoint=str(path))
        )
    ]


def checkpoint_facts() -> list[bytes]:
    return [unsigned(seed, "nn-checkpoint") for seed in checkpoint()]


TEXTS = {  # target -> its seeds
    "words": [  # fields of a column, a line each, as people write them
        b"$1,234.50\n$7\n-$0.5",
        b"12 %\n1 234,5 %\n7",
        b"1/2/2019 14:30\n12/31/2019\n5/6/2020",
        b"5 Jan 2019\n\n7 May",
    ],
    "names": [
        b"\x1b]0;evil\x07\xc2\x9b2J\r[red]\nx",
        "Z\u00fcrich \u202e".encode(),
        b"\x1b[31m",
    ],
    # of mixed_network as support/c_driver.c takes them: id, colour, size, day, ok
    "c-rows": [
        b"d3\0wred\0d2.5\0d1706659200\0wyes\0",
        b"d4\0w\0dnan\0dnan\0wno\0d1e999\0wpink\0d-0\0d0\0w\0",
    ],
    "m": [
        b"2\n2 1 \n0.5 \n1 -2.5 \n",
        b"3\n2 2 2 \n0 1 \n-1e300 3 \n1 2 \n3 4 \n5 6 \n7 8 \n",
    ],
    "layers": [
        b"3x8x8,conv4k3p1:relu,maxpool2,flatten,10,dropout0.5,2:softmax",
        b"30,60:gelu,10,1",
        b"2,pad1,1",
    ],
    "config": [
        b'{"train": true, "dataset": "a.csv", "layers": [30, 60, 1], "epochs": 20, "learning-rate": 1e-3}',
        b'{"config": {"epochs": 3, "gpus": "0,1", "seed": 7}, "dataset": {"path": "a.csv"}}',
        b'# flags\nepochs = 20\nlayers = "30,60,10,1"\nquiet = true\nholdout = 0.25\n',
    ],
    "plan": [
        b'{"data": {"clouds": {"rows": 86, "step": 10}, "form": "table", "horizon": 60}, "epochs": 3,'
        b' "batch_number": [100, 1000], "parts": [{"layers": ["50,50,1", "50,100,1"], "threads": [1, 2]}]}',
        b'name = "p"\nlayers = "5,3,1"\nbackend = ["seq", "omp"]\ngpus = "0,1"\n[data]\npath = "x.csv"\n',
    ],
    "series": [
        b"t,s1,s2\n1,10,20\n2,11,21.5\n3,,1\n"
        + SPLIT
        + b"station,lat,lon\ns1,50,8\ns2,50.1,8.1\n",
        b"t,s1,s2\n2024-01-01T00:00:00Z,1,2\n2024-01-01T00:00:01,3,4\n"
        + SPLIT
        + b"station,x,y\n1,0,5\n2,1,1\n",
    ],
}


def results_lines() -> list[bytes]:
    done = {
        "entry": "entry",
        "status": "ok",
        "backend": "omp",
        "layers": "2,3:relu,1",
        "kind": "dense",
        "gpus": "1",
    }
    hostile = itertools.cycle(['"a,""b"', "1e999", "nan"])
    lines = [
        [done.get(name, "2") for name in results.RESULT_COLUMNS],
        [next(hostile) for _ in results.RESULT_COLUMNS],
    ]
    return [
        f"{','.join(results.RESULT_COLUMNS)}\n{','.join(line)}\n".encode()
        for line in lines
    ]
