"""Limits on addresses and processes (ulimit): what would end the process is asked for first."""

from __future__ import annotations

import contextlib
import mmap
import threading
from functools import cache

from .errors import NnError

try:
    import resource
except ImportError:  # Windows
    resource = None

MORE_THREADS = "raise the limit on processes (ulimit -u) or on memory (ulimit -v), or use fewer --threads"
NO_ROOM_TO_LOAD = "out of memory: a library cannot be loaded; raise the limit on memory (ulimit -v)"
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3  # of glibc's malloc.h
LARGE_BYTES = 1 << 20  # of an array that goes back to the system when it is freed, where memory is limited


def is_for_want_of_memory(text: str) -> bool:
    """Return whether a library could not be loaded for want of memory, by what the system's loader says."""
    return any(words in text for words in ("failed to map", "cannot allocate", "Cannot allocate"))


def has_address_limit() -> bool:
    """Return whether the process's addresses are limited (ulimit -v): libraries that reserve many then find none."""
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def spare_addresses() -> None:
    """Where addresses are limited, let glibc reserve none for each thread (64 MiB): threads or libraries would find
    none left."""
    if has_address_limit():
        _set_malloc(M_ARENA_MAX, 1)


@cache
def give_back_memory() -> None:
    """Let glibc give large arrays back to the system when they are freed: it keeps those of up to 32 MiB."""
    _set_malloc(M_MMAP_THRESHOLD, LARGE_BYTES)


def _set_malloc(option: int, value: int) -> None:
    with contextlib.suppress(OSError, ImportError, AttributeError):  # another C library
        import ctypes

        ctypes.CDLL(None).mallopt(option, value)


def check_room_to_load(size: int) -> None:
    """Raise NnError if a limit leaves no `size` bytes of addresses for a library that would end the process then."""
    if not has_address_limit():
        return
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
    except OSError as error:
        raise NnError(NO_ROOM_TO_LOAD) from error


@cache
def check_threads(count: int) -> None:
    """Raise NnError unless `count` more threads can be started: OpenMP would end the process instead."""
    release, started = threading.Event(), []
    try:
        for _ in range(count):
            thread = threading.Thread(target=release.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise NnError(f"{len(started)} of {count} more threads can be started: {MORE_THREADS}") from error
    finally:
        release.set()
        for thread in started:
            thread.join()
