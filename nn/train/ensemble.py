"""Ensemble: the networks that predict together, of --networks, --vary or --folds, which are short ways to write a list
of trainings: their settings, which of them are members, the decisions and the metrics of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from ..data.records import COPIES, ROW_BYTES, network_bytes
from ..data.splits import Fold, Split, fold_rows, rare_classes, split_rows
from ..ds import Dataset
from ..layers import parse
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..settings.flags import DEFAULTS
from ..test import remarks
from ..utils import NnError, UsageError, available_memory, listed, log, told_once
from .decision import check_decision, decide_by, judged, mean_scores
from .folds import figures_by_fold, predicted_by_folds, summary
from .learned import learned
from .member import Member
from .options import Options, is_decided_later, options_of
from .rows import config_of, facts_of, fit_encoding, split_of, split_seed
from .run import Run
from .search import SuccessiveHalving, check_choice, choose, scores_of_members
from .vary import SETTINGS, Variation, layers_with

# what became of a network
CHOSEN, NOT_CHOSEN, GIVEN_UP, FAILED = "member", "not chosen", "given up", "failed"


@dataclass(frozen=True)
class Drawn:
    """The settings of one network; layers: None, those of all; settings: what --vary drew, by name."""

    options: Options
    layers: str | None = None
    settings: dict = field(default_factory=dict)


class Ensemble:
    """A network whose members are networks with the seeds net.seed, net.seed + 1, ...

    options: what they share; each: the settings of each; config: what the model file keeps of where they come from;
    folds: the rows of each, of a cross-validation; is_search: some of them are chosen. Raises UsageError for what
    several networks cannot do.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset,
        options: Options,
        each: Sequence[Drawn],
        config: dict,
        folds: Sequence[Fold] = (),
        is_search: bool = False,
    ):
        self.net, self.ds, self.options, self._each, self._config = net, ds, options, each, config
        self._folds, self._is_search, count = folds, is_search, len(each)
        self._flag = f"--{'folds' if folds else 'networks'} {count}"
        if net.reference:
            raise UsageError(f"{self._flag}: --reference trains one network; leave one out")
        if net.seed + count > 2**32:
            first = f"seeds from {net.seed} on must end below 4294967296"
            raise UsageError(f"{self._flag}: {first}; use a smaller --seed")
        readers = {options.number_embedding: net}  # networks that read alike have the inputs of one
        for name in (drawn.options.number_embedding for drawn in each):
            if name not in readers:
                readers[name] = net.sibling(net.seed)
                fit_encoding(readers[name], ds, replace(options, number_embedding=name))
        self._readers = [readers[drawn.options.number_embedding] for drawn in each]
        self._layers = [
            reader.layers if drawn.layers is None else parse(drawn.layers, columns=reader.layers[0].columns)
            for drawn, reader in zip(each, self._readers, strict=True)
        ]
        self._chosen: dict[int, float] = {}  # weights by numbers, where a selection took some

    def training_bytes(self) -> list[int]:
        """Return what the training of each network takes of --memory."""
        of_rows = ROW_BYTES * self.ds.rows if self._folds else 0
        return [
            network_bytes(layers, self.net.dtype, COPIES, 4 * drawn.options.batch_number, self.net.inputs) + of_rows
            for layers, drawn in zip(self._layers, self._each, strict=True)
        ]

    # ---- before the first epoch

    def _check_memory(self) -> None:
        """Raise NnError, which says how many fit, if the networks do not fit the free memory."""
        needed = np.cumsum([
            network_bytes(layers, self.net.dtype, vectors_of(drawn.options))
            for layers, drawn in zip(self._layers, self._each, strict=True)
        ])  # fmt: skip
        there = available_memory()
        if there is not None and needed[-1] > there:
            fit = int(np.searchsorted(needed, there, side="right"))
            cure = f"{self._flag.partition(' ')[0]} {fit} fits" if fit > 1 else "use smaller layers"
            raise NnError(
                f"{self._flag}: {len(needed)} networks need {needed[-1] / 1e9:.1f} GB, but only {there / 1e9:.1f} GB "
                f"are free; {cure}"
            )

    def _members(self) -> list[Member]:
        """Make the networks. Those of folds have rows of their own, and encodings by these."""
        self._check_memory()
        seed = split_seed(self.options, self.net.seed)
        is_asked = self._is_search or (is_decided_later(self.options) and not self._folds)
        members = []
        for number, (drawn, reader) in enumerate(zip(self._each, self._readers, strict=True)):
            net, options = reader.sibling(self.net.seed + number, drawn.layers), replace(drawn.options, split_seed=seed)
            split = None
            if self._folds:
                reader, split = net, self._split_of(self._folds[number], seed)
                fit_encoding(net, self.ds, options, split)
            members.append(Member(net, options, reader, split, drawn.settings, is_asked))
        return members

    def _split_of(self, fold: Fold, seed: int) -> Split:
        """Return the rows of a fold's network; it is judged by validation rows, or else by those of the fold."""
        if self.options.validation == OF_FOLD:
            return Split(fold.training, fold.tested, fold.tested)
        split = split_rows(self.ds, 0.0, self.options.validation_share, seed, fold.training)
        return split._replace(holdout=fold.tested)

    def _about(self) -> dict:
        """Return what callbacks are told of the run beside the settings of its first network."""
        varied = f", but for {self._config['vary']}" if self._is_search else ""
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

    # ---- the training

    def train(self, apart, **beside) -> dict:
        """Train the networks; return the metrics of `--json`.

        apart: what net.apart yields; beside: callback, stop, checkpoint and validation, as Run takes them. Raises what
        train does.
        """
        net, ds, options = self.net, self.ds, self.options
        self._read_as(self._readers[0])
        if self._folds:
            split = split_of(ds, options, net.seed)
            self._held_out, rows = len(split.holdout), np.union1d(split.training, split.validation)
            facts = facts_of(net, ds, rows, options, self._held_out > 0)
        members, halving = self._members(), None
        if self._is_search:
            halving = SuccessiveHalving(options.monitored, [member.options.epochs for member in members])
        run = self._run = Run(net, members, ds, apart=apart, halving=halving, about=self._about(), **beside)
        try:
            run.begin()
            rows = members[0].rows
            self._config = {**config_of(net, ds, options), **self._config}
            self._facts = {**(facts if self._folds else rows.facts), "config": self._config}
            if is_decided_later(options):
                check_decision(net, options, bool(self._folds) or rows.decisive()[2])
            run.resume(self._config)
            run.run()
        finally:
            if run.has_begun and run.alive():
                net.describe(**self._facts)
                self._combine()
        if self._is_search:
            self._choose()
        return self._result() | (self._by_folds() if self._folds else self._decided())

    def _weights(self) -> dict[int, float]:
        return self._chosen or dict.fromkeys(self._run.alive(), 1.0)

    def _combine(self) -> None:
        weights = self._weights()
        self._read_as(self._readers[next(iter(weights))])
        self.net.describe(history=self._run.losses(weights=self._chosen))
        self.net.combine([self._run.members[number].net for number in weights], list(weights.values()))

    # ---- what validation rows decide

    def _decisive(self) -> tuple:
        return self._run.members[0].rows.decisive()[:2]

    def _choose(self) -> None:
        """Choose the members that together do best on validation rows that they did not know."""
        alive, threshold = self._run.alive(), self.options.threshold
        threshold = DEFAULTS["threshold"] if isinstance(threshold, str) else threshold
        if all(member.unknown is not None for member in alive.values()):
            truth, scores, weights = zip(*(member.unknown for member in alive.values()), strict=True)
            unknown = truth[0], scores, weights[0]
        else:
            unknown = scores_of_members(self.net, *self._decisive())
        counts = choose(self.net.task, self.options.monitored, *unknown, threshold=threshold)
        self._chosen = {number: float(count) for number, count in zip(alive, counts, strict=True) if count}
        self._combine()

    def _decided(self) -> dict:
        """Find what the options leave to be found, for all networks together."""
        if not is_decided_later(self.options):
            return {}
        members = {number: self._run.members[number] for number in self._weights()}
        refitted = {n: weight for n, weight in self._weights().items() if members[n].unknown is not None}
        if not refitted:
            return decide_by(self.net, self.options, *judged(self.net, *self._decisive()))
        truth, scores, weights = zip(*(members[number].unknown for number in refitted), strict=True)
        return decide_by(self.net, self.options, truth[0], mean_scores(scores, [*refitted.values()]), weights[0])

    def _by_folds(self) -> dict:
        """Return what is decided by the rows of the folds, and their metrics, means and standard deviations."""
        net, ds = self.net, self.ds
        rows, of_fold, scores = predicted_by_folds(net, ds, self._folds)
        weights = None if ds.weights is None else ds.weights[rows]
        decided = decide_by(net, self.options, ds.y[rows], scores, weights)
        with told_once(remarks):
            each = figures_by_fold(net, ds, rows, of_fold, net.calibrated(scores))
        return {**decided, "folds": each, **summary(each)}

    # ---- metrics

    def _result(self) -> dict:
        run, weights = self._run, self._weights()
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
            **run.losses(weights=self._chosen),
            **learned([left[number].outcome() for number in weights], list(weights.values())),
            "members": members,
            **({"trials": self._tried(figures)} if self._is_search else {}),
            "seconds": seconds,
            "us_per_batch": 1e6 * seconds / batches,
            **({"ranks": run.ranks.size} if run.ranks.size > 1 else {}),
            **({"holdout": self._held_out} if self._folds else {}),
            "epochs": self.options.epochs,
            "threads": run.threads(),
        }

    def _tried(self, figures: dict[int, dict]) -> list[dict]:
        weights, alive = self._weights(), self._run.alive()
        tried = []
        for number, member in enumerate(self._run.members):
            is_dropped = number in self._run.dropped
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


