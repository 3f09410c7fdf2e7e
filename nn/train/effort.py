"""--effort: network, length of training, regularisation and number of members chosen for the table at hand.

Each candidate is trained on all rows by cross-validation: a network for each fold, which stops by the rows it does not
know. The candidates that together predict these rows best become the model, counted as often as greedy selection chose
them. Candidates were found by cross-validation on other tables (docs/measured.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from ..core.metrics import metric
from ..ds import Dataset
from ..nn import Network
from ..nn_aux import EFFORTS, OF_FOLD
from ..test import figures_of, without_remarks
from ..utils import Stopped, UsageError, log, told_once
from .decision import check_decision, decide, rules_in
from .folds import out_of_fold
from .options import Options, options_of
from .rows import fit_encoding
from .selection import greedy_selection
from .validation import LOSS, Monitor

PICKS = 10  # of greedy selection
MANY_ROWS = 10_000
DEFAULT_ACTIVATION = "relu"


@dataclass(frozen=True)
class Candidate:
    """Settings of a training, by the names of the flags; hidden: sizes, with - between them."""

    hidden: str
    activation: str
    dropout: float
    number_embedding: str | None
    learning_rate: float
    weight_decay: float
    epochs: int
    schedule: str
    batch_number: int = 32
    patience: int = 16
    folds: int = 8

    def layers(self, ds: Dataset) -> str:
        """Return --layers for a data set."""
        drop = [f"dropout{self.dropout:g}"] if self.dropout else []
        suffix = "" if self.activation == DEFAULT_ACTIVATION else f":{self.activation}"
        hidden = [item for size in self.hidden.split("-") for item in (size + suffix, *drop)]
        return ",".join(["auto", *hidden, str(ds.outputs)])

    def settings(self) -> dict:
        """Return the keywords of `train`."""
        of_layers = ("hidden", "activation", "dropout")
        own = {name: value for name, value in asdict(self).items() if name not in of_layers and value is not None}
        return {**own, "validation": OF_FOLD, "holdout": 0.0}


PLAIN = Candidate("60-10", "relu", 0.1, None, 0.004, 0.15, 300, "constant")
WAVES = Candidate("128-64", "silu", 0.1, "waves8:0.3", 0.002, 0.15, 30, "cooldown")
LIGHT = Candidate("60-10", "relu", 0.0, "waves8:0.3", 0.002, 0.02, 30, "cooldown")


PIECES = Candidate("128-64", "silu", 0.25, "pieces8", 0.002, 1.0, 30, "cooldown")
JAGGED = Candidate("64-64-32", "relu", 0.1, "waves8:1.0", 0.002, 0.15, 300, "constant")


def candidates_for(rows: int, effort: str) -> list[Candidate]:
    """Return the candidates for so many rows, those first that are tried in any case if they can be afforded."""
    if effort == "quick":
        found = [PLAIN]
    else:
        found = [PLAIN, WAVES, LIGHT] if rows < MANY_ROWS else [LIGHT, WAVES, PLAIN]
        found += [PIECES, JAGGED] if effort == "best" else []
    if rows < MANY_ROWS:
        return found
    many = {"batch_number": 128, "patience": 6, "folds": 4}
    return [
        replace(one, learning_rate=1.5 * one.learning_rate, epochs=min(one.epochs // 3, 60), **many) for one in found
    ]


def operations(candidate: Candidate, net: Network, rows: int) -> float:
    """Return the multiply-adds of the forward passes of a candidate's epochs, which may end early."""
    return net.parameter_count * rows * (candidate.folds - 1) * min(candidate.epochs, 2 * candidate.patience)


NO_OPTIONS = {option.name: None for option in fields(Options)} | {"epochs": 1, "momentum": 0.0}


def _options_in(settings: dict) -> dict:
    return {name: value for name, value in settings.items() if name in NO_OPTIONS}


def checked_effort(name: str) -> str:
    """Return the name of an effort. Raises UsageError for another."""
    if name not in EFFORTS:
        raise UsageError(f"--effort {name}: must be one of {', '.join(EFFORTS)}")
    return name


