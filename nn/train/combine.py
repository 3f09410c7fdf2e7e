"""Combined: the network that the trainings of a plan make, of one or several, with what
is decided after the last epoch; the figures of `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..card import kinds_of_columns
from ..data.dataset import Dataset
from ..data.splits import Fold
from ..nn import Network, remember
from ..nn.crossed import Crossed
from ..nn.model import target_of
from ..nn.prediction import in_units
from ..nn_aux import TASKS
from ..test import remarks
from ..test.learned import known_in_time, learned, learned_by_rows
from ..test.out_of_fold import figures_by_fold, out_of_fold, summary
from ..utils import logged_once
from .decision import decide_by_members, decide_crossed, rows_judged
from .member import Member
from .options import Options, config_of
from .run import Run
from .search import choose, scores_of_members

# what became of a network
CHOSEN = "member"
NOT_CHOSEN = "not chosen"
GIVEN_UP = "given up"
FAILED = "failed"


# ---- a network alone


def figures_of_one(member: Member) -> dict:
    """Return the metrics of a network, once what its options leave to be found after
    the last epoch is found."""
    decision = decide_by_members(member.net, member.options, {member: 1.0})
    remember(member.net, **decision.facts)
    return figures_of_member(member) | decision.figures


def figures_of_member(member: Member) -> dict:
    """Return the metrics of `--json` without the decisions after the last epoch."""
    net = member.net
    at = member.at
    figures = {
        "backend": net.backend,
        "dtype": net.dtype,
        "threads": member.threads,
        "rows": member.rows.count,
        "holdout": member.rows.holdout_count,
        "parameters": net.parameter_count,
        "columns": kinds_of_columns(net),
        "classes": net.classes,
        **({"labels": net.labels} if net.labels else {}),
        "target": target_of(net),
        "epochs": member.options.epochs,
        "epochs_run": len(member.chosen("losses")),
        **member.losses(),
        **learned([member.outcome()]),
    }
    if member.rank_group.size > 1:
        figures["ranks"] = member.rank_group.size
    if member.monitor:
        figures |= {
            "validation": member.validation_count,
            "monitor": member.monitor.name,
            "best_epoch": member.best_epoch(),
        }
    if at.before_refit:
        figures["refit"] = {"rows": member.rows.count, "loss": at.losses}
    if member.rows.weighted:
        figures["weighted"] = True
    seconds = float(np.median(at.epoch_seconds))
    return {
        **figures,
        "seconds": member.seconds,
        "us_per_batch": 1e6 * seconds / member.batches,
    }


# ---- a network of several


class Combined:
    """The network of a plan, of those that a run has trained, or has begun to.

    config: the settings that it keeps. weights: of the networks that are its members.
    """

    def __init__(self, run: Run):
        plan = run.plan
        self.net = plan.net
        self._plan = plan
        self._run = run
        settings = config_of(plan.net, plan.prepared.ds, plan.options)
        self.config = {**settings, **plan.config}
        self.weights: dict[Member, float] = {}

    def combine(self, weights: Mapping[Member, float] | None = None) -> None:
        """Make the network of members with these weights, as far as they are trained;
        None: of all that were not given up."""
        net = self.net
        history = self._run.losses(weights=weights)
        if weights is None:
            weights = {member: member.trial.weight for member in self._run.alive()}
        self.weights = dict(weights)
        first = next(iter(weights))
        facts = self._plan.facts
        if facts is None:
            # of --refit those of all its rows
            prepared = self._run.members[0].rows.prepared
            facts = self._run.members[0].facts_of(prepared)
            facts["encoding"] = first.rows.prepared.reader.encoding
        facts = {**facts, "config": self.config, "history": history}
        remember(net, **facts)
        net.combine([member.net for member in weights], list(weights.values()))

    def choose(self) -> None:
        """Choose the members that together do best on validation rows that they did not
        know."""
        options = self._plan.options
        alive = self._run.alive()
        if all(member.unknown is not None for member in alive):
            scores = [member.unknown.scores for member in alive]
            unknown = alive[0].unknown
            unknown = unknown.truth, scores, unknown.weights
        else:
            rows = self._run.members[0].rows
            unknown = scores_of_members(self.net, *rows.decisive())
        counts = choose(
            self.net.task,
            options.monitored,
            *unknown,
            threshold=options.first_threshold,
            loss=self.net.loss,
        )
        chosen = {}
        for member, count in zip(alive, counts, strict=True):
            if count:
                chosen[member] = float(count)
        self.combine(chosen)

    # ---- figures

    def figures(self) -> dict:
        """Decide what the options leave to be found after the last epoch; return the
        metrics of `--json`."""
        plan = self._plan
        if plan.variation is not None:
            self.choose()
        if plan.folds:
            return self._figures() | self._by_folds()
        decision = decide_by_members(self.net, plan.options, self.weights)
        remember(self.net, **decision.facts)
        return self._figures() | decision.figures

    def _by_folds(self) -> dict:
        """Return what is decided by the rows of the folds, and their metrics, means and
        standard deviations."""
        net = self.net
        ds = self._plan.prepared.ds
        members = self._run.members
        scores = [member.crossed_scores() for member in members]
        crossed = predicted_out_of_fold(
            [member.net for member in members], ds, self._plan.folds, scores
        )
        figures = decided_by_folds(
            net, ds, self._plan.options, crossed, self._plan.folds
        )
        # the means over the folds tell the loss, and that of a constant
        del figures["baseline"]
        if net.loss != TASKS[ds.task].loss:
            del figures["learned"]
        with logged_once(remarks):
            figures_of_folds = figures_by_fold(net, ds, *out_of_fold(net, ds))
        return {**figures, "folds": figures_of_folds, **summary(figures_of_folds)}

    def _figures(self) -> dict:
        run = self._run
        plan = self._plan
        members = list(self.weights)
        losses = run.losses(weights=self.weights)
        trained = run.left()
        batches = sum(member.epochs_done * member.batches for member in trained)
        seconds = max(member.seconds for member in trained)
        figures = figures_of_member(members[0])
        for name in ("best_epoch", "refit"):
            figures.pop(name, None)
        outcomes = [member.outcome() for member in members]
        figures |= {
            "networks": len(members),
            "parameters": sum(member.net.parameter_count for member in members),
            **losses,
            **learned(outcomes, list(self.weights.values())),
            "members": [self._facts_of(member) for member in members],
            "seconds": seconds,
            "us_per_batch": 1e6 * seconds / batches,
            "epochs": plan.options.epochs,
            "epochs_run": len(losses["loss"]),
            "threads": run.threads(),
        }
        if plan.variation is not None:
            figures["trials"] = self._trials()
        if run.ranks.size > 1:
            figures["ranks"] = run.ranks.size
        if plan.folds:
            figures["holdout"] = len(plan.prepared.split.holdout)
        return figures

    def _facts_of(self, member: Member) -> dict:
        best = None
        if not member.failed:
            best = member.best_epoch()
        return {
            "seed": member.net.seed,
            "weight": self.weights.get(member, 0.0),
            "settings": member.trial.drawn,
            "best_epoch": best,
        }

    def _trials(self) -> list[dict]:
        """Return what became of each network."""
        alive = {*self._run.alive()}
        trials = []
        for member in self._run.members:
            score = None
            if not member.failed:
                score = member.score()
            if member in self.weights:
                status = CHOSEN
            elif member.failed:
                status = FAILED
            elif member in alive:
                status = NOT_CHOSEN
            else:
                status = GIVEN_UP
            trials.append(
                {
                    **self._facts_of(member),
                    "score": score,
                    "epochs": member.epochs_done,
                    "status": status,
                }
            )
        return trials


def decided_by_folds(
    net: Network, ds: Dataset, options: Options, crossed: Crossed, folds: Sequence[Fold]
) -> dict:
    """Decide by the rows that folds judge what the options leave to be found, which the
    network keeps; return the figures of it, and whether the scores of these rows are
    surely better than those of a constant. folds: where they are in time."""
    rows = ds.of_rows(crossed.rows, inputs=False)
    decision = decide_crossed(net, options, crossed, rows)
    remember(net, **decision.facts)
    known_targets = None
    if ds.times is not None:
        known_targets = known_in_time(ds, folds, net.outputs)
    calibrated = net.crossed.calibrated
    learned_figures = learned_by_rows(
        rows, calibrated, net.outputs, crossed.of_row, known_targets, net.loss
    )
    return {**decision.figures, **learned_figures}


def predicted_out_of_fold(
    networks: Sequence[Network],
    ds: Dataset,
    folds: Sequence[Fold],
    scores: Sequence[np.ndarray | None],
) -> Crossed:
    """Return the rows of ds that folds test, each as the network of its fold predicts
    it.

    scores: of each fold's rows, as its engine gave them; None: those of the network as
    it is.
    """
    tested = np.concatenate([fold.tested for fold in folds])
    order = np.argsort(tested, kind="stable")
    of_row = np.repeat(np.arange(len(folds)), [len(fold.tested) for fold in folds])
    outputs = []
    for net, fold, scores_of_fold in zip(networks, folds, scores, strict=True):
        if scores_of_fold is None:
            outputs.append(rows_judged(net, ds, fold.tested).scores)
        else:
            outputs.append(in_units(net, scores_of_fold))
    return Crossed.of(
        ds.rows,
        tested[order],
        of_row[order],
        np.concatenate(outputs)[order],
        len(folds),
    )
