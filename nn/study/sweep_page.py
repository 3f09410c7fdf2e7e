"""The page of a sweep's results: which device suits which network, pictures, and every figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ..backends import TRAITS
from .chart import Axis, Line, Plot
from .page import Page, Table
from .results import INFERENCE_ROWS, OK

MOST_NETWORKS = 5  # in the picture of speed-ups
SMALL_MULTIPLES = 3
PARAMETERS = Axis("parameters", True)


def of_results(rows: list[dict]) -> Page:
    """Return the page of a sweep (sweep.collect)."""
    done = [row for row in rows if row["status"] == OK]
    failed = [row for row in rows if row["status"] != OK]
    devices = sorted({(row["device"], row["engine"], f"{row['cores']:.0f}", row["nn"], row["python"]) for row in done})
    page = Page(f"Timing study: {', '.join(sorted({row['plan'] for row in rows}))}", verdicts(rows))
    page.sections["Pictures"] = pictures_of(rows)
    page.sections["Measured on"] = [Table("", ["device", "backend", "cores", "nn", "Python"], devices, 2)]
    lines = [_line(row) for row in done]
    page.sections["All figures"] = [Table(f"{len(done)} networks", [head for head, _, _ in FIGURES], lines, 3, True)]
    if failed:
        lines = [[row["layers"], row["backend"], f"{row['batch_number'] or 0:.0f}", row["status"]] for row in failed]
        page.sections["Not run"] = [Table("", ["network", "backend", "batch", "why"], lines, 4)]
    return page


# ---------------------------------------------------------------- the answer in words


def verdicts(rows: list[dict]) -> list[str]:
    """For each kind of network and batch size, a sentence: up to which size the processor trains it faster.

    Compared are the fastest settings of the processor and of the accelerators, network by network.
    """
    best: dict = defaultdict(dict)  # (kind, batch size) -> {network: {on host: row}}
    for row in rows:
        if row["status"] == OK:
            network = best[row["kind"], row["batch_number"]].setdefault(row["layers"], {})
            side = TRAITS[row["backend"]].on_host
            if side not in network or row["batch_ms"] < network[side]["batch_ms"]:
                network[side] = row
    sentences = []
    for (kind, batch), networks in sorted(best.items()):
        both = [network for network in networks.values() if len(network) == 2]
        if both:
            sentences.append(_verdict(kind, batch, sorted(both, key=lambda network: network[True]["parameters"])))
    return sentences or ["Only one kind of device was measured: nothing to compare yet."]


def _verdict(kind: str, batch: float, networks: list[dict]) -> str:
    """networks: {on host: row}, by the number of parameters."""
    name = "Convolutional networks" if kind == "cnn" else "Dense networks"
    start = f"{name}, batches of {batch:.0f} rows:"
    wins = [network[True]["batch_ms"] <= network[False]["batch_ms"] for network in networks]
    first_loss = wins.index(False) if False in wins else len(wins)
    size = [f"{network[True]['parameters']:,.0f} parameters" for network in networks]
    host, device = networks[0][True]["device"], networks[0][False]["device"]
    if first_loss == 0:
        later = f", except {sum(wins)} of {len(wins)} networks" if any(wins) else ""
        return f"{start} {device} is faster than {host} from {size[0]} on, the smallest measured{later}."
    if first_loss == len(wins):
        return f"{start} {host} is faster than {device} up to {size[-1]}, the largest measured."
    again = sum(wins[first_loss:])
    later = f" ({again} larger ones are faster on {host} too)" if again else ""
    return f"{start} {host} is faster up to {size[first_loss - 1]}, {device} from {size[first_loss]} on{later}."


FIGURES = [  # header, column of the results, its format
    ("network", "layers", ""),
    ("data", "data", ""),
    ("backend", "engine", ""),
    ("threads", "threads", ".0f"),
    ("GPUs", "gpus", ""),
    ("batch", "batch_number", ".0f"),
    ("parameters", "parameters", ",.0f"),
    ("ms a batch", "batch_ms", ".3g"),
    ("95 %", "batch_p95_ms", ".3g"),
    ("s an epoch", "epoch_s", ".3g"),
    ("s in all", "train_s", ".3g"),
    *((f"ms for {n} row{'s' * (n > 1)}", f"infer_{n}_ms", ".3g") for n in INFERENCE_ROWS),
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
    return ["" if row[name] is None else format(row[name], digits) for _, name, digits in FIGURES]


# ---------------------------------------------------------------- pictures of a sweep


def pictures_of(rows: list[dict]) -> list[Plot]:
    """Return the pictures for which these results hold enough figures; perhaps none."""
    rows = [row for row in rows if row["status"] == OK]
    processors = len({row["device"] for row in rows if TRAITS[row["backend"]].on_host})
    rows = [row | {"engine": _engine_name(row, processors > 1)} for row in rows]
    makers = (_training_time, _batch_sizes, _depths, _inference, _speed_ups, _errors, _memory)
    return [plot for make in makers for plot in make(rows)]


def _engine_name(row: dict, with_device: bool) -> str:
    """Return the name of a row's engine: backend and GPUs, or threads; the processor if there are several."""
    words = [row["engine"] or row["backend"]]
    if TRAITS[row["backend"]].on_host:
        if row["threads"] and row["threads"] >= 1:
            words.append(f"{row['threads']:.0f} thread{'s' * (row['threads'] > 1)}")
        words += [row["device"]] * with_device
    return ", ".join(words + [row["dtype"]] * (row["dtype"] != "float32"))


