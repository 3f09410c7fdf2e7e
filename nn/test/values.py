"""The value of a prediction that is explained, and rows in which some columns have the
values of other rows.

The value is the logit of the score for two classes, each class's log probability less
their mean for several, and the predicted value for a regression: float64, (rows,
outputs). Logits are those of the last layer's sums, so that they are finite where a
score rounds to 0 or 1.

Rows are mixed as the engine takes them, encoded and scaled once: each byte of such a
row belongs to a raw column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .. import backends
from ..data.pixels import BYTE
from ..data.table_rows import TableRows
from ..nn import Network
from ..nn_aux import TASKS
from ..utils import UsageError

LINEAR = "linear"


def names_of(net: Network) -> list[str]:
    """Return the names of the raw columns that are inputs; their places where the data
    had no header."""
    encoding = net.members[0].encoding
    if encoding is not None:
        return [encoding.name(index) for index in range(encoding.features)]
    return list(net.columns or map(str, range(net.inputs)))


def raw_data(x) -> np.ndarray:
    """Return rows as they were given, (rows, columns): numbers, or objects where there
    are words; "" is missing."""
    if not isinstance(x, TableRows):
        return np.asarray(x).reshape(len(x), -1)
    data = np.empty((len(x), len(x.kinds)), object)
    for index, column in enumerate(x.columns):
        if column.reads == "text":
            words = [*column.words, ""]
            data[:, index] = [words[code] for code in column.values]
        else:
            data[:, index] = [*column.values]
    return data


class Reading:
    """How members read rows that share encoding and scaling: as bytes, each of which
    belongs to a raw column."""

    def __init__(self, member):
        self.member = member
        encoding = member.encoding
        if encoding is None:
            self._dtype = np.dtype(member.dtype)
            self._shape = (member.inputs,)
        else:
            self._dtype = encoding.record_of(member.dtype)
            self._shape = ()
        self._owner = _owners(member, self._dtype)
        self._order, self._starts = by_column(self._owner)

    def of(self, x) -> np.ndarray:
        """Return rows as bytes, (rows, bytes)."""
        rows = np.ascontiguousarray(self.member.reader.engine_rows(x))
        if rows.dtype == np.uint8:  # which the engine would divide
            rows = self.member.scaling.apply(rows, self._dtype, BYTE)
        return rows.reshape(len(rows), -1).view(np.uint8)

    def differ(self, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
        """Return in which columns rows are unlike background rows, (rows, background
        rows, columns); all as bytes."""
        unlike = rows[:, None, self._order] != background[:, self._order]
        return np.logical_or.reduceat(unlike, self._starts, axis=2)

    def mixed(
        self, columns: Sequence[int], taken: np.ndarray, donors: np.ndarray
    ) -> np.ndarray:
        """Return the rows `taken`, but with these columns of `donors`; all as bytes."""
        return np.where(np.isin(self._owner, columns), donors, taken)

    def typed(self, rows: np.ndarray) -> np.ndarray:
        """Return bytes as the rows that the engine takes."""
        return (
            np.ascontiguousarray(rows)
            .view(self._dtype)
            .reshape(len(rows), *self._shape)
        )


def by_column(owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in the order of the columns that own them, and where each
    column's begin in it."""
    order = np.argsort(owner, kind="stable")
    return order, np.searchsorted(owner[order], np.arange(owner.max() + 1))


def _owners(member, dtype: np.dtype) -> np.ndarray:
    """Return the raw column of each byte of a row; what fills a record up belongs to
    the first, and is 0 everywhere."""
    if not dtype.names:
        return np.repeat(np.arange(member.inputs), dtype.itemsize)
    owner = np.zeros(dtype.itemsize, np.intp)
    values = iter(member.encoding.order)
    for field, at in (dtype.fields[name][:2] for name in dtype.names):
        size = field.base.itemsize
        for k in range(field.shape[0]):
            start = at + k * size
            owner[start : start + size], _ = next(values)
    return owner


