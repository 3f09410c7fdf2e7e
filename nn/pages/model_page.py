"""The page of a model: how good it is, which columns matter, where it errs, what it was
made of and how; of two models, which is better. Without rows to test it on: what the
model file knows."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import basename

import numpy as np

from ..card import card_of
from ..core.metrics import checked_weights
from ..data.column import Column
from ..data.source import short_name
from ..data.table_rows import TableRows
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import METRICS, TASKS
from ..settings.flags import BY_NAME, settings_of_model
from ..settings.values import joined_names
from ..terminal import figures
from ..terminal.figures import setting_text, shape_text
from ..terminal.network_facts import candidates_of, facts_of, layers_of, members_of
from ..test import figures_of, truth_and_scores, without_remarks
from ..test.drift import ColumnDrift, Drift
from ..test.importance import Importance, curves, importance
from ..test.out_of_fold import (
    NO_SCORES,
    by_fold,
    judging_parts,
    kept_figures,
)
from ..test.reports import sampling_of_copies, with_held
from ..test.sureness import held, held_by_others
from ..test.values import names_of
from ..utils import DataError, axis_texts, figure_text, listed, target_text
from .chart import LONGEST_LABEL_WORD, Axis, Line, Plot
from .page import Block, Page, Table
from .task_blocks import BLOCKS_OF_TASK, answer, groups, mistakes, sureness

# rows from and up to which there are intervals
LEAST_INTERVALS = 10
MOST_INTERVALS = 100_000
MOST_EXPLAINED = 20_000  # rows on which importance is measured
MOST_IMPORTANT = 20
MOST_PAGE_LINES = 100
MOST_OUTPUTS = 7
MOST_DRIFT_PLOTS = 6
MOST_COLUMNS_BESIDE = 5  # of a table that is half a page wide
INTERVAL_HEADER = "95 % interval"
OUTPUTS = {
    "binary": "two classes",
    "multilabel": "several targets of two classes",
    "regression": "numbers",
}


@dataclass
class Tested:
    """A network and the rows that it is tested on.

    out_of_fold: (rows, folds, scores) as out_of_fold returns them, where folds predict
    the rows. threshold, level: None, the network's and the usual
    one of intervals, or sets. important: (Importance, curves) of the
    columns, where they are known. progress: of the importance, see there.
    """

    net: Network
    ds: Dataset
    out_of_fold: tuple | None = None
    threshold: float | None = None
    level: float | None = None
    important: tuple[Importance, dict] | None = None
    progress: Callable[[int, int], None] | None = None


def page_of_model(
    net: Network,
    model: str,
    ds=None,
    about: str = "rows",
    *,
    trained=None,
    drift: Drift | None = None,
    **settings,
) -> Page:
    """Return the page of a model, tested on the rows of ds if there are any.

    about: what the rows are. trained: how many of the rows the model was trained on
    (Trained). drift: how they differ from those of its training, where that is known.
    settings: fields of Tested.
    """
    page = Page(f"Model {basename(model)}", [_about(net)])
    lines = [[name, text] for name, text in card_of(net).items()]
    page.sections["The model"] = [Table("", ["", ""], lines, 2, True)]
    x = None
    if ds is not None:
        x = ds.x
        if ds.y is not None:
            _add_test(page, Tested(net, ds, **settings), about)
            target = _target_of(net)
            if target:
                page.answer.append(f"It predicts the {target}.")
            if trained is not None and trained.spoils_figures:
                page.answer.append(
                    f"{trained.warning(basename(model))}: these figures say how well it"
                    " knows them, not how good it is on new rows."
                )
    if drift is not None:
        page.sections["Beside the rows of the training"] = _drift(drift)
    page.sections["Columns"] = _columns(net, x)
    page.sections["Training"] = [*_losses_by_epoch(net), *_training(net)]
    page.sections["To make it again"] = _again(net, model)
    return page


def _about(net: Network) -> str:
    """Return what a network predicts, and from how many inputs."""
    outputs = OUTPUTS.get(net.task, f"{net.outputs} classes")
    target = _target_of(net)
    if target:
        outputs += f" ({target})"
    if net.is_combined:
        networks = f"{len(net.members)} networks predict"
    else:
        networks = "One network predicts"
    return f"{networks} {outputs} from {len(names_of(net))} inputs."


def _target_of(net: Network) -> str:
    return target_text(net.targets, net.config.get("target"), is_table=False)


# ------------------------------------------------------------------------------- a test


def _add_test(page: Page, tested: Tested, about: str) -> None:
    """Add what a test says: metrics, and what its task has; columns that matter, groups
    of rows and images on which the network errs most."""
    net = tested.net
    is_image = np.ndim(tested.ds.x) == 4
    if tested.out_of_fold is None:
        rows = tested.ds
        scores = None
        by_folds = {}
    else:
        indices, _, scores = tested.out_of_fold
        if scores is None:
            _add_kept_figures(page, tested, about)
            if not is_image:
                _add_columns_that_matter(page, tested)
            return
        rows = tested.ds.of_rows(indices)
        by_folds = by_fold(net, tested.threshold)
        by_folds["sampling"] = sampling_of_copies(tested.ds, indices)
    truth, scores, weights = truth_and_scores(net, rows, scores)
    weights = checked_weights(weights, len(truth))
    has_intervals = LEAST_INTERVALS <= len(truth) <= MOST_INTERVALS
    with without_remarks():
        result = figures_of(
            net,
            rows,
            scores,
            threshold=tested.threshold,
            intervals=has_intervals,
            **by_folds,
        )
    if tested.out_of_fold is None:
        coverage = held(net, truth, scores, tested.level)
    else:
        judged_rows = (truth, scores, weights)
        folds = tested.out_of_fold[1]
        coverage = held_by_others(net, judged_rows, folds, rows.groups, tested.level)
    result = with_held(result, coverage, weights)
    page.answer = [answer(net, result, _of_file(tested, about)), *_by_whom(tested)]
    of_folds = {}
    if net.task in ("binary", "multilabel") and by_folds:
        of_folds["folds"] = by_folds["folds"]
    blocks = BLOCKS_OF_TASK[net.task](net, result, truth, scores, weights, **of_folds)
    page.sections["Result"] = [*_metrics(result, has_intervals), *blocks]
    if coverage is not None:
        text = figures.sureness_text(result, figure_text)
        page.answer.append(f"{text[0].upper()}{text[1:]}.")
        tables = sureness(net, coverage, scores, weights)
        page.sections["How sure it is"] = tables
    if is_image:
        worst = mistakes(net, rows.x, truth, scores, rows.part_rows)
        page.sections["The worst mistakes"] = [worst]
        return
    _add_columns_that_matter(page, tested)
    page.sections["Where it errs most"] = [groups(net, rows.x, truth, scores, weights)]


def _add_kept_figures(page: Page, tested: Tested, about: str) -> None:
    """Add the figures of rows whose out-of-fold scores the model does not keep."""
    result = kept_figures(tested.net, tested.threshold, intervals=True)
    rows = _of_file(tested, about)
    page.answer = [answer(tested.net, result, rows), *_by_whom(tested)]
    remark = f"Only these figures are known: {NO_SCORES}."
    page.sections["Result"] = [*_metrics(result, True), remark]


def _of_page(lines: list[list[str]]) -> list[list[str]]:
    """Return lines of metrics without the MSE, the square of another one: of amounts of
    money it is wide and says nothing to a person."""
    return [line for line in lines if line[0] != METRICS["mse"].label]


def _metrics(result: dict, has_intervals: bool) -> list[Table]:
    """Return the metrics of a test, and those of each of several targets."""
    headers = ["", "", INTERVAL_HEADER]
    if not has_intervals:
        headers[2] = ""
    lines = _of_page(figures.metric_lines(result, figure_text))
    tables = [Table("metrics", headers, lines)]
    headers, lines = figures.target_lines(result, figure_text, has_intervals)
    if lines:
        tables.append(_by_target(headers, lines))
    return tables


def _by_target(headers: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """Return the metrics of each target: a line for each target, or for each metric
    where these are more, so that the table is narrow."""
    if len(lines) < len(headers) - 1:
        headers, *lines = zip(headers, *lines, strict=True)
    is_wide = len(headers) > MOST_COLUMNS_BESIDE
    return Table("metrics by target", list(headers), list(map(list, lines)), 1, is_wide)


def _of_file(tested: Tested, about: str) -> str:
    """Return what the rows are, with the file they come from and its date."""
    path = tested.ds.path
    if not path:
        return about
    about += f" of {short_name(path)}"
    if os.path.isfile(path):
        day = time.strftime("%Y-%m-%d", time.gmtime(os.path.getmtime(path)))
        about += f" ({day})"
    return about


def _by_whom(tested: Tested) -> list[str]:
    """Return a sentence on whose predictions are judged out of fold."""
    if tested.out_of_fold is None:
        return []
    if tested.net.crossed.is_retrained:
        return [
            "Each row was predicted by networks of earlier rows only; those that predict now know all of them."
        ]
    return [
        "One fold's networks judge each row, all networks predict new rows: the model may be a little better than these figures say."
    ]


# --------------------------------------------------------------------- importance


def _add_columns_that_matter(page: Page, tested: Tested) -> None:
    """Add the importance of columns, or why it means nothing for these rows."""
    try:
        columns, points_of = tested.important or _important(tested)
    except DataError as error:
        page.sections["Columns that matter"] = [str(error)]
        return
    blocks = _importance(tested.net, columns, points_of)
    if tested.out_of_fold is not None and tested.net.crossed.is_retrained:
        blocks.insert(
            0,
            "The networks know these rows: after the metrics were taken they were trained once more on all of them.",
        )
    page.sections["Columns that matter"] = blocks
    certain = [
        name for name, holds in zip(columns.names, columns.holds, strict=True) if holds
    ]
    if certain:
        page.answer.append(f"What matters most: {listed(certain[:3])}.")


def _important(tested: Tested) -> tuple[Importance, dict]:
    """Return (Importance, curves) on rows that the networks do not know."""
    parts = judging_parts(tested.net, tested.ds, tested.out_of_fold)
    count = sum(len(rows) for rows, _ in parts)
    every = -(-count // MOST_EXPLAINED)
    parts = [(rows[::every], members) for rows, members in parts]
    columns = importance(tested.net, tested.ds, parts=parts, progress=tested.progress)
    return columns, curves(tested.net, tested.ds, columns.names)


def _importance(net: Network, columns: Importance, points_of: dict) -> list[Block]:
    """Return how much each column matters, the prediction by the values of those that
    matter most, and which columns are correlated."""
    label = METRICS[columns.metric].label
    lines = figures.importance_lines(vars(columns))
    title = f"how much worse {label} ({figure_text(columns.baseline)}) is with a column's values exchanged between rows"
    if len(lines) > MOST_IMPORTANT:
        title += f"; the first {MOST_IMPORTANT} of {len(lines)} columns"
    headers = ["column", "", f"{label}, worse by", INTERVAL_HEADER]
    blocks: list[Block] = [Table(title, headers, lines[:MOST_IMPORTANT], 2)]
    heights = [
        score
        for points in points_of.values()
        for _, scores in points
        for score in scores[:MOST_OUTPUTS]
    ]
    for number, (name, points) in enumerate(points_of.items()):
        if points:
            ends = _with_room(min(heights), max(heights))
            blocks.append(_curve(net, name, points, number, ends))
    for a, b, r in columns.correlated[:3]:
        blocks.append(
            f"{a} and {b} are correlated ({r:.2f}): what one of them says, the other may say too."
        )
    return blocks


def _with_room(low: float, high: float) -> tuple[float, float]:
    """Return the ends of the axis that the curves of a page share."""
    room = 0.04 * (high - low) or abs(high) / 2 or 1.0
    return low - room, high + room


def _curve(
    net: Network, name: str, points, number: int, ends: tuple[float, float]
) -> Plot:
    """Return the mean prediction by the values of a column: a line of numbers, dots of
    words. ends: of the axis of predictions."""
    values = [value for value, _ in points]
    if isinstance(values[0], float):
        axis = Axis(name)
        x = values
        look = "line"
    else:
        axis = Axis(name, words=tuple(str(value) or "(missing)" for value in values))
        x = range(len(values))
        look = "mark"
    if net.task == "regression":
        label = "mean value"
    else:
        label = "mean score"
    by_output = np.transpose([scores for _, scores in points])[:MOST_OUTPUTS]
    names = _names_of_outputs(net)[:MOST_OUTPUTS]
    lines = [
        Line(output, x, y, look) for output, y in zip(names, by_output, strict=True)
    ]
    title = f"Prediction if all rows had this {name}"
    return Plot(f"curve-{number}", title, axis, Axis(label, ends=ends), lines)


def _names_of_outputs(net: Network) -> list[str]:
    """Return the names of classes, of two that of class 1 alone; or of targets; numbers
    of those that have none."""
    if TASKS[net.task].by_output:
        if net.outputs == 1:
            return net.values or ["prediction"]
        return net.values or [f"output {number}" for number in range(net.outputs)]
    classes = net.classes or range(max(2, net.outputs))
    names = [f"class {name}" for name in classes]
    if net.outputs == 1:
        return names[1:]
    return names


# ------------------------------------------------------------------------------ drift


def _drift(drift: Drift) -> list[Block]:
    """Return which columns differ from those of the training, and both distributions of
    the worst."""
    lines = drift.lines()
    if not lines:
        return [f"{drift.alike_text}."]
    worst = drift.differing[:MOST_DRIFT_PLOTS]
    plots = [_distributions(column, number) for number, column in enumerate(worst)]
    return [*lines, *plots]


def _distributions(column: ColumnDrift, number: int) -> Plot:
    """Return the shares of a column's cells among the rows of the training, and among
    those at hand."""
    cells = np.flatnonzero(column.counts.sum(axis=0))
    lines = [
        Line(name, range(len(cells)), shares[cells], "mark")
        for name, shares in zip(("training", "these rows"), column.shares, strict=True)
    ]
    x = Axis(column.name, words=[_on_axis(column.labels[cell]) for cell in cells])
    y = Axis("share of the rows")
    return Plot(f"drift-{number}", f"Values of {column.name}", x, y, lines)


def _on_axis(label: str) -> str:
    """Return the label of a cell as an axis has room for it: of a long piece its
    start."""
    text = label.removeprefix("from ")
    if len(text) > LONGEST_LABEL_WORD:
        return text.partition(" to ")[0]
    return text


def page_of_drift(drift: Drift, model: str, data: str) -> Page:
    """Return the page of rows, of the data of this name, beside a model's training."""
    answer = f"Of {drift.rows:,} rows {drift.count_text} from the rows that the model was trained on."
    return Page(
        f"{basename(data)} beside {basename(model)}",
        [answer],
        {"Columns": _drift(drift)},
    )


