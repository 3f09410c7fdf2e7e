"""Test a network on a data set: the figures for two classes, several classes and
regression.

The figures themselves are in core/metrics.py. Two rules for what has no value: a rate
whose denominator is 0 is 0 (the original program's rule); a figure that means nothing
for these rows, such as the area under the curve of one class, is None. Both are said in
a warning.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..core.bootstrap import Sampling, intervals_and_by_target
from ..core.bootstrap import intervals as intervals_of
from ..core.metrics import (
    RATES,
    ClassCounts,
    Counts,
    Judged,
    are_constant,
    checked_weights,
    confusion_matrix,
    mcc_square,
)
from ..data.dataset import Dataset, as_read_by, name_of
from ..data.twins import twins_to_keep_together
from ..nn import Network
from ..nn.model import target_of
from ..nn_aux import ACTIVATIONS, TASKS, loss_of, metrics_told
from ..settings.values import check_is_number
from ..utils import DataError, NnError, RowError, UsageError, listed, log
from .sureness import Held, held
from .trained_rows import Trained

QUICK = "quick"  # intervals that cost a training next to nothing
QUICK_NAMES = {  # the metrics that have these: the first one and the loss
    "binary": ("roc_auc", "log_loss"),
    "multiclass": ("accuracy", "log_loss"),
    "multilabel": ("roc_auc", "log_loss"),
    "regression": ("rmse",),
}
QUICK_ROWS = 10_000
QUICK_RESAMPLES = 200
MOST_OF_ONE_ROW = 0.1  # of the squared error
# of fewer rows some row has more than a tenth of the squared error by nature
LEAST_ROWS_OF_A_TENTH = 30
remarks = log.getChild("figures")  # on figures that are undefined, or set to 0


@contextlib.contextmanager
def without_remarks() -> Iterator[None]:
    """Log no remarks: on figures that nobody sees."""

    def none(_record) -> bool:
        return False

    remarks.addFilter(none)
    try:
        yield
    finally:
        remarks.removeFilter(none)


def warn_of_trained(trained: Trained, model: str = "the model") -> None:
    """Log that figures are of rows that a model was trained on, where they are."""
    if trained.spoils_figures:
        meaning = "its figures on them say how well it knows them, not how good it is on new rows"
        log.warning("%s: %s", trained.warning(model), meaning)


def tested(
    net: Network,
    ds,
    *,
    threshold: float | None = None,
    intervals: bool = False,
    level: float | None = None,
) -> dict:
    """Return the figures of `test` on rows, whether the network was trained on them or
    not."""
    if not len(ds.x):
        raise DataError(f"{name_of(ds)}: found no rows to test, expected at least one")
    ds = without_weightless(ds)
    # not in the network's order: persistence needs a column that it may lack
    if isinstance(ds, Dataset) and ds.task == "regression":
        ds = ds.for_loss(net.loss)
    scores = scores_of(net, ds)
    figures = figures_of(net, ds, scores, threshold=threshold, intervals=intervals)
    truth, scores, weights = truth_and_scores(net, ds, scores)
    return with_held(figures, held(net, truth, scores, level), weights)


def with_held(figures: dict, coverage: Held | None, weights=None) -> dict:
    """Return figures with what intervals or sets hold, those of each target too."""
    if coverage is None:
        return figures
    of_targets = [
        target | coverage.of_target(number).figures(weights)
        for number, target in enumerate(figures.get("per_target", ()))
    ]
    by_target = {"per_target": of_targets} if of_targets else {}
    return figures | by_target | coverage.figures(weights)


def without_weightless(ds):
    """Return the rows of a data set whose weight is above 0, where it is one."""
    if isinstance(ds, Dataset):
        return ds.without_weightless()
    return ds


def scores_of(net: Network, ds, rows_before: int = 0) -> np.ndarray:
    """Return the outputs of `net` for the rows of `ds`, of whose data `rows_before`
    rows come before. Raises DataError that names the data and the row."""
    try:
        return net.predict(as_read_by(net, ds).x)
    except RowError as error:
        raise error.in_data(name_of(ds), rows_before) from None


def figures_of(
    net: Network,
    ds,
    scores: np.ndarray,
    *,
    threshold: float | None = None,
    intervals: bool | str = False,
    cuts=None,
    folds=None,
    sampling: Sampling | None = None,
) -> dict:
    """Return the figures of `test` for scores (rows, outputs) of the rows of `ds`,
    whoever predicted them.

    intervals: those of all metrics; QUICK: of the first metric and of the loss, by few
    resamples, and none of more than QUICK_ROWS rows. cuts (rows,): the threshold of
    each row of two classes, where they have thresholds of their own; `threshold` is
    reported then. folds (rows,): whose networks have scored each row, where areas
    compare rows of one fold. sampling: how rows are drawn for intervals, where not by
    their groups or times.
    """
    check_threshold(net, threshold)
    if threshold is None:
        threshold = net.threshold
    cuts = threshold if cuts is None else cuts
    truth, scores, weights = truth_and_scores(net, ds, scores)
    persistence = None
    if net.task == "regression":
        persistence = ds.persistence()
        rows = (truth, scores, ds.targets, persistence, weights)
        report = regression_report(*rows, net.loss)
        if truth.shape[1] > 1:
            report["per_target"] = figures_by_target(*rows, net.loss)
    elif net.task == "multilabel":
        report = multilabel_report(truth, scores, ds.targets, cuts, weights, folds)
        report["threshold"] = np.asarray(threshold, np.float64).tolist()
    elif net.task == "multiclass":
        report = multiclass_report(truth, scores, net.classes or ds.classes, weights)
    else:
        report = binary_report(truth, scores[:, 0], threshold, weights, cuts, folds)
    report["target"] = target_of(net)
    if getattr(ds, "exposures", None) is not None:
        report["exposure"] = ds.kept_choices.get("exposure", "exposure")
    left_out = getattr(ds, "left_out_rows", None)
    if left_out:
        report["left_out_rows"] = left_out
    if intervals and (intervals != QUICK or len(truth) <= QUICK_ROWS):
        judged_rows = Judged(
            net.task, truth, scores, cuts, persistence, folds, net.loss
        )
        weights = checked_weights(weights, len(truth))
        sampling = sampling or sampling_of(ds)
        names = _quick_names(net) if intervals == QUICK else None
        _add_intervals(report, judged_rows, weights, sampling, names)
    return report


def _quick_names(net: Network) -> list[str]:
    """Return the metrics that have intervals at the end of a training."""
    own = loss_of(net.loss).metric
    return [*QUICK_NAMES[net.task], *filter(None, [own])]


def _add_intervals(
    report: dict,
    judged_rows: Judged,
    weights: np.ndarray | None,
    sampling: Sampling,
    quick_names: Sequence[str] | None,
) -> None:
    """Add the intervals of all metrics to a report, those of each target to its part;
    of quick_names, where there are any, those of these metrics alone, by few
    resamples."""
    if quick_names is not None:
        how = {"names": quick_names, "resamples": QUICK_RESAMPLES}
        ends = intervals_of(judged_rows, weights, sampling=sampling, **how)
        report["intervals"] = _by_key(ends, report)
        return
    ends, of_targets = intervals_and_by_target(judged_rows, weights, sampling)
    for target, own in zip(report.get("per_target", ()), of_targets, strict=True):
        target["intervals"] = _by_key(own, target)
    report["intervals"] = _by_key(ends, report)


def _by_key(intervals: dict, report: dict) -> dict:
    """Return the intervals of metrics by their names in a report; None where the metric
    is undefined."""
    by_key = {}
    for name, ends in intervals.items():
        is_undefined = name in report and report[name] is None
        key = name
        if name in report.get("macro", ()):
            key = f"macro_{name}"
        by_key[key] = None if is_undefined else ends
    return by_key


def sampling_of(ds) -> Sampling:
    """Return how rows of a data set are drawn again for an interval: by its groups, or
    by its times."""
    return Sampling(len(ds.x), getattr(ds, "groups", None), getattr(ds, "times", None))


def sampling_of_copies(ds, rows: np.ndarray) -> Sampling | None:
    """Return how these rows are drawn for intervals where some are copies of each
    other, which tell no more than one of them; None where they are drawn as other rows
    are."""
    if ds.groups is not None or ds.times is not None:
        return None
    sets = twins_to_keep_together(ds, rows)
    if sets is None:
        return None
    return Sampling(len(rows), groups=sets)


def truth_and_scores(
    net: Network, ds, scores: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return (truth, scores, weights or None) of the rows of `ds`, checked; scores
    (rows, outputs): those that are given, or the network's."""
    if scores is None:
        scores = scores_of(net, ds)
    truth = _truth(net, ds)
    _check_fit(net, ds, truth, scores.shape[1])
    bad = len(scores) - np.count_nonzero(np.isfinite(scores).all(axis=1))
    if bad:
        raise NnError(
            f"{name_of(ds)}: the network's output is not finite for {bad} of {len(scores)} rows:"
            " train it again with a smaller learning rate or with scaling"
        )
    return truth, scores, getattr(ds, "weights", None)


