"""Pictures of a sweep's results and of one model, for --plot and --report. Needs matplotlib (extra `report`).

Colours are those of Okabe and Ito, which the colour-blind tell apart; every line has a marker of its own too.
"""

from __future__ import annotations

import io
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..backends import TRAITS
from ..core.metrics import METRICS
from ..train.vary import SETTINGS
from ..utils import OutputError, UsageError, atomic_write, os_reason
from .results import INFERENCE_ROWS, OK

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
DASHES = ("-", "--", "-.", ":")
MOST_NETWORKS = 5  # in the picture of speed-ups
MOST_INSIDE = len(COLOURS)  # lines that leave room for their legend
MOST_POINTS = 20_000  # of a scatter plot; more of them would only make the file large
SMALL_MULTIPLES = 3
INCHES = (5.4, 4.0)  # of pictures of a model: two beside each other, and legible on a phone

STYLE = {
    "svg.fonttype": "none",  # text stays text: searchable, and as sharp as the page's
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.35,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@dataclass
class Picture:
    """A drawn figure: the name of its files, what it shows, and itself in two formats."""

    name: str
    caption: str
    svg: bytes
    png: bytes


def check_matplotlib() -> None:
    """Raise UsageError with the remedy where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError('pictures need the package matplotlib: pip install "nn-trainer[report]"') from None


def save(pictures: Iterable[Picture], folder: str) -> list[str]:
    """Write every picture as SVG and PNG; returns the files. Raises OutputError."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot make the folder: {os_reason(error)}") from error
    files = []
    for picture in pictures:
        for suffix, data in (("svg", picture.svg), ("png", picture.png)):
            files.append(str(Path(folder) / f"{picture.name}.{suffix}"))
            atomic_write(files[-1], data)
    return files


