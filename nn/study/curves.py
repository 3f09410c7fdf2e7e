"""Pictures of a test: what every threshold would give for two classes, the confusion of several."""

from __future__ import annotations

import numpy as np

from ..core.thresholds import CutOffs, cut_offs
from ..terminal.figures import rate_text
from .plot import COLOURS, INCHES, Picture, check_matplotlib, draw_picture

GRID = 1000  # steps of a curve in either direction; more would only make the file large
BINS = 40
MOST_NUMBERED = 15  # classes whose cells of the heat map hold their numbers
MOST_NAMED = 20
MOST_LETTERS = 14  # of a class name beside the heat map


def of_two_classes(result: dict, truth: np.ndarray, scores: np.ndarray, weights, classes: list[str]) -> list[Picture]:
    """Draw precision over recall, the ROC curve and the scores of both classes, the threshold marked.

    result: the figures of `test`; truth (rows,) of 0 and 1, scores (rows,), weights (rows,) or None. A curve needs
    rows of both classes.
    """
    check_matplotlib()
    cuts = cut_offs(truth, scores, weights)
    curves = [_precision_recall(result, cuts), _roc(result, cuts)] if result["roc_auc"] is not None else []
    return [*curves, _scores(result, truth, scores, weights, classes)]


def _precision_recall(result: dict, cuts: CutOffs) -> Picture:
    recall, precision = cuts.recall, cuts.precision
    precision[0] = precision[1]  # no row, no precision: the curve begins at the first row's
    kept = _visible(recall, precision)
    share = (cuts.tp[-1] / (cuts.tp[-1] + cuts.fp[-1])).item()

    def draw(places):
        (axes,) = places
        label = f"area {result['pr_auc']:.4f}"
        axes.plot(recall[kept], precision[kept], color=COLOURS[0], drawstyle="steps-pre", label=label)
        axes.axhline(share, color="0.5", linestyle=":", label=f"by chance {share:.3g}")
        _mark(axes, result, result["recall"], result["precision"])
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
        axes.set_title("Precision and recall")

    return draw_picture("precision-recall", "Precision over recall, for every threshold.", draw, inches=INCHES)


def _roc(result: dict, cuts: CutOffs) -> Picture:
    recall, alarms = cuts.recall, cuts.fp / cuts.fp[-1]
    kept = _visible(alarms, recall)

    def draw(places):
        (axes,) = places
        axes.plot(alarms[kept], recall[kept], color=COLOURS[0], label=f"area {result['roc_auc']:.4f}")
        axes.plot([0, 1], [0, 1], color="0.5", linestyle=":", label="by chance")
        negatives = result["fp"] + result["tn"]
        _mark(axes, result, result["fp"] / negatives, result["recall"])
        axes.set(xlabel="false positive rate", ylabel="true positive rate (recall)")
        axes.set(xlim=(-0.02, 1.02), ylim=(0, 1.02))
        axes.set_title("ROC curve")

    return draw_picture("roc", "True positive rate over false positive rate, for every threshold.", draw, inches=INCHES)


def _mark(axes, result: dict, x: float, y: float) -> None:
    style = {"color": COLOURS[1], "marker": "o", "markersize": 9, "linestyle": "none", "clip_on": False, "zorder": 5}
    axes.plot([x], [y], label=f"threshold {result['threshold']:.4g}", **style)


