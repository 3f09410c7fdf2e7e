"""The engines, which compute networks. No module above this folder knows a backend's
name, except to list it.

    engine.py   Engine and Pack: the interfaces; EpochSettings, PackJob, TimedStep
    cpu.py      seq and omp: the C core
    member.py   the pack of an engine that gains nothing from several networks at once;
                an Engine for one member of a pack, here or on another rank; data that
                several devices compute with
    mpi.py      ranks of seq and omp
    cuda/       cuda and cudnn: one GPU or several
    elsewhere.py  rows in arrays of other libraries, on a GPU too: their predictions
                stay there
    auto.py     which backend `auto` stands for
    TRAITS      facts of each backend that are known before it computes

Imports: utils, nn_aux, core, cluster, layers, settings. Imported by: nn, watch, test,
train, study, commands, cli.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ..cluster import ALONE, RankGroup, expect_ranks
from ..settings.flags import BY_NAME, DEFAULTS
from ..utils import UsageError, log
from . import auto


class BackendTraits(NamedTuple):
    """Facts of a backend that callers may ask for without making an engine."""

    # networks live in the machine's own memory, and the processor is busy while they
    # compute
    on_host: bool
    # of the program's own memory beside rows and parameters: a measured peak, the same
    # everywhere
    base_bytes: int
    rate: float  # operations a second to expect at least, rough
    threaded: bool = False  # uses more than one thread of the processor
    times_single_batches: bool = False  # `record` makes training no slower


TRAITS = {
    "seq": BackendTraits(True, 48 << 20, 1e9, times_single_batches=True),
    "omp": BackendTraits(True, 48 << 20, 1e11, True, times_single_batches=True),
    "cuda": BackendTraits(False, 2 << 30, 1e11),
    "cudnn": BackendTraits(False, 2 << 30, 1e11),
}


def resolve(
    backend: str,
    layers=None,
    rows: int = DEFAULTS["batch_number"],
    *,
    gpus: tuple[int, ...] = (),
    tf32: bool = False,
) -> str:
    """Return the backend that `auto` stands for, by a network's layers and the rows of
    a batch; check any other name.

    gpus, tf32: need a backend on a GPU. Without layers `auto` is on the processor.
    Raises UsageError.
    """
    BY_NAME["backend"].check(backend)
    of_gpus = {"--gpus": gpus, "--dtype tf32": tf32}
    given = " and ".join(flag for flag, value in of_gpus.items() if value)
    if given and backend in TRAITS and TRAITS[backend].on_host:
        remedy = f"use --backend cuda, or leave out {given}"
        raise UsageError(
            f"{given}: --backend {backend} runs on the processor; {remedy}"
        )
    if backend != "auto":
        return backend
    if given:
        from .cuda import device

        if reason := device.missing(f"leave out {given}"):
            raise UsageError(f"{given}: {reason}")
        chosen = "cuda"
        reason = f"a GPU is asked for by {given}"
    elif layers:
        chosen, reason = auto.choose(layers, rows)
    else:
        chosen = "omp"
        reason = "no network was given"
    log.info("--backend auto chose %s: %s", chosen, reason)
    return chosen


def gpu_count() -> int:
    """Return the number of GPUs. Raises UsageError where none is usable."""
    from .cuda import device

    return device.device_count()


class Device(NamedTuple):
    """Where an engine computes: arguments of `create`. threads: of the processor."""

    threads: int | None = None
    gpus: tuple[int, ...] = ()
    distribute: str | None = None


def ranks_and_devices(
    backend: str,
    threads: int | None = None,
    *,
    gpus: tuple[int, ...] = (),
    distribute: str | None = None,
) -> tuple[RankGroup, list[Device]]:
    """Return what computes networks that have nothing to do with each other: the ranks
    that share them out, and this rank's devices, of one GPU at most each, among which
    its own are shared out.
    Arguments as those of `create`; all ranks call this alike.

    Raises what `create` raises for GPUs or ranks that are not there.
    """
    if TRAITS[backend].on_host:
        rank_group = ALONE
        if distribute:
            rank_group = expect_ranks()
        if rank_group.size > 1:
            from .cpu import share_cores

            if not TRAITS[backend].threaded:
                threads = 1
            threads = share_cores(rank_group, threads)
        return rank_group, [Device(threads)]
    from .cuda import group

    _check_gpu(backend)
    rank_group, devices = group.ranks_and_gpus(gpus, distribute)
    return rank_group, [Device(threads, numbers) for numbers in devices]


def _check_gpu(backend: str) -> None:
    """Raise UsageError where no GPU can be used."""
    from .cuda import device

    if reason := device.missing():
        raise UsageError(f"--backend {backend}: {reason}")


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
    """Return the Engine (engine.py) of a resolved backend's name for a network.

    gpus: none, GPU 0, or one for each rank of this host; tf32: float32 products may be
    taken with 10 bits of mantissa; distribute: where the parameters are, of several
    GPUs, or of the ranks that share batches.
    """
    if TRAITS[backend].on_host:
        from .cpu import CpuEngine

        return CpuEngine(backend, layers, loss, dtype, threads, distribute)
    _check_gpu(backend)
    if backend == "cudnn":
        from .cuda.cudnn import CudnnEngine as GpuEngine
    else:
        from .cuda.engine import CudaEngine as GpuEngine
    from .cuda import group

    make = partial(GpuEngine, backend, layers, loss, dtype, tf32=tf32)
    return group.create(make, gpus, distribute)