# ------------------------------------------------------------------------------ reports


def binary_report(
    truth: np.ndarray,
    scores: np.ndarray,
    threshold: float,
    weights=None,
    cuts=None,
    folds=None,
) -> dict:
    """Return all figures for two classes: truth (rows,) of 0 and 1, scores (rows,) of
    class 1, weights (rows,); cuts and folds as figures_of takes them."""
    if cuts is None:
        cuts = threshold
    judged = Judged("binary", truth, scores, cuts, folds=folds)
    weights = checked_weights(weights, len(truth))
    counts = judged.counts(weights)
    _warn_zero_rates(counts, threshold)
    if not (counts.tp + counts.fn and counts.tn + counts.fp):
        remarks.warning("roc_auc and pr_auc are undefined: all rows are of one class")
    _warn_no_probabilities(judged.are_probabilities)
    rows = _rows(len(truth), weights is not None)
    return {
        **rows,
        "threshold": float(threshold),
        **counts._asdict(),
        **judged.values(weights),
    }


def _rows(rows: int, weighted: bool) -> dict:
    if weighted:
        return {"rows": rows, "weighted": True}
    return {"rows": rows}


def multiclass_report(
    truth: np.ndarray,
    scores: np.ndarray,
    classes: Sequence[str] | None = None,
    weights=None,
) -> dict:
    """Return all figures for several classes: truth (rows,) class indices, scores
    (rows, classes), weights (rows,).

    classes: their names; without one for each output they are named by number. `macro`
    is the plain mean over the classes that are in the data or are predicted.
    """
    judged = Judged("multiclass", truth, scores)
    weights = checked_weights(weights, len(truth))
    outputs = scores.shape[1]
    if not classes or len(classes) != outputs:
        classes = range(outputs)
    names = list(map(str, classes))
    counts = judged.classes(weights)
    values = judged.values(weights)
    _warn_zero_classes(counts, names)
    _warn_no_probabilities(judged.are_probabilities)
    return {
        **_rows(len(truth), weights is not None),
        "accuracy": values.pop("accuracy"),
        "macro": {rate: values.pop(rate) for rate in RATES},
        "confusion": confusion_matrix(
            judged.truth, judged.predicted, outputs, weights
        ).tolist(),
        "per_class": [
            {
                "class": name,
                **{rate: formula(class_counts) for rate, formula in RATES.items()},
                "support": rows,
            }
            for name, class_counts, rows in zip(
                names, counts.against_the_rest(), counts.support, strict=True
            )
        ],
        **values,
    }


