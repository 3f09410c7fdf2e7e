"""Data files as bytes: one pass opens, unpacks (gzip) and hashes them."""

from __future__ import annotations

import contextlib
import glob
import gzip
import hashlib
import math
import mmap
import os
import re
import stat
import weakref
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate

import numpy as np

from ..utils import DataError, InputNotFound, memory_left, os_reason

BLOCK = 1 << 18  # bytes read at a time: they stay in a processor's cache until they are parsed
GROWING_BYTES = 1 << 22  # of a block of GrowingRows
WATCHED_BYTES = 1 << 28  # of rows, after which the memory that is left is looked at
HUGE_BYTES = 1 << 21  # of a block that is worth huge pages
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this many times its size
TABLE_SUFFIXES = (".csv", ".csv.gz", ".npy", ".parquet", ".arrow", ".feather")


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Raise InputNotFound for a file or folder that the system does not let be read."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise InputNotFound(f"{error.filename}: cannot read: {os_reason(error)}") from error


@readable()
def data_files(path: str) -> list[str]:
    """Return the files that `path` stands for: one file or folder of class folders; several with commas between
    them; those that fit a pattern such as day*.csv; the tables in a folder without folders; data.db:table, a table
    of a database.

    Names are sorted with the numbers in them taken as numbers. Raises InputNotFound for a pattern that fits no file.
    """
    if os.path.isdir(path):
        return _tables_in(path) or [path]
    if os.path.exists(path):
        return [path]
    if "," not in path and database_of(path)[1]:
        return [path]
    if "," in path:
        names = path.split(",")
        if not all(names):
            raise InputNotFound(f"{path}: a name is missing before or after a comma; check --dataset")
        return [file for name in names for file in data_files(name)]
    if not glob.has_magic(path):
        return [path]
    files = [file for file in glob.glob(path) if os.path.isfile(file)]
    if not files:
        raise InputNotFound(f"{path}: no file matches this pattern; check --dataset")
    return sorted(files, key=_by_number)


def database_of(path: str) -> tuple[str, str | None]:
    """Return (file, table) of data.db:table, where there is a file data.db; else (path, None)."""
    file, colon, table = path.rpartition(":")
    if not os.path.exists(path) and colon and table and os.path.isfile(file):
        return file, table
    return path, None


