"""The start of a run: of one network, of those of a plan, or of networks with settings of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

from ..data import records
from ..data.records import beside_checkpoint, make_room, training_bytes
from ..data.splits import Split, split_given
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..settings.flags import checked_settings
from ..utils import SideFileError, StopRequest, UsageError
from ..watch.callbacks import Callback, Callbacks
from .decision import check_decision, decide_by, decide_on
from .ensemble import Ensemble
from .member import Member, NotFinite
from .options import Options, is_decided_later, options_of
from .plan import Plan, alike, by_fold, varied
from .rows import GIVEN_ROWS, ReadValidation, check_fit, fit_encoding, split_seed
from .run import Run

OF_ENGINE = ("backend", "threads", "gpus", "distribute", "tf32", "dtype")  # the same for all networks of train_many
OF_NETWORK = ("layers", "activation", "loss", "init", "seed")
OF_EPOCHS = (  # options that do not say what rows there are, and how they are read
    "epochs", "batch_number", "learning_rate", "optimizer", "momentum", "weight_decay", "schedule", "monitor",
    "patience", "refit", "calibrate",
)  # fmt: skip


class Beside(NamedTuple):
    """The arguments of train that are no settings. validation: rows that judge, None where the settings name them."""

    callback: Callbacks
    stop: StopRequest
    checkpoint: Checkpoint
    validation: Dataset | ReadValidation | None = None


def prepare(net: Network, ds: Dataset, options: Options, split: Split | None = None) -> None:
    """Give the network its encoding. Raises DataError or UsageError if it cannot learn from the data."""
    check_fit(net, ds)
    if net.encoding is None:
        fit_encoding(net, ds, options, split)


# ---- one network


def train_one(net: Network, ds: Dataset, options: Options, beside: Beside, rows: np.ndarray | None = None) -> dict:
    """Train one network, whose batches its ranks and GPUs share; rows: on these alone. Returns the metrics."""
    split = None
    if rows is not None:
        split = split_given(ds, rows, options.validation_share, split_seed(options, net.seed))
    prepare(net, ds, options, split)
    with records.within(make_room(net, ds, [training_bytes(net, options.batch_number)])):
        member = Member(net, options, split=split, tells_unknown=is_decided_later(options))
        run = Run(net, [member], ds, **beside._asdict())
        run.begin()
        if is_decided_later(options):
            check_decision(net, options, member.rows.decisive()[2])
        run.resume(net.config)
        run.run()
        return member.figures() | decided(member)


def decided(member: Member) -> dict:
    """Find what the options of a network leave to be found after its last epoch; see decision.decide_on."""
    net, options = member.net, member.options
    if not is_decided_later(options):
        return {}
    if member.unknown is not None:
        return decide_by(net, options, *member.unknown)
    return decide_on(net, *member.rows.decisive()[:2], options)


# ---- several networks


def train_several(net: Network, ds: Dataset, options: Options, beside: Beside, plan_of: Callable[[], Plan]) -> dict:
    """Train the networks of a plan, each alone on its rank or GPU; they become the members of `net`."""
    with net.apart() as apart:
        prepare(net, ds, options)
        plan = plan_of()
        plan.check()
        plan.read()
        with records.within(make_room(net, ds, plan.training_bytes())):
            return Ensemble(net, plan, apart, **beside._asdict()).train()


def plan_for(net: Network, ds: Dataset, options: Options, given: dict, asked: dict) -> Callable[[], Plan] | None:
    """Return what makes the plan that networks, vary and folds, in `asked`, ask for; None for one network.

    given: the options as options_of takes them. Raises UsageError.
    """
    networks, vary, folds = asked.get("networks"), asked.get("vary"), asked.get("folds")
    if vary is not None and folds is not None:
        raise UsageError(f"--vary {vary}: compares networks on the same rows; leave out --folds and give --validation")
    if vary is not None and (networks or 1) < 2:
        raise UsageError(f"--vary {vary}: needs several networks; give --networks K")
    if folds is not None and (networks or 1) > 1:
        raise UsageError(f"--folds {folds}: trains a network for each fold; leave out --networks")
    if folds is not None:
        return lambda: by_fold(net, ds, options, folds)
    if vary is not None:
        return lambda: varied(net, ds, given, networks, vary)
    return (lambda: alike(net, ds, options, networks)) if (networks or 1) > 1 else None


# ---- several networks, each with settings of its own


def train_many(
    ds: Dataset,
    settings: Sequence[dict],
    *,
    validation: float | str | Dataset | ReadValidation | None = None,
    callback: Callback | None = None,
    checkpoint: str | Checkpoint | None = None,
    stop: StopRequest | None = None,
    **shared,
) -> list[tuple[Network, dict]]:
    """Train networks with settings of their own on one data set, all at the same time; return (network, metrics) of
    each, in their order.

    settings: of each network, by the names of the flags, `layers` and `seed` among them. shared: settings of all, also
    backend, threads, gpus, distribute, tf32, dtype. A network has the bytes, and the metrics but for times, of the one
    that is trained alone; that of a network whose loss is not finite is {"failed": why}. The other arguments, and what
    is raised: as of train.
    """
    if not settings:
        raise UsageError("train_many: no settings; give a dictionary for each network")
    engine = {name: shared.pop(name) for name in OF_ENGINE if name in shared}
    given = validation if isinstance(validation, Dataset) or callable(validation) else None
    named = {"validation": validation if given is None else getattr(given, "path", None) or GIVEN_ROWS}
    members = _members_of(ds, [{**named, **shared, **own} for own in settings], engine)
    saving = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    beside = Beside(Callbacks([callback or Callback()]), stop or StopRequest(), saving, given)
    first, each = members[0].reader, [training_bytes(one.net, one.options.batch_number) for one in members]
    with beside_checkpoint(saving.path), first.apart() as apart, records.within(make_room(first, ds, each)):
        for member in members if apart[0].size > 1 or len(apart[1]) > 1 else ():
            member.net.compute_at(apart[1][0])
        run = Run(first, members, ds, apart=apart, **beside._asdict())
        run.begin()
        for member in members:
            if is_decided_later(member.options):
                check_decision(member.net, member.options, member.rows.decisive()[2])
        run.resume({"networks": len(members), "settings": [member.net.config for member in members]})
        with contextlib.suppress(NotFinite):  # of all networks
            run.run()
    pairs = [(member.net, _metrics(run, number)) for number, member in enumerate(members)]
    failures = [*beside.callback.failures, *filter(None, [saving.failure])]
    if failures:
        raise SideFileError(failures, pairs)
    return pairs


def _members_of(ds: Dataset, settings: Sequence[dict], engine: dict) -> list[Member]:
    """Return a member for each of these settings; those that read the data alike share a reader."""
    readers: dict[tuple, Network] = {}
    members = []
    for number, own in enumerate(settings):
        of_network = {name: own.pop(name) for name in OF_NETWORK if name in own}
        net = Network.for_data(ds, of_network.pop("layers", None), **of_network, **engine)
        if net.reference:
            raise UsageError("train_many: --reference trains one network; leave it out")
        options = options_of(net, ds, _named(own, number))
        net.expect_batches(options.batch_number)
        engine = {**engine, "backend": net.backend}
        check_fit(net, ds)
        of_rows = {name: value for name, value in asdict(options).items() if name not in OF_EPOCHS}
        output = net.layers[-1].output_function
        key = (*of_rows.items(), split_seed(options, net.seed), net.loss, output)
        if key not in readers:
            fit_encoding(net, ds, options)
            readers[key] = net.sibling(net.seed)
        elif readers[key].encoding is not None:
            net.adopt(readers[key].encoding)
        members.append(Member(net, options, readers[key], tells_unknown=is_decided_later(options)))
    return members


def _named(given: dict, number: int) -> dict:
    """Return the settings of a network's training by the names of the flags. Raises UsageError for another name."""
    try:
        return checked_settings("train", given, "train")
    except UsageError as error:
        raise UsageError(f"train_many, network {number}: {error}") from None


def _metrics(run: Run, number: int) -> dict:
    """Return the metrics of one network of a run as it has them alone."""
    if number in run.dropped:
        return {"failed": str(run.dropped[number])}
    member = run.members[number]
    return member.figures() | decided(member)
