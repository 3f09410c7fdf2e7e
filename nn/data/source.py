"""Data files as bytes: one pass opens, unpacks (gzip) and hashes them."""

from __future__ import annotations

import contextlib
import glob
import gzip
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from ..utils import DataError, InputNotFound, os_reason, sha256_file
from .column import Table
from .uris import STANDARD_INPUT, Fetched, file_of_uri, is_uri, standard_input, without_secrets

BLOCK = 1 << 18  # bytes read at a time: they stay in a processor's cache until they are parsed
GZIP = b"\x1f\x8b"  # how packed files begin
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this many times its size
TABLE_SUFFIXES = (  # of the tables in a folder; what they are, their beginnings say
    ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".npy", ".parquet", ".arrow", ".feather", ".orc", ".jsonl", ".ndjson",
    ".jsonl.gz", ".ndjson.gz",
)  # fmt: skip
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".ppm")


@contextlib.contextmanager
def readable(path: str | os.PathLike | None = None) -> Iterator[None]:
    """Raise InputNotFound for a file or folder that the system does not let be read: this one, or that of the error."""
    try:
        yield
    except OSError as error:
        name = error.filename if path is None else path
        if name is None:
            raise
        raise InputNotFound(f"{name}: cannot read: {os_reason(error)}") from error


def data_files(path: str) -> list[str]:
    """Return the files that `path` stands for: one file or folder of class folders; several with commas between
    them; those that fit a pattern such as day*.csv; the tables in a folder; data.db:table, a table of a database; that
    of a URI; `-`, standard input.

    Names are sorted with the numbers in them taken as numbers. Raises InputNotFound for a pattern that fits no file.
    """
    with readable():
        if os.path.isdir(path):
            return _tables_in(path) or [path]
        if os.path.exists(path):
            return [path]
        if path == STANDARD_INPUT:
            return [standard_input()]
        if "," not in path and database_of(path)[1]:
            return [path]
        if "," in path:
            names = path.split(",")
            if not all(names):
                raise InputNotFound(f"{path}: a name is missing before or after a comma; check --dataset")
            return [file for name in names for file in data_files(name)]
        if is_uri(path):
            file = file_of_uri(path)
            return [file] if isinstance(file, Fetched) else data_files(file)
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
    """Return the tables of a folder; none where there are images in its folders, which are classes then."""
    with os.scandir(folder) as entries:
        entries = [entry for entry in entries if not entry.name.startswith(".")]
    tables = [entry.path for entry in entries if entry.name.lower().endswith(TABLE_SUFFIXES) and entry.is_file()]
    if not tables or any(_has_image(entry.path) for entry in entries if entry.is_dir()):
        return []
    return sorted(tables, key=_by_number)


def _has_image(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.name.lower().endswith(IMAGE_SUFFIXES) for entry in entries)


def _by_number(path: str) -> list:
    """Return the key that sorts day2 before day10."""
    return [int(word) if place % 2 else word for place, word in enumerate(re.split("([0-9]+)", path))]


def are_there(path: str) -> bool:
    """Return whether every file that `path` stands for exists, and can be read again."""
    try:
        return all(
            os.path.exists(database_of(file)[0]) or (isinstance(file, Fetched) and file != STANDARD_INPUT)
            for file in data_files(path)
        )
    except InputNotFound:
        return False


def absolute(path: str) -> str:
    """Return the same files, named so that the program finds them from any folder, without secrets."""
    return os.path.abspath(path) if os.path.exists(path) else relative_to(os.getcwd(), without_secrets(path))


def relative_to(folder: str | os.PathLike, path: str) -> str:
    """Return the files that `path` stands for, seen from a folder."""
    seen = os.path.join(folder, path)
    if os.path.exists(seen):
        return seen
    return ",".join(
        name if is_uri(name) or name == STANDARD_INPUT else os.path.normpath(os.path.join(folder, name))
        for name in path.split(",")
    )


def short_name(path: str) -> str:
    """Return the name that a line about the data gives it: the file's name; of several the first and their number."""
    files = [path] if os.path.exists(path) else without_secrets(path).split(",")
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    first = files[0].partition("?")[0] if is_uri(files[0]) else files[0]
    return os.path.basename(first.rstrip("/")) + more


def local(path: str) -> str:
    """Return where the bytes of a file are on this machine: of one that lies elsewhere, those of its copy."""
    return path.copy if isinstance(path, Fetched) else path


