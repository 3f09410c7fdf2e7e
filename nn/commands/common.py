"""What several commands share: sets of flags, opening a network, refusing files that would replace each other."""

from __future__ import annotations

import json
import os

from ..flags import said
from ..nn_aux import REFERENCE
from ..utils import UsageError, check_writable

COMMON_FLAGS = {"json", "verbose", "quiet", "force", "debug", "config"}
ENGINE_FLAGS = {"backend", "dtype", "threads", "gpus", "tf32"}
NETWORK_FLAGS = {"activation", "loss", "init", "seed", "reference", "distribute"} | ENGINE_FLAGS
TRAIN_FLAGS = {"epochs", "batch_number", "learning_rate", "optimizer", "momentum", "weight_decay", "schedule"}
TRAIN_FLAGS |= {"scaling", "holdout", "threshold"}
CHECKPOINT_FLAGS = {"checkpoint", "checkpoint_every", "resume"}
WATCH_FLAGS = {"profile", "trace", "trace_batches", "history", "logdir"}
DATA_FLAGS = {"dataset", "model", "target"}
PART_FLAGS = {"memory", "window"}
USE_FLAGS = DATA_FLAGS | {"memory", "scaling", "threshold", "reference"} | ENGINE_FLAGS


def load_network(flags):
    """The network in --model, on the backend that the flags ask for. UsageError for a --scaling it cannot use."""
    from ..model_file import is_text
    from ..nn import Network

    if "scaling" in flags.configured and not is_text(flags.model):
        flags.scaling = None
    if flags.scaling and not is_text(flags.model):
        raise UsageError("--scaling: the model has that of its training (only a .m file has not); leave it out")
    given = said(flags, ENGINE_FLAGS)
    if flags.reference:
        given |= {name: REFERENCE[name] for name in ("backend", "dtype")}
    return Network.load(flags.model, **given)


def check_apart(read: str, written: str) -> None:
    """Nobody wants the file that is read to be replaced."""
    from ..source import data_files

    for file in data_files(read) if os.path.exists(written) else ():
        if os.path.exists(file) and os.path.samefile(file, written):
            raise UsageError(f"{written} would be read and written; choose another file to write")


def check_report(path: str, *others: str | None) -> None:
    """No test and no sweep is to be lost to a page that cannot be written, and none of the other files to the page."""
    from ..plot import check_matplotlib

    for other in filter(None, others):
        if os.path.realpath(other) == os.path.realpath(path):
            raise UsageError(f"--report {path} would replace {other}; choose another file")
        check_apart(other, path)
    check_matplotlib()
    check_writable(path)


def print_json(result: dict) -> None:
    """The one object of --json; figures that JSON has no number for are an error of ours."""
    print(json.dumps(result, allow_nan=False))
