"""Files that are written whole or not at all, by one process at a time; devices, pipes
and open files that are written as they are."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .errors import OutputError
from .messages import os_reason
from .signals import signals_held

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# a temporary file that nobody has written to for so long is a killed run's
FORSAKEN_SECONDS = 60.0
_locks: set[str] = set()  # files of the locks of sole_writer that this process holds
# bytes of a file's name in that of its temporary file, which must not be too long
# itself
LONGEST_KEPT_NAME = 200


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Raise OutputError for what the system refuses in the block."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error


def atomic_write(path: str | os.PathLike, data: bytes) -> None:
    """Replace `path` by `data` so that a reader sees the old file or the new one, never
    a part.

    The bytes go to a temporary file in the same folder, which is flushed to disk and
    renamed.
    Raises OutputError, leaving `path` as it was.
    """
    with atomic_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike, mode: int | None = None) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` if the block ends well; see
    atomic_write.

    Where `path` is a link, what it points to is replaced. A device or a pipe is
    refused. mode: None for that of the file that it replaces, else as usual.
    """
    target = target_of(path)
    _check_replaceable(path)
    # known before the file exists
    temporary = target.parent / f"{prefix_beside(target)}{os.urandom(8).hex()}.tmp"
    if mode is None and os.path.isfile(target):
        mode = os.stat(target).st_mode & 0o777
    try:
        with writing(path):
            with open(
                temporary,
                "xb",
                opener=lambda *how: os.open(*how, 0o666 if mode is None else mode),
            ) as file:
                locked(file.fileno())  # in use, see _remove_forsaken
                if mode is not None:
                    with contextlib.suppress(OSError):  # CIFS and others know no modes
                        os.fchmod(file.fileno(), mode)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
            _sync_folder(target.parent)
            _remove_forsaken(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_writable(path: str | os.PathLike, stream: bool = False) -> None:
    """Raise OutputError now if `path` could not be written later, so that no training
    is lost to it.

    stream: a device or a pipe will do; it reports its own faults when it is written to.
    """
    import tempfile

    if stream and is_stream(path):
        return
    _check_replaceable(path)
    target = target_of(path)
    for folder in (Path(path).parent, target.parent):
        if not folder.is_dir():
            raise OutputError(
                f"{path}: cannot write: no folder {folder}; create it first"
            )
    with writing(path):
        with contextlib.suppress(FileNotFoundError):
            os.stat(target)  # says whether the name is too long
        with tempfile.TemporaryFile(dir=target.parent, buffering=0) as file:
            file.write(bytes(4096))  # a full disk has room for a name


def _check_replaceable(path: str | os.PathLike) -> None:
    """Raise OutputError for a path that is no file: as root a rename would replace a
    device of the machine."""
    if is_stream(path):
        raise OutputError(
            f"{path}: a device or a pipe, expected a file name to write to"
        )
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a folder, expected a file name to write to")


def temporary_folder() -> str:
    """Return the folder for temporary files. Raises OutputError, which names those that
    cannot be written."""
    import tempfile

    try:
        return tempfile.gettempdir()
    except OSError as error:
        reason = os_reason(error)
        raise OutputError(
            f"{reason[:1].lower()}{reason[1:]}; name a folder that can be written by TMPDIR"
        ) from error


def target_of(path: str | os.PathLike) -> Path:
    """Return the file that a path leads to by its links. Raises OutputError where the
    current folder is gone."""
    with writing(path):
        return Path(os.path.realpath(path))


def prefix_beside(target: Path) -> str:
    """Return how the names of a file's temporary files begin."""
    return f".{cut_name(target.name)}."


def cut_name(name: str) -> str:
    """Return the beginning of a file's name, to which the system lets some bytes be
    added."""
    kept = os.fsencode(name)[:LONGEST_KEPT_NAME].decode(
        sys.getfilesystemencoding(), "ignore"
    )
    if len(os.fsencode(name)) > LONGEST_KEPT_NAME:
        return kept
    return name


def is_file_name(text: str) -> bool:
    """Return whether a text may be a file's name: no NUL, and no half of a pair of
    surrogates."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_stream(path: str | os.PathLike) -> bool:
    """Return whether the path is a device, a pipe, or one of this process's open files,
    as /dev/stdout is."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or open_file(path) is not None


def open_file(path: str | os.PathLike) -> int | None:
    """Return the number of this process's open file that a path such as /dev/stdout or
    /dev/fd/3 stands for."""
    path = os.fspath(path)
    links = 0
    while links < 40:  # as many as Linux follows
        folder, name = os.path.split(os.path.abspath(path))
        if (
            os.path.realpath(folder) in (f"/proc/{os.getpid()}/fd", "/dev/fd")
            and name.isdecimal()
        ):
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
        links = links + 1
    return None


@contextlib.contextmanager
def stream_or_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yield a binary file: a device, a pipe or an open file such as /dev/stdout as it
    is, else see atomic_file.

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
    """Open a stream (is_stream) for writing; earlier contents of an open file stay
    before."""
    number = open_file(path)
    return open(path if number is None else os.dup(number), "wb", buffering=0)


class AppendedFile:
    """A file that grows by whole pieces: one that there is no room for, as on a full
    disk, is not there in part.

    The first piece replaces an older file; a device or a pipe will do, which keeps what
    it has got. Raises OutputError.
    """

    def __init__(self, path: str | os.PathLike):
        check_writable(path, stream=True)
        self._path = path
        self._file = None
        self._size = 0

    def add(self, data: bytes) -> None:
        with writing(self._path):
            if self._file is None and not is_stream(self._path):
                atomic_write(self._path, data)
                self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 (see close)
                self._size = len(data)
                return
            self._file = self._file or open_stream(self._path)
            try:
                written = 0
                while written < len(data):
                    written += self._file.write(data[written:])
            except OSError:
                if not is_stream(self._path):
                    self._file.truncate(self._size)
                raise
            self._size += len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def sha256_file(*paths: str | os.PathLike) -> str:
    """Return the SHA-256 of the bytes of a file, or of several in turn, as hexadecimal
    text."""
    import hashlib

    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def locked(handle: int) -> bool | None:
    """Lock an open file; return whether no other has it locked, and None where there
    are no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        # of a file system or, without fcntl, of the machine
        return None
    return True


def wait_for_lock(handle: int) -> None:
    """Lock an open file once no other process of this host has it locked, where its
    file system has locks."""
    with contextlib.suppress(OSError, AttributeError):  # see locked
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextlib.contextmanager
def alone_in(folder: str | os.PathLike) -> Iterator[None]:
    """Let one process of this host at a time be in the block for a folder, where its
    file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        wait_for_lock(handle)
        yield
    finally:
        os.close(handle)


def _remove_forsaken(target: Path) -> None:
    """Remove the temporary files that killed runs have left beside the file, which was
    just written: nobody has them locked, and by the clock of the file system they are
    old."""
    for name in glob.glob(
        glob.escape(str(target.parent / prefix_beside(target))) + "*.tmp"
    ):
        with contextlib.suppress(OSError), open(name, "r+b") as file:
            age = os.path.getmtime(target) - os.path.getmtime(name)
            if age > FORSAKEN_SECONDS and locked(file.fileno()):
                os.remove(name)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; a file system that cannot sync a folder is no reason to
    fail."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---- one process at a time


class _Taken(Exception):
    """Another process holds the lock."""


class Claim(NamedTuple):
    """A part that this process has claimed. handle: of the open file that is locked, by
    which the claim lasts in processes that inherit it; None where the file system has
    no locks."""

    handle: int | None


@contextlib.contextmanager
def sole_writer(path: str | os.PathLike) -> Iterator[None]:
    """Keep other processes that ask for it too from writing `path` until the block
    ends.

    Raises OutputError where another one is about to. A file system without locks is no
    reason to fail.
    """
    try:
        with _held(_lock_beside(path, "lock")):
            yield
    except _Taken:
        raise OutputError(
            f"{path}: another training is about to write it; wait for its end, or choose another file"
        ) from None


@contextlib.contextmanager
def claim(path: str | os.PathLike, part: str) -> Iterator[Claim | None]:
    """Claim a part of what will be in `path` until the block ends; None where another
    process has claimed it. The claim of a process that is killed ends with it. part: a
    word of some characters."""
    with contextlib.ExitStack() as stack:
        try:
            taken = Claim(stack.enter_context(_held(claim_file(path, part))))
        except _Taken:
            taken = None
        yield taken


def claim_file(path: str | os.PathLike, part: str) -> str:
    """Return the file that is locked meanwhile."""
    return _lock_beside(path, f"{part}.lock")


@contextlib.contextmanager
def _held(lock: str) -> Iterator[int | None]:
    """Hold the lock of a file, which is made for that, until the block ends; yields its
    handle, None where there are no locks. Raises _Taken."""
    handle = None
    try:
        with signals_held():  # between the file and the note of it
            handle = _locked(lock)
            if handle is not None:
                _locks.add(lock)
        yield handle
    finally:
        if handle is not None:
            with signals_held():
                release_locks([lock])
                os.close(handle)


def _lock_beside(path: str | os.PathLike, end: str) -> str:
    target = target_of(path)
    return str(target.parent / f"{prefix_beside(target)}{end}")


def release_locks(locks: Iterable[str] | None = None) -> None:
    """Remove the files of locks, by default of all that this process holds; for a
    signal that ends it at once."""
    for lock in list(_locks if locks is None else locks):
        with contextlib.suppress(OSError):
            os.unlink(lock)
        _locks.discard(lock)


def _locked(lock: str) -> int | None:
    """Return the open file of a lock that this process now holds; None where there are
    no locks. Raises _Taken where another process holds it."""
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        is_ours = locked(handle)
        with contextlib.suppress(OSError):  # removed by its last holder meanwhile
            if is_ours and os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        os.close(handle)
        if is_ours is None:
            release_locks([lock])
            return None
        if not is_ours:
            raise _Taken
