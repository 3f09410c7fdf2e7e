"""Plan: the trainings that a call asks for, decided before the first of them begins.

    one network    plan_of, which all others go through
    --networks K   plan_networks: networks that differ by their seeds
    --vary         plan_varied: and by settings that are drawn for each
    --folds F      plan_folds: a network for each fold, with rows of its own
    --init MODEL   plan_going_on: those of a model, with their parameters
    train_many     plan_listed: settings of each, one by one, and so not through plan_of

A further way to make several networks is a planner here, and where its networks become
one in another way, a function in combine.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np

from ..data.checks import check_fit, ready_to_learn
from ..data.prepared import Prepared, RowSettings
from ..data.records import (
    ROW_BYTES,
    check_free,
    make_room,
    network_bytes,
    training_bytes,
    within,
)
from ..data.splits import Fold, Split, divided_rows
from ..ds import Dataset
from ..layers import input_shape
from ..nn import Network, remember
from ..nn_aux import OF_FOLD
from ..settings.flags import checked_settings
from ..test.reports import warn_of_trained
from ..test.trained_rows import ancestors_with, is_training_data, trained_on
from ..utils import UsageError
from .going_on import (
    config_going_on,
    options_going_on,
    take_next_seed,
    thresholds_going_on,
)
from .options import Options, options_of
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

    net: what they make, which reads data as the first of them does. options, prepared:
    what they share. config: what the settings of `net` have beside those of a training.
    flag: what asks for several networks; None: for one. facts: what `net` keeps of data
    and settings; None: those of the first trial. folds: of the rows, one for each
    trial. variation: what --vary says.
    """

    net: Network
    options: Options
    prepared: Prepared
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

    def room(self) -> AbstractContextManager:
        """Return what leaves rows as much memory as the networks do not take. Raises
        NnError where these have none."""
        room = make_room(self.net, self.prepared.ds, self._training_bytes())
        if self.is_combined:
            self._check_free_memory()
        return within(room)

    def _training_bytes(self) -> list[int]:
        """Return what each training takes of --memory."""
        sizes = [
            training_bytes(trial.net, trial.options.batch_number)
            for trial in self.trials
        ]
        if not self.folds:
            return sizes
        sizes = [size + ROW_BYTES * self.prepared.ds.rows for size in sizes]
        if not self.is_judged_by_folds:
            return sizes
        # of the scores at the epoch that others choose
        row = self.net.outputs * np.dtype(self.net.dtype).itemsize
        return [
            size + row * len(fold.tested)
            for size, fold in zip(sizes, self.folds, strict=True)
        ]

    def _check_free_memory(self) -> None:
        """Raise NnError if the networks do not fit the free memory."""
        sizes = []
        for trial in self.trials:
            options = trial.options
            vectors = 2 + len(options.vectors)  # parameters here and in the engine
            # of the best epoch, those to begin with
            vectors += (options.monitored is not None) + options.refit
            sizes.append(network_bytes(trial.net.layers, trial.net.dtype, vectors))
        check_free(sizes, self.flag)


def plan_of(
    net: Network,
    ds: Dataset,
    settings: dict,
    several: Mapping,
    rows: np.ndarray | None = None,
    goes_on: bool = False,
) -> Plan:
    """Return the trainings that a call of `train` asks for: its settings decided, its
    data checked, divided and prepared. settings: those of a training that are given;
    several: networks, vary, folds; rows: those to train on; goes_on: the network is a
    model's. Raises DataError and UsageError for what cannot be."""
    has_own_rows = rows is not None
    are_several = _are_several(settings, several, has_own_rows, goes_on)
    if goes_on:
        options = options_going_on(net, ds, settings)
    else:
        options = options_of(net, ds, settings)
    net.batch_number = options.batch_number
    ds = ready_to_learn(net, ds, goes_on)
    seed = options.seed_of_split(net.seed)
    split = divided_rows(ds, options.holdout, options.validation_share, seed, rows)
    if goes_on:
        return plan_going_on(net, ds, options, split, settings)
    is_part = has_own_rows and len(split.known) < ds.rows
    prepared = Prepared.of(ds, split, row_settings(net, options), net.encoding, is_part)
    remember(net, encoding=prepared.reader.encoding)
    if not are_several:
        trial = Trial(net, options, prepared, has_own_rows=has_own_rows)
        return Plan(net, options, prepared, [trial])
    if several.get("folds") is not None:
        return plan_folds(net, options, prepared, several["folds"])
    if several.get("vary") is not None:
        return plan_varied(net, options, prepared, settings, **several)
    return plan_networks(net, options, prepared, several["networks"])


