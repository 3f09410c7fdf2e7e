"""Options: the settings that change what a training computes, checked, with their
defaults filled in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, make_dataclass
from functools import lru_cache

import numpy as np

from ..backends.engine import EpochSettings
from ..core.metrics import check_metric
from ..data.splits import Split
from ..ds import Dataset
from ..layers import scaled_layer
from ..nn import Network
from ..nn_aux import (
    COOLING,
    LOSSES,
    METRICS,
    OF_FOLD,
    OPTIMIZERS,
    PLATEAU,
    SCHEDULES,
    Optimizer,
    loss_name,
)
from ..settings.flags import (
    BY_NAME,
    DEFAULTS,
    REFERENCE,
    check_reference,
    checked_settings,
    settings_of,
)
from ..settings.values import enumerated, joined_items
from ..test import check_threshold
from ..utils import UsageError

_TRAIN_SETTINGS = settings_of("train")
# settings that reach the kernels under their names
_OF_EPOCH = [
    field.name
    for field in fields(EpochSettings)
    if field.name in {flag.name for flag in _TRAIN_SETTINGS}
]
# --schedule plateau: a metric that gains less, as a share, in its patience, or in that
# share of the epochs done, is flat
NEXT_TO_NOTHING = 0.01
FLAT = 1 / 3
LOSS = "loss"  # the metric that is what training minimises, on the validation rows
# settings of a model file
MODEL_SETTINGS = ("task", "loss", "init", "seed", "backend", "reference")
# settings that mean nothing without validation rows
OF_VALIDATION = ("monitor", "patience", "refit")


@dataclass(frozen=True)
class Monitor:
    """The metric by which epochs are compared, and how many without a better one are
    waited for."""

    name: str
    patience: int | None = None

    def is_better(self, value: float, than: float) -> bool:
        """Return whether a value is better; one that is undefined (nan) never is."""
        if METRICS[self.name].higher_is_better:
            return value > than
        return value < than

    def best(self, values: Sequence[float]) -> int | None:
        """Return the best epoch, from 1, the first of equals; None without a value that
        is defined."""
        best = None
        for epoch, value in enumerate(values, 1):
            if not math.isnan(value) and (
                best is None or self.is_better(value, values[best - 1])
            ):
                best = epoch
        return best

    def sorted(self, values: Mapping[int, float | None]) -> list[int]:
        """Return the keys by their values, the best first; of equals the lower, and at
        the end those without one."""
        if METRICS[self.name].higher_is_better:
            sign = -1
        else:
            sign = 1
        defined = {
            key: value
            for key, value in values.items()
            if value is not None and not math.isnan(value)
        }
        return [
            *sorted(defined, key=lambda key: (sign * defined[key], key)),
            *sorted(values.keys() - defined.keys()),
        ]

    def is_over(self, values: Sequence[float]) -> bool:
        """Return whether the last `patience` epochs were no better than the best before
        them."""
        return (
            self.patience is not None
            and len(values) - (self.best(values) or 0) >= self.patience
        )


class Options(
    make_dataclass(
        "_Options", [(flag.name, flag.type) for flag in _TRAIN_SETTINGS], frozen=True
    )
):
    """The settings of FLAGS that are keywords of train, for one network: attributes by
    their names."""

    @property
    def monitored(self) -> Monitor | None:
        """Return what chooses the best epoch; None without validation rows."""
        if self.validation is None:
            return None
        patience = self.patience
        if self.schedule == PLATEAU:  # which decides when the rate falls
            patience = None
        return Monitor(self.monitor or LOSS, patience)

    def last_epoch(self, values: Sequence[float]) -> int:
        """Return the last epoch, given the monitored metric after each so far: of
        `plateau` that at whose three quarters the metric has stopped to gain."""
        if self.schedule != PLATEAU or not values or self.patience is None:
            return self.epochs
        higher = METRICS[self.monitored.name].higher_is_better
        flat = flat_after(tuple(values), self.patience, higher)
        if flat is None:
            return self.epochs
        return min(self.epochs, math.ceil(flat / (1 - COOLING)))

    @property
    def validation_share(self) -> float:
        """Return the share of the rows that --holdout leaves; 0 without validation rows
        or where a file has them."""
        if isinstance(self.validation, float):
            return self.validation
        return 0.0

    def seed_of_split(self, seed: int) -> int:
        """Return the seed of the split; seed: the network's."""
        if self.split_seed is None:
            return seed
        return self.split_seed

    @property
    def vectors(self) -> list[str]:
        """Return the vectors that training changes beside the parameters: moment1,
        moment2, scales."""
        return self.epoch_settings(0, 0, self.epochs).vectors

    def epoch_settings(self, seed: int, epoch: int, epochs: int) -> EpochSettings:
        """Return how an epoch learns; epoch: how many are done of `epochs`. Its fields
        that have the name of a setting have that setting's value."""
        named = {name: getattr(self, name) for name in _OF_EPOCH}
        rates = learning_rates(self.schedule, self.learning_rate, epochs, epoch)
        return EpochSettings(batch=self.batch_number, rates=rates, seed=seed, **named)

    @property
    def first_threshold(self) -> float:
        """Return the threshold of class 1, until a rule has found another one."""
        if isinstance(self.threshold, str):
            return DEFAULTS["threshold"]
        return self.threshold

    def facts_with(self, split: Split) -> dict:
        """Return what a model keeps of them and of a split beside its settings, by the
        names of nn.facts.Facts: what a rule or a calibration finds comes later."""
        holdout = self.holdout if len(split.holdout) else 0.0
        return {
            "threshold": self.first_threshold,
            "temperature": 1.0,
            "holdout": holdout,
        }

    def config(self) -> dict:
        """Return the settings as files keep them: those that came later only where they
        are not the default."""
        usual = {flag.name: flag.default for flag in _TRAIN_SETTINGS if flag.later}
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in usual or value != usual[name]
        }


