"""The cost model of `--backend auto`: how long a training step should take on the
processor and on the GPU.

Decided by sizes and by what the machine has, never by timing: the same command chooses
the same backend.
"""

from __future__ import annotations

from ..utils import UsageError, default_threads


def choose(layers, rows: int) -> tuple[str, str]:
    """Return (backend, reason): omp or cuda, the one with the shorter training step for
    batches of `rows` rows."""
    from .cuda import device

    if reason := device.missing():
        return "omp", reason
    on_processor = processor_microseconds(layers, rows, default_threads())
    on_gpu = gpu_microseconds(layers, rows)
    times = f"a batch of {rows} rows should take {on_processor:.0f} us on the processor and {on_gpu:.0f} us on the GPU"
    if on_processor <= on_gpu:
        return "omp", times
    try:
        device.cupy()
        device.check_process()
    except UsageError as error:
        return "omp", str(error)
    return "cuda", times


def _operations(layers, rows: int) -> float:
    """Return multiplications and additions of a training step, three products a layer;
    an embedding layer counts as one product an output."""
    products = sum(
        layer.outputs * layer.fan_in
        for layer in layers
        if layer.weight_shape or layer.columns
    )
    return 6.0 * rows * products


def processor_microseconds(layers, rows: int, cores: int) -> float:
    """Return the time of a training step on omp, roughly.

    5 10^4 operations a microsecond and core, 10^5 for large steps; one core more for
    each 2 10^6 operations of the forward pass (threads.c). Measured (AVX-512, 2 cores
    of Zen 4): cc at batch 10 2.2 to 3 us, at 1000 158 us, digits at 32 264 us, cnn0 at
    32 1.3 ms, solar-deep at 1000 13.7 ms; 12 cores of a Xeon: 50-50-1 at 1000 120 to
    290 us, solar-deep 2.6 to 4 ms.
    """
    operations = _operations(layers, rows)
    if operations < 3e7:
        rate = 5e4
    else:
        rate = 1e5
    return 0.5 + operations / (rate * min(cores, int(1.5 + operations / 6e6)))


def gpu_microseconds(layers, rows: int) -> float:
    """Return the time of a training step on cuda, roughly.

    Small dense networks (small.py): 3.5 us and 0.01 a row. Others: two or three phases
    of 2.5 us a layer, and 1.5 10^7 operations a microsecond, 4 10^7 for large steps.
    Measured on an H200: cc at batch 10 3.6 us, at 1000 13 us, digits at 32 31 us, cnn0
    at 32 70 us, solar-deep at 1000 160 us, solar-cnn at 512 3.9 ms.
    """
    operations = _operations(layers, rows)
    dense = all(layer.kind == "dense" for layer in layers)
    if dense and sum(layer.parameters for layer in layers) <= 6000:
        return 3.5 + 0.01 * rows
    return 6.0 * len(layers) + min(operations / 1.5e7, 300 + operations / 4e7)
