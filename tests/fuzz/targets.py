"""Targets: all that nn reads from files and texts, each with its seeds and its
reader."""

from __future__ import annotations

import atexit
import contextlib
import csv
import hashlib
import io
import json
import os
import resource
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from support.c_models import SANITIZED, program
from support.command_line import controls, on_terminal
from support.patterns import patterns

import nn
from nn.data import kinds, loading, records
from nn.data.column import Column
from nn.layers import parse, to_spec
from nn.pages.page import html_of
from nn.study import results, solar, sweep, sweep_page
from nn.terminal import config, parser, tables
from nn.utils import DataError, NnError, UsageError

from . import seeds
from .seeds import SPLIT, TEXTS

CSV_WORDS = (
    b'"',
    b'""',
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r\n",
    b"\0",
    b"nan",
    b"inf",
    b"1e999",
    b"-",
    b"0",
    b"9" * 400,
)
CSV_WORDS += (
    b"?",
    b"NA",
    b"2024-02-29",
    b"T23:59:59.5Z",
    b"yes",
    b"\xff",
    b"\xef\xbb\xbf",
    b"a" * 300,
    b"1,5",
)
JSON_WORDS = (
    b"{",
    b"}",
    b"[" * 50,
    b"]",
    b'"',
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e400",
    b"9" * 5000,
)
JSON_WORDS += (
    b"1.5",
    b'"\\ud800"',
    b'"\\u0000"',
    b"[]",
    b"{}",
    b'""',
    b"NaN",
    b"2147483648",
    b"18446744073709551616",
)
BINARY_WORDS = tuple(
    value.to_bytes(size, order)
    for size in (2, 4, 8)
    for order in ("little", "big")
    for value in (1, (1 << (8 * size - 1)) - 1, (1 << 8 * size) - 1)
)
NPY_WORDS = (
    *BINARY_WORDS,
    b"0,",
    b"1,",
    b"9" * 18,
    b"<U0",
    b"|S1",
    b"<f4",
    b"|V1",
    b"True",
    b"(",
    b")",
    b"descr",
)
SQL_WORDS = (
    b"CREATE",
    b"VIEW",
    b"SELECT",
    b"rowid",
    b"UNION ALL",
    b"WITH",
    b"sqlite_",
    b"(",
    b")",
)
TOML_WORDS = (
    b"=",
    b"'''",
    b'"""',
    b"[data]",
    b"[[parts]]",
    b"1979-05-27",
    b"#",
    b"inf",
)
LAYER_WORDS = (
    b"conv",
    b"k3",
    b"s2",
    b"p1",
    b"same",
    b"maxpool",
    b"avgpool",
    b"pad",
    b"dropout",
    b"flatten",
    b"0.5",
)
LAYER_WORDS += (b":relu", b":softmax", b"x", b",", b"9" * 10, b"2147483647")
NAME_WORDS = (
    b"\x1b]0;x\x07",
    b"\x1b[2J",
    b"\xc2\x9b2J",
    b"\r",
    b"\x08",
    b"\xe2\x80\xae",
    b"[red]",
    b"{",
    b"%s",
)
C_WORDS = (
    b"\0",
    b"w",
    b"d",
    b"dnan",
    b"dinf",
    b"d-inf",
    b"d1e308",
    b"d2147483648",
    b"wred",
    b"w\xff",
    b"a" * 400,
)
# characters of a text: where time grows as the square, it is more than the judge's
LONG = 50_000
INTERNAL = 70  # the exit code of an error of nn's own
MOST_ENTRIES = 100  # of a plan that are looked at
MOST_VALUES = 1 << 16  # of the networks that predict


@dataclass(frozen=True)
class Target:
    """A format: `read` gets the path of a file that holds an input, and returns or
    raises an NnError.

    file: the name of that file; words: that its texts are made of; needs: packages that
    must be installed, and programs; cost: how many inputs of another target take the
    time of one, which is the part that it gets of --runs.
    """

    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    file: str = "input"
    words: tuple[bytes, ...] = BINARY_WORDS
    needs: tuple[str, ...] = ()
    cost: int = 1


_CHOICES = (
    {"categories": "0", "missing": "?,NA"},
    {"header": "yes", "weight": "0", "task": "regression"},
    {"header": "no", "target": "0,-1", "dtype": "float64"},
    {"drop": "0", "id": "1", "separator": " "},
    {"dates": "3", "numbers": "2", "missing": "none"},
    {"inputs": (1, 1, 2)},
    {"plain": True, "labelled": False},
    {"memory": 0},
    {"strict": True, "ordered": "1=red<blue"},
    {"dates": "3=%Y-%m-%d", "missing": "2024-02-29 23:59"},
    {"group": "1", "time": "3"},
    {"exposure": "0", "task": "regression"},
    {"ordered": "0=1<2<3", "target": "4", "dtype": "float64"},
)


