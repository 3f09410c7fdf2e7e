"""CPU ranks: MPI for the C core, which calls it once a batch without Python (nn_ranks in nn.h).

mpi4py finds the MPI library and knows its handles; the functions are taken from the very library that it is linked to.
"""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import dataclass

from .. import cluster
from ..cluster import rendezvous
from ..utils import NnError, UsageError

FUNCTIONS = """
int MPI_Init_thread(int *argc, void *argv, int required, int *provided);
int MPI_Finalize(void);
int MPI_Iallreduce(const void *, void *, int, intptr_t, intptr_t, intptr_t, void *);
int MPI_Ireduce(const void *, void *, int, intptr_t, intptr_t, int, intptr_t, void *);
int MPI_Ibcast(void *, int, intptr_t, int, intptr_t, void *);
int MPI_Iallgather(const void *, int, intptr_t, void *, int, intptr_t, intptr_t, void *);
int MPI_Test(void *, int *, void *);
"""
INSTALL = 'pip install "nn-trainer[mpi]", and an MPI if there is none: pip install mpich'
FIXES = {
    "srun": "say which of its interfaces this MPI speaks: srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI)",
    "mpiexec": "use the mpiexec of that MPI",
    "RANK and WORLD_SIZE": "start the ranks by mpiexec or srun",
}


@dataclass(frozen=True)
class World:
    """MPI, initialised, with all ranks of the launch in `comm`."""

    mpi: object  # the module mpi4py.MPI
    library: object  # FUNCTIONS, by cffi
    address: object  # of a function of the library, as a number
    comm: object


def ranks(ffi, dtype: str, distribute: str, rank_group: cluster.RankGroup):
    """Return the `nn_ranks` that net_ranks takes, for numbers of that type; ffi: of the C core.

    Raises UsageError without mpi4py, or where MPI knows of other ranks than `rank_group`.
    """
    world = _world(rank_group)
    mpi, library = world.mpi, world.library
    functions = {
        "iallreduce": library.MPI_Iallreduce,
        "ireduce": library.MPI_Ireduce,
        "ibcast": library.MPI_Ibcast,
        "iallgather": library.MPI_Iallgather,
        "test": library.MPI_Test,
    }
    place = {"rank": rank_group.rank, "size": rank_group.size}
    made = ffi.new("nn_ranks *", {**place, "central": distribute == "central"})
    for name, function in functions.items():
        setattr(made, name, ffi.cast(ffi.typeof(getattr(made, name)), world.address(function)))
    real = {"float32": mpi.FLOAT, "float64": mpi.DOUBLE}[dtype]
    handles = {"comm": world.comm, "sum": mpi.SUM, "type": real, "double_type": mpi.DOUBLE}
    for name, thing in handles.items():
        setattr(made, name, ffi.cast("intptr_t", thing.handle))
    made.in_place = ffi.cast("void *", int(mpi.IN_PLACE))
    return made


@functools.cache
def _world(rank_group: cluster.RankGroup) -> World:
    mpi, library, address = _load()
    _initialise(mpi, library)
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise NnError("this MPI does not support calls from a thread; use one built with MPI_THREAD_SERIALIZED")
    place = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
    if place != (rank_group.rank, rank_group.size):
        by = cluster.launch().by
        name = " ".join(map(str, (mpi.get_vendor()[0], ".".join(map(str, mpi.get_vendor()[1])))))
        raise UsageError(
            f"{by} started this process as rank {rank_group.rank} of {rank_group.size}, but mpi4py's {name} reports "
            f"rank {place[0]} of {place[1]}; {FIXES[by]}"
        )
    comm = mpi.COMM_WORLD.Dup()
    comm.Set_errhandler(mpi.ERRORS_RETURN)
    return World(mpi, library, address, comm)


def _load():
    """Return (mpi4py.MPI, its functions by cffi, function -> address)."""
    from cffi import FFI

    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except ImportError as error:
        raise UsageError(f"--distribute on processors needs mpi4py ({error}): {INSTALL}") from error
    except RuntimeError as error:  # several lines, a place each where it looked
        raise UsageError(f"--distribute on processors needs MPI: mpi4py finds no MPI library; {INSTALL}") from error
    ffi = FFI()
    ffi.cdef(FUNCTIONS)
    return MPI, ffi.dlopen(MPI.__file__), lambda function: int(ffi.cast("intptr_t", function))


def _initialise(mpi, library) -> None:
    """Call MPI_Init_thread, unless the program has called it. It waits for all ranks; mpi4py would hold the
    interpreter's lock meanwhile, and nobody could give up waiting."""
    if mpi.Is_initialized():
        return
    from cffi import FFI

    seconds = rendezvous.limit_seconds()
    late = f"MPI did not start within {seconds:g} s: a rank is missing, or a host cannot be reached"
    ffi = FFI()
    with rendezvous.limited(seconds, f"{late}; see the other ranks' output"):
        failed = library.MPI_Init_thread(ffi.NULL, ffi.NULL, mpi.THREAD_SERIALIZED, ffi.new("int *"))
    if failed:
        raise NnError(f"MPI did not start: error {failed} of MPI_Init_thread")
    cluster.at_end(lambda together: library.MPI_Finalize() if together else _remove_shared_memory())


def _remove_shared_memory() -> None:
    """Remove the files that MPICH's ranks of a host share, as MPI_Finalize would. Their names come from SLURM's job and
    step: the same job, queued again, would find the old files."""
    with open("/proc/self/maps") as maps:
        files = {line.split(maxsplit=5)[5].strip() for line in maps if "/dev/shm/mpich_shm_" in line}
    for file in files:
        with contextlib.suppress(OSError):
            os.remove(file)
