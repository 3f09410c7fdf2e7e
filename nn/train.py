"""The training loop: rows into a hold-out and a training part, epoch after epoch on an engine, history."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass
from types import SimpleNamespace

import numpy as np

from .backends import on_host
from .checkpoint import DECIDING, Checkpoint, Position, Run, data_digest
from .ds import Dataset, check_trainable, split_holdout
from .nn import Network
from .nn_aux import (
    DEFAULT_SCHEDULE,
    LEARNING_RATES,
    OPTIMIZERS,
    SCALING_ALIASES,
    SCALINGS,
    SCHEDULES,
    WEIGHT_DECAYS,
    GlibcOrder,
    PhiloxOrder,
)
from .parts import Parts, Window, Windows
from .scaling import Moments, Scaling
from .utils import DataError, NnError, Stopped, StopRequest, UsageError, log

POLL_SECONDS = 0.1
VALIDATION_ROWS = 4096  # between two looks for a signal
ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


class Silent:
    """Progress that nobody watches; also the list of what a watcher is told."""

    def start(self, info: dict) -> None:
        """Before the first epoch, with the settings of the run: see Training._info."""

    def update(self, epoch: int, rows_done: int, rows: int, loss: float) -> None:
        """Some ten times a second, with the mean loss of the epoch so far."""

    def epoch(self, epoch: int, epochs: int, loss: float, val_loss, seconds: float, us_per_batch: float) -> None:
        """After each epoch, counted from 1."""

    def close(self) -> None:
        """At the end, however it ends."""


@dataclass(frozen=True)
class Options:
    """The flags that change what training computes, defaults filled in."""

    epochs: int
    batch_number: int
    learning_rate: float
    optimizer: str
    momentum: float
    weight_decay: float
    schedule: str
    scaling: str
    holdout: float
    threshold: float


def _options(net: Network, ds: Dataset | Parts, **given) -> Options:
    """Fill in defaults and check every value. Raises UsageError that names the flag."""
    reference = net.reference
    optimizer = given["optimizer"] or ("sgd" if reference else "adam")
    if optimizer not in OPTIMIZERS:
        raise UsageError(f"--optimizer {optimizer}: must be one of {', '.join(OPTIMIZERS)}")
    usual_scaling = "none" if reference else "pixel" if ds.are_images else "standardization"
    options = Options(
        epochs=given["epochs"],
        batch_number=given["batch_number"],
        learning_rate=_or(given["learning_rate"], LEARNING_RATES[optimizer]),
        optimizer=optimizer,
        momentum=given["momentum"],
        weight_decay=_or(given["weight_decay"], 0.0 if reference else WEIGHT_DECAYS[optimizer]),
        schedule=given["schedule"] or ("constant" if reference else DEFAULT_SCHEDULE),
        scaling=SCALING_ALIASES.get(given["scaling"], given["scaling"]) or usual_scaling,
        holdout=_or(given["holdout"], 0.0 if reference else 0.2),
        threshold=_or(given["threshold"], 0.5),
    )
    _check_options(options)
    if reference and (options.optimizer != "sgd" or options.momentum or options.weight_decay):
        raise UsageError("--reference trains by plain sgd: leave out --optimizer, --momentum and --weight_decay")
    if reference and options.schedule != "constant":
        raise UsageError("--reference has no --schedule: leave it out")
    if options.momentum and options.optimizer != "sgd":
        raise UsageError(f"--momentum is for --optimizer sgd, not {options.optimizer}")
    return options


def _or(value, default):
    return default if value is None else value


def _check_options(o: Options) -> None:
    def need(flag: str, value, fits: bool, expected: str) -> None:
        if not fits:
            raise UsageError(f"--{flag} {value}: must be {expected}")

    for flag, value, known in (
        ("schedule", o.schedule, SCHEDULES),
        ("scaling", o.scaling, SCALINGS),
    ):
        need(flag, value, value in known, f"one of {', '.join(known)}")
    need("epochs", o.epochs, o.epochs >= 1, "at least 1")
    need("batch_number", o.batch_number, 1 <= o.batch_number < 2**31, "from 1 to 2147483647")
    need("learning_rate", o.learning_rate, 0 < o.learning_rate < math.inf, "positive and finite")
    need("momentum", o.momentum, 0 <= o.momentum < 1, "at least 0 and below 1")
    need("weight_decay", o.weight_decay, 0 <= o.weight_decay < math.inf, "at least 0 and finite")
    need("holdout", o.holdout, 0 <= o.holdout < 1, "at least 0 and below 1")
    need("threshold", o.threshold, -math.inf < o.threshold < math.inf, "a finite number")


def train(
    net: Network,
    ds: Dataset | Parts,
    *,
    epochs: int = 20,
    batch_number: int = 32,
    learning_rate: float | None = None,
    optimizer: str | None = None,
    momentum: float = 0.0,
    weight_decay: float | None = None,
    schedule: str | None = None,
    scaling: str | None = None,
    holdout: float | None = None,
    threshold: float | None = None,
    checkpoint: str | None = None,
    checkpoint_every: int | None = None,
    resume: str | None = None,
    progress: Silent | None = None,
    stop: StopRequest | None = None,
) -> dict:
    """Train a network on a data set, from the parameters it has; returns the figures of `--json`.

    batch_number is the batch size, as in the original. None: the design's defaults. The network then holds the
    trained parameters, the scaling, names, history and settings. Raises UsageError for values that make no
    sense, DataError for data that do not fit, Stopped (the network holds what it has learned so far) after
    `stop.request` or Ctrl-C, NnError when the loss is no longer finite.

    ds: rows in memory, or Parts, which are read window by window while they are trained on; holdout and seed are
    best told to `load` too, which saves a pass over the files.
    checkpoint: a file to keep the state in, at the end of every `checkpoint_every`th epoch (1) and where the
    training is stopped; resume: such a file to go on from, or "auto" for `checkpoint` if it is there. The
    training then ends in the same numbers as one that was never stopped.

    A network with `distribute` among several ranks (cluster.py) is trained by all of them, each with its share of
    every batch: all call this with the same arguments. Rank 0 alone writes the checkpoint.
    """
    net.expect_batches(batch_number)
    options = _options(
        net, ds, epochs=epochs, batch_number=batch_number, learning_rate=learning_rate, optimizer=optimizer,
        momentum=momentum, weight_decay=weight_decay, schedule=schedule, scaling=scaling, holdout=holdout,
        threshold=threshold,
    )  # fmt: skip
    saving = Checkpoint(checkpoint, checkpoint_every, resume)
    return Training(net, ds, options, progress or Silent(), stop or StopRequest(), saving).run()


class Training:
    """One call of train: the engine, the data as it reads them, and where the run stands."""

    def __init__(
        self,
        net: Network,
        ds: Dataset | Parts,
        options: Options,
        progress: Silent,
        stop: StopRequest,
        checkpoint: Checkpoint,
    ):
        self.net, self.options, self.watcher, self.stop = net, options, progress, stop
        self.team = net.engine.team
        _check_fit(net, ds)
        ds, window = self._windowed(ds)
        self.rows, self.holdout_rows = self._split(ds)
        self._describe_data(ds, window)
        self.data = None if window else net.engine.load(*self._engine_rows(ds))
        self.windows = self._windows(ds, window) if window else None
        self._check_ranks(ds)
        self.batches = self._batches()
        self.order = self._order()
        self.at = Position(order=self.order.state())
        self.checkpoint = checkpoint
        self._forget_moments()
        self.resumed = self._resume(ds)
        at = {"epoch": self.at.epoch, "row": self.at.row, "losses": self.at.losses}
        self.team.agree({"resume": at}, "all ranks must see the same checkpoint", "--{}")

    # ---- before the first epoch

    def _windowed(self, ds: Dataset | Parts) -> tuple[Dataset | Parts, int | None]:
        """(data, rows of a window): parts that memory can hold become a Dataset, without a window."""
        if isinstance(ds, Dataset):
            return ds, None
        o, net = self.options, self.net
        ds.split(o.holdout, net.seed)
        window = ds.window_for(net, o.batch_number, o.scaling, self.team.size)
        if window is None:
            return ds.whole(), None
        if net.reference:
            raise UsageError("--reference shuffles all rows at once: leave out --memory and --window")
        return ds, window

    def _windows(self, parts: Parts, window: int) -> Windows:
        batches, team = (self.options.batch_number, VALIDATION_ROWS * self.team.size), self.team
        return Windows(parts, window, batches, self._engine_rows, self.net.seed, team.rank, team.size)

    def _split(self, ds: Dataset | Parts):
        """(training rows, held-out rows); of a Dataset their indices."""
        fraction = self.options.holdout
        if isinstance(ds, Dataset):
            rows, held = split_holdout(ds, fraction, self.net.seed)
        else:
            rows, held = range(ds.training.rows), range(ds.held.rows)
        if fraction and not len(held):
            log.warning("the data is too small for --holdout %g: all %d rows are trained on", fraction, len(rows))
        self.holdout = fraction if len(held) else 0.0
        return rows, held

    def _describe_data(self, ds: Dataset | Parts, window: int | None) -> None:
        """Give the network what it must know to read such data again."""
        net, o = self.net, self.options
        net.columns, net.targets, net.classes = ds.columns, ds.targets, ds.classes
        net.threshold, net.holdout = o.threshold, self.holdout
        net.dataset = {"path": ds.path, "sha256": ds.sha256} if ds.path else None
        if window:
            net.scaling = Scaling.of_moments(o.scaling, ds.moments, columns=ds.columns)
        else:
            net.scaling = Scaling.fit(o.scaling, ds.x, self.rows, columns=ds.columns, strict=net.reference)
        net.target_scaling = None
        if net.task == "regression" and o.scaling != "none" and not net.reference:
            moments = ds.target_moments if window else _moments(ds.y[self.rows])
            net.target_scaling = target_scaling(net.layers[-1].activation, moments)
        net.config = {
            **asdict(o),
            "layers": net.spec,
            "task": net.task,
            "loss": net.loss,
            "init": net.init,
            "seed": net.seed,
            "dtype": net.dtype,
            "backend": net.backend,
            "reference": net.reference,
            "tf32": net.tf32,
            "target": ds.target,
            "window": window,
        }

    def _engine_rows(self, ds: Dataset) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) as the engine takes them."""
        net = self.net
        if net.task == "regression":
            y = ds.y if net.target_scaling is None else net.target_scaling.apply(ds.y, net.dtype)
            y = net.target_rows(y)
        elif net.reference and net.task == "binary":
            y = net.target_rows(np.array([float(name) for name in ds.classes])[ds.y])
        else:
            y = net.target_rows(ds.y) if net.outputs == 1 else ds.y.astype(np.int32)
        return net.engine_rows(ds.x), y

    def _check_ranks(self, ds: Dataset | Parts) -> None:
        """Raise UsageError if the ranks cannot share the batches, or are not about to do the same."""
        team, config, rows = self.team, self.net.config, len(self.rows)
        if team.size == 1:
            return
        if self.net.reference:
            raise UsageError("--reference is one process's arithmetic: leave out --distribute")
        if team.size > rows:
            raise UsageError(f"{team.size} ranks for {rows} rows to train on: start at most {rows}, or give more data")
        flags = {name: config[name] for name in [*DECIDING, *config]}
        team.agree(flags, "give all ranks the same flags", "--{}")
        team.agree({"dataset": data_digest(ds)}, "give all ranks the same data", "SHA-256 of --{}")
        engine = {"backend": self.net.engine.describe()}
        team.agree(engine, "choose one that all have, by --backend or NN_ISA", "--{}")

    def _batches(self) -> int:
        rows, size = len(self.rows), self.options.batch_number
        if not self.net.reference:
            return -(-rows // size)
        if size > rows:
            raise UsageError(
                f"--batch_number {size}: larger than the {rows} rows, and --reference drops the last, "
                "shorter batch; choose a smaller one"
            )
        return rows // size

    def _order(self):
        if self.net.reference:
            return GlibcOrder(len(self.rows), self.net.random)
        return PhiloxOrder(len(self.rows), self.net.seed, ahead=not on_host(self.net.backend))

    def _resume(self, ds: Dataset | Parts) -> bool:
        """Go on from a checkpoint, if there is one. See Checkpoint.load for what is raised."""
        if self.checkpoint.path is None and self.checkpoint.source is None:
            return False
        net = self.net
        self.agreed = Run(
            config=net.config,
            data_sha256=data_digest(ds),
            engine=net.engine.describe(),
            rows=self._epoch_rows(),
            holdout=len(self.holdout_rows),
            vectors={name: (np.dtype(net.dtype), net.parameter_count) for name in self._vectors()},
        )
        found = self.checkpoint.load(self.agreed, self.at)
        if found is None:
            return False
        self.at, vectors = found
        try:
            self.order.restore(self.at.order)
        except ValueError as error:
            raise DataError(f"{self.checkpoint.source}: damaged checkpoint: {error}") from error
        for name, vector in vectors.items():
            net.engine.set(name, vector)
        return True

    def _forget_moments(self) -> None:
        """A network that was trained before begins with an optimiser that remembers nothing of it."""
        for name in self._vectors()[1:]:
            self.net.engine.set(name, np.zeros(self.net.parameter_count, self.net.dtype))

    def _vectors(self) -> list[str]:
        """What the engine holds that training changes."""
        moments = {"adam": ["moment1", "moment2"], "sgd": ["moment1"] if self.options.momentum else []}
        return ["parameters", *moments[self.options.optimizer]]

    # ---- the run

    def run(self) -> dict:
        """All epochs. Returns the figures of `--json`; see train for what is raised."""
        self.stop.answered = True
        self.watcher.start(self._info())
        try:
            if self.windows:
                self.windows.start(self.at.epoch, self.at.row, self.options.epochs)
            with _ctrl_c_to(self.stop), ThreadPoolExecutor(1) as worker:
                while self.at.epoch < self.options.epochs:
                    self._run_epoch(worker)
        except Stopped:
            self._save()
            raise
        finally:
            if self.windows:
                self.windows.close()
            self.watcher.close()
            self.net.take_parameters()
            self._keep_history()
            self.checkpoint.finish()
        return self._result()

    def _run_epoch(self, worker: ThreadPoolExecutor) -> None:
        """What is left of the epoch at hand."""
        at, began = self.at, time.perf_counter()
        for first, order in self._stretches():
            self._train_on(worker, first, order)
            at.seconds += time.perf_counter() - began
            began = time.perf_counter()
            if at.row < first + len(order):
                raise Stopped(self._asked())
        # the original divides by all rows, also where it left some out
        self._finish_epoch(worker, at.loss / len(self.rows))

    def _stretches(self) -> Iterator[tuple[int, np.ndarray]]:
        """What is left of the epoch at hand: (rows of the epoch before it, order of the rows in self.data)."""
        at, rows = self.at, self._epoch_rows()
        if self.windows is None:
            order = self.rows[self.order.epoch(at.epoch)][:rows]
            if at.row < rows:
                yield 0, order
            return
        while at.row < rows:
            window = self.windows.next(self._await)
            self.data = None  # so that there is never room for two
            self.data = self.net.engine.load(window.x, window.y)
            yield window.first, window.order

    def _epoch_rows(self) -> int:
        return self.batches * self.options.batch_number if self.net.reference else len(self.rows)

    def _train_on(self, worker: ThreadPoolExecutor, first: int, order: np.ndarray) -> None:
        """Those rows of self.data that come after at.row; `first` rows of the epoch came before all of them."""
        o, at, engine = self.options, self.at, self.net.engine
        factor, rows = SCHEDULES[o.schedule], self._epoch_rows()
        done = [(first + eighth * len(order) / 8) / rows for eighth in range(9)]
        settings = engine.training(
            optimizer=o.optimizer,
            batch=o.batch_number,
            rates=[o.learning_rate * factor((at.epoch + share) / o.epochs) for share in done],
            momentum=o.momentum,
            weight_decay=o.weight_decay,
            seed=self.net.seed,
            **ADAM,
        )
        progress = engine.progress(row=at.row - first, step=at.step, loss=at.loss)
        running = worker.submit(engine.epoch, self.data, order, settings, progress)
        self._wait(running, progress, first)
        at.row, at.step, at.loss = first + progress.row, progress.step, progress.loss

    def _await(self, reading: Future) -> Window:
        """The window that is being read; a signal need not wait for it."""
        while True:
            try:
                return reading.result(POLL_SECONDS)
            except FutureTimeout:
                if self.stop.signum is not None and self.team.size == 1:  # several stop after the same batch
                    raise Stopped(self.stop.signum) from None

    def _wait(self, running, progress, first: int) -> None:
        """Until the epoch in the worker thread ends; signals are answered here, since C does not see them."""
        while True:
            try:
                if self.stop.signum is not None:
                    progress.stop = 1
                return running.result(POLL_SECONDS)
            except FutureTimeout:
                done = progress.row
                if done:
                    done += first
                    self.watcher.update(self.at.epoch + 1, done, self._epoch_rows(), progress.loss / done)

    def _asked(self) -> int | None:
        """The signal that asks this rank or another to stop, agreed on by all; None while there is none."""
        return next((signum for signum in self.team.gather(self.stop.signum) if signum is not None), None)

    def _finish_epoch(self, worker, loss: float) -> None:
        at, epochs = self.at, self.options.epochs
        if not math.isfinite(loss):
            raise NnError(
                f"loss is {loss} at epoch {at.epoch + 1}: "
                "try a smaller --learning_rate or --scaling standardization"
            )
        val_loss = None
        if len(self.holdout_rows):
            val_loss = self._val_loss(worker)
            at.val_losses.append(val_loss)
        seconds, us_per_batch = at.seconds, 1e6 * at.seconds / self.batches
        at.losses.append(loss)
        at.epoch_seconds.append(seconds)
        at.epoch, at.row, at.loss, at.seconds = at.epoch + 1, 0, 0.0, 0.0
        at.order = self.order.state()
        self.watcher.epoch(at.epoch, epochs, loss, val_loss, seconds, us_per_batch)
        asked = self._asked()
        if asked is not None and at.epoch < epochs:
            raise Stopped(asked)
        if self.checkpoint.due(at.epoch, epochs):
            self._save()

    def _val_loss(self, worker) -> float:
        """Mean loss of the held-out rows, some at a time, so that a signal does not wait for all of them."""
        total, loss, team = len(self.holdout_rows), 0.0, self.team
        for rows in self._held_out():
            for first in range(0, len(rows), VALIDATION_ROWS * team.size):
                asked = self._asked() if first else None
                if asked is not None:
                    raise Stopped(asked)
                some = rows[first : first + VALIDATION_ROWS * team.size]
                some = some[team.share(len(some))]
                if len(some):
                    part = worker.submit(self.net.engine.loss, self.data, some).result()
                    loss += part * (len(some) / total)
        return team.sum(loss)

    def _held_out(self) -> Iterator[np.ndarray]:
        """The held-out rows: their indices in self.data."""
        if self.windows is None:
            yield self.holdout_rows
            return
        for _ in range(0, len(self.holdout_rows), self.windows.window):
            window = self.windows.next(self._await)
            self.data = None
            self.data = self.net.engine.load(window.x, window.y)
            yield window.order

    def _save(self) -> None:
        if self.checkpoint.path is not None and self.team.rank == 0:
            vectors = {name: self.net.engine.get(name) for name in self._vectors()}
            self.checkpoint.save(self.agreed, self.at, vectors)

    # ---- what is told

    def _keep_history(self) -> None:
        self.net.history = {
            "loss": self.at.losses,
            "val_loss": self.at.val_losses if len(self.holdout_rows) else None,
        }

    def _info(self) -> dict:
        net = self.net
        return {
            **asdict(self.options),
            "backend": net.engine.describe(),
            "threads": net.engine.threads_for(self.options.batch_number),
            "dtype": net.dtype,
            "seed": net.seed,
            "parameters": net.parameter_count,
            "layers": net.spec,
            "loss": net.loss,
            "rows": len(self.rows),
            "holdout": len(self.holdout_rows),
            "inputs": net.inputs,
            "batches": self.batches,
            "resumed": self._told_position(),
            "window": {"rows": self.windows.window, "count": self.windows.count} if self.windows else None,
        }

    def _told_position(self) -> dict | None:
        """Where a checkpoint had the run, for its watchers; None for a run that starts afresh."""
        if not self.resumed:
            return None
        at = self.at
        done = zip(at.losses, at.val_losses or [None] * at.epoch, at.epoch_seconds, strict=True)
        return {"file": self.checkpoint.source, "epoch": at.epoch, "row": at.row, "done": list(done)}

    def _result(self) -> dict:
        net = self.net
        ranks = {"ranks": self.team.size} if self.team.size > 1 else {}
        return {
            "backend": net.backend,
            **ranks,
            "dtype": net.dtype,
            "threads": net.engine.threads_for(self.options.batch_number),
            "rows": len(self.rows),
            "holdout": len(self.holdout_rows),
            "parameters": net.parameter_count,
            "epochs": self.options.epochs,
            "loss": self.at.losses,
            "val_loss": self.at.val_losses if len(self.holdout_rows) else None,
            "seconds": sum(self.at.epoch_seconds),
            "us_per_batch": float(np.median(self.at.epoch_seconds)) * 1e6 / self.batches,
        }


@contextlib.contextmanager
def _ctrl_c_to(stop: StopRequest) -> Iterator[None]:
    """Ctrl-C asks `stop` where Python would raise KeyboardInterrupt wherever it is; a second one does so."""
    usual = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not usual:  # somebody else answers it
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


def target_scaling(activation: str, y: Moments) -> Scaling:
    """Constants that bring regression targets with these moments where an output layer with this activation can
    follow them: mean 0 and deviation 1; from 0 up, deviation 1, below a relu or softplus; [0, 1] for a sigmoid,
    [-1, 1] for tanh. The units of the losses that training tells are then these."""
    if activation == "sigmoid":
        shift, scale = y.low, y.high - y.low
    elif activation == "tanh":
        shift, scale = (y.low + y.high) / 2, (y.high - y.low) / 2
    else:
        shift, scale = y.mean, y.deviation
        if activation in ("relu", "softplus"):
            shift = np.zeros_like(scale)
    return Scaling("standardization", shift, np.where(y.low == y.high, 1.0, scale))


def _moments(y: np.ndarray) -> SimpleNamespace:
    """scaling.Moments of an array (rows, outputs) that is there as a whole."""
    y = y.reshape(len(y), -1).astype(np.float64)
    return SimpleNamespace(low=y.min(axis=0), high=y.max(axis=0), mean=y.mean(axis=0), deviation=y.std(axis=0))


def _check_fit(net: Network, ds: Dataset | Parts) -> None:
    """Raise DataError or UsageError if this network cannot learn from this data set."""
    where = ds.path or "the data"
    if net.task != ds.task:
        raise UsageError(f"{where}: the data is {ds.task}, the network {net.task}; say --task or change --layers")
    check_trainable(ds)
    if ds.inputs != net.inputs:
        raise UsageError(f"--layers: the network has {net.inputs} inputs, {where} has {ds.inputs} a row")
    if ds.task == "multiclass" and len(ds.classes) > net.outputs:
        raise DataError(f"{where}: {len(ds.classes)} classes, but the network has {net.outputs} outputs")
    if ds.task == "regression" and ds.outputs != net.outputs:
        raise UsageError(f"--layers: {net.outputs} outputs, but {where} has {ds.outputs} targets")
