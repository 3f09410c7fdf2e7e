"""The command `nn`: flags in, the Python API called, results out, one exit code.

Nothing heavy is imported before the flags are known to be right, so `--help` and wrong use answer at once.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from . import cluster, console
from .flags import parse, said
from .layers import parse as parse_layers
from .layers import to_spec
from .nn_aux import REFERENCE, TASKS
from .utils import (
    DataError,
    NnError,
    OutputError,
    Stopped,
    StopRequest,
    UsageError,
    atomic_file,
    check_writable,
)

log = logging.getLogger("nn")

HIDDEN = "60,10"  # of the network that nobody described: inputs,60,10,outputs

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

RUN_AGAIN = 75  # EX_TEMPFAIL: what a scheduler ended, and the same command goes on with
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code. argv: what follows the program's name (sys.argv's)."""
    argv = sys.argv[1:] if argv is None else argv
    _mend_streams()
    return cluster.end(*_outcome(argv))


def _outcome(argv: list[str]) -> tuple[int, str | None]:
    """The exit code of the command, and the line with which it fails."""
    try:
        flags = parse(argv)
        if flags is not None:
            _run(flags)
        sys.stdout.flush()
        return 0, None
    except BrokenPipeError:  # the reader of stdout has seen enough, as in `nn --info ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE, None
    except cluster.Told as told:
        return told.exit_code, None
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in argv:
            traceback.print_exc()
        line, code = _explain(error)
        return code, line


def _mend_streams() -> None:
    """Make stdout and stderr what print expects: there, and never failing at a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as in `nn ... 2>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _explain(error: BaseException) -> tuple[str, int]:
    """The last line of a failed run, and its exit code."""
    if isinstance(error, NnError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT", 128 + signal.SIGINT
    if isinstance(error, MemoryError):
        return (
            "out of memory: use smaller --layers, a smaller --batch_number or fewer rows",
            NnError.exit_code,
        )
    if isinstance(error, OSError):
        kind = OutputError if error.errno in CANNOT_WRITE else NnError
        return f"{error.filename or 'output'}: {error.strerror or error}", kind.exit_code
    return f"internal error: {type(error).__name__}: {error}; please report it with the output of --debug", 1


def _run(flags: SimpleNamespace) -> None:
    name = next(name for name in MODES if getattr(flags, name))
    mode = MODES[name]
    if flags.train:
        _join_ranks(flags)
    with _warnings_shown(flags.quiet):
        for flag in mode.needs:
            if getattr(flags, flag) is None:
                raise UsageError(f"--{name} needs --{flag} PATH")
        _check_reference(flags)
        mode.run(flags)
        expected = mode.reads | COMMON_FLAGS | {name, "configured"} | flags.configured
        for flag in said(flags, vars(flags)):  # at the end: wrong use prints nothing but its one line
            if flag not in expected:
                log.warning("--%s says nothing to --%s and was ignored", flag, name)


@contextlib.contextmanager
def _warnings_shown(quiet: bool) -> Iterator[None]:
    """The package's warnings go to stderr while a mode runs, and nowhere with --quiet."""
    handler = logging.NullHandler() if quiet else console.WarningLines()
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def _check_reference(flags) -> None:
    """--reference is one fixed arithmetic; a flag that asks for another is a misunderstanding."""
    for name, value in REFERENCE.items():
        given = getattr(flags, name)
        if flags.reference and given not in (None, value, "auto"):
            raise UsageError(
                f"--{name} {given} contradicts --reference, which means --{name} {value}; leave one out"
            )


def _join_ranks(flags) -> None:
    """Meet the other ranks of --distribute; those but rank 0 say and write nothing from now on."""
    found = cluster.launch()
    if not flags.distribute:
        if found and found.size > 1 and not flags.force:
            error = UsageError(
                f"{found.by} started {found.size} trainings, each of which would write --model: add "
                "--distribute mirrored to share the work, start one, or say --force if they are different ones"
            )
            raise error if found.rank == 0 else cluster.Told(str(error), error.exit_code)
        return
    if found is None:
        if flags.backend in ("seq", "omp"):
            cluster.expect_ranks()
        return
    team = cluster.join()
    given = said(flags, sorted(NETWORK_FLAGS | TRAIN_FLAGS | PART_FLAGS | {"layers", "task", "target"} - {"threads"}))
    team.agree(given, "give all ranks the same flags", "--{}")
    if team.rank:
        flags.quiet, flags.verbose, flags.json, flags.profile = True, False, False, False
        flags.trace = flags.history = flags.logdir = None


def _check_apart(read: str, written: str) -> None:
    """Nobody wants the file that is read to be replaced."""
    from .source import data_files

    for file in data_files(read) if os.path.exists(written) else ():
        if os.path.exists(file) and os.path.samefile(file, written):
            raise UsageError(f"{written} would be read and written; choose another file to write")


# ---------------------------------------------------------------- --train


