"""The rows of a cross-validation, each predicted by the networks that do not know it,
and `test`, which judges rows of a network's training so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from ..data.dataset import Dataset, name_of
from ..data.frames import open_frame
from ..data.loading import load_for
from ..nn import Network, remember
from ..nn.crossed import Crossed
from ..nn_aux import METRICS, metrics_told
from ..utils import DataError, log, logged_once, network_of
from .reports import (
    check_threshold,
    figures_of,
    remarks,
    sampling_of_copies,
    tested,
    truth_and_scores,
    warn_of_trained,
    with_held,
    without_remarks,
    without_weightless,
)
from .sureness import held_by_others
from .trained_rows import is_training_data, trained_on

PREDICTED_APART = "%s was trained on these %s rows: each is predicted by those of its networks that do not know it"
JUDGED_BEFORE = "%s was trained on these %s rows: its figures are those of before it was trained once more on all"
NO_SCORES = "the model keeps the out-of-fold figures of its training alone, not the scores of rows, more than 1 GB"

NO_FIGURES = (
    "rows",
    "threshold",
    "weighted",
    "target",
    "exposure",
)  # keys of test that are facts


def test(
    net: Network,
    ds,
    *,
    threshold: float | None = None,
    intervals: bool = False,
    level: float | None = None,
) -> dict:
    """Return the figures of `net` on all rows of `ds`, with the keys of `nn --test
    --json` but `drift` (nn.test.drift).

    net: `net.predict(ds.x)` gives scores (rows, outputs) from raw features; its task
    decides which figures:
      binary      rows threshold tp fp fn tn precision recall f1 accuracy mcc roc_auc
                  pr_auc log_loss brier
      multiclass  rows accuracy macro confusion per_class mcc log_loss brier
      regression  rows mse mae rmse r2; for a series (ds.now) persistence_rmse and skill
                  too; of several targets per_target, a list of them
    ds: a Dataset, or a file or a data frame with the targets among its columns. Where
    its rows have weights, a row of weight 2 counts as two rows in everything but
    `rows`, and a further key `weighted` is true.
    threshold: score from which a row counts as class 1; None takes the network's own.
    intervals: adds the key `intervals`, {figure: [low, high] or None}, 95 % by
    bootstrap (core/bootstrap.py).
    level: of the intervals of a regression's predictions, or of the sets of classes
    (0.9); keys `level`, `coverage`, the share of rows that they hold, and `width`,
    their mean width or size, where the network knows any (core/conformal.py).
    Numbers are Python's own; None stands for a figure that is undefined, never NaN or
    infinity.
    left_out_rows: {reason: rows} of those that count for nothing, `weightless` and
    `unlabelled`, if there are any. trained_rows: how many of the rows the network was
    trained on, as far as it knows, None where it cannot tell; a warning says so where
    they are some. Rows that the folds of a network divided are predicted by those of
    its networks that do not know them, and the key `out_of_fold` is true.
    Raises DataError if the data do not fit the network or a row has values for which
    its output is not finite, and UsageError for a threshold or task that cannot be.
    """
    net = network_of("test", net)
    if isinstance(ds, (str, os.PathLike)) or open_frame(ds) is not None:
        ds = load_for(net, ds)
    fold_scores = None
    if isinstance(net, Network):
        fold_scores = unseen_of(net, ds)
    if fold_scores is not None:
        remark_on_rows_apart(net, len(fold_scores[0]))
        return figures_out_of_fold(
            net, ds, fold_scores, threshold=threshold, intervals=intervals, level=level
        )
    ds = without_weightless(ds)
    report = tested(net, ds, threshold=threshold, intervals=intervals, level=level)
    trained = trained_on(net, ds)
    warn_of_trained(trained)
    return {**report, "trained_rows": trained.count}


def check_crossed(net: Network, model: str = "the model") -> None:
    """Raise DataError for a network that keeps no folds of its rows, as those of
    earlier versions; model: its name.

    To deal folds again would be wrong: they are dealt by other rules now."""
    if net.crossed is None:
        raise DataError(
            f"{model} was written before models kept the folds of their rows; train again, or give rows with --dataset"
        )


def crossed_of(net: Network, ds: Dataset) -> Crossed:
    """Return what a network keeps of the rows of ds, on which a cross-validation
    trained it. Raises DataError as check_crossed does, and for other data."""
    check_crossed(net)
    if len(net.crossed.fold) != ds.rows:
        rows = len(net.crossed.fold)
        raise DataError(
            f"{name_of(ds)}: found {ds.rows} rows, expected the {rows} that the model was trained on;"
            " restore the old file, give rows with --dataset, or train again"
        )
    return net.crossed


def check_scores(net: Network) -> None:
    """Raise DataError for a network that keeps no out-of-fold scores, for what needs
    those of each row."""
    if net.crossed.scores is None:
        figures = net.crossed.figures
        texts = [
            f"{metric.label} {figures[name]:.6g}"
            for name, metric in METRICS.items()
            if name in metrics_told(figures)
        ]
        raise DataError(
            f"{NO_SCORES}: {', '.join(texts)}; give other rows with --dataset"
        )


def with_figures(net: Network, ds: Dataset) -> None:
    """Let a network keep the figures of its out-of-fold scores, and their intervals,
    where the scores are too large for a file."""
    if net.crossed is not None and net.crossed.is_large:
        with without_remarks():
            figures = figures_out_of_fold(net, ds, intervals=True, with_key=False)
        remember(net, crossed=replace(net.crossed, figures=figures))


def kept_figures(net: Network, threshold: float | None, intervals: bool) -> dict:
    """Return the figures that a network keeps in the place of out-of-fold scores; log
    what it cannot tell. Raises DataError for another threshold than those of
    the folds."""
    check_threshold(net, threshold)
    if threshold is not None:
        check_scores(net)
    log.warning("%s: nothing else is known of these rows", NO_SCORES)
    figures = deepcopy(net.crossed.figures)
    if not intervals:
        figures.pop("intervals", None)
        for target in figures.get("per_target", ()):
            target.pop("intervals", None)
    return figures


def out_of_fold(
    net: Network, ds: Dataset
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return (rows, their folds, scores) of a network that `folds` trained on ds, as it
    keeps them: each row is predicted by networks that do not know it, at the epoch and
    with the weights that the other folds choose.

    rows: indices of those that a fold tested, ascending. Several cross-validations may
    have trained the network (effort): scores are then a weighted mean. Probabilities
    are calibrated by the temperature of the row's fold. None in the place of scores
    that the network does not keep.
    """
    crossed = crossed_of(net, ds)
    scores = None
    if crossed.scores is not None:
        scores = crossed.calibrated
    return crossed.rows, crossed.of_row, scores


