"""Trials: what each of several networks is trained with."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ds import Dataset
from ..nn import Network
from .options import Options, options_of
from .vary import SETTINGS, Variation, layers_with


@dataclass(frozen=True)
class Trial:
    """One network's options and layers (None: those of all), and the settings that were drawn for it, by name.

    own_options: the options that may not be those of all, as a model file keeps them.
    """

    options: Options
    layers: str | None = None
    settings: dict = field(default_factory=dict)
    own_options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Trials:
    """The trials of all networks, in their order.

    vary: the value of --vary. chosen: the names of the drawn settings, and of settings that follow from these. keep:
    how many of the networks are chosen at most, counted as often as they are.
    """

    each: list[Trial]
    vary: str | None = None
    keep: int | None = None
    chosen: list[str] | None = None

    @classmethod
    def alike(cls, count: int, options: Options, keep: int | None = None) -> Trials:
        """Return those of networks that differ by their seeds alone."""
        return cls([Trial(options)] * count, None, keep)

    @classmethod
    def drawn(cls, net: Network, ds: Dataset, given: dict, count: int, text: str, keep: int | None = None) -> Trials:
        """Draw what --vary says for networks with the seeds net.seed, net.seed + 1, ...

        given: as options_of takes it. Raises UsageError for what --vary cannot be.
        """
        variation, options = Variation.parse(text), options_of(net, ds, given)
        variation.check(given, options.optimizer, net.written_layers)
        each = []
        for number in range(count):
            drawn = variation.draw(net.seed + number)
            own = variation.options(drawn, options.optimizer)
            layers = layers_with(net.written_layers, drawn) if {"hidden", "dropout"} & {*drawn} else None
            used = options_of(net, ds, {**given, **own})
            own_options = {name: value for name, value in used.config().items() if name in SETTINGS}
            each.append(Trial(used, layers, variation.settings(drawn, own), own_options))
        usual = options.config()
        own = {name for one in each for name, value in one.own_options.items() if usual.get(name) != value}
        return cls(each, text, keep, sorted({*variation.of, *own}))

    @property
    def config(self) -> dict:
        """Return what the model file keeps of where the networks come from."""
        own = {"vary": self.vary, "keep": self.keep, "chosen": self.chosen}
        return {name: value for name, value in own.items() if value is not None}
