"""Pictures of one model: its training, and its errors on a data set; for --plot and --report."""

from __future__ import annotations

import itertools

import numpy as np

from ..core.metrics import METRICS
from ..utils import UsageError
from .plot import INCHES, Picture, check_matplotlib, draw_picture, styles_of

MOST_POINTS = 20_000  # of a scatter plot; more of them would only make the file large


def of_model(net, ds=None, scores: np.ndarray | None = None) -> list[Picture]:
    """Draw the losses of a network's training; with a data set of a regression also its errors there.

    scores: the predictions, where they are not the network's (out of fold).
    """
    check_matplotlib()
    pictures = [_losses(net)] if net.history["loss"] else []
    if _known_metrics(net) and _monitor_of(net) != "loss":
        pictures.append(_monitored(net))
    if ds is not None and net.task == "regression":
        truth, predicted = (
            np.asarray(ds.y, np.float64).reshape(ds.rows, -1),
            (net.predict(ds.x) if scores is None else scores).astype(np.float64),
        )
        names = net.targets or [f"output {i}" for i in range(net.outputs)]
        pictures += [_predicted(truth, predicted, names), _histogram(truth, predicted, names)]
    if not pictures:
        raise UsageError("nothing to draw: the model holds no history; give a data set with --dataset")
    return pictures


def _losses(net):
    judged = "validation rows" if "val_metric" in net.history else "held-out rows"
    history = {"training rows": net.history["loss"], judged: net.history["val_loss"]}
    lines = {name: values for name, values in history.items() if values}

    def draw(places):
        (axes,) = places
        for (name, values), style in zip(lines.items(), styles_of(lines).values(), strict=True):
            style["marker"] = style["marker"] if len(values) <= 60 else ""
            axes.plot(range(1, len(values) + 1), values, label=name, **style)
        if _known_metrics(net) and _monitor_of(net) == "loss" and len(net.members) == 1:
            best = _best_epoch(net)
            axes.axvline(best, color="0.4", linestyle=":", label=f"epoch {best}, the best")
        values = np.concatenate(list(map(np.array, lines.values())))
        if values.min() > 0 and values.max() > 20 * values.min():
            axes.set_yscale("log")
        scaled = ", of scaled targets" if net.target_scaling is not None else ""
        axes.set(xlabel="epoch", ylabel=f"loss ({net.loss}{scaled})")
        axes.set_xlim(0.5, max(map(len, lines.values())) + 0.5)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title("Loss while training")

    return draw_picture("loss", "Loss after each epoch.", draw, inches=INCHES)


def _monitor_of(net) -> str:
    """Return the metric that chose the epoch, if there were validation rows."""
    name = net.config.get("monitor")
    return name if name in METRICS else "loss"


def _known_metrics(net) -> dict[int, float]:
    """Return the values of that metric by their epochs, from 1, as far as they are defined."""
    return {epoch: value for epoch, value in enumerate(net.history.get("val_metric") or [], 1) if value is not None}


def _best_epoch(net) -> int:
    known = _known_metrics(net)
    return (max if METRICS[_monitor_of(net)].higher_is_better else min)(known, key=known.get)


def _monitored(net):
    """Draw the metric that chose the epoch, and the epoch; of several networks, which each chose its own, the mean."""
    name, known, values = _monitor_of(net), _known_metrics(net), net.history["val_metric"]
    several = len(net.members) > 1

    def draw(places):
        (axes,) = places
        style = next(iter(styles_of([name]).values()))
        axes.plot(list(known), list(known.values()), **{**style, "marker": style["marker"] if len(known) <= 60 else ""})
        if not several:
            axes.axvline(_best_epoch(net), color=style["color"], linestyle=":")
        axes.set(xlabel="epoch", ylabel=f"{name} of the validation rows")
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.xaxis.get_major_locator().set_params(integer=True)
        subtitle = f"mean of {len(net.members)} networks" if several else f"epoch {_best_epoch(net)} is the best"
        axes.set_title(f"{name} while training; {subtitle}")

    return draw_picture("metric", f"The {name} after each epoch.", draw, inches=INCHES)


def _predicted(truth, predicted, names):
    every = -(-truth.size // MOST_POINTS)

    def draw(places):
        (axes,) = places
        low, high = min(truth.min(), predicted.min()), max(truth.max(), predicted.max())
        axes.plot([low, high], [low, high], color="0.5", linewidth=1, label="perfect prediction")
        for column, style in zip(range(truth.shape[1]), itertools.cycle(styles_of(map(str, range(7))).values())):  # noqa: B905
            axes.scatter(
                truth[::every, column], predicted[::every, column], s=8, alpha=0.5, linewidths=0,
                color=style["color"], marker=style["marker"], label=names[column],
            )  # fmt: skip
        axes.set(xlabel="true value (unit of the target)", ylabel="predicted value (unit of the target)")
        axes.set_title("Predicted against true")

    return draw_picture("predicted", "Predicted against true values.", draw, inches=INCHES)


def _histogram(truth, predicted, names):
    errors = predicted - truth

    def draw(places):
        (axes,) = places
        bins = np.histogram_bin_edges(errors, bins=min(60, max(10, int(len(errors) ** 0.5))))
        for column, style in zip(range(errors.shape[1]), itertools.cycle(styles_of(map(str, range(7))).values())):  # noqa: B905
            mean, deviation = errors[:, column].mean(), errors[:, column].std()
            label = f"{names[column]}: mean {mean:.3g}, deviation {deviation:.3g}"
            alpha = 1.0 if errors.shape[1] == 1 else 0.5
            axes.hist(errors[:, column], bins=bins, color=style["color"], alpha=alpha, label=label)
        axes.margins(y=0.15)  # room for the legend
        axes.set(xlabel="predicted - true (unit of the target)", ylabel="rows")
        axes.set_title("Errors")

    return draw_picture("errors", "Histogram of the errors.", draw, inches=INCHES)
