"""How long training steps and forward passes take on the GPU, beside PyTorch and JAX there.

    python tests/gpu/bench.py                    all cases on all sides
    python tests/gpu/bench.py digits cnn         the cases whose names begin so

A training step is what users write: rows gathered in a new order each epoch, forward, loss, backward, update. PyTorch
runs as it is (eager), and with its step captured in a CUDA graph; JAX runs an epoch as one jitted scan. TF32 is off on
all sides whose name does not say so. A forward pass begins with rows on the GPU and ends with outputs in the computer's
memory. Each figure is a median; the error is the distance from PyTorch in float64, relative to the whole: of a batch's
gradients, or of the outputs, the median of three batches.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from gpu_sides import LARGEST_CHECKED, OURS, SIDES, TRUTH, make, network

from nn.study.bench import (
    CC,
    CNN0,
    CNN1,
    CNN2,
    DIGITS,
    SOLAR_50,
    SOLAR_CNN,
    SOLAR_DEEP,
    SOLAR_WIDE,
    Model,
    TrainStepCase,
)
from nn.terminal.tables import table

HUGE = Model("solar-huge", "50,6400,3200,1664,1", "regression")
GIANT = Model("solar-giant", "50,25600,12800,6656,1", "regression")
CASES = [
    TrainStepCase("cc-b10", CC, 10, 2000, "sgd", 0.01),
    TrainStepCase("cc-b1000", CC, 1000, 100, "sgd", 0.01),
    TrainStepCase("digits-b32", DIGITS, 32, 300),
    TrainStepCase("cnn0-b32", CNN0, 32, 100),
    TrainStepCase("cnn1-b32", CNN1, 32, 100),
    TrainStepCase("cnn2-b32", CNN2, 32, 100),
    TrainStepCase("solar-50-b1000", SOLAR_50, 1000, 100),
    TrainStepCase("solar-wide-b1000", SOLAR_WIDE, 1000, 50),
    TrainStepCase("solar-deep-b1000", SOLAR_DEEP, 1000, 50),
    TrainStepCase("solar-huge-b1000", HUGE, 1000, 20),
    TrainStepCase("solar-giant-b1000", GIANT, 1000, 3),
    TrainStepCase("solar-cnn-b512", SOLAR_CNN, 512, 4),
]
FORWARD_ROWS = (1, 10_000)
MEASUREMENTS = 7
SECONDS = 1.0  # a side's time for one figure, first run aside
COMPILERS = 8  # processes that compile our kernels before anything is timed
SIDE_SECONDS = 110.0  # a side may take for all its cases; what it has measured until then counts


def wanted(case: TrainStepCase, side: str) -> bool:
    """cuDNN computes convolutions only; TF32 matters to large products only; JAX compiles the largest for minutes."""
    convolves, large = "conv" in case.model.layers, case.model in (HUGE, GIANT, SOLAR_CNN)
    if side.endswith("tf32") and not large or side.startswith("jax") and case.model is GIANT:
        return False
    return convolves or not side.startswith("cudnn")


def chosen(names: list[str], side: str) -> list[TrainStepCase]:
    """The cases of these names that a side is measured on."""
    return [case for case in CASES if wanted(case, side) and (not names or case.name.startswith(tuple(names)))]


def median_seconds(call) -> float:
    """Of calls that wait for their end, the first ones aside."""
    call(), call()
    began, times = time.perf_counter(), []
    while len(times) < MEASUREMENTS or (time.perf_counter() - began < SECONDS / 10 and len(times) < 1000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        if time.perf_counter() - began > SECONDS and len(times) >= 3:
            break
    return float(np.median(times))


# ---------------------------------------------------------------- one side, in a process of its own


def measure(side: str, names: list[str], folder: Path) -> Iterator[dict]:
    """The side's version, then its figures as they are measured; results go to files in the folder."""
    library = make(side)
    yield {"version": library.version}
    for case in chosen(names, side):
        if hasattr(library, "results") and sum(layer.parameters for layer in network(case).layers) <= LARGEST_CHECKED:
            gradients, outputs = library.results(case)
            np.savez(folder / f"{side}-{case.name}", gradients=gradients, outputs=outputs)
        if side != TRUTH:
            epoch, batches = library.epoch(case)
            yield {"case": case.name, "what": "train", "us": 1e6 * median_seconds(epoch) / batches}
            del epoch
            gc.collect()  # what a case had on the GPU goes before the next one needs it
    for case, rows in itertools.product(chosen(names, side) if side != TRUTH else [], FORWARD_ROWS):
        call = library.forward(case, rows)
        yield {"case": case.name, "what": f"forward-{rows}", "us": 1e6 * median_seconds(call)}
        del call
        gc.collect()


