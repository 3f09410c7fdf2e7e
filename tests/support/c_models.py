"""Models exported to C: compiled, called through ctypes, and run as programs, by qemu-user too; beside --predict."""

from __future__ import annotations

import csv
import ctypes
import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.command_line import ONE, succeed
from support.distances import relative_distance
from support.mixed_table import read_raw

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
C99 = ["-std=c99", "-ffp-contract=off"]
SINGLE = 1e-6  # float32: sums are doubles in both, in another order in backend omp; of the whole vector
COMPILERS = {  # name -> how it compiles a file as the C that it may be
    "gcc": ["gcc", "-std=c99"],
    "clang": ["clang", "-std=c99"],
    "g++": ["g++", "-x", "c++", "-std=c++11"],
    "clang++": ["clang++", "-x", "c++", "-std=c++17"],
}
PROCESSORS = {  # name -> (compiler, what runs its programs)
    "arm64": ("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "arm": ("arm-linux-gnueabihf-gcc", "qemu-arm"),
}


def require(*programs: str) -> None:
    """Skip the test where a program is absent."""
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def require_library_of(compiler: str) -> None:
    """Skip the test where a compiler for another processor has no C library: Debian's comes as a package of its own."""
    require(compiler)
    done = subprocess.run([compiler, "-E", "-"], input="#include <math.h>", capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{compiler} finds no C library")


def compiled(source, *flags: str, compiler=("gcc", *C99), output: str = "") -> Path:
    """Compile a C file at -O1 with every warning an error; return the library, or what `output` names.

    The warnings of the compiler are the message of a failure.
    """
    require(compiler[0])
    target = Path(source).with_suffix(".so") if not output else Path(source).with_name(output)
    kind = ["-shared", "-fPIC"] if not output else []
    libraries = [] if "-c" in flags else ["-lm"]
    command = [*compiler, "-O1", *STRICT, *kind, *flags, str(source), "-o", str(target), *libraries]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def program(source, *flags: str, **options) -> Path:
    """Compile a C file as the program that reads CSV."""
    return compiled(source, "-DNN_MAIN", *flags, **{"output": "predict", **options})


def run(command, text: str | bytes) -> subprocess.CompletedProcess:
    """Run a program on this standard input."""
    command = [str(part) for part in (command if isinstance(command, (list, tuple)) else [command])]
    text = text.encode() if isinstance(text, str) else text
    return subprocess.run(command, input=text, capture_output=True)


class Library:
    """A model in a library. dtype: of its nn_real; inputs, outputs: of a row and of its prediction."""

    def __init__(self, path, dtype: str, inputs: int, outputs: int):
        self._library, self._dtype, self._outputs = ctypes.CDLL(str(path)), dtype, outputs
        self.inputs = inputs
        self._library.nn_predict.argtypes = [ctypes.c_void_p] * 2

    @classmethod
    def of(cls, net, source, **options) -> Library:
        """Return the compiled C file of a network."""
        return cls(compiled(source, **options), net.dtype, net.inputs, net.outputs)

    def answer(self, row, double: bool = False) -> tuple[int, np.ndarray]:
        """Return (what nn_predict returns, the prediction) for one row. double: by nn_predict_double."""
        row = np.ascontiguousarray(np.ravel(row), np.float64 if double else self._dtype)
        out = np.full(self._outputs, np.nan, self._dtype)
        function = self._library.nn_predict_double if double else self._library.nn_predict
        return function(ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(out.ctypes.data)), out

    def predict(self, rows, double: bool = False) -> np.ndarray:
        """Return predictions (rows, outputs), all of which must come."""
        answers = [self.answer(row, double) for row in rows]
        assert not any(code for code, _ in answers)
        return np.array([out for _, out in answers])

    def code(self, column: int, word: str) -> int:
        """Return nn_code."""
        return self._library.nn_code(column, word.encode())

    def label(self, out: np.ndarray) -> str:
        """Return the name of the class that a prediction stands for."""
        name = self._library.nn_class_name
        name.restype = ctypes.c_char_p
        return name(self._library.nn_class(ctypes.c_void_p(out.ctypes.data))).decode()


# ---------------------------------------------------------------- beside --predict


def trained(folder, data, *flags) -> Path:
    """The C file of a network that was trained on a table, beside m.bin."""
    succeed(*ONE, "--dataset", data, "--model", folder / "m.bin", "--epochs", 3, "-q", *flags)
    succeed("--export", "--model", folder / "m.bin", "-o", folder / "m.c", "-q")
    return folder / "m.c"


def predicted(folder, new, *flags) -> dict:
    """What --predict says, by column."""
    succeed("--predict", "--model", folder / "m.bin", "--dataset", new, "-o", folder / "p.csv", "-q", *flags)
    return read_raw(folder / "p.csv")


def columns_of(output: bytes) -> dict:
    """What the program says, by column."""
    head, *rows = csv.reader(io.StringIO(output.decode(), newline=""))
    return dict(zip(head, zip(*rows)))


def check_agreement(found: dict, wanted: dict, tolerance: float) -> None:
    """All columns of the program are those of --predict."""
    assert list(found) == [name for name in wanted if name in found]
    for name, values in found.items():
        if name == "row" or (name == "predicted" and len(found) > 2):
            assert values == wanted[name]
        else:
            assert relative_distance(np.array(values, float), np.array(wanted[name], float)) <= tolerance, name


def check_program(folder, new, tolerance: float = SINGLE, backend: str = "auto", **options) -> None:
    """The program gives for the file `new` what --predict gives."""
    done = run(program(folder / "m.c", **options), Path(new).read_bytes())
    assert done.returncode == 0, done.stderr
    check_agreement(columns_of(done.stdout), predicted(folder, new, "--backend", backend), tolerance)
