"""--train without --layers: --effort chooses network and training, unless other flags describe one training."""

from __future__ import annotations

from ..settings.flags import DEFAULTS, given_values, keywords
from ..terminal import console
from ..utils import Stopped, StopRequest, UsageError, say

OF_ONE_TRAINING = (  # flags that say which networks there are, or are about the one that is trained
    "layers", "networks", "folds", "vary", "keep", "trials", "validation", "refit",
    "checkpoint", "resume", "history", "profile", "trace", "logdir", "reference", "distribute", "gpus",
    "output",
)  # fmt: skip
OF_VALIDATION_ROWS = ("patience", "monitor", "calibrate")  # --effort has such rows, but must be asked for


def effort_of(flags) -> str | None:
    """Return the effort to choose with; None where the flags describe one training, whose layers are the usual ones
    unless --layers tells others. Raises UsageError for such a flag beside --effort."""
    from ..files.text_model import is_text

    given = next(iter(given_values(flags, OF_ONE_TRAINING)), None)
    if flags.effort and given:
        raise UsageError(f"--effort {flags.effort}: --{given} is not for it; leave one of them out")
    into_text = flags.model is not None and is_text(flags.model)
    if flags.effort and into_text:
        raise UsageError(f"--effort {flags.effort}: a .m file holds one network; give --model another suffix, .bin")
    one = given or into_text or given_values(flags, OF_VALIDATION_ROWS)
    return flags.effort or (None if one else DEFAULTS["effort"])


def choose(flags, effort: str, ds, stop: StopRequest, keep):
    """Let the effort choose; returns (network, data, figures, what stopped it or None), or None where it is not asked
    for and the data are not for it.

    keep: called with the network at hand when a signal ends the training; returns the error to raise.
    """
    from ..nn import Network
    from ..terminal.candidates import make_candidates_progress
    from ..train import train
    from ..train.decision import rules_in
    from ..train.effort import Effort, rule_for, why_not

    reason = why_not(ds)
    if reason and flags.effort:
        raise UsageError(f"--effort {flags.effort}: {reason}; leave it out or give --layers")
    if reason:
        if not flags.quiet:
            say(f"one network of the usual layers: {reason}")
        return None
    progress = make_candidates_progress(console.about_training(ds), flags.quiet, flags.verbose)
    given = keywords(flags, "train") | given_values(flags, ["activation"])
    if flags.threshold is None:
        given |= rule_for(ds)
    of_network = keywords(flags, "network", "engine")
    chosen = Effort(ds, effort, given, lambda layers: Network.for_data(ds, layers, **of_network), progress)
    try:
        net, result = chosen.run(lambda net, ds, **options: train(net, ds, **options, stop=stop))
    except Stopped as stopped:
        raise keep(chosen.net, stopped) from stopped
    repeated = given_values(flags, ("seed", "dtype", "init", "loss")) | rules_in(given)
    for one in result["chosen"]:
        one["flags"] += "".join(f" --{name} {value}" for name, value in repeated.items())
    return net, ds, result, chosen.stopped
