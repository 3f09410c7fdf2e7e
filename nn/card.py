"""The card of a model: what it is, in a few lines for a person, by what its file
knows."""

from __future__ import annotations

import re
from collections import Counter

from .data.source import short_name
from .nn import Network
from .nn_aux import METRICS, METRICS_OF_LOSSES, metrics_told, quantiles_of
from .utils import figure_text, listed, plural, target_text

MOST_GROUPS = 4  # of equal networks
_DIGEST_DIGITS = 12
_BY = {"folds": "out of fold", "validation": "validated"}
_WORDS_OF_TASK = {"binary": "two classes", "regression": "numbers"}
# of layers, where all networks of a task have the same or it says nothing of the size
_SAYS_LITTLE = re.compile(r",dropout[\d.]+(:\w+)?|:\w+$")
METRICS_OF_CARD = (
    "roc_auc",
    "accuracy",
    "f1",
    "log_loss",
    *METRICS_OF_LOSSES,
    "below",
    "rmse",
    "mae",
    "r2",
)


def card_of(net: Network, size: int | None = None) -> dict[str, str]:
    """Return the lines of a card by their names. size: bytes of the model's file, None
    for one in memory."""
    target = target_text(net.targets, net.config.get("target"), is_table=False)
    lines = {
        "target": target.partition(" ")[2],  # behind the word for it
        "task": _task_of(net),
        "columns": _columns_of(net),
        "left out": listed([f"{name} ({why})" for name, why in net.unused or []], 6),
        "trained on": _data_of(net),
        **_judged_of(net),
        "sureness": sureness_text(net),
        "networks": _networks_of(net),
        "training": _training_of(net),
        "size": _size_of(net, size),
    }
    return {name: text for name, text in lines.items() if text}


def groups_of(net: Network) -> list[str]:
    """Return the networks, those alike in one text with how many they are: `8 x
    7,64:silu,3, weight 3`."""
    are_weighed = len(set(net.member_weights)) > 1
    texts = []
    for member, weight in zip(net.members, net.member_weights, strict=True):
        text = _SAYS_LITTLE.sub("", member.spec)
        if are_weighed:
            text += f", weight {weight:g}"
        texts.append(text)
    return [f"{count} x {text}" for text, count in Counter(texts).items()]


def kinds_of_columns(net: Network) -> dict[str, str]:
    """Return the kind of each feature column by its name, or by its place, from 0,
    where it has none."""
    if net.encoding is None:
        kinds = ["number"] * net.inputs
        places = range(net.inputs)
    else:
        kinds = [encoder.kind for encoder in net.encoding.encoders]
        places = net.encoding.places or range(len(kinds))
    names = net.columns or [str(place) for place in places]
    if len(names) != len(kinds):
        return {}
    return dict(zip(names, kinds, strict=True))


def _task_of(net: Network) -> str:
    task = _WORDS_OF_TASK.get(net.task, f"{net.outputs} classes")
    if net.task == "regression" and net.outputs > 1:
        task = f"{net.outputs} numbers"
    shares = quantiles_of(net.loss)
    if shares:
        task = f"quantiles {listed(shares, 8)} of a number"
    if net.task == "multilabel":
        pairs = listed([f"{pair[0]} or {pair[1]}" for pair in net.labels or ()], 8)
        task = f"{net.outputs} targets of two classes: {pairs}".removesuffix(": ")
    if isinstance(net.threshold, list):
        task += f"; from scores of {listed([*map(figure_text, net.threshold)], 8)}"
    if not net.classes:
        return task
    text = f"{task}: {listed(net.classes, 8)}"
    if net.task == "binary":
        score = figure_text(net.threshold)
        text += f"; {net.classes[-1]} from a score of {score}"
    return text


def _columns_of(net: Network) -> str:
    """Return how many columns are read, by kind, and what they become."""
    shape = net.layers[0].in_shape
    if len(shape) == 3 and shape[1:] != (1, 1):
        return f"images of {'x'.join(map(str, shape))}"
    if net.encoding is None:
        return f"{net.inputs} of numbers"
    counts = Counter(encoder.kind for encoder in net.encoding.encoders)
    kinds = ", ".join(f"{kind} ({count})" for kind, count in counts.items())
    inputs = sum(column.outputs for column in net.encoding.columns)
    return f"{net.encoding.features}: {kinds}; {inputs} inputs"