class Value:
    """Values that are explained of a network's predictions, also for mixtures of the
    columns of rows."""

    def __init__(self, net: Network, members: Sequence | None = None):
        """Make the engines. members: with their weights, (member, weight) each; None:
        all of the network."""
        if len(net.layers[0].in_shape) == 3 and net.layers[0].in_shape[1:] != (1, 1):
            raise UsageError(
                "images have no columns to explain; nn --test --report shows the worst mistakes"
            )
        self.net = net
        members = members or list(zip(net.members, net.member_weights, strict=True))
        self.members, weights = zip(*members, strict=True)
        self._shares = [weight / sum(weights) for weight in weights]
        self.readings: list[Reading] = []
        # numbers of readings
        self.reading_of = [self._reading(member) for member in self.members]
        engines: list = []
        self._engines = [
            engine_of(member, layers_of(member), engines) for member in self.members
        ]

    def _reading(self, member) -> int:
        for k, reading in enumerate(self.readings):
            has_encoding = reading.member.encoding is member.encoding
            if has_encoding and reading.member.scaling is member.scaling:
                return k
        self.readings.append(Reading(member))
        return len(self.readings) - 1

    def read(self, x) -> list[np.ndarray]:
        """Return rows as each reading has them."""
        return [reading.of(x) for reading in self.readings]

    def mixed(
        self,
        columns: Sequence[int],
        taken: Sequence[np.ndarray],
        donors: Sequence[np.ndarray],
    ) -> np.ndarray:
        """Return the values of the rows `taken`, but with these columns of `donors`."""
        return self.of(
            [
                reading.mixed(columns, taken_rows, donor_rows)
                for reading, taken_rows, donor_rows in zip(
                    self.readings, taken, donors, strict=True
                )
            ]
        )

    def of(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Return the values of rows, (rows, outputs)."""
        outputs = []
        for member, engine, k in zip(
            self.members, self._engines, self.reading_of, strict=True
        ):
            data = engine.load(self.readings[k].typed(rows[k]))
            outputs.append(
                engine.predict(data, vector=member.vector).astype(np.float64)
            )
        return self.combined(outputs)

    def combined(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Return the values of rows, (rows, outputs), of what each member gives before
        the last sigmoid or softmax."""
        net = self.net
        by_member = list(zip(self.members, outputs, strict=True))
        if not gives_logits(net):
            return self._weighted_sum(
                [_in_units(member, output) for member, output in by_member]
            )
        logits = [output / member.temperature for member, output in by_member]
        temperature = 1.0
        if net.is_combined:
            temperature = net.temperature
        shape = logits[0].shape
        logits = [_of_each_choice(net, logits_of_model) for logits_of_model in logits]
        is_of_two = logits[0].shape[1] == 1
        if len(logits) == 1 and is_of_two:
            return logits[0].reshape(shape) / temperature
        logs = list(map(log_probabilities, logits))
        mean = logs[0]
        if len(logs) > 1:  # the logarithm of the weighted mean of probabilities
            most = np.maximum.reduce(logs)
            mean = most + np.log(
                self._weighted_sum([np.exp(log - most) for log in logs])
            )
        mean = mean / temperature
        if is_of_two:
            return (mean[:, 1:] - mean[:, :1]).reshape(shape)
        return mean - mean.mean(axis=1, keepdims=True)

    def _weighted_sum(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return sum(
            share * array for share, array in zip(self._shares, arrays, strict=True)
        )


def _in_units(member, output: np.ndarray) -> np.ndarray:
    """Return a member's outputs in the units of the targets."""
    if member.target_scaling is None:
        return output
    return member.target_scaling.inverse(output)


def gives_logits(net: Network) -> bool:
    """Return whether a network's last layer is a sigmoid or a softmax, so that its sums
    are logits."""
    task = TASKS[net.task]
    return task.of_classes and net.layers[-1].output_function == task.output


def scores_of(net: Network, values: np.ndarray) -> np.ndarray:
    """Return scores or predicted values of the values that are explained."""
    if not gives_logits(net):
        return values
    logits = _of_each_choice(net, values)
    logs = log_probabilities(logits)
    if logits.shape[1] == 1:
        logs = logs[:, 1:]
    return np.exp(logs).reshape(values.shape)


def _of_each_choice(net: Network, logits: np.ndarray) -> np.ndarray:
    """Return logits with a row for each choice among classes: of several targets for
    each of them (rows * targets, 1)."""
    if TASKS[net.task].by_output:
        return logits.reshape(-1, 1)
    return logits


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Return log probabilities: (rows, 2) of logits (rows, 1) of class 1, else (rows,
    classes)."""
    if logits.shape[1] == 1:
        return np.concatenate(
            [-np.logaddexp(0, logits), -np.logaddexp(0, -logits)], axis=1
        )
    most = logits.max(axis=1, keepdims=True)
    return logits - most - np.log(np.exp(logits - most).sum(axis=1, keepdims=True))


def layers_of(member) -> list:
    """Return the layers of a member, the last one's sums as they are where they are
    logits."""
    layers = list(member.layers)
    if gives_logits(member):
        layers[-1] = replace(layers[-1], activation=LINEAR)
    return layers


def engine_of(
    member, layers: list, engines: list[tuple[list, object]], threads: int | None = None
):
    """Return an engine of these layers, that of `engines` if there is one, else a new
    one, which is added to them. threads: None, the member's."""
    for engine_layers, engine in engines:
        if engine_layers == layers:
            return engine
    engine = backends.create(
        member.backend,
        layers,
        "mse",
        member.dtype,
        threads or member.threads,
        gpus=member.gpus,
    )
    engines.append((layers, engine))
    return engine
