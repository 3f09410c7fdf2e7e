"""The training loop: epoch after epoch on an engine, stops, checkpoints, figures."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, fields
from functools import partial

import numpy as np

from ..backends.engine import EpochSettings
from ..core.random import GlibcOrder, PhiloxOrder
from ..data.row_windows import RowWindow
from ..data.stream import StreamedDataset
from ..ds import Dataset
from ..files.checkpoint import DECIDING, Checkpoint, Fingerprint, Position, data_digest
from ..nn import Network
from ..nn_aux import DEFAULTS, SCHEDULES, moment_names
from ..utils import DataError, NnError, Stopped, StopRequest, UsageError
from ..watch.callbacks import Callback
from . import rows as row_sets
from .decision import check_decision, decide_on
from .options import Options, is_decided_later, options_of
from .rows import TrainingRows, check_fit, window_of

POLL_SECONDS = 0.1


def train(
    net: Network,
    ds: Dataset | StreamedDataset,
    *,
    epochs: int = DEFAULTS["epochs"],
    batch_number: int | None = None,
    learning_rate: float | None = None,
    optimizer: str | None = None,
    momentum: float = DEFAULTS["momentum"],
    weight_decay: float | None = None,
    schedule: str | None = None,
    scaling: str | None = None,
    holdout: float | None = None,
    threshold: float | str | None = None,
    calibrate: str | None = None,
    checkpoint: str | Checkpoint | None = None,
    checkpoint_every: int | None = None,
    resume: str | None = None,
    callback: Callback | None = None,
    stop: StopRequest | None = None,
    batch_size: int | None = None,
    progress: Callback | None = None,
) -> dict:
    """Train a network on a data set, from the parameters it has. Returns the figures of `--json`.

    None: the default of `nn --help`. batch_size: another name of batch_number, rows of a batch. callback: is told what
    happens; progress: its former name. The network then holds the trained parameters, the scaling, names, history and
    settings.

    ds: rows in memory, or a StreamedDataset, whose rows are read window by window while they are trained on; give its
    holdout and seed to `load` too, which saves a pass over the files.
    checkpoint: a file to keep the state in, at the end of every `checkpoint_every`th epoch (1) and where the
    training is stopped; resume: such a file to go on from, or "auto" for `checkpoint` if it exists. The training then
    ends in the same numbers as an uninterrupted one. checkpoint may also be a files.Checkpoint, which has all three.

    threshold: a number, or a rule by which it is found after the last epoch: f1, fbeta=B, precision=P, recall=R,
    cost=FP:FN. calibrate: none, or temperature, found on validation rows.

    A network with `distribute` among several ranks (cluster) is trained by all of them, each with its share of every
    batch: all call this with the same arguments. Rank 0 alone writes the checkpoint.

    Raises UsageError for a wrong value, DataError for data that do not fit, NnError for a loss that is not finite, and
    Stopped (the network keeps what it has learned) after `stop.request` or Ctrl-C.
    """
    given = locals()
    if None not in (batch_number, batch_size):
        raise UsageError("batch_number and batch_size are two names of one setting; leave one out")
    given = {**given, "batch_number": batch_size if batch_number is None else batch_number}
    options = options_of(net, ds, {option.name: given[option.name] for option in fields(Options)})
    net.expect_batches(options.batch_number)
    saving = checkpoint
    if not isinstance(checkpoint, Checkpoint):
        saving = Checkpoint(checkpoint, checkpoint_every, resume)
    return Training(net, ds, options, callback or progress or Callback(), stop or StopRequest(), saving).run()


class Training:
    """One call of train: where the run stands, and the loop over epochs."""

    def __init__(
        self,
        net: Network,
        ds: Dataset | StreamedDataset,
        options: Options,
        callback: Callback,
        stop: StopRequest,
        checkpoint: Checkpoint,
    ):
        self.net, self.options, self.callback, self.stop = net, options, callback, stop
        self.engine = net.engine  # made here at the latest
        self.rank_group = self.engine.rank_group
        check_fit(net, ds)
        ds, window = window_of(net, ds, options, self.rank_group)
        self.rows = TrainingRows(net, ds, window, options, self.rank_group)
        if is_decided_later(options):
            check_decision(net, options, self.rows.decisive()[2])
        self._check_ranks(ds)
        self.batches = self._batches()
        self.order = self._order()
        self.at = Position(order=self.order.state())
        self.checkpoint = checkpoint
        self._clear_moments()
        self.resumed = self._resume(ds)
        at = {"epoch": self.at.epoch, "row": self.at.row, "losses": self.at.losses}
        self.rank_group.agree({"resume": at}, "all ranks must see the same checkpoint", "--{}")

    # ---- before the first epoch

    def _check_ranks(self, ds: Dataset | StreamedDataset) -> None:
        """Raise UsageError if the ranks cannot share the batches, or are not about to do the same."""
        rank_group, config, rows = self.rank_group, self.net.config, self.rows.count
        if rank_group.size == 1:
            return
        if self.net.reference:
            raise UsageError("--reference runs in one process: leave out --distribute")
        if rank_group.size > rows:
            ranks = f"{rank_group.size} ranks for {rows} rows to train on"
            raise UsageError(f"{ranks}: start at most {rows}, or give more data")
        flags = {name: config[name] for name in [*DECIDING, *config]}
        rank_group.agree(flags, "give all ranks the same flags", "--{}")
        rank_group.agree({"dataset": data_digest(ds)}, "give all ranks the same data", "SHA-256 of --{}")
        engine = {"backend": self.engine.describe()}
        rank_group.agree(engine, "choose one that all have, by --backend or NN_ISA", "--{}")

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
        return PhiloxOrder(self.rows.count, self.net.seed, ahead=not self.net.traits.on_host)

    def _resume(self, ds: Dataset | StreamedDataset) -> bool:
        """Go on from a checkpoint; return False if there is none. See Checkpoint.load for what is raised."""
        if self.checkpoint.path is None and self.checkpoint.source is None:
            return False
        net = self.net
        self.fingerprint = Fingerprint(
            config=net.config,
            data_sha256=data_digest(ds),
            engine=self.engine.describe(),
            rows=self._epoch_rows(),
            holdout=self.rows.holdout_count,
            vectors={name: (np.dtype(net.dtype), net.parameter_count) for name in self._vectors()},
        )
        found = self.checkpoint.load(self.fingerprint, self.at)
        if found is None:
            return False
        self.at, vectors = found
        try:
            self.order.restore(self.at.order)
        except ValueError as error:
            raise DataError(f"{self.checkpoint.source}: damaged checkpoint: {error}") from error
        for name, vector in vectors.items():
            self.engine.set(name, vector)
        return True

    def _clear_moments(self) -> None:
        """Set the moments to 0: the network may have been trained before."""
        for name in self._vectors()[1:]:
            self.engine.set(name, np.zeros(self.net.parameter_count, self.net.dtype))

    def _vectors(self) -> list[str]:
        """Return the names of the engine's vectors that training changes."""
        return ["parameters", *moment_names(self.options.optimizer, self.options.momentum)]

    # ---- the run

    def run(self) -> dict:
        """Run all epochs and return the figures of `--json`; see train for what is raised."""
        self.stop.answered = True
        self.callback.start(self.info())
        try:
            self.rows.start(self.at, self.options.epochs)
            with _ctrl_c_to(self.stop), ThreadPoolExecutor(1) as worker:
                while self.at.epoch < self.options.epochs:
                    self._run_epoch(worker)
        except Stopped:
            self._save()
            raise
        finally:
            self.rows.close()
            self.callback.close()
            self.net.take_parameters()
            self.net.describe(history=self._losses())
            self.checkpoint.finish()
        decided = {}
        if is_decided_later(self.options):
            ds, rows, _ = self.rows.decisive()
            decided = decide_on(self.net, ds, rows, self.options)
        return self._result() | decided

    def _run_epoch(self, worker: ThreadPoolExecutor) -> None:
        """Train on the rest of the epoch at hand."""
        at, began = self.at, time.perf_counter()
        for first, order in self.rows.stretches(at, self.order, self._epoch_rows(), self._await):
            self._train_on(worker, first, order)
            at.seconds += time.perf_counter() - began
            began = time.perf_counter()
            if at.row < first + len(order):
                raise Stopped(self._asked())
        # the original divides by all rows, also where it left some out
        self._finish_epoch(worker, at.loss / self.rows.count)

    def _train_on(self, worker: ThreadPoolExecutor, first: int, order: np.ndarray) -> None:
        """Train on the rows of a stretch that come after at.row; `first` rows of the epoch came before the stretch."""
        o, at, engine = self.options, self.at, self.engine
        factor, rows = SCHEDULES[o.schedule], self._epoch_rows()
        done = [(first + eighth * len(order) / 8) / rows for eighth in range(9)]
        settings = EpochSettings(
            optimizer=o.optimizer,
            batch=o.batch_number,
            rates=[o.learning_rate * factor((at.epoch + share) / o.epochs) for share in done],
            momentum=o.momentum,
            weight_decay=o.weight_decay,
            seed=self.net.seed,
        )
        progress = engine.progress(row=at.row - first, step=at.step, loss=at.loss)
        running = worker.submit(engine.epoch, self.rows.loaded, order, settings, progress)
        self._wait(running, progress, first)
        at.row, at.step, at.loss = first + progress.row, progress.step, progress.loss

    def _await(self, reading: Future) -> RowWindow:
        """Return the window that is being read; a signal need not wait for it."""
        while True:
            try:
                return reading.result(POLL_SECONDS)
            except FutureTimeout:
                if self.stop.signum is not None and self.rank_group.size == 1:  # several stop after the same batch
                    raise Stopped(self.stop.signum) from None

    def _wait(self, running, progress, first: int) -> None:
        """Wait until the epoch in the worker thread ends; signals are answered here, since C does not see them."""
        while True:
            try:
                if self.stop.signum is not None:
                    progress.stop = 1
                return running.result(POLL_SECONDS)
            except FutureTimeout:
                done = progress.row
                if done:
                    done += first
                    self.callback.update(self.at.epoch + 1, done, self._epoch_rows(), progress.loss / done)

    def _asked(self) -> int | None:
        """Return the signal that asks this rank or another to stop, agreed on by all; None without a signal."""
        return next((signum for signum in self.rank_group.gather(self.stop.signum) if signum is not None), None)

    def _finish_epoch(self, worker, loss: float) -> None:
        at, epochs = self.at, self.options.epochs
        if not math.isfinite(loss):
            raise NnError(
                f"loss is {loss} at epoch {at.epoch + 1}: "
                "try a smaller --learning_rate or --scaling standardization"
            )
        val_loss = None
        if self.rows.holdout_count:
            val_loss = self._val_loss(worker)
            at.val_losses.append(val_loss)
        seconds, us_per_batch = at.seconds, 1e6 * at.seconds / self.batches
        at.losses.append(loss)
        at.epoch_seconds.append(seconds)
        at.epoch, at.row, at.loss, at.seconds = at.epoch + 1, 0, 0.0, 0.0
        at.order = self.order.state()
        self.callback.epoch(at.epoch, epochs, loss, val_loss, seconds, us_per_batch)
        asked = self._asked()
        if asked is not None and at.epoch < epochs:
            raise Stopped(asked)
        if self.checkpoint.due(at.epoch, epochs):
            self._save()

    def _val_loss(self, worker) -> float:
        """Return the mean loss of the held-out rows, some at a time, so that a signal does not wait for all of them."""
        total, loss, rank_group = self.rows.holdout_count, 0.0, self.rank_group
        for rows in self.rows.holdout_windows(self._await):
            for first in range(0, len(rows), row_sets.VALIDATION_ROWS * rank_group.size):
                asked = self._asked() if first else None
                if asked is not None:
                    raise Stopped(asked)
                some = rows[first : first + row_sets.VALIDATION_ROWS * rank_group.size]
                some = some[rank_group.share(len(some))]
                if len(some):
                    part = worker.submit(self.engine.loss, self.rows.loaded, some).result()
                    loss += part * (len(some) / total)
        return rank_group.sum(loss)

    def _save(self) -> None:
        if self.checkpoint.path is not None and self.rank_group.rank == 0:
            vectors = {name: self.engine.get(name) for name in self._vectors()}
            self.checkpoint.save(self.fingerprint, self.at, vectors)

    # ---- figures

    def _losses(self) -> dict:
        return {"loss": self.at.losses, "val_loss": self.at.val_losses if self.rows.holdout_count else None}

    def info(self) -> dict:
        """Return the settings of the run: see Callback.start."""
        net, windows = self.net, self.rows.windows
        return {
            **asdict(self.options),
            "backend": self.engine.describe(),
            "threads": self.engine.threads_for(self.options.batch_number),
            "dtype": net.dtype,
            "seed": net.seed,
            "parameters": net.parameter_count,
            "layers": net.spec,
            "loss": net.loss,
            "rows": self.rows.count,
            "holdout": self.rows.holdout_count,
            "inputs": net.inputs,
            "batches": self.batches,
            "routes": partial(self.engine.routes, self.options.batch_number),
            "resumed": self._resumed_from(),
            "window": {"rows": windows.window, "count": windows.count} if windows else None,
        }

    def _resumed_from(self) -> dict | None:
        """Return where the checkpoint had the run, for callbacks; None for a run that starts afresh."""
        if not self.resumed:
            return None
        at = self.at
        done = zip(at.losses, at.val_losses or [None] * at.epoch, at.epoch_seconds, strict=True)
        return {"file": self.checkpoint.source, "epoch": at.epoch, "row": at.row, "done": list(done)}

    def _result(self) -> dict:
        net = self.net
        ranks = {"ranks": self.rank_group.size} if self.rank_group.size > 1 else {}
        return {
            "backend": net.backend,
            **ranks,
            "dtype": net.dtype,
            "threads": self.engine.threads_for(self.options.batch_number),
            "rows": self.rows.count,
            "holdout": self.rows.holdout_count,
            "parameters": net.parameter_count,
            "epochs": self.options.epochs,
            **self._losses(),
            "seconds": sum(self.at.epoch_seconds),
            "us_per_batch": float(np.median(self.at.epoch_seconds)) * 1e6 / self.batches,
        }


@contextlib.contextmanager
def _ctrl_c_to(stop: StopRequest) -> Iterator[None]:
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
