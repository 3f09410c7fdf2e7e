"""Locks: one process at a time writes a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from .errors import OutputError
from .output_files import locked, prefix_beside, target_of
from .signals import signals_held

_locks: set[str] = set()  # files of the locks that this process holds


@contextlib.contextmanager
def sole_writer(path: str | os.PathLike) -> Iterator[None]:
    """Keep other processes that ask for it too from writing `path` until the block ends.

    Raises OutputError where another one is about to. A file system without locks is no reason to fail.
    """
    target = target_of(path)
    lock = str(target.parent / f"{prefix_beside(target)}lock")
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
            raise OutputError(
                f"{path}: another training is about to write it; wait for its end, or choose another file"
            )
