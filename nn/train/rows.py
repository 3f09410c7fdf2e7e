"""TrainingRows: the rows of a training as its engine reads them, and what the network
must know to read such data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..backends.engine import Engine
from ..core import random
from ..data.column import GAPS, WINDOWS
from ..data.dataset import TableRows, all_weightless, as_read_by, name_of
from ..data.encoding import Encoding
from ..data.kinds import NUMBER
from ..data.loading import load_for, without_gaps
from ..data.medians import medians_of
from ..data.pictures import check_range, pictures_of
from ..data.scaling import Moments, Scaling, check_spread
from ..data.splits import (
    Split,
    remark_on_dates,
    remark_on_rare_classes,
    remark_on_twins,
    split_rows,
)
from ..data.statistics import statistics_of
from ..ds import Dataset, check_trainable
from ..layers import input_shape
from ..nn import Network
from ..nn_aux import ACTIVATIONS, OF_FOLD
from ..settings.flags import DEFAULTS
from ..settings.values import (
    BALANCED,
    NO_CLASS_WEIGHT,
    class_weight_numbers,
    number_embedding_value,
)
from ..utils import DataError, LayersMismatch, UsageError, listed, log
from .learned import baseline_of, targets_of
from .means import WordMeans, means_of, with_means
from .options import Options, without_validation

# of the range of the training targets, that --clip leaves on either side
CLIP_MARGIN = 0.1
MOMENT_VALUES = 1 << 22  # of targets, that are added up at once
GIVEN_ROWS = "rows of a Dataset"  # the name of validation rows that are of no file
# settings of a model file
MODEL_SETTINGS = ("task", "loss", "init", "seed", "backend", "reference")
# reads validation rows as a network reads its data
ReadValidation = Callable[[Network], Dataset]


class Part(NamedTuple):
    """Rows that are trained on, or that judge: indices into a data set, what an engine
    has loaded of it, and the weights of all its rows in the loss, None where all are
    1."""

    ds: Dataset
    rows: np.ndarray
    loaded: Any
    weights: np.ndarray | None = None

    def weight(self, rows: np.ndarray | None = None) -> float:
        """Return how many rows these count as; None: all of the part."""
        if rows is None:
            rows = self.rows
        if self.weights is None:
            return float(len(rows))
        return float(self.weights[rows].sum(dtype=np.float64))


class TrainingRows:
    """The rows of a training as its engine reads them, and those that judge its epochs.

    engine: what loads them, whose ranks share them. validation: the data set of these
    rows, if a caller has it already. refit: train on the validation rows too, and judge
    none. split: rows other than the options ask for.
    The network is told what it must know to read such data again.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset,
        options: Options,
        engine: Engine,
        validation: Dataset | ReadValidation | None = None,
        refit: bool = False,
        split: Split | None = None,
    ):
        if refit:
            used = without_validation(options)
        else:
            used = options
        if split is None:
            split = split_of(ds, used, net.seed, remark=not refit)
        elif refit:
            split = Split(
                np.union1d(split.training, split.validation),
                split.validation[:0],
                split.holdout,
            )
        self.count = len(split.training)
        self.holdout_count = len(split.holdout)
        self.facts = facts_of(net, ds, split.training, options, self.holdout_count > 0)
        net.describe(**self.facts)
        of_classes = _class_weights(options, ds, split.training)
        file = _validation_file(net, used, validation)
        self.is_validated = used.validation is not None
        if self.is_validated:
            own = split.validation
        elif refit:
            own = split.holdout[:0]
        else:
            own = split.holdout
        self.weighted = of_classes is not None or ds.weights is not None
        x, *of_training = _engine_rows(net, of_classes, ds, split.training)
        self.by_blocks = x.nbytes > random.SHUFFLED_BYTES
        if of_training[1:]:
            weights = of_training[1]
        else:
            weights = None
        check_any_weight(weights, split.training, "training")
        check_any_weight(
            weights, own, "validation" if self.is_validated else "held-out"
        )
        self.training = Part(ds, split.training, engine.load(x, *of_training), weights)
        self.judging = self.training._replace(rows=own)
        of_judging = of_training
        if file:
            x, *of_judging = _engine_rows(net, of_classes, file)
            self.judging = Part(
                file, file.counting_rows(), engine.load(x, *of_judging), *of_judging[1:]
            )
        if len(self.judging.rows):
            judging = self.judging
        else:
            judging = self.training
        each = (self.training.rows, of_training), (judging.rows, of_judging)
        targets = [
            targets_of(*(array[rows] for array in arrays), outputs=net.outputs)
            for rows, arrays in each
        ]
        self.baseline = baseline_of(net.loss, *targets)

    def release(self) -> None:
        self.training = self.training._replace(loaded=None)
        self.judging = self.judging._replace(loaded=None)

    def decisive(self) -> tuple[Dataset, np.ndarray]:
        """Return (data, rows) to choose a threshold by, of validation if there are any;
        see decision.decide_by."""
        return (self.judging if self.is_validated else self.training)[:2]

    def of_epoch(
        self, number: int, order, later: bool = False
    ) -> tuple[np.ndarray, int | None]:
        """Return (the rows of an epoch, PackJob.shuffle).

        order: of all rows, epoch by epoch. later: leave it to the engine to draw the
        order, where it can.
        """
        if later and not self.by_blocks:
            return self.training.rows, number
        return self.training.rows[order.epoch(number)], None


