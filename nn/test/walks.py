"""Walks from rows to a row by a column a step, and what a network gives on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import SUFFIXES, extension, pointer
from ..utils import default_threads
from .values import Reading, engine_of, layers_of, places_by


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
        layers = [layer for layer in layers_of(member) if layer.kind != "dropout"]
        self._reading, self._embedding = reading, None
        owner, taken = np.arange(member.inputs), 0
        if layers[0].columns:
            first, *layers = layers
            self._embedding, taken = engine_of(member, [first], engines), first.parameters
            self._head = member.vector[:taken]
            owner = np.repeat([index for index, _ in member.encoding.order], [one.outputs for one in first.columns])
        dense, *behind = layers
        parts = member.vector[taken : taken + dense.parameters].astype(np.float64)
        self._weight, self._bias = parts[: -dense.outputs].reshape(dense.outputs, -1), parts[-dense.outputs :]
        self._inputs_of = places_by(owner, member.inputs)
        self._behind = engine_of(member, behind, engines) if behind else None
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
            return np.empty((0, self._behind.outputs)) if self._behind else rows.astype(np.float64)
        return self._behind.predict(self._behind.load(rows), vector=self._rest).astype(np.float64)

    def _room_for(self, rows: int, dtype) -> np.ndarray:
        """Return an array (rows, width), the same memory from call to call: new memory costs more than the sums."""
        if rows > len(self._room):
            self._room = np.empty((rows, self.width), dtype)
        return self._room[:rows]
