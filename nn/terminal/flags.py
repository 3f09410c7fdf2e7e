"""The flags of the command line: one table from which the parser, the help and the checks are made."""

from __future__ import annotations

import difflib
import inspect
import math
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from .backends import BACKENDS, DISTRIBUTIONS, device_numbers
from .nn_aux import (
    ACTIVATIONS,
    DEFAULT_SCHEDULE,
    DTYPES,
    INITIALIZERS,
    LEARNING_RATES,
    LOSSES,
    OPTIMIZERS,
    SCALING_ALIASES,
    SCALINGS,
    SCHEDULES,
    TASKS,
    WEIGHT_DECAYS,
)
from .utils import UsageError

LARGEST = 2**31 - 1  # what the core counts in


# ---------------------------------------------------------------- what values a flag may have


@dataclass(frozen=True)
class Value:
    """A kind of value: what to make of its text, which values are right, and how to say so."""

    read: Callable[[str], Any]  # raises ValueError
    holds: Callable[[Any], bool]
    expected: str

    def __call__(self, flag: str, text: str):
        """The value that `text` stands for. Raises UsageError, which names the flag."""
        try:
            value = self.read(text)
        except (ValueError, OverflowError):  # a whole number made of inf
            value = None
        if value is None or not self.holds(value):
            raise UsageError(f"{flag} {text}: expected {self.expected}")
        return value


def _whole(low: int, high: int = LARGEST) -> Value:
    return Value(int, lambda value: low <= value <= high, f"a whole number from {low} to {high}")


def _one_of(names: Iterable[str]) -> Value:
    names = tuple(names)
    return Value(
        lambda text: SCALING_ALIASES.get(text, text),
        lambda value: value in names,
        " or ".join([", ".join(names[:-1]), names[-1]]),
    )


def _bytes(text: str) -> int:
    """The bytes that a size such as 2G, 500M or 4096 means; K, M, G, T count in 1024s."""
    number = text.upper().removesuffix("B").removesuffix("I")
    power = "KMGT".find(number[-1:]) + 1 if number[-1:] else 0
    return int(float(number[:-1] if power else number) * 1024**power)


BYTES = Value(_bytes, lambda value: value > 0, "a size in bytes such as 2G or 500M")
POSITIVE = Value(float, lambda value: 0 < value < math.inf, "a finite number above 0")
NOT_NEGATIVE = Value(float, lambda value: 0 <= value < math.inf, "a finite number, 0 or above")
SHARE = Value(float, lambda value: 0 <= value < 1, "a number from 0 to below 1")
FINITE = Value(float, math.isfinite, "a finite number")
GPUS = Value(device_numbers, bool, "how many GPUs (2), or their numbers (0,2, or 2, for one alone)")
TEXT = Value(str, lambda value: value != "" and not value.startswith("--"), "a value that is no flag")


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Flag:
    """One flag: its Python name (dashes pass for underscores), the group it is listed in, its help."""

    name: str
    group: str
    help: str
    value: Value | None = None  # None: a switch, which has none
    metavar: str | None = None
    short: str | None = None

    @property
    def long(self) -> str:
        return f"--{self.name}"


def _switch(name, group, help, short=None) -> Flag:
    return Flag(name, group, help, short=short)


def _name_of(name, group, names, help) -> Flag:
    """A flag whose value is one of the names, which its help lists."""
    return Flag(name, group, f"{', '.join(names)} ({help})", _one_of(names), "NAME")


MODE, DATA, NETWORK, TRAINING, RUN = "Mode, exactly one", "Data and model", "Network", "Training", "Running"
WATCH, KEEP = "Watching a training", "Long trainings"

_RATES, _DECAYS = (
    ", ".join(f"{value:g} for {name}" for name, value in values.items())
    for values in (LEARNING_RATES, WEIGHT_DECAYS)
)
_TASK_OUTPUTS = ", ".join(f"{output} for {task}" for task, (output, _) in TASKS.items())
_TASK_LOSSES = ", ".join(f"{loss} for {task}" for task, (_, loss) in TASKS.items())