def _validation_file(
    net: Network, options: Options, validation: Dataset | ReadValidation | None
) -> Dataset | None:
    """Return the data set that --validation names; None where it is a share, or there
    is none."""
    if not isinstance(options.validation, str) or options.validation == OF_FOLD:
        return None
    if callable(validation):
        validation = validation(net)
    if validation is None:
        ds = load_for(net, options.validation)
    else:
        ds = without_gaps(net, validation)
    ds = as_read_by(net, ds)
    check_fit(net, ds, only_rows=True)
    check_any_weight(ds.weights, np.arange(ds.rows), "validation")
    return ds


def split_seed(options: Options, seed: int) -> int:
    if options.split_seed is None:
        return seed
    return options.split_seed


def split_of(ds: Dataset, options: Options, seed: int, remark: bool = False) -> Split:
    """Return the rows by their purpose. remark: say what the data is too small for."""
    split = split_rows(
        ds, options.holdout, options.validation_share, split_seed(options, seed)
    )
    shares = {
        "holdout": (options.holdout, split.holdout),
        "validation": (options.validation_share, split.validation),
    }
    if options.validation_share and not len(split.validation):
        found = f"takes none of the {len(split.training)} rows"
        raise DataError(
            f"--validation {options.validation:g}: {found}; give a larger share"
        )
    for flag, (share, rows) in shares.items():
        if remark and share and not len(rows):
            log.warning(
                "the data is too small for --%s %g: training on all %d rows",
                flag,
                share,
                len(split.training),
            )
    if remark:
        _tell_weightless(ds)
        remark_on_rare_classes(ds, split)
        if len(split.holdout) or len(split.validation):
            remark_on_twins(ds, np.concatenate(split), are_shared_out=True)
            remark_on_dates(ds)
    return split


def _tell_weightless(ds: Dataset) -> None:
    """Log how many rows of a data set have the weight 0; those of a file have left it,
    and are told with it."""
    weightless = ds.rows - len(ds.counting_rows())
    if weightless:
        log.warning("%s: left out: %d rows of weight 0", name_of(ds), weightless)


def _class_weights(options: Options, ds: Dataset, training) -> np.ndarray | None:
    """Return the weight of each class, float64; None where all are 1.

    `balanced` makes the classes' sums of weights of training rows equal, and leaves the
    sum of all as it is.
    """
    asked = options.class_weight
    if asked == NO_CLASS_WEIGHT:
        return None
    flag = f"--class_weight {asked}"
    if ds.classes is None:
        raise UsageError(
            f"{flag} works for classification only, and this task is regression; drop it, or use --weight"
        )
    if asked == BALANCED:
        if ds.weights is None:
            weights = None
        else:
            weights = ds.weights[training]
        sums = np.bincount(ds.y[training], weights, len(ds.classes)).astype(np.float64)
        present = sums > 0
        return np.divide(
            sums.sum() / present.sum(), sums, out=np.ones(len(sums)), where=present
        )
    numbers = np.array(class_weight_numbers(asked))
    if len(numbers) != len(ds.classes):
        found = f"{len(numbers)} numbers for {len(ds.classes)} classes"
        raise UsageError(f"{flag}: {found}; give one for each of {listed(ds.classes)}")
    return numbers


def check_any_weight(weights: np.ndarray | None, rows, what: str) -> None:
    """Raise DataError where these rows, named `what`, have weights that are all 0."""
    if weights is not None and len(rows) and not weights[rows].any():
        raise all_weightless(len(rows), f"{what} rows")