def config_of(net: Network, ds: Dataset, options: Options) -> dict:
    """Return the settings of a network, its training and its table, as files keep
    them."""
    config = {
        **options.config(),
        "layers": net.spec,
        **{name: getattr(net, name) for name in MODEL_SETTINGS},
        "dtype": net.asked_dtype,
        "target": ds.target,
        "tf32": False,  # this and the next one as files of earlier versions have them
        "window": None,
        **ds.column_choices,
    }
    if ds.left_out_places:
        config["left_out"] = list(ds.left_out_places)
    if ds.kept_choices:
        config["table"] = ds.kept_choices
    return config


def options_of(net: Network, ds: Dataset, settings: dict) -> Options:
    """Return the settings of a training; settings: those that are not left to their
    defaults.

    Raises UsageError that names the flag.
    """
    settings = checked_values(settings)
    if net.reference:
        check_reference(settings)
        usual = {
            name: REFERENCE[name] for name in ("optimizer", "weight_decay", "schedule")
        }
        usual |= {"scaling": "none", "holdout": 0.0}
    else:
        usual = {"scaling": "pixel" if ds.are_images else "standardization"}
    defaults = {flag.name: flag.default for flag in _TRAIN_SETTINGS}
    optimizer = OPTIMIZERS[{**defaults, **usual, **settings}["optimizer"]]
    defaults |= {
        "learning_rate": optimizer.learning_rate,
        "weight_decay": optimizer.weight_decay,
    }
    options = Options(**defaults | usual | settings)
    _check_constants(options)
    if options.clip and net.task != "regression":
        raise UsageError(
            f"--clip: is for regression, the task is {net.task}; leave it out"
        )
    if not isinstance(options.threshold, str):
        check_threshold(net, settings.get("threshold"))
    check_calibration(asdict(options))
    _check_class_weight(net, options)
    _check_data(net, ds, options)
    _check_frozen(net, options)
    _check_scales(net, options)
    _check_validation(net, options)
    return options


def check_calibration(settings: Mapping) -> None:
    """Raise UsageError for probabilities that are to be calibrated although weights of
    classes have moved them: a temperature makes them more or less sure, and leaves
    their mean where the weights have put it."""
    calibrate = settings.get("calibrate", DEFAULTS["calibrate"])
    weights = settings.get("class_weight", DEFAULTS["class_weight"])
    if calibrate != DEFAULTS["calibrate"] and weights != DEFAULTS["class_weight"]:
        reason = "the probabilities are those of classes that are weighted, which no temperature puts right"
        raise UsageError(
            f"--calibrate {calibrate} beside --class_weight {weights}: {reason}; leave one of them out"
        )


def _check_class_weight(net: Network, options: Options) -> None:
    """Raise UsageError for weights of the classes of several targets, of which a loss
    has none."""
    if options.class_weight == DEFAULTS["class_weight"] or net.task != "multilabel":
        return
    takers = [name for name, rule in LOSSES.items() if rule.weighs_classes]
    if loss_name(net.loss) not in takers:
        raise UsageError(
            f"--class_weight {options.class_weight}: of several yes/no targets is for --loss "
            f"{enumerated(takers, 'or')}, not {net.loss}; leave it out"
        )


def _check_data(net: Network, ds: Dataset, options: Options) -> None:
    """Raise UsageError for a setting of other data: of words where there are images, of
    images where a network sees none."""
    if options.target_means and ds.are_images:
        raise UsageError(
            "--target_means: is for words, the data are images; leave it out"
        )
    if options.augment == "none":
        return
    if not ds.are_images:
        raise UsageError(
            f"--augment {options.augment}: is for images, the data are a table; leave it out"
        )
    if net.layers[0].in_shape != tuple(ds.row_shape):
        shape = "x".join(map(str, ds.row_shape))
        reason = f"not an image; begin --layers with {shape}"
        raise UsageError(
            f"--augment {options.augment}: the network has {net.inputs} inputs in a row, {reason}"
        )


def _check_frozen(net: Network, options: Options) -> None:
    """Raise UsageError unless a layer with parameters is left that learns."""
    count = sum(layer.parameters > 0 for layer in net.layers)
    if options.freeze and options.freeze >= count:
        raise UsageError(
            f"--freeze {options.freeze}: the network has {count} layers with parameters, of which one at least learns"
        )


