"""Plan: the trainings that a call asks for, decided before the first of them begins.

    one network    plan_one
    --networks K   plan_networks: networks that differ by their seeds
    --vary         plan_varied: and by settings that are drawn for each
    --folds F      plan_folds: a network for each fold, with rows of its own
    train_many     plan_listed: settings of each, given one by one

A further way to make several networks is a planner here, and where its networks become
one in another way, a function in combine.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..data.prepared import Prepared
from ..data.records import ROW_BYTES, check_left, network_bytes, training_bytes
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
from ..nn_aux import OF_FOLD
from ..settings.flags import checked_settings
from ..utils import NnError, UsageError, available_memory, listed, log
from .options import Options, is_decided_later, options_of
from .rows import check_fit, row_settings, split_of, split_seed
from .search import check_choice
from .vary import DRAWN_SETTINGS, Variation, layers_with

NETWORK_SETTINGS = ("layers", "activation", "loss", "init", "seed")


@dataclass
class Trial:
    """One training: a network that nobody has trained, or that goes on, its settings
    and its rows.

    drawn: settings that --vary has drawn for it. keeps_unknown: whether what it
    predicts of validation rows before a refit is kept, by which is decided after it.
    has_own_rows: they are other rows than the options ask for.
    """

    net: Network
    options: Options
    prepared: Prepared
    drawn: dict = field(default_factory=dict)
    keeps_unknown: bool = False
    has_own_rows: bool = False


@dataclass
class Plan:
    """Trainings that belong together.

    net: what they make, which reads data as the first of them does. options: what they
    share. facts: what `net` keeps of data and settings; None: those of the first trial.
    config: what its settings have beside those of a training. folds: of the rows, one
    for each trial. variation: what --vary says. flag: what asks for several networks.
    """

    net: Network
    ds: Dataset
    options: Options
    trials: list[Trial]
    facts: dict | None = None
    config: dict = field(default_factory=dict)
    folds: Sequence[Fold] = ()
    variation: Variation | None = None
    flag: str | None = None
    holdout_count: int | None = None

    @property
    def is_judged_by_folds(self) -> bool:
        """Return whether the rows of a fold choose the epoch of its network."""
        return bool(self.folds) and self.options.validation == OF_FOLD

    def training_bytes(self) -> list[int]:
        """Return what each training takes of --memory."""
        each = [
            training_bytes(trial.net, trial.options.batch_number)
            for trial in self.trials
        ]
        if not self.folds:
            return each
        each = [size + ROW_BYTES * self.ds.rows for size in each]
        if not self.is_judged_by_folds:
            return each
        # of the scores at the epoch that others choose
        row = self.net.outputs * np.dtype(self.net.dtype).itemsize
        return [
            size + row * len(fold.tested)
            for size, fold in zip(each, self.folds, strict=True)
        ]

    def check_free_memory(self) -> None:
        """Raise NnError, which says how many fit, if the networks do not fit the free
        memory."""
        sizes = []
        for trial in self.trials:
            options = trial.options
            vectors = 2 + len(options.moments)  # parameters here and in the engine
            # of the best epoch, those to begin with
            vectors += (options.monitored is not None) + options.refit
            sizes.append(network_bytes(trial.net.layers, trial.net.dtype, vectors))
        needed = np.cumsum(sizes)
        free = available_memory()
        if free is None or needed[-1] <= free:
            return
        fitting = int(np.searchsorted(needed, free, side="right"))
        cure = "use smaller layers"
        if fitting > 1:
            cure = f"{self.flag} {fitting} fits"
        count = len(self.trials)
        raise NnError(
            f"{self.flag} {count}: {count} networks need {needed[-1] / 1e9:.1f} GB, but only "
            f"{free / 1e9:.1f} GB are free; {cure}"
        )


def are_several(several: Mapping) -> bool:
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


def plan_of(
    net: Network,
    ds: Dataset,
    options: Options,
    settings: dict,
    several: Mapping,
    rows: np.ndarray | None = None,
) -> Plan:
    """Return the trainings that a call of `train` asks for. settings: those of the
    options that are not left to their defaults; several: networks, vary, folds; rows:
    those to train on. Raises DataError and UsageError for what cannot be."""
    check_fit(net, ds)
    check_left(
        ROW_BYTES * ds.rows,
        f"out of memory: a training of {ds.rows} rows",
        "use fewer rows",
    )
    if not are_several(several):
        return plan_one(net, ds, options, rows)
    if rows is not None:
        raise UsageError(
            "rows: are those of one network; leave out networks, folds and vary"
        )
    if several.get("folds"):
        return plan_folds(net, ds, options, several["folds"])
    if several.get("vary") is not None:
        variation = Variation.parse(several["vary"])
        return plan_varied(net, ds, options, settings, variation, several["networks"])
    return plan_networks(net, ds, options, several["networks"])


# ---- one network


def plan_one(
    net: Network, ds: Dataset, options: Options, rows: np.ndarray | None = None
) -> Plan:
    """Return the training of a network itself; rows: on these alone."""
    if rows is None:
        split = split_of(ds, options, net.seed, remark=True)
    else:
        seed = split_seed(options, net.seed)
        split = split_rows(ds, 0.0, options.validation_share, seed, rows)
    prepared = _prepared(net, ds, options, split)
    trial = Trial(
        net,
        options,
        prepared,
        keeps_unknown=is_decided_later(options),
        has_own_rows=rows is not None,
    )
    return Plan(net, ds, options, [trial])


def _prepared(net: Network, ds: Dataset, options: Options, split: Split) -> Prepared:
    """Return the rows as a network reads them, which gets the encoding that it needs
    for it."""
    prepared = Prepared.of(ds, split, row_settings(net, options), net.encoding)
    if prepared.reader.encoding is not net.encoding:
        net.adopt(prepared.reader.encoding)
    return prepared


# ---- several that read the same rows


def plan_networks(net: Network, ds: Dataset, options: Options, count: int) -> Plan:
    """Return the trainings of networks that differ by their seeds."""
    check_count(net, "--networks", count)
    prepared = _prepared(net, ds, options, split_of(ds, options, net.seed, remark=True))
    options_of_each = _with_one_split(net, options)
    trials = [
        Trial(
            net.sibling(net.seed + number),
            options_of_each,
            prepared,
            keeps_unknown=is_decided_later(options),
        )
        for number in range(count)
    ]
    return Plan(net, ds, options, trials, config={"networks": count}, flag="--networks")


def plan_varied(
    net: Network,
    ds: Dataset,
    options: Options,
    settings: dict,
    variation: Variation,
    count: int,
) -> Plan:
    """Return the trainings of networks with settings that --vary draws for each."""
    check_count(net, "--networks", count)
    split = split_of(ds, options, net.seed, remark=True)
    prepared = _prepared(net, ds, options, split)
    variation.check(settings, options.optimizer, net.written_layers)
    check_choice(net, options, f"--vary {variation.text}")
    # networks of which numbers are embedded alike read the same rows
    readings = {options.number_embedding: prepared}
    trials = []
    for number in range(count):
        drawn = variation.draw(net.seed + number, options.optimizer)
        own = options_of(net, ds, {**settings, **variation.options(drawn)})
        embedding = own.number_embedding
        if embedding not in readings:
            readings[embedding] = Prepared.of(ds, split, row_settings(net, own))
        layers = None
        if {"hidden", "dropout"} & {*drawn}:
            layers = layers_with(net.written_layers, drawn)
        trials.append(
            Trial(
                net.sibling(
                    net.seed + number, layers, readings[embedding].reader.encoding
                ),
                _with_one_split(net, own),
                readings[embedding],
                drawn,
                keeps_unknown=True,
            )
        )
    config = {
        "networks": count,
        "vary": variation.text,
        "chosen": _settings_that_differ(variation, options, trials),
    }
    longest = replace(options, epochs=max(trial.options.epochs for trial in trials))
    return Plan(
        net,
        ds,
        longest,
        trials,
        config=config,
        variation=variation,
        flag="--networks",
    )


def _settings_that_differ(
    variation: Variation, options: Options, trials: Sequence[Trial]
) -> list[str]:
    """Return the names of the settings that are varied, and of those that follow from
    them."""
    shared = options.config()
    names = {*variation.of}
    for trial in trials:
        for name, value in trial.options.config().items():
            if name in DRAWN_SETTINGS and shared.get(name) != value:
                names.add(name)
    return sorted(names)


def check_count(net: Network, flag: str, count: int) -> None:
    """Raise UsageError for a network that cannot be several, by what a flag asks
    for."""
    if net.reference:
        raise UsageError(
            f"{flag} {count}: --reference trains one network; leave one out"
        )
    if net.seed + count > 2**32:
        raise UsageError(
            f"{flag} {count}: seeds from {net.seed} on must end below 4294967296; use a smaller --seed"
        )


def _with_one_split(net: Network, options: Options) -> Options:
    """Return the options of a member, whose rows are those that its network's seed
    draws."""
    return replace(options, split_seed=split_seed(options, net.seed))


# ---- a network for each fold


def plan_folds(net: Network, ds: Dataset, options: Options, count: int) -> Plan:
    """Return the trainings of a cross-validation: each has an encoding by its own
    rows."""
    check_count(net, "--folds", count)
    split = split_of(ds, options, net.seed, remark=True)
    prepared = _prepared(net, ds, options, split)
    rows = np.union1d(split.training, split.validation)
    if len(rows) == ds.rows and not len(split.validation):
        has_own_order = ds.groups is not None or ds.times is not None
        remark_on_twins(ds, rows, are_shared_out=has_own_order)
        remark_on_dates(ds)
    is_judged = options.validation == OF_FOLD
    if is_judged:
        _remark_on_unjudged_classes(ds, rows)
    # what the network of all reads is scaled by all of these rows
    of_all = Split(rows, rows[:0], split.holdout)
    read_by_all = Prepared.of(ds, of_all, prepared.settings, net.encoding)
    folds = fold_rows(ds, rows, count, split_seed(options, net.seed), is_judged)
    own = _with_one_split(net, options)
    trials = []
    for number, fold in enumerate(folds):
        if is_judged:
            fold_split = Split(fold.training, fold.tested, fold.tested)
        else:
            share = split_rows(
                ds, 0.0, options.validation_share, own.split_seed, fold.training
            )
            fold_split = share._replace(holdout=fold.tested)
        of_fold = Prepared.of(ds, fold_split, prepared.settings)
        member = net.sibling(net.seed + number, encoding=of_fold.reader.encoding)
        trials.append(Trial(member, own, of_fold, has_own_rows=True))
    holdout = 0.0
    if len(split.holdout):
        holdout = options.holdout
    facts = read_by_all.facts | options.facts | {"holdout": holdout}
    return Plan(
        net,
        ds,
        options,
        trials,
        facts,
        {"folds": count},
        folds,
        flag="--folds",
        holdout_count=len(split.holdout),
    )


def _remark_on_unjudged_classes(ds: Dataset, rows: np.ndarray) -> None:
    unjudged = unjudged_classes(ds, rows)
    if unjudged:
        log.warning(
            "classes of one row, which no fold judges: all networks train on it: %s",
            listed(unjudged),
        )


# ---- settings of each, one by one


def plan_listed(ds: Dataset, settings: Sequence[dict], engine: dict) -> Plan:
    """Return the trainings of networks with these settings; those that read the data
    alike share its rows. engine: settings of Network that all have."""
    readings: dict[tuple, Prepared] = {}
    trials = []
    for number, own in enumerate(settings):
        of_network = {name: own[name] for name in NETWORK_SETTINGS if name in own}
        of_training = {
            name: value for name, value in own.items() if name not in NETWORK_SETTINGS
        }
        net = Network.for_data(
            ds, of_network.pop("layers", None), **of_network, **engine
        )
        if net.reference:
            raise UsageError("train_many: --reference trains one network; leave it out")
        try:
            of_training = checked_settings("train", of_training, "train")
        except UsageError as error:
            raise UsageError(f"train_many, network {number}: {error}") from None
        options = options_of(net, ds, of_training)
        net.expect_batches(options.batch_number)
        engine = {**engine, "backend": net.backend}
        check_fit(net, ds)
        key = (
            row_settings(net, options),
            options.holdout,
            options.validation,
            split_seed(options, net.seed),
        )
        if key not in readings:
            split = split_of(ds, options, net.seed, remark=True)
            readings[key] = Prepared.of(ds, split, key[0])
        prepared = readings[key]
        if prepared.reader.encoding is not None:
            net.adopt(prepared.reader.encoding)
        trials.append(
            Trial(net, options, prepared, keeps_unknown=is_decided_later(options))
        )
    first = trials[0]
    reader = first.net.sibling(first.net.seed)
    return Plan(reader, ds, first.options, trials, flag="train_many")
