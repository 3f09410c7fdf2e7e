"""--test, --predict, --info and --export: the uses of a model file."""

from __future__ import annotations

import os

from ..layers import describe, to_spec
from ..layers import parse as parse_layers
from ..nn_aux import TASKS
from ..settings.flags import given_values
from ..settings.values import check_is_number
from ..terminal import console, tables
from ..terminal.figures import layers_of
from ..utils import UsageError, check_writable, counted, is_stream, printable, say
from .common import LAYOUT, check_apart, check_report, load_network, print_json


def test_command(flags) -> None:
    """Test --model on --dataset, or on the rows that its training held out."""
    check_is_number(flags.threshold)
    if flags.report:
        check_report(flags.report, flags.model, flags.dataset)
    net = load_network(flags)

    from ..data.loading import holdout_dataset, load_for
    from ..data.records import check_answers
    from ..test import test

    if not flags.dataset and "folds" in net.config and not net.holdout:
        _tell_test(flags, net, _tested_by_folds(flags, net))
        return
    about = "rows" if flags.dataset or not net.holdout else "held-out rows"
    if flags.dataset:
        ds = load_for(net, flags.dataset, **given_values(flags, LAYOUT), memory=flags.memory)
    else:
        ds = holdout_dataset(net, flags.model, whole=flags.reference, force=flags.force, memory=flags.memory)
    check_answers(net, ds)
    _prepare(flags, net, ds, about)
    result = test(net, ds, threshold=flags.threshold, intervals=flags.intervals)
    if flags.verbose and len(net.members) > 1:
        result["members"] = [
            {"seed": member.seed, "weight": weight, **test(member, ds, threshold=flags.threshold)}
            for member, weight in zip(net.members, net.member_weights, strict=True)
        ]
    if flags.report:
        from ..study import model_page, page

        page.write(flags.report, model_page.of_model(net, flags.model, ds, about, threshold=flags.threshold))
    _tell_test(flags, net, result)


def _tested_by_folds(flags, net) -> dict:
    """Return the out-of-fold figures of a cross-validation that held no rows out."""
    from ..data.loading import training_dataset
    from ..train.folds import figures_out_of_fold, out_of_fold

    ds = training_dataset(net, flags.model, force=flags.force, memory=flags.memory)
    _prepare(flags, net, ds, "rows")
    found = out_of_fold(net, ds)
    result = figures_out_of_fold(
        net, ds, found, threshold=flags.threshold, intervals=flags.intervals, each=flags.verbose
    )
    if flags.report:
        from ..study import model_page, page

        drawn = model_page.of_model(
            net, flags.model, ds, "rows, out of fold", found=found, threshold=flags.threshold
        )
        page.write(flags.report, drawn)
    return result


def _tell_test(flags, net, result: dict) -> None:
    if flags.json:
        print_json(result)
    else:
        tables.test_report(result, net.classes, net.targets, flags.verbose)


def predict_command(flags) -> None:
    """Write row, prediction and, if known, truth of every row of --dataset as CSV."""
    check_is_number(flags.threshold)
    to_file = flags.output not in (None, "-")
    if to_file:
        check_apart(flags.dataset, flags.output)
        check_apart(flags.model, flags.output)
        check_writable(flags.output, stream=True)
    if flags.id and (flags.dataset == "-" or is_stream(flags.dataset)):
        raise UsageError(f"--id {flags.id}: reads the file twice, which {flags.dataset} does not allow; save it first")
    net = load_network(flags)

    from ..data.loading import kept_columns, load_for
    from ..data.source import short_name
    from .predictions import prediction_table, write_table

    ds = load_for(net, flags.dataset, **given_values(flags, LAYOUT), labelled=False, memory=flags.memory)
    if flags.id:
        ds.ids = kept_columns(flags.dataset, net.schema, flags.id)
    if flags.scaling:  # by the whole file's constants
        _fit_scaling(flags, net, ds)
    if not flags.quiet:
        about = printable(f"{short_name(flags.dataset)}: predicted by {flags.model}")
        console.say_run(about, net.engine.describe(), net.engine.threads, net.dtype, net.seed)
    lines = prediction_table(net, ds, flags.threshold)
    write_table(flags.output, lines)


def export_command(flags) -> None:
    """Write --model for other programs, in the format of the suffix of --output."""
    from ..files.export.formats import export, writer_of

    writer_of(flags.output)  # before the model is read
    check_apart(flags.model, flags.output)
    net = load_network(flags)
    export(net, flags.output)
    if flags.json:
        print_json({"model": flags.model, "output": flags.output, "bytes": os.path.getsize(flags.output)})
    elif not flags.quiet:
        layers = "; ".join(counted(member.spec for member in net.members))
        say(f"{flags.output}: {layers}, {os.path.getsize(flags.output)} bytes")


def info_command(flags) -> None:
    """Show the contents of --model, or the network that --layers describes."""
    if flags.report:
        check_report(flags.report, flags.model)
    if flags.model is not None:
        net = load_network(flags)
        layers, facts = net.layers, net.metadata()
    elif flags.layers is not None:
        output, _ = TASKS.get(flags.task, TASKS["regression"])
        net, layers = None, parse_layers(flags.layers, flags.activation or "relu", output)
        facts = {"layers": to_spec(layers)}
    else:
        raise UsageError("--info needs --model PATH, or --layers SPEC of a new network")
    if flags.report and net is not None:
        from ..study import model_page, page

        page.write(flags.report, model_page.of_model(net, flags.model))
    if not flags.json:
        for title, own in [("", layers)] if net is None else layers_of(net):
            tables.network_table(own, title)
        if net is not None:
            tables.model_report(net, flags.model)
        return
    networks = [layers] if net is None else [member.layers for member in net.members]
    parameters = sum(layer.parameters for own in networks for layer in own)
    print_json({"model": flags.model, "parameters": parameters, "network": describe(layers), **facts})


def _prepare(flags, net, ds, rows: str = "rows") -> None:
    """Fit the scaling where --scaling asks for it, and print the first lines. rows: the word for the rows of `ds`."""
    if flags.scaling:
        _fit_scaling(flags, net, ds)
    if not flags.quiet:
        engine = net.engine
        console.say_run(console.about(ds, rows), engine.describe(), engine.threads, net.dtype, net.seed)


def _fit_scaling(flags, net, ds) -> None:
    """Scale by the file's own constants, as the original did with every file; its `.m` files hold none."""
    from ..data.scaling import Scaling

    net.scaling = Scaling.fit(flags.scaling, ds.x, columns=ds.columns, strict=flags.reference)
