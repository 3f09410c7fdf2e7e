"""The formats of data files: how each is recognised by its beginning, and what reads it
or what else a person can do.

A further format is a function and a line in TABLE_FORMATS: for a table of typed columns
(path) -> typed.Opened, for images or arrays (path, dtype, labelled) -> Arrays, for
files of pictures (paths, schema, labelled) -> Arrays. Files of one that nn does not
read have a cure there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ..utils import DataError
from .arrays import Arrays, npy, read_cifar, read_idx, read_npz
from .arrow import feather, orc, parquet
from .column import BYTE_ORDER_MARK
from .csv_table import CsvSource
from .excel import excel
from .frames import json_array, json_lines
from .pictures import MAGIC, read_folder, read_pictures
from .schema import Schema
from .source import (
    IMAGE_SUFFIXES,
    Fetched,
    Source,
    TableSource,
    data_files,
    database_of,
)
from .sqlite import database
from .typed import typed_table

_CONTROL_BYTES = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that no text has
_FORMAT_BYTES = 4096  # bytes that tell the format
_LIBSVM = rb"(?:[-+]?[\d.]+(?:e[-+]?\d+)?(?: +\d+:[-+]?[\d.]+(?:e[-+]?\d+)?)+ *(?:#[^\n]*)?\r?\n){2}"
_ZIP = rb"(?s:PK\x03\x04.{26})"  # and the name of its first file
_IDX = rb"\0\0[\x08\x09\x0b-\x0e][\x01-\x04]"
_IN_PYTHON = "convert it to CSV or Parquet, or give nn.load the data frame that pandas.{} returns"
_FROM_JSON = (
    "convert it to CSV, or give nn.load the list of rows that json.load returns"
)
_UNPACK = "unpack it with {}"


class Format(NamedTuple):
    """A format of data files. `table`, `arrays` or `pictures` reads it: rows of
    columns, arrays as a whole, a row from each file; or `cure` says what a person can
    do.

    pattern: of the first bytes, of a text without a byte order mark; None: a folder.
    is_text: whether the file is a text; None: perhaps. may_be_packed: by gzip.
    """

    name: str
    pattern: bytes | None
    is_text: bool | None = False
    table: Callable[..., TableSource] | None = None
    arrays: Callable[[str, str, bool], Arrays] | None = None
    pictures: Callable[[list[str], Schema, bool], Arrays] | None = None
    cure: str | None = None
    may_be_packed: bool = True

    def recognises(self, start: bytes | None) -> bool:
        """Return whether a file that begins so, unpacked, may have this format; None: a
        folder."""
        if self.pattern is None or start is None:
            return start is self.pattern
        is_text = not _CONTROL_BYTES.search(start)
        is_right = self.is_text in (None, is_text)
        start = start.removeprefix(BYTE_ORDER_MARK)
        return is_right and bool(re.match(self.pattern, start))


PICTURES = Format("pictures", MAGIC, None, pictures=read_pictures, may_be_packed=False)
TABLE_FORMATS = (  # the first that recognises a file is its format; text of no other is CSV
    # one line: lists, as columns are
    Format("JSON", rb'(?=\s*[^\n]*\s*\Z)\s*\{[^\n]*" *: *\[', True, cure=_FROM_JSON),
    Format(
        "JSON lines",
        rb'\s*\{ *"[^\n]*(?:\}\s*(?:\n|\Z)|\Z)',
        True,
        table=partial(typed_table, json_lines),
    ),
    Format(
        "JSON array",
        rb"\s*\[\s*\{",
        True,
        table=partial(typed_table, json_array),
    ),
    Format("JSON", rb"\s*(?:\{\s*[\"}]|\[\s*\[)", True, cure=_FROM_JSON),
    # <DATE>,<OPEN> is a header
    Format(
        "XML or HTML",
        rb"\s*<(?i:\?xml|!doctype|html|table)\b",
        True,
        cure=_IN_PYTHON.format("read_xml or pandas.read_html"),
    ),
    Format(
        "ARFF",
        rb"\s*(?:%[^\n]*\n\s*)*(?i:@relation)\b",
        True,
        cure="remove the lines above the rows, or put the names of the columns there instead",
    ),
    Format(
        "LIBSVM",
        _LIBSVM,
        True,
        cure="convert it to CSV, or give nn.load the arrays of sklearn.datasets.load_svmlight_file",
    ),
    Format("a PDF", rb"%PDF-", None, cure="copy its tables to CSV"),
    PICTURES,
    Format("CSV", rb"", True, table=CsvSource),
    Format(
        "Excel",
        _ZIP + rb"(?:\[Content_Types\]\.xml|_rels/|docProps/|xl/)",
        table=partial(typed_table, excel),
        may_be_packed=False,
    ),
    Format("a spreadsheet", _ZIP + rb"mimetype", cure=_IN_PYTHON.format("read_excel")),
    Format(
        "a spreadsheet",
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        cure=_IN_PYTHON.format("read_excel"),
    ),
    Format(
        "NPZ",
        _ZIP + rb"(?:[^\0-\x1f]*?\.npy|[\0-\x1f])",
        arrays=read_npz,
        may_be_packed=False,
    ),
    Format("a zip archive", _ZIP, cure=_UNPACK.format("unzip")),
    Format("bzip2", rb"BZh[1-9]1AY&SY", cure=_UNPACK.format("bunzip2")),
    Format("xz", rb"\xfd7zXZ\0", cure=_UNPACK.format("unxz")),
    Format("Zstandard", rb"\x28\xb5\x2f\xfd", cure=_UNPACK.format("unzstd")),
    Format(
        "a model file of nn",
        rb'(?s:.{8}) *\{ *"__metadata__"',
        None,
        cure="give a table in its place",
    ),
    Format("HDF5", rb"\x89HDF\r\n\x1a\n", cure=_IN_PYTHON.format("read_hdf")),
    Format(
        "text in UTF-16",
        rb"\xff\xfe|\xfe\xff",
        cure="save it again as UTF-8 or plain CSV",
    ),
    Format("NPY", rb"\x93NUMPY", table=partial(typed_table, npy)),
    Format(
        "Parquet", rb"PAR1", table=partial(typed_table, parquet), may_be_packed=False
    ),
    Format(
        "Arrow",
        rb"ARROW1\0\0",
        table=partial(typed_table, feather),
        may_be_packed=False,
    ),
    Format("ORC", rb"ORC", table=partial(typed_table, orc), may_be_packed=False),
    Format(
        "SQLite",
        rb"SQLite format 3\0",
        table=partial(typed_table, database),
        may_be_packed=False,
    ),
    Format("IDX", _IDX, arrays=read_idx),
    Format("CIFAR-10 binary", rb"(?!%b)[\0-\x09]" % _IDX, arrays=read_cifar),
    Format("folder of class folders", None, pictures=read_folder),
)


def recognise(path: str) -> tuple[Format, list[str]]:
    """Return the format of the data that `path` stands for, and its files: one, or
    several of a table.

    Raises InputNotFound, and DataError for an unknown format and for files that do not
    belong together.
    """
    files = with_bytes(data_files(path))
    formats = list(map(format_of, files))
    first_format = formats[0]
    tables = [entry.name for entry in TABLE_FORMATS if entry.table]
    expected = " or ".join(tables)
    if first_format.table:
        expected = f"{first_format.name} as in {files[0]}"
    may_be_several = first_format.table or first_format is PICTURES
    for file, file_format in zip(files, formats, strict=True):
        is_alone = may_be_several or len(files) == 1
        if file_format is not first_format or not is_alone:
            raise DataError(
                f"{file}: expected {expected}; several files are all {' or all '.join(tables)} tables"
            )
    if not first_format.table and isinstance(files[0], Fetched):
        raise DataError(
            f"{files[0]}: {first_format.name}, expected {' or '.join(tables)}; copy it to this machine first"
        )
    return first_format, files


def with_bytes(files: list[str]) -> list[str]:
    """Return the files of a table that hold more than blank lines; all of them where
    there is one, or none does."""
    if len(files) == 1:
        return files
    return [file for file in files if os.path.isdir(file) or _has_bytes(file)] or files


def _has_bytes(path: str) -> bool:
    with Source(database_of(path)[0]) as source:
        start = source.read(_FORMAT_BYTES)
    filled = start.removeprefix(BYTE_ORDER_MARK).strip()
    return len(start) == _FORMAT_BYTES or bool(filled)


def format_of(path: str) -> Format:
    """Return the format of a file. Raises InputNotFound, and DataError if it is none
    that is read."""
    start = None
    is_gzip = False
    if not os.path.isdir(path):
        with Source(database_of(path)[0]) as source:
            start = source.read(_FORMAT_BYTES)
            is_gzip = source.is_gzip
    recognised = filter(lambda entry: entry.recognises(start), TABLE_FORMATS)
    file_format = next(recognised, None)
    if start is not None and path.lower().endswith(IMAGE_SUFFIXES):
        file_format = PICTURES  # some begin as other files may
    names = [
        entry.name
        for entry in TABLE_FORMATS
        if not entry.cure and entry.pattern is not None and entry is not PICTURES
    ]
    expected = f"{', '.join(names)} or {PICTURES.name}"
    if file_format is None:
        raise DataError(
            f"{path}: begins with the bytes {start[:4].hex(' ')} and is not text (byte "
            f"{_CONTROL_BYTES.search(start).start() + 1}), expected {expected}; convert it to one of these"
        )
    name = file_format.name
    if file_format.cure:
        raise DataError(f"{path}: {name}, expected {expected}; {file_format.cure}")
    if is_gzip and not file_format.may_be_packed:
        raise DataError(
            f"{path}: a gzipped {name} file, expected the {name} file itself; unpack it "
            "with gunzip"
        )
    return file_format