def _load_as_asked(path: Path) -> None:
    """Read a table as flags say; the first byte, a digit in what is given, says
    which."""
    data = path.read_bytes()
    path.write_bytes(data[1:])
    nn.load(path, **(_CHOICES[(data[0] - ord("0")) % len(_CHOICES)] if data else {}))


def _predict_csv(path: Path) -> None:
    """Read a table by the columns and categories of a model, and predict it."""
    net = seeds.mixed_network()
    x = loading.load_for(net, path, labelled=False).x
    assert np.isfinite(net.predict(x)).all()


def _parts(path: Path, *names: str) -> list[Path]:
    """Write the parts of an input to files of their own beside it."""
    parts = [*path.read_bytes().split(SPLIT, len(names) - 1), *[b""] * len(names)]
    for name, part in zip(names, parts):
        path.with_name(name).write_bytes(part)
    return [path.with_name(name) for name in names]


def _read_npz_arrays(path: Path) -> None:
    x, y = _parts(path, "x", "y")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(x, "x.npy")
        archive.write(y, "y.npy")
    nn.load(path)


def _read_images(path: Path) -> None:
    """Read a folder of two classes, one of which has the image alone."""
    folder = path.with_name("classes")
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "1.png").write_bytes(path.read_bytes())
    nn.load(folder)


def _read_model(path: Path) -> None:
    """Read a model, show all of it without a control character, export it and predict a
    row."""
    net = nn.Model.load(path).network
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        tables.card_report(net, str(path))
        tables.model_report(net)
    assert shown.getvalue().replace("\n", "").isprintable()
    if sum(layer.parameters for layer in net.layers) < MOST_VALUES:
        for suffix in (".onnx", ".c"):
            with contextlib.suppress(nn.NnError):
                nn.export(net, path.with_suffix(suffix))
    json.dumps(net.metadata(), allow_nan=False)
    if (
        net.encoding is None
        and sum(layer.outputs for layer in net.layers) + net.inputs < MOST_VALUES
    ):
        rows = np.zeros((1, *net.layers[0].in_shape), np.float32).reshape(1, -1)
        net.predict(rows)
    # where the training data of some seeds are looked for
    path.with_name("mixed.csv").write_bytes(seeds.MIXED)
    for reading in (loading.training_dataset, loading.held_out):
        with contextlib.suppress(nn.NnError):
            reading(net, path, force=True)


def signed(data: bytes, key: str) -> bytes:
    """Return the model or checkpoint of facts, entries and arrays (seeds.unsigned),
    with a SHA-256 that is right."""
    facts, _, rest = data.partition(b"\n")
    entries, _, arrays = rest.partition(b"\n")
    text = (
        '{"sha256":"'
        + 64 * "0"
        + '",'
        + facts.decode("utf-8", "replace").removeprefix("{")
    )
    metadata = json.dumps({key: text}).encode()
    header = b'{"__metadata__":' + metadata + b"," + entries.removeprefix(b"{")
    file = len(header).to_bytes(8, "little") + header + arrays
    digest = hashlib.sha256(file).hexdigest()
    return file.replace(b"0" * 64, digest.encode(), 1)


def _read_signed(read: Callable[[Path], object], key: str) -> Callable[[Path], None]:
    def read_signed(path: Path) -> None:
        path.write_bytes(signed(path.read_bytes(), key))
        read(path)

    return read_signed


def _resume(path: Path) -> None:
    """Go on from a checkpoint to the end of the training."""
    nn.train(
        nn.Network("2,3,1", "binary"), seeds.trained_rows(), epochs=2, resume=str(path)
    )


@contextlib.contextmanager
def _kept_rows(folder: Path):
    """Let all rows lie in mapped files: those of records beside the checkpoint of a
    training in this folder."""
    no = {"fits": lambda size: False, "_is_in_memory": lambda folder: False}
    with mock.patch.multiple(records, LEAST_BYTES=0, LEAST_BYTES_MAPPED=0, **no):
        yield lambda **settings: seeds.train_mixed(folder / "c.ck", **settings)


@cache
def _kept() -> tuple[Path, bytes, bytes, bytes]:
    """Return the file of records that lies beside a checkpoint, its bytes, the digest
    of its key, and the parameters that are trained on it."""
    with tempfile.TemporaryDirectory() as folder, _kept_rows(Path(folder)) as train:
        keeping = nn.Callback()
        kept = []

        def epoch(*_) -> None:
            (path,) = Path(folder).glob("c.ck.rows-*")
            kept[:] = path, path.read_bytes(), [*records._in_use.values()][-1][-1][3]

        keeping.epoch = epoch
        parameters = train(callback=keeping)
        return *kept, parameters


