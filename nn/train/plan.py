"""Plan: the networks of a run before they are made. --networks, --vary and --folds are short ways to write one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..data.records import COPIES, ROW_BYTES, network_bytes
from ..data.splits import Fold, Split, fold_rows, remark_on_rare_folds, split_given
from ..ds import Dataset
from ..layers import Layer, parse
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..utils import NnError, UsageError, available_memory
from .member import Member
from .options import Options, is_decided_later, options_of
from .rows import facts_of, fit_encoding, split_of, split_seed
from .search import check_choice
from .vary import SETTINGS, Variation, layers_with


@dataclass(frozen=True)
class Drawn:
    """The settings of one network; layers: None, those of all; settings: what --vary drew, by name."""

    options: Options
    layers: str | None = None
    settings: dict = field(default_factory=dict)


@dataclass
class Plan:
    """The networks that a run trains: with the seeds net.seed, net.seed + 1, ...

    flag: what asks for them; options: what they share; config: what the model file keeps of where they come from;
    folds: the rows of each, of a cross-validation; is_search: some of them are chosen.
    """

    net: Network
    ds: Dataset
    flag: str
    options: Options
    each: list[Drawn]
    config: dict
    folds: Sequence[Fold] = ()
    is_search: bool = False

    def check(self) -> None:
        """Raise UsageError for what several networks cannot do."""
        flag, net, count = self.flag, self.net, len(self.each)
        if net.reference:
            raise UsageError(f"{flag}: --reference trains one network; leave one out")
        if net.seed + count > 2**32:
            raise UsageError(f"{flag}: seeds from {net.seed} on must end below 4294967296; use a smaller --seed")

    def read(self) -> None:
        """Make what reads the data, `readers`: for each network one with its inputs, the same for those that read
        alike. The network of the plan reads as the first."""
        net, asked = self.net, self.options.number_embedding
        readers = {asked: net}
        for name in (drawn.options.number_embedding for drawn in self.each):
            if name not in readers:
                readers[name] = net.sibling(net.seed)
                fit_encoding(readers[name], self.ds, replace(self.options, number_embedding=name))
        self.readers = [readers[drawn.options.number_embedding] for drawn in self.each]

    def layers_of(self, number: int) -> Sequence[Layer]:
        """Return the layers of a network."""
        reader, layers = self.readers[number], self.each[number].layers
        return reader.layers if layers is None else parse(layers, columns=reader.layers[0].columns)

    def training_bytes(self) -> list[int]:
        """Return what the training of each network takes of --memory."""
        of_rows = ROW_BYTES * self.ds.rows if self.folds else 0
        return [
            network_bytes(self.layers_of(n), self.net.dtype, COPIES, 4 * drawn.options.batch_number, self.net.inputs)
            + of_rows
            for n, drawn in enumerate(self.each)
        ]

    def check_memory(self) -> None:
        """Raise NnError, which says how many fit, if the networks do not fit the free memory."""
        vectors = [vectors_of(drawn.options) for drawn in self.each]
        needed = np.cumsum([network_bytes(self.layers_of(n), self.net.dtype, v) for n, v in enumerate(vectors)])
        there = available_memory()
        if there is not None and needed[-1] > there:
            fit = int(np.searchsorted(needed, there, side="right"))
            name = self.flag.partition(" ")[0]
            cure = f"{name} {fit} fits" if fit > 1 else "use smaller layers"
            raise NnError(
                f"{self.flag}: {len(needed)} networks need {needed[-1] / 1e9:.1f} GB, but only {there / 1e9:.1f} GB "
                f"are free; {cure}"
            )

    def members(self) -> list[Member]:
        """Make the networks. Those of folds have rows of their own, and encodings by these."""
        self.check_memory()
        seed = split_seed(self.options, self.net.seed)
        is_asked = self.is_search or (is_decided_later(self.options) and not self.folds)
        members = []
        for number, (drawn, reader) in enumerate(zip(self.each, self.readers, strict=True)):
            net, options = reader.sibling(self.net.seed + number, drawn.layers), replace(drawn.options, split_seed=seed)
            split = None
            if self.folds:
                reader, split = net, self._split_of(self.folds[number], seed)
                fit_encoding(net, self.ds, options, split)
            members.append(Member(net, options, reader, split, drawn.settings, is_asked))
        return members

    def _split_of(self, fold: Fold, seed: int) -> Split:
        """Return the rows of a fold's network; it is judged by validation rows, or else by those of the fold."""
        if self.options.validation == OF_FOLD:
            return Split(fold.training, fold.tested, fold.tested)
        split = split_given(self.ds, fold.training, self.options.validation_share, seed)
        return split._replace(holdout=fold.tested)

    def facts_of_folds(self) -> tuple[dict, int]:
        """Return (facts of the network of all folds, the rows that are held out of all of them)."""
        split = split_of(self.ds, self.options, self.net.seed)
        rows = np.union1d(split.training, split.validation)
        return facts_of(self.net, self.ds, rows, self.options, len(split.holdout) > 0), len(split.holdout)


def vectors_of(options: Options) -> int:
    """Return how many vectors a network has while it is trained."""
    vectors = 2 + len(options.moments)  # parameters here and in the engine
    return vectors + (options.monitored is not None) + options.refit  # those of the best epoch, those to begin with


def alike(net: Network, ds: Dataset, options: Options, count: int) -> Plan:
    """Return the plan of --networks: they differ by their seeds alone."""
    return Plan(net, ds, f"--networks {count}", options, [Drawn(options)] * count, {"networks": count})


def varied(net: Network, ds: Dataset, given: dict, count: int, text: str) -> Plan:
    """Return the plan of --vary, which draws settings for each network. given: as options_of takes it. Raises
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
    config = {"networks": count, "vary": text, "chosen": chosen}
    return Plan(net, ds, f"--networks {count}", options, each, config, is_search=True)


def by_fold(net: Network, ds: Dataset, options: Options, count: int) -> Plan:
    """Return the plan of --folds: a network for each fold of the training rows."""
    split = split_of(ds, options, net.seed, remark=True)
    rows = np.union1d(split.training, split.validation)
    is_judged = options.validation == OF_FOLD
    if is_judged:
        remark_on_rare_folds(ds, rows, count)
    folds = fold_rows(ds, rows, count, split_seed(options, net.seed), is_judged)
    return Plan(net, ds, f"--folds {count}", options, [Drawn(options)] * count, {"folds": count}, folds)
