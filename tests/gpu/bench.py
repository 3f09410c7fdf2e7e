"""Microseconds a training step takes on the GPU, beside PyTorch's there: `python tests/gpu/bench.py [case ...]`.

Every side trains the same networks on the same rows: gathered in a new order each epoch, forward, loss, backward,
update. PyTorch runs as its users write it (eager), and with its step captured in a CUDA graph; TF32 is off on all
sides unless a column says so. Each figure is the median of several epochs. `--json FILE` writes all of them.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from typing import Annotated

import numpy as np
import typer

from nn.bench import CC, CNN0, CNN1, CNN2, DIGITS, SOLAR_50, SOLAR_CNN, SOLAR_DEEP, SOLAR_WIDE, Model, Training
from nn.layers import parse
from nn.nn_aux import TASKS, PhiloxOrder
from nn.train import ADAM

HUGE = Model("solar-huge", "50,6400,3200,1664,1", "regression")
GIANT = Model("solar-giant", "50,25600,12800,6656,1", "regression")
CASES = [
    Training("cc-b10", CC, 10, 2000, "sgd", 0.01),
    Training("cc-b1000", CC, 1000, 100, "sgd", 0.01),
    Training("digits-b32", DIGITS, 32, 300),
    Training("cnn0-b32", CNN0, 32, 100),
    Training("cnn1-b32", CNN1, 32, 100),
    Training("cnn2-b32", CNN2, 32, 100),
    Training("solar-50-b1000", SOLAR_50, 1000, 100),
    Training("solar-wide-b1000", SOLAR_WIDE, 1000, 50),
    Training("solar-deep-b1000", SOLAR_DEEP, 1000, 50),
    Training("solar-huge-b1000", HUGE, 1000, 20),
    Training("solar-giant-b1000", GIANT, 1000, 3),
    Training("solar-cnn-b512", SOLAR_CNN, 512, 4),
]
MEASUREMENTS = 5
SECONDS = 3.0  # a side's time for one case, first run aside


def rows_of(case: Training, layers):
    """x (rows, inputs), and labels (rows,) or y (rows, 1)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case.rows, layers[0].inputs), case.dtype)
    if case.model.task == "regression":
        return x, rng.standard_normal((case.rows, layers[-1].outputs), case.dtype)
    labels = rng.integers(0, max(2, layers[-1].outputs), case.rows)
    return x, labels.astype(np.int32) if case.model.task == "multiclass" else labels[:, None].astype(case.dtype)


def ours(case: Training, backend: str, tf32: bool = False):
    """A function that trains one epoch and returns its seconds."""
    from nn.backends.cuda import CudaEngine
    from nn.backends.cudnn import CudnnEngine

    output, loss = TASKS[case.model.task]
    layers = parse(case.model.layers, "relu", output)
    kind = CudnnEngine if backend == "cudnn" else CudaEngine
    engine = kind(backend, layers, loss, case.dtype, tf32=tf32)
    start = [
        np.random.default_rng(0).standard_normal(layer.parameters, case.dtype) / np.sqrt(layer.fan_in)
        for layer in layers
        if layer.weight_shape
    ]
    engine.set("parameters", np.concatenate(start).astype(case.dtype))
    data = engine.load(*rows_of(case, layers))
    order, number = PhiloxOrder(case.rows, 0), [0]
    rates = [case.learning_rate] * 9
    settings = engine.training(optimizer=case.optimizer, batch=case.batch, rates=rates, seed=0, **ADAM)

    def epoch() -> float:
        rows = order.epoch(number[0])
        began = time.perf_counter()
        engine.epoch(data, rows, settings, engine.progress(step=number[0] * case.batches))
        number[0] += 1
        return time.perf_counter() - began

    return epoch


def torch_network(torch, layers):
    """The network in PyTorch; `same` padding and valid one, pooling, dropout, dense."""
    modules = []
    for layer in layers:
        if layer.kind == "conv":
            (height, width), k, s = layer.in_shape[1:], layer.kernel, layer.stride
            below = max(0, (layer.out_shape[1] - 1) * s + k - height - layer.pad_top)
            right = max(0, (layer.out_shape[2] - 1) * s + k - width - layer.pad_left)
            padding = 0
            if (below, right) == (layer.pad_top, layer.pad_left):
                padding = (layer.pad_top, layer.pad_left)
            else:
                modules.append(torch.nn.ZeroPad2d((layer.pad_left, right, layer.pad_top, below)))
            modules.append(torch.nn.Conv2d(layer.in_shape[0], layer.out_shape[0], k, s, padding))
        elif layer.kind == "dense":
            modules.append(torch.nn.Linear(layer.inputs, layer.outputs))
        elif layer.kind == "maxpool":
            modules.append(torch.nn.MaxPool2d(layer.kernel, layer.stride))
        elif layer.kind == "dropout":
            modules.append(torch.nn.Dropout(layer.rate))
        elif layer.kind == "flatten":
            modules.append(torch.nn.Flatten())
        activation = {"relu": torch.nn.ReLU, "sigmoid": torch.nn.Sigmoid}.get(layer.activation)
        if activation and not (layer is layers[-1] and layer.activation == "sigmoid"):  # the loss takes logits
            modules.append(activation())
    return torch.nn.Sequential(*modules).cuda()


