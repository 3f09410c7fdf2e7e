"""The formats of data files: how each is recognised by its content, and its reader.

A new table format is a class like table_files.TableFiles and a line in FORMATS; a new format of images or arrays is a
function (path, dtype, labelled) -> arrays.Arrays and a line in FORMATS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..utils import DataError
from .arrays import Arrays
from .arrow_table import ARROW, PARQUET, ArrowFiles, ParquetFiles
from .csv_table import CsvFiles
from .foreign_formats import foreign_format
from .image_files import CIFAR_CLASSES, IDX_TYPES, read_cifar, read_folder, read_idx
from .npy_table import MAGIC, NpyFiles
from .npz import read_npz
from .source import Source, data_files, database_of
from .sqlite_table import SQLITE, SqliteFiles
from .table_files import TableFiles

_TEXT_CONTROLS = b"\t\n\r\x0b\x0c\x1b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ZIP = b"PK\x03\x04"


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


def _is_folder(start: Start) -> bool:
    return start.is_folder


def _is_npy(start: Start) -> bool:
    return start.text.startswith(MAGIC)


def _is_parquet(start: Start) -> bool:
    return start.text.startswith(PARQUET) and not start.is_gzip and start.control() is not None


def _is_arrow(start: Start) -> bool:
    return start.text.startswith(ARROW) and not start.is_gzip


def _is_sqlite(start: Start) -> bool:
    return start.text.startswith(SQLITE) and not start.is_gzip


def _is_npz(start: Start) -> bool:
    return start.text.startswith(_ZIP) and not start.is_gzip


def _is_idx(start: Start) -> bool:
    text = start.text
    return len(text) >= 4 and text[:2] == b"\0\0" and text[2] in IDX_TYPES and 1 <= text[3] <= 4


def _is_csv(start: Start) -> bool:
    return not start.is_folder and start.control() is None


def _is_cifar(start: Start) -> bool:
    if start.is_folder or _is_csv(start) or _is_idx(start) or start.is_called_idx():
        return False
    return start.text[0] < CIFAR_CLASSES


@dataclass(frozen=True)
class Format:
    """A format of data files. `table` or `arrays` reads it: rows of columns, or arrays that are read whole."""

    name: str
    recognises: Callable[[Start], bool]
    table: type[TableFiles] | None = None
    arrays: Callable[[str, str, bool], Arrays] | None = None


FORMATS = (  # no file is of two of them
    Format("CSV", _is_csv, table=CsvFiles),
    Format("NPY", _is_npy, table=NpyFiles),
    Format("Parquet", _is_parquet, table=ParquetFiles),
    Format("Arrow", _is_arrow, table=ArrowFiles),
    Format("SQLite", _is_sqlite, table=SqliteFiles),
    Format("NPZ", _is_npz, arrays=read_npz),
    Format("IDX", _is_idx, arrays=read_idx),
    Format("CIFAR-10 binary", _is_cifar, arrays=read_cifar),
    Format("folder of class folders", _is_folder, arrays=read_folder),
)


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
    return first, files


def start_of(path: str) -> Start:
    """Read how a file begins. Raises InputNotFound."""
    if os.path.isdir(path):
        return Start(path, is_folder=True)
    with Source(database_of(path)[0]) as source:
        return Start(path, source.read(4096), is_gzip=source.is_gzip)


def format_of(start: Start) -> Format:
    """Return the format of a file that begins so. Raises DataError if it is none of FORMATS."""
    foreign = foreign_format(start.text)
    if foreign:
        raise DataError(f"{start.path}: {foreign.name}, expected {_names()}; {foreign.cure}")
    for known in FORMATS:
        if known.recognises(start):
            return known
    raise _unknown(start)


def _names() -> str:
    *most, last = [known.name for known in FORMATS if known.recognises is not _is_folder]
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
