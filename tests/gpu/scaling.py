"""Rows a second that several GPUs train, beside one: `python tests/gpu/scaling.py [case ...]`.

Each GPU gets a batch of the same size, as in the solar study (row S5): n times the rows of one GPU would be ideal. The
table also has what a batch sends, how long that takes by itself, at which bandwidth (bytes that the busiest link
carries, as NCCL's own benchmark counts them), and how much longer a batch takes than on one GPU. Figures are medians of
several epochs. `--json FILE` writes them.
"""

from __future__ import annotations

import gc
import json
import time
from typing import Annotated

import numpy as np
import typer

from nn.backends.cuda.cudnn import CudnnEngine
from nn.backends.cuda.engine import CudaEngine
from nn.backends.cuda.group import create
from nn.backends.engine import EpochSettings
from nn.layers import parse
from nn.nn_aux import DISTRIBUTIONS
from nn.study.bench import SOLAR_CNN, SOLAR_DEEP

GIANT = "50,25600,12800,6656,1"
CASES = {  # layers, rows a GPU, backend, float32 products with 10 bits
    "solar-giant": (GIANT, 1000, "cuda", False),
    "solar-giant-tf32": (GIANT, 1000, "cuda", True),
    "cc": ("30,60,10,1", 1000, "cuda", False),
    "solar-deep": (SOLAR_DEEP.layers, 1000, "cuda", False),
    "solar-cnn": (SOLAR_CNN.layers, 512, "cuda", False),
    "solar-cnn-cudnn": (SOLAR_CNN.layers, 512, "cudnn", False),
}
LARGEST = 100_000_000  # parameters; larger networks have
BATCHES = 48, 8  # batches an epoch, others the first
MANY = 20_000  # rows of the data set
EPOCHS = 5  # that are timed
MESSAGES = 10  # of each kind, to time them by themselves
WIRE = {  # bytes that the busiest link carries for each byte of a message, of n GPUs
    "all_reduce": lambda n: 2 * (n - 1) / n, "reduce": lambda n: 1.0, "broadcast": lambda n: 1.0,
}  # fmt: skip


class Measured:
    """A case on some number of GPUs."""

    def __init__(self, case: str, gpus: int, distribute: str, start: np.ndarray):
        spec, self.batch, backend, tf32 = CASES[case]
        self.layers, self.gpus = parse(spec, "relu", "linear"), gpus
        kind = CudnnEngine if backend == "cudnn" else CudaEngine
        self.engine = create(
            kind, backend, self.layers, "mse", "float32", gpus=tuple(range(gpus)),
            distribute=distribute if gpus > 1 else None, tf32=tf32,
        )  # fmt: skip
        self.members = getattr(self.engine, "engines", [self.engine])
        self.engine.set("parameters", start)
        self.batches = BATCHES[len(start) > LARGEST]
        rng, self.rows = np.random.default_rng(0), gpus * self.batch * self.batches
        x = rng.standard_normal((MANY, self.layers[0].inputs), "float32")  # rows that are taken again and again
        self.data = self.engine.load(x, rng.standard_normal((MANY, 1), "float32"))

    def seconds(self) -> float:
        """Of an epoch: the median."""
        settings = EpochSettings(optimizer="adam", batch=self.gpus * self.batch, rates=[1e-5] * 9, seed=0)
        times = []
        for number in range(EPOCHS + 2):  # libraries set themselves up and graphs are captured in the first
            order = np.random.default_rng(number).integers(MANY, size=self.rows)
            began = time.perf_counter()
            self.engine.epoch(self.data, order, settings, self.engine.progress(step=number * self.batches))
            times.append(time.perf_counter() - began)
        return float(np.median(times[2:]))

    def sent(self) -> list[tuple[str, int]]:
        """How a batch's values are sent, and how many bytes at a time."""
        program = next(iter(self.members[0]._runners.values())).program
        return [(how, 4 * values) for how, values in program.sent]

    def sending_seconds(self) -> float:
        """What a batch sends, sent by itself: the slowest member's mean."""

        def send(_, engine) -> float:
            import cupy

            runner = next(iter(engine._runners.values()))
            with cupy.cuda.Device(engine.device), engine.stream:
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                for number in range(MESSAGES + 1):
                    if number == 1:
                        begin.record(engine.stream)
                    for how, values in runner.program.sent:
                        call = getattr(runner.communicator, how)
                        memory = runner.parameters if how == "broadcast" else runner.gradients
                        call(memory.data.ptr, values, engine.dtype, engine.stream)
                end.record(engine.stream)
                end.synchronize()
                return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / MESSAGES

        return max(self.engine._all(send))


