"""--effort: network, length of training, regularisation and number of members chosen
for the data at hand.

Each candidate is trained on all rows by cross-validation: a network for each fold,
which stops by the rows it does not know. Of a table whose encoded rows are shuffled by
blocks (core/random.py), and of images, these are validation rows, the same for all. The
candidates that together predict these rows best become the model, counted as often as
greedy selection chose them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..backends import Device
from ..core import random
from ..data.prepared import fitted_encoding, statistics_by
from ..data.records import beside_checkpoint
from ..data.splits import fold_rows, most_folds, split_rows
from ..data.word_means import has_many_words
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn.crossed import Crossed
from ..nn_aux import EFFORTS, METRICS
from ..settings.flags import BY_NAME, DEFAULTS
from ..settings.values import number_embedding_value
from ..test import QUICK, figures_of, without_remarks
from ..test.out_of_fold import figures_out_of_fold, with_figures
from ..utils import Stopped, UsageError, log, logged_once, plural
from ..watch.callbacks import Callback
from ..watch.observe import Recording
from .call import train
from .candidates import (
    LONGER_COST,
    LONGER_GAIN,
    LONGER_LOSS,
    SOLVED_LOG_LOSS,
    SPARE,
    STILL_LEARNING,
    WITH_WAVES,
    Candidate,
    candidates_for,
    image_candidates,
    multiply_adds,
    thrifts_for,
)
from .decision import (
    add_conformal,
    check_decision,
    decide_by,
    decide_crossed,
    judged,
    rules_in,
)
from .learned import known_in_time, learned_by_rows, tell
from .options import (
    LOSS,
    OF_VALIDATION,
    Monitor,
    Options,
    check_calibration,
    options_of,
)
from .run import mean_losses
from .search import Choice, choose, choose_crossed, crossed_scores

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


class Retrained(NamedTuple):
    """The networks of a candidate that were trained once more on all rows, how long,
    and the figures of it."""

    net: Network
    epochs: int
    figures: dict


class Tried(NamedTuple):
    """A candidate that was tried: the network that was trained for it, with members
    that judge rows they do not know, what it took, and its figures. count: how often it
    counts in the mean of all."""

    candidate: Candidate
    net: Network
    operations: float
    figures: dict
    count: int = 0

    def judging_members(self) -> list[tuple[Network, float, int]]:
        """Return (member, weight in the model, its best epoch) of each member."""
        pairs = zip(self.net.members, self.figures["members"], strict=True)
        return [
            (member, float(self.count), outcome["best_epoch"])
            for member, outcome in pairs
        ]

    @property
    def loss(self) -> float:
        """Return the loss of the rows that judge it; infinity where it is undefined."""
        loss = _loss_of(self.figures)[1]
        if loss is None:
            return math.inf
        return loss

    def still_learns(self) -> bool:
        """Return whether half of its networks were best at about their last epoch, and
        are not as good as anybody waits for."""
        if not math.isfinite(self.loss):
            return False
        if self.net.task != "regression" and self.loss < SOLVED_LOG_LOSS:
            return False
        best_epochs = [member["best_epoch"] or 0 for member in self.figures["members"]]
        return np.median(best_epochs) >= STILL_LEARNING * self.candidate.epochs

    @property
    def scores(self) -> np.ndarray:
        """Return what the networks of the folds predict of the rows they judge."""
        return self.net.crossed.scores


class Effort:
    """The choice for one data set, as `nn --train` makes it."""

    def __init__(
        self,
        ds: Dataset,
        effort: str,
        settings: dict,
        of_network: dict,
    ):
        """settings: keywords of `train` that the user has set, which all candidates
        have; of_network: those of Network. Raises UsageError."""
        self._ds = ds
        self._effort = BY_NAME["effort"].check(effort)
        self._of_network = of_network
        asks = {"backend", "gpus", "distribute"} & of_network.keys() or of_network.get(
            "dtype"
        ) == "tf32"
        # a GPU takes longer to compile each table's kernels
        if not (asks or ds.are_images):
            self._of_network = {**of_network, "backend": "omp"}
        if "threshold" not in settings:
            settings = {**settings, **rule_for(ds)}
        settings = {
            name: BY_NAME[name].check(value) for name, value in settings.items()
        }
        check_calibration(settings)
        self.rules = rules_in(settings)  # of the network that is chosen
        self._fixed = {
            name: value for name, value in settings.items() if name not in self.rules
        }
        if has_many_words(ds):
            self._means = {"target_means": True}
        else:
            self._means = {}
        self._activation = of_network.get("activation")
        self._callback = Callback()
        self._checkpoint = Checkpoint()
        self._seed = settings.get(
            "split_seed", of_network.get("seed", DEFAULTS["seed"])
        )
        self.tried: list[Tried] = []
        self._retrained: list[Retrained] = []  # of the candidates that are chosen
        self.net: Network | None = None  # that is trained now, or was last
        # what ended the choice before all candidates were tried
        self.stopped: Stopped | None = None

    def candidates(self) -> list[tuple[Candidate, Network, float]]:
        """Return the candidates that the effort allows, one at least, with their
        networks, nothing trained, and their operations. Raises UsageError for rows that
        cannot be divided into folds."""
        rows = self._rows()
        images = self._ds.are_images

        @functools.cache
        def statistics() -> list:
            return statistics_by(self._ds, rows, bool(self._means))

        def network(candidate: Candidate) -> Network:
            net = self._network(candidate)
            settings = self._settings(candidate)
            encoding = fitted_encoding(
                self._ds,
                settings.get("scaling", USUAL_SCALING),
                settings.get("number_embedding"),
                statistics,
            )
            net.facts = replace(net.facts, encoding=encoding)
            return net

        self._by_share = (
            images
            or self._ds.rows * network(WITH_WAVES).reader.row_bytes
            > random.SHUFFLED_BYTES
        )
        if images:  # the budget has decided how long they are trained
            return self._with_costs(self._image_candidates(rows), rows, network)
        return self._affordable(self._effort, rows, network)

    def _affordable(
        self, effort: str, rows: np.ndarray, network: Callable
    ) -> list[tuple[Candidate, Network, float]]:
        """Return the candidates of an effort that its budget has room for, each with
        its network and operations.

        All save folds and epochs, as much as lets all have room; where the most that
        they may save is not enough, as much as leaves most of them, and one that embeds
        numbers before one more. Where it has room for none, as in very wide tables: the
        first of the spare ones that it has room for, or else the cheapest of all. That
        is no more than a higher effort takes, which has the same spare ones.
        """
        budget = EFFORTS[effort]
        usual = candidates_for(len(rows), effort)
        best = ([], 0)
        for thrift in thrifts_for(len(rows), effort):
            fitted = self._fitted([thrift.of(one) for one in usual], rows)
            costs = self._distinct(self._with_costs(fitted, rows, network))
            found = _within(costs, budget)
            if len(found) == len(costs):
                return found
            embeds = any(candidate.number_embedding for candidate, *_ in found)
            if len(found) + embeds > best[1]:
                best = (found, len(found) + embeds)
        if best[0]:
            return best[0]
        spare = [thrift.of(one) for one in SPARE]
        spare = self._with_costs(self._fitted(spare, rows), rows, network)
        affordable = _within(spare, budget)
        if affordable:
            return affordable[:1]
        return [min(costs + spare, key=lambda one: one[2])]

    def _distinct(self, costs: list[tuple]) -> list[tuple]:
        """Return candidates with their networks and operations, without those that are
        the same as one before: without numbers nothing is embedded."""
        distinct = {}
        for candidate, net, cost in costs:
            same = replace(candidate, number_embedding=None), tuple(net.layers)
            distinct.setdefault(same, (candidate, net, cost))
        return [*distinct.values()]

    def _with_costs(
        self, candidates: list[Candidate], rows, network: Callable
    ) -> list[tuple]:
        """Return candidates, each with its network and operations."""
        each = [(candidate, network(candidate)) for candidate in candidates]
        return [
            (candidate, net, candidate.operations(net, len(rows)))
            for candidate, net in each
        ]

    def _network(self, candidate: Candidate) -> Network:
        return Network.for_data(
            self._ds, candidate.layers(self._ds), **self._of_network
        )

    def _settings(self, candidate: Candidate) -> dict:
        if self._ds.task == "regression":
            clip = {"clip": True}
        else:
            clip = {}
        return {**candidate.settings(), **clip, **self._means, **self._fixed}

    def _rows(self) -> np.ndarray:
        return split_rows(
            self._ds, self._fixed.get("holdout", 0.0), 0.0, self._seed
        ).training

    def _image_candidates(self, rows: np.ndarray) -> list[Candidate]:
        """Return the candidates for images, with the settings that are given."""
        tries = self._fixed.keys().isdisjoint(("augment", "epochs"))
        found = image_candidates(
            self._effort,
            len(rows),
            lambda one: multiply_adds(self._network(one)),
            tries,
        )
        return [replace(one, **self._given()) for one in found]

    def _given(self) -> dict:
        """Return those settings of candidates that are given."""
        own = {
            name: self._fixed[name]
            for name in ("epochs", "patience")
            if name in self._fixed
        }
        if self._activation:
            own["activation"] = self._activation
        return own

    def _fitted(self, found: list[Candidate], rows: np.ndarray) -> list[Candidate]:
        """Return candidates for a table with as many folds as its rows allow, and with
        the settings that are given."""
        if self._by_share:
            folds = None
        else:
            folds = most_folds(self._ds, rows, found[0].folds, self._seed)
        if folds is None and not self._by_share:
            raise UsageError(
                f"--effort {self._effort}: {len(rows)} rows are too few to be divided into folds"
            )
        return [replace(one, folds=folds, **self._given()) for one in found]

    @logged_once(log)
    def run(
        self,
        train: Callable[..., dict],
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> tuple[Network, dict]:
        """Return the network and the figures of --json. train: trains a network with
        keywords. Stopped: without a checkpoint, after the first candidate the best of
        those that have ended is kept, and the training is over."""
        self._callback = callback or self._callback
        self._checkpoint = checkpoint or self._checkpoint
        self._checkpoint.about = {"effort": self._effort}
        candidates = self.candidates()
        choice = None
        check_decision(
            candidates[0][1], self._decision(candidates[0][1]), any_validation=True
        )
        total = sum(cost for *_, cost in candidates)
        self._callback.begin([cost / total for *_, cost in candidates])
        self._compile_ahead(candidates)
        try:
            # whose records candidates may share
            with beside_checkpoint(self._checkpoint.path):
                self._try(candidates, train)
                choice = self._choose()
                if self._knows_first_rows_only:
                    self._retrained = self._trained_on_all(choice, train)
        except Stopped as stopped:
            if not self.tried or self._checkpoint.path is not None:
                raise
            self.stopped = stopped
        finally:
            self._callback.end()
        choice = choice or self._choose()
        self._remark_on_length(choice)
        net, result = self._combined(choice)
        tell(result, self._ds)
        return net, result

    def _try(
        self,
        candidates: list[tuple[Candidate, Network, float]],
        train: Callable[..., dict],
    ) -> None:
        """Train the networks of all candidates."""
        losses: dict[str, float] = {}
        rows = len(self._rows())
        for candidate, net, _ in candidates:
            self.net = net
            candidate = candidate.settled(losses)
            figures = self._trained(candidate, net, train)
            if candidate.is_trial:
                losses[candidate.augment] = min(figures["val_loss"])
            else:
                operations = candidate.operations(net, rows)
                self.tried.append(Tried(candidate, net, operations, figures))
        if "epochs" not in self._fixed and not self._ds.are_images:
            self._try_longer(candidates, train)

    def _try_longer(
        self,
        candidates: list[tuple[Candidate, Network, float]],
        train: Callable[..., dict],
    ) -> None:
        """Train candidates that still learned at their last epoch once more, for twice
        as many, as long as that gains much and the budget has room."""
        shares = [cost for *_, cost in candidates]
        budget = min(EFFORTS[self._effort] - sum(shares), LONGER_COST * sum(shares))
        rows = len(self._rows())
        learning = {place: self.tried[place] for place in self._most_promising()}
        while learning:
            # all are made twice as long before one is made four times as long
            place = min(learning, key=lambda at: learning[at].candidate.epochs)
            tried = learning.pop(place)
            candidate = tried.candidate.longer()
            if candidate is None or not tried.still_learns():
                continue
            cost = candidate.operations(tried.net, rows, ends_early=False)
            if cost > budget:
                continue
            budget -= cost
            shares.append(cost)
            self._callback.follow([share / sum(shares) for share in shares])
            longer = self._longer(tried, candidate, cost, train)
            if longer.loss < tried.loss:
                self.tried[place] = longer
            if longer.loss < (1 - LONGER_GAIN) * tried.loss:
                learning[place] = longer

    def _longer(
        self,
        tried: Tried,
        candidate: Candidate,
        operations: float,
        train: Callable[..., dict],
    ) -> Tried:
        """Train a candidate that was tried for longer."""
        self.net = self._network(candidate)
        encoding = tried.net.facts.encoding
        self.net.facts = replace(self.net.facts, encoding=encoding)
        figures = self._trained(candidate, self.net, train)
        return Tried(candidate, self.net, operations, figures)

    def _remark_on_length(self, choice: Choice) -> None:
        """Log how many of the candidates that are chosen still learned at their end,
        for which the budget had no room or which no training makes longer."""
        if "epochs" in self._fixed or self._ds.are_images:
            return
        chosen = self._chosen(choice)
        learning = sum(tried.still_learns() for tried in chosen)
        if not learning:
            return
        cure = "a network by hand (--layers, --epochs) may learn more"
        efforts = [*EFFORTS]
        higher = efforts[efforts.index(self._effort) + 1 :]
        if higher:
            cure = f"--effort {higher[0]} may learn more"
        log.warning(
            "%d of %s still learned at its last epoch; %s",
            learning,
            plural(len(chosen), "candidate"),
            cure,
        )

    def _most_promising(self) -> list[int]:
        """Return the places of the candidates that have been tried whose loss is not
        much more than the least, the best first."""
        losses = [tried.loss for tried in self.tried]
        order = np.argsort(losses, kind="stable")
        return [
            int(place)
            for place in order
            if losses[place] <= LONGER_LOSS * losses[order[0]]
        ]

    def _compile_ahead(
        self, candidates: list[tuple[Candidate, Network, float]]
    ) -> None:
        """Let a GPU's compiler begin with what all candidates for a table need: it
        takes longer than their training."""
        for candidate, net, _ in candidates:
            if candidate.folds and not net.traits.on_host and len(net.gpus) < 2:
                rows = len(self._rows())
                record = net.encoding and net.encoding.record_of(net.dtype)
                batch = min(self._settings(candidate)["batch_number"], rows)
                net.engine.compile_ahead(batch, -(-rows // candidate.folds), record)

    def _trained(
        self, candidate: Candidate, net: Network, train: Callable[..., dict]
    ) -> dict:
        """Train the networks of a candidate; return its figures."""
        settings = {
            **self._settings(candidate),
            "callback": self._callback,
            "checkpoint": self._checkpoint,
        }
        with without_remarks():
            figures = train(net, self._ds, **settings)
        name, loss = _loss_of(figures)
        self._callback.ended(
            self._told(candidate, net),
            f"{name} {'undefined' if loss is None else format(loss, '.4g')}",
        )
        return figures

    def _told(self, candidate: Candidate, net: Network) -> str:
        """Return the layers of a candidate; of one with those of the first what differs
        from it."""
        if not self.tried or net.spec != self.tried[0].net.spec:
            return net.spec
        usual = self._settings(self.tried[0].candidate)
        words = [
            _words_of(name, value)
            for name, value in self._settings(candidate).items()
            if usual.get(name) != value
        ]
        if not words:
            return net.spec
        return f"the same with {', '.join(words)}"

    @property
    def _knows_first_rows_only(self) -> bool:
        """Return whether the networks of folds know the rows before a time only, some
        of them few."""
        return self._ds.times is not None and not self._by_share

    def _trained_on_all(
        self, choice: Choice, train: Callable[..., dict]
    ) -> list[Retrained]:
        """Train the networks of the candidates that are chosen once more, on all rows,
        and return these networks."""
        retrained = []
        chosen = self._chosen(choice)
        epochs_of_each = [self._epochs_on_all(part) for part in chosen]
        self._callback.refit(max(epochs_of_each), len(self._rows()))
        for part, epochs in zip(chosen, epochs_of_each, strict=True):
            settings = self._settings_without(part.candidate) | {
                "networks": len(part.net.members),
                "epochs": epochs,
                "checkpoint": self._checkpoint,
            }
            net = self._network(part.candidate)
            with without_remarks():
                figures = train(net, self._ds, **settings)
            retrained.append(Retrained(net, epochs, figures))
        return retrained

    def _chosen(self, choice: Choice) -> list[Tried]:
        """Return the candidates that are part of the model."""
        pairs = zip(self.tried, choice.counts, strict=True)
        return [tried._replace(count=count) for tried, count in pairs if count]

    def _settings_without(self, candidate: Candidate, *names: str) -> dict:
        """Return the settings of a candidate but for these, and those that are about
        rows apart."""
        without = {"folds", "validation", *OF_VALIDATION, *names}
        settings = self._settings(candidate)
        return {name: settings[name] for name in settings if name not in without}

    def _epochs_on_all(self, part: Tried) -> int:
        """Return in how many epochs of all rows there are as many steps as the last
        fold's network was trained for."""
        rows = len(self._rows())
        last = len(part.net.members) - 1
        size = self._settings(part.candidate)["batch_number"]
        known = rows - int(np.count_nonzero(part.net.crossed.fold == last))
        best_epoch = part.figures["members"][last]["best_epoch"]
        epochs = best_epoch or part.figures["epochs_run"]
        steps = epochs * math.ceil(known / size)
        return max(1, round(steps / math.ceil(rows / size)))

    def timed(self, batches: int) -> Network:
        """Return a network of the candidate that was chosen first, trained anew and
        alone for some batches, which its engine has timed: what was trained for the
        model stays as it is."""
        candidate = self._first.candidate
        net = self._first.net
        net = net.members[0].sibling(net.seed)
        net.device = Device(net.threads, net.gpus[:1])
        settings = self._settings_without(
            candidate, "networks", "calibrate", "threshold"
        )
        rows = self._rows()[: batches * settings["batch_number"]]
        settings |= {
            "epochs": 1,
            "holdout": 0.0,
            "callback": Recording(lambda: net, batches),
        }
        with without_remarks():
            train(net, self._ds, rows=rows, **settings)
        return net

    def _decision(self, net: Network) -> Options:
        """Return options that leave to be found what the user has left."""
        return options_of(net, self._ds, self.rules)

    def _choose(self) -> Choice:
        """Return how often each candidate is chosen, by the rows that its networks do
        not know."""
        loss = self.tried[0].net.loss
        if self._by_share:
            ds = self._ds.of_rows(self._validation_rows(), inputs=False)
            scores = [self._validated(tried.net) for tried in self.tried]
            counts = choose(ds.task, Monitor(LOSS), ds.y, scores, ds.weights, loss=loss)
            return Choice(counts, [counts])
        crossed = self.tried[0].net.crossed
        ds = self._ds.of_rows(crossed.rows, inputs=False)
        scores = [tried.scores for tried in self.tried]
        return choose_crossed(ds.task, ds.y, scores, crossed.of_row, ds.weights, loss)

    def _validation_rows(self) -> np.ndarray:
        share = self.tried[0].candidate.settings()["validation"]
        return split_rows(
            self._ds, self._fixed.get("holdout", 0.0), share, self._seed
        ).validation

    def _validated(self, net: Network) -> np.ndarray:
        return judged(net, self._ds, self._validation_rows()).scores

    def _combined(self, choice: Choice) -> tuple[Network, dict]:
        """Return the network of those that were chosen so often, and the figures of
        --json."""
        chosen = self._chosen(choice)
        self._first = chosen[0]
        net = self._first.net
        judging = [member for part in chosen for member in part.judging_members()]
        weights = [weight for _, weight, _ in judging]
        epochs = max(len(member.history["loss"]) for member, *_ in judging)
        histories = [(member.history, best, epochs) for member, _, best in judging]
        history = mean_losses(histories, weights)
        members = self._members_of_model(chosen)
        crossed = None
        if not self._by_share:
            scores = [tried.scores for tried in self.tried]
            scores = crossed_scores(scores, choice, net.crossed.of_row)
            is_retrained = bool(self._retrained)
            crossed = replace(net.crossed, scores=scores, is_retrained=is_retrained)
        config = {
            **net.config,
            **self._config(self._first.candidate),
            "candidates": self._facts_of_tried(choice),
        }
        net.facts = replace(net.facts, config=config, history=history)
        net.combine(members, weights)
        if crossed is None:
            judgement = self._validated_judgement(net)
        else:
            judgement = self._crossed_judgement(net, crossed)
        of_one_network = ("folds", "mean", "std", "members", "best_epoch")
        figures = {
            name: value
            for name, value in self._first.figures.items()
            if name not in of_one_network
        }
        return net, {
            **figures,
            **history,
            "epochs_run": epochs,
            "networks": len(members),
            "parameters": sum(member.parameter_count for member in members),
            "members": [
                {
                    "seed": member.seed,
                    "weight": weight,
                    "settings": {"layers": member.spec},
                    "best_epoch": None,
                }
                for member, weight in zip(members, weights, strict=True)
            ],
            "effort": self._effort,
            "chosen": [self.flags(part.candidate, part.count) for part in chosen],
            "tried": len(self.tried),
            **judgement,
            **self._retrained_facts(),
            "seconds": self._seconds(),
        }

    def _members_of_model(self, chosen: list[Tried]) -> list[Network]:
        """Return the networks that predict: those of the candidates, or where these
        knew some rows only, those that were trained once more on all."""
        return [
            member for part in self._retrained or chosen for member in part.net.members
        ]

    def _facts_of_tried(self, choice: Choice) -> list[dict]:
        """Return what a model keeps of each candidate that was tried."""
        return [
            {
                "layers": tried.net.spec,
                "loss": _loss_of(tried.figures)[1],
                "operations": tried.operations,
                "weight": count,
            }
            for tried, count in zip(self.tried, choice.counts, strict=True)
        ]

    def _retrained_facts(self) -> dict:
        """Return the key `retrained` of --json, where networks were."""
        if not self._retrained:
            return {}
        epochs = [retrained.epochs for retrained in self._retrained]
        return {"retrained": {"rows": len(self._rows()), "epochs": epochs}}

    def _seconds(self) -> float:
        """Return how long all trainings took."""
        return sum(part.figures["seconds"] for part in [*self.tried, *self._retrained])

    def _crossed_judgement(self, net: Network, crossed: Crossed) -> dict:
        """Decide by the rows that folds judge, each as the others choose; return what
        is told of it."""
        ds = self._ds.of_rows(crossed.rows, inputs=False)
        decision = decide_crossed(net, self._decision(net), crossed, ds)
        net.facts = replace(net.facts, **decision.facts)
        with_figures(net, self._ds)
        known = None
        if ds.times is not None:
            folds = fold_rows(
                self._ds, self._rows(), len(crossed.thresholds), self._seed, rare=True
            )
            known = known_in_time(self._ds, folds, net.outputs)
        figures = figures_out_of_fold(net, self._ds, intervals=QUICK, with_key=False)
        net.facts = replace(net.facts, judged=judged_fact(figures, "folds"))
        return {
            **decision.figures,
            "out_of_fold": figures,
            **learned_by_rows(
                ds,
                net.crossed.calibrated,
                net.outputs,
                net.crossed.of_row,
                known,
                net.loss,
            ),
        }

    def _validated_judgement(self, net: Network) -> dict:
        """Decide by the validation rows; return what is told of it."""
        ds = self._ds.of_rows(self._validation_rows(), inputs=False)
        known = judged(net, self._ds, self._validation_rows())
        decision = decide_by(
            net, self._decision(net), known.truth, known.scores, known.weights
        )
        add_conformal(decision, net, known)
        net.facts = replace(net.facts, **decision.facts)
        scores = net.calibrated(known.scores)
        figures = figures_of(net, ds, scores, intervals=QUICK)
        net.facts = replace(net.facts, judged=judged_fact(figures, "validation"))
        return {
            **decision.figures,
            "validated": figures,
            **learned_by_rows(ds, scores, net.outputs, loss=net.loss),
        }

    def _config(self, candidate: Candidate) -> dict:
        """Return what the network's settings have beside those of its first candidate:
        what was given, and under `chosen` the names of those that were not."""
        fixed = {
            **self._fixed,
            **self.rules,
            **({"activation": self._activation} if self._activation else {}),
        }
        chosen = sorted({"layers", *self._settings(candidate)} - fixed.keys())
        return {**fixed, "effort": self._effort, "chosen": chosen}

    def flags(self, candidate: Candidate, count: int) -> dict:
        """Return {"flags": those that train the candidate's networks, "weight": how
        often it was chosen}."""
        flags = " ".join(
            _flag(name, value) for name, value in self._settings(candidate).items()
        )
        return {
            "flags": f"--layers {candidate.layers(self._ds)} {flags}",
            "weight": count,
        }


