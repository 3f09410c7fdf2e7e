"""Shared by every module: errors with exit codes, safe file writing, cores and memory of the machine."""

from __future__ import annotations

import contextlib
import difflib
import glob
import hashlib
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger("nn")

FORSAKEN_SECONDS = 60.0  # a temporary file that nobody has written to for so long is a killed run's


class NnError(Exception):
    """A failure with one line to tell; `exit_code` is what the command line ends with (1: failed while running)."""

    exit_code = 1


class UsageError(NnError):
    """The call itself is wrong: a flag, a value, or flags that contradict each other."""

    exit_code = 2


class DataError(NnError):
    """A data or model file holds something that cannot be used."""

    exit_code = 65


class InputNotFound(NnError):
    """A file that should be read is not there."""

    exit_code = 66


class OutputError(NnError):
    """A file cannot be written."""

    exit_code = 73


class Stopped(NnError):
    """Training ended early because a signal asked for it; the network keeps what it has learned so far."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_code = 128 + signum


class StopRequest:
    """Asks a running training to end after the batch at hand; `request` may be called in a signal handler."""

    def __init__(self):
        self.signum: int | None = None
        self.answered = False  # whether a training is under way that looks for the request

    def request(self, signum: int) -> None:
        """Remember the signal; training raises Stopped(signum) once the batch is done."""
        self.signum = signum


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a misspelt one; None if none is much like it."""
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return the names with commas between them; of more than `most` names the first ones, the others counted."""
    text = ", ".join(str(name) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def printable(text: str) -> str:
    """Return the text as one line of printable characters: a file name may hold a line break or undecodable bytes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(line: str) -> None:
    """Write one line to stderr. A log that nobody reads any more is no reason to lose a training."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=sys.stderr, flush=True)


def os_reason(error: OSError) -> str:
    """Return the operating system's own words, without the path and number that Python adds."""
    return error.strerror or str(error)


def atomic_write(path: str | os.PathLike, data: bytes) -> None:
    """Replace `path` by `data` so that a reader sees the old file or the new one, never a part.

    The bytes go to a temporary file in the same folder, which is flushed to disk and renamed.
    Raises OutputError, leaving `path` as it was.
    """
    with atomic_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` if the block ends well; see atomic_write."""
    path = Path(path)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
        _remove_forsaken(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _remove_forsaken(path: Path) -> None:
    """Remove the temporary files that killed runs have left beside the file."""
    for name in glob.glob(glob.escape(str(path.parent / f".{path.name}.")) + "*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - os.path.getmtime(name) > FORSAKEN_SECONDS:
                os.remove(name)


def check_writable(path: str | os.PathLike) -> None:
    """Raise OutputError now if `path` could not be written later, so that no training is lost to it."""
    path = Path(path)
    if path.is_dir():
        raise OutputError(f"{path}: is a folder, expected a file name to write to")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: cannot write: no folder {path.parent}; create it first")
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        return  # a device or pipe: it says so itself when it is written to
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error


def sha256_file(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file's bytes as hexadecimal text."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def processor_name() -> str:
    """Return the processor's name, "" where the system does not tell."""
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        import platform

        return platform.processor()


def default_threads() -> int:
    """Return the number of cores this process may use: its affinity mask, cut to the control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _cgroup_quota() or cores))


@cache
def _cgroup_quota() -> int | None:
    """Return the whole cores that the control group (version 2, then 1) grants, rounded down; None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        return max(1, int(quota) // int(period)) if int(quota) > 0 else None
    except ValueError:  # "max": no limit
        return None


def available_memory() -> int | None:
    """Return the free memory in bytes, None where the system does not say.

    The smaller of what the system has free and the control group's limit; the group's use counts caches too, which
    the system would give up.
    """
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        pass
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limits.append(int((Path("/sys/fs/cgroup") / limit).read_text()))
        except (OSError, ValueError):  # "max": no limit
            continue
    return min(limits, default=None)


def resident_bytes() -> int:
    """Return the memory that the process has now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; a file system that cannot sync a folder is no reason to fail."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
