"""Prepared: a data set made ready for the training of networks that read it alike.

Dataset, Split, RowSettings ─► encoding, scalings and weights of classes, by the
training rows alone ─► Prepared ─► rows as an engine takes them, and the facts that
a model keeps of its data
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.losses import weighted_classes
from ..core.weighted import at_rows
from ..nn_aux import ACTIVATIONS, TASKS
from ..settings.values import (
    BALANCED,
    NO_CLASS_WEIGHT,
    class_weight_numbers,
    number_embedding_value,
)
from ..utils import DataError, UsageError, listed
from .checks import refuse_gaps
from .column import GAPS, WINDOWS
from .dataset import Dataset, name_of
from .encoding import Encoding
from .kinds import NUMBER
from .medians import medians_of
from .pixels import pictures_of
from .row_reader import RowReader
from .scaling import Moments, Scaling, check_spread
from .splits import Fold, Split, folds_and_splits, targets_without_rows
from .statistics import statistics_of
from .table_rows import TableRows
from .word_means import WordMeans, columns_with_means, means_of

# of the range of the training targets, that --clip leaves on either side
CLIP_MARGIN = 0.1
# facts that rows change of a model that goes on with them
_OF_ROWS = ("weightless_rows", "conformal", "crossed", "judged", "dataset")
MOMENT_VALUES = 1 << 22  # of targets, that are added up at once


class RowSettings(NamedTuple):
    """Settings that decide how a network takes rows: of its layers, of its training.

    shape: of a row, see RowReader. output_function: the activation of the last layer.
    loss: by which their targets are those of ds. The others are settings of `nn
    --train`.
    """

    shape: int | tuple[int, ...]
    outputs: int
    output_function: str
    loss: str
    dtype: str
    reference: bool
    scaling: str
    number_embedding: str | None
    target_means: bool
    class_weight: str
    clip: bool


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows that are trained on, and those that judge, as networks of these settings
    read them.

    target_scaling: of a regression; None: targets stay as they are. class_weights: of
    each class, of several yes/no targets (targets, 2), float64; None: all are 1.
    is_kept: a model that goes on has decided how rows are read. means_apart: see
    WordMeans.keep_apart. is_part: these are some of all rows, which the caller has
    chosen.
    """

    ds: Dataset
    split: Split
    settings: RowSettings
    reader: RowReader
    target_scaling: Scaling | None
    class_weights: np.ndarray | None
    is_kept: bool = False
    means_apart: bool = True
    is_part: bool = False

    @classmethod
    def of(
        cls,
        ds: Dataset,
        split: Split,
        settings: RowSettings,
        encoding: Encoding | None = None,
        is_part: bool = False,
    ) -> Prepared:
        """Prepare a data set by its training rows. encoding: one that the network has
        already; None: such as the rows ask for. Raises DataError for rows that cannot
        be trained on, UsageError for settings that do not go with them."""
        rows = split.training
        _check_targets(ds, rows)
        if encoding is None:
            encoding = fitted_encoding(
                ds,
                settings.scaling,
                settings.number_embedding,
                lambda: statistics_by(ds, rows, settings.target_means),
            )
        weights = ds.weights_of(rows)
        if encoding is None:
            scaling = _input_scaling(ds, rows, settings, weights)
        else:
            scaling = Scaling()  # the encoding has the constants
        medians = None
        number_type = None
        pictures = None
        if not settings.reference and not ds.are_images:
            medians = medians_of(ds.x, rows, weights)
        if not ds.are_images:
            number_type = _number_type(ds.x)
        if encoding is None and not settings.reference:
            pictures = pictures_of(ds, scaling)
        reader = RowReader(
            settings.dtype,
            settings.shape,
            scaling,
            encoding,
            ds.columns,
            medians,
            number_type,
            pictures,
        )
        return cls(
            ds,
            split,
            settings,
            reader,
            _target_scaling(ds, rows, settings, weights),
            _class_weights(ds, rows, settings.class_weight),
            is_part=is_part,
        )

    @classmethod
    def kept(
        cls, ds: Dataset, split: Split, settings: RowSettings, net, means_apart: bool
    ) -> Prepared:
        """Prepare a data set as a network reads it that goes on with these rows.
        means_apart: the means of its words are of these rows."""
        return cls(
            ds,
            split,
            settings,
            net.reader,
            net.target_scaling,
            _class_weights(ds, split.training, settings.class_weight),
            is_kept=True,
            means_apart=means_apart,
        )

    def with_validation_rows(self) -> Prepared:
        """Return it for a training on the validation rows too, which are judged by
        none."""
        split = Split(
            np.union1d(self.split.training, self.split.validation),
            self.split.validation[:0],
            self.split.holdout,
        )
        if self.is_kept:
            return replace(self, split=split)
        encoding = self.reader.encoding
        return Prepared.of(self.ds, split, self.settings, encoding, self.is_part)

    def read_by(self, settings: RowSettings) -> Prepared:
        """Return the same rows for networks of other settings."""
        return Prepared.of(self.ds, self.split, settings)

    def by_folds(
        self, folds: int, seed: int, validation: float | None
    ) -> list[tuple[Fold, Prepared]]:
        """Return the folds of the rows that are not held out, each with its rows as the
        networks of these settings read them, encoded by them; see folds_and_splits."""
        pairs = folds_and_splits(self.ds, self.split, folds, seed, validation)
        return [
            (fold, Prepared.of(self.ds, split, self.settings)) for fold, split in pairs
        ]

    @property
    def facts(self) -> dict:
        """Return what a model keeps of the data, by the fields of nn.facts.Facts."""
        ds = self.ds
        reader = self.reader
        facts = {
            "columns": ds.columns,
            "targets": ds.names_of_targets,
            "classes": ds.classes,
            "label_type": ds.label_type,
            "labels": ds.labels,
            "gap_words": sorted(GAPS),
            "code_page": WINDOWS,
            "weightless_rows": None,
            "conformal": None,  # told after the last epoch
            "crossed": None,
            "judged": None,
            "unused": ds.unused or None,
            "number_type": reader.number_type,
            "dataset": None,
            "scaling": reader.scaling,
            "target_scaling": self.target_scaling,
            "medians": reader.medians,
            "pictures": reader.pictures,
        }
        if ds.weights is not None:
            facts["weightless_rows"] = ds.left_out_rows.get("weightless", 0)
        # without weights set since, which no file has
        is_divided_as_read = ds.weights is None or bool(ds.weights.all())
        if is_divided_as_read or self.is_part:
            facts["dataset"] = _origin_of(ds, self.is_part)
        if self.is_kept:
            facts = {name: facts[name] for name in _OF_ROWS}
        return facts

    # ---- rows as an engine takes them

    def training_arrays(self) -> tuple[np.ndarray, ...]:
        """Return (x, y), and the weights of the rows in the loss if there are any, of
        all rows of the data set."""
        encoding = self.reader.encoding
        columns = columns_with_means(encoding)
        # records that many trainings may share are known by the digest of their file
        if columns or self.ds.is_part:
            digest = None
        else:
            digest = self.ds.sha256
        x = self.reader.engine_rows(self.ds.x, digest)
        if columns and self.means_apart:
            means = WordMeans(self.ds, self.split.training)
            means.keep_apart(self.ds.x, columns, encoding, x)
        return (x, *self._targets_and_weights(self.ds))

    def arrays_of(self, ds: Dataset) -> tuple[np.ndarray, ...]:
        """Return (x, y), and weights if there are any, of other data that judge."""
        if ds.is_part:
            digest = None
        else:
            digest = ds.sha256
        x = self.reader.engine_rows(ds.x, digest)
        return (x, *self._targets_and_weights(ds))

    @np.errstate(over="ignore")  # a loss that is not finite says so
    def _targets_and_weights(self, ds: Dataset) -> tuple[np.ndarray, ...]:
        settings = self.settings
        if TASKS[ds.task].by_output:
            y = ds.y
            if self.target_scaling is not None:
                y = self.target_scaling.apply(y, settings.dtype)
            if self.class_weights is not None:
                y = weighted_classes(y, self.class_weights)
        elif settings.reference and ds.task == "binary" and ds.classes:
            y = np.array([float(name) for name in ds.classes])[ds.y]
        else:
            y = ds.y
        # several classes are told by their numbers
        if not TASKS[ds.task].by_output and settings.outputs > 1:
            y = y.astype(np.int32)
        else:
            y = np.ascontiguousarray(y.reshape(len(y), -1), settings.dtype)
        weights = ds.weights
        if self.class_weights is not None and not TASKS[ds.task].by_output:
            class_weights = self.class_weights[ds.y]
            weights = class_weights if weights is None else class_weights * weights
        if weights is None:
            return (y,)
        return (y, weights.astype(settings.dtype))