def _tables_in(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        entries = [entry for entry in entries if not entry.name.startswith(".")]
    if any(entry.is_dir() for entry in entries):
        return []
    return sorted((entry.path for entry in entries if entry.name.lower().endswith(TABLE_SUFFIXES)), key=_by_number)


def _by_number(path: str) -> list:
    """Return the key that sorts day2 before day10."""
    return [int(word) if word.isdecimal() else word for word in re.split("([0-9]+)", path)]


def are_there(path: str) -> bool:
    """Return whether every file that `path` stands for exists."""
    try:
        return all(os.path.exists(database_of(file)[0]) for file in data_files(path))
    except InputNotFound:
        return False


def absolute(path: str) -> str:
    """Return the same files, named so that the program finds them from any folder."""
    return os.path.abspath(path) if os.path.exists(path) else relative_to(os.getcwd(), path)


def relative_to(folder: str | os.PathLike, path: str) -> str:
    """Return the files that `path` stands for, seen from a folder."""
    seen = os.path.join(folder, path)
    if os.path.exists(seen):
        return seen
    return ",".join(os.path.normpath(os.path.join(folder, name)) for name in path.split(","))


def short_name(path: str) -> str:
    """Return the name that a line about the data gives it: the file's name; of several the first and their number."""
    files = [path] if os.path.exists(path) else path.split(",")
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return os.path.basename(files[0].rstrip("/")) + more


def joint_digest(digests: list[bytes]) -> str:
    """Return the SHA-256 of one file's bytes; of several files, that of their digests in their order."""
    return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


class Extents:
    """Files as one run of bytes. Ranges of it are read as long as no file has changed since the beginning."""

    def __init__(self, paths: list[str]):
        self.paths, self._states = paths, [_state(os.stat(path)) for path in paths]
        self._ends = list(accumulate(size for size, _ in self._states))

    @property
    def sizes(self) -> list[int]:
        """Return the size of each file in bytes."""
        return [size for size, _ in self._states]

    def read(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield (number of the file, offset in it, bytes) for each file that has some of the bytes [start, stop)."""
        while start < stop:
            number = bisect_right(self._ends, start)
            offset = start - (self._ends[number] - self._states[number][0])
            text = self.read_one(number, offset, min(stop, self._ends[number]) - start)
            yield number, offset, text
            start += len(text)

    def read_one(self, number: int, offset: int, size: int) -> bytes:
        """Return `size` bytes of one of the files. Raises DataError if the file has changed."""
        path = self.paths[number]
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                text = file.read(size)
                if len(text) == size and _state(os.fstat(file.fileno())) == self._states[number]:
                    return text
        except OSError as error:
            raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
        raise self.changed(path)

    def check(self, number: int) -> None:
        """Raise DataError if one of the files has changed."""
        path = self.paths[number]
        try:
            if _state(os.stat(path)) == self._states[number]:
                return
        except OSError as error:
            raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
        raise self.changed(path)

    def digest(self, number: int) -> FileDigest:
        """Return what takes the SHA-256 of one of the files when it is asked for. Raises InputNotFound."""
        return FileDigest(self.paths[number], self._states[number])

    @staticmethod
    def changed(path: str) -> DataError:
        """Return the error for a file that has changed."""
        return DataError(f"{path}: changed while it was read, expected the same rows throughout; start again")


def _state(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_size, facts.st_mtime_ns


class FileDigest:
    """The SHA-256 of a file, taken when it is first asked for.

    The file stays open until then, so that it may be removed or replaced. state: what Extents knows of the file since
    before it was read.
    """

    def __init__(self, path: str, state: tuple[int, int]):
        self._state = state
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
        self._close = weakref.finalize(self, os.close, self._file)

    @cached_property
    def text(self) -> str | None:
        """The hexadecimal digest; None if the file has been written to since `state`."""
        digest, at = hashlib.sha256(), 0
        while block := os.pread(self._file, BLOCK, at):
            digest.update(block)
            at += len(block)
        is_same = _state(os.fstat(self._file)) == self._state
        self._close()
        return digest.hexdigest() if is_same else None

    def __reduce__(self):
        return _itself, (self.text,)


def _itself(text: str | None) -> str | None:
    return text


def digest_text(digest: str | FileDigest | None) -> str | None:
    """Return a digest as text, taken if that was not asked for before; None: there is none."""
    return digest.text if isinstance(digest, FileDigest) else digest


class _Hashing:
    """A file whose bytes all pass through `digest` as they are read."""

    def __init__(self, file, digest):
        self._file, self._digest = file, digest

    def read(self, size=-1):
        data = self._file.read(size)
        self._digest.update(data)
        return data


class Source:
    """A data file read from front to back, unpacked if it is gzip (by its content, not its name).

    `digest` (hashlib) gets the bytes of the file as they are on disk, all of them once the end has been read.
    `most` is the largest number of bytes that reading can give. Raises InputNotFound for a file that cannot be
    opened and DataError for a packed file that is cut or corrupt.
    """

    def __init__(self, path: str | os.PathLike, digest=None):
        self.path = path
        with readable():
            try:
                mode = os.stat(path).st_mode
            except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: NUL in a name
                raise InputNotFound(f"{path}: no such file or folder; check the path") from None
            if not stat.S_ISREG(mode):
                raise InputNotFound(f"{path}: not a regular file; give a file or a folder of class folders")
            self._file = open(path, "rb")  # noqa: SIM115 (closed by __exit__)
        size = os.fstat(self._file.fileno()).st_size
        self.is_gzip = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._reader = self._file if digest is None else _Hashing(self._file, digest)
        if self.is_gzip:
            self._reader = gzip.GzipFile(fileobj=self._reader, mode="rb")
        self.most = DEFLATE_RATIO * size if self.is_gzip else size

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end."""
        try:
            return self._reader.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = "ends too early" if isinstance(error, EOFError) else "is corrupt"
            raise DataError(
                f"{self.path}: the gzip file {reason}, expected a complete one; copy or download it again"
            ) from error
        except OSError as error:
            raise DataError(f"{self.path}: cannot read: {os_reason(error)}") from error

    def tell(self) -> int:
        """Return the bytes read so far of a file that is not packed."""
        return self._file.tell()

    def fill(self, array: np.ndarray) -> int:
        """Read bytes into a contiguous array; return how many came before the end of the file."""
        view = memoryview(array.reshape(-1, order="A").view(np.uint8))
        done = 0
        while done < len(view) and (block := self.read(min(BLOCK, len(view) - done))):
            view[done : done + len(block)] = block
            done += len(block)
        return done

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_) -> None:
        self._file.close()


def read_blocks(path: str | os.PathLike, digest=None, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file in blocks; unpacking and hashing run one block ahead."""
    with Source(path, digest) as source:
        if digest is None and not source.is_gzip:
            while block := source.read(size):
                yield block
            return
        with ThreadPoolExecutor(1) as reader:
            waiting = reader.submit(source.read, size)
            while block := waiting.result():
                waiting = reader.submit(source.read, size)
                yield block


def check_room(path: str | os.PathLike, size: int) -> None:
    """Raise DataError if there is less memory left than `size` bytes."""
    left = memory_left()
    if left is not None and size > left:
        raise DataError(
            f"{path}: its rows need at least {size >> 20} MiB more, but only {left >> 20} MiB of memory are left; use "
            f"fewer rows, or unpack a table that is gzipped and use --memory"
        )


def room_for(shape: tuple[int, ...], dtype, order: str = "C") -> np.ndarray:
    """Return an array of zeros in memory of its own, which is taken as it is written to.

    It is not from the heap: the heap keeps a freed array while anything above it is in use. A large one has large
    pages, with a fault for each 2 MiB instead of 4 KiB.
    """
    count, size = math.prod(shape), math.prod(shape) * np.dtype(dtype).itemsize
    is_large = size >= HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE")
    if is_large:
        size = -(-size // HUGE_BYTES) * HUGE_BYTES
    memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has small pages
    if is_large:
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, count).reshape(shape, order=order)


class GrowingRows:
    """Rows whose number is not known yet: collected in blocks and joined once, in little more memory.

    capacity: rows of a block; None: as many as fill 4 MiB. path: how errors call the rows. Raises DataError where there
    soon is no memory for more: a small gzip file may hold any number of rows.
    """

    def __init__(self, shape: tuple[int, ...], dtype, capacity: int | None = None, path: str | os.PathLike = "data"):
        self.dtype, self._shape, self._path, self._unwatched = np.dtype(dtype), shape, path, 0
        row_bytes = self.dtype.itemsize * math.prod(shape)
        self.capacity = capacity or max(1, GROWING_BYTES // max(1, row_bytes))
        self._blocks: list[np.ndarray] = []

    def new_block(self) -> np.ndarray:
        """Return a new block (capacity, *shape) to be filled; those before must be full."""
        shape = (self.capacity, *self._shape)
        self._watch(math.prod(shape) * self.dtype.itemsize)
        self._blocks.append(room_for(shape, self.dtype))
        return self._blocks[-1]

    def _watch(self, size: int) -> None:
        """Check now and then, behind the first block, that there is room for more."""
        self._unwatched += size if self._blocks else 0
        if self._unwatched >= WATCHED_BYTES:
            check_room(self._path, 2 * self._unwatched)
            self._unwatched = 0

    def joined(self, rows: int, more: int = 0) -> np.ndarray:
        """Return the first `rows` rows as one array, with room for `more` behind them; each block is freed as soon as
        it has been copied."""
        if len(self._blocks) == 1 and rows + more <= self.capacity:
            return self._blocks.pop()[: rows + more]
        joined = np.empty((rows + more, *self._shape), self.dtype)
        for start in range(0, rows, self.capacity):
            some = joined[start : min(start + self.capacity, rows)]
            some[...] = self._blocks[start // self.capacity][: len(some)]
            self._blocks[start // self.capacity] = None
        self._blocks.clear()
        return joined
