"""Checkpoints: a training's whole state in a file, so that one that was ended goes on
to the same bytes.

The file is a safetensors file as a model is, replaced whole or not at all. Of each
network it holds the parameters and the optimiser's moments as the engine has them, and
where it stands (`Position`); of each run of several networks, one after the other, what
the run that goes on from it must agree about (`RunFacts`): the flags that change
numbers and the SHA-256 of the data. It is kept after the last epoch: going on from
there only writes the model again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ..data.records import check_kept
from ..settings.flags import DEFAULTS
from ..utils import (
    DataError,
    InputNotFound,
    OutputError,
    UsageError,
    check_writable,
    log,
)
from .checks import is_string, is_whole, list_of, object_of, or_none
from .tensor_file import TensorFile

# of the state of a training; one of another format is of another way to train
CHECKPOINT_FORMAT = 2
LEAST_SECONDS = 1.0  # between two ends of epochs that are saved
AUTO = "auto"

_CHECKPOINT_FILE = TensorFile(
    "nn-checkpoint",
    "checkpoint",
    "a file that `nn --train --checkpoint` wrote",
    "copy it again, or remove it to start afresh",
    "leave out --resume to start afresh, or say --resume auto",
)
_STATE_TYPES = ("F32", "F64", "I64", "U32")


@dataclass
class Position:
    """Where a run stands: what it needs beside parameters and moments to go on to the
    same numbers."""

    epoch: int = 0  # epochs done
    row: int = 0  # rows done of the next epoch's order
    step: int = 0  # batches done
    loss: float = 0.0  # sum of the losses of those rows
    seconds: float = 0.0  # spent on those rows
    losses: list[float] = field(default_factory=list)  # of the epochs done
    val_losses: list[float] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)
    # of the epochs done, where --validation asks for them
    val_metrics: list[float] = field(default_factory=list)
    # of a refit: the lists of the run before it
    before_refit: dict[str, np.ndarray] = field(default_factory=dict)
    # what the next epoch's order is drawn from
    order: dict[str, np.ndarray] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the numbers that a file keeps as arrays: a loss may be infinite, which
        JSON cannot hold."""
        scalars = {
            name: np.array([getattr(self, name)], np.float64) for name in _SCALARS
        }
        order = _with_prefix(_ORDER, self.order)
        return (
            self.lists()
            | scalars
            | order
            | _with_prefix(_FIRST_PREFIX, self.before_refit)
        )

    def lists(self) -> dict[str, np.ndarray]:
        return {name: np.array(getattr(self, name), np.float64) for name in _LISTS}

    @classmethod
    def of(cls, facts: dict, arrays: dict[str, np.ndarray]) -> Position:
        """Return the position that `arrays` and the counts in `facts` stand for."""
        return cls(
            **{name: facts[name] for name in COUNTS},
            **{name: float(arrays[name][0]) for name in _SCALARS},
            **{name: arrays[name].tolist() for name in _LISTS},
            order=_behind_prefix(_ORDER, arrays),
            before_refit=_behind_prefix(_FIRST_PREFIX, arrays),
        )


def _with_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in values.items()}


def _behind_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


COUNTS = ("epoch", "row", "step")
_SCALARS = ("loss", "seconds")
_LISTS = ("losses", "val_losses", "epoch_seconds", "val_metrics")
_ORDER = "order."
_FIRST_PREFIX = "first."
_MEMBER_PREFIX = "member"
DATA_FLAGS = ("layers", "task", "left_out", "table")  # flags that data decide
DECIDING = ("effort", "target", "reference", "layers", "task", "optimizer")
# on which the usual values of other flags depend


class RunFacts(NamedTuple):
    """Facts that a checkpoint and the run that goes on from it must share."""

    config: dict  # the flags that change numbers
    data_sha256: str
    engine: str  # backend and instruction set, which decide the bits too


# of a network: where it stands, COUNTS, and its arrays
State = tuple[dict, dict[str, np.ndarray]]
Run = tuple[RunFacts, list[State | None]]


