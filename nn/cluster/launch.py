"""How this process was launched: read from the environment that srun, mpiexec or another launcher has set."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..utils import UsageError

LOOPBACK = "127.0.0.1"
FIRST_PORT, PORT_RANGE, PORTS = 18000, 14000, 8  # below the ports that systems give to outgoing connections


@dataclass(frozen=True)
class Launch:
    """One process's rank among those of a launcher."""

    by: str  # srun, mpiexec, RANK and WORLD_SIZE
    rank: int
    size: int
    local_rank: int | None  # None: nobody said
    host: str  # of rank 0
    ports: tuple[int, ...]  # rank 0 listens on the first of them that is free
    token: str  # what only this launch's processes know, or at least no others use


def launch(environ: Mapping[str, str] = os.environ) -> Launch | None:
    """Return how this process was launched, by the environment; None for a process that no launcher started.

    Raises UsageError for variables that contradict each other.
    """
    number = _Numbers(environ)
    if "RANK" in environ and "WORLD_SIZE" in environ:
        rank, size, local = number("RANK"), number("WORLD_SIZE"), number("LOCAL_RANK")
        host, port = environ.get("MASTER_ADDR", LOOPBACK), number("MASTER_PORT") or 29500
        return _checked(Launch("RANK and WORLD_SIZE", rank, size, local, host, (port,), _token(environ, port)))
    for rank, size, local_rank, local_size in _MPI_VARIABLES:
        if size in environ and rank in environ and not _is_srun(environ, environ[rank], environ[size]):
            ranks = number(rank), number(size), number(local_rank)
            one_host = number(local_size) == number(size)
            return _checked(_by_mpiexec(environ, ranks, one_host))
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ:
        ranks = number("SLURM_PROCID"), number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), number("SLURM_LOCALID")
        step = f"{environ.get('SLURM_JOB_ID')}.{environ['SLURM_STEP_ID']}"
        nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", "")
        host = LOOPBACK
        if number("SLURM_STEP_NUM_NODES", "SLURM_NNODES") != 1:
            host = environ.get("MASTER_ADDR") or first_host(nodes)
        return _checked(Launch("srun", *ranks, host, _ports(environ, step), _token(environ, step)))
    return None


_MPI_VARIABLES = [  # of Open MPI; of MPICH and its relatives
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
]


class _Numbers:
    """Whole numbers by the names of environment variables."""

    def __init__(self, environ: Mapping[str, str]):
        self._environ = environ

    def __call__(self, *names: str) -> int | None:
        """Return the first variable that is set, None for none. Raises UsageError."""
        for name in names:
            text = self._environ.get(name)
            if text is not None:
                if not text.isdecimal():
                    raise UsageError(f"{name}={text} in the environment: expected a whole number")
                return int(text)
        return None


def _is_srun(environ: Mapping[str, str], rank: str, size: str) -> bool:
    """Return True if srun set MPICH's variables (--mpi=pmi2): an mpiexec inside a job starts its ranks by srun too."""
    step = environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS")
    return "SLURM_STEP_ID" in environ and (environ.get("SLURM_PROCID"), step) == (rank, size)


def _by_mpiexec(environ: Mapping[str, str], ranks: tuple, one_host: bool) -> Launch:
    host = LOOPBACK
    if not one_host:
        host = environ.get("MASTER_ADDR") or first_host(environ.get("SLURM_JOB_NODELIST", ""))
    if not host:
        raise UsageError("mpiexec over several hosts: set MASTER_ADDR to the name of rank 0's host")
    known = environ.get("PMIX_NAMESPACE") or environ.get("SLURM_JOB_ID")
    name = str(_launching_process()) if one_host else f"{known} {environ.get('MASTER_PORT')}"
    return Launch("mpiexec", *ranks, host, _ports(environ, name), _token(environ, name))


def _launching_process() -> int:
    """Return the id of the process that started the ranks of this host, 0 where the system does not tell.

    Each rank leads a session of its own, or all are in the launcher's session.
    """
    leader = os.getsid(0)
    if leader == os.getpid():
        return os.getppid()
    try:
        with open(f"/proc/{leader}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def first_host(nodes: str) -> str:
    """Return the first host of SLURM's list: of `n[03-05,9],m1` it is n03."""
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", nodes).split(",")[0]


def _ports(environ: Mapping[str, str], name: str) -> tuple[int, ...]:
    """Return MASTER_PORT, or ports that are most likely this launch's own."""
    chosen = _Numbers(environ)("MASTER_PORT")
    if chosen:
        return (chosen,)
    digest = hashlib.sha256(f"{os.getuid()} {name}".encode()).digest()
    first = int.from_bytes(digest[:4], "big")
    return tuple(FIRST_PORT + (first + 101 * i) % PORT_RANGE for i in range(PORTS))


def _token(environ: Mapping[str, str], name) -> str:
    """Return what only this launch's processes know: from the secret NN_TOKEN if it is set, and the launch's name."""
    return hashlib.sha256(f"{environ.get('NN_TOKEN')} {os.getuid()} {name}".encode()).hexdigest()


def _checked(found: Launch) -> Launch:
    if found.rank is None or not found.size or found.rank >= found.size:
        raise UsageError(f"{found.by}: rank {found.rank} of {found.size} in the environment is impossible; restart nn")
    return found