FLAGS = [
    _switch("train", MODE, "Train a network on --dataset and write it to --model."),
    _switch("test", MODE, "Test --model on --dataset, or on the rows that its training held out."),
    _switch("predict", MODE, "Write the predictions of --model for the rows of --dataset as CSV."),
    _switch("info", MODE, "Show what is in --model, or the network that --layers describes."),
    _switch("bench", MODE, "Time training, predicting and products on every backend of this machine."),
    Flag("sweep", MODE, "Train and time the networks of a plan, a line each to --output.", TEXT, "PLAN"),
    Flag("plot", MODE, "Draw the results of --sweep, or a model's losses, to --output.", TEXT, "PATH"),
    Flag(
        "dataset",
        DATA,
        "CSV or NPY tables (several: 'a.csv,b.csv', 'day*.csv' or their folder), IDX, CIFAR-10 (CSV and these also "
        ".gz), NPZ, or a folder of class folders.",
        TEXT,
        "PATH",
    ),
    Flag("model", DATA, "Model file, in the original program's text format if it ends in .m.", TEXT, "PATH"),
    Flag("target", DATA, "Target columns, with commas; from 0, negative from the end (the last).", TEXT, "NAME/INDEX"),
    _name_of("task", DATA, ["auto", *TASKS], "auto, by the target's values"),
    _name_of("scaling", DATA, SCALINGS, "standardization; for images pixel"),
    Flag("holdout", DATA, "Share of the rows that is kept from training (0.2).", SHARE, "SHARE"),
    Flag("threshold", DATA, "Score from which a row counts as class 1 (0.5).", FINITE, "SCORE"),
    Flag(
        "output",
        DATA,
        "Where --predict (-, stdout), --sweep and --plot (a folder) write.",
        TEXT,
        "PATH",
        short="-o",
    ),
    Flag("report", DATA, "Write tables and pictures of --test, --sweep or --plot as one page.", TEXT, "FILE"),
    Flag(
        "layers",
        NETWORK,
        "Inputs, layers, outputs: 30,60,10,1 or 30,60:tanh,1 (inputs,60,10,outputs).",
        TEXT,
        "SPEC",
    ),
    _name_of(
        "activation",
        NETWORK,
        [name for name in ACTIVATIONS if name != "softmax"],
        f"relu; of each layer that names none in --layers, but the last: {_TASK_OUTPUTS}",
    ),
    _name_of("loss", NETWORK, LOSSES, _TASK_LOSSES),
    _name_of("init", NETWORK, INITIALIZERS, "he before relu and lrelu, else glorot"),
    Flag("epochs", TRAINING, "Passes over the training rows (20).", _whole(1), "N"),
    Flag("batch_number", TRAINING, "Rows in a batch (32).", _whole(1), "N"),
    Flag("learning_rate", TRAINING, f"Step size ({_RATES}).", POSITIVE, "RATE"),
    _name_of("optimizer", TRAINING, OPTIMIZERS, "adam"),
    Flag("momentum", TRAINING, "Of sgd (0).", SHARE, "SHARE"),
    Flag(
        "weight_decay",
        TRAINING,
        f"Decoupled from the gradient, not on biases ({_DECAYS}).",
        NOT_NEGATIVE,
        "RATE",
    ),
    _name_of("schedule", TRAINING, SCHEDULES, f"{DEFAULT_SCHEDULE}; of the learning rate"),
    Flag(
        "seed",
        TRAINING,
        "Of initial weights, shuffles and held-out rows (0).",
        _whole(0, 2**32 - 1),
        "N",
        "-s",
    ),
    _switch("reference", TRAINING, "Compute bit for bit as the original C program did."),
    _switch("profile", WATCH, "Tell the time of each layer, forward and backward, in a batch."),
    Flag("trace", WATCH, "Write what happened when, for chrome://tracing or ui.perfetto.dev.", TEXT, "FILE"),
    Flag("trace_batches", WATCH, "Batches that --trace shows layer by layer (20).", _whole(1, 100_000), "N"),
    Flag("history", WATCH, "Write the losses as CSV, a line an epoch.", TEXT, "FILE"),
    Flag("logdir", WATCH, "Write losses, weights and the graph for TensorBoard.", TEXT, "DIR"),
    Flag("checkpoint", KEEP, "File to keep the whole state in, to go on from.", TEXT, "FILE"),
    Flag("checkpoint_every", KEEP, "Epochs between two checkpoints, at least a second (1).", _whole(1), "N"),
    Flag("resume", KEEP, "Go on from this file; auto: from --checkpoint if it is there.", TEXT, "auto/FILE"),
    Flag("index", RUN, "Of --sweep: run this entry only, counted from 0 (job arrays).", _whole(0), "N"),
    Flag("case", RUN, "Cases of --bench: names or beginnings of names, with commas (all).", TEXT, "NAME"),
    _name_of("backend", RUN, BACKENDS, "auto"),
    Flag("threads", RUN, "Threads (the cores this process may use).", _whole(1, 1024), "N"),
    Flag("gpus", RUN, "GPUs: how many (2), or which: 0,2, or 2, for one alone.", GPUS, "N/LIST"),
    _name_of("distribute", RUN, DISTRIBUTIONS, "mirrored; where the parameters are, of several GPUs or nodes"),
    _switch("tf32", RUN, "Let a GPU take float32 products with 10 bits of mantissa: faster, less exact."),
    Flag("window", TRAINING, "Rows that are in memory and shuffled together (all, or by --memory).", _whole(1), "N"),
    Flag("memory", RUN, "Read data in parts, so that the program stays within this (2G, 500M).", BYTES, "SIZE"),
    _name_of("dtype", RUN, DTYPES, "float32"),
    _switch("verbose", RUN, "Say more: on a terminal a line an epoch too.", "-v"),
    _switch("quiet", RUN, "Say nothing but results and errors.", "-q"),
    Flag("config", RUN, "JSON or TOML file with flags by their names; the command line wins.", TEXT, "FILE"),
    _switch("json", RUN, "Print the result as one JSON object."),
    _switch("force", RUN, "Go on where nn would otherwise refuse."),
    _switch("debug", RUN, "Show the traceback of a failure."),
]
MODES = [flag.name for flag in FLAGS if flag.group == MODE]