def _are_several(
    settings: Mapping, several: Mapping, has_own_rows: bool, goes_on: bool
) -> bool:
    """Return whether `networks`, `vary` and `folds` ask for several networks. Raises
    UsageError for those that do not go together, or with what else is asked for."""
    networks = several.get("networks") or 1
    vary = several.get("vary")
    folds = several.get("folds")
    are_several = folds is not None or networks > 1
    if goes_on and (several or has_own_rows):
        raise UsageError(
            "goes_on: trains the networks of a model; leave out networks, folds, vary and rows"
        )
    if settings.get("validation") == OF_FOLD and folds is None:
        raise UsageError(
            f"--validation {OF_FOLD}: judges each network of --folds F by its fold; give --folds too"
        )
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
    if has_own_rows and are_several:
        raise UsageError(
            "rows: are those of one network; leave out networks, folds and vary"
        )
    return are_several


def row_settings(net: Network, options: Options) -> RowSettings:
    """Return how a network takes rows in a training with these options."""
    last = net.layers[-1]
    return RowSettings(
        input_shape(net.layers),
        last.outputs,
        last.output_function,
        net.loss,
        net.dtype,
        net.reference,
        options.scaling,
        options.number_embedding,
        options.target_means,
        options.class_weight,
        options.clip,
    )


# ---- those of a model, which goes on


def plan_going_on(
    net: Network, ds: Dataset, options: Options, split: Split, given: dict
) -> Plan:
    """Return the further trainings of the networks of a model, which read rows as they
    did before. given: settings of the training; the others are the model's."""
    seed = options.seed_of_split(net.seed)
    options_of_each = [
        replace(
            options_going_on(member, ds, given),
            holdout=options.holdout,
            split_seed=seed,
        )
        for member in net.members
    ]
    facts = options.facts_with(split) | {"temperature": net.temperature}
    facts |= {"ancestors": ancestors_with(net), **thresholds_going_on(net, given)}
    config = config_going_on(net)
    is_known = _knows_judging(net, ds, split)
    means_apart = is_training_data(net, ds)
    take_next_seed(net)
    trials = []
    for member, weight, options_of_member in zip(
        net.members, net.member_weights, options_of_each, strict=True
    ):
        if member is not net:
            member.compute_on(net.backend, **net.device._asdict())
        kept = {"temperature": member.temperature}
        kept |= thresholds_going_on(member, given)
        if member is net:
            kept["ancestors"] = facts["ancestors"]
        trials.append(
            Trial(
                member,
                options_of_member,
                Prepared.kept(
                    ds,
                    split,
                    row_settings(member, options_of_member),
                    member,
                    means_apart,
                ),
                weight=weight,
                facts=kept,
                config=config,
                knows_judging=is_known,
            )
        )
    prepared = trials[0].prepared
    if not net.is_combined:
        return Plan(net, trials[0].options, prepared, trials)
    epochs = max(trial.options.epochs for trial in trials)
    return Plan(
        net,
        replace(options, epochs=epochs),
        prepared,
        trials,
        {**config, "networks": len(trials)},
        "--networks",
        prepared.facts | facts,
    )


def _knows_judging(net: Network, ds: Dataset, split: Split) -> bool:
    """Return whether rows that are to judge a training were among those of the model
    that goes on, or of its ancestors, and warn of it."""
    rows = split.validation if len(split.validation) else split.holdout
    if not len(rows):
        return False
    trained = trained_on(net, ds.of_rows(rows))
    warn_of_trained(trained, "the model of --init")
    return trained.spoils_figures