def _train_on_kept(path: Path) -> None:
    """Train beside a file of records. The first byte says with which mode, and as what,
    it lies there, whether its length is right, and its digest: who knows the key may
    exchange values, but for none that the network lacks."""
    as_kept, whole, digest, expected = _kept()
    how, *data = path.read_bytes() or b"0"
    kept = path.with_name(as_kept.name)
    data = bytes(data)
    if how & 16:
        data = (data + bytes(len(whole)))[: len(whole)]
    if how & 8:
        data = data[:-32] + hashlib.sha256(digest + data[:-32]).digest()
    kept.unlink(missing_ok=True)
    kept.write_bytes(data)
    kept.chmod((0o600, 0o400, 0o666, 0o200)[how % 4])
    if how & 4:
        os.replace(kept, path)
        kept.symlink_to(path)
    with _kept_rows(path.parent) as train:
        try:
            result = train()
        except NnError:
            assert how & 8, "refused"
            return
    assert result == expected or how & 8, "another model"
    assert not [*path.parent.glob("*c.ck.rows-*")], "records are left over"


def _kept_seeds() -> list[bytes]:
    data = _kept()[1]
    return [b"\x10" + data, b"\x11" + data[:100], b"\x18" + b"\xff" * len(data)]


def _guess(path: Path) -> None:
    """Tell what the lines of a text are, as fields of a column and as its name."""
    words = path.read_bytes().decode("utf-8", "backslashreplace").split("\n")
    codes = np.arange(len(words), dtype=np.int32)
    choices = (None, kinds.Kind("number"), kinds.Kind("date"))
    for choice in choices:
        with contextlib.suppress(DataError):
            kinds.column_kind(Column("text", codes, words), choice, words[0])
    assert kinds.split_names(",".join(map(kinds.in_a_list, words))) == words


