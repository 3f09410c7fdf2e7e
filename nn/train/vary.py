"""--vary: the settings in which networks that are trained together differ, and how each
one's are drawn."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..core.random import STREAM_VARY, uniform
from ..layers import DROPOUT_DECIMALS, layers_with
from ..nn_aux import OPTIMIZERS
from ..settings.flags import BY_NAME, DEFAULTS
from ..settings.values import SHARE, Value
from ..utils import UsageError, closest, listed

DRAWN_DIGITS = 4  # of a number that is drawn: it is printed as it is trained with


# that may be varied; the place of a name decides the random numbers that it is drawn
# from
DRAWN_SETTINGS = (
    "learning_rate",
    "weight_decay",
    "momentum",
    "batch_number",
    "epochs",
    "optimizer",
    "schedule",
    "dropout",
    "hidden",
    "number_embedding",
)
WITHOUT_RANGE = ("optimizer", "schedule", "hidden", "number_embedding")
# the scale of a range above 0
LOGARITHMIC = ("learning_rate", "weight_decay", "batch_number")
_HIDDEN_LAYERS = re.compile(r"[1-9][0-9]*(:[a-z]+)?(-[1-9][0-9]*(:[a-z]+)?)*")
_LAYER_SETTINGS = {  # settings that are no Options
    "dropout": SHARE,
    "hidden": Value(
        str,
        "the sizes of hidden layers with - between them, 128-64",
        holds=_HIDDEN_LAYERS.fullmatch,
    ),
}


@dataclass(frozen=True)
class Range:
    """Numbers from low to high."""

    low: float
    high: float
    log: bool

    def at(self, share: float) -> float:
        """Return the number at a share, 0 to below 1, of the range; whole where the
        ends are."""
        low = self.low
        high = self.high
        is_whole = isinstance(low, int)
        if self.log:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
            if is_whole:
                value = round(value)
        else:
            if is_whole:
                value = math.floor(low + share * (high - low + 1))
            else:
                value = low + share * (high - low)
        return min(
            max(value if is_whole else float(f"{value:.{DRAWN_DIGITS}g}"), low), high
        )


@dataclass(frozen=True)
class Choice:
    """Values of which each is as likely as another."""

    values: tuple

    def at(self, share: float):
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True)
class Variation:
    """The value of --vary: the Range or Choice of each setting by its name."""

    text: str
    of: dict[str, Range | Choice]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Read NAME=LOW..HIGH or NAME=A|B|C, with commas between them. Raises
        UsageError that shows the item."""
        ranges: dict[str, Range | Choice] = {}
        for item in text.split(","):
            name, equals, values = map(str.strip, item.partition("="))
            if name in BY_NAME:
                name = BY_NAME[name].name
            if not equals or not values:
                raise UsageError(
                    f"--vary {item.strip()}: expected NAME=LOW..HIGH or NAME=A|B"
                )
            if name not in DRAWN_SETTINGS:
                close = closest(name, DRAWN_SETTINGS)
                if close:
                    cure = f"did you mean {close}?"
                else:
                    cure = f"choose from {listed(DRAWN_SETTINGS)}"
                raise UsageError(f"--vary {item.strip()}: no such setting; {cure}")
            if name in ranges:
                raise UsageError(
                    f"--vary {text}: {name} stands there twice; leave one out"
                )
            ranges[name] = _values(item.strip(), name, values)
        return cls(text, ranges)

    def draw(self, seed: int, optimizer: str = DEFAULTS["optimizer"]) -> dict:
        """Return a network's settings; each depends on its own range or choice and the
        seed alone. optimizer: that of networks where it is not varied; one that takes
        no momentum has none."""
        drawn = {
            name: of.at(uniform(1, seed, STREAM_VARY + DRAWN_SETTINGS.index(name))[0])
            for name, of in self.of.items()
        }
        if not OPTIMIZERS[drawn.get("optimizer", optimizer)].takes_momentum:
            drawn.pop("momentum", None)
        return drawn

    def options(self, drawn: dict) -> dict:
        """Return those of the drawn settings that are Options."""
        return {
            name: value for name, value in drawn.items() if name not in _LAYER_SETTINGS
        }

    def check(self, settings: dict, optimizer: str, layers: str) -> None:
        """Raise UsageError for what goes neither with the flags that are given nor with
        the layers."""
        for name in self.of:
            if name != "epochs" and settings.get(name):  # epochs always have a value
                raise UsageError(
                    f"--vary {name}: --{name} {settings[name]} is given too; leave one out"
                )
        if "optimizer" in self.of:
            optimizers = self.of["optimizer"].values
        else:
            optimizers = (optimizer,)
        if "momentum" in self.of and not any(
            OPTIMIZERS[name].takes_momentum for name in optimizers
        ):
            takers = " or ".join(
                name for name, rule in OPTIMIZERS.items() if rule.takes_momentum
            )
            raise UsageError(
                f"--vary momentum: is for --optimizer {takers}, not {' or '.join(optimizers)}"
            )
        if (
            "dropout" in self.of
            and "hidden" not in self.of
            and layers == layers_with(layers, {"dropout": 0.5})
        ):
            raise UsageError(
                f"--vary dropout: --layers {layers} has no hidden layer to drop outputs of"
            )


def _values(item: str, name: str, text: str) -> Range | Choice:
    """Return what stands behind NAME=. Raises UsageError."""
    low, dots, high = text.partition("..")
    if dots and name in WITHOUT_RANGE:
        raise UsageError(f"--vary {item}: {name} has no range; expected {name}=A|B")
    if not dots:
        return Choice(
            tuple(
                _value(item, name, item_text.strip()) for item_text in text.split("|")
            )
        )
    ends = [_value(item, name, end.strip()) for end in (low, high)]
    if not ends[0] < ends[1]:
        raise UsageError(
            f"--vary {item}: expected the lower bound first, then a higher one"
        )
    return Range(*ends, log=name in LOGARITHMIC and ends[0] > 0)


def _value(item: str, name: str, text: str):
    """Return one value of a setting, checked. Raises UsageError."""
    value = _LAYER_SETTINGS.get(name) or BY_NAME[name].value
    try:
        checked = value(name, text)
    except UsageError as error:
        raise UsageError(f"--vary {item}: {error}") from None
    if name == "dropout":
        return round(checked, DROPOUT_DECIMALS)
    return checked