def unseen_of(net: Network, ds: Dataset):
    """Return what out_of_fold returns where these are the rows that the folds of a
    network divided, known by their digest; None for others, and where no fold knows
    rows apart."""
    if (
        net.crossed is None
        or net.holdout
        or ds.is_part
        or not is_training_data(net, ds)
    ):
        return None
    return out_of_fold(net, ds)


def unseen_parts(net: Network, ds: Dataset) -> list[tuple[np.ndarray, list]]:
    """Return for each fold that `folds` trained net on its rows of ds, and [(member,
    weight)] that do not know them."""
    crossed = crossed_of(net, ds)
    members = [*zip(net.members, net.member_weights, strict=True)]
    folds = len(crossed.thresholds)
    return [
        (np.flatnonzero(crossed.fold == number), members[number::folds])
        for number in range(folds)
    ]


def remark_on_rows_apart(net: Network, count: int, model: str = "the model") -> None:
    """Log by which networks rows of the training are predicted; count: of these
    rows."""
    message = PREDICTED_APART
    if net.crossed.is_retrained:
        message = JUDGED_BEFORE
    log.warning(message, model, f"{count:,}")


def by_fold(net: Network, threshold: float | None = None) -> dict:
    """Return `cuts` and `folds` of figures_of for the rows that folds judge: the
    thresholds that the other folds choose, unless one is given, and their folds."""
    cuts = None
    if threshold is None:
        cuts = net.crossed.threshold_of_row
    return {"cuts": cuts, "folds": net.crossed.of_row}


