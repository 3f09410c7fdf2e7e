"""Data files as bytes, wherever they lie: on this machine, at a URI that pyarrow opens,
s3://bucket/day1.parquet, or in standard input, `-`. They are found by what a person
writes, unpacked (gzip) and hashed.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np

from ..utils import (
    DataError,
    InputNotFound,
    OutputError,
    UsageError,
    check_room_to_load,
    closest,
    has_address_limit,
    needs_package,
    os_reason,
    plural,
    sha256_file,
    temporary_folder,
)
from .column import Selection, Table

# bytes read at a time: they stay in a processor's cache until they are parsed
BLOCK = 1 << 18
GZIP = b"\x1f\x8b"  # how packed files begin
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this many times its size
TABLE_SUFFIXES = (  # of the tables in a folder; what they are, their beginnings say
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".npy",
    ".parquet",
    ".arrow",
    ".feather",
    ".orc",
    ".jsonl",
    ".ndjson",
    ".jsonl.gz",
    ".ndjson.gz",
)
IMAGE_SUFFIXES = (
    ".png",
    ".apng",
    ".jpg",
    ".jpeg",
    ".jpe",
    ".jfif",
    ".webp",
    ".bmp",
    ".dib",
    ".tif",
    ".tiff",
    ".gif",
    ".pgm",
    ".ppm",
    ".pbm",
    ".pnm",
    ".avif",
    ".jp2",
    ".j2k",
    ".qoi",
    ".tga",
    ".ico",
    ".pcx",
    ".sgi",
)
STANDARD_INPUT = "-"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# in a query; others may be secrets
_HARMLESS = ("region", "scheme", "endpoint_override", "allow_bucket_creation")
_ARROW_BYTES = 192 << 20  # bytes of addresses that pyarrow's libraries and threads take


@contextlib.contextmanager
def readable(path: str | os.PathLike | None = None) -> Iterator[None]:
    """Raise InputNotFound for a file or folder that the system does not let be read:
    this one, or that of the error."""
    try:
        yield
    except OSError as error:
        name = path or error.filename
        if name is None:
            raise
        raise InputNotFound(f"{name}: cannot read: {os_reason(error)}") from error


def reason_of(error: Exception) -> str:
    """Return what an error says, or the system for it, on one line."""
    reason = os_reason(error) if isinstance(error, OSError) else str(error)
    return " ".join(reason.split())


def data_files(path: str) -> list[str]:
    """Return the files that `path` stands for: one file or folder of class folders;
    several with commas between them; those that fit a pattern such as day*.csv; the
    tables in a folder; data.db:table, a table of a database; that of a URI; `-`,
    standard input.

    Names are sorted with the numbers in them taken as numbers. Raises InputNotFound for
    a pattern that fits no file.
    """
    with readable():
        if os.path.isdir(path):
            return _tables_in(path) or [path]
        if os.path.exists(path) or ("," not in path and database_of(path)[1]):
            return [path]
        if path == STANDARD_INPUT:
            return [input_from(sys.stdin)]
        if "," in path:
            names = path.split(",")
            if not all(names):
                raise InputNotFound(
                    f"{path}: a name is missing before or after a comma; check --dataset"
                )
            return [file for name in names for file in data_files(name)]
        if is_uri(path):
            file = file_of_uri(path)
            if isinstance(file, Fetched):
                return [file]
            return data_files(file)
        if not glob.has_magic(path):
            return [path]
        files = [file for file in glob.glob(path) if os.path.isfile(file)]
        if not files:
            raise InputNotFound(
                f"{path}: no file matches this pattern; check --dataset"
            )
        return sorted(files, key=_by_number)


def database_of(path: str) -> tuple[str, str | None]:
    """Return (file, table) of data.db:table, where there is a file data.db; else (path,
    None)."""
    file, colon, table = path.rpartition(":")
    if not os.path.exists(path) and colon and table and os.path.isfile(file):
        return file, table
    return path, None


def _tables_in(folder: str) -> list[str]:
    """Return the tables of a folder; none where there are images in its folders, which
    are classes then."""
    entries = [
        entry for entry in Path(folder).iterdir() if not entry.name.startswith(".")
    ]
    tables = [
        entry
        for entry in entries
        if entry.name.lower().endswith(TABLE_SUFFIXES) and entry.is_file()
    ]
    if not tables:
        return []
    for entry in filter(Path.is_dir, entries):
        if any(file.suffix.lower() in IMAGE_SUFFIXES for file in entry.iterdir()):
            return []
    return sorted(map(str, tables), key=_by_number)


def _by_number(path: str) -> list:
    """Return the key that sorts day2 before day10."""
    return [
        int(word) if place % 2 else word
        for place, word in enumerate(re.split("([0-9]+)", path))
    ]


def are_there(path: str) -> bool:
    """Return whether every file that `path` stands for exists, and can be read
    again."""
    try:
        return all(
            os.path.exists(database_of(file)[0])
            or (isinstance(file, Fetched) and file != STANDARD_INPUT)
            for file in data_files(path)
        )
    except InputNotFound:
        return False


def absolute(path: str) -> str:
    """Return the same files, named so that the program finds them from any folder."""
    if os.path.exists(path):
        return os.path.abspath(path)
    return relative_to(os.getcwd(), path)


def relative_to(folder: str | os.PathLike, path: str) -> str:
    """Return the files that `path` stands for, seen from a folder."""
    seen = os.path.join(folder, path)
    if os.path.exists(seen):
        return seen
    return ",".join(
        name
        if is_uri(name) or name == STANDARD_INPUT
        else os.path.normpath(os.path.join(folder, name))
        for name in path.split(",")
    )


def short_name(path: str) -> str:
    """Return the name that a line about the data gives it: the file's name; of several
    the first and their number."""
    paths = [path] if os.path.exists(path) else path.split(",")
    path = paths[0]
    if is_uri(path):
        path = path.partition("?")[0]
    name = os.path.basename(path.rstrip("/"))
    if len(paths) > 1:
        name += f" and {len(paths) - 1} more"
    return name


def local(path: str) -> str:
    """Return where the bytes of a file are on this machine: of one that lies elsewhere,
    those of its copy."""
    if isinstance(path, Fetched):
        return path.copy
    return path


class Files:
    """The files of a data set, which must not change until they have been read; and
    their digest."""

    def __init__(self, paths: list[str]):
        self.paths = paths
        self._states = list(map(_state, paths))

    def check(self) -> None:
        """Raise DataError if one of the files has changed."""
        for path, state in zip(self.paths, self._states, strict=True):
            if _state(path) != state:
                raise self.changed(path)

    @cached_property
    def sha256(self) -> str | None:
        """The SHA-256 of a file, as hexadecimal text; of several, that of their digests
        in order; taken when it is first asked for. None if one of them has changed, or
        is gone, since `paths` were looked at."""
        digests = []
        for path, state in zip(self.paths, self._states, strict=True):
            try:
                digests.append(sha256_file(local(path)))
                if _state(path) != state:
                    return None
            except (OSError, InputNotFound):
                return None
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()

    @staticmethod
    def changed(path: str) -> DataError:
        """Return the error for a file that has changed."""
        return DataError(
            f"{path}: changed while it was read, expected the same rows throughout; start again"
        )

    def __getstate__(self) -> dict:
        return {"sha256": self.sha256}  # as far as another process knows the files


class TableSource:
    """One file of a table format, or several with the same columns, or a data frame,
    opened; rows are read by `read`.

    Opening raises InputNotFound, and DataError for files that are none or whose columns
    differ.
    """

    path: str  # the files as the user named them; how messages call the table
    # of the columns, None where the files have no names for them
    names: list[str] | None
    width: int  # columns of the files
    # the place of the last column that has a name or, in the first rows, a value
    default_target: int
    files: Files | None  # None: a data frame

    def column(self, place: int) -> str:
        """Return how messages call a column."""
        if self.names:
            return f"column {self.names[place]}"
        return f"column {place} of {self.width}"

    def name(self, place: int) -> str:
        """Return a column's name, its place where it has none."""
        if self.names:
            return self.names[place]
        return str(place)

    def read(self, selection: Selection) -> Table:
        """Return all rows. Raises DataError for rows that are no rows of this table,
        and columns of no known type."""
        if self.files is None:
            return self._table(selection)
        self.files.check()
        table = self._table(selection)
        self.files.check()
        table.sha256 = self.files
        return table