def _check_written(flags) -> None:
    """None of the files that a training reads is to be replaced, and none is to be written twice."""
    written: dict[str, str] = {}
    for name, path in said(flags, ("model", "checkpoint", "trace", "history")).items():
        _check_apart(flags.dataset, path)
        other = written.setdefault(os.path.realpath(path), name)
        if other != name:
            raise UsageError(f"--{name} {path}: is --{other} too; choose another file")


def _train(flags) -> None:
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
        _print_json(result)
    elif not flags.quiet:
        console.training_report(result)
    if flags.profile and not flags.json:
        from .profile import report

        report(result["profile"])


def _trained(flags, layers, stop: StopRequest):
    """(network, figures, observers) after reading the data and training."""
    from .checkpoint import Checkpoint
    from .model_file import is_text
    from .nn import Network, check_text_format
    from .observe import Observers
    from .train import train

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
    from .ds import load

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


# ---------------------------------------------------------------- --test, --predict, --info


def _test(flags) -> None:
    """Test --model on --dataset, or on the rows that its training held out."""
    if flags.report:
        _check_report(flags.report, flags.model, flags.dataset)
    net = _load_network(flags)

    from .model_data import held_out, load_for
    from .test import test

    if flags.memory:
        result = _test_in_parts(flags, net)
        _tell_test(flags, net, result)
        return
    if flags.dataset:
        ds = load_for(net, flags.dataset, target=flags.target)
    else:
        ds = held_out(net, flags.model, whole=flags.reference, force=flags.force)
    _prepare(flags, net, ds, "rows" if flags.dataset or not net.holdout else "held-out rows")
    result = test(net, ds, threshold=flags.threshold)
    if flags.report:
        from . import report

        report.write(flags.report, report.of_test(result, net, ds, flags.model))
    _tell_test(flags, net, result)


def _test_in_parts(flags, net) -> dict:
    """The figures of --test, the rows read while they are used."""
    for flag in ("report", "scaling"):
        if getattr(flags, flag):
            raise UsageError(f"--{flag} needs all rows in memory; leave out --memory")

    from .model_data import held_out_parts, parts_for
    from .parts import check_answers
    from .test import test_blocks

    if flags.dataset:
        ds, rows, blocks = parts_for(net, flags.dataset, target=flags.target, memory=flags.memory)
    else:
        ds, rows, blocks = held_out_parts(
            net, flags.model, whole=flags.reference, force=flags.force, memory=flags.memory
        )
    check_answers(net, flags.memory, rows)
    if not flags.quiet:
        engine = net.engine
        about = f"{console.about(ds)}; tested in parts: {rows} rows"
        console.say_run(about, engine.describe(), engine.threads, net.dtype, net.seed)
    return test_blocks(net, blocks, threshold=flags.threshold)


def _tell_test(flags, net, result: dict) -> None:
    if flags.json:
        _print_json(result)
    else:
        console.test_report(result, net.classes, net.targets)


def _predict(flags) -> None:
    """Write row, prediction and, if known, truth of every row of --dataset as CSV."""
    to_file = flags.output not in (None, "-")
    if to_file:
        _check_apart(flags.dataset, flags.output)
        _check_apart(flags.model, flags.output)
        check_writable(flags.output)
    net = _load_network(flags)

    from .model_data import blocks_for, load_for
    from .predictions import prediction_table

    if flags.scaling:  # by the whole file's constants
        blocks = [load_for(net, flags.dataset, target=flags.target, labelled=False)]
        _fit_scaling(flags, net, blocks[0])
    else:
        blocks = blocks_for(net, flags.dataset, target=flags.target, labelled=False, memory=flags.memory)
    if not flags.quiet:
        about = f"{os.path.basename(flags.dataset)}: predicted by {flags.model}"
        console.say_run(about, net.engine.describe(), net.engine.threads, net.dtype, net.seed)
    lines = prediction_table(net, blocks, flags.threshold)
    if to_file:
        with atomic_file(flags.output) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            csv.writer(text, lineterminator="\n").writerows(lines)
            text.flush()
            text.detach()
    else:
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)


def _info(flags) -> None:
    """Show what is in --model, or the network that --layers describes."""
    if flags.model is not None:
        net = _load_network(flags)
        layers, facts = net.layers, net.metadata()
    elif flags.layers is not None:
        output, _ = TASKS.get(flags.task, TASKS["regression"])
        net, layers = None, parse_layers(flags.layers, flags.activation or "relu", output)
        facts = {"layers": to_spec(layers)}
    else:
        raise UsageError("--info needs --model PATH, or --layers SPEC of a network to be")
    if not flags.json:
        console.network_table(layers)
        if net is not None:
            console.model_report(net, flags.model)
        return
    network = [
        {
            "layer": layer.item or layer.kind,
            "activation": layer.activation,
            "output": list(layer.out_shape),
            "parameters": layer.parameters,
        }
        for layer in layers
    ]
    parameters = sum(layer.parameters for layer in layers)
    _print_json({"model": flags.model, "parameters": parameters, "network": network, **facts})


def _bench(flags) -> None:
    """Time the benchmark cases on every backend, or on --backend."""
    from .bench import bench, report

    names = flags.case.split(",") if flags.case else []
    say = None if flags.quiet else console.say
    result = bench(names, backend=flags.backend, threads=flags.threads, say=say)
    if flags.json:
        _print_json(result)
    else:
        report(result)


