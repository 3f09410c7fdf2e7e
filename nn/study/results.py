"""CSV files of figures to which several processes may add lines: the results of
--sweep."""

from __future__ import annotations

import csv
import glob
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path

from ..backends import TRAITS
from ..utils import DataError, InputNotFound, os_reason, wait_for_lock, writing

MOST_RESULT_BYTES = 256 << 20  # of a file of lines, each some hundred bytes
INFERENCE_ROWS = (1, 2, 64, 512, 1024)
ERRORS = (  # what a test tells, by task
    "rmse",
    "mae",
    "r2",
    "skill",
    "accuracy",
    "precision",
    "recall",
    "f1",
)
OK = "ok"

TEXT_COLUMNS = (
    "entry",
    "plan",
    "status",
    "data",
    "layers",
    "kind",
    "backend",
    "engine",
    "device",
    "distribute",
    "dtype",
    "forward_ms",
    "backward_ms",
    "nn",
    "numpy",
    "python",
    "when",
)
RESULT_COLUMNS = (
    "entry",
    "plan",
    "index",
    "status",
    "data",
    "layers",
    "kind",
    "depth",
    "width",
    "parameters",
    "rows",
    "inputs",
    "batch_number",
    "epochs",
    "backend",
    "engine",
    "device",
    "cores",
    "threads",
    "threads_used",
    "gpus",
    "distribute",
    "dtype",
    "train_s",
    "setup_s",
    "epoch_s",
    "batch_ms",
    "batch_p95_ms",
    *(f"infer_{n}_ms" for n in INFERENCE_ROWS),
    "network_bytes",
    "peak_bytes",
    "loss",
    "test_rows",
    "test_s",
    *ERRORS,
    "forward_ms",
    "backward_ms",
    "nn",
    "numpy",
    "python",
    "when",
)
NEEDED = ("entry", "plan", "layers", "status")  # of every line
MEASURED = (  # of the line of a network that was trained
    "data",
    "kind",
    "engine",
    "device",
    "dtype",
    "nn",
    "python",
    "depth",
    "parameters",
    "batch_number",
    "batch_ms",
    "cores",
    "network_bytes",
)


def read_results(path: str) -> list[dict]:
    """Return the lines of a file of results, numbers as floats, empty fields as None;
    an unfinished line is none.

    Raises InputNotFound, and DataError for what --sweep never writes.
    """
    rows = []
    for number, line in enumerate(_lines_of(path), 1):
        row = dict(zip(RESULT_COLUMNS, map(_value, RESULT_COLUMNS, line), strict=True))
        wrong = _wrong_columns(row)
        if wrong:
            raise DataError(
                f"{path}: line {number} of the results: {wrong[0]} is missing or wrong, expected what --sweep "
                f"writes; remove the line, and the plan's entry runs again"
            )
        rows.append(row)
    return rows


def _wrong_columns(row: dict) -> list[str]:
    """Return the columns of a line that have not what --sweep writes there."""
    if row["status"] != OK:
        return [name for name in NEEDED if row[name] is None]
    wrong = [name for name in NEEDED + MEASURED if row[name] is None]
    if row["backend"] not in TRAITS:
        wrong.append("backend")
    return wrong


def _lines_of(path: str) -> list[list[str]]:
    """Return the fields of each whole line below the header."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputNotFound(f"{path}: not a regular file; name a file")
    try:
        if os.path.getsize(path) > MOST_RESULT_BYTES:
            raise DataError(
                f"{path}: more than {MOST_RESULT_BYTES >> 20} MiB, expected lines of results; name another file"
            )
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not text, expected the CSV that --sweep writes"
        ) from error
    if not text:
        return []
    header, *lines = csv_lines(path, text[: text.rfind("\n") + 1]) or [[]]
    if tuple(header) != RESULT_COLUMNS:
        if len({*header} & {*RESULT_COLUMNS}) > len(RESULT_COLUMNS) // 2:
            unlike = sorted({*header} ^ {*RESULT_COLUMNS}) or ["in another order"]
            raise DataError(
                f"{path}: written by another version of nn, with other columns ({', '.join(unlike)}); name a new file to run "
                f"the plan again"
            )
        raise DataError(
            f"{path}: its columns are not those that --sweep writes; name another file"
        )
    return [line for line in lines if len(line) == len(header)]


def csv_lines(path: str, text: str) -> list[list[str]]:
    """Return the fields of each line of CSV. Raises DataError where a line is none."""
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise DataError(
            f"{path}: not CSV ({error}); copy it again or write it anew"
        ) from error


def _value(name: str, text: str) -> str | float | None:
    """Return a field, None where it is empty or no finite number."""
    if name in TEXT_COLUMNS:
        return text or None
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isfinite(number):
        return number
    return None


def append_result(path: str, row: dict) -> None:
    """Add a line, after a header if the file is new. Raises OutputError, and DataError
    for a file of other columns."""
    header = _line(RESULT_COLUMNS)
    line = _line([_text(row.get(column)) for column in RESULT_COLUMNS])
    with writing(path), open(path, "a+b") as file:
        wait_for_lock(file.fileno())  # until it is closed
        file.seek(0)
        text = file.read()
        whole_bytes = text.rfind(b"\n") + 1
        if whole_bytes and text[: text.index(b"\n") + 1] != header:
            raise DataError(
                f"{path}: its columns are others than those to add; name another file"
            )
        file.truncate(whole_bytes)  # a line that was cut when a run was ended
        file.write(line if whole_bytes else header + line)
        file.flush()
        os.fsync(file.fileno())


def _line(fields: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    # a file's name may hold what is no character
    return text.getvalue().encode(errors="backslashreplace")


def figure_texts(row: dict, formats: dict[str, str]) -> list[str]:
    """Return some columns of a row as texts; empty for None. formats: by column."""
    return [
        "" if row[name] is None else format(row[name], digits)
        for name, digits in formats.items()
    ]


def _text(value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(value).split())


def collect(path: str) -> list[dict]:
    """Return the results in a file, in all CSV files of a folder, or in all that match
    a pattern such as `r-*.csv`.

    Of several lines of one entry, backend and device the last one counts.
    """
    if os.path.isdir(path):
        files = sorted(map(str, Path(path).glob("*.csv")))
    elif os.path.exists(path):
        files = [path]
    else:
        files = sorted(glob.glob(path))
    if not files:
        raise InputNotFound(
            f"{path}: no such file, and no CSV file matches it; create one with nn --sweep"
        )
    rows = {}
    for file in files:
        for row in read_results(file):
            rows[row["entry"], row["device"], row["cores"]] = row
    return list(rows.values())
