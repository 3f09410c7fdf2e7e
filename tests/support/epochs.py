"""Epochs that an engine trains: their settings, and what it has after some of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nn.backends.engine import EpochSettings
from support.networks import StopsAfter


def settings(**changes) -> EpochSettings:
    """Return those of Adam, with changes."""
    return EpochSettings(
        **{"optimizer": "adam", "batch": 32, "rates": [0.01] * 9, **changes}
    )


class Ended(NamedTuple):
    """What an engine has after some epochs."""

    parameters: np.ndarray
    moment1: np.ndarray
    losses: list[float]  # sums, of each epoch
    step: int
    data: object  # as the engine has loaded it

    @property
    def bits(self) -> tuple:
        return self.parameters.tobytes(), self.moment1.tobytes(), self.losses


def ended(
    net, x, y, how, *, weights=None, order=None, epochs=1, step=0, pieces=1, room=None
) -> Ended:
    """Train a network's engine on all rows, from its parameters and moments of 0 on.

    order: of the rows; None: one for each epoch. pieces: of each epoch, which is
    stopped after a batch. room: the bytes that the rows may take on each GPU, see
    CudaEngine.
    """
    engine = net.engine
    rows = len(x)
    losses = []
    for member in getattr(engine, "engines", [engine]):
        member.data_room = room
    for what in ("moment1", "moment2", "scales"):
        engine.set(what, np.zeros(engine.length(what), engine.dtype))
    data = engine.load(x if x.dtype.names else x.reshape(rows, -1), y, weights)
    for number in range(epochs):
        if order is None:
            in_order = np.random.default_rng(number).permutation(rows)
        else:
            in_order = order
        progress = engine.progress(step=step)
        for piece in range(pieces):
            progress = engine.progress(progress.row, progress.step, progress.loss)
            if piece < pieces - 1:
                progress = StopsAfter(1)
            engine.epoch(data, in_order, how, progress)
            assert 0 < progress.row <= rows
            assert (progress.row == rows) == (piece == pieces - 1)
        losses = [*losses, progress.loss]
        step = progress.step
    return Ended(engine.get("parameters"), engine.get("moment1"), losses, step, data)
