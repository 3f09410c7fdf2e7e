"""The page of a model: how good it is, which columns matter, where it errs, what it was
made of and how; of two models, which is better. Without rows to test it on: what the
model file knows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from os.path import basename

import numpy as np

from ..core.metrics import checked_weights, decide, without_zeros
from ..core.thresholds import cut_offs
from ..core.weighted import quantiles
from ..data.dataset import TableRows
from ..data.pictures import BYTE
from ..data.source import short_name
from ..nn_aux import METRICS, TASKS
from ..settings.flags import BY_NAME, settings_of_model
from ..settings.values import parse_rule
from ..terminal import figures
from ..terminal.figures import (
    count_text,
    ends_text,
    number_text,
    rate_text,
    setting_text,
    shape_text,
)
from ..test import figures_of, judged, without_remarks
from ..test.importance import curves, importance
from ..test.out_of_fold import NO_SCORES, by_fold, judging_parts, kept_figures
from ..test.values import gives_logits, names_of
from ..utils import DataError, axis_texts, listed
from .chart import Axis, Line, Plot
from .page import Block, Page, Table, image_of

# rows from and up to which there are intervals
LEAST_INTERVALS = 10
MOST_INTERVALS = 100_000
MOST_EXPLAINED = 20_000  # rows on which importance is measured
MOST_IMPORTANT = 20
MOST_PAGE_LINES = 100
MOST_OUTPUTS = 7
USUAL_THRESHOLDS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    0.98,
    0.99,
)
# of a scatter plot
MOST_POINTS = 1_500
MOST_PAGE_TARGETS = 3
# classes of a confusion matrix; of one that is half a page wide
MOST_CELLS = 30
MOST_BESIDE = 6
MOST_PAGE_CLASSES = 60
MOST_PAIRS = 12
MISTAKES = 12
# of scores, of predictions; rows of a point of the calibration
BINS = 40
ERROR_RANGES = 8
LEAST_BIN = 10
# rows of a group, groups shown, standard errors from the mean of all
LEAST_GROUP = 20
MOST_PAGE_GROUPS = 8
SURE = 3.0
ENDS = (0.0, 1.0)
# between these shares of a range's errors lie 90 % of them
MOST_ERRORS = np.array([0.05, 0.95])


def of_model(  # noqa: PLR0913 - settings by keyword
    net,
    model: str,
    ds=None,
    about: str = "rows",
    *,
    found=None,
    threshold=None,
    important=None,
    trained=None,
    progress=None,
) -> Page:
    """Return the page of a model, tested on the rows of ds if there are any.

    about: what the rows are. found: (rows, folds, scores) as out_of_fold returns them,
    where folds predict them. threshold: None, the network's. important: (Importance,
    curves) of the columns, where they are known. trained: how many of the rows the
    model was trained on (Trained). progress: of the importance, see there.
    """
    page = Page(f"Model {basename(model)}", [_about(net)])
    if ds is not None and ds.y is not None:
        _test(page, net, ds, about, found, threshold, important, progress)
        target = figures.target_text(
            net.targets, net.config.get("target"), is_table=False
        )
        if target:
            page.answer += [f"It predicts the {target}."]
        if trained is not None and trained.is_told:
            told = "these figures say how well it knows them, not how good it is on new rows"
            page.answer.append(f"{trained.told(basename(model))}: {told}.")
    page.sections["Columns"] = _columns(net, None if ds is None else ds.x)
    page.sections["Training"] = [*_losses_by_epoch(net), *_training(net)]
    page.sections["To make it again"] = _again(net, model)
    return page


def _about(net) -> str:
    of = {
        "binary": "two classes",
        "multiclass": f"{net.outputs} classes",
        "regression": "numbers",
    }[net.task]
    told = figures.target_text(net.targets, net.config.get("target"), is_table=False)
    if told:
        target = f" ({told})"
    else:
        target = ""
    if net.is_combined:
        networks = f"{len(net.members)} networks predict"
    else:
        networks = "One network predicts"
    return f"{networks} {of}{target} from {len(names_of(net))} inputs."


def _test(
    page: Page, net, ds, about: str, found, threshold, important, progress
) -> None:
    """Add what a test tells."""
    if found is not None and found[2] is None:
        _test_by_kept_figures(
            page, net, ds, about, found, threshold, important, progress
        )
        return
    if found is None:
        rows = ds
    else:
        rows = ds.of_rows(found[0])
    truth, scores, weights = judged(net, rows, None if found is None else found[2])
    weights = checked_weights(weights, len(truth))
    with without_remarks():
        has_intervals = LEAST_INTERVALS <= len(truth) <= MOST_INTERVALS
        if found is None:
            beside = {}
        else:
            beside = by_fold(net, threshold)
        result = figures_of(
            net, rows, scores, threshold=threshold, intervals=has_intervals, **beside
        )
    page.answer = [_answer(net, result, about), *_by_whom(net, found)]
    blocks = _WORDS_OF_TASK[net.task](net, result, truth, scores, weights)
    headers = ["", "", "95 % interval" if has_intervals else ""]
    page.sections["Result"] = [
        Table("metrics", headers, figures.metric_lines(result)),
        *_by_target(result),
        *blocks,
    ]
    if np.ndim(ds.x) == 4:
        page.sections["The worst mistakes"] = [mistakes(net, rows.x, truth, scores)]
        return
    _add_columns_that_matter(page, net, ds, found, important, progress)
    page.sections["Where it errs most"] = [groups(net, rows.x, truth, scores, weights)]


def _by_whom(net, found) -> list[str]:
    """Return a sentence on whose predictions are judged out of fold."""
    if found is None:
        return []
    if net.crossed.is_retrained:
        return [
            "Each row was predicted by networks of earlier rows only; those that predict now know all of them."
        ]
    return [
        "One fold's networks judge each row, all predict new ones: it may be a little better than told."
    ]


def _add_columns_that_matter(page: Page, net, ds, found, important, progress) -> None:
    try:
        known, curves_of = important or _important(net, ds, found, progress)
        page.sections["Columns that matter"] = [
            *_known_rows(net, found),
            *_importance(net, known, curves_of),
        ]
        best = [
            name for name, holds in zip(known.names, known.holds, strict=True) if holds
        ][:3]
        if best:
            page.answer += [f"What matters most: {listed(best)}."]
    except DataError as error:
        page.sections["Columns that matter"] = [str(error)]


def _test_by_kept_figures(
    page: Page, net, ds, about: str, found, threshold, important, progress
) -> None:
    """Add what a test tells of rows whose out-of-fold scores the model does not
    keep."""
    result = kept_figures(net, threshold, intervals=True)
    page.answer = [_answer(net, result, about), *_by_whom(net, found)]
    metrics = Table("metrics", ["", "", "95 % interval"], figures.metric_lines(result))
    page.sections["Result"] = [
        metrics,
        *_by_target(result),
        f"Only these can be told: {NO_SCORES}.",
    ]
    if np.ndim(ds.x) != 4:
        _add_columns_that_matter(page, net, ds, found, important, progress)


def _by_target(result: dict) -> list[Table]:
    """Return the metrics of each of several targets."""
    headers, lines = figures.target_lines(result)
    if lines:
        return [Table("metrics by target", headers, lines)]
    return []


def _answer(net, result: dict, about: str) -> str:
    def rate(name: str, shown=rate_text) -> str:
        ends = result.get("intervals", {}).get(name)
        return shown(result[name]) + (
            f" (95%: {ends_text(ends, shown)})" if ends else ""
        )

    start = f"On {result['rows']:,} {about}, the model"
    if net.task == "binary":
        there = count_text(result["tp"] + result["fn"])
        alarms = count_text(result["tp"] + result["fp"])
        name = (net.classes or ["0", "1"])[1]
        return (
            f"{start} finds {rate('recall')} of the {there} of class {name}; of its {alarms} alarms "
            f"{rate('precision')} are right. ROC-AUC {rate('roc_auc')}."
        )
    if net.task == "multiclass":
        share = np.sum(result["confusion"], axis=1).max() / np.sum(result["confusion"])
        return f"{start} is right for {rate('accuracy')}; the most frequent class alone would be for {share:.4f}."
    return (
        f"{start} is off by {rate('rmse', number_text)} (root mean square), {rate('mae', number_text)} (mean absolute)"
        f"; R2 {rate('r2', number_text)}."
    )


def _confusion(names, counts) -> Table:
    lines = [
        [name, *(count_text(v) if v else "" for v in row)]
        for name, row in zip(names, counts, strict=True)
    ]
    shades = [[v / max(sum(row), 1e-300) for v in row] for row in counts]
    caption = (
        "rows of each true class by predicted class; darker is more of the true class"
    )
    return Table(
        caption,
        ["true \\ predicted", *names],
        lines,
        shades=shades,
        is_wide=len(names) > MOST_BESIDE,
    )


def of_two_classes(net, result: dict, truth, scores, weights) -> list[Block]:
    """Return curves (of rows of both classes), scores and calibration, the threshold
    marked, and a table of thresholds.

    result: the metrics of `test`; truth (rows,) of 0 and 1, scores (rows, 1), weights
    (rows,) or None.
    """
    scores = scores[:, 0].astype(np.float64)
    classes = net.classes or ["0", "1"]
    blocks: list[Block] = [
        _confusion(
            classes, [[result["tn"], result["fp"]], [result["fn"], result["tp"]]]
        )
    ]
    if result["roc_auc"] is not None:
        blocks += _curves(result, cut_offs(truth, scores, weights))
    blocks.append(_score_picture(result, truth, scores, weights, classes))
    if result["brier"] is not None:
        blocks.append(
            _calibration(truth, scores, weights, result["brier"], f"class {classes[1]}")
        )
    rule = net.config.get("threshold")
    if isinstance(rule, str):
        name, costs = parse_rule(rule)
    else:
        name = ""
        costs = ()
    return [
        *blocks,
        threshold_table(
            result, truth, scores, weights, costs if name == "cost" else ()
        ),
    ]


def threshold_table(
    result: dict, truth, scores, weights, costs: tuple[float, ...] = ()
) -> Table:
    """Return what thresholds give, the test's marked; of scores that are no
    probabilities tenths of their range.

    costs: of a false alarm and of a missed row, which add a column.
    """
    cuts = cut_offs(truth, scores, weights)
    used = result["threshold"]
    usual = USUAL_THRESHOLDS
    if scores.min() < 0 or scores.max() > 1:
        usual = np.linspace(scores.min(), scores.max(), 11, dtype=np.float64).tolist()
    alarms = 1000 * (cuts.tp + cuts.fp) / (cuts.tp[-1] + cuts.fp[-1])
    lines = []
    for threshold in sorted({*usual, used}):
        k = int((cuts.scores >= threshold).sum()) - 1  # cut-offs fall, the first is inf
        rates = (
            rate_text(rate[k]) for rate in (cuts.precision, cuts.recall, cuts.fbeta(1))
        )
        if costs:
            cost = [f"{cuts.cost(*costs)[k]:g}"]
        else:
            cost = []
        cut_off = f"{threshold:.4g}"
        if threshold == used:
            cut_off += " (used)"
        lines.append(
            [
                cut_off,
                *rates,
                f"{alarms[k]:.1f}",
                *cost,
            ]
        )
    headers = [
        "threshold",
        "precision",
        "recall",
        "F1",
        "alarms per 1,000 rows",
        "cost",
    ]
    return Table("thresholds", headers if costs else headers[:-1], lines, 0)


def _curves(result: dict, cuts) -> list[Plot]:
    def plot(
        name: str, title: str, x: str, y: str, lines: list[Line], *at: float
    ) -> Plot:
        used = Line(f"threshold {result['threshold']:.4g}", [at[0]], [at[1]], "mark")
        return Plot(name, title, Axis(x, ends=ENDS), Axis(y, ends=ENDS), [*lines, used])

    recall = cuts.recall
    precision = cuts.precision
    false_alarms = cuts.fp / cuts.fp[-1]
    # no row, no precision: the curve begins at the first row's
    precision[0] = precision[1]
    share = (cuts.tp[-1] / (cuts.tp[-1] + cuts.fp[-1])).item()
    lines = [
        Line(f"area {result['pr_auc']:.4f}", recall, precision, "steps"),
        Line(f"by chance {share:.3g}", ENDS, [share, share], "rule"),
    ]
    at = result["recall"], result["precision"]
    first = plot(
        "precision-recall", "Precision and recall", "recall", "precision", lines, *at
    )
    lines = [
        Line(f"area {result['roc_auc']:.4f}", false_alarms, recall),
        Line("by chance", ENDS, ENDS, "rule"),
    ]
    at = result["fp"] / (result["fp"] + result["tn"]), result["recall"]
    return [
        first,
        plot(
            "roc",
            "ROC curve",
            "false positive rate",
            "true positive rate (recall)",
            lines,
            *at,
        ),
    ]


def _score_picture(result: dict, truth, scores, weights, classes) -> Plot:
    if scores.min() >= 0 and scores.max() <= 1:
        ends = ENDS
    else:
        ends = (scores.min(), scores.max())
    edges = np.histogram_bin_edges(scores, BINS, ends)
    if weights is None:
        weights = np.ones(len(scores))
    lines = []
    for label, name in enumerate(classes):
        own = truth == label
        if (total := weights[own].sum()) > 0:
            heights = np.histogram(scores[own], edges, weights=weights[own])[0] / total
            lines.append(Line(f"class {name}", edges, heights, "area"))
    least = min(v for line in lines for v in line.y if v > 0) / 2, 1.0
    lines.append(
        Line(
            f"threshold {result['threshold']:.4g}",
            [result["threshold"]] * 2,
            least,
            "rule",
        )
    )
    axes = Axis("score", ends=ends), Axis("share of the class's rows", True, least)
    return Plot("scores", "Scores by class", *axes, lines)


def _calibration(truth, scores, weights, brier: float, of: str) -> Plot:
    """Return how often rows of each tenth of the scores are what the score says."""
    if weights is None:
        weights = 1.0
    place = np.minimum((scores * 10).astype(int), 9)
    rows = np.bincount(place)
    total = np.bincount(place, weights * np.ones(len(scores)))
    kept = (rows >= min(LEAST_BIN, max(1, len(scores) // 10))) & (total > 0)
    x = np.bincount(place, weights * scores)[kept] / total[kept]
    y = np.bincount(place, weights * truth)[kept] / total[kept]
    axes = (
        Axis(f"score of {of}", ends=ENDS),
        Axis("share of the rows that are it", ends=ENDS),
    )
    lines = [Line("tenths of the score", x, y), Line("calibrated", ENDS, ENDS, "rule")]
    return Plot("calibration", f"Calibration (Brier score {brier:.4g})", *axes, lines)


def of_classes(net, result: dict, truth, scores, weights) -> list[Block]:
    """Return the confusion matrix as a heat map, the most confused pairs, each class,
    and calibration."""
    names = [row["class"] for row in result["per_class"]]
    blocks: list[Block] = (
        [_confusion(names, result["confusion"])] if len(names) <= MOST_CELLS else []
    )
    if lines := figures.confused_pairs(result, MOST_PAIRS):
        blocks.append(
            Table(
                "most confused", ["true", "predicted", "rows", "of the class"], lines, 2
            )
        )
    each = sorted(result["per_class"], key=lambda row: -row["support"])[
        :MOST_PAGE_CLASSES
    ]
    if len(each) == len(names):
        title = "classes"
    else:
        title = f"the {MOST_PAGE_CLASSES} largest of {len(names)} classes"
    blocks.append(
        Table(
            title,
            ["class", "precision", "recall", "F1", "rows"],
            figures.class_lines(each),
        )
    )
    if result["brier"] is not None:
        sure = scores.max(axis=1).astype(np.float64)
        blocks.append(
            _calibration(
                decide(scores) == truth,
                sure,
                weights,
                result["brier"],
                "the predicted class",
            )
        )
    return blocks


def of_numbers(net, result: dict, truth, scores, weights) -> list[Block]:
    """Return predicted against true values, the errors, and the errors by range of the
    prediction."""
    weights, truth, scores = without_zeros(weights, truth, scores)
    predicted = scores.astype(np.float64)
    names = net.targets or [f"output {i}" for i in range(net.outputs)]
    every = -(-len(truth) // MOST_POINTS)
    shown = names[:MOST_PAGE_TARGETS]
    unit = "(unit of the target)"
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    lines = [
        Line(name, truth[::every, k], predicted[::every, k], "dots")
        for k, name in enumerate(shown)
    ]
    lines.append(Line("perfect prediction", ends, ends, "rule"))
    axes = Axis(f"true value {unit}"), Axis(f"predicted value {unit}")
    blocks: list[Block] = [Plot("predicted", "Predicted against true", *axes, lines)]
    errors = predicted - truth
    edges = np.histogram_bin_edges(
        errors, bins=min(60, max(10, int(len(errors) ** 0.5)))
    )
    lines = []
    for k, name in enumerate(shown):
        with np.errstate(over="ignore", invalid="ignore"):
            mean = _mean(errors[:, k], weights)
            deviation = np.sqrt(_mean((errors[:, k] - mean) ** 2, weights))
        label = f"{name}: mean {_digits(mean, 3)}, deviation {_digits(deviation, 3)}"
        lines.append(
            Line(
                label,
                edges,
                np.histogram(errors[:, k], edges, weights=weights)[0],
                "area",
            )
        )
    blocks.append(
        Plot("errors", "Errors", Axis(f"predicted - true {unit}"), Axis("rows"), lines)
    )
    return blocks + [
        _residuals(predicted[:, k], errors[:, k], weights, name)
        for k, name in enumerate(shown)
    ]


def _mean(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the mean of values of rows; weights, above 0: a row of weight 2 counts as
    the row twice."""
    return np.average(
        values, weights=None if weights is None else weights / weights.max()
    )


