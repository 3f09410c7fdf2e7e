"""The page of a sweep's results: which device suits which network, pictures, and every
figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..backends import TRAITS
from ..pages.chart import Axis, Line, Plot
from ..pages.page import Page, Table
from ..utils import cut_line, plural
from .results import INFERENCE_ROWS, OK, figure_texts

MOST_DRAWN_NETWORKS = 5  # in the picture of speed-ups
SMALL_MULTIPLES = 3


def results_page(rows: list[dict]) -> Page:
    """Return the page of a sweep (sweep.collect)."""
    done = [row for row in rows if row["status"] == OK]
    plans = sorted({row["plan"] for row in rows})
    page = Page(f"Timing study: {', '.join(plans)}", verdicts(rows))
    page.sections["Pictures"] = pictures_of(rows)
    devices = {
        (row["device"], row["engine"], f"{row['cores']:.0f}", row["nn"], row["python"])
        for row in done
    }
    headers = ["device", "backend", "cores", "nn", "Python"]
    page.sections["Measured on"] = [Table("", headers, sorted(devices), 2)]
    title = plural(len(done), "network")
    figures = [_line(row) for row in done]
    page.sections["All figures"] = [Table(title, [*FIGURES], figures, 3, True)]
    failures = []
    for row in rows:
        if row["status"] != OK:
            batch = f"{row['batch_number'] or 0:.0f}"
            failures.append([row["layers"], row["backend"] or "", batch, row["status"]])
    if failures:
        headers = ["network", "backend", "batch", "why"]
        page.sections["Not run"] = [Table("", headers, failures, 4)]
    return page


# ---------------------------------------------------------------- the answer in words


def verdicts(rows: list[dict]) -> list[str]:
    """Return for each kind of network and batch size a sentence: up to which size the
    processor trains it faster.

    Compared are the fastest settings of the processor and of the accelerators, network
    by network.
    """
    # (kind, batch size) -> {network: {on host: fastest row}}
    fastest: dict = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["status"] == OK:
            sides = fastest[row["kind"], row["batch_number"]][row["layers"]]
            side = TRAITS[row["backend"]].on_host
            if side not in sides or row["batch_ms"] < sides[side]["batch_ms"]:
                sides[side] = row
    sentences = []
    for (kind, batch), networks in sorted(fastest.items()):
        pairs = [
            (sides[True], sides[False])
            for sides in networks.values()
            if len(sides) == 2
        ]
        if pairs:
            pairs.sort(key=lambda pair: pair[0]["parameters"])
            sentences.append(_verdict(kind, batch, pairs))
    if not sentences:
        return ["Only one kind of device was measured: nothing to compare yet."]
    return sentences


def _verdict(kind: str, batch: float, pairs: list[tuple[dict, dict]]) -> str:
    """Return the sentence of one kind and batch size. pairs: the rows of a network on
    the processor and on the accelerator, by the number of parameters."""
    name = "Dense networks"
    if kind == "cnn":
        name = "Convolutional networks"
    start = f"{name}, batches of {batch:.0f} rows:"
    host, device = [row["device"] for row in pairs[0]]
    sizes = [f"{on_host['parameters']:,.0f} parameters" for on_host, _ in pairs]
    wins = [on_host["batch_ms"] <= other["batch_ms"] for on_host, other in pairs]
    if all(wins):
        return f"{start} {host} is faster than {device} up to {sizes[-1]}, the largest measured."
    smallest_loss = wins.index(False)
    later_wins = sum(wins[smallest_loss:])
    remark = ""
    if smallest_loss == 0:
        if later_wins:
            remark = f", except {later_wins} of {len(wins)} networks"
        return f"{start} {device} is faster than {host} from {sizes[0]} on, the smallest measured{remark}."
    if later_wins:
        remark = f" ({later_wins} larger ones are faster on {host} too)"
    return f"{start} {host} is faster up to {sizes[smallest_loss - 1]}, {device} from {sizes[smallest_loss]} on{remark}."


FIGURES = {  # by header: column of the results, its format
    "network": ("layers", ""),
    "data": ("data", ""),
    "backend": ("engine", ""),
    "threads": ("threads", ".0f"),
    "GPUs": ("gpus", ".0f"),
    "batch": ("batch_number", ".0f"),
    "parameters": ("parameters", ",.0f"),
    "ms a batch": ("batch_ms", ".3g"),
    "95 %": ("batch_p95_ms", ".3g"),
    "s of set-up": ("setup_s", ".3g"),
    "s an epoch": ("epoch_s", ".3g"),
    "s in all": ("train_s", ".3g"),
    **{f"ms for {plural(n, 'row')}": (f"infer_{n}_ms", ".3g") for n in INFERENCE_ROWS},
    "MB": ("network_bytes", ".3g"),
    "RMSE": ("rmse", ".4g"),
    "MAE": ("mae", ".4g"),
    "R2": ("r2", ".3g"),
    "skill": ("skill", ".3g"),
    "accuracy": ("accuracy", ".4f"),
    "F1": ("f1", ".4f"),
}


def _line(row: dict) -> list[str]:
    """Return the figures of a row as texts."""
    layers = ",".join(item.split(":")[0] for item in row["layers"].split(","))
    row = row | {"layers": layers, "network_bytes": row["network_bytes"] / 1e6}
    return figure_texts(row, dict(FIGURES.values()))


# ---------------------------------------------------------------- pictures of a sweep


AXES = {  # by column of the rows
    "parameters": Axis("parameters", True),
    "batch_number": Axis("batch size (rows)", True),
    "row_us": Axis("training time of a row (µs)", True),
    "call": Axis("rows in a call", True),
    "ms": Axis("time of a call of predict (ms)", True),
    "rmse": Axis("RMSE on test rows (unit of the target)"),
    "MB": Axis("memory of the network in training (MB)", True),
}


@dataclass
class Picture:
    """A plot of column y by column x of the rows of a sweep: for each group a line
    through the medians, or each point (look: dots).

    group: the column of the lines. panel: a column, of a few of whose values there is a
    plot each; {} in the title stands for the value.
    """

    name: str
    title: str
    x: str
    y: str
    group: str = "engine"
    panel: str | None = None
    look: str = "line"


def pictures_of(rows: list[dict]) -> list[Plot]:
    """Return the pictures for which these results hold enough figures; perhaps none."""
    rows = [dict(row) for row in rows if row["status"] == OK]
    processors = {row["device"] for row in rows if TRAITS[row["backend"]].on_host}
    for row in rows:
        row["engine"] = _engine_name(row, len(processors) > 1)
        row["structure"] = _structure(row)
        row["row_us"] = 1e3 * row["batch_ms"] / (row["batch_number"] or 1)
        row["MB"] = row["network_bytes"] / 1e6
    dense = [row for row in rows if row["kind"] == "dense"]
    counts = Counter(row["batch_number"] for row in dense)
    # the batch size that most have
    batch = max(counts, key=lambda size: (counts[size], size), default=0)
    usual = [row for row in dense if row["batch_number"] == batch]
    deep = [row for row in usual if row["depth"]]
    calls = [
        row | {"call": count, "ms": row[f"infer_{count}_ms"]}
        for row in rows
        for count in INFERENCE_ROWS
    ]
    axes = AXES | {"batch_ms": Axis(f"time of a batch of {batch:.0f} rows (ms)", True)}
    x = "parameters"
    y = "batch_ms"
    time = Picture("training-time", "Training dense networks", x, y)
    sizes = Picture(
        "batch-size", "Training {}", "batch_number", "row_us", panel="layers"
    )
    shape = Picture("width-depth", "Width and depth, {}", x, y, "structure", "engine")
    inference = Picture("inference", "Inference of {}", "call", "ms", panel="layers")
    error = Picture("error", "Error after training", x, "rmse", "structure")
    memory = Picture("memory", "Memory", x, "MB", "backend", look="dots")
    return [
        *_plots(usual, time, axes),
        *_plots(rows, sizes, axes),
        *_plots(deep, shape, axes),
        *_plots(calls, inference, axes),
        *_speed_ups(rows),
        *_plots(rows, error, axes),
        *_plots(rows, memory, axes),
    ]


def _engine_name(row: dict, with_device: bool) -> str:
    """Return the name of a row's engine: backend and GPUs, or threads; the processor if
    there are several."""
    words = [row["engine"] or row["backend"]]
    if TRAITS[row["backend"]].on_host:
        if row["threads"] and row["threads"] >= 1:
            words.append(plural(round(row["threads"]), "thread"))
        if with_device:
            words.append(row["device"])
    if row["dtype"] != "float32":
        words.append(row["dtype"])
    return ", ".join(words)


def _structure(row: dict) -> str:
    """Return what the layers of a row are, in a word or its depth."""
    if row["kind"] == "cnn":
        return "convolutional"
    return plural(round(row["depth"]), "hidden layer")


def _plots(rows: list[dict], picture: Picture, axes: dict[str, Axis]) -> list[Plot]:
    """Return the plots of a picture, one for each panel, with axes and looks alike. A
    plot without any line from one place to another is left out. axes: by column."""
    # panel -> group -> x -> [y, ...]
    panels: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in sorted(rows, key=lambda row: row["parameters"]):
        x = row[picture.x]
        y = row[picture.y]
        if x is not None and y is not None:
            panel = picture.panel and row[picture.panel]
            panels[panel][row[picture.group]][x].append(y)
    drawn = [
        panel
        for panel, groups in panels.items()
        if any(len(points) > 1 for points in groups.values())
    ]
    names = sorted({group for panel in drawn for group in panels[panel]})
    plots = []
    for panel in _spread(drawn, SMALL_MULTIPLES):
        lines = []
        for group, points in sorted(panels[panel].items()):
            x, y = _coordinates(points, picture.look)
            lines.append(Line(group, x, y, picture.look, names.index(group)))
        name = picture.name
        if plots:
            name += f"-{len(plots) + 1}"
        title = picture.title.format(_short(panel or ""))
        x_axis = replace(axes[picture.x])
        y_axis = replace(axes[picture.y])
        plots.append(Plot(name, title, x_axis, y_axis, lines))
    if len(plots) > 1:
        lines = [line for plot in plots for line in plot.lines]
        x = [value for line in lines for value in line.x]
        y = [value for line in lines for value in line.y]
        _share_ends([plot.x for plot in plots], x)
        _share_ends([plot.y for plot in plots], y)
    return plots


def _coordinates(points: dict, look: str) -> tuple[list, list]:
    """Return (x, y) of the points of a line: medians, or all of dots."""
    x = []
    y = []
    for place, values in sorted(points.items()):
        if look == "line":
            values = [float(np.median(values))]
        x += [place] * len(values)
        y += values
    return x, y


def _share_ends(axes: list[Axis], values: list[float]) -> None:
    """Give axes the same ends, around those of their values that are above 0."""
    values = [value for value in values if value > 0]
    if values and min(values) < max(values):
        room = (max(values) / min(values)) ** 0.04
        for axis in axes:
            axis.ends = min(values) / room, max(values) * room


def _speed_ups(rows: list[dict]) -> list[Plot]:
    """Return the speed-up over the least number of threads or GPUs, for networks that
    ran on several."""
    plots = []
    for unit, title in {"threads": "threads", "gpus": "GPUs"}.items():
        lines = []
        most = 1
        for name, points in _scaling(rows, unit).items():
            counts = sorted(points)
            medians = [float(np.median(points[count])) for count in counts]
            speed_ups = [counts[0] * medians[0] / median for median in medians]
            most = max(most, counts[-1])
            lines.append(Line(name, counts, speed_ups))
        if lines:
            lines.append(Line("ideal", [1, most], [1, most], "rule"))
            axes = Axis(title), Axis("speed-up (times)")
            plots.append(Plot(f"speed-up-{unit}", f"Several {title}", *axes, lines))
    return plots


class Run(NamedTuple):
    """A network and what it ran on, whatever the number of threads or GPUs."""

    layers: str
    batch_number: float
    backend: str
    distribute: str | None
    device: str


def _runs(rows: list[dict], unit: str) -> dict[Run, dict]:
    """Return {threads or GPUs: [milliseconds, ...]} of each run on several numbers."""
    runs: dict = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: (row["parameters"], row["batch_number"])):
        count = int(row[unit] or 0)
        # without --gpus: one GPU
        if unit == "gpus" and not count:
            count = 1
        if count and (unit == "gpus") != TRAITS[row["backend"]].on_host:
            runs[Run(*(row[name] for name in Run._fields))][count].append(
                row["batch_ms"]
            )
    for run in list(runs):
        # one GPU, so nothing is distributed
        single = runs.get(run._replace(distribute=None), {})
        if run.distribute and 1 in single:
            runs[run].setdefault(1, single[1])
    return {run: points for run, points in runs.items() if len(points) > 1}


def _scaling(rows: list[dict], unit: str) -> dict:
    """Return {name: {threads or GPUs: [milliseconds, ...]}} of some networks that ran
    on several numbers."""
    runs = _runs(rows, unit)
    networks = list(dict.fromkeys((run.layers, run.batch_number) for run in runs))
    drawn = _spread(networks, MOST_DRAWN_NETWORKS)
    has_backends = len({run.backend for run in runs}) > 1
    has_devices = len({run.device for run in runs}) > 1
    named = {}
    for run, points in runs.items():
        if (run.layers, run.batch_number) not in drawn:
            continue
        words = [_short(run.layers), f"batch {run.batch_number:.0f}"]
        if has_backends:
            words.append(run.backend)
        if run.distribute:
            words.append(run.distribute)
        if has_devices:
            words.append(run.device)
        named[", ".join(words)] = points
    return named


def _spread(items: list, most: int) -> list:
    """Return at most `most` of the items, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _short(name: str) -> str:
    """Return a network's name in a title: without activations; an engine's as it is."""
    if name[:1].isdigit():
        return cut_line("-".join(item.split(":")[0] for item in name.split(",")), 34)
    return name
