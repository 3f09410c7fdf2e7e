"""--train without --layers: --effort chooses network and training, unless other flags describe one training."""

from __future__ import annotations

from ..settings.flags import DEFAULTS, given_values, keywords
from ..terminal import console
from ..utils import SideFileError, StopRequest, UsageError, say

OF_VALIDATION_ROWS = ("patience", "monitor", "calibrate")  # --effort has such rows, but must be asked for


def effort_of(flags) -> str | None:
    """Return the effort to choose with; None where the flags describe one training, whose layers are the usual ones
    unless --layers tells others. Raises UsageError for such a flag beside --effort."""
    from ..files.text_model import is_text
    from ..train.effort import OF_ONE_TRAINING

    given = next(iter(given_values(flags, OF_ONE_TRAINING)), None)
    if flags.effort and given:
        raise UsageError(f"--effort {flags.effort}: --{given} is not for it; leave one of them out")
    into_text = flags.model is not None and is_text(flags.model)
    if flags.effort and into_text:
        raise UsageError(f"--effort {flags.effort}: a .m file holds one network; give --model another suffix, .bin")
    one = given or into_text or given_values(flags, OF_VALIDATION_ROWS)
    return flags.effort or (None if one else DEFAULTS["effort"])


def maker_of(flags, effort: str, ds, checkpoint, callbacks):
    """Return what chooses for the data; None where the effort is not asked for and the data are not for it.

    callbacks: makes those of the training from a progress.
    """
    from ..nn import Network
    from ..terminal.progress import make_candidates_progress
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
    network = lambda layers: Network.for_data(ds, layers, **of_network)  # noqa: E731
    return Effort(ds, effort, given, network, callbacks(progress), checkpoint)


def choose(flags, chosen, stop: StopRequest):
    """Let an Effort choose; returns (network, figures, files that could not be written)."""
    from ..train import train
    from ..train.decision import rules_in

    lost: dict[str, SideFileError] = {}

    def trained(net, ds, **options) -> dict:
        try:
            return train(net, ds, **options, stop=stop)
        except SideFileError as error:  # told again after each candidate
            lost["files"] = error
            return error.result

    net, result = chosen.run(trained)
    repeated = given_values(flags, ("seed", "dtype", "init", "loss")) | rules_in(chosen.given)
    for one in result["chosen"]:
        one["flags"] += "".join(f" --{name} {value}" for name, value in repeated.items())
    return net, result, list(lost.values())
