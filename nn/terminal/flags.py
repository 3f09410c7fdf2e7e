"""The flags of the command line: one table from which the parser, the help and the checks are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ..backends import BACKENDS, DISTRIBUTIONS, device_numbers
from ..layers import LARGEST
from ..nn_aux import (
    ACTIVATIONS,
    CALIBRATIONS,
    DEFAULT_SCHEDULE,
    DEFAULTS,
    DTYPES,
    EFFORTS,
    INITIALIZERS,
    LEARNING_RATES,
    LOSSES,
    MONITORS,
    NUMBER_EMBEDDINGS,
    OPTIMIZERS,
    SCALING_ALIASES,
    SCALINGS,
    SCHEDULES,
    TASKS,
    WEIGHT_DECAYS,
    is_class_weight,
    is_number_embedding,
    threshold_rules,
    threshold_value,
    validation_value,
)
from ..utils import UsageError

MOST_NETWORKS = 100_000  # of a model


# ---------------------------------------------------------------- what values a flag may have


@dataclass(frozen=True)
class Value:
    """A kind of value: how to read its text, which values are allowed, and the words for them."""

    read: Callable[[str], Any]  # raises ValueError
    holds: Callable[[Any], bool]
    expected: str
    names: tuple[str, ...] = ()  # all values, where they are names

    def __call__(self, flag: str, text: str):
        """Return the value that `text` stands for. Raises UsageError, which names the flag."""
        try:
            value = self.read(text)
        except (ValueError, OverflowError):  # a whole number made of inf
            value = None
        if value is None or not self.holds(value):
            raise UsageError(f"{flag} {text}: expected {self.expected}")
        return value


def _whole(low: int, high: int = LARGEST) -> Value:
    return Value(int, lambda value: low <= value <= high, f"a whole number from {low} to {high}")


def _listed(names: Sequence[str], last: str) -> str:
    """Return names with commas between them, and with the word `last` before the last one."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _one_of(names: Iterable[str]) -> Value:
    names = tuple(names)
    return Value(
        lambda text: SCALING_ALIASES.get(text, text),
        lambda value: value in names,
        _listed(names, "or"),
        names,
    )


def _bytes(text: str) -> int:
    """Return the bytes that a size such as 2G, 500M or 4096 means; K, M, G, T count in 1024s."""
    number = text.upper().removesuffix("B").removesuffix("I")
    power = "KMGT".find(number[-1:]) + 1 if number[-1:] else 0
    return int(float(number[:-1] if power else number) * 1024**power)


BYTES = Value(_bytes, lambda value: value > 0, "a size in bytes such as 2G or 500M")
POSITIVE = Value(float, lambda value: 0 < value < math.inf, "a finite number above 0")
NOT_NEGATIVE = Value(float, lambda value: 0 <= value < math.inf, "a finite number, 0 or above")
SHARE = Value(float, lambda value: 0 <= value < 1, "a number from 0 to below 1")
VALIDATION = Value(validation_value, bool, "a share above 0 and below 1, or a file")
CLASS_WEIGHT = Value(str, is_class_weight, "none, balanced, or a number of at least 0 for each class, 1,10")
NUMBER_EMBEDDING = Value(str, is_number_embedding, NUMBER_EMBEDDINGS)
THRESHOLD = Value(threshold_value, lambda value: True, f"a finite number, {threshold_rules()}")
GPUS = Value(device_numbers, bool, "how many GPUs (2), or their numbers (0,2, or 2, for one alone)")
TEXT = Value(str, lambda value: value != "" and not value.startswith("--"), "a value that is no flag")


# ---------------------------------------------------------------- the table

# The modes that read a flag, as sets of their names.
TRAIN = frozenset({"train"})
USE = frozenset({"train", "test", "predict"})
MODEL = USE | {"plot"}  # reads a data set
ENGINE = MODEL | {"info"}  # makes an engine
EVERY = frozenset({"train", "test", "predict", "info", "export", "bench", "sweep", "plot"})


