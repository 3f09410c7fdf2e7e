"""--bench, --sweep and --plot: measurements of many networks, and pictures of them."""

from __future__ import annotations

from ..utils import UsageError, check_writable, say, show
from .common import check_report, load_network, print_json


def bench_command(flags) -> None:
    """Time the benchmark cases on every backend, or on --backend."""
    from ..study.bench import bench, report

    names = flags.case.split(",") if flags.case else []
    result = bench(names, backend=flags.backend, threads=flags.threads, say=None if flags.quiet else say)
    if flags.json:
        print_json(result)
    else:
        report(result)


def sweep_command(flags) -> None:
    """Run the entries of a plan that --output does not hold yet."""
    from ..study import sweep

    check_writable(flags.output)
    if flags.report:
        check_report(flags.report, flags.sweep, flags.output)
    rows = sweep.sweep(flags.sweep, flags.output, flags.index, None if flags.quiet else say)
    if flags.report:
        from ..study import plot_results, report

        report.write(flags.report, report.of_results(rows, plot_results.of_results(rows)))
    if flags.json:
        failed = sum(row["status"] != sweep.OK for row in rows)
        print_json({"results": flags.output, "rows": len(rows), "failed": failed})
    elif not flags.quiet:
        sweep.report(rows)


def plot_command(flags) -> None:
    """Draw the results of --sweep, trials, or the losses and errors of a model, into the folder --output."""
    from ..files import model_file
    from ..study import plot, plot_model, plot_results, report, results, trials

    plot.check_matplotlib()
    if flags.report:
        check_report(flags.report, flags.plot, flags.dataset)
    if model_file.is_model(flags.plot):
        flags.model = flags.plot
        net = load_network(flags)
        pictures = plot_model.of_model(net, *_plotted_rows(flags, net))
        page = report.of_model(net, flags.plot, pictures)
    elif trials.is_trials(flags.plot):
        tried = trials.read_trials(flags.plot)
        pictures = plot_results.of_trials(tried)
        if not pictures:
            raise UsageError(f"nothing to draw in {flags.plot}: no setting differs among {len(tried)} trials")
        page = report.of_trials(tried, pictures)
    else:
        rows = results.collect(flags.plot)
        pictures = plot_results.of_results(rows)
        if not pictures:
            failed = sum(row["status"] != results.OK for row in rows)
            found = f"{len(rows)} results{f', {failed} of them failed' if failed else ''}"
            raise UsageError(f"nothing to draw in {flags.plot}: {found}; run more of the plan")
        page = report.of_results(rows, pictures)
    files = plot.save(pictures, flags.output)
    if flags.report:
        report.write(flags.report, page)
        files.append(flags.report)
    if flags.json:
        print_json({"files": files})
    else:
        for file in files:
            show(file)


def _plotted_rows(flags, net):
    """Return (data, predictions or None for the network's) on which to draw the errors of a regression: --dataset, or
    the rows held out in training, or those of folds; () for none."""
    from ..data.loading import holdout_dataset, load_for, training_dataset
    from ..train.folds import out_of_fold

    if flags.dataset:
        return load_for(net, flags.dataset, target=flags.target), None
    if net.task != "regression" or not net.dataset:
        return ()
    if net.holdout:
        return holdout_dataset(net, flags.model, force=flags.force), None
    if "folds" not in net.config:
        return ()
    ds = training_dataset(net, flags.model, force=flags.force)
    rows, _, scores = out_of_fold(net, ds)
    return ds.of_rows(rows), scores
