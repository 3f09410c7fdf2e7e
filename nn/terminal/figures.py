"""Figures as text: one way to write them, on the terminal and in a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from ..layers import Layer, describe
from ..nn_aux import METRICS, metrics_told
from ..utils import MOST_WHOLE, axis_texts, figure_text

SURENESS = ("coverage", "width")  # of intervals


def number_text(value) -> str:
    """Return a figure with six digits, from a million on as a whole number, such as
    1234567890; `undefined` for None, and for what is beyond float64."""
    if value is None:
        return "undefined"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "undefined"
    if 999_999.5 <= abs(value) < MOST_WHOLE:
        return f"{value:.0f}"
    return f"{value:.6g}"


def short_text(value: float | None) -> str:
    """Return a figure with three digits, zeros at the end too; `undefined` for None,
    and for what is beyond float64."""
    if value is None or not math.isfinite(value):
        return "undefined"
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    power = math.floor(math.log10(abs(rounded)))
    if not -5 <= power < 7:
        return f"{value:.2e}"
    return f"{rounded:.{max(0, 2 - power)}f}"


def rate_text(value: float | None) -> str:
    """Return a rate, or a figure as large, with four decimals; `undefined` for None."""
    if value is None:
        return "undefined"
    return f"{value:.4f}"


def count_text(value: float) -> str:
    """Return a number of rows as it is, a sum of weights to a tenth."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.1f}"


def ends_text(interval: Sequence[float] | None, shown: Callable) -> str:
    """Return both ends of an interval, each written by `shown`; `undefined` for
    None."""
    if interval is None:
        return "undefined"
    return " to ".join(map(shown, interval))


def shape_text(shape: Sequence[int]) -> str:
    """Return `60` for a vector of 60 values, `4x28x28` for an image."""
    if tuple(shape[1:]) == (1, 1):
        return str(shape[0])
    return "x".join(map(str, shape))


def disagreeing_texts(row: dict, models: Sequence[str]) -> list[str]:
    """Return what each model predicts for a row on which they differ."""
    predicted = [value for model in models for value in row[model]]
    texts = iter(axis_texts(predicted, 3))
    return ["; ".join(next(texts) for _ in row[model]) for model in models]


def true_text(row: dict, metrics: Collection[str]) -> str:
    """Return the true class of a row, or its targets, of several quantiles the one that
    they have. metrics: of the comparison."""
    if not isinstance(row["true"], list):
        return str(row["true"])
    targets = row["true"]
    if "rmse" in metrics and "rmse" not in metrics_told(metrics):
        targets = targets[:1]
    texts = [t if isinstance(t, str) else number_text(t) for t in targets]
    return "; ".join(texts)


