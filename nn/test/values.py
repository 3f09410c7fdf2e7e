"""The value of a prediction that is explained, and rows in which some columns have the values of other rows.

The value is the logit of the score for two classes, each class's log probability less their mean for several, and the
predicted value for a regression: float64, (rows, outputs). Logits are those of the last layer's sums, so that they are
finite where a score rounds to 0 or 1.

Rows are mixed as the engine takes them, encoded and scaled once: each byte of such a row belongs to a raw column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import backends
from ..core import SUFFIXES, extension, pointer
from ..nn.prediction import engine_rows
from ..utils import UsageError, default_threads

WORD = 8  # bytes of a word of a key
BLOCK = 1 << 16  # rows computed at a time; a constant, so that no bit depends on anything else
LINEAR = "linear"


class Reading:
    """How members read rows that share encoding and scaling: as bytes, each of which belongs to a raw column."""

    def __init__(self, member):
        self.member, encoding = member, member.encoding
        self._dtype = np.dtype(member.dtype) if encoding is None else encoding.record_of(member.dtype)
        self._shape = (member.inputs,) if encoding is None else ()
        self.owner = _owners(member, self._dtype)
        each = _places_by(self.owner, member.inputs)
        self._key = np.full((len(each), -(-max(map(len, each)) // WORD) * WORD), len(self.owner))
        for key, places in zip(self._key, each, strict=True):
            key[: len(places)] = places

    def of(self, x) -> np.ndarray:
        """Return rows as bytes, (rows, bytes)."""
        rows = np.ascontiguousarray(engine_rows(self.member, x))
        rows = rows if self.member.encoding is not None else rows.astype(self._dtype, copy=False)  # pixels stay bytes
        return rows.reshape(len(rows), -1).view(np.uint8)

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """Return what tells the values of columns apart, (rows, columns, words)."""
        padded = np.concatenate([rows, np.zeros((len(rows), 1), np.uint8)], axis=1)
        return np.ascontiguousarray(padded[:, self._key]).view(np.uint64)

    def typed(self, rows: np.ndarray) -> np.ndarray:
        """Return bytes as the rows that the engine takes."""
        return np.ascontiguousarray(rows).view(self._dtype).reshape(len(rows), *self._shape)


def _places_by(owner: np.ndarray, columns: int) -> list[np.ndarray]:
    """Return the places that each column owns."""
    counts = np.bincount(owner, minlength=columns)
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])


def _owners(member, dtype: np.dtype) -> np.ndarray:
    """Return the raw column of each byte of a row; what fills a record up belongs to the first, and is 0 everywhere."""
    if not dtype.names:
        return np.repeat(np.arange(member.inputs), dtype.itemsize)
    owner, values = np.zeros(dtype.itemsize, np.intp), iter(member.encoding.order)
    for field, at in (dtype.fields[name][:2] for name in dtype.names):
        each = field.base.itemsize
        for k in range(field.shape[0]):
            owner[at + k * each : at + (k + 1) * each] = next(values)[0]
    return owner


@dataclass
class Walks:
    """Walks from other rows to a row: the columns of their steps, and which of them change the row (walks, steps)."""

    order: np.ndarray
    changes: np.ndarray

    def __post_init__(self):
        counts = self.changes.sum(axis=1, dtype=np.int64)
        self.places, self.rows = np.cumsum(counts) - counts, int(counts.sum())

    def filled(self, base: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the value before the first step and after each, (walks, steps + 1, outputs).

        base: of the walks' first rows; values: of the steps that change the row, in their order.
        """
        last = np.cumsum(self.changes, axis=1, dtype=np.int64) + self.places[:, None]
        along = np.empty((len(base), self.changes.shape[1] + 1, values.shape[1]))
        known = np.concatenate([np.zeros((1, values.shape[1])), values])  # of value k the place is k + 1
        along[:, 1:] = known[last]
        is_first = last == self.places[:, None]
        along[:, 0] = base
        np.copyto(along[:, 1:], base[:, None], where=is_first[:, :, None])
        return along


