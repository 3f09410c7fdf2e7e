"""Tables and pictures of a test: of two classes, several classes and numbers; where a model errs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.metrics import decide
from ..core.thresholds import cut_offs
from ..data.table_rows import TableRows
from ..nn_aux import METRICS
from ..settings.values import parse_rule
from ..terminal.figures import confused_pairs, count_text, ends_text, number_text, rate_text
from ..test.values import gives_logits, names_of
from .chart import Axis, Line, Plot
from .page import Block, Images, Table, png_uri

USUAL_THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
MOST_POINTS, MOST_TARGETS = 1_500, 3  # of a scatter plot
MOST_CELLS, MOST_BESIDE = 30, 6  # classes of a confusion matrix; of one that is half a page wide
MOST_CLASSES, MOST_PAIRS, MISTAKES = 60, 12, 12
BINS, RANGES, LEAST_BIN = 40, 8, 10  # of scores, of predictions; rows of a point of the calibration
LEAST_GROUP, GROUPS, SURE = 20, 8, 3.0  # rows of a group, groups shown, standard errors from the mean of all
ENDS = (0.0, 1.0)


def metrics(result: dict) -> Table:
    """Return the table of the metrics, with their intervals if there are any."""
    intervals, shown = result.get("intervals", {}), number_text if "rmse" in result else rate_text
    each = {name: (METRICS[name].label, value) for name, value in result.items() if name in METRICS}
    for name, value in result.get("macro", {}).items():
        each[f"macro_{name}"] = f"macro {METRICS[name].label}", value
    lines = [
        [label, shown(value), ends_text(intervals[name], shown) if name in intervals else ""]
        for name, (label, value) in each.items()
    ]
    return Table("metrics", ["", "", "95 % interval" if intervals else ""], lines)


def _confusion(names, counts) -> Table:
    lines = [[name, *(count_text(v) if v else "" for v in row)] for name, row in zip(names, counts, strict=True)]
    shades = [[v / max(sum(row), 1e-300) for v in row] for row in counts]
    caption = "rows of each true class by predicted class; darker is more of the true class"
    return Table(caption, ["true \\ predicted", *names], lines, shades=shades, is_wide=len(names) > MOST_BESIDE)


# ---------------------------------------------------------------- two classes


def of_two_classes(net, result: dict, truth, scores, weights) -> list[Block]:
    """Return precision over recall, the ROC curve, scores and calibration, the threshold marked, and a table of them.

    result: the figures of `test`; truth (rows,) of 0 and 1, scores (rows, 1), weights (rows,) or None. A curve needs
    rows of both classes.
    """
    scores, classes = scores[:, 0].astype(np.float64), net.classes or ["0", "1"]
    blocks: list[Block] = [_confusion(classes, [[result["tn"], result["fp"]], [result["fn"], result["tp"]]])]
    if result["roc_auc"] is not None:
        blocks += _curves(result, cut_offs(truth, scores, weights))
    blocks.append(_score_picture(result, truth, scores, weights, classes))
    if result["brier"] is not None:
        blocks.append(_calibration(truth, scores, weights, result["brier"], f"class {classes[1]}"))
    rule = net.config.get("threshold")
    name, costs = parse_rule(rule) if isinstance(rule, str) else ("", ())
    return [*blocks, threshold_table(result, truth, scores, weights, costs if name == "cost" else ())]


def threshold_table(result: dict, truth, scores, weights, costs: tuple[float, ...] = ()) -> Table:
    """Return what several thresholds give, the one of the test marked.

    They are those that people ask for; of scores that are no probabilities, tenths of their range. costs: of a false
    alarm and of a missed row, which add a column.
    """
    cuts, used, usual = cut_offs(truth, scores, weights), result["threshold"], USUAL_THRESHOLDS
    if scores.min() < 0 or scores.max() > 1:
        usual = np.linspace(scores.min(), scores.max(), 11, dtype=np.float64).tolist()
    alarms = 1000 * (cuts.tp + cuts.fp) / (cuts.tp[-1] + cuts.fp[-1])
    lines = []
    for threshold in sorted({*usual, used}):
        k = int((cuts.scores >= threshold).sum()) - 1  # cut-offs fall, the first is inf
        rates = (rate_text(rate[k]) for rate in (cuts.precision, cuts.recall, cuts.fbeta(1)))
        cost = [f"{cuts.cost(*costs)[k]:g}"] if costs else []
        lines.append([f"{threshold:.4g}{' (used)' * (threshold == used)}", *rates, f"{alarms[k]:.1f}", *cost])
    headers = ["threshold", "precision", "recall", "F1", "alarms per 1,000 rows", "cost"]
    return Table("thresholds", headers if costs else headers[:-1], lines, 0)


def _curves(result: dict, cuts) -> list[Plot]:
    recall, precision, false_alarms = cuts.recall, cuts.precision, cuts.fp / cuts.fp[-1]
    precision[0] = precision[1]  # no row, no precision: the curve begins at the first row's
    share = (cuts.tp[-1] / (cuts.tp[-1] + cuts.fp[-1])).item()
    used = f"threshold {result['threshold']:.4g}"
    lines = [
        Line(f"area {result['pr_auc']:.4f}", recall, precision, "steps"),
        Line(f"by chance {share:.3g}", ENDS, [share, share], "rule"),
        Line(used, [result["recall"]], [result["precision"]], "mark"),
    ]
    axes = Axis("recall", ends=ENDS), Axis("precision", ends=ENDS)
    first = Plot("precision-recall", "Precision and recall", *axes, lines)
    lines = [
        Line(f"area {result['roc_auc']:.4f}", false_alarms, recall),
        Line("by chance", ENDS, ENDS, "rule"),
        Line(used, [result["fp"] / (result["fp"] + result["tn"])], [result["recall"]], "mark"),
    ]
    axes = Axis("false positive rate", ends=ENDS), Axis("true positive rate (recall)", ends=ENDS)
    return [first, Plot("roc", "ROC curve", *axes, lines)]


def _score_picture(result: dict, truth, scores, weights, classes) -> Plot:
    ends = ENDS if scores.min() >= 0 and scores.max() <= 1 else (scores.min(), scores.max())
    edges, weights = np.histogram_bin_edges(scores, BINS, ends), np.ones(len(scores)) if weights is None else weights
    lines = []
    for label, name in enumerate(classes):
        own = truth == label
        if (total := weights[own].sum()) > 0:
            heights = np.histogram(scores[own], edges, weights=weights[own])[0] / total
            lines.append(Line(f"class {name}", edges, heights, "area"))
    least = min(v for line in lines for v in line.y if v > 0) / 2
    lines.append(Line(f"threshold {result['threshold']:.4g}", [result["threshold"]] * 2, [least, 1.0], "rule"))
    axes = Axis("score", ends=ends), Axis("share of the class's rows", True, (least, 1.0))
    return Plot("scores", "Scores by class", *axes, lines)


def _calibration(truth, scores, weights, brier: float, of: str) -> Plot:
    """Return how often rows of each tenth of the scores are what the score says."""
    weights, place = 1.0 if weights is None else weights, np.minimum((scores * 10).astype(int), 9)
    rows, total = np.bincount(place), np.bincount(place, weights * np.ones(len(scores)))
    kept = (rows >= min(LEAST_BIN, max(1, len(scores) // 10))) & (total > 0)
    x, y = (np.bincount(place, weights * each)[kept] / total[kept] for each in (scores, truth))
    axes = Axis(f"score of {of}", ends=ENDS), Axis("share of the rows that are it", ends=ENDS)
    lines = [Line("tenths of the score", x, y), Line("calibrated", ENDS, ENDS, "rule")]
    return Plot("calibration", f"Calibration (Brier score {brier:.4g})", *axes, lines)


# ---------------------------------------------------------------- several classes


def of_classes(net, result: dict, truth, scores, weights) -> list[Block]:
    """Return the confusion matrix as a heat map, the most confused pairs, each class, and calibration."""
    names = [row["class"] for row in result["per_class"]]
    blocks: list[Block] = [_confusion(names, result["confusion"])] if len(names) <= MOST_CELLS else []
    if lines := confused_pairs(result, MOST_PAIRS):
        blocks.append(Table("most confused", ["true", "predicted", "rows", "of the class"], lines, 2))
    each = sorted(result["per_class"], key=lambda row: -row["support"])[:MOST_CLASSES]
    rates = [[rate_text(row[name]) for name in ("precision", "recall", "f1")] for row in each]
    lines = [[row["class"], *own, count_text(row["support"])] for row, own in zip(each, rates, strict=True)]
    title = "classes" if len(each) == len(names) else f"the {MOST_CLASSES} largest of {len(names)} classes"
    blocks.append(Table(title, ["class", "precision", "recall", "F1", "rows"], lines))
    if result["brier"] is not None:
        sure = scores.max(axis=1).astype(np.float64)
        blocks.append(_calibration(decide(scores) == truth, sure, weights, result["brier"], "the predicted class"))
    return blocks


# ---------------------------------------------------------------- numbers


def of_numbers(net, result: dict, truth, scores, weights) -> list[Block]:
    """Return predicted against true values, the errors, and the errors by range of the prediction."""
    predicted, names = scores.astype(np.float64), net.targets or [f"output {i}" for i in range(net.outputs)]
    every, shown, unit = -(-len(truth) // MOST_POINTS), names[:MOST_TARGETS], "(unit of the target)"
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    lines = [Line(name, truth[::every, k], predicted[::every, k], "dots") for k, name in enumerate(shown)]
    lines.append(Line("perfect prediction", ends, ends, "rule"))
    axes = Axis(f"true value {unit}"), Axis(f"predicted value {unit}")
    blocks: list[Block] = [Plot("predicted", "Predicted against true", *axes, lines)]
    errors = predicted - truth
    edges, lines = np.histogram_bin_edges(errors, bins=min(60, max(10, int(len(errors) ** 0.5)))), []
    for k, name in enumerate(shown):
        label = f"{name}: mean {errors[:, k].mean():.3g}, deviation {errors[:, k].std():.3g}"
        lines.append(Line(label, edges, np.histogram(errors[:, k], edges)[0], "area"))
    blocks.append(Plot("errors", "Errors", Axis(f"predicted - true {unit}"), Axis("rows"), lines))
    return blocks + [_residuals(predicted[:, k], errors[:, k], name) for k, name in enumerate(shown)]


def _residuals(predicted: np.ndarray, errors: np.ndarray, name: str) -> Table:
    lines = []
    for values, own in _ranges(predicted, RANGES):
        part = errors[own]
        ends = " to ".join(f"{v:.4g}" for v in np.quantile(part, (0.05, 0.95)))
        lines.append([values, str(len(part)), f"{part.mean():.4g}", f"{np.sqrt((part**2).mean()):.4g}", ends])
    headers = ["predicted", "rows", "mean error", "RMSE", "90 % of the errors"]
    return Table(f"errors of {name} by range of the prediction", headers, lines)


def _ranges(values: np.ndarray, most: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (ends, rows) of ranges that hold about as many of the values each; gaps are in none."""
    known = values[~np.isnan(values)].astype(np.float64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, most + 1))) if len(known) else []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        own = np.flatnonzero((values >= low) & ((values < high) | ((high == edges[-1]) & (values == high))))
        if len(own):
            yield f"{low:.4g} to {high:.4g}", own