def multilabel_report(
    truth: np.ndarray,
    scores: np.ndarray,
    targets: Sequence[str] | None = None,
    cuts=None,
    weights=None,
    folds=None,
) -> dict:
    """Return all figures for several targets of two classes: truth, of 0 and 1, and
    scores (rows, targets), weights (rows,); cuts and folds as figures_of takes them.
    `per_target` has the figures of each."""
    judged = Judged("multilabel", truth, scores, cuts, folds=folds)
    weights = checked_weights(weights, len(truth))
    _warn_no_probabilities(judged.are_probabilities)
    names = targets or list(map(str, range(truth.shape[1])))
    alike = [
        name
        for name, target in zip(names, judged.by_target, strict=True)
        if len(np.unique(target.truth)) < 2
    ]
    if alike:
        remarks.warning(
            "roc_auc and pr_auc are undefined, and not in the means, where all rows are "
            "of one class: %s",
            listed(alike),
        )
    return {
        **_rows(len(truth), weights is not None),
        **judged.values(weights),
        "per_target": [
            {
                "target": name,
                **target.counts(own)._asdict(),
                **target.values(own),
            }
            for name, (target, own) in zip(
                names, judged.of_targets(weights), strict=True
            )
        ],
    }


def regression_report(
    truth: np.ndarray,
    predicted: np.ndarray,
    targets: Sequence[str] | None = None,
    persistence: np.ndarray | None = None,
    weights=None,
    loss: str | None = None,
) -> dict:
    """Return all figures for numbers: truth, predicted and persistence (rows, outputs),
    in the same units.

    mse, mae and rmse (the root of mse) average over all entries, r2 over the outputs.
    persistence, the forecast that nothing changes, adds its rmse and the skill, 1 -
    rmse / persistence_rmse (Marquez and Coimbra 2013). weights (rows,). loss: as Judged
    has it.
    """
    weights = checked_weights(weights, len(truth))
    with np.errstate(all="ignore"):  # what leaves float64's range becomes None below
        judged = Judged(
            "regression", truth, predicted, persistence=persistence, loss=loss
        )
        figures = judged.values(weights)
    constant = are_constant(judged.truth)
    told = metrics_told(figures)
    if constant.any() and "r2" in told:
        names = listed(
            [targets[i] if targets else f"output {i}" for i in np.flatnonzero(constant)]
        )
        remarks.warning(
            "r2 is undefined: the true value is the same in all rows for %s", names
        )
    # a relu at the end that is 0 learns no more
    if len(truth) > 1 and (are_constant(judged.scores) & ~constant).any():
        remarks.warning(
            "the network gives the same value for every row; train it with another --seed, a smaller"
            " --learning_rate, --init glorot or a linear output layer"
        )
    if "rmse" in told:
        _remark_on_one_large_error(judged.truth, judged.scores, weights)
    if (figures.get("skill") or 0) < 0:
        remarks.warning(
            "the skill is below 0: the forecast that nothing changes is better than the network"
        )
    undefined = {name for name in told if figures[name] is None}
    undefined.discard("skill")
    if constant.any():
        undefined.discard("r2")
    if undefined:
        remarks.warning(
            "%s undefined: squares of such large or small values leave float64's range",
            listed([name for name in figures if name in undefined]),
        )
    return {**_rows(len(truth), weights is not None), **figures}