@dataclass(frozen=True)
class Flag:
    """One flag: its Python name (dashes pass for underscores), the group it is listed in, its help.

    modes: the modes that read it. keyword_of: what takes it as a keyword of the same name: load (data), network,
    engine, train or checkpoint; "" for a flag that commands read themselves.
    """

    name: str
    group: str
    help: str
    value: Value | None = None  # None: a switch, which has none
    metavar: str | None = None
    short: str | None = None
    alias: str | None = None  # another name
    modes: frozenset[str] = TRAIN
    keyword_of: str = ""

    @property
    def long(self) -> str:
        return f"--{self.name}"

    @property
    def names(self) -> list[str]:
        """All spellings, the short one first."""
        return [*filter(None, [self.short]), self.long, *([f"--{self.alias}"] if self.alias else [])]


def _mode(name, help) -> Flag:
    """Return a mode's switch."""
    return Flag(name, MODE, help, modes=frozenset({name}))


def _name_of(name, group, names, help, **more) -> Flag:
    """Return a flag whose value is one of the names, which its help lists."""
    return Flag(name, group, f"{', '.join(names)} ({help})", _one_of(names), "NAME", **more)


MODE, DATA, NETWORK, TRAINING, RUN = "Mode, exactly one", "Data and model", "Network", "Training", "Running"
TABLE = "Columns of a table"
WATCH, KEEP = "Watching a training", "Long trainings"

_RATES, _DECAYS = (
    ", ".join(f"{value:g} for {name}" for name, value in values.items()) for values in (LEARNING_RATES, WEIGHT_DECAYS)
)
_HE_LAYERS = _listed([name for name, activation in ACTIVATIONS.items() if activation.init == "he"], "and")
_TASK_OUTPUTS = ", ".join(f"{output} for {task}" for task, (output, _) in TASKS.items())
_TASK_LOSSES = ", ".join(f"{loss} for {task}" for task, (_, loss) in TASKS.items())
_USUAL = {name: f"{value:g}" for name, value in DEFAULTS.items()}  # as the help has them

