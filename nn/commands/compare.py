"""--compare: two models on the same rows."""

from __future__ import annotations

from ..settings.flags import given_values, keywords
from ..terminal import console, tables
from ..utils import UsageError
from .common import print_json

LAYOUT = ("target", "separator", "header")


def compare_command(flags) -> None:
    """Print the metrics of two models side by side, the interval of their difference, and which is better."""
    from ..data.kinds import split_names
    from ..nn import Network
    from ..test.compare import compared

    paths = split_names(flags.compare)
    if len(paths) != 2 or paths[0] == paths[1]:
        raise UsageError(f"--compare {flags.compare}: expected two model files, A,B")
    nets = [Network.load(path, **keywords(flags, "engine")) for path in paths]
    parts = [_rows(flags, net, path) for net, path in zip(nets, paths, strict=True)]
    datasets, scores, abouts = zip(*parts, strict=True)
    if not flags.quiet:
        net = nets[0]
        about = console.about(datasets[0], abouts[0])
        console.say_run(about, net.engine.describe(), net.engine.threads, net.dtype, net.seed)
    result = compared(nets, datasets, paths, scores, seed=flags.seed or 0)
    if flags.json:
        print_json(result)
    else:
        tables.comparison_report(result)


def _rows(flags, net, path: str):
    """Return (rows, their scores or None, the word for them): of --dataset, else those that training did not see."""
    from ..data.loading import holdout_dataset, load_for, training_dataset
    from ..train.folds import out_of_fold

    if flags.dataset:
        return load_for(net, flags.dataset, **given_values(flags, LAYOUT)), None, "rows"
    if "folds" in net.config and not net.holdout:
        ds = training_dataset(net, path, force=flags.force)
        rows, _, scores = out_of_fold(net, ds)
        return ds.of_rows(rows), scores, "rows, out of fold"
    return holdout_dataset(net, path, force=flags.force), None, "held-out rows"