def _words_of(name: str, value) -> str:
    """Return a setting that makes a candidate another one, for a person."""
    if name != "number_embedding":
        return f"{name} {value}"
    kind = number_embedding_value(value)
    if kind.kind == "pieces":
        return f"{kind.count} ranges for each number"
    return f"{kind.count} {kind.kind} for each number"


def _within(costs: list[tuple], budget: float) -> list[tuple]:
    """Return the candidates, with their networks and operations, that a budget has room
    for, in their order."""
    found = []
    for candidate, net, cost in costs:
        if cost <= budget:
            found.append((candidate, net, cost))
            budget -= cost
    return found


def _flag(name: str, value) -> str:
    if value is True:
        return f"--{name}"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"--{name} {value:g}"
    return f"--{name} {value}"


def judged_fact(figures: dict, by: str) -> dict:
    """Return what a model keeps of the figures of a test. by: folds, or validation."""
    return {
        "rows": figures["rows"],
        "by": by,
        "metrics": {name: figures[name] for name in METRICS if name in figures},
        "intervals": figures.get("intervals", {}),
    }


# metrics that are the loss of a test, the first of those that a network has
_LOSS_METRICS = "log_loss", "deviance", "pinball", "mse"


def _loss_of(figures: dict) -> tuple[str, float | None]:
    """Return the mean loss of the folds with its name, or that of validation rows; None
    where it is undefined."""
    if "mean" not in figures:
        return "validation loss", min(
            (value for value in figures["val_metric"] if value is not None),
            default=None,
        )
    name = next(name for name in _LOSS_METRICS if name in figures["mean"])
    return name.replace("_", " "), figures["mean"][name]
