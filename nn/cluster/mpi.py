"""The RankGroup of several processes, by MPI: how they start, exchange values and end
together.

Who starts the ranks, finds them and ends those that are left when one dies is the
launcher's business (mpiexec, srun).
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import functools
import json
import math
import os
import platform
import signal
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from cffi import FFI

from ..utils import Interrupted, NnError, UsageError, needs_package
from .launch import Launch, limit_seconds
from .rank_group import RANK_0_SECONDS, RankGroup, after_rank_0, print_last_line

# that a failed rank waits for the others: most failures are those of all
GRACE_SECONDS = 2.0
# a launcher has these for a rank's last line
READING_SECONDS = 1.0
PASSING_ON_SECONDS = 0.1
MOST_MESSAGE_BYTES = 1 << 30  # of a message: MPI counts in 32 bits
# a rank that waits gives its core away, first for a moment, then for longer
SPINS = 500
PAUSE_SECONDS = 0.0005
INIT_FUNCTION = (
    "int MPI_Init_thread(int *argc, void *argv, int required, int *provided);"
)
NO_MPI = "an MPI, and mpi4py finds none: pip install mpich, or load the site's MPI (module load)"
FIXES = {
    "srun": "say which of its interfaces this MPI speaks: srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI)",
    "mpiexec": "use the mpiexec of that MPI",
}


def start(launched: Launch) -> MpiGroup:
    """Start MPI, unless the program has, and return the group of all ranks.

    Raises UsageError without mpi4py or an MPI, and where MPI knows of other ranks than
    the launcher; NnError where MPI fails. Ends the process where MPI does not start
    within limit_seconds.
    """
    mpi = load()
    ours = not mpi.Is_initialized()
    if ours:
        _initialise(mpi, launched)
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise NnError(
            "this MPI does not support calls from a thread; use one built with MPI_THREAD_SERIALIZED"
        )
    _check_world(mpi, launched)
    group = MpiGroup(mpi, ours)
    _forget_shared_memory()
    return group


def load():
    """Return the module mpi4py.MPI, with MPI not yet initialised. Raises UsageError,
    which says what to install."""
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except ModuleNotFoundError:
        raise UsageError(needs_package("mpi", "--distribute needs")) from None
    except (ImportError, RuntimeError):
        # of several lines, a place each where it looked
        raise UsageError(f"--distribute needs {NO_MPI}") from None
    return MPI


@functools.cache
def functions(mpi, declarations: str):
    """Return (ffi, library) of the MPI that mpi4py is linked to, for these
    functions."""
    ffi = FFI()
    ffi.cdef(declarations)
    return ffi, ffi.dlopen(mpi.__file__)


def _initialise(mpi, launched: Launch) -> None:
    """Call MPI_Init_thread, which waits for all ranks; mpi4py's would hold the
    interpreter's lock meanwhile, and nobody could give up waiting."""
    ffi, library = functions(mpi, INIT_FUNCTION)
    with _limited(launched):
        failed = library.MPI_Init_thread(
            ffi.NULL, ffi.NULL, mpi.THREAD_SERIALIZED, ffi.new("int *")
        )
    if failed:
        raise NnError(f"MPI did not start: error {failed} of MPI_Init_thread")


