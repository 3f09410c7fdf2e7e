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
"""

from __future__ import annotations

from typing import NamedTuple

from ..utils import UsageError

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


def resolve(backend: str) -> str:
    """The backend that `auto` stands for; any other name is checked. Raises UsageError."""
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend}: there is no such backend; choose from {', '.join(BACKENDS)}")
    return "omp" if backend == "auto" else backend


def on_host(backend: str) -> bool:
    """Whether a resolved backend's networks live in the machine's own memory."""
    return backend in ("seq", "omp")


def create(backend: str, layers, loss: str, dtype: str, threads: int | None):
    """The engine of a resolved backend's name for a network."""
    if backend == "cuda":
        from .cuda import CudaEngine

        return CudaEngine(backend, layers, loss, dtype)
    if backend == "cudnn":
        from .cudnn import CudnnEngine

        return CudnnEngine(backend, layers, loss, dtype)
    from .cpu import CpuEngine

    return CpuEngine(backend, layers, loss, dtype, threads)
