"""train: what a call asks for, checked."""

from __future__ import annotations

import os
from dataclasses import fields

import numpy as np

from ..data import records
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn_aux import DEFAULTS, OF_FOLD
from ..utils import SideFileError, StopRequest, UsageError
from ..watch.callbacks import Callback, Callbacks
from .learned import tell
from .options import Options, options_of
from .rows import GIVEN_ROWS, ReadValidation
from .search import SHARE
from .start import Beside, plan_for, train_one, train_several


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

    vary: settings that are drawn for each of them, "learning_rate=1e-4..1e-2,hidden=32|64"; see train.vary. Those
    become members that together do best on the validation rows, by default a share of search.SHARE, counted as often as
    greedy selection chose them; of many networks the worse half is given up at 1/2, 1/4, ... of the epochs (search.py).
    The figures then have `trials`.

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
    if options.validation == OF_FOLD and folds is None:
        raise UsageError(f"--validation {OF_FOLD}: judges each network of --folds F by its fold; give --folds too")
    plan = plan_for(net, ds, options, named, {"networks": networks, "vary": vary, "folds": folds})
    beside = Beside(callbacks, stop or StopRequest(), saving, validation if _are_rows(validation) else None)
    with records.within(folder=saving.path and (os.path.dirname(saving.path) or os.curdir)):
        if plan is None:
            result = train_one(net, ds, options, beside, rows)
        elif rows is not None:
            raise UsageError("rows: are those of one network; leave out networks, folds and vary")
        else:
            result = train_several(net, ds, options, beside, plan)
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
    if given["vary"] is not None and named["validation"] is None:
        named["validation"] = SHARE
    return named