class Files:
    """The files of a data set, which must not change until they have been read; and their digest."""

    def __init__(self, paths: list[str]):
        self.paths, self._states = paths, list(map(_state, paths))

    def check(self) -> None:
        """Raise DataError if one of the files has changed."""
        for path, state in zip(self.paths, self._states, strict=True):
            if _state(path) != state:
                raise self.changed(path)

    @cached_property
    def sha256(self) -> str | None:
        """The SHA-256 of a file, as hexadecimal text; of several, that of their digests in order; taken when it is
        first asked for. None if one of them has changed, or is gone, since `paths` were looked at."""
        digests = list(map(_digest, self.paths, self._states))
        if None in digests:
            return None
        return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()

    def read_with(self, read: Callable[[], Table]) -> Table:
        """Return the table that `read` reads. Raises DataError if one of the files has changed."""
        self.check()
        table = read()
        self.check()
        table.sha256 = self
        return table

    @staticmethod
    def changed(path: str) -> DataError:
        """Return the error for a file that has changed."""
        return DataError(f"{path}: changed while it was read, expected the same rows throughout; start again")

    def __reduce__(self):
        return digest_text, (self.sha256,)


def digest_text(digest: str | Files | None) -> str | None:
    """Return a digest as text, taken if that was not asked for before; None: there is none."""
    return digest.sha256 if isinstance(digest, Files) else digest


def check_same_columns(path: str, names: list[str], first_path: str, first_names: list[str]) -> None:
    """Raise DataError if a file has not the columns of the first one."""
    if len(names) != len(first_names):
        raise DataError(
            f"{path}: {len(names)} columns, expected {len(first_names)} as in {first_path}; leave the file out, or "
            f"give all files the same columns"
        )
    for at, (name, first) in enumerate(zip(names, first_names, strict=True)):
        if name != first:
            raise DataError(
                f'{path}: column {at + 1} is "{name}", expected "{first}" as in {first_path}; put the columns into the '
                f"same order"
            )


def _state(path: str) -> tuple:
    """Return what changes with a file's bytes; the size is the first."""
    if isinstance(path, Fetched):
        return path.state()
    with readable(path):
        facts = os.stat(path)
    return facts.st_size, facts.st_mtime_ns


def _digest(path: str, state: tuple) -> str | None:
    """Return the SHA-256 of a file, or, of one that lies elsewhere, of its state; None if it has changed since."""
    if isinstance(path, Fetched) and path != STANDARD_INPUT:
        return hashlib.sha256(" ".join(map(str, state)).encode()).hexdigest()
    try:
        digest = sha256_file(local(path))
        return digest if _state(path) == state else None
    except (OSError, InputNotFound):
        return None


class Source:
    """A data file read from front to back, unpacked if it is gzip (by its content, not its name).

    `most` is the largest number of bytes that reading can give. Raises InputNotFound for a file that cannot be
    opened and DataError for a packed file that is cut or corrupt.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = path
        with readable(path):
            try:
                mode = os.stat(local(path)).st_mode
            except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: NUL in a name
                raise InputNotFound(f"{path}: no such file or folder; check the path") from None
            if not stat.S_ISREG(mode):
                raise InputNotFound(f"{path}: not a regular file; give a file or a folder of class folders")
            self._reader = self._file = open(local(path), "rb")  # noqa: SIM115 (closed by __exit__)
            size = os.fstat(self._file.fileno()).st_size
            self.is_gzip = self.read(2) == GZIP
            self._file.seek(0)
        self._reader = gzip.GzipFile(fileobj=self._file, mode="rb") if self.is_gzip else self._file
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
            raise InputNotFound(f"{self.path}: cannot read: {os_reason(error)}") from error

    def tell(self) -> int:
        """Return the bytes read so far of a file that is not packed."""
        with readable(self.path):
            return self._file.tell()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_) -> None:
        self._file.close()


def fill(file, array: np.ndarray) -> int:
    """Read bytes of a file into a contiguous array; return how many came before the end of the file."""
    view = memoryview(array.reshape(-1, order="A").view(np.uint8))
    done = 0
    while done < len(view) and (block := file.read(min(BLOCK, len(view) - done))):
        view[done : done + len(block)] = block
        done += len(block)
    return done


def read_blocks(path: str | os.PathLike, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file in blocks; unpacking runs one block ahead."""
    with Source(path) as source:
        if not source.is_gzip:
            while block := source.read(size):
                yield block
            return
        with ThreadPoolExecutor(1) as reader:
            waiting = reader.submit(source.read, size)
            while block := waiting.result():
                waiting = reader.submit(source.read, size)
                yield block
