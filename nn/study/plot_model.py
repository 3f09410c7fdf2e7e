"""Pictures of one model: its training, its errors on rows of a regression, the curves or the confusion of a test."""

from __future__ import annotations

import numpy as np

from ..core.thresholds import cut_offs
from ..nn_aux import METRICS
from ..utils import UsageError
from .plot import COLOURS, INCHES, MARKERS, Picture, check_matplotlib, drawing, styles_of

MOST_POINTS = 20_000  # of a scatter plot; more of them would only make the file large
GRID = 1000  # steps of a curve in either direction, for the same reason
BINS = 40
MOST_MARKED = 60  # epochs whose values have markers
MOST_NUMBERED = 15  # classes whose cells of the heat map hold their numbers
MOST_NAMED = 20
MOST_LETTERS = 14  # of a class name beside the heat map


def of_model(net, ds=None, scores: np.ndarray | None = None) -> list[Picture]:
    """Draw the losses of a network's training; with a data set of a regression also its errors there.

    scores: the predictions, where they are not the network's (out of fold).
    """
    check_matplotlib()
    pictures = _training(net)
    if ds is not None and net.task == "regression":
        truth = np.asarray(ds.y, np.float64).reshape(ds.rows, -1)
        predicted = (net.predict(ds.x) if scores is None else scores).astype(np.float64)
        names = net.targets or [f"output {i}" for i in range(net.outputs)]
        pictures += [_predicted(truth, predicted, names), _errors(predicted - truth, names)]
    if not pictures:
        raise UsageError("nothing to draw: the model holds no history; give a data set with --dataset")
    return pictures


# ---------------------------------------------------------------- training


def _training(net) -> list[Picture]:
    """Draw the losses, and the metric that chose the epoch where that is no loss; the best epoch is marked.

    Of several networks, which each chose its own epoch, the metric is the mean, and none is marked.
    """
    history, several, pictures = net.history, len(net.members) > 1, []
    monitor = net.config.get("monitor") if net.config.get("monitor") in METRICS else "loss"
    metric = {epoch: value for epoch, value in enumerate(history.get("val_metric") or [], 1) if value is not None}
    best = metric and (max if METRICS[monitor].higher_is_better else min)(metric, key=metric.get)
    if history["loss"]:
        judged = "validation rows" if "val_metric" in history else "held-out rows"
        lines = {"training rows": history["loss"], judged: history["val_loss"]}
        lines = {name: dict(enumerate(values, 1)) for name, values in lines.items() if values}
        scaled = ", of scaled targets" if net.target_scaling is not None else ""
        labels = {"title": "Loss while training", "ylabel": f"loss ({net.loss}{scaled})"}
        mark = best if monitor == "loss" and not several else None
        values = [value for line in lines.values() for value in line.values()]
        if min(values) > 0 and max(values) > 20 * min(values):
            labels["yscale"] = "log"
        pictures.append(_by_epoch("loss", "Loss after each epoch.", lines, mark, **labels))
    if metric and monitor != "loss":
        subtitle = f"mean of {len(net.members)} networks" if several else f"epoch {best} is the best"
        labels = {"title": f"{monitor} while training; {subtitle}", "ylabel": f"{monitor} of the validation rows"}
        caption = f"The {monitor} after each epoch."
        pictures.append(_by_epoch("metric", caption, {"validation rows": metric}, None if several else best, **labels))
    return pictures


def _by_epoch(name: str, caption: str, lines: dict[str, dict], best: int | None, **labels) -> Picture:
    """Draw lines of {epoch: value}."""
    last = max(max(line) for line in lines.values())
    with drawing(name, caption, inches=INCHES, xlabel="epoch", xlim=(0.5, last + 0.5), **labels) as picture:
        (axes,) = picture.axes
        for (label, line), style in zip(lines.items(), styles_of(lines).values(), strict=True):
            style["marker"] = style["marker"] if len(line) <= MOST_MARKED else ""
            axes.plot(list(line), list(line.values()), label=label, **style)
        if best:
            axes.axvline(best, color="0.4", linestyle=":", label=f"epoch {best}, the best")
        axes.xaxis.get_major_locator().set_params(integer=True)
    return picture