def facts_of(net, ds: Dataset, rows, o: Options, any_holdout: bool) -> dict:
    """Return the facts of Network.describe: what a network must know to read such data
    again."""
    if ds.weights is None:
        weights = None
    else:
        weights = ds.weights[rows]
    if net.encoding is not None:
        scaling = Scaling()  # the encoding has the constants
    else:
        is_flat = not isinstance(input_shape(net.layers), tuple)
        if is_flat:
            x = ds.x.reshape(ds.rows, -1)
        else:
            x = ds.x
        scaling = Scaling.fit(
            o.scaling,
            x,
            rows,
            weights=weights,
            columns=ds.columns,
            strict=net.reference,
        )
        if np.isnan(scaling.shift).any():
            refuse_gaps(ds)
    of_targets = None
    if (
        net.task == "regression"
        and (o.scaling != "none" or o.clip)
        and not net.reference
    ):
        y = ds.y[rows].reshape(len(rows), -1)
        moments = Moments.of(
            y, weights=weights, block_values=min(y.size, MOMENT_VALUES)
        )
        if o.scaling == "none":
            of_targets = Scaling(
                "standardization", np.zeros_like(moments.low), np.ones_like(moments.low)
            )
        else:
            of_targets = target_scaling(net.layers[-1].output_function, moments)
        if o.clip:
            margin = CLIP_MARGIN * (moments.high - moments.low)
            of_targets = replace(
                of_targets, low=moments.low - margin, high=moments.high + margin
            )
    # without weights set since, which no file has
    is_divided_as_read = ds.weights is None or bool(ds.weights.all())
    return {
        "columns": ds.columns,
        "targets": ds.targets,
        "classes": ds.classes,
        "label_type": ds.label_type,
        "threshold": DEFAULTS["threshold"]
        if isinstance(o.threshold, str)
        else o.threshold,
        "temperature": 1.0,
        "gap_words": sorted(GAPS),
        "code_page": WINDOWS,
        "weightless_rows": None
        if ds.weights is None
        else ds.left_out_rows.get("weightless", 0),
        "number_type": None if ds.are_images else _number_type(ds.x),
        "holdout": o.holdout if any_holdout else 0.0,
        "dataset": origin_of(ds) if is_divided_as_read else None,
        "scaling": scaling,
        "target_scaling": of_targets,
        "medians": None
        if net.reference or ds.are_images
        else medians_of(ds.x, rows, weights),
        "pictures": pictures_of(ds, scaling)
        if net.encoding is None and not net.reference
        else None,
        "config": config_of(net, ds, o),
    }


def _number_type(x: np.ndarray | TableRows) -> str | None:
    """Return the type of columns of numbers, in which rows are read from now on."""
    columns = TableRows.of(x).columns
    types = {column.values.dtype.name for column in columns if column.reads == "number"}
    if types <= {"float32"}:
        return "float32"
    return "float64"


def origin_of(ds: Dataset, is_part: bool = False) -> dict | None:
    """Return what a model keeps of the files that it was trained on; None where there
    are none. is_part: on some of their rows."""
    if not ds.path:
        return None
    origin = {"path": ds.path, "sha256": ds.sha256}
    if is_part or ds.is_part:
        origin["part"] = True
    return origin


def config_of(net, ds: Dataset, o: Options) -> dict:
    """Return the settings of a network, its training and its table, as files keep
    them."""
    return {
        **o.config(),
        "layers": net.spec,
        **{name: getattr(net, name) for name in MODEL_SETTINGS},
        "dtype": net.asked_dtype,
        "target": ds.target,
        "tf32": False,  # this and the next one as files of earlier versions have them
        "window": None,
        **({"left_out": list(ds.left_out_places)} if ds.left_out_places else {}),
        **({"table": ds.kept_choices} if ds.kept_choices else {}),
    }


def refuse_gaps(ds: Dataset) -> None:
    """Raise DataError that names the first gap among the inputs or targets of a data
    set that cannot have any."""
    for name in ("x", "y"):
        values = getattr(ds, name, None)
        if (
            isinstance(values, np.ndarray)
            and values.dtype.kind == "f"
            and np.isnan(values).any()
        ):
            place = np.argwhere(np.isnan(values))[0].tolist()
            told = "expected a number; nn.load(x, y=y) reads arrays and data frames with gaps"
            raise DataError(f"{name_of(ds)}, {name}{place}: found nan, {told}")


def kinds_of_columns(net) -> dict[str, str]:
    """Return the kind of each feature column by its name, or by its place, from 0,
    where it has none."""
    if net.encoding is not None:
        kinds = [e.kind for e in net.encoding.encoders]
    else:
        kinds = ["number"] * net.inputs
    names = (
        net.columns
        or (net.encoding and list(map(str, net.encoding.places)))
        or list(map(str, range(len(kinds))))
    )
    if len(names) == len(kinds):
        return dict(zip(names, kinds, strict=False))
    return {}


