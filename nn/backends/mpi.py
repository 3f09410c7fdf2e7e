"""CPU ranks: MPI for the C core, which calls it once a batch without Python (nn_ranks
in nn.h).

mpi4py finds the MPI library and knows its handles; the functions are taken from the
very library that it is linked to.
"""

from __future__ import annotations

import functools

from ..cluster.mpi import MpiGroup, functions

REDUCTION_FUNCTIONS = """
int MPI_Iallreduce(const void *, void *, int, intptr_t, intptr_t, intptr_t, void *);
int MPI_Ireduce(const void *, void *, int, intptr_t, intptr_t, int, intptr_t, void *);
int MPI_Ibcast(void *, int, intptr_t, int, intptr_t, void *);
int MPI_Iallgather(const void *, int, intptr_t, void *, int, intptr_t, intptr_t, void *);
int MPI_Test(void *, int *, void *);
"""


def ranks(ffi, dtype: str, distribute: str, rank_group: MpiGroup):
    """Return the `nn_ranks` that net_ranks takes, for numbers of that type; ffi: of the
    C core."""
    mpi = rank_group.mpi
    mpi_ffi, library = functions(mpi, REDUCTION_FUNCTIONS)
    struct = ffi.new("nn_ranks *")
    struct.rank = rank_group.rank
    struct.size = rank_group.size
    struct.central = distribute == "central"
    for name in ("iallreduce", "ireduce", "ibcast", "iallgather", "test"):
        function = getattr(library, f"MPI_{name.capitalize()}")
        address = int(mpi_ffi.cast("intptr_t", function))
        setattr(struct, name, ffi.cast(ffi.typeof(getattr(struct, name)), address))
    handles = {
        "comm": _communicator(rank_group),
        "sum": mpi.SUM,
        "type": {"float32": mpi.FLOAT, "float64": mpi.DOUBLE}[dtype],
        "double_type": mpi.DOUBLE,
    }
    for name, mpi_object in handles.items():
        setattr(struct, name, ffi.cast("intptr_t", mpi_object.handle))
    struct.in_place = ffi.cast("void *", int(mpi.IN_PLACE))
    return struct


@functools.cache
def _communicator(rank_group: MpiGroup):
    """Return the communicator of gradients: messages of ranks in Python must not come
    between them."""
    return rank_group.communicator()
