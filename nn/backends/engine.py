"""The interface between a network and the engine that computes it. Code above this
folder calls these members only.

Shapes: `rows` of data, `inputs` and `outputs` of the network, `size` its number of
parameters. A parameter vector has the layers' weights and biases one after the other
(nn.h). Times are seconds of time.perf_counter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..cluster import RankGroup
from ..core.random import PhiloxOrder
from ..layers import Layer, scaled_layer
from ..nn_aux import OPTIMIZERS


def _most_shift(side: int) -> int:
    """Return how many pixels an image may be moved along a side: a tenth of it."""
    if side == 1:
        return 0
    return math.ceil(side / 10)


def vector_length(layers: Sequence[Layer], what: str) -> int:
    """Return how many values a vector of Engine.set has."""
    if what == "scales":
        scaled = scaled_layer(layers)
        return 3 * scaled.inputs if scaled else 0
    return sum(layer.parameters for layer in layers)


class TimedStep(NamedTuple):
    """A step of a batch, or of a call of predict, and when it began and ended."""

    # gather, forward, loss, backward, update, communication, end (the rest of the
    # batch)
    name: str
    layer: int | None
    begin: float
    end: float
    # the thread but the first, stream or device, where several work at once
    lane: str = ""
    rows: int = 0  # of the call


@dataclass(frozen=True)
class EpochSettings:
    """How one epoch learns (nn.h has the formulas)."""

    optimizer: str  # a name of OPTIMIZERS
    batch: int  # rows
    # at 0, 1/8 .. 8/8 of the epoch's rows, straight lines between
    rates: Sequence[float]
    momentum: float = 0.0  # of sgd
    betas: tuple[float, ...] | None = None  # of the others; None: the optimiser's own
    epsilon: float | None = None
    weight_decay: float = 0.0
    # of the scales of the first dense layer's inputs, in learning rates; 0: there are
    # none
    scale_rate: float = 0.0
    seed: int = 0  # of dropout masks, and of how images are moved
    augment: str = "none"  # a name of AUGMENTATIONS
    freeze: int = 0  # how many layers with parameters keep them, from the first on

    @property
    def constants(self) -> tuple[float, ...]:
        return OPTIMIZERS[self.optimizer].constants_with(
            self.momentum, self.betas, self.epsilon
        )

    def moves(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return how images of a shape are moved: rows and columns at most, and whether
        half of them are mirrored."""
        shifts = self.augment in ("shift", "both")
        mirrors = self.augment in ("mirror", "both")
        _, height, width = shape
        mirrored = int(mirrors and width > 1)
        if not shifts:
            return 0, 0, mirrored
        return _most_shift(height), _most_shift(width), mirrored

    def lowest(self, layers: Sequence[Layer]) -> int:
        """Return the index of the lowest layer that learns."""
        if not self.freeze:
            return 0
        learning = [index for index, layer in enumerate(layers) if layer.parameters]
        return learning[self.freeze]

    @property
    def moments(self) -> list[str]:
        """The vectors that the optimiser keeps beside the parameters: moment1,
        moment2."""
        return OPTIMIZERS[self.optimizer].moments_with(self.momentum)

    @property
    def vectors(self) -> list[str]:
        """The vectors that an epoch changes beside the parameters: the moments, and
        scales."""
        if self.scale_rate:
            return [*self.moments, "scales"]
        return self.moments


@dataclass
class Progress:
    """Where an epoch stands (nn_progress in nn.h); may be read, and `stop` set, while
    it runs in another thread."""

    row: int = 0  # rows of the order done so far
    step: int = 0  # batches done since training began
    loss: float = 0.0  # sum of the losses of those rows, times their weights
    stop: int = 0  # not 0: end after the batch at hand


@dataclass
class PackJob:
    """The job of one network of a pack in a call. A member has one job a call at
    most."""

    member: int  # number of the network
    data: Any  # of Engine.load
    rows: np.ndarray  # int64 indices of data
    settings: EpochSettings | None = None  # of an epoch, as are the following
    progress: Progress | None = None
    # the order of rows is that of PhiloxOrder(len(rows), settings.seed).epoch(shuffle);
    shuffle: int | None = None
    # None: as they stand

    def order(self) -> np.ndarray:
        """Return the rows in the epoch's order."""
        if self.shuffle is None:
            return self.rows
        return self.rows[
            PhiloxOrder(len(self.rows), self.settings.seed).epoch(self.shuffle)
        ]