def vectors_of(options: Options) -> int:
    vectors = 2 + len(options.moments)  # parameters here and in the engine
    return vectors + (options.monitored is not None) + options.refit  # those of the best epoch, those to begin with


# ---- the networks that the flags ask for


def ensemble_for(net: Network, ds: Dataset, options: Options, given: dict, asked: dict) -> Callable | None:
    """Return what makes the ensemble that networks, vary and folds, in `asked`, ask for; None for one network.

    given: the options as options_of takes them. Raises UsageError.
    """
    networks, vary, folds = asked.get("networks") or 1, asked.get("vary"), asked.get("folds")
    if vary is not None and folds is not None:
        raise UsageError(f"--vary {vary}: compares networks on the same rows; leave out --folds and give --validation")
    if vary is not None and networks < 2:
        raise UsageError(f"--vary {vary}: needs several networks; give --networks K")
    if folds is not None and networks > 1:
        raise UsageError(f"--folds {folds}: trains a network for each fold; leave out --networks")
    if folds is not None:
        return lambda: by_fold(net, ds, options, folds)
    if vary is not None:
        return lambda: varied(net, ds, given, networks, vary)
    if networks > 1:  # which differ by their seeds alone
        return lambda: Ensemble(net, ds, options, [Drawn(options)] * networks, {"networks": networks})
    return None


