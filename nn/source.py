"""Data files as bytes: opened, unpacked where they are gzip, hashed on the way, in one pass."""

from __future__ import annotations

import gzip
import math
import mmap
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .utils import DataError, InputNotFound, os_reason

BLOCK = 1 << 18  # bytes read at a time: they stay in a processor's cache until they are parsed
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this many times its size


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
        joined = np.empty((rows, *self._shape), self.dtype)
        for start in range(0, rows, self.capacity):
            part = joined[start : start + self.capacity]
            part[...] = self._pieces[start // self.capacity][: len(part)]
            self._pieces[start // self.capacity] = None
        self._pieces.clear()
        return joined