# ---------------------------------------------------------------- regression


def _predicted(truth: np.ndarray, predicted: np.ndarray, names: list[str]) -> Picture:
    every, unit = -(-truth.size // MOST_POINTS), "value (unit of the target)"
    labels = {"title": "Predicted against true", "xlabel": f"true {unit}", "ylabel": f"predicted {unit}"}
    with drawing("predicted", "Predicted against true values.", inches=INCHES, **labels) as picture:
        (axes,) = picture.axes
        ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
        axes.plot(ends, ends, color="0.5", linewidth=1, label="perfect prediction")
        for column in range(truth.shape[1]):
            look = {"color": COLOURS[column % len(COLOURS)], "marker": MARKERS[column % len(MARKERS)]}
            points = truth[::every, column], predicted[::every, column]
            axes.scatter(*points, s=8, alpha=0.5, linewidths=0, label=names[column], **look)
    return picture


def _errors(errors: np.ndarray, names: list[str]) -> Picture:
    bins = np.histogram_bin_edges(errors, bins=min(60, max(10, int(len(errors) ** 0.5))))
    labels = {"title": "Errors", "xlabel": "predicted - true (unit of the target)", "ylabel": "rows"}
    with drawing("errors", "Histogram of the errors.", inches=INCHES, **labels) as picture:
        (axes,) = picture.axes
        for column, values in enumerate(errors.T):
            label = f"{names[column]}: mean {values.mean():.3g}, deviation {values.std():.3g}"
            look = {"color": COLOURS[column % len(COLOURS)], "alpha": 1.0 if errors.shape[1] == 1 else 0.5}
            axes.hist(values, bins=bins, label=label, **look)
        axes.margins(y=0.15)  # room for the legend
    return picture


# ---------------------------------------------------------------- two classes


def of_two_classes(result: dict, truth: np.ndarray, scores: np.ndarray, weights, classes: list[str]) -> list[Picture]:
    """Draw precision over recall, the ROC curve and the scores of both classes, the threshold marked.

    result: the figures of `test`; truth (rows,) of 0 and 1, scores (rows,), weights (rows,) or None. A curve needs
    rows of both classes.
    """
    check_matplotlib()
    pictures = [_scores(result, truth, scores, weights, classes)]
    if result["roc_auc"] is None:
        return pictures
    cuts = cut_offs(truth, scores, weights)
    recall, precision, false_alarms = cuts.recall, cuts.precision, cuts.fp / cuts.fp[-1]
    precision[0] = precision[1]  # no row, no precision: the curve begins at the first row's
    share = (cuts.tp[-1] / (cuts.tp[-1] + cuts.fp[-1])).item()
    chance = [0, 1], [share, share], f"by chance {share:.3g}"
    used = result["recall"], result["precision"], f"threshold {result['threshold']:.4g}"
    labels = {"xlabel": "recall", "ylabel": "precision", "xlim": (0, 1.02), "title": "Precision and recall"}
    caption = "Precision over recall, for every threshold."
    line = recall, precision, f"area {result['pr_auc']:.4f}"
    first = _curve("precision-recall", caption, line, chance, used, drawstyle="steps-pre", **labels)
    chance = [0, 1], [0, 1], "by chance"
    used = result["fp"] / (result["fp"] + result["tn"]), result["recall"], used[-1]
    labels = {"xlabel": "false positive rate", "ylabel": "true positive rate (recall)", "title": "ROC curve"}
    caption = "True positive rate over false positive rate, for every threshold."
    line = false_alarms, recall, f"area {result['roc_auc']:.4f}"
    return [first, _curve("roc", caption, line, chance, used, xlim=(-0.02, 1.02), **labels), *pictures]


def _curve(name: str, caption: str, line: tuple, chance: tuple, used: tuple, drawstyle="default", **labels) -> Picture:
    """Draw a curve of all thresholds, that of chance, and the point of the threshold that is used: each (x, y, label).

    Of the points those are drawn that can be told from the one before them, the first and the last always.
    """
    with drawing(name, caption, inches=INCHES, ylim=(0, 1.02), **labels) as picture:
        (axes,) = picture.axes
        x, y, label = line
        moved = (np.diff(np.round(GRID * np.stack([x, y])), axis=1) != 0).any(axis=0)
        kept = np.concatenate([[True], moved[:-1], [True]])
        axes.plot(x[kept], y[kept], color=COLOURS[0], drawstyle=drawstyle, label=label)
        axes.plot(*chance[:2], color="0.5", linestyle=":", label=chance[2])
        look = {"color": COLOURS[1], "marker": "o", "markersize": 9, "linestyle": "none", "clip_on": False, "zorder": 5}
        axes.plot([used[0]], [used[1]], label=used[2], **look)
    return picture


def _scores(result: dict, truth: np.ndarray, scores: np.ndarray, weights, classes: list[str]) -> Picture:
    scores = scores.astype(np.float64)
    ends = (0.0, 1.0) if scores.min() >= 0 and scores.max() <= 1 else (scores.min(), scores.max())
    edges = np.histogram_bin_edges(scores, BINS, ends)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    labels = {"title": "Scores by class", "xlabel": "score", "ylabel": "share of the class's rows", "yscale": "log"}
    with drawing("scores", "Distribution of the scores of each class.", inches=INCHES, **labels) as picture:
        (axes,) = picture.axes
        for label, name in enumerate(classes):
            of_class = truth == label
            if (total := weights[of_class].sum()) > 0:
                look = {"color": COLOURS[label], "histtype": "stepfilled", "alpha": 0.45, "label": f"class {name}"}
                axes.hist(scores[of_class], edges, weights=weights[of_class] / total, **look)
        axes.axvline(result["threshold"], color="0.2", linestyle="--", label=f"threshold {result['threshold']:.4g}")
        axes.set_ylim(top=20)  # room for the legend
        axes.set_yticks([tick for tick in axes.get_yticks() if axes.get_ylim()[0] <= tick <= 1])
    return picture


# ---------------------------------------------------------------- several classes


def of_several_classes(result: dict) -> list[Picture]:
    """Draw the confusion matrix of `test` as a heat map: each true class's rows by predicted class."""
    check_matplotlib()
    confusion = np.array(result["confusion"], np.float64)
    names = [row["class"] for row in result["per_class"]]
    share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1e-300)
    caption = "Rows of each true class by predicted class; darker is more of the class."
    labels = {"title": "Confusion", "xlabel": "predicted class", "ylabel": "true class", "aspect": "equal"}
    with drawing("confusion", caption, inches=(5.4, 4.6), **labels) as picture:
        (axes,) = picture.axes
        axes.grid(False)
        places = np.arange(len(names))
        filled = np.ma.masked_equal(share, 0)  # cells are shapes, and no picture in the picture: only those with rows
        cells = axes.pcolormesh(places, places, filled, cmap="Blues", vmin=0, vmax=1, shading="nearest")
        axes.invert_yaxis()
        bar = axes.figure.colorbar(cells, label="share of the true class", shrink=0.85)
        bar.solids.set_rasterized(False)
        bar.solids.set_edgecolor("face")  # no light lines between the colours
        if len(names) <= MOST_NUMBERED:
            _number_cells(axes, confusion, share)
        ticks = places[:: -(-len(names) // MOST_NAMED)]
        # a long name without its middle: ends differ more often than beginnings
        shown = [name if len(name) <= MOST_LETTERS else f"{name[:8]}…{name[-5:]}" for name in np.array(names)[ticks]]
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, shown)) > 3 else {}
        axes.set_xticks(ticks, shown, **slanted)
        axes.set_yticks(ticks, shown)
    return [picture]


def _number_cells(axes, confusion: np.ndarray, share: np.ndarray) -> None:
    size = 9 if len(confusion) <= 10 else 7
    for (row, column), count in np.ndenumerate(confusion):
        colour = "white" if share[row, column] > 0.55 else "0.15"
        axes.text(column, row, f"{count:.0f}", ha="center", va="center", fontsize=size, color=colour)