class FirstLayer:
    """The first layer of a member by what each raw column adds to its sums, and the layers behind it."""

    def __init__(self, member, reading: Reading, engines: list):
        layers = [layer for layer in _layers(member) if layer.kind != "dropout"]
        self._reading, self._embedding = reading, None
        owner, taken = np.arange(member.inputs), 0
        if layers[0].columns:
            first, *layers = layers
            self._embedding, taken = _engine(member, [first], engines), first.parameters
            self._head = member.vector[:taken]
            owner = np.repeat([index for index, _ in member.encoding.order], [one.outputs for one in first.columns])
        dense, *behind = layers
        parts = member.vector[taken : taken + dense.parameters].astype(np.float64)
        self._weight, self._bias = parts[: -dense.outputs].reshape(dense.outputs, -1), parts[-dense.outputs :]
        self._inputs_of = _places_by(owner, member.inputs)
        self._behind = _engine(member, behind, engines) if behind else None
        self._room = np.empty((0, dense.outputs), member.dtype)
        self._rest, self.width = member.vector[taken + dense.parameters :], dense.outputs
        self._backend = member.backend if member.traits.on_host else "omp"
        self._activation, self._threads = dense.activation, member.threads or default_threads()

    def added(self, rows: np.ndarray) -> np.ndarray:
        """Return for rows (bytes of the reading) the sums, and what each column adds: (rows, columns + 1, width)."""
        x = self._reading.typed(rows)
        if self._embedding is not None:
            x = self._embedding.predict(self._embedding.load(x), vector=self._head)
        found = np.empty((len(x), len(self._inputs_of) + 1, self.width), self._reading.member.dtype)
        sums = np.tile(self._bias, (len(x), 1))
        for column, places in enumerate(self._inputs_of):
            each = np.zeros(sums.shape)
            for place in places:  # not a product of matrices: a row has the same bits among others
                each += x[:, place, None] * self._weight[:, place]
            found[:, column + 1] = each
            sums += each
        found[:, 0] = sums
        return found

    def outputs(self, own: np.ndarray, others: np.ndarray, walks: Sequence[Walks]) -> np.ndarray:
        """Return the outputs of the member before the last sigmoid or softmax, after each step that changes the row.

        own: what `added` has of a row for each of the walks; others: of the rows where these begin.
        """
        ffi, lib = extension(self._backend)
        dtype, function = own.dtype, getattr(lib, f"walk_{SUFFIXES[own.dtype.name]}")
        rows, at = self._room_for(sum(each.rows for each in walks), dtype), 0
        activation = getattr(lib, f"NN_{self._activation.upper()}")
        for k, each in enumerate(walks):
            columns, (count, steps) = own.shape[1] - 1, each.order.shape
            told = ffi.new("nn_walk *", (columns, self.width, len(others), count, steps, activation))
            arrays = ((rows[at : at + each.rows], dtype), (own[k], dtype), (others, dtype), (each.order, np.int32),
                      (each.changes, np.uint8), (each.places, np.int64))  # fmt: skip
            function(*(pointer(ffi, array, kind) for array, kind in arrays), told, self._threads)
            at += each.rows
        if self._behind is None or not len(rows):
            return rows.copy() if self._behind is None else np.empty((0, self._behind.outputs), dtype)
        return self._behind.predict(self._behind.load(rows), vector=self._rest)

    def _room_for(self, rows: int, dtype) -> np.ndarray:
        """Return an array (rows, width), the same memory from call to call: new memory costs more than the sums."""
        if rows > len(self._room):
            self._room = np.empty((rows, self.width), dtype)
        return self._room[:rows]


