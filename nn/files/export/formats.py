"""export: a model for other programs, in the format of the file's suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...utils import UsageError, check_writable
from .c_file import save_c
from .columns import check_columns
from .onnx_file import save_onnx

EXPORTERS: dict[str, Callable] = {".onnx": save_onnx, ".c": save_c}
"""suffix -> writer (network, path) of a format"""


def writer_of(path: str | os.PathLike) -> Callable:
    """Return the writer of a file's suffix. Raises UsageError for another suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in EXPORTERS:
        if suffix:
            found = f"the suffix {suffix}"
        else:
            found = "no suffix"
        raise UsageError(f"{path}: {found}, expected {' or '.join(EXPORTERS)}")
    return EXPORTERS[suffix]


def export(net, path: str | os.PathLike) -> None:
    """Write a network for other programs, replacing `path` only once the new file is
    complete.

    Raises UsageError for a network that the format cannot hold, an unknown suffix or a
    missing package, OutputError.
    """
    write = writer_of(path)
    check_writable(path)
    check_columns(net, path)
    write(net, path)
