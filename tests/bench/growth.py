"""How the cost of a row grows with a network's width and with the rows of the data, and memory; a plot."""

from __future__ import annotations

from nn.study.bench import CC_RELU, Model, TrainStepCase, duration
from nn.terminal.tables import table
from nn.utils import processor_name, say

from .compare import MEMORY_TARGET, Side, compare

WIDTHS = [50, 100, 200, 400, 800, 1600, 3200, 6400]
ROWS = [1_000, 10_000, 100_000, 1_000_000]
WIDTH_BATCH, ROWS_BATCH = 1000, 32
SECONDS = 2.0  # to measure a point

# colour-blind safe (Okabe and Ito), and told apart by their marks too
LOOKS = {
    "nn": ("#D55E00", "o"),
    "torch": ("#0072B2", "s"),
    "jax": ("#009E73", "^"),
    "sklearn": ("#CC79A7", "D"),
}
LABELS = {"nn": "nn", "torch": "PyTorch", "jax": "JAX", "sklearn": "scikit-learn"}
INK, FAINT = "#222222", "#888888"


def width_case(width: int) -> TrainStepCase:
    """One hidden layer of that width, Adam."""
    model = Model(f"width-{width}", f"50,{width},1", "regression")
    return TrainStepCase(model.name, model, WIDTH_BATCH, 4)


def rows_case(rows: int) -> TrainStepCase:
    """Return the credit-card network on `rows` rows, Adam, whole batches only."""
    return TrainStepCase(f"rows-{rows}", CC_RELU, ROWS_BATCH, rows // ROWS_BATCH)


def measure(path: str, peers: list[str], threads: int, wait: float) -> dict:
    """Time the cases on all sides and draw the plot to `path`."""
    sides = [Side(name, threads) for name in ("nn", *peers) if name in LOOKS]
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


# ---------------------------------------------------------------- the plot


def draw(result: dict, path: str) -> None:
    """Three panels side by side: time a row against width, against rows, memory against width."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    by_width, by_rows, memory = figure.subplots(1, 3)
    _draw_times(by_width, result["width"], f"Time a row grows with the width\n50–N–1, Adam, batch {WIDTH_BATCH}")
    by_width.set_xlabel("neurons in the hidden layer, N")
    _draw_times(by_rows, result["rows"], f"and hardly with the data\n30–60–10–1, Adam, batch {ROWS_BATCH}")
    by_rows.set_xlabel("rows of the training data")
    _draw_memory(memory, result["width"])
    versions = ", ".join(f"{LABELS[name]} {number}" for name, number in result["versions"].items())
    machine = f"{result['processor']}, {result['threads']} threads, float32; {versions}"
    figure.supxlabel(machine, fontsize=9, color=FAINT)
    figure.savefig(path, dpi=160)


def _draw_times(axes, points: list[dict], title: str) -> None:
    ends = {}
    for name, (colour, mark) in LOOKS.items():
        known = [(point["at"], point["us_per_row"][name]) for point in points if name in point["us_per_row"]]
        if known:
            at, us = zip(*known, strict=True)
            axes.plot(at, us, mark + "-", color=colour, lw=2.6 if name == "nn" else 1.6, ms=6, zorder=3)
            ends[name] = us[-1]
    _style(axes, title, "microseconds", _ticks(points))
    _label_ends(axes, points[-1]["at"], ends)


def _draw_memory(axes, points: list[dict]) -> None:
    at = [point["at"] for point in points]
    held, needed = ([point[name] / 1e6 for point in points] for name in ("bytes", "needed_bytes"))
    limit = [MEMORY_TARGET * value for value in needed]
    axes.fill_between(at, needed, limit, color="#E8E8E8", zorder=1)
    axes.plot(at, held, "o-", color=LOOKS["nn"][0], lw=2.6, ms=6, zorder=3)
    _style(axes, f"Memory beside the data\n50–N–1, Adam, batch {WIDTH_BATCH}", "megabytes", _ticks(points))
    axes.set_xlabel("neurons in the hidden layer, N")
    middle = len(at) // 2
    axes.annotate(
        "nn holds", (at[middle], held[middle]), (-14, 22), textcoords="offset points",
        ha="right", color=LOOKS["nn"][0], weight="bold",
    )  # fmt: skip
    axes.annotate(
        f"1 to {MEMORY_TARGET:g} times parameters,\noptimiser's state and one\nbatch's activations",
        (at[middle], needed[middle]), (16, -34), textcoords="offset points", color="#555555",
        va="top", arrowprops={"arrowstyle": "-", "color": FAINT},
    )  # fmt: skip


def _ticks(points: list[dict]) -> list[int]:
    """Every other point of many, each of few."""
    return [point["at"] for point in points][:: 2 if len(points) > 5 else 1]


def _style(axes, title: str, unit: str, ticks: list[int]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks)
    axes.set_title(title, loc="left", fontsize=10.5, color=INK)
    axes.set_ylabel(unit, color=INK)
    axes.grid(True, which="major", color="#DDDDDD", lw=0.8)
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.tick_params(colors="#444444")


def _label_ends(axes, at: float, ends: dict[str, float]) -> None:
    """Each line's name at its end, moved apart (by a fifteenth of the axis) where they end close together."""
    low, high = axes.get_ylim()
    least = (high / low) ** (1 / 15)
    height = 0.0
    for name in sorted(ends, key=ends.get):
        height = max(ends[name], height * least)
        axes.annotate(
            LABELS[name], (at, height), (9, 0), textcoords="offset points", va="center",
            annotation_clip=False, color=LOOKS[name][0], weight="bold" if name == "nn" else "normal",
        )  # fmt: skip