def check_same_columns(
    path: str, names: list[str], first_path: str, first_names: list[str]
) -> None:
    """Raise DataError if a file has not the columns of the first one."""
    if len(names) != len(first_names):
        raise DataError(
            f"{path}: {plural(len(names), 'column')}, expected {len(first_names)} as in "
            f"{first_path}; leave the file out, or give all files the same columns"
        )
    pairs = zip(names, first_names, strict=True)
    for number, (name, first_name) in enumerate(pairs, 1):
        if name != first_name:
            raise DataError(
                f'{path}: column {number} is "{name}", expected "{first_name}" as in '
                f"{first_path}; put the columns into the same order"
            )


def _state(path: str) -> tuple:
    """Return what changes with a file's bytes."""
    with readable(path):
        facts = os.stat(local(path))
    return facts.st_size, facts.st_mtime_ns


def not_there(path: str | os.PathLike) -> InputNotFound:
    """Return the error for a file that is not there: with the shipped table of its
    name, else the one in its folder whose name is most like it, if there is one."""
    folder, name = os.path.split(os.fspath(path))
    shipped = os.path.join("datasets", path)
    try:
        names = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        names = []
    stems = [other for other in names if other.lower().split(".")[0] == name.lower()]
    alike = [other for other in names if other.lower() == name.lower()]
    similar = next(iter([*alike, *stems]), None) or closest(name, names)
    cure = "check the path"
    if similar:
        cure = f"did you mean {os.path.join(folder, similar)}?"
    if os.path.isfile(shipped):  # in the project's folder
        cure = f"did you mean {shipped}?"
    return InputNotFound(f"{path}: no such file or folder; {cure}")


