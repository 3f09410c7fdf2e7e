"""Spreadsheets of Excel (.xlsx): the first sheet, whose first row names the columns."""

from __future__ import annotations

from itertools import takewhile

from ..utils import DataError, NnError, needs_package
from .frames import columns_of
from .records import fits
from .typed import Opened

_BYTES_OF_XML = 8  # of memory, for each byte of a sheet


def excel(path: str) -> Opened:
    """Open the first sheet of a file. Raises DataError for a file that is no
    spreadsheet or has no table in the first rows of its first sheet, and NnError where
    openpyxl is missing or the memory does not suffice."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise NnError(needs_package("excel", "spreadsheets need")) from None
    _check_size(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        lines = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    # a damaged file raises whatever its parts do not have
    except Exception as error:
        raise DataError(
            f"{path}: no spreadsheet that can be read ({type(error).__name__}); save it again, or as CSV"
        ) from error
    return columns_of(_columns(path, [list(line) for line in lines]))


def _check_size(path: str) -> None:
    """Raise DataError where the memory has no room for what is packed in a file."""
    import zipfile  # here: few files are packed

    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(
            f"{path}: a damaged spreadsheet; save it again, or as CSV"
        ) from error
    if not fits(_BYTES_OF_XML * size):
        raise DataError(
            f"{path}: more text than the memory has room for; save it as CSV"
        )


def _columns(path: str, lines: list[list]) -> dict[str, list]:
    """Return the columns of a sheet by their names; rows without any value are none.
    Raises DataError for a sheet without a table."""
    lines = [line for line in lines if any(value is not None for value in line)]
    names = list(takewhile(lambda name: name is not None, lines[0] if lines else []))
    if not names or len(lines) < 2:
        raise DataError(
            f"{path}: no table in its first sheet, expected names in the first row and rows below"
        )
    texts = [str(name) for name in names]
    if len({*texts}) < len(texts):
        raise DataError(
            f"{path}: two columns of one name in its first sheet; rename one"
        )
    width = max(map(len, lines))
    if any(value is not None for line in lines for value in line[len(names) : width]):
        raise DataError(
            f"{path}: values in a column without a name, expected names in the first row"
        )
    columns = zip(*(line[: len(names)] for line in lines[1:]), strict=True)
    return dict(zip(texts, map(list, columns), strict=True))
