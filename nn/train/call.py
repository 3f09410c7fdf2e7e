"""train and train_many: what a call asks for, checked, and the run that it becomes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from ..data.prepared import Prepared
from ..data.records import beside_checkpoint
from ..data.splits import facts_of_rows
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network, remember
from ..settings.flags import takes
from ..test.learned import warn_if_not_learned
from ..test.out_of_fold import with_figures
from ..test.trained_rows import remember_rows
from ..utils import SideFileError, Stopped, StopRequest, UsageError
from ..watch.callbacks import Callback, Callbacks
from .combine import Combined, figures_of_one
from .decision import check_decision
from .member import NotFinite
from .options import checked_values, settings_by_kind
from .plan import Plan, plan_listed, plan_of
from .rows import GIVEN_ROWS, ReadValidation
from .run import Run
from .search import VALIDATION_SHARE

# the same for all networks of train_many
OF_ENGINE = ("backend", "threads", "gpus", "distribute", "dtype")


@takes("train", "several", "checkpoint")
def train(
    net: Network,
    ds: Dataset,
    *,
    rows: np.ndarray | None = None,
    validation: float | str | Dataset | ReadValidation | None = None,
    callback: Callback | None = None,
    checkpoint: str | Checkpoint | None = None,
    stop: StopRequest | None = None,
    goes_on: bool = False,
    **settings,
) -> dict:
    """Train a network on a data set, from the parameters it has. Returns the figures of
    `--json`.

    The network then holds the trained parameters, the scaling, names, history and
    settings. settings: by the names of the flags (docs/command-line.md); None: the
    default of `nn --help`.

    rows: train on exactly these rows, with no hold-out. The result equals that fold's
    network, bit for bit. validation: as the flag, or a Dataset, or a function that
    reads one as the given network reads its data. callback: an object with methods of
    watch.Callback. checkpoint: a file to keep the state in, or a files.Checkpoint,
    which has the settings beside it too. stop.request ends the training as Ctrl-C
    does. goes_on: each network of a model goes on as `--init MODEL` lets it: scaling,
    encoding and what else decides how rows are read stay, settings that are not given
    are the model's, of epochs and learning rate a third.

    networks: the network then has as many `members`, and its predictions are the means
    of theirs. Member k has the parameters of the network that is trained alone with its
    seed and split_seed=net.seed. With vary the metrics have `trials`, with folds
    `folds`, `mean` and `std`.

    A network with `distribute` among several ranks (cluster) is trained by all of them,
    each with its share of every batch: all call this with the same arguments. Rank 0
    alone writes the checkpoint. Of several networks each rank, and each of several
    GPUs, trains a share, with nothing to tell each other but losses; all ranks then
    have them all.

    Raises UsageError for a wrong value, DataError for data that do not fit, NnError for
    a loss that is not finite, and Stopped (the network keeps what it has learned) after
    `stop.request` or Ctrl-C. SideFileError: a checkpoint or a callback's file could not
    be written; the network is trained, and the error has the figures.
    """
    _check_types(net, ds, callback)
    validation_rows, named = _rows_and_name(validation)
    if settings.get("vary") is not None and named is None:
        named = VALIDATION_SHARE
    kinds = settings_by_kind(
        "train", settings | {"validation": named}, "train", "several", "checkpoint"
    )
    training_settings, several, checkpoint_settings = map(checked_values, kinds)
    checkpoint = Checkpoint.of(checkpoint, **checkpoint_settings)
    callbacks = _callbacks(callback)
    plan = plan_of(net, ds, training_settings, several, rows, goes_on)
    prepared = plan.prepared
    # several begin anew
    before = None
    if plan.is_alone or goes_on:
        before = net.row_hashes
    stop = stop or StopRequest()
    try:
        [result] = run_plan(plan, callbacks, stop, checkpoint, validation_rows)
    except Stopped:
        if plan.is_alone:  # what it has learned may be written
            remember_rows(net, prepared.ds, prepared.split.known, before)
        raise
    # what is trained here is no candidate of a choice, which keeps its own
    if plan.folds and not checkpoint.about:
        with_figures(net, prepared.ds)
    result |= facts_of_rows(prepared.ds, prepared.split)
    remember_rows(net, prepared.ds, prepared.split.known, before)
    warn_if_not_learned(result, prepared.ds, net.loss, net.reference)
    return _written(result, callbacks, checkpoint)


def _check_types(net, ds, callback) -> None:
    """Raise UsageError for what is no network, no data set or no callback."""
    if not isinstance(net, Network) or not isinstance(ds, Dataset):
        kinds = f"{type(net).__name__} and {type(ds).__name__}"
        raise UsageError(
            f"train: found {kinds}, expected a Network and a Dataset; nn.load reads a file or a frame"
        )
    if callback is not None and not hasattr(callback, "epoch"):
        raise UsageError(
            f"callback {callback!r}: expected an object with methods of nn.Callback"
        )


def _callbacks(callback: Callback | None) -> Callbacks:
    if isinstance(callback, Callbacks):
        return callback
    return Callbacks([callback or Callback()])


def run_plan(
    plan: Plan,
    callbacks: Callbacks,
    stop: StopRequest,
    checkpoint: Checkpoint,
    validation: Dataset | ReadValidation | None,
) -> list[dict]:
    """Train the networks of a plan; return the figures of `--json`, of each network, or
    of the one that they become."""
    with beside_checkpoint(checkpoint.path), _devices_of(plan) as apart, plan.room():
        run = Run(plan, callbacks, stop, checkpoint, validation, apart)
        run.begin()
        if plan.is_combined:
            return [_trained_together(run)]
        return _trained_each(run)


@contextlib.contextmanager
def _devices_of(plan: Plan) -> Iterator[tuple | None]:
    """Let each of several networks compute alone, of whatever ranks and devices share
    them out; yields those, as Network.apart does. None for one network, whose batches
    they share."""
    if plan.is_alone:
        yield None
        return
    with plan.net.apart() as (ranks, devices):
        if ranks.size > 1 or len(devices) > 1:
            for trial in plan.trials:
                trial.net.device = devices[0]
        yield ranks, devices


def _trained_each(run: Run) -> list[dict]:
    """Train the networks of a run; return the figures of each, of one whose loss is no
    number why. Raises NotFinite for a network alone."""
    for member in run.members:
        check_decision(member.net, member.options, member.rows.is_validated)
    configs = [member.net.config for member in run.members]
    config = configs[0]
    if not run.plan.is_alone:
        config = {"networks": len(configs), "settings": configs}
    try:
        run.run(config)
    except NotFinite:  # of all networks
        if run.plan.is_alone:
            raise
    return [
        {"failed": str(member.failed)} if member.failed else figures_of_one(member)
        for member in run.members
    ]


def _trained_together(run: Run) -> dict:
    """Train the networks of a run, which become one; return its figures."""
    plan = run.plan
    is_validated = bool(plan.folds) or run.members[0].rows.is_validated
    check_decision(plan.net, plan.options, is_validated)
    combined = Combined(run)
    try:
        run.run(combined.config)
    finally:  # a run that is stopped leaves what its networks have learned
        if run.alive():
            combined.combine()
    return combined.figures()


def _rows_and_name(
    validation,
) -> tuple[Dataset | ReadValidation | None, float | str | None]:
    """Return (validation rows that a caller has, what the setting is called)."""
    if isinstance(validation, Dataset) or callable(validation):
        return validation, getattr(validation, "path", None) or GIVEN_ROWS
    return None, validation


def _written(result, callbacks: Callbacks, saving: Checkpoint):
    """Return the result of a training. Raises SideFileError if files beside it could
    not be written."""
    failures = [*callbacks.failures, *filter(None, [saving.failure])]
    if failures:
        raise SideFileError(failures, result)
    return result


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
    """Train networks with settings of their own on one data set, all at the same time;
    return (network, metrics) of each, in their order.

    settings: of each network, by the names of the flags, `layers` and `seed` among
    them. shared: settings of all, also backend, threads, gpus, distribute, dtype. A
    network has the bytes, and the metrics but for times, of the one that is trained
    alone; that of a network whose loss is not finite is {"failed": why}. The other
    arguments, and what is raised: as of train.
    """
    if not settings:
        raise UsageError("train_many: no settings; give a dictionary for each network")
    engine = {name: shared.pop(name) for name in OF_ENGINE if name in shared}
    validation_rows, named = _rows_and_name(validation)
    ds.log_left_out()
    plan = plan_listed(
        ds, [{"validation": named, **shared, **given} for given in settings], engine
    )
    checkpoint = Checkpoint.of(checkpoint)
    callbacks = _callbacks(callback)
    stop = stop or StopRequest()
    results = run_plan(plan, callbacks, stop, checkpoint, validation_rows)
    pairs = [
        (trial.net, result) for trial, result in zip(plan.trials, results, strict=True)
    ]
    # the first network that was trained on the same rows, read alike
    first_with: dict[Prepared, Network] = {}
    for trial, (net, result) in zip(plan.trials, pairs, strict=True):
        if "failed" in result:
            continue
        first = first_with.setdefault(trial.prepared, net)
        if first is net:
            remember_rows(net, trial.prepared.ds, trial.prepared.split.known)
        else:
            facts = {"row_hashes": first.row_hashes, "profiles": first.profiles}
            remember(net, **facts)
            net.background = first.background
    return _written(pairs, callbacks, checkpoint)