def fit_encoding(net, ds: Dataset, o: Options, split: Split | None = None) -> None:
    """Give a network its encoding, as the training rows ask for it, if the table holds
    more than plain numbers, or if they are to become more."""
    rows = (split or split_of(ds, o, net.seed)).training
    means = means_of(ds, rows, o.target_means)

    def statistics() -> list:
        return statistics_of(
            TableRows.of(ds.x), ds.kinds, rows, means, ds.row_counts(rows)
        )

    encode(net, ds, statistics, o.scaling, o.number_embedding)


def encode(
    net, ds: Dataset, statistics: Callable[[], list], scaling: str, asked: str | None
) -> None:
    """Give a network the encoding of a table with these statistics, where it needs one.
    asked: --number_embedding."""
    if asked is None:
        embedding = None
    else:
        embedding = number_embedding_value(asked)
    if embedding and ds.are_images:
        raise UsageError(
            f"--number_embedding {asked}: is for columns of numbers, the data are images; leave it out"
        )
    plain = not isinstance(ds.x, TableRows)
    if embedding or not plain:
        where = {"names": ds.columns, "places": ds.places, "plain": plain}
        kinds = ds.kinds or (NUMBER,) * ds.inputs
        net.adopt(Encoding.fit(statistics(), kinds, scaling, embedding, **where))


def row_bytes(net: Network) -> int:
    """Return the bytes of a row as the engine takes it; of a network for images, where
    its pixels are numbers."""
    if net.encoding is not None:
        return net.encoding.record_of(net.dtype).itemsize
    return net.inputs * np.dtype(net.dtype).itemsize


@np.errstate(over="ignore")  # a loss that is not finite says so
def _engine_rows(
    net, of_classes: np.ndarray | None, ds: Dataset, training=()
) -> tuple[np.ndarray, ...]:
    """Return (x, y), and weights if there are any, as the engine takes them.
    of_classes: the weight of each class; training: rows of them that are trained on."""
    if net.task == "regression":
        if net.target_scaling is None:
            y = ds.y
        else:
            y = net.target_scaling.apply(ds.y, net.dtype)
        y = net.target_rows(y)
    elif net.reference and net.task == "binary":
        y = net.target_rows(np.array([float(name) for name in ds.classes])[ds.y])
    else:
        if net.outputs == 1:
            y = net.target_rows(ds.y)
        else:
            y = ds.y.astype(np.int32)
    weights = ds.weights
    if of_classes is not None:
        if weights is None:
            weights = of_classes[ds.y]
        else:
            weights = of_classes[ds.y] * weights
    if len(training):
        columns = with_means(net)
    else:
        columns = []
    x = net.engine_rows(ds.x, None if ds.is_part or columns else ds.sha256)
    if columns:
        WordMeans(ds, training).keep_apart(ds.x, columns, net.encoding, x)
    if weights is None:
        return (x, y)
    return (x, y, weights.astype(net.dtype))


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


def check_fit(net: Network, ds: Dataset, only_rows: bool = False) -> None:
    """Raise DataError or UsageError if this network cannot learn from this data set;
    only_rows: be judged by it."""
    where = name_of(ds)
    if net.task != ds.task:
        raise UsageError(
            f"{where}: the data is {ds.task}, the network is {net.task}; give --task or change --layers"
        )
    if net.reference and ds.weights is not None:
        raise UsageError("--weight: --reference has no such thing; leave one out")
    ds.check()
    if only_rows:
        check_range(net.pictures, ds)
    if not only_rows:
        check_trainable(ds)
    if ds.inputs != net.inputs:
        raise UsageError(
            f"--layers: the network has {net.inputs} inputs, {where} has {ds.inputs} per row"
        )
    if ds.classes is not None and ds.task == "multiclass":
        _check_classes(where, len(ds.classes), net.outputs, only_rows)
    if ds.task == "regression" and ds.outputs != net.outputs:
        raise UsageError(
            f"--layers: {net.outputs} outputs, but {where} has {ds.outputs} targets"
        )


def _check_classes(where: str, classes: int, outputs: int, only_rows: bool) -> None:
    """Raise LayersMismatch for more classes than outputs or, in a training, fewer: an
    output without a class would be predicted all the same."""
    has_spare_outputs = classes < outputs and not only_rows
    if classes > outputs or has_spare_outputs:
        expected = f"expected {outputs}, one per output of the network"
        raise LayersMismatch(
            f"{where}: {classes} classes, {expected}; let --layers end in {classes}"
        )
