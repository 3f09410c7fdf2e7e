"""The page of a model: how good it is, which columns matter, where it errs, what it was made of and how; of two models,
which is better. Without rows to test it on: what the model file knows."""

from __future__ import annotations

import shlex
from os.path import basename

import numpy as np

from ..data.source import short_name
from ..data.table_rows import TableRows
from ..layers import describe
from ..nn_aux import METRICS, TASKS
from ..settings.flags import BY_NAME
from ..terminal import figures
from ..terminal.figures import ends_text, number_text, rate_text, setting_text, shape_text
from ..test import figures_of, judged, without_remarks
from ..test.importance import curves, importance
from ..test.values import names_of
from ..train.folds import unseen_parts
from ..utils import DataError, listed
from . import tested
from .chart import Axis, Line, Plot
from .page import Block, Page, Table

LEAST_INTERVALS, MOST_INTERVALS = 10, 100_000  # rows from and up to which there are intervals
MOST_EXPLAINED = 20_000  # rows on which importance is measured
MOST_LINES, MOST_COLUMNS, MOST_OUTPUTS = 20, 100, 7
OF_TASK = {
    "binary": tested.of_two_classes, "multiclass": tested.of_classes, "regression": tested.of_numbers,
}  # fmt: skip


def of_model(net, model: str, ds=None, about: str = "rows", *, found=None, threshold=None, important=None) -> Page:
    """Return the page of a model, tested on the rows of ds if there are any.

    about: what the rows are. found: (rows, folds, scores) as out_of_fold returns them, where folds predict them.
    threshold: None, the network's. important: (Importance, curves) of the columns, where they are known.
    """
    page = Page(f"Model {basename(model)}", [_about(net)])
    if ds is not None and ds.y is not None:
        _test(page, net, ds, about, found, threshold, important)
    page.sections["Columns"] = _columns(net, None if ds is None else ds.x)
    page.sections["Training"] = [*_losses_by_epoch(net), *_training(net)]
    page.sections["To make it again"] = _again(net, model)
    return page


def _about(net) -> str:
    of = {"binary": "two classes", "multiclass": f"{net.outputs} classes", "regression": "numbers"}[net.task]
    target = f" ({listed(net.targets, 3)})" if net.targets else ""
    networks = f"{len(net.members)} networks predict" if net.is_combined else "One network predicts"
    return f"{networks} {of}{target} from {len(names_of(net))} inputs."


def _test(page: Page, net, ds, about: str, found, threshold, important) -> None:
    """Add what a test tells."""
    rows = ds if found is None else ds.of_rows(found[0])
    truth, scores, weights = judged(net, rows, None if found is None else found[2])
    with without_remarks():
        has_intervals = LEAST_INTERVALS <= len(truth) <= MOST_INTERVALS
        result = figures_of(net, rows, scores, threshold=threshold, intervals=has_intervals)
    page.answer = [_answer(net, result, about)]
    blocks = OF_TASK[net.task](net, result, truth, scores, weights)
    page.sections["Result"] = [tested.metrics(result), *blocks]
    if np.ndim(ds.x) == 4:
        page.sections["The worst mistakes"] = [tested.mistakes(net, rows.x, truth, scores)]
        return
    try:
        known, curves_of = important or _important(net, ds, found)
        page.sections["Columns that matter"] = _importance(net, known, curves_of)
        best = [name for name, low in zip(known.names, known.low, strict=True) if low > 0][:3]
        page.answer += [f"What matters most: {listed(best)}."] if best else []
    except DataError as error:
        page.sections["Columns that matter"] = [str(error)]
    page.sections["Where it errs most"] = [tested.groups(net, rows.x, truth, scores)]


def _answer(net, result: dict, about: str) -> str:
    def rate(name: str, shown=rate_text) -> str:
        ends = result.get("intervals", {}).get(name)
        return shown(result[name]) + (f" (95%: {ends_text(ends, shown)})" if ends else "")

    start = f"On {result['rows']:,} {about}, the model"
    if net.task == "binary":
        there, alarms = (figures.count_text(result["tp"] + result[wrong]) for wrong in ("fn", "fp"))
        name = (net.classes or ["0", "1"])[1]
        return (
            f"{start} finds {rate('recall')} of the {there} of class {name}; of its {alarms} alarms "
            f"{rate('precision')} are right. ROC-AUC {rate('roc_auc')}."
        )
    if net.task == "multiclass":
        share = np.sum(result["confusion"], axis=1).max() / np.sum(result["confusion"])
        return f"{start} is right for {rate('accuracy')}; the most frequent class alone would be for {share:.4f}."
    return f"{start} is off by {rate('rmse', number_text)} (root mean square); R2 {rate('r2', number_text)}."


# ---------------------------------------------------------------- columns


