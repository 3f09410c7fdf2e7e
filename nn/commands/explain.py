"""--explain: which columns matter to a model, how predictions go with them, and what each column added to each."""

from __future__ import annotations

from collections.abc import Iterator

from ..terminal import console, tables
from ..utils import check_writable, say
from .common import check_apart, check_report, load_network, print_json, say_run, unseen_rows, write_page

BLOCK = 256  # rows explained at a time


def explain_command(flags) -> None:
    """Print the importance of the raw columns of --model; write the contributions to each prediction to --output."""
    if flags.output:
        for read in filter(None, (flags.dataset, flags.model, flags.background)):
            check_apart(read, flags.output)
        check_writable(flags.output, stream=True)
    if flags.report:
        check_report(flags.report, flags.dataset, flags.model, flags.background, flags.output)
    net = load_network(flags)

    from ..test.importance import curves, importance
    from ..test.shapley import background_rows
    from ..train.folds import out_of_fold, unseen_parts

    background = background_rows(net, flags.background, flags.seed or 0, flags.model) if flags.output else None
    ds, is_out_of_fold, about = unseen_rows(flags, net, flags.model, labelled=not flags.output)
    parts = unseen_parts(net, ds) if is_out_of_fold else None
    say_run(flags, net, console.about(ds, about))
    result: dict = {}
    if ds.y is not None:
        found = importance(
            net, ds, metric_name=flags.monitor, group_columns=flags.group_columns, seed=flags.seed or 0, parts=parts
        )
        result = {"importance": vars(found), "curves": curves(net, ds.x, found.names)}
    important = (found, result["curves"]) if result else None
    known = out_of_fold(net, ds) if flags.report and is_out_of_fold else None
    write_page(flags, net, ds, about, found=known, important=important)
    if flags.output:
        result |= {"contributions": flags.output, "error": _write(flags, net, ds.x, background)}
    if flags.json:
        print_json(result)
        return
    if "importance" in result:
        tables.importance_report(result["importance"], result["curves"], net)
    if flags.output and not flags.quiet:
        exact = "exact" if result["error"] == 0 else f"within {result['error']:.2g} (a standard deviation)"
        say(f"{flags.output}: contributions of {len(background)} background rows' difference, {exact}")


def _write(flags, net, x, background) -> float:
    """Write row, base, columns and value of each row, of several outputs a line for each; return the error."""
    from ..test.shapley import Explainer
    from .predictions import write_table

    explainer = Explainer(net, background, len(x), exact=flags.exact, seed=flags.seed or 0)

    def lines() -> Iterator[list]:
        for first in range(0, len(x), BLOCK):
            found = explainer.explain(x[first : first + BLOCK])
            several = found.values.ndim == 3
            if not first:
                yield ["row", *["class" if net.classes else "target"] * several, "base", *found.feature_names, "value"]
            for row, (values, base) in enumerate(zip(found.values, found.base_values, strict=True), start=first):
                for k, name in enumerate(found.output_names if several else [""]):
                    own, start = (values[:, k], base[k]) if several else (values, base)
                    numbers = map(repr, [float(start), *own.tolist(), float(start + own.sum())])
                    yield [row, *[name] * several, *numbers]

    write_table(flags.output, lines())
    return explainer.error
