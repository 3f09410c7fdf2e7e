"""Ensemble: the networks that predict together, of --networks, --vary or --folds, which
are short ways to write a list of trainings: their settings, which of them are members,
the decisions and the metrics of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..data.records import ROW_BYTES, network_bytes, training_bytes
from ..data.splits import (
    Fold,
    Split,
    fold_rows,
    remark_on_dates,
    remark_on_twins,
    split_rows,
    unjudged_classes,
)
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import OF_FOLD, TASKS
from ..settings.flags import DEFAULTS
from ..test import remarks
from ..test.out_of_fold import figures_by_fold, out_of_fold
from ..utils import NnError, UsageError, available_memory, listed, log, told_once
from .common_epoch import FoldEpochs
from .decision import check_decision, decide_by_members, decide_crossed
from .folds import predicted_out_of_fold, summary
from .learned import learned, learned_by_rows
from .member import Member
from .options import Options, is_decided_later, options_of
from .rows import config_of, facts_of, fit_encoding, split_of, split_seed
from .run import Run
from .search import SuccessiveHalving, check_choice, choose, scores_of_members
from .vary import DRAWN_SETTINGS, Variation, layers_with

# what became of a network
CHOSEN = "member"
NOT_CHOSEN = "not chosen"
GIVEN_UP = "given up"
FAILED = "failed"


def check_several(several: Mapping) -> bool:
    """Return whether `networks`, `vary` and `folds` ask for several networks. Raises
    UsageError for those that do not go together."""
    networks = several.get("networks") or 1
    vary = several.get("vary")
    folds = several.get("folds")
    if vary is not None and folds is not None:
        raise UsageError(
            f"--vary {vary}: compares networks on the same rows; leave out --folds and give --validation"
        )
    if vary is not None and networks < 2:
        raise UsageError(f"--vary {vary}: needs several networks; give --networks K")
    if folds is not None and networks > 1:
        raise UsageError(
            f"--folds {folds}: trains a network for each fold; leave out --networks"
        )
    return folds is not None or networks > 1


class Ensemble:
    """A network whose members have the seeds net.seed, net.seed + 1, ...

    options: what they share; settings: those of it that are not left to their defaults;
    several: networks, vary, folds, as check_several has them. Raises UsageError for
    what several networks cannot do.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset,
        options: Options,
        settings: dict,
        several: Mapping,
    ):
        self.net = net
        self.ds = ds
        self.options = options
        folds = several.get("folds")
        self._vary = several.get("vary")
        self._count = folds or several["networks"]
        if folds:
            self._flag = "--folds"
        else:
            self._flag = "--networks"
        if net.reference:
            raise UsageError(
                f"{self._flag} {self._count}: --reference trains one network; leave one out"
            )
        if net.seed + self._count > 2**32:
            first = f"seeds from {net.seed} on must end below 4294967296"
            raise UsageError(
                f"{self._flag} {self._count}: {first}; use a smaller --seed"
            )
        # what the model file keeps
        self._config = {self._flag.lstrip("-"): self._count}
        # networks that read alike have the inputs of one
        self._readers = {options.number_embedding: net}
        self._folds: Sequence[Fold] = ()
        if folds:
            self._folds = self._divided()
            self._members = [
                self._of_fold(number, fold) for number, fold in enumerate(self._folds)
            ]
        elif self._vary:
            self._members = self._varied(settings)
        else:  # which differ by their seeds alone
            self._members = [
                self._member(number, options) for number in range(self._count)
            ]
        if folds and options.validation == OF_FOLD:
            epochs = FoldEpochs(self._members, are_own=ds.times is not None)
            for member in self._members:
                member.fold_epochs = epochs
        self._chosen: dict[Member, float] = {}  # weights, where a selection took some

    # ---- the networks

    def _member(
        self,
        number: int,
        options: Options,
        layers: str | None = None,
        settings: dict | None = None,
    ) -> Member:
        name = options.number_embedding
        if name not in self._readers:
            self._readers[name] = self.net.sibling(self.net.seed)
            fit_encoding(
                self._readers[name],
                self.ds,
                replace(self.options, number_embedding=name),
            )
        net = self._readers[name].sibling(self.net.seed + number, layers)
        options = replace(options, split_seed=split_seed(self.options, self.net.seed))
        is_asked = self._vary is not None or (
            is_decided_later(self.options) and not self._folds
        )
        return Member(
            net, options, self._readers[name], settings=settings, tells_unknown=is_asked
        )

    def _varied(self, settings: dict) -> list[Member]:
        """Return networks with settings that --vary draws for each. Raises UsageError
        for what --vary cannot be."""
        net = self.net
        usual = self.options
        variation = Variation.parse(self._vary)
        variation.check(settings, usual.optimizer, net.written_layers)
        check_choice(net, usual, f"--vary {self._vary}")
        members = []
        for number in range(self._count):
            draws = variation.draw(net.seed + number, usual.optimizer)
            options = options_of(net, self.ds, {**settings, **variation.options(draws)})
            if {"hidden", "dropout"} & {*draws}:
                layers = layers_with(net.written_layers, draws)
            else:
                layers = None
            members.append(self._member(number, options, layers, draws))
        values = [
            (n, v)
            for member in members
            for n, v in member.options.config().items()
            if n in DRAWN_SETTINGS
        ]
        shared = usual.config()
        chosen = sorted(
            {
                *variation.of,
                *(name for name, value in values if shared.get(name) != value),
            }
        )
        self._config |= {"vary": self._vary, "chosen": chosen}
        self.options = replace(
            usual, epochs=max(member.options.epochs for member in members)
        )
        return members

    def _divided(self) -> list[Fold]:
        """Return the folds of the training rows."""
        ds = self.ds
        options = self.options
        count = self._count
        split = split_of(ds, options, self.net.seed, remark=True)
        self._held_out = len(split.holdout)
        rows = np.union1d(split.training, split.validation)
        is_judged = options.validation == OF_FOLD
        if len(rows) == ds.rows and not len(split.validation):
            remark_on_twins(
                ds, rows, are_shared_out=ds.groups is not None or ds.times is not None
            )
            remark_on_dates(ds)
        if is_judged:
            unjudged = unjudged_classes(ds, rows)
        else:
            unjudged = []
        if unjudged:
            log.warning(
                "classes of one row, which no fold judges: all networks train on it: %s",
                listed(unjudged),
            )
        self._facts = facts_of(self.net, ds, rows, options, self._held_out > 0)
        return fold_rows(ds, rows, count, split_seed(options, self.net.seed), is_judged)

    def _of_fold(self, number: int, fold: Fold) -> Member:
        """Return a network with rows of its own, and an encoding by these. It is judged
        by validation rows, or else by those of the fold."""
        member = self._member(number, self.options)
        if self.options.validation == OF_FOLD:
            member.split = Split(fold.training, fold.tested, fold.tested)
        else:
            share = self.options.validation_share
            seed = member.options.split_seed
            member.split = split_rows(
                self.ds, 0.0, share, seed, fold.training
            )._replace(holdout=fold.tested)
        member.reader = member.net
        fit_encoding(member.net, self.ds, member.options, member.split)
        return member

    # ---- what they take

    def training_bytes(self) -> list[int]:
        """Return what the training of each network takes of --memory."""
        if self._folds:
            of_rows = ROW_BYTES * self.ds.rows
        else:
            of_rows = 0
        each = [
            training_bytes(member.net, member.options.batch_number) + of_rows
            for member in self._members
        ]
        if self.options.validation != OF_FOLD:
            return each
        # of the scores at the epoch that others choose
        row = self.net.outputs * np.dtype(self.net.dtype).itemsize
        return [
            own + row * len(fold.tested)
            for own, fold in zip(each, self._folds, strict=True)
        ]

    def _check_memory(self) -> None:
        """Raise NnError, which says how many fit, if the networks do not fit the free
        memory."""
        each = []
        for net, options in ((member.net, member.options) for member in self._members):
            vectors = 2 + len(options.moments)  # parameters here and in the engine
            # of the best epoch, those to begin with
            vectors += (options.monitored is not None) + options.refit
            each.append(network_bytes(net.layers, net.dtype, vectors))
        needed = np.cumsum(each)
        there = available_memory()
        if there is not None and needed[-1] > there:
            fit = int(np.searchsorted(needed, there, side="right"))
            if fit > 1:
                cure = f"{self._flag} {fit} fits"
            else:
                cure = "use smaller layers"
            raise NnError(
                f"{self._flag} {self._count}: {self._count} networks need {needed[-1] / 1e9:.1f} GB, but only "
                f"{there / 1e9:.1f} GB are free; {cure}"
            )

    # ---- the training

    def train(self, apart, **beside) -> dict:
        """Train the networks; return the metrics of `--json`.

        apart: what net.apart yields; beside: callback, stop, checkpoint and validation,
        as Run takes them. Raises what train does.
        """
        net = self.net
        ds = self.ds
        options = self.options
        members = self._members
        self._check_memory()
        self._read_as(members[0])
        if self._vary:
            halving = SuccessiveHalving(
                options.monitored, [m.options.epochs for m in members]
            )
        else:
            halving = None
        if self._vary:
            about = {"layers": f"{net.spec}, but for {self._vary}"}
        else:
            about = {}
        # the rows that are held out otherwise judge the networks
        if options.validation == OF_FOLD:
            about["holdout"] = self._held_out
        run = self._run = Run(
            net,
            members,
            ds,
            options,
            apart=apart,
            halving=halving,
            about=about,
            **beside,
        )
        run.begin()
        self._config = {**config_of(net, ds, options), **self._config}
        try:
            check_decision(
                net, options, bool(self._folds) or members[0].rows.is_validated
            )
            run.resume(self._config)
            run.run()
        finally:
            if run.alive():
                # of --refit those of all its rows
                if self._folds:
                    facts = self._facts
                else:
                    facts = members[0].rows.facts
                net.describe(**{**facts, "config": self._config})
                self._combine()
        if self._vary:
            self._choose()
        if self._folds:
            decided = self._by_folds()
        else:
            decided = decide_by_members(net, options, self._weights())
        return self._result() | decided

    def _read_as(self, member: Member) -> None:
        """Let the network of all networks read data as one of them does; those of folds
        have rows of their own."""
        if not self._folds and self.net.encoding is not member.reader.encoding:
            self.net.adopt(member.reader.encoding)

    def _weights(self) -> dict[Member, float]:
        return self._chosen or dict.fromkeys(self._run.alive(), 1.0)

    def _combine(self) -> None:
        weights = self._weights()
        self._read_as(next(iter(weights)))
        self.net.describe(history=self._run.losses(weights=self._chosen))
        self.net.combine([member.net for member in weights], list(weights.values()))

    def _choose(self) -> None:
        """Choose the members that together do best on validation rows that they did not
        know."""
        alive = self._run.alive()
        threshold = self.options.threshold
        if isinstance(threshold, str):
            threshold = DEFAULTS["threshold"]
        if all(member.unknown is not None for member in alive):
            truth, scores, weights = zip(
                *(member.unknown for member in alive), strict=True
            )
            unknown = truth[0], scores, weights[0]
        else:
            unknown = scores_of_members(self.net, *self._members[0].rows.decisive())
        counts = choose(
            self.net.task, self.options.monitored, *unknown, threshold=threshold
        )
        self._chosen = {
            member: float(count)
            for member, count in zip(alive, counts, strict=True)
            if count
        }
        self._combine()

    # ---- metrics

    def _by_folds(self) -> dict:
        """Return what is decided by the rows of the folds, and their metrics, means and
        standard deviations."""
        net = self.net
        ds = self.ds
        scores = [member.crossed_scores() for member in self._members]
        crossed = predicted_out_of_fold(
            [member.net for member in self._members], ds, self._folds, scores
        )
        if ds.weights is None:
            weights = None
        else:
            weights = ds.weights[crossed.rows]
        decided = decide_crossed(
            net, self.options, crossed, ds.y[crossed.rows], weights
        )
        with told_once(remarks):
            each = figures_by_fold(net, ds, *out_of_fold(net, ds))
        return {**decided, **self._learned(), "folds": each, **summary(each)}

    def _learned(self) -> dict:
        """Return whether the scores of the folds' rows are surely better than those of
        a constant; nothing for a loss other than the usual one, of which the means over
        the folds tell it."""
        net = self.net
        ds = self.ds
        if net.loss != TASKS[ds.task][1]:
            return {}
        rows = ds.of_rows(net.crossed.rows, inputs=False)
        figures = learned_by_rows(
            rows, net.crossed.calibrated, net.outputs, net.crossed.of_row
        )
        return {"learned": figures["learned"]}

    def _result(self) -> dict:
        run = self._run
        weights = self._weights()
        left = run.left()
        losses = run.losses(weights=self._chosen)
        first = next(iter(weights)).figures()
        batches = sum(member.epochs_done * member.batches for member in left)
        seconds = max(member.seconds for member in left)
        return {
            **{
                name: value
                for name, value in first.items()
                if name not in ("best_epoch", "refit")
            },
            "networks": len(weights),
            "parameters": sum(member.net.parameter_count for member in weights),
            **losses,
            **learned([member.outcome() for member in weights], list(weights.values())),
            "members": [self._facts_of(member) for member in weights],
            **({"trials": self._trials()} if self._vary else {}),
            "seconds": seconds,
            "us_per_batch": 1e6 * seconds / batches,
            **({"ranks": run.ranks.size} if run.ranks.size > 1 else {}),
            **({"holdout": self._held_out} if self._folds else {}),
            "epochs": self.options.epochs,
            "epochs_run": len(losses["loss"]),
            "threads": run.threads(),
        }

    def _facts_of(self, member: Member) -> dict:
        if member.failed:
            best = None
        else:
            best = member.best_epoch()
        weight = self._weights().get(member, 0.0)
        return {
            "seed": member.net.seed,
            "weight": weight,
            "settings": member.settings,
            "best_epoch": best,
        }

    def _trials(self) -> list[dict]:
        """Return what became of each network."""
        weights = self._weights()
        alive = {*self._run.alive()}
        trials = []
        for member in self._members:
            if member.failed:
                gone = FAILED
            elif member in alive:
                gone = NOT_CHOSEN
            else:
                gone = GIVEN_UP
            if member in weights:
                status = CHOSEN
            else:
                status = gone
            if member.failed:
                score = None
            else:
                score = member.score()
            trials.append(
                {
                    **self._facts_of(member),
                    "score": score,
                    "epochs": member.epochs_done,
                    "status": status,
                }
            )
        return trials
