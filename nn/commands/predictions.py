"""The tables of predictions and of contributions: their columns, and their rows a block
at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from ..core.metrics import decide, decide_each
from ..data.given_rows import times
from ..ds import Dataset
from ..files.export.columns import (
    class_names,
    label_names,
    output_names,
    prediction_names,
)
from ..nn_aux import TASKS
from ..settings.values import split_names
from ..test import scores_of
from ..test.drift import reasons_of
from ..test.out_of_fold import check_scores, out_of_fold
from ..utils import UsageError, distinct_names, names_apart
from .table_file import Block, Table

REASONS = "reasons"  # a column
ROWS_OF_PREDICTIONS = 1 << 13  # predicted at a time, and made to text
SET_SEPARATOR = "|"  # between the classes of a set
EXPLAINED_ROWS = 256  # at a time


def prediction_table(
    net, ds: Dataset, threshold: float | None = None, level: float | None = None
) -> Table:
    """Return a table with a line for each row, counted from 0.

    regression: row, each target in its own units, each truth;
    classes: row, predicted class, score of each class (its probability, if the output
    layer is a sigmoid or softmax; for two classes that of class 1 only), true class.
    The truth is left out where ds.y is None.
    Behind the values or scores stand the ends of intervals of the level, or the set of
    classes, where one is asked for; then those of several networks have their standard
    deviations.
    threshold: score from which a row is of class 1, the network's own by default.
    """
    threshold = net.threshold if threshold is None else threshold
    return Table(
        _names(net, ds, sure=_sure_names(net, level)),
        _predicted(net, ds, threshold, level),
    )


def _sure_names(net, level: float | None) -> list[str]:
    """Return the names of the columns that a level adds: low and high of each target,
    or the set of classes, of several targets one of each."""
    if level is None:
        return []
    if TASKS[net.task].of_classes:
        targets = output_names(net) if TASKS[net.task].by_output else [""]
        return [f"set {target}".strip() for target in targets]
    targets = output_names(net)
    if len(targets) == 1:
        targets = [""]
    return [f"{end} {target}".strip() for target in targets for end in ("low", "high")]


def _sure_columns(net, scores, level: float | None, exposures) -> list:
    """Return the columns that a level adds for these predictions. exposures: of their
    rows, None: they have none."""
    if level is None:
        return []
    if TASKS[net.task].of_classes:
        if TASKS[net.task].by_output:
            sets = net.conformal.named(scores, level, label_names(net))
        else:
            sets = [
                [one] for one in net.conformal.named(scores, level, class_names(net))
            ]
        return [
            [*map(SET_SEPARATOR.join, column)] for column in zip(*sets, strict=True)
        ]
    ends = [times(end, exposures) for end in net.conformal.interval(scores, level)]
    columns = np.stack(ends, axis=2).reshape(len(scores), -1).T
    with np.errstate(over="ignore"):
        return [*columns.astype(scores.dtype)]  # as many digits as predictions have


def _predicted(
    net, ds: Dataset, threshold: float, level: float | None
) -> Iterator[Block]:
    for start in range(0, ds.rows, ROWS_OF_PREDICTIONS):
        block = ds.of_rows(slice(start, start + ROWS_OF_PREDICTIONS))
        scores = scores_of(net, block, start)
        if len(net.members) > 1:
            deviations = list(times(net.deviation(block.x), block.exposures).T)
        else:
            deviations = []
        yield _columns(
            net,
            block,
            [np.arange(start, start + block.rows)],
            scores,
            [*_sure_columns(net, scores, level, block.exposures), *deviations],
            threshold,
        )


def with_reasons(net, ds: Dataset, table: Table) -> Table:
    """Return a table of predictions with a column that says why a person should look at
    a row."""

    def reasons(rows: slice) -> Block:
        return [reasons_of(net, ds.of_rows(rows).unfilled)]

    return _beside(table, distinct_names([REASONS], table.names), reasons)


def with_texts(table: Table, columns: dict[str, list[str]]) -> Table:
    """Return a table with columns of texts behind its own."""

    def texts(rows: slice) -> Block:
        return [values[rows] for values in columns.values()]

    return _beside(table, list(columns), texts)


def _beside(table: Table, names: list[str], columns: Callable[[slice], Block]) -> Table:
    """Return a table with columns behind its own. columns: gives those of some rows."""

    def blocks() -> Iterator[Block]:
        start = 0
        for block in table.blocks:
            rows = slice(start, start + len(block[0]))
            yield [*block, *columns(rows)]
            start = rows.stop

    return Table([*table.names, *names], blocks())


def parse_columns(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns that --columns asks for: by the name that each gets, the name
    or place of what is written there. names: of the predictions' own columns. Raises
    UsageError for a name that comes twice."""
    columns: dict[str, str] = {}
    for word in split_names(text, names):
        name, _, source = word.partition("=")
        if word in names or not source:
            name = source = word
        if name in columns:
            raise UsageError(
                f"--columns {text}: two columns are called {name}; give one another name"
            )
        columns[name] = source
    return columns


