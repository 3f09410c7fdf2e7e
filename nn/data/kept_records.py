"""Records in a file beside the checkpoint, from which the training that goes on maps them again.

Its name has the digest of what decides its bytes; the file is the records and the SHA-256 of name and records. Nothing
else in it is trusted: one that is cut, changed, of others or with codes out of range is written anew.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.records import check_rows
from ..layers import InputColumn
from ..utils import OutputError, alone_in, atomic_file
from . import records

FORMAT = 1  # of the files; another where the same encoding gives other bytes
DIGEST_BYTES = 32


class Kept(NamedTuple):
    """A text that decides the bytes of records, by which they are kept, and the inputs whose codes they hold."""

    key: str
    columns: Sequence[InputColumn]


def filled_records(
    rows: int, dtype: np.dtype, step: int, fill: Callable[[np.ndarray, slice], None], kept: Kept | None
) -> np.ndarray:
    """Return records, `step` of which `fill` sets at a time: in memory or in a file, beside the checkpoint if there is
    one and `kept` says as what. Raises OutputError."""
    blocks = [slice(first, min(first + step, rows)) for first in range(0, rows, step)]
    beside = _file_beside(kept, rows * dtype.itemsize)
    if beside is None:
        out = records.new_rows((rows,), dtype)
        for some in blocks:
            fill(out[some], some)
        return out

    def encoded() -> Iterator[np.ndarray]:
        for some in blocks:
            block = np.zeros(some.stop - some.start, dtype)
            fill(block, some)
            yield block

    path, digest = beside
    with alone_in(path.parent):  # another rank of this host maps what the first has written
        found = _read(path, digest, rows, dtype, kept.columns)
        if found is None:
            _write(path, digest, encoded())
            found = _read(path, digest, rows, dtype, kept.columns)
    if found is None:
        raise OutputError(f"{path}: cannot write: the file has changed since; let nothing else write there")
    return found


@contextlib.contextmanager
def beside_checkpoint(path: str | None) -> Iterator[None]:
    """Let files of rows lie beside a checkpoint in the block; its records are removed when a training has come to its
    end."""
    with records.within(beside=path):
        yield
    if path is not None and Path(path) != records.checkpoint():
        for name in glob.glob(f"{glob.escape(path)}.rows-{'[0-9a-f]' * 16}"):
            with contextlib.suppress(OSError):
                os.remove(name)


def _file_beside(kept: Kept | None, size: int) -> tuple[Path, bytes] | None:
    """Return (path, digest of the key) of records that go beside the checkpoint; None for those that do not."""
    beside = records.checkpoint()
    if kept is None or beside is None or records.fits(size):
        return None
    if not os.path.samefile(records.folder_on_disk(), beside.parent):
        return None
    digest = hashlib.sha256(f"{FORMAT} {kept.key}".encode(errors="surrogatepass"))
    return Path(f"{beside}.rows-{digest.hexdigest()[:16]}"), digest.digest()


def _write(path: Path, digest: bytes, blocks: Iterator[np.ndarray]) -> None:
    if path.is_symlink():
        path.unlink()
    whole = hashlib.sha256(digest)
    with atomic_file(path, mode=0o600) as file:
        for block in blocks:
            file.write(block.view(np.uint8))
            whole.update(block.view(np.uint8))
        file.write(whole.digest())


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe keeps nobody waiting


def _read(path: Path, digest: bytes, rows: int, dtype: np.dtype, columns) -> np.ndarray | None:
    """Return the mapped records of a file, None unless it is our own, whole, and has codes that the network has."""
    size = rows * dtype.itemsize
    try:
        with open(path, "r+b", opener=_no_link) as file:
            facts = os.fstat(file.fileno())
            if facts.st_size != size + DIGEST_BYTES or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
                return None
            memory = mmap.mmap(file.fileno(), facts.st_size)
    except OSError:
        return None
    whole = hashlib.sha256(digest)
    for first in range(0, size, records.COPIED_BYTES):
        whole.update(memoryview(memory)[first : min(first + records.COPIED_BYTES, size)])
    if whole.digest() != memory[size:]:
        return None
    found = np.frombuffer(memory, dtype, rows)
    try:
        check_rows(found, columns)
    except ValueError:
        return None
    return found
