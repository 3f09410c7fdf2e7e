"""Shared by several commands: opening a network, refusing files that would replace each
other."""

from __future__ import annotations

import json
import os

from ..files.suffixes import A_MODEL, CSV, TEXT_MODEL, check_named_format
from ..nn_aux import OF_FOLD
from ..settings.flags import MODES, REFERENCE, flags_of_mode, given_values, keywords
from ..terminal import console
from ..terminal.progress import Steps, make_steps
from ..utils import DataError, UsageError, check_writable, cut_name, log


def load_network(flags):
    """Return the network in --model on the backend that the flags ask for. UsageError
    for a --scaling it cannot use."""
    from ..files.model_file import is_model
    from ..files.text_model import is_text
    from ..nn import Network

    if flags.scaling and not is_text(flags.model):
        raise UsageError(
            "--scaling: the model already stores its scaling (only .m files do not); leave it out"
        )
    given = keywords(flags, "engine")
    if flags.reference:
        given |= {name: REFERENCE[name] for name in ("backend", "dtype")}
    try:
        return Network.of_file(flags.model, **given)
    except DataError as error:
        if not (flags.dataset and is_model(flags.dataset)):
            raise
        mode = next(mode for mode in MODES if getattr(flags, mode, None))
        raise DataError(
            f"{error}; the order is nn {mode} {flags.dataset} {flags.model}"
        ) from error


OUT_OF_FOLD = "out-of-fold rows"
# flags that say how the file at hand is read
LAYOUT = ("target", "separator", "header", "strict")


def unseen_rows(flags, net, model: str, labelled: bool = True):
    """Return (rows to judge a model by, what test.out_of_fold.out_of_fold returns of
    them or None, the word for them, how many of them the model was trained on): those
    of --dataset, else those that its training did not see."""
    from ..data.loading import held_out, load_for, training_dataset
    from ..data.row_hashes import knows_earlier_rows
    from ..test.out_of_fold import (
        check_crossed,
        out_of_fold,
        remark_on_rows_apart,
        unseen_of,
    )
    from ..test.trained_rows import ON_NONE, trained_on

    if flags.dataset:
        given = given_values(flags, LAYOUT)
        given |= {"memory": flags.memory, "tells_unseen": not flags.test}
        ds = load_for(net, flags.dataset, **given, labelled=labelled)
        fold_scores = unseen_of(net, ds)
        if fold_scores is None:
            return ds, None, "rows", trained_on(net, ds)
        # whose columns are judged by networks that know the rows
        if not (flags.explain and net.crossed.is_retrained):
            remark_on_rows_apart(net, len(fold_scores[0]), model)
        return ds, fold_scores, OUT_OF_FOLD, ON_NONE
    if "folds" in net.config and not net.holdout:
        check_crossed(net, model)
        ds = training_dataset(net, model, force=flags.force, memory=flags.memory)
        fold_scores = out_of_fold(net, ds)
        return ds, fold_scores, OUT_OF_FOLD, ON_NONE
    ds = held_out(
        net, model, whole=flags.reference, force=flags.force, memory=flags.memory
    )
    if not net.holdout:
        return ds, None, "rows", trained_on(net, ds)
    if knows_earlier_rows(net.row_hashes):
        return ds, None, "held-out rows", trained_on(net, ds)
    return ds, None, "held-out rows", ON_NONE


def drift_told(net, ds):
    """Return how rows differ from those of a network's training, a Drift, and log what
    a person should know; None where the network does not know."""
    from ..data.dataset import name_of
    from ..test.drift import drift_of

    drift = drift_of(net, ds)
    if drift is not None:
        for line in drift.lines():
            log.warning("%s: %s", name_of(ds), line)
    return drift


def report_run(flags, net, about: str) -> None:
    """Print the first lines of a run of a model, unless --quiet. about: the data in a
    line."""
    if not flags.quiet:
        console.report_run(
            about, net.engine.describe(), net.engine.threads, net.dtype, net.seed
        )