def _visible(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return which points of a curve can be told from the one before them; the first and last always."""
    cells = np.round(GRID * np.stack([x, y])).astype(np.int64)
    moved = (np.diff(cells, axis=1) != 0).any(axis=0)
    return np.concatenate([[True], moved[:-1], [True]]) if len(x) > 1 else np.ones(len(x), bool)


def _scores(result: dict, truth: np.ndarray, scores: np.ndarray, weights, classes: list[str]) -> Picture:
    scores = scores.astype(np.float64)
    ends = (0.0, 1.0) if scores.min() >= 0 and scores.max() <= 1 else (scores.min(), scores.max())
    edges = np.histogram_bin_edges(scores, BINS, ends)
    each = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)

    def draw(places):
        (axes,) = places
        for label, name in enumerate(classes):
            own = truth == label
            if each[own].sum() > 0:
                share = each[own] / each[own].sum()
                style = {"color": COLOURS[label], "histtype": "stepfilled", "alpha": 0.45}
                axes.hist(scores[own], edges, weights=share, label=f"class {name}", **style)
        axes.axvline(result["threshold"], color="0.2", linestyle="--", label=f"threshold {result['threshold']:.4g}")
        axes.set_yscale("log")
        axes.set_ylim(top=20)  # room for the legend
        axes.set_yticks([tick for tick in axes.get_yticks() if axes.get_ylim()[0] <= tick <= 1])
        axes.set(xlabel="score", ylabel="share of the class's rows")
        axes.set_title("Scores by class")

    return draw_picture("scores", "Distribution of the scores of each class.", draw, inches=INCHES)


# ---------------------------------------------------------------- several classes


def of_several_classes(result: dict) -> list[Picture]:
    """Draw the confusion matrix of `test` as a heat map: each true class's rows by predicted class."""
    check_matplotlib()
    confusion = np.array(result["confusion"], np.float64)
    names = [row["class"] for row in result["per_class"]]
    share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1e-300)

    def draw(parts):
        (axes,) = parts
        axes.grid(False)
        places = np.arange(len(names))
        filled = np.ma.masked_equal(share, 0)  # cells are shapes, and no picture in the picture: only those with rows
        cells = axes.pcolormesh(places, places, filled, cmap="Blues", vmin=0, vmax=1, shading="nearest")
        axes.set_aspect("equal")
        axes.invert_yaxis()
        bar = axes.figure.colorbar(cells, label="share of the true class", shrink=0.85)
        bar.solids.set_rasterized(False)
        bar.solids.set_edgecolor("face")  # no light lines between the colours
        if len(names) <= MOST_NUMBERED:
            _number_cells(axes, confusion, share)
        ticks = range(len(names)) if len(names) <= MOST_NAMED else range(0, len(names), -(-len(names) // MOST_NAMED))
        labels = [_short(names[k]) for k in ticks]
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, labels)) > 3 else {}
        axes.set_xticks(list(ticks), labels, **slanted)
        axes.set_yticks(list(ticks), labels)
        axes.set(xlabel="predicted class", ylabel="true class")
        axes.set_title("Confusion")

    caption = "Rows of each true class by predicted class; darker is more of the class."
    return [draw_picture("confusion", caption, draw, inches=(5.4, 4.6))]


def _short(name: str) -> str:
    """Return a name without its middle where it is long: ends differ more often than beginnings."""
    return name if len(name) <= MOST_LETTERS else f"{name[:8]}…{name[-5:]}"


def _number_cells(axes, confusion: np.ndarray, share: np.ndarray) -> None:
    size = 9 if len(confusion) <= 10 else 7
    for (row, column), count in np.ndenumerate(confusion):
        colour = "white" if share[row, column] > 0.55 else "0.15"
        axes.text(column, row, f"{count:.0f}", ha="center", va="center", fontsize=size, color=colour)


# ---------------------------------------------------------------- the table of thresholds

USUAL_THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)


def threshold_table(
    result: dict, truth: np.ndarray, scores: np.ndarray, weights, costs: tuple[float, float] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return (headers, lines) of what several thresholds give, the one of the test marked.

    costs: of a false alarm and of a missed row, which add a column.
    """
    cuts = cut_offs(truth, scores, weights)
    rows = (cuts.tp[-1] + cuts.fp[-1]).item()
    headers = ["threshold", "precision", "recall", "F1", "alarms per 1000 rows", *(["cost"] if costs else [])]
    lines = []
    for threshold in sorted({*_usual_thresholds(scores), result["threshold"]}):
        k = int((cuts.scores >= threshold).sum()) - 1  # cut-offs fall, the first is inf
        figures = [column[k] for column in (cuts.precision, cuts.recall, cuts.fbeta(1))]
        alarms = 1000 * (cuts.tp[k] + cuts.fp[k]) / rows
        mark = " (used)" if threshold == result["threshold"] else ""
        line = [f"{threshold:.4g}{mark}", *map(rate_text, figures), f"{alarms:.1f}"]
        lines.append(line + ([f"{cuts.cost(*costs)[k]:g}"] if costs else []))
    return headers, lines


def _usual_thresholds(scores: np.ndarray) -> list[float]:
    """Return thresholds that people ask for; of scores that are no probabilities, tenths of their range."""
    if scores.min() >= 0 and scores.max() <= 1:
        return list(USUAL_THRESHOLDS)
    return np.linspace(scores.min(), scores.max(), 11, dtype=np.float64).tolist()
