"""Errors, each with the exit code that the command line ends with."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

# of pip and of a command: as it is
_FLAG = re.compile(r"(?<![\w-])(?<!install )(?<!nn )--([a-z]\w*)( (?=-?[.\d]))?")
_speaks_of_flags = False


@contextlib.contextmanager
def speaking_of_flags() -> Iterator[None]:
    """Let messages name settings as the command line does, which is there meanwhile."""
    global _speaks_of_flags
    before = _speaks_of_flags
    _speaks_of_flags = True
    try:
        yield
    finally:
        _speaks_of_flags = before


def spoken(text: str) -> str:
    """Return a message as its reader knows settings: --epochs 2 is epochs=2 to a
    program in Python."""
    if _speaks_of_flags:
        return text
    return _FLAG.sub(_as_keyword, text)


def _as_keyword(flag: re.Match) -> str:
    name, space = flag.groups()
    if space:
        return f"{name}="
    return name


class NnWarning(UserWarning):
    """A remark on data, a network or its figures that a person should know; nothing
    failed."""


class NnError(Exception):
    """A failure, described by one line; `exit_code` is what the command line ends with
    (1: failed while running)."""

    exit_code = 1

    def __init__(self, text: str = "", exit_code: int | None = None):
        super().__init__(text)
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return spoken(super().__str__())

    # Python's own calls __init__ with the text: a worker's error would end its pool
    def __reduce__(self):
        return _error_of, (type(self), self.args, vars(self))


def _error_of(kind: type[NnError], args: tuple, facts: dict) -> NnError:
    """Return the error of another process."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(facts)
    return error


class UsageError(NnError):
    """The call itself is wrong: a flag, a value, or flags that contradict each
    other."""

    exit_code = 2


class DataError(NnError):
    """A data or model file holds something that cannot be used."""

    exit_code = 65


class RowError(DataError):
    """A row of data, counted from 0, holds something that cannot be used."""

    def __init__(self, row: int, fault: str):
        super().__init__(f"row {row + 1}, {fault}")
        self._row = row
        self._fault = fault

    def in_data(self, name: str, rows_before: int = 0) -> DataError:
        """Return the error that names the data, of which that many rows come before
        those that were looked at."""
        row = rows_before + self._row + 1
        return DataError(f"{name}, data row {row}, {self._fault}")


class LayersMismatch(DataError):
    """Data have other inputs or outputs than the network, whose --layers may be what is
    wrong."""


class InputNotFound(NnError):
    """A file that should be read is not there."""

    exit_code = 66


class OutputError(NnError):
    """A file cannot be written."""

    exit_code = 73


class SideFileError(OutputError):
    """Files beside the model could not be written; the training went on without them.
    result: its figures."""

    def __init__(self, failures: Sequence[OutputError], result: dict):
        super().__init__("; ".join(dict.fromkeys(map(str, failures))))
        self.result = result


def network_of(function: str, model):
    """Return the network of a Model, what else predicts as it is. function: that was
    given it. Raises UsageError for the path of a file."""
    if isinstance(model, (str, os.PathLike)):
        raise UsageError(
            f"{function}: found the path {model}, expected a model; nn.Model.load reads one"
        )
    return getattr(model, "network", model)