def _important(net, ds, found):
    """Return (Importance, curves) on rows that the networks do not know."""
    parts = [(np.arange(ds.rows), None)] if found is None else unseen_parts(net, ds)
    every = -(-sum(len(rows) for rows, _ in parts) // MOST_EXPLAINED)
    known = importance(net, ds, parts=[(rows[::every], members) for rows, members in parts])
    return known, curves(net, ds.x, known.names)


def _importance(net, known, curves_of) -> list[Block]:
    label, most = METRICS[known.metric].label, max(*known.mean, 1e-300)
    lines = [
        [name, figures.bar(mean / most), f"{mean:.3g}", f"{low:.2g} to {high:.2g}"]
        for name, mean, low, high in zip(known.names, known.mean, known.low, known.high, strict=True)
    ]
    title = f"how much worse {label} ({number_text(known.baseline)}) is with a column's values exchanged between rows"
    title += f"; the first {MOST_LINES} of {len(lines)} columns" * (len(lines) > MOST_LINES)
    blocks: list[Block] = [Table(title, ["column", "", label, "95 % interval"], lines[:MOST_LINES], 2)]
    blocks += [_curve(net, name, points, k) for k, (name, points) in enumerate(curves_of.items()) if points]
    return blocks + [
        f"{one} and {other} are correlated ({r:.2f}): what one of them tells, the other may tell too."
        for one, other, r in known.correlated[:3]
    ]


def _curve(net, name: str, points, number: int) -> Plot:
    """Return the mean prediction by the values of a column: a line of numbers, dots of words."""
    has_words = not isinstance(points[0][0], float)
    words = tuple(str(value) or "(missing)" for value, _ in points) if has_words else ()
    x = range(len(points)) if has_words else [value for value, _ in points]
    names = (net.classes if net.outputs > 1 else net.classes and net.classes[1:]) or net.targets or ["prediction"]
    outputs = zip(names[:MOST_OUTPUTS], zip(*(scores for _, scores in points), strict=True), strict=False)
    lines = [Line(own, x, y, "mark" if has_words else "line") for own, y in outputs]
    what = "mean value" if net.task == "regression" else "mean score"
    title = f"Prediction if all rows had this {name}"
    return Plot(f"curve-{number}", title, Axis(name, words=words), Axis(what), lines)


def _columns(net, x) -> list[Block]:
    """Return the columns of a model: the kind of each, what it became and, of rows, values and gaps."""
    shape, names, encoding = net.layers[0].in_shape, names_of(net), net.encoding
    if len(shape) == 3 and shape[1:] != (1, 1):
        return [f"Images of {shape_text(shape)} pixels, scaled by {net.scaling.kind}."]
    rows, lines = None if x is None else TableRows.of(x), []
    for k, name in enumerate(names[:MOST_COLUMNS]):
        encoder = None if encoding is None else encoding.encoders[k]
        became = ["number", net.scaling.kind] if encoder is None else [encoder.kind, encoder.summary()]
        lines.append([name, *became, *([] if rows is None else _values(rows, k))])
    headers = ["column", "kind", "became", *([] if rows is None else ["values", "", "gaps"])]
    more = f", the first {MOST_COLUMNS}" if len(names) > MOST_COLUMNS else ""
    blocks: list[Block] = [Table(f"{len(names)} columns{more}", headers, lines, 5, True)]
    left_out = len(net.config.get("left_out", ()))
    return blocks + ([f"{left_out} columns of the file were no inputs."] if left_out else [])


def _values(rows: TableRows, k: int) -> list[str]:
    """Return what the values of a column are, their distribution in small, and the share of gaps."""
    column = rows.columns[k]
    is_known = ~column.is_gap
    gaps = "" if is_known.all() else f"{1 - is_known.mean():.1%}"
    if not is_known.any():
        return ["", "", gaps]
    if column.reads == "text":
        counts = np.bincount(column.values[is_known], minlength=len(column.words))
        order, more = np.argsort(-counts, kind="stable")[:3], np.count_nonzero(counts) - 3
        told = ", ".join(f"{column.words[i][:16]} {counts[i] / counts.sum():.0%}" for i in order if counts[i])
        return [told + (f", {more} more" if more > 0 else ""), "", gaps]
    known = np.asarray(column.values, np.float64)[is_known]
    low, high = known.min(), known.max()
    if column.reads == "date":
        told = " to ".join(str(np.datetime64(int(v), "s"))[:10] for v in (low, high))
    else:
        told = f"{low:.4g} to {high:.4g}, median {np.median(known):.4g}"
    return [told, figures.small_bars(np.histogram(known, 12, (low, high))[0]), gaps]


# ---------------------------------------------------------------- training


def _training(net) -> list[Block]:
    """Return what was trained, and what it cost."""
    told = {name: setting_text(value) for name, value in _settings(net).items() if name != "layers"}
    told |= figures.facts_of(net)
    tables = [Table("what was trained", ["", ""], [[name, value] for name, value in told.items() if value], 2)]
    architectures = figures.layers_of(net)
    if len(architectures) == 1:
        each = describe(architectures[0][1])
        lines = [[e["layer"], e["activation"], shape_text(e["output"]), f"{e['parameters']:,}"] for e in each]
        tables.append(Table("layers", ["layer", "activation", "output", "parameters"], lines, 2))
    headers, lines = figures.members_of(net)
    return tables + ([Table("members", headers, lines[:MOST_LINES])] if lines else [])


def _settings(net) -> dict:
    """Return the flags of the training, by name; of a file for --validation without its folder."""
    found = {name: value for name, value in sorted(net.config.items()) if name in BY_NAME}
    if isinstance(found.get("validation"), str):
        found["validation"] = basename(found["validation"])
    return {name: value for name, value in found.items() if value not in (None, False)}


def _losses_by_epoch(net) -> list[Plot]:
    """Return the losses, and the metric that chose the epoch where that is no loss; the best epoch is marked.

    Of several networks, which each chose its own epoch, the metric is the mean, and none is marked.
    """
    history, several, pictures = net.history, len(net.members) > 1, []
    monitor = net.config.get("monitor") if net.config.get("monitor") in METRICS else "loss"
    metric = {epoch: value for epoch, value in enumerate(history.get("val_metric") or [], 1) if value is not None}
    best = None if several else metric and (max if METRICS[monitor].higher_is_better else min)(metric, key=metric.get)
    if history["loss"]:
        judged_by = "validation rows" if "val_metric" in history else "held-out rows"
        lines = {"training rows": history["loss"], judged_by: history["val_loss"]}
        lines = {name: dict(enumerate(values, 1)) for name, values in lines.items() if values}
        values = [value for line in lines.values() for value in line.values()]
        axis = Axis(f"loss ({net.loss}{', of scaled targets' * (net.target_scaling is not None)})")
        axis.log = min(values) > 0 and max(values) > 20 * min(values)
        pictures.append(_by_epoch("loss", "Loss while training", axis, lines, best if monitor == "loss" else None))
    if metric and monitor != "loss":
        subtitle = f"mean of {len(net.members)} networks" if several else f"epoch {best} is the best"
        title, axis = f"{monitor} while training; {subtitle}", Axis(f"{monitor} of the validation rows")
        pictures.append(_by_epoch("metric", title, axis, {"validation rows": metric}, best))
    return pictures


def _by_epoch(name: str, title: str, axis: Axis, lines: dict[str, dict], best: int | None) -> Plot:
    """Return a picture of lines of {epoch: value}."""
    drawn = [Line(label, list(line), list(line.values())) for label, line in lines.items()]
    if best:
        values = [value for line in lines.values() for value in line.values()]
        drawn.append(Line(f"epoch {best}, the best", [best, best], [min(values), max(values)], "rule"))
    return Plot(name, title, Axis("epoch"), axis, drawn)


# ---------------------------------------------------------------- again


def _again(net, model: str) -> list[Block]:
    """Return the command that makes the model, and the digest of its data."""
    data = net.dataset or {}
    if not data.get("path"):
        return ["The model does not say which file it was trained on."]
    digest = [f"SHA-256 of the data: {data['sha256']}"] if data.get("sha256") else []
    return [command_of(net, model, short_name(data["path"])), *digest]


def command_of(net, model: str, data: str) -> str:
    """Return the command that trains the same network from a file of this name, without the folders of files."""
    config = net.config
    words = ["nn", "--train", "--dataset", data, "--model", basename(model)]
    usual = {"loss": TASKS[net.task][1], "backend": "omp", "scaling": "standardization", "seed": 0}
    for name, value in {**_settings(net), **config.get("table", {})}.items():
        if name not in config.get("chosen", ()) and value not in (BY_NAME[name].default, usual.get(name)):
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    if config.get("left_out"):
        words += ["--drop", ",".join(map(str, config["left_out"]))]
    if net.is_combined and not {"effort", "folds"} & {*config}:
        words += ["--networks", str(len(net.members))]
    return shlex.join(words)


# ---------------------------------------------------------------- two models


def of_comparison(result: dict) -> Page:
    """Return the page of two models on the same rows. result: what `compared` returns."""
    one, other = result["models"]
    short = [basename(one), basename(other)]
    short = short if short[0] != short[1] else [f"{short[0]} (1)", f"{short[1]} (2)"]
    verdict = result["verdict"].replace(one, short[0]).replace(other, short[1])
    headers = ["", *short, "difference", "95 % interval"]
    table = Table(f"{result['rows']} rows", headers, figures.comparison_lines(result))
    apart = [
        [str(row["row"]), str(row["true"]), *("; ".join(f"{v:.3g}" for v in row[path]) for path in (one, other))]
        for row in result["disagree"]
    ]
    differ = Table("rows on which they differ most", ["row", "true", *short], apart, 0)
    return Page(" and ".join(short), [f"{verdict}."], {"Metrics": [table, differ]})
