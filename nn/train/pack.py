"""PackTraining: several networks trained together, whose predictions are then weighted means; what each one does is
that of a Training alone."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from ..backends.engine import Engine, Pack, PackJob
from ..backends.member import MemberEngine
from ..core.metrics import metric
from ..data.splits import Fold, Split, split_given
from ..data.stream import StreamedDataset
from ..ds import Dataset
from ..files.checkpoint import Checkpoint, Fingerprint, data_digest
from ..files.pack_checkpoint import PackCheckpoint
from ..layers import parse
from ..nn import Network
from ..nn_aux import DEFAULT_CALIBRATION, DEFAULTS, OF_FOLD, moment_names
from ..test import test
from ..utils import NnError, Stopped, StopRequest, UsageError, available_memory, log
from ..watch.callbacks import Callback
from .asks import Ask
from .decision import blocks_of, check_decision, decide_on
from .folds import summary
from .halving import SuccessiveHalving
from .loop import POLL_SECONDS, NotFinite, Training, ctrl_c_to
from .options import Options, is_decided_later
from .rows import TrainingRows, facts_of, fit_encoding, split_of, split_seed
from .selection import greedy_selection
from .trials import Trial, Trials
from .vary import SETTINGS

# what became of a network
CHOSEN, NOT_CHOSEN, GIVEN_UP, FAILED = "member", "not chosen", "given up", "failed"


class PackTraining:
    """One call of train for several networks: seeds net.seed, net.seed + 1, ..., the same rows.

    They are trained together, an epoch of all at a time; on windows of streamed data one network after the other.
    """

    def __init__(
        self,
        net: Network,
        ds: Dataset | StreamedDataset,
        window: int | None,
        options: Options,
        count: int,
        callback: Callback,
        stop: StopRequest,
        checkpoint: Checkpoint,
        validation: Dataset | None = None,
        folds: Sequence[Fold] = (),
        trials: Trials | None = None,
    ):
        """folds: the rows of each network, of a cross-validation. trials: what each is trained with, by --vary."""
        flag = f"--folds {count}" if folds else f"--networks {count}"
        check_pack(net, options, count, flag, bool(folds))
        self._trials = trials or Trials.alike(count, options)
        if trials is not None:
            options = replace(options, epochs=max(trial.options.epochs for trial in trials.each))
        self.net, self.options, self.callback, self.stop = net, options, callback, stop
        self._data, self._validation = (ds, window), validation
        self._shared: dict[bool, TrainingRows] = {}  # by whether they are of a refit
        self._split_seed = split_seed(options, net.seed)
        check_memory_for(net, self._trials, flag)
        self._networks = [
            net.sibling(net.seed + number, trial.layers) for number, trial in enumerate(self._trials.each)
        ]
        self._folds = list(folds)
        self._splits = [self._split_of(fold) for fold in folds]
        for member, split in zip(self._networks, self._splits, strict=False):
            fit_encoding(member, ds, options, split)  # by its own rows
        self.engine = net.engine
        self._at_once: list[Pack] = []  # of few members each, on one thread
        self._engines = {} if window else self._pack_engines()
        if folds:
            split = split_of(ds, options, net.seed)
            rows = np.union1d(split.training, split.validation)
            self._facts = facts_of(net, ds, rows, None, options, len(split.holdout) > 0)
            self._held_out = len(split.holdout)
        else:
            self._facts = self._shared_rows(False).facts
        self._config = {**self._facts["config"], "folds" if folds else "networks": count, **self._trials.config}
        if is_decided_later(options):
            check_decision(net, options, self._shared_rows(False).decisive()[2])
        self.checkpoint = self._checkpoint(ds, checkpoint, count)
        self.trainings: dict[int, Training] = {}
        self._steps: dict[int, Generator[Ask]] = {}
        self._dropped: dict[int, NotFinite] = {}
        self._waiting: dict[int, Ask] = {}  # for the next comparison
        self._halving = None
        if self._trials.keep is not None:
            epochs = [trial.options.epochs for trial in self._trials.each]
            self._halving = SuccessiveHalving(options.monitored, epochs, self._trials.keep)
        self._weights: dict[int, float] = {}  # of the members that are chosen
        self._told, self._seconds = 0, 0.0

    # ---- before the first epoch

    def _split_of(self, fold: Fold) -> Split:
        """Return the rows of a fold's network; it is judged by validation rows, or else by those of the fold."""
        if self.options.validation == OF_FOLD:
            return Split(fold.training, fold.tested, fold.tested)
        split = split_given(self._data[0], fold.training, self.options.validation_share, self._split_seed)
        return split._replace(holdout=fold.tested)

    def _pack_engines(self) -> dict[int, MemberEngine]:
        """Return the engine of each member. Members whose layers are alike are a pack."""
        alike = self._alike()
        small = [numbers for numbers in alike if len(numbers) < self.engine.threads]
        at_once = self.net.traits.on_host and len(small) > 1 and sum(map(len, small)) >= self.engine.threads
        engines = {}
        for numbers in alike:
            first = self._networks[numbers[0]]
            if at_once and numbers in small:
                engine = on_one_thread(first)
            else:
                engine = self.engine if first.layers == self.net.layers else first.engine
            pack = engine.pack(len(numbers), self.options.batch_number)
            if at_once and numbers in small:
                self._at_once.append(pack)
            engines |= {number: MemberEngine(engine, pack, place) for place, number in enumerate(numbers)}
        return engines

    def _alike(self) -> list[list[int]]:
        """Return the numbers of the members by their layers."""
        alike: dict[tuple, list[int]] = {}
        for number, member in enumerate(self._networks):
            alike.setdefault(tuple(member.layers), []).append(number)
        return list(alike.values())

    def _shared_rows(self, refit: bool) -> TrainingRows:
        """Return the rows that all networks train on, or those of their refit."""
        if refit not in self._shared:
            ds, window = self._data
            rank_group, given = self.engine.rank_group, None if refit else self._validation
            self._shared[refit] = TrainingRows(self.net, ds, window, self.options, rank_group, given, refit)
        return self._shared[refit]

    def _rows_of(self, net: Network, refit: bool) -> TrainingRows:
        """Return the rows of a member, which is told what they are."""
        if self._folds:
            given, split = None if refit else self._validation, self._splits[net.seed - self.net.seed]
            rank_group = self.engine.rank_group
            rows = TrainingRows(net, self._data[0], None, self._member_options(net), rank_group, given, refit, split)
        elif not self._engines:
            ds, window = self._data
            ds.split(self.options.holdout, self._split_seed, 0.0 if refit else self.options.validation_share)
            given = None if refit else self._validation
            rows = TrainingRows(net, ds, window, self._member_options(net), net.engine.rank_group, given, refit)
        else:
            rows = self._shared_rows(refit)
        trial = self._trials.each[net.seed - self.net.seed]
        own = {"seed": net.seed, "split_seed": self._split_seed, "layers": net.spec, **trial.own_options}
        config = {**rows.facts["config"], **own}
        net.describe(**{**rows.facts, "config": config})
        return rows

    def _member_options(self, net: Network) -> Options:
        """Return the options of a member: thresholds and temperatures are found for all together."""
        options = self._trials.each[net.seed - self.net.seed].options
        threshold = DEFAULTS["threshold"] if isinstance(self.options.threshold, str) else self.options.threshold
        return replace(
            options, threshold=threshold, calibrate=DEFAULT_CALIBRATION, split_seed=self._split_seed
        )

    def _checkpoint(self, ds, checkpoint: Checkpoint, count: int) -> PackCheckpoint:
        digest = "" if checkpoint.path is None and checkpoint.source is None else data_digest(ds)
        fingerprint = Fingerprint(self._config, digest, self.engine.describe(), 0, 0, {})
        return PackCheckpoint(checkpoint, count, fingerprint)

    def _begin(self, number: int) -> None:
        """Make a member's training ready."""
        net, (ds, window) = self._networks[number], self._data
        if self._engines:
            net.compute_with(self._engines[number])
        training = Training(
            net, ds, self._member_options(net), Callback(), self.stop, self.checkpoint.member(number), self._validation,
            window, self._rows_of,
        )  # fmt: skip
        self.trainings[number], self._steps[number] = training, training.steps()

    # ---- the run

    def run(self) -> dict:
        """Train all networks and return the figures of `--json`; see train for what is raised."""
        self.stop.answered = True
        groups = [range(len(self._networks))] if self._engines else [[n] for n in range(len(self._networks))]
        for number in groups[0]:
            self._begin(number)
        self.callback.start(self.info())
        try:
            with ctrl_c_to(self.stop), ThreadPoolExecutor(1) as worker:
                for group in groups:
                    for number in group:
                        if number not in self.trainings:
                            self._begin(number)
                    self._train(worker)
                    for number in group:
                        self._networks[number].compute_with(None)
        except Stopped:
            self._save()
            raise
        finally:
            self._end()
        self._select()
        return self._result() | self._decided() | self._tested()

    def _train(self, worker: ThreadPoolExecutor) -> None:
        """Answer what the trainings that have begun ask for, all of the same kind at a time, until none asks."""
        answers: dict[int, object] = {}
        try:
            while asks := self._asks(answers):
                self._tell()
                answers = {}
                for what in ("epoch", "loss", "predict"):
                    of_kind = {number: ask for number, ask in asks.items() if ask.what == what}
                    if of_kind:
                        answers |= self._answer(worker, what, of_kind)
        finally:
            for steps in self._steps.values():
                steps.close()
            self._steps.clear()
        self._tell()

    def _asks(self, answers: dict[int, object]) -> dict[int, Ask]:
        """Return what each training asks for next, given the answers to the last. Raises Stopped when all have ended
        and one was stopped, NotFinite when no network is left."""
        asks, stopped = {}, None
        for number, steps in list(self._steps.items()):
            if number in self._waiting:
                continue
            try:
                ask = steps.send(answers.get(number))
                (self._waiting if self._is_to_wait(number, ask) else asks)[number] = ask
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
        return self._halving is not None and ask.what == "epoch" and self._halving.waits(number, self._done(number))

    def _done(self, number: int) -> int:
        """Return the epochs that a network has done."""
        return len(self.trainings[number].chosen("losses"))

    def _compared(self) -> dict[int, Ask]:
        """Compare the networks, which all wait or have ended, give up the worse; returns what the others ask for."""
        asks: dict[int, Ask] = {}
        while self._waiting and not asks:
            metrics = {number: training.chosen("val_metrics") for number, training in self._alive().items()}
            for number in self._halving.compare(metrics):
                self._waiting.pop(number, None)
                if number in self._steps:
                    self._steps.pop(number).close()
            asks = {n: ask for n, ask in self._waiting.items() if not self._halving.waits(n, self._done(n))}
        for number in asks:
            del self._waiting[number]
        return asks

    def _drop(self, number: int, error: NotFinite) -> None:
        """Go on without a network whose loss is no number. Raises its error if it was the last."""
        self._dropped[number] = error
        if not self._alive() or self._folds:
            raise error
        log.warning("network %d, seed %d, is left out: %s", number, self._networks[number].seed, error)

    def _answer(self, worker: ThreadPoolExecutor, what: str, asks: dict[int, Ask]) -> dict[int, object]:
        """Compute what the trainings ask for; signals are answered here meanwhile."""
        began = time.perf_counter()
        running = worker.submit(self._compute, what, asks)
        while True:
            try:
                if self.stop.signum is not None:
                    for ask in asks.values():
                        ask.stop()
                found = running.result(POLL_SECONDS)
                break
            except FutureTimeout:
                self._show(asks)
        if what == "epoch":
            self._seconds += time.perf_counter() - began
        return dict(zip(asks, found or [None] * len(asks), strict=True))

    def _compute(self, what: str, asks: dict[int, Ask]):
        if not self._engines:
            return [ask.of(self._networks[number].engine) for number, ask in asks.items()]
        jobs: dict[Pack, dict[int, PackJob]] = {}
        for number, ask in asks.items():
            engine = self._engines[number]
            jobs.setdefault(engine.pack_of_member, {})[number] = engine.job(ask.job)
        found: dict[int, object] = {}
        for own in self._of_packs(what, jobs):
            found |= own
        return [found[number] for number in asks]

    def _of_packs(self, what: str, jobs: dict[Pack, dict[int, PackJob]]) -> Iterator[dict[int, object]]:
        """Yield what the jobs of each pack give: of one after the other, but for those that are small."""

        def of(pack: Pack) -> dict[int, object]:
            own = jobs[pack]
            return dict(zip(own, getattr(pack, what)(list(own.values())) or [None] * len(own), strict=True))

        yield from (of(pack) for pack in jobs if pack not in self._at_once)
        small = [pack for pack in jobs if pack in self._at_once]
        if small:
            with ThreadPoolExecutor(self.engine.threads) as workers:
                yield from workers.map(of, small)

    def _show(self, asks: dict[int, Ask]) -> None:
        """Tell how far the networks are with the epoch at hand."""
        progress = [ask.job.progress for ask in asks.values() if ask.job.progress is not None]
        done = sum(p.row for p in progress)
        if done:
            rows = sum(len(ask.job.rows) for ask in asks.values())
            first = next(iter(asks))
            at, training = done / rows * training_rows(self.trainings[first]), self.trainings[first]
            loss = sum(p.loss for p in progress) / done * training.rows.rows_by_weight
            self.callback.update(training.at.epoch + 1, int(at), training_rows(training), loss)

    def _tell(self) -> None:
        """Tell of each epoch that all networks have done, or stopped before; save the states where that is due."""
        lasts = [len(t.chosen("losses")) for n, t in self.trainings.items() if n in self._steps]
        everyone = len(self.trainings) == len(self._networks)
        done = min(lasts, default=max(len(t.chosen("losses")) for t in self.trainings.values())) if everyone else 0
        figures = self._losses(self._told) if done > self._told else {}
        for new, epoch in enumerate(range(self._told, done)):
            val_loss = figures["val_loss"] and figures["val_loss"][new]
            seconds, self._seconds = self._seconds, 0.0
            batches = sum(t.batches for t in self._left().values() if len(t.chosen("losses")) > epoch)
            per_batch = 1e6 * seconds / batches
            if "val_metric" in figures:
                value = figures["val_metric"][new]
                self.callback.judged(epoch + 1, self.options.monitored.name, np.nan if value is None else value, False)
            self.callback.epoch(epoch + 1, self.options.epochs, figures["loss"][new], val_loss, seconds, per_batch)
        if done > self._told and self.checkpoint.due(done, self.options.epochs):
            self._save()
        self._told = max(done, self._told)

    def _left(self) -> dict[int, Training]:
        """Return the trainings whose losses are numbers."""
        return {number: training for number, training in self.trainings.items() if number not in self._dropped}

    def _alive(self) -> dict[int, Training]:
        """Return those that were not given up."""
        gone = self._halving.given_up if self._halving else ()
        return {number: training for number, training in self._left().items() if number not in gone}

    def _members(self) -> dict[int, float]:
        """Return the weight of each member of the model."""
        return self._weights or dict.fromkeys(self._alive(), 1.0)

    def _save(self) -> None:
        for training in self._left().values():
            training.save()
        self.checkpoint.write()

    def _end(self) -> None:
        """Leave the network with what its members have learned, also after an error or a signal."""
        self.callback.close()
        for training in self._left().values():
            training.net.compute_with(None)
        if self._alive():
            self.net.describe(**{**self._facts, "config": self._config})
            self._combine()
        self._engines = {}
        self.checkpoint.finish()

    def _combine(self) -> None:
        """Make the members those of the network."""
        weights = self._members()
        self.net.describe(history=self._losses())
        self.net.combine([self._networks[number] for number in weights], list(weights.values()))

    def _select(self) -> None:
        """Choose the members that together do best on the validation rows, if --keep asks for it."""
        if self._trials.keep is None:
            return
        ds, rows, _ = self._shared_rows(False).decisive()
        ds = self._data[0] if ds is None else ds  # to train, the engine's copy was enough
        parts = [(y, np.stack([*self.net.member_outputs(x)]), weights) for x, y, weights in blocks_of(ds, rows)]
        truth, weights = (None if parts[0][k] is None else np.concatenate([part[k] for part in parts]) for k in (0, 2))
        scores = np.concatenate([part[1] for part in parts], axis=1).astype(np.float64)
        monitor, threshold = self.options.monitored, self._member_options(self.net).threshold

        def value_of(mean: np.ndarray) -> float:
            value = metric(monitor.name, self.net.task, truth, mean, weights, threshold=threshold)
            return np.nan if value is None else value

        counts = greedy_selection(scores, self._trials.keep, monitor, value_of)
        chosen = zip(self._alive(), counts, strict=True)
        self._weights = {number: float(count) for number, count in chosen if count}
        self._combine()

    def _tested(self) -> dict:
        """Return the figures of each fold, their means and standard deviations."""
        if not self._folds:
            return {}
        each = [
            test(member, self._data[0].of_rows(fold.tested))
            for member, fold in zip(self.net.members, self._folds, strict=True)
        ]
        return {"folds": each, **summary(each)}

    def _decided(self) -> dict:
        """Find what the options leave to be found, for all networks together."""
        if not is_decided_later(self.options):
            return {}
        ds, rows, _ = self._shared_rows(False).decisive()
        return decide_on(self.net, ds, rows, self.options)

    # ---- figures

    def _losses(self, first: int = 0) -> dict:
        """Return the means of the networks' losses, of each epoch from `first` on of those that did it."""
        members = self._weights or dict.fromkeys(self._left(), 1.0)
        each, weights = [self.trainings[number].losses() for number in members], list(members.values())
        return {
            name: None if each[0][name] is None else mean_of([own[name][first:] for own in each], weights)
            for name in each[0]
        }

    def info(self) -> dict:
        """Return the settings of the run: see Callback.start."""
        first, count = self.trainings[0], len(self._networks)
        done = mean_of([t.at.losses for t in self.trainings.values()]) if self.checkpoint.resumed else []
        packs = dict.fromkeys(engine.pack_of_member for engine in self._engines.values())
        lines = [pack.describe() for pack in packs] or [f"{count} networks, one after the other"]
        pack = lines[0] if len(lines) == 1 else f"{count} networks of {len(lines)} architectures"
        varied = f", but for {self._trials.vary}" if self._trials.vary else ""
        routes = partial(self.engine.routes, self.options.batch_number)
        return {
            **first.info(),
            **{name: value for name, value in asdict(self.options).items() if name in SETTINGS},
            "seed": self.net.seed,
            "threads": self._threads(),
            "parameters": sum(net.parameter_count for net in self._networks),
            "layers": f"{pack}: {self.net.spec}{varied}",
            "routes": lambda: [*lines, *routes()],
            "resumed": self._resumed_from(first, len(done)),
        }

    def _resumed_from(self, first: Training, done: int) -> dict | None:
        """Return where the checkpoint had the run, for callbacks; None for a run that starts afresh."""
        if not self.checkpoint.resumed:
            return None
        self._told = min(len(t.chosen("losses")) for t in self.trainings.values())
        figures, none = self._losses(), [None] * done
        told = zip(figures["loss"], figures["val_loss"] or none, [0.0] * done, strict=False)
        at = {"file": first.checkpoint.source, "epoch": self._told, "row": first.at.row}
        return {**at, "done": list(told)[: self._told], "metrics": figures.get("val_metric", [])}

    def _threads(self) -> int:
        return min(self.engine.threads, max(len(self._networks), self.engine.threads_for(self.options.batch_number)))

    def _result(self) -> dict:
        left, weights = self._left(), self._members()
        figures = {number: training.figures() for number, training in left.items()}
        first = figures[next(iter(weights))]
        batches = sum(len(t.chosen("losses")) * t.batches for t in left.values())
        seconds = max(own["seconds"] for own in figures.values())
        if self._data[1]:
            seconds = sum(own["seconds"] for own in figures.values())
        members = [
            {
                "seed": left[number].net.seed,
                "weight": weight,
                "settings": self._trials.each[number].settings,
                "best_epoch": figures[number].get("best_epoch"),
            }
            for number, weight in weights.items()
        ]
        return {
            **{name: value for name, value in first.items() if name not in ("best_epoch", "refit")},
            **({"holdout": self._held_out} if self._folds else {}),
            "epochs": self.options.epochs,
            "threads": self._threads(),
            "networks": len(weights),
            "parameters": sum(net.parameter_count for net in self.net.members),
            **self._losses(),
            "members": members,
            **({"trials": self._tried(figures)} if self._trials.config else {}),
            "seconds": seconds,
            "us_per_batch": 1e6 * seconds / batches,
        }


    def _tried(self, figures: dict[int, dict]) -> list[dict]:
        """Return what came of each network."""
        weights = self._members()
        given_up = self._halving.given_up if self._halving else ()
        tried = []
        for number, trial in enumerate(self._trials.each):
            dropped = number in self._dropped
            failed = FAILED if dropped else GIVEN_UP if number in given_up else NOT_CHOSEN
            tried.append({
                "seed": self._networks[number].seed,
                "settings": trial.settings,
                "score": None if dropped else self.trainings[number].score(),
                "epochs": self._done(number),
                "best_epoch": None if dropped else figures[number].get("best_epoch"),
                "weight": weights.get(number, 0.0),
                "status": CHOSEN if number in weights else failed,
            })
        return tried


