"""Constants, names and structures that host code and kernels share, each written once.
`declarations` writes them as CUDA source, in front of the .cu files; the host reads the
same tables.

A name that a table gains and no formula knows does not compile: see the static_asserts
of activation.cu, loss.cu and optimizer.cu.
"""

from __future__ import annotations

import numpy as np

from ...layers import COLUMN_KINDS
from ...nn_aux import ACTIVATIONS, LOSSES, OPTIMIZERS

# name of a type for NumPy -> for CUDA
CUDA_TYPES = {"float32": "float", "float64": "double"}
THREADS = 256  # of every block; ops that tile count on a square of 16 x 16
# slices of a tile in shared memory: one is multiplied while the next one comes
# (gemm.cu)
TILE_STAGES = 2
TILE_GAP = 16  # bytes between a slice's columns
# partial gradients that one thread adds up; more are shared among 8 (optimizer.cu)
FEW_SPLITS = 16
SCALED_INPUTS = 8  # whose scales a block steps at a time (optimizer.cu)
WINOGRAD_SIDE = 32  # filters, and channels or tiles, of a block (conv_winograd.cu)
WINOGRAD_DEPTH = 8  # terms of their sums at a time
WINOGRAD_PLACES = 16  # of a transformed tile, 4 x 4

CONSTANTS = {
    "THREADS": THREADS,
    "TILE_STAGES": TILE_STAGES,
    "TILE_GAP": TILE_GAP,
    "FEW_SPLITS": FEW_SPLITS,
    "SCALED_INPUTS": SCALED_INPUTS,
    "BLOCK_SIDE": WINOGRAD_SIDE,
    "DEPTH": WINOGRAD_DEPTH,
    "PLACES": WINOGRAD_PLACES,
}

MOMENTUM = "MOMENTUM"  # update rule of an optimiser with --momentum
# by update rule
MOMENTS = {name.upper(): rule.moments for name, rule in OPTIMIZERS.items()}
MOMENTS[MOMENTUM] = 1

UPDATE = (  # struct update, members of type real: what the optimiser does in one batch
    # SGD: learning rate / n, ADAM: learning rate / (1 - beta1^t), else learning rate
    "rate",
    "inv_rows",  # gradients are sums over the batch; this makes them means
    "decay",  # learning rate * weight decay
    "scale_rate",  # of nn_training
    "root_scale",  # ADAM: 1 / sqrt(1 - beta2^t)
    "constant1",  # of nn_training: SGD's momentum, else betas and epsilon
    "constant2",
    "constant3",
    "gain1",  # 1 - constant1; 0.999 as a float would be off visibly
    "gain2",
)

CONTROL_MEMBERS = {  # struct control: member -> C type, of eight bytes
    "parameters": "real *",
    "gradients": "real *",
    "moment1": "real *",
    "moment2": "real *",
    "scales": "real *",  # of the vector of Engine.set
    # activations and their gradients: a buffer is at `rows + capacity * place`
    "rows": "real *",
    "capacity": "int64",  # rows there is room for
    "x": "const void *",  # the data set: inputs,
    "y": "const void *",  # targets or int labels
    "weights": "const real *",  # of its rows, with WEIGHTED only
    "order": "const int64 *",  # its rows in the order to take them; NULL: as stored
    "count": "int64",  # rows of that order, those of all members of a group
    "batch": "int64",  # rows of a batch; the last one has the rest
    "row_loss": "double *",  # one a row of the order
    "updates": "const update *",  # one a batch
    "partial_sums": "real *",  # of sums that several blocks share, until the next phase
    "out": "real *",  # results that the host asked for
    "input_gradient": "real *",  # and the gradient of the inputs
    "arrivals": "unsigned *",  # of the grid's barrier
    "seed": "int64",  # of dropout
    "step": "int64",  # of the first batch, for dropout
    "rank": "int64",  # which member, with SHARED only,
    "size": "int64",  # of how many that share each batch
    "row": "int64",  # the batch at hand begins there
    "index": "int64",  # and its number since the host filled this in
}
CONTROL_TYPE = np.dtype([(name, np.int64) for name in CONTROL_MEMBERS])


def update_rule(optimizer: str, momentum: float) -> str:
    """Return the update rule of optimizer.cu for an optimiser."""
    if OPTIMIZERS[optimizer].takes_momentum and momentum:
        return MOMENTUM
    return optimizer.upper()


def _enum(names) -> str:
    return f"enum {{ {', '.join(names)} }};"


def declarations() -> str:
    """Return the tables as CUDA source."""
    members = "".join(f"    {kind} {name};\n" for name, kind in CONTROL_MEMBERS.items())
    return f"""
typedef REAL real;                      /* float or double, by the compiler's option */
typedef long long int64;
{_enum(f"{name} = {value}" for name, value in CONSTANTS.items())}
{_enum(name.upper() for name in ACTIVATIONS)}
{_enum(name.upper() for name in LOSSES)}
{_enum(MOMENTS)}
__device__ constexpr int moments_of(int rule)
{{
    const int moments[] = {{{", ".join(map(str, MOMENTS.values()))}}};
    return moments[rule];
}}
{_enum([*(name.upper() for name in COLUMN_KINDS), "COLUMN_KINDS"])}
struct update {{
    real {", ".join(UPDATE)};
}};
struct control {{
{members}}};
static_assert(sizeof(control) == {CONTROL_TYPE.itemsize}, "abi.py: a member of struct control has not eight bytes");
"""
