"""CSV files of figures to which several processes may add lines: the results of --sweep."""

from __future__ import annotations

import csv
import glob
import io
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..backends import TRAITS
from ..utils import DataError, InputNotFound, OutputError, os_reason

MOST_BYTES = 256 << 20  # of a file of lines, each some hundred bytes
INFERENCE_ROWS = (1, 2, 64, 512, 1024)
OK = "ok"

TEXTS = ("entry", "plan", "status", "data", "layers", "kind", "backend", "engine", "device", "gpus", "distribute")
TEXTS += ("dtype", "nn", "numpy", "python", "when")
COLUMNS = (
    "entry", "plan", "index", "status", "data", "layers", "kind", "depth", "width", "parameters", "rows",
    "inputs", "batch_number", "epochs", "backend", "engine", "device", "cores", "threads", "threads_used", "gpus",
    "distribute", "dtype", "train_s", "epoch_s", "batch_ms", "batch_p95_ms", *(f"infer_{n}_ms" for n in
    INFERENCE_ROWS), "network_bytes", "peak_bytes", "loss", "rmse", "mae", "r2", "skill", "accuracy", "nn",
    "numpy", "python", "when",
)  # fmt: skip
NEEDED = ("entry", "plan", "layers", "status")  # of every line
MEASURED = ("data", "kind", "engine", "device", "dtype", "nn", "python", "depth", "parameters", "batch_number")
MEASURED += ("batch_ms", "cores", "network_bytes")  # of a network that was trained
GPUS = re.compile(r"([0-9]{1,9}(\.0+)?)?|[0-9]*(,[0-9]*)+")  # a number of them, or a list


@dataclass(frozen=True)
class LineFile:
    """A kind of file: its columns, those of them that are texts, and the flag that writes it."""

    columns: Sequence[str]
    texts: Sequence[str]
    flag: str

    def read(self, path: str) -> list[dict]:
        """Return the lines, numbers as floats, empty fields as None; an unfinished line is none.

        Raises InputNotFound, and DataError for another file.
        """
        try:
            text = small_file(path).decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not text, expected the CSV that {self.flag} writes") from error
        if not text:
            return []
        header, *lines = csv_lines(path, text[: text.rfind("\n") + 1]) or [[]]
        if tuple(header) != self.columns:
            if len({*header} & {*self.columns}) > len(self.columns) // 2:
                others = ", ".join(sorted({*header} ^ {*self.columns})) or "in another order"
                raise DataError(
                    f"{path}: written by another version of nn, with other columns ({others}); name a new file to run "
                    f"the plan again"
                )
            raise DataError(f"{path}: its columns are not those that {self.flag} writes; name another file")
        return [
            {name: self._value(name, text) for name, text in zip(header, line, strict=True)}
            for line in lines
            if len(line) == len(header)
        ]

    def _value(self, name: str, text: str) -> str | float | None:
        """Return a field, None where it is empty or no finite number."""
        if name in self.texts:
            return text or None
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def append(self, path: str, rows: Sequence[dict]) -> None:
        """Add lines after a header if the file is new.

        Raises OutputError, and DataError for a file of other columns.
        """
        header = _line(self.columns)
        lines = [_line([_text(row.get(column)) for column in self.columns]) for row in rows]
        try:
            with open(path, "a+b") as file:
                _lock(file)
                file.seek(0)
                text = file.read()
                whole = text.rfind(b"\n") + 1
                there = text[:whole].splitlines(keepends=True)
                if there and there[0] != header:
                    raise DataError(f"{path}: its columns are others than those to add; name another file")
                file.truncate(whole)  # a line that was cut when a run was ended
                file.write(b"".join([*([] if there else [header]), *lines]))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error


def small_file(path: str) -> bytes:
    """Return the bytes of a file of lines that nn has written. Raises InputNotFound, and DataError for a large one."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputNotFound(f"{path}: not a regular file; name a file")
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise DataError(f"{path}: more than {MOST_BYTES >> 20} MiB, expected lines of results; name another file")
        return Path(path).read_bytes()
    except OSError as error:
        raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error


def csv_lines(path: str, text: str) -> list[list[str]]:
    """Return the fields of each line of CSV. Raises DataError where a line is none."""
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise DataError(f"{path}: not CSV ({error}); copy it again or write it anew") from error


def _line(fields: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode(errors="backslashreplace")  # a file's name may hold what is no character


def _text(value) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())


def _lock(file) -> None:
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed


# ---------------------------------------------------------------- results

RESULTS = LineFile(COLUMNS, TEXTS, "--sweep")


def read_results(path: str) -> list[dict]:
    """Return the lines of a file of results. Raises InputNotFound, and DataError for what --sweep never writes."""
    rows = RESULTS.read(path)
    for number, row in enumerate(rows, 1):
        trained = row["status"] == OK
        wrong = [name for name in NEEDED + MEASURED * trained if row[name] is None]
        if trained:
            wrong += ["backend"] * (row["backend"] not in TRAITS) + ["gpus"] * (not GPUS.fullmatch(row["gpus"] or ""))
        if wrong:
            raise DataError(
                f"{path}: line {number} of the results: {wrong[0]} is missing or wrong, expected what --sweep writes; "
                f"remove the line, and the plan's entry runs again"
            )
    return rows


def collect(path: str) -> list[dict]:
    """Return the results in a file, in all CSV files of a folder, or in all that match a pattern such as `r-*.csv`.

    Of several lines of one entry, backend and device the last one counts.
    """
    if os.path.isdir(path):
        files = sorted(map(str, Path(path).glob("*.csv")))
    else:
        files = [path] if os.path.exists(path) else sorted(glob.glob(path))
    if not files:
        raise InputNotFound(f"{path}: no such file, and no CSV file matches it; create one with nn --sweep")
    rows = {}
    for file in files:
        for row in read_results(file):
            rows[row["entry"], row["device"], row["cores"]] = row
    return list(rows.values())