def pytorch(case: Training, graph: bool, tf32: bool = False):
    """As `ours`."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    layers = parse(case.model.layers, "relu", TASKS[case.model.task][0])
    model = torch_network(torch, layers)
    x, y = (torch.from_numpy(array).cuda() for array in rows_of(case, layers))
    x = x.reshape(len(x), *layers[0].in_shape) if layers[0].in_shape[1:] != (1, 1) else x
    y = y.long() if case.model.task == "multiclass" else y
    loss_of = {"multiclass": "cross_entropy", "binary": "binary_cross_entropy_with_logits"}.get(
        case.model.task, "mse_loss"
    )
    loss_of = getattr(torch.nn.functional, loss_of)
    if case.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=case.learning_rate, capturable=graph)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=case.learning_rate)

    def step(rows):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        return loss

    replay = step
    if graph:
        rows = torch.arange(case.batch, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(rows)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            step(rows)

        def replay(batch_rows):
            rows.copy_(batch_rows)
            captured.replay()

    def epoch() -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        order = torch.randperm(case.rows, device="cuda")
        for at in range(0, case.rows, case.batch):
            replay(order[at : at + case.batch])
        torch.cuda.synchronize()
        return time.perf_counter() - began

    epoch.step = step  # a graph does not keep the tensors alive that it works on
    return epoch


SIDES = {
    "cuda": lambda case: ours(case, "cuda"),
    "cudnn": lambda case: ours(case, "cudnn"),
    "cuda tf32": lambda case: ours(case, "cuda", tf32=True),
    "torch": lambda case: pytorch(case, graph=False),
    "torch graph": lambda case: pytorch(case, graph=True),
}


def wanted(case: Training, side: str) -> bool:
    """cuDNN computes convolutions only; TF32 matters to large products only."""
    convolves = "conv" in case.model.layers
    return {"cudnn": convolves, "cuda tf32": case.model in (HUGE, GIANT)}.get(side, True)


def microseconds(case: Training, side: str) -> float:
    """Median of several epochs, a batch of them."""
    epoch = SIDES[side](case)
    epoch(), epoch()
    began, times = time.perf_counter(), []
    while len(times) < MEASUREMENTS and time.perf_counter() - began < SECONDS:
        times.append(epoch())
    return 1e6 * float(np.median(times)) / case.batches


def measure(names: list[str], side: str) -> dict[str, float]:
    """Microseconds of each case on a side."""
    figures = {}
    for case in CASES:
        if wanted(case, side) and (not names or any(case.name.startswith(name) for name in names)):
            figures[case.name] = microseconds(case, side)
            gc.collect()  # what a case had on the GPU goes before the next one needs it
    return figures


def main(names: list[str], sides: list[str], path: str | None) -> None:
    """Measure each side in a process of its own, print a table, write the figures."""
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    results = {}
    for side in sides:
        print(f"measuring {side}", file=sys.stderr)
        command = [sys.executable, __file__, "--side", side, *names]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        results[side] = json.loads(done.stdout) if done.returncode == 0 else {}
    print(f"{device}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}, CuPy {cupy.__version__}; microseconds a batch")
    print("case".ljust(20) + "".join(side.rjust(13) for side in sides))
    for case in CASES:
        figures = [f"{results[side][case.name]:.1f}" if case.name in results[side] else "" for side in sides]
        if any(figures):
            print(case.name.ljust(20) + "".join(figure.rjust(13) for figure in figures))
    if path:
        with open(path, "w") as file:
            json.dump({"device": device, "microseconds": results}, file, indent=1)


def command(
    cases: Annotated[list[str] | None, typer.Argument(help="names of cases, or how they begin (all)")] = None,
    sides: Annotated[str, typer.Option(help="which sides to measure")] = ",".join(SIDES),
    json_file: Annotated[str | None, typer.Option("--json", help="a file for the figures")] = None,
    side: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Time training steps on the GPU. --side measures that one in this process and prints its figures as JSON."""
    if side:
        json.dump(measure(cases or [], side), sys.stdout)
    else:
        main(cases or [], sides.split(","), json_file)


if __name__ == "__main__":
    typer.run(command)