# ---------------------------------------------------------------- parsing

# Wherever this typer keeps its click: a package of its own, or inside typer.
_OptionError = typer.BadParameter.__bases__[0]


def parse(argv: list[str]) -> SimpleNamespace | None:
    """The flags as attributes, None or False where not given, values checked. None after --help, --version.

    Raises UsageError whose line names the flag.
    """
    try:
        given = _command().main(args=argv, prog_name="nn", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _OptionError as error:
        raise UsageError(_explanation(error)) from error
    if given == 128 + signal.SIGINT:  # what newer typers make of Ctrl-C, with which they return
        raise KeyboardInterrupt
    if not isinstance(given, SimpleNamespace):
        return None
    for flag in FLAGS:
        text = getattr(given, flag.name)
        if flag.value is not None and text is not None:
            setattr(given, flag.name, flag.value(flag.long, text))
    given.configured = set()
    if given.config is not None:
        from .config import apply_config

        apply_config(given, FLAGS, MODES)
    _check_mode(given)
    return given


def said(given: SimpleNamespace, names: Iterable[str]) -> dict:
    """Those of the named flags that were given, with their values."""
    values = {name: getattr(given, name) for name in names}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def _command():
    """The typer command made from the table."""

    def nn(context, **values):
        for word in context.args:
            raise UsageError(f"unexpected argument {word}{_suggestion('--' + word)}")
        return SimpleNamespace(**values)

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *map(_parameter, FLAGS)]
    version = typer.Option(
        "--version",
        help="Show the version.",
        metavar=" ",
        rich_help_panel=MODE,
        is_eager=True,
        callback=_print_version,
    )
    parameters.append(
        inspect.Parameter(
            "version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, version]
        )
    )
    nn.__signature__ = inspect.Signature(parameters)
    nn.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    nn.__doc__ = """Train and test neural networks, fast, with the same results everywhere.

    Example: nn --train --dataset CC.csv --model m.bin && nn --test --model m.bin
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(
        context_settings={
            "allow_extra_args": True,
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": lambda name: name.replace("-", "_"),  # --batch-number is --batch_number
        }
    )(nn)
    return typer.main.get_command(app)


def _parameter(flag: Flag) -> inspect.Parameter:
    option = typer.Option(
        *filter(None, [flag.short, flag.long]),
        help=flag.help,
        metavar=flag.metavar or " ",
        rich_help_panel=flag.group,
        show_default=False,
    )
    kind, default = (bool, False) if flag.value is None else (str | None, None)
    return inspect.Parameter(
        flag.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"nn {__version__}")
        raise typer.Exit()


def _explanation(error) -> str:
    """One line for what the parser found wrong."""
    message = error.message.rstrip(".")
    if hasattr(error, "possibilities"):  # no such option
        return f"no such flag {error.option_name}{_suggestion(error.option_name)}"
    return message[:1].lower() + message[1:]


def _suggestion(name: str) -> str:
    known = [flag.long for flag in FLAGS] + ["--help", "--version"]
    close = [flag for flag in known if flag.startswith(name)] or difflib.get_close_matches(name, known, 1)
    return f": did you mean {close[0]}?" if close else "; nn --help lists all flags"


def _check_mode(given: SimpleNamespace) -> None:
    modes = [f"--{mode}" for mode in MODES if getattr(given, mode)]
    everything = ", ".join(f"--{mode}" for mode in MODES)
    if not modes:
        raise UsageError(f"say what to do: one of {everything}; nn --help shows all flags")
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)}: only one of {everything} at a time")
    if given.quiet and given.verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave one out")