class Pack(Protocol):
    """Networks of one architecture that are trained together, each with its own
    parameters and settings.

    Every result has the same bits as that of the engine alone with the member's
    parameters. The data sets are those of the engine that made the pack (Engine.pack);
    its own network stays as it is, unless the members take turns there.
    """

    count: int  # members

    def describe(self) -> str:
        """Return how the members share the device, in a few words."""

    def bytes(self) -> int:
        """Return the memory that all members take, without data sets."""

    def set(self, member: int, what: str, vector: np.ndarray) -> None:
        """Do for one member what Engine.set does."""

    def get(self, member: int, what: str) -> np.ndarray:
        """Return for one member what Engine.get returns."""

    def keep(self, member: int) -> None:
        """Do for one member what Engine.keep does."""

    def epoch(self, jobs: Sequence[PackJob]) -> None:
        """Do for each job what Engine.epoch does. A job whose progress.stop is set ends
        after a batch."""

    def predict(self, jobs: Sequence[PackJob]) -> list[np.ndarray]:
        """Return the outputs (rows, outputs) of each job."""

    def loss(self, jobs: Sequence[PackJob]) -> list[float]:
        """Return the mean loss of each job, weighted."""


class Engine(Protocol):
    """A network on a device. An engine is made for a list of layers, a loss and a dtype
    (backends.create).

    Methods that compute raise NnError where memory runs out, and ValueError for arrays
    of another shape or type. Threads may predict beside each other, and beside one that
    sets the parameters or trains an epoch: they see all parameters of before, or all of
    after.
    All ranks of `rank_group` call epoch and gradients alike, with the rows of whole
    batches.
    """

    name: str  # of the backend
    dtype: np.dtype
    inputs: int
    outputs: int
    size: int
    threads: int  # of the processor, at most
    rank_group: RankGroup  # the ranks that share each batch; most often ALONE

    # ---- facts of the engine

    def describe(self) -> str:
        """Return the backend with its instruction set or GPU, and ranks: for the first
        line of a run."""

    def device_name(self) -> str:
        """Return the maker's name of the processor or GPU."""

    def threads_for(self, rows: int) -> int:
        """Return how many threads of the processor a batch of `rows` rows uses."""

    def routes(self, rows: int) -> list[str]:
        """Return lines that say which kernels compute a training step of `rows` rows:
        `layer 0 60: ...` for each layer.

        A line before them may name what runs the whole step.
        """

    def bytes(self) -> int:
        """Return the memory that the network takes on the device, without data sets."""

    def pack(self, count: int, rows: int) -> Pack:
        """Return `count` networks like this one, parameters 0, for batches of about
        `rows` rows."""

    # ---- parameters and data

    def set(self, what: str, vector: np.ndarray) -> None:
        """Copy a vector (size,) of the engine's dtype in. what: parameters, kept,
        moment1, moment2, or scales (3 inputs,): what the scales of the first dense
        layer's inputs exceed 1 by, then the two moments of these.

        Moments and scales go to the rank that has them.
        """

    def length(self, what: str) -> int:
        """Return how many values a vector of `set` has."""

    def get(self, what: str) -> np.ndarray:
        """Return a copy of a vector; what: as of `set`."""

    def keep(self) -> None:
        """Copy the parameters to `kept`, on the device."""

    def load(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Any:
        """Return the data set as epoch, predict and loss take it.

        x: (rows, ...) of the engine's dtype, or uint8, which counts as x / 255. For an
        embedding layer numbers (rows, inputs) of the engine's dtype, codes too, or
        records (rows,) of core.records.record_type; ValueError for a code that its
        column's table does not have. y: (rows, outputs) of the engine's dtype, int32
        class indices (rows,), or None to predict only. weights: (rows,) of the engine's
        dtype, how often each row counts in a batch's mean loss and gradient; None:
        once.
        """

    # ---- training

    def progress(self, row: int = 0, step: int = 0, loss: float = 0.0) -> Progress:
        """Return a counter for `epoch`, which begins at row `row` of the order."""

    def epoch(
        self, data: Any, order: np.ndarray, settings: EpochSettings, progress: Progress
    ) -> None:
        """Train on the rows order[progress.row:] of `data`, int64 indices.

        Returns at the end, or after the batch in which progress.stop is set. Runs
        without the interpreter's lock.
        """

    def gradients(
        self, x: np.ndarray, y: np.ndarray, seed: int = -1, step: int = 0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return (mean loss, gradient vector (size,), dx (rows, inputs)) of one batch.

        x: (rows, inputs), codes as numbers; y: (rows, outputs). dx is 0 for codes and
        gaps. seed, step: of the dropout masks; seed -1: no dropout.
        """

    def record(self, batches: int, predicts: bool = False) -> None:
        """Time the steps of the next `batches` batches of training, or calls of
        predict; of many those of one thread."""

    def recorded(self) -> list[list[TimedStep]]:
        """Return the steps of each batch or call since `record`, in the order of
        time, one lane after the other."""

    # ---- forward passes

    def predict(
        self,
        data: Any,
        rows: np.ndarray | None = None,
        vector: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return outputs (rows, outputs) of the rows with these indices, by default all
        of `data`.

        vector: parameters (size,) in the place of the engine's, which stay as they are.
        """

    def predict_once(self, x: np.ndarray) -> np.ndarray:
        """Return outputs (rows, outputs) of all rows as `load` takes them, which are
        not kept."""
        return self.predict(self.load(x))

    def loss(self, data: Any, rows: np.ndarray) -> float:
        """Return the mean loss of the rows with these indices, weighted; 0 where all
        weights are 0."""