FLAGS = [
    _mode("train", "Train a network on --dataset and write it to --model."),
    _mode("test", "Test --model on --dataset, or on the rows that its training held out."),
    _mode("predict", "Write the predictions of --model for the rows of --dataset as CSV."),
    _mode("info", "Show the contents of --model, or the network that --layers describes."),
    _mode("export", "Write --model for other programs to --output: ONNX (.onnx) or C (.c)."),
    _mode("bench", "Time training, prediction and matrix products on every backend of this machine."),
    Flag(
        "sweep", MODE, "Train and time the networks of a plan, one line each to --output.", TEXT, "PLAN",
        modes=frozenset({"sweep"}),
    ),
    Flag(
        "plot", MODE, "Draw the results of --sweep, --trials, or a model's losses, to --output.", TEXT, "PATH",
        modes=frozenset({"plot"}),
    ),
    Flag(
        "dataset", DATA,
        "CSV, Parquet, Arrow, ORC, JSON lines or NPY tables (several: 'a.csv,b.csv', 'day*.csv' or their folder; "
        "elsewhere: a URI; - is standard input), SQLite (data.db:table), IDX, CIFAR-10 (CSV, JSON, NPY and these also "
        ".gz), NPZ, or a folder of class folders.",
        TEXT, "PATH", modes=MODEL,
    ),
    Flag(
        "model", DATA, "Model file, in the original program's text format if it ends in .m.", TEXT, "PATH", "-m",
        modes=ENGINE | {"export"},
    ),
    Flag(
        "target", DATA, "Target columns, separated by commas; from 0, negative from the end (the last).", TEXT,
        "NAME/INDEX", modes=MODEL, keyword_of="load",
    ),
    _name_of(
        "task", DATA, ["auto", *TASKS], "auto, by the target's values", modes=TRAIN | {"info"}, keyword_of="load"
    ),
    Flag(
        "categories", TABLE, "Columns that are categories: names or indices, separated by commas.", TEXT, "COLS",
        keyword_of="load",
    ),
    Flag("numbers", TABLE, "Columns that are numbers, or inputs although they look like an id.", TEXT, "COLS",
         keyword_of="load"),
    Flag("dates", TABLE, "Columns that are dates; COL=%d.%m.%Y says how they are written.", TEXT, "COLS",
         keyword_of="load"),
    Flag("ordered", TABLE, "Columns of ordered categories: size=small<medium<large.", TEXT, "COL=A<B",
         keyword_of="load"),
    Flag("drop", TABLE, "Columns that are no inputs.", TEXT, "COLS", keyword_of="load"),
    Flag("id", TABLE, "Columns that are no inputs, and are written beside predictions.", TEXT, "COLS",
         keyword_of="load"),
    Flag("weight", TABLE, "Column with the weight of each row: 2 counts as the row twice.", TEXT, "COL",
         keyword_of="load"),
    Flag("group", TABLE, "Column of groups, which no split divides.", TEXT, "COL", keyword_of="load"),
    Flag("time", TABLE, "Column of times: the last rows are held out.", TEXT, "COL", keyword_of="load"),
    Flag(
        "missing", TABLE, "More words that stand for a gap, beside an empty field, ?, NA, nan, null and None.", TEXT,
        "WORDS", keyword_of="load",
    ),
    Flag("strict", TABLE, "Refuse odd words among numbers and dates, which are gaps otherwise.", keyword_of="load"),
    Flag(
        "number_embedding", TABLE,
        "Inputs added to each column of numbers: linear (none), piecesN of its axis, wavesN or wavesN:DEVIATION "
        "(pieces, where one value is the usual one).",
        NUMBER_EMBEDDING, "KIND", keyword_of="train",
    ),
    Flag(
        "separator", TABLE, "Between the fields of a text file (found out): a character, or tab.", TEXT, "CHAR",
        modes=MODEL, keyword_of="load",
    ),
    _name_of(
        "header", TABLE, ["auto", "yes", "no"], "auto; whether the first row names the columns", modes=MODEL,
        keyword_of="load",
    ),
    _name_of(
        "scaling", DATA, SCALINGS, "standardization; for images pixel", modes=USE, keyword_of="train"
    ),
    Flag(
        "holdout", DATA, f"Share of the rows kept out of training ({_USUAL['holdout']}).", SHARE, "SHARE",
        keyword_of="train",
    ),
    Flag(
        "validation", DATA, "Rows that choose the best epoch: a share of those --holdout leaves, or a file (none).",
        VALIDATION, "SHARE/FILE", keyword_of="train",
    ),
    Flag(
        "threshold", DATA,
        f"Score from which a row counts as class 1 ({_USUAL['threshold']}); --train finds it by {threshold_rules()}.",
        THRESHOLD, "SCORE/RULE", modes=USE, keyword_of="train",
    ),
    _name_of("calibrate", DATA, CALIBRATIONS, "none; of class probabilities, by validation rows", keyword_of="train"),
    Flag(
        "intervals", DATA, "Give the figures of --test 95 % intervals, by bootstrap.", modes=frozenset({"test"}),
    ),
    Flag(
        "output", DATA, "Where --predict (-, stdout), --export, --folds, --sweep and --plot (a folder) write.", TEXT,
        "PATH", "-o",
        modes=frozenset({"train", "predict", "export", "sweep", "plot"}),
    ),
    Flag(
        "report", DATA, "Write tables and pictures of --test, --sweep or --plot as one page.", TEXT, "FILE",
        modes=frozenset({"test", "sweep", "plot"}),
    ),
    Flag(
        "layers", NETWORK,
        "Inputs (auto: those of the table), layers, outputs: 30,60,10,1 or auto,60:tanh,1 (auto,60,10,outputs).",
        TEXT, "SPEC",
        modes=TRAIN | {"info"},
    ),
    _name_of(
        "activation", NETWORK, [name for name, activation in ACTIVATIONS.items() if not activation.couples_outputs],
        f"relu; of each layer without one in --layers, except the last: {_TASK_OUTPUTS}",
        modes=TRAIN | {"info"}, keyword_of="network",
    ),
    _name_of("loss", NETWORK, LOSSES, _TASK_LOSSES, keyword_of="network"),
    _name_of(
        "init", NETWORK, INITIALIZERS, f"he before {_HE_LAYERS}, else glorot; of tables lecun", keyword_of="network"
    ),
    Flag(
        "epochs", TRAINING, f"Passes over the training rows ({_USUAL['epochs']}).", _whole(1), "N", keyword_of="train"
    ),
    Flag(
        "batch_number", TRAINING, f"Rows in a batch ({_USUAL['batch_number']}).", _whole(1), "N", alias="batch_size",
        keyword_of="train",
    ),
    Flag(
        "patience", TRAINING, "Stop after this many epochs without a better one on the --validation rows (never).",
        _whole(1), "N", keyword_of="train",
    ),
    Flag(
        "networks", TRAINING, "Train several networks, with seeds from --seed on; the mean of them predicts (1).",
        _whole(1, MOST_NETWORKS), "K", keyword_of="train",
    ),
    Flag(
        "vary", TRAINING,
        "Draw settings of each of --networks: 'learning_rate=1e-4..1e-2,dropout=0..0.5,hidden=32|64|128-64'.", TEXT,
        "SPEC", keyword_of="train",
    ),
    Flag(
        "keep", TRAINING,
        "Give up the worse of --networks early, and keep those that do best together on the --validation rows (all).",
        _whole(1, MOST_NETWORKS), "N", keyword_of="train",
    ),
    Flag(
        "folds", TRAINING, "Cross-validation: a network for each fold of the training rows, tested by the fold (none).",
        _whole(2, MOST_NETWORKS), "F", keyword_of="train",
    ),
    _name_of("effort", TRAINING, EFFORTS, "standard, without --layers; chooses network, training, members for a table"),
    _name_of("monitor", TRAINING, MONITORS, "loss; the metric that the best epoch is chosen by", keyword_of="train"),
    Flag(
        "refit", TRAINING, "Then train once more for the best number of epochs, on the --validation rows too.",
        keyword_of="train",
    ),
    Flag(
        "clip", TRAINING, "Keep predictions of regression within the range of the training targets and a tenth of it.",
        keyword_of="train",
    ),
    Flag(
        "class_weight", TRAINING, "none, balanced, or a number for each class: how much its rows count (none).",
        CLASS_WEIGHT, "WEIGHTS", keyword_of="train",
    ),
    Flag("learning_rate", TRAINING, f"Step size ({_RATES}).", POSITIVE, "RATE", keyword_of="train"),
    _name_of("optimizer", TRAINING, OPTIMIZERS, "adam", keyword_of="train"),
    Flag("momentum", TRAINING, f"Momentum of sgd ({_USUAL['momentum']}).", SHARE, "SHARE", keyword_of="train"),
    Flag(
        "weight_decay", TRAINING, f"Decoupled from the gradient, not on biases ({_DECAYS}).", NOT_NEGATIVE, "RATE",
        keyword_of="train",
    ),
    _name_of("schedule", TRAINING, SCHEDULES, f"{DEFAULT_SCHEDULE}; of the learning rate", keyword_of="train"),
    Flag(
        "seed", TRAINING, "Seed of initial weights, shuffles and held-out rows (0).", _whole(0, 2**32 - 1), "N", "-s",
        keyword_of="network",
    ),
    Flag(
        "split_seed", TRAINING, "Another seed for held-out and validation rows (that of --seed).", _whole(0, 2**32 - 1),
        "N", keyword_of="train",
    ),
    Flag(
        "reference", TRAINING, "Compute bit for bit as the original C program did.", modes=USE, keyword_of="network"
    ),
    Flag("profile", WATCH, "Report the time of each layer, forward and backward, in a batch."),
    Flag("trace", WATCH, "Write a timeline for chrome://tracing or ui.perfetto.dev.", TEXT, "FILE"),
    Flag(
        "trace_batches", WATCH, f"Batches that --trace shows layer by layer ({_USUAL['trace_batches']}).",
        _whole(1, 100_000), "N",
    ),
    Flag("history", WATCH, "Write the losses as CSV, one line per epoch.", TEXT, "FILE"),
    Flag("trials", WATCH, "Add a line to this CSV file for each network of --vary or --keep.", TEXT, "FILE"),
    Flag("logdir", WATCH, "Write losses, weights and the graph for TensorBoard.", TEXT, "DIR"),
    Flag("checkpoint", KEEP, "File to save the whole state of the training in.", TEXT, "FILE", keyword_of="checkpoint"),
    Flag(
        "checkpoint_every", KEEP,
        f"Epochs between checkpoints, at least a second apart ({_USUAL['checkpoint_every']}).", _whole(1), "N",
        keyword_of="checkpoint",
    ),
    Flag(
        "resume", KEEP, "Continue from this file; auto: from --checkpoint if it exists.", TEXT, "auto/FILE",
        keyword_of="checkpoint",
    ),
    Flag(
        "index", RUN, "Run only this entry of --sweep, counted from 0 (job arrays).", _whole(0), "N",
        modes=frozenset({"sweep"}),
    ),
    Flag(
        "case", RUN, "Cases of --bench: names or beginnings of names, separated by commas (all).", TEXT, "NAME",
        modes=frozenset({"bench"}),
    ),
    _name_of("backend", RUN, BACKENDS, "auto", modes=ENGINE | {"bench"}, keyword_of="engine"),
    Flag(
        "threads", RUN, "Threads (the cores this process may use).", _whole(1, 1024), "N", modes=ENGINE | {"bench"},
        keyword_of="engine",
    ),
    Flag(
        "gpus", RUN, "GPUs: how many (2), or which: 0,2, or 2, for one alone.", GPUS, "N/LIST", modes=ENGINE,
        keyword_of="engine",
    ),
    _name_of(
        "distribute", RUN, DISTRIBUTIONS, "mirrored; where the parameters are kept, with several GPUs or nodes",
        keyword_of="network",
    ),
    Flag(
        "tf32", RUN, "Let a GPU compute float32 products with a 10-bit mantissa: faster, less exact.", modes=ENGINE,
        keyword_of="engine",
    ),
    Flag(
        "memory", RUN, "Memory for the program (2G, 500M; what is free): rows beyond it are in mapped files.",
        BYTES, "SIZE", modes=USE, keyword_of="load",
    ),
    _name_of("dtype", RUN, DTYPES, "float32", modes=ENGINE | {"export"}, keyword_of="engine"),
    Flag("verbose", RUN, "Print more: each layer's kernels, and all epochs.", short="-v", modes=EVERY),
    Flag("quiet", RUN, "Print nothing but results and errors.", short="-q", modes=EVERY),
    Flag(
        "config", RUN, "JSON or TOML file with flags by their names; the command line wins.", TEXT, "FILE", modes=EVERY
    ),
    Flag("json", RUN, "Print the result as one JSON object.", modes=EVERY),
    Flag("force", RUN, "Continue where nn would otherwise refuse.", modes=EVERY),
    Flag("debug", RUN, "Show the traceback of a failure.", modes=EVERY),
]  # fmt: skip
GONE = {"window": "memory"}  # a former flag -> the one that takes its place
MODES = [flag.name for flag in FLAGS if flag.group == MODE]


def read_by(mode: str) -> set[str]:
    """Return the names of the flags that a mode reads."""
    return {flag.name for flag in FLAGS if mode in flag.modes}


def given_values(given: SimpleNamespace, names: Iterable[str]) -> dict:
    """Return those of the named flags that were given, with their values."""
    values = {name: getattr(given, name) for name in names}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def keywords(given: SimpleNamespace, *of: str) -> dict:
    """Return the flags that were given and are keywords of these (Flag.keyword_of), with their values."""
    return given_values(given, [flag.name for flag in FLAGS if flag.keyword_of in of])
