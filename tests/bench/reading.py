"""nn.load beside pandas' C reader (CSV) and pyarrow (Parquet) on the same files, in turn, in one process.

    python tests/bench/reading.py CC.csv.gz adult.csv.gz adult.csv.gz:1000000

Each table is a CSV file (unpacked first), then the rows to which its own are repeated. nn.load goes from the file to a
Dataset: columns are told by what they hold, texts are codes, targets classes, and the digest is taken. The others end
with a data frame, or an Arrow table. Ratios are those of medians, in brackets of the shortest times.
"""

from __future__ import annotations

import gzip
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import pyarrow as pa
import typer
from pyarrow import parquet

import nn
from nn.terminal.tables import table
from nn.utils import default_threads, processor_name


def clock() -> tuple[float, float]:
    """Return (wall, processor) seconds; the latter of all threads, user's and system's."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def in_turn(sides: dict[str, Callable], rounds: int) -> dict[str, np.ndarray]:
    """Return (rounds, 2) wall and processor seconds of each side, after a first round that does not count."""
    found: dict[str, list] = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, run in sides.items():
            began = clock()
            run()
            found[name].append(np.subtract(clock(), began))
    return {name: np.array(seconds[1:]) for name, seconds in found.items()}


def write(spec: str, folder: Path) -> tuple[str, Path]:
    """Write a table's CSV file; returns (its name, the file)."""
    path, _, rows = spec.partition(":")
    name = Path(path).name.split(".")[0]
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as source:
        lines = source.read().splitlines(keepends=True)
    lines = [line for line in lines if line.strip()]
    header = lines[:1] if nn.load(path).columns else []
    body = lines[len(header) :]
    if rows:
        body = (body * (int(rows) // len(body) + 1))[: int(rows)]
        name += f", {int(rows):,} rows"
    file = folder / "table.csv"
    file.write_bytes(b"".join(header + body))
    return name, file


def main(
    tables: Annotated[list[str], typer.Argument(help="FILE[:ROWS]")],
    rounds: Annotated[int, typer.Option(help="Turns of each side.")] = 15,
):
    """Print the times of both sides of each format, and their ratios."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for spec in tables:
            name, file = write(spec, Path(folder))
            named = 0 if nn.load(file).columns else None
            frame = pd.read_csv(file, header=named, skipinitialspace=True)
            frame.columns = [str(column) for column in frame.columns]
            other = file.with_suffix(".parquet")
            parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), other)
            peers = {
                file: ("pandas", lambda file=file, named=named: pd.read_csv(file, header=named, engine="c")),
                other: ("pyarrow", lambda other=other: parquet.read_table(other)),
            }
            for path, (peer, run) in peers.items():
                found = in_turn({"nn": lambda path=path: nn.load(path), peer: run}, rounds)
                rows.append([name, f"{path.suffix[1:]}, {peer}", *_figures(found["nn"], found[peer])])
            del frame
            shutil.rmtree(folder)
            Path(folder).mkdir()
    print(f"{processor_name()}, {default_threads()} threads; medians of {rounds}, ratios nn / peer")
    table(["table", "format, peer", "nn s", "peer s", "wall", "nn CPU s", "peer CPU s", "CPU"], rows, left=2)


def _figures(own: np.ndarray, peer: np.ndarray) -> list[str]:
    median, shortest = (np.array([of(side, axis=0) for side in (own, peer)]) for of in (np.median, np.min))
    ratios = [f"{median[0, i] / median[1, i]:.2f} ({shortest[0, i] / shortest[1, i]:.2f})" for i in (0, 1)]
    wall, used = ([f"{seconds:.3f}" for seconds in median[:, i]] for i in (0, 1))
    return [*wall, ratios[0], *used, ratios[1]]


if __name__ == "__main__":
    typer.run(main)
