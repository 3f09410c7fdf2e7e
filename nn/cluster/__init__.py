"""Ranks: the processes that train one network together.

    launch.py      Launch: this process's rank and size, from the launcher's
                   environment; limit_seconds
    rank_group.py  RankGroup: values exchanged among ranks; ALONE
    mpi.py         MpiGroup: the RankGroup of several processes
    join()         the group of this process; current(), expect_ranks(), expect_one(),
                   end()

A launcher of MPI (mpiexec, srun) starts the same command `size` times, and ends the
others when a rank dies. A RankGroup exchanges some numbers an epoch; gradients go by
MPI or NCCL (backends).

Imports: utils. Imported by: backends, nn, test, train, commands, cli.
"""

from __future__ import annotations

import atexit
import os
import sys

from .. import __version__
from ..utils import UsageError
from .launch import LAUNCH_COMMANDS, Launch, check_is_mpi, launch, limit_seconds
from .rank_group import ALONE, RankGroup, after_rank_0

__all__ = [
    "ALONE",
    "Launch",
    "RankGroup",
    "current",
    "end",
    "expect_one",
    "expect_ranks",
    "join",
    "launch",
    "limit_seconds",
]

_world: RankGroup | None = None


def join() -> RankGroup:
    """Return the group of the ranks this process was launched with, ALONE without
    others; met once, then kept.

    Raises UsageError where ranks have other versions of nn, and what launch and
    mpi.start raise.
    """
    global _world
    if _world is None:
        launched = launch()
        if launched is None or launched.size == 1:
            _world = ALONE
        else:
            check_is_mpi(launched)
            # for several ranks only: a process alone starts without mpi4py and NumPy
            from . import mpi

            _world = mpi.start(launched)
            atexit.register(_end_of_program)
            _world.agree(
                {"version of nn": __version__}, "install one version everywhere"
            )
    return _world


def current() -> RankGroup:
    """Return the group that was joined, ALONE if none was."""
    return _world or ALONE


def expect_ranks() -> RankGroup:
    """Return the group as `join` does. Raises UsageError, which names a launcher, if
    none started this process."""
    if _world is None and launch() is None:
        raise UsageError(
            "--distribute shares the batches among ranks, but only one process was started; start several by "
            f"{LAUNCH_COMMANDS.format(2)}, or use --gpus 2"
        )
    return join()


def expect_one() -> None:
    """Raise UsageError if a launcher started several processes, which do not know of
    each other."""
    launched = launch()
    if launched is None or launched.size == 1:
        return
    check_is_mpi(launched)
    if launched.rank == 0:
        raise UsageError(
            f"{launched.launcher} started {launched.size} trainings, each of which would write --model: add --distribute mirrored "
            "to share the work, start only one, or add --force if this is a training of its own"
        )
    error = UsageError(
        f"the environment says that this is rank {launched.rank} of {launched.size} trainings that {launched.launcher} started: add "
        "--distribute mirrored to share the work, or --force if this is a training of its own"
    )
    raise after_rank_0(error, launched.rank)


def end(code: int, text: str | None = None) -> int:
    """End this rank with an exit code and a last line, which is printed; return the
    exit code of all ranks."""
    global _world
    world = _world
    _world = None
    return (world or ALONE).end(code, text)


def _end_of_program() -> None:
    """End the group of a Python program that does not call `end`; Python has printed an
    uncaught exception."""
    error = getattr(sys, "last_value", None)
    if error:
        text = f"{type(error).__name__}: {error}"
        end(1, text if current().rank else None)
    elif code := end(0):
        sys.stdout.flush()
        os._exit(code)
