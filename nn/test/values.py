"""The value of a prediction that is explained, and rows in which some columns have the values of other rows.

The value is the logit of the score for two classes, each class's log probability less their mean for several, and the
predicted value for a regression: float64, (rows, outputs). Logits are those of the last layer's sums, so that they are
finite where a score rounds to 0 or 1.

Rows are mixed as the engine takes them, encoded and scaled once: each byte of such a row belongs to a raw column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .. import backends
from ..nn.prediction import engine_rows
from ..utils import UsageError

WORD = 8  # bytes of a word of a key
LINEAR = "linear"


class Reading:
    """How members read rows that share encoding and scaling: as bytes, each of which belongs to a raw column."""

    def __init__(self, member):
        self.member, encoding = member, member.encoding
        self._dtype = np.dtype(member.dtype) if encoding is None else encoding.record_of(member.dtype)
        self._shape = (member.inputs,) if encoding is None else ()
        self.owner = _owners(member, self._dtype)
        each = places_by(self.owner, member.inputs)
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


def places_by(owner: np.ndarray, columns: int) -> list[np.ndarray]:
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


class Value:
    """Values that are explained of a network's predictions, also for mixtures of the columns of rows."""

    def __init__(self, net, members: Sequence | None = None):
        """Make the engines. members: with their weights, (member, weight) each; None: all of the network."""
        if len(net.layers[0].in_shape) == 3 and net.layers[0].in_shape[1:] != (1, 1):
            raise UsageError("images have no columns to explain; nn --test --report shows the worst mistakes")
        self.net, self.members = net, members or list(zip(net.members, net.member_weights, strict=True))
        self.readings: list[Reading] = []
        self.engines: list[tuple[list, object]] = []
        self._reading_of = [self._reading(member) for member, _ in self.members]
        self._engine_of = [engine_of(member, layers_of(member), self.engines) for member, _ in self.members]

    @property
    def placed(self) -> list[tuple[object, int]]:
        """Return each member, and the number of its reading."""
        return [(member, place) for (member, _), place in zip(self.members, self._reading_of, strict=True)]

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
        """Return each member's outputs before the last sigmoid or softmax, float64 (rows, outputs)."""
        found = []
        for (member, _), engine, place in zip(self.members, self._engine_of, self._reading_of, strict=True):
            data = engine.load(self.readings[place].typed(rows[place]))
            found.append(engine.predict(data, vector=member.vector).astype(np.float64))
        return found

    def of(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Return the values of rows, (rows, outputs)."""
        return self.combined(self.outputs(rows))

    def combined(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Return the values of rows, (rows, outputs), of what each member gives before the last sigmoid or softmax."""
        whole = sum(weight for _, weight in self.members)
        shares = [weight / whole for _, weight in self.members]
        if len(outputs) == 1 and self.net.outputs == 1 and gives_logits(self.net):
            logits = outputs[0] / self.members[0][0].temperature
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


def layers_of(member) -> list:
    """Return the layers of a member, the last one's sums as they are where they are logits."""
    layers = list(member.layers)
    if gives_logits(member):
        layers[-1] = replace(layers[-1], activation=LINEAR)
    return layers


def engine_of(member, layers: list, known: list[tuple[list, object]]):
    """Return an engine of these layers, a known one where there is one."""
    for own, engine in known:
        if own == layers:
            return engine
    engine = backends.create(member.backend, layers, "mse", member.dtype, member.threads, gpus=member.gpus)
    known.append((layers, engine))
    return engine
