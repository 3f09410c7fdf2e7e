"""Names: the activations, losses, optimisers, initialisers, schedules, scalings and
tasks.

The help of the command line, the checks, the engines and the tests read these
dictionaries: a new name is one entry here and the formulas (docs/developing.md, «To
add»). A name stands for the constant `NN_<NAME>` of csrc/nn.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple


class Activation(NamedTuple):
    """a = f(z), for each output of a layer."""

    formula: str
    init: str = "glorot"  # of the layer's weights, where --init names none
    # bounds to which regression targets are scaled below an output layer with this
    # activation
    low: float = -math.inf
    high: float = math.inf
    # f'(z) needs z itself: a layer of its own computes f (layers.py)
    from_input: bool = False
    # a row's outputs depend on each other: last layer only, 2 outputs or more
    couples_outputs: bool = False
    of_one: str = ""  # what one output has in its place


class Loss(NamedTuple):
    """The loss of one output a and its target y."""

    formula: str
    activation: str | None = None  # that the output layer must have; None: any
    constants: tuple[float, ...] = ()  # of its formula, two at most
    # how --loss writes the constant that may be given: huber=D; none: none may
    constant: str = ""
    holds: Callable[[float], bool] = lambda constant: False  # whether it can be
    range: str = ""  # the same in words
    takes_several: bool = False  # constants, in ascending order, each of an output
    # that it makes of a target, where nobody says otherwise; the output layer then has
    # its activation
    task: str | None = None
    # which targets it has, in words, and whether they are such
    targets: str = ""
    has: Callable | None = None
    metric: str | None = None  # that is its mean in the targets' own units
    # by which the importance of columns is measured; None: that of the task
    importance: str | None = None
    # whether a target may be a class with a weight (core/losses.py)
    weighs_classes: bool = False
    # the output that is best for all rows alike, where it is not the mean, in words
    best: str = ""


class Optimizer(NamedTuple):
    """How weights change by their gradient."""

    formula: str
    learning_rate: float  # defaults, found by cross-validation (docs/measured.md)
    weight_decay: float
    moments: int = 0  # vectors kept beside the parameters
    # --betas: how much of a moment a step keeps, two at most
    betas: tuple[float, ...] = ()
    epsilon: float | None = None  # --epsilon: added to the root that divides
    # --momentum is its constant; above 0 it adds one moment
    takes_momentum: bool = False

    def constants_with(
        self,
        momentum: float = 0.0,
        betas: tuple[float, ...] | None = None,
        epsilon: float | None = None,
    ) -> tuple[float, ...]:
        """Return the constants of its formula, as the engines take them: three at most.
        None: its own."""
        if self.takes_momentum:
            return (momentum,)
        return (*(betas or self.betas), epsilon or self.epsilon)

    def moments_with(self, momentum: float) -> list[str]:
        """Return the vectors that it keeps beside the parameters: moment1, moment2."""
        count = self.moments + (1 if self.takes_momentum and momentum else 0)
        return [f"moment{number}" for number in range(1, count + 1)]


class Metric(NamedTuple):
    """A measure by which predictions are judged."""

    label: str
    of: dict[str, str]  # task -> what its formula takes, a name of core/metrics.py
    higher_is_better: bool = True
    # targets are taken as the training scaled them, which its constant is for
    of_scaled: bool = False
    # no other metric says how good what has this one is
    is_alone: bool = False


class Task(NamedTuple):
    """A kind of targets, and what they ask of a network."""

    output: str  # activation of the output layer, when nobody says otherwise
    loss: str  # the same
    importance: str  # the metric by which that of columns is measured
    of_classes: bool = True  # outputs are scores of classes; else values in units
    # each output has a column of targets; else targets are the numbers of classes
    by_output: bool = False


class InputScaling(NamedTuple):
    """How inputs are scaled."""

    formula: str
    # its constants are found in the training rows (data/scaling.py)
    is_fitted: bool = False


class ThresholdRule(NamedTuple):
    """A rule of --threshold: the cut-off that it looks for."""

    sought: str
    numbers: tuple[str, ...]  # what its numbers are called
    holds: Callable[..., bool]  # whether they can be


class Initializer(NamedTuple):
    """How initial weights are drawn."""

    formula: str
    biases: bool = False  # biases are drawn too, else they are 0


ACTIVATIONS = {
    "relu": Activation("max(z, 0)", init="he", low=0.0),
    "sigmoid": Activation("1 / (1 + exp(-z))", low=0.0, high=1.0),
    "tanh": Activation("tanh(z)", low=-1.0, high=1.0),
    "lrelu": Activation("z, below 0: 0.01 z", init="he"),
    "softplus": Activation("log(1 + exp(z))", low=0.0),
    "silu": Activation("z / (1 + exp(-z))", init="he", low=0.0, from_input=True),
    "gelu": Activation(
        "z Phi(z), the normal distribution exactly", init="he", low=0.0, from_input=True
    ),
    "selu": Activation("1.0507 z, below 0: 1.7581 (exp(z) - 1)"),
    "linear": Activation("z"),
    "exp": Activation("exp(z)", low=0.0),
    "softmax": Activation(
        "exp(z) / sum(exp(z)), last layer only", couples_outputs=True, of_one="sigmoid"
    ),
    "steps": Activation(
        "z of the first, of each other that before and log(1 + exp(z)), last layer only",
        couples_outputs=True,
        of_one="linear",
    ),
}
# why there is no activation `step`
NO_STEP = (
    "the slope of a step is 0 wherever it has one, so that no weight below would ever change; "
    "use sigmoid, the smooth form of it"
)


def _deviance(formula: str, power: float, targets: str, has: Callable) -> Loss:
    """Return the deviance of a distribution whose variance goes with a power of its
    mean."""
    return Loss(
        formula,
        "exp",
        constants=(power,),
        task="regression",
        targets=targets,
        has=has,
        metric="deviance",
        importance="deviance",
    )


LOSSES = {
    "mse": Loss("(a - y)^2"),
    "mae": Loss("|a - y|", metric="mae", importance="mae", best="the median"),
    "huber": Loss(
        "(a - y)^2 / 2, beyond a distance of D: D (|a - y| - D/2)",
        constants=(1.0,),
        constant="D",
        holds=lambda distance: 1e-30 <= distance <= 1e30,
        range="1e-30 <= D <= 1e30",
        importance="huber",
        best="the best constant",
    ),
    "quantile": Loss(
        "A (y - a), where a is above y (1 - A) (a - y)",
        constants=(0.5,),
        constant="A",
        holds=lambda share: 0 < share < 1,
        range="0 < A < 1, or several, ascending",
        takes_several=True,
        task="regression",
        metric="pinball",
        importance="pinball",
        best="the quantile of all rows",
    ),
    "bce": Loss(
        "binary cross entropy, from the logits of a sigmoid layer",
        "sigmoid",
        weighs_classes=True,
    ),
    "focal": Loss(
        "bce of each class, times (1 - p)^G, where p is its probability",
        "sigmoid",
        constants=(2.0,),
        constant="G",
        holds=lambda power: 0 <= power <= 100,
        range="0 <= G <= 100",
        weighs_classes=True,
        best="the best constant",
    ),
    "ce": Loss("cross entropy, from the logits of a softmax layer", "softmax"),
    "poisson": _deviance(
        "2 (y log(y / a) - y + a)", 1.0, "0 or more", lambda y: y >= 0
    ),
    "gamma": _deviance("2 (y / a - 1 - log(y / a))", 2.0, "above 0", lambda y: y > 0),
    "tweedie": _deviance(
        "2 (y^(2-P) / ((1-P) (2-P)) - y a^(1-P) / (1-P) + a^(2-P) / (2-P))",
        1.5,
        "0 or more",
        lambda y: y >= 0,
    )._replace(
        constant="P",
        holds=lambda power: 1.001 <= power <= 1.999,
        range="1.001 <= P <= 1.999",
    ),
}


def loss_name(loss: str) -> str:
    """Return the name of a loss, as --loss writes it: huber=0.5 is huber."""
    return loss.partition("=")[0]


def loss_of(loss: str) -> Loss:
    """Return the record of a loss, as --loss writes it, with its constants; of several
    quantiles, which must not cross, with the output layer that they need."""
    name, _, texts = loss.partition("=")
    rule = LOSSES[name]
    if not texts:
        return rule
    constants = tuple(map(float, texts.split(",")))
    if len(constants) > 1:
        return rule._replace(constants=constants, activation="steps")
    return rule._replace(constants=constants)


def quantiles_of(loss: str) -> list[str]:
    """Return the shares of several quantiles, which are outputs for one target, as
    texts; none of another loss."""
    shares = loss.partition("=")[2].split(",")
    if len(shares) < 2:
        return []
    return [f"{float(share):g}" for share in shares]


def constant_told(loss: str, figures: dict) -> str:
    """Return in words the output, the same for all rows, beside which a training by a
    loss is judged: by --effort that of the metric. figures: of the training."""
    rule = loss_of(loss)
    if rule.best and (rule.metric or "effort" not in figures):
        return rule.best
    if figures["classes"] is None and not figures.get("labels"):
        return "the mean"
    return "the class shares"


OPTIMIZERS = {
    "adam": Optimizer(
        "Kingma and Ba 2014", 0.001, 0.15, moments=2, betas=(0.9, 0.999), epsilon=1e-8
    ),
    "sgd": Optimizer(
        "w -= rate * gradient, with --momentum if asked", 0.01, 0.0, takes_momentum=True
    ),
    # rates as usual, not found by cross-validation
    "rmsprop": Optimizer(
        "Hinton 2012", 0.001, 0.0, moments=1, betas=(0.9,), epsilon=1e-8
    ),
    "adagrad": Optimizer(
        "Duchi, Hazan and Singer 2011", 0.01, 0.0, moments=1, epsilon=1e-10
    ),
}
INITIALIZERS = {
    "he": Initializer("normal, variance 2 / fan_in"),
    "lecun": Initializer("normal, variance 1 / fan_in"),
    "glorot": Initializer("uniform in +-sqrt(6 / (fan_in + fan_out))"),
    "uniform": Initializer(
        "uniform in [0, 1], biases too, as the original", biases=True
    ),
}
COOLING = 0.25  # share of the epochs in which the rate falls
PLATEAU = "plateau"
USUAL_PATIENCES = 3  # epochs of such a training, as parts of its patience
SCHEDULES = {
    "cooldown": lambda done: min(1.0, (1.0 - done) / COOLING),
    PLATEAU: lambda done: min(1.0, (1.0 - done) / COOLING),
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
"""name -> share of the learning rate that holds when the share `done` (0..1) of the
training is over.
cooldown: constant, in the last quarter down to 0 in a straight line. plateau: the same,
of as many epochs as options.Options.last_epoch finds."""
# --dtype -> that of the parameters
DTYPES = {"float32": "float32", "float64": "float64", "tf32": "float32"}
AUGMENTATIONS = {
    "none": "images as they are",
    "shift": "each moved by up to a tenth of its sides",
    "mirror": "half of them mirrored, left to right",
    "both": "shift and mirror",
}  # of training images, drawn anew in each epoch
SCALINGS = {
    "none": InputScaling("values as they are"),
    "normalization": InputScaling("(x - min) / (max - min)", is_fitted=True),
    "standardization": InputScaling("(x - mean) / standard deviation", is_fitted=True),
    "pixel": InputScaling(
        "x / 255 where training had bytes, x / 65535 grey of 16 bits, floats as they are"
    ),
}
SCALING_ALIASES = {"standarization": "standardization"}  # the original's spelling

CALIBRATIONS = {
    "none": "probabilities as the network gives them",
    "temperature": "logits divided by one number (Guo et al. 2017)",
}
THRESHOLD_RULES = {
    "f1": ThresholdRule("the largest F1", (), lambda: True),
    "fbeta": ThresholdRule(
        "the largest F score, where recall counts B times",
        ("B",),
        lambda beta: beta > 0,
    ),
    "precision": ThresholdRule(
        "the largest recall at a precision of P or more", ("P",), lambda p: 0 < p <= 1
    ),
    "recall": ThresholdRule(
        "the largest precision at a recall of R or more", ("R",), lambda r: 0 < r <= 1
    ),
    "cost": ThresholdRule(
        "the least cost of false alarms (FP each) and missed rows (FN each)",
        ("FP", "FN"),
        lambda alarm_cost, miss_cost: (
            min(alarm_cost, miss_cost) >= 0 and max(alarm_cost, miss_cost) > 0
        ),
    ),
}
"""By which --threshold finds a number (core/thresholds.py)."""

TASKS = {
    "binary": Task("sigmoid", "bce", "roc_auc"),
    "multiclass": Task("softmax", "ce", "loss"),
    # several targets of two classes each
    "multilabel": Task("sigmoid", "bce", "roc_auc", by_output=True),
    "regression": Task("linear", "mse", "rmse", of_classes=False, by_output=True),
}


def _of_classes(formed_from: str, of_several: str | None = None) -> dict[str, str]:
    """Return what a metric of classes is formed from in each task of them: of several
    targets from each, their mean is taken. of_several: of several classes, where that
    differs."""
    return {
        "binary": formed_from,
        "multiclass": of_several or formed_from,
        "multilabel": "targets",
    }


METRICS = {
    "loss": Metric("loss", {}, False),  # the log loss of classes, the MSE of numbers
    "precision": Metric("precision", _of_classes("counts", "classes")),
    "recall": Metric("recall", _of_classes("counts", "classes")),
    "f1": Metric("F1", _of_classes("counts", "classes")),
    "micro_f1": Metric("micro F1", {"multilabel": "labels"}),
    # of several targets the share of rows wholly right
    "accuracy": Metric(
        "accuracy", _of_classes("counts", "classes") | {"multilabel": "labels"}
    ),
    "hamming_loss": Metric("Hamming loss", {"multilabel": "labels"}, False),
    "mcc": Metric("MCC", _of_classes("counts", "classes")),
    "roc_auc": Metric("ROC-AUC", {"binary": "ranks", "multilabel": "targets"}),
    "pr_auc": Metric("PR-AUC", {"binary": "ranks", "multilabel": "targets"}),
    "log_loss": Metric("log loss", _of_classes("probabilities"), False),
    "brier": Metric("Brier score", _of_classes("probabilities"), False),
    "mse": Metric("MSE", {"regression": "errors"}, False),
    "mae": Metric("MAE", {"regression": "errors"}, False),
    "rmse": Metric("RMSE", {"regression": "errors"}, False),
    "r2": Metric("R2", {"regression": "numbers"}),
    "deviance": Metric("mean deviance", {"regression": "losses"}, False),
    "pinball": Metric("pinball loss", {"regression": "losses"}, False, is_alone=True),
    # the share of rows whose target is not above a quantile
    "below": Metric("coverage", {"regression": "quantiles"}, is_alone=True),
    "huber": Metric("Huber loss", {"regression": "losses"}, False, of_scaled=True),
    "persistence_rmse": Metric("RMSE of persistence", {"regression": "series"}, False),
    "skill": Metric("skill", {"regression": "series"}),
}
"""Metrics in the order of --test. Of several classes precision, recall and f1 are the
plain means over the classes, and of several targets all but those of rows are the means
over the targets."""
MONITORS = [
    name
    for name, metric in METRICS.items()
    if not {"series", "losses", "quantiles"} & {*metric.of.values()}
]
# that only a training by their loss has
METRICS_OF_LOSSES = [
    name for name, metric in METRICS.items() if "losses" in metric.of.values()
]


def metrics_told(figures: Collection[str]) -> list[str]:
    """Return the names of METRICS, of some figures, that are told to a person: of a
    quantile those of quantiles alone, for the distance from it says nothing."""
    names = [name for name in METRICS if name in figures]
    alone = [name for name in names if METRICS[name].is_alone]
    return alone or names


# name -> multiply-adds of forward passes that the trainings of --effort may take
# together
EFFORTS = {
    "quick": 5e9,
    "standard": 1e11,
    "best": 2e12,
}
# --validation: each network of a cross-validation is judged by the fold that tests it
OF_FOLD = "fold"
# of one number
MOST_EDGES = 65
MOST_QUANTILES = 99
MOST_WAVES = 256
# that may be asked for: one value may have an edge of its own
MOST_PIECES = MOST_EDGES - 2

BACKENDS = {
    "auto": "the best for the network's size and this machine",
    "seq": "one thread, plain loops: the readable truth",
    "omp": "SIMD and threads on the processor",
    "cuda": "an NVIDIA GPU, by our own kernels and cuBLAS",
    "cudnn": "an NVIDIA GPU, cuDNN's convolution (forward, input's gradient) and pooling (forward)",
}
DISTRIBUTIONS = {
    "mirrored": "each device holds the parameters, gradients are added up over all",
    "central": "one device holds the parameters, the others fetch them for each batch",
}
