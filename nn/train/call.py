"""train: what a call asks for, checked."""

from __future__ import annotations

import numpy as np

from ..data.records import beside_checkpoint
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..settings.flags import checked_settings, settings_of, takes
from ..utils import SideFileError, StopRequest, UsageError
from ..watch.callbacks import Callback, Callbacks
from .learned import tell
from .options import options_of
from .rows import GIVEN_ROWS, ReadValidation
from .search import SHARE
from .start import Beside, plan_for, train_one, train_several


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
    parameters of the network that is trained alone with its seed and split_seed=net.seed. With vary the metrics have
    `trials`, with folds `folds`, `mean` and `std`.

    A network with `distribute` among several ranks (cluster) is trained by all of them, each with its share of every
    batch: all call this with the same arguments. Rank 0 alone writes the checkpoint. Of several networks each rank, and
    each of several GPUs, trains a share, with nothing to tell each other but losses; all ranks then have them all.

    Raises UsageError for a wrong value, DataError for data that do not fit, NnError for a loss that is not finite, and
    Stopped (the network keeps what it has learned) after `stop.request` or Ctrl-C. SideFileError: a checkpoint or a
    callback's file could not be written; the network is trained, and the error has the figures.
    """
    if not isinstance(net, Network) or not isinstance(ds, Dataset):
        found = f"{type(net).__name__} and {type(ds).__name__}"
        raise UsageError(f"train: found {found}, expected a Network and a Dataset; nn.load reads a file or a frame")
    if callback is not None and not hasattr(callback, "epoch"):
        raise UsageError(f"callback {callback!r}: expected an object with methods of nn.Callback")
    given_rows = validation if isinstance(validation, Dataset) or callable(validation) else None
    named = validation if given_rows is None else getattr(validation, "path", None) or GIVEN_ROWS
    if settings.get("vary") is not None and named is None:
        named = SHARE
    given = checked_settings("train", settings | {"validation": named}, "train", "several", "checkpoint")
    several, of_checkpoint = (
        {flag.name: flag.check(given.pop(flag.name)) for flag in settings_of(kind) if flag.name in given}
        for kind in ("several", "checkpoint")
    )
    options = options_of(net, ds, given)
    net.expect_batches(options.batch_number)
    saving = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, **of_checkpoint)
    callbacks = callback if isinstance(callback, Callbacks) else Callbacks([callback or Callback()])
    if options.validation == OF_FOLD and several.get("folds") is None:
        raise UsageError(f"--validation {OF_FOLD}: judges each network of --folds F by its fold; give --folds too")
    plan = plan_for(net, ds, options, given, several)
    beside = Beside(callbacks, stop or StopRequest(), saving, given_rows)
    with beside_checkpoint(saving.path):
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
