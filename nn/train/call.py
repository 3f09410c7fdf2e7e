"""train: what a call asks for, checked, and the training of one network or of several that it becomes."""

from __future__ import annotations

import os

import numpy as np

from ..data import records
from ..data.records import ROW_BYTES, make_room, training_bytes
from ..data.splits import Split, fold_rows, remark_on_rare_folds, split_given
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn_aux import OF_FOLD, TASKS
from ..settings.flags import checked_settings, settings_of, takes
from ..utils import SideFileError, StopRequest, UsageError
from ..watch.callbacks import Callback, Callbacks
from .learned import tell
from .loop import Training, prepare
from .options import Options, options_of
from .pack import PackTraining
from .pack_limits import training_bytes_of
from .pack_rows import readers_of
from .rows import ReadValidation, TrainingRows, split_of, split_seed
from .trials import Trials

OF_PROBABILITIES = ("loss", "brier")  # metrics that need them; the loss of a choice is the log loss
GIVEN_ROWS = "rows of a Dataset"  # the name of validation rows that are of no file


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
    """Train a network on a data set, from the parameters it has. Returns the figures of `--json`.

    The network then holds the trained parameters, the scaling, names, history and settings. settings: by the names of
    the flags (docs/command-line.md); None: the default of `nn --help`.

    rows: train on these rows alone, and hold none out; a fold's network has the parameters of the one that is trained
    so. validation: as the flag, or a Dataset, or a function that reads one as the given network reads its data.
    callback: an object with methods of watch.Callback. checkpoint: a file to keep the state in, or a files.Checkpoint,
    which has the settings beside it too. stop.request ends the training as Ctrl-C does.

    networks: the network then has as many `members`, and its predictions are the means of theirs. Member k has the
    parameters of the network that is trained alone with its seed and split_seed=net.seed. With vary or keep the figures
    have `trials`, with folds `folds`, `mean` and `std`.

    A network with `distribute` among several ranks (cluster) is trained by all of them, each with its share of every
    batch: all call this with the same arguments. Rank 0 alone writes the checkpoint. Of several networks each rank, and
    each of several GPUs, trains a share, with nothing to tell each other but losses; all ranks then have them all.

    Raises UsageError for a wrong value, DataError for data that do not fit, NnError for a loss that is not finite, and
    Stopped (the network keeps what it has learned) after `stop.request` or Ctrl-C. SideFileError: a checkpoint or a
    callback's file could not be written; the network is trained, and the error has the figures.
    """
    given_rows = validation if isinstance(validation, Dataset) or callable(validation) else None
    named = validation if given_rows is None else getattr(validation, "path", None) or GIVEN_ROWS
    given = checked_settings("train", settings | {"validation": named}, "train", "several", "checkpoint")
    several, of_checkpoint = (
        {flag.name: flag.check(given.pop(flag.name)) for flag in settings_of(kind) if flag.name in given}
        for kind in ("several", "checkpoint")
    )
    options = options_of(net, ds, given)
    net.expect_batches(options.batch_number)
    saving = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, **of_checkpoint)
    callbacks = callback if isinstance(callback, Callbacks) else Callbacks([callback or Callback()])
    networks, folds = several.get("networks"), several.get("folds")
    if options.validation == OF_FOLD and folds is None:
        raise UsageError(f"--validation {OF_FOLD}: judges each network of --folds F by its fold; give --folds too")
    trials = _trials(net, ds, options, given, networks, several.get("vary"), several.get("keep"), folds)
    beside = callbacks, stop or StopRequest(), saving, given_rows
    with records.within(folder=saving.path and (os.path.dirname(saving.path) or os.curdir)):
        if folds is not None:
            result = _cross_validation(net, ds, options, folds, networks, *beside)
        elif rows is not None:
            result = _on_rows(net, ds, options, rows, networks, *beside)
        elif (networks or 1) > 1:
            result = _several(net, ds, options, networks, *beside, trials)
        else:
            result = _one(net, ds, options, *beside)
    tell(result)
    failures = [*callbacks.failures, *filter(None, [saving.failure])]
    if failures:
        raise SideFileError(failures, result)
    return result