@contextlib.contextmanager
def _limited(launched: Launch) -> Iterator[None]:
    """End the process with a line if the block, in which MPI waits for other ranks,
    takes too long."""
    seconds = limit_seconds()

    def give_up() -> None:
        print_last_line(
            f"rank {launched.rank} of {launched.size}: MPI did not start within {seconds:g} s: a rank is missing, or a host "
            "cannot be reached; see the other ranks' output, or allow more time with NN_RENDEZVOUS_SECONDS"
        )
        _forget_shared_memory()
        os._exit(1)

    # rank 0 speaks, and the launcher ends the others
    timer = threading.Timer(seconds + min(launched.rank, 1), give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check_world(mpi, launched: Launch) -> None:
    """Raise an error if MPI knows of other ranks than the launcher; rank 0 reports
    it."""
    rank = mpi.COMM_WORLD.Get_rank()
    size = mpi.COMM_WORLD.Get_size()
    if (rank, size) == (launched.rank, launched.size):
        return
    _forget_shared_memory()
    name, version = mpi.get_vendor()
    error = UsageError(
        f"{launched.launcher} started this process as rank {launched.rank} of {launched.size}, but mpi4py's {name} "
        f"{'.'.join(map(str, version))} reports rank {rank} of {size}; {FIXES[launched.launcher]}"
    )
    raise after_rank_0(error, launched.rank)


def _forget_shared_memory() -> None:
    """Remove the names of the memory that MPICH's ranks of a host share, which all of
    them have opened.

    A rank that is killed would leave it behind, and the same job, queued again, would
    find it.
    """
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        files = {
            line.split(maxsplit=5)[5].strip()
            for line in maps
            if "/dev/shm/mpich_shm_" in line
        }
        for file in files:
            with contextlib.suppress(OSError):  # another rank was first
                os.remove(file)


class RankEnded(NnError):
    """Another rank has ended, and so do all."""


class MpiGroup(RankGroup):
    """All ranks of MPI.

    Each exchange is one of values, or the end of those ranks that send `end` instead:
    so a rank that waits for another hears why that one has ended.
    """

    def __init__(self, mpi, finalizes: bool):
        """finalizes: MPI is to be finalised at the end."""
        self.mpi = mpi
        self._finalizes = finalizes
        self._comm = self.communicator()
        self.rank = self._comm.Get_rank()
        self.size = self._comm.Get_size()
        self._is_broken = False
        self._outcome: RankEnded | None = None  # how all ranks end, once one has
        hosts = self.gather(platform.node())
        self.local_rank = hosts[: self.rank].count(hosts[self.rank])

    def communicator(self):
        """Return a new communicator of all ranks, whose errors are returned; all ranks
        call this together."""
        comm = self.mpi.COMM_WORLD.Dup()
        comm.Set_errhandler(self.mpi.ERRORS_RETURN)
        return comm

    def gather(self, value) -> list:
        """See RankGroup. Raises RankEnded where another rank has ended, NnError where
        MPI fails."""
        if self._outcome is None:
            messages = self._exchange(["value", value])
            if all(kind == "value" for kind, *_ in messages):
                return [value for _, value in messages]
            self._outcome = self._outcome_of(messages)
        raise self._outcome

    def gather_arrays(self, array: np.ndarray) -> list[np.ndarray]:
        lengths = self.gather(len(array))
        with self._unbroken():
            arrays = [np.empty(length, array.dtype) for length in lengths]
            np.copyto(arrays[self.rank], array)
            for rank, rank_array in enumerate(arrays):
                data = rank_array.view(np.uint8)
                for begin in range(0, len(data), MOST_MESSAGE_BYTES):
                    part = [data[begin : begin + MOST_MESSAGE_BYTES], self.mpi.BYTE]
                    _finished(self._comm.Ibcast(part, root=rank))
        return arrays

    def _exchange(self, message: list, seconds: float | None = None) -> list | None:
        """Return every rank's message, in rank order; None if not all ranks came within
        that time."""
        own_text = json.dumps(message).encode()
        lengths = np.zeros(self.size, np.int64)
        with self._unbroken():
            if not _finished(
                self._comm.Iallgather(np.array([len(own_text)]), lengths), seconds
            ):
                return None
            text = bytearray(int(lengths.sum()))
            _finished(
                self._comm.Iallgatherv(
                    [own_text, self.mpi.BYTE], [text, lengths.tolist(), self.mpi.BYTE]
                )
            )
        ends = np.cumsum(lengths).tolist()
        return [
            json.loads(text[end - length : end])
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]

    @contextlib.contextmanager
    def _unbroken(self) -> Iterator[None]:
        """Keep in mind where a block of messages is left before its end, by an error or
        a signal: no other can follow. Raises NnError where MPI fails."""
        self._is_broken = True
        try:
            yield
        except self.mpi.Exception as error:
            raise NnError(
                f"a message between ranks failed ({error}); see the other ranks' output"
            ) from None
        self._is_broken = False

    def _outcome_of(self, messages: list) -> RankEnded:
        """Return how all ranks end by the messages of an exchange, of which some are an
        `end`: as the first rank that failed, else as the first that ended."""
        ends = [
            (rank, *end) for rank, (kind, *end) in enumerate(messages) if kind == "end"
        ]
        failures = [(rank, code, text) for rank, code, text in ends if code]
        rank, code, text = (failures or ends)[0]
        if not code and len(ends) < self.size:
            return RankEnded(
                f"rank {rank} of {self.size} ended while the others were still running",
                1,
            )
        return RankEnded(self._line_of(rank, text), code)

    def _line_of(self, rank: int, text: str | None) -> str:
        if text and rank:
            return f"rank {rank} of {self.size}: {text}"
        return text or ""

    # ---- the end

    def end(self, code: int, text: str | None) -> int:
        """See RankGroup. Wait for the others; MPI_Abort ends them if this rank has
        failed and they do not come."""
        if self._outcome is None:
            self._outcome = self._last_exchange(code, text)
        with contextlib.suppress(ValueError):  # not the main thread
            # all end by themselves now: a launcher that sees the first one fail is not
            # to end the others
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.rank == 0:
            print_last_line(str(self._outcome))
            if self._outcome.exit_code:
                _wait_until_read(2)
        # the launcher has rank 0's line before it sees the first rank end, and drops
        # what is left
        self._comm.Barrier()
        if self._finalizes:
            self.mpi.Finalize()
        return self._outcome.exit_code

    def _last_exchange(self, code: int, text: str | None) -> RankEnded:
        """Send the others how this rank ends; return how all end. Where they do not
        come, all are ended at once."""
        seconds = GRACE_SECONDS if code else None
        try:
            if not self._is_broken:
                messages = self._exchange(["end", code, text], seconds)
                if messages:
                    return self._outcome_of(messages)
        except (NnError, Interrupted) as error:
            code = code or error.exit_code
            text = text or str(error)
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
            text = "stopped by SIGINT"
        # most often by a signal to all ranks, which rank 0 reports
        if self._is_broken and self.rank:
            time.sleep(RANK_0_SECONDS)
        self._abort(code or 1, text)

    def _abort(self, code: int, text: str | None) -> NoReturn:
        """End all ranks at once: the others are in the midst of something that waits
        for this one."""
        print_last_line(self._line_of(self.rank, text))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _wait_until_read(2)
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPICH would report the call
        self.mpi.COMM_WORLD.Abort(code)


def _wait_until_read(descriptor: int) -> None:
    """Wait, a moment at most, until the launcher has read a rank's last line from its
    pipe: where a rank fails it ends the others, and what it has not read is lost."""
    end = time.monotonic() + READING_SECONDS
    waiting = array.array("i", [0])
    with contextlib.suppress(OSError):  # no pipe, or a system that does not say
        while (
            not fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
            and waiting[0]
            and time.monotonic() < end
        ):
            time.sleep(PAUSE_SECONDS)
    time.sleep(PASSING_ON_SECONDS)


def _finished(request, seconds: float | None = None) -> bool:
    """Wait for the end of a message; return False if it does not come within that time.

    MPI's own waiting would keep a core busy and hold back Python's signal handlers.
    """
    end = math.inf
    if seconds is not None:
        end = time.monotonic() + seconds
    turns = 0
    while not request.Test():
        if time.monotonic() > end:
            return False
        turns += 1
        time.sleep(0 if turns < SPINS else PAUSE_SECONDS)
    return True