def judging_parts(
    net: Network, ds: Dataset, fold_scores=None
) -> list[tuple[np.ndarray, list | None]]:
    """Return (rows, members with their weights) by whom rows of ds are judged: all by
    all members (None), or where folds know them apart what unseen_parts returns.
    fold_scores: what out_of_fold returns then."""
    if fold_scores is None or net.crossed.is_retrained:
        return [(np.arange(ds.rows), None)]
    return unseen_parts(net, ds)


def figures_out_of_fold(
    net: Network,
    ds: Dataset,
    fold_scores=None,
    *,
    threshold: float | None = None,
    intervals: bool | str = False,
    level: float | None = None,
    by_member: bool = False,
    with_key: bool = True,
) -> dict:
    """Return the figures of `test` where each row is predicted by the network that did
    not know it, and `out_of_fold`.

    ds: what `folds` trained net on. fold_scores: what out_of_fold returns for it, where
    the caller has it. threshold: of all rows; None: of each fold the one that the
    others choose. by_member: adds the key `members`, the figures of each fold.
    with_key: whether there is the key `out_of_fold`.
    """
    rows, folds, scores = fold_scores or out_of_fold(net, ds)
    if scores is None:
        return {
            **kept_figures(net, threshold, intervals),
            "out_of_fold": True,
            "trained_rows": 0,
        }
    options = by_fold(net, threshold)
    if intervals:
        options["sampling"] = sampling_of_copies(ds, rows)
    judging = ds.of_rows(rows, inputs=False)
    result = figures_of(
        net, judging, scores, threshold=threshold, intervals=intervals, **options
    )
    judged_rows = truth_and_scores(net, judging, scores)
    coverage = held_by_others(net, judged_rows, folds, judging.groups, level)
    result = with_held(result, coverage, judged_rows[2])
    if by_member:
        with logged_once(remarks):
            result["members"] = figures_by_fold(net, ds, rows, folds, scores, threshold)
    if with_key:
        return {**result, "out_of_fold": True, "trained_rows": 0}
    return result


def figures_by_fold(
    net: Network, ds: Dataset, rows, folds, scores, threshold: float | None = None
) -> list[dict]:
    """Return the figures of `test` for each fold; rows, folds, scores: as out_of_fold
    returns them. threshold: as figures_out_of_fold takes it."""
    figures = []
    for fold in np.unique(folds):
        places = np.flatnonzero(folds == fold)
        cut = threshold
        if threshold is None and net.task in ("binary", "multilabel"):
            cut = net.crossed.thresholds[fold]
        tested_rows = ds.of_rows(rows[places], False)
        figures.append(figures_of(net, tested_rows, scores[places], threshold=cut))
    return figures


def summary(figures_of_folds: Sequence[dict]) -> dict:
    """Return {"mean": {figure: number or None}, "std": ...} over the figures of `test`
    for several networks.

    std is that of a sample, by n - 1. A figure that is undefined for one of them does
    not count there.
    """
    both: dict[str, dict] = {"mean": {}, "std": {}}
    for name, first in figures_of_folds[0].items():
        if name in NO_FIGURES or isinstance(first, (list, dict, str)):
            continue
        values = [
            figures[name] for figures in figures_of_folds if figures[name] is not None
        ]
        if values:
            both["mean"][name] = float(np.mean(values))
        else:
            both["mean"][name] = None
        if len(values) > 1:
            both["std"][name] = float(np.std(values, ddof=1))
        else:
            both["std"][name] = None
    return both
