"""The formats of data files: how each is recognised by its beginning, and what reads it or what else a person can do.

A further format is a function and a line in FORMATS: for a table (paths, path, options) -> TableSource, for images or
arrays (path, dtype, labelled) -> Arrays. Files of one that nn does not read have a cure there.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ..utils import DataError
from .arrays import MAGIC, Arrays, NpySource, read_npz
from .arrow import ArrowSource, feather, orc, parquet
from .column import TableSource
from .frames import json_lines
from .image_files import CIFAR_CLASSES, IDX_TYPES, read_cifar, read_folder, read_idx
from .source import GZIP, data_files, database_of, first_bytes
from .sqlite import MAGIC as SQLITE
from .sqlite import SqliteSource
from .uris import Fetched

_TEXT_CONTROLS = b"\t\n\r\x0b\x0c\x1b"
_BYTE_ORDER_MARK, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_ZIP, _NAME_LENGTH, _NAME = b"PK\x03\x04", slice(26, 28), 30  # the first file of a zip archive
_HEAD = 4096  # bytes that tell the format
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{])")
_MARKUP = re.compile(rb"\s*<(?:\?xml|!doctype|html|table)\b", re.IGNORECASE)  # <DATE>,<OPEN> is a header
_ARFF = re.compile(rb"\s*(?:%[^\n]*\n\s*)*@relation\b", re.IGNORECASE)
_LIBSVM = re.compile(rb"(?:[-+]?[\d.]+(?:e[-+]?\d+)?(?: +\d+:[-+]?[\d.]+(?:e[-+]?\d+)?)+ *(?:#[^\n]*)?\r?\n){2,}")
_IN_PYTHON = "convert it to CSV or Parquet, or give nn.load the data frame that pandas.{} returns"
_UNPACK = "unpack it with {}"


@dataclass(frozen=True)
class Start:
    """How a file begins, unpacked if it is gzip; a folder begins with nothing."""

    path: str
    text: bytes = b""
    is_folder: bool = False
    is_gzip: bool = False

    def control(self) -> int | None:
        """Return the place of the first byte that no text has; None for text."""
        return next((at for at, byte in enumerate(self.text) if byte < 32 and byte not in _TEXT_CONTROLS), None)

    def is_called_idx(self) -> bool:
        """Return whether the file's name is one of an IDX file."""
        name = os.path.basename(self.path).lower()
        return "idx" in name or "ubyte" in name


def _begins(*starts: bytes) -> Callable[[Start], bool]:
    return lambda start: start.text.startswith(starts)


def _begins_unpacked(magic: bytes) -> Callable[[Start], bool]:
    """Return what recognises a binary file that is read at any place."""
    return lambda start: start.text.startswith(magic) and not start.is_gzip and start.control() is not None


def _matches(pattern: re.Pattern) -> Callable[[Start], bool]:
    return lambda start: bool(pattern.match(start.text.removeprefix(_BYTE_ORDER_MARK)))


def _is_folder(start: Start) -> bool:
    return start.is_folder


def _first_in_zip(text: bytes) -> bytes | None:
    """Return the name of the first file of a zip archive; None for anything else."""
    if not text.startswith(_ZIP):
        return None
    return text[_NAME : _NAME + int.from_bytes(text[_NAME_LENGTH], "little")]