class Value:
    """Values that are explained of a network's predictions, also for mixtures of the columns of rows."""

    def __init__(self, net, members: Sequence | None = None):
        """Make the engines. members: with their weights, (member, weight) each; None: all of the network."""
        if len(net.layers[0].in_shape) == 3 and net.layers[0].in_shape[1:] != (1, 1):
            raise UsageError("images have no columns to explain; nn --test --report shows the worst mistakes")
        self.net, self.members = net, members or list(zip(net.members, net.member_weights, strict=True))
        self.readings: list[Reading] = []
        self._engines: list[tuple[list, object]] = []
        self._reading_of = [self._reading(member) for member, _ in self.members]
        self._engine_of = [_engine(member, _layers(member), self._engines) for member, _ in self.members]

    def _reading(self, member) -> int:
        for k, known in enumerate(self.readings):
            if known.member.encoding is member.encoding and known.member.scaling is member.scaling:
                return k
        self.readings.append(Reading(member))
        return len(self.readings) - 1

    @property
    def columns(self) -> int:
        """Return the number of raw columns."""
        encoding = self.net.members[0].encoding
        return self.net.inputs if encoding is None else encoding.features

    def read(self, x) -> list[np.ndarray]:
        """Return rows as each reading has them."""
        return [reading.of(x) for reading in self.readings]

    def mixed(self, inside: np.ndarray, taken: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return rows that have the columns `inside` (rows, columns; truths) of `taken` and else those of `others`."""
        return [
            np.where(inside[:, reading.owner], own, other)
            for reading, own, other in zip(self.readings, taken, others, strict=True)
        ]

    def keys(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Return what tells the values of columns apart for any of the members, (rows, columns, words)."""
        return np.concatenate([reading.keys(own) for reading, own in zip(self.readings, rows, strict=True)], axis=2)

    def outputs(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return each member's outputs before the last sigmoid or softmax, (rows, outputs), float64."""
        found = [np.empty((len(rows[0]), self.net.outputs)) for _ in self.members]
        for first in range(0, len(rows[0]), BLOCK):
            loaded: dict[tuple[int, int], object] = {}
            for k, (member, _) in enumerate(self.members):
                engine, place = self._engine_of[k], self._reading_of[k]
                if (id(engine), place) not in loaded:
                    block = self.readings[place].typed(rows[place][first : first + BLOCK])
                    loaded[id(engine), place] = engine.load(block)
                data = loaded[id(engine), place]
                found[k][first : first + BLOCK] = engine.predict(data, vector=member.vector)
        return found

    def of(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Return the values of rows, (rows, outputs)."""
        return self.combined(self.outputs(rows))

    def first_layers(self) -> list[tuple[int, FirstLayer]]:
        """Return the first layer of each member, with the number of its reading."""
        places = zip(self.members, self._reading_of, strict=True)
        return [(place, FirstLayer(own, self.readings[place], self._engines)) for (own, _), place in places]

    def combined(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Return the values of rows, (rows, outputs), of what each member gives before the last sigmoid or softmax."""
        whole = sum(weight for _, weight in self.members)
        shares = [weight / whole for _, weight in self.members]
        if len(outputs) == 1 and self.net.outputs == 1 and gives_logits(self.net):
            (member, _), = self.members
            logits = outputs[0].astype(np.float64) / member.temperature
            return logits / self.net.temperature if self.net.is_combined else logits
        if not gives_logits(self.net):
            return sum(w * self._in_units(m, out) for w, (m, _), out in zip(shares, self.members, outputs, strict=True))
        logs = [log_probabilities(out / m.temperature) for (m, _), out in zip(self.members, outputs, strict=True)]
        mean = logs[0] if len(logs) == 1 else _log_mean(logs, shares)
        if self.net.is_combined:
            mean = mean / self.net.temperature
        return mean[:, 1:] - mean[:, :1] if self.net.outputs == 1 else mean - mean.mean(axis=1, keepdims=True)

    def _in_units(self, member, outputs: np.ndarray) -> np.ndarray:
        return outputs if member.target_scaling is None else member.target_scaling.inverse(outputs)


def gives_logits(net) -> bool:
    """Return whether a network's last layer is a sigmoid or a softmax, so that its sums are logits."""
    return net.layers[-1].output_function == ("sigmoid" if net.task == "binary" else "softmax")


def scores_of(net, values: np.ndarray) -> np.ndarray:
    """Return scores or predicted values of the values that are explained."""
    if not gives_logits(net):
        return values
    logs = log_probabilities(values)
    return np.exp(logs[:, 1:] if net.outputs == 1 else logs)


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Return log probabilities: (rows, 2) of logits (rows, 1) of class 1, else (rows, classes)."""
    if logits.shape[1] == 1:
        return np.concatenate([-np.logaddexp(0, logits), -np.logaddexp(0, -logits)], axis=1)
    most = logits.max(axis=1, keepdims=True)
    return logits - most - np.log(np.exp(logits - most).sum(axis=1, keepdims=True))


def _log_mean(logs: Sequence[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """Return the logarithm of the weighted mean of probabilities."""
    most = np.maximum.reduce(logs)
    return most + np.log(sum(share * np.exp(own - most) for share, own in zip(shares, logs, strict=True)))


def _layers(member) -> list:
    """Return the layers of a member, the last one's sums as they are where they are logits."""
    layers = list(member.layers)
    if gives_logits(member):
        layers[-1] = replace(layers[-1], activation=LINEAR)
    return layers


def _engine(member, layers: list, known: list[tuple[list, object]]):
    """Return an engine of these layers, a known one where there is one."""
    for own, engine in known:
        if own == layers:
            return engine
    engine = backends.create(member.backend, layers, "mse", member.dtype, member.threads, gpus=member.gpus)
    known.append((layers, engine))
    return engine
