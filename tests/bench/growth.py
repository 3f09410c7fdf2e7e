"""Cases of a cost that grows: with a network's width, and with the rows of the data."""

from __future__ import annotations

from nn.study.bench import CC_RELU, Model, TrainStepCase

WIDTHS = [50, 100, 200, 400, 800, 1600, 3200, 6400]
ROWS = [1_000, 10_000, 100_000, 1_000_000]
WIDTH_BATCH = 1000
ROWS_BATCH = 32


def width_case(width: int) -> TrainStepCase:
    """One hidden layer of that width, Adam."""
    model = Model(f"width-{width}", f"50,{width},1", "regression")
    return TrainStepCase(model.name, model, WIDTH_BATCH, 4)


def rows_case(rows: int) -> TrainStepCase:
    """Return the credit-card network on `rows` rows, Adam, whole batches only."""
    return TrainStepCase(f"rows-{rows}", CC_RELU, ROWS_BATCH, rows // ROWS_BATCH)
