"""PackTraining: several networks trained together, whose predictions are then weighted means; what each one does is
that of a Training alone."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from ..backends import Place
from ..backends.engine import Engine
from ..backends.member import EngineOfPlaces
from ..cluster import RankGroup
from ..data.splits import Fold
from ..ds import Dataset
from ..files.checkpoint import Checkpoint, Fingerprint, data_digest
from ..files.pack_checkpoint import PackCheckpoint
from ..nn import Network
from ..nn_aux import OF_FOLD
from ..test import remarks
from ..utils import Stopped, StopRequest, log, told_once
from ..watch.callbacks import Callback
from .asks import Ask, stop_all
from .decision import check_decision, decide_by, decide_on, judged, mean_scores
from .folds import figures_by_fold, predicted_by_folds, summary
from .halving import SuccessiveHalving
from .loop import POLL_SECONDS, NotFinite, Training, check_alike, ctrl_c_to
from .options import Options, is_decided_later
from .pack_engines import PackEngines, numbers_by_layers
from .pack_limits import check_memory_for, check_pack
from .pack_members import PackMembers, mean_of
from .pack_ranks import PackRanks
from .pack_rows import PackRows, readers_of
from .rows import fit_encoding
from .selection import select_members
from .trials import Trials
from .vary import SETTINGS


class PackTraining:
    """One call of train for several networks: seeds net.seed, net.seed + 1, ..., the same rows.

    They are trained together, an epoch of all at a time.
    """

    def __init__(
        self,
        net: Network,
        apart: tuple[RankGroup, Sequence[Place]],
        ds: Dataset,
        options: Options,
        count: int,
        callback: Callback,
        stop: StopRequest,
        checkpoint: Checkpoint,
        validation: Dataset | None = None,
        folds: Sequence[Fold] = (),
        trials: Trials | None = None,
    ):
        """apart: what Network.apart yields, among which the networks are shared out. folds: the rows of each network,
        of a cross-validation. trials: what each is trained with, by --vary."""
        flag = f"--folds {count}" if folds else f"--networks {count}"
        rank_group, places = apart
        check_pack(net, count, flag, rank_group.size)
        self._trials = trials or Trials.alike(count, options)
        if trials is not None:
            options = replace(options, epochs=max(trial.options.epochs for trial in trials.each))
        self.net, self.options, self.callback, self.stop = net, options, callback, stop
        self._validation = validation
        self._ranks, self._places = PackRanks(rank_group, count, net.dtype), places
        self._agreed = stop if rank_group.size == 1 else StopRequest()  # what the trainings stop for
        self._readers = readers_of(net, ds, options, self._trials)
        self._read_as(0)
        self.engine = self._engine_of(net)
        self._rows = PackRows(net, self._readers, self._engine_of, ds, options, self._trials, validation, folds)
        check_memory_for(self._readers, self._trials, flag)
        self._networks = [
            reader.sibling(net.seed + number, trial.layers)
            for number, (reader, trial) in enumerate(zip(self._readers, self._trials.each, strict=True))
        ]
        for member, split in zip(self._networks, self._rows.splits, strict=False):
            fit_encoding(member, ds, options, split)  # by its own rows
        own = {number: self._networks[number] for number in self._ranks.own}
        self._engines = PackEngines(net, own, places, options.batch_number)
        self._facts, self._held_out = self._rows.facts()
        self._config = {**self._facts["config"], "folds" if folds else "networks": count, **self._trials.config}
        if is_decided_later(options):
            check_decision(net, options, bool(folds) or self._rows.shared(False).decisive()[2])
        check_alike(rank_group, self._config, ds, self.engine)
        self.checkpoint = self._checkpoint(ds, checkpoint, count)
        self._halving = None
        if self._trials.keep is not None:
            epochs = [trial.options.epochs for trial in self._trials.each]
            self._halving = SuccessiveHalving(options.monitored, epochs, self._trials.keep)
        self.members = PackMembers(self._networks, self._trials, self._halving)
        self._steps: dict[int, Generator[Ask]] = {}
        self._waiting: dict[int, Ask] = {}  # for the next comparison
        self._first: dict[int, tuple] = {}  # of a refit: the validation rows as each network predicts them before
        self._told, self._seconds = 0, 0.0

    # ---- before the first epoch

    def _read_as(self, number: int) -> None:
        """Let the network of all networks read data as one of them does."""
        encoding = self._readers[number].encoding
        if self.net.encoding is not encoding:
            self.net.adopt(encoding)

    def _engine_of(self, reader: Network) -> Engine:
        """Return what loads data for all places."""
        return reader.engine if len(self._places) == 1 else EngineOfPlaces(reader.engine)

    def _checkpoint(self, ds, checkpoint: Checkpoint, count: int) -> PackCheckpoint:
        digest = "" if checkpoint.path is None and checkpoint.source is None else data_digest(ds)
        fingerprint = Fingerprint(self._config, digest, self.engine.describe(), 0, 0, {})
        return PackCheckpoint(checkpoint, count, fingerprint)

    def _begin(self, number: int) -> None:
        """Make a member's training ready."""
        net, rows = self._networks[number], self._rows
        net.compute_with(self._ranks.engine_of(number, self.engine, self._engines.get(number)))
        training = Training(
            net, rows.data, rows.options_of(net), Callback(), self._agreed, self.checkpoint.member(number),
            self._validation, rows.of, partial(self._before_refit, number),
        )  # fmt: skip
        self.members.trainings[number], self._steps[number] = training, training.steps()

    def _check_resumed(self) -> None:
        """Raise UsageError if the ranks are not about to go on from the same state."""
        at = [[t.at.epoch, t.at.row, t.at.losses] for t in self.members.trainings.values()]
        self._ranks.group.agree({"resume": at}, "all ranks must see the same checkpoint", "--{}")

    # ---- the run

    def run(self) -> dict:
        """Train all networks and return the figures of `--json`; see train for what is raised."""
        self.stop.answered = True
        for number in range(len(self._networks)):
            self._begin(number)
        self._check_resumed()
        self.callback.start(self.info())
        try:
            with ctrl_c_to(self.stop), ThreadPoolExecutor(1) as worker:
                self._train(worker)
        except Stopped:
            self._save()
            raise
        finally:
            self._end()
        self._select()
        return self._result() | (self._by_folds() if self._rows.folds else self._decided())

    def _train(self, worker: ThreadPoolExecutor) -> None:
        """Answer what the trainings ask for, all of the same kind at a time, until none asks."""
        answers: dict[int, object] = {}
        is_agreed = False  # how this ends is how it ends on all ranks
        try:
            while asks := self._asks(answers):
                self._tell()
                answers = {}
                for what in ("epoch", "loss", "predict"):
                    of_kind = {number: ask for number, ask in asks.items() if ask.what == what}
                    if of_kind:
                        answers |= self._answer(worker, what, of_kind)
            is_agreed = True
        except (Stopped, NotFinite):
            is_agreed = True
            raise
        finally:
            for steps in self._steps.values():
                steps.close()
            self._steps.clear()
            if is_agreed:
                self._take_parameters()
        self._tell()

    def _take_parameters(self) -> None:
        """Bring to all ranks the parameters that the networks' owners have trained."""
        if self._ranks.size > 1:
            with self._ranks.telling():
                for net in self._networks:
                    net.take_parameters()

    def _asks(self, answers: dict[int, object]) -> dict[int, Ask]:
        """Return what each training asks for next, given the answers to the last. Raises Stopped when all have ended
        and one was stopped, NotFinite when no network is left."""
        asks, stopped = {}, None
        for number, steps in list(self._steps.items()):
            if number in self._waiting:
                continue
            try:
                ask = steps.send(answers.get(number))
                if self._is_to_wait(number, ask):
                    self._waiting[number] = ask
                else:
                    asks[number] = ask
                continue
            except StopIteration:
                pass
            except NotFinite as error:
                self._drop(number, error)
            except Stopped as error:
                stopped = error
            del self._steps[number]
        if stopped is not None:
            raise stopped
        return asks or self._compared()

    def _is_to_wait(self, number: int, ask: Ask) -> bool:
        """Return whether a network is about to begin an epoch that waits for a comparison of all."""
        halving, done = self._halving, self.members.done(number)
        return halving is not None and ask.what == "epoch" and halving.waits(number, done)

    def _compared(self) -> dict[int, Ask]:
        """Compare the networks, which all wait or have ended, give up the worse; returns those that go on, with what
        they ask for."""
        asks: dict[int, Ask] = {}
        while self._waiting and not asks:
            metrics = {number: training.chosen("val_metrics") for number, training in self.members.alive().items()}
            for number in self._halving.compare(metrics):
                self._waiting.pop(number, None)
                if number in self._steps:
                    self._steps.pop(number).close()
            asks = {n: ask for n, ask in self._waiting.items() if not self._halving.waits(n, self.members.done(n))}
        for number in asks:
            del self._waiting[number]
        return asks

    def _drop(self, number: int, error: NotFinite) -> None:
        """Go on without a network whose loss is no number. Raises its error if it was the last."""
        self.members.dropped[number] = error
        if not self.members.alive() or self._rows.folds:
            raise error
        log.warning("network %d, seed %d, is left out: %s", number, self._networks[number].seed, error)

    def _answer(self, worker: ThreadPoolExecutor, what: str, asks: dict[int, Ask]) -> dict[int, object]:
        """Compute what the trainings ask for, each rank its share; signals are answered here meanwhile."""
        began, own = time.perf_counter(), self._ranks.owned(asks)
        running = worker.submit(self._engines.compute, what, own)
        while not self._is_answered(running, what, own):
            self._show(own)
        if what == "epoch":
            self._seconds += time.perf_counter() - began
        return self._ranks.answers(what, asks, running.result())

    def _is_answered(self, running: Future, what: str, own: dict[int, Ask]) -> bool:
        """Wait a moment; return whether this rank and all others have computed their shares. A signal that one of them
        has had stops all."""
        if self.stop.signum is not None:
            stop_all(own)
        wait([running], POLL_SECONDS)
        found = running.result() if running.done() else None  # an error ends this rank, and so the others
        is_answered, signum = self._ranks.tell(what, own, found, self.stop.signum)
        if signum is not None:
            self._agreed.request(signum)
            stop_all(own)
        return is_answered

    def _show(self, asks: dict[int, Ask]) -> None:
        """Tell how far the networks are with the epoch at hand."""
        progress = [ask.job.progress for ask in asks.values() if ask.job.progress is not None]
        done = sum(p.row for p in progress)
        if done:
            rows = sum(len(ask.job.rows) for ask in asks.values())
            first = self.members.trainings[next(iter(asks))]
            of_epoch = first.rows.count
            loss = sum(p.loss for p in progress) / done * first.rows.rows_by_weight
            self.callback.update(first.at.epoch + 1, int(done / rows * of_epoch), of_epoch, loss)

    def _tell(self) -> None:
        """Tell of each epoch that all networks have done, or stopped before; save the states where that is due."""
        members = self.members
        running = [members.done(number) for number in {*self._steps, *self._waiting}]
        done = min(running, default=max(map(members.done, members.trainings)))
        is_new = done > self._told
        figures = members.losses(self._told) if is_new else {}
        for new, epoch in enumerate(range(self._told, done)):
            val_loss = figures["val_loss"] and figures["val_loss"][new]
            seconds, self._seconds = self._seconds, 0.0
            batches = sum(t.batches for n, t in members.left().items() if members.done(n) > epoch)
            per_batch = 1e6 * seconds / batches
            if "val_metric" in figures:
                value = figures["val_metric"][new]
                self.callback.judged(epoch + 1, self.options.monitored.name, np.nan if value is None else value, False)
            self.callback.epoch(epoch + 1, self.options.epochs, figures["loss"][new], val_loss, seconds, per_batch)
        self._told = max(done, self._told)
        if is_new and self._is_due(done):
            self._save()

    def _is_due(self, done: int) -> bool:
        """Return whether the states are to be saved now; rank 0, which writes them, decides."""
        if self.checkpoint.path is None:
            return False
        return self._ranks.group.gather(self.checkpoint.due(done, self.options.epochs))[0]

    def _save(self) -> None:
        with self._ranks.telling():
            for training in self.members.left().values():
                training.save()
        if self._ranks.group.rank == 0:
            self.checkpoint.write()

    def _end(self) -> None:
        """Leave the network with what its members have learned, also after an error or a signal."""
        self.callback.close()
        for training in self.members.trainings.values():
            training.net.compute_with(None)
            training.rows.release()
        if self.members.alive():
            self.net.describe(**{**self._facts, "config": self._config})
            self._combine()
        self._engines = None
        self.checkpoint.finish()

    def _combine(self) -> None:
        """Make the members those of the network."""
        weights = self.members.weights()
        self._read_as(next(iter(weights)))
        self.net.describe(history=self.members.losses())
        self.net.combine([self._networks[number] for number in weights], list(weights.values()))

    def _select(self) -> None:
        """Choose the members that together do best on the validation rows, if --keep asks for it."""
        if self._trials.keep is None:
            return
        ds, rows, _ = self._rows.shared(False).decisive()
        ds = self._rows.data if ds is None else ds  # to train, the engine's copy was enough
        threshold = self._rows.options_of(self.net).threshold
        counts = select_members(self.net, ds, rows, self._trials.keep, self.options.monitored, threshold)
        chosen = zip(self.members.alive(), counts, strict=True)
        self.members.chosen = {number: float(count) for number, count in chosen if count}
        self._combine()

    def _before_refit(self, number: int, training: Training) -> None:
        """Keep what a network predicts of the validation rows, before it is trained on them too."""
        if is_decided_later(self.options) and not self._rows.folds:
            ds, rows, _ = training.rows.decisive()
            self._first[number] = judged(training.net, ds, rows)

    def _decided(self) -> dict:
        """Find what the options leave to be found, for all networks together."""
        if not is_decided_later(self.options):
            return {}
        refitted = {number: weight for number, weight in self.members.weights().items() if number in self._first}
        if not refitted:
            return decide_on(self.net, *self._rows.shared(False).decisive()[:2], self.options)
        truth, scores, weights = zip(*(self._first[number] for number in refitted), strict=True)
        return decide_by(self.net, self.options, truth[0], mean_scores(scores, [*refitted.values()]), weights[0])

    def _by_folds(self) -> dict:
        """Return what is decided by the rows of the folds, and their figures, means and standard deviations."""
        net, ds = self.net, self._rows.data
        rows, of_fold, scores = predicted_by_folds(net, ds, self._rows.folds)
        weights = None if ds.weights is None else ds.weights[rows]
        decided = decide_by(net, self.options, ds.y[rows], scores, weights)
        with told_once(remarks):
            each = figures_by_fold(net, ds, rows, of_fold, net.calibrated(scores))
        return {**decided, "folds": each, **summary(each)}

    # ---- figures

    def info(self) -> dict:
        """Return the settings of the run: see Callback.start."""
        trainings = self.members.trainings
        first = trainings[0]
        done = mean_of([t.at.losses for t in trainings.values()]) if self.checkpoint.resumed else []
        lines = [pack.describe() for pack in self._engines.packs]
        pack = lines[0] if len(lines) == 1 and self._ranks.size == 1 else self._shared_out()
        varied = f", but for {self._trials.vary}" if self._trials.vary else ""
        routes = partial(self.engine.routes, self.options.batch_number)
        return {
            **first.info(),
            **{name: value for name, value in asdict(self.options).items() if name in SETTINGS},
            **({"holdout": self._held_out} if self.options.validation == OF_FOLD else {}),  # its rows are judged by
            "seed": self.net.seed,
            "threads": self._threads(),
            "parameters": sum(net.parameter_count for net in self._networks),
            "layers": f"{pack}: {self.net.spec}{varied}",
            "routes": lambda: [*lines, *routes()],
            "resumed": self._resumed_from(first, len(done)),
        }

    def _shared_out(self) -> str:
        """Return how many networks of how many architectures there are, and among how many they are shared out."""
        count, kinds = len(self._networks), len(numbers_by_layers(dict(enumerate(self._networks))))
        of = f" of {kinds} architectures" if kinds > 1 else ""
        shares = {"ranks": self._ranks.size, "devices": len(self._places)}
        return f"{count} networks{of}" + "".join(f" on {n} {what}" for what, n in shares.items() if n > 1)

    def _resumed_from(self, first: Training, done: int) -> dict | None:
        """Return where the checkpoint had the run, for callbacks; None for a run that starts afresh."""
        if not self.checkpoint.resumed:
            return None
        self._told = min(map(self.members.done, self.members.trainings))
        figures, none = self.members.losses(), [None] * done
        told = zip(figures["loss"], figures["val_loss"] or none, [0.0] * done, strict=False)
        at = {"file": first.checkpoint.source, "epoch": self._told, "row": first.at.row}
        return {**at, "done": list(told)[: self._told], "metrics": figures.get("val_metric", [])}

    def _threads(self) -> int:
        return min(self.engine.threads, max(len(self._networks), self.engine.threads_for(self.options.batch_number)))

    def _result(self) -> dict:
        held_out = {} if self._held_out is None else {"holdout": self._held_out}
        ranks = {"ranks": self._ranks.size} if self._ranks.size > 1 else {}
        own = {**ranks, **held_out, "epochs": self.options.epochs, "threads": self._threads()}
        return {**self.members.result(), **own}