@np.errstate(all="ignore")  # what leaves float64's range becomes None
def figures_by_target(
    truth,
    predicted,
    targets: Sequence[str] | None = None,
    persistence=None,
    weights=None,
    loss: str | None = None,
) -> list:
    """Return the figures of each target, a dictionary with its name or number under
    `target`; of several quantiles those of each, with the share of rows whose target is
    not above it. Arguments as those of regression_report."""
    weights = checked_weights(weights, len(truth))
    judged = Judged("regression", truth, predicted, persistence=persistence, loss=loss)
    names = targets or list(map(str, range(truth.shape[1])))
    by_target = []
    for name, values in zip(names, judged.values_of_targets(weights), strict=True):
        figures = {"target": name, **values}
        if "below" in values:
            figures["coverage"] = values["below"]
        by_target.append(figures)
    return by_target


def _remark_on_one_large_error(
    truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None
) -> None:
    """Log which row has more than a tenth of the squared error; truth and predicted
    (rows, outputs)."""
    if len(truth) < LEAST_ROWS_OF_A_TENTH:
        return
    with np.errstate(all="ignore"):
        squares = np.where(np.isnan(truth), 0.0, (predicted - truth) ** 2)
        row_squares = squares.sum(axis=1)
        if weights is not None:
            row_squares = row_squares * weights
        row = int(row_squares.argmax())
        share = row_squares[row] / row_squares.sum()
    if share > MOST_OF_ONE_ROW:
        output = int(squares[row].argmax())
        remarks.warning(
            "one of %d rows makes %.0f %% of the squared error (true %.6g, predicted %.6g): see the MAE of all rows",
            len(truth),
            100 * share,
            truth[row, output],
            predicted[row, output],
        )


# ------------------------------------------------------------------------------- checks


def check_threshold(net: Network, threshold: float | list[float] | None) -> None:
    """Raise UsageError for a score that cannot decide about class 1, of several targets
    about one; None: the network's own."""
    if threshold is None:
        return
    has_one_each = isinstance(threshold, list) and len(threshold) == net.outputs
    if has_one_each and net.outputs > 1:
        for one in threshold:
            check_threshold(net, one)
        return
    check_is_number(threshold)
    if not math.isfinite(threshold):
        raise UsageError(
            f"--threshold {threshold}: expected a finite number, such as 0.5"
        )
    if net.task not in ("binary", "multilabel"):
        raise UsageError(
            f"--threshold {threshold:g}: is for two classes, the task is {net.task}; leave it out"
        )
    output = ACTIVATIONS[net.layers[-1].output_function]
    if not output.low <= threshold <= output.high:
        scores = f"the scores are from {output.low:g} to {output.high:g}"
        raise UsageError(
            f"--threshold {threshold:g}: {scores}, so all rows would be of one class; give one of these"
        )


