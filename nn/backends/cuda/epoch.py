"""Where an epoch stands, the optimiser's numbers in each of its batches, weights and
means."""

from __future__ import annotations

import numpy as np

from ...cluster import RankGroup
from ..engine import EpochSettings, Progress
from .abi import UPDATE


def advance(progress: Progress, losses: np.ndarray, rows: int) -> None:
    """Count batches that are done: their losses, one after the other so that the sum
    does not depend on how many are counted at a time, and their rows."""
    progress.loss = float(np.cumsum(np.append(progress.loss, losses))[-1])
    progress.row += rows
    progress.step += len(losses)


def update_table(
    settings: EpochSettings,
    progress: Progress,
    rows: int,
    dtype,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return (batches, numbers): struct update of each batch of `rows` rows from
    progress on, computed in double.

    weights: of the rows of each of these batches in all; None: one a row.
    """
    row = np.arange(progress.row, rows, settings.batch)
    total = weights
    if weights is None:
        total = np.minimum(settings.batch, rows - row)
    inv_rows = np.divide(1.0, total, out=np.zeros(len(row)), where=total > 0)
    learning_rate = np.interp(
        row / rows, np.linspace(0, 1, len(settings.rates)), settings.rates
    )
    number = progress.step + 1.0 + np.arange(len(row))
    rate = learning_rate
    root_scale = np.zeros(len(row))
    constants = [*settings.constants, 0.0, 0.0, 0.0][:3]
    if settings.optimizer == "adam":
        rate = learning_rate / (1 - constants[0] ** number)
        root_scale = 1 / np.sqrt(1 - constants[1] ** number)
    elif not settings.moments:
        rate = learning_rate * inv_rows
    columns = {
        "rate": rate,
        "inv_rows": inv_rows,
        "decay": learning_rate * settings.weight_decay,
        "scale_rate": settings.scale_rate,
        "root_scale": root_scale,
        "constant1": constants[0],
        "constant2": constants[1],
        "constant3": constants[2],
        "gain1": 1 - constants[0],
        "gain2": 1 - constants[1],
    }
    table = np.empty((len(row), len(UPDATE)), dtype)
    for column, name in enumerate(UPDATE):
        table[:, column] = columns[name]
    return table


def summed(losses: np.ndarray) -> float:
    """Return the sum of rows' losses, added one after the other as add_row_losses in
    loss_sums.cu does."""
    if len(losses):
        return float(np.cumsum(losses)[-1])
    return 0.0


def total_weight(weights: np.ndarray | None, rows: np.ndarray) -> float:
    """Return the sum of the rows' weights, of 1 each without weights."""
    if weights is None:
        return len(rows)
    return float(weights[rows].sum(dtype=np.float64))


def mean_loss(
    losses: np.ndarray, weights: np.ndarray | None, rows: np.ndarray
) -> float:
    """Return the mean of the losses of rows, each times its weight already; 0 where all
    weights are 0."""
    total = total_weight(weights, rows)
    if total:
        return summed(losses) / total
    return 0.0


def batch_weights(
    weights: np.ndarray | None, order: np.ndarray, batch: int, rank_group: RankGroup
) -> np.ndarray | None:
    """Return how many rows each batch of an order counts as (batches,), summed over
    members; None without weights."""
    if weights is None:
        return None
    whole = len(order) // batch * batch
    batches = order[:whole].reshape(-1, batch), order[whole:].reshape(1, -1)
    sums = [
        weights[rows[:, rank_group.share(rows.shape[1])]].sum(axis=1, dtype=np.float64)
        for rows in batches
    ]
    own_sums = np.concatenate(sums)[: -(-len(order) // batch)]
    sums_of_members = rank_group.gather(own_sums.tolist())
    return sum(map(np.array, sums_of_members))
