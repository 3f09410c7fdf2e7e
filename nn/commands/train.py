"""--train: read the data, train, write the model; what a signal leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from .. import cluster, console
from ..flags import said
from ..layers import parse as parse_layers
from ..nn_aux import REFERENCE
from ..utils import DataError, NnError, Stopped, StopRequest, UsageError, check_writable
from .common import CHECKPOINT_FLAGS, NETWORK_FLAGS, PART_FLAGS, TRAIN_FLAGS, check_apart, print_json

HIDDEN = "60,10"  # of the network that nobody described: inputs,60,10,outputs
RUN_AGAIN = 75  # EX_TEMPFAIL: what a scheduler ended, and the same command goes on with


def train_command(flags) -> None:
    """Train on --dataset, write --model, tell the figures."""
    _check_written(flags)
    if cluster.current().rank == 0:
        check_writable(flags.model)
    layers = _parsed_layers(flags)  # a mistake in --layers shows before the data is read

    stop = StopRequest()
    with _signals_to(stop):
        try:
            net, result, observers = _trained(flags, layers, stop)
        except KeyboardInterrupt:
            raise _stopped(flags, Stopped(stop.signum), "training had not begun") from None
        if cluster.current().rank == 0:
            net.export(flags.model)
    result["model"] = flags.model
    observers.finish(result, net.config["batch_number"])
    if flags.json:
        print_json(result)
    elif not flags.quiet:
        console.training_report(result)
    if flags.profile and not flags.json:
        from ..profile import report

        report(result["profile"])


def _check_written(flags) -> None:
    """None of the files that a training reads is to be replaced, and none is to be written twice."""
    written: dict[str, str] = {}
    for name, path in said(flags, ("model", "checkpoint", "trace", "history")).items():
        check_apart(flags.dataset, path)
        other = written.setdefault(os.path.realpath(path), name)
        if other != name:
            raise UsageError(f"--{name} {path}: is --{other} too; choose another file")


def _trained(flags, layers, stop: StopRequest):
    """(network, figures, observers) after reading the data and training."""
    from ..checkpoint import Checkpoint
    from ..model_file import is_text
    from ..nn import Network, check_text_format
    from ..observe import Observers
    from ..train import train

    Checkpoint(flags.checkpoint, flags.checkpoint_every, flags.resume)  # what is wrong shows before data is read
    began = time.perf_counter()
    ds = _load_training_data(flags, layers)
    reading = (began, time.perf_counter())
    net = Network(flags.layers or _usual_layers(ds), ds.task, **said(flags, NETWORK_FLAGS))
    if is_text(flags.model):
        check_text_format(net)
    observers = Observers(flags, net, reading)
    watcher = observers.beside(console.progress(console.about(ds), flags.quiet, flags.verbose))
    given = said(flags, TRAIN_FLAGS | CHECKPOINT_FLAGS)
    try:
        return net, train(net, ds, **given, progress=watcher, stop=stop), observers
    except Stopped as stopped:
        kept = f"the training as it stands is in {flags.checkpoint}, --resume auto goes on from it"
        if flags.checkpoint is None and cluster.current().rank == 0:
            kept = _keep_part(net, flags.model)
        cluster.current().gather(None)  # nobody leaves while rank 0 writes
        raise _stopped(flags, stopped, kept) from stopped


def _parsed_layers(flags):
    """The layers of --layers, before the task is known; None where it was not given."""
    if flags.layers is None:
        return None
    if not flags.reference:
        return parse_layers(flags.layers, flags.activation or "relu")
    layers = parse_layers(flags.layers, "sigmoid", "sigmoid")
    for layer in layers:
        if (layer.kind, layer.activation) != ("dense", "sigmoid"):
            found = f"{layer.item}:{layer.activation}" if layer.weight_shape else layer.item or layer.kind
            raise UsageError(f"--layers {found} contradicts --reference, which has dense sigmoid layers only")
    return layers


def _load_training_data(flags, layers):
    from ..ds import load

    given = said(flags, ("target", "task", "dtype", *PART_FLAGS))
    if flags.reference:
        given["dtype"] = REFERENCE["dtype"]
    if any(name in given for name in PART_FLAGS):
        given |= said(flags, ("holdout", "seed"))
    if layers is None:
        return load(flags.dataset, **given)
    shape = layers[0].in_shape
    inputs = shape if shape[1:] != (1, 1) else shape[0]
    try:
        return load(flags.dataset, inputs=inputs, outputs=layers[-1].outputs, **given)
    except DataError as error:
        load(flags.dataset, **given)  # raises what is wrong with the data themselves; else --layers is
        raise UsageError(f"--layers {flags.layers}: {error}") from error


def _usual_layers(ds) -> str:
    return f"{'x'.join(map(str, ds.row_shape))},{HIDDEN},{ds.outputs}"


@contextlib.contextmanager
def _signals_to(stop) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGUSR1 asks `stop`, a second one leaves at once."""

    def handle(signum, _frame):
        if stop.signum is not None:
            console.show_cursor()
            os._exit(_signal_code(signum))
        stop.request(signum)
        if not stop.answered:  # nobody looks at it while the data is read, and nothing is lost by leaving
            raise KeyboardInterrupt

    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
    heard = [s for s in signals if signal.getsignal(s) is not signal.SIG_IGN]  # the caller may not want them
    previous = {s: signal.signal(s, handle) for s in heard}
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def _signal_code(signum: int) -> int:
    """130 for Ctrl-C, 143 for the signals of a scheduler."""
    return 128 + (signal.SIGINT if signum == signal.SIGINT else signal.SIGTERM)


def _keep_part(net, model: str) -> str:
    """Write the network as it stands beside the model; what has become of it."""
    part = f"{model}.part"
    try:
        net.export(part)
        return f"the network as it stands is in {part}"
    except NnError as error:
        return f"the network as it stands is lost ({error})"


def _stopped(flags, stopped: Stopped, kept: str) -> NnError:
    """The error to end with after a signal. kept: what has become of what was learned."""
    untouched = "is as it was before" if os.path.exists(flags.model) else "was not written"
    failure = NnError(f"{stopped}: {kept}, {flags.model} {untouched}")
    failure.exit_code = _signal_code(stopped.signum)
    if flags.checkpoint is not None and stopped.signum != signal.SIGINT:
        failure.exit_code = RUN_AGAIN
    return failure
