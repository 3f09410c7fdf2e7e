"""Tables on stdout. First what draws them, then those of results and models."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence

from ..card import card_of
from ..layers import Layer
from ..nn import Network
from ..nn_aux import METRICS, METRICS_OF_LOSSES, constant_told, loss_of, metrics_told
from ..utils import (
    LONGEST_MESSAGE,
    axis_texts,
    cut_line,
    listed,
    plural,
    printable,
    show,
    target_text,
)
from .figures import (
    bytes_text,
    class_lines,
    comparison_lines,
    confused_pairs,
    count_text,
    disagreeing_texts,
    ends_text,
    importance_lines,
    layer_lines,
    metric_lines,
    number_text,
    rate_text,
    setting_text,
    shape_text,
    short_text,
    sureness_text,
    target_lines,
    threshold_text,
    true_text,
)
from .network_facts import candidates_of, facts_of, layers_of, members_of

LEAST_CELL = 60  # characters that a cell of a wide table may have


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    left: int = 1,
) -> None:
    """Print a table whose lines are not too long; the first `left` columns (words) are
    left-aligned, the others (numbers) right-aligned."""
    longest = max(LEAST_CELL, LONGEST_MESSAGE // len(headers))
    lines = [[cut_line(cell, longest) for cell in line] for line in (headers, *rows)]
    if not any(headers):
        lines = lines[1:]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        print(cut_line(title))
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        for k in range(left, len(cells)):
            cells[k] = line[k].rjust(widths[k])
        print("  ".join(cells).rstrip())
    print()


def facts(pairs: dict[str, str], title: str = "") -> None:
    """Print names and texts, a pair a line."""
    table(["", ""], list(pairs.items()), title, left=2)


# ---------------------------------------------------------------- results


def _labels(task: str) -> dict[str, str]:
    """Return the names and labels of the metrics of a task that are no series."""
    return {
        name: metric.label
        for name, metric in METRICS.items()
        if metric.of.get(task, "series") != "series"
    }


RATE_LABELS = _labels("binary") | _labels("multilabel")
NUMBERS = _labels("regression")
SERIES = {
    name: metric.label
    for name, metric in METRICS.items()
    if "series" in metric.of.values()
}
INTERVAL = "95 % interval"
MOST_LISTED_CLASSES = 5  # of a test, unless --verbose: it fits 25 lines


def training_report(
    result: dict, loss: str, verbose: bool = False, in_time: bool = False
) -> None:
    """Print the outcome of a training by a loss, how good it is, and what to do next.
    verbose: what was chosen, too. in_time: rows were divided by their time."""
    if "calibration" in result:
        calibration = result["calibration"]
        changes = []
        for name in ("log_loss", "brier"):
            change = " -> ".join(map(rate_text, calibration[name]))
            changes.append(f"{RATE_LABELS[name]} {change}")
        show(f"temperature {calibration['temperature']:.4g}: {', '.join(changes)}")
    if "threshold" in result:
        show(f"threshold {threshold_text(result['threshold'])}")
    if "folds" in result:
        _folds_report(result, in_time)
    if verbose:
        for chosen in result.get("chosen", ()):
            show(f"weight {chosen['weight']}: {chosen['flags']}")
    about = f"{result.get('model', 'no --model')}: "
    if result.get("networks") is not None:
        about += f"{plural(result['networks'], 'network')}, "
    about += f"{result['parameters']:,} parameters"
    seconds = f"{result['seconds']:.2f} s"
    if "effort" in result:
        chosen = f"{len(result['chosen'])} of {result['tried']} candidates"
        show(f"{about} in {seconds}, effort {result['effort']}: {chosen}")
    else:
        batch = f"{result['us_per_batch']:.1f} us a batch"
        show(f"{about}, {_epochs(result)} in {seconds} ({batch})")
    if "retrained" in result:
        rows = result["retrained"]["rows"]
        show(
            f"networks trained once more on all {rows:,} rows; the figures are those of before, in order of time"
        )
    show(_how_good(result, loss))
    show(f"next: {_next_step(result)}")


def _epochs(result: dict) -> str:
    """Return how many epochs there were, and how many were asked for where there were
    fewer."""
    run = result["epochs_run"]
    asked = result["epochs"]
    if run == asked:
        return plural(run, "epoch")
    return f"{run} of {asked} epochs"


def _how_good(result: dict, loss: str) -> str:
    """Return the loss, or the figures of what was chosen, beside the loss of the class
    shares or of the mean."""
    if "effort" in result:
        line = _figures_of_effort(result)
    else:
        rows, own, training = _judging_losses(result)
        line = f"{rows} loss {short_text(own)}"
        if rows != "training":
            line = f"{line}, training loss {short_text(training)}"
    baseline = result["baseline"]
    if baseline is None:
        return line
    if "effort" in result:
        of_constant = _effort_baseline(result, baseline, loss)
    else:
        of_constant = short_text(baseline)
    return f"{line}; {constant_told(loss, result)} alone would have {of_constant}"


def _effort_baseline(result: dict, baseline: float, loss: str) -> str:
    """Return the baseline of --effort by a loss, in the unit of the target."""
    of_loss = loss_of(loss).metric
    if of_loss:
        return f"{METRICS[of_loss].label} {short_text(baseline)}"
    if result["classes"] or "labels" in result:
        return f"log loss {short_text(baseline)}"
    return f"RMSE {short_text(math.sqrt(baseline))}"


def _figures_of_effort(result: dict) -> str:
    """Return the figures by which --effort chose: of rows out of fold, or of the
    validation rows."""
    if "out_of_fold" in result:
        rows = "out of fold"
        figures = result["out_of_fold"]
    else:
        rows = "validated"
        figures = result["validated"]
    told = metrics_told(figures)
    texts = [
        _with_interval(label, name, figures)
        for name, label in OF_EFFORT.items()
        if name in told
    ]
    line = f"{rows}: {', '.join(texts)}"
    by_target = figures.get("per_target", ())
    if by_target:
        of_target = metrics_told(by_target[0])
        name = next(name for name in TOLD_OF_TARGETS if name in of_target)
        targets = [f"{row['target']} {short_text(row[name])}" for row in by_target]
        line += f"; {METRICS[name].label} by target: {', '.join(targets)}"
    return line


def _with_interval(label: str, name: str, figures: dict) -> str:
    """Return a metric in three digits, with its 95 % interval where there is one."""
    text = f"{label} {short_text(figures[name])}"
    ends = figures.get("intervals", {}).get(name)
    if ends is None:
        return text
    return f"{text} (95 %: {ends_text(ends, short_text)})"


def _judging_losses(result: dict) -> tuple[str, float, float]:
    """Return (which rows judge the network, their loss, the training loss): those of
    the best epoch, else the last."""
    if not result["val_loss"]:
        return "training", result["loss"][-1], result["loss"][-1]
    if "monitor" in result:
        kind = "validation"
    elif "folds" in result:
        kind = "out-of-fold"
    else:
        kind = "held-out"
    at = (result.get("best_epoch") or len(result["val_loss"])) - 1
    return kind, result["val_loss"][at], result["loss"][at]


def _next_step(result: dict) -> str:
    """Return what to do with a network: use it, or first train it better."""
    if result["learned"] is False:
        return "do what the warning says, and train again"
    rows, loss, training = _judging_losses(result)
    least = (result["baseline"] or math.inf) / 10
    is_apart = loss > FAR_APART * training and loss - training > least
    if is_apart and "effort" not in result:
        cures = "a larger --weight_decay or more rows"
        if rows != "validation":
            cures = f"--validation 0.2 --patience 10, {cures}"
        return f"the training loss is far below the {rows} loss: try {cures}"
    model = result.get("model")
    if model is None:
        return "the same with --model MODEL keeps the networks"
    name = shlex.quote(model)
    test = f"nn test {name}"
    # a text model does not know which rows it was trained on
    has_rows = result["holdout"] or "folds" in result or "effort" in result
    if not has_rows or model.endswith(".m"):
        test += " DATA"
    return f"{test}, nn predict {name} DATA -o predictions.csv"


# of each target in the last line of a training, the first that it has
TOLD_OF_TARGETS = ("roc_auc", "below", "r2")
OF_EFFORT = {
    name: (RATE_LABELS | NUMBERS)[name]
    for name in (
        "roc_auc",
        "pr_auc",
        "f1",
        "accuracy",
        "log_loss",
        *METRICS_OF_LOSSES,
        "below",
        "rmse",
        "mae",
        "r2",
    )
}
# times the training loss, from which a network knows its training rows rather than
# their rule
FAR_APART = 3.0
MOST_TRIALS = 8  # in the table, unless --verbose


def trials_report(result: dict, verbose: bool = False) -> None:
    """Print what --vary tried and what became of it: the members before the others,
    then by score; the best ones only, unless verbose. result: the figures of
    `train`."""
    monitor = result["monitor"]
    sign = 1
    if METRICS[monitor].higher_is_better:
        sign = -1

    def key(trial: dict) -> tuple:
        score = trial["score"]
        is_given_up = trial["status"] == "given up"
        return not trial["weight"], is_given_up, score is None, sign * (score or 0.0)

    trials = sorted(result["trials"], key=key)
    title = f"{len(trials)} networks tried"
    names = list(dict.fromkeys(name for trial in trials for name in trial["settings"]))
    if not verbose and len(trials) > MOST_TRIALS:
        trials = trials[:MOST_TRIALS]
        title += f", the best {MOST_TRIALS}"
    rows = []
    for trial in trials:
        outcome = trial["status"]
        if trial["weight"]:
            outcome = f"{trial['weight']:g}"
        settings = [setting_text(trial["settings"].get(name)) for name in names]
        score = number_text(trial["score"])
        rows.append(
            [outcome, str(trial["seed"]), *settings, str(trial["epochs"]), score]
        )
    table(["weight", "seed", *names, "epochs", monitor], rows, title)


def test_report(
    result: dict,
    classes: Sequence[str] | None,
    targets: Sequence[str] | None,
    verbose=False,
) -> None:
    """Print the figures of `test` as tables. verbose: of many classes all, not only the
    errors that matter most."""
    if "confusion" in result:
        _multiclass_report(result, verbose)
    elif "tp" in result:
        _binary_report(result, classes or ["0", "1"])
    else:
        title = ""
        if targets:
            title = f"of {', '.join(targets)}"
        _figures(result, title, [["rows", f"{result['rows']}{_remarks(result)}", ""]])
        _targets_report(result)
    text = sureness_text(result)
    if text:
        print(text)
    if "members" in result:
        _members_report(result["members"])


def _targets_report(result: dict) -> None:
    """Print the figures of each of several targets: in a line, or with their intervals
    a table for each."""
    targets = result.get("per_target", ())
    if not targets or "intervals" not in targets[0]:
        headers, lines = target_lines(result)
        if lines:
            table(headers, lines, "by target")
        return
    for target in targets:
        _figures(target, f"of {target['target']}")
    for target in targets:
        text = sureness_text(target)
        if text:
            print(f"{target['target']}: {text}")


def _folds_report(result: dict, in_time: bool = False) -> None:
    """Print the mean and standard deviation of each figure over the folds; of folds in
    time, what their networks know."""
    rows = []
    told = metrics_told(result["mean"])
    for name, label in (RATE_LABELS | NUMBERS | SERIES).items():
        if name in told:
            mean = _figure(name, result["mean"])
            rows.append([label, mean, _figure(name, result["std"])])
    title = f"{len(result['folds'])} folds"
    if in_time:
        title += " in time: each network knows only the rows before its fold"
    table(["", "mean", "deviation"], rows, title)


def _figure(name: str, figures: dict) -> str:
    """Return a figure of a test: a rate, or a number."""
    if name in RATE_LABELS:
        return rate_text(figures[name])
    return number_text(figures[name])


def _members_report(members: Sequence[dict]) -> None:
    """Print the figures of each member, and its weight where the weights differ."""
    told = metrics_told(members[0])
    labels = {
        name: label for name, label in (RATE_LABELS | NUMBERS).items() if name in told
    }
    headers = ["member", *labels.values()]
    rows = []
    for number, figures in enumerate(members):
        rows.append([str(number), *(_figure(name, figures) for name in labels)])
    if len({figures.get("weight") for figures in members}) > 1:
        headers.insert(1, "weight")
        for row, figures in zip(rows, members, strict=True):
            row.insert(1, f"{figures['weight']:g}")
    table(headers, rows)


def _figures(
    result: dict, title: str = "", facts: Sequence[Sequence[str]] = ()
) -> None:
    """Print the metrics one a line, with their intervals if there are any. facts: lines
    above."""
    columns = 2
    if "intervals" in result:
        columns = 3
    lines = [line[:columns] for line in (*facts, *metric_lines(result))]
    table(["", "", INTERVAL][:columns], lines, title, left=3)


def _binary_report(result: dict, classes: Sequence[str]) -> None:
    """Print the confusion matrix of two classes, and the metrics."""
    negative, positive = classes
    counts = {key: count_text(result[key]) for key in ("tn", "fp", "fn", "tp")}
    table(
        ["", f"predicted {negative}", f"predicted {positive}"],
        [
            [f"true {negative}", f"{counts['tn']} TN", f"{counts['fp']} FP"],
            [f"true {positive}", f"{counts['fn']} FN", f"{counts['tp']} TP"],
        ],
        f"{_rows(result)}, class {positive} from a score of {result['threshold']:g}",
    )
    _figures(result)


def _multiclass_report(result: dict, verbose: bool) -> None:
    """Print the confusion matrix of several classes, each class and the metrics; of
    many classes the errors and the classes that matter most."""
    classes = result["per_class"]
    headers = ["class", "precision", "recall", "F1", "rows"]
    if verbose or len(classes) <= MOST_LISTED_CLASSES:
        names = [row["class"] for row in classes]
        lines = [
            [name, *map(count_text, counts)]
            for name, counts in zip(names, result["confusion"], strict=True)
        ]
        table(["true \\ predicted", *names], lines, _rows(result))
        table(headers, class_lines(classes))
    else:
        title = f"{_rows(result)}; the most frequent errors"
        pairs = confused_pairs(result, MOST_LISTED_CLASSES)
        table(["true", "predicted", "rows", "of the class"], pairs, title, 2)
        title = f"the weakest of {len(classes)} classes (all with --verbose)"
        weakest = sorted(classes, key=lambda row: row["f1"])[:MOST_LISTED_CLASSES]
        table(headers, class_lines(weakest), title)
    _figures(result)


def _rows(result: dict) -> str:
    return f"{plural(result['rows'], 'row')}{_remarks(result)}"


def _remarks(result: dict) -> str:
    """Return what is to be known of the rows of a test."""
    remarks = ""
    if result.get("weighted"):
        remarks += ", weighted"
    if "exposure" in result:
        remarks += f", by {result['exposure']}"
    if result.get("out_of_fold"):
        remarks += ", out of fold (each judged by one fold's networks, new rows by all)"
    return remarks


STEPS_OF_NO_LAYER = {
    "gather": "rows gathered",
    "loss": "loss",
    "communication": "communication",
    "update": "update",
    "end": "rest",
}


def profile_report(result: dict) -> None:
    """Print the time of each layer and step of a batch."""
    rows = []
    for number, layer in enumerate(result["layers"]):
        times = [_ms(layer[f"{step}_ms"]) for step in ("forward", "backward", "update")]
        rates = []
        for step in ("forward", "backward"):
            rate = layer[f"gflops_{step}"]
            rates.append("" if rate is None else f"{rate:.1f}")
        share = f"{layer['share']:.1%}"
        rows.append([str(number), layer["layer"], *times, share, *rates])
    for name, words in STEPS_OF_NO_LAYER.items():
        ms = result.get(f"{name}_ms")
        if ms:
            share = f"{ms / result['batch_ms']:.1%}"
            rows.append(["", words, "", "", "", share, "", ""])
    rows.append(["", "batch", _ms(result["batch_ms"]), "", "", "", "", ""])
    times = ["forward ms", "backward ms", "update ms"]
    headers = ["", "layer", *times, "share", "GFLOP/s forward", "backward"]
    title = f"median of {result['batches']} batches of {result['rows']} rows"
    table(headers, rows, title, left=2)


def inference_report(result: dict) -> None:
    """Print the time of each layer and step of a call of predict."""
    rows = []
    for number, layer in enumerate(result["layers"]):
        rate = layer["gflops_forward"]
        rates = "" if rate is None else f"{rate:.1f}"
        share = f"{layer['share']:.1%}"
        rows.append(
            [str(number), layer["layer"], _ms(layer["forward_ms"]), share, rates]
        )
    for name in ("gather", "end"):
        ms = result.get(f"{name}_ms")
        if ms:
            share = f"{ms / result['call_ms']:.1%}"
            rows.append(["", STEPS_OF_NO_LAYER[name], _ms(ms), share, ""])
    rows.append(["", "call", _ms(result["call_ms"]), "", ""])
    title = f"median of {result['calls']} calls of {result['rows']} rows"
    table(["", "layer", "ms", "share", "GFLOP/s"], rows, title, left=2)


def _ms(value: float) -> str:
    if value:
        return f"{value:.4f}"
    return ""


def card_report(net: Network, model: str) -> None:
    """Print what a model is, on a screen. model: its file."""
    size = None
    if os.path.isfile(model):
        size = os.path.getsize(model)
    card = card_of(net, size)
    if card.pop("target", None):
        show(target_text(net.targets, net.config.get("target"), is_table=False))
    facts({"model": model, **card})


def model_report(net: Network) -> None:
    """Print the layers of a model, all its facts, what was tried for it, its members
    and its settings."""
    for title, layers in layers_of(net):
        network_table(layers, title)
    data = net.dataset or {}
    pairs = {
        **facts_of(net),
        "inputs": listed(net.columns or [], 8),
        **_columns_of(net.encoding),
        "data": data.get("path") or "",
        "sha256": data.get("sha256") or "",
    }
    facts({name: text for name, text in pairs.items() if text})
    headers, candidates = candidates_of(net)
    if candidates:
        table(headers, candidates, "what was tried")
    headers, members = members_of(net)
    if members:
        table(headers, members, "members")
    config = {
        name: "" if value is None else str(value)
        for name, value in sorted(net.config.items())
        if name != "candidates"
    }
    if config:
        facts(config, "config")


def _columns_of(encoding) -> dict[str, str]:
    """Return the columns of each kind, and the inputs that they become."""
    if encoding is None:
        return {}
    kinds = {kind: listed(columns, 12) for kind, columns in encoding.by_kind().items()}
    return {**kinds, "encoded": encoding.size_text()}


def network_table(layers: Sequence[Layer], title: str = "") -> None:
    """Print each layer of a network with its output shape and parameters, and their
    total."""
    rows = [["", "input", "", shape_text(layers[0].in_shape), "0"]]
    rows += [[str(number), *line] for number, line in enumerate(layer_lines(layers))]
    parameters = sum(layer.parameters for layer in layers)
    rows.append(["", "total", "", "", f"{parameters:,}"])
    headers = ["", "layer", "activation", "output shape", "parameters"]
    table(headers, rows, title, left=3)


def batch_report(layers: Sequence[Layer], batch: dict) -> None:
    """Print the memory and the multiply-adds of a batch, and the largest batch that
    fits --memory."""
    products = batch["multiply_adds"]
    whole = sum(products) or 1
    lines = [
        [str(number), layer.item or layer.kind, f"{count:,}", f"{count / whole:.1%}"]
        for number, (layer, count) in enumerate(zip(layers, products, strict=True))
        if count
    ]
    lines.append(["", "total", f"{sum(products):,}", ""])
    title = f"a batch of {batch['rows']:,} rows forwards; a training step takes up to three times as much"
    table(["", "layer", "multiply-adds", "share"], lines, title, left=2)
    sizes = {
        name.replace("_", " "): bytes_text(size)
        for name, size in batch["bytes"].items()
    }
    sizes["in all"] = bytes_text(sum(batch["bytes"].values()))
    sizes["a training takes"] = (
        f"{bytes_text(batch['training_bytes'])} beside its rows, by {batch['backend']}: the program and all copies too"
    )
    if "memory" in batch:
        largest = batch["largest_batch"]
        if largest:
            fitting = f"{largest:,} rows beside no others"
        else:
            fitting = "none"
        sizes["largest batch"] = f"{fitting}, in {bytes_text(batch['memory'])}"
    facts(sizes, f"memory, {batch['dtype']}, {batch['optimizer']}")


# ---------------------------------------------------------------- explanations

MOST_IMPORTANCE_ROWS = 12  # of importance


def importance_report(importance: dict, curves: dict, net: Network) -> None:
    """Print the importance of columns with bars, how scores go with the first ones, and
    which columns go together."""
    metric = importance["metric"]
    label = (RATE_LABELS | NUMBERS).get(metric, metric)
    baseline = number_text(importance["baseline"])
    lines = importance_lines(importance)
    if METRICS[metric].higher_is_better:
        head = "lost"
        told = "what it loses without a column"
    else:
        head = "grows by"
        told = "how much it grows without a column"
    table(
        ["column", "", head, INTERVAL],
        lines[:MOST_IMPORTANCE_ROWS],
        f"{label} {baseline}; {told}",
        2,
    )
    unlisted = lines[MOST_IMPORTANCE_ROWS:]
    if unlisted:
        print(f"{len(unlisted)} more columns: at most {unlisted[0][2]} each")
    if net.outputs == 1:
        output = "the value"
        if net.classes:
            output = cut_line(net.classes[-1], 80)
        losses = dict(zip(importance["names"], importance["mean"], strict=True))
        for column, points in curves.items():
            if points and losses[column] > 0:  # else the curve is flat
                texts = ", ".join(_point_texts(points))
                print(f"{cut_line(column, 80)}: {output} {texts}")
    for *names, r in importance["correlated"][:3]:
        a, b = [cut_line(name, 80) for name in names]
        print(
            f"correlation {r:.2f} of {a} and {b}: see both, --group_columns '{a}+{b}'"
        )


def _point_texts(points: list[tuple]) -> list[str]:
    """Return a score at each of a few points of a curve: at the ends of numbers, at the
    most frequent words."""
    if isinstance(points[0][0], float):
        points = [points[0], points[-1]]
        places = axis_texts([value for value, _ in points], 6)
    else:
        points = points[:4]
        places = [cut_line(value or "(missing)", 80) for value, _ in points]
    scores = axis_texts([scores[0] for _, scores in points], 3)
    return [f"{score} at {place}" for score, place in zip(scores, places, strict=True)]


def comparison_report(comparison: dict) -> None:
    """Print the metrics of two models side by side, the rows on which they differ most,
    and the verdict."""
    models = comparison["models"]
    rows = comparison_lines(comparison)
    headers = ["", *models, "difference", INTERVAL]
    table(headers, rows, plural(comparison["rows"], "row"))
    for row in comparison["disagree"]:
        texts = disagreeing_texts(row, models)
        pairs = [f"{name} {text}" for name, text in zip(models, texts, strict=True)]
        true = true_text(row, comparison["metrics"])
        line = f"row {row['row']}, true {true}: {', '.join(pairs)}"
        print(printable(line))
    print(printable(comparison["verdict"]))
