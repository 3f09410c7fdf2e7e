"""--train: read the data, train, write the model."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from functools import partial

from .. import cluster
from ..settings.flags import given_values, keywords
from ..terminal import console, tables
from ..terminal.progress import make_progress
from ..utils import (
    Interrupted,
    NnError,
    OutputError,
    SideFileError,
    Stopped,
    StopRequest,
    UsageError,
    check_writable,
    interruption,
    is_stream,
    log_line,
    plural,
    sole_writer,
)
from .common import print_json
from .stopped import signal_code, signals_to, stopped_error, unfinished


def train_command(flags) -> None:
    """Train on --dataset, write --model, print the figures."""
    from ..ds import parsed

    effort = _checked_effort(flags)
    # a mistake in --layers shows before the data is read
    layers = parsed(flags.layers, keywords(flags, "network"))
    stop = StopRequest()
    try:
        with signals_to(stop), _sole_writer_of(flags):
            net, ds, result, finish, lost = _trained(flags, layers, effort, stop)
            if cluster.current().rank == 0 and flags.model is not None:
                net.export(flags.model)
                result["model"] = flags.model
    except (KeyboardInterrupt, Interrupted, RuntimeError) as error:
        if stop.signum is None or interruption(error) is None:
            raise
        raise stopped_error(
            flags, Stopped(stop.signum), "training had not begun"
        ) from None
    with _kept_in(lost):
        if flags.output and "validated" in result:
            raise OutputError(
                f"--output {flags.output}: validation rows, not folds, judged so large a table"
            )
        if flags.output:
            from .predictions import fold_table
            from .table_file import write_table

            write_table(flags.output, fold_table(net, ds))
    with _kept_in(lost):
        finish(batch_size=net.config["batch_number"])
    _print(flags, result, net.loss)
    if lost:  # the training went on without some of its outputs, or was stopped
        if flags.model is None:
            written = ""
        else:
            written = f"; {flags.model} is written"
        raise OutputError("; ".join(map(str, lost)) + written, lost[0].exit_code)


def _checked_effort(flags) -> str | None:
    """Return the effort to choose with; None where the flags describe one training,
    whose layers are the usual ones unless --layers names others. Raises UsageError and
    OutputError for all that shows before the data is read."""
    from ..files.text_model import is_text
    from ..train.asked import effort_for
    from .table_file import check_table

    if flags.model is None and flags.folds is None:
        raise UsageError("--train needs --model PATH")
    into_text = flags.model is not None and is_text(flags.model)
    _check_networks(flags, into_text)
    if flags.effort and into_text:
        raise UsageError(
            f"--effort {flags.effort}: a .m file holds one network; give --model another suffix, .bin"
        )
    effort = effort_for(flags.effort, given_values(flags, vars(flags)))
    if into_text:
        effort = None
    if flags.output and flags.folds is None and effort is None:
        raise UsageError(
            f"--output {flags.output}: --train writes the predictions of --folds F there; add it"
        )
    if cluster.current().rank == 0 and flags.model is not None:
        check_writable(flags.model)
    check_table(flags.output)
    return effort


def _print(flags, result: dict, loss: str) -> None:
    """Print the figures of a training by a loss on stdout, its trials and profile too
    without --json; where stdout is closed and a model is written, that is enough."""
    if flags.json:
        print_json(result)
    elif isinstance(sys.stdout, console.ClosedStream) and flags.model is not None:
        return
    elif not flags.quiet:
        if "trials" in result:
            tables.trials_report(result, flags.verbose)
        if flags.profile:
            tables.profile_report(result["profile"])
        in_time = flags.time is not None
        tables.training_report(result, loss, flags.verbose, in_time)
    elif flags.profile:
        tables.profile_report(result["profile"])


@contextlib.contextmanager
def _sole_writer_of(flags) -> Iterator[None]:
    """Let no other training write the model, the checkpoint or the history
    meanwhile."""
    with contextlib.ExitStack() as locks:
        if cluster.current().rank == 0:
            for path in filter(None, (flags.model, flags.checkpoint, flags.history)):
                if not is_stream(path):
                    locks.enter_context(sole_writer(path))
        yield


@contextlib.contextmanager
def _kept_in(lost: list[NnError]) -> Iterator[None]:
    """Keep an OutputError for the end: what the other files hold is not lost to it."""
    try:
        yield
    except OutputError as error:
        lost.append(error)


def _check_networks(flags, into_text: bool) -> None:
    """Raise UsageError for --networks or --folds beside a flag, or a file of text, that
    is about one network."""
    if (flags.networks or 1) == 1 and flags.folds is None:
        return
    if flags.folds is None:
        flag = f"--networks {flags.networks}"
    else:
        flag = f"--folds {flags.folds}"
    if into_text:
        raise UsageError(
            f"{flag}: a .m file holds one network; give --model another suffix, .bin"
        )
    for name in given_values(flags, ("reference", "profile", "trace")):
        raise UsageError(f"{flag}: --{name} is for one network; leave one out")


def _check_predictions(flags, ds, is_chosen: bool) -> None:
    """Raise UsageError where --output is given and the training judges no fold."""
    if not flags.output:
        return
    if is_chosen and ds.are_images:
        raise UsageError(
            f"--output {flags.output}: has predictions of folds, and images are judged by validation rows"
        )
    if not is_chosen and flags.folds is None:
        raise UsageError(
            f"--output {flags.output}: --train writes the predictions of --folds F there; add it"
        )


def _replaced_choice(flags, effort: str | None) -> str:
    """Return the remark on what replaces the choice of --effort, where it is given."""
    from ..train.asked import replacing

    if effort:
        return ""
    name = replacing(given_values(flags, vars(flags)))
    cause = f"--{name}" if name else "a .m model"
    return f"{cause} replaces the choice of --effort"


def _complete_choice(flags, chosen, result: dict, lost: list[NnError]) -> None:
    """Add to the flags of each chosen network those that all have; where a signal ended
    the choice, add its error to `lost`."""
    repeated = given_values(flags, ("seed", "dtype", "init", "loss")) | chosen.rules
    added = "".join(f" --{name} {value}" for name, value in repeated.items())
    for candidate in result["chosen"]:
        candidate["flags"] += added
    if chosen.stopped is not None:
        candidates = plural(result["tried"], "candidate")
        message = f"{chosen.stopped}: chosen from the {candidates} that had ended"
        lost.append(NnError(message, signal_code(chosen.stopped.signum)))


def _trained(flags, layers, effort: str | None, stop: StopRequest):
    """Read the data and train; returns (network, data, figures, what ends the
    observers, files that could not be written)."""
    from ..files.checkpoint import Checkpoint
    from ..train import train
    from ..train.asked import reason_against, training_for
    from ..train.fit import OF_FIT, training_data
    from ..train.going_on import begun
    from ..watch.observe import Observers

    # checked before data is read
    checkpoint = Checkpoint(flags.checkpoint, flags.checkpoint_every, flags.resume)
    began = time.perf_counter()
    network_settings = begun(
        keywords(flags, "network", "engine"),
        {"layers": flags.layers, **keywords(flags, *OF_FIT)},
    )
    ds = training_data(
        flags.dataset, None, layers, keywords(flags, "load"), network_settings
    )
    ds.is_left_out_logged = True  # by the first lines, which --quiet leaves out
    reading = (began, time.perf_counter())
    replaced = _replaced_choice(flags, effort)
    reason = reason_against(ds, effort, flags.effort)
    if reason:
        effort = None
        if not flags.quiet:
            log_line(f"one network of the usual layers: {reason}")
    is_chosen = effort is not None
    _check_predictions(flags, ds, is_chosen)
    settings = keywords(flags, "train")
    if not is_chosen:
        settings |= keywords(flags, "several")
    training = training_for(ds, effort, flags.layers, settings, network_settings)
    if not is_chosen:
        _check_text_model(flags, ds, training.net)
    observers = Observers(flags, lambda: training.net, reading, records=not is_chosen)
    callback = observers.with_callback(
        make_progress(console.about_training(ds), replaced, flags.quiet, flags.verbose)
    )
    lost: list[NnError] = []

    def train_on(net, ds, **options) -> dict:
        """Train; keep the error of a side file for the end."""
        try:
            return train(net, ds, **options, stop=stop)
        except SideFileError as error:  # a choice raises it after each candidate
            lost.clear()
            lost.append(error)
            return error.result

    try:
        net, result = training.run(train_on, callback=callback, checkpoint=checkpoint)
    except Stopped as stopped:
        raise unfinished(flags, training.net, checkpoint, stopped) from stopped
    if is_chosen:
        _complete_choice(flags, training, result, lost)
    finish = partial(
        observers.finish, result, partial(training.timed, observers.batches)
    )
    return net, ds, result, finish, lost


def _check_text_model(flags, ds, net) -> None:
    """Raise an error where --model is a file of text, which cannot hold the network."""
    from ..files.text_model import check_layers, check_plain, is_text

    if flags.model is not None and is_text(flags.model):
        check_layers(net.layers)
        check_plain(flags.model, ds, flags.number_embedding)
