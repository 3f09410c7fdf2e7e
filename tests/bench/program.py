"""The whole program: `nn --train` on a file like the credit-card data, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nn.study.bench import normal
from nn.terminal.tables import facts
from nn.utils import default_threads, processor_name

ROOT = Path(__file__).resolve().parents[2]
ROWS, INPUTS = 22_903, 30
RUNS = 5
TARGET_SECONDS = 1.5


def write_data(path: Path) -> None:
    """A CSV of as many rows, columns and digits as the real training file; 2 % are of class 1."""
    x = normal((ROWS, INPUTS), "float64")
    labels = np.arange(ROWS) % 50 == 0
    x[labels, :4] += 2
    names = ["Time", *(f"V{i}" for i in range(1, INPUTS - 1)), "Amount", "Class"]
    table = np.column_stack([x, labels])
    np.savetxt(path, table, ["%.14g"] * INPUTS + ["%d"], ",", header=",".join(names), comments="")


def measure() -> dict:
    """Seconds of the process: the median, and all of them."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "data.csv"), Path(folder, "m.bin")
        write_data(data)
        flags = ["--epochs", "20", "--batch_number", "32", "--quiet"]
        files = ["--dataset", str(data), "--model", str(model)]
        command = [sys.executable, "-m", "nn", "--train", *files, *flags]
        subprocess.run(command, check=True, cwd=ROOT)
        seconds = []
        for _ in range(RUNS):
            began = time.perf_counter()
            subprocess.run(command, check=True, cwd=ROOT)
            seconds.append(time.perf_counter() - began)
    median = float(np.median(seconds))
    return {
        "processor": processor_name(),
        "threads": default_threads(),
        "rows": ROWS,
        "epochs": 20,
        "batch": 32,
        "median_s": median,
        "seconds": seconds,
        "target_s": TARGET_SECONDS,
    }


def report(result: dict) -> None:
    """Print the result of `measure`."""
    missed = result["median_s"] > TARGET_SECONDS
    facts(
        {
            "nn --train": f"{ROWS} rows, 20 epochs, batch 32",
            "median": f"{result['median_s']:.2f} s",
            "runs": ", ".join(f"{s:.2f}" for s in result["seconds"]) + " s",
            "at most": f"{TARGET_SECONDS} s" + (" (missed)" if missed else ""),
        },
        f"{result['processor']}, {result['threads']} cores",
    )