def compile_ahead(side: str, name: str) -> None:
    """Run what `measure` will, once: CuPy keeps the compiled kernels on disk."""
    library, (case,) = make(side), chosen([name], side)
    if case.model is not GIANT:
        library.results(case)
        for rows in FORWARD_ROWS:
            library.forward(case, rows)()
    library.epoch(case, batches=1)[0]()


# ---------------------------------------------------------------- all of them


def error(folder: Path, side: str, case: str, what: str) -> float | None:
    """Relative distance from the truth, the median of several batches; None where nothing is to be compared."""
    files = [folder / f"{name}-{case}.npz" for name in (side, TRUTH)]
    if not all(file.exists() for file in files):
        return None
    pairs = zip(*(np.load(file)[what].astype(np.float64) for file in files), strict=True)
    return float(np.median([np.linalg.norm(mine - true) / np.linalg.norm(true) for mine, true in pairs]))


def run_side(side: str, names: list[str], folder: Path) -> tuple[str | None, dict]:
    """(version, {(case, what): us}) of one side, as far as it came."""
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder), *names]
    with open(folder / side, "w+") as lines:
        began, process = time.perf_counter(), subprocess.Popen(command, stdout=lines)
        try:
            code = process.wait(SIDE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        print(f"{side}: {time.perf_counter() - began:.0f} s, exit code {code}", file=sys.stderr)
        lines.seek(0)
        found = [json.loads(line) for line in lines if line.endswith("}\n")]
    return found[0]["version"] if found else None, {(f["case"], f["what"]): f["us"] for f in found[1:]}


def device() -> str:
    """The GPU, its driver and the CUDA version in use."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    with contextlib.suppress(OSError):
        nvml, text = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(text, 96) == 0:
            properties += f", driver {text.value.decode()}"
    return f"{properties}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}, CuPy {cupy.__version__}"


def compare(names: list[str], sides: list[str]) -> dict:
    """Figures and errors of all cases on all sides."""
    jobs = [(side, case.name) for side in sides if side in OURS for case in chosen(names, side)]
    with ProcessPoolExecutor(COMPILERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        for job in [pool.submit(compile_ahead, *job) for job in jobs]:
            job.exception()  # if there is one, the measurement itself will tell
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {side: run_side(side, names, folder) for side in [TRUTH, *sides]}
        results = []
        for case in chosen(names, "torch"):
            for what, kind in [("train", "gradients"), *((f"forward-{rows}", "outputs") for rows in FORWARD_ROWS)]:
                row = {
                    side: {"us": figure, "error": error(folder, side, case.name, kind)}
                    for side in sides
                    if (figure := found[side][1].get((case.name, what))) is not None
                }
                results.append({"case": case.name, "what": what, "sides": row})
    versions = {side: found[side][0] for side in sides}
    return {"device": device(), "versions": versions, "results": results}


def report(result: dict, sides: list[str]) -> None:
    """What `compare` returned, as tables."""
    versions = sorted({version for version in result["versions"].values() if version})
    print(f"{result['device']}; {'; '.join(versions)}")
    for title, whats in (("training step", ["train"]), ("forward pass", [f"forward-{rows}" for rows in FORWARD_ROWS])):
        rows = []
        for line in result["results"]:
            if line["what"] in whats:
                own, name = line["sides"], line["case"]
                errors = [own[side]["error"] for side in ("cuda", "torch") if side in own]
                rows.append(
                    [
                        name if title == "training step" else f"{name.rsplit('-', 1)[0]} {line['what'][8:]}",
                        *(f"{own[side]['us']:.1f}" if side in own else "" for side in sides),
                        *("" if value is None else f"{value:.0e}" for value in errors),
                    ]
                )
        headers = [f"{title}, us", *sides, *[f"error {side}" for side in ("cuda", "torch") if side in sides]]
        table(headers, rows)


def command(
    cases: Annotated[list[str] | None, typer.Argument(help="Names of cases, or how they begin (all).")] = None,
    sides: Annotated[str, typer.Option(help="Which sides to measure, with commas.")] = ",".join(SIDES),
    json_file: Annotated[str | None, typer.Option("--json", help="A file for the figures.")] = None,
    side: Annotated[str | None, typer.Option(hidden=True)] = None,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Time training steps and forward passes on the GPU, beside PyTorch and JAX."""
    if side:
        for figure in measure(side, cases or [], folder):
            print(json.dumps(figure), flush=True)
        return
    result = compare(cases or [], sides.split(","))
    report(result, sides.split(","))
    if json_file:
        Path(json_file).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    typer.run(command)
