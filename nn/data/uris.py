"""Files that lie elsewhere: those of a URI that pyarrow opens, s3://bucket/day1.parquet, and standard input, `-`.

What a message, a page or a model knows of them is a name without secrets.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from ..utils import InputNotFound, UsageError, check_room_to_load, has_address_limit, needs_package, os_reason

STANDARD_INPUT = "-"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HARMLESS = ("region", "scheme", "endpoint_override", "allow_bucket_creation")  # in a query; others may be secrets
_ROOM = 192 << 20  # bytes of addresses that pyarrow's libraries and threads take


def pyarrow(what: str) -> ModuleType:
    """Return the package. Raises UsageError if it is not installed; `what` needs it."""
    if "pyarrow" not in sys.modules and has_address_limit():  # its threads end the process where they find no addresses
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        os.environ.setdefault("MIMALLOC_ARENA_RESERVE", "16MiB")  # of 1 GiB
        check_room_to_load(_ROOM)
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise UsageError(needs_package("arrow", f"{what} need")) from None
    return pyarrow


class Fetched(str):
    """A file that lies elsewhere, which is read from a copy. As a text it is its name without secrets.

    filesystem, inner: of pyarrow, and the file's name there; None: standard input. secrets: what no message may show.
    """

    def __new__(cls, name: str, filesystem=None, inner: str = "", secrets: tuple[str, ...] = ()):
        file = super().__new__(cls, name)
        file._filesystem, file._inner, file._secrets = filesystem, inner, secrets
        return file

    def __reduce__(self):
        return str, (str(self),)

    @property
    def copy(self) -> str:
        """The path of a copy in a temporary folder, which goes with this object."""
        return self._copy.name

    @cached_property
    def _copy(self):
        file = tempfile.NamedTemporaryFile(prefix="nn-")  # noqa: SIM115 (closed with this object)
        if self._filesystem is None and sys.stdin is None:
            raise InputNotFound(f"{STANDARD_INPUT}: standard input is closed; give a file")
        with self._reading():
            own = self._filesystem and self._filesystem.open_input_stream(self._inner)
            with own or contextlib.nullcontext(sys.stdin.buffer) as source:
                shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
        return file

    def state(self) -> tuple:
        """Return what changes with the file's bytes: its size, and its tag or its time; None: they stay."""
        if self._filesystem is None:
            return (os.path.getsize(self.copy),)
        with self._reading():
            with self._filesystem.open_input_stream(self._inner) as file:
                facts = dict(file.metadata() or {})
            if {b"ETag", b"Content-Length"} <= facts.keys():
                return int(facts[b"Content-Length"]), facts[b"ETag"].decode()
            info = self._filesystem.get_file_info(self._inner)
        return info.size, info.mtime_ns

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn the failures of pyarrow into an InputNotFound, which shows no secret."""
        try:
            yield
        except FileNotFoundError:
            raise InputNotFound(f"{self}: no such file; check the URI") from None
        except (OSError, ValueError, NotImplementedError) as error:  # ArrowInvalid is a ValueError
            reason = " ".join((os_reason(error) if isinstance(error, OSError) else str(error)).split())
            for secret in sorted(self._secrets, key=len, reverse=True):
                reason = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "...", reason)
            raise InputNotFound(f"{self}: cannot be read ({reason[:300].rstrip('.')}); check the URI") from None


_standard_input: list = []  # (the stream, the file that stands for it)


def standard_input() -> Fetched:
    """Return the file that stands for standard input, which is read once, when its bytes are first asked for."""
    if not _standard_input or _standard_input[0][0] is not sys.stdin:
        _standard_input[:] = [(sys.stdin, Fetched(STANDARD_INPUT))]
    return _standard_input[0][1]


def is_uri(path: str) -> bool:
    """Return whether a path is a URI and no file of that name."""
    return bool(_URI.match(path)) and not os.path.exists(path)


def without_secrets(path: str) -> str:
    """Return a name of data, URIs in it without users, passwords, keys and tokens."""
    if os.path.exists(path) or "://" not in path:
        return path
    return ",".join(_parted(name)[0] if is_uri(name) else name for name in path.split(","))


def _parted(uri: str) -> tuple[str, tuple[str, ...]]:
    """Return (a URI without secrets, these secrets, as they are written and as they are meant)."""
    scheme, _, rest = uri.partition("://")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    if "@" not in host and ":" in host and not host.rpartition(":")[2].isdecimal() and "@" in path:
        host, slash, path = rest.rpartition("@")[0] + "@", "", rest.rpartition("@")[2]  # a key with a slash in it
    user, _, host = host.rpartition("@")
    values = parse_qsl(query, keep_blank_values=True)
    kept = urlencode([(key, value) for key, value in values if key in _HARMLESS], safe=":/")
    hidden = [fragment, user, *user.split(":", 1), *(value for key, value in values if key not in _HARMLESS)]
    hidden += [value for key, _, value in (word.partition("=") for word in query.split("&")) if key not in _HARMLESS]
    secrets = tuple({text for secret in hidden for text in (secret, unquote(secret)) if text} - {"anonymous"})
    user = "anonymous@" if user == "anonymous" else ""
    return f"{scheme}://{user}{host}{slash}{path}" + (f"?{kept}" if kept else ""), secrets


def file_of_uri(uri: str) -> str:
    """Return the file of a URI, of file:// its path. Raises InputNotFound."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    name, secrets = _parted(uri)
    pyarrow("URIs")
    from pyarrow import fs

    with Fetched(name, secrets=(uri, *secrets))._reading():
        filesystem, inner = fs.FileSystem.from_uri(uri.replace("*", "%2A"))
        found = filesystem.get_file_info(inner).type
        if found == fs.FileType.NotFound and "*" not in inner:
            raise FileNotFoundError
    if found != fs.FileType.File:
        raise InputNotFound(f"{name}: not one file; give the URI of each file, with commas between them")
    return Fetched(name, filesystem, inner, secrets)
