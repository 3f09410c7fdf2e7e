"""How the cost of a row grows with a network's width and with the rows of the data, and memory; a plot."""

from __future__ import annotations

from nn.study.bench import CC_RELU, Model, TrainStepCase, duration
from nn.study.chart import Axis, Line, Plot, save
from nn.terminal.tables import table
from nn.utils import processor_name, say

from .compare import MEMORY_TARGET, Side, compare

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


def measure(path: str, peers: list[str], threads: int, wait: float) -> dict:
    """Time the cases on all sides and draw the plot to `path`."""
    sides = [Side(name, threads) for name in ("nn", *peers) if name in LABELS]
    try:
        nn, *others = [side for side in sides if side.version is not None]
        result = {
            "processor": processor_name(),
            "threads": threads,
            "versions": {side.name: side.version for side in (nn, *others)},
            "width": [_point(width, width_case(width), nn, others, wait) for width in WIDTHS],
            "rows": [_point(rows, rows_case(rows), nn, others, wait) for rows in ROWS],
        }
    finally:
        for side in sides:
            side.close()
    draw(result, path)
    say(f"bench: {path}")
    return result


def _point(at: int, case: TrainStepCase, nn: Side, others: list[Side], wait: float) -> dict:
    """Microseconds a row of each side, and bytes of ours."""
    say(f"bench: {case.name}")
    compared = compare(case, nn, others, SECONDS, wait)
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
    for key, title in (
        ("width", "hidden layer of a 50-N-1 network"),
        ("rows", "rows of the data, 30-60-10-1"),
    ):
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


def draw(result: dict, folder: str) -> None:
    """Write three pictures: time a row against width, against rows, memory against width."""
    versions = ", ".join(f"{LABELS[name]} {number}" for name, number in result["versions"].items())
    told = f"{result['processor']}, {result['threads']} threads, float32; {versions}"
    neurons, time = Axis("neurons in the hidden layer, N", True), Axis("microseconds a row", True)
    pictures = []
    for key, title, across in (
        ("width", f"50-N-1, Adam, batch {WIDTH_BATCH}", neurons),
        ("rows", f"30-60-10-1, Adam, batch {ROWS_BATCH}", Axis("rows of the training data", True)),
    ):
        lines = []
        for name in result["versions"]:
            known = [(one["at"], one["us_per_row"][name]) for one in result[key] if name in one["us_per_row"]]
            lines.append(Line(LABELS[name], *zip(*known, strict=True)))
        pictures.append(Plot(f"growth-{key}", title, told, across, time, lines))
    at = [point["at"] for point in result["width"]]
    held, needed = ([point[name] / 1e6 for point in result["width"]] for name in ("bytes", "needed_bytes"))
    limit = [MEMORY_TARGET * value for value in needed]
    lines = [Line("nn holds", at, held), Line("needed", at, needed), Line(f"{MEMORY_TARGET:g} times that", at, limit)]
    pictures.append(Plot("growth-memory", "Memory beside the data", told, neurons, Axis("megabytes", True), lines))
    save(pictures, folder)
