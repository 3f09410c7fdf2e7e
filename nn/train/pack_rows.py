"""PackRows: the rows that each of several networks is trained on and judged by, and how it reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..backends.engine import Engine
from ..data.splits import Fold, Split, split_given
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..settings.flags import DEFAULTS
from .options import Options
from .rows import TrainingRows, facts_of, fit_encoding, split_of, split_seed
from .trials import Trials


def readers_of(net: Network, ds: Dataset, options: Options, trials: Trials) -> list[Network]:
    """Return for each trial a network that reads the data as its network does: `net`, or where --vary draws how columns
    of numbers are embedded one for each of these ways."""
    readers = {options.number_embedding: net}
    for trial in trials.each:
        asked = trial.options.number_embedding
        if asked not in readers:
            readers[asked] = net.sibling(net.seed)
            fit_encoding(readers[asked], ds, trial.options)
    return [readers[trial.options.number_embedding] for trial in trials.each]


class PackRows:
    """The rows of several networks: of all the same, loaded once for those that read them alike, or those of the fold
    of each."""

    def __init__(
        self,
        net: Network,
        readers: Sequence[Network],
        engine_of: Callable[[Network], Engine],
        ds: Dataset,
        options: Options,
        trials: Trials,
        validation: Dataset | None = None,
        folds: Sequence[Fold] = (),
    ):
        """net: whose seed the first network has; readers: see readers_of; engine_of: a reader, loads what networks
        share; validation: rows that judge the epochs, given by the caller."""
        self.data, self.folds = ds, list(folds)
        self._readers, self._engine_of = readers, engine_of
        self._net, self._options, self._trials, self._validation = net, options, trials, validation
        self._shared: dict[tuple[Network, bool], TrainingRows] = {}  # by the reader, and whether they are of a refit
        self._seed = split_seed(options, net.seed)
        self.splits = [self._split_of(fold) for fold in self.folds]

    def _split_of(self, fold: Fold) -> Split:
        """Return the rows of a fold's network; it is judged by validation rows, or else by those of the fold."""
        if self._options.validation == OF_FOLD:
            return Split(fold.training, fold.tested, fold.tested)
        split = split_given(self.data, fold.training, self._options.validation_share, self._seed)
        return split._replace(holdout=fold.tested)

    def facts(self) -> tuple[dict, int | None]:
        """Return (facts of the network of all networks, the rows that are held out of all folds, None without)."""
        if not self.folds:
            return self.shared(False).facts, None
        split = split_of(self.data, self._options, self._net.seed)
        rows = np.union1d(split.training, split.validation)
        any_holdout = len(split.holdout) > 0
        return facts_of(self._net, self.data, rows, self._options, any_holdout), len(split.holdout)

    def shared(self, refit: bool, number: int = 0) -> TrainingRows:
        """Return the rows that a network and all others that read alike train on, or those of their refit."""
        reader = self._readers[number]
        if (reader, refit) not in self._shared:
            engine, given = self._engine_of(reader), self._given(refit)
            rows = TrainingRows(reader, self.data, self._options, engine, given, refit)
            self._shared[reader, refit] = rows
        return self._shared[reader, refit]

    def of(self, net: Network, refit: bool) -> TrainingRows:
        """Return the rows of one of the networks, which is told what they are."""
        number = net.seed - self._net.seed
        rows = self._own_rows(net, number, refit)
        trial = self._trials.each[number]
        own = {"seed": net.seed, "split_seed": self._seed, "layers": net.spec, **trial.own_options}
        net.describe(**{**rows.facts, "config": {**rows.facts["config"], **own}})
        return rows

    def _own_rows(self, net: Network, number: int, refit: bool) -> TrainingRows:
        if not self.folds:
            return self.shared(refit, number)
        options, given = self.options_of(net), self._given(refit)
        return TrainingRows(net, self.data, options, net.engine, given, refit, self.splits[number])

    def _given(self, refit: bool) -> Dataset | None:
        return None if refit else self._validation

    def options_of(self, net: Network) -> Options:
        """Return the options of one of the networks: thresholds and temperatures are found for all together."""
        options, threshold = self._trials.each[net.seed - self._net.seed].options, self._options.threshold
        threshold = DEFAULTS["threshold"] if isinstance(threshold, str) else threshold
        return replace(options, threshold=threshold, calibrate=DEFAULTS["calibrate"], split_seed=self._seed)
