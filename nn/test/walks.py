"""Walks from rows to a row by a column a step, and what a network gives on the way."""

from __future__ import annotations

import threading

import numpy as np

from ..core import SUFFIXES, extension, pointer
from .values import Reading, by_column, engine_of, layers_of

OVERREAD = 32  # numbers behind those of a walk that the core may write


class Walker:
    """The first layer of a member by what each raw column adds to its sums, and the layers behind it.

    Threads may walk beside each other: each call uses one.
    """

    def __init__(self, member, reading: Reading, engines: list):
        layers = [layer for layer in layers_of(member) if layer.kind != "dropout"]
        self._reading, self._dtype, self._embedding = reading, np.dtype(member.dtype), None
        owner, taken = np.arange(member.inputs), 0
        if layers[0].columns:
            first, *layers = layers
            self._embedding, taken = engine_of(member, [first], engines, 1), first.parameters
            self._head = member.vector[:taken]
            owner = np.repeat([index for index, _ in member.encoding.order], [one.outputs for one in first.columns])
        dense, *behind = layers
        parts = member.vector[taken : taken + dense.parameters].astype(np.float64)
        self._order, self._starts = by_column(owner)
        self._weight = parts[: -dense.outputs].reshape(dense.outputs, -1).T[self._order]
        self._bias, self.width = parts[-dense.outputs :], dense.outputs
        self._behind = engine_of(member, behind, engines, 1) if behind else None
        self._rest = member.vector[taken + dense.parameters :]
        self._kept = threading.local()
        self._ffi, lib = extension(member.backend if member.traits.on_host else "omp")
        self._walk = getattr(lib, f"walk_{SUFFIXES[self._dtype.name]}")
        self._activation = getattr(lib, f"NN_{dense.activation.upper()}")

    def added(self, rows: np.ndarray) -> np.ndarray:
        """Return for rows (bytes of the reading) the sums, and what each column adds: (rows, columns + 1, width)."""
        x = self._reading.typed(rows)
        if self._embedding is not None:
            x = self._embedding.predict(self._embedding.load(x), vector=self._head)
        found = np.empty((len(x), len(self._starts) + 1, self.width), self._dtype)
        for row, own in zip(found, x, strict=True):  # a row at a time: it has the same bits among others
            each = np.add.reduceat(own[self._order, None] * self._weight, self._starts, axis=0)
            row[0], row[1:] = self._bias + each.sum(axis=0), each
        return found

    def outputs(self, own, others, order, differ) -> tuple[np.ndarray, np.ndarray]:
        """Return (places, outputs): what the member gives before the last sigmoid or softmax after each step that
        changes the row, and for its opposite, (2 x such steps, outputs), and which of them a step leads to, (walks,
        steps), -1 - w where walk w has not left its first row.

        own, others: what `added` has of the rows where walks end and begin; order (others, steps): the column of a
        step; differ (walks, columns): whether its value does. See walk in nn.h.
        """
        (walks, columns), (count, steps) = differ.shape, order.shape
        room, places = self._room(2 * walks * steps * self.width), np.empty((walks, steps), np.int64)
        told = self._ffi.new("nn_walk *", (columns, self.width, count, walks, steps, self._activation))
        arrays = (room, places, own, others, order, differ.view(np.uint8))
        made = self._walk(*(pointer(self._ffi, array, array.dtype) for array in arrays), told)
        rows = room[: 2 * made * self.width].reshape(-1, self.width)
        if self._behind is not None:
            rows = self._behind.predict(self._behind.load(rows), vector=self._rest)
        return places, rows.astype(np.float64)

    def _room(self, size: int) -> np.ndarray:
        """Return an array for as many numbers, a thread's own from call to call: new memory costs more than sums."""
        if size + OVERREAD > len(getattr(self._kept, "room", ())):
            self._kept.room = np.empty(size + OVERREAD, self._dtype)
        return self._kept.room
