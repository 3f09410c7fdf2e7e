"""Chosen: what the candidates of --effort become that were tried: how often each counts
in the model, by rows that its networks do not know; the model's network and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.metrics import formula_name
from ..data.splits import fold_rows
from ..nn import Network, remember
from ..nn_aux import METRICS
from ..test import QUICK, figures_of
from ..test.learned import learned_by_rows
from ..test.out_of_fold import figures_out_of_fold, with_figures
from .candidates import SOLVED_LOG_LOSS, Candidate
from .combine import decided_by_folds
from .decision import decide_by, rows_judged
from .effort_plan import EffortPlan
from .options import LOSS, Monitor
from .run import mean_losses
from .search import Choice, choose, choose_crossed, crossed_scores

# figures of the first candidate that are not those of the model
OF_ONE_NETWORK = ("folds", "mean", "std", "members", "best_epoch")


class Tried(NamedTuple):
    """A candidate that was tried: the network that was trained for it, with members
    that judge rows they do not know, what it took, and its figures. count: how often it
    counts in the mean of all."""

    candidate: Candidate
    net: Network
    operations: float
    figures: dict
    count: int = 0

    def judging_members(self) -> list[tuple[Network, float, int]]:
        """Return (member, weight in the model, its best epoch) of each member."""
        pairs = zip(self.net.members, self.figures["members"], strict=True)
        return [
            (member, float(self.count), outcome["best_epoch"])
            for member, outcome in pairs
        ]

    @property
    def loss(self) -> float:
        """The loss of the rows that judge it; infinity where it is undefined."""
        loss = loss_of(self.figures, self.net)[1]
        if loss is None:
            return math.inf
        return loss

    def still_learns(self) -> bool:
        """Return whether the last epoch that it might have came before the metric was
        flat, and it is not as good as anybody waits for."""
        if not math.isfinite(self.loss):
            return False
        if self.net.task != "regression" and self.loss < SOLVED_LOG_LOSS:
            return False
        return self.figures["epochs_run"] >= self.candidate.epochs


class Retrained(NamedTuple):
    """The networks of a candidate that were trained once more on all rows, how long,
    and the figures of it."""

    net: Network
    epochs: int
    figures: dict


class Chosen:
    """The choice among the candidates that were tried, and the model that it makes.

    retrained: of those that are part of the model, where their networks were trained
    once more on all rows.
    """

    def __init__(self, plan: EffortPlan, tried: Sequence[Tried]):
        self._plan = plan
        self._ds = plan.ds
        self._tried = tried
        self.retrained: list[Retrained] = []

    @cached_property
    def choice(self) -> Choice:
        """How often each candidate is chosen, by the rows that its networks do not
        know."""
        ds = self._judging
        loss = self._tried[0].net.loss
        if self._plan.is_by_share:
            rows = self._validation_rows
            scores = [
                rows_judged(tried.net, self._ds, rows).scores for tried in self._tried
            ]
            counts = choose(ds.task, Monitor(LOSS), ds.y, scores, ds.weights, loss=loss)
            return Choice(counts, [counts])
        of_row = self._tried[0].net.crossed.of_row
        return choose_crossed(ds.task, ds.y, self._scores, of_row, ds.weights, loss)

    @cached_property
    def parts(self) -> list[Tried]:
        """The candidates that are part of the model."""
        pairs = zip(self._tried, self.choice.counts, strict=True)
        return [tried._replace(count=count) for tried, count in pairs if count]

    @property
    def _scores(self) -> list[np.ndarray]:
        """Return what the networks of the folds of each candidate predict of the rows
        they judge."""
        return [tried.net.crossed.scores for tried in self._tried]

    @property
    def _validation_rows(self) -> np.ndarray:
        share = self._tried[0].candidate.settings()["validation"]
        return self._plan.validation_rows(share)

    @property
    def _judging(self):
        """The rows that judge, without their inputs."""
        if self._plan.is_by_share:
            rows = self._validation_rows
        else:
            rows = self._tried[0].net.crossed.rows
        return self._ds.of_rows(rows, inputs=False)

    # ---- the model

    def combined(self) -> tuple[Network, dict]:
        """Return the network of the candidates that are chosen, and the figures of
        --json."""
        first = self.parts[0]
        net = first.net
        judging = [member for part in self.parts for member in part.judging_members()]
        weights = [weight for _, weight, _ in judging]
        epochs = max(len(member.history["loss"]) for member, *_ in judging)
        histories = [(member.history, best, epochs) for member, _, best in judging]
        history = mean_losses(histories, weights)
        predicting = self.retrained or self.parts
        members = [member for part in predicting for member in part.net.members]
        crossed = net.crossed
        config = {
            **net.config,
            **self._plan.config(first.candidate),
            "candidates": self._facts_of_tried(),
        }
        remember(net, config=config, history=history)
        net.combine(members, weights)
        if self._plan.is_by_share:
            judgement = self._judged_by_share(net)
        else:
            judgement = self._judged_by_folds(net, crossed)
        figures = {
            name: value
            for name, value in first.figures.items()
            if name not in OF_ONE_NETWORK
        }
        figures |= {
            **history,
            "epochs_run": epochs,
            "networks": len(members),
            "parameters": sum(member.parameter_count for member in members),
            "members": [
                {
                    "seed": member.seed,
                    "weight": weight,
                    "settings": {"layers": member.spec},
                    "best_epoch": None,
                }
                for member, weight in zip(members, weights, strict=True)
            ],
            "effort": self._plan.effort,
            "chosen": [
                {"flags": self._plan.flags(part.candidate), "weight": part.count}
                for part in self.parts
            ],
            "tried": len(self._tried),
            **judgement,
        }
        if self.retrained:
            epochs_of_each = [part.epochs for part in self.retrained]
            rows = len(self._plan.rows)
            figures["retrained"] = {"rows": rows, "epochs": epochs_of_each}
        trainings = [*self._tried, *self.retrained]
        figures["seconds"] = sum(part.figures["seconds"] for part in trainings)
        return net, figures

    def _facts_of_tried(self) -> list[dict]:
        """Return what a model keeps of each candidate that was tried."""
        return [
            {
                "layers": tried.net.spec,
                "loss": loss_of(tried.figures, tried.net)[1],
                "operations": tried.operations,
                "weight": count,
            }
            for tried, count in zip(self._tried, self.choice.counts, strict=True)
        ]

    def _judged_by_folds(self, net: Network, crossed) -> dict:
        """Decide by the rows that folds judge, each as the others choose; return what
        is told of it."""
        scores = crossed_scores(self._scores, self.choice, crossed.of_row)
        crossed = replace(crossed, scores=scores, is_retrained=bool(self.retrained))
        folds = []
        if self._ds.times is not None:
            count = len(crossed.thresholds)
            plan = self._plan
            folds = fold_rows(self._ds, plan.rows, count, plan.seed)
        figures_of_choice = decided_by_folds(
            net, self._ds, self._plan.decided(net), crossed, folds
        )
        with_figures(net, self._ds)
        figures = figures_out_of_fold(net, self._ds, intervals=QUICK, with_key=False)
        remember(net, judged=judged_fact(figures, "folds"))
        return {**figures_of_choice, "out_of_fold": figures}

    def _judged_by_share(self, net: Network) -> dict:
        """Decide by the validation rows; return what is told of it."""
        ds = self._judging
        judged = rows_judged(net, self._ds, self._validation_rows)
        decision = decide_by(net, self._plan.decided(net), judged, are_unknown=True)
        remember(net, **decision.facts)
        scores = net.calibrated(judged.scores)
        figures = figures_of(net, ds, scores, intervals=QUICK)
        remember(net, judged=judged_fact(figures, "validation"))
        return {
            **decision.figures,
            "validated": figures,
            **learned_by_rows(ds, scores, net.outputs, loss=net.loss),
        }


def judged_fact(figures: dict, by: str) -> dict:
    """Return what a model keeps of the figures of a test. by: folds, or validation."""
    return {
        "rows": figures["rows"],
        "by": by,
        "metrics": {name: figures[name] for name in METRICS if name in figures},
        "intervals": figures.get("intervals", {}),
    }


def loss_of(figures: dict, net: Network) -> tuple[str, float | None]:
    """Return the mean loss of the folds of a network with its name, or that of
    validation rows; None where it is undefined."""
    if "mean" not in figures:
        return "validation loss", min(
            (value for value in figures["val_metric"] if value is not None),
            default=None,
        )
    name = formula_name(LOSS, net.task, net.loss)
    return name.replace("_", " "), figures["mean"][name]
