"""One row of the credit-card network 30-60-10-1, in C and by onnxruntime, both called from Python on one thread.

    python tests/bench/exports.py            needs a C compiler (cc), onnx and onnxruntime
    python tests/bench/exports.py -O3 -march=native    other flags of the compiler

The sides take turns; of each the shortest and the median block of calls are told.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

import nn
from nn.study.bench import normal
from nn.utils import processor_name

CALLS, BLOCKS = 500, 60
LOOP = """#define NN_HEADER
#include "m.c"
int nn_repeat(const nn_real *row, nn_real *out, int times);
int nn_repeat(const nn_real *row, nn_real *out, int times)
{
    int bad = 0;
    while (times--)
        bad |= nn_predict(row, out);
    return bad;
}
"""


def library(net: nn.Network, folder: Path, flags: list[str]) -> ctypes.CDLL:
    """Return the network as a library of C, with a function that predicts a row many times."""
    nn.export(net, folder / "m.c")
    (folder / "loop.c").write_text(LOOP)
    command = ["cc", "-std=c99", "-ffp-contract=off", *flags, "-shared", "-fPIC", "m.c", "loop.c", "-lm", "-o", "m.so"]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "m.so"))


def session(net: nn.Network, folder: Path) -> onnxruntime.InferenceSession:
    """Return the network in onnxruntime, on one thread."""
    nn.export(net, folder / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(folder / "m.onnx", options, providers=["CPUExecutionProvider"])


def measure(flags: list[str]) -> dict[str, list[float]]:
    """Return microseconds a row, block by block: of C through ctypes, of C alone, of onnxruntime's Python API."""
    x = normal((2000, 30), "float64") * np.arange(1, 31)
    ds = nn.load(x, y=(x[:, 0] + x[:, 1] > 0).astype(int))
    net = nn.Network.for_data(ds, "30,60,10,1")
    nn.train(net, ds, epochs=1)
    with tempfile.TemporaryDirectory() as folder:
        c, ort = library(net, Path(folder), flags), session(net, Path(folder))
    values, out = np.ascontiguousarray(x[0], net.dtype), np.zeros(1, net.dtype)
    pointers = ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(out.ctypes.data)
    sides = {  # name -> (call, how often it is called in a block)
        "C, through ctypes": (lambda: c.nn_predict(*pointers), CALLS),
        "C alone": (lambda: c.nn_repeat(*pointers, CALLS), 1),
        "onnxruntime, Python API": (lambda: ort.run(["probabilities"], {"features": x[:1]}), CALLS),
    }
    found = {side: [] for side in sides}
    for _ in range(BLOCKS):
        for side, (call, times) in sides.items():
            began = time.perf_counter()
            for _ in range(times):
                result = call()
            found[side].append(1e6 * (time.perf_counter() - began) / CALLS)
    if abs(result[0][0, 1] - out[0]) > 1e-5:
        raise ValueError("the two sides do not agree")
    return found


def main() -> None:
    """Print a line for each side."""
    flags = sys.argv[1:] or ["-O2"]
    found = measure(flags)
    print(f"{processor_name()}, cc {' '.join(flags)}, onnxruntime {onnxruntime.__version__}: microseconds a row")
    last = found["onnxruntime, Python API"]
    for side, times in found.items():
        ratio, ratio_of_best = np.median(last) / np.median(times), min(last) / min(times)
        print(f"{side:24} median {np.median(times):7.2f} best {min(times):7.2f}  {ratio:6.1f} {ratio_of_best:6.1f}")


if __name__ == "__main__":
    main()