# ---------------------------------------------------------------------------- columns


def _columns(net: Network, x) -> list[Block]:
    """Return the columns of a model: the kind of each, what it became and, of rows,
    values and gaps."""
    shape = net.layers[0].in_shape
    if len(shape) == 3 and shape[1:] != (1, 1):
        return [f"Images of {shape_text(shape)} pixels, scaled by {net.scaling.kind}."]
    names = names_of(net)
    headers = ["column", "kind", "became"]
    lines = []
    for k, name in enumerate(names[:MOST_PAGE_LINES]):
        if net.encoding is None:
            lines.append([name, "number", net.scaling.kind])
        else:
            encoder = net.encoding.encoders[k]
            lines.append([name, encoder.kind, encoder.summary()])
    if x is not None:
        headers += ["values", "", "gaps"]
        for line, column in zip(lines, TableRows.of(x).columns, strict=False):
            line += _values(column)
    title = f"{len(names)} columns"
    if len(names) > MOST_PAGE_LINES:
        title += f", the first {MOST_PAGE_LINES}"
    blocks: list[Block] = [Table(title, headers, lines, 5, True)]
    left_out = len(net.config.get("left_out", ()))
    if net.unused:
        reasons = [f"{name or '(no name)'} ({why})" for name, why in net.unused]
        blocks.append(f"Not inputs: {listed(reasons, MOST_PAGE_LINES)}.")
    elif left_out:
        blocks.append(f"{left_out} columns of the file were not inputs.")
    return blocks


