"""--bench, --sweep, --study and --plot: measurements of many networks, and pictures of
them."""

from __future__ import annotations

from ..settings.flags import MODES
from ..utils import UsageError, check_writable, log_line, show
from .common import load_network, print_json, unseen_rows


def bench_command(flags) -> None:
    from ..study.bench import bench, report

    names = []
    if flags.bench != MODES["bench"].alone:
        names = flags.bench.split(",")
    log = None if flags.quiet else log_line
    result = bench(names, backend=flags.backend, threads=flags.threads, log=log)
    if flags.json:
        print_json(result)
    else:
        report(result)


def sweep_command(flags) -> None:
    """Run the entries of a plan that --output does not hold yet."""
    from ..study import sweep

    check_writable(flags.output)
    rows = sweep.sweep(flags.sweep, flags.output, None if flags.quiet else log_line)
    if flags.report:
        from ..pages import page
        from ..study import sweep_page

        page.write(flags.report, sweep_page.results_page(rows))
    if flags.json:
        failed = sum(row["status"] != sweep.OK for row in rows)
        print_json({"results": flags.output, "rows": len(rows), "failed": failed})
    elif not flags.quiet:
        sweep.report(rows)


def study_command(flags) -> None:
    """Run the entries of a study that the results do not hold yet, and show them beside
    its figures of then."""
    from ..pages import page
    from ..study import studies, then_and_now
    from ..terminal import tables

    study = studies.find(flags.study)
    results = flags.output or f"study-{study.name}.csv"
    check_writable(results)
    log = (lambda line: None) if flags.quiet else log_line
    reasons = studies.run(study, results, log)
    entries = then_and_now.measured(study, results, reasons)
    if flags.report:
        command = f"nn study {study.name}"
        drawn = then_and_now.study_page(study, entries, command)
        page.write(flags.report, drawn)
    figures = then_and_now.compared(study, entries)
    if flags.json:
        left_out = sum(entry.row is None for entry in entries)
        counts = {"rows": len(entries), "left_out": left_out, "figures": figures}
        print_json({"study": study.name, "results": results, **counts})
    elif not flags.quiet:
        for shown in then_and_now.tables_of(figures, entries):
            tables.table(shown.headers, shown.lines, shown.caption, left=shown.words)
        for line in then_and_now.not_here(entries):
            log_line(f"not here: {line}")


def plot_command(flags) -> None:
    """Draw the results of --sweep, or what is known of a model, into the folder
    --output."""
    from ..files import model_file
    from ..pages import chart, page
    from ..study import results, sweep_page

    if model_file.is_model(flags.plot):
        drawn = _page_of_model(flags)
        reason = "the model holds no history; give a data set with --dataset"
    else:
        rows = results.collect(flags.plot)
        failed = sum(row["status"] != results.OK for row in rows)
        drawn = sweep_page.results_page(rows)
        count = f"{len(rows)} results"
        if failed:
            count += f", {failed} of them failed"
        reason = f"{count}; run more of the plan"
    if not drawn.pictures:
        raise UsageError(f"nothing to draw in {flags.plot}: {reason}")
    files = chart.save(drawn.pictures, flags.output)
    if flags.report:
        page.write(flags.report, drawn)
        files.append(flags.report)
    if flags.json:
        print_json({"files": files})
    else:
        for file in files:
            show(file)


def _page_of_model(flags):
    """Return the page of a model on --dataset, else on the rows that its training did
    not see where they are known."""
    from ..pages import model_page

    flags.model = flags.plot
    net = load_network(flags)
    if not flags.dataset and not (
        net.dataset and (net.holdout or "folds" in net.config)
    ):
        return model_page.page_of_model(net, flags.plot)
    ds, out_of_fold, about, trained = unseen_rows(flags, net, flags.plot)
    return model_page.page_of_model(
        net, flags.plot, ds, about, out_of_fold=out_of_fold, trained=trained
    )