def write_page(flags, net, *rows, **options) -> None:
    """Write the page of --model to --report, if that is given. rows, options: as
    model_page.page_of_model takes them."""
    if flags.report:
        from ..pages import model_page, page

        options.setdefault("progress", progress_of(flags, "importance of columns"))
        page.write(
            flags.report, model_page.page_of_model(net, flags.model, *rows, **options)
        )


def progress_of(flags, what: str) -> Steps | None:
    """Return what shows how far a long computation is; None with --quiet and --json."""
    if flags.quiet or flags.json:
        return None
    return make_steps(what)


_OUTPUT_FORMATS = {  # by mode and flag: the formats of a file, and a name that it may have
    ("train", "model"): ((A_MODEL, TEXT_MODEL), "m.bin"),
    ("train", "checkpoint"): ((), "c.ck"),
    ("train", "history"): ((CSV,), "h.csv"),
    ("train", "trace"): (("JSON",), "t.json"),
    ("rethreshold", "output"): ((A_MODEL,), "new.bin"),
    ("sweep", "output"): ((CSV,), "r.csv"),
    ("study", "output"): ((CSV,), "r.csv"),
}


def check_files(mode: str, flags) -> None:
    """Raise before any work if a file that is written would replace one that is read,
    or be written twice, also by the unfinished network of a training that is stopped;
    or if the page of --report cannot be written."""
    trains = mode == "train"
    readable = flags_of_mode(mode)
    taken = {}
    outputs = ["checkpoint", "trace", "history", "output", "logdir", "report"]
    inputs = ["dataset", "background", "validation", "resume", "config", mode]
    if trains:
        outputs.insert(0, "model")
    else:
        inputs.insert(1, "model")
    written = given_values(flags, [name for name in outputs if name in readable])
    read = given_values(flags, inputs)
    read = {
        name: path
        for name, path in read.items()
        if isinstance(path, str) and path not in ("auto", OF_FOLD)
    }
    if trains and flags.model is not None:
        part = part_of(flags.model)
        taken[os.path.realpath(part)] = "that of a network that a signal stops"
        for path in read.values():
            check_apart(path, part)
    for name, path in written.items():
        for other, file in read.items():
            if (name, other) != ("checkpoint", "resume"):
                check_apart(file, path)
        other = taken.setdefault(os.path.realpath(path), f"--{name}")
        if other != f"--{name}":
            raise UsageError(
                f"--{name} {path}: the same file as {other}; choose another file"
            )
    _check_formats(mode, flags)
    if "report" in written:
        from ..pages.page import check_suffix

        check_suffix(flags.report)
        check_writable(flags.report)


def _check_formats(mode: str, flags) -> None:
    """Raise UsageError for an output whose suffix is that of another format."""
    for (writer, name), (formats, example) in _OUTPUT_FORMATS.items():
        if mode == writer and getattr(flags, name) is not None:
            check_named_format(getattr(flags, name), formats, example, f"--{name}")


def check_apart(read: str, written: str) -> None:
    """Raise UsageError if writing would replace a file that is read."""
    from ..data.source import data_files, database_of

    if not os.path.exists(written) or os.path.isdir(written):
        return
    for name in data_files(read):
        file, _ = database_of(name)
        # if it is that of an image
        class_folder = os.path.dirname(os.path.realpath(written))
        for path in (written, os.path.dirname(class_folder)):
            if os.path.exists(file) and os.path.samefile(file, path):
                raise UsageError(
                    f"{written} is both input and output; choose another output file"
                )


def part_of(model: str) -> str:
    """Return the name of an unfinished network's file, cut where the system would not
    take one so long."""
    folder, name = os.path.split(model)
    return os.path.join(folder, cut_name(name) + ".part")


def print_json(result: dict) -> None:
    """Print the one object of --json. ValueError for nan and infinity, which JSON does
    not have."""
    print(json.dumps(result, allow_nan=False))
