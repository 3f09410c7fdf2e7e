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

from ..core.crossed import temperatures_by_others, thresholds_by_others
from ..core.metrics import metric
from ..core.thresholds import best_temperature, best_threshold, tempered
from ..core.weighted import at_rows
from ..ds import Dataset
from ..nn import PREDICT_BLOCK, Network
from ..nn.crossed import Crossed
from ..nn.prediction import mean_of
from ..nn_aux import TASKS
from ..settings.flags import DEFAULTS
from ..test.sureness import bounds_of, conformal_of
from ..utils import NnError, UsageError, log
from .options import Options, is_decided_later


def check_decision(net: Network, options: Options, any_validation: bool) -> None:
    """Raise UsageError, before training, for a rule or a calibration that cannot be.
    Remark what rows it will use."""
    if isinstance(options.threshold, str):
        flag = f"--threshold {options.threshold}"
        if net.task != "binary":
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
        output, _ = TASKS[net.task]
        if net.task == "regression" or net.layers[-1].output_function != output:
            found = f"{net.task}, with a {net.layers[-1].output_function} output layer"
            raise UsageError(
                f"{flag}: needs class probabilities by a sigmoid or softmax; the task is {found}"
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
    net: Network, options: Options, truth: np.ndarray, scores: np.ndarray, weights=None
) -> Decision:
    """Find temperature and threshold as the options ask.

    truth (rows,), scores (rows, outputs) of the network's dtype, not calibrated,
    weights (rows,) or None: see JudgedRows. Raises NnError for scores that are not
    finite, and what best_threshold raises.
    """
    decision = Decision({}, {})
    if not is_decided_later(options):
        return decision
    bad = len(scores) - np.count_nonzero(np.isfinite(scores).all(axis=1))
    if bad:
        raise NnError(
            f"the network's output is not finite for {bad} of the {len(scores)} rows that decide about it: "
            "train it again with a smaller --learning_rate or with --scaling standardization"
        )
    if options.calibrate != DEFAULTS["calibrate"]:
        temperature = best_temperature(truth, scores, weights)
        after = tempered(scores, temperature)
        calibration: dict = {"temperature": temperature}
        for name in ("log_loss", "brier"):
            both = [metric(name, net.task, truth, s, weights) for s in (scores, after)]
            calibration[name] = both
        decision.facts["temperature"] = temperature
        decision.figures["calibration"] = calibration
        scores = after
    if isinstance(options.threshold, str):
        threshold = best_threshold(options.threshold, truth, scores[:, 0], weights)
        decision.facts["threshold"] = threshold
        decision.figures["threshold"] = threshold
    return decision


def decide_crossed(
    net: Network, options: Options, crossed: Crossed, rows: Dataset
) -> Decision:
    """Do what decide_by does, by the scores of all rows that folds judge; among the
    facts are these, `crossed`, with the temperature and the threshold that each fold is
    judged by: those that the rows of the others tell."""
    truth = rows.y
    weights = rows.weights
    decision = decide_by(net, options, truth, crossed.scores, weights)
    calibration = decision.figures.get("calibration")
    threshold = decision.facts.get("threshold", net.threshold)
    folds = len(crossed.thresholds)
    temperatures = [1.0] * folds
    if calibration:
        temperatures = temperatures_by_others(
            truth, crossed.scores, crossed.of_row, folds, weights
        )
    thresholds = [threshold] * folds
    if isinstance(options.threshold, str):
        thresholds = thresholds_by_others(
            options.threshold,
            truth,
            crossed.scores,
            crossed.of_row,
            temperatures,
            threshold,
            weights,
        )
    crossed = replace(crossed, temperatures=temperatures, thresholds=thresholds)
    decision.facts["crossed"] = crossed
    decision.facts["conformal"] = conformal_of(
        net, truth, crossed.calibrated, weights, rows.groups, bounds_of(net)
    )
    if calibration:
        for name in ("log_loss", "brier"):
            after = metric(name, net.task, truth, crossed.calibrated, weights)
            calibration[name][1] = after
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
        each = [member.unknown for member in refitted]
        scores = [one.scores for one in each]
        mean = mean_of(scores, [*refitted.values()]).astype(scores[0].dtype)
        known = each[0]._replace(scores=mean)
    else:
        known = rows_judged(net, *rows.decisive())
    decision = decide_by(net, options, known.truth, known.scores, known.weights)
    if is_validated and not any(member.trial.knows_judging for member in members):
        add_conformal(decision, net, known)
    return decision


def add_conformal(decision: Decision, net: Network, known: JudgedRows) -> None:
    """Add to the facts of a decision how sure predictions are, by rows that judge it:
    their scores by the temperature that is decided."""
    temperature = decision.facts.get("temperature", 1.0)
    scores = tempered(known.scores, temperature)
    decision.facts["conformal"] = conformal_of(
        net, *known._replace(scores=scores), bounds_of(net)
    )


def rules_in(settings: dict) -> dict:
    """Return those keywords of `train` that leave something to be found after the last
    epoch."""
    threshold = settings.get("threshold")
    calibrate = settings.get("calibrate")
    if isinstance(threshold, str):
        rules = {"threshold": threshold}
    else:
        rules = {}
    if calibrate in (None, DEFAULTS["calibrate"]):
        return rules
    return {**rules, "calibrate": calibrate}


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
        (predict or net.predict)(ds.x[rows[first : first + PREDICT_BLOCK]])
        for first in range(0, len(rows), PREDICT_BLOCK)
    ]
    return JudgedRows(
        ds.y[rows],
        np.concatenate(blocks),
        at_rows(ds.weights, rows),
        at_rows(ds.groups, rows),
    )
