"""Shared by every module: errors with exit codes, safe file writing, cores and memory of the machine."""

from __future__ import annotations

import contextlib
import difflib
import glob
import hashlib
import io
import logging
import mmap
import os
import secrets
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None

log = logging.getLogger("nn")

FORSAKEN_SECONDS = 60.0  # a temporary file that nobody has written to for so long is a killed run's
MORE_THREADS = "raise the limit on processes (ulimit -u) or on memory (ulimit -v), or use fewer --threads"
NO_ROOM_TO_LOAD = "out of memory: a library cannot be loaded; raise the limit on memory (ulimit -v)"
M_ARENA_MAX = -8  # of glibc's malloc.h
ROOM_FOR_MATRICES = 36 << 20  # bytes of addresses: the buffer of OpenBLAS, and a little
LONGEST_LINE = 1000  # characters of a message: one may quote what a file of any size holds
LONGEST_KEPT_NAME = 200  # bytes of a file's name in that of its temporary file, which must not be too long itself


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


class SideFileError(OutputError):
    """Files beside the model could not be written; the training went on without them. result: its figures."""

    def __init__(self, failures: Sequence[OutputError], result: dict):
        super().__init__("; ".join(dict.fromkeys(map(str, failures))))
        self.result = result


class Stopped(NnError):
    """Training ended early because a signal asked for it; the network keeps what it has learned so far."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_code = 128 + signum


class Interrupted(BaseException):
    """A signal ends the command. It is no Exception, so that nobody takes it for a failure of the file at hand."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_code = 128 + signum


def interruption(error: BaseException) -> BaseException | None:
    """Return what a signal has raised, None for another error. Before Python 3.12 a RuntimeError hides what is raised
    while a class names its attributes."""
    found = error.__cause__ if isinstance(error, RuntimeError) else error
    return found if isinstance(found, (Interrupted, KeyboardInterrupt)) else None


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Let signals wait until the block ends: what a handler raises while C++ makes its classes may end the process, and
    a file that is made at that moment would be left behind."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopRequest:
    """Asks a running training to end after the batch at hand; `request` may be called in a signal handler."""

    def __init__(self):
        self.signum: int | None = None
        self.answered = False  # whether a training is under way that looks for the request

    def request(self, signum: int) -> None:
        """Remember the signal; training raises Stopped(signum) once the batch is done."""
        self.signum = signum


@contextlib.contextmanager
def told_once(*loggers: logging.Logger) -> Iterator[None]:
    """Let each message be logged once, whoever repeats it."""
    seen = set()

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_first = text not in seen
        seen.add(text)
        return is_first

    with contextlib.ExitStack() as stack:
        for logger in loggers:
            logger.addFilter(is_new)
            stack.callback(logger.removeFilter, is_new)
        yield


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
        print(cut_line(printable(line)), file=sys.stderr, flush=True)


def cut_line(line: str) -> str:
    """Return a line of LONGEST_LINE characters at most: its beginning, and its end, where the cure stands."""
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE - 305]} ... {line[-300:]}"


def is_file_name(text: str) -> bool:
    """Return whether a text may be a file's name: no NUL, and no half of a pair of surrogates."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def os_reason(error: OSError) -> str:
    """Return the operating system's own words, without the path and number that Python adds."""
    return error.strerror or str(error)


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
        with contextlib.suppress(OSError, ImportError, AttributeError):  # another C library
            import ctypes

            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def check_room_to_load(size: int) -> None:
    """Raise NnError if a limit leaves no `size` bytes of addresses for a library that would end the process then."""
    if not has_address_limit():
        return
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
    except OSError as error:
        raise NnError(NO_ROOM_TO_LOAD) from error


@cache
def make_room_for_matrices() -> None:
    """Where addresses are limited, let NumPy's library of matrices take its buffer now. It takes one at the first
    product or inverse, matplotlib's too, and ends the process if there is no room. Raises NnError."""
    if has_address_limit():
        check_room_to_load(ROOM_FOR_MATRICES)
        import numpy as np

        np.linalg.inv(np.eye(2))


