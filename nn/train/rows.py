"""TrainingRows: the rows of a training as its engine reads them, and what the network must know to read such data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ..backends.engine import Engine
from ..core import random
from ..data.dataset import name_of
from ..data.encoding import Encoding, statistics_of
from ..data.kinds import NUMBER
from ..data.loading import load_for
from ..data.scaling import Moments, Scaling, check_spread
from ..data.splits import Split, remark_on_rare_classes, split_rows
from ..data.table_rows import TableRows
from ..ds import Dataset, check_trainable
from ..nn import Network
from ..nn_aux import ACTIVATIONS, OF_FOLD
from ..settings.flags import DEFAULTS
from ..settings.values import number_embedding_value
from ..utils import DataError, UsageError, log
from .learned import Baseline, baseline_of, targets_of
from .options import Options, without_validation
from .validation import JudgedRows
from .weights import check_any_weight, class_weights, row_weights, weight_of

CLIP_MARGIN = 0.1  # of the range of the training targets, that --clip leaves on either side
VALIDATION_ROWS = 4096  # between two looks for a signal
MOMENT_VALUES = 1 << 22  # of targets, that are added up at once
GIVEN_ROWS = "rows of a Dataset"  # the name of validation rows that are of no file
OF_NETWORK = ("task", "loss", "init", "seed", "dtype", "backend", "reference", "tf32")  # settings of a model file
ReadValidation = Callable[[Network], Dataset]  # reads validation rows as a network reads its data


class TrainingRows:
    """The rows of a training as its engine reads them.

    engine: what loads them, whose ranks share them. given: the data set of validation rows, if a caller has it already.
    refit: train on the validation rows too, and judge none. split: rows other than the options ask for.
    The network is told what it must know to read such data again.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset,
        options: Options,
        engine: Engine,
        given: Dataset | ReadValidation | None = None,
        refit: bool = False,
        split: Split | None = None,
    ):
        self._net, self._engine, used = net, engine, without_validation(options) if refit else options
        if split is None:
            split = split_of(ds, used, net.seed, remark=not refit)
        elif refit:
            split = Split(np.union1d(split.training, split.validation), split.validation[:0], split.holdout)
        self._training, self.count, self.holdout_count = split.training, len(split.training), len(split.holdout)
        self.facts = facts_of(net, ds, self._training, options, self.holdout_count > 0)
        net.describe(**self.facts)
        self.of_classes = _class_weights(options, ds, self._training)
        self._file = self._validation_file(used, given)
        self.is_validated = used.validation is not None
        self._judged = split.validation if self.is_validated else split.holdout[:0] if refit else split.holdout
        self.judged_count = self._file.rows if self._file else len(self._judged)
        self._has_weights = ds.weights is not None
        self.data = ds
        convert = partial(_engine_rows, net, self.of_classes)
        self._file_loaded = None
        targets = self._load(convert(ds))
        if self._file:
            self._file_arrays = convert(self._file)
            self._file_loaded = engine.load(*self._file_arrays)
        self.baseline = self._baseline(*targets)

    def _load(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Let the engine load all rows; return (targets), and weights if there are any. Raises DataError if all
        training rows, or all judged ones, have weight 0."""
        self.by_blocks = arrays[0].nbytes > random.SHUFFLED_BYTES
        self.weights = arrays[2] if len(arrays) > 2 else None
        check_any_weight(self.weights, self._training, "training")
        check_any_weight(self.weights, self._judged, "validation" if self.is_validated else "held-out")
        self.loaded = self._engine.load(*arrays)
        return arrays[1:]

    def _baseline(self, *arrays: np.ndarray) -> Baseline:
        """Return the baseline of the rows that judge, or else train; arrays: as _load returns them."""
        training, judged = ([array[rows] for array in arrays] for rows in (self._training, self._judged))
        judged = self._file_arrays[1:] if self._file else judged if len(self._judged) else training
        each = [targets_of(*own, outputs=self._net.outputs) for own in (training, judged)]
        return baseline_of(self._net.loss, *each)

    def _validation_file(self, options: Options, given: Dataset | ReadValidation | None) -> Dataset | None:
        """Return the data set that --validation names; None where it is a share, or there is none."""
        if not isinstance(options.validation, str) or options.validation == OF_FOLD:
            return None
        if callable(given):
            given = given(self._net)
        ds = load_for(self._net, options.validation) if given is None else given
        check_fit(self._net, ds, only_rows=True)
        check_any_weight(ds.weights, np.arange(ds.rows), "validation")
        return ds

    def release(self) -> None:
        """Free what the engine computes with, when training is over."""
        self.loaded = self._file_loaded = None

    def decisive(self) -> tuple[Dataset, np.ndarray, bool]:
        """Return (data, rows, whether they are validation rows) to choose a threshold by; see decision.decide_on."""
        if self._file:
            return self._file, np.arange(self._file.rows), True
        return self.data, self._judged if self.is_validated else self._training, self.is_validated

    @property
    def weight(self) -> float:
        """How many rows the training rows count as."""
        return weight_of(self.weights, self._training)

    @property
    def rows_by_weight(self) -> float:
        """Return training rows per weight: turns a loss by rows into one by weights."""
        return self.count / self.weight

    @property
    def weighted(self) -> bool:
        """Return whether rows have weights in the loss."""
        return self.of_classes is not None or self._has_weights

    def of_epoch(self, number: int, order, later: bool = False) -> tuple[np.ndarray, int | None]:
        """Return (the rows of an epoch, PackJob.shuffle).

        order: of all rows, epoch by epoch. later: leave it to the engine to draw the order, where it can.
        """
        if later and not self.by_blocks:
            return self._training, number
        return self._training[order.epoch(number)], None

    def judged(self) -> JudgedRows:
        """Return the rows that judge an epoch: those of --validation, else those held out."""
        if self._file:
            ds, weights = self._file, self._file_arrays[2] if len(self._file_arrays) > 2 else None
            return JudgedRows(self._file_loaded, np.arange(ds.rows), partial(weight_of, weights), partial(_truth, ds))
        return JudgedRows(self.loaded, self._judged, partial(weight_of, self.weights), partial(_truth, self.data))


def split_seed(options: Options, seed: int) -> int:
    """Return the seed that draws held-out and validation rows."""
    return seed if options.split_seed is None else options.split_seed


def split_of(ds: Dataset, options: Options, seed: int, remark: bool = False) -> Split:
    """Return the rows by their purpose. remark: say what the data is too small for."""
    split = split_rows(ds, options.holdout, options.validation_share, split_seed(options, seed))
    shares = {"holdout": (options.holdout, split.holdout), "validation": (options.validation_share, split.validation)}
    if options.validation_share and not len(split.validation):
        found = f"takes none of the {len(split.training)} rows"
        raise DataError(f"--validation {options.validation:g}: {found}; give a larger share")
    for flag, (share, rows) in shares.items():
        if remark and share and not len(rows):
            log.warning("the data is too small for --%s %g: training on all %d rows", flag, share, len(split.training))
    if remark:
        remark_on_rare_classes(ds, split)
    return split


def _class_weights(options: Options, ds: Dataset, training) -> np.ndarray | None:
    """Return the weight of each class; `balanced` goes by the training rows."""
    sums = None
    if ds.classes is not None:
        weights = None if ds.weights is None else ds.weights[training]
        sums = np.bincount(ds.y[training], weights, len(ds.classes))
    return class_weights(options.class_weight, ds.classes, sums)


def _truth(ds: Dataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return (targets, weights or None) of rows as metrics take them."""
    return ds.y[rows], None if ds.weights is None else ds.weights[rows]


def facts_of(net, ds: Dataset, rows, o: Options, any_holdout: bool) -> dict:
    """Return the facts of Network.describe: what a network must know to read such data again."""
    if net.encoding is not None:
        scaling = Scaling()  # the encoding has the constants
    else:
        scaling = Scaling.fit(o.scaling, ds.x, rows, columns=ds.columns, strict=net.reference)
        if np.isnan(scaling.shift).any():
            refuse_gaps(ds)
    of_targets = None
    if net.task == "regression" and (o.scaling != "none" or o.clip) and not net.reference:
        moments = _target_moments(ds, rows)
        if o.scaling == "none":
            of_targets = Scaling("standardization", np.zeros_like(moments.low), np.ones_like(moments.low))
        else:
            of_targets = target_scaling(net.layers[-1].output_function, moments)
        if o.clip:
            of_targets = within_range(of_targets, moments)
    return {
        "columns": ds.columns,
        "targets": ds.targets,
        "classes": ds.classes,
        "threshold": DEFAULTS["threshold"] if isinstance(o.threshold, str) else o.threshold,
        "temperature": 1.0,
        "holdout": o.holdout if any_holdout else 0.0,
        "dataset": {"path": ds.path, "sha256": ds.sha256} if ds.path else None,
        "scaling": scaling,
        "target_scaling": of_targets,
        "target_written": ds.written,
        "config": config_of(net, ds, o),
    }


def config_of(net, ds: Dataset, o: Options) -> dict:
    """Return the settings of a network, its training and its table, as files keep them."""
    return {
        **o.config(),
        "layers": net.spec,
        **{name: getattr(net, name) for name in OF_NETWORK},
        "target": ds.target,
        "window": None,  # as files of earlier versions have it
        **({"left_out": list(ds.left_out_places)} if ds.left_out_places else {}),
        **({"table": ds.kept_choices} if ds.kept_choices else {}),
    }


def refuse_gaps(ds: Dataset) -> None:
    """Raise DataError that names the first gap among the inputs or targets of a data set that cannot have any."""
    for name in ("x", "y"):
        values = getattr(ds, name, None)
        if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isnan(values).any():
            row, column = np.argwhere(np.isnan(values.reshape(len(values), -1)))[0].tolist()
            raise DataError(
                f"{name_of(ds)}, row {row}, column {column} of {name}: found nan, expected a number; "
                "nn.load(x, y=y) reads arrays and data frames with gaps"
            )


def kinds_of_columns(net) -> dict[str, str]:
    """Return the kind of each feature column by its name, or by its place, from 0, where it has none."""
    kinds = [e.kind for e in net.encoding.encoders] if net.encoding is not None else ["number"] * net.inputs
    names = net.columns or (net.encoding and list(map(str, net.encoding.places))) or list(map(str, range(len(kinds))))
    return dict(zip(names, kinds, strict=False)) if len(names) == len(kinds) else {}


def fit_encoding(net, ds: Dataset, o: Options, split: Split | None = None) -> None:
    """Give a network its encoding, as the training rows ask for it, if the table holds more than plain numbers, or if
    they are to become more."""
    rows = (split or split_of(ds, o, net.seed)).training
    encode(net, ds, lambda: statistics_of(TableRows.of(ds.x), ds.kinds, rows), o.scaling, o.number_embedding)


def encode(net, ds: Dataset, statistics: Callable[[], list], scaling: str, asked: str | None) -> None:
    """Give a network the encoding of a table with these statistics, where it needs one. asked: --number_embedding."""
    embedding = None if asked is None else number_embedding_value(asked)
    if embedding and ds.are_images:
        raise UsageError(f"--number_embedding {asked}: is for columns of numbers, the data are images; leave it out")
    plain = not isinstance(ds.x, TableRows)
    if embedding or not plain:
        where = {"names": ds.columns, "places": ds.places, "plain": plain}
        kinds = ds.kinds or (NUMBER,) * ds.inputs
        net.adopt(Encoding.fit(statistics(), kinds, scaling, embedding, **where))


def row_bytes(net: Network) -> int:
    """Return the bytes of a row as the engine takes it; of a network for images, where its pixels are numbers."""
    if net.encoding is not None:
        return net.encoding.record_of(net.dtype).itemsize
    return net.inputs * np.dtype(net.dtype).itemsize


def _target_moments(ds: Dataset, rows: np.ndarray) -> Moments:
    y = ds.y[rows].reshape(len(rows), -1)
    return Moments.of(y, block_values=min(y.size, MOMENT_VALUES))


@np.errstate(over="ignore")  # a loss that is not finite says so
def _engine_rows(net, of_classes: np.ndarray | None, ds: Dataset) -> tuple[np.ndarray, ...]:
    """Return (x, y), and weights if there are any, as the engine takes them. of_classes: the weight of each class."""
    weights = row_weights(ds, of_classes)
    if weights is not None:
        return *_inputs_and_targets(net, ds), weights.astype(net.dtype)
    return _inputs_and_targets(net, ds)


def _inputs_and_targets(net, ds: Dataset) -> tuple[np.ndarray, np.ndarray]:
    if net.task == "regression":
        y = ds.y if net.target_scaling is None else net.target_scaling.apply(ds.y, net.dtype)
        y = net.target_rows(y)
    elif net.reference and net.task == "binary":
        y = net.target_rows(np.array([float(name) for name in ds.classes])[ds.y])
    else:
        y = net.target_rows(ds.y) if net.outputs == 1 else ds.y.astype(np.int32)
    return net.engine_rows(ds.x, None if ds.is_part else ds.sha256), y


def target_scaling(activation: str, y: Moments) -> Scaling:
    """Return the scaling of regression targets with these moments, to values that the output's activation can have.

    Both bounds of ACTIVATIONS known: to [low, high]. Else to deviation 1, and mean 0 if there is no lower bound. The
    losses during training are in these units.
    """
    low, high = ACTIVATIONS[activation].low, ACTIVATIONS[activation].high
    if math.isfinite(low) and math.isfinite(high):
        with np.errstate(over="ignore", invalid="ignore"):
            shift, scale = (y.low * high - y.high * low) / (high - low), (y.high - y.low) / (high - low)
    else:
        scale = y.deviation
        shift = np.zeros_like(scale) if math.isfinite(low) else y.mean
    check_spread(y.low, y.high, shift, scale, lambda target: f"target {target + 1}")
    return Scaling("standardization", shift, np.where(y.low == y.high, 1.0, scale))


def within_range(scaling: Scaling, y: Moments) -> Scaling:
    """Return a scaling of targets whose inverse stays within their range, and CLIP_MARGIN of it on either side."""
    margin = CLIP_MARGIN * (y.high - y.low)
    return replace(scaling, low=y.low - margin, high=y.high + margin)


def check_fit(net: Network, ds: Dataset, only_rows: bool = False) -> None:
    """Raise DataError or UsageError if this network cannot learn from this data set; only_rows: be judged by it."""
    where = name_of(ds)
    if net.task != ds.task:
        raise UsageError(f"{where}: the data is {ds.task}, the network is {net.task}; give --task or change --layers")
    if net.reference and ds.weights is not None:
        raise UsageError("--weight: --reference has no such thing; leave one out")
    ds.check()
    if not only_rows:
        check_trainable(ds)
    if ds.inputs != net.inputs:
        raise UsageError(f"--layers: the network has {net.inputs} inputs, {where} has {ds.inputs} per row")
    if ds.task == "multiclass" and len(ds.classes) > net.outputs:
        raise DataError(f"{where}: {len(ds.classes)} classes, but the network has {net.outputs} outputs")
    if ds.task == "regression" and ds.outputs != net.outputs:
        raise UsageError(f"--layers: {net.outputs} outputs, but {where} has {ds.outputs} targets")
