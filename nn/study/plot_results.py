"""Pictures of a sweep's results and of trials, for --plot and --report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from ..backends import TRAITS
from ..train.vary import SETTINGS
from .plot import Picture, check_matplotlib, drawing, styles_of
from .results import INFERENCE_ROWS, OK

MOST_NETWORKS = 5  # in the picture of speed-ups
SMALL_MULTIPLES = 3
PARAMETERS = {"xlabel": "parameters", "xscale": "log"}


def of_results(rows: list[dict]) -> list[Picture]:
    """Draw all pictures for which these results (sweep.collect) hold enough figures; perhaps none."""
    check_matplotlib()
    rows = [row for row in rows if row["status"] == OK]
    processors = len({row["device"] for row in rows if TRAITS[row["backend"]].on_host})
    rows = [row | {"engine": _engine_name(row, processors > 1)} for row in rows]
    makers = (_training_time, _batch_sizes, _depths, _inference, _speed_ups, _errors, _memory)
    return [picture for make in makers if (picture := make(rows)) is not None]


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


def _lines(name: str, caption: str, panels: list[tuple[str, dict]], each: bool = False, **labels) -> Picture:
    """Draw a panel for each (title, groups {name: {x: [y, ...]}}): lines through the medians, or each point."""
    styles = styles_of(group for _, groups in panels for group in groups)
    with drawing(name, caption, len(panels), **labels) as picture:
        for axes, (title, groups) in zip(picture.axes, panels, strict=True):
            axes.set_title(title)
            for group, points in sorted(groups.items()):
                pairs = [(x, y) for x in sorted(points) for y in (points[x] if each else [float(np.median(points[x]))])]
                look = {"linestyle": "none", "fillstyle": "none"} if each else {}
                axes.plot(*zip(*pairs, strict=True), label=group, **styles[group] | look)
    return picture


# ---------------------------------------------------------------- a sweep


def _of_usual_batch(rows: list[dict]) -> tuple[list[dict], str]:
    """Return the dense networks with the batch size that most have, and the label of their training times."""
    dense = [row for row in rows if row["kind"] == "dense"]
    counts = Counter(row["batch_number"] for row in dense)
    batch = max(counts, key=lambda size: (counts[size], size), default=0)
    return [row for row in dense if row["batch_number"] == batch], f"time of a batch of {batch:.0f} rows (ms)"


def _training_time(rows: list[dict]) -> Picture | None:
    rows, label = _of_usual_batch(rows)
    groups = _grouped(rows, "engine", "parameters", "batch_ms")
    if not any(len(points) > 1 for points in groups.values()):
        return None
    caption = f"Training {label.removesuffix(' (ms)')} against the number of parameters, dense networks."
    panels = [("Training a dense network", groups)]
    return _lines("training-time", caption, panels, **PARAMETERS, yscale="log", ylabel=label)


def _batch_sizes(rows: list[dict]) -> Picture | None:
    chosen = _by_network(rows, lambda own: len({row["batch_number"] for row in own}) > 1)
    panels = [
        (title, _grouped(own, "engine", "batch_number", lambda row: 1e3 * row["batch_ms"] / row["batch_number"]))
        for title, own in chosen
    ]
    caption = "Training time of a row against the batch size: larger batches keep more of a device busy."
    labels = {"xlabel": "batch size (rows)", "ylabel": "training time of a row (µs)"}
    return _lines("batch-size", caption, panels, xscale="log", yscale="log", **labels) if panels else None


def _depths(rows: list[dict]) -> Picture | None:
    rows, label = _of_usual_batch([row for row in rows if row["depth"]])
    depths = defaultdict(set)
    for row in rows:
        depths[row["engine"]].add(row["depth"])
    engines = sorted((name for name in depths if len(depths[name]) > 1), key=lambda name: -len(depths[name]))
    panels = [
        (engine, _grouped([row for row in rows if row["engine"] == engine], _structure, "parameters", "batch_ms"))
        for engine in sorted(engines[:SMALL_MULTIPLES])
    ]
    caption = "Width against depth: networks of about as many parameters, in one, two and three hidden layers."
    return _lines("width-depth", caption, panels, **PARAMETERS, yscale="log", ylabel=label) if panels else None


def _inference(rows: list[dict]) -> Picture | None:
    panels = []
    for title, own in _by_network(rows):
        calls = [row | {"call": n, "ms": row[f"infer_{n}_ms"]} for row in own for n in INFERENCE_ROWS]
        panels.append((title, _grouped(calls, "engine", "call", "ms")))
    caption = "Inference: time of a call against the rows in it, for a small, a middle and a large network."
    labels = {"xlabel": "rows in a call", "ylabel": "time of a call of predict (ms)"}
    return _lines("inference", caption, panels, xscale="log", yscale="log", **labels) if panels else None


def _errors(rows: list[dict]) -> Picture | None:
    groups = _grouped(rows, _structure, "parameters", "rmse")
    labels = {"ylabel": "RMSE on test rows (unit of the target)"}
    caption = "Error on test rows against the number of parameters."
    several = sum(map(len, groups.values())) > 1
    return _lines("error", caption, [("Error after training", groups)], **PARAMETERS, **labels) if several else None


def _memory(rows: list[dict]) -> Picture | None:
    groups = _grouped(rows, "backend", "parameters", lambda row: row["network_bytes"] / 1e6)
    if sum(map(len, groups.values())) < 2:
        return None
    caption = "Memory: parameters, gradients, the optimiser's state and one batch."
    labels = {"yscale": "log", "ylabel": "memory of the network in training (MB)"}
    return _lines("memory", caption, [("Memory", groups)], True, **PARAMETERS, **labels)


def _speed_ups(rows: list[dict]) -> Picture | None:
    """Speed-up over the least number of threads or GPUs, for networks that ran on several."""
    panels = {unit: groups for unit in ("threads", "gpus") if (groups := _scaling(rows, unit))}
    if not panels:
        return None
    caption = "Speed-up of training by several threads or GPUs."
    with drawing("speed-up", caption, len(panels), share=False) as picture:
        for axes, (unit, groups) in zip(picture.axes, panels.items(), strict=True):
            unit = "GPUs" if unit == "gpus" else unit
            styles = styles_of(groups)
            for name, points in groups.items():
                medians = {count: float(np.median(points[count])) for count in sorted(points)}
                first = min(medians)
                speeds = [first * medians[first] / ms for ms in medians.values()]
                axes.plot(list(medians), speeds, label=name, **styles[name])
            most = max(max(points) for points in groups.values())
            axes.plot([1, most], [1, most], color="0.6", linewidth=1, label="ideal")
            axes.set(title=f"Several {unit}", xlabel=unit, ylabel="speed-up (times)")
            axes.xaxis.get_major_locator().set_params(integer=True)
    return picture


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


# ---------------------------------------------------------------- trials


def of_trials(rows: list[dict]) -> list[Picture]:
    """Draw the score against each setting that differs among trials (trials.read_trials), of the usual metric."""
    check_matplotlib()
    counts = Counter(row["metric"] for row in rows if row["score"] is not None)
    if not counts:
        return []
    usual = counts.most_common(1)[0][0]
    rows = [row for row in rows if row["score"] is not None and row["metric"] == usual]
    varied = [name for name in SETTINGS if len({row[name] for row in rows} - {None}) > 1]
    return [_scores_by(name, usual, [row for row in rows if row[name] is not None]) for name in varied]


def _scores_by(name: str, metric: str, rows: list[dict]) -> Picture:
    words = sorted({row[name] for row in rows}) if isinstance(rows[0][name], str) else []
    groups = {"members": [r for r in rows if r["weight"]], "others": [r for r in rows if not r["weight"]]}
    labels = {"title": f"{len(rows)} networks by {name}", "xlabel": name, "ylabel": f"{metric} of the network"}
    if not words and min(row[name] for row in rows) > 0 and SETTINGS[name].log:
        labels["xscale"] = "log"
    with drawing(f"trials-{name}", f"The {metric} against {name}.", **labels) as picture:
        (axes,) = picture.axes
        for (label, own), style in zip(groups.items(), styles_of(groups).values(), strict=True):
            at = [words.index(row[name]) if words else row[name] for row in own]
            marks = {"color": style["color"], "marker": style["marker"], "label": label}
            axes.scatter(at, [row["score"] for row in own], s=18, alpha=0.7, linewidths=0, **marks)
        if words:
            axes.set_xticks(range(len(words)), words)
    return picture
