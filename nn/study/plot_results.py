"""Pictures of a sweep's results and of trials, for --plot and --report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from ..backends import TRAITS
from ..train.vary import SETTINGS
from .plot import Picture, check_matplotlib, draw_picture, styles_of
from .results import INFERENCE_ROWS, OK

MOST_NETWORKS = 5  # in the picture of speed-ups
SMALL_MULTIPLES = 3


def of_results(rows: list[dict]) -> list[Picture]:
    """Draw all pictures for which these results (sweep.collect) hold enough figures; perhaps none."""
    check_matplotlib()
    done = [row for row in rows if row["status"] == OK]
    engines = _engine_names(done)
    makers = (_training_time, _batch_sizes, _depths, _inference, _threads_or_gpus, _errors, _memory)
    pictures = [picture for make in makers if (picture := make(done, engines)) is not None]
    return pictures


def of_trials(rows: list[dict]) -> list[Picture]:
    """Draw the score against each setting that differs among trials (trials.read_trials), of the usual metric."""
    check_matplotlib()
    counts = Counter(row["metric"] for row in rows if row["score"] is not None)
    if not counts:
        return []
    usual = counts.most_common(1)[0][0]
    known = [row for row in rows if row["score"] is not None and row["metric"] == usual]
    varied = [name for name in SETTINGS if len({row[name] for row in known} - {None}) > 1]
    return [_scores_by(name, usual, known) for name in varied]


def _scores_by(name: str, metric: str, rows: list[dict]) -> Picture:
    there = [row for row in rows if row[name] is not None]
    words = sorted({row[name] for row in there}) if isinstance(there[0][name], str) else []
    groups = {"members": [r for r in there if r["weight"]], "others": [r for r in there if not r["weight"]]}

    def draw(places):
        (axes,) = places
        for (label, own), style in zip(groups.items(), styles_of(groups).values(), strict=True):
            at = [words.index(row[name]) if words else row[name] for row in own]
            marks = {"color": style["color"], "marker": style["marker"], "label": label}
            axes.scatter(at, [row["score"] for row in own], s=18, alpha=0.7, linewidths=0, **marks)
        if words:
            axes.set_xticks(range(len(words)), words)
        elif min(row[name] for row in there) > 0 and SETTINGS[name].log:
            axes.set_xscale("log")
        axes.set(xlabel=name, ylabel=f"{metric} of the network")
        axes.set_title(f"{len(there)} networks by {name}")

    return draw_picture(f"trials-{name}", f"The {metric} against {name}.", draw)


def _engine_names(rows: list[dict]) -> dict[int, str]:
    """Return the name of each row's engine by the row's id: backend and GPUs, or threads; the processor if several."""
    devices = {row["device"] for row in rows if TRAITS[row["backend"]].on_host}
    names = {}
    for row in rows:
        name = row["engine"] or row["backend"]
        if TRAITS[row["backend"]].on_host and row["threads"] and row["threads"] >= 1:
            name += f", {row['threads']:.0f} thread{'s' * (row['threads'] > 1)}"
        if len(devices) > 1 and TRAITS[row["backend"]].on_host:
            name += f", {row['device']}"
        if row["dtype"] != "float32":
            name += f", {row['dtype']}"
        names[id(row)] = name
    return names


def _usual_batch(rows: list[dict]) -> float | None:
    """Return the batch size of most rows."""
    counts = Counter(row["batch_number"] for row in rows)
    return max(counts, key=lambda size: (counts[size], size)) if counts else None


def _line(axes, points: dict[float, list[float]], **style) -> None:
    """Return a line through the median of the values at each x."""
    xs = sorted(points)
    axes.plot(xs, [float(np.median(points[x])) for x in xs], **style)


def _grouped(rows: Iterable[dict], key: Callable, x: str, y: Callable) -> dict:
    """Return {key: {x: [y, ...]}} of the rows that have both."""
    groups: dict = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[x] is not None and y(row) is not None:
            groups[key(row)][row[x]].append(y(row))
    return groups


def _training_time(rows, engines):
    dense = [row for row in rows if row["kind"] == "dense"]
    batch = _usual_batch(dense)
    chosen = [row for row in dense if row["batch_number"] == batch]
    groups = _grouped(chosen, lambda row: engines[id(row)], "parameters", lambda row: row["batch_ms"])
    if not any(len(points) > 1 for points in groups.values()):
        return None

    def draw(places):
        (axes,) = places
        for name, style in styles_of(groups).items():
            _line(axes, groups[name], label=name, **style)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="parameters",
            ylabel=f"time of a batch of {batch:.0f} rows (ms)",
        )
        axes.set_title("Training a dense network")

    caption = f"Training time of a batch of {batch:.0f} rows against the number of parameters, dense networks."
    return draw_picture("training-time", caption, draw)


def _batch_sizes(rows, engines):
    sizes = defaultdict(set)
    for row in rows:
        sizes[row["layers"]].add(row["batch_number"])
    layers = sorted((name for name in sizes if len(sizes[name]) > 1), key=lambda name: _parameters(rows, name))
    layers = _spread(layers, SMALL_MULTIPLES)
    if not layers:
        return None
    styles = styles_of(engines[id(row)] for row in rows if row["layers"] in layers)

    def draw(axes):
        for place, name in zip(axes, layers, strict=True):
            some = [row for row in rows if row["layers"] == name]
            groups = _grouped(
                some,
                lambda row: engines[id(row)],
                "batch_number",
                lambda row: 1e3 * row["batch_ms"] / row["batch_number"],
            )
            for engine, points in sorted(groups.items()):
                _line(place, points, label=engine, **styles[engine])
            place.set(xscale="log", yscale="log", xlabel="batch size (rows)")
            place.set_title(_short(name))
        axes[0].set_ylabel("training time of a row (µs)")

    caption = "Training time of a row against the batch size: larger batches keep more of a device busy."
    return draw_picture("batch-size", caption, draw, len(layers))


def _depths(rows, engines):
    dense = [row for row in rows if row["kind"] == "dense" and row["depth"]]
    batch = _usual_batch(dense)
    chosen = [row for row in dense if row["batch_number"] == batch]
    groups = _grouped(chosen, lambda row: (engines[id(row)], row["depth"]), "parameters", lambda row: row["batch_ms"])
    names = [name for name, _ in Counter(name for name, _ in groups).most_common() if _depths_of(groups, name) > 1]
    names = sorted(names[:SMALL_MULTIPLES])
    if not names:
        return None
    styles = styles_of(f"{depth:.0f} hidden layer{'s' * (depth > 1)}" for _, depth in groups)

    def draw(axes):
        for place, name in zip(axes, names, strict=True):
            for engine, depth in sorted(groups):
                if engine == name:
                    label = f"{depth:.0f} hidden layer{'s' * (depth > 1)}"
                    _line(place, groups[engine, depth], label=label, **styles[label])
            place.set(xscale="log", yscale="log", xlabel="parameters")
            place.set_title(name)
        axes[0].set_ylabel(f"time of a batch of {batch:.0f} rows (ms)")

    caption = "Width against depth: networks of about as many parameters, in one, two and three hidden layers."
    return draw_picture("width-depth", caption, draw, len(names))


def _depths_of(groups, name) -> int:
    return len({depth for engine, depth in groups if engine == name})


def _inference(rows, engines):
    names = sorted({row["layers"] for row in rows}, key=lambda name: _parameters(rows, name))
    names = _spread(names, 3)
    if not names:
        return None
    styles = styles_of(engines[id(row)] for row in rows if row["layers"] in names)

    def draw(axes):
        for place, name in zip(axes, names, strict=True):
            lines = defaultdict(lambda: defaultdict(list))
            for row in rows:
                for n in INFERENCE_ROWS:
                    if row["layers"] == name and row[f"infer_{n}_ms"] is not None:
                        lines[engines[id(row)]][n].append(row[f"infer_{n}_ms"])
            for engine, points in sorted(lines.items()):
                _line(place, points, label=engine, **styles[engine])
            place.set(xscale="log", yscale="log", xlabel="rows in a call")
            place.set_title(_short(name))
        axes[0].set_ylabel("time of a call of predict (ms)")

    caption = "Inference: time of a call against the rows in it, for a small, a middle and a large network."
    return draw_picture("inference", caption, draw, len(names))


def _threads_or_gpus(rows, engines):
    """Speed-up over the least number of threads or GPUs, for networks that ran on several."""
    lines = {unit: _scaling_lines(rows, unit) for unit in ("threads", "gpus")}
    lines = {unit: groups for unit, groups in lines.items() if groups}
    if not lines:
        return None

    def draw(axes):
        for place, (unit, groups) in zip(axes, lines.items(), strict=True):
            _draw_speed_ups(place, unit, groups)

    return draw_picture("speed-up", "Speed-up of training by several threads or GPUs.", draw, len(lines), share=False)


def _scaling_lines(rows, unit: str) -> dict:
    """Return {(layers, batch, backend, distribute, device): {threads or GPUs: [milliseconds, ...]}} of some networks.

    Only settings that ran on several numbers of threads or GPUs are in it.
    """
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
    networks = sorted({key[:2] for key in groups}, key=lambda key: (_parameters(rows, key[0]), key[1]))
    order = sorted(groups, key=lambda key: tuple(map(str, key[2:])))
    return {key: groups[key] for one in _spread(networks, MOST_NETWORKS) for key in order if key[:2] == one}


def _draw_speed_ups(axes, unit: str, groups: dict) -> None:
    """Draw a line for each group of _scaling_lines, and the ideal one."""
    several = len({key[2] for key in groups}) > 1
    names = {
        key: ", ".join([f"{_short(key[0])}, batch {key[1]:.0f}"] + [key[2]] * several + [key[3]] * bool(key[3]))
        for key in groups
    }
    styles = styles_of(names.values())
    for key, points in groups.items():
        first = float(np.median(points[min(points)]))
        speed = {count: [min(points) * first / float(np.median(times))] for count, times in points.items()}
        _line(axes, speed, label=names[key], **styles[names[key]])
    most = max(max(points) for points in groups.values())
    axes.plot([1, most], [1, most], color="0.6", linewidth=1, label="ideal")
    axes.set(xlabel="GPUs" if unit == "gpus" else "threads", ylabel="speed-up (times)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Several GPUs" if unit == "gpus" else "Several threads")


def _count(value) -> int:
    """Return the number of GPUs or threads that `2`, 2.0 or the list `0,2` means."""
    if value in (None, ""):
        return 0
    text = str(value)
    return len([part for part in text.split(",") if part]) if "," in text else int(float(text))


def _errors(rows, engines):
    chosen = [row for row in rows if row["rmse"] is not None]
    groups = _grouped(chosen, _structure, "parameters", lambda row: row["rmse"])
    if sum(map(len, groups.values())) < 2:
        return None

    def draw(places):
        (axes,) = places
        for name, style in styles_of(groups).items():
            _line(axes, groups[name], label=name, **style)
        axes.set(xscale="log", xlabel="parameters", ylabel="RMSE on test rows (unit of the target)")
        axes.set_title("Error after training")

    return draw_picture("error", "Error on test rows against the number of parameters.", draw)


def _structure(row) -> str:
    if row["kind"] == "cnn":
        return "convolutional"
    return f"{row['depth']:.0f} hidden layer{'s' * (row['depth'] != 1)}"


def _memory(rows, engines):
    groups = _grouped(rows, lambda row: row["backend"], "parameters", lambda row: row["network_bytes"] / 1e6)
    if sum(map(len, groups.values())) < 2:
        return None

    def draw(places):
        (axes,) = places
        for name, style in styles_of(groups).items():
            hollow = {"facecolors": "none", "edgecolors": style["color"], "marker": style["marker"]}
            axes.scatter(*_points(groups[name]), label=name, s=28, **hollow)
        axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="memory of the network in training (MB)")
        axes.set_title("Memory")

    return draw_picture("memory", "Memory: parameters, gradients, the optimiser's state and one batch.", draw)


def _points(points: dict[float, list[float]]):
    pairs = [(x, y) for x, ys in sorted(points.items()) for y in ys]
    return zip(*pairs, strict=True)


def _parameters(rows, layers: str) -> float:
    return next(row["parameters"] for row in rows if row["layers"] == layers)


def _spread(items: list, most: int) -> list:
    """Return at most `most` of the items, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _short(layers: str) -> str:
    """Return a network's name in a title: without activations, and cut if it is long."""
    text = "-".join(item.split(":")[0] for item in layers.split(","))
    return text if len(text) <= 34 else text[:31] + "..."