def _values(column: Column) -> list[str]:
    """Return what the values of a column are, their distribution in small, and the
    share of gaps."""
    is_known = ~column.is_gap
    gaps = ""
    if not is_known.all():
        gaps = f"{1 - is_known.mean():.1%}"
    values = column.values[is_known]
    if not len(values):
        return ["", "", gaps]
    if column.reads == "text":
        return [_frequent_words(column.words, values), "", gaps]
    numbers = np.asarray(values, np.float64)
    ends = numbers.min(), numbers.max()
    if column.reads == "date":
        days = [str(np.datetime64(int(second), "s"))[:10] for second in ends]
        text = " to ".join(days)
    else:
        text = "{} to {}, median {}".format(*axis_texts([*ends, np.median(numbers)]))
    return [text, figures.small_bars(np.histogram(numbers, 12, ends)[0]), gaps]


def _frequent_words(words: Sequence[str], codes: np.ndarray) -> str:
    """Return the three most frequent words, the share of each, and how many more there
    are."""
    counts = np.bincount(codes, minlength=len(words))
    texts = [
        f"{words[code][:16]} {counts[code] / len(codes):.0%}"
        for code in np.argsort(-counts, kind="stable")[:3]
        if counts[code]
    ]
    unlisted = np.count_nonzero(counts) - 3
    if unlisted > 0:
        texts.append(f"{unlisted} more")
    return ", ".join(texts)


