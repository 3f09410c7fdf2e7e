"""The page of a sweep's results: which device suits which network, pictures, and every
figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from ..backends import TRAITS
from ..pages.chart import Axis, Line, Plot
from ..pages.page import Page, Table
from ..utils import cut_line, plural
from .results import INFERENCE_ROWS, OK

MOST_DRAWN_NETWORKS = 5  # in the picture of speed-ups
SMALL_MULTIPLES = 3
PARAMETER_AXIS = Axis("parameters", True)


def of_results(rows: list[dict]) -> Page:
    """Return the page of a sweep (sweep.collect)."""
    done = [row for row in rows if row["status"] == OK]
    failed = [row for row in rows if row["status"] != OK]
    devices = sorted(
        {
            (
                row["device"],
                row["engine"],
                f"{row['cores']:.0f}",
                row["nn"],
                row["python"],
            )
            for row in done
        }
    )
    page = Page(
        f"Timing study: {', '.join(sorted({row['plan'] for row in rows}))}",
        verdicts(rows),
    )
    page.sections["Pictures"] = pictures_of(rows)
    page.sections["Measured on"] = [
        Table("", ["device", "backend", "cores", "nn", "Python"], devices, 2)
    ]
    lines = [_line(row) for row in done]
    page.sections["All figures"] = [
        Table(f"{len(done)} networks", [head for head, _, _ in FIGURES], lines, 3, True)
    ]
    if failed:
        sizes = [f"{row['batch_number'] or 0:.0f}" for row in failed]
        lines = [
            [row["layers"], row["backend"] or "", n, row["status"]]
            for row, n in zip(failed, sizes, strict=True)
        ]
        page.sections["Not run"] = [
            Table("", ["network", "backend", "batch", "why"], lines, 4)
        ]
    return page


# ---------------------------------------------------------------- the answer in words


def verdicts(rows: list[dict]) -> list[str]:
    """For each kind of network and batch size, a sentence: up to which size the
    processor trains it faster.

    Compared are the fastest settings of the processor and of the accelerators, network
    by network.
    """
    best: dict = defaultdict(dict)  # (kind, batch size) -> {network: {on host: row}}
    for row in rows:
        if row["status"] == OK:
            network = best[row["kind"], row["batch_number"]].setdefault(
                row["layers"], {}
            )
            side = TRAITS[row["backend"]].on_host
            if side not in network or row["batch_ms"] < network[side]["batch_ms"]:
                network[side] = row
    sentences = []
    for (kind, batch), networks in sorted(best.items()):
        both = [network for network in networks.values() if len(network) == 2]
        if both:
            sentences.append(
                _verdict(
                    kind,
                    batch,
                    sorted(both, key=lambda network: network[True]["parameters"]),
                )
            )
    return sentences or [
        "Only one kind of device was measured: nothing to compare yet."
    ]


def _verdict(kind: str, batch: float, networks: list[dict]) -> str:
    """networks: {on host: row}, by the number of parameters."""
    if kind == "cnn":
        name = "Convolutional networks"
    else:
        name = "Dense networks"
    start = f"{name}, batches of {batch:.0f} rows:"
    wins = [
        network[True]["batch_ms"] <= network[False]["batch_ms"] for network in networks
    ]
    if False in wins:
        first_loss = wins.index(False)
    else:
        first_loss = len(wins)
    size = [f"{network[True]['parameters']:,.0f} parameters" for network in networks]
    host = networks[0][True]["device"]
    device = networks[0][False]["device"]
    if first_loss == 0:
        if any(wins):
            later = f", except {sum(wins)} of {len(wins)} networks"
        else:
            later = ""
        return f"{start} {device} is faster than {host} from {size[0]} on, the smallest measured{later}."
    if first_loss == len(wins):
        return f"{start} {host} is faster than {device} up to {size[-1]}, the largest measured."
    again = sum(wins[first_loss:])
    if again:
        later = f" ({again} larger ones are faster on {host} too)"
    else:
        later = ""
    return f"{start} {host} is faster up to {size[first_loss - 1]}, {device} from {size[first_loss]} on{later}."


FIGURES = [  # header, column of the results, its format
    ("network", "layers", ""),
    ("data", "data", ""),
    ("backend", "engine", ""),
    ("threads", "threads", ".0f"),
    ("GPUs", "gpus", ".0f"),
    ("batch", "batch_number", ".0f"),
    ("parameters", "parameters", ",.0f"),
    ("ms a batch", "batch_ms", ".3g"),
    ("95 %", "batch_p95_ms", ".3g"),
    ("s an epoch", "epoch_s", ".3g"),
    ("s in all", "train_s", ".3g"),
    *((f"ms for {plural(n, 'row')}", f"infer_{n}_ms", ".3g") for n in INFERENCE_ROWS),
    ("MB", "network_bytes", ".3g"),
    ("RMSE", "rmse", ".4g"),
    ("MAE", "mae", ".4g"),
    ("R2", "r2", ".3g"),
    ("skill", "skill", ".3g"),
    ("accuracy", "accuracy", ".4f"),
]


def _line(row: dict) -> list[str]:
    layers = ",".join(item.split(":")[0] for item in row["layers"].split(","))
    row = row | {"layers": layers, "network_bytes": row["network_bytes"] / 1e6}
    return [
        "" if row[name] is None else format(row[name], digits)
        for _, name, digits in FIGURES
    ]


# ---------------------------------------------------------------- pictures of a sweep


def pictures_of(rows: list[dict]) -> list[Plot]:
    """Return the pictures for which these results hold enough figures; perhaps none."""
    rows = [row for row in rows if row["status"] == OK]
    processors = len({row["device"] for row in rows if TRAITS[row["backend"]].on_host})
    rows = [
        row
        | {"engine": _engine_name(row, processors > 1), "structure": _structure(row)}
        for row in rows
    ]
    dense = [row for row in rows if row["kind"] == "dense"]
    counts = Counter(row["batch_number"] for row in dense)
    # that most have
    batch = max(counts, key=lambda size: (counts[size], size), default=0)
    usual = [row for row in dense if row["batch_number"] == batch]
    calls = [
        row | {"call": n, "ms": row[f"infer_{n}_ms"]}
        for row in rows
        for n in INFERENCE_ROWS
    ]
    for row in rows:
        row |= {
            "row_us": 1e3 * row["batch_ms"] / (row["batch_number"] or 1),
            "MB": row["network_bytes"] / 1e6,
        }
    training = Axis("training time of a row (µs)", True)
    calling = Axis("time of a call of predict (ms)", True)
    error = Axis("RMSE on test rows (unit of the target)")
    memory = Axis("memory of the network in training (MB)", True)
    time = Axis(f"time of a batch of {batch:.0f} rows (ms)", True)
    return [
        *_lines(
            "training-time",
            "Training dense networks",
            usual,
            "parameters",
            "batch_ms",
            PARAMETER_AXIS,
            time,
        ),
        *_lines(
            "batch-size",
            "Training {}",
            rows,
            "batch_number",
            "row_us",
            Axis("batch size (rows)", True),
            training,
            by="layers",
        ),
        *_lines(
            "width-depth",
            "Width and depth, {}",
            [row for row in usual if row["depth"]],
            "parameters",
            "batch_ms",
            PARAMETER_AXIS,
            time,
            "structure",
            by="engine",
        ),
        *_lines(
            "inference",
            "Inference of {}",
            calls,
            "call",
            "ms",
            Axis("rows in a call", True),
            calling,
            by="layers",
        ),
        *_speed_ups(rows),
        *_lines(
            "error",
            "Error after training",
            rows,
            "parameters",
            "rmse",
            PARAMETER_AXIS,
            error,
            "structure",
        ),
        *_lines(
            "memory",
            "Memory",
            rows,
            "parameters",
            "MB",
            PARAMETER_AXIS,
            memory,
            "backend",
            look="dots",
        ),
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
    if row["kind"] == "cnn":
        return "convolutional"
    return plural(round(row["depth"]), "hidden layer")


def _lines(  # noqa: PLR0913 - the parts of a plot
    name: str,
    title: str,
    rows: list[dict],
    x: str,
    y: str,
    x_axis: Axis,
    y_axis: Axis,
    group: str = "engine",
    *,
    by: str | None = None,
    look: str = "line",
) -> list[Plot]:
    """Return a plot of column y by x: for each group of rows a line through the
    medians, or each point.

    by: a column, of a few of whose values there is a plot each, with axes and looks
    alike. A plot without any line from one place to another is left out.
    """
    panels: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in sorted(rows, key=lambda row: row["parameters"]):
        if row[x] is not None and row[y] is not None:
            panels[by and row[by]][row[group]][row[x]].append(row[y])
    panels = {
        of: groups
        for of, groups in panels.items()
        if any(len(points) > 1 for points in groups.values())
    }
    names = sorted({group for groups in panels.values() for group in groups})
    plots = []
    for place, of in enumerate(_spread(list(panels), SMALL_MULTIPLES)):
        lines = []
        for own, points in sorted(panels[of].items()):
            each = [
                (v, [float(np.median(ys))] if look == "line" else ys)
                for v, ys in sorted(points.items())
            ]
            xs, ys = zip(*((v, one) for v, some in each for one in some), strict=True)
            lines.append(Line(own, xs, ys, look, names.index(own)))
        if not place:
            called = name
        else:
            called = f"{name}-{place + 1}"
        plots.append(
            Plot(
                called,
                title.format(_short(of or "")),
                replace(x_axis),
                replace(y_axis),
                lines,
            )
        )
    for axis in ("x", "y"):  # of the same ends
        values = [
            v
            for plot in plots
            for line in plot.lines
            for v in getattr(line, axis)
            if v > 0
        ]
        if len(plots) > 1 and values and min(values) < max(values):
            room = (max(values) / min(values)) ** 0.04
            for plot in plots:
                getattr(plot, axis).ends = min(values) / room, max(values) * room
    return plots


def _speed_ups(rows: list[dict]) -> list[Plot]:
    """Return the speed-up over the least number of threads or GPUs, for networks that
    ran on several."""
    plots = []
    for unit, title in (("threads", "threads"), ("gpus", "GPUs")):
        lines = []
        most = 1
        for name, points in _scaling(rows, unit).items():
            medians = {
                count: float(np.median(points[count])) for count in sorted(points)
            }
            first = min(medians)
            most = max(most, *medians)
            lines.append(
                Line(
                    name,
                    list(medians),
                    [first * medians[first] / ms for ms in medians.values()],
                )
            )
        if lines:
            lines.append(Line("ideal", [1, most], [1, most], "rule"))
            plots.append(
                Plot(
                    f"speed-up-{unit}",
                    f"Several {title}",
                    Axis(title),
                    Axis("speed-up (times)"),
                    lines,
                )
            )
    return plots


def _scaling(rows: list[dict], unit: str) -> dict:
    """Return {name: {threads or GPUs: [milliseconds, ...]}} of some networks that ran
    on several numbers."""
    groups = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: (row["parameters"], row["batch_number"])):
        count = int(row[unit] or 0) or int(unit == "gpus")  # without --gpus: one GPU
        if count and (unit == "gpus") != TRAITS[row["backend"]].on_host:
            key = (
                row["layers"],
                row["batch_number"],
                row["backend"],
                row["distribute"],
                row["device"],
            )
            groups[key][count].append(row["batch_ms"])
    for layers, batch, backend, distribute, device in list(groups):
        # one GPU, so nothing is distributed
        alone = groups.get((layers, batch, backend, None, device), {})
        if distribute and 1 in alone:
            groups[layers, batch, backend, distribute, device].setdefault(1, alone[1])
    groups = {key: points for key, points in groups.items() if len(points) > 1}
    networks = _spread(
        list(dict.fromkeys(key[:2] for key in groups)), MOST_DRAWN_NETWORKS
    )
    backends = len({key[2] for key in groups}) > 1
    devices = len({key[4] for key in groups}) > 1
    named = {}
    for (layers, batch, backend, distribute, device), points in groups.items():
        if (layers, batch) in networks:
            more = (
                [backend] * backends
                + [distribute] * bool(distribute)
                + [device] * devices
            )
            named[", ".join([f"{_short(layers)}, batch {batch:.0f}", *more])] = points
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