class Source:
    """A data file read from front to back, unpacked if it is gzip (by its content, not
    its name).

    `most` is the largest number of bytes that reading can give. Raises InputNotFound
    for a file that cannot be opened and DataError for a packed file that is cut or
    corrupt.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = path
        with readable(path):
            try:
                facts = os.stat(local(path))
            except (FileNotFoundError, NotADirectoryError, ValueError):
                # ValueError: NUL in a name
                raise not_there(path) from None
            if not stat.S_ISREG(facts.st_mode):
                raise InputNotFound(
                    f"{path}: not a regular file; give a file or a folder of class folders"
                )
            self._reader = self._file = open(local(path), "rb")  # noqa: SIM115 (closed by __exit__)
            self.is_gzip = self.read(2) == GZIP
            self._file.seek(0)
        self.most = facts.st_size
        if self.is_gzip:
            import gzip  # here: few files are packed

            self._reader = gzip.GzipFile(fileobj=self._file, mode="rb")
            self.most *= DEFLATE_RATIO

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end."""
        try:
            return self._reader.read(size)
        except (OSError, EOFError, zlib.error) as error:
            if getattr(error, "errno", None):
                raise InputNotFound(
                    f"{self.path}: cannot read: {os_reason(error)}"
                ) from error
            reason = "ends too early" if isinstance(error, EOFError) else "is corrupt"
            raise DataError(
                f"{self.path}: the gzip file {reason}, expected a complete one; copy or "
                "download it again"
            ) from error

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_) -> None:
        self._file.close()


def fill(file, array: np.ndarray) -> int:
    """Read bytes of a file into a contiguous array; return how many came before the end
    of the file."""
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
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as reader:
            waiting = reader.submit(source.read, size)
            while block := waiting.result():
                waiting = reader.submit(source.read, size)
                yield block


# -- files that lie elsewhere ----------------------------------------------------------


def pyarrow(what: str) -> ModuleType:
    """Return the package. Raises UsageError if it is not installed; `what` needs it."""
    # its threads end the process where they find no addresses
    if "pyarrow" not in sys.modules and has_address_limit():
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        os.environ.setdefault("MIMALLOC_ARENA_RESERVE", "16MiB")  # of 1 GiB
        check_room_to_load(_ARROW_BYTES)
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise UsageError(needs_package("arrow", f"{what} need")) from None
    return pyarrow


