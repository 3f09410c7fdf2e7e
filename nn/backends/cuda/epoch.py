"""Where an epoch stands, and the optimiser's numbers in each of its batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engine import EpochSettings
from .abi import UPDATE, update_rule


@dataclass
class Progress:
    """Where an epoch stands (nn_progress in nn.h); may be read, and `stop` set, while the epoch runs."""

    row: int = 0
    step: int = 0
    loss: float = 0.0
    stop: int = 0


def update_table(settings: EpochSettings, progress: Progress, rows: int, dtype) -> np.ndarray:
    """Return (batches, numbers): struct update of each batch of `rows` rows from progress on, computed in double."""
    row, rule = np.arange(progress.row, rows, settings.batch), update_rule(settings.optimizer, settings.momentum)
    inv_rows = 1.0 / np.minimum(settings.batch, rows - row)
    learning_rate = np.interp(row / rows, np.linspace(0, 1, len(settings.rates)), settings.rates)
    number = progress.step + 1.0 + np.arange(len(row))
    rate, root_scale = learning_rate, np.zeros(len(row))
    if rule == "ADAM":
        rate = learning_rate / (1 - settings.beta1**number)
        root_scale = 1 / np.sqrt(1 - settings.beta2**number)
    elif rule == "SGD":
        rate = learning_rate * inv_rows
    columns = {
        "rate": rate, "inv_rows": inv_rows, "decay": learning_rate * settings.weight_decay, "root_scale": root_scale,
        "momentum": settings.momentum, "gain1": 1 - settings.beta1, "gain2": 1 - settings.beta2,
        "epsilon": settings.epsilon,
    }  # fmt: skip
    table = np.empty((len(row), len(UPDATE)), dtype)
    for place, name in enumerate(UPDATE):
        table[:, place] = columns[name]
    return table
