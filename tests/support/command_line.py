"""What the tests of the command line share: running it as a user does, and small data
sets."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nn.cli

REPOSITORY = Path(__file__).resolve().parents[2]
# of the package under test, be it installed or built in the checkout
ROOT = Path(nn.cli.__file__).parents[1]

# what moves the cursor for tables and bars
RICH = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r(?=\x1b)")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")

# trains one network of the usual layers: nothing is chosen for the table
ONE = ("--train", "--networks", 1)


def argv(command: str) -> list[str]:
    """Return the words of a command that has no quotes."""
    return command.split()


class Result(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        """The one JSON object on stdout."""
        return json.loads(self.out, parse_constant=lambda name: math.nan / 0)


def run(*arguments) -> Result:
    """`nn ARGUMENTS` inside this process."""
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = nn.cli.main([str(argument) for argument in arguments])
    return Result(code, out.getvalue(), err.getvalue())


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(*arguments) -> Result:
    """`nn ARGUMENTS` inside this process, which writes to terminals."""
    out = Terminal()
    err = Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = nn.cli.main([str(argument) for argument in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def controls(text: str) -> re.Match | None:
    """The first control character on a terminal that is not of a table's or bar's
    colours and lines."""
    return CONTROL.search(RICH.sub("", text))


def succeed(*arguments) -> Result:
    """`nn ARGUMENTS`, which must end well."""
    result = run(*arguments)
    assert result.code == 0, result.err
    return result


def predictions(model, data, *flags) -> list[dict[str, str]]:
    """The rows that `nn --predict` writes."""
    out = succeed("--predict", "--model", model, "--dataset", data, "-q", *flags).out
    return list(csv.DictReader(io.StringIO(out, newline="")))


def environment(**variables) -> dict[str, str]:
    """This process's environment with the package under test in front of the path.
    Streams have their buffers, as for users: what is left in them is written, or not,
    after the command has ended."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    usual = {**os.environ, "PYTHONPATH": path}
    usual.pop("PYTHONUNBUFFERED", None)
    return {**usual, **variables}


def start(*arguments, program=("-m", "nn"), **options) -> subprocess.Popen:
    """`nn ARGUMENTS` as a process of its own, its output in pipes unless told
    otherwise.

    program: what Python runs in the place of nn.
    """
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": environment(),
        **options,
    }
    return subprocess.Popen([sys.executable, *program, *map(str, arguments)], **options)


def position(checkpoint) -> dict:
    """The facts in a checkpoint, and of its first network epoch, row and step."""
    with open(checkpoint, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    facts = json.loads(header["__metadata__"]["nn-checkpoint"])
    return {**facts, **facts["members"][0]}


def write_two_classes(path: Path, rows: int = 60, header: bool = True) -> Path:
    """Two features, two classes that a small network can tell apart; every third row is
    of class 1."""
    if header:
        lines = ['"a","b","Class"']
    else:
        lines = []
    for i in range(rows):
        label = int(i % 3 == 0)
        lines.append(
            f"{math.sin(i) + 3 * label:.6f},{math.cos(7 * i) - 2 * label:.6f},{label}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def write_three_classes(path: Path, rows: int = 60) -> Path:
    """Two features and the class names red, green and blue."""
    lines = ["x,y,colour"]
    for i in range(rows):
        label = i % 3
        colour = ("red", "green", "blue")[label]
        lines.append(
            f"{math.sin(i) + 3 * label:.6f},{math.cos(7 * i) - 4 * label:.6f},{colour}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def write_numbers(path: Path, rows: int = 60) -> Path:
    """Two features and a number that is their weighted sum."""
    lines = ["x,y,power"]
    for i in range(rows):
        x = math.sin(i)
        y = math.cos(7 * i)
        lines.append(f"{x:.6f},{y:.6f},{100 + 30 * x - 20 * y:.6f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def read_until(process, word):
    """Read the process's stderr to the line with the word; all of it up to there, or to
    its end."""
    heard = ""
    while word not in heard:
        line = process.stderr.readline()
        heard += line
        if not line:
            break
    return heard
