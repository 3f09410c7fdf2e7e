"""Figures as text: one way to write them, on the terminal and in a report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from ..layers import describe
from ..nn_aux import METRICS
from ..utils import axis_texts, counted, listed, plural


def number_text(value) -> str:
    """Return a figure with six digits; `undefined` for None, and for what is beyond
    float64."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "undefined"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


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


def layers_of(net) -> list[tuple[str, Sequence]]:
    """Return (title, layers) of a network, or of each of its members that differ in
    layers: how many have them."""
    counts = Counter(tuple(member.layers) for member in net.members)
    titles = [
        plural(count, "network") if net.is_combined else "" for count in counts.values()
    ]
    return list(zip(titles, counts, strict=True))


def disagreeing_texts(row: dict, models: Sequence[str]) -> list[str]:
    """Return what each model says of a row on which they differ."""
    said = [value for model in models for value in row[model]]
    texts = iter(axis_texts(said, 3))
    return ["; ".join(next(texts) for _ in row[model]) for model in models]


def setting_text(value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def members_of(net) -> tuple[list[str], list[list[str]]]:
    """Return (headers, a line for each member) of the settings in which a network's
    members differ; no lines if none.

    The seeds are told beside the others only.
    """
    configs = [member.config for member in net.members]
    keys = dict.fromkeys([*net.config, *(name for own in configs for name in own)])
    names = [
        name
        for name in keys
        if name not in _OF_ALL and len({str(own.get(name)) for own in configs}) > 1
    ]
    rows = [
        [
            str(member.seed),
            f"{weight:g}",
            *(setting_text(member.config.get(name)) for name in names),
        ]
        for member, weight in zip(net.members, net.member_weights, strict=True)
    ]
    return ["seed", "weight", *names], rows if names else []


def candidates_of(net) -> tuple[list[str], list[list[str]]]:
    """Return (headers, a line for each candidate) of what the choice of a network's
    layers has tried."""
    lines = []
    for own in net.config.get("candidates", ()):
        if own["loss"] is None:
            loss = ""
        else:
            loss = f"{own['loss']:.4g}"
        lines.append(
            [own["layers"], loss, f"{own['operations']:.2g}", str(own["weight"])]
        )
    return ["candidate", "loss", "multiply-adds", "weight"], lines


_OF_ALL = ("seed", "split_seed", "candidates")


BAR_CHARACTERS = frozenset(" ▁▂▃▄▅▆▇█▏▎▍▌▋▊▉")


def small_bars(counts: Sequence[int]) -> str:
    most = max([1, *counts])
    return "".join(" ▁▂▃▄▅▆▇█"[-(-8 * int(count) // int(most))] for count in counts)


def bar(share: float, longest: int = 12) -> str:
    """Return a bar of this share of the longest one, as a text."""
    eighths = round(8 * longest * max(share, 0.0))
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def confused_pairs(result: dict, most: int) -> list[list[str]]:
    """Return (true class, predicted class, rows, their share of the class) of the most
    frequent errors of a test."""
    names = [row["class"] for row in result["per_class"]]
    counts = result["confusion"]
    pairs = [
        (-n, a, b)
        for a, row in enumerate(counts)
        for b, n in enumerate(row)
        if n > 0 and a != b
    ]
    return [
        [
            names[a],
            names[b],
            count_text(counts[a][b]),
            f"{counts[a][b] / sum(counts[a]):.1%}",
        ]
        for _, a, b in sorted(pairs)[:most]
    ]


def metric_lines(result: dict) -> list[list[str]]:
    """Return (label, value, its interval or none) of each metric of a test."""
    intervals = result.get("intervals", {})
    if "rmse" in result:
        shown = number_text
    else:
        shown = rate_text
    each = {
        name: (METRICS[name].label, value)
        for name, value in result.items()
        if name in METRICS
    }
    for name, value in result.get("macro", {}).items():
        each[f"macro_{name}"] = f"macro {METRICS[name].label}", value
    return [
        [
            label,
            shown(value),
            ends_text(intervals[name], shown) if name in intervals else "",
        ]
        for name, (label, value) in each.items()
    ]


def target_lines(result: dict) -> tuple[list[str], list[list[str]]]:
    """Return (headers, a line for each target) of a test of several targets; no lines
    for a single one."""
    by_target = result.get("per_target", ())
    names = [name for name in METRICS if by_target and name in by_target[0]]
    headers = ["target", *(METRICS[name].label for name in names)]
    return headers, [
        [row["target"], *(number_text(row[name]) for name in names)]
        for row in by_target
    ]


def class_lines(rows: Sequence[dict]) -> list[list[str]]:
    """Return (class, precision, recall, F1, rows) of classes of a test."""
    rates = [
        [rate_text(row[name]) for name in ("precision", "recall", "f1")] for row in rows
    ]
    return [
        [row["class"], *own, count_text(row["support"])]
        for row, own in zip(rows, rates, strict=True)
    ]


def layer_lines(layers) -> list[list[str]]:
    """Return (layer, activation, output shape, parameters) of each layer."""
    return [
        [
            own["layer"],
            own["activation"]
            if own["parameters"] or own["activation"] != "linear"
            else "",
            shape_text(own["output"]),
            f"{own['parameters']:,}",
        ]
        for own in describe(layers)
    ]


def importance_lines(found: dict) -> list[list[str]]:
    """Return (column, bar, what the metric loses without it, its interval) of each
    column. found: of an Importance."""
    most = max(*found["mean"], 1e-300)
    ends = [
        ends_text(pair, _brief)
        for pair in zip(found["low"], found["high"], strict=True)
    ]
    each = zip(found["names"], found["mean"], ends, strict=True)
    return [
        [name, bar(mean / most), _brief(mean), interval]
        for name, mean, interval in each
    ]


def _brief(value: float) -> str:
    """Return a figure with three digits, a large one as a whole number."""
    if abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:.0f}"


def comparison_lines(found: dict) -> list[list[str]]:
    """Return (metric, both values, difference, interval) of each metric of two
    models."""
    return [
        [
            METRICS[name].label,
            *(number_text(own[key]) for key in (*found["models"], "difference")),
            ends_text(own["interval"], number_text),
        ]
        for name, own in found["metrics"].items()
    ]


def _out_of_fold(net) -> str:
    """Return how many rows folds judge, or why a model of an earlier version keeps none
    of their scores."""
    if net.crossed is not None:
        told = f"{len(net.crossed.rows):,} of {len(net.crossed.fold):,} rows, {len(net.crossed.thresholds)} folds"
        if net.crossed.is_retrained:
            told += "; then all networks were trained once more on all rows"
        return told
    if "folds" not in net.config:
        return ""
    return "not kept by the nn that trained it, whose figures of small tables were too good; train again to have them"


def target_text(names: Sequence[str] | None, asked, is_table: bool = True) -> str:
    """Return which columns are the targets, and how others are chosen where nobody has;
    empty for none of a table.

    names: of the target columns. asked: --target, None: the last column.
    """
    if not names and not is_table:
        return ""
    several = names is not None and len(names) > 1
    if several:
        word = "targets"
    else:
        word = "target"
    if several:
        last = "the last columns"
    else:
        last = "the last column"
    if names and asked is None:
        return f"{word} {listed(names)} ({last}; --target chooses)"
    if names:
        return f"{word} {listed(names)}"
    if asked is None:
        return f"target {last} (--target chooses)"
    return f"target column {asked}"


def facts_of(net) -> dict[str, str]:
    """Return what people are told of a network, by its name; empty where there is
    nothing to tell."""
    if "val_metric" in net.history:
        judged = "validation loss"
    else:
        judged = "held-out loss"
    each = [
        sum(
            layer.outputs * layer.fan_in
            for layer in own.layers
            if layer.weight_shape and not layer.columns
        )
        for own in net.members
    ]
    # and back
    of_training = sum(
        3 * n * len(own.history["loss"])
        for n, own in zip(each, net.members, strict=True)
    )
    networks = ""
    weights = net.member_weights
    if len(net.members) > 1:
        networks = f"{len(net.members)}, seeds {listed([str(member.seed) for member in net.members])}"
        if len(set(weights)) > 1:
            networks += f", weights {listed([f'{weight:g}' for weight in weights])}"
    losses = [("loss", net.history["loss"]), (judged, net.history["val_loss"])]
    trained = [f"{len(net.history['loss'])} epochs"] + [
        f"{name} {each[-1]:.6g}" for name, each in losses if each
    ]
    return {
        "task": net.task,
        "loss": net.loss,
        "dtype": net.dtype,
        "scaling": "; ".join(counted(member.scaling.kind for member in net.members)),
        "targets": listed(net.targets or []),
        "classes": listed(net.classes or []),
        "threshold": f"{net.threshold:g}" if net.task == "binary" else "",
        "temperature": f"{net.temperature:g}" if net.temperature != 1 else "",
        "seed": str(net.seed),
        "networks": networks,
        "layers": "; ".join(counted(member.spec for member in net.members)),
        "parameters": f"{sum(member.parameter_count for member in net.members):,}",
        "multiply-adds": f"{sum(each):,} a prediction"
        + f", {of_training:,} a row of training" * bool(of_training),
        "hold-out": f"{net.holdout:g}",
        "out of fold": _out_of_fold(net),
        "trained": ", ".join(trained) if len(trained) > 1 else "",
    }