def _grouped(rows: Iterable[dict], name: str | Callable, x: str, y: str | Callable) -> dict:
    """Return {name: {x: [y, ...]}} of the rows that have both; name and y are columns or functions of a row."""
    groups: dict = defaultdict(lambda: defaultdict(list))
    for row in rows:
        key, value = (column(row) if callable(column) else row[column] for column in (name, y))
        if row[x] is not None and value is not None:
            groups[key][row[x]].append(value)
    return groups


def _lines(name: str, panels: list[tuple[str, dict]], x: Axis, y: Axis, look: str = "line") -> list[Plot]:
    """Return a plot for each (title, groups {name: {x: [y, ...]}}), with the same axes: lines through the medians, or
    each point; a group looks the same in all."""
    names = sorted({group for _, groups in panels for group in groups})
    plots = []
    for place, (title, groups) in enumerate(panels):
        lines = []
        for group, points in sorted(groups.items()):
            each = ((v, [float(np.median(own))] if look == "line" else own) for v, own in sorted(points.items()))
            xs, ys = zip(*((v, one) for v, own in each for one in own), strict=True)
            lines.append(Line(group, xs, ys, look, names.index(group)))
        plots.append(Plot(name if not place else f"{name}-{place + 1}", title, x, y, lines))
    return _on_one_scale(plots)


def _on_one_scale(plots: list[Plot]) -> list[Plot]:
    """Return plots, of positive numbers, whose axes have the same ends."""
    for axis, values_of in (("x", lambda line: line.x), ("y", lambda line: line.y)):
        values = [v for plot in plots for line in plot.lines for v in values_of(line) if v > 0]
        if len(plots) > 1 and values and min(values) < max(values):
            room = (max(values) / min(values)) ** 0.04
            for plot in plots:
                setattr(plot, axis, replace(getattr(plot, axis), ends=(min(values) / room, max(values) * room)))
    return plots


# ---------------------------------------------------------------- a sweep


def _of_usual_batch(rows: list[dict]) -> tuple[list[dict], Axis]:
    """Return the dense networks with the batch size that most have, and the axis of their training times."""
    dense = [row for row in rows if row["kind"] == "dense"]
    counts = Counter(row["batch_number"] for row in dense)
    batch = max(counts, key=lambda size: (counts[size], size), default=0)
    label = f"time of a batch of {batch:.0f} rows (ms)"
    return [row for row in dense if row["batch_number"] == batch], Axis(label, True)


def _training_time(rows: list[dict]) -> list[Plot]:
    rows, axis = _of_usual_batch(rows)
    groups = _grouped(rows, "engine", "parameters", "batch_ms")
    if not any(len(points) > 1 for points in groups.values()):
        return []
    return _lines("training-time", [("Training dense networks", groups)], PARAMETERS, axis)


def _batch_sizes(rows: list[dict]) -> list[Plot]:
    chosen = _by_network(rows, lambda own: len({row["batch_number"] for row in own}) > 1)
    panels = [(f"Training {title}", _grouped(own, "engine", "batch_number", _row_us)) for title, own in chosen]
    axes = Axis("batch size (rows)", True), Axis("training time of a row (µs)", True)
    return _lines("batch-size", panels, *axes)


def _row_us(row: dict) -> float:
    return 1e3 * row["batch_ms"] / row["batch_number"]


def _depths(rows: list[dict]) -> list[Plot]:
    rows, axis = _of_usual_batch([row for row in rows if row["depth"]])
    depths = defaultdict(set)
    for row in rows:
        depths[row["engine"]].add(row["depth"])
    engines = sorted((name for name in depths if len(depths[name]) > 1), key=lambda name: -len(depths[name]))
    panels = []
    for engine in sorted(engines[:SMALL_MULTIPLES]):
        own = [row for row in rows if row["engine"] == engine]
        panels.append((f"Width and depth, {engine}", _grouped(own, _structure, "parameters", "batch_ms")))
    return _lines("width-depth", panels, PARAMETERS, axis)


