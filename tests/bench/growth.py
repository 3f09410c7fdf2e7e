"""How the cost of a row grows with a network's width and with the rows of the data, and memory; a plot."""

from __future__ import annotations

from pathlib import Path

from nn.study.bench import CC_RELU, Model, TrainStepCase, duration
from nn.study.plot import drawing, styles_of
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


def draw(result: dict, path: str) -> None:
    """Three panels side by side: time a row against width, against rows, memory against width."""
    widths, styles = result["width"], styles_of(LABELS)
    panels = {
        f"50-N-1, Adam, batch {WIDTH_BATCH}": ("neurons in the hidden layer, N", "microseconds a row", widths),
        f"30-60-10-1, Adam, batch {ROWS_BATCH}": ("rows of the training data", "microseconds a row", result["rows"]),
        "Memory beside the data": ("neurons in the hidden layer, N", "megabytes", widths),
    }
    with drawing("growth", "", len(panels), share=False, xscale="log", yscale="log") as picture:
        for axes, (title, (across, up, points)) in zip(picture.axes, panels.items(), strict=True):
            axes.set(title=title, xlabel=across, ylabel=up)
            for name in result["versions"] if up != "megabytes" else []:
                known = [(point["at"], point["us_per_row"][name]) for point in points if name in point["us_per_row"]]
                axes.plot(*zip(*known, strict=True), label=LABELS[name], **styles[name])
        at = [point["at"] for point in widths]
        held, needed = ([point[name] / 1e6 for point in widths] for name in ("bytes", "needed_bytes"))
        limit = [MEMORY_TARGET * value for value in needed]
        label = f"1 to {MEMORY_TARGET:g} times parameters, optimiser's state\nand one batch's activations"
        picture.axes[-1].fill_between(at, needed, limit, color="#E8E8E8", label=label)
        picture.axes[-1].plot(at, held, label="nn holds", **styles["nn"])
        versions = ", ".join(f"{LABELS[name]} {number}" for name, number in result["versions"].items())
        picture.axes[0].figure.supxlabel(f"{result['processor']}, {result['threads']} threads, float32; {versions}")
    Path(path).write_bytes(picture.svg if path.endswith(".svg") else picture.png)
