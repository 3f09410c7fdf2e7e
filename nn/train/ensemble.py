"""Ensemble: the networks of a run that predict together: which of them, their decisions, the metrics of all."""

from __future__ import annotations

from dataclasses import asdict

from ..nn import Network
from ..nn_aux import OF_FOLD
from ..settings.flags import DEFAULTS
from ..test import remarks
from ..utils import told_once
from .decision import check_decision, decide_by, decide_on, mean_scores
from .folds import figures_by_fold, predicted_by_folds, summary
from .learned import learned
from .options import is_decided_later
from .plan import Plan
from .rows import config_of
from .run import Run
from .search import SuccessiveHalving, choose, scores_of_members
from .vary import SETTINGS

# what became of a network
CHOSEN, NOT_CHOSEN, GIVEN_UP, FAILED = "member", "not chosen", "given up", "failed"


class Ensemble:
    """A network whose members are the networks of a plan; see train for what is raised."""

    def __init__(self, net: Network, plan: Plan, apart, **beside):
        """apart: what net.apart yields; beside: callback, stop, checkpoint and validation, as Run takes them."""
        self.net, self.plan, self.options = net, plan, plan.options
        self._read_as(plan.readers[0])
        self._facts_of_folds, self._held_out = plan.facts_of_folds() if plan.folds else (None, None)
        members, halving = plan.members(), None
        if plan.is_search:
            halving = SuccessiveHalving(plan.options.monitored, [member.options.epochs for member in members])
        self.run = Run(net, members, plan.ds, apart=apart, halving=halving, about=self._about(), **beside)
        self.chosen: dict[int, float] = {}  # weights by numbers, where a selection took some

    def _about(self) -> dict:
        """Return what callbacks are told of the run beside the settings of its first network."""
        varied = f", but for {self.plan.config['vary']}" if self.plan.is_search else ""
        return {
            **{name: value for name, value in asdict(self.options).items() if name in SETTINGS},
            "seed": self.net.seed,
            "layers": f"{self.net.spec}{varied}",
            **({"holdout": self._held_out} if self.options.validation == OF_FOLD else {}),  # its rows are judged by
        }

    def _read_as(self, reader: Network) -> None:
        """Let the network of all networks read data as one of them does."""
        if self.net.encoding is not reader.encoding:
            self.net.adopt(reader.encoding)

    def train(self) -> dict:
        """Train the networks; return the metrics of `--json`."""
        run, plan, net = self.run, self.plan, self.net
        try:
            run.begin()
            rows = run.members[0].rows
            facts = self._facts_of_folds if plan.folds else rows.facts
            config = {**config_of(net, plan.ds, self.options), **plan.config}
            self._facts = {**facts, "config": config}
            if is_decided_later(self.options):
                check_decision(net, self.options, bool(plan.folds) or rows.decisive()[2])
            run.resume(config)
            run.run()
        finally:
            if run.has_begun and run.alive():
                net.describe(**self._facts)
                self._combine()
        if plan.is_search:
            self._choose()
        return self._result() | (self._by_folds() if plan.folds else self._decided())

    def weights(self) -> dict[int, float]:
        """Return the weight of each member of the model."""
        return self.chosen or dict.fromkeys(self.run.alive(), 1.0)

    def _combine(self) -> None:
        """Make the members those of the network."""
        weights = self.weights()
        self._read_as(self.plan.readers[next(iter(weights))])
        self.net.describe(history=self.run.losses(weights=self.chosen))
        self.net.combine([self.run.members[number].net for number in weights], list(weights.values()))

    # ---- what validation rows decide

    def _unknown(self) -> tuple:
        """Return (truth, scores of each network that is left, weights or None) of rows that they did not know."""
        members = list(self.run.alive().values())
        if all(member.unknown is not None for member in members):
            truth, scores, weights = zip(*(member.unknown for member in members), strict=True)
            return truth[0], scores, weights[0]
        return scores_of_members(self.net, *self._decisive())

    def _decisive(self) -> tuple:
        return self.run.members[0].rows.decisive()[:2]

    def _choose(self) -> None:
        """Choose the members that together do best on the validation rows."""
        threshold = self.options.threshold
        threshold = DEFAULTS["threshold"] if isinstance(threshold, str) else threshold
        counts = choose(self.net.task, self.options.monitored, *self._unknown(), threshold=threshold)
        self.chosen = {n: float(count) for n, count in zip(self.run.alive(), counts, strict=True) if count}
        self._combine()

    def _decided(self) -> dict:
        """Find what the options leave to be found, for all networks together."""
        if not is_decided_later(self.options):
            return {}
        members = {number: self.run.members[number] for number in self.weights()}
        refitted = {n: weight for n, weight in self.weights().items() if members[n].unknown is not None}
        if not refitted:
            return decide_on(self.net, *self._decisive(), self.options)
        truth, scores, weights = zip(*(members[number].unknown for number in refitted), strict=True)
        return decide_by(self.net, self.options, truth[0], mean_scores(scores, [*refitted.values()]), weights[0])

    def _by_folds(self) -> dict:
        """Return what is decided by the rows of the folds, and their metrics, means and standard deviations."""
        net, ds = self.net, self.plan.ds
        rows, of_fold, scores = predicted_by_folds(net, ds, self.plan.folds)
        weights = None if ds.weights is None else ds.weights[rows]
        decided = decide_by(net, self.options, ds.y[rows], scores, weights)
        with told_once(remarks):
            each = figures_by_fold(net, ds, rows, of_fold, net.calibrated(scores))
        return {**decided, "folds": each, **summary(each)}

    # ---- metrics

    def _result(self) -> dict:
        """Return the metrics of `--json`."""
        run, weights = self.run, self.weights()
        left = run.left()
        figures = {number: member.figures() for number, member in left.items()}
        first = figures[next(iter(weights))]
        batches = sum(member.epochs_done * member.batches for member in left.values())
        seconds = max((own["seconds"] for own in figures.values()), default=0.0)
        members = [
            {
                "seed": left[number].net.seed,
                "weight": weight,
                "settings": left[number].settings,
                "best_epoch": figures[number].get("best_epoch"),
            }
            for number, weight in weights.items()
        ]
        return {
            **{name: value for name, value in first.items() if name not in ("best_epoch", "refit")},
            "networks": len(weights),
            "parameters": sum(left[number].net.parameter_count for number in weights),
            **run.losses(weights=self.chosen),
            **learned([left[number].outcome() for number in weights], list(weights.values())),
            "members": members,
            **({"trials": self._tried(figures)} if self.plan.is_search else {}),
            "seconds": seconds,
            "us_per_batch": 1e6 * seconds / batches,
            **({"ranks": run.ranks.size} if run.ranks.size > 1 else {}),
            **({"holdout": self._held_out} if self.plan.folds else {}),
            "epochs": self.options.epochs,
            "threads": run.threads(),
        }

    def _tried(self, figures: dict[int, dict]) -> list[dict]:
        """Return what came of each network."""
        weights, alive = self.weights(), self.run.alive()
        tried = []
        for number, member in enumerate(self.run.members):
            is_dropped = number in self.run.dropped
            failed = FAILED if is_dropped else NOT_CHOSEN if number in alive else GIVEN_UP
            tried.append(
                {
                    "seed": member.net.seed,
                    "settings": member.settings,
                    "score": None if is_dropped else member.score(),
                    "epochs": member.epochs_done,
                    "best_epoch": None if is_dropped else figures[number].get("best_epoch"),
                    "weight": weights.get(number, 0.0),
                    "status": CHOSEN if number in weights else failed,
                }
            )
        return tried
