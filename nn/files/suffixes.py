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
_SUFFIXES_OF_FORMATS = {  # by the format that they name
    CSV: ".csv",
    PARQUET: ".parquet .pq",
    JSON_LINES: ".jsonl .ndjson",
    TEXT_MODEL: ".m",
    A_MODEL: ".safetensors",
    "JSON": ".json",
    "a table with tabs": ".tsv .tab",
    "Arrow": ".arrow .ipc",
    "Feather": ".feather",
    "ORC": ".orc",
    "Avro": ".avro",
    "NPY": ".npy",
    "NPZ": ".npz",
    "ARFF": ".arff",
    "LIBSVM": ".svm .libsvm",
    "a database": ".db .sqlite .sqlite3 .duckdb",
    "SQL": ".sql",
    "a spreadsheet": ".xls .xlsx .xlsm .xlsb .ods",
    "HDF5": ".h5 .hdf .hdf5",
    "NetCDF": ".nc",
    "Zarr": ".zarr",
    "MATLAB's format": ".mat",
    "a format of R": ".rds .rda .rdata",
    "a format of Stata": ".dta",
    "a format of SPSS": ".sav",
    "a format of SAS": ".sas7bdat",
    "a pickle": ".pkl .pickle .joblib",
    "PyTorch's format": ".pt .pth",
    "Keras' format": ".keras",
    "TensorFlow's format": ".tflite .pb",
    "GGUF": ".gguf",
    "PMML": ".pmml",
    "ONNX": ".onnx",
    "C": ".c",
    "Python": ".py",
    "a page": ".html .htm",
    "Markdown": ".md",
    "LaTeX": ".tex",
    "PDF": ".pdf",
    "a document": ".doc .docx",
    "XML": ".xml",
    "YAML": ".yaml .yml",
    "TOML": ".toml",
    "a picture": ".png .jpg .jpeg .gif .svg .webp",
    "a zip archive": ".zip",
    "a tar archive": ".tar .tgz",
    "bzip2": ".bz2",
    "xz": ".xz",
    "Zstandard": ".zst",
    "a 7z archive": ".7z",
}
SUFFIX_FORMATS = {
    suffix: name
    for name, suffixes in _SUFFIXES_OF_FORMATS.items()
    for suffix in suffixes.split()
}
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
