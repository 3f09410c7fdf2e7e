"""The formats that suffixes of files name: a file's name is not to promise what the
file is not."""

from __future__ import annotations

import os
from collections.abc import Collection

from ..utils import UsageError

CSV = "CSV"
PARQUET = "Parquet"
JSON_LINES = "JSON lines"
TABLES = (CSV, PARQUET, JSON_LINES)  # formats of the tables that are written
PACKED = ".gz"
A_MODEL = "a model"
TEXT_MODEL = "a text model"
SUFFIX_FORMATS = {
    ".csv": CSV,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".m": TEXT_MODEL,
    ".safetensors": A_MODEL,
    ".json": "JSON",
    ".tsv": "a table with tabs",
    ".tab": "a table with tabs",
    ".arrow": "Arrow",
    ".feather": "Feather",
    ".ipc": "Arrow",
    ".orc": "ORC",
    ".avro": "Avro",
    ".npy": "NPY",
    ".npz": "NPZ",
    ".arff": "ARFF",
    ".svm": "LIBSVM",
    ".libsvm": "LIBSVM",
    ".db": "a database",
    ".sqlite": "a database",
    ".sqlite3": "a database",
    ".duckdb": "a database",
    ".sql": "SQL",
    ".xls": "a spreadsheet",
    ".xlsx": "a spreadsheet",
    ".xlsm": "a spreadsheet",
    ".xlsb": "a spreadsheet",
    ".ods": "a spreadsheet",
    ".h5": "HDF5",
    ".hdf": "HDF5",
    ".hdf5": "HDF5",
    ".nc": "NetCDF",
    ".zarr": "Zarr",
    ".mat": "MATLAB's format",
    ".rds": "a format of R",
    ".rda": "a format of R",
    ".rdata": "a format of R",
    ".dta": "a format of Stata",
    ".sav": "a format of SPSS",
    ".sas7bdat": "a format of SAS",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".joblib": "a pickle",
    ".pt": "PyTorch's format",
    ".pth": "PyTorch's format",
    ".keras": "Keras' format",
    ".tflite": "TensorFlow's format",
    ".pb": "TensorFlow's format",
    ".gguf": "GGUF",
    ".pmml": "PMML",
    ".onnx": "ONNX",
    ".c": "C",
    ".py": "Python",
    ".html": "a page",
    ".htm": "a page",
    ".md": "Markdown",
    ".tex": "LaTeX",
    ".pdf": "PDF",
    ".doc": "a document",
    ".docx": "a document",
    ".xml": "XML",
    ".yaml": "YAML",
    ".yml": "YAML",
    ".toml": "TOML",
    ".png": "a picture",
    ".jpg": "a picture",
    ".jpeg": "a picture",
    ".gif": "a picture",
    ".svg": "a picture",
    ".webp": "a picture",
    ".zip": "a zip archive",
    ".tar": "a tar archive",
    ".tgz": "a tar archive",
    ".bz2": "bzip2",
    ".xz": "xz",
    ".zst": "Zstandard",
    ".7z": "a 7z archive",
}
"""suffix -> the format that it names"""
_EXPORTS = {"ONNX": "nn export writes ONNX", "C": "nn export writes C"}


def named_format(path: str | os.PathLike) -> tuple[str | None, bool]:
    """Return (the format that a file's suffix names, None for a suffix that names none;
    whether gzip packs it)."""
    name = os.path.basename(os.fspath(path)).lower()
    is_packed = name.endswith(PACKED)
    _, suffix = os.path.splitext(name.removesuffix(PACKED))
    return SUFFIX_FORMATS.get(suffix), is_packed


def table_format(path: str | os.PathLike, flag: str = "--output") -> tuple[str, bool]:
    """Return (the format in which a table is written to this file, one of TABLES;
    whether gzip packs it).

    Raises UsageError for a suffix of another format.
    """
    named, is_packed = named_format(path)
    if named not in (None, *TABLES):
        raise UsageError(
            f"{flag} {path}: its suffix names {named}, expected .csv, .parquet or .jsonl; name another file"
        )
    if named == PARQUET and is_packed:
        raise UsageError(
            f"{flag} {path}: Parquet is packed by itself, expected .parquet; leave {PACKED} out"
        )
    return named or CSV, is_packed


def check_named_format(
    path: str | os.PathLike, written: Collection[str], example: str, flag: str = ""
) -> None:
    """Raise UsageError for a suffix that names another format than those that are
    written there.

    example: a name that may be. flag: that names the file, if one does.
    """
    named, is_packed = named_format(path)
    if is_packed:
        named = "gzip"
    if named is None or named in written:
        return
    if named in _EXPORTS:
        cure = f"; {_EXPORTS[named]}"
    else:
        cure = ""
    raise UsageError(
        f"{flag} {path}: its suffix names {named}, expected one such as {example}{cure}".lstrip()
    )