def _is_workbook(start: Start) -> bool:
    first = _first_in_zip(start.text) or b""
    return first.startswith((b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetype"))


def _is_other_zip(start: Start) -> bool:
    name = _first_in_zip(start.text)
    return bool(name) and not name.endswith(b".npy") and not _is_workbook(start)


def _is_json_lines(start: Start) -> bool:
    """Return whether the first line is a JSON object; alone it must not be a table of columns."""
    first, line_end, rest = start.text.removeprefix(_BYTE_ORDER_MARK).lstrip().partition(b"\n")
    if not first.startswith(b"{"):
        return False
    if not line_end:  # it may be cut
        return b'":[' not in first.replace(b" ", b"") and len(first) > 2
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return rest.lstrip().startswith(b"{") or not any(isinstance(value, list) for value in row.values())


def _is_libsvm(start: Start) -> bool:
    text = start.text.removeprefix(_BYTE_ORDER_MARK)
    return bool(_LIBSVM.fullmatch(text[: text.rfind(b"\n") + 1]))  # whole lines; the last one may be cut


def _is_idx(start: Start) -> bool:
    text = start.text
    return len(text) >= 4 and text[:2] == b"\0\0" and text[2] in IDX_TYPES and 1 <= text[3] <= 4


def _is_csv(start: Start) -> bool:
    return not start.is_folder and start.control() is None


def _is_cifar(start: Start) -> bool:
    if start.is_folder or _is_csv(start) or _is_idx(start) or start.is_called_idx():
        return False
    return start.text[0] < CIFAR_CLASSES


def _open_csv(paths: list[str], path: str, options) -> TableSource:
    from .csv_table import CsvSource

    return CsvSource(paths, path, options)


@dataclass(frozen=True)
class Format:
    """A format of data files. `table` or `arrays` reads it, rows of columns or arrays as a whole; or `cure` says what a
    person can do."""

    name: str
    recognises: Callable[[Start], object]
    table: Callable[..., TableSource] | None = None
    arrays: Callable[[str, str, bool], Arrays] | None = None
    cure: str | None = None


FORMATS = (  # the first that recognises a file is its format; text of no other is CSV
    Format("JSON lines", _is_json_lines, table=json_lines),
    Format("JSON", _matches(_JSON), cure="convert it to CSV, or give nn.load the list of rows that json.load returns"),
    Format("XML or HTML", _matches(_MARKUP), cure=_IN_PYTHON.format("read_xml or pandas.read_html")),
    Format("ARFF", _matches(_ARFF),
           cure="remove the lines above the rows, or put the names of the columns there instead"),
    Format("LIBSVM", _is_libsvm,
           cure="convert it to CSV, or give nn.load the arrays of sklearn.datasets.load_svmlight_file"),
    Format("a spreadsheet", _is_workbook, cure=_IN_PYTHON.format("read_excel")),
    Format("a spreadsheet", _begins(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), cure=_IN_PYTHON.format("read_excel")),
    Format("a zip archive", _is_other_zip, cure=_UNPACK.format("unzip")),
    Format("bzip2", _matches(re.compile(rb"BZh[1-9]1AY&SY")), cure=_UNPACK.format("bunzip2")),
    Format("xz", _begins(b"\xfd7zXZ\0"), cure=_UNPACK.format("unxz")),
    Format("Zstandard", _begins(b"\x28\xb5\x2f\xfd"), cure=_UNPACK.format("unzstd")),
    Format("HDF5", _begins(b"\x89HDF\r\n\x1a\n"), cure=_IN_PYTHON.format("read_hdf")),
    Format("a PDF", _begins(b"%PDF-"), cure="copy its tables to CSV"),
    Format("CSV", _is_csv, table=_open_csv),
    Format("NPY", _begins(MAGIC), table=NpySource),
    Format("Parquet", _begins_unpacked(b"PAR1"), table=partial(ArrowSource, parquet)),
    Format("Arrow", _begins_unpacked(b"ARROW1\0\0"), table=partial(ArrowSource, feather)),
    Format("ORC", _begins_unpacked(b"ORC"), table=partial(ArrowSource, orc)),
    Format("SQLite", _begins_unpacked(SQLITE), table=SqliteSource),
    Format("NPZ", _begins_unpacked(_ZIP), arrays=read_npz),
    Format("IDX", _is_idx, arrays=read_idx),
    Format("CIFAR-10 binary", _is_cifar, arrays=read_cifar),
    Format("folder of class folders", _is_folder, arrays=read_folder),
)  # fmt: skip


def recognise(path: str) -> tuple[Format, list[str]]:
    """Return the format of the data that `path` stands for, and its files: one, or several of a table.

    Raises InputNotFound, and DataError for an unknown format and for files that do not belong together.
    """
    files = data_files(path)
    formats = [format_of(start_of(file)) for file in files]
    first, tables = formats[0], [known.name for known in FORMATS if known.table]
    rule = f"several files are all {' or all '.join(tables)} tables"
    if len(files) > 1 and not first.table:
        raise DataError(f"{files[0]}: {first.name}, expected {' or '.join(tables)}; {rule}")
    for file, other in zip(files, formats, strict=True):
        if other is not first:
            raise DataError(f"{file}: expected {first.name} as in {files[0]}; {rule}")
    if first.arrays and isinstance(files[0], Fetched):
        raise DataError(f"{files[0]}: {first.name}, expected {' or '.join(tables)}; copy it to this machine first")
    return first, files


def start_of(path: str) -> Start:
    """Read how a file begins. Raises InputNotFound."""
    if os.path.isdir(path):
        return Start(path, is_folder=True)
    if isinstance(path, Fetched):
        with path.open() as file:
            text = file.read(_HEAD)
        if is_gzip := text.startswith(GZIP):
            text = zlib.decompressobj(31).decompress(text, _HEAD)
        return Start(path, text, is_gzip=is_gzip)
    text, is_gzip = first_bytes(database_of(path)[0], _HEAD)
    return Start(path, text, is_gzip=is_gzip)


def format_of(start: Start) -> Format:
    """Return the format of a file that begins so. Raises DataError if it is none that is read."""
    for known in FORMATS:
        if known.recognises(start):
            if known.cure:
                raise DataError(f"{start.path}: {known.name}, expected {_names()}; {known.cure}")
            return known
    raise _unknown(start)


def _names() -> str:
    *most, last = [known.name for known in FORMATS if not known.cure and known.recognises is not _is_folder]
    return f"{', '.join(most)} or {last}"


def _unknown(start: Start) -> DataError:
    path, text = start.path, start.text
    for known in FORMATS:
        if known.recognises(replace(start, is_gzip=False)):
            name = known.name
            return DataError(f"{path}: a gzipped {name} file, expected the {name} file itself; unpack it with gunzip")
    if text[:2] in _UTF16:
        return DataError(f"{path}: text in UTF-16, expected UTF-8; save it again as UTF-8 or plain CSV")
    if start.is_called_idx():
        return DataError(
            f"{path}: magic number 0x{text[:4].hex()}, expected 0x00000803 (images of bytes) or another of "
            f"the IDX format; the file is damaged or not an IDX file"
        )
    return DataError(
        f"{path}: begins with the bytes {text[:4].hex(' ')} and is not text (byte {start.control() + 1}), "
        f"expected {_names()}; convert it to one of these"
    )
