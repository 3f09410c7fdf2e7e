"""The training loop: epoch after epoch on an engine, stops, checkpoints, figures."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict
from functools import partial

import numpy as np

from ..backends.engine import Engine, EpochSettings, PackJob
from ..cluster import RankGroup
from ..core.random import GlibcOrder, PhiloxOrder
from ..data.splits import Split
from ..ds import Dataset
from ..files.checkpoint import DECIDING, Checkpoint, Fingerprint, Position, data_digest
from ..files.pack_checkpoint import MemberCheckpoint
from ..nn import Network
from ..utils import DataError, NnError, Stopped, StopRequest, UsageError
from ..watch.callbacks import Callback
from .asks import Ask, answer_all
from .decision import check_decision, decide_on
from .judging import Judge
from .learned import Baseline, learned
from .options import Options, is_decided_later, learning_rates
from .rows import TrainingRows, check_fit, fit_encoding, kinds_of_columns, refuse_gaps

POLL_SECONDS = 0.1


class NotFinite(NnError):
    """The loss of an epoch is infinite or no number."""


RowsOf = Callable[[Network, bool], TrainingRows]  # of a network, and whether of its refit; tells the network facts


def prepare(net: Network, ds: Dataset, options: Options, split: Split | None = None) -> None:
    """Give the network its encoding. Raises DataError or UsageError if it cannot learn from the data."""
    check_fit(net, ds)
    if net.encoding is None:
        fit_encoding(net, ds, options, split)


class Training:
    """One call of train: where the run stands, and the loop over epochs."""

    def __init__(
        self,
        net: Network,
        ds: Dataset,
        options: Options,
        callback: Callback,
        stop: StopRequest,
        checkpoint: Checkpoint | MemberCheckpoint,
        validation: Dataset | None = None,
        rows_of: RowsOf | None = None,
        before_refit: Callable[[Training], None] | None = None,
    ):
        """rows_of: gives rows that several trainings share. before_refit: is told when the network has the parameters
        of the best epoch, and does not know the validation rows yet."""
        self.net, self.options, self.callback, self.stop = net, options, callback, stop
        self._data = ds
        self.engine = net.engine  # made here at the latest
        self.rank_group, self._threads = self.engine.rank_group, self.engine.threads_for(options.batch_number)
        self._rows_of, self._is_member = rows_of or self._own_rows, rows_of is not None
        self.monitor = options.monitored
        self._validation_count = 0
        self._start = self.engine.get("parameters") if options.refit else None
        self._before_refit = before_refit
        self._validation = validation
        self.rows = self._rows_of(net, False)
        self._baseline = self.rows.baseline
        if is_decided_later(options):
            check_decision(net, options, self.rows.decisive()[2])
        if self.monitor:
            self._validation_count = self.rows.judged_count
        self._check_ranks(ds)
        self.batches = self._batches()
        self.order = self._order()
        self.at = Position(order=self.order.state())
        self.checkpoint = checkpoint
        self._clear_moments()
        if self.monitor:
            self.engine.keep()  # takes the memory now
        self._judge = Judge(net, self.monitor, options.threshold, self.rank_group, self._asked)
        self._decided: dict = {}
        self.resumed = self._resume(ds)
        at = {"epoch": self.at.epoch, "row": self.at.row, "losses": self.at.losses}
        self.rank_group.agree({"resume": at}, "all ranks must see the same checkpoint", "--{}")

    # ---- before the first epoch

    def _own_rows(self, net: Network, refit: bool) -> TrainingRows:
        """Return the rows of the training, or of its refit, which this training alone uses."""
        return TrainingRows(net, self._data, self.options, self.engine, None if refit else self._validation, refit)

    def _check_ranks(self, ds: Dataset) -> None:
        """Raise UsageError if the ranks cannot share the batches, or are not about to do the same."""
        rank_group, config, rows = self.rank_group, self.net.config, self.rows.count
        if rank_group.size == 1:
            return
        if self.net.reference:
            raise UsageError("--reference runs in one process: leave out --distribute")
        if rank_group.size > rows:
            ranks = f"{rank_group.size} ranks for {rows} rows to train on"
            raise UsageError(f"{ranks}: start at most {rows}, or give more data")
        check_alike(rank_group, config, ds, self.engine)

    def _batches(self) -> int:
        """Return the batches of an epoch."""
        rows, size = self.rows.count, self.options.batch_number
        if not self.net.reference:
            return -(-rows // size)
        if size > rows:
            raise UsageError(
                f"--batch_number {size}: larger than the {rows} rows, and --reference drops the last, "
                "shorter batch; choose a smaller one"
            )
        return rows // size

    def _epoch_rows(self) -> int:
        return self.batches * self.options.batch_number if self.net.reference else self.rows.count

    def _order(self):
        if self.net.reference:
            return GlibcOrder(self.rows.count, self.net.random)
        ahead = not self.net.traits.on_host
        return PhiloxOrder(self.rows.count, self.net.seed, ahead, self.rows.by_blocks)

    def _resume(self, ds: Dataset) -> bool:
        """Go on from a checkpoint; return False if there is none. Raises as Checkpoint.load does."""
        if not self.checkpoint.keeps_states and self.checkpoint.source is None:
            return False
        net = self.net
        self.fingerprint = Fingerprint(
            config=net.config,
            data_sha256=data_digest(ds),
            engine=self.engine.describe(),
            rows=self._epoch_rows(),
            holdout=self.rows.judged_count,
            vectors={name: (np.dtype(net.dtype), net.parameter_count) for name in self._vectors()},
            monitored=self.monitor is not None,
            refit_rows=self._refit_rows(),
        )
        found = self.checkpoint.load(self.fingerprint, self.at)
        if found is None:
            return False
        self.at, vectors = found
        try:
            self.order.restore(self.at.order)
        except ValueError as error:
            raise DataError(f"{self.checkpoint.source}: damaged checkpoint: {error}") from error
        if self.at.first and self.at.epoch > (self.best_epoch() or 0):
            raise DataError(f"{self.checkpoint.source}: damaged checkpoint: epoch {self.at.epoch} of the refit")
        for name, vector in vectors.items():
            self.engine.set(name, vector)
        return True

    def _clear_moments(self) -> None:
        """Set the moments to 0: the network may have been trained before."""
        for name in self.options.moments:
            self.engine.set(name, np.zeros(self.net.parameter_count, self.net.dtype))

    def _vectors(self) -> list[str]:
        """Return the names of the engine's vectors that training changes."""
        kept = ["kept"] if self.monitor else []
        return ["parameters", *self.options.moments, *kept]

    def _refit_rows(self) -> int | None:
        """Return the rows of an epoch of the refit; None without one."""
        return self.rows.count + self.rows.judged_count if self.options.refit else None

    # ---- the run

    def run(self) -> dict:
        """Run all epochs and return the figures of `--json`. Raises as train does."""
        self.stop.answered = True
        self.callback.start(self.info())
        with ctrl_c_to(self.stop), ThreadPoolExecutor(1) as worker:
            answer_all(self.steps(), lambda ask: self._answer(worker, ask))
        return self.result()

    def _answer(self, worker: ThreadPoolExecutor, ask: Ask):
        """Compute what the training asks for in the worker thread; signals are answered here meanwhile."""
        running = worker.submit(ask.of, self.engine)
        while True:
            try:
                if self.stop.signum is not None:
                    ask.stop()
                return running.result(POLL_SECONDS)
            except FutureTimeout:
                self.show(ask)

    def steps(self) -> Iterator[Ask]:
        """Yield each computation of the engine and take its result. See train for errors."""
        try:
            if not self.at.first:
                yield from self._run_epochs()
            if self.options.refit and self.best_epoch():
                self._begin_refit()
                yield from self._run_epochs()
            elif self.monitor and self.best_epoch():
                self.engine.set("parameters", self.engine.get("kept"))
        except Stopped:
            self.save()
            raise
        finally:
            self.callback.close()
            self.net.take_parameters()
            self.net.describe(history=self.losses())
            self.checkpoint.finish()

    def result(self) -> dict:
        """Return the figures of `--json` after all steps, with the decisions that follow them."""
        if not self.at.first:
            self._decide()
        return self.figures() | self._decided

    def _decide(self) -> None:
        """Find the threshold and the temperature, if the options leave them to the end."""
        if is_decided_later(self.options):
            ds, rows, _ = self.rows.decisive()
            self._decided = decide_on(self.net, ds, rows, self.options)

    def _run_epochs(self) -> Iterator[Ask]:
        """Run the epochs that are left, of the refit if that has begun."""
        while not self._is_over():
            yield from self._run_epoch()

    def _last_epoch(self) -> int:
        """Return how many epochs there are at most."""
        return self.best_epoch() if self.at.first else self.options.epochs

    def _is_over(self) -> bool:
        """Return whether no epoch follows: the last one is done, or there was none better for long."""
        if self.at.epoch >= self._last_epoch():
            return True
        return self.monitor is not None and not self.at.first and self.monitor.is_over(self.at.val_metrics)

    def best_epoch(self) -> int | None:
        """Return the best epoch, from 1; None where none is known."""
        return self.monitor.best(self.chosen("val_metrics")) if self.monitor else None

    def chosen(self, name: str) -> list[float]:
        """Return a list of Position for the run that chooses the best epoch."""
        return self.at.first[name].tolist() if self.at.first else getattr(self.at, name)

    def score(self) -> float | None:
        """Return the figure by which trainings are compared: the best of the monitored metric, else the last loss, of
        held-out rows if there are any. None where it is undefined or not finite."""
        if self.monitor:
            best = self.best_epoch()
            values = self.chosen("val_metrics")[best - 1 : best] if best else []
        else:
            values = (self.chosen("val_losses") or self.chosen("losses"))[-1:]
        return values[0] if values and math.isfinite(values[0]) else None

    def outcome(self) -> tuple[float, Baseline | None]:
        """Return (loss of the network as it is kept, before a refit, baseline), of rows apart from training if any."""
        val_losses, best = self.chosen("val_losses"), self.best_epoch()
        if val_losses:
            return val_losses[best - 1 if best else -1], self._baseline
        # the original divides the loss by all rows, also where it left some out
        return self.at.losses[-1] * (self.rows.count / self._epoch_rows()), self._baseline

    def _begin_refit(self) -> None:
        """Train once more, on validation rows too: from the first parameters, or from a checkpoint of the refit.

        What validation rows decide they decide before, when the network does not know them.
        """
        engine, is_resumed = self.engine, bool(self.at.first)
        vectors = {name: engine.get(name) for name in self._vectors()} if is_resumed else {"parameters": self._start}
        engine.set("parameters", engine.get("kept"))
        self.net.take_parameters()
        self._decide()
        if self._before_refit:
            self._before_refit(self)
        decided = {name: getattr(self.net, name) for name in ("threshold", "temperature")}
        self.rows = None  # two would need twice the memory
        self.rows = self._rows_of(self.net, True)
        self.net.describe(**decided)
        self.order, self.batches = self._order(), self._batches()
        self._clear_moments()
        for name, vector in vectors.items():
            engine.set(name, vector)
        if not is_resumed:
            self.at = self.at.before_refit(self.order.state())
        self.callback.refit(self._last_epoch(), self.rows.count)

    def _run_epoch(self) -> Iterator[Ask]:
        """Train on the rest of the epoch at hand."""
        at, began = self.at, time.perf_counter()
        count = self._epoch_rows()
        if at.row < count:
            rows, shuffle = self.rows.of_epoch(at.epoch, self.order, self._is_member)
            yield from self._train_on(rows[:count], shuffle)
            at.seconds += time.perf_counter() - began
            if at.row < count:
                raise Stopped(self._asked())
        yield from self._finish_epoch(at.loss / self.rows.weight)  # the original divides by all rows, too

    def _train_on(self, rows: np.ndarray, shuffle: int | None) -> Iterator[Ask]:
        """Train on the rows of an epoch that come after at.row."""
        o, at, engine = self.options, self.at, self.engine
        settings = EpochSettings(
            optimizer=o.optimizer,
            batch=o.batch_number,
            rates=learning_rates(o.schedule, o.learning_rate, o.epochs, at.epoch),
            momentum=o.momentum,
            weight_decay=o.weight_decay,
            seed=self.net.seed,
        )
        progress = engine.progress(row=at.row, step=at.step, loss=at.loss)
        yield Ask("epoch", PackJob(0, self.rows.loaded, rows, settings, progress, shuffle))
        at.row, at.step, at.loss = progress.row, progress.step, progress.loss

    def show(self, ask: Ask) -> None:
        """Tell how far the epoch at hand is, if the engine is at one."""
        progress = ask.job.progress
        if progress is not None and progress.row:
            loss = progress.loss / progress.row * self.rows.rows_by_weight
            self.callback.update(self.at.epoch + 1, progress.row, self._epoch_rows(), loss)

    def _asked(self) -> int | None:
        """Return the signal that asks this rank or another to stop, agreed on by all; None without a signal."""
        return next((signum for signum in self.rank_group.gather(self.stop.signum) if signum is not None), None)

    def _finish_epoch(self, loss: float) -> Iterator[Ask]:
        at, epochs = self.at, self._last_epoch()
        self._check_finite("loss", loss)
        val_loss = value = None
        if self.rows.judged_count:
            val_loss, value = yield from self._judge.judge(self.rows)
            self._check_finite("validation loss" if self.monitor else "held-out loss", val_loss)
            at.val_losses.append(val_loss)
        is_best = value is not None and self._is_best(value)
        if is_best:
            self.engine.keep()
        if value is not None:
            at.val_metrics.append(value)
        seconds, us_per_batch = at.seconds, 1e6 * at.seconds / self.batches
        at.losses.append(loss)
        at.epoch_seconds.append(seconds)
        at.epoch, at.row, at.loss, at.seconds = at.epoch + 1, 0, 0.0, 0.0
        at.order = self.order.state()
        if value is not None:
            self.callback.judged(at.epoch, self.monitor.name, value, is_best)
        self.callback.epoch(at.epoch, epochs, loss, val_loss, seconds, us_per_batch)
        asked, is_over = self._asked(), self._is_over()
        if asked is not None and (not is_over or (self.options.refit and not at.first)):
            raise Stopped(asked)
        if self.checkpoint.due(at.epoch, at.epoch if is_over else epochs):
            self.save()

    def _check_finite(self, name: str, loss: float) -> None:
        """Raise NotFinite, or DataError that names a gap in the data, for a loss that a model file cannot hold."""
        if not math.isfinite(loss):
            refuse_gaps(self._data)
            raise NotFinite(
                f"{name} is {loss} at epoch {self.at.epoch + 1}: "
                "try a smaller --learning_rate or --scaling standardization"
            )

    def _is_best(self, value: float) -> bool:
        return self.monitor.best([*self.at.val_metrics, value]) == len(self.at.val_metrics) + 1

    def save(self) -> None:
        """Save the state as it is now, where the call asks for a checkpoint."""
        if self.checkpoint.keeps_states and self.rank_group.rank == 0:
            try:
                vectors = {name: self.engine.get(name) for name in self._vectors()}
            except MemoryError:
                self.checkpoint.lose_for_memory()
                return
            self.checkpoint.save(self.fingerprint, self.at, vectors)

    # ---- figures

    def losses(self) -> dict:
        """Return the losses of the epochs done, as a model file keeps them."""
        judged = self.monitor is not None or self.rows.judged_count > 0
        losses = {"loss": self.chosen("losses"), "val_loss": self.chosen("val_losses") if judged else None}
        if self.monitor:
            losses["val_metric"] = [None if math.isnan(value) else value for value in self.chosen("val_metrics")]
        return losses

    def info(self) -> dict:
        """Return the settings of the run: see Callback.start."""
        net = self.net
        return {
            **asdict(self.options),
            "backend": self.engine.describe(),
            "threads": self._threads,
            "dtype": net.dtype,
            "seed": net.seed,
            "parameters": net.parameter_count,
            "layers": net.spec,
            "loss": net.loss,
            "rows": self.rows.count,
            "holdout": self.rows.holdout_count,
            "validation": self._validation_count,
            "monitor": self.monitor.name if self.monitor else None,
            "inputs": net.inputs,
            "encoding": net.encoding,
            "batches": self.batches,
            "routes": partial(self.engine.routes, self.options.batch_number),
            "resumed": self._resumed_from(),
        }

    def _resumed_from(self) -> dict | None:
        """Return where the checkpoint had the run, for callbacks; None for a run that starts afresh."""
        if not self.resumed:
            return None
        losses, val_losses, seconds, metrics = map(
            self.chosen, ("losses", "val_losses", "epoch_seconds", "val_metrics")
        )
        done = zip(losses, val_losses or [None] * len(losses), seconds, strict=True)
        at = {"file": self.checkpoint.source, "epoch": self.at.epoch, "row": self.at.row}
        return {**at, "done": list(done), "metrics": metrics}

    def _chosen_epoch(self) -> dict:
        """Return the figures about the choice of an epoch; none without validation rows."""
        weighted = {"weighted": True} if self.rows.weighted else {}
        if not self.monitor:
            return weighted
        refit = {"refit": {"rows": self.rows.count, "loss": self.at.losses}} if self.at.first else {}
        choice = {"monitor": self.monitor.name, "best_epoch": self.best_epoch()}
        return {"validation": self._validation_count, **choice, **refit, **weighted}

    def figures(self) -> dict:
        """Return the figures of `--json` without the decisions after the last epoch."""
        net = self.net
        ranks = {"ranks": self.rank_group.size} if self.rank_group.size > 1 else {}
        return {
            "backend": net.backend,
            **ranks,
            "dtype": net.dtype,
            "threads": self._threads,
            "rows": self.rows.count,
            "holdout": self.rows.holdout_count,
            "parameters": net.parameter_count,
            "columns": kinds_of_columns(net),
            "classes": net.classes,
            "epochs": self.options.epochs,
            **self.losses(),
            **learned([self.outcome()]),
            **self._chosen_epoch(),
            "seconds": sum(self.at.epoch_seconds) + (sum(self.chosen("epoch_seconds")) if self.at.first else 0.0),
            "us_per_batch": float(np.median(self.at.epoch_seconds)) * 1e6 / self.batches,
        }


def check_alike(rank_group: RankGroup, config: dict, ds: Dataset, engine: Engine) -> None:
    """Raise UsageError if the ranks are not about to do the same: by flags, data or instruction set."""
    if rank_group.size == 1:
        return
    flags = {name: config[name] for name in [*DECIDING, *config]}
    rank_group.agree(flags, "give all ranks the same flags", "--{}")
    rank_group.agree({"dataset": data_digest(ds)}, "give all ranks the same data", "SHA-256 of --{}")
    backend = {"backend": engine.describe()}
    rank_group.agree(backend, "choose one that all have, by --backend or NN_ISA", "--{}")


@contextlib.contextmanager
def ctrl_c_to(stop: StopRequest) -> Iterator[None]:
    """Let Ctrl-C ask `stop`, where Python would raise KeyboardInterrupt anywhere; a second Ctrl-C raises it."""
    usual = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not usual:  # another handler is set
        yield
        return

    def handle(signum, _frame):
        signal.signal(signal.SIGINT, usual)
        stop.request(signum)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
