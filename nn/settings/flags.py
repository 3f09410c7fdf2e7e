"""The settings of nn: one record for each, which is a flag of the command line and a
keyword in Python; its modes.

The parser and its help, --config, the checks of `train` and of the estimators, their
signatures, what model files and checkpoints keep, and the table of the guide are made
from MODES and FLAGS.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from ..nn_aux import (
    ACTIVATIONS,
    AUGMENTATIONS,
    BACKENDS,
    CALIBRATIONS,
    DISTRIBUTIONS,
    DTYPES,
    EFFORTS,
    INITIALIZERS,
    MONITORS,
    OPTIMIZERS,
    SCALINGS,
    SCHEDULES,
    TASKS,
)
from ..utils import MOST_THREADS, UsageError, closest
from .values import (
    BETAS,
    BYTES,
    CLASS_WEIGHT,
    EPSILON,
    FORMS,
    GPUS,
    LAYERS,
    LEVEL,
    LOSS_NAME,
    MODEL,
    NAMES,
    NOT_NEGATIVE,
    NUMBER_EMBEDDING,
    POSITIVE,
    ROW_VALUES,
    SHARE,
    TEXT,
    THRESHOLD,
    VALIDATION,
    Value,
    activation_name,
    enumerated,
    joined_items,
    losses,
    one_of,
    plain,
    threshold_rules,
    whole,
)

MOST_NETWORKS = 100_000  # of a model

# The modes that read a flag, as sets of their names.
TRAIN = frozenset({"train"})
USE = frozenset({"train", "test", "predict"})
MODEL_MODES = USE | {
    "explain",
    "compare",
    "drift",
    "rethreshold",
    "plot",
}  # reads a data set
ENGINE = MODEL_MODES | {"info"}  # makes an engine
EXPLAIN = frozenset({"explain"})


@dataclass(frozen=True, eq=False)
class Flag:
    """A setting: its name (dashes pass for underscores), its help, its values, its
    default.

    help: {} stands for the default. default: None where something else decides. modes:
    the modes that read it.
    alone: the value that it has without one; "" where it needs one.
    taker: what takes it as a keyword of the same name: load (data), network, engine,
    train, several (networks that train trains together) or checkpoint; "" for a flag
    that commands read themselves. later: the original program has no such thing, so
    --reference refuses it, and files of models keep it only where it is not the
    default. reference: what --reference sets it to. group: that its help is listed in.
    """

    name: str
    help: str
    value: Value | None = None  # None: a switch, which has none
    metavar: str | None = None
    short: str | None = None
    alias: str | None = None  # another name
    modes: frozenset[str] = TRAIN
    taker: str = ""
    default: Any = None
    alone: str = ""
    later: bool = False
    reference: Any = None
    group: str = ""

    def __post_init__(self):
        default = self.default
        if isinstance(default, float):
            default = f"{default:g}"
        object.__setattr__(self, "help", self.help.format(default))

    @property
    def long(self) -> str:
        return f"--{self.name}"

    @property
    def names(self) -> list[str]:
        """All spellings, the short one first."""
        alias = self.alias and f"--{self.alias}"
        return list(filter(None, [self.short, self.long, alias]))

    @property
    def type(self) -> str:
        if self.value:
            return self.value.type
        return "bool"

    def check(self, given):
        """Return the value that a text or a value from Python stands for. Raises
        UsageError."""
        if self.value:
            return self.value(self.long, given)
        given = plain(given)
        if isinstance(given, bool):
            return given
        raise UsageError(f"{self.long} {given}: expected true or false")


def _name_of(name: str, names: Iterable[str], help: str, **fields) -> Flag:
    """Return a flag whose value is one of the names, which its help lists."""
    return Flag(name, f"{', '.join(names)} ({help})", one_of(names), "NAME", **fields)


@dataclass(frozen=True, eq=False)
class Mode(Flag):
    """A mode of nn: a flag, mostly a switch, and a word, which others follow.

    usage: what follows the word. words: the flags whose values that are, in this order:
    `nn train DATA` is `nn --train --dataset DATA`, and the words of one flag are its
    value, with a comma between them. needs: the flags with a path without which it
    cannot run. module: of nn/commands, where its function is. said: the word, where a
    setting has the name.
    """

    group: str = "Mode, exactly one"
    usage: str = ""
    words: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    module: str = "use"
    said: str = ""

    @property
    def word(self) -> str:
        """Return the word that stands for it."""
        return self.said or self.name


MODES = {
    mode.name: mode
    for mode in [
        Mode(
            "train",
            "Train a network on --dataset and write it to --model.",
            usage="DATA -m MODEL",
            # and model, but for --folds
            words=("dataset",),
            needs=("dataset",),
            module="train",
        ),
        Mode(
            "test",
            "Test --model on --dataset, or on the rows that its training held out.",
            usage="MODEL [DATA]",
            words=("model", "dataset"),
            needs=("model",),
        ),
        Mode(
            "predict",
            "Write predictions for the rows of --dataset as CSV, .parquet or .jsonl.",
            usage="MODEL DATA [-o FILE]",
            words=("model", "dataset"),
            needs=("model", "dataset"),
        ),
        Mode(
            "explain",
            "Show which columns matter to --model; with --output what each added to each prediction.",
            usage="MODEL [DATA] [-o FILE]",
            words=("model", "dataset"),
            needs=("model",),
        ),
        Mode(
            "compare",
            "Compare two models on --dataset, or on rows that neither was trained on.",
            TEXT,
            "A,B",
            usage="A B [--dataset DATA]",
            words=("compare", "compare"),
        ),
        Mode(
            "drift",
            "Tell whether --dataset is like the rows that --model was trained on (exit code 3: not).",
            usage="MODEL DATA",
            words=("model", "dataset"),
            needs=("model", "dataset"),
            module="drift",
        ),
        Mode(
            "rethreshold",
            "Write --model with another --threshold to --output: a score, or a rule on rows that it did not know.",
            usage="MODEL SCORE/RULE [DATA] -o NEW",
            words=("model", "threshold", "dataset"),
            needs=("model", "threshold", "output"),
            module="rethreshold",
            said="threshold",
        ),
        Mode(
            "info",
            "Show the contents of --model, or the network that --layers describes.",
            usage="MODEL",
            words=("model",),
        ),
        Mode(
            "export",
            "Write --model for other programs to --output: ONNX (.onnx) or C (.c).",
            usage="MODEL -o FILE",
            words=("model",),
            needs=("model", "output"),
        ),
        Mode(
            "bench",
            "Time training, prediction and matrix products on every backend of this machine.",
            TEXT,
            alone="all",
            usage="[CASE]",
            words=("bench",),
            module="study",
        ),
        Mode(
            "sweep",
            "Train and time the networks of a plan (PLAN:N: one of them), a line each to --output.",
            TEXT,
            "PLAN",
            usage="PLAN -o FILE",
            words=("sweep",),
            needs=("output",),
            module="study",
        ),
        Mode(
            "study",
            "Run a founding study's plan again, beside its numbers of then (NAME-small: a minute).",
            TEXT,
            "NAME",
            usage="NAME [-o FILE]",
            words=("study",),
            module="study",
        ),
        Mode(
            "plot",
            "Draw the results of --sweep, or a model's losses, to --output.",
            TEXT,
            "PATH",
            usage="PATH -o FOLDER",
            words=("plot",),
            needs=("output",),
            module="study",
        ),
    ]
}
EVERY = frozenset(MODES)
MODE_WORDS = {mode.word: mode.name for mode in MODES.values()}

_OPTIMIZER_RATES = ", ".join(
    f"{optimizer.learning_rate:g} for {name}" for name, optimizer in OPTIMIZERS.items()
)
_DECAYS = ", ".join(
    f"{optimizer.weight_decay:g} for {name}" for name, optimizer in OPTIMIZERS.items()
)
_OPTIMIZER_BETAS = ", ".join(
    f"{joined_items(optimizer.betas)} for {name}"
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.betas
)
_EPSILONS = ", ".join(
    f"{optimizer.epsilon:g} for {name}"
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.epsilon
)
_LAYER_ACTIVATIONS = [
    name for name, activation in ACTIVATIONS.items() if not activation.couples_outputs
]
_HE_LAYERS = enumerated(
    [name for name, activation in ACTIVATIONS.items() if activation.init == "he"], "and"
)
_TASK_OUTPUTS = ", ".join(
    f"{output} for {task}" for task, (output, *_) in TASKS.items()
)
_TASK_LOSSES = ", ".join(f"{loss} for {task}" for task, (_, loss, *_) in TASKS.items())
_TABLE_SETTING = {"taker": "load", "later": True}

_FLAG_GROUPS = {
    "Data and model": [
        Flag(
            "dataset",
            "CSV, Parquet, Arrow, ORC, Excel, JSON, JSON lines or NPY tables (several: 'a.csv,b.csv', 'day*.csv' or their folder; "
            "elsewhere: a URI; - is standard input), SQLite (data.db:table), IDX, CIFAR-10 (CSV, JSON, NPY and these "
            "also .gz), NPZ, or pictures in a folder of class folders.",
            TEXT,
            "PATH",
            modes=MODEL_MODES,
        ),
        Flag(
            "model",
            "Model file, in the original program's text format if it ends in .m.",
            TEXT,
            "PATH",
            short="-m",
            modes=ENGINE | {"export"},
        ),
        Flag(
            "target",
            "Target columns, separated by commas; from 0, negative from the end (the last).",
            TEXT,
            "NAME/INDEX",
            modes=MODEL_MODES,
            taker="load",
        ),
        Flag(
            "positive",
            "The class that metrics and scores are about (yes, 1, else the rarer of two); COL=CLASS of one of several targets.",
            FORMS,
            "CLASS",
            taker="load",
            later=True,
        ),
        _name_of(
            "task",
            ["auto", *TASKS],
            "{}, by the target's values",
            modes=TRAIN | {"info"},
            taker="load",
            default="auto",
        ),
        _name_of(
            "scaling",
            SCALINGS,
            "standardization; for images pixel",
            modes=USE,
            taker="train",
        ),
        Flag(
            "holdout",
            "Share of the rows kept out of training ({}).",
            SHARE,
            "SHARE",
            taker="train",
            default=0.2,
        ),
        Flag(
            "validation",
            "Rows that choose the best epoch: a share of those --holdout leaves, or a file (none).",
            VALIDATION,
            "SHARE/FILE",
            taker="train",
            later=True,
        ),
        Flag(
            "threshold",
            f"Score from which a row counts as class 1 ({{}}); --train finds it by {threshold_rules()}.",
            THRESHOLD,
            "SCORE/RULE",
            modes=USE | {"rethreshold"},
            taker="train",
            default=0.5,
        ),
        _name_of(
            "calibrate",
            CALIBRATIONS,
            "{}; of class probabilities, by validation rows",
            taker="train",
            default="none",
            later=True,
        ),
        Flag(
            "intervals",
            "Add bootstrap intervals of 95 % to the metrics of --test.",
            modes=frozenset({"test"}),
            later=True,
        ),
        Flag(
            "level",
            "Level of the intervals, or sets of classes, that --predict and --export add and --test checks (0.9).",
            LEVEL,
            "SHARE",
            modes=frozenset({"test", "predict", "export"}),
        ),
        Flag(
            "output",
            "Where to write: of --predict (- is stdout), --explain, --export, --folds, --sweep, --study, --plot (a folder).",
            TEXT,
            "PATH",
            short="-o",
            modes=TRAIN
            | {
                "predict",
                "explain",
                "rethreshold",
                "export",
                "sweep",
                "study",
                "plot",
            },
        ),
        Flag(
            "columns",
            "Columns that --predict writes, computed ones or those of --dataset: 'Id,Survived=predicted' (all computed).",
            NAMES,
            "NAMES",
            modes=frozenset({"predict"}),
        ),
        Flag(
            "check",
            "End with exit code 0 if B of --compare A,B is better, 3 if the rows cannot tell, 4 if it is worse.",
            modes=frozenset({"compare"}),
        ),
        Flag(
            "flag",
            "Add a column that says why a row deserves a look: values outside training's range, unseen words, gaps.",
            modes=frozenset({"predict"}),
        ),
        Flag(
            "background",
            "Rows that --explain compares with (100 of the training file).",
            TEXT,
            "FILE",
            modes=EXPLAIN,
        ),
        Flag(
            "group_columns",
            "Groups of columns whose importance --explain reports too: a+b,c+d.",
            TEXT,
            "GROUPS",
            modes=EXPLAIN,
        ),
        Flag(
            "exact",
            "Compute contributions from all coalitions of columns, however long it takes.",
            modes=EXPLAIN,
        ),
        Flag(
            "report",
            "Write a page of the model, the comparison, the drift, the sweep or the study: .html, .md or .json.",
            TEXT,
            "FILE",
            modes=frozenset(
                {
                    "test",
                    "explain",
                    "compare",
                    "drift",
                    "info",
                    "sweep",
                    "study",
                    "plot",
                }
            ),
        ),
    ],
    "Columns of a table": [
        Flag(
            "categories",
            "Columns that are categories: names or indices, separated by commas.",
            NAMES,
            "COLS",
            **_TABLE_SETTING,
        ),
        Flag(
            "numbers",
            "Columns that are numbers, or inputs although they look like an id.",
            NAMES,
            "COLS",
            **_TABLE_SETTING,
        ),
        Flag(
            "dates",
            "Columns that are dates; COL=%d.%m.%Y gives their format.",
            FORMS,
            "COLS",
            **_TABLE_SETTING,
        ),
        Flag(
            "ordered",
            "Columns of ordered categories: size=small<medium<large.",
            FORMS,
            "COL=A<B",
            **_TABLE_SETTING,
        ),
        Flag("drop", "Columns that are not inputs.", NAMES, "COLS", **_TABLE_SETTING),
        Flag(
            "id",
            "Columns that are not inputs but are written beside predictions; with --predict any columns, '*' for all.",
            NAMES,
            "COLS",
            modes=TRAIN | {"predict"},
            **_TABLE_SETTING,
        ),
        Flag(
            "drop_duplicates",
            "Of rows that are equal in inputs and target, train on the first only.",
            **_TABLE_SETTING,
        ),
        Flag(
            "weight",
            "Column with the weight of each row: 2 counts as the row twice.",
            ROW_VALUES,
            "COL",
            **_TABLE_SETTING,
        ),
        Flag(
            "exposure",
            "Column of the time, area or number in which a row counts its target: outputs are multiplied by it "
            "(poisson, gamma, tweedie).",
            ROW_VALUES,
            "COL",
            **_TABLE_SETTING,
        ),
        Flag(
            "group",
            "Column of groups: no split divides a group.",
            ROW_VALUES,
            "COL",
            **_TABLE_SETTING,
        ),
        Flag(
            "time",
            "Column of times: the latest rows are held out.",
            ROW_VALUES,
            "COL",
            **_TABLE_SETTING,
        ),
        Flag(
            "missing",
            "More words for a missing value, besides an empty field, ?, NA, nan, null, None and #N/A.",
            NAMES,
            "WORDS",
            **_TABLE_SETTING,
        ),
        Flag(
            "strict",
            "Refuse odd words among numbers and dates, which otherwise are missing values; for models of plain numbers "
            "gaps too.",
            modes=USE | {"explain", "compare"},
            **_TABLE_SETTING,
        ),
        Flag(
            "number_embedding",
            "Extra inputs for numbers and dates: linear (none), piecesN of the axis, wavesN or wavesN:DEVIATION "
            "(pieces, where one value is the usual one).",
            NUMBER_EMBEDDING,
            "KIND",
            taker="train",
            later=True,
        ),
        Flag(
            "target_means",
            "Extra inputs for columns of more than 16 words: means of the target over other rows.",
            taker="train",
            default=False,
            later=True,
        ),
        Flag(
            "separator",
            "Separator of a text file (found by nn): a character, or tab.",
            TEXT,
            "CHAR",
            modes=MODEL_MODES,
            taker="load",
        ),
        _name_of(
            "header",
            ["auto", "yes", "no"],
            "{}; whether the first row names the columns",
            modes=MODEL_MODES,
            taker="load",
            default="auto",
        ),
    ],
    "Network": [
        Flag(
            "layers",
            "Inputs (auto: those of the table), layers, outputs: 30,60,10,1 or auto,60:tanh,1 (auto,60,10,outputs).",
            LAYERS,
            "SPEC",
            modes=TRAIN | {"info"},
        ),
        Flag(
            "activation",
            f"{', '.join(_LAYER_ACTIVATIONS)} ({{}}; of each layer without one in --layers, except the last: {_TASK_OUTPUTS})",
            activation_name(_LAYER_ACTIVATIONS),
            "NAME",
            modes=TRAIN | {"info"},
            taker="network",
            default="relu",
            reference="sigmoid",
        ),
        Flag(
            "loss",
            f"{', '.join(losses())} ({_TASK_LOSSES}); quantile=A,B,... has an output for each, by steps.",
            LOSS_NAME,
            "NAME",
            taker="network",
            reference="mse",
        ),
        Flag(
            "init",
            f"{', '.join(INITIALIZERS)} (he before {_HE_LAYERS}, else glorot; of tables lecun), or a model to go on from.",
            MODEL,
            "NAME/MODEL",
            taker="network",
            reference="uniform",
        ),
    ],
    "Training": [
        Flag(
            "epochs",
            "Passes over the training rows ({}).",
            whole(1),
            "N",
            taker="train",
            default=20,
        ),
        Flag(
            "freeze",
            "Keep the parameters of the first N layers that have any, as when going on from a model ({}).",
            whole(0),
            "N",
            taker="train",
            default=0,
            later=True,
        ),
        Flag(
            "batch_number",
            "Rows in a batch ({}).",
            whole(1),
            "N",
            alias="batch_size",
            modes=TRAIN | {"info"},
            taker="train",
            default=32,
        ),
        Flag(
            "patience",
            "Stop after this many epochs without a better one on the --validation rows (never).",
            whole(1),
            "N",
            taker="train",
            later=True,
        ),
        Flag(
            "networks",
            "Train several networks, with seeds from --seed on; the mean of them predicts (1).",
            whole(1, MOST_NETWORKS),
            "K",
            taker="several",
        ),
        Flag(
            "vary",
            "Draw settings of each of --networks and choose the best: 'learning_rate=1e-4..1e-2,hidden=32|64|128-64'.",
            TEXT,
            "SPEC",
            taker="several",
        ),
        Flag(
            "folds",
            "Cross-validation: a network for each fold of the training rows, tested by the fold (none).",
            whole(2, MOST_NETWORKS),
            "F",
            taker="several",
        ),
        _name_of(
            "effort",
            EFFORTS,
            "{}, without --layers; how hard to search for networks and settings",
            default="standard",
        ),
        _name_of(
            "monitor",
            MONITORS,
            "loss; the metric that chooses the best epoch",
            taker="train",
            later=True,
            modes=TRAIN | {"explain"},
        ),
        Flag(
            "refit",
            "Train once more for the best number of epochs, on the --validation rows too.",
            taker="train",
            default=False,
            later=True,
        ),
        Flag(
            "clip",
            "Keep predictions of regression within the range of the training targets and a tenth of it.",
            taker="train",
            default=False,
            later=True,
        ),
        Flag(
            "class_weight",
            "none, balanced, or a number for each class: how much its rows count ({}).",
            CLASS_WEIGHT,
            "WEIGHTS",
            taker="train",
            default="none",
            later=True,
        ),
        Flag(
            "learning_rate",
            f"Step size ({_OPTIMIZER_RATES}).",
            POSITIVE,
            "RATE",
            taker="train",
        ),
        _name_of(
            "optimizer",
            OPTIMIZERS,
            "{}",
            modes=TRAIN | {"info"},
            taker="train",
            default="adam",
            reference="sgd",
        ),
        Flag(
            "momentum",
            "Momentum of sgd ({}).",
            SHARE,
            "SHARE",
            modes=TRAIN | {"info"},
            taker="train",
            default=0.0,
            reference=0.0,
        ),
        Flag(
            "betas",
            f"Share of the moments that each step keeps ({_OPTIMIZER_BETAS}).",
            BETAS,
            "SHARE[,SHARE]",
            taker="train",
            later=True,
        ),
        Flag(
            "epsilon",
            f"Number added to the root that divides a step ({_EPSILONS}).",
            EPSILON,
            "NUMBER",
            taker="train",
            later=True,
        ),
        Flag(
            "weight_decay",
            f"Decay of the weights, apart from the gradient and not of biases ({_DECAYS}).",
            NOT_NEGATIVE,
            "RATE",
            taker="train",
            reference=0.0,
        ),
        Flag(
            "scale_rate",
            "Train a scale of each input of the first dense layer too, by this multiple of the rate ({}: none).",
            NOT_NEGATIVE,
            "TIMES",
            taker="train",
            default=0.0,
            reference=0.0,
            later=True,
        ),
        _name_of(
            "augment",
            AUGMENTATIONS,
            "{}, without --layers chosen; how images are moved while training",
            taker="train",
            default="none",
            later=True,
        ),
        _name_of(
            "schedule",
            SCHEDULES,
            "{}; of the learning rate",
            taker="train",
            default="cooldown",
            reference="constant",
        ),
        Flag(
            "seed",
            "Seed of initial weights, shuffles and held-out rows ({}).",
            whole(0, 2**32 - 1),
            "N",
            short="-s",
            taker="network",
            default=0,
        ),
        Flag(
            "split_seed",
            "Another seed for held-out and validation rows (that of --seed).",
            whole(0, 2**32 - 1),
            "N",
            taker="train",
            later=True,
        ),
        Flag(
            "reference",
            "Compute bit for bit as the original C program did.",
            modes=USE,
            taker="network",
        ),
    ],
    "Watching a training": [
        Flag(
            "profile",
            "Report the time of each layer, forward and backward, in a batch.",
            modes=USE,
        ),
        Flag(
            "trace",
            "Write a timeline for chrome://tracing or ui.perfetto.dev.",
            TEXT,
            "FILE",
            modes=USE,
        ),
        Flag("history", "Write the losses as CSV, one line per epoch.", TEXT, "FILE"),
        Flag(
            "logdir",
            "Write losses, weights and the graph for TensorBoard.",
            TEXT,
            "DIR",
        ),
    ],
    "Long trainings": [
        Flag(
            "checkpoint",
            "File to save the whole state of the training in.",
            TEXT,
            "FILE",
            taker="checkpoint",
        ),
        Flag(
            "checkpoint_every",
            "Epochs between checkpoints, at least a second apart ({}).",
            whole(1),
            "N",
            taker="checkpoint",
            default=1,
        ),
        Flag(
            "resume",
            "Continue from this file; auto: from --checkpoint if it exists.",
            TEXT,
            "auto/FILE",
            taker="checkpoint",
        ),
    ],
    "Running": [
        _name_of(
            "backend",
            BACKENDS,
            "{}",
            modes=ENGINE | {"bench"},
            taker="engine",
            default="auto",
            reference="seq",
        ),
        Flag(
            "threads",
            "Threads (OMP_NUM_THREADS, else the cores this process may use).",
            whole(1, MOST_THREADS),
            "N",
            modes=ENGINE | {"bench"},
            taker="engine",
        ),
        Flag(
            "gpus",
            "GPUs: how many (2), or which: 0,2, or 2, for one alone.",
            GPUS,
            "N/LIST",
            modes=ENGINE,
            taker="engine",
        ),
        _name_of(
            "distribute",
            DISTRIBUTIONS,
            "{}; where the parameters are kept, with several GPUs or nodes",
            taker="network",
            default="mirrored",
        ),
        Flag(
            "memory",
            "Memory for the program (2G, 500M; what is free): rows beyond it are in mapped files.",
            BYTES,
            "SIZE",
            modes=USE | {"drift", "rethreshold", "info"},
            taker="load",
        ),
        _name_of(
            "dtype",
            DTYPES,
            "{}; tf32: float32 whose products a GPU takes with a 10-bit mantissa, faster",
            modes=ENGINE | {"export"},
            taker="engine",
            default="float32",
            reference="float64",
        ),
        Flag(
            "verbose",
            "Print more: each layer's kernels, and all epochs.",
            short="-v",
            modes=EVERY,
        ),
        Flag("quiet", "Print nothing but results and errors.", short="-q", modes=EVERY),
        Flag(
            "config",
            "JSON or TOML file with flags by their names; the command line wins.",
            TEXT,
            "FILE",
            modes=EVERY,
        ),
        Flag("json", "Print the result as one JSON object.", modes=EVERY),
        Flag("force", "Continue where nn would otherwise refuse.", modes=EVERY),
        Flag("debug", "Show the traceback of a failure.", modes=EVERY),
    ],
}
FLAGS = [
    replace(flag, group=group)
    for group, flags in _FLAG_GROUPS.items()
    for flag in flags
]
GONE = {  # a former flag -> what takes its place
    "window": "memory",
    "keep": "vary",
    "trials": "json",
    "trace_batches": "trace",
    "index": "sweep PLAN:N",
    "case": "bench=NAME",
    "tf32": "dtype tf32",
}
ELSEWHERE = {  # what is no setting of its own -> how it is asked for
    "dropout": "write dropout0.2 among --layers, as in auto,64,dropout0.2,1, or --vary dropout=0..0.5",
    "features": "all columns are inputs; --drop A,B names those that are not",
    "format": "the suffix of --output says it, as in -o m.onnx",
    "shap": "nn explain MODEL DATA -o FILE writes the contributions to each prediction",
    "V": "did you mean --version?",
}
SYNONYMS = {  # what other programs call a setting, or a person does
    "lr": "learning_rate",
    "bs": "batch_number",
    "file": "dataset",
    "input": "dataset",
    "label": "target",
    "y": "target",
    "hidden": "layers",
    "hidden_layer_sizes": "layers",
    "test_size": "holdout",
    "val_split": "validation",
    "early_stopping": "patience",
    "l2": "weight_decay",
    "random_state": "seed",
    "metric": "monitor",
    "scoring": "monitor",
    "eval_metric": "monitor",
    "time_limit": "effort",
    "device": "backend",
    "workers": "threads",
    "jobs": "threads",
    "n_jobs": "threads",
    "t": "target",
    "ensemble": "networks",
    "cv": "folds",
    "tune": "vary",
    "log": "history",
    "save": "model",
    "ignore": "drop",
    "exclude": "drop",
    "normalize": "scaling",
}
BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.alias) if name}
DEFAULTS = {flag.name: flag.default for flag in FLAGS if flag.default is not None}


_SETTINGS_OF_MODELS = {
    flag.name for flag in FLAGS if flag.taker not in ("", "checkpoint")
}
_SETTINGS_OF_MODELS |= {"layers", "effort"}


def settings_of_model(config: dict) -> dict:
    """Return those of a model's settings that say what is computed. A model may come
    from a stranger: others that are flags, such as files to be written, are none of its
    business."""
    refused = {
        name
        for name, flag in {**MODES, **BY_NAME}.items()
        if flag.name not in _SETTINGS_OF_MODELS
    }
    return {
        name: value for name, value in config.items() if plain_name(name) not in refused
    }


def plain_name(name: str) -> str:
    """Return the Python name of a flag that is written as on the command line."""
    return name.removeprefix("--").replace("-", "_")


def flags_of_mode(mode: str) -> set[str]:
    """Return the names of the flags that a mode reads, and its own."""
    return {mode, *(flag.name for flag in FLAGS if mode in flag.modes)}


def given_values(given: SimpleNamespace, names: Iterable[str]) -> dict:
    """Return those of the named flags that were given, with their values."""
    values = {name: getattr(given, name) for name in names}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False
    }


def settings_of(*takers: str) -> list[Flag]:
    """Return the settings that are keywords of these (Flag.taker)."""
    return [flag for flag in FLAGS if flag.taker in takers]


def keywords(given: SimpleNamespace, *takers: str) -> dict:
    """Return the flags that were given and are keywords of these, with their values."""
    return given_values(given, [flag.name for flag in settings_of(*takers)])


def meant(name: str, candidates: Iterable[str]) -> str | None:
    """Return which of the candidates a name that is none of them was probably meant to
    be: a synonym of it, one that begins so, or the most alike."""
    candidates = list(candidates)
    if SYNONYMS.get(name) in candidates:
        return SYNONYMS[name]
    for candidate in candidates:
        if candidate.startswith(name):
            return candidate
    return closest(name, candidates)


def checked_settings(function: str, given: dict, *takers: str) -> dict:
    """Return keywords of a function by the names of the flags, without those that are
    None.

    Lists become their texts, and NumPy's numbers Python's own. Raises UsageError for
    one that is no keyword of these, or is given by both its names.
    """
    flags = {name: flag for name, flag in BY_NAME.items() if flag.taker in takers}
    settings: dict = {}
    for name, value in given.items():
        if name in GONE:
            raise UsageError(f"{name}: has gone; use {GONE[name]}")
        if name not in flags:
            message = f"{name}: no such setting of {function}"
            if name in ELSEWHERE:
                message += f"; {ELSEWHERE[name]}"
            elif candidate := meant(name, flags):
                message += f"; did you mean {candidate}?"
            raise UsageError(message)
        flag = flags[name]
        if flag.value:
            value = flag.value.text_of(value)
        else:
            value = plain(value)
        if value is None:
            continue
        if settings.setdefault(flag.name, value) != value:
            raise UsageError(
                f"{flag.name} and {flag.alias} are two names of one setting; leave one out"
            )
    return settings


def takes(*takers: str, without: Iterable[str] = ()) -> Callable:
    """Return a decorator of a function with **settings, whose signature then names
    them, as notebooks show it."""
    keyword = inspect.Parameter.KEYWORD_ONLY

    def named(function: Callable) -> Callable:
        signature = inspect.signature(function)
        parameters = dict(signature.parameters)
        parameters.pop("settings")
        for name, flag in BY_NAME.items():
            if flag.taker in takers and name not in {*without, *parameters}:
                parameters[name] = inspect.Parameter(
                    name, keyword, default=None, annotation=f"{flag.type} | None"
                )
        function.__signature__ = signature.replace(parameters=[*parameters.values()])
        return function

    return named


# ---- --reference: what it stands for, and what the original program does not have

REFERENCE = {flag.name: flag.reference for flag in FLAGS if flag.reference is not None}


def check_reference(given: dict) -> None:
    """Raise UsageError for a setting that contradicts --reference, or that the original
    program does not have.

    given: by the flags' names; None, False: not given.
    """
    for flag in FLAGS:
        value = given.get(flag.name)
        if value is None or value is False:
            continue
        setting = flag.long
        if value is not True:
            setting += f" {value}"
        if flag.reference is not None and value not in ("auto", flag.reference):
            raise UsageError(
                f"{setting} contradicts --reference, which means {flag.long} {flag.reference}; leave one out"
            )
        if flag.later and value != flag.default:
            raise UsageError(f"{setting}: --reference has no such thing; leave one out")
    if isinstance(given.get("threshold"), str):
        raise UsageError(
            f"--threshold {given['threshold']}: --reference takes a number only; leave one out"
        )


def check_reference_layers(layers) -> None:
    """Raise UsageError if the original program does not have such layers
    (layers.Layer)."""
    for layer in layers:
        if (layer.kind, layer.activation) != ("dense", "sigmoid"):
            item = layer.item or layer.kind
            if layer.biases:
                item += f":{layer.activation}"
            raise UsageError(
                f"--layers {item} contradicts --reference, which has dense sigmoid layers only"
            )
