"""Tables on stdout. First what draws them, then those of results and models."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from ..nn_aux import METRICS
from ..utils import LONGEST_MESSAGE, axis_texts, cut_line, listed, printable, show
from .figures import (
    candidates_of,
    class_lines,
    comparison_lines,
    confused_pairs,
    count_text,
    disagreeing_texts,
    ends_text,
    facts_of,
    importance_lines,
    layer_lines,
    members_of,
    metric_lines,
    number_text,
    rate_text,
    setting_text,
    shape_text,
    short_text,
    target_lines,
)

LEAST_CELL = 60  # characters that a cell of a wide table may have


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    left: int = 1,
) -> None:
    """Print a table whose lines are not too long; the first `left` columns (words) are
    left-aligned, the others (numbers) right-aligned."""
    most = max(LEAST_CELL, LONGEST_MESSAGE // len(headers))
    lines = [[cut_line(cell, most) for cell in line] for line in (headers, *rows)]
    if not any(headers):
        lines = lines[1:]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        print(cut_line(title))
    for line in lines:
        places = enumerate(zip(line, widths, strict=True))
        print(
            "  ".join(
                f"{text:{'<' if k < left else '>'}{width}}"
                for k, (text, width) in places
            ).rstrip()
        )
    print()


def facts(pairs: dict[str, str], title: str = "") -> None:
    table(["", ""], list(pairs.items()), title, left=2)


# ---------------------------------------------------------------- results

RATE_LABELS = {
    name: metric.label
    for name, metric in METRICS.items()
    if "binary" in metric.of and "series" not in metric.of.values()
}
NUMBERS = {
    name: metric.label
    for name, metric in METRICS.items()
    if "regression" in metric.of and "series" not in metric.of.values()
}
SERIES = {
    name: metric.label
    for name, metric in METRICS.items()
    if "series" in metric.of.values()
}
INTERVAL = "95 % interval"
MOST_TOLD_CLASSES = 5  # of a test, unless --verbose: it fits 25 lines


def training_report(result: dict, verbose: bool = False) -> None:
    """Print the outcome of a training, how good it is, and what to do next. verbose:
    what was chosen, too."""
    if "calibration" in result:
        calibration = result["calibration"]
        pairs = [
            f"{RATE_LABELS[name]} {' -> '.join(map(rate_text, calibration[name]))}"
            for name in ("log_loss", "brier")
        ]
        show(f"temperature {calibration['temperature']:.4g}: {', '.join(pairs)}")
    if "threshold" in result:
        show(f"threshold {result['threshold']:.6g}")
    if "folds" in result:
        _folds_report(result)
    if verbose:
        for chosen in result.get("chosen", ()):
            show(f"weight {chosen['weight']}: {chosen['flags']}")
    count = result.get("networks")
    if count is None:
        networks = ""
    else:
        networks = f"{count} network{'s' if count > 1 else ''}, "
    about = f"{result.get('model', 'no --model')}: {networks}{result['parameters']:,} parameters"
    if "effort" in result:
        chosen = f"{len(result['chosen'])} of {result['tried']} candidates"
        show(
            f"{about} in {result['seconds']:.2f} s, effort {result['effort']}: {chosen}"
        )
        if "retrained" in result:
            rows = result["retrained"]["rows"]
            show(
                f"networks trained once more on all {rows:,} rows; the figures are those of before, in order of time"
            )
    else:
        show(
            f"{about}, {_epochs(result)} in {result['seconds']:.2f} s ({result['us_per_batch']:.1f} us a batch)"
        )
    show(_how_good(result))
    show(f"next: {_next_step(result)}")


def _epochs(result: dict) -> str:
    """Return how many epochs there were, and how many were asked for where there were
    fewer."""
    run = result["epochs_run"]
    asked = result["epochs"]
    if run == asked:
        return f"{run} epochs"
    return f"{run} of {asked} epochs"


def _how_good(result: dict) -> str:
    """Return the loss, or the figures of what was chosen, beside the loss of the class
    shares or of the mean."""
    if result["classes"] is None:
        same = "the mean"
    else:
        same = "the class shares"
    baseline = result["baseline"]
    if "effort" not in result:
        kind, loss, training = _judged(result)
        line = f"{kind} loss {short_text(loss)}"
        if kind != "training":
            line = f"{line}, training loss {short_text(training)}"
        if baseline is None:
            return line
        return f"{line}; {same} alone would have {short_text(baseline)}"
    if "out_of_fold" in result:
        by = "out_of_fold"
    else:
        by = "validated"
    measured = [
        _with_interval(label, name, result[by])
        for name, label in OF_EFFORT.items()
        if name in result[by]
    ]
    line = f"{by.replace('_', ' ')}: {', '.join(measured)}"
    by_target = [
        f"{row['target']} {short_text(row['r2'])}"
        for row in result[by].get("per_target", ())
    ]
    if by_target:
        line += f"; R2 by target: {', '.join(by_target)}"
    if baseline is None:
        return line
    if result["classes"]:
        beside = f"log loss {short_text(baseline)}"
    else:
        beside = f"RMSE {short_text(math.sqrt(baseline))}"
    return f"{line}; {same} alone would have {beside}"


def _with_interval(label: str, name: str, figures: dict) -> str:
    """Return a metric in three digits, with its 95 % interval where there is one."""
    text = f"{label} {short_text(figures[name])}"
    ends = figures.get("intervals", {}).get(name)
    if ends is None:
        return text
    return f"{text} (95 %: {ends_text(ends, short_text)})"


def _judged(result: dict) -> tuple[str, float, float]:
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
    model = result.get("model")
    if result["learned"] is False:
        return "do what the warning says, and train again"
    kind, loss, training = _judged(result)
    is_apart = (
        loss > FAR_APART * training
        and loss - training > (result["baseline"] or math.inf) / 10
    )
    if is_apart and "effort" not in result:
        if kind == "validation":
            cures = ""
        else:
            cures = "--validation 0.2 --patience 10, "
        return f"the training loss is far below the {kind} loss: try {cures}a larger --weight_decay or more rows"
    if model is None:
        return "the same with --model MODEL keeps the networks"
    name = shlex.quote(model)
    is_text = model.endswith(".m")
    has_rows = (
        result["holdout"] or "folds" in result or "effort" in result
    ) and not is_text
    return f"nn test {name}{'' if has_rows else ' DATA'}, nn predict {name} DATA -o predictions.csv"


OF_EFFORT = {
    name: (RATE_LABELS | NUMBERS)[name]
    for name in ("roc_auc", "pr_auc", "f1", "accuracy", "log_loss", "rmse", "mae", "r2")
}
# times the training loss, from which a network knows its training rows rather than
# their rule
FAR_APART = 3.0
MOST_TRIALS = 8  # in the table, unless --verbose


def trials_report(result: dict, verbose: bool = False) -> None:
    """Print what --vary tried and what became of it: the members before the others,
    then by score; the best ones only, unless verbose. result: the figures of
    `train`."""
    if METRICS[result["monitor"]].higher_is_better:
        sign = -1
    else:
        sign = 1

    def key(trial: dict) -> tuple:
        score = trial["score"]
        return (
            not trial["weight"],
            trial["status"] == "given up",
            score is None,
            sign * (score or 0.0),
        )

    trials = sorted(result["trials"], key=key)
    settings = list(
        dict.fromkeys(name for trial in trials for name in trial["settings"])
    )
    rows = [
        [
            f"{trial['weight']:g}" if trial["weight"] else trial["status"],
            str(trial["seed"]),
            *(setting_text(trial["settings"].get(setting)) for setting in settings),
            str(trial["epochs"]),
            number_text(trial["score"]),
        ]
        for trial in trials[: None if verbose else MOST_TRIALS]
    ]
    title = f"{len(trials)} networks tried{', the best ' + str(len(rows)) if len(rows) < len(trials) else ''}"
    table(["weight", "seed", *settings, "epochs", result["monitor"]], rows, title)


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
        if targets:
            of = "of " + ", ".join(targets)
        else:
            of = ""
        _figures(result, of, [["rows", f"{result['rows']}{_remarks(result)}", ""]])
        headers, lines = target_lines(result)
        if lines:
            table(headers, lines, "by target")
    if "members" in result:
        _members_report(result["members"])


def _folds_report(result: dict) -> None:
    """Print the mean and standard deviation of each figure over the folds."""
    mean = result["mean"]
    std = result["std"]
    labels = {
        name: label
        for name, label in (RATE_LABELS | NUMBERS | SERIES).items()
        if name in mean
    }
    rows = []
    for name, label in labels.items():
        if name in RATE_LABELS:
            shown = rate_text
        else:
            shown = number_text
        rows.append([label, shown(mean[name]), shown(std[name])])
    table(["", "mean", "deviation"], rows, f"{len(result['folds'])} folds")


def _members_report(members: Sequence[dict]) -> None:
    labels = {
        name: label
        for name, label in (RATE_LABELS | NUMBERS).items()
        if name in members[0]
    }
    weighted = len({own.get("weight") for own in members}) > 1
    rows = [
        [
            str(number),
            *([f"{own['weight']:g}"] if weighted else []),
            *(
                number_text(own[name]) if name in NUMBERS else rate_text(own[name])
                for name in labels
            ),
        ]
        for number, own in enumerate(members)
    ]
    table(["member", *(["weight"] if weighted else []), *labels.values()], rows)


def _figures(
    result: dict, title: str = "", first: Sequence[Sequence[str]] = ()
) -> None:
    """Print the metrics one a line, with their intervals if there are any. first: lines
    above."""
    shown = 2 + ("intervals" in result)
    lines = [line[:shown] for line in (*first, *metric_lines(result))]
    table(["", "", INTERVAL][:shown], lines, title, left=3)


def _binary_report(result, classes):
    negative, positive = classes
    table(
        ["", f"predicted {negative}", f"predicted {positive}"],
        [
            [
                f"true {negative}",
                f"{count_text(result['tn'])} TN",
                f"{count_text(result['fp'])} FP",
            ],
            [
                f"true {positive}",
                f"{count_text(result['fn'])} FN",
                f"{count_text(result['tp'])} TP",
            ],
        ],
        title=f"{_rows(result)}, class {positive} from a score of {result['threshold']:g}",
    )
    _figures(result)


def _multiclass_report(result, verbose: bool):
    per_class = result["per_class"]
    names = [row["class"] for row in per_class]
    if verbose or len(names) <= MOST_TOLD_CLASSES:
        lines = [
            [name, *map(count_text, counts)]
            for name, counts in zip(names, result["confusion"], strict=True)
        ]
        table(["true \\ predicted", *names], lines, title=_rows(result))
    else:
        lines = confused_pairs(result, MOST_TOLD_CLASSES)
        table(
            ["true", "predicted", "rows", "of the class"],
            lines,
            f"{_rows(result)}; the most frequent errors",
            2,
        )
        per_class = sorted(per_class, key=lambda row: row["f1"])[:MOST_TOLD_CLASSES]
    if len(per_class) == len(names):
        title = ""
    else:
        title = f"the weakest of {len(names)} classes (all with --verbose)"
    table(["class", "precision", "recall", "F1", "rows"], class_lines(per_class), title)
    _figures(result)


def _rows(result) -> str:
    return f"{result['rows']} rows{_remarks(result)}"


def _remarks(result) -> str:
    told = ""
    if result.get("weighted"):
        told += ", weighted"
    if result.get("out_of_fold"):
        told += ", out of fold (each judged by one fold's networks, new rows by all)"
    return told


STEPS_OF_NO_LAYER = {
    "gather": "rows gathered",
    "loss": "loss",
    "communication": "communication",
    "update": "update",
    "end": "rest",
}


def profile_report(result: dict) -> None:
    rows = [
        [
            str(number),
            layer["layer"],
            *(_ms(layer[f"{step}_ms"]) for step in ("forward", "backward", "update")),
            f"{layer['share']:.1%}",
            *(
                "" if rate is None else f"{rate:.1f}"
                for rate in (layer["gflops_forward"], layer["gflops_backward"])
            ),
        ]
        for number, layer in enumerate(result["layers"])
    ]
    for name, words in STEPS_OF_NO_LAYER.items():
        ms = result.get(f"{name}_ms")
        if ms:
            rows.append(
                ["", words, "", "", "", f"{ms / result['batch_ms']:.1%}", "", ""]
            )
    rows.append(["", "batch", _ms(result["batch_ms"]), "", "", "", "", ""])
    headers = [
        "",
        "layer",
        "forward ms",
        "backward ms",
        "update ms",
        "share",
        "GFLOP/s forward",
        "backward",
    ]
    table(
        headers,
        rows,
        f"median of {result['batches']} batches of {result['rows']} rows",
        left=2,
    )


def _ms(value: float) -> str:
    if value:
        return f"{value:.4f}"
    return ""


def model_report(net, model: str) -> None:
    data = net.dataset or {}
    columns = {"inputs": listed(net.columns or [], 8), **_columns_of(net.encoding)}
    files = {"data": data.get("path") or "", "sha256": data.get("sha256") or ""}
    facts(
        {
            name: value
            for name, value in {
                "model": model,
                **facts_of(net),
                **columns,
                **files,
            }.items()
            if value
        }
    )
    for title, (headers, rows) in (
        ("what was tried", candidates_of(net)),
        ("members", members_of(net)),
    ):
        if rows:
            table(headers, rows, title)
    config = {
        name: value
        for name, value in sorted(net.config.items())
        if name != "candidates"
    }
    if config:
        facts(
            {
                name: "" if value is None else str(value)
                for name, value in config.items()
            },
            "config",
        )


def _columns_of(encoding) -> dict[str, str]:
    """Return the columns of each kind, and the inputs that they become."""
    if encoding is None:
        return {}
    kinds = {kind: listed(columns, 12) for kind, columns in encoding.by_kind().items()}
    inputs = sum(column.outputs for column in encoding.columns)
    return {**kinds, "encoded": f"{encoding.features} columns become {inputs} inputs"}


def network_table(layers, title: str = "") -> None:
    """Print each layer of a network with its output shape and parameters, and their
    total."""
    rows = [["", "input", "", shape_text(layers[0].in_shape), "0"]]
    rows += [[str(number), *line] for number, line in enumerate(layer_lines(layers))]
    rows.append(["", "total", "", "", f"{sum(layer.parameters for layer in layers):,}"])
    table(
        ["", "layer", "activation", "output shape", "parameters"], rows, title, left=3
    )


# ---------------------------------------------------------------- explanations

MOST_IMPORTANCE_ROWS = 12  # of importance


def importance_report(found: dict, curves: dict, net) -> None:
    """Print the importance of columns with bars, how scores go with the first ones, and
    which columns go together."""
    name = {**RATE_LABELS, **NUMBERS}.get(found["metric"], found["metric"])
    title = f"{name} {number_text(found['baseline'])}; what it loses without a column"
    lines = importance_lines(found)
    table(["column", "", "lost", INTERVAL], lines[:MOST_IMPORTANCE_ROWS], title, 2)
    if len(lines) > MOST_IMPORTANCE_ROWS:
        print(
            f"{len(lines) - MOST_IMPORTANCE_ROWS} more columns: at most {lines[MOST_IMPORTANCE_ROWS][2]} each"
        )
    if net.classes:
        of = net.classes[-1]
    else:
        of = "the value"
    for column, points in curves.items():
        if net.outputs == 1 and points:
            if isinstance(points[0][0], float):
                told = [points[0], points[-1]]
            else:
                told = points[:4]
            print(
                f"{cut_line(column, 80)}: {cut_line(of, 80)} "
                + ", ".join(_point_texts(told))
            )
    for one, other, r in found["correlated"][:3]:
        one = cut_line(one, 80)
        other = cut_line(other, 80)
        print(
            f"correlation {r:.2f} of {one} and {other}: see both, --group_columns '{one}+{other}'"
        )


def _point_texts(points: list[tuple]) -> list[str]:
    """Return what is said of points of a curve: a score at a number or a word."""
    scores = axis_texts([scores[0] for _, scores in points], 3)
    places = axis_texts([value for value, _ in points if isinstance(value, float)], 6)
    if len(places) < len(points):
        places = [cut_line(value or "(missing)", 80) for value, _ in points]
    return [f"{score} at {place}" for score, place in zip(scores, places, strict=True)]


def comparison_report(found: dict) -> None:
    """Print the metrics of two models side by side, the rows on which they differ most,
    and the verdict."""
    one, other = found["models"]
    rows = comparison_lines(found)
    table(["", one, other, "difference", INTERVAL], rows, f"{found['rows']} rows")
    for row in found["disagree"]:
        texts = disagreeing_texts(row, found["models"])
        said = ", ".join(
            f"{name} {text}" for name, text in zip(found["models"], texts, strict=True)
        )
        print(printable(f"row {row['row']}, true {row['true']}: {said}"))
    print(printable(found["verdict"]))
