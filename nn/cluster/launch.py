"""Ranks: the processes that train one network together, and how they were launched.

A launcher (srun, mpiexec, or whoever sets RANK and WORLD_SIZE) starts the same command `size` times; `launch` reads
from the environment which of them this one is, and `join` meets the others (rendezvous.py). What a team says is small
and rare, some numbers an epoch; gradients go by MPI or NCCL.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .utils import NnError, UsageError

LOOPBACK = "127.0.0.1"
FIRST_PORT, PORT_RANGE, PORTS = 18000, 14000, 8  # below those that systems give to outgoing connections


# ---------------------------------------------------------------- a team


class Team:
    """The ranks that train together; this one is the team of a process alone.

    All ranks call the same methods in the same order, and get the same values.
    """

    rank = 0
    size = 1
    local_rank = 0  # among the ranks of this host

    def gather(self, value) -> list:
        """Every rank's value, in rank order; values are what JSON can say."""
        return [value]

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on any rank."""
        return any(self.gather(bool(flag)))

    def sum(self, x: float) -> float:
        """The sum over the ranks, added up in rank order."""
        first, *others = self.gather(float(x))
        for other in others:
            first += other
        return first

    def broadcast(self, value):
        """Rank 0's value."""
        return self.gather(value if self.rank == 0 else None)[0]

    def share(self, rows: int) -> slice:
        """Which of so many rows are this rank's: about as many as every other's, perhaps none."""
        return slice(rows * self.rank // self.size, rows * (self.rank + 1) // self.size)

    def agree(self, facts: dict, fix: str, name: str = "{}") -> None:
        """Raise UsageError if a rank has other facts than rank 0, with the first that differs and both values.

        facts: what JSON can say; name: how one is called in the message; fix: what to do.
        """
        first, *others = self.gather(json.loads(json.dumps(facts)))  # as others get them: lists for tuples
        for rank, theirs in enumerate(others, 1):
            for key in dict.fromkeys([*first, *theirs]):
                here, there = first.get(key), theirs.get(key)
                if here != there:
                    raise UsageError(
                        f"{name.format(key)}: rank {rank} has {_told(there)}, rank 0 has {_told(here)}; {fix}"
                    )

    def end(self, code: int, text: str | None) -> int:
        """This rank is done, with that exit code and last line: say what there is to say, return what all end with."""
        say(text)
        return code

    def close(self) -> None:
        """Nothing more will be said."""


def say(text: str | None) -> None:
    """The last line of a run that failed, if there is one."""
    if text:
        from . import console

        console.say(f"nn: {text}")


def _told(value) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


ALONE = Team()


class Told(NnError):
    """What rank 0 ends with and says: this rank need not say it again."""

    def __init__(self, text: str, exit_code: int):
        super().__init__(text)
        self.exit_code = exit_code


# ---------------------------------------------------------------- how this process was launched


@dataclass(frozen=True)
class Launch:
    """One process's place among those that a launcher started."""

    by: str  # srun, mpiexec, RANK and WORLD_SIZE
    rank: int
    size: int
    local_rank: int | None  # None: nobody said
    host: str  # of rank 0
    ports: tuple[int, ...]  # rank 0 listens on the first of them that is free
    token: str  # what only this launch's processes know, or at least no others use


def launch(environ: Mapping[str, str] = os.environ) -> Launch | None:
    """What the environment says of how this process was launched, None where it says nothing.

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
        """The first of the variables that is there, None for none. Raises UsageError."""
        for name in names:
            text = self._environ.get(name)
            if text is not None:
                if not text.isdecimal():
                    raise UsageError(f"{name}={text} in the environment: expected a whole number")
                return int(text)
        return None


def _is_srun(environ: Mapping[str, str], rank: str, size: str) -> bool:
    """Whether it was srun that set MPICH's variables (--mpi=pmi2); an mpiexec inside a job starts by srun too."""
    step = environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS")
    return "SLURM_STEP_ID" in environ and (environ.get("SLURM_PROCID"), step) == (rank, size)


def _by_mpiexec(environ: Mapping[str, str], ranks: tuple, one_host: bool) -> Launch:
    host = LOOPBACK
    if not one_host:
        host = environ.get("MASTER_ADDR") or first_host(environ.get("SLURM_JOB_NODELIST", ""))
    if not host:
        raise UsageError("mpiexec over several hosts: set MASTER_ADDR to the name of rank 0's")
    known = environ.get("PMIX_NAMESPACE") or environ.get("SLURM_JOB_ID")
    name = str(_launching_process()) if one_host else f"{known} {environ.get('MASTER_PORT')}"
    return Launch("mpiexec", *ranks, host, _ports(environ, name), _token(environ, name))


def _launching_process() -> int:
    """The id of the process that started the ranks of this host: each is in a session of its own, or they are in the
    launcher's. 0 where the system does not tell."""
    leader = os.getsid(0)
    if leader == os.getpid():
        return os.getppid()
    try:
        with open(f"/proc/{leader}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def first_host(nodes: str) -> str:
    """The first host of SLURM's list: of `n[03-05,9],m1` it is n03."""
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", nodes).split(",")[0]


def _ports(environ: Mapping[str, str], name: str) -> tuple[int, ...]:
    """MASTER_PORT, or some that are this launch's own, most likely."""
    chosen = _Numbers(environ)("MASTER_PORT")
    if chosen:
        return (chosen,)
    digest = hashlib.sha256(f"{os.getuid()} {name}".encode()).digest()
    first = int.from_bytes(digest[:4], "big")
    return tuple(FIRST_PORT + (first + 101 * i) % PORT_RANGE for i in range(PORTS))


def _token(environ: Mapping[str, str], name) -> str:
    """NN_TOKEN is a secret where the launching script makes one; the rest keeps launches apart."""
    return hashlib.sha256(f"{environ.get('NN_TOKEN')} {os.getuid()} {name}".encode()).hexdigest()


def _checked(found: Launch) -> Launch:
    if found.rank is None or not found.size or found.rank >= found.size:
        raise UsageError(f"{found.by}: rank {found.rank} of {found.size} in the environment cannot be; start nn anew")
    return found


# ---------------------------------------------------------------- this process's team

_world: Team | None = None


def join() -> Team:
    """The team of the ranks this process was launched with, ALONE without others. Met once, then remembered.

    Raises NnError, UsageError: see launch and rendezvous.meet.
    """
    global _world
    if _world is None:
        found = launch()
        if found is None or found.size == 1:
            _world = ALONE
        else:
            from .rendezvous import meet

            _world = meet(found)
            atexit.register(_end_of_program)
    return _world


def current() -> Team:
    """The team that was joined, ALONE if none was."""
    return _world or ALONE


def expect_ranks() -> Team:
    """As `join`, where a launcher is needed. Raises UsageError that says which."""
    if _world is None and launch() is None:
        raise UsageError(
            "--distribute shares the batches among ranks, but nobody started several; start them by "
            "mpiexec -n 2 nn --train ... or srun --mpi=pmi2 -n 2 nn --train ..., or use --gpus 2"
        )
    return join()


def end(code: int, text: str | None = None) -> int:
    """Before the command ends with this exit code and last line: say it, and return the exit code of all ranks."""
    global _world
    world, _world = _world, None
    code = (world or ALONE).end(code, text)
    while _afterwards:
        _afterwards.pop()()
    return code


_afterwards: list[Callable[[], object]] = []


def afterwards(call: Callable[[], object]) -> None:
    """Call it when all ranks have come to their end."""
    _afterwards.append(call)


def _end_of_program() -> None:
    """A Python program that ends without `end`; Python keeps an exception that nobody caught, and has told of it."""
    error = getattr(sys, "last_value", None)
    rank, text = current().rank, f"{type(error).__name__}: {error}"
    code = end(1, text if rank else None) if error else end(0)
    if code and not error:
        os._exit(code)
