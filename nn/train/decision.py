"""Decisions after the last epoch: the temperature of the probabilities, then the
threshold of class 1.

It is found on rows that the network does not know, if there are any: those of
--validation, or each row of a cross-validation as the network of its fold predicts it;
each fold is then judged by what the others' rows tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.conformal import LEAST_ROWS, ClassSets, Intervals, LabelSets
from ..core.crossed import temperatures_by_others, thresholds_by_others
from ..core.metrics import metric
from ..core.thresholds import best_temperature, best_thresholds, tempered
from ..core.weighted import at_rows
from ..ds import Dataset
from ..nn import PREDICT_BLOCK, Network
from ..nn.crossed import Crossed
from ..nn.prediction import mean_of
from ..nn_aux import TASKS, quantiles_of
from ..settings.flags import DEFAULTS
from ..test.sureness import bounds_of, conformal_of
from ..utils import NnError, UsageError, listed, log
from .options import Options, is_decided_later


def check_decision(net: Network, options: Options, any_validation: bool) -> None:
    """Raise UsageError, before training, for a rule or a calibration that cannot be.
    Remark what rows it will use."""
    if isinstance(options.threshold, str):
        flag = f"--threshold {options.threshold}"
        if net.task not in ("binary", "multilabel"):
            raise UsageError(
                f"{flag}: is for two classes, the task is {net.task}; leave it out"
            )
        if not any_validation:
            log.warning(
                "%s: chosen on the training rows; --validation sets rows apart for it",
                flag,
            )
    if options.calibrate != DEFAULTS["calibrate"]:
        flag = f"--calibrate {options.calibrate}"
        output = TASKS[net.task].output
        if not TASKS[net.task].of_classes or net.layers[-1].output_function != output:
            task_and_output = (
                f"{net.task}, with a {net.layers[-1].output_function} output layer"
            )
            raise UsageError(
                f"{flag}: needs class probabilities by a sigmoid or softmax; the task is {task_and_output}"
            )
        if not any_validation:
            raise UsageError(
                f"{flag}: needs validation rows; give --validation SHARE or FILE, or --folds F"
            )


class Decision(NamedTuple):
    """Temperature and threshold, as they are found after the last epoch.

    facts: what the network keeps of it, by the fields of nn.facts.Facts. figures: keys
    of `--json`: `threshold` where a rule chose it, and `calibration`: temperature, and
    log_loss and brier as [before, after].
    """

    facts: dict
    figures: dict


def decide_by(
    net: Network, options: Options, judged: JudgedRows, are_unknown: bool = False
) -> Decision:
    """Find temperature and threshold as the options ask; with rows that the network
    does not know also how sure its predictions are.

    judged: scores of the network's dtype, not calibrated. Raises NnError for scores
    that are not finite, and what best_threshold raises.
    """
    decision = Decision({}, {})
    truth, scores, weights, _ = judged
    if is_decided_later(options):
        _check_finite(scores)
    if options.calibrate != DEFAULTS["calibrate"]:
        temperature = best_temperature(truth, scores, weights)
        after = tempered(scores, temperature, TASKS[net.task].by_output)
        calibration: dict = {"temperature": temperature}
        for name in ("log_loss", "brier"):
            both = [metric(name, net.task, truth, s, weights) for s in (scores, after)]
            calibration[name] = both
        decision.facts["temperature"] = temperature
        decision.figures["calibration"] = calibration
        scores = after
    if isinstance(options.threshold, str):
        threshold = best_thresholds(
            options.threshold, truth, scores, weights, net.targets
        )
        decision.facts["threshold"] = threshold
        decision.figures["threshold"] = threshold
    if are_unknown:
        decision.facts["conformal"] = _sureness(net, judged._replace(scores=scores))
    return decision


def _sureness(
    net: Network, judged: JudgedRows
) -> Intervals | ClassSets | LabelSets | None:
    """Return how sure predictions are, by rows that the network does not know. None,
    and a line that says so, where few of many rows have one of several targets."""
    sureness = conformal_of(net, *judged, bounds_of(net))
    is_of_several = judged.truth.ndim == 2 and not quantiles_of(net.loss)
    if sureness is not None or not is_of_several or len(judged.truth) < LEAST_ROWS:
        return sureness
    counts = (~np.isnan(judged.truth)).sum(axis=0)
    named = zip(net.targets or range(len(counts)), counts.tolist(), strict=True)
    few = [f"{name} ({count})" for name, count in named if count < LEAST_ROWS]
    if few:
        log.warning(
            "no %s of predictions: fewer than %d of the rows that judge have a target: %s",
            "sets of classes" if TASKS[net.task].of_classes else "intervals",
            LEAST_ROWS,
            listed(few),
        )
    return sureness


def _check_finite(scores: np.ndarray) -> None:
    """Raise NnError for scores by which nothing can be decided."""
    bad = len(scores) - np.count_nonzero(np.isfinite(scores).all(axis=1))
    if bad:
        raise NnError(
            f"the network's output is not finite for {bad} of the {len(scores)} rows that decide about it: "
            "train it again with a smaller --learning_rate or with --scaling standardization"
        )


def decide_crossed(
    net: Network, options: Options, crossed: Crossed, rows: Dataset
) -> Decision:
    """Do what decide_by does, by the scores of all rows that folds judge; among the
    facts are these, `crossed`, with the temperature and the threshold that each fold is
    judged by: those that the rows of the others tell."""
    judged = JudgedRows(rows.y, crossed.scores, rows.weights, rows.groups)
    truth, scores, weights, _ = judged
    decision = decide_by(net, options, judged)
    calibration = decision.figures.get("calibration")
    threshold = decision.facts.get("threshold", net.threshold)
    folds = len(crossed.thresholds)
    temperatures = [1.0] * folds
    if calibration:
        temperatures = temperatures_by_others(
            truth, scores, crossed.of_row, folds, weights
        )
    thresholds = [threshold] * folds
    if isinstance(options.threshold, str):
        thresholds = thresholds_by_others(
            options.threshold,
            truth,
            scores,
            crossed.of_row,
            temperatures,
            threshold,
            weights,
        )
    crossed = replace(
        crossed,
        temperatures=temperatures,
        thresholds=thresholds,
        are_apart=TASKS[net.task].by_output,
    )
    calibrated = crossed.calibrated
    decision.facts["crossed"] = crossed
    decision.facts["conformal"] = _sureness(net, judged._replace(scores=calibrated))
    if calibration:
        for name in ("log_loss", "brier"):
            calibration[name][1] = metric(name, net.task, truth, calibrated, weights)
    return decision


def decide_by_members(net: Network, options: Options, members: Mapping) -> Decision:
    """Do what decide_by does for members of `net` and their weights, by the rows that
    judge them: as they predicted them before a refit, else by all rows that they were
    trained on where there are no validation rows."""
    refitted = {
        member: weight
        for member, weight in members.items()
        if member.unknown is not None
    }
    rows = next(iter(members)).rows
    is_validated = rows.is_validated or bool(refitted)
    if not is_validated and not is_decided_later(options):
        return Decision({}, {})
    if refitted:
        judgements = [member.unknown for member in refitted]
        scores = [judgement.scores for judgement in judgements]
        mean = mean_of(scores, [*refitted.values()])
        judged = judgements[0]._replace(scores=mean.astype(scores[0].dtype))
    else:
        judged = rows_judged(net, *rows.decisive())
    knows_judging = any(member.trial.knows_judging for member in members)
    return decide_by(net, options, judged, is_validated and not knows_judging)


def rules_in(settings: dict) -> dict:
    """Return those keywords of `train` that leave something to be found after the last
    epoch."""
    rules = {}
    if isinstance(settings.get("threshold"), str):
        rules["threshold"] = settings["threshold"]
    if settings.get("calibrate") not in (None, DEFAULTS["calibrate"]):
        rules["calibrate"] = settings["calibrate"]
    return rules


class JudgedRows(NamedTuple):
    """Rows that judge a network: truth (rows,), scores (rows, outputs); weights and
    groups (rows,) or None."""

    truth: np.ndarray
    scores: np.ndarray
    weights: np.ndarray | None
    groups: np.ndarray | None


def rows_judged(
    net: Network, ds: Dataset, rows: np.ndarray, predict: Callable | None = None
) -> JudgedRows:
    """Return rows with their scores.

    predict: gives the scores of some rows, (rows, ...); None: those of the network.
    """
    blocks = [
        (predict or net.predict)(ds.x[rows[start : start + PREDICT_BLOCK]])
        for start in range(0, len(rows), PREDICT_BLOCK)
    ]
    return JudgedRows(
        ds.y[rows],
        np.concatenate(blocks),
        ds.weights_of(rows),
        at_rows(ds.groups, rows),
    )
