"""The machine: its processor, the cores and the memory that the process may use, and
limits on addresses and processes (ulimit): what would end the process is asked for
first."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import threading
from functools import cache
from pathlib import Path

from .errors import NnError

try:
    import resource
except ImportError:  # Windows
    resource = None

MORE_THREADS = "raise the limit on processes (ulimit -u) or on memory (ulimit -v), or use fewer --threads"
NO_ROOM_TO_LOAD = (
    "out of memory: a library cannot be loaded; raise the limit on memory (ulimit -v)"
)
MOST_THREADS = 1024
_THREAD_COUNTS = re.compile(r"\s*\+?[0-9]{1,9}\s*(?:,\s*\+?[0-9]{1,9}\s*)*", re.ASCII)
# of glibc's malloc.h
M_ARENA_MAX = -8
M_MMAP_THRESHOLD = -3
# of an array that goes back to the system when it is freed, where memory is limited
LARGE_BYTES = 1 << 20


def processor_name() -> str:
    """Return the processor's name, "" where the system does not say."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(
                (
                    line.split(":", 1)[1].strip()
                    for line in file
                    if line.startswith("model name")
                ),
                "",
            )
    except OSError:
        import platform

        return platform.processor()


def default_threads() -> int:
    """Return how many threads to use where nobody says otherwise: OMP_NUM_THREADS, else
    one for each core."""
    return asked_threads() or available_cores()


def asked_threads() -> int | None:
    """Return the number of threads that OMP_NUM_THREADS asks for, as OpenMP reads it:
    of a list, 4,2, the first number. None without it, and where it is none."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    if not _THREAD_COUNTS.fullmatch(text):
        return None
    counts = [int(word) for word in text.split(",")]
    if min(counts) > 0 and counts[0] <= MOST_THREADS:
        return counts[0]
    return None


def available_cores() -> int:
    """Return the number of cores this process may use: its affinity mask, cut to the
    control group's quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _cgroup_quota() or cores))


@cache
def _cgroup_quota() -> int | None:
    """Return the whole cores that the control group (version 2, then 1) grants, rounded
    down; None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        if int(quota) > 0:
            return max(1, int(quota) // int(period))
        return None
    except ValueError:  # "max": no limit
        return None


def available_memory() -> int | None:
    """Return the free memory in bytes, None where the system does not say.

    The smallest of what the system has free, the limits of the control groups, and the
    addresses that the process may still take; a group's use counts caches too, which
    the system would give up.
    """
    return min([*_free_memory(), *_group_memory(), *_free_addresses()], default=None)


def memory_left() -> int | None:
    """Return the bytes that this process may still take, None where the system does not
    say."""
    left_in_groups = (max(0, limit - resident_bytes()) for limit in _group_memory())
    return min([*_free_memory(), *left_in_groups, *_free_addresses()], default=None)


def _free_memory() -> list[int]:
    """Return the free memory of the machine, where the system says."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return [
            1024 * int(line.split()[1])
            for line in lines
            if line.startswith("MemAvailable:")
        ]
    except (OSError, ValueError, IndexError):
        return []


def _free_addresses() -> list[int]:
    """Return the bytes of addresses that a limit (ulimit -v) leaves the process, where
    there is one."""
    if not has_address_limit():
        return []
    return [max(0, resource.getrlimit(resource.RLIMIT_AS)[0] - _process_bytes(0))]


def _group_memory() -> list[int]:
    """Return the limits of the control group of this process and of those above it,
    where there are some."""
    limits = []
    for file in _group_files():
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # "max": no limit
            continue
    return limits


def _group_files(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> list[Path]:
    """Return the files that may hold limits of memory, of version 2 and of version 1 of
    control groups. In a container the root is the container's own group."""
    try:
        # number, controllers, path
        memberships = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except (OSError, ValueError):
        memberships = []
    files = []
    for controller, folder, name in (
        ("", root, "memory.max"),
        ("memory", root / "memory", "memory.limit_in_bytes"),
    ):
        paths = [
            path.lstrip("/")
            for _, controllers, path in memberships
            if controller in controllers.split(",")
        ]
        for lowest in map(folder.joinpath, paths or [""]):
            files += [
                group / name
                for group in (lowest, *lowest.parents)
                if group.is_relative_to(folder)
            ]
    return files


def resident_bytes() -> int:
    """Return the memory that the process has now; 0 where the system does not say."""
    return _process_bytes(1)


def private_bytes() -> int:
    """Return the memory that the process has for itself, without the files that it has
    mapped."""
    return max(0, _process_bytes(1) - _process_bytes(2))


def _process_bytes(field: int) -> int:
    """Return a field of what the system says of the process: 0, its addresses; 1, what
    is resident; 2, of it files."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[field]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (OSError, ValueError, IndexError):
        return 0


# ---- limits


def is_for_want_of_memory(text: str) -> bool:
    """Return whether a library could not be loaded for want of memory, by what the
    system's loader says."""
    return any(
        words in text
        for words in ("failed to map", "cannot allocate", "Cannot allocate")
    )


def has_address_limit() -> bool:
    """Return whether the process's addresses are limited (ulimit -v): libraries that
    reserve many then find none."""
    return (
        resource is not None
        and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    )


def spare_addresses() -> None:
    """Where addresses are limited, let glibc reserve none for each thread (64 MiB):
    threads or libraries would find none left."""
    if has_address_limit():
        _set_malloc(M_ARENA_MAX, 1)


@cache
def give_back_memory() -> None:
    """Let glibc give large arrays back to the system when they are freed: it keeps
    those of up to 32 MiB."""
    _set_malloc(M_MMAP_THRESHOLD, LARGE_BYTES)


def _set_malloc(option: int, value: int) -> None:
    with contextlib.suppress(OSError, ImportError, AttributeError):  # another C library
        import ctypes

        ctypes.CDLL(None).mallopt(option, value)


def check_room_to_load(size: int) -> None:
    """Raise NnError if a limit leaves no `size` bytes of addresses for a library that
    would end the process then."""
    if not has_address_limit():
        return
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
    except OSError as error:
        raise NnError(NO_ROOM_TO_LOAD) from error


@cache
def check_threads(count: int) -> None:
    """Raise NnError unless `count` more threads can be started: OpenMP would end the
    process instead."""
    release = threading.Event()
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=release.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise NnError(
            f"{len(started)} of {count} more threads can be started: {MORE_THREADS}"
        ) from error
    finally:
        release.set()
        for thread in started:
            thread.join()