def draw_picture(
    name: str,
    caption: str,
    draw: Callable,
    columns: int = 1,
    share: bool = True,
    inches: tuple[float, float] = (6.8, 4.6),
) -> Picture:
    """Draw with draw(axes), a list of `columns` Axes side by side; the same bytes from run to run.

    inches: width and height of one; several are as wide as they need.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=inches if columns == 1 else (4.6 * columns + 0.6, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots(1, columns, sharex=share, sharey=share, squeeze=False)[0].tolist())
        _legend(figure)
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        figure.savefig(png, format="png", dpi=150)
    return Picture(name, caption, svg.getvalue(), png.getvalue())


# ---------------------------------------------------------------- a sweep's results


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
        for (label, own), style in zip(groups.items(), _styles(groups).values(), strict=True):
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


def _styles(names: Iterable[str]) -> dict[str, dict]:
    """Return a colour, a marker and a kind of line for each name, the same wherever the names are."""
    return {
        name: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
        }
        for i, name in enumerate(sorted(set(names)))
    }


def _usual_batch(rows: list[dict]) -> float | None:
    """Return the batch size of most rows."""
    counts = Counter(row["batch_number"] for row in rows)
    return max(counts, key=lambda size: (counts[size], size)) if counts else None


def _line(axes, points: dict[float, list[float]], **style) -> None:
    """Return a line through the median of the values at each x."""
    xs = sorted(points)
    axes.plot(xs, [float(np.median(points[x])) for x in xs], **style)


def _legend(figure) -> None:
    """One in each part of the figure; one below for all where more lines than MOST_INSIDE leave it no room."""
    parts = [axes for axes in figure.axes if axes.get_legend_handles_labels()[1]]
    named = {}
    for axes in parts:
        named |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if len(named) <= MOST_INSIDE:
        for axes in parts:
            axes.legend()
        return
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.075 * max(map(len, named)))))  # inches
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(named) // columns))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)


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
        for name, style in _styles(groups).items():
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
    styles = _styles(engines[id(row)] for row in rows if row["layers"] in layers)

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
    styles = _styles(f"{depth:.0f} hidden layer{'s' * (depth > 1)}" for _, depth in groups)

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
    styles = _styles(engines[id(row)] for row in rows if row["layers"] in names)

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
    styles = _styles(names.values())
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
        for name, style in _styles(groups).items():
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
        for name, style in _styles(groups).items():
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


# ---------------------------------------------------------------- one model


def of_model(net, ds=None, scores: np.ndarray | None = None) -> list[Picture]:
    """Draw the losses of a network's training; with a data set of a regression also its errors there.

    scores: the predictions, where they are not the network's (out of fold).
    """
    check_matplotlib()
    pictures = [_losses(net)] if net.history["loss"] else []
    if _known_metrics(net) and _monitor_of(net) != "loss":
        pictures.append(_monitored(net))
    if ds is not None and net.task == "regression":
        truth, predicted = (
            np.asarray(ds.y, np.float64).reshape(ds.rows, -1),
            (net.predict(ds.x) if scores is None else scores).astype(np.float64),
        )
        names = net.targets or [f"output {i}" for i in range(net.outputs)]
        pictures += [_predicted(truth, predicted, names), _histogram(truth, predicted, names)]
    if not pictures:
        raise UsageError("nothing to draw: the model holds no history; give a data set with --dataset")
    return pictures


def _losses(net):
    judged = "validation rows" if "val_metric" in net.history else "held-out rows"
    history = {"training rows": net.history["loss"], judged: net.history["val_loss"]}
    lines = {name: values for name, values in history.items() if values}

    def draw(places):
        (axes,) = places
        for (name, values), style in zip(lines.items(), _styles(lines).values(), strict=True):
            style["marker"] = style["marker"] if len(values) <= 60 else ""
            axes.plot(range(1, len(values) + 1), values, label=name, **style)
        if _known_metrics(net) and _monitor_of(net) == "loss" and len(net.members) == 1:
            best = _best_epoch(net)
            axes.axvline(best, color="0.4", linestyle=":", label=f"epoch {best}, the best")
        values = np.concatenate(list(map(np.array, lines.values())))
        if values.min() > 0 and values.max() > 20 * values.min():
            axes.set_yscale("log")
        scaled = ", of scaled targets" if net.target_scaling is not None else ""
        axes.set(xlabel="epoch", ylabel=f"loss ({net.loss}{scaled})")
        axes.set_xlim(0.5, max(map(len, lines.values())) + 0.5)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title("Loss while training")

    return draw_picture("loss", "Loss after each epoch.", draw, inches=INCHES)


def _monitor_of(net) -> str:
    """Return the metric that chose the epoch, if there were validation rows."""
    name = net.config.get("monitor")
    return name if name in METRICS else "loss"


def _known_metrics(net) -> dict[int, float]:
    """Return the values of that metric by their epochs, from 1, as far as they are defined."""
    return {epoch: value for epoch, value in enumerate(net.history.get("val_metric") or [], 1) if value is not None}


def _best_epoch(net) -> int:
    known = _known_metrics(net)
    return (max if METRICS[_monitor_of(net)].higher_is_better else min)(known, key=known.get)


def _monitored(net):
    """Draw the metric that chose the epoch, and the epoch; of several networks, which each chose its own, the mean."""
    name, known, values = _monitor_of(net), _known_metrics(net), net.history["val_metric"]
    several = len(net.members) > 1

    def draw(places):
        (axes,) = places
        style = next(iter(_styles([name]).values()))
        axes.plot(list(known), list(known.values()), **{**style, "marker": style["marker"] if len(known) <= 60 else ""})
        if not several:
            axes.axvline(_best_epoch(net), color=style["color"], linestyle=":")
        axes.set(xlabel="epoch", ylabel=f"{name} of the validation rows")
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.xaxis.get_major_locator().set_params(integer=True)
        told = f"mean of {len(net.members)} networks" if several else f"epoch {_best_epoch(net)} is the best"
        axes.set_title(f"{name} while training; {told}")

    return draw_picture("metric", f"The {name} after each epoch.", draw, inches=INCHES)


def _predicted(truth, predicted, names):
    every = -(-truth.size // MOST_POINTS)

    def draw(places):
        (axes,) = places
        low, high = min(truth.min(), predicted.min()), max(truth.max(), predicted.max())
        axes.plot([low, high], [low, high], color="0.5", linewidth=1, label="perfect prediction")
        for column, style in zip(range(truth.shape[1]), itertools.cycle(_styles(map(str, range(7))).values())):  # noqa: B905
            axes.scatter(
                truth[::every, column], predicted[::every, column], s=8, alpha=0.5, linewidths=0,
                color=style["color"], marker=style["marker"], label=names[column],
            )  # fmt: skip
        axes.set(xlabel="true value (unit of the target)", ylabel="predicted value (unit of the target)")
        axes.set_title("Predicted against true")

    return draw_picture("predicted", "Predicted against true values.", draw, inches=INCHES)


def _histogram(truth, predicted, names):
    errors = predicted - truth

    def draw(places):
        (axes,) = places
        bins = np.histogram_bin_edges(errors, bins=min(60, max(10, int(len(errors) ** 0.5))))
        for column, style in zip(range(errors.shape[1]), itertools.cycle(_styles(map(str, range(7))).values())):  # noqa: B905
            mean, deviation = errors[:, column].mean(), errors[:, column].std()
            label = f"{names[column]}: mean {mean:.3g}, deviation {deviation:.3g}"
            alpha = 1.0 if errors.shape[1] == 1 else 0.5
            axes.hist(errors[:, column], bins=bins, color=style["color"], alpha=alpha, label=label)
        axes.margins(y=0.15)  # room for the legend
        axes.set(xlabel="predicted - true (unit of the target)", ylabel="rows")
        axes.set_title("Errors")

    return draw_picture("errors", "Histogram of the errors.", draw, inches=INCHES)