# ---------------------------------------------------------------- errors


def mistakes(net, x: np.ndarray, truth, scores) -> Images:
    """Return the images whose prediction is furthest from the truth."""
    losses, each = _losses(net, truth, scores), []
    names = net.classes or [str(k) for k in range(max(2, net.outputs))]
    for k in [k for k in np.argsort(-losses, kind="stable")[:MISTAKES] if losses[k] > 0]:
        true, said = f"{truth[k].flat[0]:.4g}", f"{scores[k, 0]:.4g}"
        if net.task != "regression":
            true, said = names[int(truth[k])], names[int(_decided(net, scores[k : k + 1])[0])]
        pixels = np.asarray(x[k], np.float64)
        low, high = (0, 255) if x.dtype == np.uint8 else (pixels.min(), pixels.max())
        pixels = np.uint8(np.clip(255 * (pixels - low) / ((high - low) or 1), 0, 255))
        image = np.moveaxis(pixels, 0, 2) if len(pixels) == 3 else pixels[0]
        each.append((f"row {k}: true {true}, predicted {said}", png_uri(image)))
    return Images("Rows whose prediction is furthest from the truth.", each)


def _decided(net, scores: np.ndarray) -> np.ndarray:
    return decide(scores if net.outputs > 1 else scores[:, 0], net.threshold)