def check_pack(net: Network, options: Options, count: int, flag: str, are_folds: bool) -> None:
    """Raise UsageError for what several networks cannot do. flag: what asks for them."""
    if net.reference:
        raise UsageError(f"{flag}: --reference trains one network; leave one out")
    if net.seed + count > 2**32:
        raise UsageError(f"{flag}: seeds from {net.seed} on must end below 4294967296; use a smaller --seed")
    if net.engine.rank_group.size > 1:
        raise UsageError(f"{flag}: several ranks train one network; leave out --distribute")
    if are_folds and is_decided_later(options):
        raise UsageError(f"{flag}: finds no threshold and no temperature; leave out --threshold RULE and --calibrate")
    if options.refit and is_decided_later(options):
        raise UsageError(f"{flag}: --refit leaves no rows to find a threshold or temperature by; leave one of them out")


def check_memory_for(net: Network, trials: Trials, flag: str) -> None:
    """Raise NnError, which says how many fit, if the networks of so many trials do not fit the free memory."""
    needed = np.cumsum([bytes_for(net, trial) for trial in trials.each])
    there = available_memory()
    if there is not None and needed[-1] > there:
        fit = int(np.searchsorted(needed, there, side="right"))
        name = flag.partition(" ")[0]
        cure = f"{name} {fit} fits" if fit > 1 else "use smaller layers"
        raise NnError(
            f"{flag}: {len(needed)} networks need {needed[-1] / 1e9:.1f} GB, but only {there / 1e9:.1f} GB are free; "
            f"{cure}"
        )


def bytes_for(net: Network, trial: Trial) -> int:
    """Return the memory of the vectors of one network."""
    options, parameters = trial.options, net.parameter_count
    if trial.layers is not None:
        parameters = sum(layer.parameters for layer in parse(trial.layers, columns=net.layers[0].columns))
    vectors = 2 + len(moment_names(options.optimizer, options.momentum))  # parameters here and in the engine
    vectors += options.monitored is not None  # those of the best epoch
    vectors += options.refit  # those to begin with
    return vectors * parameters * np.dtype(net.dtype).itemsize


def on_one_thread(net: Network) -> Engine:
    """Return a network's engine, made for one thread; the network's own setting stays."""
    threads, net.threads = net.threads, 1
    try:
        return net.engine
    finally:
        net.threads = threads


def training_rows(training: Training) -> int:
    """Return the rows of an epoch."""
    return training.rows.count


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
