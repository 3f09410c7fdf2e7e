"""--train without --layers: --effort chooses network and training, unless other flags describe one training."""

from __future__ import annotations

from ..settings.flags import given_values, keywords
from ..terminal import console
from ..utils import SideFileError, StopRequest, UsageError, say


def effort_of(flags) -> str | None:
    """Return the effort to choose with; None where the flags describe one training, whose layers are the usual ones
    unless --layers tells others. Raises UsageError for such a flag beside --effort."""
    from ..files.text_model import is_text
    from ..train.effort import effort_for

    into_text = flags.model is not None and is_text(flags.model)
    if flags.effort and into_text:
        raise UsageError(f"--effort {flags.effort}: a .m file holds one network; give --model another suffix, .bin")
    effort = effort_for(flags.effort, given_values(flags, vars(flags)))
    return None if into_text else effort


def replaced_by(flags) -> str:
    """Return which flag replaces the choice."""
    from ..train.effort import replacing

    name = replacing(given_values(flags, vars(flags)))
    return f"{'a .m model' if name is None else f'--{name}'} replaces the choice of --effort"


def maker_of(flags, effort: str, ds, checkpoint, callbacks):
    """Return what chooses for the data; None where the effort is not asked for and the data are not for it.

    callbacks: makes those of the training from a progress.
    """
    from ..terminal.progress import make_candidates_progress
    from ..train.effort import choice_for, why_not

    reason = why_not(ds)
    if reason and flags.effort:
        raise UsageError(f"--effort {flags.effort}: {reason}; leave it out or give --layers")
    if reason:
        if not flags.quiet:
            say(f"one network of the usual layers: {reason}")
        return None
    if flags.output and ds.are_images:
        raise UsageError(f"--output {flags.output}: has predictions of folds, and images are judged by validation rows")
    progress = make_candidates_progress(console.about_training(ds), flags.quiet, flags.verbose)
    given = keywords(flags, "train") | given_values(flags, ["activation"])
    return choice_for(ds, effort, given, keywords(flags, "network", "engine"), callbacks(progress), checkpoint)


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
