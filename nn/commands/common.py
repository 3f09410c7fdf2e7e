"""Shared by several commands: opening a network, refusing files that would replace each other."""

from __future__ import annotations

import json
import os

from ..settings.flags import REFERENCE, given_values, keywords
from ..terminal import console
from ..utils import UsageError, check_writable


def load_network(flags):
    """Return the network in --model on the backend that the flags ask for. UsageError for a --scaling it cannot use."""
    from ..files.text_model import is_text
    from ..nn import Network

    if flags.scaling and not is_text(flags.model):
        raise UsageError("--scaling: the model already stores its scaling (only .m files do not); leave it out")
    given = keywords(flags, "engine")
    if flags.reference:
        given |= {name: REFERENCE[name] for name in ("backend", "dtype")}
    return Network.of_file(flags.model, **given)


LAYOUT = ("target", "separator", "header")  # flags that say how the file at hand is read


def unseen_rows(flags, net, model: str, labelled: bool = True):
    """Return (rows to judge a model by, whether they are out of fold, the word for them): those of --dataset, else
    those that its training did not see."""
    from ..data.loading import holdout_dataset, load_for, training_dataset

    if flags.dataset:
        given = given_values(flags, LAYOUT)
        return load_for(net, flags.dataset, **given, labelled=labelled, memory=flags.memory), False, "rows"
    if "folds" in net.config and not net.holdout:
        return training_dataset(net, model, force=flags.force, memory=flags.memory), True, "rows, out of fold"
    ds = holdout_dataset(net, model, whole=flags.reference, force=flags.force, memory=flags.memory)
    return ds, False, "held-out rows" if net.holdout else "rows"


def say_run(flags, net, about: str) -> None:
    """Print the first lines of a run of a model, unless --quiet. about: the data in a line."""
    if not flags.quiet:
        console.say_run(about, net.engine.describe(), net.engine.threads, net.dtype, net.seed)


def write_page(flags, net, *rows, **more) -> None:
    """Write the page of --model to --report, if that is given. rows, more: as model_page.of_model takes them."""
    if flags.report:
        from ..pages import model_page, page

        page.write(flags.report, model_page.of_model(net, flags.model, *rows, **more))


def check_apart(read: str, written: str) -> None:
    """Raise UsageError if writing would replace a file that is read."""
    from ..data.source import data_files, database_of

    for name in data_files(read) if os.path.exists(written) else ():
        file, _ = database_of(name)
        class_folder = os.path.dirname(os.path.realpath(written))  # if it is that of an image
        for path in (written, os.path.dirname(class_folder)):
            if os.path.exists(file) and os.path.samefile(file, path):
                raise UsageError(f"{written} is both input and output; choose another output file")


def check_report(path: str, *others: str | None) -> None:
    """Raise before any work if the page cannot be written, or would replace one of the other files."""
    from ..pages.page import check_suffix

    for other in filter(None, others):
        if os.path.realpath(other) == os.path.realpath(path):
            raise UsageError(f"--report {path} would replace {other}; choose another file")
        check_apart(other, path)
    check_suffix(path)
    check_writable(path)


def print_json(result: dict) -> None:
    """Print the one object of --json. ValueError for nan and infinity, which JSON does not have."""
    print(json.dumps(result, allow_nan=False))
