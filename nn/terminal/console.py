"""Remarks and warnings on stderr, and what a terminal can do.

Results go to stdout: `nn --test ... > report.txt` keeps the report only.
"""

from __future__ import annotations

import io
import logging
import os
import sys

from ..utils import OutputError, listed, log_line, plural, printable, target_text


class WarningLines(logging.Handler):
    """Prints the package's warnings as `nn: warning: ...` on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        log_line(f"nn: {record.levelname.lower()}: {record.getMessage()}")


def report_run(
    about: str, backend: str, threads: int, dtype: str, seed: int, remark: str = ""
) -> None:
    """Print the first lines of a run: engine, threads, type, seed and a remark, then
    the lines about the data."""
    from .. import __version__

    engine = f"nn {__version__}: {backend}, {plural(threads, 'thread')}, {dtype}, seed {seed}"
    if remark:
        engine += f"; {remark}"
    for line in (engine, *about.splitlines()):
        log_line(line)


def about(ds, rows: str = "rows", net=None) -> str:
    """Return a data set in a line, and the target of a table in another:

        iris.csv: 150 rows x 4 inputs; multiclass, classes setosa (50), ...
        target species (the last column; --target chooses)

    rows: the word for its rows. net: the network that they judge.
    """
    from ..data.source import short_name

    shape = "x".join(map(str, ds.row_shape))
    line = (
        f"{short_name(ds.path)}: {ds.rows} {rows} x {shape} inputs; {_targets_of(ds)}"
    )
    lines = [printable(line)]
    asked = ds.target
    if net is not None:
        asked = net.config.get("target")
    if ds.outputs is not None:
        target = target_text(ds.names_of_targets, asked, bool(ds.places))
        if target:
            lines.append(printable(target))
    return "\n".join(lines)


def _targets_of(ds) -> str:
    """Return what the rows of a data set have as targets: nothing, numbers, or classes
    with the number of rows of each."""
    if ds.outputs is None:
        return "no targets"
    if ds.labels is not None:
        return f"{ds.task}, {listed(_labels_of(ds))}"
    if ds.classes is None:
        targets = ds.names_of_targets or [plural(ds.outputs, "value")]
        return f"regression of {', '.join(targets)}"
    counts = [
        f"{name} ({count})"
        for name, count in zip(ds.classes, ds.class_counts(), strict=True)
    ]
    if ds.task == "binary" and ds.classes != ["0", "1"]:
        counts[-1] = f"{counts[-1][:-1]}, positive)"
    return f"{ds.task}, classes {listed(counts)}"


def _labels_of(ds) -> list[str]:
    """Return the targets of two classes, each with how many rows are positive."""
    names = ds.targets or [f"target {number + 1}" for number in range(ds.outputs)]
    counts = (ds.y == 1).sum(axis=0).tolist()
    return [
        f"{name} ({pair[1]}: {count})"
        for name, pair, count in zip(names, ds.labels, counts, strict=True)
    ]


def about_training(ds) -> str:
    """Return a data set in one line, and one more for each thing that a person should
    know of how it was read."""
    lines = about(ds).splitlines()
    if ds.left_out:
        reasons = listed(
            [f"{name or '(no name)'} ({why})" for name, why in ds.left_out.items()], 10
        )
        lines.append(f"left out: {reasons}; --numbers or --categories keeps a column")
    lines += ds.about_left_out()
    return "\n".join(map(printable, [*lines, *ds.remarks]))


def report_encoding(encoding) -> None:
    """Print what the columns of a table are, a line for each kind, and how many inputs
    they become."""
    for kind, columns in encoding.by_kind().items():
        log_line(f"{kind}: {listed(columns, 12)}")
    log_line(encoding.size_text())


def on_terminal(stream) -> bool:
    """Return whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show_cursor() -> None:
    """Undo what a bar did to the terminal, from inside a signal handler."""
    if on_terminal(sys.stderr):
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")


class ClosedStream(io.TextIOBase):
    """Standard output where the caller has closed it: what would be printed there is
    not lost without a word."""

    def write(self, text: str) -> int:
        raise OutputError(
            "standard output is closed, and the results would be printed there; give it a file or a pipe"
        )