def measure(case: str, gpus: int, distribute: str, start: np.ndarray, alone: dict | None) -> dict:
    """The figures of a case; alone: those of one GPU."""
    it = Measured(case, gpus, distribute, start)
    seconds = it.seconds()
    figures = {
        "case": case, "gpus": gpus, "distribute": distribute if gpus > 1 else "", "batch": gpus * it.batch,
        "rows_per_second": it.rows / seconds, "batch_ms": 1e3 * seconds / it.batches, "engine": it.engine.describe(),
    }  # fmt: skip
    if alone:
        sent, sending = it.sent(), it.sending_seconds()
        figures |= {
            "speedup": figures["rows_per_second"] / alone["rows_per_second"],
            "sent_bytes": sum(size for _, size in sent),
            "messages": len(sent),
            "sending_ms": 1e3 * sending,
            "bus_gb_per_second": sum(WIRE[how](gpus) * size for how, size in sent) / sending / 1e9,
            "longer_ms": figures["batch_ms"] - alone["batch_ms"],
        }
    return figures


HEAD = "case              GPUs            batch   rows/s  times  ms/batch  MB sent  in  ms alone  GB/s ms longer"


def line(f: dict) -> str:
    """Figures as a line of the table."""
    text = f"{f['case']:17} {f['gpus']:4} {f['distribute']:9} {f['batch']:7} {f['rows_per_second']:8.0f}"
    if "speedup" not in f:
        return f"{text}        {f['batch_ms']:9.2f}"
    return (
        f"{text} {f['speedup']:6.2f} {f['batch_ms']:9.2f} {f['sent_bytes'] / 1e6:8.1f} {f['messages']:3} "
        f"{f['sending_ms']:9.3f} {f['bus_gb_per_second']:5.0f} {f['longer_ms']:9.3f}"
    )


def command(
    cases: Annotated[list[str] | None, typer.Argument(help="names of cases (all)")] = None,
    gpus: Annotated[str, typer.Option(help="how many GPUs to measure beside one")] = "2,4",
    json_file: Annotated[str | None, typer.Option("--json", help="a file for the figures")] = None,
) -> None:
    """Time training on several GPUs."""
    from nn.backends.cuda.device import device_count

    results = []
    print(HEAD)
    for case in cases or CASES:
        layers = parse(CASES[case][0], "relu", "linear")
        rng = np.random.default_rng(0)
        start = [
            (rng.random(layer.parameters, "float32") - 0.5) * np.float32(3.4 / np.sqrt(layer.fan_in))
            for layer in layers
            if layer.parameters
        ]
        start, alone = np.concatenate(start), None
        for count in (1, *map(int, gpus.split(","))):
            for distribute in DISTRIBUTIONS if count > 1 else ("mirrored",):
                if count > device_count():
                    print(f"{case:17} {count:4} skipped: this machine has {device_count()}")
                    continue
                try:
                    figures = measure(case, count, distribute, start, alone)
                except Exception as error:  # the others are worth their table all the same
                    print(f"{case:17} {count:4} {distribute}: {type(error).__name__}: {error}")
                    continue
                alone = alone or figures
                results.append(figures)
                print(line(figures), flush=True)
                gc.collect()
                if json_file:
                    with open(json_file, "w") as file:
                        json.dump(results, file, indent=1)


if __name__ == "__main__":
    typer.run(command)
