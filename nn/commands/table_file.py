"""Tables that commands write, a block of rows at a time: CSV, Parquet and JSON lines,
files replaced whole; JSON.

A table is the names of its columns and blocks of rows. A block is a list of columns: of
each an array of numbers, or a list of texts. An empty text is a missing value.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import BinaryIO, TextIO

import numpy as np

from ..data.source import pyarrow
from ..files.suffixes import CSV, JSON_LINES, PARQUET, table_format
from ..utils import check_writable, cut_line, stream_or_file

Block = list[np.ndarray | list[str]]
GROUP_ROWS = 1 << 17  # of a group of Parquet's rows
GZIP_LEVEL = 6
_NUMBER_FORMATS = {
    "float32": "%.9g".__mod__,
    "float64": repr,
}  # enough to give the number back
_QUOTED = re.compile('[",\r\n]')


@dataclass
class Table:
    """The names of a table's columns, each another, and its blocks of rows."""

    names: list[str]
    blocks: Iterable[Block]


def check_table(output: str | None) -> None:
    """Raise before any work where no table can be written to this file: OutputError,
    and UsageError for a suffix of another format or a missing package."""
    if output in (None, "-"):
        return
    kind, _ = table_format(output)
    if kind == PARQUET:
        pyarrow("Parquet files")
    check_writable(output, stream=True)


def write_table(output: str | None, table: Table) -> None:
    """Write a table in the format of its file's suffix to a file, which is replaced
    whole, or to a device or pipe; as CSV to stdout for - or None."""
    if output in (None, "-"):
        # a file of predictions is the same wherever it is written
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        _write_lines(sys.stdout, csv_lines(table, sys.stdout.isatty()))
        return
    kind, is_packed = table_format(output)
    with stream_or_file(output) as file:
        if is_packed:
            # the same bytes whenever it is written
            with gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed:
                _TABLE_WRITERS[kind](packed, table)
        else:
            _TABLE_WRITERS[kind](file, table)


def print_rows(facts: dict, table: Table, finish: Callable[[], dict]) -> None:
    """Print the one object of --json with some facts, a table's rows, an object each,
    as they are computed, and what `finish` knows then."""
    start = [json.dumps(facts)[:-1] + ', "rows": [']
    sys.stdout.writelines(
        chain(start, _with_commas(json_lines(table, is_ascii=True)), ["]"])
    )
    texts = [
        f", {json.dumps(name)}: {json.dumps(value)}" for name, value in finish().items()
    ]
    sys.stdout.writelines([*texts, "}\n"])


def _with_commas(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts, with a comma before each but the first."""
    comma = ""
    for text in texts:
        yield comma + text
        comma = ", "


# ---- CSV and JSON lines


def csv_lines(table: Table, to_terminal: bool = False) -> Iterator[str]:
    """Yield the header and the rows as lines of CSV. to_terminal: without control
    characters of a name, and none without end."""
    yield ",".join(_fields(table.names, to_terminal))
    for block in table.blocks:
        columns = [
            _number_texts(column)
            if isinstance(column, np.ndarray)
            else _fields(column, to_terminal)
            for column in block
        ]
        yield from map(",".join, zip(*columns, strict=True))


def _fields(texts: Iterable[str], to_terminal: bool) -> list[str]:
    """Return texts as fields of CSV: quoted where a reader would take them for more, or
    less, than one field."""
    if to_terminal:
        texts = map(cut_line, texts)
    return [
        '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
        for text in texts
    ]


def json_lines(table: Table, is_ascii: bool = False) -> Iterator[str]:
    """Yield a row after the other as an object of JSON, numbers with the digits that
    CSV has, null for a missing value. is_ascii: other characters are escaped."""
    write = partial(json.dumps, ensure_ascii=is_ascii)
    keys = [write(name) + ": " for name in table.names]
    for block in table.blocks:
        texts = [
            _json_numbers(column)
            if isinstance(column, np.ndarray)
            else _json_words(column, write)
            for column in block
        ]
        columns = [
            map(str.__add__, repeat(key), values)
            for key, values in zip(keys, texts, strict=True)
        ]
        for members in zip(*columns, strict=True):
            yield "{" + ", ".join(members) + "}"


def _json_numbers(column: np.ndarray) -> list[str]:
    # not nan, not inf
    return [text if text[-1].isdecimal() else "null" for text in _number_texts(column)]


def _json_words(column: list[str], write: Callable[[str], str]) -> list[str]:
    return [write(text) if text else "null" for text in column]


def _number_texts(column: np.ndarray) -> list[str]:
    """Return numbers with as many digits as give them back."""
    return list(map(_NUMBER_FORMATS.get(column.dtype.name, str), column.tolist()))


def _write_csv(file: BinaryIO, table: Table) -> None:
    _write_text(file, csv_lines(table))


def _write_json_lines(file: BinaryIO, table: Table) -> None:
    _write_text(file, json_lines(table))


def _write_text(file: BinaryIO, lines: Iterable[str]) -> None:
    text = io.TextIOWrapper(
        file, encoding="utf-8", errors="backslashreplace", newline=""
    )
    _write_lines(text, lines)
    text.flush()
    text.detach()


def _write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    stream.writelines(map(str.__add__, lines, repeat("\n")))


# ---- Parquet


def _write_parquet(file: BinaryIO, table: Table) -> None:
    """Write a table as Parquet, GROUP_ROWS or some more in a group."""
    arrow = pyarrow("Parquet files")
    from pyarrow import parquet

    writer = None
    waiting = []
    rows = 0
    try:
        for block in table.blocks:
            waiting.append(
                arrow.RecordBatch.from_arrays(
                    [_arrow_column(arrow, column) for column in block], table.names
                )
            )
            rows += waiting[-1].num_rows
            writer = writer or parquet.ParquetWriter(file, waiting[0].schema)
            if rows >= GROUP_ROWS:
                writer.write_table(arrow.Table.from_batches(waiting))
                waiting = []
                rows = 0
        if waiting:
            writer.write_table(arrow.Table.from_batches(waiting))
    finally:
        if writer is not None:
            writer.close()


def _arrow_column(arrow, column: np.ndarray | list[str]):
    if isinstance(column, np.ndarray):
        return arrow.array(column)
    texts = [
        text.encode(errors="backslashreplace") if text else None for text in column
    ]
    return arrow.array(texts, arrow.binary()).cast(arrow.string())


_TABLE_WRITERS: dict[str, Callable[[BinaryIO, Table], None]] = {
    CSV: _write_csv,
    JSON_LINES: _write_json_lines,
    PARQUET: _write_parquet,
}
