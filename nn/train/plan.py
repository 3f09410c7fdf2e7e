"""Plan: the trainings that a call asks for, decided before the first of them begins.

    one network    plan_one
    --networks K   plan_networks: networks that differ by their seeds
    --vary         plan_varied: and by settings that are drawn for each
    --folds F      plan_folds: a network for each fold, with rows of its own
    --init MODEL   plan_going_on: those of a model, with their parameters
    train_many     plan_listed: settings of each, given one by one

A further way to make several networks is a planner here, and where its networks become
one in another way, a function in combine.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..data.prepared import Prepared, check_fit, origin_of
from ..data.records import (
    ROW_BYTES,
    check_free,
    check_room_for_rows,
    network_bytes,
    training_bytes,
)
from ..data.splits import (
    Fold,
    Split,
    divided_rows,
    folds_and_splits,
)
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..settings.flags import checked_settings
from ..test.trained_rows import ancestors_with, is_training_data
from ..utils import UsageError
from .going_on import (
    check_classes_of,
    config_going_on,
    knows_judging,
    settings_going_on,
    thresholds_going_on,
)
from .options import Options, options_of
from .rows import row_settings
from .search import check_choice
from .vary import DRAWN_SETTINGS, Variation, layers_with

LISTED = "train_many"  # what asks for networks that stay apart
NETWORK_SETTINGS = ("layers", "activation", "loss", "init", "seed")


@dataclass
class Trial:
    """One training: a network that nobody has trained, or that goes on, its settings
    and its rows.

    drawn: settings that --vary has drawn for it. has_own_rows: they are
    other rows than the options ask for. weight: in the mean of several. facts, config:
    what it keeps of them from the model that it goes on from. knows_judging: that model
    was trained on rows that judge.
    """

    net: Network
    options: Options
    prepared: Prepared
    drawn: dict = field(default_factory=dict)
    has_own_rows: bool = False
    weight: float = 1.0
    facts: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)
    knows_judging: bool = False


@dataclass
class Plan:
    """Trainings that belong together.

    net: what they make, which reads data as the first of them does. options, split:
    what they share. config: what the settings of `net` have beside those of a training.
    flag: what asks for several networks; None: for one. facts: what `net` keeps of data
    and settings; None: those of the first trial. folds: of the rows, one for each
    trial. variation: what --vary says.
    """

    net: Network
    ds: Dataset
    options: Options
    split: Split
    trials: list[Trial]
    config: dict = field(default_factory=dict)
    flag: str | None = None
    facts: dict | None = None
    folds: Sequence[Fold] = ()
    variation: Variation | None = None

    @property
    def is_alone(self) -> bool:
        """Return whether there is one network, whose batches ranks and GPUs may
        share."""
        return self.flag is None

    @property
    def is_combined(self) -> bool:
        """Return whether the trainings make one network of several."""
        return self.flag not in (None, LISTED)

    @property
    def is_judged_by_folds(self) -> bool:
        """Return whether the rows of a fold choose the epoch of its network."""
        return bool(self.folds) and self.options.validation == OF_FOLD

    def training_bytes(self) -> list[int]:
        """Return what each training takes of --memory."""
        sizes = [
            training_bytes(trial.net, trial.options.batch_number)
            for trial in self.trials
        ]
        if not self.folds:
            return sizes
        sizes = [size + ROW_BYTES * self.ds.rows for size in sizes]
        if not self.is_judged_by_folds:
            return sizes
        # of the scores at the epoch that others choose
        row = self.net.outputs * np.dtype(self.net.dtype).itemsize
        return [
            size + row * len(fold.tested)
            for size, fold in zip(sizes, self.folds, strict=True)
        ]

    def check_free_memory(self) -> None:
        """Raise NnError if the networks do not fit the free memory."""
        sizes = []
        for trial in self.trials:
            options = trial.options
            vectors = 2 + len(options.moments)  # parameters here and in the engine
            # of the best epoch, those to begin with
            vectors += (options.monitored is not None) + options.refit
            sizes.append(network_bytes(trial.net.layers, trial.net.dtype, vectors))
        check_free(sizes, self.flag)


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
    is_one = not are_several(several)
    check_fit(net, ds)
    check_room_for_rows(ds.rows)
    seed = options.seed_of_split(net.seed)
    if rows is not None and not is_one:
        raise UsageError(
            "rows: are those of one network; leave out networks, folds and vary"
        )
    split = divided_rows(ds, options.holdout, options.validation_share, seed, rows)
    if is_one:
        return plan_one(net, ds, options, split, has_own_rows=rows is not None)
    if several.get("vary") is not None:
        variation = Variation.parse(several["vary"])
        count = several["networks"]
        return plan_varied(net, ds, options, split, variation, count, settings)
    if several.get("folds") is None:
        return plan_networks(net, ds, options, split, several["networks"])
    return plan_folds(net, ds, options, split, several["folds"])


# ---- one network


def plan_one(
    net: Network,
    ds: Dataset,
    options: Options,
    split: Split,
    has_own_rows: bool = False,
) -> Plan:
    """Return the training of a network itself."""
    trial = Trial(net, options, _prepared(net, ds, options, split))
    if has_own_rows:
        trial.has_own_rows = True
        is_part = len(split.known) < ds.rows
        trial.facts = {"dataset": origin_of(ds, is_part=is_part)}
    return Plan(net, ds, options, split, [trial])


def _prepared(net: Network, ds: Dataset, options: Options, split: Split) -> Prepared:
    """Return the rows as a network reads them, which gets the encoding that it needs
    for it."""
    prepared = Prepared.of(ds, split, row_settings(net, options), net.encoding)
    net.facts = replace(net.facts, encoding=prepared.reader.encoding)
    return prepared


# ---- those of a model, which goes on


def plan_going_on(net: Network, ds: Dataset, given: dict) -> Plan:
    """Return the further trainings of the networks of a model, which read rows as they
    did before. given: settings of the training; the others are the model's. Raises
    DataError and UsageError for what cannot be."""
    check_classes_of(net, ds)
    # the model has decided what there is, of which these rows may have less
    check_fit(net, ds, only_rows=True)
    check_room_for_rows(ds.rows)
    options = options_of(net, ds, settings_going_on(net, ds.rows) | given)
    net.batch_number = options.batch_number
    seed = options.seed_of_split(net.seed)
    split = divided_rows(ds, options.holdout, options.validation_share, seed)
    means_apart = is_training_data(net, ds)
    is_known = knows_judging(net, ds, split)
    config = config_going_on(net)
    ancestors = ancestors_with(net)
    trials = []
    for member, weight in zip(net.members, net.member_weights, strict=True):
        options_of_member = options_of(
            net, ds, settings_going_on(member, ds.rows) | given
        )
        options_of_member = replace(
            options_of_member, holdout=options.holdout, split_seed=seed
        )
        if member is not net:
            member.compute_on(net.backend, **net.device._asdict())
        prepared = Prepared.kept(
            ds, split, row_settings(member, options_of_member), member, means_apart
        )
        kept = {"temperature": member.temperature}
        kept |= thresholds_going_on(member, given)
        if member is net:
            kept["ancestors"] = ancestors
        trials.append(
            Trial(
                member,
                options_of_member,
                prepared,
                weight=weight,
                facts=kept,
                config=config,
                knows_judging=is_known,
            )
        )
    if not net.is_combined:
        return Plan(net, ds, trials[0].options, split, trials)
    facts = trials[0].prepared.facts | options.facts_with(split)
    facts |= {"temperature": net.temperature, "ancestors": ancestors}
    facts |= thresholds_going_on(net, given)
    epochs = max(trial.options.epochs for trial in trials)
    return Plan(
        net,
        ds,
        replace(options, epochs=epochs),
        split,
        trials,
        {**config, "networks": len(trials)},
        "--networks",
        facts,
    )


# ---- several that read the same rows


def plan_networks(
    net: Network, ds: Dataset, options: Options, split: Split, count: int
) -> Plan:
    """Return the trainings of networks that differ by their seeds."""
    seeds = seeds_of(net, "--networks", count)
    prepared = _prepared(net, ds, options, split)
    options_of_each = _with_one_split(net, options)
    trials = [Trial(net.sibling(seed), options_of_each, prepared) for seed in seeds]
    return Plan(net, ds, options, split, trials, {"networks": count}, "--networks")


def plan_varied(
    net: Network,
    ds: Dataset,
    options: Options,
    split: Split,
    variation: Variation,
    count: int,
    settings: dict,
) -> Plan:
    """Return the trainings of networks with settings that --vary draws for each."""
    seeds = seeds_of(net, "--networks", count)
    prepared = _prepared(net, ds, options, split)
    variation.check(settings, options.optimizer, net.written_layers)
    check_choice(net, options, f"--vary {variation.text}")
    # networks of which numbers are embedded alike read the same rows
    readings = {options.number_embedding: prepared}
    trials = []
    for seed in seeds:
        drawn = variation.draw(seed, options.optimizer)
        options_of_trial = options_of(net, ds, {**settings, **variation.options(drawn)})
        embedding = options_of_trial.number_embedding
        if embedding not in readings:
            readings[embedding] = Prepared.of(
                ds, split, row_settings(net, options_of_trial)
            )
        reading = readings[embedding]
        layers = None
        if {"hidden", "dropout"} & {*drawn}:
            layers = layers_with(net.written_layers, drawn)
        member = net.sibling(seed, layers, reading.reader.encoding)
        trials.append(
            Trial(member, _with_one_split(net, options_of_trial), reading, drawn)
        )
    config = {
        "networks": count,
        "vary": variation.text,
        "chosen": _settings_that_differ(variation, options, trials),
    }
    longest = replace(options, epochs=max(trial.options.epochs for trial in trials))
    return Plan(
        net, ds, longest, split, trials, config, "--networks", variation=variation
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


def seeds_of(net: Network, flag: str, count: int) -> range:
    """Return the seeds of several networks, which a flag asks for. Raises UsageError
    where they cannot be."""
    if net.reference:
        raise UsageError(
            f"{flag} {count}: --reference trains one network; leave one out"
        )
    if net.seed + count > 2**32:
        raise UsageError(
            f"{flag} {count}: seeds from {net.seed} on must end below 4294967296; use a smaller --seed"
        )
    return range(net.seed, net.seed + count)


def _with_one_split(net: Network, options: Options) -> Options:
    """Return the options of a member, whose rows are those that its network's seed
    draws."""
    return replace(options, split_seed=options.seed_of_split(net.seed))


# ---- a network for each fold


def plan_folds(
    net: Network, ds: Dataset, options: Options, split: Split, count: int
) -> Plan:
    """Return the trainings of a cross-validation: each has an encoding by its own
    rows."""
    seeds = seeds_of(net, "--folds", count)
    settings = _prepared(net, ds, options, split).settings
    # what the network of all reads is scaled by all rows that are not held out
    rows = split.known
    of_all = Split(rows, rows[:0], split.holdout)
    facts = Prepared.of(ds, of_all, settings, net.encoding).facts
    facts |= options.facts_with(split)
    options_of_fold = _with_one_split(net, options)
    share = options.validation_share
    if options.validation == OF_FOLD:
        share = None
    pairs = folds_and_splits(ds, split, count, options_of_fold.split_seed, share)
    trials = []
    for seed, (_, fold_split) in zip(seeds, pairs, strict=True):
        prepared = Prepared.of(ds, fold_split, settings)
        member = net.sibling(seed, encoding=prepared.reader.encoding)
        trials.append(Trial(member, options_of_fold, prepared, has_own_rows=True))
    folds = [fold for fold, _ in pairs]
    return Plan(
        net, ds, options, split, trials, {"folds": count}, "--folds", facts, folds
    )


# ---- settings of each, one by one


def plan_listed(ds: Dataset, settings: Sequence[dict], engine: dict) -> Plan:
    """Return the trainings of networks with these settings; those that read the data
    alike share its rows. engine: settings of Network that all have."""
    splits: dict[tuple, Split] = {}
    readings: dict[tuple, Prepared] = {}
    trials = []
    for number, given in enumerate(settings):
        settings_of_one = dict(given)
        network_settings = {
            name: settings_of_one.pop(name)
            for name in NETWORK_SETTINGS
            if name in settings_of_one
        }
        layers = network_settings.pop("layers", None)
        net = Network.for_data(ds, layers, **network_settings, **engine)
        if net.reference:
            raise UsageError("train_many: --reference trains one network; leave it out")
        try:
            settings_of_one = checked_settings("train", settings_of_one, "train")
        except UsageError as error:
            raise UsageError(f"train_many, network {number}: {error}") from None
        options = options_of(net, ds, settings_of_one)
        net.batch_number = options.batch_number
        engine = {**engine, "backend": net.backend}
        check_fit(net, ds)
        drawn_by = (
            options.holdout,
            options.validation_share,
            options.seed_of_split(net.seed),
        )
        if drawn_by not in splits:
            splits[drawn_by] = divided_rows(ds, *drawn_by)
        reading = (drawn_by, options.validation, row_settings(net, options))
        if reading not in readings:
            readings[reading] = Prepared.of(ds, splits[drawn_by], reading[-1])
        prepared = readings[reading]
        net.facts = replace(net.facts, encoding=prepared.reader.encoding)
        trials.append(Trial(net, options, prepared))
    first = trials[0]
    reader = first.net.sibling(first.net.seed)
    return Plan(
        reader,
        ds,
        first.options,
        first.prepared.split,
        trials,
        flag=LISTED,
    )