class Fetched(str):
    """A file that lies elsewhere, which is read from a copy. filesystem, inner: of
    pyarrow, and the file's name there; None: standard input."""

    filesystem = None
    inner = ""

    def __reduce__(self):
        return str, (str(self),)

    @cached_property
    def copy(self) -> str:
        """The path of a copy in a temporary folder, which is closed and goes with this
        object. Raises InputNotFound, OutputError."""
        if self.filesystem is None and sys.stdin is None:
            raise InputNotFound(
                f"{STANDARD_INPUT}: standard input is closed; give a file"
            )
        import tempfile  # only standard input needs it

        folder = temporary_folder()
        with self._written_to(folder):
            self._copy = file = tempfile.NamedTemporaryFile(prefix="nn-", dir=folder)  # noqa: SIM115
        with contextlib.ExitStack() as opened:
            with _opening(self):
                source = sys.stdin.buffer
                if self.filesystem is not None:
                    source = opened.enter_context(
                        self.filesystem.open_input_stream(self.inner)
                    )
            while block := self._block_of(source):
                with self._written_to(folder):
                    file.write(block)
            with self._written_to(folder):
                file.flush()
        return file.name

    def _block_of(self, source) -> bytes:
        with _opening(self):
            return source.read(1 << 20)

    @contextlib.contextmanager
    def _written_to(self, folder: str) -> Iterator[None]:
        """Raise OutputError for a copy that cannot be written to the folder."""
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self}: cannot be copied to {folder}, the folder for temporary files: {os_reason(error)}; make room "
                "there, or name another folder by TMPDIR"
            ) from error


@contextlib.contextmanager
def _opening(name: str) -> Iterator[None]:
    """Turn the failures of pyarrow into an InputNotFound."""
    try:
        yield
    except FileNotFoundError:
        raise InputNotFound(f"{name}: no such file; check the URI") from None
    except (OSError, ValueError, NotImplementedError) as error:
        # ArrowInvalid is a ValueError
        reason = reason_of(error)
        raise InputNotFound(
            f"{name}: cannot be read ({reason[:300].rstrip('.')}); check the URI"
        ) from None


@lru_cache(1)
def input_from(_stream) -> Fetched:
    """Return the file that stands for standard input, which is read once, when its
    bytes are first asked for."""
    return Fetched(STANDARD_INPUT)


def is_uri(path: str) -> bool:
    """Return whether a path is a URI and no file of that name."""
    return bool(_URI.match(path)) and not os.path.exists(path)


def lies_elsewhere(path: str) -> bool:
    """Return whether a host would be asked for one of the files that `path` stands
    for."""
    if os.path.exists(path):
        return False
    for uri in filter(is_uri, path.split(",")):
        inner = _path_of_uri(uri)
        if inner is None or lies_elsewhere(inner):
            return True
    return False


def _path_of_uri(uri: str) -> str | None:
    """Return the path of a URI of this machine's files, file:///data/a.csv; None for
    another URI."""
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that are no address
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    return None


def file_of_uri(uri: str) -> str:
    """Return the file of a URI, of file:// its path. Raises InputNotFound, and
    UsageError for one with a password or key: models, pages and messages show it."""
    path = _path_of_uri(uri)
    if path is not None:
        return path
    from urllib.parse import parse_qsl, urlsplit

    parts = urlsplit(uri)
    user, _, host = parts.netloc.rpartition("@")
    # a password with / ? #
    is_cut = (
        ":" in host
        and not host.endswith("]")
        and not host.rpartition(":")[2].isdecimal()
    )
    secrets = []
    if ":" in user or is_cut or "@" in parts.query + parts.fragment:
        secrets.append("a password")
    if parts.fragment:
        secrets.append("a fragment")
    for name, _ in parse_qsl(parts.query, True):
        if name not in _HARMLESS:
            secrets.append(name if f"{name}=" in parts.query else "a key")
    if secrets:
        raise UsageError(
            f"{parts.scheme}://...: {secrets[0]} in the URI, expected no secrets, and in its query {', '.join(_HARMLESS)} "
            "alone; give keys in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if parts.scheme in ("http", "https"):
        raise InputNotFound(
            f"{uri}: is on a web server; download it first (curl -O) and give the file"
        )
    pyarrow("URIs")
    from pyarrow import fs

    with _opening(uri):
        filesystem, inner = fs.FileSystem.from_uri(uri.replace("*", "%2A"))
        kind = filesystem.get_file_info(inner).type
        if kind == fs.FileType.NotFound and "*" not in inner:
            raise FileNotFoundError
    if kind != fs.FileType.File:
        raise InputNotFound(
            f"{uri}: not one file; give the URI of each file, with commas between them"
        )
    file = Fetched(uri)
    file.filesystem = filesystem
    file.inner = inner
    return file