# ---- inputs


def statistics_by(ds: Dataset, rows: np.ndarray, target_means: bool) -> list:
    """Return the statistics of each column by the training rows, see
    encoding.statistics_of."""
    means = means_of(ds, rows, target_means)
    return statistics_of(TableRows.of(ds.x), ds.kinds, rows, means, ds.row_counts(rows))


def fitted_encoding(
    ds: Dataset,
    scaling: str,
    number_embedding: str | None,
    statistics: Callable[[], list],
) -> Encoding | None:
    """Return the encoding that the training rows ask for; None where the table holds
    plain numbers that stay so. statistics: gives those of the columns."""
    embedding = None
    if number_embedding is not None:
        embedding = number_embedding_value(number_embedding)
    if embedding and ds.are_images:
        raise UsageError(
            f"--number_embedding {number_embedding}: is for columns of numbers, the data are images; leave it out"
        )
    is_plain = not isinstance(ds.x, TableRows)
    if is_plain and not embedding:
        return None
    return Encoding.fit(
        statistics(),
        ds.kinds or (NUMBER,) * ds.inputs,
        scaling,
        embedding,
        names=ds.columns,
        places=ds.places,
        plain=is_plain,
    )


def _input_scaling(
    ds: Dataset, rows: np.ndarray, settings: RowSettings, weights: np.ndarray | None
) -> Scaling:
    """Return the scaling of plain numbers. Raises DataError for a gap among them."""
    x = ds.x
    if not isinstance(settings.shape, tuple):
        x = x.reshape(ds.rows, -1)
    scaling = Scaling.fit(
        settings.scaling,
        x,
        rows,
        weights=weights,
        columns=ds.columns,
        strict=settings.reference,
    )
    if np.isnan(scaling.shift).any():
        refuse_gaps(ds)
    return scaling


