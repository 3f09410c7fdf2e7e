"""--test, --predict, --compare, --explain, --info and --export: the uses of a model
file."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

from ..layers import describe, to_spec
from ..layers import parse as parse_layers
from ..nn_aux import DTYPES, OPTIMIZERS, TASKS
from ..settings.flags import DEFAULTS, given_values, keywords, settings_of_model
from ..settings.values import check_is_number, in_a_list, split_names
from ..terminal import console, tables
from ..utils import (
    UsageError,
    check_writable,
    counted,
    is_stream,
    log,
    log_line,
    printable,
)
from .common import (
    LAYOUT,
    drift_told,
    load_network,
    print_json,
    progress_of,
    report_run,
    unseen_rows,
    write_page,
)

# exit codes of --compare A,B --check; 0: B is better
CANNOT_TELL = 3
WORSE = 4


def test_command(flags) -> None:
    """Test --model on --dataset, or on the rows that its training held out."""
    check_is_number(flags.threshold)
    _check_trace(flags)
    net = load_network(flags)

    from ..core.conformal import known_at
    from ..data.records import check_answers
    from ..test import check_threshold, tested, warn_of_trained
    from ..watch.observe import InferenceObservers

    check_threshold(net, flags.threshold)
    if flags.level is not None:
        known_at(net.conformal, flags.level)
    began = time.perf_counter()
    ds, out_of_fold, about, trained = unseen_rows(flags, net, flags.model)
    reading = (began, time.perf_counter())
    if out_of_fold is None:
        check_answers(net, ds)
    if flags.scaling:
        _fit_scaling(flags, net, ds)
    report_run(flags, net, console.about(ds, about, net))
    drift = None
    if flags.dataset and out_of_fold is None:
        drift = drift_told(net, ds)
    options = {
        "threshold": flags.threshold,
        "intervals": flags.intervals,
        "level": flags.level,
    }
    observers = InferenceObservers(flags, net, reading)
    if out_of_fold is None:
        result = tested(net, ds, **options)
    else:
        from ..test.out_of_fold import figures_out_of_fold

        result = figures_out_of_fold(
            net, ds, out_of_fold, **options, by_member=flags.verbose
        )
    profile = observers.finish()
    if flags.verbose and len(net.members) > 1 and out_of_fold is None:
        result["members"] = []
        for member, weight in zip(net.members, net.member_weights, strict=True):
            metrics = tested(member, ds, threshold=flags.threshold)
            result["members"].append({"seed": member.seed, "weight": weight, **metrics})
    warn_of_trained(trained, flags.model)
    write_page(
        flags,
        net,
        ds,
        about,
        out_of_fold=out_of_fold,
        threshold=flags.threshold,
        level=flags.level,
        trained=trained,
        drift=drift,
    )
    if flags.json:
        facts = {"trained_rows": trained.count, "drift": drift and drift.to_dict()}
        print_json({**result, **facts, **profile})
    else:
        tables.test_report(result, net.classes, net.targets, flags.verbose)
        _print_profile(profile)


def predict_command(flags) -> None:
    """Write row, prediction and, if known, truth of every row of --dataset as a table,
    with --json as one object."""
    from .table_file import check_table, print_rows, write_table

    check_is_number(flags.threshold)
    check_table(flags.output)
    _check_trace(flags)
    is_printed = flags.output in (None, "-")
    if flags.profile and is_printed and not flags.json:
        raise UsageError(
            "--profile: the predictions are on stdout, where it would be printed; give --output FILE, or --json"
        )
    if flags.id:
        _check_read_twice(flags, "id")
    net = load_network(flags)

    from ..core.conformal import known_at
    from ..test import check_threshold
    from ..test.drift import check_profiles

    check_threshold(net, flags.threshold)
    if flags.level is not None:
        known_at(net.conformal, flags.level)
    if flags.flag:
        check_profiles(net, flags.model)

    from ..data.loading import kept_columns, load_for
    from ..data.source import short_name
    from ..watch.observe import InferenceObservers

    began = time.perf_counter()
    ds = load_for(
        net,
        flags.dataset,
        **given_values(flags, LAYOUT),
        labelled=False,
        memory=flags.memory,
        tells_unseen=False,
    )
    if flags.id:
        ds.ids = kept_columns(flags.dataset, net.schema, flags.id)
    if flags.scaling:  # by the whole file's constants
        _fit_scaling(flags, net, ds)
    table = _table_of(flags, net, ds)
    report_run(
        flags,
        net,
        printable(f"{short_name(flags.dataset)}: predicted by {flags.model}"),
    )
    drift = drift_told(net, ds)
    observers = InferenceObservers(flags, net, (began, time.perf_counter()))
    facts = {"model": flags.model, "drift": drift and drift.to_dict()}
    if flags.json and is_printed:
        print_rows(facts, table, observers.finish)
        return
    write_table(flags.output, table)
    profile = observers.finish()
    if flags.json:
        print_json({**facts, "output": flags.output, "rows": ds.rows, **profile})
    else:
        _print_profile(profile)


def _check_trace(flags) -> None:
    """Raise OutputError where --trace cannot be written."""
    if flags.trace is not None:
        check_writable(flags.trace)


def _print_profile(profile: dict) -> None:
    if profile:
        tables.inference_report(profile["profile"])


def _check_read_twice(flags, flag: str) -> None:
    """Raise UsageError for a flag that reads --dataset once more, where that is a
    stream."""
    if flags.dataset == "-" or is_stream(flags.dataset):
        raise UsageError(
            f"--{flag} {getattr(flags, flag)}: reads the file twice, which {flags.dataset} does not allow; save it first"
        )


def _table_of(flags, net, ds):
    """Return the table of predictions that the flags ask for."""
    from ..data.loading import kept_columns
    from .predictions import (
        parse_columns,
        prediction_table,
        with_columns,
        with_progress,
        with_reasons,
        with_texts,
    )

    table = prediction_table(net, ds, flags.threshold, flags.level)
    if flags.flag:
        table = with_reasons(net, ds, table)
    if flags.columns:
        columns = parse_columns(flags.columns, table.names)
        of_file = [*dict.fromkeys(columns.values())]
        of_file = [source for source in of_file if source not in table.names]
        if of_file:
            _check_read_twice(flags, "columns")
            names = ",".join(map(in_a_list, of_file))
            texts = kept_columns(flags.dataset, net.schema, names, "columns")
            table = with_texts(table, dict(zip(of_file, texts.values(), strict=True)))
        table = with_columns(table, columns)
    progress = progress_of(flags, "predictions")
    if progress is not None and flags.output not in (None, "-"):
        return with_progress(table, ds.rows, progress)
    return table


def compare_command(flags) -> int:
    """Print the metrics of two models side by side, the interval of their difference,
    and which is better; with --check return the exit code that says it."""
    from ..nn import Network
    from ..test.compare import (
        RESERVED_KEYS,
        Side,
        check_same_outputs,
        compared_sides,
    )
    from ..test.out_of_fold import check_scores

    paths = split_names(flags.compare)
    if len(paths) == 2 and paths[0] == paths[1]:
        raise UsageError(f"--compare {flags.compare}: the same model twice; give two")
    if len(paths) != 2:
        raise UsageError(
            f"--compare {flags.compare}: expected two model files, as in nn compare A B"
        )
    nets = [Network.of_file(path, **keywords(flags, "engine")) for path in paths]
    check_same_outputs(nets, paths)
    sides = []
    abouts = []
    for net, path in zip(nets, paths, strict=True):
        ds, out_of_fold, about, trained = unseen_rows(flags, net, path)
        if out_of_fold is not None:
            check_scores(net)
        if out_of_fold is None:
            sides.append(Side(net, ds, None, trained))
        else:
            sides.append(Side.of(net, ds, out_of_fold))
        abouts.append(about)
    report_run(flags, nets[0], console.about(sides[0].ds, abouts[0], nets[0]))
    # a key of the result is another thing
    names = [f"./{path}" if path in RESERVED_KEYS else path for path in paths]
    result = compared_sides(sides, names, seed=flags.seed or 0)
    if flags.report:
        from ..pages import model_page, page

        tested = model_page.Tested(nets[0], sides[0].ds)
        sheet = model_page.page_of_comparison(result, tested, abouts[0])
        page.write(flags.report, sheet)
    if flags.json:
        print_json(result)
    else:
        tables.comparison_report(result)
    if not flags.check:
        return 0
    return {names[1]: 0, None: CANNOT_TELL, names[0]: WORSE}[result["better"]]


def explain_command(flags) -> None:
    """Print the importance of the raw columns of --model; write the contributions to
    each prediction to --output."""
    _check_contributions(flags)
    net = load_network(flags)

    from ..test import warn_of_trained
    from ..test.importance import UndefinedMetric, curves, importance
    from ..test.out_of_fold import judging_parts
    from ..test.shapley import background_rows
    from ..test.trained_rows import trained_on

    seed = flags.seed or 0
    background = None
    if flags.output:
        background = background_rows(net, flags.background, seed, flags.model)
    ds, out_of_fold, about, trained = unseen_rows(
        flags, net, flags.model, labelled=not flags.output
    )
    parts = judging_parts(net, ds, out_of_fold)
    seen_rows = trained
    if out_of_fold is not None and net.crossed.is_retrained:
        seen_rows = trained_on(net, ds)
    report_run(flags, net, console.about(ds, about, net))
    result: dict = {}
    important = None
    if ds.y is not None:
        try:
            columns = importance(
                net,
                ds,
                metric_name=flags.monitor,
                group_columns=flags.group_columns,
                seed=seed,
                parts=parts,
                progress=progress_of(flags, "importance of columns"),
            )
            important = columns, curves(net, ds, columns.names)
            result["importance"] = vars(columns)
            result["curves"] = important[1]
            result["trained_rows"] = seen_rows.count
            warn_of_trained(seen_rows, flags.model)
        except UndefinedMetric as error:
            if not flags.output:
                raise
            # contributions need no metric
            log.warning("no importance of columns: %s", error)
    write_page(
        flags,
        net,
        ds,
        about,
        out_of_fold=out_of_fold,
        important=important,
        trained=trained,
    )
    if flags.output:
        explainer = _write_contributions(flags, net, ds.x, background)
        result["contributions"] = flags.output
        result["error"] = explainer.error
        result["background_error"] = explainer.background_error
    if flags.json:
        print_json(result)
        return
    if "importance" in result:
        tables.importance_report(result["importance"], result["curves"], net)
    if flags.output and not flags.quiet:
        errors = _errors_of_contributions(result["error"], result["background_error"])
        log_line(
            f"{flags.output}: contributions of {len(explainer.background)} background rows' difference, {errors}"
        )


def _check_contributions(flags) -> None:
    """Raise before any work where no contributions can be written to --output, and log
    what is for these alone."""
    from .table_file import check_table

    check_table(flags.output)
    if flags.background and not flags.output:
        log.warning("--background has no effect without --output; ignored")


def _errors_of_contributions(error: float, background_error: float | None) -> str:
    """Return how exact contributions are: beside all coalitions, and beside other
    background rows."""
    if error == 0:
        coalitions = "exact"
    else:
        coalitions = f"within {error:.2g} (a standard deviation)"
    if background_error is None:
        return coalitions
    return f"{coalitions}; by the choice of background rows within {background_error:.2g} (a standard deviation)"


def _write_contributions(flags, net, x, background):
    """Write what each column contributes to each prediction; return the Explainer that
    has found it."""
    from ..test.shapley import Explainer
    from .predictions import contribution_table
    from .table_file import write_table

    explainer = Explainer(
        net, background, len(x), exact=flags.exact, seed=flags.seed or 0
    )
    progress = progress_of(flags, "contributions to predictions")
    write_table(flags.output, contribution_table(net, explainer, x, progress))
    return explainer


def export_command(flags) -> None:
    """Write --model for other programs, in the format of the suffix of --output."""
    from ..files.export.formats import export, us_per_row_of, writer_of

    writer_of(flags.output)  # before the model is read
    if flags.threshold is not None:
        cure = "leave it out, or train with it: a model's own threshold is exported"
        raise UsageError(f"--threshold {flags.threshold}: is not for --export; {cure}")
    net = load_network(flags)
    start = time.perf_counter()
    export(net, flags.output, flags.level)
    seconds = time.perf_counter() - start
    size = os.path.getsize(flags.output)
    us_per_row = us_per_row_of(net, flags.output)
    if flags.json:
        print_json(
            {
                "model": flags.model,
                "output": flags.output,
                "bytes": size,
                "seconds": seconds,
                "us_per_row": us_per_row,
            }
        )
    elif not flags.quiet:
        layers = "; ".join(counted(member.spec for member in net.members))
        log_line(f"{flags.output}: {layers}, {size} bytes")
        about_row = ""
        if us_per_row is not None:
            about_row = f"; a row takes about {us_per_row:.3g} us with -O3"
        log_line(f"written in {seconds:.2f} s{about_row}")


def info_command(flags) -> None:
    """Show the contents of --model, or the network that --layers describes."""
    if flags.model is not None:
        if flags.batch_number is not None:
            raise UsageError(
                "--batch_size: --info has the memory of a batch of --layers, not of a model; leave one out"
            )
        _show_model(flags)
    elif flags.layers is not None:
        _show_layers(flags)
    else:
        raise UsageError("--info needs --model PATH, or --layers SPEC of a new network")


def _show_model(flags) -> None:
    """Show what --model contains."""
    from ..nn.model import target_of

    net = load_network(flags)
    facts = net.metadata()
    for member in [facts, *facts.get("members", ())]:
        if "config" in member:
            member["config"] = settings_of_model(member["config"])
    write_page(flags, net)
    if flags.json:
        parameters = sum(
            layer.parameters for member in net.members for layer in member.layers
        )
        print_json(
            {
                "model": flags.model,
                "target": target_of(net),
                "parameters": parameters,
                "network": describe(net.layers),
                **facts,
            }
        )
        return
    tables.card_report(net, flags.model)
    if flags.verbose:
        tables.model_report(net)


def _show_layers(flags) -> None:
    """Show the network that --layers describes."""
    output = TASKS.get(flags.task, TASKS["regression"]).output
    layers = parse_layers(flags.layers, flags.activation or "relu", output)
    batch = {}
    if flags.batch_number is not None:
        batch = {"batch": _batch_of(flags, layers)}
    if flags.json:
        print_json(
            {
                "model": None,
                "parameters": sum(layer.parameters for layer in layers),
                "network": describe(layers),
                "layers": to_spec(layers),
                **batch,
            }
        )
        return
    tables.network_table(layers, "")
    if batch:
        tables.batch_report(layers, batch["batch"])


def _batch_of(flags, layers) -> dict:
    """Return what a training by batches of --batch_size rows takes: bytes,
    multiply-adds of each layer, and the largest batch that fits --memory."""
    from ..backends import TRAITS
    from ..data import records

    optimizer = flags.optimizer or DEFAULTS["optimizer"]
    moments = OPTIMIZERS[optimizer].moments_with(flags.momentum or 0.0)
    dtype = DTYPES[flags.dtype or DEFAULTS["dtype"]]
    backend = flags.backend or "auto"
    if backend == "auto":
        backend = "omp"
    rows = flags.batch_number
    facts = {
        "rows": rows,
        "optimizer": optimizer,
        "dtype": dtype,
        "backend": backend,
        "bytes": records.batch_bytes(layers, dtype, len(moments), rows),
        "multiply_adds": [rows * layer.products for layer in layers],
    }
    net = SimpleNamespace(
        layers=layers, dtype=dtype, inputs=layers[0].inputs, traits=TRAITS[backend]
    )
    facts["training_bytes"] = records.program_bytes(net, rows)
    if flags.memory is not None:
        facts["memory"] = flags.memory
        facts["largest_batch"] = records.largest_batch(net, flags.memory)
    return facts


def _fit_scaling(flags, net, ds) -> None:
    """Scale by the file's own constants, as the original did with every file; its `.m`
    files hold none."""
    from ..data.scaling import Scaling

    net.scaling = Scaling.fit(
        flags.scaling, ds.x, columns=ds.columns, strict=flags.reference
    )
