"""Data files as bytes: opened, unpacked where they are gzip, hashed on the way, in one pass."""

from __future__ import annotations

import glob
import gzip
import hashlib
import math
import mmap
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np

from .utils import DataError, InputNotFound, os_reason

BLOCK = 1 << 18  # bytes read at a time: they stay in a processor's cache until they are parsed
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this many times its size
TABLE_SUFFIXES = (".csv", ".csv.gz", ".npy")


def data_files(path: str) -> list[str]:
    """The files that `path` stands for: one file or folder of class folders, as it is; several with commas between
    them; those that a pattern such as day*.csv fits; the tables in a folder without folders. Where names are to
    be sorted, numbers in them count as numbers. Raises InputNotFound for a pattern that fits no file."""
    if os.path.isdir(path):
        return _tables_in(path) or [path]
    if os.path.exists(path):
        return [path]
    if "," in path:
        parts = path.split(",")
        if not all(parts):
            raise InputNotFound(f"{path}: no name before or after a comma; check --dataset")
        return [file for part in parts for file in data_files(part)]
    if not glob.has_magic(path):
        return [path]
    files = [file for file in glob.glob(path) if os.path.isfile(file)]
    if not files:
        raise InputNotFound(f"{path}: no file fits this pattern; check --dataset")
    return sorted(files, key=_by_number)


def _tables_in(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        entries = [entry for entry in entries if not entry.name.startswith(".")]
    if any(entry.is_dir() for entry in entries):
        return []
    return sorted((entry.path for entry in entries if entry.name.lower().endswith(TABLE_SUFFIXES)), key=_by_number)


def _by_number(path: str) -> list:
    """The key that sorts part2 before part10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split("([0-9]+)", path)]


def are_there(path: str) -> bool:
    """Whether every file is there that `path` stands for."""
    try:
        return all(map(os.path.exists, data_files(path)))
    except InputNotFound:
        return False


def absolute(path: str) -> str:
    """The same files wherever the program runs next."""
    return os.path.abspath(path) if os.path.exists(path) else relative_to(os.getcwd(), path)


def relative_to(folder: str | os.PathLike, path: str) -> str:
    """The files that `path` stands for, seen from a folder."""
    seen = os.path.join(folder, path)
    if os.path.exists(seen):
        return seen
    return ",".join(os.path.normpath(os.path.join(folder, part)) for part in path.split(","))


def short_name(path: str) -> str:
    """What a line about the data calls it: the file's name, or that of the first of several and their number."""
    parts = [path] if os.path.exists(path) else path.split(",")
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return os.path.basename(parts[0].rstrip("/")) + more


def joint_digest(digests: list[bytes]) -> str:
    """SHA-256 of one file's bytes as it is; of several files, that of their digests in their order."""
    return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


@dataclass
class Index:
    """What a pass over files has found: their digests, and the place of some of the rows, the end last."""

    digests: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class Extents:
    """Files as one stretch of bytes, parts of which are read while the files are as they were at first."""

    def __init__(self, paths: list[str]):
        self.paths, self._states = paths, [_state(os.stat(path)) for path in paths]
        self._ends = list(accumulate(size for size, _ in self._states))

    def read(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """(number of the file, offset in it, bytes) for each file that has some of the bytes [start, stop)."""
        while start < stop:
            number = bisect_right(self._ends, start)
            offset = start - (self._ends[number] - self._states[number][0])
            text = self.read_one(number, offset, min(stop, self._ends[number]) - start)
            yield number, offset, text
            start += len(text)

    def read_one(self, number: int, offset: int, size: int) -> bytes:
        """So many bytes of one of the files. Raises DataError if it is no longer what it was."""
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

    @staticmethod
    def changed(path: str) -> DataError:
        """The error that says so."""
        return DataError(f"{path}: has changed while it was read, expected the same rows all the time; start again")


def _state(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


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
    `most` is the largest number of bytes that reading can give. Raises InputNotFound if the file cannot be
    opened and DataError if what is packed is cut or corrupt.
    """

    def __init__(self, path: str | os.PathLike, digest=None):
        self.path = path
        if not Path(path).exists():
            raise InputNotFound(f"{path}: no such file or folder; check --dataset")
        if not Path(path).is_file():
            raise InputNotFound(f"{path}: not a regular file; give a file or a folder of class folders")
        try:
            self._file = open(path, "rb")  # noqa: SIM115 (closed by __exit__)
        except OSError as error:
            raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
        size = os.fstat(self._file.fileno()).st_size
        self.is_gzip = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._reader = self._file if digest is None else _Hashing(self._file, digest)
        if self.is_gzip:
            self._reader = gzip.GzipFile(fileobj=self._reader, mode="rb")
        self.most = DEFLATE_RATIO * size if self.is_gzip else size

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        try:
            return self._reader.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = "ends too early" if isinstance(error, EOFError) else "is corrupt"
            raise DataError(
                f"{self.path}: the gzip file {reason}, expected a whole one; copy or download it again"
            ) from error
        except OSError as error:
            raise DataError(f"{self.path}: cannot read: {os_reason(error)}") from error

    def tell(self) -> int:
        """Bytes read so far of a file that is not packed."""
        return self._file.tell()

    def fill(self, array: np.ndarray) -> int:
        """Read bytes into a contiguous array; returns how many came before the end of the file."""
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
    """The unpacked bytes of a file, block after block; reading, unpacking and hashing run one block ahead."""
    with Source(path, digest) as source, ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(source.read, size)
        while block := waiting.result():
            waiting = reader.submit(source.read, size)
            yield block


class Pieces:
    """Rows whose number nobody knows yet: collected in pieces and joined once, in little more memory."""

    def __init__(self, shape: tuple[int, ...], dtype, piece_bytes: int = 1 << 22):
        self.dtype, self._shape = np.dtype(dtype), shape
        row_bytes = self.dtype.itemsize * math.prod(shape)
        self.capacity = max(1, piece_bytes // max(1, row_bytes))
        self._pieces: list[np.ndarray] = []

    def room(self) -> np.ndarray:
        """A new piece (capacity, *shape) to be filled; the ones before must be full."""
        shape = (self.capacity, *self._shape)
        # not from the heap, which keeps what is freed while something above it lives
        memory = mmap.mmap(-1, max(1, math.prod(shape) * self.dtype.itemsize))
        self._pieces.append(np.frombuffer(memory, self.dtype, math.prod(shape)).reshape(shape))
        return self._pieces[-1]

    def joined(self, rows: int) -> np.ndarray:
        """The first `rows` rows as one array; each piece is freed as soon as it has been copied."""
        if len(self._pieces) == 1:
            return self._pieces.pop()[:rows]
        joined = np.empty((rows, *self._shape), self.dtype)
        for start in range(0, rows, self.capacity):
            part = joined[start : start + self.capacity]
            part[...] = self._pieces[start // self.capacity][: len(part)]
            self._pieces[start // self.capacity] = None
        self._pieces.clear()
        return joined
