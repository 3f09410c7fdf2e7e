"""TrainingRows: the rows of a training as its engine reads them, and what the network must know to read such data."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from ..cluster import RankGroup
from ..data.memory import window_rows
from ..data.row_windows import RowWindow, RowWindows
from ..data.scaling import Moments, Scaling, StreamedMoments
from ..data.stream import StreamedDataset
from ..ds import Dataset, check_trainable, split_holdout
from ..files.checkpoint import Position
from ..nn import Network
from ..nn_aux import ACTIVATIONS, DEFAULTS
from ..utils import DataError, UsageError, log
from .options import Options, is_decided_later

VALIDATION_ROWS = 4096  # between two looks for a signal


class TrainingRows:
    """The rows of a training as its engine reads them: all loaded, or row windows that are loaded in turn.

    window: rows of a window, None to load all. The network is told what it must know to read such data again.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset | StreamedDataset,
        window: int | None,
        options: Options,
        rank_group: RankGroup,
    ):
        self._net = net
        self._training, self._holdout = _split(ds, options.holdout, net.seed)
        self.count, self.holdout_count = len(self._training), len(self._holdout)
        net.describe(**_facts_of(net, ds, self._training, window, options, self.holdout_count > 0))
        self._data = ds if is_decided_later(options) else None  # else the engine's copy is enough
        self.loaded = self.windows = None  # loaded: what the engine computes with now
        convert = functools.partial(_engine_rows, net)
        if window:
            batches = options.batch_number, VALIDATION_ROWS * rank_group.size
            self.windows = RowWindows(ds, window, batches, convert, net.seed, rank_group.rank, rank_group.size)
        else:
            self.loaded = net.engine.load(*convert(ds))

    def decisive(self) -> tuple[Dataset | StreamedDataset, object, bool]:
        """Return (data, rows, whether they are validation rows) to choose a threshold by; see decision.decide_on."""
        return self._data, self._data.training if self.windows else self._training, False

    def start(self, at: Position, epochs: int) -> None:
        """Begin to read windows from a position on."""
        if self.windows:
            self.windows.start(at.epoch, at.row, epochs)

    def close(self) -> None:
        """Stop reading."""
        if self.windows:
            self.windows.close()

    def stretches(self, at: Position, order, epoch_rows: int, wait) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the rest of the epoch: (rows of the epoch before, order of the rows in `loaded`).

        order: of all rows, epoch by epoch; wait: see RowWindows.next.
        """
        if self.windows is None:
            indices = self._training[order.epoch(at.epoch)][:epoch_rows]
            if at.row < epoch_rows:
                yield 0, indices
            return
        while at.row < epoch_rows:
            window = self._load_next(wait)
            yield window.first, window.order

    def holdout_windows(self, wait) -> Iterator[np.ndarray]:
        """Yield the held-out rows, as indices into `loaded`."""
        if self.windows is None:
            yield self._holdout
            return
        for _ in range(0, self.holdout_count, self.windows.window):
            yield self._load_next(wait).order

    def _load_next(self, wait) -> RowWindow:
        window = self.windows.next(wait)
        self.loaded = None  # two would need twice the memory
        self.loaded = self._net.engine.load(window.x, window.y)
        return window


def window_of(net, ds: Dataset | StreamedDataset, options: Options, rank_group: RankGroup):
    """Return (data, rows of a window): streamed data that memory can hold become a Dataset, without a window."""
    if isinstance(ds, Dataset):
        return ds, None
    ds.split(options.holdout, net.seed)
    window = window_rows(ds, net, options.batch_number, options.scaling, rank_group.size)
    if window is None:
        return ds.whole(), None
    if net.reference:
        raise UsageError("--reference shuffles all rows at once: leave out --memory and --window")
    return ds, window


def _split(ds: Dataset | StreamedDataset, share: float, seed: int):
    """Return (training rows, held-out rows); of a Dataset their indices."""
    if isinstance(ds, Dataset):
        rows, holdout = split_holdout(ds, share, seed)
    else:
        rows, holdout = range(ds.training.rows), range(ds.holdout.rows)
    if share and not len(holdout):
        log.warning("the data is too small for --holdout %g: training on all %d rows", share, len(rows))
    return rows, holdout


def _facts_of(net, ds: Dataset | StreamedDataset, rows, window: int | None, o: Options, any_holdout: bool) -> dict:
    """Return the facts of Network.describe: what a network must know to read such data again."""
    if window:
        scaling = Scaling.of_moments(o.scaling, ds.moments, columns=ds.columns)
    else:
        scaling = Scaling.fit(o.scaling, ds.x, rows, columns=ds.columns, strict=net.reference)
    of_targets = None
    if net.task == "regression" and o.scaling != "none" and not net.reference:
        moments = ds.target_moments if window else _target_moments(ds, rows)
        of_targets = target_scaling(net.layers[-1].output_function, moments)
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
        "config": {
            **o.config(),
            "layers": net.spec,
            **{name: getattr(net, name) for name in settings},
            "target": ds.target,
            "window": window,
        },
    }


def _target_moments(ds: Dataset, rows: np.ndarray) -> Moments:
    y = ds.y[rows].reshape(len(rows), -1)
    return Moments.of(y, block_values=y.size)  # added up at once


def _engine_rows(net, ds: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return (x, y) as the engine takes them."""
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
        shift, scale = (y.low * high - y.high * low) / (high - low), (y.high - y.low) / (high - low)
    else:
        scale = y.deviation
        shift = np.zeros_like(scale) if math.isfinite(low) else y.mean
    return Scaling("standardization", shift, np.where(y.low == y.high, 1.0, scale))


def check_fit(net: Network, ds: Dataset | StreamedDataset) -> None:
    """Raise DataError or UsageError if this network cannot learn from this data set."""
    where = ds.path or "the data"
    if net.task != ds.task:
        raise UsageError(f"{where}: the data is {ds.task}, the network is {net.task}; give --task or change --layers")
    check_trainable(ds)
    if ds.inputs != net.inputs:
        raise UsageError(f"--layers: the network has {net.inputs} inputs, {where} has {ds.inputs} per row")
    if ds.task == "multiclass" and len(ds.classes) > net.outputs:
        raise DataError(f"{where}: {len(ds.classes)} classes, but the network has {net.outputs} outputs")
    if ds.task == "regression" and ds.outputs != net.outputs:
        raise UsageError(f"--layers: {net.outputs} outputs, but {where} has {ds.outputs} targets")