def _guess_long(path: Path) -> None:
    """Tell what texts are that repeat the input, and let one of nn's patterns look for
    itself in them, which the first byte chooses: where time grows as the square of a
    length, the judge sees it."""
    data = path.read_bytes().replace(b"\n", b" ")[:100] or b"1"
    long = data * (LONG // len(data))
    pattern, is_searched = list(patterns().values())[data[0] % len(patterns())]
    for text in (long, long + b"1", long + b";"):
        if not isinstance(pattern.pattern, bytes):
            text = text.decode("latin-1")
        pattern.fullmatch(text)
        pattern.match(text)
        if is_searched:
            pattern.findall(text)
    content = b"\n".join([long, long + b"1", long + b"a", data])
    path.write_bytes(content)
    _guess(path)


def _show_names(path: Path) -> None:
    """Show on a terminal what is trained on a table whose columns, categories, classes
    and files have hostile names."""
    name = path.read_bytes().decode("utf-8", "surrogateescape")
    file = path.with_name(name.replace("/", "").replace("\0", "")[:60] + ".csv")
    with (
        contextlib.suppress(OSError),
        open(
            file, "w", newline="", encoding="utf-8", errors="surrogateescape"
        ) as table,
    ):
        rows = ([row % 7, f"{row % 3}{name}", f"{row % 2}{name}"] for row in range(30))
        csv.writer(table, quoting=csv.QUOTE_ALL).writerows(
            [["a", f"b{name}", f"c{name}"], *rows]
        )
    model = file.with_suffix(".bin")
    few = ("--networks", 1, "--epochs", 1, "--target", -1)
    commands = (
        ("--train", *few, "--dataset", file, "--verbose"),
        ("--info",),
        ("--test",),
        ("--explain",),
    )
    for command in commands:
        ended = on_terminal(*command, "--model", model)
        assert ended.code != INTERNAL, (command[0], ended)
        assert not controls(ended.out + ended.err), (command[0], ended)


@cache
def _exported() -> Path:
    """Return the program around the mixed network in C, under sanitizers."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    nn.export(seeds.mixed_network(), folder / "m.c")
    return program(folder / "m.c", *SANITIZED)


def _free_addresses() -> None:
    """Take back the judge's limit: the shadow of the address sanitizer has
    terabytes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _predict_in_c(path: Path) -> None:
    """Let an exported model predict the rows of support/c_driver.c."""
    ended = subprocess.run(
        [_exported()],
        input=path.read_bytes(),
        capture_output=True,
        preexec_fn=_free_addresses,
    )
    assert ended.returncode == 0, ended.stderr[-2000:].decode(errors="replace")


def _parse_layers(path: Path) -> None:
    layers = parse(path.read_bytes().decode("latin-1"))
    # an implied one is not written again
    if all(layer.item for layer in layers if layer.kind == "flatten"):
        assert parse(to_spec(layers)) == layers


def _apply_config(path: Path) -> None:
    """Read a configuration as `nn --train --config FILE` does."""
    given = SimpleNamespace(**parser.nothing_given())
    given.config = str(path)
    given.train = True
    config.apply_config(given)


def _read_plan(path: Path) -> None:
    for entry in sweep.read_plan(str(path))[:MOST_ENTRIES]:
        assert entry.facts()["entry"] == entry.name
        entry.describe()


def _read_results(path: Path) -> None:
    """Read results, and show them on a page and as --sweep does."""
    rows = results.collect(str(path))
    html_of(sweep_page.results_page(rows))
    with contextlib.redirect_stdout(io.StringIO()):
        sweep.report(rows)


def _read_series(path: Path) -> None:
    values, stations = _parts(path, "values.csv", "stations.csv")
    series = solar.read_series(str(values), str(stations))
    with contextlib.suppress(UsageError):
        series.station("s1")


TARGETS = {
    "csv": Target(seeds.csv, nn.load, "input.csv", CSV_WORDS),
    "csv-flags": Target(
        lambda: [b"%d" % n + seed for n, seed in enumerate(2 * seeds.csv())],
        _load_as_asked,
        "input.csv",
        CSV_WORDS,
    ),
    "csv-predict": Target(lambda: [seeds.MIXED], _predict_csv, "input.csv", CSV_WORDS),
    "csv-gzip": Target(seeds.packed_csv, nn.load, "input.csv.gz"),
    "npy": Target(seeds.npy, nn.load, "input.npy", NPY_WORDS),
    "npz": Target(seeds.npz, nn.load, "input.npz"),
    "npz-arrays": Target(seeds.npz_arrays, _read_npz_arrays, "input.npz", NPY_WORDS),
    "idx": Target(
        seeds.idx,
        lambda path: nn.load(
            _parts(path, "a-images-idx3-ubyte", "a-labels-idx1-ubyte")[0]
        ),
    ),
    "cifar": Target(seeds.cifar, nn.load),
    "images": Target(
        seeds.images,
        _read_images,
        words=(*BINARY_WORDS, b"P5", b"P6", b"# ", b"IDAT", b"\xff\xd8"),
        needs=("PIL",),
    ),
    "parquet": Target(seeds.parquet, nn.load, "input.parquet", needs=("pyarrow",)),
    "arrow": Target(seeds.arrow, nn.load, "input.arrow", needs=("pyarrow",)),
    "orc": Target(seeds.orc, nn.load, "input.orc", needs=("pyarrow",)),
    "json-lines": Target(
        seeds.json_lines, nn.load, "input.jsonl", JSON_WORDS, needs=("pyarrow",)
    ),
    "sqlite": Target(seeds.sqlite, nn.load, "input.db", (*BINARY_WORDS, *SQL_WORDS)),
    "model": Target(seeds.model, _read_model, "input.bin", JSON_WORDS),
    "model-facts": Target(
        seeds.model_facts, _read_signed(_read_model, "nn"), "input.bin", JSON_WORDS
    ),
    "m": Target(lambda: TEXTS["m"], _read_model, "input.m", CSV_WORDS),
    "checkpoint": Target(seeds.checkpoint, _resume, words=JSON_WORDS),
    "checkpoint-facts": Target(
        seeds.checkpoint_facts, _read_signed(_resume, "nn-checkpoint"), words=JSON_WORDS
    ),
    "words": Target(
        lambda: TEXTS["words"],
        _guess,
        words=(*CSV_WORDS, b"$", b"1,234.50", b" km", b"Jan", b"/", b":", b" " * 300),
    ),
    "words-long": Target(
        lambda: TEXTS["words"],
        _guess_long,
        words=(*CSV_WORDS, b"$", b"1,234", b" km", b"/", b":"),
        cost=50,
    ),
    "names": Target(
        lambda: TEXTS["names"], _show_names, words=(*CSV_WORDS, *NAME_WORDS), cost=50
    ),
    "c-rows": Target(
        lambda: TEXTS["c-rows"], _predict_in_c, words=C_WORDS, needs=("gcc",), cost=10
    ),
    "kept-records": Target(_kept_seeds, _train_on_kept, cost=10),
    "layers": Target(lambda: TEXTS["layers"], _parse_layers, words=LAYER_WORDS),
    "config": Target(
        lambda: TEXTS["config"], _apply_config, words=JSON_WORDS + TOML_WORDS
    ),
    "plan": Target(
        lambda: TEXTS["plan"],
        _read_plan,
        words=(*JSON_WORDS, *TOML_WORDS, b"gpus", b"path", b"series", b"form"),
    ),
    "results": Target(seeds.results_lines, _read_results, "input.csv", CSV_WORDS),
    "series": Target(
        lambda: TEXTS["series"],
        _read_series,
        words=(*CSV_WORDS, SPLIT, b"0001-01-01", b"+23:59"),
    ),
}


@contextlib.contextmanager
def folder_of_inputs():
    """Yield a folder for inputs, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