def with_columns(table: Table, columns: dict[str, str]) -> Table:
    """Return a table of these of its columns, by the names that they get."""
    places = [table.names.index(source) for source in columns.values()]
    blocks = ([block[place] for place in places] for block in table.blocks)
    return Table(list(columns), blocks)


def with_progress(
    table: Table, rows: int, progress: Callable[[int, int], None]
) -> Table:
    """Return a table that tells, as it is written, how many of its rows are done."""

    def blocks() -> Iterator[Block]:
        done = 0
        for block in table.blocks:
            yield block
            done += len(block[0])
            progress(done, rows)

    return Table(table.names, blocks())


def fold_table(net, ds: Dataset) -> Table:
    """Return the lines of prediction_table for the rows that a cross-validation tested,
    each by its fold's network.

    Behind the row is the number of the fold; there are no deviations. Classes are by
    the threshold that the other folds choose.
    """
    check_scores(net)
    rows, folds, scores = out_of_fold(net, ds)
    tested = ds.of_rows(rows)
    block = _columns(
        net,
        tested,
        [np.asarray(rows), np.asarray(folds)],
        scores,
        [],
        net.crossed.threshold_of_row,
    )
    return Table(_names(net, tested, ["fold"], deviations=False), [block])


def _columns(
    net, ds: Dataset, facts: list[np.ndarray], scores, sureness: list, threshold
) -> Block:
    """Return the columns of some rows: facts of each row, ids, predictions, how sure
    they are, the truth."""
    leading = [*facts, *ds.ids.values()]
    if net.task == "multilabel":
        truth = [] if ds.y is None else list(ds.y.T)
        picked = decide_each(scores, threshold)
        of_targets = zip(_named(net, picked.T), scores.T, strict=True)
        return [*leading, *chain(*of_targets), *sureness, *_named(net, truth)]
    if net.task == "regression":
        truth = []
        if ds.y is not None:
            values = ds.different_targets
            # of rows that were judged, which are learned by their exposure
            truth = list((times(values, ds.exposures) if ds.loss else values).T)
        return [*leading, *times(scores, ds.exposures).T, *sureness, *truth]
    names = np.array(class_names(net))
    predicted = names[decide(scores, threshold)].tolist()
    if ds.y is None:
        truth = []
    else:
        truth = [names[ds.y].tolist()]
    return [
        *leading,
        predicted,
        *scores.reshape(len(predicted), -1).T,
        *sureness,
        *truth,
    ]


def _named(net, columns: Sequence[np.ndarray]) -> list[list[str]]:
    """Return columns of 0 and 1, one of each target, as the names of their classes; an
    empty text for a gap."""
    return [
        [pair[int(value)] if value == value else "" for value in column.tolist()]
        for pair, column in zip(label_names(net), columns[: net.outputs], strict=False)
    ]


def _names(
    net,
    ds: Dataset,
    facts: Sequence[str] = (),
    deviations: bool = True,
    sure: Sequence[str] = (),
) -> list[str]:
    """Return the names of the columns of _columns."""
    outputs = output_names(net)
    predicted = prediction_names(net)
    spread = []
    truth = []
    if deviations and len(net.members) > 1:
        spread = [f"deviation {output}".strip() for output in outputs]
    if ds.y is not None:
        if TASKS[net.task].by_output:
            count = ds.different_targets.shape[1]
            targets = net.targets or ([""] if count == 1 else outputs)
            truth = [f"true {target}".strip() for target in targets]
        else:
            truth = ["true"]
    # targets may have one name
    names = distinct_names(["row", *facts, *predicted, *sure, *spread, *truth])
    before = 1 + len(facts)
    return [*names[:before], *names_apart(list(ds.ids), names), *names[before:]]


def contribution_table(
    net, explainer, x, progress: Callable[[int, int], None] | None = None
) -> Table:
    """Return row, base, what each column contributes, and value, of each row; of
    several outputs a line for each, with the output's name behind the row. progress:
    called with how many rows are done, and of all."""
    outputs = []
    kind = []
    if net.outputs > 1:
        outputs = output_names(net)
        kind = ["target" if TASKS[net.task].by_output else "class"]
    names = names_apart(explainer.names, ["row", *kind, "base", "value"])
    return Table(
        ["row", *kind, "base", *names, "value"],
        _contributions(explainer, x, outputs, progress),
    )


def _contributions(explainer, x, outputs: list[str], progress) -> Iterator[Block]:
    step = explainer.rows_at_a_time(EXPLAINED_ROWS)
    for start in range(0, len(x), step):
        contributions = explainer.explain(x[start : start + step])
        if progress is not None:
            progress(start + len(contributions.values), len(x))
        rows = np.arange(start, start + len(contributions.values))
        if not outputs:
            yield [
                rows,
                contributions.base_values,
                *contributions.values.T,
                contributions.base_values + contributions.values.sum(axis=1),
            ]
            continue
        # a row's outputs together
        lines = contributions.values.transpose(0, 2, 1).reshape(
            len(rows) * len(outputs), -1
        )
        base = contributions.base_values.reshape(-1)
        yield [
            rows.repeat(len(outputs)),
            outputs * len(rows),
            base,
            *lines.T,
            base + lines.sum(axis=1),
        ]
