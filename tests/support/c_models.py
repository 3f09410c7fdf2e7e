"""Models exported to C: compiled, called through ctypes and by a program (by qemu-user,
too); beside --predict."""

from __future__ import annotations

import csv
import ctypes
import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nn
from nn.files.export.columns import prediction_names
from support.command_line import ONE, argv, succeed
from support.distances import relative_distance
from support.mixed_table import read_raw

STRICT = argv("-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror")
C99 = ["-std=c99", "-ffp-contract=off"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
DRIVER = Path(__file__).with_name("c_driver.c")
# float32: sums are doubles in both, in another order in backend omp; of the whole
# vector
SINGLE = 1e-6
# name -> (what runs its programs, how it compiles a file as the C that it may be)
COMPILERS = {
    "gcc": ([], "gcc -std=c99"),
    "clang": ([], "clang -std=c99"),
    "g++": ([], "g++ -x c++ -std=c++11"),
    "clang++": ([], "clang++ -x c++ -std=c++17"),
    "arm64": (["qemu-aarch64"], "aarch64-linux-gnu-gcc -std=c99 -static"),
    "arm": (["qemu-arm"], "arm-linux-gnueabihf-gcc -std=c99 -static"),
}


def require(*programs: str) -> None:
    """Skip the test where a program is absent."""
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def toolchain(name: str) -> dict:
    """Return what runs the programs of one of COMPILERS, and how it compiles; skip the
    test where something is absent.

    A compiler for another processor may have no C library: Debian's comes as a package
    of its own.
    """
    runner = COMPILERS[name][0]
    compiler = [*COMPILERS[name][1].split(), "-ffp-contract=off"]
    require(*runner, compiler[0])
    if subprocess.run(
        [compiler[0], "-E", "-"], input=b"#include <math.h>", capture_output=True
    ).returncode:
        pytest.skip(f"{compiler[0]} finds no C library")
    return {"runner": runner, "compiler": compiler}


def compiled(source, *flags: str, compiler=("gcc", *C99), output: str = "") -> Path:
    """Compile a C file at -O1 with every warning an error; return the library, or what
    `output` names.

    The warnings of the compiler are the message of a failure.
    """
    require(compiler[0])
    if not output:
        target = Path(source).with_suffix(".so")
    else:
        target = Path(source).with_name(output)
    if not output:
        kind = ["-shared", "-fPIC"]
    else:
        kind = []
    if "-c" in flags:
        libraries = []
    else:
        libraries = ["-lm"]
    command = [
        *compiler,
        "-O1",
        *STRICT,
        *kind,
        *flags,
        str(source),
        "-o",
        str(target),
        *libraries,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def program(source, *flags: str, **options) -> Path:
    """Compile a C file with c_driver.c, which predicts the rows of `fields`."""
    copy = Path(source).with_name("driver.c")
    copy.write_text(DRIVER.read_text().replace('"m.c"', f'"{Path(source).name}"'))
    return compiled(copy, *flags, **{"output": "predict", **options})


def run(command, text: str | bytes) -> subprocess.CompletedProcess:
    """Run a program on this standard input."""
    if not isinstance(command, list | tuple):
        command = [command]
    command = [str(part) for part in command]
    if isinstance(text, str):
        text = text.encode()
    return subprocess.run(command, input=text, capture_output=True)


class Library:
    """A model in a library. dtype: of its nn_real; outputs: of a prediction;
    value_dtype: of its nn_output."""

    def __init__(self, path, dtype: str, outputs: int, value_dtype: str = ""):
        self._library = ctypes.CDLL(str(path))
        self._dtype = dtype
        self._outputs = outputs
        self._value_dtype = value_dtype or dtype

    @classmethod
    def of(cls, net, folder, *flags: str, name: str = "m") -> Library:
        """Return the compiled C file of a network, which is exported into the folder;
        each name is loaded once."""
        nn.export(net, folder / f"{name}.c")
        source = folder / f"{name}.c"
        return cls(compiled(source, *flags), net.dtype, net.outputs, net.value_dtype)

    def answer(self, row, double: bool = False) -> tuple[int, np.ndarray]:
        """Return (what nn_predict returns, the prediction) for one row. double: by
        nn_predict_double."""
        row = np.ascontiguousarray(np.ravel(row), np.float64 if double else self._dtype)
        out = np.full(self._outputs, np.nan, self._value_dtype)
        if double:
            function = self._library.nn_predict_double
        else:
            function = self._library.nn_predict
        return function(
            ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        ), out

    def predict(self, rows, double: bool = False) -> np.ndarray:
        """Return predictions (rows, outputs), all of which must come."""
        answers = [self.answer(row, double) for row in rows]
        for code, _ in answers:
            assert not code
        return np.array([out for _, out in answers])

    def call(self, name: str, *arguments) -> int:
        """Return what a function returns; arrays are given as pointers."""
        pointers = [
            ctypes.c_void_p(one.ctypes.data) if isinstance(one, np.ndarray) else one
            for one in arguments
        ]
        return getattr(self._library, name)(*pointers)

    def code(self, column: int, word: str) -> int:
        """Return nn_code."""
        return self._library.nn_code(column, word.encode())

    def label(self, out: np.ndarray) -> str | None:
        """Return the name of the class that a prediction stands for, if it does."""
        name = self._library.nn_class_name
        name.restype = ctypes.c_char_p
        found = name(self._library.nn_class(ctypes.c_void_p(out.ctypes.data)))
        return found and found.decode()


# ---------------------------------------------------------------- beside --predict


def trained(folder, data, *flags) -> None:
    """Write m.c, the C file of a network that is trained on a table, beside m.bin."""
    succeed(
        *ONE,
        "--dataset",
        data,
        "--model",
        folder / "m.bin",
        *argv("--epochs 3 -q"),
        *flags,
    )
    succeed("--export", "--model", folder / "m.bin", "-o", folder / "m.c", "-q")


def predicted(folder, new, *flags) -> dict:
    """What --predict says, by column."""
    succeed(
        "--predict",
        "--model",
        folder / "m.bin",
        "--dataset",
        new,
        "-o",
        folder / "p.csv",
        "-q",
        *flags,
    )
    return read_raw(folder / "p.csv")


def _value(text: str, reads: str) -> bytes | float:
    """A field as a column reads it: a number, or the seconds since 1970, nan of what is
    none; others: a word."""
    try:
        if reads == "date":
            return (np.datetime64(text) - np.datetime64(0, "s")) / np.timedelta64(
                1, "s"
            )
        if reads == "number":
            return float(text)
        return text.encode("latin-1")
    except ValueError:
        return np.nan


def fields(rows: list) -> bytes:
    """Rows as c_driver.c takes them: words are bytes, the others numbers."""
    return b"".join(
        (b"w" + cell if isinstance(cell, bytes) else b"d%r" % float(cell)) + b"\0"
        for row in rows
        for cell in row
    )


def rows_of(net, path) -> list[list]:
    """The rows of a CSV file in the order of a network's inputs, as bytes, whatever
    their encoding, and numbers."""
    content = Path(path).read_bytes()
    rows = list(
        filter(None, csv.reader(io.StringIO(content.decode("latin-1"), newline="")))
    )
    places = net.encoding.places
    if net.encoding.names:
        head = rows.pop(0)
        places = [
            head.index(name.encode().decode("latin-1")) for name in net.encoding.names
        ]
    reads = [encoder.reads for encoder in net.encoding.encoders]
    return [
        [_value(row[place].strip(), kind) for kind, place in zip(reads, places)]
        for row in rows
    ]


def answers(command, net, rows: list) -> tuple[list[int], dict]:
    """What the program says of rows: what nn_predict_double returns, and the columns of
    --predict."""
    done = run(command, fields(rows))
    assert done.stderr == b""
    assert done.returncode == 0
    codes, classes, *outputs = (
        np.array(done.stdout.split(b"\0")[:-1]).reshape(len(rows), -1).T.tolist()
    )
    names = prediction_names(net)
    columns = [np.array(column, float).tolist() for column in outputs]
    if names[0] == "predicted" and net.task != "regression":
        columns = [[name.decode() for name in classes], *columns]
    return list(map(int, codes)), dict(zip(names, columns, strict=True))


def check_agreement(found: dict, wanted: dict, tolerance: float) -> None:
    """All columns of the program are those of --predict; tolerance 0: bit by bit."""
    expected = [name for name in wanted if name in found]
    assert list(found) == expected
    for name, values in found.items():
        if isinstance(values[0], str):
            assert values == list(wanted[name])
        else:
            expected = np.array(wanted[name], float)
            assert relative_distance(np.array(values), expected) <= tolerance, name


def check_program(
    folder, new, tolerance: float = SINGLE, backend: str = "auto", runner=(), **options
) -> None:
    """The C file gives for the rows of the file `new` what --predict gives."""
    net = nn.Model.load(folder / "m.bin").network
    command = [*runner, program(folder / "m.c", **options)]
    codes, found = answers(command, net, rows_of(net, new))
    assert not any(codes)
    check_agreement(found, predicted(folder, new, "--backend", backend), tolerance)
