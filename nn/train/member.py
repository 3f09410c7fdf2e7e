"""Member: one network of a run: its rows, its epochs, where it stands, its metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..backends.engine import Engine, PackJob
from ..core.metrics import metric
from ..core.random import GlibcOrder, PhiloxOrder
from ..data.checks import refuse_gaps
from ..data.dataset import name_of
from ..data.far_values import far_field
from ..data.prepared import Prepared
from ..files.checkpoint import COUNTS, Checkpoint, Position, State
from ..nn import remember
from ..nn.prediction import predict
from ..test.learned import Baseline
from ..utils import NnError, Stopped, StopRequest, UsageError
from .common_epoch import FoldEpochs
from .decision import rows_judged
from .engines import TOGETHER, Ask
from .options import LOSS, config_of
from .plan import Trial
from .rows import LoadedRows
from .search import SuccessiveHalving

VALIDATION_ROWS = 4096  # between two looks for a signal
JUDGED = "judged"  # the name of judged_scores in a checkpoint


class NotFinite(NnError):
    """The loss of an epoch is infinite or no number."""


class Member:
    """One network of a run, which is trained as if it were alone.

    trial: its network, settings and rows. number: in its run.
    """

    def __init__(self, trial: Trial, number: int):
        self.net = trial.net
        self.options = trial.options
        self.trial = trial
        self.number = number
        self.is_alone = True
        self.monitor = trial.options.monitored
        # what it predicts of validation rows before its refit, see decision.rows_judged
        self.unknown = None
        # of the folds that choose its epoch with it
        self.fold_epochs: FoldEpochs | None = None
        # gives up the worse networks of its run
        self.halving: SuccessiveHalving | None = None
        # of its fold, at the epoch others choose
        self.judged_scores = np.zeros((0, trial.net.outputs), trial.net.dtype)
        self.failed: NotFinite | None = None  # why its loss is no number

    # ---- before the first epoch

    def begin(
        self,
        engine: Engine,
        rows_of: Callable[[Member, bool], LoadedRows],
        stop: StopRequest,
        is_alone: bool,
    ) -> None:
        """Load the rows and make the first epoch ready. engine: which has the
        parameters. rows_of: those of a network, or of its refit. is_alone: no other
        network is computed beside it."""
        self._rows_of = rows_of
        self._stop = stop
        self.is_alone = is_alone
        net = self.net
        options = self.options
        self.engine = engine
        self.rank_group = self.engine.rank_group
        self.threads = self.engine.threads_for(options.batch_number)
        self._start = None
        if options.refit:
            self._start = self.engine.get("parameters")
        self._take_rows(refit=False)
        self.baseline = self.rows.baseline
        self.validation_count = 0
        if self.monitor:
            self.validation_count = len(self.rows.judging.rows)
        self._check_ranks()
        self.at = Position(order=self.order.state())
        self.is_best = False  # the last epoch
        if self.monitor:
            self.engine.keep()  # takes the memory now
        if self.fold_epochs is not None:
            self.judged_scores = np.zeros(
                (len(self.rows.judging.rows), net.outputs), net.dtype
            )

    def facts_of(self, prepared: Prepared) -> dict:
        """Return what a model must know to read such data, and its settings."""
        return {
            **prepared.facts,
            **self.options.facts_with(prepared.split),
            **self.trial.facts,
            "config": {
                **config_of(self.net, prepared.ds, self.options),
                **self.trial.config,
            },
        }

    def _check_ranks(self) -> None:
        """Raise UsageError for more ranks than there are rows."""
        ranks = self.rank_group.size
        if ranks > 1 and self.net.reference:
            raise UsageError("--reference runs in one process: leave out --distribute")
        if ranks > self.rows.count:
            raise UsageError(
                f"{ranks} ranks for {self.rows.count} rows to train on: start at most {self.rows.count}, or give more data"
            )

    def _take_rows(self, refit: bool) -> None:
        """Load the rows, and set moments and scales to where they begin: the network
        may have been trained before."""
        self.rows = self._rows_of(self, refit)
        net = self.net
        rows = self.rows.count
        size = self.options.batch_number
        if net.reference:
            self.batches = rows // size
            self.order = GlibcOrder(rows, net.random)
        else:
            self.batches = -(-rows // size)
            self.order = PhiloxOrder(
                rows, net.seed, not net.traits.on_host, self.rows.by_blocks
            )
        if not self.batches:
            raise UsageError(
                f"--batch_number {size}: larger than the {rows} rows, and --reference drops the last, "
                "shorter batch; choose a smaller one"
            )
        for name in self.options.vectors:
            self.engine.set(name, np.zeros(self.engine.length(name), net.dtype))

    def take_parameters(self) -> None:
        """Let the network have the parameters that its engine has trained."""
        self.net.vector = self.engine.get("parameters")

    def epoch_rows(self) -> int:
        if self.net.reference:
            return self.batches * self.options.batch_number
        return self.rows.count

    # ---- its state in a checkpoint

    def resume(self, checkpoint: Checkpoint, state: State) -> None:
        """Go on from a state of a checkpoint. Raises DataError for one that cannot
        be."""
        net = self.net
        judged_count = len(self.rows.judging.rows)
        wanted = {
            name: (np.dtype(net.dtype), self.engine.length(name))
            for name in self._vectors()
        }
        if self.fold_epochs is not None:
            wanted[JUDGED] = (np.dtype(net.dtype), self.judged_scores.size)
        self.at, vectors = checkpoint.position_of(
            state,
            self.at,
            wanted,
            self.options.epochs,
            self.options.batch_number,
            self.epoch_rows(),
            judged=judged_count > 0,
            monitored=self.monitor is not None,
            refit_rows=self.rows.count + judged_count if self.options.refit else None,
        )
        try:
            self.order.restore(self.at.order)
        except ValueError as error:
            raise checkpoint.damaged(str(error)) from error
        if self.at.before_refit and self.at.epoch > (self.best_epoch() or 0):
            raise checkpoint.damaged(f"epoch {self.at.epoch} of the refit")
        if self.fold_epochs is not None:
            self.judged_scores = vectors.pop(JUDGED).reshape(self.judged_scores.shape)
        for name, vector in vectors.items():
            self.engine.set(name, vector)

    def state(self) -> State:
        """Return copies of all that a checkpoint keeps of the network."""
        counts = {name: getattr(self.at, name) for name in COUNTS}
        vectors = {name: self.engine.get(name) for name in self._vectors()}
        if self.fold_epochs is not None:
            vectors[JUDGED] = self.judged_scores.reshape(-1).copy()
        return counts, {**vectors, **self.at.arrays()}

    def _vectors(self) -> list[str]:
        """Return the names of the engine's vectors that training changes."""
        if self.monitor:
            kept = ["kept"]
        else:
            kept = []
        return ["parameters", *self.options.vectors, *kept]

    # ---- the epochs

    def steps(self) -> Iterator[Ask | str | None]:
        """Yield each computation of the engine and take its result; None after each
        epoch, when all is told and saved; TOGETHER where the network waits for the
        others of its run.

        Raises NotFinite, DataError for gaps in the data, and Stopped where a signal
        asks for it.
        """
        try:
            if not self.at.before_refit:
                yield from self._epochs()
            if self.options.refit and self.best_epoch():
                self._begin_refit()
                yield from self._epochs()
            elif self.monitor and self.best_epoch():
                self.engine.set("parameters", self.engine.get("kept"))
        finally:
            self.take_parameters()
            remember(self.net, history=self.losses())

    def _epochs(self) -> Iterator[Ask | str | None]:
        """Train, epoch by epoch, until the last one is done or none was better for
        long; of the refit, if that has begun."""
        at = self.at
        is_resumed_behind_epoch = at.epoch > 0 and at.row == 0
        if is_resumed_behind_epoch:  # saved, perhaps, before the folds had decided
            yield from self._settle()
        while not self.is_over():
            while self._waits_for_comparison():
                yield TOGETHER
            began = time.perf_counter()
            if at.row < self.epoch_rows():
                yield from self._train_on_rows()
                at.seconds += time.perf_counter() - began
                if at.row < self.epoch_rows():
                    raise Stopped(self._asked())
            # the original divides by all rows, too
            loss = at.loss / self.rows.training.weight()
            self._check_finite("loss", loss)
            yield from self._judge()
            if self.fold_epochs is None:
                self._keep_best()
            self._end_epoch(loss)
            yield None
            yield from self._settle()
            asked = self._asked()
            goes_on = not self.is_over() or (self.options.refit and not at.before_refit)
            if asked is not None and goes_on:
                raise Stopped(asked)

    def _waits_for_comparison(self) -> bool:
        return self.halving is not None and self.halving.waits(
            self.number, self.epochs_done
        )

    def _end_epoch(self, loss: float) -> None:
        at = self.at
        at.losses.append(loss)
        at.epoch_seconds.append(at.seconds)
        at.epoch = at.epoch + 1
        at.row = 0
        at.loss = 0.0
        at.seconds = 0.0
        at.order = self.order.state()

    @property
    def epochs_done(self) -> int:
        """How many epochs are done of the run that chooses the best one."""
        if self.at.before_refit:
            return len(self.at.before_refit["losses"])
        return self.at.epoch

    def last_epoch(self) -> int:
        if self.at.before_refit:
            return self.best_epoch()
        return self.planned_epochs()

    def planned_epochs(self) -> int:
        """Return how many epochs there are before a refit, by what is known of them."""
        return self.options.last_epoch(self._judgements())

    def is_over(self) -> bool:
        """Return whether no epoch follows: the last one is done, or there was none
        better for long."""
        if self.at.epoch >= self.last_epoch():
            return True
        return (
            self.monitor is not None
            and not self.at.before_refit
            and self.monitor.is_over(self._judgements())
        )

    def best_epoch(self) -> int | None:
        """Return the best epoch, from 1; None where none is known."""
        if self.monitor:
            return self.monitor.best(self._judgements())
        return None

    def _judgements(self) -> list[float]:
        """Return the metric of each epoch by which the last and the best are chosen."""
        if self.fold_epochs is not None:
            return self.fold_epochs.values(self)
        return self.chosen("val_metrics")

    def chosen(self, name: str) -> list[float]:
        """Return a list of Position for the run that chooses the best epoch."""
        if self.at.before_refit:
            return self.at.before_refit[name].tolist()
        return getattr(self.at, name)

    def _begin_refit(self) -> None:
        """Train once more, on validation rows too: from the first parameters, or from a
        checkpoint of the refit.

        What the validation rows tell of the network they tell before, when it does not
        know them.
        """
        engine = self.engine
        is_resumed = bool(self.at.before_refit)
        if is_resumed:
            vectors = {name: engine.get(name) for name in self._vectors()}
        else:
            vectors = {"parameters": self._start}
        engine.set("parameters", engine.get("kept"))
        self.unknown = rows_judged(
            self.net,
            *self.rows.decisive(),
            partial(predict, self.net, engine=engine),
        )
        self.rows = None  # two would need twice the memory
        self._take_rows(refit=True)
        for name, vector in vectors.items():
            engine.set(name, vector)
        if not is_resumed:
            self.at = Position(order=self.order.state(), before_refit=self.at.lists())

    def _train_on_rows(self) -> Iterator[Ask]:
        """Train on the rows of an epoch that are left."""
        at = self.at
        rows, shuffle = self.rows.of_epoch(
            at.epoch, self.order, later=not self.is_alone
        )
        settings = self.options.epoch_settings(
            self.net.seed, at.epoch, self.planned_epochs()
        )
        progress = self.engine.progress(row=at.row, step=at.step, loss=at.loss)
        rows = rows[: self.epoch_rows()]
        yield Ask(
            "epoch",
            PackJob(0, self.rows.training.loaded, rows, settings, progress, shuffle),
        )
        at.row = progress.row
        at.step = progress.step
        at.loss = progress.loss

    def _asked(self) -> int | None:
        """Return the signal that asks this rank or another to stop, agreed on by all;
        None without a signal."""
        return next(
            (
                signum
                for signum in self.rank_group.gather(self._stop.signum)
                if signum is not None
            ),
            None,
        )

    def _keep_best(self) -> None:
        """Keep the parameters if the last epoch that is judged is the best one."""
        self.is_best = bool(self.at.val_metrics) and self.best_epoch() == len(
            self.at.val_metrics
        )
        if self.is_best:
            self.engine.keep()

    def _settle(self) -> Iterator[Ask | str]:
        """Do what all folds decide once each has judged an epoch: keep it, and keep how
        the network predicts its fold's rows where the other folds find no epoch better.
        To do so again changes nothing."""
        if self.fold_epochs is None:
            return
        yield TOGETHER
        self._keep_best()
        if self.fold_epochs.is_judged_now(self):
            self.judged_scores = yield from self._judged_scores()
        # the next epoch begins for all at once, whoever had rows to predict
        yield TOGETHER

    def _judged_scores(self) -> Generator[Ask, Any, np.ndarray]:
        """Return what the network predicts of the rows that judge it, (rows, outputs)
        as the engine gives them."""
        outputs = []
        for rows in self._judging_blocks():
            outputs.append(
                (yield Ask("predict", PackJob(0, self.rows.judging.loaded, rows)))
            )
        return np.concatenate(outputs).reshape(-1, self.net.outputs)

    def _judging_blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows that judge, some at a time, so that a signal does not wait for
        all of them. Raises Stopped where one asks for it."""
        rows = self.rows.judging.rows
        step = VALIDATION_ROWS * self.rank_group.size
        for start in range(0, len(rows), step):
            if start:
                asked = self._asked()
            else:
                asked = None
            if asked is not None:
                raise Stopped(asked)
            yield rows[start : start + step]

    def _judge(self) -> Iterator[Ask]:
        """Note mean loss and metric of the rows that judge an epoch; the metric only of
        --validation.

        Each rank has its share of the rows. Raises Stopped where a signal asks for it.
        """
        part = self.rows.judging
        if not len(part.rows):
            return
        group = self.rank_group
        losses = []
        weights = []
        outputs = []
        of_scores = self.monitor is not None and self.monitor.name != LOSS
        for block in self._judging_blocks():
            rows = block[group.share(len(block))]
            scores = np.zeros(0, self.net.dtype)
            if len(rows):
                losses.append((yield Ask("loss", PackJob(0, part.loaded, rows))))
                weights.append(part.weight(rows))
                if of_scores:
                    scores = yield Ask("predict", PackJob(0, part.loaded, rows))
            if of_scores:
                outputs += group.gather_arrays(scores.ravel())
        total = group.sum(float(sum(weights)))
        loss = 0.0
        if total:
            loss = sum(
                block_loss * (weight / total)
                for block_loss, weight in zip(losses, weights, strict=True)
            )
        loss = group.sum(loss)
        name = "validation loss" if self.monitor else "held-out loss"
        value = None
        if of_scores:
            value = self._metric_of(np.concatenate(outputs).reshape(len(part.rows), -1))
        elif self.monitor and self.rows.is_validated:
            value = loss
        self._check_finite(name, loss)
        self.at.val_losses.append(loss)
        if value is not None:
            self.at.val_metrics.append(value)

    def _metric_of(self, scores: np.ndarray) -> float:
        """Return the monitored metric of the engine's outputs for the rows that judge,
        nan where it is undefined."""
        net = self.net
        ds, rows, *_ = self.rows.judging
        if net.target_scaling is not None:
            scores = net.target_scaling.inverse(scores)
        value = metric(
            self.monitor.name,
            net.task,
            ds.y[rows],
            scores,
            ds.weights_of(rows),
            threshold=self.options.first_threshold,
        )
        if value is None:
            return math.nan
        return float(value)

    def _check_finite(self, name: str, loss: float) -> None:
        """Raise NotFinite, or DataError that names a gap in the data, for a loss that a
        model file cannot hold."""
        if not math.isfinite(loss):
            refuse_gaps(self.rows.training.ds, ["x"])
            self._refuse_far(f"the {name} is {loss}")
            raise NotFinite(
                f"{name} is {loss} at epoch {self.at.epoch + 1}: "
                "try a smaller --learning_rate or --scaling standardization"
            )

    def _refuse_far(self, what: str) -> None:
        """Raise DataError that names the first number of the rows that judge which is
        far from all of training, by the scaling."""
        if self.options.scaling in ("none", "pixel"):
            return
        ds = self.rows.judging.ds
        rows = self.rows.judging.rows
        if ds.are_images:
            return
        error = far_field(self.net.reader, ds.x, rows, what)
        if error is not None:
            raise error.in_data(name_of(ds))

    # ---- metrics

    def crossed_scores(self) -> np.ndarray | None:
        """Return the scores of its fold's rows at the epoch that the other folds
        choose, as the engine gives them; None where they choose none, and the network
        as it is kept predicts them."""
        if self.fold_epochs is None or not self.fold_epochs.is_ever_judged(self):
            return None
        return self.judged_scores

    def score(self) -> float | None:
        """Return the best of the monitored metric, by which networks are compared. None
        where it is undefined or not finite."""
        best = self.best_epoch()
        if best:
            value = self.chosen("val_metrics")[best - 1]
        else:
            value = math.nan
        if math.isfinite(value):
            return value
        return None

    def outcome(self) -> tuple[float, Baseline | None]:
        """Return (loss of the network as it is kept, before a refit, baseline), of rows
        apart from training if any."""
        val_losses = self.chosen("val_losses")
        best = self.best_epoch()
        if val_losses:
            return val_losses[best - 1 if best else -1], self.baseline
        # the original divides the loss by all rows, also where it left some out
        return self.at.losses[-1] * (self.rows.count / self.epoch_rows()), self.baseline

    def losses(self) -> dict:
        """Return the losses of the epochs done, as a model file keeps them."""
        is_judged = self.monitor is not None or len(self.rows.judging.rows) > 0
        losses = {
            "loss": self.chosen("losses"),
            "val_loss": self.chosen("val_losses") if is_judged else None,
        }
        if self.monitor:
            losses["val_metric"] = [
                None if math.isnan(value) else value
                for value in self.chosen("val_metrics")
            ]
        return losses

    @property
    def seconds(self) -> float:
        """Return what all its epochs took."""
        return sum(self.at.epoch_seconds) + (
            sum(self.chosen("epoch_seconds")) if self.at.before_refit else 0.0
        )
