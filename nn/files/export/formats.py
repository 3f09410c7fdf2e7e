"""export: a model for other programs, in the format of the file's suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...utils import UsageError, check_writable, network_of
from .c_file import save_c
from .columns import check_columns
from .onnx_file import save_onnx

EXPORTERS: dict[str, Callable] = {".onnx": save_onnx, ".c": save_c}
"""suffix -> writer (network, path) of a format"""

# microseconds that a weight takes of a row's prediction by a C file, compiled with -O3,
# on one core of a server (docs/measured.md); onnxruntime's times are no such multiple
US_PER_PRODUCT_IN_C = 0.00045


def writer_of(path: str | os.PathLike) -> Callable:
    """Return the writer of a file's suffix. Raises UsageError for another suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in EXPORTERS:
        if suffix:
            ending = f"the suffix {suffix}"
        else:
            ending = "no suffix"
        raise UsageError(f"{path}: {ending}, expected {' or '.join(EXPORTERS)}")
    return EXPORTERS[suffix]


def export(net, path: str | os.PathLike, level: float | None = None) -> None:
    """Write a network for other programs, replacing `path` only once the new file is
    complete.

    level: of the intervals of values, or sets of classes, that an ONNX file has; None:
    of none. A C file has all levels.

    Raises UsageError for a network that the format cannot hold, an unknown suffix or a
    missing package, OutputError.
    """
    net = network_of("export", net)
    write = writer_of(path)
    check_writable(path)
    check_columns(net, path)
    if level is None:
        write(net, path)
        return
    if write is save_c:
        raise UsageError(
            f"--level {level:g}: is not for {path}, whose nn_interval and nn_set take one; leave it out"
        )
    save_onnx(net, path, level)


def us_per_row_of(net, path: str | os.PathLike) -> float | None:
    """Return about how many microseconds an exported file takes for a row; None for a
    format of which only a measurement would tell."""
    if writer_of(path) is not save_c:
        return None
    return US_PER_PRODUCT_IN_C * products_of(net)


def products_of(net) -> int:
    """Return the number of products of weights and values that a prediction takes."""
    layers = [layer for member in net.members for layer in member.layers]
    return sum(layer.outputs * layer.fan_in for layer in layers if layer.biases)