def _check_scales(net: Network, options: Options) -> None:
    """Raise UsageError for scales of inputs that no dense layer sums up."""
    if options.scale_rate and scaled_layer(net.layers) is None:
        raise UsageError(
            f"--scale_rate {options.scale_rate:g}: is of the inputs of a dense layer, and a layer of images comes first; leave it out"
        )


def _check_none_needed(options: Options) -> None:
    """Raise UsageError for a setting that needs validation rows."""
    for name in OF_VALIDATION:
        value = getattr(options, name)
        if not value:
            continue
        flag = f"--{name} {value}"
        if value is True:
            flag = f"--{name}"
        raise UsageError(
            f"{flag}: needs validation rows; give --validation SHARE or FILE"
        )


def _check_constants(options: Options) -> None:
    """Raise UsageError for a constant that the optimiser's formula does not have."""
    optimizer = OPTIMIZERS[options.optimizer]
    if options.momentum and not optimizer.takes_momentum:
        raise _not_taken("momentum", options, lambda rule: rule.takes_momentum)
    if options.epsilon and not optimizer.epsilon:
        raise _not_taken("epsilon", options, lambda rule: rule.epsilon)
    if options.betas and len(options.betas) != len(optimizer.betas):
        takers = enumerated(
            [
                f"{len(rule.betas)} numbers of {name}"
                for name, rule in OPTIMIZERS.items()
                if rule.betas
            ],
            "or",
        )
        raise UsageError(
            f"--betas {joined_items(options.betas)}: expected {takers}; --optimizer is {options.optimizer}"
        )


def _not_taken(
    name: str, options: Options, takes: Callable[[Optimizer], object]
) -> UsageError:
    """Return the error for a constant of other optimisers."""
    takers = [taker for taker, optimizer in OPTIMIZERS.items() if takes(optimizer)]
    return UsageError(
        f"--{name} is for --optimizer {enumerated(takers, 'or')}, not {options.optimizer}"
    )


def _check_validation(net: Network, options: Options) -> None:
    """Raise UsageError for a flag about validation rows that there are not, or a metric
    that does not fit."""
    if options.validation is None:
        _check_none_needed(options)
    if options.monitor is not None:
        check_metric(options.monitor, net.task)
    if options.refit and options.validation == OF_FOLD:
        raise UsageError(
            f"--refit: trains on the rows of --validation {OF_FOLD} too, which are to test; leave it out"
        )
    if options.refit and isinstance(options.validation, str):
        cure = f"give --validation SHARE, not {options.validation}"
        raise UsageError(
            f"--refit: trains on the training and validation rows of one data set; {cure}"
        )


def settings_by_kind(function: str, settings: dict, *kinds: str) -> list[dict]:
    """Return the settings of each kind (settings.flags.Flag.taker), by the names of the
    flags, without those that are None. Raises UsageError for one of another kind;
    function: whose keywords they are."""
    settings = checked_settings(function, settings, *kinds)
    return [
        {name: value for name, value in settings.items() if BY_NAME[name].taker == kind}
        for kind in kinds
    ]


def checked_values(settings: Mapping) -> dict:
    """Return settings with the values that their flags make of them. Raises
    UsageError."""
    return {name: BY_NAME[name].check(value) for name, value in settings.items()}


def is_decided_later(options: Options) -> bool:
    """Return whether the network's threshold or temperature are to be found after the
    last epoch."""
    return (
        isinstance(options.threshold, str) or options.calibrate != DEFAULTS["calibrate"]
    )


@lru_cache(maxsize=64)
def flat_after(
    values: tuple[float, ...], patience: int, higher_is_better: bool = False
) -> int | None:
    """Return after how many epochs the best value had gained next to nothing for as
    long as the patience, or a third of them if that is more; None: never.

    Many networks ask for the same values.
    """
    losses = np.array(values)
    if higher_is_better:
        losses = -losses
    best = np.minimum.accumulate(np.where(np.isnan(losses), np.inf, losses))
    done = np.arange(patience + 1, len(best) + 1)
    before = best[done - 1 - np.maximum(patience, np.ceil(done * FLAT)).astype(int)]
    with np.errstate(invalid="ignore"):  # of those that are undefined
        gains = before - best[done - 1]
    are_flat = ~(gains >= NEXT_TO_NOTHING * np.abs(before))
    if not are_flat.any():
        return None
    return int(done[are_flat.argmax()])


@lru_cache(maxsize=64)
def learning_rates(
    schedule: str, learning_rate: float, epochs: int, epoch: int
) -> tuple[float, ...]:
    """Return the rates at 0, 1/8 .. 8/8 of an epoch's rows; see EpochSettings.

    epoch: how many are done of `epochs`. Many networks ask for the same ones.
    """
    factor = SCHEDULES[schedule]
    return tuple(
        learning_rate * factor((epoch + eighth / 8) / epochs) for eighth in range(9)
    )
