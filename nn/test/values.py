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

BLOCK = 1 << 16  # rows computed at a time; a constant, so that no bit depends on anything else
LINEAR = "linear"


class Reading:
    """How members read rows that share encoding and scaling: as bytes, each of which belongs to a raw column."""

    def __init__(self, member):
        self.member, encoding = member, member.encoding
        self._dtype = np.dtype(member.dtype) if encoding is None else encoding.record_of(member.dtype)
        self._shape = (member.inputs,) if encoding is None else ()
        self.owner = _owners(member, self._dtype)
        order, count = np.argsort(self.owner, kind="stable"), np.bincount(self.owner, minlength=member.inputs)
        self.bytes_of = np.split(order, np.cumsum(count)[:-1])

    def of(self, x) -> np.ndarray:
        """Return rows as bytes, (rows, bytes)."""
        rows = np.ascontiguousarray(engine_rows(self.member, x))
        rows = rows if self.member.encoding is not None else rows.astype(self._dtype, copy=False)  # pixels stay bytes
        return rows.reshape(len(rows), -1).view(np.uint8)

    def typed(self, rows: np.ndarray) -> np.ndarray:
        """Return bytes as the rows that the engine takes."""
        return np.ascontiguousarray(rows).view(self._dtype).reshape(len(rows), *self._shape)


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
            raise UsageError("images have no columns to explain; give a model of a table")
        self.net, self.members = net, members or list(zip(net.members, net.member_weights, strict=True))
        self.readings: list[Reading] = []
        self._reading_of, self._engine_of = [], []
        engines: list[tuple[list, object]] = []
        for member, _ in self.members:
            self._reading_of.append(self._reading(member))
            self._engine_of.append(_engine(member, engines))

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

    def differ(self, rows: Sequence[np.ndarray], others: Sequence[np.ndarray], columns=None) -> np.ndarray:
        """Return in which of some columns, or of all, rows differ for any of the members: truths (rows, columns)."""
        columns = range(self.columns) if columns is None else columns
        found = np.zeros((len(others[0]), len(columns)), bool)
        for reading, own, other in zip(self.readings, rows, others, strict=True):
            for place, column in enumerate(columns):
                bytes_of = reading.bytes_of[column]
                found[:, place] |= (own[:, bytes_of] != other[:, bytes_of]).any(axis=1)
        return found

    def outputs(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return each member's outputs before the last sigmoid or softmax, float64 (rows, outputs)."""
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
        whole = sum(weight for _, weight in self.members)
        shares = [weight / whole for _, weight in self.members]
        outputs = self.outputs(rows)
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


def _engine(member, known: list[tuple[list, object]]):
    """Return an engine of the member's layers, the last one's sums as they are where they are logits."""
    layers = list(member.layers)
    if gives_logits(member):
        layers[-1] = replace(layers[-1], activation=LINEAR)
    for own, engine in known:
        if own == layers:
            return engine
    engine = backends.create(member.backend, layers, "mse", member.dtype, member.threads, gpus=member.gpus)
    known.append((layers, engine))
    return engine