class Checkpoint:
    """Where trainings save their state, and what they go on from.

    path: written at the end of every `checkpoint_every`th epoch (1) if LEAST_SECONDS
    have passed since the last time, at that of the last epoch, and where the training
    is stopped; None: never. resume: a file to go on from, "auto" for the file at `path`
    if it exists, or None. about: what all runs of the file share beside their settings.
    Raises UsageError, InputNotFound, OutputError for what cannot work.
    """

    def __init__(
        self,
        path: str | None = None,
        checkpoint_every: int | None = None,
        resume: str | None = None,
    ):
        if path is not None:
            path = os.fspath(path)
            check_writable(path)
        elif checkpoint_every is not None:
            raise UsageError("--checkpoint_every needs --checkpoint FILE")
        elif resume == AUTO:
            raise UsageError("--resume auto needs --checkpoint FILE")
        self.path = path
        # the file to go on from, if there is one
        self.source = None
        self.about = {}
        if resume == AUTO:
            if os.path.exists(path):
                self.source = path
        elif resume is not None:
            if not os.path.exists(resume):
                raise InputNotFound(
                    f"{resume}: no such checkpoint; {_CHECKPOINT_FILE.missing}"
                )
            self.source = os.fspath(resume)
        self._every = checkpoint_every or DEFAULTS["checkpoint_every"]
        self._begun = -math.inf
        self._worker = ThreadPoolExecutor(1)
        self._writing: Future | None = None
        # that have begun, the last one goes on
        self._runs: list[Run] = []
        # those of the file to go on from, once it is read
        self._runs_of_file: list[Run] | None = None
        # of the last time that the state was to be written
        self.failure: OutputError | None = None

    @classmethod
    def of(cls, given: str | Checkpoint | None, **settings) -> Checkpoint:
        """Return the checkpoint that a caller gives, or one of a path; settings: of
        that."""
        if isinstance(given, cls):
            return given
        return cls(given, **settings)

    @property
    def is_used(self) -> bool:
        return self.path is not None or self.source is not None

    def begin(self, run: RunFacts, count: int) -> list[State | None]:
        """Begin a run of `count` networks; return the state of each to go on from, None
        where there is none.

        Raises DataError for a damaged file or another kind of file; UsageError for a
        checkpoint of another training, with the flag or the data in which they differ.
        """
        run = run._replace(config={**run.config, **self.about})
        if self._runs_of_file is None:
            self._runs_of_file = self._read()
        states: list[State | None] = [None] * count
        if len(self._runs) < len(self._runs_of_file):
            before, states = self._runs_of_file[len(self._runs)]
            _check_agreement(self.source, before, run)
            if len(states) != count:
                raise self.damaged(f"`members` is missing or wrong, expected {count}")
        self._runs.append((run, states))
        return states

    # ---- writing

    def due(self, epoch: int, epochs: int) -> bool:
        """Return True if the state should be saved after `epoch` of `epochs` epochs."""
        if self.path is None:
            return False
        late_enough = time.monotonic() - self._begun >= LEAST_SECONDS
        idle = self._writing is None or self._writing.done()
        return epoch == epochs or (epoch % self._every == 0 and late_enough and idle)

    def save(self, states: list[State | None]) -> None:
        """Write the states of the networks of the run at hand, and of those before it,
        in a thread of its own.

        A failure is reported, and kept as `failure`; OutputError where rows have
        changed that the networks learn from.
        """
        check_kept(self.path)
        self.finish()
        self._runs[-1] = self._runs[-1][0], states
        facts = {
            "runs": [],
            "members": [],
            "data_sha256": self._runs[-1][0].data_sha256,
            "format": CHECKPOINT_FORMAT,
        }
        arrays = {}
        for run, states in [*self._runs, *self._runs_of_file[len(self._runs) :]]:
            facts["runs"].append({**run._asdict(), "count": len(states)})
            for state in states:
                counts, vectors = state or (None, {})
                prefix = f"{_MEMBER_PREFIX}{len(facts['members'])}."
                arrays |= _with_prefix(prefix, vectors)
                facts["members"].append(counts)
        self._begun = time.monotonic()
        write = partial(_CHECKPOINT_FILE.save, self.path, arrays, facts)
        try:
            self._writing = self._worker.submit(write)
        except RuntimeError:  # no thread can start: the training waits
            self._worker = ThreadPoolExecutor(1)
            self._keep_failure(write)

    def finish(self) -> None:
        """Wait until the file is written, or it is known that it cannot be: the old
        file is there then."""
        if self._writing is None:
            return
        writing = self._writing
        self._writing = None
        self._keep_failure(writing.result)

    def _keep_failure(self, write: Callable[[], None]) -> None:
        try:
            write()
            self.failure = None
        except (OutputError, MemoryError) as error:
            self.lose(error)

    def lose(self, error: OutputError | MemoryError) -> None:
        """Keep why the state is not in the file, for want of memory for the copies too;
        the training goes on."""
        if isinstance(error, MemoryError):
            error = OutputError(f"{self.path}: cannot write: out of memory")
        if self.failure is None:
            log.warning("%s; the training goes on", error)
        self.failure = error

    # ---- reading

    def damaged(self, reason: str) -> DataError:
        return _CHECKPOINT_FILE.damaged(self.source, reason)

    def _read(self) -> list[Run]:
        """Return (facts, states) of each run of the file to go on from; none to start
        afresh. See begin for errors."""
        if self.source is None:
            if self.path is not None and os.path.exists(self.path):
                log.warning(
                    "%s will be replaced; --resume auto would go on from it", self.path
                )
            return []
        path = self.source
        data = _CHECKPOINT_FILE.read(path)
        header, facts = _CHECKPOINT_FILE.header(path, data)
        version = facts.get("format")
        if isinstance(version, int) and version > CHECKPOINT_FORMAT:
            raise DataError(
                f"{path}: checkpoint format {version}, this nn reads up to {CHECKPOINT_FORMAT}; install a newer nn"
            )
        if isinstance(version, int) and version < CHECKPOINT_FORMAT:
            raise DataError(
                f"{path}: checkpoint format {version}, of a training that this nn does otherwise; "
                "leave out --resume to start afresh, or go on with the nn that wrote it"
            )
        _CHECKPOINT_FILE.check_digest(path, data, facts)
        _check_facts(path, facts)
        for name, entry in header.items():
            if name != "__metadata__" and not (
                isinstance(entry, dict) and entry.get("dtype") in _STATE_TYPES
            ):
                raise self.damaged(f"{name} is of an unexpected type")
        states = iter(
            self._states(facts["members"], _CHECKPOINT_FILE.tensors(path, data))
        )
        runs = []
        for run in facts["runs"]:
            data_sha256 = run.get("data_sha256", facts["data_sha256"])
            run_facts = RunFacts(run["config"], data_sha256, run["engine"])
            runs.append((run_facts, list(islice(states, run["count"]))))
        return runs

    def _states(
        self, counts: list, arrays: dict[str, np.ndarray]
    ) -> list[State | None]:
        """Return the states of the networks. Raises DataError for arrays of none of
        them."""
        members: dict[str, dict] = {
            f"{_MEMBER_PREFIX}{number}": {} for number in range(len(counts))
        }
        for name, array in arrays.items():
            member, _, vector = name.partition(".")
            if member not in members:
                raise self.damaged(f"{name} is of no network")
            members[member][vector] = array
        states = list(zip(counts, members.values(), strict=True))
        for number, (member_counts, vectors) in enumerate(states):
            if (member_counts is None) == bool(vectors):
                raise self.damaged(f"`members` has no entry for member {number}")
        return [state if state[0] else None for state in states]

    def position_of(  # noqa: PLR0913 - the facts of a file
        self,
        state: State,
        fresh: Position,
        vectors: Mapping[str, tuple[np.dtype, int]],
        epochs: int,
        batch: int,
        rows: int,
        *,
        judged: bool,
        monitored: bool,
        refit_rows: int | None,
    ) -> tuple[Position, dict[str, np.ndarray]]:
        """Return (position, vectors) that a state stands for, everything checked: C
        must get no number out of range.

        fresh: the position at the beginning. vectors: type and length of the parameters
        and the moments in use. batch: rows. rows: of an epoch, of the refit refit_rows
        (None: there is none). judged: a loss of other rows is kept of each epoch;
        monitored: a metric. Raises DataError for names, types, shapes or counts that do
        not fit.
        """
        counts, arrays = state
        lengths = dict.fromkeys(_SCALARS, 1) | dict.fromkeys(_LISTS, counts["epoch"])
        is_refit = any(name.startswith(_FIRST_PREFIX) for name in arrays)
        if is_refit:
            rows = refit_rows
            epochs_before = arrays.get(f"{_FIRST_PREFIX}losses", np.zeros(0)).size
            if rows is None or not 0 < epochs_before <= epochs:
                raise self.damaged("it is of a refit that this run does not have")
            lengths |= _with_prefix(_FIRST_PREFIX, dict.fromkeys(_LISTS, epochs_before))
        if is_refit or not judged:
            lengths["val_losses"] = 0
        if is_refit or not monitored:
            lengths["val_metrics"] = 0
        number = np.dtype(np.float64)
        numbers = {name: (number, length) for name, length in lengths.items()}
        expected = {
            name: (dtype, (length,))
            for name, (dtype, length) in {**vectors, **numbers}.items()
        }
        expected |= _with_prefix(_ORDER, _forms(fresh.order))
        self._check_arrays(arrays, expected)
        self._check_counts(counts, epochs, rows, batch)
        return Position.of(counts, arrays), {name: arrays[name] for name in vectors}

    def _check_arrays(self, arrays: dict[str, np.ndarray], expected: dict) -> None:
        """Raise DataError for arrays of other names, types or shapes."""
        forms = _forms(arrays)
        for name in sorted(forms.keys() | expected.keys()):
            if forms.get(name) != expected.get(name):
                raise self.damaged(f"{name} does not fit the network and the run")

    def _check_counts(self, counts: dict, epochs: int, rows: int, batch: int) -> None:
        """Raise DataError for counts that a run of epochs of that many rows never
        has."""
        epoch = counts["epoch"]
        row = counts["row"]
        step = counts["step"]
        is_whole_batch = row % batch == 0 or row == rows
        if (
            epoch > epochs
            or row > rows
            or not is_whole_batch
            or (epoch == epochs and row)
        ):
            raise self.damaged(
                f"epoch {epoch}, row {row} is not a position in this run"
            )
        if step != epoch * -(-rows // batch) + -(-row // batch):
            raise self.damaged(f"batch {step} is not at epoch {epoch}, row {row}")


def _forms(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[np.dtype, tuple]]:
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


def _is_count(value) -> bool:
    return is_whole(value) and 0 <= value < 2**63


_RUN_CHECKS = {
    "config": object_of({}),
    "engine": is_string,
    "count": _is_count,
    "data_sha256": is_string,
}
_FACT_CHECKS = {
    "runs": list_of(object_of(_RUN_CHECKS, optional=["data_sha256"])),
    "members": list_of(or_none(object_of(dict.fromkeys(COUNTS, _is_count)))),
    "data_sha256": is_string,
}


def _check_facts(path: str, facts: dict) -> None:
    """Raise DataError for facts that are missing, or of another kind."""
    for name, check in _FACT_CHECKS.items():
        if not check(facts.get(name)):
            raise _CHECKPOINT_FILE.damaged(path, f"`{name}` is missing or wrong")
    if sum(run["count"] for run in facts["runs"]) != len(facts["members"]):
        raise _CHECKPOINT_FILE.damaged(path, "`members` is missing or wrong")


def _check_agreement(path: str, before: RunFacts, run: RunFacts) -> None:
    """Raise UsageError for other flags, then for other data, which may decide some of
    the flags; warn of another processor."""
    theirs = before.config
    ours = json.loads(json.dumps(run.config))
    is_same = before.data_sha256 == run.data_sha256
    for flag in dict.fromkeys([*DECIDING, *ours, *theirs]):
        if theirs.get(flag) != ours.get(flag) and (is_same or flag not in DATA_FLAGS):
            raise UsageError(
                f"--{flag}: {path} was written with {json.dumps(theirs.get(flag))}, this run has "
                f"{json.dumps(ours.get(flag))}; use the same value, or leave out --resume to start afresh"
            )
    if not is_same:
        raise UsageError(
            f"--dataset: {path} was written while training on other data; give that data, or leave out --resume"
        )
    if before.engine != run.engine:
        log.warning(
            "%s was written by %s, this is %s: the last bits may differ from those of an uninterrupted run",
            path,
            before.engine,
            run.engine,
        )


def data_digest(ds, *arrays: np.ndarray) -> str:
    """Return the SHA-256 of what determines the data: the file it came from, else the
    arrays; and what rows have.

    arrays: that determine them too. Some rows of a file, and other targets
    than it has, are other data.
    """
    digest = hashlib.sha256(b"" if ds.sha256 is None else ds.sha256.encode())
    is_whole_file = ds.sha256 is not None and not ds.is_part
    inputs = []
    if not is_whole_file:
        inputs = _arrays_of(ds.x, digest)
    for array in (*inputs, ds.y, ds.weights, ds.groups, ds.times, *arrays):
        if array is not None:
            digest.update(f"{array.dtype.str} {array.shape};".encode())
            digest.update(memoryview(np.ascontiguousarray(array)).cast("B"))
    return digest.hexdigest()


def _arrays_of(x, digest) -> list[np.ndarray]:
    """Return the arrays of inputs; the words of a table's columns go into the
    digest."""
    if isinstance(x, np.ndarray):
        return [x]
    for column in x.columns:
        digest.update(json.dumps([column.reads, column.words]).encode())
    return [column.values for column in x.columns]
