"""Run: the networks of a call of train, one or several, epoch by epoch: stops,
checkpoints, callbacks."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from itertools import zip_longest

import numpy as np

from ..backends import Device
from ..backends.engine import Engine
from ..backends.member import EngineOfDevices
from ..cluster import ALONE, RankGroup
from ..data.prepared import Prepared
from ..ds import Dataset
from ..files.checkpoint import DECIDING, Checkpoint, RunFacts, State, data_digest
from ..nn import Network, remember
from ..utils import Stopped, StopRequest, ctrl_c_to, log
from ..watch.callbacks import Callback
from .common_epoch import FoldEpochs
from .engines import TOGETHER, Ask, Engines, Ranks, numbers_by_layers, stop_all
from .member import Member, NotFinite
from .plan import Plan
from .rows import LoadedRows, ReadValidation, validation_file
from .search import SuccessiveHalving

POLL_SECONDS = 0.1


class Run:
    """The training of the networks of a plan, an epoch of all at a time; each ends as
    if it were trained alone.

    validation: rows that judge, which the caller has. apart: what Network.apart yields,
    among which the networks are shared out; None: a network alone, whose batches its
    ranks and GPUs share.
    """

    def __init__(
        self,
        plan: Plan,
        callback: Callback,
        stop: StopRequest,
        checkpoint: Checkpoint,
        validation: Dataset | ReadValidation | None = None,
        apart: tuple[RankGroup, Sequence[Device]] | None = None,
    ):
        net = plan.net
        self.plan = plan
        self.callback = callback
        self.stop = stop
        self.checkpoint = checkpoint
        self.members = [
            Member(trial, number) for number, trial in enumerate(plan.trials)
        ]
        self._validation = validation
        self._halving: SuccessiveHalving | None = None
        self._let_choose_together()
        if apart is None:
            self.ranks = Ranks(ALONE, 1, net.dtype)
            self.devices = []
            self.engine = net.engine
            self.group = self.engine.rank_group
            self.engines = None
        else:
            self.group, self.devices = apart
            self.ranks = Ranks(self.group, len(self.members), net.dtype)
            self.engine = self._engine_of(net)
            networks = {number: self.members[number].net for number in self.ranks.own}
            self.engines = Engines(
                net, networks, self.devices, self.members[0].options.batch_number
            )
        # what the networks stop for
        if self.ranks.size == 1:
            self._agreed = stop
        else:
            self._agreed = StopRequest()
        # by what networks share, and whether they are of a refit
        self._shared: dict[tuple[Prepared, bool], LoadedRows] = {}
        self._steps: dict[int, Generator[Ask | str | None]] = {}
        self._together: set[int] = set()  # networks that wait until all that run do
        # epochs, of the refit too
        self._reported = [0, 0]
        self._reports_refit = False

    @property
    def epochs(self) -> int:
        """How many epochs there are before a refit, by what is known of them."""
        return max(member.planned_epochs() for member in self.members)

    def _let_choose_together(self) -> None:
        """Give the networks what decides about all of them: the folds' common epoch,
        the comparisons of --vary."""
        plan = self.plan
        if plan.is_judged_by_folds:
            epochs = FoldEpochs(
                self.members, are_own=plan.prepared.ds.times is not None
            )
            for member in self.members:
                member.fold_epochs = epochs
        if plan.variation is not None:
            self._halving = SuccessiveHalving(
                plan.options.monitored, [trial.options.epochs for trial in plan.trials]
            )
            for member in self.members:
                member.halving = self._halving

    # ---- before the first epoch

    def begin(self) -> None:
        """Load the rows and make the first epoch ready. Raises as train does."""
        for number, member in enumerate(self.members):
            engine = self.engine
            if self.engines:
                member_engine = self.engines.get(number)
                engine = self.ranks.engine_of(number, engine, member_engine)
                engine.set("parameters", member.net.vector)
            member.begin(engine, self._rows_of, self._agreed, self.plan.is_alone)

    def _engine_of(self, net: Network) -> Engine:
        """Return what loads the rows that networks share, for all devices."""
        if len(self.devices) == 1:
            return net.engine
        return EngineOfDevices(net.engine)

    def _rows_of(self, member: Member, refit: bool) -> LoadedRows:
        """Return the rows of a network, or of its refit, and tell it what it must know
        to read such data; networks that read them alike share them."""
        net = member.net
        prepared = member.trial.prepared
        loaded = self._shared.get((prepared, refit))
        used = prepared
        if loaded is not None:
            used = loaded.prepared
        elif refit:
            used = prepared.with_validation_rows()
        remember(net, **member.facts_of(used))
        if loaded is None:
            is_shared = self._is_shared(prepared)
            engine = self._reading_engine(prepared, net) if is_shared else member.engine
            loaded = self._loaded(member, used, refit, engine)
            if is_shared:
                self._shared[prepared, refit] = loaded
        return loaded

    def _loaded(
        self, member: Member, prepared: Prepared, refit: bool, engine: Engine
    ) -> LoadedRows:
        net = member.net
        is_validated = member.options.validation is not None and not refit
        judging: np.ndarray | Dataset = prepared.split.holdout
        if is_validated:
            name = member.options.validation
            file = validation_file(net, name, self._validation)
            judging = prepared.split.validation if file is None else file
        elif refit:  # on the rows that judged before
            judging = prepared.split.validation
        return LoadedRows(prepared, engine, judging, is_validated)

    def _is_shared(self, prepared: Prepared) -> bool:
        sharing = [
            member for member in self.members if member.trial.prepared is prepared
        ]
        return len(sharing) > 1

    def _reading_engine(self, prepared: Prepared, net: Network) -> Engine:
        """Return what loads the rows that a network shares with others."""
        if prepared is self.plan.prepared:
            return self._engine_of(self.plan.net)
        return self._engine_of(net.sibling(net.seed))

    def _resume(self, config: dict) -> None:
        """Go on from a checkpoint, if there is one."""
        ds = self.plan.prepared.ds
        check_alike(self.group, config, ds, self.engine)
        states: list[State | None] = [None] * len(self.members)
        if self.checkpoint.is_used:
            first = self.plan.trials[0]
            rows = []
            if first.has_own_rows:
                rows = [first.prepared.split.training]
            facts = RunFacts(config, data_digest(ds, *rows), self.engine.describe())
            states = self.checkpoint.begin(facts, len(self.members))
        self.is_resumed = any(state is not None for state in states)
        for member, state in zip(self.members, states, strict=True):
            if state is not None:
                member.resume(self.checkpoint, state)
        at = [
            [member.at.epoch, member.at.row, member.at.losses]
            for member in self.members
        ]
        self.group.agree(
            {"resume": at}, "all ranks must see the same checkpoint", "--{}"
        )

    # ---- the run

    def run(self, config: dict) -> None:
        """Train all networks that `begin` has made ready, from a checkpoint on if there
        is one. config: what all ranks and it must agree about. Raises as train does."""
        self._resume(config)
        self.stop.answered = True
        self._steps = {
            number: member.steps() for number, member in enumerate(self.members)
        }
        if self.is_resumed:
            refits = (
                member.at.epoch if member.at.before_refit else 0
                for member in self.members
            )
            self._reported = [
                min(member.epochs_done for member in self.members),
                min(refits),
            ]
        self.callback.start(self.info())
        try:
            with ctrl_c_to(self.stop), ThreadPoolExecutor(1) as worker:
                self._train(worker)
        except Stopped:
            self._save()
            raise
        finally:
            self.callback.close()
            for member in self.members:
                if member.rows is not None:
                    member.rows.release()
            self.engines = None
            self.checkpoint.finish()

    def _train(self, worker: ThreadPoolExecutor) -> None:
        """Answer what the networks ask for, all of the same kind at a time, until none
        asks."""
        answers: dict[int, object] = {}
        is_agreed = False  # how this ends is how it ends on all ranks
        try:
            while asks := self._asks(answers):
                if any(ask is None or ask.what == "epoch" for ask in asks.values()):
                    self._report()
                answers = {}
                kinds = {ask.what for ask in asks.values() if ask is not None}
                for what in sorted(kinds):  # the same order on all ranks
                    of_kind = {
                        n: ask
                        for n, ask in asks.items()
                        if ask is not None and ask.what == what
                    }
                    answers |= self._answer(worker, what, of_kind)
            is_agreed = True
        except (Stopped, NotFinite):
            is_agreed = True
            raise
        finally:
            for steps in self._steps.values():
                steps.close()
            self._steps.clear()
            if is_agreed and self.ranks.size > 1:
                # the parameters that the networks' owners have trained
                with self.ranks.sharing_vectors():
                    for member in self.members:
                        member.take_parameters()
        self._report()

    def _asks(self, answers: Mapping[int, object]) -> dict[int, Ask | None]:
        """Return what each network asks for next, given the answers to the last; None
        where it has ended an epoch. Raises Stopped when all have ended and one was
        stopped, NotFinite when no network is left."""
        asks: dict[int, Ask | None] = {}
        stopped = None
        for number, steps in list(self._steps.items()):
            if number in self._together:
                continue
            try:
                ask = steps.send(answers.get(number))
                if ask is TOGETHER:
                    self._together.add(number)
                else:
                    asks[number] = ask
                continue
            except StopIteration:
                pass
            except NotFinite as error:
                self._drop(self.members[number], error)
            except Stopped as error:
                stopped = error
            del self._steps[number]
        if stopped is not None:
            raise stopped
        if not asks and self._together:
            self._meet()
            return self._asks({})
        return asks

    def _meet(self) -> None:
        """Let the networks go on, which all wait or have ended; those that a comparison
        finds worse are given up."""
        self._together.clear()
        if self._halving is None:
            return
        metrics = {
            member.number: member.chosen("val_metrics") for member in self.alive()
        }
        for number in self._halving.compare(metrics):
            if number in self._steps:
                self._steps.pop(number).close()

    def _drop(self, member: Member, error: NotFinite) -> None:
        """Go on without a network whose loss is no number. Raises its error if it was
        the last, or has rows of its own."""
        member.failed = error
        if not self.alive() or member.trial.has_own_rows:
            raise error
        log.warning(
            "network %d, seed %d, is left out: %s",
            member.number,
            member.net.seed,
            error,
        )

    def left(self) -> list[Member]:
        """Return the networks whose losses are numbers."""
        return [member for member in self.members if member.failed is None]

    def alive(self) -> list[Member]:
        """Return those that were not given up."""
        if self._halving:
            gone = self._halving.given_up
        else:
            gone = ()
        return [member for member in self.left() if member.number not in gone]

    # ---- one round

    def _answer(
        self, worker: ThreadPoolExecutor, what: str, asks: dict[int, Ask]
    ) -> dict[int, object]:
        """Compute what the networks ask for, each rank its share; signals are answered
        here meanwhile."""
        own_asks = self.ranks.owned(asks)
        if self.engines:
            running = worker.submit(self.engines.compute, what, own_asks)
        else:  # a network alone: ranks and GPUs may share the batches of its engine
            running = worker.submit(
                lambda: [ask.of(self.engine) for ask in own_asks.values()]
            )
        while not self._is_answered(running, own_asks):
            self._show(own_asks)
        return self.ranks.answers(what, asks, running.result())

    def _is_answered(self, running: Future, own_asks: dict[int, Ask]) -> bool:
        """Wait a moment; return whether this rank and all others have computed their
        shares. A signal that one of them has had stops all."""
        if self.stop.signum is not None:
            stop_all(own_asks)
        is_done = bool(wait([running], POLL_SECONDS).done)
        if is_done:
            running.result()  # an error ends this rank, and so the others
        is_answered, signum = self.ranks.exchange(is_done, self.stop.signum)
        if signum is not None:
            self._agreed.request(signum)
            stop_all(own_asks)
        return is_answered

    def _show(self, asks: dict[int, Ask]) -> None:
        progress = [
            ask.job.progress for ask in asks.values() if ask.job.progress is not None
        ]
        done = sum(p.row for p in progress)
        if done:
            rows = sum(len(ask.job.rows) for ask in asks.values())
            first = self.members[next(iter(asks))]
            # turns a loss by rows into one by weights
            rows_by_weight = first.rows.count / first.rows.training.weight()
            of_epoch = first.epoch_rows()
            loss = sum(p.loss for p in progress) / done * rows_by_weight
            self.callback.update(
                first.at.epoch + 1, done * of_epoch // rows, of_epoch, loss
            )

    # ---- after an epoch

    def _report(self) -> None:
        """Report each epoch that every network has finished or stopped before; save
        the states where that is due."""
        left = self.left()
        running = [self.members[number] for number in self._steps]
        choosing = [member for member in running if not member.at.before_refit]
        refits = [member for member in left if member.at.before_refit]
        is_new, epoch = self._report_epochs(False, left, choosing)
        if refits and not choosing:
            if not self._reports_refit:
                self._reports_refit = True
                self.callback.refit(
                    max(member.last_epoch() for member in refits), refits[0].rows.count
                )
            is_newer, epoch = self._report_epochs(True, refits, running)
            is_new = is_new or is_newer
        # the rank that writes it decides
        if is_new and self.checkpoint.path is not None:
            is_last = all(member.is_over() for member in running)
            is_due = self.checkpoint.due(epoch, epoch if is_last else self.epochs)
            if self.ranks.group.gather(is_due)[0]:
                self._save()

    def _report_epochs(
        self, refit: bool, members: Sequence[Member], running: Sequence[Member]
    ) -> tuple[bool, int]:
        """Report the new epochs, of the refit or of what comes before it, that
        networks have done; return (whether there are any, how many are done in all).
        running: those that go on."""
        seconds_of = {
            member: member.at.epoch_seconds if refit else member.chosen("epoch_seconds")
            for member in members
        }
        done = min(
            (len(seconds_of[member]) for member in running),
            default=max(map(len, seconds_of.values())),
        )
        start = self._reported[refit]
        if done <= start:
            return False, done
        if refit:
            epochs = max(member.last_epoch() for member in members)
            lists = [member.at.losses[start:] for member in members]
            losses = {"loss": means_by_epoch(lists), "val_loss": None}
        else:
            epochs = self.epochs
            losses = self.losses(start)
        for new, number in enumerate(range(start, done)):
            there = [
                (seconds[number], member.batches)
                for member, seconds in seconds_of.items()
                if len(seconds) > number
            ]
            took = max(seconds for seconds, _ in there)
            batches = sum(count for _, count in there)
            if "val_metric" in losses:
                value = losses["val_metric"][new]
                is_best = len(self.members) == 1 and self.members[0].is_best
                name = next(m.monitor.name for m in members if m.monitor)
                self.callback.judged(
                    number + 1, name, math.nan if value is None else value, is_best
                )
            val_loss = losses["val_loss"] and losses["val_loss"][new]
            self.callback.epoch(
                number + 1,
                epochs,
                losses["loss"][new],
                val_loss,
                took,
                1e6 * took / batches,
            )
        self._reported[refit] = done
        return True, done

    def _save(self) -> None:
        """Save the states as they are now, where the call asks for a checkpoint."""
        if self.checkpoint.path is None or (self.ranks.size == 1 and self.group.rank):
            return
        try:
            with self.ranks.sharing_vectors():
                states = [
                    None if member.failed else member.state() for member in self.members
                ]
        except MemoryError as error:
            self.checkpoint.lose(error)
            return
        if self.group.rank == 0:
            self.checkpoint.save(states)

    # ---- metrics

    def losses(
        self, first: int = 0, weights: Mapping[Member, float] | None = None
    ) -> dict:
        """Return the means of the networks' losses, of each epoch from `first` on;
        those given up have no more.

        weights: of some networks; None: 1 of all.
        """
        weights = weights or dict.fromkeys(self.left(), 1.0)
        alive = {*self.alive()}
        epochs = max(member.epochs_done for member in weights)
        histories = [
            (network.losses(), network.best_epoch(), epochs if network in alive else 0)
            for network in weights
        ]
        return mean_losses(histories, list(weights.values()), first)

    def threads(self) -> int:
        threads = self.members[0].threads
        if self.plan.is_alone:
            return threads
        batch = self.members[0].options.batch_number
        at_once = max(len(self.members), self.engine.threads_for(batch))
        return min(self.engine.threads, at_once)

    def info(self) -> dict:
        """Return the settings of the run: see Callback.start."""
        plan = self.plan
        net = plan.net
        first = self.members[0]
        rows = self.members[0].rows
        if self.engines:
            lines = [pack.describe() for pack in self.engines.packs]
        else:
            lines = []
        shared = "".join(lines)
        # how many architectures there are, shared out among what
        if len(lines) > 1 or self.ranks.size > 1:
            count = len(self.members)
            kinds = len(numbers_by_layers({m.number: m.net for m in self.members}))
            shares = {"ranks": self.ranks.size, "devices": len(self.devices)}
            shared = f"{count} networks" + (
                f" of {kinds} architectures" if kinds > 1 else ""
            )
            shared += "".join(f" on {n} {what}" for what, n in shares.items() if n > 1)
        layers = net.spec
        if plan.variation is not None:
            layers = f"{layers}, but for {plan.variation.text}"
        holdout = rows.holdout_count
        # the rows that are held out otherwise judge the networks
        if plan.is_judged_by_folds:
            holdout = len(plan.prepared.split.holdout)
        return {
            **asdict(plan.options),
            "epochs": self.epochs,
            "backend": self.engine.describe(),
            "threads": self.threads(),
            "dtype": net.dtype,
            "seed": net.seed,
            "networks": len(self.members),
            "parameters": sum(member.net.parameter_count for member in self.members),
            "loss": net.loss,
            "rows": rows.count,
            "holdout": holdout,
            "validation": first.validation_count,
            "monitor": first.monitor.name if first.monitor else None,
            "inputs": net.inputs,
            "encoding": first.net.encoding,
            "batches": first.batches,
            "routes": lambda: [*lines, *self.engine.routes(first.options.batch_number)],
            "layers": f"{shared}: {layers}" if shared else layers,
            "resumed": self._resumed(),
        }

    def _resumed(self) -> dict | None:
        """Return where the checkpoint had the run, for callbacks; None for a run that
        starts afresh."""
        if not self.is_resumed:
            return None
        first = self.members[0]
        losses = self.losses()
        seconds_of_members = [
            member.chosen("epoch_seconds")[: self._reported[0]]
            for member in self.members
        ]
        seconds = [max(took) for took in zip(*seconds_of_members, strict=True)]
        done = zip(
            losses["loss"],
            losses["val_loss"] or [None] * self._reported[0],
            seconds,
            strict=False,
        )
        metrics = [
            math.nan if value is None else value
            for value in losses.get("val_metric", [])
        ]
        at = {
            "file": self.checkpoint.source,
            "epoch": first.at.epoch if first.at.before_refit else self._reported[0],
        }
        return {**at, "row": first.at.row, "done": list(done), "metrics": metrics}


def mean_losses(
    histories: Sequence[tuple[dict, int | None, int]],
    weights: Sequence[float],
    first: int = 0,
) -> dict:
    """Return the weighted means of networks' losses, of each epoch from `first` on.

    histories: (losses, best epoch, epochs) of a network; after its last one, up to
    `epochs`, count those of the one it keeps.
    """
    names = dict.fromkeys(name for losses, *_ in histories for name in losses)
    means = {}
    for name in names:
        lists = []
        of_lists = []
        for (losses, best_epoch, epochs), weight in zip(
            histories, weights, strict=True
        ):
            values = losses.get(name)
            if values is None:  # the network is not judged so
                continue
            lasting = epochs - max(len(values), first)
            if values:
                kept = values[(best_epoch or 0) - 1]
                values = values[first:] + [kept] * lasting
            lists.append(values)
            of_lists.append(weight)
        means[name] = means_by_epoch(lists, of_lists) if lists else None
    return means


def means_by_epoch(
    lists: Sequence[Sequence[float | None]], weights: Sequence[float] | None = None
) -> list[float | None]:
    """Return the weighted mean of the first entries, of the second ones, ..., each of
    the lists that are long enough.

    None entries do not count; None where there are no others. weights: of the lists, 1
    each by default.
    """
    if len(lists) == 1:
        return list(lists[0])
    means: list[float | None] = []
    for values in zip_longest(*lists):
        pairs = zip(values, weights or [1.0] * len(lists), strict=True)
        defined = [pair for pair in pairs if pair[0] is not None]
        mean = None
        if defined:
            numbers, counts = zip(*defined, strict=True)
            mean = float(np.average(numbers, weights=counts))
        means.append(mean)
    return means


def check_alike(
    rank_group: RankGroup, config: dict, ds: Dataset, engine: Engine
) -> None:
    """Raise UsageError if the ranks are not about to do the same: by flags, data or
    instruction set."""
    if rank_group.size == 1:
        return
    flags = {
        name: config[name]
        for name in dict.fromkeys([*DECIDING, *config])
        if name in config
    }
    rank_group.agree(flags, "give all ranks the same flags", "--{}")
    rank_group.agree(
        {"dataset": data_digest(ds)}, "give all ranks the same data", "SHA-256 of --{}"
    )
    backend = {"backend": engine.describe()}
    rank_group.agree(
        backend, "choose one that all have, by --backend or NN_ISA", "--{}"
    )
