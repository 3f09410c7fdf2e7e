"""Sums over GPUs through NCCL: its C library called through cffi, a communicator for
each GPU.

Every member of a group calls the same functions in the same order. They are started on
a stream, may be captured in a graph, and the sums are the same in every run.
"""

from __future__ import annotations

import functools
import threading

from ...cluster import limit_seconds
from ...utils import NnError
from .device import cuda_major, cupy, load_library, packages

NCCL_DECLARATIONS = """
typedef struct { char internal[128]; } unique_t;
typedef void *comm_t;
int ncclGetUniqueId(unique_t *unique);
int ncclCommInitRank(comm_t *comm, int size, unique_t unique, int rank);
int ncclCommAbort(comm_t comm);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(comm_t comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, comm_t comm, void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, comm_t comm, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, comm_t comm, void *stream);
"""
SUM = 0
TYPES = {"float32": 7, "float64": 8}
ROOT = 0
# what values become: their sums over the members, those on member 0 alone, or member
# 0's values
CALLS = {
    "all_reduce": ("ncclAllReduce", SUM),
    "reduce": ("ncclReduce", SUM, ROOT),
    "broadcast": ("ncclBroadcast", ROOT),
}


class Left(NnError):
    """Another member of the group has failed; it reports why."""

    def __init__(self):
        super().__init__("another GPU of the group has failed")


@functools.cache
def library():
    """Return (ffi, lib) of NCCL. Raise UsageError, which says what to install, where
    there is none."""
    missing = f"--gpus: NCCL is not installed; pip install {packages(cuda_major(), 'nvidia-nccl')}, or use one GPU"
    return load_library(
        NCCL_DECLARATIONS, "libnccl", "nccl", ["libnccl.so.2"], missing
    )[:2]


def _check(result: int, call: str, comm=None) -> None:
    if result:
        ffi, lib = library()
        text = ffi.string(lib.ncclGetErrorString(result)).decode()
        last = lib.ncclGetLastError(ffi.NULL if comm is None else comm)
        if last != ffi.NULL and (words := ffi.string(last).decode().split()):
            text += f" ({' '.join(words)})"
        raise NnError(f"NCCL: {call}: {text}; set NCCL_DEBUG=INFO for details")


def unique_id() -> str:
    """Return the identifier that the members of a new group share, as hexadecimal
    text."""
    ffi, lib = library()
    unique = ffi.new("unique_t *")
    _check(lib.ncclGetUniqueId(unique), "ncclGetUniqueId")
    return bytes(ffi.buffer(unique)).hex()


class Communicator:
    """A member's NCCL communicator."""

    def __init__(self, unique: str, rank: int, size: int, device: int):
        """Wait for the other members. Raises NnError if they do not come within
        cluster.limit_seconds."""
        self.ffi, self.lib = library()
        self._comm = None
        outcome: list[BaseException | None] = []

        def meet() -> None:
            try:
                self._meet(unique, rank, size, device)
                outcome.append(None)
            except BaseException as error:
                outcome.append(error)

        # NCCL would wait for ever for a member that does not come; a daemon does not
        # keep the program from ending
        thread = threading.Thread(target=meet, daemon=True)
        thread.start()
        thread.join(limit_seconds())
        if not outcome:
            seconds = limit_seconds()
            who = f"GPU {device}, {rank + 1} of {size}"
            raise NnError(
                f"{who}: the others did not connect within {seconds:g} s; see their output and nvidia-smi"
            )
        if outcome[0] is not None:
            raise outcome[0]

    def _meet(self, unique: str, rank: int, size: int, device: int) -> None:
        pointer = self.ffi.new("comm_t *")
        name = self.ffi.new("unique_t *")
        self.ffi.buffer(name)[:] = bytes.fromhex(unique)
        with cupy().cuda.Device(device):
            _check(
                self.lib.ncclCommInitRank(pointer, size, name[0], rank),
                "ncclCommInitRank",
            )
        self._comm = pointer[0]
        _made.add(self)

    def send(self, how: str, address: int, values: int, dtype, stream) -> None:
        """Replace the values on all members, of `reduce` on member 0 alone; how: a name
        of CALLS."""
        if self._comm is None:
            raise Left
        name, *settings = CALLS[how]
        at = self.ffi.cast("void *", address)
        on = self.ffi.cast("void *", stream.ptr)
        call = getattr(self.lib, name)
        _check(
            call(at, at, values, TYPES[dtype.name], *settings, self._comm, on),
            name,
            self._comm,
        )

    def abort(self) -> threading.Thread | None:
        """End the operation under way, so that no other member waits for it; the
        communicator is then unusable.

        A thread does it, which is returned: it ends when no graph is left that was
        captured with the communicator."""
        comm = self._comm
        self._comm = None
        _made.discard(self)
        if comm is None:
            return None
        thread = threading.Thread(
            target=self.lib.ncclCommAbort, args=(comm,), daemon=True
        )
        thread.start()
        return thread


_made: set[Communicator] = set()


def close_all() -> None:
    """End NCCL's threads before the program unloads the libraries that they need."""
    threads = [communicator.abort() for communicator in list(_made)]
    for thread in filter(None, threads):
        thread.join(CLOSE_SECONDS)


CLOSE_SECONDS = 5.0
