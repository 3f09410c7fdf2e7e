"""PackMembers: how far each of several trainings is, which are left, and their figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..nn import Network
from .halving import SuccessiveHalving
from .learned import learned
from .loop import NotFinite, Training
from .trials import Trials

# what became of a network
CHOSEN, NOT_CHOSEN, GIVEN_UP, FAILED = "member", "not chosen", "given up", "failed"


class PackMembers:
    """The trainings of several networks, by their numbers.

    trainings: those that have begun. dropped: why the loss of a network is no number. chosen: the weights of those
    that a selection took, if there was one. halving: gives up the worse ones.
    """

    def __init__(self, networks: Sequence[Network], trials: Trials, halving: SuccessiveHalving | None):
        self.networks, self.trials, self.halving = list(networks), trials, halving
        self.trainings: dict[int, Training] = {}
        self.dropped: dict[int, NotFinite] = {}
        self.chosen: dict[int, float] = {}

    def left(self) -> dict[int, Training]:
        """Return the trainings whose losses are numbers."""
        return {number: training for number, training in self.trainings.items() if number not in self.dropped}

    def alive(self) -> dict[int, Training]:
        """Return those that were not given up."""
        gone = self.halving.given_up if self.halving else ()
        return {number: training for number, training in self.left().items() if number not in gone}

    def weights(self) -> dict[int, float]:
        """Return the weight of each member of the model."""
        return self.chosen or dict.fromkeys(self.alive(), 1.0)

    def done(self, number: int) -> int:
        """Return the epochs that a network has done."""
        return len(self.trainings[number].chosen("losses"))

    # ---- figures

    def losses(self, first: int = 0) -> dict:
        """Return the means of the networks' losses, of each epoch from `first` on; those given up have no more."""
        members, alive = self.chosen or dict.fromkeys(self.left(), 1.0), self.alive()
        trainings = {number: self.trainings[number] for number in members}
        epochs = max(map(self.done, members))
        each = [
            lasting(training.losses(), training.best_epoch(), epochs if number in alive else 0)
            for number, training in trainings.items()
        ]
        return mean_losses(each, list(members.values()), first)

    def result(self) -> dict:
        """Return the figures of `--json`."""
        left, weights = self.left(), self.weights()
        figures = {number: training.figures() for number, training in left.items()}
        first = figures[next(iter(weights))]
        batches = sum(self.done(number) * training.batches for number, training in left.items())
        seconds = max((own["seconds"] for own in figures.values()), default=0.0)
        members = [
            {
                "seed": left[number].net.seed,
                "weight": weight,
                "settings": self.trials.each[number].settings,
                "best_epoch": figures[number].get("best_epoch"),
            }
            for number, weight in weights.items()
        ]
        return {
            **{name: value for name, value in first.items() if name not in ("best_epoch", "refit")},
            "networks": len(weights),
            "parameters": sum(self.networks[number].parameter_count for number in weights),
            **self.losses(),
            **learned([left[number].outcome() for number in weights], list(weights.values())),
            "members": members,
            **({"trials": self._tried(figures)} if self.trials.config else {}),
            "seconds": seconds,
            "us_per_batch": 1e6 * seconds / batches,
        }

    def _tried(self, figures: dict[int, dict]) -> list[dict]:
        """Return what came of each network."""
        weights = self.weights()
        given_up = self.halving.given_up if self.halving else ()
        tried = []
        for number, trial in enumerate(self.trials.each):
            dropped = number in self.dropped
            failed = FAILED if dropped else GIVEN_UP if number in given_up else NOT_CHOSEN
            tried.append(
                {
                    "seed": self.networks[number].seed,
                    "settings": trial.settings,
                    "score": None if dropped else self.trainings[number].score(),
                    "epochs": self.done(number),
                    "best_epoch": None if dropped else figures[number].get("best_epoch"),
                    "weight": weights.get(number, 0.0),
                    "status": CHOSEN if number in weights else failed,
                }
            )
        return tried


def lasting(losses: dict, best_epoch: int | None, epochs: int) -> dict:
    """Return the losses of a network for this number of epochs: once it has stopped, those of the epoch that it keeps,
    the best one or the last."""
    return {
        name: values and values + [values[(best_epoch or 0) - 1]] * (epochs - len(values))
        for name, values in losses.items()
    }


def mean_losses(each: Sequence[dict], weights: Sequence[float], first: int = 0) -> dict:
    """Return the weighted means of networks' losses, of each epoch from `first` on."""
    return {
        name: None if each[0][name] is None else mean_of([own[name][first:] for own in each], weights)
        for name in each[0]
    }


def mean_of(lists: Sequence[Sequence[float | None]], weights: Sequence[float] | None = None) -> list[float | None]:
    """Return the weighted mean of the first entries, of the second ones, ..., each of the lists that are long enough.

    None entries do not count; None where there are no others. weights: of the lists, 1 each by default.
    """
    means: list[float | None] = []
    both = list(zip(lists, weights or [1.0] * len(lists), strict=True))
    for epoch in range(max(map(len, lists))):
        there = [(own[epoch], weight) for own, weight in both if len(own) > epoch and own[epoch] is not None]
        values, counts = zip(*there, strict=True) if there else ((), ())
        means.append(float(np.average(values, weights=counts)) if there else None)
    return means