def _sweep(flags) -> None:
    """Run the entries of a plan that --output does not hold yet."""
    from . import sweep

    check_writable(flags.output)
    say = None if flags.quiet else console.say
    if flags.report:
        _check_report(flags.report, flags.sweep, flags.output)
    rows = sweep.sweep(flags.sweep, flags.output, flags.index, say)
    if flags.report:
        from . import plot, report

        report.write(flags.report, report.of_results(rows, plot.of_results(rows)))
    if flags.json:
        failed = sum(row["status"] != sweep.OK for row in rows)
        _print_json({"results": flags.output, "rows": len(rows), "failed": failed})
    elif not flags.quiet:
        sweep.report(rows)


def _plot(flags) -> None:
    """Draw the results of --sweep, or the losses and errors of a model, into the folder --output."""
    from . import model_file, plot, report, sweep

    plot.check_matplotlib()
    if flags.report:
        _check_report(flags.report)
    if model_file.is_model(flags.plot):
        flags.model = flags.plot
        net = _load_network(flags)
        pictures = plot.of_model(net, _plotted_rows(flags, net))
        page = report.of_model(net, flags.plot, pictures)
    else:
        rows = sweep.collect(flags.plot)
        pictures = plot.of_results(rows)
        if not pictures:
            failed = sum(row["status"] != sweep.OK for row in rows)
            found = f"{len(rows)} results{f', {failed} of them failed' if failed else ''}"
            raise UsageError(f"nothing to draw in {flags.plot}: {found}; run more of the plan")
        page = report.of_results(rows, pictures)
    files = plot.save(pictures, flags.output)
    if flags.report:
        report.write(flags.report, page)
        files.append(flags.report)
    if flags.json:
        _print_json({"files": files})
    else:
        print("\n".join(map(console.printable, files)))


def _plotted_rows(flags, net):
    """What the errors of a regression are drawn of: --dataset, or the rows that its training held out."""
    from .model_data import held_out, load_for

    if flags.dataset:
        return load_for(net, flags.dataset, target=flags.target)
    if net.task != "regression" or not net.holdout or not net.dataset:
        return None
    return held_out(net, flags.model, force=flags.force)


def _check_report(path: str, *others: str | None) -> None:
    """No test and no sweep is to be lost to a page that cannot be written, and none of the other files to the page."""
    from .plot import check_matplotlib

    for other in filter(None, others):
        if os.path.realpath(other) == os.path.realpath(path):
            raise UsageError(f"--report {path} would replace {other}; choose another file")
        _check_apart(other, path)
    check_matplotlib()
    check_writable(path)


def _load_network(flags):
    from .model_file import is_text
    from .nn import Network

    if "scaling" in flags.configured and not is_text(flags.model):
        flags.scaling = None
    if flags.scaling and not is_text(flags.model):
        raise UsageError(
            "--scaling: the model has that of its training (only a .m file has not); leave it out"
        )
    given = said(flags, ENGINE_FLAGS)
    if flags.reference:
        given |= {name: REFERENCE[name] for name in ("backend", "dtype")}
    return Network.load(flags.model, **given)


def _prepare(flags, net, ds, rows: str = "rows") -> None:
    """What testing does between reading and computing. rows: what to call those of `ds`."""
    if flags.scaling:
        _fit_scaling(flags, net, ds)
    if not flags.quiet:
        engine = net.engine
        console.say_run(console.about(ds, rows), engine.describe(), engine.threads, net.dtype, net.seed)


def _fit_scaling(flags, net, ds) -> None:
    """Scale by the file's own constants, as the original did with every file; its `.m` files hold none."""
    from .scaling import Scaling

    net.scaling = Scaling.fit(flags.scaling, ds.x, columns=ds.columns, strict=flags.reference)


def _print_json(result: dict) -> None:
    print(json.dumps(result, allow_nan=False))


# ---------------------------------------------------------------- modes


@dataclass(frozen=True)
class Mode:
    """What a mode does, the flags it cannot do without, and those that it reads beside the common ones."""

    run: Callable[[SimpleNamespace], None]
    needs: tuple[str, ...]
    reads: set[str]


MODES = {
    "train": Mode(
        _train,
        ("dataset", "model"),
        DATA_FLAGS | PART_FLAGS | {"layers", "task"} | NETWORK_FLAGS | TRAIN_FLAGS | WATCH_FLAGS | CHECKPOINT_FLAGS,
    ),
    "test": Mode(_test, ("model",), USE_FLAGS | {"report"}),
    "predict": Mode(_predict, ("model", "dataset"), USE_FLAGS | {"output"}),
    "sweep": Mode(_sweep, ("output",), {"output", "index", "report"}),
    "plot": Mode(_plot, ("output",), DATA_FLAGS | {"output", "report"} | ENGINE_FLAGS),
    "info": Mode(_info, (), {"model", "layers", "task", "activation"} | ENGINE_FLAGS),
    "bench": Mode(_bench, (), {"case", "backend", "threads"}),
}