def _count(weights: np.ndarray | None, rows: np.ndarray) -> str:
    """Return how many rows these indices are, or the sum of their weights."""
    return count_text(len(rows) if weights is None else weights[rows].sum().item())


def _residuals(
    predicted: np.ndarray, errors: np.ndarray, weights: np.ndarray | None, name: str
) -> Table:
    """Return the errors by range of the prediction; weights (rows,) above 0, or
    None."""
    lines = []
    for values, own in _ranges(predicted, ERROR_RANGES):
        part = errors[own]
        if weights is None:
            counts = None
        else:
            counts = weights[own]
        ends = " to ".join(_digits(v, 4) for v in quantiles(part, MOST_ERRORS, counts))
        with np.errstate(over="ignore"):
            mean = _mean(part, counts)
            rmse = np.sqrt(_mean(part**2, counts))
        lines.append(
            [values, _count(weights, own), _digits(mean, 4), _digits(rmse, 4), ends]
        )
    headers = ["predicted", "rows", "mean error", "RMSE", "90 % of the errors"]
    return Table(f"errors of {name} by range of the prediction", headers, lines)


def _digits(value: float, digits: int) -> str:
    """Return a number with some digits; `undefined` for one beyond float64."""
    if np.isfinite(value):
        return f"{value:.{digits}g}"
    return "undefined"


