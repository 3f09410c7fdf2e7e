"""How the cost of a row grows with a network's width and with the rows of the data, and memory."""

from __future__ import annotations

from nn.study.bench import CC_RELU, Model, TrainStepCase, duration
from nn.terminal.tables import table
from nn.utils import processor_name, say

from .compare import Side, compare

WIDTHS = [50, 100, 200, 400, 800, 1600, 3200, 6400]
ROWS = [1_000, 10_000, 100_000, 1_000_000]
WIDTH_BATCH, ROWS_BATCH = 1000, 32
SECONDS = 2.0  # to measure a point

LABELS = {"nn": "nn", "torch": "PyTorch", "jax": "JAX", "sklearn": "scikit-learn"}


def width_case(width: int) -> TrainStepCase:
    """One hidden layer of that width, Adam."""
    model = Model(f"width-{width}", f"50,{width},1", "regression")
    return TrainStepCase(model.name, model, WIDTH_BATCH, 4)


def rows_case(rows: int) -> TrainStepCase:
    """Return the credit-card network on `rows` rows, Adam, whole batches only."""
    return TrainStepCase(f"rows-{rows}", CC_RELU, ROWS_BATCH, rows // ROWS_BATCH)


def measure(peers: list[str], threads: int) -> dict:
    """Time the cases on all sides."""
    sides = [Side(name, threads) for name in ("nn", *peers) if name in LABELS]
    try:
        nn, *others = [side for side in sides if side.version is not None]
        return {
            "processor": processor_name(),
            "threads": threads,
            "versions": {side.name: side.version for side in (nn, *others)},
            "width": [_point(width, width_case(width), nn, others) for width in WIDTHS],
            "rows": [_point(rows, rows_case(rows), nn, others) for rows in ROWS],
        }
    finally:
        for side in sides:
            side.close()


def _point(at: int, case: TrainStepCase, nn: Side, others: list[Side]) -> dict:
    """Microseconds a row of each side, and bytes of ours."""
    say(f"bench: {case.name}")
    compared = compare(case, nn, others, SECONDS)
    us = {"nn": compared["us"], **{name: peer["us"] for name, peer in compared["peers"].items()}}
    return {
        "at": at,
        "us_per_row": {name: value / case.batch for name, value in us.items()},
        "bytes": compared["bytes"],
        "needed_bytes": compared["needed_bytes"],
    }


def report(result: dict) -> None:
    """Print the result of `measure` as tables."""
    names = list(result["versions"])
    for key, title in (("width", "hidden layer of a 50-N-1 network"), ("rows", "rows of the data, 30-60-10-1")):
        rows = [
            [
                f"{point['at']:,}",
                *(duration(point["us_per_row"][name]) if name in point["us_per_row"] else "" for name in names),
                f"{point['bytes'] / 1e6:.2f} MB",
                f"{point['bytes'] / point['needed_bytes']:.2f}",
            ]
            for point in result[key]
        ]
        table([title, *(f"{LABELS[name]}, a row" for name in names), "nn holds", "of needed"], rows)