def _number_type(x: np.ndarray | TableRows) -> str:
    """Return the type of columns of numbers, in which rows are read from now on."""
    columns = TableRows.of(x).columns
    types = {column.values.dtype.name for column in columns if column.reads == "number"}
    if types <= {"float32"}:
        return "float32"
    return "float64"


def _origin_of(ds: Dataset, is_part: bool) -> dict | None:
    """Return what a model keeps of the files that it was trained on; None where there
    are none. is_part: on some of their rows."""
    if not ds.path:
        return None
    origin = {"path": ds.path, "sha256": ds.sha256}
    if is_part or ds.is_part:
        origin["part"] = True
    return origin


# ---- targets


def _check_targets(ds: Dataset, rows: np.ndarray) -> None:
    """Raise DataError for a target that none of the training rows has."""
    if not TASKS[ds.task].by_output:
        return
    names = targets_without_rows(ds, rows)
    if names:
        raise DataError(
            f"{name_of(ds)}: no training row has the target {listed(names)}, which could not be "
            "learned; leave it out, or give rows that have it"
        )


def _target_scaling(
    ds: Dataset, rows: np.ndarray, settings: RowSettings, weights: np.ndarray | None
) -> Scaling | None:
    """Return the scaling of regression targets, with the bounds of --clip; None where
    they stay as they are."""
    is_scaled = settings.scaling != "none"
    if ds.task != "regression" or settings.reference:
        return None
    if not is_scaled and not settings.clip:
        return None
    y = ds.y[rows].reshape(len(rows), -1)
    moments = _moments_of(y, weights)
    if is_scaled:
        scaling = target_scaling(settings.output_function, moments)
    else:
        scaling = Scaling(
            "standardization", np.zeros_like(moments.low), np.ones_like(moments.low)
        )
    if not settings.clip:
        return scaling
    margin = CLIP_MARGIN * (moments.high - moments.low)
    return replace(scaling, low=moments.low - margin, high=moments.high + margin)


