"""Ranks: the processes that train one network together.

    launch.py      Launch: this process's rank, size and host, from the launcher's environment
    rank_group.py  RankGroup: values exchanged among ranks; ALONE; AlreadyReported; hooks at the end
    rendezvous.py  how ranks meet and end together, by sockets
    join()         the group of this process; current(), expect_ranks(), end()

A launcher (srun, mpiexec, or whoever sets RANK and WORLD_SIZE) starts the same command `size` times. A RankGroup
exchanges some numbers an epoch; gradients go by MPI or NCCL (backends).

Imports: utils. Imported by: backends, train, commands, cli.
"""

from __future__ import annotations

import atexit
import os
import sys

from ..utils import UsageError
from .launch import Launch, first_host, launch
from .rank_group import ALONE, AlreadyReported, RankGroup, at_end, run_end_hooks

__all__ = [
    "ALONE", "AlreadyReported", "Launch", "RankGroup", "at_end", "current", "end", "expect_ranks", "first_host", "join",
    "launch",
]  # fmt: skip

_world: RankGroup | None = None


def join() -> RankGroup:
    """Return the group of the ranks this process was launched with, ALONE without others; met once, then kept.

    Raises NnError, UsageError: see launch and rendezvous.meet.
    """
    global _world
    if _world is None:
        found = launch()
        if found is None or found.size == 1:
            _world = ALONE
        else:
            from .rendezvous import meet  # sockets and threads, for several ranks only

            _world = meet(found)
            atexit.register(_end_of_program)
    return _world


def current() -> RankGroup:
    """Return the group that was joined, ALONE if none was."""
    return _world or ALONE


def expect_ranks() -> RankGroup:
    """Return the group as `join` does. Raises UsageError, which names a launcher, if none started this process."""
    if _world is None and launch() is None:
        raise UsageError(
            "--distribute shares the batches among ranks, but only one process was started; start several by "
            "mpiexec -n 2 nn --train ... or srun --mpi=pmi2 -n 2 nn --train ..., or use --gpus 2"
        )
    return join()


def end(code: int, text: str | None = None) -> int:
    """End this rank with an exit code and a last line, which is printed; return the exit code of all ranks."""
    global _world
    world, _world = _world, None
    code = (world or ALONE).end(code, text)
    run_end_hooks(together=True)
    return code


def _end_of_program() -> None:
    """End the group of a Python program that does not call `end`; Python has printed an uncaught exception."""
    error = getattr(sys, "last_value", None)
    rank, text = current().rank, f"{type(error).__name__}: {error}"
    code = end(1, text if rank else None) if error else end(0)
    if code and not error:
        os._exit(code)
