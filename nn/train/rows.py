"""TrainingRows: the rows of a training as its engine reads them, and what the network must know to read such data."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ..backends.engine import Engine
from ..cluster import RankGroup
from ..data.dataset import name_of
from ..data.encoding import Encoding, TableStatistics
from ..data.memory import Room, window_rows
from ..data.model_data import load_for
from ..data.row_windows import RowWindow, RowWindows
from ..data.scaling import Moments, Scaling, StreamedMoments, check_spread
from ..data.splits import Split, remark_on_rare_classes, split_rows
from ..data.stream import StreamedDataset
from ..data.table_rows import TableRows
from ..ds import Dataset, check_trainable
from ..files.checkpoint import Position
from ..nn import Network
from ..nn_aux import ACTIVATIONS, DEFAULTS, OF_FOLD, number_embedding_value
from ..utils import DataError, UsageError, log
from .learned import Baseline, baseline_of, targets_of
from .options import Options, is_decided_later, without_validation
from .pack_windows import RankWindows
from .validation import LOSS, JudgedRows, truth_of
from .weights import check_any_weight, class_weights, row_weights, weight_of

CLIP_MARGIN = 0.1  # of the range of the training targets, that --clip leaves on either side
VALIDATION_ROWS = 4096  # between two looks for a signal
ReadValidation = Callable[[Network], Dataset]  # reads validation rows as a network reads its data


class TrainingRows:
    """The rows of a training as its engine reads them: all loaded, or row windows that are loaded in turn.

    window: rows of a window, None to load all. engine: what loads them, whose ranks share them. given: the data set of
    validation rows, if a caller has it already. refit: train on the validation rows too, and judge none. split: rows
    other than the options ask for. windows_of: makes of windows those of several ranks.
    The network is told what it must know to read such data again.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset | StreamedDataset,
        window: int | None,
        options: Options,
        engine: Engine,
        given: Dataset | ReadValidation | None = None,
        refit: bool = False,
        split: Split | None = None,
        windows_of: Callable[[RowWindows], RowWindows | RankWindows] | None = None,
    ):
        self._net, self._engine, used = net, engine, without_validation(options) if refit else options
        if split is None:
            split = split_of(ds, used, net.seed, remark=not refit)
        elif refit:
            split = Split(np.union1d(split.training, split.validation), split.validation[:0], split.holdout)
        self._training, self.count, self.holdout_count = split.training, len(split.training), len(split.holdout)
        self.facts = facts_of(net, ds, self._training, window, options, self.holdout_count > 0)
        net.describe(**self.facts)
        self.of_classes = _class_weights(options, ds, self._training)
        self._file = self._validation_file(used, given)
        self.is_validated = used.validation is not None
        self._judged = split.validation if self.is_validated else split.holdout[:0] if refit else split.holdout
        self.judged_count = self._file.rows if self._file else len(self._judged)
        self._has_weights = getattr(ds, "weights", None) is not None
        needed = window or is_decided_later(options) or (self.is_validated and options.monitored.name != LOSS)
        self._data = ds if needed else None  # else the engine's copy is enough
        self.loaded = self.windows = self.weights = None  # loaded: what the engine computes with now
        convert = partial(_engine_rows, net, self.of_classes)
        if window:
            judging = ds.nothing if refit or self._file else ds.validation if self.is_validated else ds.holdout
            batches = options.batch_number, VALIDATION_ROWS * engine.rank_group.size
            place = engine.rank_group.rank, engine.rank_group.size
            windows = RowWindows(ds, window, batches, convert, net.seed, *place, judging)
            self.windows = windows_of(windows) if windows_of else windows
        else:
            targets = self._load(convert(ds))
        if self._file:
            self._file_arrays = convert(self._file)
            self._file_loaded = engine.load(*self._file_arrays)
        self.baseline = None if window else self._baseline(*targets)

    def _load(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Let the engine load all rows; return (targets), and weights if there are any. Raises DataError if all
        training rows, or all judged ones, have weight 0."""
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

    def decisive(self) -> tuple[Dataset | StreamedDataset, object, bool]:
        """Return (data, rows, whether they are validation rows) to choose a threshold by; see decision.decide_on."""
        if self._file:
            return self._file, np.arange(self._file.rows), True
        if self.windows:
            return self._data, self._data.validation if self.is_validated else self._data.training, self.is_validated
        return self._data, self._judged if self.is_validated else self._training, self.is_validated

    @property
    def weight(self) -> float | None:
        """How many rows the training rows count as; None where that is known at the end of an epoch only."""
        if self.windows and self.weighted:
            return None
        return weight_of(self.weights, self._training)

    @property
    def rows_by_weight(self) -> float:
        """Return training rows per weight: turns a loss by rows into one by weights; 1 where the weight is unknown."""
        return self.count / self.weight if self.weight else 1.0

    @property
    def weighted(self) -> bool:
        """Return whether rows have weights in the loss."""
        return self.of_classes is not None or self._has_weights

    def start(self, at: Position, epochs: int) -> None:
        """Begin to read windows from a position on."""
        if self.windows:
            self.windows.start(at.epoch, at.row, epochs)

    def close(self) -> None:
        """Stop reading, and free the memory of windows; rows that are all loaded may be those of other trainings."""
        if self.windows:
            self.windows.close()
            self.loaded = self._engine = self._file_loaded = self._file_arrays = None

    def stretches(
        self, at: Position, order, epoch_rows: int, wait, later: bool = False
    ) -> Iterator[tuple[int, np.ndarray, int | None]]:
        """Yield the rest of the epoch: (rows of the epoch before, the rows in `loaded`, PackJob.shuffle).

        order: of all rows, epoch by epoch; wait: see RowWindows.next. later: leave it to the engine to draw the order
        of all rows.
        """
        if self.windows is None:
            rows, shuffle = (self._training, at.epoch) if later else (self._training[order.epoch(at.epoch)], None)
            if at.row < epoch_rows:
                yield 0, rows[:epoch_rows], shuffle
            return
        while at.row < epoch_rows:
            window = self._load_next(wait)
            yield window.first, window.order, None

    def judged(self, wait) -> Iterator[JudgedRows]:
        """Yield the rows that judge an epoch: those of --validation, else those held out."""
        if self._file:
            ds, weights = self._file, self._file_arrays[2] if len(self._file_arrays) > 2 else None
            yield JudgedRows(self._file_loaded, np.arange(ds.rows), partial(weight_of, weights), partial(_truth, ds))
        elif self.windows is None:
            of_rows = partial(weight_of, self.weights), partial(_truth, self._data)
            yield JudgedRows(self.loaded, self._judged, *of_rows)
        else:
            for _ in range(0, self.judged_count, self.windows.window):
                window = self._load_next(wait)
                of_rows = partial(weight_of, window.weights), partial(self._truth_in, window)
                yield JudgedRows(self.loaded, window.order, *of_rows)

    def _truth_in(self, window: RowWindow, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (targets, weights) of a window's rows as metrics take them: class weights are of the loss alone."""
        truth, weights = truth_of(self._net, window.y[rows]), window.weights
        if weights is None or not self._has_weights:
            return truth, None
        own = np.ones(len(rows)) if self.of_classes is None else self.of_classes[truth]
        return truth, np.divide(weights[rows], own, out=np.zeros(len(rows)), where=own > 0)

    def _load_next(self, wait) -> RowWindow:
        window = self.windows.next(wait)
        self.loaded = None  # two would need twice the memory
        self.loaded = self._engine.load(window.x, window.y, window.weights)
        self.window_weight = weight_of(window.weights, slice(None)) if window.weights is not None else len(window.x)
        return window


def window_of(
    net,
    ds: Dataset | StreamedDataset,
    options: Options,
    rank_group: RankGroup,
    room: Callable[[], Room] | None = None,
    batches: Collection[int] = (),
):
    """Return (data, rows of a window): streamed data that memory can hold become a Dataset, without a window.

    room: of several networks, which --memory is for. batches: the sizes of their batches; where they differ, a network
    takes of the window what whole_batches says.
    """
    if isinstance(ds, Dataset):
        return ds, None
    ds.split(options.holdout, split_seed(options, net.seed), options.validation_share)
    needed = room() if room and ds.memory is not None else None
    batches = {*batches} or {options.batch_number}
    window = window_rows(ds, net, max(batches), options.scaling, rank_group.size, needed)
    if window is None:
        return ds.whole(), None
    if net.reference:
        raise UsageError("--reference shuffles all rows at once: leave out --memory and --window")
    if len(batches) > 1 and ds.window is not None:
        window = ds.window if ds.memory is None else min(ds.window, ds.training.rows - 1)
    return ds, window


def split_seed(options: Options, seed: int) -> int:
    """Return the seed that draws held-out and validation rows."""
    return seed if options.split_seed is None else options.split_seed


def split_of(ds: Dataset | StreamedDataset, options: Options, seed: int, remark: bool = False) -> Split:
    """Return the rows by their purpose; of a Dataset their indices. remark: say what the data is too small for."""
    if isinstance(ds, Dataset):
        split = split_rows(ds, options.holdout, options.validation_share, split_seed(options, seed))
    else:
        split = Split(*(range(blocks.rows) for blocks in (ds.training, ds.validation, ds.holdout)))
    shares = {"holdout": (options.holdout, split.holdout), "validation": (options.validation_share, split.validation)}
    if options.validation_share and not len(split.validation):
        raise _no_validation_rows(ds, options.validation, len(split.training))
    for flag, (share, rows) in shares.items():
        if remark and share and not len(rows):
            log.warning("the data is too small for --%s %g: training on all %d rows", flag, share, len(split.training))
    if remark and isinstance(ds, Dataset):
        remark_on_rare_classes(ds, split)
    return split


def _no_validation_rows(ds: Dataset | StreamedDataset, share: float, rows: int) -> DataError:
    found = f"--validation {share:g}: takes none of the {rows} rows"
    if isinstance(ds, Dataset):
        return DataError(f"{found}; give a larger share")
    blocks = f"of which windows take whole blocks of {ds.training.block_rows}"
    return DataError(f"{found}, {blocks}; give a larger share, or leave out --window and --memory")


def _class_weights(options: Options, ds: Dataset | StreamedDataset, training) -> np.ndarray | None:
    """Return the weight of each class; `balanced` goes by the training rows, of streamed data by all rows."""
    sums = None
    if ds.classes is not None and isinstance(ds, Dataset):
        weights = None if ds.weights is None else ds.weights[training]
        sums = np.bincount(ds.y[training], weights, len(ds.classes))
    elif ds.classes is not None:
        sums = ds.class_counts()
    return class_weights(options.class_weight, ds.classes, sums)


def _truth(ds: Dataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return (targets, weights or None) of rows as metrics take them."""
    return ds.y[rows], None if ds.weights is None else ds.weights[rows]


def facts_of(net, ds: Dataset | StreamedDataset, rows, window: int | None, o: Options, any_holdout: bool) -> dict:
    """Return the facts of Network.describe: what a network must know to read such data again."""
    if net.encoding is not None:
        scaling = Scaling()  # the encoding has the constants
    elif window:
        scaling = Scaling.of_moments(o.scaling, ds.moments, columns=ds.columns)
    else:
        scaling = Scaling.fit(o.scaling, ds.x, rows, columns=ds.columns, strict=net.reference)
        if np.isnan(scaling.shift).any():
            refuse_gaps(ds)
    of_targets = None
    if net.task == "regression" and (o.scaling != "none" or o.clip) and not net.reference:
        moments = ds.target_moments if window else _target_moments(ds, rows)
        if o.scaling == "none":
            of_targets = Scaling("standardization", np.zeros_like(moments.low), np.ones_like(moments.low))
        else:
            of_targets = target_scaling(net.layers[-1].output_function, moments)
        if o.clip:
            of_targets = within_range(of_targets, moments)
    settings = ("task", "loss", "init", "seed", "dtype", "backend", "reference", "tf32")
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
        "config": {
            **o.config(),
            "layers": net.spec,
            **{name: getattr(net, name) for name in settings},
            "target": ds.target,
            "window": window,
            **({"left_out": list(ds.left_out_places)} if ds.left_out_places else {}),
            **({"table": ds.kept_choices} if ds.kept_choices else {}),
        },
    }


def refuse_gaps(ds: Dataset | StreamedDataset) -> None:
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


def fit_encoding(net, ds: Dataset | StreamedDataset, o: Options, split: Split | None = None) -> None:
    """Give a network its encoding, as the training rows ask for it, if the table holds more than plain numbers, or if
    they are to become more."""
    if isinstance(ds, StreamedDataset):
        ds.split(o.holdout, split_seed(o, net.seed), o.validation_share)
        encode(net, ds, ds.statistics, o.scaling, o.number_embedding)
    else:
        rows = (split or split_of(ds, o, net.seed)).training
        encode(net, ds, lambda: TableStatistics.of(TableRows.of(ds.x), rows), o.scaling, o.number_embedding)


def encode(
    net, ds: Dataset | StreamedDataset, statistics: Callable[[], TableStatistics], scaling: str, asked: str | None
) -> None:
    """Give a network the encoding of a table with these statistics, where it needs one. asked: --number_embedding."""
    embedding = None if asked is None else number_embedding_value(asked)
    if embedding and ds.are_images:
        raise UsageError(f"--number_embedding {asked}: is for columns of numbers, the data are images; leave it out")
    plain = not ds.reads if isinstance(ds, StreamedDataset) else not isinstance(ds.x, TableRows)
    if embedding or not plain:
        where = {"names": ds.columns, "places": ds.places, "plain": plain}
        known = {"text_kinds": ds.text_kinds, "decimals": ds.decimals}
        net.adopt(Encoding.fit(statistics(), scaling, embedding, **where, **known))


def _target_moments(ds: Dataset, rows: np.ndarray) -> Moments:
    y = ds.y[rows].reshape(len(rows), -1)
    return Moments.of(y, block_values=y.size)  # added up at once


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
    return net.engine_rows(ds.x), y


def target_scaling(activation: str, y: Moments | StreamedMoments) -> Scaling:
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


def within_range(scaling: Scaling, y: Moments | StreamedMoments) -> Scaling:
    """Return a scaling of targets whose inverse stays within their range, and CLIP_MARGIN of it on either side."""
    margin = CLIP_MARGIN * (y.high - y.low)
    return replace(scaling, low=y.low - margin, high=y.high + margin)


def check_fit(net: Network, ds: Dataset | StreamedDataset, only_rows: bool = False) -> None:
    """Raise DataError or UsageError if this network cannot learn from this data set; only_rows: be judged by it."""
    where = name_of(ds)
    if net.task != ds.task:
        raise UsageError(f"{where}: the data is {ds.task}, the network is {net.task}; give --task or change --layers")
    if net.reference and getattr(ds, "weights", None) is not None:
        raise UsageError("--weight: --reference has no such thing; leave one out")
    if isinstance(ds, Dataset):
        ds.check()
    if not only_rows:
        check_trainable(ds)
    if ds.inputs != net.inputs:
        raise UsageError(f"--layers: the network has {net.inputs} inputs, {where} has {ds.inputs} per row")
    if ds.task == "multiclass" and len(ds.classes) > net.outputs:
        raise DataError(f"{where}: {len(ds.classes)} classes, but the network has {net.outputs} outputs")
    if ds.task == "regression" and ds.outputs != net.outputs:
        raise UsageError(f"--layers: {net.outputs} outputs, but {where} has {ds.outputs} targets")
