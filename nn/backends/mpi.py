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
    place = {"rank": rank_group.rank, "size": rank_group.size}
    made = ffi.new("nn_ranks *", {**place, "central": distribute == "central"})
    for name in ("iallreduce", "ireduce", "ibcast", "iallgather", "test"):
        address = int(
            mpi_ffi.cast("intptr_t", getattr(library, f"MPI_{name.capitalize()}"))
        )
        setattr(made, name, ffi.cast(ffi.typeof(getattr(made, name)), address))
    real = {"float32": mpi.FLOAT, "float64": mpi.DOUBLE}[dtype]
    handles = {
        "comm": _communicator(rank_group),
        "sum": mpi.SUM,
        "type": real,
        "double_type": mpi.DOUBLE,
    }
    for name, thing in handles.items():
        setattr(made, name, ffi.cast("intptr_t", thing.handle))
    made.in_place = ffi.cast("void *", int(mpi.IN_PLACE))
    return made


@functools.cache
def _communicator(rank_group: MpiGroup):
    """Return the communicator of gradients: what ranks tell each other in Python must
    not come between them."""
    return rank_group.communicator()
