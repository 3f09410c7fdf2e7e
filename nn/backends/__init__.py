"""The engines: what computes a network. Above this folder nobody knows which device does.

An engine is given the layers and the loss once and then offers, for parameter vectors in the order of nn.h:

    set(what, vector), get(what) -> vector     what: "parameters", "moment1", "moment2"
    load(x, y) -> data                          a data set, put where the engine wants it
    epoch(data, order, training, progress)      all batches of one epoch; blocks, without the GIL
    gradients(x, y, seed, step) -> (loss, vector, dx)
    predict(data, rows) -> scores               rows: indices, or None for all
    loss(data, rows) -> mean loss
    record(batches), recorded() -> steps        when each step of the next batches of training was done
    threads_for(rows), bytes()
    team                                        the ranks that share its batches (cluster.py), most often one alone
"""

from __future__ import annotations

from typing import NamedTuple

from ..utils import UsageError, default_threads, log

BACKENDS = {
    "auto": "the best for the network's size and this machine",
    "seq": "one thread, plain loops: the readable truth",
    "omp": "SIMD and threads on the processor",
    "cuda": "an NVIDIA GPU, by our own kernels and cuBLAS",
    "cudnn": "an NVIDIA GPU, convolution and pooling by cuDNN",
}


class Step(NamedTuple):
    """A stretch of a batch's time; `begin` and `end` are seconds on the clock of time.perf_counter."""

    name: str  # gather, forward, loss, backward, update, communication, end (what is left of the batch)
    layer: int | None
    begin: float
    end: float
    lane: str = ""  # the stream or device, where several things happen at once


DISTRIBUTIONS = {
    "mirrored": "each device holds the parameters, gradients are added up over all",
    "central": "one device holds the parameters, the others fetch them for each batch",
}
USUAL_ROWS = 32  # of a batch, where nobody has said how many


def device_numbers(gpus: str | int) -> tuple[int, ...]:
    """The GPUs that `--gpus` names: 2, the first two; 0,2 those; 2, that one alone. Raises ValueError."""
    text = str(gpus)
    if "," not in text:
        numbers = tuple(range(int(text)))
    else:
        numbers = tuple(int(word) for word in text.removesuffix(",").split(","))
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError(text)
    return numbers


def resolve(
    backend: str, layers=None, rows: int = USUAL_ROWS, *, gpus: tuple[int, ...] = (), tf32: bool = False
) -> str:
    """The backend that `auto` stands for, for a network of these layers and batches of that many rows; any other name
    is checked, and whether it goes with GPUs and TF32, where they are asked for. Without layers `auto` stays on the
    processor. Raises UsageError."""
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend}: there is no such backend; choose from {', '.join(BACKENDS)}")
    flag = "--gpus" if gpus else "--tf32"
    if (gpus or tf32) and on_host(backend):
        remedy = f"use --backend cuda, or leave out {flag}"
        raise UsageError(f"{flag}: --backend {backend} computes on the processor; {remedy}")
    if backend != "auto":
        return backend
    if gpus or tf32:
        from . import gpu

        if reason := gpu.missing(f"leave out {flag}"):
            raise UsageError(f"{flag}: {reason}")
        chosen, reason = "cuda", f"{flag} asks for a GPU"
    else:
        chosen, reason = _choose(layers, rows) if layers else ("omp", "no network was given")
    log.info("--backend auto: %s, since %s", chosen, reason)
    return chosen


def _choose(layers, rows: int) -> tuple[str, str]:
    """omp or cuda, whichever should take less time for a training step, and why. Decided by sizes and by what the
    machine has, never by timing."""
    from . import gpu

    if reason := gpu.missing():
        return "omp", reason
    here, there = processor_microseconds(layers, rows, default_threads()), gpu_microseconds(layers, rows)
    times = f"a batch of {rows} rows should take {here:.0f} us on the processor and {there:.0f} us on the GPU"
    if here <= there:
        return "omp", times
    try:
        gpu.cupy()
    except UsageError as error:
        return "omp", str(error)
    return "cuda", times


def _operations(layers, rows: int) -> float:
    """Multiplications and additions of a training step, three products a layer."""
    return 6.0 * rows * sum(layer.outputs * layer.fan_in for layer in layers if layer.weight_shape)


def processor_microseconds(layers, rows: int, cores: int) -> float:
    """A training step on omp, roughly: 5 10^4 operations a microsecond and core, of many 10^5, and a core more for each
    2 10^6 operations of the forward pass (net.c). Measured (AVX-512, 2 cores of Zen 4): cc at batch 10 2.2 to 3 us, at
    1000 158 us, digits at 32 264 us, cnn0 at 32 1.3 ms, solar-deep at 1000 13.7 ms; 12 cores of a Xeon: 50-50-1 at 1000
    120 to 290 us, solar-deep 2.6 to 4 ms."""
    operations = _operations(layers, rows)
    rate = 5e4 if operations < 3e7 else 1e5
    return 0.5 + operations / (rate * min(cores, int(1.5 + operations / 6e6)))


def gpu_microseconds(layers, rows: int) -> float:
    """A training step on cuda, roughly: 3.5 us and 0.01 a row for small dense networks (small.py); else two or three
    phases of 2.5 us a layer, and 1.5 10^7 operations a microsecond, of many 4 10^7. Measured on an H200: cc at batch 10
    3.6 us, at 1000 13 us, digits at 32 31 us, cnn0 at 32 70 us, solar-deep at 1000 160 us, solar-cnn at 512 3.9 ms."""
    operations = _operations(layers, rows)
    dense = all(layer.kind == "dense" for layer in layers)
    if dense and sum(layer.parameters for layer in layers) <= 6000:
        return 3.5 + 0.01 * rows
    return 6.0 * len(layers) + min(operations / 1.5e7, 300 + operations / 4e7)


def on_host(backend: str) -> bool:
    """Whether a resolved backend's networks live in the machine's own memory."""
    return backend in ("seq", "omp")


def create(
    backend: str,
    layers,
    loss: str,
    dtype: str,
    threads: int | None = None,
    *,
    gpus: tuple[int, ...] = (),
    tf32: bool = False,
    distribute: str | None = None,
):
    """The engine of a resolved backend's name for a network. gpus: none, GPU 0, or one for each rank of this host;
    tf32: float32 products may be taken with 10 bits of mantissa; distribute: where the parameters are, of several GPUs,
    or of the ranks that share batches."""
    if on_host(backend):
        from .cpu import CpuEngine

        return CpuEngine(backend, layers, loss, dtype, threads, distribute)
    from . import gpu

    if reason := gpu.missing():
        raise UsageError(f"--backend {backend}: {reason}")
    if backend == "cudnn":
        from .cudnn import CudnnEngine as GpuEngine
    else:
        from .cuda import CudaEngine as GpuEngine
    from . import group

    return group.create(GpuEngine, backend, layers, loss, dtype, gpus=gpus, distribute=distribute, tf32=tf32)
