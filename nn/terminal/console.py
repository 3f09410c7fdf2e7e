"""Remarks and warnings on stderr, and what a terminal can do.

Results go to stdout: `nn --test ... > report.txt` keeps the report only.
"""

from __future__ import annotations

import logging
import os
import sys

from ..utils import listed, say


class WarningLines(logging.Handler):
    """Prints the package's warnings as `nn: warning: ...` on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"nn: {record.levelname.lower()}: {record.getMessage()}")


def say_run(about: str, backend: str, threads: int, dtype: str, seed: int) -> None:
    """Print the first lines of a run: engine, threads, type and seed, then the data."""
    from .. import __version__

    say(f"nn {__version__}: {backend}, {threads} thread{'s' * (threads > 1)}, {dtype}, seed {seed}")
    say(about)


def about(ds, rows: str = "rows") -> str:
    """Return a data set in one line: file, shape, classes. rows: the word for its rows."""
    from ..data.source import short_name

    if ds.outputs is None:
        kind = "no targets"
    elif ds.classes is None:
        kind = f"regression of {', '.join(ds.targets) if ds.targets else ds.outputs}"
    else:
        counts = [f"{name} ({count})" for name, count in zip(ds.classes, ds.class_counts(), strict=True)]
        kind = f"{ds.task}, classes {listed(counts)}"
    shape = "x".join(map(str, ds.row_shape))
    return f"{short_name(ds.path)}: {ds.rows} {rows} x {shape} inputs; {kind}"


def on_terminal(stream) -> bool:
    """Return whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show_cursor() -> None:
    """Undo what a bar did to the terminal, from inside a signal handler."""
    if on_terminal(sys.stderr):
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")