def _inference(rows: list[dict]) -> list[Plot]:
    panels = []
    for title, own in _by_network(rows):
        calls = [row | {"call": n, "ms": row[f"infer_{n}_ms"]} for row in own for n in INFERENCE_ROWS]
        panels.append((f"Inference of {title}", _grouped(calls, "engine", "call", "ms")))
    return _lines("inference", panels, Axis("rows in a call", True), Axis("time of a call of predict (ms)", True))


def _errors(rows: list[dict]) -> list[Plot]:
    groups = _grouped(rows, _structure, "parameters", "rmse")
    panels = [("Error after training", groups)] if sum(map(len, groups.values())) > 1 else []
    return _lines("error", panels, PARAMETERS, Axis("RMSE on test rows (unit of the target)"))


def _memory(rows: list[dict]) -> list[Plot]:
    groups = _grouped(rows, "backend", "parameters", lambda row: row["network_bytes"] / 1e6)
    panels = [("Memory", groups)] if sum(map(len, groups.values())) > 1 else []
    return _lines("memory", panels, PARAMETERS, Axis("memory of the network in training (MB)", True), "dots")


def _speed_ups(rows: list[dict]) -> list[Plot]:
    """Return the speed-up over the least number of threads or GPUs, for networks that ran on several."""
    plots = []
    for unit, title in (("threads", "threads"), ("gpus", "GPUs")):
        lines, most = [], 1
        for name, points in _scaling(rows, unit).items():
            medians = {count: float(np.median(points[count])) for count in sorted(points)}
            first, most = min(medians), max(most, *medians)
            lines.append(Line(name, list(medians), [first * medians[first] / ms for ms in medians.values()]))
        if lines:
            lines.append(Line("ideal", [1, most], [1, most], "rule"))
            axes = Axis(title, step=1), Axis("speed-up (times)")
            plots.append(Plot(f"speed-up-{unit}", f"Several {title}", *axes, lines))
    return plots


def _scaling(rows: list[dict], unit: str) -> dict:
    """Return {name: {threads or GPUs: [milliseconds, ...]}} of some networks that ran on several numbers."""
    groups = defaultdict(lambda: defaultdict(list))
    for row in rows:
        count = _count(row[unit]) or int(unit == "gpus")  # without --gpus: one GPU
        if count and (unit == "gpus") != TRAITS[row["backend"]].on_host:
            key = (row["layers"], row["batch_number"], row["backend"], row["distribute"], row["device"])
            groups[key][count].append(row["batch_ms"])
    for layers, batch, backend, distribute, device in list(groups):
        alone = groups.get((layers, batch, backend, None, device), {})  # one GPU, so nothing is distributed
        if distribute and 1 in alone:
            groups[layers, batch, backend, distribute, device].setdefault(1, alone[1])
    groups = {key: points for key, points in groups.items() if len(points) > 1}
    sizes = {row["layers"]: row["parameters"] for row in rows}
    networks = sorted({key[:2] for key in groups}, key=lambda key: (sizes[key[0]], key[1]))
    networks = _spread(networks, MOST_NETWORKS)
    order = sorted(groups, key=lambda key: tuple(map(str, key[2:])))
    groups = {key: groups[key] for network in networks for key in order if key[:2] == network}
    backends, devices = (len({key[at] for key in groups}) > 1 for at in (2, 4))
    named = {}
    for (layers, batch, backend, distribute, device), points in groups.items():
        more = [backend] * backends + [distribute] * bool(distribute) + [device] * devices
        named[", ".join([f"{_short(layers)}, batch {batch:.0f}", *more])] = points
    return named


def _count(value) -> int:
    """Return the number of GPUs or threads that `2`, 2.0 or the list `0,2` means."""
    if value in (None, ""):
        return 0
    text = str(value)
    return len([part for part in text.split(",") if part]) if "," in text else int(float(text))


def _structure(row: dict) -> str:
    if row["kind"] == "cnn":
        return "convolutional"
    return f"{row['depth']:.0f} hidden layer{'s' * (row['depth'] != 1)}"


def _by_network(rows: list[dict], wanted: Callable = len) -> list[tuple[str, list[dict]]]:
    """Return (title, rows) of some networks, from the smallest to the largest of those whose rows are wanted."""
    networks: dict = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["parameters"]):
        networks[row["layers"]].append(row)
    return _spread([(_short(layers), own) for layers, own in networks.items() if wanted(own)], SMALL_MULTIPLES)


def _spread(items: list, most: int) -> list:
    """Return at most `most` of the items, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _short(layers: str) -> str:
    """Return a network's name in a title: without activations, and cut if it is long."""
    text = "-".join(item.split(":")[0] for item in layers.split(","))
    return text if len(text) <= 34 else text[:31] + "..."