class Effort:
    """The choice for one data set."""

    def __init__(self, ds: Dataset, effort: str, given: dict, network: Callable[[str], Network]):
        """given: keywords of `train` that the user has set, which all candidates have. network: makes one of layers."""
        self._ds, self._effort, self._network = ds, checked_effort(effort), network
        self._rules = rules_in(given)  # of the network that is chosen
        self._given = {name: value for name, value in given.items() if name not in self._rules}
        self.tried: list[tuple[Candidate, Network]] = []
        self.net: Network | None = None  # that is trained now, or was last

    def candidates(self) -> list[tuple[Candidate, Network]]:
        """Return the candidates that the effort allows, one at least, with their networks, nothing trained."""
        budget, found, costs = EFFORTS[self._effort], [], []
        for candidate in candidates_for(self._ds.rows, self._effort):
            net = self._network(candidate.layers(self._ds))
            settings = {**candidate.settings(), **self._given, "validation": None, "patience": None}
            fit_encoding(net, self._ds, options_of(net, self._ds, {**NO_OPTIONS, **_options_in(settings)}))
            costs.append((operations(candidate, net, self._ds.rows), len(costs), candidate, net))
        for cost, _, candidate, net in costs:
            if cost <= budget:
                found.append((candidate, net))
                budget -= cost
        return found or [min(costs, key=lambda one: one[:2])[2:]]

    @told_once(log)
    def run(self, train: Callable[..., dict]) -> tuple[Network, dict]:
        """Return the network and the figures of --json. train: trains a network with keywords. Stopped: after the first
        candidate the best of those that have ended is kept, and the training is over."""
        figures, candidates = [], self.candidates()
        check_decision(candidates[0][1], self._decision(candidates[0][1]), any_validation=True)
        for candidate, net in candidates:
            self.net = net
            try:
                with without_remarks():
                    figures.append(train(net, self._ds, **{**candidate.settings(), **self._given}))
            except Stopped:
                if not self.tried:
                    raise
                break
            self.tried.append((candidate, net))
        counts = self._choose()
        return self._combined(counts, figures)

    def _decision(self, net: Network) -> Options:
        """Return options that leave to be found what the user has left."""
        return options_of(net, self._ds, {**NO_OPTIONS, **self._rules})

    def _choose(self) -> list[int]:
        """Return how often each candidate is chosen, by the rows that its networks do not know."""
        found = [out_of_fold(net, self._ds) for _, net in self.tried]
        ds = self._ds.of_rows(found[0][0])

        def loss(scores: np.ndarray) -> float:
            value = metric(LOSS, ds.task, ds.y, scores, ds.weights)
            return np.nan if value is None else value

        return greedy_selection([scores for *_, scores in found], PICKS, Monitor(LOSS), loss)

    def _combined(self, counts: list[int], figures: list[dict]) -> tuple[Network, dict]:
        chosen = [number for number, count in enumerate(counts) if count]
        of_one = ("folds", "mean", "std", "members", "best_epoch")
        net = self.tried[chosen[0]][1]
        result = {name: value for name, value in figures[chosen[0]].items() if name not in of_one}
        members, weights = [], []
        for number in chosen:
            own = self.tried[number][1].members
            members += own
            weights += [float(counts[number])] * len(own)
        net.describe(config={**net.config, "effort": self._effort, **self._rules})
        net.combine(members, weights)
        rows, _, scores = out_of_fold(net, self._ds)
        ds = self._ds.of_rows(rows)
        decided = decide(net, self._decision(net), ds.y, scores, ds.weights)
        described = [(counts[number], self.tried[number][0]) for number in chosen]
        return net, {
            **result,
            **decided,
            "networks": len(members),
            "parameters": sum(member.parameter_count for member in members),
            "members": [
                {"seed": member.seed, "weight": weight, "settings": {"layers": member.spec}, "best_epoch": None}
                for member, weight in zip(members, weights, strict=True)
            ],
            "effort": self._effort,
            "chosen": [self.flags(candidate, count) for count, candidate in described],
            "tried": len(self.tried),
            "out_of_fold": figures_of(net, ds, net.calibrated(scores)),
            "seconds": sum(own["seconds"] for own in figures),
        }

    def flags(self, candidate: Candidate, count: int) -> dict:
        """Return {"flags": those that train the candidate's networks, "weight": how often it was chosen}."""
        settings = {**candidate.settings(), **self._given}
        words = {name: f"{value:g}" if isinstance(value, float) else value for name, value in settings.items()}
        flags = " ".join(f"--{name} {word}" for name, word in words.items())
        return {"flags": f"--layers {candidate.layers(self._ds)} {flags}", "weight": count}
