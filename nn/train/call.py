"""train and train_many: what a call asks for, checked, and the run that it becomes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from .. import cluster
from ..data import records
from ..data.dataset import about_rounded_inputs, as_read_by
from ..data.records import (
    ROW_BYTES,
    beside_checkpoint,
    check_left,
    make_room,
    training_bytes,
)
from ..data.row_hashes import fact_of
from ..data.splits import copied_rows, split_rows
from ..data.targets import about_far_targets
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn.trained_rows import encoders_of
from ..nn_aux import OF_FOLD
from ..settings.flags import BY_NAME, checked_settings, takes
from ..test.out_of_fold import with_figures
from ..test.shapley import background_rows
from ..utils import SideFileError, Stopped, StopRequest, UsageError, log
from ..watch.callbacks import Callback, Callbacks
from .decision import check_decision, decide_by_members
from .ensemble import Ensemble, check_several
from .learned import tell
from .member import Member, NotFinite
from .options import Options, is_decided_later, options_of, settings_by_kind
from .rows import (
    GIVEN_ROWS,
    ReadValidation,
    check_fit,
    fit_encoding,
    origin_of,
    split_seed,
)
from .run import Run
from .search import VALIDATION_SHARE

# the same for all networks of train_many
OF_ENGINE = ("backend", "threads", "gpus", "distribute", "dtype")
NETWORK_SETTINGS = ("layers", "activation", "loss", "init", "seed")
OF_EPOCHS = (  # options that do not say what rows there are, and how they are read
    "epochs",
    "batch_number",
    "learning_rate",
    "optimizer",
    "momentum",
    "weight_decay",
    "schedule",
    "monitor",
    "patience",
    "refit",
    "calibrate",
)


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
    does.

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
    if not isinstance(net, Network) or not isinstance(ds, Dataset):
        found = f"{type(net).__name__} and {type(ds).__name__}"
        raise UsageError(
            f"train: found {found}, expected a Network and a Dataset; nn.load reads a file or a frame"
        )
    if callback is not None and not hasattr(callback, "epoch"):
        raise UsageError(
            f"callback {callback!r}: expected an object with methods of nn.Callback"
        )
    ds.log_left_out()
    ds = as_read_by(net, ds, goes_on=True)
    if not net.reference and cluster.current().rank == 0:
        for line in [*about_far_targets(ds), *about_rounded_inputs(net, ds)]:
            log.warning("%s", line)
    validation_rows, named = _rows_and_name(validation)
    if settings.get("vary") is not None and named is None:
        named = VALIDATION_SHARE
    kinds = settings_by_kind(
        "train", settings | {"validation": named}, "train", "several", "checkpoint"
    )
    of_net, several, of_checkpoint = [
        {name: BY_NAME[name].check(own[name]) for name in own} for own in kinds
    ]
    options = options_of(net, ds, of_net)
    net.expect_batches(options.batch_number)
    if isinstance(checkpoint, Checkpoint):
        saving = checkpoint
    else:
        saving = Checkpoint(checkpoint, **of_checkpoint)
    if isinstance(callback, Callbacks):
        callbacks = callback
    else:
        callbacks = Callbacks([callback or Callback()])
    if options.validation == OF_FOLD and several.get("folds") is None:
        raise UsageError(
            f"--validation {OF_FOLD}: judges each network of --folds F by its fold; give --folds too"
        )
    beside = {
        "callback": callbacks,
        "stop": stop or StopRequest(),
        "checkpoint": saving,
        "validation": validation_rows,
    }
    are_several = check_several(several)
    # several begin anew
    if are_several:
        before = None
    else:
        before = net.row_hashes
    with beside_checkpoint(saving.path):
        if not are_several:
            try:
                result = train_one(net, ds, options, rows, **beside)
            except Stopped:  # what it has learned may be written
                remember(net, ds, options, rows, before=before)
                raise
        elif rows is not None:
            raise UsageError(
                "rows: are those of one network; leave out networks, folds and vary"
            )
        else:
            with net.apart() as apart:
                _prepare(net, ds, options)
                ensemble = Ensemble(net, ds, options, of_net, several)
                with records.within(make_room(net, ds, ensemble.training_bytes())):
                    result = ensemble.train(apart, **beside)
    # what is trained here is no candidate of a choice, which keeps its own
    if not saving.about:
        with_figures(net, ds)
    result |= _facts_of_rows(ds, rows)
    remember(net, ds, options, rows, before=before)
    tell(result, ds)
    return _written(result, callbacks, saving)


def _facts_of_rows(ds: Dataset, rows: np.ndarray | None) -> dict:
    """Return how many rows a training leaves out, by the reason, and how many of the
    others have a twin, where there are any. rows: as train takes them."""
    facts: dict = {}
    left_out = ds.left_out_rows
    if ds.duplicates():
        left_out["duplicate"] = ds.duplicates()
    if left_out:
        facts["left_out_rows"] = left_out
    divided = split_rows(ds, 0.0, 0.0, 0, rows).training
    twins = copied_rows(ds, divided)
    if twins:
        facts["twins"] = twins
    return facts


def remember(
    net: Network,
    ds: Dataset,
    options: Options,
    rows: np.ndarray | None = None,
    like: Network | None = None,
    before: dict | None = None,
) -> None:
    """Let a network know later which rows it was trained on, all that were not held out
    or `rows`, and keep some of them for explanations. like: a network that was trained
    on the same rows, perhaps this one itself. before: what it knew of the rows of
    earlier trainings, from whose parameters this one went on."""
    if net.reference:
        return
    if like not in (None, net):
        net.describe(row_hashes=like.row_hashes)
        net.background = like.background
        return
    if rows is not None and ds.weights is not None:
        rows = np.asarray(rows)
        rows = rows[ds.weights[rows] > 0]
    if rows is not None:
        rows = ds.without_duplicates(np.sort(rows))
    if rows is None:
        trained = split_rows(
            ds, options.holdout, 0.0, split_seed(options, net.seed)
        ).training
    else:
        trained = rows
    net.describe(row_hashes=fact_of(ds, np.sort(trained), encoders_of(net), before))
    if rows is not None:
        net.describe(dataset=origin_of(ds, is_part=len(rows) < ds.rows))
    if not ds.are_images:
        net.background = background_rows(net, ds)


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


def train_one(
    net: Network, ds: Dataset, options: Options, rows: np.ndarray | None, **beside
) -> dict:
    """Train one network, whose batches its ranks and GPUs share; rows: on these alone.
    Returns the metrics.

    beside: callback, stop, checkpoint and validation, as Run takes them.
    """
    split = None
    if rows is not None:
        split = split_rows(
            ds, 0.0, options.validation_share, split_seed(options, net.seed), rows
        )
    _prepare(net, ds, options, split)
    with records.within(
        make_room(net, ds, [training_bytes(net, options.batch_number)])
    ):
        member = Member(
            net, options, split=split, tells_unknown=is_decided_later(options)
        )
        run = Run(net, [member], ds, options, **beside)
        run.begin()
        check_decision(net, options, member.rows.is_validated)
        run.resume(net.config)
        run.run()
        return _figures(member)


def _prepare(net: Network, ds: Dataset, options: Options, split=None) -> None:
    """Give the network its encoding. Raises DataError or UsageError if it cannot learn
    from the data."""
    check_fit(net, ds)
    check_left(
        ROW_BYTES * ds.rows,
        f"out of memory: a training of {ds.rows} rows",
        "use fewer rows",
    )
    if net.encoding is None:
        fit_encoding(net, ds, options, split)


def _figures(member: Member) -> dict:
    """Return the metrics of a network, once what its options leave to be found after
    the last epoch is found."""
    return member.figures() | decide_by_members(
        member.net, member.options, {member: 1.0}
    )


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
    members = _members_of(
        ds, [{"validation": named, **shared, **own} for own in settings], engine
    )
    if isinstance(checkpoint, Checkpoint):
        saving = checkpoint
    else:
        saving = Checkpoint(checkpoint)
    callbacks = Callbacks([callback or Callback()])
    first = members[0].reader
    each = [training_bytes(one.net, one.options.batch_number) for one in members]
    with (
        beside_checkpoint(saving.path),
        first.apart() as apart,
        records.within(make_room(first, ds, each)),
    ):
        if apart[0].size > 1 or len(apart[1]) > 1:
            for member in members:
                member.net.compute_at(apart[1][0])
        run = Run(
            first,
            members,
            ds,
            members[0].options,
            callbacks,
            stop or StopRequest(),
            saving,
            validation_rows,
            apart,
        )
        run.begin()
        for member in members:
            check_decision(member.net, member.options, member.rows.is_validated)
        run.resume(
            {
                "networks": len(members),
                "settings": [member.net.config for member in members],
            }
        )
        with contextlib.suppress(NotFinite):  # of all networks
            run.run()
    # the first network that was trained on the same rows
    first_with: dict[tuple, Network] = {}
    for one in members:
        if not one.failed:
            split = one.options.holdout, split_seed(one.options, one.net.seed)
            remember(
                one.net, ds, one.options, like=first_with.setdefault(split, one.net)
            )
    pairs = [
        (one.net, {"failed": str(one.failed)} if one.failed else _figures(one))
        for one in members
    ]
    return _written(pairs, callbacks, saving)


def _members_of(ds: Dataset, settings: Sequence[dict], engine: dict) -> list[Member]:
    """Return a member for each of these settings; those that read the data alike share
    a reader."""
    readers: dict[tuple, Network] = {}
    members = []
    for number, own in enumerate(settings):
        of_network = {name: own.pop(name) for name in NETWORK_SETTINGS if name in own}
        net = Network.for_data(
            ds, of_network.pop("layers", None), **of_network, **engine
        )
        if net.reference:
            raise UsageError("train_many: --reference trains one network; leave it out")
        try:
            own = checked_settings("train", own, "train")
        except UsageError as error:
            raise UsageError(f"train_many, network {number}: {error}") from None
        options = options_of(net, ds, own)
        net.expect_batches(options.batch_number)
        engine = {**engine, "backend": net.backend}
        check_fit(net, ds)
        of_rows = {
            name: value
            for name, value in asdict(options).items()
            if name not in OF_EPOCHS
        }
        output = net.layers[-1].output_function
        key = (*of_rows.items(), split_seed(options, net.seed), net.loss, output)
        if key not in readers:
            fit_encoding(net, ds, options)
            readers[key] = net.sibling(net.seed)
        elif readers[key].encoding is not None:
            net.adopt(readers[key].encoding)
        members.append(
            Member(net, options, readers[key], tells_unknown=is_decided_later(options))
        )
    return members