def _moments_of(y: np.ndarray, weights: np.ndarray | None) -> Moments:
    """Return the moments of targets (rows, targets), of each by the rows that have
    it."""
    size = min(y.size, MOMENT_VALUES)
    are_known = ~np.isnan(y)
    if are_known.all():
        return Moments.of(y, weights=weights, block_values=size)
    moments = []
    for target, is_known in enumerate(are_known.T):
        weights_of_target = at_rows(weights, is_known)
        moments.append(
            Moments.of(
                y[is_known, target, None], weights=weights_of_target, block_values=size
            )
        )
    return Moments(*map(np.concatenate, zip(*moments, strict=True)))


def target_scaling(activation: str, y: Moments) -> Scaling:
    """Return the scaling of regression targets with these moments, to values that the
    output's activation can have.

    Both bounds of ACTIVATIONS known: to [low, high]. Else to deviation 1, and mean 0 if
    there is no lower bound. The losses during training are in these units.
    """
    low = ACTIVATIONS[activation].low
    high = ACTIVATIONS[activation].high
    if math.isfinite(low) and math.isfinite(high):
        with np.errstate(over="ignore", invalid="ignore"):
            shift = (y.low * high - y.high * low) / (high - low)
            scale = (y.high - y.low) / (high - low)
    else:
        scale = y.deviation
        if math.isfinite(low):
            shift = np.zeros_like(scale)
        else:
            shift = y.mean
    check_spread(y.low, y.high, shift, scale, lambda target: f"target {target + 1}")
    return Scaling("standardization", shift, np.where(y.low == y.high, 1.0, scale))


# ---- weights


def _class_weights(ds: Dataset, rows: np.ndarray, asked: str) -> np.ndarray | None:
    """Return the weight of each class, of several yes/no targets (targets, 2), float64;
    None where all are 1.

    `balanced` makes the classes' sums of weights of training rows equal, and leaves the
    sum of all as it is.
    """
    if asked == NO_CLASS_WEIGHT:
        return None
    flag = f"--class_weight {asked}"
    if ds.task == "multilabel":
        return _label_weights(ds, rows, asked)
    if ds.classes is None:
        raise UsageError(
            f"{flag} works for classification only, and this task is {ds.task}; drop it, or use --weight"
        )
    if asked == BALANCED:
        weights = ds.weights_of(rows)
        return _balanced(np.bincount(ds.y[rows], weights, len(ds.classes)))
    numbers = np.array(class_weight_numbers(asked))
    if len(numbers) != len(ds.classes):
        raise UsageError(
            f"{flag}: {len(numbers)} numbers for {len(ds.classes)} classes; give one "
            f"for each of {listed(ds.classes)}"
        )
    return numbers


def _label_weights(ds: Dataset, rows: np.ndarray, asked: str) -> np.ndarray:
    """Return the weights of both classes of each target (targets, 2), by the training
    rows that have it; numbers leave the sum of all as it is too, so that each target
    keeps its share of the loss."""
    y = ds.y[rows]
    counts = ds.weights_of(rows)
    if counts is None:
        counts = np.ones(len(rows))
    sums = np.stack([counts @ (y == 0), counts @ (y == 1)], axis=1)
    if asked == BALANCED:
        return _balanced(sums)
    flag = f"--class_weight {asked}"
    names = ds.targets or range(1, len(sums) + 1)
    numbers = np.array(class_weight_numbers(asked))
    if len(numbers) not in (2, sums.size):
        raise UsageError(
            f"{flag}: {len(numbers)} numbers for {len(sums)} yes/no targets; give two, of the "
            f"negative and the positive class, or two for each of {listed(names)}"
        )
    weights = np.broadcast_to(numbers.reshape(-1, 2), sums.shape)
    known = sums.sum(axis=1)
    weighted = (weights * sums).sum(axis=1)
    without = np.flatnonzero((known > 0) & (weighted == 0))
    if len(without):
        raise UsageError(
            f"{flag}: all training rows of target {names[without[0]]} have the weight 0; "
            "give its other class one above 0"
        )
    scale = np.divide(known, weighted, out=np.ones(len(sums)), where=weighted > 0)
    return weights * scale[:, None]


def _balanced(sums: np.ndarray) -> np.ndarray:
    """Return the weights (..., classes) by which the sums of classes are equal; 1 of a
    class without rows."""
    present = sums > 0
    classes = np.maximum(present.sum(axis=-1, keepdims=True), 1)
    each = sums.sum(axis=-1, keepdims=True) / classes
    return np.divide(each, sums, out=np.ones(sums.shape), where=present)
