"""--compare: two models on the same rows."""

from __future__ import annotations

from ..settings.flags import keywords
from ..terminal import console, tables
from ..utils import UsageError
from .common import check_report, print_json, say_run, unseen_rows


def compare_command(flags) -> None:
    """Print the metrics of two models side by side, the interval of their difference, and which is better."""
    from ..data.kinds import split_names
    from ..nn import Network
    from ..test.compare import compared

    paths = split_names(flags.compare)
    if len(paths) != 2 or paths[0] == paths[1]:
        raise UsageError(f"--compare {flags.compare}: expected two model files, A,B")
    if flags.report:
        check_report(flags.report, *paths, flags.dataset)
    nets = [Network.of_file(path, **keywords(flags, "engine")) for path in paths]
    parts = [_rows(flags, net, path) for net, path in zip(nets, paths, strict=True)]
    datasets, scores, abouts = zip(*parts, strict=True)
    say_run(flags, nets[0], console.about(datasets[0], abouts[0]))
    result = compared(nets, datasets, paths, scores, seed=flags.seed or 0)
    if flags.report:
        from ..study import model_page, page

        page.write(flags.report, model_page.of_comparison(result))
    if flags.json:
        print_json(result)
    else:
        tables.comparison_report(result)


def _rows(flags, net, path: str):
    """Return (rows, their scores where they are out of fold, the word for them)."""
    from ..train.folds import out_of_fold

    ds, is_out_of_fold, about = unseen_rows(flags, net, path)
    if not is_out_of_fold:
        return ds, None, about
    rows, _, scores = out_of_fold(net, ds)
    return ds.of_rows(rows), scores, about