# ---- several that read the same rows


def plan_networks(
    net: Network, options: Options, prepared: Prepared, networks: int
) -> Plan:
    """Return the trainings of networks that differ by their seeds."""
    seeds = seeds_of(net, "--networks", networks)
    options_of_each = _with_one_split(net, options)
    trials = [Trial(net.sibling(seed), options_of_each, prepared) for seed in seeds]
    config = {"networks": networks}
    return Plan(net, options, prepared, trials, config, "--networks")


def plan_varied(
    net: Network,
    options: Options,
    prepared: Prepared,
    settings: dict,
    networks: int,
    vary: str,
) -> Plan:
    """Return the trainings of networks with settings that --vary draws for each.
    settings: those that are given."""
    variation = Variation.parse(vary)
    seeds = seeds_of(net, "--networks", networks)
    variation.check(settings, options.optimizer, net.written_layers)
    check_choice(net, options, f"--vary {variation.text}")
    # networks of which numbers are embedded alike read the same rows
    readings = {options.number_embedding: prepared}
    trials = []
    for seed in seeds:
        drawn = variation.draw(seed, options.optimizer)
        options_of_trial = options_of(
            net, prepared.ds, {**settings, **variation.options(drawn)}
        )
        embedding = options_of_trial.number_embedding
        if embedding not in readings:
            readings[embedding] = prepared.read_by(row_settings(net, options_of_trial))
        reading = readings[embedding]
        layers = None
        if {"hidden", "dropout"} & {*drawn}:
            layers = layers_with(net.written_layers, drawn)
        member = net.sibling(seed, layers, reading.reader.encoding)
        trials.append(
            Trial(member, _with_one_split(net, options_of_trial), reading, drawn)
        )
    config = {
        "networks": networks,
        "vary": variation.text,
        "chosen": _settings_that_differ(variation, options, trials),
    }
    longest = replace(options, epochs=max(trial.options.epochs for trial in trials))
    return Plan(
        net, longest, prepared, trials, config, "--networks", variation=variation
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


def plan_folds(net: Network, options: Options, prepared: Prepared, folds: int) -> Plan:
    """Return the trainings of a cross-validation: each has an encoding by its own
    rows."""
    seeds = seeds_of(net, "--folds", folds)
    options_of_fold = _with_one_split(net, options)
    # what the network of all reads is scaled by all rows that are not held out
    facts = options.facts_with(prepared.split)
    facts |= prepared.with_validation_rows().facts
    share = options.validation_share
    if options.validation == OF_FOLD:
        share = None
    pairs = prepared.by_folds(folds, options_of_fold.split_seed, share)
    trials = []
    for seed, (_, of_fold) in zip(seeds, pairs, strict=True):
        member = net.sibling(seed, encoding=of_fold.reader.encoding)
        trials.append(Trial(member, options_of_fold, of_fold, has_own_rows=True))
    config = {"folds": folds}
    tested = [fold for fold, _ in pairs]
    return Plan(net, options, prepared, trials, config, "--folds", facts, tested)


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
        learned = ds.for_loss(net.loss)
        check_fit(net, learned)
        drawn_by = (
            options.holdout,
            options.validation_share,
            options.seed_of_split(net.seed),
        )
        if drawn_by not in splits:
            splits[drawn_by] = divided_rows(ds, *drawn_by)
        reading = (drawn_by, options.validation, row_settings(net, options))
        if reading not in readings:
            readings[reading] = Prepared.of(learned, splits[drawn_by], reading[-1])
        prepared = readings[reading]
        remember(net, encoding=prepared.reader.encoding)
        trials.append(Trial(net, options, prepared))
    first = trials[0]
    reader = first.net.sibling(first.net.seed)
    return Plan(reader, first.options, first.prepared, trials, flag=LISTED)