def _data_of(net: Network) -> str:
    """Return which rows a model was trained on."""
    parts = []
    if net.row_hashes:
        parts.append(f"{net.row_hashes['rows']:,} rows")
    data = net.dataset or {}
    if data.get("path"):
        # of Windows, perhaps
        parts.append(short_name(data["path"].replace("\\", "/")))
    if data.get("sha256"):
        parts.append(f"SHA-256 {data['sha256'][:_DIGEST_DIGITS]}...")
    return ", ".join(parts)


def _judged_of(net: Network) -> dict[str, str]:
    """Return the metrics of rows that the networks did not know, and which rows these
    are."""
    lines = {}
    judged = net.judged
    if judged is not None:
        texts = []
        told = metrics_told(judged["metrics"])
        for name in METRICS_OF_CARD:
            if name not in told or judged["metrics"][name] is None:
                continue
            text = f"{METRICS[name].label} {figure_text(judged['metrics'][name])}"
            ends = judged["intervals"].get(name)
            if ends:
                text += f" (95 %: {' to '.join(map(figure_text, ends))})"
            texts.append(text)
        lines[_BY[judged["by"]]] = ", ".join(texts)
    lines["judged by"] = judging_rows(net)
    return lines


def judging_rows(net: Network) -> str:
    """Return how many rows folds judge, or why a model of an earlier version keeps none
    of their scores."""
    crossed = net.crossed
    if crossed is not None:
        text = f"{len(crossed.rows):,} of {len(crossed.fold):,} rows, {len(crossed.thresholds)} folds"
        if crossed.is_retrained:
            text += "; then all networks were trained once more on all rows"
        return text
    if "folds" not in net.config:
        if net.judged is not None:
            return plural(net.judged["rows"], "validation row")
        return ""
    return "not kept by the nn that trained it, whose figures of small tables were too good; train again to have them"


def _networks_of(net: Network) -> str:
    groups = groups_of(net)
    text = "; ".join(groups[:MOST_GROUPS])
    if len(groups) > MOST_GROUPS:
        more = plural(len(groups) - MOST_GROUPS, "more kind")
        text += f" and {more} (--verbose lists all)"
    return text


def _training_of(net: Network) -> str:
    """Return what was asked of the training, and how long it went on."""
    parts = []
    config = net.config
    if "effort" in config:
        tried = len(config.get("candidates", ()))
        parts.append(f"effort {config['effort']}, {plural(tried, 'candidate')} tried")
    parts += filter(None, [trained_text(net)])
    parts.append(f"seed {net.seed}")
    return ", ".join(parts)


def trained_text(net: Network) -> str:
    """Return the epochs of a training and its last losses; empty before one."""
    judged = "held-out loss"
    if "val_metric" in net.history:
        judged = "validation loss"
    parts = [plural(len(net.history["loss"]), "epoch")]
    for name, losses in (
        ("loss", net.history["loss"]),
        (judged, net.history["val_loss"]),
    ):
        if losses:
            parts.append(f"{name} {losses[-1]:.6g}")
    if len(parts) == 1:
        return ""
    return ", ".join(parts)


def sureness_text(net: Network) -> str:
    """Return up to which level there are intervals of predictions, or sets of
    classes."""
    what = "intervals" if net.task == "regression" else "sets of classes"
    if quantiles_of(net.loss):
        return f"no {what} of predictions beside the quantiles"
    if net.conformal is None:
        return (
            f"no {what} of predictions: no 30 rows judged it, or one of its targets, "
            "or they were not kept"
        )
    return f"{what} of predictions up to level {net.conformal.levels[-1]:.4g}"


def _size_of(net: Network, size: int | None) -> str:
    parameters = sum(member.parameter_count for member in net.members)
    text = f"{parameters:,} parameters"
    if size is not None:
        text += f", {size:,} bytes"
    return text
