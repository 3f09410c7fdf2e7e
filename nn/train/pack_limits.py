"""Limits of several networks together: settings that they refuse, and how many of them the memory holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.stream import StreamedDataset
from ..layers import parse
from ..nn import Network
from ..nn_aux import moment_names
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


def check_memory_of_windows(ds: StreamedDataset, flag: str, places: int) -> None:
    """Raise UsageError if a limit of the memory is to hold for several GPUs of this process, each with windows of its
    own: they would be smaller than one GPU's, and the networks other ones."""
    if ds.memory is not None:
        raise UsageError(
            f"{flag}: each of {places} GPUs reads windows of its own, for which --memory has no room; give --window N "
            "in its place, or name one GPU"
        )


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


def bytes_for(net: Network, trial: Trial) -> int:
    """Return the memory of the vectors of one network; net: one with its inputs."""
    options, parameters = trial.options, net.parameter_count
    if trial.layers is not None:
        parameters = sum(layer.parameters for layer in parse(trial.layers, columns=net.layers[0].columns))
    vectors = 2 + len(moment_names(options.optimizer, options.momentum))  # parameters here and in the engine
    vectors += options.monitored is not None  # those of the best epoch
    vectors += options.refit  # those to begin with
    return vectors * parameters * np.dtype(net.dtype).itemsize
