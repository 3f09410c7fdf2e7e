"""--rethreshold: a model with another threshold, which a person gives, or a rule finds
on rows that the model did not know."""

from __future__ import annotations

from dataclasses import replace

from ..terminal.figures import threshold_text
from ..utils import UsageError, check_writable, log_line
from .common import load_network, print_json, unseen_rows

TOLD_OF_THRESHOLD = ("rows", "tp", "fp", "fn", "tn", "precision", "recall", "f1")


def rethreshold_command(flags) -> None:
    """Write --model with the --threshold to --output, and tell what it does."""
    check_writable(flags.output)
    net = load_network(flags)
    _check(flags, net)
    figures: dict = {}
    if isinstance(flags.threshold, str):
        threshold, of_folds, figures = _found(flags, net)
    else:
        threshold = flags.threshold
        of_folds = [threshold]
    crossed = net.crossed
    if crossed is not None:
        count = len(crossed.thresholds)
        crossed = replace(crossed, thresholds=(of_folds * count)[:count])
    config = {**net.config, "threshold": flags.threshold}
    net.facts = replace(net.facts, threshold=threshold, crossed=crossed, config=config)
    net.export(flags.output)
    if flags.json:
        result = {"model": flags.model, "output": flags.output, "threshold": threshold}
        print_json({**result, **figures})
    elif not flags.quiet:
        log_line(
            f"{flags.output}: {flags.model} with the threshold {threshold_text(threshold)}"
        )


def _check(flags, net) -> None:
    """Raise UsageError where there cannot be such a model."""
    from ..test import check_threshold
    from ..test.out_of_fold import check_scores

    if net.task not in ("binary", "multilabel"):
        raise UsageError(
            f"--threshold {flags.threshold}: is for two classes, the task is {net.task}; leave it out"
        )
    if not isinstance(flags.threshold, str):
        check_threshold(net, flags.threshold)
    if net.crossed is not None:
        check_scores(net)


def _found(flags, net) -> tuple[float | list[float], list, dict]:
    """Return the threshold that the rule finds on rows that the model did not know,
    those by which its folds are judged, and what it does with these rows."""
    from ..core.crossed import thresholds_by_others
    from ..core.thresholds import best_thresholds
    from ..test import figures_of, truth_and_scores, warn_of_trained

    ds, out_of_fold, _, trained = unseen_rows(flags, net, flags.model)
    warn_of_trained(trained, flags.model)
    scores = None
    if out_of_fold is not None:
        rows, of_row, scores = out_of_fold
        ds = ds.of_rows(rows)
    truth, scores, weights = truth_and_scores(net, ds, scores)
    threshold = best_thresholds(flags.threshold, truth, scores, weights, net.targets)
    of_folds = [threshold]
    if out_of_fold is not None:
        of_folds = thresholds_by_others(
            flags.threshold,
            truth,
            net.crossed.scores,
            of_row,
            net.crossed.temperatures,
            threshold,
            weights,
        )
    figures = figures_of(net, ds, scores, threshold=threshold)
    return (
        threshold,
        of_folds,
        {name: figures[name] for name in TOLD_OF_THRESHOLD if name in figures},
    )
