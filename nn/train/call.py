"""train: what a call asks for, checked, and the training of one network or of several that it becomes."""

from __future__ import annotations

import os
from dataclasses import fields

import numpy as np

from ..data import records
from ..data.records import ROW_BYTES, make_room, training_bytes
from ..data.splits import Split, fold_rows, remark_on_rare_folds, split_given
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn_aux import DEFAULTS, OF_FOLD, TASKS
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


def train(
    net: Network,
    ds: Dataset,
    *,
    epochs: int = DEFAULTS["epochs"],
    batch_number: int | None = None,
    learning_rate: float | None = None,
    optimizer: str | None = None,
    momentum: float = DEFAULTS["momentum"],
    weight_decay: float | None = None,
    schedule: str | None = None,
    scaling: str | None = None,
    holdout: float | None = None,
    threshold: float | str | None = None,
    calibrate: str | None = None,
    class_weight: str | None = None,
    validation: float | str | Dataset | ReadValidation | None = None,
    monitor: str | None = None,
    patience: int | None = None,
    refit: bool | None = None,
    split_seed: int | None = None,
    number_embedding: str | None = None,
    clip: bool | None = None,
    networks: int | None = None,
    vary: str | None = None,
    keep: int | None = None,
    folds: int | None = None,
    rows: np.ndarray | None = None,
    checkpoint: str | Checkpoint | None = None,
    checkpoint_every: int | None = None,
    resume: str | None = None,
    callback: Callback | None = None,
    stop: StopRequest | None = None,
    batch_size: int | None = None,
    progress: Callback | None = None,
) -> dict:
    """Train a network on a data set, from the parameters it has. Returns the figures of `--json`.

    None: the default of `nn --help`. batch_size: another name of batch_number, rows of a batch. callback: an object
    with methods of watch.Callback; progress: its former name. The network then holds the trained parameters, the
    scaling, names, history and settings.

    checkpoint: a file to keep the state in, at the end of every `checkpoint_every`th epoch (1) and where the
    training is stopped; resume: such a file to go on from, or "auto" for `checkpoint` if it exists. The training then
    ends in the same numbers as an uninterrupted one. checkpoint may also be a files.Checkpoint, which has all three.

    threshold: a number, or a rule by which it is found after the last epoch: f1, fbeta=B, precision=P, recall=R,
    cost=FP:FN. calibrate: none, or temperature, found on validation rows. With folds both are found on the rows of all
    folds, each as the network that does not know it predicts it.

    Rows of ds.weights above 1 count more, times class_weight: none, balanced, or numbers with commas between them.
    validation: a share of the rows that holdout leaves, a file, a Dataset or a function that reads one as the given
    network reads its data, on which every epoch is judged by
    `monitor` (loss, or a metric of core.metrics); the network ends with the parameters of the best epoch, and training
    stops after `patience` epochs without a better one. refit: then train once more from the first parameters, on
    validation rows too, for as many epochs as were best. "fold": the network of each fold is judged by the rows that
    test it, so that all others train it. split_seed: draws held-out and validation rows (net.seed).

    number_embedding: inputs added to each column of numbers, decided by the training rows: linear (none),
    piecesN (N pieces of the axis, by quantiles), wavesN or wavesN:DEVIATION (N waves, first frequencies of this
    deviation). None: pieces where one value is the usual one. A network that has its encoding keeps it.

    clip: predictions of regression stay within the range of the training targets, a tenth of it wider on each side.

    networks: train as many, with seeds net.seed, net.seed + 1, ..., on the same rows, each stopped by itself. The
    network then has them as `members`, and its predictions are the means of theirs. Member k has the parameters of the
    network that is trained alone with its seed and split_seed=net.seed.

    vary: settings that are drawn for each of them, "learning_rate=1e-4..1e-2,hidden=32|64"; see train.vary.
    keep: the worse half of the networks is given up where validation rows say so, at 1/2, 1/4, ... of the epochs, while
    twice as many are left; of the others those become members, at most `keep`, that together do best on these rows,
    counted as often as greedy selection chose them. With vary or keep the figures have `trials`.

    folds: cross-validation. The training rows are divided into as many folds (data.splits.fold_rows), and a network for
    each, seeded as those of `networks` are, is trained on the others' rows and tested by the fold's. The figures have
    `folds`, `mean` and `std`, and the networks become the members. rows: train on these rows alone, and hold none out;
    a fold's network has the parameters of the one that is trained so.

    A network with `distribute` among several ranks (cluster) is trained by all of them, each with its share of every
    batch: all call this with the same arguments. Rank 0 alone writes the checkpoint. Of several networks each rank, and
    each of several GPUs, trains a share, with nothing to tell each other but losses; all ranks then have them all.

    Raises UsageError for a wrong value, DataError for data that do not fit, NnError for a loss that is not finite, and
    Stopped (the network keeps what it has learned) after `stop.request` or Ctrl-C. SideFileError: a checkpoint or a
    callback's file could not be written; the network is trained, and the error has the figures.
    """
    named = _named_options(locals())
    options = options_of(net, ds, named)
    net.expect_batches(options.batch_number)
    saving = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, checkpoint_every, resume)
    callback = callback or progress or Callback()
    callbacks = callback if isinstance(callback, Callbacks) else Callbacks([callback])
    if networks is not None and networks < 1:
        raise UsageError(f"--networks {networks}: must be at least 1")
    if options.validation == OF_FOLD and folds is None:
        raise UsageError(f"--validation {OF_FOLD}: judges each network of --folds F by its fold; give --folds too")
    trials = _trials(net, ds, options, named, networks, vary, keep, folds)
    beside = callbacks, stop or StopRequest(), saving, validation if _are_rows(validation) else None
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


def _are_rows(validation) -> bool:
    """Return whether `validation` of a call is rows, or a function that reads them, and no share or file."""
    return isinstance(validation, Dataset) or callable(validation)


def _named_options(given: dict) -> dict:
    """Return the values of Options among the arguments of `train`. Raises UsageError for a setting given twice."""
    if None not in (given["batch_number"], given["batch_size"]):
        raise UsageError("batch_number and batch_size are two names of one setting; leave one out")
    named = {option.name: given[option.name] for option in fields(Options)}
    if given["batch_number"] is None:
        named["batch_number"] = given["batch_size"]
    if _are_rows(given["validation"]):
        named["validation"] = getattr(given["validation"], "path", None) or GIVEN_ROWS
    return named


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
    flag = f"--folds {folds}"
    if folds < 2:
        raise UsageError(f"{flag}: must be at least 2")
    if (networks or 1) > 1:
        raise UsageError(f"{flag}: trains a network for each fold; leave out --networks")
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
