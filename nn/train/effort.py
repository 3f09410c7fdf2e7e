"""--effort: network, length of training, regularisation and number of members chosen
for the data at hand.

    effort_plan.py ─► effort.py ─► chosen.py
    what is tried     trained       what becomes of it

Each candidate is trained on all rows by cross-validation: a network for each fold,
which stops by the rows it does not know. Of a table whose encoded rows are shuffled by
blocks (core/random.py), and of images, these are validation rows, the same for all. The
candidates that together predict these rows best become the model, counted as often as
greedy selection chose them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..backends import Device
from ..data.records import beside_checkpoint
from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn_aux import EFFORTS
from ..test import without_remarks
from ..test.learned import warn_if_not_learned
from ..utils import Stopped, log, logged_once, plural
from ..watch.callbacks import Callback
from ..watch.observe import Recording
from .call import train
from .candidates import Candidate
from .chosen import Chosen, Retrained, Tried, loss_of
from .decision import check_decision
from .duration import seconds_of
from .effort_plan import EffortPlan, Planned


class Effort:
    """The choice for one data set, as `nn --train` makes it."""

    def __init__(
        self, ds: Dataset, effort: str, settings: dict, network_settings: dict
    ):
        """settings: keywords of `train` that the user has set, which all candidates
        have; network_settings: those of Network. Raises UsageError."""
        self.plan = EffortPlan(ds, effort, settings, network_settings)
        self.rules = self.plan.rules  # of the network that is chosen
        self.tried: list[Tried] = []
        self.net: Network | None = None  # that is trained now, or was last
        # what ended the choice before all candidates were tried
        self.stopped: Stopped | None = None

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
        plan = self.plan
        self._train = train
        self._callback = callback or Callback()
        self._checkpoint = checkpoint or Checkpoint()
        self._checkpoint.about = {"effort": plan.effort}
        planned = plan.candidates()
        first = planned[0].net
        check_decision(first, plan.decided(first), any_validation=True)
        total = sum(candidate.operations for candidate in planned)
        self._callback.begin([candidate.operations / total for candidate in planned])
        if not plan.ds.are_images and first.traits.on_host:
            self._callback.expect(partial(seconds_of, planned))
        self._compile_ahead(planned)
        self._chosen = Chosen(plan, self.tried)
        try:
            # whose records candidates may share
            with beside_checkpoint(self._checkpoint.path):
                self._try(planned)
                if plan.knows_first_rows_only:
                    self._chosen.retrained = self._trained_on_all(self._chosen.parts)
        except Stopped as stopped:
            if not self.tried or self._checkpoint.path is not None:
                raise
            self.stopped = stopped
        finally:
            self._callback.end()
        self._remark_on_length()
        net, result = self._chosen.combined()
        warn_if_not_learned(result, plan.ds, net.loss)
        return net, result

    def _remark_on_length(self) -> None:
        """Log how many of the candidates that are chosen still learned at their last
        epoch, behind which the budget has no room or no training goes."""
        if self.plan.ds.are_images or not self.plan.chooses_length:
            return
        chosen = self._chosen.parts
        learning = sum(tried.still_learns() for tried in chosen)
        if not learning:
            return
        cure = "a network by hand (--layers, --epochs) may learn more"
        efforts = [*EFFORTS]
        higher = efforts[efforts.index(self.plan.effort) + 1 :]
        if higher:
            cure = f"--effort {higher[0]} may learn more"
        log.warning(
            "%d of %s still learned at its last epoch; %s",
            learning,
            plural(len(chosen), "candidate"),
            cure,
        )

    def _compile_ahead(self, planned: Sequence[Planned]) -> None:
        """Let a GPU's compiler begin with what all candidates for a table need: it
        takes longer than their training."""
        rows = len(self.plan.rows)
        for candidate, net, _ in planned:
            if candidate.folds and not net.traits.on_host and len(net.gpus) < 2:
                record = net.encoding and net.encoding.record_of(net.dtype)
                batch = min(self.plan.settings(candidate)["batch_number"], rows)
                net.engine.compile_ahead(batch, -(-rows // candidate.folds), record)

    def _try(self, planned: Sequence[Planned]) -> None:
        """Train the networks of all candidates."""
        losses: dict[str, float] = {}
        for candidate, net, _ in planned:
            self.net = net
            candidate = candidate.settled(losses)
            figures = self._trained(candidate, net)
            if candidate.is_trial:
                losses[candidate.augment] = min(figures["val_loss"])
            else:
                operations = candidate.operations(net, len(self.plan.rows))
                self.tried.append(Tried(candidate, net, operations, figures))

    def _trained(self, candidate: Candidate, net: Network) -> dict:
        """Train the networks of a candidate; return its figures."""
        settings = {
            **self.plan.settings(candidate),
            "callback": self._callback,
            "checkpoint": self._checkpoint,
        }
        with without_remarks():
            figures = self._train(net, self.plan.ds, **settings)
        name, loss = loss_of(figures, net)
        loss = "undefined" if loss is None else format(loss, ".4g")
        self._callback.ended(self._description(candidate, net), f"{name} {loss}")
        return figures

    def _description(self, candidate: Candidate, net: Network) -> str:
        """Return the layers of a candidate; of one with those of the first what differs
        from it."""
        if not self.tried or net.spec != self.tried[0].net.spec:
            return net.spec
        difference = self.plan.difference(candidate, self.tried[0].candidate)
        if difference:
            return f"the same with {difference}"
        return net.spec

    def _trained_on_all(self, parts: Sequence[Tried]) -> list[Retrained]:
        """Train the networks of candidates once more, on all rows; return these
        networks."""
        retrained = []
        epochs_of_each = [self._epochs_on_all(part) for part in parts]
        self._callback.refit(max(epochs_of_each), len(self.plan.rows))
        for part, epochs in zip(parts, epochs_of_each, strict=True):
            settings = self.plan.settings_without(part.candidate) | {
                "networks": len(part.net.members),
                "epochs": epochs,
                "checkpoint": self._checkpoint,
            }
            net = self.plan.network(part.candidate)
            with without_remarks():
                figures = self._train(net, self.plan.ds, **settings)
            retrained.append(Retrained(net, epochs, figures))
        return retrained

    def _epochs_on_all(self, part: Tried) -> int:
        """Return in how many epochs of all rows there are as many steps as the last
        fold's network was trained for."""
        rows = len(self.plan.rows)
        last = len(part.net.members) - 1
        size = self.plan.settings(part.candidate)["batch_number"]
        known_rows = rows - int(np.count_nonzero(part.net.crossed.fold == last))
        best_epoch = part.figures["members"][last]["best_epoch"]
        epochs = best_epoch or part.figures["epochs_run"]
        steps = epochs * math.ceil(known_rows / size)
        return max(1, round(steps / math.ceil(rows / size)))

    def timed(self, batches: int) -> Network:
        """Return a network of the candidate that was chosen first, trained anew and
        alone for some batches, which its engine has timed: what was trained for the
        model stays as it is."""
        first = self._chosen.parts[0]
        net = first.net.members[0].sibling(first.net.seed)
        net.device = Device(net.threads, net.gpus[:1])
        settings = self.plan.settings_without(
            first.candidate, "networks", "calibrate", "threshold"
        )
        rows = self.plan.rows[: batches * settings["batch_number"]]
        settings |= {
            "epochs": 1,
            "holdout": 0.0,
            "callback": Recording(lambda: net, batches),
        }
        with without_remarks():
            train(net, self.plan.ds, rows=rows, **settings)
        return net