def varied(net: Network, ds: Dataset, given: dict, count: int, text: str) -> Ensemble:
    """Return the ensemble of --vary, which draws settings for each network. given: as options_of takes it. Raises
    UsageError for what --vary cannot be."""
    variation, options = Variation.parse(text), options_of(net, ds, given)
    variation.check(given, options.optimizer, net.written_layers)
    check_choice(net, options, f"--vary {text}")
    each = []
    for number in range(count):
        drawn = variation.draw(net.seed + number)
        own = variation.options(drawn, options.optimizer)
        layers = layers_with(net.written_layers, drawn) if {"hidden", "dropout"} & {*drawn} else None
        each.append(Drawn(options_of(net, ds, {**given, **own}), layers, variation.settings(drawn, own)))
    usual = options.config()
    values = [(name, value) for one in each for name, value in one.options.config().items() if name in SETTINGS]
    chosen = sorted({*variation.of, *(name for name, value in values if usual.get(name) != value)})
    options = replace(options, epochs=max(one.options.epochs for one in each))
    return Ensemble(net, ds, options, each, {"networks": count, "vary": text, "chosen": chosen}, is_search=True)


def by_fold(net: Network, ds: Dataset, options: Options, count: int) -> Ensemble:
    """Return the ensemble of --folds: a network for each fold of the training rows."""
    split = split_of(ds, options, net.seed, remark=True)
    rows = np.union1d(split.training, split.validation)
    is_judged = options.validation == OF_FOLD
    if is_judged and (few := rare_classes(ds, rows, count)):
        log.warning("classes of fewer rows than the %d folds: all networks train on them: %s", count, listed(few))
    folds = fold_rows(ds, rows, count, split_seed(options, net.seed), is_judged)
    return Ensemble(net, ds, options, [Drawn(options)] * count, {"folds": count}, folds)
