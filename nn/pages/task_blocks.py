"""Blocks of a page for each task: the answer in a sentence, tables and pictures of a
test, the groups of rows and the images on which a model errs most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.conformal import by_class
from ..core.metrics import decide, decide_each, placements, without_zeros
from ..core.weighted import at_rows
from ..data.pixels import BYTE
from ..nn import Network
from ..nn_aux import METRICS, METRICS_OF_LOSSES, TASKS, loss_of, metrics_told
from ..settings.values import parse_rule
from ..terminal import figures
from ..terminal.figures import count_text, rate_text
from ..test import errors
from ..test.errors import Curves
from ..test.sureness import Held
from ..test.values import gives_logits
from ..utils import axis_texts, figure_text, listed
from .chart import Axis, Line, Plot
from .page import Block, Table, image_of

MOST_POINTS = 1_500  # of a scatter plot
MOST_PAGE_TARGETS = 3
MOST_CELLS = 30  # classes of a confusion matrix
MOST_BESIDE = 6  # classes of a confusion matrix that is half a page wide
MOST_PAGE_CLASSES = 60
MOST_PAIRS = 12
MISTAKES = 12
ERROR_RANGES = 8
FIFTHS = 5
MOST_PAGE_GROUPS = 8
ENDS = (0.0, 1.0)
LEAST_WHOLE = 1  # rows with all targets, for pictures of numbers


def answer(net: Network, result: dict, about: str) -> str:
    """Return in a sentence, for somebody who did not train it, how good a network is,
    beside what chance gives. result: the metrics of `test`; about: what the rows
    are."""
    rows = f"{result['rows']:,} {about}"
    subject = listed(net.targets or [], 3)
    if subject and "exposure" in result:
        subject += f" by {result['exposure']}"
    if net.task == "binary":
        name = (net.classes or ["0", "1"])[1]
        subject = f"{subject} = {name}" if subject else f"Class {name}"
    sentence = _SENTENCES[net.task](result, rows)
    if not subject:
        return f"{sentence[0].upper()}{sentence[1:]}."
    return f"{subject}: {sentence}."


def _two_classes(result: dict, rows: str) -> str:
    positives = count_text(result["tp"] + result["fn"])
    alarms = count_text(result["tp"] + result["fp"])
    right = count_text(result["tp"])
    total = sum(result[name] for name in ("tp", "fp", "fn", "tn"))
    by_chance = percent_text((result["tp"] + result["fn"]) / total)
    return (
        f"of {positives} such rows among {rows} the model finds {right}"
        f" ({_figure(result, 'recall', percent_text)}); of the {alarms} that it names"
        f" {right} are right ({_figure(result, 'precision', percent_text)}; of rows named"
        f" by chance {by_chance} would be). ROC-AUC {_figure(result, 'roc_auc')}"
    )


def _several_classes(result: dict, rows: str) -> str:
    rows_of_class = np.sum(result["confusion"], axis=1)
    total = rows_of_class.sum()
    right = count_text(np.trace(result["confusion"]).item())
    most = count_text(rows_of_class.max().item())
    return (
        f"of {rows} the model names the right one of {len(rows_of_class)} classes for"
        f" {right} ({_figure(result, 'accuracy', percent_text)}); always naming the most"
        f" frequent one is right for {most}"
        f" ({percent_text(rows_of_class.max() / total)})"
    )


def _several_targets(result: dict, rows: str) -> str:
    return (
        f"of {rows} the model is right about every target of"
        f" {_figure(result, 'accuracy', percent_text)}; of all its answers"
        f" {_figure(result, 'hamming_loss', percent_text)} are wrong. Mean ROC-AUC"
        f" {_figure(result, 'roc_auc')}, mean F1 {_figure(result, 'f1')}"
    )


def _quantiles(result: dict, rows: str) -> str:
    targets = result.get("per_target") or [{**result, "target": "the prediction"}]
    below = [
        f"{percent_text(row['below'])} lie below {row['target']}" for row in targets
    ]
    return f"of {rows} {listed(below)}. Pinball loss {_figure(result, 'pinball')}"


def _numbers(result: dict, rows: str) -> str:
    if "rmse" not in metrics_told(result):
        return _quantiles(result, rows)
    rmse = result["rmse"]
    chance = ""
    if rmse is not None and result["r2"] is not None and result["r2"] < 1:
        by_mean = figure_text(rmse / (1 - result["r2"]) ** 0.5)
        chance = f"; always naming the mean is off by {by_mean}"
    of_loss = [
        f". {METRICS[name].label.capitalize()} {_figure(result, name)}"
        for name in METRICS_OF_LOSSES
        if name in result
    ]
    return (
        f"on {rows} the model is off by {_figure(result, 'mae')} on average, by"
        f" {_figure(result, 'rmse')} as root mean square{chance}. R2"
        f" {_figure(result, 'r2')}{''.join(of_loss)}"
    )


_SENTENCES = {
    "binary": _two_classes,
    "multiclass": _several_classes,
    "multilabel": _several_targets,
    "regression": _numbers,
}


def _figure(result: dict, name: str, shown: Callable = figure_text) -> str:
    """Return a figure with its interval, if there is one."""
    text = shown(result[name])
    ends = result.get("intervals", {}).get(name)
    if not ends:
        return text
    low, high = map(shown, ends)
    if shown is percent_text:
        return f"{text}, {low.removesuffix(' %')} to {high}"
    return f"{text} (95 %: {low} to {high})"


def percent_text(share: float | None) -> str:
    """Return a share as whole per cent, near none and all with more digits."""
    if share is None:
        return "undefined"
    if 0.01 <= share <= 0.99:
        return f"{100 * share:.0f} %"
    return f"{figure_text(100 * share, 3)} %"


# ------------------------------------------------------------------------- two classes


def two_class_blocks(
    net: Network, result: dict, truth, scores, weights, folds=None
) -> list[Block]:
    """Return curves (of rows of both classes), scores and calibration, the threshold
    marked, and a table of thresholds.

    result: the metrics of `test`; truth (rows,) of 0 and 1, scores (rows, 1), weights
    (rows,) or None; folds (rows,): whose networks have scored each row, None: the same
    have scored all.
    """
    scores = scores[:, 0].astype(np.float64)
    classes = net.classes or ["0", "1"]
    counts = [[result["tn"], result["fp"]], [result["fn"], result["tp"]]]
    blocks: list[Block] = [_confusion(classes, counts)]
    if result["roc_auc"] is not None:
        order = scores
        if folds is not None:
            order = placements(truth, scores, folds)
        blocks += _curves(result, errors.cut_off_curves(truth, order, weights))
    blocks.append(_score_picture(result, truth, scores, weights, classes))
    if result["brier"] is not None:
        points = errors.calibration(truth, scores, weights)
        blocks.append(_calibration(points, result["brier"], f"class {classes[1]}"))
    costs: Sequence[float] = ()
    rule = net.config.get("threshold")
    if isinstance(rule, str):
        name, numbers = parse_rule(rule)
        if name == "cost":
            costs = numbers
    blocks.append(threshold_table(result, truth, scores, weights, costs))
    return blocks


def threshold_table(
    result: dict, truth, scores, weights, costs: Sequence[float] = ()
) -> Table:
    """Return what thresholds give, the test's marked. costs: of a false alarm and of a
    missed row, which add a column."""
    used = result["threshold"]
    headers = ["threshold", "precision", "recall", "F1", "alarms per 1,000 rows"]
    if costs:
        headers.append("cost")
    lines = []
    for row in errors.at_thresholds(truth, scores, weights, used, costs):
        threshold = f"{row.threshold:.4g}"
        if row.threshold == used:
            threshold += " (used)"
        rates = [rate_text(rate) for rate in (row.precision, row.recall, row.f1)]
        line = [threshold, *rates, f"{row.alarms:.1f}"]
        if row.cost is not None:
            line.append(f"{row.cost:g}")
        lines.append(line)
    return Table("thresholds", headers, lines, 0)


def _confusion(names: Sequence[str], counts) -> Table:
    """Return a confusion matrix as a heat map; cells without rows are empty."""
    heads = list(names)
    if len(names) > MOST_BESIDE:
        heads = [str(number) for number in range(1, len(names) + 1)]
        names = [f"{number} {name}" for number, name in zip(heads, names, strict=True)]
    lines = []
    shades = []
    for name, row in zip(names, counts, strict=True):
        cells = [count_text(count) if count else "" for count in row]
        lines.append([name, *cells])
        total = max(sum(row), 1e-300)
        shades.append([count / total for count in row])
    return Table(
        "rows of each true class by predicted class; a stronger colour is more of the true class",
        ["true \\ predicted", *heads],
        lines,
        shades=shades,
        is_wide=len(names) > MOST_BESIDE,
    )


def _curves(result: dict, curves: Curves) -> list[Plot]:
    """Return precision and recall, and the ROC curve; the threshold is marked."""
    threshold = f"threshold {result['threshold']:.4g}"
    false_alarms = result["fp"] / (result["fp"] + result["tn"])
    precision_recall = [
        Line(f"area {result['pr_auc']:.4f}", curves.recall, curves.precision, "steps"),
        Line(f"by chance {curves.share:.3g}", ENDS, [curves.share] * 2, "rule"),
        Line(threshold, [result["recall"]], [result["precision"]], "mark"),
    ]
    roc = [
        Line(f"area {result['roc_auc']:.4f}", curves.false_alarms, curves.recall),
        Line("by chance", ENDS, ENDS, "rule"),
        Line(threshold, [false_alarms], [result["recall"]], "mark"),
    ]
    return [
        Plot(
            "precision-recall",
            "Precision and recall",
            Axis("recall", ends=ENDS),
            Axis("precision", ends=ENDS),
            precision_recall,
        ),
        Plot(
            "roc",
            "ROC curve",
            Axis("false positive rate", ends=ENDS),
            Axis("true positive rate (recall)", ends=ENDS),
            roc,
        ),
    ]


def _score_picture(result: dict, truth, scores, weights, classes) -> Plot:
    """Return the scores of the rows of each class, the threshold marked."""
    edges, shares = errors.score_shares(truth, scores, weights)
    lines = [
        Line(f"class {classes[label]}", edges, heights, "area")
        for label, heights in shares.items()
    ]
    heights = np.concatenate([*shares.values()])
    ends = float(heights[heights > 0].min() / 2), 1.0
    threshold = result["threshold"]
    lines.append(Line(f"threshold {threshold:.4g}", [threshold] * 2, ends, "rule"))
    x = Axis("score", ends=errors.score_ends(scores))
    y = Axis("share of the class's rows", True, ends)
    return Plot("scores", "Scores by class", x, y, lines)


def _calibration(points, brier: float, meaning: str) -> Plot:
    """Return the picture of (scores, shares) of `calibration`. meaning: what a score is
    that of."""
    lines = [
        Line("tenths of the score", *points),
        Line("calibrated", ENDS, ENDS, "rule"),
    ]
    x = Axis(f"score of {meaning}", ends=ENDS)
    y = Axis("share of the rows that are it", ends=ENDS)
    return Plot("calibration", f"Calibration (Brier score {brier:.4g})", x, y, lines)


# --------------------------------------------------------------------- several classes


def class_blocks(net: Network, result: dict, truth, scores, weights) -> list[Block]:
    """Return the confusion matrix as a heat map, the most confused pairs, each class,
    and calibration."""
    classes = result["per_class"]
    blocks: list[Block] = []
    if len(classes) <= MOST_CELLS:
        names = [row["class"] for row in classes]
        blocks.append(_confusion(names, result["confusion"]))
    pairs = figures.confused_pairs(result, MOST_PAIRS)
    if pairs:
        headers = ["true", "predicted", "rows", "of the class"]
        blocks.append(Table("most confused", headers, pairs, 2))
    largest = sorted(classes, key=lambda row: -row["support"])[:MOST_PAGE_CLASSES]
    title = "classes"
    if len(largest) < len(classes):
        title = f"the {MOST_PAGE_CLASSES} largest of {len(classes)} classes"
    headers = ["class", "precision", "recall", "F1", "rows"]
    blocks.append(Table(title, headers, figures.class_lines(largest)))
    if result["brier"] is not None:
        is_right = decide(scores) == truth
        highest = scores.max(axis=1).astype(np.float64)
        points = errors.calibration(is_right, highest, weights)
        blocks.append(_calibration(points, result["brier"], "the predicted class"))
    return blocks


# ----------------------------------------------------- several targets of two classes


def label_blocks(
    net: Network, result: dict, truth, scores, weights, folds=None
) -> list[Block]:
    """Return the ROC curve, and calibration, of each of the first targets; folds as
    two_class_blocks has them."""
    names = _names_of_targets(net)
    roc = []
    calibrated = []
    for k, name in enumerate(names):
        rows = np.flatnonzero(~np.isnan(truth[:, k]))
        of_target = truth[rows, k].astype(np.int64)
        scores_of_label = scores[rows, k].astype(np.float64)
        weights_of_label = at_rows(weights, rows)
        figures_of_target = result["per_target"][k]
        if figures_of_target["roc_auc"] is not None:
            order = scores_of_label
            if folds is not None:
                order = placements(of_target, scores_of_label, folds[rows])
            curves = errors.cut_off_curves(of_target, order, weights_of_label)
            label = f"{name}: area {figures_of_target['roc_auc']:.4f}"
            roc.append(Line(label, curves.false_alarms, curves.recall))
        if figures_of_target["brier"] is not None:
            points = errors.calibration(of_target, scores_of_label, weights_of_label)
            label = f"{name}: Brier score {figures_of_target['brier']:.4g}"
            calibrated.append(Line(label, *points))
    pictures = [
        (
            "roc",
            "ROC curves",
            roc,
            "false positive rate",
            "true positive rate (recall)",
        ),
        ("calibration", "Calibration", calibrated, "score", "share that is positive"),
    ]
    return [
        Plot(
            picture,
            title,
            Axis(x, ends=ENDS),
            Axis(y, ends=ENDS),
            [
                *lines,
                Line("by chance" if lines is roc else "calibrated", ENDS, ENDS, "rule"),
            ],
        )
        for picture, title, lines, x, y in pictures
        if lines
    ]


# ----------------------------------------------------------------------------- numbers


def number_blocks(net: Network, result: dict, truth, scores, weights) -> list[Block]:
    """Return predicted against true values, the errors, and the errors by range of the
    prediction."""
    weights, truth, scores = without_zeros(weights, truth, scores)
    whole = np.flatnonzero(~np.isnan(truth).any(axis=1))
    if len(whole) < LEAST_WHOLE:
        return [f"No pictures: fewer than {LEAST_WHOLE} rows have all targets."]
    weights = at_rows(weights, whole)
    truth = truth[whole]
    scores = scores[whole]
    predicted = scores.astype(np.float64)
    differences = predicted - truth
    names = _names_of_targets(net)
    blocks: list[Block] = [_predicted_against_true(truth, predicted, names)]
    own = loss_of(net.loss).metric
    are_quantiles = own is not None and METRICS[own].is_alone
    if not are_quantiles:
        blocks.append(_error_picture(differences, weights, names))
    by_range = _coverage if are_quantiles else _residuals
    for k, name in enumerate(names):
        blocks.append(by_range(predicted[:, k], differences[:, k], weights, name))
    return blocks


def _names_of_targets(net: Network) -> list[str]:
    names = net.values or [f"output {i}" for i in range(net.outputs)]
    return names[:MOST_PAGE_TARGETS]


def _predicted_against_true(truth, predicted, names: Sequence[str]) -> Plot:
    """Return a dot for each row and target; of many rows every second one, every third
    one, ..."""
    every = -(-len(truth) // MOST_POINTS)
    lines = [
        Line(name, truth[::every, k], predicted[::every, k], "dots")
        for k, name in enumerate(names)
    ]
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    lines.append(Line("perfect prediction", ends, ends, "rule"))
    x = Axis("true value (unit of the target)")
    y = Axis("predicted value (unit of the target)")
    return Plot("predicted", "Predicted against true", x, y, lines)


def _error_picture(differences, weights, names: Sequence[str]) -> Plot:
    """Return the distribution of the errors of each target."""
    bins = min(60, max(10, int(len(differences) ** 0.5)))
    edges = np.histogram_bin_edges(differences, bins=bins)
    lines = []
    for k, name in enumerate(names):
        mean, deviation = errors.mean_and_deviation(differences[:, k], weights)
        label = f"{name}: mean {_digits(mean, 3)}, deviation {_digits(deviation, 3)}"
        heights, _ = np.histogram(differences[:, k], edges, weights=weights)
        lines.append(Line(label, edges, heights, "area"))
    most = max(max(line.y) for line in lines)
    x = Axis("predicted - true (unit of the target)")
    y = Axis("rows", ends=(0.0, 1.05 * most))
    return Plot("errors", "Errors", x, y, lines)


def _residuals(predicted, differences, weights, name: str) -> Table:
    """Return the errors of a target by range of the prediction; weights (rows,) above
    0, or None."""
    headers = ["predicted", "rows", "mean error", "RMSE", "90 % of the errors"]
    lines = []
    for row in errors.residuals_by_range(predicted, differences, weights, ERROR_RANGES):
        mean = _digits(row.mean, 4)
        rmse = _digits(row.rmse, 4)
        most = f"{_digits(row.low, 4)} to {_digits(row.high, 4)}"
        lines.append([row.predicted, count_text(row.rows), mean, rmse, most])
    return Table(f"errors of {name} by range of the prediction", headers, lines)


def _coverage(predicted, differences, weights, name: str) -> Table:
    """Return the share of rows whose target is not above a quantile, by range of it;
    weights (rows,) above 0, or None."""
    lines = []
    for ends, rows in errors.ranges(predicted, ERROR_RANGES):
        are_below = (differences[rows] >= 0).astype(np.float64)
        share = errors.mean_of_rows(are_below, at_rows(weights, rows))
        count = count_text(errors.row_count(weights, rows))
        lines.append([ends, count, f"{100 * share:.1f} %"])
    headers = ["predicted", "rows", METRICS["below"].label]
    return Table(f"coverage of {name} by range of the prediction", headers, lines)


def _digits(value: float, digits: int) -> str:
    """Return a number with some digits; `undefined` for one beyond float64."""
    return figure_text(float(value), digits)


BLOCKS_OF_TASK = {
    "binary": two_class_blocks,
    "multiclass": class_blocks,
    "multilabel": label_blocks,
    "regression": number_blocks,
}


# ---------------------------------------------------------------------------- sureness


def sureness(net: Network, coverage: Held, scores, weights) -> list[Block]:
    """Return how many rows the intervals of each target hold, or the sets of classes,
    and how wide they are, by fifths of the prediction: of the likeliest class's
    score."""
    if net.task == "regression":
        predicted = scores.astype(np.float64)
        names = _names_of_targets(net)
        titles = [f"intervals of {name}" for name in names]
        headers = ["predicted", "rows", "held", "mean width"]
    else:
        columns = [scores]
        titles = ["sets of classes"]
        if TASKS[net.task].by_output:
            columns = np.hsplit(scores, net.outputs)
            titles = [f"sets of classes of {name}" for name in _names_of_targets(net)]
        likeliest = [by_class(column).max(axis=1) for column in columns]
        predicted = np.stack(likeliest, axis=1)
        headers = ["score of the likeliest class", "rows", "held", "mean size"]
    arrays = (weights, predicted, coverage.are_held, coverage.widths)
    return [
        Table(
            f"{title} of level {coverage.level:g} by range of the prediction",
            headers,
            _fifths(coverage.level, *without_zeros(*arrays), slice(k, k + 1)),
        )
        for k, title in enumerate(titles)
    ]


def _fifths(
    level: float, weights, predicted, are_held, widths, target: slice
) -> list[list[str]]:
    """Return a line for each fifth of the predictions of a target, by the rows that
    have it; arrays (rows, targets)."""
    lines = []
    is_known = np.equal(are_held, are_held)[:, target][:, 0]
    arrays = (weights, predicted, are_held, widths)
    weights, predicted, are_held, widths = [at_rows(part, is_known) for part in arrays]
    for ends, rows in errors.ranges(predicted[:, target][:, 0], FIFTHS):
        counts = at_rows(weights, rows)
        part = Held(level, are_held[rows, target], widths[rows, target])
        figures = part.figures(counts)
        held = f"{100 * figures['coverage']:.1f} %"
        count = count_text(errors.row_count(weights, rows))
        lines.append([ends, count, held, figure_text(figures["width"])])
    return lines


# ------------------------------------------------------------------ mistakes and groups


def mistakes(net: Network, x: np.ndarray, truth, scores, numbers=None) -> Table:
    """Return the images whose prediction is furthest from the truth. numbers: of the
    rows in their data; None: from 0."""
    if numbers is None:
        numbers = np.arange(len(truth))
    losses = errors.row_losses(net, truth, scores)
    lines = []
    for row in np.argsort(-losses, kind="stable")[:MISTAKES]:
        if losses[row] > 0:
            texts = _true_and_predicted(net, truth[row], scores[row])
            lines.append([_image(net, x, row), str(numbers[row]), *texts])
    title = "rows whose prediction is furthest from the truth"
    return Table(title, ["", "row", "true", "predicted"], lines)


def _true_and_predicted(net: Network, truth, scores: np.ndarray) -> list[str]:
    """Return the first target of a row and its prediction as texts, numbers with as
    many digits as tell them apart; or the names of the two classes."""
    if net.task == "regression":
        return axis_texts([float(truth[0]), float(scores[0])])
    if net.task == "multilabel":
        picked = decide_each(scores, net.threshold)
        return [_positive_of(net, truth), _positive_of(net, picked)]
    names = net.classes or [str(k) for k in range(max(2, net.outputs))]
    (predicted,) = decide(scores[None], net.threshold)
    return [names[int(truth)], names[int(predicted)]]


def _positive_of(net: Network, labels: np.ndarray) -> str:
    """Return the targets of a row that are positive, of labels (targets,)."""
    names = net.targets or [str(number) for number in range(net.outputs)]
    return listed([names[number] for number in np.flatnonzero(labels == 1)]) or "none"


def _image(net: Network, x: np.ndarray, row: int) -> str:
    """Return a row of images as a cell of a table."""
    pixels = np.asarray(x[row], np.float64)
    black, white = _black_and_white(net, x, pixels)
    greys = 255 * (pixels - black) / ((white - black) or 1)
    pixels = np.uint8(np.clip(greys, 0, 255))
    if len(pixels) == 3:
        return image_of(np.moveaxis(pixels, 0, 2))
    return image_of(pixels[0])


def _black_and_white(
    net: Network, x: np.ndarray, pixels: np.ndarray
) -> tuple[float, float]:
    """Return the numbers of black and white in the pixels of a row of x."""
    if x.dtype == np.uint8:
        return 0, BYTE
    if net.pictures is not None and net.pictures["range"] is not None:
        return 0, net.pictures["range"]
    return pixels.min(), pixels.max()


def groups(net: Network, x, truth, scores, weights=None) -> Block:
    """Return the groups of rows, by one column each, whose loss is furthest above that
    of all rows."""
    of_loss = loss_of(net.loss).metric
    if of_loss is not None:
        loss = METRICS[of_loss].label
    elif net.task == "regression":
        loss = "mean absolute error"
    elif gives_logits(net):
        loss = "log loss"
    else:
        loss = "share of errors"
    erring = errors.groups_that_err(net, x, truth, scores, weights)
    if not erring.clear:
        return (
            f"No group of at least {erring.least} rows errs clearly more than the rest"
            f" ({loss} {figure_text(erring.loss)})."
        )
    lines = []
    for group in erring.clear[:MOST_PAGE_GROUPS]:
        times = f"{group.loss / erring.loss:.2f} times"
        count = count_text(group.rows)
        lines.append(
            [group.column, group.values, count, figure_text(group.loss), times]
        )
    title = f"groups of rows; all {count_text(erring.rows)}: {figure_text(erring.loss)}"
    return Table(title, ["column", "values", "rows", loss, "of all"], lines, 2)