def _truth(net: Network, ds) -> np.ndarray:
    """Return ds.y as `net` counts it: class indices (rows,), or (rows, outputs) float64
    for regression. Raises DataError for rows without a target, or whose target is an
    input of the network."""
    if ds.y is None:
        raise DataError(f"{name_of(ds)}: no target, expected one to test by; add it")
    ds.check_pictures(getattr(net, "pictures", None))
    inputs = set(getattr(net, "columns", None) or ()).difference(
        getattr(net, "targets", None) or ()
    )
    for name in inputs.intersection(ds.targets or ()):
        raise DataError(
            f"{name_of(ds)}: the target is {name}, an input of the network, expected another column; "
            "read the data with nn.load_for(net, ...)"
        )
    if _kind_of(net.task) != _kind_of(ds.task):
        raise UsageError(
            f"{name_of(ds)}: the network's task is {net.task}, the data were loaded as {ds.task};"
            f" load them with task={net.task!r}"
        )
    if not TASKS[net.task].by_output:
        is_renumbered = (
            net.classes and ds.classes and list(net.classes) != list(ds.classes)
        )
        if is_renumbered:
            return _renumbered(ds, net.classes)
        return np.asarray(ds.y)
    return np.asarray(ds.y, np.float64).reshape(len(ds.x), -1)


def _kind_of(task: str) -> tuple:
    """Return what targets are like, which networks of one kind share."""
    kind = TASKS.get(task)
    return kind and (kind.of_classes, kind.by_output)


def _renumbered(ds, classes: Sequence[str]) -> np.ndarray:
    """Return ds.y numbered by `classes`: data that lack a class number the others
    differently."""
    index = {name: i for i, name in enumerate(classes)}
    lookup = np.array([index.get(name, -1) for name in ds.classes])
    truth = lookup[ds.y]
    unknown = np.flatnonzero(truth < 0)
    if unknown.size:
        unknown_class = ds.classes[ds.y[unknown[0]]]
        raise DataError(
            f"{name_of(ds)}: found class {unknown_class!r}, expected one of the network's: {listed(classes)}"
        )
    return truth


def _check_fit(net: Network, ds, truth: np.ndarray, outputs: int) -> None:
    """Raise DataError or UsageError unless the outputs match the targets in number, and
    every class has an output."""
    if TASKS[net.task].by_output:
        if truth.shape[1] != outputs:
            raise DataError(
                f"{name_of(ds)}: found {truth.shape[1]} target columns, expected {outputs},"
                " one for each output of the network"
            )
        return
    if net.task == "binary" and outputs != 1:
        raise UsageError(
            f"the network's task is binary, which takes one output, but it has {outputs}: use task='multiclass'"
        )
    classes = outputs
    if net.task == "binary":
        classes = 2
    unknown = truth[(truth < 0) | (truth >= classes)]
    if unknown.size:
        raise DataError(
            f"{name_of(ds)}: found class number {unknown[0]}, expected 0 to {classes - 1}:"
            " the network has no output for more"
        )


# ----------------------------------------------------------------------------- warnings


def _warn_zero_rates(counts: Counts, threshold: float) -> None:
    """Warn of rates whose denominator is 0, and name the empty row or column of the
    counts."""
    tp, fp, fn, tn = counts
    denominators = {
        "precision": tp + fp,
        "recall": tp + fn,
        "f1": 2 * tp + fp + fn,
        "mcc": mcc_square(counts),
    }
    rows = {
        f"no row scores {threshold:g} or more": tp + fp,
        f"no row scores below {threshold:g}": fn + tn,
        "no row is positive": tp + fn,
        "no row is negative": fp + tn,
    }
    zero = [rate for rate, denominator in denominators.items() if not denominator]
    if zero:
        reasons = " and ".join(reason for reason, count in rows.items() if not count)
        remarks.warning("%s set to 0 (denominator 0): %s", listed(zero), reasons)


def _warn_no_probabilities(are_known: bool) -> None:
    if not are_known:
        remarks.warning(
            "log_loss and brier are undefined: the network's outputs are no probabilities"
        )


def _warn_zero_classes(counts: ClassCounts, names: Sequence[str]) -> None:
    """Warn in one line of rates whose denominator is 0 for some class."""
    never_predicted = []
    absent = []
    neither = []
    for name, predicted, rows in zip(
        names, counts.predicted, counts.support, strict=True
    ):
        if not predicted:
            never_predicted.append(name)
        if not rows:
            absent.append(name)
        if not predicted and not rows:
            neither.append(name)
    zeros = []
    if never_predicted:
        zeros.append(f"precision of {listed(never_predicted)} (never predicted)")
    if absent:
        zeros.append(f"recall of {listed(absent)} (not in the data)")
    if neither:
        zeros.append(f"f1 of {listed(neither)} (neither)")
    if zeros:
        remarks.warning("set to 0 (denominator 0): %s", "; ".join(zeros))