def _losses(net, truth, scores) -> np.ndarray:
    """Return how wrong each row is: the absolute error, the log loss, or 1 where no probabilities tell more."""
    scores = scores.astype(np.float64)
    if net.task == "regression":
        return np.abs(scores - truth).mean(axis=1)
    if not gives_logits(net):
        return (_decided(net, scores) != truth).astype(np.float64)
    each = scores if net.outputs > 1 else np.concatenate([1 - scores, scores], axis=1)
    return -np.log(np.maximum(each[np.arange(len(truth)), truth.astype(int)], 1e-12))


def groups(net, x, truth, scores) -> Block:
    """Return the groups of rows, by one column each, whose loss is furthest above that of all rows."""
    losses, found = _losses(net, truth, scores), []
    mean, deviation, least = losses.mean(), losses.std(), max(LEAST_GROUP, len(losses) // 100)
    for column, values, own in _groups_of(net, x):
        own_mean = losses[own].mean() if len(own) >= least else mean
        above = (own_mean - mean) * np.sqrt(len(own)) / max(deviation, 1e-300)
        if len(own) < len(losses) and above > SURE:
            line = [column, values, str(len(own)), f"{own_mean:.4g}", f"{own_mean / mean:.2f} times"]
            found.append((-above, line))
    what = "mean absolute error" if net.task == "regression" else "log loss" if gives_logits(net) else "share of errors"
    if not found:
        return f"No group of at least {least} rows errs clearly more than the rest ({what} {mean:.4g})."
    title, headers = f"groups of rows; all {len(losses)}: {mean:.4g}", ["column", "values", "rows", what, "of all"]
    return Table(title, headers, [line for _, line in sorted(found)[:GROUPS]], 2)


def _groups_of(net, x) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (column, its values, rows): quarters of numbers, frequent words, gaps."""
    for name, column in zip(names_of(net), TableRows.of(x).columns, strict=True):
        yield name, "(missing)", np.flatnonzero(column.is_gap)
        if column.reads == "text":
            counts = np.bincount(column.values[column.values >= 0], minlength=len(column.words))
            for code in np.argsort(-counts, kind="stable")[:RANGES]:
                yield name, column.words[code], np.flatnonzero(column.values == code)
        elif column.reads == "number":
            for values, own in _ranges(column.values, 4):
                yield name, values, own
