"""The judge of one input: it is read or refused with an error of nn, soon, and in
little memory."""

from __future__ import annotations

import contextlib
import gzip
import os
import resource
import signal
import sys
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nn.utils import NnError, resident_bytes

from .targets import Target

SECONDS = 5  # of processor time
# memory: the table as often, and some for the program
TABLES = 3
MORE_BYTES = 160 << 20
MOST_ADDRESSES = 8 << 30  # so that no input harms the machine
MOST_UNPACKED = 1 << 30
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Finding:
    """What is wrong, and where: two findings of one place are one."""

    what: str
    place: str


class TooSlow(BaseException):
    """An input took too long."""


def judged(target: Target, path: Path) -> Finding | None:
    """Return what is wrong with the reading of an input; None: nothing."""
    table = _table_bytes(path)
    before = resident_bytes()
    peak = _peak()
    try:
        with _limited_time():
            target.read(path)
    except NnError:
        pass
    except TooSlow as error:
        return _finding(error, f"more than {SECONDS} s: ")
    except Exception as error:
        return _finding(error)
    most = _peak()
    if most > peak and most - before > TABLES * table + MORE_BYTES:
        return Finding(
            f"{(most - before) >> 20} MiB for a table of {table} bytes", "memory"
        )
    return None


def _table_bytes(path: Path) -> int:
    """Return the bytes of a table, unpacked."""
    data = path.read_bytes()
    if data.startswith(GZIP):
        with (
            contextlib.suppress(OSError, EOFError, zlib.error),
            gzip.open(path) as file,
        ):
            return max(len(data), len(file.read(MOST_UNPACKED)))
    return len(data)


def _peak() -> int:
    """Return the most memory that the process has had; getrusage counts what its parent
    had when it was started."""
    with contextlib.suppress(OSError, IndexError):
        status = os.pread(_status(), 4096, 0)
        return int(status.partition(b"VmHWM:")[2].split(None, 1)[0]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@cache
def _status() -> int:
    """Return the open file in which Linux tells of this process: opening it costs more
    than reading it."""
    return os.open("/proc/self/status", os.O_RDONLY)


@contextlib.contextmanager
def _limited_time() -> Iterator[None]:
    def stop(*_) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _finding(error: BaseException, what: str = "") -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (frame for frame in reversed(frames) if "/nn/" in frame.filename), frames[-1]
    )
    where = f"{place.filename.rpartition('/nn/')[2]}:{place.lineno}"
    return Finding(
        f"{what}{type(error).__name__} in {where}: {' '.join(str(error).split())[:200]}",
        where,
    )


def limit_addresses() -> None:
    """Limit this process's memory, so that no input harms the machine; the address
    sanitizer has its own addresses."""
    if sys.platform == "linux" and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, hard))
