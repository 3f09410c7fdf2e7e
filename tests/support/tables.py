"""What the tests of tables share: a table in files and frames, one field in C, a CSV
file read into columns."""

import csv
import io
import math
import subprocess
import sys
import time

import numpy as np
import pytest
from nn.core._seq import ffi, lib

from nn.data.column import Column, Selection
from nn.data.csv_head import read_head
from nn.data.csv_table import CsvSource
from nn.data.schema import Choices, Schema
from nn.ds import load
from nn.nn import Network
from nn.train import train
from nn.utils import DataError, NnError
from support.command_line import environment

PEAK = """
import resource, sys
import nn
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
nn.load(sys.argv[1])
before, message = peak(), ""
try:
    nn.load(sys.argv[2])
except nn.DataError as error:
    message = error
print(peak() - before, message)
"""
ANY = "n,word,day,id,y\n"  # the header of a table with a column of each kind


def csv_of(names, columns) -> str:
    """The text of a CSV file; names may come twice. None: no header."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        [*([] if names is None else [names]), *zip(*columns, strict=True)]
    )
    return file.getvalue()


def saved(columns: dict[str, list], path: str) -> str:
    """Write a table in the format of the suffix: csv, db or one that pandas writes;
    return the path."""
    suffix = path.rpartition(".")[2]
    if suffix == "csv":
        with open(path, "w") as file:
            file.write(csv_of(columns, columns.values()))
        return path
    from support.table_formats import pd, write_database

    frame = pd.DataFrame(columns)
    write_database(frame, path) if suffix == "db" else getattr(frame, f"to_{suffix}")(
        path
    )
    return path


def as_frame(columns: dict[str, list], form: str):
    """A table as Python has it: pandas, arrow, columns or rows."""
    if form == "arrow":
        return pytest.importorskip("pyarrow").table(columns)
    if form == "rows":
        return [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    if form == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns)
    return columns


def failure(path, error=DataError, names=None, **flags):
    """The message of the error that loading must end in: one line that names the file,
    or `names`."""
    message = refusal(lambda: load(path, **flags), error)
    assert message.startswith(str(names or path))
    return message


def refusal(action, error=NnError) -> str:
    """The message of the error that an action must end in, which is one line."""
    with pytest.raises(error) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def c_number(text):
    """The number that C reads from a field, None if it is none."""
    value = ffi.new("double *")
    data = text.encode()
    if lib.csv_number(value, data, len(data)):
        return value[0]
    return None


def c_date(text):
    """The seconds since 1970 that C reads from a field, None if it is no date."""
    seconds = ffi.new("double *")
    data = text.encode()
    if lib.csv_date(seconds, data, len(data)):
        return seconds[0]
    return None


def head_of(path, **options):
    return read_head(str(path), Schema(choices=Choices(**options)))


def read_csv(*paths, reads=None, options=None, **selected):
    """The table of CSV files; reads: of each column, None: as its fields are."""
    schema = Schema(choices=Choices(**(options or {})))
    text = ",".join(map(str, paths))
    source = CsvSource([str(path) for path in paths], text, schema)
    if reads is None:
        reads = dict.fromkeys(range(source.width))
    return source.read(
        Selection(
            reads if isinstance(reads, dict) else dict(enumerate(reads)), **selected
        )
    )


def texts(*words: str | None) -> Column:
    """A column of texts; None: a gap."""
    known = list(dict.fromkeys(word for word in words if word is not None))
    return Column(
        "text",
        np.array(
            [-1 if word is None else known.index(word) for word in words], np.int32
        ),
        known,
    )


def fields(column) -> list:
    """The fields of a column: numbers, seconds or words, None for a gap."""
    if column.reads == "text":
        return [None if code < 0 else column.words[code] for code in column.values]
    return [None if np.isnan(value) else value for value in column.values.tolist()]


def odd_of(table, place):
    """The odd words of a column: how many rows have each, and the first of them."""
    return {
        word: (odd.rows, table.row(odd.first_row))
        for word, odd in table.columns[place].odd.items()
    }


def peak_of_loading(path, small) -> tuple[int, str]:
    """(bytes of memory that nn.load of a file takes in a process of its own, the error
    that it ends in, if any).

    small: a file of its kind that is read before, with which all modules are loaded.
    """
    command = [sys.executable, "-c", PEAK, small, path]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment(),
    )
    peak, _, message = done.stdout.partition(" ")
    return int(peak), message


def trained_on(ds, layers=None, **flags):
    """A network that is trained on a data set for an epoch."""
    net = Network.for_data(ds, layers, seed=0)
    train(net, ds, **{"epochs": 1} | flags)
    return net


def seconds_of(*calls):
    """The best time of each of several calls, in turns: other programs may take a core
    away now and then."""
    best = [math.inf] * len(calls)
    for _ in range(5):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def is_mapped(array) -> bool:
    """Whether an array lies in a file, as the system's list of this process's memory
    has it."""
    at = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as file:
        for line in file:
            first, last = line.split()[0].split("-")
            if int(first, 16) <= at < int(last, 16):
                return line.split()[4] != "0"  # the number of the file
    return False
