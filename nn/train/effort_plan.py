"""EffortPlan: what --effort tries on a data set, decided before the first training: the
candidates that its budget has room for, their networks and their settings."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core import random
from ..data.prepared import fitted_encoding, statistics_by
from ..data.splits import most_folds, split_rows
from ..data.word_means import has_many_words
from ..ds import Dataset
from ..nn import Network, remember
from ..nn_aux import EFFORTS
from ..settings.flags import BY_NAME, DEFAULTS
from ..settings.values import number_embedding_value
from ..utils import UsageError
from .candidates import (
    SPARE,
    WITH_WAVES,
    Candidate,
    candidates_for,
    image_candidates,
    multiply_adds,
    thrifts_for,
)
from .decision import rules_in
from .options import (
    OF_VALIDATION,
    Options,
    check_calibration,
    checked_values,
    options_of,
)

USUAL_SCALING = "standardization"
# share of class 1 up to which its threshold is chosen, and the rows of it that this
# needs
RARE = 0.1
LEAST_RARE = 20


def rule_for(ds: Dataset) -> dict:
    """Return {"threshold": rule} where class 1 is rare, else {}.

    The mean of several networks is seldom sure of a rare class: at 0.5 more of its rows
    are missed than others are taken for it.
    """
    if ds.task != "binary":
        return {}
    counts = ds.row_counts(slice(None))
    if counts is None:
        counts = np.ones(ds.rows)
    positive = counts @ ds.y
    if LEAST_RARE <= positive <= RARE * counts.sum():
        return {"threshold": "f1"}
    return {}


class Planned(NamedTuple):
    """A candidate, its network, nothing trained, and the operations that its training
    usually takes."""

    candidate: Candidate
    net: Network
    operations: float


class EffortPlan:
    """Candidates that an effort tries on a data set.

    rules: settings that leave something to be found after the last epoch. fixed: the
    others that are given, which all candidates have.
    """

    def __init__(
        self, ds: Dataset, effort: str, settings: dict, network_settings: dict
    ):
        """settings: keywords of `train` that are given; network_settings: those of
        Network. Raises UsageError."""
        self.ds = ds
        self.effort = BY_NAME["effort"].check(effort)
        asks = {"backend", "gpus", "distribute"} & network_settings.keys()
        # a GPU takes longer to compile each table's kernels
        if not (asks or network_settings.get("dtype") == "tf32" or ds.are_images):
            network_settings = {**network_settings, "backend": "omp"}
        self._network_settings = network_settings
        self.activation = network_settings.get("activation")
        if "threshold" not in settings:
            settings = {**settings, **rule_for(ds)}
        settings = checked_values(settings)
        check_calibration(settings)
        self.rules = rules_in(settings)
        self.fixed = {
            name: value for name, value in settings.items() if name not in self.rules
        }
        self._shared = {}  # by all candidates
        if ds.task == "regression":
            self._shared["clip"] = True
        self._has_means = has_many_words(ds)
        if self._has_means:
            self._shared["target_means"] = True
        self._shared |= self.fixed
        self.seed = settings.get(
            "split_seed", network_settings.get("seed", DEFAULTS["seed"])
        )

    # ---- rows

    def validation_rows(self, share: float) -> np.ndarray:
        """Return the rows that judge where folds do not; share: of the rows that are
        not held out."""
        holdout = self.fixed.get("holdout", 0.0)
        return split_rows(self.ds, holdout, share, self.seed).validation

    @cached_property
    def rows(self) -> np.ndarray:
        """The rows that candidates are trained on, or judged by."""
        holdout = self.fixed.get("holdout", 0.0)
        return split_rows(self.ds, holdout, 0.0, self.seed).training

    @cached_property
    def is_by_share(self) -> bool:
        """Return whether the same rows judge all networks, and no folds."""
        return self.ds.are_images or (
            self.ds.rows * self.encoded_network(WITH_WAVES).reader.row_bytes
            > random.SHUFFLED_BYTES
        )

    @property
    def knows_first_rows_only(self) -> bool:
        """Return whether the networks of folds know the rows before a time only, some
        of them few."""
        return self.ds.times is not None and not self.is_by_share

    @property
    def chooses_length(self) -> bool:
        """Return whether candidates have as many epochs as the budget has room for."""
        return self.fixed.keys().isdisjoint(("epochs", "schedule"))

    # ---- of a candidate

    def settings(self, candidate: Candidate) -> dict:
        """Return the keywords of `train` for a candidate."""
        return {**candidate.settings(), **self._shared}

    def settings_without(self, candidate: Candidate, *names: str) -> dict:
        """Return the settings of a candidate but for these, and those that are about
        rows apart."""
        without = {"folds", "validation", *OF_VALIDATION, *names}
        settings = self.settings(candidate)
        return {name: settings[name] for name in settings if name not in without}

    def network(self, candidate: Candidate) -> Network:
        """Return a network of a candidate, nothing trained."""
        return Network.for_data(
            self.ds, candidate.layers(self.ds), **self._network_settings
        )

    def encoded_network(self, candidate: Candidate) -> Network:
        """Return the same with the encoding of the table's columns."""
        net = self.network(candidate)
        settings = self.settings(candidate)
        encoding = fitted_encoding(
            self.ds,
            settings.get("scaling", USUAL_SCALING),
            settings.get("number_embedding"),
            lambda: self._statistics,
        )
        remember(net, encoding=encoding)
        return net

    @cached_property
    def _statistics(self) -> list:
        return statistics_by(self.ds, self.rows, self._has_means)

    def decided(self, net: Network) -> Options:
        """Return the options that leave to be found what is given to be found."""
        return options_of(net, self.ds, self.rules)

    # ---- the candidates

    def candidates(self) -> list[Planned]:
        """Return the candidates that the effort allows, one at least. Raises UsageError
        for rows that cannot be divided into folds."""
        if self.ds.are_images:
            planned = self._of_images()
        else:
            planned = self._affordable()
            if self.chooses_length:
                planned = self._within_budget(planned)
        vars(self).pop("_statistics", None)  # they hold the words of the table
        return planned

    def _affordable(self) -> list[Planned]:
        """Return the candidates for a table that the budget has room for.

        All save folds and epochs, as much as lets all have room; where the most that
        they may save is not enough, as much as leaves most of them, and one that embeds
        numbers before one more. Where it has room for none, as in very wide tables: the
        first of the spare ones that it has room for, or else the cheapest of all. That
        is no more than a higher effort takes, which has the same spare ones.
        """
        budget = EFFORTS[self.effort]
        rows = len(self.rows)
        usual = candidates_for(rows, self.effort)
        best = ([], 0)
        for thrift in thrifts_for(rows, self.effort):
            planned = self._of_table([thrift.of(entry) for entry in usual])
            planned = _distinct(planned)
            affordable = _within(planned, budget)
            if len(affordable) == len(planned):
                return affordable
            embeds = any(entry.candidate.number_embedding for entry in affordable)
            if len(affordable) + embeds > best[1]:
                best = (affordable, len(affordable) + embeds)
        if best[0]:
            return best[0]
        spare = self._of_table([thrift.of(entry) for entry in SPARE])
        affordable = _within(spare, budget)
        if affordable:
            return affordable[:1]
        return [min(planned + spare, key=lambda entry: entry.operations)]

    def _within_budget(self, planned: list[Planned]) -> list[Planned]:
        """Return candidates for a table with as many epochs at most as the budget has
        room for."""
        room = EFFORTS[self.effort] / sum(entry.operations for entry in planned)
        lasting = []
        for entry in planned:
            candidate = entry.candidate.lasting(room)
            operations = candidate.operations(entry.net, len(self.rows))
            lasting.append(Planned(candidate, entry.net, operations))
        return lasting

    def _of_images(self) -> list[Planned]:
        """Return the candidates for images; the budget has decided how long they are
        trained."""
        return self._planned(
            image_candidates(
                self.effort,
                len(self.rows),
                lambda candidate: multiply_adds(self.network(candidate)),
                tries=self.fixed.keys().isdisjoint(("augment", "epochs")),
            )
        )

    def _of_table(self, candidates: list[Candidate]) -> list[Planned]:
        """Return candidates for a table with as many folds as its rows allow."""
        folds = None
        if not self.is_by_share:
            folds = most_folds(self.ds, self.rows, candidates[0].folds, self.seed)
            if folds is None:
                raise UsageError(
                    f"--effort {self.effort}: {len(self.rows)} rows are too few to be divided into folds"
                )
        return self._planned(
            [replace(candidate, folds=folds) for candidate in candidates]
        )

    def _planned(self, candidates: list[Candidate]) -> list[Planned]:
        """Return candidates with the settings that are given, their networks and
        operations."""
        given = {
            name: self.fixed[name]
            for name in ("epochs", "patience")
            if name in self.fixed
        }
        if self.activation:
            given["activation"] = self.activation
        planned = []
        for candidate in candidates:
            candidate = replace(candidate, **given)
            net = self.encoded_network(candidate)
            operations = candidate.operations(net, len(self.rows))
            planned.append(Planned(candidate, net, operations))
        return planned

    # ---- what is told of a candidate

    def config(self, candidate: Candidate) -> dict:
        """Return what the settings of the model have beside those of its first
        candidate: what is given, and under `chosen` the names of those that are not."""
        given = {**self.fixed, **self.rules}
        if self.activation:
            given["activation"] = self.activation
        chosen = sorted({"layers", *self.settings(candidate)} - given.keys())
        return {**given, "effort": self.effort, "chosen": chosen}

    def flags(self, candidate: Candidate) -> str:
        """Return the flags that train the candidate's networks."""
        flags = " ".join(
            _flag(name, value) for name, value in self.settings(candidate).items()
        )
        return f"--layers {candidate.layers(self.ds)} {flags}"

    def difference(self, candidate: Candidate, other: Candidate) -> str:
        """Return for a person in which settings a candidate differs from another."""
        usual = self.settings(other)
        words = [
            _words_of(name, value)
            for name, value in self.settings(candidate).items()
            if usual.get(name) != value
        ]
        return ", ".join(words)


def _distinct(planned: list[Planned]) -> list[Planned]:
    """Return candidates without those that are the same as one before: without numbers
    nothing is embedded."""
    distinct = {}
    for entry in planned:
        candidate = replace(entry.candidate, number_embedding=None)
        distinct.setdefault((candidate, tuple(entry.net.layers)), entry)
    return [*distinct.values()]


def _within(planned: list[Planned], budget: float) -> list[Planned]:
    """Return the candidates that a budget has room for, in their order."""
    affordable = []
    for entry in planned:
        if entry.operations <= budget:
            affordable.append(entry)
            budget -= entry.operations
    return affordable


def _words_of(name: str, value) -> str:
    """Return a setting that makes a candidate another one, for a person."""
    if name != "number_embedding":
        return f"{name} {value}"
    kind = number_embedding_value(value)
    if kind.kind == "pieces":
        return f"{kind.count} ranges for each number"
    return f"{kind.count} {kind.kind} for each number"


def _flag(name: str, value) -> str:
    if value is True:
        return f"--{name}"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"--{name} {value:g}"
    return f"--{name} {value}"
