"""The whole program: `nn --train` on a file like the credit-card data, as a process of its own: one network, and forty
beside as many fits of scikit-learn's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from nn.study.bench import normal
from nn.terminal.tables import facts
from nn.utils import default_threads, processor_name

ROOT = Path(__file__).resolve().parents[2]
ROWS, INPUTS = 22_903, 30
EPOCHS, BATCH = 20, 32
RUNS = 5
TARGET_SECONDS = 1.5
NETWORKS, TARGET_RATIO = 40, 15


def write_data(path: Path) -> None:
    """A CSV of as many rows, columns and digits as the real training file; 2 % are of class 1."""
    x = normal((ROWS, INPUTS), "float64")
    labels = np.arange(ROWS) % 50 == 0
    x[labels, :4] += 2
    names = ["Time", *(f"V{i}" for i in range(1, INPUTS - 1)), "Amount", "Class"]
    table = np.column_stack([x, labels])
    np.savetxt(path, table, ["%.14g"] * INPUTS + ["%d"], ",", header=",".join(names), comments="")


def measure() -> dict:
    """Seconds of the processes: medians, and those of one network one by one; of scikit-learn too, if installed."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "data.csv"), Path(folder, "m.bin")
        write_data(data)
        return {
            "processor": processor_name(), "threads": default_threads(),
            "rows": ROWS, "epochs": EPOCHS, "batch": BATCH, "networks": NETWORKS,
            "seconds": [of_command(data, model, 1) for _ in range(1 + RUNS)][1:],
            "networks_s": float(np.median([of_command(data, model, NETWORKS) for _ in range(RUNS)])),
            "sklearn_s": of_sklearn(data),
        }  # fmt: skip


def of_command(data: Path, model: Path, networks: int) -> float:
    """Return how long a training of `networks` networks takes, from the start to the end of the process."""
    flags = ["--networks", str(networks), "--epochs", str(EPOCHS), "--batch_number", str(BATCH), "--quiet"]
    files = ["--dataset", str(data), "--model", str(model)]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "nn", "--train", *files, *flags], check=True, cwd=ROOT)
    return time.perf_counter() - began


def of_sklearn(data: Path) -> float | None:
    """Return how long scikit-learn takes for as many networks of the same size, epochs and batches, from the file on,
    on all cores; None where it is not installed."""
    try:
        import pandas as pd
        from joblib import Parallel, delayed
        from sklearn.neural_network import MLPClassifier
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        return None
    began = time.perf_counter()
    table = pd.read_csv(data).to_numpy(np.float32)
    rows = np.random.default_rng(0).permutation(len(table))[: round(0.8 * len(table))]  # nn holds a fifth out
    x, y = StandardScaler().fit_transform(table[rows, :-1]), table[rows, -1]

    def fit(seed: int) -> MLPClassifier:
        same = {"batch_size": BATCH, "max_iter": EPOCHS, "n_iter_no_change": EPOCHS, "random_state": seed}
        return MLPClassifier((60, 10), **same).fit(x, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        Parallel(default_threads())(delayed(fit)(seed) for seed in range(NETWORKS))
    return time.perf_counter() - began


def report(result: dict) -> None:
    """Print the result of `measure`."""
    several = f"{result['networks_s']:.2f} s"
    if result["sklearn_s"]:
        ratio = result["sklearn_s"] / result["networks_s"]
        several += f"; scikit-learn {result['sklearn_s']:.1f} s, {ratio:.1f} times as long (at least {TARGET_RATIO})"
    median = float(np.median(result["seconds"]))
    told = {
        "nn --train": f"{ROWS} rows, {EPOCHS} epochs, batch {BATCH}",
        "median": f"{median:.2f} s",
        "runs": ", ".join(f"{s:.2f}" for s in result["seconds"]) + " s",
        "at most": f"{TARGET_SECONDS} s" + (" (missed)" if median > TARGET_SECONDS else ""),
        f"{NETWORKS} networks": several,
    }
    facts(told, f"{result['processor']}, {result['threads']} cores")