def atomic_write(path: str | os.PathLike, data: bytes) -> None:
    """Replace `path` by `data` so that a reader sees the old file or the new one, never a part.

    The bytes go to a temporary file in the same folder, which is flushed to disk and renamed.
    Raises OutputError, leaving `path` as it was.
    """
    with atomic_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` if the block ends well; see atomic_write.

    Where `path` is a link, what it points to is replaced. A device or a pipe is refused.
    """
    target = _target(path)
    _check_replaceable(path)
    temporary = target.parent / f"{_prefix_beside(target)}{secrets.token_hex(8)}.tmp"  # known before the file exists
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
        _remove_forsaken(target)
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _target(path: str | os.PathLike) -> Path:
    """Return the file that a path leads to by its links. Raises OutputError where the current folder is gone."""
    try:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error


def _prefix_beside(target: Path) -> str:
    """Return how the names of a file's temporary files begin."""
    return f".{cut_name(target.name)}."


def cut_name(name: str) -> str:
    """Return the beginning of a file's name, to which the system lets some bytes be added."""
    kept = os.fsencode(name)[:LONGEST_KEPT_NAME].decode(sys.getfilesystemencoding(), "ignore")
    return kept if len(os.fsencode(name)) > LONGEST_KEPT_NAME else name


def _check_replaceable(path: str | os.PathLike) -> None:
    """Raise OutputError for a path that is no file: as root a rename would replace a device of the machine."""
    if is_stream(path):
        raise OutputError(f"{path}: a device or a pipe, expected a file name to write to")
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a folder, expected a file name to write to")


_locks: set[str] = set()  # files of the locks that this process holds


@contextlib.contextmanager
def sole_writer(path: str | os.PathLike) -> Iterator[None]:
    """Keep other processes that ask for it too from writing `path` until the block ends.

    Raises OutputError where another one is about to. A file system without locks is no reason to fail.
    """
    target = _target(path)
    lock = str(target.parent / f"{_prefix_beside(target)}lock")
    handle = None
    try:
        with signals_held():  # between the file and the note of it
            handle = _locked(path, lock)
            if handle is not None:
                _locks.add(lock)
        yield
    finally:
        if handle is not None:
            with signals_held():
                release_locks([lock])
                os.close(handle)


def release_locks(locks: Iterable[str] | None = None) -> None:
    """Remove the files of locks, by default of all that this process holds; for a signal that ends it at once."""
    for lock in list(_locks if locks is None else locks):
        with contextlib.suppress(OSError):
            os.unlink(lock)
        _locks.discard(lock)


def _locked(path: str | os.PathLike, lock: str) -> int | None:
    """Return the open file of a lock that this process now holds; None where there are no locks."""
    while fcntl is not None:
        handle = None
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(lock) and os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        except BlockingIOError as error:
            os.close(handle)
            raise OutputError(
                f"{path}: another training is about to write it; wait for its end, or choose another file"
            ) from error
        except OSError:
            if handle is not None:
                os.close(handle)
            return None
        os.close(handle)  # removed by its last holder meanwhile
    return None


def is_stream(path: str | os.PathLike) -> bool:
    """Return whether the path is a device, a pipe, or one of this process's open files, as /dev/stdout is."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or open_file(path) is not None


def open_file(path: str | os.PathLike) -> int | None:
    """Return the number of this process's open file that a path such as /dev/stdout or /dev/fd/3 stands for."""
    path, links = os.fspath(path), 0
    while links < 40:  # as many as Linux follows
        folder, name = os.path.split(os.path.abspath(path))
        if os.path.realpath(folder) in (f"/proc/{os.getpid()}/fd", "/dev/fd") and name.isdecimal():
            return int(name)
        if not os.path.islink(path):
            return None
        path, links = os.path.join(folder, os.readlink(path)), links + 1
    return None


@contextlib.contextmanager
def stream_or_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yield a binary file: a device, a pipe or an open file such as /dev/stdout as it is, else see atomic_file.

    Raises OutputError, and BrokenPipeError where nobody reads a pipe any more.
    """
    if not is_stream(path):
        with atomic_file(path) as file:
            yield file
        return
    try:
        with open_stream(path) as stream, io.BufferedWriter(stream) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error


def open_stream(path: str | os.PathLike) -> BinaryIO:
    """Open a stream (is_stream) for writing; earlier contents of an open file stay before."""
    number = open_file(path)
    return open(path if number is None else os.dup(number), "wb", buffering=0)


def append_whole(file: io.FileIO, data: bytes, size: int | None) -> None:
    """Write all of the bytes at the end of a file, or none, as on a disk that is full. Raises OSError.

    file: unbuffered. size: of the file before, in bytes; None for a pipe or a device, which keeps what it has got.
    """
    try:
        written = 0
        while written < len(data):
            written += file.write(data[written:])
    except OSError:
        if size is not None:
            file.truncate(size)
        raise


def _remove_forsaken(target: Path) -> None:
    """Remove the temporary files that killed runs have left beside the file."""
    for name in glob.glob(glob.escape(str(target.parent / _prefix_beside(target))) + "*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - os.path.getmtime(name) > FORSAKEN_SECONDS:
                os.remove(name)


def check_writable(path: str | os.PathLike, stream: bool = False) -> None:
    """Raise OutputError now if `path` could not be written later, so that no training is lost to it.

    stream: a device or a pipe will do; it tells its own faults when it is written to.
    """
    if stream and is_stream(path):
        return
    _check_replaceable(path)
    target = _target(path)
    for folder in (Path(path).parent, target.parent):
        if not folder.is_dir():
            raise OutputError(f"{path}: cannot write: no folder {folder}; create it first")
    try:
        os.stat(target)  # says whether the name is too long
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error
    try:
        with tempfile.TemporaryFile(dir=target.parent, buffering=0) as file:
            file.write(bytes(4096))  # a full disk has room for a name
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

    The smallest of what the system has free, the limits of the control groups, and the addresses that the process may
    still take; a group's use counts caches too, which the system would give up.
    """
    return min([*_free_memory(), *_group_memory(), *_free_addresses()], default=None)


def memory_left() -> int | None:
    """Return the bytes that this process may still take, None where the system does not say."""
    of_groups = (max(0, limit - resident_bytes()) for limit in _group_memory())
    return min([*_free_memory(), *of_groups, *_free_addresses()], default=None)


def _free_memory() -> list[int]:
    """Return the free memory of the machine, where the system says."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        return []


def _free_addresses() -> list[int]:
    """Return the bytes of addresses that a limit (ulimit -v) leaves the process, where there is one."""
    if not has_address_limit():
        return []
    return [max(0, resource.getrlimit(resource.RLIMIT_AS)[0] - _process_bytes(0))]


def _group_memory() -> list[int]:
    """Return the limits of the control group of this process and of those above it, where there are some."""
    limits = []
    for file in _group_files():
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # "max": no limit
            continue
    return limits


def _group_files(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """Return the files that may hold limits of memory, of version 2 and of version 1 of control groups. In a container
    the root is the container's own group."""
    try:
        known = [line.split(":", 2) for line in groups.read_text().splitlines()]  # number, controllers, path
    except (OSError, ValueError):
        known = []
    files = []
    for controller, folder, name in (("", root, "memory.max"), ("memory", root / "memory", "memory.limit_in_bytes")):
        paths = [path.lstrip("/") for _, controllers, path in known if controller in controllers.split(",")]
        for own in map(folder.joinpath, paths or [""]):
            files += [group / name for group in (own, *own.parents) if group.is_relative_to(folder)]
    return files


def resident_bytes() -> int:
    """Return the memory that the process has now; 0 where the system does not say."""
    return _process_bytes(1)


def _process_bytes(field: int) -> int:
    """Return a field of what the system tells of the process's memory: 0, its addresses; 1, what is resident."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
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
