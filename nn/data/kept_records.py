"""Records in a file beside the checkpoint, from which the training that goes on maps them again.

Its name has the digest of what decides its bytes; the file is the records and the SHA-256 of name and records. Nothing
else in it is trusted: one that is cut, changed, of others or with codes out of range is written anew. It is mapped to
be read alone; one that changes while a training reads it ends the training before that writes anything.
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
from ..utils import OutputError, alone_in, atomic_file, cut_name, locked
from . import records

FORMAT = 1  # of the files; another where the same encoding gives other bytes
DIGEST_BYTES = 32
KEY_CHARACTERS = 16  # in a name


class _Mapped(NamedTuple):
    """A file in use: where it is, as what it was mapped, and what its bytes were then."""

    beside: Path | None
    path: Path
    facts: os.stat_result
    memory: mmap.mmap
    digest: bytes

    def is_changed(self) -> bool:
        """Return whether its bytes are others now: they are read only where the file was written to."""
        try:
            facts = os.stat(self.path)
        except OSError:
            return False
        if not os.path.samestat(facts, self.facts) or facts.st_mtime_ns == self.facts.st_mtime_ns:
            return False
        return facts.st_size != self.facts.st_size or not _is_whole(self.memory, self.digest)


_in_use: list[_Mapped] = []


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
    is_first = path is not None and Path(path) != records.checkpoint()
    try:
        with records.within(beside=path):
            yield
            check_kept(path)
    finally:
        _in_use[:] = [kept for kept in _in_use if not (is_first and kept.beside == Path(path))]
    if not is_first:
        return
    folder, name = Path(path).parent, glob.escape(cut_name(Path(path).name))
    for kept in folder.glob(f"{name}.rows-{'[0-9a-f]' * KEY_CHARACTERS}"):
        with contextlib.suppress(OSError):
            kept.unlink()
    for part in folder.glob(f".{name}.rows-*.tmp"):  # a killed run's, or one that another rank writes now
        with contextlib.suppress(OSError), open(part, "r+b") as file:
            if locked(file.fileno()):
                part.unlink()


def check_kept(beside: str | None) -> None:
    """Raise OutputError if a file beside a checkpoint was changed since it was mapped: what was trained is wrong."""
    for kept in _in_use:
        if beside is not None and kept.beside == Path(beside) and kept.is_changed():
            cure = "let nothing write there, and train again"
            raise OutputError(f"{kept.path}: was changed while a training read it; {cure}")


def _file_beside(kept: Kept | None, size: int) -> tuple[Path, bytes] | None:
    """Return (path, digest of the key) of records that go beside the checkpoint; None for those that do not."""
    beside = records.checkpoint()
    if kept is None or beside is None or records.fits(size):
        return None
    if not os.path.samefile(records.folder_on_disk(), beside.parent):
        return None
    digest = hashlib.sha256(f"{FORMAT} {kept.key}".encode(errors="surrogatepass"))
    name = f"{cut_name(beside.name)}.rows-{digest.hexdigest()[:KEY_CHARACTERS]}"
    return beside.with_name(name), digest.digest()


def _write(path: Path, digest: bytes, blocks: Iterator[np.ndarray]) -> None:
    if path.is_symlink():
        path.unlink()
    whole = hashlib.sha256(digest)
    with atomic_file(path, mode=0o600) as file:
        for block in blocks:
            file.write(block.view(np.uint8))
            whole.update(block.view(np.uint8))
        file.write(whole.digest())
    with contextlib.suppress(OSError):  # no modes, see atomic_file
        os.chmod(path, 0o400)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe keeps nobody waiting


def _read(path: Path, digest: bytes, rows: int, dtype: np.dtype, columns) -> np.ndarray | None:
    """Return the mapped records of a file, None unless it is our own, whole, and has codes that the network has."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            facts = os.fstat(file.fileno())
            is_ours = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
            if facts.st_size != rows * dtype.itemsize + DIGEST_BYTES or not is_ours:
                return None
            records.tell_lost(path)
            memory = mmap.mmap(file.fileno(), facts.st_size, access=mmap.ACCESS_READ)
    except OSError:
        return None
    if not _is_whole(memory, digest):
        return None
    found = np.frombuffer(memory, dtype, rows)
    try:
        check_rows(found, columns)
    except ValueError:
        return None
    _in_use.append(_Mapped(records.checkpoint(), path, facts, memory, digest))
    return found


def _is_whole(memory: mmap.mmap, digest: bytes) -> bool:
    whole, size = hashlib.sha256(digest), len(memory) - DIGEST_BYTES
    for first in range(0, size, records.COPIED_BYTES):
        whole.update(memoryview(memory)[first : min(first + records.COPIED_BYTES, size)])
    return whole.digest() == memory[size:]