# --------------------------------------------------------------------------- training


def _training(net: Network) -> list[Block]:
    """Return what was trained, and what it cost."""
    facts = {name: setting_text(value) for name, value in _settings(net).items()}
    facts.pop("layers", None)
    facts |= facts_of(net)
    facts.pop("multiply-adds")
    lines = [[name, text] for name, text in facts.items() if text]
    tables = [Table("what was trained", ["", ""], lines, 2)]
    architectures = layers_of(net)
    if len(architectures) == 1:
        headers = ["layer", "activation", "output shape", "parameters"]
        lines = figures.layer_lines(architectures[0][1])
        tables.append(Table("layers", headers, lines, 2))
    tried = "what was tried; the loss is that of rows that a network did not know"
    tables.append(Table(tried, *candidates_of(net)))
    headers, lines = _grouped(*members_of(net))
    tables.append(Table("groups of networks", headers, lines, len(headers), True))
    for table in tables:
        table.lines = table.lines[:MOST_PAGE_LINES]
    return [table for table in tables if table.lines]


def _grouped(
    headers: Sequence[str], lines: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return (headers, lines) of networks that differ in nothing but the seed, which
    is first, as one line with how many they are."""
    counts = Counter(tuple(line[1:]) for line in lines)
    grouped = [[str(count), *rest] for rest, count in counts.items()]
    return ["networks", *headers[1:]], grouped


def _settings(net: Network) -> dict:
    """Return the flags of the training, by name; of a file for --validation without its
    folder."""
    settings = settings_of_model(net.config)
    if isinstance(settings.get("validation"), str):
        settings = settings | {"validation": basename(settings["validation"])}
    names = sorted({*settings} & {*BY_NAME})
    # 0 is a setting, although it equals False
    return {
        name: settings[name]
        for name in names
        if settings[name] is not None and settings[name] is not False
    }


def _losses_by_epoch(net: Network) -> list[Plot]:
    """Return the losses, and the metric that chose the epoch where that is no loss; the
    best epoch is marked.

    Of several networks, which each chose its own epoch, the metric is the mean, and
    none is marked.
    """
    monitor = net.config.get("monitor")
    if monitor not in METRICS:
        monitor = "loss"
    scores = {
        epoch: score
        for epoch, score in enumerate(net.history.get("val_metric") or [], 1)
        if score is not None
    }
    plots = _losses(net)
    if len(net.members) > 1:
        best = None
        which = f"mean of {len(net.members)} networks"
    else:
        best = _best_epoch(scores, METRICS[monitor].higher_is_better)
        which = f"epoch {best} is the best"
    if scores and monitor != "loss":
        axes = Axis("epoch"), Axis(f"{monitor} of the validation rows")
        line = Line("validation rows", [*scores], [*scores.values()])
        title = f"{monitor} while training; {which}"
        plots.append(Plot("metric", title, *axes, [line]))
    if best and plots:
        lines = plots[-1].lines
        heights = [height for line in lines for height in line.y]
        ends = [min(heights), max(heights)]
        lines.append(Line(f"epoch {best}, the best", [best, best], ends, "rule"))
    return plots


def _best_epoch(scores: dict[int, float], higher_is_better: bool) -> int | None:
    """Return the first of the epochs with the best score; None without any."""
    if not scores:
        return None
    if higher_is_better:
        return max(scores, key=scores.get)
    return min(scores, key=scores.get)


def _losses(net: Network) -> list[Plot]:
    """Return the losses of training and held-out rows by epoch, if there are any."""
    history = net.history
    label = f"loss ({net.loss})"
    if net.target_scaling is not None:
        label = f"loss ({net.loss}, of scaled targets)"
    held_out = "held-out rows"
    if "val_metric" in history:
        held_out = "validation rows"
    losses = {"training rows": history["loss"], held_out: history["val_loss"] or ()}
    lines = [
        Line(rows, range(1, 1 + len(values)), values)
        for rows, values in losses.items()
        if len(values)
    ]
    if not lines:
        return []
    return [
        Plot("loss", "Loss while training", Axis("epoch"), Axis(label, True), lines)
    ]


# ------------------------------------------------------------------------------ again


def _again(net: Network, model: str) -> list[Block]:
    """Return the command that makes the model, and the digest of its data."""
    data = net.dataset or {}
    if not data.get("path"):
        return ["The model does not say which file it was trained on."]
    file = short_name(data["path"])
    if data.get("part"):
        return [
            f"The model was trained on some rows of {file}, and does not say which."
        ]
    blocks: list[Block] = [command_of(net, model, file)]
    if data.get("sha256"):
        blocks.append(f"SHA-256 of the data: {data['sha256']}")
    if str(net.config.get("init")).startswith("sha256:"):
        blocks.append("--init stands for the model with this SHA-256.")
    return blocks


def command_of(net: Network, model: str, data: str) -> str:
    """Return the command that trains the same network from a file of this name, without
    the folders of files."""
    config = net.config
    words = ["nn", "--train", "--dataset", data, "--model", basename(model)]
    usual = {
        "loss": TASKS[net.task].loss,
        "backend": "omp",
        "scaling": "standardization",
        "seed": 0,
    }
    for name, value in {**_settings(net), **config.get("table", {})}.items():
        is_default = value in (BY_NAME[name].default, usual.get(name))
        # left_out has the columns that were dropped, and others
        if is_default or name in ("drop", *config.get("chosen", ())):
            continue
        words.append(f"--{name}")
        if value is not True:
            words.append(str(BY_NAME[name].value.text_of(value)))
    if config.get("left_out"):
        words += ["--drop", _left_out(net)]
    if net.is_combined and not {"effort", "folds"} & {*config}:
        words += ["--networks", str(len(net.members))]
    return shlex.join(words)


def _left_out(net: Network) -> str:
    """Return the columns that are no inputs as --drop takes them: by their names where
    these tell them."""
    names = [name for name, _ in net.unused or ()]
    others = [*(net.columns or ()), *(net.targets or ())]
    are_plain = all(name.strip() and not name.strip().isdigit() for name in names)
    if not names or not are_plain or len({*names, *others}) < len(names + others):
        names = [str(place) for place in net.config["left_out"]]
    return joined_names(names)


def page_of_comparison(
    result: dict, tested: Tested | None = None, about="rows"
) -> Page:
    """Return the page of two models on the same rows. result: what `compared` returns;
    tested: one of the models and the rows; about: what they are."""
    models = result["models"]
    names = [basename(model) for model in models]
    if names[0] == names[1]:
        names = [f"{names[0]} (1)", f"{names[1]} (2)"]
    # the longer one first, of which the other may be a part
    longer_first = sorted(models, key=len, reverse=True)
    name_of_model = dict(zip(models, names, strict=True))
    verdict = re.sub(
        "|".join(map(re.escape, longer_first)),
        lambda found: name_of_model[found[0]],
        result["verdict"],
    )
    headers = ["", *names, "difference", INTERVAL_HEADER]
    lines = _of_page(figures.comparison_lines(result, figure_text))
    metrics = Table(f"{result['rows']} rows", headers, lines)
    lines = []
    for row in result["disagree"]:
        predictions = figures.disagreeing_texts(row, models)
        true = figures.true_text(row, result["metrics"])
        lines.append([str(row["row"]), true, *predictions])
    headers = ["row", "true", *names]
    disagreement = Table("rows on which they differ most", headers, lines, 0)
    sections = {"Metrics": [metrics, disagreement]}
    answers = [f"{verdict}."]
    if tested is not None:
        target = listed(tested.net.targets or ["the target"], 3)
        rows = f"{result['rows']:,} {_of_file(tested, about)}"
        answers.append(f"Both predict {target}; they were tested on {rows}.")
    return Page(" and ".join(names), answers, sections)
