"""LoadedRows: the rows of a training as its engine has loaded them, and those that
judge its epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..backends.engine import Engine
from ..core import random
from ..data.checks import check_any_weight, check_fit
from ..data.dataset import as_read_by
from ..data.loading import load_for, without_gaps
from ..data.prepared import Prepared
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..test.learned import baseline_of, targets_of

GIVEN_ROWS = "rows of a Dataset"  # the name of validation rows that are of no file
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


class LoadedRows:
    """The rows of a training, loaded by an engine, whose ranks share them.

    judging: rows of the data set (indices) that judge epochs, or a data set of its own,
    all of which judge. is_validated: whether they choose the best epoch.
    """

    def __init__(
        self,
        prepared: Prepared,
        engine: Engine,
        judging: np.ndarray | Dataset,
        is_validated: bool,
    ):
        ds = prepared.ds
        rows = prepared.split.training
        self.prepared = prepared
        self.count = len(rows)
        self.holdout_count = len(prepared.split.holdout)
        self.is_validated = is_validated
        self.weighted = prepared.class_weights is not None or ds.weights is not None
        arrays = prepared.training_arrays()
        self.by_blocks = arrays[0].nbytes > random.SHUFFLED_BYTES
        loaded = engine.load(*arrays)
        weights = None
        if len(arrays) > 2:
            weights = arrays[2]
        check_any_weight(weights, rows, "training")
        self.training = Part(ds, rows, loaded, weights)
        judging_arrays = arrays
        if isinstance(judging, Dataset):
            judging_arrays = prepared.arrays_of(judging)
            self.judging = Part(
                judging,
                judging.counting_rows(),
                engine.load(*judging_arrays),
                *judging_arrays[2:],
            )
        else:
            check_any_weight(
                weights, judging, "validation" if is_validated else "held-out"
            )
            self.judging = Part(ds, judging, loaded, weights)
        told_by = self.judging
        if not len(told_by.rows):
            told_by = self.training
        outputs = prepared.settings.outputs
        targets = [array[rows] for array in arrays[1:]]
        judged_by = [array[told_by.rows] for array in judging_arrays[1:]]
        self.baseline = baseline_of(
            prepared.settings.loss,
            targets_of(*targets, outputs=outputs),
            targets_of(*judged_by, outputs=outputs),
        )

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


def validation_file(
    net: Network, name: float | str | None, given: Dataset | ReadValidation | None
) -> Dataset | None:
    """Return the data set that --validation names; None where it is a share, or there
    is none. given: that data set, or what reads it, where a caller has it."""
    if not isinstance(name, str) or name == OF_FOLD:
        return None
    if callable(given):
        given = given(net)
    if given is None:
        ds = load_for(net, name)
    else:
        ds = without_gaps(net, given)
    ds = as_read_by(net, ds)
    check_fit(net, ds, only_rows=True)
    check_any_weight(ds.weights, np.arange(ds.rows), "validation")
    return ds
