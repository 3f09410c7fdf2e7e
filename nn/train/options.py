"""Options: the settings that change what a training computes, with their defaults and checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields

from ..data.stream import StreamedDataset
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import (
    CALIBRATIONS,
    DEFAULT_CALIBRATION,
    DEFAULT_OPTIMIZER,
    DEFAULT_SCHEDULE,
    DEFAULTS,
    LEARNING_RATES,
    OPTIMIZERS,
    REFERENCE,
    SCALING_ALIASES,
    SCALINGS,
    SCHEDULES,
    WEIGHT_DECAYS,
    check_reference,
    threshold_rules,
    threshold_value,
)
from ..utils import UsageError

LATER = {"calibrate": DEFAULT_CALIBRATION}  # flags that came after the first files, whose bytes stay as they were


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

    def __post_init__(self):
        for option in fields(self):
            value = getattr(self, option.name)
            if not option.metadata["holds"](value):
                raise UsageError(f"--{option.name} {value}: must be {option.metadata['expected']}")

    def config(self) -> dict:
        """Return the settings as files keep them: those of LATER only where they are not the default."""
        return {name: value for name, value in asdict(self).items() if LATER.get(name) != value}


def options_of(net: Network, ds: Dataset | StreamedDataset, given: dict) -> Options:
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
        "calibrate": DEFAULT_CALIBRATION,
    }
    if net.reference:
        usual |= {name: REFERENCE[name] for name in ("weight_decay", "schedule")} | {"scaling": "none", "holdout": 0.0}
    given = {**given, "scaling": SCALING_ALIASES.get(given["scaling"], given["scaling"])}
    options = Options(**{name: usual[name] if value is None else value for name, value in given.items()})
    if options.momentum and not OPTIMIZERS[optimizer].takes_momentum:
        takers = " or ".join(name for name, known in OPTIMIZERS.items() if known.takes_momentum)
        raise UsageError(f"--momentum is for --optimizer {takers}, not {optimizer}")
    return options


def _check_original(given: dict) -> None:
    """Raise UsageError for a flag that the original program's way of training does not know."""
    for name, usual in LATER.items():
        if given[name] not in (None, usual):
            raise UsageError(f"--{name} {given[name]}: --reference has no such thing; leave one out")
    if isinstance(given["threshold"], str):
        raise UsageError(f"--threshold {given['threshold']}: --reference takes a number only; leave one out")


def is_decided_later(options: Options) -> bool:
    """Return whether the network's threshold or temperature are to be found after the last epoch."""
    return isinstance(options.threshold, str) or options.calibrate != DEFAULT_CALIBRATION