def _one(net, ds, options: Options, *beside, split: Split | None = None, rows_of=None) -> dict:
    """Train one network."""
    prepare(net, ds, options, split)
    with records.within(make_room(net, ds, [training_bytes(net, options.batch_number)])):
        return Training(net, ds, options, *beside, rows_of).run()


def _several(
    net, ds, options: Options, networks: int, callback, stop, saving: Checkpoint, given, trials: Trials | None
) -> dict:
    """Train several networks on the rows that the options leave."""
    all_trials = trials or Trials.alike(networks, options)
    with net.apart() as apart:
        prepare(net, ds, options)
        each = training_bytes_of(readers_of(net, ds, options, all_trials), all_trials)
        with records.within(make_room(net, ds, each)):
            return PackTraining(net, apart, ds, options, networks, callback, stop, saving, given, trials=trials).run()


def _trials(net, ds, options: Options, given: dict, networks, vary, keep, folds) -> Trials | None:
    """Return what each of several networks is trained with, if vary or keep ask for it. Raises UsageError."""
    flags = {f"--vary {vary}": vary, f"--keep {keep}": keep}
    for flag in (flag for flag, value in flags.items() if value is not None):
        if folds is not None:
            raise UsageError(f"{flag}: compares networks on the same rows; leave out --folds and give --validation")
        if (networks or 1) < 2:
            raise UsageError(f"{flag}: needs several networks; give --networks K")
    if keep is not None:
        _check_keep(net, options, keep, networks)
    if vary is not None:
        return Trials.drawn(net, ds, given, networks, vary, keep)
    return None if keep is None else Trials.alike(networks, options, keep)


def _check_keep(net: Network, options: Options, keep: int, networks: int) -> None:
    """Raise UsageError unless `keep` of the networks can be chosen."""
    if not 1 <= keep <= networks:
        raise UsageError(f"--keep {keep}: must be from 1 to {networks}, the --networks")
    if options.validation is None:
        raise UsageError(f"--keep {keep}: chooses by validation rows; give --validation SHARE or FILE")
    if options.refit:
        raise UsageError(f"--keep {keep}: --refit leaves no rows to choose by; leave one of them out")
    output, metric = net.layers[-1].output_function, options.monitored.name
    if metric in OF_PROBABILITIES and net.task != "regression" and output != TASKS[net.task][0]:
        raise UsageError(
            f"--monitor {metric}: --keep {keep} would choose by probabilities, which a {output} output layer does not "
            "give; choose another metric"
        )


def _cross_validation(net, ds, options: Options, folds: int, networks, callback, stop, saving, given) -> dict:
    """Train a network for each fold of the training rows."""
    if (networks or 1) > 1:
        raise UsageError(f"--folds {folds}: trains a network for each fold; leave out --networks")
    with net.apart() as apart:
        prepare(net, ds, options)
        split = split_of(ds, options, net.seed, remark=True)
        rows = np.union1d(split.training, split.validation)
        by_fold = options.validation == OF_FOLD
        if by_fold:
            remark_on_rare_folds(ds, rows, folds)
        parts = fold_rows(ds, rows, folds, split_seed(options, net.seed), by_fold)
        each = training_bytes(net, options.batch_number) + ROW_BYTES * ds.rows
        with records.within(make_room(net, ds, folds * [each])):
            return PackTraining(net, apart, ds, options, folds, callback, stop, saving, given, parts).run()


def _on_rows(net, ds, options: Options, rows, networks, callback, stop, saving: Checkpoint, given) -> dict:
    """Train on some rows of a data set."""
    if saving.path is not None or saving.source is not None or (networks or 1) > 1:
        raise UsageError("rows: goes neither with a checkpoint nor with several networks")
    split = split_given(ds, rows, options.validation_share, split_seed(options, net.seed))

    def rows_of(net: Network, refit: bool) -> TrainingRows:
        return TrainingRows(net, ds, options, net.engine, None if refit else given, refit, split)

    return _one(net, ds, options, callback, stop, saving, given, split=split, rows_of=rows_of)
