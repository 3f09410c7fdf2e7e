"""Limits of several networks together: settings that they refuse, and how many of them the memory holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.records import COPIES, network_bytes
from ..layers import Layer, parse
from ..nn import Network
from ..utils import NnError, UsageError, available_memory
from .trials import Trial, Trials


def check_pack(net: Network, count: int, flag: str, ranks: int) -> None:
    """Raise UsageError for what several networks cannot do. flag: what asks for them. ranks: that share them out."""
    if net.reference:
        raise UsageError(f"{flag}: --reference trains one network; leave one out")
    if net.seed + count > 2**32:
        raise UsageError(f"{flag}: seeds from {net.seed} on must end below 4294967296; use a smaller --seed")
    if ranks > count:
        raise UsageError(f"{flag}: {count} networks are too few for {ranks} ranks; start at most {count}")


def check_memory_for(readers: Sequence[Network], trials: Trials, flag: str) -> None:
    """Raise NnError, which says how many fit, if the networks of the trials do not fit the free memory.

    readers: for each trial a network with its inputs.
    """
    needed = np.cumsum([bytes_for(net, trial) for net, trial in zip(readers, trials.each, strict=True)])
    there = available_memory()
    if there is not None and needed[-1] > there:
        fit = int(np.searchsorted(needed, there, side="right"))
        name = flag.partition(" ")[0]
        cure = f"{name} {fit} fits" if fit > 1 else "use smaller layers"
        raise NnError(
            f"{flag}: {len(needed)} networks need {needed[-1] / 1e9:.1f} GB, but only {there / 1e9:.1f} GB are free; "
            f"{cure}"
        )


def training_bytes_of(readers: Sequence[Network], trials: Trials) -> list[int]:
    """Return what the training of each network of the trials takes of --memory; readers: see check_memory_for."""
    return [
        network_bytes(layers_of(net, trial), net.dtype, COPIES, 4 * trial.options.batch_number, net.inputs)
        for net, trial in zip(readers, trials.each, strict=True)
    ]


def bytes_for(net: Network, trial: Trial) -> int:
    """Return the memory of the vectors of one network; net: one with its inputs."""
    options = trial.options
    vectors = 2 + len(options.moments)  # parameters here and in the engine
    vectors += options.monitored is not None  # those of the best epoch
    vectors += options.refit  # those to begin with
    return network_bytes(layers_of(net, trial), net.dtype, vectors)


def layers_of(net: Network, trial: Trial) -> Sequence[Layer]:
    """Return the layers of a trial's network; net: one with its inputs."""
    return net.layers if trial.layers is None else parse(trial.layers, columns=net.layers[0].columns)
