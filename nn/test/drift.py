"""Drift: whether rows are like those that a model was trained on, column by column, by
the distributions that it keeps (data/profiles.py); and which rows have values that
training never had.

Columns of dates and of running numbers are told where they differ, and are no drift:
new rows have new ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core.metrics import decide
from ..core.thresholds import tempered
from ..core.two_samples import compared
from ..data import profiles
from ..data.dataset import Dataset, as_read_by
from ..data.given_rows import read_rows
from ..data.loading import load_for
from ..data.profiles import Fields
from ..files.export.columns import class_names, output_names
from ..nn import Network
from ..nn.prediction import mean_of, member_outputs
from ..nn_aux import TASKS
from ..utils import DataError, axis_texts, cut_line, plural
from .trained_rows import encoders_of, known_words
from .values import names_of

LEAST_DRIFT_ROWS = 50  # of fewer only values far outside the range are named
FALSE_ALARM = 0.001  # the share of them, of all columns together
LEAST_DIFFERENCE = 0.1  # of the shares of a cell
DRIFT_PREDICTIONS = 1 << 12  # of which predictions are compared
MOST_TOLD_COLUMNS = 10
# share of rare words in training up to which a rare word of a row is a reason
MOST_RARE = 0.05
SHORT_SPAN = 20 * 86400.0  # seconds of dates that are told with their time
_SHOWN_WORD = 40  # characters


class Far(NamedTuple):
    """A value far outside the range of training, and its row, from 0."""

    row: int
    column: str
    what: str


@dataclass
class ColumnDrift:
    """How a column, or the predictions, differ from those of training.

    counts (2, cells): rows of training and at hand in the cells that labels name, of
    which inner are pieces of the range, or words that are named. p:
    that of the test of both samples; difference: the largest between the shares of a
    cell. is_apart: dates and running numbers, which are no drift.
    """

    name: str
    labels: Sequence[str]
    counts: np.ndarray
    inner: slice
    reach: str = ""  # of training, what a text says beside a value outside
    is_apart: bool = False
    p: float = field(init=False)
    difference: float = field(init=False)

    def __post_init__(self):
        inner = self.counts[:, self.inner]
        if not self.reach:  # words are neighbours by their rows
            order = np.argsort(-inner.sum(axis=0), kind="stable")
            inner = inner[:, order]
        apart = np.delete(self.counts, self.inner, axis=1)
        self.p, self.difference = compared(inner, apart)

    @property
    def shares(self) -> np.ndarray:
        """Return the shares (2, cells) of training and of the rows at hand."""
        return self.counts / np.maximum(1, self.counts.sum(axis=1))[:, None]

    @property
    def text(self) -> str:
        """Return in words which cell has many more rows than in training."""
        shares = self.shares
        cell = int((shares[1] - shares[0]).argmax())
        share = f"{shares[1, cell]:.0%} {self.labels[cell]}"
        is_outside = self.reach and cell in (1, len(self.labels) - 1)
        usual = self.reach if is_outside else f"{shares[0, cell]:.0%}"
        text = f"{self.name}: {share} (training: {usual})"
        if self.is_apart:
            return f"{text}; no drift: such values go on"
        return text


@dataclass
class Drift:
    """Differences between rows and those of a training.

    columns: all that were compared, none of few rows; far: of few rows, the values far
    outside the range.
    """

    rows: int
    columns: list[ColumnDrift]
    far: list[Far]

    @property
    def compared(self) -> int:
        """Return how many columns could have drifted."""
        return sum(not column.is_apart for column in self.columns)

    @property
    def differing(self) -> list[ColumnDrift]:
        """Return the columns that surely differ, those that drifted first, the worst of
        them first."""
        level = FALSE_ALARM / max(1, self.compared)
        distances = [
            column
            for column in self.columns
            if column.p < level and column.difference >= LEAST_DIFFERENCE
        ]
        return sorted(
            distances,
            key=lambda column: (column.is_apart, -column.difference, column.p),
        )

    @property
    def drifted(self) -> list[ColumnDrift]:
        """Return the columns that drifted, the worst first."""
        return [column for column in self.differing if not column.is_apart]

    @property
    def count_text(self) -> str:
        """Return how many columns drifted, with a verb."""
        count = len(self.drifted)
        verb = "differs" if count == 1 else "differ"
        return f"{count} of {plural(self.compared, 'column')} {verb}"

    @property
    def alike_text(self) -> str:
        """Return what is told where no column drifted."""
        verb = "is" if self.compared == 1 else "are"
        return f"{plural(self.compared, 'column')} {verb} as in training"

    def lines(self) -> list[str]:
        """Return what a person should know: how many columns drifted, the worst of
        them, and values far outside; nothing where all is as in training."""
        texts = [cut_line(column.text) for column in self.differing]
        texts += [f"row {row + 1}, {name}: {what}" for row, name, what in self.far]
        lines = []
        if self.drifted:
            lines.append(f"{self.count_text} from training")
        lines += texts[:MOST_TOLD_COLUMNS]
        if len(texts) > MOST_TOLD_COLUMNS:
            lines.append(f"and {len(texts) - MOST_TOLD_COLUMNS} more")
        return lines

    def to_dict(self) -> dict:
        """Return it as the key `drift` of JSON."""
        columns = [
            {
                "column": column.name,
                "drift": not column.is_apart,
                "p": column.p,
                "difference": column.difference,
                "text": column.text,
            }
            for column in self.differing
        ]
        far = [value._asdict() for value in self.far]
        return {
            "rows": self.rows,
            "columns": self.compared,
            "drifted": len(self.drifted),
            "found": columns,
            "far": far,
        }


def drift(net: Network, rows) -> dict:
    """Return how rows, as predict takes them, or a Dataset, differ from those that a
    network was trained on, by the keys of `nn drift --json`. Raises DataError for a
    network that does not know."""
    check_profiles(net)
    if isinstance(rows, Dataset):
        ds = rows
    elif isinstance(rows, (str, os.PathLike)):
        ds = load_for(net, rows, labelled=False)
    else:
        ds = Dataset(read_rows(net, rows), None, net.task)
    return drift_of(net, ds).to_dict()


def check_profiles(net: Network, model: str = "the model") -> None:
    """Raise DataError for a network that does not know how its columns were
    distributed. model: its name."""
    if net.profiles is None:
        raise DataError(
            f"{model} does not know how the columns of its training were distributed, as "
            "models of images and of earlier versions; train again on a table"
        )


def drift_of(net: Network, ds: Dataset, has_predictions: bool = True) -> Drift | None:
    """Return how rows differ from those that a network was trained on; None where it
    does not know. has_predictions: its predictions are compared too."""
    if net.profiles is None:
        return None
    ds = as_read_by(net, ds)
    x = ds.unfilled
    rows = len(x)
    if rows < LEAST_DRIFT_ROWS:
        return Drift(rows, [], list(_far_values(net, net.reader.in_type(x))))
    # the others may be mapped, and stay as they are
    sample = net.reader.in_type(x[:: profiles.every(rows, x.shape[1])])
    columns = [
        _of_column(name, fields, profile)
        for name, fields, profile in _columns_of(net, sample)
    ]
    if has_predictions:
        columns += _of_predictions(net, ds)
    return Drift(rows, columns, [])


def _columns_of(net: Network, x) -> Iterator[tuple[str, Fields, dict]]:
    """Yield the name, the fields and the profile of each column."""
    fields = profiles.fields_of_table(x, encoders_of(net), known_words(net))
    return zip(names_of(net), fields, net.profiles, strict=True)


def _of_column(name: str, fields: Fields, profile: dict) -> ColumnDrift:
    """Return how the fields of a column differ from its profile."""
    counts = np.array([profile["counts"], profiles.counts_of(fields, profile)])
    if fields.words is not None:
        labels = ["missing", *map(_quoted, profile["words"]), "other words"]
        if _has_many_rare(profile):
            counts = np.hstack([counts[:, :-2], counts[:, -2:].sum(axis=1)[:, None]])
        else:
            labels.append(f"{_newness(profile)} words")
        return ColumnDrift(name, labels, counts, slice(1, 1 + len(profile["words"])))
    is_apart = profile["kind"] in (profiles.DATE, profiles.RUNNING)
    inner = slice(2, profiles.above_cell(profile))
    if profile["low"] is None:
        labels = ["missing", "", "", "numbers"]
        return ColumnDrift(name, labels, counts, inner, "", is_apart)
    edges = [profile["low"], *profile["edges"], profile["high"]]
    texts = _texts_of(edges, profile["kind"])
    pieces = [f"from {low} to {high}" for low, high in pairwise(texts)]
    labels = ["missing", f"below {texts[0]}", *pieces, f"above {texts[-1]}"]
    return ColumnDrift(name, labels, counts, inner, _reach_of(profile), is_apart)


def _texts_of(values: Sequence[float], kind: str) -> list[str]:
    """Return numbers, or dates, of a column as texts."""
    if kind != profiles.DATE:
        return axis_texts(values)
    seconds = np.clip(values, -6e10, 2.5e11).astype("datetime64[s]")
    texts = seconds.astype(str).tolist()
    if max(values) - min(values) > SHORT_SPAN or all(
        text.endswith("T00:00:00") for text in texts
    ):
        return [text[:10] for text in texts]
    return texts


# ---------------------------------------------------------------- predictions


def _of_predictions(net: Network, ds: Dataset) -> Iterator[ColumnDrift]:
    """Yield how predictions differ from those of training rows by the networks that did
    not know them; nothing where the model keeps none, or a prediction is refused."""
    if net.crossed is None or net.crossed.scores is None:
        return
    few = slice(None, None, profiles.every(ds.rows, 1, DRIFT_PREDICTIONS))
    try:
        outputs = _predicted_by_folds(net, ds.of_rows(few).x)
    except DataError:  # whoever predicts all rows says why
        return
    crossed = net.crossed.calibrated
    if TASKS[net.task].by_output:
        names = output_names(net)
        for name, *values in zip(names, crossed.T, outputs.T, strict=True):
            usual, new = [Fields(profiles.AXIS, each) for each in values]
            label = f"predictions {name}".strip()
            yield _of_column(label, new, profiles.profile_of(usual))
        return
    names = class_names(net)
    thresholds = np.resize(net.crossed.thresholds, len(outputs))
    cuts = net.crossed.threshold_of_row, thresholds
    usual, new = [
        Fields(profiles.WORDS, decide(scores, cut), names, names)
        for scores, cut in zip((crossed, outputs), cuts, strict=True)
    ]
    yield _of_column("predictions", new, profiles.profile_of(usual))


def _predicted_by_folds(net: Network, x) -> np.ndarray:
    """Return predictions of rows, each by the networks of one fold after the other, as
    those of training were judged: the mean of all networks lies closer together."""
    crossed = net.crossed
    folds = len(crossed.thresholds)
    outputs = np.empty((len(x), net.outputs))
    # by all networks, which take turns on one engine
    of_members = list(member_outputs(net, x))
    for number, temperature in enumerate(crossed.temperatures):
        scores_of_fold = [scores[number::folds] for scores in of_members[number::folds]]
        scores = mean_of(scores_of_fold, net.member_weights[number::folds])
        outputs[number::folds] = tempered(scores, temperature, crossed.are_apart)
    return outputs


# ---------------------------------------------------------------- row by row


def _far_values(net: Network, x) -> Iterator[Far]:
    """Yield the values of rows that are further outside the range of training than the
    range is wide, those of running numbers aside."""
    for name, fields, profile in _columns_of(net, x):
        if fields.words is None and profile["kind"] != profiles.RUNNING:
            for row in _rows_outside(fields, profile, 1.0):
                reach = _reach_of(profile)
                what = f"{_outside(fields, profile, row)} (training: {reach})"
                yield Far(row, name, what)


def reasons_of(net: Network, x) -> list[str]:
    """Return for each row why a person should look at it: values outside the range of
    training, words that are unseen, gaps where training had none; mostly nothing."""
    reasons: list[list[str]] = [[] for _ in range(len(x))]
    for name, fields, profile in _columns_of(net, net.reader.in_type(x)):
        for row, what in _reasons(fields, profile):
            reasons[row].append(f"{name} {what}")
    return list(map("; ".join, reasons))


def _reasons(fields: Fields, profile: dict) -> Iterator[tuple[int, str]]:
    """Yield the rows of a column that a person should look at, and why. Dates are told
    where they are far outside, running numbers never."""
    counts = profile["counts"]
    if not counts[0]:
        for row in np.flatnonzero(profiles.are_missing(fields)).tolist():
            yield row, "missing"
    if fields.words is None:
        widths = {profiles.RUNNING: np.inf, profiles.DATE: 1.0}
        for row in _rows_outside(fields, profile, widths.get(profile["kind"], 0.0)):
            yield row, _outside(fields, profile, row)
    elif not _has_many_rare(profile):
        for row in np.flatnonzero(profiles.are_unknown(fields)).tolist():
            yield (
                row,
                f"{_quoted(fields.words[fields.values[row]])} {_newness(profile)}",
            )


def _has_many_rare(profile: dict) -> bool:
    """Return whether so large a share of a column's words were rare in training that
    rare and unseen ones say nothing."""
    return profile["counts"][-1] > MOST_RARE * sum(profile["counts"])


def _newness(profile: dict) -> str:
    """Return what words are that training did not tell apart."""
    if profile["counts"][-1]:
        return "rare or unseen"
    return "unseen"


def _rows_outside(fields: Fields, profile: dict, widths: float) -> list[int]:
    """Return the rows whose number lies outside the range of training by more than
    `widths` times its width; none where training had no number."""
    if profile["low"] is None:
        return []
    low, high = profiles.ends_of(profile)
    room = widths * max(high - low, sys.float_info.min)
    is_outside = (fields.values < low - room) | (fields.values > high + room)
    return np.flatnonzero(is_outside).tolist()


def _outside(fields: Fields, profile: dict, row: int) -> str:
    """Return what is said of a value outside the range of training."""
    value = float(fields.values[row])
    if value < profile["low"]:
        bound = profile["low"]
        side = "below"
    else:
        bound = profile["high"]
        side = "above"
    value_text, bound_text = _texts_of([value, bound], profile["kind"])
    return f"{value_text} {side} {bound_text}"


def _reach_of(profile: dict) -> str:
    """Return the range of training as a text."""
    return " to ".join(_texts_of([profile["low"], profile["high"]], profile["kind"]))


def _quoted(word: str) -> str:
    return f'"{cut_line(word, _SHOWN_WORD)}"'
