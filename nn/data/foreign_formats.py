"""Formats that tables come in and that nn does not read, and what a person can do: a line in FOREIGN each.

Those of text would be read as CSV, which they are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_IN_PYTHON = "convert it to CSV or Parquet, or give nn.load the data frame that pandas.{} returns"
_UNPACK = "unpack it with {}"
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{])")
_MARKUP = re.compile(rb"\s*<(?:\?xml|!doctype|html|table)\b", re.IGNORECASE)  # <DATE>,<OPEN> is a header
_ARFF = re.compile(rb"\s*(?:%[^\n]*\n\s*)*@relation\b", re.IGNORECASE)
_LIBSVM = re.compile(rb"(?:[-+]?[\d.]+(?:e[-+]?\d+)?(?: +\d+:[-+]?[\d.]+(?:e[-+]?\d+)?)+ *(?:#[^\n]*)?\r?\n){2,}")
_ZIP, _NAME_LENGTH, _NAME = b"PK\x03\x04", slice(26, 28), 30  # the first file of a zip archive


@dataclass(frozen=True)
class Foreign:
    """A format by how its files begin (bytes, without gzip), and what to do."""

    name: str
    recognises: Callable[[bytes], object]
    cure: str


def _begins(*starts: bytes) -> Callable[[bytes], bool]:
    return lambda text: text.startswith(starts)


def _first_in_zip(text: bytes) -> bytes | None:
    """Return the name of the first file of a zip archive; None for anything else."""
    if not text.startswith(_ZIP):
        return None
    return text[_NAME : _NAME + int.from_bytes(text[_NAME_LENGTH], "little")]


def _is_workbook(text: bytes) -> bool:
    return (_first_in_zip(text) or b"").startswith(
        (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetype")
    )


def _is_other_zip(text: bytes) -> bool:
    name = _first_in_zip(text)
    return bool(name) and not name.endswith(b".npy") and not _is_workbook(text)


def _is_libsvm(text: bytes) -> bool:
    whole_lines = text[: text.rfind(b"\n") + 1]  # the last one may be cut
    return bool(_LIBSVM.fullmatch(whole_lines))


FOREIGN = (
    Foreign("JSON", _JSON.match, "convert it to CSV, or give nn.load the list of rows that json.load returns"),
    Foreign("XML or HTML", _MARKUP.match, _IN_PYTHON.format("read_xml or pandas.read_html")),
    Foreign("ARFF", _ARFF.match, "remove the lines above the rows, or put the names of the columns there instead"),
    Foreign("LIBSVM", _is_libsvm,
            "convert it to CSV, or give nn.load the arrays of sklearn.datasets.load_svmlight_file"),
    Foreign("a spreadsheet", _is_workbook, _IN_PYTHON.format("read_excel")),
    Foreign("a spreadsheet", _begins(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), _IN_PYTHON.format("read_excel")),
    Foreign("a zip archive", _is_other_zip, _UNPACK.format("unzip")),
    Foreign("bzip2", re.compile(rb"BZh[1-9]1AY&SY").match, _UNPACK.format("bunzip2")),
    Foreign("xz", _begins(b"\xfd7zXZ\0"), _UNPACK.format("unxz")),
    Foreign("Zstandard", _begins(b"\x28\xb5\x2f\xfd"), _UNPACK.format("unzstd")),
    Foreign("HDF5", _begins(b"\x89HDF\r\n\x1a\n"), _IN_PYTHON.format("read_hdf")),
    Foreign("a PDF", _begins(b"%PDF-"), "copy its tables to CSV"),
)  # fmt: skip


def foreign_format(text: bytes) -> Foreign | None:
    """Return the format of FOREIGN in which a file begins so (bytes, without gzip); None for another."""
    text = text.removeprefix(b"\xef\xbb\xbf")
    return next((known for known in FOREIGN if known.recognises(text)), None)