def _ranges(values: np.ndarray, most: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (ends, rows) of at most `most` ranges with as many of the values each; gaps
    are in none."""
    is_known = ~np.isnan(values)
    if is_known.any():
        edges = np.unique(np.quantile(values[is_known], np.linspace(0, 1, most + 1)))
    else:
        edges = values[:0]
    place = np.searchsorted(edges[1:-1], values, side="right")
    ends = axis_texts(edges)
    for k in range(len(edges) - 1):
        own = np.flatnonzero((place == k) & is_known)
        if len(own):
            yield f"{ends[k]} to {ends[k + 1]}", own


_WORDS_OF_TASK = {
    "binary": of_two_classes,
    "multiclass": of_classes,
    "regression": of_numbers,
}


def mistakes(net, x: np.ndarray, truth, scores) -> Table:
    """Return the images whose prediction is furthest from the truth."""
    losses = _losses(net, truth, scores)
    each = []
    names = net.classes or [str(k) for k in range(max(2, net.outputs))]
    said = scores[:, 0]
    shown = "{:.4g}".format
    if net.task != "regression":
        said = decide(scores, net.threshold)

        def shown(label):
            return names[int(label)]

    for k in [
        k for k in np.argsort(-losses, kind="stable")[:MISTAKES] if losses[k] > 0
    ]:
        pixels = np.asarray(x[k], np.float64)
        low, high = _black_and_white(net, x, pixels)
        pixels = np.uint8(np.clip(255 * (pixels - low) / ((high - low) or 1), 0, 255))
        if len(pixels) == 3:
            image = np.moveaxis(pixels, 0, 2)
        else:
            image = pixels[0]
        each.append([image_of(image), str(k), shown(truth[k].flat[0]), shown(said[k])])
    return Table(
        "rows whose prediction is furthest from the truth",
        ["", "row", "true", "predicted"],
        each,
    )


def _black_and_white(net, x: np.ndarray, pixels: np.ndarray) -> tuple[float, float]:
    """Return the numbers of black and white in the pixels of a row of x."""
    if x.dtype == np.uint8:
        return 0, BYTE
    if net.pictures is not None and net.pictures["range"] is not None:
        return 0, net.pictures["range"]
    return pixels.min(), pixels.max()


def _losses(net, truth, scores) -> np.ndarray:
    """Return how wrong each row is: the absolute error, the log loss, or 1 where no
    probabilities tell more."""
    scores = scores.astype(np.float64)
    if net.task == "regression":
        return np.abs(scores - truth).mean(axis=1)
    if not gives_logits(net):
        return (decide(scores, net.threshold) != truth).astype(np.float64)
    if net.outputs > 1:
        each = scores
    else:
        each = np.concatenate([1 - scores, scores], axis=1)
    return -np.log(np.maximum(each[np.arange(len(truth)), truth.astype(int)], 1e-12))


def groups(net, x, truth, scores, weights=None) -> Block:
    """Return the groups of rows, by one column each, whose loss is furthest above that
    of all rows.

    weights (rows,): a row of weight 2 counts as two in the means, one of weight 0 is in
    no group. The standard error of a group's mean is by the number of rows of equal
    weight that would be as sure of it (Kish 1965).
    """
    losses = _losses(net, truth, scores)
    counts = np.ones(len(truth))
    if weights is not None:
        counts = weights / weights.max()
    rows = np.count_nonzero(counts)
    mean = np.average(losses, weights=counts)
    least = max(LEAST_GROUP, rows // 100)
    deviation = np.sqrt(np.average((losses - mean) ** 2, weights=counts))
    found = []
    for column, values, of_group in _groups_of(net, x):
        own = of_group[counts[of_group] > 0]
        if not least <= len(own) < rows:
            continue
        own_mean = np.average(losses[own], weights=counts[own])
        as_sure = counts[own].sum() ** 2 / (counts[own] ** 2).sum()
        above = (own_mean - mean) * np.sqrt(as_sure) / max(deviation, 1e-300)
        if above > SURE:
            line = [
                column,
                values,
                _count(weights, own),
                f"{own_mean:.4g}",
                f"{own_mean / mean:.2f} times",
            ]
            found.append((-above, line))
    if net.task == "regression":
        what = "mean absolute error"
    elif gives_logits(net):
        what = "log loss"
    else:
        what = "share of errors"
    if not found:
        return f"No group of at least {least} rows errs clearly more than the rest ({what} {mean:.4g})."
    every = _count(weights, np.arange(len(losses)))
    title = f"groups of rows; all {every}: {mean:.4g}"
    headers = ["column", "values", "rows", what, "of all"]
    return Table(
        title, headers, [line for _, line in sorted(found)[:MOST_PAGE_GROUPS]], 2
    )


def _groups_of(net, x) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (column, its values, rows): quarters of numbers, frequent words, gaps."""
    for name, column in zip(names_of(net), TableRows.of(x).columns, strict=True):
        yield name, "(missing)", np.flatnonzero(column.is_gap)
        if column.reads == "text":
            counts = np.bincount(
                column.values[column.values >= 0], minlength=len(column.words)
            )
            for code in np.argsort(-counts, kind="stable")[:ERROR_RANGES]:
                yield name, column.words[code], np.flatnonzero(column.values == code)
        elif column.reads == "number":
            yield from (
                (name, values, own) for values, own in _ranges(column.values, 4)
            )


def _important(net, ds, found, progress):
    """Return (Importance, curves) on rows that the networks do not know."""
    parts = judging_parts(net, ds, found)
    every = -(-sum(len(rows) for rows, _ in parts) // MOST_EXPLAINED)
    known = importance(
        net,
        ds,
        parts=[(rows[::every], members) for rows, members in parts],
        progress=progress,
    )
    return known, curves(net, ds, known.names)


def _known_rows(net, found) -> list[Block]:
    """Return a sentence where columns are judged by networks that know the rows,
    although the metrics are not."""
    if found is None or not net.crossed.is_retrained:
        return []
    return [
        "The networks know these rows: after the metrics were taken they were trained once more on all of them."
    ]


def _importance(net, known, curves_of) -> list[Block]:
    label = METRICS[known.metric].label
    lines = figures.importance_lines(vars(known))
    title = f"how much worse {label} ({number_text(known.baseline)}) is with a column's values exchanged between rows"
    if len(lines) > MOST_IMPORTANT:
        title += f"; the first {MOST_IMPORTANT} of {len(lines)} columns"
    blocks: list[Block] = [
        Table(title, ["column", "", label, "95 % interval"], lines[:MOST_IMPORTANT], 2)
    ]
    blocks += [
        _curve(net, name, points, k)
        for k, (name, points) in enumerate(curves_of.items())
        if points
    ]
    return blocks + [
        f"{one} and {other} are correlated ({r:.2f}): what one of them tells, the other may tell too."
        for one, other, r in known.correlated[:3]
    ]


def _curve(net, name: str, points, number: int) -> Plot:
    """Return the mean prediction by the values of a column: a line of numbers, dots of
    words."""
    has_words = not isinstance(points[0][0], float)
    if has_words:
        words = tuple(str(value) or "(missing)" for value, _ in points)
    else:
        words = ()
    if has_words:
        x = range(len(points))
    else:
        x = [value for value, _ in points]
    names = (
        [f"class {name}" for name in (net.classes or ())[net.outputs == 1 :]]
        or net.targets
        or ["prediction"]
    )
    outputs = zip(
        names[:MOST_OUTPUTS],
        zip(*(scores for _, scores in points), strict=True),
        strict=False,
    )
    lines = [Line(own, x, y, "mark" if has_words else "line") for own, y in outputs]
    axes = (
        Axis(name, words=words),
        Axis("mean value" if net.task == "regression" else "mean score"),
    )
    return Plot(
        f"curve-{number}", f"Prediction if all rows had this {name}", *axes, lines
    )


def _columns(net, x) -> list[Block]:
    """Return the columns of a model: the kind of each, what it became and, of rows,
    values and gaps."""
    shape = net.layers[0].in_shape
    names = names_of(net)
    encoding = net.encoding
    if len(shape) == 3 and shape[1:] != (1, 1):
        return [f"Images of {shape_text(shape)} pixels, scaled by {net.scaling.kind}."]
    if x is None:
        rows = None
    else:
        rows = TableRows.of(x)
    lines = []
    for k, name in enumerate(names[:MOST_PAGE_LINES]):
        if encoding is None:
            encoder = None
        else:
            encoder = encoding.encoders[k]
        if encoder is None:
            became = ["number", net.scaling.kind]
        else:
            became = [encoder.kind, encoder.summary()]
        lines.append([name, *became, *([] if rows is None else _values(rows, k))])
    headers = [
        "column",
        "kind",
        "became",
        *([] if rows is None else ["values", "", "gaps"]),
    ]
    if len(names) > MOST_PAGE_LINES:
        more = f", the first {MOST_PAGE_LINES}"
    else:
        more = ""
    blocks: list[Block] = [
        Table(f"{len(names)} columns{more}", headers, lines, 5, True)
    ]
    left_out = len(net.config.get("left_out", ()))
    return blocks + (
        [f"{left_out} columns of the file were no inputs."] if left_out else []
    )


def _values(rows: TableRows, k: int) -> list[str]:
    """Return what the values of a column are, their distribution in small, and the
    share of gaps."""
    column = rows.columns[k]
    is_known = ~column.is_gap
    if is_known.all():
        gaps = ""
    else:
        gaps = f"{1 - is_known.mean():.1%}"
    if not is_known.any():
        return ["", "", gaps]
    if column.reads == "text":
        counts = np.bincount(column.values[is_known], minlength=len(column.words))
        order = np.argsort(-counts, kind="stable")[:3]
        more = np.count_nonzero(counts) - 3
        told = ", ".join(
            f"{column.words[i][:16]} {counts[i] / counts.sum():.0%}"
            for i in order
            if counts[i]
        )
        return [told + (f", {more} more" if more > 0 else ""), "", gaps]
    known = np.asarray(column.values, np.float64)[is_known]
    low = known.min()
    high = known.max()
    told = "{} to {}, median {}".format(*axis_texts([low, high, np.median(known)]))
    if column.reads == "date":
        told = " to ".join(str(np.datetime64(int(v), "s"))[:10] for v in (low, high))
    return [told, figures.small_bars(np.histogram(known, 12, (low, high))[0]), gaps]


def _training(net) -> list[Block]:
    """Return what was trained, and what it cost."""
    told = {
        name: setting_text(value)
        for name, value in _settings(net).items()
        if name != "layers"
    }
    told |= figures.facts_of(net)
    found = [
        (
            "what was trained",
            ["", ""],
            [[name, value] for name, value in told.items() if value],
            2,
        )
    ]
    architectures = figures.layers_of(net)
    if len(architectures) == 1:
        headers = ["layer", "activation", "output shape", "parameters"]
        found.append(("layers", headers, figures.layer_lines(architectures[0][1]), 2))
    tried = "what was tried; the loss is that of rows that a network did not know"
    found += [
        (tried, *figures.candidates_of(net), 1),
        ("members", *figures.members_of(net), 1),
    ]
    return [
        Table(title, headers, lines[:MOST_PAGE_LINES], words)
        for title, headers, lines, words in found
        if lines
    ]


def _settings(net) -> dict:
    """Return the flags of the training, by name; of a file for --validation without its
    folder."""
    known = settings_of_model(net.config)
    found = {name: known[name] for name in sorted({*known} & {*BY_NAME})}
    if isinstance(found.get("validation"), str):
        found |= {"validation": basename(found["validation"])}
    return {name: value for name, value in found.items() if value not in (None, False)}


def _losses_by_epoch(net) -> list[Plot]:
    """Return the losses, and the metric that chose the epoch where that is no loss; the
    best epoch is marked.

    Of several networks, which each chose its own epoch, the metric is the mean, and
    none is marked.
    """
    history = net.history
    several = len(net.members) > 1
    if net.config.get("monitor") in METRICS:
        monitor = net.config["monitor"]
    else:
        monitor = "loss"
    metric = {
        epoch: value
        for epoch, value in enumerate(history.get("val_metric") or [], 1)
        if value is not None
    }
    if several:
        best = None
    else:
        best = metric and (max if METRICS[monitor].higher_is_better else min)(
            metric, key=metric.get
        )
    losses = {
        "training rows": history["loss"],
        "held-out rows": history["val_loss"] or (),
    }
    if "val_metric" in history:
        losses["validation rows"] = losses.pop("held-out rows")
    label = f"loss ({net.loss})"
    if net.target_scaling is not None:
        label = f"loss ({net.loss}, of scaled targets)"
    lines = [
        Line(rows, range(1, 1 + len(values)), values)
        for rows, values in losses.items()
        if len(values)
    ]
    if lines:
        drawn = [
            Plot("loss", "Loss while training", Axis("epoch"), Axis(label, True), lines)
        ]
    else:
        drawn = []
    if metric and monitor != "loss":
        axes = Axis("epoch"), Axis(f"{monitor} of the validation rows")
        lines = [Line("validation rows", [*metric], [*metric.values()])]
        if several:
            which = f"mean of {len(net.members)} networks"
        else:
            which = f"epoch {best} is the best"
        drawn.append(Plot("metric", f"{monitor} while training; {which}", *axes, lines))
    if best and drawn:
        values = [value for line in drawn[-1].lines for value in line.y]
        drawn[-1].lines.append(
            Line(
                f"epoch {best}, the best",
                [best, best],
                [min(values), max(values)],
                "rule",
            )
        )
    return drawn


def _again(net, model: str) -> list[Block]:
    """Return the command that makes the model, and the digest of its data."""
    data = net.dataset or {}
    if not data.get("path"):
        return ["The model does not say which file it was trained on."]
    if data.get("part"):
        return [
            f"The model was trained on some rows of {short_name(data['path'])}, and does not say which."
        ]
    if data.get("sha256"):
        digest = [f"SHA-256 of the data: {data['sha256']}"]
    else:
        digest = []
    return [command_of(net, model, short_name(data["path"])), *digest]


def command_of(net, model: str, data: str) -> str:
    """Return the command that trains the same network from a file of this name, without
    the folders of files."""
    config = net.config
    words = ["nn", "--train", "--dataset", data, "--model", basename(model)]
    usual = {
        "loss": TASKS[net.task][1],
        "backend": "omp",
        "scaling": "standardization",
        "seed": 0,
    }
    for name, value in {**_settings(net), **config.get("table", {})}.items():
        if name not in config.get("chosen", ()) and value not in (
            BY_NAME[name].default,
            usual.get(name),
        ):
            if value is True:
                words += [f"--{name}"]
            else:
                words += [f"--{name}", str(value)]
    if config.get("left_out"):
        words += ["--drop", ",".join(map(str, config["left_out"]))]
    if net.is_combined and not {"effort", "folds"} & {*config}:
        words += ["--networks", str(len(net.members))]
    return shlex.join(words)


def of_comparison(result: dict) -> Page:
    """Return the page of two models on the same rows. result: what `compared`
    returns."""
    one, other = result["models"]
    short = [basename(one), basename(other)]
    if short[0] == short[1]:
        short = [f"{short[0]} (1)", f"{short[1]} (2)"]
    verdict = result["verdict"].replace(one, short[0]).replace(other, short[1])
    headers = ["", *short, "difference", "95 % interval"]
    table = Table(f"{result['rows']} rows", headers, figures.comparison_lines(result))
    apart = [
        [
            str(row["row"]),
            str(row["true"]),
            *figures.disagreeing_texts(row, (one, other)),
        ]
        for row in result["disagree"]
    ]
    differ = Table("rows on which they differ most", ["row", "true", *short], apart, 0)
    return Page(" and ".join(short), [f"{verdict}."], {"Metrics": [table, differ]})
