"""The format of model files and checkpoints: safetensors, one JSON text of facts, a
SHA-256 over all.

A file is either returned whole and checked or refused with one line: nothing in it is
executed, no size it claims is believed before the bytes are there, and any changed bit
is noticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
from typing import NamedTuple

import numpy as np

from ..utils import (
    DataError,
    InputNotFound,
    NnError,
    OutputError,
    atomic_file,
    cut_line,
    memory_left,
    os_reason,
)

_NO_DIGEST = "0" * 64
_SAFETENSORS = re.compile(rb".{8}\{", re.DOTALL)  # the header's length, and JSON
# of arrays, in the order of safetensors
_ARRAY_TYPES = ("uint8", "float16", "uint32", "float32", "float64", "int64")


class TensorFile(NamedTuple):
    """A kind of file: under which key its facts stand, and how its errors speak of
    it."""

    key: str  # of the facts, in the metadata of safetensors
    noun: str
    expected: str  # what a file should have been
    remedy: str  # what to do about a damaged one
    missing: str  # what to do where there is none
    beginning: re.Pattern[bytes] = _SAFETENSORS  # of every such file

    def save(
        self, path: str | os.PathLike, tensors: dict[str, np.ndarray], facts: dict
    ) -> None:
        """Write a file, replacing `path` only once it is complete; `sha256` is added to
        the facts here.

        The same arguments give the same bytes. Nothing is copied: a network that fills
        the memory can be written. Raises OutputError.
        """
        try:
            parts = self.packed(path, tensors, facts)
            with atomic_file(path) as file:
                for part in parts:
                    file.write(part)
        except MemoryError as error:
            raise OutputError(f"{path}: cannot write: out of memory") from error

    def packed(self, path, tensors: dict[str, np.ndarray], facts: dict) -> list:
        """Return the bytes of such a file, in parts: the header, then the arrays. path:
        how errors call it."""
        facts = {**facts, "sha256": _NO_DIGEST}
        text = json.dumps(
            facts,
            sort_keys=True,
            ensure_ascii=True,
            allow_nan=False,
            separators=(",", ":"),
        )
        header, arrays = _header_of(tensors, {self.key: text})
        # The digest covers every byte of the file but its own 64: header, padding and
        # tensors alike.
        at = self._digest_position(path, header, _NO_DIGEST)
        digest = hashlib.sha256(header)
        for array in arrays:
            digest.update(array)
        return [header[:at], digest.hexdigest().encode(), header[at + 64 :], *arrays]

    def read(self, path: str | os.PathLike) -> bytes:
        """Return a file's bytes, unchecked. Raises InputNotFound, DataError for an
        empty file, a folder or one that begins like no such file, and NnError where
        there is no memory for it."""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode):
                    self._check_size(path, file, status.st_size)
                elif not stat.S_ISFIFO(status.st_mode):
                    # a device such as /dev/zero has no end
                    raise DataError(f"{path}: not a file, expected {self.expected}")
                data = file.read()
        except FileNotFoundError as error:
            raise InputNotFound(
                f"{path}: no such {self.noun}; {self.missing}"
            ) from error
        except IsADirectoryError as error:
            raise DataError(f"{path}: a folder, expected {self.expected}") from error
        except OSError as error:
            raise InputNotFound(
                f"{path}: cannot read the {self.noun}: {os_reason(error)}"
            ) from error
        if not data:
            raise DataError(f"{path}: the {self.noun} is empty; {self.remedy}")
        return data

    def _check_size(self, path, file: io.BufferedReader, size: int) -> None:
        """Raise NnError for a file that the memory cannot hold, and DataError if it
        would be for nothing."""
        left = memory_left()
        begins = file.peek(16)
        if begins and not self.beginning.match(begins):
            raise self._foreign(path)
        if left is not None and size > left:
            raise NnError(
                f"{path}: a {self.noun} of {size >> 20} MiB, but only {left >> 20} MiB of memory are left; "
                "use a machine with more"
            )

    def _foreign(self, path) -> DataError:
        return DataError(f"{path}: not a {self.noun} of nn; expected {self.expected}")

    def damaged(self, path, reason: str) -> DataError:
        return DataError(f"{path}: damaged {self.noun}: {reason}; {self.remedy}")

    def header(self, path, data: bytes) -> tuple[dict, dict]:
        """Return (header of safetensors, facts) as the file has them: 8 bytes of length
        (little endian), then that many bytes of JSON."""
        length = int.from_bytes(data[:8], "little")
        if len(data) < 8 or data[8:9] != b"{":
            raise self._foreign(path)
        if length > len(data) - 8:
            raise DataError(
                f"{path}: cut or damaged {self.noun}: its header should have {length} bytes, but "
                f"only {len(data) - 8} follow; {self.remedy}"
            )
        header = self._json(path, data[8 : 8 + length])
        if not isinstance(header, dict):
            raise self.damaged(path, "its header is not a JSON object")
        metadata = header.get("__metadata__")
        text = None
        if isinstance(metadata, dict):
            text = metadata.get(self.key)
        if not isinstance(text, str):
            raise DataError(
                f"{path}: a safetensors file without the metadata of a {self.noun} of nn; expected {self.expected}"
            )
        facts = self._json(path, text.encode("utf-8", "surrogatepass"))
        if not isinstance(facts, dict):
            raise self.damaged(path, "its metadata is not a JSON object")
        return header, facts

    def _json(self, path, text: bytes):
        """Return JSON by the standard: UTF-8, finite numbers, no key twice."""

        def finite(number: str) -> float:
            value = float(number)
            if not math.isfinite(value):
                raise ValueError(f"{number} is not a finite number")
            return value

        def without_repeats(pairs: list) -> dict:
            result = dict(pairs)
            if len(result) != len(pairs):
                raise ValueError("a key occurs twice")
            return result

        try:
            return json.loads(
                text.decode("utf-8"),
                parse_float=finite,
                parse_constant=finite,
                object_pairs_hook=without_repeats,
            )
        except (ValueError, RecursionError) as error:
            raise self.damaged(
                path, f"its header is not readable JSON ({one_line(error)})"
            ) from error

    def check_digest(self, path, data: bytes, facts: dict) -> None:
        """Raise DataError unless the SHA-256 in the facts is that of the bytes."""
        digest = facts.get("sha256")
        if not (isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)):
            raise self.damaged(
                path, "`sha256` in its metadata is missing or no SHA-256"
            )
        at = self._digest_position(path, data, digest)
        whole = hashlib.sha256(data[:at])
        whole.update(_NO_DIGEST.encode())
        whole.update(memoryview(data)[at + 64 :])
        if whole.hexdigest() != digest:
            raise self.damaged(path, "its SHA-256 does not match its bytes")

    def _digest_position(self, path, data: bytes, digest: str) -> int:
        """Return the position of the facts' SHA-256: the only bytes of the file that it
        does not cover."""
        # the quotes are escaped: JSON inside a JSON string
        mark = rb"\"sha256\":\"" + digest.encode()
        header = data[: 8 + int.from_bytes(data[:8], "little")]
        if header.count(mark) != 1:
            raise self.damaged(path, "its SHA-256 is not where it should be")
        return header.index(mark) + len(mark) - 64

    def tensors(self, path, data: bytes) -> dict[str, np.ndarray]:
        """Return the arrays; their types must have been checked to be NumPy's."""
        import safetensors.numpy

        try:
            return safetensors.numpy.load(data)
        except (safetensors.SafetensorError, ValueError, OverflowError) as error:
            raise self.damaged(path, one_line(error)) from error


def _header_of(
    tensors: dict[str, np.ndarray], metadata: dict[str, str]
) -> tuple[bytes, list[np.ndarray]]:
    """Return (header, arrays as bytes in their order), as safetensors has them: wide
    types first, then by name."""
    names = sorted(
        tensors, key=lambda name: (-_ARRAY_TYPES.index(tensors[name].dtype.name), name)
    )
    entries: dict[str, dict] = {"__metadata__": metadata}
    arrays = []
    begin = 0
    for name in names:
        array = np.ascontiguousarray(
            tensors[name], tensors[name].dtype.newbyteorder("<")
        )
        kind = array.dtype.name
        entries[name] = {
            "dtype": f"{kind[0].upper()}{8 * array.itemsize}",
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, begin + array.nbytes],
        }
        arrays.append(array.reshape(-1).view(np.uint8))
        begin += array.nbytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, arrays


def one_line(error) -> str:
    return " ".join(str(error).split())


def shortened(value) -> str:
    """Return a value as messages show it: one line of 40 characters at most."""
    return cut_line(repr(value), 40)
