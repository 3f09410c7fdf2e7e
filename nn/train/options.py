"""Options: the settings that change what a training computes, with their defaults and checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache

from ..core.metrics import check_metric
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import (
    CALIBRATIONS,
    DEFAULT_CALIBRATION,
    DEFAULT_OPTIMIZER,
    DEFAULT_SCHEDULE,
    DEFAULTS,
    LEARNING_RATES,
    NO_CLASS_WEIGHT,
    NUMBER_EMBEDDINGS,
    OF_FOLD,
    OPTIMIZERS,
    REFERENCE,
    SCALING_ALIASES,
    SCALINGS,
    SCHEDULES,
    WEIGHT_DECAYS,
    check_reference,
    is_class_weight,
    is_number_embedding,
    is_validation,
    threshold_rules,
    threshold_value,
    validation_value,
)
from ..utils import UsageError
from .validation import LOSS, Monitor

LATER = {  # flags that came after the first files, whose bytes stay as they were
    "calibrate": DEFAULT_CALIBRATION,
    "class_weight": NO_CLASS_WEIGHT,
    "validation": None,
    "monitor": None,
    "patience": None,
    "refit": False,
    "split_seed": None,
    "number_embedding": None,
    "clip": False,
}
OF_VALIDATION = ("monitor", "patience", "refit")  # flags that mean nothing without validation rows


def _range(expected: str, holds: Callable[[float], bool]):
    """Return a field of Options: a number for which `holds` is true."""
    return field(metadata={"expected": expected, "holds": holds})


def _name(known: Iterable[str]):
    """Return a field of Options: one of the names."""
    return _range(f"one of {', '.join(known)}", lambda value: value in known)


def _is_threshold(value: float | str) -> bool:
    try:
        threshold_value(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Options:
    """The flags that change what training computes, defaults filled in: keywords of `train`."""

    epochs: int = _range("at least 1", lambda value: value >= 1)
    batch_number: int = _range("from 1 to 2147483647", lambda value: 1 <= value < 2**31)
    learning_rate: float = _range("positive and finite", lambda value: 0 < value < math.inf)
    optimizer: str = _name(OPTIMIZERS)
    momentum: float = _range("at least 0 and below 1", lambda value: 0 <= value < 1)
    weight_decay: float = _range("at least 0 and finite", lambda value: 0 <= value < math.inf)
    schedule: str = _name(SCHEDULES)
    scaling: str = _name(SCALINGS)
    holdout: float = _range("at least 0 and below 1", lambda value: 0 <= value < 1)
    threshold: float | str = _range(f"a finite number, {threshold_rules()}", _is_threshold)
    calibrate: str = _name(CALIBRATIONS)
    class_weight: str = _range("none, balanced, or a number of at least 0 for each class", is_class_weight)
    validation: float | str | None = _range("a share above 0 and below 1, or a file", is_validation)
    monitor: str | None = _range("the name of a metric", lambda value: value is None or isinstance(value, str))
    patience: int | None = _range("at least 1", lambda value: value is None or value >= 1)
    refit: bool = _range("true or false", lambda value: isinstance(value, bool))
    split_seed: int | None = _range("from 0 to 4294967295", lambda value: value is None or 0 <= value < 2**32)
    number_embedding: str | None = _range(NUMBER_EMBEDDINGS, is_number_embedding)
    clip: bool = _range("true or false", lambda value: isinstance(value, bool))

    def __post_init__(self):
        for option in fields(self):
            value = getattr(self, option.name)
            if not option.metadata["holds"](value):
                raise UsageError(f"--{option.name} {value}: must be {option.metadata['expected']}")

    @property
    def monitored(self) -> Monitor | None:
        """Return what chooses the best epoch; None without validation rows."""
        return None if self.validation is None else Monitor(self.monitor or LOSS, self.patience)

    @property
    def validation_share(self) -> float:
        """Return the share of the rows that --holdout leaves; 0 without validation rows or where a file has them."""
        return self.validation if isinstance(self.validation, float) else 0.0

    def config(self) -> dict:
        """Return the settings as files keep them: those of LATER only where they are not the default."""
        return {name: value for name, value in asdict(self).items() if LATER.get(name) != value}


def options_of(net: Network, ds: Dataset, given: dict) -> Options:
    """Fill in defaults for None and check every value. Raises UsageError that names the flag."""
    if net.reference:
        check_reference(given)
        _check_original(given)
    optimizer = given["optimizer"] or (REFERENCE["optimizer"] if net.reference else DEFAULT_OPTIMIZER)
    if optimizer not in OPTIMIZERS:
        raise UsageError(f"--optimizer {optimizer}: must be one of {', '.join(OPTIMIZERS)}")
    usual = {
        "optimizer": optimizer,
        "learning_rate": LEARNING_RATES[optimizer],
        "weight_decay": WEIGHT_DECAYS[optimizer],
        "schedule": DEFAULT_SCHEDULE,
        "scaling": "pixel" if ds.are_images else "standardization",
        "batch_number": DEFAULTS["batch_number"],
        "holdout": DEFAULTS["holdout"],
        "threshold": DEFAULTS["threshold"],
        **LATER,
    }
    if net.reference:
        usual |= {name: REFERENCE[name] for name in ("weight_decay", "schedule")} | {"scaling": "none", "holdout": 0.0}
    given = {
        **given,
        "scaling": SCALING_ALIASES.get(given["scaling"], given["scaling"]),
        "validation": _as_validation(given["validation"]),
    }
    options = Options(**{name: usual[name] if value is None else value for name, value in given.items()})
    if options.momentum and not OPTIMIZERS[optimizer].takes_momentum:
        takers = " or ".join(name for name, known in OPTIMIZERS.items() if known.takes_momentum)
        raise UsageError(f"--momentum is for --optimizer {takers}, not {optimizer}")
    if options.clip and net.task != "regression":
        raise UsageError(f"--clip: is for regression, the task is {net.task}; leave it out")
    _check_validation(net, options)
    return options


def _as_validation(value):
    try:
        return None if value is None else validation_value(value)
    except ValueError:
        return value  # which Options refuses


def _check_validation(net: Network, options: Options) -> None:
    """Raise UsageError for a flag about validation rows that there are not, or a metric that does not fit."""
    for name in OF_VALIDATION:
        value = getattr(options, name)
        if options.validation is None and value != LATER[name]:
            flag = f"--{name}" if value is True else f"--{name} {value}"
            raise UsageError(f"{flag}: needs validation rows; give --validation SHARE or FILE")
    if options.monitor is not None:
        check_metric(options.monitor, net.task)
    if options.refit and options.validation == OF_FOLD:
        raise UsageError(f"--refit: trains on the rows of --validation {OF_FOLD} too, which are to test; leave it out")
    if options.refit and isinstance(options.validation, str):
        raise UsageError(
            "--refit: trains on the training and validation rows of one data set; "
            f"give --validation SHARE, not {options.validation}"
        )


def _check_original(given: dict) -> None:
    """Raise UsageError for a flag that the original program's way of training does not know."""
    for name, usual in LATER.items():
        if given[name] not in (None, usual):
            flag = f"--{name}" if given[name] is True else f"--{name} {given[name]}"
            raise UsageError(f"{flag}: --reference has no such thing; leave one out")
    if isinstance(given["threshold"], str):
        raise UsageError(f"--threshold {given['threshold']}: --reference takes a number only; leave one out")


def is_decided_later(options: Options) -> bool:
    """Return whether the network's threshold or temperature are to be found after the last epoch."""
    return isinstance(options.threshold, str) or options.calibrate != DEFAULT_CALIBRATION


def without_validation(options: Options) -> Options:
    """Return the options of the training that --refit adds: on the validation rows too."""
    return replace(options, **{name: LATER[name] for name in ("validation", *OF_VALIDATION)})


@lru_cache(maxsize=64)
def learning_rates(schedule: str, learning_rate: float, epochs: int, epoch: int) -> tuple[float, ...]:
    """Return the rates at 0, 1/8 .. 8/8 of an epoch's rows; see EpochSettings.

    epoch: how many are done of `epochs`. Many networks ask for the same ones.
    """
    factor = SCHEDULES[schedule]
    return tuple(learning_rate * factor((epoch + eighth / 8) / epochs) for eighth in range(9))
