"""How this process was launched: read from the environment that mpiexec, srun or
another launcher has set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from ..utils import UsageError

LIMIT = "NN_RENDEZVOUS_SECONDS"  # the environment variable, and its default
USUAL_LIMIT = 60.0
BY_HAND = "RANK and WORLD_SIZE"  # what launchers set that know nothing of MPI
LAUNCH_COMMANDS = "mpiexec -n {0} nn --train --distribute mirrored ... or srun --mpi=pmi2 -n {0} nn --train ..."
# SLURM's own numbers of what is no step of srun: the shell of salloc, a batch script,
# what came from elsewhere, ...
NO_STEPS = {str(2**32 - number) for number in range(1, 7)}


class Launch(NamedTuple):
    """One process's rank among those of a launcher."""

    launcher: str  # srun, mpiexec, BY_HAND
    rank: int
    size: int


_MPI_VARIABLES = [  # of Open MPI; of MPICH and its relatives
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]


def launch(environ: Mapping[str, str] = os.environ) -> Launch | None:
    """Return how this process was launched, by the environment; None for a process that
    no launcher started.

    Raises UsageError for variables that contradict each other.
    """
    step = _step(environ)
    for rank, size in _MPI_VARIABLES:
        if rank in environ and size in environ:
            rank_and_size = _number(environ, rank), _number(environ, size)
            # srun sets MPICH's variables too; an mpiexec inside a job starts its ranks
            # by another srun
            launcher = "srun" if rank_and_size == step else "mpiexec"
            return _checked(Launch(launcher, *rank_and_size))
    if step:
        return _checked(Launch("srun", *step))
    if "RANK" in environ and "WORLD_SIZE" in environ:
        return _checked(
            Launch(BY_HAND, _number(environ, "RANK"), _number(environ, "WORLD_SIZE"))
        )
    return None


def check_is_mpi(launched: Launch) -> None:
    """Raise UsageError for a launch of several ranks that is none of MPI's."""
    if launched.launcher == BY_HAND:
        raise UsageError(
            f"RANK={launched.rank} and WORLD_SIZE={launched.size} in the environment, but no MPI started this process; start "
            f"the ranks by {LAUNCH_COMMANDS.format(launched.size)}, unset both, or add --force if this is a training of its own"
        )


def limit_seconds() -> float:
    """Return how long ranks wait for each other at the start. Raises UsageError if the
    variable is not a time."""
    text = os.environ.get(LIMIT, str(USUAL_LIMIT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"{LIMIT}={text} in the environment: expected seconds above 0")
    return seconds


def _step(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (rank, size) in a step of srun; None outside of one, as in a batch script
    or in the shell of salloc."""
    if not {"SLURM_STEP_ID", "SLURM_PROCID"} <= environ.keys():
        return None
    if environ["SLURM_STEP_ID"] in NO_STEPS:
        return None
    for size in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"):
        if size in environ:
            return _number(environ, "SLURM_PROCID"), _number(environ, size)
    return None


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(
            f"{name}={text[:40]} in the environment: expected a whole number; unset it, or start nn again"
        )
    return int(text)


def _checked(launched: Launch) -> Launch:
    if launched.rank >= launched.size:
        raise UsageError(
            f"{launched.launcher}: rank {launched.rank} of {launched.size} in the environment is impossible; "
            "unset its variables, or add --force if this is a training of its own"
        )
    return launched