def setting_text(value) -> str:
    """Return a setting; empty for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


BAR_CHARACTERS = frozenset(" ▁▂▃▄▅▆▇█▏▎▍▌▋▊▉")


def small_bars(counts: Sequence[int]) -> str:
    """Return a distribution as a text, a character a count; a count above 0 is no
    gap."""
    largest = int(max([1, *counts]))
    eighths = [-(-8 * int(count) // largest) for count in counts]
    return "".join(" ▁▂▃▄▅▆▇█"[height] for height in eighths)


def bar(share: float, longest: int = 12) -> str:
    """Return a bar of this share of the longest one, as a text."""
    blocks, eighths = divmod(round(8 * longest * max(share, 0.0)), 8)
    return "█" * blocks + ("", *"▏▎▍▌▋▊▉")[eighths]


def confused_pairs(result: dict, most: int) -> list[list[str]]:
    """Return (true class, predicted class, rows, their share of the class) of the most
    frequent errors of a test."""
    names = [row["class"] for row in result["per_class"]]
    errors = []
    for true, counts in enumerate(result["confusion"]):
        for predicted, count in enumerate(counts):
            if count > 0 and predicted != true:
                errors.append((-count, true, predicted, count / sum(counts)))
    return [
        [names[true], names[predicted], count_text(-count), f"{share:.1%}"]
        for count, true, predicted, share in sorted(errors)[:most]
    ]


def metric_lines(result: dict, numbers: Callable = number_text) -> list[list[str]]:
    """Return (label, value, its interval or none) of each metric of a test. numbers:
    writes those of a regression."""
    intervals = result.get("intervals", {})
    if "rmse" in result:
        shown = numbers
    else:
        shown = rate_text

    def label_of(name: str) -> str:
        label = METRICS[name].label
        if "hamming_loss" not in result:
            return label
        if METRICS[name].of["multilabel"] == "targets":
            return f"mean {label}"
        return {"accuracy": "rows wholly right"}.get(name, label)

    def line(name: str, label: str, value: float | None) -> list[str]:
        interval = ""
        if name in intervals:
            interval = ends_text(intervals[name], shown)
        return [label, shown(value), interval]

    told = metrics_told(result)
    lines = [
        line(name, label_of(name), value)
        for name, value in result.items()
        if name in told
    ]
    for name, value in result.get("macro", {}).items():
        lines.append(line(f"macro_{name}", f"macro {METRICS[name].label}", value))
    return lines


def sureness_text(result: dict, shown: Callable = number_text) -> str:
    """Return what the intervals of a test's predictions, or their sets of classes, hold
    beside what was asked; empty where a model has none. shown: writes a width."""
    if "level" not in result:
        return ""
    what = "sets of classes"
    size = "size"
    if "rmse" in result:
        what = "intervals"
        size = "width"
    held = f"hold {100 * result['coverage']:.1f} % of the rows"
    width = shown(result["width"])
    return f"{what} of level {result['level']:g} {held}, their mean {size} is {width}"


def threshold_text(threshold: float | list[float]) -> str:
    """Return a threshold, or those of several targets, as a text."""
    each = threshold if isinstance(threshold, list) else [threshold]
    return ", ".join(f"{one:.6g}" for one in each)


def target_lines(
    result: dict, shown: Callable = number_text, has_intervals: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return (headers, a line for each target) of a test of several targets; no lines
    for a single one. has_intervals: figures have their 95 % intervals, where there are
    any."""
    targets = result.get("per_target", ())
    if "hamming_loss" in result:
        shown = rate_text
    names: list[str] = []
    if targets:
        names = metrics_told(targets[0])
    if "level" in result:
        names += SURENESS

    def cell(row: dict, name: str) -> str:
        ends = row.get("intervals", {}).get(name)
        if ends is None or not has_intervals:
            return shown(row[name])
        return f"{shown(row[name])} ({ends_text(ends, shown)})"

    lines = [[row["target"], *(cell(row, name) for name in names)] for row in targets]
    labels = [METRICS[name].label if name in METRICS else name for name in names]
    return ["target", *labels], lines


def bytes_text(size: int) -> str:
    """Return bytes in the unit of which there is one or more, as it is rounded."""
    value = size
    power = 0
    while round(value, 1) >= 1024:
        value /= 1024
        power += 1
    if power == 0:
        return f"{size} bytes"
    return f"{value:.1f} {'KMGTPE'[power - 1]}iB"


def class_lines(rows: Sequence[dict]) -> list[list[str]]:
    """Return (class, precision, recall, F1, rows) of classes of a test."""
    lines = []
    for row in rows:
        rates = [rate_text(row[name]) for name in ("precision", "recall", "f1")]
        lines.append([row["class"], *rates, count_text(row["support"])])
    return lines


def layer_lines(layers: Sequence[Layer]) -> list[list[str]]:
    """Return (layer, activation, output shape, parameters) of each layer."""
    lines = []
    for layer in describe(layers):
        activation = layer["activation"]
        # one that has no parameters and no function only moves values
        if not layer["parameters"] and activation == "linear":
            activation = ""
        shape = shape_text(layer["output"])
        lines.append([layer["layer"], activation, shape, f"{layer['parameters']:,}"])
    return lines


def importance_lines(importance: dict) -> list[list[str]]:
    """Return (column, bar, what the metric loses without it, its interval) of each
    column. importance: the fields of an Importance."""
    largest = max(*importance["mean"], 1e-300)
    columns = [importance[name] for name in ("names", "mean", "low", "high")]
    return [
        [name, bar(mean / largest), _brief(mean), ends_text(ends, _brief)]
        for name, mean, *ends in zip(*columns, strict=True)
    ]


def _brief(value: float) -> str:
    """Return a figure with three digits, a large one as a whole number with four."""
    if abs(value) >= 1000:
        return figure_text(value)
    return figure_text(value, 3)


def comparison_lines(
    comparison: dict, shown: Callable = number_text
) -> list[list[str]]:
    """Return (metric, both values, difference, interval) of each metric of two
    models."""
    columns = [*comparison["models"], "difference"]
    lines = []
    for name in metrics_told(comparison["metrics"]):
        values = comparison["metrics"][name]
        texts = [shown(values[column]) for column in columns]
        interval = ends_text(values["interval"], shown)
        lines.append([METRICS[name].label, *texts, interval])
    return lines
