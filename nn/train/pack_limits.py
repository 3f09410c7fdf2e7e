"""What several networks cannot do, and how many of them the memory holds."""

from __future__ import annotations

import numpy as np

from ..layers import parse
from ..nn import Network
from ..nn_aux import moment_names
from ..utils import NnError, UsageError, available_memory
from .trials import Trial, Trials


def check_pack(net: Network, count: int, flag: str, ranks: int, places: int, window: int | None) -> None:
    """Raise UsageError for what several networks cannot do.

    flag: what asks for them. ranks, places: among which they are shared out. window: rows of a window of the data.
    """
    if net.reference:
        raise UsageError(f"{flag}: --reference trains one network; leave one out")
    if net.seed + count > 2**32:
        raise UsageError(f"{flag}: seeds from {net.seed} on must end below 4294967296; use a smaller --seed")
    if ranks > count:
        raise UsageError(f"{flag}: {count} networks are too few for {ranks} ranks; start at most {count}")
    if window and (ranks > 1 or places > 1):
        cure = "--distribute" if ranks > 1 else "--gpus, or name one"
        raise UsageError(f"{flag}: on windows of rows one network is trained after the other; leave out {cure}")


def check_memory_for(net: Network, trials: Trials, flag: str) -> None:
    """Raise NnError, which says how many fit, if the networks of the trials do not fit the free memory."""
    needed = np.cumsum([bytes_for(net, trial) for trial in trials.each])
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
    """Return the memory of the vectors of one network."""
    options, parameters = trial.options, net.parameter_count
    if trial.layers is not None:
        parameters = sum(layer.parameters for layer in parse(trial.layers, columns=net.layers[0].columns))
    vectors = 2 + len(moment_names(options.optimizer, options.momentum))  # parameters here and in the engine
    vectors += options.monitored is not None  # those of the best epoch
    vectors += options.refit  # those to begin with
    return vectors * parameters * np.dtype(net.dtype).itemsize
